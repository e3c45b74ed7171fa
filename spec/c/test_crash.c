/*
 * Loss of power at every step of rows of one and two operations, and every disk
 * that it may leave: see support/crash_sweep.h. `make explore` goes further.
 *
 * MK_CRASH_LIMIT states are looked at per crash; 0, or left out: all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "os/vfs.h"
#include "support/crash_sweep.h"

static int64_t limit_of_run(void)
{
    const char *text = getenv("MK_CRASH_LIMIT");

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

static int set_up(void **state)
{
    crash_store *store = malloc(sizeof *store);

    assert_non_null(store);
    init_store(store);
    *state = store;
    return 0;
}

static int tear_down(void **state)
{
    deinit_store(*state);
    free(*state);
    return 0;
}

/* All of it was seen, and nothing was wrong. */
static void assert_swept(crash_sweep *sweep)
{
    int64_t states = count_states(sweep);

    printf("%lld steps, %lld crashes, %lld states, %lld of them unlike\n",
           (long long)sweep->steps, (long long)sweep->crashes,
           (long long)states, (long long)sweep->opened);
    assert_false(sweep->faulty);
    assert_true(states >= sweep->crashes);
    assert_true(sweep->crashes > 0);
    if (sweep->limit == 0) assert_int_equal(sweep->partial, 0);
}

static void test_setting_up_and_one_operation(void **state)
{
    crash_sweep sweep;

    init_sweep(&sweep, *state);
    sweep.limit = limit_of_run();
    sweep_rows(&sweep, 0);
    sweep_rows(&sweep, 1);
    assert_swept(&sweep);
}

static void test_two_operations(void **state)
{
    crash_sweep sweep;

    init_sweep(&sweep, *state);
    sweep.limit = limit_of_run();
    sweep_rows(&sweep, 2);
    assert_swept(&sweep);
}

/* Rows of three in which something was once found. */
static void test_rows_of_three(void **state)
{
    static const size_t rows[][3] = {
        {1, 5, 4}, /* The cut of a segment behind the recovery point's. */
        {8, 5, 6}, /* A swap's note, and a new segment whose name is lost. */
    };
    crash_sweep sweep;

    init_sweep(&sweep, *state);
    sweep.limit = limit_of_run();
    for (size_t i = 0; i < CRASH_LENGTH(rows); i++) {
        sweep_row(&sweep, rows[i], CRASH_LENGTH(rows[i]));
    }
    assert_swept(&sweep);
}

/* A second crash while the first one is recovered from. */
static void test_one_operation_nested(void **state)
{
    crash_sweep sweep;

    init_sweep(&sweep, *state);
    sweep.limit = limit_of_run();
    sweep.nested = true;
    sweep_rows(&sweep, 0);
    sweep_rows(&sweep, 1);
    assert_swept(&sweep);
    assert_true(sweep.nested_states > 0);
}

/* The process is killed, and killed again while it opens the log. */
static void test_two_operations_killed_twice(void **state)
{
    crash_sweep sweep;

    init_sweep(&sweep, *state);
    sweep.profile = MK_SIM_KILL9;
    sweep.nested = true;
    sweep_rows(&sweep, 2);
    assert_swept(&sweep);
    assert_true(sweep.nested_states > 0);
}

/* What is torn, and what is not a whole number of sectors. */
static void test_one_operation_torn(void **state)
{
    crash_sweep sweep;

    init_sweep(&sweep, *state);
    sweep.limit = limit_of_run();
    sweep.tears = true;
    sweep_rows(&sweep, 1);
    assert_swept(&sweep);
}

/* Without this sync, is some survivor of rows of that length not right? */
static bool is_needed_in(crash_store *store, const char *name, size_t length,
                         bool nested)
{
    crash_sweep sweep;

    init_sweep(&sweep, store);
    sweep.quiet = true;
    sweep.left_out = name;
    sweep.nested = nested;
    sweep_rows(&sweep, length);
    return sweep.faulty;
}

/* The same, as soon as it is found out. What recoveries lead to depends on the
 * syncs that they do. */
static bool is_needed(crash_store *store, const char *name)
{
    void *own = NULL;
    bool needed;

    if (is_needed_in(store, name, 0, false)) return true;
    if (is_needed_in(store, name, 1, false)) return true;
    set_up(&own);
    needed =
        is_needed_in(own, name, 0, true) || is_needed_in(own, name, 1, true);
    tear_down(&own);
    return needed || is_needed_in(store, name, 2, false);
}

/* Syncs of which no row here shows the need, since what they keep from
 * happening happens to a Kafka that finds the directory, in a repair, or where
 * a log shares its file with another directory. Each is left out by name in a
 * test of its own. */
static bool is_shown_elsewhere(const char *name)
{
    static const char *const elsewhere[] = {
        /* spec/c/test_segment_swap_crash.c */
        "SEGMENT_LOG", "SEGMENT_INDEX", "SEGMENTS_AHEAD", "SEGMENTS_SWAP",
        "SEGMENTS_GONE", "SEGMENTS_DONE", "SEGMENTS_UNDONE",
        /* spec/c/test_copy.c */
        "UNSHARE_LOG",
        /* spec/c/test_repair_crash.c */
        "REPAIR_LOG", "REPAIR_QUARANTINE", "REPAIR_DIRECTORY", "REPAIR_PARENT"};

    for (size_t i = 0; i < CRASH_LENGTH(elsewhere); i++) {
        if (strcmp(name, elsewhere[i]) == 0) return true;
    }
    return false;
}

/* No sync is there for nothing. */
static void test_every_sync_is_needed(void **state)
{
    static const char *const names[] = {
#define X(name) #name,
        MK_SYNC_NAMES(X)
#undef X
    };
    size_t needless = 0;

    if (limit_of_run() > 0) skip(); /* Few states show little. */
    for (size_t i = 0; i < MK_SYNC_COUNT; i++) {
        if (is_shown_elsewhere(names[i])) continue;
        if (is_needed(*state, names[i])) continue;
        fprintf(stderr, "%s is not needed\n", names[i]);
        needless++;
    }
    assert_int_equal(needless, 0);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(setting_up_and_one_operation), TEST(two_operations),
        TEST(one_operation_nested),         TEST(two_operations_killed_twice),
        TEST(one_operation_torn),           TEST(rows_of_three),
        TEST(every_sync_is_needed),
    };

    return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
