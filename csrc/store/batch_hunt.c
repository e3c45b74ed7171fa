/*
 * batch_hunt -- place after place.
 *
 * Nearly all places are told apart by their header: only one that could be the
 * next batch is read and summed up.
 */
#include "store/batch_hunt.h"

#include "base/check.h"

#include "base/poison.h"

void mk_batch_hunt_init(mk_batch_hunt *hunt, mk_file *file, int64_t file_size,
                        int64_t position, int64_t first_offset,
                        int64_t limit_offset, mk_scratch *scratch)
{
    *hunt = (mk_batch_hunt){
        .file = file,
        .file_size = file_size,
        .position = position,
        .first_offset = first_offset,
        .limit_offset = limit_offset,
        .scratch = scratch,
    };
}

/* Could a batch of the log begin here, by its header alone? */
static bool could_be(const mk_batch_hunt *hunt, mk_span bytes, int64_t position,
                     mk_batch *out)
{
    mk_batch_found found = mk_batch_peek(bytes, out);

    return (found == MK_BATCH_WHOLE || found == MK_BATCH_PARTIAL) &&
           out->base_offset >= hunt->first_offset &&
           mk_batch_last_offset(out) < hunt->limit_offset &&
           out->size <= (uint64_t)(hunt->file_size - position);
}

/* Read the whole batch at the hunt's position, and check it. */
static mk_status check(mk_batch_hunt *hunt, mk_error *err)
{
    mk_batch batch;
    mk_span bytes;
    mk_status status = mk_file_view(hunt->file, hunt->scratch, hunt->position,
                                    MK_BATCH_HEADER_SIZE, &bytes, err);

    if (status != MK_OK) return status;
    if (!could_be(hunt, bytes, hunt->position, &batch)) return MK_OK;
    status = mk_file_view(hunt->file, hunt->scratch, hunt->position, batch.size,
                          &bytes, err);
    if (status != MK_OK) return status;
    hunt->found = mk_batch_peek(bytes, &batch) == MK_BATCH_WHOLE &&
                  could_be(hunt, bytes, hunt->position, &batch) &&
                  mk_batch_checksum_agrees(bytes.data, &batch);
    hunt->over = hunt->found;
    return MK_OK;
}

mk_status mk_batch_hunt_step(mk_batch_hunt *hunt, size_t budget, mk_error *err)
{
    size_t size = budget + MK_BATCH_HEADER_SIZE;
    mk_span bytes;
    mk_status status;

    MK_ASSERT(!hunt->over);
    status = mk_file_view(hunt->file, hunt->scratch, hunt->position, size,
                          &bytes, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i + MK_BATCH_HEADER_SIZE <= bytes.size; i++) {
        mk_span here = {bytes.data + i, bytes.size - i};
        mk_batch batch;

        if (here.data[16] != 2 ||
            !could_be(hunt, here, hunt->position, &batch)) {
            hunt->position++;
            continue;
        }
        status = check(hunt, err);
        /* What was viewed is void now; the next step looks on from here. */
        if (status == MK_OK && !hunt->found) hunt->position++;
        return status;
    }
    if (bytes.size < size) hunt->over = true;
    return MK_OK;
}
