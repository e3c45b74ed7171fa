/*
 * crew -- threads that work on the same log, or each on its own. They note what
 * was wrong, and it is judged when all of them are done: cmocka knows one
 * thread only.
 */
#ifndef MK_SUPPORT_CREW_H
#define MK_SUPPORT_CREW_H

#include "support/posix_world.h"

#include <stdatomic.h>

#include <pthread.h>

#define OFFSET_MAX (1 << 16)

typedef struct shared {
    posix_world *disk;
    char where[300];
    mk_log *log;
    _Atomic int writers_left;
    _Atomic int faults; /* What was wrong, by CHECK(). */
    bool truncates;
    /* Which record has which offset: the writer's number and its own count, so
     * that nobody can have it twice. 0: nobody was told so. */
    _Atomic uint32_t given[OFFSET_MAX];
} shared;

typedef struct actor {
    shared *all;
    int number;
    pthread_t thread;
    uint64_t chance;
} actor;

/* Note a fault, with what it was; the first few are printed. */
#define CHECK(all, condition)                                               \
    do {                                                                    \
        if (!(condition) && atomic_fetch_add(&(all)->faults, 1) < 5) {      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                   \
    } while (0)

static inline uint64_t draw(actor *a, uint64_t below)
{
    a->chance ^= a->chance << 13;
    a->chance ^= a->chance >> 7;
    a->chance ^= a->chance << 17;
    return (a->chance >> 11) % below;
}

static inline void open_shared(shared *all)
{
    mk_open_options options;
    mk_error err = {0};

    mk_open_options_default(&options);
    options.config.segment_bytes = 3000;
    options.config.index_interval_bytes = 200;
    options.config.flush_messages = 50;
    options.max_open_files = 3;
    options.mapped = all->truncates ? MK_MAPPED_ALWAYS : MK_MAPPED_AUTO;
    if (mk_log_open(all->where, &options, &all->log, &err) != MK_OK) {
        fail_msg("%s", err.message);
    }
}

static inline int set_up(void **state)
{
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
    return world_setup(state);
}

#define world_test(name) \
    cmocka_unit_test_setup_teardown(name, set_up, world_teardown)

#endif /* MK_SUPPORT_CREW_H */
