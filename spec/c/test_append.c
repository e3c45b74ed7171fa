/* Appending: offsets, validation, batches, and what a refusal leaves. */
#define _GNU_SOURCE
#include "support/log_world.h"

/* Refuse the records, and see that nothing changed and which one it was. */
static void assert_refused(log_world *world, const char *text, mk_status wanted,
                           int64_t record_index)
{
    mk_log_info before = info_of(world);
    mk_offset_range range = {7, 7};

    assert_int_equal(try_append(world, text, &range), wanted);
    assert_int_equal(world->err.status, wanted);
    assert_int_equal(world->err.record_index, record_index);
    assert_int_equal(range.first, -1);
    assert_int_equal(range.last, -1);
    assert_int_equal(info_of(world).log_end_offset, before.log_end_offset);
    assert_int_equal(info_of(world).size_bytes, before.size_bytes);
    assert_int_equal(info_of(world).segment_count, before.segment_count);
}

/* The size of the log's bytes in all segments. */
static int64_t log_bytes_of(log_world *world)
{
    mk_segment_info infos[RECORDS_MAX];
    size_t count;
    int64_t sum = 0;

    assert_ok(world, mk_log_segments(world->log, infos, RECORDS_MAX, &count,
                                     &world->err));
    for (size_t i = 0; i < count; i++) {
        sum += infos[i].log_bytes;
    }
    return sum;
}

/* ---- What is given ---- */

/* Offsets follow each other over batches and segments, and a batch's range is
 * what the call returns. */
static void test_offsets_are_dense(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    mk_record record;
    int64_t offset = 7;

    open_log(world);
    assert_ok(world, try_append(world, "a=1,b=2,c=3", &range));
    assert_int_equal(range.first, 0);
    assert_int_equal(range.last, 2);
    parse_records("d", &record);
    assert_ok(world,
              mk_log_append_one(world->log, &record, &offset, &world->err));
    assert_int_equal(offset, 3);
    roll(world);
    assert_int_equal(append(world, "=e,f="), 4);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d 4:=e 5:f= ");
    assert_bounds(world, 0, 6);
    assert_segments(world, "0..4 4..6 ");
}

/* A call makes one batch, with what its options say in the header. */
static void test_a_call_is_a_batch(void **state)
{
    log_world *world = *state;
    mk_append_options options;
    mk_record records[2];
    mk_offset_range range;
    mk_batch_view view;
    mk_cursor *cursor;

    open_log(world);
    append(world, "a=1");
    mk_append_options_default(&options);
    options.leader_epoch = 9;
    parse_records("b=2@50,c=3@40", records);
    assert_ok(world, mk_log_append(world->log, records, 2, &options, &range,
                                   &world->err));
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    assert_ok(world, mk_cursor_next_batch(cursor, &view, &world->err));
    assert_int_equal(view.last_offset, 0);
    assert_int_equal(view.leader_epoch, 0);
    assert_ok(world, mk_cursor_next_batch(cursor, &view, &world->err));
    assert_int_equal(view.base_offset, 1);
    assert_int_equal(view.last_offset, 2);
    assert_int_equal(view.record_count, 2);
    assert_int_equal(view.leader_epoch, 9);
    assert_int_equal(view.base_timestamp_ms, 50);
    assert_int_equal(view.max_timestamp_ms, 50);
    assert_int_equal(view.producer_id, -1);
    assert_int_equal(view.base_sequence, -1);
    assert_false(view.append_time);
    mk_cursor_close(cursor);
}

/* Keys, values and headers come back as they were, zero bytes and all. */
static void test_bytes_come_back(void **state)
{
    log_world *world = *state;
    const char binary[] = {0, 1, (char)0xff, 0};
    const mk_header headers[] = {{"h", 1, NULL, 0}, {"", 0, binary, 4}};
    const mk_record record = {binary, 4, "", 0, 5, 0, headers, 2};
    mk_header back[2];
    mk_record_view view;
    mk_cursor *cursor;
    int64_t offset;

    open_log(world);
    assert_ok(world,
              mk_log_append_one(world->log, &record, &offset, &world->err));
    reopen(world);
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
    assert_int_equal(view.key_size, 4);
    assert_memory_equal(view.key, binary, 4);
    assert_non_null(view.value);
    assert_int_equal(view.value_size, 0);
    assert_int_equal(view.timestamp_ms, 5);
    assert_int_equal(view.header_count, 2);
    assert_ok(world, mk_record_headers(&view, back, &world->err));
    assert_memory_equal(back[0].name, "h", 1);
    assert_null(back[0].value);
    assert_int_equal(back[1].name_size, 0);
    assert_int_equal(back[1].value_size, 4);
    assert_memory_equal(back[1].value, binary, 4);
    mk_cursor_close(cursor);
}

/* A record without a time takes the clock's; one that says it has none has
 * none. */
static void test_times_come_from_the_clock(void **state)
{
    log_world *world = *state;
    int64_t offset, found_ms;

    open_log(world);
    world->now_ms = 70;
    append(world, "a=1");
    append(world, "b=2@-1");
    append(world, "c=3@71");
    assert_ok(world, mk_log_offset_for_timestamp(world->log, 70, &offset,
                                                 &found_ms, &world->err));
    assert_int_equal(offset, 0);
    assert_int_equal(found_ms, 70);
    assert_ok(world, mk_log_offset_of_max_timestamp(world->log, &offset,
                                                    &found_ms, &world->err));
    assert_int_equal(offset, 2);
    assert_int_equal(found_ms, 71);
}

/* With LogAppendTime all records have the clock's time, whatever they say. */
static void test_append_time_replaces_times(void **state)
{
    log_world *world = *state;
    mk_record_view view;
    mk_cursor *cursor;

    world->options.config.message_timestamp_type = 1;
    open_log(world);
    world->now_ms = 12345;
    append(world, "a=1@7,b=2@-1,c=3@99999");
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    for (int i = 0; i < 3; i++) {
        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
        assert_int_equal(view.timestamp_ms, 12345);
    }
    mk_cursor_close(cursor);
}

/* ---- What is refused ---- */

/* No record, and more than a batch can have. */
static void test_counts_out_of_range_are_refused(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    mk_record record;

    open_log(world);
    parse_records("a=1", &record);
    assert_int_equal(
        mk_log_append(world->log, &record, 0, NULL, &range, &world->err),
        MK_INVALID_RECORD);
    assert_int_equal(mk_log_append(world->log, &record, (size_t)INT32_MAX + 1,
                                   NULL, &range, &world->err),
                     MK_RECORD_TOO_LARGE);
    assert_contents(world, "");
}

/* What is not built in is said to be so, before anything is done. */
static void test_options_not_built_in_are_refused(void **state)
{
    log_world *world = *state;
    mk_append_options options[4];
    mk_offset_range range;
    mk_record record;

    open_log(world);
    parse_records("a=1", &record);
    for (int i = 0; i < 4; i++) {
        mk_append_options_default(&options[i]);
    }
    options[0].compression = MK_CODEC_GZIP;
    options[1].producer_id = 4;
    options[2].transactional = true;
    options[3].keep_offsets = true;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mk_log_append(world->log, &record, 1, &options[i],
                                       &range, &world->err),
                         MK_UNSUPPORTED);
    }
    assert_bounds(world, 0, 0);
}

/* One bad record refuses the batch, and is named. */
static void test_a_bad_time_is_refused(void **state)
{
    log_world *world = *state;

    world->options.config.message_timestamp_before_max_ms = 100;
    world->options.config.message_timestamp_after_max_ms = 50;
    open_log(world);
    append(world, "a=1@900,b=2@1050,c=3@-1");
    assert_refused(world, "a=1,b=2@-2", MK_INVALID_TIMESTAMP, 1);
    assert_refused(world, "a=1@899,b=2", MK_INVALID_TIMESTAMP, 0);
    assert_refused(world, "a=1,b=2,c=3@1051", MK_INVALID_TIMESTAMP, 2);
    assert_int_equal(append(world, "d=4"), 3);
}

/* The limits do not overflow at the ends of time. */
static void test_far_times_are_judged_without_overflow(void **state)
{
    log_world *world = *state;

    world->options.config.message_timestamp_before_max_ms = 0;
    world->options.config.message_timestamp_after_max_ms = INT64_MAX - 1;
    world->now_ms = -5;
    open_log(world);
    append(world, "a=1@0");
    assert_refused(world, "b=2@9223372036854775807", MK_INVALID_TIMESTAMP, 0);
    world->now_ms = INT64_MAX;
    assert_refused(world, "b=2@0", MK_INVALID_TIMESTAMP, 0);
    append(world, "b=2@9223372036854775807");
}

/* With LogAppendTime the records' own times are not judged. */
static void test_append_time_is_not_judged(void **state)
{
    log_world *world = *state;

    world->options.config.message_timestamp_type = 1;
    world->options.config.message_timestamp_before_max_ms = 0;
    world->options.config.message_timestamp_after_max_ms = 0;
    open_log(world);
    append(world, "a=1@0,b=2@5000");
    assert_refused(world, "a=1@-2", MK_INVALID_TIMESTAMP, 0);
}

/* A compacted log takes no record without a key. */
static void test_a_compacted_log_wants_keys(void **state)
{
    log_world *world = *state;

    world->options.config.cleanup_policy = MK_POLICY_COMPACT;
    open_log(world);
    assert_refused(world, "a=1,=2", MK_INVALID_RECORD, 1);
    append(world, "a=1,b");
}

static void test_a_header_without_name_is_refused(void **state)
{
    log_world *world = *state;
    const mk_header header = {NULL, 0, "v", 1};
    mk_record records[2];
    mk_offset_range range;

    open_log(world);
    parse_records("a=1,b=2", records);
    records[1].headers = &header;
    records[1].header_count = 1;
    assert_int_equal(
        mk_log_append(world->log, records, 2, NULL, &range, &world->err),
        MK_INVALID_RECORD);
    assert_int_equal(world->err.record_index, 1);
    assert_contents(world, "");
}

/* A batch may be exactly as large as the setting says, and no larger; which of
 * the two settings does not matter. */
static void test_sizes_are_exact(void **state)
{
    log_world *world = *state;
    mk_config config;
    int64_t size;

    open_log(world);
    append(world, "key=value");
    size = log_bytes_of(world);
    mk_log_get_config(world->log, &config);
    for (int i = 0; i < 2; i++) {
        int64_t *limit =
            i == 0 ? &config.max_message_bytes : &config.segment_bytes;
        int64_t before = *limit;

        *limit = size - 1;
        assert_ok(world, mk_log_configure(world->log, &config, &world->err));
        assert_refused(world, "key=value", MK_RECORD_TOO_LARGE, -1);
        *limit = size;
        assert_ok(world, mk_log_configure(world->log, &config, &world->err));
        append(world, "key=value");
        *limit = before;
    }
}

/* A size that can't be is refused before anything of it is touched. */
static void test_a_monstrous_record_is_refused(void **state)
{
    log_world *world = *state;
    const mk_header header = {"h", 1, "v", SIZE_MAX - 2};
    mk_record record = {.value = "v", .value_size = SIZE_MAX};
    int64_t offset;

    world->options.config.max_message_bytes = INT32_MAX;
    world->options.config.segment_bytes = INT32_MAX;
    open_log(world);
    assert_int_equal(
        mk_log_append_one(world->log, &record, &offset, &world->err),
        MK_RECORD_TOO_LARGE);
    assert_int_equal(offset, -1);
    assert_int_equal(world->err.record_index, 0);
    record = (mk_record){
        .key = "k", .key_size = 1, .headers = &header, .header_count = 1};
    assert_int_equal(
        mk_log_append_one(world->log, &record, &offset, &world->err),
        MK_RECORD_TOO_LARGE);
    record = (mk_record){.key = "k", .key_size = (size_t)INT32_MAX + 1};
    assert_int_equal(
        mk_log_append_one(world->log, &record, &offset, &world->err),
        MK_RECORD_TOO_LARGE);
    assert_contents(world, "");
}

static void test_a_read_only_log_takes_nothing(void **state)
{
    log_world *world = *state;

    open_log(world);
    append(world, "a=1");
    close_log(world);
    world->options.read_only = true;
    open_log(world);
    assert_refused(world, "b=2", MK_READ_ONLY, -1);
    assert_int_equal(mk_log_roll(world->log, &world->err), MK_READ_ONLY);
    assert_int_equal(mk_log_flush(world->log, &world->err), MK_READ_ONLY);
    assert_contents(world, "0:a=1 ");
}

static mk_status failing_clock(void *context, int64_t *now_ms, mk_error *err)
{
    (void)context;
    (void)now_ms;
    if (err != NULL) snprintf(err->message, sizeof err->message, "no time");
    return MK_CALLBACK;
}

/* A clock that fails ends the append undone; with a time of its own a record
 * needs none. */
static void test_a_failing_clock_ends_the_append(void **state)
{
    log_world *world = *state;
    mk_offset_range range;

    open_log(world);
    world->other.now = failing_clock;
    world->asked = 0;
    assert_int_equal(try_append(world, "a=1@4,b=2", &range), MK_CALLBACK);
    assert_string_equal(world->err.message, "no time");
    assert_int_equal(world->asked, 1);
    append(world, "c=3@5");
    assert_int_equal(world->asked, 1);
    world->other.now = NULL;
    assert_contents(world, "0:c=3 ");
}

typedef struct meddler {
    log_world *world;
    mk_status append, roll, flush;
    char seen[64];
} meddler;

/* A clock that uses the log which asks for the time. */
static mk_status meddling_clock(void *context, int64_t *now_ms, mk_error *err)
{
    meddler *m = context;
    mk_log *log = m->world->log;
    mk_record record;
    int64_t offset;

    (void)err;
    parse_records("x=1@1", &record);
    m->append = mk_log_append_one(log, &record, &offset, NULL);
    m->roll = mk_log_roll(log, NULL);
    m->flush = mk_log_flush(log, NULL);
    snprintf(m->seen, sizeof m->seen, "%s", contents(m->world));
    *now_ms = 33;
    return MK_OK;
}

/* Inside a callback the log can be read, and whatever changes it is BUSY. */
static void test_a_callback_may_only_read(void **state)
{
    log_world *world = *state;
    meddler m = {.world = world};

    open_log(world);
    append(world, "a=1");
    world->other = (mk_clock){meddling_clock, &m};
    append(world, "b=2");
    world->other.now = NULL;
    assert_int_equal(m.append, MK_BUSY);
    assert_int_equal(m.roll, MK_BUSY);
    assert_int_equal(m.flush, MK_BUSY);
    assert_string_equal(m.seen, "0:a=1 ");
    assert_contents(world, "0:a=1 1:b=2 ");
}

/* ---- Durability ---- */

/* `durable` and flush_messages sync before the call returns; else nothing is
 * synced. */
static void test_durable_appends_sync(void **state)
{
    log_world *world = *state;
    mk_append_options options;
    mk_offset_range range;
    mk_record record;

    open_log(world);
    flush(world);
    parse_records("a=1", &record);
    wrap_record(&world->wrap);
    append(world, "a=1");
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, ""), 0);
    mk_append_options_default(&options);
    options.durable = true;
    assert_ok(world, mk_log_append(world->log, &record, 1, &options, &range,
                                   &world->err));
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, ".log"), 1);
    assert_int_equal(info_of(world).recovery_point, 2);
}

static void test_flush_messages_counts(void **state)
{
    log_world *world = *state;

    world->options.config.flush_messages = 3;
    open_log(world);
    append(world, "a=1");
    append(world, "b=2");
    assert_int_equal(info_of(world).recovery_point, 0);
    append(world, "c=3");
    assert_int_equal(info_of(world).recovery_point, 3);
    append(world, "d=4,e=5");
    assert_int_equal(info_of(world).recovery_point, 3);
    append(world, "f=6,g=7");
    assert_int_equal(info_of(world).recovery_point, 7);
}

/* flush_ms counts from the last flush, by the clock. */
static void test_flush_ms_follows_the_clock(void **state)
{
    log_world *world = *state;

    world->options.config.flush_ms = 10;
    open_log(world);
    append(world, "a=1");
    world->now_ms += 9;
    append(world, "b=2");
    assert_int_equal(info_of(world).recovery_point, 0);
    world->now_ms += 1;
    append(world, "c=3");
    assert_int_equal(info_of(world).recovery_point, 3);
    world->now_ms += 5;
    flush(world);
    world->now_ms += 9;
    append(world, "d=4");
    assert_int_equal(info_of(world).recovery_point, 3);
    world->now_ms -= 100;
    append(world, "e=5");
    assert_int_equal(info_of(world).recovery_point, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_offsets_are_dense),
        log_test(test_a_call_is_a_batch),
        log_test(test_bytes_come_back),
        log_test(test_times_come_from_the_clock),
        log_test(test_append_time_replaces_times),
        log_test(test_counts_out_of_range_are_refused),
        log_test(test_options_not_built_in_are_refused),
        log_test(test_a_bad_time_is_refused),
        log_test(test_far_times_are_judged_without_overflow),
        log_test(test_append_time_is_not_judged),
        log_test(test_a_compacted_log_wants_keys),
        log_test(test_a_header_without_name_is_refused),
        log_test(test_sizes_are_exact),
        log_test(test_a_monstrous_record_is_refused),
        log_test(test_a_read_only_log_takes_nothing),
        log_test(test_a_failing_clock_ends_the_append),
        log_test(test_a_callback_may_only_read),
        log_test(test_durable_appends_sync),
        log_test(test_flush_messages_counts),
        log_test(test_flush_ms_follows_the_clock),
    };

    return cmocka_run_group_tests_name("append", tests, NULL, NULL);
}
