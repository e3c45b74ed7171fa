/* Open files of the simulated disk: contents, tails, times and room. */
#include "support/sim_world.h"

/* ---- Files ---- */

/* Opening finds, makes, empties or refuses, as its flags say. */
static void test_open(void **state)
{
    sim_world *world = *state;
    mk_file *file;
    mk_error err;

    assert_int_equal(mk_file_open(world->vfs, "/f", 0, &file, &err),
                     MK_NOT_FOUND);
    assert_int_equal(err.os_errno, ENOENT);
    assert_string_equal(err.path, "/f");
    assert_null(file);
    file = create_file(world, "/f");
    write_at(file, 0, "abc");
    close_file(file);
    assert_int_equal(
        mk_file_open(world->vfs, "/f",
                     MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE, &file,
                     &err),
        MK_IO);
    assert_int_equal(err.os_errno, EEXIST);
    assert_disk(world->disk, "/f=abc;");
    close_file(open_file(world, "/f", MK_OPEN_WRITE | MK_OPEN_TRUNCATE));
    assert_disk(world->disk, "/f=;");

    assert_int_equal(mk_vfs_mkdir(world->vfs, "/d", NULL), MK_OK);
    assert_int_equal(mk_file_open(world->vfs, "/d", 0, &file, &err), MK_IO);
    assert_int_equal(err.os_errno, EINVAL);
    assert_int_equal(
        mk_file_open(world->vfs, "/f/x", MK_OPEN_CREATE, &file, &err), MK_IO);
    assert_int_equal(err.os_errno, ENOTDIR);
    assert_int_equal(
        mk_file_open(world->vfs, "/none/x", MK_OPEN_CREATE, &file, &err),
        MK_NOT_FOUND);
}

/* What was written is read; holes are zeros; reading ends with the file. */
static void test_write_and_view(void **state)
{
    sim_world *world = *state;
    mk_file *file = hold(world, create_file(world, "/f"));
    mk_file_stat stat;
    mk_span span;

    write_at(file, 0, "abc");
    write_at(file, 5000, "xyz");
    span = view(world, file, 0, 8192);
    assert_int_equal(span.size, 5003);
    assert_memory_equal(span.data, "abc", 3);
    for (size_t i = 3; i < 5000; i++) {
        assert_int_equal(span.data[i], 0);
    }
    assert_memory_equal(span.data + 5000, "xyz", 3);
    assert_int_equal(view(world, file, 5002, 100).size, 1);
    assert_int_equal(view(world, file, 5003, 100).size, 0);
    assert_int_equal(view(world, file, 9999, 100).size, 0);

    assert_int_equal(mk_file_truncate(file, 1, NULL), MK_OK);
    assert_int_equal(mk_file_truncate(file, 4, NULL), MK_OK);
    assert_memory_equal(view(world, file, 0, 4).data, "a\0\0\0", 4);
    assert_int_equal(mk_file_stat_open(file, &stat, NULL), MK_OK);
    assert_int_equal(stat.size, 4);
    assert_int_equal(stat.links, 1);
    assert_int_equal(stats_of(world->disk).used_bytes, 4);
}

/* A view stays as it is when the file is written to. */
static void test_view_does_not_change(void **state)
{
    sim_world *world = *state;
    mk_file *file = hold(world, create_file(world, "/f"));
    mk_span span;

    write_at(file, 0, "abc");
    span = view(world, file, 0, 3);
    write_at(file, 0,
             "xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyz"
             "xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyz");
    assert_memory_equal(span.data, "abc", 3);
}

/* An open file outlives its names. */
static void test_unlinked_file_lives_on(void **state)
{
    sim_world *world = *state;
    mk_file *file = create_file(world, "/f");
    mk_file_stat stat;

    write_at(file, 0, "abc");
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    assert_disk(world->disk, "");
    assert_memory_equal(view(world, file, 0, 3).data, "abc", 3);
    assert_int_equal(mk_file_stat_open(file, &stat, NULL), MK_OK);
    assert_int_equal(stat.links, 0);
    assert_int_equal(stats_of(world->disk).files, 1);
    assert_int_equal(stats_of(world->disk).used_bytes, 3);
    close_file(file);
    assert_int_equal(stats_of(world->disk).files, 0);
    assert_int_equal(stats_of(world->disk).used_bytes, 0);
}

/* ---- Tails ---- */

static void commit(mk_file *file, const char *text)
{
    uint8_t *tail;

    assert_int_equal(mk_file_tail_reserve(file, 100, &tail, NULL), MK_OK);
    memset(tail, '!', 100);
    memcpy(tail, text, strlen(text));
    assert_int_equal(mk_file_tail_commit(file, strlen(text), NULL), MK_OK);
}

/* A tail grows over what stands there; its end cuts off the rest. */
static void test_tail(void **state)
{
    sim_world *world = *state;
    mk_file *file;
    mk_file_stat stat;

    put_file(world, "/f", "abcdefghij");
    file = open_file(world, "/f", MK_OPEN_WRITE);
    assert_int_equal(mk_file_tail_begin(file, 3, MK_TAIL_MAPPED, NULL), MK_OK);
    commit(file, "1");
    commit(file, "23");
    assert_disk(world->disk, "/f=abc123ghij;");
    assert_int_equal(view(world, file, 0, 100).size, 6);
    assert_int_equal(view(world, file, 6, 100).size, 0);
    assert_int_equal(mk_file_stat_open(file, &stat, NULL), MK_OK);
    assert_int_equal(stat.size, 6);
    assert_int_equal(mk_file_truncate(file, 4, NULL), MK_OK);
    commit(file, "x");
    assert_disk(world->disk, "/f=abc1x;");
    assert_int_equal(mk_file_allocate(file, 8, NULL), MK_OK);
    commit(file, "y");
    assert_int_equal(mk_file_tail_end(file, NULL), MK_OK);
    assert_disk(world->disk, "/f=abc1xy;");
    write_at(file, 0, "A");
    close_file(file);
    assert_disk(world->disk, "/f=Abc1xy;");
}

/* Closing ends the tail, too. */
static void test_close_ends_the_tail(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "abcdefghij");
    file = open_file(world, "/f", MK_OPEN_WRITE);
    assert_int_equal(mk_file_tail_begin(file, 3, MK_TAIL_PLAIN, NULL), MK_OK);
    commit(file, "1");
    close_file(file);
    assert_disk(world->disk, "/f=abc1;");
}

/* A file that somebody else shortened can't be appended to. */
static void test_shortened_tail(void **state)
{
    sim_world *world = *state;
    mk_file *file;
    uint8_t *tail;
    mk_error err;

    put_file(world, "/f", "abcdef");
    file = open_file(world, "/f", MK_OPEN_WRITE);
    assert_int_equal(mk_file_tail_begin(file, 7, MK_TAIL_PLAIN, NULL),
                     MK_CORRUPT_SEGMENT);
    assert_int_equal(mk_file_tail_begin(file, 6, MK_TAIL_PLAIN, NULL), MK_OK);
    assert_int_equal(mk_sim_disk_cut(world->disk, "/f", 2, NULL), MK_OK);
    assert_int_equal(mk_file_tail_reserve(file, 1, &tail, NULL), MK_OK);
    *tail = 'x';
    assert_int_equal(mk_file_tail_commit(file, 1, &err), MK_CORRUPT_SEGMENT);
    assert_int_equal(err.position, 2);
    assert_int_equal(mk_file_close(file, NULL), MK_CORRUPT_SEGMENT);
    assert_disk(world->disk, "/f=ab;");
}

/* ---- Time and room ---- */

/* Files get their times from the disk's clock. */
static void test_times_come_from_the_clock(void **state)
{
    sim_world *world = *state;
    mk_manual_clock *clock = mk_sim_disk_manual_clock(world->disk);
    mk_file *file = hold(world, create_file(world, "/f"));
    mk_file_stat stat;
    int64_t now_ms;

    clock->now_ms = 1234;
    assert_int_equal(
        world->env->clock.now(world->env->clock.context, &now_ms, NULL), MK_OK);
    assert_int_equal(now_ms, 1234);
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    assert_int_equal(stat.mtime_ms, 0);
    write_at(file, 0, "x");
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    assert_int_equal(stat.mtime_ms, 1234);
    assert_int_equal(mk_vfs_set_mtime(world->vfs, "/f", -5, NULL), MK_OK);
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    assert_int_equal(stat.mtime_ms, -5);
}

typedef struct told_clock {
    int64_t now_ms;
    int calls;
} told_clock;

static mk_status tell_time(void *context, int64_t *now_ms, mk_error *err)
{
    told_clock *clock = context;

    (void)err;
    clock->calls++;
    *now_ms = clock->now_ms;
    return MK_OK;
}

/* A clock of somebody else's is read by the machine, never by the disk. */
static void test_given_clock_is_not_read_by_the_disk(void **state)
{
    told_clock clock = {.now_ms = 77};
    mk_sim_options options;
    sim_world *world;
    mk_file_stat stat;
    int64_t now_ms;

    (void)state;
    mk_sim_options_default(&options);
    options.clock = (mk_clock){tell_time, &clock};
    world = new_world(&options);
    assert_null(mk_sim_disk_manual_clock(world->disk));
    close_file(create_file(world, "/f"));
    assert_int_equal(clock.calls, 0);
    assert_int_equal(
        world->env->clock.now(world->env->clock.context, &now_ms, NULL), MK_OK);
    assert_int_equal(now_ms, 77);
    write_at(hold(world, create_file(world, "/f")), 0, "x");
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    assert_int_equal(stat.mtime_ms, 77);
    assert_int_equal(clock.calls, 1);
    free_world(world);
}

/* A full disk keeps what fits of a write, and has room again after a removal.
 */
static void test_capacity_in_bytes(void **state)
{
    mk_sim_options options;
    sim_world *world;
    mk_file *file;
    mk_error err;

    (void)state;
    mk_sim_options_default(&options);
    options.capacity_bytes = 10;
    world = new_world(&options);
    put_file(world, "/a", "12345");
    file = hold(world, create_file(world, "/b"));
    write_at(file, 0, "abc");
    failed_with(mk_file_write(file, 3, "defghi", 6, &err), &err, ENOSPC);
    assert_disk(world->disk, "/a=12345;/b=abcde;");
    write_at(file, 0, "ABCDE");
    failed_with(mk_file_allocate(file, 6, &err), &err, ENOSPC);
    /* A hole takes no room. */
    assert_int_equal(mk_file_truncate(file, 5000, NULL), MK_OK);
    assert_int_equal(mk_file_truncate(file, 5, NULL), MK_OK);
    assert_int_equal(mk_vfs_unlink(world->vfs, "/a", NULL), MK_OK);
    assert_int_equal(mk_file_allocate(file, 10, NULL), MK_OK);
    assert_int_equal(stats_of(world->disk).used_bytes, 10);
    write_at(file, 5, "fghij");
    assert_disk(world->disk, "/b=ABCDEfghij;");
    free_world(world);
}

/* Room that was allocated counts, written or not, until it is cut off. */
static void test_allocated_room(void **state)
{
    sim_world *world = *state;
    sim_world twin = {.counts = {0}};
    mk_file *file = hold(world, create_file(world, "/f"));

    assert_int_equal(mk_file_allocate(file, 10000, NULL), MK_OK);
    write_at(file, 5000, "abc");
    assert_int_equal(stats_of(world->disk).used_bytes, 10000);
    assert_int_equal(mk_sim_disk_clone(world->disk, &twin.disk, NULL), MK_OK);
    boot(&twin);
    write_at(hold(&twin, create_file(&twin, "/f")), 0, "abc");
    assert_int_equal(stats_of(twin.disk).used_bytes, 10000);
    close_held(&twin);
    mk_env_free(twin.env);
    mk_sim_disk_free(twin.disk);
    assert_int_equal(mk_file_truncate(file, 100, NULL), MK_OK);
    assert_int_equal(mk_file_truncate(file, 9000, NULL), MK_OK);
    assert_int_equal(stats_of(world->disk).used_bytes, 100);
    assert_int_equal(mk_file_allocate(file, 50, NULL), MK_OK);
    assert_int_equal(stats_of(world->disk).used_bytes, 50);
}

static void test_capacity_in_files(void **state)
{
    mk_sim_options options;
    sim_world *world;
    mk_file *file;
    mk_error err;

    (void)state;
    mk_sim_options_default(&options);
    options.capacity_files = 2;
    world = new_world(&options);
    assert_int_equal(mk_vfs_mkdir(world->vfs, "/d", NULL), MK_OK);
    close_file(create_file(world, "/f"));
    failed_with(mk_file_open(world->vfs, "/g", MK_OPEN_CREATE, &file, &err),
                &err, ENOSPC);
    failed_with(mk_vfs_mkdir(world->vfs, "/e", &err), &err, ENOSPC);
    failed_with(mk_vfs_lock(world->vfs, "/g", "x", &file, &err), &err, ENOSPC);
    close_file(create_file(world, "/f"));
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    close_file(create_file(world, "/g"));
    free_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(open),
        TEST(write_and_view),
        TEST(view_does_not_change),
        TEST(unlinked_file_lives_on),
        TEST(tail),
        TEST(close_ends_the_tail),
        TEST(shortened_tail),
        TEST(times_come_from_the_clock),
        TEST(given_clock_is_not_read_by_the_disk),
        TEST(capacity_in_bytes),
        TEST(allocated_room),
        TEST(capacity_in_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
