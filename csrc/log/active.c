/* active -- making, opening, sealing, rolling. */
#include "log/active.h"

#include <errno.h>

#include "base/check.h"
#include "log/segment_indexes.h"

#include "base/poison.h"

static mk_tail_mode tail_mode(const mk_log *log)
{
    /* With `preallocate` the file has its full size already; a mapped tail
     * would zero it once more. */
    if (log->config.preallocate || log->kafka_trusts) return MK_TAIL_PLAIN;
    if (log->mapped == MK_MAPPED_NEVER) return MK_TAIL_AHEAD;
    return log->mapped == MK_MAPPED_ALWAYS ? MK_TAIL_MAPPED : MK_TAIL_AUTO;
}

/* How much earlier than others this segment rolls. */
static int64_t draw_jitter(mk_log *log)
{
    int64_t max = log->config.segment_jitter_ms;

    if (max > log->config.segment_ms) max = log->config.segment_ms;
    if (max == 0) return 0;
    return (int64_t)(mk_env_random(log->env) % (uint64_t)max);
}

static unsigned write_flags(const mk_log *log)
{
    return log->mapped == MK_MAPPED_NEVER ? MK_OPEN_WRITE
                                          : MK_OPEN_WRITE | MK_OPEN_MAPPED;
}

/* Create a file. An empty one that a failed attempt left serves as well, if it
 * has no other name. */
static mk_status open_fresh(mk_log *log, const char *path, mk_file **out,
                            mk_error *err)
{
    mk_file_stat stat;
    mk_status status = mk_file_open(
        log->vfs, path, write_flags(log) | MK_OPEN_CREATE, out, err);

    if (status != MK_OK) return status;
    status = mk_file_stat_open(*out, &stat, err);
    if (status == MK_OK && stat.size == 0 && stat.links < 2) return MK_OK;
    if (status != MK_OK) {
        /* Is it ours to remove? Nothing may be appended beyond it. */
        mk_log_refuse_locked(log, err);
    } else {
        status = mk_fail_errno(err, EEXIST, path, "create %s", path);
    }
    (void)mk_file_close(*out, NULL); /* The first error counts. */
    *out = NULL;
    return status;
}

/* Make the file as long as the segment may get. A log must open, and be cut, on
 * a full disk: there it grows as it is written. */
static mk_status preallocate(const mk_log *log, mk_file *file, mk_error *err)
{
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    status = mk_file_allocate(file, log->config.segment_bytes, err);
    if (!mk_is_no_room(status, err)) return status;
    return mk_file_truncate(file, 0, err);
}

/* Nothing may be appended beyond a file that stays, or may be back after a loss
 * of power. */
static void remove_fresh(mk_log *log, const char *path, mk_file *file,
                         const mk_error *cause)
{
    mk_status status;

    (void)mk_file_close(file, NULL); /* Nothing was written. */
    status = mk_vfs_unlink(log->vfs, path, NULL);
    if (status == MK_OK) {
        status = mk_vfs_sync_directory(log->vfs, log->directory,
                                       MK_SYNC_CUT_DIRECTORY, NULL);
    }
    if (status != MK_OK) mk_log_refuse_locked(log, cause);
}

mk_status mk_log_create_active_locked(mk_log *log, int64_t base_offset,
                                      int64_t now_ms, mk_error *err)
{
    mk_segment *segment = NULL;
    mk_file *file = NULL;
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_name_segment_file(path, sizeof path, log->directory,
                                  base_offset, MK_ROLE_LOG, err);
    if (status == MK_OK) {
        status = mk_segment_new(&log->heap, base_offset, &segment, err);
    }
    if (status != MK_OK) return status;
    segment->created_ms = now_ms;
    segment->jitter_ms = draw_jitter(log);
    status = open_fresh(log, path, &file, err);
    if (status != MK_OK) goto failed;
    if (log->config.preallocate) status = preallocate(log, file, err);
    if (status == MK_OK) {
        status = mk_file_tail_begin(file, 0, tail_mode(log), err);
    }
    if (status == MK_OK) status = mk_log_add_segment_locked(log, segment, err);
    if (status != MK_OK) goto failed;
    mk_file_cache_adopt(&log->files, &segment->log, file);
    log->directory_dirty = true;
    return MK_OK;
failed:
    mk_segment_free(segment);
    if (file != NULL) remove_fresh(log, path, file, err);
    return status;
}

mk_status mk_log_open_active_locked(mk_log *log, int64_t now_ms, mk_error *err)
{
    mk_segment *active = mk_log_active_locked(log);
    mk_file *file = NULL;
    char path[MK_PATH_MAX];
    bool unshared;
    mk_status status;

    MK_ASSERT(active->log.file == NULL);
    status = mk_name_segment_file(path, sizeof path, log->directory,
                                  active->base_offset, MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    /* A copy of the log may have it, from when it was sealed. */
    status =
        mk_segment_unshare_log(log->vfs, log->directory, active->base_offset,
                               active->log_bytes, false, &unshared, err);
    if (status != MK_OK) return status;
    if (unshared) log->directory_dirty = true;
    status = mk_file_open(log->vfs, path, write_flags(log), &file, err);
    if (status != MK_OK) return status;
    status = mk_file_tail_begin(file, active->log_bytes, tail_mode(log), err);
    if (status != MK_OK) {
        (void)mk_file_close(file, NULL); /* The first error counts. */
        return status;
    }
    active->sealed = false;
    active->created_ms = now_ms;
    active->jitter_ms = draw_jitter(log);
    active->bytes_since_entry = 0; /* As Kafka counts. */
    mk_file_cache_adopt(&log->files, &active->log, file);
    return MK_OK;
}

mk_status mk_log_seal_locked(mk_log *log, mk_segment *segment, int64_t now_ms,
                             mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_segment_finish_times(segment, err);
    if (status != MK_OK) return status;
    status = mk_log_write_indexes_locked(log, segment, err);
    if (status != MK_OK) return status;
    status = mk_name_segment_file(path, sizeof path, log->directory,
                                  segment->base_offset, MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    status = mk_file_tail_end(segment->log.file, err);
    /* Kafka's retention falls back on the file's time. */
    if (status == MK_OK && now_ms != MK_TIMESTAMP_NOW) {
        status = mk_vfs_set_mtime(log->vfs, path, now_ms, err);
    }
    /* A sealed segment that is torn would look like damage, so all of it is
     * there before the name of the next one can be. */
    if (status == MK_OK) {
        status = mk_file_sync(segment->log.file, true, MK_SYNC_SEAL_LOG, err);
        log->stats.syncs++;
        if (status != MK_OK) mk_log_doubt_sync_locked(log, err);
    }
    segment->synced = status == MK_OK;
    if (status != MK_OK) mk_log_doubt_tail_locked(log, err);
    return status;
}

/* Append on in a segment that was sealed for a roll that failed. */
static void unseal(mk_log *log, mk_segment *active, const mk_error *cause)
{
    mk_status status = mk_file_tail_begin(active->log.file, active->log_bytes,
                                          tail_mode(log), NULL);

    if (status != MK_OK) mk_log_doubt_tail_locked(log, cause);
    active->synced = false;
}

/* See that the names of all segments are on stable storage: with the name of
 * the next one there, and theirs not, they would be missing. */
static mk_status seal_names(mk_log *log, mk_error *err)
{
    mk_status status;

    /* A sync that is under way may not have been. */
    if (!log->directory_dirty && !log->syncing) return MK_OK;
    status = mk_vfs_sync_directory(log->vfs, log->directory,
                                   MK_SYNC_SEAL_DIRECTORY, err);
    log->stats.syncs++;
    if (status == MK_OK) {
        log->directory_dirty = false;
    } else {
        mk_log_doubt_sync_locked(log, err);
    }
    return status;
}

/* An empty segment is as good as a new one, if it is one by its settings. */
static void begin_anew(mk_log *log, mk_segment *active, int64_t now_ms)
{
    mk_log_number_segment_locked(log, active);
    active->created_ms = now_ms;
    active->jitter_ms = draw_jitter(log);
}

mk_status mk_log_roll_locked(mk_log *log, int64_t now_ms, mk_error *err)
{
    mk_segment *active;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    while (log->swapping) {
        mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
        status = mk_log_check_writable_locked(log, err);
        if (status != MK_OK) return status;
    }
    active = mk_log_active_locked(log);
    if (active->log_bytes == 0 && active->base_offset == log->log_end_offset) {
        begin_anew(log, active, now_ms);
        return MK_OK;
    }
    status = mk_log_check_place_locked(log, err);
    if (status == MK_OK) status = mk_log_seal_locked(log, active, now_ms, err);
    if (status != MK_OK) goto failed;
    status = seal_names(log, err);
    if (status == MK_OK) {
        status =
            mk_log_create_active_locked(log, log->log_end_offset, now_ms, err);
    }
    if (status != MK_OK) {
        unseal(log, active, err);
        goto failed;
    }
    active->sealed = true;
    mk_log_unpin_locked(log, active);
    mk_log_close_idle_file_locked(log, active); /* Reopened for reading. */
    log->stats.rolls++;
    log->state_stale = true;
    return MK_OK;
failed:
    mk_wrap(err, "roll %s", log->directory);
    return status;
}
