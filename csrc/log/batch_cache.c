/*
 * batch_cache -- two tables of sets of four slots.
 *
 * A place names its batch by slot and turn, so that it means nothing any more
 * once another batch has the slot. Turns have 19 bits; before one would come
 * again all slots are emptied.
 */
#include "log/batch_cache.h"

#include "base/check.h"

#include "base/poison.h"

#define BATCHES_MIN      64u
#define BATCHES_MAX      8192u /* 13 bits: see above. */
#define SLOT_BITS        13u
#define TURN_MAX         ((1u << (32 - SLOT_BITS)) - 1)
#define PLACES_PER_BATCH 32u
#define WAYS             4u

void mk_batch_cache_init(mk_batch_cache *cache, const mk_heap *heap)
{
    *cache = (mk_batch_cache){.heap = heap};
}

void mk_batch_cache_deinit(mk_batch_cache *cache)
{
    mk_release(cache->heap, cache->batches);
    mk_release(cache->heap, cache->places);
    mk_batch_cache_init(cache, cache->heap);
}

size_t mk_batch_cache_bytes(const mk_batch_cache *cache)
{
    return cache->batch_count *
           (sizeof *cache->batches + PLACES_PER_BATCH * sizeof *cache->places);
}

static size_t mix(uint64_t segment_id, uint64_t number)
{
    uint64_t mixed = (segment_id * UINT64_C(0x9e3779b97f4a7c15) ^ number) *
                     UINT64_C(0xbf58476d1ce4e5b9);

    return (size_t)(mixed >> 32);
}

/* The set of slots where a batch may stand. */
static mk_cached_batch *batch_set(const mk_batch_cache *cache,
                                  uint64_t segment_id, int64_t position)
{
    size_t mask = cache->batch_count / WAYS - 1;

    return cache->batches + (mix(segment_id, (uint64_t)position) & mask) * WAYS;
}

/* The set of slots where a place may stand. */
static mk_cached_place *place_set(const mk_batch_cache *cache,
                                  uint64_t segment_id, int64_t sixteen)
{
    size_t mask = cache->batch_count * PLACES_PER_BATCH / WAYS - 1;

    return cache->places + (mix(segment_id, (uint64_t)sixteen) & mask) * WAYS;
}

static mk_cached_batch *find_batch(const mk_batch_cache *cache,
                                   uint64_t segment_id, int64_t position)
{
    mk_cached_batch *set;

    if (cache->batch_count == 0) return NULL;
    set = batch_set(cache, segment_id, position);
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].batch.size > 0 && set[i].segment_id == segment_id &&
            set[i].position == position) {
            return &set[i];
        }
    }
    return NULL;
}

bool mk_batch_cache_has(const mk_batch_cache *cache, uint64_t segment_id,
                        int64_t position)
{
    return find_batch(cache, segment_id, position) != NULL;
}

/* Return the batch that a place names, or NULL if its slot has another. */
static const mk_cached_batch *batch_of(const mk_batch_cache *cache,
                                       const mk_cached_place *place)
{
    const mk_cached_batch *batch =
        &cache->batches[place->batch & ((1u << SLOT_BITS) - 1)];

    return batch->turn == place->batch >> SLOT_BITS ? batch : NULL;
}

const mk_cached_place *mk_batch_cache_find(const mk_batch_cache *cache,
                                           uint64_t segment_id, int64_t offset,
                                           const mk_cached_batch **batch)
{
    int64_t sixteen = offset / MK_SAMPLE_OFFSETS;
    const mk_cached_place *set;

    if (cache->batch_count == 0) return NULL;
    set = place_set(cache, segment_id, sixteen);
    for (size_t i = 0; i < WAYS; i++) {
        const mk_cached_batch *found;

        if (set[i].batch == 0 || set[i].sixteen != (uint32_t)sixteen) continue;
        found = batch_of(cache, &set[i]);
        if (found != NULL && found->segment_id == segment_id &&
            found->batch.base_offset <= offset &&
            mk_batch_last_offset(&found->batch) >= offset) {
            *batch = found;
            return &set[i];
        }
    }
    return NULL;
}

/* Give the tables this size, empty. */
static bool resize(mk_batch_cache *cache, size_t count)
{
    mk_cached_batch *batches =
        mk_alloc_zero(cache->heap, count * sizeof *batches);
    mk_cached_place *places =
        mk_alloc_zero(cache->heap, count * PLACES_PER_BATCH * sizeof *places);

    if (batches == NULL || places == NULL) {
        mk_release(cache->heap, batches);
        mk_release(cache->heap, places);
        return false;
    }
    mk_batch_cache_deinit(cache);
    cache->batches = batches;
    cache->places = places;
    cache->batch_count = count;
    return true;
}

/* See that there are tables; larger ones before these are a quarter full, since
 * sets overflow long before all slots are taken. */
static bool make_room(mk_batch_cache *cache)
{
    if (cache->batch_count == 0) return resize(cache, BATCHES_MIN);
    if (cache->entered * 4 >= cache->batch_count &&
        cache->batch_count < BATCHES_MAX) {
        (void)resize(cache, cache->batch_count * 8 > BATCHES_MAX
                                ? BATCHES_MAX
                                : cache->batch_count * 8);
    }
    return true;
}

/* An empty slot, or the one that had the fewest batches. */
static mk_cached_batch *pick_slot(mk_cached_batch *set)
{
    mk_cached_batch *slot = set;

    for (size_t i = 1; i < WAYS; i++) {
        if (set[i].turn < slot->turn) slot = &set[i];
    }
    return slot;
}

uint32_t mk_batch_cache_enter(mk_batch_cache *cache, uint64_t segment_id,
                              int64_t position, const mk_batch *batch)
{
    mk_cached_batch *slot = find_batch(cache, segment_id, position);

    if (slot == NULL) {
        uint32_t turn;

        if (!make_room(cache)) return 0;
        slot = pick_slot(batch_set(cache, segment_id, position));
        turn = slot->turn + 1;
        if (turn > TURN_MAX) {
            if (!resize(cache, cache->batch_count)) return 0;
            return mk_batch_cache_enter(cache, segment_id, position, batch);
        }
        *slot = (mk_cached_batch){*batch, segment_id, (uint32_t)position, turn};
        cache->entered++;
    }
    return slot->turn << SLOT_BITS | (uint32_t)(slot - cache->batches);
}

void mk_batch_cache_enter_place(mk_batch_cache *cache, uint64_t segment_id,
                                int64_t offset, uint32_t batch,
                                uint32_t ordinal, uint32_t position)
{
    int64_t sixteen = offset / MK_SAMPLE_OFFSETS;
    mk_cached_place place = {(uint32_t)sixteen, batch, ordinal, position};
    mk_cached_place *set = place_set(cache, segment_id, sixteen);

    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].sixteen == place.sixteen && set[i].batch == batch) return;
    }
    memmove(set + 1, set, (WAYS - 1) * sizeof *set); /* The oldest goes. */
    set[0] = place;
}
