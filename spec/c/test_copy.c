/*
 * Copies of a log that goes on: what is done to it between any two steps of a
 * copy, by other threads, and at a crash.
 */
#include "support/busy_log.h"

#include "log/copy.h"

#define TARGET "/copies/orders-0"

static void tell_copy(busy_log *w, char *out)
{
    mk_log *copy = NULL;

    assert_done(w, open_at(w, TARGET, &copy));
    tell_log(w, copy, out);
    assert_done(w, mk_log_close(copy, &w->err));
}

/* Copy the log, with one change before step `first` and one before `second`.
 * The copy has what the log had at the start or after one of them. Returns the
 * number of steps. */
static int copy_with(size_t a, size_t b, int first, int second, bool links)
{
    mk_sim_fault fault = fault_of(MK_SIM_LINK, EXDEV);
    char seen[3][TEXT_MAX];
    char found[TEXT_MAX];
    size_t count = 0;
    busy_log w;
    mk_copy copy;
    int steps = 0;

    begin(&w, NULL);
    fault.path = "*copies*";
    if (!links) add_fault(w.sim, fault);
    tell_log(&w, w.log, seen[count++]);
    assert_done(&w, mk_copy_begin(&copy, w.log, TARGET, &w.err));
    while (copy.phase != MK_COPY_DONE) {
        if (steps == first) {
            assert_done(&w, changes[a](&w));
            tell_log(&w, w.log, seen[count++]);
        }
        if (steps == second) {
            assert_done(&w, changes[b](&w));
            tell_log(&w, w.log, seen[count++]);
        }
        assert_done(&w, mk_copy_step(&copy, 40, &w.err));
        steps++;
    }
    assert_done(&w, mk_copy_publish(&copy, &w.err));
    mk_copy_deinit(&copy);
    tell_copy(&w, found);
    while (count > 0 && strcmp(found, seen[count - 1]) != 0) {
        count--;
    }
    if (count == 0) {
        fail_msg("changes %zu, %zu before steps %d, %d: the copy has %s, and "
                 "never was so; at last the log has %s",
                 a, b, first, second, found, seen[second < steps ? 2 : 1]);
    }
    end(&w);
    return steps;
}

/* Before any step, and before any two. */
static void test_a_copy_is_the_log_at_some_moment(void **unused)
{
    (void)unused;
    for (int links = 0; links < 2; links++) {
        for (size_t a = 0; a < CHANGE_COUNT; a++) {
            int steps = copy_with(a, a, 0, INT32_MAX, links);

            for (int i = 1; i < steps; i++) {
                copy_with(a, a, i, INT32_MAX, links);
                copy_with(a, (a * 5 + (size_t)i) % CHANGE_COUNT, i, i, links);
                copy_with(a, (a + (size_t)i) % CHANGE_COUNT, i - 1, i + 1,
                          links);
            }
        }
    }
}

/* A log that is compacted all the time keeps its copy waiting for a while; then
 * the copy keeps the cleanup waiting. */
static void test_a_copy_comes_to_its_end(void **unused)
{
    busy_log w;
    mk_copy copy;
    int steps = 0;

    (void)unused;
    begin(&w, NULL);
    assert_done(&w, mk_copy_begin(&copy, w.log, TARGET, &w.err));
    while (copy.phase != MK_COPY_DONE) {
        if (!copy.maintains && copy.phase == MK_COPY_SEGMENTS) {
            assert_done(&w, do_compact(&w));
        }
        assert_done(&w, mk_copy_step(&copy, 40, &w.err));
        assert_true(++steps < 100);
    }
    assert_false(copy.maintains);
    assert_true(steps > 3);
    assert_done(&w, mk_copy_publish(&copy, &w.err));
    mk_copy_deinit(&copy);
    assert_done(&w, do_compact(&w));
    end(&w);
}

/* Two copies to one place: the second is told, and the first goes on. */
static void test_two_copies(void **unused)
{
    busy_log w;
    mk_copy first, second;
    char found[TEXT_MAX], expected[TEXT_MAX];

    (void)unused;
    begin(&w, NULL);
    assert_done(&w, mk_copy_begin(&first, w.log, TARGET, &w.err));
    assert_int_equal(mk_copy_begin(&second, w.log, TARGET, &w.err), MK_LOCKED);
    mk_copy_deinit(&second);
    while (first.phase != MK_COPY_DONE) {
        assert_done(&w, mk_copy_step(&first, 100, &w.err));
    }
    put_file(w.sim, TARGET "/stranger", "x");
    assert_int_equal(mk_copy_publish(&first, &w.err), MK_INVALID_ARGUMENT);
    mk_copy_deinit(&first);
    assert_int_equal(mk_vfs_unlink(w.sim->vfs, TARGET "/stranger", NULL),
                     MK_OK);
    assert_done(&w, mk_log_copy_to(w.log, TARGET, NULL, &w.err));
    tell_copy(&w, found);
    tell_log(&w, w.log, expected);
    assert_string_equal(found, expected);
    end(&w);
}

/* ---- Syncs ---- */

/* What a disk may hold after a loss of power. */
typedef struct survivor {
    char log[TEXT_MAX];
    char copy[TEXT_MAX]; /* "" without a copy. */
} survivor;

static void tell_survivor(busy_log *w, mk_sim_disk *disk, survivor *out)
{
    mk_env *env = w->sim->env;
    char *texts[] = {out->log, out->copy};
    const char *directories[] = {DIRECTORY, TARGET};

    assert_int_equal(mk_env_new_sim(disk, &w->sim->env, NULL), MK_OK);
    for (int i = 0; i < 2; i++) {
        mk_log *log = NULL;

        texts[i][0] = '\0';
        if (open_at(w, directories[i], &log) == MK_OK) {
            tell_log(w, log, texts[i]);
        }
        mk_log_abandon(log);
    }
    mk_env_free(w->sim->env);
    w->sim->env = env;
}

#define KEPT      " 0:a=1 1:b=1 2:c=1"
#define UNCUT     "0..7" KEPT " 3:a=1 4:b=1 5:d=1 6:e=1"
#define CUT       "0..3" KEPT
#define LIMIT_MAX 100

/* Are all disks right that a loss of power may leave now? The log was cut, the
 * copy made, or that was tried. */
static bool are_right(busy_log *w, bool cut, bool cutting, bool copied)
{
    mk_sim_states_options options;
    mk_sim_states *states;
    mk_sim_disk *found;
    bool right = true;

    mk_sim_states_options_default(&options);
    options.limit = LIMIT_MAX;
    assert_int_equal(mk_sim_states_open(w->sim->disk, &options, &states, NULL),
                     MK_OK);
    while (right && mk_sim_states_next(states, &found, NULL) == MK_OK) {
        survivor is;

        tell_survivor(w, found, &is);
        right = cut       ? strcmp(is.log, CUT) == 0
                : cutting ? strstr(is.log, KEPT) == is.log + 4
                          : strcmp(is.log, UNCUT) == 0;
        if (is.copy[0] != '\0' || copied) {
            right = right && strcmp(is.copy, UNCUT) == 0;
        }
        mk_sim_disk_free(found);
    }
    mk_sim_states_close(states);
    return right;
}

/* Go on with all that is there on stable storage. */
static void settle(busy_log *w)
{
    mk_sim_states *states;
    mk_sim_disk *found;

    assert_done(w, mk_log_close(w->log, &w->err));
    assert_int_equal(mk_sim_states_open(w->sim->disk, NULL, &states, NULL),
                     MK_OK);
    assert_int_equal(mk_sim_states_next(states, &found, NULL), MK_OK);
    mk_sim_states_close(states);
    mk_sim_disk_free(w->sim->disk);
    w->sim->disk = found;
    boot(w->sim);
    assert_done(w, open_at(w, DIRECTORY, &w->log));
}

/* Make a copy; or, with `cutting`, cut the log within what it shares with one;
 * and lose power before step number `step` of that, 0: afterwards. Is whatever
 * may be left right? `*more` is false when there is no such step. */
static bool survives(const char *left_out, bool links, bool cutting,
                     int64_t step, bool *more)
{
    mk_sim_fault fault = fault_of(MK_SIM_LINK, EXDEV);
    mk_status status = MK_OK;
    bool right;
    busy_log w;

    begin(&w, NULL);
    if (cutting) {
        assert_done(&w, mk_log_copy_to(w.log, TARGET, NULL, &w.err));
    }
    settle(&w);
    if (!links) add_fault(w.sim, fault);
    if (left_out != NULL) {
        assert_int_equal(mk_sim_disk_leave_out(w.sim->disk, left_out, NULL),
                         MK_OK);
    }
    if (step > 0) {
        mk_sim_disk_crash_at(w.sim->disk, stats_of(w.sim->disk).steps + step,
                             MK_SIM_KILL9);
    }
    status = cutting ? mk_log_truncate_to(w.log, 3, &w.err)
                     : mk_log_copy_to(w.log, TARGET, NULL, &w.err);
    right = are_right(&w, cutting && status == MK_OK, cutting,
                      cutting || status == MK_OK);
    *more = status == MK_CRASHED;
    end(&w);
    return right;
}

static bool survives_everywhere(const char *left_out)
{
    for (int i = 0; i < 4; i++) {
        bool more = true;

        for (int64_t step = 0; more || step == 1; step++) {
            if (!survives(left_out, i % 2, i / 2, step, &more)) return false;
        }
    }
    return true;
}

/* The log and its copy survive a loss of power at any step, and each sync is
 * needed for that. */
static void test_every_sync_is_needed(void **unused)
{
    (void)unused;
    assert_true(survives_everywhere(NULL));
    assert_false(survives_everywhere("COPY_LOG"));
    assert_false(survives_everywhere("COPY_PARENT"));
    assert_false(survives_everywhere("UNSHARE_LOG"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_copy_is_the_log_at_some_moment),
        cmocka_unit_test(test_a_copy_comes_to_its_end),
        cmocka_unit_test(test_two_copies),
        cmocka_unit_test(test_every_sync_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
