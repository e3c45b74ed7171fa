/*
 * batch_judge -- what one can find out about some bytes that may be a batch,
 * and ways to change them.
 */
#ifndef MK_SUPPORT_BATCH_JUDGE_H
#define MK_SUPPORT_BATCH_JUDGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "codec/batch.h"
#include "codec/crc32c.h"

/* Places in a header. */
enum {
    AT_BASE_OFFSET = 0,
    AT_SIZE = 8,
    AT_LEADER_EPOCH = 12,
    AT_MAGIC = 16,
    AT_CRC = 17,
    AT_ATTRIBUTES = 21,
    AT_LAST_OFFSET_DELTA = 23,
    AT_RECORD_COUNT = 57,
    AT_RECORDS = 61,
};

/* What one can find out about some bytes without anything around them. */
typedef enum verdict {
    GOOD,
    PARTIAL,
    OLD,
    BAD_HEADER,
    BAD_CHECKSUM,
    BAD_RECORDS,
} verdict;

/* A copy in a block of exactly its size, so that reading on is noticed. */
static inline uint8_t *exact_copy(const uint8_t *bytes, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1);

    assert_non_null(block);
    if (size > 0) memcpy(block, bytes, size);
    return block;
}

static inline void check_inside(mk_span span, mk_span whole)
{
    if (span.data == NULL) return;
    assert_true(span.data >= whole.data);
    assert_true(span.size <= whole.size);
    assert_true(span.data + span.size <= whole.data + whole.size);
}

/* Decode all records, each of which must lie within. */
static inline verdict judge_records(const uint8_t *bytes, const mk_batch *batch)
{
    mk_span records = mk_batch_records(bytes, batch);
    const uint8_t *end = records.data + records.size;
    const uint8_t *next = records.data;
    mk_record_fields fields;

    for (int32_t i = 0; i < batch->record_count; i++) {
        next = mk_record_decode(next, end, &fields);
        if (next == NULL) return BAD_RECORDS;
        check_inside(fields.key, records);
        check_inside(fields.value, records);
        check_inside(fields.headers, records);
    }
    return next == end ? GOOD : BAD_RECORDS;
}

static inline verdict judge_block(const uint8_t *block, size_t size)
{
    mk_batch batch;

    switch (mk_batch_peek((mk_span){block, size}, &batch)) {
    case MK_BATCH_PARTIAL:
        assert_true(batch.size == 0 || batch.size > size);
        return PARTIAL;
    case MK_BATCH_OLD:
        return OLD;
    case MK_BATCH_DAMAGED:
        return BAD_HEADER;
    case MK_BATCH_WHOLE:
        break;
    }
    assert_true(batch.size >= AT_RECORDS && batch.size <= size);
    assert_true(batch.base_offset >= 0);
    assert_true(mk_batch_last_offset(&batch) >= batch.base_offset);
    assert_true(mk_batch_next_offset(&batch) > batch.base_offset);
    if (!mk_batch_checksum_agrees(block, &batch)) return BAD_CHECKSUM;
    if ((batch.attributes & MK_ATTRIBUTE_CODEC) != 0) return GOOD;
    return judge_records(block, &batch);
}

static inline verdict judge(const uint8_t *bytes, size_t size)
{
    uint8_t *block = exact_copy(bytes, size);
    verdict found = judge_block(block, size);

    free(block);
    return found;
}

/* Make the checksum agree again with what stands there. */
static inline void reseal(uint8_t *bytes, size_t size)
{
    mk_store_u32(bytes + AT_CRC,
                 mk_crc32c(0, bytes + AT_ATTRIBUTES, size - AT_ATTRIBUTES));
}

static inline void store(uint8_t *bytes, size_t width, uint64_t value)
{
    for (size_t i = width; i-- > 0; value >>= 8) {
        bytes[i] = (uint8_t)value;
    }
}

#endif /* MK_SUPPORT_BATCH_JUDGE_H */
