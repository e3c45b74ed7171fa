/* sim_seen -- open addressing, at most half full. Hashes are spread already. */
#include "os/sim_seen.h"

#include "base/check.h"

#include "base/poison.h"

#define CAPACITY_MIN 64u

/* {0, 0} marks a free place, so it stands for itself under another name. */
static mk_sim_hash name_of(mk_sim_hash hash)
{
    if (hash.a == 0 && hash.b == 0) hash.a = 1;
    return hash;
}

static bool is_free(mk_sim_hash place)
{
    return place.a == 0 && place.b == 0;
}

void mk_sim_seen_deinit(const mk_heap *heap, mk_sim_seen *seen)
{
    mk_release(heap, seen->places);
    *seen = (mk_sim_seen){0};
}

void mk_sim_seen_clear(mk_sim_seen *seen)
{
    seen->count = 0;
    if (seen->capacity == 0) return;
    memset(seen->places, 0, seen->capacity * sizeof *seen->places);
}

/* Return the place of the hash, or the free one where it belongs. */
static size_t place_of(const mk_sim_seen *seen, mk_sim_hash hash)
{
    size_t place = (size_t)hash.a & (seen->capacity - 1);

    while (!is_free(seen->places[place]) &&
           !mk_sim_hash_is_equal(seen->places[place], hash)) {
        place = (place + 1) & (seen->capacity - 1);
    }
    return place;
}

bool mk_sim_seen_has(const mk_sim_seen *seen, mk_sim_hash hash)
{
    if (seen->capacity == 0) return false;
    return !is_free(seen->places[place_of(seen, name_of(hash))]);
}

mk_status mk_sim_seen_prepare(const mk_heap *heap, mk_sim_seen *seen,
                              mk_error *err)
{
    size_t capacity =
        seen->capacity < CAPACITY_MIN ? CAPACITY_MIN : seen->capacity * 2;
    mk_sim_seen grown = {.capacity = capacity};
    size_t size = capacity * sizeof *grown.places;

    if ((seen->count + 1) * 2 <= seen->capacity) return MK_OK;
    grown.places = mk_alloc_zero(heap, size);
    if (grown.places == NULL) return mk_fail_memory(err, size);
    for (size_t i = 0; i < seen->capacity; i++) {
        if (!is_free(seen->places[i])) mk_sim_seen_add(&grown, seen->places[i]);
    }
    mk_release(heap, seen->places);
    *seen = grown;
    return MK_OK;
}

void mk_sim_seen_add(mk_sim_seen *seen, mk_sim_hash hash)
{
    size_t place;

    MK_ASSERT(seen->count < seen->capacity);
    hash = name_of(hash);
    place = place_of(seen, hash);
    if (!is_free(seen->places[place])) return;
    seen->places[place] = hash;
    seen->count++;
}
