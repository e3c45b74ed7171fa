/* directory_swap -- building beside, exchanging, tidying up. */
#include "log/directory_swap.h"

#include <string.h>

#include "base/check.h"
#include "log/state_store.h"
#include "log/swap_decision.h"

#include "base/poison.h"

#define SURVEYS_MAX 64 /* That somebody else's swaps may disturb. */

/* ---- Names ---- */

static mk_status sync_parent(mk_log *log, mk_sync_name name, mk_error *err)
{
    char parent[MK_PATH_MAX];
    mk_status status =
        mk_name_parent(parent, sizeof parent, log->directory, err);

    if (status != MK_OK) return status;
    return mk_vfs_sync_directory(log->vfs, parent, name, err);
}

/* Write the path of a sibling, at which nothing may stand. */
static mk_status need_name(mk_log *log, mk_sibling sibling, char *out,
                           mk_error *err)
{
    mk_swap_tree tree;
    mk_status status = mk_name_sibling(tree.path, sizeof tree.path,
                                       log->directory, sibling, err);

    if (status == MK_OK) {
        status =
            mk_swap_tree_look(&tree, log, mk_name_last(log->directory), err);
    }
    if (status != MK_OK) return status;
    if (tree.kind != MK_TREE_MISSING) return mk_swap_fail_in_way(&tree, err);
    memcpy(out, tree.path, strlen(tree.path) + 1);
    return MK_OK;
}

static mk_status phase_of(const mk_log *log, const char *tree,
                          mk_swap_phase *out, mk_error *err)
{
    return mk_swap_manifest_load(log->vfs, tree, mk_name_last(log->directory),
                                 out, err);
}

/* ---- Building ---- */

mk_status mk_directory_swap_begin(mk_directory_swap *swap, mk_log *log,
                                  mk_error *err)
{
    mk_status status;

    swap->log = log;
    status = mk_directory_swap_clean(log, err); /* What an earlier one left. */
    if (status == MK_OK) {
        status = need_name(log, MK_SIBLING_NEW, swap->path, err);
    }
    if (status == MK_OK) status = mk_vfs_mkdir(log->vfs, swap->path, err);
    if (status != MK_OK) return status;
    status = mk_swap_manifest_store(log->vfs, swap->path,
                                    mk_name_last(log->directory),
                                    MK_SWAP_BUILDING, err);
    if (status != MK_OK) mk_directory_swap_cancel(swap);
    return status;
}

void mk_directory_swap_cancel(mk_directory_swap *swap)
{
    mk_log *log = swap->log;
    mk_swap_tree tree;

    memcpy(tree.path, swap->path, strlen(swap->path) + 1);
    /* What can't be looked at or removed now is removed by the next open; and
     * a tree without a note may be the log's own. */
    if (mk_swap_tree_look(&tree, log, mk_name_last(log->directory), NULL) !=
        MK_OK) {
        return;
    }
    if (tree.note == MK_SWAP_NONE && !tree.vacant) return;
    /* The names may have changed places and back: which of the two trees they
     * stand for must be stable before one is taken apart. */
    if (sync_parent(log, MK_SYNC_SWAP_PARENT, NULL) != MK_OK) return;
    (void)!mk_swap_tree_remove(log->vfs, swap->path, log->directory, NULL);
}

/* ---- Publishing ---- */

/* Does this file of the live directory belong in the new one? */
static bool stays(const mk_log *log, const char *name, int64_t first_kept)
{
    mk_file_name parsed = mk_name_parse(name);

    if (strcmp(name, MK_NAME_LOCK) == 0) return true;
    if (strcmp(name, MK_NAME_RESERVE) == 0) return true;
    if (parsed.role == MK_ROLE_OWN) return false;
    if (parsed.role == MK_ROLE_UNKNOWN) return true;
    if (parsed.role == MK_ROLE_SNAPSHOT) return true;
    if (parsed.stage != MK_STAGE_FINAL) return false;
    if (parsed.offset < first_kept) return false;
    /* The active segment's indexes go on growing, in files of their own. */
    return parsed.role == MK_ROLE_LOG ||
           parsed.offset != mk_log_active_locked(log)->base_offset;
}

static mk_status link_kept(mk_directory_swap *swap, int64_t first_kept,
                           mk_error *err)
{
    mk_log *log = swap->log;
    mk_name_list names;
    mk_status status = mk_vfs_list(log->vfs, log->directory, &names, err);

    if (status != MK_OK) return status;
    for (size_t i = 0; status == MK_OK && i < names.count; i++) {
        char from[MK_PATH_MAX];
        char to[MK_PATH_MAX];

        if (names.kinds[i] != MK_KIND_FILE) continue;
        if (!stays(log, names.names[i], first_kept)) continue;
        status = mk_name_join(from, sizeof from, log->directory, names.names[i],
                              err);
        if (status == MK_OK) {
            status =
                mk_name_join(to, sizeof to, swap->path, names.names[i], err);
        }
        if (status == MK_OK) status = mk_vfs_link(log->vfs, from, to, err);
    }
    mk_name_list_deinit(&names);
    return status;
}

/* Does the live directory have the note that the new one got? Then it is the
 * new one, whatever the disk said of the step that was to make it so. */
static bool is_swapped(mk_log *log)
{
    mk_swap_phase phase = MK_SWAP_NONE;

    return phase_of(log, log->directory, &phase, NULL) == MK_OK &&
           phase == MK_SWAP_READY;
}

/* The swap could be neither ended nor undone: the segments that the log has are
 * in the old tree, if that did not get its name back all the same. */
static void strand(mk_log *log, const char *kept, const mk_error *cause)
{
    bool there = true;

    mk_log_refuse_locked(log, cause);
    (void)!mk_swap_tree_find(log->vfs, kept, &there, NULL);
    if (!there) return;
    mk_release(&log->heap, log->kept_tree);
    log->kept_tree = mk_copy_string(&log->heap, kept);
}

/* Swap by two renames; the first is undone if the second fails. */
static mk_status rename_twice(mk_log *log, const char *new_path, char *kept,
                              mk_error *err)
{
    bool there = false;
    mk_status status = need_name(log, MK_SIBLING_OLD, kept, err);

    if (status != MK_OK) return status;
    status = mk_vfs_rename(log->vfs, log->directory, kept, err);
    if (status != MK_OK &&
        (mk_swap_tree_find(log->vfs, kept, &there, NULL) != MK_OK || !there)) {
        return status;
    }
    status = mk_vfs_rename(log->vfs, new_path, log->directory, err);
    if (status == MK_OK || is_swapped(log)) return MK_OK;
    if (mk_vfs_rename(log->vfs, kept, log->directory, NULL) != MK_OK) {
        strand(log, kept, err);
    }
    return status;
}

/* Let the trees change places. `*kept` is the old one's path afterwards. */
static mk_status swap_names(mk_log *log, const char *new_path, char *kept,
                            mk_error *err)
{
    mk_status status = mk_vfs_exchange(log->vfs, log->directory, new_path, err);

    if (status == MK_UNSUPPORTED) {
        return rename_twice(log, new_path, kept, err);
    }
    if (status != MK_OK && !is_swapped(log)) return status;
    memcpy(kept, new_path, strlen(new_path) + 1);
    return MK_OK;
}

/* Undo swap_names(): `kept` is the path of the old tree. */
static void swap_names_back(mk_log *log, const char *new_path, const char *kept,
                            const mk_error *cause)
{
    mk_status status;

    if (strcmp(kept, new_path) == 0) {
        status = mk_vfs_exchange(log->vfs, log->directory, new_path, NULL);
    } else {
        status = mk_vfs_rename(log->vfs, log->directory, new_path, NULL);
        if (status == MK_OK) {
            status = mk_vfs_rename(log->vfs, kept, log->directory, NULL);
        }
    }
    if (status != MK_OK) strand(log, kept, cause);
}

/* Everything in the new directory that does not need the names swapped; the
 * mutex is not held, but nothing rolls and nothing is removed meanwhile. */
static mk_status complete(mk_directory_swap *swap, const mk_state *state,
                          int64_t first_kept, mk_error *err)
{
    mk_log *log = swap->log;
    mk_status status;

    status = link_kept(swap, first_kept, err);
    if (status == MK_OK) {
        /* This syncs the directory: all names in it are stable before the note
         * says so. */
        status = mk_state_store(state, log->vfs, swap->path, true, err);
    }
    if (status != MK_OK) return status;
    return mk_swap_manifest_store(
        log->vfs, swap->path, mk_name_last(log->directory), MK_SWAP_READY, err);
}

/* Put another set of segments in the place of the log's; the old array goes to
 * the caller. */
static void install(mk_log *log, mk_segment ***segments, size_t *count,
                    size_t *capacity)
{
    mk_segment **old = log->segments;
    size_t old_count = log->segment_count;
    size_t old_capacity = log->segment_capacity;

    for (size_t i = 0; i + 1 < old_count; i++) {
        mk_log_close_idle_file_locked(log, old[i]);
    }
    log->segments = *segments;
    log->segment_count = *count;
    log->segment_capacity = *capacity;
    log->generation++;
    mk_log_active_locked(log)->index_files_good = false;
    *segments = old;
    *count = old_count;
    *capacity = old_capacity;
}

/* Remove the old tree; the swap itself is done and stays done. */
static void tidy(mk_log *log, const char *kept)
{
    char note[MK_PATH_MAX];

    /* What can't be removed now is removed by the next open. */
    if (mk_swap_tree_remove(log->vfs, kept, log->directory, NULL) != MK_OK) {
        return;
    }
    if (sync_parent(log, MK_SYNC_SWAP_DONE, NULL) != MK_OK) return;
    if (mk_name_join(note, sizeof note, log->directory, MK_NAME_SWAP, NULL) ==
        MK_OK) {
        (void)!mk_vfs_unlink(log->vfs, note, NULL);
    }
}

/* Prepare the set that the log will have: the rewritten segments, then those
 * that stay. */
static mk_status merge_sets(mk_log *log, mk_segment *const *segments,
                            size_t count, size_t source_count,
                            mk_segment ***out, size_t *out_count,
                            size_t *out_capacity, mk_error *err)
{
    size_t kept = log->segment_count - source_count;
    void *array = NULL;
    mk_status status;

    *out_count = count + kept;
    *out_capacity = 0;
    status = mk_grow(&log->heap, &array, out_capacity, count + kept,
                     sizeof *segments, err);
    *out = array;
    if (status != MK_OK) return status;
    if (count > 0) memcpy(*out, segments, count * sizeof *segments);
    memcpy(*out + count, log->segments + source_count, kept * sizeof *segments);
    return MK_OK;
}

/* Give up the sources: one reference each, those that stay keep theirs. */
static void release_sources(mk_log *log, mk_segment **old, size_t source_count)
{
    for (size_t i = 0; i < source_count; i++) {
        mk_log_close_idle_file_locked(log, old[i]);
        mk_log_release_segment_locked(log, old[i]);
    }
}

/* Swap names and sets; sync the parent; on failure all is put back. Nothing is
 * changed until that is stable, too: a loss of power may still give the name to
 * the new tree, which has nothing of what comes now. */
static mk_status exchange_trees(mk_directory_swap *swap, mk_segment ***set,
                                size_t *count, size_t *capacity, char *kept,
                                mk_error *err)
{
    mk_log *log = swap->log;
    mk_status status = mk_log_check_writable_locked(log, err);
    mk_status synced;

    if (status == MK_OK) status = swap_names(log, swap->path, kept, err);
    if (status != MK_OK) return status;
    install(log, set, count, capacity);
    mk_mutex_unlock(&log->mutex);
    status = sync_parent(log, MK_SYNC_SWAP_PARENT, err);
    mk_mutex_lock(&log->mutex);
    if (status == MK_OK) return MK_OK;
    swap_names_back(log, swap->path, kept, err);
    install(log, set, count, capacity);
    mk_mutex_unlock(&log->mutex);
    synced = sync_parent(log, MK_SYNC_SWAP_PARENT, NULL);
    mk_mutex_lock(&log->mutex);
    if (synced != MK_OK) mk_log_refuse_locked(log, err);
    return status;
}

mk_status mk_directory_swap_publish_locked(mk_directory_swap *swap,
                                           mk_segment *const *segments,
                                           size_t count, size_t source_count,
                                           mk_error *err)
{
    mk_log *log = swap->log;
    int64_t first_kept = log->segments[source_count]->base_offset;
    mk_recovery_point point = log->recovery_point;
    int64_t dense_offset = log->dense_offset;
    char kept[MK_PATH_MAX];
    mk_segment **set = NULL;
    size_t set_count = 0, set_capacity = 0;
    mk_state state;
    mk_status status;

    MK_ASSERT(log->maintaining);
    log->swapping = true;
    if (log->recovery_point.segment < first_kept) {
        mk_log_forget_point_locked(log);
    }
    if (log->dense_offset < first_kept) log->dense_offset = first_kept;
    mk_state_init(&state, &log->heap);
    status = merge_sets(log, segments, count, source_count, &set, &set_count,
                        &set_capacity, err);
    if (status == MK_OK) {
        status = mk_log_get_state_locked(log, set, set_count, &state, err);
    }
    if (status == MK_OK) {
        mk_mutex_unlock(&log->mutex);
        status = complete(swap, &state, first_kept, err);
        mk_mutex_lock(&log->mutex);
    }
    if (status == MK_OK) {
        status =
            exchange_trees(swap, &set, &set_count, &set_capacity, kept, err);
    }
    if (status == MK_OK) {
        release_sources(log, set, source_count);
        mk_mutex_unlock(&log->mutex);
        tidy(log, kept);
        mk_mutex_lock(&log->mutex);
    } else {
        log->recovery_point = point;
        log->dense_offset = dense_offset;
        mk_mutex_unlock(&log->mutex);
        mk_directory_swap_cancel(swap);
        mk_mutex_lock(&log->mutex);
    }
    log->swapping = false;
    mk_condition_signal_all(&log->changed);
    mk_release(&log->heap, set);
    mk_state_deinit(&state);
    return status;
}

/* ---- Recovery ---- */

/* Read the log where it is. */
static mk_status use_sibling(mk_log *log, mk_sibling sibling, const char *path,
                             mk_error *err)
{
    char **kept = &log->siblings[sibling];

    if (*kept == NULL) *kept = mk_copy_string(&log->heap, path);
    if (*kept == NULL) return mk_fail_memory(err, strlen(path) + 1);
    log->directory = *kept;
    return MK_OK;
}

/* Get the tree's lock. A log that heals has it, if the tree is its own. */
static mk_status lock_tree(mk_log *log, const char *tree, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat named, held;
    mk_status status;

    status = mk_name_join(path, sizeof path, tree, MK_NAME_LOCK, err);
    if (status != MK_OK) return status;
    if (log->lock == NULL) {
        return mk_vfs_lock(log->vfs, path, log->env->holder, &log->lock, err);
    }
    status = mk_vfs_stat(log->vfs, path, &named, err);
    if (status == MK_OK) status = mk_file_stat_open(log->lock, &held, err);
    if (status != MK_OK || named.inode == held.inode) return status;
    return mk_fail_at(err, MK_LOCKED, path, -1,
                      "%s is not the lock that this log holds", path);
}

/* Lock the tree, look once more whether the live one is still missing, and let
 * it have that name. */
static mk_status rename_to_live(mk_log *log, const char *tree, mk_error *err)
{
    mk_file_stat stat;
    mk_status status = lock_tree(log, tree, err);

    if (status != MK_OK) return status;
    status = mk_vfs_stat(log->vfs, log->directory, &stat, err);
    if (status != MK_NOT_FOUND) return status;
    status = mk_vfs_rename(log->vfs, tree, log->directory, err);
    if (status != MK_OK) return status;
    if (log->kept_tree != NULL && strcmp(log->kept_tree, tree) == 0) {
        mk_release(&log->heap, log->kept_tree);
        log->kept_tree = NULL;
    }
    return sync_parent(log, MK_SYNC_SWAP_PARENT, err);
}

/* Is there anything to decide? Mostly not. */
static mk_status is_plain(mk_log *log, bool *out, mk_error *err)
{
    char path[MK_PATH_MAX];
    bool there = false;
    mk_swap_phase note = MK_SWAP_NONE;
    mk_status status = mk_swap_tree_find(log->vfs, log->directory, out, err);

    for (int i = MK_SIBLING_NEW; status == MK_OK && i <= MK_SIBLING_OLD; i++) {
        status = mk_name_sibling(path, sizeof path, log->directory,
                                 (mk_sibling)i, err);
        if (status != MK_OK) return status;
        status = mk_swap_tree_find(log->vfs, path, &there, err);
        if (there) *out = false;
    }
    if (status != MK_OK || !*out) return status;
    status = phase_of(log, log->directory, &note, err);
    *out = note == MK_SWAP_NONE;
    return status;
}

/* Look until the same is seen twice: while nobody has the lock, another process
 * may be in the middle of a swap. */
static mk_status survey_steadily(mk_log *log, mk_swap_survey *out,
                                 mk_error *err)
{
    mk_swap_survey before;
    mk_status status = mk_swap_survey_take(out, log, err);

    for (int i = 0; status == MK_OK && i < SURVEYS_MAX &&
                    mk_swap_decide(out).choice == MK_SWAP_FAIL;
         i++) {
        before = *out;
        status = mk_swap_survey_take(out, log, err);
        if (status == MK_OK && mk_swap_survey_equals(out, &before)) break;
    }
    return status;
}

mk_status mk_directory_swap_restore(mk_log *log, mk_error *err)
{
    mk_swap_survey survey;
    const char *tree;
    mk_sibling sibling;
    mk_swap_choice choice;
    bool plain = false;
    mk_status status = is_plain(log, &plain, err);

    if (status != MK_OK || plain) return status;
    status = survey_steadily(log, &survey, err);
    if (status != MK_OK) return status;
    choice = mk_swap_decide(&survey).choice;
    if (choice == MK_SWAP_USE_LIVE) return MK_OK;
    if (choice == MK_SWAP_FAIL) return mk_swap_fail(&survey, err);
    sibling = choice == MK_SWAP_USE_OLD ? MK_SIBLING_OLD : MK_SIBLING_NEW;
    tree = choice == MK_SWAP_USE_OLD ? survey.old.path : survey.fresh.path;
    return log->read_only ? use_sibling(log, sibling, tree, err)
                          : rename_to_live(log, tree, err);
}

/* The old tree is gone: make that stable, and take the note away. */
static mk_status take_note_away(mk_log *log, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status = sync_parent(log, MK_SYNC_SWAP_DONE, err);

    if (status != MK_OK) return status;
    status = mk_name_join(path, sizeof path, log->directory, MK_NAME_SWAP, err);
    if (status != MK_OK) return status;
    return mk_vfs_unlink(log->vfs, path, err);
}

mk_status mk_directory_swap_clean(mk_log *log, mk_error *err)
{
    mk_swap_survey survey;
    mk_swap_decision decision;
    bool plain = false;
    mk_status status;

    status = is_plain(log, &plain, err);
    if (status != MK_OK || plain) return status;
    status = mk_swap_survey_take(&survey, log, err);
    if (status != MK_OK) return status;
    decision = mk_swap_decide(&survey);
    if (decision.choice != MK_SWAP_USE_LIVE) return mk_swap_fail(&survey, err);
    if (decision.remove_new || decision.remove_old) {
        /* Whoever swapped may have died before the names were stable. */
        status = sync_parent(log, MK_SYNC_SWAP_PARENT, err);
    }
    if (status == MK_OK && decision.remove_new) {
        status = mk_swap_tree_remove(log->vfs, survey.fresh.path,
                                     log->directory, err);
    }
    if (status == MK_OK && decision.remove_old) {
        status =
            mk_swap_tree_remove(log->vfs, survey.old.path, log->directory, err);
    }
    if (status != MK_OK || survey.live.kind != MK_TREE_SOUND ||
        survey.live.note != MK_SWAP_READY) {
        return status;
    }
    return take_note_away(log, err);
}
