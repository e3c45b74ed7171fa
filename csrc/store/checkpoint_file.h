/*
 * checkpoint_file -- the files in Kafka's data directory that tell an offset
 * for each of its partitions. They stand in the directory above a log's, and
 * are read, never written.
 */
#ifndef MK_STORE_CHECKPOINT_FILE_H
#define MK_STORE_CHECKPOINT_FILE_H

#include "os/vfs.h"

/*
 * Find what the checkpoint file called `name`, beside the partition directory
 * `directory`, says of it; -1 where it says nothing, is missing, or is not of
 * its form: Kafka, too, goes on without it then. Errors: IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_checkpoint_find(mk_vfs *vfs, const mk_heap *heap,
                                          const char *directory,
                                          const char *name, int64_t *out,
                                          mk_error *err);

#endif /* MK_STORE_CHECKPOINT_FILE_H */
