/* cursor -- records out of batches, and places remembered for fetches. */
#include "log/cursor.h"

#include "base/check.h"

#include "base/poison.h"

/* Places that are handed to the cache together. */
#define SAMPLE_COUNT 64
/* What is read at least when the number of records to come is not known. */
#define AHEAD 2048

/* ---- Records ---- */

/* Remember the batch at hand, which was checked; when it is met again, places
 * in it follow. A batch of few records is found as fast without. */
static void begin_sampling(mk_cursor *cursor)
{
    mk_log *log = cursor->walk.log;

    cursor->sampled = 0;
    cursor->sample_count = 0;
    /* Under a reader, others may put other bytes in the same place. */
    if (log->read_only) return;
    if (cursor->walk.batch.record_count < MK_SAMPLE_OFFSETS) return;
    if (cursor->walk.met && cursor->samples == NULL) {
        cursor->samples =
            mk_alloc(&log->heap, SAMPLE_COUNT * sizeof *cursor->samples);
        if (cursor->samples == NULL) return; /* It works without. */
    }
    mk_mutex_lock(&log->mutex);
    if (!mk_walk_is_moved(&cursor->walk)) {
        cursor->sampled = mk_batch_cache_enter(
            &log->batch_cache, cursor->walk.segment->id,
            cursor->walk.position - cursor->walk.batch.size,
            &cursor->walk.batch);
    }
    mk_mutex_unlock(&log->mutex);
    if (!cursor->walk.met) cursor->sampled = 0;
}

/* The run's end is reached: MK_END, unless the log has gone from there. */
static mk_status check_end(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->walk.log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_walk_check_range_locked(&cursor->walk, cursor->walk.next_offset,
                                        err);
    mk_mutex_unlock(&log->mutex);
    return status == MK_OK ? MK_END : status;
}

void mk_cursor_find_plain(mk_cursor *cursor)
{
    const mk_batch *batch = &cursor->walk.batch;
    bool plain = cursor->records_left > 0 && !cursor->windowed &&
                 !cursor->walk.seeking &&
                 batch->base_offset >= cursor->walk.next_offset &&
                 cursor->max_records == MK_NO_LIMIT &&
                 cursor->max_bytes == MK_NO_LIMIT &&
                 (cursor->end_offset == MK_TO_END ||
                  cursor->end_offset >= mk_batch_next_offset(batch));

    /* Behind the last record there is more to do. */
    cursor->plain_left = plain ? cursor->records_left - 1 : 0;
}

/* Does every offset of the batch have its record? */
static bool is_dense(const mk_batch *batch)
{
    return batch->record_count - 1 == batch->last_offset_delta;
}

/* Begin with the records of the next batch that has any for readers. */
static mk_status begin_batch(mk_cursor *cursor, mk_error *err)
{
    const mk_batch *batch = &cursor->walk.batch;

    for (;;) {
        const uint8_t *bytes = NULL;
        mk_span records;
        mk_status status;

        if (cursor->end_offset != MK_TO_END &&
            cursor->walk.next_offset >= cursor->end_offset) {
            return check_end(cursor, err);
        }
        status = mk_walk_next(&cursor->walk, &bytes, err);
        if (status != MK_OK) return status;
        if (mk_batch_is_control(batch) || batch->record_count == 0) {
            cursor->walk.next_offset = mk_batch_next_offset(batch);
            continue;
        }
        if ((batch->attributes & MK_ATTRIBUTE_CODEC) != 0) {
            return mk_fail(err, MK_UNSUPPORTED,
                           "compressed batches are not read yet");
        }
        if (cursor->walk.seeking) begin_sampling(cursor);
        records = mk_batch_records(bytes, batch);
        cursor->last_delta = -1;
        cursor->windowed = false;
        cursor->record = records.data;
        cursor->records_end = records.data + records.size;
        cursor->records_left = batch->record_count;
        cursor->skip_left = 0;
        if (is_dense(batch) && cursor->walk.next_offset > batch->base_offset) {
            cursor->skip_left =
                (int32_t)(cursor->walk.next_offset - batch->base_offset);
        }
        mk_cursor_find_plain(cursor);
        return MK_OK;
    }
}

static inline void fill_view(const mk_batch *batch,
                             const mk_record_fields *fields,
                             mk_record_view *out)
{
    out->offset = batch->base_offset + fields->offset_delta;
    out->timestamp_ms = mk_batch_timestamp(batch, fields->timestamp_delta);
    out->key = fields->key.data;
    out->key_size = fields->key.size;
    out->value = fields->value.data;
    out->value_size = fields->value.size;
    out->headers = fields->headers.data;
    out->headers_size = fields->headers.size;
    out->header_count = fields->header_count;
}

static mk_status fail_record(mk_cursor *cursor, mk_error *err)
{
    cursor->walk.position -=
        cursor->walk.batch.size; /* Where the batch begins. */
    cursor->records_left = 0;
    cursor->walk.ahead = (mk_span){NULL, 0};
    return mk_walk_fail(&cursor->walk, MK_CORRUPT_BATCH,
                        "a record that can't be read", err);
}

/* Would this record go past a limit of the run? */
static bool is_past_limit(const mk_cursor *cursor, int64_t offset, int64_t size)
{
    if (cursor->end_offset != MK_TO_END && offset >= cursor->end_offset) {
        return true;
    }
    return cursor->max_bytes != MK_NO_LIMIT && cursor->run_records > 0 &&
           cursor->run_bytes + size > cursor->max_bytes;
}

/* Read on in a batch of which only some records were read: a few more, or, when
 * those were not enough, all. */
static mk_status widen(mk_cursor *cursor, mk_error *err)
{
    const mk_batch *batch = &cursor->walk.batch;
    size_t unread = (size_t)(cursor->records_end - cursor->record);
    int64_t from = cursor->window_end - (int64_t)unread;
    size_t rest = (size_t)(cursor->walk.position - from);
    size_t size = (batch->size / (uint32_t)batch->record_count + 8) *
                  ((size_t)cursor->skip_left + 2);
    mk_span bytes;
    mk_status status;

    if (!is_dense(batch)) size = (size_t)batch->size / 8 + AHEAD;
    if (cursor->records_end != NULL || size > rest) size = rest;
    status = mk_file_view(cursor->walk.segment->log.file, &cursor->walk.scratch,
                          from, size, &bytes, err);
    if (status != MK_OK) return status;
    if (bytes.size < size) {
        return mk_walk_fail(&cursor->walk, MK_CORRUPT_SEGMENT,
                            "the file ends early", err);
    }
    cursor->record = bytes.data;
    cursor->records_end = bytes.data + size;
    cursor->window_end = from + (int64_t)size;
    cursor->windowed = size < rest;
    return MK_OK;
}

/* Hand what was sampled over to the cache. */
static void keep_samples(mk_cursor *cursor)
{
    mk_log *log = cursor->walk.log;

    if (cursor->sample_count == 0) return;
    mk_mutex_lock(&log->mutex);
    if (!mk_walk_is_moved(&cursor->walk) && !mk_walk_is_void(&cursor->walk)) {
        for (size_t i = 0; i < cursor->sample_count; i++) {
            const mk_cursor_sample *sample = &cursor->samples[i];

            mk_batch_cache_enter_place(
                &log->batch_cache, cursor->walk.segment->id, sample->offset,
                cursor->sampled, sample->ordinal, sample->position);
        }
    }
    mk_mutex_unlock(&log->mutex);
    cursor->sample_count = 0;
}

/* Remember where the record begins if it is the first of its sixteen. */
static void sample(mk_cursor *cursor, int32_t delta, const uint8_t *record,
                   int32_t left)
{
    const mk_batch *batch = &cursor->walk.batch;
    int64_t offset = batch->base_offset + delta;
    int64_t before = batch->base_offset + cursor->last_delta;

    if (cursor->last_delta >= 0 &&
        before / MK_SAMPLE_OFFSETS == offset / MK_SAMPLE_OFFSETS) {
        return;
    }
    if (cursor->sample_count == SAMPLE_COUNT) keep_samples(cursor);
    cursor->samples[cursor->sample_count++] = (mk_cursor_sample){
        .offset = offset,
        .ordinal = (uint32_t)(batch->record_count - left),
        .position = batch->size - (uint32_t)(cursor->records_end - record),
    };
}

/* The record that was sought is found: sample the rest of its batch, and be
 * done with sampling. */
static void end_sampling(mk_cursor *cursor)
{
    const uint8_t *record = cursor->record;
    int32_t last_delta = cursor->last_delta;

    cursor->walk.seeking = false;
    if (cursor->sampled == 0) return;
    for (int32_t left = cursor->records_left; left > 0; left--) {
        mk_record_fields fields;
        const uint8_t *next =
            mk_record_decode(record, cursor->records_end, &fields);

        if (next == NULL) break; /* Whoever comes there says so. */
        sample(cursor, fields.offset_delta, record, left);
        cursor->last_delta = fields.offset_delta;
        record = next;
    }
    keep_samples(cursor);
    cursor->last_delta = last_delta;
    cursor->sampled = 0;
}

/* Step over the record at hand; behind the last one, over the rest of its
 * batch's range. */
static mk_status step_over(mk_cursor *cursor, const uint8_t *next,
                           int32_t delta, mk_error *err)
{
    const mk_batch *batch = &cursor->walk.batch;

    if (delta <= cursor->last_delta || delta > batch->last_offset_delta ||
        (is_dense(batch) && delta != cursor->last_delta + 1)) {
        return fail_record(cursor, err);
    }
    if (MK_UNLIKELY(cursor->sampled != 0)) {
        sample(cursor, delta, cursor->record, cursor->records_left);
    }
    cursor->last_delta = delta;
    cursor->record = next;
    cursor->records_left--;
    if (batch->base_offset + delta >= cursor->walk.next_offset) {
        cursor->walk.next_offset = batch->base_offset + delta + 1;
    }
    if (cursor->records_left > 0) return MK_OK;
    if (next != cursor->records_end || cursor->windowed) {
        return fail_record(cursor, err);
    }
    cursor->walk.next_offset = mk_batch_next_offset(batch);
    return MK_OK;
}

/* Pass over the records that need not be looked at; false where they can't be
 * read, or were not read so far. */
static bool skip(mk_cursor *cursor)
{
    while (cursor->skip_left > 0) {
        const uint8_t *next;

        if (cursor->record >= cursor->records_end) return false;
        next = mk_record_skip(cursor->record, cursor->records_end);
        if (next == NULL) return false;
        if (cursor->sampled != 0) {
            sample(cursor, cursor->last_delta + 1, cursor->record,
                   cursor->records_left);
        }
        cursor->record = next;
        cursor->last_delta++;
        cursor->records_left--;
        cursor->skip_left--;
    }
    return true;
}

/* Decode the next record; NULL with MK_OK: it is to be tried again. */
static mk_status decode(mk_cursor *cursor, mk_record_fields *fields,
                        const uint8_t **next, mk_error *err)
{
    *next = NULL;
    if (MK_UNLIKELY(cursor->records_left == 0 ||
                    mk_walk_is_void(&cursor->walk))) {
        mk_status status;

        cursor->records_left = cursor->plain_left = 0;
        status = begin_batch(cursor, err);
        if (status != MK_OK) return status;
    }
    if (skip(cursor) && cursor->record < cursor->records_end) {
        *next = mk_record_decode(cursor->record, cursor->records_end, fields);
    }
    if (MK_LIKELY(*next != NULL)) return MK_OK;
    if (!cursor->windowed) return fail_record(cursor, err);
    return widen(cursor, err);
}

/* Give the next record, whatever the case. */
static __attribute__((noinline)) mk_status
next_record(mk_cursor *cursor, mk_record_view *out, mk_error *err)
{
    if (cursor->max_records != MK_NO_LIMIT &&
        cursor->run_records >= cursor->max_records) {
        return MK_END;
    }
    for (;;) {
        mk_record_fields fields;
        const uint8_t *next;
        mk_status status;
        int64_t size;
        bool wanted;

        status = decode(cursor, &fields, &next, err);
        if (status != MK_OK) return status;
        if (next == NULL) continue;
        fill_view(&cursor->walk.batch, &fields, out);
        wanted = out->offset >= cursor->walk.next_offset;
        size = next - cursor->record;
        if (wanted && is_past_limit(cursor, out->offset, size)) return MK_END;
        status = step_over(cursor, next, fields.offset_delta, err);
        if (status != MK_OK) return status;
        if (!wanted) continue;
        if (cursor->walk.seeking) end_sampling(cursor);
        cursor->run_records++;
        cursor->run_bytes += size;
        return MK_OK;
    }
}

/* Give records in the ordinary case: those left in a batch that is given whole,
 * but for its last. Returns how many; 0: it is not the ordinary case. */
static inline size_t next_plain(mk_cursor *cursor, mk_record_view *out,
                                size_t capacity)
{
    const mk_batch batch = cursor->walk.batch; /* Written through no `out`. */
    const uint8_t *record = cursor->record;
    const uint8_t *end = cursor->records_end;
    int32_t delta = cursor->last_delta;
    size_t count = 0;

    if (cursor->plain_left == 0 || mk_walk_is_void(&cursor->walk)) return 0;
    if (capacity > (size_t)cursor->plain_left) {
        capacity = (size_t)cursor->plain_left;
    }
    for (; count < capacity; count++) {
        mk_record_fields fields;
        const uint8_t *next = mk_record_decode(record, end, &fields);

        if (MK_UNLIKELY(next == NULL || fields.offset_delta <= delta ||
                        fields.offset_delta > batch.last_offset_delta)) {
            break;
        }
        fill_view(&batch, &fields, &out[count]);
        record = next;
        delta = fields.offset_delta;
    }
    if (MK_UNLIKELY(count == 0)) return 0;
    cursor->record = record;
    cursor->last_delta = delta;
    cursor->plain_left -= (int32_t)count;
    cursor->records_left -= (int32_t)count;
    cursor->walk.next_offset = batch.base_offset + delta + 1;
    return count;
}

mk_status mk_cursor_next(mk_cursor *cursor, mk_record_view *out, mk_error *err)
{
    if (MK_LIKELY(next_plain(cursor, out, 1) == 1)) return MK_OK;
    return next_record(cursor, out, err);
}

mk_status mk_cursor_read(mk_cursor *cursor, mk_record_view *out,
                         size_t capacity, size_t *count, mk_error *err)
{
    mk_status status;

    *count = 0;
    if (capacity == 0) return MK_OK;
    *count = next_plain(cursor, out, capacity);
    if (MK_LIKELY(*count > 0)) return MK_OK;
    status = next_record(cursor, out, err);
    if (status == MK_OK) *count = 1;
    return status;
}

/* ---- Life ---- */

mk_status mk_cursor_new(mk_log *log, mk_cursor **out, mk_error *err)
{
    mk_cursor *cursor = mk_alloc_zero(&log->heap, sizeof *cursor);

    *out = cursor;
    if (cursor == NULL) return mk_fail_memory(err, sizeof *cursor);
    cursor->end_offset = MK_TO_END;
    cursor->max_records = cursor->max_bytes = MK_NO_LIMIT;
    mk_mutex_lock(&log->mutex);
    mk_walk_init_locked(&cursor->walk, log);
    mk_mutex_unlock(&log->mutex);
    return MK_OK;
}

void mk_cursor_free(mk_cursor *cursor)
{
    mk_heap heap;

    if (cursor == NULL) return;
    heap = cursor->walk.log->heap;
    mk_release(&heap, cursor->samples);
    mk_walk_deinit(&cursor->walk);
    mk_release(&heap, cursor);
}

/* Go straight to the record, if its place is remembered. */
static mk_status use_cache_locked(mk_cursor *cursor, int64_t offset, bool *used,
                                  mk_error *err)
{
    mk_walk *walk = &cursor->walk;
    mk_log *log = walk->log;
    size_t i = mk_log_find_segment_locked(log, offset);
    const mk_cached_batch *batch;
    const mk_cached_place *place;
    mk_status status;

    *used = false;
    if (i >= log->segment_count) return MK_OK;
    place = mk_batch_cache_find(&log->batch_cache, log->segments[i]->id, offset,
                                &batch);
    if (place == NULL) return MK_OK;
    status = mk_walk_enter_locked(walk, log->segments[i], err);
    if (status != MK_OK) return status;
    *used = true;
    walk->next_offset = offset;
    walk->batch = batch->batch;
    walk->position = (int64_t)batch->position + batch->batch.size;
    cursor->record = cursor->records_end = NULL;
    cursor->records_left = batch->batch.record_count - (int32_t)place->ordinal;
    /* In a batch without gaps the record's number is its offset delta. */
    cursor->last_delta = -1;
    cursor->skip_left = 0;
    if (is_dense(&walk->batch)) {
        cursor->last_delta = (int32_t)place->ordinal - 1;
        cursor->skip_left = (int32_t)(offset - walk->batch.base_offset) -
                            (int32_t)place->ordinal;
    }
    cursor->windowed = true;
    cursor->window_end = (int64_t)batch->position + place->position;
    return MK_OK;
}

static mk_status go_locked(mk_cursor *cursor, int64_t offset, mk_error *err)
{
    bool used = false;
    mk_status status = mk_walk_check_range_locked(&cursor->walk, offset, err);

    if (status != MK_OK) return status;
    cursor->records_left = cursor->plain_left = 0;
    cursor->sample_count = 0;
    cursor->sampled = 0;
    cursor->walk.seeking = false;
    status = use_cache_locked(cursor, offset, &used, err);
    if (status != MK_OK || used) return status;
    cursor->walk.seeking = true;
    return mk_walk_go_locked(&cursor->walk, offset, err);
}

mk_status mk_cursor_go_to_start(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->walk.log;
    int64_t start;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    do { /* Under a reader, the start may move on. */
        start = log->log_start_offset;
        status = go_locked(cursor, start, err);
    } while (status == MK_OFFSET_OUT_OF_RANGE &&
             start != log->log_start_offset);
    mk_mutex_unlock(&log->mutex);
    return status;
}

mk_status mk_cursor_go(mk_cursor *cursor, int64_t offset, mk_error *err)
{
    mk_log *log = cursor->walk.log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = go_locked(cursor, offset, err);
    mk_mutex_unlock(&log->mutex);
    return status;
}
