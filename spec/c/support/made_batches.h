/*
 * made_batches -- segments as another writer may have left them: batches with
 * gaps, segments without records.
 */
#ifndef MK_SUPPORT_MADE_BATCHES_H
#define MK_SUPPORT_MADE_BATCHES_H

#include "support/log_world.h"

#include "codec/batch.h"

#define MADE_SIZE 4096

/* The log of a segment in the making. */
typedef struct made_log {
    uint8_t bytes[MADE_SIZE];
    size_t size;
} made_log;

/* Add a batch that reaches from `base_offset` to `last_offset`. Its records
 * are as in log_world; one may be "+3", which leaves out so many offsets. */
static inline void make_batch(made_log *log, int64_t base_offset,
                              const char *text, int64_t last_offset)
{
    mk_batch batch = {
        .base_offset = base_offset,
        .producer_id = -1,
        .producer_epoch = -1,
        .base_sequence = -1,
    };
    mk_batch_builder builder;
    int32_t delta = 0;

    mk_batch_builder_init(&builder, log->bytes + log->size);
    while (*text != '\0') {
        mk_record record;

        if (*text == '+') {
            delta += (int32_t)strtol(text + 1, NULL, 10);
            text += strcspn(text, ",");
            text += *text == ',';
            continue;
        }
        text = parse_record(text, &record);
        if (record.timestamp_ms == MK_TIMESTAMP_NOW) record.timestamp_ms = 7;
        mk_batch_builder_add(&builder, &record, record.timestamp_ms, delta++);
        assert_true(log->size + mk_batch_builder_size(&builder) < MADE_SIZE);
    }
    builder.last_offset_delta = (int32_t)(last_offset - base_offset);
    mk_batch_builder_seal(&builder, &batch);
    log->size += batch.size;
}

/* Put the log where a segment's is, and forget it. */
static inline void put_segment(log_world *world, int64_t base_offset,
                               made_log *log)
{
    if (!exists(world->where)) assert_int_equal(mkdir(world->where, 0755), 0);
    store(segment_file(world, base_offset, ".log"), log->bytes, log->size);
    log->size = 0;
}

#endif /* MK_SUPPORT_MADE_BATCHES_H */
