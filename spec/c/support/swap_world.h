/*
 * swap_world -- a log of four segments on a simulated disk, and ways to rewrite
 * the closed ones. Each record's value is its offset, so that sets of offsets,
 * as bits, tell what a log holds.
 *
 *     segments: [0 1 2] [3 4] [5 6] [7], all of it flushed
 */
#ifndef MK_SUPPORT_SWAP_WORLD_H
#define MK_SUPPORT_SWAP_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/kafka_loader.h"
#include "support/rewrite_segments.h"

#define DIRECTORY   "/logs/t-0"
#define ALL         0xFFu
#define CASES_COUNT (sizeof(swap_cases) / sizeof(swap_cases)[0])

typedef struct swap_case {
    const char *name;
    size_t first, count; /* Which segments are rewritten, */
    uint64_t kept;       /* ... and which offsets stay of all. */
    int64_t split_at;
    uint64_t behind; /* Offsets of sources behind the last that stays. */
} swap_case;

static const swap_case swap_cases[] = {
    {"three to one", 0, 3, 0xB5, 0, 0},     /* 0 2 4 5 7 */
    {"the last goes", 0, 3, 0x8A, 0, 0x60}, /* 1 3 7 */
    {"all go", 0, 3, 0x80, 0, 0x7F},        /* 7 */
    {"one to two", 0, 1, 0xFF, 2, 0},       /* 0 1 | 2 */
    {"three to two", 0, 3, 0xAB, 4, 0},     /* 0 1 3 | 5 7 */
    {"in the middle", 1, 2, 0xEF, 0, 0},    /* all but 4 */
    {"one, all kept", 1, 1, 0xFF, 0, 0},    /* the same again */
};

typedef struct swap_world {
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log;
    mk_error err;
} swap_world;

static inline mk_status swap_open(mk_env *env, bool read_only, mk_log **out,
                                  mk_error *err)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = env;
    options.config.index_interval_bytes = 0;
    options.read_only = read_only;
    options.create = !read_only;
    return mk_log_open(DIRECTORY, &options, out, err);
}

static inline void swap_append(swap_world *w, int count)
{
    for (int i = 0; i < count; i++) {
        mk_log_info info;
        mk_record record = {.key = "k", .key_size = 1, .value_size = 1};
        int64_t offset;
        uint8_t value;

        assert_int_equal(mk_log_get_info(w->log, &info, NULL), MK_OK);
        value = (uint8_t)info.log_end_offset;
        record.value = &value;
        record.timestamp_ms = 100 + info.log_end_offset;
        assert_int_equal(mk_log_append_one(w->log, &record, &offset, NULL),
                         MK_OK);
    }
}

/* Go on with a disk on which all is stable, so that the states of a crash are
 * those of what follows. */
static inline void swap_settle(swap_world *w)
{
    mk_sim_states_options options;
    mk_sim_states *states = NULL;
    mk_sim_disk *stable = NULL;

    assert_int_equal(mk_log_close(w->log, NULL), MK_OK);
    mk_env_free(w->env);
    mk_sim_states_options_default(&options);
    options.limit = 1;
    assert_int_equal(mk_sim_states_open(w->disk, &options, &states, NULL),
                     MK_OK);
    assert_int_equal(mk_sim_states_next(states, &stable, NULL), MK_OK);
    mk_sim_states_close(states);
    mk_sim_disk_free(w->disk);
    w->disk = stable;
    assert_int_equal(mk_env_new_sim(w->disk, &w->env, NULL), MK_OK);
    assert_int_equal(swap_open(w->env, false, &w->log, NULL), MK_OK);
}

/* Make the disk and the log, and leave out a sync from then on. */
static inline void swap_begin(swap_world *w, const char *left_out)
{
    static const int counts[] = {3, 2, 2, 1};
    mk_sim_options options;

    memset(w, 0, sizeof *w);
    mk_sim_options_default(&options);
    assert_int_equal(mk_sim_disk_new(NULL, &options, &w->disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(w->disk, &w->env, NULL), MK_OK);
    assert_int_equal(swap_open(w->env, false, &w->log, NULL), MK_OK);
    for (int i = 0; i < 4; i++) {
        swap_append(w, counts[i]);
        if (i < 3) assert_int_equal(mk_log_roll(w->log, NULL), MK_OK);
    }
    swap_settle(w);
    if (left_out != NULL) {
        assert_int_equal(mk_sim_disk_leave_out(w->disk, left_out, NULL), MK_OK);
    }
}

static inline void swap_end(swap_world *w)
{
    if (w->log != NULL) mk_log_abandon(w->log);
    mk_env_free(w->env);
    mk_sim_disk_free(w->disk);
}

static inline bool swap_keeps(void *context, const mk_batch *batch)
{
    const swap_case *which = context;

    return which->kept >> batch->base_offset & 1;
}

static inline mk_status swap_run(swap_world *w, const swap_case *which)
{
    swap_case copy = *which;
    rewrite_rule rule = {swap_keeps, &copy, which->split_at};

    return rewrite_segments(w->log, which->first, which->count, &rule, &w->err);
}

/* The offsets that the log has; all of them with a bit too many if a record is
 * not what it was, or out of order. */
static inline uint64_t swap_offsets(mk_log *log, mk_status *end)
{
    const uint64_t wrong = UINT64_C(1) << 63;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    uint64_t found = 0;
    int64_t next = 0;
    mk_status status = mk_cursor_open(log, NULL, &cursor, NULL);

    while (status == MK_OK &&
           (status = mk_cursor_next(cursor, &view, NULL)) == MK_OK) {
        if (view.offset < next || view.offset > 60) return wrong;
        if (((const uint8_t *)view.value)[0] != view.offset) return wrong;
        found |= UINT64_C(1) << view.offset;
        next = view.offset + 1;
    }
    mk_cursor_close(cursor);
    *end = status;
    return found;
}

#endif /* MK_SUPPORT_SWAP_WORLD_H */
