/* The public face where no other test looks: names, facts, settings, waiting,
 * readers beside a writer. */
#define _GNU_SOURCE
#include "support/log_world.h"

/* ---- Words ---- */

/* Every status has a name and a phrase; others have something, too. */
static void test_statuses_have_words(void **state)
{
    (void)state;
    for (int i = 0; i < MK_STATUS_COUNT; i++) {
        assert_true(strlen(mk_status_name((mk_status)i)) > 1);
        assert_true(strlen(mk_status_text((mk_status)i)) > 3);
    }
    assert_string_equal(mk_status_name(MK_OK), "OK");
    assert_string_equal(mk_status_name(MK_OFFSET_OUT_OF_RANGE),
                        "OFFSET_OUT_OF_RANGE");
    assert_string_equal(mk_errno_name(ENOSPC), "ENOSPC");
    assert_string_equal(mk_errno_name(EIO), "EIO");
    assert_int_equal(mk_errno_name(99999)[0], 'E');
    assert_non_null(mk_status_name((mk_status)1000));
}

/* An error may go untold everywhere, also where it is needed on the way. */
static void test_errors_may_go_untold(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    mk_cursor *cursor;
    mk_record record;
    mk_log *log;

    assert_int_equal(mk_log_open(world->where, &world->options, &log, NULL),
                     MK_OK);
    parse_records("a=1@-3", &record);
    assert_int_equal(mk_log_append(log, &record, 1, NULL, &range, NULL),
                     MK_INVALID_TIMESTAMP);
    record.timestamp_ms = 1;
    assert_int_equal(mk_log_append(log, &record, 1, NULL, &range, NULL), MK_OK);
    wrap_fail(&world->wrap, WRAP_write, 1, EIO)->part = 5;
    assert_int_equal(mk_log_append(log, &record, 1, NULL, &range, NULL), MK_IO);
    wrap_heal(&world->wrap);
    assert_int_equal(mk_log_delete_records(log, 9, NULL),
                     MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(mk_log_truncate_to(log, -9, NULL), MK_INVALID_ARGUMENT);
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    assert_int_equal(mk_cursor_seek(cursor, 77, NULL), MK_OFFSET_OUT_OF_RANGE);
    mk_cursor_close(cursor);
    wrap_fail(&world->wrap, WRAP_fdatasync, 1, EIO)->always = true;
    assert_int_equal(mk_log_flush(log, NULL), MK_IO);
    assert_int_equal(mk_log_append(log, &record, 1, NULL, &range, NULL), MK_IO);
    assert_int_equal(mk_log_roll(log, NULL), MK_IO);
    assert_int_equal(mk_log_close(log, NULL), MK_IO);
    wrap_heal(&world->wrap);
    store_text(segment_file(world, 0, ".log"), "rubbish");
    assert_int_equal(mk_log_open("", NULL, &log, NULL), MK_INVALID_ARGUMENT);
}

/* ---- Facts ---- */

/* Sizes are those of the files, the sum is that of the segments, and a segment
 * tells its end and its greatest time. */
static void test_facts_are_those_of_the_files(void **state)
{
    log_world *world = *state;
    mk_segment_info infos[4];
    int64_t sum = 0;
    size_t count;

    world->options.config.index_interval_bytes = 0;
    open_log(world);
    fill(world, "a=1@5,b=2@9 c=3@7 | d=4@-1 | e=5@3");
    flush(world);
    assert_ok(world,
              mk_log_segments(world->log, infos, 4, &count, &world->err));
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        static const int64_t bases[] = {0, 3, 4};
        static const int64_t nexts[] = {3, 4, 5};
        static const int64_t times[] = {9, -1, 3};
        char path[512];
        int64_t indexes;

        assert_int_equal(infos[i].base_offset, bases[i]);
        assert_int_equal(infos[i].next_offset, nexts[i]);
        assert_int_equal(infos[i].max_timestamp_ms, times[i]);
        mk_log_segment_path(world->log, bases[i], path, sizeof path);
        assert_string_equal(path, segment_file(world, bases[i], ".log"));
        assert_int_equal(infos[i].log_bytes, file_size(path));
        indexes = file_size(segment_file(world, bases[i], ".index")) +
                  file_size(segment_file(world, bases[i], ".timeindex"));
        assert_int_equal(infos[i].index_bytes, indexes);
        sum += infos[i].log_bytes + infos[i].index_bytes;
    }
    assert_int_equal(info_of(world).size_bytes, sum);
    assert_int_equal(info_of(world).segment_count, 3);
    assert_int_equal(info_of(world).high_watermark, 5);
    assert_int_equal(info_of(world).last_stable_offset, 5);
    /* A clean end gives the last time an entry. */
    reopen(world);
    assert_int_equal(info_of(world).size_bytes, sum + 12);
}

/* Fewer segments than there are can be asked for, and none. */
static void test_segments_fit_the_array(void **state)
{
    log_world *world = *state;
    mk_segment_info infos[2] = {{.base_offset = -7}, {.base_offset = -7}};
    char path[16] = "x";
    size_t count;

    open_log(world);
    fill(world, "a=1 | b=2 | c=3");
    assert_ok(world,
              mk_log_segments(world->log, infos, 1, &count, &world->err));
    assert_int_equal(count, 3);
    assert_int_equal(infos[0].base_offset, 0);
    assert_int_equal(infos[1].base_offset, -7);
    assert_ok(world, mk_log_segments(world->log, NULL, 0, &count, &world->err));
    assert_int_equal(count, 3);
    mk_log_segment_path(world->log, 0, path, sizeof path);
    assert_string_equal(path, "");
}

/* Counts since the opening. */
static void test_stats_count(void **state)
{
    log_world *world = *state;
    mk_log_stats stats;

    open_log(world);
    fill(world, "a=1,b=2 c=3 | d=4");
    flush(world);
    assert_ok(world, mk_log_get_stats(world->log, &stats, &world->err));
    assert_int_equal(stats.appended_batches, 3);
    assert_int_equal(stats.appended_records, 4);
    assert_int_equal(stats.rolls, 1);
    assert_int_equal(stats.flushes, 1);
    assert_true(stats.syncs >= 2);
    assert_int_equal(stats.info.log_end_offset, 4);
    assert_true(stats.open_files >= 1);
    assert_true(stats.heap_bytes > 0);
    assert_true(stats.heap_bytes < 1 << 20);
    reopen(world);
    assert_ok(world, mk_log_get_stats(world->log, &stats, &world->err));
    assert_int_equal(stats.appended_batches, 0);
}

/* ---- Settings ---- */

/* New settings count from here on; what is wrong changes nothing, and a log
 * that may not change takes none. */
static void test_configure(void **state)
{
    log_world *world = *state;
    mk_config config, seen;
    mk_offset_range range;

    open_log(world);
    fill(world, "a=1 b=2");
    mk_log_get_config(world->log, &config);
    config.segment_bytes = 14;
    assert_ok(world, mk_log_configure(world->log, &config, &world->err));
    assert_int_equal(try_append(world, "c=3", &range), MK_RECORD_TOO_LARGE);
    config.segment_bytes = 100;
    assert_ok(world, mk_log_configure(world->log, &config, &world->err));
    append(world, "c=3");
    assert_segments(world, "0..2 2..3 ");
    config.segment_bytes = 13;
    assert_int_equal(mk_log_configure(world->log, &config, &world->err),
                     MK_INVALID_ARGUMENT);
    mk_log_get_config(world->log, &seen);
    assert_int_equal(seen.segment_bytes, 100);
    close_log(world);
    world->options.read_only = true;
    open_log(world);
    config.segment_bytes = 99;
    assert_int_equal(mk_log_configure(world->log, &config, &world->err),
                     MK_READ_ONLY);
    mk_log_get_config(world->log, &seen);
    assert_true(seen.segment_bytes != 99);
}

/* ---- Waiting ---- */

static void test_waiting_looks_at_once(void **state)
{
    log_world *world = *state;
    bool reached = true;

    open_log(world);
    append(world, "a=1");
    assert_ok(world, mk_log_wait(world->log, 1, 0, &reached, &world->err));
    assert_false(reached);
    assert_ok(world, mk_log_wait(world->log, 1, -5, &reached, &world->err));
    assert_false(reached);
    assert_ok(world,
              mk_log_wait(world->log, 0, INT64_MAX, &reached, &world->err));
    assert_true(reached);
    assert_ok(world, mk_log_wait(world->log, 1, 3, &reached, &world->err));
    assert_false(reached);
}

typedef struct waiter {
    mk_log *log;
    mk_status status;
    bool reached;
    int64_t offset;
} waiter;

static void *wait_long(void *context)
{
    waiter *w = context;

    w->status = mk_log_wait(w->log, w->offset, INT64_MAX, &w->reached, NULL);
    return NULL;
}

/* An append of another thread ends the wait, and so does the log's end. */
static void test_waiting_ends(void **state)
{
    log_world *world = *state;
    waiter w = {.offset = 0};
    pthread_t thread;
    mk_cursor *holder;

    open_log(world);
    w.log = world->log;
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &w), 0);
    append(world, "a=1");
    pthread_join(thread, NULL);
    assert_int_equal(w.status, MK_OK);
    assert_true(w.reached);

    /* The cursor keeps the memory alive in which the waiter waits. */
    assert_ok(world, mk_cursor_open(world->log, NULL, &holder, &world->err));
    w.offset = 5;
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &w), 0);
    wait_tick();
    close_log(world);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, MK_CLOSED);
    assert_false(w.reached);
    mk_cursor_close(holder);
}

/* ---- Beside a writer ---- */

static mk_log *open_reader(log_world *world)
{
    mk_open_options options = world->options;
    mk_log *reader;

    options.read_only = true;
    assert_ok(world, mk_log_open(world->where, &options, &reader, &world->err));
    return reader;
}

static void assert_seen(log_world *world, mk_log *reader, const char *expected)
{
    mk_status status = try_tell(world, reader, world->told);

    if (status != MK_END) fail_msg("%s", world->err.message);
    assert_string_equal(world->told, expected);
}

/* A reader finds out by itself what a writer did: appends, rolls, removals,
 * compactions, which replace the directory. */
static void test_a_reader_follows(void **state)
{
    log_world *world = *state;
    mk_cleanup_result result;
    mk_log_info info;
    mk_log *reader;

    open_log(world);
    reader = open_reader(world);
    assert_seen(world, reader, "");
    fill(world, "a=1 b=2");
    assert_seen(world, reader, "0:a=1 1:b=2 ");
    fill(world, "| a=3 | c=4");
    assert_seen(world, reader, "0:a=1 1:b=2 2:a=3 3:c=4 ");
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    mk_cleanup_result_deinit(&result);
    assert_ok(world, mk_log_refresh(reader, &world->err));
    assert_seen(world, reader, "1:b=2 2:a=3 3:c=4 ");
    assert_ok(world, mk_log_delete_records(world->log, 2, &world->err));
    assert_ok(world, mk_log_refresh(reader, &world->err));
    assert_ok(world, mk_log_get_info(reader, &info, &world->err));
    assert_int_equal(info.log_start_offset, 2);
    assert_seen(world, reader, "2:a=3 3:c=4 ");
    append(world, "d=5");
    assert_ok(world, mk_log_close(reader, &world->err));
}

/* A cursor of a reader goes on behind its end, and may be led beyond it. */
static void test_a_readers_cursor_follows(void **state)
{
    log_world *world = *state;
    mk_cursor *cursor;
    mk_log *reader;
    bool reached;

    open_log(world);
    append(world, "a=1");
    reader = open_reader(world);
    assert_ok(world, mk_cursor_open(reader, NULL, &cursor, &world->err));
    assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
    fill(world, "b=2 | c=3");
    assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
    assert_string_equal(world->told, "1:b=2 2:c=3 ");
    fill(world, "d=4 e=5");
    assert_ok(world, mk_cursor_seek(cursor, 4, &world->err));
    assert_int_equal(tell_cursor(cursor, world->told, &world->err), MK_END);
    assert_string_equal(world->told, "4:e=5 ");
    fill(world, "f=6");
    assert_ok(world, mk_log_wait(reader, 5, 1000, &reached, &world->err));
    assert_true(reached);
    assert_ok(world, mk_log_wait(reader, 6, 0, &reached, &world->err));
    assert_false(reached);
    mk_cursor_close(cursor);
    assert_ok(world, mk_log_close(reader, &world->err));
}

/* A truncation by the writer is seen, and nothing of what was cut. */
static void test_a_reader_sees_a_truncation(void **state)
{
    log_world *world = *state;
    mk_log *reader;

    open_log(world);
    fill(world, "a=1 b=2 | c=3 d=4");
    reader = open_reader(world);
    assert_seen(world, reader, "0:a=1 1:b=2 2:c=3 3:d=4 ");
    assert_ok(world, mk_log_truncate_to(world->log, 1, &world->err));
    assert_ok(world, mk_log_refresh(reader, &world->err));
    assert_seen(world, reader, "0:a=1 ");
    fill(world, "x=9");
    assert_ok(world, mk_log_refresh(reader, &world->err));
    assert_seen(world, reader, "0:a=1 1:x=9 ");
    assert_ok(world, mk_log_close(reader, &world->err));
}

/* A reader of a directory that went away says so, and comes back with it. */
static void test_a_reader_of_what_went(void **state)
{
    log_world *world = *state;
    mk_log *reader;

    open_log(world);
    append(world, "a=1");
    reader = open_reader(world);
    close_log(world);
    assert_int_equal(rename(world->where, path_of(world->disk, "away")), 0);
    assert_int_equal(mk_log_refresh(reader, &world->err), MK_NOT_FOUND);
    assert_int_equal(mk_log_refresh(reader, &world->err), MK_NOT_FOUND);
    assert_int_equal(rename(path_of(world->disk, "away"), world->where), 0);
    assert_ok(world, mk_log_refresh(reader, &world->err));
    assert_seen(world, reader, "0:a=1 ");
    assert_ok(world, mk_log_close(reader, &world->err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses_have_words),
        log_test(test_errors_may_go_untold),
        log_test(test_facts_are_those_of_the_files),
        log_test(test_segments_fit_the_array),
        log_test(test_stats_count),
        log_test(test_configure),
        log_test(test_waiting_looks_at_once),
        log_test(test_waiting_ends),
        log_test(test_a_reader_follows),
        log_test(test_a_readers_cursor_follows),
        log_test(test_a_reader_sees_a_truncation),
        log_test(test_a_reader_of_what_went),
    };

    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
