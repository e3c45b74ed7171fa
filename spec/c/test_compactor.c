/* Compaction: which records stay, where they go, and what a failure leaves. */
#define _GNU_SOURCE
#include "support/compact_world.h"

enum { NOW = 100000, GRACE = 1000 };

static mk_offset_range append(compact_world *w, const hand_record *records,
                              size_t count)
{
    mk_offset_range range;
    mk_record given[16];

    assert_true(count <= LENGTH(given));
    for (size_t i = 0; i < count; i++) {
        const hand_record *hand = &records[i];

        given[i] = (mk_record){
            .key = hand->key,
            .key_size = hand->key != NULL ? strlen(hand->key) : 0,
            .value = hand->value,
            .value_size = hand->value != NULL ? strlen(hand->value) : 0,
            .timestamp_ms = hand->timestamp_ms,
        };
    }
    assert_ok(mk_log_append(w->log, given, count, NULL, &range, NULL));
    return range;
}

static void append_one(compact_world *w, const char *key, const char *value,
                       int64_t timestamp_ms)
{
    const hand_record record = {key, value, timestamp_ms, 0};

    append(w, &record, 1);
}

static void roll(compact_world *w)
{
    assert_ok(mk_log_roll(w->log, NULL));
}

/* ---- What stays ---- */

/* Of each key the newest, the active segment counted in; keyless records. */
static void test_newest(void **state)
{
    compact_world w;

    compact_begin(&w, *state);
    open_log(&w, 0);
    append_one(&w, "a", "1", 5);
    append_one(&w, "b", "1", 5);
    append_one(&w, NULL, "k", 5);
    append_one(&w, "", "1", 5);
    append_one(&w, "a", "2", 4);
    roll(&w);
    append_one(&w, "c", "1", 5);
    append_one(&w, "", "2", 5);
    append_one(&w, NULL, "k", 5);
    roll(&w);
    append_one(&w, "b", "2", 5);
    append_one(&w, "b", "3", 5);
    assert_ok(compact_at(&w, NOW, GRACE));
    assert_records(&w, "2:-=k 4:a=2 5:c=1 6:=2 7:-=k 8:b=2 9:b=3 ");
    assert_int_equal(w.result.records_before, 8);
    assert_int_equal(w.result.records_after, 5);
    assert_int_equal(w.result.source_count, 2);
    assert_int_equal(w.result.source_segments[0], 0);
    assert_int_equal(w.result.source_segments[1], 5);
    assert_int_equal(w.result.new_count, 1);
    assert_int_equal(w.result.new_segments[0], 0);
    close_log(&w);
    open_log(&w, 0);
    assert_records(&w, "2:-=k 4:a=2 5:c=1 6:=2 7:-=k 8:b=2 9:b=3 ");
    compact_end(&w);
}

/* A tombstone stays until its age is greater than its grace; one that was
 * superseded goes at once. */
static void test_tombstones(void **state)
{
    static const struct {
        int64_t time_ms, now_ms, grace_ms;
        bool stays;
    } cases[] = {
        {5000, 6000, 1000, true},
        {5000, 6001, 1000, false},
        {5000, 5000, 0, true},
        {5000, 5001, 0, false},
        {5000, 4000, 0, true}, /* Not yet written, by the clock. */
        {-1, 999, 1000, true},
        {-1, 1000, 1000, false},
        {5000, INT64_MAX, INT64_MAX, true},
        {-1, INT64_MAX, INT64_MAX, false},
        {INT64_MAX, 0, 0, true},
        {INT64_MAX, INT64_MIN + 1, 0, true},
        {5000, INT64_MIN + 1, 0, true},
    };

    for (size_t i = 0; i < LENGTH(cases); i++) {
        compact_world w;
        posix_world *world = *state;

        compact_begin(&w, world);
        open_log(&w, 0);
        append_one(&w, "a", "1", 5);
        append_one(&w, "b", NULL, INT64_MAX);
        append_one(&w, "a", NULL, cases[i].time_ms);
        roll(&w);
        append_one(&w, "b", "2", 5);
        assert_ok(compact_at(&w, cases[i].now_ms, cases[i].grace_ms));
        assert_records(&w, cases[i].stays ? "2:a! 3:b=2 " : "3:b=2 ");
        assert_int_equal(w.result.records_before, 3);
        assert_int_equal(w.result.records_after, cases[i].stays);
        compact_end(&w);
        remove_partition(world);
    }
}

/* Keys of a few letters, tombstones and keyless records by chance; what a plain
 * walk keeps is what is left, as are the index files. */
typedef struct plain_record {
    char key[2]; /* "-": none. */
    char value[12];
    bool tombstone;
} plain_record;

enum { RECORDS = 200 };

/* Append records in chance batches and segments; returns where the active
 * segment begins. */
static int64_t fill(compact_world *w, plain_record *all, uint64_t *seed)
{
    int64_t active = 0;

    for (int64_t i = 0; i < RECORDS;) {
        hand_record batch[8];
        size_t count = 1 + draw(seed, LENGTH(batch));

        for (size_t j = 0; j < count && i + (int64_t)j < RECORDS; j++) {
            plain_record *record = &all[i + (int64_t)j];
            bool keyless = draw(seed, 10) == 0;

            record->key[0] = keyless ? '-' : (char)('a' + draw(seed, 20));
            record->key[1] = '\0';
            record->tombstone = !keyless && draw(seed, 4) == 0;
            snprintf(record->value, sizeof record->value, "%" PRIu64,
                     draw(seed, 1000000));
            batch[j] =
                (hand_record){.key = keyless ? NULL : record->key,
                              .value = record->tombstone ? NULL : record->value,
                              .timestamp_ms = NOW - (int64_t)draw(seed, GRACE)};
        }
        if (i + (int64_t)count > RECORDS) count = (size_t)(RECORDS - i);
        append(w, batch, count);
        i += (int64_t)count;
        if (draw(seed, 6) == 0 && i < RECORDS) {
            roll(w);
            active = i;
        }
    }
    return active;
}

/* Is there a later record with that key? */
static bool is_superseded(const plain_record *all, int64_t i)
{
    if (all[i].key[0] == '-') return false;
    for (int64_t j = i + 1; j < RECORDS; j++) {
        if (all[j].key[0] == all[i].key[0]) return true;
    }
    return false;
}

static void expect_kept(const plain_record *all, int64_t active, char *out,
                        size_t out_size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int64_t i = 0; i < RECORDS; i++) {
        if (i < active && is_superseded(all, i)) continue;
        used += (size_t)snprintf(
            out + used, out_size - used, "%" PRId64 ":%s%s%s ", i, all[i].key,
            all[i].tombstone ? "!" : "=", all[i].tombstone ? "" : all[i].value);
        assert_true(used < out_size);
    }
}

static void test_chance(void **state)
{
    static const int64_t intervals[] = {0, 100, 4096};
    posix_world *world = *state;

    for (uint64_t run = 0; run < 9; run++) {
        int64_t interval = intervals[run % LENGTH(intervals)];
        plain_record all[RECORDS];
        uint64_t seed = run + 1;
        char expected[8192], found[8192];
        compact_world w;
        int64_t active;

        compact_begin(&w, world);
        open_log(&w, interval);
        active = fill(&w, all, &seed);
        assert_true(active > 0);
        expect_kept(all, active, expected, sizeof expected);
        for (int pass = 0; pass < 2; pass++) {
            assert_ok(compact_at(&w, NOW, GRACE));
            records_of(&w, found, sizeof found);
            assert_string_equal(found, expected);
            assert_indexes(&w, interval);
        }
        assert_int_equal(w.result.source_count, 1);
        assert_int_equal(w.result.records_before, w.result.records_after);
        assert_int_equal(w.result.bytes_before, w.result.bytes_after);
        close_log(&w);
        open_log(&w, interval);
        records_of(&w, found, sizeof found);
        assert_string_equal(found, expected);
        compact_end(&w);
        remove_partition(world);
    }
}

/* Bytes told are logs and index files of what was rewritten, before and after.
 */
static void test_bytes(void **state)
{
    mk_segment_info infos[4];
    compact_world w;
    int64_t before = 0;
    size_t count;

    compact_begin(&w, *state);
    open_log(&w, 0);
    for (int i = 0; i < 20; i++) {
        append_one(&w, i % 2 ? "a" : NULL, "value", NOW + i);
        if (i == 8 || i == 15) roll(&w);
    }
    assert_ok(mk_log_segments(w.log, infos, 4, &count, NULL));
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 2; i++) {
        before += infos[i].log_bytes + infos[i].index_bytes;
    }
    assert_ok(compact_at(&w, NOW, GRACE));
    assert_int_equal(w.result.bytes_before, before);
    assert_int_equal(w.result.bytes_after,
                     size_on_disk(w.world, name_of(&w, 0, ".log")) +
                         size_on_disk(w.world, name_of(&w, 0, ".index")) +
                         size_on_disk(w.world, name_of(&w, 0, ".timeindex")));
    compact_end(&w);
}

/* More than any buffer holds, and a batch larger than that. */
static void test_large_batches(void **state)
{
    enum { LARGE = 400000, SMALL = 30000 };
    static char value[LARGE];
    mk_cursor *cursor = NULL;
    mk_record_view view;
    compact_world w;
    int64_t kept = 0;

    memset(value, 'v', sizeof value);
    compact_begin(&w, *state);
    open_log(&w, 4096);
    for (int64_t i = 0; i < 40; i++) {
        mk_record records[2] = {
            {.key = "a", .key_size = 1, .value = "1", .value_size = 1},
            {.value = value, .value_size = i % 13 == 5 ? LARGE : SMALL}};
        mk_offset_range range;

        value[0] = (char)('A' + i);
        assert_ok(mk_log_append(w.log, records, i % 3 == 0 ? 1 : 2, NULL,
                                &range, NULL));
        kept += i % 3 != 0;
    }
    roll(&w);
    append_one(&w, "a", "2", 5);
    assert_ok(compact_at(&w, NOW, GRACE));
    assert_int_equal(w.result.records_after, kept);
    assert_ok(mk_cursor_open(w.log, NULL, &cursor, NULL));
    for (int64_t i = 0; i < 40; i++) {
        if (i % 3 == 0) continue;
        value[0] = (char)('A' + i);
        assert_ok(mk_cursor_next(cursor, &view, NULL));
        assert_null(view.key);
        assert_int_equal(view.value_size, i % 13 == 5 ? LARGE : SMALL);
        assert_memory_equal(view.value, value, view.value_size);
    }
    assert_ok(mk_cursor_next(cursor, &view, NULL));
    assert_int_equal(view.key_size, 1);
    mk_cursor_close(cursor);
    compact_end(&w);
}

/* Two batches that fill the buffer but for a byte, exactly, and one over. */
static void test_full_buffer(void **state)
{
    enum { BUFFER = 256 << 10, FIRST = 100000 };
    static char value[BUFFER];
    posix_world *world = *state;

    for (int64_t over = -1; over <= 1; over++) {
        mk_record record = {.value = value, .value_size = FIRST};
        mk_segment_info info;
        compact_world w;
        int64_t offset;
        size_t count;

        compact_begin(&w, world);
        open_log(&w, 0);
        assert_ok(mk_log_append_one(w.log, &record, &offset, NULL));
        assert_ok(mk_log_segments(w.log, &info, 1, &count, NULL));
        record.value_size =
            (size_t)(BUFFER + over - 2 * info.log_bytes + FIRST);
        assert_ok(mk_log_append_one(w.log, &record, &offset, NULL));
        assert_ok(mk_log_segments(w.log, &info, 1, &count, NULL));
        assert_int_equal(info.log_bytes, BUFFER + over);
        roll(&w);
        assert_ok(compact_at(&w, NOW, GRACE));
        assert_int_equal(size_on_disk(world, name_of(&w, 0, ".log")),
                         BUFFER + over);
        assert_int_equal(w.result.records_after, 2);
        compact_end(&w);
        remove_partition(world);
    }
}

/* ---- Where it goes ---- */

/* What lies below the log start goes and is not counted; a batch that holds the
 * start keeps its range. */
static void test_log_start_in_a_batch(void **state)
{
    static const hand_record records[] = {{NULL, "0", 5, 0},
                                          {"a", "1", 5, 0},
                                          {NULL, "2", 5, 0},
                                          {"b", "3", 5, 0}};
    mk_segment_info infos[4];
    compact_world w;
    size_t count;

    compact_begin(&w, *state);
    open_log(&w, 0);
    append_one(&w, NULL, "first", 5);
    append(&w, records, 4); /* 1 to 4. */
    roll(&w);
    append_one(&w, "c", "5", 5);
    assert_ok(mk_log_delete_records(w.log, 3, NULL));
    assert_ok(compact_at(&w, NOW, GRACE));
    assert_records(&w, "3:-=2 4:b=3 5:c=5 ");
    assert_int_equal(w.result.records_before, 2);
    assert_int_equal(w.result.records_after, 2);
    assert_ok(mk_log_segments(w.log, infos, 4, &count, NULL));
    assert_int_equal(count, 2);
    assert_int_equal(infos[0].base_offset, 1);
    close_log(&w);
    open_log(&w, 0);
    assert_records(&w, "3:-=2 4:b=3 5:c=5 ");
    compact_end(&w);
}

/* Segments by hand, a batch of a record in each, at these offsets; the last is
 * the active one. */
static void put_spread(compact_world *w, const int64_t *offsets,
                       const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const hand_record record = {keys[i], "v", 5, 0};
        mk_batch batch = plain_batch(offsets[i]);
        hand_log log = {.size = 0};

        put_batch(&log, &batch, &record, 1);
        put_segment(w, offsets[i], &log);
    }
}

/* Offsets that 31 bits can't tell from the first one's begin a segment. */
static void test_offsets_far_apart(void **state)
{
    static const int64_t offsets[] = {
        0,
        INT64_C(0x7fffffff), /* Just in reach of 0. */
        INT64_C(0x80000000), /* Just out of it. */
        INT64_C(0xffffffff),
        INT64_C(0x100000000),
        INT64_C(0x1000000000),
        INT64_C(0x1000000001),
    };
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g"};
    static const int64_t made[] = {0, INT64_C(0x80000000), INT64_C(0x100000000),
                                   INT64_C(0x1000000000)};
    char before[1024];
    compact_world w;

    compact_begin(&w, *state);
    put_spread(&w, offsets, keys, LENGTH(offsets));
    open_log(&w, 0);
    records_of(&w, before, sizeof before);
    assert_ok(compact_at(&w, NOW, GRACE));
    assert_int_equal(w.result.source_count, 6);
    assert_int_equal(w.result.new_count, LENGTH(made));
    for (size_t i = 0; i < LENGTH(made); i++) {
        assert_int_equal(w.result.new_segments[i], made[i]);
    }
    assert_int_equal(w.result.records_after, 6);
    assert_records(&w, before);
    close_log(&w);
    open_log(&w, 0);
    assert_records(&w, before);
    compact_end(&w);
}

/* Where all within reach of the log start is gone, the log still starts there,
 * reopened too. */
static void test_start_far_from_what_stays(void **state)
{
    static const int64_t offsets[] = {0, INT64_C(0x100000000),
                                      INT64_C(0x100000001)};
    static const char *const keys[] = {"a", "a", "b"};
    mk_segment_info infos[4];
    mk_log_info info;
    compact_world w;
    size_t count;

    compact_begin(&w, *state);
    put_spread(&w, offsets, keys, LENGTH(offsets));
    open_log(&w, 0);
    assert_ok(compact_at(&w, NOW, GRACE));
    assert_records(&w, "4294967296:a=v 4294967297:b=v ");
    assert_ok(mk_log_get_info(w.log, &info, NULL));
    assert_int_equal(info.log_start_offset, 0);
    close_log(&w);
    open_log(&w, 0);
    assert_records(&w, "4294967296:a=v 4294967297:b=v ");
    assert_ok(mk_log_get_info(w.log, &info, NULL));
    assert_ok(mk_log_segments(w.log, infos, 4, &count, NULL));
    compact_end(&w);
    assert_int_equal(info.log_start_offset, 0);
    assert_int_equal(infos[0].base_offset, 0);
}

/* ---- What is refused, and failures ---- */

static mk_status count_call(void *context, mk_error *err)
{
    int *calls = context;

    (void)err;
    return ++*calls == 1 ? MK_CALLBACK : MK_OK;
}

/* Without a closed segment nothing is done; the callback's failure undoes all.
 */
static void test_before_swap(void **state)
{
    mk_compact_options options;
    compact_world w;
    uint32_t sum;
    int calls = 0;

    compact_begin(&w, *state);
    mk_compact_options_default(&options);
    options.before_swap = count_call;
    options.context = &calls;
    open_log(&w, 0);
    append_one(&w, "a", "1", 5);
    append_one(&w, "a", "2", 5);
    assert_ok(mk_log_compact(w.log, &options, &w.result, NULL));
    assert_int_equal(calls, 0);
    assert_int_equal(w.result.source_count, 0);
    assert_records(&w, "0:a=1 1:a=2 ");
    roll(&w);
    assert_ok(mk_log_flush(w.log, NULL));
    sum = sum_of_tree(&w, ".");
    assert_status(mk_log_compact(w.log, &options, &w.result, NULL),
                  MK_CALLBACK);
    assert_int_equal(calls, 1);
    assert_untouched(&w, sum);
    assert_records(&w, "0:a=1 1:a=2 ");
    assert_ok(mk_log_compact(w.log, &options, &w.result, NULL));
    assert_int_equal(calls, 2);
    assert_records(&w, "1:a=2 ");
    compact_end(&w);
}

/* A grace below -1 is refused; -1 is the log's own setting, a day. */
static void test_delete_retention(void **state)
{
    compact_world w;

    compact_begin(&w, *state);
    open_log(&w, 0);
    append_one(&w, "a", NULL, 1000);
    roll(&w);
    assert_status(compact_at(&w, NOW, -2), MK_INVALID_ARGUMENT);
    assert_non_null(strstr(w.err.message, "delete_retention_ms"));
    assert_status(compact_at(&w, NOW, INT64_MIN), MK_INVALID_ARGUMENT);
    assert_ok(compact_at(&w, 86401000, -1));
    assert_records(&w, "0:a! ");
    assert_ok(compact_at(&w, 86401001, -1));
    assert_records(&w, "");
    compact_end(&w);
}

/* Two closed segments and an active one, everything opened and flushed. */
static void begin_small(compact_world *w, posix_world *world)
{
    static const hand_record records[] = {
        {"a", "1", 5, 0}, {"b", "1", 5, 0}, {NULL, "k", 5, 0}};

    compact_begin(w, world);
    open_log(w, 0);
    append(w, records, 3);
    roll(w);
    append_one(w, "a", "2", 5);
    roll(w);
    append_one(w, "b", "2", 5);
    assert_ok(mk_log_flush(w->log, NULL));
    assert_records(w, "0:a=1 1:b=1 2:-=k 3:a=2 4:b=2 ");
}

/* It was compacted, and what it left beside is gone once it is opened anew. */
static void end_small(compact_world *w)
{
    mk_name_list names;

    assert_records(w, "2:-=k 3:a=2 4:b=2 ");
    assert_int_equal(w->result.records_after, 2);
    close_log(w);
    open_log(w, 0);
    assert_records(w, "2:-=k 3:a=2 4:b=2 ");
    assert_ok(mk_vfs_list(w->world->vfs, w->world->root, &names, NULL));
    assert_int_equal(names.count, 1);
    mk_name_list_deinit(&names);
    assert_false(exists(w->world, PARTITION "/" MK_NAME_SWAP));
    compact_end(w);
    remove_partition(w->world);
}

/* Whichever allocation fails, the log is as it was, with nothing beside it; or
 * compacted, where only tidying up wanted memory. */
static void test_without_memory(void **state)
{
    posix_world *world = *state;
    bool failed = true;
    compact_world w;
    uint32_t sum;
    long n;

    begin_small(&w, world);
    sum = sum_of_tree(&w, ".");
    for (n = 1; failed; n++) {
        mk_status status;

        world->heap_calls = 0;
        world->fail_at = n;
        status = compact_at(&w, NOW, GRACE);
        world->fail_at = 0;
        failed = world->heap_calls >= n;
        if (status == MK_OK) {
            end_small(&w);
            if (failed) begin_small(&w, world);
        } else {
            assert_status(status, MK_NO_MEMORY);
            assert_status(w.err.status, MK_NO_MEMORY);
            assert_untouched(&w, sum);
            assert_records(&w, "0:a=1 1:b=1 2:-=k 3:a=2 4:b=2 ");
        }
    }
    assert_true(n > 20);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_newest),
        TEST(test_tombstones),
        TEST(test_chance),
        TEST(test_bytes),
        TEST(test_large_batches),
        TEST(test_full_buffer),
        TEST(test_log_start_in_a_batch),
        TEST(test_offsets_far_apart),
        TEST(test_before_swap),
        TEST(test_delete_retention),
        TEST(test_without_memory),
        TEST(test_start_far_from_what_stays),
    };

    return cmocka_run_group_tests_name("compactor", tests, NULL, NULL);
}
