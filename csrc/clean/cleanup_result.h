/*
 * cleanup_result -- collecting what a cleanup did.
 */
#ifndef MK_CLEAN_CLEANUP_RESULT_H
#define MK_CLEAN_CLEANUP_RESULT_H

#include "base/heap.h"

/* Make an empty result. */
void mk_cleanup_result_init(mk_cleanup_result *result, const mk_heap *heap);

/* Make room for so many base offsets in the three arrays together, and lay
 * them out one behind the other. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_cleanup_result_reserve(mk_cleanup_result *result,
                                                 size_t deleted, size_t source,
                                                 size_t made, mk_error *err);

#endif /* MK_CLEAN_CLEANUP_RESULT_H */
