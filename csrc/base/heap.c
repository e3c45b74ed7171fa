/* heap -- the default heap, and helpers over any heap. */
#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void *default_resize(void *context, void *block, size_t size)
{
    (void)context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, size);
}

mk_heap mk_heap_default(void)
{
    return (mk_heap){default_resize, NULL};
}

void *mk_alloc(const mk_heap *heap, size_t size)
{
    MK_ASSERT(size > 0);
    return heap->resize(heap->context, NULL, size);
}

void *mk_alloc_zero(const mk_heap *heap, size_t size)
{
    void *block = mk_alloc(heap, size);

    if (block != NULL) memset(block, 0, size);
    return block;
}

void *mk_resize(const mk_heap *heap, void *block, size_t size)
{
    MK_ASSERT(size > 0);
    return heap->resize(heap->context, block, size);
}

void mk_release(const mk_heap *heap, void *block)
{
    if (block != NULL) heap->resize(heap->context, block, 0);
}

char *mk_copy_string(const mk_heap *heap, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = mk_alloc(heap, size);

    if (copy != NULL) memcpy(copy, string, size);
    return copy;
}

mk_status mk_grow(const mk_heap *heap, void **array, size_t *capacity,
                  size_t wanted, size_t thing_size, mk_error *err)
{
    size_t grown = *capacity < 8 ? 8 : *capacity;
    void *block;

    if (wanted <= *capacity) return MK_OK;
    while (grown < wanted) {
        if (grown > SIZE_MAX / 2) return mk_fail_memory(err, SIZE_MAX);
        grown *= 2;
    }
    if (grown > SIZE_MAX / thing_size) return mk_fail_memory(err, SIZE_MAX);
    block = mk_resize(heap, *array, grown * thing_size);
    if (block == NULL) return mk_fail_memory(err, grown * thing_size);
    *array = block;
    *capacity = grown;
    return MK_OK;
}
