/*
 * repair_loss -- what a log has lost, once it is decided what becomes of its
 * files: where offsets are missing, and where it ends.
 */
#ifndef MK_LOG_REPAIR_LOSS_H
#define MK_LOG_REPAIR_LOSS_H

#include "log/repair_work.h"

/* Are offsets missing between the segments that stay, or in them, as opening
 * would find? Sets `lost_from`, `lost_to` and `state_differs`. */
void mk_repair_find_gaps(mk_repair_work *work);

/* Does a segment have less than the state says? Sets the same. */
void mk_repair_find_shortened(mk_repair_work *work);

/* Where the log ends: behind all that can be read, and behind what was there
 * for good. Sets `end_offset` and `end_is_told`. */
void mk_repair_find_end(mk_repair_work *work);

#endif /* MK_LOG_REPAIR_LOSS_H */
