/*
 * explore -- the crash sweep as far as time reaches. See support/crash_sweep.h.
 *
 *     explore [<seconds> [<workers>]]       default 600, and one for each core
 *
 * Rows of length one and two are gone through in every profile, recoveries
 * crashed too; rows of length three first as a kill leaves them, then in every
 * profile. They come in an order that mixes them, so that a part is a sample.
 * What the time did not suffice for is said. Exits with 1 if a survivor was not
 * right.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "support/crash_sweep.h"

#define WORKERS_MAX     16
#define SECONDS_TO_TELL 10

/* What is gone through, one after the other. */
typedef struct part {
    const char *title;
    size_t length; /* Of the rows. */
    mk_sim_profile profile;
    bool nested;
} part;

static const part parts[] = {
    {"making the log, any loss of power, also in recovery", 0, MK_SIM_HOSTILE,
     true},
    {"rows of 1, any loss of power, also in recovery", 1, MK_SIM_HOSTILE, true},
    {"rows of 2, any loss of power, also in recovery", 2, MK_SIM_HOSTILE, true},
    {"rows of 3, the process killed", 3, MK_SIM_KILL9, false},
    {"rows of 3, any loss of power", 3, MK_SIM_HOSTILE, false},
};

typedef struct crew {
    crash_sweep sweep;
    const part *part;
    _Atomic size_t next;
} crew;

/* Times in seconds, of the clock and of all processors together. */
typedef struct watch {
    double started, processors;
} watch;

static double read_clock(clockid_t id)
{
    struct timespec now;

    MUST(clock_gettime(id, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static watch start_watch(void)
{
    return (watch){read_clock(CLOCK_MONOTONIC),
                   read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static double seconds_since(const watch *since)
{
    return read_clock(CLOCK_MONOTONIC) - since->started;
}

/* ---- Working ---- */

/* Which row comes as number `i`? Each comes once. */
static size_t mix(size_t i, size_t count)
{
    return (i * 1009) % count; /* A prime that divides no count of rows. */
}

static void *work(void *context)
{
    crew *all = context;
    size_t count = count_rows(all->part->length);

    for (;;) {
        size_t i = all->next++;

        if (i >= count || has_ended(&all->sweep)) return NULL;
        sweep_row_number(&all->sweep, mix(i, count), all->part->length);
    }
}

/* ---- Telling ---- */

static int64_t all_states(crew *all)
{
    return count_states(&all->sweep) + all->sweep.nested_states;
}

static long long per_second(int64_t count, double seconds)
{
    return seconds < 1e-3 ? 0 : (long long)((double)count / seconds);
}

static void tell_progress(crew *all, const watch *since)
{
    printf("  %lld of %zu rows, %lld states, %lld a second\n",
           (long long)all->sweep.rows, count_rows(all->part->length),
           (long long)all_states(all),
           per_second(all_states(all), seconds_since(since)));
    fflush(stdout);
}

static void tell_profiles(crew *all)
{
    const char *comma = "";

    printf("  weakest profile that allows them:");
    for (size_t i = 0; i < MK_SIM_PROFILE_COUNT; i++) {
        if (all->sweep.states[i] == 0) continue;
        printf("%s %s %lld", comma, mk_sim_profile_name((mk_sim_profile)i),
               (long long)all->sweep.states[i]);
        comma = ",";
    }
    printf("\n");
    if (!all->part->nested) return;
    printf("  and %lld states after %lld crashes in their recoveries\n",
           (long long)all->sweep.nested_states,
           (long long)all->sweep.nested_crashes);
}

static void tell_end(crew *all, const watch *since)
{
    const crash_sweep *sweep = &all->sweep;
    size_t count = count_rows(all->part->length);
    double processors =
        read_clock(CLOCK_PROCESS_CPUTIME_ID) - since->processors;
    int64_t states = all_states(all);

    printf("  %s: %lld of %zu rows, %lld steps, %lld crashes%s\n",
           sweep->faulty
               ? "A SURVIVOR WAS NOT RIGHT"
               : ((size_t)sweep->rows == count ? "complete" : "in part"),
           (long long)sweep->rows, count, (long long)sweep->steps,
           (long long)sweep->crashes,
           sweep->partial > 0 ? ", not with all states" : "");
    printf("  %lld states, of which %lld are unlike all before and were "
           "opened\n",
           (long long)states, (long long)sweep->opened);
    tell_profiles(all);
    printf("  %.0f s, %.0f s of processors; %lld states a second, %lld a "
           "second of a core\n",
           seconds_since(since), processors,
           per_second(states, seconds_since(since)),
           per_second(states, processors));
    fflush(stdout);
}

/* ---- Parts ---- */

static size_t count_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores < 1 ? 1 : (size_t)cores;
}

/* Go through a part, until `end` at most. */
static bool run(const part *what, crash_store *store, size_t workers,
                double end)
{
    pthread_t threads[WORKERS_MAX];
    watch since = start_watch();
    double told = since.started;
    crew all = {.part = what};

    printf("%s\n", what->title);
    if (since.started >= end) {
        printf("  not begun: the time is up\n");
        return true;
    }
    init_sweep(&all.sweep, store);
    all.sweep.profile = what->profile;
    all.sweep.nested = what->nested;
    for (size_t i = 0; i < workers; i++) {
        MUST(pthread_create(&threads[i], NULL, work, &all) == 0);
    }
    while (all.next < count_rows(what->length) + workers &&
           !has_ended(&all.sweep)) {
        double now = read_clock(CLOCK_MONOTONIC);

        usleep(20000);
        if (now >= end) all.sweep.stop = true;
        if (now - told < SECONDS_TO_TELL) continue;
        told = now;
        tell_progress(&all, &since);
    }
    for (size_t i = 0; i < workers; i++) {
        pthread_join(threads[i], NULL);
    }
    tell_end(&all, &since);
    return !all.sweep.faulty;
}

int main(int argc, char **argv)
{
    long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 600;
    long given = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    size_t workers = given < 1 ? count_cores() : (size_t)given;
    double end = read_clock(CLOCK_MONOTONIC) + (double)seconds;
    static crash_store store;
    bool good = true;

    if (workers > WORKERS_MAX) workers = WORKERS_MAX;
    printf("%zu operations, %ld seconds, %zu workers\n", OPERATION_COUNT,
           seconds, workers);
    init_store(&store);
    for (size_t i = 0; good && i < CRASH_LENGTH(parts); i++) {
        good = run(&parts[i], &store, workers, end);
    }
    deinit_store(&store);
    return good ? 0 : 1;
}
