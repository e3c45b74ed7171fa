/*
 * A writer in a process of its own, which appends, rolls, compacts, retains and
 * truncates without a pause; readers here, each with its own log, which go
 * through it again and again. What a reader is given has to be whole, in order,
 * and complete: every third record has a key of its own, so that no compaction
 * removes it. A reader ends at the log end or is told that its offset is gone;
 * it never hears of damage, and finds none when it looks for some.
 */
#define _GNU_SOURCE
#include "support/posix_world.h"

#include <stdatomic.h>

#include <pthread.h>
#include <sys/wait.h>

#define STEPS   1500
#define READERS 3
#define KEYS    5

typedef struct reader {
    const char *where; /* Borrowed. */
    bool truncates;    /* So does the writer. */
    atomic_bool *over; /* Borrowed: the writer has ended. */
    pthread_t thread;
    long passes;
    char fault[600]; /* "" while there is none. */
} reader;

/* ---- The writer ---- */

static bool is_unique(int64_t offset)
{
    return offset % 3 == 0;
}

static void write_text(char *key, char *value, size_t size, int64_t offset)
{
    if (is_unique(offset)) {
        snprintf(key, size, "only%lld", (long long)offset);
    } else {
        snprintf(key, size, "key%lld", (long long)offset % KEYS);
    }
    snprintf(value, size, "the value of offset %lld", (long long)offset);
}

static mk_status append_one(mk_log *log, int64_t *end, mk_error *err)
{
    char key[40], value[80];
    mk_record record = {.timestamp_ms = MK_TIMESTAMP_NOW};
    mk_offset_range range;
    mk_status status;

    write_text(key, value, sizeof key, *end);
    record.key = key;
    record.key_size = strlen(key);
    record.value = value;
    record.value_size = strlen(value);
    status = mk_log_append(log, &record, 1, NULL, &range, err);
    if (status == MK_OK) *end = range.last + 1;
    return status;
}

static mk_status clean_up(mk_log *log, int step, bool truncates, int64_t *end,
                          mk_error *err)
{
    mk_cleanup_result result;
    mk_status status;

    if (truncates && step % 5 == 0) {
        *end -= 7;
        return mk_log_truncate_to(log, *end, err);
    }
    if (step % 7 == 0) {
        return mk_log_delete_records(log, *end - *end / 3, err);
    }
    status = mk_log_compact(log, NULL, &result, err);
    if (status == MK_OK) mk_cleanup_result_deinit(&result);
    return status;
}

/* Runs in a child; what it returns is its exit status. */
static int write_all(const char *where, bool truncates, int ready)
{
    mk_open_options options;
    mk_error err = {0};
    mk_log *log = NULL;
    int64_t end = 0;
    mk_status status;

    mk_open_options_default(&options);
    options.config.segment_bytes = 2000;
    options.config.index_interval_bytes = 200;
    status = mk_log_open(where, &options, &log, &err);
    if (status != MK_OK || write(ready, "r", 1) != 1) return 1;
    for (int step = 1; status == MK_OK && step <= STEPS; step++) {
        for (int i = 0; status == MK_OK && i < 1 + step % 20; i++) {
            status = append_one(log, &end, &err);
        }
        if (status == MK_OK && step % 3 == 0) status = mk_log_roll(log, &err);
        if (status == MK_OK && step % 4 == 0) {
            status = clean_up(log, step / 4, truncates, &end, &err);
        }
    }
    if (status == MK_OK) status = mk_log_close(log, &err);
    if (status != MK_OK) fprintf(stderr, "writer: %s\n", err.message);
    return status == MK_OK ? 0 : 2;
}

/* ---- Readers ---- */

static bool is_right(const mk_record_view *view)
{
    char key[40], value[80];

    write_text(key, value, sizeof key, view->offset);
    return view->key_size == strlen(key) && view->value_size == strlen(value) &&
           memcmp(view->key, key, view->key_size) == 0 &&
           memcmp(view->value, value, view->value_size) == 0;
}

/* Is a record missing that nothing removes? Only a truncation leaves gaps. */
static bool misses_one(const reader *r, int64_t from, int64_t to)
{
    for (int64_t offset = from; !r->truncates && offset < to; offset++) {
        if (is_unique(offset)) return true;
    }
    return false;
}

static void note(reader *r, const char *what, int64_t offset, const char *more)
{
    if (r->fault[0] != '\0') return;
    snprintf(r->fault, sizeof r->fault, "%s at %lld: %s", what,
             (long long)offset, more);
}

/* Read from the start to the end as it is when that is reached. */
static void read_through(reader *r, mk_log *log)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_error err = {0};
    mk_status status = mk_cursor_open(log, NULL, &cursor, &err);
    int64_t expected;

    if (status != MK_OK) {
        note(r, "cursor", -1, err.message);
        return;
    }
    expected = mk_cursor_next_offset(cursor);
    while ((status = mk_cursor_next(cursor, &view, &err)) == MK_OK) {
        if (view.offset < expected) note(r, "order", view.offset, "");
        if (!is_right(&view)) note(r, "bytes", view.offset, "");
        if (misses_one(r, expected, view.offset)) {
            note(r, "gap", expected, "");
        }
        expected = view.offset + 1;
    }
    if (status == MK_OFFSET_OUT_OF_RANGE) {
        if (err.requested < 0) note(r, "range", err.requested, err.message);
    } else if (status != MK_END) {
        note(r, mk_status_name(status), expected, err.message);
    }
    r->passes++;
    mk_cursor_close(cursor);
}

static void look_up(reader *r, mk_log *log)
{
    int64_t offset, found_ms;
    mk_error err = {0};
    mk_status status =
        mk_log_offset_for_timestamp(log, 1, &offset, &found_ms, &err);

    if (status == MK_OK || status == MK_END) return;
    if (status == MK_OFFSET_OUT_OF_RANGE) return;
    note(r, "lookup", 1, err.message);
}

static void verify(reader *r, mk_log *log)
{
    mk_findings findings;
    mk_error err = {0};
    mk_status status = mk_log_verify(log, NULL, &findings, &err);

    if (status != MK_OK) note(r, "verify", -1, err.message);
    for (size_t i = 0; status == MK_OK && i < findings.count; i++) {
        const mk_finding *finding = &findings.array[i];

        note(r, mk_finding_name(finding->code), finding->offset,
             finding->message);
    }
    if (status == MK_OK) mk_findings_deinit(&findings);
}

static mk_log *open_reader(reader *r)
{
    mk_open_options options;
    mk_error err = {0};
    mk_log *log = NULL;

    mk_open_options_default(&options);
    options.read_only = true;
    options.max_open_files = 2;
    if (mk_log_open(r->where, &options, &log, &err) != MK_OK) {
        note(r, "open", -1, err.message);
    }
    return log;
}

/* Every other time in a log that stays open. */
static void *read_on(void *argument)
{
    reader *r = argument;
    mk_log *old = open_reader(r);

    do {
        mk_log *log = open_reader(r);

        if (log != NULL) read_through(r, log);
        if (old != NULL) {
            mk_error err = {0};

            if (mk_log_refresh(old, &err) != MK_OK) {
                note(r, "refresh", -1, err.message);
            }
            read_through(r, old);
            look_up(r, old);
            verify(r, old);
        }
        mk_log_close(log, NULL);
    } while (!atomic_load(r->over) && r->fault[0] == '\0');
    mk_log_close(old, NULL);
    return NULL;
}

static void run(posix_world *world, bool truncates)
{
    reader readers[READERS] = {0};
    atomic_bool over = false;
    char where[300], byte;
    int ready[2], status = 0;
    pid_t writer;

    snprintf(where, sizeof where, "%s/t-0", world->root);
    assert_int_equal(pipe(ready), 0);
    writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) _exit(write_all(where, truncates, ready[1]));
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    for (int i = 0; i < READERS; i++) {
        reader *r = &readers[i];

        *r = (reader){.where = where, .truncates = truncates, .over = &over};
        assert_int_equal(pthread_create(&r->thread, NULL, read_on, r), 0);
    }
    assert_int_equal(waitpid(writer, &status, 0), writer);
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < READERS; i++) {
        if (readers[i].fault[0] != '\0') fail_msg("%s", readers[i].fault);
        assert_true(readers[i].passes > 0);
    }
}

static void test_readers_beside_cleanup(void **state)
{
    run(*state, false);
}

static void test_readers_beside_truncation(void **state)
{
    run(*state, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_readers_beside_cleanup,
                                        world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(test_readers_beside_truncation,
                                        world_setup, world_teardown),
    };

    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
    return cmocka_run_group_tests_name("read_only_processes", tests, NULL,
                                       NULL);
}
