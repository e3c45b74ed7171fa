/* cleanup_result -- three arrays in one block. */
#include "clean/cleanup_result.h"

#include <string.h>

#include "base/poison.h"

void mk_cleanup_result_init(mk_cleanup_result *result, const mk_heap *heap)
{
    *result = (mk_cleanup_result){.heap = *heap};
}

void mk_cleanup_result_deinit(mk_cleanup_result *result)
{
    mk_heap heap;

    if (result->block == NULL) return;
    heap = result->heap;
    mk_release(&heap, result->block);
    mk_cleanup_result_init(result, &heap);
}

mk_status mk_cleanup_result_reserve(mk_cleanup_result *result, size_t deleted,
                                    size_t source, size_t made, mk_error *err)
{
    size_t size = (deleted + source + made + 1) * sizeof(int64_t);
    int64_t *block = mk_alloc_zero(&result->heap, size);

    if (block == NULL) return mk_fail_memory(err, size);
    result->block = block;
    result->deleted = block;
    result->source_segments = block + deleted;
    result->new_segments = block + deleted + source;
    return MK_OK;
}
