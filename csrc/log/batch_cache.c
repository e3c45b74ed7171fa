/*
 * batch_cache -- two tables of sets of four slots. An entry goes into either of
 * two sets, the second where the first is full: a set that more entries want
 * than it has slots would lose one for each that it gets.
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
#define CHOICES          2

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

/* Two rounds: positions and offsets come in even steps, which one
 * multiplication would leave in few of the sets. */
static uint64_t mix(uint64_t segment_id, uint64_t number)
{
    uint64_t mixed = segment_id * UINT64_C(0x9e3779b97f4a7c15) ^ number;

    mixed *= UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 32;
}

/* Choose a set of slots among so many slots: the first or the second choice. */
static size_t choose(uint64_t mixed, size_t count, int choice)
{
    return (size_t)(mixed >> (choice == 0 ? 40 : 8)) & (count / WAYS - 1);
}

static mk_cached_batch *batch_set(const mk_batch_cache *cache, uint64_t mixed,
                                  int choice)
{
    return cache->batches + choose(mixed, cache->batch_count, choice) * WAYS;
}

static mk_cached_place *place_set(const mk_batch_cache *cache, uint64_t mixed,
                                  int choice)
{
    size_t count = cache->batch_count * PLACES_PER_BATCH;

    return cache->places + choose(mixed, count, choice) * WAYS;
}

static mk_cached_batch *find_batch(const mk_batch_cache *cache,
                                   uint64_t segment_id, int64_t position)
{
    uint64_t mixed = mix(segment_id, (uint64_t)position);

    if (cache->batch_count == 0) return NULL;
    for (int choice = 0; choice < CHOICES; choice++) {
        mk_cached_batch *set = batch_set(cache, mixed, choice);

        for (size_t i = 0; i < WAYS; i++) {
            if (set[i].batch.size > 0 && set[i].segment_id == segment_id &&
                set[i].position == position) {
                return &set[i];
            }
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

/* Find it in one set. */
static const mk_cached_place *find_in(const mk_batch_cache *cache,
                                      const mk_cached_place *set,
                                      uint64_t segment_id, int64_t offset,
                                      const mk_cached_batch **batch)
{
    uint32_t sixteen = (uint32_t)(offset / MK_SAMPLE_OFFSETS);

    for (size_t i = 0; i < WAYS; i++) {
        const mk_cached_batch *found;

        if (set[i].batch == 0 || set[i].sixteen != sixteen) continue;
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

const mk_cached_place *mk_batch_cache_find(const mk_batch_cache *cache,
                                           uint64_t segment_id, int64_t offset,
                                           const mk_cached_batch **batch)
{
    uint64_t mixed = mix(segment_id, (uint64_t)(offset / MK_SAMPLE_OFFSETS));

    if (cache->batch_count == 0) return NULL;
    for (int choice = 0; choice < CHOICES; choice++) {
        const mk_cached_place *place = find_in(
            cache, place_set(cache, mixed, choice), segment_id, offset, batch);

        if (place != NULL) return place;
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

/* See that there are tables; larger ones, empty, before these are half full:
 * beyond, both sets of more and more entries are taken. */
static bool make_room(mk_batch_cache *cache)
{
    if (cache->batch_count == 0) return resize(cache, BATCHES_MIN);
    if (cache->entered * 2 >= cache->batch_count &&
        cache->batch_count < BATCHES_MAX) {
        (void)resize(cache, cache->batch_count * 8 > BATCHES_MAX
                                ? BATCHES_MAX
                                : cache->batch_count * 8);
    }
    return true;
}

/* An empty slot, or in the first set the one that had the fewest batches. */
static mk_cached_batch *pick_slot(const mk_batch_cache *cache, uint64_t mixed)
{
    mk_cached_batch *slot = batch_set(cache, mixed, 0);

    for (int choice = 0; choice < CHOICES; choice++) {
        mk_cached_batch *set = batch_set(cache, mixed, choice);

        for (size_t i = 0; i < WAYS; i++) {
            if (set[i].turn == 0) return &set[i];
            if (choice == 0 && set[i].turn < slot->turn) slot = &set[i];
        }
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
        slot = pick_slot(cache, mix(segment_id, (uint64_t)position));
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
    uint64_t mixed = mix(segment_id, (uint64_t)sixteen);
    mk_cached_place *set, *slot = NULL;

    for (int choice = 0; choice < CHOICES; choice++) {
        set = place_set(cache, mixed, choice);
        for (size_t i = 0; i < WAYS; i++) {
            if (set[i].sixteen == place.sixteen && set[i].batch == batch) {
                return;
            }
            if (slot == NULL && set[i].batch == 0) slot = &set[i];
        }
    }
    if (slot == NULL) {
        slot = place_set(cache, mixed, 0);
        memmove(slot + 1, slot,
                (WAYS - 1) * sizeof *slot); /* The oldest goes. */
    }
    *slot = place;
}
