/* api_mend -- looking at a log, mending and copying it from outside. */
#include "base/check.h"
#include "log/copy.h"
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
