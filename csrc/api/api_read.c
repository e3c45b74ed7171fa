/* api_read -- reading from outside. */
#include <inttypes.h>

#include "base/check.h"
#include "log/cursor.h"
#include "log/lookup.h"
#include "log/refresh.h"

#include "base/poison.h"

void mk_cursor_options_default(mk_cursor_options *out)
{
    *out = (mk_cursor_options){
        .from = MK_FROM_START,
        .end_offset = MK_TO_END,
        .max_records = MK_NO_LIMIT,
        .max_bytes = MK_NO_LIMIT,
    };
}

static mk_status check_options(const mk_cursor_options *options, mk_error *err)
{
    if (options->isolation != MK_READ_UNCOMMITTED) {
        return mk_fail(err, MK_UNSUPPORTED,
                       "transactions are not built in yet");
    }
    if (options->max_records < MK_NO_LIMIT ||
        options->max_bytes < MK_NO_LIMIT) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "a limit is negative");
    }
    return MK_OK;
}

mk_status mk_cursor_open(mk_log *log, const mk_cursor_options *options,
                         mk_cursor **out, mk_error *err)
{
    mk_cursor_options defaults;
    mk_status status;

    *out = NULL;
    mk_cursor_options_default(&defaults);
    if (options == NULL) options = &defaults;
    status = check_options(options, err);
    if (status == MK_OK) status = mk_cursor_new(log, out, err);
    if (status != MK_OK) return status;
    mk_cursor_limit(*out, options->end_offset, options->max_records,
                    options->max_bytes);
    status = options->from == MK_FROM_START
                 ? mk_cursor_go_to_start(*out, err)
                 : mk_cursor_seek(*out, options->from, err);
    if (status != MK_OK) {
        mk_cursor_free(*out);
        *out = NULL;
    }
    return status;
}

void mk_cursor_close(mk_cursor *cursor)
{
    mk_cursor_free(cursor);
}

int64_t mk_cursor_next_offset(const mk_cursor *cursor)
{
    return cursor->walk.next_offset;
}

mk_status mk_cursor_seek(mk_cursor *cursor, int64_t offset, mk_error *err)
{
    mk_log *log = cursor->walk.log;
    mk_status status;

    if (log->read_only) {
        /* What was cut off, or cleaned up, must not be found again. */
        mk_mutex_lock(&log->mutex);
        mk_log_notice_locked(log);
        mk_mutex_unlock(&log->mutex);
    }
    status = mk_cursor_go(cursor, offset, err);
    if (status != MK_OFFSET_OUT_OF_RANGE || !log->read_only) return status;
    /* The log may reach farther by now. */
    status = mk_log_refresh(log, err);
    if (status != MK_OK) return status;
    return mk_cursor_go(cursor, offset, err);
}

mk_status mk_cursor_seek_time(mk_cursor *cursor, int64_t timestamp_ms,
                              mk_error *err)
{
    int64_t offset, found_ms;
    mk_log_info info;
    mk_status status = mk_log_offset_for_timestamp(
        cursor->walk.log, timestamp_ms, &offset, &found_ms, err);

    if (status == MK_END) {
        status = mk_log_get_info(cursor->walk.log, &info, err);
        offset = info.log_end_offset;
    }
    if (status != MK_OK) return status;
    return mk_cursor_seek(cursor, offset, err);
}

void mk_cursor_limit(mk_cursor *cursor, int64_t end_offset, int64_t max_records,
                     int64_t max_bytes)
{
    cursor->end_offset = end_offset;
    cursor->max_records = max_records;
    cursor->max_bytes = max_bytes;
    cursor->run_records = 0;
    cursor->run_bytes = 0;
    mk_cursor_find_plain(cursor);
}

static void describe(const mk_cursor *cursor, mk_batch_view *out)
{
    const mk_batch *batch = &cursor->walk.batch;

    *out = (mk_batch_view){
        .base_offset = batch->base_offset,
        .last_offset = mk_batch_last_offset(batch),
        .position = cursor->walk.position - batch->size,
        .segment_base_offset = cursor->walk.segment->base_offset,
        .base_timestamp_ms = batch->base_timestamp,
        .max_timestamp_ms = batch->max_timestamp,
        .producer_id = batch->producer_id,
        .record_count = batch->record_count,
        .size_bytes = (int32_t)batch->size,
        .leader_epoch = batch->leader_epoch,
        .base_sequence = batch->base_sequence,
        .producer_epoch = batch->producer_epoch,
        .magic = batch->magic,
        .crc = batch->crc,
        .codec = (mk_codec)(batch->attributes & MK_ATTRIBUTE_CODEC),
        .control = mk_batch_is_control(batch),
        .transactional = (batch->attributes & MK_ATTRIBUTE_TRANSACTIONAL) != 0,
        .append_time = (batch->attributes & MK_ATTRIBUTE_APPEND_TIME) != 0,
        .has_delete_horizon =
            (batch->attributes & MK_ATTRIBUTE_DELETE_HORIZON) != 0,
    };
}

mk_status mk_cursor_next_batch(mk_cursor *cursor, mk_batch_view *out,
                               mk_error *err)
{
    const uint8_t *bytes = NULL;
    mk_status status;

    if (cursor->end_offset != MK_TO_END &&
        cursor->walk.next_offset >= cursor->end_offset) {
        return MK_END;
    }
    if (cursor->records_left > 0) {
        /* In the midst of a batch: that one comes first. */
        cursor->walk.position -= cursor->walk.batch.size;
        cursor->walk.ahead = (mk_span){NULL, 0};
    }
    cursor->records_left = cursor->plain_left = 0;
    status = mk_walk_next(&cursor->walk, &bytes, err);
    if (status != MK_OK) return status;
    describe(cursor, out);
    cursor->walk.next_offset = mk_batch_next_offset(&cursor->walk.batch);
    return MK_OK;
}

mk_status mk_record_headers(const mk_record_view *view, mk_header *out,
                            mk_error *err)
{
    const uint8_t *next = view->headers;
    const uint8_t *end = view->headers + view->headers_size;

    for (size_t i = 0; i < view->header_count; i++) {
        next = mk_header_decode(next, end, &out[i]);
        if (next == NULL) {
            return mk_fail(err, MK_CORRUPT_BATCH,
                           "header %zu of the record at offset %" PRId64
                           " can't be read",
                           i, view->offset);
        }
    }
    return MK_OK;
}

mk_status mk_log_offset_for_timestamp(mk_log *log, int64_t timestamp_ms,
                                      int64_t *offset, int64_t *found_ms,
                                      mk_error *err)
{
    return mk_log_find_time(log, timestamp_ms, offset, found_ms, err);
}

mk_status mk_log_offset_of_max_timestamp(mk_log *log, int64_t *offset,
                                         int64_t *found_ms, mk_error *err)
{
    return mk_log_find_max_time(log, offset, found_ms, err);
}
