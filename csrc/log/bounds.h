/*
 * bounds -- where a log begins and ends, from where on its batches follow
 * without gaps, and up to where it outlasts a loss of power, once its segments
 * have been found and checked.
 */
#ifndef MK_LOG_BOUNDS_H
#define MK_LOG_BOUNDS_H

#include "log/evidence.h"

/* Set them in the log. `kafka_start` is what the checkpoint beside the log says
 * of its start, -1: nothing; `cut`: the active segment's file is to be cut.
 * Errors: IO. */
MK_NODISCARD mk_status mk_bounds_find(mk_log *log, mk_evidence *evidence,
                                      int64_t kafka_start, bool cut,
                                      mk_error *err);

#endif /* MK_LOG_BOUNDS_H */
