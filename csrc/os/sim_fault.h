/*
 * sim_fault -- an operation on a simulated disk begins: it is counted, may be
 * the one at which power is lost, may meet a fault, and is told.
 */
#ifndef MK_OS_SIM_FAULT_H
#define MK_OS_SIM_FAULT_H

#include "os/sim_disk.h"

/* An operation. */
typedef struct mk_sim_step {
    mk_sim_operation operation;
    const char *path; /* Borrowed; clean. */
    const char *to;   /* Borrowed; clean, or NULL. */
    const char *sync; /* Borrowed, or NULL. */
    int64_t position, size;
    int os_errno; /* In: why it can't be done as things are, or 0. */
    bool hit;     /* Out: by `fault`, which makes it fail now or later. */
    int failed;   /* Out: the errno with which it failed; 0: it did not, or for
                     another reason. */
    mk_sim_fault fault;
} mk_sim_step;

/* Begin an operation, under the mutex. A nested one, made inside the trace, is
 * not counted, hit or told. Errors: CRASHED; IO and its kin, by the fault or by
 * os_errno; what the trace fails with; NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_step_begin(mk_sim_disk *disk, bool nested,
                                         mk_sim_step *step, mk_error *err);

/* Does the glob match the path? */
bool mk_sim_glob_match(const char *glob, const char *path);

#endif /* MK_OS_SIM_FAULT_H */
