/* Appenders: when a batch is sent, in which order, and what a refusal leaves.
 */
#define _GNU_SOURCE
#include "support/log_world.h"

static mk_appender *open_appender(log_world *world, size_t batch_bytes,
                                  int64_t linger_ms)
{
    mk_appender_options options;
    mk_appender *appender;

    mk_appender_options_default(&options);
    if (batch_bytes > 0) options.batch_bytes = batch_bytes;
    options.linger_ms = linger_ms;
    assert_ok(world,
              mk_appender_open(world->log, &options, &appender, &world->err));
    return appender;
}

static mk_status try_add(log_world *world, mk_appender *appender,
                         const char *text)
{
    mk_record records[RECORDS_MAX];
    size_t count = parse_records(text, records);

    if (count == 1) {
        return mk_appender_append_one(appender, records, &world->err);
    }
    return mk_appender_append(appender, records, count, &world->err);
}

static void add(log_world *world, mk_appender *appender, const char *text)
{
    assert_ok(world, try_add(world, appender, text));
}

static void close_appender(log_world *world, mk_appender *appender)
{
    assert_ok(world, mk_appender_close(appender, &world->err));
}

/* Tell the batches: "0..2 3..3 ". */
static const char *batches(log_world *world)
{
    mk_batch_view view;
    mk_cursor *cursor;

    world->told[0] = '\0';
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    while (mk_cursor_next_batch(cursor, &view, &world->err) == MK_OK) {
        assert_int_equal(view.record_count,
                         view.last_offset - view.base_offset + 1);
        tell(world->told, "%lld..%lld ", (long long)view.base_offset,
             (long long)view.last_offset);
    }
    mk_cursor_close(cursor);
    return world->told;
}

/* ---- When a batch is sent ---- */

/* Nothing is there before it is sent; flushing sends one batch, and tells its
 * offsets. */
static void test_flushing_sends_a_batch(void **state)
{
    log_world *world = *state;
    mk_offset_range range = {7, 7};
    mk_appender *appender;

    open_log(world);
    append(world, "z=0");
    appender = open_appender(world, 0, 0);
    assert_ok(world, mk_appender_flush(appender, &range, &world->err));
    assert_int_equal(range.first, -1);
    assert_int_equal(range.last, -1);
    add(world, appender, "a=1");
    add(world, appender, "b=2,c=3");
    assert_bounds(world, 0, 1);
    assert_ok(world, mk_appender_flush(appender, &range, &world->err));
    assert_int_equal(range.first, 1);
    assert_int_equal(range.last, 3);
    assert_string_equal(batches(world), "0..0 1..3 ");
    assert_contents(world, "0:z=0 1:a=1 2:b=2 3:c=3 ");
    assert_ok(world, mk_appender_flush(appender, &range, &world->err));
    assert_int_equal(range.first, -1);
    close_appender(world, appender);
}

/* A batch never outgrows batch_bytes, unless a single record does. */
static void test_a_full_batch_is_sent(void **state)
{
    log_world *world = *state;
    mk_batch_view view;
    mk_appender *appender;
    mk_cursor *cursor;
    int count = 0;

    open_log(world);
    appender = open_appender(world, 120, 0);
    for (int i = 0; i < 50; i++) {
        add(world, appender,
            i % 7 == 3 ? "key=a value as long as that and "
                         "longer than a batch may ever be "
                         "which is a batch of its own"
                       : "k=v");
    }
    close_appender(world, appender);
    assert_bounds(world, 0, 50);
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    while (mk_cursor_next_batch(cursor, &view, &world->err) == MK_OK) {
        assert_true(view.size_bytes <= 120 || view.record_count == 1);
        count++;
    }
    mk_cursor_close(cursor);
    assert_true(count < 40);
}

/* linger_ms: the first call so long after the batch's first record sends it,
 * before its own record is added. There is no thread. */
static void test_an_old_batch_is_sent(void **state)
{
    log_world *world = *state;
    mk_appender *appender;

    open_log(world);
    appender = open_appender(world, 0, 10);
    add(world, appender, "a=1");
    world->now_ms += 9;
    add(world, appender, "b=2");
    assert_bounds(world, 0, 0);
    world->now_ms += 1;
    assert_bounds(world, 0, 0);
    add(world, appender, "c=3");
    assert_bounds(world, 0, 2);
    world->now_ms += 9;
    add(world, appender, "d=4");
    world->now_ms -= 1000;
    add(world, appender, "e=5");
    assert_bounds(world, 0, 2);
    close_appender(world, appender);
    assert_string_equal(batches(world), "0..1 2..4 ");
}

/* Any other append to the log sends first what waits, in the order in which it
 * began to wait; so do rolling, flushing and removing. */
static void test_others_send_what_waits(void **state)
{
    log_world *world = *state;
    mk_appender *first, *second;

    open_log(world);
    first = open_appender(world, 0, 0);
    second = open_appender(world, 0, 0);
    add(world, second, "b=1");
    add(world, first, "a=1");
    add(world, second, "b=2");
    append(world, "z=0");
    assert_contents(world, "0:b=1 1:b=2 2:a=1 3:z=0 ");
    add(world, first, "a=2");
    roll(world);
    assert_segments(world, "0..5 5..5 ");
    add(world, second, "b=3");
    assert_ok(world, mk_log_delete_records(world->log, 6, &world->err));
    assert_bounds(world, 6, 6);
    add(world, first, "a=3");
    add(world, second, "b=4");
    /* A flush of one is an append like any other: the other's goes first. */
    assert_ok(world,
              mk_appender_flush(second, &(mk_offset_range){0}, &world->err));
    assert_contents(world, "6:a=3 7:b=4 ");
    close_appender(world, first);
    close_appender(world, second);
    assert_bounds(world, 6, 8);
}

/* Closing sends; what is abandoned is dropped, and closing the log sends. */
static void test_closing_and_abandoning(void **state)
{
    log_world *world = *state;
    mk_appender *appender;

    open_log(world);
    appender = open_appender(world, 0, 0);
    add(world, appender, "a=1");
    close_appender(world, appender);
    appender = open_appender(world, 0, 0);
    add(world, appender, "b=2");
    mk_appender_abandon(appender);
    append(world, "c=3");
    appender = open_appender(world, 0, 0);
    add(world, appender, "d=4");
    close_log(world);
    close_appender(world, appender);
    open_log(world);
    assert_contents(world, "0:a=1 1:c=3 2:d=4 ");
    appender = open_appender(world, 0, 0);
    add(world, appender, "e=5");
    abandon_log(world);
    assert_int_equal(mk_appender_close(appender, &world->err), MK_CLOSED);
    open_log(world);
    assert_contents(world, "0:a=1 1:c=3 2:d=4 ");
}

/* A record without a time has that of the call which added it. */
static void test_times_are_those_of_adding(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    mk_record_view view;
    mk_cursor *cursor;

    open_log(world);
    appender = open_appender(world, 0, 0);
    add(world, appender, "a=1");
    world->now_ms += 5;
    add(world, appender, "b=2,c=3@4");
    world->now_ms += 500;
    close_appender(world, appender);
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    for (int i = 0; i < 3; i++) {
        static const int64_t times[] = {1000, 1005, 4};

        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
        assert_int_equal(view.timestamp_ms, times[i]);
    }
    mk_cursor_close(cursor);
}

/* Flushes that are due happen when a batch is sent. */
static void test_flush_messages_count_sent_records(void **state)
{
    log_world *world = *state;
    mk_appender *appender;

    world->options.config.flush_messages = 2;
    open_log(world);
    appender = open_appender(world, 0, 0);
    add(world, appender, "a=1,b=2,c=3");
    assert_int_equal(info_of(world).recovery_point, 0);
    close_appender(world, appender);
    assert_int_equal(info_of(world).recovery_point, 3);
}

/* ---- What is refused ---- */

static void test_bad_options(void **state)
{
    log_world *world = *state;
    mk_appender_options options[4];
    mk_appender *appender;

    open_log(world);
    for (int i = 0; i < 4; i++) {
        mk_appender_options_default(&options[i]);
    }
    options[0].batch_bytes = 0;
    options[1].batch_bytes = (size_t)INT32_MAX + 1;
    options[2].linger_ms = -1;
    options[3].compression = MK_CODEC_LZ4;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            mk_appender_open(world->log, &options[i], &appender, &world->err),
            i < 3 ? MK_INVALID_ARGUMENT : MK_UNSUPPORTED);
        assert_null(appender);
    }
    close_log(world);
    world->options.read_only = true;
    open_log(world);
    assert_int_equal(mk_appender_open(world->log, NULL, &appender, &world->err),
                     MK_READ_ONLY);
}

/* A record that is refused leaves the batch as it was; of several none is
 * added, and the one at fault is named. */
static void test_a_refused_record_is_not_added(void **state)
{
    log_world *world = *state;
    mk_appender *appender;

    world->options.config.cleanup_policy = MK_POLICY_COMPACT;
    open_log(world);
    appender = open_appender(world, 0, 0);
    add(world, appender, "a=1");
    assert_int_equal(try_add(world, appender, "=2"), MK_INVALID_RECORD);
    assert_int_equal(try_add(world, appender, "b=2,c=3@-2,=4"),
                     MK_INVALID_TIMESTAMP);
    assert_int_equal(world->err.record_index, 1);
    assert_int_equal(try_add(world, appender, "b=2,c=3,=4"), MK_INVALID_RECORD);
    assert_int_equal(world->err.record_index, 2);
    add(world, appender, "d=5");
    close_appender(world, appender);
    assert_contents(world, "0:a=1 1:d=5 ");
}

/* However small the log's limits are, what an appender takes it can send: it
 * refuses a record that would not fit, and cuts batches as the log wants. */
static void test_small_limits_do_not_block(void **state)
{
    log_world *world = *state;

    for (int i = 0; i < 2; i++) {
        for (int64_t limit = 62; limit < 100; limit++) {
            mk_offset_range range;
            mk_appender *appender;
            int64_t *setting = i == 0 ? &world->options.config.max_message_bytes
                                      : &world->options.config.segment_bytes;
            int64_t before = *setting;
            mk_status alone, added;

            *setting = limit;
            open_log(world);
            appender = open_appender(world, 0, 0);
            alone = try_append(world, "key=value", &range);
            for (int j = 0; j < 3; j++) {
                added = try_add(world, appender, "key=value");
                assert_int_equal(added, alone);
            }
            close_appender(world, appender);
            assert_bounds(world, 0, alone == MK_OK ? 4 : 0);
            *setting = before;
            close_log(world);
            remove_all(world->where);
        }
    }
}

/* Limits that shrink while records wait do not make them unsendable. */
static void test_limits_that_shrink(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    mk_config config;

    open_log(world);
    appender = open_appender(world, 0, 0);
    add(world, appender, "a=1,b=2,c=3");
    mk_log_get_config(world->log, &config);
    config.max_message_bytes = 75;
    assert_ok(world, mk_log_configure(world->log, &config, &world->err));
    append(world, "d=4");
    close_appender(world, appender);
    reopen(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 ");
}

/* ---- Failures ---- */

/* What could not be sent waits on, and is sent later, once. */
static void test_a_failed_send_waits_on(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    mk_appender *appender;

    open_log(world);
    appender = open_appender(world, 0, 0);
    add(world, appender, "a=1,b=2");
    wrap_fail(&world->wrap, WRAP_write, 1, ENOSPC)->part = 10;
    assert_int_equal(mk_appender_flush(appender, &range, &world->err), MK_IO);
    assert_int_equal(range.first, -1);
    wrap_heal(&world->wrap);
    assert_bounds(world, 0, 0);
    wrap_fail(&world->wrap, WRAP_write, 1, ENOSPC)->part = 10;
    assert_int_equal(try_append(world, "z=9", &range), MK_IO);
    wrap_heal(&world->wrap);
    add(world, appender, "c=3");
    assert_ok(world, mk_appender_flush(appender, &range, &world->err));
    assert_int_equal(range.first, 0);
    assert_int_equal(range.last, 2);
    close_appender(world, appender);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
}

/* A full batch that can't be sent keeps the next record out, not itself. */
static void test_a_full_batch_that_cannot_be_sent(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    mk_status status = MK_OK;
    int added = 0;

    open_log(world);
    appender = open_appender(world, 90, 0);
    wrap_fail(&world->wrap, WRAP_write, 1, EIO)->always = true;
    while (added < 100 && status == MK_OK) {
        status = try_add(world, appender, "k=v");
        added += status == MK_OK;
    }
    assert_int_equal(status, MK_IO);
    assert_int_equal(try_add(world, appender, "k=v"), MK_IO);
    wrap_heal(&world->wrap);
    add(world, appender, "l=w");
    close_appender(world, appender);
    assert_bounds(world, 0, added + 1);
}

/* Of several records none is added if sending fails in the middle of it, or the
 * error tells which was the first that was not. */
static void test_a_list_that_cannot_be_sent(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    char text[512] = "";
    int64_t added;

    open_log(world);
    appender = open_appender(world, 90, 0);
    for (int i = 0; i < 20; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%sk=%d",
                 i > 0 ? "," : "", i);
    }
    add(world, appender, "a=1");
    wrap_fail(&world->wrap, WRAP_write, 2, EIO);
    assert_int_equal(try_add(world, appender, text), MK_IO);
    wrap_heal(&world->wrap);
    added = world->err.record_index < 0 ? 0 : world->err.record_index;
    close_appender(world, appender);
    assert_bounds(world, 0, 1 + added);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_flushing_sends_a_batch),
        log_test(test_a_full_batch_is_sent),
        log_test(test_an_old_batch_is_sent),
        log_test(test_others_send_what_waits),
        log_test(test_closing_and_abandoning),
        log_test(test_times_are_those_of_adding),
        log_test(test_flush_messages_count_sent_records),
        log_test(test_bad_options),
        log_test(test_a_refused_record_is_not_added),
        log_test(test_small_limits_do_not_block),
        log_test(test_limits_that_shrink),
        log_test(test_a_failed_send_waits_on),
        log_test(test_a_full_batch_that_cannot_be_sent),
        log_test(test_a_list_that_cannot_be_sent),
    };

    return cmocka_run_group_tests_name("appender", tests, NULL, NULL);
}
