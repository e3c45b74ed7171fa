/*
 * offset_index -- sparse map from record offset to byte position.
 *
 * One stands beside each segment, with an entry per `index_interval_bytes` of
 * log: it answers "where do I start scanning for offset N?", never "where is
 * N?". An entry names the last offset of a batch and the position where that
 * batch begins. Kept whole in memory while in use; its file is a cache.
 */
#ifndef MK_STORE_OFFSET_INDEX_H
#define MK_STORE_OFFSET_INDEX_H

#include "base/bytes.h"
#include "base/heap.h"

#define MK_OFFSET_ENTRY_SIZE 8u

typedef struct mk_offset_entry {
    uint32_t relative_offset; /* Of the batch's last record. */
    uint32_t position;        /* Of the batch. */
} mk_offset_entry;

typedef struct mk_offset_index {
    const mk_heap *heap;      /* Borrowed. */
    int64_t base_offset;      /* Of the segment. */
    mk_offset_entry *entries; /* Owned. */
    size_t count;
    size_t capacity;
    uint32_t checksum; /* Of all entries as the file has them. */
} mk_offset_index;

void mk_offset_index_init(mk_offset_index *index, const mk_heap *heap,
                          int64_t base_offset);
void mk_offset_index_deinit(mk_offset_index *index);

/* Forget all entries; their room stays. */
void mk_offset_index_clear(mk_offset_index *index);

/* Add an entry, after all others. `offset` - base offset fits 31 bits. */
MK_NODISCARD mk_status mk_offset_index_add(mk_offset_index *index,
                                           int64_t offset, int64_t position,
                                           mk_error *err);

/* Where to look for an offset: positions of batches. */
typedef struct mk_scan_start {
    int64_t position;   /* The offset is at or behind it: a scan starts here. */
    int64_t next;       /* The next entry's: the offset is at or before that
                           batch; -1 when there is none. */
    int64_t after;      /* The one after that; -1. */
    int64_t likely_end; /* Where the offset's batch ends if all are alike; -1
                           where there is no next entry. */
    bool hinted;        /* `position` is an entry's, not the segment's start. */
} mk_scan_start;

mk_scan_start mk_offset_index_lookup(const mk_offset_index *index,
                                     int64_t offset);

/* The position of the last entry; 0 if there is none. */
static inline int64_t mk_offset_index_last(const mk_offset_index *index)
{
    return index->count > 0 ? index->entries[index->count - 1].position : 0;
}

/* Write entries from number `from` on as the file has them, at `out` with room
 * for all of them. */
void mk_offset_index_encode(const mk_offset_index *index, size_t from,
                            uint8_t *out);

/* Take over a file's content. Errors: NO_MEMORY; CORRUPT_INDEX if an entry is
 * torn, out of order or at or beyond `log_bytes`. The index is empty then. */
MK_NODISCARD mk_status mk_offset_index_decode(mk_offset_index *index,
                                              mk_span bytes, int64_t log_bytes,
                                              mk_error *err);

#endif /* MK_STORE_OFFSET_INDEX_H */
