/*
 * File format: a packed array of big-endian entries.
 *
 *     [4 bytes] Offset, relative to the segment's base offset.
 *     [4 bytes] Byte position of a batch in the segment's log.
 *
 * Invariants:
 *
 *  (1) Relative offsets strictly increase, and so do positions.
 *  (2) Every batch before an entry's position ends before the entry's offset.
 *  (3) The file is a cache. Losing it costs time, never data.
 */
#include "store/offset_index.h"

#include "base/check.h"
#include "codec/crc32c.h"

#include "base/poison.h"

#define NEAR 8u

void mk_offset_index_init(mk_offset_index *index, const mk_heap *heap,
                          int64_t base_offset)
{
    *index = (mk_offset_index){.heap = heap, .base_offset = base_offset};
}

void mk_offset_index_deinit(mk_offset_index *index)
{
    mk_release(index->heap, index->entries);
    mk_offset_index_init(index, index->heap, index->base_offset);
}

void mk_offset_index_clear(mk_offset_index *index)
{
    index->count = 0;
    index->checksum = 0;
}

static mk_status reserve(mk_offset_index *index, size_t count, mk_error *err)
{
    void *entries = index->entries;
    mk_status status = mk_grow(index->heap, &entries, &index->capacity, count,
                               sizeof *index->entries, err);

    index->entries = entries;
    return status;
}

mk_status mk_offset_index_add(mk_offset_index *index, int64_t offset,
                              int64_t position, mk_error *err)
{
    uint8_t bytes[MK_OFFSET_ENTRY_SIZE];
    mk_status status = reserve(index, index->count + 1, err);

    if (status != MK_OK) return status;
    MK_ASSERT(offset >= index->base_offset);
    MK_ASSERT(offset - index->base_offset <= INT32_MAX);
    MK_ASSERT(position >= 0);
    MK_ASSERT(position <= INT32_MAX);
    index->entries[index->count++] = (mk_offset_entry){
        .relative_offset = (uint32_t)(offset - index->base_offset),
        .position = (uint32_t)position,
    };
    mk_offset_index_encode(index, index->count - 1, bytes);
    index->checksum = mk_crc32c(index->checksum, bytes, sizeof bytes);
    return MK_OK;
}

/* Narrow the range down where offsets advance evenly, as they mostly do: of a
 * large index that spares most of the memory that a search goes through. */
static void look_near(const mk_offset_index *index, int64_t relative,
                      size_t *low, size_t *high)
{
    const mk_offset_entry *entries = index->entries;
    size_t count = index->count;
    int64_t last;
    size_t guess;

    if (count <= 4 * NEAR) return;
    last = entries[count - 1].relative_offset;
    if (relative < 0 || relative >= last) return;
    guess = (size_t)((uint64_t)relative * count / (uint64_t)last);
    if (guess >= NEAR && guess - NEAR < count &&
        (int64_t)entries[guess - NEAR].relative_offset <= relative) {
        *low = guess - NEAR + 1;
    }
    if (guess + NEAR < count &&
        (int64_t)entries[guess + NEAR].relative_offset > relative) {
        *high = guess + NEAR;
    }
}

/* Return how many entries are at or before `offset`. */
static size_t count_up_to(const mk_offset_index *index, int64_t offset)
{
    int64_t relative = offset - index->base_offset;
    size_t low = 0;             /* Entries in [0, low) are at or before it. */
    size_t high = index->count; /* Entries in [high, count) are past it. */

    look_near(index, relative, &low, &high);
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((int64_t)index->entries[middle].relative_offset <= relative) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t position_at(const mk_offset_index *index, size_t i)
{
    return i < index->count ? (int64_t)index->entries[i].position : -1;
}

/* An entry has its batch's last offset: go on from it in even steps. */
static int64_t likely_end(const mk_offset_index *index, size_t count,
                          int64_t offset)
{
    mk_offset_entry before = {0, 0};
    mk_offset_entry after;
    int64_t steps, step_offsets, step_bytes;

    if (count >= index->count) return -1;
    after = index->entries[count];
    if (count > 0) before = index->entries[count - 1];
    steps = offset - index->base_offset - before.relative_offset + 1;
    step_offsets = (int64_t)after.relative_offset - before.relative_offset;
    step_bytes = (int64_t)after.position - before.position;
    if (steps <= 0 || step_offsets <= 0) return -1;
    return before.position +
           (steps * step_bytes + step_offsets - 1) / step_offsets;
}

mk_scan_start mk_offset_index_lookup(const mk_offset_index *index,
                                     int64_t offset)
{
    size_t count = count_up_to(index, offset);

    return (mk_scan_start){
        .position = count > 0 ? position_at(index, count - 1) : 0,
        .next = position_at(index, count),
        .after = position_at(index, count + 1),
        .likely_end = likely_end(index, count, offset),
        .hinted = count > 0,
    };
}

void mk_offset_index_encode(const mk_offset_index *index, size_t from,
                            uint8_t *out)
{
    for (size_t i = from; i < index->count; i++) {
        mk_store_u32(out, index->entries[i].relative_offset);
        mk_store_u32(out + 4, index->entries[i].position);
        out += MK_OFFSET_ENTRY_SIZE;
    }
}

/* Check invariant (1), and that entries lie inside the log. */
static mk_status check(const mk_offset_index *index, int64_t log_bytes,
                       mk_error *err)
{
    const mk_offset_entry *entries = index->entries;

    for (size_t i = 0; i < index->count; i++) {
        bool ordered =
            i == 0 ||
            (entries[i].relative_offset > entries[i - 1].relative_offset &&
             entries[i].position > entries[i - 1].position);
        bool inside = entries[i].position < log_bytes &&
                      entries[i].relative_offset <= INT32_MAX;

        if (ordered && inside) continue;
        return mk_fail_at(err, MK_CORRUPT_INDEX, NULL,
                          (int64_t)(i * MK_OFFSET_ENTRY_SIZE),
                          "entry %zu is out of order", i);
    }
    return MK_OK;
}

mk_status mk_offset_index_decode(mk_offset_index *index, mk_span bytes,
                                 int64_t log_bytes, mk_error *err)
{
    size_t count = bytes.size / MK_OFFSET_ENTRY_SIZE;
    mk_status status;

    mk_offset_index_clear(index);
    if (bytes.size % MK_OFFSET_ENTRY_SIZE != 0) {
        return mk_fail_at(err, MK_CORRUPT_INDEX, NULL, (int64_t)bytes.size,
                          "entry %zu is torn", count);
    }
    status = reserve(index, count, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = bytes.data + i * MK_OFFSET_ENTRY_SIZE;

        index->entries[i].relative_offset = mk_load_u32(entry);
        index->entries[i].position = mk_load_u32(entry + 4);
    }
    index->count = count;
    index->checksum = mk_crc32c(0, bytes.data, bytes.size);
    status = check(index, log_bytes, err);
    if (status != MK_OK) mk_offset_index_clear(index);
    return status;
}
