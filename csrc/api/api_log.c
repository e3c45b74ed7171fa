/* api_log -- opening, closing, and looking at a log from outside. */
#include <stdio.h>

#include "base/check.h"
#include "log/append.h"
#include "log/flush.h"
#include "log/heal.h"
#include "log/life.h"
#include "log/refresh.h"

#include "base/poison.h"

#define OPEN_FILES_DEFAULT 16

void mk_open_options_default(mk_open_options *out)
{
    *out =
        (mk_open_options){.max_open_files = OPEN_FILES_DEFAULT, .create = true};
    mk_config_default(&out->config);
}

mk_status mk_log_open(const char *directory, const mk_open_options *options,
                      mk_log **out, mk_error *err)
{
    mk_open_options defaults;
    mk_status status;

    *out = NULL;
    mk_open_options_default(&defaults);
    if (options == NULL) options = &defaults;
    if (directory[0] == '\0') {
        return mk_fail(err, MK_INVALID_ARGUMENT, "the directory has no name");
    }
    if (options->max_open_files == 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "max_open_files is 0, and must be at least 1");
    }
    status = mk_config_check(&options->config, err);
    if (status != MK_OK) return status;
    return mk_log_start(directory, options, out, err);
}

mk_status mk_log_close(mk_log *log, mk_error *err)
{
    int64_t now_ms = MK_TIMESTAMP_NOW;
    mk_status status, stopped;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    if (log == NULL) return MK_OK;
    if (log->read_only) return mk_log_stop(log, true, now_ms, err);
    status = mk_log_read_clock(log, NULL, &now_ms, err);
    if (status == MK_BUSY) status = MK_OK; /* A callback closes its log. */
    /* Without the time of day the records are still flushed. */
    stopped = mk_log_stop(log, true, now_ms, status == MK_OK ? err : NULL);
    mk_log_release(log);
    return status != MK_OK ? status : stopped;
}

void mk_log_abandon(mk_log *log)
{
    if (log != NULL) (void)mk_log_stop(log, false, 0, NULL);
}

bool mk_log_is_closed(const mk_log *log)
{
    return log->closed;
}

mk_status mk_log_get_info(mk_log *log, mk_log_info *out, mk_error *err)
{
    mk_status status;

    *out = (mk_log_info){0};
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) mk_log_get_info_locked(log, out);
    mk_mutex_unlock(&log->mutex);
    return status;
}

const char *mk_log_directory(const mk_log *log)
{
    return log->place;
}

void mk_log_get_config(mk_log *log, mk_config *out)
{
    mk_mutex_lock(&log->mutex);
    *out = log->config;
    mk_mutex_unlock(&log->mutex);
}

mk_clock mk_log_clock(const mk_log *log)
{
    return log->clock;
}

mk_status mk_log_configure(mk_log *log, const mk_config *config, mk_error *err)
{
    mk_status status = mk_config_check(config, err);

    if (status != MK_OK) return status;
    mk_mutex_lock(&log->mutex);
    status = mk_log_make_writable_locked(log, err);
    if (status == MK_OK) log->config = *config;
    mk_mutex_unlock(&log->mutex);
    return status;
}

mk_status mk_log_segments(mk_log *log, mk_segment_info *array, size_t capacity,
                          size_t *count, mk_error *err)
{
    mk_status status;

    *count = 0;
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) {
        *count = log->segment_count;
        for (size_t i = 0; i < capacity && i < log->segment_count; i++) {
            mk_log_describe_segment_locked(log, i, &array[i]);
        }
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

void mk_log_segment_path(const mk_log *log, int64_t base_offset, char *out,
                         size_t out_size)
{
    if (mk_name_segment_file(out, out_size, log->directory, base_offset,
                             MK_ROLE_LOG, NULL) != MK_OK) {
        out[0] = '\0';
    }
}

mk_status mk_log_get_stats(mk_log *log, mk_log_stats *out, mk_error *err)
{
    mk_status status;

    *out = (mk_log_stats){0};
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) {
        *out = log->stats;
        mk_log_get_info_locked(log, &out->info);
        out->refusing = log->failed != MK_OK;
        out->open_files = log->files.open_count;
        out->heap_bytes =
            log->spare.capacity + mk_batch_cache_bytes(&log->batch_cache);
        for (size_t i = 0; i < log->segment_count; i++) {
            const mk_segment *segment = log->segments[i];

            out->heap_bytes +=
                sizeof *segment +
                segment->offsets.capacity * sizeof(mk_offset_entry) +
                segment->times.capacity * sizeof(mk_time_entry);
        }
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

static mk_status flush_locked(mk_log *log, int64_t now_ms, mk_error *err)
{
    mk_status status;

    do {
        status = mk_log_make_writable_locked(log, err);
        if (status == MK_OK) {
            status = mk_log_send_waiting_locked(log, now_ms, err);
        }
    } while (status == MK_END);
    if (status != MK_OK) return status;
    log->last_flush_ms = now_ms;
    status = mk_log_flush_locked(log, err);
    if (status == MK_OK) status = mk_log_check_writable_locked(log, err);
    if (status != MK_OK) return status;
    return mk_log_write_caches_locked(log, err);
}

mk_status mk_log_flush(mk_log *log, mk_error *err)
{
    int64_t now_ms = 0;
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    status = mk_log_read_clock(log, NULL, &now_ms, err);
    if (status == MK_OK) {
        mk_mutex_lock(&log->mutex);
        status = flush_locked(log, now_ms, err);
        mk_mutex_unlock(&log->mutex);
    }
    mk_log_release(log);
    return status;
}

mk_status mk_log_refresh(mk_log *log, mk_error *err)
{
    mk_status status;
    mk_error scratch;

    if (err == NULL) err = &scratch;
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) status = mk_log_refresh_locked(log, err);
    mk_mutex_unlock(&log->mutex);
    return status;
}

/* How often a reader looks whether another process has written. */
#define REFRESH_EVERY_MS 10

mk_status mk_log_wait(mk_log *log, int64_t offset, int64_t timeout_ms,
                      bool *reached, mk_error *err)
{
    mk_status status;

    *reached = false;
    mk_mutex_lock(&log->mutex);
    for (;;) {
        int64_t pause_ms = timeout_ms;

        status = mk_log_check_open_locked(log, err);
        if (status == MK_OK) status = mk_log_refresh_locked(log, err);
        if (status != MK_OK) break;
        *reached = log->log_end_offset > offset;
        if (*reached || timeout_ms <= 0) break;
        if (log->read_only && pause_ms > REFRESH_EVERY_MS) {
            pause_ms = REFRESH_EVERY_MS;
        }
        if (!mk_condition_wait(&log->changed, &log->mutex, pause_ms)) {
            timeout_ms -= pause_ms;
        }
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}
