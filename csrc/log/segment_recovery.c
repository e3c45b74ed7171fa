/* segment_recovery -- scanning on where evidence ends. */
#include "log/segment_recovery.h"

#include <inttypes.h>

#include "log/segment_indexes.h"
#include "store/batch_hunt.h"

#include "base/poison.h"

#define SCAN_BUDGET (1u << 20)

static mk_status report(mk_segment_recovery *r, mk_error *err)
{
    const mk_progress *progress = r->progress;

    if (progress == NULL || progress->report == NULL) return MK_OK;
    return progress->report(progress->context, r->done, r->total, err);
}

mk_status mk_segment_recovery_scan(mk_segment_recovery *r, mk_segment *segment,
                                   int64_t size, mk_scan_end *end,
                                   mk_error *err)
{
    mk_log *log = r->log;
    int64_t before = segment->log_bytes;
    mk_segment_scan scan;
    mk_status status = mk_log_pin_locked(log, segment, err);

    if (status != MK_OK) return status;
    mk_segment_scan_init(&scan, segment, segment->log.file, size,
                         segment->index_interval_bytes, &r->scratch);
    if (segment == mk_log_active_locked(log)) {
        scan.dense_offset = r->evidence->state.dense_offset;
        scan.end_offset = r->end_offset;
    }
    while (status == MK_OK && scan.end == MK_SCAN_RUNNING) {
        status = mk_segment_scan_step(&scan, SCAN_BUDGET, err);
        r->done += segment->log_bytes - before;
        before = segment->log_bytes;
        if (status == MK_OK) status = report(r, err);
    }
    mk_log_unpin_locked(log, segment);
    *end = scan.end;
    return status;
}

static mk_status fail_damaged(const mk_log *log, const mk_segment *segment,
                              mk_scan_end end, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    status =
        mk_segment_log_path(segment, log->directory, path, sizeof path, err);
    if (status != MK_OK) return status;
    if (end == MK_SCAN_OLD) {
        status = mk_fail_at(err, MK_UNSUPPORTED, path, segment->log_bytes,
                            "%s has messages of an old format at position "
                            "%" PRId64 ", which are not read yet",
                            path, segment->log_bytes);
    } else {
        status = mk_fail_at(err, MK_CORRUPT_SEGMENT, path, segment->log_bytes,
                            "%s is damaged at position %" PRId64
                            ", after offset %" PRId64,
                            path, segment->log_bytes, segment->next_offset - 1);
    }
    if (err != NULL) err->offset = segment->next_offset;
    return status;
}

/* Is the file of an empty segment as `preallocate` made it? */
static mk_status is_preallocated(mk_segment_recovery *r, mk_segment *segment,
                                 int64_t size, bool *out, mk_error *err)
{
    mk_log *log = r->log;
    mk_status status;

    *out = log->config.preallocate && segment->log_bytes == 0 &&
           size == log->config.segment_bytes;
    if (!*out) return MK_OK;
    status = mk_log_pin_locked(log, segment, err);
    if (status != MK_OK) return status;
    for (int64_t at = 0; *out && status == MK_OK && at < size;) {
        size_t part =
            size - at < SCAN_BUDGET ? (size_t)(size - at) : SCAN_BUDGET;
        mk_span bytes;

        status =
            mk_file_view(segment->log.file, &r->scratch, at, part, &bytes, err);
        if (status != MK_OK) break;
        *out = bytes.size == part && mk_span_is_zero(bytes);
        at += (int64_t)part;
    }
    mk_log_unpin_locked(log, segment);
    return status;
}

mk_status mk_segment_recovery_load_indexes(mk_log *log, mk_segment *segment,
                                           mk_error *err)
{
    mk_status status =
        mk_segment_load_indexes(segment, log->vfs, log->directory, err);

    if (status != MK_CORRUPT_INDEX) return status;
    return mk_log_rebuild_indexes_locked(log, segment, false, err);
}

/* Does a sound batch stand behind the end of what was scanned? */
static mk_status goes_on(mk_segment_recovery *r, mk_segment *segment,
                         int64_t size, bool *out, mk_error *err)
{
    mk_batch_hunt hunt;
    mk_status status = mk_log_pin_locked(r->log, segment, err);

    *out = false;
    if (status != MK_OK) return status;
    mk_batch_hunt_init(&hunt, segment->log.file, size, segment->log_bytes + 1,
                       segment->next_offset, INT64_MAX, &r->scratch);
    while (status == MK_OK && !hunt.over) {
        status = mk_batch_hunt_step(&hunt, SCAN_BUDGET, err);
    }
    mk_log_unpin_locked(r->log, segment);
    *out = status == MK_OK && hunt.found;
    return status;
}

/* Would a cut take more than a torn batch of what a Kafka had on stable
 * storage? It would leave the file as it is. */
static mk_status check_kafkas(mk_segment_recovery *r, mk_segment *segment,
                              int64_t size, mk_scan_end end, mk_error *err)
{
    bool more;
    int64_t point;
    mk_status status;

    if (r->log->read_only) return MK_OK;
    status = mk_evidence_find_kafka_point(r->evidence, &point, err);
    if (status != MK_OK || segment->next_offset >= point) return status;
    status = goes_on(r, segment, size, &more, err);
    if (status != MK_OK || !more) return status;
    return fail_damaged(r->log, segment, end, err);
}

/* A segment is split where a batch is out of its base's reach; but one that is
 * as far from all that a Kafka had on stable storage has a damaged offset,
 * which no checksum covers. */
static mk_status check_reach(mk_segment_recovery *r, mk_segment *segment,
                             mk_error *err)
{
    int64_t point;
    mk_status status = mk_evidence_find_kafka_point(r->evidence, &point, err);
    mk_span bytes;
    bool far = false;

    if (status != MK_OK || point < 0) return status;
    status = mk_log_pin_locked(r->log, segment, err);
    if (status != MK_OK) return status;
    status = mk_file_view(segment->log.file, &r->scratch, segment->log_bytes,
                          MK_BATCH_HEADER_SIZE, &bytes, err);
    if (status == MK_OK && bytes.size == MK_BATCH_HEADER_SIZE) {
        int64_t base_offset = (int64_t)mk_load_u64(bytes.data);

        far = base_offset > point && base_offset - point > INT32_MAX;
    }
    mk_log_unpin_locked(r->log, segment);
    if (!far) return status;
    return fail_damaged(r->log, segment, MK_SCAN_DAMAGED, err);
}

/* What is made of the last segment's bytes that are no sound batches. */
static mk_status judge_tail(mk_segment_recovery *r, mk_segment *segment,
                            int64_t size, mk_scan_end *end, mk_error *err)
{
    bool sound = false;
    mk_status status =
        mk_evidence_insist(r->evidence, segment, size, &sound, err);

    if (status == MK_OK && !sound) {
        status = is_preallocated(r, segment, size, &sound, err);
    }
    if (status != MK_OK) return status;
    if (!sound) return check_kafkas(r, segment, size, *end, err);
    *end = MK_SCAN_WHOLE;
    return MK_OK;
}

/* Have the indexes of what is known of the segment before it is scanned on. */
static mk_status begin_indexes(mk_segment_recovery *r, mk_segment *segment,
                               mk_error *err)
{
    mk_log *log = r->log;
    mk_status status;

    if (segment->indexes_loaded) return MK_OK;
    status = mk_segment_load_indexes(segment, log->vfs, log->directory, err);
    if (status == MK_CORRUPT_INDEX) {
        status = mk_log_rebuild_indexes_locked(log, segment, false, err);
        if (status == MK_OK) mk_evidence_amend(r->evidence, segment);
    }
    segment->index_files_good = false; /* They may hold more. */
    return status;
}

mk_status mk_segment_recovery_check(mk_segment_recovery *r, mk_segment *segment,
                                    bool last, mk_scan_end *end, mk_error *err)
{
    mk_log *log = r->log;
    int64_t size;
    bool all;
    mk_status status;

    *end = MK_SCAN_WHOLE;
    status = mk_log_measure_segment(log, segment, &size, err);
    if (status != MK_OK) return status;
    status = mk_evidence_apply(r->evidence, segment, size, last, &all, err);
    if (status != MK_OK || all) return status;
    status = begin_indexes(r, segment, err);
    if (status != MK_OK) return status;
    if (size == 0) return MK_OK;
    status = mk_segment_recovery_scan(r, segment, size, end, err);
    if (status != MK_OK || *end == MK_SCAN_WHOLE) return status;
    if (*end == MK_SCAN_OLD) return fail_damaged(log, segment, *end, err);
    if (*end == MK_SCAN_OVERFLOW && !log->read_only) {
        return last ? check_reach(r, segment, err) : MK_OK;
    }
    if (last) return judge_tail(r, segment, size, end, err);
    return log->read_only ? MK_OK : fail_damaged(log, segment, *end, err);
}

static void exchange_indexes(mk_segment *a, mk_segment *b)
{
    mk_offset_index offsets = a->offsets;
    mk_time_index times = a->times;

    a->offsets = b->offsets;
    a->times = b->times;
    b->offsets = offsets;
    b->times = times;
}

/* Which batches have entries depends on when the log was closed in between, and
 * by which settings it grew. Index files that the state vouches for are as good
 * as what a scan makes of the same log: they stay. */
static mk_status keep_known_indexes(mk_log *log, const mk_state *state,
                                    mk_segment *segment, mk_error *err)
{
    const mk_segment_facts *facts = mk_state_find(state, segment->base_offset);
    mk_segment_facts found;
    mk_segment *known = NULL;
    mk_status status;

    mk_segment_get_facts(segment, &found);
    if (facts == NULL || !mk_segment_facts_same_log(facts, &found)) {
        return MK_OK;
    }
    status = mk_segment_new(&log->heap, segment->base_offset, &known, err);
    if (status != MK_OK) return status;
    mk_segment_take_facts(known, facts);
    known->stage = segment->stage;
    status = mk_segment_load_indexes(known, log->vfs, log->directory, err);
    if (status == MK_OK && known->index_files_good) {
        exchange_indexes(segment, known);
    }
    mk_segment_free(known);
    return status == MK_CORRUPT_INDEX ? MK_OK : status;
}

mk_status mk_segment_recovery_finish(mk_log *log, const mk_state *state,
                                     mk_segment *segment, mk_error *err)
{
    mk_status status = MK_OK;

    if (!segment->indexes_loaded) return MK_OK;
    mk_log_close_idle_file_locked(log, segment);
    if (!log->read_only) {
        status = keep_known_indexes(log, state, segment, err);
    }
    if (status == MK_OK) status = mk_segment_finish_times(segment, err);
    if (status != MK_OK || log->read_only) return status;
    status = mk_segment_confirm_indexes(segment, log->vfs, log->directory, err);
    return status == MK_OK ? mk_log_write_indexes_locked(log, segment, err)
                           : status;
}
