/*
 * A log that refused changes goes on when the disk is well again: what had been
 * acknowledged is there, or it is said what is not, and what is flushed then
 * outlasts a loss of power, however the failed sync had left the pages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/minikafka_sim.h"
#include "os/env.h"

#define DIRECTORY "/logs/t-0"
#define SEGMENT_0 DIRECTORY "/00000000000000000000.log"
#define TOLD_SIZE 512

typedef struct world {
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log;
    mk_error err;
    char told[TOLD_SIZE];
} world;

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);

    if (w == NULL || mk_sim_disk_new(NULL, NULL, &w->disk, NULL) != MK_OK) {
        return -1;
    }
    *state = w;
    return mk_env_new_sim(w->disk, &w->env, NULL) == MK_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    world *w = *state;

    mk_log_abandon(w->log);
    mk_env_free(w->env);
    mk_sim_disk_free(w->disk);
    free(w);
    return 0;
}

static void assert_ok(const world *w, mk_status status)
{
    if (status != MK_OK) {
        fail_msg("%s: %s", mk_status_name(status), w->err.message);
    }
}

static mk_status try_open(world *w)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = w->env;
    return mk_log_open(DIRECTORY, &options, &w->log, &w->err);
}

static void open_log(world *w)
{
    assert_ok(w, try_open(w));
}

static mk_status try_append(world *w, const char *value, int64_t *offset)
{
    mk_record record = {
        .value = value, .value_size = strlen(value), .timestamp_ms = 5};

    return mk_log_append_one(w->log, &record, offset, &w->err);
}

static int64_t append(world *w, const char *value)
{
    int64_t offset;

    assert_ok(w, try_append(w, value, &offset));
    return offset;
}

static void flush(world *w)
{
    assert_ok(w, mk_log_flush(w->log, &w->err));
}

static mk_status close_log(world *w)
{
    mk_log *log = w->log;

    w->log = NULL;
    return mk_log_close(log, &w->err);
}

static mk_log_stats stats_of(world *w)
{
    mk_log_stats stats;

    assert_ok(w, mk_log_get_stats(w->log, &stats, &w->err));
    return stats;
}

/* Tell all records, "0:a 1:b |3", with the log end behind the bar. */
static const char *contents(world *w)
{
    mk_cursor *cursor;
    mk_record_view view;
    mk_status status;
    size_t used = 0;

    assert_ok(w, mk_cursor_open(w->log, NULL, &cursor, &w->err));
    while ((status = mk_cursor_next(cursor, &view, &w->err)) == MK_OK) {
        used += (size_t)snprintf(w->told + used, TOLD_SIZE - used, "%lld:%.*s ",
                                 (long long)view.offset, (int)view.value_size,
                                 (const char *)view.value);
    }
    mk_cursor_close(cursor);
    if (status != MK_END) fail_msg("%s", w->err.message);
    snprintf(w->told + used, TOLD_SIZE - used, "|%lld",
             (long long)stats_of(w).info.log_end_offset);
    return w->told;
}

#define assert_contents(w, expected) \
    assert_string_equal(contents(w), (expected))

static void fail_sync(world *w, mk_sim_operation operation, const char *path,
                      mk_sim_flavour flavour, int64_t times)
{
    mk_sim_fault fault;

    mk_sim_fault_default(&fault);
    fault.operation = operation;
    fault.path = path;
    fault.flavour = flavour;
    fault.times = times;
    assert_ok(w, mk_sim_disk_fail(w->disk, &fault, &w->err));
}

/* A new machine on the disk as it is now. */
static void boot(world *w)
{
    mk_log_abandon(w->log);
    w->log = NULL;
    mk_env_free(w->env);
    assert_int_equal(mk_env_new_sim(w->disk, &w->env, NULL), MK_OK);
}

/* Look at each disk that a loss of power may leave now: this is in the log. */
static void assert_survivors(world *w, const char *expected)
{
    mk_sim_states *states;
    mk_sim_disk *found;
    int count = 0;

    assert_ok(w, mk_sim_states_open(w->disk, NULL, &states, &w->err));
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        world survivor = {.disk = found};

        assert_int_equal(mk_env_new_sim(found, &survivor.env, NULL), MK_OK);
        open_log(&survivor);
        assert_contents(&survivor, expected);
        mk_log_abandon(survivor.log);
        mk_env_free(survivor.env);
        mk_sim_disk_free(found);
        count++;
    }
    mk_sim_states_close(states);
    assert_true(count > 0);
}

/* A log in which "a" is flushed, "b" and "c" are not, and a sync has failed. */
static void fail_to_flush(world *w, mk_sim_flavour flavour)
{
    open_log(w);
    append(w, "a");
    flush(w);
    append(w, "b");
    append(w, "c");
    fail_sync(w, MK_SIM_FDATASYNC, "*.log", flavour, 1);
    assert_int_equal(mk_log_flush(w->log, &w->err), MK_IO);
    assert_true(stats_of(w).refusing);
    assert_int_equal(stats_of(w).info.recovery_point, 1);
}

/* Pages that were not written and are taken for written, and pages that still
 * can be: the next flush puts them there. */
static void test_pages_that_are_still_seen(void **state)
{
    const mk_sim_flavour flavours[] = {MK_SIM_LOST, MK_SIM_RETRYABLE};
    world *w = *state;

    for (int i = 0; i < 2; i++) {
        fail_to_flush(w, flavours[i]);
        assert_contents(w, "0:a 1:b 2:c |3");
        flush(w);
        assert_false(stats_of(w).refusing);
        assert_int_equal(stats_of(w).heals, 1);
        assert_int_equal(stats_of(w).info.recovery_point, 3);
        assert_survivors(w, "0:a 1:b 2:c |3");
        assert_int_equal(append(w, "d"), 3);
        flush(w);
        assert_survivors(w, "0:a 1:b 2:c 3:d |4");
        tear_down(state);
        set_up(state);
        w = *state;
    }
}

/* Pages that are gone: who makes the log heal is told which records those were;
 * their offsets are not given again. */
static void test_pages_that_are_gone(void **state)
{
    world *w = *state;
    int64_t offset;

    fail_to_flush(w, MK_SIM_REVERTED);
    assert_int_equal(try_append(w, "x", &offset), MK_IO);
    assert_non_null(strstr(w->err.message, "has lost the records"));
    assert_non_null(strstr(w->err.message, "offset 1 up to 2"));
    assert_int_equal(w->err.offset, 1);
    assert_int_equal(w->err.os_errno, EIO);
    assert_false(stats_of(w).refusing);
    assert_int_equal(stats_of(w).lost_offsets, 2);
    assert_contents(w, "0:a |3");
    assert_survivors(w, "0:a |3");
    assert_int_equal(append(w, "d"), 3);
    flush(w);
    assert_contents(w, "0:a 3:d |4");
    assert_survivors(w, "0:a 3:d |4");
    assert_ok(w, close_log(w));
    open_log(w);
    assert_contents(w, "0:a 3:d |4");
}

static mk_status count_writes(void *context, const mk_sim_event *event,
                              mk_error *err)
{
    (void)err;
    if (event->operation == MK_SIM_WRITE) ++*(int *)context;
    return MK_OK;
}

/* How many writes does an opening make? */
static int open_counting(world *w)
{
    int count = 0;

    mk_sim_disk_trace(w->disk, (mk_sim_trace){count_writes, &count});
    open_log(w);
    mk_sim_disk_trace(w->disk, (mk_sim_trace){0});
    return count;
}

/* The process dies before it heals: another one does not believe the pages it
 * sees either, though no call tells it of a failure. It proves them, once. */
static void test_another_process_knows(void **state)
{
    world *w = *state;

    fail_to_flush(w, MK_SIM_LOST);
    boot(w);
    assert_true(open_counting(w) > 0);
    assert_contents(w, "0:a 1:b 2:c |3");
    assert_survivors(w, "0:a 1:b 2:c |3");
    boot(w); /* It dies too. */
    assert_int_equal(open_counting(w), 0);
    assert_int_equal(stats_of(w).recovered_bytes, 0);
    assert_survivors(w, "0:a 1:b 2:c |3");
}

/* It can't prove them either: it opens, and its first change heals it. */
static void test_another_process_fails_too(void **state)
{
    world *w = *state;

    fail_to_flush(w, MK_SIM_LOST);
    boot(w);
    fail_sync(w, MK_SIM_FDATASYNC, "*.log", MK_SIM_LOST, 1);
    open_log(w);
    assert_true(stats_of(w).refusing);
    assert_contents(w, "0:a 1:b 2:c |3");
    assert_int_equal(append(w, "d"), 3);
    flush(w);
    assert_survivors(w, "0:a 1:b 2:c 3:d |4");
}

/* A sync that fails when a segment is sealed, and one of a durable append. */
static void test_other_syncs(void **state)
{
    mk_append_options options;
    mk_offset_range range;
    mk_record record = {.value = "b", .value_size = 1, .timestamp_ms = 5};
    world *w = *state;

    open_log(w);
    append(w, "a");
    fail_sync(w, MK_SIM_FDATASYNC, "*.log", MK_SIM_LOST, 1);
    assert_int_equal(mk_log_roll(w->log, &w->err), MK_IO);
    assert_ok(w, mk_log_roll(w->log, &w->err));
    mk_append_options_default(&options);
    options.durable = true;
    fail_sync(w, MK_SIM_FDATASYNC, "*.log", MK_SIM_LOST, 1);
    assert_int_equal(
        mk_log_append(w->log, &record, 1, &options, &range, &w->err), MK_IO);
    append(w, "c");
    flush(w);
    assert_survivors(w, "0:a 1:b 2:c |3");
    assert_int_equal(stats_of(w).heals, 2);
}

/* The name of a segment can't be made stable at first. */
static void test_a_directory_that_is_not_synced(void **state)
{
    world *w = *state;

    open_log(w);
    append(w, "a");
    fail_sync(w, MK_SIM_FSYNC_DIR, DIRECTORY, MK_SIM_LOST, 1);
    assert_int_equal(mk_log_flush(w->log, &w->err), MK_IO);
    append(w, "b");
    flush(w);
    assert_survivors(w, "0:a 1:b |2");
}

/* While the cause lasts the log refuses, with the first error, and reads go on;
 * closing says so, too. */
static void test_refusing_goes_on(void **state)
{
    world *w = *state;
    int64_t offset;

    open_log(w);
    append(w, "a");
    fail_sync(w, MK_SIM_FDATASYNC, "*.log", MK_SIM_LOST, 0);
    assert_int_equal(mk_log_flush(w->log, &w->err), MK_IO);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(try_append(w, "b", &offset), MK_IO);
        assert_non_null(strstr(w->err.message, "refuses changes"));
        assert_string_equal(w->err.path, SEGMENT_0);
        assert_contents(w, "0:a |1");
    }
    assert_int_equal(stats_of(w).heals, 0);
    assert_int_equal(close_log(w), MK_IO);
    mk_sim_disk_heal(w->disk);
    open_log(w);
    assert_contents(w, "0:a |1");
    flush(w);
    assert_survivors(w, "0:a |1");
}

/* Closing heals, too, and leaves what a clean end leaves. */
static void test_closing_heals(void **state)
{
    world *w = *state;

    fail_to_flush(w, MK_SIM_LOST);
    assert_ok(w, close_log(w));
    assert_survivors(w, "0:a 1:b 2:c |3");
    open_log(w);
    assert_int_equal(stats_of(w).recovered_bytes, 0);
    assert_ok(w, close_log(w));
    tear_down(state);
    set_up(state);
    w = *state;
    fail_to_flush(w, MK_SIM_REVERTED);
    assert_int_equal(close_log(w), MK_IO);
    assert_non_null(strstr(w->err.message, "has lost the records"));
    open_log(w);
    assert_contents(w, "0:a |3");
}

/* What an append that failed has left, and could not take back, is never read.
 */
static void test_a_failed_append_does_not_come_back(void **state)
{
    world *w = *state;
    mk_sim_fault fault;
    int64_t offset;

    open_log(w);
    append(w, "a");
    mk_sim_fault_default(&fault);
    fault.operation = MK_SIM_WRITE;
    fault.short_size = 4096; /* All of it arrives. */
    fault.times = 1;
    assert_ok(w, mk_sim_disk_fail(w->disk, &fault, &w->err));
    fail_sync(w, MK_SIM_TRUNCATE, NULL, MK_SIM_LOST, 2);
    assert_int_equal(try_append(w, "x", &offset), MK_IO);
    assert_true(stats_of(w).refusing);
    assert_int_equal(append(w, "b"), 1);
    assert_contents(w, "0:a 1:b |2");
    boot(w);
    open_log(w);
    assert_contents(w, "0:a 1:b |2");
}

/* Records that were flushed and are gone are not passed over: the log says what
 * is to be done. */
static void test_flushed_records_are_missed(void **state)
{
    world *w = *state;
    int64_t offset;

    open_log(w);
    append(w, "a");
    append(w, "b");
    flush(w);
    assert_ok(w, mk_sim_disk_cut(w->disk, SEGMENT_0, 100, &w->err));
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(try_append(w, "c", &offset), MK_OK);
        assert_true(stats_of(w).refusing);
    }
    assert_int_equal(w->err.status, MK_CORRUPT_SEGMENT);
    assert_non_null(strstr(w->err.message, "repair"));
}

/* A cursor that stands in the log while it heals goes on. */
static void test_cursors_go_on(void **state)
{
    world *w = *state;
    mk_record_view view;
    mk_cursor *cursor;

    fail_to_flush(w, MK_SIM_LOST);
    assert_ok(w, mk_cursor_open(w->log, NULL, &cursor, &w->err));
    assert_ok(w, mk_cursor_next(cursor, &view, &w->err));
    append(w, "d");
    for (int i = 1; i < 4; i++) {
        assert_ok(w, mk_cursor_next(cursor, &view, &w->err));
        assert_int_equal(view.offset, i);
    }
    assert_int_equal(mk_cursor_next(cursor, &view, &w->err), MK_END);
    mk_cursor_close(cursor);
}

/* ---- Threads ---- */

#define THREADS 3
#define APPENDS 60

typedef struct writer {
    world *w;
    pthread_t thread;
    int number;
    int64_t acked[APPENDS]; /* Offsets of durable appends. */
    int count, failed;
} writer;

/* Append durably again and again; what fails is given up. */
static void *write_on(void *context)
{
    writer *own = context;
    mk_append_options options;

    mk_append_options_default(&options);
    options.durable = true;
    for (int i = 0; i < APPENDS; i++) {
        char value = (char)('a' + own->number);
        mk_record record = {
            .value = &value, .value_size = 1, .timestamp_ms = 5};
        mk_offset_range range;

        if (mk_log_append(own->w->log, &record, 1, &options, &range, NULL) ==
            MK_OK) {
            own->acked[own->count++] = range.first;
        } else {
            own->failed++;
        }
    }
    return NULL;
}

/* Is this a record of that writer? */
static void assert_written(world *w, int64_t offset, int number)
{
    mk_cursor_options options;
    mk_cursor *cursor;
    mk_record_view view;

    mk_cursor_options_default(&options);
    options.from = offset;
    assert_ok(w, mk_cursor_open(w->log, &options, &cursor, &w->err));
    assert_ok(w, mk_cursor_next(cursor, &view, &w->err));
    assert_int_equal(view.offset, offset);
    assert_int_equal(view.value[0], 'a' + number);
    mk_cursor_close(cursor);
}

/* What is written again keeps the time that Kafka's retention may go by. */
static void test_times_stay(void **state)
{
    world *w = *state;
    mk_file_stat stat;

    open_log(w);
    append(w, "a");
    assert_ok(w, mk_log_roll(w->log, &w->err));
    append(w, "b");
    fail_sync(w, MK_SIM_FDATASYNC, "*.log", MK_SIM_LOST, 1);
    assert_int_equal(mk_log_flush(w->log, &w->err), MK_IO);
    boot(w);
    assert_ok(w, mk_vfs_set_mtime(w->env->vfs, SEGMENT_0, 12345, &w->err));
    open_log(w);
    assert_contents(w, "0:a 1:b |2");
    assert_ok(w, mk_vfs_stat(w->env->vfs, SEGMENT_0, &stat, &w->err));
    assert_int_equal(stat.mtime_ms, 12345);
}

/* Syncs fail now and then while several threads wait for them: the log heals
 * for all of them, and what was durable for one is there. */
static void test_threads(void **state)
{
    writer writers[THREADS] = {0};
    world *w = *state;
    int failed = 0;

    open_log(w);
    for (int i = 0; i < 8; i++) {
        mk_sim_fault fault;

        mk_sim_fault_default(&fault);
        fault.operation = MK_SIM_FDATASYNC;
        fault.path = "*.log";
        fault.after = 7 * i + 5;
        fault.times = 1;
        assert_ok(w, mk_sim_disk_fail(w->disk, &fault, &w->err));
    }
    for (int i = 0; i < THREADS; i++) {
        writers[i].w = w;
        writers[i].number = i;
        assert_int_equal(
            pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(writers[i].thread, NULL);
        failed += writers[i].failed;
    }
    assert_true(failed > 0);
    assert_in_range(stats_of(w).heals, 1, 8);
    assert_ok(w, mk_sim_disk_crash(w->disk, MK_SIM_LAZY, &w->err));
    boot(w);
    open_log(w);
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < writers[i].count; j++) {
            assert_written(w, writers[i].acked[j], i);
        }
    }
}

#define heal_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        heal_test(test_pages_that_are_still_seen),
        heal_test(test_pages_that_are_gone),
        heal_test(test_another_process_knows),
        heal_test(test_another_process_fails_too),
        heal_test(test_other_syncs),
        heal_test(test_a_directory_that_is_not_synced),
        heal_test(test_refusing_goes_on),
        heal_test(test_closing_heals),
        heal_test(test_a_failed_append_does_not_come_back),
        heal_test(test_flushed_records_are_missed),
        heal_test(test_cursors_go_on),
        heal_test(test_times_stay),
        heal_test(test_threads),
    };

    return cmocka_run_group_tests_name("heal", tests, NULL, NULL);
}
