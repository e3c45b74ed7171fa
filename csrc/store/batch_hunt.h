/*
 * batch_hunt -- where, behind damage, does the log go on?
 */
#ifndef MK_STORE_BATCH_HUNT_H
#define MK_STORE_BATCH_HUNT_H

#include "codec/batch.h"
#include "os/vfs.h"

typedef struct mk_batch_hunt {
    mk_file *file; /* Borrowed. */
    int64_t file_size;
    int64_t position;     /* Looked at next; of the batch, once it is found. */
    int64_t first_offset; /* A batch's offsets are at or behind this one, */
    int64_t limit_offset; /* ... and before this one. */
    mk_scratch *scratch;  /* Borrowed. */
    bool found, over;
} mk_batch_hunt;

/* Begin to look at `position`. */
void mk_batch_hunt_init(mk_batch_hunt *hunt, mk_file *file, int64_t file_size,
                        int64_t position, int64_t first_offset,
                        int64_t limit_offset, mk_scratch *scratch);

/* Look at about `budget` more places for a batch that is whole, with offsets in
 * the range and a checksum that agrees. `over` tells that it is found, or that
 * there is none. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_batch_hunt_step(mk_batch_hunt *hunt, size_t budget,
                                          mk_error *err);

#endif /* MK_STORE_BATCH_HUNT_H */
