/* state_store -- the state file, and the reserve that makes room for it. */
#include "log/state_store.h"

#include "store/reserve_file.h"

#include "base/poison.h"

#define STATE_LINE_SIZE 128 /* Hardly a segment takes more in the state. */
#define PAGE_SIZE       4096

/* Has the segment grown past the recovery point? What is known of the rest is
 * no help to a recovery, which has to read it. */
static bool is_passed(const mk_recovery_point *point,
                      const mk_segment_facts *facts)
{
    return point->segment == facts->base_offset &&
           point->then.base_offset == facts->base_offset &&
           point->offset < facts->next_offset;
}

/* What is known of a segment that lies above the recovery point is not
 * believed. Which entries the active one's indexes have depends there on how
 * much of it was read: so that one recovery says what the next one does, they
 * are not told. */
static void hide_indexes(const mk_recovery_point *point,
                         mk_segment_facts *facts)
{
    if (point->segment >= 0 && facts->next_offset <= point->offset) return;
    facts->offset_entries = facts->time_entries = 0;
    facts->index_checksum = 0;
}

mk_status mk_log_get_state_locked(const mk_log *log,
                                  mk_segment *const *segments, size_t count,
                                  mk_state *out, mk_error *err)
{
    const mk_segment *active = segments[count - 1];
    mk_status status = MK_OK;

    mk_state_init(out, &log->heap);
    out->log_start_offset = log->log_start_offset;
    out->dense_offset = log->dense_offset;
    out->end_offset = log->log_end_offset;
    out->end_segment = active->base_offset;
    out->end_position = active->log_bytes;
    out->recovery_point = log->recovery_point;
    out->cutting = log->cut_to >= 0;
    if (out->cutting) {
        out->end_offset = log->cut_to;
        out->end_segment = log->cut_segment;
        out->end_position = log->cut_size;
    }
    for (size_t i = 0; status == MK_OK && i < count; i++) {
        mk_segment_facts facts;

        mk_segment_get_facts(segments[i], &facts);
        if (is_passed(&log->recovery_point, &facts)) {
            facts = log->recovery_point.then;
        }
        if (segments[i] == active) hide_indexes(&log->recovery_point, &facts);
        status = mk_state_add(out, &facts, err);
    }
    return status;
}

/* Room for a state of so many segments, and for its name. */
static int64_t reserve_size(size_t segment_count)
{
    int64_t pages = (int64_t)(segment_count * STATE_LINE_SIZE) / PAGE_SIZE + 1;

    return 2 * pages * PAGE_SIZE;
}

void mk_log_keep_reserve_locked(mk_log *log)
{
    int64_t size = reserve_size(log->segment_count);

    if (log->reserve_bytes >= size) return;
    if (mk_reserve_keep(log->vfs, log->directory, size, NULL) == MK_OK) {
        log->reserve_bytes = size;
    }
}

bool mk_log_give_up_reserve_locked(mk_log *log)
{
    log->reserve_bytes = 0;
    return mk_reserve_give_up(log->vfs, log->directory, NULL) == MK_OK;
}

/* Store the state, if need be where the reserve was. */
static mk_status store_state(mk_log *log, const mk_state *state, bool durable,
                             bool *begun, mk_error *err)
{
    bool before;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    status =
        mk_state_replace(state, log->vfs, log->directory, durable, begun, err);
    if (!mk_is_no_room(status, err)) return status;
    if (!mk_log_give_up_reserve_locked(log)) return status;
    before = *begun; /* It may have been the names that had no room. */
    status =
        mk_state_replace(state, log->vfs, log->directory, durable, begun, err);
    *begun = *begun || before;
    return status;
}

static mk_status replace_state(mk_log *log, bool durable, bool *begun,
                               mk_error *err)
{
    mk_state state;
    mk_status status = mk_log_check_place_locked(log, err);

    *begun = false;
    if (status != MK_OK) return status;
    status = mk_log_get_state_locked(log, log->segments, log->segment_count,
                                     &state, err);
    if (status == MK_OK) {
        status = store_state(log, &state, durable, begun, err);
    }
    if (status == MK_OK) {
        log->state_stale = false;
        log->unstored_bytes = 0;
        mk_log_keep_reserve_locked(log);
    }
    mk_state_deinit(&state);
    return status;
}

mk_status mk_log_replace_state_locked(mk_log *log, bool *begun, mk_error *err)
{
    return replace_state(log, true, begun, err);
}

mk_status mk_log_store_state_locked(mk_log *log, bool durable, mk_error *err)
{
    bool begun;

    return replace_state(log, durable, &begun, err);
}

mk_status mk_log_end_cut_locked(mk_log *log, mk_error *err)
{
    int64_t cut_to = log->cut_to;
    mk_status status;

    log->cut_to = -1;
    status = mk_log_store_state_locked(log, true, err);
    if (status != MK_OK) log->cut_to = cut_to;
    return status;
}
