/*
 * life -- opening and closing a log.
 */
#ifndef MK_LOG_LIFE_H
#define MK_LOG_LIFE_H

#include "log/log.h"

/* Make a directory and the parents it lacks, and put their names on stable
 * storage. One that is there is fine. */
MK_NODISCARD mk_status mk_log_make_directory(mk_vfs *vfs, const char *path,
                                             mk_error *err);

/* Open a log, as mk_log_open() says; the options were checked. */
MK_NODISCARD mk_status mk_log_start(const char *directory,
                                    const mk_open_options *options,
                                    mk_log **out, mk_error *err);

/*
 * End a log's life: with `orderly`, flush it and leave the marks of a clean
 * end, at the time `now_ms`. It is closed whatever the status, and freed with
 * its last holder; the caller's own hold is given back.
 */
mk_status mk_log_stop(mk_log *log, bool orderly, int64_t now_ms, mk_error *err);

#endif /* MK_LOG_LIFE_H */
