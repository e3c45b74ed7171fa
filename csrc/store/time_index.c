/*
 * File format: a packed array of big-endian entries.
 *
 *     [8 bytes] Timestamp.
 *     [4 bytes] Offset, relative to the segment's base offset.
 *
 * Invariants:
 *
 *  (1) Timestamps strictly increase, offsets never decrease.
 *  (2) The file is a cache. Losing it costs time, never data.
 */
#include "store/time_index.h"

#include "base/check.h"
#include "codec/crc32c.h"

#include "base/poison.h"

void mk_time_index_init(mk_time_index *index, const mk_heap *heap,
                        int64_t base_offset)
{
    *index = (mk_time_index){.heap = heap, .base_offset = base_offset};
}

void mk_time_index_deinit(mk_time_index *index)
{
    mk_release(index->heap, index->entries);
    mk_time_index_init(index, index->heap, index->base_offset);
}

void mk_time_index_clear(mk_time_index *index)
{
    index->count = 0;
    index->checksum = 0;
}

static mk_status reserve(mk_time_index *index, size_t count, mk_error *err)
{
    void *entries = index->entries;
    mk_status status = mk_grow(index->heap, &entries, &index->capacity, count,
                               sizeof *index->entries, err);

    index->entries = entries;
    return status;
}

static mk_time_entry last_entry(const mk_time_index *index)
{
    if (index->count == 0) return (mk_time_entry){-1, index->base_offset};
    return index->entries[index->count - 1];
}

mk_status mk_time_index_maybe_add(mk_time_index *index, int64_t timestamp_ms,
                                  int64_t offset, mk_error *err)
{
    mk_time_entry last = last_entry(index);
    uint8_t bytes[MK_TIME_ENTRY_SIZE];
    mk_status status;

    if (timestamp_ms <= last.timestamp_ms) return MK_OK;
    MK_ASSERT(offset >= last.offset);
    MK_ASSERT(offset - index->base_offset <= INT32_MAX);
    status = reserve(index, index->count + 1, err);
    if (status != MK_OK) return status;
    index->entries[index->count++] = (mk_time_entry){timestamp_ms, offset};
    mk_time_index_encode(index, index->count - 1, bytes);
    index->checksum = mk_crc32c(index->checksum, bytes, sizeof bytes);
    return MK_OK;
}

mk_time_entry mk_time_index_lookup(const mk_time_index *index,
                                   int64_t timestamp_ms)
{
    size_t low = 0;             /* Entries in [0, low) are at or before it. */
    size_t high = index->count; /* Entries in [high, count) are past it. */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (index->entries[middle].timestamp_ms <= timestamp_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return (mk_time_entry){-1, index->base_offset};
    return index->entries[low - 1];
}

void mk_time_index_encode(const mk_time_index *index, size_t from, uint8_t *out)
{
    for (size_t i = from; i < index->count; i++) {
        const mk_time_entry *entry = &index->entries[i];

        mk_store_u64(out, (uint64_t)entry->timestamp_ms);
        mk_store_u32(out + 8, (uint32_t)(entry->offset - index->base_offset));
        out += MK_TIME_ENTRY_SIZE;
    }
}

static mk_status fail_order(size_t i, mk_error *err)
{
    return mk_fail_at(err, MK_CORRUPT_INDEX, NULL,
                      (int64_t)(i * MK_TIME_ENTRY_SIZE),
                      "entry %zu is out of order", i);
}

/* Check invariant (1). */
static mk_status check(const mk_time_index *index, mk_error *err)
{
    const mk_time_entry *entries = index->entries;

    for (size_t i = 0; i < index->count; i++) {
        bool ordered =
            i == 0 ? entries[i].timestamp_ms >= 0
                   : entries[i].timestamp_ms > entries[i - 1].timestamp_ms &&
                         entries[i].offset >= entries[i - 1].offset;

        if (!ordered) return fail_order(i, err);
    }
    return MK_OK;
}

mk_status mk_time_index_decode(mk_time_index *index, mk_span bytes,
                               int64_t next_offset, mk_error *err)
{
    size_t count = bytes.size / MK_TIME_ENTRY_SIZE;
    mk_status status;

    mk_time_index_clear(index);
    if (bytes.size % MK_TIME_ENTRY_SIZE != 0) {
        return mk_fail_at(err, MK_CORRUPT_INDEX, NULL, (int64_t)bytes.size,
                          "entry %zu is torn", count);
    }
    status = reserve(index, count, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = bytes.data + i * MK_TIME_ENTRY_SIZE;

        int64_t relative = (int64_t)mk_load_u32(entry + 8);

        /* What lies outside can't be added to the base. */
        if (relative >= next_offset - index->base_offset) {
            return fail_order(i, err);
        }
        index->entries[i].timestamp_ms = (int64_t)mk_load_u64(entry);
        index->entries[i].offset = index->base_offset + relative;
    }
    index->count = count;
    index->checksum = mk_crc32c(0, bytes.data, bytes.size);
    status = check(index, err);
    if (status != MK_OK) mk_time_index_clear(index);
    return status;
}
