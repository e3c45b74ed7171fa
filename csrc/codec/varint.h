/*
 * varint -- integers of as many bytes as their size needs.
 *
 * A byte holds seven bits, the lowest come first; a set high bit says that more
 * bytes follow. Signed integers are made unsigned first ("zig-zag": 0, -1, 1,
 * -2 become 0, 1, 2, 3), so that small ones are short whatever their sign.
 *
 * A varint is an int32_t, a varlong an int64_t. They are written alike, but
 * may have 5 and 10 bytes; more, or bits beyond the type, are damage. Bytes
 * that add nothing (80 00 for 0) are not.
 */
#ifndef MK_CODEC_VARINT_H
#define MK_CODEC_VARINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#define MK_VARINT_SIZE_MAX  5u
#define MK_VARLONG_SIZE_MAX 10u

static inline uint64_t mk_zigzag_encode(int64_t value)
{
    return (uint64_t)value << 1 ^ (0 - (uint64_t)(value < 0));
}

static inline int64_t mk_zigzag_decode(uint64_t bits)
{
    return (int64_t)(bits >> 1 ^ (0 - (bits & 1)));
}

/* Return how many bytes mk_varint_encode() writes. */
static inline size_t mk_varint_size(int64_t value)
{
    unsigned bits =
        64u - (unsigned)__builtin_clzll(mk_zigzag_encode(value) | 1);

    return (bits + 6) / 7;
}

/* Write `value` at `out`, and return the byte after it. */
static inline uint8_t *mk_varint_encode(int64_t value, uint8_t *out)
{
    uint64_t rest = mk_zigzag_encode(value);

    for (; MK_UNLIKELY(rest >= 0x80); rest >>= 7) {
        *out++ = (uint8_t)(rest | 0x80);
    }
    *out++ = (uint8_t)rest;
    return out;
}

/* Read `size_max` bytes at most, of `room` that are there; `last_max` is the
 * most that the last of `size_max` may be. Returns the byte after, or NULL. */
static inline const uint8_t *mk_varint_scan(const uint8_t *bytes, size_t room,
                                            size_t size_max, uint8_t last_max,
                                            uint64_t *out)
{
    size_t limit = room < size_max ? room : size_max;
    uint64_t zigzag = 0;

    for (size_t i = 0; i < limit; i++) {
        zigzag |= (uint64_t)(bytes[i] & 0x7f) << 7 * i;
        if (bytes[i] < 0x80) {
            if (i + 1 == size_max && bytes[i] > last_max) return NULL;
            *out = zigzag;
            return bytes + i + 1;
        }
    }
    return NULL;
}

/* Read the varint at `bytes`, which ends at the latest at `end`, as it stands
 * there. Returns the byte after it, or NULL if it is damaged. */
static inline const uint8_t *mk_varint_read(const uint8_t *bytes,
                                            const uint8_t *end, uint64_t *out)
{
    return mk_varint_scan(bytes, (size_t)(end - bytes), MK_VARINT_SIZE_MAX,
                          0x0f, out);
}

/* The same for a varlong. */
static inline const uint8_t *mk_varlong_read(const uint8_t *bytes,
                                             const uint8_t *end, uint64_t *out)
{
    return mk_varint_scan(bytes, (size_t)(end - bytes), MK_VARLONG_SIZE_MAX,
                          0x01, out);
}

/* The same where MK_VARINT_SIZE_MAX bytes can be read whatever they are: fast
 * for one byte and for two. */
static inline const uint8_t *mk_varint_read_roomy(const uint8_t *bytes,
                                                  uint64_t *out)
{
    *out = bytes[0];
    if (bytes[0] < 0x80) return bytes + 1;
    *out = (bytes[0] & 0x7fu) | (uint32_t)bytes[1] << 7;
    if (MK_LIKELY(bytes[1] < 0x80)) return bytes + 2;
    return mk_varint_read(bytes, bytes + MK_VARINT_SIZE_MAX, out);
}

#endif /* MK_CODEC_VARINT_H */
