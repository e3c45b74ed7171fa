/* Finding the next sound batch behind bytes that are none. */
#include "support/sim_world.h"

#include "store/batch_hunt.h"

#define BATCH_SIZE 70

/* Put a batch of one record at `out`. */
static void make_batch(uint8_t *out, int64_t base_offset)
{
    mk_batch_builder builder;
    mk_record record = {.value = "v", .value_size = 1};
    mk_batch batch = {.base_offset = base_offset, .producer_id = -1};

    memset(out, 0, BATCH_SIZE);
    mk_batch_builder_init(&builder, out);
    mk_batch_builder_add(&builder, &record, 7, 0);
    assert_true(mk_batch_builder_size(&builder) <= BATCH_SIZE);
    mk_batch_builder_seal(&builder, &batch);
}

/* Return where a batch in first..limit is found, or -1; with any budget. */
static int64_t hunt_for(sim_world *world, int64_t position, int64_t first,
                        int64_t limit)
{
    mk_file *file = open_file(world, "/a", 0);
    int64_t answer = -2;

    for (size_t budget = 1; budget < 400; budget += 13) {
        mk_batch_hunt hunt;
        mk_file_stat stat;
        int64_t found;

        assert_int_equal(mk_file_stat_open(file, &stat, NULL), MK_OK);
        mk_batch_hunt_init(&hunt, file, stat.size, position, first, limit,
                           &world->scratch);
        while (!hunt.over) {
            assert_int_equal(mk_batch_hunt_step(&hunt, budget, NULL), MK_OK);
        }
        found = hunt.found ? hunt.position : -1;
        if (answer != -2) assert_int_equal(found, answer);
        answer = found;
    }
    close_file(file);
    return answer;
}

static void put_bytes(sim_world *world, const uint8_t *bytes, size_t size)
{
    assert_int_equal(mk_sim_disk_write(world->disk, "/a", bytes, size, NULL),
                     MK_OK);
}

/* It is found wherever it stands, and only if its offset is due. */
static void test_a_batch_is_found(void **state)
{
    sim_world *world = *state;
    uint8_t bytes[400];

    for (size_t at = 0; at <= 330; at += 30) {
        memset(bytes, 2, sizeof bytes);
        make_batch(bytes + at, 5);
        put_bytes(world, bytes, sizeof bytes);
        assert_int_equal(hunt_for(world, 0, 5, 6), at);
        assert_int_equal(hunt_for(world, 0, 0, INT64_MAX), at);
        assert_int_equal(hunt_for(world, (int64_t)at + 1, 0, INT64_MAX), -1);
        assert_int_equal(hunt_for(world, 0, 6, 9), -1);
        assert_int_equal(hunt_for(world, 0, 0, 5), -1);
    }
}

/* One that is damaged, or that the file ends in, is none; the one behind it
 * is. */
static void test_damaged_ones_are_passed(void **state)
{
    sim_world *world = *state;
    uint8_t bytes[3 * BATCH_SIZE];

    for (size_t bit = 0; bit < BATCH_SIZE * 8; bit++) {
        memset(bytes, 0, sizeof bytes);
        make_batch(bytes, 1);
        make_batch(bytes + BATCH_SIZE, 2);
        bytes[17 + bit / 8 % 50] ^= (uint8_t)(1u << bit % 8);
        put_bytes(world, bytes, sizeof bytes);
        assert_int_equal(hunt_for(world, 0, 1, 9), BATCH_SIZE);
        if (bit > 40) bit += 31;
    }
    put_bytes(world, bytes, 2 * BATCH_SIZE - 5);
    assert_int_equal(hunt_for(world, 0, 1, 9), -1);
    put_bytes(world, bytes, 10);
    assert_int_equal(hunt_for(world, 0, 1, 9), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_is_found),
        TEST(damaged_ones_are_passed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
