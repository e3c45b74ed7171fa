/*
 * vfs_posix -- the disk of the real machine: its names, its locks, and the
 * table of methods.
 *
 * A lock is one of an *open file description*: it dies with the last descriptor
 * of its opening, excludes other openings in the same process too, and is not
 * lost when another descriptor of the file is closed.
 *
 * The session is a page that the kernel wipes in a forked child: there it
 * reads 0.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "os/posix.h"

#define SESSION_SIZE 4096u /* The page of which the first word counts. */
#define LOCK_TRIES   8
#define HOLDER_MAX   201 /* Bytes of a lock that are looked at. */

typedef struct posix_disk {
    mk_vfs base;
    uint64_t *session; /* Owned, a mapping. */
} posix_disk;

/* ---- Names ---- */

static mk_status posix_stat(mk_vfs *vfs, const char *path, mk_file_stat *out,
                            mk_error *err)
{
    struct stat native;

    (void)vfs;
    if (lstat(path, &native) != 0) {
        return mk_fail_errno(err, errno, path, "cannot stat %s", path);
    }
    mk_posix_fill_stat(&native, out);
    return MK_OK;
}

/* Times before 1970 round down too. */
static struct timespec time_of_ms(int64_t time_ms)
{
    int64_t seconds = time_ms / 1000;
    int64_t rest = time_ms % 1000;

    if (rest < 0) {
        rest += 1000;
        seconds--;
    }
    return (struct timespec){
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)rest * 1000000,
    };
}

static mk_status posix_set_mtime(mk_vfs *vfs, const char *path,
                                 int64_t mtime_ms, mk_error *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of_ms(mtime_ms)};

    (void)vfs;
    if (utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0) {
        return MK_OK;
    }
    return mk_fail_errno(err, errno, path, "cannot set the time of %s", path);
}

static mk_status posix_rename(mk_vfs *vfs, const char *from, const char *to,
                              mk_error *err)
{
    (void)vfs;
    if (rename(from, to) == 0) return MK_OK;
    return mk_fail_errno(err, errno, from, "cannot rename %s to %s", from, to);
}

static mk_status posix_exchange(mk_vfs *vfs, const char *a, const char *b,
                                mk_error *err)
{
    mk_status status;
    bool unsupported;

    (void)vfs;
    if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) ==
        0) {
        return MK_OK;
    }
    unsupported = errno == ENOSYS || errno == EINVAL || errno == ENOTSUP;
    status = mk_fail_errno(err, errno, a, "cannot exchange %s and %s", a, b);
    if (!unsupported) return status;
    if (err != NULL) err->status = MK_UNSUPPORTED;
    return MK_UNSUPPORTED;
}

static mk_status posix_link(mk_vfs *vfs, const char *from, const char *to,
                            mk_error *err)
{
    (void)vfs;
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) == 0) return MK_OK;
    return mk_fail_errno(err, errno, from, "cannot link %s to %s", from, to);
}

static mk_status posix_unlink(mk_vfs *vfs, const char *path, mk_error *err)
{
    (void)vfs;
    if (unlink(path) == 0) return MK_OK;
    return mk_fail_errno(err, errno, path, "cannot remove %s", path);
}

static mk_status posix_mkdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    (void)vfs;
    if (mkdir(path, 0755) == 0) return MK_OK;
    return mk_fail_errno(err, errno, path, "cannot make the directory %s",
                         path);
}

static mk_status posix_rmdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    (void)vfs;
    if (rmdir(path) == 0) return MK_OK;
    return mk_fail_errno(err, errno, path, "cannot remove the directory %s",
                         path);
}

static mk_status posix_sync_directory(mk_vfs *vfs, const char *path,
                                      mk_sync_name name, mk_error *err)
{
    int fd = -1;
    int failed = 0;
    int os_errno = 0;

    (void)vfs;
    (void)name;
    do {
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return mk_fail_errno(err, errno, path, "cannot open %s", path);
    }
    do {
        failed = fsync(fd);
    } while (failed != 0 && errno == EINTR);
    if (failed != 0) os_errno = errno;
    close(fd);
    if (os_errno == 0) return MK_OK;
    return mk_fail_errno(err, os_errno, path, "cannot sync %s", path);
}

/* ---- Listing ---- */

struct entry {
    size_t start; /* Of the name, in `bytes`; */
    char *name;   /* ... and, once those stand still, there. Borrowed. */
    mk_file_kind kind;
};

/* A list in the making. */
struct listing {
    const mk_heap *heap; /* Borrowed. */
    char *bytes;         /* Owned. The names, each with its NUL. */
    size_t bytes_used, bytes_capacity;
    struct entry *entries; /* Owned. */
    size_t count, capacity;
};

static mk_status add_entry(struct listing *listing, const char *name,
                           mk_file_kind kind, mk_error *err)
{
    size_t size = strlen(name) + 1;
    void *array = listing->bytes;
    mk_status status = mk_grow(listing->heap, &array, &listing->bytes_capacity,
                               listing->bytes_used + size, 1, err);

    listing->bytes = array;
    if (status != MK_OK) return status;
    array = listing->entries;
    status = mk_grow(listing->heap, &array, &listing->capacity,
                     listing->count + 1, sizeof *listing->entries, err);
    listing->entries = array;
    if (status != MK_OK) return status;

    memcpy(listing->bytes + listing->bytes_used, name, size);
    listing->entries[listing->count++] =
        (struct entry){.start = listing->bytes_used, .kind = kind};
    listing->bytes_used += size;
    return MK_OK;
}

/* Not every disk tells the kind along with the name. Returns an errno. */
static int find_kind(DIR *directory, const struct dirent *found,
                     mk_file_kind *kind)
{
    struct stat native;
    mk_file_stat stat;

    *kind = MK_KIND_OTHER;
    switch (found->d_type) {
    case DT_REG:
        *kind = MK_KIND_FILE;
        return 0;
    case DT_DIR:
        *kind = MK_KIND_DIRECTORY;
        return 0;
    case DT_LNK:
        *kind = MK_KIND_SYMLINK;
        return 0;
    default:
        break;
    }
    if (fstatat(dirfd(directory), found->d_name, &native,
                AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    mk_posix_fill_stat(&native, &stat);
    *kind = stat.kind;
    return 0;
}

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A name that goes while we look was not there. */
static mk_status read_entries(struct listing *listing, DIR *directory,
                              const char *path, mk_error *err)
{
    for (;;) {
        const struct dirent *found;
        mk_file_kind kind;
        mk_status status;
        int failed;

        errno = 0;
        found = readdir(directory);
        if (found == NULL) break;
        if (is_self_or_parent(found->d_name)) continue;
        failed = find_kind(directory, found, &kind);
        if (failed == ENOENT) continue;
        if (failed != 0) {
            return mk_fail_errno(err, failed, path, "cannot list %s", path);
        }
        status = add_entry(listing, found->d_name, kind, err);
        if (status != MK_OK) return status;
    }
    if (errno == 0) return MK_OK;
    return mk_fail_errno(err, errno, path, "cannot list %s", path);
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;

    return strcmp(left->name, right->name);
}

/* Sort, and copy to where a list has its names: behind their array. */
static mk_status finish_listing(struct listing *listing, mk_name_list *out,
                                mk_error *err)
{
    size_t count = listing->count;
    size_t size = count * sizeof *out->names + listing->bytes_used;
    char *name;

    if (count == 0) return MK_OK;
    for (size_t i = 0; i < count; i++) {
        listing->entries[i].name = listing->bytes + listing->entries[i].start;
    }
    qsort(listing->entries, count, sizeof *listing->entries, compare_entries);

    out->names = mk_alloc(listing->heap, size);
    out->kinds = mk_alloc(listing->heap, count * sizeof *out->kinds);
    if (out->names == NULL || out->kinds == NULL) {
        mk_name_list_deinit(out);
        return mk_fail_memory(err, size);
    }
    name = (char *)(out->names + count);
    for (size_t i = 0; i < count; i++) {
        size_t name_size = strlen(listing->entries[i].name) + 1;

        memcpy(name, listing->entries[i].name, name_size);
        out->names[i] = name;
        out->kinds[i] = listing->entries[i].kind;
        name += name_size;
    }
    out->count = count;
    return MK_OK;
}

static mk_status posix_list(mk_vfs *vfs, const char *path, mk_name_list *out,
                            mk_error *err)
{
    struct listing listing = {.heap = &vfs->heap};
    DIR *directory = opendir(path); /* Close-on-exec by itself. */
    mk_status status;

    if (directory == NULL) {
        return mk_fail_errno(err, errno, path, "cannot list %s", path);
    }
    status = read_entries(&listing, directory, path, err);
    if (status == MK_OK) status = finish_listing(&listing, out, err);
    closedir(directory);
    mk_release(&vfs->heap, listing.bytes);
    mk_release(&vfs->heap, listing.entries);
    return status;
}

/* ---- Resolving ---- */

/* Replace the path in `work` by what is behind it, if that exists. */
static int follow(char *work)
{
    char real[PATH_MAX];

    if (realpath(work, real) == NULL) return errno == ENOENT ? 0 : errno;
    memcpy(work, real, strlen(real) + 1);
    return 0;
}

/* Go one name on from `work`, which has all links followed. Returns an errno.
 */
static int step(char *work, const char *name, size_t size)
{
    size_t used = strlen(work);
    char *slash = strrchr(work, '/');

    if (size == 1 && name[0] == '.') return 0;
    if (size == 2 && name[0] == '.' && name[1] == '.') {
        slash[slash == work ? 1 : 0] = '\0';
        return 0;
    }
    if (used + 1 + size >= PATH_MAX) return ENAMETOOLONG;
    if (work[used - 1] != '/') work[used++] = '/';
    memcpy(work + used, name, size);
    work[used + size] = '\0';
    return follow(work);
}

/* Name by name, so that `..` goes up from where a link leads, as it does for
 * the kernel, and also works in the part that does not exist. */
static int walk(char *work, const char *path)
{
    int failed = 0;

    if (path[0] == '/') {
        memcpy(work, "/", 2);
    } else if (path[0] == '\0') {
        return ENOENT;
    } else if (getcwd(work, PATH_MAX) == NULL) {
        return errno;
    }
    while (*path != '\0' && failed == 0) {
        size_t size = strcspn(path, "/");

        if (size > 0) failed = step(work, path, size);
        path += size;
        if (*path == '/') path++;
    }
    return failed;
}

static mk_status posix_resolve(mk_vfs *vfs, const char *path, char *out,
                               size_t out_size, mk_error *err)
{
    char work[PATH_MAX];
    int failed = walk(work, path);
    size_t size;

    (void)vfs;
    if (failed == 0) {
        size = strlen(work) + 1;
        if (size <= out_size) {
            memcpy(out, work, size);
            return MK_OK;
        }
        failed = ENAMETOOLONG;
    }
    return mk_fail_errno(err, failed, path, "cannot resolve %s", path);
}

/* ---- Locks ---- */

/* Put what the holder wrote into the message, as far as it is text; `own` is
 * what this one would write. */
static mk_status fail_locked(const mk_posix_file *file, const char *own,
                             mk_error *err)
{
    char holder[HOLDER_MAX];
    ssize_t size = pread(file->fd, holder, sizeof holder - 1, 0);
    size_t end = 0;

    while ((ssize_t)end < size && (unsigned char)holder[end] >= ' ') {
        end++;
    }
    holder[end] = '\0';
    return mk_fail_at(err, MK_LOCKED, file->path, -1, "%s is held by %s%s",
                      file->path, end > 0 ? holder : "another opener",
                      end > 0 && strcmp(holder, own) == 0
                          ? ", which is this one: it is open here already"
                          : "");
}

static mk_status lock_file(mk_posix_file *file, const char *holder,
                           mk_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(file->fd, F_OFD_SETLK, &lock) == 0) {
        file->locked = true;
        return MK_OK;
    }
    if (errno == EAGAIN || errno == EACCES) {
        return fail_locked(file, holder, err);
    }
    return mk_fail_errno(err, errno, file->path, "cannot lock %s", file->path);
}

/* A file that has another name, too, may be anybody's. It is a lock if what it
 * holds begins as what is written there, "process"; or with a zero, as a loss
 * of power may leave it. */
static mk_status check_links(const mk_posix_file *file, const char *holder,
                             mk_error *err)
{
    size_t word = strcspn(holder, " ");
    char text[HOLDER_MAX] = {0}; /* The environment may name no holder. */
    struct stat native;

    if (fstat(file->fd, &native) != 0) {
        return mk_fail_errno(err, errno, file->path, "cannot stat %s",
                             file->path);
    }
    if (native.st_nlink < 2 || native.st_size == 0) return MK_OK;
    if (word < sizeof text && native.st_size < HOLDER_MAX &&
        pread(file->fd, text, word, 0) == (ssize_t)word &&
        (text[0] == '\0' || memcmp(text, holder, word) == 0)) {
        return MK_OK;
    }
    return mk_fail_errno(err, EMLINK, file->path,
                         "%s is also a name of a file elsewhere that is no "
                         "lock; it is left alone: remove that name",
                         file->path);
}

/* The old text goes last: overwriting needs no room on a full disk. Where there
 * was none the lock holds without. */
static mk_status write_holder(const mk_posix_file *file, const char *holder,
                              mk_error *err)
{
    size_t size = strlen(holder);
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    status = mk_posix_write(file, 0, holder, size, err);
    if (mk_is_no_room(status, err)) return MK_OK;
    if (status != MK_OK) return status;
    return mk_posix_set_size(file, (int64_t)size, err);
}

/* Does the name still lead to the file that was opened by it? */
static bool is_current(const mk_posix_file *file)
{
    struct stat named;
    struct stat opened;

    if (lstat(file->path, &named) != 0) return false;
    if (fstat(file->fd, &opened) != 0) return false;
    return named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

static mk_status posix_lock(mk_vfs *vfs, const char *path, const char *holder,
                            mk_file **out, mk_error *err)
{
    mk_posix_file *file;
    mk_status status;

    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        status = mk_posix_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, &file,
                               err);
        if (status != MK_OK) return status;
        status = lock_file(file, holder, err);
        if (status == MK_OK) status = check_links(file, holder, err);
        if (status == MK_OK) status = write_holder(file, holder, err);
        if (status == MK_OK && is_current(file)) {
            *out = &file->base;
            return MK_OK;
        }
        mk_posix_file_close(&file->base, NULL);
        if (status != MK_OK) return status;
    }
    return mk_fail_at(err, MK_LOCKED, path, -1, "%s is replaced all the time",
                      path);
}

/* ---- The disk ---- */

static void posix_release(mk_vfs *vfs)
{
    posix_disk *disk = (posix_disk *)vfs;
    mk_heap heap = vfs->heap;

    munmap(disk->session, SESSION_SIZE);
    mk_release(&heap, disk);
}

static const mk_vfs_methods methods = {
    .release = posix_release,
    .open = mk_posix_file_open,
    .close = mk_posix_file_close,
    .stat_file = mk_posix_file_stat,
    .view = mk_posix_file_view,
    .write = mk_posix_file_write,
    .truncate = mk_posix_file_truncate,
    .allocate = mk_posix_file_allocate,
    .sync = mk_posix_file_sync,
    .tail_begin = mk_posix_tail_begin,
    .tail_reserve = mk_posix_tail_reserve,
    .tail_commit = mk_posix_tail_commit,
    .tail_append = mk_posix_tail_append,
    .tail_end = mk_posix_tail_end,
    .stat = posix_stat,
    .set_mtime = posix_set_mtime,
    .rename = posix_rename,
    .exchange = posix_exchange,
    .link = posix_link,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .rmdir = posix_rmdir,
    .list = posix_list,
    .sync_directory = posix_sync_directory,
    .lock = posix_lock,
    .resolve = posix_resolve,
};

/* A kernel too old to wipe the page leaves a session that does not change. */
static uint64_t *new_session(void)
{
    void *page = mmap(NULL, SESSION_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) return NULL;
    madvise(page, SESSION_SIZE, MADV_WIPEONFORK);
    *(uint64_t *)page = 1;
    return page;
}

mk_status mk_vfs_new_posix(const mk_heap *heap, mk_vfs **out, mk_error *err)
{
    posix_disk *disk = mk_alloc_zero(heap, sizeof *disk);

    *out = NULL;
    if (disk == NULL) return mk_fail_memory(err, sizeof *disk);
    disk->session = new_session();
    if (disk->session == NULL) {
        mk_release(heap, disk);
        return mk_fail_memory(err, SESSION_SIZE);
    }
    disk->base.methods = &methods;
    disk->base.heap = *heap;
    disk->base.session = disk->session;
    disk->base.dead_status = MK_CLOSED;
    *out = &disk->base;
    return MK_OK;
}
