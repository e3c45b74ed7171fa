/* api_append -- appending from outside: check, read the clock, lock, append. */
#include <stdio.h>

#include "base/check.h"
#include "log/appender.h"
#include "log/flush.h"
#include "log/heal.h"

#include "base/poison.h"

void mk_append_options_default(mk_append_options *out)
{
    *out = (mk_append_options){
        .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
}

static mk_status check_options(const mk_append_options *options, mk_error *err)
{
    if (options->compression != MK_CODEC_NONE) {
        return mk_fail(err, MK_UNSUPPORTED, "compression is not built in yet");
    }
    if (options->producer_id != -1 || options->transactional) {
        return mk_fail(err, MK_UNSUPPORTED, "producers are not built in yet");
    }
    if (options->keep_offsets) {
        return mk_fail(err, MK_UNSUPPORTED,
                       "keeping offsets is not built in yet");
    }
    return MK_OK;
}

static mk_status check_count(size_t count, mk_error *err)
{
    if (count == 0) {
        return mk_fail(err, MK_INVALID_RECORD, "a batch needs a record");
    }
    if (count > INT32_MAX) {
        return mk_fail(err, MK_RECORD_TOO_LARGE,
                       "a batch can't have %zu records", count);
    }
    return MK_OK;
}

static void prepare(mk_waiting *waiting, const mk_append_options *options)
{
    waiting->next = NULL;
    waiting->range = (mk_offset_range){-1, -1};
    waiting->batch.attributes = 0;
    waiting->batch.leader_epoch = options->leader_epoch;
    waiting->batch.producer_id = options->producer_id;
    waiting->batch.producer_epoch = options->producer_epoch;
    waiting->batch.base_sequence = options->base_sequence;
}

/* One try with the time as far as it is known; MK_END asks for it. */
static mk_status try_append(mk_log *log, const mk_record *records, size_t count,
                            mk_waiting *waiting, int64_t now_ms, mk_error *err)
{
    mk_status status = mk_log_make_writable_locked(log, err);

    if (MK_UNLIKELY(status != MK_OK)) return status;
    if (now_ms == MK_TIMESTAMP_NOW &&
        mk_log_needs_clock_locked(log, records, count)) {
        return MK_END;
    }
    status = mk_log_send_waiting_locked(log, now_ms, err);
    if (MK_UNLIKELY(status != MK_OK)) return status;
    status = mk_log_build_locked(log, records, count, now_ms, waiting, err);
    if (MK_UNLIKELY(status != MK_OK)) return status;
    return mk_log_append_waiting_locked(log, waiting, now_ms, err);
}

/* Read the clock, if that was not done yet, with the mutex free meanwhile. The
 * log is held then: see mk_log_read_clock(). */
static mk_status read_clock_once(mk_log *log, int64_t *now_ms, bool *held,
                                 mk_error *err)
{
    mk_status status;

    if (*held) return mk_log_check_writable_locked(log, err);
    *held = true;
    mk_mutex_unlock(&log->mutex);
    status = mk_log_read_clock(log, NULL, now_ms, err);
    mk_mutex_lock(&log->mutex);
    return status;
}

/* The same for an appender, which is held, too. */
static mk_status read_clock_for(mk_appender *appender, int64_t *now_ms,
                                bool *held, mk_error *err)
{
    mk_status status;

    if (!*held) appender->users++;
    status = read_clock_once(appender->log, now_ms, held, err);
    if (status != MK_OK || !appender->closed) return status;
    return mk_fail(err, MK_CLOSED, "the appender was closed by its clock");
}

/* Undo it. */
static void let_go(mk_appender *appender)
{
    mk_log *log = appender->log;

    mk_appender_leave(appender);
    mk_log_release(log);
}

/* What follows an append: syncs that are due, and those who wait for the end.
 */
static mk_status after_append(mk_log *log, bool durable, int64_t now_ms,
                              mk_error *err)
{
    mk_status status;

    mk_condition_signal_all(&log->changed);
    if (MK_LIKELY(!durable && !mk_log_flush_is_due_locked(log, now_ms))) {
        return MK_OK;
    }
    if (now_ms != MK_TIMESTAMP_NOW) log->last_flush_ms = now_ms;
    status = mk_log_flush_locked(log, err);
    /* Whatever it was, records are there that no call has told of. */
    if (MK_UNLIKELY(status != MK_OK)) mk_log_doubt_tail_locked(log, err);
    return status;
}

/* The common part of both appends. */
static mk_status append(mk_log *log, const mk_record *records, size_t count,
                        const mk_append_options *options, mk_offset_range *out,
                        mk_error *err)
{
    int64_t now_ms = MK_TIMESTAMP_NOW;
    bool held = false;
    mk_waiting waiting;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    prepare(&waiting, options);
    mk_mutex_lock(&log->mutex);
    status = try_append(log, records, count, &waiting, now_ms, err);
    while (MK_UNLIKELY(status == MK_END)) {
        status = read_clock_once(log, &now_ms, &held, err);
        if (status == MK_OK) {
            waiting.batch.attributes = 0;
            status = try_append(log, records, count, &waiting, now_ms, err);
        }
    }
    if (MK_LIKELY(status == MK_OK)) {
        *out = waiting.range;
        status = after_append(log, options->durable, now_ms, err);
    }
    mk_mutex_unlock(&log->mutex);
    if (MK_UNLIKELY(held)) mk_log_release(log);
    return status;
}

mk_status mk_log_append(mk_log *log, const mk_record *records, size_t count,
                        const mk_append_options *options, mk_offset_range *out,
                        mk_error *err)
{
    mk_append_options defaults;
    mk_status status;

    *out = (mk_offset_range){-1, -1};
    mk_append_options_default(&defaults);
    if (options == NULL) options = &defaults;
    status = check_count(count, err);
    if (status == MK_OK) status = check_options(options, err);
    if (status != MK_OK) return status;
    return append(log, records, count, options, out, err);
}

mk_status mk_log_append_one(mk_log *log, const mk_record *record,
                            int64_t *offset, mk_error *err)
{
    mk_append_options options;
    mk_offset_range range = {-1, -1};
    mk_status status;

    mk_append_options_default(&options);
    status = append(log, record, 1, &options, &range, err);
    *offset = range.first;
    return status;
}

mk_status mk_log_roll(mk_log *log, mk_error *err)
{
    int64_t now_ms = 0;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    status = mk_log_read_clock(log, NULL, &now_ms, err);
    if (status == MK_OK) {
        mk_mutex_lock(&log->mutex);
        do {
            status = mk_log_make_writable_locked(log, err);
            if (status == MK_OK) {
                status = mk_log_send_waiting_locked(log, now_ms, err);
            }
        } while (status == MK_END);
        if (status == MK_OK) status = mk_log_roll_locked(log, now_ms, err);
        mk_mutex_unlock(&log->mutex);
    }
    mk_log_release(log);
    return status;
}

/* ---- Appenders ---- */

#define BATCH_BYTES_DEFAULT 16384

void mk_appender_options_default(mk_appender_options *out)
{
    *out = (mk_appender_options){.batch_bytes = BATCH_BYTES_DEFAULT};
}

mk_status mk_appender_open(mk_log *log, const mk_appender_options *options,
                           mk_appender **out, mk_error *err)
{
    mk_appender_options defaults;
    mk_status status;

    *out = NULL;
    mk_appender_options_default(&defaults);
    if (options == NULL) options = &defaults;
    if (options->compression != MK_CODEC_NONE) {
        return mk_fail(err, MK_UNSUPPORTED, "compression is not built in yet");
    }
    if (options->batch_bytes == 0 || options->batch_bytes > INT32_MAX ||
        options->linger_ms < 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "batch_bytes is in 1..%d, linger_ms not negative",
                       INT32_MAX);
    }
    mk_mutex_lock(&log->mutex);
    status = mk_log_make_writable_locked(log, err);
    mk_mutex_unlock(&log->mutex);
    if (status != MK_OK) return status;
    return mk_appender_new(log, options, out, err);
}

static mk_status try_add(mk_appender *appender, const mk_record *records,
                         size_t count, size_t *added, int64_t now_ms,
                         mk_error *err)
{
    mk_status status = mk_log_make_writable_locked(appender->log, err);

    if (MK_UNLIKELY(status != MK_OK)) return status;
    if (now_ms == MK_TIMESTAMP_NOW &&
        mk_appender_needs_clock_locked(appender, records, count)) {
        return MK_END;
    }
    return mk_appender_add_locked(appender, records, count, added, now_ms, err);
}

mk_status mk_appender_append(mk_appender *appender, const mk_record *records,
                             size_t count, mk_error *err)
{
    mk_log *log = appender->log;
    int64_t now_ms = MK_TIMESTAMP_NOW;
    bool held = false;
    size_t added = 0;
    int64_t end;
    mk_status status = check_count(count, err);
    mk_error scratch;

    if (status != MK_OK) return status;
    if (err == NULL) err = &scratch;
    mk_mutex_lock(&log->mutex);
    end = log->log_end_offset;
    status = try_add(appender, records, count, &added, now_ms, err);
    while (MK_UNLIKELY(status == MK_END)) {
        status = read_clock_for(appender, &now_ms, &held, err);
        if (status == MK_OK) {
            status = try_add(appender, records, count, &added, now_ms, err);
        }
    }
    if (MK_LIKELY(status == MK_OK) && log->log_end_offset != end) {
        status = after_append(log, false, now_ms, err);
    }
    mk_mutex_unlock(&log->mutex);
    if (MK_UNLIKELY(held)) let_go(appender);
    return status;
}

mk_status mk_appender_append_one(mk_appender *appender, const mk_record *record,
                                 mk_error *err)
{
    mk_log *log = appender->log;
    bool added;

    mk_mutex_lock(&log->mutex);
    added = mk_log_check_writable_locked(log, NULL) == MK_OK &&
            mk_appender_add_usual_locked(appender, record);
    mk_mutex_unlock(&log->mutex);
    if (MK_LIKELY(added)) return MK_OK;
    return mk_appender_append(appender, record, 1, err);
}

/* Send what waits, if anything does, and take the range of all that was sent
 * since the last flush. */
static mk_status send_all(mk_appender *appender, int64_t *now_ms, bool *held,
                          mk_offset_range *out, mk_error *err)
{
    mk_status status = mk_log_make_writable_locked(appender->log, err);

    if (status != MK_OK) return status;
    status = mk_appender_send_locked(appender, *now_ms, err);
    while (status == MK_END) {
        status = read_clock_for(appender, now_ms, held, err);
        if (status == MK_OK) {
            status = mk_appender_send_locked(appender, *now_ms, err);
        }
    }
    if (status != MK_OK) return status;
    *out = appender->waiting.range;
    appender->waiting.range = (mk_offset_range){-1, -1};
    return MK_OK;
}

mk_status mk_appender_flush(mk_appender *appender, mk_offset_range *out,
                            mk_error *err)
{
    mk_log *log = appender->log;
    int64_t now_ms = MK_TIMESTAMP_NOW;
    bool held = false;
    int64_t end;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    *out = (mk_offset_range){-1, -1};
    mk_mutex_lock(&log->mutex);
    end = log->log_end_offset;
    status = send_all(appender, &now_ms, &held, out, err);
    if (status == MK_OK && log->log_end_offset != end) {
        status = after_append(log, false, now_ms, err);
    }
    mk_mutex_unlock(&log->mutex);
    if (held) let_go(appender);
    return status;
}

mk_status mk_appender_close(mk_appender *appender, mk_error *err)
{
    mk_offset_range range;
    mk_status status = MK_OK;
    bool waiting;

    if (appender == NULL) return MK_OK;
    mk_mutex_lock(&appender->log->mutex);
    waiting = appender->waiting.builder.record_count > 0;
    mk_mutex_unlock(&appender->log->mutex);
    if (waiting) status = mk_appender_flush(appender, &range, err);
    mk_appender_free(appender);
    return status;
}

void mk_appender_abandon(mk_appender *appender)
{
    mk_appender_free(appender);
}
