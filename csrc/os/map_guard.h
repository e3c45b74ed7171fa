/*
 * map_guard -- mapped files that fail by a flag, not by a signal.
 *
 * Where a mapped file was shortened by somebody else, or its disk can't read a
 * page, touching the mapping is a SIGBUS. A handler puts a page of zeros there
 * and marks the guard as broken; who touched it goes on, finds nothing of use,
 * and is to look at the guard before it says so. What is not in a guarded
 * mapping goes to the handler that was there before.
 *
 * A signal's handler belongs to the process, so this is the one place with
 * state of the process. The handler is installed with the first guard, and with
 * a later one if somebody else's has taken its place; it stays.
 */
#ifndef MK_OS_MAP_GUARD_H
#define MK_OS_MAP_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mk_map_guard {
    _Atomic uintptr_t begin; /* 0: the guard is free. */
    _Atomic uintptr_t end;
    _Atomic bool broken;
} mk_map_guard;

/* Guard a mapping that the caller owns, until it calls mk_map_guard_release().
 * Return NULL if that can't be: then it must not be touched. */
mk_map_guard *mk_map_guard_take(void *data, size_t size);

/* Before the mapping goes. NULL is a no-op. */
void mk_map_guard_release(mk_map_guard *guard);

/* The same mapping has another size now. */
void mk_map_guard_resize(mk_map_guard *guard, size_t size);

/* Were there pages that could not be touched? */
static inline bool mk_map_guard_is_broken(const mk_map_guard *guard)
{
    return atomic_load_explicit(&guard->broken, memory_order_relaxed);
}

#endif /* MK_OS_MAP_GUARD_H */
