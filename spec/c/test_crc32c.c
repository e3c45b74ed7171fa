/* The checksum: all ways agree with a bit-by-bit one, at any size and place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "codec/crc32c.h"

/* Beyond all block sizes and steps, and all their combinations. */
#define SIZE_MAX_SWEPT 4200u

static const size_t alignments[] = {0, 1, 3, 8, 13, 21, 63};

/* The definition, a bit at a time. */
static uint32_t slow_crc32c(uint32_t crc, const uint8_t *bytes, size_t size)
{
    uint32_t state = ~crc;

    for (size_t i = 0; i < size; i++) {
        state ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            state = state >> 1 ^ (0x82f63b78u & (0u - (state & 1u)));
        }
    }
    return ~state;
}

/* A number from a seed: xorshift. */
static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void fill(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)next_random(&seed);
    }
}

static void check_all_ways(uint32_t crc, const uint8_t *bytes, size_t size,
                           uint32_t expected)
{
    for (int i = 0; i < MK_CRC32C_WAY_COUNT; i++) {
        mk_crc32c_way way = (mk_crc32c_way)i;
        uint32_t found;

        if (!mk_crc32c_can(way)) continue;
        found = mk_crc32c_by(way, crc, bytes, size);
        if (found != expected) {
            fail_msg("way %d, %zu bytes at ...%02x: %08x, not %08x", i, size,
                     (unsigned)((uintptr_t)bytes & 0xff), found, expected);
        }
    }
    assert_int_equal(mk_crc32c(crc, bytes, size), expected);
}

/* What the standards have as examples (RFC 3720 B.4, and the check value). */
static void test_known_values(void **state)
{
    uint8_t bytes[32];

    (void)state;
    check_all_ways(0, (const uint8_t *)"123456789", 9, 0xe3069283);
    check_all_ways(0, bytes, 0, 0);
    memset(bytes, 0, sizeof bytes);
    check_all_ways(0, bytes, sizeof bytes, 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    check_all_ways(0, bytes, sizeof bytes, 0x62a8ab43);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)i;
    }
    check_all_ways(0, bytes, sizeof bytes, 0x46dd794e);
}

/* Tables are always there; what the processor has is told, for the record. */
static void test_tables_work_everywhere(void **state)
{
    (void)state;
    assert_true(mk_crc32c_can(MK_CRC32C_TABLES));
    print_message("instruction: %d, folding: %d\n",
                  mk_crc32c_can(MK_CRC32C_INSTRUCTION),
                  mk_crc32c_can(MK_CRC32C_FOLDING));
}

/* Every size at several alignments, in blocks that end where the bytes do. */
static void test_every_size(void **state)
{
    uint8_t *source = malloc(SIZE_MAX_SWEPT);

    (void)state;
    assert_non_null(source);
    fill(source, SIZE_MAX_SWEPT, 1);
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        uint32_t expected = 0;

        for (size_t size = 0; size <= SIZE_MAX_SWEPT; size++) {
            uint8_t *block = malloc(alignments[i] + size);

            if (size > 0) {
                expected = slow_crc32c(expected, source + size - 1, 1);
                memcpy(block + alignments[i], source, size);
            }
            check_all_ways(0, block + alignments[i], size, expected);
            free(block);
        }
    }
    free(source);
}

/* Sizes of whole fetches, where alignment is made up for first. */
static void test_large_sizes(void **state)
{
    static const size_t sizes[] = {16383, 16384, 16385, 63000, 65536, 100003};
    const size_t room = 100003 + 64;
    uint8_t *source = malloc(room);

    (void)state;
    assert_non_null(source);
    fill(source, room, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t at = 0; at < 64; at += 21) {
            check_all_ways(0, source + at, sizes[i],
                           slow_crc32c(0, source + at, sizes[i]));
        }
    }
    free(source);
}

/* The checksum of the whole is that of its end, begun with that of its start.
 */
static void test_splits(void **state)
{
    const size_t room = 3 * SIZE_MAX_SWEPT;
    uint8_t *source = malloc(room);
    uint32_t seed = 3;

    (void)state;
    assert_non_null(source);
    fill(source, room, 4);
    for (int round = 0; round < 2000; round++) {
        size_t size = next_random(&seed) % room;
        size_t split = size == 0 ? 0 : next_random(&seed) % (size + 1);
        uint32_t start = mk_crc32c(0, source, split);

        check_all_ways(start, source + split, size - split,
                       mk_crc32c(0, source, size));
    }
    free(source);
}

/* A start that no bytes precede is taken as it is. */
static void test_any_start(void **state)
{
    uint8_t bytes[700];

    (void)state;
    fill(bytes, sizeof bytes, 5);
    for (uint32_t start = 1; start != 0; start <<= 1) {
        for (size_t size = 0; size < sizeof bytes; size += 37) {
            check_all_ways(start, bytes, size, slow_crc32c(start, bytes, size));
        }
    }
}

#if defined(__x86_64__)
/* Can the processor tell which registers are in use? */
static bool can_tell_use(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

    return __get_cpuid_count(0x0d, 1, &eax, &ebx, &ecx, &edx) && (eax & 4) != 0;
}

/* Are upper halves of wide registers in use? */
__attribute__((target("xsave"))) static bool wide_registers_in_use(void)
{
    return (_xgetbv(1) & 0x44) != 0; /* Of YMM and of ZMM. */
}

__attribute__((target("avx"))) static void clean_wide_registers(void)
{
    _mm256_zeroupper();
}

/* Dirty wide registers halve the speed of the SSE code that follows. */
static void test_wide_registers_are_left_clean(void **state)
{
    static const size_t sizes[] = {256, 700, 4096, 63000};
    uint8_t *bytes;

    (void)state;
    if (!mk_crc32c_can(MK_CRC32C_FOLDING) || !can_tell_use()) skip();
    clean_wide_registers();
    if (wide_registers_in_use()) skip();
    bytes = calloc(1, 63000);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)mk_crc32c_by(MK_CRC32C_FOLDING, 0, bytes, sizes[i]);
        assert_false(wide_registers_in_use());
    }
    free(bytes);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_tables_work_everywhere),
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_large_sizes),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_any_start),
#if defined(__x86_64__)
        cmocka_unit_test(test_wide_registers_are_left_clean),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
