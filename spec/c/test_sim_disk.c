/* The simulated disk as processes have it, and as it looks from outside. */
#include "support/sim_world.h"

#include "os/vfs.h"

/* ---- Words and options ---- */

/* The words are those of the core's own list, in the same order. */
static void test_operations_are_the_core_s(void **state)
{
    static const char *const words[] = {
#define X(word) #word,
        MK_VFS_OPERATIONS(X)
#undef X
    };

    (void)state;
    assert_int_equal(sizeof words / sizeof *words, MK_SIM_OPERATION_COUNT);
    for (size_t i = 0; i < MK_SIM_OPERATION_COUNT; i++) {
        mk_sim_operation operation = (mk_sim_operation)i;

        assert_string_equal(mk_sim_operation_name(operation), words[i]);
        assert_int_equal(mk_sim_operation_of(words[i]), operation);
    }
    assert_int_equal(mk_sim_operation_of("sync"), MK_SIM_OPERATION_COUNT);
    assert_int_equal(mk_sim_profile_of("ordered"), MK_SIM_ORDERED);
    assert_string_equal(mk_sim_profile_name(MK_SIM_KILL9), "kill9");
    assert_int_equal(mk_sim_flavour_of("retryable"), MK_SIM_RETRYABLE);
    assert_string_equal(mk_sim_flavour_name(MK_SIM_LOST), "lost");
}

/* Options out of range are refused. */
static void test_options_are_checked(void **state)
{
    mk_sim_options options;
    mk_sim_disk *disk;

    (void)state;
    mk_sim_options_default(&options);
    options.page_bytes = 1000;
    assert_int_equal(mk_sim_disk_new(NULL, &options, &disk, NULL),
                     MK_INVALID_ARGUMENT);
    mk_sim_options_default(&options);
    options.sector_bytes = 8192;
    assert_int_equal(mk_sim_disk_new(NULL, &options, &disk, NULL),
                     MK_INVALID_ARGUMENT);
    mk_sim_options_default(&options);
    options.capacity_bytes = -2;
    assert_int_equal(mk_sim_disk_new(NULL, &options, &disk, NULL),
                     MK_INVALID_ARGUMENT);
    assert_null(disk);
    mk_sim_disk_free(NULL);
    assert_int_equal(mk_sim_disk_new(NULL, NULL, &disk, NULL), MK_OK);
    mk_sim_disk_options(disk, &options);
    assert_int_equal(options.seed, 1);
    mk_sim_disk_free(disk);
}

/* ---- Names and locks ---- */

/* Names come sorted by bytes, with their kinds. */
static void test_list(void **state)
{
    sim_world *world = *state;
    mk_name_list list;
    mk_error err;

    assert_int_equal(mk_vfs_list(world->vfs, "/", &list, NULL), MK_OK);
    assert_int_equal(list.count, 0);
    mk_name_list_deinit(&list);
    put_file(world, "/b", "");
    put_file(world, "/a.b", "");
    put_file(world, "/a/x", "");
    put_file(world, "/\xc3\xa9", "");
    assert_int_equal(mk_vfs_list(world->vfs, "/", &list, NULL), MK_OK);
    assert_int_equal(list.count, 4);
    assert_string_equal(list.names[0], "a");
    assert_string_equal(list.names[1], "a.b");
    assert_string_equal(list.names[2], "b");
    assert_string_equal(list.names[3], "\xc3\xa9");
    assert_int_equal(list.kinds[0], MK_KIND_DIRECTORY);
    assert_int_equal(list.kinds[1], MK_KIND_FILE);
    mk_name_list_deinit(&list);
    failed_with(mk_vfs_list(world->vfs, "/b", &list, &err), &err, ENOTDIR);
    failed_with(mk_vfs_list(world->vfs, "/c", &list, &err), &err, ENOENT);
}

/* Paths are made absolute by their words alone. */
static void test_resolve(void **state)
{
    static const char *const cases[][2] = {
        {"/", "/"},           {"/a/b", "/a/b"},    {"a", "/a"},
        {"//a///b/", "/a/b"}, {"/a/./b", "/a/b"},  {"/a/../b", "/b"},
        {"/../..", "/"},      {"/a/b/../..", "/"}, {"/.a/..b", "/.a/..b"},
    };
    sim_world *world = *state;
    char long_name[400];
    char out[64];
    mk_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            mk_vfs_resolve(world->vfs, cases[i][0], out, sizeof out, NULL),
            MK_OK);
        assert_string_equal(out, cases[i][1]);
    }
    failed_with(mk_vfs_resolve(world->vfs, "", out, sizeof out, &err), &err,
                ENOENT);
    failed_with(mk_vfs_resolve(world->vfs, "/abc", out, 4, &err), &err,
                ENAMETOOLONG);
    memset(long_name, 'x', sizeof long_name);
    long_name[0] = '/';
    long_name[sizeof long_name - 1] = '\0';
    failed_with(mk_vfs_mkdir(world->vfs, long_name, &err), &err, ENAMETOOLONG);
}

/* A lock keeps out everybody, on this machine and another, names its holder,
 * follows the inode, and ends with its handle. */
static void test_lock(void **state)
{
    sim_world *world = *state;
    mk_env *other;
    mk_file *lock;
    mk_file *second;
    mk_error err;

    assert_int_equal(mk_env_new_sim(world->disk, &other, NULL), MK_OK);
    assert_int_equal(mk_vfs_lock(world->vfs, "/lock", "first", &lock, NULL),
                     MK_OK);
    assert_disk(world->disk, "/lock=first;");
    assert_int_equal(mk_vfs_lock(world->vfs, "/lock", "x", &second, &err),
                     MK_LOCKED);
    assert_non_null(strstr(err.message, "first"));
    assert_string_equal(err.path, "/lock");
    rename_to(world, "/lock", "/moved");
    assert_int_equal(mk_vfs_lock(other->vfs, "/moved", "x", &second, NULL),
                     MK_LOCKED);
    assert_disk(world->disk, "/moved=first;");
    assert_int_equal(mk_vfs_lock(other->vfs, "/lock", "other", &second, NULL),
                     MK_OK);
    close_file(lock);
    close_file(second);
    assert_int_equal(mk_vfs_lock(other->vfs, "/moved", "2nd", &lock, NULL),
                     MK_OK);
    assert_disk(world->disk, "/lock=other;/moved=2nd;");
    close_file(lock);
    mk_env_free(other);
}

/* ---- From outside ---- */

/* All files, sorted by their whole paths. */
static void test_list_of_the_disk(void **state)
{
    sim_world *world = *state;
    mk_sim_paths paths;

    put_file(world, "/a/x", "1");
    put_file(world, "/a.b", "2");
    put_file(world, "/a/b/c", "3");
    assert_int_equal(mk_sim_disk_list(world->disk, &paths, NULL), MK_OK);
    assert_int_equal(paths.count, 3);
    assert_string_equal(paths.paths[0], "/a.b");
    assert_string_equal(paths.paths[1], "/a/b/c");
    assert_string_equal(paths.paths[2], "/a/x");
    mk_sim_paths_deinit(&paths);
    mk_sim_paths_deinit(&paths);
}

/* What is written from outside is stable at once, with its names, whatever was
 * going on with them; and it is no step. */
static void test_write_is_stable(void **state)
{
    sim_world *world = *state;
    mk_error err;
    int64_t size;

    close_file(create_file(world, "/f"));
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    assert_int_equal(mk_vfs_mkdir(world->vfs, "/d", NULL), MK_OK);
    close_file(create_file(world, "/d/f"));
    assert_int_equal(stats_of(world->disk).steps, 6);
    put_file(world, "/f", "1");
    put_file(world, "/d/f", "2");
    put_file(world, "/d/1/2/3/4/5/6/7/8/9/f", "3");
    put_file(world, "/f", "4");
    assert_int_equal(stats_of(world->disk).steps, 6);
    assert_int_equal(stats_of(world->disk).pending, 0);
    crash(world, MK_SIM_LAZY);
    assert_disk(world->disk, "/d/1/2/3/4/5/6/7/8/9/f=3;/d/f=2;/f=4;");
    failed_with(mk_sim_disk_write(world->disk, "/d", "", 0, &err), &err,
                EISDIR);
    failed_with(mk_sim_disk_write(world->disk, "/", "", 0, &err), &err, EISDIR);
    failed_with(mk_sim_disk_write(world->disk, "/f/g", "", 0, &err), &err,
                ENOTDIR);
    failed_with(mk_sim_disk_size(world->disk, "/none", &size, &err), &err,
                ENOENT);
    assert_int_equal(mk_sim_disk_size(world->disk, "/d/f", &size, NULL), MK_OK);
    assert_int_equal(size, 1);
}

/* Room for more files is made in time, whatever is being made. */
static void test_write_of_many_files(void **state)
{
    sim_world *world = *state;
    char path[32];

    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "/%d/f", i);
        put_file(world, path, path);
    }
    for (int i = 0; i < 40; i++) {
        int64_t size;

        snprintf(path, sizeof path, "/%d/f", i);
        assert_int_equal(mk_sim_disk_size(world->disk, path, &size, NULL),
                         MK_OK);
        assert_int_equal(size, strlen(path));
    }
}

/* Damage is on the medium: no crash takes it back. */
static void test_damage(void **state)
{
    sim_world *world = *state;
    mk_file_stat stat;
    mk_error err;

    put_file(world, "/f", "aaaaaa");
    mk_sim_disk_manual_clock(world->disk)->now_ms = 7;
    write_at(hold(world, open_file(world, "/f", MK_OPEN_WRITE)), 4, "bbb");
    assert_int_equal(mk_sim_disk_flip(world->disk, "/f", 8 + 1, NULL), MK_OK);
    assert_disk(world->disk, "/f=acaabbb;");
    assert_int_equal(mk_sim_disk_zero(world->disk, "/f", 2, 2, NULL), MK_OK);
    assert_disk(world->disk, "/f=ac00bbb;");
    assert_int_equal(mk_sim_disk_cut(world->disk, "/f", 5, NULL), MK_OK);
    crash(world, MK_SIM_LAZY);
    assert_disk(world->disk, "/f=ac00b;");
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    assert_int_equal(stat.mtime_ms, 7);

    assert_int_equal(mk_sim_disk_flip(world->disk, "/f", 40, &err),
                     MK_INVALID_ARGUMENT);
    assert_int_equal(mk_sim_disk_flip(world->disk, "/f", -1, NULL),
                     MK_INVALID_ARGUMENT);
    assert_int_equal(mk_sim_disk_zero(world->disk, "/f", 4, 2, NULL),
                     MK_INVALID_ARGUMENT);
    assert_int_equal(mk_sim_disk_zero(world->disk, "/f", 1, INT64_MAX, NULL),
                     MK_INVALID_ARGUMENT);
    assert_int_equal(mk_sim_disk_cut(world->disk, "/f", 6, NULL),
                     MK_INVALID_ARGUMENT);
    assert_int_equal(mk_sim_disk_cut(world->disk, "/g", 0, NULL), MK_NOT_FOUND);
    assert_disk(world->disk, "/f=ac00b;");
}

/* What two machines do to one disk, both see; it outlives them. */
static void test_disk_is_shared(void **state)
{
    sim_world *world = *state;
    mk_sim_disk *disk = mk_sim_disk_acquire(world->disk);
    mk_env *other;
    mk_file *file;

    assert_int_equal(mk_env_new_sim(disk, &other, NULL), MK_OK);
    mk_sim_disk_free(disk);
    write_at(hold(world, create_file(world, "/f")), 0, "abc");
    assert_int_equal(mk_file_open(other->vfs, "/f", 0, &file, NULL), MK_OK);
    assert_memory_equal(view(world, file, 0, 3).data, "abc", 3);
    close_file(file);
    assert_int_not_equal(mk_env_random(other), mk_env_random(world->env));
    mk_env_free(other);
}

/* ---- Threads ---- */

typedef struct line_writer {
    pthread_t thread;
    mk_sim_disk *disk;
    char path[8];
    mk_status status;
} line_writer;

static mk_status write_lines(mk_vfs *vfs, const char *path)
{
    mk_file *file;
    mk_status status =
        mk_file_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, &file, NULL);

    for (int i = 0; i < 200 && status == MK_OK; i++) {
        status = mk_file_write(file, i, "x", 1, NULL);
        if (status == MK_OK && i % 10 == 0) {
            status = mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL);
        }
    }
    if (status == MK_OK) status = mk_file_close(file, NULL);
    return status;
}

static void *run_writer(void *context)
{
    line_writer *writer = context;
    mk_env *env;

    writer->status = mk_env_new_sim(writer->disk, &env, NULL);
    if (writer->status == MK_OK) {
        writer->status = write_lines(env->vfs, writer->path);
    }
    mk_env_free(env);
    return NULL;
}

/* Several threads use one disk, and clones that share its pages. */
static void test_threads(void **state)
{
    line_writer writers[4];
    mk_sim_disk *disk;

    (void)state;
    assert_int_equal(mk_sim_disk_new(NULL, NULL, &disk, NULL), MK_OK);
    for (size_t i = 0; i < 4; i++) {
        writers[i] = (line_writer){.disk = disk};
        snprintf(writers[i].path, sizeof writers[i].path, "/%zu", i);
        assert_int_equal(
            pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]),
            0);
    }
    for (int i = 0; i < 50; i++) {
        mk_sim_disk *clone;
        uint64_t hash[2];

        assert_int_equal(mk_sim_disk_clone(disk, &clone, NULL), MK_OK);
        assert_int_equal(mk_sim_disk_hash(clone, hash, NULL), MK_OK);
        assert_int_equal(mk_sim_disk_write(clone, "/0", "x", 1, NULL), MK_OK);
        mk_sim_disk_free(clone);
    }
    for (size_t i = 0; i < 4; i++) {
        int64_t size;

        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
        assert_int_equal(writers[i].status, MK_OK);
        assert_int_equal(mk_sim_disk_size(disk, writers[i].path, &size, NULL),
                         MK_OK);
        assert_int_equal(size, 200);
    }
    mk_sim_disk_free(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operations_are_the_core_s),
        TEST(options_are_checked),
        TEST(list),
        TEST(resolve),
        TEST(lock),
        TEST(list_of_the_disk),
        TEST(write_is_stable),
        TEST(write_of_many_files),
        TEST(damage),
        TEST(disk_is_shared),
        TEST(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
