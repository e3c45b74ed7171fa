/* record -- encoding and decoding; the header draws the format. */
#include "codec/record.h"

#include "base/poison.h"

/* The integers of a record without headers: attributes, length, timestamp,
 * offset, key and value size, header count. */
#define INTEGERS_MAX (1 + 5 * MK_VARINT_SIZE_MAX + MK_VARLONG_SIZE_MAX)

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

size_t mk_record_bound(const mk_record *record)
{
    size_t key_size = record->key != NULL ? record->key_size : 0;
    size_t value_size = record->value != NULL ? record->value_size : 0;
    uint64_t bound = INTEGERS_MAX;

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

uint8_t *mk_record_encode(const mk_record *record, int64_t timestamp_delta,
                          int32_t offset_delta, uint8_t *out)
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

/* ---- Decoding ---- */

const uint8_t *mk_record_check_headers(const uint8_t *bytes, const uint8_t *end,
                                       uint64_t count)
{
    mk_header header;

    if (bytes > end || count > (size_t)(end - bytes)) return NULL;
    for (uint64_t i = 0; i < count; i++) {
        bytes = mk_header_decode(bytes, end, &header);
        if (bytes == NULL) return NULL;
    }
    return bytes == end ? end : NULL;
}

const uint8_t *mk_record_decode_carefully(const uint8_t *bytes,
                                          const uint8_t *end,
                                          mk_record_fields *out)
{
    uint64_t zigzag = 0;

    bytes = mk_varint_read(bytes, end, &zigzag);
    if (bytes == NULL || !mk_record_can_be_length(zigzag, end - bytes)) {
        return NULL;
    }
    return mk_record_decode_body(bytes, bytes + (zigzag >> 1), false, out);
}

const uint8_t *mk_header_decode(const uint8_t *bytes, const uint8_t *end,
                                mk_header *out)
{
    mk_span name = {NULL, 0}, value = {NULL, 0};

    bytes = mk_record_decode_bytes(bytes, end, false, &name);
    if (bytes == NULL || name.data == NULL) return NULL;
    bytes = mk_record_decode_bytes(bytes, end, false, &value);
    if (bytes == NULL) return NULL;
    *out = (mk_header){name.data, name.size, value.data, value.size};
    return bytes;
}
