/* leftovers -- ending a swap of segments that was cut short, or undoing it. */
#include "log/leftovers.h"

#include "base/check.h"
#include "store/segment.h"
#include "store/staged_file.h"

#include "base/poison.h"

/* What was rewritten: the range of a swap and of whatever else stands there,
 * from the segment on that may have taken that in, up to the one after it. */
static void find_rewritten(mk_leftovers *plan)
{
    const mk_swap_proof *proof = &plan->proof;
    int64_t from = INT64_MAX, to = proof->end, before = -1;

    if (proof->note != NULL) from = proof->first;
    for (size_t i = 0; i < proof->file_count; i++) {
        mk_file_name file = proof->files[i];

        if (file.stage == MK_STAGE_FINAL) continue;
        if (!mk_role_is_of_segment(file.role)) continue;
        if (file.offset < from) from = file.offset;
        if (file.offset >= to) to = file.offset + 1;
    }
    for (size_t i = 0; i < proof->file_count; i++) {
        mk_file_name file = proof->files[i];

        if (file.role != MK_ROLE_LOG || file.stage != MK_STAGE_FINAL) continue;
        if (file.offset <= from) before = file.offset;
        if (file.offset < to) continue;
        to = file.offset;
        break;
    }
    if (from == INT64_MAX) return;
    plan->rewritten = (mk_rewritten){before >= 0 ? before : from, to};
}

/* ---- Steps ---- */

static mk_status add_step(mk_leftovers *plan, mk_leftovers_step step,
                          mk_error *err)
{
    void *array = plan->steps;
    mk_status status = mk_grow(plan->heap, &array, &plan->step_capacity,
                               plan->step_count + 1, sizeof *plan->steps, err);

    plan->steps = array;
    if (status == MK_OK) plan->steps[plan->step_count++] = step;
    return status;
}

mk_status mk_leftovers_add_sync(mk_leftovers *plan, mk_sync_name sync,
                                mk_error *err)
{
    return add_step(
        plan, (mk_leftovers_step){.action = MK_LEFTOVERS_SYNC, .sync = sync},
        err);
}

/* Which files a step is about. */
typedef bool (*file_test)(const mk_leftovers *plan, mk_file_name file);

/* Add a step for each file that passes; with RENAME, to the stage `to`. A sync
 * follows if there were any. */
static mk_status add_steps(mk_leftovers *plan, mk_leftovers_action action,
                           mk_file_stage to, file_test test,
                           const mk_sync_name *sync, mk_error *err)
{
    size_t before = plan->step_count;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < plan->proof.file_count; i++) {
        mk_leftovers_step step = {action, plan->proof.files[i], to, 0};

        if (test(plan, step.file)) status = add_step(plan, step, err);
    }
    if (status == MK_OK && sync != NULL && plan->step_count > before) {
        status = mk_leftovers_add_sync(plan, *sync, err);
    }
    return status;
}

static bool is_stage(mk_file_name file, mk_file_stage stage)
{
    return mk_role_is_of_segment(file.role) && file.stage == stage;
}

static bool is_swap(const mk_leftovers *plan, mk_file_name file)
{
    (void)plan;
    return is_stage(file, MK_STAGE_SWAP);
}

static bool is_cleaned(const mk_leftovers *plan, mk_file_name file)
{
    (void)plan;
    return is_stage(file, MK_STAGE_CLEANED);
}

/* The old file of a name that an output will not take. */
static bool is_superseded(const mk_leftovers *plan, mk_file_name file)
{
    const mk_swap_proof *proof = &plan->proof;

    return proof->verdict == MK_VERDICT_FORWARD &&
           file.stage == MK_STAGE_FINAL &&
           mk_swap_proof_is_replaced(proof, file.role, file.offset) &&
           !mk_swap_proof_has(proof, file.role, MK_STAGE_SWAP, file.offset) &&
           !mk_swap_proof_has(proof, file.role, MK_STAGE_CLEANED, file.offset);
}

/* What is `.cleaned` once all `.swap` files have been renamed to that. */
static bool is_undone(const mk_leftovers *plan, mk_file_name file)
{
    if (is_swap(plan, file)) return true;
    return is_cleaned(plan, file) &&
           !mk_swap_proof_has(&plan->proof, file.role, MK_STAGE_SWAP,
                              file.offset);
}

/* What is `.deleted` once all that is superseded has been renamed to that. */
static bool is_deleted_or_superseded(const mk_leftovers *plan,
                                     mk_file_name file)
{
    if (is_superseded(plan, file)) return true;
    if (file.stage != MK_STAGE_DELETED) return false;
    return !mk_swap_proof_has(&plan->proof, file.role, MK_STAGE_FINAL,
                              file.offset) ||
           !is_superseded(
               plan, (mk_file_name){file.role, MK_STAGE_FINAL, file.offset});
}

/* The output's log comes before its indexes, as Kafka has it. */
static bool is_output_log(const mk_leftovers *plan, mk_file_name file)
{
    return file.role == MK_ROLE_LOG &&
           (is_swap(plan, file) || is_cleaned(plan, file));
}

size_t mk_leftovers_count_below(const mk_leftovers *plan, int64_t offset)
{
    size_t low = 0, high = plan->segment_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (plan->segments[middle].base_offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_found(const mk_leftovers *plan, int64_t base_offset)
{
    size_t i = mk_leftovers_count_below(plan, base_offset);

    return i < plan->segment_count &&
           plan->segments[i].base_offset == base_offset;
}

/* A `.cleaned` index whose log has its final name already, or that stands there
 * as `.swap`, too. */
static bool is_late(const mk_leftovers *plan, mk_file_name file)
{
    const mk_swap_proof *proof = &plan->proof;

    if (!mk_role_is_index(file.role) || !is_cleaned(plan, file)) return false;
    return !mk_swap_proof_has_output(proof, file.offset) ||
           mk_swap_proof_has(proof, file.role, MK_STAGE_SWAP, file.offset);
}

static bool is_output_index(const mk_leftovers *plan, mk_file_name file)
{
    if (!mk_role_is_index(file.role)) return false;
    if (!is_found(plan, file.offset)) return false;
    return is_swap(plan, file) ||
           (is_cleaned(plan, file) && !is_late(plan, file));
}

/* What no segment needs. */
static bool is_orphan(const mk_leftovers *plan, mk_file_name file)
{
    if (!mk_role_is_index(file.role)) return false;
    if (is_found(plan, file.offset)) return false;
    if (file.stage == MK_STAGE_FINAL) return !is_superseded(plan, file);
    return file.stage == MK_STAGE_SWAP &&
           plan->proof.verdict != MK_VERDICT_BACK;
}

/* A `.cleaned` file of an output. */
static bool is_output_part(const mk_leftovers *plan, mk_file_name file)
{
    return is_cleaned(plan, file) && !is_late(plan, file);
}

/* As long as one of them is `.cleaned`, Kafka takes none of them for complete.
 */
static mk_status undo(mk_leftovers *plan, mk_error *err)
{
    const mk_sync_name sync = MK_SYNC_SEGMENTS_UNDONE;
    mk_status status = add_steps(plan, MK_LEFTOVERS_RENAME, MK_STAGE_CLEANED,
                                 is_swap, &sync, err);
    size_t renamed = plan->step_count;

    if (status == MK_OK) {
        status = add_steps(plan, MK_LEFTOVERS_UNLINK, 0, is_undone, NULL, err);
    }
    for (size_t i = renamed; i < plan->step_count; i++) {
        plan->steps[i].file.stage = MK_STAGE_CLEANED;
    }
    return status;
}

/* Rename the outputs to their final names. */
static mk_status name_outputs(mk_leftovers *plan, mk_error *err)
{
    const mk_sync_name done = MK_SYNC_SEGMENTS_DONE;
    size_t before = plan->step_count;
    mk_status status;

    status = add_steps(plan, MK_LEFTOVERS_RENAME, MK_STAGE_FINAL, is_output_log,
                       NULL, err);
    if (status == MK_OK) {
        status = add_steps(plan, MK_LEFTOVERS_RENAME, MK_STAGE_FINAL,
                           is_output_index, NULL, err);
    }
    for (size_t i = before; i < plan->step_count; i++) {
        /* They were renamed to this first. */
        plan->steps[i].file.stage = MK_STAGE_SWAP;
    }
    if (status != MK_OK || plan->step_count == before) return status;
    return mk_leftovers_add_sync(plan, done, err);
}

static mk_status end_swap(mk_leftovers *plan, mk_error *err)
{
    const mk_sync_name complete = MK_SYNC_SEGMENTS_SWAP;
    const mk_sync_name gone = MK_SYNC_SEGMENTS_GONE;
    mk_status status =
        add_steps(plan, MK_LEFTOVERS_UNLINK, 0, is_late, NULL, err);

    if (status == MK_OK && plan->proof.output_count > 0) {
        status = add_steps(plan, MK_LEFTOVERS_RENAME, MK_STAGE_SWAP,
                           is_output_part, NULL, err);
        /* Also names that an owner gave who died before they were stable. */
        if (status == MK_OK) {
            status = mk_leftovers_add_sync(plan, complete, err);
        }
    }
    if (status == MK_OK) {
        status = add_steps(plan, MK_LEFTOVERS_RENAME, MK_STAGE_DELETED,
                           is_superseded, &gone, err);
    }
    return status == MK_OK ? name_outputs(plan, err) : status;
}

static mk_status add_segment(mk_leftovers *plan, int64_t base_offset,
                             mk_file_stage stage, mk_error *err)
{
    void *array = plan->segments;
    mk_status status =
        mk_grow(plan->heap, &array, &plan->segment_capacity,
                plan->segment_count + 1, sizeof *plan->segments, err);

    plan->segments = array;
    if (status != MK_OK) return status;
    plan->segments[plan->segment_count++] =
        (mk_found_segment){base_offset, stage};
    return MK_OK;
}

/* Which segments make the log, by the verdict? */
static mk_status find_segments(mk_leftovers *plan, mk_error *err)
{
    bool forward = plan->proof.verdict == MK_VERDICT_FORWARD;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < plan->proof.file_count; i++) {
        mk_file_name file = plan->proof.files[i];

        if (file.role != MK_ROLE_LOG || file.stage == MK_STAGE_DELETED) {
            continue;
        }
        if (file.stage == MK_STAGE_FINAL) {
            if (is_superseded(plan, file)) continue;
            if (forward &&
                mk_swap_proof_has_output(&plan->proof, file.offset)) {
                continue;
            }
        } else if (!forward) {
            continue;
        }
        status = add_segment(plan, file.offset, file.stage, err);
    }
    return status;
}

/* What is `.deleted` goes last: until then it tells that a source was there. */
static mk_status unlink_deleted(mk_leftovers *plan, mk_error *err)
{
    size_t before = plan->step_count;
    mk_status status = add_steps(plan, MK_LEFTOVERS_UNLINK, 0,
                                 is_deleted_or_superseded, NULL, err);

    for (size_t i = before; i < plan->step_count; i++) {
        plan->steps[i].file.stage = MK_STAGE_DELETED;
    }
    return status;
}

static mk_status plan_steps(mk_leftovers *plan, mk_error *err)
{
    mk_verdict verdict = plan->proof.verdict;
    mk_status status = find_segments(plan, err);

    if (status != MK_OK || verdict == MK_VERDICT_AMBIGUOUS) return status;
    status = verdict == MK_VERDICT_BACK ? undo(plan, err) : end_swap(plan, err);
    if (status == MK_OK) status = unlink_deleted(plan, err);
    if (status != MK_OK) return status;
    return add_steps(plan, MK_LEFTOVERS_UNLINK, 0, is_orphan, NULL, err);
}

/* ---- Public functions ---- */

mk_status mk_leftovers_plan(mk_leftovers *plan, const mk_heap *heap,
                            const mk_name_list *names,
                            const mk_rewrite_note *note, mk_log_eye eye,
                            mk_error *err)
{
    mk_status status;

    *plan = (mk_leftovers){.heap = heap};
    status = mk_swap_proof_gather(&plan->proof, heap, names, note, eye, err);
    if (status != MK_OK) return status;
    find_rewritten(plan);
    return plan_steps(plan, err);
}

void mk_leftovers_deinit(mk_leftovers *plan)
{
    mk_swap_proof_deinit(&plan->proof);
    mk_release(plan->heap, plan->steps);
    mk_release(plan->heap, plan->segments);
    *plan = (mk_leftovers){.heap = plan->heap};
}

mk_status mk_leftovers_add_drop(mk_leftovers *plan, int64_t base_offset,
                                mk_error *err)
{
    return add_step(plan,
                    (mk_leftovers_step){.action = MK_LEFTOVERS_DROP,
                                        .file = {.offset = base_offset}},
                    err);
}

static mk_status run_step(const mk_leftovers_step *step, mk_vfs *vfs,
                          const char *directory, mk_error *err)
{
    switch (step->action) {
    case MK_LEFTOVERS_SYNC:
        return mk_vfs_sync_directory(vfs, directory, step->sync, err);
    case MK_LEFTOVERS_UNLINK:
        return mk_staged_file_unlink(vfs, directory, step->file, err);
    case MK_LEFTOVERS_DROP:
        return mk_segment_unlink(vfs, directory, step->file.offset, err);
    case MK_LEFTOVERS_RENAME:
        break;
    }
    return mk_staged_file_rename(vfs, directory, step->file, step->to, err);
}

bool mk_leftovers_made_gaps(const mk_leftovers *plan)
{
    const mk_swap_proof *proof = &plan->proof;

    return proof->verdict == MK_VERDICT_FORWARD ||
           (proof->verdict == MK_VERDICT_NONE && proof->swap);
}

bool mk_leftovers_can_wait(const mk_leftovers *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const mk_leftovers_step *step = &plan->steps[i];

        if (step->action != MK_LEFTOVERS_RENAME) continue;
        if (step->to == MK_STAGE_FINAL || step->to == MK_STAGE_DELETED) {
            return false;
        }
    }
    return true;
}

mk_status mk_leftovers_run(const mk_leftovers *plan, mk_vfs *vfs,
                           const char *directory, mk_error *err)
{
    mk_status status = MK_OK;

    MK_ASSERT(plan->proof.verdict != MK_VERDICT_AMBIGUOUS);
    for (size_t i = 0; status == MK_OK && i < plan->step_count; i++) {
        status = run_step(&plan->steps[i], vfs, directory, err);
    }
    return status;
}

/* What is told of a log by its stage. */
static const char *stage_text(mk_file_stage stage)
{
    switch (stage) {
    case MK_STAGE_DELETED:
        return "a source that was given up";
    case MK_STAGE_CLEANED:
        return "rewritten, perhaps in part";
    case MK_STAGE_SWAP:
        return "rewritten";
    case MK_STAGE_FINAL:
        break;
    }
    return "a segment";
}

mk_status mk_leftovers_fail(const mk_leftovers *plan, const char *directory,
                            mk_error *err)
{
    mk_status status =
        mk_fail_at(err, MK_SWAP_AMBIGUOUS, directory, -1,
                   "%s has the remains of a swap of segments, of which neither "
                   "the old nor the new ones can be proved to be complete",
                   directory);

    for (size_t i = 0; i < plan->proof.file_count; i++) {
        mk_file_name file = plan->proof.files[i];
        char path[MK_PATH_MAX];

        if (file.role != MK_ROLE_LOG || file.stage == MK_STAGE_FINAL) continue;
        if (mk_name_file(path, sizeof path, directory, file, NULL) == MK_OK) {
            mk_error_add_found(err, path, stage_text(file.stage), NULL);
        }
    }
    return status;
}
