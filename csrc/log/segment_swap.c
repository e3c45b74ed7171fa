/* segment_swap -- writing beside, renaming, and removing what was there. */
#include "log/segment_swap.h"

#include <string.h>

#include "base/check.h"
#include "log/state_store.h"
#include "store/rewrite_note.h"
#include "store/staged_file.h"

#include "base/poison.h"

#define BUFFER_SIZE   (256u << 10)
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* The files of an output. */
static const mk_file_role roles[] = {MK_ROLE_LOG, MK_ROLE_OFFSET_INDEX,
                                     MK_ROLE_TIME_INDEX};

/* ---- Files ---- */

static mk_status rename_file(mk_log *log, mk_file_name name, mk_file_stage to,
                             mk_error *err)
{
    return mk_staged_file_rename(log->vfs, log->directory, name, to, err);
}

/* Rename all files of an output. */
static mk_status rename_output(mk_log *log, mk_segment *segment,
                               mk_file_stage to, mk_error *err)
{
    mk_file_stage from = segment->stage;
    mk_status status = MK_OK;

    for (size_t i = 0; status == MK_OK && i < LENGTH(roles); i++) {
        mk_file_name name = {roles[i], from, segment->base_offset};

        status = rename_file(log, name, to, err);
        if (status == MK_OK) segment->stage = to; /* Its log comes first. */
    }
    return status;
}

/* Unlink a file; that it is missing is fine. */
static mk_status unlink_file(mk_log *log, mk_file_name name, mk_error *err)
{
    mk_status status =
        mk_staged_file_unlink(log->vfs, log->directory, name, err);

    return status == MK_NOT_FOUND ? MK_OK : status;
}

/* Unlink what there is of the outputs; the first error is told. */
static mk_status unlink_outputs(mk_segment_swap *swap)
{
    mk_status result = MK_OK;

    for (size_t i = 0; i < swap->output_count; i++) {
        for (size_t r = 0; r < LENGTH(roles); r++) {
            mk_file_name name = {roles[r], MK_STAGE_CLEANED,
                                 swap->outputs[i]->base_offset};
            mk_status status = unlink_file(swap->log, name, NULL);

            if (result == MK_OK) result = status;
        }
    }
    return result;
}

/* ---- Building ---- */

/* Learn the time that the outputs get: Kafka's retention falls back on it. */
static mk_status take_mtime(mk_segment_swap *swap, const mk_segment *last,
                            mk_error *err)
{
    mk_log *log = swap->log;
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status =
        mk_segment_log_path(last, log->directory, path, sizeof path, err);

    if (status == MK_OK) status = mk_vfs_stat(log->vfs, path, &stat, err);
    if (status == MK_OK) swap->mtime_ms = stat.mtime_ms;
    return status;
}

static mk_status begin(mk_segment_swap *swap, mk_log *log,
                       const mk_segment *first, const mk_segment *last,
                       int64_t end, mk_error *err)
{
    mk_status status;

    *swap = (mk_segment_swap){
        .log = log,
        .first = first->base_offset,
        .end = end,
    };
    mk_scratch_init(&swap->buffer, &log->heap);
    status = take_mtime(swap, last, err);
    if (status != MK_OK) return status;
    return mk_scratch_reserve(&swap->buffer, BUFFER_SIZE, err);
}

mk_status mk_segment_swap_begin_locked(mk_segment_swap *swap, mk_log *log,
                                       size_t first, size_t count,
                                       mk_error *err)
{
    mk_segment **sources = log->segments + first;
    mk_error scratch;
    mk_status status;

    MK_ASSERT(log->maintaining);
    MK_ASSERT(count > 0);
    MK_ASSERT(first + count < log->segment_count);
    if (err == NULL) err = &scratch;
    status = begin(swap, log, sources[0], sources[count - 1],
                   sources[count]->base_offset, err);
    if (status != MK_OK || !log->directory_dirty) return status;
    /* An output must not outlive its sources' names. */
    mk_mutex_unlock(&log->mutex);
    status = mk_vfs_sync_directory(log->vfs, log->directory,
                                   MK_SYNC_FLUSH_DIRECTORY, err);
    mk_mutex_lock(&log->mutex);
    if (status != MK_OK) mk_log_doubt_sync_locked(log, err);
    return status;
}

static mk_segment *last_output(const mk_segment_swap *swap)
{
    return swap->outputs[swap->output_count - 1];
}

static mk_status write_buffer(mk_segment_swap *swap, mk_error *err)
{
    int64_t end = last_output(swap)->log_bytes;
    mk_status status;

    if (swap->buffered == 0) return MK_OK;
    status = mk_file_write(swap->file, end - (int64_t)swap->buffered,
                           swap->buffer.data, swap->buffered, err);
    swap->buffered = 0;
    return status;
}

static mk_status new_output(mk_segment_swap *swap, int64_t base_offset,
                            mk_error *err)
{
    mk_log *log = swap->log;
    void *array = swap->outputs;
    mk_segment *segment = NULL;
    mk_status status =
        mk_grow(&log->heap, &array, &swap->output_capacity,
                swap->output_count + 1, sizeof *swap->outputs, err);

    swap->outputs = array;
    if (status == MK_OK) {
        status = mk_segment_new(&log->heap, base_offset, &segment, err);
    }
    if (status != MK_OK) return status;
    segment->sealed = true;
    segment->stage = MK_STAGE_CLEANED;
    swap->outputs[swap->output_count++] = segment;
    return MK_OK;
}

mk_status mk_segment_swap_add_output(mk_segment_swap *swap, int64_t base_offset,
                                     mk_error *err)
{
    mk_log *log = swap->log;
    char path[MK_PATH_MAX];
    mk_status status;

    MK_ASSERT(base_offset < swap->end);
    if (swap->output_count == 0) {
        MK_ASSERT(base_offset >= swap->first);
    } else {
        MK_ASSERT(base_offset >= last_output(swap)->next_offset);
        status = mk_segment_swap_finish(swap, err);
        if (status != MK_OK) return status;
    }
    status = new_output(swap, base_offset, err);
    if (status != MK_OK) return status;
    status = mk_segment_log_path(last_output(swap), log->directory, path,
                                 sizeof path, err);
    if (status != MK_OK) return status;
    return mk_file_open(log->vfs, path,
                        MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_TRUNCATE,
                        &swap->file, err);
}

mk_status mk_segment_swap_append(mk_segment_swap *swap, const uint8_t *bytes,
                                 const mk_batch *batch, mk_error *err)
{
    mk_status status = MK_OK;

    MK_ASSERT(mk_batch_next_offset(batch) <= swap->end);
    if (swap->buffered + batch->size > swap->buffer.capacity) {
        status = write_buffer(swap, err);
    }
    if (status == MK_OK && batch->size > swap->buffer.capacity) {
        status = mk_scratch_reserve(&swap->buffer, batch->size, err);
    }
    if (status != MK_OK) return status;
    memcpy(swap->buffer.data + swap->buffered, bytes, batch->size);
    swap->buffered += batch->size;
    return mk_segment_note(last_output(swap), batch,
                           swap->log->config.index_interval_bytes, err);
}

/* Put one file of an output on stable storage, with its time. */
static mk_status sync_file(mk_segment_swap *swap, mk_file_role role,
                           mk_error *err)
{
    mk_log *log = swap->log;
    mk_file_name name = {role, MK_STAGE_CLEANED,
                         last_output(swap)->base_offset};
    mk_sync_name sync =
        role == MK_ROLE_LOG ? MK_SYNC_SEGMENT_LOG : MK_SYNC_SEGMENT_INDEX;
    mk_file *file = NULL;
    char path[MK_PATH_MAX];
    mk_status status =
        mk_name_file(path, sizeof path, log->directory, name, err);

    if (status != MK_OK) return status;
    status = mk_vfs_set_mtime(log->vfs, path, swap->mtime_ms, err);
    if (status != MK_OK) return status;
    status = mk_file_open(log->vfs, path, MK_OPEN_WRITE, &file, err);
    if (status != MK_OK) return status;
    status = mk_file_sync(file, false, sync, err);
    (void)mk_file_close(file, NULL); /* It was synced, or failed. */
    return status;
}

mk_status mk_segment_swap_finish(mk_segment_swap *swap, mk_error *err)
{
    mk_log *log = swap->log;
    mk_segment *segment = last_output(swap);
    mk_file *file = swap->file;
    mk_status status;

    if (file == NULL) return MK_OK;
    status = write_buffer(swap, err);
    swap->file = NULL;
    if (status == MK_OK) {
        status = mk_file_close(file, err);
    } else {
        (void)mk_file_close(file, NULL); /* The first error counts. */
    }
    if (status == MK_OK) status = mk_segment_finish_times(segment, err);
    if (status == MK_OK) {
        status =
            mk_segment_write_indexes(segment, log->vfs, log->directory, err);
    }
    for (size_t i = 0; status == MK_OK && i < LENGTH(roles); i++) {
        status = sync_file(swap, roles[i], err);
    }
    segment->synced = status == MK_OK;
    return status;
}

/* ---- Publishing ---- */

/* Number of the first source, and how many there are. */
static size_t find_sources(const mk_segment_swap *swap, size_t *count)
{
    const mk_log *log = swap->log;
    size_t first = mk_log_find_segment_locked(log, swap->first);

    *count = mk_log_find_segment_locked(log, swap->end) - first;
    MK_ASSERT(log->segments[first]->base_offset == swap->first);
    MK_ASSERT(log->segments[first + *count]->base_offset == swap->end);
    return first;
}

static mk_status add_part(mk_rewrite_note *note, const mk_segment *segment,
                          bool is_output, mk_error *err)
{
    mk_rewrite_part part = {segment->base_offset, segment->log_bytes, -1, 0};

    if (is_output) {
        part.last_batch_position = segment->last_batch_position;
        part.last_batch_checksum = segment->last_batch_checksum;
    }
    return mk_rewrite_note_add(note, &part, is_output, err);
}

static mk_status make_note(const mk_segment_swap *swap, mk_rewrite_note *note,
                           mk_error *err)
{
    size_t count;
    size_t first = find_sources(swap, &count);
    mk_status status = MK_OK;

    note->first = swap->first;
    note->end = swap->end;
    for (size_t i = 0; status == MK_OK && i < swap->output_count; i++) {
        status = add_part(note, swap->outputs[i], true, err);
    }
    for (size_t i = 0; status == MK_OK && i < count; i++) {
        status = add_part(note, swap->log->segments[first + i], false, err);
    }
    return status;
}

/* Give all outputs their second name. While the first one has not all of its
 * own, Kafka takes none of them for complete. */
static mk_status name_swap(mk_segment_swap *swap, mk_error *err)
{
    mk_log *log = swap->log;
    mk_status status = MK_OK;

    for (size_t i = swap->output_count; status == MK_OK && i-- > 1;) {
        status = rename_output(log, swap->outputs[i], MK_STAGE_SWAP, err);
    }
    if (status == MK_OK && swap->output_count > 1) {
        status = mk_vfs_sync_directory(log->vfs, log->directory,
                                       MK_SYNC_SEGMENTS_AHEAD, err);
    }
    if (status == MK_OK) {
        status = rename_output(log, swap->outputs[0], MK_STAGE_SWAP, err);
    }
    if (status != MK_OK) return status;
    return mk_vfs_sync_directory(log->vfs, log->directory,
                                 MK_SYNC_SEGMENTS_SWAP, err);
}

/* Give the outputs their first name again, those that have it not. */
static mk_status name_back(mk_segment_swap *swap)
{
    mk_log *log = swap->log;

    for (size_t i = 0; i < swap->output_count; i++) {
        for (size_t r = 0; r < LENGTH(roles); r++) {
            mk_file_name name = {roles[r], MK_STAGE_SWAP,
                                 swap->outputs[i]->base_offset};
            mk_status status = rename_file(log, name, MK_STAGE_CLEANED, NULL);

            if (status != MK_OK && status != MK_NOT_FOUND) return status;
        }
        swap->outputs[i]->stage = MK_STAGE_CLEANED;
    }
    return MK_OK;
}

/* Take everything back that was done before the sources were touched. While one
 * of the outputs is `.cleaned` nobody takes them for complete; without the note
 * those that came back would be. */
static void undo(mk_segment_swap *swap, const mk_error *cause)
{
    mk_log *log = swap->log;
    mk_status status = name_back(swap);

    if (status == MK_OK) {
        status = mk_vfs_sync_directory(log->vfs, log->directory,
                                       MK_SYNC_SEGMENTS_UNDONE, NULL);
    }
    if (status == MK_OK) status = unlink_outputs(swap);
    if (status == MK_OK) {
        status = mk_rewrite_note_unlink(log->vfs, log->directory, NULL);
    }
    if (status == MK_OK) return;
    mk_mutex_lock(&log->mutex);
    mk_log_refuse_locked(log, cause);
    mk_mutex_unlock(&log->mutex);
}

/* Put the outputs in the sources' place; there is room for them. */
static void install(mk_segment_swap *swap)
{
    mk_log *log = swap->log;
    size_t count;
    size_t first = find_sources(swap, &count);
    size_t behind = log->segment_count - first - count;

    MK_ASSERT(log->segment_capacity >= log->segment_count + swap->output_count);
    for (size_t i = first; i < first + count; i++) {
        mk_log_close_idle_file_locked(log, log->segments[i]);
        mk_log_release_segment_locked(log, log->segments[i]);
    }
    memmove(log->segments + first + swap->output_count,
            log->segments + first + count, behind * sizeof *log->segments);
    for (size_t i = 0; i < swap->output_count; i++) {
        mk_log_number_segment_locked(log, swap->outputs[i]);
        log->segments[first + i] =
            mk_log_acquire_segment_locked(swap->outputs[i]);
    }
    log->segment_count = first + swap->output_count + behind;
    if (log->recovery_point.segment >= swap->first &&
        log->recovery_point.segment < swap->end) {
        mk_log_forget_point_locked(log);
    }
    if (log->dense_offset < swap->end) log->dense_offset = swap->end;
    log->state_stale = true;
    log->generation++;
}

static bool is_output_base(const mk_segment_swap *swap, int64_t base_offset)
{
    for (size_t i = 0; i < swap->output_count; i++) {
        if (swap->outputs[i]->base_offset == base_offset) return true;
    }
    return false;
}

typedef mk_status (*file_action)(mk_log *log, mk_file_name name, mk_error *err);

static mk_status retire_file(mk_log *log, mk_file_name name, mk_error *err)
{
    mk_status status = rename_file(log, name, MK_STAGE_DELETED, err);

    return status == MK_NOT_FOUND ? MK_OK : status;
}

static mk_status unlink_retired(mk_log *log, mk_file_name name, mk_error *err)
{
    name.stage = MK_STAGE_DELETED;
    return unlink_file(log, name, err);
}

/* Do this to all files of the sources, but for those whose names the outputs
 * take over. */
static mk_status for_sources(mk_segment_swap *swap, const mk_rewrite_note *note,
                             file_action action, mk_error *err)
{
    for (size_t i = note->output_count; i < note->count; i++) {
        int64_t base_offset = note->parts[i].base_offset;
        bool kept = is_output_base(swap, base_offset);

        for (int role = MK_ROLE_LOG; role <= MK_ROLE_SNAPSHOT; role++) {
            mk_file_name name = {(mk_file_role)role, MK_STAGE_FINAL,
                                 base_offset};
            mk_status status;

            if (kept && role != MK_ROLE_TXN_INDEX) continue;
            status = action(swap->log, name, err);
            if (status != MK_OK) return status;
        }
    }
    return MK_OK;
}

static mk_status retire_sources(mk_segment_swap *swap,
                                const mk_rewrite_note *note, mk_error *err)
{
    mk_log *log = swap->log;
    mk_status status = for_sources(swap, note, retire_file, err);

    if (status != MK_OK) return status;
    return mk_vfs_sync_directory(log->vfs, log->directory,
                                 MK_SYNC_SEGMENTS_GONE, err);
}

/* What follows once the outputs are the log: it can't be undone. */
static mk_status complete(mk_segment_swap *swap, const mk_rewrite_note *note,
                          mk_error *err)
{
    mk_log *log = swap->log;
    mk_status status;

    mk_mutex_unlock(&log->mutex);
    status = retire_sources(swap, note, err);
    mk_mutex_lock(&log->mutex);
    for (size_t i = 0; status == MK_OK && i < swap->output_count; i++) {
        status = rename_output(log, swap->outputs[i], MK_STAGE_FINAL, err);
    }
    if (status == MK_OK) status = mk_log_store_state_locked(log, true, err);
    if (status == MK_OK) {
        mk_mutex_unlock(&log->mutex);
        status = for_sources(swap, note, unlink_retired, err);
        if (status == MK_OK) {
            status = mk_rewrite_note_unlink(log->vfs, log->directory, err);
        }
        mk_mutex_lock(&log->mutex);
    }
    if (status != MK_OK) mk_log_refuse_locked(log, err);
    return status;
}

static mk_status reserve_room(mk_segment_swap *swap, mk_error *err)
{
    mk_log *log = swap->log;
    void *array = log->segments;
    mk_status status = mk_grow(&log->heap, &array, &log->segment_capacity,
                               log->segment_count + swap->output_count,
                               sizeof *log->segments, err);

    log->segments = array;
    return status;
}

/* Steps (2) and (3), with nothing left of them if they fail. */
static mk_status prepare(mk_segment_swap *swap, const mk_rewrite_note *note,
                         mk_error *err)
{
    mk_log *log = swap->log;
    mk_status status =
        mk_rewrite_note_store(note, log->vfs, log->directory, err);

    if (status == MK_OK) status = name_swap(swap, err);
    if (status != MK_OK) undo(swap, err);
    return status;
}

mk_status mk_segment_swap_begin_split(mk_segment_swap *swap, mk_log *log,
                                      const mk_segment *segment, int64_t end,
                                      mk_error *err)
{
    return begin(swap, log, segment, segment, end, err);
}

mk_status mk_segment_swap_leave(mk_segment_swap *swap, int64_t source_bytes,
                                mk_error *err)
{
    mk_log *log = swap->log;
    mk_rewrite_part source = {swap->first, source_bytes, -1, 0};
    mk_rewrite_note note;
    mk_status status = MK_OK;

    mk_rewrite_note_init(&note, &log->heap);
    note.first = swap->first;
    note.end = swap->end;
    for (size_t i = 0; status == MK_OK && i < swap->output_count; i++) {
        status = add_part(&note, swap->outputs[i], true, err);
    }
    if (status == MK_OK) {
        status = mk_rewrite_note_add(&note, &source, false, err);
    }
    if (status == MK_OK) {
        status = mk_rewrite_note_store(&note, log->vfs, log->directory, err);
    }
    if (status == MK_OK) status = name_swap(swap, err);
    mk_rewrite_note_deinit(&note);
    return status;
}

void mk_segment_swap_let_go(mk_segment_swap *swap)
{
    if (swap->file != NULL) {
        (void)mk_file_close(swap->file, NULL); /* It is not read again. */
    }
    for (size_t i = 0; i < swap->output_count; i++) {
        mk_segment_free(swap->outputs[i]);
    }
    mk_release(&swap->log->heap, swap->outputs);
    mk_scratch_deinit(&swap->buffer);
}

mk_status mk_segment_swap_publish_locked(mk_segment_swap *swap, mk_error *err)
{
    mk_log *log = swap->log;
    mk_rewrite_note note;
    mk_error scratch;
    mk_status status = mk_log_check_writable_locked(log, err);

    MK_ASSERT(log->maintaining);
    MK_ASSERT(swap->output_count > 0);
    MK_ASSERT(swap->file == NULL);
    if (err == NULL) err = &scratch;
    if (status != MK_OK) return status;
    mk_rewrite_note_init(&note, &log->heap);
    status = make_note(swap, &note, err);
    if (status == MK_OK) status = reserve_room(swap, err);
    if (status != MK_OK) goto done;
    log->swapping = true;
    mk_mutex_unlock(&log->mutex);
    status = prepare(swap, &note, err);
    mk_mutex_lock(&log->mutex);
    if (status == MK_OK) {
        install(swap);
        status = complete(swap, &note, err);
        for (size_t i = 0; i < swap->output_count; i++) {
            mk_log_release_segment_locked(log, swap->outputs[i]);
        }
        swap->output_count = 0;
    }
    log->swapping = false;
    mk_condition_signal_all(&log->changed);
done:
    mk_rewrite_note_deinit(&note);
    return status;
}

void mk_segment_swap_deinit(mk_segment_swap *swap)
{
    mk_log *log = swap->log;

    if (swap->file != NULL) {
        (void)mk_file_close(swap->file, NULL); /* It goes anyway. */
    }
    /* What can't be removed now is removed by the next open. */
    (void)!unlink_outputs(swap);
    mk_mutex_lock(&log->mutex);
    for (size_t i = 0; i < swap->output_count; i++) {
        mk_log_release_segment_locked(log, swap->outputs[i]);
    }
    mk_mutex_unlock(&log->mutex);
    mk_release(&log->heap, swap->outputs);
    mk_scratch_deinit(&swap->buffer);
}
