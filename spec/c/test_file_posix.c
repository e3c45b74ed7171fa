/* The real disk: open files, their views and their sizes. */
#define _GNU_SOURCE
#include "support/posix_world.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { LARGE = 300000 };

static uint8_t byte_at(size_t position)
{
    return (uint8_t)(position * 31 + (position >> 8));
}

static void put_large_file(posix_world *world, const char *name, size_t size)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = byte_at(i);
    }
    put_file(world, name, bytes, size);
    free(bytes);
}

static mk_span view(mk_file *file, mk_scratch *scratch, int64_t position,
                    size_t size)
{
    mk_span span;
    mk_error err = {0};

    if (mk_file_view(file, scratch, position, size, &span, &err) != MK_OK) {
        fail_msg("%s", err.message);
    }
    return span;
}

static void assert_view(mk_file *file, mk_scratch *scratch, int64_t position,
                        size_t size, size_t wanted)
{
    mk_span span = view(file, scratch, position, size);

    assert_int_equal(span.size, wanted);
    for (size_t i = 0; i < wanted; i++) {
        assert_int_equal(span.data[i], byte_at((size_t)position + i));
    }
}

/* ---- Opening ---- */

static void assert_refused(posix_world *world, const char *name, unsigned flags,
                           int os_errno, const char *what)
{
    mk_file *file;
    mk_error err;

    assert_int_equal(
        mk_file_open(world->vfs, path_of(world, name), flags, &file, &err),
        MK_IO);
    assert_null(file);
    assert_int_equal(err.os_errno, os_errno);
    assert_non_null(strstr(err.message, what));
    assert_string_equal(err.path, path_of(world, name));
}

/* Nothing but a regular file is opened, in any way; and nothing blocks. */
static void test_open_takes_regular_files_only(void **state)
{
    static const unsigned ways[] = {0, MK_OPEN_WRITE,
                                    MK_OPEN_WRITE | MK_OPEN_CREATE,
                                    MK_OPEN_WRITE | MK_OPEN_TRUNCATE};
    posix_world *world = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s",
             path_of(world, "socket"));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    put_file(world, "file", "12345", 5);
    assert_int_equal(symlink("file", path_of(world, "symlink")), 0);
    assert_int_equal(mkdir(path_of(world, "dir"), 0700), 0);
    assert_int_equal(mkfifo(path_of(world, "pipe"), 0600), 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_refused(world, "dir", ways[i], EINVAL, "is a directory");
        assert_refused(world, "symlink", ways[i], ELOOP, "is a symbolic link");
        assert_refused(world, "pipe", ways[i], EINVAL, "not a regular file");
        assert_refused(world, "socket", ways[i], EINVAL, "not a regular file");
    }
    assert_int_equal(size_on_disk(world, "file"), 5);
}

/* Each flag of opening does what it says. */
static void test_open_obeys_its_flags(void **state)
{
    posix_world *world = *state;
    const char *path = path_of(world, "file");
    mk_file *file;
    mk_error err;

    assert_int_equal(mk_file_open(world->vfs, path, MK_OPEN_WRITE, &file, &err),
                     MK_NOT_FOUND);
    assert_null(file);
    assert_int_equal(err.os_errno, ENOENT);
    close_file(open_file(world, "file", MK_OPEN_WRITE | MK_OPEN_CREATE));
    assert_int_equal(
        mk_file_open(world->vfs, path,
                     MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE, &file,
                     &err),
        MK_IO);
    assert_int_equal(err.os_errno, EEXIST);

    put_file(world, "file", "12345", 5);
    close_file(open_file(world, "file", MK_OPEN_WRITE | MK_OPEN_CREATE));
    assert_int_equal(size_on_disk(world, "file"), 5);
    file = open_file(world, "file", 0);
    assert_int_equal(mk_file_write(file, 0, "x", 1, &err), MK_IO);
    assert_int_equal(err.os_errno, EBADF);
    assert_string_equal(err.path, path);
    close_file(file);
    close_file(open_file(world, "file", MK_OPEN_WRITE | MK_OPEN_TRUNCATE));
    assert_int_equal(size_on_disk(world, "file"), 0);
    assert_int_equal(mk_file_close(NULL, &err), MK_OK);
}

/* No program that the process starts inherits a descriptor. */
static void test_descriptors_end_at_exec(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_file(world, "file", MK_OPEN_WRITE | MK_OPEN_CREATE);
    mk_file *lock;
    int seen = 0;

    assert_int_equal(
        mk_vfs_lock(world->vfs, path_of(world, "lock"), "x", &lock, NULL),
        MK_OK);
    for (int fd = 0; fd < 256; fd++) {
        char link[64];
        char target[512] = "";

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) < 0) continue;
        if (strncmp(target, world->root, strlen(world->root)) != 0) continue;
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        seen++;
    }
    assert_int_equal(seen, 2);
    close_file(file);
    close_file(lock);
}

/* ---- Views ---- */

/* A view gives what the file has there, and fewer bytes only at its end. */
static void check_views(posix_world *world, unsigned flags)
{
    mk_scratch scratch;
    mk_file *file;

    put_large_file(world, "file", LARGE);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", flags);
    assert_view(file, &scratch, 0, 10, 10);
    assert_view(file, &scratch, 299990, 10, 10);
    assert_view(file, &scratch, 299990, 11, 10);
    assert_view(file, &scratch, 0, LARGE, LARGE);
    assert_view(file, &scratch, 1, LARGE, LARGE - 1);
    assert_view(file, &scratch, 0, SIZE_MAX, LARGE);
    assert_view(file, &scratch, 5000, 0, 0);
    assert_view(file, &scratch, LARGE, 1, 0);
    assert_view(file, &scratch, INT64_MAX - 1, SIZE_MAX, 0);
    assert_view(file, &scratch, 5000, 5000, 5000);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

static void test_views_by_reading(void **state)
{
    check_views(*state, 0);
    check_views(*state, MK_OPEN_WRITE);
}

static void test_views_by_mapping(void **state)
{
    check_views(*state, MK_OPEN_MAPPED);
}

/* A wish for far more than the file has takes no more memory than it has. */
static void test_view_memory_is_bounded_by_the_file(void **state)
{
    posix_world *world = *state;
    mk_scratch scratch;
    mk_file *file;

    put_large_file(world, "file", 1000);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", 0);
    assert_view(file, &scratch, 0, (size_t)1 << 40, 1000);
    assert_true(scratch.capacity <= 1000 + 64);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* Out of memory a view fails, and the scratch stays fit for use. */
static void test_view_survives_a_poor_heap(void **state)
{
    posix_world *world = *state;
    mk_scratch scratch;
    mk_span span;
    mk_file *file;

    put_large_file(world, "file", 1000);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", 0);
    assert_view(file, &scratch, 0, 10, 10);
    world->heap_calls = 0;
    world->fail_at = 1;
    assert_int_equal(mk_file_view(file, &scratch, 0, 1000, &span, NULL),
                     MK_NO_MEMORY);
    assert_int_equal(span.size, 0);
    world->fail_at = 0;
    assert_view(file, &scratch, 0, 10, 10);
    assert_view(file, &scratch, 0, 1000, 1000);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* Mapped views take no scratch and stay valid over others, also while the file
 * grows. */
static void test_mapped_views_last(void **state)
{
    posix_world *world = *state;
    mk_scratch scratch;
    mk_span first;
    mk_file *file;

    put_large_file(world, "file", 100000);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", MK_OPEN_MAPPED);
    first = view(file, &scratch, 10, 20000);
    assert_view(file, &scratch, 50000, 50000, 50000);
    assert_null(scratch.data);
    assert_int_equal(truncate(path_of(world, "file"), LARGE), 0);
    assert_int_equal(view(file, &scratch, 100000, LARGE).size, LARGE - 100000);
    for (size_t i = 0; i < first.size; i++) {
        assert_int_equal(first.data[i], byte_at(10 + i));
    }
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* So do those of a file that outgrows one mapping after the other. */
static void test_mapped_views_of_a_growing_file(void **state)
{
    enum { STEP = 700000, STEPS = 40 };
    posix_world *world = *state;
    uint8_t *bytes = malloc(STEP);
    mk_span views[STEPS];
    mk_scratch scratch;
    mk_file *file;

    assert_non_null(bytes);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file",
                     MK_OPEN_MAPPED | MK_OPEN_WRITE | MK_OPEN_CREATE);
    assert_int_equal(mk_file_tail_begin(file, 0, MK_TAIL_PLAIN, NULL), MK_OK);
    for (size_t i = 0; i < STEPS; i++) {
        memset(bytes, (int)i, STEP);
        assert_int_equal(mk_file_tail_append(file, bytes, STEP, NULL), MK_OK);
        views[i] = view(file, &scratch, (int64_t)i * STEP, STEP);
        assert_int_equal(views[i].size, STEP);
        assert_null(scratch.data); /* It was mapped. */
    }
    for (size_t i = 0; i < STEPS; i++) {
        assert_int_equal(views[i].data[0], i);
        assert_int_equal(views[i].data[STEP - 1], i);
    }
    close_file(file);
    mk_scratch_deinit(&scratch);
    free(bytes);
}

/* An empty file can't be mapped, and has nothing to give, until it grows. */
static void test_mapped_view_of_an_empty_file(void **state)
{
    posix_world *world = *state;
    mk_scratch scratch;
    mk_file *file;

    put_file(world, "file", "", 0);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", MK_OPEN_MAPPED);
    assert_view(file, &scratch, 0, 100, 0);
    put_large_file(world, "file", 100);
    assert_view(file, &scratch, 0, 100, 100);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* A mapped file that somebody else shortens is an error, not a signal; the
 * handle goes on failing until the file is whole. */
static void test_mapped_view_of_a_shortened_file(void **state)
{
    posix_world *world = *state;
    const char *path = path_of(world, "file");
    mk_scratch scratch;
    mk_span span;
    mk_file *file;
    mk_error err;

    put_large_file(world, "file", LARGE);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", MK_OPEN_MAPPED);
    assert_view(file, &scratch, 0, LARGE, LARGE);
    assert_int_equal(truncate(path, 0), 0);
    wait_tick();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mk_file_view(file, &scratch, 5000, 20000, &span, &err),
                         MK_CORRUPT_SEGMENT);
        assert_null(span.data);
        assert_string_equal(err.path, path);
        assert_non_null(strstr(err.message, "was shortened by somebody else"));
    }
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* A file that its owner cuts through the same handle is no such case. */
static void test_mapped_view_of_a_truncated_file(void **state)
{
    posix_world *world = *state;
    mk_scratch scratch;
    mk_file *file;

    put_large_file(world, "file", LARGE);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", MK_OPEN_MAPPED | MK_OPEN_WRITE);
    assert_view(file, &scratch, 0, LARGE, LARGE);
    assert_int_equal(mk_file_truncate(file, 1000, NULL), MK_OK);
    wait_tick();
    assert_view(file, &scratch, 0, LARGE, 1000);
    assert_view(file, &scratch, 1000, 1, 0);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* Without room for a mapping, views are read. */
static void test_mapped_view_without_address_space(void **state)
{
    posix_world *world = *state;
    struct rlimit before;
    mk_scratch scratch;
    mk_file *file;

    put_large_file(world, "file", LARGE);
    assert_int_equal(truncate(path_of(world, "file"), (int64_t)1 << 40), 0);
    mk_scratch_init(&scratch, &world->heap);
    assert_int_equal(mk_scratch_reserve(&scratch, LARGE, NULL), MK_OK);
    file = open_file(world, "file", MK_OPEN_MAPPED);
    limit_address_space(&before);
    assert_view(file, &scratch, 0, 1000, 1000);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* ---- Writing and sizes ---- */

/* What is written is there, with zeros where nothing was. */
static void test_write_and_truncate(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_file(world, "file", MK_OPEN_WRITE | MK_OPEN_CREATE);
    mk_file_stat stat;
    mk_scratch scratch;
    mk_span span;

    mk_scratch_init(&scratch, &world->heap);
    assert_int_equal(mk_file_write(file, 3, "abc", 3, NULL), MK_OK);
    assert_int_equal(mk_file_write(file, 100, "", 0, NULL), MK_OK);
    span = view(file, &scratch, 0, 100);
    assert_int_equal(span.size, 6);
    assert_memory_equal(span.data, "\0\0\0abc", 6);
    assert_int_equal(mk_file_truncate(file, 4, NULL), MK_OK);
    assert_int_equal(mk_file_truncate(file, 8, NULL), MK_OK);
    span = view(file, &scratch, 0, 100);
    assert_int_equal(span.size, 8);
    assert_memory_equal(span.data, "\0\0\0a\0\0\0\0", 8);
    assert_int_equal(mk_file_stat_open(file, &stat, NULL), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_FILE);
    assert_int_equal(stat.size, 8);
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* Allocating makes room without touching what is there, or changes nothing. */
static void test_allocate_gives_all_or_nothing(void **state)
{
    posix_world *world = *state;
    mk_file *file;
    mk_scratch scratch;
    struct rlimit limit;
    struct stat native;
    mk_error err;

    put_large_file(world, "file", 1000);
    mk_scratch_init(&scratch, &world->heap);
    file = open_file(world, "file", MK_OPEN_WRITE);
    assert_int_equal(mk_file_allocate(file, 1 << 20, &err), MK_OK);
    assert_int_equal(lstat(path_of(world, "file"), &native), 0);
    assert_int_equal(native.st_size, 1 << 20);
    assert_true(native.st_blocks * 512 >= 1 << 20);
    assert_view(file, &scratch, 0, 1000, 1000);
    assert_int_equal(view(file, &scratch, 1000, 1).data[0], 0);

    limit_file_size(&limit, 2 << 20);
    assert_int_equal(mk_file_allocate(file, 4 << 20, &err), MK_IO);
    assert_int_equal(err.os_errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(size_on_disk(world, "file"), 1 << 20);
    assert_int_equal(mk_file_allocate(file, 500, &err), MK_OK);
    assert_int_equal(size_on_disk(world, "file"), 500);
    assert_int_equal(mk_file_allocate(file, 0, &err), MK_OK);
    assert_int_equal(size_on_disk(world, "file"), 0);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

/* On a disk that is full a failed allocation leaves the file as it was. */
static void test_allocate_on_a_full_disk(void **state)
{
    posix_world *world = *state;
    mk_file *file;
    mk_error err;

    if (!mount_small_disk(world, "tmpfs")) skip();
    file = open_file(world, "small/file", MK_OPEN_WRITE | MK_OPEN_CREATE);
    assert_int_equal(mk_file_write(file, 0, "12345", 5, &err), MK_OK);
    assert_int_equal(mk_file_allocate(file, 2 << 20, &err), MK_IO);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_int_equal(size_on_disk(world, "small/file"), 5);
    close_file(file);
    unmount_small_disk(world);
}

/* A write beyond what is allowed fails with the kernel's word for it. */
static void test_write_says_what_fails(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_file(world, "file", MK_OPEN_WRITE | MK_OPEN_CREATE);
    struct rlimit limit;
    mk_error err;

    limit_file_size(&limit, 1000);
    assert_int_equal(mk_file_write(file, 999, "ab", 2, &err), MK_IO);
    assert_int_equal(err.os_errno, EFBIG);
    assert_int_equal(mk_file_truncate(file, 1001, &err), MK_IO);
    assert_int_equal(err.os_errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    close_file(file);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open_takes_regular_files_only),
        TEST(test_open_obeys_its_flags),
        TEST(test_descriptors_end_at_exec),
        TEST(test_views_by_reading),
        TEST(test_views_by_mapping),
        TEST(test_view_memory_is_bounded_by_the_file),
        TEST(test_view_survives_a_poor_heap),
        TEST(test_mapped_views_last),
        TEST(test_mapped_views_of_a_growing_file),
        TEST(test_mapped_view_of_an_empty_file),
        TEST(test_mapped_view_of_a_shortened_file),
        TEST(test_mapped_view_of_a_truncated_file),
        TEST(test_mapped_view_without_address_space),
        TEST(test_write_and_truncate),
        TEST(test_allocate_gives_all_or_nothing),
        TEST(test_allocate_on_a_full_disk),
        TEST(test_write_says_what_fails),
    };

    return cmocka_run_group_tests_name("file_posix", tests, NULL, NULL);
}
