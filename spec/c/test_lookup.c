/* Finding records by time: always what a full search would find. */
#define _GNU_SOURCE
#include "support/made_batches.h"

/* Look up each time in from..to; tell the offsets, "-" for none. */
static const char *lookups(log_world *world, int64_t from, int64_t to)
{
    world->told[0] = '\0';
    for (int64_t ms = from; ms <= to; ms++) {
        int64_t offset = 7, found_ms = 7;
        mk_status status = mk_log_offset_for_timestamp(world->log, ms, &offset,
                                                       &found_ms, &world->err);

        if (status == MK_END) {
            assert_int_equal(offset, -1);
            assert_int_equal(found_ms, -1);
            tell(world->told, "- ");
        } else {
            assert_ok(world, status);
            assert_true(found_ms >= ms);
            tell(world->told, "%lld ", (long long)offset);
        }
    }
    return world->told;
}

#define assert_lookups(world, from, to, expected) \
    assert_string_equal(lookups(world, from, to), (expected))

static void assert_max(log_world *world, int64_t wanted, int64_t wanted_ms)
{
    int64_t offset = 7, found_ms = 7;
    mk_status status = mk_log_offset_of_max_timestamp(world->log, &offset,
                                                      &found_ms, &world->err);

    assert_int_equal(status, wanted < 0 ? MK_END : MK_OK);
    assert_int_equal(offset, wanted);
    assert_int_equal(found_ms, wanted_ms);
}

/* Do a check with an index entry for each batch, and with none. */
static void with_intervals(log_world *world, const char *text,
                           void (*check)(log_world *))
{
    static const int64_t intervals[] = {0, 1, 100, 1 << 20};

    for (int i = 0; i < 4; i++) {
        remove_all(world->where);
        world->options.config.index_interval_bytes = intervals[i];
        open_log(world);
        fill(world, text);
        check(world);
        reopen(world);
        check(world);
        reopen_after_death(world);
        check(world);
        close_log(world);
    }
}

/* ---- Ascending times ---- */

static void check_ascending(log_world *world)
{
    assert_lookups(world, 0, 9, "0 0 0 1 1 2 2 3 3 - ");
    assert_max(world, 3, 8);
}

static void test_times_in_single_batches(void **state)
{
    with_intervals(*state, "a@2 b@4 c@6 d@8", check_ascending);
}

static void test_times_in_one_batch(void **state)
{
    with_intervals(*state, "a@2,b@4,c@6,d@8", check_ascending);
}

static void test_times_in_segments(void **state)
{
    with_intervals(*state, "a@2 | b@4 c@6 | d@8 |", check_ascending);
}

/* ---- Times in any order ---- */

static void check_disorder(log_world *world)
{
    assert_lookups(world, 0, 10, "0 0 0 0 0 0 1 1 1 1 - ");
    assert_max(world, 1, 9);
}

static void test_times_in_disorder(void **state)
{
    with_intervals(*state, "a@5 b@9 c@3 | d@7 e@1 f@8", check_disorder);
}

static void test_times_in_disorder_in_batches(void **state)
{
    with_intervals(*state, "a@5,b@9,c@3 | d@7,e@1,f@8", check_disorder);
}

/* The greatest time is in a later segment, and met twice. */
static void check_two_peaks(log_world *world)
{
    assert_lookups(world, 0, 10, "0 0 0 0 0 0 4 4 4 4 - ");
    assert_max(world, 4, 9);
}

static void test_the_first_peak_counts(void **state)
{
    with_intervals(*state, "a@5 b@3 c@5 | d@4 e@9 | f@9 g@9,h@9",
                   check_two_peaks);
}

/* Many records with the time that an index entry names. */
static void check_equal_times(log_world *world)
{
    assert_lookups(world, 6, 9, "0 0 5 - ");
    assert_max(world, 5, 8);
}

static void test_equal_times(void **state)
{
    with_intervals(*state, "a@7 b@7 c@7 d@7 e@7 f@8 g@8 h@8 i@8",
                   check_equal_times);
}

/* ---- No times, and strange ones ---- */

static void check_no_times(log_world *world)
{
    assert_lookups(world, 0, 2, "- - - ");
    assert_max(world, -1, -1);
}

static void test_records_without_times(void **state)
{
    with_intervals(*state, "a@-1 b@-1,c@-1 | d@-1", check_no_times);
}

/* Records without a time are later than times before -1, if anybody asks. */
static void test_times_before_all(void **state)
{
    log_world *world = *state;
    static const int64_t times[] = {-1, -2, INT64_MIN};

    open_log(world);
    fill(world, "a@-1 b@5");
    for (int i = 0; i < 3; i++) {
        int64_t offset, found_ms;

        assert_ok(world,
                  mk_log_offset_for_timestamp(world->log, times[i], &offset,
                                              &found_ms, &world->err));
        assert_int_equal(offset, 0);
        assert_int_equal(found_ms, -1);
    }
}

static void test_times_after_all(void **state)
{
    log_world *world = *state;
    int64_t offset, found_ms;

    open_log(world);
    fill(world, "a@5 b@9223372036854775807 c@6");
    assert_ok(world, mk_log_offset_for_timestamp(world->log, INT64_MAX, &offset,
                                                 &found_ms, &world->err));
    assert_int_equal(offset, 1);
    assert_max(world, 1, INT64_MAX);
}

static void test_an_empty_log_has_no_times(void **state)
{
    log_world *world = *state;

    open_log(world);
    check_no_times(world);
}

/* With LogAppendTime a batch's records all have its time: the first counts. */
static void test_append_times(void **state)
{
    log_world *world = *state;

    world->options.config.message_timestamp_type = 1;
    world->now_ms = 5;
    open_log(world);
    fill(world, "a,b,c");
    world->now_ms = 7;
    fill(world, "d,e");
    assert_lookups(world, 4, 8, "0 0 3 3 - ");
    assert_max(world, 3, 7);
}

/* ---- After something went ---- */

/* What was removed is not found, and what is below the log start is not. */
static void test_lookups_after_removal(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a@9,b@2,c@8 d@3 | e@7 f@1");
    assert_ok(world, mk_log_delete_records(world->log, 1, &world->err));
    assert_lookups(world, 1, 9, "1 1 2 2 2 2 2 2 - ");
    assert_max(world, 2, 8);
    assert_ok(world, mk_log_delete_records(world->log, 3, &world->err));
    assert_lookups(world, 1, 8, "3 3 3 4 4 4 4 - ");
    assert_max(world, 4, 7);
    assert_ok(world, mk_log_delete_records(world->log, 5, &world->err));
    assert_lookups(world, 0, 2, "5 5 - ");
    assert_ok(world, mk_log_delete_records(world->log, 6, &world->err));
    check_no_times(world);
    reopen(world);
    check_no_times(world);
}

/* The record that was the answer is compacted away: the next one is. */
static void test_lookups_after_compaction(void **state)
{
    log_world *world = *state;
    mk_cleanup_result result;

    open_log(world);
    fill(world, "a@9 b@2 a@3,c@8 | d@4 c@5 | e@1");
    assert_max(world, 0, 9);
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    mk_cleanup_result_deinit(&result);
    assert_contents(world, "1:b 2:a 4:d 5:c 6:e ");
    assert_lookups(world, 1, 6, "1 1 2 4 5 - ");
    assert_max(world, 5, 5);
    reopen(world);
    assert_lookups(world, 1, 6, "1 1 2 4 5 - ");
    assert_max(world, 5, 5);
}

/* After a truncation the greatest time is found anew. */
static void test_lookups_after_truncation(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a@1 b@3 c@9 d@2 | e@8");
    assert_ok(world, mk_log_truncate_to(world->log, 2, &world->err));
    assert_lookups(world, 1, 4, "0 1 1 - ");
    assert_max(world, 1, 3);
    fill(world, "f@4");
    assert_lookups(world, 3, 5, "1 2 - ");
    reopen_after_death(world);
    assert_lookups(world, 3, 5, "1 2 - ");
}

/* A compacted segment may keep a greatest time that no record has: later
 * segments are searched then. */
static void test_a_time_that_no_record_has(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};
    mk_batch batch;

    make_batch(&made, 0, "a@3,b@9", 1);
    assert_int_equal(mk_batch_peek((mk_span){made.bytes, made.size}, &batch),
                     MK_BATCH_WHOLE);
    batch.max_timestamp = 20;
    mk_batch_seal(made.bytes, &batch);
    put_segment(world, 0, &made);
    make_batch(&made, 2, "c@15", 2);
    put_segment(world, 2, &made);
    open_log(world);
    assert_lookups(world, 9, 16, "1 2 2 2 2 2 2 - ");
}

/* ---- Cursors ---- */

/* A cursor goes to the record that is found, or to the log end. */
static void test_a_cursor_goes_to_a_time(void **state)
{
    log_world *world = *state;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a@2 b@4,c@3 | d@6");
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    assert_ok(world, mk_cursor_seek_time(cursor, 3, &world->err));
    assert_int_equal(mk_cursor_next_offset(cursor), 1);
    assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
    assert_string_equal(world->told, "1:b 2:c 3:d ");
    assert_ok(world, mk_cursor_seek_time(cursor, 7, &world->err));
    assert_int_equal(mk_cursor_next_offset(cursor), 4);
    append(world, "e@1");
    assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
    assert_string_equal(world->told, "4:e ");
    mk_cursor_close(cursor);
}

/* Damage on the way is told, not passed over. */
static void test_damage_is_told(void **state)
{
    log_world *world = *state;
    int64_t offset = 7, found_ms = 7, size;

    open_log(world);
    append(world, "a@2");
    size = file_size(segment_file(world, 0, ".log"));
    fill(world, "b@4 c@6 |");
    close_log(world);
    damage(segment_file(world, 0, ".log"), (size_t)size + 62);
    open_log(world);
    assert_lookups(world, 1, 2, "0 0 ");
    assert_int_equal(mk_log_offset_for_timestamp(world->log, 4, &offset,
                                                 &found_ms, &world->err),
                     MK_CORRUPT_SEGMENT);
    assert_int_equal(offset, -1);
    assert_int_equal(found_ms, -1);
    assert_int_equal(world->err.position, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_times_in_single_batches),
        log_test(test_times_in_one_batch),
        log_test(test_times_in_segments),
        log_test(test_times_in_disorder),
        log_test(test_times_in_disorder_in_batches),
        log_test(test_the_first_peak_counts),
        log_test(test_equal_times),
        log_test(test_records_without_times),
        log_test(test_times_before_all),
        log_test(test_times_after_all),
        log_test(test_an_empty_log_has_no_times),
        log_test(test_append_times),
        log_test(test_lookups_after_removal),
        log_test(test_lookups_after_compaction),
        log_test(test_lookups_after_truncation),
        log_test(test_a_time_that_no_record_has),
        log_test(test_a_cursor_goes_to_a_time),
        log_test(test_damage_is_told),
    };

    return cmocka_run_group_tests_name("lookup", tests, NULL, NULL);
}
