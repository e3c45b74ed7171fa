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

/* The integers of a record without headers: attributes, length, timestamp,
 * offset, key and value size, header count. */
#define MK_RECORD_INTEGERS_MAX \
    (1 + 5 * MK_VARINT_SIZE_MAX + MK_VARLONG_SIZE_MAX)

/* mk_record_bound() for any record. */
size_t mk_record_bound_carefully(const mk_record *record);

/* Has the record a key and a value, both below 64 KiB, and no headers? */
static inline bool mk_record_is_usual(const mk_record *record)
{
    return ((record->key_size | record->value_size) >> 16) == 0 &&
           record->key != NULL && record->value != NULL &&
           record->header_count == 0;
}

/* Return the most bytes that encoding `record` can take, its length field
 * included; SIZE_MAX when some part, or that sum, is larger than the format can
 * hold (INT32_MAX) or a header has no name. The size of a null is not read. */
static inline size_t mk_record_bound(const mk_record *record)
{
    if (MK_UNLIKELY(!mk_record_is_usual(record))) {
        return mk_record_bound_carefully(record);
    }
    return MK_RECORD_INTEGERS_MAX + record->key_size + record->value_size;
}

/* Return how many bytes the record takes where both deltas are 0; at the most
 * mk_record_bound(), which is not SIZE_MAX. */
size_t mk_record_size(const mk_record *record);

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
 * Records are decoded by the million, so the usual one is decoded in the
 * caller's own code: integers of a byte or two, no headers. Any other goes to a
 * call that checks byte by byte.
 */

#define MK_RECORD_INLINE __attribute__((always_inline)) static inline

/* What can be read from a record's start on without a look: all its integers.
 */
#define MK_RECORD_LEAD 32
/* What must be readable behind it, so that reading past its end is harmless. */
#define MK_RECORD_TRAIL 16

/* mk_record_decode() for any record. */
const uint8_t *mk_record_decode_carefully(const uint8_t *bytes,
                                          const uint8_t *end,
                                          mk_record_fields *out);

/* Read an integer of one or two bytes; false for a longer one. */
MK_RECORD_INLINE bool mk_record_read_short(const uint8_t **bytes, uint64_t *out)
{
    const uint8_t *at = *bytes;

    *out = at[0];
    *bytes = at + 1;
    if (at[0] < 0x80) return true;
    *out = (at[0] & 0x7fu) | (uint32_t)at[1] << 7;
    *bytes = at + 2;
    return MK_LIKELY(at[1] < 0x80);
}

/* Read the size of a key or a value. That of a null is 0, and `*data`, where it
 * begins, becomes NULL. False for any other size that is not usual. */
MK_RECORD_INLINE bool mk_record_read_size(const uint8_t **bytes,
                                          const uint8_t **data, size_t *out)
{
    uint64_t zigzag;

    if (MK_UNLIKELY(!mk_record_read_short(bytes, &zigzag))) return false;
    *data = *bytes;
    *out = (size_t)(zigzag >> 1);
    if (MK_LIKELY((zigzag & 1) == 0)) return true;
    *data = NULL;
    *out = 0;
    return zigzag == 1;
}

/* Read a usual record; NULL for any other, damaged or not. */
MK_RECORD_INLINE const uint8_t *mk_record_decode_usual(const uint8_t *bytes,
                                                       const uint8_t *end,
                                                       mk_record_fields *out)
{
    mk_span *key = &out->key;
    mk_span *value = &out->value;
    const uint8_t *next;
    uint64_t zigzag;

    if (end - bytes < MK_RECORD_LEAD + MK_RECORD_TRAIL) return NULL;
    if (!mk_record_read_short(&bytes, &zigzag)) return NULL;
    if ((zigzag & 1) != 0 ||
        (ptrdiff_t)(zigzag >> 1) > end - bytes - MK_RECORD_TRAIL) {
        return NULL;
    }
    next = bytes + (zigzag >> 1);
    bytes++; /* Attributes. */
    if (!mk_record_read_short(&bytes, &zigzag)) return NULL;
    out->timestamp_delta = mk_zigzag_decode(zigzag);
    if (!mk_record_read_short(&bytes, &zigzag)) return NULL;
    out->offset_delta = (int32_t)mk_zigzag_decode(zigzag);
    if (!mk_record_read_size(&bytes, &key->data, &key->size)) return NULL;
    if (MK_UNLIKELY((ptrdiff_t)key->size >= next - bytes)) return NULL;
    bytes += key->size;
    if (!mk_record_read_size(&bytes, &value->data, &value->size)) return NULL;
    out->header_count = 0;
    out->headers = (mk_span){next, 0};
    return MK_LIKELY((ptrdiff_t)value->size + 1 == next - bytes &&
                     next[-1] == 0)
               ? next
               : NULL;
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
    /* The address of `careful` goes to a call, which that of `out` had better
     * not, so that it can stay in registers. */
    mk_record_fields careful;
    const uint8_t *next = mk_record_decode_usual(bytes, end, out);

    if (MK_LIKELY(next != NULL)) return next;
    careful = (mk_record_fields){0};
    next = mk_record_decode_carefully(bytes, end, &careful);
    *out = careful;
    return next;
}

/* Return the byte after the record at `bytes`, going by its length alone, or
 * NULL if that does not fit before `end`. */
MK_RECORD_INLINE const uint8_t *mk_record_skip(const uint8_t *bytes,
                                               const uint8_t *end)
{
    uint64_t zigzag = 0;

    if (MK_LIKELY(end - bytes >= (ptrdiff_t)MK_VARINT_SIZE_MAX)) {
        bytes = mk_varint_read_roomy(bytes, &zigzag);
    } else {
        bytes = mk_varint_read(bytes, end, &zigzag);
    }
    if (MK_UNLIKELY(bytes == NULL || (zigzag & 1) != 0 ||
                    (ptrdiff_t)(zigzag >> 1) > end - bytes)) {
        return NULL;
    }
    return bytes + (zigzag >> 1);
}

#endif /* MK_CODEC_RECORD_H */
