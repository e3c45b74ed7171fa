/*
 * segment -- one stretch of a log: its batches' file and two sparse indexes.
 *
 * The structure is the truth about the files while the log is open: how much of
 * the log file is in use, what its records reach to, the index entries. Only
 * the last segment of a log, the active one, grows.
 *
 * Invariants:
 *
 *  (1) base_offset <= next_offset; equal without batches.
 *  (2) max_timestamp_ms is -1 without records that have a time.
 *  (3) While `indexes_loaded`, offsets and times describe log_bytes of log, and
 *      the files hold their first offsets_written and times_written entries.
 *  (4) Else the files begin with offset_entries and time_entries entries that
 *      have the index_checksum.
 */
#ifndef MK_STORE_SEGMENT_H
#define MK_STORE_SEGMENT_H

#include "codec/batch.h"
#include "store/file_cache.h"
#include "store/names.h"
#include "store/offset_index.h"
#include "store/state_file.h"
#include "store/time_index.h"

typedef struct mk_segment {
    mk_cached_file log;  /* First: its descriptor. */
    const mk_heap *heap; /* Borrowed. */
    size_t references;   /* Holders; the log's mutex guards it. */
    int64_t base_offset;
    mk_file_stage stage; /* Of its files' names: FINAL, but during a swap, and
                            for a reader of one that was cut short. */
    int64_t next_offset;
    int64_t log_bytes;
    int64_t max_timestamp_ms;
    int64_t max_timestamp_offset; /* Last offset of the first batch with it. */
    int64_t first_timestamp_ms;   /* Greatest of the first batch; -1: none. */
    int64_t last_batch_position;  /* -1 when not known. */
    uint32_t last_batch_checksum;
    int64_t created_ms;           /* When it was opened, for rolling by time. */
    int64_t jitter_ms;            /* Rolls so much earlier. */
    int64_t index_interval_bytes; /* Of its log's settings when it became part
                                     of it, as Kafka has it, ... */
    int64_t index_bytes_max;      /* ... for each of its indexes. */
    int64_t bytes_since_entry;
    mk_offset_index offsets;
    mk_time_index times;
    size_t offsets_written;
    size_t times_written;
    size_t offset_entries;
    size_t time_entries;
    uint32_t index_checksum; /* Of the files, while they are not loaded. */
    bool index_files_good;   /* The files begin with the written entries, and
                                have no others. */
    bool indexes_loaded;
    bool synced;       /* All of its log is on stable storage. */
    bool sealed;       /* Will not grow. */
    uint64_t last_use; /* Of its indexes, to know the idle ones. */
    uint64_t id;       /* Unique in its log. */
} mk_segment;

/* Make an empty segment with one reference, indexes loaded.
 * Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_segment_new(const mk_heap *heap, int64_t base_offset,
                                      mk_segment **out, mk_error *err);

/* Free a segment whose file is closed. NULL is a no-op. */
void mk_segment_free(mk_segment *segment);

/* Take what facts say; the indexes are not loaded then. */
void mk_segment_take_facts(mk_segment *segment, const mk_segment_facts *facts);

/* Say what there is to remember. */
void mk_segment_get_facts(const mk_segment *segment, mk_segment_facts *out);

/* Take over all that was noted in `other`, a segment with the same base whose
 * indexes are loaded, and leave it empty. */
void mk_segment_adopt(mk_segment *segment, mk_segment *other);

/* Forget all batches: an empty segment, indexes loaded. */
void mk_segment_reset(mk_segment *segment);

/*
 * Note a batch at the end of the log: time, offset, index entries by the
 * interval, in Kafka's order. The batch's offsets fit the segment (see
 * mk_segment_fits()). Errors: NO_MEMORY, with nothing noted.
 */
MK_NODISCARD mk_status mk_segment_note(mk_segment *segment,
                                       const mk_batch *batch,
                                       int64_t index_interval_bytes,
                                       mk_error *err);

/* Is `offset` within 32 bits' reach of the base? */
static inline bool mk_segment_fits(const mk_segment *segment, int64_t offset)
{
    return offset >= segment->base_offset &&
           offset - segment->base_offset <= INT32_MAX;
}

/* Write the path of its log into `out`. Errors: INVALID_ARGUMENT when it does
 * not fit. */
MK_NODISCARD mk_status mk_segment_log_path(const mk_segment *segment,
                                           const char *directory, char *out,
                                           size_t out_size, mk_error *err);

/* Add the time index's last entry, as rolling and closing do.
 * Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_segment_finish_times(mk_segment *segment,
                                               mk_error *err);

/* Is there nothing that this would add? The indexes are loaded. */
static inline bool mk_segment_has_finished_times(const mk_segment *segment)
{
    const mk_time_index *times = &segment->times;
    int64_t last_ms =
        times->count > 0 ? times->entries[times->count - 1].timestamp_ms : -1;

    return segment->max_timestamp_ms <= last_ms;
}

/* Bytes of the index files, as they are or will be once written. */
static inline int64_t mk_segment_index_bytes(const mk_segment *segment)
{
    bool loaded = segment->indexes_loaded;
    size_t offsets = loaded ? segment->offsets.count : segment->offset_entries;
    size_t times = loaded ? segment->times.count : segment->time_entries;

    return (int64_t)(offsets * MK_OFFSET_ENTRY_SIZE +
                     times * MK_TIME_ENTRY_SIZE);
}

static inline int64_t mk_segment_size_bytes(const mk_segment *segment)
{
    return segment->log_bytes + mk_segment_index_bytes(segment);
}

/* Bring the two index files up to the entries, creating them. They are never
 * synced: what a power loss makes of them is found out and rebuilt. */
MK_NODISCARD mk_status mk_segment_write_indexes(mk_segment *segment,
                                                mk_vfs *vfs,
                                                const char *directory,
                                                mk_error *err);

/* See whether the index files hold just the entries that are in memory, so that
 * they need not be written. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_segment_confirm_indexes(mk_segment *segment,
                                                  mk_vfs *vfs,
                                                  const char *directory,
                                                  mk_error *err);

/*
 * Read the index files into memory, unless they are. Errors: CORRUPT_INDEX
 * when they are missing, damaged, or not those that the checksum tells of, and
 * the caller rebuilds them; IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_segment_load_indexes(mk_segment *segment, mk_vfs *vfs,
                                               const char *directory,
                                               mk_error *err);

/* Give the memory of written indexes back. */
void mk_segment_unload_indexes(mk_segment *segment);

/* Unlink all files of a segment, the log first; missing ones are fine. */
MK_NODISCARD mk_status mk_segment_unlink(mk_vfs *vfs, const char *directory,
                                         int64_t base_offset, mk_error *err);

/* See that the segment's log, of which `log_bytes` are in use, has no other
 * name before it is written to: see mk_copy_file_unshare(). The file is not
 * open, or will be opened anew. */
MK_NODISCARD mk_status mk_segment_unshare_log(mk_vfs *vfs,
                                              const char *directory,
                                              int64_t base_offset,
                                              int64_t log_bytes, bool held,
                                              bool *replaced, mk_error *err);

#endif /* MK_STORE_SEGMENT_H */
