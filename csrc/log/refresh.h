/*
 * refresh -- a reader's view of a log that another process writes.
 *
 * A reader takes no lock, so files may come, go and change while it looks.
 * What it read of a directory counts when the directory looks the same before
 * and after; what it reads later, and can't be right, counts as damage only if
 * nothing has changed since.
 */
#ifndef MK_LOG_REFRESH_H
#define MK_LOG_REFRESH_H

#include "log/log.h"

/* Fill a fresh read-only log from its directory, wherever a swap has put that.
 * Errors: those of mk_log_recover(); NOT_FOUND when it is missing. */
MK_NODISCARD mk_status mk_log_read_directory(mk_log *log,
                                             const mk_progress *progress,
                                             mk_error *err);

/* Look for what a writer has done since, in a read-only log; a log that writes
 * knows. Errors: those of mk_log_read_directory(); then all is as it was. */
MK_NODISCARD mk_status mk_log_refresh_locked(mk_log *log, mk_error *err);

/* The same if the state file is not the one that was seen: it is written anew
 * for all that a writer does but appending. Of an old one it costs one stat. */
void mk_log_notice_locked(mk_log *log);

/* Was an operation that failed with `status`, and began with what was known in
 * `generation`, misled by an old view of the directory? Then the log has been
 * refreshed, by this call or another thread: begin again. */
bool mk_log_was_outdated_locked(mk_log *log, uint64_t generation,
                                mk_status status);

#endif /* MK_LOG_REFRESH_H */
