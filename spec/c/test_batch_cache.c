/* The cache of batches and of places in them. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "log/batch_cache.h"

enum {
    BATCHES = 4000, /* Fewer than half of the most that there is room for. */
    RECORDS = 512,  /* Of each batch, */
    SIZE = 63433,   /* ... and its bytes. */
    PLACES = 32,    /* Of each batch: one in sixteen records. */
    BYTES_MAX = 5 << 20
};

static mk_batch batch_of(int64_t number)
{
    return (mk_batch){
        .base_offset = number * RECORDS,
        .size = SIZE,
        .record_count = RECORDS,
        .last_offset_delta = RECORDS - 1,
    };
}

/* As reading a batch for the first time, and as reading it again. */
static void enter(mk_batch_cache *cache, uint64_t segment_id, int64_t number)
{
    mk_batch batch = batch_of(number);
    uint32_t id =
        mk_batch_cache_enter(cache, segment_id, number * SIZE, &batch);

    assert_int_not_equal(id, 0);
    for (uint32_t i = 0; i < PLACES; i++) {
        mk_batch_cache_enter_place(cache, segment_id,
                                   batch.base_offset + 16 * i, id, 16 * i,
                                   61 + 124 * 16 * i);
    }
}

static size_t count_known(const mk_batch_cache *cache, uint64_t segment_id)
{
    size_t known = 0;

    for (int64_t i = 0; i < BATCHES; i++) {
        known += mk_batch_cache_has(cache, segment_id, i * SIZE);
    }
    return known;
}

/* Half full it loses no batch and hardly a place, though both come in even
 * steps. What it knows is right. */
static void test_what_fits_stays(void **state)
{
    posix_world *world = *state;
    size_t lost = 0;
    mk_batch_cache cache;

    mk_batch_cache_init(&cache, &world->heap);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < BATCHES; i++) {
            enter(&cache, 7, i);
        }
    }
    assert_int_equal(count_known(&cache, 7), BATCHES);
    assert_int_equal(count_known(&cache, 8), 0);
    assert_true(mk_batch_cache_bytes(&cache) <= BYTES_MAX);
    for (int64_t offset = 0; offset < BATCHES * RECORDS; offset += 5) {
        const mk_cached_batch *batch = NULL;
        const mk_cached_place *place =
            mk_batch_cache_find(&cache, 7, offset, &batch);
        uint32_t ordinal = (uint32_t)(offset % RECORDS / 16 * 16);

        if (place == NULL) {
            lost++;
            continue;
        }
        assert_int_equal(batch->batch.base_offset, offset / RECORDS * RECORDS);
        assert_int_equal(batch->position, offset / RECORDS * SIZE);
        assert_int_equal(place->ordinal, ordinal);
        assert_int_equal(place->position, 61 + 124 * ordinal);
    }
    assert_true(lost < BATCHES * RECORDS / 5 / 100);
    mk_batch_cache_deinit(&cache);
}

/* Far more than there is room for: memory is bounded, what came last is known,
 * and no place is taken for one in another batch. */
static void test_more_than_fits(void **state)
{
    posix_world *world = *state;
    mk_batch_cache cache;
    size_t found = 0;

    mk_batch_cache_init(&cache, &world->heap);
    for (int64_t i = 0; i < 10 * BATCHES; i++) {
        const mk_cached_batch *batch = NULL;

        enter(&cache, 7, i);
        assert_true(mk_batch_cache_has(&cache, 7, i * SIZE));
        assert_non_null(
            mk_batch_cache_find(&cache, 7, (i + 1) * RECORDS - 1, &batch));
    }
    assert_true(mk_batch_cache_bytes(&cache) <= BYTES_MAX);
    for (int64_t offset = 0; offset < 10 * BATCHES * RECORDS; offset += 16) {
        const mk_cached_batch *batch = NULL;
        const mk_cached_place *place =
            mk_batch_cache_find(&cache, 7, offset, &batch);

        if (place == NULL) continue;
        found++;
        assert_int_equal(batch->position, offset / RECORDS * SIZE);
        assert_int_equal(place->ordinal, offset % RECORDS);
    }
    assert_true(found > BATCHES * PLACES);
    mk_batch_cache_deinit(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_fits_stays, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(test_more_than_fits, world_setup,
                                        world_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
