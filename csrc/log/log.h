/*
 * log -- one open partition: its segments, its end, its locks.
 *
 * This header is the inside of an mk_log, seen by log/, clean/ and api/.
 *
 * Threads. `mutex` guards everything that can change; functions that need it
 * end in `_locked`. It is held for memory work and short writes, never across
 * a flush, a rewrite, or a callback (the small state file is synced under it,
 * and so are a segment that is sealed and a truncation; and a log that heals
 * reads under it what was not flushed). `maintaining` is the
 * right to change the set of closed segments, held across whole operations
 * (compaction, retention, truncation): take it before the mutex is let go for a
 * long time, with mk_log_begin_maintenance_locked(). There is one lock order:
 * the mutex of a log, then the mutex of its environment.
 *
 * Invariants:
 *
 *  (1) Segments ascend by base offset; next_offset of each is at most the base
 *      of the one after it. The last one is active, the others are sealed.
 *  (2) first base offset <= log_start_offset <= log_end_offset, and the active
 *      segment's next_offset is at most log_end_offset.
 *  (3) recovery_point <= log_end_offset.
 *  (4) `generation` changes whenever the set of segments, or what a position in
 *      one of them means, changes other than by an append; `cuts` changes, too,
 *      where records end that were never removed from the start: by truncation
 *      and by closing. Cursors look at both without the mutex.
 */
#ifndef MK_LOG_LOG_H
#define MK_LOG_LOG_H

#include <stdatomic.h>

#include "log/batch_cache.h"
#include "log/config.h"
#include "os/env.h"
#include "store/segment_scan.h"

/* What tells a reader whether others have changed a directory's files, but for
 * what was appended. */
typedef struct mk_sight {
    uint64_t directory_inode;
    mk_file_stat state; /* All zero: there is none. */
    uint32_t state_end; /* A checksum of its last bytes. */
    bool settled;       /* It was old when it was seen: the next one is sure to
                           have another time. */
    uint32_t names;     /* A checksum of those of segments. */
} mk_sight;

struct mk_log {
    mk_env *env; /* Counted. */
    mk_vfs *vfs; /* Borrowed from env. */
    mk_heap heap;
    char *place;       /* Owned; absolute: where the log belongs. */
    char *siblings[2]; /* Owned; by mk_sibling: paths beside it, NULL until a
                          reader uses them. They last as long as the log does:
                          files are named without the mutex, too. */
    const char *_Atomic directory; /* Borrowed: the place, but for a reader in a
                                      swap. */
    mk_config config;
    mk_clock clock;
    mk_mapping mapped;
    bool read_only;
    bool kafka_trusts; /* Kafka would take zeros behind the end for damage. */
    mk_sight sight;    /* Of a read-only log's directory, when it was read. */
    uint64_t session;  /* Of the disk, when the log was opened. */

    mk_mutex mutex;
    mk_condition changed; /* The end moved, a sync ended, a state changed. */
    size_t references;    /* The handle and its children. */
    bool closing;         /* One thread closes it: no changes by others. */
    bool closed;
    mk_status failed;    /* MK_OK, or why the log refuses to change. */
    mk_error failure;    /* ... in full. */
    bool set_doubted;    /* ... and other segments may be there than these, */
    char *kept_tree;     /* Owned: ... which have their files here, as a swap
                            could not be ended or undone; NULL: it was. */
    int64_t cut_offset;  /* ... as batches from here on were being cut off; -1:
                            they were not. */
    int64_t cut_to;      /* The state file says that the end is being cut to
                            this offset; -1: it does not; */
    int64_t cut_segment; /* ... this one is then the last segment, */
    int64_t cut_size;    /* ... and that is what its log takes. */
    int64_t lost_offset; /* What is missing begins here; -1: all was told; */
    int64_t lost_end;    /* ... and ends before this. */
    bool healing;        /* Some thread looks whether it may go on. */
    bool unproven;       /* A sync failed: see store/unproven_file. */
    int64_t proven_end; /* While it heals: below it all segments were synced, */
    int64_t unflushed;  /* ... and nothing from this offset on was flushed. */
    bool point_low;     /* More may have been flushed than the recovery point
                           says: by an earlier owner, or before a cut. */
    bool maintaining;   /* Some thread changes the closed segments. */
    mk_thread_id maintainer;
    bool swapping;                /* ... and the directory: no roll now. */
    bool syncing;                 /* Some thread syncs. */
    mk_thread_id callback_thread; /* Is inside a callback of this log */
    size_t callback_depth;        /* ... so many times over. */

    mk_segment **segments; /* Owned; each counted. */
    size_t segment_count;
    size_t segment_capacity;
    _Atomic uint64_t generation;
    _Atomic uint64_t cuts; /* What readers have read ahead is void. */
    uint64_t last_segment_id;
    uint64_t use_count; /* Counts uses of indexes. */
    mk_file_cache files;
    mk_batch_cache batch_cache;
    mk_file *lock; /* Owned; NULL when read-only. */

    int64_t log_start_offset;
    int64_t log_end_offset;
    int64_t dense_offset; /* As in the state file. */
    mk_recovery_point recovery_point;
    int64_t last_flush_ms;
    bool directory_dirty; /* Names of files are not yet synced. */
    bool state_stale;     /* The state file tells less than is known. */
    bool names_inherited; /* An owner who died may have left the names, the
                             state's too, as they are now without a sync:
                             nothing more is promised before there is one. */
    bool rewrite_noted;   /* A note of a swap of segments may be there. */
    int64_t stray_end;    /* Files of removed segments below it may be left. */
    int64_t unstored_bytes; /* Appended since it was written. */
    int64_t reserve_bytes;  /* The reserve is known to have so many. */

    struct mk_waiting *waiting; /* Borrowed: batches of appenders. */
    mk_scratch spare;           /* For a batch that moves to a new segment. */

    mk_log_stats stats;
};

/* ---- Life ---- */

mk_log *mk_log_acquire_locked(mk_log *log);

/* Count one holder less; the last one frees the log. Takes the mutex. */
void mk_log_release(mk_log *log);

/* ---- May this be done? ---- */

/* Errors: CLOSED, CRASHED. */
MK_NODISCARD mk_status mk_log_check_open_locked(mk_log *log, mk_error *err);

/* May the log be changed by this thread, now? Errors: CLOSED, CRASHED,
 * READ_ONLY, BUSY, and what made the log refuse. */
MK_NODISCARD mk_status mk_log_check_writable_locked(mk_log *log, mk_error *err);

/*
 * Is the log still where its directory's path leads, and its active segment
 * still there? Somebody may have moved or replaced the one and removed the
 * other; then what is written goes nowhere. Such a log refuses changes until it
 * is back. Errors: IO (ESTALE).
 */
MK_NODISCARD mk_status mk_log_check_place_locked(mk_log *log, mk_error *err);

/* The first half of it. */
MK_NODISCARD mk_status mk_log_check_lock_locked(mk_log *log, mk_error *err);

/* Fail with what made the log refuse. */
mk_status mk_log_fail_refusing_locked(const mk_log *log, mk_error *err);

/* The same of a log that refuses and is about to be mended. Errors: CLOSED,
 * CRASHED, READ_ONLY, BUSY. */
MK_NODISCARD mk_status mk_log_check_mendable_locked(mk_log *log, mk_error *err);

/* Refuse changes from now on, for the reason in `err`: something was done by
 * half, so that the directory may hold other segments than the log's. */
void mk_log_refuse_locked(mk_log *log, const mk_error *err);

/* The same where only the end of the active segment is in doubt: a write that
 * could not be taken back. */
void mk_log_doubt_tail_locked(mk_log *log, const mk_error *err);

/* The same after a sync that failed: it is in doubt whether what stands above
 * the recovery point will ever be stable, however well it reads. A note of it
 * is left for others. */
void mk_log_doubt_sync_locked(mk_log *log, const mk_error *err);

/* Become the one who changes closed segments; waits for another thread's turn
 * to end. Errors: those of mk_log_check_writable_locked(). */
MK_NODISCARD mk_status mk_log_begin_maintenance_locked(mk_log *log,
                                                       mk_error *err);

/* The same for removing whole segments from the start, which a log that refuses
 * changes for want of room may do: it makes some. */
MK_NODISCARD mk_status mk_log_begin_removal_locked(mk_log *log, mk_error *err);
void mk_log_end_maintenance_locked(mk_log *log);

/* Mark that this thread runs a callback of the log, or no longer does. Called
 * without the mutex. */
void mk_log_enter_callback(mk_log *log);
void mk_log_leave_callback(mk_log *log);

/* Read `clock`, or the log's own if it is empty. Called without the mutex.
 * Since a callback may close the log, it is kept alive from here on, whatever
 * the status: the caller gives the hold back with mk_log_release(). Errors:
 * BUSY inside a callback of the log; those of the clock. */
MK_NODISCARD mk_status mk_log_read_clock(mk_log *log, const mk_clock *clock,
                                         int64_t *now_ms, mk_error *err);

/* ---- Segments ---- */

static inline mk_segment *mk_log_active_locked(const mk_log *log)
{
    return log->segments[log->segment_count - 1];
}

/* Return the number of the segment that holds `offset`: the last one with a
 * base at or before it; 0 if there is none. */
size_t mk_log_find_segment_locked(const mk_log *log, int64_t offset);

/* Give a segment that becomes part of the log its number, and the settings that
 * its indexes keep. */
void mk_log_number_segment_locked(mk_log *log, mk_segment *segment);

/* Add a segment behind all others; the log takes over the reference. */
MK_NODISCARD mk_status mk_log_add_segment_locked(mk_log *log,
                                                 mk_segment *segment,
                                                 mk_error *err);

/* Count one holder more, or less, of a segment. */
mk_segment *mk_log_acquire_segment_locked(mk_segment *segment);
void mk_log_release_segment_locked(mk_log *log, mk_segment *segment);

/* Take `count` segments from number `first` on out of the set. */
void mk_log_forget_segments_locked(mk_log *log, size_t first, size_t count);

/* Forget a recovery point inside what was rewritten: it means nothing there. */
void mk_log_forget_point_locked(mk_log *log);

/* Take the segments from number `first` on out of the set and, in a log that
 * may write, unlink their files, newest first, and see that the names are gone.
 * Errors: IO. */
MK_NODISCARD mk_status mk_log_drop_suffix_locked(mk_log *log, size_t first,
                                                 mk_error *err);

/* The directory that has the files of the log's segments. */
static inline const char *mk_log_tree_locked(const mk_log *log)
{
    return log->kept_tree != NULL ? log->kept_tree : log->directory;
}

/* Open and pin a segment's log file. */
MK_NODISCARD mk_status mk_log_pin_locked(mk_log *log, mk_segment *segment,
                                         mk_error *err);
void mk_log_unpin_locked(mk_log *log, mk_segment *segment);

/* Close a segment's log file, unless somebody uses it right now. */
void mk_log_close_idle_file_locked(mk_log *log, mk_segment *segment);

/* Look at a segment's log file. CORRUPT_SEGMENT: it is larger than one can be.
 */
MK_NODISCARD mk_status mk_log_stat_segment(mk_log *log,
                                           const mk_segment *segment,
                                           mk_file_stat *out, mk_error *err);

/* The size of a segment's log file. CORRUPT_SEGMENT: a segment can't be as
 * large as that. */
MK_NODISCARD static inline mk_status
mk_log_measure_segment(mk_log *log, const mk_segment *segment, int64_t *out,
                       mk_error *err)
{
    mk_file_stat stat;
    mk_status status = mk_log_stat_segment(log, segment, &stat, err);

    *out = status == MK_OK ? stat.size : 0;
    return status;
}

/* Sum of all segments' sizes. */
int64_t mk_log_size_bytes_locked(const mk_log *log);

void mk_log_describe_segment_locked(const mk_log *log, size_t i,
                                    mk_segment_info *out);

void mk_log_get_info_locked(const mk_log *log, mk_log_info *out);

/* ---- Invariants ---- */

/* Check the invariants above. */
void mk_log_check_invariants_locked(const mk_log *log);

#endif /* MK_LOG_LOG_H */
