/*
 * explore -- the crash sweep as far as time reaches, on all cores. See
 * support/crash_sweep.h.
 *
 *     explore [<seconds>]       default 600, for rows of length three
 *
 * Rows of length one and two are gone through in every profile, recoveries
 * crashed too; rows of length three first as a kill leaves them, all of them,
 * then in every profile until the time is up. They come in an order that mixes
 * them, so that a part is a sample. Exits with 1 if a survivor was not right.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "support/crash_sweep.h"

#define WORKERS_MAX 16

typedef struct crew {
    crash_sweep sweep;
    size_t length; /* Of the rows. */
    _Atomic size_t next;
} crew;

/* Which row comes as number `i`? Each comes once. */
static size_t mix(size_t i, size_t count)
{
    return (i * 1009) % count; /* A prime that divides no count of rows. */
}

static void *work(void *context)
{
    crew *all = context;
    size_t count = count_rows(all->length);

    for (;;) {
        size_t i = all->next++;

        if (i >= count || has_ended(&all->sweep)) return NULL;
        sweep_row_number(&all->sweep, mix(i, count), all->length);
    }
}

static void print_state(const char *title, crew *all, time_t since)
{
    int64_t states = count_states(&all->sweep);
    int64_t seconds = (int64_t)(time(NULL) - since);

    if (seconds < 1) seconds = 1;
    printf("%s: %lld of %zu rows, %lld steps, %lld crashes, %lld states, "
           "%lld unlike all before, %lld states a second\n",
           title, (long long)all->sweep.rows, count_rows(all->length),
           (long long)all->sweep.steps, (long long)all->sweep.crashes,
           (long long)(states + all->sweep.nested_states),
           (long long)all->sweep.opened,
           (long long)((states + all->sweep.nested_states) / seconds));
    fflush(stdout);
}

static void print_profiles(crew *all)
{
    printf("    states by the weakest profile that allows them:");
    for (size_t i = 0; i < MK_SIM_PROFILE_COUNT; i++) {
        printf(" %s %lld", mk_sim_profile_name((mk_sim_profile)i),
               (long long)all->sweep.states[i]);
    }
    printf("; in recoveries %lld, after %lld crashes; in part %lld\n",
           (long long)all->sweep.nested_states,
           (long long)all->sweep.nested_crashes, (long long)all->sweep.partial);
}

/* Go through the rows of a length, for so many seconds at most. */
static bool run(const char *title, crash_store *store, size_t length,
                mk_sim_profile profile, bool nested, int64_t seconds)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t workers = cores < 1 ? 1 : (size_t)cores;
    pthread_t threads[WORKERS_MAX];
    time_t since = time(NULL);
    time_t told = since;
    crew all = {.length = length};

    if (workers > WORKERS_MAX) workers = WORKERS_MAX;
    init_sweep(&all.sweep, store);
    all.sweep.profile = profile;
    all.sweep.nested = nested;
    for (size_t i = 0; i < workers; i++) {
        MUST(pthread_create(&threads[i], NULL, work, &all) == 0);
    }
    while (all.next < count_rows(length) && !has_ended(&all.sweep)) {
        usleep(200000);
        if (seconds > 0 && time(NULL) - since >= seconds) all.sweep.stop = true;
        if (time(NULL) - told < 10) continue;
        told = time(NULL);
        print_state(title, &all, since);
    }
    for (size_t i = 0; i < workers; i++) {
        pthread_join(threads[i], NULL);
    }
    print_state(title, &all, since);
    print_profiles(&all);
    return !all.sweep.faulty;
}

int main(int argc, char **argv)
{
    int64_t seconds = argc > 1 ? strtoll(argv[1], NULL, 10) : 600;
    static crash_store store;
    bool good;

    init_store(&store);
    good = run("set up", &store, 0, MK_SIM_HOSTILE, true, 0) &&
           run("length 1", &store, 1, MK_SIM_HOSTILE, true, 0) &&
           run("length 2", &store, 2, MK_SIM_HOSTILE, true, 0) &&
           run("length 3, killed", &store, 3, MK_SIM_KILL9, false, 0) &&
           run("length 3", &store, 3, MK_SIM_HOSTILE, false, seconds);
    deinit_store(&store);
    return good ? 0 : 1;
}
