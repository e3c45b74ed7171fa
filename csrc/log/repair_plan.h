/*
 * repair_plan -- what has to be done to a directory, and why.
 */
#ifndef MK_LOG_REPAIR_PLAN_H
#define MK_LOG_REPAIR_PLAN_H

#include "log/repair_work.h"

/* Read all of the log and fill in the steps; none if it needs no mending.
 * Errors: UNSUPPORTED (old formats), IO, NO_MEMORY; those of the progress. */
MK_NODISCARD mk_status mk_repair_plan_make(mk_repair_work *work, mk_error *err);

#endif /* MK_LOG_REPAIR_PLAN_H */
