/* refresh -- looking, reading, and looking again. */
#include "log/refresh.h"

#include <errno.h>

#include "codec/crc32c.h"
#include "log/directory_swap.h"
#include "log/recovery.h"

#include "base/poison.h"

#define TRIES         64
#define TRIES_MISSING 8
#define STATE_END     16   /* Bytes: all of its checksum. */
#define SETTLED_MS    2000 /* Many ticks of a file system's clock. */

/* ---- What is seen ---- */

static mk_status look_at_names(mk_log *log, uint32_t *out, mk_error *err)
{
    mk_name_list names;
    mk_status status = mk_vfs_list(log->vfs, log->directory, &names, err);

    *out = 0;
    if (status != MK_OK) return status;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.names[i];
        mk_file_role role = mk_name_parse(name).role;

        if (role == MK_ROLE_UNKNOWN || role == MK_ROLE_OWN) continue;
        *out = mk_crc32c(*out, name, strlen(name) + 1);
    }
    mk_name_list_deinit(&names);
    return MK_OK;
}

static mk_status read_state_end(mk_log *log, const char *path, mk_sight *out,
                                mk_error *err)
{
    int64_t position = out->state.size - STATE_END;
    mk_scratch scratch;
    mk_file *file;
    mk_span end;
    mk_status status = mk_file_open(log->vfs, path, 0, &file, err);

    if (status != MK_OK) return status;
    if (position < 0) position = 0;
    mk_scratch_init(&scratch, &log->heap);
    status = mk_file_view(file, &scratch, position, STATE_END, &end, err);
    if (status == MK_OK) out->state_end = mk_crc32c(0, end.data, end.size);
    mk_scratch_deinit(&scratch);
    (void)mk_file_close(file, NULL); /* It was only read. */
    return status;
}

/* Written twice within a tick of the file system's clock, the state may have
 * the number and the time of the file before the last; hence its checksum,
 * which stands at its end. One that is replaced in the midst of this is another
 * one the next time, too. */
static mk_status look_at_state(mk_log *log, mk_sight *out, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    out->state = (mk_file_stat){0};
    out->state_end = 0;
    out->settled = false;
    status =
        mk_name_join(path, sizeof path, log->directory, MK_NAME_STATE, err);
    if (status == MK_OK) {
        status = mk_vfs_stat(log->vfs, path, &out->state, err);
    }
    if (status == MK_OK) status = read_state_end(log, path, out, err);
    return status == MK_NOT_FOUND ? MK_OK : status;
}

/* A tree beside the log's place is the log while there is nothing at the place.
 * Once there is, that is the log, and the tree may be half removed. */
static mk_status check_place(mk_log *log, mk_error *err)
{
    mk_file_stat stat;
    mk_status status;

    if (log->directory == log->place) return MK_OK;
    status = mk_vfs_stat(log->vfs, log->place, &stat, err);
    if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    return mk_fail_at(err, MK_NOT_FOUND, log->directory, -1,
                      "the log is no longer at %s", log->directory);
}

static mk_status look(mk_log *log, mk_sight *out, mk_error *err)
{
    mk_file_stat stat;
    mk_status status = mk_vfs_stat(log->vfs, log->directory, &stat, err);

    *out = (mk_sight){0};
    if (status != MK_OK) return status;
    if (stat.kind != MK_KIND_DIRECTORY) {
        return mk_fail_errno(err, ENOTDIR, log->directory, "open %s",
                             log->directory);
    }
    out->directory_inode = stat.inode;
    /* A writer says in the state what it will remove before it does. So if the
     * state is an old one after the names were seen, they are as old. */
    status = look_at_names(log, &out->names, err);
    if (status == MK_OK) status = look_at_state(log, out, err);
    return status == MK_OK ? check_place(log, err) : status;
}

static bool is_same_file(const mk_file_stat *a, const mk_file_stat *b)
{
    return a->inode == b->inode && a->size == b->size &&
           a->mtime_ms == b->mtime_ms && a->mtime_ns == b->mtime_ns;
}

static bool is_same_state(const mk_sight *a, const mk_sight *b)
{
    return is_same_file(&a->state, &b->state) && a->state_end == b->state_end;
}

static bool is_same(const mk_sight *a, const mk_sight *b)
{
    return a->directory_inode == b->directory_inode && a->names == b->names &&
           is_same_state(a, b);
}

/* ---- Reading ---- */

/* Begin at the log's own place: a swap that was read around may be over. */
static mk_status find_tree(mk_log *log, mk_error *err)
{
    log->directory = log->place;
    return mk_directory_swap_restore(log, err);
}

/* Give the log of an empty directory an empty segment of its own. */
static mk_status imagine_active(mk_log *log, mk_error *err)
{
    mk_segment *segment = NULL;
    mk_status status;

    if (log->segment_count > 0) return MK_OK;
    status = mk_segment_new(&log->heap, log->log_end_offset, &segment, err);
    if (status != MK_OK) return status;
    status = mk_log_add_segment_locked(log, segment, err);
    if (status != MK_OK) mk_segment_free(segment);
    return status;
}

/* Read once. `*steady` tells whether the directory stood still meanwhile. */
static mk_status read_once(mk_log *log, const mk_progress *progress,
                           bool *steady, mk_error *err)
{
    mk_sight after;
    mk_status status;

    *steady = true;
    log->log_start_offset = log->log_end_offset = 0;
    log->cut_to = -1;
    status = find_tree(log, err);
    if (status == MK_OK) {
        *steady = log->directory == log->place;
        status = look(log, &log->sight, err);
    }
    if (status == MK_OK) {
        status = mk_log_recover(log, progress, err);
        *steady =
            look(log, &after, NULL) == MK_OK && is_same(&log->sight, &after);
    }
    if (status == MK_OK) status = imagine_active(log, err);
    return status;
}

/* Could this come from files that changed while they were read? */
static bool may_be_misled(mk_status status)
{
    return status == MK_NOT_FOUND || status == MK_CORRUPT_SEGMENT ||
           status == MK_CORRUPT_BATCH || status == MK_CORRUPT_INDEX ||
           status == MK_SWAP_AMBIGUOUS;
}

mk_status mk_log_read_directory(mk_log *log, const mk_progress *progress,
                                mk_error *err)
{
    for (int tries = 1;; tries++) {
        bool steady;
        mk_status status = read_once(log, progress, &steady, err);

        if (status != MK_OK && !may_be_misled(status)) return status;
        if (steady && (status != MK_NOT_FOUND || tries >= TRIES_MISSING)) {
            return status;
        }
        if (tries >= TRIES) return status;
        mk_log_forget_segments_locked(log, 0, log->segment_count);
    }
}

/* ---- Looking again ---- */

typedef struct segment_set {
    mk_segment **segments;
    size_t count, capacity;
} segment_set;

static void exchange_sets(mk_log *log, segment_set *set)
{
    segment_set old = {log->segments, log->segment_count,
                       log->segment_capacity};

    log->segments = set->segments;
    log->segment_count = set->count;
    log->segment_capacity = set->capacity;
    *set = old;
}

static void release_set(mk_log *log, segment_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        mk_log_close_idle_file_locked(log, set->segments[i]);
        mk_log_release_segment_locked(log, set->segments[i]);
    }
    mk_release(&log->heap, set->segments);
}

/* Read the directory anew; what was known is kept for the case that it fails.
 */
static mk_status read_again(mk_log *log, mk_error *err)
{
    int64_t start = log->log_start_offset;
    int64_t end = log->log_end_offset;
    int64_t cut_to = log->cut_to;
    bool ends_early = log->stats.ends_early;
    mk_recovery_point point = log->recovery_point;
    mk_sight sight = log->sight;
    segment_set set = {0};
    mk_status status;

    exchange_sets(log, &set);
    status = mk_log_read_directory(log, NULL, err);
    if (status != MK_OK) {
        exchange_sets(log, &set);
        log->log_start_offset = start;
        log->log_end_offset = end;
        log->cut_to = cut_to;
        log->stats.ends_early = ends_early;
        log->recovery_point = point;
        log->sight = sight;
    } else {
        /* What a cursor has read ahead may have been cut off since. */
        log->cuts++;
    }
    release_set(log, &set);
    log->generation++;
    return status;
}

/* Take what was appended. A file that was cut meanwhile, and has grown anew,
 * would be read as if it went on: the state is written anew before it is cut.
 */
static mk_status follow(mk_log *log, mk_error *err)
{
    int64_t end = log->log_end_offset;
    mk_sight sight;
    mk_status status = mk_log_follow_locked(log, err);

    if (status == MK_OK && log->log_end_offset != end) {
        status = look_at_state(log, &sight, err);
        if (status == MK_OK && !is_same_state(&sight, &log->sight)) {
            status = MK_NOT_FOUND;
        }
    }
    return status == MK_NOT_FOUND ? read_again(log, err) : status;
}

mk_status mk_log_refresh_locked(mk_log *log, mk_error *err)
{
    int64_t end = log->log_end_offset;
    uint64_t generation = log->generation;
    mk_sight sight;
    mk_status status;

    if (!log->read_only) return MK_OK;
    status = look(log, &sight, err);
    if (status == MK_OK && is_same(&sight, &log->sight)) {
        status = follow(log, err);
    } else if (status == MK_OK || status == MK_NOT_FOUND) {
        status = read_again(log, err);
    }
    if (end != log->log_end_offset || generation != log->generation) {
        mk_condition_signal_all(&log->changed);
    }
    return status;
}

static bool is_old(const mk_log *log, const mk_file_stat *state)
{
    const mk_clock *clock = &log->env->clock;
    int64_t now_ms;

    return clock->now(clock->context, &now_ms, NULL) == MK_OK &&
           now_ms - state->mtime_ms > SETTLED_MS;
}

/* Is the state the one that was seen? An old one need not be read for that. */
static bool state_stands(mk_log *log)
{
    mk_sight *seen = &log->sight;
    mk_sight sight;

    if (seen->settled) {
        char path[MK_PATH_MAX];

        if (mk_name_join(path, sizeof path, log->directory, MK_NAME_STATE,
                         NULL) == MK_OK &&
            mk_vfs_stat(log->vfs, path, &sight.state, NULL) == MK_OK &&
            is_same_file(&sight.state, &seen->state)) {
            return true;
        }
    }
    if (look_at_state(log, &sight, NULL) != MK_OK ||
        !is_same_state(&sight, seen)) {
        return false;
    }
    seen->settled = is_old(log, &sight.state);
    return true;
}

void mk_log_notice_locked(mk_log *log)
{
    if (!log->read_only || mk_log_check_open_locked(log, NULL) != MK_OK) return;
    if (state_stands(log)) return;
    /* Without success it is read on as it was known. */
    (void)!mk_log_refresh_locked(log, NULL);
}

bool mk_log_was_outdated_locked(mk_log *log, uint64_t generation,
                                mk_status status)
{
    if (!log->read_only || !may_be_misled(status)) return false;
    return mk_log_check_open_locked(log, NULL) == MK_OK &&
           mk_log_refresh_locked(log, NULL) == MK_OK &&
           log->generation != generation;
}
