/*
 * retention -- which closed segments are too old or too many, as the chapter
 * has it.
 */
#ifndef MK_CLEAN_RETENTION_H
#define MK_CLEAN_RETENTION_H

#include "base/status.h"

/*
 * Decide how many of the first segments go. `segments` are all of the log's,
 * the active one last, which never goes. The options were checked.
 */
size_t mk_retention_plan(const mk_segment_info *segments, size_t count,
                         const mk_retention_options *options, int64_t now_ms);

/* Check the options by themselves. Errors: INVALID_ARGUMENT. */
MK_NODISCARD mk_status mk_retention_check(const mk_retention_options *options,
                                          mk_error *err);

#endif /* MK_CLEAN_RETENTION_H */
