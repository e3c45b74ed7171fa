/*
 * append -- checking records, building batches, and putting them at the end of
 * a log.
 */
#ifndef MK_LOG_APPEND_H
#define MK_LOG_APPEND_H

#include "log/active.h"

/*
 * A batch that is built but not yet part of the log: an appender's, or that of
 * the call in progress. `batch` has codec, epoch and producer; offsets, times
 * and sizes are filled in when it is appended.
 */
typedef struct mk_waiting {
    mk_batch_builder builder;
    mk_batch batch;
    bool admitted;         /* Its size was right when its records were taken. */
    bool in_tail;          /* Built in the active segment's own tail. */
    mk_offset_range range; /* Once appended; its first is kept if it has one. */
    struct mk_waiting *next; /* Borrowed: the log's list of waiting batches. */
} mk_waiting;

/* Is the time of day needed to append records of this kind now? Settings may
 * compare times with the clock, or replace them by it. */
static inline bool mk_log_needs_clock_locked(const mk_log *log,
                                             const mk_record *records,
                                             size_t count)
{
    const mk_config *config = &log->config;

    if (config->message_timestamp_type != 0 ||
        config->message_timestamp_before_max_ms != INT64_MAX ||
        config->message_timestamp_after_max_ms != INT64_MAX ||
        config->flush_ms != INT64_MAX) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (records[i].timestamp_ms < 0) return true;
    }
    return false;
}

/*
 * Check one record against the settings, and give the time it will carry.
 * `now_ms` is MK_TIMESTAMP_NOW when the clock was not read.
 * Errors: INVALID_RECORD, INVALID_TIMESTAMP, RECORD_TOO_LARGE.
 */
MK_NODISCARD mk_status mk_log_check_record_locked(const mk_log *log,
                                                  const mk_record *record,
                                                  int64_t now_ms,
                                                  int64_t *timestamp_ms,
                                                  mk_error *err);

/* Sum up the room that these records may take in a batch. Errors:
 * RECORD_TOO_LARGE, INVALID_RECORD, with `record_index`. */
MK_NODISCARD mk_status mk_log_bound_records_locked(const mk_log *log,
                                                   const mk_record *records,
                                                   size_t count, size_t *out,
                                                   mk_error *err);

/* The largest batch that the settings let in. */
static inline uint64_t mk_log_batch_size_max_locked(const mk_log *log)
{
    int64_t max = log->config.max_message_bytes;

    if (log->config.segment_bytes < max) max = log->config.segment_bytes;
    return (uint64_t)max;
}

/* Fail with RECORD_TOO_LARGE. */
mk_status mk_log_fail_too_large_locked(const mk_log *log, uint64_t size,
                                       mk_error *err);

/*
 * Append a waiting batch. MK_END: rolling needs the time of day, or had to
 * wait for a swap; read the clock and begin again. Errors: RECORD_TOO_LARGE,
 * INVALID_RECORD, IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_log_append_waiting_locked(mk_log *log,
                                                    mk_waiting *waiting,
                                                    int64_t now_ms,
                                                    mk_error *err);

/* Append all batches in the log's list of waiting ones, in order. Errors: as
 * above; what could not be appended waits on. */
MK_NODISCARD mk_status mk_log_send_waiting_locked(mk_log *log, int64_t now_ms,
                                                  mk_error *err);

/* Build a batch of `count` records in the active segment's tail. */
MK_NODISCARD mk_status mk_log_build_locked(mk_log *log,
                                           const mk_record *records,
                                           size_t count, int64_t now_ms,
                                           mk_waiting *out, mk_error *err);

#endif /* MK_LOG_APPEND_H */
