/* Publishing by swapping directories: both ways, every failure, every death,
 * and every kind of leftover. */
#define _GNU_SOURCE
#include "support/log_world.h"

#define OLD "0:a=1 1:b=1 2:a=2 3:c=1 4:b=2 5:d=1 6:e=1 "
#define NEW "2:a=2 3:c=1 4:b=2 5:d=1 6:e=1 "

/* Things in the partition's directory that are not the log's. */
static void put_strangers(log_world *world)
{
    store_text(file_of(world, "notes.txt"), "mine");
    assert_int_equal(mkdir(file_of(world, "stuff"), 0700), 0);
    store_text(file_of(world, "stuff/inner"), "deep");
    assert_int_equal(symlink("nowhere", file_of(world, "link")), 0);
}

static void assert_text(const char *path, const char *text)
{
    size_t size;
    uint8_t *bytes = load(path, &size);

    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void assert_strangers(log_world *world)
{
    char target[16] = "";

    assert_text(file_of(world, "notes.txt"), "mine");
    assert_text(file_of(world, "stuff/inner"), "deep");
    assert_int_equal(readlink(file_of(world, "link"), target, 15), 7);
    assert_string_equal(target, "nowhere");
}

/* Make a log with three closed segments, and strangers. Files are opened by
 * name again and again, so that a wrong directory shows. */
static void make_log(log_world *world)
{
    world->options.max_open_files = 1;
    open_log(world);
    fill(world, "a=1 b=1 | a=2,c=1 | b=2 d=1 | e=1");
    put_strangers(world);
}

static mk_status compact(log_world *world)
{
    mk_cleanup_result result;
    mk_status status = mk_log_compact(world->log, NULL, &result, &world->err);

    mk_cleanup_result_deinit(&result);
    return status;
}

/* ---- What it does ---- */

/* Both ways: the result tells, readers see it, the lock holds, nothing is left
 * beside, strangers stay, and the log goes on and opens again. */
static void swap_and_look(log_world *world)
{
    mk_cleanup_result result;
    mk_log *second;

    make_log(world);
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    assert_int_equal(result.source_count, 3);
    assert_int_equal(result.source_segments[2], 4);
    assert_int_equal(result.new_count, 1);
    assert_int_equal(result.new_segments[0], 0);
    assert_int_equal(result.records_before, 6);
    assert_int_equal(result.records_after, 4);
    assert_true(result.bytes_after < result.bytes_before);
    mk_cleanup_result_deinit(&result);
    assert_contents(world, NEW);
    assert_segments(world, "0..6 6..7 ");
    assert_alone(world);
    assert_strangers(world);
    assert_false(exists(file_of(world, "minikafka.swap")));
    assert_int_equal(
        mk_log_open(world->where, &world->options, &second, &world->err),
        MK_LOCKED);
    append(world, "f=1");
    reopen(world);
    assert_contents(world, NEW "7:f=1 ");
    assert_ok(world, compact(world));
    assert_contents(world, NEW "7:f=1 ");
}

static void test_exchange(void **state)
{
    log_world *world = *state;

    wrap_record(&world->wrap);
    swap_and_look(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_exchange, "/t-0"), 2);
}

static void test_two_renames(void **state)
{
    log_world *world = *state;

    world->wrap.no_exchange = true;
    wrap_record(&world->wrap);
    swap_and_look(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_rename, "/t-0"), 2);
    assert_int_equal(wrap_count(&world->wrap, WRAP_rename, ".new.t-0"), 2);
}

/* Note when a stranger's file is not where it belongs. */
static void look_for_notes(void *context, const wrap_call *call)
{
    log_world *world = context;

    (void)call;
    world->asked += !exists(file_of(world, "notes.txt"));
}

/* A stranger's file is never missing, if names can be exchanged. */
static void test_strangers_are_always_there(void **state)
{
    log_world *world = *state;

    make_log(world);
    world->asked = 0;
    world->wrap.context = world;
    world->wrap.before = look_for_notes;
    assert_ok(world, compact(world));
    world->wrap.before = NULL;
    assert_int_equal(world->asked, 1); /* The clock was, once. */
}

/* Without a closed segment nothing is done. */
static void test_nothing_to_compact(void **state)
{
    log_world *world = *state;

    open_log(world);
    append(world, "a=1");
    wrap_record(&world->wrap);
    assert_ok(world, compact(world));
    assert_int_equal(wrap_count(&world->wrap, WRAP_ANY, ""), 0);
}

/* What is to survive a loss of power is synced before it is relied upon. */
static void test_syncs_stand_in_order(void **state)
{
    static const mk_sync_name wanted[] = {
        MK_SYNC_SWAP_LOG,          MK_SYNC_REPLACE_FILE,
        MK_SYNC_REPLACE_DIRECTORY, MK_SYNC_REPLACE_FILE,
        MK_SYNC_REPLACE_DIRECTORY, MK_SYNC_SWAP_PARENT,
        MK_SYNC_SWAP_DONE,
    };
    log_world *world = *state;
    size_t found = 0, exchange = 0;

    make_log(world);
    wrap_record(&world->wrap);
    assert_ok(world, compact(world));
    for (size_t i = 0; i < world->wrap.call_count; i++) {
        const wrap_call *call = &world->wrap.calls[i];

        if (call->kind == WRAP_exchange) exchange = found;
        if (call->kind != WRAP_fdatasync && call->kind != WRAP_fsync_dir) {
            continue;
        }
        /* The first two are those of the note that says "building". */
        if (found == 0 && call->name != wanted[0]) continue;
        assert_true(found < 7);
        assert_int_equal(call->name, wanted[found]);
        found++;
    }
    assert_int_equal(found, 7);
    assert_int_equal(exchange, 5);
}

/* ---- Failures ---- */

typedef struct way {
    const char *name;
    bool no_exchange;
    int os_errno;
    bool after, always;
} way;

static const way ways[] = {
    {"exchange, EIO", false, EIO, false, false},
    {"exchange, ENOSPC", false, ENOSPC, false, false},
    {"exchange, EIO when done", false, EIO, true, false},
    {"exchange, death", false, EIO, false, true},
    {"renames, EIO", true, EIO, false, false},
    {"renames, EIO when done", true, EIO, true, false},
    {"renames, death", true, EIO, false, true},
};

typedef struct attempt {
    const way *way;
    long number;
    mk_status status;
    char call[800];
} attempt;

static void complain(const attempt *a, const char *what, const char *detail)
{
    fail_msg("%s, call %ld (%s), %s: %s: %s", a->way->name, a->number, a->call,
             mk_status_name(a->status), what, detail);
}

/* Compact with call `number` failing; false once there is no such call. */
static bool attempt_compaction(log_world *world, attempt *a)
{
    const wrap_call *call;
    wrap_fault *fault;
    bool hit;

    remove_all(world->where);
    make_log(world);
    world->wrap.no_exchange = a->way->no_exchange;
    wrap_record(&world->wrap);
    fault = wrap_fail(&world->wrap, WRAP_ANY, a->number, a->way->os_errno);
    fault->after = a->way->after;
    fault->always = a->way->always;
    a->status = compact(world);
    hit = fault->hit;
    wrap_heal(&world->wrap);
    world->wrap.recording = false;
    if (!hit) return false;
    call = &world->wrap.calls[a->number - 1];
    snprintf(a->call, sizeof a->call, "%s %s", wrap_word(call->kind),
             call->path);
    return true;
}

static void check_contents(log_world *world, const attempt *a,
                           const char *wanted, const char *where)
{
    mk_status status = try_tell(world, world->log, world->told);

    if (status != MK_END) complain(a, where, world->err.message);
    if (strcmp(world->told, wanted) != 0) complain(a, where, world->told);
}

static bool is_refusing(log_world *world, const attempt *a)
{
    mk_offset_range range;

    if (stats_of(world).refusing) return true;
    if (try_append(world, "z=9", &range) != MK_OK) {
        complain(a, "append", world->err.message);
    }
    return false;
}

static void check_alone(log_world *world, const attempt *a)
{
    world->told[0] = '\0';
    tell_names(world->told, world->disk->root);
    if (strncmp(world->told, "t-0(", 4) != 0) {
        complain(a, "left beside", world->told);
    }
}

/* After a failure the log is as before, goes on, opens again, compacts; after a
 * success in spite of it, it is compacted, and can be again. */
static void judge_failure(log_world *world, attempt *a)
{
    const char *wanted = a->status == MK_OK ? NEW : OLD;
    char longer[256];

    if (a->status != MK_OK && a->status != MK_IO) {
        complain(a, "status", world->err.message);
    }
    check_contents(world, a, wanted, "contents");
    if (a->status != MK_OK && !a->way->after) check_alone(world, a);
    if (is_refusing(world, a)) complain(a, "refuses", world->err.message);
    snprintf(longer, sizeof longer, "%s7:z=9 ", wanted);
    check_contents(world, a, longer, "contents with z");
    if (compact(world) != MK_OK) {
        complain(a, "compacting again", world->err.message);
    }
    check_contents(world, a, NEW "7:z=9 ", "compacted");
    abandon_log(world);
    if (try_open(world) != MK_OK) complain(a, "reopening", world->err.message);
    check_contents(world, a, NEW "7:z=9 ", "reopened");
    check_alone(world, a);
    assert_strangers(world);
    close_log(world);
}

/* Read with a log that may change nothing. */
static void look_only(log_world *world, const attempt *a, char *out)
{
    world->options.read_only = true;
    keep(world, files(world));
    if (try_open(world) != MK_OK) complain(a, "looking", world->err.message);
    if (try_tell(world, world->log, out) != MK_END) {
        complain(a, "looking", world->err.message);
    }
    close_log(world);
    if (strcmp(files(world), world->kept) != 0) {
        complain(a, "looking changed", world->told);
    }
    world->options.read_only = false;
}

/* After a death at that call: a reader sees the log as it was before or after,
 * the next writer finds the same, and leaves nothing beside it. */
static void judge_death(log_world *world, attempt *a)
{
    char *seen = malloc(TOLD_SIZE);

    assert_non_null(seen);
    abandon_log(world);
    look_only(world, a, seen);
    if (strcmp(seen, OLD) != 0 && strcmp(seen, NEW) != 0) {
        complain(a, "seen", seen);
    }
    if (try_open(world) != MK_OK) complain(a, "reopening", world->err.message);
    check_contents(world, a, seen, "reopened");
    free(seen);
    check_alone(world, a);
    assert_strangers(world);
    if (compact(world) != MK_OK) complain(a, "then", world->err.message);
    check_contents(world, a, NEW, "compacted then");
    close_log(world);
}

static void test_every_call_may_fail(void **state)
{
    log_world *world = *state;
    attempt a = {.way = world->given, .number = 1};

    while (attempt_compaction(world, &a)) {
        if (a.way->always) {
            judge_death(world, &a);
        } else {
            judge_failure(world, &a);
        }
        a.number++;
    }
    assert_int_equal(a.status, MK_OK);
    assert_true(a.number > 40);
}

/* The second rename fails: the first is undone at once. */
static void test_the_first_rename_is_undone(void **state)
{
    log_world *world = *state;
    size_t last;

    make_log(world);
    world->wrap.no_exchange = true;
    wrap_fail(&world->wrap, WRAP_rename, 1, EIO)->suffix = ".new.t-0";
    wrap_record(&world->wrap);
    assert_int_equal(compact(world), MK_IO);
    assert_int_equal(world->err.os_errno, EIO);
    for (last = 0; last < world->wrap.call_count; last++) {
        if (world->wrap.faults[0].hit &&
            strstr(world->wrap.calls[last].path, ".old.t-0") != NULL &&
            world->wrap.calls[last].kind == WRAP_rename) {
            break;
        }
    }
    assert_true(last < world->wrap.call_count);
    assert_string_equal(world->wrap.calls[last].to, world->where);
    assert_contents(world, OLD);
    append(world, "f=1");
    assert_alone(world);
}

/* If it can't be undone, the log refuses changes until it can; the next opening
 * gives the old tree its name back, too. */
static void test_what_cannot_be_undone_refuses(void **state)
{
    log_world *world = *state;
    attempt a = {.way = &ways[4]};

    for (int heals = 0; heals < 2; heals++) {
        remove_all(world->where);
        make_log(world);
        world->wrap.no_exchange = true;
        wrap_fail(&world->wrap, WRAP_rename, 1, EIO)->suffix = ".new.t-0";
        wrap_fail(&world->wrap, WRAP_rename, 1, EIO)->suffix = ".old.t-0";
        assert_int_equal(compact(world), MK_IO);
        wrap_heal(&world->wrap);
        assert_true(is_refusing(world, &a));
        if (heals == 1) {
            append(world, "z=9");
            assert_contents(world, OLD "7:z=9 ");
        } else {
            abandon_log(world);
            open_log(world);
        }
        reopen(world);
        assert_contents(world, heals == 1 ? OLD "7:z=9 " : OLD);
        assert_alone(world);
        assert_strangers(world);
        close_log(world);
    }
}

/* The parent can't be synced: the names are put back, both ways; if that fails,
 * the log refuses, and the next opening decides for one of the two. */
static void test_an_unsynced_swap_is_put_back(void **state)
{
    log_world *world = *state;
    attempt a = {.way = &ways[0]};

    for (int i = 0; i < 4; i++) {
        bool hopeless = i >= 2;
        wrap_kind kind = i % 2 == 0 ? WRAP_exchange : WRAP_rename;

        remove_all(world->where);
        make_log(world);
        world->wrap.no_exchange = kind == WRAP_rename;
        wrap_fail(&world->wrap, WRAP_fsync_dir, 1, EIO)->suffix =
            strrchr(world->disk->root, '/');
        if (hopeless) {
            wrap_fail(&world->wrap, kind, 2, EIO)->suffix = "/t-0";
        }
        assert_int_equal(compact(world), MK_IO);
        wrap_heal(&world->wrap);
        assert_int_equal(is_refusing(world, &a), hopeless);
        if (!hopeless) {
            assert_contents(world, OLD "7:z=9 ");
            assert_alone(world);
            append(world, "f=1");
            reopen(world);
            assert_contents(world, OLD "7:z=9 8:f=1 ");
        } else {
            abandon_log(world);
            open_log(world);
            contents(world);
            assert_true(strcmp(world->told, OLD) == 0 ||
                        strcmp(world->told, NEW) == 0);
        }
        assert_alone(world);
        assert_strangers(world);
        close_log(world);
    }
}

/* ---- The hook ---- */

typedef struct hook {
    log_world *world;
    mk_status append, roll, flush, retain, compact, truncate, configure, close;
    char seen[256];
    mk_status wanted;
    bool closes;
    int calls;
} hook;

static mk_status before_swap(void *context, mk_error *err)
{
    hook *h = context;
    mk_log *log = h->world->log;
    mk_retention_options retention = {.by_time = true};
    mk_cleanup_result result;
    mk_config config;
    mk_record record;
    int64_t offset;

    h->calls++;
    parse_records("x=1@1", &record);
    h->append = mk_log_append_one(log, &record, &offset, NULL);
    h->roll = mk_log_roll(log, NULL);
    h->flush = mk_log_flush(log, NULL);
    h->retain = mk_log_retain(log, &retention, &result, NULL);
    h->compact = mk_log_compact(log, NULL, &result, NULL);
    h->truncate = mk_log_truncate_to(log, 0, NULL);
    mk_log_get_config(log, &config);
    h->configure = mk_log_configure(log, &config, NULL);
    snprintf(h->seen, sizeof h->seen, "%.200s", contents(h->world));
    if (h->closes) {
        h->close = mk_log_close(log, NULL);
        h->world->log = NULL;
    }
    if (h->wanted != MK_OK && err != NULL) {
        *err = (mk_error){.status = h->wanted, .message = "the hook's own"};
    }
    return h->wanted;
}

static mk_status compact_with(log_world *world, hook *h)
{
    mk_compact_options options;
    mk_cleanup_result result;
    mk_status status;

    mk_compact_options_default(&options);
    options.before_swap = before_swap;
    options.context = h;
    h->world = world;
    status = mk_log_compact(world->log, &options, &result, &world->err);
    if (status != MK_OK) assert_int_equal(result.source_count, 0);
    mk_cleanup_result_deinit(&result);
    return status;
}

/* In the hook the old log is read, and every change is BUSY. */
static void test_the_hook_may_only_read(void **state)
{
    log_world *world = *state;
    hook h = {.wanted = MK_OK};

    make_log(world);
    assert_ok(world, compact_with(world, &h));
    assert_int_equal(h.calls, 1);
    assert_int_equal(h.append, MK_BUSY);
    assert_int_equal(h.roll, MK_BUSY);
    assert_int_equal(h.flush, MK_BUSY);
    assert_int_equal(h.retain, MK_BUSY);
    assert_int_equal(h.compact, MK_BUSY);
    assert_int_equal(h.truncate, MK_BUSY);
    assert_int_equal(h.configure, MK_BUSY);
    assert_string_equal(h.seen, OLD);
    assert_contents(world, NEW);
}

/* A hook that fails ends the compaction, with its own error. */
static void test_the_hook_may_fail(void **state)
{
    log_world *world = *state;
    hook h = {.wanted = MK_CALLBACK};

    make_log(world);
    assert_int_equal(compact_with(world, &h), MK_CALLBACK);
    assert_string_equal(world->err.message, "the hook's own");
    assert_contents(world, OLD);
    assert_alone(world);
    append(world, "f=1");
    h.wanted = MK_OK;
    assert_ok(world, compact_with(world, &h));
    assert_contents(world, NEW "7:f=1 ");
}

/* A hook that closes the log ends the compaction, too. */
static void test_the_hook_may_close(void **state)
{
    log_world *world = *state;
    hook h = {.wanted = MK_OK, .closes = true};

    make_log(world);
    assert_int_equal(compact_with(world, &h), MK_CLOSED);
    assert_int_equal(h.close, MK_OK);
    assert_null(world->log);
    assert_alone(world);
    open_log(world);
    assert_contents(world, OLD);
    assert_strangers(world);
}

#define WAY_COUNT (sizeof ways / sizeof ways[0])

int main(void)
{
    struct CMUnitTest tests[WAY_COUNT + 11] = {
        [WAY_COUNT] = log_test(test_exchange),
        log_test(test_two_renames),
        log_test(test_strangers_are_always_there),
        log_test(test_nothing_to_compact),
        log_test(test_syncs_stand_in_order),
        log_test(test_the_first_rename_is_undone),
        log_test(test_what_cannot_be_undone_refuses),
        log_test(test_an_unsynced_swap_is_put_back),
        log_test(test_the_hook_may_only_read),
        log_test(test_the_hook_may_fail),
        log_test(test_the_hook_may_close),
    };

    for (size_t i = 0; i < WAY_COUNT; i++) {
        tests[i] = (struct CMUnitTest)log_test(test_every_call_may_fail);
        tests[i].name = ways[i].name;
        tests[i].initial_state = (void *)(uintptr_t)&ways[i];
    }
    return cmocka_run_group_tests_name("directory_swap", tests, NULL, NULL);
}
