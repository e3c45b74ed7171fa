/*
 * swap_manifest -- `minikafka.swap`: the note in a directory that is to take
 * another's place, or has just taken it.
 */
#ifndef MK_STORE_SWAP_MANIFEST_H
#define MK_STORE_SWAP_MANIFEST_H

#include "os/vfs.h"

typedef enum mk_swap_phase {
    MK_SWAP_NONE,     /* No note. */
    MK_SWAP_BUILDING, /* The directory is not complete. */
    MK_SWAP_READY,    /* All of it was on stable storage. */
    MK_SWAP_STRANGE,  /* A note that proves nothing: damaged, of another
                         version, or for another directory. */
} mk_swap_phase;

/* Read the note in `directory`. It counts only if it was written for the
 * directory that is called `live` (its last name). Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_swap_manifest_load(mk_vfs *vfs, const char *directory,
                                             const char *live,
                                             mk_swap_phase *out, mk_error *err);

/* Write the note, on stable storage. */
MK_NODISCARD mk_status mk_swap_manifest_store(mk_vfs *vfs,
                                              const char *directory,
                                              const char *live,
                                              mk_swap_phase phase,
                                              mk_error *err);

#endif /* MK_STORE_SWAP_MANIFEST_H */
