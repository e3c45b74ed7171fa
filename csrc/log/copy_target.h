/*
 * copy_target -- the directory that a copy of a log is built in, and its name.
 *
 * A copy is built in a sibling of its target (see mk_name_sibling()), whose
 * lock is held, and takes the name when it is complete: a half copy never has
 * it. What a death leaves of one is removed by the next copy to the same name.
 */
#ifndef MK_LOG_COPY_TARGET_H
#define MK_LOG_COPY_TARGET_H

#include "os/env.h"
#include "store/names.h"

typedef struct mk_copy_target {
    mk_env *env;            /* Borrowed. */
    char path[MK_PATH_MAX]; /* What the copy will be called. */
    char tree[MK_PATH_MAX]; /* Where it is built. */
    bool was_there;         /* An empty directory has the name. */
    mk_file *lock;          /* Owned; NULL: there is no tree of ours. */
} mk_copy_target;

/*
 * Make an empty tree for a copy of the log in `source` that will be called
 * `directory`. Errors: INVALID_ARGUMENT if that name cannot be a copy's: it is
 * taken by something else than an empty directory, lies inside the log, or is
 * reserved; LOCKED if another copy to it is being made; IO.
 */
MK_NODISCARD mk_status mk_copy_target_begin(mk_copy_target *target, mk_env *env,
                                            const char *source,
                                            const char *directory,
                                            mk_error *err);

/* Let the tree, in which all is on stable storage, take its name for good.
 * Errors: INVALID_ARGUMENT if that was taken meanwhile, IO; the tree has its
 * own name again then. */
MK_NODISCARD mk_status mk_copy_target_publish(mk_copy_target *target,
                                              mk_error *err);

/* Give up the lock; and the tree, too, if it was not published. */
void mk_copy_target_deinit(mk_copy_target *target);

#endif /* MK_LOG_COPY_TARGET_H */
