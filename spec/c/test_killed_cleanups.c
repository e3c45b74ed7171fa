/*
 * A writer that is killed in the midst of whatever it does: at a moment of the
 * machine's, or at one of its calls to the disk. What it began and what it was
 * told is done stands in memory that outlives it, so that each log that is
 * found can be compared with the one that has to be there: all of the call that
 * was cut short, or nothing of it. A second opening writes nothing.
 *
 * Meanwhile a reader in a process of its own goes through the log again and
 * again, whether there is a writer or not. It never is told of damage, sees no
 * record that was not given that offset, soon has the end that was
 * acknowledged, and no start that goes back.
 *
 * MK_KILLS says how often, MK_SEED from where on.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/prctl.h>

#include "support/killed_model.h"
#include "support/wrap_vfs.h"

#include "support/posix_world.h"

#define KILLS    120
#define WAIT_MAX 20000 /* Microseconds. */
#define CALL_MAX 400

typedef struct run {
    posix_world *world;
    board *shared;
    model now;
    uint32_t sequence;
    uint64_t chance;
    int round;
    char where[300], copy[300];
} run;

/* ---- The writer ---- */

typedef struct writer {
    run *r;
    mk_log *log;
    mk_env *env;
    mk_open_options options;
    long calls_left; /* To the disk; -1: no matter how many. */
} writer;

static void die_at_call(void *context, const wrap_call *call)
{
    writer *w = context;

    (void)call;
    if (w->calls_left >= 0 && w->calls_left-- == 0) raise(SIGKILL);
}

static bool append(writer *w, const step *s, mk_error *err)
{
    mk_record records[BATCH_MAX];
    char keys[BATCH_MAX][16], values[BATCH_MAX][128];
    mk_append_options options;
    mk_offset_range range;

    mk_append_options_default(&options);
    options.durable = s->sequence % 7 == 0;
    for (int64_t i = 0; i < s->b; i++) {
        uint32_t sequence = s->sequence + (uint32_t)i;

        records[i] = (mk_record){.timestamp_ms = MK_TIMESTAMP_NOW};
        if (key_of(sequence) >= 0) {
            snprintf(keys[i], sizeof keys[i], "k%d", key_of(sequence));
            records[i].key = keys[i];
            records[i].key_size = 2;
        }
        if (is_tombstone(sequence)) continue;
        records[i].value_size =
            write_value(values[i], sizeof values[i], s->a + i, sequence);
        records[i].value = values[i];
    }
    return mk_log_append(w->log, records, (size_t)s->b, &options, &range,
                         err) == MK_OK &&
           range.first == s->a && range.last == s->a + s->b - 1;
}

static bool open_again(writer *w, mk_error *err)
{
    return mk_log_close(w->log, err) == MK_OK &&
           mk_log_open(w->r->where, &w->options, &w->log, err) == MK_OK;
}

static bool drop(writer *w, mk_error *err)
{
    mk_segment_info segments[2];
    size_t count;

    return mk_log_segments(w->log, segments, 2, &count, err) == MK_OK &&
           mk_log_delete_closed_segments(w->log, &segments[0].base_offset, 1,
                                         err) == MK_OK;
}

static bool compact(writer *w, mk_error *err)
{
    mk_cleanup_result result;

    if (mk_log_compact(w->log, NULL, &result, err) != MK_OK) return false;
    mk_cleanup_result_deinit(&result);
    return true;
}

static bool take(writer *w, const step *s, mk_error *err)
{
    switch (s->kind) {
    case APPEND:
        return append(w, s, err);
    case FLUSH:
        return mk_log_flush(w->log, err) == MK_OK;
    case ROLL:
        return mk_log_roll(w->log, err) == MK_OK;
    case DELETE:
        return mk_log_delete_records(w->log, s->a, err) == MK_OK;
    case DROP:
        return drop(w, err);
    case TRUNCATE:
        return mk_log_truncate_to(w->log, s->a, err) == MK_OK;
    case COMPACT:
        return compact(w, err);
    case COPY:
        return mk_log_copy_to(w->log, w->r->copy, NULL, err) == MK_OK &&
               nftw(w->r->copy, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0;
    default:
        return open_again(w, err);
    }
}

/* Draw a step that can be taken; its arguments follow from the log. */
static step next_step(writer *w)
{
    static const step_kind often[] = {
        APPEND, APPEND,   APPEND,  APPEND,  APPEND, APPEND,
        APPEND, APPEND,   FLUSH,   ROLL,    ROLL,   DELETE,
        DROP,   TRUNCATE, COMPACT, COMPACT, COPY,   REOPEN};
    run *r = w->r;
    mk_segment_info segments[2], *array;
    mk_log_info info;
    size_t count;
    step s = {often[draw(&r->chance, sizeof often / sizeof often[0])], 0, 0, 0};

    CHILD_CHECK(mk_log_get_info(w->log, &info, NULL) == MK_OK);
    array = calloc(info.segment_count, sizeof *array);
    CHILD_CHECK(array != NULL);
    CHILD_CHECK(mk_log_segments(w->log, array, info.segment_count, &count,
                                NULL) == MK_OK);
    s.a = info.log_end_offset;
    if (s.kind == DROP) {
        CHILD_CHECK(mk_log_segments(w->log, segments, 2, &count, NULL) ==
                    MK_OK);
        if (count < 2) s.kind = FLUSH;
        s.a = count < 2 ? 0 : segments[1].base_offset;
        if (s.a < info.log_start_offset) s.a = info.log_start_offset;
    }
    if (s.kind == COMPACT) s.a = array[info.segment_count - 1].base_offset;
    if (s.kind == DELETE) {
        int64_t size = info.log_end_offset - info.log_start_offset + 1;

        s.a = info.log_start_offset + (int64_t)draw(&r->chance, (uint64_t)size);
    }
    if (s.kind == TRUNCATE) {
        int64_t size = info.log_end_offset - info.log_start_offset + 1;

        if (size > 40) size = 40;
        s.a -= (int64_t)draw(&r->chance, (uint64_t)size);
    }
    if (s.kind == APPEND) {
        s.b = 1 + (int64_t)draw(&r->chance, BATCH_MAX);
        s.sequence = r->sequence;
        r->sequence += (uint32_t)s.b;
    }
    free(array);
    return s;
}

static void tell_begun(board *b, int at, const step *s)
{
    b->steps[at] = *s;
    if (s->kind == TRUNCATE) b->cuts_begun++;
    for (int64_t i = 0; s->kind == APPEND && i < s->b; i++) {
        b->sequences[s->a + i] = s->sequence + (uint32_t)i;
    }
    if (s->kind == APPEND && s->a + s->b > b->end_intended) {
        b->end_intended = s->a + s->b;
    }
    b->begun = at + 1;
}

static void tell_done(board *b, int at, const step *s)
{
    b->done = at + 1;
    if (s->kind == APPEND) b->end = s->a + s->b;
    if (s->kind == TRUNCATE) b->end = s->a;
    if (s->kind == DELETE || s->kind == DROP) b->start = s->a;
    if (s->kind == TRUNCATE) b->cuts_done++;
}

static void write_on(run *r)
{
    static const int sizes[] = {500, 1500, 20000, 1 << 20};
    static const int intervals[] = {0, 200, 4096};
    writer w = {.r = r, .calls_left = -1};
    wrap_vfs wrap;
    mk_error err = {0};

    wrap_init(&wrap, &r->world->heap);
    wrap.no_exchange = draw(&r->chance, 2) == 0;
    wrap.no_sync = draw(&r->chance, 4) != 0;
    if (draw(&r->chance, 2) == 0) {
        w.calls_left = (long)draw(&r->chance, CALL_MAX);
        wrap.before = die_at_call;
        wrap.context = &w;
    }
    CHILD_CHECK(mk_env_new(&r->world->heap, &wrap.base, mk_clock_system(), 1,
                           &w.env, NULL) == MK_OK);
    mk_open_options_default(&w.options);
    w.options.env = w.env;
    w.options.config.segment_bytes = sizes[draw(&r->chance, 4)];
    w.options.config.index_interval_bytes = intervals[draw(&r->chance, 3)];
    w.options.mapped = (mk_mapping)draw(&r->chance, 3);
    CHILD_CHECK(mk_log_open(r->where, &w.options, &w.log, &err) == MK_OK);
    for (int at = 0; at < STEPS_MAX; at++) {
        step s = next_step(&w);

        tell_begun(r->shared, at, &s);
        if (!take(&w, &s, &err)) {
            fprintf(stderr, "round %d step %d kind %d: %s\n", r->round, at,
                    s.kind, err.message);
            _exit(1);
        }
        tell_done(r->shared, at, &s);
    }
    _exit(0);
}

/* ---- The reader ---- */

static void complain(const char *what, int64_t offset, const char *more)
{
    fprintf(stderr, "reader: %s at %lld: %s\n", what, (long long)offset, more);
    _exit(1);
}

static void read_through(board *b, mk_log *log, long long cuts)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_error err = {0};
    mk_status status = mk_cursor_open(log, NULL, &cursor, &err);
    int64_t least = -1;

    if (status == MK_OFFSET_OUT_OF_RANGE) return;
    if (status != MK_OK) complain("cursor", -1, err.message);
    while ((status = mk_cursor_next(cursor, &view, &err)) == MK_OK) {
        uint32_t sequence = b->sequences[view.offset];

        if (view.offset < least) complain("order", view.offset, "");
        least = view.offset + 1;
        if (!is_right(&view, sequence) && b->cuts_begun == cuts) {
            complain("another record", view.offset, "");
        }
    }
    if (status != MK_END && status != MK_OFFSET_OUT_OF_RANGE) {
        complain(mk_status_name(status), least, err.message);
    }
    mk_cursor_close(cursor);
}

static void verify(mk_log *log, const char *who)
{
    mk_findings findings;
    mk_error err = {0};
    mk_status status = mk_log_verify(log, NULL, &findings, &err);

    if (status != MK_OK) complain(who, -1, err.message);
    for (size_t i = 0; i < findings.count; i++) {
        const mk_finding *found = &findings.array[i];

        if (found->is_damage) complain(who, found->offset, found->message);
    }
    mk_findings_deinit(&findings);
}

static void look(board *b, mk_log *log)
{
    long long cuts = b->cuts_done, end = b->end, start = b->start;
    mk_log_info info;
    mk_error err = {0};

    if (mk_log_refresh(log, &err) != MK_OK) {
        complain("refresh", -1, err.message);
    }
    if (mk_log_get_info(log, &info, &err) != MK_OK) {
        complain("info", -1, err.message);
    }
    if (info.log_start_offset < start) complain("start", start, "");
    if (b->cuts_begun == cuts && info.log_end_offset < end) {
        complain("an early end", info.log_end_offset, "");
    }
    if (info.log_end_offset > b->end_intended) {
        complain("a late end", info.log_end_offset, "");
    }
    read_through(b, log, cuts);
}

typedef struct refresher {
    board *shared;
    mk_log *log;
} refresher;

/* Somebody else in the reader's process looks anew all the while. */
static void *refresh_on(void *argument)
{
    refresher *other = argument;
    mk_error err = {0};

    while (!other->shared->over) {
        if (mk_log_refresh(other->log, &err) != MK_OK) {
            complain("the other's refresh", -1, err.message);
        }
        usleep(100);
    }
    return NULL;
}

static void read_on(run *r)
{
    refresher other = {.shared = r->shared};
    pthread_t thread;
    mk_open_options options;
    mk_error err = {0};
    mk_log *old, *log;

    CHILD_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    mk_open_options_default(&options);
    options.read_only = true;
    options.max_open_files = 2;
    if (mk_log_open(r->where, &options, &old, &err) != MK_OK) {
        complain("open", -1, err.message);
    }
    other.log = old;
    CHILD_CHECK(pthread_create(&thread, NULL, refresh_on, &other) == 0);
    while (!r->shared->over) {
        look(r->shared, old);
        verify(old, "verify");
        if (mk_log_open(r->where, &options, &log, &err) != MK_OK) {
            complain("open again", -1, err.message);
        }
        look(r->shared, log);
        verify(log, "verify again");
        mk_log_close(log, NULL);
        r->shared->passes++;
    }
    pthread_join(thread, NULL);
    mk_log_close(old, NULL);
    _exit(0);
}

/* ---- What is found ---- */

/* How many offsets are not as the model says; -1: start or end are not. */
static long differences(mk_log *log, const model *m)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log_info info;
    mk_error err = {0};
    mk_status status;
    int64_t next = m->start;
    long count = 0;

    assert_int_equal(mk_log_get_info(log, &info, NULL), MK_OK);
    if (info.log_start_offset != m->start) return -1;
    if (info.log_end_offset != m->end) return -1;
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    while ((status = mk_cursor_next(cursor, &view, &err)) == MK_OK) {
        for (; next < view.offset; next++) {
            count += m->entries[next].sequence != 0;
        }
        count += !is_right(&view, m->entries[next++].sequence);
    }
    for (; next < m->end; next++) {
        count += m->entries[next].sequence != 0;
    }
    mk_cursor_close(cursor);
    if (status != MK_END) fail_msg("%s", err.message);
    return count;
}

/* Bring the model to what is found: the call that was cut short is done, or it
 * is not. */
static void compare(run *r, mk_log *log)
{
    board *b = r->shared;
    int done = b->done, begun = b->begun;
    model with;
    mk_log_info info;
    long before, after;

    for (int i = 0; i < done; i++) {
        model_do(&r->now, &b->steps[i]);
    }
    with = model_copy(&r->now);
    if (begun > done) model_do(&with, &b->steps[done]);
    before = differences(log, &r->now);
    after = differences(log, &with);
    assert_int_equal(mk_log_get_info(log, &info, NULL), MK_OK);
    if (before != 0 && after != 0) {
        const step *s = &b->steps[done];

        fail_msg("round %d: %d steps, then kind %d (%lld, %lld) cut short %d: "
                 "found %lld to %lld, not %lld to %lld (%ld) or to %lld (%ld)",
                 r->round, done, s->kind, (long long)s->a, (long long)s->b,
                 begun - done, (long long)info.log_start_offset,
                 (long long)info.log_end_offset, (long long)r->now.start,
                 (long long)r->now.end, before, (long long)with.end, after);
    }
    if (before != 0) {
        free(r->now.entries);
        r->now = with;
    } else {
        free(with.entries);
    }
    b->start = r->now.start;
    b->end = r->now.end;
    b->begun = b->done = 0;
    b->cuts_done = (long long)b->cuts_begun;
    verify(log, "the verify of what was left");
}

static uint64_t snapshot(const run *r)
{
    return fingerprint(r->world->root) + 3 * fingerprint(r->where);
}

/* A reader finds what the next writer finds. Its opening puts things in order,
 * another one has nothing to do. */
static void check(run *r)
{
    mk_open_options options;
    mk_error err = {0};
    mk_log *log = NULL;
    uint64_t before = 0;

    mk_open_options_default(&options);
    for (int opening = 0; opening < 3; opening++) {
        options.read_only = opening == 0 && access(r->where, F_OK) == 0;
        if (opening == 2) before = snapshot(r);
        if (mk_log_open(r->where, &options, &log, &err) != MK_OK) {
            fail_msg("round %d, opening %d: %s", r->round, opening,
                     err.message);
        }
        if (opening == 2) assert_true(snapshot(r) == before);
        compare(r, log);
        if (opening == 2 && r->round % 3 == 0) {
            assert_int_equal(mk_log_close(log, &err), MK_OK);
        } else {
            mk_log_abandon(log);
        }
    }
}

/* What was cut short leaves no copy, or all of it, and no bar to the next. */
static void check_copy(run *r)
{
    mk_open_options options;
    mk_error err = {0};
    mk_log *log = NULL;

    mk_open_options_default(&options);
    options.create = false;
    if (access(r->copy, F_OK) == 0) {
        if (mk_log_open(r->copy, &options, &log, &err) == MK_OK) {
            assert_int_equal(mk_log_close(log, &err), MK_OK);
        }
        nftw(r->copy, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void run_and_kill(run *r)
{
    uint64_t wait_us = draw(&r->chance, WAIT_MAX);
    int outcome;
    pid_t child;

    r->sequence += 100000; /* Beyond all that a dead writer has given. */
    child = fork();
    assert_true(child >= 0);
    if (child == 0) write_on(r);
    usleep((useconds_t)wait_us);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &outcome, 0), child);
    if (!WIFSIGNALED(outcome)) assert_int_equal(WEXITSTATUS(outcome), 0);
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? atoi(text) : otherwise;
}

static pid_t start_reader(run *r)
{
    pid_t reader;

    fflush(NULL);
    reader = fork();
    assert_true(reader >= 0);
    if (reader == 0) read_on(r);
    return reader;
}

static void test_killed_cleanups(void **state)
{
    run r = {.world = *state, .sequence = 1};
    int outcome;
    pid_t reader;

    r.chance = (uint64_t)number_of("MK_SEED", 1);
    r.shared = mmap(NULL, sizeof *r.shared, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r.shared != MAP_FAILED);
    r.now.entries = calloc(OFFSETS_MAX, sizeof *r.now.entries);
    assert_non_null(r.now.entries);
    snprintf(r.where, sizeof r.where, "%s/t-0", r.world->root);
    snprintf(r.copy, sizeof r.copy, "%s/copy-0", r.world->root);
    check(&r);
    reader = start_reader(&r);
    for (int kills = number_of("MK_KILLS", KILLS); r.round < kills; r.round++) {
        run_and_kill(&r);
        check(&r);
        check_copy(&r);
        if (waitpid(reader, &outcome, WNOHANG) != 0) {
            fail_msg("round %d: the reader has ended", r.round);
        }
    }
    r.shared->over = true;
    assert_int_equal(waitpid(reader, &outcome, 0), reader);
    assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    assert_true(r.shared->passes > 0);
    free(r.now.entries);
    munmap(r.shared, sizeof *r.shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_cleanups, world_setup,
                                        world_teardown),
    };

    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
    return cmocka_run_group_tests_name("killed_cleanups", tests, NULL, NULL);
}
