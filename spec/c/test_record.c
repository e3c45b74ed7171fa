/* Records: exact bytes, round trips, and damage against a slow decoder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "codec/record.h"
#include "codec/varint.h"
#include "support/slow_record.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- Helpers ---- */

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void check_same_span(mk_span found, const uint8_t *found_base,
                            mk_span expected, const uint8_t *expected_base)
{
    assert_int_equal(found.data == NULL, expected.data == NULL);
    assert_int_equal(found.size, expected.size);
    if (found.data == NULL) return;
    assert_int_equal(found.data - found_base, expected.data - expected_base);
}

/* What stands behind a record: one byte, then others. */
typedef struct filler {
    uint8_t first;
    uint8_t rest;
} filler;

/* Decode a copy of `size` bytes that has `slack` bytes behind it, `end` being
 * after those, and compare with the slow decoder. */
static void check_at(const uint8_t *bytes, size_t size, size_t slack,
                     filler behind)
{
    size_t room = size + slack;
    uint8_t *block = malloc(room > 0 ? room : 1);
    mk_record_fields found = {0}, expected = {0};
    size_t expected_size;
    const uint8_t *next;

    assert_non_null(block);
    memcpy(block, bytes, size);
    memset(block + size, behind.rest, slack);
    if (slack > 0) block[size] = behind.first;
    expected_size = slow_decode(block, room, &expected);
    next = mk_record_decode(block, block + room, &found);
    assert_int_equal(next != NULL ? next - block : 0, expected_size);
    if (next != NULL) {
        assert_int_equal(found.timestamp_delta, expected.timestamp_delta);
        assert_int_equal(found.offset_delta, expected.offset_delta);
        assert_int_equal(found.header_count, expected.header_count);
        check_same_span(found.key, block, expected.key, block);
        check_same_span(found.value, block, expected.value, block);
        check_same_span(found.headers, block, expected.headers, block);
    }
    free(block);
}

static const filler fillers[] = {
    {0x00, 0x00}, {0x01, 0x01}, {0x80, 0x80}, {0xff, 0xff}, {0x02, 0x80}};

/* The same with nothing behind, a little, and as much as the fast way wants. */
static void check_against_slow(const uint8_t *bytes, size_t size)
{
    static const size_t slacks[] = {1, 4, 5, 6, 7, 30, 31, 32, 64};

    check_at(bytes, size, 0, fillers[0]);
    for (size_t i = 0; i < COUNT(slacks); i++) {
        for (size_t j = 0; j < COUNT(fillers); j++) {
            check_at(bytes, size, slacks[i], fillers[j]);
        }
    }
}

/* Is it one record from the first byte to the last? */
static bool is_record(const uint8_t *bytes, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1);
    mk_record_fields fields;
    bool whole;

    assert_non_null(block);
    memcpy(block, bytes, size);
    whole = mk_record_decode(block, block + size, &fields) == block + size;
    free(block);
    return whole;
}

static void check_same_bytes(const void *expected, size_t expected_size,
                             const void *found, size_t found_size)
{
    assert_int_equal(found == NULL, expected == NULL);
    if (expected == NULL) return;
    assert_int_equal(found_size, expected_size);
    if (expected_size > 0) assert_memory_equal(found, expected, expected_size);
}

static void check_headers(const mk_record *record, mk_span headers)
{
    const uint8_t *end = headers.data + headers.size;
    const uint8_t *next = headers.data;
    mk_header found;

    for (size_t i = 0; i < record->header_count; i++) {
        const mk_header *header = &record->headers[i];

        next = mk_header_decode(next, end, &found);
        assert_non_null(next);
        check_same_bytes(header->name, header->name_size, found.name,
                         found.name_size);
        check_same_bytes(header->value, header->value_size, found.value,
                         found.value_size);
    }
    assert_ptr_equal(next, end);
}

/* Encode into a block of the bound's size, decode, compare. Returns the size.
 */
static size_t check_round_trip(const mk_record *record, int64_t timestamp_delta,
                               int32_t offset_delta)
{
    size_t bound = mk_record_bound(record);
    uint8_t *block = malloc(bound);
    mk_record_fields fields;
    size_t size;

    assert_non_null(block);
    size = (size_t)(mk_record_encode(record, timestamp_delta, offset_delta,
                                     block) -
                    block);
    assert_true(size <= bound);
    block = realloc(block, size);
    assert_ptr_equal(mk_record_decode(block, block + size, &fields),
                     block + size);
    assert_int_equal(fields.timestamp_delta, timestamp_delta);
    assert_int_equal(fields.offset_delta, offset_delta);
    assert_int_equal(fields.header_count, record->header_count);
    check_same_bytes(record->key, record->key_size, fields.key.data,
                     fields.key.size);
    check_same_bytes(record->value, record->value_size, fields.value.data,
                     fields.value.size);
    check_headers(record, fields.headers);
    check_at(block, size, 0, (filler){0, 0});
    check_at(block, size, 64, (filler){0xff, 0xff});
    free(block);
    return size;
}

/* ---- Exact bytes ---- */

static const mk_header golden_headers[] = {
    {"a", 1, "1", 1},
    {"a", 1, "2", 1},
    {"", 0, "", 0},
    {"nul", 3, NULL, 0},
    {"\xc3\xa9", 2, "\x00\xff", 2},
};

/* As Kafka writes it: the only record of the fourth batch of the golden case
 * fmt-none. */
static const uint8_t golden_record[] = {
    0x3a, 0x00, 0x00, 0x00, 0x02, 0x68, 0x02, 0x76, 0x0a, 0x02,
    0x61, 0x02, 0x31, 0x02, 0x61, 0x02, 0x32, 0x00, 0x00, 0x06,
    0x6e, 0x75, 0x6c, 0x01, 0x04, 0xc3, 0xa9, 0x04, 0x00, 0xff,
};

static mk_record golden_source(void)
{
    return (mk_record){
        .key = "h",
        .key_size = 1,
        .value = "v",
        .value_size = 1,
        .headers = golden_headers,
        .header_count = COUNT(golden_headers),
    };
}

static void test_bytes_are_those_of_kafka(void **state)
{
    mk_record record = golden_source();
    uint8_t bytes[128];

    (void)state;
    assert_ptr_equal(mk_record_encode(&record, 0, 0, bytes),
                     bytes + sizeof golden_record);
    assert_memory_equal(bytes, golden_record, sizeof golden_record);
    assert_int_equal(check_round_trip(&record, 0, 0), sizeof golden_record);
}

/* A null is not an empty string, and its size means nothing. */
static void test_null_and_empty(void **state)
{
    mk_record record = {
        .key = NULL, .key_size = SIZE_MAX, .value = "", .value_size = 0};
    uint8_t bytes[64];

    (void)state;
    assert_ptr_equal(mk_record_encode(&record, -1, 1, bytes), bytes + 7);
    assert_memory_equal(bytes, "\x0c\x00\x01\x02\x01\x00\x00", 7);
    (void)check_round_trip(&record, -1, 1);
    record = (mk_record){.key = "", .value = NULL, .value_size = SIZE_MAX};
    assert_ptr_equal(mk_record_encode(&record, 1, 0, bytes), bytes + 7);
    assert_memory_equal(bytes, "\x0c\x00\x02\x00\x00\x01\x00", 7);
    (void)check_round_trip(&record, 1, 0);
}

/* Attributes are read over, whatever they are. */
static void test_attributes_are_ignored(void **state)
{
    (void)state;
    assert_true(is_record((const uint8_t *)"\x0c\xff\x00\x00\x01\x01\x00", 7));
}

/* ---- Round trips ---- */

static const size_t border_sizes[] = {
    0, 1, 2, 15, 16, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 70000};

/* Sizes of keys and values on both sides of each border between lengths. */
static void test_border_sizes(void **state)
{
    size_t room = border_sizes[COUNT(border_sizes) - 1];
    uint8_t *source = malloc(room);

    (void)state;
    assert_non_null(source);
    for (size_t i = 0; i < room; i++) {
        source[i] = (uint8_t)(i * 7 + i / 256);
    }
    for (size_t i = 0; i < COUNT(border_sizes); i++) {
        for (size_t j = 0; j < COUNT(border_sizes); j++) {
            mk_record record = {
                .key = source,
                .key_size = border_sizes[i],
                .value = source + room - border_sizes[j],
                .value_size = border_sizes[j],
            };

            (void)check_round_trip(&record, 0, 0);
            record.key = NULL;
            (void)check_round_trip(&record, 0, 0);
        }
    }
    free(source);
}

static void test_border_deltas(void **state)
{
    static const int64_t times[] = {
        0,    -1,   1,     63,        64,        -64,       -65,
        8191, 8192, -8193, INT32_MAX, INT64_MAX, INT64_MIN, -1700000000000};
    static const int32_t offsets[] = {0, 1, 63, 64, 8191, 8192, INT32_MAX};
    mk_record record = golden_source();

    (void)state;
    for (size_t i = 0; i < COUNT(times); i++) {
        for (size_t j = 0; j < COUNT(offsets); j++) {
            (void)check_round_trip(&record, times[i], offsets[j]);
        }
    }
}

/* Headers of border sizes, and more of them than a byte can count. */
static void test_headers(void **state)
{
    enum { count = 130 };
    uint8_t *source = malloc(70000);
    mk_header headers[count];
    mk_record record = {.headers = headers, .header_count = count};

    (void)state;
    assert_non_null(source);
    memset(source, 'h', 70000);
    for (size_t i = 0; i < count; i++) {
        headers[i] = (mk_header){
            .name = source,
            .name_size = border_sizes[i % COUNT(border_sizes)],
            .value = i % 3 == 0 ? NULL : source,
            .value_size = border_sizes[i / 3 % COUNT(border_sizes)],
        };
    }
    (void)check_round_trip(&record, 5, 5);
    record.header_count = 1;
    (void)check_round_trip(&record, 5, 5);
    free(source);
}

/* ---- What can't be encoded ---- */

static void test_bound_refuses_what_does_not_fit(void **state)
{
    mk_header headers[] = {{"n", 1, "v", 1}, {"n", 1, "v", 1}};
    mk_record record = {.key = "k",
                        .key_size = 1,
                        .value = "v",
                        .value_size = 1,
                        .headers = headers,
                        .header_count = 2};
    const size_t large = (size_t)INT32_MAX + 1;

    (void)state;
    assert_true(mk_record_bound(&record) < 100);
    record.key_size = large;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
    record.key_size = 1;
    record.value_size = SIZE_MAX;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
    record.value_size = 1;
    headers[1].name_size = large;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
    headers[1].name_size = 1;
    headers[0].value_size = large;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
    headers[0].value = NULL;
    assert_true(mk_record_bound(&record) < 100);
    headers[1].name = NULL;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
}

/* The bound is one for integers at their longest, too. Nothing is read. */
static void test_bound_of_large_parts(void **state)
{
    const size_t large = (size_t)1 << 27; /* The least that takes 5 bytes. */
    const size_t integers = 5 + 1 + 10 + 5 + 5 + 5 + 1;
    mk_header header = {"n", 1 << 27, "v", 1 << 27};
    mk_record record = {
        .key = "k", .key_size = large, .value = "v", .value_size = large};

    (void)state;
    assert_int_equal(mk_varint_size((int64_t)large), 5);
    assert_true(mk_record_bound(&record) >= integers + 2 * large);
    record.headers = &header;
    record.header_count = 1;
    assert_true(mk_record_bound(&record) >= integers + 5 + 5 + 4 * large);
}

/* Each part fits, but not their sum. */
static void test_bound_refuses_too_large_a_sum(void **state)
{
    mk_header header = {"n", INT32_MAX / 2, "v", INT32_MAX / 2};
    mk_record record = {.key = "k", .value = "v"};

    (void)state;
    record.key_size = INT32_MAX / 2;
    assert_true(mk_record_bound(&record) < INT32_MAX);
    record.value_size = INT32_MAX / 2;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
    record.key_size = record.value_size = INT32_MAX;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
    record.key_size = record.value_size = 0;
    record.headers = &header;
    record.header_count = 1;
    assert_int_equal(mk_record_bound(&record), SIZE_MAX);
}

/* ---- Damage ---- */

typedef struct damaged {
    const char *what;
    const char *bytes;
    size_t size;
} damaged;

#define DAMAGED(what, bytes)          \
    {                                 \
        what, bytes, sizeof bytes - 1 \
    }

static const damaged damages[] = {
    DAMAGED("nothing", ""),
    DAMAGED("length without end", "\x80"),
    DAMAGED("length of six bytes", "\x8c\x80\x80\x80\x80\x00\x00\x00\x00"),
    DAMAGED("length beyond an int32",
            "\x8c\x80\x80\x80\x10\x00\x00\x00\x01\x01\x00"),
    DAMAGED("length of 2^31-1", "\xfe\xff\xff\xff\x0f\x00\x00\x00\x01\x01\x00"),
    DAMAGED("length of -1", "\x01\x00\x00\x00\x01\x01\x00"),
    DAMAGED("length of 0", "\x00\x00\x00\x00\x01\x01\x00"),
    DAMAGED("length of 5", "\x0a\x00\x00\x00\x01\x01\x00"),
    DAMAGED("a byte is missing", "\x0e\x00\x00\x00\x01\x01\x00"),
    DAMAGED("a byte is left over", "\x0e\x00\x00\x00\x01\x01\x00\x00"),
    DAMAGED("time without end", "\x0c\x00\x80\x80\x80\x80\x80"),
    DAMAGED("time of eleven bytes",
            "\x20\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x00\x01\x01"
            "\x00"),
    DAMAGED("time beyond an int64",
            "\x1e\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02\x00\x01\x01\x00"),
    DAMAGED("offset of six bytes",
            "\x16\x00\x00\x80\x80\x80\x80\x80\x00\x01\x01\x00"),
    DAMAGED("offset beyond an int32",
            "\x14\x00\x00\x80\x80\x80\x80\x10\x01\x01\x00"),
    DAMAGED("key of -2", "\x0c\x00\x00\x00\x03\x01\x00"),
    DAMAGED("key of 2^31-1", "\x14\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00"),
    DAMAGED("key of -2^31", "\x14\x00\x00\x00\xff\xff\xff\xff\x0f\x01\x00"),
    DAMAGED("key up to the end", "\x0c\x00\x00\x00\x04\x01\x00"),
    DAMAGED("key past the end", "\x0c\x00\x00\x00\x06\x01\x00"),
    DAMAGED("value of -2", "\x0c\x00\x00\x00\x01\x03\x00"),
    DAMAGED("value of 2^31-1", "\x14\x00\x00\x00\x01\xfe\xff\xff\xff\x0f\x00"),
    DAMAGED("value up to the end", "\x0c\x00\x00\x00\x01\x02\x00"),
    DAMAGED("long value up to the end", "\x3c\x00\x00\x00\x01\x32"
                                        "a value of 25 characters."),
    DAMAGED("value past the end", "\x0c\x00\x00\x00\x01\x04\x00"),
    DAMAGED("value's size past the end", "\x0c\x00\x00\x00\x01\x80\x80"),
    DAMAGED("-1 headers", "\x0c\x00\x00\x00\x01\x01\x01"),
    DAMAGED("a header too many", "\x10\x00\x00\x00\x01\x01\x04\x00\x01"),
    DAMAGED("a header too few", "\x14\x00\x00\x00\x01\x01\x02\x00\x01\x00\x01"),
    DAMAGED("more headers than bytes", "\x10\x00\x00\x00\x01\x01\x06\x00\x01"),
    DAMAGED("2^31-1 headers",
            "\x18\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f\x00\x01"),
    DAMAGED("header without a name", "\x10\x00\x00\x00\x01\x01\x02\x01\x01"),
    DAMAGED("header name of -2", "\x10\x00\x00\x00\x01\x01\x02\x03\x01"),
    DAMAGED("header value of -2", "\x10\x00\x00\x00\x01\x01\x02\x00\x03"),
    DAMAGED("header value past the end",
            "\x10\x00\x00\x00\x01\x01\x02\x00\x02"),
    DAMAGED("header name of 2^31-1",
            "\x18\x00\x00\x00\x01\x01\x02\xfe\xff\xff\xff\x0f\x01"),
};

static void test_damage_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(damages); i++) {
        const uint8_t *bytes = (const uint8_t *)damages[i].bytes;

        if (is_record(bytes, damages[i].size)) {
            fail_msg("taken for a record: %s", damages[i].what);
        }
        check_against_slow(bytes, damages[i].size);
    }
}

/* The same damage in a header by itself. */
static void test_header_damage_is_found(void **state)
{
    static const damaged headers[] = {
        DAMAGED("nothing", ""),
        DAMAGED("a name alone", "\x00"),
        DAMAGED("no name", "\x01\x00"),
        DAMAGED("name past the end", "\x06\x61\x00"),
        DAMAGED("value past the end", "\x02\x61\x04\x62"),
        DAMAGED("value of -2", "\x02\x61\x03"),
        DAMAGED("value without end", "\x02\x61\x80\x80"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(headers); i++) {
        size_t size = headers[i].size;
        uint8_t *block = malloc(size > 0 ? size : 1);
        mk_header found;

        assert_non_null(block);
        memcpy(block, headers[i].bytes, size);
        if (mk_header_decode(block, block + size, &found) != NULL) {
            fail_msg("taken for a header: %s", headers[i].what);
        }
        free(block);
    }
}

/* Every byte of a record with headers, set to every value; every truncation:
 * both decoders say the same. */
static void test_every_byte_and_cut(void **state)
{
    uint8_t bytes[sizeof golden_record];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        for (unsigned value = 0; value < 256; value++) {
            memcpy(bytes, golden_record, sizeof bytes);
            bytes[i] = (uint8_t)value;
            check_at(bytes, sizeof bytes, 0, fillers[0]);
            check_at(bytes, sizeof bytes, 64, fillers[value % COUNT(fillers)]);
        }
        assert_false(is_record(golden_record, i));
        check_against_slow(golden_record, i);
    }
}

/* A record of six bytes, as it says, whose integers take all that integers can,
 * and with them the bytes behind it, as far as there are any. */
static void test_integers_past_the_end(void **state)
{
    static const char bytes[] = "\x0c\x00"
                                "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
                                "\x80\x80\x80\x80\x00"
                                "\x81\x80\x80\x80\x00"
                                "\x81\x80\x80\x80\x00"
                                "\x82\x80\x80\x80\x00"
                                "\x80\x80\x80\x80\x00\x00";

    (void)state;
    for (size_t size = 0; size < sizeof bytes; size++) {
        assert_false(is_record((const uint8_t *)bytes, size));
        check_against_slow((const uint8_t *)bytes, size);
    }
}

/* Records of random parts with some of their bytes changed at random. */
static void test_random_damage(void **state)
{
    uint32_t seed = 20260509;
    uint8_t source[300] = {0}, bytes[700];

    (void)state;
    for (int round = 0; round < 10000; round++) {
        mk_header headers[3] = {{source, next_random(&seed) % 70, source, 3},
                                {source, 0, NULL, 0},
                                {source, 2, source, next_random(&seed) % 9}};
        mk_record record = {
            .key = next_random(&seed) % 4 == 0 ? NULL : source,
            .key_size = next_random(&seed) % 80,
            .value = next_random(&seed) % 4 == 0 ? NULL : source,
            .value_size = next_random(&seed) % 140,
            .headers = headers,
            .header_count = next_random(&seed) % 4,
        };
        int64_t delta = (int64_t)next_random(&seed) << next_random(&seed) % 32;
        size_t size =
            (size_t)(mk_record_encode(&record, delta, round, bytes) - bytes);
        filler behind = {(uint8_t)next_random(&seed),
                         (uint8_t)next_random(&seed)};

        for (uint32_t i = next_random(&seed) % 4; i > 0; i--) {
            bytes[next_random(&seed) % size] = (uint8_t)next_random(&seed);
        }
        check_at(bytes, size, 0, behind);
        check_at(bytes, size, 64, behind);
        check_at(bytes, next_random(&seed) % size, 0, behind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_those_of_kafka),
        cmocka_unit_test(test_null_and_empty),
        cmocka_unit_test(test_attributes_are_ignored),
        cmocka_unit_test(test_border_sizes),
        cmocka_unit_test(test_border_deltas),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bound_refuses_what_does_not_fit),
        cmocka_unit_test(test_bound_of_large_parts),
        cmocka_unit_test(test_bound_refuses_too_large_a_sum),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_header_damage_is_found),
        cmocka_unit_test(test_every_byte_and_cut),
        cmocka_unit_test(test_integers_past_the_end),
        cmocka_unit_test(test_random_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
