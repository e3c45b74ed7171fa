/*
 * flush -- syncs in the order of the log.
 *
 * A sync runs without the mutex, one thread at a time: it takes the log's end,
 * then syncs every segment from the one with the recovery point on, oldest
 * first, then the directory if names are new, and moves the recovery point to
 * the end it took. Whoever waited for less than that is served, too.
 */
#include "log/flush.h"

#include "base/check.h"
#include "log/segment_indexes.h"
#include "log/state_store.h"
#include "store/unproven_file.h"

#include "base/poison.h"

#define STATE_EVERY_BYTES (4 << 20)

/* What proves that everything below the log end was there. */
static mk_recovery_point point_of_end(const mk_log *log)
{
    const mk_segment *active = mk_log_active_locked(log);
    mk_recovery_point point = {
        .offset = log->log_end_offset,
        .segment = active->base_offset,
        .batch_position = active->last_batch_position,
        .end_position = active->log_bytes,
        .checksum = active->last_batch_checksum,
    };

    MK_ASSERT(active->log_bytes == 0 || active->last_batch_position >= 0);
    mk_segment_get_facts(active, &point.then);
    return point;
}

/* After a sync that failed nobody knows what the kernel still holds. */
static void refuse(mk_log *log, mk_error *err)
{
    mk_wrap(err, "flush %s", log->directory);
    mk_log_doubt_sync_locked(log, err);
}

/* Sync one segment, letting the mutex go meanwhile. */
static mk_status sync_segment(mk_log *log, mk_segment *segment, mk_error *err)
{
    uint64_t generation = log->generation;
    mk_status status;

    if (segment->synced) return MK_OK;
    mk_log_acquire_segment_locked(segment);
    status = mk_log_pin_locked(log, segment, err);
    if (status == MK_OK) {
        mk_mutex_unlock(&log->mutex);
        status = mk_file_sync(segment->log.file, true, MK_SYNC_FLUSH_LOG, err);
        mk_mutex_lock(&log->mutex);
        mk_log_unpin_locked(log, segment);
        log->stats.syncs++;
        if (status != MK_OK) refuse(log, err);
    }
    mk_log_release_segment_locked(log, segment);
    /* A file that went with a cleanup meanwhile need not be synced. */
    if (status == MK_NOT_FOUND && generation != log->generation) return MK_OK;
    return status;
}

/* Sync the names, as sync_segment(). */
static mk_status sync_directory(mk_log *log, mk_error *err)
{
    uint64_t generation = log->generation;
    mk_status status;

    if (!log->directory_dirty && !log->names_inherited) return MK_OK;
    log->directory_dirty = log->names_inherited = false;
    mk_mutex_unlock(&log->mutex);
    status = mk_vfs_sync_directory(log->vfs, log->directory,
                                   MK_SYNC_FLUSH_DIRECTORY, err);
    mk_mutex_lock(&log->mutex);
    log->stats.syncs++;
    while (log->swapping) {
        mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
    }
    if (status == MK_NOT_FOUND && generation != log->generation) {
        log->directory_dirty = true; /* It was between two names. */
        return MK_OK;
    }
    if (status != MK_OK) refuse(log, err);
    return status;
}

static mk_status sync_round(mk_log *log, mk_error *err)
{
    mk_recovery_point point = point_of_end(log);
    int64_t from = log->recovery_point.offset;
    mk_status status = mk_log_check_place_locked(log, err);
    size_t i = mk_log_find_segment_locked(log, from);

    while (status == MK_OK && i < log->segment_count) {
        mk_segment *segment = log->segments[i];

        if (segment->base_offset > point.segment) break;
        from = segment->base_offset;
        status = sync_segment(log, segment, err);
        /* The set may have changed: go on behind this offset. */
        i = mk_log_find_segment_locked(log, from);
        if (log->segments[i]->base_offset <= from) i++;
    }
    if (status == MK_OK) status = sync_directory(log, err);
    if (status != MK_OK) return status;
    /* A sync of the same bytes that failed elsewhere counts for more. */
    if (log->failed != MK_OK && !log->healing) {
        return mk_log_check_writable_locked(log, err);
    }
    if (log->failed == MK_OK && log->unproven) {
        log->unproven = false;
        mk_unproven_forget(log->vfs, log->directory);
    }
    log->point_low = false;
    if (point.offset > log->recovery_point.offset &&
        point.offset <= log->log_end_offset) {
        log->recovery_point = point;
        log->state_stale = true;
    }
    return MK_OK;
}

static mk_status sync_once(mk_log *log, mk_error *err)
{
    mk_status status;

    log->syncing = true;
    status = sync_round(log, err);
    log->syncing = false;
    mk_condition_signal_all(&log->changed);
    return status;
}

mk_status mk_log_sync_to_heal_locked(mk_log *log, mk_error *err)
{
    MK_ASSERT(log->healing);
    MK_ASSERT(!log->syncing);
    return sync_once(log, err);
}

mk_status mk_log_flush_locked(mk_log *log, mk_error *err)
{
    int64_t target = log->log_end_offset;
    mk_error scratch;
    mk_status status = MK_OK;

    if (err == NULL) err = &scratch;
    while (log->recovery_point.offset < target || log->directory_dirty) {
        /* Another thread may have closed it while this one waited. */
        status = mk_log_check_open_locked(log, err);
        if (status != MK_OK) return status;
        if (log->failed != MK_OK) {
            return mk_log_check_writable_locked(log, err);
        }
        if (target > log->log_end_offset) target = log->log_end_offset;
        if (log->syncing) {
            mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
            continue;
        }
        status = sync_once(log, err);
        if (status != MK_OK) return status;
    }
    log->stats.flushes++;
    return MK_OK;
}

mk_status mk_log_write_caches_locked(mk_log *log, mk_error *err)
{
    mk_status status =
        mk_log_write_indexes_locked(log, mk_log_active_locked(log), err);

    if (status != MK_OK) return status;
    if (log->unstored_bytes < STATE_EVERY_BYTES) return MK_OK;
    status = mk_log_store_state_locked(log, true, err);
    /* What there is no room for is said again at the next flush. */
    return mk_is_no_room(status, err) ? MK_OK : status;
}

bool mk_log_flush_is_due_locked(const mk_log *log, int64_t now_ms)
{
    const mk_config *config = &log->config;

    if (log->log_end_offset - log->recovery_point.offset >=
        config->flush_messages) {
        return true;
    }
    return config->flush_ms != INT64_MAX && now_ms >= log->last_flush_ms &&
           now_ms - log->last_flush_ms >= config->flush_ms;
}
