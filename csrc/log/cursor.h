/*
 * cursor -- reading on from an offset, record by record: a walk through the
 * batches, and a place among the records of one of them.
 */
#ifndef MK_LOG_CURSOR_H
#define MK_LOG_CURSOR_H

#include "log/walk.h"

/* Where a record begins in its batch. */
typedef struct mk_cursor_sample {
    int64_t offset;
    uint32_t ordinal;
    uint32_t position;
} mk_cursor_sample;

struct mk_cursor {
    mk_walk walk; /* Its next_offset: all below it was given or passed over. */

    int64_t end_offset;             /* Of the run; MK_TO_END. */
    int64_t max_records, max_bytes; /* Of the run; MK_NO_LIMIT. */
    int64_t run_records, run_bytes;

    const uint8_t *record;      /* The next record of the walk's batch, */
    const uint8_t *records_end; /* ... where they end, */
    int32_t records_left;       /* ... how many are left, */
    int32_t last_delta;         /* ... the offset delta before; -1: none. */
    int32_t plain_left; /* So many of them need no look at limits and such. */
    int32_t skip_left;  /* Records to pass over unread: in a batch without gaps
                           their number tells which they are. */
    bool windowed;      /* Only some records were read: up to records_end, */
    int64_t window_end; /* ... which stands here in the file. */

    /* While the walk is seeking the first record since going somewhere, places
     * on the way are remembered. */
    uint32_t sampled;          /* Their batch, as the cache has it; 0: none. */
    mk_cursor_sample *samples; /* Owned; those not yet handed over. */
    size_t sample_count;
};

/* Make a cursor that stands nowhere. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_cursor_new(mk_log *log, mk_cursor **out,
                                     mk_error *err);
void mk_cursor_free(mk_cursor *cursor);

/* Find out anew how many records need no look at limits. */
void mk_cursor_find_plain(mk_cursor *cursor);

/* Go to the log start. Errors: CLOSED, CRASHED, IO. */
MK_NODISCARD mk_status mk_cursor_go_to_start(mk_cursor *cursor, mk_error *err);

/* Go to `offset`. Errors: OFFSET_OUT_OF_RANGE, CLOSED, CRASHED, IO. */
MK_NODISCARD mk_status mk_cursor_go(mk_cursor *cursor, int64_t offset,
                                    mk_error *err);

#endif /* MK_LOG_CURSOR_H */
