/* env_posix -- the real machine. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "os/env.h"

/* Return a seed. Before the kernel has gathered any chance, the time and the
 * process's number must do: seeds keep names and tables apart, not secrets. */
static uint64_t fresh_seed(void)
{
    struct timespec now;
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) {
        return seed;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec << 20 ^
           (uint64_t)getpid();
}

mk_status mk_env_new_posix(const mk_heap *heap, mk_env **out, mk_error *err)
{
    mk_heap standard = mk_heap_default();
    mk_vfs *vfs;
    mk_status status;

    *out = NULL;
    if (heap == NULL) heap = &standard;
    status = mk_vfs_new_posix(heap, &vfs, err);
    if (status != MK_OK) return status;
    status = mk_env_new(heap, vfs, mk_clock_system(), fresh_seed(), out, err);
    if (status != MK_OK) return status;
    snprintf((*out)->holder, sizeof(*out)->holder, "process %ld",
             (long)getpid());
    return MK_OK;
}
