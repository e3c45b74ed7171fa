/*
 * heal -- from refusing changes back to work.
 */
#ifndef MK_LOG_HEAL_H
#define MK_LOG_HEAL_H

#include "log/log.h"

/*
 * Let a log that refuses changes look at its files again, and go on if they and
 * the disk are in order. If it does not refuse, as
 * mk_log_check_writable_locked(). Errors: those; what made the log refuse, or
 * what keeps it from going on; IO with `offset`: it goes on, but without the
 * records from that offset on, which were acknowledged and not flushed.
 */
MK_NODISCARD mk_status mk_log_heal_locked(mk_log *log, mk_error *err);

/* The same while the log is being closed. */
MK_NODISCARD mk_status mk_log_heal_to_close_locked(mk_log *log, mk_error *err);

/* May the log be changed by this thread, now? As
 * mk_log_check_writable_locked(), but a log that refuses tries to heal first.
 */
MK_NODISCARD static inline mk_status mk_log_make_writable_locked(mk_log *log,
                                                                 mk_error *err)
{
    if (MK_LIKELY(log->failed == MK_OK)) {
        return mk_log_check_writable_locked(log, err);
    }
    return mk_log_heal_locked(log, err);
}

#endif /* MK_LOG_HEAL_H */
