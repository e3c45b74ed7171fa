/*
 * copy_end -- where a copy of a log ends, and what it knows about itself.
 */
#ifndef MK_LOG_COPY_END_H
#define MK_LOG_COPY_END_H

#include "log/log.h"

/* A segment of the copy. */
typedef struct mk_copy_part {
    uint64_t id;            /* Of the log's segment, */
    mk_segment_facts facts; /* ... and what the copy has of it. */
    mk_file_stage stage;    /* Of the log's file, */
    uint64_t inode;         /* ... and its inode; 0: there is none. */
    bool durable;           /* It is on stable storage. */
} mk_copy_part;

/* The end of the log as it was at one moment. */
typedef struct mk_copy_end {
    bool known;
    uint64_t generation; /* Of the log, then. */
    mk_copy_part part;   /* The last segment. */
    int64_t log_end_offset;
    int64_t dense_offset;
    mk_recovery_point point; /* When all of it is on stable storage. */
    uint8_t *indexes[2];     /* Owned: contents of its index files, */
    size_t index_sizes[2];
    const mk_heap *heap; /* Borrowed. */
} mk_copy_end;

/* Say what a segment has now. Its indexes are loaded, or have a checksum. */
void mk_copy_part_fill_locked(mk_copy_part *part, const mk_log *log,
                              const mk_segment *segment);

void mk_copy_end_init(mk_copy_end *end, const mk_heap *heap);
void mk_copy_end_deinit(mk_copy_end *end);

/* Let the copy end where the log ends now. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_copy_end_take_locked(mk_copy_end *end, mk_log *log,
                                               mk_error *err);

/* Write the index files of the last segment and the state of a copy with these
 * parts to `tree`, and put all names in it on stable storage. */
MK_NODISCARD mk_status mk_copy_end_write(const mk_copy_end *end,
                                         const mk_copy_part *parts,
                                         size_t count, int64_t log_start_offset,
                                         mk_vfs *vfs, const char *tree,
                                         mk_error *err);

#endif /* MK_LOG_COPY_END_H */
