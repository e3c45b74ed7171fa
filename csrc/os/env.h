/*
 * env -- the machine a log runs on: heap, disk, clock, chance.
 */
#ifndef MK_OS_ENV_H
#define MK_OS_ENV_H

#include "os/thread.h"
#include "os/vfs.h"

struct mk_env {
    mk_heap heap;
    mk_vfs *vfs;     /* Owned. */
    mk_clock clock;  /* The machine's. */
    uint64_t chance; /* State of the random numbers. */
    char holder[64]; /* Whom the locks taken here name: "process 4711". */
    mk_mutex mutex;  /* Guards chance and references. */
    size_t references;
};

/* Make an environment around a disk, which it owns from then on (also when
 * this fails). `seed` begins the random numbers. */
MK_NODISCARD mk_status mk_env_new(const mk_heap *heap, mk_vfs *vfs,
                                  mk_clock clock, uint64_t seed, mk_env **out,
                                  mk_error *err);

/* Count one more holder; mk_env_free() counts one less. */
mk_env *mk_env_acquire(mk_env *env);

/* Return the next random number. */
uint64_t mk_env_random(mk_env *env);

#endif /* MK_OS_ENV_H */
