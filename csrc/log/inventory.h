/*
 * inventory -- listing a directory, bringing a swap of segments that was cut
 * short to its end, and counting the segments there are.
 */
#ifndef MK_LOG_INVENTORY_H
#define MK_LOG_INVENTORY_H

#include "log/evidence.h"
#include "log/leftovers.h"
#include "log/log.h"

/*
 * Add an empty segment to the log for each one in its directory. A log that may
 * write carries out first what the leftovers call for, if the segments have
 * their names only then; else that waits for mk_inventory_settle(), so that a
 * log that can't be opened stays as it is. A reader's segments have the stage
 * that they are found in. `out` tells what was rewritten; the caller releases
 * it with mk_leftovers_deinit(), whatever the status. With `evidence`, which
 * may be NULL, nothing is done if a segment is missing that it knows. Errors:
 * CORRUPT_SEGMENT, SWAP_AMBIGUOUS, IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_inventory_take(mk_log *log, mk_evidence *evidence,
                                         mk_leftovers *out, mk_error *err);

/* Carry out what waited, once. Errors: IO. */
MK_NODISCARD mk_status mk_inventory_settle(mk_log *log, mk_leftovers *plan,
                                           mk_error *err);

/* Once the state file says what is there: remove the note of a swap. */
MK_NODISCARD mk_status mk_inventory_forget_note(mk_log *log, mk_error *err);

#endif /* MK_LOG_INVENTORY_H */
