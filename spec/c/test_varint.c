/* Varints: known bytes, every border, and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "codec/varint.h"

/* A copy in a block of exactly its size, so that reading on is noticed. */
static uint8_t *exact_copy(const uint8_t *bytes, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1);

    assert_non_null(block);
    if (size > 0) memcpy(block, bytes, size);
    return block;
}

static void check_encoding(int64_t value, const uint8_t *expected, size_t size)
{
    uint8_t bytes[MK_VARLONG_SIZE_MAX];

    assert_int_equal(mk_varint_size(value), size);
    assert_ptr_equal(mk_varint_encode(value, bytes), bytes + size);
    assert_memory_equal(bytes, expected, size);
}

/* The examples of the zig-zag encoding, and the ends of both types. */
static void test_known_bytes(void **state)
{
    (void)state;
    check_encoding(0, (const uint8_t *)"\x00", 1);
    check_encoding(-1, (const uint8_t *)"\x01", 1);
    check_encoding(1, (const uint8_t *)"\x02", 1);
    check_encoding(63, (const uint8_t *)"\x7e", 1);
    check_encoding(-64, (const uint8_t *)"\x7f", 1);
    check_encoding(64, (const uint8_t *)"\x80\x01", 2);
    check_encoding(-65, (const uint8_t *)"\x81\x01", 2);
    check_encoding(8191, (const uint8_t *)"\xfe\x7f", 2);
    check_encoding(8192, (const uint8_t *)"\x80\x80\x01", 3);
    check_encoding(INT32_MAX, (const uint8_t *)"\xfe\xff\xff\xff\x0f", 5);
    check_encoding(INT32_MIN, (const uint8_t *)"\xff\xff\xff\xff\x0f", 5);
    check_encoding(INT64_MAX,
                   (const uint8_t *)"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                   10);
    check_encoding(INT64_MIN,
                   (const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                   10);
}

typedef struct integer_kind {
    size_t size_max;
    const uint8_t *(*read)(const uint8_t *bytes, const uint8_t *end,
                           uint64_t *out);
    /* NULL: there is no such way. */
    const uint8_t *(*read_roomy)(const uint8_t *bytes, uint64_t *out);
} integer_kind;

static const integer_kind varint = {MK_VARINT_SIZE_MAX, mk_varint_read,
                                    mk_varint_read_roomy};
static const integer_kind varlong = {MK_VARLONG_SIZE_MAX, mk_varlong_read,
                                     NULL};

/* Is it a number of that kind, all `size` bytes of it? All ways to read must
 * say the same. */
static bool reads(const integer_kind *kind, const uint8_t *bytes, size_t size,
                  int64_t *out)
{
    uint8_t *block = exact_copy(bytes, size);
    uint8_t roomy[MK_VARLONG_SIZE_MAX];
    uint64_t careful = 0, fast = 0;
    const uint8_t *next = kind->read(block, block + size, &careful);
    const uint8_t *end;

    assert_true(next == NULL || next == block + size);
    if (kind->read_roomy != NULL && size <= kind->size_max) {
        memset(roomy, 0xff, sizeof roomy);
        memcpy(roomy, bytes, size);
        end = kind->read_roomy(roomy, &fast);
        assert_ptr_equal(end, next != NULL ? roomy + size : NULL);
        if (next != NULL) assert_int_equal(fast, careful);
    }
    free(block);
    *out = mk_zigzag_decode(careful);
    return next != NULL;
}

static void check_round_trip(int64_t value)
{
    uint8_t bytes[MK_VARLONG_SIZE_MAX];
    size_t size = (size_t)(mk_varint_encode(value, bytes) - bytes);
    int64_t found = 0;

    assert_int_equal(mk_varint_size(value), size);
    assert_true(reads(&varlong, bytes, size, &found));
    assert_int_equal(found, value);
    for (size_t cut = 0; cut < size; cut++) {
        assert_false(reads(&varlong, bytes, cut, &found));
    }
    if (value < INT32_MIN || value > INT32_MAX) {
        assert_false(reads(&varint, bytes, size, &found));
        return;
    }
    assert_true(reads(&varint, bytes, size, &found));
    assert_int_equal(found, value);
    for (size_t cut = 0; cut < size; cut++) {
        assert_false(reads(&varint, bytes, cut, &found));
    }
}

/* Around every power of two, both signs: what is written is read again, what is
 * cut short is not, and a varlong that is no int32_t is no varint. */
static void test_round_trips_and_cuts(void **state)
{
    (void)state;
    for (int bit = 0; bit < 63; bit++) {
        for (int64_t near = -2; near <= 2; near++) {
            check_round_trip((INT64_C(1) << bit) + near);
            check_round_trip(-(INT64_C(1) << bit) + near);
        }
    }
    check_round_trip(INT64_MAX);
    check_round_trip(INT64_MIN);
    check_round_trip(INT64_MIN + 1);
}

/* Bytes that add nothing are no damage, as long as they are not too many. */
static void test_padding_is_read(void **state)
{
    int64_t found = -1;

    (void)state;
    assert_true(reads(&varint, (const uint8_t *)"\x80\x00", 2, &found));
    assert_int_equal(found, 0);
    assert_true(
        reads(&varint, (const uint8_t *)"\x82\x80\x80\x80\x00", 5, &found));
    assert_int_equal(found, 1);
    assert_true(reads(
        &varlong, (const uint8_t *)"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00",
        10, &found));
    assert_int_equal(found, 1);
}

/* Too many bytes, and a last byte with bits that the type does not have. */
static void test_overlong_is_damage(void **state)
{
    int64_t found;

    (void)state;
    assert_false(
        reads(&varint, (const uint8_t *)"\x80\x80\x80\x80\x10", 5, &found));
    assert_false(
        reads(&varint, (const uint8_t *)"\xff\xff\xff\xff\x7f", 5, &found));
    assert_false(
        reads(&varint, (const uint8_t *)"\x80\x80\x80\x80\x80\x00", 6, &found));
    assert_false(reads(
        &varlong, (const uint8_t *)"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
        10, &found));
    assert_false(
        reads(&varlong,
              (const uint8_t *)"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
              11, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_bytes),
        cmocka_unit_test(test_round_trips_and_cuts),
        cmocka_unit_test(test_padding_is_read),
        cmocka_unit_test(test_overlong_is_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
