/*
 * heap -- memory, from whoever the environment says.
 */
#ifndef MK_BASE_HEAP_H
#define MK_BASE_HEAP_H

#include "base/status.h"

/* malloc() and its kin. */
mk_heap mk_heap_default(void);

/* Return a block, or NULL. `size` is at least 1. */
void *mk_alloc(const mk_heap *heap, size_t size);

/* The same, all zero. */
void *mk_alloc_zero(const mk_heap *heap, size_t size);

/* Return the block resized, or NULL and leave it as it was. */
void *mk_resize(const mk_heap *heap, void *block, size_t size);

/* NULL is a no-op. */
void mk_release(const mk_heap *heap, void *block);

/* Return a copy of a string, or NULL. */
char *mk_copy_string(const mk_heap *heap, const char *string);

/*
 * Make room for `wanted` things of `thing_size` bytes in the array `*array`,
 * which has room for `*capacity`, by doubling.
 * Errors: NO_MEMORY, with array and capacity unchanged.
 */
MK_NODISCARD mk_status mk_grow(const mk_heap *heap, void **array,
                               size_t *capacity, size_t wanted,
                               size_t thing_size, mk_error *err);

#endif /* MK_BASE_HEAP_H */
