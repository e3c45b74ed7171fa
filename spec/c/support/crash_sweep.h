/*
 * crash_sweep -- a crash at every step of a row of operations, and every disk
 * that it may leave.
 *
 * Crashes come in the last operation of a row only: those in the ones before it
 * are the crashes of a shorter row. The row of no operations is the making of
 * the log that all others start from. A step that changed nothing is passed
 * over, since a crash after it finds what a crash before it finds.
 *
 * Several threads may sweep with one sweep.
 */
#ifndef MK_SUPPORT_CRASH_SWEEP_H
#define MK_SUPPORT_CRASH_SWEEP_H

#include <stdatomic.h>

#include "os/crash_states.h"
#include "support/crash_store.h"

typedef struct crash_sweep {
    crash_store *store;     /* Borrowed. */
    const char *left_out;   /* A sync that is not done; NULL: all are. */
    mk_sim_profile profile; /* The harshest. */
    bool nested;            /* Crash recoveries, too. */
    bool tears;             /* Pages may survive in part. */
    int64_t limit;          /* States looked at per crash; 0: all. */
    bool quiet;             /* Faults are expected. */

    _Atomic int64_t rows, steps, crashes, partial; /* ... of them in part. */
    _Atomic int64_t states[MK_SIM_PROFILE_COUNT];  /* By the weakest profile. */
    _Atomic int64_t nested_crashes, nested_states;
    _Atomic int64_t opened; /* Images that are unlike all before. */
    _Atomic bool stop;      /* Set by whoever has had enough. */
    _Atomic bool faulty;    /* A survivor was found that is not right. */
} crash_sweep;

/* One row of one thread. */
typedef struct crash_walk {
    crash_sweep *sweep;
    crash_run run;
    const char *row;
    bool has_stranger;
    bool skips;      /* The last look was at the same disk and ledger: */
    uint64_t serial; /* ... as these, */
    size_t atom_count;
    ledger known; /* ... and this say. */
    const mk_sim_event *event;
} crash_walk;

static inline void init_sweep(crash_sweep *sweep, crash_store *store)
{
    memset(sweep, 0, sizeof *sweep);
    sweep->store = store;
    sweep->profile = MK_SIM_HOSTILE;
}

static inline bool has_ended(const crash_sweep *sweep)
{
    return sweep->stop || sweep->faulty;
}

/* ---- Telling ---- */

static inline void print_files(const char *title, mk_sim_disk *disk)
{
    mk_sim_paths paths;

    fprintf(stderr, "%s:\n", title);
    MUST(mk_sim_disk_list(disk, &paths, NULL) == MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        int64_t size = -1;

        (void)!mk_sim_disk_size(disk, paths.paths[i], &size, NULL);
        fprintf(stderr, "  %s %lld\n", paths.paths[i], (long long)size);
    }
    mk_sim_paths_deinit(&paths);
}

static inline void print_ledger(const ledger *known)
{
    fprintf(stderr,
            "end %lld (%lld attempted), durable %lld, start %lld..%lld, cut "
            "%lld, going %llx, gone %llx\n",
            (long long)known->end, (long long)known->attempted,
            (long long)known->durable, (long long)known->start,
            (long long)known->start_attempted, (long long)known->cut,
            (unsigned long long)known->going, (unsigned long long)known->gone);
}

static inline void tell_fault(crash_walk *walk, mk_sim_disk *state,
                              const crash_summary *summary, const char *fault,
                              const char *where)
{
    mk_sim_stats stats;

    if (atomic_exchange(&walk->sweep->faulty, true) || walk->sweep->quiet) {
        return;
    }
    mk_sim_disk_stats(walk->run.disk, &stats);
    fprintf(stderr, "%s, step %lld (%s %s), profile %s%s: %s\n", walk->row,
            (long long)stats.steps,
            walk->event == NULL ? "the end"
                                : mk_sim_operation_name(walk->event->operation),
            walk->event == NULL ? "" : walk->event->path,
            mk_sim_profile_name(mk_sim_disk_profile(state)), where, fault);
    print_ledger(&walk->run.known);
    fprintf(stderr, "found: start %lld, end %lld, records %llx\n",
            (long long)summary->start, (long long)summary->end,
            (unsigned long long)summary->found);
    print_files("before the crash", walk->run.disk);
    print_files("after it", state);
}

/* ---- Survivors ---- */

/* What is done with each survivor: `make` gives its disk. */
typedef struct crash_survivor {
    crash_walk *walk;
    mk_sim_disk *origin; /* The disk that was crashed. */
    mk_sim_states *states;
    mk_sim_hash hash;
    bool killed; /* No power was lost. */
} crash_survivor;

typedef void (*survivor_function)(void *context, crash_survivor *survivor);

/* Go through all that a crash of this disk may leave; returns how many. False
 * in `*whole`: there may be more. */
static inline int64_t for_each_survivor(crash_walk *walk, mk_sim_disk *disk,
                                        survivor_function function,
                                        void *context, bool *whole)
{
    const crash_sweep *sweep = walk->sweep;
    mk_sim_states_options options;
    crash_survivor survivor = {.walk = walk, .origin = disk};
    mk_sim_states *states = NULL;
    int64_t count = 0;

    mk_sim_states_options_default(&options);
    options.profile = sweep->profile;
    options.tears = sweep->tears;
    options.exhaustive_bits = 26;
    MUST(mk_sim_states_open(disk, &options, &states, NULL) == MK_OK);
    survivor.states = states;
    while (mk_sim_states_advance(states, NULL) == MK_OK) {
        states->turned = true;
        survivor.hash = mk_sim_states_hash(states);
        if (mk_sim_seen_has(&states->seen, survivor.hash)) continue;
        if (has_ended(sweep)) break;
        if (sweep->limit > 0 && count == sweep->limit) break;
        MUST(mk_sim_seen_prepare(&disk->media.heap, &states->seen, NULL) ==
             MK_OK);
        mk_sim_seen_add(&states->seen, survivor.hash);
        survivor.killed = states->profile == MK_SIM_KILL9;
        if (!walk->has_stranger) {
            survivor.hash =
                mk_sim_hash_pair(survivor.hash, mk_sim_hash_number(1));
        }
        count++;
        function(context, &survivor);
    }
    *whole = states->profile > sweep->profile && !states->inexact;
    mk_sim_states_close(states);
    return count;
}

static inline mk_sim_disk *make_survivor(const crash_survivor *survivor)
{
    mk_sim_disk *disk = NULL;

    MUST(mk_sim_states_make(survivor->states, &disk, NULL) == MK_OK);
    return disk;
}

/* ---- Opening ---- */

static inline void open_and_read(mk_env *env, crash_summary *summary)
{
    mk_log *log = NULL;
    mk_error err = {0};

    if (open_crash_log(env, &log, &err) != MK_OK) {
        set_fault(summary, err.message);
        return;
    }
    read_log(log, summary);
    read_copy(env, summary);
    mk_log_abandon(log);
}

/* The disk was opened once: look closely at it, if nobody ever did at a disk
 * with the same files. */
static inline const crash_summary *look_again(crash_walk *walk,
                                              mk_sim_disk *disk, mk_env *env,
                                              crash_summary *summary)
{
    crash_store *store = walk->sweep->store;
    const crash_summary *first;
    crash_image image = {.summary = NULL};
    uint64_t hash[2];

    if (summary->fault[0] != '\0') return keep_summary(store, summary);
    MUST(mk_sim_disk_hash(disk, hash, NULL) == MK_OK);
    image.hash = mk_sim_hash_pair((mk_sim_hash){hash[0], hash[1]},
                                  mk_sim_hash_number(walk->has_stranger));
    first = find_image(store, image.hash).summary;
    if (first == NULL) {
        if (walk->has_stranger) check_stranger(disk, summary);
        look_closely(disk, env, summary);
        image.summary = keep_summary(store, summary);
        (void)add_image(store, image);
        return image.summary;
    }
    if (memcmp(first, summary, offsetof(crash_summary, fault)) == 0) {
        return first;
    }
    set_fault(summary, "a second open finds something else");
    return keep_summary(store, summary);
}

static inline crash_image visit(crash_survivor *survivor);

/* ---- Crashes in a recovery ---- */

typedef struct nested_walk {
    crash_survivor *outer;
    mk_sim_disk *disk; /* That of the recovery. */
    uint64_t serial;
    size_t atom_count;
    crash_set *set;
} nested_walk;

static inline void take_nested(void *context, crash_survivor *survivor)
{
    nested_walk *nested = context;
    crash_walk *walk = survivor->walk;
    crash_image image = visit(survivor);
    bool killed = nested->outer->killed && survivor->killed;
    const char *fault = judge_summary(&walk->run.known, image.summary, killed);

    add_to_set(nested->set, image.summary);
    if (fault != NULL) {
        mk_sim_disk *state = make_survivor(survivor);

        if (!walk->sweep->quiet && !has_ended(walk->sweep)) {
            print_files("the recovery", nested->disk);
        }
        tell_fault(walk, state, image.summary, fault,
                   ", and another one during recovery");
        mk_sim_disk_free(state);
    }
}

static inline void look_nested(nested_walk *nested)
{
    crash_walk *walk = nested->outer->walk;
    mk_sim_disk *disk = nested->disk;
    bool whole;

    if (nested->serial == disk->next_serial &&
        nested->atom_count == disk->atom_count) {
        return;
    }
    nested->serial = disk->next_serial;
    nested->atom_count = disk->atom_count;
    walk->sweep->nested_crashes++;
    walk->sweep->nested_states +=
        for_each_survivor(walk, disk, take_nested, nested, &whole);
    if (!whole) walk->sweep->partial++;
}

static inline mk_status tell_nested(void *context, const mk_sim_event *event,
                                    mk_error *err)
{
    (void)event;
    (void)err;
    look_nested(context);
    return MK_OK;
}

/* ---- Visiting ---- */

/* Find out what is on a survivor, by opening it if its like was not seen. */
static inline crash_image visit(crash_survivor *survivor)
{
    crash_sweep *sweep = survivor->walk->sweep;
    crash_image image = find_image(sweep->store, survivor->hash);
    crash_summary summary = {.start = 0};
    mk_sim_disk *disk;
    mk_env *env = NULL;

    if (image.summary != NULL) return image;
    image = (crash_image){.hash = survivor->hash};
    disk = make_survivor(survivor);
    MUST(mk_env_new_sim(disk, &env, NULL) == MK_OK);
    open_and_read(env, &summary);
    image.summary = look_again(survivor->walk, disk, env, &summary);
    if (add_image(sweep->store, image)) sweep->opened++;
    mk_env_free(env);
    mk_sim_disk_free(disk);
    return image;
}

/* The same, with the recovery crashed at each step. What a kill left has its
 * unsynced changes, so that its like was never seen. */
static inline crash_image visit_nested(crash_survivor *survivor)
{
    crash_sweep *sweep = survivor->walk->sweep;
    crash_image image = visit(survivor);
    crash_summary summary = {.start = 0};
    crash_set set = {.list = NULL};
    nested_walk nested = {.outer = survivor, .set = &set};
    mk_env *env = NULL;

    if (image.reach != NULL && !survivor->killed) return image;
    if (image.summary->fault[0] != '\0') return image;
    if (survivor->killed) {
        MUST(mk_sim_disk_clone(survivor->origin, &nested.disk, NULL) == MK_OK);
    } else {
        nested.disk = make_survivor(survivor);
    }
    if (sweep->left_out != NULL) {
        MUST(mk_sim_disk_leave_out(nested.disk, sweep->left_out, NULL) ==
             MK_OK);
    }
    nested.serial = nested.disk->next_serial;
    nested.atom_count = nested.disk->atom_count;
    MUST(mk_env_new_sim(nested.disk, &env, NULL) == MK_OK);
    mk_sim_disk_trace(nested.disk, (mk_sim_trace){tell_nested, &nested});
    open_and_read(env, &summary);
    mk_sim_disk_trace(nested.disk, (mk_sim_trace){0});
    look_nested(&nested);
    image.reach = keep_reach(sweep->store, &set);
    if (!survivor->killed && !has_ended(sweep)) {
        (void)add_image(sweep->store, image);
    }
    free(set.list);
    mk_env_free(env);
    mk_sim_disk_free(nested.disk);
    return image;
}

static inline void take_survivor(void *context, crash_survivor *survivor)
{
    crash_walk *walk = context;
    crash_sweep *sweep = walk->sweep;
    crash_image image =
        sweep->nested ? visit_nested(survivor) : visit(survivor);
    const ledger *known = &walk->run.known;
    const crash_summary *bad = image.summary;
    const char *fault = judge_summary(known, bad, survivor->killed);
    mk_sim_disk *state;

    sweep->states[survivor->states->profile]++;
    for (size_t i = 0;
         fault == NULL && image.reach != NULL && i < image.reach->count; i++) {
        bad = image.reach->list[i];
        fault = judge_summary(known, bad, false);
    }
    if (fault == NULL) return;
    state = make_survivor(survivor);
    tell_fault(walk, state, bad, fault,
               bad == image.summary ? "" : ", and another in recovery");
    mk_sim_disk_free(state);
}

/* ---- Rows ---- */

/* Look at all that a crash at this moment may leave. */
static inline void look(crash_walk *walk)
{
    crash_sweep *sweep = walk->sweep;
    mk_sim_disk *disk = walk->run.disk;
    bool whole;

    sweep->steps++;
    if (has_ended(sweep)) return;
    if (walk->skips && walk->serial == disk->next_serial &&
        walk->atom_count == disk->atom_count &&
        memcmp(&walk->known, &walk->run.known, sizeof walk->known) == 0) {
        return;
    }
    walk->skips = true;
    walk->serial = disk->next_serial;
    walk->atom_count = disk->atom_count;
    walk->known = walk->run.known;
    (void)for_each_survivor(walk, disk, take_survivor, walk, &whole);
    sweep->crashes++;
    if (!whole) sweep->partial++;
}

static inline mk_status tell_step(void *context, const mk_sim_event *event,
                                  mk_error *err)
{
    crash_walk *walk = context;

    walk->event = event;
    look(walk);
    walk->event = NULL;
    if (!has_ended(walk->sweep)) return MK_OK;
    return mk_fail(err, MK_CALLBACK, "the sweep has ended");
}

/* Without a crash nothing in a row may fail. */
static inline void must_work(const char *row, mk_status status)
{
    if (status == MK_OK) return;
    fprintf(stderr, "%s: %s\n", row, mk_status_name(status));
    abort();
}

/* Sweep one row. */
static inline void sweep_row(crash_sweep *sweep, const size_t *row,
                             size_t count)
{
    crash_walk walk = {.sweep = sweep};
    char name[160];
    mk_status status = MK_OK;

    name_row(row, count, name, sizeof name);
    walk.row = name;
    begin_run(&walk.run, sweep->left_out);
    if (count > 0) {
        MUST(set_up_log(&walk.run) == MK_OK);
        walk.has_stranger = true;
        MUST(mk_sim_disk_write(walk.run.disk, STRANGER, STRANGER_TEXT,
                               sizeof STRANGER_TEXT - 1, NULL) == MK_OK);
        settle_run(&walk.run, sweep->left_out);
    }
    for (size_t i = 0; i + 1 < count; i++) {
        must_work(name, do_operation(&walk.run, row[i]));
    }
    mk_sim_disk_trace(walk.run.disk, (mk_sim_trace){tell_step, &walk});
    status = count == 0 ? set_up_log(&walk.run)
                        : do_operation(&walk.run, row[count - 1]);
    mk_sim_disk_trace(walk.run.disk, (mk_sim_trace){0});
    if (!has_ended(sweep)) must_work(name, status);
    if (!has_ended(sweep)) look(&walk);
    if (!has_ended(sweep)) sweep->rows++;
    end_run(&walk.run);
}

/* How many rows are there of that length? */
static inline size_t count_rows(size_t count)
{
    size_t rows = 1;

    while (count-- > 0) {
        rows *= OPERATION_COUNT;
    }
    return rows;
}

/* Sweep row number `i` of those of that length. */
static inline void sweep_row_number(crash_sweep *sweep, size_t i, size_t count)
{
    size_t row[ROW_MAX] = {0};

    for (size_t j = count; j-- > 0; i /= OPERATION_COUNT) {
        row[j] = i % OPERATION_COUNT;
    }
    sweep_row(sweep, row, count);
}

static inline void sweep_rows(crash_sweep *sweep, size_t count)
{
    for (size_t i = 0; i < count_rows(count) && !has_ended(sweep); i++) {
        sweep_row_number(sweep, i, count);
    }
}

static inline int64_t count_states(crash_sweep *sweep)
{
    int64_t count = 0;

    for (size_t i = 0; i < MK_SIM_PROFILE_COUNT; i++) {
        count += sweep->states[i];
    }
    return count;
}

#endif /* MK_SUPPORT_CRASH_SWEEP_H */
