/*
 * How it is computed: three ways, told apart at run time.
 *
 *  - Tables: eight bytes a step, each looked up in the table for its distance
 *    from the end of the eight ("slicing by 8").
 *  - The crc32 instruction takes eight bytes, and three of them can be under
 *    way at once: so three chains run over three neighbouring blocks, and a
 *    chain's state is moved over the blocks behind it by a carry-less
 *    multiplication.
 *  - Folding: four registers of 64 bytes each are carried forward, 256 bytes a
 *    step, by carry-less multiplications. What they hold at the end is reduced
 *    by the crc32 instruction.
 *
 * A state is the register of the checksum, without the two complements. Moving
 * it over n bits is multiplying it by x^n modulo the polynomial. Constants are
 * such powers, bit 31 being x^0. A carry-less product that goes through the
 * crc32 instruction has been multiplied by x^33 besides, and one of two words
 * of 64 bits by x, which the constants make up for.
 */
#include "codec/crc32c.h"

#include <string.h>

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 8)
#define HAVE_X86 1
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define HAVE_ARM 1
#include <arm_acle.h>
#endif

#include "base/check.h"

#include "base/poison.h"

#define WORD sizeof(uint64_t)

/* Eight bytes, the first one lowest. */
static inline uint64_t load_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* ---- Tables ---- */

/* All 256 values of a table from those of the eight bits: the value of a sum is
 * the sum (exclusive or) of the values. */
#define SUMS1(v, a)          (v), (v) ^ (a)
#define SUMS2(v, a, b)       SUMS1(v, a), SUMS1((v) ^ (b), a)
#define SUMS3(v, a, b, c)    SUMS2(v, a, b), SUMS2((v) ^ (c), a, b)
#define SUMS4(v, a, b, c, d) SUMS3(v, a, b, c), SUMS3((v) ^ (d), a, b, c)
#define SUMS5(v, a, b, c, d, e) \
    SUMS4(v, a, b, c, d), SUMS4((v) ^ (e), a, b, c, d)
#define SUMS6(v, a, b, c, d, e, f) \
    SUMS5(v, a, b, c, d, e), SUMS5((v) ^ (f), a, b, c, d, e)
#define SUMS7(v, a, b, c, d, e, f, g) \
    SUMS6(v, a, b, c, d, e, f), SUMS6((v) ^ (g), a, b, c, d, e, f)
#define SUMS8(a, b, c, d, e, f, g, h)                                 \
    {                                                                 \
        SUMS7(0u, a, b, c, d, e, f, g), SUMS7(h, a, b, c, d, e, f, g) \
    }

/* What a byte adds to the state when this many bytes stand behind it. The
 * constants are one run of powers, from x^32 (the polynomial itself) at the end
 * of the first row back to x^95 at the start of the last. */
static const uint32_t tables[8][256] = {
    SUMS8(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu,
          0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u),
    SUMS8(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u,
          0x7f8be302u, 0xff17c604u, 0xfbc3faf9u),
    SUMS8(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au,
          0xe144fb14u, 0xc76580d9u, 0x8b277743u),
    SUMS8(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du,
          0xd725148bu, 0xaba65fe7u, 0x52a0c93fu),
    SUMS8(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u,
          0x1ba8b557u, 0x37516aaeu, 0x6ea2d55cu),
    SUMS8(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu,
          0x85f4168du, 0x0e045bebu, 0x1c08b7d6u),
    SUMS8(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u,
          0x3d5b83bdu, 0x7ab7077au, 0xf56e0ef4u),
    SUMS8(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u,
          0x0d006599u, 0x1a00cb32u, 0x34019664u),
};

static uint32_t run_tables(uint32_t state, const uint8_t *bytes, size_t size)
{
    for (; size >= WORD; bytes += WORD, size -= WORD) {
        uint64_t word = load_word(bytes) ^ state;

        state = tables[7][word & 0xff] ^ tables[6][word >> 8 & 0xff] ^
                tables[5][word >> 16 & 0xff] ^ tables[4][word >> 24 & 0xff] ^
                tables[3][word >> 32 & 0xff] ^ tables[2][word >> 40 & 0xff] ^
                tables[1][word >> 48 & 0xff] ^ tables[0][word >> 56];
    }
    for (; size > 0; bytes++, size--) {
        state = state >> 8 ^ tables[0][(state ^ *bytes) & 0xff];
    }
    return state;
}

/* ---- The crc32 instruction ---- */

#if defined(HAVE_X86)
#define USES_INSTRUCTION __attribute__((target("sse4.2,pclmul")))
#elif defined(HAVE_ARM)
#define USES_INSTRUCTION
#endif

#if defined(USES_INSTRUCTION)
/* Move `state` over a word of data. */
USES_INSTRUCTION static inline uint64_t add_word(uint64_t state, uint64_t word)
{
#if defined(HAVE_X86)
    return _mm_crc32_u64(state, word);
#else
    return __crc32cd((uint32_t)state, word);
#endif
}

/* Move `state` over the last 0 to 7 bytes before `end`, which has at least a
 * word before it: as a word of which the rest is zeros in front, since these
 * change nothing as long as the state has been put into the data. */
USES_INSTRUCTION static inline uint64_t
add_rest(uint64_t state, const uint8_t *end, size_t size)
{
    unsigned half = 32u - 4u * (unsigned)size; /* Of what is to be left out. */
    uint64_t data = load_word(end - WORD) >> half >> half ^ state;

    return add_word(0, data << half << half) ^ data >> 8 * size;
}

#if defined(HAVE_X86)
#define BLOCK_MIN 4u  /* Words; below, one chain is done as soon. */
#define BLOCK_MAX 32u /* Above, there is little left to gain. */

/* over[i] moves a state over i + 1 words: x^(64 * (i + 1) - 33). */
static const uint32_t over[2 * BLOCK_MAX] = {
    0x00000001, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e, 0x3da6d0cb, 0xddc0152b,
    0x1c291d04, 0x9e4addf8, 0x740eef02, 0x39d3b296, 0x083a6eec, 0x0715ce53,
    0xc49f4f67, 0x47db8317, 0x2ad91c30, 0x0d3b6092, 0x6992cea2, 0xc96cfdc0,
    0x7e908048, 0x878a92a7, 0x1b3d8f29, 0xdaece73e, 0xf1d0f55e, 0xab7aff2a,
    0xa87ab8a8, 0x2162d385, 0x8462d800, 0x83348832, 0x71d111a8, 0x299847d5,
    0xffd852c6, 0xb9e02b86, 0xdcb17aa4, 0x18b33a4e, 0xf37c5aee, 0xb6dd949b,
    0x6051d5a2, 0x78d9ccb7, 0x18b0d4ff, 0xbac2fd7b, 0x21f3d99c, 0xa60ce07b,
    0x8f158014, 0xce7f39f4, 0xa00457f7, 0x61d82e56, 0x8d6d2c43, 0xd270f1a2,
    0x00ac29cf, 0xc619809d, 0xe9adf796, 0x2b3cac5d, 0x96638b34, 0x65863b64,
    0xe0e9f351, 0x1b03397f, 0x9af01f2d, 0xebb883bd, 0x2cff42cf, 0xb3e32c28,
    0x88f25a3a, 0x064f7f26, 0x4e36f0b0, 0xdd7e3b0c,
};

USES_INSTRUCTION static inline uint64_t multiply(uint64_t a, uint64_t b)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a),
                                           _mm_cvtsi64_si128((long long)b), 0);

    return (uint64_t)_mm_cvtsi128_si64(product);
}

/* Move `state` over three neighbouring blocks of `words` words each. */
USES_INSTRUCTION static inline uint64_t
run_blocks(uint64_t state, const uint8_t *bytes, size_t words)
{
    const uint8_t *last = bytes + (words - 1) * WORD;
    uint64_t a = state, b = 0, c = 0;
    uint64_t moved;

    for (; bytes < last; bytes += WORD) {
        a = add_word(a, load_word(bytes));
        b = add_word(b, load_word(bytes + words * WORD));
        c = add_word(c, load_word(bytes + 2 * words * WORD));
    }
    a = add_word(a, load_word(bytes));
    b = add_word(b, load_word(bytes + words * WORD));
    moved = multiply(a, over[2 * words - 1]) ^ multiply(b, over[words - 1]);
    return add_word(c, load_word(bytes + 2 * words * WORD) ^ moved);
}
#endif /* HAVE_X86 */

USES_INSTRUCTION static uint32_t
run_instruction(uint32_t crc, const uint8_t *bytes, size_t size)
{
    uint64_t state = crc;

    if (size < WORD) return run_tables(crc, bytes, size);
#if defined(HAVE_X86)
    while (size >= 3 * BLOCK_MIN * WORD) {
        size_t words = size / (3 * WORD);

        if (words > BLOCK_MAX) words = BLOCK_MAX;
        state = run_blocks(state, bytes, words);
        bytes += 3 * words * WORD;
        size -= 3 * words * WORD;
    }
#endif
    for (; size >= WORD; bytes += WORD, size -= WORD) {
        state = add_word(state, load_word(bytes));
    }
    return (uint32_t)add_rest(state, bytes + size, size);
}
#else
#define run_instruction run_tables
#endif /* USES_INSTRUCTION */

/* ---- Folding ---- */

#define FOLD_MIN 256u /* Below, it gains next to nothing. */

#if defined(HAVE_X86)
#define USES_FOLDING \
    __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,vpclmulqdq")))

#define FOLD_SIZE 64u    /* A register. */
#define FOLD_STEP 256u   /* Four of them. */
#define ALIGN_MIN 16384u /* From here on, loads across lines cost more. */

/* The constants that move the two words of 16 bytes n bits forward: x^(n - 33)
 * for the second and x^(n + 31) for the first. */
#define FORWARD_2048 0xb9e02b86, 0xdcb17aa4
#define FORWARD_1536 0xab7aff2a, 0xa87ab8a8
#define FORWARD_1024 0x0d3b6092, 0x6992cea2
#define FORWARD_512  0x9e4addf8, 0x740eef02
#define FORWARD_384  0xddc0152b, 0x1c291d04
#define FORWARD_256  0xba4fc28e, 0x3da6d0cb
#define FORWARD_128  0x493c7d27, 0xf20c0dfe

USES_FOLDING static inline __m512i load_register(const uint8_t *bytes)
{
    return _mm512_loadu_si512(bytes);
}

/* The same constants for all four parts of a register. */
USES_FOLDING static inline __m512i all_parts(long long second, long long first)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x(second, first));
}

/* Move `carried` forward and add it to `data`. */
USES_FOLDING static inline __m512i fold(__m512i carried, __m512i constants,
                                        __m512i data)
{
    __m512i first = _mm512_clmulepi64_epi128(carried, constants, 0x00);
    __m512i second = _mm512_clmulepi64_epi128(carried, constants, 0x11);

    return _mm512_ternarylogic_epi64(first, second, data, 0x96); /* a ^ b ^ c */
}

/* The state of what `carried` stands for. */
USES_FOLDING static inline uint32_t reduce(__m512i carried)
{
    __m512i constants =
        _mm512_set_epi64(0, 0, FORWARD_128, FORWARD_256, FORWARD_384);
    __m512i four = fold(carried, constants, _mm512_setzero_si512());
    __m256i two = _mm256_xor_si256(_mm512_castsi512_si256(four),
                                   _mm512_extracti64x4_epi64(four, 1));
    __m128i one = _mm_xor_si128(_mm256_castsi256_si128(two),
                                _mm256_extracti128_si256(two, 1));

    one = _mm_xor_si128(one, _mm512_extracti32x4_epi32(carried, 3));
    return (uint32_t)add_word(add_word(0, (uint64_t)_mm_cvtsi128_si64(one)),
                              (uint64_t)_mm_extract_epi64(one, 1));
}

/* Move `carried`, the first register at `bytes`, over whole steps. */
USES_FOLDING static inline __m512i
fold_steps(__m512i carried, const uint8_t *bytes, const uint8_t *end)
{
    __m512i constants = all_parts(FORWARD_2048);
    __m512i a = carried;
    __m512i b = load_register(bytes + FOLD_SIZE);
    __m512i c = load_register(bytes + 2 * FOLD_SIZE);
    __m512i d = load_register(bytes + 3 * FOLD_SIZE);

    for (bytes += FOLD_STEP; bytes < end; bytes += FOLD_STEP) {
        a = fold(a, constants, load_register(bytes));
        b = fold(b, constants, load_register(bytes + FOLD_SIZE));
        c = fold(c, constants, load_register(bytes + 2 * FOLD_SIZE));
        d = fold(d, constants, load_register(bytes + 3 * FOLD_SIZE));
    }
    d = fold(c, all_parts(FORWARD_512), d);
    d = fold(b, all_parts(FORWARD_1024), d);
    return fold(a, all_parts(FORWARD_1536), d);
}

/* Move `state` over `size` bytes, a multiple of FOLD_SIZE and not 0. Wide
 * registers are left clean: dirty ones would slow down all SSE code of the
 * caller. */
USES_FOLDING static uint32_t run_fold(uint32_t state, const uint8_t *bytes,
                                      size_t size)
{
    const uint8_t *end = bytes + size;
    __m512i constants = all_parts(FORWARD_512);
    __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
    __m512i carried = _mm512_xor_si512(load_register(bytes), start);

    if (size >= 2 * FOLD_STEP) {
        size -= size % FOLD_STEP;
        carried = fold_steps(carried, bytes, bytes + size);
        bytes += size - FOLD_SIZE;
    }
    for (bytes += FOLD_SIZE; bytes < end; bytes += FOLD_SIZE) {
        carried = fold(carried, constants, load_register(bytes));
    }
    state = reduce(carried);
    _mm256_zeroupper();
    return state;
}

static uint32_t run_folding(uint32_t state, const uint8_t *bytes, size_t size)
{
    size_t skipped, folded;

    if (size < FOLD_MIN) return run_instruction(state, bytes, size);
    skipped = size < ALIGN_MIN ? 0 : -(uintptr_t)bytes % FOLD_SIZE;
    if (skipped > 0) state = run_instruction(state, bytes, skipped);
    bytes += skipped;
    size -= skipped;
    folded = size - size % FOLD_SIZE;
    state = run_fold(state, bytes, folded);
    return run_instruction(state, bytes + folded, size - folded);
}
#else
#define run_folding run_tables
#endif /* HAVE_X86 */

/* ---- Choosing ---- */

static inline bool can_instruction(void)
{
#if defined(HAVE_X86)
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#elif defined(HAVE_ARM)
    return true;
#else
    return false;
#endif
}

static inline bool can_folding(void)
{
#if defined(HAVE_X86)
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("vpclmulqdq") && can_instruction();
#else
    return false;
#endif
}

uint32_t mk_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    uint32_t state = ~crc;

    if (size >= FOLD_MIN && can_folding()) {
        return ~run_folding(state, bytes, size);
    }
    if (can_instruction()) return ~run_instruction(state, bytes, size);
    return ~run_tables(state, bytes, size);
}

bool mk_crc32c_can(mk_crc32c_way way)
{
    return way == MK_CRC32C_TABLES ||
           (way == MK_CRC32C_INSTRUCTION && can_instruction()) ||
           (way == MK_CRC32C_FOLDING && can_folding());
}

uint32_t mk_crc32c_by(mk_crc32c_way way, uint32_t crc, const void *bytes,
                      size_t size)
{
    uint32_t state = ~crc;

    MK_ASSERT(mk_crc32c_can(way));
    if (way == MK_CRC32C_FOLDING) return ~run_folding(state, bytes, size);
    if (way == MK_CRC32C_TABLES) return ~run_tables(state, bytes, size);
    return ~run_instruction(state, bytes, size);
}
