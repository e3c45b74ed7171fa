/*
 * repair_run -- carrying a plan out.
 *
 * Each step leaves the directory such that another repair can go on. What is
 * taken out is in the quarantine, on stable storage, before anything takes its
 * place; the state, which lets the log open without what is lost, is written
 * last.
 */
#ifndef MK_LOG_REPAIR_RUN_H
#define MK_LOG_REPAIR_RUN_H

#include "log/repair_work.h"

/* Errors: IO, NO_MEMORY; another repair can go on then. */
MK_NODISCARD mk_status mk_repair_run(mk_repair_work *work, mk_error *err);

#endif /* MK_LOG_REPAIR_RUN_H */
