/*
 * record -- one record inside a v2 batch.
 *
 *     [varint]  length of what follows
 *     [1 byte]  attributes: 0, and ignored
 *     [varlong] timestamp - base timestamp
 *     [varint]  offset - base offset
 *     [varint]  key length, -1 for null       [bytes] key
 *     [varint]  value length, -1 for null     [bytes] value
 *     [varint]  header count
 *       per header: [varint] name length, [bytes] name,
 *                   [varint] value length, -1 for null, [bytes] value
 *
 * Lengths are zig-zag varints: a varint has at most 5 bytes, a varlong 10.
 */
#ifndef MK_CODEC_RECORD_H
#define MK_CODEC_RECORD_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "codec/varint.h"

/* A record whose base offset and base timestamp are yet to be added. */
typedef struct mk_record_fields {
    int64_t timestamp_delta;
    int32_t offset_delta;
    uint32_t header_count;
    mk_span key;     /* data is NULL for null. */
    mk_span value;   /* data is NULL for null. */
    mk_span headers; /* The encoded headers, after their count. */
} mk_record_fields;

/* Return the most bytes that encoding `record` can take, its length field
 * included; SIZE_MAX when some part, or that sum, is larger than the format can
 * hold (INT32_MAX) or a header has no name. The size of a null is not read. */
size_t mk_record_bound(const mk_record *record);

/* Write `record` at `out`, which has room for mk_record_bound() bytes, and
 * return the byte after it. */
uint8_t *mk_record_encode(const mk_record *record, int64_t timestamp_delta,
                          int32_t offset_delta, uint8_t *out);

/* Read one header at `bytes`, as checked by mk_record_decode(). Returns the
 * byte after it, or NULL if it is damaged. */
const uint8_t *mk_header_decode(const uint8_t *bytes, const uint8_t *end,
                                mk_header *out);

/* ---- Decoding, inline ----
 *
 * Records are decoded by the million, so the way that they usually go is in the
 * caller's own code; what is rare stays a call. Where `roomy`,
 * MK_VARINT_SIZE_MAX bytes can be read behind `end`, so that an integer need
 * not be checked before it is read: one that goes past `end` is found out by
 * what comes next. The flag is a constant to the compiler.
 */

#define MK_RECORD_INLINE __attribute__((always_inline)) static inline

/* What stands before the key takes at most so much. */
#define MK_RECORD_LEAD_MAX \
    ((ptrdiff_t)(1 + 3 * MK_VARINT_SIZE_MAX + MK_VARLONG_SIZE_MAX))
/* The least that can stand behind the length: six integers of a byte each. */
#define MK_RECORD_BODY_MIN 6

/* Walk `count` headers, which must end at `end`. */
const uint8_t *mk_record_check_headers(const uint8_t *bytes, const uint8_t *end,
                                       uint64_t count);

/* mk_record_decode() near the end of what can be read. */
const uint8_t *mk_record_decode_carefully(const uint8_t *bytes,
                                          const uint8_t *end,
                                          mk_record_fields *out);

MK_RECORD_INLINE const uint8_t *mk_record_read_varint(const uint8_t *bytes,
                                                      const uint8_t *end,
                                                      bool roomy, uint64_t *out)
{
    return roomy ? mk_varint_read_roomy(bytes, out)
                 : mk_varint_read(bytes, end, out);
}

/* Read a key or a value. */
MK_RECORD_INLINE const uint8_t *mk_record_decode_bytes(const uint8_t *bytes,
                                                       const uint8_t *end,
                                                       bool roomy, mk_span *out)
{
    uint64_t zigzag = 0;
    ptrdiff_t left;

    bytes = mk_record_read_varint(bytes, end, roomy, &zigzag);
    if (MK_UNLIKELY(bytes == NULL)) return NULL;
    left = end - bytes;
    if (MK_UNLIKELY((zigzag & 1) != 0)) { /* Negative. */
        *out = (mk_span){NULL, 0};
        return zigzag == 1 && left >= 0 ? bytes : NULL;
    }
    if (MK_UNLIKELY((ptrdiff_t)(zigzag >> 1) > left)) return NULL;
    *out = (mk_span){bytes, (size_t)(zigzag >> 1)};
    return bytes + (zigzag >> 1);
}

/* Read what stands before the key. */
MK_RECORD_INLINE const uint8_t *mk_record_decode_deltas(const uint8_t *bytes,
                                                        const uint8_t *end,
                                                        bool roomy,
                                                        mk_record_fields *out)
{
    uint64_t zigzag = 0;

    bytes++; /* Attributes. */
    bytes = roomy ? mk_varlong_read_roomy(bytes, &zigzag)
                  : mk_varlong_read(bytes, end, &zigzag);
    if (MK_UNLIKELY(bytes == NULL)) return NULL;
    out->timestamp_delta = mk_zigzag_decode(zigzag);
    bytes = mk_record_read_varint(bytes, end, roomy, &zigzag);
    out->offset_delta = (int32_t)mk_zigzag_decode(zigzag);
    return bytes;
}

/* Can a record's length be that, where `left` bytes follow? */
static inline bool mk_record_can_be_length(uint64_t zigzag, ptrdiff_t left)
{
    return (zigzag & 1) == 0 && zigzag >= 2 * MK_RECORD_BODY_MIN &&
           (ptrdiff_t)(zigzag >> 1) <= left;
}

/* Read all behind the length, which is at least MK_RECORD_BODY_MIN bytes. */
MK_RECORD_INLINE const uint8_t *mk_record_decode_body(const uint8_t *bytes,
                                                      const uint8_t *end,
                                                      bool roomy,
                                                      mk_record_fields *out)
{
    uint64_t zigzag = 0;

    bytes = mk_record_decode_deltas(bytes, end, roomy, out);
    if (MK_UNLIKELY(bytes == NULL)) return NULL;
    bytes = mk_record_decode_bytes(bytes, end, roomy, &out->key);
    if (MK_UNLIKELY(bytes == NULL)) return NULL;
    bytes = mk_record_decode_bytes(bytes, end, roomy, &out->value);
    if (MK_UNLIKELY(bytes == NULL)) return NULL;
    bytes = mk_record_read_varint(bytes, end, roomy, &zigzag);
    if (MK_UNLIKELY(bytes == NULL)) return NULL;

    out->header_count = (uint32_t)(zigzag >> 1);
    out->headers = (mk_span){bytes, (size_t)(end - bytes)};
    if (MK_LIKELY(zigzag == 0 && bytes == end)) return end;
    if ((zigzag & 1) != 0) return NULL;
    return mk_record_check_headers(bytes, end, zigzag >> 1);
}

/*
 * Read the record at `bytes`, which ends at the latest at `end`. Returns the
 * byte after it, or NULL if it is damaged: a length that does not fit, a
 * negative length other than -1, bytes left over. Headers are walked and
 * checked, too. With NULL, `out` means nothing.
 */
MK_RECORD_INLINE const uint8_t *mk_record_decode(const uint8_t *bytes,
                                                 const uint8_t *end,
                                                 mk_record_fields *out)
{
    const ptrdiff_t room = (ptrdiff_t)MK_VARINT_SIZE_MAX;
    const uint8_t *body;
    uint64_t zigzag = 0;

    if (MK_LIKELY(end - bytes >= MK_RECORD_LEAD_MAX + room)) {
        body = mk_varint_read_roomy(bytes, &zigzag);
        if (MK_UNLIKELY(body == NULL)) return NULL;
        if (MK_LIKELY(mk_record_can_be_length(zigzag, end - body - room))) {
            return mk_record_decode_body(body, body + (zigzag >> 1), true, out);
        }
    }
    {
        /* Its address goes to a call, which `out` had better not, so that it
         * can stay in registers. */
        mk_record_fields careful;

        bytes = mk_record_decode_carefully(bytes, end, &careful);
        if (bytes != NULL) *out = careful;
        return bytes;
    }
}

#endif /* MK_CODEC_RECORD_H */
