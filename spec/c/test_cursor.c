/* Reading on from an offset: where a cursor begins, ends and goes on, and what
 * it says when its place has gone. */
#define _GNU_SOURCE
#include "support/made_batches.h"

static mk_cursor *open_cursor(log_world *world, int64_t from)
{
    mk_cursor_options options;
    mk_cursor *cursor;

    mk_cursor_options_default(&options);
    options.from = from;
    assert_ok(world,
              mk_cursor_open(world->log, &options, &cursor, &world->err));
    return cursor;
}

/* The cursor gives this, and then the end. */
static void assert_gives(log_world *world, mk_cursor *cursor,
                         const char *expected)
{
    mk_status status = tell_cursor(cursor, world->told, &world->err);

    assert_string_equal(world->told, expected);
    if (status != MK_END) fail_msg("%s", world->err.message);
}

static void seek(log_world *world, mk_cursor *cursor, int64_t offset)
{
    assert_ok(world, mk_cursor_seek(cursor, offset, &world->err));
}

/* ---- Gaps ---- */

/* Reading goes on from any offset through any number of empty segments, to the
 * end of the log, and says clearly what is out of range. */
static void test_removed_offsets_are_passed(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};
    mk_cursor *cursor;

    make_batch(&made, 0, "a=1", 9);
    put_segment(world, 0, &made);
    put_segment(world, 10, &made);
    make_batch(&made, 20, "+5,b=2", 25);
    put_segment(world, 20, &made);
    put_segment(world, 26, &made);
    open_log(world);
    assert_bounds(world, 0, 26);
    cursor = open_cursor(world, 0);
    assert_gives(world, cursor, "0:a=1 25:b=2 ");
    assert_int_equal(mk_cursor_next_offset(cursor), 26);
    for (int64_t from = 1; from <= 26; from++) {
        seek(world, cursor, from);
        assert_int_equal(mk_cursor_next_offset(cursor), from);
        assert_gives(world, cursor, from <= 25 ? "25:b=2 " : "");
        assert_int_equal(mk_cursor_next_offset(cursor), 26);
    }
    assert_int_equal(mk_cursor_seek(cursor, 27, &world->err),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(world->err.requested, 27);
    assert_int_equal(mk_cursor_seek(cursor, -1, &world->err),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(world->err.requested, -1);
    assert_int_equal(world->err.log_start_offset, 0);
    assert_int_equal(world->err.log_end_offset, 26);
    assert_int_equal(mk_cursor_next_offset(cursor), 26);
    append(world, "c=3");
    assert_gives(world, cursor, "26:c=3 ");
    mk_cursor_close(cursor);
}

/* A batch that begins before the offset gives only what is asked for; where it
 * ends without a record, reading goes on behind it. */
static void test_a_batch_that_begins_before(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};
    mk_cursor *cursor;

    make_batch(&made, 0, "a=0,b=1,+1,d=3,+2,g=6", 9);
    make_batch(&made, 10, "k=10", 10);
    put_segment(world, 0, &made);
    open_log(world);
    cursor = open_cursor(world, 7);
    for (int64_t from = 7; from < 10; from++) {
        mk_record_view view;

        seek(world, cursor, from);
        mk_cursor_limit(cursor, MK_TO_END, MK_NO_LIMIT, 1);
        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
        assert_int_equal(view.offset, 10);
    }
    mk_cursor_limit(cursor, MK_TO_END, MK_NO_LIMIT, MK_NO_LIMIT);
    seek(world, cursor, 2);
    assert_gives(world, cursor, "3:d=3 6:g=6 10:k=10 ");
    /* After the last record of a batch, the rest of it is behind us. */
    seek(world, cursor, 6);
    mk_cursor_limit(cursor, MK_TO_END, 1, MK_NO_LIMIT);
    assert_gives(world, cursor, "6:g=6 ");
    assert_int_equal(mk_cursor_next_offset(cursor), 10);
    mk_cursor_close(cursor);
}

/* Control batches and empty ones are passed over by records, and given as
 * batches. */
static void test_control_batches(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};
    mk_batch batch;
    mk_batch_view view;
    mk_cursor *cursor;
    size_t second;

    make_batch(&made, 0, "a=1", 0);
    second = made.size;
    make_batch(&made, 1, "x=0", 1);
    assert_int_equal(
        mk_batch_peek((mk_span){made.bytes + second, made.size - second},
                      &batch),
        MK_BATCH_WHOLE);
    batch.attributes |= MK_ATTRIBUTE_CONTROL;
    mk_batch_seal(made.bytes + second, &batch);
    make_batch(&made, 2, "", 4);
    make_batch(&made, 5, "b=2", 5);
    put_segment(world, 0, &made);
    open_log(world);
    assert_contents(world, "0:a=1 5:b=2 ");
    cursor = open_cursor(world, 1);
    assert_ok(world, mk_cursor_next_batch(cursor, &view, &world->err));
    assert_int_equal(view.base_offset, 1);
    assert_true(view.control);
    assert_int_equal(view.position, second);
    assert_ok(world, mk_cursor_next_batch(cursor, &view, &world->err));
    assert_int_equal(view.base_offset, 2);
    assert_int_equal(view.last_offset, 4);
    assert_int_equal(view.record_count, 0);
    assert_ok(world, mk_cursor_next_batch(cursor, &view, &world->err));
    assert_int_equal(view.base_offset, 5);
    assert_int_equal(view.segment_base_offset, 0);
    assert_false(view.control);
    assert_int_equal(mk_cursor_next_batch(cursor, &view, &world->err), MK_END);
    mk_cursor_close(cursor);
}

/* A codec that is not built in is said to be so at its batch, not before. */
static void test_a_codec_not_built_in(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};
    mk_batch_view view;
    mk_cursor *cursor;
    mk_batch batch;
    size_t second;

    make_batch(&made, 0, "a=1", 0);
    second = made.size;
    make_batch(&made, 1, "x=0", 1);
    assert_int_equal(
        mk_batch_peek((mk_span){made.bytes + second, made.size - second},
                      &batch),
        MK_BATCH_WHOLE);
    batch.attributes |= MK_CODEC_ZSTD;
    mk_batch_seal(made.bytes + second, &batch);
    make_batch(&made, 2, "b=2", 2);
    put_segment(world, 0, &made);
    open_log(world);
    assert_int_equal(try_tell(world, world->log, world->told), MK_UNSUPPORTED);
    assert_string_equal(world->told, "0:a=1 ");
    cursor = open_cursor(world, 1);
    assert_ok(world, mk_cursor_next_batch(cursor, &view, &world->err));
    assert_int_equal(view.codec, MK_CODEC_ZSTD);
    assert_gives(world, cursor, "2:b=2 ");
    mk_cursor_close(cursor);
}

/* ---- Limits ---- */

/* Runs end before an offset, after a number of records, before a number of
 * bytes; the first record is always given; lifting a limit goes on. */
static void test_limits_end_a_run(void **state)
{
    log_world *world = *state;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a=0,b=1 c=2,d=3,e=4 | f=5");
    cursor = open_cursor(world, MK_FROM_START);
    mk_cursor_limit(cursor, 3, MK_NO_LIMIT, MK_NO_LIMIT);
    assert_gives(world, cursor, "0:a=0 1:b=1 2:c=2 ");
    assert_gives(world, cursor, "");
    assert_int_equal(mk_cursor_next_offset(cursor), 3);
    mk_cursor_limit(cursor, MK_TO_END, 1, MK_NO_LIMIT);
    assert_gives(world, cursor, "3:d=3 ");
    assert_gives(world, cursor, "");
    mk_cursor_limit(cursor, MK_TO_END, 0, MK_NO_LIMIT);
    assert_gives(world, cursor, "");
    mk_cursor_limit(cursor, 0, 5, 5);
    assert_gives(world, cursor, "");
    mk_cursor_limit(cursor, 100, 100, 1 << 20);
    assert_gives(world, cursor, "4:e=4 5:f=5 ");
    seek(world, cursor, 0);
    mk_cursor_limit(cursor, MK_TO_END, MK_NO_LIMIT, 0);
    assert_gives(world, cursor, "0:a=0 ");
    mk_cursor_close(cursor);
}

/* max_bytes counts records as stored, to the byte. */
static void test_bytes_are_counted_as_stored(void **state)
{
    log_world *world = *state;
    static const int64_t sizes[] = {10, 5000, 10};
    uint8_t *value = calloc(1, 5000);
    mk_record record = {.value = value, .timestamp_ms = 1};
    int64_t stored[3];
    mk_cursor *cursor;

    assert_non_null(value);
    open_log(world);
    for (int i = 0; i < 3; i++) {
        mk_segment_info info;
        int64_t offset;
        size_t count;

        record.value_size = (size_t)sizes[i];
        assert_ok(world,
                  mk_log_append_one(world->log, &record, &offset, &world->err));
        assert_ok(world,
                  mk_log_segments(world->log, &info, 1, &count, &world->err));
        stored[i] = info.log_bytes - (int64_t)MK_BATCH_HEADER_SIZE * (i + 1);
        for (int j = 0; j < i; j++) {
            stored[i] -= stored[j];
        }
    }
    free(value);
    cursor = open_cursor(world, 0);
    for (int64_t from = 0; from < 3; from++) {
        int64_t limits[] = {
            0,       1,        stored[0] + stored[1] - 1, stored[0] + stored[1],
            1 << 20, INT64_MAX};

        for (int i = 0; i < 6; i++) {
            int64_t wanted = 0, got = 0, sum = 0;
            mk_record_view view;

            for (int64_t j = from; j < 3; j++) {
                sum += stored[j];
                if (j > from && sum > limits[i]) break;
                wanted++;
            }
            seek(world, cursor, from);
            mk_cursor_limit(cursor, MK_TO_END, MK_NO_LIMIT, limits[i]);
            while (mk_cursor_next(cursor, &view, &world->err) == MK_OK) {
                assert_int_equal(view.offset, from + got);
                got++;
            }
            assert_int_equal(got, wanted);
        }
    }
    mk_cursor_close(cursor);
}

/* Options are checked, and what is refused leaves no cursor. */
static void test_options_are_checked(void **state)
{
    log_world *world = *state;
    mk_cursor_options options;
    mk_cursor *cursor = (mk_cursor *)&options;

    open_log(world);
    fill(world, "a=1 b=2 c=3");
    assert_ok(world, mk_log_delete_records(world->log, 1, &world->err));
    for (int i = 0; i < 5; i++) {
        static const int64_t froms[] = {0, 4, -1, INT64_MAX, -9};

        mk_cursor_options_default(&options);
        options.from = froms[i];
        assert_int_equal(
            mk_cursor_open(world->log, &options, &cursor, &world->err),
            MK_OFFSET_OUT_OF_RANGE);
        assert_int_equal(world->err.requested, froms[i]);
        assert_int_equal(world->err.log_start_offset, 1);
        assert_int_equal(world->err.log_end_offset, 3);
        assert_null(cursor);
    }
    mk_cursor_options_default(&options);
    options.isolation = MK_READ_COMMITTED;
    assert_int_equal(mk_cursor_open(world->log, &options, &cursor, &world->err),
                     MK_UNSUPPORTED);
    options.isolation = MK_READ_UNCOMMITTED;
    options.from = 0; /* What is negative is refused before the range. */
    options.max_records = -2;
    assert_int_equal(mk_cursor_open(world->log, &options, &cursor, &world->err),
                     MK_INVALID_ARGUMENT);
    options.max_records = MK_NO_LIMIT;
    options.max_bytes = -2;
    assert_int_equal(mk_cursor_open(world->log, &options, &cursor, &world->err),
                     MK_INVALID_ARGUMENT);
    assert_null(cursor);
}

/* ---- Batches and records in turn ---- */

/* The batch at the cursor's offset comes whole; after it records go on. */
static void test_batches_and_records_in_turn(void **state)
{
    log_world *world = *state;
    mk_record_view record;
    mk_batch_view batch;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a=0,b=1,c=2 d=3 e=4,f=5");
    cursor = open_cursor(world, 0);
    assert_ok(world, mk_cursor_next(cursor, &record, &world->err));
    assert_ok(world, mk_cursor_next_batch(cursor, &batch, &world->err));
    assert_int_equal(batch.base_offset, 0);
    assert_int_equal(batch.record_count, 3);
    assert_int_equal(mk_cursor_next_offset(cursor), 3);
    assert_ok(world, mk_cursor_next(cursor, &record, &world->err));
    assert_int_equal(record.offset, 3);
    assert_ok(world, mk_cursor_next_batch(cursor, &batch, &world->err));
    assert_int_equal(batch.base_offset, 4);
    assert_int_equal(mk_cursor_next_batch(cursor, &batch, &world->err), MK_END);
    seek(world, cursor, 1);
    mk_cursor_limit(cursor, 3, MK_NO_LIMIT, MK_NO_LIMIT);
    assert_ok(world, mk_cursor_next_batch(cursor, &batch, &world->err));
    assert_int_equal(batch.base_offset, 0);
    assert_int_equal(mk_cursor_next_batch(cursor, &batch, &world->err), MK_END);
    mk_cursor_close(cursor);
}

/* ---- When the log changes ---- */

/* Retention takes the cursor's place: it says so, and never jumps. */
static void test_retention_takes_the_place(void **state)
{
    log_world *world = *state;
    mk_record_view view;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a=0 b=1 | c=2 d=3 | e=4");
    cursor = open_cursor(world, 0);
    assert_ok(world, mk_log_delete_records(world->log, 3, &world->err));
    assert_int_equal(mk_cursor_next(cursor, &view, &world->err),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(world->err.requested, 0);
    assert_int_equal(world->err.log_start_offset, 3);
    assert_int_equal(mk_cursor_next(cursor, &view, &world->err),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(mk_cursor_next_offset(cursor), 0);
    seek(world, cursor, 3);
    assert_gives(world, cursor, "3:d=3 4:e=4 ");
    assert_ok(world, mk_log_delete_records(world->log, 5, &world->err));
    assert_gives(world, cursor, "");
    mk_cursor_close(cursor);
}

/* The same within a segment, for who has not read there yet. */
static void test_the_start_moves_under_a_cursor(void **state)
{
    log_world *world = *state;
    mk_record_view view;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a=0 b=1 c=2");
    cursor = open_cursor(world, 0);
    assert_ok(world, mk_log_delete_records(world->log, 2, &world->err));
    assert_int_equal(mk_cursor_next(cursor, &view, &world->err),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(world->err.requested, 0);
    assert_int_equal(world->err.log_start_offset, 2);
    mk_cursor_close(cursor);
}

/* Whatever was read ahead before a truncation is not given after it. */
static void test_truncation_voids_what_was_read(void **state)
{
    log_world *world = *state;
    mk_record_view view;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a=0 b=1,c=2,d=3 e=4");
    cursor = open_cursor(world, 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
    }
    assert_ok(world, mk_log_truncate_to(world->log, 2, &world->err));
    assert_gives(world, cursor, "");
    fill(world, "x=2,y=3,z=4");
    assert_gives(world, cursor, "2:x=2 3:y=3 4:z=4 ");
    assert_ok(world, mk_log_truncate_to(world->log, 2, &world->err));
    assert_int_equal(mk_cursor_next(cursor, &view, &world->err),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_ok(world, mk_log_truncate_to(world->log, 0, &world->err));
    seek(world, cursor, 0);
    fill(world, "p=0 q=1");
    assert_gives(world, cursor, "0:p=0 1:q=1 ");
    mk_cursor_close(cursor);
}

/* Over a compaction a cursor gives every surviving record once, in order. */
static void test_compaction_under_a_cursor(void **state)
{
    log_world *world = *state;

    for (int steps = 0; steps <= 7; steps++) {
        mk_cleanup_result result;
        mk_record_view view;
        mk_cursor *cursor;
        int64_t last = -1;
        int survivors = 0;
        mk_status status;

        remove_all(world->where);
        open_log(world);
        fill(world, "a=0,b=1,c=2 a=3 | b=4,d=5 | e=6");
        cursor = open_cursor(world, 0);
        for (int i = 0; i < steps; i++) {
            assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
            last = view.offset;
            survivors += last >= 2;
        }
        assert_ok(world,
                  mk_log_compact(world->log, NULL, &result, &world->err));
        mk_cleanup_result_deinit(&result);
        append(world, "f=7");
        while ((status = mk_cursor_next(cursor, &view, &world->err)) == MK_OK) {
            assert_true(view.offset > last);
            last = view.offset;
            survivors += last >= 2;
        }
        assert_int_equal(status, MK_END);
        assert_int_equal(survivors, 6);
        mk_cursor_close(cursor);
        close_log(world);
    }
}

/* ---- Damage ---- */

/* Damage stops a cursor at its place, each time; it can be led around it. */
static void test_damage_stops_a_cursor(void **state)
{
    log_world *world = *state;
    mk_record_view view;
    mk_cursor *cursor;
    int64_t size;

    open_log(world);
    fill(world, "a=0 b=1 c=2 |");
    size = file_size(segment_file(world, 0, ".log")) / 3;
    close_log(world);
    damage(segment_file(world, 0, ".log"), (size_t)size + 64);
    open_log(world);
    cursor = open_cursor(world, 0);
    assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mk_cursor_next(cursor, &view, &world->err),
                         MK_CORRUPT_SEGMENT);
        assert_int_equal(world->err.position, size);
        assert_int_equal(world->err.offset, 1);
        assert_string_equal(world->err.path, segment_file(world, 0, ".log"));
        assert_int_equal(mk_cursor_next_offset(cursor), 1);
    }
    seek(world, cursor, 2);
    assert_gives(world, cursor, "2:c=2 ");
    append(world, "d=3");
    assert_gives(world, cursor, "3:d=3 ");
    mk_cursor_close(cursor);
}

/* A read that fails once is an error once. */
static void test_a_failed_read_is_not_the_end(void **state)
{
    log_world *world = *state;
    mk_record_view view;
    mk_cursor *cursor;

    open_log(world);
    fill(world, "a=0 b=1");
    cursor = open_cursor(world, 0);
    wrap_fail(&world->wrap, WRAP_read, 1, EIO);
    assert_int_equal(mk_cursor_next(cursor, &view, &world->err), MK_IO);
    wrap_heal(&world->wrap);
    assert_gives(world, cursor, "0:a=0 1:b=1 ");
    mk_cursor_close(cursor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_removed_offsets_are_passed),
        log_test(test_a_batch_that_begins_before),
        log_test(test_control_batches),
        log_test(test_a_codec_not_built_in),
        log_test(test_limits_end_a_run),
        log_test(test_bytes_are_counted_as_stored),
        log_test(test_options_are_checked),
        log_test(test_batches_and_records_in_turn),
        log_test(test_retention_takes_the_place),
        log_test(test_the_start_moves_under_a_cursor),
        log_test(test_truncation_voids_what_was_read),
        log_test(test_compaction_under_a_cursor),
        log_test(test_damage_stops_a_cursor),
        log_test(test_a_failed_read_is_not_the_end),
    };

    return cmocka_run_group_tests_name("cursor", tests, NULL, NULL);
}
