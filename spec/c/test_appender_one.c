/* One record at a time: mk_appender_append_one() has a short way of its own,
 * and must do what mk_appender_append() does with one record. */
#define _GNU_SOURCE
#include "support/log_world.h"

/* What is not 0 is set. */
typedef struct limits {
    const char *name;
    size_t batch_bytes;
    int64_t linger_ms;
    int64_t max_message_bytes, segment_bytes, flush_ms;
    int64_t before_max_ms, after_max_ms;
    bool compact, append_time;
} limits;

typedef mk_status (*append_fn)(mk_appender *appender, const mk_record *record,
                               mk_error *err);

static mk_status append_list(mk_appender *appender, const mk_record *record,
                             mk_error *err)
{
    return mk_appender_append(appender, record, 1, err);
}

static void set_limits(mk_config *config, const limits *given)
{
    if (given->max_message_bytes > 0) {
        config->max_message_bytes = given->max_message_bytes;
    }
    if (given->segment_bytes > 0) config->segment_bytes = given->segment_bytes;
    if (given->flush_ms > 0) config->flush_ms = given->flush_ms;
    if (given->before_max_ms > 0) {
        config->message_timestamp_before_max_ms = given->before_max_ms;
    }
    if (given->after_max_ms > 0) {
        config->message_timestamp_after_max_ms = given->after_max_ms;
    }
    if (given->compact) config->cleanup_policy = MK_POLICY_COMPACT;
    if (given->append_time) config->message_timestamp_type = 1;
}

static mk_appender *open_appender(log_world *world, const limits *given)
{
    mk_appender_options options;
    mk_appender *appender;

    mk_appender_options_default(&options);
    if (given->batch_bytes > 0) options.batch_bytes = given->batch_bytes;
    options.linger_ms = given->linger_ms;
    assert_ok(world,
              mk_appender_open(world->log, &options, &appender, &world->err));
    return appender;
}

/* Tell the batches down to their checksums. */
static void tell_batches(log_world *world)
{
    mk_batch_view view;
    mk_cursor *cursor;

    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    while (mk_cursor_next_batch(cursor, &view, &world->err) == MK_OK) {
        tell(world->told, "%lld..%lld at %lld: %08lx\n",
             (long long)view.base_offset, (long long)view.last_offset,
             (long long)view.max_timestamp_ms, (unsigned long)view.crc);
    }
    mk_cursor_close(cursor);
}

/* Append many records to a new log, and tell what came of each. */
static void run(log_world *world, const limits *given, append_fn append_by)
{
    static const char *const texts[] = {
        "k=v@1000",
        "key=value@1004",
        "k=v",
        "k=v@0",
        "k=v@9000",
        "=keyless@1010",
        "gone@999",
        "=@1000",
        "k=v@-1",
        "k=v@-7",
        "k=twenty-bytes-or-more-of-value@1020",
        "a=b@1000",
        "c=d@1000",
    };
    mk_config before = world->options.config;
    mk_appender *appender;

    world->told[0] = '\0';
    world->now_ms = 1000;
    world->asked = 0;
    set_limits(&world->options.config, given);
    open_log(world);
    appender = open_appender(world, given);
    for (size_t i = 0; i < 260; i++) {
        mk_record record;
        mk_status status;

        parse_record(texts[(i * 5 + i / 13) % 13], &record);
        status = append_by(appender, &record, &world->err);
        tell(world->told, "%d %lld %ld\n", (int)status,
             (long long)info_of(world).log_end_offset, world->asked);
        if (i % 50 == 49) append(world, "other=1");
        world->now_ms += (int64_t)(i % 3);
    }
    assert_ok(world, mk_appender_close(appender, &world->err));
    tell_batches(world);
    close_log(world);
    remove_all(world->where);
    world->options.config = before;
}

static void test_one_is_as_a_list_of_one(void **state)
{
    static const limits all[] = {
        {.name = "none"},
        {.name = "small batches", .batch_bytes = 150},
        {.name = "tiny batches", .batch_bytes = 80},
        {.name = "linger", .linger_ms = 7},
        {.name = "messages", .max_message_bytes = 150},
        {.name = "tiny messages", .max_message_bytes = 75},
        {.name = "segments", .segment_bytes = 150},
        {.name = "flushes", .flush_ms = 10},
        {.name = "old", .before_max_ms = 100},
        {.name = "new", .after_max_ms = 100},
        {.name = "keys", .compact = true},
        {.name = "append time", .append_time = true},
    };
    log_world *world = *state;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        run(world, &all[i], append_list);
        memcpy(world->kept, world->told, TOLD_SIZE);
        run(world, &all[i], mk_appender_append_one);
        if (strcmp(world->told, world->kept) != 0) {
            fail_msg("%s: differs", all[i].name);
        }
    }
}

/* What can't be encoded is refused although a batch is at hand. */
static void test_what_can_not_be_encoded(void **state)
{
    log_world *world = *state;
    mk_header nameless = {.value = "v", .value_size = 1};
    mk_record record = {.key = "k",
                        .key_size = 1,
                        .value = "v",
                        .value_size = 1,
                        .timestamp_ms = 1000};
    mk_appender *appender;

    open_log(world);
    appender = open_appender(world, &(limits){.batch_bytes = INT32_MAX});
    assert_ok(world, mk_appender_append_one(appender, &record, &world->err));
    record.headers = &nameless;
    record.header_count = 1;
    assert_int_equal(mk_appender_append_one(appender, &record, &world->err),
                     MK_INVALID_RECORD);
    record.header_count = 0;
    record.value_size = SIZE_MAX; /* Not read while there is no value. */
    record.value = NULL;
    assert_ok(world, mk_appender_append_one(appender, &record, &world->err));
    assert_ok(world, append_list(appender, &record, &world->err));
    record.value = "v";
    assert_int_equal(mk_appender_append_one(appender, &record, &world->err),
                     MK_RECORD_TOO_LARGE);
    assert_ok(world, mk_appender_close(appender, &world->err));
    assert_bounds(world, 0, 3);
}

/* A log that takes no changes takes no record, although a batch is at hand. */
static void test_a_closed_log(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    mk_record record;

    open_log(world);
    appender = open_appender(world, &(limits){0});
    parse_record("k=v@1000", &record);
    assert_ok(world, mk_appender_append_one(appender, &record, &world->err));
    assert_ok(world, mk_appender_append_one(appender, &record, &world->err));
    abandon_log(world);
    assert_int_equal(mk_appender_append_one(appender, &record, &world->err),
                     MK_CLOSED);
    mk_appender_abandon(appender);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_one_is_as_a_list_of_one),
        log_test(test_what_can_not_be_encoded),
        log_test(test_a_closed_log),
    };

    return cmocka_run_group_tests_name("appender_one", tests, NULL, NULL);
}
