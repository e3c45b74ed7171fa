/*
 * Whichever allocation fails, in whatever operation: the answer is NO_MEMORY
 * (or success, where memory was only to make it faster), nothing is leaked, no
 * lock and no descriptor is left, nothing has changed, and the log goes on.
 */
#define _GNU_SOURCE
#include "support/log_world.h"

typedef struct operation {
    const char *name;
    void (*prepare)(log_world *world); /* Leaves a log, open or closed. */
    mk_status (*act)(log_world *world);
    const char *before; /* Contents; */
    const char *after;  /* ... and once it is done. */
    bool may_be_done;   /* Although it failed. */
} operation;

#define ALL "0:a=1 1:b=2 2:a=3 3:c=4 4:d=5 5:e=6 6:a=7 "

/* ---- Preparing ---- */

static void prepare_nothing(log_world *world)
{
    (void)world;
}

static void prepare_segments(log_world *world)
{
    open_log(world);
    fill(world, "a=1,b=2 | a=3 c=4 | d=5 e=6,a=7");
}

static void prepare_flushed(log_world *world)
{
    prepare_segments(world);
    flush(world);
}

static void prepare_full(log_world *world)
{
    world->options.config.segment_bytes = 170;
    prepare_segments(world);
}

static void prepare_closed(log_world *world)
{
    prepare_segments(world);
    close_log(world);
}

static void prepare_dead(log_world *world)
{
    prepare_segments(world);
    abandon_log(world);
}

static void prepare_foreign(log_world *world)
{
    prepare_closed(world);
    unlink(file_of(world, "minikafka.state"));
    unlink(segment_file(world, 2, ".index"));
    store_text(segment_file(world, 0, ".timeindex"), "rubbish");
}

/* A log just opened: no index is in memory yet. */
static void prepare_opened(log_world *world)
{
    prepare_closed(world);
    open_log(world);
}

/* ... and its indexes are to be made anew. */
static void prepare_damaged(log_world *world)
{
    prepare_closed(world);
    store_text(segment_file(world, 0, ".index"), "bad");
    store_text(segment_file(world, 2, ".timeindex"), "bad");
    open_log(world);
}

/* A log that refuses changes, on a disk that is well again. */
static void prepare_refusing(log_world *world)
{
    prepare_segments(world);
    wrap_fail(&world->wrap, WRAP_fdatasync, 1, EIO);
    assert_int_equal(mk_log_flush(world->log, &world->err), MK_IO);
    wrap_heal(&world->wrap);
    assert_true(stats_of(world).refusing);
}

/* ---- Acting ---- */

static mk_status open_to_read(log_world *world)
{
    mk_status status;

    world->options.read_only = true;
    status = try_open(world);
    world->options.read_only = false;
    if (status != MK_OK) return status;
    status = try_tell(world, world->log, world->told);
    abandon_log(world);
    return status == MK_END ? MK_OK : status;
}

static mk_status open_alone(log_world *world)
{
    return try_open(world);
}

static mk_status close_it(log_world *world)
{
    mk_log *log = world->log;

    world->log = NULL;
    return mk_log_close(log, &world->err);
}

static mk_status append_one(log_world *world)
{
    mk_record record;
    int64_t offset;

    parse_records("f=8", &record);
    return mk_log_append_one(world->log, &record, &offset, &world->err);
}

static mk_status append_durably(log_world *world)
{
    mk_append_options options;
    mk_offset_range range;
    mk_record record;

    mk_append_options_default(&options);
    options.durable = true;
    parse_records("f=8", &record);
    return mk_log_append(world->log, &record, 1, &options, &range, &world->err);
}

static mk_status use_an_appender(log_world *world)
{
    mk_appender *appender;
    mk_appender_options options;
    mk_record record;
    mk_status status;

    mk_appender_options_default(&options);
    options.batch_bytes = 1;
    status = mk_appender_open(world->log, &options, &appender, &world->err);
    if (status != MK_OK) return status;
    parse_records("f=8", &record);
    status = mk_appender_append_one(appender, &record, &world->err);
    if (status != MK_OK) {
        mk_appender_abandon(appender);
        return status;
    }
    status = mk_appender_flush(appender, &(mk_offset_range){0}, &world->err);
    if (status == MK_OK) return mk_appender_close(appender, &world->err);
    mk_appender_abandon(appender);
    return status;
}

static mk_status look_for_more(log_world *world)
{
    bool reached;
    mk_log *log = NULL;
    mk_status status;

    world->options.read_only = true;
    status = mk_log_open(world->where, &world->options, &log, &world->err);
    world->options.read_only = false;
    if (status != MK_OK) return status;
    assert_ok(world, mk_vfs_set_mtime(world->wrap.inner,
                                      file_of(world, "minikafka.state"), 5000,
                                      &world->err));
    status = mk_log_wait(log, 99, 0, &reached, &world->err);
    if (status == MK_OK) status = mk_log_refresh(log, &world->err);
    mk_log_abandon(log);
    return status;
}

static mk_status copy_it(log_world *world)
{
    const char *target = path_of(world->disk, "copies");
    mk_status status = mk_log_copy_to(world->log, target, NULL, &world->err);

    if (status == MK_OK) {
        remove_all(path_of(world->disk, "copies"));
    } else {
        assert_false(exists(path_of(world->disk, "copies")));
    }
    return status;
}

static mk_status verify_it(log_world *world)
{
    mk_findings found;
    mk_status status = mk_log_verify(world->log, NULL, &found, &world->err);

    mk_findings_deinit(&found);
    return status;
}

static mk_status roll_it(log_world *world)
{
    return mk_log_roll(world->log, &world->err);
}

static mk_status flush_it(log_world *world)
{
    return mk_log_flush(world->log, &world->err);
}

static mk_status configure_it(log_world *world)
{
    mk_config config;

    mk_log_get_config(world->log, &config);
    return mk_log_configure(world->log, &config, &world->err);
}

static mk_status read_all(log_world *world)
{
    mk_status status = try_tell(world, world->log, world->told);

    return status == MK_END ? MK_OK : status;
}

static mk_status fetch_each(log_world *world)
{
    mk_cursor *cursor;
    mk_status status = mk_cursor_open(world->log, NULL, &cursor, &world->err);

    if (status != MK_OK) return status;
    for (int64_t i = 6; i >= 0 && status == MK_OK; i--) {
        mk_record_view views[4];
        size_t count;

        status = mk_cursor_seek(cursor, i, &world->err);
        if (status != MK_OK) break;
        mk_cursor_limit(cursor, MK_TO_END, 1, MK_NO_LIMIT);
        status = mk_cursor_read(cursor, views, 4, &count, &world->err);
        if (status != MK_OK) break;
        assert_int_equal(views[0].offset, i);
    }
    mk_cursor_close(cursor);
    return status;
}

static mk_status look_up(log_world *world)
{
    int64_t offset, found_ms;
    mk_status status = mk_log_offset_for_timestamp(world->log, 1000, &offset,
                                                   &found_ms, &world->err);

    if (status != MK_OK) return status;
    assert_int_equal(offset, 0);
    return mk_log_offset_of_max_timestamp(world->log, &offset, &found_ms,
                                          &world->err);
}

static mk_status go_to_a_time(log_world *world)
{
    mk_cursor *cursor;
    mk_status status = mk_cursor_open(world->log, NULL, &cursor, &world->err);

    if (status != MK_OK) return status;
    status = mk_cursor_seek_time(cursor, 999, &world->err);
    mk_cursor_close(cursor);
    return status;
}

static mk_status delete_to_three(log_world *world)
{
    return mk_log_delete_records(world->log, 3, &world->err);
}

static mk_status truncate_to_five(log_world *world)
{
    return mk_log_truncate_to(world->log, 5, &world->err);
}

static mk_status truncate_to_one(log_world *world)
{
    return mk_log_truncate_to(world->log, 3, &world->err);
}

static mk_status truncate_all(log_world *world)
{
    return mk_log_truncate_to(world->log, 0, &world->err);
}

static mk_status delete_first(log_world *world)
{
    const int64_t first = 0;

    return mk_log_delete_closed_segments(world->log, &first, 1, &world->err);
}

static mk_status retain_nothing(log_world *world)
{
    mk_retention_options options = {.by_size = true, .retention_bytes = 1};
    mk_cleanup_result result;
    mk_status status =
        mk_log_retain(world->log, &options, &result, &world->err);

    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status compact_it(log_world *world)
{
    mk_cleanup_result result;
    mk_status status = mk_log_compact(world->log, NULL, &result, &world->err);

    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status compact_by_renames(log_world *world)
{
    mk_status status;

    world->wrap.no_exchange = true;
    status = compact_it(world);
    world->wrap.no_exchange = false;
    return status;
}

static const operation operations[] = {
    {"open nothing", prepare_nothing, open_alone, "", "", false},
    {"open", prepare_closed, open_alone, ALL, ALL, false},
    {"open after death", prepare_dead, open_alone, ALL, ALL, false},
    {"open, foreign", prepare_foreign, open_alone, ALL, ALL, false},
    {"open read-only", prepare_closed, open_to_read, ALL, ALL, false},
    {"open read-only after death", prepare_foreign, open_to_read, ALL, ALL,
     false},
    {"close", prepare_segments, close_it, ALL, ALL, false},
    {"append one", prepare_opened, append_one, ALL, ALL "7:f=8 ", false},
    {"append and roll", prepare_full, append_one, ALL, ALL "7:f=8 ", false},
    {"append durably", prepare_segments, append_durably, ALL, ALL "7:f=8 ",
     true},
    {"append when refusing", prepare_refusing, append_one, ALL, ALL "7:f=8 ",
     false},
    {"delete when refusing", prepare_refusing, delete_first, ALL,
     "2:a=3 3:c=4 4:d=5 5:e=6 6:a=7 ", false},
    {"close when refusing", prepare_refusing, close_it, ALL, ALL, false},
    {"wait and refresh", prepare_flushed, look_for_more, ALL, ALL, false},
    {"copy", prepare_opened, copy_it, ALL, ALL, false},
    {"verify", prepare_opened, verify_it, ALL, ALL, false},
    {"appender", prepare_full, use_an_appender, ALL, ALL "7:f=8 ", false},
    {"roll", prepare_segments, roll_it, ALL, ALL, false},
    {"flush", prepare_segments, flush_it, ALL, ALL, false},
    {"configure", prepare_segments, configure_it, ALL, ALL, false},
    {"read", prepare_opened, read_all, ALL, ALL, false},
    {"read, damaged indexes", prepare_damaged, fetch_each, ALL, ALL, false},
    {"fetch", prepare_opened, fetch_each, ALL, ALL, false},
    {"look up", prepare_opened, look_up, ALL, ALL, false},
    {"look up, damaged indexes", prepare_damaged, look_up, ALL, ALL, false},
    {"go to a time", prepare_opened, go_to_a_time, ALL, ALL, false},
    {"delete records", prepare_flushed, delete_to_three, ALL,
     "3:c=4 4:d=5 5:e=6 6:a=7 ", false},
    {"delete a segment", prepare_opened, delete_first, ALL,
     "2:a=3 3:c=4 4:d=5 5:e=6 6:a=7 ", false},
    {"truncate the active segment", prepare_flushed, truncate_to_five, ALL,
     "0:a=1 1:b=2 2:a=3 3:c=4 4:d=5 ", false},
    {"truncate segments", prepare_opened, truncate_to_one, ALL,
     "0:a=1 1:b=2 2:a=3 ", false},
    {"truncate all", prepare_opened, truncate_all, ALL, "", false},
    {"retain", prepare_opened, retain_nothing, ALL, "4:d=5 5:e=6 6:a=7 ",
     false},
    {"compact", prepare_opened, compact_it, ALL,
     "1:b=2 3:c=4 4:d=5 5:e=6 6:a=7 ", false},
    {"compact by renames", prepare_segments, compact_by_renames, ALL,
     "1:b=2 3:c=4 4:d=5 5:e=6 6:a=7 ", false},
};

/* ---- Judging ---- */

typedef struct attempt {
    const operation *op;
    long number;
    mk_status status;
    bool touched; /* Files have changed. */
} attempt;

static void complain(const attempt *a, const char *what, const char *detail)
{
    fail_msg("%s, allocation %ld, %s: %s: %s", a->op->name, a->number,
             mk_status_name(a->status), what, detail);
}

static void check_contents(log_world *world, const attempt *a,
                           const char *wanted, const char *when)
{
    mk_status status = try_tell(world, world->log, world->told);

    if (status != MK_END) complain(a, when, world->err.message);
    if (strcmp(world->told, wanted) != 0) complain(a, when, world->told);
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* An operation that had begun to change files made the log refuse, and it has
 * healed: it is done, or not; a truncation may be done in part. `z` is what the
 * log took then. */
static void judge_healed(log_world *world, attempt *a, const char *z)
{
    size_t size;

    reopen_after_death(world);
    size = strlen(contents(world)) - strlen(z);
    if (strcmp(world->told + size, z) != 0 ||
        (!a->touched && a->op->prepare != prepare_refusing)) {
        complain(a, "healed", world->told);
    }
    world->told[size] = '\0';
    if (strcmp(world->told, a->op->before) != 0 &&
        strcmp(world->told, a->op->after) != 0 &&
        !(begins_with(a->op->before, world->told) &&
          begins_with(world->told, a->op->after))) {
        complain(a, "half done", world->told);
    }
    close_log(world);
}

/* Look, append, and look again after a death; the lock was given back if it
 * should be. */
static void judge(log_world *world, attempt *a)
{
    const char *wanted = a->status == MK_OK ? a->op->after : a->op->before;
    char longer[256];
    char z[32];
    mk_offset_range range;

    if (world->log == NULL && try_open(world) != MK_OK) {
        complain(a, "opening", world->err.message);
    }
    (void)!try_tell(world, world->log, world->told);
    if ((a->op->may_be_done || a->touched) &&
        strcmp(world->told, a->op->after) == 0) {
        wanted = a->op->after;
    }
    check_contents(world, a, wanted, "contents");
    if (try_append(world, "z=9", &range) != MK_OK) {
        complain(a, "going on", world->err.message);
    }
    snprintf(z, sizeof z, "%lld:z=9 ", (long long)range.first);
    if (stats_of(world).heals > 0) {
        judge_healed(world, a, z);
        return;
    }
    if (a->status != MK_OK && wanted == a->op->after && !a->op->may_be_done &&
        strcmp(a->op->before, a->op->after) != 0) {
        complain(a, "done", "and not refusing");
    }
    snprintf(longer, sizeof longer, "%s%s", wanted, z);
    reopen_after_death(world);
    check_contents(world, a, longer, "contents then");
    assert_alone(world);
    reopen(world);
    check_contents(world, a, longer, "contents at last");
    close_log(world);
}

/* Do it with allocation `number` failing; false once there is no such one. */
static bool try_once(log_world *world, const operation *op, long number)
{
    posix_world *disk = world->disk;
    attempt a = {op, number, MK_OK, false};
    int descriptors;
    long blocks, calls;

    remove_all(world->where);
    mk_open_options_default(&world->options);
    world->options.env = world->env;
    world->options.config.index_interval_bytes = 0;
    world->options.max_open_files = 2;
    op->prepare(world);
    keep(world, files(world));
    descriptors = count_descriptors();
    blocks = disk->blocks;
    disk->heap_calls = 0;
    disk->fail_at = number;
    a.status = op->act(world);
    disk->fail_at = 0;
    calls = disk->heap_calls;
    if (calls < number) {
        if (a.status != MK_OK) complain(&a, "", world->err.message);
    } else if (a.status != MK_OK && a.status != MK_NO_MEMORY) {
        complain(&a, "status", world->err.message);
    }
    if (world->log == NULL) {
        if (disk->blocks > blocks) complain(&a, "leak", "of memory");
        if (count_descriptors() > descriptors) complain(&a, "leak", "of files");
    }
    a.touched = strcmp(files(world), world->kept) != 0;
    judge(world, &a);
    return calls >= number;
}

/* Every allocation of the operation may fail. */
static void test_every_allocation_may_fail(void **state)
{
    log_world *world = *state;
    long number = 1;

    while (try_once(world, world->given, number)) {
        number++;
    }
}

#define OPERATION_COUNT (sizeof operations / sizeof operations[0])

int main(void)
{
    struct CMUnitTest tests[OPERATION_COUNT];

    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        tests[i] = (struct CMUnitTest)log_test(test_every_allocation_may_fail);
        tests[i].name = operations[i].name;
        tests[i].initial_state = (void *)(uintptr_t)&operations[i];
    }
    return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
