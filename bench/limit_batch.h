/*
 * limit_batch -- batches in Kafka's format with the least work: the engine's
 * code has no part in it.
 */
#ifndef BENCH_LIMIT_BATCH_H
#define BENCH_LIMIT_BATCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "codec/crc32c.h"
#include "dataset.h"

#define BATCH_HEADER    61u
#define CRC_AT          17u /* Of the checksum, */
#define CHECKED_FROM    21u /* ... of what it covers, */
#define COUNT_AT        57u /* ... of the record count, in a batch. */
#define RECORD_SIZE_MAX (DATASET_ITEM_SIZE + 11)

static inline uint8_t *put_unsigned(uint8_t *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *out++ = (uint8_t)(value | 0x80);
    }
    *out++ = (uint8_t)value;
    return out;
}

static inline uint8_t *put_signed(uint8_t *out, int64_t value)
{
    return put_unsigned(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static inline uint8_t *put_record(uint8_t *out, unsigned delta,
                                  const uint8_t *item)
{
    const unsigned delta_size = delta < 64 ? 1 : 2;

    out = put_signed(out, 5 + 2 * delta_size + DATASET_ITEM_SIZE);
    *out++ = 0;
    out = put_signed(out, delta);
    out = put_signed(out, delta);
    out = put_signed(out, DATASET_KEY_SIZE);
    memcpy(out, item, DATASET_KEY_SIZE);
    out = put_signed(out + DATASET_KEY_SIZE, DATASET_VALUE_SIZE);
    memcpy(out, item + DATASET_KEY_SIZE, DATASET_VALUE_SIZE);
    out += DATASET_VALUE_SIZE;
    *out++ = 0;
    return out;
}

/* Build the batch of the records [first, first + count) and return its size. */
static inline size_t limit_build(uint8_t *batch, const uint8_t *items,
                                 size_t first, size_t count)
{
    uint8_t *out = batch + BATCH_HEADER;
    size_t size;

    for (unsigned i = 0; i < count; i++) {
        out = put_record(out, i, items + (first + i) * DATASET_ITEM_SIZE);
    }
    size = (size_t)(out - batch);
    mk_store_u64(batch, first);
    mk_store_u32(batch + 8, (uint32_t)size - 12);
    mk_store_u32(batch + 12, 0); /* Leader epoch. */
    batch[16] = 2;               /* Magic. */
    mk_store_u16(batch + 21, 0); /* Attributes. */
    mk_store_u32(batch + 23, (uint32_t)count - 1);
    mk_store_u64(batch + 27, (uint64_t)dataset_time_ms(first));
    mk_store_u64(batch + 35, (uint64_t)dataset_time_ms(first + count - 1));
    memset(batch + 43, 0xff, 14); /* No producer id, epoch and sequence. */
    mk_store_u32(batch + COUNT_AT, (uint32_t)count);
    mk_store_u32(batch + CRC_AT,
                 mk_crc32c(0, batch + CHECKED_FROM, size - CHECKED_FROM));
    return size;
}

static inline size_t limit_batch_size(const uint8_t *batch)
{
    return 12 + mk_load_u32(batch + 8);
}

static inline void limit_check(const uint8_t *batch, size_t size)
{
    uint32_t sum = mk_crc32c(0, batch + CHECKED_FROM, size - CHECKED_FROM);

    if (sum == mk_load_u32(batch + CRC_AT)) return;
    fputs("limit: a checksum does not agree\n", stderr);
    exit(1);
}

#endif /* BENCH_LIMIT_BATCH_H */
