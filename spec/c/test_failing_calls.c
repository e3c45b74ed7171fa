/*
 * Every call to the disk fails once, or from then on, in every way, during one
 * or two operations on a log; then the disk is well again.
 *
 *  - An operation that fails gives IO, and what it was to do is not done, or
 *    partly where it was to remove something.
 *  - The log goes on by itself: the next append is taken. It was opened again
 *    only where that was the operation.
 *  - What was acknowledged is there, with its offset; what was not is not. Only
 *    where a failed sync took pages away may records that were not flushed be
 *    missing, and then an error told which.
 *  - What is flushed then outlasts a loss of power.
 *
 * The same when the process dies after the operations, and another one opens
 * the log. Of two operations only every third call fails, or every n-th with
 * MK_FAULT_SHARE = n.
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
#include "support/rewrite_segments.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])
#define OFFSETS_MAX   64
#define DIRECTORY     "/logs/t-0"

/* ---- Ways to fail ---- */

typedef struct way {
    const char *name;
    mk_sim_operation operation;
    int os_errno;
    int64_t short_size;
    mk_sim_flavour flavour;
} way;

#define ANY(os_errno)                                              \
    {                                                              \
#os_errno, MK_SIM_ANY_OPERATION, os_errno, -1, MK_SIM_LOST \
    }

static const way ways[] = {
    ANY(EIO),
    ANY(ENOSPC),
    ANY(EDQUOT),
    ANY(EINTR),
    ANY(EMFILE),
    ANY(EROFS),
    ANY(EACCES),
    {"short", MK_SIM_WRITE, ENOSPC, 25, MK_SIM_RETRYABLE},
    {"sync, lost", MK_SIM_FDATASYNC, EIO, -1, MK_SIM_LOST},
    {"sync, reverted", MK_SIM_FDATASYNC, EIO, -1, MK_SIM_REVERTED},
    {"sync, retryable", MK_SIM_FDATASYNC, EIO, -1, MK_SIM_RETRYABLE},
};

/* ---- What is known ---- */

typedef struct ledger {
    int values[OFFSETS_MAX];    /* What the offset was given; 0: nothing. */
    bool optional[OFFSETS_MAX]; /* It may be missing. */
    bool going[OFFSETS_MAX];    /* A rewrite that failed was to take it away:
                                   all of these, or none. */
    int64_t end_min, end;       /* Where the log ends. */
    int64_t durable;            /* Flushed up to here. */
    int64_t start, start_max;   /* Where it starts. */
    int next_value;
} ledger;

typedef struct run {
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log; /* NULL: it could not be opened. */
    mk_error err;
    ledger known;
    const way *way;
    const char *what;
    int64_t told; /* Losses. */
    int copies;
} run;

static void complain(const run *r, const char *fault)
{
    fail_msg("%s: %s: %s", r->what, fault, r->err.message);
}

/* Records from `from` on may be missing, or their offsets be given again. */
static void allow_missing(ledger *known, int64_t from)
{
    for (int64_t i = from; i < known->end; i++) {
        known->optional[i] = true;
    }
    if (known->end_min > from) known->end_min = from;
    if (known->durable > from) known->durable = from;
}

/* An operation ended so; was it done? */
static bool is_done(run *r, mk_status status)
{
    if (status == MK_OK) return true;
    if (status != MK_IO) complain(r, mk_status_name(status));
    if (strstr(r->err.message, "has lost the records") == NULL) return false;
    if (r->way->flavour != MK_SIM_REVERTED) complain(r, "lost");
    if (r->err.offset < r->known.durable) complain(r, "lost what was flushed");
    r->told++;
    for (int64_t i = r->err.offset; i < r->known.end; i++) {
        r->known.optional[i] = true; /* The end stays. */
    }
    return false;
}

/* ---- Operations ---- */

static mk_status try_open(run *r)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = r->env;
    options.config.index_interval_bytes = 4000;
    return mk_log_open(DIRECTORY, &options, &r->log, &r->err);
}

static bool append_sized(run *r, size_t size)
{
    static uint8_t value[10000];
    ledger *known = &r->known;
    mk_record record = {.value = value, .value_size = size, .timestamp_ms = 5};
    int64_t offset;

    record.key = &known->next_value;
    record.key_size = sizeof known->next_value;
    memset(value, 0x5a, sizeof value);
    memcpy(value, &known->next_value, sizeof known->next_value);
    known->next_value++;
    if (!is_done(r, mk_log_append_one(r->log, &record, &offset, &r->err))) {
        return false;
    }
    if (offset < known->end_min || offset > known->end) complain(r, "offset");
    for (int64_t i = offset; i < known->end; i++) {
        known->values[i] = 0;
    }
    known->values[offset] = known->next_value - 1;
    known->optional[offset] = known->going[offset] = false;
    known->end = known->end_min = offset + 1;
    return true;
}

static void append_page(run *r)
{
    (void)append_sized(r, 3900);
}

static void append_two_pages(run *r)
{
    (void)append_sized(r, 8000);
}

static void append_small(run *r)
{
    (void)append_sized(r, 30);
}

static bool flush_all(run *r)
{
    if (!is_done(r, mk_log_flush(r->log, &r->err))) return false;
    r->known.durable = r->known.end_min;
    return true;
}

static void flush(run *r)
{
    (void)flush_all(r);
}

static void append_and_flush(run *r)
{
    if (append_sized(r, 30)) flush(r);
}

static void roll(run *r)
{
    (void)is_done(r, mk_log_roll(r->log, &r->err));
}

static void see_start(run *r)
{
    mk_log_info info;

    if (mk_log_get_info(r->log, &info, &r->err) != MK_OK) complain(r, "info");
    if (info.log_start_offset < r->known.start ||
        info.log_start_offset > r->known.start_max) {
        complain(r, "start");
    }
    r->known.start = info.log_start_offset;
}

static void delete_records(run *r)
{
    int64_t offset = r->known.start + 2;

    if (offset > r->known.end_min) return;
    if (r->known.start_max < offset) r->known.start_max = offset;
    if (is_done(r, mk_log_delete_records(r->log, offset, &r->err))) {
        r->known.start = offset;
    }
}

static void retain(run *r)
{
    mk_retention_options options = {.by_size = true, .retention_bytes = 1};
    mk_cleanup_result result;
    mk_status status;

    r->known.start_max = r->known.end;
    status = mk_log_retain(r->log, &options, &result, &r->err);
    mk_cleanup_result_deinit(&result);
    if (is_done(r, status)) see_start(r);
}

static void compact(run *r)
{
    mk_cleanup_result result;
    mk_status status = mk_log_compact(r->log, NULL, &result, &r->err);

    mk_cleanup_result_deinit(&result);
    (void)is_done(r, status);
}

/* Rewrite the closed segments into two, without every second batch. */
static void rewrite(run *r)
{
    const rewrite_rule rule = {.split_at = 2};
    mk_segment_info segments[16];
    size_t count;
    mk_status status =
        mk_log_segments(r->log, segments, LENGTH(segments), &count, &r->err);

    if (status != MK_OK || count > LENGTH(segments)) complain(r, "segments");
    status = rewrite_segments(r->log, 0, count - 1, &rule, &r->err);
    for (int64_t i = 1; i < segments[count - 1].base_offset; i += 2) {
        if (status == MK_OK) r->known.values[i] = 0;
        r->known.optional[i] = r->known.going[i] = r->known.values[i] != 0;
    }
    (void)is_done(r, status);
}

static void truncate_some(run *r)
{
    ledger *known = &r->known;
    int64_t offset = known->end_min - 2;

    if (offset <= known->start_max) return;
    if (!is_done(r, mk_log_truncate_to(r->log, offset, &r->err))) {
        allow_missing(known, offset);
        return;
    }
    for (int64_t i = offset; i < known->end; i++) {
        known->values[i] = 0;
        known->optional[i] = false;
    }
    known->end = known->end_min = offset;
    if (known->durable > offset) known->durable = offset;
}

static void copy(run *r)
{
    char target[40];
    mk_status status;

    snprintf(target, sizeof target, "/copies/t-%d", r->copies++);
    status = mk_log_copy_to(r->log, target, NULL, &r->err);
    /* It reads, and what the disk took away is not there to be read. */
    if (status == MK_CORRUPT_SEGMENT && r->way->flavour == MK_SIM_REVERTED) {
        return;
    }
    (void)is_done(r, status);
}

static void close_log(run *r)
{
    mk_log *log = r->log;

    r->log = NULL;
    if (is_done(r, mk_log_close(log, &r->err))) {
        r->known.durable = r->known.end_min;
    } else if (r->way->flavour == MK_SIM_REVERTED) {
        /* What the disk took away, the one who opens next can't know. */
        allow_missing(&r->known, r->known.durable);
    }
}

/* False: it could not be opened. */
static bool open_log(run *r)
{
    mk_status status = try_open(r);

    if (status != MK_OK && status != MK_IO) complain(r, "open");
    return status == MK_OK;
}

static void reopen(run *r)
{
    close_log(r);
    (void)open_log(r);
}

static const struct {
    const char *name;
    void (*run)(run *r);
} operations[] = {
    {"append a page", append_page},
    {"append two pages", append_two_pages},
    {"append", append_small},
    {"flush", flush},
    {"append and flush", append_and_flush},
    {"roll", roll},
    {"delete records", delete_records},
    {"retain", retain},
    {"compact", compact},
    {"rewrite segments", rewrite},
    {"truncate", truncate_some},
    {"copy", copy},
    {"close", close_log},
    {"reopen", reopen},
};

/* ---- Looking ---- */

/* What a rewrite was to take away is there, or all of it is not. */
static void note_going(run *r, bool *states, int64_t offset, bool there)
{
    if (!r->known.going[offset] || r->known.values[offset] == 0) return;
    states[there] = true;
    if (states[!there]) complain(r, "a rewrite by half");
}

/* Compare what the log holds with the ledger. */
static void check(run *r)
{
    bool states[2] = {false, false};
    const ledger *known = &r->known;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log_info info;
    mk_status status;
    int64_t expected;

    see_start(r);
    if (mk_log_get_info(r->log, &info, &r->err) != MK_OK) complain(r, "info");
    if (info.log_end_offset < known->end_min) complain(r, "end too low");
    if (info.log_end_offset > known->end) complain(r, "end too high");
    status = mk_cursor_open(r->log, NULL, &cursor, &r->err);
    if (status != MK_OK) complain(r, "cursor");
    expected = info.log_start_offset;
    while ((status = mk_cursor_next(cursor, &view, &r->err)) == MK_OK) {
        int value;

        memcpy(&value, view.value, sizeof value);
        if (view.offset >= known->end || value != known->values[view.offset]) {
            complain(r, "a record that was not taken");
        }
        for (; expected < view.offset; expected++) {
            if (known->values[expected] != 0 && !known->optional[expected]) {
                complain(r, "a record is missing");
            }
            note_going(r, states, expected, false);
        }
        note_going(r, states, expected, true);
        expected++;
    }
    mk_cursor_close(cursor);
    if (status != MK_END) complain(r, "reading");
    for (; expected < known->end; expected++) {
        if (known->values[expected] != 0 && !known->optional[expected]) {
            complain(r, "a record is missing at the end");
        }
    }
}

static void boot(run *r)
{
    mk_log_abandon(r->log);
    r->log = NULL;
    mk_env_free(r->env);
    assert_int_equal(mk_env_new_sim(r->disk, &r->env, NULL), MK_OK);
}

/* The process dies. What the disk took away before, nobody knows. */
static void die(run *r)
{
    boot(r);
    if (r->way->flavour == MK_SIM_REVERTED) {
        allow_missing(&r->known, r->known.durable);
    }
}

/* The disk is well again: so is the log. */
static void recover(run *r)
{
    if (r->log == NULL && try_open(r) != MK_OK) complain(r, "does not open");
    if (r->way->flavour != MK_SIM_REVERTED) check(r);
    if (!append_sized(r, 30)) {
        if (r->told == 0) complain(r, "does not go on");
        if (!append_sized(r, 30)) complain(r, "does not go on then");
    }
    check(r);
    if (!flush_all(r)) complain(r, "is not flushed");
    if (mk_sim_disk_crash(r->disk, MK_SIM_LAZY, &r->err) != MK_OK) {
        complain(r, "crash");
    }
    boot(r);
    if (try_open(r) != MK_OK) complain(r, "does not open after a crash");
    check(r);
}

/* ---- Sweeping ---- */

enum {
    ONCE = 1, /* One call fails; else it and all after it. */
    DIES = 2, /* Then the process dies. */
    MODE_COUNT = 4
};

typedef struct tally {
    int64_t share;
    int64_t seen, attempts, hits, losses;
} tally;

/* Make a disk with a log of two segments, of which most is flushed. */
static void begin(run *r)
{
    mk_sim_options options;

    mk_sim_options_default(&options);
    assert_int_equal(mk_sim_disk_new(NULL, &options, &r->disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(r->disk, &r->env, NULL), MK_OK);
    assert_int_equal(try_open(r), MK_OK);
    for (int i = 0; i < 3; i++) {
        append_small(r);
    }
    roll(r);
    append_small(r);
    append_small(r);
    flush(r);
    append_small(r);
    append_small(r);
}

/* Is the log let go in the row? */
static bool closes(const size_t *row, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (operations[row[i]].run == reopen) return true;
        if (operations[row[i]].run == close_log) return true;
    }
    return false;
}

/* Do a row of operations in which the call behind the first `after` of those
 * that may fail does; false when there is none. */
static bool try_row(const size_t *row, size_t count, const way *w,
                    unsigned mode, int64_t after, tally *sum)
{
    bool once = (mode & ONCE) != 0;
    bool dies = (mode & DIES) != 0;
    run r = {.way = w, .known = {.next_value = 1}};
    mk_sim_fault fault;
    mk_sim_stats stats;
    char what[160];

    snprintf(what, sizeof what, "%s%s%s, %s%s%s, call %lld",
             operations[row[0]].name, count > 1 ? ", " : "",
             count > 1 ? operations[row[1]].name : "", w->name,
             once ? "" : " from then on", dies ? ", death" : "",
             (long long)after);
    r.what = what;
    begin(&r);
    mk_sim_fault_default(&fault);
    fault.operation = w->operation;
    fault.os_errno = w->os_errno;
    fault.short_size = w->short_size;
    fault.flavour = w->flavour;
    /* Where nothing can be noted any more and then the log is let go, nobody
     * can know of lost pages. */
    if (w->operation == MK_SIM_ANY_OPERATION && !once &&
        (dies || closes(row, count))) {
        fault.flavour = MK_SIM_RETRYABLE;
    }
    fault.after = after;
    fault.times = once ? 1 : 0;
    assert_int_equal(mk_sim_disk_fail(r.disk, &fault, NULL), MK_OK);
    for (size_t i = 0; i < count; i++) {
        if (r.log == NULL && !open_log(&r)) break;
        operations[row[i]].run(&r);
    }
    mk_sim_disk_stats(r.disk, &stats);
    mk_sim_disk_heal(r.disk);
    if (dies) die(&r);
    recover(&r);
    mk_log_abandon(r.log);
    mk_env_free(r.env);
    mk_sim_disk_free(r.disk);
    sum->attempts++;
    sum->hits += stats.faults > 0;
    sum->losses += r.told;
    return stats.faults > 0;
}

static void fail_everywhere(const size_t *row, size_t count, tally *sum)
{
    for (size_t i = 0; i < LENGTH(ways); i++) {
        for (unsigned mode = 0; mode < MODE_COUNT; mode++) {
            int64_t first = sum->seen++ % sum->share;
            int64_t after = first;

            while (try_row(row, count, &ways[i], mode, after, sum)) {
                after += sum->share;
            }
        }
    }
}

static int64_t share_of_run(int64_t ordinary)
{
    const char *text = getenv("MK_FAULT_SHARE");
    int64_t share = text != NULL ? strtoll(text, NULL, 10) : ordinary;

    return share > 0 ? share : 1;
}

static void report(const tally *sum)
{
    printf("every %lldth call: %lld attempts, %lld of them with a fault, %lld "
           "told of a loss\n",
           (long long)sum->share, (long long)sum->attempts,
           (long long)sum->hits, (long long)sum->losses);
    assert_true(sum->hits > 0);
    if (sum->share == 1) assert_true(sum->losses > 0);
}

static void test_one_operation(void **unused)
{
    tally sum = {.share = share_of_run(1)};

    (void)unused;
    for (size_t a = 0; a < LENGTH(operations); a++) {
        fail_everywhere(&a, 1, &sum);
    }
    report(&sum);
}

static void test_two_operations(void **unused)
{
    tally sum = {.share = share_of_run(3)};

    (void)unused;
    for (size_t a = 0; a < LENGTH(operations); a++) {
        for (size_t b = 0; b < LENGTH(operations); b++) {
            size_t row[] = {a, b};

            fail_everywhere(row, 2, &sum);
        }
    }
    report(&sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_operation),
        cmocka_unit_test(test_two_operations),
    };

    return cmocka_run_group_tests_name("failing_calls", tests, NULL, NULL);
}
