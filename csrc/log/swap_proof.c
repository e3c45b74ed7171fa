/* swap_proof -- sources, outputs, and what is left of them. */
#include "log/swap_proof.h"

#include "base/check.h"

#include "base/poison.h"

/* ---- Files ---- */

static mk_status add_file(mk_swap_proof *e, mk_file_name name, mk_error *err)
{
    void *array = e->files;
    mk_status status = mk_grow(e->heap, &array, &e->file_capacity,
                               e->file_count + 1, sizeof *e->files, err);

    e->files = array;
    if (status == MK_OK) e->files[e->file_count++] = name;
    return status;
}

/* Note the files that this is about. Sorted names are sorted offsets. */
static mk_status note_files(mk_swap_proof *e, const mk_name_list *names,
                            mk_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        mk_file_name name = mk_name_parse(names->names[i]);
        mk_status status;

        if (names->kinds[i] != MK_KIND_FILE) continue;
        if (mk_role_is_of_segment(name.role)) {
            e->cleaned |= name.stage == MK_STAGE_CLEANED;
            e->swap |= name.stage == MK_STAGE_SWAP;
        } else if (name.role != MK_ROLE_SNAPSHOT) {
            continue;
        }
        status = add_file(e, name, err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

/* Return the number of the first file with an offset at or behind `offset`. */
static size_t find_offset(const mk_swap_proof *e, int64_t offset)
{
    size_t low = 0, high = e->file_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (e->files[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool mk_swap_proof_has(const mk_swap_proof *e, mk_file_role role,
                       mk_file_stage stage, int64_t offset)
{
    for (size_t i = find_offset(e, offset);
         i < e->file_count && e->files[i].offset == offset; i++) {
        if (e->files[i].role == role && e->files[i].stage == stage) {
            return true;
        }
    }
    return false;
}

/* Give the base of the last segment that begins at or before `offset`; false if
 * there is none. */
static bool find_final(const mk_swap_proof *e, int64_t offset, int64_t *out)
{
    size_t i = offset == INT64_MAX ? e->file_count : find_offset(e, offset + 1);

    while (i-- > 0) {
        if (e->files[i].role == MK_ROLE_LOG &&
            e->files[i].stage == MK_STAGE_FINAL) {
            *out = e->files[i].offset;
            return true;
        }
    }
    return false;
}

/* ---- Outputs ---- */

static mk_status look(mk_swap_proof *e, int64_t base_offset,
                      mk_file_stage stage, mk_log_look *out, mk_error *err)
{
    return e->eye.look(e->eye.context, base_offset, stage, out, err);
}

static mk_status add_output(mk_swap_proof *e, mk_file_name file, mk_error *err)
{
    void *array = e->outputs;
    mk_status status = mk_grow(e->heap, &array, &e->output_capacity,
                               e->output_count + 1, sizeof *e->outputs, err);

    e->outputs = array;
    if (status != MK_OK) return status;
    e->outputs[e->output_count++] = (mk_swap_output){file.offset, file.stage};
    return MK_OK;
}

static bool is_output_log(mk_file_name file)
{
    return file.role == MK_ROLE_LOG &&
           (file.stage == MK_STAGE_CLEANED || file.stage == MK_STAGE_SWAP);
}

/* Look into all outputs. */
static mk_status find_outputs(mk_swap_proof *e, mk_error *err)
{
    e->whole = true;
    for (size_t i = 0; i < e->file_count; i++) {
        mk_file_name file = e->files[i];
        mk_log_look found = {0};
        mk_status status;

        if (!is_output_log(file)) continue;
        if (mk_swap_proof_has_output(e, file.offset)) e->twice = true;
        status = look(e, file.offset, file.stage, &found, err);
        if (status == MK_OK) status = add_output(e, file, err);
        if (status != MK_OK) return status;
        if (!found.whole) e->whole = false;
        if (!found.whole && file.stage == MK_STAGE_SWAP) e->damaged = true;
        if (found.next_offset > e->end) e->end = found.next_offset;
    }
    if (e->output_count > 0) e->first = e->outputs[0].base_offset;
    return MK_OK;
}

bool mk_swap_proof_has_output(const mk_swap_proof *e, int64_t base_offset)
{
    for (size_t i = 0; i < e->output_count; i++) {
        if (e->outputs[i].base_offset == base_offset) return true;
    }
    return false;
}

/* Does the note tell of this segment? */
static bool is_noted(const mk_rewrite_note *note, bool as_output,
                     int64_t base_offset)
{
    size_t from = as_output ? 0 : note->output_count;
    size_t to = as_output ? note->output_count : note->count;

    for (size_t i = from; i < to; i++) {
        if (note->parts[i].base_offset == base_offset) return true;
    }
    return false;
}

bool mk_swap_proof_is_replaced(const mk_swap_proof *e, mk_file_role role,
                               int64_t offset)
{
    bool is_output = mk_swap_proof_has_output(e, offset);

    if (e->note != NULL) {
        /* An output that has its final name stays. */
        if (is_noted(e->note, true, offset)) return is_output;
        return is_noted(e->note, false, offset);
    }
    if (e->output_count == 0) return false;
    if (offset >= e->first && offset < e->end) return true;
    return is_output && role != MK_ROLE_SNAPSHOT;
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
static mk_status fit_sources(mk_swap_proof *e, fit *out, mk_error *err)
{
    int64_t last = -1, source = -1;
    mk_log_look found = {0};
    mk_status status;

    *out = FITS;
    for (size_t i = 0; i < e->file_count; i++) {
        mk_file_name file = e->files[i];

        if (file.role != MK_ROLE_LOG) continue;
        if (file.stage == MK_STAGE_FINAL) {
            last = file.offset;
            if (mk_swap_proof_is_replaced(e, file.role, file.offset)) {
                source = file.offset;
            }
        } else if (file.stage == MK_STAGE_DELETED && file.offset < e->end) {
            source = -1; /* There may have been one behind. */
        }
    }
    if (source < 0) return MK_OK;
    status = look(e, source, MK_STAGE_FINAL, &found, err);
    if (status != MK_OK || found.next_offset == source) return status;
    if (found.next_offset < e->end) *out = FITS_LONG;
    if (found.next_offset > e->end && source == last) *out = FITS_SHORT;
    return MK_OK;
}

/* Has no segment the range in which this removed one began? */
static mk_status is_uncovered(mk_swap_proof *e, int64_t offset, bool *out,
                              mk_error *err)
{
    int64_t base_offset;
    mk_log_look found;
    mk_status status;

    *out = true;
    if (!find_final(e, offset, &base_offset)) return MK_OK;
    *out = false;
    if (base_offset == offset) return MK_OK;
    status = look(e, base_offset, MK_STAGE_FINAL, &found, err);
    *out = status == MK_OK && found.next_offset <= offset;
    return status;
}

/* Do the outputs end with offsets that no segment has? One that is not sound to
 * its end, or has to be split, may have more than can be seen. */
static mk_status ends_uncovered(mk_swap_proof *e, bool *out, mk_error *err)
{
    int64_t base_offset;
    mk_log_look found;
    mk_status status;

    *out = true;
    if (!find_final(e, e->end - 1, &base_offset)) return MK_OK;
    status = look(e, base_offset, MK_STAGE_FINAL, &found, err);
    *out = status == MK_OK && found.whole && found.next_offset < e->end;
    return status;
}

/* Are offsets missing between the segments from the first output on, as far as
 * one file can reach? */
static mk_status has_gap(mk_swap_proof *e, bool *out, mk_error *err)
{
    int64_t end = -1;

    *out = false;
    for (size_t i = 0; !*out && i < e->file_count; i++) {
        mk_file_name file = e->files[i];
        mk_log_look found = {0};
        mk_status status;

        if (file.role != MK_ROLE_LOG || file.stage != MK_STAGE_FINAL) continue;
        if (file.offset < e->first) continue;
        if (file.offset - e->first > INT32_MAX) break;
        if (end >= 0 && end < file.offset) *out = true;
        status = look(e, file.offset, MK_STAGE_FINAL, &found, err);
        if (status != MK_OK) return status;
        end = found.next_offset;
    }
    return MK_OK;
}

/* Did a source go already? The first one, one that is `.deleted`, or one that
 * held what the outputs end with. How far an output went that is damaged nobody
 * knows: wherever something is missing, it may be the only copy. */
static mk_status is_begun(mk_swap_proof *e, bool *out, mk_error *err)
{
    *out =
        e->swap && !mk_swap_proof_has(e, MK_ROLE_LOG, MK_STAGE_FINAL, e->first);
    for (size_t i = 0; !*out && i < e->file_count; i++) {
        mk_file_name file = e->files[i];
        mk_status status;

        if (file.role != MK_ROLE_LOG || file.stage != MK_STAGE_DELETED) {
            continue;
        }
        if (file.offset < e->first) continue;
        if (file.offset > e->first && file.offset >= e->end) continue;
        status = is_uncovered(e, file.offset, out, err);
        if (status != MK_OK) return status;
    }
    if (*out) return MK_OK;
    if (e->damaged) return has_gap(e, out, err);
    if (!e->swap || !e->cleaned || e->end <= e->first) return MK_OK;
    return ends_uncovered(e, out, err);
}

/* What the files prove without a note: Kafka's rule, made safe. */
static mk_status decide(mk_swap_proof *e, mk_error *err)
{
    mk_verdict *verdict = &e->verdict;
    fit end = FITS;
    bool begun = false, forward;
    mk_status status = find_outputs(e, err);

    if (status != MK_OK || e->output_count == 0) return status;
    status = is_begun(e, &begun, err);
    forward = e->swap && (begun || !e->cleaned) && e->whole && !e->twice;
    if (status == MK_OK && forward) status = fit_sources(e, &end, err);
    if (status != MK_OK) return status;
    *verdict = begun ? MK_VERDICT_AMBIGUOUS : MK_VERDICT_BACK;
    if (forward && end == FITS) *verdict = MK_VERDICT_FORWARD;
    if (forward && end == FITS_LONG) *verdict = MK_VERDICT_AMBIGUOUS;
    return MK_OK;
}

/* ---- With a note ---- */

/* Is the log that the note tells of there, as it was? */
static mk_status find_part(mk_swap_proof *e, const mk_rewrite_part *part,
                           mk_file_stage stage, bool *out, mk_error *err)
{
    mk_log_look found = {0};
    mk_status status;

    *out = false;
    if (!mk_swap_proof_has(e, MK_ROLE_LOG, stage, part->base_offset)) {
        return MK_OK;
    }
    status = look(e, part->base_offset, stage, &found, err);
    *out = found.whole && found.log_bytes == part->log_bytes;
    if (part->last_batch_position >= 0) {
        *out &= found.last_batch_position == part->last_batch_position;
        *out &= found.last_batch_checksum == part->last_batch_checksum;
    }
    return status;
}

/* Is this output complete, whatever its name is by now? One that is `.cleaned`
 * tells that no source went yet. */
static mk_status is_complete(mk_swap_proof *e, const mk_rewrite_part *part,
                             bool *out, mk_error *err)
{
    mk_file_name file = {MK_ROLE_LOG, MK_STAGE_SWAP, part->base_offset};

    *out = false;
    if (mk_swap_proof_has(e, MK_ROLE_LOG, MK_STAGE_CLEANED,
                          part->base_offset)) {
        return MK_OK;
    }
    if (mk_swap_proof_has(e, MK_ROLE_LOG, MK_STAGE_SWAP, part->base_offset)) {
        mk_status status = add_output(e, file, err);

        if (status != MK_OK) return status;
    } else {
        file.stage = MK_STAGE_FINAL;
    }
    return find_part(e, part, file.stage, out, err);
}

/* Is there a segment between the sources that the note does not tell of? Then
 * somebody else worked here after it was written. */
static bool has_stranger(const mk_swap_proof *e, const mk_rewrite_note *note)
{
    for (size_t i = 0; i < e->file_count; i++) {
        mk_file_name file = e->files[i];

        if (file.role != MK_ROLE_LOG || file.stage != MK_STAGE_FINAL) continue;
        if (file.offset < note->first || file.offset >= note->end) continue;
        if (is_noted(note, true, file.offset)) continue;
        if (!is_noted(note, false, file.offset)) return true;
    }
    return false;
}

/* Come to a verdict by the note, if it still tells of what is there. */
static mk_status decide_by_note(mk_swap_proof *e, const mk_rewrite_note *note,
                                bool *decided, mk_error *err)
{
    bool complete = true, intact = true;
    mk_status status = MK_OK;

    *decided = false;
    for (size_t i = 0; complete && i < note->output_count; i++) {
        status = is_complete(e, &note->parts[i], &complete, err);
        if (status != MK_OK) return status;
    }
    for (size_t i = note->output_count; !complete && intact && i < note->count;
         i++) {
        status = find_part(e, &note->parts[i], MK_STAGE_FINAL, &intact, err);
        if (status != MK_OK) return status;
    }
    *decided = complete ? !has_stranger(e, note) : intact;
    if (*decided) {
        e->note = note;
        e->first = note->first;
        e->end = note->end;
        e->verdict = complete ? MK_VERDICT_FORWARD : MK_VERDICT_BACK;
    } else {
        e->output_count = 0;
    }
    return MK_OK;
}

/* ---- Public functions ---- */

mk_status mk_swap_proof_gather(mk_swap_proof *e, const mk_heap *heap,
                               const mk_name_list *names,
                               const mk_rewrite_note *note, mk_log_eye eye,
                               mk_error *err)
{
    bool decided = false;
    mk_status status;

    *e = (mk_swap_proof){.heap = heap, .eye = eye};
    status = note_files(e, names, err);
    if (status == MK_OK && note->count > 0) {
        status = decide_by_note(e, note, &decided, err);
    }
    if (status == MK_OK && !decided) status = decide(e, err);
    return status;
}

void mk_swap_proof_deinit(mk_swap_proof *e)
{
    mk_release(e->heap, e->files);
    mk_release(e->heap, e->outputs);
    *e = (mk_swap_proof){.heap = e->heap, .verdict = MK_VERDICT_AMBIGUOUS};
}
