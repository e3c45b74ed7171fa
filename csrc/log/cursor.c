/* cursor -- finding a place, walking batches, giving records. */
#include "log/cursor.h"

#include <inttypes.h>

#include "base/check.h"
#include "log/recovery.h"

#include "base/poison.h"

#define AHEAD_MIN 4096
#define AHEAD_MAX (256 << 10)
/* Index entries that lie farther apart than this mean large batches. */
#define LARGE_BATCH (16 << 10)

/* ---- Places ---- */

static void leave_place_locked(mk_cursor *cursor)
{
    mk_segment *segment = cursor->segment;

    cursor->ahead = (mk_span){NULL, 0};
    cursor->records_left = 0;
    cursor->segment = NULL;
    if (segment == NULL) return;
    mk_log_unpin_locked(cursor->log, segment);
    mk_log_release_segment_locked(cursor->log, segment);
}

mk_status mk_log_fail_range_locked(const mk_log *log, int64_t offset,
                                   mk_error *err)
{
    mk_status status = mk_fail(
        err, MK_OFFSET_OUT_OF_RANGE,
        "offset %" PRId64 " is not in %" PRId64 "..%" PRId64 " of %s", offset,
        log->log_start_offset, log->log_end_offset, log->directory);

    if (err != NULL) {
        err->requested = offset;
        err->log_start_offset = log->log_start_offset;
        err->log_end_offset = log->log_end_offset;
    }
    return status;
}

/* Stand on a segment, at the start of its log. */
static mk_status take_place_locked(mk_cursor *cursor, mk_segment *segment,
                                   mk_error *err)
{
    if (cursor->segment != segment) {
        mk_status status;

        leave_place_locked(cursor);
        status = mk_log_pin_locked(cursor->log, segment, err);
        if (status != MK_OK) return status;
        cursor->segment = mk_log_acquire_segment_locked(segment);
    }
    cursor->ahead = (mk_span){NULL, 0};
    cursor->records_left = 0;
    cursor->generation = cursor->log->generation;
    cursor->cuts = cursor->log->cuts;
    cursor->log_bytes = segment->log_bytes;
    cursor->position = 0;
    cursor->fallback = -1;
    cursor->stretch = AHEAD_MAX;
    return MK_OK;
}

/* Number of the first segment from number `i` on that can have a batch which
 * the cursor wants; the count of segments if there is none. */
static size_t next_wanted_locked(const mk_cursor *cursor, size_t i)
{
    const mk_log *log = cursor->log;

    for (; i < log->segment_count; i++) {
        const mk_segment *segment = log->segments[i];

        if (segment->log_bytes == 0) continue;
        if (segment->max_timestamp_ms >= cursor->skip_below_ms) break;
    }
    return i;
}

/* Use what the index says of the cursor's offset. Where entries lie far apart,
 * batches are large, and the one that the next entry names is most likely the
 * one wanted; else a scan begins at the entry before. */
static mk_status use_index_locked(mk_cursor *cursor, mk_error *err)
{
    mk_segment *segment = cursor->segment;
    mk_scan_start start;
    mk_status status = mk_log_load_indexes_locked(cursor->log, segment, err);
    int64_t end;

    if (status != MK_OK) return status;
    start = mk_offset_index_lookup(&segment->offsets, cursor->next_offset);
    cursor->position = start.position;
    cursor->fallback = start.hinted ? 0 : -1;
    end = start.next;
    if (start.next - start.position > LARGE_BATCH) {
        cursor->position = start.next;
        cursor->fallback = start.position;
        end = start.after;
    }
    if (end < 0) end = cursor->log_bytes;
    cursor->stretch = (size_t)(end - cursor->position);
    return MK_OK;
}

/* Find the place of the cursor's offset. MK_END: nothing stands there yet. */
static mk_status find_place_locked(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->log;
    int64_t offset = cursor->next_offset;
    mk_status status = mk_log_check_open_locked(log, err);
    size_t found, i;

    if (status != MK_OK) return status;
    if (offset < log->log_start_offset || offset > log->log_end_offset) {
        return mk_log_fail_range_locked(log, offset, err);
    }
    found = mk_log_find_segment_locked(log, offset);
    i = next_wanted_locked(cursor, found);
    if (offset == log->log_end_offset || i == log->segment_count) {
        cursor->next_offset = log->log_end_offset;
        return MK_END;
    }
    status = take_place_locked(cursor, log->segments[i], err);
    if (status != MK_OK || i != found) return status;
    return use_index_locked(cursor, err);
}

/* All seen of the segment was walked: it has grown, or another follows. */
static mk_status go_on_locked(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->log;
    mk_segment *segment = cursor->segment;
    size_t i;

    if (segment->log_bytes > cursor->log_bytes) {
        cursor->log_bytes = segment->log_bytes;
        return MK_OK;
    }
    i = mk_log_find_segment_locked(log, segment->base_offset) + 1;
    i = next_wanted_locked(cursor, i);
    if (i < log->segment_count) {
        return take_place_locked(cursor, log->segments[i], err);
    }
    /* Past the last batch, and past a gap that may follow it. */
    cursor->next_offset = log->log_end_offset;
    return MK_END;
}

/* Does the cursor's place no longer hold? What was read ahead may still. */
static bool is_moved(const mk_cursor *cursor)
{
    return atomic_load_explicit(&cursor->log->generation,
                                memory_order_relaxed) != cursor->generation;
}

/* Does what was read ahead no longer hold? */
static inline bool is_void(const mk_cursor *cursor)
{
    return atomic_load_explicit(&cursor->log->cuts, memory_order_relaxed) !=
               cursor->cuts ||
           *cursor->log->vfs->session != cursor->log->session;
}

/* Get to a place with something to read: the one behind what was walked, or
 * anew by offset. MK_END at the log end. */
static mk_status move(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    if (cursor->segment != NULL && !is_moved(cursor) && !is_void(cursor)) {
        status = go_on_locked(cursor, err);
    } else {
        leave_place_locked(cursor);
        status = find_place_locked(cursor, err);
    }
    if (status == MK_END && log->read_only) {
        status = mk_log_refresh_locked(log, err);
        if (status == MK_OK) {
            leave_place_locked(cursor);
            status = find_place_locked(cursor, err);
        }
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

/* ---- Batches ---- */

static mk_status fail_damaged(mk_cursor *cursor, mk_status code,
                              const char *what, mk_error *err)
{
    const mk_segment *segment = cursor->segment;
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_name_segment_file(path, sizeof path, cursor->log->directory,
                                  segment->base_offset, MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    status = mk_fail_at(err, code, path, cursor->position,
                        "%s is damaged at position %" PRId64
                        ", at or after offset %" PRId64 ": %s",
                        path, cursor->position, cursor->next_offset, what);
    if (err != NULL) err->offset = cursor->next_offset;
    return status;
}

/* Read at least `wanted` bytes from the position on, and some more when reading
 * goes on and on. */
static mk_status read_ahead(mk_cursor *cursor, size_t wanted, mk_error *err)
{
    size_t left = (size_t)(cursor->log_bytes - cursor->position);
    size_t size = cursor->stretch;
    mk_status status;

    if (size < AHEAD_MIN) size = AHEAD_MIN;
    if (size > AHEAD_MAX) size = AHEAD_MAX;
    if (size < wanted) size = wanted;
    if (size > left) size = left;
    cursor->stretch = AHEAD_MAX;
    cursor->ahead = (mk_span){NULL, 0};
    status = mk_file_view(cursor->segment->log.file, &cursor->scratch,
                          cursor->position, size, &cursor->ahead, err);
    if (status != MK_OK) return status;
    if (cursor->ahead.size < size) {
        /* A truncation may have come in between. */
        if (is_void(cursor) || is_moved(cursor)) return move(cursor, err);
        return fail_damaged(cursor, MK_CORRUPT_SEGMENT, "the file ends early",
                            err);
    }
    return MK_OK;
}

static void pass_batch(mk_cursor *cursor)
{
    cursor->position += cursor->batch.size;
    cursor->ahead.data += cursor->batch.size;
    cursor->ahead.size -= cursor->batch.size;
}

/* What stands at the position can't be: if an index led here, look where it
 * can't mislead, else it is damage. */
static mk_status distrust(mk_cursor *cursor, const char *what, mk_error *err)
{
    if (cursor->fallback < 0)
        return fail_damaged(cursor, MK_CORRUPT_SEGMENT, what, err);
    cursor->position = cursor->fallback;
    cursor->fallback = cursor->fallback > 0 ? 0 : -1;
    cursor->ahead = (mk_span){NULL, 0};
    return MK_OK;
}

/* Look at the batch at the position. `*whole` is false when the place changed
 * instead and it is to be tried again. */
static mk_status look(mk_cursor *cursor, bool *whole, mk_error *err)
{
    mk_batch *batch = &cursor->batch;
    int64_t left = cursor->log_bytes - cursor->position;
    size_t wanted;

    *whole = false;
    switch (mk_batch_peek(cursor->ahead, batch)) {
    case MK_BATCH_WHOLE:
        if (cursor->fallback >= 0 && batch->base_offset > cursor->next_offset) {
            return distrust(cursor, "", err);
        }
        cursor->fallback = -1;
        *whole = true;
        return MK_OK;
    case MK_BATCH_PARTIAL:
        if (left == 0) return move(cursor, err);
        wanted = batch->size > 0 ? batch->size : MK_BATCH_HEADER_SIZE;
        if ((int64_t)wanted > left) {
            return distrust(cursor, "a batch that does not end", err);
        }
        if (is_moved(cursor)) return move(cursor, err);
        return read_ahead(cursor, wanted, err);
    case MK_BATCH_OLD:
        if (cursor->fallback >= 0) return distrust(cursor, "", err);
        return mk_fail(err, MK_UNSUPPORTED,
                       "messages of format %d are not read yet", batch->magic);
    case MK_BATCH_DAMAGED:
        break;
    }
    return distrust(cursor, "no batch", err);
}

mk_status mk_cursor_read_batch(mk_cursor *cursor, const uint8_t **bytes,
                               mk_error *err)
{
    const mk_batch *batch = &cursor->batch;

    for (;;) {
        mk_status status;
        bool whole = false;

        if (cursor->segment == NULL || is_void(cursor)) {
            status = move(cursor, err);
        } else {
            status = look(cursor, &whole, err);
        }
        if (status != MK_OK) return status;
        if (!whole) continue;
        if (mk_batch_last_offset(batch) < cursor->next_offset ||
            batch->max_timestamp < cursor->skip_below_ms) {
            pass_batch(cursor);
            continue;
        }
        *bytes = cursor->ahead.data;
        if (!mk_batch_checksum_agrees(*bytes, batch)) {
            return fail_damaged(cursor, MK_CORRUPT_SEGMENT, "a wrong checksum",
                                err);
        }
        pass_batch(cursor);
        return MK_OK;
    }
}

/* ---- Records ---- */

/* The run's end is reached: MK_END, unless the log has gone from there. */
static mk_status check_end(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK && (cursor->next_offset < log->log_start_offset ||
                            cursor->next_offset > log->log_end_offset)) {
        status = mk_log_fail_range_locked(log, cursor->next_offset, err);
    }
    mk_mutex_unlock(&log->mutex);
    return status == MK_OK ? MK_END : status;
}

/* Begin with the records of the next batch that has any for readers. */
static mk_status begin_batch(mk_cursor *cursor, mk_error *err)
{
    const mk_batch *batch = &cursor->batch;

    for (;;) {
        const uint8_t *bytes = NULL;
        mk_span records;
        mk_status status;

        if (cursor->end_offset != MK_TO_END &&
            cursor->next_offset >= cursor->end_offset) {
            return check_end(cursor, err);
        }
        status = mk_cursor_read_batch(cursor, &bytes, err);
        if (status != MK_OK) return status;
        if (mk_batch_is_control(batch) || batch->record_count == 0) {
            cursor->next_offset = mk_batch_next_offset(batch);
            continue;
        }
        if ((batch->attributes & MK_ATTRIBUTE_CODEC) != 0) {
            return mk_fail(err, MK_UNSUPPORTED,
                           "compressed batches are not read yet");
        }
        records = mk_batch_records(bytes, batch);
        cursor->record = records.data;
        cursor->records_end = records.data + records.size;
        cursor->records_left = batch->record_count;
        return MK_OK;
    }
}

static void fill_view(const mk_cursor *cursor, const mk_record_fields *fields,
                      mk_record_view *out)
{
    const mk_batch *batch = &cursor->batch;

    out->offset = batch->base_offset + fields->offset_delta;
    out->timestamp_ms = (batch->attributes & MK_ATTRIBUTE_APPEND_TIME) != 0
                            ? batch->max_timestamp
                            : (int64_t)((uint64_t)batch->base_timestamp +
                                        (uint64_t)fields->timestamp_delta);
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
    cursor->position -= cursor->batch.size; /* Where the batch begins. */
    cursor->records_left = 0;
    cursor->ahead = (mk_span){NULL, 0};
    return fail_damaged(cursor, MK_CORRUPT_BATCH, "a record that can't be read",
                        err);
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

/* Step over the record at hand, whose offset is given; behind the last one,
 * over the rest of its batch's range. */
static mk_status step_over(mk_cursor *cursor, const uint8_t *next,
                           int64_t offset, mk_error *err)
{
    cursor->record = next;
    cursor->records_left--;
    if (offset >= cursor->next_offset) cursor->next_offset = offset + 1;
    if (cursor->records_left > 0) return MK_OK;
    if (next != cursor->records_end) return fail_record(cursor, err);
    cursor->next_offset = mk_batch_next_offset(&cursor->batch);
    return MK_OK;
}

mk_status mk_cursor_next(mk_cursor *cursor, mk_record_view *out, mk_error *err)
{
    if (MK_UNLIKELY(cursor->max_records != MK_NO_LIMIT &&
                    cursor->run_records >= cursor->max_records)) {
        return MK_END;
    }
    for (;;) {
        mk_record_fields fields;
        const uint8_t *next;
        mk_status status;
        int64_t size;
        bool wanted;

        if (MK_UNLIKELY(cursor->records_left == 0 || is_void(cursor))) {
            cursor->records_left = 0;
            status = begin_batch(cursor, err);
            if (status != MK_OK) return status;
        }
        next = mk_record_decode(cursor->record, cursor->records_end, &fields);
        if (MK_UNLIKELY(next == NULL)) return fail_record(cursor, err);
        fill_view(cursor, &fields, out);
        wanted = out->offset >= cursor->next_offset;
        size = next - cursor->record;
        if (wanted && is_past_limit(cursor, out->offset, size)) return MK_END;
        status = step_over(cursor, next, out->offset, err);
        if (MK_UNLIKELY(status != MK_OK)) return status;
        if (!wanted) continue;
        cursor->run_records++;
        cursor->run_bytes += size;
        return MK_OK;
    }
}

/* ---- Life ---- */

mk_status mk_cursor_new(mk_log *log, mk_cursor **out, mk_error *err)
{
    mk_cursor *cursor = mk_alloc_zero(&log->heap, sizeof *cursor);

    *out = cursor;
    if (cursor == NULL) return mk_fail_memory(err, sizeof *cursor);
    cursor->end_offset = MK_TO_END;
    cursor->max_records = cursor->max_bytes = MK_NO_LIMIT;
    cursor->skip_below_ms = INT64_MIN;
    mk_scratch_init(&cursor->scratch, &log->heap);
    mk_mutex_lock(&log->mutex);
    cursor->log = mk_log_acquire_locked(log);
    mk_mutex_unlock(&log->mutex);
    return MK_OK;
}

void mk_cursor_free(mk_cursor *cursor)
{
    mk_heap heap;
    mk_log *log;

    if (cursor == NULL) return;
    log = cursor->log;
    heap = log->heap;
    mk_mutex_lock(&log->mutex);
    leave_place_locked(cursor);
    mk_mutex_unlock(&log->mutex);
    mk_scratch_deinit(&cursor->scratch);
    mk_release(&heap, cursor);
    mk_log_release(log);
}

static mk_status go_locked(mk_cursor *cursor, int64_t offset, mk_error *err)
{
    const mk_log *log = cursor->log;
    mk_status status;

    if (offset < log->log_start_offset || offset > log->log_end_offset) {
        return mk_log_fail_range_locked(log, offset, err);
    }
    cursor->next_offset = offset;
    status = find_place_locked(cursor, err);
    if (status == MK_END) {
        leave_place_locked(cursor);
        cursor->next_offset = offset;
        status = MK_OK;
    }
    return status;
}

mk_status mk_cursor_go_to_start(mk_cursor *cursor, mk_error *err)
{
    mk_log *log = cursor->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) {
        status = go_locked(cursor, log->log_start_offset, err);
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

mk_status mk_cursor_go(mk_cursor *cursor, int64_t offset, mk_error *err)
{
    mk_log *log = cursor->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) status = go_locked(cursor, offset, err);
    mk_mutex_unlock(&log->mutex);
    return status;
}
