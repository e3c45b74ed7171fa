/* Batches: Kafka's bytes both ways, the checks of the header, and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "codec/batch.h"
#include "support/batch_judge.h"
#include "support/golden_batches.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- Kafka's bytes ---- */

/* What is decoded, encoded again, is the same batch. */
static void check_rebuilt(const golden_batch *golden)
{
    uint8_t *bytes = exact_copy(golden->bytes, golden->size);
    uint8_t rebuilt[512];
    mk_header headers[8];
    mk_batch batch, copy;
    mk_batch_builder builder;
    const uint8_t *next, *end = bytes + golden->size;

    assert_int_equal(mk_batch_peek((mk_span){bytes, golden->size}, &batch),
                     MK_BATCH_WHOLE);
    assert_true(mk_batch_checksum_agrees(bytes, &batch));
    mk_batch_builder_init(&builder, rebuilt);
    next = mk_batch_records(bytes, &batch).data;
    for (int32_t i = 0; i < batch.record_count; i++) {
        mk_record_fields fields;
        mk_record record = {.headers = headers};
        const uint8_t *header;

        next = mk_record_decode(next, end, &fields);
        assert_non_null(next);
        record.key = fields.key.data;
        record.key_size = fields.key.size;
        record.value = fields.value.data;
        record.value_size = fields.value.size;
        record.header_count = fields.header_count;
        header = fields.headers.data;
        for (uint32_t j = 0; j < fields.header_count; j++) {
            header = mk_header_decode(header, next, &headers[j]);
            assert_non_null(header);
        }
        mk_batch_builder_add(&builder, &record,
                             mk_batch_timestamp(&batch, fields.timestamp_delta),
                             fields.offset_delta);
    }
    assert_ptr_equal(next, end);
    if (batch.record_count == 0) {
        builder.max_timestamp = batch.max_timestamp;
        builder.last_offset_delta = batch.last_offset_delta;
    }
    copy = (mk_batch){
        .base_offset = batch.base_offset,
        .leader_epoch = batch.leader_epoch,
        .attributes = batch.attributes,
        .producer_id = batch.producer_id,
        .producer_epoch = batch.producer_epoch,
        .base_sequence = batch.base_sequence,
    };
    mk_batch_builder_seal(&builder, &copy);
    assert_int_equal(mk_batch_builder_size(&builder), golden->size);
    assert_memory_equal(rebuilt, bytes, golden->size);
    assert_int_equal(copy.crc, batch.crc);
    free(bytes);
}

static void test_golden_batches_are_rebuilt(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_BATCH_COUNT; i++) {
        print_message("%s\n", golden_batches[i].what);
        check_rebuilt(&golden_batches[i]);
        assert_int_equal(judge(golden_batches[i].bytes, golden_batches[i].size),
                         GOOD);
    }
}

static void check_same_batch(const mk_batch *found, const mk_batch *expected)
{
    assert_int_equal(found->base_offset, expected->base_offset);
    assert_int_equal(found->size, expected->size);
    assert_int_equal(found->leader_epoch, expected->leader_epoch);
    assert_int_equal(found->magic, expected->magic);
    assert_int_equal(found->crc, expected->crc);
    assert_int_equal(found->attributes, expected->attributes);
    assert_int_equal(found->last_offset_delta, expected->last_offset_delta);
    assert_int_equal(found->base_timestamp, expected->base_timestamp);
    assert_int_equal(found->max_timestamp, expected->max_timestamp);
    assert_int_equal(found->producer_id, expected->producer_id);
    assert_int_equal(found->producer_epoch, expected->producer_epoch);
    assert_int_equal(found->base_sequence, expected->base_sequence);
    assert_int_equal(found->record_count, expected->record_count);
}

/* A golden header, as Kafka's own dump shows it. */
static void test_header_fields(void **state)
{
    const mk_batch expected = {
        .base_offset = 4,
        .size = 97,
        .leader_epoch = 0,
        .magic = 2,
        .crc = 4117478808,
        .attributes = 0,
        .last_offset_delta = 2,
        .base_timestamp = 0,
        .max_timestamp = 4611686018427387904,
        .producer_id = -1,
        .producer_epoch = -1,
        .base_sequence = -1,
        .record_count = 3,
    };
    mk_span bytes = {golden_far, sizeof golden_far};
    mk_batch batch;

    (void)state;
    assert_int_equal(mk_batch_peek(bytes, &batch), MK_BATCH_WHOLE);
    check_same_batch(&batch, &expected);
    assert_int_equal(mk_batch_last_offset(&batch), 6);
    assert_int_equal(mk_batch_next_offset(&batch), 7);
    assert_false(mk_batch_is_control(&batch));
    assert_ptr_equal(mk_batch_records(bytes.data, &batch).data,
                     bytes.data + 61);
    assert_int_equal(mk_batch_records(bytes.data, &batch).size, 36);
}

/* Every field at the end of its range comes back. */
static void test_seal_and_peek_agree(void **state)
{
    uint8_t bytes[AT_RECORDS];
    mk_batch found, batch = {
                        .base_offset = INT64_MAX - 1 - INT32_MAX,
                        .size = AT_RECORDS,
                        .leader_epoch = INT32_MIN,
                        .magic = 2,
                        .attributes = 0xffff,
                        .last_offset_delta = INT32_MAX,
                        .base_timestamp = INT64_MIN,
                        .max_timestamp = INT64_MAX,
                        .producer_id = INT64_MIN,
                        .producer_epoch = INT16_MIN,
                        .base_sequence = INT32_MIN,
                    };

    (void)state;
    memset(bytes, 0xaa, sizeof bytes);
    mk_batch_seal(bytes, &batch);
    assert_int_equal(mk_batch_peek((mk_span){bytes, sizeof bytes}, &found),
                     MK_BATCH_WHOLE);
    assert_true(mk_batch_checksum_agrees(bytes, &found));
    batch.crc = found.crc;
    check_same_batch(&found, &batch);
    assert_int_equal(mk_batch_next_offset(&found), INT64_MAX);
    assert_true(mk_batch_is_control(&found));
}

/* ---- Times ---- */

static mk_batch_builder build_times(uint8_t *bytes, const int64_t *times,
                                    size_t count)
{
    mk_record record = {.value = "v", .value_size = 1};
    mk_batch_builder builder;

    mk_batch_builder_init(&builder, bytes);
    for (size_t i = 0; i < count; i++) {
        mk_batch_builder_add(&builder, &record, times[i], (int32_t)i * 2);
    }
    return builder;
}

/* The base is the first time, the maximum the first of the greatest. */
static void test_base_and_maximum(void **state)
{
    static const int64_t times[] = {5, 9, 3, 9};
    static const int64_t none[] = {-1, -1};
    uint8_t bytes[256];
    mk_batch_builder builder;

    (void)state;
    builder = build_times(bytes, times, COUNT(times));
    assert_int_equal(builder.base_timestamp, 5);
    assert_int_equal(builder.max_timestamp, 9);
    assert_int_equal(builder.max_timestamp_delta, 2);
    assert_int_equal(builder.last_offset_delta, 6);
    assert_int_equal(builder.record_count, 4);
    assert_int_equal(mk_batch_builder_size(&builder), AT_RECORDS + 4 * 8);
    builder = build_times(bytes, none, COUNT(none));
    assert_int_equal(builder.base_timestamp, -1);
    assert_int_equal(builder.max_timestamp, -1);
    assert_int_equal(builder.max_timestamp_delta, -1);
    builder = build_times(bytes, none, 0);
    assert_int_equal(builder.base_timestamp, -1);
    assert_int_equal(builder.max_timestamp, -1);
    assert_int_equal(builder.last_offset_delta, -1);
    assert_int_equal(builder.record_count, 0);
    assert_int_equal(mk_batch_builder_size(&builder), AT_RECORDS);
}

/* Differences of times need not fit in 64 bits to come out right. */
static void test_times_far_apart(void **state)
{
    static const int64_t times[] = {-1, INT64_MAX, 0, INT64_MAX - 1};
    uint8_t bytes[256];
    mk_batch_builder builder = build_times(bytes, times, COUNT(times));
    mk_batch batch = {0};
    const uint8_t *next;

    (void)state;
    mk_batch_builder_seal(&builder, &batch);
    assert_int_equal(batch.max_timestamp, INT64_MAX);
    next = mk_batch_records(bytes, &batch).data;
    for (size_t i = 0; i < COUNT(times); i++) {
        mk_record_fields fields;

        next = mk_record_decode(next, builder.next, &fields);
        assert_non_null(next);
        assert_int_equal(mk_batch_timestamp(&batch, fields.timestamp_delta),
                         times[i]);
    }
    batch.attributes = MK_ATTRIBUTE_APPEND_TIME;
    batch.max_timestamp = 77;
    assert_int_equal(mk_batch_timestamp(&batch, 5), 77);
}

/* ---- What peeking checks ---- */

typedef struct peek_case {
    const char *what;
    size_t at;
    size_t width;
    uint64_t value;
    mk_batch_found expected;
} peek_case;

/* Changes to the golden batch of 110 bytes, base offset 4, five records. */
static const peek_case peek_cases[] = {
    {"nothing", AT_MAGIC, 1, 2, MK_BATCH_WHOLE},
    {"size field 0", AT_SIZE, 4, 0, MK_BATCH_DAMAGED},
    {"size field 13", AT_SIZE, 4, 13, MK_BATCH_DAMAGED},
    {"size field 14", AT_SIZE, 4, 14, MK_BATCH_DAMAGED},
    {"60 bytes", AT_SIZE, 4, 48, MK_BATCH_DAMAGED},
    {"61 bytes for five records", AT_SIZE, 4, 49, MK_BATCH_DAMAGED},
    {"a byte more than there is", AT_SIZE, 4, 99, MK_BATCH_PARTIAL},
    {"size field 2^31-1", AT_SIZE, 4, INT32_MAX, MK_BATCH_PARTIAL},
    {"size field -2^31", AT_SIZE, 4, 0x80000000, MK_BATCH_DAMAGED},
    {"size field -12", AT_SIZE, 4, 0xfffffff4, MK_BATCH_DAMAGED},
    {"size field -1", AT_SIZE, 4, 0xffffffff, MK_BATCH_DAMAGED},
    {"magic 0", AT_MAGIC, 1, 0, MK_BATCH_OLD},
    {"magic 1", AT_MAGIC, 1, 1, MK_BATCH_OLD},
    {"magic 3", AT_MAGIC, 1, 3, MK_BATCH_DAMAGED},
    {"magic 127", AT_MAGIC, 1, 127, MK_BATCH_DAMAGED},
    {"magic -1", AT_MAGIC, 1, 0xff, MK_BATCH_DAMAGED},
    {"base offset -1", AT_BASE_OFFSET, 8, UINT64_MAX, MK_BATCH_DAMAGED},
    {"next offset 2^63-1", AT_BASE_OFFSET, 8, INT64_MAX - 5, MK_BATCH_WHOLE},
    {"next offset 2^63", AT_BASE_OFFSET, 8, INT64_MAX - 4, MK_BATCH_DAMAGED},
    {"base offset 2^63-1", AT_BASE_OFFSET, 8, INT64_MAX, MK_BATCH_DAMAGED},
    {"delta -1", AT_LAST_OFFSET_DELTA, 4, UINT32_MAX, MK_BATCH_DAMAGED},
    {"delta -2^31", AT_LAST_OFFSET_DELTA, 4, 0x80000000, MK_BATCH_DAMAGED},
    {"delta 3", AT_LAST_OFFSET_DELTA, 4, 3, MK_BATCH_DAMAGED},
    {"delta 5", AT_LAST_OFFSET_DELTA, 4, 5, MK_BATCH_WHOLE},
    {"delta 2^31-1", AT_LAST_OFFSET_DELTA, 4, INT32_MAX, MK_BATCH_WHOLE},
    {"count -1", AT_RECORD_COUNT, 4, UINT32_MAX, MK_BATCH_DAMAGED},
    {"count -2^31", AT_RECORD_COUNT, 4, 0x80000000, MK_BATCH_DAMAGED},
    {"count 6", AT_RECORD_COUNT, 4, 6, MK_BATCH_DAMAGED},
    {"count 4", AT_RECORD_COUNT, 4, 4, MK_BATCH_WHOLE},
    {"count 0", AT_RECORD_COUNT, 4, 0, MK_BATCH_WHOLE},
};

static void test_peek_checks_each_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(peek_cases); i++) {
        const peek_case *c = &peek_cases[i];
        uint8_t *bytes = exact_copy(golden_nulls, sizeof golden_nulls);
        mk_batch batch;
        mk_batch_found found;

        store(bytes + c->at, c->width, c->value);
        found = mk_batch_peek((mk_span){bytes, sizeof golden_nulls}, &batch);
        if (found != c->expected) {
            fail_msg("%s: %d, not %d", c->what, (int)found, (int)c->expected);
        }
        if (found == MK_BATCH_PARTIAL) {
            assert_int_equal(batch.size, c->value + 12);
        }
        if (found == MK_BATCH_OLD) {
            assert_int_equal(batch.magic, c->value);
            assert_int_equal(batch.size, sizeof golden_nulls);
            assert_int_equal(batch.base_offset, 4);
        }
        free(bytes);
    }
}

/* Seven bytes is what a record takes at least; unknown behind a codec. */
static void test_peek_wants_room_for_records(void **state)
{
    uint8_t bytes[sizeof golden_nulls];
    mk_span span = {bytes, sizeof bytes};
    mk_batch batch;

    (void)state;
    memcpy(bytes, golden_nulls, sizeof bytes);
    store(bytes + AT_LAST_OFFSET_DELTA, 4, INT32_MAX);
    store(bytes + AT_RECORD_COUNT, 4, 7);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_WHOLE);
    store(bytes + AT_RECORD_COUNT, 4, 8);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_DAMAGED);
    store(bytes + AT_RECORD_COUNT, 4, INT32_MAX);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_DAMAGED);
    store(bytes + AT_ATTRIBUTES, 2, MK_CODEC_GZIP);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_WHOLE);
}

/* What five records hide: a size below the header's, and a negative range. */
static void test_peek_checks_empty_batches(void **state)
{
    uint8_t bytes[sizeof golden_emptied];
    mk_batch batch;

    (void)state;
    memcpy(bytes, golden_emptied, sizeof bytes);
    store(bytes + AT_LAST_OFFSET_DELTA, 4, UINT32_MAX);
    assert_int_equal(mk_batch_peek((mk_span){bytes, sizeof bytes}, &batch),
                     MK_BATCH_DAMAGED);
    store(bytes + AT_LAST_OFFSET_DELTA, 4, INT32_MAX);
    assert_int_equal(mk_batch_peek((mk_span){bytes, sizeof bytes}, &batch),
                     MK_BATCH_WHOLE);
    store(bytes + AT_SIZE, 4, 48);
    for (size_t size = MK_BATCH_PREFIX_SIZE; size <= sizeof bytes; size++) {
        assert_int_equal(mk_batch_peek((mk_span){bytes, size}, &batch),
                         MK_BATCH_DAMAGED);
    }
}

/* A message of an old format is told by 17 bytes, and its size is checked. */
static void test_peek_tells_old_formats(void **state)
{
    uint8_t *bytes = exact_copy(golden_nulls, MK_BATCH_PREFIX_SIZE);
    mk_span span = {bytes, MK_BATCH_PREFIX_SIZE};
    mk_batch batch;

    (void)state;
    store(bytes + AT_MAGIC, 1, 1);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_OLD);
    assert_int_equal(batch.size, sizeof golden_nulls);
    store(bytes + AT_SIZE, 4, 14);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_OLD);
    assert_int_equal(batch.size, MK_BATCH_SIZE_MIN);
    store(bytes + AT_SIZE, 4, 13);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_DAMAGED);
    store(bytes + AT_SIZE, 4, 14);
    store(bytes + AT_BASE_OFFSET, 8, UINT64_MAX);
    assert_int_equal(mk_batch_peek(span, &batch), MK_BATCH_DAMAGED);
    free(bytes);
}

/* The checksum of an old message covers it from the magic on. */
static void check_old_message(const uint8_t *message, size_t size, int magic)
{
    uint8_t *bytes = exact_copy(message, size);
    mk_batch batch;

    assert_int_equal(mk_batch_peek((mk_span){bytes, size}, &batch),
                     MK_BATCH_OLD);
    assert_int_equal(batch.magic, magic);
    assert_int_equal(batch.size, size);
    assert_true(mk_batch_old_checksum_agrees(bytes, &batch));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bool covered = bit / 8 >= AT_LEADER_EPOCH; /* Where the checksum is. */

        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(mk_batch_old_checksum_agrees(bytes, &batch), !covered);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(bytes);
}

static void test_old_checksums(void **state)
{
    (void)state;
    check_old_message(golden_magic_0, sizeof golden_magic_0, 0);
    check_old_message(golden_magic_1, sizeof golden_magic_1, 1);
}

/* ---- Damage ---- */

/* Each truncation tells what it can; a header by itself tells all. */
static void check_truncations(const golden_batch *golden)
{
    for (size_t size = 0; size < golden->size; size++) {
        uint8_t *bytes = exact_copy(golden->bytes, size);
        mk_batch batch, whole;

        (void)mk_batch_peek((mk_span){golden->bytes, golden->size}, &whole);
        assert_int_equal(mk_batch_peek((mk_span){bytes, size}, &batch),
                         MK_BATCH_PARTIAL);
        if (size < MK_BATCH_PREFIX_SIZE) {
            assert_int_equal(batch.size, 0);
        } else if (size < MK_BATCH_HEADER_SIZE) {
            assert_int_equal(batch.size, golden->size);
            assert_int_equal(batch.base_offset, whole.base_offset);
            assert_int_equal(batch.magic, 2);
        } else {
            check_same_batch(&batch, &whole);
        }
        free(bytes);
    }
}

/* Cut or lengthened batches whose size and checksum say that this is all. */
static void check_resealed_sizes(const golden_batch *golden)
{
    uint8_t bytes[512] = {0};

    for (size_t size = AT_RECORDS; size < golden->size + 10; size++) {
        memcpy(bytes, golden->bytes, golden->size);
        store(bytes + AT_SIZE, 4, size - 12);
        reseal(bytes, size);
        assert_int_equal(judge(bytes, size) == GOOD, size == golden->size);
    }
}

static void test_truncations(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_BATCH_COUNT; i++) {
        check_truncations(&golden_batches[i]);
        check_resealed_sizes(&golden_batches[i]);
    }
}

/* May a batch be taken for good when the byte at `at` has become `value`? Only
 * where no checksum covers it and no rule forbids it. */
static bool goes_unnoticed(size_t at, uint8_t value)
{
    if (at == AT_BASE_OFFSET) return value < 0x80;
    return at < AT_SIZE || (at >= AT_LEADER_EPOCH && at < AT_MAGIC);
}

static void check_changed_byte(const golden_batch *golden, size_t at,
                               uint8_t value)
{
    uint8_t bytes[512];
    verdict found;

    if (golden->bytes[at] == value) return;
    memcpy(bytes, golden->bytes, golden->size);
    bytes[at] = value;
    found = judge(bytes, golden->size);
    if ((found == GOOD) != goes_unnoticed(at, value)) {
        fail_msg("%s: %02x at %zu: %d", golden->what, value, at, (int)found);
    }
    /* With a checksum that agrees, any verdict may be right: judging it must
     * only stay within the bytes. */
    reseal(bytes, golden->size);
    found = judge(bytes, golden->size);
    assert_true(found != BAD_CHECKSUM || (at >= AT_SIZE && at < AT_SIZE + 4));
}

/* Every byte of every golden batch, with each bit flipped, one more, one less,
 * and at the ends of all ranges. */
static void test_every_byte(void **state)
{
    static const uint8_t ends[] = {0x00, 0x01, 0x7e, 0x7f, 0x80, 0xfe, 0xff};

    (void)state;
    for (size_t i = 0; i < GOLDEN_BATCH_COUNT; i++) {
        const golden_batch *golden = &golden_batches[i];

        for (size_t at = 0; at < golden->size; at++) {
            uint8_t was = golden->bytes[at];

            for (int bit = 0; bit < 8; bit++) {
                check_changed_byte(golden, at, (uint8_t)(was ^ 1 << bit));
            }
            check_changed_byte(golden, at, (uint8_t)(was + 1));
            check_changed_byte(golden, at, (uint8_t)(was - 1));
            for (size_t j = 0; j < COUNT(ends); j++) {
                check_changed_byte(golden, at, ends[j]);
            }
        }
    }
}

/* Build a batch of some 4 KiB; returns its size. */
static size_t build_4_kib(uint8_t *bytes, size_t room)
{
    uint8_t value[100] = {0};
    mk_record record = {.key = "key",
                        .key_size = 3,
                        .value = value,
                        .value_size = sizeof value};
    mk_batch batch = {.base_offset = 1000,
                      .leader_epoch = 3,
                      .producer_id = -1,
                      .producer_epoch = -1,
                      .base_sequence = -1};
    mk_batch_builder builder;

    mk_batch_builder_init(&builder, bytes);
    for (int32_t i = 0; mk_batch_builder_size(&builder) < 4000; i++) {
        value[i] = (uint8_t)i;
        assert_true(mk_record_bound(&record) <=
                    room - mk_batch_builder_size(&builder));
        mk_batch_builder_add(&builder, &record, 1700000000000 + i, i);
    }
    mk_batch_builder_seal(&builder, &batch);
    return batch.size;
}

/* Of all single bits of a batch of 4 KiB, a flip goes unnoticed in these only:
 * the base offset, but for its sign, and the leader epoch. */
static void test_every_bit(void **state)
{
    uint8_t bytes[4200];
    size_t size = build_4_kib(bytes, sizeof bytes);
    size_t unnoticed = 0;

    (void)state;
    assert_int_equal(judge(bytes, size), GOOD);
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            verdict found;

            bytes[at] ^= (uint8_t)(1 << bit);
            found = judge(bytes, size);
            if ((found == GOOD) != goes_unnoticed(at, bytes[at])) {
                fail_msg("bit %d at %zu: %d", bit, at, (int)found);
            }
            unnoticed += found == GOOD;
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    }
    assert_int_equal(unnoticed, 63 + 32);
    assert_int_equal(judge(bytes, size), GOOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_batches_are_rebuilt),
        cmocka_unit_test(test_header_fields),
        cmocka_unit_test(test_seal_and_peek_agree),
        cmocka_unit_test(test_base_and_maximum),
        cmocka_unit_test(test_times_far_apart),
        cmocka_unit_test(test_peek_checks_each_field),
        cmocka_unit_test(test_peek_wants_room_for_records),
        cmocka_unit_test(test_peek_checks_empty_batches),
        cmocka_unit_test(test_peek_tells_old_formats),
        cmocka_unit_test(test_old_checksums),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_every_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
