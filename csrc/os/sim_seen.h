/*
 * sim_seen -- a set of hashes.
 */
#ifndef MK_OS_SIM_SEEN_H
#define MK_OS_SIM_SEEN_H

#include "base/heap.h"
#include "os/sim_hash.h"

typedef struct mk_sim_seen {
    mk_sim_hash *places; /* Owned. {0, 0}: free. */
    size_t count, capacity;
} mk_sim_seen;

void mk_sim_seen_deinit(const mk_heap *heap, mk_sim_seen *seen);

/* Forget all hashes. */
void mk_sim_seen_clear(mk_sim_seen *seen);

bool mk_sim_seen_has(const mk_sim_seen *seen, mk_sim_hash hash);

/* Make room for one more. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_seen_prepare(const mk_heap *heap,
                                           mk_sim_seen *seen, mk_error *err);

/* Add a hash, for which room was made. */
void mk_sim_seen_add(mk_sim_seen *seen, mk_sim_hash hash);

#endif /* MK_OS_SIM_SEEN_H */
