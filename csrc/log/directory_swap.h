/*
 * directory_swap -- publishing a rewritten set of segments by letting a new
 * directory take the place of the log's, as the chapter has it.
 *
 * The new directory is a sibling (see mk_name_sibling()). It gets the rewritten
 * segments, hard links to everything else that is to stay (the lock, the active
 * segment and whatever stands after the rewritten ones, files that are not
 * ours), and is synced. Then it takes the name: by exchanging the two names in
 * one step where the disk can, else by two renames, the first of which is
 * undone if the second fails. The parent is synced, and the old tree removed.
 *
 * What a death can leave (`live` is the log's directory; "noted" means that it
 * has a note, see store/swap_manifest), and what the next open makes of it:
 *
 *     live, new (noted)            not swapped      new is removed
 *     live (noted), new            exchanged        new, the old tree, goes
 *     live (noted), old            two renames      old goes
 *     old, new (noted)             between them     old becomes live, new goes
 *     live (noted)                 all but done     the note goes
 *
 * What else can be found is decided by log/swap_decision.
 */
#ifndef MK_LOG_DIRECTORY_SWAP_H
#define MK_LOG_DIRECTORY_SWAP_H

#include "log/log.h"
#include "store/names.h"

typedef struct mk_directory_swap {
    mk_log *log;            /* Borrowed; its maintenance is the caller's. */
    char path[MK_PATH_MAX]; /* Of the new directory. */
} mk_directory_swap;

/* Make the new directory, empty but for the note whose it is. What an earlier
 * attempt left there is removed first. */
MK_NODISCARD mk_status mk_directory_swap_begin(mk_directory_swap *swap,
                                               mk_log *log, mk_error *err);

/* Remove the new directory. */
void mk_directory_swap_cancel(mk_directory_swap *swap);

/*
 * Let the new directory take the log's place, with `count` rewritten segments
 * (already written there, synced, counted once for the log) in place of the
 * first `source_count` of the log. On failure the log is as it was and the new
 * directory is gone; the segments remain the caller's.
 */
MK_NODISCARD mk_status mk_directory_swap_publish_locked(
    mk_directory_swap *swap, mk_segment *const *segments, size_t count,
    size_t source_count, mk_error *err);

/*
 * Before a log is opened: where its directory is missing and a swap left a tree
 * that can be told to be the log, take that tree's lock and give it the name. A
 * read-only log reads it where it is. Errors: SWAP_AMBIGUOUS, with nothing
 * changed; LOCKED, IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_directory_swap_restore(mk_log *log, mk_error *err);

/* With the directory locked: remove what a swap left beside it. What can't be
 * proved to be ours and superseded stays. Errors: SWAP_AMBIGUOUS, IO,
 * NO_MEMORY. */
MK_NODISCARD mk_status mk_directory_swap_clean(mk_log *log, mk_error *err);

#endif /* MK_LOG_DIRECTORY_SWAP_H */
