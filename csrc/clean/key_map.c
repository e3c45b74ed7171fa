/* key_map -- open addressing with linear probing, at most half full. */
#include "clean/key_map.h"

#include "base/check.h"

#include "base/poison.h"

#define SLOTS_MIN 64u

void mk_key_map_init(mk_key_map *map, const mk_heap *heap, uint64_t seed)
{
    *map = (mk_key_map){.heap = heap, .seed = seed};
}

void mk_key_map_deinit(mk_key_map *map)
{
    mk_release(map->heap, map->slots);
    mk_release(map->heap, map->arena);
    mk_key_map_init(map, map->heap, map->seed);
}

__extension__ typedef unsigned __int128 wide_word;

/* Multiply two words and fold the product's halves. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    wide_word product = (wide_word)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load_tail(const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;

    memcpy(&word, bytes, size);
    return word;
}

/* A seeded hash over 16 bytes at a time. Collisions cost a comparison, never a
 * record, so it need not be more. */
static uint64_t hash_key(uint64_t seed, mk_span key)
{
    const uint8_t *bytes = key.data;
    size_t left = key.size;
    uint64_t hash = seed ^ fold(key.size ^ UINT64_C(0xa0761d6478bd642f),
                                seed ^ UINT64_C(0xe7037ed1a0b428db));

    for (; left >= 16; bytes += 16, left -= 16) {
        hash = fold(load_tail(bytes, 8) ^ UINT64_C(0x8ebc6af09c88c6e3) ^ seed,
                    load_tail(bytes + 8, 8) ^ hash);
    }
    if (left >= 8) {
        hash = fold(load_tail(bytes, 8) ^ UINT64_C(0x589965cc75374cc3) ^ seed,
                    load_tail(bytes + 8, left - 8) ^ hash);
    } else if (left > 0) {
        hash = fold(load_tail(bytes, left) ^ UINT64_C(0x1d8e4e27c47d124f),
                    hash ^ seed);
    }
    return fold(hash, UINT64_C(0xeb44accab455d165) ^ seed);
}

/* Find the slot of the key, or the empty one where it would go. */
static mk_key_slot *find_slot(const mk_key_map *map, mk_span key, uint64_t hash)
{
    size_t mask = map->slot_count - 1;

    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        mk_key_slot *slot = &map->slots[i];

        if (slot->offset < 0) return slot;
        if (slot->hash != hash || slot->key_size != key.size) continue;
        if (key.size == 0 ||
            memcmp(map->arena + slot->key_at, key.data, key.size) == 0) {
            return slot;
        }
    }
}

/* Double the slots. */
static mk_status grow_slots(mk_key_map *map, mk_error *err)
{
    size_t count = map->slot_count > 0 ? map->slot_count * 2 : SLOTS_MIN;
    size_t size = count * sizeof *map->slots;
    mk_key_slot *slots = mk_alloc(map->heap, size);

    if (slots == NULL) return mk_fail_memory(err, size);
    for (size_t i = 0; i < count; i++) {
        slots[i].offset = -1;
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        size_t at = (size_t)map->slots[i].hash & (count - 1);

        if (map->slots[i].offset < 0) continue;
        while (slots[at].offset >= 0) {
            at = (at + 1) & (count - 1);
        }
        slots[at] = map->slots[i];
    }
    mk_release(map->heap, map->slots);
    map->slots = slots;
    map->slot_count = count;
    return MK_OK;
}

static mk_status store_key(mk_key_map *map, mk_span key, size_t *at,
                           mk_error *err)
{
    void *arena = map->arena;
    mk_status status = mk_grow(map->heap, &arena, &map->arena_capacity,
                               map->arena_size + key.size, 1, err);

    map->arena = arena;
    *at = map->arena_size;
    if (status != MK_OK || key.size == 0) return status;
    memcpy(map->arena + map->arena_size, key.data, key.size);
    map->arena_size += key.size;
    return MK_OK;
}

mk_status mk_key_map_put(mk_key_map *map, mk_span key, int64_t offset,
                         mk_error *err)
{
    uint64_t hash = hash_key(map->seed, key);
    mk_key_slot *slot;
    size_t at = 0;

    MK_ASSERT(offset >= 0);
    if (map->count * 2 >= map->slot_count) {
        mk_status status = grow_slots(map, err);

        if (status != MK_OK) return status;
    }
    slot = find_slot(map, key, hash);
    if (slot->offset < 0) {
        mk_status status = store_key(map, key, &at, err);

        if (status != MK_OK) return status;
        *slot = (mk_key_slot){hash, offset, at, key.size};
        map->count++;
    }
    slot->offset = offset;
    return MK_OK;
}

int64_t mk_key_map_get(const mk_key_map *map, mk_span key)
{
    if (map->slot_count == 0) return -1;
    return find_slot(map, key, hash_key(map->seed, key))->offset;
}
