/*
 * segment_recovery -- what the file of one segment comes to: what is not known
 * of it by evidence is read and checked, batch by batch.
 */
#ifndef MK_LOG_SEGMENT_RECOVERY_H
#define MK_LOG_SEGMENT_RECOVERY_H

#include "log/evidence.h"

typedef struct mk_segment_recovery {
    mk_log *log;                 /* Borrowed. */
    mk_evidence *evidence;       /* Borrowed. */
    const mk_progress *progress; /* Borrowed; NULL: tell nobody. */
    int64_t done, total;         /* Bytes to check. */
    int64_t end_offset;          /* Nothing from there on is the log's. */
    mk_scratch scratch;          /* The caller inits and releases it. */
} mk_segment_recovery;

/* Bring a segment's facts up to the end of its file. `*end` tells whether they
 * reach it, or what they end before: of the last segment that is its tail, of
 * another one MK_SCAN_OVERFLOW, or damage that a reader reads up to. Errors:
 * CORRUPT_SEGMENT (another segment, of a log that is written to, is damaged),
 * UNSUPPORTED (old formats), IO, NO_MEMORY; those of `progress`. */
MK_NODISCARD mk_status mk_segment_recovery_check(mk_segment_recovery *r,
                                                 mk_segment *segment, bool last,
                                                 mk_scan_end *end,
                                                 mk_error *err);

/* Scan on behind what is known of the segment, whose file has `size` bytes. */
MK_NODISCARD mk_status mk_segment_recovery_scan(mk_segment_recovery *r,
                                                mk_segment *segment,
                                                int64_t size, mk_scan_end *end,
                                                mk_error *err);

/* Complete a sealed segment that was scanned, and write its indexes, but where
 * the state vouches for those that are there. */
MK_NODISCARD mk_status mk_segment_recovery_finish(mk_log *log,
                                                  const mk_state *state,
                                                  mk_segment *segment,
                                                  mk_error *err);

/* Have the indexes of what is known of a segment in memory. Wrong files stay,
 * for who closes it to write: so the next opening finds what this one did. */
MK_NODISCARD mk_status mk_segment_recovery_load_indexes(mk_log *log,
                                                        mk_segment *segment,
                                                        mk_error *err);

#endif /* MK_LOG_SEGMENT_RECOVERY_H */
