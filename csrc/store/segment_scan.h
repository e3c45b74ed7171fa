/*
 * segment_scan -- reading a segment's log to find out what is in it: a step
 * machine that checks batch after batch and notes them.
 */
#ifndef MK_STORE_SEGMENT_SCAN_H
#define MK_STORE_SEGMENT_SCAN_H

#include "store/segment.h"

/* Why a scan ended. */
typedef enum mk_scan_end {
    MK_SCAN_RUNNING,
    MK_SCAN_WHOLE,    /* At the end of the file. */
    MK_SCAN_TORN,     /* At a batch that the file ends in, or at zeros. */
    MK_SCAN_DAMAGED,  /* At bytes that are no sound batch. */
    MK_SCAN_OLD,      /* At a message of format 0 or 1. */
    MK_SCAN_OVERFLOW, /* At a batch beyond the reach of the base offset. */
} mk_scan_end;

/* Who wants to see each sound batch before it is noted. */
typedef struct mk_scan_watch {
    mk_status (*see)(void *context, const mk_segment *segment,
                     const uint8_t *bytes, const mk_batch *batch,
                     mk_error *err);
    void *context; /* Borrowed. */
} mk_scan_watch;

typedef struct mk_segment_scan {
    mk_segment *segment; /* Borrowed; filled batch by batch. */
    mk_file *file;       /* Borrowed. */
    int64_t file_size;
    int64_t index_interval_bytes;
    int64_t dense_offset; /* A gap that reaches beyond it is damage. */
    int64_t end_offset;   /* So is a batch that reaches beyond this one. */
    mk_scan_watch watch;  /* May be left out. */
    mk_scratch *scratch;  /* Borrowed. */
    mk_scan_end end;
} mk_segment_scan;

/* Begin a scan of `file`, which is `file_size` bytes long, behind what the
 * segment has noted already. Gaps between batches are fine, and so is every
 * offset, unless the caller sets `dense_offset` and `end_offset`. */
void mk_segment_scan_init(mk_segment_scan *scan, mk_segment *segment,
                          mk_file *file, int64_t file_size,
                          int64_t index_interval_bytes, mk_scratch *scratch);

/* Check about `budget` more bytes. The scan is over once `scan->end` says so;
 * segment->log_bytes is how far the log is sound. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_segment_scan_step(mk_segment_scan *scan,
                                            size_t budget, mk_error *err);

#endif /* MK_STORE_SEGMENT_SCAN_H */
