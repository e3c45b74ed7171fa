/*
 * A disk without room: nothing acknowledged is lost, nothing is there by half,
 * the log opens, is flushed and closed; removing makes room, even when there is
 * none to say so, and then appends go on by themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/minikafka_sim.h"

#define DIRECTORY "/logs/t-0"
#define RESERVE   DIRECTORY "/minikafka.reserve"
#define CAPACITY  60000

typedef struct world {
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log;
    mk_error err;
    int64_t start, end; /* Of what the log must hold. */
} world;

static void assert_ok(const world *w, mk_status status)
{
    if (status != MK_OK) {
        fail_msg("%s: %s", mk_status_name(status), w->err.message);
    }
}

/* Fails for want of room. */
static void assert_full(const world *w, mk_status status)
{
    if (status != MK_IO) fail_msg("%s", mk_status_name(status));
    assert_int_equal(w->err.os_errno, ENOSPC);
}

static void open_log(world *w)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = w->env;
    options.config.segment_bytes = 8000;
    options.config.index_interval_bytes = 500;
    assert_ok(w, mk_log_open(DIRECTORY, &options, &w->log, &w->err));
}

static void start_world(world *w, int64_t capacity_files)
{
    mk_sim_options options;

    memset(w, 0, sizeof *w);
    mk_sim_options_default(&options);
    options.capacity_bytes = CAPACITY;
    options.capacity_files = capacity_files;
    assert_ok(w, mk_sim_disk_new(NULL, &options, &w->disk, &w->err));
    assert_ok(w, mk_env_new_sim(w->disk, &w->env, &w->err));
    open_log(w);
}

static int set_up(void **state)
{
    world *w = malloc(sizeof *w);

    if (w == NULL) return -1;
    start_world(w, -1);
    *state = w;
    return 0;
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

static mk_status try_append(world *w, size_t size)
{
    static const uint8_t value[4000];
    char key[24];
    mk_record record = {
        .key = key, .value = value, .value_size = size, .timestamp_ms = w->end};
    int64_t offset;
    mk_status status;

    record.key_size =
        (size_t)snprintf(key, sizeof key, "%lld", (long long)w->end);
    status = mk_log_append_one(w->log, &record, &offset, &w->err);
    if (status != MK_OK) return status;
    assert_int_equal(offset, w->end);
    w->end++;
    return MK_OK;
}

static mk_log_info info_of(world *w)
{
    mk_log_info info;

    assert_ok(w, mk_log_get_info(w->log, &info, &w->err));
    return info;
}

static bool is_refusing(world *w)
{
    mk_log_stats stats;

    assert_ok(w, mk_log_get_stats(w->log, &stats, &w->err));
    return stats.refusing;
}

/* All is there, and nothing else. */
static void check(world *w)
{
    mk_cursor *cursor;
    mk_record_view view;
    mk_status status;
    int64_t expected = w->start;

    assert_int_equal(info_of(w).log_start_offset, w->start);
    assert_int_equal(info_of(w).log_end_offset, w->end);
    assert_ok(w, mk_cursor_open(w->log, NULL, &cursor, &w->err));
    while ((status = mk_cursor_next(cursor, &view, &w->err)) == MK_OK) {
        char key[24];
        int size = snprintf(key, sizeof key, "%lld", (long long)expected);

        assert_int_equal(view.offset, expected);
        assert_int_equal(view.key_size, size);
        assert_memory_equal(view.key, key, view.key_size);
        expected++;
    }
    mk_cursor_close(cursor);
    assert_int_equal(status, MK_END);
    assert_int_equal(expected, w->end);
}

static int64_t room(world *w)
{
    mk_sim_stats stats;

    mk_sim_disk_stats(w->disk, &stats);
    return CAPACITY - stats.used_bytes;
}

static bool has_reserve(world *w)
{
    int64_t size;

    return mk_sim_disk_size(w->disk, RESERVE, &size, NULL) == MK_OK;
}

/* Somebody else takes, or gives back, all the room there is. */
static void set_ballast(world *w, size_t size)
{
    uint8_t *bytes = calloc(1, size + 1);

    assert_non_null(bytes);
    assert_ok(w, mk_sim_disk_write(w->disk, "/ballast", bytes, size, &w->err));
    free(bytes);
}

/* Append until there is no room, and then let there be none at all. */
static void fill(world *w)
{
    mk_status status;

    while ((status = try_append(w, 1000)) == MK_OK) {
        continue;
    }
    assert_full(w, status);
    set_ballast(w, (size_t)room(w));
    assert_int_equal(room(w), 0);
}

static mk_status close_log(world *w)
{
    mk_log *log = w->log;

    w->log = NULL;
    return mk_log_close(log, &w->err);
}

static void die(world *w)
{
    mk_log_abandon(w->log);
    mk_env_free(w->env);
    assert_ok(w, mk_env_new_sim(w->disk, &w->env, &w->err));
    open_log(w);
}

/* An append without room leaves nothing; once there is some the next one goes
 * on, in the same log and in one that was opened meanwhile. */
static void test_appends_go_on_by_themselves(void **state)
{
    world *w = *state;

    for (int i = 0; i < 3; i++) {
        fill(w);
        for (size_t size = 1; size < 4000; size += 777) {
            assert_full(w, try_append(w, size));
        }
        assert_false(is_refusing(w));
        check(w);
        if (i == 1) die(w);
        if (i == 2) assert_ok(w, close_log(w));
        if (i == 2) open_log(w);
        check(w);
        set_ballast(w, 0);
        assert_ok(w, mk_log_delete_records(w->log, w->end - 10, &w->err));
        w->start = w->end - 10;
        assert_ok(w, try_append(w, 1000));
        check(w);
    }
}

/* What is there can be flushed, rolled, closed and opened without any room; and
 * flushed it is. */
static void test_all_but_appends(void **state)
{
    world *w = *state;
    mk_sim_disk *survivor;

    fill(w);
    assert_ok(w, mk_log_flush(w->log, &w->err));
    assert_int_equal(info_of(w).recovery_point, w->end);
    assert_ok(w, mk_log_roll(w->log, &w->err));
    assert_ok(w, mk_log_flush(w->log, &w->err));
    check(w);
    assert_ok(w, close_log(w));
    open_log(w);
    check(w);
    die(w);
    check(w);
    assert_ok(w, mk_log_flush(w->log, &w->err));
    assert_ok(w, mk_sim_disk_clone(w->disk, &survivor, &w->err));
    assert_ok(w, mk_sim_disk_crash(survivor, MK_SIM_LAZY, &w->err));
    {
        world other = {.disk = survivor, .start = w->start, .end = w->end};

        assert_ok(w, mk_env_new_sim(survivor, &other.env, &w->err));
        open_log(&other);
        check(&other);
        mk_log_abandon(other.log);
        mk_env_free(other.env);
    }
    mk_sim_disk_free(survivor);
}

static mk_status delete_records(world *w)
{
    return mk_log_delete_records(w->log, 12, &w->err);
}

static mk_status delete_segments(world *w)
{
    const int64_t base_offset = 0;

    return mk_log_delete_closed_segments(w->log, &base_offset, 1, &w->err);
}

static mk_status retain(world *w)
{
    mk_retention_options options = {.by_size = true, .retention_bytes = 20000};
    mk_cleanup_result result;
    mk_status status = mk_log_retain(w->log, &options, &result, &w->err);

    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status truncate(world *w)
{
    return mk_log_truncate_to(w->log, 10, &w->err);
}

static mk_status (*const removals[])(world *w) = {
    delete_records, delete_segments, retain, truncate};

#define REMOVAL_COUNT (sizeof removals / sizeof removals[0])

/* Take over the bounds that a removal has left. */
static void adopt_bounds(world *w)
{
    mk_log_info info = info_of(w);

    assert_true(info.log_start_offset > w->start ||
                info.log_end_offset < w->end);
    w->start = info.log_start_offset;
    w->end = info.log_end_offset;
}

/* Every way to remove something works without any room, since the reserve has
 * some; afterwards there is a reserve again. */
static void test_removals_make_room(void **state)
{
    world *w = *state;

    for (size_t i = 0; i < REMOVAL_COUNT; i++) {
        fill(w);
        assert_true(has_reserve(w));
        assert_ok(w, removals[i](w));
        adopt_bounds(w);
        assert_true(room(w) > 1000);
        assert_ok(w, try_append(w, 1000));
        check(w);
        assert_ok(w, mk_log_flush(w->log, &w->err));
        assert_ok(w, close_log(w));
        open_log(w);
        assert_true(has_reserve(w));
        check(w);
        die(w);
        check(w);
        tear_down(state);
        set_up(state);
        w = *state;
    }
}

/* Without a reserve it can't be said, so it is not done; but it is no reason to
 * refuse anything. */
static void test_without_a_reserve(void **state)
{
    world *w = *state;

    for (size_t i = 0; i < REMOVAL_COUNT; i++) {
        mk_sim_fault fault;

        fill(w);
        mk_sim_fault_default(&fault);
        fault.operation = MK_SIM_UNLINK;
        fault.path = "*.reserve";
        assert_ok(w, mk_sim_disk_fail(w->disk, &fault, &w->err));
        assert_full(w, removals[i](w));
        assert_false(is_refusing(w));
        check(w);
        die(w);
        check(w);
        mk_sim_disk_heal(w->disk);
        assert_ok(w, removals[i](w));
        adopt_bounds(w);
        check(w);
        tear_down(state);
        set_up(state);
        w = *state;
    }
}

/* What a removal on a full disk has acknowledged, no loss of power undoes. */
static void test_a_removal_is_durable(void **state)
{
    world *w = *state;
    mk_sim_states *states;
    mk_sim_disk *found;
    int count = 0;

    fill(w);
    assert_ok(w, mk_log_flush(w->log, &w->err));
    assert_ok(w, delete_records(w));
    adopt_bounds(w);
    assert_ok(w, mk_sim_states_open(w->disk, NULL, &states, &w->err));
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        world other = {.disk = found, .start = w->start, .end = w->end};

        assert_ok(w, mk_env_new_sim(found, &other.env, &w->err));
        open_log(&other);
        check(&other);
        mk_log_abandon(other.log);
        mk_env_free(other.env);
        mk_sim_disk_free(found);
        count++;
    }
    mk_sim_states_close(states);
    assert_true(count > 1);
}

/* A compaction that needs little more than nothing gets it from the reserve;
 * one that needs more leaves the log as it was. */
static void test_compaction(void **state)
{
    mk_record record = {.key = "k", .key_size = 1, .value_size = 1000};
    uint8_t value[1000] = {0};
    world *w = *state;
    mk_cleanup_result result;
    int64_t offset;
    mk_status status;

    record.value = value;
    do {
        status = mk_log_append_one(w->log, &record, &offset, &w->err);
    } while (status == MK_OK);
    assert_full(w, status);
    set_ballast(w, (size_t)room(w));
    assert_ok(w, mk_log_compact(w->log, NULL, &result, &w->err));
    assert_int_equal(result.records_after, 0);
    mk_cleanup_result_deinit(&result);
    assert_true(room(w) > 30000);
    assert_true(has_reserve(w));
    tear_down(state);
    set_up(state);
    w = *state;
    fill(w);
    assert_full(w, mk_log_compact(w->log, NULL, &result, &w->err));
    assert_false(is_refusing(w));
    assert_int_equal(room(w), 0);
    check(w);
}

/* The same where it is files that there is no room for. */
static void test_no_more_files(void **state)
{
    world *w = *state;
    mk_status status;

    tear_down(state);
    w = malloc(sizeof *w);
    assert_non_null(w);
    *state = w;
    start_world(w, 16);
    while ((status = try_append(w, 100)) == MK_OK) {
        if (w->end % 3 == 0) status = mk_log_roll(w->log, &w->err);
        if (status != MK_OK) break;
    }
    assert_full(w, status);
    assert_false(is_refusing(w));
    assert_ok(w, mk_log_flush(w->log, &w->err));
    check(w);
    assert_ok(w, mk_log_delete_records(w->log, 6, &w->err));
    w->start = 6;
    check(w);
    assert_ok(w, mk_log_roll(w->log, &w->err));
    assert_ok(w, try_append(w, 100));
    check(w);
    assert_ok(w, close_log(w));
    open_log(w);
    check(w);
}

static void fail_syncs(world *w)
{
    mk_sim_fault fault;

    mk_sim_fault_default(&fault);
    fault.operation = MK_SIM_FDATASYNC;
    fault.path = "*.log";
    fault.os_errno = ENOSPC;
    assert_ok(w, mk_sim_disk_fail(w->disk, &fault, &w->err));
}

/* The disk says only at a sync that it is full, and goes on to say so: the log
 * refuses, but makes room, and then it heals. */
static void test_told_at_a_sync(void **state)
{
    world *w = *state;

    for (size_t i = 0; i + 1 < REMOVAL_COUNT; i++) {
        for (int j = 0; j < 30; j++) {
            assert_ok(w, try_append(w, 1000));
        }
        fail_syncs(w);
        assert_full(w, mk_log_flush(w->log, &w->err));
        assert_full(w, try_append(w, 10));
        assert_full(w, truncate(w));
        assert_true(is_refusing(w));
        check(w);
        assert_ok(w, removals[i](w));
        adopt_bounds(w);
        check(w);
        assert_full(w, try_append(w, 10));
        mk_sim_disk_heal(w->disk);
        assert_ok(w, try_append(w, 1000));
        assert_ok(w, mk_log_flush(w->log, &w->err));
        assert_ok(w, mk_sim_disk_crash(w->disk, MK_SIM_LAZY, &w->err));
        die(w);
        check(w);
        tear_down(state);
        set_up(state);
        w = *state;
    }
}

#define full_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        full_test(test_appends_go_on_by_themselves),
        full_test(test_all_but_appends),
        full_test(test_removals_make_room),
        full_test(test_without_a_reserve),
        full_test(test_a_removal_is_durable),
        full_test(test_compaction),
        full_test(test_no_more_files),
        full_test(test_told_at_a_sync),
    };

    return cmocka_run_group_tests_name("disk_full", tests, NULL, NULL);
}
