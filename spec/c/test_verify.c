/*
 * Verifying a log that goes on: whatever is done to it between any two steps,
 * nothing is found, by its writer or by a reader beside it; and damage is,
 * whatever is done.
 */
#include "support/busy_log.h"

#include "log/verify.h"

static void run(busy_log *w, mk_verify *verify, int first, size_t a, int second,
                size_t b)
{
    int steps = 0;

    while (verify->phase != MK_VERIFY_DONE) {
        if (steps == first) assert_done(w, changes[a](w));
        if (steps == second) assert_done(w, changes[b](w));
        assert_done(w, mk_verify_step(verify, 40, &w->err));
        steps++;
    }
}

static mk_log *open_reader(busy_log *w)
{
    mk_open_options options;
    mk_log *log = NULL;

    mk_open_options_default(&options);
    options.env = w->sim->env;
    options.read_only = true;
    assert_done(w, mk_log_open(DIRECTORY, &options, &log, &w->err));
    return log;
}

/* Verify with one change before step `first` and one before `second`; returns
 * false when the first was never made. */
static bool finds_nothing(bool by_reader, size_t a, size_t b, int first,
                          int second)
{
    mk_log *reader = NULL;
    mk_findings findings;
    mk_verify verify;
    bool reached;
    busy_log w;

    begin(&w, NULL);
    if (by_reader) reader = open_reader(&w);
    mk_findings_init(&findings, &w.sim->heap);
    assert_done(&w, mk_verify_begin(&verify, by_reader ? reader : w.log,
                                    &findings, &w.err));
    run(&w, &verify, first, a, second, b);
    reached = verify.reached > 0;
    mk_verify_deinit(&verify);
    if (findings.count > 0) {
        fail_msg("%schanges %zu, %zu before steps %d, %d: %s: %s",
                 by_reader ? "reader, " : "", a, b, first, second,
                 findings.array[0].path, findings.array[0].message);
    }
    mk_findings_deinit(&findings);
    assert_done(&w, mk_log_close(reader, &w.err));
    end(&w);
    return reached;
}

static void find_nothing(bool by_reader)
{
    for (size_t a = 0; a < CHANGE_COUNT; a++) {
        for (int i = 0; i < 24; i++) {
            size_t b = (a * 5 + (size_t)i) % CHANGE_COUNT;
            size_t c = (a + (size_t)i) % CHANGE_COUNT;

            assert_true(finds_nothing(by_reader, a, a, i, INT32_MAX));
            finds_nothing(by_reader, a, b, i, i);
            finds_nothing(by_reader, a, c, i, i + 2);
        }
    }
}

static void test_a_log_that_changes(void **unused)
{
    (void)unused;
    find_nothing(false);
}

static void test_a_log_that_another_changes(void **unused)
{
    (void)unused;
    find_nothing(true);
}

/* Damage in a segment that stays is found; in one that goes it is forgotten. */
static void test_damage_and_changes(void **unused)
{
    (void)unused;
    for (size_t a = 0; a < CHANGE_COUNT; a++) {
        for (int step = 0; step < 16; step++) {
            bool rewritten =
                changes[a] == do_delete_all || changes[a] == do_cut_all;
            mk_findings findings;
            mk_verify verify;
            mk_status status;
            busy_log w;
            int steps = 0;

            if (changes[a] == do_compact) continue; /* It reads the damage. */
            begin(&w, NULL);
            assert_int_equal(mk_sim_disk_flip(w.sim->disk,
                                              DIRECTORY
                                              "/00000000000000000000.log",
                                              8 * 65, NULL),
                             MK_OK);
            mk_findings_init(&findings, &w.sim->heap);
            status = mk_verify_begin(&verify, w.log, &findings, &w.err);
            while (status == MK_OK && verify.phase != MK_VERIFY_DONE) {
                if (steps++ == step) status = changes[a](&w);
                if (status == MK_OK) {
                    status = mk_verify_step(&verify, 40, &w.err);
                }
            }
            mk_verify_deinit(&verify);
            if (status == MK_OK && changes[a] != do_delete && !rewritten) {
                assert_int_equal(findings.count, 1);
                assert_int_equal(findings.array[0].code,
                                 MK_FINDING_CORRUPT_BATCH);
                assert_int_equal(findings.array[0].position, 0);
            }
            mk_findings_deinit(&findings);
            mk_log_abandon(w.log);
            free_world(w.sim);
        }
    }
}

/* Without memory for any one block: an error, nothing lost, nothing kept. */
static void test_without_memory(void **unused)
{
    bool failed = true;

    (void)unused;
    for (size_t n = 1; failed; n++) {
        mk_findings findings;
        mk_status status;
        busy_log w;

        begin(&w, NULL);
        put_file(w.sim, DIRECTORY "/stranger", "x");
        w.sim->counts.fail_at = w.sim->counts.allocations + n;
        status = mk_log_verify(w.log, NULL, &findings, &w.err);
        failed = status != MK_OK;
        if (failed) assert_int_equal(status, MK_NO_MEMORY);
        assert_int_equal(findings.count, failed ? 0 : 1);
        mk_findings_deinit(&findings);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_log_that_changes),
        cmocka_unit_test(test_a_log_that_another_changes),
        cmocka_unit_test(test_damage_and_changes),
        cmocka_unit_test(test_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
