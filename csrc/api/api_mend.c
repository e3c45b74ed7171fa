/* api_mend -- looking at a log, mending and copying it from outside. */
#include "base/check.h"
#include "log/copy.h"
#include "log/repair_plan.h"
#include "log/repair_run.h"
#include "log/verify.h"

#include "base/poison.h"

#define STEP_BUDGET (1u << 20)

/* Tell how far long work is. Called without the mutex. */
static mk_status report(mk_log *log, const mk_progress *progress, int64_t done,
                        int64_t total, mk_error *err)
{
    mk_status status;

    if (progress == NULL || progress->report == NULL) return MK_OK;
    mk_log_enter_callback(log);
    status = progress->report(progress->context, done, total, err);
    mk_log_leave_callback(log);
    return status;
}

mk_status mk_log_verify(mk_log *log, const mk_progress *progress,
                        mk_findings *out, mk_error *err)
{
    mk_verify verify;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    mk_findings_init(out, &log->heap);
    status = mk_verify_begin(&verify, log, out, err);
    while (status == MK_OK && verify.phase != MK_VERIFY_DONE) {
        status = mk_verify_step(&verify, STEP_BUDGET, err);
        if (status == MK_OK) {
            status = report(log, progress, verify.reached, verify.total, err);
        }
    }
    mk_verify_deinit(&verify);
    if (status != MK_OK) mk_findings_deinit(out);
    return status;
}

mk_status mk_log_copy_to(mk_log *log, const char *directory,
                         const mk_progress *progress, mk_error *err)
{
    mk_copy copy;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    if (directory[0] == '\0') {
        return mk_fail(err, MK_INVALID_ARGUMENT, "the directory has no name");
    }
    status = mk_copy_begin(&copy, log, directory, err);
    while (status == MK_OK && copy.phase != MK_COPY_DONE) {
        status = mk_copy_step(&copy, STEP_BUDGET, err);
        if (status == MK_OK) {
            status = report(log, progress, copy.done, copy.total, err);
        }
    }
    if (status == MK_OK) status = mk_copy_publish(&copy, err);
    mk_copy_deinit(&copy);
    return status;
}

/* ---- Repair ---- */

const char *mk_repair_word(mk_repair_action action)
{
    static const char *const words[] = {
#define X(name, word, text) word,
        MK_REPAIR_MAP(X)
#undef X
    };

    return (size_t)action < MK_REPAIR_COUNT ? words[action] : "unknown";
}

void mk_repair_options_default(mk_repair_options *out)
{
    *out = (mk_repair_options){.env = NULL};
}

void mk_repair_plan_deinit(mk_repair_plan *plan)
{
    mk_heap heap = plan->heap;

    if (plan->steps != NULL) mk_release(&heap, plan->steps);
    *plan = (mk_repair_plan){.heap = heap};
}

static mk_status repair_on(mk_env *env, const char *directory,
                           const mk_repair_options *options,
                           mk_repair_plan *out, mk_error *err)
{
    mk_heap heap = env->heap;
    mk_repair_work *work = mk_alloc_zero(&heap, sizeof *work);
    mk_status status;

    *out = (mk_repair_plan){.heap = heap};
    if (work == NULL) return mk_fail_memory(err, sizeof *work);
    status =
        mk_repair_work_begin(work, env, directory, options->apply, out, err);
    work->progress = &options->progress;
    if (status == MK_OK) status = mk_repair_plan_make(work, err);
    if (status == MK_OK && options->apply) status = mk_repair_run(work, err);
    mk_repair_work_deinit(work);
    mk_release(&heap, work);
    if (status != MK_OK) mk_repair_plan_deinit(out);
    return status;
}

mk_status mk_repair(const char *directory, const mk_repair_options *options,
                    mk_repair_plan *out, mk_error *err)
{
    mk_repair_options defaults;
    mk_env *env;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    *out = (mk_repair_plan){.steps = NULL};
    mk_repair_options_default(&defaults);
    if (options == NULL) options = &defaults;
    if (directory[0] == '\0') {
        return mk_fail(err, MK_INVALID_ARGUMENT, "the directory has no name");
    }
    if (options->env != NULL) {
        return repair_on(options->env, directory, options, out, err);
    }
    status = mk_env_new_posix(NULL, &env, err);
    if (status != MK_OK) return status;
    status = repair_on(env, directory, options, out, err);
    mk_env_free(env);
    return status;
}
