/* env -- a disk, a clock and chance under one counted roof. */
#include "os/env.h"

#include "base/check.h"

#include "base/poison.h"

mk_status mk_env_new(const mk_heap *heap, mk_vfs *vfs, mk_clock clock,
                     uint64_t seed, mk_env **out, mk_error *err)
{
    mk_env *env = mk_alloc_zero(heap, sizeof *env);

    *out = NULL;
    if (env == NULL) {
        mk_vfs_free(vfs);
        return mk_fail_memory(err, sizeof *env);
    }
    env->heap = *heap;
    env->vfs = vfs;
    env->clock = clock;
    env->chance = seed;
    env->references = 1;
    mk_mutex_init(&env->mutex);
    *out = env;
    return MK_OK;
}

mk_env *mk_env_acquire(mk_env *env)
{
    mk_mutex_lock(&env->mutex);
    MK_ASSERT(env->references > 0);
    env->references++;
    mk_mutex_unlock(&env->mutex);
    return env;
}

void mk_env_free(mk_env *env)
{
    mk_heap heap;
    size_t left;

    if (env == NULL) return;
    mk_mutex_lock(&env->mutex);
    MK_ASSERT(env->references > 0);
    left = --env->references;
    mk_mutex_unlock(&env->mutex);
    if (left > 0) return;

    heap = env->heap;
    mk_vfs_free(env->vfs);
    mk_mutex_deinit(&env->mutex);
    mk_release(&heap, env);
}

/* SplitMix64: any seed will do, 0 too. */
uint64_t mk_env_random(mk_env *env)
{
    uint64_t mixed;

    mk_mutex_lock(&env->mutex);
    env->chance += UINT64_C(0x9e3779b97f4a7c15);
    mixed = env->chance;
    mk_mutex_unlock(&env->mutex);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}
