/* refresh -- a reader's view of a log that another process writes. */
#include "log/refresh.h"

#include "log/recovery.h"

#include "base/poison.h"

static bool is_same_file(const mk_file_stat *a, const mk_file_stat *b)
{
    return a->inode == b->inode && a->size == b->size &&
           a->mtime_ms == b->mtime_ms;
}

/* Is the directory as it was seen: the same state and segments, the last of
 * that size? */
static mk_status is_unchanged(mk_log *log, bool *out, mk_error *err)
{
    mk_name_list names;
    mk_file_stat stat;
    size_t count = 0;
    int64_t size = 0;
    mk_status status = mk_vfs_stat(log->vfs, log->directory, &stat, err);

    *out = false;
    if (status != MK_OK || stat.inode != log->directory_inode) return status;
    status = mk_log_stat_state(log, &stat, err);
    if (status != MK_OK || !is_same_file(&stat, &log->state_stat)) {
        return status;
    }
    status = mk_vfs_list(log->vfs, log->directory, &names, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i < names.count; i++) {
        mk_file_name name = mk_name_parse(names.names[i]);

        if (name.role != MK_ROLE_LOG || name.stage != MK_STAGE_FINAL) continue;
        if (count < log->segment_count &&
            log->segments[count]->base_offset == name.offset) {
            count++;
        } else {
            count = SIZE_MAX / 2;
        }
    }
    mk_name_list_deinit(&names);
    if (count != log->segment_count || count == 0) return MK_OK;
    status = mk_log_measure_segment(log, mk_log_active_locked(log), &size, err);
    *out = status == MK_OK && size == mk_log_active_locked(log)->log_bytes;
    return status;
}

static void swap_sets(mk_log *log, mk_segment ***segments, size_t *count,
                      size_t *capacity)
{
    mk_segment **old = log->segments;
    size_t old_count = log->segment_count;
    size_t old_capacity = log->segment_capacity;

    log->segments = *segments;
    log->segment_count = *count;
    log->segment_capacity = *capacity;
    *segments = old;
    *count = old_count;
    *capacity = old_capacity;
}

mk_status mk_log_refresh_locked(mk_log *log, mk_error *err)
{
    int64_t start = log->log_start_offset;
    int64_t end = log->log_end_offset;
    mk_recovery_point point = log->recovery_point;
    mk_segment **other = NULL;
    size_t count = 0, capacity = 0;
    bool unchanged;
    mk_status status;

    if (!log->read_only) return MK_OK;
    status = is_unchanged(log, &unchanged, err);
    if (status == MK_OK && unchanged) return MK_OK;
    if (status != MK_OK && status != MK_NOT_FOUND) return status;
    swap_sets(log, &other, &count, &capacity);
    log->log_start_offset = log->log_end_offset = 0;
    status = mk_log_recover(log, NULL, err);
    if (status == MK_OK) status = mk_log_imagine_active_locked(log, err);
    if (status != MK_OK) {
        swap_sets(log, &other, &count, &capacity);
        log->log_start_offset = start;
        log->log_end_offset = end;
        log->recovery_point = point;
    }
    for (size_t i = 0; i < count; i++) {
        mk_log_close_idle_file_locked(log, other[i]);
        mk_log_release_segment_locked(log, other[i]);
    }
    mk_release(&log->heap, other);
    log->generation++;
    mk_condition_signal_all(&log->changed);
    return status;
}
