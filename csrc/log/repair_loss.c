/* repair_loss -- comparing the state with the files. */
#include "log/repair_loss.h"

#include "base/poison.h"

static void note_lost(mk_repair_work *work, int64_t from, int64_t to)
{
    if (from >= to) return;
    if (work->lost_from < 0 || from < work->lost_from) work->lost_from = from;
    if (to > work->lost_to) work->lost_to = to;
}

/* Segments that are missing wherever the state knows them. */
static void find_lost_segments(mk_repair_work *work)
{
    const mk_state *state = &work->state;

    for (size_t i = 0; work->missing && i < state->facts_count; i++) {
        const mk_segment_facts *facts = &state->facts[i];

        work->state_differs = true;
        if (facts->next_offset <= state->log_start_offset) continue;
        if (facts->next_offset > state->recovery_point.offset) continue;
        if (mk_repair_work_covers(work, facts)) continue;
        note_lost(work, facts->base_offset, facts->next_offset);
    }
}

/* From where on must batches follow each other without gaps? */
static int64_t dense_offset(const mk_repair_work *work)
{
    return work->gaps_below > work->state.dense_offset
               ? work->gaps_below
               : work->state.dense_offset;
}

/* Are offsets missing between the segments that stay, or in them, as opening
 * would find? */
void mk_repair_find_gaps(mk_repair_work *work)
{
    int64_t due = work->state.log_start_offset;

    work->lost_from = work->lost_to = -1;
    if (!mk_repair_work_has_state(work)) return;
    find_lost_segments(work);
    for (size_t i = 0; i < work->files.count; i++) {
        const mk_repair_file *file = &work->files.array[i];

        if (file->fate == MK_FATE_DROP) continue;
        if (due < dense_offset(work)) due = dense_offset(work);
        note_lost(work, due, file->base_offset);
        due = file->next_offset;
        if (file->found.gap_end > dense_offset(work)) {
            work->state_differs = true;
        }
    }
}

/* Does a segment have less than the state says? */
void mk_repair_find_shortened(mk_repair_work *work)
{
    const mk_recovery_point *point = &work->state.recovery_point;

    for (size_t i = 0; mk_repair_work_has_state(work) && i < work->files.count;
         i++) {
        const mk_repair_file *file = &work->files.array[i];
        const mk_segment_facts *facts =
            mk_state_find(&work->state, file->name.offset);
        bool durable = facts != NULL && facts->next_offset <= point->offset;

        if (!durable || file->fate != MK_FATE_KEEP) continue;
        if (file->size >= facts->log_bytes) continue;
        work->state_differs = true;
        note_lost(work, file->next_offset, facts->next_offset);
    }
}

/* Where the log ends: behind all that can be read, and behind what was there
 * for good. */
void mk_repair_find_end(mk_repair_work *work)
{
    const mk_state *state = &work->state;
    const mk_repair_file *last = mk_repair_files_last(&work->files);
    int64_t end = work->files.end_offset;

    work->end_is_told = false;
    if (mk_repair_work_has_state(work)) {
        work->end_is_told = last != NULL && last->fate == MK_FATE_KEEP &&
                            last->name.offset == state->end_segment &&
                            last->size == state->end_position &&
                            state->recovery_point.offset <= state->end_offset;
        if (work->end_is_told && end < state->end_offset) {
            end = state->end_offset;
        }
        if (end < state->recovery_point.offset) {
            end = state->recovery_point.offset;
        }
        if (end < state->log_start_offset) end = state->log_start_offset;
    }
    work->end_offset = end;
}
