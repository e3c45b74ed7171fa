/*
 * Many threads and one log. Work is counted, not timed. What the threads were
 * told is judged when all of them are done.
 */
#define _GNU_SOURCE
#include "support/crew.h"

#define WRITERS 3
#define READERS 2
#define ROUNDS  500

/* Has the operation worked, or been refused for a reason that others may give
 * at any time? */
static bool is_fine(mk_status status)
{
    return status == MK_OK || status == MK_OFFSET_OUT_OF_RANGE;
}

/* ---- Writers ---- */

/* Note that the log gave this offset to record number `count` of the writer. */
static void note(actor *a, int64_t offset, uint32_t count)
{
    uint32_t name = (uint32_t)a->number << 24 | count;
    uint32_t before;

    CHECK(a->all, offset >= 0 && offset < OFFSET_MAX);
    if (offset < 0 || offset >= OFFSET_MAX) return;
    before = atomic_exchange(&a->all->given[offset], name);
    CHECK(a->all, before == 0 || a->all->truncates);
}

/* A record whose key and value name it. */
static void make_record(actor *a, uint32_t count, char *text, mk_record *out)
{
    snprintf(text, 32, "%d-%u", a->number, count);
    *out = (mk_record){
        .key = text,
        .key_size = strlen(text),
        .value = text,
        .value_size = strlen(text),
        .timestamp_ms = (int64_t)count,
    };
}

static uint32_t append_one(actor *a, uint32_t count, int64_t *last)
{
    mk_record record;
    char text[32];
    int64_t offset;

    make_record(a, count, text, &record);
    if (draw(a, 4) == 0) record.timestamp_ms = MK_TIMESTAMP_NOW;
    CHECK(a->all,
          mk_log_append_one(a->all->log, &record, &offset, NULL) == MK_OK);
    CHECK(a->all, offset > *last || a->all->truncates);
    note(a, offset, count);
    *last = offset;
    return 1;
}

static uint32_t append_batch(actor *a, uint32_t count, int64_t *last)
{
    uint32_t size = 1 + (uint32_t)draw(a, 8);
    mk_append_options options;
    mk_record records[8];
    char texts[8][32];
    mk_offset_range range;

    mk_append_options_default(&options);
    options.durable = draw(a, 8) == 0;
    for (uint32_t i = 0; i < size; i++) {
        make_record(a, count + i, texts[i], &records[i]);
    }
    CHECK(a->all, mk_log_append(a->all->log, records, size, &options, &range,
                                NULL) == MK_OK);
    CHECK(a->all, range.last - range.first == (int64_t)size - 1);
    CHECK(a->all, range.first > *last || a->all->truncates);
    for (uint32_t i = 0; i < size; i++) {
        note(a, range.first + i, count + i);
    }
    *last = range.last;
    return size;
}

/* An appender's records have offsets that others may cause to be given, so only
 * its own flush is noted: of what was added since the last. */
static uint32_t append_by_appender(actor *a, uint32_t count, int64_t *last)
{
    uint32_t size = 1 + (uint32_t)draw(a, 6);
    mk_appender *appender = NULL;
    mk_offset_range range = {-1, -1};

    CHECK(a->all,
          mk_appender_open(a->all->log, NULL, &appender, NULL) == MK_OK);
    if (appender == NULL) return 0;
    for (uint32_t i = 0; i < size; i++) {
        mk_record record;
        char text[32];

        make_record(a, count + i, text, &record);
        CHECK(a->all, mk_appender_append_one(appender, &record, NULL) == MK_OK);
    }
    if (draw(a, 3) > 0) {
        CHECK(a->all, mk_appender_flush(appender, &range, NULL) == MK_OK);
    }
    if (range.first >= 0 && range.last - range.first == (int64_t)size - 1) {
        CHECK(a->all, range.first > *last || a->all->truncates);
        for (uint32_t i = 0; i < size; i++) {
            note(a, range.first + i, count + i);
        }
        *last = range.last;
    }
    CHECK(a->all, mk_appender_close(appender, NULL) == MK_OK);
    return size;
}

static void *write_much(void *context)
{
    actor *a = context;
    uint32_t count = 1;
    int64_t last = -1;

    for (int i = 0; i < ROUNDS; i++) {
        switch (draw(a, 3)) {
        case 0:
            count += append_one(a, count, &last);
            break;
        case 1:
            count += append_batch(a, count, &last);
            break;
        default:
            count += append_by_appender(a, count, &last);
            break;
        }
    }
    atomic_fetch_sub(&a->all->writers_left, 1);
    return NULL;
}

/* ---- Readers ---- */

/* The record is the one that was given this offset, as far as that is known
 * already, and whole. */
static void check_record(actor *a, const mk_record_view *view)
{
    uint32_t name = atomic_load(&a->all->given[view->offset % OFFSET_MAX]);
    char text[32];

    CHECK(a->all, view->key_size < sizeof text);
    CHECK(a->all, view->key_size == view->value_size);
    CHECK(a->all, memcmp(view->key, view->value, view->key_size) == 0);
    if (name == 0 || a->all->truncates) return;
    snprintf(text, sizeof text, "%u-%u", name >> 24, name & 0xffffff);
    CHECK(a->all, view->key_size == strlen(text));
    CHECK(a->all, memcmp(view->key, text, view->key_size) == 0);
}

/* Read to the end as it is now, in ascending order. */
static void read_on(actor *a, mk_cursor *cursor, int64_t *last)
{
    mk_record_view views[16];
    size_t count;
    mk_status status;

    while ((status = mk_cursor_read(cursor, views, 1 + draw(a, 16), &count,
                                    NULL)) == MK_OK) {
        for (size_t i = 0; i < count; i++) {
            CHECK(a->all, views[i].offset > *last);
            *last = views[i].offset;
            check_record(a, &views[i]);
        }
    }
    if (status == MK_OFFSET_OUT_OF_RANGE) {
        /* Taken away, by retention or a truncation: begin again. */
        *last = -1;
        (void)!mk_cursor_seek_time(cursor, 0, NULL);
    } else {
        CHECK(a->all, status == MK_END);
    }
}

/* The end that one reader sees never goes back, but by truncation. */
static void look_at_end(actor *a, int64_t *end)
{
    mk_log_info info;

    CHECK(a->all, mk_log_get_info(a->all->log, &info, NULL) == MK_OK);
    CHECK(a->all, info.log_end_offset >= *end || a->all->truncates);
    CHECK(a->all, info.log_start_offset <= info.log_end_offset);
    CHECK(a->all, info.recovery_point <= info.log_end_offset);
    CHECK(a->all, info.segment_count > 0);
    *end = info.log_end_offset;
}

static void look_around(actor *a)
{
    mk_segment_info infos[8];
    mk_log_stats stats;
    int64_t offset, found_ms;
    size_t count;
    bool reached;
    mk_status status;

    status = mk_log_offset_for_timestamp(a->all->log, (int64_t)draw(a, 2000),
                                         &offset, &found_ms, NULL);
    CHECK(a->all, is_fine(status) || status == MK_END);
    status =
        mk_log_offset_of_max_timestamp(a->all->log, &offset, &found_ms, NULL);
    CHECK(a->all, is_fine(status) || status == MK_END);
    CHECK(a->all,
          mk_log_segments(a->all->log, infos, 8, &count, NULL) == MK_OK);
    CHECK(a->all, mk_log_get_stats(a->all->log, &stats, NULL) == MK_OK);
    CHECK(a->all, mk_log_wait(a->all->log, (int64_t)draw(a, 2000), 1, &reached,
                              NULL) == MK_OK);
}

static void *read_much(void *context)
{
    actor *a = context;
    mk_cursor *cursor = NULL;
    int64_t last = -1, end = 0;

    while (atomic_load(&a->all->writers_left) > 0) {
        if (cursor == NULL) {
            last = -1;
            CHECK(a->all,
                  mk_cursor_open(a->all->log, NULL, &cursor, NULL) == MK_OK);
            if (cursor == NULL) break;
        }
        read_on(a, cursor, &last);
        look_at_end(a, &end);
        if (draw(a, 4) == 0) look_around(a);
        if (draw(a, 8) == 0) {
            mk_cursor_close(cursor);
            cursor = NULL;
        }
        sched_yield();
    }
    mk_cursor_close(cursor);
    return NULL;
}

/* ---- Housekeepers ---- */

static void keep_house_once(actor *a)
{
    mk_log *log = a->all->log;
    mk_retention_options by_size = {.by_size = true, .retention_bytes = 20000};
    mk_cleanup_result result;
    mk_log_info info;
    mk_config config;

    CHECK(a->all, mk_log_get_info(log, &info, NULL) == MK_OK);
    switch (draw(a, 7)) {
    case 0:
        CHECK(a->all, mk_log_roll(log, NULL) == MK_OK);
        break;
    case 1:
        CHECK(a->all, mk_log_flush(log, NULL) == MK_OK);
        break;
    case 2:
        CHECK(a->all, mk_log_retain(log, &by_size, &result, NULL) == MK_OK);
        mk_cleanup_result_deinit(&result);
        break;
    case 3:
    case 4:
        CHECK(a->all, is_fine(mk_log_compact(log, NULL, &result, NULL)));
        mk_cleanup_result_deinit(&result);
        break;
    case 5:
        CHECK(a->all, is_fine(mk_log_delete_records(
                          log, info.log_end_offset - 200, NULL)));
        break;
    default:
        mk_log_get_config(log, &config);
        config.index_interval_bytes = (int64_t)draw(a, 500);
        CHECK(a->all, mk_log_configure(log, &config, NULL) == MK_OK);
        break;
    }
    if (a->all->truncates && draw(a, 3) == 0) {
        int64_t to = info.log_end_offset - (int64_t)draw(a, 20) / 2;

        CHECK(a->all, mk_log_truncate_to(log, to > 0 ? to : 0, NULL) == MK_OK);
    }
}

static void *keep_house(void *context)
{
    actor *a = context;

    while (atomic_load(&a->all->writers_left) > 0) {
        keep_house_once(a);
        sched_yield();
    }
    return NULL;
}

/* ---- One log ---- */

/* Everything that was acknowledged is there, unless it is below the log start,
 * and where it was said to be. Keys are unique, so that no compaction removes
 * anything. */
static void assert_all_there(shared *all)
{
    mk_cursor *cursor;
    mk_record_view view;
    mk_log_info info;
    int64_t offset;
    actor reader = {.all = all};

    assert_int_equal(mk_log_get_info(all->log, &info, NULL), MK_OK);
    assert_int_equal(mk_cursor_open(all->log, NULL, &cursor, NULL), MK_OK);
    offset = info.log_start_offset;
    while (mk_cursor_next(cursor, &view, NULL) == MK_OK) {
        assert_int_equal(view.offset, offset);
        check_record(&reader, &view);
        offset++;
    }
    assert_int_equal(offset, info.log_end_offset);
    mk_cursor_close(cursor);
    assert_int_equal(all->faults, 0);
}

static void run_all(posix_world *disk, bool truncates, uint64_t seed)
{
    shared *all = calloc(1, sizeof *all);
    actor actors[WRITERS + READERS + 2];
    const int count = sizeof actors / sizeof actors[0];

    assert_non_null(all);
    all->disk = disk;
    all->truncates = truncates;
    all->writers_left = WRITERS;
    snprintf(all->where, sizeof all->where, "%s/t-%llu", disk->root,
             (unsigned long long)seed);
    open_shared(all);
    for (int i = 0; i < count; i++) {
        void *(*act)(void *) = i < WRITERS             ? write_much
                               : i < WRITERS + READERS ? read_much
                                                       : keep_house;

        actors[i] = (actor){.all = all,
                            .number = i + 1,
                            .chance = seed * 1000003 + (uint64_t)i + 1};
        assert_int_equal(
            pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(actors[i].thread, NULL);
    }
    assert_int_equal(all->faults, 0);
    if (!truncates) assert_all_there(all);
    assert_int_equal(mk_log_close(all->log, NULL), MK_OK);
    open_shared(all);
    if (!truncates) assert_all_there(all);
    assert_int_equal(mk_log_close(all->log, NULL), MK_OK);
    free(all);
}

/* Appends, reads and every kind of housekeeping at once: offsets are unique and
 * ascend, nothing that was acknowledged is lost, the end never goes back. */
static void test_all_at_once(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        run_all(*state, false, seed);
    }
}

/* The same with truncations, which do lose what was acknowledged: what is read
 * is whole and ascends. */
static void test_truncations_at_once(void **state)
{
    for (uint64_t seed = 11; seed <= 13; seed++) {
        run_all(*state, true, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_all_at_once),
        world_test(test_truncations_at_once),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
