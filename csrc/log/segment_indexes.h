/*
 * segment_indexes -- the indexes of a log's segments in memory and in files.
 *
 * A file that is missing or is not what is known of it is made anew from the
 * log. Those of sealed segments stay in memory as far as there is room.
 */
#ifndef MK_LOG_SEGMENT_INDEXES_H
#define MK_LOG_SEGMENT_INDEXES_H

#include "log/log.h"

/* Make sure that a segment's indexes are in memory: from their files, or, where
 * those are missing or damaged, from the log, which is read for it. */
MK_NODISCARD mk_status mk_log_load_indexes_locked(mk_log *log,
                                                  mk_segment *segment,
                                                  mk_error *err);

/* Make them anew in memory, from the log up to where it is in use; `closed`:
 * with the time entry that ends a closed segment. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_log_rebuild_indexes_locked(mk_log *log,
                                                     mk_segment *segment,
                                                     bool closed,
                                                     mk_error *err);

/* Write index entries that a segment's files lack. If the disk is full they go
 * on lacking them: an index is made anew where it is needed. Errors: IO,
 * NO_MEMORY. */
MK_NODISCARD mk_status mk_log_write_indexes_locked(mk_log *log,
                                                   mk_segment *segment,
                                                   mk_error *err);

#endif /* MK_LOG_SEGMENT_INDEXES_H */
