/*
 * slow_record -- a decoder of records to compare the real one with: every byte
 * is asked for, nothing is clever.
 */
#ifndef MK_SUPPORT_SLOW_RECORD_H
#define MK_SUPPORT_SLOW_RECORD_H

#include "codec/record.h"

/* A place in some bytes. Once something is missing, it has failed for good. */
typedef struct byte_reader {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    bool failed;
} byte_reader;

static inline uint8_t slow_byte(byte_reader *reader)
{
    if (reader->at >= reader->size) reader->failed = true;
    return reader->failed ? 0 : reader->bytes[reader->at++];
}

/* A zig-zag integer of `bits` bits. */
static inline int64_t slow_integer(byte_reader *reader, unsigned bits)
{
    uint64_t value = 0;
    uint8_t byte;
    unsigned shift = 0;

    do {
        byte = slow_byte(reader);
        if (shift >= bits || (uint64_t)(byte & 0x7f) << shift >> shift !=
                                 (uint64_t)(byte & 0x7f)) {
            reader->failed = true;
            return 0;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte >= 0x80);
    if (bits == 32 && value > UINT32_MAX) reader->failed = true;
    return (value & 1) != 0 ? -(int64_t)(value >> 1) - 1
                            : (int64_t)(value >> 1);
}

static inline mk_span slow_bytes(byte_reader *reader)
{
    int64_t size = slow_integer(reader, 32);
    mk_span span = {reader->bytes + reader->at, 0};

    if (size == -1) return (mk_span){NULL, 0};
    if (size < 0 || size > (int64_t)(reader->size - reader->at)) {
        reader->failed = true;
        return span;
    }
    span.size = (size_t)size;
    reader->at += span.size;
    return span;
}

/* Returns the record's size, or 0. */
static inline size_t slow_decode(const uint8_t *bytes, size_t size,
                                 mk_record_fields *out)
{
    byte_reader body = {bytes, size, 0, false};
    int64_t length = slow_integer(&body, 32);
    int64_t count;

    if (body.failed || length < 0) return 0;
    if (length > (int64_t)(size - body.at)) return 0;
    body.size = body.at + (size_t)length;
    (void)slow_byte(&body);
    out->timestamp_delta = slow_integer(&body, 64);
    out->offset_delta = (int32_t)slow_integer(&body, 32);
    out->key = slow_bytes(&body);
    out->value = slow_bytes(&body);
    count = slow_integer(&body, 32);
    out->header_count = (uint32_t)count;
    out->headers = (mk_span){bytes + body.at, body.size - body.at};
    if (count < 0) return 0;
    for (int64_t i = 0; i < count && !body.failed; i++) {
        if (slow_bytes(&body).data == NULL) return 0;
        (void)slow_bytes(&body);
    }
    return body.failed || body.at != body.size ? 0 : body.size;
}

#endif /* MK_SUPPORT_SLOW_RECORD_H */
