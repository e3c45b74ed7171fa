/*
 * renew -- writing again what may not have been written.
 */
#ifndef MK_LOG_RENEW_H
#define MK_LOG_RENEW_H

#include "log/log.h"

/*
 * If a sync had failed: read what the log has above `point` and write it back
 * where it stands, so that the next sync has it to put on stable storage.
 * Segments known to be there are left alone. Where there is no room for that,
 * a log that is being opened can be read all the same, but refuses changes. A
 * part of recovery: no file of the log has a tail meanwhile.
 * Errors: IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_log_renew(mk_log *log, const mk_recovery_point *point,
                                    mk_error *err);

#endif /* MK_LOG_RENEW_H */
