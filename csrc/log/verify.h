/*
 * verify -- reading all of a log to find what is not as it should be.
 *
 * One segment after the other is read without the log's mutex. A segment that
 * is no longer part of the log at the end of that was changed by a cleanup or a
 * truncation, and nothing is said of it. What is appended or rewritten
 * meanwhile is looked at, too, as far as it comes to an end.
 *
 * A step machine: step until `phase` is DONE.
 */
#ifndef MK_LOG_VERIFY_H
#define MK_LOG_VERIFY_H

#include "log/log.h"
#include "log/segment_check.h"

typedef enum mk_verify_phase {
    MK_VERIFY_SEGMENTS,
    MK_VERIFY_FILES, /* The state file, and the names in the directory. */
    MK_VERIFY_DONE,
} mk_verify_phase;

/* A segment that was looked at. */
typedef struct mk_verified {
    uint64_t id;
    int64_t base_offset, log_bytes;
    bool last; /* It may have grown since. */
} mk_verified;

typedef struct mk_verify {
    mk_log *log;      /* Counted. */
    mk_findings *out; /* Borrowed. */
    mk_verify_phase phase;
    mk_verified *verified; /* Owned. */
    size_t count, capacity;
    size_t looks_left;   /* At segments; then what is new is left alone. */
    int file_looks_left; /* At the directory; then its names are left alone. */
    int64_t end_offset;  /* Of the log, at first: nothing behind it matters. */
    mk_segment *segment; /* Counted: the one at hand; NULL: none is. */
    mk_file_name log_name; /* Its log's, when it was found. */
    bool pinned;
    bool indexes_lag;       /* When its index files were read. */
    mk_segment_facts known; /* Of it, and ... */
    uint64_t generation;    /* ... the log's, when it was found. */
    size_t findings_before;
    mk_segment_check check;
    int64_t done;           /* Bytes of the segments that are behind it. */
    int64_t reached, total; /* How far it is. */
} mk_verify;

/* Errors: CLOSED, CRASHED; those of looking anew at a log that is only read. */
MK_NODISCARD mk_status mk_verify_begin(mk_verify *verify, mk_log *log,
                                       mk_findings *out, mk_error *err);

/* Check about `budget` more bytes, without the mutex. Errors: CLOSED, CRASHED,
 * IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_verify_step(mk_verify *verify, size_t budget,
                                      mk_error *err);

/* Takes the mutex. */
void mk_verify_deinit(mk_verify *verify);

#endif /* MK_LOG_VERIFY_H */
