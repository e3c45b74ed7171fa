/* Rolling: when the active segment ends, and how it is left. */
#define _GNU_SOURCE
#include "support/log_world.h"

#include "store/state_file.h"

/* The size of a batch with one record, "key=value". */
static int64_t one_batch_size(log_world *world)
{
    int64_t size;

    open_log(world);
    append(world, "key=value");
    close_log(world);
    size = file_size(segment_file(world, 0, ".log"));
    remove_all(world->where);
    return size;
}

/* ---- When ---- */

/* A segment may be filled to the byte; the next batch begins another. */
static void test_size_rolls_when_exceeded(void **state)
{
    log_world *world = *state;
    int64_t size = one_batch_size(world);

    world->options.config.segment_bytes = 3 * size;
    open_log(world);
    for (int i = 0; i < 4; i++) {
        append(world, "key=value");
    }
    assert_segments(world, "0..3 3..4 ");
    close_log(world);
    world->options.config.segment_bytes = 3 * size - 1;
    open_log(world);
    append(world, "key=value");
    append(world, "key=value");
    assert_segments(world, "0..3 3..5 5..6 ");
}

/* Time rolls by the records' times: strictly, never backwards, and counted
 * from the greatest time of the segment's first batch, also after reopening. */
static void test_time_rolls_by_records(void **state)
{
    log_world *world = *state;

    world->options.config.segment_ms = 100;
    open_log(world);
    append(world, "a@1000,b@1050");
    append(world, "c@1150");
    world->now_ms = 999999;
    append(world, "d@10");
    append(world, "e@-1");
    assert_segments(world, "0..5 ");
    reopen(world);
    append(world, "f@1150");
    assert_segments(world, "0..6 ");
    append(world, "g@1151");
    assert_segments(world, "0..6 6..7 ");
}

/* Without times in its first batch, a segment's age is the clock's, from when
 * it was opened. */
static void test_time_rolls_by_clock_without_times(void **state)
{
    log_world *world = *state;

    world->options.config.segment_ms = 100;
    world->now_ms = 5000;
    open_log(world);
    append(world, "a@-1");
    world->now_ms = 5100;
    append(world, "b@9000000");
    assert_segments(world, "0..2 ");
    world->now_ms = 5101;
    append(world, "c@1");
    assert_segments(world, "0..2 2..3 ");
}

/* An empty segment does not age. */
static void test_an_empty_segment_does_not_roll(void **state)
{
    log_world *world = *state;

    world->options.config.segment_ms = 1;
    open_log(world);
    world->now_ms += 1000;
    append(world, "a@1");
    assert_segments(world, "0..1 ");
    roll(world);
    roll(world);
    assert_segments(world, "0..1 1..1 ");
    world->now_ms += 1000;
    append(world, "b@5000");
    assert_segments(world, "0..1 1..2 ");
}

/* A compacted log rolls early enough for max_compaction_lag_ms. */
static void test_compaction_lag_rolls(void **state)
{
    log_world *world = *state;

    world->options.config.max_compaction_lag_ms = 10;
    open_log(world);
    fill(world, "a@100 b@111");
    assert_segments(world, "0..2 ");
    close_log(world);
    world->options.config.cleanup_policy = MK_POLICY_COMPACT;
    open_log(world);
    append(world, "c@111");
    assert_segments(world, "0..2 2..3 ");
    append(world, "d@121");
    assert_segments(world, "0..2 2..4 ");
}

/* Jitter makes a segment roll earlier, never later than without. */
static void test_jitter_rolls_earlier(void **state)
{
    log_world *world = *state;
    bool early = false;

    world->options.config.segment_ms = 1000;
    world->options.config.segment_jitter_ms = INT64_MAX;
    open_log(world);
    for (int64_t ms = 0; ms < 60000; ms += 50) {
        mk_segment_info infos[2];
        char text[64];
        size_t count;

        snprintf(text, sizeof text, "a@%lld", (long long)ms);
        append(world, text);
        assert_ok(world,
                  mk_log_segments(world->log, infos, 1, &count, &world->err));
        if (count == 1) continue;
        assert_true(ms - infos[0].max_timestamp_ms <= 50);
        assert_true(infos[0].max_timestamp_ms - infos[0].base_offset * 50 <=
                    1000);
        early |= infos[0].max_timestamp_ms - infos[0].base_offset * 50 < 900;
        assert_ok(world,
                  mk_log_delete_records(world->log, ms / 50, &world->err));
    }
    assert_true(early);
}

/* Full indexes roll: after so many offset entries, one time entry less. */
static void test_full_indexes_roll(void **state)
{
    log_world *world = *state;

    world->options.config.index_interval_bytes = 0;
    world->options.config.segment_index_bytes = 48;
    open_log(world);
    /* Times stand still, so that only the offset index fills: 6 entries. */
    fill(world, "a@5 a@5 a@5 a@5 a@5 a@5 a@5");
    assert_segments(world, "0..7 ");
    append(world, "a@5");
    assert_segments(world, "0..7 7..8 ");
    /* Times grow: 4 entries have room, and one is for the sealing. */
    fill(world, "a@6 a@7 a@8");
    assert_segments(world, "0..7 7..11 ");
    append(world, "a@9");
    assert_segments(world, "0..7 7..11 11..12 ");
}

/* No segment holds an offset more than INT32_MAX beyond its base. */
static void test_the_reach_of_a_base_rolls(void **state)
{
    log_world *world = *state;
    mk_state told;

    open_log(world);
    append(world, "a=1");
    close_log(world);
    mk_state_init(&told, &world->disk->heap);
    assert_ok(world, mk_state_load(&told, world->wrap.inner, world->where,
                                   &world->err));
    told.end_offset = INT64_C(0x7fffffff);
    assert_ok(world, mk_state_store(&told, world->wrap.inner, world->where,
                                    false, &world->err));
    mk_state_deinit(&told);
    open_log(world);
    append(world, "b=2");
    assert_segments(world, "0..2147483648 ");
    append(world, "c=3");
    assert_segments(world, "0..2147483648 2147483648..2147483649 ");
    reopen(world);
    assert_contents(world, "0:a=1 2147483647:b=2 2147483648:c=3 ");
}

/* The last offset is given, and none after it. */
static void test_offsets_end(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    mk_state told;

    open_log(world);
    close_log(world);
    mk_state_init(&told, &world->disk->heap);
    assert_ok(world, mk_state_load(&told, world->wrap.inner, world->where,
                                   &world->err));
    told.end_offset = INT64_MAX - 2;
    assert_ok(world, mk_state_store(&told, world->wrap.inner, world->where,
                                    false, &world->err));
    mk_state_deinit(&told);
    open_log(world);
    assert_int_equal(try_append(world, "a,b,c", &range), MK_INVALID_RECORD);
    assert_int_equal(append(world, "a,b"), INT64_MAX - 2);
    assert_int_equal(try_append(world, "c", &range), MK_INVALID_RECORD);
    reopen(world);
    assert_int_equal(info_of(world).log_end_offset, INT64_MAX);
    assert_contents(world, "9223372036854775805:a 9223372036854775806:b ");
}

/* A batch that makes the log roll by several rules rolls it once, and a batch
 * too large for any segment does not roll it at all. */
static void test_a_refused_batch_does_not_roll(void **state)
{
    log_world *world = *state;
    int64_t size = one_batch_size(world);
    mk_offset_range range;

    world->options.config.segment_bytes = size;
    world->options.config.segment_ms = 1;
    open_log(world);
    append(world, "key=value");
    assert_int_equal(try_append(world, "key=value!@99999", &range),
                     MK_RECORD_TOO_LARGE);
    assert_int_equal(try_append(world, "key=value@-9", &range),
                     MK_INVALID_TIMESTAMP);
    assert_segments(world, "0..1 ");
    append(world, "key=value");
    assert_segments(world, "0..1 1..2 ");
}

/* ---- How ---- */

/* A closed segment has its last time in the time index, no spare bytes, and
 * the time of the roll. */
static void test_a_closed_segment_is_complete(void **state)
{
    log_world *world = *state;
    struct stat native;

    world->options.mapped = MK_MAPPED_ALWAYS;
    open_log(world);
    fill(world, "a=1@7 b=2@9 c=3@8");
    world->now_ms = 86400123;
    roll(world);
    assert_int_equal(file_size(segment_file(world, 0, ".index")), 0);
    assert_int_equal(file_size(segment_file(world, 0, ".timeindex")), 12);
    assert_int_equal(stat(segment_file(world, 0, ".log"), &native), 0);
    assert_int_equal(native.st_mtim.tv_sec, 86400);
    assert_int_equal(native.st_mtim.tv_nsec, 123000000);
    assert_true(native.st_size < 4096);
    assert_true(exists(segment_file(world, 3, ".log")));
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
}

/* `preallocate` takes the room at once; only what is used counts, and the rest
 * is given back when the segment ends. */
static void test_preallocated_room_is_given_back(void **state)
{
    log_world *world = *state;
    const char *path = segment_file(world, 0, ".log");
    struct stat native;
    int64_t used;

    world->options.config.preallocate = true;
    world->options.config.segment_bytes = 1 << 20;
    open_log(world);
    append(world, "a=1");
    assert_int_equal(stat(path, &native), 0);
    assert_int_equal(native.st_size, 1 << 20);
    assert_true(native.st_blocks >= 2048);
    used = info_of(world).size_bytes;
    assert_true(used < 200);
    reopen_after_death(world);
    assert_contents(world, "0:a=1 ");
    roll(world);
    assert_int_equal(file_size(path), used);
    append(world, "b=2");
    close_log(world);
    assert_true(file_size(segment_file(world, 1, ".log")) < 200);
}

/* A reader that stands at the end goes on behind a roll. */
static void test_readers_go_on_behind_a_roll(void **state)
{
    log_world *world = *state;
    mk_cursor *cursor;

    open_log(world);
    append(world, "a=1");
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    for (int i = 0; i < 5; i++) {
        char expected[64];

        assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
        snprintf(expected, sizeof expected, "%d:a=1 ", i);
        assert_string_equal(world->told, expected);
        roll(world);
        assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
        assert_string_equal(world->told, "");
        append(world, "a=1");
    }
    mk_cursor_close(cursor);
}

/* ---- While directories are swapped ---- */

typedef struct rush {
    log_world *world;
    void *(*act)(void *rusher);
    pthread_t threads[4];
    mk_offset_range ranges[4];
    mk_status statuses[4];
    bool started;
} rush;

typedef struct rusher {
    rush *rush;
    int number;
} rusher;

/* The last one appends a record that still fits, the others each a batch that
 * does not fit into the active segment any more. */
static void *append_some(void *context)
{
    rusher *own = context;
    bool small = own->number == 3;
    mk_record records[RECORDS_MAX];
    char text[256] = "";
    size_t count;

    for (int i = 0; i < (small ? 1 : 20); i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof text - used, "%sk%d=%d", i > 0 ? "," : "",
                 own->number, i);
    }
    count = parse_records(text, records);
    own->rush->statuses[own->number] =
        mk_log_append(own->rush->world->log, records, count, NULL,
                      &own->rush->ranges[own->number], NULL);
    free(own);
    return NULL;
}

static void *roll_now(void *context)
{
    rusher *own = context;

    own->rush->statuses[own->number] = mk_log_roll(own->rush->world->log, NULL);
    free(own);
    return NULL;
}

/* In the midst of a swap, which no roll may come into, start threads; the last
 * one when the others have got as far as they can. Sooner proves less. */
static void rush_in(void *context, const wrap_call *call)
{
    rush *r = context;

    if (call->kind != WRAP_link || r->started) return;
    r->started = true;
    for (int i = 0; i < 4; i++) {
        rusher *own = malloc(sizeof *own);

        if (own == NULL) abort();
        *own = (rusher){r, i};
        if (i == 3) wait_tick();
        pthread_create(&r->threads[i], NULL, r->act, own);
    }
    wait_tick();
}

/* Compact, with the rush in the midst of it. */
static void compact_in_a_rush(log_world *world, rush *r)
{
    mk_cleanup_result result;

    world->wrap.context = r;
    world->wrap.before = rush_in;
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    for (int i = 0; i < 4; i++) {
        pthread_join(r->threads[i], NULL);
        assert_int_equal(r->statuses[i], MK_OK);
    }
    world->wrap.before = NULL;
    mk_cleanup_result_deinit(&result);
}

/* Every record reads back under the offset that its append was given. */
static void assert_all_there(log_world *world, const rush *r)
{
    contents(world);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < (i == 3 ? 1 : 20); j++) {
            char expected[64];

            snprintf(expected, sizeof expected, " %lld:k%d=%d ",
                     (long long)r->ranges[i].first + j, i, j);
            if (strstr(world->told, expected) == NULL) {
                fail_msg("no%sin %s", expected, world->told);
            }
        }
    }
}

/* Appends that wait for a swap to end, so that they can roll, keep their own
 * bytes and get offsets of their own. */
static void test_appends_that_wait_to_roll_keep_apart(void **state)
{
    log_world *world = *state;
    rush r = {.world = world, .act = append_some};

    world->options.config.segment_bytes = 450;
    open_log(world);
    fill(world, "a=1 a=2 | a=3 b=4 b=5");
    compact_in_a_rush(world, &r);
    assert_int_equal(info_of(world).log_end_offset, 5 + 60 + 1);
    assert_all_there(world, &r);
    reopen(world);
    assert_all_there(world, &r);
}

/* Several rolls that wait for a swap make one new segment together. */
static void test_rolls_that_wait_are_one(void **state)
{
    log_world *world = *state;
    rush r = {.world = world, .act = roll_now};

    open_log(world);
    fill(world, "a=1 a=2 | a=3");
    compact_in_a_rush(world, &r);
    assert_segments(world, "0..0 2..3 3..3 ");
    assert_contents(world, "2:a=3 ");
    reopen(world);
    assert_contents(world, "2:a=3 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_size_rolls_when_exceeded),
        log_test(test_time_rolls_by_records),
        log_test(test_time_rolls_by_clock_without_times),
        log_test(test_an_empty_segment_does_not_roll),
        log_test(test_compaction_lag_rolls),
        log_test(test_jitter_rolls_earlier),
        log_test(test_full_indexes_roll),
        log_test(test_the_reach_of_a_base_rolls),
        log_test(test_offsets_end),
        log_test(test_a_refused_batch_does_not_roll),
        log_test(test_a_closed_segment_is_complete),
        log_test(test_preallocated_room_is_given_back),
        log_test(test_readers_go_on_behind_a_roll),
        log_test(test_appends_that_wait_to_roll_keep_apart),
        log_test(test_rolls_that_wait_are_one),
    };

    return cmocka_run_group_tests_name("roll", tests, NULL, NULL);
}
