/*
 * busy_log -- a log of a few segments on a simulated disk, and what may be done
 * to it while something else goes on.
 */
#ifndef MK_SUPPORT_BUSY_LOG_H
#define MK_SUPPORT_BUSY_LOG_H

#include "support/sim_world.h"

#include <inttypes.h>

#define DIRECTORY "/logs/orders-0"
#define TEXT_MAX  4096

typedef struct busy_log {
    sim_world *sim;
    mk_log *log;
    mk_error err;
} busy_log;

static inline void assert_done(busy_log *w, mk_status status)
{
    if (status != MK_OK) fail_msg("%s", w->err.message);
}

static inline mk_status open_at(busy_log *w, const char *directory,
                                mk_log **out)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = w->sim->env;
    options.config.index_interval_bytes = 0;
    options.create = directory[1] == 'l';
    return mk_log_open(directory, &options, out, &w->err);
}

static inline mk_status append_at(busy_log *w, int64_t timestamp_ms,
                                  const char *key, const char *value)
{
    mk_record record = {
        .key = key,
        .key_size = strlen(key),
        .value = value,
        .value_size = strlen(value),
        .timestamp_ms = timestamp_ms,
    };
    int64_t offset;

    return mk_log_append_one(w->log, &record, &offset, &w->err);
}

static inline mk_status append_to(busy_log *w, const char *key,
                                  const char *value)
{
    return append_at(w, 7, key, value);
}

/* Three sealed segments of two records each, and one in the last. */
static inline void begin(busy_log *w, const mk_sim_options *options)
{
    static const char *const keys[] = {"a", "b", "c", "a", "b", "d", "e"};

    *w = (busy_log){.sim = new_world(options)};
    assert_done(w, open_at(w, DIRECTORY, &w->log));
    for (size_t i = 0; i < 7; i++) {
        assert_done(w, append_to(w, keys[i], "1"));
        if (i % 2 == 1) assert_done(w, mk_log_roll(w->log, &w->err));
    }
}

static inline void end(busy_log *w)
{
    mk_log_abandon(w->log);
    free_world(w->sim);
}

/* Tell start, end and records: "0..7 0:a=1 1:b=1". */
static inline void tell_log(busy_log *w, mk_log *log, char *out)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log_info info;
    mk_status status;
    size_t used;

    assert_done(w, mk_log_get_info(log, &info, &w->err));
    used = (size_t)snprintf(out, TEXT_MAX, "%" PRId64 "..%" PRId64,
                            info.log_start_offset, info.log_end_offset);
    assert_done(w, mk_cursor_open(log, NULL, &cursor, &w->err));
    while ((status = mk_cursor_next(cursor, &view, &w->err)) == MK_OK) {
        used += (size_t)snprintf(
            out + used, TEXT_MAX - used, " %" PRId64 ":%.*s=%.*s", view.offset,
            (int)view.key_size, (const char *)view.key, (int)view.value_size,
            (const char *)view.value);
    }
    if (status != MK_END) fail_msg("%s", w->err.message);
    mk_cursor_close(cursor);
}

/* ---- What may be done meanwhile ---- */

static inline mk_status do_append(busy_log *w)
{
    return append_to(w, "a", "2");
}

static inline mk_status do_roll(busy_log *w)
{
    mk_status status = append_to(w, "b", "2");

    return status == MK_OK ? mk_log_roll(w->log, &w->err) : status;
}

/* What it drops is superseded by what was appended just before. */
static inline mk_status do_compact(busy_log *w)
{
    mk_cleanup_result result;
    mk_status status = append_to(w, "e", "2");

    if (status == MK_OK) status = mk_log_roll(w->log, &w->err);
    if (status == MK_OK) {
        status = mk_log_compact(w->log, NULL, &result, &w->err);
        mk_cleanup_result_deinit(&result);
    }
    return status;
}

static inline mk_status do_delete(busy_log *w)
{
    mk_status status = mk_log_delete_records(w->log, 3, &w->err);

    return status == MK_OFFSET_OUT_OF_RANGE ? MK_OK : status;
}

static inline mk_status do_delete_all(busy_log *w)
{
    mk_log_info info;

    assert_done(w, append_to(w, "f", "2"));
    assert_done(w, mk_log_get_info(w->log, &info, &w->err));
    return mk_log_delete_records(w->log, info.log_end_offset, &w->err);
}

static inline mk_status do_cut_sealed(busy_log *w)
{
    mk_status status = mk_log_truncate_to(w->log, 3, &w->err);

    return status == MK_OK ? append_to(w, "cut", "2") : status;
}

/* The end grows again later, if another change follows. */
static inline mk_status do_cut(busy_log *w)
{
    return mk_log_truncate_to(w->log, 6, &w->err);
}

static inline mk_status do_cut_last(busy_log *w)
{
    mk_status status = mk_log_truncate_to(w->log, 6, &w->err);

    return status == MK_OK ? append_to(w, "x", "2") : status;
}

static inline mk_status do_cut_all(busy_log *w)
{
    mk_status status = mk_log_truncate_to(w->log, 0, &w->err);

    return status == MK_OK ? append_to(w, "y", "2") : status;
}

/* What is cut off comes again, later: only times tell the files apart. */
static inline mk_status do_refill_last(busy_log *w)
{
    mk_status status = mk_log_truncate_to(w->log, 6, &w->err);

    return status == MK_OK ? append_at(w, 8, "e", "1") : status;
}

static inline mk_status do_refill_sealed(busy_log *w)
{
    mk_status status = mk_log_truncate_to(w->log, 4, &w->err);

    if (status == MK_OK) status = append_at(w, 8, "b", "1");
    if (status == MK_OK) status = append_at(w, 8, "d", "1");
    if (status == MK_OK) status = mk_log_roll(w->log, &w->err);
    return status == MK_OK ? append_at(w, 8, "e", "1") : status;
}

static inline mk_status do_flush(busy_log *w)
{
    return mk_log_flush(w->log, &w->err);
}

static mk_status (*const changes[])(busy_log *) = {
    do_append,     do_roll,       do_compact,     do_delete,
    do_delete_all, do_cut_sealed, do_cut,         do_cut_last,
    do_cut_all,    do_flush,      do_refill_last, do_refill_sealed,
};

#define CHANGE_COUNT (sizeof changes / sizeof changes[0])

#endif /* MK_SUPPORT_BUSY_LOG_H */
