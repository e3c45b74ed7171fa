/*
 * refresh -- a reader's view of a log that another process writes.
 */
#ifndef MK_LOG_REFRESH_H
#define MK_LOG_REFRESH_H

#include "log/log.h"

/* Look for what a writer has done since, in a read-only log; a log that writes
 * knows. Errors: those of mk_log_recover(); then all is as it was. */
MK_NODISCARD mk_status mk_log_refresh_locked(mk_log *log, mk_error *err);

#endif /* MK_LOG_REFRESH_H */
