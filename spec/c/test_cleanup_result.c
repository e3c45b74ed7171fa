/* What a cleanup reports: three arrays in one block. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "clean/cleanup_result.h"

static void assert_empty(const mk_cleanup_result *result)
{
    assert_null(result->block);
    assert_null(result->deleted);
    assert_null(result->source_segments);
    assert_null(result->new_segments);
    assert_int_equal(result->deleted_count, 0);
    assert_int_equal(result->source_count, 0);
    assert_int_equal(result->new_count, 0);
    assert_int_equal(result->records_before, 0);
    assert_int_equal(result->records_after, 0);
    assert_int_equal(result->bytes_before, 0);
    assert_int_equal(result->bytes_after, 0);
}

/* A result is empty, and may be given back, twice too, with nothing in it. */
static void test_empty(void **state)
{
    posix_world *world = *state;
    mk_cleanup_result result, never = {0};

    memset(&result, 0xaa, sizeof result);
    mk_cleanup_result_init(&result, &world->heap);
    assert_empty(&result);
    mk_cleanup_result_deinit(&result);
    mk_cleanup_result_deinit(&result);
    assert_empty(&result);
    mk_cleanup_result_deinit(&never);
}

/* Each array has the room that was asked for, and no other's. */
static void test_reserve(void **state)
{
    posix_world *world = *state;

    for (size_t deleted = 0; deleted < 4; deleted++) {
        for (size_t sources = 0; sources < 4; sources++) {
            for (size_t made = 0; made < 4; made++) {
                mk_cleanup_result result;

                mk_cleanup_result_init(&result, &world->heap);
                assert_ok(mk_cleanup_result_reserve(&result, deleted, sources,
                                                    made, NULL));
                memset(result.deleted, 1, deleted * 8);
                memset(result.source_segments, 2, sources * 8);
                memset(result.new_segments, 3, made * 8);
                for (size_t i = 0; i < deleted; i++) {
                    assert_int_equal(result.deleted[i] & 0xff, 1);
                }
                for (size_t i = 0; i < sources; i++) {
                    assert_int_equal(result.source_segments[i] & 0xff, 2);
                }
                result.deleted_count = deleted;
                result.records_before = 7;
                mk_cleanup_result_deinit(&result);
                assert_empty(&result);
                mk_cleanup_result_deinit(&result);
                assert_int_equal(world->blocks, 1); /* The disk's own. */
            }
        }
    }
}

typedef struct reserving {
    mk_cleanup_result result;
} reserving;

static mk_status act_reserve(void *context, mk_error *err)
{
    reserving *r = context;

    return mk_cleanup_result_reserve(&r->result, 3, 2, 1, err);
}

static void check_empty(void *context)
{
    const reserving *r = context;

    assert_empty(&r->result);
}

static void test_without_memory(void **state)
{
    posix_world *world = *state;
    reserving r;

    mk_cleanup_result_init(&r.result, &world->heap);
    assert_int_equal(sweep_heap(world, act_reserve, check_empty, &r), 1);
    mk_cleanup_result_deinit(&r.result);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty),
        TEST(test_reserve),
        TEST(test_without_memory),
    };

    return cmocka_run_group_tests_name("cleanup_result", tests, NULL, NULL);
}
