/* Rewritten segments take the place of closed ones: what is read then, what
 * stands on the disk, and what becomes of it when something fails. Crashes are
 * in test_segment_swap_crash.c. */
#include "support/swap_world.h"

/* The log has just these offsets, and each is found by itself. */
static void assert_offsets(mk_log *log, uint64_t expected)
{
    mk_status end;
    mk_cursor *cursor = NULL;

    assert_int_equal(swap_offsets(log, &end), expected);
    assert_int_equal(end, MK_END);
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    for (int64_t i = 7; i >= 0; i--) {
        mk_record_view view;
        int64_t next = i;

        while ((expected >> next & 1) == 0) {
            next++;
        }
        assert_int_equal(mk_cursor_seek(cursor, i, NULL), MK_OK);
        assert_int_equal(mk_cursor_next(cursor, &view, NULL), MK_OK);
        assert_int_equal(view.offset, next);
    }
    mk_cursor_close(cursor);
}

/* Only what belongs to a log is there. */
static void assert_tidy(mk_sim_disk *disk)
{
    mk_sim_paths paths;

    assert_int_equal(mk_sim_disk_list(disk, &paths, NULL), MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        const char *name = paths.paths[i] + strlen(DIRECTORY) + 1;

        if (strcmp(name, "minikafka.lock") == 0) continue;
        if (strcmp(name, "minikafka.state") == 0) continue;
        if (strcmp(name, "minikafka.reserve") == 0) continue;
        name = strrchr(name, '.');
        if (strcmp(name, ".log") != 0 && strcmp(name, ".index") != 0 &&
            strcmp(name, ".timeindex") != 0) {
            fail_msg("%s is left", paths.paths[i]);
        }
    }
    mk_sim_paths_deinit(&paths);
}

static int64_t recovered_bytes(mk_log *log)
{
    mk_log_stats stats;

    assert_int_equal(mk_log_get_stats(log, &stats, NULL), MK_OK);
    return stats.recovered_bytes;
}

/* What stays is read, at once and after reopening, which need not read any of
 * it; appending goes on; Kafka would find the same. */
static void test_each_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES_COUNT; i++) {
        const swap_case *c = &swap_cases[i];
        static kafka_loader kafka;
        swap_world w;

        swap_begin(&w, NULL);
        assert_int_equal(swap_run(&w, c), MK_OK);
        assert_offsets(w.log, c->kept);
        assert_tidy(w.disk);
        swap_append(&w, 1);
        assert_offsets(w.log, c->kept | 0x100);
        assert_int_equal(mk_log_close(w.log, NULL), MK_OK);
        assert_true(kafka_load(&kafka, w.disk, DIRECTORY, 7));
        assert_int_equal(kafka.offsets, c->kept | 0x100);
        assert_false(kafka.bad_index);
        assert_int_equal(swap_open(w.env, false, &w.log, NULL), MK_OK);
        assert_int_equal(recovered_bytes(w.log), 0);
        assert_offsets(w.log, c->kept | 0x100);
        swap_end(&w);
    }
}

/* Kafka's retention falls back on a file's time: that of the last source
 * stays. */
static void test_times_of_files(void **state)
{
    mk_file_stat before, after;
    swap_world w;

    (void)state;
    swap_begin(&w, NULL);
    assert_int_equal(mk_vfs_set_mtime(w.env->vfs,
                                      DIRECTORY "/00000000000000000005.log",
                                      12345, NULL),
                     MK_OK);
    assert_int_equal(mk_vfs_stat(w.env->vfs,
                                 DIRECTORY "/00000000000000000005.log", &before,
                                 NULL),
                     MK_OK);
    mk_sim_disk_manual_clock(w.disk)->now_ms += 1000;
    assert_int_equal(swap_run(&w, &swap_cases[0]), MK_OK);
    assert_int_equal(mk_vfs_stat(w.env->vfs,
                                 DIRECTORY "/00000000000000000000.log", &after,
                                 NULL),
                     MK_OK);
    assert_int_equal(after.mtime_ms, before.mtime_ms);
    swap_end(&w);
}

/* A transaction index and snapshots of what was rewritten go with it. */
static void test_other_files_of_the_sources(void **state)
{
    static const char *const names[] = {
        "00000000000000000000.txnindex", "00000000000000000003.txnindex",
        "00000000000000000003.snapshot", "00000000000000000007.snapshot",
        "00000000000000000003.note"};
    static const bool stays[] = {false, false, false, true, true};
    swap_world w;

    (void)state;
    swap_begin(&w, NULL);
    for (int i = 0; i < 5; i++) {
        char path[128];

        snprintf(path, sizeof path, DIRECTORY "/%s", names[i]);
        assert_int_equal(mk_sim_disk_write(w.disk, path, "x", 1, NULL), MK_OK);
    }
    assert_int_equal(swap_run(&w, &swap_cases[0]), MK_OK);
    for (int i = 0; i < 5; i++) {
        char path[128];
        int64_t size;

        snprintf(path, sizeof path, DIRECTORY "/%s", names[i]);
        assert_int_equal(mk_sim_disk_size(w.disk, path, &size, NULL),
                         stays[i] ? MK_OK : MK_NOT_FOUND);
    }
    swap_end(&w);
}

/* ---- Readers ---- */

/* Cursors go on by offset, wherever they were. */
static void test_cursors_go_on(void **state)
{
    const swap_case *c = &swap_cases[0];

    (void)state;
    for (int64_t at = 0; at < 8; at++) {
        mk_cursor *cursor = NULL;
        mk_record_view view;
        uint64_t seen = 0;
        swap_world w;

        swap_begin(&w, NULL);
        assert_int_equal(mk_cursor_open(w.log, NULL, &cursor, NULL), MK_OK);
        for (int64_t i = 0; i < at; i++) {
            assert_int_equal(mk_cursor_next(cursor, &view, NULL), MK_OK);
        }
        assert_int_equal(swap_run(&w, c), MK_OK);
        while (mk_cursor_next(cursor, &view, NULL) == MK_OK) {
            assert_true(view.offset >= at);
            seen |= UINT64_C(1) << view.offset;
        }
        /* What it had read ahead may still be there. */
        assert_int_equal(seen & c->kept, c->kept & ~((UINT64_C(1) << at) - 1));
        mk_cursor_close(cursor);
        swap_end(&w);
    }
}

typedef struct witness {
    mk_sim_disk *disk;
    const swap_case *which;
    int looks, olds, news;
} witness;

/* A reader of another process, at this moment. */
static mk_status look_now(void *context, const mk_sim_event *event,
                          mk_error *err)
{
    witness *w = context;
    mk_sim_disk *copy = NULL;
    mk_env *env = NULL;
    mk_log *log = NULL;
    mk_error found = {0};
    uint64_t offsets;
    mk_status end;

    (void)event, (void)err;
    assert_int_equal(mk_sim_disk_clone(w->disk, &copy, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(copy, &env, NULL), MK_OK);
    if (swap_open(env, true, &log, &found) != MK_OK) {
        fail_msg("%s: %s", w->which->name, found.message);
    }
    offsets = swap_offsets(log, &end);
    assert_int_equal(end, MK_END);
    assert_true(offsets == ALL || offsets == w->which->kept);
    w->looks++;
    w->olds += offsets == ALL;
    w->news += offsets == w->which->kept;
    mk_log_abandon(log);
    mk_env_free(env);
    mk_sim_disk_free(copy);
    return MK_OK;
}

/* At no moment does a reader beside see anything but the old log or the new. */
static void test_readers_beside(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES_COUNT; i++) {
        witness seen = {.which = &swap_cases[i]};
        swap_world w;

        swap_begin(&w, NULL);
        seen.disk = w.disk;
        mk_sim_disk_trace(w.disk, (mk_sim_trace){look_now, &seen});
        assert_int_equal(swap_run(&w, seen.which), MK_OK);
        mk_sim_disk_trace(w.disk, (mk_sim_trace){0});
        assert_true(seen.olds > 10);
        assert_true(seen.news > 3);
        swap_end(&w);
    }
}

/* ---- Failures ---- */

/* After an operation that failed, once, the log is the old one or the new one,
 * for its owner and for who opens it later, and it goes on. */
static void check_failed(swap_world *w, const swap_case *c, mk_status status)
{
    mk_status end;
    uint64_t found = swap_offsets(w->log, &end);

    assert_int_equal(end, MK_END);
    if (status == MK_OK) {
        assert_int_equal(found, c->kept);
    } else {
        assert_true(found == ALL || found == c->kept);
        assert_int_equal(w->err.status, status);
    }
    swap_append(w, 1);
    mk_log_abandon(w->log);
    w->log = NULL;
    if (swap_open(w->env, false, &w->log, &w->err) != MK_OK) {
        fail_msg("%s: %s", c->name, w->err.message);
    }
    found = swap_offsets(w->log, &end);
    assert_int_equal(end, MK_END);
    assert_true(found == (ALL | 0x100) || found == (c->kept | 0x100));
    if (status == MK_OK) assert_int_equal(found, c->kept | 0x100);
    assert_tidy(w->disk);
}

/* Fail the n-th operation of a kind; false when there was none. */
static bool fail_nth(const swap_case *c, mk_sim_operation operation, int64_t n,
                     int os_errno)
{
    mk_sim_stats before, after;
    mk_sim_fault fault;
    mk_status status;
    swap_world w;

    swap_begin(&w, NULL);
    mk_sim_fault_default(&fault);
    fault.operation = operation;
    fault.after = n;
    fault.times = 1;
    fault.os_errno = os_errno;
    assert_int_equal(mk_sim_disk_fail(w.disk, &fault, NULL), MK_OK);
    mk_sim_disk_stats(w.disk, &before);
    status = swap_run(&w, c);
    mk_sim_disk_stats(w.disk, &after);
    mk_sim_disk_heal(w.disk);
    check_failed(&w, c, status);
    swap_end(&w);
    return after.operations[operation] - before.operations[operation] > n;
}

static void test_every_operation_fails(void **state)
{
    static const mk_sim_operation operations[] = {
        MK_SIM_OPEN,      MK_SIM_READ,  MK_SIM_WRITE,  MK_SIM_FSYNC,
        MK_SIM_FSYNC_DIR, MK_SIM_UTIME, MK_SIM_RENAME, MK_SIM_UNLINK,
        MK_SIM_STAT,      MK_SIM_CLOSE};
    int failures = 0;

    (void)state;
    for (size_t i = 0; i < CASES_COUNT; i++) {
        for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
            for (int64_t n = 0;
                 fail_nth(&swap_cases[i], operations[o], n, 5 /* EIO */); n++) {
                failures++;
            }
        }
    }
    assert_true(failures > 200);
}

/* The names of sources that were just rolled are made stable first; if that
 * fails, nothing is rewritten. Nobody need ask why. */
static void test_sources_with_new_names(void **state)
{
    swap_case all = {"all four", 0, 4, 0xB5, 0, 0};
    mk_sim_fault fault;
    mk_sim_stats before, after;
    mk_status end;
    swap_world w;

    (void)state;
    swap_begin(&w, NULL);
    assert_int_equal(mk_log_roll(w.log, NULL), MK_OK);
    mk_sim_fault_default(&fault);
    fault.operation = MK_SIM_FSYNC_DIR;
    fault.times = 1;
    fault.os_errno = 5; /* EIO */
    assert_int_equal(mk_sim_disk_fail(w.disk, &fault, NULL), MK_OK);
    mk_sim_disk_stats(w.disk, &before);
    {
        rewrite_rule rule = {swap_keeps, &all, 0};

        assert_int_equal(rewrite_segments(w.log, 0, 4, &rule, NULL), MK_IO);
    }
    mk_sim_disk_stats(w.disk, &after);
    assert_int_equal(after.operations[MK_SIM_RENAME],
                     before.operations[MK_SIM_RENAME]);
    assert_int_equal(swap_offsets(w.log, &end), ALL);
    swap_append(&w, 1);
    assert_int_equal(swap_run(&w, &all), MK_OK);
    assert_offsets(w.log, 0xB5 | 0x100);
    assert_tidy(w.disk);
    swap_end(&w);
}

/* Without memory nothing happens. */
typedef struct meter {
    int64_t left; /* Allocations until one fails; negative: none does. */
} meter;

static void *metered(void *context, void *block, size_t size)
{
    meter *m = context;

    if (size == 0) {
        free(block);
        return NULL;
    }
    if (m->left >= 0 && m->left-- == 0) return NULL;
    return realloc(block, size);
}

static void test_no_memory(void **state)
{
    bool failed = true;

    (void)state;
    for (int64_t n = 0; failed; n++) {
        const swap_case *c = &swap_cases[4];
        meter m = {-1};
        mk_sim_options options;
        mk_heap heap = {metered, &m};
        mk_status status, end;
        uint64_t found;
        swap_world w, plain;

        swap_begin(&plain, NULL);
        mk_sim_options_default(&options);
        memset(&w, 0, sizeof w);
        assert_int_equal(mk_log_close(plain.log, NULL), MK_OK);
        plain.log = NULL;
        w.disk = plain.disk;
        assert_int_equal(mk_env_new_sim(w.disk, &w.env, NULL), MK_OK);
        w.env->heap = heap;
        assert_int_equal(swap_open(w.env, false, &w.log, NULL), MK_OK);
        m.left = n;
        status = swap_run(&w, c);
        failed = m.left < 0;
        m.left = -1;
        found = swap_offsets(w.log, &end);
        assert_int_equal(end, MK_END);
        assert_true(found == (status == MK_OK ? c->kept : ALL) ||
                    (status != MK_OK && found == c->kept));
        if (status != MK_OK) assert_int_equal(status, MK_NO_MEMORY);
        mk_log_abandon(w.log);
        mk_env_free(w.env);
        swap_end(&plain);
        assert_true(n < 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_case),
        cmocka_unit_test(test_times_of_files),
        cmocka_unit_test(test_other_files_of_the_sources),
        cmocka_unit_test(test_cursors_go_on),
        cmocka_unit_test(test_readers_beside),
        cmocka_unit_test(test_every_operation_fails),
        cmocka_unit_test(test_sources_with_new_names),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("segment_swap", tests, NULL, NULL);
}
