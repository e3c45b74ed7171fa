/*
 * Whichever call to the disk fails, and however: there is an error, or all was
 * done; nothing acknowledged is lost; no half batch is seen; the log goes on,
 * or says why it refuses, and opening it again makes it go on.
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
    bool may_be_partly; /* ... and then anything between the two. */
} operation;

/* ---- Preparing ---- */

static void prepare_two(log_world *world)
{
    open_log(world);
    fill(world, "a=1 b=2");
}

static void prepare_mapped(log_world *world)
{
    world->options.mapped = MK_MAPPED_ALWAYS;
    prepare_two(world);
}

static void prepare_small_segments(log_world *world)
{
    world->options.config.segment_bytes = 150;
    prepare_two(world);
}

static void prepare_preallocated(log_world *world)
{
    world->options.config.preallocate = true;
    world->options.config.segment_bytes = 1 << 16;
    prepare_two(world);
}

static void prepare_flushed_two(log_world *world)
{
    prepare_two(world);
    flush(world);
    fill(world, "c=3");
}

static void prepare_segments(log_world *world)
{
    open_log(world);
    fill(world, "a=1,b=2 | c=3 d=4 | e=5 f=6,g=7 h=8");
}

static void prepare_nothing(log_world *world)
{
    (void)world;
}

static void prepare_closed(log_world *world)
{
    prepare_segments(world);
    close_log(world);
}

/* A log that was not closed, with a torn batch at its end. */
static void prepare_torn(log_world *world)
{
    const char *path = segment_file(world, 4, ".log");

    prepare_segments(world);
    abandon_log(world);
    set_size(path, file_size(path) - 1);
}

/* A log without our state, whose segments must all be read. */
static void prepare_foreign(log_world *world)
{
    prepare_closed(world);
    unlink(file_of(world, "minikafka.state"));
    unlink(segment_file(world, 2, ".index"));
    unlink(segment_file(world, 2, ".timeindex"));
}

/* ---- Acting ---- */

static mk_status append_two(log_world *world)
{
    mk_offset_range range;

    return try_append(world, "c=3,d=4", &range);
}

static mk_status append_durably(log_world *world)
{
    mk_append_options options;
    mk_offset_range range;
    mk_record records[2];

    mk_append_options_default(&options);
    options.durable = true;
    parse_records("c=3,d=4", records);
    return mk_log_append(world->log, records, 2, &options, &range, &world->err);
}

static mk_status append_by_appender(log_world *world)
{
    mk_appender *appender;
    mk_record records[2];
    mk_status status =
        mk_appender_open(world->log, NULL, &appender, &world->err);

    if (status != MK_OK) return status;
    parse_records("c=3,d=4", records);
    status = mk_appender_append(appender, records, 2, &world->err);
    if (status == MK_OK) return mk_appender_close(appender, &world->err);
    mk_appender_abandon(appender);
    return status;
}

static mk_status roll_log(log_world *world)
{
    return mk_log_roll(world->log, &world->err);
}

static mk_status flush_log(log_world *world)
{
    return mk_log_flush(world->log, &world->err);
}

static mk_status close_it(log_world *world)
{
    mk_log *log = world->log;

    world->log = NULL;
    return mk_log_close(log, &world->err);
}

static mk_status retain_by_time(log_world *world)
{
    mk_retention_options options = {.by_time = true, .retention_ms = 10};
    mk_cleanup_result result;
    mk_status status;

    world->now_ms += 11;
    status = mk_log_retain(world->log, &options, &result, &world->err);
    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status delete_to_three(log_world *world)
{
    return mk_log_delete_records(world->log, 3, &world->err);
}

static mk_status delete_closed(log_world *world)
{
    const int64_t base_offset = 0;

    return mk_log_delete_closed_segments(world->log, &base_offset, 1,
                                         &world->err);
}

static mk_status truncate_in_active(log_world *world)
{
    return mk_log_truncate_to(world->log, 6, &world->err);
}

static mk_status truncate_to_one(log_world *world)
{
    return mk_log_truncate_to(world->log, 3, &world->err);
}

static mk_status truncate_all(log_world *world)
{
    return mk_log_truncate_to(world->log, 0, &world->err);
}

static mk_status look_up(log_world *world)
{
    int64_t offset, found_ms;

    return mk_log_offset_for_timestamp(world->log, 1000, &offset, &found_ms,
                                       &world->err);
}

static mk_status read_through(log_world *world)
{
    mk_status status = try_tell(world, world->log, world->told);

    return status == MK_END ? MK_OK : status;
}

#define ALL "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 5:f=6 6:g=7 7:h=8 "
#define TWO "0:a=1 1:b=2 "

static const operation operations[] = {
    {"append", prepare_two, append_two, TWO, TWO "2:c=3 3:d=4 ", false, false},
    {"append, mapped", prepare_mapped, append_two, TWO, TWO "2:c=3 3:d=4 ",
     false, false},
    {"append, preallocated", prepare_preallocated, append_two, TWO,
     TWO "2:c=3 3:d=4 ", false, false},
    {"append durably", prepare_two, append_durably, TWO, TWO "2:c=3 3:d=4 ",
     true, false},
    {"append and roll", prepare_small_segments, append_two, TWO,
     TWO "2:c=3 3:d=4 ", false, false},
    {"appender", prepare_small_segments, append_by_appender, TWO,
     TWO "2:c=3 3:d=4 ", false, false},
    {"roll", prepare_two, roll_log, TWO, TWO, false, false},
    {"roll, mapped", prepare_mapped, roll_log, TWO, TWO, false, false},
    {"roll, preallocated", prepare_preallocated, roll_log, TWO, TWO, false,
     false},
    {"flush", prepare_segments, flush_log, ALL, ALL, false, false},
    {"flush again", prepare_flushed_two, flush_log, TWO "2:c=3 ", TWO "2:c=3 ",
     false, false},
    {"close", prepare_segments, close_it, ALL, ALL, false, false},
    {"close, mapped", prepare_mapped, close_it, TWO, TWO, false, false},
    {"open nothing", prepare_nothing, try_open, "", "", false, false},
    {"open", prepare_closed, try_open, ALL, ALL, false, false},
    {"open, torn", prepare_torn, try_open,
     "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 5:f=6 6:g=7 ",
     "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 5:f=6 6:g=7 ", false, false},
    {"open, foreign", prepare_foreign, try_open, ALL, ALL, false, false},
    {"retain", prepare_segments, retain_by_time, ALL,
     "4:e=5 5:f=6 6:g=7 7:h=8 ", true, false},
    {"delete records", prepare_segments, delete_to_three, ALL,
     "3:d=4 4:e=5 5:f=6 6:g=7 7:h=8 ", true, false},
    {"delete segments", prepare_segments, delete_closed, ALL,
     "2:c=3 3:d=4 4:e=5 5:f=6 6:g=7 7:h=8 ", true, false},
    {"truncate the active segment", prepare_segments, truncate_in_active, ALL,
     "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ", true, true},
    {"truncate segments", prepare_segments, truncate_to_one, ALL,
     "0:a=1 1:b=2 2:c=3 ", true, true},
    {"truncate all", prepare_segments, truncate_all, ALL, "", true, true},
    {"look up", prepare_segments, look_up, ALL, ALL, false, false},
    {"read", prepare_segments, read_through, ALL, ALL, false, false},
};

/* ---- Judging ---- */

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_allowed(const operation *op, mk_status status, const char *told)
{
    if (status == MK_OK) return strcmp(told, op->after) == 0;
    if (strcmp(told, op->before) == 0) return true;
    if (!op->may_be_done) return false;
    if (strcmp(told, op->after) == 0) return true;
    return op->may_be_partly && begins_with(op->before, told) &&
           begins_with(told, op->after);
}

typedef struct mode {
    const char *name;
    int os_errno;
    bool after, always, die;
} mode;

static const mode modes[] = {
    {"EIO", EIO, false, false, false},
    {"EIO, then death", EIO, false, false, true},
    {"ENOSPC", ENOSPC, false, false, true},
    {"EIO when done", EIO, true, false, true},
    {"EIO from then on", EIO, false, true, true},
};

/* What the sweep is at, for messages. */
typedef struct attempt {
    const operation *op;
    const mode *mode;
    long number;
    mk_status status;
} attempt;

static void complain(const attempt *a, const char *what, const char *detail)
{
    fail_msg("%s, %s, call %ld, %s: %s: %s", a->op->name, a->mode->name,
             a->number, mk_status_name(a->status), what, detail);
}

/* The log, as it stands open, holds what it may. */
static void check_contents(log_world *world, const attempt *a)
{
    mk_status status = try_tell(world, world->log, world->told);

    if (status == MK_CORRUPT_SEGMENT && a->op->may_be_partly &&
        a->mode->after) {
        return; /* It was cut, says the file, and was not, said the disk. */
    }
    if (status != MK_END) complain(a, "reading", world->err.message);
    if (!is_allowed(a->op, a->status, world->told)) {
        complain(a, "contents", world->told);
    }
}

/* A log that refused and has healed was cut, or was not, or in part; `z` is
 * what it took then. */
static void check_healed(log_world *world, const attempt *a, const char *z)
{
    size_t size;

    if (try_tell(world, world->log, world->told) != MK_END) {
        complain(a, "reading what healed", world->err.message);
    }
    size = strlen(world->told) - strlen(z);
    if (strcmp(world->told + size, z) != 0) complain(a, "took", world->told);
    keep(world, world->told);
    world->told[size] = '\0';
    if (!is_allowed(a->op, a->status, world->told)) {
        complain(a, "contents, healed", world->told);
    }
}

/* Append one more record; `world->kept` is then what the log holds. Returns
 * whether the log took it. */
static bool probe(log_world *world, const attempt *a)
{
    mk_offset_range range;
    int64_t end = info_of(world).log_end_offset;
    int64_t heals = stats_of(world).heals;
    mk_status status;
    char z[32];

    keep(world, world->told);
    status = try_append(world, "z=9", &range);
    if (status == MK_OK && stats_of(world).heals > heals) {
        snprintf(z, sizeof z, "%lld:z=9 ", (long long)range.first);
        check_healed(world, a, z);
        return true;
    }
    if (status == MK_OK) {
        if (range.first != end) complain(a, "offset", "not the end");
        tell(world->kept, "%lld:z=9 ", (long long)end);
        return true;
    }
    complain(a, "goes on", world->err.message);
    return false;
}

static void open_again(log_world *world, const attempt *a)
{
    if (try_open(world) != MK_OK) complain(a, "reopening", world->err.message);
}

/* After the attempt: look, append, die or close, look again, and once more. */
static void judge(log_world *world, const attempt *a, bool die)
{
    bool took = false;

    if (world->log == NULL) {
        open_again(world, a);
        check_contents(world, a);
        took = probe(world, a);
        if (!took) complain(a, "refuses", world->err.message);
    } else {
        check_contents(world, a);
        took = probe(world, a);
    }
    if (die || !took) {
        abandon_log(world);
    } else {
        close_log(world);
    }
    open_again(world, a);
    if (took && strcmp(contents(world), world->kept) != 0) {
        complain(a, "contents then", world->told);
    }
    if (!took) check_contents(world, a);
    if (!probe(world, a)) complain(a, "refuses then", world->err.message);
    reopen(world);
    if (strcmp(contents(world), world->kept) != 0) {
        complain(a, "contents at last", world->told);
    }
    assert_alone(world);
}

/* ---- Sweeping ---- */

/* Does the operation with its call `number` failing; false once there is no
 * such call. */
static bool try_once(log_world *world, const operation *op, const mode *m,
                     long number)
{
    attempt a = {op, m, number, MK_OK};
    wrap_fault *fault;
    bool hit;

    remove_all(world->where);
    mk_open_options_default(&world->options);
    world->options.env = world->env;
    world->options.config.index_interval_bytes = 100;
    op->prepare(world);
    fault = wrap_fail(&world->wrap, WRAP_ANY, number, m->os_errno);
    fault->after = m->after;
    fault->always = m->always;
    a.status = op->act(world);
    hit = fault->hit;
    wrap_heal(&world->wrap);
    if (!hit && a.status != MK_OK) complain(&a, "", world->err.message);
    if (a.status != MK_OK && a.status != MK_IO) {
        complain(&a, "status", world->err.message);
    }
    judge(world, &a, m->die);
    abandon_log(world);
    return hit;
}

/* Every call of the operation, and every way to fail. */
static void test_every_call_may_fail(void **state)
{
    log_world *world = *state;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        long number = 1;

        while (try_once(world, world->given, &modes[i], number)) {
            number++;
        }
        assert_true(number > 1);
    }
}

/* ---- Writes that stop halfway ---- */

static int64_t log_bytes_of(log_world *world)
{
    mk_segment_info info;
    size_t count;

    assert_ok(world,
              mk_log_segments(world->log, &info, 1, &count, &world->err));
    assert_int_equal(count, 1);
    return info.log_bytes;
}

/* The disk is full in the middle of a batch: nothing of it stays, and the next
 * one follows the last, wherever it stopped. */
static void test_a_partial_write_is_taken_back(void **state)
{
    log_world *world = *state;
    mk_offset_range range;
    int64_t size;
    long part = 0;

    open_log(world);
    append(world, "a=1");
    size = file_size(segment_file(world, 0, ".log"));
    for (part = 1; part < size; part++) {
        wrap_fault *fault = wrap_fail(&world->wrap, WRAP_write, 1, ENOSPC);
        int64_t end = info_of(world).log_end_offset;

        fault->part = (size_t)part;
        assert_int_equal(try_append(world, "x=0", &range), MK_IO);
        assert_int_equal(world->err.os_errno, ENOSPC);
        assert_non_null(strstr(world->err.path, ".log"));
        wrap_heal(&world->wrap);
        assert_int_equal(file_size(segment_file(world, 0, ".log")),
                         log_bytes_of(world));
        assert_int_equal(append(world, "b=2"), end);
    }
    assert_null(strstr(contents(world), "x=0"));
    keep(world, world->told);
    reopen_after_death(world);
    assert_contents(world, world->kept);
    assert_int_equal(info_of(world).log_end_offset, part);
}

/* If what was written can't be cut off, the log refuses, and says why; the next
 * opening cuts. */
static void test_a_log_that_cannot_take_back_refuses(void **state)
{
    log_world *world = *state;
    mk_offset_range range;

    open_log(world);
    fill(world, "a=1 b=2");
    wrap_fail(&world->wrap, WRAP_write, 1, EIO)->part = 30;
    wrap_fail(&world->wrap, WRAP_truncate, 1, EIO)->always = true;
    assert_int_equal(try_append(world, "x=0", &range), MK_IO);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_append(world, "c=3", &range), MK_IO);
        assert_int_equal(world->err.os_errno, EIO);
        assert_non_null(strstr(world->err.message, "refuses changes"));
        assert_int_equal(flush_log(world), MK_IO);
        assert_int_equal(roll_log(world), MK_IO);
        assert_int_equal(truncate_all(world), MK_IO);
        assert_int_equal(retain_by_time(world), MK_IO);
    }
    assert_contents(world, TWO);
    assert_int_equal(close_it(world), MK_IO);
    wrap_heal(&world->wrap);
    open_log(world);
    assert_contents(world, TWO);
    append(world, "c=3");
    reopen(world);
    assert_contents(world, TWO "2:c=3 ");
}

/* Half an index is no index: it is written anew, and lookups stay right. */
static void test_a_partial_index_does_not_mislead(void **state)
{
    log_world *world = *state;
    int64_t offset, found_ms;

    world->options.config.index_interval_bytes = 0;
    for (size_t part = 0; part < 24; part += 5) {
        wrap_fault *fault;

        remove_all(world->where);
        open_log(world);
        fill(world, "a=1@1 b=2@2 c=3@3 d=4@4");
        fault = wrap_fail(&world->wrap, WRAP_write, 1, EIO);
        fault->suffix = part % 2 == 0 ? ".index" : ".timeindex";
        fault->part = part;
        assert_int_equal(flush_log(world), MK_IO);
        wrap_heal(&world->wrap);
        append(world, "e=5@5");
        reopen_after_death(world);
        assert_ok(world, mk_log_offset_for_timestamp(world->log, 4, &offset,
                                                     &found_ms, &world->err));
        assert_int_equal(offset, 3);
        assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ");
        roll(world);
        assert_int_equal(file_size(segment_file(world, 0, ".index")), 4 * 8);
        close_log(world);
    }
}

#define OPERATION_COUNT (sizeof operations / sizeof operations[0])

int main(void)
{
    struct CMUnitTest tests[OPERATION_COUNT + 3] = {
        [OPERATION_COUNT] = log_test(test_a_partial_write_is_taken_back),
        log_test(test_a_log_that_cannot_take_back_refuses),
        log_test(test_a_partial_index_does_not_mislead),
    };

    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        tests[i] = (struct CMUnitTest)log_test(test_every_call_may_fail);
        tests[i].name = operations[i].name;
        tests[i].initial_state = (void *)(uintptr_t)&operations[i];
    }
    return cmocka_run_group_tests_name("io_faults", tests, NULL, NULL);
}
