/*
 * appender -- many records, one batch.
 */
#ifndef MK_LOG_APPENDER_H
#define MK_LOG_APPENDER_H

#include "log/append.h"

struct mk_appender {
    mk_log *log; /* Counted. */
    mk_appender_options options;
    mk_waiting waiting; /* In the log's list while it has records. Its range
                           is that of all records since the last flush. */
    mk_scratch buffer;  /* Where the batch is built. */
    int64_t first_ms;   /* When its first record came, by the clock. */
    size_t users;       /* Calls that have let the mutex go. */
    bool closed;        /* The last user frees it. */
};

MK_NODISCARD mk_status mk_appender_new(mk_log *log,
                                       const mk_appender_options *options,
                                       mk_appender **out, mk_error *err);

/* Free it as soon as nobody uses it; waiting records are dropped. */
void mk_appender_free(mk_appender *appender);

/* End a call that has counted itself among the users. */
void mk_appender_leave(mk_appender *appender);

/* Is the time of day needed to add these records? */
bool mk_appender_needs_clock_locked(const mk_appender *appender,
                                    const mk_record *records, size_t count);

/* Add records from `*added` on, which counts on, sending the batch when it is
 * full or one does not fit any more. MK_END: the time of day is needed after
 * all; call again. */
MK_NODISCARD mk_status mk_appender_add_locked(mk_appender *appender,
                                              const mk_record *records,
                                              size_t count, size_t *added,
                                              int64_t now_ms, mk_error *err);

/* Add a record if all there is to it is to encode it: it needs no clock, and
 * the batch at hand has room. False: nothing was done. */
bool mk_appender_add_usual_locked(mk_appender *appender,
                                  const mk_record *record);

/* Send what waits; MK_END as above. */
MK_NODISCARD mk_status mk_appender_send_locked(mk_appender *appender,
                                               int64_t now_ms, mk_error *err);

#endif /* MK_LOG_APPENDER_H */
