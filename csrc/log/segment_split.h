/*
 * segment_split -- a segment with offsets that its base can't reach: Kafka's
 * cleaner of long ago made some by merging segments (KAFKA-6264).
 */
#ifndef MK_LOG_SEGMENT_SPLIT_H
#define MK_LOG_SEGMENT_SPLIT_H

#include "log/log.h"

/*
 * While a log is opened: write what is sound of the segment to as many others
 * as it takes, complete and noted as those of a swap (log/segment_swap). The
 * directory is looked at anew after that. In a segment that is not the `last`
 * one all must be sound. Errors: CORRUPT_SEGMENT, IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_segment_split(mk_log *log, mk_segment *segment,
                                        int64_t end, bool last, mk_error *err);

#endif /* MK_LOG_SEGMENT_SPLIT_H */
