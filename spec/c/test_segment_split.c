/* A segment whose base can't reach all its offsets is split when it is opened,
 * whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/batch.h"
#include "include/minikafka_sim.h"
#include "log/segment_split.h"

#define DIRECTORY "/logs/t-0"
#define FAR       (INT64_C(1) << 31)

static const int64_t offsets[] = {0, 3, FAR + 5, FAR + 9};

#define ALL "0 3 2147483653 2147483657 "

/* Append a batch of one record to the bytes; returns how many there are. */
static size_t add_batch(uint8_t *bytes, size_t size, int64_t offset)
{
    mk_batch batch = {.base_offset = offset,
                      .producer_id = -1,
                      .producer_epoch = -1,
                      .base_sequence = -1};
    mk_record record = {.key = "k", .key_size = 1};
    mk_batch_builder builder;

    mk_batch_builder_init(&builder, bytes + size);
    mk_batch_builder_add(&builder, &record, 7, 0);
    mk_batch_builder_seal(&builder, &batch);
    return size + batch.size;
}

static void put(mk_sim_disk *disk, int64_t base_offset, const void *bytes,
                size_t size)
{
    char path[128];

    snprintf(path, sizeof path, DIRECTORY "/%020" PRId64 ".log", base_offset);
    assert_int_equal(mk_sim_disk_write(disk, path, bytes, size, NULL), MK_OK);
}

/* Make a disk with the segment at 0, from batch number `first` on, `cut` bytes
 * short of its end; and an empty one behind it if it is `closed`. */
static mk_sim_disk *make_disk(size_t first, size_t cut, bool closed)
{
    uint8_t bytes[1024];
    size_t size = 0;
    mk_sim_disk *disk;

    assert_int_equal(mk_sim_disk_new(NULL, NULL, &disk, NULL), MK_OK);
    for (size_t i = first; i < 4; i++) {
        size = add_batch(bytes, size, offsets[i]);
    }
    put(disk, 0, bytes, size - cut);
    if (closed) put(disk, FAR + 20, "", 0);
    return disk;
}

static mk_status try_open(mk_env *env, bool read_only, mk_log **out,
                          mk_error *err)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = env;
    options.read_only = read_only;
    return mk_log_open(DIRECTORY, &options, out, err);
}

/* Open the log on the disk, tell its offsets, and let it be. */
static const char *tell(mk_sim_disk *disk, bool read_only, mk_status *status)
{
    static char told[512];
    static mk_error err;
    mk_env *env = NULL;
    mk_log *log = NULL;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    size_t used = 0;

    told[0] = '\0';
    assert_int_equal(mk_env_new_sim(disk, &env, NULL), MK_OK);
    *status = try_open(env, read_only, &log, &err);
    if (*status == MK_OK) *status = mk_cursor_open(log, NULL, &cursor, &err);
    if (*status != MK_OK) snprintf(told, sizeof told, "%.500s", err.message);
    while (*status == MK_OK && mk_cursor_next(cursor, &view, NULL) == MK_OK) {
        used += (size_t)snprintf(told + used, sizeof told - used,
                                 "%" PRId64 " ", view.offset);
    }
    mk_cursor_close(cursor);
    mk_log_abandon(log);
    mk_env_free(env);
    return told;
}

static void assert_told(mk_sim_disk *disk, bool read_only, const char *expected)
{
    mk_status status;

    const char *told = tell(disk, read_only, &status);

    assert_string_equal(told, expected);
    assert_int_equal(status, MK_OK);
}

static mk_status count_change(void *context, const mk_sim_event *event,
                              mk_error *err)
{
    static const char *const harmless[] = {"open",  "read",      "stat",
                                           "list",  "lock",      "close",
                                           "fsync", "fdatasync", "fsync_dir"};
    const char *word = mk_sim_operation_name(event->operation);

    (void)err;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (strcmp(word, harmless[i]) == 0) return MK_OK;
    }
    ++*(int64_t *)context;
    return MK_OK;
}

static bool has_segment(mk_sim_disk *disk, int64_t base_offset)
{
    char path[128];
    int64_t size;

    snprintf(path, sizeof path, DIRECTORY "/%020" PRId64 ".log", base_offset);
    return mk_sim_disk_size(disk, path, &size, NULL) == MK_OK;
}

/* A reader sees what stands before; who writes splits it, once. */
static void test_it_is_split(void **state)
{
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        mk_sim_disk *disk = make_disk(0, 0, closed == 1);
        int64_t changes = 0;

        mk_sim_disk_trace(disk, (mk_sim_trace){count_change, &changes});
        assert_told(disk, true, "0 3 ");
        assert_int_equal(changes, 0);
        assert_told(disk, false, ALL);
        assert_true(has_segment(disk, 0));
        assert_true(has_segment(disk, FAR + 5));
        changes = 0;
        assert_told(disk, false, ALL);
        assert_true(changes <= 2); /* The lock's holder. */
        assert_told(disk, true, ALL);
        mk_sim_disk_free(disk);
    }
}

/* Where nothing is within reach, one segment with another base is left. */
static void test_nothing_is_within_reach(void **state)
{
    mk_sim_disk *disk = make_disk(2, 0, true);

    (void)state;
    assert_told(disk, false, "2147483653 2147483657 ");
    assert_false(has_segment(disk, 0));
    assert_true(has_segment(disk, FAR + 5));
    mk_sim_disk_free(disk);
}

/* A torn end goes from the last segment; a closed one is not touched. */
static void test_a_torn_end(void **state)
{
    mk_sim_disk *disk = make_disk(0, 3, false);
    mk_status status;
    int64_t changes = 0;

    (void)state;
    assert_told(disk, false, "0 3 2147483653 ");
    mk_sim_disk_free(disk);
    disk = make_disk(0, 3, true);
    tell(disk, false, &status);
    assert_int_equal(status, MK_CORRUPT_SEGMENT);
    mk_sim_disk_trace(disk, (mk_sim_trace){count_change, &changes});
    assert_told(disk, true, "0 3 ");
    assert_true(has_segment(disk, 0));
    assert_false(has_segment(disk, FAR + 5));
    mk_sim_disk_free(disk);
}

/* Every state that a loss of power leaves at any step has all of it. */
static void judge_states(mk_sim_disk *disk, int64_t *count)
{
    mk_sim_states_options options;
    mk_sim_states *states = NULL;
    mk_sim_disk *found = NULL;

    mk_sim_states_options_default(&options);
    options.profile = MK_SIM_HOSTILE;
    options.limit = 60;
    assert_int_equal(mk_sim_states_open(disk, &options, &states, NULL), MK_OK);
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        mk_status status;
        const char *told = tell(found, true, &status);

        /* A reader sees what it was, or what it is to be. */
        assert_true(strcmp(told, "0 3 ") == 0 || strcmp(told, ALL) == 0);
        assert_told(found, false, ALL);
        mk_sim_disk_free(found);
        ++*count;
    }
    mk_sim_states_close(states);
}

static void test_a_crash_at_every_step(void **state)
{
    int64_t count = 0;

    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        bool crashed = true;

        for (int64_t step = 1; crashed; step++) {
            mk_sim_disk *disk = make_disk(0, 0, closed == 1);
            mk_sim_stats stats;
            mk_status status;

            mk_sim_disk_crash_at(disk, step, MK_SIM_KILL9);
            tell(disk, false, &status);
            mk_sim_disk_stats(disk, &stats);
            crashed = stats.crashes > 0;
            judge_states(disk, &count);
            mk_sim_disk_free(disk);
        }
    }
    assert_true(count > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_split),
        cmocka_unit_test(test_nothing_is_within_reach),
        cmocka_unit_test(test_a_torn_end),
        cmocka_unit_test(test_a_crash_at_every_step),
    };

    return cmocka_run_group_tests_name("segment_split", tests, NULL, NULL);
}
