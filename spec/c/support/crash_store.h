/*
 * crash_store -- what was found on disks so far, by their images, so that each
 * is opened once. Several threads may use one.
 */
#ifndef MK_SUPPORT_CRASH_STORE_H
#define MK_SUPPORT_CRASH_STORE_H

#include <pthread.h>

#include "os/sim_hash.h"
#include "support/crash_judge.h"

#define SHARD_COUNT 64u

/* What crashes in a recovery may lead to: summaries, ascending by address. */
typedef struct crash_reach {
    struct crash_reach *next;
    size_t count;
    const crash_summary *list[];
} crash_reach;

typedef struct crash_image {
    mk_sim_hash hash;             /* {0, 0}: the place is free. */
    const crash_summary *summary; /* Borrowed from the store. */
    const crash_reach *reach;     /* The same; NULL: nothing was looked for. */
} crash_image;

typedef struct crash_shard {
    pthread_mutex_t mutex;
    crash_image *images;
    size_t count, capacity;
} crash_shard;

typedef struct crash_store {
    crash_shard shards[SHARD_COUNT];
    pthread_mutex_t mutex;     /* Of what follows. */
    crash_summary **summaries; /* Owned, each. */
    size_t count, capacity;
    crash_reach *reaches; /* Owned: a list. */
} crash_store;

static inline void init_store(crash_store *store)
{
    memset(store, 0, sizeof *store);
    MUST(pthread_mutex_init(&store->mutex, NULL) == 0);
    for (size_t i = 0; i < SHARD_COUNT; i++) {
        MUST(pthread_mutex_init(&store->shards[i].mutex, NULL) == 0);
    }
}

static inline void deinit_store(crash_store *store)
{
    for (size_t i = 0; i < SHARD_COUNT; i++) {
        free(store->shards[i].images);
        pthread_mutex_destroy(&store->shards[i].mutex);
    }
    for (size_t i = 0; i < store->count; i++) {
        free(store->summaries[i]);
    }
    free(store->summaries);
    while (store->reaches != NULL) {
        crash_reach *next = store->reaches->next;

        free(store->reaches);
        store->reaches = next;
    }
    pthread_mutex_destroy(&store->mutex);
}

/* ---- Images ---- */

static inline crash_image *place_of_image(const crash_shard *shard,
                                          mk_sim_hash hash)
{
    size_t i = (size_t)(hash.a >> 8) & (shard->capacity - 1);

    while (shard->images[i].summary != NULL &&
           !mk_sim_hash_is_equal(shard->images[i].hash, hash)) {
        i = (i + 1) & (shard->capacity - 1);
    }
    return &shard->images[i];
}

static inline void grow_shard(crash_shard *shard)
{
    crash_shard grown = *shard;

    if (shard->count * 3 < shard->capacity * 2) return;
    grown.capacity = shard->capacity == 0 ? 1024 : shard->capacity * 2;
    grown.images = calloc(grown.capacity, sizeof *grown.images);
    MUST(grown.images != NULL);
    for (size_t i = 0; i < shard->capacity; i++) {
        const crash_image *image = &shard->images[i];

        if (image->summary == NULL) continue;
        *place_of_image(&grown, image->hash) = *image;
    }
    free(shard->images);
    shard->images = grown.images;
    shard->capacity = grown.capacity;
}

static inline crash_shard *shard_of(crash_store *store, mk_sim_hash hash)
{
    return &store->shards[hash.a % SHARD_COUNT];
}

/* Find an image; its summary is NULL if it was not seen before. */
static inline crash_image find_image(crash_store *store, mk_sim_hash hash)
{
    crash_shard *shard = shard_of(store, hash);
    crash_image found = {.summary = NULL};

    pthread_mutex_lock(&shard->mutex);
    if (shard->capacity > 0) found = *place_of_image(shard, hash);
    pthread_mutex_unlock(&shard->mutex);
    return found;
}

/* Add an image, or replace it. True: it is new. */
static inline bool add_image(crash_store *store, crash_image image)
{
    crash_shard *shard = shard_of(store, image.hash);
    crash_image *place;
    bool added;

    pthread_mutex_lock(&shard->mutex);
    grow_shard(shard);
    place = place_of_image(shard, image.hash);
    added = place->summary == NULL;
    if (added) shard->count++;
    *place = image;
    pthread_mutex_unlock(&shard->mutex);
    return added;
}

/* ---- Summaries, and sets of them ---- */

static inline const crash_summary *keep_summary(crash_store *store,
                                                const crash_summary *summary)
{
    const crash_summary *kept = NULL;

    pthread_mutex_lock(&store->mutex);
    for (size_t i = store->count; i-- > 0 && kept == NULL;) {
        if (memcmp(store->summaries[i], summary, sizeof *summary) == 0) {
            kept = store->summaries[i];
        }
    }
    if (kept == NULL) {
        crash_summary *copy = malloc(sizeof *copy);

        if (store->count == store->capacity) {
            store->capacity = store->capacity == 0 ? 64 : 2 * store->capacity;
            store->summaries = realloc(
                store->summaries, store->capacity * sizeof *store->summaries);
        }
        MUST(copy != NULL && store->summaries != NULL);
        *copy = *summary;
        store->summaries[store->count++] = copy;
        kept = copy;
    }
    pthread_mutex_unlock(&store->mutex);
    return kept;
}

/* A set of summaries that grows. */
typedef struct crash_set {
    const crash_summary **list; /* Owned. Ascending. */
    size_t count, capacity;
} crash_set;

static inline void add_to_set(crash_set *set, const crash_summary *summary)
{
    size_t i = set->count;

    while (i > 0 && (uintptr_t)set->list[i - 1] > (uintptr_t)summary) {
        i--;
    }
    if (i > 0 && set->list[i - 1] == summary) return;
    if (set->count == set->capacity) {
        set->capacity = set->capacity == 0 ? 16 : 2 * set->capacity;
        set->list = realloc(set->list, set->capacity * sizeof *set->list);
        MUST(set->list != NULL);
    }
    memmove(set->list + i + 1, set->list + i,
            (set->count - i) * sizeof *set->list);
    set->list[i] = summary;
    set->count++;
}

static inline const crash_reach *keep_reach(crash_store *store,
                                            const crash_set *set)
{
    size_t size = set->count * sizeof *set->list;
    crash_reach *reach;

    pthread_mutex_lock(&store->mutex);
    for (reach = store->reaches; reach != NULL; reach = reach->next) {
        if (reach->count != set->count) continue;
        if (size == 0 || memcmp(reach->list, set->list, size) == 0) break;
    }
    if (reach == NULL) {
        reach = malloc(sizeof *reach + size);
        MUST(reach != NULL);
        reach->count = set->count;
        if (size > 0) memcpy(reach->list, set->list, size);
        reach->next = store->reaches;
        store->reaches = reach;
    }
    pthread_mutex_unlock(&store->mutex);
    return reach;
}

#endif /* MK_SUPPORT_CRASH_STORE_H */
