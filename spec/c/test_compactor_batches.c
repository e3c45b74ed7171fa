/* What compaction makes of batches, byte for byte, on segments by hand. */
#define _GNU_SOURCE
#include "support/compact_world.h"

enum { NEVER = 1 }; /* A grace that no tombstone of these tests outlives. */

/* One closed segment at 0 with `before` in it, and an active one at 100 that
 * supersedes the keys "x" and "y". Compacting makes `expected` of it. */
static void assert_compacted(posix_world *world, const hand_log *before,
                             const hand_log *expected, int64_t counted,
                             int64_t counted_after)
{
    static const hand_record newer[] = {{"x", "new", 5, 0}, {"y", "new", 5, 1}};
    mk_batch batch = plain_batch(100);
    hand_log active = {.size = 0};
    compact_world w;

    compact_begin(&w, world);
    put_segment(&w, 0, before);
    put_batch(&active, &batch, newer, 2);
    put_segment(&w, 100, &active);
    open_log(&w, 0);
    assert_ok(compact_at(&w, 0, NEVER));
    assert_log(&w, 0, expected);
    assert_log(&w, 100, &active);
    assert_int_equal(w.result.source_count, 1);
    assert_int_equal(w.result.source_segments[0], 0);
    assert_int_equal(w.result.new_count, 1);
    assert_int_equal(w.result.new_segments[0], 0);
    assert_int_equal(w.result.deleted_count, 0);
    assert_int_equal(w.result.records_before, counted);
    assert_int_equal(w.result.records_after, counted_after);
    /* The log in memory and the log anew agree with the files. */
    for (int i = 0; i < 2; i++) {
        char text[4096];

        records_of(&w, text, sizeof text);
        close_log(&w);
        open_log(&w, 0);
        assert_records(&w, text);
    }
    compact_end(&w);
}

/* A batch that loses some records keeps its range, its epoch, its base time and
 * the bytes of the others; greatest time, count and checksum are new. */
static void test_partly_kept(void **state)
{
    static const hand_record all[] = {
        {"x", "1", 1000, 0}, {"a", "2", 900, 1},  {"y", "3", 1500, 2},
        {"b", "4", 1200, 3}, {NULL, "5", 800, 4}, {"x", "6", 1300, 5},
    };
    static const hand_record kept[] = {
        {"a", "2", 900, 1}, {"b", "4", 1200, 3}, {NULL, "5", 800, 4}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(7);

    batch.last_offset_delta = 9; /* Its range goes beyond its records. */
    batch.leader_epoch = 12345;
    put_batch(&before, &batch, all, 6);
    assert_int_equal(batch.max_timestamp, 1500);
    batch.max_timestamp = -1;
    put_batch(&expected, &batch, kept, 3);
    assert_int_equal(batch.base_timestamp, 1000);
    assert_int_equal(batch.max_timestamp, 1200);
    assert_compacted(*state, &before, &expected, 6, 3);
}

/* Only records without a time are left: so is the batch. */
static void test_partly_kept_without_times(void **state)
{
    static const hand_record all[] = {{"x", "1", 1000, 0}, {"a", "2", -1, 1}};
    static const hand_record kept[] = {{"a", "2", -1, 1}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3);

    put_batch(&before, &batch, all, 2);
    batch.max_timestamp = -1;
    put_batch(&expected, &batch, kept, 1);
    assert_int_equal(batch.base_timestamp, 1000);
    assert_int_equal(batch.max_timestamp, -1);
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* With LogAppendTime the greatest time is the batch's, whatever is lost. */
static void test_append_time(void **state)
{
    static const hand_record all[] = {{"x", "1", 1000, 0}, {"a", "2", 900, 1}};
    static const hand_record kept[] = {{"a", "2", 900, 1}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3);

    batch.attributes = MK_ATTRIBUTE_APPEND_TIME;
    batch.max_timestamp = 7777;
    put_batch(&before, &batch, all, 2);
    put_batch(&expected, &batch, kept, 1);
    assert_int_equal(batch.max_timestamp, 7777);
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* A delete horizon stands in the base time's place; it stays there with what
 * refers to it. */
static void test_delete_horizon(void **state)
{
    static const hand_record all[] = {{"x", "1", 1000, 0}, {"a", "2", 900, 1}};
    static const hand_record kept[] = {{"a", "2", 900, 1}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3);

    batch.attributes = MK_ATTRIBUTE_DELETE_HORIZON;
    batch.base_timestamp = 50000;
    put_batch(&before, &batch, all, 2);
    batch.max_timestamp = -1;
    put_batch(&expected, &batch, kept, 1);
    assert_int_equal(batch.base_timestamp, 50000);
    assert_int_equal(batch.max_timestamp, 900);
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* A batch that loses nothing is copied as it stands, oddities and all. */
static void test_copied(void **state)
{
    static const hand_record records[] = {
        {"a", "1", 1000, 0}, {NULL, NULL, -1, 3}, {"b", "", 900, 7}};
    hand_log before = {.size = 0};
    mk_batch batch = plain_batch(3);

    batch.attributes = 0xff80 | MK_ATTRIBUTE_APPEND_TIME;
    batch.leader_epoch = -1;
    batch.max_timestamp = 1234567; /* Not what the records say. */
    batch.last_offset_delta = 20;
    put_batch(&before, &batch, records, 3);
    batch = plain_batch(50);
    batch.base_timestamp = 1;
    batch.max_timestamp = 1;
    put_batch(&before, &batch, records, 1);
    before.size -= batch.size; /* "a" is once only. */
    assert_compacted(*state, &before, &before, 3, 3);
}

/* Records may be bytes of any kind, longer than any number of one byte. */
static void test_headers_and_sizes(void **state)
{
    static const mk_header headers[] = {{"h", 1, "v", 1}, {"n", 1, NULL, 0}};
    static char value[300];
    hand_log before = {.size = 0}, expected = {.size = 0};
    const mk_record lost = {
        .key = "x",
        .key_size = 1,
        .value = "",
    };
    const mk_record kept = {.key = "a\0b",
                            .key_size = 3,
                            .value = value,
                            .value_size = sizeof value,
                            .headers = headers,
                            .header_count = 2};
    mk_batch_builder builder;
    mk_batch batch = plain_batch(3);

    memset(value, 0xee, sizeof value);
    mk_batch_builder_init(&builder, before.data);
    mk_batch_builder_add(&builder, &lost, 10, 0);
    mk_batch_builder_add(&builder, &kept, 20, 1);
    mk_batch_builder_seal(&builder, &batch);
    before.size = batch.size;
    mk_batch_builder_init(&builder, expected.data);
    builder.base_timestamp = 10;
    builder.record_count = 1; /* So that the base time stays. */
    mk_batch_builder_add(&builder, &kept, 20, 1);
    builder.record_count = 1;
    mk_batch_builder_seal(&builder, &batch);
    expected.size = batch.size;
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* A batch that loses all goes, and leaves a gap. */
static void test_gone(void **state)
{
    static const hand_record old[] = {{"x", "1", 1000, 0}, {"y", "2", 900, 1}};
    static const hand_record other[] = {{"a", "1", 1, 0}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3);

    put_batch(&before, &batch, old, 2);
    batch = plain_batch(9);
    put_batch(&before, &batch, other, 1);
    batch = plain_batch(9);
    put_batch(&expected, &batch, other, 1);
    assert_compacted(*state, &before, &expected, 3, 1);
}

/* All of them may go: an empty segment is left. */
static void test_all_gone(void **state)
{
    static const hand_record old[] = {{"x", "1", 1000, 0}, {"y", "2", 900, 1}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3);

    put_batch(&before, &batch, old, 2);
    assert_compacted(*state, &before, &expected, 2, 0);
}

/* ---- Producers ---- */

/* A producer's batch keeps its header when it has lost all records, so that its
 * sequence is still known: without codec and horizon, base time -1. */
static void test_emptied(void **state)
{
    static const hand_record old[] = {{"x", "1", 1000, 0}, {"y", "2", 900, 1}};
    static const uint16_t attributes[] = {0, MK_ATTRIBUTE_DELETE_HORIZON,
                                          MK_ATTRIBUTE_APPEND_TIME};

    for (size_t i = 0; i < LENGTH(attributes); i++) {
        hand_log before = {.size = 0}, expected = {.size = 0};
        mk_batch batch = plain_batch(3);
        posix_world *world = *state;

        batch.attributes = attributes[i];
        batch.producer_id = i == 0 ? 0 : 4711;
        batch.producer_epoch = 3;
        batch.base_sequence = 17;
        batch.leader_epoch = 9;
        batch.last_offset_delta = 5;
        put_batch(&before, &batch, old, 2);
        assert_int_equal(batch.max_timestamp, 1000);
        batch.attributes &= (uint16_t)~MK_ATTRIBUTE_DELETE_HORIZON;
        batch.base_timestamp = -1;
        put_batch(&expected, &batch, NULL, 0);
        assert_int_equal(expected.size, MK_BATCH_HEADER_SIZE);
        assert_int_equal(batch.max_timestamp, 1000);
        assert_compacted(world, &before, &expected, 2, 0);
        remove_partition(world);
    }
}

/* One that was emptied before stays as it is. */
static void test_emptied_before(void **state)
{
    static const hand_record other[] = {{"x", "1", 1, 0}, {"a", "1", 1, 1}};
    static const hand_record kept[] = {{"a", "1", 1, 1}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3), empty = plain_batch(9);

    put_batch(&before, &batch, other, 2);
    put_batch(&expected, &batch, kept, 1);
    empty.producer_id = 4711;
    empty.producer_epoch = 0;
    empty.base_sequence = 0;
    empty.max_timestamp = 99;
    empty.last_offset_delta = 4;
    put_batch(&before, &empty, NULL, 0);
    put_batch(&expected, &empty, NULL, 0);
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* A producer's batch that loses some is like any other. */
static void test_partly_kept_of_a_producer(void **state)
{
    static const hand_record all[] = {{"x", "1", 1000, 0}, {"a", "2", 900, 1}};
    static const hand_record kept[] = {{"a", "2", 900, 1}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(3);

    batch.producer_id = 0;
    batch.producer_epoch = 1;
    batch.base_sequence = INT32_MAX;
    put_batch(&before, &batch, all, 2);
    batch.max_timestamp = -1;
    put_batch(&expected, &batch, kept, 1);
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* ---- Control batches ---- */

/* Control batches pass as they are: markers of transactions, others, with
 * records that can't be read; and what they have for keys are none. */
static void test_control(void **state)
{
    static const hand_record marker[] = {{"a", "marker", 2000, 0}};
    static const hand_record data[] = {{"a", "1", 1000, 0}, {"x", "2", 1, 1}};
    static const hand_record kept[] = {{"a", "1", 1000, 0}};
    hand_log before = {.size = 0}, expected = {.size = 0};
    mk_batch batch = plain_batch(0), control;
    size_t start;

    put_batch(&before, &batch, data, 2);
    batch.max_timestamp = -1;
    put_batch(&expected, &batch, kept, 1);
    start = before.size;
    control = plain_batch(10);
    control.attributes = MK_ATTRIBUTE_CONTROL | MK_ATTRIBUTE_TRANSACTIONAL;
    control.producer_id = 4711;
    control.producer_epoch = 2;
    put_batch(&before, &control, marker, 1);
    control = plain_batch(12);
    control.attributes = MK_ATTRIBUTE_CONTROL;
    put_batch(&before, &control, marker, 1);
    control = plain_batch(13);
    control.attributes = MK_ATTRIBUTE_CONTROL;
    put_batch(&before, &control, marker, 1);
    memset(before.data + before.size - 5, 0xff, 5);
    mk_batch_seal(before.data + before.size - control.size, &control);
    memcpy(expected.data + expected.size, before.data + start,
           before.size - start);
    expected.size += before.size - start;
    assert_compacted(*state, &before, &expected, 2, 1);
}

/* ---- What is refused ---- */

/* A log with a batch of that kind, closed or active, is refused, and nothing
 * has changed. */
static void assert_refused(posix_world *world, uint16_t attributes, bool active,
                           mk_status expected)
{
    static const hand_record records[] = {{"x", "1", 1000, 0},
                                          {"a", "2", 900, 1}};
    hand_log logs[2] = {{.size = 0}, {.size = 0}};
    mk_batch batch = plain_batch(0);
    mk_batch odd = plain_batch(active ? 100 : 50);
    compact_world w;
    uint32_t sum;

    put_batch(&logs[0], &batch, records, 2);
    odd.attributes = attributes;
    odd.producer_id = 4711;
    odd.producer_epoch = 0;
    odd.base_sequence = 0;
    put_batch(&logs[active], &odd, records, 2);
    compact_begin(&w, world);
    put_segment(&w, 0, &logs[0]);
    put_segment(&w, 100, &logs[1]);
    open_log(&w, 0);
    assert_ok(mk_log_flush(w.log, NULL));
    sum = sum_of_tree(&w, ".");
    assert_status(compact_at(&w, 0, NEVER), expected);
    assert_status(w.err.status, expected);
    assert_untouched(&w, sum);
    compact_end(&w);
    remove_partition(world);
}

static void test_unsupported(void **state)
{
    for (int active = 0; active < 2; active++) {
        for (uint16_t codec = MK_CODEC_GZIP; codec <= 7; codec++) {
            assert_refused(*state, codec, active, MK_UNSUPPORTED);
        }
        assert_refused(*state, MK_ATTRIBUTE_TRANSACTIONAL, active,
                       MK_UNSUPPORTED);
    }
}

/* A log with records that are none, under a checksum that agrees, is refused,
 * be they closed or active; the error says where, and nothing has changed. */
static void assert_corrupt(posix_world *world, const hand_log *log, bool active,
                           int64_t offset)
{
    compact_world w;
    uint32_t sum;

    compact_begin(&w, world);
    if (active) put_active(&w, 0);
    put_segment(&w, active ? 1 : 0, log);
    if (!active) put_active(&w, 100);
    open_log(&w, 0);
    assert_ok(mk_log_flush(w.log, NULL));
    sum = sum_of_tree(&w, ".");
    assert_status(compact_at(&w, 0, NEVER), MK_CORRUPT_SEGMENT);
    assert_int_equal(w.err.offset, offset);
    assert_untouched(&w, sum);
    compact_end(&w);
    remove_partition(world);
}

/* Every byte of a record's frame that makes it unreadable. */
static void test_unreadable_records(void **state)
{
    static const hand_record records[] = {{"a", "1", 1000, 0},
                                          {"b", "2", 1000, 1}};
    static const struct {
        size_t place; /* In the last record, from its end. */
        uint8_t byte;
    } cases[] = {
        {9, 0xff}, /* Its length never ends. */
        {9, 0x01}, /* A negative length. */
        {9, 0x20}, /* A length beyond the batch. */
        {5, 0x7e}, /* A key larger than the record. */
        {5, 0x03}, /* A key's size below -1. */
        {1, 0x01}, /* A negative count of headers. */
        {1, 0x02}, /* A header that is not there. */
    };

    for (size_t i = 0; i < LENGTH(cases); i++) {
        hand_log log = {.size = 0};
        mk_batch batch = plain_batch(5);

        put_batch(&log, &batch, records, 2);
        log.data[log.size - cases[i].place] = cases[i].byte;
        mk_batch_seal(log.data, &batch);
        assert_corrupt(*state, &log, false, 5);
        assert_corrupt(*state, &log, true, 5);
    }
}

/* Nor is a record outside its batch's range, or not behind the one before. */
static void test_records_out_of_place(void **state)
{
    static const int32_t deltas[] = {4, 1, 0, -9, INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < LENGTH(deltas); i++) {
        const hand_record records[] = {{"a", "1", 1000, 1},
                                       {"b", "2", 1000, deltas[i]}};
        hand_log log = {.size = 0};
        mk_batch batch = plain_batch(5);

        put_batch(&log, &batch, records, 2);
        batch.last_offset_delta = 3;
        mk_batch_seal(log.data, &batch);
        assert_corrupt(*state, &log, false, 5);
    }
}

/* Damage that came after the opening is told with its file and place. */
static void test_damage_while_open(void **state)
{
    compact_world w;
    hand_log log = {.size = 0};
    size_t start;
    uint32_t sum;

    compact_begin(&w, *state);
    put_plain(&log, 0, 2, 1000, 10);
    start = log.size;
    put_plain(&log, 2, 2, 1000, 10);
    put_segment(&w, 0, &log);
    put_active(&w, 100);
    open_log(&w, 0);
    assert_ok(mk_log_flush(w.log, NULL));
    log.data[log.size - 3] ^= 1;
    change_file(w.world, name_of(&w, 0, ".log"), log.data, log.size);
    sum = sum_of_tree(&w, ".");
    assert_status(compact_at(&w, 0, NEVER), MK_CORRUPT_SEGMENT);
    assert_int_equal(w.err.position, start);
    assert_non_null(strstr(w.err.path, "00000000000000000000.log"));
    assert_untouched(&w, sum);
    compact_end(&w);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_partly_kept),
        TEST(test_partly_kept_without_times),
        TEST(test_append_time),
        TEST(test_delete_horizon),
        TEST(test_copied),
        TEST(test_headers_and_sizes),
        TEST(test_gone),
        TEST(test_all_gone),
        TEST(test_emptied),
        TEST(test_emptied_before),
        TEST(test_partly_kept_of_a_producer),
        TEST(test_control),
        TEST(test_unsupported),
        TEST(test_unreadable_records),
        TEST(test_damage_while_open),
        TEST(test_records_out_of_place),
    };

    return cmocka_run_group_tests_name("compactor_batches", tests, NULL, NULL);
}
