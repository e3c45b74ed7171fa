/* segment_indexes -- loading, making anew, writing, unloading. */
#include "log/segment_indexes.h"

#include "store/segment_scan.h"

#include "base/poison.h"

/* Index entries kept in memory for sealed segments, in bytes of their files. */
#define INDEX_BYTES_MAX (8 << 20)
#define SCAN_BUDGET     (1u << 20)

mk_status mk_log_write_indexes_locked(mk_log *log, mk_segment *segment,
                                      mk_error *err)
{
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    status = mk_segment_write_indexes(segment, log->vfs, log->directory, err);
    return mk_is_no_room(status, err) ? MK_OK : status;
}

/* Facts are replaced, too, so they should come out the same: with the time
 * entry that ends a segment if it is closed, or was when they were noted. They
 * don't where the segment was opened again, or cut, while it was the active
 * one. */
mk_status mk_log_rebuild_indexes_locked(mk_log *log, mk_segment *segment,
                                        bool closed, mk_error *err)
{
    mk_segment *fresh = NULL;
    mk_segment_scan scan;
    mk_scratch scratch;
    mk_status status;

    mk_scratch_init(&scratch, &log->heap);
    status = mk_segment_new(&log->heap, segment->base_offset, &fresh, err);
    if (status == MK_OK) status = mk_log_pin_locked(log, segment, err);
    if (status != MK_OK) goto done;
    mk_segment_scan_init(&scan, fresh, segment->log.file, segment->log_bytes,
                         segment->index_interval_bytes, &scratch);
    scan.end_offset = segment->next_offset; /* One beyond it is wrong. */
    while (status == MK_OK && scan.end == MK_SCAN_RUNNING) {
        status = mk_segment_scan_step(&scan, SCAN_BUDGET, err);
    }
    mk_log_unpin_locked(log, segment);
    if (fresh->log_bytes < segment->log_bytes) {
        /* Damage ended the scan, and the offset before it may be wrong. The
         * reader that comes to the damage says so. */
        mk_time_index_clear(&fresh->times);
    } else if (status == MK_OK &&
               (closed || fresh->times.count < segment->time_entries)) {
        status = mk_segment_finish_times(fresh, err);
    }
    if (status != MK_OK) goto done;
    mk_offset_index_deinit(&segment->offsets);
    mk_time_index_deinit(&segment->times);
    segment->offsets = fresh->offsets;
    segment->times = fresh->times;
    mk_offset_index_init(&fresh->offsets, &log->heap, 0);
    mk_time_index_init(&fresh->times, &log->heap, 0);
    segment->offsets_written = segment->times_written = 0;
    segment->index_files_good = false;
    segment->indexes_loaded = true;
done:
    mk_segment_free(fresh);
    mk_scratch_deinit(&scratch);
    return status;
}

/* Unload the least recently used indexes of sealed segments while all of them
 * together are too large, but for those of `keep`. */
static void bound_index_memory(mk_log *log, const mk_segment *keep)
{
    for (;;) {
        mk_segment *idle = NULL;
        int64_t sum = 0;

        for (size_t i = 0; i < log->segment_count; i++) {
            mk_segment *segment = log->segments[i];
            bool written = segment->offsets_written == segment->offsets.count &&
                           segment->times_written == segment->times.count;

            if (!segment->indexes_loaded || !segment->sealed) continue;
            sum += mk_segment_index_bytes(segment);
            if (segment == keep || !written) continue;
            if (idle == NULL || segment->last_use < idle->last_use) {
                idle = segment;
            }
        }
        if (idle == NULL || sum <= INDEX_BYTES_MAX) return;
        mk_segment_unload_indexes(idle);
    }
}

mk_status mk_log_load_indexes_locked(mk_log *log, mk_segment *segment,
                                     mk_error *err)
{
    const char *tree = mk_log_tree_locked(log);
    mk_segment_facts known, found;
    mk_status status;

    segment->last_use = ++log->use_count;
    if (MK_LIKELY(segment->indexes_loaded)) return MK_OK;
    status = mk_segment_load_indexes(segment, log->vfs, tree, err);
    if (status == MK_CORRUPT_INDEX) {
        mk_segment_get_facts(segment, &known);
        status = mk_log_rebuild_indexes_locked(log, segment, true, err);
        mk_segment_get_facts(segment, &found);
        if (!mk_segment_facts_equal(&known, &found)) log->state_stale = true;
        if (status == MK_OK && !log->read_only) {
            /* A cache that can't be written is rebuilt the next time. */
            (void)!mk_segment_write_indexes(segment, log->vfs, tree, NULL);
        }
    }
    if (status == MK_OK) bound_index_memory(log, segment);
    return status;
}
