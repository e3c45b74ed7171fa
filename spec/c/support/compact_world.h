/*
 * compact_world -- a partition directory whose segments are written by hand,
 * opened, compacted and looked at through the public header.
 */
#ifndef MK_SUPPORT_COMPACT_WORLD_H
#define MK_SUPPORT_COMPACT_WORLD_H

#include "support/store_world.h"

#include "codec/crc32c.h"
#include "store/segment_scan.h"

#define PARTITION "orders-0"

typedef struct compact_world {
    posix_world *world;
    mk_env *env;
    mk_log *log;
    mk_manual_clock clock;
    mk_cleanup_result result;
    mk_error err; /* Of the last compaction. */
    char name[64];
} compact_world;

/* Return the name of a segment's file; valid until the next call. */
static inline const char *name_of(compact_world *w, int64_t base_offset,
                                  const char *suffix)
{
    snprintf(w->name, sizeof w->name, PARTITION "/%020" PRId64 "%s",
             base_offset, suffix);
    return w->name;
}

static inline void compact_begin(compact_world *w, posix_world *world)
{
    *w = (compact_world){.world = world};
    assert_ok(mk_env_new_posix(&world->heap, &w->env, NULL));
    assert_int_equal(mkdir(path_of(world, PARTITION), 0700), 0);
}

static inline void put_segment(compact_world *w, int64_t base_offset,
                               const hand_log *log)
{
    put_file(w->world, name_of(w, base_offset, ".log"), log->data, log->size);
}

/* Put an empty active segment behind all others. */
static inline void put_active(compact_world *w, int64_t base_offset)
{
    const hand_log empty = {.size = 0};

    put_segment(w, base_offset, &empty);
}

static inline void open_log(compact_world *w, int64_t index_interval_bytes)
{
    mk_open_options options;
    mk_error err = {0};

    mk_open_options_default(&options);
    options.env = w->env;
    options.clock = mk_clock_manual(&w->clock);
    options.config.index_interval_bytes = index_interval_bytes;
    if (mk_log_open(path_of(w->world, PARTITION), &options, &w->log, &err) !=
        MK_OK) {
        fail_msg("%s", err.message);
    }
}

static inline void close_log(compact_world *w)
{
    assert_ok(mk_log_close(w->log, NULL));
    w->log = NULL;
}

static inline void compact_end(compact_world *w)
{
    mk_cleanup_result_deinit(&w->result);
    if (w->log != NULL) close_log(w);
    mk_env_free(w->env);
}

/* Make room for another partition. */
static inline void remove_partition(posix_world *world)
{
    assert_int_equal(
        nftw(path_of(world, PARTITION), remove_entry, 16, FTW_DEPTH | FTW_PHYS),
        0);
}

/* Compact at `now_ms`, with tombstones kept for `delete_retention_ms`. */
static inline mk_status compact_at(compact_world *w, int64_t now_ms,
                                   int64_t delete_retention_ms)
{
    mk_manual_clock clock = {now_ms};
    mk_compact_options options;

    mk_compact_options_default(&options);
    options.clock = mk_clock_manual(&clock);
    options.delete_retention_ms = delete_retention_ms;
    mk_cleanup_result_deinit(&w->result);
    w->err = (mk_error){0};
    return mk_log_compact(w->log, &options, &w->result, &w->err);
}

/* The segment's log is exactly these bytes. */
static inline void assert_log(compact_world *w, int64_t base_offset,
                              const hand_log *expected)
{
    size_t size;
    uint8_t *bytes = get_file(w->world, name_of(w, base_offset, ".log"), &size);

    for (size_t i = 0; i < size && i < expected->size; i++) {
        if (bytes[i] != expected->data[i]) fail_msg("byte %zu differs", i);
    }
    assert_int_equal(size, expected->size);
    free(bytes);
}

/* The index files of the segment at 0 are those that its log gives. */
static inline void assert_indexes(compact_world *w, int64_t interval)
{
    const char *suffixes[] = {".index", ".timeindex"};
    mk_segment *segment = NULL;
    mk_segment_scan scan;
    mk_scratch scratch;
    mk_file *file = open_file(w->world, name_of(w, 0, ".log"), 0);
    int64_t size = size_on_disk(w->world, name_of(w, 0, ".log"));

    mk_scratch_init(&scratch, &w->world->heap);
    assert_ok(mk_segment_new(&w->world->heap, 0, &segment, NULL));
    mk_segment_scan_init(&scan, segment, file, size, interval, &scratch);
    while (scan.end == MK_SCAN_RUNNING) {
        assert_ok(mk_segment_scan_step(&scan, 1 << 20, NULL));
    }
    assert_int_equal(scan.end, MK_SCAN_WHOLE);
    assert_ok(mk_segment_finish_times(segment, NULL));
    for (int i = 0; i < 2; i++) {
        uint8_t expected[4096];
        size_t count;
        uint8_t *bytes = get_file(w->world, name_of(w, 0, suffixes[i]), &count);

        if (i == 0) {
            assert_int_equal(count, segment->offsets.count * 8);
            mk_offset_index_encode(&segment->offsets, 0, expected);
        } else {
            assert_int_equal(count, segment->times.count * 12);
            mk_time_index_encode(&segment->times, 0, expected);
        }
        assert_memory_equal(bytes, expected, count);
        free(bytes);
    }
    close_file(file);
    mk_segment_free(segment);
    mk_scratch_deinit(&scratch);
}

/* A number that changes with any name or byte below `directory`. */
static inline uint32_t sum_of_tree(compact_world *w, const char *directory)
{
    mk_name_list names;
    uint32_t sum = 0;

    assert_ok(
        mk_vfs_list(w->world->vfs, path_of(w->world, directory), &names, NULL));
    for (size_t i = 0; i < names.count; i++) {
        char path[256];

        snprintf(path, sizeof path, "%s/%s", directory, names.names[i]);
        sum = mk_crc32c(sum, path, strlen(path));
        if (names.kinds[i] == MK_KIND_DIRECTORY) {
            sum += sum_of_tree(w, path);
        } else {
            size_t size;
            uint8_t *bytes = get_file(w->world, path, &size);

            sum = mk_crc32c(sum, bytes, size);
            free(bytes);
        }
    }
    mk_name_list_deinit(&names);
    return sum;
}

/* Nothing came of it: the result is empty, no byte of the tree has changed. */
static inline void assert_untouched(compact_world *w, uint32_t sum)
{
    assert_int_equal(w->result.source_count, 0);
    assert_int_equal(w->result.new_count, 0);
    assert_int_equal(w->result.records_before, 0);
    assert_int_equal(w->result.bytes_before, 0);
    assert_null(w->result.block);
    assert_int_equal(sum_of_tree(w, "."), sum);
}

/* Write what can be read, from the log start on: "0:a=1 3:b= 4:c! 5:-=2 ". */
static inline const char *records_of(compact_world *w, char *out,
                                     size_t out_size)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_error err = {0};
    mk_status status;
    size_t used = 0;

    out[0] = '\0';
    assert_ok(mk_cursor_open(w->log, NULL, &cursor, NULL));
    while ((status = mk_cursor_next(cursor, &view, &err)) == MK_OK) {
        used += (size_t)snprintf(
            out + used, out_size - used, "%" PRId64 ":%.*s%s%.*s ", view.offset,
            view.key != NULL ? (int)view.key_size : 1,
            view.key != NULL ? (const char *)view.key : "-",
            view.value != NULL ? "=" : "!", (int)view.value_size,
            view.value != NULL ? (const char *)view.value : "");
        assert_true(used < out_size);
    }
    if (status != MK_END) fail_msg("%s", err.message);
    mk_cursor_close(cursor);
    return out;
}

static inline void assert_records(compact_world *w, const char *expected)
{
    char text[4096];

    assert_string_equal(records_of(w, text, sizeof text), expected);
}

#endif /* MK_SUPPORT_COMPACT_WORLD_H */
