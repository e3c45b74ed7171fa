/*
 * flush -- putting a log on stable storage.
 */
#ifndef MK_LOG_FLUSH_H
#define MK_LOG_FLUSH_H

#include "log/log.h"

/*
 * Bring everything below the log end of now onto stable storage; lets the mutex
 * go while it syncs. Callers that come meanwhile share the next sync. A failed
 * sync makes the log refuse changes. Errors: IO and what made the log refuse.
 */
MK_NODISCARD mk_status mk_log_flush_locked(mk_log *log, mk_error *err);

/* Sync all that is not yet, whatever made the log refuse: what was found there
 * is put on stable storage before it goes on. Errors: IO. */
MK_NODISCARD mk_status mk_log_sync_to_heal_locked(mk_log *log, mk_error *err);

/* Write index entries that their files lack, and the state if it is worth it.
 */
MK_NODISCARD mk_status mk_log_write_caches_locked(mk_log *log, mk_error *err);

/* Is a flush due, by flush_messages or flush_ms? */
bool mk_log_flush_is_due_locked(const mk_log *log, int64_t now_ms);

#endif /* MK_LOG_FLUSH_H */
