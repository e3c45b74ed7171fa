/*
 * lookup -- time indexes first, then headers, then records.
 *
 * A segment whose greatest time is too early is passed over. In the first one
 * that is not, the time index says up to where no record is late enough; from
 * there on batches are skipped by the time in their headers.
 */
#include "log/lookup.h"

#include "base/check.h"
#include "log/refresh.h"
#include "log/segment_indexes.h"

#include "base/poison.h"

#define LOOKS 64 /* Of a reader, at a log that does not stand still. */

/* Where may the first record at or after the time be? -1: nowhere. */
static mk_status find_start_locked(mk_log *log, int64_t timestamp_ms,
                                   int64_t *out, mk_error *err)
{
    size_t i = mk_log_find_segment_locked(log, log->log_start_offset);

    *out = -1;
    for (; i < log->segment_count; i++) {
        mk_segment *segment = log->segments[i];
        mk_time_entry entry;
        mk_status status;

        if (segment->log_bytes == 0) continue;
        if (segment->max_timestamp_ms < timestamp_ms) continue;
        status = mk_log_load_indexes_locked(log, segment, err);
        if (status != MK_OK) return status;
        /* Records as late as `timestamp_ms` itself may stand at the entry that
         * names that very time, so take the one before it. */
        entry = mk_time_index_lookup(&segment->times, timestamp_ms > INT64_MIN
                                                          ? timestamp_ms - 1
                                                          : timestamp_ms);
        *out = entry.timestamp_ms < 0 ? segment->base_offset : entry.offset + 1;
        if (*out < log->log_start_offset) *out = log->log_start_offset;
        return MK_OK;
    }
    return MK_OK;
}

static mk_status find_time(mk_log *log, int64_t timestamp_ms, int64_t *offset,
                           int64_t *found_ms, mk_error *err)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    int64_t start = -1;
    uint64_t generation;
    mk_status status;

    *offset = *found_ms = -1;
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) {
        do {
            generation = log->generation;
            status = find_start_locked(log, timestamp_ms, &start, err);
        } while (mk_log_was_outdated_locked(log, generation, status));
    }
    mk_mutex_unlock(&log->mutex);
    if (status != MK_OK) return status;
    if (start < 0) return MK_END;
    status = mk_cursor_new(log, &cursor, err);
    if (status != MK_OK) return status;
    cursor->walk.skip_below_ms = timestamp_ms;
    status = mk_cursor_go(cursor, start, err);
    while (status == MK_OK) {
        status = mk_cursor_next(cursor, &view, err);
        if (status == MK_OK && view.timestamp_ms >= timestamp_ms) {
            *offset = view.offset;
            *found_ms = view.timestamp_ms;
            break;
        }
    }
    mk_cursor_free(cursor);
    return status;
}

/* The greatest time in segments that lie wholly at or behind the log start; in
 * the one that does not, records must be looked at. */
static mk_status find_greatest(mk_log *log, int64_t *greatest_ms,
                               int64_t *look_from, int64_t *look_to,
                               mk_error *err)
{
    mk_status status;

    *greatest_ms = *look_from = *look_to = -1;
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    for (size_t i = 0; status == MK_OK && i < log->segment_count; i++) {
        const mk_segment *segment = log->segments[i];

        if (segment->next_offset <= log->log_start_offset) continue;
        if (segment->base_offset < log->log_start_offset) {
            *look_from = log->log_start_offset;
            *look_to = segment->next_offset;
        } else if (segment->max_timestamp_ms > *greatest_ms) {
            *greatest_ms = segment->max_timestamp_ms;
        }
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

static mk_status find_max_time(mk_log *log, int64_t *offset, int64_t *found_ms,
                               mk_error *err)
{
    int64_t greatest_ms, from, to;
    mk_status status;

    *offset = *found_ms = -1;
    status = find_greatest(log, &greatest_ms, &from, &to, err);
    if (status == MK_OK && from >= 0) {
        mk_cursor *cursor = NULL;
        mk_record_view view;

        status = mk_cursor_new(log, &cursor, err);
        if (status != MK_OK) return status;
        cursor->end_offset = to;
        status = mk_cursor_go(cursor, from, err);
        while (status == MK_OK) {
            status = mk_cursor_next(cursor, &view, err);
            if (status == MK_OK && view.timestamp_ms > greatest_ms) {
                greatest_ms = view.timestamp_ms;
            }
        }
        if (status == MK_END) status = MK_OK;
        mk_cursor_free(cursor);
    }
    if (status != MK_OK) return status;
    if (greatest_ms < 0) return MK_END;
    return find_time(log, greatest_ms, offset, found_ms, err);
}

/* ---- Public functions ---- */

/* Has a writer changed a reader's log since `*generation`? */
static bool has_changed(mk_log *log, uint64_t *generation)
{
    uint64_t before = *generation;

    mk_mutex_lock(&log->mutex);
    mk_log_notice_locked(log);
    *generation = log->generation;
    mk_mutex_unlock(&log->mutex);
    return *generation != before;
}

/* What a reader finds by indexes and facts of one moment and by records of a
 * later one need not be right for either: it looks again. */
mk_status mk_log_find_time(mk_log *log, int64_t timestamp_ms, int64_t *offset,
                           int64_t *found_ms, mk_error *err)
{
    uint64_t generation = 0;
    mk_status status;
    int looks = 0;

    if (log->read_only) (void)has_changed(log, &generation);
    do {
        status = find_time(log, timestamp_ms, offset, found_ms, err);
    } while (log->read_only && ++looks < LOOKS &&
             has_changed(log, &generation));
    return status;
}

mk_status mk_log_find_max_time(mk_log *log, int64_t *offset, int64_t *found_ms,
                               mk_error *err)
{
    uint64_t generation = 0;
    mk_status status;
    int looks = 0;

    if (log->read_only) (void)has_changed(log, &generation);
    do {
        status = find_max_time(log, offset, found_ms, err);
    } while (log->read_only && ++looks < LOOKS &&
             has_changed(log, &generation));
    return status;
}
