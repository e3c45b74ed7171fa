/*
 * Loss of power at every step of a repair, and what it may leave: nothing that
 * was there is gone, the next repair comes to the end, and what was done for
 * good stays done. Without any of the repair's syncs that is not so.
 *
 * MK_CRASH_LIMIT states are looked at per crash, at most.
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
#define PLACE         "/logs/t-0"
#define NEW_PLACE     "/logs/minikafka.new.t-0"
#define DAMAGED       "/00000000000000000000.log"
#define FILE_SIZE_MAX 8192
#define FILES_MAX     16
#define RECORDS       7
#define LOST          1 /* The offset that can't be read any more. */

typedef struct kept_file {
    uint8_t bytes[FILE_SIZE_MAX];
    size_t size;
} kept_file;

typedef struct sweep {
    bool elsewhere; /* The log stands where a swap left it. */
    const char *left_out;
    kept_file files[FILES_MAX]; /* What was there. */
    size_t file_count;
    mk_sim_disk *disk;
    int64_t states;
    const char *fault;
} sweep;

static int64_t limit_of_run(int64_t ordinary)
{
    const char *text = getenv("MK_CRASH_LIMIT");

    return text != NULL ? strtoll(text, NULL, 10) : ordinary;
}

/* ---- The log ---- */

static mk_status open_log(mk_env *env, mk_log **out)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = env;
    options.create = true;
    return mk_log_open(PLACE, &options, out, NULL);
}

static mk_env *env_of(mk_sim_disk *disk)
{
    mk_env *env = NULL;

    assert_int_equal(mk_env_new_sim(disk, &env, NULL), MK_OK);
    return env;
}

static mk_sim_disk *new_disk(void)
{
    mk_sim_options options;
    mk_sim_disk *disk = NULL;

    mk_sim_options_default(&options);
    assert_int_equal(mk_sim_disk_new(NULL, &options, &disk, NULL), MK_OK);
    return disk;
}

/* A closed log of three segments. */
static mk_sim_disk *make_log(void)
{
    mk_sim_disk *disk = new_disk();
    mk_env *env = env_of(disk);
    mk_log *log = NULL;

    assert_int_equal(open_log(env, &log), MK_OK);
    for (int i = 0; i < RECORDS; i++) {
        mk_record record = {.key = "k", .key_size = 1, .timestamp_ms = i};
        int64_t offset;

        record.value = &i;
        record.value_size = sizeof i;
        if (i == 3 || i == 5) {
            assert_int_equal(mk_log_roll(log, NULL), MK_OK);
        }
        assert_int_equal(mk_log_append_one(log, &record, &offset, NULL), MK_OK);
    }
    assert_int_equal(mk_log_close(log, NULL), MK_OK);
    mk_env_free(env);
    return disk;
}

static void read_file(mk_sim_disk *disk, const char *path, kept_file *out)
{
    assert_int_equal(mk_sim_disk_read(disk, path, 0, out->bytes,
                                      sizeof out->bytes, &out->size, NULL),
                     MK_OK);
    assert_true(out->size < sizeof out->bytes);
}

/* Turn a bit over in the second batch; all three have one size. */
static void damage(mk_sim_disk *disk, const char *path)
{
    int64_t size = 0;

    assert_int_equal(mk_sim_disk_size(disk, path, &size, NULL), MK_OK);
    assert_int_equal(
        mk_sim_disk_flip(disk, path, 8 * (LOST * size / 3 + 62), NULL), MK_OK);
}

/* Put the log's files on a new disk, all of it stable, and damage one. */
static void begin(sweep *s)
{
    static const char note[] = "minikafka swap 1\nlive t-0\nphase ready\n";
    const char *place = s->elsewhere ? NEW_PLACE : PLACE;
    mk_sim_disk *made = make_log();
    mk_sim_disk *fresh = new_disk();
    mk_sim_states *states = NULL;
    mk_sim_paths paths;
    char to[200];

    assert_int_equal(mk_sim_disk_list(made, &paths, NULL), MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        const char *name = strrchr(paths.paths[i], '/');
        kept_file file;

        if (strstr(name, "reserve") != NULL || strstr(name, "lock") != NULL) {
            continue;
        }
        read_file(made, paths.paths[i], &file);
        snprintf(to, sizeof to, "%s%s", place, name);
        assert_int_equal(
            mk_sim_disk_write(fresh, to, file.bytes, file.size, NULL), MK_OK);
    }
    mk_sim_paths_deinit(&paths);
    mk_sim_disk_free(made);
    if (s->elsewhere) {
        assert_int_equal(mk_sim_disk_write(fresh, NEW_PLACE "/minikafka.swap",
                                           note, sizeof note - 1, NULL),
                         MK_OK);
    }
    snprintf(to, sizeof to, "%s%s", place, DAMAGED);
    made = NULL;
    assert_int_equal(mk_sim_states_open(fresh, NULL, &states, NULL), MK_OK);
    assert_int_equal(mk_sim_states_next(states, &made, NULL), MK_OK);
    mk_sim_states_close(states);
    mk_sim_disk_free(fresh);
    damage(made, to);
    assert_int_equal(mk_sim_disk_list(made, &paths, NULL), MK_OK);
    s->file_count = paths.count;
    assert_true(paths.count <= FILES_MAX);
    for (size_t i = 0; i < paths.count; i++) {
        read_file(made, paths.paths[i], &s->files[i]);
    }
    mk_sim_paths_deinit(&paths);
    if (s->left_out != NULL) {
        assert_int_equal(mk_sim_disk_leave_out(made, s->left_out, NULL), MK_OK);
    }
    s->disk = made;
}

/* ---- Judging ---- */

static bool is_there(mk_sim_disk *disk, const mk_sim_paths *paths,
                     const kept_file *wanted)
{
    for (size_t i = 0; i < paths->count; i++) {
        kept_file found;

        read_file(disk, paths->paths[i], &found);
        if (found.size == wanted->size &&
            memcmp(found.bytes, wanted->bytes, found.size) == 0) {
            return true;
        }
    }
    return false;
}

static const char *check_kept(const sweep *s, mk_sim_disk *disk)
{
    mk_sim_paths paths;
    const char *fault = NULL;

    assert_int_equal(mk_sim_disk_list(disk, &paths, NULL), MK_OK);
    for (size_t i = 0; i < s->file_count; i++) {
        if (!is_there(disk, &paths, &s->files[i])) fault = "a file is gone";
    }
    mk_sim_paths_deinit(&paths);
    return fault;
}

static mk_status repair(mk_env *env, bool apply, size_t *steps)
{
    mk_repair_options options;
    mk_repair_plan plan;
    mk_status status;

    mk_repair_options_default(&options);
    options.env = env;
    options.apply = apply;
    status = mk_repair(PLACE, &options, &plan, NULL);
    *steps = plan.count;
    mk_repair_plan_deinit(&plan);
    return status;
}

/* Does the log have all that could be read? */
static const char *check_log(mk_env *env)
{
    mk_log *log = NULL;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    const char *fault = NULL;
    int expected = 0;

    if (open_log(env, &log) != MK_OK) return "it does not open";
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    while (fault == NULL && mk_cursor_next(cursor, &view, NULL) == MK_OK) {
        if (expected == LOST) expected++;
        if (view.offset != expected || view.value_size != sizeof expected ||
            memcmp(view.value, &expected, sizeof expected) != 0) {
            fault = "a record is missing";
        }
        expected++;
    }
    if (fault == NULL && expected != RECORDS) fault = "the end is missing";
    mk_cursor_close(cursor);
    mk_log_abandon(log);
    return fault;
}

/* Look at a survivor; `done`: the repair had returned. */
static const char *judge(const sweep *s, mk_sim_disk *disk, bool done)
{
    const char *fault = check_kept(s, disk);
    mk_env *env = env_of(disk);
    size_t steps = 0;

    if (fault == NULL && done) {
        if (repair(env, false, &steps) != MK_OK) fault = "no plan";
        if (steps > 0) fault = "it was not done for good";
    }
    if (fault == NULL && repair(env, true, &steps) != MK_OK) {
        fault = "the next repair fails";
    }
    if (fault == NULL) fault = check_kept(s, disk);
    if (fault == NULL) fault = check_log(env);
    mk_env_free(env);
    return fault;
}

/* Look at all that a crash at this moment may leave. */
static void look(sweep *s, bool done)
{
    mk_sim_states_options options;
    mk_sim_states *states = NULL;
    mk_sim_disk *found = NULL;
    int64_t left = limit_of_run(300);

    mk_sim_states_options_default(&options);
    options.profile = MK_SIM_HOSTILE;
    assert_int_equal(mk_sim_states_open(s->disk, &options, &states, NULL),
                     MK_OK);
    while (s->fault == NULL && left-- > 0 &&
           mk_sim_states_next(states, &found, NULL) == MK_OK) {
        s->states++;
        s->fault = judge(s, found, done);
        mk_sim_disk_free(found);
    }
    mk_sim_states_close(states);
}

static mk_status look_at_step(void *context, const mk_sim_event *event,
                              mk_error *err)
{
    sweep *s = context;

    (void)err;
    if (event->operation == MK_SIM_READ || event->operation == MK_SIM_STAT) {
        return MK_OK; /* They change nothing. */
    }
    if (s->fault == NULL) look(s, false);
    return MK_OK;
}

static void crash_everywhere(sweep *s)
{
    mk_env *env;
    size_t steps = 0;

    begin(s);
    env = env_of(s->disk);
    mk_sim_disk_trace(s->disk, (mk_sim_trace){look_at_step, s});
    assert_int_equal(repair(env, true, &steps), MK_OK);
    mk_sim_disk_trace(s->disk, (mk_sim_trace){0});
    assert_true(steps > 0);
    if (s->fault == NULL) look(s, true);
    mk_env_free(env);
    mk_sim_disk_free(s->disk);
}

/* ---- Tests ---- */

static void test_every_state(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        sweep s = {.elsewhere = i == 1};

        crash_everywhere(&s);
        if (s.fault != NULL) fail_msg("%s", s.fault);
        print_message("%lld states\n", (long long)s.states);
        assert_true(s.states > 100);
    }
}

static void test_every_sync_is_needed(void **unused)
{
    static const char *const names[] = {"REPAIR_LOG", "REPAIR_QUARANTINE",
                                        "REPAIR_DIRECTORY", "REPAIR_PARENT"};

    (void)unused;
    if (getenv("MK_CRASH_LIMIT") != NULL) skip(); /* Few states show little. */
    for (size_t i = 0; i < LENGTH(names); i++) {
        bool needed = false;

        for (int j = 0; j < 2 && !needed; j++) {
            sweep s = {.elsewhere = j == 1, .left_out = names[i]};

            crash_everywhere(&s);
            needed = s.fault != NULL;
        }
        if (!needed) fail_msg("%s is not needed", names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_state),
        cmocka_unit_test(test_every_sync_is_needed),
    };

    return cmocka_run_group_tests_name("repair_crash", tests, NULL, NULL);
}
