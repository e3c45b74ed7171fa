/*
 * state_store -- keeping a log's state file, also on a full disk.
 */
#ifndef MK_LOG_STATE_STORE_H
#define MK_LOG_STATE_STORE_H

#include "log/log.h"

/* Put together the state of the log as if it had these segments. The caller
 * releases it with mk_state_deinit(). Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_log_get_state_locked(const mk_log *log,
                                               mk_segment *const *segments,
                                               size_t count, mk_state *out,
                                               mk_error *err);

/* Write the log's state file; with `durable`, on stable storage. On a full disk
 * the reserve is given up for it. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_log_store_state_locked(mk_log *log, bool durable,
                                                 mk_error *err);

/* The same, durably; while `*begun` is false the old state is there. */
MK_NODISCARD mk_status mk_log_replace_state_locked(mk_log *log, bool *begun,
                                                   mk_error *err);

/* The same, durably, once nothing is being cut off any more. */
MK_NODISCARD mk_status mk_log_end_cut_locked(mk_log *log, mk_error *err);

/* Keep room for a state on a disk that fills up, as far as there is some. */
void mk_log_keep_reserve_locked(mk_log *log);

/* Let it be used for something else; false if there was none. */
bool mk_log_give_up_reserve_locked(mk_log *log);

#endif /* MK_LOG_STATE_STORE_H */
