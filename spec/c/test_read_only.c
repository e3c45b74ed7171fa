/* Readers beside a writer, and what the writer does under their hands: they
 * give records, the end, or "out of range", and never speak of damage. */
#define _GNU_SOURCE
#include "support/log_world.h"

typedef struct beside {
    log_world *world;
    mk_log *reader;
    mk_cursor *cursor;
} beside;

/* Open a reader that holds few files, and let its cursor read some records. */
static beside read_some(log_world *world, int steps)
{
    mk_open_options options = world->options;
    beside b = {.world = world};
    mk_record_view view;

    options.read_only = true;
    options.max_open_files = 1;
    assert_ok(world,
              mk_log_open(world->where, &options, &b.reader, &world->err));
    assert_ok(world, mk_cursor_open(b.reader, NULL, &b.cursor, &world->err));
    for (int i = 0; i < steps; i++) {
        assert_ok(world, mk_cursor_next(b.cursor, &view, &world->err));
        assert_int_equal(view.offset, i);
    }
    return b;
}

static void stop_reading(beside *b)
{
    mk_cursor_close(b->cursor);
    assert_ok(b->world, mk_log_close(b->reader, &b->world->err));
}

/* What the cursor still gives ends like this; records are told. */
static mk_status go_on(beside *b)
{
    mk_status status = tell_cursor(b->cursor, b->world->told, &b->world->err);

    if (status != MK_END && status != MK_OFFSET_OUT_OF_RANGE) {
        fail_msg("%s: %s", mk_status_name(status), b->world->err.message);
    }
    return status;
}

static void compact(log_world *world)
{
    mk_cleanup_result result;

    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    mk_cleanup_result_deinit(&result);
}

#define LOG "a=0 b=1 a=2 | b=3,c=4 d=5 | a=6 e=7 | f=8"

/* Every record that survives a compaction is given once, in order. */
static void test_a_compaction_under_a_reader(void **state)
{
    static const char *const survivors[] = {
        "3:b=3 ", "4:c=4 ", "5:d=5 ", "6:a=6 ", "7:e=7 ", "8:f=8 ", "9:g=9 "};
    log_world *world = *state;

    for (int steps = 0; steps <= 9; steps++) {
        beside b;

        remove_all(world->where);
        open_log(world);
        fill(world, LOG);
        b = read_some(world, steps);
        compact(world);
        fill(world, "g=9");
        assert_int_equal(go_on(&b), MK_END);
        for (int i = 0; i < 7; i++) {
            bool due = 3 + i >= steps;
            const char *found = strstr(world->told, survivors[i]);

            if (due != (found != NULL)) {
                fail_msg("%d, %s: %s", steps, survivors[i], world->told);
            }
        }
        stop_reading(&b);
        close_log(world);
    }
}

/* Segments that went are out of range for who stands on them. */
static void test_a_removal_under_a_reader(void **state)
{
    log_world *world = *state;

    for (int steps = 0; steps <= 9; steps++) {
        beside b;
        mk_status status;
        int64_t at;

        remove_all(world->where);
        open_log(world);
        fill(world, LOG);
        b = read_some(world, steps);
        assert_ok(world, mk_log_delete_records(world->log, 6, &world->err));
        fill(world, "g=9");
        status = go_on(&b);
        at = mk_cursor_next_offset(b.cursor);
        if (status == MK_END) {
            assert_int_equal(at, 10);
            assert_non_null(strstr(world->told, "9:g=9 "));
        } else {
            assert_true(at < 6);
            assert_int_equal(world->err.requested, at);
            assert_int_equal(world->err.log_start_offset, 6);
        }
        stop_reading(&b);
        close_log(world);
    }
}

/* What was cut is the end, or out of range; what is appended after it is read,
 * if the reader has not passed it. */
static void test_a_truncation_under_a_reader(void **state)
{
    log_world *world = *state;

    for (int steps = 0; steps <= 9; steps++) {
        beside b;
        mk_status status;

        remove_all(world->where);
        open_log(world);
        fill(world, LOG);
        b = read_some(world, steps);
        assert_ok(world, mk_log_truncate_to(world->log, 3, &world->err));
        status = go_on(&b);
        assert_int_equal(status,
                         steps <= 3 || mk_cursor_next_offset(b.cursor) == 3
                             ? MK_END
                             : MK_OFFSET_OUT_OF_RANGE);
        assert_ok(world, mk_log_refresh(b.reader, &world->err));
        assert_ok(world, mk_cursor_seek(b.cursor, 2, &world->err));
        fill(world, "x=3");
        assert_int_equal(go_on(&b), MK_END);
        assert_string_equal(world->told, "2:a=2 3:x=3 ");
        stop_reading(&b);
        close_log(world);
    }
}

/* The end that the reader tells, once it has read to it and looked again. */
static int64_t steady_end(beside *b, bool fresh)
{
    log_world *world = b->world;
    mk_log_info before, after;

    if (!fresh) assert_ok(world, mk_log_refresh(b->reader, &world->err));
    assert_ok(world, mk_log_get_info(b->reader, &before, &world->err));
    assert_ok(world, mk_cursor_seek(b->cursor, 0, &world->err));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(go_on(b), MK_END);
        assert_ok(world, mk_log_refresh(b->reader, &world->err));
        assert_ok(world, mk_log_get_info(b->reader, &after, &world->err));
        assert_int_equal(after.log_end_offset, before.log_end_offset);
    }
    return after.log_end_offset;
}

/* Cut, with nothing done from call `number` on, and read meanwhile and after
 * the writer's death. Is there such a call? */
static bool cut_short(log_world *world, int64_t to, long number, bool *cut)
{
    beside early, late;
    wrap_fault *fault;
    int64_t end;
    bool hit;

    remove_all(world->where);
    open_log(world);
    fill(world, LOG);
    assert_ok(world, mk_log_flush(world->log, &world->err));
    early = read_some(world, 0);
    fault = wrap_fail(&world->wrap, WRAP_ANY, number, EIO);
    fault->always = true;
    (void)!mk_log_truncate_to(world->log, to, &world->err);
    hit = fault->hit;
    wrap_heal(&world->wrap);
    late = read_some(world, 0);
    end = steady_end(&late, true);
    assert_true(end == to || (end == 9 && !*cut));
    *cut = end == to;
    assert_int_equal(steady_end(&early, false), end);
    abandon_log(world);
    assert_int_equal(steady_end(&late, false), end);
    open_log(world);
    assert_int_equal(info_of(world).log_end_offset, end);
    fill(world, "x=7");
    assert_int_equal(steady_end(&early, false), end + 1);
    assert_int_equal(steady_end(&late, false), end + 1);
    stop_reading(&early);
    stop_reading(&late);
    close_log(world);
    return hit;
}

/* Once it was said that the end is cut off, no reader goes past the new one,
 * though the files still have what was behind it. */
static void test_a_truncation_cut_short(void **state)
{
    log_world *world = *state;

    for (int64_t to = 0; to <= 8; to++) {
        bool cut = false;

        for (long number = 1; cut_short(world, to, number, &cut); number++) {
        }
        assert_true(cut);
    }
}

/* The last segment's file may be a copy's, too. Who opens the log for writing
 * puts another in its place then, and a reader follows that one. */
static void test_a_file_that_is_replaced(void **state)
{
    log_world *world = *state;
    const char *elsewhere = path_of(world->disk, "elsewhere.log");
    char path[512];
    mk_log_info info;
    beside b;

    open_log(world);
    fill(world, "a=0 b=1 a=2");
    reopen_after_death(world);
    b = read_some(world, 3);
    abandon_log(world);
    mk_log_segment_path(b.reader, 0, path, sizeof path);
    assert_int_equal(link(path, elsewhere), 0);
    open_log(world); /* There is nothing new for the state. */
    fill(world, "g=3");
    assert_ok(world, mk_log_refresh(b.reader, &world->err));
    assert_ok(world, mk_log_get_info(b.reader, &info, &world->err));
    assert_int_equal(info.log_end_offset, 4);
    assert_int_equal(go_on(&b), MK_END);
    assert_string_equal(world->told, "3:g=3 ");
    stop_reading(&b);
}

/* Give `path` the inode and the time that `old` has, as a file system may that
 * gives numbers out again and counts time in ticks. */
static void disguise(const char *path, const char *old)
{
    uint8_t bytes[1024];
    struct stat native;
    struct timespec times[2];
    int from = open(path, O_RDONLY), to = open(old, O_WRONLY);
    ssize_t size;

    assert_true(from >= 0 && to >= 0);
    size = read(from, bytes, sizeof bytes);
    assert_int_equal(fstat(to, &native), 0);
    assert_int_equal(size, native.st_size);
    assert_int_equal(write(to, bytes, (size_t)size), size);
    times[0] = native.st_atim;
    times[1] = native.st_mtim;
    assert_int_equal(futimens(to, times), 0);
    close(from);
    close(to);
    assert_int_equal(rename(old, path), 0);
}

/* Written twice, the state is not what it was, though its file looks so. */
static void test_a_state_that_looks_the_same(void **state)
{
    log_world *world = *state;
    const char *old = path_of(world->disk, "old");
    const char *path = path_of(world->disk, "t-0/minikafka.state");
    mk_log_info info;
    beside b;

    open_log(world);
    fill(world, "a=0 b=1 a=2 b=3 c=4");
    assert_ok(world, mk_log_delete_records(world->log, 1, &world->err));
    b = (beside){.world = world};
    world->options.read_only = true;
    assert_ok(world, mk_log_open(world->where, &world->options, &b.reader,
                                 &world->err));
    assert_int_equal(link(path, old), 0);
    assert_ok(world, mk_log_delete_records(world->log, 2, &world->err));
    assert_ok(world, mk_log_delete_records(world->log, 3, &world->err));
    disguise(path, old);
    assert_ok(world, mk_log_refresh(b.reader, &world->err));
    assert_ok(world, mk_log_get_info(b.reader, &info, &world->err));
    assert_int_equal(info.log_start_offset, 3);
    stop_reading(&b);
}

/* What happens after a reader's so many calls: another tree gets the log's
 * name, and the removal of the old one begins. */
typedef struct second_rename {
    log_world *world;
    long calls_left;
} second_rename;

static void rename_before_call(void *context, const wrap_call *call)
{
    static const char *const names[] = {
        "00000000000000000000.log", "00000000000000000003.log",
        "00000000000000000006.log", "00000000000000000008.log"};
    second_rename *next = context;
    posix_world *disk = next->world->disk;
    char path[512];

    (void)call;
    if (next->calls_left-- != 0) return;
    assert_int_equal(rename(path_of(disk, "copy-0"), next->world->where), 0);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", path_of(disk, "minikafka.old.t-0"),
                 names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

/* Die between two renames; a reader looks before and behind the second one. */
static bool read_around_rename(log_world *world, long calls)
{
    second_rename next = {world, calls};
    mk_cleanup_result result;
    mk_log_info info;
    beside b;

    remove_all(world->where);
    remove_all(path_of(world->disk, "copy-0"));
    remove_all(path_of(world->disk, "minikafka.old.t-0"));
    open_log(world);
    fill(world, LOG);
    assert_ok(world, mk_log_copy_to(world->log, path_of(world->disk, "copy-0"),
                                    NULL, &world->err));
    b = read_some(world, 0);
    world->wrap.no_exchange = true;
    for (int i = 0; i < 2; i++) {
        wrap_fault *fault = wrap_fail(&world->wrap, WRAP_rename, 1, EIO);

        fault->always = true;
        fault->suffix = i == 0 ? "minikafka.new.t-0" : "minikafka.old.t-0";
    }
    assert_int_equal(mk_log_compact(world->log, NULL, &result, &world->err),
                     MK_IO);
    abandon_log(world);
    wrap_heal(&world->wrap);
    world->wrap.context = &next;
    world->wrap.before = rename_before_call;
    assert_ok(world, mk_log_refresh(b.reader, &world->err));
    world->wrap.before = NULL;
    assert_ok(world, mk_log_get_info(b.reader, &info, &world->err));
    assert_int_equal(info.log_start_offset, 0);
    assert_int_equal(info.log_end_offset, 9);
    stop_reading(&b);
    return next.calls_left < 0;
}

static void test_a_tree_that_is_being_removed(void **state)
{
    long calls = 0;

    while (read_around_rename(*state, calls)) {
        calls++;
    }
    assert_true(calls > 3);
}

/* Lookups, too, find their way through a compaction. */
static void test_lookups_of_a_reader(void **state)
{
    log_world *world = *state;
    int64_t offset, found_ms;
    beside b;

    open_log(world);
    fill(world, "a@1 b@9 a@3 | b@4,c@5 d@6 | a@2 e@7 | f@8");
    b = read_some(world, 1);
    assert_ok(world, mk_log_offset_for_timestamp(b.reader, 9, &offset,
                                                 &found_ms, &world->err));
    assert_int_equal(offset, 1);
    compact(world);
    assert_ok(world, mk_log_offset_for_timestamp(b.reader, 5, &offset,
                                                 &found_ms, &world->err));
    assert_true(offset == 1 || offset == 4);
    assert_ok(world, mk_log_refresh(b.reader, &world->err));
    assert_ok(world, mk_log_offset_for_timestamp(b.reader, 5, &offset,
                                                 &found_ms, &world->err));
    assert_int_equal(offset, 4);
    assert_ok(world, mk_log_offset_of_max_timestamp(b.reader, &offset,
                                                    &found_ms, &world->err));
    assert_int_equal(offset, 8);
    stop_reading(&b);
}

/* ---- What a writer does while a reader looks again ---- */

typedef struct meeting {
    log_world *world;
    void (*change)(log_world *);
    long calls; /* So many of the reader's pass first. */
} meeting;

static void meet(void *context, const wrap_call *call)
{
    meeting *m = context;

    (void)call;
    if (m->calls-- > 0) return;
    m->world->wrap.before = NULL;
    m->change(m->world);
}

/* The same bytes and offsets again, but for the times. */
static void refill_last(log_world *world)
{
    assert_ok(world, mk_log_truncate_to(world->log, 8, &world->err));
    fill(world, "f=8@60 g=9@70");
}

static void refill_sealed(log_world *world)
{
    assert_ok(world, mk_log_truncate_to(world->log, 3, &world->err));
    fill(world, "b=3@60,c=4@60 d=5@60 | a=6@60 e=7@60 | f=8@60 g=9@70");
}

static void shorten(log_world *world)
{
    assert_ok(world, mk_log_truncate_to(world->log, 5, &world->err));
    fill(world, "x=5@60");
}

static void shorten_and_grow(log_world *world)
{
    shorten(world);
    fill(world, "x=6@60 | x=7@60 | x=8@60 x=9@60 x=10@60");
}

static void start_later(log_world *world)
{
    assert_ok(world, mk_log_delete_records(world->log, 7, &world->err));
}

/* It may learn only by asking that the start is another one. */
static void go_to_start(beside *b)
{
    mk_status status = MK_OFFSET_OUT_OF_RANGE;

    for (int i = 0; i < 2 && status == MK_OFFSET_OUT_OF_RANGE; i++) {
        log_world *world = b->world;
        mk_log_info info;

        assert_ok(world, mk_log_get_info(b->reader, &info, &world->err));
        status = mk_cursor_seek(b->cursor, info.log_start_offset, &world->err);
    }
    assert_ok(b->world, status);
}

/* One and the same of two logs is told by all that a reader can ask. */
static void tell_view(beside *b, char *out)
{
    log_world *world = b->world;
    size_t used = 0;
    int64_t offset = -1, found_ms = -1;

    for (int64_t time = 0; time <= 80; time += 10) {
        mk_status status = mk_log_offset_for_timestamp(b->reader, time, &offset,
                                                       &found_ms, &world->err);

        if (status != MK_END) assert_ok(world, status);
        used += (size_t)snprintf(out + used, TOLD_SIZE - used, "%lld ",
                                 status == MK_OK ? (long long)offset : -1);
    }
    assert_ok(world, mk_log_offset_of_max_timestamp(b->reader, &offset,
                                                    &found_ms, &world->err));
    used += (size_t)snprintf(out + used, TOLD_SIZE - used, "%lld@%lld; ",
                             (long long)offset, (long long)found_ms);
    go_to_start(b);
    assert_int_equal(go_on(b), MK_END);
    snprintf(out + used, TOLD_SIZE - used, "%s", world->told);
}

/* Did the reader make so many calls? */
static bool look_again_while(log_world *world, void (*change)(log_world *),
                             long calls)
{
    static char found[TOLD_SIZE], then[TOLD_SIZE], now[TOLD_SIZE];
    meeting m = {world, change, calls};
    beside b, fresh;
    bool met;

    remove_all(world->where);
    open_log(world);
    fill(world, "a=0@10 b=1@10 a=2@10 | b=3@20,c=4@20 d=5@20 | a=6@30 e=7@30 |"
                " f=8@40");
    b = read_some(world, 0);
    fill(world, "g=9@50");
    fresh = read_some(world, 0);
    tell_view(&fresh, then);
    stop_reading(&fresh);
    world->wrap.before = meet;
    world->wrap.context = &m;
    assert_ok(world, mk_log_refresh(b.reader, &world->err));
    met = world->wrap.before == NULL;
    world->wrap.before = NULL;
    tell_view(&b, found);
    fresh = read_some(world, 0);
    tell_view(&fresh, now);
    stop_reading(&fresh);
    if (strcmp(found, then) != 0 && strcmp(found, now) != 0) {
        fail_msg("before call %ld: %s; before: %s; after: %s", calls, found,
                 then, now);
    }
    assert_ok(world, mk_log_refresh(b.reader, &world->err));
    tell_view(&b, found);
    assert_string_equal(found, now);
    stop_reading(&b);
    close_log(world);
    return met;
}

/* A reader's log is the one before or the one after what was done meanwhile,
 * and the one after when it looks again. */
static void test_a_change_in_the_midst_of_looking(void **state)
{
    static void (*const changes[])(log_world *) = {
        refill_last,      refill_sealed, shorten,
        shorten_and_grow, start_later,   compact};

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        long calls = 0;

        while (look_again_while(*state, changes[i], calls)) {
            calls++;
        }
        assert_true(calls > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_compaction_under_a_reader),
        log_test(test_a_removal_under_a_reader),
        log_test(test_a_truncation_under_a_reader),
        log_test(test_a_truncation_cut_short),
        log_test(test_a_file_that_is_replaced),
        log_test(test_a_state_that_looks_the_same),
        log_test(test_a_tree_that_is_being_removed),
        log_test(test_lookups_of_a_reader),
        log_test(test_a_change_in_the_midst_of_looking),
    };

    return cmocka_run_group_tests_name("read_only", tests, NULL, NULL);
}
