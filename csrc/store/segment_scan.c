/* segment_scan -- one batch after the other, each checked in full. */
#include "store/segment_scan.h"

#include "base/check.h"

#include "base/poison.h"

void mk_segment_scan_init(mk_segment_scan *scan, mk_segment *segment,
                          mk_file *file, int64_t file_size,
                          int64_t index_interval_bytes, mk_scratch *scratch)
{
    if (segment->log_bytes > 0) {
        segment->bytes_since_entry =
            segment->log_bytes - mk_offset_index_last(&segment->offsets);
    }
    *scan = (mk_segment_scan){
        .segment = segment,
        .file = file,
        .file_size = file_size,
        .index_interval_bytes = index_interval_bytes,
        .dense_offset = INT64_MAX,
        .end_offset = INT64_MAX,
        .scratch = scratch,
    };
}

/* Say what a batch that is whole by its header turns out to be. */
static mk_scan_end judge(const mk_segment_scan *scan, const uint8_t *bytes,
                         const mk_batch *batch)
{
    const mk_segment *segment = scan->segment;

    if (batch->base_offset < segment->next_offset) return MK_SCAN_DAMAGED;
    if (batch->base_offset > segment->next_offset &&
        batch->base_offset > scan->dense_offset) {
        return MK_SCAN_DAMAGED; /* The checksum does not cover the offset. */
    }
    if (mk_batch_last_offset(batch) >= scan->end_offset) return MK_SCAN_DAMAGED;
    if (!mk_batch_checksum_agrees(bytes, batch)) return MK_SCAN_DAMAGED;
    if (!mk_segment_fits(segment, mk_batch_last_offset(batch))) {
        return MK_SCAN_OVERFLOW;
    }
    return MK_SCAN_RUNNING;
}

static mk_status watch(const mk_segment_scan *scan, const uint8_t *bytes,
                       const mk_batch *batch, mk_error *err)
{
    if (scan->watch.see == NULL) return MK_OK;
    return scan->watch.see(scan->watch.context, scan->segment, bytes, batch,
                           err);
}

/* Note the batches that stand whole in `bytes`; `*used` tells how much. */
static mk_status note_batches(mk_segment_scan *scan, mk_span bytes,
                              size_t *used, size_t *wanted, mk_error *err)
{
    *used = 0;
    *wanted = 0;
    while (*used < bytes.size) {
        mk_span rest = {bytes.data + *used, bytes.size - *used};
        mk_batch batch;
        mk_status status;

        switch (mk_batch_peek(rest, &batch)) {
        case MK_BATCH_PARTIAL:
            *wanted = batch.size > 0 ? batch.size : MK_BATCH_HEADER_SIZE;
            return MK_OK;
        case MK_BATCH_DAMAGED:
            /* A mapped tail or a preallocation leaves zeros behind. */
            scan->end = mk_span_is_zero(rest) ? MK_SCAN_TORN : MK_SCAN_DAMAGED;
            return MK_OK;
        case MK_BATCH_OLD:
            *wanted = batch.size > rest.size ? batch.size : 0;
            if (*wanted > 0) return MK_OK;
            scan->end = mk_batch_old_checksum_agrees(rest.data, &batch)
                            ? MK_SCAN_OLD
                            : MK_SCAN_DAMAGED;
            return MK_OK;
        case MK_BATCH_WHOLE:
            break;
        }
        scan->end = judge(scan, rest.data, &batch);
        if (scan->end != MK_SCAN_RUNNING) return MK_OK;
        status = watch(scan, rest.data, &batch, err);
        if (status == MK_OK) {
            status = mk_segment_note(scan->segment, &batch,
                                     scan->index_interval_bytes, err);
        }
        if (status != MK_OK) return status;
        *used += batch.size;
    }
    return MK_OK;
}

mk_status mk_segment_scan_step(mk_segment_scan *scan, size_t budget,
                               mk_error *err)
{
    int64_t position = scan->segment->log_bytes;
    int64_t left = scan->file_size - position;
    size_t size = left < (int64_t)budget ? (size_t)left : budget;
    size_t used = 0, wanted = 0;
    mk_span bytes;
    mk_status status;

    MK_ASSERT(scan->end == MK_SCAN_RUNNING);
    if (left == 0) {
        scan->end = MK_SCAN_WHOLE;
        return MK_OK;
    }
    status =
        mk_file_view(scan->file, scan->scratch, position, size, &bytes, err);
    if (status != MK_OK) return status;
    status = note_batches(scan, bytes, &used, &wanted, err);
    if (status != MK_OK || scan->end != MK_SCAN_RUNNING || used > 0) {
        return status;
    }
    /* Not one batch stood whole in what was read: it wants more than the
     * budget, or more than there is. */
    if (wanted > (size_t)left || bytes.size < size) {
        scan->end = MK_SCAN_TORN;
        return MK_OK;
    }
    return mk_segment_scan_step(scan, wanted, err);
}
