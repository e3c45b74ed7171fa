/* record -- encoding and decoding; the header draws the format. */
#include "codec/record.h"

#include "base/poison.h"

/* ---- Encoding ---- */

/* What `header` can take; more than INT32_MAX if it can't be encoded. */
static uint64_t header_bound(const mk_header *header)
{
    size_t value_size = header->value != NULL ? header->value_size : 0;

    if (header->name == NULL) return UINT32_MAX;
    if (header->name_size > INT32_MAX || value_size > INT32_MAX) {
        return UINT32_MAX;
    }
    return 2 * MK_VARINT_SIZE_MAX + (uint64_t)header->name_size + value_size;
}

size_t mk_record_bound_carefully(const mk_record *record)
{
    size_t key_size = record->key != NULL ? record->key_size : 0;
    size_t value_size = record->value != NULL ? record->value_size : 0;
    uint64_t bound = MK_RECORD_INTEGERS_MAX;

    if (key_size > INT32_MAX || value_size > INT32_MAX) return SIZE_MAX;
    bound += (uint64_t)key_size + value_size;
    for (size_t i = 0; i < record->header_count && bound <= INT32_MAX; i++) {
        bound += header_bound(&record->headers[i]);
    }
    return bound <= INT32_MAX ? (size_t)bound : SIZE_MAX;
}

/* What a key, a name or a value takes, its size included. */
static inline size_t bytes_size(const void *data, size_t size)
{
    return data != NULL ? mk_varint_size((int64_t)size) + size : 1;
}

static inline uint8_t *encode_bytes(const void *data, size_t size, uint8_t *out)
{
    if (data == NULL) return mk_varint_encode(-1, out);
    out = mk_varint_encode((int64_t)size, out);
    memcpy(out, data, size);
    return out + size;
}

static size_t headers_size(const mk_record *record)
{
    size_t size = 0;

    for (size_t i = 0; i < record->header_count; i++) {
        const mk_header *header = &record->headers[i];

        size += bytes_size(header->name, header->name_size);
        size += bytes_size(header->value, header->value_size);
    }
    return size;
}

static uint8_t *encode_headers(const mk_record *record, uint8_t *out)
{
    for (size_t i = 0; i < record->header_count; i++) {
        const mk_header *header = &record->headers[i];

        out = encode_bytes(header->name, header->name_size, out);
        out = encode_bytes(header->value, header->value_size, out);
    }
    return out;
}

size_t mk_record_size(const mk_record *record)
{
    size_t body_size = 3 + bytes_size(record->key, record->key_size) +
                       bytes_size(record->value, record->value_size) +
                       mk_varint_size((int64_t)record->header_count) +
                       headers_size(record);

    return mk_varint_size((int64_t)body_size) + body_size;
}

static __attribute__((noinline)) uint8_t *encode_any(const mk_record *record,
                                                     int64_t timestamp_delta,
                                                     int32_t offset_delta,
                                                     uint8_t *out)
{
    size_t body_size = 1 + mk_varint_size(timestamp_delta) +
                       mk_varint_size(offset_delta) +
                       bytes_size(record->key, record->key_size) +
                       bytes_size(record->value, record->value_size) +
                       mk_varint_size((int64_t)record->header_count);

    if (record->header_count > 0) body_size += headers_size(record);
    out = mk_varint_encode((int64_t)body_size, out);
    *out++ = 0; /* Attributes. */
    out = mk_varint_encode(timestamp_delta, out);
    out = mk_varint_encode(offset_delta, out);
    out = encode_bytes(record->key, record->key_size, out);
    out = encode_bytes(record->value, record->value_size, out);
    out = mk_varint_encode((int64_t)record->header_count, out);
    if (record->header_count > 0) out = encode_headers(record, out);
    return out;
}

/* Write an integer of one or two bytes. */
static inline uint8_t *put_short(uint64_t zigzag, uint8_t *out)
{
    if (zigzag < 0x80) {
        *out = (uint8_t)zigzag;
        return out + 1;
    }
    out[0] = (uint8_t)(zigzag | 0x80);
    out[1] = (uint8_t)(zigzag >> 7);
    return out + 2;
}

/* Copy bytes, sixteen at a time where that is no more than a few steps. */
static inline uint8_t *put_bytes(const void *data, size_t size, uint8_t *out)
{
    const uint8_t *from = data;
    const uint8_t *last = from + size - 16;
    uint8_t *end = out + size;

    if (size < 16 || size > 256) {
        memcpy(out, data, size);
        return end;
    }
    for (; from < last; from += 16, out += 16) {
        memcpy(out, from, 16);
    }
    memcpy(end - 16, last, 16);
    return end;
}

/* Sizes below this take no more than two bytes, whole records too. */
#define USUAL_SIZE 4000

uint8_t *mk_record_encode(const mk_record *record, int64_t timestamp_delta,
                          int32_t offset_delta, uint8_t *out)
{
    uint64_t time = mk_zigzag_encode(timestamp_delta);
    uint64_t offset = mk_zigzag_encode(offset_delta);
    size_t key = record->key_size, value = record->value_size;
    size_t body;

    if (MK_UNLIKELY((time | offset) >= 0x4000 || key >= USUAL_SIZE ||
                    value >= USUAL_SIZE || record->key == NULL ||
                    record->value == NULL || record->header_count > 0)) {
        return encode_any(record, timestamp_delta, offset_delta, out);
    }
    body = 6 + key + value + (time >= 0x80) + (offset >= 0x80) + (key >= 64) +
           (value >= 64);
    out = put_short(body * 2, out);
    *out++ = 0; /* Attributes. */
    out = put_short(time, out);
    out = put_short(offset, out);
    out = put_short(key * 2, out);
    out = put_bytes(record->key, key, out);
    out = put_short(value * 2, out);
    out = put_bytes(record->value, value, out);
    *out++ = 0; /* No headers. */
    return out;
}

/* ---- Decoding ---- */

/* The least that can stand behind the length: six integers of a byte each. */
#define BODY_MIN 6

/* Read a key, a name or a value. */
static const uint8_t *decode_bytes(const uint8_t *bytes, const uint8_t *end,
                                   mk_span *out)
{
    uint64_t zigzag = 0;
    ptrdiff_t left;

    bytes = mk_varint_read(bytes, end, &zigzag);
    if (bytes == NULL) return NULL;
    left = end - bytes;
    if ((zigzag & 1) != 0) { /* Negative. */
        *out = (mk_span){NULL, 0};
        return zigzag == 1 ? bytes : NULL;
    }
    if ((ptrdiff_t)(zigzag >> 1) > left) return NULL;
    *out = (mk_span){bytes, (size_t)(zigzag >> 1)};
    return bytes + (zigzag >> 1);
}

/* Walk `count` headers, which must end at `end`. */
static const uint8_t *check_headers(const uint8_t *bytes, const uint8_t *end,
                                    uint64_t count)
{
    mk_header header;

    if (count > (size_t)(end - bytes)) return NULL;
    for (uint64_t i = 0; i < count; i++) {
        bytes = mk_header_decode(bytes, end, &header);
        if (bytes == NULL) return NULL;
    }
    return bytes == end ? end : NULL;
}

/* Read all behind the length, which is at least BODY_MIN bytes. */
static const uint8_t *decode_body(const uint8_t *bytes, const uint8_t *end,
                                  mk_record_fields *out)
{
    uint64_t zigzag = 0;

    bytes = mk_varlong_read(bytes + 1, end, &zigzag); /* Behind attributes. */
    if (bytes == NULL) return NULL;
    out->timestamp_delta = mk_zigzag_decode(zigzag);
    bytes = mk_varint_read(bytes, end, &zigzag);
    if (bytes == NULL) return NULL;
    out->offset_delta = (int32_t)mk_zigzag_decode(zigzag);
    bytes = decode_bytes(bytes, end, &out->key);
    if (bytes == NULL) return NULL;
    bytes = decode_bytes(bytes, end, &out->value);
    if (bytes == NULL) return NULL;
    bytes = mk_varint_read(bytes, end, &zigzag);
    if (bytes == NULL || (zigzag & 1) != 0) return NULL;
    out->header_count = (uint32_t)(zigzag >> 1);
    out->headers = (mk_span){bytes, (size_t)(end - bytes)};
    return check_headers(bytes, end, zigzag >> 1);
}

const uint8_t *mk_record_decode_carefully(const uint8_t *bytes,
                                          const uint8_t *end,
                                          mk_record_fields *out)
{
    uint64_t zigzag = 0;

    bytes = mk_varint_read(bytes, end, &zigzag);
    if (bytes == NULL || (zigzag & 1) != 0 || zigzag < 2 * BODY_MIN ||
        (ptrdiff_t)(zigzag >> 1) > end - bytes) {
        return NULL;
    }
    return decode_body(bytes, bytes + (zigzag >> 1), out);
}

const uint8_t *mk_header_decode(const uint8_t *bytes, const uint8_t *end,
                                mk_header *out)
{
    mk_span name = {NULL, 0}, value = {NULL, 0};

    bytes = decode_bytes(bytes, end, &name);
    if (bytes == NULL || name.data == NULL) return NULL;
    bytes = decode_bytes(bytes, end, &value);
    if (bytes == NULL) return NULL;
    *out = (mk_header){name.data, name.size, value.data, value.size};
    return bytes;
}
