/* log -- life, permissions, segments and state of an open partition. */
#include "log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "store/unproven_file.h"

#include "base/poison.h"

/* ---- Life ---- */

mk_log *mk_log_acquire_locked(mk_log *log)
{
    log->references++;
    return log;
}

static void free_log(mk_log *log)
{
    mk_heap heap = log->heap;
    mk_env *env = log->env;

    MK_ASSERT(log->segment_count == 0);
    MK_ASSERT(log->lock == NULL);
    mk_release(&heap, log->segments);
    mk_batch_cache_deinit(&log->batch_cache);
    mk_scratch_deinit(&log->spare);
    mk_condition_deinit(&log->changed);
    mk_mutex_deinit(&log->mutex);
    mk_release(&heap, log->siblings[MK_SIBLING_NEW]);
    mk_release(&heap, log->siblings[MK_SIBLING_OLD]);
    mk_release(&heap, log->place);
    mk_release(&heap, log->kept_tree);
    mk_release(&heap, log);
    mk_env_free(env);
}

void mk_log_release(mk_log *log)
{
    bool last;

    mk_mutex_lock(&log->mutex);
    MK_ASSERT(log->references > 0);
    last = --log->references == 0;
    mk_mutex_unlock(&log->mutex);
    if (last) free_log(log);
}

/* ---- May this be done? ---- */

mk_status mk_log_check_open_locked(mk_log *log, mk_error *err)
{
    bool dead = *log->vfs->session != log->session;

    if (MK_UNLIKELY(dead && log->vfs->dead_status == MK_CRASHED)) {
        return mk_fail(err, MK_CRASHED,
                       "the disk of log %s lost power; open it again",
                       log->directory);
    }
    if (MK_UNLIKELY(log->closed)) {
        return mk_fail(err, MK_CLOSED, "the log %s is closed", log->directory);
    }
    if (MK_UNLIKELY(dead)) {
        return mk_fail(err, MK_CLOSED,
                       "the log %s belongs to the process that opened it, "
                       "before this one was forked",
                       log->directory);
    }
    return MK_OK;
}

static bool in_callback(const mk_log *log)
{
    return log->callback_depth > 0 && log->callback_thread == mk_thread_self();
}

static mk_status fail_busy(mk_error *err)
{
    return mk_fail(err, MK_BUSY,
                   "a callback may not change the log it was called for");
}

mk_status mk_log_fail_refusing_locked(const mk_log *log, mk_error *err)
{
    if (err != NULL) *err = log->failure;
    mk_wrap(err, "the log refuses changes until it has healed, since");
    return log->failed;
}

mk_status mk_log_check_mendable_locked(mk_log *log, mk_error *err)
{
    mk_status status = mk_log_check_open_locked(log, err);

    if (status != MK_OK) return status;
    if (MK_UNLIKELY(log->closing)) {
        return mk_fail(err, MK_CLOSED, "the log %s is being closed",
                       log->directory);
    }
    if (MK_UNLIKELY(log->read_only)) {
        return mk_fail(err, MK_READ_ONLY, "the log %s was opened read-only",
                       log->directory);
    }
    if (MK_UNLIKELY(in_callback(log))) return fail_busy(err);
    return MK_OK;
}

mk_status mk_log_check_writable_locked(mk_log *log, mk_error *err)
{
    mk_status status = mk_log_check_mendable_locked(log, err);

    if (status != MK_OK) return status;
    if (MK_UNLIKELY(log->failed != MK_OK)) {
        return mk_log_fail_refusing_locked(log, err);
    }
    return MK_OK;
}

void mk_log_doubt_tail_locked(mk_log *log, const mk_error *err)
{
    if (log->failed != MK_OK) return;
    log->failed = err->status;
    log->failure = *err;
    mk_condition_signal_all(&log->changed);
}

void mk_log_refuse_locked(mk_log *log, const mk_error *err)
{
    log->set_doubted = true;
    mk_log_doubt_tail_locked(log, err);
}

void mk_log_doubt_sync_locked(mk_log *log, const mk_error *err)
{
    log->unproven = true;
    mk_log_doubt_tail_locked(log, err);
    /* If it can't be noted, this log still knows. */
    (void)!mk_unproven_note(log->vfs, log->directory, NULL);
    log->reserve_bytes = 0; /* It may have become the note. */
}

/* Does the log refuse changes only since its last records have no room? */
static bool lacks_room(const mk_log *log)
{
    return !log->set_doubted && mk_is_no_room(log->failed, &log->failure);
}

static mk_status begin_maintenance(mk_log *log, bool removes, mk_error *err)
{
    for (;;) {
        mk_status status = removes && lacks_room(log)
                               ? mk_log_check_mendable_locked(log, err)
                               : mk_log_check_writable_locked(log, err);

        if (status != MK_OK) return status;
        if (!log->maintaining) break;
        mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
    }
    log->maintaining = true;
    log->maintainer = mk_thread_self();
    return MK_OK;
}

/* Does the lock's name in the directory lead to the lock that is held? */
static mk_status is_in_place(const mk_log *log, bool *out, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat named, held;
    mk_status status;

    *out = false;
    status = mk_name_join(path, sizeof path, log->directory, MK_NAME_LOCK, err);
    if (status != MK_OK) return status;
    status = mk_file_stat_open(log->lock, &held, err);
    if (status != MK_OK) return status;
    status = mk_vfs_stat(log->vfs, path, &named, err);
    *out = status == MK_OK && named.inode == held.inode;
    return status == MK_NOT_FOUND ? MK_OK : status;
}

/* Has the active segment's file a name? */
static mk_status is_named(const mk_log *log, bool *out, mk_error *err)
{
    const mk_segment *active =
        log->segment_count > 0 ? mk_log_active_locked(log) : NULL;
    mk_file_stat stat;
    mk_status status;

    *out = true;
    if (active == NULL || active->sealed) return MK_OK;
    status = mk_file_stat_open(active->log.file, &stat, err);
    *out = status != MK_OK || stat.links > 0;
    return status;
}

static mk_status fail_place(mk_log *log, const char *what, mk_error *err)
{
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    status = mk_fail_errno(err, ESTALE, log->directory, "%s: %s",
                           log->directory, what);
    mk_log_refuse_locked(log, err);
    return status;
}

mk_status mk_log_check_lock_locked(mk_log *log, mk_error *err)
{
    bool in_place;
    mk_status status;

    if (log->swapping || log->lock == NULL) return MK_OK;
    status = is_in_place(log, &in_place, err);
    if (status != MK_OK || in_place) return status;
    return fail_place(log,
                      "the directory was moved, or another was put in its "
                      "place, while it was open",
                      err);
}

mk_status mk_log_check_place_locked(mk_log *log, mk_error *err)
{
    bool named = true;
    mk_status status = mk_log_check_lock_locked(log, err);

    if (status == MK_OK) status = is_named(log, &named, err);
    if (status != MK_OK || named) return status;
    return fail_place(log, "somebody removed the active segment", err);
}

mk_status mk_log_begin_maintenance_locked(mk_log *log, mk_error *err)
{
    return begin_maintenance(log, false, err);
}

mk_status mk_log_begin_removal_locked(mk_log *log, mk_error *err)
{
    return begin_maintenance(log, true, err);
}

void mk_log_end_maintenance_locked(mk_log *log)
{
    MK_ASSERT(log->maintaining);
    log->maintaining = false;
    mk_condition_signal_all(&log->changed);
}

void mk_log_enter_callback(mk_log *log)
{
    mk_mutex_lock(&log->mutex);
    if (log->callback_depth == 0) log->callback_thread = mk_thread_self();
    if (in_callback(log) || log->callback_depth == 0) log->callback_depth++;
    mk_mutex_unlock(&log->mutex);
}

void mk_log_leave_callback(mk_log *log)
{
    mk_mutex_lock(&log->mutex);
    if (in_callback(log)) log->callback_depth--;
    mk_mutex_unlock(&log->mutex);
}

mk_status mk_log_read_clock(mk_log *log, const mk_clock *clock, int64_t *now_ms,
                            mk_error *err)
{
    mk_clock own = log->clock;
    mk_status status = MK_OK;

    if (clock == NULL || clock->now == NULL) clock = &own;
    *now_ms = MK_TIMESTAMP_NOW;
    mk_mutex_lock(&log->mutex);
    mk_log_acquire_locked(log);
    if (in_callback(log)) status = fail_busy(err);
    mk_mutex_unlock(&log->mutex);
    if (status != MK_OK) return status;
    mk_log_enter_callback(log);
    status = clock->now(clock->context, now_ms, err);
    mk_log_leave_callback(log);
    if (status == MK_OK && *now_ms == MK_TIMESTAMP_NOW) {
        status =
            mk_fail(err, MK_INVALID_TIMESTAMP,
                    "the clock gave %" PRId64 ", which is no time", *now_ms);
    }
    return status;
}

/* ---- Segments ---- */

size_t mk_log_find_segment_locked(const mk_log *log, int64_t offset)
{
    size_t low = 0;                   /* [0, low) begin at or before it. */
    size_t high = log->segment_count; /* [high, count) begin past it. */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (log->segments[middle]->base_offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? low - 1 : 0;
}

void mk_log_number_segment_locked(mk_log *log, mk_segment *segment)
{
    segment->id = ++log->last_segment_id;
    segment->index_interval_bytes = log->config.index_interval_bytes;
    segment->index_bytes_max = log->config.segment_index_bytes;
}

mk_status mk_log_add_segment_locked(mk_log *log, mk_segment *segment,
                                    mk_error *err)
{
    void *array = log->segments;
    mk_status status =
        mk_grow(&log->heap, &array, &log->segment_capacity,
                log->segment_count + 1, sizeof *log->segments, err);

    log->segments = array;
    if (status != MK_OK) return status;
    if (log->segment_count > 0) {
        MK_ASSERT(mk_log_active_locked(log)->base_offset <
                  segment->base_offset);
    }
    mk_log_number_segment_locked(log, segment);
    log->segments[log->segment_count++] = segment;
    return MK_OK;
}

mk_segment *mk_log_acquire_segment_locked(mk_segment *segment)
{
    segment->references++;
    return segment;
}

void mk_log_release_segment_locked(mk_log *log, mk_segment *segment)
{
    MK_ASSERT(segment->references > 0);
    if (--segment->references > 0) return;
    mk_file_cache_drop(&log->files, &segment->log);
    mk_segment_free(segment);
}

void mk_log_close_idle_file_locked(mk_log *log, mk_segment *segment)
{
    if (segment->log.pins == 0) mk_file_cache_drop(&log->files, &segment->log);
}

void mk_log_forget_segments_locked(mk_log *log, size_t first, size_t count)
{
    MK_ASSERT(first + count <= log->segment_count);
    if (count == 0) return;
    for (size_t i = first; i < first + count; i++) {
        mk_segment *segment = log->segments[i];

        mk_log_close_idle_file_locked(log, segment);
        mk_log_release_segment_locked(log, segment);
    }
    memmove(log->segments + first, log->segments + first + count,
            (log->segment_count - first - count) * sizeof *log->segments);
    log->segment_count -= count;
    log->generation++;
}

void mk_log_forget_point_locked(mk_log *log)
{
    log->recovery_point = (mk_recovery_point){
        .offset = log->log_start_offset,
        .segment = -1,
        .batch_position = -1,
        .end_position = -1,
    };
}

mk_status mk_log_drop_suffix_locked(mk_log *log, size_t first, mk_error *err)
{
    if (log->segment_count <= first) return MK_OK;
    while (log->segment_count > first) {
        mk_segment *last = mk_log_active_locked(log);
        int64_t base_offset = last->base_offset;
        mk_status status;

        if (!last->sealed) {
            last->sealed = true;
            mk_log_unpin_locked(log, last);
        }
        mk_log_forget_segments_locked(log, log->segment_count - 1, 1);
        status = mk_segment_unlink(log->vfs, log->directory, base_offset, err);
        if (status != MK_OK) return status;
    }
    /* They have to be gone before the state forgets that they should be. */
    return mk_vfs_sync_directory(log->vfs, log->directory,
                                 MK_SYNC_CUT_DIRECTORY, err);
}

mk_status mk_log_pin_locked(mk_log *log, mk_segment *segment, mk_error *err)
{
    unsigned flags = 0;
    char path[MK_PATH_MAX];
    mk_status status;

    if (segment->log.file != NULL) {
        return mk_file_cache_pin(&log->files, &segment->log, NULL, 0, err);
    }
    if (segment->sealed && log->mapped != MK_MAPPED_NEVER && !log->read_only) {
        flags = MK_OPEN_MAPPED;
    }
    status = mk_segment_log_path(segment, mk_log_tree_locked(log), path,
                                 sizeof path, err);
    if (status != MK_OK) return status;
    return mk_file_cache_pin(&log->files, &segment->log, path, flags, err);
}

void mk_log_unpin_locked(mk_log *log, mk_segment *segment)
{
    mk_file_cache_unpin(&log->files, &segment->log);
}

mk_status mk_log_stat_segment(mk_log *log, const mk_segment *segment,
                              mk_file_stat *out, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    *out = (mk_file_stat){.size = 0};
    status =
        mk_segment_log_path(segment, log->directory, path, sizeof path, err);
    if (status == MK_OK) status = mk_vfs_stat(log->vfs, path, out, err);
    if (status != MK_OK || out->size <= INT32_MAX) return status;
    return mk_fail_at(err, MK_CORRUPT_SEGMENT, path, INT32_MAX,
                      "%s is larger than a segment can be", path);
}

int64_t mk_log_size_bytes_locked(const mk_log *log)
{
    int64_t sum = 0;

    for (size_t i = 0; i < log->segment_count; i++) {
        sum += mk_segment_size_bytes(log->segments[i]);
    }
    return sum;
}

void mk_log_describe_segment_locked(const mk_log *log, size_t i,
                                    mk_segment_info *out)
{
    const mk_segment *segment = log->segments[i];

    *out = (mk_segment_info){
        .base_offset = segment->base_offset,
        .next_offset = segment->next_offset,
        .log_bytes = segment->log_bytes,
        .index_bytes = mk_segment_index_bytes(segment),
        .max_timestamp_ms = segment->max_timestamp_ms,
    };
}

void mk_log_get_info_locked(const mk_log *log, mk_log_info *out)
{
    *out = (mk_log_info){
        .log_start_offset = log->log_start_offset,
        .log_end_offset = log->log_end_offset,
        .last_stable_offset = log->log_end_offset,
        .high_watermark = log->log_end_offset,
        .recovery_point = log->recovery_point.offset,
        .size_bytes = mk_log_size_bytes_locked(log),
        .segment_count = log->segment_count,
        .read_only = log->read_only,
    };
}

/* ---- Invariants ---- */

void mk_log_check_invariants_locked(const mk_log *log)
{
    const mk_segment *active = mk_log_active_locked(log);

    for (size_t i = 0; i < log->segment_count; i++) {
        const mk_segment *segment = log->segments[i];

        MK_ASSERT(segment->base_offset <= segment->next_offset);
        MK_ASSERT(segment->sealed == (segment != active) || log->read_only ||
                  log->failed != MK_OK);
        if (segment == active) continue;
        MK_ASSERT(segment->next_offset <= log->segments[i + 1]->base_offset);
    }
    MK_ASSERT(log->segments[0]->base_offset <= log->log_start_offset);
    MK_ASSERT(log->log_start_offset <= log->log_end_offset);
    MK_ASSERT(active->next_offset <= log->log_end_offset);
    MK_ASSERT(log->recovery_point.offset <= log->log_end_offset);
}
