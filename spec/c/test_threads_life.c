/* Threads and the lives of logs: many logs at once, one directory that several
 * want, logs and appenders that are closed in company. */
#define _GNU_SOURCE
#include "support/crew.h"

/* ---- Many logs ---- */

typedef struct owner {
    shared *all;
    int number;
    pthread_t thread;
} owner;

/* A life of a log of one's own. */
static void live_once(owner *o, int round)
{
    mk_open_options options;
    mk_cleanup_result result;
    char where[340];
    mk_log *log = NULL;
    mk_cursor *cursor;
    mk_record_view view;
    int64_t offset, seen = 0;

    mk_open_options_default(&options);
    options.config.segment_bytes = 300;
    snprintf(where, sizeof where, "%s/own-%d", o->all->disk->root, o->number);
    CHECK(o->all, mk_log_open(where, &options, &log, NULL) == MK_OK);
    if (log == NULL) return;
    for (int i = 0; i < 12; i++) {
        mk_record record = {"k", 1, "v", 1, round, 0, NULL, 0};

        CHECK(o->all, mk_log_append_one(log, &record, &offset, NULL) == MK_OK);
        CHECK(o->all, offset == round * 12 + i);
    }
    CHECK(o->all, mk_log_compact(log, NULL, &result, NULL) == MK_OK);
    mk_cleanup_result_deinit(&result);
    CHECK(o->all, mk_cursor_open(log, NULL, &cursor, NULL) == MK_OK);
    while (mk_cursor_next(cursor, &view, NULL) == MK_OK) {
        seen++;
    }
    CHECK(o->all, seen > 0 && seen < 8);
    mk_cursor_close(cursor);
    CHECK(o->all, mk_log_close(log, NULL) == MK_OK);
}

static void *live_often(void *context)
{
    owner *o = context;

    for (int i = 0; i < 12; i++) {
        live_once(o, i);
    }
    return NULL;
}

/* Eight threads, each with a log of its own, have nothing to do with each
 * other. */
static void test_many_logs(void **state)
{
    shared *all = calloc(1, sizeof *all);
    owner owners[8];

    assert_non_null(all);
    all->disk = *state;
    for (int i = 0; i < 8; i++) {
        owners[i] = (owner){.all = all, .number = i};
        assert_int_equal(
            pthread_create(&owners[i].thread, NULL, live_often, &owners[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(owners[i].thread, NULL);
    }
    assert_int_equal(all->faults, 0);
    free(all);
}

typedef struct opener {
    shared *all;
    _Atomic int *open;
    pthread_t thread;
} opener;

static void *open_often(void *context)
{
    opener *o = context;

    for (int i = 0; i < 60; i++) {
        mk_log *log = NULL;
        mk_status status = mk_log_open(o->all->where, NULL, &log, NULL);

        CHECK(o->all, status == MK_OK || status == MK_LOCKED);
        CHECK(o->all, (status == MK_OK) == (log != NULL));
        if (log == NULL) continue;
        CHECK(o->all, atomic_fetch_add(o->open, 1) == 0);
        sched_yield();
        CHECK(o->all, atomic_fetch_sub(o->open, 1) == 1);
        CHECK(o->all, mk_log_close(log, NULL) == MK_OK);
    }
    return NULL;
}

/* Several threads want to write to the same directory: one at a time does. */
static void test_one_directory(void **state)
{
    shared *all = calloc(1, sizeof *all);
    opener openers[4];
    _Atomic int open = 0;

    assert_non_null(all);
    all->disk = *state;
    snprintf(all->where, sizeof all->where, "%s/t-0", all->disk->root);
    for (int i = 0; i < 4; i++) {
        openers[i] = (opener){.all = all, .open = &open};
        assert_int_equal(
            pthread_create(&openers[i].thread, NULL, open_often, &openers[i]),
            0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(openers[i].thread, NULL);
    }
    assert_int_equal(all->faults, 0);
    free(all);
}

/* ---- The end of a log ---- */

/* A log is closed under the hands of its children: they say CLOSED, and no
 * other thing happens to them. */
static void *read_until_closed(void *context)
{
    actor *a = context;
    mk_cursor *cursor = NULL;
    mk_status status = MK_OK;

    CHECK(a->all, mk_cursor_open(a->all->log, NULL, &cursor, NULL) == MK_OK);
    atomic_fetch_sub(&a->all->writers_left, 1);
    while (cursor != NULL && (status == MK_OK || status == MK_END)) {
        mk_record_view view;

        status = mk_cursor_next(cursor, &view, NULL);
        if (status == MK_END) status = mk_cursor_seek(cursor, 0, NULL);
    }
    CHECK(a->all, status == MK_CLOSED);
    mk_cursor_close(cursor);
    return NULL;
}

static void *add_until_closed(void *context)
{
    actor *a = context;
    mk_appender *appender = NULL;
    mk_status status = MK_OK;
    mk_offset_range range;

    CHECK(a->all,
          mk_appender_open(a->all->log, NULL, &appender, NULL) == MK_OK);
    atomic_fetch_sub(&a->all->writers_left, 1);
    while (appender != NULL && status == MK_OK) {
        mk_record record = {"k", 1, "v", 1, 1, 0, NULL, 0};

        status = mk_appender_append_one(appender, &record, NULL);
        if (status == MK_OK && draw(a, 5) == 0) {
            status = mk_appender_flush(appender, &range, NULL);
        }
    }
    CHECK(a->all, status == MK_CLOSED);
    (void)mk_appender_close(appender, NULL);
    return NULL;
}

static void test_closing_under_children(void **state)
{
    for (int round = 0; round < 30; round++) {
        shared *all = calloc(1, sizeof *all);
        actor actors[4];

        assert_non_null(all);
        all->disk = *state;
        all->writers_left = 4;
        snprintf(all->where, sizeof all->where, "%s/t-%d", all->disk->root,
                 round);
        open_shared(all);
        for (int i = 0; i < 4; i++) {
            actors[i] =
                (actor){.all = all, .number = i, .chance = 7 + (uint64_t)i};
            assert_int_equal(pthread_create(&actors[i].thread, NULL,
                                            i % 2 == 0 ? read_until_closed
                                                       : add_until_closed,
                                            &actors[i]),
                             0);
        }
        while (atomic_load(&all->writers_left) > 0) {
            sched_yield();
        }
        assert_int_equal(mk_log_close(all->log, NULL), MK_OK);
        for (int i = 0; i < 4; i++) {
            pthread_join(actors[i].thread, NULL);
        }
        assert_int_equal(all->faults, 0);
        free(all);
    }
}

/* Append until the others are done. */
static void *append_in_company(void *context)
{
    actor *a = context;

    while (atomic_load(&a->all->writers_left) > 0) {
        mk_record record = {"k", 1, "v", 1, 1, 0, NULL, 0};
        int64_t offset;

        CHECK(a->all,
              mk_log_append_one(a->all->log, &record, &offset, NULL) == MK_OK);
    }
    return NULL;
}

/* Add one record, and close; whoever sends it, it is sent once. */
static void *add_and_close(void *context)
{
    actor *a = context;

    for (int i = 0; i < 400; i++) {
        mk_record record = {"once", 4, "v", 1, 1, 0, NULL, 0};
        mk_appender *appender = NULL;

        CHECK(a->all,
              mk_appender_open(a->all->log, NULL, &appender, NULL) == MK_OK);
        if (appender == NULL) break;
        CHECK(a->all, mk_appender_append_one(appender, &record, NULL) == MK_OK);
        CHECK(a->all, mk_appender_close(appender, NULL) == MK_OK);
    }
    atomic_fetch_sub(&a->all->writers_left, 1);
    return NULL;
}

/* An appender's records may be sent by another thread at any moment, also while
 * it is closed. */
static void test_closing_an_appender_in_company(void **state)
{
    shared *all = calloc(1, sizeof *all);
    actor actors[3];
    mk_record_view view;
    mk_cursor *cursor;
    int count = 0;

    assert_non_null(all);
    all->disk = *state;
    all->writers_left = 2;
    snprintf(all->where, sizeof all->where, "%s/t-0", all->disk->root);
    open_shared(all);
    for (int i = 0; i < 3; i++) {
        actors[i] = (actor){.all = all, .number = i};
        assert_int_equal(
            pthread_create(&actors[i].thread, NULL,
                           i < 2 ? add_and_close : append_in_company,
                           &actors[i]),
            0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(actors[i].thread, NULL);
    }
    assert_int_equal(all->faults, 0);
    assert_int_equal(mk_cursor_open(all->log, NULL, &cursor, NULL), MK_OK);
    while (mk_cursor_next(cursor, &view, NULL) == MK_OK) {
        count += view.key_size == 4;
    }
    mk_cursor_close(cursor);
    assert_int_equal(count, 2 * 400);
    assert_int_equal(mk_log_close(all->log, NULL), MK_OK);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_many_logs),
        world_test(test_one_directory),
        world_test(test_closing_an_appender_in_company),
        world_test(test_closing_under_children),
    };

    return cmocka_run_group_tests_name("threads_life", tests, NULL, NULL);
}
