/* inventory -- what is there. */
#include "log/inventory.h"

#include <string.h>

#include "store/replace_file.h"

#include "base/poison.h"

#define SCAN_BUDGET (1u << 20)

/* ---- Looking into a log ---- */

/* Scan what an opened log holds. */
static mk_status scan_log(mk_log *log, mk_segment *segment, mk_file *file,
                          bool *whole, mk_error *err)
{
    mk_file_stat stat;
    mk_segment_scan scan;
    mk_scratch scratch;
    mk_status status = mk_file_stat_open(file, &stat, err);

    *whole = false;
    if (status != MK_OK || stat.size > INT32_MAX) return status;
    mk_scratch_init(&scratch, &log->heap);
    mk_segment_scan_init(&scan, segment, file, stat.size,
                         log->config.index_interval_bytes, &scratch);
    while (status == MK_OK && segment->log_bytes < stat.size &&
           scan.end == MK_SCAN_RUNNING) {
        status = mk_segment_scan_step(&scan, SCAN_BUDGET, err);
    }
    mk_scratch_deinit(&scratch);
    *whole = segment->log_bytes == stat.size;
    return status;
}

/* Does an index that came with the log have entries behind the log's end? Then
 * the log is shorter than it was. A missing index proves nothing. */
static mk_status reaches_beyond(mk_log *log, const mk_segment *segment,
                                mk_file_role role, bool *out, mk_error *err)
{
    size_t entry_size = role == MK_ROLE_OFFSET_INDEX ? MK_OFFSET_ENTRY_SIZE
                                                     : MK_TIME_ENTRY_SIZE;
    size_t at = role == MK_ROLE_OFFSET_INDEX ? 0 : 8;
    mk_file_name name = {role, segment->stage, segment->base_offset};
    char path[MK_PATH_MAX];
    mk_scratch scratch;
    mk_span bytes;
    mk_status status =
        mk_name_file(path, sizeof path, log->directory, name, err);

    *out = false;
    if (status != MK_OK) return status;
    mk_scratch_init(&scratch, &log->heap);
    status = mk_read_file(log->vfs, path, INT32_MAX, &scratch, &bytes, err);
    for (size_t i = 0; status == MK_OK && i + entry_size <= bytes.size;
         i += entry_size) {
        int64_t relative = (int32_t)mk_load_u32(bytes.data + i + at);

        if (relative > segment->next_offset - 1 - segment->base_offset) {
            *out = true;
        }
    }
    mk_scratch_deinit(&scratch);
    if (status == MK_NOT_FOUND || status == MK_INVALID_ARGUMENT) return MK_OK;
    return status;
}

static mk_status agree_indexes(mk_log *log, const mk_segment *segment,
                               bool *whole, mk_error *err)
{
    static const mk_file_role roles[] = {MK_ROLE_OFFSET_INDEX,
                                         MK_ROLE_TIME_INDEX};

    for (int i = 0; *whole && i < 2; i++) {
        bool beyond;
        mk_status status = reaches_beyond(log, segment, roles[i], &beyond, err);

        if (status != MK_OK) return status;
        if (beyond) *whole = false;
    }
    return MK_OK;
}

static mk_status look(void *context, int64_t base_offset, mk_file_stage stage,
                      mk_log_look *out, mk_error *err)
{
    mk_log *log = context;
    mk_segment *segment = NULL;
    mk_file *file = NULL;
    char path[MK_PATH_MAX];
    mk_status status = mk_segment_new(&log->heap, base_offset, &segment, err);

    *out = (mk_log_look){0};
    if (status != MK_OK) return status;
    segment->stage = stage;
    status =
        mk_segment_log_path(segment, log->directory, path, sizeof path, err);
    if (status == MK_OK) status = mk_file_open(log->vfs, path, 0, &file, err);
    if (status == MK_OK) {
        status = scan_log(log, segment, file, &out->whole, err);
    }
    if (status == MK_OK && stage != MK_STAGE_FINAL) {
        status = agree_indexes(log, segment, &out->whole, err);
    }
    out->next_offset = segment->next_offset;
    out->log_bytes = segment->log_bytes;
    out->last_batch_position = segment->last_batch_position;
    out->last_batch_checksum = segment->last_batch_checksum;
    (void)mk_file_close(file, NULL); /* It was only read. */
    mk_segment_free(segment);
    return status;
}

/* ---- Taking it ---- */

static mk_status add_segments(mk_log *log, const mk_leftovers *plan,
                              mk_error *err)
{
    for (size_t i = 0; i < plan->segment_count; i++) {
        mk_segment *segment = NULL;
        mk_status status = mk_segment_new(
            &log->heap, plan->segments[i].base_offset, &segment, err);

        if (status != MK_OK) return status;
        segment->sealed = true;
        if (log->read_only) segment->stage = plan->segments[i].stage;
        status = mk_log_add_segment_locked(log, segment, err);
        if (status != MK_OK) {
            mk_segment_free(segment);
            return status;
        }
    }
    return MK_OK;
}

/* Load the note of a swap, and see whether one, or its beginning, is there. */
static mk_status load_note(mk_log *log, const mk_name_list *names,
                           mk_rewrite_note *note, mk_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], MK_NAME_REWRITE) == 0 ||
            strcmp(names->names[i], MK_NAME_REWRITE ".tmp") == 0) {
            log->rewrite_noted = true;
        }
    }
    if (!log->rewrite_noted) return MK_OK;
    return mk_rewrite_note_load(note, log->vfs, log->directory, err);
}

mk_status mk_inventory_settle(mk_log *log, mk_leftovers *plan, mk_error *err)
{
    mk_status status = MK_OK;

    if (!log->read_only) {
        status = mk_leftovers_run(plan, log->vfs, log->directory, err);
    }
    plan->step_count = 0;
    return status;
}

static mk_status take(mk_log *log, const mk_name_list *names,
                      const mk_rewrite_note *note, mk_evidence *evidence,
                      mk_leftovers *plan, mk_error *err)
{
    mk_log_eye eye = {log, look};
    mk_status status =
        mk_leftovers_plan(plan, &log->heap, names, note, eye, err);

    plan->proof.note = NULL; /* It does not live as long. */
    if (status == MK_OK && plan->proof.verdict == MK_VERDICT_AMBIGUOUS) {
        status = mk_leftovers_fail(plan, log->directory, err);
    }
    if (status == MK_OK && evidence != NULL) {
        status = mk_evidence_check_known(evidence, plan, err);
    }
    if (status == MK_OK && !mk_leftovers_can_wait(plan)) {
        status = mk_inventory_settle(log, plan, err);
    }
    return status == MK_OK ? add_segments(log, plan, err) : status;
}

mk_status mk_inventory_take(mk_log *log, mk_evidence *evidence,
                            mk_leftovers *out, mk_error *err)
{
    mk_rewrite_note note;
    mk_name_list names;
    mk_status status = mk_vfs_list(log->vfs, log->directory, &names, err);

    mk_leftovers_init(out, &log->heap);
    if (status != MK_OK) return status;
    mk_rewrite_note_init(&note, &log->heap);
    status = load_note(log, &names, &note, err);
    if (status == MK_OK) status = take(log, &names, &note, evidence, out, err);
    mk_rewrite_note_deinit(&note);
    mk_name_list_deinit(&names);
    return status;
}

mk_status mk_inventory_forget_note(mk_log *log, mk_error *err)
{
    mk_status status;

    if (!log->rewrite_noted || log->read_only || log->state_stale) return MK_OK;
    status = mk_rewrite_note_unlink(log->vfs, log->directory, err);
    if (status == MK_OK) log->rewrite_noted = false;
    return status;
}
