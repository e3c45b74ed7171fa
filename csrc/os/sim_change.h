/*
 * sim_change -- what a process does to a simulated disk: a change that it sees
 * at once, and the atoms that stand for it.
 *
 * All these want the mutex, and arguments that were checked: names are there or
 * not, as the change needs it. Errors are NO_MEMORY alone, with nothing
 * changed.
 */
#ifndef MK_OS_SIM_CHANGE_H
#define MK_OS_SIM_CHANGE_H

#include "os/sim_disk.h"

/* ---- Contents ---- */

/* Write bytes. `doomed`: a loss of power loses them. */
MK_NODISCARD mk_status mk_sim_change_write(mk_sim_disk *disk, uint32_t node,
                                           int64_t position, const void *bytes,
                                           size_t size, bool doomed,
                                           mk_error *err);

/* Make the file that long. */
MK_NODISCARD mk_status mk_sim_change_size(mk_sim_disk *disk, uint32_t node,
                                          int64_t size, mk_error *err);

/* The same, with room on the disk for all of it. */
MK_NODISCARD mk_status mk_sim_change_room(mk_sim_disk *disk, uint32_t node,
                                          int64_t size, mk_error *err);
MK_NODISCARD mk_status mk_sim_change_time(mk_sim_disk *disk, uint32_t node,
                                          int64_t mtime_ms, mk_error *err);

/* Put `content`, which is taken over, in the place of what there is, on stable
 * storage at once. Cannot fail. */
void mk_sim_change_content(mk_sim_disk *disk, uint32_t node,
                           mk_sim_content *content);

/* Make stable what processes see of a file's content and time. Cannot fail. */
void mk_sim_change_settle(mk_sim_disk *disk, uint32_t node);

/* ---- Names ---- */

/* Make a file or directory where there is none. The nodes may move. */
MK_NODISCARD mk_status mk_sim_change_create(mk_sim_disk *disk,
                                            const mk_sim_place *place,
                                            bool directory, uint32_t *out,
                                            mk_error *err);

/* Give a file one more name. */
MK_NODISCARD mk_status mk_sim_change_link(mk_sim_disk *disk, uint32_t node,
                                          const mk_sim_place *place,
                                          mk_error *err);

/* Remove a name; an empty directory goes with it. */
MK_NODISCARD mk_status mk_sim_change_remove(mk_sim_disk *disk,
                                            const mk_sim_place *place,
                                            mk_error *err);

/* Move a name to another, which may be there. */
MK_NODISCARD mk_status mk_sim_change_rename(mk_sim_disk *disk,
                                            const mk_sim_place *from,
                                            const mk_sim_place *to,
                                            mk_error *err);

/* Let two names lead where the other one did. */
MK_NODISCARD mk_status mk_sim_change_exchange(mk_sim_disk *disk,
                                              const mk_sim_place *a,
                                              const mk_sim_place *b,
                                              mk_error *err);

#endif /* MK_OS_SIM_CHANGE_H */
