/*
 * remove -- taking segments away at either end of a log.
 */
#ifndef MK_LOG_REMOVE_H
#define MK_LOG_REMOVE_H

#include "log/active.h"

/* All of these need the caller's maintenance of the log. */

/* Drop the first `count` segments, which are closed: the log begins at the base
 * of the next. Errors: IO (the log start is advanced all the same, and what is
 * left goes when the log is next opened). */
MK_NODISCARD mk_status mk_log_drop_prefix_locked(mk_log *log, size_t count,
                                                 mk_error *err);

/* Make `offset`, which is in log start..log end, the log start. */
MK_NODISCARD mk_status mk_log_advance_start_locked(mk_log *log, int64_t offset,
                                                   mk_error *err);

/* Cut the log's end to `offset`, which is below it. */
MK_NODISCARD mk_status mk_log_cut_end_locked(mk_log *log, int64_t offset,
                                             int64_t now_ms, mk_error *err);

#endif /* MK_LOG_REMOVE_H */
