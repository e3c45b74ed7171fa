/*
 * file_posix -- an open regular file.
 *
 * Reads go through pread() into the caller's scratch, or, in a file that may be
 * mapped, through a mapping made at the first view; a file that grows gets a
 * larger one each time it has outgrown the last. A mapping is never moved or
 * unmapped before the file is closed, since views point into it. That somebody
 * else shortens the file is seen by looking at its size, but not more than once
 * a tick, and by os/map_guard.
 *
 * In a forked child only descriptors are closed and memory is freed: the file
 * and its lock are the parent's.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "os/posix.h"

#define LINE        64u        /* Of the processor's cache. */
#define ROOM_MIN    (1u << 20) /* Addresses for a file that grows, ... */
#define ROOM_FACTOR 4          /* ... and for one that has outgrown them. */

int64_t mk_posix_tick(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

mk_status mk_posix_fail_shortened(const mk_posix_file *file, int64_t size,
                                  int64_t wanted, mk_error *err)
{
    return mk_fail_at(err, MK_CORRUPT_SEGMENT, file->path, size,
                      "%s was shortened by somebody else: it has %" PRId64
                      " of %" PRId64 " bytes",
                      file->path, size, wanted);
}

static mk_file_kind kind_of(mode_t mode)
{
    if (S_ISREG(mode)) return MK_KIND_FILE;
    if (S_ISDIR(mode)) return MK_KIND_DIRECTORY;
    return S_ISLNK(mode) ? MK_KIND_SYMLINK : MK_KIND_OTHER;
}

void mk_posix_fill_stat(const struct stat *native, mk_file_stat *out)
{
    out->kind = kind_of(native->st_mode);
    out->size = native->st_size;
    out->mtime_ms = (int64_t)native->st_mtim.tv_sec * 1000 +
                    native->st_mtim.tv_nsec / 1000000;
    out->mtime_ns = (int32_t)(native->st_mtim.tv_nsec % 1000000);
    out->inode = native->st_ino;
    out->links = native->st_nlink;
}

/* ---- Opening and closing ---- */

static mk_status refuse(const char *path, const struct stat *native,
                        mk_error *err)
{
    mk_file_stat stat;

    mk_posix_fill_stat(native, &stat);
    switch (stat.kind) {
    case MK_KIND_DIRECTORY:
        return mk_fail_errno(err, EINVAL, path, "%s is a directory", path);
    case MK_KIND_SYMLINK:
        return mk_fail_errno(err, ELOOP, path, "%s is a symbolic link", path);
    default:
        return mk_fail_errno(err, EINVAL, path, "%s is not a regular file",
                             path);
    }
}

/* The kernel has several words for "not a regular file"; have one. */
static mk_status fail_open(const char *path, int os_errno, mk_error *err)
{
    struct stat native;
    bool may_be_irregular =
        os_errno == ELOOP || os_errno == EISDIR || os_errno == ENXIO;

    if (may_be_irregular && lstat(path, &native) == 0 &&
        !S_ISREG(native.st_mode)) {
        return refuse(path, &native, err);
    }
    return mk_fail_errno(err, os_errno, path, "cannot open %s", path);
}

/* O_NONBLOCK keeps a named pipe from holding us up; files ignore it. */
static int open_descriptor(const char *path, unsigned flags)
{
    int native = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd;

    native |= (flags & MK_OPEN_WRITE) != 0 ? O_RDWR : O_RDONLY;
    if ((flags & MK_OPEN_CREATE) != 0) native |= O_CREAT;
    if ((flags & MK_OPEN_EXCLUSIVE) != 0) native |= O_EXCL;
    if ((flags & MK_OPEN_TRUNCATE) != 0) native |= O_TRUNC;
    do {
        fd = open(path, native, 0644);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static mk_posix_file *new_file(mk_vfs *vfs, const char *path)
{
    mk_posix_file *file = mk_alloc_zero(&vfs->heap, sizeof *file);

    if (file == NULL) return NULL;
    file->path = mk_copy_string(&vfs->heap, path);
    if (file->path == NULL) {
        mk_release(&vfs->heap, file);
        return NULL;
    }
    file->base.vfs = vfs;
    file->session = *vfs->session;
    file->fd = -1;
    mk_mutex_init(&file->map.mutex);
    mk_posix_tail_init(&file->tail);
    return file;
}

mk_status mk_posix_open(mk_vfs *vfs, const char *path, unsigned flags,
                        mk_posix_file **out, mk_error *err)
{
    mk_posix_file *file = new_file(vfs, path);
    struct stat native;
    mk_status status = MK_OK;

    *out = NULL;
    if (file == NULL) return mk_fail_memory(err, sizeof *file);
    file->mappable = (flags & MK_OPEN_MAPPED) != 0;
    file->fd = open_descriptor(path, flags);
    if (file->fd < 0) {
        status = fail_open(path, errno, err);
    } else if (fstat(file->fd, &native) != 0) {
        status = mk_fail_errno(err, errno, path, "cannot open %s", path);
    } else if (!S_ISREG(native.st_mode)) {
        status = refuse(path, &native, err);
    }
    if (status != MK_OK) {
        mk_posix_file_close(&file->base, NULL);
        return status;
    }
    *out = file;
    return MK_OK;
}

mk_status mk_posix_file_open(mk_vfs *vfs, const char *path, unsigned flags,
                             mk_file **out, mk_error *err)
{
    mk_posix_file *file;
    mk_status status = mk_posix_open(vfs, path, flags, &file, err);

    if (status == MK_OK) *out = &file->base;
    return status;
}

/* An inherited descriptor in a child would keep the lock alive. */
static void unlock(const mk_posix_file *file)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    fcntl(file->fd, F_OFD_SETLK, &lock);
}

/* Linux has closed a descriptor even where close() says EINTR. */
static mk_status close_descriptor(const mk_posix_file *file, mk_error *err)
{
    if (file->fd < 0 || close(file->fd) == 0 || errno == EINTR) return MK_OK;
    return mk_fail_errno(err, errno, file->path, "cannot close %s", file->path);
}

static void end_map(mk_posix_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        mk_map_guard_release(map->mappings[i].guard);
        munmap(map->mappings[i].data, map->mappings[i].size);
    }
}

mk_status mk_posix_file_close(mk_file *base, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    const mk_heap *heap = &base->vfs->heap;
    bool ours = mk_posix_is_ours(file);
    mk_status status = MK_OK;
    mk_status closed;

    if (ours) status = mk_posix_tail_end(base, err);
    mk_posix_tail_deinit(file);
    end_map(&file->map);
    if (ours && file->locked) unlock(file);
    closed = close_descriptor(file, status == MK_OK ? err : NULL);
    if (status == MK_OK) status = closed;
    mk_mutex_deinit(&file->map.mutex);
    mk_release(heap, file->path);
    mk_release(heap, file);
    return status;
}

/* ---- Sizes ---- */

/* Look at an open file, but not at its times: who has asked for these makes
 * Linux give the next write a time of its own, and the next sync write that,
 * too, to another place on the disk. */
static mk_status look(const mk_posix_file *file, struct statx *out,
                      mk_error *err)
{
    if (statx(file->fd, "", AT_EMPTY_PATH,
              STATX_TYPE | STATX_SIZE | STATX_INO | STATX_NLINK, out) == 0) {
        return MK_OK;
    }
    return mk_fail_errno(err, errno, file->path, "cannot stat %s", file->path);
}

mk_status mk_posix_size(const mk_posix_file *file, int64_t *out, mk_error *err)
{
    struct statx native = {0};
    mk_status status = look(file, &native, err);

    *out = (int64_t)native.stx_size;
    return status;
}

mk_status mk_posix_set_size(const mk_posix_file *file, int64_t size,
                            mk_error *err)
{
    int failed;

    do {
        failed = ftruncate(file->fd, size);
    } while (failed != 0 && errno == EINTR);
    if (failed == 0) return MK_OK;
    return mk_fail_errno(err, errno, file->path,
                         "cannot set the size of %s to %" PRId64, file->path,
                         size);
}

mk_status mk_posix_file_stat(mk_file *base, mk_file_stat *out, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    int64_t end = mk_posix_tail_position(file);
    struct statx native = {0};
    mk_status status = look(file, &native, err);

    if (status != MK_OK) return status;
    *out = (mk_file_stat){
        .kind = kind_of(native.stx_mode),
        .size = end != MK_POSIX_NO_TAIL ? end : (int64_t)native.stx_size,
        .inode = native.stx_ino,
        .links = native.stx_nlink,
    };
    return MK_OK;
}

/* Have no view reach beyond what is left. */
static void shrink_map(mk_posix_map *map, int64_t size)
{
    mk_mutex_lock(&map->mutex);
    if (map->size > size) map->size = size;
    mk_mutex_unlock(&map->mutex);
}

mk_status mk_posix_file_truncate(mk_file *base, int64_t size, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;

    shrink_map(&file->map, size);
    if (mk_posix_tail_position(file) != MK_POSIX_NO_TAIL) {
        return mk_posix_tail_truncate(file, size, err);
    }
    return mk_posix_set_size(file, size, err);
}

mk_status mk_posix_file_allocate(mk_file *base, int64_t size, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    int64_t before;
    int failed = 0;
    mk_status status = mk_posix_size(file, &before, err);

    if (status != MK_OK) return status;
    if (size > 0) {
        do {
            failed = posix_fallocate(file->fd, 0, size);
        } while (failed == EINTR);
    }
    if (failed != 0) {
        /* ext4 may have given a part of it: give that back. */
        mk_posix_set_size(file, before, NULL);
        return mk_fail_errno(err, failed, file->path,
                             "cannot allocate %" PRId64 " bytes for %s", size,
                             file->path);
    }
    return size < before ? mk_posix_set_size(file, size, err) : MK_OK;
}

/* ---- Views ---- */

/* Was some of it found missing, in the file? */
static bool is_broken(const mk_posix_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        if (mk_map_guard_is_broken(map->mappings[i].guard)) return true;
    }
    return false;
}

/* How much to map of the file. One that grows gets room to grow in place. */
static size_t mapping_size(const mk_posix_file *file, const mk_posix_map *map)
{
    uint64_t size = (uint64_t)map->file_size;
    size_t room = ROOM_MIN;

    if (mk_posix_tail_position(file) == MK_POSIX_NO_TAIL && map->count == 0) {
        return (size_t)size;
    }
    while (room < 2 * size) {
        room *= ROOM_FACTOR;
    }
    return room;
}

/* Make the mapping cover the file; if that can't be, a view is read instead.
 * Views point into what was mapped before, so that stays. */
static void extend_map(const mk_posix_file *file, mk_posix_map *map)
{
    mk_posix_mapping new = {.size = mapping_size(file, map)};

    if (sizeof(size_t) < sizeof(int64_t)) return; /* No room to spend. */
    if (map->count == MK_POSIX_MAPPINGS_MAX || is_broken(map)) return;
    new.data = mmap(NULL, new.size, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                    file->fd, 0);
    if (new.data == MAP_FAILED) return;
    new.guard = mk_map_guard_take(new.data, new.size);
    if (new.guard == NULL) {
        munmap(new.data, new.size);
        return;
    }
    map->mappings[map->count++] = new;
}

/* See that as much is used of the mapping as the file has. */
static void use_map(const mk_posix_file *file, mk_posix_map *map)
{
    uint64_t size = (uint64_t)map->file_size;

    if (map->count == 0 || map->mappings[map->count - 1].size < size) {
        extend_map(file, map);
    }
    if (map->count > 0 && map->mappings[map->count - 1].size >= size) {
        map->size = map->file_size;
    }
}

static mk_status refresh_map(const mk_posix_file *file, mk_posix_map *map,
                             int64_t tick, mk_error *err)
{
    int64_t committed = mk_posix_tail_position(file);
    int64_t size;
    mk_status status = mk_posix_size(file, &size, err);

    if (status != MK_OK) return status;
    if (size < map->size) {
        return mk_posix_fail_shortened(file, size, map->size, err);
    }
    /* What a tail has ahead of it comes and goes. */
    map->file_size = size < committed ? size : committed;
    map->tick = tick;
    if (map->file_size > map->size) use_map(file, map);
    return MK_OK;
}

/* Point `out` into the mapping, or leave it alone where it does not reach. */
static mk_status view_map(mk_posix_file *file, int64_t position, size_t size,
                          mk_span *out, mk_error *err)
{
    mk_posix_map *map = &file->map;
    int64_t end = position + (int64_t)size;
    int64_t tick = mk_posix_tick();
    mk_status status = MK_OK;

    mk_mutex_lock(&map->mutex);
    if (tick != map->tick || end > map->size) {
        status = refresh_map(file, map, tick, err);
    }
    if (end > map->file_size) end = map->file_size;
    if (is_broken(map)) {
        map->size = 0; /* Some of it is zeros: the file itself is read. */
    }
    if (status == MK_OK && position < end && end <= map->size) {
        *out = (mk_span){map->mappings[map->count - 1].data + position,
                         (size_t)(end - position)};
    }
    mk_mutex_unlock(&map->mutex);
    return status;
}

/* Before memory is taken for a large view, see whether the file has it. There
 * is room for the view to begin anywhere in the first LINE bytes. */
static mk_status make_room(const mk_posix_file *file, mk_scratch *scratch,
                           int64_t position, size_t *size, mk_error *err)
{
    int64_t end;
    mk_status status;

    if (*size + LINE <= scratch->capacity) return MK_OK;
    status = mk_posix_size(file, &end, err);
    if (status != MK_OK) return status;
    if (end <= position) {
        *size = 0;
    } else if ((uint64_t)(end - position) < *size) {
        *size = (size_t)(end - position);
    }
    return mk_scratch_reserve(scratch, *size + LINE, err);
}

static mk_status view_read(const mk_posix_file *file, mk_scratch *scratch,
                           int64_t position, size_t size, mk_span *out,
                           mk_error *err)
{
    size_t have = 0;
    mk_status status = make_room(file, scratch, position, &size, err);
    uint8_t *start;

    if (status != MK_OK) return status;
    /* The kernel copies faster between places that are aligned alike. */
    start = scratch->data +
            (LINE + (size_t)position - (uintptr_t)scratch->data) % LINE;
    while (have < size) {
        ssize_t done = pread(file->fd, start + have, size - have,
                             position + (int64_t)have);

        if (done == 0) break;
        if (done > 0) {
            have += (size_t)done;
        } else if (errno != EINTR) {
            return mk_fail_errno(err, errno, file->path,
                                 "cannot read %zu bytes at %" PRId64 " of %s",
                                 size, position, file->path);
        }
    }
    *out = (mk_span){start, have};
    return MK_OK;
}

mk_status mk_posix_file_view(mk_file *base, mk_scratch *scratch,
                             int64_t position, size_t size, mk_span *out,
                             mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    int64_t end = mk_posix_tail_position(file);
    mk_status status;

    if (position >= end) return MK_OK;
    if (size > (uint64_t)(end - position)) size = (size_t)(end - position);
    if (file->mappable) {
        status = view_map(file, position, size, out, err);
        if (status != MK_OK || out->data != NULL) return status;
    }
    return view_read(file, scratch, position, size, out, err);
}

/* ---- Writing ---- */

mk_status mk_posix_write(const mk_posix_file *file, int64_t position,
                         const void *bytes, size_t size, mk_error *err)
{
    const uint8_t *rest = bytes;
    size_t left = size;

    while (left > 0) {
        ssize_t done = pwrite(file->fd, rest, left, position);

        if (done > 0) {
            rest += done;
            left -= (size_t)done;
            position += done;
        } else if (done == 0 || errno != EINTR) {
            return mk_fail_errno(err, done == 0 ? EIO : errno, file->path,
                                 "cannot write %zu bytes to %s", size,
                                 file->path);
        }
    }
    return MK_OK;
}

mk_status mk_posix_file_write(mk_file *base, int64_t position,
                              const void *bytes, size_t size, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;

    MK_ASSERT(mk_posix_tail_position(file) == MK_POSIX_NO_TAIL);
    return mk_posix_write(file, position, bytes, size, err);
}

/* Stores through a mapping are in the page cache as writes are: a sync of the
 * descriptor covers them. */
mk_status mk_posix_file_sync(mk_file *base, bool data_only, mk_sync_name name,
                             mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    int failed;

    (void)name;
    atomic_fetch_add_explicit(&file->tail.syncs, 1, memory_order_relaxed);
    do {
        failed = data_only ? fdatasync(file->fd) : fsync(file->fd);
    } while (failed != 0 && errno == EINTR);
    if (failed == 0) return MK_OK;
    return mk_fail_errno(err, errno, file->path, "cannot sync %s", file->path);
}
