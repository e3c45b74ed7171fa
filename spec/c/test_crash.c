/*
 * Loss of power at every step of short runs, and every disk that it may leave.
 *
 * A run is one or two operations on a log that has some segments. It is cut off
 * before each of its steps in turn; then the states that the profile allows are
 * opened, and what they hold is compared with what was acknowledged:
 *
 *  - what was flushed, and not taken away on purpose, is there;
 *  - what is there was appended, with these bytes, at this offset, and what
 *    stands before the end has no gap but for what a compaction may remove;
 *  - a log start that was acknowledged does not go back;
 *  - opening a second time changes nothing.
 *
 * MK_CRASH_LIMIT states are looked at per crash; 0 for all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/minikafka_sim.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define OFFSETS_MAX   64
#define DIRECTORY     "/logs/t-0"

/* What is known of the log by those who use it. */
typedef struct ledger {
    int values[OFFSETS_MAX]; /* What was given the offset; 0: nothing. */
    int64_t end;             /* Of what was appended or is being. */
    int64_t durable;         /* Flushed up to here. */
    int64_t start;           /* Acknowledged log start. */
    int64_t start_attempted; /* What a call in progress may make it. */
    int64_t cut;             /* A truncation goes, or went, down to here. */
    bool compacted;          /* A compaction was begun. */
    int next_value;
} ledger;

typedef struct run {
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log;
    ledger known;
} run;

typedef mk_status (*operation)(run *r);

/* ---- Operations ---- */

static mk_status open_log(mk_env *env, mk_log **out, mk_error *err)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = env;
    options.config.index_interval_bytes = 1;
    return mk_log_open(DIRECTORY, &options, out, err);
}

static mk_status append_sized(run *r, size_t size)
{
    static uint8_t value[10000];
    ledger *known = &r->known;
    mk_record record = {.key = "k", .key_size = 1, .timestamp_ms = 5};
    int64_t offset;

    memset(value, 0x5a, sizeof value);
    memcpy(value, &known->next_value, sizeof known->next_value);
    record.value = value;
    record.value_size = size;
    known->values[known->end] = known->next_value++;
    known->end++;
    return mk_log_append_one(r->log, &record, &offset, NULL);
}

static mk_status append_small(run *r)
{
    return append_sized(r, 30);
}

static mk_status append_two_pages(run *r)
{
    return append_sized(r, 9000);
}

static mk_status flush(run *r)
{
    mk_status status = mk_log_flush(r->log, NULL);

    if (status == MK_OK) r->known.durable = r->known.end;
    return status;
}

static mk_status append_and_flush(run *r)
{
    mk_status status = append_small(r);

    return status == MK_OK ? flush(r) : status;
}

static mk_status roll(run *r)
{
    return mk_log_roll(r->log, NULL);
}

static mk_status delete_records(run *r)
{
    mk_status status;

    r->known.start_attempted = r->known.start + 2;
    status = mk_log_delete_records(r->log, r->known.start_attempted, NULL);
    if (status == MK_OK) r->known.start = r->known.start_attempted;
    return status;
}

static mk_status retain(run *r)
{
    mk_retention_options options = {.by_size = true, .retention_bytes = 1};
    mk_cleanup_result result;
    mk_log_info info;
    mk_status status;

    r->known.start_attempted = r->known.end;
    status = mk_log_retain(r->log, &options, &result, NULL);
    mk_cleanup_result_deinit(&result);
    if (status != MK_OK) return status;
    status = mk_log_get_info(r->log, &info, NULL);
    if (status != MK_OK) return status;
    r->known.start = r->known.start_attempted = info.log_start_offset;
    return MK_OK;
}

static mk_status compact(run *r)
{
    mk_compact_options options;
    mk_cleanup_result result;
    mk_status status;

    mk_compact_options_default(&options);
    r->known.compacted = true;
    status = mk_log_compact(r->log, &options, &result, NULL);
    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status truncate_some(run *r)
{
    ledger *known = &r->known;
    int64_t offset = known->end - 2;

    if (offset <= known->start) return MK_OK;
    known->cut = offset;
    if (known->durable > offset) known->durable = offset;
    if (mk_log_truncate_to(r->log, offset, NULL) != MK_OK) return MK_CRASHED;
    for (int64_t i = offset; i < known->end; i++) {
        known->values[i] = 0;
    }
    known->end = offset;
    return MK_OK;
}

static mk_status close_log(run *r)
{
    mk_log *log = r->log;
    mk_status status;

    r->log = NULL;
    status = mk_log_close(log, NULL);
    if (status == MK_OK) r->known.durable = r->known.end;
    return status;
}

static mk_status reopen(run *r)
{
    mk_status status = close_log(r);

    return status == MK_OK ? open_log(r->env, &r->log, NULL) : status;
}

static const struct {
    const char *name;
    operation run;
} operations[] = {
    {"append", append_small},
    {"append two pages", append_two_pages},
    {"flush", flush},
    {"append and flush", append_and_flush},
    {"roll", roll},
    {"delete records", delete_records},
    {"retain", retain},
    {"compact", compact},
    {"truncate", truncate_some},
    {"reopen", reopen},
};

/* ---- Runs ---- */

typedef struct tally {
    int64_t crashes, states;
    int64_t limit;
    const char *left_out; /* A sync that is not done; NULL: all are. */
    bool faulty;          /* Then a survivor was found that is not right. */
} tally;

/* Make a disk with a log of two segments, of which most is flushed. */
static void begin(run *r, const char *left_out)
{
    mk_sim_options options;

    memset(r, 0, sizeof *r);
    r->known.next_value = 1;
    r->known.cut = INT64_MAX;
    mk_sim_options_default(&options);
    assert_int_equal(mk_sim_disk_new(NULL, &options, &r->disk, NULL), MK_OK);
    if (left_out != NULL) {
        assert_int_equal(mk_sim_disk_leave_out(r->disk, left_out, NULL), MK_OK);
    }
    assert_int_equal(mk_env_new_sim(r->disk, &r->env, NULL), MK_OK);
    assert_int_equal(open_log(r->env, &r->log, NULL), MK_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(append_small(r), MK_OK);
    }
    assert_int_equal(roll(r), MK_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(append_small(r), MK_OK);
    }
    assert_int_equal(flush(r), MK_OK);
}

static void end(run *r)
{
    mk_log_abandon(r->log);
    mk_env_free(r->env);
    mk_sim_disk_free(r->disk);
}

/* ---- What a survivor holds ---- */

static void fail_state(const run *r, const char *what, mk_sim_disk *state,
                       const char *message, tally *sum)
{
    mk_sim_paths paths;

    sum->faulty = true;
    if (sum->left_out != NULL) return;
    fprintf(stderr, "profile %s: %s: %s\n",
            mk_sim_profile_name(mk_sim_disk_profile(state)), what, message);
    fprintf(stderr,
            "end %lld durable %lld start %lld..%lld cut %lld compacted %d\n",
            (long long)r->known.end, (long long)r->known.durable,
            (long long)r->known.start, (long long)r->known.start_attempted,
            (long long)r->known.cut, r->known.compacted);
    assert_int_equal(mk_sim_disk_list(state, &paths, NULL), MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        int64_t size = -1;

        (void)!mk_sim_disk_size(state, paths.paths[i], &size, NULL);
        fprintf(stderr, "  %s %lld\n", paths.paths[i], (long long)size);
    }
    mk_sim_paths_deinit(&paths);
    fail_msg("%s: %s", what, message);
}

/* Compare the records of an opened survivor with the ledger; NULL if all is
 * well, else what is not. */
static const char *judge(const ledger *known, mk_log *log)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log_info info;
    int64_t expected;
    mk_status status;
    const char *fault = NULL;

    assert_int_equal(mk_log_get_info(log, &info, NULL), MK_OK);
    if (info.log_start_offset < known->start) return "the start went back";
    if (info.log_start_offset > known->start &&
        info.log_start_offset > known->start_attempted &&
        known->cut == INT64_MAX) {
        return "the start went too far";
    }
    if (info.log_end_offset < known->durable &&
        info.log_end_offset < known->cut) {
        return "the end lies below what was flushed";
    }
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    expected = info.log_start_offset;
    while (fault == NULL &&
           (status = mk_cursor_next(cursor, &view, NULL)) == MK_OK) {
        int value = 0;

        memcpy(&value, view.value, sizeof value);
        if (view.offset >= OFFSETS_MAX || value != known->values[view.offset]) {
            fault = "a record that was never appended there";
        } else if (view.offset != expected && !known->compacted) {
            fault = "a gap";
        }
        expected = view.offset + 1;
    }
    if (fault == NULL && status != MK_END) fault = mk_status_name(status);
    if (fault == NULL && !known->compacted && expected < known->durable &&
        info.log_start_offset < known->durable && expected < known->cut) {
        fault = "flushed records are missing";
    }
    mk_cursor_close(cursor);
    return fault;
}

static mk_status count_change(void *context, const mk_sim_event *event,
                              mk_error *err)
{
    int64_t *changes = context;

    (void)err;
    switch (event->operation) {
    case MK_SIM_WRITE:
    case MK_SIM_TRUNCATE:
    case MK_SIM_ALLOCATE:
    case MK_SIM_UTIME:
    case MK_SIM_RENAME:
    case MK_SIM_EXCHANGE:
    case MK_SIM_LINK:
    case MK_SIM_UNLINK:
    case MK_SIM_MKDIR:
    case MK_SIM_RMDIR:
        ++*changes;
        break;
    default:
        break;
    }
    return MK_OK;
}

/* Open a survivor and judge it. */
static const char *open_and_judge(const run *r, mk_env *env, mk_error *err)
{
    mk_log *log = NULL;
    const char *fault;

    if (open_log(env, &log, err) != MK_OK) return err->message;
    fault = judge(&r->known, log);
    mk_log_abandon(log);
    return fault;
}

/* Open one survivor, judge it, and open it again. */
static void check_state(const run *r, const char *what, mk_sim_disk *state,
                        tally *sum)
{
    mk_env *env = NULL;
    int64_t changes = 0;
    const char *fault;
    mk_error err = {0};

    assert_int_equal(mk_env_new_sim(state, &env, NULL), MK_OK);
    fault = open_and_judge(r, env, &err);
    if (fault == NULL) {
        mk_sim_disk_trace(state, (mk_sim_trace){count_change, &changes});
        fault = open_and_judge(r, env, &err);
        mk_sim_disk_trace(state, (mk_sim_trace){0});
    }
    /* The lock's holder is written at each opening. */
    if (fault == NULL && changes > 2) fault = "a second open changes files";
    mk_env_free(env);
    if (fault != NULL) fail_state(r, what, state, fault, sum);
}

static void check_states(const run *r, const char *what, mk_sim_profile profile,
                         tally *sum)
{
    mk_sim_states_options options;
    mk_sim_states *states = NULL;
    mk_sim_disk *state = NULL;

    mk_sim_states_options_default(&options);
    options.profile = profile;
    options.limit = sum->limit > 0 ? sum->limit : -1;
    assert_int_equal(mk_sim_states_open(r->disk, &options, &states, NULL),
                     MK_OK);
    while (mk_sim_states_next(states, &state, NULL) == MK_OK) {
        check_state(r, what, state, sum);
        mk_sim_disk_free(state);
        sum->states++;
    }
    mk_sim_states_close(states);
}

/* Do a row of operations with a crash before step number `step` after the
 * beginning; false when the row ended before. */
static bool crash_at(const size_t *row, size_t count, int64_t step,
                     const char *what, mk_sim_profile profile, tally *sum)
{
    mk_sim_stats stats;
    mk_status status = MK_OK;
    bool crashed;
    run r;

    begin(&r, sum->left_out);
    mk_sim_disk_stats(r.disk, &stats);
    mk_sim_disk_crash_at(r.disk, stats.steps + step, MK_SIM_KILL9);
    for (size_t i = 0; status == MK_OK && i < count; i++) {
        status = operations[row[i]].run(&r);
    }
    mk_sim_disk_stats(r.disk, &stats);
    crashed = stats.crashes > 0;
    if (crashed) {
        sum->crashes++;
        check_states(&r, what, profile, sum);
    } else {
        assert_int_equal(status, MK_OK);
    }
    end(&r);
    return crashed;
}

static void crash_everywhere(const size_t *row, size_t count,
                             mk_sim_profile profile, tally *sum)
{
    char what[160];
    char names[120] = "";
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i > 0 ? ", " : "", operations[row[i]].name);
    }
    for (int64_t step = 1;; step++) {
        snprintf(what, sizeof what, "%s, step %lld", names, (long long)step);
        if (!crash_at(row, count, step, what, profile, sum)) break;
        if (sum->faulty) break;
    }
}

static int64_t limit_of_run(int64_t ordinary)
{
    const char *text = getenv("MK_CRASH_LIMIT");

    return text != NULL ? strtoll(text, NULL, 10) : ordinary;
}

/* One operation, every state of every profile. */
static void test_one_operation(void **unused)
{
    tally sum = {.limit = limit_of_run(400)};

    (void)unused;
    for (size_t a = 0; a < LENGTH(operations); a++) {
        crash_everywhere(&a, 1, MK_SIM_HOSTILE, &sum);
    }
    printf("%lld crashes, %lld states\n", (long long)sum.crashes,
           (long long)sum.states);
    assert_true(sum.states > sum.crashes);
}

/* Two operations, the same. */
static void test_two_operations(void **unused)
{
    tally sum = {.limit = limit_of_run(12)};

    (void)unused;
    for (size_t a = 0; a < LENGTH(operations); a++) {
        for (size_t b = 0; b < LENGTH(operations); b++) {
            size_t row[] = {a, b};

            crash_everywhere(row, 2, MK_SIM_HOSTILE, &sum);
        }
    }
    printf("%lld crashes, %lld states\n", (long long)sum.crashes,
           (long long)sum.states);
    assert_true(sum.states > sum.crashes);
}

/* No sync is there for nothing: without any one of these some survivor is not
 * right. SWAP_TREE and SWAP_DONE are not among them: what they keep from
 * happening stands beside the log; see test_swap_tree. */
static void test_every_sync_is_needed(void **unused)
{
    static const char *const syncs[] = {
        "FLUSH_LOG",         "SEAL_LOG",     "FLUSH_DIRECTORY",
        "CREATE_PARENT",     "TRUNCATE_LOG", "REPLACE_FILE",
        "REPLACE_DIRECTORY", "SWAP_LOG",     "SWAP_PARENT",
    };
    size_t needless = 0;

    (void)unused;
    if (getenv("MK_CRASH_LIMIT") != NULL) skip(); /* Few states show little. */
    for (size_t i = 0; i < LENGTH(syncs); i++) {
        tally sum = {.limit = limit_of_run(400), .left_out = syncs[i]};

        for (size_t a = 0; !sum.faulty && a < LENGTH(operations); a++) {
            crash_everywhere(&a, 1, MK_SIM_HOSTILE, &sum);
        }
        for (size_t a = 0; !sum.faulty && a < LENGTH(operations); a++) {
            for (size_t b = 0; !sum.faulty && b < LENGTH(operations); b++) {
                size_t row[] = {a, b};

                crash_everywhere(row, 2, MK_SIM_HOSTILE, &sum);
            }
        }
        if (sum.faulty) continue;
        fprintf(stderr, "%s is not needed\n", syncs[i]);
        needless++;
    }
    assert_int_equal(needless, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_operation),
        cmocka_unit_test(test_two_operations),
        cmocka_unit_test(test_every_sync_is_needed),
    };

    return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
