/*
 * store_world -- what the tests of store/ and clean/ have in common, beside the
 * real disk of posix_world: sweeps over failing allocations, damaged copies of
 * bytes in blocks of exactly their size, chance from a seed, batches made by
 * hand, and a disk that writes down what is done to it and fails on demand.
 */
#ifndef MK_SUPPORT_STORE_WORLD_H
#define MK_SUPPORT_STORE_WORLD_H

#include "support/posix_world.h"

#include <inttypes.h>
#include <string.h>

#include "codec/batch.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ---- Statuses ---- */

static inline void check_status(mk_status status, mk_status expected,
                                const char *call, const char *file, int line)
{
    if (status == expected) return;
    print_error("%s: %s\n", call, mk_status_name(status));
    _fail(file, line);
}

/* The call returns that status. */
#define assert_status(call, expected) \
    check_status(call, expected, #call, __FILE__, __LINE__)

#define assert_ok(call) assert_status(call, MK_OK)

/* ---- Failing allocations ---- */

typedef mk_status (*sweep_act)(void *context, mk_error *err);
typedef void (*sweep_check)(void *context);

/* Let `act` run with its first allocation failing, then with its second, until
 * it gets through. Every time before that it must say NO_MEMORY, and `check`
 * looks whether all is as promised then. Returns how often that was. */
static inline long sweep_heap(posix_world *world, sweep_act act,
                              sweep_check check, void *context)
{
    for (long n = 1;; n++) {
        mk_error err = {0};
        mk_status status;

        world->heap_calls = 0;
        world->fail_at = n;
        status = act(context, &err);
        world->fail_at = 0;
        if (status == MK_OK) {
            assert_true(world->heap_calls < n);
            return n - 1;
        }
        assert_status(status, MK_NO_MEMORY);
        assert_status(err.status, MK_NO_MEMORY);
        check(context);
    }
}

static inline void check_nothing(void *context)
{
    (void)context;
}

/* ---- Damage ---- */

/* Return a copy on a block of exactly its size; free() it. */
static inline uint8_t *exact_copy(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size);

    assert_non_null(copy);
    if (size > 0) memcpy(copy, bytes, size);
    return copy;
}

typedef void (*damage_check)(void *context, const uint8_t *bytes, size_t size);

/* Let `check` see the bytes cut to every smaller size, then with each single
 * byte changed to several others. */
static inline void each_damage(const uint8_t *bytes, size_t size,
                               damage_check check, void *context)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t *cut = exact_copy(bytes, i);

        check(context, cut, i);
        free(cut);
    }
    for (size_t i = 0; i < size; i++) {
        const uint8_t b = bytes[i];
        const uint8_t others[] = {
            0x00, 0x7f, 0xff, (uint8_t)(b + 1), (uint8_t)(b - 1), b ^ 0x20,
        };

        for (size_t j = 0; j < LENGTH(others); j++) {
            uint8_t *changed;

            if (others[j] == b) continue;
            changed = exact_copy(bytes, size);
            changed[i] = others[j];
            check(context, changed, size);
            free(changed);
        }
    }
}

/* ---- Chance ---- */

/* Return the next number below `limit`; `seed` moves on. */
static inline uint64_t draw(uint64_t *seed, uint64_t limit)
{
    uint64_t mixed = (*seed += UINT64_C(0x9e3779b97f4a7c15));

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ (mixed >> 31)) % limit;
}

/* ---- Batches by hand ---- */

/* The bytes of a `.log` file in the making. */
typedef struct hand_log {
    uint8_t data[1 << 16];
    size_t size;
} hand_log;

typedef struct hand_record {
    const char *key;   /* NULL: keyless. */
    const char *value; /* NULL: none. */
    int64_t timestamp_ms;
    int32_t delta; /* Of the offset. */
} hand_record;

/* Begin a batch at the end of the log: the members that a plain one has. */
static inline mk_batch plain_batch(int64_t base_offset)
{
    return (mk_batch){
        .base_offset = base_offset,
        .magic = 2,
        .base_timestamp = -1,
        .max_timestamp = -1,
        .producer_id = -1,
        .producer_epoch = -1,
        .base_sequence = -1,
    };
}

/* Add a batch with these records. A `last_offset_delta`, base or maximum
 * timestamp that `batch` has already stays; else they are those of the
 * records. What was written is left in `batch`. */
static inline void put_batch(hand_log *log, mk_batch *batch,
                             const hand_record *records, size_t count)
{
    uint8_t *bytes = log->data + log->size;
    uint8_t *next = bytes + MK_BATCH_HEADER_SIZE;
    bool own_max = batch->max_timestamp != -1;

    if (count > 0 && batch->base_timestamp == -1) {
        batch->base_timestamp = records[0].timestamp_ms;
    }
    for (size_t i = 0; i < count; i++) {
        const hand_record *hand = &records[i];
        const mk_record record = {
            .key = hand->key,
            .key_size = hand->key != NULL ? strlen(hand->key) : 0,
            .value = hand->value,
            .value_size = hand->value != NULL ? strlen(hand->value) : 0,
        };

        assert_true(log->size + 1000 < sizeof log->data);
        next = mk_record_encode(&record,
                                hand->timestamp_ms - batch->base_timestamp,
                                hand->delta, next);
        if (!own_max && hand->timestamp_ms > batch->max_timestamp) {
            batch->max_timestamp = hand->timestamp_ms;
        }
        if (hand->delta > batch->last_offset_delta) {
            batch->last_offset_delta = hand->delta;
        }
    }
    batch->record_count = (int32_t)count;
    batch->size = (uint32_t)(next - bytes);
    mk_batch_seal(bytes, batch);
    log->size += batch->size;
}

/* Add a batch of `count` records, one after the other, of about `size` bytes
 * each. Returns the offset after it. */
static inline int64_t put_plain(hand_log *log, int64_t base_offset, int count,
                                int64_t timestamp_ms, size_t size)
{
    mk_batch batch = plain_batch(base_offset);
    hand_record records[16];
    char value[256];

    assert_true(count <= (int)LENGTH(records));
    assert_true(size < sizeof value);
    memset(value, 'v', size);
    value[size] = '\0';
    for (int i = 0; i < count; i++) {
        records[i] = (hand_record){"k", value, timestamp_ms, i};
    }
    put_batch(log, &batch, records, (size_t)count);
    return mk_batch_next_offset(&batch);
}

/* ---- A disk that tells and fails ---- */

/* Stands in front of a world's disk. Each operation adds a word and the file's
 * last name to the trace; operation number `fail_at` fails with EIO, a write
 * after half of its bytes. */
typedef struct traced_disk {
    mk_vfs base;
    mk_vfs *inner; /* Borrowed. */
    char trace[2048];
    long operations; /* Since they were last counted from 0. */
    long fail_at;    /* From 1; 0: none. */
} traced_disk;

typedef struct traced_file {
    mk_file base;
    mk_file *inner; /* Owned. */
    char path[512];
} traced_file;

/* Note an operation. False: it is to fail, and `err` says so. */
static inline bool trace(mk_vfs *vfs, const char *word, const char *path,
                         mk_error *err)
{
    traced_disk *disk = (traced_disk *)vfs;
    const char *name = strrchr(path, '/');
    size_t used = strlen(disk->trace);

    snprintf(disk->trace + used, sizeof disk->trace - used, "%s %s; ", word,
             name != NULL ? name + 1 : path);
    if (++disk->operations != disk->fail_at) return true;
    (void)mk_fail_errno(err, EIO, path, "%s %s", word, path);
    return false;
}

static inline mk_status traced_open(mk_vfs *vfs, const char *path,
                                    unsigned flags, mk_file **out,
                                    mk_error *err)
{
    const traced_disk *disk = (const traced_disk *)vfs;
    traced_file *file;
    mk_file *inner;
    mk_status status;

    if (!trace(vfs, "open", path, err)) return MK_IO;
    status = mk_file_open(disk->inner, path, flags, &inner, err);
    if (status != MK_OK) return status;
    file = calloc(1, sizeof *file);
    assert_non_null(file);
    file->base.vfs = vfs;
    file->inner = inner;
    snprintf(file->path, sizeof file->path, "%s", path);
    *out = &file->base;
    return MK_OK;
}

static inline mk_status traced_close(mk_file *base, mk_error *err)
{
    traced_file *file = (traced_file *)base;
    bool fine = trace(base->vfs, "close", file->path, err);
    mk_status status = mk_file_close(file->inner, fine ? err : NULL);

    free(file);
    return fine ? status : MK_IO;
}

static inline mk_status traced_stat_file(mk_file *base, mk_file_stat *out,
                                         mk_error *err)
{
    const traced_file *file = (const traced_file *)base;

    if (!trace(base->vfs, "stat", file->path, err)) return MK_IO;
    return mk_file_stat_open(file->inner, out, err);
}

static inline mk_status traced_view(mk_file *base, mk_scratch *scratch,
                                    int64_t position, size_t size, mk_span *out,
                                    mk_error *err)
{
    const traced_file *file = (const traced_file *)base;

    if (!trace(base->vfs, "read", file->path, err)) return MK_IO;
    return mk_file_view(file->inner, scratch, position, size, out, err);
}

static inline mk_status traced_write(mk_file *base, int64_t position,
                                     const void *bytes, size_t size,
                                     mk_error *err)
{
    const traced_file *file = (const traced_file *)base;

    if (!trace(base->vfs, "write", file->path, err)) {
        assert_ok(mk_file_write(file->inner, position, bytes, size / 2, NULL));
        return MK_IO;
    }
    return mk_file_write(file->inner, position, bytes, size, err);
}

static inline mk_status traced_sync(mk_file *base, bool data_only,
                                    mk_sync_name name, mk_error *err)
{
    const traced_file *file = (const traced_file *)base;

    assert_int_equal(name, MK_SYNC_REPLACE_FILE);
    if (!trace(base->vfs, "sync", file->path, err)) return MK_IO;
    return mk_file_sync(file->inner, data_only, name, err);
}

static inline mk_status traced_rename(mk_vfs *vfs, const char *from,
                                      const char *to, mk_error *err)
{
    const traced_disk *disk = (const traced_disk *)vfs;

    if (!trace(vfs, "rename", from, err)) return MK_IO;
    return mk_vfs_rename(disk->inner, from, to, err);
}

static inline mk_status traced_unlink(mk_vfs *vfs, const char *path,
                                      mk_error *err)
{
    const traced_disk *disk = (const traced_disk *)vfs;

    if (!trace(vfs, "unlink", path, err)) return MK_IO;
    return mk_vfs_unlink(disk->inner, path, err);
}

static inline mk_status traced_sync_directory(mk_vfs *vfs, const char *path,
                                              mk_sync_name name, mk_error *err)
{
    const traced_disk *disk = (const traced_disk *)vfs;

    assert_int_equal(name, MK_SYNC_REPLACE_DIRECTORY);
    if (!trace(vfs, "sync-directory", path, err)) return MK_IO;
    return mk_vfs_sync_directory(disk->inner, path, name, err);
}

static const mk_vfs_methods traced_methods = {
    .open = traced_open,
    .close = traced_close,
    .stat_file = traced_stat_file,
    .view = traced_view,
    .write = traced_write,
    .sync = traced_sync,
    .rename = traced_rename,
    .unlink = traced_unlink,
    .sync_directory = traced_sync_directory,
};

static inline void traced_init(traced_disk *disk, posix_world *world)
{
    *disk = (traced_disk){.base = *world->vfs, .inner = world->vfs};
    disk->base.methods = &traced_methods;
}

/* Begin to trace and to count anew. */
static inline void traced_restart(traced_disk *disk, long fail_at)
{
    disk->trace[0] = '\0';
    disk->operations = 0;
    disk->fail_at = fail_at;
}

/* Give a file other bytes in place: what put_file() does, but without a
 * truncation to nothing, after which some file systems write at once. */
static inline void change_file(posix_world *world, const char *name,
                               const void *bytes, size_t size)
{
    int fd = open(path_of(world, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(close(fd), 0);
}

/* Is there such a file? */
static inline bool exists(posix_world *world, const char *name)
{
    struct stat native;

    return lstat(path_of(world, name), &native) == 0;
}

#endif /* MK_SUPPORT_STORE_WORLD_H */
