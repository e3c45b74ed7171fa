/* The real disk: what a death, a full disk and other processes do to the
 * growing end of a file. */
#define _GNU_SOURCE
#include "support/posix_tail.h"

#include <pthread.h>

/* ---- Deaths ---- */

/* kill -9 right after a commit: all that was committed is in the file, and
 * nothing but zeros behind it. */
static void test_kill_loses_nothing_committed(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        for (unsigned count = 1; count < 5000; count = count * 3 + 1) {
            int outcome;
            pid_t child;

            put_file(world, "file", "", 0);
            child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                mk_file *file;

                CHILD_CHECK(mk_file_open(world->vfs, path_of(world, "file"),
                                         MK_OPEN_WRITE, &file, NULL) == MK_OK);
                CHILD_CHECK(mk_file_tail_begin(file, 0, all_modes[i], NULL) ==
                            MK_OK);
                for (unsigned j = 0; j < count; j++) {
                    CHILD_CHECK(append(file, SMALL, j, NULL) == MK_OK);
                    if (j < SYNCED) assert_synced(file);
                }
                raise(SIGKILL);
            }
            assert_int_equal(waitpid(child, &outcome, 0), child);
            assert_true(WIFSIGNALED(outcome));
            assert_small_appends(world, "file", count);
        }
    }
}

/* A forked child that closes the file neither cuts nor writes it. */
static void test_fork_leaves_the_tail_with_the_parent(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        mk_file *file;
        int64_t size;
        pid_t child;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i]);
        append_many(file, RUN);
        assert_int_equal(truncate(path_of(world, "file"), 1 << 20), 0);
        size = size_on_disk(world, "file");
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            CHILD_CHECK(mk_file_close(file, NULL) == MK_OK);
            _exit(0);
        }
        assert_child_fine(child);
        assert_int_equal(size_on_disk(world, "file"), size);
        for (unsigned j = RUN; j < 2 * RUN; j++) {
            assert_int_equal(append(file, SMALL, j, NULL), MK_OK);
        }
        close_file(file);
        assert_small_appends(world, "file", 2 * RUN);
    }
}

/* ---- Full disks ---- */

/* Append until it fails. All that fits must have been stored, and once there is
 * room again the tail goes on. */
static unsigned append_until_full(mk_file *file, mk_error *err)
{
    unsigned count = 0;

    while (append(file, SMALL, count, err) == MK_OK) {
        count++;
    }
    assert_int_equal(err->status, MK_IO);
    assert_int_equal(committed(file), count * SMALL);
    assert_int_equal(mk_file_truncate(file, count * SMALL, NULL), MK_OK);
    return count;
}

/* A limit at any place around the steps in which zeros are written. */
static void test_limit_stops_no_append_that_fits(void **state)
{
    static const unsigned limits[] = {SMALL,  4096,   200000,     262143,
                                      262144, 262145, 262144 * 2, 300000};
    posix_world *world = *state;
    struct rlimit limit;
    mk_error err;

    for (size_t i = 0; i < MODES * (sizeof limits / sizeof *limits); i++) {
        unsigned size = limits[i / MODES];
        mk_file *file;
        unsigned count;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i % MODES]);
        limit_file_size(&limit, size);
        count = append_until_full(file, &err);
        assert_int_equal(err.os_errno, EFBIG);
        assert_int_equal(count, size / SMALL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (unsigned j = count; j < count + RUN; j++) {
            assert_int_equal(append(file, SMALL, j, NULL), MK_OK);
        }
        close_file(file);
        assert_small_appends(world, "file", count + RUN);
    }
}

/* Zeros that could not be written whole are given back: others may need the
 * room. */
static void test_zeros_in_vain_are_given_back(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "file", 0, MK_TAIL_MAPPED);
    struct rlimit limit;

    limit_file_size(&limit, 300000);
    append_many(file, 262144 / SMALL);
    assert_int_equal(size_on_disk(world, "file"), 262144);
    assert_int_equal(append(file, SMALL, 0, NULL), MK_OK);
    assert_int_equal(size_on_disk(world, "file"), committed(file));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    close_file(file);
}

/* The same before appends that are synced: those that fit need no zeros. */
static void test_synced_appends_fit_without_zeros(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "file", 0, MK_TAIL_AHEAD);
    struct rlimit limit;
    mk_error err;

    limit_file_size(&limit, 200000);
    for (unsigned i = 0; i < 200000 / SMALL; i++) {
        if (i < SYNCED) assert_synced(file);
        assert_int_equal(append(file, SMALL, i, &err), MK_OK);
        assert_int_equal(size_on_disk(world, "file"), committed(file));
    }
    assert_int_equal(append(file, SMALL, 0, &err), MK_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(mk_file_truncate(file, 200000 / SMALL * SMALL, NULL),
                     MK_OK);
    close_file(file);
    assert_small_appends(world, "file", 200000 / SMALL);
}

/* On a disk that is really full too all that fits is stored, and what does not
 * is an error, never a signal. */
static void test_full_disk_is_an_error(void **state)
{
    posix_world *world = *state;
    mk_error err;

    if (!mount_small_disk(world, "tmpfs")) skip();
    for (int i = 0; i < MODES; i++) {
        mk_file *file = open_tail(world, "small/file", 0, all_modes[i]);
        unsigned count = append_until_full(file, &err);

        assert_int_equal(err.os_errno, ENOSPC);
        /* A page more would have fitted nowhere. */
        assert_true(count * SMALL > (1 << 20) - 4096 - SMALL);
        assert_int_equal(append(file, SMALL, count, &err), MK_IO);
        assert_int_equal(mk_file_truncate(file, count * SMALL, NULL), MK_OK);
        close_file(file);
        assert_small_appends(world, "small/file", count);
        assert_int_equal(unlink(path_of(world, "small/file")), 0);
    }
    unmount_small_disk(world);
}

/* Zeros once written are room that nobody can take: a disk filled by others
 * meanwhile harms no append up to there. */
static void test_zeros_are_room(void **state)
{
    posix_world *world = *state;
    char block[4096] = {1};
    mk_file *file;
    int fd;

    if (!mount_small_disk(world, "tmpfs")) skip();
    file = open_tail(world, "small/file", 0, MK_TAIL_MAPPED);
    append_many(file, 1);
    fd = open(path_of(world, "small/other"), O_WRONLY | O_CREAT | O_CLOEXEC,
              0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0) {
        continue;
    }
    assert_int_equal(errno, ENOSPC);
    close(fd);
    for (unsigned i = 1; i < 262144 / SMALL; i++) {
        assert_int_equal(append(file, SMALL, i, NULL), MK_OK);
    }
    close_file(file);
    assert_small_appends(world, "small/file", 262144 / SMALL);
    unmount_small_disk(world);
}

/* Out of memory a reservation fails, and the next one works. */
static void test_reserve_survives_a_poor_heap(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "file", 0, MK_TAIL_PLAIN);
    uint8_t *place;

    world->heap_calls = 0;
    world->fail_at = 1;
    assert_int_equal(mk_file_tail_reserve(file, SMALL, &place, NULL),
                     MK_NO_MEMORY);
    assert_null(place);
    world->fail_at = 0;
    append_many(file, 3);
    close_file(file);
    assert_small_appends(world, "file", 3);
}

/* ---- Others ---- */

/* A file that somebody else shortens takes no more appends: an error in all
 * modes, and never a signal. */
static void test_a_shortened_file_takes_no_appends(void **state)
{
    posix_world *world = *state;
    mk_error err;

    for (int i = 0; i < MODES; i++) {
        mk_file *file;
        uint8_t *place;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i]);
        append_many(file, RUN);
        assert_int_equal(mk_file_tail_reserve(file, SMALL, &place, NULL),
                         MK_OK);
        assert_int_equal(truncate(path_of(world, "file"), 0), 0);
        wait_tick();
        for (int j = 0; j < 3; j++) {
            assert_int_equal(append(file, SMALL, 0, &err), MK_CORRUPT_SEGMENT);
            assert_string_equal(err.path, path_of(world, "file"));
        }
        assert_int_equal(truncate(path_of(world, "file"), 1 << 20), 0);
        assert_int_equal(append(file, SMALL, 0, &err), MK_OK);
        assert_int_equal(truncate(path_of(world, "file"), 0), 0);
        assert_int_equal(mk_file_tail_end(file, &err), MK_CORRUPT_SEGMENT);
        assert_int_equal(size_on_disk(world, "file"), 0);
        assert_int_equal(mk_file_tail_begin(file, SMALL, all_modes[i], &err),
                         MK_CORRUPT_SEGMENT);
        assert_int_equal(mk_file_tail_begin(file, 0, all_modes[i], &err),
                         MK_OK);
        close_file(file);
    }
}

/* The same in the moment between two looks at the size: what is built goes
 * nowhere, and is not taken for appended. */
static void test_a_file_shortened_under_an_append(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        mk_file *file;
        uint8_t *place;
        mk_error err;
        mk_status status;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i]);
        append_many(file, RUN);
        assert_int_equal(mk_file_tail_reserve(file, SMALL, &place, NULL),
                         MK_OK);
        assert_int_equal(truncate(path_of(world, "file"), 0), 0);
        memset(place, 'x', SMALL);
        status = mk_file_tail_commit(file, SMALL, &err);
        if (status != MK_OK) {
            assert_int_equal(status, MK_CORRUPT_SEGMENT);
            assert_int_equal(size_on_disk(world, "file"), 0);
        } else {
            /* It was written, behind a hole. */
            assert_true(size_on_disk(world, "file") > RUN * SMALL);
        }
        assert_int_equal(mk_file_truncate(file, 0, NULL), MK_OK);
        close_file(file);
    }
}

struct watch {
    mk_file *file;
    _Atomic bool stop;
    bool wrong;
};

/* Views from another thread see whole appends only. */
static void *look(void *context)
{
    struct watch *watch = context;
    mk_heap heap = mk_heap_default();
    mk_scratch scratch;
    uint8_t wanted[SMALL];
    int64_t position = 0;

    mk_scratch_init(&scratch, &heap);
    while (!watch->stop) {
        mk_span span;

        if (mk_file_view(watch->file, &scratch, position, SMALL, &span, NULL) !=
            MK_OK) {
            watch->wrong = true;
        }
        if (span.size == 0) continue;
        fill(wanted, SMALL, (unsigned)(position / SMALL));
        if (span.size != SMALL || memcmp(span.data, wanted, SMALL) != 0) {
            watch->wrong = true;
        }
        position += SMALL;
    }
    mk_scratch_deinit(&scratch);
    return NULL;
}

static void test_views_follow_from_another_thread(void **state)
{
    posix_world *world = *state;
    struct watch watch = {
        .file = open_tail(world, "file", 0, MK_TAIL_AUTO),
    };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, look, &watch), 0);
    append_many(watch.file, 20000);
    watch.stop = true;
    pthread_join(thread, NULL);
    assert_false(watch.wrong);
    close_file(watch.file);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_kill_loses_nothing_committed),
        TEST(test_fork_leaves_the_tail_with_the_parent),
        TEST(test_limit_stops_no_append_that_fits),
        TEST(test_zeros_in_vain_are_given_back),
        TEST(test_synced_appends_fit_without_zeros),
        TEST(test_full_disk_is_an_error),
        TEST(test_zeros_are_room),
        TEST(test_reserve_survives_a_poor_heap),
        TEST(test_a_shortened_file_takes_no_appends),
        TEST(test_a_file_shortened_under_an_append),
        TEST(test_views_follow_from_another_thread),
    };

    return cmocka_run_group_tests_name("tail_posix_faults", tests, NULL, NULL);
}
