/*
 * active -- the life of the segment that grows: it is made or opened, with a
 * tail to append to, and sealed when the log rolls or ends.
 */
#ifndef MK_LOG_ACTIVE_H
#define MK_LOG_ACTIVE_H

#include "log/log.h"

/* Begin a new active segment at the log end. One that is empty and begins there
 * stays, and has the settings that are in force now. Errors: IO, NO_MEMORY; the
 * active segment is then as it was, or the log refuses changes. */
MK_NODISCARD mk_status mk_log_roll_locked(mk_log *log, int64_t now_ms,
                                          mk_error *err);

/* Make an empty active segment with this base offset, and begin its tail. */
MK_NODISCARD mk_status mk_log_create_active_locked(mk_log *log,
                                                   int64_t base_offset,
                                                   int64_t now_ms,
                                                   mk_error *err);

/* Open the tail of an active segment that is already there. */
MK_NODISCARD mk_status mk_log_open_active_locked(mk_log *log, int64_t now_ms,
                                                 mk_error *err);

/* End a segment's tail: complete its indexes, trim its file, give it the time
 * `now_ms`, if that is known, and put it on stable storage. */
MK_NODISCARD mk_status mk_log_seal_locked(mk_log *log, mk_segment *segment,
                                          int64_t now_ms, mk_error *err);

#endif /* MK_LOG_ACTIVE_H */
