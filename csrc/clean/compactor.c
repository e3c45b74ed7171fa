/*
 * compactor -- two passes over the log.
 *
 * The first maps every key to its greatest offset, over all segments. The
 * second walks the closed ones and keeps, of each batch, the records that are
 * their key's newest, those without a key, and tombstones that are young
 * enough. A batch that keeps all its records is copied as it stands. One that
 * loses some keeps base offset, last offset delta and base timestamp, so that
 * the surviving records' own bytes are copied, too. One that loses all goes,
 * unless it carries a producer's sequence: then its header stays.
 */
#include "clean/compactor.h"

#include <inttypes.h>

#include "base/check.h"

#include "base/poison.h"

#define BUFFER_SIZE (256u << 10)

/* ---- Begin and end ---- */

mk_status mk_compactor_begin_locked(mk_compactor *compactor, mk_log *log,
                                    int64_t now_ms, int64_t delete_retention_ms,
                                    mk_error *err)
{
    size_t count = log->segment_count - 1;

    MK_ASSERT(count > 0);
    MK_ASSERT(delete_retention_ms >= 0);
    *compactor = (mk_compactor){
        .log = log,
        .now_ms = now_ms,
        .delete_retention_ms = delete_retention_ms,
        .index_interval_bytes = log->config.index_interval_bytes,
        .source_count = count,
        .source_end = log->segments[count]->base_offset,
        .start_offset = log->log_start_offset,
        .map_end = log->log_end_offset,
    };
    for (size_t i = 0; i < count; i++) {
        compactor->bytes_before += mk_segment_size_bytes(log->segments[i]);
    }
    mk_key_map_init(&compactor->map, &log->heap, mk_env_random(log->env));
    mk_scratch_init(&compactor->buffer, &log->heap);
    mk_scratch_init(&compactor->kept, &log->heap);
    return mk_scratch_reserve(&compactor->buffer, BUFFER_SIZE, err);
}

void mk_compactor_deinit(mk_compactor *compactor)
{
    mk_log *log = compactor->log;

    if (compactor->walking) mk_walk_deinit(&compactor->walk);
    if (compactor->file != NULL) {
        (void)mk_file_close(compactor->file, NULL); /* It goes anyway. */
    }
    mk_mutex_lock(&log->mutex);
    for (size_t i = 0; i < compactor->output_count; i++) {
        mk_log_release_segment_locked(log, compactor->outputs[i]);
    }
    mk_mutex_unlock(&log->mutex);
    mk_release(&log->heap, compactor->outputs);
    if (compactor->swap_begun) mk_directory_swap_cancel(&compactor->swap);
    mk_key_map_deinit(&compactor->map);
    mk_scratch_deinit(&compactor->buffer);
    mk_scratch_deinit(&compactor->kept);
}

/* ---- Walking ---- */

/* Put the walk at the log start for the next pass. */
static mk_status rewind_walk(mk_compactor *compactor, mk_error *err)
{
    mk_log *log = compactor->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    if (!compactor->walking) mk_walk_init_locked(&compactor->walk, log);
    compactor->walking = true;
    status = mk_walk_go_locked(&compactor->walk, compactor->start_offset, err);
    mk_mutex_unlock(&log->mutex);
    return status;
}

/* Read the next batch below `end`; MK_END when there is none. */
static mk_status next_batch(mk_compactor *compactor, int64_t end,
                            const uint8_t **bytes, mk_error *err)
{
    mk_walk *walk = &compactor->walk;
    mk_status status;

    if (walk->next_offset >= end) return MK_END;
    status = mk_walk_next(walk, bytes, err);
    if (status != MK_OK) return status;
    if (walk->batch.base_offset >= end) return MK_END;
    walk->next_offset = mk_batch_next_offset(&walk->batch);
    return MK_OK;
}

/* Refuse what can't be judged yet. */
static mk_status check_batch(const mk_batch *batch, mk_error *err)
{
    if ((batch->attributes & MK_ATTRIBUTE_CODEC) != 0) {
        return mk_fail(err, MK_UNSUPPORTED,
                       "compressed batches are not compacted yet");
    }
    if ((batch->attributes & MK_ATTRIBUTE_TRANSACTIONAL) != 0) {
        return mk_fail(err, MK_UNSUPPORTED,
                       "transactions are not compacted yet");
    }
    return MK_OK;
}

static mk_status fail_record(const mk_batch *batch, mk_error *err)
{
    mk_status status = mk_fail(err, MK_CORRUPT_SEGMENT,
                               "the batch at offset %" PRId64
                               " has a record that can't be read",
                               batch->base_offset);

    if (err != NULL) err->offset = batch->base_offset;
    return status;
}

/* Decode the record at `record`, whose offset must lie behind `*delta` and in
 * the batch; NULL if that can't be. */
static const uint8_t *decode(const mk_batch *batch, const uint8_t *record,
                             mk_span records, int32_t *delta,
                             mk_record_fields *fields)
{
    const uint8_t *next =
        mk_record_decode(record, records.data + records.size, fields);

    if (next == NULL || fields->offset_delta <= *delta ||
        fields->offset_delta > batch->last_offset_delta) {
        return NULL;
    }
    *delta = fields->offset_delta;
    return next;
}

/* ---- First pass ---- */

static mk_status map_batch(mk_compactor *compactor, const uint8_t *bytes,
                           mk_error *err)
{
    const mk_batch *batch = &compactor->walk.batch;
    mk_span records = mk_batch_records(bytes, batch);
    const uint8_t *next = records.data;
    int32_t delta = -1;
    mk_status status;

    if (mk_batch_is_control(batch)) return MK_OK;
    status = check_batch(batch, err);
    for (int32_t i = 0; status == MK_OK && i < batch->record_count; i++) {
        mk_record_fields fields;
        int64_t offset;

        next = decode(batch, next, records, &delta, &fields);
        if (next == NULL) return fail_record(batch, err);
        offset = batch->base_offset + fields.offset_delta;
        if (fields.key.data == NULL) continue;
        status = mk_key_map_put(&compactor->map, fields.key, offset, err);
    }
    return status;
}

static mk_status begin_rewrite(mk_compactor *compactor, mk_error *err)
{
    mk_status status =
        mk_directory_swap_begin(&compactor->swap, compactor->log, err);

    if (status != MK_OK) return status;
    compactor->swap_begun = true;
    compactor->phase = MK_COMPACTOR_REWRITE;
    return rewind_walk(compactor, err);
}

/* ---- Output ---- */

static mk_segment *last_output(const mk_compactor *compactor)
{
    return compactor->outputs[compactor->output_count - 1];
}

static mk_status write_buffer(mk_compactor *compactor, mk_error *err)
{
    int64_t end = last_output(compactor)->log_bytes;
    mk_status status;

    if (compactor->buffered == 0) return MK_OK;
    status = mk_file_write(compactor->file, end - (int64_t)compactor->buffered,
                           compactor->buffer.data, compactor->buffered, err);
    compactor->buffered = 0;
    return status;
}

/* Complete the last output: all of it written and on stable storage. */
static mk_status finish_output(mk_compactor *compactor, mk_error *err)
{
    mk_segment *segment = last_output(compactor);
    mk_file *file = compactor->file;
    mk_status status = write_buffer(compactor, err);

    if (status == MK_OK) status = mk_segment_finish_times(segment, err);
    if (status == MK_OK) {
        status = mk_segment_write_indexes(segment, compactor->log->vfs,
                                          compactor->swap.path, err);
    }
    if (status == MK_OK) {
        status = mk_file_sync(file, true, MK_SYNC_SWAP_LOG, err);
    }
    compactor->file = NULL;
    segment->synced = status == MK_OK;
    if (status == MK_OK) return mk_file_close(file, err);
    (void)mk_file_close(file, NULL); /* The first error counts. */
    return status;
}

static mk_status begin_output(mk_compactor *compactor, int64_t base_offset,
                              mk_error *err)
{
    mk_log *log = compactor->log;
    void *array = compactor->outputs;
    mk_segment *segment = NULL;
    char path[MK_PATH_MAX];
    mk_status status;

    status =
        mk_grow(&log->heap, &array, &compactor->output_capacity,
                compactor->output_count + 1, sizeof *compactor->outputs, err);
    compactor->outputs = array;
    if (status == MK_OK) {
        status = mk_segment_new(&log->heap, base_offset, &segment, err);
    }
    if (status != MK_OK) return status;
    segment->sealed = true;
    compactor->outputs[compactor->output_count++] = segment;
    status = mk_name_segment_file(path, sizeof path, compactor->swap.path,
                                  base_offset, MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    return mk_file_open(log->vfs, path,
                        MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE,
                        &compactor->file, err);
}

/* Does a batch fit in the last output, by the format's 32-bit limits? */
static bool fits_output(const mk_compactor *compactor, const mk_batch *batch)
{
    const mk_segment *segment = last_output(compactor);

    return mk_segment_fits(segment, mk_batch_last_offset(batch)) &&
           segment->log_bytes + (int64_t)batch->size <= INT32_MAX;
}

/* See that there is an output that a batch fits in. The first one begins at the
 * log start, or with a batch that holds it. */
static mk_status ready_output(mk_compactor *compactor, const mk_batch *batch,
                              mk_error *err)
{
    mk_status status = MK_OK;

    if (compactor->output_count == 0) {
        int64_t base_offset = batch->base_offset < compactor->start_offset
                                  ? batch->base_offset
                                  : compactor->start_offset;

        status = begin_output(compactor, base_offset, err);
    }
    if (status != MK_OK || fits_output(compactor, batch)) return status;
    status = finish_output(compactor, err);
    if (status != MK_OK) return status;
    return begin_output(compactor, batch->base_offset, err);
}

/* Give room for `size` bytes at the end of the buffer. */
static mk_status reserve(mk_compactor *compactor, size_t size, uint8_t **out,
                         mk_error *err)
{
    mk_status status;

    if (compactor->buffered + size > compactor->buffer.capacity) {
        status = write_buffer(compactor, err);
        if (status != MK_OK) return status;
        if (size > compactor->buffer.capacity) {
            status = mk_scratch_reserve(&compactor->buffer, size, err);
            if (status != MK_OK) return status;
        }
    }
    *out = compactor->buffer.data + compactor->buffered;
    return MK_OK;
}

static mk_status note_output(mk_compactor *compactor, const mk_batch *batch,
                             mk_error *err)
{
    compactor->buffered += batch->size;
    return mk_segment_note(last_output(compactor), batch,
                           compactor->index_interval_bytes, err);
}

/* ---- Second pass ---- */

static bool is_kept(const mk_compactor *compactor, const mk_batch *batch,
                    const mk_record_fields *fields, int64_t timestamp_ms)
{
    int64_t offset = batch->base_offset + fields->offset_delta;
    int64_t age_ms;

    if (offset < compactor->start_offset) return false;
    if (fields->key.data == NULL) return true;
    if (offset != mk_key_map_get(&compactor->map, fields->key)) return false;
    if (fields->value.data != NULL) return true;
    if (__builtin_sub_overflow(compactor->now_ms, timestamp_ms, &age_ms)) {
        return compactor->now_ms < timestamp_ms;
    }
    return age_ms <= compactor->delete_retention_ms;
}

/* What a batch is after losing some records: its header, and how many bytes of
 * records stay. */
typedef struct survivors {
    mk_batch batch;
    size_t size;
    int64_t counted; /* Records that were there, below the log start not. */
} survivors;

/* Copy the records that stay behind `out`, which has room for all of them. */
static mk_status filter(mk_compactor *compactor, const uint8_t *bytes,
                        uint8_t *out, survivors *s, mk_error *err)
{
    const mk_batch *batch = &compactor->walk.batch;
    bool append_time = (batch->attributes & MK_ATTRIBUTE_APPEND_TIME) != 0;
    mk_span records = mk_batch_records(bytes, batch);
    const uint8_t *record = records.data;
    int32_t delta = -1;

    *s = (survivors){.batch = *batch};
    s->batch.record_count = 0;
    if (!append_time) s->batch.max_timestamp = -1;
    for (int32_t i = 0; i < batch->record_count; i++) {
        mk_record_fields fields;
        const uint8_t *next = decode(batch, record, records, &delta, &fields);
        int64_t time_ms;

        if (next == NULL) return fail_record(batch, err);
        time_ms = mk_batch_timestamp(batch, fields.timestamp_delta);
        s->counted +=
            batch->base_offset + fields.offset_delta >= compactor->start_offset;
        if (is_kept(compactor, batch, &fields, time_ms)) {
            memcpy(out + s->size, record, (size_t)(next - record));
            s->size += (size_t)(next - record);
            s->batch.record_count++;
            if (time_ms > s->batch.max_timestamp) {
                s->batch.max_timestamp = time_ms;
            }
        }
        record = next;
    }
    return MK_OK;
}

/* Make the header of a batch whose records are all gone, as Kafka has it. */
static void empty_batch(const mk_batch *original, mk_batch *batch)
{
    *batch = *original;
    batch->attributes &=
        (uint16_t) ~(MK_ATTRIBUTE_CODEC | MK_ATTRIBUTE_DELETE_HORIZON);
    batch->base_timestamp = -1;
    batch->record_count = 0;
}

static mk_status copy_batch(mk_compactor *compactor, const uint8_t *bytes,
                            mk_error *err)
{
    const mk_batch *batch = &compactor->walk.batch;
    uint8_t *out = NULL;
    mk_status status = ready_output(compactor, batch, err);

    if (status == MK_OK) status = reserve(compactor, batch->size, &out, err);
    if (status != MK_OK) return status;
    memcpy(out, bytes, batch->size);
    return note_output(compactor, batch, err);
}

static mk_status rewrite_batch(mk_compactor *compactor, const uint8_t *bytes,
                               mk_error *err)
{
    const mk_batch *batch = &compactor->walk.batch;
    uint8_t *out = NULL;
    survivors s;
    mk_status status;

    if (mk_batch_is_control(batch)) return copy_batch(compactor, bytes, err);
    status = check_batch(batch, err);
    if (status != MK_OK) return status;
    status = mk_scratch_reserve(&compactor->kept, batch->size, err);
    if (status != MK_OK) return status;
    status = filter(compactor, bytes,
                    compactor->kept.data + MK_BATCH_HEADER_SIZE, &s, err);
    if (status != MK_OK) return status;
    compactor->records_before += s.counted;
    compactor->records_after += s.batch.record_count;
    if (s.batch.record_count == batch->record_count) {
        return copy_batch(compactor, bytes, err);
    }
    if (s.batch.record_count == 0) {
        if (batch->producer_id < 0) return MK_OK;
        empty_batch(batch, &s.batch);
    }
    s.batch.size = (uint32_t)(MK_BATCH_HEADER_SIZE + s.size);
    status = ready_output(compactor, &s.batch, err);
    if (status == MK_OK) status = reserve(compactor, s.batch.size, &out, err);
    if (status != MK_OK) return status;
    memcpy(out + MK_BATCH_HEADER_SIZE,
           compactor->kept.data + MK_BATCH_HEADER_SIZE, s.size);
    mk_batch_seal(out, &s.batch);
    return note_output(compactor, &s.batch, err);
}

static mk_status finish_rewrite(mk_compactor *compactor, mk_error *err)
{
    mk_status status = MK_OK;

    /* Segments that all lie below the log start leave nothing behind. */
    if (compactor->output_count == 0 &&
        compactor->start_offset < compactor->source_end) {
        status = begin_output(compactor, compactor->start_offset, err);
    }
    if (status == MK_OK && compactor->output_count > 0) {
        status = finish_output(compactor, err);
    }
    if (status == MK_OK) compactor->phase = MK_COMPACTOR_BUILT;
    return status;
}

/* ---- Steps ---- */

static mk_status step_batch(mk_compactor *compactor, mk_error *err)
{
    bool mapping = compactor->phase == MK_COMPACTOR_MAP;
    int64_t end = mapping ? compactor->map_end : compactor->source_end;
    const uint8_t *bytes = NULL;
    mk_status status = next_batch(compactor, end, &bytes, err);

    if (status == MK_END) {
        return mapping ? begin_rewrite(compactor, err)
                       : finish_rewrite(compactor, err);
    }
    if (status != MK_OK) return status;
    return mapping ? map_batch(compactor, bytes, err)
                   : rewrite_batch(compactor, bytes, err);
}

mk_status mk_compactor_step(mk_compactor *compactor, size_t budget,
                            mk_error *err)
{
    size_t used = 0;

    if (!compactor->walking) {
        mk_status status = rewind_walk(compactor, err);

        if (status != MK_OK) return status;
    }
    while (used < budget && compactor->phase != MK_COMPACTOR_BUILT) {
        mk_status status = step_batch(compactor, err);

        if (status != MK_OK) return status;
        used += compactor->walk.batch.size;
    }
    return MK_OK;
}

/* ---- Publishing ---- */

static mk_status describe(const mk_compactor *compactor,
                          mk_cleanup_result *result, mk_error *err)
{
    const mk_log *log = compactor->log;
    size_t sources = compactor->source_count;
    size_t outputs = compactor->output_count;
    mk_status status =
        mk_cleanup_result_reserve(result, 0, sources, outputs, err);

    if (status != MK_OK) return status;
    for (size_t i = 0; i < sources; i++) {
        result->source_segments[i] = log->segments[i]->base_offset;
    }
    for (size_t i = 0; i < outputs; i++) {
        const mk_segment *segment = compactor->outputs[i];

        result->new_segments[i] = segment->base_offset;
        result->bytes_after += mk_segment_size_bytes(segment);
    }
    result->source_count = sources;
    result->new_count = outputs;
    result->records_before = compactor->records_before;
    result->records_after = compactor->records_after;
    result->bytes_before = compactor->bytes_before;
    return MK_OK;
}

mk_status mk_compactor_publish_locked(mk_compactor *compactor,
                                      mk_cleanup_result *result, mk_error *err)
{
    mk_log *log = compactor->log;
    mk_status status = mk_log_check_writable_locked(log, err);

    MK_ASSERT(compactor->phase == MK_COMPACTOR_BUILT);
    if (status == MK_OK) status = describe(compactor, result, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i < compactor->output_count; i++) {
        mk_log_number_segment_locked(log, compactor->outputs[i]);
    }
    status = mk_directory_swap_publish_locked(
        &compactor->swap, compactor->outputs, compactor->output_count,
        compactor->source_count, err);
    compactor->swap_begun = false;
    if (status != MK_OK) {
        mk_cleanup_result_deinit(result);
        return status;
    }
    compactor->output_count = 0; /* They are the log's now. */
    return MK_OK;
}
