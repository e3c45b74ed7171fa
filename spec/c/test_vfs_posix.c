/* The real disk: names, listing, resolving. */
#define _GNU_SOURCE
#include "support/posix_world.h"

#include <limits.h>

/* ---- Names ---- */

/* A name's facts are those of the name itself, not of what it links to. */
static void test_stat_tells_what_a_name_is(void **state)
{
    posix_world *world = *state;
    mk_file_stat stat;
    mk_error err;

    put_file(world, "file", "12345", 5);
    assert_int_equal(symlink("file", path_of(world, "symlink")), 0);
    assert_int_equal(mkfifo(path_of(world, "pipe"), 0600), 0);
    assert_int_equal(mk_vfs_mkdir(world->vfs, path_of(world, "dir"), &err),
                     MK_OK);
    assert_int_equal(mk_vfs_link(world->vfs, path_of(world, "file"),
                                 path_of(world, "other"), &err),
                     MK_OK);

    assert_int_equal(
        mk_vfs_stat(world->vfs, path_of(world, "file"), &stat, &err), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_FILE);
    assert_int_equal(stat.size, 5);
    assert_int_equal(stat.links, 2);
    assert_int_equal(
        mk_vfs_stat(world->vfs, path_of(world, "symlink"), &stat, &err), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_SYMLINK);
    assert_int_equal(
        mk_vfs_stat(world->vfs, path_of(world, "pipe"), &stat, &err), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_OTHER);
    assert_int_equal(
        mk_vfs_stat(world->vfs, path_of(world, "dir"), &stat, &err), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_DIRECTORY);

    assert_int_equal(
        mk_vfs_stat(world->vfs, path_of(world, "none"), &stat, &err),
        MK_NOT_FOUND);
    assert_int_equal(err.os_errno, ENOENT);
    assert_string_equal(err.path, path_of(world, "none"));
}

/* Times are set to the millisecond, before 1970 too; the time of the last
 * reading stays. */
static void test_set_mtime_sets_only_that(void **state)
{
    static const int64_t times[] = {0, 1, -1, -1000, 1700000000123};
    posix_world *world = *state;
    const char *path = path_of(world, "file");
    struct stat before;
    struct stat after;
    mk_file_stat stat;

    put_file(world, "file", "", 0);
    assert_int_equal(lstat(path, &before), 0);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(mk_vfs_set_mtime(world->vfs, path, times[i], NULL),
                         MK_OK);
        assert_int_equal(mk_vfs_stat(world->vfs, path, &stat, NULL), MK_OK);
        assert_int_equal(stat.mtime_ms, times[i]);
    }
    assert_int_equal(lstat(path, &after), 0);
    assert_memory_equal(&before.st_atim, &after.st_atim, sizeof before.st_atim);
    assert_int_equal(
        mk_vfs_set_mtime(world->vfs, path_of(world, "none"), 0, NULL),
        MK_NOT_FOUND);
}

/* rename() replaces, link() does not, exchange() swaps what is there. */
static void test_names_move_as_told(void **state)
{
    posix_world *world = *state;
    const char *a = path_of(world, "a");
    const char *b = path_of(world, "b");
    mk_error err;

    put_file(world, "a", "A", 1);
    put_file(world, "b", "B", 1);
    assert_int_equal(mk_vfs_exchange(world->vfs, a, b, &err), MK_OK);
    assert_content(world, "a", "B");
    assert_content(world, "b", "A");
    assert_int_equal(mk_vfs_link(world->vfs, a, b, &err), MK_IO);
    assert_int_equal(err.os_errno, EEXIST);
    assert_int_equal(mk_vfs_rename(world->vfs, a, b, &err), MK_OK);
    assert_content(world, "b", "B");
    assert_int_equal(mk_vfs_rename(world->vfs, a, b, &err), MK_NOT_FOUND);
    assert_int_equal(mk_vfs_exchange(world->vfs, a, b, &err), MK_NOT_FOUND);
    assert_int_equal(mk_vfs_unlink(world->vfs, b, &err), MK_OK);
    assert_int_equal(mk_vfs_unlink(world->vfs, b, &err), MK_NOT_FOUND);
}

/* What the disk can't exchange is told apart from what fails. */
static void test_exchange_can_be_unsupported(void **state)
{
    posix_world *world = *state;
    mk_error err;

    assert_int_equal(mk_vfs_mkdir(world->vfs, path_of(world, "a"), &err),
                     MK_OK);
    assert_int_equal(mk_vfs_mkdir(world->vfs, path_of(world, "a/b"), &err),
                     MK_OK);
    assert_int_equal(mk_vfs_exchange(world->vfs, path_of(world, "a"),
                                     path_of(world, "a/b"), &err),
                     MK_UNSUPPORTED);
    assert_int_equal(err.status, MK_UNSUPPORTED);
    assert_int_equal(err.os_errno, EINVAL);
}

/* A hard link is one of the name: a symbolic link is not followed. */
static void test_link_does_not_follow(void **state)
{
    posix_world *world = *state;
    mk_file_stat stat;

    put_file(world, "file", "", 0);
    assert_int_equal(symlink("file", path_of(world, "symlink")), 0);
    assert_int_equal(mk_vfs_link(world->vfs, path_of(world, "symlink"),
                                 path_of(world, "copy"), NULL),
                     MK_OK);
    assert_int_equal(
        mk_vfs_stat(world->vfs, path_of(world, "copy"), &stat, NULL), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_SYMLINK);
}

/* Directories are made once, and removed when empty. */
static void test_directories_come_and_go(void **state)
{
    posix_world *world = *state;
    const char *dir = path_of(world, "dir");
    mk_error err;

    assert_int_equal(mk_vfs_mkdir(world->vfs, dir, &err), MK_OK);
    assert_int_equal(mk_vfs_mkdir(world->vfs, dir, &err), MK_IO);
    assert_int_equal(err.os_errno, EEXIST);
    assert_int_equal(
        mk_vfs_sync_directory(world->vfs, dir, MK_SYNC_CREATE_PARENT, &err),
        MK_OK);
    put_file(world, "dir/file", "", 0);
    assert_int_equal(mk_vfs_rmdir(world->vfs, dir, &err), MK_IO);
    assert_int_equal(err.os_errno, ENOTEMPTY);
    assert_int_equal(mk_vfs_sync_directory(world->vfs,
                                           path_of(world, "dir/file"),
                                           MK_SYNC_CREATE_PARENT, &err),
                     MK_IO);
    assert_int_equal(err.os_errno, ENOTDIR);
    assert_int_equal(
        mk_vfs_unlink(world->vfs, path_of(world, "dir/file"), &err), MK_OK);
    assert_int_equal(mk_vfs_rmdir(world->vfs, dir, &err), MK_OK);
    assert_int_equal(
        mk_vfs_sync_directory(world->vfs, dir, MK_SYNC_CREATE_PARENT, &err),
        MK_NOT_FOUND);
}

/* ---- Lists ---- */

/* Names come sorted by bytes, with their kinds, and none is forgotten. */
static void test_list_is_sorted_and_whole(void **state)
{
    posix_world *world = *state;
    mk_name_list list;
    char name[16];

    assert_int_equal(mk_vfs_list(world->vfs, world->root, &list, NULL), MK_OK);
    assert_int_equal(list.count, 0);
    mk_name_list_deinit(&list);

    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%03d", (i * 7) % 300);
        put_file(world, name, "", 0);
    }
    put_file(world, "\xff", "", 0);
    assert_int_equal(mkdir(path_of(world, "Z"), 0700), 0);
    assert_int_equal(symlink("none", path_of(world, "a")), 0);
    assert_int_equal(mkfifo(path_of(world, "b"), 0600), 0);

    assert_int_equal(mk_vfs_list(world->vfs, world->root, &list, NULL), MK_OK);
    assert_int_equal(list.count, 304);
    for (size_t i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%03zu", i);
        assert_string_equal(list.names[i], name);
        assert_int_equal(list.kinds[i], MK_KIND_FILE);
    }
    assert_string_equal(list.names[300], "Z");
    assert_int_equal(list.kinds[300], MK_KIND_DIRECTORY);
    assert_string_equal(list.names[301], "a");
    assert_int_equal(list.kinds[301], MK_KIND_SYMLINK);
    assert_string_equal(list.names[302], "b");
    assert_int_equal(list.kinds[302], MK_KIND_OTHER);
    assert_string_equal(list.names[303], "\xff");
    mk_name_list_deinit(&list);
    mk_name_list_deinit(&list);
}

/* What is no directory can't be listed, and says why. */
static void test_list_of_no_directory(void **state)
{
    posix_world *world = *state;
    mk_name_list list;
    mk_error err;

    put_file(world, "file", "", 0);
    assert_int_equal(
        mk_vfs_list(world->vfs, path_of(world, "none"), &list, &err),
        MK_NOT_FOUND);
    assert_int_equal(list.count, 0);
    assert_int_equal(
        mk_vfs_list(world->vfs, path_of(world, "file"), &list, &err), MK_IO);
    assert_int_equal(err.os_errno, ENOTDIR);
    mk_name_list_deinit(&list);
}

/* Whichever allocation fails, a list, an opening and a lock say so, and
 * nothing is left behind. */
static void test_names_survive_a_poor_heap(void **state)
{
    posix_world *world = *state;
    mk_status status = MK_NO_MEMORY;
    long before = world->blocks;

    put_file(world, "file", "", 0);
    while (status == MK_NO_MEMORY) {
        mk_name_list list;
        mk_file *file = NULL;
        mk_file *lock = NULL;

        world->fail_at++;
        world->heap_calls = 0;
        status = mk_vfs_list(world->vfs, world->root, &list, NULL);
        assert_int_equal(list.names == NULL, status != MK_OK);
        if (status == MK_OK) {
            status = mk_file_open(world->vfs, path_of(world, "file"), 0, &file,
                                  NULL);
            assert_int_equal(file == NULL, status != MK_OK);
        }
        if (status == MK_OK) {
            status = mk_vfs_lock(world->vfs, path_of(world, "lock"), "me",
                                 &lock, NULL);
            assert_int_equal(lock == NULL, status != MK_OK);
        }
        mk_file_close(lock, NULL);
        mk_file_close(file, NULL);
        mk_name_list_deinit(&list);
        assert_int_equal(world->blocks, before);
    }
    assert_int_equal(status, MK_OK);
    assert_true(world->fail_at > 8);
    world->fail_at = 0;
}

/* ---- Resolving ---- */

static void assert_resolves(posix_world *world, const char *path,
                            const char *wanted)
{
    char out[PATH_MAX];
    mk_error err;

    if (mk_vfs_resolve(world->vfs, path, out, sizeof out, &err) != MK_OK) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(out, wanted);
}

/* Links are followed as far as there is something; the rest is appended. */
static void test_resolve_follows_what_exists(void **state)
{
    posix_world *world = *state;
    char *root = realpath(world->root, NULL);
    char *before = getcwd(NULL, 0);
    char wanted[512];

    assert_non_null(root);
    assert_int_equal(mkdir(path_of(world, "real"), 0700), 0);
    assert_int_equal(mkdir(path_of(world, "real/deep"), 0700), 0);
    assert_int_equal(symlink("real/deep", path_of(world, "way")), 0);
    assert_int_equal(symlink("nowhere", path_of(world, "broken")), 0);

    snprintf(wanted, sizeof wanted, "%s/real/deep", root);
    assert_resolves(world, path_of(world, "way"), wanted);
    assert_resolves(world, path_of(world, "way/."), wanted);
    assert_resolves(world, path_of(world, "way//"), wanted);
    assert_resolves(world, path_of(world, "none/.././way/x/.."), wanted);
    snprintf(wanted, sizeof wanted, "%s/real/deep/new/file", root);
    assert_resolves(world, path_of(world, "way/new/file"), wanted);
    assert_resolves(world, path_of(world, "way/./new/x/../file"), wanted);
    snprintf(wanted, sizeof wanted, "%s/real", root);
    assert_resolves(world, path_of(world, "way/.."), wanted);
    snprintf(wanted, sizeof wanted, "%s/broken", root);
    assert_resolves(world, path_of(world, "broken"), wanted);

    assert_int_equal(chdir(path_of(world, "way")), 0);
    snprintf(wanted, sizeof wanted, "%s/real/deep/a", root);
    assert_resolves(world, "a", wanted);
    assert_resolves(world, "../../way/a", wanted);
    assert_int_equal(chdir(before), 0);
    assert_resolves(world, "/", "/");
    assert_resolves(world, "/../..", "/");
    free(before);
    free(root);
}

/* What can't be resolved fails, with nothing in the output. */
static void test_resolve_says_what_fails(void **state)
{
    posix_world *world = *state;
    char out[PATH_MAX];
    char longest[PATH_MAX + 10];
    size_t exact;
    mk_error err;

    put_file(world, "file", "", 0);
    assert_int_equal(symlink("loop", path_of(world, "loop")), 0);
    assert_int_equal(mk_vfs_resolve(world->vfs, path_of(world, "loop/x"), out,
                                    sizeof out, &err),
                     MK_IO);
    assert_int_equal(err.os_errno, ELOOP);
    assert_string_equal(out, "");
    assert_int_equal(mk_vfs_resolve(world->vfs, path_of(world, "file/x"), out,
                                    sizeof out, &err),
                     MK_IO);
    assert_int_equal(err.os_errno, ENOTDIR);
    assert_int_equal(mk_vfs_resolve(world->vfs, "", out, sizeof out, &err),
                     MK_NOT_FOUND);

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < sizeof longest - 1; i += 100) {
        longest[i] = '/';
    }
    assert_int_equal(mk_vfs_resolve(world->vfs, longest, out, sizeof out, &err),
                     MK_IO);
    assert_int_equal(err.os_errno, ENAMETOOLONG);

    assert_int_equal(
        mk_vfs_resolve(world->vfs, "/none/such", out, sizeof out, &err), MK_OK);
    exact = strlen(out) + 1;
    assert_int_equal(mk_vfs_resolve(world->vfs, "/none/such", out, exact, &err),
                     MK_OK);
    assert_int_equal(
        mk_vfs_resolve(world->vfs, "/none/such", out, exact - 1, &err), MK_IO);
    assert_int_equal(err.os_errno, ENAMETOOLONG);
}

/* ---- Descriptors ---- */

/* Without descriptors each call fails alone, and works again afterwards. */
static void test_descriptors_run_out_and_come_back(void **state)
{
    posix_world *world = *state;
    struct rlimit before;
    struct rlimit none;
    mk_name_list list;
    mk_file *file;
    mk_error err;

    put_file(world, "file", "", 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(
            mk_file_open(world->vfs, path_of(world, "file"), 0, &file, &err),
            MK_IO);
        assert_null(file);
        assert_int_equal(err.os_errno, EMFILE);
        assert_int_equal(
            mk_vfs_lock(world->vfs, path_of(world, "lock"), "me", &file, &err),
            MK_IO);
        assert_int_equal(err.os_errno, EMFILE);
        assert_int_equal(mk_vfs_list(world->vfs, world->root, &list, &err),
                         MK_IO);
        assert_int_equal(err.os_errno, EMFILE);
        assert_int_equal(mk_vfs_sync_directory(world->vfs, world->root,
                                               MK_SYNC_CREATE_PARENT, &err),
                         MK_IO);
        assert_int_equal(err.os_errno, EMFILE);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close_file(open_file(world, "file", 0));
    assert_int_equal(access(path_of(world, "lock"), F_OK), -1);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_stat_tells_what_a_name_is),
        TEST(test_set_mtime_sets_only_that),
        TEST(test_names_move_as_told),
        TEST(test_exchange_can_be_unsupported),
        TEST(test_link_does_not_follow),
        TEST(test_directories_come_and_go),
        TEST(test_list_is_sorted_and_whole),
        TEST(test_list_of_no_directory),
        TEST(test_names_survive_a_poor_heap),
        TEST(test_resolve_follows_what_exists),
        TEST(test_resolve_says_what_fails),
        TEST(test_descriptors_run_out_and_come_back),
    };

    return cmocka_run_group_tests_name("vfs_posix", tests, NULL, NULL);
}
