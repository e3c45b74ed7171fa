/*
 * batch -- a v2 record batch: its header, its checksum, building and walking.
 */
#ifndef MK_CODEC_BATCH_H
#define MK_CODEC_BATCH_H

#include "codec/record.h"

#define MK_BATCH_HEADER_SIZE 61u         /* The least that a v2 batch takes. */
#define MK_BATCH_PREFIX_SIZE 17u         /* Enough to know magic and size. */
#define MK_BATCH_SIZE_MIN    (12u + 14u) /* A size field below 14 is damage. */

#define MK_ATTRIBUTE_CODEC          0x07
#define MK_ATTRIBUTE_APPEND_TIME    0x08
#define MK_ATTRIBUTE_TRANSACTIONAL  0x10
#define MK_ATTRIBUTE_CONTROL        0x20
#define MK_ATTRIBUTE_DELETE_HORIZON 0x40

/* The header of a batch, decoded. */
typedef struct mk_batch {
    int64_t base_offset;
    uint32_t size; /* All of it, this header included. */
    int32_t leader_epoch;
    int8_t magic;
    uint32_t crc;
    uint16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp; /* Or the delete horizon, as the attributes say. */
    int64_t max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t record_count;
} mk_batch;

static inline int64_t mk_batch_last_offset(const mk_batch *batch)
{
    return batch->base_offset + batch->last_offset_delta;
}

static inline int64_t mk_batch_next_offset(const mk_batch *batch)
{
    return batch->base_offset + batch->last_offset_delta + 1;
}

static inline bool mk_batch_is_control(const mk_batch *batch)
{
    return (batch->attributes & MK_ATTRIBUTE_CONTROL) != 0;
}

/* What stands at some place in a log. */
typedef enum mk_batch_found {
    MK_BATCH_WHOLE,   /* A batch, as its header tells; `out` is filled. */
    MK_BATCH_PARTIAL, /* The bytes end before the batch does. `out->size` is
                         what it wants, or 0 when they are fewer than
                         MK_BATCH_PREFIX_SIZE. When they hold the header, all of
                         `out` is filled, and checked as for WHOLE: so a scan
                         may read headers alone. */
    MK_BATCH_DAMAGED, /* No batch: size, magic, offsets or count can't be. `out`
                         means nothing. */
    MK_BATCH_OLD,     /* A message of format 0 or 1; base_offset, size and
                         magic are filled. The bytes may end before it does. */
} mk_batch_found;

/* Look at the batch at the start of `bytes` by its header alone. Checked are:
 * size field, magic, no negative offset, last offset delta >= 0, next offset
 * <= INT64_MAX, record count 0..last offset delta + 1, room for the records
 * (without a codec: of the least size each). */
mk_batch_found mk_batch_peek(mk_span bytes, mk_batch *out);

/* Return the size of the whole batch at the start of `bytes` if its header says
 * that it ends below `offset`, else 0: a look that is enough to pass it over.
 */
static inline size_t mk_batch_size_if_below(mk_span bytes, int64_t offset)
{
    int64_t base_offset;
    uint32_t size, delta;

    if (bytes.size < MK_BATCH_HEADER_SIZE || bytes.data[16] != 2) return 0;
    base_offset = (int64_t)mk_load_u64(bytes.data);
    size = mk_load_u32(bytes.data + 8);
    delta = mk_load_u32(bytes.data + 23);
    if (base_offset < 0 || base_offset >= offset || delta > INT32_MAX ||
        (int64_t)delta >= offset - base_offset ||
        size < MK_BATCH_HEADER_SIZE - 12 || size > bytes.size - 12) {
        return 0;
    }
    return (size_t)size + 12;
}

/* Does the checksum of the whole batch at `bytes` agree with its header? */
bool mk_batch_checksum_agrees(const uint8_t *bytes, const mk_batch *batch);

/* Does the checksum of the whole message of format 0 or 1 at `bytes` agree?
 * What peeking takes for an old message may be a torn batch. */
bool mk_batch_old_checksum_agrees(const uint8_t *bytes, const mk_batch *batch);

/* Write `batch` as a header at `bytes`, with `batch->size` and all, then
 * compute and store the checksum over what follows, in `batch->crc` too. The
 * magic is 2, whatever `batch->magic` says. */
void mk_batch_seal(uint8_t *bytes, mk_batch *batch);

/* Return the time of a record of the batch. A damaged delta gives a wrong time,
 * no overflow. */
static inline int64_t mk_batch_timestamp(const mk_batch *batch,
                                         int64_t timestamp_delta)
{
    if ((batch->attributes & MK_ATTRIBUTE_APPEND_TIME) != 0) {
        return batch->max_timestamp;
    }
    return (int64_t)((uint64_t)batch->base_timestamp +
                     (uint64_t)timestamp_delta);
}

/* Return the bytes of the records of the batch at `bytes`. */
static inline mk_span mk_batch_records(const uint8_t *bytes,
                                       const mk_batch *batch)
{
    return (mk_span){bytes + MK_BATCH_HEADER_SIZE,
                     batch->size - MK_BATCH_HEADER_SIZE};
}

/*
 * A batch in the making: records are encoded one after the other behind room
 * for the header, which mk_batch_builder_seal() fills in. Before that, whoever
 * wants others (a rewritten batch keeps its range) may set the maximum
 * timestamp and the last offset delta.
 */
typedef struct mk_batch_builder {
    uint8_t *bytes;              /* Borrowed: where the batch lies. */
    uint8_t *next;               /* Where the next record goes. */
    int64_t base_timestamp;      /* Of the first record; -1 without records. */
    int64_t max_timestamp;       /* -1 when no record has a time. */
    int64_t max_timestamp_delta; /* Offset delta of the first record that has
                                    it; -1 when no record has a time. */
    int32_t last_offset_delta;   /* -1 without records. */
    int32_t record_count;
} mk_batch_builder;

/* Begin a batch at `bytes`. */
void mk_batch_builder_init(mk_batch_builder *builder, uint8_t *bytes);

/* Add a record. Its offset delta is larger than the last one's, and there is
 * room for mk_record_bound() bytes behind builder->next. */
static inline void mk_batch_builder_add(mk_batch_builder *builder,
                                        const mk_record *record,
                                        int64_t timestamp_ms,
                                        int32_t offset_delta)
{
    uint64_t delta;

    MK_ASSERT(offset_delta > builder->last_offset_delta);
    if (builder->record_count == 0) builder->base_timestamp = timestamp_ms;
    if (timestamp_ms > builder->max_timestamp) {
        builder->max_timestamp = timestamp_ms;
        builder->max_timestamp_delta = offset_delta;
    }
    /* From -1 to INT64_MAX it wraps, and adding wraps back. */
    delta = (uint64_t)timestamp_ms - (uint64_t)builder->base_timestamp;
    builder->next =
        mk_record_encode(record, (int64_t)delta, offset_delta, builder->next);
    builder->last_offset_delta = offset_delta;
    builder->record_count++;
}

static inline size_t mk_batch_builder_size(const mk_batch_builder *builder)
{
    return (size_t)(builder->next - builder->bytes);
}

/* Fill in size, times, last offset delta and record count of `batch` from the
 * builder, and seal. The other members are the caller's. The batch is no larger
 * than INT32_MAX. */
void mk_batch_builder_seal(const mk_batch_builder *builder, mk_batch *batch);

#endif /* MK_CODEC_BATCH_H */
