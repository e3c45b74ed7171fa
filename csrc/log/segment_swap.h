/*
 * segment_swap -- publishing rewritten segments in the place of closed ones, in
 * the log's own directory, as Kafka's cleaner does it. The steps, and in
 * brackets which log the next open finds if they end there:
 *
 *  (1) The outputs are written as `.cleaned`; their logs and indexes are
 *      synced. [the old one]
 *  (2) The note of the swap is stored (store/rewrite_note), and its sync makes
 *      the outputs' names last, too. [the old one]
 *  (3) `.cleaned` becomes `.swap`, that of the first output last of all; the
 *      directory is synced. [either, as a whole]
 *  (4) The outputs take the sources' place in memory.
 *  (5) The sources become `.deleted`; the directory is synced. [the new one]
 *  (6) `.swap` becomes the final name.
 *  (7) The state file tells of it, and its sync makes the names last.
 *  (8) The `.deleted` files go, and then the note.
 *
 * A Kafka that finds this loads one of the two as well, by the names alone; but
 * for sources behind the last record of the outputs, which only the note tells
 * of: those it may load again.
 */
#ifndef MK_LOG_SEGMENT_SWAP_H
#define MK_LOG_SEGMENT_SWAP_H

#include "log/log.h"

typedef struct mk_segment_swap {
    mk_log *log;          /* Borrowed; its maintenance is the caller's. */
    int64_t first;        /* The sources are the segments with bases in */
    int64_t end;          /* ... [first, end). */
    int64_t mtime_ms;     /* Of the last source. */
    mk_segment **outputs; /* Owned; each counted once. */
    size_t output_count;
    size_t output_capacity;
    mk_file *file;     /* Owned. Of the last output while it is written. */
    mk_scratch buffer; /* What is not yet written of it. */
    size_t buffered;
} mk_segment_swap;

/*
 * Begin to rewrite `count` closed segments from number `first` on. The caller
 * gives all of it back with mk_segment_swap_deinit(), whatever the status.
 * Errors: IO, NO_MEMORY; those of a flush.
 */
MK_NODISCARD mk_status mk_segment_swap_begin_locked(mk_segment_swap *swap,
                                                    mk_log *log, size_t first,
                                                    size_t count,
                                                    mk_error *err);

/* Begin an output; the first one has the base of the first source. Called
 * without the mutex, as the two below. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_segment_swap_add_output(mk_segment_swap *swap,
                                                  int64_t base_offset,
                                                  mk_error *err);

/* Add a sealed batch to the last output, in which its offsets fit. */
MK_NODISCARD mk_status mk_segment_swap_append(mk_segment_swap *swap,
                                              const uint8_t *bytes,
                                              const mk_batch *batch,
                                              mk_error *err);

/* Complete the last output: from here on the outputs are on stable storage. */
MK_NODISCARD mk_status mk_segment_swap_finish(mk_segment_swap *swap,
                                              mk_error *err);

/*
 * Let the outputs, of which there is at least one, take the sources' place.
 * Lets the mutex go meanwhile. On failure the log is as it was; or it is the
 * new one, and refuses further changes.
 */
MK_NODISCARD mk_status mk_segment_swap_publish_locked(mk_segment_swap *swap,
                                                      mk_error *err);

/* Give everything back; what was not published is removed. Called without the
 * mutex. */
void mk_segment_swap_deinit(mk_segment_swap *swap);

/* ---- While a log is opened ---- */

/* The same for one segment that is to be split, and whose outputs end below
 * `end`. It is given back with mk_segment_swap_let_go(), which leaves files as
 * they are. */
MK_NODISCARD mk_status mk_segment_swap_begin_split(mk_segment_swap *swap,
                                                   mk_log *log,
                                                   const mk_segment *segment,
                                                   int64_t end, mk_error *err);

/* Do steps (2) and (3); the next look at the directory does the others. */
MK_NODISCARD mk_status mk_segment_swap_leave(mk_segment_swap *swap,
                                             int64_t source_bytes,
                                             mk_error *err);

void mk_segment_swap_let_go(mk_segment_swap *swap);

#endif /* MK_LOG_SEGMENT_SWAP_H */
