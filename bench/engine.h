/*
 * engine -- minikafka, as the benchmarks call it: an error ends the process.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "dataset.h"
#include "include/minikafka.h"
#include "meter.h"

/* End the process unless the status is MK_OK. */
void engine_check(mk_status status, const mk_error *err);

/* Open the log in `directory`. `segment_bytes` 0: the default. */
mk_log *engine_open(const char *directory, mk_mapping mapped,
                    int32_t segment_bytes);

void engine_close(mk_log *log);

/* Remove the log in `directory` and close it: what was not to be synced is not
 * synced by the closing, which says that the files are gone. */
void engine_discard(mk_log *log, const char *directory);

/* Append `count` records, a multiple of a batch, in batches of DATASET_BATCH.
 */
void engine_append_batches(mk_log *log, const uint8_t *items, size_t count);

/* Read the whole log and return its checksum. */
uint64_t engine_scan(mk_log *log, uint64_t *count);

/* Fill in what differs between records. A whole struct, made aside and copied,
 * costs more than its batch's encoding. */
static inline void engine_set_record(mk_record *record, const uint8_t *items,
                                     size_t i)
{
    const uint8_t *item = items + i * DATASET_ITEM_SIZE;

    record->key = item;
    record->key_size = DATASET_KEY_SIZE;
    record->value = item + DATASET_KEY_SIZE;
    record->value_size = DATASET_VALUE_SIZE;
    record->timestamp_ms = dataset_time_ms(i);
}

#endif /* BENCH_ENGINE_H */
