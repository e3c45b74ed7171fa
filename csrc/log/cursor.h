/*
 * cursor -- reading on from an offset.
 *
 * A cursor is an offset. Besides, it remembers a place: a segment, the position
 * of the next batch in it, and the bytes read ahead from there. The place is a
 * shortcut, given up whenever the log's generation changes, and found again
 * through the indexes.
 */
#ifndef MK_LOG_CURSOR_H
#define MK_LOG_CURSOR_H

#include "log/log.h"

struct mk_cursor {
    mk_log *log;         /* Counted. */
    int64_t next_offset; /* Everything below it was given or passed over. */

    int64_t end_offset;             /* Of the run; MK_TO_END. */
    int64_t max_records, max_bytes; /* Of the run; MK_NO_LIMIT. */
    int64_t run_records, run_bytes;
    int64_t skip_below_ms; /* Batches without a time at or after it are skipped;
                              INT64_MIN: none are. */

    mk_segment *segment; /* Counted and pinned; NULL: no place. */
    uint64_t generation; /* For which the place holds. */
    uint64_t cuts;       /* For which what was read ahead holds. */
    int64_t log_bytes;   /* Of the segment, as last seen. */
    int64_t position;    /* Of the next batch. */
    int64_t fallback;    /* Where to look instead if the position, which is an
                            index's, misleads; -1: it is a batch's for sure. */
    size_t stretch;      /* How much to read there at first. */
    mk_span ahead;       /* Bytes from `position` on. */
    mk_scratch scratch;

    mk_batch batch;             /* The batch being read. */
    const uint8_t *record;      /* Its next record, */
    const uint8_t *records_end; /* ... where they end, */
    int32_t records_left;       /* ... how many are left. */
};

/* Make a cursor without checking `from` against the log.
 * Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_cursor_new(mk_log *log, mk_cursor **out,
                                     mk_error *err);
void mk_cursor_free(mk_cursor *cursor);

/* Go to the log start. Errors: CLOSED, CRASHED, IO. */
MK_NODISCARD mk_status mk_cursor_go_to_start(mk_cursor *cursor, mk_error *err);

/* Go to `offset`. Errors: OFFSET_OUT_OF_RANGE, CLOSED, CRASHED, IO. */
MK_NODISCARD mk_status mk_cursor_go(mk_cursor *cursor, int64_t offset,
                                    mk_error *err);

/* Read the next batch that reaches to the cursor's offset or beyond, and check
 * it. `*bytes` are all of it. MK_END at the end. */
MK_NODISCARD mk_status mk_cursor_read_batch(mk_cursor *cursor,
                                            const uint8_t **bytes,
                                            mk_error *err);

/* Fail with OFFSET_OUT_OF_RANGE. */
mk_status mk_log_fail_range_locked(const mk_log *log, int64_t offset,
                                   mk_error *err);

#endif /* MK_LOG_CURSOR_H */
