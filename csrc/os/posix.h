/*
 * posix -- what the files of the POSIX disk share.
 *
 * vfs_posix.c has the disk and its names, file_posix.c the open files and
 * tail_posix.c their tails.
 */
#ifndef MK_OS_POSIX_H
#define MK_OS_POSIX_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "os/map_guard.h"
#include "os/thread.h"
#include "os/vfs.h"

/* A tail's position while there is none: everything in the file is seen. */
#define MK_POSIX_NO_TAIL INT64_MAX

typedef struct mk_posix_mapping {
    uint8_t *data;       /* Owned. */
    size_t size;         /* Of which the file may have less. */
    mk_map_guard *guard; /* Owned. */
} mk_posix_mapping;

/* A growing file gets a larger mapping now and then; no more than fit these. */
#define MK_POSIX_MAPPINGS_MAX 8

/* A file in memory, guarded by `mutex`: views come from any thread. */
typedef struct mk_posix_map {
    mk_mutex mutex;
    /* The last one covers all that is used; views still point into others. */
    mk_posix_mapping mappings[MK_POSIX_MAPPINGS_MAX];
    size_t count;
    int64_t size;      /* Of what is used; */
    int64_t file_size; /* ... and of the file, when last looked at: */
    int64_t tick;      /* ... a time by mk_posix_tick(). */
} mk_posix_map;

/* The growing end of a file: see tail_posix.c. */
typedef struct mk_posix_tail {
    _Atomic int64_t position; /* End of what is committed. */
    mk_tail_mode mode;
    int64_t filled;          /* The file is at least that long. */
    int64_t tick;            /* When that was last found to be true. */
    uint8_t *window;         /* Owned, a mapping; NULL: none. */
    mk_map_guard *guard;     /* Owned: of the window. */
    int64_t window_position; /* Where it begins in the file. */
    uint8_t *buffer;         /* Owned. */
    size_t capacity;         /* Of the buffer. */
    size_t reserved;         /* Size of the reservation, */
    bool in_window;          /* ... which lies there, not in the buffer. */
    unsigned small_run;      /* Small commits in a row, up to a limit. */
    _Atomic unsigned syncs;  /* Of the file, by any thread; */
    unsigned syncs_seen;     /* ... when last looked at; */
    unsigned sync_run; /* ... of few bytes each in a row, up to a limit. */
    int64_t unsynced;  /* Bytes committed since. */
} mk_posix_tail;

typedef struct mk_posix_file {
    mk_file base;
    char *path;       /* Owned. As opened, for messages. */
    uint64_t session; /* The process that opened it: vfs->session, then. */
    int fd;
    bool mappable; /* MK_OPEN_MAPPED. */
    bool locked;   /* By mk_vfs_lock(). */
    mk_posix_map map;
    mk_posix_tail tail;
} mk_posix_file;

/* Return a time that changes every few milliseconds and costs nothing. */
int64_t mk_posix_tick(void);

/* Tell that a file of `wanted` bytes has only `size`. */
mk_status mk_posix_fail_shortened(const mk_posix_file *file, int64_t size,
                                  int64_t wanted, mk_error *err);

void mk_posix_fill_stat(const struct stat *native, mk_file_stat *out);

/* ---- Files ---- */

mk_status mk_posix_open(mk_vfs *vfs, const char *path, unsigned flags,
                        mk_posix_file **out, mk_error *err);
mk_status mk_posix_size(const mk_posix_file *file, int64_t *out, mk_error *err);
mk_status mk_posix_set_size(const mk_posix_file *file, int64_t size,
                            mk_error *err);
mk_status mk_posix_write(const mk_posix_file *file, int64_t position,
                         const void *bytes, size_t size, mk_error *err);

/* The methods of the disk's table. */
mk_status mk_posix_file_open(mk_vfs *vfs, const char *path, unsigned flags,
                             mk_file **out, mk_error *err);
mk_status mk_posix_file_close(mk_file *file, mk_error *err);
mk_status mk_posix_file_stat(mk_file *file, mk_file_stat *out, mk_error *err);
mk_status mk_posix_file_view(mk_file *file, mk_scratch *scratch,
                             int64_t position, size_t size, mk_span *out,
                             mk_error *err);
mk_status mk_posix_file_write(mk_file *file, int64_t position,
                              const void *bytes, size_t size, mk_error *err);
mk_status mk_posix_file_truncate(mk_file *file, int64_t size, mk_error *err);
mk_status mk_posix_file_allocate(mk_file *file, int64_t size, mk_error *err);
mk_status mk_posix_file_sync(mk_file *file, bool data_only, mk_sync_name name,
                             mk_error *err);

/* ---- Tails ---- */

/* Make the fields of a file without a tail. */
void mk_posix_tail_init(mk_posix_tail *tail);

/* Free what the tail holds; the file keeps its size. */
void mk_posix_tail_deinit(mk_posix_file *file);

/* Set the file's size, and go on there. */
mk_status mk_posix_tail_truncate(mk_posix_file *file, int64_t size,
                                 mk_error *err);

/* The methods of the disk's table. */
mk_status mk_posix_tail_begin(mk_file *file, int64_t position,
                              mk_tail_mode mode, mk_error *err);
mk_status mk_posix_tail_reserve(mk_file *file, size_t size, uint8_t **out,
                                mk_error *err);
mk_status mk_posix_tail_commit(mk_file *file, size_t size, mk_error *err);
mk_status mk_posix_tail_append(mk_file *file, const void *bytes, size_t size,
                               mk_error *err);
mk_status mk_posix_tail_end(mk_file *file, mk_error *err);

/* Has the file a tail? Else its position is MK_POSIX_NO_TAIL. */
static inline int64_t mk_posix_tail_position(const mk_posix_file *file)
{
    return atomic_load_explicit(&file->tail.position, memory_order_acquire);
}

/* Was the file opened by this process, not by one that it was forked from? */
static inline bool mk_posix_is_ours(const mk_posix_file *file)
{
    return file->session == *file->base.vfs->session;
}

#endif /* MK_OS_POSIX_H */
