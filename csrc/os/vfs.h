/*
 * vfs -- the seam for every effect on a disk.
 *
 * A disk is a table of functions with a POSIX and a simulated implementation.
 * The core calls the wrappers below; each is one operation of the kinds in
 * MK_VFS_OPERATIONS. Paths are absolute. Interrupted and short system calls
 * end below this line: a read is whole or ends at the end of the file, a write
 * is whole or an error.
 *
 * A file is read through *views* and extended through a *tail*:
 *
 *  - mk_file_view() gives a pointer to a stretch of the file, in the caller's
 *    scratch or in a mapping, valid until the next view with that scratch or
 *    the closing of the file.
 *  - mk_file_tail_reserve() gives a place to build the next bytes in, and
 *    mk_file_tail_commit() makes them the kernel's (kill -9 no longer loses
 *    them). A failed commit may leave part of the bytes behind: the caller
 *    truncates.
 */
#ifndef MK_OS_VFS_H
#define MK_OS_VFS_H

#include "base/bytes.h"
#include "base/heap.h"

/* The words of traces and injected faults. */
/* clang-format off */
#define MK_VFS_OPERATIONS(X)                                                 \
    X(open) X(read) X(write) X(truncate) X(allocate) X(fsync) X(fdatasync)   \
    X(fsync_dir) X(utime) X(rename) X(exchange) X(link) X(unlink) X(mkdir)   \
    X(rmdir) X(list) X(stat) X(lock) X(close)
/* clang-format on */

/* Every sync has a name, so that a test can leave out one and show what
 * breaks. */
#define MK_SYNC_NAMES(X)                                                 \
    X(FLUSH_LOG)         /* A segment's log, by flush. */                \
    X(SEAL_LOG)          /* The same, before another one follows. */     \
    X(SEAL_DIRECTORY)    /* ... and its name, if that is new. */         \
    X(FLUSH_DIRECTORY)   /* The names of new segments, by flush. */      \
    X(RECOVER_DIRECTORY) /* The state's, before it is acted upon. */     \
    X(CREATE_PARENT)     /* The name of a new partition directory. */    \
    X(CUT_DIRECTORY)     /* The names of segments that were cut off. */  \
    X(TRUNCATE_LOG)      /* A log whose tail was cut off. */             \
    X(REPLACE_FILE)      /* A small file, before it takes its name. */   \
    X(REPLACE_DIRECTORY) /* ... and the directory after it did. */       \
    X(SWAP_LOG)          /* The log of a rewritten segment. */           \
    X(SWAP_PARENT)       /* The parent, after the swap. */               \
    X(SWAP_TREE)         /* An old tree, before its note goes. */        \
    X(SWAP_DONE)         /* The parent, after the old directory went. */ \
    X(SEGMENT_LOG)       /* The log of a segment that was rewritten, */  \
    X(SEGMENT_INDEX)     /* ... and its indexes. */                      \
    X(SEGMENTS_AHEAD)    /* All second names but the first one's. */     \
    X(SEGMENTS_SWAP)     /* The names of complete rewritten segments, */ \
    X(SEGMENTS_GONE)     /* ... after their sources went, */             \
    X(SEGMENTS_DONE)     /* ... with their final names, */               \
    X(SEGMENTS_UNDONE)   /* ... or after they went themselves. */        \
    X(UNSHARE_LOG)       /* A log that gets a file of its own. */        \
    X(COPY_LOG)          /* A log in a copy of its directory. */         \
    X(COPY_PARENT)       /* The parent, after the copy got its name. */  \
    X(REPAIR_LOG)        /* What could be read of a damaged log. */      \
    X(REPAIR_QUARANTINE) /* The names in a quarantine directory. */      \
    X(REPAIR_DIRECTORY)  /* ... and in the directory of the log. */      \
    X(REPAIR_PARENT)     /* ... and in the one above it. */

typedef enum mk_sync_name {
#define X(name) MK_SYNC_##name,
    MK_SYNC_NAMES(X)
#undef X
        MK_SYNC_COUNT
} mk_sync_name;

typedef struct mk_vfs mk_vfs;
typedef struct mk_file mk_file;

/* Memory for views: grown as needed, kept until deinit. */
typedef struct mk_scratch {
    const mk_heap *heap; /* Borrowed. */
    uint8_t *data;       /* Owned. */
    size_t capacity;
} mk_scratch;

typedef enum mk_file_kind {
    MK_KIND_FILE,
    MK_KIND_DIRECTORY,
    MK_KIND_SYMLINK,
    MK_KIND_OTHER,
} mk_file_kind;

/* What is known of a name. */
typedef struct mk_file_stat {
    mk_file_kind kind; /* Of the name itself: links are not followed. */
    int64_t size;
    int64_t mtime_ms; /* Of a name; 0 of an open file. */
    int32_t mtime_ns; /* What comes on top of it, where a disk tells that. */
    uint64_t inode;   /* Unique on its disk while it exists. */
    uint64_t links;
} mk_file_stat;

/* The names in a directory, sorted by bytes, without `.` and `..`. */
typedef struct mk_name_list {
    const mk_heap *heap; /* Borrowed. */
    char **names;        /* Owned, each in the same block as the array. */
    mk_file_kind *kinds; /* Owned, a block of its own. */
    size_t count;
} mk_name_list;

enum {
    MK_OPEN_WRITE = 1,     /* For reading and writing; else for reading. */
    MK_OPEN_CREATE = 2,    /* Make it if it is missing. */
    MK_OPEN_EXCLUSIVE = 4, /* With CREATE: it must be missing. */
    MK_OPEN_TRUNCATE = 8,  /* Make it empty. */
    MK_OPEN_MAPPED = 16,   /* Views may be mapped. */
};

/* How a tail is written; in this order. */
typedef enum mk_tail_mode {
    MK_TAIL_PLAIN,  /* One write a commit; the file ends with it. */
    MK_TAIL_AHEAD,  /* One write a commit; where many are synced, zeros follow
                       in the file, until the tail ends. */
    MK_TAIL_AUTO,   /* The same; mapped after many small commits in a row that
                       are not synced, where safe. */
    MK_TAIL_MAPPED, /* The same; mapped for small commits. */
} mk_tail_mode;

typedef struct mk_vfs_methods {
    void (*release)(mk_vfs *vfs);
    mk_status (*open)(mk_vfs *vfs, const char *path, unsigned flags,
                      mk_file **out, mk_error *err);
    mk_status (*close)(mk_file *file, mk_error *err);
    mk_status (*stat_file)(mk_file *file, mk_file_stat *out, mk_error *err);
    mk_status (*view)(mk_file *file, mk_scratch *scratch, int64_t position,
                      size_t size, mk_span *out, mk_error *err);
    mk_status (*write)(mk_file *file, int64_t position, const void *bytes,
                       size_t size, mk_error *err);
    mk_status (*truncate)(mk_file *file, int64_t size, mk_error *err);
    mk_status (*allocate)(mk_file *file, int64_t size, mk_error *err);
    mk_status (*sync)(mk_file *file, bool data_only, mk_sync_name name,
                      mk_error *err);
    mk_status (*tail_begin)(mk_file *file, int64_t position, mk_tail_mode mode,
                            mk_error *err);
    mk_status (*tail_reserve)(mk_file *file, size_t size, uint8_t **out,
                              mk_error *err);
    mk_status (*tail_commit)(mk_file *file, size_t size, mk_error *err);
    /* May be NULL: reserve, copy and commit then. */
    mk_status (*tail_append)(mk_file *file, const void *bytes, size_t size,
                             mk_error *err);
    mk_status (*tail_end)(mk_file *file, mk_error *err);
    mk_status (*stat)(mk_vfs *vfs, const char *path, mk_file_stat *out,
                      mk_error *err);
    mk_status (*set_mtime)(mk_vfs *vfs, const char *path, int64_t mtime_ms,
                           mk_error *err);
    mk_status (*rename)(mk_vfs *vfs, const char *from, const char *to,
                        mk_error *err);
    mk_status (*exchange)(mk_vfs *vfs, const char *a, const char *b,
                          mk_error *err);
    mk_status (*link)(mk_vfs *vfs, const char *from, const char *to,
                      mk_error *err);
    mk_status (*unlink)(mk_vfs *vfs, const char *path, mk_error *err);
    mk_status (*mkdir)(mk_vfs *vfs, const char *path, mk_error *err);
    mk_status (*rmdir)(mk_vfs *vfs, const char *path, mk_error *err);
    mk_status (*list)(mk_vfs *vfs, const char *path, mk_name_list *out,
                      mk_error *err);
    mk_status (*sync_directory)(mk_vfs *vfs, const char *path,
                                mk_sync_name name, mk_error *err);
    mk_status (*lock)(mk_vfs *vfs, const char *path, const char *holder,
                      mk_file **out, mk_error *err);
    mk_status (*resolve)(mk_vfs *vfs, const char *path, char *out,
                         size_t out_size, mk_error *err);
} mk_vfs_methods;

struct mk_vfs {
    const mk_vfs_methods *methods;
    mk_heap heap;
    /* Handles made while `*session` had another value are dead: the process
     * forked, or the simulated disk lost power. */
    const volatile uint64_t *session; /* Owned by the implementation. */
    mk_status dead_status;            /* CLOSED or CRASHED. */
};

/* The part of a file that every implementation begins with. */
struct mk_file {
    mk_vfs *vfs; /* Borrowed. */
};

/* Make the POSIX disk. */
MK_NODISCARD mk_status mk_vfs_new_posix(const mk_heap *heap, mk_vfs **out,
                                        mk_error *err);

/* Free a disk. NULL is a no-op. All its files are closed by then. */
void mk_vfs_free(mk_vfs *vfs);

/* ---- Files ---- */

/* Open a regular file; anything else by that name, a symbolic link too, is an
 * IO error. Errors: NOT_FOUND, IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_file_open(mk_vfs *vfs, const char *path,
                                    unsigned flags, mk_file **out,
                                    mk_error *err);

/* Close it, ending its tail. NULL is a no-op. The handle is gone whatever the
 * status. */
mk_status mk_file_close(mk_file *file, mk_error *err);

MK_NODISCARD mk_status mk_file_stat_open(mk_file *file, mk_file_stat *out,
                                         mk_error *err);

/* Give up to `size` bytes from `position` on; fewer only where the file ends.
 * An active tail's bytes are seen as far as they are committed. */
MK_NODISCARD mk_status mk_file_view(mk_file *file, mk_scratch *scratch,
                                    int64_t position, size_t size, mk_span *out,
                                    mk_error *err);

/* Write at a position. Not for a file with an active tail. */
MK_NODISCARD mk_status mk_file_write(mk_file *file, int64_t position,
                                     const void *bytes, size_t size,
                                     mk_error *err);

/* Set the size. An active tail goes on at the new end. */
MK_NODISCARD mk_status mk_file_truncate(mk_file *file, int64_t size,
                                        mk_error *err);

/* Make the file `size` bytes long, with room on the disk for all of them;
 * zeros are what is new. Errors: IO (ENOSPC), the size unchanged. */
MK_NODISCARD mk_status mk_file_allocate(mk_file *file, int64_t size,
                                        mk_error *err);

/* Put the file's data, size and (unless `data_only`) times on stable storage.
 */
MK_NODISCARD mk_status mk_file_sync(mk_file *file, bool data_only,
                                    mk_sync_name name, mk_error *err);

/* Begin to append at `position`. What stands there and beyond, if anything, is
 * not meaningful. */
MK_NODISCARD mk_status mk_file_tail_begin(mk_file *file, int64_t position,
                                          mk_tail_mode mode, mk_error *err);

/* Give room for `size` bytes; valid until the next call on the file. */
MK_NODISCARD mk_status mk_file_tail_reserve(mk_file *file, size_t size,
                                            uint8_t **out, mk_error *err);

/* Append the first `size` bytes of what was reserved. Errors: IO;
 * CORRUPT_SEGMENT when somebody else shortened the file. */
MK_NODISCARD mk_status mk_file_tail_commit(mk_file *file, size_t size,
                                           mk_error *err);

/* Append bytes that were built elsewhere: reserve and commit in one. */
MK_NODISCARD mk_status mk_file_tail_append(mk_file *file, const void *bytes,
                                           size_t size, mk_error *err);

/* End the tail: the file is as long as what was committed. */
MK_NODISCARD mk_status mk_file_tail_end(mk_file *file, mk_error *err);

/* ---- Names ---- */

/* Errors: NOT_FOUND, IO. */
MK_NODISCARD mk_status mk_vfs_stat(mk_vfs *vfs, const char *path,
                                   mk_file_stat *out, mk_error *err);
MK_NODISCARD mk_status mk_vfs_set_mtime(mk_vfs *vfs, const char *path,
                                        int64_t mtime_ms, mk_error *err);
MK_NODISCARD mk_status mk_vfs_rename(mk_vfs *vfs, const char *from,
                                     const char *to, mk_error *err);

/* Let two names change places in one step. Errors: UNSUPPORTED where the disk
 * can't. */
MK_NODISCARD mk_status mk_vfs_exchange(mk_vfs *vfs, const char *a,
                                       const char *b, mk_error *err);
MK_NODISCARD mk_status mk_vfs_link(mk_vfs *vfs, const char *from,
                                   const char *to, mk_error *err);
MK_NODISCARD mk_status mk_vfs_unlink(mk_vfs *vfs, const char *path,
                                     mk_error *err);
MK_NODISCARD mk_status mk_vfs_mkdir(mk_vfs *vfs, const char *path,
                                    mk_error *err);
MK_NODISCARD mk_status mk_vfs_rmdir(mk_vfs *vfs, const char *path,
                                    mk_error *err);

/* The caller releases the list with mk_name_list_deinit(). */
MK_NODISCARD mk_status mk_vfs_list(mk_vfs *vfs, const char *path,
                                   mk_name_list *out, mk_error *err);
void mk_name_list_deinit(mk_name_list *list);

/* Put the names in a directory on stable storage. */
MK_NODISCARD mk_status mk_vfs_sync_directory(mk_vfs *vfs, const char *path,
                                             mk_sync_name name, mk_error *err);

/*
 * Lock the file at `path`, made if missing, against all other openers in this
 * process and others, and write `holder` into it. The lock lasts until
 * mk_file_close() or the death of the process, and follows the inode.
 * Errors: LOCKED, with the other holder's text in the message; IO (EACCES,
 * ...).
 */
MK_NODISCARD mk_status mk_vfs_lock(mk_vfs *vfs, const char *path,
                                   const char *holder, mk_file **out,
                                   mk_error *err);

/* Write the absolute path behind `path`, symbolic links followed as far as it
 * exists, into `out`. */
MK_NODISCARD mk_status mk_vfs_resolve(mk_vfs *vfs, const char *path, char *out,
                                      size_t out_size, mk_error *err);

/* ---- Scratch ---- */

void mk_scratch_init(mk_scratch *scratch, const mk_heap *heap);
void mk_scratch_deinit(mk_scratch *scratch);

/* Make room for `size` bytes; what was there is lost. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_scratch_reserve(mk_scratch *scratch, size_t size,
                                          mk_error *err);

#endif /* MK_OS_VFS_H */
