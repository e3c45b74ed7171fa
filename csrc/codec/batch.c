/*
 * Format of a v2 batch, integers big-endian:
 *
 *      0  [8 bytes] base offset
 *      8  [4 bytes] size of what follows: the batch's size - 12
 *     12  [4 bytes] leader epoch
 *     16  [1 byte]  magic, 2
 *     17  [4 bytes] CRC-32C of all that follows
 *     21  [2 bytes] attributes
 *     23  [4 bytes] last offset - base offset
 *     27  [8 bytes] base timestamp
 *     35  [8 bytes] maximum timestamp
 *     43  [8 bytes] producer id
 *     51  [2 bytes] producer epoch
 *     53  [4 bytes] base sequence
 *     57  [4 bytes] record count
 *     61  records, compressed as one if the attributes name a codec
 *
 * Up to the magic, formats 0 and 1 have the same fields in the same places.
 */
#include "codec/batch.h"

#include "base/check.h"
#include "codec/crc32.h"
#include "codec/crc32c.h"

#include "base/poison.h"

#define AT_SIZE              8
#define AT_LEADER_EPOCH      12
#define AT_MAGIC             16
#define AT_OLD_CRC           12 /* Formats 0 and 1: CRC-32 from the magic on. */
#define AT_CRC               17
#define AT_ATTRIBUTES        21
#define AT_LAST_OFFSET_DELTA 23
#define AT_BASE_TIMESTAMP    27
#define AT_MAX_TIMESTAMP     35
#define AT_PRODUCER_ID       43
#define AT_PRODUCER_EPOCH    51
#define AT_BASE_SEQUENCE     53
#define AT_RECORD_COUNT      57

#define MAGIC         2
#define SIZE_OVERHEAD 12u /* Bytes that the size field does not count. */
#define RECORD_MIN    7   /* Bytes of the smallest record, with its length. */

/* Read the fields that all formats share. */
static void decode_prefix(const uint8_t *bytes, mk_batch *out)
{
    *out = (mk_batch){
        .base_offset = (int64_t)mk_load_u64(bytes),
        .size = mk_load_u32(bytes + AT_SIZE) + SIZE_OVERHEAD,
        .leader_epoch = (int32_t)mk_load_u32(bytes + AT_LEADER_EPOCH),
        .magic = (int8_t)bytes[AT_MAGIC],
    };
}

static void decode_rest(const uint8_t *bytes, mk_batch *out)
{
    out->crc = mk_load_u32(bytes + AT_CRC);
    out->attributes = mk_load_u16(bytes + AT_ATTRIBUTES);
    out->last_offset_delta = (int32_t)mk_load_u32(bytes + AT_LAST_OFFSET_DELTA);
    out->base_timestamp = (int64_t)mk_load_u64(bytes + AT_BASE_TIMESTAMP);
    out->max_timestamp = (int64_t)mk_load_u64(bytes + AT_MAX_TIMESTAMP);
    out->producer_id = (int64_t)mk_load_u64(bytes + AT_PRODUCER_ID);
    out->producer_epoch = (int16_t)mk_load_u16(bytes + AT_PRODUCER_EPOCH);
    out->base_sequence = (int32_t)mk_load_u32(bytes + AT_BASE_SEQUENCE);
    out->record_count = (int32_t)mk_load_u32(bytes + AT_RECORD_COUNT);
}

/* Can offsets and count be what they are? */
static bool header_is_sane(const mk_batch *batch)
{
    int64_t count = batch->record_count;
    int64_t delta = batch->last_offset_delta;

    if (delta < 0 || count < 0 || count > delta + 1) return false;
    /* The next offset must be a number, too. */
    if (batch->base_offset > INT64_MAX - 1 - delta) return false;
    if ((batch->attributes & MK_ATTRIBUTE_CODEC) != MK_CODEC_NONE) return true;
    return count * RECORD_MIN <= (int64_t)batch->size - MK_BATCH_HEADER_SIZE;
}

mk_batch_found mk_batch_peek(mk_span bytes, mk_batch *out)
{
    uint32_t size_field;

    *out = (mk_batch){0};
    if (bytes.size < MK_BATCH_PREFIX_SIZE) return MK_BATCH_PARTIAL;

    decode_prefix(bytes.data, out);
    size_field = mk_load_u32(bytes.data + AT_SIZE);
    if (size_field < MK_BATCH_SIZE_MIN - SIZE_OVERHEAD) return MK_BATCH_DAMAGED;
    if (size_field > INT32_MAX || out->base_offset < 0) return MK_BATCH_DAMAGED;
    if (out->magic == 0 || out->magic == 1) return MK_BATCH_OLD;
    if (out->magic != MAGIC) return MK_BATCH_DAMAGED;
    if (out->size < MK_BATCH_HEADER_SIZE) return MK_BATCH_DAMAGED;
    if (bytes.size < MK_BATCH_HEADER_SIZE) return MK_BATCH_PARTIAL;

    decode_rest(bytes.data, out);
    if (!header_is_sane(out)) return MK_BATCH_DAMAGED;
    return bytes.size < out->size ? MK_BATCH_PARTIAL : MK_BATCH_WHOLE;
}

static uint32_t checksum(const uint8_t *bytes, uint32_t size)
{
    return mk_crc32c(0, bytes + AT_ATTRIBUTES, size - AT_ATTRIBUTES);
}

bool mk_batch_checksum_agrees(const uint8_t *bytes, const mk_batch *batch)
{
    return checksum(bytes, batch->size) == batch->crc;
}

bool mk_batch_old_checksum_agrees(const uint8_t *bytes, const mk_batch *batch)
{
    uint32_t stored = mk_load_u32(bytes + AT_OLD_CRC);

    return mk_crc32(bytes + AT_MAGIC, batch->size - AT_MAGIC) == stored;
}

void mk_batch_seal(uint8_t *bytes, mk_batch *batch)
{
    MK_ASSERT(batch->size >= MK_BATCH_HEADER_SIZE);
    mk_store_u64(bytes, (uint64_t)batch->base_offset);
    mk_store_u32(bytes + AT_SIZE, batch->size - SIZE_OVERHEAD);
    mk_store_u32(bytes + AT_LEADER_EPOCH, (uint32_t)batch->leader_epoch);
    bytes[AT_MAGIC] = MAGIC;
    mk_store_u16(bytes + AT_ATTRIBUTES, batch->attributes);
    mk_store_u32(bytes + AT_LAST_OFFSET_DELTA,
                 (uint32_t)batch->last_offset_delta);
    mk_store_u64(bytes + AT_BASE_TIMESTAMP, (uint64_t)batch->base_timestamp);
    mk_store_u64(bytes + AT_MAX_TIMESTAMP, (uint64_t)batch->max_timestamp);
    mk_store_u64(bytes + AT_PRODUCER_ID, (uint64_t)batch->producer_id);
    mk_store_u16(bytes + AT_PRODUCER_EPOCH, (uint16_t)batch->producer_epoch);
    mk_store_u32(bytes + AT_BASE_SEQUENCE, (uint32_t)batch->base_sequence);
    mk_store_u32(bytes + AT_RECORD_COUNT, (uint32_t)batch->record_count);
    batch->crc = checksum(bytes, batch->size);
    mk_store_u32(bytes + AT_CRC, batch->crc);
}

void mk_batch_builder_init(mk_batch_builder *builder, uint8_t *bytes)
{
    *builder = (mk_batch_builder){
        .bytes = bytes,
        .next = bytes + MK_BATCH_HEADER_SIZE,
        .base_timestamp = MK_TIMESTAMP_NONE,
        .max_timestamp = MK_TIMESTAMP_NONE,
        .max_timestamp_delta = -1,
        .last_offset_delta = -1,
    };
}

void mk_batch_builder_seal(const mk_batch_builder *builder, mk_batch *batch)
{
    size_t size = mk_batch_builder_size(builder);

    MK_ASSERT(size <= INT32_MAX);
    MK_ASSERT(builder->last_offset_delta >= 0);
    batch->size = (uint32_t)size;
    batch->base_timestamp = builder->base_timestamp;
    batch->max_timestamp = builder->max_timestamp;
    batch->last_offset_delta = builder->last_offset_delta;
    batch->record_count = builder->record_count;
    mk_batch_seal(builder->bytes, batch);
}
