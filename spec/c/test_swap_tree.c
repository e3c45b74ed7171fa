/* Loss of power at every step of a compaction, both ways of swapping, and every
 * disk that it may leave: the old log or the new one, nothing beside it, and
 * the next compaction works. Each of the swap's own syncs is needed for that.
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
#include "os/env.h"

#define PARENT    "/logs"
#define DIRECTORY "/logs/t-0"
#define OLD       "0:a=1 1:b=1 2:a=2 3:c=1 "
#define NEW       "1:b=1 2:a=2 3:c=1 "

typedef struct scene {
    bool exchange;
    bool refused;         /* The hook fails: the new tree is removed again. */
    const char *left_out; /* A sync that is not done, or NULL. */
    int64_t limit;        /* Of states at each crash. */
    int64_t crashes, states;
    char fault[800]; /* What the first survivor that is not right had. */
} scene;

static mk_status open_log(mk_env *env, bool read_only, mk_log **out,
                          mk_error *err)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = env;
    options.read_only = read_only;
    return mk_log_open(DIRECTORY, &options, out, err);
}

static void append(mk_log *log, const char *text)
{
    mk_record record = {.key = text,
                        .key_size = 1,
                        .value = text + 2,
                        .value_size = strlen(text) - 2,
                        .timestamp_ms = 5};
    int64_t offset;

    assert_int_equal(mk_log_append_one(log, &record, &offset, NULL), MK_OK);
}

static mk_status refuse(void *context, mk_error *err)
{
    (void)context;
    (void)err;
    return MK_CALLBACK;
}

static mk_status compact(mk_log *log, bool refused, mk_error *err)
{
    mk_compact_options options;
    mk_cleanup_result result;
    mk_status status;

    mk_compact_options_default(&options);
    if (refused) options.before_swap = refuse;
    status = mk_log_compact(log, &options, &result, err);
    mk_cleanup_result_deinit(&result);
    return status;
}

/* Write what the log holds as text; false where it can't be read. */
static bool tell(mk_log *log, char *out)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_status status;
    size_t used = 0;

    out[0] = '\0';
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    while ((status = mk_cursor_next(cursor, &view, NULL)) == MK_OK) {
        used += (size_t)snprintf(out + used, 200 - used, "%d:%.*s=%.*s ",
                                 (int)view.offset, (int)view.key_size,
                                 (const char *)view.key, (int)view.value_size,
                                 (const char *)view.value);
    }
    mk_cursor_close(cursor);
    return status == MK_END;
}

/* ---- Survivors ---- */

static void note(scene *s, const char *what, const char *detail)
{
    if (s->fault[0] == '\0') {
        snprintf(s->fault, sizeof s->fault, "%s: %s", what, detail);
    }
}

/* Nothing but the log stands in the parent. */
static void check_alone(scene *s, mk_env *env)
{
    mk_name_list names;

    assert_int_equal(mk_vfs_list(env->vfs, PARENT, &names, NULL), MK_OK);
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(names.names[i], "t-0") != 0) {
            note(s, "left beside", names.names[i]);
        }
    }
    mk_name_list_deinit(&names);
}

static bool look(scene *s, mk_env *env, bool read_only, char *seen,
                 mk_log **out)
{
    mk_error err = {0};
    mk_log *log = NULL;

    if (open_log(env, read_only, &log, &err) != MK_OK) {
        note(s, "open", err.message);
        return false;
    }
    if (!tell(log, seen)) note(s, "read", seen);
    *out = log;
    return true;
}

static void check_state(scene *s, mk_sim_disk *state)
{
    char first[200], second[200];
    mk_env *env = NULL;
    mk_log *log = NULL;
    mk_error err = {0};

    assert_int_equal(mk_env_new_sim(state, &env, NULL), MK_OK);
    if (!look(s, env, true, first, &log)) goto done;
    mk_log_abandon(log);
    if (strcmp(first, OLD) != 0 && strcmp(first, NEW) != 0) {
        note(s, "neither old nor new", first);
    }
    if (!look(s, env, false, second, &log)) goto done;
    if (strcmp(first, second) != 0) note(s, "seen then", second);
    check_alone(s, env);
    if (compact(log, false, &err) != MK_OK) {
        note(s, "compact", err.message);
    } else if (!tell(log, second) || strcmp(second, NEW) != 0) {
        note(s, "compacted", second);
    }
    check_alone(s, env);
    mk_log_abandon(log);
done:
    mk_env_free(env);
}

static void check_states(scene *s, mk_sim_disk *disk)
{
    mk_sim_states_options options;
    mk_sim_states *states = NULL;
    mk_sim_disk *state = NULL;

    mk_sim_states_options_default(&options);
    options.limit = s->limit;
    assert_int_equal(mk_sim_states_open(disk, &options, &states, NULL), MK_OK);
    while (s->fault[0] == '\0' &&
           mk_sim_states_next(states, &state, NULL) == MK_OK) {
        check_state(s, state);
        mk_sim_disk_free(state);
        s->states++;
    }
    mk_sim_states_close(states);
}

/* ---- Crashes ---- */

static void make_log(const scene *s, mk_sim_disk **disk, mk_env **env,
                     mk_log **log)
{
    mk_sim_options options;

    mk_sim_options_default(&options);
    options.exchange = s->exchange;
    assert_int_equal(mk_sim_disk_new(NULL, &options, disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(*disk, env, NULL), MK_OK);
    assert_int_equal(open_log(*env, false, log, NULL), MK_OK);
    append(*log, "a=1");
    append(*log, "b=1");
    assert_int_equal(mk_log_roll(*log, NULL), MK_OK);
    append(*log, "a=2");
    assert_int_equal(mk_log_roll(*log, NULL), MK_OK);
    append(*log, "c=1");
    assert_int_equal(mk_log_flush(*log, NULL), MK_OK);
    if (s->left_out != NULL) {
        assert_int_equal(mk_sim_disk_leave_out(*disk, s->left_out, NULL),
                         MK_OK);
    }
}

/* Compact with a crash before step number `step`, or, once there is no such
 * step, at the end. Returns false then. */
static bool crash_at(scene *s, int64_t step)
{
    mk_sim_disk *disk = NULL;
    mk_env *env = NULL;
    mk_log *log = NULL;
    mk_sim_stats stats;
    bool crashed;

    make_log(s, &disk, &env, &log);
    mk_sim_disk_stats(disk, &stats);
    mk_sim_disk_crash_at(disk, stats.steps + step, MK_SIM_KILL9);
    (void)!compact(log, s->refused, NULL);
    mk_sim_disk_stats(disk, &stats);
    crashed = stats.crashes > 0;
    s->crashes++;
    check_states(s, disk);
    mk_log_abandon(log);
    mk_env_free(env);
    mk_sim_disk_free(disk);
    return crashed;
}

static void crash_everywhere(scene *s)
{
    /* What a sync is for shows after it: the names change at step 45. */
    int64_t step = s->left_out != NULL ? 40 : 1;

    while (s->fault[0] == '\0' && crash_at(s, step)) {
        step++;
    }
    if (s->fault[0] != '\0' && s->left_out == NULL) {
        fail_msg("step %lld: %s", (long long)step, s->fault);
    }
}

static int64_t limit_of_run(int64_t ordinary)
{
    const char *text = getenv("MK_CRASH_LIMIT");

    return text != NULL ? strtoll(text, NULL, 10) : ordinary;
}

static const struct {
    bool exchange, refused;
} ways[] = {{true, false}, {false, false}, {true, true}};

/* Every state after a crash at every step. */
static void test_every_crash(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        scene s = {.exchange = ways[i].exchange,
                   .refused = ways[i].refused,
                   .limit = limit_of_run(50)};

        crash_everywhere(&s);
        printf("%s%s: %lld crashes, %lld states\n",
               s.exchange ? "exchange" : "renames",
               s.refused ? ", refused" : "", (long long)s.crashes,
               (long long)s.states);
        assert_true(s.crashes > 30);
        assert_true(s.states > s.crashes);
    }
}

/* Without any of these some survivor is not right. */
static void test_every_sync_is_needed(void **unused)
{
    static const char *const syncs[] = {"SWAP_LOG", "SWAP_PARENT", "SWAP_TREE",
                                        "SWAP_DONE"};

    (void)unused;
    if (getenv("MK_CRASH_LIMIT") != NULL) skip(); /* Few states show little. */
    for (size_t i = 0; i < sizeof syncs / sizeof syncs[0]; i++) {
        bool needed = false;

        for (size_t j = 0; j < sizeof ways / sizeof ways[0] && !needed; j++) {
            scene s = {.exchange = ways[j].exchange,
                       .refused = ways[j].refused,
                       .left_out = syncs[i],
                       .limit = 400};

            crash_everywhere(&s);
            needed = s.fault[0] != '\0';
            if (needed) printf("without %s: %s\n", syncs[i], s.fault);
        }
        if (!needed) fail_msg("%s is not needed", syncs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_crash),
        cmocka_unit_test(test_every_sync_is_needed),
    };

    return cmocka_run_group_tests_name("swap_tree", tests, NULL, NULL);
}
