/* bounds -- what was found, and what the state says, weighed. */
#include "log/bounds.h"

#include "base/poison.h"

/* Does what was found contradict the end in the state? A segment with records
 * that is not there may be one that a loss of power took, as it was not yet
 * synced; if it was, its offsets are not given again. */
static bool contradicts_end(const mk_log *log, const mk_state *state)
{
    const mk_segment *active =
        log->segment_count > 0 ? mk_log_active_locked(log) : NULL;
    int64_t found = log->log_end_offset > state->log_start_offset
                        ? log->log_end_offset
                        : state->log_start_offset;

    if (active == NULL || active->base_offset < state->end_segment) {
        return state->end_position > 0 && state->recovery_point.offset <= found;
    }
    return active->base_offset > state->end_segment ||
           active->log_bytes != state->end_position;
}

/* Raise the end to what the state says of it: it covers offsets that were given
 * and have no batch any more. What was found contradicts it where batches were
 * appended since, or lost; from the dense offset on they followed each other,
 * so that the offsets below it had been given before any of those. */
static mk_status find_end(mk_log *log, mk_evidence *evidence, mk_error *err)
{
    const mk_state *state = &evidence->state;
    int64_t end_offset = state->end_offset;
    bool broker = false;
    mk_status status = MK_OK;

    if (evidence->ends_early) return MK_OK;
    if (contradicts_end(log, state)) {
        end_offset = state->dense_offset;
        /* While an end is cut off, it lies below what was dense before. */
        if (end_offset > state->end_offset) return MK_OK;
        if (log->log_end_offset >= end_offset) return MK_OK;
        status = mk_evidence_look_for_broker(evidence, &broker, err);
    }
    if (status != MK_OK || broker) return status;
    if (log->log_end_offset < end_offset) log->log_end_offset = end_offset;
    return MK_OK;
}

static mk_status find_bounds(mk_log *log, mk_evidence *evidence,
                             int64_t kafka_start, mk_error *err)
{
    const mk_state *state = &evidence->state;
    mk_status status;

    if (log->segment_count > 0) {
        log->log_start_offset = log->segments[0]->base_offset;
        log->log_end_offset = mk_log_active_locked(log)->next_offset;
    }
    status = find_end(log, evidence, err);
    if (status != MK_OK) return status;
    if (log->log_start_offset < state->log_start_offset) {
        log->log_start_offset = state->log_start_offset;
    }
    if (log->log_end_offset < log->log_start_offset) {
        log->log_end_offset = log->log_start_offset;
    }
    /* One beyond the end of the log is some other log's. */
    if (log->log_start_offset < kafka_start &&
        kafka_start <= log->log_end_offset) {
        log->log_start_offset = kafka_start;
    }
    if (log->segment_count == 0) log->log_start_offset = log->log_end_offset;
    return MK_OK;
}

/* The end is cut: does that take what a Kafka had on stable storage? */
static mk_status note_kafkas_loss(mk_log *log, mk_evidence *evidence,
                                  mk_error *err)
{
    int64_t point;
    mk_status status = mk_evidence_find_kafka_point(evidence, &point, err);

    if (status != MK_OK || log->log_end_offset >= point) return status;
    mk_evidence_note_loss(evidence, log->log_end_offset, point);
    return MK_OK;
}

/* From where on will batches follow without gaps? */
static void find_dense(mk_log *log, const mk_evidence *evidence)
{
    bool gap = log->segment_count > 0 &&
               mk_log_active_locked(log)->next_offset < log->log_end_offset;

    log->dense_offset = evidence->state.dense_offset;
    if (log->dense_offset < evidence->gaps_below) {
        log->dense_offset = evidence->gaps_below;
    }
    if (log->dense_offset < log->stats.lost_to_offset) {
        log->dense_offset = log->stats.lost_to_offset;
    }
    if (gap || log->dense_offset > log->log_end_offset) {
        log->dense_offset = log->log_end_offset;
    }
}

/* Is the last segment cut, and are bytes of it below the point, all of them
 * whole? The next recovery reads all then: what tore that segment may not have
 * stopped at the point. */
static bool is_point_torn(const mk_log *log, const mk_evidence *evidence,
                          bool cut)
{
    const mk_recovery_point *point = &evidence->state.recovery_point;

    return cut && !evidence->insists && log->segment_count > 0 &&
           point->end_position > 0 &&
           point->segment >= mk_log_active_locked(log)->base_offset;
}

static void find_point(mk_log *log, const mk_evidence *evidence, bool cut)
{
    int64_t offset = evidence->insists ? evidence->state.recovery_point.offset
                                       : evidence->believed;
    bool kept = offset >= log->log_start_offset &&
                offset <= log->log_end_offset &&
                !is_point_torn(log, evidence, cut);

    mk_log_forget_point_locked(log);
    if (kept) log->recovery_point = evidence->state.recovery_point;
}

mk_status mk_bounds_find(mk_log *log, mk_evidence *evidence,
                         int64_t kafka_start, bool cut, mk_error *err)
{
    mk_status status = find_bounds(log, evidence, kafka_start, err);

    if (status == MK_OK && cut) {
        status = note_kafkas_loss(log, evidence, err);
    }
    if (status != MK_OK) return status;
    find_point(log, evidence, cut);
    find_dense(log, evidence);
    return MK_OK;
}
