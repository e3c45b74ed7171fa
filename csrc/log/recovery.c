/*
 * recovery -- which bytes to read, and what they come to.
 *
 * What is known of segments by evidence need not be read. The rest is read and
 * checked batch by batch:
 *
 *  - in a sealed segment it must be sound to the end of the file;
 *  - in the active one the first unsound byte is the end of the log.
 *
 * A recovery that cuts the segment with the recovery point forgets the point,
 * unless damage below it stays: after a tear, the next one reads all. What was
 * found beyond the point is in the kernel's hands, and the next flush puts it
 * on stable storage.
 */
#include "log/recovery.h"

#include <inttypes.h>

#include "base/check.h"
#include "log/bounds.h"
#include "log/evidence.h"
#include "log/inventory.h"
#include "log/renew.h"
#include "log/segment_indexes.h"
#include "log/segment_recovery.h"
#include "log/segment_split.h"
#include "log/state_store.h"
#include "store/checkpoint_file.h"

#include "base/poison.h"

typedef struct recovery {
    mk_log *log; /* Borrowed. */
    mk_evidence evidence;
    mk_leftovers leftovers; /* What of them waits until the log is checked. */
    mk_segment_recovery segments;
    bool cut;            /* The active segment's file is to be cut. */
    bool split;          /* A segment was split: all is to be found anew. */
    int64_t kafka_start; /* From the checkpoint beside the log; -1: none. */
} recovery;

/* ---- What is there ---- */

/* A segment is not the log's any more. Its files go once all else of the
 * directory is found to be in order. */
static mk_status give_up(recovery *r, size_t i, mk_error *err)
{
    int64_t base_offset = r->log->segments[i]->base_offset;

    mk_log_forget_segments_locked(r->log, i, 1);
    return mk_leftovers_add_drop(&r->leftovers, base_offset, err);
}

/* Before something goes since the state says so: see that the state's name is
 * on stable storage. Its owner may have died before. */
static mk_status settle_state(recovery *r, mk_error *err)
{
    return mk_leftovers_add_sync(&r->leftovers, MK_SYNC_RECOVER_DIRECTORY, err);
}

/* Give up segments that lie wholly below the log start: their removal was cut
 * short. */
static mk_status drop_below(recovery *r, int64_t start_offset, mk_error *err)
{
    mk_log *log = r->log;
    mk_status status = MK_OK;
    size_t count = 0;

    while (count + 1 < log->segment_count &&
           log->segments[count + 1]->base_offset <= start_offset) {
        count++;
    }
    if (count > 0) status = settle_state(r, err);
    for (; status == MK_OK && count > 0; count--) {
        status = give_up(r, 0, err);
    }
    return status;
}

/* Give up the segments from number `first` on, the last one first. */
static mk_status drop_suffix(recovery *r, size_t first, mk_error *err)
{
    mk_log *log = r->log;
    mk_status status = MK_OK;

    if (log->segment_count <= first) return MK_OK;
    while (status == MK_OK && log->segment_count > first) {
        status = give_up(r, log->segment_count - 1, err);
    }
    if (status != MK_OK) return status;
    /* They have to be gone before the state forgets that they should be. */
    return mk_leftovers_add_sync(&r->leftovers, MK_SYNC_CUT_DIRECTORY, err);
}

/* Nothing counts that is known of segments that go beyond `end_offset`. */
static void forget_beyond(mk_state *state, int64_t end_offset)
{
    for (size_t i = 0; i < state->facts_count; i++) {
        if (state->facts[i].next_offset > end_offset) {
            mk_state_forget(state, state->facts[i].base_offset, INT64_MAX);
        }
    }
}

/* The state says that the end was being cut off: bring that to its end. What is
 * left to be cut in the last segment is passed over by the scan. */
static mk_status finish_cut(recovery *r, mk_error *err)
{
    mk_log *log = r->log;
    mk_state *state = &r->evidence.state;
    int64_t end_offset = state->end_offset;
    bool empties = end_offset <= state->log_start_offset &&
                   state->end_segment == end_offset;
    size_t kept = log->segment_count;
    mk_status status;

    r->segments.end_offset = INT64_MAX;
    if (!state->cutting) return MK_OK;
    while (kept > 0 &&
           (empties || log->segments[kept - 1]->base_offset > end_offset)) {
        kept--;
    }
    if (empties) state->log_start_offset = end_offset;
    log->cut_to = end_offset;
    log->cut_segment = state->end_segment;
    log->cut_size = state->end_position;
    r->segments.end_offset = end_offset;
    forget_beyond(state, end_offset);
    status = settle_state(r, err);
    return status == MK_OK ? drop_suffix(r, kept, err) : status;
}

/* ---- Checking ---- */

/* Give what its base offset does not reach to a segment of its own. */
static mk_status split_segment(recovery *r, mk_segment *segment, bool last,
                               mk_error *err)
{
    mk_log *log = r->log;
    size_t i = mk_log_find_segment_locked(log, segment->base_offset);
    int64_t end = last ? INT64_MAX : log->segments[i + 1]->base_offset;
    mk_status status = mk_inventory_settle(log, &r->leftovers, err);

    r->split = true;
    if (status != MK_OK) return status;
    return mk_segment_split(log, segment, end, last, err);
}

/* Check one segment; one that was split is to be found anew. */
static mk_status check_segment(recovery *r, mk_segment *segment, bool last,
                               mk_scan_end *end, mk_error *err)
{
    mk_status status =
        mk_segment_recovery_check(&r->segments, segment, last, end, err);

    if (status != MK_OK || *end != MK_SCAN_OVERFLOW || r->log->read_only) {
        return status;
    }
    return split_segment(r, segment, last, err);
}

static mk_status check_order(const mk_log *log, size_t i, mk_error *err)
{
    const mk_segment *segment = log->segments[i];
    const mk_segment *next = log->segments[i + 1];

    if (segment->next_offset <= next->base_offset) return MK_OK;
    return mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory, -1,
                      "the segments at %" PRId64 " and %" PRId64
                      " of %s overlap",
                      segment->base_offset, next->base_offset, log->directory);
}

/* An unknown empty last segment below the end of the one before it is what a
 * roll left that failed. The other one is looked at as the last one then. */
static mk_status drop_failed_roll(recovery *r, mk_scan_end *end, mk_error *err)
{
    size_t count = r->log->segment_count;
    mk_segment **last;
    mk_status status;

    if (count < 2 || *end == MK_SCAN_DAMAGED) return MK_OK;
    if (r->evidence.ends_early) return MK_OK;
    last = r->log->segments + count - 1;
    if (last[0]->log_bytes > 0 ||
        last[-1]->next_offset <= last[0]->base_offset ||
        mk_state_knows(&r->evidence.state, last[0]->base_offset)) {
        return MK_OK;
    }
    status = give_up(r, count - 1, err);
    if (status != MK_OK) return status;
    mk_segment_reset(last[-1]);
    return check_segment(r, last[-1], true, end, err);
}

/* Leave the segments from number `i` on aside: what stands before them is the
 * log that is read. */
static void end_before(recovery *r, size_t i)
{
    mk_log *log = r->log;

    mk_log_forget_segments_locked(log, i, log->segment_count - i);
    r->evidence.ends_early = true;
}

/* Do the segments follow each other, with nothing missing between them? */
static mk_status check_sequence(recovery *r, mk_error *err)
{
    mk_log *log = r->log;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i <= log->segment_count; i++) {
        if (i > 0 && i < log->segment_count) {
            status = check_order(log, i - 1, err);
        }
        if (status == MK_OK) {
            status = mk_evidence_check_gap(&r->evidence, i, err);
        }
        if (status != MK_CORRUPT_SEGMENT || !log->read_only) continue;
        end_before(r, i);
        status = MK_OK;
    }
    return status;
}

static mk_status check_segments(recovery *r, mk_error *err)
{
    mk_log *log = r->log;
    mk_scan_end end = MK_SCAN_WHOLE;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < log->segment_count; i++) {
        bool last = i + 1 == log->segment_count;

        status = check_segment(r, log->segments[i], last, &end, err);
        if (status != MK_OK || r->split) return status;
        if (end != MK_SCAN_WHOLE && !last) end_before(r, i + 1);
    }
    if (status == MK_OK) status = drop_failed_roll(r, &end, err);
    if (status != MK_OK || r->split) return status;
    /* Where a cut was made, it may not be stable yet. */
    r->cut = end != MK_SCAN_WHOLE ||
             (r->evidence.state.cutting && log->segment_count > 0);
    status = check_sequence(r, err);
    if (status == MK_OK) {
        status = mk_inventory_settle(log, &r->leftovers, err);
    }
    for (size_t i = 0; status == MK_OK && i + 1 < log->segment_count; i++) {
        status = mk_segment_recovery_finish(log, &r->evidence.state,
                                            log->segments[i], err);
    }
    return status;
}

/* ---- What becomes of it ---- */

/* What is below it outlasted the last owner. */
static const mk_recovery_point *proven_point(const recovery *r)
{
    bool believed = r->evidence.believed >= r->log->recovery_point.offset;

    return believed ? &r->evidence.state.recovery_point
                    : &r->log->recovery_point;
}

/* Cut the active segment's file to what is sound, and see that the cut stays
 * before anything is appended behind it. */
static mk_status cut_tail(mk_log *log, mk_error *err)
{
    mk_segment *active = mk_log_active_locked(log);
    mk_file *file = NULL;
    char path[MK_PATH_MAX];
    bool unshared;
    int64_t size;
    mk_status status;

    status = mk_log_measure_segment(log, active, &size, err);
    if (status != MK_OK) return status;
    log->stats.truncated_bytes = size - active->log_bytes;
    status = mk_name_segment_file(path, sizeof path, log->directory,
                                  active->base_offset, MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    mk_log_close_idle_file_locked(log, active);
    status =
        mk_segment_unshare_log(log->vfs, log->directory, active->base_offset,
                               active->log_bytes, false, &unshared, err);
    if (status != MK_OK) return status;
    if (unshared) {
        return mk_vfs_sync_directory(log->vfs, log->directory,
                                     MK_SYNC_CUT_DIRECTORY, err);
    }
    status = mk_file_open(log->vfs, path, MK_OPEN_WRITE, &file, err);
    if (status != MK_OK) return status;
    status = mk_file_truncate(file, active->log_bytes, err);
    if (status == MK_OK) {
        status = mk_file_sync(file, true, MK_SYNC_TRUNCATE_LOG, err);
        if (status != MK_OK) mk_log_doubt_sync_locked(log, err);
    }
    (void)mk_file_close(file, NULL); /* It was synced, or failed. */
    return status;
}

/* Does the state file say what is known now? */
static mk_status compare_state(recovery *r, mk_error *err)
{
    mk_log *log = r->log;
    mk_state state;
    mk_status status;

    if (log->segment_count == 0) return MK_OK;
    status = mk_log_get_state_locked(log, log->segments, log->segment_count,
                                     &state, err);
    if (status == MK_OK) {
        log->state_stale =
            r->evidence.changed || !mk_state_equals(&state, &r->evidence.state);
    }
    mk_state_deinit(&state);
    return status;
}

/* Load the active segment's indexes. Where the recovery point was forgotten,
 * the next opening will read all: it is to find each index in order, as the
 * state vouches for it. */
static mk_status load_indexes(recovery *r, mk_error *err)
{
    mk_log *log = r->log;
    bool forgotten = r->evidence.believed > log->recovery_point.offset;
    size_t i = log->segment_count;
    mk_status status = MK_OK;

    if (i > 0) {
        i--;
        status = mk_segment_recovery_load_indexes(log, log->segments[i], err);
    }
    while (forgotten && !log->read_only && status == MK_OK && i > 0) {
        mk_segment *segment = log->segments[--i];

        if (segment->indexes_loaded) continue; /* It was read, and finished. */
        status = mk_log_load_indexes_locked(log, segment, err);
        if (status == MK_OK) {
            status = mk_segment_recovery_finish(log, &r->evidence.state,
                                                segment, err);
        }
    }
    return status;
}

/* The checkpoint beside the log moved its start, and may be gone tomorrow: what
 * lies below goes once our own state says so. */
static mk_status drop_below_checkpoint(recovery *r, mk_error *err)
{
    mk_log *log = r->log;
    mk_error scratch;
    mk_status status = MK_OK;

    if (log->segment_count < 2 ||
        log->segments[1]->base_offset > log->log_start_offset) {
        return MK_OK;
    }
    if (err == NULL) err = &scratch;
    r->evidence.changed = true;
    if (!log->read_only) status = mk_log_store_state_locked(log, true, err);
    if (status == MK_OK) status = drop_below(r, log->log_start_offset, err);
    if (status == MK_OK) status = mk_inventory_settle(log, &r->leftovers, err);
    if (log->recovery_point.segment < log->segments[0]->base_offset) {
        mk_log_forget_point_locked(log);
    }
    return mk_is_no_room(status, err) ? MK_OK : status;
}

/* ---- Public functions ---- */

static mk_status plan_total(recovery *r, mk_error *err)
{
    for (size_t i = 0; i < r->log->segment_count; i++) {
        mk_segment *segment = r->log->segments[i];
        const mk_segment_facts *facts =
            mk_state_find(&r->evidence.state, segment->base_offset);
        int64_t size;
        mk_status status = mk_log_measure_segment(r->log, segment, &size, err);

        if (status != MK_OK) return status;
        if (facts != NULL && facts->next_offset <= r->evidence.believed &&
            facts->log_bytes <= size) {
            size -= facts->log_bytes;
        }
        r->segments.total += size;
    }
    return MK_OK;
}

static mk_status recover_once(mk_log *log, const mk_progress *progress,
                              bool *again, mk_error *err)
{
    recovery r = {.log = log, .kafka_start = -1};
    mk_status status;

    r.segments = (mk_segment_recovery){
        .log = log, .evidence = &r.evidence, .progress = progress};
    mk_leftovers_init(&r.leftovers, &log->heap);
    mk_scratch_init(&r.segments.scratch, &log->heap);
    log->stats.lost_from_offset = log->stats.lost_to_offset = -1;
    status = mk_evidence_load(&r.evidence, log, err);
    if (status == MK_OK) {
        status = mk_checkpoint_find(log->vfs, &log->heap, log->directory,
                                    MK_NAME_KAFKA_STARTS, &r.kafka_start, err);
    }
    if (status == MK_OK) {
        status = mk_inventory_take(log, &r.evidence, &r.leftovers, err);
    }
    if (status == MK_OK) {
        status = mk_evidence_forget(&r.evidence, &r.leftovers, err);
    }
    if (status == MK_OK) {
        status = drop_below(&r, r.evidence.state.log_start_offset, err);
    }
    if (status == MK_OK) status = finish_cut(&r, err);
    if (status == MK_OK) {
        status = mk_evidence_weigh(&r.evidence, &r.segments.scratch, err);
    }
    if (status == MK_OK && progress != NULL && progress->report != NULL) {
        status = plan_total(&r, err);
    }
    if (status == MK_OK) status = check_segments(&r, err);
    *again = r.split;
    if (status != MK_OK || r.split) goto done;
    status = mk_bounds_find(log, &r.evidence, r.kafka_start, r.cut, err);
    if (status != MK_OK) goto done;
    log->stats.recovered_bytes = r.segments.done;
    log->stats.ends_early = r.evidence.ends_early;
    if (r.cut && !log->read_only) status = cut_tail(log, err);
    if (status == MK_OK) status = mk_log_renew(log, proven_point(&r), err);
    if (status == MK_OK) status = load_indexes(&r, err);
    if (status == MK_OK) status = drop_below_checkpoint(&r, err);
    if (status == MK_OK) status = compare_state(&r, err);
done:
    mk_leftovers_deinit(&r.leftovers);
    mk_evidence_deinit(&r.evidence);
    mk_scratch_deinit(&r.segments.scratch);
    return status;
}

mk_status mk_log_recover(mk_log *log, const mk_progress *progress,
                         mk_error *err)
{
    for (;;) {
        bool again = false;
        mk_status status = recover_once(log, progress, &again, err);

        if (status != MK_OK || !again) return status;
        mk_log_forget_segments_locked(log, 0, log->segment_count);
    }
}

/* How large is the file of a reader's last segment? One that is no longer the
 * open one, as who opened the log for writing put a copy in its place, does not
 * grow: that is NOT_FOUND, as is one that is shorter than it was. */
static mk_status measure_active(mk_log *log, const mk_segment *active,
                                int64_t *out, mk_error *err)
{
    mk_file_stat named, open;
    mk_status status = mk_log_stat_segment(log, active, &named, err);

    if (status != MK_OK) return status;
    *out = named.size;
    if (named.size < active->log_bytes) {
        return mk_fail_at(err, MK_NOT_FOUND, log->directory, named.size,
                          "the end of %s was cut off", log->directory);
    }
    if (active->log.file == NULL) return MK_OK;
    status = mk_file_stat_open(active->log.file, &open, err);
    if (status != MK_OK || open.inode == named.inode) return status;
    return mk_fail_at(err, MK_NOT_FOUND, log->directory, -1,
                      "the end of %s was replaced", log->directory);
}

mk_status mk_log_follow_locked(mk_log *log, mk_error *err)
{
    mk_evidence evidence = {.state = {.dense_offset = log->dense_offset}};
    mk_segment_recovery r = {
        .log = log,
        .evidence = &evidence,
        /* What is being cut off may still be there. */
        .end_offset = log->cut_to >= 0 ? log->cut_to : INT64_MAX,
    };
    mk_segment *active = mk_log_active_locked(log);
    mk_scan_end end;
    int64_t size;
    mk_status status;

    /* Nobody appends there, and its file may be shorter than it should be. */
    if (log->stats.ends_early) return MK_OK;
    status = measure_active(log, active, &size, err);
    if (status != MK_OK || size == active->log_bytes) return status;
    mk_scratch_init(&r.scratch, &log->heap);
    status = mk_segment_recovery_scan(&r, active, size, &end, err);
    mk_scratch_deinit(&r.scratch);
    if (active->next_offset > log->log_end_offset) {
        log->log_end_offset = active->next_offset;
    }
    return status;
}
