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
#include "base/status.h"

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

/*
 * Read the record at `bytes`, which ends at the latest at `end`. Returns the
 * byte after it, or NULL if it is damaged: a length that does not fit, a
 * negative length other than -1, bytes left over. Headers are walked and
 * checked, too. With NULL, `out` means nothing.
 */
const uint8_t *mk_record_decode(const uint8_t *bytes, const uint8_t *end,
                                mk_record_fields *out);

/* Read one header at `bytes`, as checked by mk_record_decode(). Returns the
 * byte after it, or NULL if it is damaged. */
const uint8_t *mk_header_decode(const uint8_t *bytes, const uint8_t *end,
                                mk_header *out);

#endif /* MK_CODEC_RECORD_H */
