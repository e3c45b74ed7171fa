/* append -- validation, building, and the write. */
#include "log/append.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "log/segment_indexes.h"

#include "base/poison.h"

/* ---- Validation ---- */

/* Is `later` more than `limit` behind `earlier`? */
static bool differs_by_more(int64_t later, int64_t earlier, int64_t limit)
{
    int64_t difference;

    if (later <= earlier) return false;
    return __builtin_sub_overflow(later, earlier, &difference) ||
           difference > limit;
}

static mk_status check_timestamp(const mk_config *config, int64_t timestamp_ms,
                                 int64_t now_ms, mk_error *err)
{
    if (timestamp_ms <= MK_TIMESTAMP_NOW + 1) {
        return mk_fail(err, MK_INVALID_TIMESTAMP,
                       "the least of all integers is no timestamp");
    }
    if (timestamp_ms < MK_TIMESTAMP_NONE) {
        return mk_fail(err, MK_INVALID_TIMESTAMP,
                       "timestamp %" PRId64 " is below -1", timestamp_ms);
    }
    if (timestamp_ms == MK_TIMESTAMP_NONE || now_ms == MK_TIMESTAMP_NOW ||
        config->message_timestamp_type != 0) {
        return MK_OK;
    }
    if (differs_by_more(now_ms, timestamp_ms,
                        config->message_timestamp_before_max_ms)) {
        return mk_fail(err, MK_INVALID_TIMESTAMP,
                       "timestamp %" PRId64 " is more than %" PRId64
                       " ms before the clock's %" PRId64,
                       timestamp_ms, config->message_timestamp_before_max_ms,
                       now_ms);
    }
    if (differs_by_more(timestamp_ms, now_ms,
                        config->message_timestamp_after_max_ms)) {
        return mk_fail(err, MK_INVALID_TIMESTAMP,
                       "timestamp %" PRId64 " is more than %" PRId64
                       " ms after the clock's %" PRId64,
                       timestamp_ms, config->message_timestamp_after_max_ms,
                       now_ms);
    }
    return MK_OK;
}

mk_status mk_log_check_record_locked(const mk_log *log, const mk_record *record,
                                     int64_t now_ms, int64_t *timestamp_ms,
                                     mk_error *err)
{
    int64_t time = record->timestamp_ms;

    if (time == MK_TIMESTAMP_NOW) time = now_ms;
    *timestamp_ms = time;
    if (MK_UNLIKELY(record->key == NULL &&
                    (log->config.cleanup_policy & MK_POLICY_COMPACT) != 0)) {
        return mk_fail(err, MK_INVALID_RECORD,
                       "a compacted log takes no record without a key");
    }
    if (MK_LIKELY(time >= 0 && now_ms == MK_TIMESTAMP_NOW)) return MK_OK;
    return check_timestamp(&log->config, time, now_ms, err);
}

mk_status mk_log_fail_too_large_locked(const mk_log *log, uint64_t size,
                                       mk_error *err)
{
    int64_t limit = log->config.max_message_bytes;
    const char *name = "max_message_bytes";

    if (log->config.segment_bytes < limit) {
        limit = log->config.segment_bytes;
        name = "segment_bytes";
    }
    return mk_fail(err, MK_RECORD_TOO_LARGE,
                   "a batch of %" PRIu64 " bytes is larger than %s, %" PRId64,
                   size, name, limit);
}

/* ---- Building ---- */

/* A size, or if it is far too large, one that is but that can be added up. That
 * of a null is not read. */
static uint64_t capped(const void *data, size_t size)
{
    if (data == NULL) return 0;
    return size > INT32_MAX ? (uint64_t)INT32_MAX + 1 : size;
}

/* Bytes of keys, values and headers: what a batch has at the least. */
static uint64_t payload_size(const mk_record *record)
{
    uint64_t size = capped(record->key, record->key_size) +
                    capped(record->value, record->value_size);

    for (size_t i = 0; i < record->header_count; i++) {
        const mk_header *header = &record->headers[i];

        size += capped(header->name, header->name_size);
        size += capped(header->value, header->value_size);
    }
    return size;
}

mk_status mk_log_bound_records_locked(const mk_log *log,
                                      const mk_record *records, size_t count,
                                      size_t *out, mk_error *err)
{
    uint64_t max = mk_log_batch_size_max_locked(log);
    uint64_t payload = MK_BATCH_HEADER_SIZE;
    size_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        size_t bound = mk_record_bound(&records[i]);

        payload += mk_record_is_usual(&records[i])
                       ? bound - MK_RECORD_INTEGERS_MAX
                       : payload_size(&records[i]);
        if (MK_UNLIKELY(payload > max)) {
            mk_status status = mk_log_fail_too_large_locked(log, payload, err);

            if (err != NULL) err->record_index = (int64_t)i;
            return status;
        }
        if (MK_UNLIKELY(bound == SIZE_MAX)) {
            mk_fail(err, MK_INVALID_RECORD, "a header needs a name");
            if (err != NULL) err->record_index = (int64_t)i;
            return MK_INVALID_RECORD;
        }
        sum += bound;
    }
    *out = sum;
    return MK_OK;
}

/* Records that the processor gets from memory while others are encoded. */
#define FETCH_AHEAD 8

/* Begin to get a record's bytes; those of a long one come by themselves. */
static void fetch_ahead(const mk_record *record)
{
    const uint8_t *value = record->value;

    __builtin_prefetch(record->key);
    __builtin_prefetch(value);
    if (value != NULL && record->value_size > 64) {
        __builtin_prefetch(value + 64);
    }
}

/* The record after those in the batch was refused. If the batch is larger than
 * messages may be, that is what Kafka says of it. */
static mk_status refuse(const mk_log *log, const mk_record *records,
                        size_t count, int64_t now_ms, mk_waiting *out,
                        mk_status status, mk_error *err)
{
    mk_batch_builder *builder = &out->builder;
    int32_t refused = builder->record_count;
    size_t size;

    for (int32_t i = refused; (size_t)i < count; i++) {
        int64_t timestamp_ms = records[i].timestamp_ms;

        if (timestamp_ms == MK_TIMESTAMP_NOW) timestamp_ms = now_ms;
        mk_batch_builder_add(builder, &records[i], timestamp_ms, i);
    }
    size = mk_batch_builder_size(builder);
    if ((int64_t)size > log->config.max_message_bytes) {
        return mk_log_fail_too_large_locked(log, size, err);
    }
    if (err != NULL) err->record_index = refused;
    return status;
}

mk_status mk_log_build_locked(mk_log *log, const mk_record *records,
                              size_t count, int64_t now_ms, mk_waiting *out,
                              mk_error *err)
{
    mk_file *file = mk_log_active_locked(log)->log.file;
    uint8_t *bytes = NULL;
    size_t bound = 0;
    mk_status status;

    status = mk_log_bound_records_locked(log, records, count, &bound, err);
    if (status != MK_OK) return status;
    status =
        mk_file_tail_reserve(file, MK_BATCH_HEADER_SIZE + bound, &bytes, err);
    if (status != MK_OK) return status;
    out->in_tail = true;
    out->admitted = false;
    mk_batch_builder_init(&out->builder, bytes);
    for (size_t i = 0; i < count; i++) {
        int64_t timestamp_ms;

        status = mk_log_check_record_locked(log, &records[i], now_ms,
                                            &timestamp_ms, err);
        if (MK_UNLIKELY(status != MK_OK)) {
            return refuse(log, records, count, now_ms, out, status, err);
        }
        if (i + FETCH_AHEAD < count) fetch_ahead(&records[i + FETCH_AHEAD]);
        mk_batch_builder_add(&out->builder, &records[i], timestamp_ms,
                             (int32_t)i);
    }
    return MK_OK;
}

/* ---- The write ---- */

/* Must the active segment roll before this batch (rules of Kafka's 3.2)?
 * MK_END: that depends on the time of day. */
static mk_status must_roll(const mk_log *log, const mk_batch *batch,
                           int64_t now_ms, bool *roll)
{
    const mk_config *config = &log->config;
    const mk_segment *active = mk_log_active_locked(log);
    size_t offsets_max = (size_t)active->index_bytes_max / MK_OFFSET_ENTRY_SIZE;
    size_t times_max = (size_t)active->index_bytes_max / MK_TIME_ENTRY_SIZE;

    *roll = true;
    if (active->log_bytes > config->segment_bytes - batch->size) return MK_OK;
    if (active->offsets.count >= offsets_max) return MK_OK;
    if (active->times.count + 1 >= times_max) return MK_OK;
    if (!mk_segment_fits(active, mk_batch_last_offset(batch))) return MK_OK;
    *roll = false;
    if (active->log_bytes > 0) {
        int64_t limit_ms = mk_config_roll_ms(config) - active->jitter_ms;
        int64_t since_ms = active->first_timestamp_ms;
        int64_t until_ms = batch->max_timestamp;

        if (since_ms < 0) {
            if (now_ms == MK_TIMESTAMP_NOW) return MK_END;
            since_ms = active->created_ms;
            until_ms = now_ms;
        }
        *roll = until_ms >= 0 && since_ms <= until_ms &&
                until_ms - since_ms > limit_ms;
    }
    return MK_OK;
}

/* Take back what a failed write may have left in the file. */
static void undo_write(mk_log *log, const mk_error *cause)
{
    mk_segment *active = mk_log_active_locked(log);
    mk_error err;

    if (cause->status == MK_CORRUPT_SEGMENT) {
        mk_log_doubt_tail_locked(log, cause);
    } else if (mk_file_truncate(active->log.file, active->log_bytes, &err) !=
               MK_OK) {
        mk_log_doubt_tail_locked(log, cause);
    }
}

/* Make the sealed batch, in the tail or elsewhere, the kernel's. */
static mk_status write_batch(mk_log *log, const uint8_t *bytes, size_t size,
                             bool in_tail, mk_error *err)
{
    mk_file *file = mk_log_active_locked(log)->log.file;
    mk_status status = in_tail ? mk_file_tail_commit(file, size, err)
                               : mk_file_tail_append(file, bytes, size, err);

    if (MK_UNLIKELY(status != MK_OK)) undo_write(log, err);
    return status;
}

/* Roll for a batch that was built in the old tail: it moves over to a spare
 * buffer. */
static mk_status roll_for(mk_log *log, mk_waiting *waiting, int64_t now_ms,
                          mk_error *err)
{
    size_t size = mk_batch_builder_size(&waiting->builder);
    mk_status status;

    if (waiting->in_tail) {
        status = mk_scratch_reserve(&log->spare, size, err);
        if (status != MK_OK) return status;
        memcpy(log->spare.data, waiting->builder.bytes, size);
        waiting->builder.bytes = log->spare.data;
        waiting->builder.next = log->spare.data + size;
        waiting->in_tail = false;
    }
    return mk_log_roll_locked(log, now_ms, err);
}

/* Fill in all that a batch says of itself but its checksum. */
static void describe(const mk_log *log, mk_waiting *waiting, int64_t now_ms)
{
    mk_batch *batch = &waiting->batch;

    batch->base_offset = log->log_end_offset;
    batch->magic = 2;
    batch->size = (uint32_t)mk_batch_builder_size(&waiting->builder);
    batch->last_offset_delta = waiting->builder.last_offset_delta;
    batch->attributes &= (uint16_t)~MK_ATTRIBUTE_APPEND_TIME;
    if (log->config.message_timestamp_type != 0) {
        batch->attributes |= MK_ATTRIBUTE_APPEND_TIME;
        waiting->builder.max_timestamp = now_ms;
    }
    batch->max_timestamp = waiting->builder.max_timestamp;
}

mk_status mk_log_append_waiting_locked(mk_log *log, mk_waiting *waiting,
                                       int64_t now_ms, mk_error *err)
{
    size_t size = mk_batch_builder_size(&waiting->builder);
    mk_batch *batch = &waiting->batch;
    mk_error scratch;
    mk_segment *active;
    mk_status status;
    bool roll;

    if (err == NULL) err = &scratch;
    if (MK_UNLIKELY(!waiting->admitted &&
                    size > mk_log_batch_size_max_locked(log))) {
        return mk_log_fail_too_large_locked(log, size, err);
    }
    if (MK_UNLIKELY(waiting->builder.last_offset_delta >=
                    INT64_MAX - log->log_end_offset)) {
        return mk_fail(err, MK_INVALID_RECORD, "there are no offsets left");
    }
    describe(log, waiting, now_ms);
    status = must_roll(log, batch, now_ms, &roll);
    if (MK_UNLIKELY(roll || status != MK_OK)) {
        if (log->swapping) {
            /* The mutex goes, and with it all that was found out. */
            mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
            return MK_END;
        }
        /* A roll gives files the time of day. */
        if (now_ms == MK_TIMESTAMP_NOW) return MK_END;
        status = roll_for(log, waiting, now_ms, err);
        if (status != MK_OK) return status;
    }
    mk_batch_builder_seal(&waiting->builder, batch);
    active = mk_log_active_locked(log);
    status =
        write_batch(log, waiting->builder.bytes, size, waiting->in_tail, err);
    if (MK_UNLIKELY(status != MK_OK)) return status;
    status = mk_segment_note(active, batch, active->index_interval_bytes, err);
    if (MK_UNLIKELY(status != MK_OK)) {
        undo_write(log, err);
        return status;
    }
    if (waiting->range.first < 0) waiting->range.first = log->log_end_offset;
    waiting->range.last = log->log_end_offset + batch->last_offset_delta;
    log->log_end_offset = waiting->range.last + 1;
    log->state_stale = true;
    log->unstored_bytes += (int64_t)size;
    log->stats.appended_batches++;
    log->stats.appended_records += batch->record_count;
    return MK_OK;
}

mk_status mk_log_send_waiting_locked(mk_log *log, int64_t now_ms, mk_error *err)
{
    while (log->waiting != NULL) {
        mk_waiting *waiting = log->waiting;
        mk_status status =
            mk_log_append_waiting_locked(log, waiting, now_ms, err);

        if (status != MK_OK) return status;
        log->waiting = waiting->next;
        waiting->next = NULL;
        mk_batch_builder_init(&waiting->builder, waiting->builder.bytes);
    }
    return MK_OK;
}
