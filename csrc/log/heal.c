/*
 * heal -- from refusing changes back to work.
 *
 * A log that refuses knows what it acknowledged, but no longer what its files
 * hold. Each call that would change it looks again, as an opening does:
 *
 *  (0) The directory is where it was; where a swap took its name away and could
 *      not give it back, that is done now.
 *  (1) The tail ends where the last acknowledged batch does: what a failed
 *      append left behind it must never be read.
 *  (2) The state is stored, with the recovery point as this process knows it.
 *      That also tries whether the disk takes writes and syncs at all.
 *  (3) Recovery reads the directory into a fresh set of segments; after a sync
 *      that failed it writes again what stands above the recovery point.
 *  (4) The fresh set is compared with the old one. If flushed records are
 *      missing, nothing heals. Acknowledged ones that were not flushed may be
 *      missing: the disk has lost them.
 *  (5) All that is not yet on stable storage is synced, names too, then the
 *      state is stored there.
 *
 * Should any of that fail, the log goes on to refuse, with the old set until
 * (4), with the fresh one from there on. Offsets are not given twice: where
 * records were lost a gap remains, and who made the log heal is told.
 */
#include "log/heal.h"

#include <inttypes.h>

#include "base/check.h"
#include "log/append.h"
#include "log/directory_swap.h"
#include "log/flush.h"
#include "log/inventory.h"
#include "log/recovery.h"
#include "log/state_store.h"
#include "store/swap_manifest.h"
#include "store/unproven_file.h"

#include "base/poison.h"

/* A log's segments and bounds, put aside. */
typedef struct aside {
    mk_segment **segments; /* Owned; each counted. */
    size_t count;
    size_t capacity;
    int64_t log_start_offset;
    int64_t log_end_offset;
    int64_t dense_offset;
    mk_recovery_point recovery_point;
    mk_log_stats stats;
    char *kept_tree; /* Owned. */
} aside;

/* ---- Two sets ---- */

static void put_aside(mk_log *log, aside *out)
{
    *out = (aside){
        .segments = log->segments,
        .count = log->segment_count,
        .capacity = log->segment_capacity,
        .log_start_offset = log->log_start_offset,
        .log_end_offset = log->log_end_offset,
        .dense_offset = log->dense_offset,
        .recovery_point = log->recovery_point,
        .stats = log->stats,
        .kept_tree = log->kept_tree,
    };
    log->segments = NULL;
    log->kept_tree = NULL;
    log->segment_count = log->segment_capacity = 0;
    log->log_start_offset = log->log_end_offset = 0;
}

/* Give up the log's present set. */
static void drop_set(mk_log *log)
{
    if (log->segment_count > 0) {
        mk_segment *active = mk_log_active_locked(log);

        if (!active->sealed) mk_log_unpin_locked(log, active);
        active->sealed = true;
    }
    mk_log_forget_segments_locked(log, 0, log->segment_count);
    mk_release(&log->heap, log->segments);
    log->segments = NULL;
    log->segment_capacity = 0;
}

static void put_back(mk_log *log, const aside *old)
{
    drop_set(log);
    log->segments = old->segments;
    log->segment_count = old->count;
    log->segment_capacity = old->capacity;
    log->log_start_offset = old->log_start_offset;
    log->log_end_offset = old->log_end_offset;
    log->dense_offset = old->dense_offset;
    log->recovery_point = old->recovery_point;
    log->stats = old->stats;
    log->kept_tree = old->kept_tree;
}

/* Give up the set that was put aside. */
static void drop_aside(mk_log *log, const aside *old)
{
    aside fresh;

    put_aside(log, &fresh);
    log->segments = old->segments;
    log->segment_count = old->count;
    log->segment_capacity = old->capacity;
    put_back(log, &fresh);
    mk_release(&log->heap, old->kept_tree);
}

static const mk_segment *find_in(const aside *old, int64_t base_offset)
{
    for (size_t i = 0; i < old->count; i++) {
        if (old->segments[i]->base_offset == base_offset) {
            return old->segments[i];
        }
    }
    return NULL;
}

/* ---- Looking again ---- */

/* End the tail behind the last acknowledged batch. Somebody else may have made
 * the file shorter than that: what is lost is found out later. */
static mk_status end_tail(mk_log *log, mk_error *err)
{
    mk_segment *active;
    mk_file_stat stat;
    mk_status status;

    if (log->segment_count == 0) return MK_OK;
    active = mk_log_active_locked(log);
    if (active->sealed || active->log.file == NULL) return MK_OK;
    (void)!mk_file_tail_end(active->log.file, NULL);
    status = mk_file_stat_open(active->log.file, &stat, err);
    if (status != MK_OK || stat.size <= active->log_bytes) return status;
    return mk_file_truncate(active->log.file, active->log_bytes, err);
}

/* Where the batches of a set of segments end. */
static int64_t end_of(mk_segment *const *segments, size_t count)
{
    return count > 0 ? segments[count - 1]->next_offset : 0;
}

/* Are all bytes there that were below the recovery point? A gap that a
 * truncation left may stand between them and the point's offset. */
static bool has_flushed(const mk_log *log, const mk_recovery_point *point)
{
    for (size_t i = 0; i < log->segment_count; i++) {
        const mk_segment *segment = log->segments[i];

        if (segment->base_offset != point->segment) continue;
        return segment->log_bytes >= point->end_position;
    }
    return false;
}

/* Offsets [from, to) of records that were acknowledged and are missing. */
typedef struct loss {
    int64_t from; /* -1: nothing is missing. */
    int64_t to;
} loss;

/* Is all there that must be? */
static mk_status compare(const mk_log *log, const aside *old, loss *out,
                         mk_error *err)
{
    int64_t found = end_of(log->segments, log->segment_count);
    int64_t wanted = end_of(old->segments, old->count);
    int64_t flushed = old->recovery_point.offset;

    if (log->cut_offset >= 0 && wanted > log->cut_offset) {
        wanted = log->cut_offset;
    }
    if (flushed > wanted) flushed = wanted;
    /* What stood below the log start is not missed. */
    if (found < old->log_start_offset) found = old->log_start_offset;
    if (found < flushed && has_flushed(log, &old->recovery_point)) {
        found = flushed;
    }
    *out = (loss){-1, -1};
    if (found >= wanted) return MK_OK;
    *out = (loss){found, wanted};
    if (found >= flushed) return MK_OK;
    mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory, -1,
               "%s has lost records that were flushed, from offset %" PRId64
               " up to %" PRId64 ": close it, and restore or repair it",
               log->directory, found, flushed);
    if (err != NULL) err->offset = found;
    return MK_CORRUPT_SEGMENT;
}

/* Up to where were all segments synced? What a swap that stopped midway had in
 * hand says nothing of what is there now. */
static int64_t end_of_proven(const mk_log *log, const aside *old)
{
    for (size_t i = 0; i < old->count && !log->set_doubted; i++) {
        if (!old->segments[i]->synced) return old->segments[i]->base_offset;
    }
    return 0;
}

/* From which offset on was nothing flushed? */
static int64_t find_unflushed(const mk_log *log, const aside *old)
{
    bool known = !log->set_doubted && !log->point_low;

    return known ? old->recovery_point.offset : INT64_MAX;
}

/* Let the active segment's file go: a copy may take its place. */
static void release_tail(mk_log *log, const aside *old)
{
    mk_segment *active = old->count > 0 ? old->segments[old->count - 1] : NULL;

    if (active == NULL || active->sealed) return;
    active->sealed = true;
    mk_log_unpin_locked(log, active);
}

/* Give the fresh set what only the old one knew. */
static void carry_over(mk_log *log, const aside *old, const loss *lost)
{
    const mk_recovery_point *point = &old->recovery_point;
    int64_t start_min = old->log_start_offset;
    int64_t end_min = old->log_end_offset;

    /* A cut that was announced is made, wherever the batches end. */
    if (log->cut_to >= 0 && end_min > log->cut_to) end_min = log->cut_to;
    if (start_min > end_min) start_min = end_min;
    for (size_t i = 0; i < log->segment_count; i++) {
        mk_segment *fresh = log->segments[i];
        const mk_segment *same = find_in(old, fresh->base_offset);

        if (same == NULL) continue;
        /* Of the others some were written again. */
        fresh->synced = same->log_bytes == fresh->log_bytes &&
                        fresh->base_offset < log->proven_end;
        if (point->segment == fresh->base_offset && !log->set_doubted &&
            point->end_position <= fresh->log_bytes) {
            log->recovery_point = *point;
        }
    }
    log->stats.recovered_bytes = old->stats.recovered_bytes;
    log->stats.truncated_bytes = old->stats.truncated_bytes;
    if (log->recovery_point.offset < point->offset) log->point_low = true;
    if (log->log_start_offset < start_min) log->log_start_offset = start_min;
    if (log->log_end_offset < log->log_start_offset) {
        log->log_end_offset = log->log_start_offset;
    }
    if (log->log_end_offset < end_min) log->log_end_offset = end_min;
    if (end_of(log->segments, log->segment_count) < log->log_end_offset) {
        log->dense_offset = log->log_end_offset; /* A gap is left. */
    }
    if (lost->from < 0) return;
    log->stats.lost_offsets += lost->to - lost->from;
    if (log->lost_offset < 0) log->lost_offset = lost->from;
    log->lost_end = lost->to;
}

/* Make ready to append on. */
static mk_status begin_tail(mk_log *log, const aside *old, mk_error *err)
{
    int64_t now_ms = log->last_flush_ms;

    if (old->count > 0) now_ms = old->segments[old->count - 1]->created_ms;
    if (log->segment_count == 0) {
        return mk_log_create_active_locked(log, log->log_end_offset, now_ms,
                                           err);
    }
    mk_log_close_idle_file_locked(log, mk_log_active_locked(log));
    return mk_log_open_active_locked(log, now_ms, err);
}

/* Let what the directory holds take the place of what the log thought. */
static mk_status look_again(mk_log *log, mk_error *err)
{
    loss lost;
    aside old;
    mk_status status = MK_OK;

    /* A swap may have stopped between two renames. */
    if (log->set_doubted) status = mk_directory_swap_restore(log, err);
    if (status == MK_OK) status = mk_log_check_lock_locked(log, err);
    if (status == MK_OK) status = end_tail(log, err);
    if (status != MK_OK) return status;
    if (!log->set_doubted) {
        status = mk_log_store_state_locked(log, true, err);
        if (status != MK_OK) return status;
    }
    put_aside(log, &old);
    log->proven_end = end_of_proven(log, &old);
    log->unflushed = find_unflushed(log, &old);
    if (log->unproven && log->unflushed == INT64_MAX) release_tail(log, &old);
    status = mk_log_recover(log, NULL, err);
    if (status == MK_OK) status = compare(log, &old, &lost, err);
    if (status == MK_OK) {
        carry_over(log, &old, &lost);
        status = begin_tail(log, &old, err);
    }
    if (status == MK_OK) {
        drop_aside(log, &old);
        log->cuts++;
    } else {
        put_back(log, &old);
    }
    log->generation++;
    return status;
}

/* Put on stable storage what was found, and the names that lead there. */
static mk_status make_stable(mk_log *log, mk_error *err)
{
    mk_swap_phase phase = MK_SWAP_NONE;
    char parent[MK_PATH_MAX];
    mk_status status;

    log->directory_dirty = true; /* No point moves before names are there. */
    status = mk_log_sync_to_heal_locked(log, err);
    if (status == MK_OK) {
        status =
            mk_swap_manifest_load(log->vfs, log->directory,
                                  mk_name_last(log->directory), &phase, err);
    }
    /* Nor a name that was given away and back. */
    if (status == MK_OK && (phase != MK_SWAP_NONE || log->set_doubted)) {
        status = mk_name_parent(parent, sizeof parent, log->directory, err);
        if (status == MK_OK) {
            status = mk_vfs_sync_directory(log->vfs, parent,
                                           MK_SYNC_SWAP_PARENT, err);
        }
    }
    if (status != MK_OK) return status;
    return mk_log_end_cut_locked(log, err);
}

/* ---- Healing ---- */

/* Say what there is not any more. */
static mk_status tell_lost(mk_log *log, mk_error *err)
{
    int64_t lost = log->lost_offset;

    if (lost < 0) return MK_OK;
    log->lost_offset = -1;
    mk_fail_at(err, MK_IO, log->directory, -1,
               "%s has lost the records from offset %" PRId64 " up to %" PRId64
               ", which were not flushed, and goes on behind them, since %s",
               log->directory, lost, log->lost_end - 1, log->failure.message);
    if (err == NULL) return MK_IO;
    err->os_errno = log->failure.os_errno;
    err->offset = lost;
    return MK_IO;
}

/* Remember what stands in the way, if waiting does not help against it, but
 * somebody can do something: to remove records makes room. */
static void note_obstacle(mk_log *log, const mk_error *err)
{
    if ((err->status == MK_IO && !mk_is_no_room(err->status, err)) ||
        err->status == MK_NOT_FOUND || err->status == MK_NO_MEMORY) {
        return;
    }
    log->failed = err->status;
    log->failure = *err;
}

static mk_status try_to_heal(mk_log *log, mk_error *err)
{
    mk_error obstacle;
    mk_status status;

    MK_ASSERT(!log->maintaining);
    MK_ASSERT(!log->swapping);
    log->maintaining = log->healing = true;
    log->maintainer = mk_thread_self();
    status = look_again(log, &obstacle);
    if (status == MK_OK) status = make_stable(log, &obstacle);
    if (status == MK_OK) status = mk_inventory_forget_note(log, &obstacle);
    log->healing = false;
    log->proven_end = log->unflushed = 0;
    mk_log_end_maintenance_locked(log);
    if (status != MK_OK) {
        note_obstacle(log, &obstacle);
        if (status == MK_NO_MEMORY) {
            if (err != NULL) *err = obstacle;
            return status;
        }
        return mk_log_fail_refusing_locked(log, err);
    }
    log->failed = MK_OK;
    log->set_doubted = false;
    if (log->unproven) mk_unproven_forget(log->vfs, log->directory);
    log->unproven = false;
    log->cut_offset = -1;
    log->stats.heals++;
    mk_log_check_invariants_locked(log);
    return tell_lost(log, err);
}

mk_status mk_log_heal_locked(mk_log *log, mk_error *err)
{
    for (;;) {
        mk_status status = mk_log_check_mendable_locked(log, err);

        if (status != MK_OK || log->failed == MK_OK) return status;
        if (!log->maintaining && !log->syncing) break;
        mk_condition_wait(&log->changed, &log->mutex, INT64_MAX);
    }
    return try_to_heal(log, err);
}

mk_status mk_log_heal_to_close_locked(mk_log *log, mk_error *err)
{
    MK_ASSERT(log->closing);
    if (log->failed == MK_OK) return MK_OK;
    if (log->maintaining || log->swapping) {
        return mk_log_fail_refusing_locked(log, err);
    }
    return try_to_heal(log, err);
}
