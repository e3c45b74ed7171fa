/* copy_end -- taking the end of a log, and writing it down. */
#include "log/copy_end.h"

#include "log/segment_indexes.h"

#include "base/poison.h"

void mk_copy_part_fill_locked(mk_copy_part *part, const mk_log *log,
                              const mk_segment *segment)
{
    *part = (mk_copy_part){.id = segment->id, .stage = segment->stage};
    mk_segment_get_facts(segment, &part->facts);
    part->durable =
        segment->synced || segment->next_offset <= log->recovery_point.offset;
}

void mk_copy_end_init(mk_copy_end *end, const mk_heap *heap)
{
    *end = (mk_copy_end){.heap = heap};
}

void mk_copy_end_deinit(mk_copy_end *end)
{
    for (int i = 0; i < 2; i++) {
        mk_release(end->heap, end->indexes[i]);
        end->indexes[i] = NULL;
    }
    end->known = false;
}

/* Keep what the index files of the last segment would hold now. */
static mk_status keep_indexes(mk_copy_end *end, const mk_segment *segment,
                              mk_error *err)
{
    end->index_sizes[0] = segment->offsets.count * MK_OFFSET_ENTRY_SIZE;
    end->index_sizes[1] = segment->times.count * MK_TIME_ENTRY_SIZE;
    for (int i = 0; i < 2; i++) {
        end->indexes[i] = mk_alloc(end->heap, end->index_sizes[i] + 1);
        if (end->indexes[i] == NULL) {
            return mk_fail_memory(err, end->index_sizes[i] + 1);
        }
    }
    mk_offset_index_encode(&segment->offsets, 0, end->indexes[0]);
    mk_time_index_encode(&segment->times, 0, end->indexes[1]);
    return MK_OK;
}

mk_status mk_copy_end_take_locked(mk_copy_end *end, mk_log *log, mk_error *err)
{
    mk_segment *active = mk_log_active_locked(log);
    mk_status status;

    mk_copy_end_deinit(end);
    status = mk_log_load_indexes_locked(log, active, err);
    if (status == MK_OK) status = keep_indexes(end, active, err);
    if (status != MK_OK) return status;
    end->known = true;
    end->generation = log->generation;
    mk_copy_part_fill_locked(&end->part, log, active);
    end->part.durable = false; /* It will be a file of its own. */
    end->log_end_offset = log->log_end_offset;
    end->dense_offset = log->dense_offset;
    end->point = (mk_recovery_point){
        .offset = log->log_end_offset,
        .segment = active->base_offset,
        .batch_position = active->last_batch_position,
        .end_position = active->log_bytes,
        .checksum = active->last_batch_checksum,
        .then = end->part.facts,
    };
    if (active->log_bytes > 0 && active->last_batch_position < 0) {
        /* A reader need not know its last batch; then nothing is proved. */
        end->point = (mk_recovery_point){
            .offset = log->log_start_offset,
            .segment = -1,
            .batch_position = -1,
            .end_position = -1,
        };
    }
    return MK_OK;
}

static mk_status write_file(mk_vfs *vfs, const char *path, mk_span content,
                            mk_error *err)
{
    mk_file *file = NULL;
    mk_status status, closed;

    status =
        mk_file_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, &file, err);
    if (status != MK_OK) return status;
    if (content.size > 0) {
        status = mk_file_write(file, 0, content.data, content.size, err);
    }
    closed = mk_file_close(file, status == MK_OK ? err : NULL);
    return status != MK_OK ? status : closed;
}

/* These are caches: they need not be on stable storage. */
static mk_status write_indexes(const mk_copy_end *end, mk_vfs *vfs,
                               const char *tree, mk_error *err)
{
    static const mk_file_role roles[] = {MK_ROLE_OFFSET_INDEX,
                                         MK_ROLE_TIME_INDEX};

    for (int i = 0; i < 2; i++) {
        mk_span content = {end->indexes[i], end->index_sizes[i]};
        char path[MK_PATH_MAX];
        mk_status status =
            mk_name_segment_file(path, sizeof path, tree,
                                 end->part.facts.base_offset, roles[i], err);

        if (status == MK_OK) status = write_file(vfs, path, content, err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

mk_status mk_copy_end_write(const mk_copy_end *end, const mk_copy_part *parts,
                            size_t count, int64_t log_start_offset, mk_vfs *vfs,
                            const char *tree, mk_error *err)
{
    mk_state state;
    mk_status status = write_indexes(end, vfs, tree, err);

    if (status != MK_OK) return status;
    mk_state_init(&state, end->heap);
    state.log_start_offset = log_start_offset;
    state.dense_offset = end->dense_offset;
    state.end_offset = end->log_end_offset;
    state.end_segment = end->part.facts.base_offset;
    state.end_position = end->part.facts.log_bytes;
    state.recovery_point = end->point;
    for (size_t i = 0; status == MK_OK && i < count; i++) {
        status = mk_state_add(&state, &parts[i].facts, err);
    }
    if (status == MK_OK) {
        status = mk_state_store(&state, vfs, tree, true, err);
    }
    mk_state_deinit(&state);
    return status;
}
