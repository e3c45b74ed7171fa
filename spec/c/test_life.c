/* Opening and closing. */
#define _GNU_SOURCE
#include "support/log_world.h"

/* ---- Opening ---- */

/* Missing parents are made, and their names synced; a log that is there opens
 * without a sync. */
static void test_parents_are_made(void **state)
{
    log_world *world = *state;

    snprintf(world->where, sizeof world->where, "%s/a/b/t-0",
             world->disk->root);
    wrap_record(&world->wrap);
    open_log(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_mkdir, ""), 3);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fsync_dir, "/a/b"), 1);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fsync_dir, "/a"), 1);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fsync_dir,
                                strrchr(world->disk->root, '/')),
                     1);
    append(world, "a=1");
    close_log(world);
    wrap_record(&world->wrap);
    open_log(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fsync_dir, ""), 0);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, ""), 0);
    assert_contents(world, "0:a=1 ");
}

/* Who may not make it finds nothing, and leaves nothing. */
static void test_a_missing_log(void **state)
{
    log_world *world = *state;

    for (int i = 1; i < 4; i++) {
        world->options.create = (i & 1) == 0;
        world->options.read_only = (i & 2) != 0;
        assert_int_equal(try_open(world), MK_NOT_FOUND);
        assert_string_equal(world->err.path, world->where);
        assert_null(world->log);
        assert_string_equal(files(world), "");
    }
}

/* What is no directory is no log. */
static void test_a_file_is_no_log(void **state)
{
    log_world *world = *state;

    store_text(world->where, "x");
    for (int i = 0; i < 2; i++) {
        world->options.read_only = i != 0;
        assert_int_equal(try_open(world), MK_IO);
        assert_int_equal(world->err.os_errno, ENOTDIR);
    }
    strcat(world->where, "/below");
    assert_int_equal(try_open(world), MK_IO);
}

/* Arguments are checked before anything is done. */
static void test_bad_arguments(void **state)
{
    log_world *world = *state;

    world->options.max_open_files = 0;
    assert_int_equal(try_open(world), MK_INVALID_ARGUMENT);
    world->options.max_open_files = 16;
    world->options.config.segment_bytes = 13;
    assert_int_equal(try_open(world), MK_INVALID_ARGUMENT);
    assert_non_null(strstr(world->err.message, "segment_bytes"));
    world->options.config.segment_bytes = 14;
    world->options.config.min_compaction_lag_ms = 5;
    world->options.config.max_compaction_lag_ms = 4;
    assert_int_equal(try_open(world), MK_INVALID_ARGUMENT);
    assert_int_equal(mk_log_open("", &world->options, &world->log, &world->err),
                     MK_INVALID_ARGUMENT);
    assert_string_equal(files(world), "");
}

/* A path that no file can have. */
static void test_an_endless_path(void **state)
{
    log_world *world = *state;
    char *path = malloc(8000);

    assert_non_null(path);
    memset(path, 'd', 7999);
    path[0] = '/';
    path[7999] = '\0';
    assert_int_equal(mk_log_open(path, &world->options, &world->log, NULL),
                     MK_IO);
    for (size_t i = 0; i < 7998; i += 100) {
        path[i] = '/';
    }
    assert_int_equal(mk_log_open(path, &world->options, &world->log, NULL),
                     MK_IO);
    assert_null(world->log);
    free(path);
}

/* The directory is known by its absolute path, however it was named. */
static void test_the_directory_is_absolute(void **state)
{
    log_world *world = *state;
    char real[PATH_MAX];
    char before[PATH_MAX];
    char wanted[PATH_MAX + 32];
    mk_log *log;

    assert_non_null(realpath(world->disk->root, real));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(mkdir(path_of(world->disk, "real"), 0755), 0);
    assert_int_equal(symlink("real", path_of(world->disk, "alias")), 0);
    assert_int_equal(chdir(world->disk->root), 0);
    assert_ok(world, mk_log_open("alias/../alias/./t-0", &world->options, &log,
                                 &world->err));
    assert_int_equal(chdir(before), 0);
    snprintf(wanted, sizeof wanted, "%s/real/t-0", real);
    assert_string_equal(mk_log_directory(log), wanted);
    assert_ok(world, mk_log_close(log, &world->err));
    assert_true(exists(wanted));
}

/* Twice is once too often, in one machine or another, by whatever name; a
 * failed attempt changes nothing. A reader needs no lock. */
static void test_only_one_may_write(void **state)
{
    log_world *world = *state;
    mk_open_options other;
    mk_log *log;

    open_log(world);
    append(world, "a=1");
    keep(world, files(world));
    mk_open_options_default(&other);
    assert_int_equal(mk_log_open(world->where, &other, &log, &world->err),
                     MK_LOCKED);
    assert_int_equal(
        mk_log_open(world->where, &world->options, &log, &world->err),
        MK_LOCKED);
    assert_non_null(strstr(world->err.message, "minikafka.lock"));
    assert_null(log);
    assert_string_equal(files(world), world->kept);
    append(world, "b=2");
    other.read_only = true;
    assert_ok(world, mk_log_open(world->where, &other, &log, &world->err));
    assert_int_equal(try_tell(world, log, world->told), MK_END);
    assert_string_equal(world->told, "0:a=1 1:b=2 ");
    assert_ok(world, mk_log_close(log, &world->err));
    reopen(world);
}

/* An attempt that fails late has let go of the lock. */
static void test_a_failed_open_lets_go(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 | b=2");
    close_log(world);
    unlink(file_of(world, "minikafka.state"));
    damage(segment_file(world, 0, ".log"), 20);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
    }
    damage(segment_file(world, 0, ".log"), 20);
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 ");
}

static mk_status failing_clock(void *context, int64_t *now_ms, mk_error *err)
{
    (void)context;
    (void)now_ms;
    if (err != NULL) {
        *err = (mk_error){.status = MK_CALLBACK, .message = "no time"};
    }
    return MK_CALLBACK;
}

/* Without the time a log is not opened; closing gives the clock's error, but
 * the records are flushed. An own clock goes before the machine's. */
static void test_a_clock_that_fails(void **state)
{
    log_world *world = *state;
    mk_log *log;

    world->options.clock.now = failing_clock;
    assert_int_equal(try_open(world), MK_CALLBACK);
    assert_string_equal(world->err.message, "no time");
    assert_string_equal(files(world), "");
    world->options.clock.now = NULL;
    open_log(world);
    append(world, "a=1");
    world->other.now = failing_clock;
    log = world->log;
    world->log = NULL;
    wrap_record(&world->wrap);
    assert_int_equal(mk_log_close(log, &world->err), MK_CALLBACK);
    assert_string_equal(world->err.message, "no time");
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, ".log"), 1);
    world->other.now = NULL;
    open_log(world);
    assert_contents(world, "0:a=1 ");
}

/* ---- A reader ---- */

/* Whatever it finds, a reader changes nothing: no lock, no state, no index. */
static void test_a_reader_changes_nothing(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    abandon_log(world);
    unlink(file_of(world, "minikafka.state"));
    unlink(segment_file(world, 0, ".index"));
    store_text(segment_file(world, 0, ".timeindex"), "rubbish");
    keep(world, files(world));
    world->options.read_only = true;
    wrap_record(&world->wrap);
    open_log(world);
    assert_true(info_of(world).read_only);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
    close_log(world);
    for (wrap_kind kind = WRAP_open; kind < WRAP_ANY; kind++) {
        bool looks = kind == WRAP_open || kind == WRAP_read ||
                     kind == WRAP_list || kind == WRAP_stat ||
                     kind == WRAP_close;

        if (looks) continue;
        if (wrap_count(&world->wrap, kind, "") > 0) {
            fail_msg("a reader did %s", wrap_word(kind));
        }
    }
    assert_string_equal(files(world), world->kept);
}

/* An empty directory is an empty log to a reader, too. */
static void test_a_reader_of_nothing(void **state)
{
    log_world *world = *state;
    int64_t offset, found_ms;

    assert_int_equal(mkdir(world->where, 0755), 0);
    world->options.read_only = true;
    open_log(world);
    assert_bounds(world, 0, 0);
    assert_contents(world, "");
    assert_segments(world, "0..0 ");
    assert_int_equal(mk_log_offset_of_max_timestamp(world->log, &offset,
                                                    &found_ms, &world->err),
                     MK_END);
    assert_string_equal(files(world), "t-0() ");
}

/* ---- Closing ---- */

/* A clean end: all is synced, the files are as long as their content, and a
 * second life that changes nothing writes nothing. */
static void test_a_clean_end(void **state)
{
    log_world *world = *state;

    world->options.mapped = MK_MAPPED_ALWAYS;
    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    assert_true(file_size(segment_file(world, 2, ".log")) >= 4096);
    wrap_record(&world->wrap);
    close_log(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, ".log"), 1);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fsync_dir, "/t-0"), 2);
    assert_true(file_size(segment_file(world, 2, ".log")) < 100);
    keep(world, files(world));
    wrap_record(&world->wrap);
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
    close_log(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_rename, ""), 0);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, ""), 0);
    assert_string_equal(files(world), world->kept);
}

/* Children outlive their log: they say CLOSED, and are freed in any order. */
static void test_children_outlive_their_log(void **state)
{
    log_world *world = *state;
    mk_appender *appender;
    mk_cursor *cursors[2];
    mk_record_view view;
    mk_batch_view batch;
    mk_offset_range range;
    mk_record record;
    mk_log *log;

    open_log(world);
    fill(world, "a=1,b=2,c=3");
    log = world->log;
    for (int i = 0; i < 2; i++) {
        assert_ok(world, mk_cursor_open(log, NULL, &cursors[i], &world->err));
        assert_ok(world, mk_cursor_next(cursors[i], &view, &world->err));
    }
    assert_ok(world, mk_appender_open(log, NULL, &appender, &world->err));
    parse_records("x=1", &record);
    assert_ok(world, mk_appender_append_one(appender, &record, &world->err));
    close_log(world);
    assert_int_equal(mk_cursor_next(cursors[0], &view, &world->err), MK_CLOSED);
    assert_int_equal(mk_cursor_next_batch(cursors[1], &batch, &world->err),
                     MK_CLOSED);
    assert_int_equal(mk_cursor_seek(cursors[0], 0, &world->err), MK_CLOSED);
    assert_int_equal(mk_cursor_seek_time(cursors[0], 0, &world->err),
                     MK_CLOSED);
    assert_int_equal(mk_appender_append_one(appender, &record, &world->err),
                     MK_CLOSED);
    assert_int_equal(mk_appender_flush(appender, &range, &world->err),
                     MK_CLOSED);
    mk_cursor_close(cursors[0]);
    assert_int_equal(mk_appender_close(appender, &world->err), MK_OK);
    mk_cursor_close(cursors[1]);
    /* Closing sent what the appender held. */
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:x=1 ");
}

/* NULL is closed already, and an error may go untold. */
static void test_null_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(mk_log_close(NULL, NULL), MK_OK);
    mk_log_abandon(NULL);
    mk_cursor_close(NULL);
    assert_int_equal(mk_appender_close(NULL, NULL), MK_OK);
    mk_appender_abandon(NULL);
    mk_env_free(NULL);
}

typedef struct closing {
    log_world *world;
    mk_log *log;
    mk_status status;
} closing;

static mk_status closing_clock(void *context, int64_t *now_ms, mk_error *err)
{
    closing *c = context;

    (void)err;
    *now_ms = 1;
    if (c->log == NULL) return MK_OK;
    assert_false(mk_log_is_closed(c->log));
    c->status = mk_log_close(c->log, NULL);
    c->log = NULL;
    c->world->log = NULL;
    return MK_OK;
}

/* A callback may close the log that it was called for; what called it then says
 * CLOSED. */
static void test_a_callback_may_close(void **state)
{
    log_world *world = *state;
    closing c = {.world = world, .status = MK_CALLBACK};
    mk_offset_range range;

    open_log(world);
    append(world, "a=1");
    c.log = world->log;
    world->other = (mk_clock){closing_clock, &c};
    assert_int_equal(try_append(world, "b=2", &range), MK_CLOSED);
    assert_int_equal(c.status, MK_OK);
    world->other.now = NULL;
    open_log(world);
    assert_contents(world, "0:a=1 ");
}

/* A log without a machine makes one of its own. */
static void test_a_machine_of_its_own(void **state)
{
    log_world *world = *state;
    mk_clock clock;
    int64_t now_ms = 0;

    world->options.env = NULL;
    open_log(world);
    append(world, "a=1");
    clock = mk_log_clock(world->log);
    assert_int_equal(clock.now(clock.context, &now_ms, NULL), MK_OK);
    assert_true(now_ms > INT64_C(1577836800000));
    close_log(world);
    assert_ok(world, mk_log_open(world->where, NULL, &world->log, &world->err));
    assert_contents(world, "0:a=1 ");
}

/* A machine may be freed before its logs close. */
static void test_a_machine_outlived(void **state)
{
    log_world *world = *state;

    open_log(world);
    append(world, "a=1");
    mk_env_free(world->env);
    world->env = NULL;
    append(world, "b=2");
    assert_contents(world, "0:a=1 1:b=2 ");
    close_log(world);
}

/* A forked child has no part in its parent's log, and does it no harm. */
static void test_a_fork_is_not_the_log(void **state)
{
    log_world *world = *state;
    pid_t child;

    open_log(world);
    append(world, "a=1");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mk_offset_range range;
        mk_log_info info;

        CHILD_CHECK(try_append(world, "b=2", &range) == MK_CLOSED);
        CHILD_CHECK(mk_log_get_info(world->log, &info, NULL) == MK_CLOSED);
        CHILD_CHECK(try_tell(world, world->log, world->told) == MK_CLOSED);
        CHILD_CHECK(mk_log_close(world->log, NULL) != MK_IO);
        _exit(0);
    }
    assert_child_fine(child);
    append(world, "c=3");
    assert_int_equal(
        mk_log_open(world->where, &world->options, &(mk_log *){NULL}, NULL),
        MK_LOCKED);
    reopen(world);
    assert_contents(world, "0:a=1 1:c=3 ");
}

/* ---- Descriptors ---- */

/* However few descriptors are left, each call fails as a whole or works, and
 * all goes on when there are more. */
static void test_few_descriptors(void **state)
{
    log_world *world = *state;
    int64_t end = 0;

    for (int spare = 0; spare < 8; spare++) {
        int held[16];
        int count = 0;
        struct rlimit limit, before;
        mk_offset_range range;
        mk_status status;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        limit = before;
        limit.rlim_cur = (rlim_t)count_descriptors() + (rlim_t)spare;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        while (count < 16 && (held[count] = dup(0)) >= 0) {
            count++; /* Numbers that are free below the limit. */
        }
        for (int i = 0; i < spare && count > 0; i++) {
            close(held[--count]);
        }
        status = try_open(world);
        if (status == MK_OK && try_append(world, "a=1", &range) == MK_OK) end++;
        if (status == MK_OK) (void)!mk_log_roll(world->log, NULL);
        if (status == MK_OK && try_append(world, "a=1", &range) == MK_OK) end++;
        while (count > 0) {
            close(held[--count]);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (status != MK_OK) {
            assert_int_equal(world->err.os_errno, EMFILE);
            open_log(world);
        }
        assert_int_equal(append(world, "a=1"), end);
        end++;
        roll(world);
        close_log(world);
    }
    open_log(world);
    assert_bounds(world, 0, end);
    assert_true(end > 8);
}

/* Descriptors do not grow with the number of segments, nor with readers. */
static void test_descriptors_are_bounded(void **state)
{
    log_world *world = *state;
    mk_cursor *cursor;
    mk_record_view view;
    mk_log_stats stats;
    int before = count_descriptors();

    world->options.max_open_files = 3;
    open_log(world);
    for (int i = 0; i < 60; i++) {
        append(world, "a=1");
        roll(world);
    }
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    for (int i = 0; i < 60; i++) {
        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
        assert_int_equal(view.offset, i);
        assert_true(count_descriptors() <= before + 3 + 1);
    }
    assert_ok(world, mk_log_get_stats(world->log, &stats, &world->err));
    assert_true(stats.open_files <= 3);
    mk_cursor_close(cursor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_parents_are_made),
        log_test(test_a_missing_log),
        log_test(test_a_file_is_no_log),
        log_test(test_bad_arguments),
        log_test(test_an_endless_path),
        log_test(test_the_directory_is_absolute),
        log_test(test_only_one_may_write),
        log_test(test_a_failed_open_lets_go),
        log_test(test_a_clock_that_fails),
        log_test(test_a_reader_changes_nothing),
        log_test(test_a_reader_of_nothing),
        log_test(test_a_clean_end),
        log_test(test_children_outlive_their_log),
        log_test(test_null_is_accepted),
        log_test(test_a_callback_may_close),
        log_test(test_a_machine_of_its_own),
        log_test(test_a_machine_outlived),
        log_test(test_a_fork_is_not_the_log),
        log_test(test_few_descriptors),
        log_test(test_descriptors_are_bounded),
    };

    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
