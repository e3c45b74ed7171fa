/*
 * posix_world -- a real disk for a test: a fresh directory, a heap that counts
 * and fails on demand, and a look for descriptors left behind.
 *
 * A child that a test forks has no business with cmocka: it checks with
 * CHILD_CHECK() and ends with _exit().
 */
#ifndef MK_SUPPORT_POSIX_WORLD_H
#define MK_SUPPORT_POSIX_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/env.h"

typedef struct posix_world {
    mk_heap heap;
    /* By any thread: */
    _Atomic long blocks;     /* Given out and not back. */
    _Atomic long heap_calls; /* Since fail_at was set. */
    long fail_at;            /* The call that fails, from 1; 0: none. */
    mk_vfs *vfs;             /* Owned. */
    char root[256];          /* The directory. */
    char text[8][512];
    unsigned text_next;
    int descriptors; /* Before the test. */
} posix_world;

#define CHILD_CHECK(condition)                                               \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, \
                    #condition);                                             \
            _exit(1);                                                        \
        }                                                                    \
    } while (0)

static inline void *world_resize(void *context, void *block, size_t size)
{
    posix_world *world = context;
    void *grown;

    if (size == 0) {
        if (block != NULL) world->blocks--;
        free(block);
        return NULL;
    }
    if (++world->heap_calls == world->fail_at) return NULL;
    grown = realloc(block, size);
    if (grown != NULL && block == NULL) world->blocks++;
    return grown;
}

static inline int count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static inline int world_setup(void **state)
{
    posix_world *world = calloc(1, sizeof *world);
    const char *parent = getenv("TMPDIR");
    mk_error err;

    if (world == NULL) return -1;
    snprintf(world->root, sizeof world->root, "%s/minikafka-XXXXXX",
             parent != NULL ? parent : "/tmp");
    if (mkdtemp(world->root) == NULL) return -1;
    world->descriptors = count_descriptors();
    world->heap = (mk_heap){world_resize, world};
    if (mk_vfs_new_posix(&world->heap, &world->vfs, &err) != MK_OK) return -1;
    *state = world;
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *native,
                               int kind, struct FTW *place)
{
    (void)native;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Nothing may be left: no block, no descriptor. */
static inline int world_teardown(void **state)
{
    posix_world *world = *state;

    mk_vfs_free(world->vfs);
    assert_int_equal(world->blocks, 0);
    assert_int_equal(count_descriptors(), world->descriptors);
    assert_int_equal(nftw(world->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS),
                     0);
    free(world);
    return 0;
}

/* Return the path of a name in the world; eight are valid at a time. */
static inline const char *path_of(posix_world *world, const char *name)
{
    char *text = world->text[world->text_next++ % 8];

    snprintf(text, sizeof world->text[0], "%s/%s", world->root, name);
    return text;
}

static inline mk_file *open_file(posix_world *world, const char *name,
                                 unsigned flags)
{
    mk_error err = {0};
    mk_file *file;
    mk_status status =
        mk_file_open(world->vfs, path_of(world, name), flags, &file, &err);

    if (status != MK_OK) fail_msg("%s", err.message);
    return file;
}

static inline void close_file(mk_file *file)
{
    mk_error err = {0};

    if (mk_file_close(file, &err) != MK_OK) fail_msg("%s", err.message);
}

/* Make a file with such content, by other means than those under test. */
static inline void put_file(posix_world *world, const char *name,
                            const void *bytes, size_t size)
{
    FILE *stream = fopen(path_of(world, name), "wb");

    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

/* Read a file so; the caller frees the bytes. */
static inline uint8_t *get_file(posix_world *world, const char *name,
                                size_t *size)
{
    FILE *stream = fopen(path_of(world, name), "rb");
    struct stat native;
    uint8_t *bytes;

    assert_non_null(stream);
    assert_int_equal(fstat(fileno(stream), &native), 0);
    *size = (size_t)native.st_size;
    bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, stream), *size);
    fclose(stream);
    return bytes;
}

static inline void assert_content(posix_world *world, const char *name,
                                  const char *content)
{
    size_t size;
    uint8_t *bytes = get_file(world, name, &size);

    assert_int_equal(size, strlen(content));
    assert_memory_equal(bytes, content, size);
    free(bytes);
}

static inline int64_t size_on_disk(posix_world *world, const char *name)
{
    struct stat native;

    assert_int_equal(lstat(path_of(world, name), &native), 0);
    return native.st_size;
}

/* Let no file grow beyond `size`: EFBIG, where it could be a signal. */
static inline void limit_file_size(struct rlimit *before, rlim_t size)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, before), 0);
    limit = *before;
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Let the process have a few megabytes more than it has, no large mapping. */
static inline void limit_address_space(struct rlimit *before)
{
    FILE *stream = fopen("/proc/self/statm", "r");
    unsigned long pages;
    struct rlimit limit;

    assert_non_null(stream);
    assert_int_equal(fscanf(stream, "%lu", &pages), 1);
    fclose(stream);
    assert_int_equal(getrlimit(RLIMIT_AS, before), 0);
    limit = *before;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (8 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Mount a disk of that kind and of 1 MiB on "small", for this process alone.
 * False, with a message, where that is not allowed. */
static inline bool mount_small_disk(posix_world *world, const char *kind)
{
    const char *path = path_of(world, "small");

    assert_int_equal(mkdir(path, 0700), 0);
    if (unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("none", path, kind, 0, "size=1m") == 0) {
        return true;
    }
    print_message("a small disk can't be mounted here: %s\n", strerror(errno));
    return false;
}

static inline void unmount_small_disk(posix_world *world)
{
    assert_int_equal(umount(path_of(world, "small")), 0);
}

/* Let the coarse clock go on. */
static inline void wait_tick(void)
{
    struct timespec span = {.tv_nsec = 30000000};

    nanosleep(&span, NULL);
}

static inline void assert_child_fine(pid_t child)
{
    int outcome;

    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFEXITED(outcome));
    assert_int_equal(WEXITSTATUS(outcome), 0);
}

static inline uint64_t mix(uint64_t seen, uint64_t number)
{
    return (seen ^ number) * 1099511628211u;
}

/* A number for the names in a directory, and for what stands there: the order
 * in which they are listed does not matter. */
static inline uint64_t fingerprint(const char *directory)
{
    DIR *listing = opendir(directory);
    uint64_t seen = 0;
    struct dirent *at;

    assert_non_null(listing);
    while ((at = readdir(listing)) != NULL) {
        struct stat native;
        uint64_t one = 1;

        /* Who opens a log writes his name there. */
        if (strcmp(at->d_name, "minikafka.lock") == 0) continue;
        assert_int_equal(
            fstatat(dirfd(listing), at->d_name, &native, AT_SYMLINK_NOFOLLOW),
            0);
        for (const char *c = at->d_name; *c != '\0'; c++) {
            one = mix(one, (unsigned char)*c);
        }
        if (S_ISREG(native.st_mode)) {
            one = mix(one, (uint64_t)native.st_ino);
            one = mix(one, (uint64_t)native.st_size);
            one = mix(one, (uint64_t)native.st_mtim.tv_sec);
            one = mix(one, (uint64_t)native.st_mtim.tv_nsec);
        }
        seen += one;
    }
    closedir(listing);
    return seen;
}

#endif /* MK_SUPPORT_POSIX_WORLD_H */
