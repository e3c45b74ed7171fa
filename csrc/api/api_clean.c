/* api_clean -- removing and cleaning up from outside. */
#include <inttypes.h>

#include "base/check.h"
#include "clean/compactor.h"
#include "clean/retention.h"
#include "log/append.h"
#include "log/heal.h"
#include "log/remove.h"
#include "log/state_store.h"

#include "base/poison.h"

#define STEP_BUDGET (1u << 20)

/* The same with the log locked and the clock read. */
static mk_status begin_locked(mk_log *log, int64_t now_ms, bool removes,
                              mk_error *err)
{
    mk_status status = mk_log_make_writable_locked(log, err);

    if (log->failed != MK_OK && removes &&
        mk_log_begin_removal_locked(log, NULL) == MK_OK) {
        return MK_OK;
    }
    if (status == MK_OK) status = mk_log_begin_maintenance_locked(log, err);
    if (status != MK_OK) return status;
    status = mk_log_send_waiting_locked(log, now_ms, err);
    /* What has no room waits on; a removal makes some. */
    if (removes && mk_is_no_room(status, err)) return MK_OK;
    if (status != MK_OK) mk_log_end_maintenance_locked(log);
    return status;
}

/* Read the clock, lock the log, send what appenders hold back, and become the
 * one who changes its closed segments: to remove some at its start, or for
 * anything. Without success all that is undone. */
static mk_status begin(mk_log *log, const mk_clock *clock, bool removes,
                       int64_t *now_ms, mk_error *err)
{
    mk_status status = mk_log_read_clock(log, clock, now_ms, err);

    if (status != MK_OK) {
        mk_log_release(log);
        return status;
    }
    mk_mutex_lock(&log->mutex);
    status = begin_locked(log, *now_ms, removes, err);
    if (status != MK_OK) {
        mk_mutex_unlock(&log->mutex);
        mk_log_release(log);
    }
    return status;
}

static void end(mk_log *log)
{
    mk_log_end_maintenance_locked(log);
    mk_mutex_unlock(&log->mutex);
    mk_log_release(log);
}

mk_status mk_log_delete_records(mk_log *log, int64_t before_offset,
                                mk_error *err)
{
    int64_t now_ms = 0;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    status = begin(log, NULL, true, &now_ms, err);
    if (status != MK_OK) return status;
    if (before_offset > log->log_end_offset) {
        status = mk_log_fail_range_locked(log, before_offset, err);
    } else if (before_offset > log->log_start_offset) {
        status = mk_log_advance_start_locked(log, before_offset, err);
    }
    end(log);
    return status;
}

mk_status mk_log_truncate_to(mk_log *log, int64_t offset, mk_error *err)
{
    int64_t now_ms = 0;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    if (offset < 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "offset %" PRId64 " is negative", offset);
    }
    status = begin(log, NULL, false, &now_ms, err);
    if (status != MK_OK) return status;
    if (offset < log->log_end_offset) {
        status = mk_log_cut_end_locked(log, offset, now_ms, err);
    }
    end(log);
    return status;
}

/* Does the set name exactly the first segments? `*length` is how many. Each of
 * them is looked for in the set, so that order and repeats don't matter. */
static bool is_prefix(const mk_log *log, const int64_t *base_offsets,
                      size_t count, size_t *length)
{
    size_t found_count = 0;
    size_t i;

    for (i = 0; i + 1 < log->segment_count; i++) {
        bool found = false;

        for (size_t j = 0; j < count; j++) {
            if (base_offsets[j] != log->segments[i]->base_offset) continue;
            found = true;
            found_count++;
        }
        if (!found) break;
    }
    *length = i;
    return found_count == count;
}

mk_status mk_log_delete_closed_segments(mk_log *log,
                                        const int64_t *base_offsets,
                                        size_t count, mk_error *err)
{
    int64_t now_ms = 0;
    size_t length;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    status = begin(log, NULL, true, &now_ms, err);
    if (status != MK_OK) return status;
    if (is_prefix(log, base_offsets, count, &length)) {
        status = mk_log_drop_prefix_locked(log, length, err);
    } else {
        status = mk_fail(err, MK_INVALID_ARGUMENT,
                         "only the oldest closed segments can be deleted, "
                         "without a gap between them");
    }
    end(log);
    return status;
}

/* ---- Retention ---- */

static mk_status retain_locked(mk_log *log, const mk_retention_options *options,
                               int64_t now_ms, mk_cleanup_result *out,
                               mk_error *err)
{
    size_t size = log->segment_count * sizeof(mk_segment_info);
    mk_segment_info *infos = mk_alloc(&log->heap, size);
    size_t count;
    mk_status status;

    if (infos == NULL) return mk_fail_memory(err, size);
    for (size_t i = 0; i < log->segment_count; i++) {
        mk_log_describe_segment_locked(log, i, &infos[i]);
    }
    count = mk_retention_plan(infos, log->segment_count, options, now_ms);
    status = mk_cleanup_result_reserve(out, count, 0, 0, err);
    if (status == MK_OK) {
        for (size_t i = 0; i < count; i++) {
            out->deleted[i] = infos[i].base_offset;
        }
        out->deleted_count = count;
        status = mk_log_drop_prefix_locked(log, count, err);
    }
    mk_release(&log->heap, infos);
    return status;
}

mk_status mk_log_retain(mk_log *log, const mk_retention_options *options,
                        mk_cleanup_result *out, mk_error *err)
{
    int64_t now_ms = 0;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    mk_cleanup_result_init(out, &log->heap);
    status = mk_retention_check(options, err);
    if (status == MK_OK) {
        status = begin(log, &options->clock, true, &now_ms, err);
    }
    if (status != MK_OK) return status;
    status = retain_locked(log, options, now_ms, out, err);
    end(log);
    if (status != MK_OK) mk_cleanup_result_deinit(out);
    return status;
}

/* ---- Compaction ---- */

void mk_compact_options_default(mk_compact_options *out)
{
    *out = (mk_compact_options){.delete_retention_ms = -1};
}

static mk_status
call_before_swap(mk_log *log, const mk_compact_options *options, mk_error *err)
{
    mk_status status;

    if (options->before_swap == NULL) return MK_OK;
    mk_log_enter_callback(log);
    status = options->before_swap(options->context, err);
    mk_log_leave_callback(log);
    return status;
}

/* Build without the mutex, publish with it. */
static mk_status run_compactor(mk_log *log, mk_compactor *compactor,
                               const mk_compact_options *options,
                               mk_cleanup_result *out, mk_error *err)
{
    mk_status status = MK_OK;

    mk_mutex_unlock(&log->mutex);
    while (status == MK_OK && compactor->phase != MK_COMPACTOR_BUILT) {
        status = mk_compactor_step(compactor, STEP_BUDGET, err);
    }
    if (status == MK_OK) status = call_before_swap(log, options, err);
    mk_mutex_lock(&log->mutex);
    if (status != MK_OK) return status;
    return mk_compactor_publish_locked(compactor, out, err);
}

static mk_status compact_locked(mk_log *log, const mk_compact_options *options,
                                int64_t now_ms, mk_cleanup_result *out,
                                mk_error *err)
{
    int64_t delete_retention_ms = options->delete_retention_ms;
    mk_compactor compactor;
    mk_status status;

    if (log->segment_count < 2) return MK_OK; /* No closed segment. */
    if (delete_retention_ms < 0) {
        delete_retention_ms = log->config.delete_retention_ms;
    }
    status = mk_compactor_begin_locked(&compactor, log, now_ms,
                                       delete_retention_ms, err);
    if (status == MK_OK) {
        status = run_compactor(log, &compactor, options, out, err);
    }
    mk_mutex_unlock(&log->mutex);
    mk_compactor_deinit(&compactor);
    mk_mutex_lock(&log->mutex);
    return status;
}

mk_status mk_log_compact(mk_log *log, const mk_compact_options *options,
                         mk_cleanup_result *out, mk_error *err)
{
    mk_compact_options defaults;
    int64_t now_ms = 0;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    mk_cleanup_result_init(out, &log->heap);
    mk_compact_options_default(&defaults);
    if (options == NULL) options = &defaults;
    if (options->delete_retention_ms < -1) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "delete_retention_ms is %" PRId64 ", which is negative",
                       options->delete_retention_ms);
    }
    status = begin(log, &options->clock, false, &now_ms, err);
    if (status != MK_OK) return status;
    status = compact_locked(log, options, now_ms, out, err);
    /* The room of the reserve may do. The hook is called but once. */
    if (mk_is_no_room(status, err) && options->before_swap == NULL &&
        mk_log_give_up_reserve_locked(log)) {
        mk_cleanup_result_deinit(out);
        status = compact_locked(log, options, now_ms, out, err);
        mk_log_keep_reserve_locked(log);
    }
    end(log);
    if (status != MK_OK) mk_cleanup_result_deinit(out);
    return status;
}
