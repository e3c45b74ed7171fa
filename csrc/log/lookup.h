/*
 * lookup -- finding records by time.
 */
#ifndef MK_LOG_LOOKUP_H
#define MK_LOG_LOOKUP_H

#include "log/cursor.h"

/* Find the first record at or after `timestamp_ms`, as
 * mk_log_offset_for_timestamp() says. */
MK_NODISCARD mk_status mk_log_find_time(mk_log *log, int64_t timestamp_ms,
                                        int64_t *offset, int64_t *found_ms,
                                        mk_error *err);

/* Find the first record with the greatest time, as
 * mk_log_offset_of_max_timestamp() says. */
MK_NODISCARD mk_status mk_log_find_max_time(mk_log *log, int64_t *offset,
                                            int64_t *found_ms, mk_error *err);

#endif /* MK_LOG_LOOKUP_H */
