/* life -- from a path to a log, and back. */
#include "log/life.h"

#include <errno.h>

#include "base/check.h"
#include "log/append.h"
#include "log/directory_swap.h"
#include "log/flush.h"
#include "log/heal.h"
#include "log/inventory.h"
#include "log/recovery.h"
#include "log/refresh.h"
#include "log/state_store.h"

#include "base/poison.h"

mk_status mk_log_make_directory(mk_vfs *vfs, const char *path, mk_error *err)
{
    char parent[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    status = mk_vfs_stat(vfs, path, &stat, err);
    if (status != MK_NOT_FOUND) return status;
    status = mk_name_parent(parent, sizeof parent, path, err);
    if (status == MK_OK) status = mk_log_make_directory(vfs, parent, err);
    if (status != MK_OK) return status;
    status = mk_vfs_mkdir(vfs, path, err);
    if (status == MK_IO && err->os_errno == EEXIST) return MK_OK; /* A race. */
    if (status != MK_OK) return status;
    return mk_vfs_sync_directory(vfs, parent, MK_SYNC_CREATE_PARENT, err);
}

/* ---- Opening ---- */

/* See that the directory is there. */
static mk_status find_directory(mk_log *log, bool create, mk_error *err)
{
    mk_file_stat stat;
    mk_status status = mk_vfs_stat(log->vfs, log->directory, &stat, err);

    if (status == MK_NOT_FOUND && create) {
        return mk_log_make_directory(log->vfs, log->directory, err);
    }
    if (status != MK_OK) return status;
    if (stat.kind != MK_KIND_DIRECTORY) {
        return mk_fail_errno(err, ENOTDIR, log->directory, "open %s",
                             log->directory);
    }
    return MK_OK;
}

static mk_status lock_directory(mk_log *log, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    if (log->lock != NULL) return MK_OK;
    status = mk_name_join(path, sizeof path, log->directory, MK_NAME_LOCK, err);
    if (status != MK_OK) return status;
    return mk_vfs_lock(log->vfs, path, log->env->holder, &log->lock, err);
}

/* A Kafka that finds its marker of a clean end checks no log's end, and does
 * not start where zeros are left behind a death of ours. */
static mk_status look_for_kafka(mk_log *log, mk_error *err)
{
    char parent[MK_PATH_MAX];
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    if (log->read_only) return MK_OK;
    status = mk_name_parent(parent, sizeof parent, log->directory, err);
    if (status == MK_OK) {
        status =
            mk_name_join(path, sizeof path, parent, MK_NAME_KAFKA_CLEAN, err);
    }
    if (status != MK_OK) return status;
    log->kafka_trusts =
        mk_vfs_stat(log->vfs, path, &stat, NULL) != MK_NOT_FOUND;
    return MK_OK;
}

static mk_status new_log(const mk_open_options *options, mk_log **out,
                         mk_error *err)
{
    mk_env *env = options->env;
    mk_status status = MK_OK;
    mk_log *log;

    *out = NULL;
    if (env != NULL) {
        mk_env_acquire(env);
    } else {
        status = mk_env_new_posix(NULL, &env, err);
        if (status != MK_OK) return status;
    }
    log = mk_alloc_zero(&env->heap, sizeof *log);
    if (log == NULL) {
        mk_env_free(env);
        return mk_fail_memory(err, sizeof *log);
    }
    log->env = env;
    log->vfs = env->vfs;
    log->heap = env->heap;
    log->config = options->config;
    log->clock = options->clock.now != NULL ? options->clock : env->clock;
    log->mapped = options->mapped;
    log->read_only = options->read_only;
    log->session = *env->vfs->session;
    log->references = 1;
    log->cut_offset = log->cut_to = log->lost_offset = -1;
    mk_mutex_init(&log->mutex);
    mk_condition_init(&log->changed);
    mk_scratch_init(&log->spare, &log->heap);
    mk_batch_cache_init(&log->batch_cache, &log->heap);
    mk_file_cache_init(&log->files, log->vfs, options->max_open_files);
    *out = log;
    return MK_OK;
}

static mk_status set_directory(mk_log *log, const char *directory,
                               mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status =
        mk_vfs_resolve(log->vfs, directory, path, sizeof path, err);

    if (status != MK_OK) return status;
    log->place = mk_copy_string(&log->heap, path);
    log->directory = log->place;
    return log->place != NULL ? MK_OK : mk_fail_memory(err, sizeof path);
}

/* An empty active segment may come from an owner who died before its name was
 * stable. So may a state that alone knows the log start, which must not go
 * back once it was seen. */
static mk_status sync_names(mk_log *log, mk_error *err)
{
    if (mk_log_active_locked(log)->log_bytes > 0 &&
        log->log_start_offset == log->segments[0]->base_offset) {
        return MK_OK;
    }
    return mk_vfs_sync_directory(log->vfs, log->directory,
                                 MK_SYNC_FLUSH_DIRECTORY, err);
}

/* A cut was ended: say so before anything is appended in its place. Without
 * room for that, nothing can be. */
static mk_status end_cut(mk_log *log, mk_error *err)
{
    mk_status status = mk_log_end_cut_locked(log, err);

    if (!mk_is_no_room(status, err)) return status;
    mk_log_refuse_locked(log, err);
    return MK_OK;
}

/* Make ready what a writer needs: a sound active segment, open at its end. */
static mk_status begin_writing(mk_log *log, int64_t now_ms, mk_error *err)
{
    mk_status status;

    log->last_flush_ms = now_ms;
    log->point_low = log->recovery_point.offset < log->log_end_offset;
    if (log->segment_count == 0) {
        status =
            mk_log_create_active_locked(log, log->log_end_offset, now_ms, err);
        if (status == MK_OK && log->cut_to >= 0) return end_cut(log, err);
        if (status != MK_OK || log->state_stale) return status;
        /* That it is ours from the start helps to tell damage after a kill. A
         * log that had begun has a state that must not be lost. */
        status = mk_log_store_state_locked(log, log->log_end_offset > 0, err);
        if (mk_is_no_room(status, err)) status = MK_OK;
    } else {
        mk_log_close_idle_file_locked(log, mk_log_active_locked(log));
        status = sync_names(log, err);
        if (status == MK_OK) {
            status = mk_log_open_active_locked(log, now_ms, err);
        }
    }
    if (status != MK_OK) return status;
    mk_log_keep_reserve_locked(log);
    if (log->cut_to >= 0) return end_cut(log, err);
    if (!log->state_stale) {
        log->names_inherited = true;
        if (log->recovery_point.offset < log->log_end_offset) {
            log->directory_dirty = true;
        }
        return MK_OK;
    }
    status = mk_log_store_state_locked(log, true, err);
    /* A full disk must not keep its owner from deleting: all that the state
     * says was found out, and would be again. But what is appended behind a gap
     * that the state does not tell of would be taken for damage. */
    if (!mk_is_no_room(status, err)) return status;
    log->directory_dirty = true;
    if (mk_log_active_locked(log)->next_offset < log->log_end_offset) {
        mk_log_refuse_locked(log, err);
    }
    return MK_OK;
}

/* What a failed sync may have left behind was written again: a sync proves it,
 * and the note of the failed one goes. If it fails, too, the log is open and
 * refuses changes. */
static mk_status prove_renewed(mk_log *log, mk_error *err)
{
    mk_status status;

    if (!log->unproven || log->failed != MK_OK) return MK_OK;
    mk_mutex_lock(&log->mutex);
    log->directory_dirty = true; /* There is something to sync. */
    status = mk_log_flush_locked(log, err);
    /* The state will tell of index entries: they are to be there. */
    if (status == MK_OK) status = mk_log_write_caches_locked(log, err);
    if (status == MK_OK) status = mk_log_store_state_locked(log, true, err);
    mk_mutex_unlock(&log->mutex);
    if (log->failed != MK_OK || mk_is_no_room(status, err)) return MK_OK;
    return status;
}

/* Lock the directory, finish or undo what a death left half done, and find out
 * what is there. */
static mk_status take_over(mk_log *log, const mk_open_options *options,
                           int64_t now_ms, mk_error *err)
{
    mk_status status = mk_directory_swap_restore(log, err);

    if (status == MK_OK) status = find_directory(log, options->create, err);
    if (status == MK_OK) status = lock_directory(log, err);
    if (status == MK_OK) status = look_for_kafka(log, err);
    if (status == MK_OK) status = mk_directory_swap_clean(log, err);
    if (status == MK_OK) status = mk_log_recover(log, &options->progress, err);
    if (status == MK_OK) status = begin_writing(log, now_ms, err);
    if (status == MK_OK) status = mk_inventory_forget_note(log, err);
    if (status == MK_OK) status = prove_renewed(log, err);
    return status;
}

mk_status mk_log_start(const char *directory, const mk_open_options *options,
                       mk_log **out, mk_error *err)
{
    mk_log *log = NULL;
    int64_t now_ms = 0;
    mk_error scratch;
    mk_status status;

    *out = NULL;
    if (err == NULL) err = &scratch;
    status = new_log(options, &log, err);
    if (status != MK_OK) return status;
    status = log->clock.now(log->clock.context, &now_ms, err);
    if (status == MK_OK) status = set_directory(log, directory, err);
    if (status == MK_OK && log->read_only) {
        status = mk_log_read_directory(log, &options->progress, err);
    } else if (status == MK_OK) {
        status = take_over(log, options, now_ms, err);
    }
    if (status != MK_OK) {
        if (status != MK_CALLBACK) mk_wrap(err, "open %s", directory);
        (void)mk_log_stop(log, false, 0, NULL);
        return status;
    }
    mk_log_check_invariants_locked(log);
    *out = log;
    return MK_OK;
}

/* ---- Closing ---- */

/* Did nothing happen since the last clean end? An opening may have found the
 * index files wrong, and left that to the end. */
static bool is_at_rest(mk_log *log)
{
    mk_segment *active = mk_log_active_locked(log);

    if (log->state_stale || log->directory_dirty || log->waiting != NULL ||
        log->recovery_point.offset != log->log_end_offset ||
        !mk_segment_has_finished_times(active)) {
        return false;
    }
    if (active->index_files_good) return true;
    return mk_segment_confirm_indexes(active, log->vfs, log->directory, NULL) ==
               MK_OK &&
           active->index_files_good;
}

/* Leave everything as a clean end has it: tails trimmed, indexes complete, all
 * synced, and the state that says so. */
static mk_status finish_sound(mk_log *log, int64_t now_ms, mk_error *err)
{
    mk_status status;

    if (is_at_rest(log)) {
        return mk_file_tail_end(mk_log_active_locked(log)->log.file, err);
    }
    status = mk_log_send_waiting_locked(log, now_ms, err);
    if (status == MK_OK) {
        status =
            mk_log_seal_locked(log, mk_log_active_locked(log), now_ms, err);
    }
    if (status == MK_OK) status = mk_log_flush_locked(log, err);
    if (status == MK_OK) status = mk_log_store_state_locked(log, true, err);
    return status;
}

/* The same of any log; one that refuses changes tries to heal for it. */
static mk_status finish(mk_log *log, int64_t now_ms, mk_error *err)
{
    mk_status status = mk_log_heal_to_close_locked(log, err);
    mk_status finished;
    mk_error other;

    if (log->failed != MK_OK) return status;
    finished = finish_sound(log, now_ms, &other);
    if (status != MK_OK) return status; /* The first error counts. */
    if (finished != MK_OK) *err = other;
    return finished;
}

/* Give back everything but the memory of the handle itself. */
static void let_go(mk_log *log)
{
    log->cuts++;
    if (log->segment_count > 0) {
        mk_segment *active = mk_log_active_locked(log);

        if (!active->sealed && active->log.pins > 0) {
            mk_log_unpin_locked(log, active);
        }
    }
    mk_log_forget_segments_locked(log, 0, log->segment_count);
    if (log->lock != NULL) (void)mk_file_close(log->lock, NULL);
    log->lock = NULL;
}

mk_status mk_log_stop(mk_log *log, bool orderly, int64_t now_ms, mk_error *err)
{
    mk_error scratch;
    mk_status status = MK_OK;

    if (err == NULL) err = &scratch;
    mk_mutex_lock(&log->mutex);
    while (log->syncing || log->swapping || (log->closing && !log->closed)) {
        mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
    }
    log->closing = true;
    if (!log->closed) {
        if (orderly && !log->read_only &&
            mk_log_check_open_locked(log, NULL) == MK_OK) {
            status = finish(log, now_ms, err);
            if (status != MK_OK) mk_wrap(err, "close %s", log->directory);
        }
        log->closed = true;
        let_go(log);
        mk_condition_signal_all(&log->changed);
    }
    mk_mutex_unlock(&log->mutex);
    mk_log_release(log);
    return status;
}
