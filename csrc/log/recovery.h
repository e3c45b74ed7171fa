/*
 * recovery -- finding out what a directory holds, and making it sound.
 */
#ifndef MK_LOG_RECOVERY_H
#define MK_LOG_RECOVERY_H

#include "log/log.h"

/*
 * Fill a fresh log from its directory: segments, start, end, recovery point. A
 * log that may write cuts off a torn tail and removes what lies below the log
 * start; a read-only one reads around it. Nothing is known by other threads
 * yet, so no lock is needed.
 *
 * Errors: CORRUPT_SEGMENT (a sealed segment that had to be checked is damaged),
 * SWAP_AMBIGUOUS, UNSUPPORTED (old formats), IO, NO_MEMORY; those of
 * `progress`.
 */
MK_NODISCARD mk_status mk_log_recover(mk_log *log, const mk_progress *progress,
                                      mk_error *err);

/* Give a read-only log of an empty directory an empty segment of its own. */
MK_NODISCARD mk_status mk_log_imagine_active_locked(mk_log *log, mk_error *err);

/* The size of a segment's log file. CORRUPT_SEGMENT: a segment can't be as
 * large as that. */
MK_NODISCARD mk_status mk_log_measure_segment(mk_log *log,
                                              const mk_segment *segment,
                                              int64_t *out, mk_error *err);

/* Take in what was appended to a read-only log's active segment since it was
 * looked at. Bytes that are no whole, sound batch are the end for now. Errors:
 * NOT_FOUND (its end was cut off), IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_log_follow_locked(mk_log *log, mk_error *err);

#endif /* MK_LOG_RECOVERY_H */
