/*
 * A log on a disk that fails now and then, against a model: whatever happens,
 * and however often the process dies, each acknowledged record is where it was
 * said to be, and nothing is there that nobody appended. Keys are unique, so
 * that no compaction removes anything.
 */
#define _GNU_SOURCE
#include "support/log_world.h"

#define OFFSETS 4096

typedef struct model {
    log_world *world;
    uint64_t chance;
    uint32_t
        given[OFFSETS];     /* The acknowledged record at an offset; 0: none. */
    bool sent[OFFSETS * 2]; /* Records that were given to the log. */
    int64_t start;          /* The log start, */
    int64_t start_max;      /* ... or anything up to here. */
    int64_t end_min;        /* Behind the last acknowledged record. */
    uint32_t next;          /* The next record's name. */
    wrap_fault *fault;      /* Armed; NULL: none. */
    const char *step;       /* What is done, for messages. */
    int errors;
    int64_t heals;
} model;

static uint64_t draw(model *m, uint64_t below)
{
    m->chance ^= m->chance << 13;
    m->chance ^= m->chance >> 7;
    m->chance ^= m->chance << 17;
    return (m->chance >> 11) % below;
}

static void complain(const model *m, const char *what)
{
    fail_msg("%s: %s: %s", m->step, what, m->world->err.message);
}

/* ---- Faults ---- */

/* Now and then, let something fail in what comes next. */
static void arm(model *m, const char *step)
{
    m->step = step;
    m->fault = NULL;
    if (draw(m, 3) != 0) return;
    m->fault = wrap_fail(&m->world->wrap, WRAP_ANY, 1 + (long)draw(m, 25),
                         draw(m, 2) == 0 ? EIO : ENOSPC);
    m->fault->after = draw(m, 4) == 0;
    m->fault->always = draw(m, 4) == 0;
    m->fault->part = draw(m, 80);
}

/* It is over; was it an error of the disk, if any? */
static bool disarm(model *m, mk_status status)
{
    bool hit = m->fault != NULL && m->fault->hit;

    wrap_heal(&m->world->wrap);
    if (status == MK_OK) return true;
    if (!hit || status != MK_IO) complain(m, mk_status_name(status));
    m->errors++;
    return false;
}

/* ---- What is there ---- */

static void check_record(const model *m, const mk_record_view *view)
{
    char key[16];
    uint32_t name;

    memset(key, 0, sizeof key);
    assert_true(view->key_size < sizeof key);
    memcpy(key, view->key, view->key_size);
    name = (uint32_t)strtoul(key + 1, NULL, 10);
    assert_true(view->offset < OFFSETS);
    if (!m->sent[name]) complain(m, key);
    if (m->given[view->offset] != 0 && m->given[view->offset] != name) {
        complain(m, "another record");
    }
}

/* Read all of it. */
static void check(model *m)
{
    log_world *world = m->world;
    mk_log_info info = info_of(world);
    mk_record_view view;
    mk_cursor *cursor;
    int64_t expected;
    mk_status status;

    if (info.log_start_offset < m->start ||
        info.log_start_offset > m->start_max) {
        complain(m, "log start");
    }
    m->start = m->start_max = info.log_start_offset;
    if (info.log_end_offset < m->end_min) complain(m, "log end");
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    expected = m->start;
    while ((status = mk_cursor_next(cursor, &view, &world->err)) == MK_OK) {
        for (; expected < view.offset; expected++) {
            if (m->given[expected] != 0) complain(m, "a record is missing");
        }
        check_record(m, &view);
        expected = view.offset + 1;
    }
    mk_cursor_close(cursor);
    if (status != MK_END) complain(m, mk_status_name(status));
    for (; expected < OFFSETS; expected++) {
        if (m->given[expected] != 0) complain(m, "a record is missing");
    }
}

/* ---- Life ---- */

/* Open the log, if need be again without a fault, and look at it. */
static void open_and_check(model *m)
{
    mk_status status;

    arm(m, "open");
    status = try_open(m->world);
    if (!disarm(m, status)) {
        m->step = "open again";
        if (try_open(m->world) != MK_OK) complain(m, "open");
    }
    check(m);
}

static void die(model *m)
{
    abandon_log(m->world);
    open_and_check(m);
}

static void close_and_open(model *m)
{
    mk_log *log = m->world->log;

    arm(m, "close");
    m->world->log = NULL;
    (void)disarm(m, mk_log_close(log, &m->world->err));
    open_and_check(m);
}

/* After an error: the log goes on, if it refused after it has healed. */
static void go_on(model *m)
{
    if (mk_log_flush(m->world->log, &m->world->err) != MK_OK) {
        complain(m, "going on");
    }
    m->heals += stats_of(m->world).heals;
    check(m);
}

/* ---- Work ---- */

static mk_status append_some(model *m)
{
    size_t count = 1 + draw(m, 6);
    mk_append_options options;
    mk_offset_range range;
    mk_record records[6];
    char keys[6][16];
    mk_status status;

    mk_append_options_default(&options);
    options.durable = draw(m, 6) == 0;
    for (size_t i = 0; i < count; i++) {
        m->sent[m->next + i] = true;
        snprintf(keys[i], sizeof keys[i], "k%u", (unsigned)(m->next + i));
        records[i] = (mk_record){.key = keys[i], .key_size = strlen(keys[i])};
        records[i].value = keys[i];
        records[i].value_size = draw(m, records[i].key_size);
    }
    arm(m, options.durable ? "append durably" : "append");
    status = mk_log_append(m->world->log, records, count, &options, &range,
                           &m->world->err);
    for (size_t i = 0; i < count && status == MK_OK; i++) {
        if (range.first + (int64_t)i < m->end_min) complain(m, "offset twice");
        m->given[range.first + (int64_t)i] = m->next + (uint32_t)i;
    }
    if (status == MK_OK) m->end_min = range.last + 1;
    m->next += (uint32_t)count;
    return status;
}

static mk_status delete_some(model *m)
{
    mk_log_info info = info_of(m->world);
    int64_t span = info.log_end_offset - info.log_start_offset;
    int64_t to = info.log_start_offset + (int64_t)draw(m, (uint64_t)span + 1);

    arm(m, "delete");
    m->start_max = to;
    return mk_log_delete_records(m->world->log, to, &m->world->err);
}

static mk_status compact(model *m)
{
    mk_cleanup_result result;
    mk_status status;

    m->world->wrap.no_exchange = draw(m, 2) == 0;
    arm(m, m->world->wrap.no_exchange ? "compact by renames" : "compact");
    status = mk_log_compact(m->world->log, NULL, &result, &m->world->err);
    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status retain(model *m)
{
    mk_retention_options options = {.by_size = true, .retention_bytes = 1500};
    mk_cleanup_result result;
    mk_status status;

    arm(m, "retain");
    m->start_max = info_of(m->world).log_end_offset;
    status = mk_log_retain(m->world->log, &options, &result, &m->world->err);
    mk_cleanup_result_deinit(&result);
    return status;
}

static void work(model *m)
{
    uint64_t what = draw(m, 100);
    mk_status status = MK_OK;

    if (what < 60) {
        status = append_some(m);
    } else if (what < 70) {
        arm(m, "roll");
        status = mk_log_roll(m->world->log, &m->world->err);
    } else if (what < 78) {
        arm(m, "flush");
        status = mk_log_flush(m->world->log, &m->world->err);
    } else if (what < 80) {
        status = delete_some(m);
    } else if (what < 82) {
        status = retain(m);
    } else if (what < 92) {
        status = compact(m);
    } else if (what < 97) {
        die(m);
    } else {
        close_and_open(m);
    }
    if (what >= 92) return;
    if (!disarm(m, status)) {
        go_on(m);
    } else if (draw(m, 5) == 0 || m->start_max > m->start) {
        check(m);
    }
}

/* Returns how often the log healed. */
static int64_t run(log_world *world, uint64_t seed)
{
    model *m = calloc(1, sizeof *m);
    int64_t heals;

    assert_non_null(m);
    print_message("seed %llu\n", (unsigned long long)seed);
    remove_all(world->where);
    m->world = world;
    m->chance = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    m->next = 1;
    world->options.config.segment_bytes = 600;
    world->options.config.index_interval_bytes = 200;
    world->options.mapped = (mk_mapping)draw(m, 3);
    world->options.max_open_files = 1 + draw(m, 3);
    open_and_check(m);
    for (int i = 0; i < 400; i++) {
        work(m);
        for (int64_t j = 0; j < m->start; j++) {
            m->given[j] = 0; /* Not expected any more. */
        }
    }
    assert_true(m->errors > 10);
    reopen(world);
    check(m);
    assert_alone(world);
    close_log(world);
    heals = m->heals;
    free(m);
    return heals;
}

static void test_a_failing_disk_loses_nothing(void **state)
{
    int64_t heals = 0;

    for (uint64_t seed = 1; seed <= 8; seed++) {
        heals += run(*state, seed);
    }
    assert_true(heals > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_failing_disk_loses_nothing),
    };

    return cmocka_run_group_tests_name("fault_model", tests, NULL, NULL);
}
