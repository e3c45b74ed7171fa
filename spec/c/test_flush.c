/* Flushing: what is synced, in which order, and what a failed sync means. */
#define _GNU_SOURCE
#include "support/log_world.h"

/* Tell the syncs that were written down: "0 3 dir ", segments by base. */
static const char *syncs(log_world *world)
{
    world->told[0] = '\0';
    for (size_t i = 0; i < world->wrap.call_count; i++) {
        const wrap_call *call = &world->wrap.calls[i];
        const char *name = strrchr(call->path, '/') + 1;

        if (call->kind == WRAP_fdatasync && (call->name == MK_SYNC_FLUSH_LOG ||
                                             call->name == MK_SYNC_SEAL_LOG)) {
            tell(world->told, "%lld ", strtoll(name, NULL, 10));
        } else if (call->kind == WRAP_fsync_dir &&
                   call->name == MK_SYNC_FLUSH_DIRECTORY) {
            tell(world->told, "dir ");
        }
    }
    return world->told;
}

#define assert_syncs(world, expected) \
    assert_string_equal(syncs(world), (expected))

/* What has not been synced since is synced, oldest first, then the directory
 * for new names; a flush with nothing new does nothing. A roll syncs what it
 * ends. */
static void test_syncs_follow_the_log(void **state)
{
    log_world *world = *state;

    open_log(world);
    wrap_record(&world->wrap);
    fill(world, "a=1 b=2 | c=3 | d=4");
    assert_syncs(world, "0 2 ");
    wrap_record(&world->wrap);
    flush(world);
    assert_syncs(world, "3 dir ");
    assert_int_equal(info_of(world).recovery_point, 4);
    wrap_record(&world->wrap);
    flush(world);
    assert_syncs(world, "");
    append(world, "e=5");
    wrap_record(&world->wrap);
    flush(world);
    assert_syncs(world, "3 ");
    assert_int_equal(info_of(world).recovery_point, 5);
    roll(world);
    wrap_record(&world->wrap);
    flush(world);
    assert_syncs(world, "5 dir ");
}

/* What a flush has put there, a death leaves there, indexes and all. */
static void test_a_flush_writes_indexes(void **state)
{
    log_world *world = *state;

    world->options.config.index_interval_bytes = 0;
    open_log(world);
    fill(world, "a=1@1 b=2@2 c=3@3");
    flush(world);
    assert_int_equal(file_size(segment_file(world, 0, ".index")), 16);
    assert_int_equal(file_size(segment_file(world, 0, ".timeindex")), 24);
    append(world, "d=4@4");
    flush(world);
    assert_int_equal(file_size(segment_file(world, 0, ".index")), 24);
    reopen_after_death(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 ");
}

/* An appender's records are part of what is flushed. */
static void test_a_flush_sends_what_waits(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    mk_record record;

    open_log(world);
    assert_ok(world,
              mk_appender_open(world->log, NULL, &appender, &world->err));
    parse_records("a=1", &record);
    assert_ok(world, mk_appender_append_one(appender, &record, &world->err));
    assert_bounds(world, 0, 0);
    flush(world);
    assert_bounds(world, 0, 1);
    assert_int_equal(info_of(world).recovery_point, 1);
    assert_ok(world, mk_appender_close(appender, &world->err));
}

/* A failed sync may have lost what it was to save, and a second try would not
 * tell: the log refuses changes, with the first error, until the disk is well
 * again. Reading goes on. */
static void test_a_failed_sync_refuses(void **state)
{
    log_world *world = *state;
    mk_offset_range range;

    open_log(world);
    append(world, "a=1");
    flush(world);
    append(world, "b=2");
    wrap_fail(&world->wrap, WRAP_fdatasync, 1, EIO)->always = true;
    assert_int_equal(mk_log_flush(world->log, &world->err), MK_IO);
    assert_int_equal(world->err.os_errno, EIO);
    assert_string_equal(world->err.path, segment_file(world, 0, ".log"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mk_log_flush(world->log, &world->err), MK_IO);
        assert_non_null(strstr(world->err.message, "refuses changes"));
        assert_string_equal(world->err.path, segment_file(world, 0, ".log"));
        assert_int_equal(try_append(world, "c=3", &range), MK_IO);
    }
    assert_int_equal(info_of(world).recovery_point, 1);
    assert_contents(world, "0:a=1 1:b=2 ");
    assert_true(stats_of(world).refusing);
    assert_int_equal(mk_log_close(world->log, &world->err), MK_IO);
    wrap_heal(&world->wrap);
    world->log = NULL;
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 ");
    /* The opening has proved it. */
    assert_int_equal(info_of(world).recovery_point, 2);
    flush(world);
    assert_int_equal(info_of(world).recovery_point, 2);
}

/* The same when it is the directory that can't be synced, or an append that
 * syncs. */
static void test_other_failed_syncs_refuse(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    int64_t end;

    open_log(world);
    append(world, "a=1");
    wrap_fail(&world->wrap, WRAP_fsync_dir, 1, EIO)->always = true;
    assert_int_equal(mk_log_flush(world->log, &world->err), MK_IO);
    assert_int_equal(try_append(world, "b=2", &range), MK_IO);
    wrap_heal(&world->wrap);
    assert_int_equal(info_of(world).recovery_point, 0);
    reopen_after_death(world);
    abandon_log(world);
    world->options.config.flush_messages = 1;
    open_log(world);
    wrap_fail(&world->wrap, WRAP_fdatasync, 1, EIO)->always = true;
    assert_int_equal(try_append(world, "b=2", &range), MK_IO);
    assert_int_equal(try_append(world, "c=3", &range), MK_IO);
    assert_non_null(strstr(world->err.message, "refuses changes"));
    wrap_heal(&world->wrap);
    reopen_after_death(world);
    /* Not acknowledged: it may be there, or not. */
    end = info_of(world).log_end_offset;
    assert_in_range(end, 1, 2);
    assert_int_equal(append(world, "d=4"), end);
}

/* ---- In the midst of a sync ---- */

typedef struct midst {
    log_world *world;
    const char *text; /* To be appended; NULL: drop the first segment. */
    int left;
} midst;

/* While the first sync runs, do something else with the log: no lock is held.
 */
static void do_in_the_midst(void *context, const wrap_call *call)
{
    midst *m = context;

    if (call->kind != WRAP_fdatasync || m->left == 0) return;
    if (call->name != MK_SYNC_FLUSH_LOG) return;
    m->left--;
    if (m->text != NULL) {
        fill(m->world, m->text);
    } else {
        assert_ok(m->world,
                  mk_log_delete_records(m->world->log, 2, &m->world->err));
    }
}

static void flush_with(log_world *world, midst *m)
{
    m->world = world;
    world->wrap.context = m;
    world->wrap.before = do_in_the_midst;
    flush(world);
    world->wrap.before = NULL;
    assert_int_equal(m->left, 0);
}

/* What is appended meanwhile is not waited for, and not claimed. */
static void test_appends_go_on_during_a_sync(void **state)
{
    log_world *world = *state;
    midst m = {.text = "b=2 c=3", .left = 1};

    open_log(world);
    append(world, "a=1");
    flush_with(world, &m);
    assert_int_equal(info_of(world).recovery_point, 1);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
    flush(world);
    assert_int_equal(info_of(world).recovery_point, 3);
}

/* So it is with a roll: the recovery point stays in the old segment. */
static void test_a_roll_during_a_sync(void **state)
{
    log_world *world = *state;
    midst m = {.text = "b=2 | c=3", .left = 1};

    open_log(world);
    append(world, "a=1");
    flush_with(world, &m);
    assert_int_equal(info_of(world).recovery_point, 1);
    reopen_after_death(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
    wrap_record(&world->wrap);
    flush(world);
    assert_syncs(world, "0 2 ");
    assert_int_equal(info_of(world).recovery_point, 3);
}

/* A segment that goes meanwhile needs no sync. */
static void test_a_removal_during_a_sync(void **state)
{
    log_world *world = *state;
    midst m = {.left = 1};

    open_log(world);
    fill(world, "a=1 b=2 | c=3 | d=4");
    flush_with(world, &m);
    assert_int_equal(info_of(world).recovery_point, 4);
    assert_contents(world, "2:c=3 3:d=4 ");
    reopen_after_death(world);
    assert_contents(world, "2:c=3 3:d=4 ");
}

typedef struct flusher {
    log_world *world;
    pthread_t threads[3];
    mk_status statuses[3];
    int next;
    bool started;
} flusher;

static void *flush_too(void *context)
{
    flusher *f = context;
    int own = __atomic_fetch_add(&f->next, 1, __ATOMIC_RELAXED);

    f->statuses[own] = mk_log_flush(f->world->log, NULL);
    return NULL;
}

static void start_flushers(void *context, const wrap_call *call)
{
    flusher *f = context;

    if (call->kind != WRAP_fdatasync || f->started) return;
    f->started = true;
    fill(f->world, "b=2");
    for (int i = 0; i < 3; i++) {
        pthread_create(&f->threads[i], NULL, flush_too, f);
    }
    wait_tick();
}

static void join_flushers(flusher *f, mk_status wanted)
{
    for (int i = 0; i < 3; i++) {
        pthread_join(f->threads[i], NULL);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->statuses[i], wanted);
    }
}

/* Callers that come during a sync are not served by it, since it may have begun
 * before their records; they share the next one. */
static void test_waiting_flushes_share_a_sync(void **state)
{
    log_world *world = *state;
    flusher f = {.world = world};

    open_log(world);
    append(world, "a=1");
    wrap_record(&world->wrap);
    world->wrap.context = &f;
    world->wrap.before = start_flushers;
    flush(world);
    join_flushers(&f, MK_OK);
    world->wrap.before = NULL;
    assert_int_equal(info_of(world).recovery_point, 2);
    assert_syncs(world, "0 dir 0 ");
}

/* If the shared sync fails, all who wait for it hear of it. */
static void test_waiting_flushes_share_a_failure(void **state)
{
    log_world *world = *state;
    flusher f = {.world = world};

    open_log(world);
    append(world, "a=1");
    world->wrap.context = &f;
    world->wrap.before = start_flushers;
    wrap_fail(&world->wrap, WRAP_fdatasync, 1, EIO);
    assert_int_equal(mk_log_flush(world->log, &world->err), MK_IO);
    join_flushers(&f, MK_IO);
    world->wrap.before = NULL;
    wrap_heal(&world->wrap);
    assert_int_equal(info_of(world).recovery_point, 0);
}

/* ---- In the midst of a swap ---- */

typedef struct encounter {
    log_world *world;
    pthread_t flusher;
    mk_status flushed;
    _Atomic int step; /* 1: the flush is about to sync the directory; 2: the
                         directory is away; 3: it is back. */
} encounter;

static void wait_for_step(encounter *e, int step)
{
    for (int tries = 0; tries < 100 && e->step < step; tries++) {
        wait_tick();
    }
}

static void *flush_aside(void *context)
{
    encounter *e = context;

    e->flushed = mk_log_flush(e->world->log, NULL);
    return NULL;
}

/* Let the flush's sync of the directory come between the swap's two renames. */
static void meet(void *context, const wrap_call *call)
{
    encounter *e = context;

    if (call->kind == WRAP_fsync_dir && call->name == MK_SYNC_FLUSH_DIRECTORY &&
        e->step == 0) {
        e->step = 1;
        wait_for_step(e, 2);
    } else if (call->kind == WRAP_link && e->step == 0) {
        wait_for_step(e, 1);
    } else if (call->kind == WRAP_rename && e->step == 1 &&
               strstr(call->path, "minikafka.new") != NULL &&
               strstr(call->path, "minikafka.swap") == NULL &&
               strstr(call->path, "minikafka.state") == NULL) {
        e->step = 2;
        for (int i = 0; i < 4; i++) {
            wait_tick(); /* Sooner proves less. */
        }
        e->step = 3;
    }
}

/* A flush that has to sync the directory while that is between two names is no
 * reason to refuse anything. */
static void test_a_swap_during_a_sync(void **state)
{
    log_world *world = *state;
    encounter e = {.world = world, .flushed = MK_BUSY};
    mk_cleanup_result result;

    world->wrap.no_exchange = true;
    world->wrap.no_sync = false;
    open_log(world);
    fill(world, "a=1 a=2 | b=3");
    world->wrap.context = &e;
    world->wrap.before = meet;
    assert_int_equal(pthread_create(&e.flusher, NULL, flush_aside, &e), 0);
    wait_for_step(&e, 1);
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    pthread_join(e.flusher, NULL);
    mk_cleanup_result_deinit(&result);
    world->wrap.before = NULL;
    assert_int_equal(e.step, 3);
    assert_int_equal(e.flushed, MK_OK);
    append(world, "c=4");
    flush(world);
    reopen_after_death(world);
    assert_contents(world, "1:a=2 2:b=3 3:c=4 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_syncs_follow_the_log),
        log_test(test_a_flush_writes_indexes),
        log_test(test_a_flush_sends_what_waits),
        log_test(test_a_failed_sync_refuses),
        log_test(test_other_failed_syncs_refuse),
        log_test(test_appends_go_on_during_a_sync),
        log_test(test_a_roll_during_a_sync),
        log_test(test_a_removal_during_a_sync),
        log_test(test_waiting_flushes_share_a_sync),
        log_test(test_waiting_flushes_share_a_failure),
        log_test(test_a_swap_during_a_sync),
    };

    return cmocka_run_group_tests_name("flush", tests, NULL, NULL);
}
