/*
 * time_index -- sparse map from timestamp to record offset.
 *
 * An entry says: no record in batches up to and including the one whose last
 * offset is `offset` has a greater timestamp. Kept whole in memory while in
 * use; its file is a cache.
 */
#ifndef MK_STORE_TIME_INDEX_H
#define MK_STORE_TIME_INDEX_H

#include "base/bytes.h"
#include "base/heap.h"

#define MK_TIME_ENTRY_SIZE 12u

typedef struct mk_time_entry {
    int64_t timestamp_ms;
    int64_t offset; /* Last of the first batch that has the timestamp. */
} mk_time_entry;

typedef struct mk_time_index {
    const mk_heap *heap;    /* Borrowed. */
    int64_t base_offset;    /* Of the segment. */
    mk_time_entry *entries; /* Owned. */
    size_t count;
    size_t capacity;
    uint32_t checksum; /* Of all entries as the file has them. */
} mk_time_index;

void mk_time_index_init(mk_time_index *index, const mk_heap *heap,
                        int64_t base_offset);
void mk_time_index_deinit(mk_time_index *index);

/* Forget all entries; their room stays. */
void mk_time_index_clear(mk_time_index *index);

/* Add an entry if its timestamp is greater than the last one's (than -1 in an
 * empty index); else do nothing. */
MK_NODISCARD mk_status mk_time_index_maybe_add(mk_time_index *index,
                                               int64_t timestamp_ms,
                                               int64_t offset, mk_error *err);

/* Return the last entry with a timestamp at or before `timestamp_ms`, or
 * {-1, base offset}. */
mk_time_entry mk_time_index_lookup(const mk_time_index *index,
                                   int64_t timestamp_ms);

/* Write entries from number `from` on as the file has them. */
void mk_time_index_encode(const mk_time_index *index, size_t from,
                          uint8_t *out);

/* Take over a file's content. Errors: NO_MEMORY; CORRUPT_INDEX if an entry is
 * torn, out of order or at or beyond `next_offset`. The index is empty then. */
MK_NODISCARD mk_status mk_time_index_decode(mk_time_index *index, mk_span bytes,
                                            int64_t next_offset, mk_error *err);

#endif /* MK_STORE_TIME_INDEX_H */
