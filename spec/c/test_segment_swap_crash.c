/*
 * A loss of power at every step of a swap of segments, with every state of the
 * disk that may be left: the log is the old one or the new one, as a whole, and
 * the next opening but one finds nothing to do. A Kafka that finds the same
 * loads one of the two as well.
 */
#include "support/swap_world.h"

typedef struct sweep {
    const swap_case *which;
    const char *left_out; /* A sync that is not done; NULL: all are. */
    bool faulty;          /* Then a state was found that is not right. */
    int64_t limit;        /* States at a step; -1: all. */
    int64_t steps, states, olds, news;
} sweep;

/* How many states to look at: no more than are said from outside. */
static int64_t limit_of_run(int64_t ordinary)
{
    const char *text = getenv("MK_CRASH_LIMIT");
    int64_t limit = text != NULL ? strtoll(text, NULL, 10) : ordinary;

    return ordinary >= 0 && ordinary < limit ? ordinary : limit;
}

static void fail_state(sweep *s, int64_t step, mk_sim_disk *disk,
                       const char *what)
{
    mk_sim_paths paths;

    s->faulty = true;
    if (s->left_out != NULL) return;
    assert_int_equal(mk_sim_disk_list(disk, &paths, NULL), MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        int64_t size = -1;

        (void)!mk_sim_disk_size(disk, paths.paths[i], &size, NULL);
        print_message("  %s %lld\n", paths.paths[i], (long long)size);
    }
    mk_sim_paths_deinit(&paths);
    fail_msg("%s, step %lld, %s: %s", s->which->name, (long long)step,
             mk_sim_profile_name(mk_sim_disk_profile(disk)), what);
}

/* ---- Kafka ---- */

/* Kafka knows the outputs' end by their records alone: sources behind it may be
 * there again, each as a whole. */
static bool is_kafkas(const swap_case *c, uint64_t found)
{
    if (found == ALL) return true;
    if ((found & c->kept) != c->kept) return false;
    return (found & ~(c->kept | c->behind)) == 0;
}

static const char *judge_kafka(const sweep *s, mk_sim_disk *disk)
{
    static kafka_loader kafka;

    if (!kafka_load(&kafka, disk, DIRECTORY, 7)) return "kafka can't read it";
    if (kafka.overlap) return "kafka finds segments that overlap";
    if (kafka.bad_index) return "kafka finds an index that misleads";
    return is_kafkas(s->which, kafka.offsets) ? NULL
                                              : "kafka loads something else";
}

/* ---- Ourselves ---- */

static mk_status count_change(void *context, const mk_sim_event *event,
                              mk_error *err)
{
    int64_t *changes = context;

    (void)err;
    switch (event->operation) {
    case MK_SIM_WRITE:
    case MK_SIM_TRUNCATE:
    case MK_SIM_UTIME:
    case MK_SIM_RENAME:
    case MK_SIM_LINK:
    case MK_SIM_UNLINK:
        ++*changes;
        break;
    default:
        break;
    }
    return MK_OK;
}

static const char *judge_open(sweep *s, mk_env *env, bool read_only,
                              bool must_be_new, mk_error *err)
{
    mk_log *log = NULL;
    mk_status end = MK_OK;
    uint64_t found;

    if (swap_open(env, read_only, &log, err) != MK_OK) return err->message;
    found = swap_offsets(log, &end);
    mk_log_abandon(log);
    if (end != MK_END) return "it can't be read to its end";
    if (found == ALL) s->olds++;
    if (found == s->which->kept) s->news++;
    if (found == s->which->kept) return NULL;
    if (must_be_new) return "the swap was told to be done";
    return found == ALL ? NULL : "it is neither the old nor the new log";
}

/* Open what is left, as a reader and twice as a writer. */
static const char *judge_us(sweep *s, mk_sim_disk *disk, bool must_be_new,
                            mk_error *err)
{
    mk_env *env = NULL;
    int64_t changes = 0;
    const char *fault;

    assert_int_equal(mk_env_new_sim(disk, &env, NULL), MK_OK);
    mk_sim_disk_trace(disk, (mk_sim_trace){count_change, &changes});
    fault = judge_open(s, env, true, must_be_new, err);
    if (fault == NULL && changes > 0) fault = "a reader changes files";
    if (fault == NULL) fault = judge_open(s, env, false, must_be_new, err);
    changes = 0;
    if (fault == NULL) fault = judge_open(s, env, false, must_be_new, err);
    mk_sim_disk_trace(disk, (mk_sim_trace){0});
    /* The lock's holder is written at each opening. */
    if (fault == NULL && changes > 2) fault = "a second open changes files";
    mk_env_free(env);
    return fault;
}

static void judge_state(sweep *s, int64_t step, mk_sim_disk *disk,
                        bool must_be_new, bool for_kafka)
{
    const char *fault = for_kafka ? judge_kafka(s, disk) : NULL;
    mk_error err = {0};

    if (fault == NULL) fault = judge_us(s, disk, must_be_new, &err);
    s->states++;
    if (fault != NULL) fail_state(s, step, disk, fault);
}

static mk_sim_states *open_states(mk_sim_disk *disk, int64_t limit)
{
    mk_sim_states_options options;
    mk_sim_states *states = NULL;

    mk_sim_states_options_default(&options);
    options.profile = MK_SIM_HOSTILE;
    options.limit = limit;
    assert_int_equal(mk_sim_states_open(disk, &options, &states, NULL), MK_OK);
    return states;
}

static void judge_states(sweep *s, int64_t step, mk_sim_disk *disk,
                         bool must_be_new, bool for_kafka)
{
    mk_sim_states *states = open_states(disk, s->limit);
    mk_sim_disk *found = NULL;

    while (!s->faulty && mk_sim_states_next(states, &found, NULL) == MK_OK) {
        judge_state(s, step, found, must_be_new, for_kafka);
        mk_sim_disk_free(found);
    }
    mk_sim_states_close(states);
}

/* ---- The swap ---- */

/* Swap, and crash before step number `step` from its beginning on; or after it,
 * if it has no more: false then. */
static bool crash_at(sweep *s, int64_t step)
{
    mk_sim_stats stats;
    mk_status status;
    swap_world w;
    bool crashed;

    swap_begin(&w, s->left_out);
    mk_sim_disk_stats(w.disk, &stats);
    mk_sim_disk_crash_at(w.disk, stats.steps + step, MK_SIM_KILL9);
    status = swap_run(&w, s->which);
    mk_sim_disk_stats(w.disk, &stats);
    crashed = stats.crashes > 0;
    if (!crashed) assert_int_equal(status, MK_OK);
    judge_states(s, step, w.disk, !crashed, true);
    swap_end(&w);
    s->steps++;
    return crashed;
}

static void crash_everywhere(sweep *s)
{
    int64_t step = 1;

    while (!s->faulty && crash_at(s, step)) {
        step++;
    }
}

/* Every state at every step. */
static void test_every_state(void **unused)
{
    int64_t states = 0;

    (void)unused;
    for (size_t i = 0; i < CASES_COUNT; i++) {
        sweep s = {.which = &swap_cases[i], .limit = limit_of_run(-1)};

        crash_everywhere(&s);
        assert_true(s.olds > 50);
        assert_true(s.news > 50);
        states += s.states;
    }
    print_message("%lld states\n", (long long)states);
}

/* A sync, and a case in which something is wrong without it. */
typedef struct needed_sync {
    const char *name;
    size_t which;
} needed_sync;

/* No sync is there for nothing. The note is written as the state file is. */
static void test_every_sync_is_needed(void **unused)
{
    static const needed_sync syncs[] = {
        {"SEGMENT_LOG", 0},       {"SEGMENT_INDEX", 1},  {"REPLACE_FILE", 1},
        {"REPLACE_DIRECTORY", 0}, {"SEGMENTS_AHEAD", 3}, {"SEGMENTS_SWAP", 0},
        {"SEGMENTS_GONE", 0}};
    size_t needless = 0;

    (void)unused;
    if (getenv("MK_CRASH_LIMIT") != NULL) skip(); /* Few states show little. */
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        sweep s = {.which = &swap_cases[syncs[i].which],
                   .limit = 3000,
                   .left_out = syncs[i].name};

        crash_everywhere(&s);
        if (s.faulty) continue;
        print_message("%s is not needed\n", syncs[i].name);
        needless++;
    }
    assert_int_equal(needless, 0);
}

/* ---- The way back ---- */

/* A swap whose last sync before the sources go fails is taken back; crash at
 * each step of that. */
static bool crash_on_the_way_back(sweep *s, int64_t step)
{
    mk_sim_stats stats;
    mk_sim_fault fault;
    swap_world w;
    bool crashed;

    swap_begin(&w, s->left_out);
    mk_sim_fault_default(&fault);
    fault.operation = MK_SIM_FSYNC_DIR;
    fault.after = 1; /* The note's. */
    fault.times = 1;
    fault.os_errno = 5; /* EIO */
    assert_int_equal(mk_sim_disk_fail(w.disk, &fault, NULL), MK_OK);
    mk_sim_disk_stats(w.disk, &stats);
    mk_sim_disk_crash_at(w.disk, stats.steps + step, MK_SIM_KILL9);
    assert_int_not_equal(swap_run(&w, s->which), MK_OK);
    mk_sim_disk_stats(w.disk, &stats);
    crashed = stats.crashes > 0;
    judge_states(s, step, w.disk, false, true);
    swap_end(&w);
    return crashed;
}

static void test_the_way_back(void **unused)
{
    sweep s = {.which = &swap_cases[1], .limit = 500};
    sweep without = {
        .which = &swap_cases[1], .limit = 500, .left_out = "SEGMENTS_UNDONE"};
    int64_t step = 1;

    (void)unused;
    while (crash_on_the_way_back(&s, step)) {
        step++;
    }
    for (int64_t i = 1; !without.faulty && i <= step; i++) {
        (void)crash_on_the_way_back(&without, i);
    }
    assert_true(without.faulty);
}

/* ---- Crashes while opening ---- */

/* Open this state, crash before each step of that, and look at what is left
 * then. */
static void crash_while_opening(sweep *s, int64_t step, mk_sim_disk *first,
                                const char *left_out)
{
    for (int64_t inner = 1; !s->faulty; inner++) {
        mk_sim_disk *disk = NULL;
        mk_env *env = NULL;
        mk_log *log = NULL;
        mk_sim_stats stats;

        assert_int_equal(mk_sim_disk_clone(first, &disk, NULL), MK_OK);
        if (left_out != NULL) {
            assert_int_equal(mk_sim_disk_leave_out(disk, left_out, NULL),
                             MK_OK);
        }
        assert_int_equal(mk_env_new_sim(disk, &env, NULL), MK_OK);
        mk_sim_disk_crash_at(disk, inner, MK_SIM_KILL9);
        if (swap_open(env, false, &log, NULL) == MK_OK) mk_log_abandon(log);
        mk_sim_disk_stats(disk, &stats);
        judge_states(s, step * 1000 + inner, disk, false, false);
        mk_env_free(env);
        mk_sim_disk_free(disk);
        if (stats.crashes == 0) return;
    }
}

/* A crash while a crash is mended. */
static void test_crashes_while_opening(void **unused)
{
    sweep s = {.which = &swap_cases[4], .limit = limit_of_run(2)};
    bool crashed = true;

    (void)unused;
    for (int64_t step = 1; crashed; step++) {
        mk_sim_disk *found = NULL;
        mk_sim_states *states;
        mk_sim_stats stats;
        swap_world w;

        swap_begin(&w, NULL);
        mk_sim_disk_stats(w.disk, &stats);
        mk_sim_disk_crash_at(w.disk, stats.steps + step, MK_SIM_KILL9);
        (void)!swap_run(&w, s.which);
        mk_sim_disk_stats(w.disk, &stats);
        crashed = stats.crashes > 0;
        states = open_states(w.disk, s.limit);
        while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
            crash_while_opening(&s, step, found, NULL);
            mk_sim_disk_free(found);
        }
        mk_sim_states_close(states);
        swap_end(&w);
    }
    assert_true(s.olds > 50);
    assert_true(s.news > 50);
}

/* Make it what a Kafka left: no note, and a file of its own. */
static void make_kafkas(mk_sim_disk *disk)
{
    mk_env *env = NULL;

    assert_int_equal(mk_env_new_sim(disk, &env, NULL), MK_OK);
    assert_int_equal(
        mk_vfs_unlink(env->vfs, DIRECTORY "/minikafka.rewrite", NULL), MK_OK);
    mk_env_free(env);
    assert_int_equal(mk_sim_disk_write(disk, DIRECTORY "/partition.metadata",
                                       "version: 0", 10, NULL),
                     MK_OK);
}

/* Give what a Kafka might have left at this step; NULL: nothing special. */
static mk_sim_disk *state_without_note(const swap_case *c, int64_t step,
                                       bool *crashed)
{
    mk_sim_disk *found = NULL;
    mk_sim_states *states;
    mk_sim_stats stats;
    int64_t size;
    swap_world w;

    swap_begin(&w, NULL);
    mk_sim_disk_stats(w.disk, &stats);
    mk_sim_disk_crash_at(w.disk, stats.steps + step, MK_SIM_KILL9);
    (void)!swap_run(&w, c);
    mk_sim_disk_stats(w.disk, &stats);
    *crashed = stats.crashes > 0;
    states = open_states(w.disk, 1);
    assert_int_equal(mk_sim_states_next(states, &found, NULL), MK_OK);
    mk_sim_states_close(states);
    swap_end(&w);
    if (mk_sim_disk_size(found, DIRECTORY "/minikafka.rewrite", &size, NULL) !=
        MK_OK) {
        mk_sim_disk_free(found);
        return NULL;
    }
    make_kafkas(found);
    return found;
}

static void sweep_without_note(sweep *s, const char *left_out)
{
    bool crashed = true;

    for (int64_t step = 1; crashed && !s->faulty; step++) {
        mk_sim_disk *disk = state_without_note(s->which, step, &crashed);

        if (disk == NULL) continue;
        crash_while_opening(s, step, disk, left_out);
        mk_sim_disk_free(disk);
    }
}

/* The same for what a Kafka left; there the syncs of the opening are needed,
 * too. */
static void test_crashes_while_opening_kafkas(void **unused)
{
    static const needed_sync syncs[] = {
        {"SEGMENTS_GONE", 0}, {"SEGMENTS_DONE", 0}, {"SEGMENTS_UNDONE", 3}};

    (void)unused;
    for (size_t i = 0; i < CASES_COUNT; i++) {
        sweep s = {.which = &swap_cases[i], .limit = 1};

        if (s.which->behind != 0) continue; /* Only a note tells of those. */
        sweep_without_note(&s, NULL);
    }
    if (getenv("MK_CRASH_LIMIT") != NULL) return; /* Few states show little. */
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        sweep s = {
            .which = &swap_cases[syncs[i].which], .limit = 24, .left_out = ""};

        sweep_without_note(&s, syncs[i].name);
        if (!s.faulty) fail_msg("%s is not needed", syncs[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_state),
        cmocka_unit_test(test_every_sync_is_needed),
        cmocka_unit_test(test_the_way_back),
        cmocka_unit_test(test_crashes_while_opening),
        cmocka_unit_test(test_crashes_while_opening_kafkas),
    };

    return cmocka_run_group_tests_name("segment_swap_crash", tests, NULL, NULL);
}
