/* Sets of hashes. */
#include "support/sim_world.h"

#include "os/sim_seen.h"

#define HASHES 5000

/* Many want the same place; the first is the one that marks a free one. */
static mk_sim_hash hash_of(uint64_t i)
{
    if (i == 0) return (mk_sim_hash){0, 0};
    return (mk_sim_hash){2 + i % 7, i};
}

/* What was added is there, all else is not. */
static void test_set_has_what_was_added(void **state)
{
    sim_world *world = *state;
    mk_sim_seen seen = {0};

    assert_false(mk_sim_seen_has(&seen, (mk_sim_hash){0, 0}));
    mk_sim_seen_clear(&seen);
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < HASHES; i++) {
            mk_sim_hash hash = hash_of(i);

            assert_false(mk_sim_seen_has(&seen, hash));
            assert_int_equal(mk_sim_seen_prepare(&world->heap, &seen, NULL),
                             MK_OK);
            mk_sim_seen_add(&seen, hash);
            mk_sim_seen_add(&seen, hash);
            assert_int_equal(seen.count, i + 1);
        }
        for (uint64_t i = 0; i < HASHES; i++) {
            assert_true(mk_sim_seen_has(&seen, hash_of(i)));
        }
        mk_sim_seen_clear(&seen);
        assert_int_equal(seen.count, 0);
    }
    mk_sim_seen_deinit(&world->heap, &seen);
}

/* Without memory the set stays as it is. */
static void test_lack_of_memory(void **state)
{
    sim_world *world = *state;
    mk_sim_seen seen = {0};

    world->counts.fail_at = world->counts.allocations + 1;
    assert_int_equal(mk_sim_seen_prepare(&world->heap, &seen, NULL),
                     MK_NO_MEMORY);
    assert_int_equal(mk_sim_seen_prepare(&world->heap, &seen, NULL), MK_OK);
    mk_sim_seen_add(&seen, (mk_sim_hash){1, 2});
    while ((seen.count + 1) * 2 <= seen.capacity) {
        mk_sim_seen_add(&seen, (mk_sim_hash){2, seen.count});
    }
    world->counts.fail_at = world->counts.allocations + 1;
    assert_int_equal(mk_sim_seen_prepare(&world->heap, &seen, NULL),
                     MK_NO_MEMORY);
    assert_true(mk_sim_seen_has(&seen, (mk_sim_hash){1, 2}));
    mk_sim_seen_deinit(&world->heap, &seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(set_has_what_was_added),
        TEST(lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
