/* segment_split -- whole batches, copied to segments that can hold them. */
#include "log/segment_split.h"

#include <inttypes.h>

#include "log/segment_swap.h"

#include "base/poison.h"

/* Read the batch at `position`; `*bytes` is NULL where no sound one is. */
static mk_status read_batch(mk_file *file, mk_scratch *scratch,
                            int64_t position, mk_batch *batch,
                            const uint8_t **bytes, mk_error *err)
{
    mk_batch_found peeked;
    mk_span found;
    mk_status status = mk_file_view(file, scratch, position,
                                    MK_BATCH_HEADER_SIZE, &found, err);

    *bytes = NULL;
    if (status != MK_OK || found.size < MK_BATCH_HEADER_SIZE) return status;
    peeked = mk_batch_peek(found, batch);
    if (peeked == MK_BATCH_DAMAGED || peeked == MK_BATCH_OLD) return MK_OK;
    if (batch->size < MK_BATCH_HEADER_SIZE) return MK_OK;
    status = mk_file_view(file, scratch, position, batch->size, &found, err);
    if (status != MK_OK || found.size < batch->size) return status;
    if (mk_batch_peek(found, batch) == MK_BATCH_WHOLE &&
        mk_batch_checksum_agrees(found.data, batch)) {
        *bytes = found.data;
    }
    return MK_OK;
}

/* Add the batch to the last output, or to a new one if that can't hold it. */
static mk_status copy_batch(mk_segment_swap *swap, const uint8_t *bytes,
                            const mk_batch *batch, mk_error *err)
{
    int64_t last_offset = mk_batch_last_offset(batch);
    mk_segment *output = NULL;
    mk_status status = MK_OK;

    if (swap->output_count > 0) {
        output = swap->outputs[swap->output_count - 1];
    } else if (last_offset - swap->first <= INT32_MAX) {
        status = mk_segment_swap_add_output(swap, swap->first, err);
        output = swap->outputs[0];
    }
    if (status != MK_OK) return status;
    if (output == NULL || !mk_segment_fits(output, last_offset)) {
        status = mk_segment_swap_add_output(swap, batch->base_offset, err);
    }
    if (status != MK_OK) return status;
    return mk_segment_swap_append(swap, bytes, batch, err);
}

/* Copy up to the first batch that is not sound, or out of order. */
static mk_status copy_sound(mk_segment_swap *swap, mk_file *file,
                            int64_t *position, mk_error *err)
{
    int64_t next_offset = swap->first;
    mk_scratch scratch;
    mk_status status;

    mk_scratch_init(&scratch, &swap->log->heap);
    for (;;) {
        const uint8_t *bytes;
        mk_batch batch;

        status = read_batch(file, &scratch, *position, &batch, &bytes, err);
        if (status != MK_OK || bytes == NULL) break;
        if (batch.base_offset < next_offset) break;
        if (mk_batch_next_offset(&batch) > swap->end) break;
        status = copy_batch(swap, bytes, &batch, err);
        if (status != MK_OK) break;
        next_offset = mk_batch_next_offset(&batch);
        *position += batch.size;
    }
    mk_scratch_deinit(&scratch);
    return status;
}

static mk_status fail_damaged(const mk_log *log, const mk_segment *segment,
                              int64_t position, mk_error *err)
{
    return mk_fail_at(err, MK_CORRUPT_SEGMENT, log->directory, position,
                      "the segment at %" PRId64 " of %s, which is to be split, "
                      "is damaged at position %" PRId64,
                      segment->base_offset, log->directory, position);
}

mk_status mk_segment_split(mk_log *log, mk_segment *segment, int64_t end,
                           bool last, mk_error *err)
{
    mk_segment_swap swap;
    mk_file_stat stat = {0};
    int64_t position = 0;
    mk_status status = mk_log_pin_locked(log, segment, err);

    if (status != MK_OK) return status;
    status = mk_segment_swap_begin_split(&swap, log, segment, end, err);
    if (status == MK_OK) {
        status = copy_sound(&swap, segment->log.file, &position, err);
    }
    if (status == MK_OK) {
        status = mk_file_stat_open(segment->log.file, &stat, err);
    }
    mk_log_unpin_locked(log, segment);
    if (status == MK_OK && !last && position < stat.size) {
        status = fail_damaged(log, segment, position, err);
    }
    if (status == MK_OK) status = mk_segment_swap_finish(&swap, err);
    if (status == MK_OK) status = mk_segment_swap_leave(&swap, stat.size, err);
    mk_segment_swap_let_go(&swap);
    return status;
}
