/*
 * sim_crash -- losing power: what a profile allows, drawn by chance.
 *
 * All want the mutex.
 */
#ifndef MK_OS_SIM_CRASH_H
#define MK_OS_SIM_CRASH_H

#include "os/sim_image.h"

/* How many atoms may survive, of all or of those that are no data? */
size_t mk_sim_crash_count(const mk_sim_disk *disk, bool metadata_only);

/* Let the first so many of them survive, and the others be lost. */
void mk_sim_crash_keep_first(const mk_sim_disk *disk, bool metadata_only,
                             size_t count, mk_sim_fate *fates);

/* Draw a fate for each atom of the disk, as the profile allows. `fates` has
 * room for all; KILL9 is none of the profiles that decide. */
void mk_sim_crash_draw(const mk_sim_disk *disk, mk_sim_profile profile,
                       bool tears, uint64_t *chance, mk_sim_fate *fates);

/* Crash. Errors: NO_MEMORY, with nothing changed. */
MK_NODISCARD mk_status mk_sim_crash_now(mk_sim_disk *disk,
                                        mk_sim_profile profile, mk_error *err);

#endif /* MK_OS_SIM_CRASH_H */
