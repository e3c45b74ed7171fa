/* The real disk: locks, and what a fork leaves of them. */
#define _GNU_SOURCE
#include "support/posix_world.h"

#include <pthread.h>

static mk_file *lock(posix_world *world, const char *path, const char *holder)
{
    mk_file *file;
    mk_error err;

    if (mk_vfs_lock(world->vfs, path, holder, &file, &err) != MK_OK) {
        fail_msg("%s", err.message);
    }
    return file;
}

static void assert_held(posix_world *world, const char *path,
                        const char *holder)
{
    mk_file *file;
    mk_error err;

    assert_int_equal(mk_vfs_lock(world->vfs, path, "a late one", &file, &err),
                     MK_LOCKED);
    assert_null(file);
    assert_string_equal(err.path, path);
    assert_non_null(strstr(err.message, holder));
    assert_non_null(strstr(err.message, path));
}

/* In one process too there is one holder, by whatever path; trying does not
 * harm its lock, and closing ends it. */
static void test_lock_excludes_the_same_process(void **state)
{
    posix_world *world = *state;
    mk_file *held;

    assert_int_equal(mkdir(path_of(world, "dir"), 0700), 0);
    assert_int_equal(symlink("dir", path_of(world, "way")), 0);
    held = lock(world, path_of(world, "dir/lock"), "holder A");
    assert_content(world, "dir/lock", "holder A");
    for (int i = 0; i < 100; i++) {
        assert_held(world, path_of(world, "dir/lock"), "held by holder A");
        assert_held(world, path_of(world, "dir/./lock"), "held by holder A");
        assert_held(world, path_of(world, "way/lock"), "held by holder A");
    }
    assert_content(world, "dir/lock", "holder A");
    close_file(held);
    held = lock(world, path_of(world, "way/lock"), "B");
    assert_content(world, "dir/lock", "B");
    close_file(held);
}

/* The lock goes with the file: through a second name, and not with the first
 * name when another file takes that. */
static void test_lock_follows_the_inode(void **state)
{
    posix_world *world = *state;
    mk_file *first = lock(world, path_of(world, "lock"), "first");
    mk_file *second;

    assert_int_equal(mk_vfs_link(world->vfs, path_of(world, "lock"),
                                 path_of(world, "name"), NULL),
                     MK_OK);
    assert_held(world, path_of(world, "name"), "held by first");
    assert_int_equal(mk_vfs_unlink(world->vfs, path_of(world, "lock"), NULL),
                     MK_OK);
    second = lock(world, path_of(world, "lock"), "second");
    assert_held(world, path_of(world, "name"), "held by first");
    assert_held(world, path_of(world, "lock"), "held by second");
    close_file(first);
    close_file(second);
}

/* A holder's text that is none does not spoil the message. */
static void test_lock_tolerates_any_text(void **state)
{
    posix_world *world = *state;
    mk_file *held = lock(world, path_of(world, "lock"), "");
    mk_file *other;
    mk_error err;

    assert_held(world, path_of(world, "lock"), "held by another opener");
    assert_int_equal(mk_file_write(held, 0, "me\nsecond line", 14, NULL),
                     MK_OK);
    assert_int_equal(
        mk_vfs_lock(world->vfs, path_of(world, "lock"), "x", &other, &err),
        MK_LOCKED);
    assert_non_null(strstr(err.message, "held by me"));
    assert_null(strchr(err.message, '\n'));
    close_file(held);
}

/* Only a regular file is locked, and none is made where that is forbidden. */
static void test_lock_needs_a_file(void **state)
{
    posix_world *world = *state;
    mk_file *file;
    mk_error err;

    put_file(world, "file", "", 0);
    assert_int_equal(symlink("file", path_of(world, "symlink")), 0);
    assert_int_equal(
        mk_vfs_lock(world->vfs, path_of(world, "symlink"), "x", &file, &err),
        MK_IO);
    assert_int_equal(err.os_errno, ELOOP);
    assert_int_equal(mk_vfs_lock(world->vfs, world->root, "x", &file, &err),
                     MK_IO);
    assert_int_equal(err.os_errno, EINVAL);
    assert_int_equal(
        mk_vfs_lock(world->vfs, path_of(world, "none/lock"), "x", &file, &err),
        MK_NOT_FOUND);
}

/* A name of somebody else's file is no lock; a lock may have several names. */
static void test_lock_leaves_others_files_alone(void **state)
{
    posix_world *world = *state;
    mk_file *file;
    mk_error err;

    put_file(world, "precious", "precious", 8);
    assert_int_equal(link(path_of(world, "precious"), path_of(world, "lock")),
                     0);
    assert_int_equal(mk_vfs_lock(world->vfs, path_of(world, "lock"),
                                 "process 1", &file, &err),
                     MK_IO);
    assert_int_equal(err.os_errno, EMLINK);
    assert_content(world, "precious", "precious");
    close_file(lock(world, path_of(world, "own"), "process 2"));
    assert_int_equal(link(path_of(world, "own"), path_of(world, "twin")), 0);
    close_file(lock(world, path_of(world, "twin"), "process 33"));
    assert_content(world, "own", "process 33");
}

/* Where one may not write, locking fails and leaves nothing half-made. */
static void test_lock_in_a_forbidden_directory(void **state)
{
    posix_world *world = *state;
    pid_t child;

    assert_int_equal(mkdir(path_of(world, "dir"), 0700), 0);
    assert_int_equal(chmod(path_of(world, "dir"), 0555), 0);
    assert_int_equal(chmod(world->root, 0755), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mk_file *file;
        mk_error err;

        if (geteuid() == 0) CHILD_CHECK(setuid(65534) == 0);
        CHILD_CHECK(mk_vfs_lock(world->vfs, path_of(world, "dir/lock"), "x",
                                &file, &err) == MK_IO);
        CHILD_CHECK(err.os_errno == EACCES);
        _exit(0);
    }
    assert_child_fine(child);
    assert_int_equal(access(path_of(world, "dir/lock"), F_OK), -1);
}

/* Take the lock in a child of its own and stay alive until killed. */
static pid_t start_holder(posix_world *world, const char *path)
{
    int ready[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mk_file *file;

        CHILD_CHECK(mk_vfs_lock(world->vfs, path, "the child", &file, NULL) ==
                    MK_OK);
        CHILD_CHECK(write(ready[1], "x", 1) == 1);
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

/* Another process is kept out, until the holder dies, however it does. */
static void test_lock_dies_with_its_holder(void **state)
{
    posix_world *world = *state;
    const char *path = path_of(world, "lock");
    pid_t child = start_holder(world, path);

    assert_held(world, path, "held by the child");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close_file(lock(world, path, "the parent"));
}

/* ---- Forks ---- */

/* A forked child that lets go of all it inherited takes nothing from the
 * parent; and a child that keeps it does not keep the parent's lock alive. */
static void test_fork_leaves_the_lock_with_the_parent(void **state)
{
    posix_world *world = *state;
    const char *path = path_of(world, "lock");
    mk_file *held = lock(world, path, "the parent");
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        CHILD_CHECK(*world->vfs->session != 1);
        CHILD_CHECK(mk_file_close(held, NULL) == MK_OK);
        _exit(0);
    }
    assert_child_fine(child);
    assert_held(world, path, "held by the parent");

    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    assert_held(world, path, "held by the parent");
    close_file(held);
    held = lock(world, path, "the parent again");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_held(world, path, "held by the parent again");
    close_file(held);
}

/* A child can open for itself what its parent does not hold. */
static void test_fork_can_start_anew(void **state)
{
    posix_world *world = *state;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        mk_heap heap = mk_heap_default();
        mk_vfs *vfs;
        mk_file *file;

        CHILD_CHECK(mk_vfs_new_posix(&heap, &vfs, NULL) == MK_OK);
        CHILD_CHECK(*vfs->session == 1);
        CHILD_CHECK(mk_vfs_lock(vfs, path_of(world, "lock"), "child", &file,
                                NULL) == MK_OK);
        CHILD_CHECK(mk_file_close(file, NULL) == MK_OK);
        mk_vfs_free(vfs);
        _exit(0);
    }
    assert_child_fine(child);
}

enum { CONTENDERS = 8, WINS = 2000 };

struct contest {
    const char *path;
    _Atomic int inside;
    _Atomic int clashes;
    _Atomic int wins;
};

/* Take the lock and remove its file before letting go. */
static void *contend(void *context)
{
    const struct timespec stay = {.tv_nsec = 20000};
    struct contest *contest = context;
    mk_heap heap = mk_heap_default();
    mk_vfs *vfs;

    if (mk_vfs_new_posix(&heap, &vfs, NULL) != MK_OK) return NULL;
    while (contest->wins < WINS && contest->clashes == 0) {
        mk_file *file;
        mk_status status = mk_vfs_lock(vfs, contest->path, "x", &file, NULL);

        if (status == MK_LOCKED) continue;
        if (status != MK_OK) {
            contest->clashes++;
            break;
        }
        if (contest->inside++ > 0) contest->clashes++;
        contest->wins++;
        nanosleep(&stay, NULL);
        contest->inside--;
        (void)!mk_vfs_unlink(vfs, contest->path, NULL);
        mk_file_close(file, NULL);
    }
    mk_vfs_free(vfs);
    return NULL;
}

/* Who locks a file that lost its name meanwhile holds nothing: he tries again
 * with the one that has it now. */
static void test_lock_of_a_replaced_file_counts_for_nothing(void **state)
{
    posix_world *world = *state;
    struct contest contest = {.path = path_of(world, "lock")};
    pthread_t threads[CONTENDERS];

    for (int i = 0; i < CONTENDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &contest),
                         0);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(contest.clashes, 0);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lock_excludes_the_same_process),
        TEST(test_lock_follows_the_inode),
        TEST(test_lock_tolerates_any_text),
        TEST(test_lock_needs_a_file),
        TEST(test_lock_leaves_others_files_alone),
        TEST(test_lock_in_a_forbidden_directory),
        TEST(test_lock_dies_with_its_holder),
        TEST(test_fork_leaves_the_lock_with_the_parent),
        TEST(test_fork_can_start_anew),
        TEST(test_lock_of_a_replaced_file_counts_for_nothing),
    };

    return cmocka_run_group_tests_name("lock_posix", tests, NULL, NULL);
}
