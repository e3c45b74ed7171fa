/* What can be read of a damaged log, and what is written of it. */
#include "support/sim_world.h"

#include "log/salvage.h"

#define BATCH_SIZE 68
#define PATH       "/00000000000000000010.log"

/* Put a batch of one record at `out`. */
static void make_batch(uint8_t *out, int64_t base_offset)
{
    mk_batch_builder builder;
    mk_record record = {.value = "v", .value_size = 1};
    mk_batch batch = {.base_offset = base_offset, .producer_id = -1};
    uint8_t room[256] = {0};

    mk_batch_builder_init(&builder, room);
    mk_batch_builder_add(&builder, &record, 7, 0);
    mk_batch_builder_seal(&builder, &batch);
    assert_int_equal(batch.size, BATCH_SIZE + 1);
    memcpy(out, room, batch.size);
}

/* Put a log of five batches, 10 to 14. */
static void make_log(uint8_t *bytes)
{
    for (int i = 0; i < 5; i++) {
        make_batch(bytes + i * (BATCH_SIZE + 1), 10 + i);
    }
}

#define LOG_SIZE (5 * (BATCH_SIZE + 1))

/* Tell what is found: "0+69:10-11 ..." (position, size, offsets). */
static const char *found(sim_world *world, const uint8_t *bytes, size_t size)
{
    static char told[256];
    mk_salvage salvage;
    size_t used = 0;

    assert_int_equal(mk_sim_disk_write(world->disk, PATH, bytes, size, NULL),
                     MK_OK);
    assert_int_equal(mk_salvage_read(&salvage, world->vfs, PATH, 10, NULL),
                     MK_OK);
    told[0] = '\0';
    for (size_t i = 0; i < salvage.count; i++) {
        const mk_stretch *s = &salvage.stretches[i];

        used += (size_t)snprintf(
            told + used, sizeof told - used, "%lld+%lld:%lld-%lld ",
            (long long)s->position / (BATCH_SIZE + 1),
            (long long)s->size / (BATCH_SIZE + 1), (long long)s->first_offset,
            (long long)s->next_offset);
    }
    if (salvage.whole) snprintf(told + used, sizeof told - used, "whole");
    mk_salvage_deinit(&salvage);
    return told;
}

/* Stretches end where damage begins, and begin where it ends. */
static void test_stretches(void **state)
{
    sim_world *world = *state;
    uint8_t bytes[LOG_SIZE];

    make_log(bytes);
    assert_string_equal(found(world, bytes, sizeof bytes), "0+5:10-15 whole");
    assert_string_equal(found(world, bytes, 0), "whole");
    assert_string_equal(found(world, bytes, LOG_SIZE - 3), "0+4:10-14 ");
    bytes[BATCH_SIZE + 1 + 40] ^= 1;
    assert_string_equal(found(world, bytes, sizeof bytes),
                        "0+1:10-11 2+3:12-15 ");
    bytes[3 * (BATCH_SIZE + 1) + 9] ^= 0x40; /* A size beyond the file. */
    assert_string_equal(found(world, bytes, sizeof bytes),
                        "0+1:10-11 2+1:12-13 4+1:14-15 ");
    memset(bytes, 0, BATCH_SIZE);
    assert_string_equal(found(world, bytes, sizeof bytes),
                        "2+1:12-13 4+1:14-15 ");
}

/* A base offset is not summed up: the batch that does not fit is left out, not
 * all that come after it. */
static void test_a_wrong_offset(void **state)
{
    sim_world *world = *state;
    uint8_t bytes[LOG_SIZE];

    make_log(bytes);
    bytes[BATCH_SIZE + 1 + 6] = 1;
    assert_string_equal(found(world, bytes, sizeof bytes),
                        "0+1:10-11 2+3:12-15 ");
    make_log(bytes);
    bytes[6] = 1;
    assert_string_equal(found(world, bytes, sizeof bytes), "1+4:11-15 ");
}

/* Batches of the wanted offsets are written, and measured alike. */
static void test_writing(void **state)
{
    sim_world *world = *state;
    uint8_t bytes[LOG_SIZE];
    mk_salvage_extent extent;
    mk_salvage salvage;
    int64_t size;

    make_log(bytes);
    bytes[2 * (BATCH_SIZE + 1) + 40] ^= 1;
    found(world, bytes, sizeof bytes);
    assert_int_equal(mk_salvage_read(&salvage, world->vfs, PATH, 10, NULL),
                     MK_OK);
    assert_int_equal(
        mk_salvage_measure(&salvage, world->vfs, PATH, 11, 14, &extent, NULL),
        MK_OK);
    assert_int_equal(extent.size, 2 * (BATCH_SIZE + 1));
    assert_int_equal(extent.first_offset, 11);
    assert_int_equal(extent.next_offset, 14);
    assert_int_equal(
        mk_salvage_write(&salvage, world->vfs, PATH, 11, 14, "/out", NULL),
        MK_OK);
    assert_int_equal(mk_sim_disk_size(world->disk, "/out", &size, NULL), MK_OK);
    assert_int_equal(size, extent.size);
    assert_int_not_equal(
        mk_salvage_write(&salvage, world->vfs, PATH, 11, 14, "/out", NULL),
        MK_OK);
    mk_salvage_deinit(&salvage);
}

/* Without memory for any one block. */
static void test_without_memory(void **unused)
{
    bool failed = true;

    (void)unused;
    for (size_t n = 1; failed; n++) {
        sim_world *world = new_world(NULL);
        mk_repair_options options;
        mk_repair_plan plan;
        uint8_t bytes[LOG_SIZE];
        mk_status status;

        make_log(bytes);
        bytes[BATCH_SIZE + 1 + 40] ^= 1;
        assert_int_equal(mk_sim_disk_write(world->disk, "/log" PATH, bytes,
                                           sizeof bytes, NULL),
                         MK_OK);
        assert_int_equal(mk_sim_disk_write(world->disk,
                                           "/log/00000000000000000020.log", "",
                                           0, NULL),
                         MK_OK);
        mk_repair_options_default(&options);
        options.env = world->env;
        options.apply = true;
        world->counts.fail_at = world->counts.allocations + n;
        status = mk_repair("/log", &options, &plan, NULL);
        failed = status != MK_OK;
        if (failed) assert_int_equal(status, MK_NO_MEMORY);
        world->counts.fail_at = 0;
        mk_repair_plan_deinit(&plan);
        assert_int_equal(mk_repair("/log", &options, &plan, NULL), MK_OK);
        if (!failed) assert_int_equal(plan.count, 0);
        mk_repair_plan_deinit(&plan);
        free_world(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stretches),
        TEST(a_wrong_offset),
        TEST(writing),
        cmocka_unit_test(test_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
