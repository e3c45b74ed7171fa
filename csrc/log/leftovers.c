/* leftovers -- ending a swap of segments that was cut short, or undoing it. */
#include "log/leftovers.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

#include "base/poison.h"

/* A rewritten segment that has not its final name yet. */
typedef struct output {
    int64_t base_offset;
    mk_file_stage stage;
    int64_t next_offset;
} output;

typedef struct planner {
    mk_leftovers *plan;
    mk_log_eye eye;
    output *outputs; /* Owned; ascending. */
    size_t output_count;
    size_t output_capacity;
    int64_t first; /* The outputs' range, */
    int64_t end;   /* ... as far as they are sound. */
    bool cleaned;  /* There are `.cleaned` files of any kind, */
    bool swap;     /* ... and `.swap` files. */
    bool whole;    /* All outputs are sound. */
    bool twice;    /* An output stands there under both names. */
} planner;

/* ---- Files ---- */

static bool is_index(mk_file_role role)
{
    return role == MK_ROLE_OFFSET_INDEX || role == MK_ROLE_TIME_INDEX ||
           role == MK_ROLE_TXN_INDEX;
}

static bool is_of_segment(mk_file_name name)
{
    return name.role == MK_ROLE_LOG || is_index(name.role);
}

static mk_status add_file(mk_leftovers *plan, mk_file_name name, mk_error *err)
{
    void *array = plan->files;
    mk_status status = mk_grow(plan->heap, &array, &plan->file_capacity,
                               plan->file_count + 1, sizeof *plan->files, err);

    plan->files = array;
    if (status == MK_OK) plan->files[plan->file_count++] = name;
    return status;
}

/* Note the files that this is about. Sorted names are sorted offsets. */
static mk_status note_files(planner *p, const mk_name_list *names,
                            mk_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        mk_file_name name = mk_name_parse(names->names[i]);
        mk_status status;

        if (!is_of_segment(name) && name.role != MK_ROLE_SNAPSHOT) continue;
        if (names->kinds[i] != MK_KIND_FILE) continue;
        if (is_of_segment(name)) {
            p->cleaned |= name.stage == MK_STAGE_CLEANED;
            p->swap |= name.stage == MK_STAGE_SWAP;
        }
        status = add_file(p->plan, name, err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

/* Return the number of the first file with an offset at or behind `offset`. */
static size_t find_offset(const mk_leftovers *plan, int64_t offset)
{
    size_t low = 0, high = plan->file_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (plan->files[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has_file(const mk_leftovers *plan, mk_file_role role,
                     mk_file_stage stage, int64_t offset)
{
    for (size_t i = find_offset(plan, offset);
         i < plan->file_count && plan->files[i].offset == offset; i++) {
        if (plan->files[i].role == role && plan->files[i].stage == stage) {
            return true;
        }
    }
    return false;
}

/* Give the base of the last segment that begins at or before `offset`; false if
 * there is none. */
static bool find_final(const mk_leftovers *plan, int64_t offset, int64_t *out)
{
    size_t i =
        offset == INT64_MAX ? plan->file_count : find_offset(plan, offset + 1);

    while (i-- > 0) {
        if (plan->files[i].role == MK_ROLE_LOG &&
            plan->files[i].stage == MK_STAGE_FINAL) {
            *out = plan->files[i].offset;
            return true;
        }
    }
    return false;
}

/* ---- Outputs ---- */

static mk_status look(planner *p, int64_t base_offset, mk_file_stage stage,
                      mk_log_look *out, mk_error *err)
{
    return p->eye.look(p->eye.context, base_offset, stage, out, err);
}

static mk_status add_output(planner *p, mk_file_name file, mk_error *err)
{
    void *array = p->outputs;
    mk_log_look found = {0};
    mk_status status = mk_grow(p->plan->heap, &array, &p->output_capacity,
                               p->output_count + 1, sizeof *p->outputs, err);

    p->outputs = array;
    if (status == MK_OK) {
        status = look(p, file.offset, file.stage, &found, err);
    }
    if (status != MK_OK) return status;
    p->outputs[p->output_count++] =
        (output){file.offset, file.stage, found.next_offset};
    if (!found.whole) p->whole = false;
    if (found.next_offset > p->end) p->end = found.next_offset;
    return MK_OK;
}

static mk_status find_outputs(planner *p, mk_error *err)
{
    p->whole = true;
    for (size_t i = 0; i < p->plan->file_count; i++) {
        mk_file_name file = p->plan->files[i];
        mk_status status;

        if (file.role != MK_ROLE_LOG) continue;
        if (file.stage != MK_STAGE_CLEANED && file.stage != MK_STAGE_SWAP) {
            continue;
        }
        if (p->output_count > 0 &&
            p->outputs[p->output_count - 1].base_offset == file.offset) {
            p->twice = true;
        }
        status = add_output(p, file, err);
        if (status != MK_OK) return status;
    }
    if (p->output_count > 0) p->first = p->outputs[0].base_offset;
    return MK_OK;
}

static const output *find_output(const planner *p, int64_t base_offset)
{
    for (size_t i = 0; i < p->output_count; i++) {
        if (p->outputs[i].base_offset == base_offset) return &p->outputs[i];
    }
    return NULL;
}

/* Is a segment at `offset` one of those that the outputs stand for? */
static bool is_replaced(const planner *p, int64_t offset)
{
    if (p->output_count == 0) return false;
    if (offset >= p->first && offset < p->end) return true;
    return find_output(p, offset) != NULL;
}

/* Where the outputs end, compared with their last source. */
typedef enum fit {
    FITS,
    FITS_SHORT, /* The end of the log would be lost. */
    FITS_LONG,  /* One of the two is not what it was. */
} fit;

/* Outputs end within their sources; with them where these are the end of the
 * log, which swaps leave alone unless they split it. (No checksum covers the
 * offset of a batch.) */
static mk_status fit_sources(planner *p, fit *out, mk_error *err)
{
    int64_t last = -1, source = -1;
    mk_log_look found = {0};
    mk_status status;

    *out = FITS;
    for (size_t i = 0; i < p->plan->file_count; i++) {
        mk_file_name file = p->plan->files[i];

        if (file.role != MK_ROLE_LOG) continue;
        if (file.stage == MK_STAGE_FINAL) {
            last = file.offset;
            if (is_replaced(p, file.offset)) source = file.offset;
        } else if (file.stage == MK_STAGE_DELETED && file.offset < p->end) {
            source = -1; /* There may have been one behind. */
        }
    }
    if (source < 0) return MK_OK;
    status = look(p, source, MK_STAGE_FINAL, &found, err);
    if (status != MK_OK || found.next_offset == source) return status;
    if (found.next_offset < p->end) *out = FITS_LONG;
    if (found.next_offset > p->end && source == last) *out = FITS_SHORT;
    return MK_OK;
}

/* Has no segment the range in which this removed one began? */
static mk_status is_uncovered(planner *p, int64_t offset, bool *out,
                              mk_error *err)
{
    int64_t base_offset;
    mk_log_look found;
    mk_status status;

    *out = true;
    if (!find_final(p->plan, offset, &base_offset)) return MK_OK;
    *out = false;
    if (base_offset == offset) return MK_OK;
    status = look(p, base_offset, MK_STAGE_FINAL, &found, err);
    *out = status == MK_OK && found.next_offset <= offset;
    return status;
}

/* Did a source go already? */
static mk_status is_begun(planner *p, bool *out, mk_error *err)
{
    mk_leftovers *plan = p->plan;

    *out = p->swap && !has_file(plan, MK_ROLE_LOG, MK_STAGE_FINAL, p->first);
    for (size_t i = 0; !*out && i < plan->file_count; i++) {
        mk_file_name file = plan->files[i];
        mk_status status;

        if (file.role != MK_ROLE_LOG || file.stage != MK_STAGE_DELETED) {
            continue;
        }
        if (file.offset < p->first) continue;
        if (file.offset > p->first && file.offset >= p->end) continue;
        status = is_uncovered(p, file.offset, out, err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

static mk_status decide(planner *p, mk_error *err)
{
    mk_leftovers_verdict *verdict = &p->plan->verdict;
    fit end = FITS;
    bool begun = false, forward;
    mk_status status = find_outputs(p, err);

    if (status != MK_OK || p->output_count == 0) return status;
    status = is_begun(p, &begun, err);
    forward = p->swap && (begun || !p->cleaned) && p->whole && !p->twice;
    if (status == MK_OK && forward) status = fit_sources(p, &end, err);
    if (status != MK_OK) return status;
    *verdict = begun ? MK_LEFTOVERS_AMBIGUOUS : MK_LEFTOVERS_BACK;
    if (forward && end == FITS) *verdict = MK_LEFTOVERS_FORWARD;
    if (forward && end == FITS_LONG) *verdict = MK_LEFTOVERS_AMBIGUOUS;
    return MK_OK;
}

/* Widen the range of what was rewritten by what stands there. */
static void find_rewritten(planner *p)
{
    mk_rewritten *range = &p->plan->rewritten;

    *range = (mk_rewritten){INT64_MAX, p->end};
    for (size_t i = 0; i < p->plan->file_count; i++) {
        mk_file_name file = p->plan->files[i];

        if (file.stage == MK_STAGE_FINAL || !is_of_segment(file)) continue;
        if (file.offset < range->from) range->from = file.offset;
        if (file.offset >= range->to) range->to = file.offset + 1;
    }
}

/* ---- Steps ---- */

static mk_status add_step(planner *p, mk_leftovers_step step, mk_error *err)
{
    mk_leftovers *plan = p->plan;
    void *array = plan->steps;
    mk_status status = mk_grow(plan->heap, &array, &plan->step_capacity,
                               plan->step_count + 1, sizeof *plan->steps, err);

    plan->steps = array;
    if (status == MK_OK) plan->steps[plan->step_count++] = step;
    return status;
}

static mk_status add_sync(planner *p, mk_sync_name sync, mk_error *err)
{
    return add_step(
        p, (mk_leftovers_step){.action = MK_LEFTOVERS_SYNC, .sync = sync}, err);
}

/* Which files a step is about. */
typedef bool (*file_test)(const planner *p, mk_file_name file);

/* Add a step for each file that passes; with RENAME, to the stage `to`. A sync
 * follows if there were any. */
static mk_status add_steps(planner *p, mk_leftovers_action action,
                           mk_file_stage to, file_test test,
                           const mk_sync_name *sync, mk_error *err)
{
    mk_leftovers *plan = p->plan;
    size_t before = plan->step_count;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < plan->file_count; i++) {
        mk_leftovers_step step = {action, plan->files[i], to, 0};

        if (test(p, step.file)) status = add_step(p, step, err);
    }
    if (status == MK_OK && sync != NULL && plan->step_count > before) {
        status = add_sync(p, *sync, err);
    }
    return status;
}

static bool is_stage(mk_file_name file, mk_file_stage stage)
{
    return is_of_segment(file) && file.stage == stage;
}

static bool is_swap(const planner *p, mk_file_name file)
{
    (void)p;
    return is_stage(file, MK_STAGE_SWAP);
}

static bool is_cleaned(const planner *p, mk_file_name file)
{
    (void)p;
    return is_stage(file, MK_STAGE_CLEANED);
}

static bool is_deleted(const planner *p, mk_file_name file)
{
    (void)p;
    return file.stage == MK_STAGE_DELETED;
}

/* The old file of a name that an output will not take. */
static bool is_superseded(const planner *p, mk_file_name file)
{
    if (file.role == MK_ROLE_SNAPSHOT && file.offset >= p->end) return false;
    return file.stage == MK_STAGE_FINAL && is_replaced(p, file.offset) &&
           !has_file(p->plan, file.role, MK_STAGE_SWAP, file.offset) &&
           !has_file(p->plan, file.role, MK_STAGE_CLEANED, file.offset);
}

/* The output's log comes before its indexes, as Kafka has it. */
static bool is_output_log(const planner *p, mk_file_name file)
{
    return file.role == MK_ROLE_LOG &&
           (is_swap(p, file) || is_cleaned(p, file));
}

static bool is_found(const mk_leftovers *plan, int64_t base_offset)
{
    size_t low = 0, high = plan->segment_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (plan->segments[middle].base_offset < base_offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < plan->segment_count &&
           plan->segments[low].base_offset == base_offset;
}

static bool is_output_index(const planner *p, mk_file_name file)
{
    if (!is_index(file.role) || !is_found(p->plan, file.offset)) return false;
    return is_swap(p, file) ||
           (is_cleaned(p, file) && find_output(p, file.offset) != NULL);
}

/* What no segment needs. */
static bool is_orphan(const planner *p, mk_file_name file)
{
    if (!is_index(file.role) || is_found(p->plan, file.offset)) return false;
    if (file.stage == MK_STAGE_FINAL) return !is_superseded(p, file);
    return file.stage == MK_STAGE_SWAP;
}

/* A `.cleaned` index whose log has its final name already. */
static bool is_late(const planner *p, mk_file_name file)
{
    return is_index(file.role) && is_cleaned(p, file) &&
           find_output(p, file.offset) == NULL;
}

static mk_status undo(planner *p, mk_error *err)
{
    const mk_sync_name sync = MK_SYNC_SEGMENTS_UNDONE;
    mk_status status =
        add_steps(p, MK_LEFTOVERS_UNLINK, 0, is_swap, &sync, err);

    if (status != MK_OK) return status;
    return add_steps(p, MK_LEFTOVERS_UNLINK, 0, is_cleaned, NULL, err);
}

/* Rename the outputs to their final names. */
static mk_status name_outputs(planner *p, mk_error *err)
{
    const mk_sync_name sync = MK_SYNC_SEGMENTS_DONE;
    size_t before = p->plan->step_count;
    mk_status status;

    status = add_steps(p, MK_LEFTOVERS_RENAME, MK_STAGE_FINAL, is_output_log,
                       NULL, err);
    if (status == MK_OK) {
        status = add_steps(p, MK_LEFTOVERS_RENAME, MK_STAGE_FINAL,
                           is_output_index, NULL, err);
    }
    for (size_t i = before; i < p->plan->step_count; i++) {
        /* They were renamed to this first. */
        p->plan->steps[i].file.stage = MK_STAGE_SWAP;
    }
    if (status != MK_OK || p->plan->step_count == before) return status;
    return add_sync(p, sync, err);
}

static mk_status end_swap(planner *p, mk_error *err)
{
    const mk_sync_name complete = MK_SYNC_SEGMENTS_SWAP;
    const mk_sync_name gone = MK_SYNC_SEGMENTS_GONE;
    mk_status status = add_steps(p, MK_LEFTOVERS_UNLINK, 0, is_late, NULL, err);

    if (status == MK_OK && p->output_count > 0) {
        status = add_steps(p, MK_LEFTOVERS_RENAME, MK_STAGE_SWAP, is_cleaned,
                           &complete, err);
    }
    if (status == MK_OK) {
        status =
            add_steps(p, MK_LEFTOVERS_UNLINK, 0, is_superseded, &gone, err);
    }
    return status == MK_OK ? name_outputs(p, err) : status;
}

static mk_status add_segment(planner *p, int64_t base_offset,
                             mk_file_stage stage, mk_error *err)
{
    mk_leftovers *plan = p->plan;
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
static mk_status find_segments(planner *p, mk_error *err)
{
    bool forward = p->plan->verdict == MK_LEFTOVERS_FORWARD;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < p->plan->file_count; i++) {
        mk_file_name file = p->plan->files[i];

        if (file.role != MK_ROLE_LOG || file.stage == MK_STAGE_DELETED) {
            continue;
        }
        if (file.stage == MK_STAGE_FINAL) {
            if (forward && is_replaced(p, file.offset)) continue;
        } else if (!forward) {
            continue;
        }
        status = add_segment(p, file.offset, file.stage, err);
    }
    return status;
}

static mk_status plan_steps(planner *p, mk_error *err)
{
    mk_leftovers_verdict verdict = p->plan->verdict;
    mk_status status = find_segments(p, err);

    if (status != MK_OK || verdict == MK_LEFTOVERS_AMBIGUOUS) return status;
    status = verdict == MK_LEFTOVERS_BACK ? undo(p, err) : end_swap(p, err);
    if (status == MK_OK) {
        status = add_steps(p, MK_LEFTOVERS_UNLINK, 0, is_deleted, NULL, err);
    }
    if (status != MK_OK) return status;
    return add_steps(p, MK_LEFTOVERS_UNLINK, 0, is_orphan, NULL, err);
}

/* ---- Public functions ---- */

mk_status mk_leftovers_plan(mk_leftovers *plan, const mk_heap *heap,
                            const mk_name_list *names, mk_log_eye eye,
                            mk_error *err)
{
    planner p = {.plan = plan, .eye = eye};
    mk_status status;

    *plan = (mk_leftovers){.heap = heap};
    status = note_files(&p, names, err);
    if (status == MK_OK) status = decide(&p, err);
    find_rewritten(&p);
    if (status == MK_OK) status = plan_steps(&p, err);
    mk_release(heap, p.outputs);
    return status;
}

void mk_leftovers_deinit(mk_leftovers *plan)
{
    mk_release(plan->heap, plan->files);
    mk_release(plan->heap, plan->steps);
    mk_release(plan->heap, plan->segments);
    *plan = (mk_leftovers){.heap = plan->heap};
}

static mk_status run_step(const mk_leftovers_step *step, mk_vfs *vfs,
                          const char *directory, mk_error *err)
{
    char path[MK_PATH_MAX];
    char to[MK_PATH_MAX];
    mk_file_name target = step->file;
    mk_status status;

    if (step->action == MK_LEFTOVERS_SYNC) {
        return mk_vfs_sync_directory(vfs, directory, step->sync, err);
    }
    status = mk_name_file(path, sizeof path, directory, step->file, err);
    if (status != MK_OK) return status;
    if (step->action == MK_LEFTOVERS_UNLINK) {
        return mk_vfs_unlink(vfs, path, err);
    }
    target.stage = step->to;
    status = mk_name_file(to, sizeof to, directory, target, err);
    return status == MK_OK ? mk_vfs_rename(vfs, path, to, err) : status;
}

mk_status mk_leftovers_run(const mk_leftovers *plan, mk_vfs *vfs,
                           const char *directory, mk_error *err)
{
    mk_status status = MK_OK;

    MK_ASSERT(plan->verdict != MK_LEFTOVERS_AMBIGUOUS);
    for (size_t i = 0; status == MK_OK && i < plan->step_count; i++) {
        status = run_step(&plan->steps[i], vfs, directory, err);
    }
    return status;
}

mk_status mk_leftovers_fail(const mk_leftovers *plan, const char *directory,
                            mk_error *err)
{
    char found[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < plan->file_count; i++) {
        char name[64];

        if (plan->files[i].role != MK_ROLE_LOG) continue;
        if (plan->files[i].stage == MK_STAGE_FINAL) continue;
        mk_name_write(name, sizeof name, plan->files[i]);
        if (used + strlen(name) + 8 >= sizeof found) {
            snprintf(found + used, sizeof found - used, " ...");
            break;
        }
        used += (size_t)snprintf(found + used, sizeof found - used, "%s%s",
                                 used > 0 ? " " : "", name);
    }
    return mk_fail_at(err, MK_SWAP_AMBIGUOUS, directory, -1,
                      "%s has the remains of a swap of segments in which "
                      "neither the old nor the new ones are complete: %s",
                      directory, found);
}
