/* appender -- encoding records as they come, sending when it is time. */
#include "log/appender.h"

#include "base/check.h"

#include "base/poison.h"

static bool is_waiting(const mk_appender *appender)
{
    return appender->waiting.builder.record_count > 0;
}

static void start_batch(mk_appender *appender)
{
    mk_batch_builder_init(&appender->waiting.builder, appender->buffer.data);
}

mk_status mk_appender_new(mk_log *log, const mk_appender_options *options,
                          mk_appender **out, mk_error *err)
{
    mk_appender *appender = mk_alloc_zero(&log->heap, sizeof *appender);
    mk_batch *batch;
    mk_status status;

    *out = NULL;
    if (appender == NULL) return mk_fail_memory(err, sizeof *appender);
    appender->options = *options;
    batch = &appender->waiting.batch;
    batch->producer_id = -1;
    batch->producer_epoch = -1;
    batch->base_sequence = -1;
    appender->waiting.range = (mk_offset_range){-1, -1};
    mk_scratch_init(&appender->buffer, &log->heap);
    status =
        mk_scratch_reserve(&appender->buffer, options->batch_bytes + 64, err);
    if (status != MK_OK) {
        mk_release(&log->heap, appender);
        return status;
    }
    start_batch(appender);
    mk_mutex_lock(&log->mutex);
    appender->log = mk_log_acquire_locked(log);
    mk_mutex_unlock(&log->mutex);
    *out = appender;
    return MK_OK;
}

/* Take the batch out of the log's list of those that wait. */
static void unlist_locked(mk_appender *appender)
{
    mk_waiting **link = &appender->log->waiting;

    while (*link != NULL && *link != &appender->waiting) {
        link = &(*link)->next;
    }
    if (*link != NULL) *link = appender->waiting.next;
    appender->waiting.next = NULL;
}

/* Free it if it is closed and nobody uses it, and let the mutex go. */
static void unlock_and_free(mk_appender *appender)
{
    mk_log *log = appender->log;
    mk_heap heap = log->heap;
    bool over = appender->closed && appender->users == 0;

    mk_mutex_unlock(&log->mutex);
    if (!over) return;
    mk_scratch_deinit(&appender->buffer);
    mk_release(&heap, appender);
    mk_log_release(log);
}

void mk_appender_free(mk_appender *appender)
{
    if (appender == NULL) return;
    mk_mutex_lock(&appender->log->mutex);
    unlist_locked(appender);
    appender->closed = true;
    unlock_and_free(appender);
}

void mk_appender_leave(mk_appender *appender)
{
    mk_mutex_lock(&appender->log->mutex);
    appender->users--;
    unlock_and_free(appender);
}

bool mk_appender_needs_clock_locked(const mk_appender *appender,
                                    const mk_record *records, size_t count)
{
    if (appender->options.linger_ms > 0) return true;
    return mk_log_needs_clock_locked(appender->log, records, count);
}

/* Put the batch behind those that wait already. */
static void list_locked(mk_appender *appender)
{
    mk_waiting **link = &appender->log->waiting;

    while (*link != NULL) {
        link = &(*link)->next;
    }
    appender->waiting.next = NULL;
    *link = &appender->waiting;
}

mk_status mk_appender_send_locked(mk_appender *appender, int64_t now_ms,
                                  mk_error *err)
{
    mk_status status;

    if (!is_waiting(appender)) return MK_OK;
    /* The settings may ask for the time, whatever the records have. */
    if (now_ms == MK_TIMESTAMP_NOW &&
        mk_log_needs_clock_locked(appender->log, NULL, 0)) {
        return MK_END;
    }
    /* To the others this is an append like any other: they go first. */
    unlist_locked(appender);
    status = mk_log_send_waiting_locked(appender->log, now_ms, err);
    if (status == MK_OK) {
        status = mk_log_append_waiting_locked(appender->log, &appender->waiting,
                                              now_ms, err);
    }
    if (status != MK_OK) {
        list_locked(appender);
        return status;
    }
    start_batch(appender);
    return MK_OK;
}

/* Make room for `bound` more bytes; the batch moves along. */
static mk_status make_room(mk_appender *appender, size_t bound, mk_error *err)
{
    mk_batch_builder *builder = &appender->waiting.builder;
    size_t used = mk_batch_builder_size(builder);
    mk_scratch larger;
    mk_status status;

    if (used + bound <= appender->buffer.capacity) return MK_OK;
    mk_scratch_init(&larger, &appender->log->heap);
    status = mk_scratch_reserve(&larger, used + bound, err);
    if (status != MK_OK) return status;
    memcpy(larger.data, builder->bytes, used);
    mk_scratch_deinit(&appender->buffer);
    appender->buffer = larger;
    builder->bytes = larger.data;
    builder->next = larger.data + used;
    return MK_OK;
}

/* Return how large a batch may get, which holds more than one record. */
static inline uint64_t size_limit(const mk_appender *appender)
{
    uint64_t size_max = mk_log_batch_size_max_locked(appender->log);

    return appender->options.batch_bytes < size_max
               ? appender->options.batch_bytes
               : size_max;
}

/* Is the batch to be sent before a record of at most `bound` bytes is added? */
static inline bool is_due(const mk_appender *appender, size_t bound,
                          int64_t now_ms)
{
    const mk_batch_builder *builder = &appender->waiting.builder;
    int64_t linger_ms = appender->options.linger_ms;

    if (!is_waiting(appender)) return false;
    if (mk_batch_builder_size(builder) + bound > size_limit(appender)) {
        return true;
    }
    return linger_ms > 0 && now_ms >= appender->first_ms &&
           now_ms - appender->first_ms >= linger_ms;
}

/* Would at most `bound` bytes more make the batch a full one? */
static inline bool may_fill(const mk_appender *appender, size_t bound)
{
    return mk_batch_builder_size(&appender->waiting.builder) + bound >=
           size_limit(appender);
}

static inline void encode(mk_appender *appender, const mk_record *record,
                          int64_t timestamp_ms, int64_t now_ms)
{
    mk_batch_builder *builder = &appender->waiting.builder;

    if (!is_waiting(appender)) {
        appender->first_ms = now_ms;
        appender->waiting.in_tail = false;
        appender->waiting.admitted = true;
        list_locked(appender);
    }
    mk_batch_builder_add(builder, record, timestamp_ms,
                         builder->last_offset_delta + 1);
}

/* Check that a record can be a batch of its own, and bound its size. */
static mk_status check(const mk_appender *appender, const mk_record *record,
                       int64_t now_ms, int64_t *timestamp_ms, size_t *bound,
                       mk_error *err)
{
    const mk_log *log = appender->log;
    uint64_t size_max = mk_log_batch_size_max_locked(log);
    uint64_t size;
    mk_status status =
        mk_log_check_record_locked(log, record, now_ms, timestamp_ms, err);

    if (MK_UNLIKELY(status != MK_OK)) return status;
    status = mk_log_bound_records_locked(log, record, 1, bound, err);
    if (MK_UNLIKELY(status != MK_OK)) return status;
    if (MK_LIKELY(MK_BATCH_HEADER_SIZE + *bound <= size_max)) return MK_OK;
    size = MK_BATCH_HEADER_SIZE + mk_record_size(record);
    if (size <= size_max) return MK_OK;
    return mk_log_fail_too_large_locked(log, size, err);
}

/* Check all records from `added` on, before one of them is added. */
static mk_status check_all(const mk_appender *appender,
                           const mk_record *records, size_t count, size_t added,
                           int64_t now_ms, mk_error *err)
{
    int64_t timestamp_ms;
    size_t bound;

    for (size_t i = added; i < count && count > 1; i++) {
        mk_status status =
            check(appender, &records[i], now_ms, &timestamp_ms, &bound, err);

        if (status == MK_OK) continue;
        if (err != NULL) err->record_index = (int64_t)i;
        return status;
    }
    return MK_OK;
}

/* Add a record, and send the batch if it is full then. Without success the
 * record is not in it. */
static mk_status encode_and_send(mk_appender *appender, const mk_record *record,
                                 int64_t timestamp_ms, int64_t now_ms,
                                 mk_error *err)
{
    mk_batch_builder before = appender->waiting.builder;
    mk_status status;

    encode(appender, record, timestamp_ms, now_ms);
    if (!may_fill(appender, 0)) return MK_OK;
    status = mk_appender_send_locked(appender, now_ms, err);
    if (status == MK_OK) return MK_OK;
    appender->waiting.builder = before;
    if (!is_waiting(appender)) unlist_locked(appender);
    return status;
}

/* Add one record, sending before and after it what is to be sent. */
static mk_status add_one(mk_appender *appender, const mk_record *record,
                         int64_t now_ms, mk_error *err)
{
    int64_t timestamp_ms;
    size_t bound = 0;
    mk_status status =
        check(appender, record, now_ms, &timestamp_ms, &bound, err);

    if (status != MK_OK) return status;
    if (MK_UNLIKELY(is_due(appender, bound, now_ms))) {
        status = mk_appender_send_locked(appender, now_ms, err);
        if (status != MK_OK) return status;
    }
    status = make_room(appender, bound, err);
    if (MK_UNLIKELY(status != MK_OK)) return status;
    return encode_and_send(appender, record, timestamp_ms, now_ms, err);
}

mk_status mk_appender_add_locked(mk_appender *appender,
                                 const mk_record *records, size_t count,
                                 size_t *added, int64_t now_ms, mk_error *err)
{
    mk_status status = check_all(appender, records, count, *added, now_ms, err);

    if (status != MK_OK) return status;
    while (*added < count) {
        status = add_one(appender, &records[*added], now_ms, err);
        if (MK_UNLIKELY(status != MK_OK)) {
            if (err != NULL) err->record_index = (int64_t)*added;
            return status;
        }
        (*added)++;
    }
    return MK_OK;
}

bool mk_appender_add_usual_locked(mk_appender *appender,
                                  const mk_record *record)
{
    size_t bound = mk_record_bound(record);

    if (MK_UNLIKELY(!is_waiting(appender) || appender->options.linger_ms > 0 ||
                    mk_log_needs_clock_locked(appender->log, record, 1) ||
                    record->key == NULL || bound == SIZE_MAX ||
                    may_fill(appender, bound))) {
        return false;
    }
    /* A batch that is not full has room: the buffer holds batch_bytes. */
    encode(appender, record, record->timestamp_ms, MK_TIMESTAMP_NOW);
    return true;
}
