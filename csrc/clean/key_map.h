/*
 * key_map -- the greatest offset of each key, exact.
 *
 * Keys are kept whole, so that two keys are never taken for one. The memory is
 * the keys' bytes and 64 to 128 bytes a key.
 */
#ifndef MK_CLEAN_KEY_MAP_H
#define MK_CLEAN_KEY_MAP_H

#include "base/bytes.h"
#include "base/heap.h"

typedef struct mk_key_slot {
    uint64_t hash;
    int64_t offset; /* -1: the slot is empty. */
    size_t key_at;  /* Where the key lies in the arena. */
    size_t key_size;
} mk_key_slot;

typedef struct mk_key_map {
    const mk_heap *heap; /* Borrowed. */
    uint64_t seed;      /* Of the hash, so that nobody can choose collisions. */
    mk_key_slot *slots; /* Owned; a power of two of them, or none. */
    size_t slot_count;
    size_t count;
    uint8_t *arena; /* Owned: the keys, one after the other. */
    size_t arena_size;
    size_t arena_capacity;
} mk_key_map;

void mk_key_map_init(mk_key_map *map, const mk_heap *heap, uint64_t seed);
void mk_key_map_deinit(mk_key_map *map);

/* Give the key this offset, which is greater than any it had.
 * Errors: NO_MEMORY, with the map as it was. */
MK_NODISCARD mk_status mk_key_map_put(mk_key_map *map, mk_span key,
                                      int64_t offset, mk_error *err);

/* Return the key's offset, or -1. */
int64_t mk_key_map_get(const mk_key_map *map, mk_span key);

#endif /* MK_CLEAN_KEY_MAP_H */
