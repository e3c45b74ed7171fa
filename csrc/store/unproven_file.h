/*
 * unproven_file -- `minikafka.unproven`: its being there says that a sync has
 * failed, of records or of the state.
 *
 * What stands above the recovery point may then be read and still never become
 * stable, and the state that is read may not be the one that stays. Another
 * process can't find that out by itself; the loss of power, which settles the
 * matter, needs no note. So it is never synced.
 */
#ifndef MK_STORE_UNPROVEN_FILE_H
#define MK_STORE_UNPROVEN_FILE_H

#include "os/vfs.h"

/* Leave the note; the reserve may become it. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_unproven_note(mk_vfs *vfs, const char *directory,
                                        mk_error *err);

/* Is there one? Errors: IO. */
MK_NODISCARD mk_status mk_unproven_find(mk_vfs *vfs, const char *directory,
                                        bool *out, mk_error *err);

/* Take it away; one that stays only makes the next opening slower. */
void mk_unproven_forget(mk_vfs *vfs, const char *directory);

#endif /* MK_STORE_UNPROVEN_FILE_H */
