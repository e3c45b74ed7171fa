/* repair_plan -- reading, deciding, and saying what is to be done. */
#include "log/repair_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "log/inventory.h"
#include "log/repair_loss.h"

#include "base/poison.h"

/* ---- Steps ---- */

/* Say what the last step cannot bring back. */
static void set_lost(mk_repair_work *work, int64_t from, int64_t to)
{
    mk_repair_step *step = &work->out->steps[work->out->count - 1];

    step->lost_from = from;
    step->lost_to = to;
}

/* Add a step that moves something to the quarantine. */
static mk_status add_move(mk_repair_work *work, const char *path,
                          const char *reason, mk_error *err)
{
    char directory[MK_PATH_MAX];
    char to[MK_PATH_MAX];
    mk_status status;

    status = mk_name_join(directory, sizeof directory, work->directory,
                          work->quarantine, err);
    if (status == MK_OK) {
        status =
            mk_name_join(to, sizeof to, directory, mk_name_last(path), err);
    }
    if (status != MK_OK) return status;
    return mk_repair_work_add(work, MK_REPAIR_MOVE_ASIDE, MK_REPAIR_NO_FILE,
                              path, to, err, "%s", reason);
}

static mk_status add_move_of(mk_repair_work *work, const char *name,
                             const char *reason, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status =
        mk_name_join(path, sizeof path, work->directory, name, err);

    return status == MK_OK ? add_move(work, path, reason, err) : status;
}

/* ---- Directories ---- */

static bool is_there(const mk_swap_tree *tree)
{
    return tree->kind != MK_TREE_MISSING;
}

static mk_status plan_directories(mk_repair_work *work, mk_error *err)
{
    const mk_swap_survey *survey = &work->survey;
    const mk_swap_tree *chosen = work->chosen;
    const mk_swap_tree *siblings[] = {&survey->fresh, &survey->old};
    mk_status status = MK_OK;

    for (int i = 0; status == MK_OK && i < 2; i++) {
        if (siblings[i] == chosen || !is_there(siblings[i])) continue;
        status =
            add_move(work, siblings[i]->path,
                     "a swap left it, and it is not the log that is kept", err);
    }
    if (status != MK_OK || chosen == &survey->live) return status;
    if (is_there(&survey->live)) {
        status =
            add_move(work, survey->live.path,
                     "another directory that a swap left is a better log", err);
    }
    if (status != MK_OK) return status;
    return mk_repair_work_add(
        work, MK_REPAIR_USE_DIRECTORY, MK_REPAIR_NO_FILE, chosen->path,
        survey->live.path, err,
        "it is the log that a swap left without its name");
}

static mk_status plan_note(mk_repair_work *work, mk_error *err)
{
    if (work->chosen->note == MK_SWAP_NONE) return MK_OK;
    return add_move_of(work, MK_NAME_SWAP, "the swap is over", err);
}

/* ---- Reading ---- */

static mk_status report(mk_repair_work *work, int64_t done, int64_t total,
                        mk_error *err)
{
    const mk_progress *progress = work->progress;

    if (progress == NULL || progress->report == NULL) return MK_OK;
    return progress->report(progress->context, done, total, err);
}

static mk_status total_of(mk_repair_work *work, const mk_name_list *names,
                          int64_t *out, mk_error *err)
{
    *out = 0;
    for (size_t i = 0; i < names->count; i++) {
        char path[MK_PATH_MAX];
        mk_file_stat stat;
        mk_status status;

        if (mk_name_parse(names->names[i]).role != MK_ROLE_LOG) continue;
        status =
            mk_name_join(path, sizeof path, work->root, names->names[i], err);
        if (status == MK_OK) status = mk_vfs_stat(work->vfs, path, &stat, err);
        if (status != MK_OK) return status;
        *out += stat.size;
    }
    return MK_OK;
}

/* Add the segments that opening would see. `*ambiguous`: it would see none,
 * since leftovers prove nothing, and those that have their final names are
 * added. */
static mk_status add_segments(mk_repair_work *work, const mk_name_list *names,
                              bool *ambiguous, mk_error *err)
{
    mk_log *probe = work->probe;
    mk_leftovers plan;
    int64_t done = 0, total;
    mk_status status = total_of(work, names, &total, err);

    mk_leftovers_init(&plan, &probe->heap);
    if (status == MK_OK) status = mk_inventory_take(probe, NULL, &plan, err);
    *ambiguous = status == MK_SWAP_AMBIGUOUS;
    if (*ambiguous) status = MK_OK;
    if (status == MK_OK) status = mk_repair_work_find_missing(work, &plan, err);
    if (mk_leftovers_made_gaps(&plan)) work->gaps_below = plan.rewritten.to;
    mk_leftovers_deinit(&plan);
    for (size_t i = 0; status == MK_OK && i < names->count; i++) {
        mk_file_name name = mk_name_parse(names->names[i]);

        if (!*ambiguous || names->kinds[i] != MK_KIND_FILE) continue;
        if (name.role != MK_ROLE_LOG || name.stage != MK_STAGE_FINAL) continue;
        status =
            mk_repair_files_add(&work->files, work->vfs, work->root, name, err);
        if (status != MK_OK) return status;
        done += work->files.array[work->files.count - 1].found.file_size;
        status = report(work, done, total, err);
    }
    for (size_t i = 0; status == MK_OK && i < probe->segment_count; i++) {
        const mk_segment *segment = probe->segments[i];
        mk_file_name name = {MK_ROLE_LOG, segment->stage, segment->base_offset};

        status =
            mk_repair_files_add(&work->files, work->vfs, work->root, name, err);
        if (status != MK_OK) return status;
        done += work->files.array[work->files.count - 1].found.file_size;
        status = report(work, done, total, err);
    }
    return status;
}

static mk_status load_state(mk_repair_work *work, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    status = mk_name_join(path, sizeof path, work->root, MK_NAME_STATE, err);
    if (status == MK_OK) status = mk_vfs_stat(work->vfs, path, &stat, err);
    if (status == MK_NOT_FOUND) return MK_OK;
    if (status == MK_OK) {
        status = mk_state_load(&work->state, work->vfs, work->root, err);
    }
    if (status != MK_OK) return status;
    work->state_is_bad = !mk_state_is_plausible(&work->state);
    if (work->state_is_bad) mk_state_deinit(&work->state);
    return MK_OK;
}

/* From which position on may the last log be torn? */
static int64_t durable_position(const mk_repair_work *work)
{
    const mk_recovery_point *point = &work->state.recovery_point;
    const mk_repair_files *files = &work->files;
    int64_t base;

    if (!mk_repair_work_has_state(work) || files->count == 0) return INT64_MAX;
    base = files->array[files->count - 1].name.offset;
    if (point->segment == base && point->end_position > 0) {
        return point->end_position;
    }
    return point->segment > base ? INT64_MAX : 0;
}

/* ---- Indexes ---- */

/* Look at the indexes of what will be closed segments. */
static mk_status check_all_indexes(mk_repair_work *work, bool ends_anew,
                                   mk_error *err)
{
    const mk_repair_file *last = mk_repair_files_last(&work->files);

    for (size_t i = 0; i < work->files.count; i++) {
        mk_repair_file *file = &work->files.array[i];
        mk_status status;

        if (file->fate != MK_FATE_KEEP) continue;
        if (file == last && !ends_anew) continue;
        status = mk_repair_file_check_indexes(
            file, work->vfs, work->root,
            mk_state_find(&work->state, file->name.offset), err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

/* ---- Steps for segments ---- */

static mk_status plan_rewrite(mk_repair_work *work, size_t i, mk_error *err)
{
    const mk_repair_file *file = &work->files.array[i];
    const char *directory = work->directory;
    char path[MK_PATH_MAX];
    char to[MK_PATH_MAX];
    mk_status status =
        mk_repair_file_path(file, directory, path, sizeof path, err);

    if (status == MK_OK) {
        status = mk_name_segment_file(to, sizeof to, directory,
                                      file->base_offset, MK_ROLE_LOG, err);
    }
    if (status != MK_OK) return status;
    status = mk_repair_work_add(
        work, MK_REPAIR_REWRITE, i, path, to, err,
        "%s; %" PRId64 " of %" PRId64 " bytes stay, up to offset %" PRId64,
        file->found.whole ? "others have some of its offsets, too"
                          : "parts of it are damaged",
        file->size, file->found.file_size, file->next_offset - 1);
    if (status == MK_OK) set_lost(work, file->lost_from, file->lost_to);
    return status;
}

static mk_status plan_file(mk_repair_work *work, size_t i, mk_error *err)
{
    const mk_repair_file *file = &work->files.array[i];
    const char *directory = work->directory;
    char path[MK_PATH_MAX];
    char to[MK_PATH_MAX];
    mk_status status;

    if (file->fate == MK_FATE_REWRITE) return plan_rewrite(work, i, err);
    if (file->fate == MK_FATE_DROP) return MK_OK;
    status = mk_repair_file_path(file, directory, path, sizeof path, err);
    if (status == MK_OK) {
        status = mk_name_segment_file(to, sizeof to, directory,
                                      file->name.offset, MK_ROLE_LOG, err);
    }
    if (status == MK_OK && file->name.stage != MK_STAGE_FINAL) {
        status = mk_repair_work_add(work, MK_REPAIR_RENAME, i, path, to, err,
                                    "a swap of segments left it half-way");
    }
    if (status != MK_OK || !file->bad_indexes) return status;
    return mk_repair_work_add(work, MK_REPAIR_REBUILD_INDEX, i, to, "", err,
                              "its indexes do not agree with it");
}

/* What was given for good and is lost must not be given again. */
static mk_status plan_end(mk_repair_work *work, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status = mk_name_segment_file(path, sizeof path, work->directory,
                                            work->end_offset, MK_ROLE_LOG, err);

    if (status != MK_OK) return status;
    if (work->end_offset > work->files.end_offset) {
        status = mk_repair_work_add(
            work, MK_REPAIR_BEGIN_SEGMENT, MK_REPAIR_NO_FILE, path, "", err,
            "offsets up to %" PRId64 " were given, and must not be given again",
            work->end_offset - 1);
        if (status == MK_OK) {
            set_lost(work, work->files.end_offset, work->end_offset);
        }
        return status;
    }
    return mk_repair_work_add(
        work, MK_REPAIR_BEGIN_SEGMENT, MK_REPAIR_NO_FILE, path, "", err,
        "the segment before it is damaged, and must not be cut for that");
}

/* Later ones first: a file that gets another name finds it free. */
static mk_status plan_segments(mk_repair_work *work, mk_error *err)
{
    mk_status status = MK_OK;

    for (size_t i = work->files.count; status == MK_OK && i-- > 0;) {
        status = plan_file(work, i, err);
    }
    return status;
}

/* Find what becomes of the segment that a file belongs to. */
static const mk_repair_file *find_file(const mk_repair_work *work,
                                       mk_file_name name)
{
    for (size_t i = 0; i < work->files.count; i++) {
        const mk_repair_file *file = &work->files.array[i];

        if (file->name.offset == name.offset &&
            file->name.stage == name.stage) {
            return file;
        }
    }
    return NULL;
}

/* Why is this file moved aside, other than by a step about its segment? NULL:
 * it is not. */
static const char *why_moved(const mk_repair_work *work, mk_file_name name)
{
    const mk_repair_file *file = find_file(work, name);

    if (file == NULL) return "it belongs to no segment that stays";
    if (file->fate == MK_FATE_DROP) {
        return file->found.count > 0 ? "others have all of its offsets, too"
                                     : "nothing in it can be read";
    }
    if (file->fate == MK_FATE_REWRITE && name.stage != MK_STAGE_FINAL) {
        return "what it had is in its place now";
    }
    return NULL;
}

/* Files that belong to no segment that stays go: first those with a final name,
 * which another one may get; others when what they have was used. */
static mk_status plan_moves(mk_repair_work *work, const mk_name_list *names,
                            bool final, mk_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        mk_file_name name = mk_name_parse(names->names[i]);
        const char *why;
        mk_status status;

        if (name.role > MK_ROLE_TXN_INDEX || names->kinds[i] != MK_KIND_FILE ||
            (name.stage == MK_STAGE_FINAL) != final) {
            continue;
        }
        why = why_moved(work, name);
        if (why == NULL) continue;
        status = add_move_of(work, names->names[i], why, err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

/* ---- The state ---- */

static mk_status plan_state(mk_repair_work *work, bool ends_anew, mk_error *err)
{
    const mk_repair_file *last = mk_repair_files_last(&work->files);
    mk_state *next = &work->next;
    const char *reason = "it has to agree with what is there";
    char path[MK_PATH_MAX];
    int64_t start = work->state.log_start_offset;
    mk_status status;

    for (size_t i = 0; start < 0 && i < work->files.count; i++) {
        if (work->files.array[i].fate == MK_FATE_DROP) continue;
        start = work->files.array[i].base_offset;
    }
    next->log_start_offset = start < 0 ? work->end_offset : start;
    next->end_offset = next->dense_offset = work->end_offset;
    next->end_segment = next->end_position = 0;
    if (ends_anew) next->end_segment = work->end_offset;
    if (!ends_anew && last != NULL) {
        next->end_segment = last->base_offset;
        next->end_position = last->size;
    }
    next->recovery_point.offset = next->log_start_offset;
    next->recovery_point.batch_position = -1;
    next->recovery_point.end_position = -1;
    status =
        mk_name_join(path, sizeof path, work->directory, MK_NAME_STATE, err);
    if (status != MK_OK) return status;
    if (work->state_is_bad) reason = "it is damaged";
    if (work->lost_from >= 0) {
        reason = "it must not look for segments that are missing";
    }
    status = mk_repair_work_add(work, MK_REPAIR_WRITE_STATE, MK_REPAIR_NO_FILE,
                                path, "", err, "%s", reason);
    if (status == MK_OK) set_lost(work, work->lost_from, work->lost_to);
    return status;
}

/* ---- The plan ---- */

static bool is_changed(const mk_repair_work *work)
{
    for (size_t i = 0; i < work->files.count; i++) {
        const mk_repair_file *file = &work->files.array[i];

        if (file->fate != MK_FATE_KEEP || file->bad_indexes) return true;
    }
    return false;
}

/* What a swap of segments left has what survived it, and its sources, if nobody
 * can tell whether it was made. If it was, the sources have records that must
 * not come back. */
static mk_status fill_gaps(mk_repair_work *work, const mk_name_list *names,
                           bool ambiguous, mk_error *err)
{
    static const mk_file_stage stages[] = {MK_STAGE_SWAP, MK_STAGE_CLEANED,
                                           MK_STAGE_DELETED};
    size_t usable = ambiguous || work->revives ? 3 : 2;
    int64_t start = work->state.log_start_offset;
    mk_status status = MK_OK;

    for (size_t i = 0; i < usable; i++) {
        for (size_t j = 0; status == MK_OK && j < names->count; j++) {
            mk_file_name name = mk_name_parse(names->names[j]);

            if (name.role != MK_ROLE_LOG || name.stage != stages[i]) continue;
            if (find_file(work, name) != NULL) continue;
            status = mk_repair_files_fill_gaps(&work->files, work->vfs,
                                               work->root, name, start, err);
        }
    }
    return status;
}

/* Read what is there, and decide. `*ends_anew`: an empty segment has to begin
 * where the log ended. */
static mk_status decide(mk_repair_work *work, const mk_name_list *names,
                        bool *ambiguous, bool *ends_anew, mk_error *err)
{
    const mk_repair_file *last;
    mk_status status = load_state(work, err);

    *ends_anew = false;
    if (status == MK_OK) status = add_segments(work, names, ambiguous, err);
    if (status == MK_OK) mk_repair_files_drop_odd(&work->files);
    for (int round = 0; status == MK_OK && round < 2; round++) {
        status =
            mk_repair_files_decide(&work->files, work->vfs, work->root,
                                   durable_position(work), *ends_anew, err);
        if (status != MK_OK) return status;
        mk_repair_find_end(work);
        last = mk_repair_files_last(&work->files);
        *ends_anew =
            (last != NULL && last->fate == MK_FATE_REWRITE) ||
            (work->end_offset > work->files.end_offset && !work->end_is_told &&
             (last == NULL ||
              work->state.recovery_point.offset > work->files.end_offset));
        if (!*ends_anew) break; /* Else the last one is closed then. */
    }
    mk_repair_find_gaps(work);
    if (status == MK_OK &&
        (*ambiguous || is_changed(work) || work->lost_from >= 0)) {
        status = fill_gaps(work, names, *ambiguous, err);
        mk_repair_find_end(work);
    }
    if (status == MK_OK) status = check_all_indexes(work, *ends_anew, err);
    mk_repair_find_gaps(work);
    mk_repair_find_shortened(work);
    return status;
}

/* Has a file the name that an empty segment at the end will have? */
static bool is_end_taken(const mk_repair_work *work, const mk_name_list *names)
{
    for (size_t i = 0; i < names->count; i++) {
        mk_file_name name = mk_name_parse(names->names[i]);

        if (name.role == MK_ROLE_LOG && name.stage == MK_STAGE_FINAL &&
            name.offset == work->end_offset) {
            return true;
        }
    }
    return false;
}

/* The log's end is there before anything else is changed, unless the file with
 * that name has to be in the quarantine first. */
static mk_status plan_steps(mk_repair_work *work, const mk_name_list *names,
                            bool ends_anew, mk_error *err)
{
    bool taken = ends_anew && is_end_taken(work, names);
    mk_status status = MK_OK;

    if (work->ambiguous || work->moves) status = plan_directories(work, err);
    if (status == MK_OK) status = plan_note(work, err);
    if (status == MK_OK && ends_anew && !taken) status = plan_end(work, err);
    if (status == MK_OK) status = plan_moves(work, names, true, err);
    if (status == MK_OK && taken) status = plan_end(work, err);
    if (status == MK_OK) status = plan_segments(work, err);
    if (status == MK_OK) status = plan_moves(work, names, false, err);
    if (status == MK_OK) status = plan_state(work, ends_anew, err);
    return status;
}

mk_status mk_repair_plan_make(mk_repair_work *work, mk_error *err)
{
    bool ambiguous = false, ends_anew = false;
    mk_name_list names;
    mk_status status = mk_vfs_list(work->vfs, work->root, &names, err);

    if (status != MK_OK) return status;
    status = decide(work, &names, &ambiguous, &ends_anew, err);
    if (status == MK_OK &&
        (work->ambiguous || ambiguous || ends_anew || is_changed(work) ||
         work->state_is_bad || work->state_differs || work->lost_from >= 0)) {
        status = plan_steps(work, &names, ends_anew, err);
        snprintf(work->out->quarantine, sizeof work->out->quarantine,
                 "%.400s/%.64s", work->directory, work->quarantine);
    }
    mk_name_list_deinit(&names);
    return status;
}
