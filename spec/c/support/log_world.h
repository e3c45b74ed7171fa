/*
 * log_world -- a log in a fresh directory on a wrapped disk, with a manual
 * clock and a heap that counts; verbs to fill it, and words for what is in it.
 *
 * Records are written as text: "a=1" has key a and value 1, "a" is a
 * tombstone, "=1" has no key, "a=1@7" has the time 7. Without one they take
 * the clock's. "a=1,b=2" are two records. What a log holds is told alike, each
 * record with its offset in front: "0:a=1 1:b=2 ".
 */
#ifndef MK_SUPPORT_LOG_WORLD_H
#define MK_SUPPORT_LOG_WORLD_H

#include "support/posix_world.h"
#include "support/wrap_vfs.h"

#include <ctype.h>

#include "codec/crc32c.h"

#define TOLD_SIZE 65536

typedef struct log_world {
    posix_world *disk; /* Owned: directory and heap. */
    wrap_vfs wrap;
    mk_env *env;    /* Owned. */
    int64_t now_ms; /* What the clock says, */
    mk_clock other; /* ... unless this one is to be asked. */
    long asked;     /* How often the clock was. */
    void *given;    /* Borrowed. The test's initial state. */
    mk_open_options options;
    mk_log *log;     /* Owned; NULL while none is open. */
    char where[300]; /* Its directory, "t-0" in the world's. */
    mk_error err;    /* Of the last verb that failed. */
    char told[TOLD_SIZE];
    char kept[TOLD_SIZE];
} log_world;

/* ---- Life ---- */

static inline mk_status tell_time(void *context, int64_t *now_ms, mk_error *err)
{
    log_world *world = context;

    world->asked++;
    if (world->other.now != NULL) {
        return world->other.now(world->other.context, now_ms, err);
    }
    *now_ms = world->now_ms;
    return MK_OK;
}

/* Nothing here needs stable storage; a disk in memory is faster. */
static inline void prefer_memory(void)
{
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
}

static inline int log_setup(void **state)
{
    log_world *world = calloc(1, sizeof *world);
    void *disk = NULL;
    mk_clock clock = {tell_time, world};

    prefer_memory();
    if (world == NULL || world_setup(&disk) != 0) return -1;
    world->disk = disk;
    world->given = *state;
    world->now_ms = 1000;
    wrap_init(&world->wrap, &world->disk->heap);
    world->wrap.no_sync = true;
    if (mk_env_new(&world->disk->heap, &world->wrap.base, clock, 1, &world->env,
                   NULL) != MK_OK) {
        return -1;
    }
    mk_open_options_default(&world->options);
    world->options.env = world->env;
    snprintf(world->where, sizeof world->where, "%s/t-0", world->disk->root);
    *state = world;
    return 0;
}

static inline int log_teardown(void **state)
{
    log_world *world = *state;
    void *disk = world->disk;
    int result;

    world->disk->fail_at = 0;
    wrap_heal(&world->wrap);
    mk_log_abandon(world->log);
    mk_env_free(world->env);
    wrap_deinit(&world->wrap);
    result = world_teardown(&disk);
    free(world);
    return result;
}

#define log_test(name) \
    cmocka_unit_test_setup_teardown(name, log_setup, log_teardown)

static inline void assert_ok(const log_world *world, mk_status status)
{
    if (status != MK_OK) {
        fail_msg("%s: %s", mk_status_name(status), world->err.message);
    }
}

static inline mk_status try_open(log_world *world)
{
    assert_null(world->log);
    return mk_log_open(world->where, &world->options, &world->log, &world->err);
}

static inline void open_log(log_world *world)
{
    assert_ok(world, try_open(world));
}

static inline void close_log(log_world *world)
{
    mk_log *log = world->log;

    world->log = NULL;
    assert_ok(world, mk_log_close(log, &world->err));
}

/* As the death of the process would leave it. */
static inline void abandon_log(log_world *world)
{
    mk_log_abandon(world->log);
    world->log = NULL;
}

static inline void reopen(log_world *world)
{
    close_log(world);
    open_log(world);
}

static inline void reopen_after_death(log_world *world)
{
    abandon_log(world);
    open_log(world);
}

/* ---- Records as text ---- */

#define RECORDS_MAX 64

/* Read one record, "key=value@time", and step over it and its comma. */
static inline const char *parse_record(const char *text, mk_record *out)
{
    size_t size = strcspn(text, ",");
    size_t end = strcspn(text, "@,");
    size_t key_size = strcspn(text, "=@,");

    *out = (mk_record){.timestamp_ms = MK_TIMESTAMP_NOW};
    if (key_size > 0) out->key = text;
    out->key_size = key_size;
    if (text[key_size] == '=') {
        out->value = text + key_size + 1;
        out->value_size = end - key_size - 1;
    }
    if (end < size) out->timestamp_ms = strtoll(text + end + 1, NULL, 10);
    return text[size] == ',' ? text + size + 1 : text + size;
}

static inline size_t parse_records(const char *text, mk_record *out)
{
    size_t count = 0;

    do {
        assert_true(count < RECORDS_MAX);
        text = parse_record(text, &out[count++]);
    } while (*text != '\0');
    return count;
}

static inline mk_status try_append(log_world *world, const char *text,
                                   mk_offset_range *out)
{
    mk_record records[RECORDS_MAX];
    size_t count = parse_records(text, records);

    return mk_log_append(world->log, records, count, NULL, out, &world->err);
}

/* Append the records as one batch; returns the first offset. */
static inline int64_t append(log_world *world, const char *text)
{
    mk_offset_range range;

    assert_ok(world, try_append(world, text, &range));
    return range.first;
}

static inline void roll(log_world *world)
{
    assert_ok(world, mk_log_roll(world->log, &world->err));
}

static inline void flush(log_world *world)
{
    assert_ok(world, mk_log_flush(world->log, &world->err));
}

/* Append each of the batches, which blanks separate; "|" rolls. */
static inline void fill(log_world *world, const char *text)
{
    char part[512];

    while (*text != '\0') {
        size_t size = strcspn(text, " ");

        assert_true(size < sizeof part);
        memcpy(part, text, size);
        part[size] = '\0';
        if (strcmp(part, "|") == 0) {
            roll(world);
        } else {
            append(world, part);
        }
        text += size + (text[size] == ' ');
    }
}

static inline mk_log_info info_of(log_world *world)
{
    mk_log_info info;

    assert_ok(world, mk_log_get_info(world->log, &info, &world->err));
    return info;
}

static inline mk_log_stats stats_of(log_world *world)
{
    mk_log_stats stats;

    assert_ok(world, mk_log_get_stats(world->log, &stats, &world->err));
    return stats;
}

/* ---- Telling ---- */

static inline void tell(char *out, const char *format, ...) MK_PRINTF(2, 3);

static inline void tell(char *out, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;

    va_start(args, format);
    vsnprintf(out + used, TOLD_SIZE - used, format, args);
    va_end(args);
    assert_true(strlen(out) < TOLD_SIZE - 1);
}

static inline void tell_bytes(char *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        tell(out, isprint(bytes[i]) ? "%c" : "\\x%02x", bytes[i]);
    }
}

static inline void tell_record(char *out, const mk_record_view *view)
{
    tell(out, "%lld:", (long long)view->offset);
    if (view->key != NULL) tell_bytes(out, view->key, view->key_size);
    if (view->value != NULL) {
        tell(out, "=");
        tell_bytes(out, view->value, view->value_size);
    }
    tell(out, " ");
}

/* Tell what the cursor gives up to its end, and how that came. */
static inline mk_status tell_cursor(mk_cursor *cursor, char *out, mk_error *err)
{
    mk_record_view view;
    mk_status status;

    out[0] = '\0';
    while ((status = mk_cursor_next(cursor, &view, err)) == MK_OK) {
        tell_record(out, &view);
    }
    return status;
}

static inline mk_status try_tell(log_world *world, mk_log *log, char *out)
{
    mk_cursor *cursor = NULL;
    mk_status status = mk_cursor_open(log, NULL, &cursor, &world->err);

    out[0] = '\0';
    if (status != MK_OK) return status;
    status = tell_cursor(cursor, out, &world->err);
    mk_cursor_close(cursor);
    return status;
}

/* Tell all records of the log; valid until the next time. */
static inline const char *contents(log_world *world)
{
    mk_status status = try_tell(world, world->log, world->told);

    if (status != MK_END) {
        fail_msg("%s: %s", mk_status_name(status), world->err.message);
    }
    return world->told;
}

#define assert_contents(world, expected) \
    assert_string_equal(contents(world), (expected))

/* Tell the segments: "0..3 3..3 ". */
static inline const char *segments(log_world *world)
{
    mk_segment_info infos[RECORDS_MAX];
    size_t count;

    assert_ok(world, mk_log_segments(world->log, infos, RECORDS_MAX, &count,
                                     &world->err));
    assert_true(count <= RECORDS_MAX);
    world->told[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        tell(world->told, "%lld..%lld ", (long long)infos[i].base_offset,
             (long long)infos[i].next_offset);
    }
    return world->told;
}

#define assert_segments(world, expected) \
    assert_string_equal(segments(world), (expected))

#define assert_bounds(world, start, end)                            \
    do {                                                            \
        assert_int_equal(info_of(world).log_start_offset, (start)); \
        assert_int_equal(info_of(world).log_end_offset, (end));     \
    } while (0)

/* ---- Files ---- */

static inline const char *file_of(log_world *world, const char *name)
{
    char path[240];

    snprintf(path, sizeof path, "t-0/%s", name);
    return path_of(world->disk, path);
}

/* The name of a segment's file, with the suffix. */
static inline const char *segment_file(log_world *world, int64_t base_offset,
                                       const char *suffix)
{
    char name[64];

    snprintf(name, sizeof name, "%020lld%s", (long long)base_offset, suffix);
    return file_of(world, name);
}

static inline bool exists(const char *path)
{
    struct stat native;

    return lstat(path, &native) == 0;
}

static inline int64_t file_size(const char *path)
{
    struct stat native;

    assert_int_equal(lstat(path, &native), 0);
    return native.st_size;
}

static inline uint8_t *load(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    uint8_t *bytes;

    assert_non_null(stream);
    *size = (size_t)file_size(path);
    bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, stream), *size);
    fclose(stream);
    return bytes;
}

static inline void store(const char *path, const void *bytes, size_t size)
{
    FILE *stream = fopen(path, "wb");

    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

static inline void store_text(const char *path, const char *text)
{
    store(path, text, strlen(text));
}

/* Change one byte of a file. */
static inline void damage(const char *path, size_t position)
{
    size_t size;
    uint8_t *bytes = load(path, &size);

    assert_true(position < size);
    bytes[position] ^= 0x41;
    store(path, bytes, size);
    free(bytes);
}

static inline void set_size(const char *path, int64_t size)
{
    assert_int_equal(truncate(path, size), 0);
}

static inline int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static inline void tell_tree(char *out, const char *path, const char *name);

static inline void tell_names(char *out, const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, by_name);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char child[768];

        snprintf(child, sizeof child, "%s/%s", path, name);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            tell_tree(out, child, name);
        }
        free(entries[i]);
    }
    free(entries);
}

/* Tell a file's name, size and checksum, or a directory's content. */
static inline void tell_tree(char *out, const char *path, const char *name)
{
    struct stat native;

    assert_int_equal(lstat(path, &native), 0);
    tell(out, "%s", name);
    if (S_ISDIR(native.st_mode)) {
        tell(out, "(");
        tell_names(out, path);
        tell(out, ") ");
    } else if (S_ISREG(native.st_mode)) {
        size_t size;
        uint8_t *bytes = load(path, &size);

        tell(out, ":%zu:%08x ", size, (unsigned)mk_crc32c(0, bytes, size));
        free(bytes);
    } else {
        tell(out, "~ ");
    }
}

/* Tell all files of the world. */
static inline const char *files(log_world *world)
{
    world->told[0] = '\0';
    tell_names(world->told, world->disk->root);
    return world->told;
}

/* Keep what was told, for a comparison. */
static inline const char *keep(log_world *world, const char *told)
{
    memmove(world->kept, told, strlen(told) + 1);
    return world->kept;
}

/* There is nothing but the log in the world. */
static inline void assert_alone(log_world *world)
{
    struct dirent **entries;
    int count = scandir(world->disk->root, &entries, NULL, by_name);

    assert_int_equal(count, 3);
    assert_string_equal(entries[2]->d_name, "t-0");
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
}

/* Remove a tree with all that is in it, if it is there. */
static inline void remove_all(const char *path)
{
    if (!exists(path)) return;
    assert_int_equal(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#endif /* MK_SUPPORT_LOG_WORLD_H */
