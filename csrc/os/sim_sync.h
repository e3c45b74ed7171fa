/*
 * sim_sync -- how atoms become stable, and how a sync fails.
 *
 * All want the mutex. Errors are NO_MEMORY alone, with nothing changed.
 */
#ifndef MK_OS_SIM_SYNC_H
#define MK_OS_SIM_SYNC_H

#include "os/sim_disk.h"

/* Make a file's content and, unless `data_only`, its time stable; its names
 * too, where the disk does that. */
MK_NODISCARD mk_status mk_sim_sync_file(mk_sim_disk *disk, uint32_t node,
                                        bool data_only, mk_error *err);

/* Make a directory's names and time stable; its own name too, where the disk
 * does that. */
MK_NODISCARD mk_status mk_sim_sync_directory(mk_sim_disk *disk, uint32_t node,
                                             mk_error *err);

/* Make stable what became of the name at `place`, there or not. */
MK_NODISCARD mk_status mk_sim_sync_name(mk_sim_disk *disk,
                                        const mk_sim_place *place,
                                        mk_error *err);

/* Let a file be as after a sync that failed: for all its pages, or only for
 * those that are doomed. Cannot fail itself. */
void mk_sim_sync_fail(mk_sim_disk *disk, uint32_t node, mk_sim_flavour flavour,
                      bool doomed_only);

#endif /* MK_OS_SIM_SYNC_H */
