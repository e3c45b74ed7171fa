/*
 * batch_cache -- what reading a batch once has told, for those who fetch single
 * records from anywhere in a log.
 *
 * It remembers of a batch its header, and that its checksum was right; and of
 * every sixteenth offset where the first record at or after it begins. A fetch
 * that finds both reads a few records instead of a whole batch. "Checked" means
 * once since it was entered, not at each read.
 *
 * Entries name segments by their id, which no other segment ever gets, so none
 * needs to be taken out. The tables are small at first, grow while they are too
 * small for what is read, and have less than 5 MiB at the most. Not
 * synchronised: the log's mutex guards it.
 */
#ifndef MK_LOG_BATCH_CACHE_H
#define MK_LOG_BATCH_CACHE_H

#include "base/heap.h"
#include "codec/batch.h"

/* Records whose places are remembered stand at most so many offsets apart. */
#define MK_SAMPLE_OFFSETS 16

typedef struct mk_cached_batch {
    mk_batch batch; /* `size` 0: the slot is empty. */
    uint64_t segment_id;
    uint32_t position; /* In the segment's log. */
    uint32_t turn;     /* How many batches the slot has had. */
} mk_cached_batch;

/* Where the first record at or after a multiple of sixteen begins. */
typedef struct mk_cached_place {
    uint32_t sixteen;  /* The offset divided by sixteen, its low bits. */
    uint32_t batch;    /* The batch's slot, and the slot's turn; 0: empty. */
    uint32_t ordinal;  /* The record's number in the batch, from 0. */
    uint32_t position; /* Of the record, from the start of the batch. */
} mk_cached_place;

typedef struct mk_batch_cache {
    const mk_heap *heap;      /* Borrowed. */
    mk_cached_batch *batches; /* Owned; a power of two of them, or none. */
    mk_cached_place *places;  /* Owned; so many times as many. */
    size_t batch_count;
    size_t entered; /* Since the tables have their size. */
} mk_batch_cache;

void mk_batch_cache_init(mk_batch_cache *cache, const mk_heap *heap);
void mk_batch_cache_deinit(mk_batch_cache *cache);

/* Memory in use. */
size_t mk_batch_cache_bytes(const mk_batch_cache *cache);

/* Is the batch at that position known? */
bool mk_batch_cache_has(const mk_batch_cache *cache, uint64_t segment_id,
                        int64_t position);

/* Find a place to begin reading for `offset`; NULL if none is known. */
const mk_cached_place *mk_batch_cache_find(const mk_batch_cache *cache,
                                           uint64_t segment_id, int64_t offset,
                                           const mk_cached_batch **batch);

/* Enter a batch that was checked, and return what stands for it in places; 0
 * when memory is not to be had. */
uint32_t mk_batch_cache_enter(mk_batch_cache *cache, uint64_t segment_id,
                              int64_t position, const mk_batch *batch);

/* Enter the place of a record, in the batch that `batch` stands for: the first
 * one in it at or after the multiple of sixteen below `offset`. */
void mk_batch_cache_enter_place(mk_batch_cache *cache, uint64_t segment_id,
                                int64_t offset, uint32_t batch,
                                uint32_t ordinal, uint32_t position);

#endif /* MK_LOG_BATCH_CACHE_H */
