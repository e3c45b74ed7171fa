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

/* Take in what was appended to a read-only log's active segment since it was
 * looked at. Bytes that are no whole, sound batch are the end for now. Errors:
 * NOT_FOUND (its end was cut off), IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_log_follow_locked(mk_log *log, mk_error *err);

#endif /* MK_LOG_RECOVERY_H */
