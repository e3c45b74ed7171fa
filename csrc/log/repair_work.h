/*
 * repair_work -- a directory that does not open, or is damaged, made sound:
 * what is known of it.
 *
 * First a plan: steps with their reasons. Then, if that is wanted, the steps,
 * each of which leaves the directory such that another repair can go on. What
 * is taken out goes to a quarantine directory in that of the log; a file is
 * there, on stable storage, before anything takes its place.
 */
#ifndef MK_LOG_REPAIR_WORK_H
#define MK_LOG_REPAIR_WORK_H

#include "log/evidence.h"
#include "log/repair_files.h"
#include "log/swap_decision.h"
#include "os/env.h"
#include "store/state_file.h"

#define MK_REPAIR_NO_FILE SIZE_MAX

typedef struct mk_repair_work {
    mk_env *env;                 /* Borrowed. */
    mk_vfs *vfs;                 /* Borrowed. */
    mk_repair_plan *out;         /* Borrowed. */
    const mk_progress *progress; /* Borrowed. */
    mk_log *probe;               /* Owned: to look with; never opened. */
    char directory[MK_PATH_MAX]; /* The log's own name. */
    mk_swap_survey survey;
    mk_swap_tree *chosen;    /* In it: what is, or becomes, the log's; */
    char root[MK_PATH_MAX];  /* ... its path as it is now, */
    bool moves;              /* ... and whether that has to change. */
    bool ambiguous;          /* Opening can't tell which it is. */
    char quarantine[64];     /* The last name of the directory. */
    char spare[MK_PATH_MAX]; /* A sibling's name that is free. */
    mk_repair_files files;
    size_t *of_step; /* Owned: which file a step is about. */
    size_t of_step_capacity;
    mk_state state;             /* As it is found; */
    bool state_is_bad;          /* It cannot be read, */
    bool state_differs;         /* ... or is not about what is there. */
    bool missing;               /* A segment is that it knows; */
    bool revives;               /* ... and a source may have been that. */
    int64_t gaps_below;         /* A swap left offsets missing below this. */
    mk_state next;              /* ... and as it will be. */
    mk_file *locks[3];          /* Owned. */
    int64_t end_offset;         /* Of the log, when all is done. */
    bool end_is_told;           /* By the state, for the files as they are. */
    int64_t lost_from, lost_to; /* Segments that are missing; -1: none. */
} mk_repair_work;

/* Look at a directory and what stands beside it, lock them, and choose the one
 * that is, or becomes, the log's. Errors: NOT_FOUND, LOCKED, IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_repair_work_begin(mk_repair_work *work, mk_env *env,
                                            const char *directory, bool apply,
                                            mk_repair_plan *out, mk_error *err);

/* Is there a state that can be read? */
static inline bool mk_repair_work_has_state(const mk_repair_work *work)
{
    return work->state.log_start_offset >= 0;
}

/* Add a step about file number `file`; MK_REPAIR_NO_FILE: about none. */
MK_NODISCARD mk_status mk_repair_work_add(mk_repair_work *work,
                                          mk_repair_action action, size_t file,
                                          const char *path, const char *to,
                                          mk_error *err, const char *format,
                                          ...) MK_PRINTF(7, 8);

/* Would opening miss a segment that the state knows? Sets `missing` and
 * `revives`. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_repair_work_find_missing(mk_repair_work *work,
                                                   const mk_leftovers *plan,
                                                   mk_error *err);

/* Does a segment that stays have some of what this one had? */
bool mk_repair_work_covers(const mk_repair_work *work,
                           const mk_segment_facts *facts);

void mk_repair_work_deinit(mk_repair_work *work);

#endif /* MK_LOG_REPAIR_WORK_H */
