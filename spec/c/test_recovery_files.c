/* What opening makes of the other files in a directory: the state, indexes, the
 * leftovers of Kafka's; and who is told how far it is. */
#define _GNU_SOURCE
#include "support/made_batches.h"

#define ALL "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 "

static void make_log(log_world *world)
{
    world->options.config.index_interval_bytes = 0;
    open_log(world);
    fill(world, "a=1@1 b=2@5 c=3@3 | d=4@7 e=5@6");
}

/* Every offset and every time is found, in whatever way. */
static void assert_sound(log_world *world)
{
    static const int64_t firsts[] = {0, 0, 1, 1, 1, 1, 3, 3};
    int64_t offset, found_ms;
    mk_cursor *cursor;

    assert_contents(world, ALL);
    assert_bounds(world, 0, 5);
    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    for (int64_t i = 4; i >= 0; i--) {
        mk_record_view view;

        assert_ok(world, mk_cursor_seek(cursor, i, &world->err));
        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
        assert_int_equal(view.offset, i);
    }
    mk_cursor_close(cursor);
    for (int64_t ms = 0; ms < 8; ms++) {
        assert_ok(world, mk_log_offset_for_timestamp(world->log, ms, &offset,
                                                     &found_ms, &world->err));
        assert_int_equal(offset, firsts[ms]);
    }
    assert_int_equal(mk_log_offset_for_timestamp(world->log, 8, &offset,
                                                 &found_ms, &world->err),
                     MK_END);
    assert_ok(world, mk_log_offset_of_max_timestamp(world->log, &offset,
                                                    &found_ms, &world->err));
    assert_int_equal(offset, 3);
}

/* ---- The state ---- */

/* Without it everything is read, and there. */
static void test_a_missing_state_costs_reading(void **state)
{
    log_world *world = *state;
    mk_log_stats stats;

    make_log(world);
    close_log(world);
    unlink(file_of(world, "minikafka.state"));
    open_log(world);
    assert_ok(world, mk_log_get_stats(world->log, &stats, &world->err));
    assert_int_equal(stats.recovered_bytes,
                     file_size(segment_file(world, 0, ".log")) +
                         file_size(segment_file(world, 3, ".log")));
    assert_sound(world);
    assert_int_equal(info_of(world).recovery_point, 0);
    reopen(world);
    assert_sound(world);
    assert_int_equal(info_of(world).recovery_point, 5);
}

/* A state that is damaged anywhere, or cut, claims nothing. */
static void test_a_damaged_state_claims_nothing(void **state)
{
    log_world *world = *state;
    const char *path;
    uint8_t *bytes;
    size_t size;

    make_log(world);
    close_log(world);
    path = file_of(world, "minikafka.state");
    bytes = load(path, &size);
    for (size_t i = 0; i < 2 * size; i++) {
        path = file_of(world, "minikafka.state");
        if (i < size) {
            bytes[i] ^= (uint8_t)(1 << i % 8);
            store(path, bytes, size);
            bytes[i] ^= (uint8_t)(1 << i % 8);
        } else {
            store(path, bytes, i - size);
        }
        open_log(world);
        assert_sound(world);
        assert_int_equal(info_of(world).recovery_point, 0);
        abandon_log(world);
    }
    free(bytes);
}

/* An earlier state of the log does not hide what came after. */
static void test_an_old_state_hides_nothing(void **state)
{
    log_world *world = *state;
    uint8_t *bytes[3];
    size_t sizes[3];

    world->options.config.index_interval_bytes = 0;
    open_log(world);
    fill(world, "a=1@1");
    for (int i = 0; i < 3; i++) {
        static const char *const more[] = {"b=2@5", "c=3@3 |", "d=4@7 e=5@6"};

        reopen(world);
        bytes[i] = load(file_of(world, "minikafka.state"), &sizes[i]);
        fill(world, more[i]);
    }
    close_log(world);
    for (int i = 0; i < 3; i++) {
        store(file_of(world, "minikafka.state"), bytes[i], sizes[i]);
        free(bytes[i]);
        open_log(world);
        assert_sound(world);
        close_log(world);
    }
}

/* A later state of the log, whose end is gone, does not make up records. The
 * offsets that it knows of may be gone for good. */
static void test_a_later_state_makes_up_nothing(void **state)
{
    log_world *world = *state;
    int64_t size;

    make_log(world);
    size = file_size(segment_file(world, 3, ".log"));
    flush(world);
    fill(world, "f=6@8 g=7@9");
    close_log(world);
    set_size(segment_file(world, 3, ".log"), size);
    open_log(world);
    assert_contents(world, ALL);
    assert_true(info_of(world).log_end_offset >= 5);
    append(world, "h=8");
    reopen_after_death(world);
    assert_non_null(strstr(contents(world), ":h=8 "));
}

/* The state of another log misleads nobody. */
static void test_a_strange_state_is_not_believed(void **state)
{
    log_world *world = *state;
    uint8_t *bytes;
    size_t size;

    world->options.config.index_interval_bytes = 0;
    open_log(world);
    fill(world, "x=1@9 y=2@9 z=3@9 | x=1@9 y=2@9");
    close_log(world);
    bytes = load(file_of(world, "minikafka.state"), &size);
    remove_all(world->where);
    make_log(world);
    close_log(world);
    store(file_of(world, "minikafka.state"), bytes, size);
    free(bytes);
    open_log(world);
    assert_sound(world);
    reopen(world);
    assert_sound(world);
}

/* A state that is no file, or a huge one, is an error or none, not a hang. */
static void test_a_state_that_is_no_file(void **state)
{
    log_world *world = *state;

    make_log(world);
    close_log(world);
    unlink(file_of(world, "minikafka.state"));
    set_size(file_of(world, "minikafka.lock"), 0);
    store_text(file_of(world, "minikafka.state"), "");
    set_size(file_of(world, "minikafka.state"), INT64_C(1) << 33);
    open_log(world);
    assert_sound(world);
    close_log(world);
    unlink(file_of(world, "minikafka.state"));
    assert_int_equal(mkdir(file_of(world, "minikafka.state"), 0700), 0);
    assert_int_equal(try_open(world), MK_IO);
    assert_non_null(strstr(world->err.message, "minikafka.state"));
}

/* ---- Indexes ---- */

/* An index that is damaged anywhere, cut or missing is made anew. */
static void test_damaged_indexes_are_made_anew(void **state)
{
    static const char *const suffixes[] = {".index", ".timeindex"};
    log_world *world = *state;

    make_log(world);
    close_log(world);
    for (size_t i = 0; i < 4; i++) {
        int64_t base = i < 2 ? 0 : 3;
        char path[512];
        size_t size;
        uint8_t *bytes;

        snprintf(path, sizeof path, "%s",
                 segment_file(world, base, suffixes[i % 2]));
        bytes = load(path, &size);
        assert_true(size > 0);
        for (size_t j = 0; j <= 2 * size; j++) {
            store(path, bytes, j < size ? size : j - size);
            if (j < size) damage(path, j);
            if (j == 2 * size) unlink(path);
            open_log(world);
            assert_sound(world);
            close_log(world);
        }
        free(bytes);
    }
}

/* After a death with no state worth the name, indexes are not believed
 * unseen. */
/* Which entries there are depends on the setting. Indexes that the state
 * vouches for stay, also where an opening forgot the recovery point, and the
 * next one reads all: it has nothing to write. */
static void test_known_indexes_stay(void **state)
{
    log_world *world = *state;
    FILE *torn;

    make_log(world);
    close_log(world);
    torn = fopen(segment_file(world, 3, ".log"), "ab");
    assert_non_null(torn);
    assert_int_equal(fputs("torn", torn) >= 0 && fclose(torn) == 0, true);
    world->options.config.index_interval_bytes = 4096;
    open_log(world);
    abandon_log(world);
    assert_int_equal(file_size(segment_file(world, 0, ".index")), 16);
    wrap_record(&world->wrap);
    open_log(world);
    assert_true(stats_of(world).recovered_bytes > 0);
    for (size_t i = 0; i < world->wrap.call_count; i++) {
        assert_int_not_equal(world->wrap.calls[i].kind, WRAP_write);
        assert_int_not_equal(world->wrap.calls[i].kind, WRAP_rename);
    }
    assert_sound(world);
    assert_int_equal(file_size(segment_file(world, 0, ".index")), 16);
}

static void test_indexes_without_a_state(void **state)
{
    log_world *world = *state;

    make_log(world);
    close_log(world);
    for (size_t j = 0; j < 16; j++) {
        damage(segment_file(world, 0, ".index"), j);
        unlink(file_of(world, "minikafka.state"));
        open_log(world);
        assert_sound(world);
        close_log(world);
    }
}

/* ---- Segments that can't be ---- */

static void test_overlapping_segments(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};

    make_batch(&made, 0, "a=1,b=2,c=3", 2);
    put_segment(world, 0, &made);
    make_batch(&made, 2, "d=4", 2);
    put_segment(world, 2, &made);
    assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
    assert_non_null(strstr(world->err.message, "overlap"));
}

/* A foreign log may have gaps, empty segments and empty batches. */
static void test_gaps_between_segments(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};

    make_batch(&made, 10, "a=1", 14);
    put_segment(world, 10, &made);
    put_segment(world, 20, &made);
    make_batch(&made, 30, "+2,b=2", 35);
    put_segment(world, 30, &made);
    open_log(world);
    assert_bounds(world, 10, 36);
    assert_contents(world, "10:a=1 32:b=2 ");
    assert_segments(world, "10..15 20..20 30..36 ");
    reopen(world);
    assert_segments(world, "10..15 20..20 30..36 ");
    assert_int_equal(append(world, "c=3"), 36);
}

/* Messages of the old formats are told from damage. */
static void test_old_messages(void **state)
{
    static const uint8_t message[] = {
        0,    0, 0, 0, 0, 0, 0, 0, 0,   0,    0,    15,   0xbd, 0x71,
        0x11, 0, 0, 0, 0, 0, 0, 1, 'k', 0xff, 0xff, 0xff, 0xff,
    };
    log_world *world = *state;
    uint8_t bytes[sizeof message];
    uint32_t sum = 0xffffffff;

    memcpy(bytes, message, sizeof message);
    for (size_t i = 16; i < sizeof bytes; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xedb88320 : 0);
        }
    }
    mk_store_u32(bytes + 12, ~sum);
    assert_int_equal(mkdir(world->where, 0755), 0);
    store(segment_file(world, 0, ".log"), bytes, sizeof bytes);
    keep(world, files(world));
    assert_int_equal(try_open(world), MK_UNSUPPORTED);
    assert_int_equal(file_size(segment_file(world, 0, ".log")), sizeof bytes);
    /* Not quite an old message: a torn tail like any other. */
    bytes[25] ^= 1;
    store(segment_file(world, 0, ".log"), bytes, sizeof bytes);
    open_log(world);
    assert_contents(world, "");
}

static void test_a_file_too_large_for_a_segment(void **state)
{
    log_world *world = *state;

    make_log(world);
    close_log(world);
    set_size(segment_file(world, 3, ".log"), INT64_C(1) << 31);
    assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
    assert_int_equal(file_size(segment_file(world, 3, ".log")), INT64_C(1)
                                                                    << 31);
}

/* ---- Kafka's leftovers ---- */

static void copy_file(log_world *world, const char *from, const char *to)
{
    size_t size;
    uint8_t *bytes = load(file_of(world, from), &size);

    store(file_of(world, to), bytes, size);
    free(bytes);
}

/* What Kafka removes when it opens a log goes; other files stay. A reader
 * touches nothing. */
static void test_leftovers_of_kafka(void **state)
{
    static const char first[] = "00000000000000000000.log";
    static const char *const gone[] = {
        "00000000000000000000.log.deleted",
        "00000000000000000009.index.deleted",
        "00000000000000000000.log.cleaned", "00000000000000000003.log.swap",
        "00000000000000000001.timeindex.cleaned"};
    static const char *const stay[] = {"partition.metadata",
                                       "leader-epoch-checkpoint",
                                       "0.log",
                                       "00000000000000000005.snapshot",
                                       "00000000000000000000.log.other",
                                       "00000000000000000000.LOG",
                                       "0000000000000000000x.log"};
    log_world *world = *state;

    make_log(world);
    close_log(world);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        copy_file(world, first, gone[i]);
    }
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++) {
        copy_file(world, first, stay[i]);
    }
    keep(world, files(world));
    world->options.read_only = true;
    open_log(world);
    assert_sound(world);
    close_log(world);
    assert_string_equal(files(world), world->kept);
    world->options.read_only = false;
    open_log(world);
    assert_sound(world);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        assert_false(exists(file_of(world, gone[i])));
    }
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++) {
        assert_true(exists(file_of(world, stay[i])));
    }
}

/* ---- Progress ---- */

typedef struct progress {
    int64_t done, total;
    int calls, fail_at;
} progress;

static mk_status report(void *context, int64_t done, int64_t total,
                        mk_error *err)
{
    progress *p = context;

    assert_true(done >= p->done);
    assert_true(done <= total);
    if (p->calls > 0) assert_int_equal(total, p->total);
    p->done = done;
    p->total = total;
    p->calls++;
    if (p->calls != p->fail_at) return MK_OK;
    if (err != NULL) snprintf(err->message, sizeof err->message, "enough");
    return MK_CALLBACK;
}

/* A long recovery tells how far it is. A report that fails ends it, with its
 * own error; nothing was changed, and the log is not locked. */
static void test_progress_is_told(void **state)
{
    log_world *world = *state;
    progress p = {0};
    uint8_t *value = calloc(1, 400000);
    mk_record record = {.value = value, .value_size = 400000};
    int64_t offset;
    int calls;

    assert_non_null(value);
    open_log(world);
    for (int i = 0; i < 9; i++) {
        assert_ok(world,
                  mk_log_append_one(world->log, &record, &offset, &world->err));
        if (i == 4) roll(world);
    }
    free(value);
    abandon_log(world);
    keep(world, files(world));
    world->options.progress = (mk_progress){report, &p};
    open_log(world);
    assert_true(p.calls > 3);
    assert_int_equal(p.done, p.total);
    assert_true(p.total > 9 * 400000);
    abandon_log(world);
    calls = p.calls;
    unlink(file_of(world, "minikafka.state"));
    unlink(segment_file(world, 5, ".index"));
    unlink(segment_file(world, 5, ".timeindex"));
    keep(world, files(world));
    for (int i = 1; i <= calls; i++) {
        p = (progress){.fail_at = i};
        assert_int_equal(try_open(world), MK_CALLBACK);
        assert_string_equal(world->err.message, "enough");
        assert_int_equal(p.calls, i);
    }
    world->options.progress.report = NULL;
    open_log(world);
    assert_bounds(world, 0, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_missing_state_costs_reading),
        log_test(test_a_damaged_state_claims_nothing),
        log_test(test_an_old_state_hides_nothing),
        log_test(test_a_later_state_makes_up_nothing),
        log_test(test_a_strange_state_is_not_believed),
        log_test(test_a_state_that_is_no_file),
        log_test(test_damaged_indexes_are_made_anew),
        log_test(test_known_indexes_stay),
        log_test(test_indexes_without_a_state),
        log_test(test_overlapping_segments),
        log_test(test_gaps_between_segments),
        log_test(test_old_messages),
        log_test(test_a_file_too_large_for_a_segment),
        log_test(test_leftovers_of_kafka),
        log_test(test_progress_is_told),
    };

    return cmocka_run_group_tests_name("recovery_files", tests, NULL, NULL);
}
