/* repair_work -- looking, locking, choosing. */
#include "log/repair_work.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#include "base/poison.h"

/* ---- Looking ---- */

static mk_status new_probe(mk_repair_work *work, const char *directory,
                           mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_log *probe = mk_alloc_zero(&work->env->heap, sizeof *probe);
    mk_status status;

    work->probe = probe;
    if (probe == NULL) return mk_fail_memory(err, sizeof *probe);
    probe->vfs = work->vfs;
    probe->heap = work->env->heap;
    probe->read_only = true;
    mk_config_default(&probe->config);
    status = mk_vfs_resolve(work->vfs, directory, path, sizeof path, err);
    if (status != MK_OK) return status;
    memcpy(work->directory, path, sizeof path);
    probe->place = mk_copy_string(&probe->heap, path);
    probe->directory = probe->place;
    return probe->place != NULL ? MK_OK : mk_fail_memory(err, sizeof path);
}

/* Take the lock of a directory. Who only plans makes no lock. */
static mk_status lock_tree(mk_repair_work *work, const mk_swap_tree *tree,
                           bool apply, mk_file **out, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    if (!mk_swap_tree_is_there(tree)) return MK_OK;
    status = mk_name_join(path, sizeof path, tree->path, MK_NAME_LOCK, err);
    if (status != MK_OK) return status;
    if (!apply) {
        status = mk_vfs_stat(work->vfs, path, &stat, err);
        if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    }
    status = mk_vfs_lock(work->vfs, path, work->env->holder, out, err);
    /* One may look at what one may not write to. */
    if (status == MK_IO && !apply &&
        (err->os_errno == EACCES || err->os_errno == EROFS)) {
        return MK_OK;
    }
    return status;
}

static mk_status lock_trees(mk_repair_work *work, bool apply, mk_error *err)
{
    const mk_swap_tree *trees[] = {&work->survey.live, &work->survey.fresh,
                                   &work->survey.old};

    for (int i = 0; i < 3; i++) {
        mk_status status =
            lock_tree(work, trees[i], apply, &work->locks[i], err);

        if (status != MK_OK) return status;
    }
    return MK_OK;
}

/* Find a name that no earlier repair has used. */
static mk_status name_quarantine(mk_repair_work *work, mk_error *err)
{
    for (int i = 1;; i++) {
        char path[MK_PATH_MAX];
        mk_file_stat stat;
        mk_status status;

        snprintf(work->quarantine, sizeof work->quarantine,
                 MK_NAME_QUARANTINE "%d", i);
        status =
            mk_name_join(path, sizeof path, work->root, work->quarantine, err);
        if (status == MK_OK) status = mk_vfs_stat(work->vfs, path, &stat, err);
        if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    }
}

static mk_status survey(mk_repair_work *work, bool apply, mk_error *err)
{
    mk_swap_survey before;
    mk_status status;

    status = mk_swap_survey_take(&work->survey, work->probe, err);
    if (status == MK_OK) status = lock_trees(work, apply, err);
    if (status != MK_OK) return status;
    /* Somebody may have been at it before the locks were taken. */
    before = work->survey;
    status = mk_swap_survey_take(&work->survey, work->probe, err);
    if (status == MK_OK && (before.live.inode != work->survey.live.inode ||
                            before.fresh.inode != work->survey.fresh.inode ||
                            before.old.inode != work->survey.old.inode)) {
        return mk_fail_at(err, MK_LOCKED, work->directory, -1,
                          "%s has changed while it was locked",
                          work->directory);
    }
    return status;
}

/* Which of the three is to be the log? What opening would take, if it can tell;
 * else a sound one, the log's own before the others; else one that holds a
 * log. */
static mk_swap_tree *choose_tree(mk_swap_survey *survey, bool *ambiguous)
{
    mk_swap_tree *trees[] = {&survey->live, &survey->old, &survey->fresh};
    mk_swap_decision decision = mk_swap_decide(survey);
    mk_swap_tree *best = trees[0];

    *ambiguous = decision.choice == MK_SWAP_FAIL;
    if (decision.choice == MK_SWAP_USE_OLD) return &survey->old;
    if (decision.choice == MK_SWAP_USE_NEW) return &survey->fresh;
    if (!*ambiguous) return best;
    for (int i = 1; i < 3; i++) {
        if (trees[i]->kind > best->kind) best = trees[i];
    }
    return best;
}

/* ---- Public functions ---- */

/* Use the tree from here on. */
static mk_status use_tree(mk_repair_work *work, mk_swap_tree *tree,
                          mk_error *err)
{
    const mk_swap_survey *survey = &work->survey;
    char *path = mk_copy_string(&work->env->heap, tree->path);

    if (path == NULL) return mk_fail_memory(err, sizeof tree->path);
    mk_release(&work->env->heap, work->probe->place);
    work->probe->directory = work->probe->place = path;
    work->chosen = tree;
    work->moves = tree != &survey->live;
    memcpy(work->root, tree->path, sizeof work->root);
    memcpy(work->spare,
           tree == &survey->old ? survey->fresh.path : survey->old.path,
           sizeof work->spare);
    return name_quarantine(work, err);
}

mk_status mk_repair_work_begin(mk_repair_work *work, mk_env *env,
                               const char *directory, bool apply,
                               mk_repair_plan *out, mk_error *err)
{
    mk_swap_tree *chosen;
    mk_status status;

    *work = (mk_repair_work){.env = env, .vfs = env->vfs, .out = out};
    work->lost_from = work->lost_to = -1;
    mk_repair_files_init(&work->files, &env->heap, &work->state);
    mk_state_init(&work->state, &env->heap);
    mk_state_init(&work->next, &env->heap);
    status = new_probe(work, directory, err);
    if (status == MK_OK) status = survey(work, apply, err);
    if (status != MK_OK) return status;
    chosen = choose_tree(&work->survey, &work->ambiguous);
    if (mk_swap_tree_is_there(chosen)) return use_tree(work, chosen, err);
    return mk_fail_errno(err,
                         chosen->kind == MK_TREE_MISSING ? ENOENT : ENOTDIR,
                         chosen->path, "cannot repair %s", directory);
}

mk_status mk_repair_work_add(mk_repair_work *work, mk_repair_action action,
                             size_t file, const char *path, const char *to,
                             mk_error *err, const char *format, ...)
{
    mk_repair_plan *plan = work->out;
    void *steps = plan->steps;
    void *of_step = work->of_step;
    mk_repair_step *step;
    va_list args;
    mk_status status = mk_grow(&plan->heap, &steps, &plan->capacity,
                               plan->count + 1, sizeof *plan->steps, err);

    plan->steps = steps;
    if (status != MK_OK) return status;
    status = mk_grow(&plan->heap, &of_step, &work->of_step_capacity,
                     plan->count + 1, sizeof *work->of_step, err);
    work->of_step = of_step;
    if (status != MK_OK) return status;
    work->of_step[plan->count] = file;
    step = &plan->steps[plan->count++];
    *step = (mk_repair_step){.action = action, .lost_from = -1, .lost_to = -1};
    snprintf(step->path, sizeof step->path, "%s", path);
    snprintf(step->to, sizeof step->to, "%s", to);
    va_start(args, format);
    vsnprintf(step->reason, sizeof step->reason, format, args);
    va_end(args);
    return MK_OK;
}

mk_status mk_repair_work_find_missing(mk_repair_work *work,
                                      const mk_leftovers *plan, mk_error *err)
{
    mk_evidence evidence = {
        .log = work->probe, .state = work->state, .broker = -1};
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && work->state.log_start_offset >= 0 &&
                       !work->missing && i < work->state.facts_count;
         i++) {
        mk_file_name ignored;

        status = mk_evidence_is_missing(&evidence, &work->state.facts[i], plan,
                                        &work->missing, &ignored, err);
    }
    work->revives = work->missing && plan->proof.verdict != MK_VERDICT_FORWARD;
    return status;
}

bool mk_repair_work_covers(const mk_repair_work *work,
                           const mk_segment_facts *facts)
{
    for (size_t i = 0; i < work->files.count; i++) {
        const mk_repair_file *file = &work->files.array[i];

        if (file->fate != MK_FATE_DROP &&
            file->base_offset < facts->next_offset &&
            facts->base_offset < file->next_offset) {
            return true;
        }
    }
    return false;
}

void mk_repair_work_deinit(mk_repair_work *work)
{
    mk_log *probe = work->probe;
    mk_heap heap;

    for (int i = 0; i < 3; i++) {
        (void)mk_file_close(work->locks[i], NULL); /* Nothing was written. */
    }
    mk_repair_files_deinit(&work->files);
    mk_state_deinit(&work->state);
    mk_state_deinit(&work->next);
    mk_release(&work->env->heap, work->of_step);
    if (probe == NULL) return;
    heap = probe->heap;
    for (size_t i = 0; i < probe->segment_count; i++) {
        mk_segment_free(probe->segments[i]);
    }
    mk_release(&heap, probe->segments);
    mk_release(&heap, probe->place);
    mk_release(&heap, probe);
}
