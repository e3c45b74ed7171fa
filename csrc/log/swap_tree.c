/* swap_tree -- telling a directory's worth from what is in it. */
#include "log/swap_tree.h"

#include <string.h>

#include "base/poison.h"

#define SCAN_BUDGET (1u << 20)

/* ---- By names and sizes ---- */

mk_status mk_swap_tree_find(mk_vfs *vfs, const char *path, bool *out,
                            mk_error *err)
{
    mk_file_stat stat;
    mk_status status = mk_vfs_stat(vfs, path, &stat, err);

    *out = status == MK_OK && stat.kind == MK_KIND_DIRECTORY;
    return status == MK_NOT_FOUND ? MK_OK : status;
}

/* Does this name stand for a segment? */
static bool is_segment(const mk_name_list *names, size_t i)
{
    mk_file_name name = mk_name_parse(names->names[i]);

    return names->kinds[i] == MK_KIND_FILE && name.role == MK_ROLE_LOG &&
           name.stage == MK_STAGE_FINAL;
}

static bool is_vacant(const mk_name_list *names)
{
    return names->count == 0 ||
           (names->count == 1 &&
            strcmp(names->names[0], MK_NAME_SWAP ".tmp") == 0);
}

static mk_status load_note(mk_swap_tree *tree, const mk_name_list *names,
                           mk_vfs *vfs, const char *live, mk_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], MK_NAME_SWAP) != 0) continue;
        tree->note = MK_SWAP_STRANGE;
        if (names->kinds[i] != MK_KIND_FILE) return MK_OK;
        return mk_swap_manifest_load(vfs, tree->path, live, &tree->note, err);
    }
    return MK_OK;
}

/* Must this segment be there, in full, by what the state says? Not if it was
 * being removed from the start or cut off at the end, nor if it never reached
 * stable storage. One that has nothing yet is lost with its name, which the
 * next flush syncs. */
static bool must_be_there(const mk_state *state, const mk_segment_facts *facts)
{
    return facts->log_bytes > 0 &&
           facts->next_offset > state->log_start_offset &&
           facts->next_offset <= state->end_offset &&
           facts->next_offset <= state->recovery_point.offset;
}

/* Is the segment's log as long as its facts say? */
static mk_status is_long_enough(const mk_swap_tree *tree, mk_vfs *vfs,
                                const mk_segment_facts *facts, bool *out,
                                mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    status = mk_name_segment_file(path, sizeof path, tree->path,
                                  facts->base_offset, MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    status = mk_vfs_stat(vfs, path, &stat, err);
    *out = status == MK_OK && stat.kind == MK_KIND_FILE &&
           stat.size >= facts->log_bytes;
    return status == MK_NOT_FOUND ? MK_OK : status;
}

/* Compare what is there with what the state says. */
static mk_status weigh(mk_swap_tree *tree, const mk_name_list *names,
                       mk_log *log, mk_error *err)
{
    mk_state state;
    bool good = true, any = false;
    mk_status status;

    for (size_t i = 0; i < names->count; i++) {
        any = any || is_segment(names, i);
    }
    mk_state_init(&state, &log->heap);
    status = mk_state_load(&state, log->vfs, tree->path, err);
    if (status == MK_OK && mk_state_is_plausible(&state)) {
        any = any || state.facts_count > 0;
        for (size_t i = 0; status == MK_OK && good && i < state.facts_count;
             i++) {
            if (!must_be_there(&state, &state.facts[i])) continue;
            status =
                is_long_enough(tree, log->vfs, &state.facts[i], &good, err);
        }
    }
    mk_state_deinit(&state);
    if (status != MK_OK) return status;
    tree->kind = !any ? MK_TREE_EMPTY : good ? MK_TREE_SOUND : MK_TREE_DAMAGED;
    if (tree->note == MK_SWAP_BUILDING) tree->kind = MK_TREE_INCOMPLETE;
    return MK_OK;
}

mk_status mk_swap_tree_look(mk_swap_tree *tree, mk_log *log, const char *live,
                            mk_error *err)
{
    mk_name_list names;
    mk_file_stat stat;
    mk_status status;

    tree->kind = MK_TREE_MISSING;
    tree->note = MK_SWAP_NONE;
    tree->vacant = false;
    tree->inode = 0;
    status = mk_vfs_stat(log->vfs, tree->path, &stat, err);
    if (status == MK_NOT_FOUND) return MK_OK;
    if (status != MK_OK) return status;
    tree->inode = stat.inode;
    tree->kind = MK_TREE_ALIEN;
    if (stat.kind != MK_KIND_DIRECTORY) return MK_OK;
    tree->kind = MK_TREE_EMPTY;
    status = mk_vfs_list(log->vfs, tree->path, &names, err);
    if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    tree->vacant = is_vacant(&names);
    status = load_note(tree, &names, log->vfs, live, err);
    if (status == MK_OK) status = weigh(tree, &names, log, err);
    mk_name_list_deinit(&names);
    return status;
}

/* ---- By bytes ---- */

static mk_status scan_file(mk_log *log, mk_segment *segment, mk_file *file,
                           bool *sound, mk_error *err)
{
    mk_segment_scan scan;
    mk_scratch scratch;
    mk_file_stat stat;
    mk_status status = mk_file_stat_open(file, &stat, err);

    if (status != MK_OK) return status;
    mk_scratch_init(&scratch, &log->heap);
    mk_segment_scan_init(&scan, segment, file, stat.size,
                         log->config.index_interval_bytes, &scratch);
    *sound = stat.size <= INT32_MAX;
    if (stat.size > 0 && *sound) {
        while (status == MK_OK && scan.end == MK_SCAN_RUNNING) {
            status = mk_segment_scan_step(&scan, SCAN_BUDGET, err);
        }
        /* What is of an old format can't be told to be damaged. */
        *sound = scan.end == MK_SCAN_WHOLE || scan.end == MK_SCAN_OLD;
    }
    mk_scratch_deinit(&scratch);
    return status;
}

/* Is the closed segment sound to the end of its file? */
static mk_status check_segment(mk_log *log, const char *directory,
                               int64_t base_offset, bool *sound, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_segment *segment = NULL;
    mk_file *file = NULL;
    mk_status status;

    *sound = false;
    status = mk_name_segment_file(path, sizeof path, directory, base_offset,
                                  MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    status = mk_file_open(log->vfs, path, 0, &file, err);
    if (status == MK_NOT_FOUND) return MK_OK;
    if (status != MK_OK) return status;
    status = mk_segment_new(&log->heap, base_offset, &segment, err);
    if (status == MK_OK) status = scan_file(log, segment, file, sound, err);
    mk_segment_free(segment);
    (void)mk_file_close(file, NULL); /* It was only read. */
    return status;
}

mk_status mk_swap_tree_check(mk_swap_tree *tree, mk_log *log, mk_error *err)
{
    mk_name_list names;
    int64_t closed = -1; /* One that has another one behind it. */
    bool sound = true;
    mk_status status;

    if (tree->kind != MK_TREE_SOUND) return MK_OK;
    status = mk_vfs_list(log->vfs, tree->path, &names, err);
    if (status == MK_NOT_FOUND) tree->kind = MK_TREE_DAMAGED;
    if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    for (size_t i = 0; status == MK_OK && sound && i < names.count; i++) {
        if (!is_segment(&names, i)) continue;
        if (closed >= 0) {
            status = check_segment(log, tree->path, closed, &sound, err);
        }
        closed = mk_name_parse(names.names[i]).offset;
    }
    mk_name_list_deinit(&names);
    if (!sound) tree->kind = MK_TREE_DAMAGED;
    return status;
}

/* ---- Removing ---- */

/* May this file of a superseded tree be unlinked? It may if it is of a kind
 * that swaps deal with, or has another name. */
static mk_status is_superseded(mk_vfs *vfs, const char *path, bool *out,
                               mk_error *err)
{
    mk_file_role role = mk_name_parse(mk_name_last(path)).role;
    mk_file_stat stat;
    mk_status status;

    *out = role != MK_ROLE_UNKNOWN;
    if (*out) return MK_OK;
    status = mk_vfs_stat(vfs, path, &stat, err);
    *out = status == MK_OK && stat.links > 1;
    return status;
}

/* Move what is not ours to the live directory, unless the name is taken there:
 * then it stays. */
static mk_status move_to_live(mk_vfs *vfs, const char *from, const char *name,
                              const char *live, bool *moved, mk_error *err)
{
    char to[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status = mk_name_join(to, sizeof to, live, name, err);

    *moved = false;
    if (status != MK_OK) return status;
    status = mk_vfs_stat(vfs, to, &stat, err);
    if (status != MK_NOT_FOUND) return status;
    *moved = true;
    return mk_vfs_rename(vfs, from, to, err);
}

/* What removing a tree makes of one name in it. */
static mk_status remove_name(mk_vfs *vfs, const char *tree, const char *name,
                             mk_file_kind kind, const char *live, bool *gone,
                             mk_error *err)
{
    char from[MK_PATH_MAX];
    mk_status status;

    *gone = false;
    status = mk_name_join(from, sizeof from, tree, name, err);
    if (status == MK_OK && kind == MK_KIND_FILE) {
        status = is_superseded(vfs, from, gone, err);
    }
    if (status != MK_OK) return status;
    if (*gone) return mk_vfs_unlink(vfs, from, err);
    return move_to_live(vfs, from, name, live, gone, err);
}

mk_status mk_swap_tree_remove(mk_vfs *vfs, const char *path, const char *live,
                              mk_error *err)
{
    mk_name_list names;
    bool noted = false, empty = true;
    mk_status status = mk_vfs_list(vfs, path, &names, err);

    if (status != MK_OK) return status;
    for (size_t i = 0; status == MK_OK && i < names.count; i++) {
        bool gone = true;

        if (strcmp(names.names[i], MK_NAME_SWAP) == 0) {
            noted = true;
            continue;
        }
        status = remove_name(vfs, path, names.names[i], names.kinds[i], live,
                             &gone, err);
        if (!gone) empty = false;
    }
    mk_name_list_deinit(&names);
    if (status == MK_OK && noted) {
        bool gone;

        status = mk_vfs_sync_directory(vfs, path, MK_SYNC_SWAP_TREE, err);
        if (status == MK_OK) {
            status = remove_name(vfs, path, MK_NAME_SWAP, MK_KIND_FILE, live,
                                 &gone, err);
        }
    }
    if (status == MK_OK && empty) status = mk_vfs_rmdir(vfs, path, err);
    return status;
}
