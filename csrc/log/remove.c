/*
 * remove -- dropping from the start, cutting from the end.
 *
 * What is no longer part of the log is first said in the state file, on stable
 * storage, and then done: a death in between leaves files that the next opening
 * knows to be below the log start.
 */
#include "log/remove.h"

#include "base/check.h"
#include "log/segment_indexes.h"
#include "log/state_store.h"

#include "base/poison.h"

/* ---- The start ---- */

/* Move the log start, in memory and in the state file. */
static mk_status set_start(mk_log *log, int64_t offset, mk_error *err)
{
    int64_t before = log->log_start_offset;
    mk_recovery_point point = log->recovery_point;
    bool begun;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    log->log_start_offset = offset;
    if (log->recovery_point.offset < offset) {
        log->recovery_point.offset = offset;
        log->recovery_point.segment = -1;
    }
    status = mk_log_replace_state_locked(log, &begun, err);
    if (status == MK_OK) return MK_OK;
    log->log_start_offset = before;
    log->recovery_point = point;
    /* The new state may be in place though not synced: put the old one back.
     * Which of the two is stable, only a sync tells, be it the next opening's.
     */
    if (begun && mk_log_store_state_locked(log, true, NULL) != MK_OK) {
        mk_log_doubt_sync_locked(log, err);
    }
    return status;
}

/* Take segments off the front, and unlink their files, oldest first. */
static mk_status unlink_prefix(mk_log *log, size_t count, mk_error *err)
{
    mk_status result = MK_OK;

    for (size_t i = 0; i < count; i++) {
        int64_t base_offset = log->segments[0]->base_offset;
        mk_status status;

        mk_log_forget_segments_locked(log, 0, 1);
        status = mk_segment_unlink(log->vfs, log->directory, base_offset,
                                   result == MK_OK ? err : NULL);
        if (status != MK_OK && log->stray_end <= base_offset) {
            log->stray_end = base_offset + 1;
        }
        if (result == MK_OK) result = status;
    }
    mk_condition_signal_all(&log->changed);
    return result;
}

mk_status mk_log_drop_prefix_locked(mk_log *log, size_t count, mk_error *err)
{
    int64_t start;
    mk_status status;

    MK_ASSERT(count < log->segment_count);
    if (count == 0) return MK_OK;
    start = log->segments[count]->base_offset;
    if (start < log->log_start_offset) start = log->log_start_offset;
    status = set_start(log, start, err);
    if (status != MK_OK) return status;
    return unlink_prefix(log, count, err);
}

mk_status mk_log_advance_start_locked(mk_log *log, int64_t offset,
                                      mk_error *err)
{
    size_t count = 0;
    mk_status status;

    while (count + 1 < log->segment_count &&
           log->segments[count + 1]->base_offset <= offset) {
        count++;
    }
    status = set_start(log, offset, err);
    if (status != MK_OK) return status;
    log->generation++; /* Readers below the start must find out. */
    return unlink_prefix(log, count, err);
}

/* ---- The end ---- */

/* Find the position in the segment's log where the batch that holds `offset`,
 * or the first one after it, begins. */
static mk_status find_cut(mk_log *log, mk_segment *segment, int64_t offset,
                          int64_t *out, mk_error *err)
{
    mk_scan_start start;
    mk_scratch scratch;
    mk_status status = mk_log_load_indexes_locked(log, segment, err);

    if (status != MK_OK) return status;
    start = mk_offset_index_lookup(&segment->offsets, offset);
    *out = start.position;
    mk_scratch_init(&scratch, &log->heap);
    while (*out < segment->log_bytes) {
        mk_batch batch;
        mk_span bytes;

        status = mk_file_view(segment->log.file, &scratch, *out,
                              MK_BATCH_HEADER_SIZE, &bytes, err);
        if (status != MK_OK) break;
        if (mk_batch_peek(bytes, &batch) == MK_BATCH_DAMAGED ||
            batch.size == 0) {
            status = mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory, *out,
                                "no batch at position %lld", (long long)*out);
            break;
        }
        if (mk_batch_last_offset(&batch) >= offset) break;
        *out += batch.size;
    }
    mk_scratch_deinit(&scratch);
    return status;
}

/* Give `fresh` the entries that the segment's indexes, which are loaded, have
 * for its batches. As in Kafka they are kept, and the next one counts from
 * here. */
static mk_status keep_entries(mk_segment *fresh, const mk_segment *segment,
                              mk_error *err)
{
    const mk_offset_index *offsets = &segment->offsets;
    const mk_time_index *times = &segment->times;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < offsets->count; i++) {
        const mk_offset_entry *entry = &offsets->entries[i];
        int64_t offset = segment->base_offset + entry->relative_offset;

        if (offset >= fresh->next_offset) break;
        status =
            mk_offset_index_add(&fresh->offsets, offset, entry->position, err);
    }
    for (size_t i = 0; status == MK_OK && i < times->count; i++) {
        const mk_time_entry *entry = &times->entries[i];

        if (entry->offset >= fresh->next_offset) break;
        status = mk_time_index_maybe_add(&fresh->times, entry->timestamp_ms,
                                         entry->offset, err);
    }
    fresh->bytes_since_entry = 0;
    return status;
}

/* Note the segment's batches anew up to `size`, in a segment of its own. */
static mk_status rescan(mk_log *log, mk_segment *segment, int64_t size,
                        mk_segment **out, mk_error *err)
{
    mk_segment_scan scan;
    mk_scratch scratch;
    mk_status status =
        mk_segment_new(&log->heap, segment->base_offset, out, err);

    if (status != MK_OK) return status;
    mk_scratch_init(&scratch, &log->heap);
    mk_segment_scan_init(&scan, *out, segment->log.file, size, INT64_MAX,
                         &scratch);
    while (status == MK_OK && scan.end == MK_SCAN_RUNNING) {
        status = mk_segment_scan_step(&scan, 1u << 20, err);
    }
    if (status == MK_OK && (*out)->log_bytes != size) {
        status = mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory,
                            (*out)->log_bytes, "the segment is damaged");
    }
    if (status == MK_OK) status = keep_entries(*out, segment, err);
    mk_scratch_deinit(&scratch);
    return status;
}

/* Say in the state file that the log is being cut to `offset`, with `last` in
 * the end, or nothing where that is NULL: from here on that is what it comes
 * to, whatever happens. */
static mk_status announce_cut(mk_log *log, int64_t offset,
                              const mk_segment *last, bool *begun,
                              mk_error *err)
{
    mk_recovery_point point = log->recovery_point;
    int64_t start = log->log_start_offset;
    bool point_low = log->point_low;
    mk_status status;

    if (start > offset) log->log_start_offset = offset;
    if (log->recovery_point.offset > offset) {
        log->point_low = true;
        log->recovery_point = (mk_recovery_point){
            .offset = log->log_start_offset,
            .segment = -1,
            .batch_position = -1,
            .end_position = -1,
        };
    }
    log->cut_to = offset;
    log->cut_segment = last != NULL ? last->base_offset : offset;
    log->cut_size = last != NULL ? last->log_bytes : 0;
    status = mk_log_replace_state_locked(log, begun, err);
    /* Until it is made, what lies below the start is there, and deleted. */
    log->log_start_offset = start;
    if (*begun) return status;
    log->cut_to = -1;
    log->recovery_point = point;
    log->point_low = point_low;
    return status;
}

static bool is_stray(const mk_log *log, mk_file_name name, int64_t offset)
{
    if (name.role != MK_ROLE_LOG || name.offset < offset ||
        name.offset >= log->stray_end) {
        return false;
    }
    for (size_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i]->base_offset == name.offset) return false;
    }
    return true;
}

/* Remove what a failed removal has left from `offset` on, where offsets are
 * about to be given again: it would pass for a part of the log. */
static mk_status unlink_strays(mk_log *log, int64_t offset, mk_error *err)
{
    mk_name_list names;
    mk_status status;

    if (log->stray_end <= offset) return MK_OK;
    status = mk_vfs_list(log->vfs, log->directory, &names, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i < names.count && status == MK_OK; i++) {
        mk_file_name name = mk_name_parse(names.names[i]);

        if (!is_stray(log, name, offset)) continue;
        status = mk_segment_unlink(log->vfs, log->directory, name.offset, err);
    }
    mk_name_list_deinit(&names);
    return status;
}

/* Start again, empty, at `offset`. */
static mk_status empty_at(mk_log *log, int64_t offset, int64_t now_ms,
                          bool *begun, mk_error *err)
{
    mk_status status = unlink_strays(log, offset, err);

    if (status == MK_OK) status = announce_cut(log, offset, NULL, begun, err);
    log->cut_offset = 0;
    if (status == MK_OK) status = mk_log_drop_suffix_locked(log, 0, err);
    if (status != MK_OK) return status;
    log->log_start_offset = log->log_end_offset = offset;
    log->dense_offset = offset;
    log->recovery_point.offset = offset;
    return mk_log_create_active_locked(log, offset, now_ms, err);
}

/* Put `fresh`, which has what stays, in the place of the last segment, which is
 * sealed: readers may hold that one and its file. */
static mk_status unseal_last(mk_log *log, mk_segment *fresh, int64_t now_ms,
                             mk_error *err)
{
    mk_segment *last = mk_log_active_locked(log);

    fresh->index_interval_bytes = last->index_interval_bytes;
    fresh->index_bytes_max = last->index_bytes_max;
    log->segments[log->segment_count - 1] = fresh;
    fresh->sealed = true; /* Until it is open. */
    mk_log_close_idle_file_locked(log, last);
    mk_log_release_segment_locked(log, last);
    return mk_log_open_active_locked(log, now_ms, err);
}

/* See that nobody else has the last segment's file. If it must be made anew,
 * from the `size` bytes that stay, the segment is sealed: its file is the old
 * one. */
static mk_status unshare_last(mk_log *log, int64_t size, mk_error *err)
{
    mk_segment *last = mk_log_active_locked(log);
    /* What readers have mapped must not be cut under them. */
    size_t own_pins = last->sealed ? 0 : 1;
    bool held = last->log.pins > own_pins && log->mapped != MK_MAPPED_NEVER;
    bool unshared;
    mk_status status =
        mk_segment_unshare_log(log->vfs, log->directory, last->base_offset,
                               size, held, &unshared, err);

    if (status != MK_OK || !unshared) return status;
    if (!last->sealed) {
        last->sealed = true;
        mk_log_unpin_locked(log, last);
    }
    /* The state must not say that the end was cut off while a loss of power
     * may bring the old file back. */
    return mk_vfs_sync_directory(log->vfs, log->directory,
                                 MK_SYNC_CUT_DIRECTORY, err);
}

/* Cut the last segment to what `fresh` has, and append from there. `fresh` is
 * taken over. */
static mk_status cut_last(mk_log *log, mk_segment *fresh, int64_t now_ms,
                          mk_error *err)
{
    mk_segment *active = mk_log_active_locked(log);
    int64_t size = fresh->log_bytes;
    mk_status status = unshare_last(log, size, err);

    if (status == MK_OK && active->sealed) {
        status = unseal_last(log, fresh, now_ms, err);
        active = fresh;
        fresh = NULL;
    }
    if (status == MK_OK) {
        status = mk_file_truncate(active->log.file, size, err);
    }
    if (status == MK_OK && fresh != NULL) {
        mk_segment_adopt(active, fresh);
        if (size == 0) active->created_ms = now_ms;
    }
    if (status == MK_OK) {
        /* What was cut off must not come back where new records were given
         * its offsets. */
        status =
            mk_file_sync(active->log.file, true, MK_SYNC_TRUNCATE_LOG, err);
        if (status != MK_OK) mk_log_doubt_sync_locked(log, err);
    }
    /* What readers know of positions in it ends here. */
    active->id = ++log->last_segment_id;
    mk_segment_free(fresh);
    return status;
}

static mk_status cut_at(mk_log *log, int64_t offset, int64_t now_ms,
                        bool *begun, mk_error *err)
{
    size_t keep = mk_log_find_segment_locked(log, offset) + 1;
    mk_segment *last = log->segments[keep - 1];
    mk_segment *fresh = NULL;
    int64_t size = 0;
    mk_status status = mk_log_pin_locked(log, last, err);

    if (status != MK_OK) return status;
    status = find_cut(log, last, offset, &size, err);
    if (status == MK_OK) status = rescan(log, last, size, &fresh, err);
    mk_log_unpin_locked(log, last);
    if (status == MK_OK) log->cut_offset = fresh->next_offset;
    if (status == MK_OK) status = announce_cut(log, offset, fresh, begun, err);
    if (status == MK_OK) status = mk_log_drop_suffix_locked(log, keep, err);
    if (status != MK_OK) {
        mk_segment_free(fresh);
        return status;
    }
    status = cut_last(log, fresh, now_ms, err);
    if (status != MK_OK) return status;
    log->log_end_offset = offset;
    if (log->log_start_offset > offset) log->log_start_offset = offset;
    log->dense_offset = offset; /* Gaps may stand before it. */
    return MK_OK;
}

mk_status mk_log_cut_end_locked(mk_log *log, int64_t offset, int64_t now_ms,
                                mk_error *err)
{
    bool empties = offset < log->segments[0]->base_offset;
    bool begun = false;
    mk_error scratch;
    mk_status status;

    MK_ASSERT(log->maintaining);
    MK_ASSERT(offset < log->log_end_offset);
    if (err == NULL) err = &scratch;
    while (log->syncing) {
        mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
    }
    status = empties ? empty_at(log, offset, now_ms, &begun, err)
                     : cut_at(log, offset, now_ms, &begun, err);
    log->generation++;
    log->cuts++;
    /* That syncs the names, too. */
    if (status == MK_OK) status = mk_log_end_cut_locked(log, err);
    if (status != MK_OK && begun) {
        mk_log_refuse_locked(log, err);
    } else {
        log->cut_offset = -1;
    }
    mk_condition_signal_all(&log->changed);
    return status;
}
