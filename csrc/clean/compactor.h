/*
 * compactor -- compaction as the chapter has it: all closed segments into one,
 * published by swapping the directory. A step machine.
 */
#ifndef MK_CLEAN_COMPACTOR_H
#define MK_CLEAN_COMPACTOR_H

#include "clean/cleanup_result.h"
#include "clean/key_map.h"
#include "log/directory_swap.h"
#include "log/walk.h"

typedef enum mk_compactor_phase {
    MK_COMPACTOR_MAP,     /* Finding each key's greatest offset. */
    MK_COMPACTOR_REWRITE, /* Copying what stays. */
    MK_COMPACTOR_BUILT,   /* The new directory is complete and synced. */
} mk_compactor_phase;

typedef struct mk_compactor {
    mk_log *log; /* Borrowed; its maintenance is the caller's. */
    int64_t now_ms;
    int64_t delete_retention_ms;
    int64_t index_interval_bytes;
    mk_compactor_phase phase;

    size_t source_count;  /* The first so many segments are rewritten. */
    int64_t source_end;   /* Base offset of the one after them. */
    int64_t start_offset; /* The log start; nothing below it stays. */
    int64_t map_end;      /* The log end when it began. */

    mk_key_map map;
    mk_walk walk;
    bool walking; /* The walk was begun. */
    mk_directory_swap swap;
    bool swap_begun;

    mk_segment **outputs; /* Owned; each counted once for the log. */
    size_t output_count;
    size_t output_capacity;
    mk_file *file;     /* Owned; of the last output, while it grows. */
    mk_scratch buffer; /* What is not yet written to it. */
    size_t buffered;
    mk_scratch kept; /* The records of one batch that stay. */

    int64_t records_before, records_after;
    int64_t bytes_before;
} mk_compactor;

/* Begin a compaction; `delete_retention_ms` is at least 0. There is at least
 * one closed segment. Whatever the status, mk_compactor_deinit() must follow.
 */
MK_NODISCARD mk_status mk_compactor_begin_locked(mk_compactor *compactor,
                                                 mk_log *log, int64_t now_ms,
                                                 int64_t delete_retention_ms,
                                                 mk_error *err);

/* Go on for about `budget` bytes of log, until the phase is BUILT. Called
 * without the mutex. */
MK_NODISCARD mk_status mk_compactor_step(mk_compactor *compactor, size_t budget,
                                         mk_error *err);

/* Publish what was built, and tell of it. */
MK_NODISCARD mk_status mk_compactor_publish_locked(mk_compactor *compactor,
                                                   mk_cleanup_result *result,
                                                   mk_error *err);

/* Give back all that the compactor holds, the new directory included unless it
 * was published. Called without the mutex. */
void mk_compactor_deinit(mk_compactor *compactor);

#endif /* MK_CLEAN_COMPACTOR_H */
