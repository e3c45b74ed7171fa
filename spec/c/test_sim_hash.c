/* Hashes of images, and numbers by chance. */
#include "support/sim_world.h"

#include "os/sim_hash.h"

static bool differ(mk_sim_hash x, mk_sim_hash y)
{
    return x.a != y.a && x.b != y.b;
}

/* Every bit counts, in both halves; zeros at the end do not. */
static void test_bytes(void **state)
{
    uint8_t bytes[40] = {0};
    mk_sim_hash seen[40 * 8];

    (void)state;
    assert_true(mk_sim_hash_is_equal(mk_sim_hash_bytes(bytes, 40),
                                     (mk_sim_hash){0, 0}));
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] = (uint8_t)(1u << bit % 8);
        seen[bit] = mk_sim_hash_bytes(bytes, sizeof bytes);
        assert_true(mk_sim_hash_is_equal(
            seen[bit], mk_sim_hash_bytes(bytes, bit / 8 + 1)));
        for (size_t other = 0; other < bit; other++) {
            assert_true(differ(seen[bit], seen[other]));
        }
        bytes[bit / 8] = 0;
    }
}

/* A pair has an order, a sum has none. */
static void test_pairs_and_sums(void **state)
{
    mk_sim_hash x = mk_sim_hash_number(1);
    mk_sim_hash y = mk_sim_hash_number(2);

    (void)state;
    assert_true(differ(x, y));
    assert_true(differ(mk_sim_hash_pair(x, y), mk_sim_hash_pair(y, x)));
    assert_true(
        mk_sim_hash_is_equal(mk_sim_hash_add(x, y), mk_sim_hash_add(y, x)));
    assert_false(
        mk_sim_hash_is_equal(mk_sim_hash_add(x, x), mk_sim_hash_add(y, y)));
}

/* The row of numbers is SplitMix64's, whatever the machine. */
static void test_chance(void **state)
{
    uint64_t chance = 1234567;
    size_t counts[10] = {0};

    (void)state;
    assert_true(mk_sim_random(&chance) == UINT64_C(6457827717110365317));
    assert_true(mk_sim_random(&chance) == UINT64_C(3203168211198807973));
    assert_true(mk_sim_random(&chance) == UINT64_C(9817491932198370423));
    for (int i = 0; i < 10000; i++) {
        counts[mk_sim_random_below(&chance, 10)]++;
    }
    for (size_t i = 0; i < 10; i++) {
        assert_in_range(counts[i], 850, 1150);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes),
        TEST(pairs_and_sums),
        TEST(chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
