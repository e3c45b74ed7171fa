/*
 * salvage -- what can still be read of a segment's log, damaged or not.
 */
#ifndef MK_LOG_SALVAGE_H
#define MK_LOG_SALVAGE_H

#include "store/segment.h"

/* Sound batches that stand one behind the other. */
typedef struct mk_stretch {
    int64_t position, size;
    int64_t first_offset, next_offset;
} mk_stretch;

typedef struct mk_salvage {
    const mk_heap *heap;   /* Borrowed. */
    mk_stretch *stretches; /* Owned; ascending. */
    size_t count, capacity;
    int64_t file_size;
    int64_t max_timestamp_ms;
    int64_t gap_end; /* Where the last gap between its batches ends, or -1. */
    bool whole;      /* One stretch, or none, is the file. */
    int64_t odd_position; /* Of the last batch, if offsets are missing before
                             it; else -1. */
    int64_t odd_due;      /* The first of them. */
} mk_salvage;

/* Read the log at `path` to its end. Errors: UNSUPPORTED (old formats), IO,
 * NO_MEMORY. */
MK_NODISCARD mk_status mk_salvage_read(mk_salvage *salvage, mk_vfs *vfs,
                                       const char *path, int64_t base_offset,
                                       mk_error *err);
void mk_salvage_deinit(mk_salvage *salvage);

/* Give up the odd batch: its base offset, which no checksum covers, is wrong.
 */
void mk_salvage_drop_odd(mk_salvage *salvage);

/* Write what the log at `from` has in its stretches of offsets in [first,
 * limit) to a new file at `to`, batches whole, on stable storage. */
MK_NODISCARD mk_status mk_salvage_write(const mk_salvage *salvage, mk_vfs *vfs,
                                        const char *from, int64_t first,
                                        int64_t limit, const char *to,
                                        mk_error *err);

/* Of the batches that mk_salvage_write() would write: their number of bytes,
 * the first one's base offset, and where the last one ends. */
typedef struct mk_salvage_extent {
    int64_t size, first_offset, next_offset;
} mk_salvage_extent;

MK_NODISCARD mk_status mk_salvage_measure(const mk_salvage *salvage,
                                          mk_vfs *vfs, const char *from,
                                          int64_t first, int64_t limit,
                                          mk_salvage_extent *out,
                                          mk_error *err);

/* Make both index files of the log in `directory` anew. */
MK_NODISCARD mk_status mk_salvage_index(mk_vfs *vfs, const char *directory,
                                        int64_t base_offset, mk_error *err);

#endif /* MK_LOG_SALVAGE_H */
