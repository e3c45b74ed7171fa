/* The checksum of old messages agrees with a bit-by-bit one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "codec/crc32.h"

/* The definition, a bit at a time. */
static uint32_t slow_crc32(const uint8_t *bytes, size_t size)
{
    uint32_t state = 0xffffffff;

    for (size_t i = 0; i < size; i++) {
        state ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            state = state >> 1 ^ (0xedb88320u & (0u - (state & 1u)));
        }
    }
    return ~state;
}

/* The check value of the catalogues, and those of zlib. */
static void test_known_values(void **state)
{
    (void)state;
    assert_int_equal(mk_crc32((const uint8_t *)"123456789", 9), 0xcbf43926);
    assert_int_equal(mk_crc32((const uint8_t *)"", 0), 0);
    assert_int_equal(mk_crc32((const uint8_t *)"a", 1), 0xe8b7be43);
    assert_int_equal(mk_crc32((const uint8_t *)"\0\0\0\0", 4), 0x2144df1c);
}

/* Every value of a byte, and every size, in blocks of exactly that size. */
static void test_every_byte_and_size(void **state)
{
    (void)state;
    for (unsigned value = 0; value < 256; value++) {
        uint8_t byte = (uint8_t)value;

        assert_int_equal(mk_crc32(&byte, 1), slow_crc32(&byte, 1));
    }
    for (size_t size = 1; size < 300; size++) {
        uint8_t *block = malloc(size);

        assert_non_null(block);
        for (size_t i = 0; i < size; i++) {
            block[i] = (uint8_t)(i * 151 + size);
        }
        assert_int_equal(mk_crc32(block, size), slow_crc32(block, size));
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_every_byte_and_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
