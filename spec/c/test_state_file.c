/* The state file: what it says, and that a damaged one says nothing. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "codec/crc32c.h"
#include "store/names.h"
#include "store/state_file.h"

#define HEAD                                                                 \
    "minikafka state 1\nstart 3\ndense 7\nend 20 12 340\nflushed 18 12 100 " \
    "200 0badcafe\n"
#define SEGMENT_0 \
    "segment 0 12 4000 1700000000000 9 1699999999999 5 4 00000001\n"
#define SEGMENT_12 "segment 12 20 340 -1 12 -1 0 0 ffffffff\n"

static const mk_segment_facts facts_0 = {
    .base_offset = 0,
    .next_offset = 12,
    .log_bytes = 4000,
    .max_timestamp_ms = INT64_C(1700000000000),
    .max_timestamp_offset = 9,
    .first_timestamp_ms = INT64_C(1699999999999),
    .offset_entries = 5,
    .time_entries = 4,
    .index_checksum = 1};

static const mk_segment_facts facts_12 = {.base_offset = 12,
                                          .next_offset = 20,
                                          .log_bytes = 340,
                                          .max_timestamp_ms = -1,
                                          .max_timestamp_offset = 12,
                                          .first_timestamp_ms = -1,
                                          .index_checksum = 0xffffffff};

/* The state that HEAD and the two segments tell of. */
static void make_state(posix_world *world, mk_state *out)
{
    mk_state_init(out, &world->heap);
    out->log_start_offset = 3;
    out->dense_offset = 7;
    out->end_offset = 20;
    out->end_segment = 12;
    out->end_position = 340;
    out->recovery_point =
        (mk_recovery_point){18, 12, 100, 200, 0x0badcafe, facts_12};
    assert_ok(mk_state_add(out, &facts_0, NULL));
    assert_ok(mk_state_add(out, &facts_12, NULL));
}

static void assert_same_facts(const mk_segment_facts *a,
                              const mk_segment_facts *b)
{
    assert_int_equal(a->base_offset, b->base_offset);
    assert_int_equal(a->next_offset, b->next_offset);
    assert_int_equal(a->log_bytes, b->log_bytes);
    assert_int_equal(a->max_timestamp_ms, b->max_timestamp_ms);
    assert_int_equal(a->max_timestamp_offset, b->max_timestamp_offset);
    assert_int_equal(a->first_timestamp_ms, b->first_timestamp_ms);
    assert_int_equal(a->offset_entries, b->offset_entries);
    assert_int_equal(a->time_entries, b->time_entries);
    assert_int_equal(a->index_checksum, b->index_checksum);
}

static void assert_same(const mk_state *a, const mk_state *b)
{
    const mk_recovery_point *p = &a->recovery_point, *q = &b->recovery_point;

    assert_int_equal(a->log_start_offset, b->log_start_offset);
    assert_int_equal(a->dense_offset, b->dense_offset);
    assert_int_equal(a->end_offset, b->end_offset);
    assert_int_equal(a->end_segment, b->end_segment);
    assert_int_equal(a->end_position, b->end_position);
    assert_int_equal(p->offset, q->offset);
    assert_int_equal(p->segment, q->segment);
    assert_int_equal(p->batch_position, q->batch_position);
    assert_int_equal(p->end_position, q->end_position);
    assert_int_equal(p->checksum, q->checksum);
    assert_int_equal(a->facts_count, b->facts_count);
    for (size_t i = 0; i < a->facts_count; i++) {
        assert_same_facts(&a->facts[i], &b->facts[i]);
    }
}

/* It claims nothing: neither segments nor an end, nor where the log starts. */
static void assert_initial(const mk_state *state)
{
    mk_state initial;

    mk_state_init(&initial, state->heap);
    assert_same(state, &initial);
    assert_int_equal(state->facts_count, 0);
    assert_int_equal(state->log_start_offset, -1);
    assert_int_equal(state->dense_offset, INT64_MAX);
    assert_int_equal(state->end_offset, -1);
    assert_int_equal(state->end_segment, -1);
    assert_int_equal(state->recovery_point.offset, 0);
    assert_int_equal(state->recovery_point.segment, -1);
    assert_null(mk_state_find(state, 0));
}

/* ---- In memory ---- */

static void test_find(void **state)
{
    posix_world *world = *state;

    for (int64_t count = 0; count < 20; count++) {
        mk_state known;

        mk_state_init(&known, &world->heap);
        for (int64_t i = 0; i < count; i++) {
            const mk_segment_facts facts = {.base_offset = i * 10,
                                            .log_bytes = i};

            assert_ok(mk_state_add(&known, &facts, NULL));
        }
        for (int64_t offset = -1; offset < count * 10 + 10; offset++) {
            const mk_segment_facts *found = mk_state_find(&known, offset);

            if (offset % 10 == 0 && offset < count * 10) {
                assert_non_null(found);
                assert_int_equal(found->base_offset, offset);
                assert_int_equal(found->log_bytes, offset / 10);
            } else {
                assert_null(found);
            }
        }
        mk_state_deinit(&known);
        assert_initial(&known);
        mk_state_deinit(&known);
    }
}

/* States are equal in all they say, or not equal. */
static void test_equals(void **state)
{
    posix_world *world = *state;
    mk_state a, b;
    int64_t *const members[] = {
        &b.log_start_offset,
        &b.dense_offset,
        &b.end_offset,
        &b.end_segment,
        &b.end_position,
        &b.recovery_point.offset,
        &b.recovery_point.segment,
        &b.recovery_point.batch_position,
        &b.recovery_point.end_position,
    };

    make_state(world, &a);
    make_state(world, &b);
    assert_true(mk_state_equals(&a, &b));
    for (size_t i = 0; i < LENGTH(members); i++) {
        ++*members[i];
        assert_false(mk_state_equals(&a, &b));
        --*members[i];
    }
    b.recovery_point.checksum++;
    assert_false(mk_state_equals(&a, &b));
    b.recovery_point.checksum--;
    for (size_t i = 0; i < 2; i++) {
        int64_t *facts = &b.facts[i].base_offset;

        for (size_t j = 0; j < 8; j++) { /* All but the checksum. */
            ++facts[j];
            assert_false(mk_state_equals(&a, &b));
            --facts[j];
        }
        b.facts[i].index_checksum++;
        assert_false(mk_state_equals(&a, &b));
        b.facts[i].index_checksum--;
    }
    assert_true(mk_state_equals(&a, &b));
    b.facts_count--;
    assert_false(mk_state_equals(&a, &b));
    assert_false(mk_state_equals(&b, &a));
    mk_state_deinit(&a);
    mk_state_deinit(&b);
}

/* ---- The file ---- */

static void store(posix_world *world, const mk_state *state)
{
    assert_ok(mk_state_store(state, world->vfs, world->root, false, NULL));
    assert_false(exists(world, MK_NAME_STATE ".tmp"));
}

static mk_state load(posix_world *world)
{
    mk_state loaded;

    mk_state_init(&loaded, &world->heap);
    assert_ok(mk_state_load(&loaded, world->vfs, world->root, NULL));
    return loaded;
}

/* Write a state file with this text and the right sum behind it. */
static void put_state(posix_world *world, const char *text)
{
    size_t size = strlen(text);
    char whole[4096];

    assert_true(size + 20 < sizeof whole);
    snprintf(whole, sizeof whole, "%ssum %08" PRIx32 "\n", text,
             mk_crc32c(0, text, size));
    change_file(world, MK_NAME_STATE, whole, strlen(whole));
}

/* The text is as the format says, and reads back. */
static void test_text(void **state)
{
    static const char text[] = HEAD SEGMENT_0 SEGMENT_12;
    posix_world *world = *state;
    char expected[1024];
    mk_state known, loaded;

    make_state(world, &known);
    store(world, &known);
    snprintf(expected, sizeof expected, "%ssum %08" PRIx32 "\n", text,
             mk_crc32c(0, text, strlen(text)));
    assert_content(world, MK_NAME_STATE, expected);
    loaded = load(world);
    assert_same(&loaded, &known);
    mk_state_deinit(&loaded);
    mk_state_deinit(&known);
}

static int64_t draw_number(uint64_t *seed)
{
    int64_t number = (int64_t)draw(seed, INT64_MAX) >> draw(seed, 63);

    switch (draw(seed, 8)) {
    case 0:
        return -number;
    case 1:
        return INT64_MAX;
    case 2:
        return -INT64_MAX;
    default:
        return number;
    }
}

static mk_segment_facts draw_facts(uint64_t *seed)
{
    return (mk_segment_facts){
        .base_offset = draw_number(seed),
        .next_offset = draw_number(seed),
        .log_bytes = draw_number(seed),
        .max_timestamp_ms = draw_number(seed),
        .max_timestamp_offset = draw_number(seed),
        .first_timestamp_ms = draw_number(seed),
        .offset_entries = draw_number(seed),
        .time_entries = draw_number(seed),
        .index_checksum = (uint32_t)draw(seed, UINT64_C(1) << 32),
    };
}

/* Whatever the numbers, and with any count of segments, what is stored is what
 * is loaded. */
static void test_round_trip(void **state)
{
    static const int counts[] = {0, 1, 2, 7, 8, 9, 100, 1000};
    posix_world *world = *state;
    uint64_t seed = 1;

    for (size_t i = 0; i < LENGTH(counts); i++) {
        mk_state known, loaded;

        mk_state_init(&known, &world->heap);
        known.log_start_offset = draw_number(&seed);
        known.dense_offset = draw_number(&seed);
        known.end_offset = draw_number(&seed);
        known.end_segment = draw_number(&seed);
        known.end_position = draw_number(&seed);
        known.recovery_point.offset = draw_number(&seed);
        known.recovery_point.segment = draw_number(&seed);
        known.recovery_point.batch_position = draw_number(&seed);
        known.recovery_point.end_position = draw_number(&seed);
        known.recovery_point.checksum = (uint32_t)draw(&seed, UINT32_MAX);
        for (int j = 0; j < counts[i]; j++) {
            mk_segment_facts facts = draw_facts(&seed);

            assert_ok(mk_state_add(&known, &facts, NULL));
        }
        store(world, &known);
        loaded = load(world);
        assert_same(&loaded, &known);
        mk_state_deinit(&loaded);
        mk_state_deinit(&known);
    }
}

/* A time before all others is a time, too: a batch of another's making can
 * have it. */
static void test_round_trip_of_the_least_time(void **state)
{
    posix_world *world = *state;
    mk_segment_facts facts = facts_0;
    mk_state known, loaded;

    make_state(world, &known);
    facts.base_offset = 20;
    facts.first_timestamp_ms = INT64_MIN;
    assert_ok(mk_state_add(&known, &facts, NULL));
    store(world, &known);
    loaded = load(world);
    assert_same(&loaded, &known);
    mk_state_deinit(&loaded);
    mk_state_deinit(&known);
}

/* Without a file, or with something else by its name. */
static void test_load_without_a_state(void **state)
{
    posix_world *world = *state;
    mk_state loaded = load(world);

    assert_initial(&loaded);
    mk_state_deinit(&loaded);
    put_file(world, MK_NAME_STATE, "", 0);
    loaded = load(world);
    assert_initial(&loaded);
    mk_state_deinit(&loaded);
    /* Far too large: not read at all. */
    assert_int_equal(truncate(path_of(world, MK_NAME_STATE), INT64_C(1) << 40),
                     0);
    world->heap_calls = 0;
    loaded = load(world);
    assert_initial(&loaded);
    assert_true(world->heap_calls < 10);
    mk_state_deinit(&loaded);
}

/* A directory of that name is no damage but an error. */
static void test_load_of_a_directory(void **state)
{
    posix_world *world = *state;
    mk_state loaded;

    assert_int_equal(mkdir(path_of(world, MK_NAME_STATE), 0700), 0);
    mk_state_init(&loaded, &world->heap);
    assert_status(mk_state_load(&loaded, world->vfs, world->root, NULL), MK_IO);
    mk_state_deinit(&loaded);
}

static void check_initial_damaged(void *context, const uint8_t *bytes,
                                  size_t size)
{
    posix_world *world = context;
    mk_state loaded;

    change_file(world, MK_NAME_STATE, bytes, size);
    loaded = load(world);
    assert_initial(&loaded);
    mk_state_deinit(&loaded);
}

/* A file cut anywhere, with any byte changed, or with more behind it is as good
 * as none. */
static void test_damaged(void **state)
{
    posix_world *world = *state;
    mk_state known;
    uint8_t *bytes;
    size_t size;

    make_state(world, &known);
    store(world, &known);
    mk_state_deinit(&known);
    bytes = get_file(world, MK_NAME_STATE, &size);
    each_damage(bytes, size, check_initial_damaged, world);
    bytes[size] = '\0';
    check_initial_damaged(world, bytes, size + 1);
    bytes[size] = '\n';
    check_initial_damaged(world, bytes, size + 1);
    free(bytes);
}

/* The right sum alone does not make a state. */
static void test_wrong_text_with_the_right_sum(void **state)
{
    static const char *const texts[] = {
        "",
        "\n",
        "minikafka state 1\n",
        "minikafka state 2\nstart 3\ndense 7\nend 20 12 340\n"
        "flushed 18 12 100 200 0badcafe\n",
        HEAD "\n",
        HEAD HEAD,
        HEAD "segment\n",
        HEAD "segment 0 12 4000 1700000000000 9 1699999999999 5 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4 4 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4 0000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4 000000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4 0000000A\n",
        HEAD "segment 0 12 4000 1 9 1 5 4 0000000g\n",
        HEAD "segment  0 12 4000 1 9 1 5 4 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4  00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4 00000001 \n",
        HEAD "segment 0 12 4000 1 9 1 5 4 00000001",
        HEAD "segment 0 12 4000 1 9 1 5 4 00000001\r\n",
        HEAD "segment 0 12 4000 1 9 1 5 - 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 +4 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 --4 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 4x 00000001\n",
        HEAD "segment 0 12 4000 1 9 1 5 0x4 00000001\n",
        HEAD "segment 9223372036854775808 12 4000 1 9 1 5 4 00000001\n",
        HEAD "segment 9223372036854775810 12 4000 1 9 1 5 4 00000001\n",
        HEAD "segment 18446744073709551616 12 4000 1 9 1 5 4 00000001\n",
        HEAD "segment -9223372036854775809 12 4000 1 9 1 5 4 00000001\n",
        HEAD "segment 99999999999999999999999 12 4000 1 9 1 5 4 00000001\n",
        SEGMENT_0,
        SEGMENT_0 HEAD,
        "minikafka state 1\nstart 3\nend 20 12 340\n"
        "flushed 18 12 100 200 0badcafe\n",
        "minikafka state 1\nstart 3\ndense 7\nend 20 12\n"
        "flushed 18 12 100 200 0badcafe\n",
        "minikafka state 1\nstart 3\ndense 7\nend 20 12 340\n"
        "flushed 18 12 100 200\n",
    };
    posix_world *world = *state;
    mk_state loaded;

    for (size_t i = 0; i < LENGTH(texts); i++) {
        put_state(world, texts[i]);
        loaded = load(world);
        if (loaded.log_start_offset != -1) fail_msg("case %zu", i);
        assert_initial(&loaded);
        mk_state_deinit(&loaded);
    }
    put_state(world, HEAD SEGMENT_0 SEGMENT_12);
    loaded = load(world);
    assert_int_equal(loaded.facts_count, 2);
    assert_int_equal(loaded.end_offset, 20);
    mk_state_deinit(&loaded);
}

/* ---- Failures ---- */

/* With `durable` content and name are on stable storage in that order. */
static void test_durable(void **state)
{
    posix_world *world = *state;
    traced_disk disk;
    mk_state known;

    traced_init(&disk, world);
    make_state(world, &known);
    assert_ok(mk_state_store(&known, &disk.base, world->root, true, NULL));
    assert_memory_equal(disk.trace,
                        "open minikafka.state.tmp; "
                        "write minikafka.state.tmp; "
                        "sync minikafka.state.tmp; "
                        "close minikafka.state.tmp; "
                        "rename minikafka.state.tmp; sync-directory ",
                        147);
    traced_restart(&disk, 0);
    assert_ok(mk_state_store(&known, &disk.base, world->root, false, NULL));
    assert_null(strstr(disk.trace, "sync"));
    mk_state_deinit(&known);
}

/* Whatever fails, the file has the old state or the new one. */
static void test_failing_disk(void **state)
{
    posix_world *world = *state;
    traced_disk disk;
    mk_state old, fresh;

    traced_init(&disk, world);
    make_state(world, &old);
    make_state(world, &fresh);
    fresh.end_offset = 21;
    for (long n = 1; n <= 6; n++) {
        mk_state loaded;

        store(world, &old);
        traced_restart(&disk, n);
        assert_status(
            mk_state_store(&fresh, &disk.base, world->root, true, NULL), MK_IO);
        loaded = load(world);
        assert_same(&loaded, n < 6 ? &old : &fresh);
        mk_state_deinit(&loaded);
    }
    for (long n = 1; n <= 3; n++) {
        mk_state loaded;

        mk_state_init(&loaded, &world->heap);
        traced_restart(&disk, n);
        assert_status(mk_state_load(&loaded, &disk.base, world->root, NULL),
                      MK_IO);
        assert_initial(&loaded);
        mk_state_deinit(&loaded);
    }
    mk_state_deinit(&old);
    mk_state_deinit(&fresh);
}

typedef struct storing {
    posix_world *world;
    mk_state known, loaded;
} storing;

static mk_status act_store(void *context, mk_error *err)
{
    storing *s = context;

    return mk_state_store(&s->known, s->world->vfs, s->world->root, true, err);
}

static void check_stored(void *context)
{
    storing *s = context;
    mk_state loaded = load(s->world);

    assert_int_equal(loaded.end_offset, 20);
    mk_state_deinit(&loaded);
}

static mk_status act_load(void *context, mk_error *err)
{
    storing *s = context;

    mk_state_init(&s->loaded, &s->world->heap);
    return mk_state_load(&s->loaded, s->world->vfs, s->world->root, err);
}

static void check_releasable(void *context)
{
    storing *s = context;

    mk_state_deinit(&s->loaded);
    assert_initial(&s->loaded);
}

static mk_status act_add(void *context, mk_error *err)
{
    storing *s = context;

    return mk_state_add(&s->known, &facts_12, err);
}

static void check_count(void *context)
{
    const storing *s = context;

    assert_int_equal(s->known.facts_count, 8);
    assert_same_facts(&s->known.facts[0], &facts_0);
    assert_same_facts(&s->known.facts[7], &facts_12);
}

static void test_without_memory(void **state)
{
    storing s = {.world = *state};

    make_state(s.world, &s.known);
    store(s.world, &s.known);
    s.known.end_offset = 21;
    assert_true(sweep_heap(s.world, act_store, check_stored, &s) > 0);
    while (s.known.facts_count < 8) {
        assert_ok(mk_state_add(&s.known, &facts_12, NULL));
    }
    assert_int_equal(sweep_heap(s.world, act_add, check_count, &s), 1);
    while (s.known.facts_count < 40) {
        assert_ok(mk_state_add(&s.known, &facts_12, NULL));
    }
    store(s.world, &s.known);
    assert_true(sweep_heap(s.world, act_load, check_releasable, &s) >= 5);
    assert_same(&s.loaded, &s.known);
    mk_state_deinit(&s.loaded);
    mk_state_deinit(&s.known);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_find),
        TEST(test_equals),
        TEST(test_text),
        TEST(test_round_trip),
        TEST(test_load_without_a_state),
        TEST(test_load_of_a_directory),
        TEST(test_damaged),
        TEST(test_wrong_text_with_the_right_sum),
        TEST(test_durable),
        TEST(test_failing_disk),
        TEST(test_without_memory),
        TEST(test_round_trip_of_the_least_time),
    };

    return cmocka_run_group_tests_name("state_file", tests, NULL, NULL);
}
