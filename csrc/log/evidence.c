/* evidence -- weighing. */
#include "log/evidence.h"

#include <inttypes.h>

#include "base/check.h"
#include "store/checkpoint_file.h"

#include "base/poison.h"

mk_status mk_evidence_load(mk_evidence *evidence, mk_log *log, mk_error *err)
{
    mk_status status;

    *evidence = (mk_evidence){.log = log, .believed = -1, .broker = -1};
    mk_state_init(&evidence->state, &log->heap);
    status = mk_state_load(&evidence->state, log->vfs, log->directory, err);
    if (!mk_state_is_plausible(&evidence->state)) {
        mk_evidence_deinit(evidence);
    }
    return status;
}

mk_status mk_evidence_find_kafka_point(const mk_evidence *evidence,
                                       int64_t *out, mk_error *err)
{
    const mk_log *log = evidence->log;

    *out = -1;
    if (evidence->state.log_start_offset >= 0) return MK_OK;
    return mk_checkpoint_find(log->vfs, &log->heap, log->directory,
                              MK_NAME_KAFKA_POINTS, out, err);
}

void mk_evidence_deinit(mk_evidence *evidence)
{
    mk_state_deinit(&evidence->state);
}

static mk_segment *find_exact(const mk_log *log, int64_t base_offset)
{
    size_t i = mk_log_find_segment_locked(log, base_offset);

    if (log->segment_count == 0) return NULL;
    if (log->segments[i]->base_offset != base_offset) return NULL;
    return log->segments[i];
}

/* Does the recovery point stand at the end of what the facts tell? */
static bool ends_at_point(const mk_segment_facts *facts,
                          const mk_recovery_point *point)
{
    return point->segment == facts->base_offset &&
           point->end_position == facts->log_bytes;
}

/* Can the batch at the recovery point be the one with these offsets? The
 * checksum does not cover them. */
static bool offsets_agree(const mk_state *state, const mk_batch *batch)
{
    const mk_recovery_point *point = &state->recovery_point;
    const mk_segment_facts *facts = mk_state_find(state, point->segment);
    int64_t next_offset = mk_batch_next_offset(batch);

    if (facts != NULL && ends_at_point(facts, point)) {
        return next_offset == facts->next_offset;
    }
    return next_offset <= point->offset;
}

/* Is the batch that the recovery point names where it should be, and whole? */
static bool batch_agrees(const mk_state *state, mk_span bytes)
{
    mk_batch batch;

    return mk_batch_peek(bytes, &batch) == MK_BATCH_WHOLE &&
           batch.size == bytes.size &&
           batch.crc == state->recovery_point.checksum &&
           offsets_agree(state, &batch) &&
           mk_batch_checksum_agrees(bytes.data, &batch);
}

mk_status mk_evidence_look_for_broker(mk_evidence *evidence, bool *out,
                                      mk_error *err)
{
    static const char *const names[] = {"partition.metadata",
                                        "leader-epoch-checkpoint"};
    char path[MK_PATH_MAX];
    mk_file_stat stat;

    for (size_t i = 0;
         evidence->broker != 1 && i < sizeof names / sizeof names[0]; i++) {
        mk_status status = mk_name_join(
            path, sizeof path, evidence->log->directory, names[i], err);

        if (status != MK_OK) return status;
        status = mk_vfs_stat(evidence->log->vfs, path, &stat, err);
        if (status != MK_OK && status != MK_NOT_FOUND) return status;
        evidence->broker = status == MK_OK;
    }
    *out = evidence->broker == 1;
    return MK_OK;
}

/* Forget what is known of segments in [from, to), but for the one that has the
 * batch at the recovery point at its end: whether that is still there will be
 * seen, and proves that it is the same. */
static void forget_range(mk_state *state, int64_t from, int64_t to)
{
    const mk_recovery_point *point = &state->recovery_point;
    const mk_segment_facts *facts = mk_state_find(state, point->segment);

    if (facts != NULL && point->batch_position >= 0 &&
        ends_at_point(facts, point) && facts->base_offset >= from &&
        facts->base_offset < to) {
        int64_t kept = facts->base_offset;

        mk_state_forget(state, from, kept);
        mk_state_forget(state, kept + 1, to);
        return;
    }
    mk_state_forget(state, from, to);
}

mk_status mk_evidence_forget(mk_evidence *evidence, const mk_leftovers *plan,
                             mk_error *err)
{
    mk_state *state = &evidence->state;
    int64_t to = plan->rewritten.to;
    bool gaps = mk_leftovers_made_gaps(plan);
    mk_status status = MK_OK;

    if (plan->rewritten.from >= to) return MK_OK;
    evidence->changed = true;
    forget_range(state, plan->rewritten.from, to);
    if (!gaps) status = mk_evidence_look_for_broker(evidence, &gaps, err);
    if (gaps && state->dense_offset < to) state->dense_offset = to;
    return status;
}

/* A broker may have cleaned the closed segments: offsets may be missing there.
 */
static mk_status allow_gaps(mk_evidence *evidence, mk_error *err)
{
    const mk_log *log = evidence->log;
    int64_t base_offset;
    bool broker;
    mk_status status;

    if (log->segment_count == 0) return MK_OK;
    base_offset = mk_log_active_locked(log)->base_offset;
    if (evidence->state.dense_offset >= base_offset) return MK_OK;
    status = mk_evidence_look_for_broker(evidence, &broker, err);
    if (status == MK_OK && broker) evidence->gaps_below = base_offset;
    return status;
}

/* Forget facts of segments that have another one after them now: somebody else
 * rewrote them. */
static void forget_rewritten(mk_evidence *evidence)
{
    const mk_log *log = evidence->log;
    mk_state *state = &evidence->state;
    size_t kept = 0;

    for (size_t i = 0; i < state->facts_count; i++) {
        int64_t base_offset = state->facts[i].base_offset;
        size_t next = 0;

        if (i + 1 < state->facts_count && log->segment_count > 0) {
            next = mk_log_find_segment_locked(log, base_offset) + 1;
        }
        if (next > 0 && next < log->segment_count &&
            log->segments[next]->base_offset !=
                state->facts[i + 1].base_offset) {
            continue;
        }
        state->facts[kept++] = state->facts[i];
    }
    if (kept < state->facts_count) evidence->changed = true;
    state->facts_count = kept;
}

mk_status mk_evidence_weigh(mk_evidence *evidence, mk_scratch *scratch,
                            mk_error *err)
{
    const mk_recovery_point *point = &evidence->state.recovery_point;
    mk_segment *segment = find_exact(evidence->log, point->segment);
    int64_t size = point->end_position - point->batch_position;
    mk_span bytes;
    mk_status status = allow_gaps(evidence, err);

    evidence->believed = -1;
    if (status != MK_OK) return status;
    forget_rewritten(evidence);
    mk_state_find_then(&evidence->state);
    if (segment == NULL) return MK_OK;
    if (point->batch_position < 0) {
        if (point->end_position == 0) evidence->believed = point->offset;
        return MK_OK;
    }
    if (size < (int64_t)MK_BATCH_HEADER_SIZE || size > INT32_MAX) return MK_OK;
    status = mk_log_pin_locked(evidence->log, segment, err);
    if (status != MK_OK) return status;
    status = mk_file_view(segment->log.file, scratch, point->batch_position,
                          (size_t)size, &bytes, err);
    if (status == MK_OK && bytes.size == (size_t)size &&
        batch_agrees(&evidence->state, bytes)) {
        evidence->believed = point->offset;
    }
    mk_log_unpin_locked(evidence->log, segment);
    return status;
}

static void take_facts(mk_evidence *evidence, mk_segment *segment,
                       const mk_segment_facts *facts)
{
    const mk_recovery_point *point = &evidence->state.recovery_point;

    mk_segment_take_facts(segment, facts);
    if (!ends_at_point(facts, point)) return;
    segment->last_batch_position = point->batch_position;
    segment->last_batch_checksum = point->checksum;
}

mk_status mk_evidence_apply(mk_evidence *evidence, mk_segment *segment,
                            int64_t size, bool last, bool *all, mk_error *err)
{
    const mk_segment_facts *facts =
        mk_state_find(&evidence->state, segment->base_offset);
    bool broker = false;
    bool at_point;

    *all = false;
    if (facts == NULL || facts->next_offset > evidence->believed) return MK_OK;
    at_point = ends_at_point(facts, &evidence->state.recovery_point);
    if ((last || facts->log_bytes < size) && !at_point) return MK_OK;
    if (size < facts->log_bytes) {
        mk_status status = mk_evidence_look_for_broker(evidence, &broker, err);

        if (status != MK_OK || broker || last) return status;
    }
    take_facts(evidence, segment, facts);
    *all = size <= facts->log_bytes && facts->log_bytes > 0;
    return MK_OK;
}

void mk_evidence_amend(mk_evidence *evidence, const mk_segment *segment)
{
    mk_state *state = &evidence->state;
    const mk_segment_facts *facts = mk_state_find(state, segment->base_offset);
    mk_segment_facts found;

    mk_segment_get_facts(segment, &found);
    if (facts == NULL || facts->log_bytes != found.log_bytes) return;
    if (mk_segment_facts_equal(facts, &found)) return;
    state->facts[facts - state->facts] = found;
    mk_state_find_then(state);
    evidence->changed = true;
}

mk_status mk_evidence_insist(mk_evidence *evidence, mk_segment *segment,
                             int64_t size, bool *sound, mk_error *err)
{
    const mk_segment_facts *facts =
        mk_state_find(&evidence->state, segment->base_offset);
    const mk_recovery_point *point = &evidence->state.recovery_point;
    bool broker;
    mk_status status;

    if (facts == NULL || !ends_at_point(facts, point)) return MK_OK;
    if (segment->log_bytes >= point->batch_position) return MK_OK;
    if (size < point->end_position) return MK_OK;
    status = mk_evidence_look_for_broker(evidence, &broker, err);
    if (status != MK_OK || broker) return status;
    take_facts(evidence, segment, facts);
    evidence->insists = true;
    *sound = size == facts->log_bytes;
    return MK_OK;
}

/* ---- What is missing ---- */

void mk_evidence_note_loss(mk_evidence *evidence, int64_t from, int64_t to)
{
    mk_log_stats *stats = &evidence->log->stats;

    if (stats->lost_from_offset < 0 || from < stats->lost_from_offset) {
        stats->lost_from_offset = from;
    }
    if (to > stats->lost_to_offset) stats->lost_to_offset = to;
}

static mk_status fail_gap(const mk_log *log, int64_t from, int64_t to,
                          mk_error *err)
{
    mk_status status = mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory, -1,
                                  "the segments with the offsets %" PRId64
                                  "..%" PRId64 " of %s are missing",
                                  from, to - 1, log->directory);

    if (err != NULL) err->offset = from;
    return status;
}

/* Had the segment records on stable storage that are still the log's? */
static bool was_stable(const mk_state *state, const mk_segment_facts *facts)
{
    return facts->log_bytes > 0 &&
           facts->next_offset > state->log_start_offset &&
           facts->next_offset <= state->recovery_point.offset;
}

/* Find a log that is no segment, and may have what this one had. */
static bool find_copy(const mk_leftovers *plan, const mk_segment_facts *facts,
                      mk_file_name *out)
{
    out->stage = MK_STAGE_FINAL;
    for (size_t i = 0; i < plan->proof.file_count; i++) {
        mk_file_name file = plan->proof.files[i];

        if (file.role != MK_ROLE_LOG || file.stage == MK_STAGE_FINAL) continue;
        if (file.offset < facts->base_offset) continue;
        if (file.offset < facts->next_offset) *out = file;
    }
    return out->stage != MK_STAGE_FINAL;
}

/* Has something that is no file the name of a segment? A symbolic link may lead
 * to it. */
static mk_status has_stranger(const mk_log *log, int64_t base_offset, bool *out,
                              mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status = mk_name_segment_file(path, sizeof path, log->directory,
                                            base_offset, MK_ROLE_LOG, err);

    *out = false;
    if (status != MK_OK) return status;
    status = mk_vfs_stat(log->vfs, path, &stat, err);
    *out = status == MK_OK && stat.kind != MK_KIND_FILE;
    return status == MK_NOT_FOUND ? MK_OK : status;
}

mk_status mk_evidence_is_missing(mk_evidence *evidence,
                                 const mk_segment_facts *facts,
                                 const mk_leftovers *plan, bool *out,
                                 mk_file_name *copy, mk_error *err)
{
    const mk_swap_proof *proof = &plan->proof;
    int64_t base = facts->base_offset;
    int64_t start = evidence->state.log_start_offset;
    size_t below = mk_leftovers_count_below(plan, base);
    mk_log_look found;
    bool broker, strange;
    mk_status status;

    *out = false;
    if (!was_stable(&evidence->state, facts)) return MK_OK;
    /* It, or one that was made of it, with all that is still the log's. */
    if (start < base) start = base;
    if (mk_leftovers_count_below(plan, start + 1) > below) return MK_OK;
    if (proof->verdict == MK_VERDICT_FORWARD && base >= proof->first &&
        base < proof->end) {
        return MK_OK;
    }
    if (!find_copy(plan, facts, copy) && below == plan->segment_count) {
        status = has_stranger(evidence->log, base, &strange, err);
        if (status != MK_OK || !strange) return status;
    }
    status = mk_evidence_look_for_broker(evidence, &broker, err);
    if (status != MK_OK || broker) return status;
    *out = true;
    if (below == 0) return MK_OK;
    status = proof->eye.look(proof->eye.context,
                             plan->segments[below - 1].base_offset,
                             plan->segments[below - 1].stage, &found, err);
    *out = status == MK_OK && found.next_offset <= base;
    return status;
}

static mk_status fail_known(const mk_evidence *evidence,
                            const mk_segment_facts *facts,
                            const mk_file_name *copy, mk_error *err)
{
    const mk_log *log = evidence->log;
    int64_t from = facts->base_offset;
    char path[MK_PATH_MAX];
    mk_status status;

    if (from < evidence->state.log_start_offset) {
        from = evidence->state.log_start_offset;
    }
    if (copy->stage == MK_STAGE_FINAL) {
        return fail_gap(log, from, facts->next_offset, err);
    }
    status = mk_name_file(path, sizeof path, log->directory, *copy, err);
    if (status != MK_OK) return status;
    status = mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory, -1,
                        "the segment with the offsets %" PRId64 "..%" PRId64
                        " of %s is missing; %s may have them: without its last "
                        "suffix it is the segment, if it is whole",
                        from, facts->next_offset - 1, log->directory, path);
    if (err != NULL) err->offset = from;
    return status;
}

mk_status mk_evidence_check_known(mk_evidence *evidence, mk_leftovers *plan,
                                  mk_error *err)
{
    for (size_t i = 0; i < evidence->state.facts_count; i++) {
        const mk_segment_facts *facts = &evidence->state.facts[i];
        mk_file_name copy;
        bool missing;
        mk_status status =
            mk_evidence_is_missing(evidence, facts, plan, &missing, &copy, err);

        if (status != MK_OK) return status;
        if (!missing) continue;
        if (!evidence->log->read_only) {
            return fail_known(evidence, facts, &copy, err);
        }
        plan->segment_count =
            mk_leftovers_count_below(plan, facts->base_offset);
        evidence->ends_early = true;
        return MK_OK;
    }
    return MK_OK;
}

/* What was on stable storage, and is not behind the last segment. */
static void check_end(mk_evidence *evidence)
{
    const mk_log *log = evidence->log;
    const mk_recovery_point *point = &evidence->state.recovery_point;
    int64_t end = evidence->state.log_start_offset;

    if (evidence->believed >= 0 || point->segment < 0) return;
    if (log->segment_count > 0) end = mk_log_active_locked(log)->next_offset;
    if (end < point->offset) {
        mk_evidence_note_loss(evidence, end, point->offset);
    }
}

mk_status mk_evidence_check_gap(mk_evidence *evidence, size_t i, mk_error *err)
{
    mk_log *log = evidence->log;
    const mk_state *state = &evidence->state;
    int64_t from = state->log_start_offset;
    bool broker;
    int64_t to;
    mk_status status;

    if (i == log->segment_count) {
        check_end(evidence);
        return MK_OK;
    }
    to = log->segments[i]->base_offset;
    if (i > 0) from = log->segments[i - 1]->next_offset;
    if (from < state->dense_offset) from = state->dense_offset;
    if (from >= to) return MK_OK;
    status = mk_evidence_look_for_broker(evidence, &broker, err);
    if (status != MK_OK) return status;
    if (!broker) return fail_gap(log, from, to, err);
    mk_evidence_note_loss(evidence, from, to);
    return MK_OK;
}
