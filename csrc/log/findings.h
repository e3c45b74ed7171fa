/*
 * findings -- what a look at a log has found.
 */
#ifndef MK_LOG_FINDINGS_H
#define MK_LOG_FINDINGS_H

#include "base/heap.h"

void mk_findings_init(mk_findings *findings, const mk_heap *heap);

/* Add one. `position` and `offset` may be -1. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_findings_add(mk_findings *findings,
                                       mk_finding_code code, const char *path,
                                       int64_t position, int64_t offset,
                                       mk_error *err, const char *format, ...)
    MK_PRINTF(7, 8);

/* Forget those from number `count` on. */
void mk_findings_cut(mk_findings *findings, size_t count);

#endif /* MK_LOG_FINDINGS_H */
