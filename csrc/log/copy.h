/*
 * copy -- a consistent copy of a log, made while the log goes on.
 *
 * The copy has the log as it was at some moment of the call. Sealed segments
 * are hard-linked, one at a time, each under the log's mutex; the last one is
 * copied up to the end that the log had then, without it, and so is whatever
 * can't be linked. Appends and rolls don't matter. When a cleanup or a
 * truncation has changed the log meanwhile, what is no longer part of it is
 * taken out of the copy, which then ends where the log ends now: a compaction
 * may have dropped what only records behind the old end supersede. If that
 * happens again and again the copy takes over the maintenance of the log until
 * it has all.
 *
 * Of a log that is only read, others change the files: a handle of the copy's
 * own is read, and at last the files are compared with those in the directory.
 *
 * Sharing is safe since a file that has another name is never written to: see
 * mk_copy_file_unshare().
 *
 * A step machine: step until `phase` is DONE, then publish the target.
 */
#ifndef MK_LOG_COPY_H
#define MK_LOG_COPY_H

#include "log/copy_end.h"
#include "log/copy_target.h"
#include "store/copy_file.h"

typedef enum mk_copy_phase {
    MK_COPY_SEGMENTS, /* Segments are linked and copied. */
    MK_COPY_SYNC,     /* What is there is put on stable storage. */
    MK_COPY_DONE,     /* It is complete. */
} mk_copy_phase;

typedef struct mk_copy {
    mk_log *log;     /* Counted. */
    bool log_is_own; /* ... and opened for the copy. */
    bool maintains;  /* Nobody else may change the log's closed segments. */
    mk_copy_target target;
    mk_copy_phase phase;
    mk_copy_part *parts; /* Owned: of the log's first `count` segments. */
    size_t count, capacity;
    size_t synced; /* So many of them are on stable storage. */
    mk_copy_end end;
    int64_t log_start_offset; /* Of the copy, once all segments are there. */
    mk_segment *source;       /* Counted and pinned: what is copied now. */
    mk_copy_part current;
    mk_copy_file file;
    int64_t done, total; /* Bytes of logs. */
    int tries;           /* How often the log was changed meanwhile. */
} mk_copy;

/* Begin a copy of the log to `directory`: see mk_copy_target_begin(). Called
 * without the mutex. Errors: those, CLOSED, CRASHED. */
MK_NODISCARD mk_status mk_copy_begin(mk_copy *copy, mk_log *log,
                                     const char *directory, mk_error *err);

/* Link a segment, or copy about `budget` bytes. Called without the mutex.
 * Errors: CLOSED, CRASHED, IO, NO_MEMORY; CORRUPT_SEGMENT if a segment is
 * shorter than it was. */
MK_NODISCARD mk_status mk_copy_step(mk_copy *copy, size_t budget,
                                    mk_error *err);

/* Let the copy, which is complete, have its name. */
MK_NODISCARD mk_status mk_copy_publish(mk_copy *copy, mk_error *err);

/* End it; a copy that was not published is removed. Takes the mutex. */
void mk_copy_deinit(mk_copy *copy);

#endif /* MK_LOG_COPY_H */
