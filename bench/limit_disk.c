/* limit_disk -- syncs, looks and unlinks, and nothing else. */
#define _GNU_SOURCE

#include "limit_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limit_batch.h"

#define PATH_SIZE  4096
#define ROOM_SIZE  (16u << 20) /* Ahead of what is synced. */
#define PART_SIZE  (1u << 20)
#define PIECE_SIZE DATASET_BATCH_BYTES

/* The bytes of the files of a segment, as large as ours are. */
static const struct {
    const char *suffix;
    size_t size;
} roles[] = {
    {"log", DATASET_SEGMENT_BYTES},
    {"index", 2048},
    {"timeindex", 3072},
};

#define ROLE_COUNT (sizeof roles / sizeof *roles)

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void put(int file, const uint8_t *bytes, size_t size)
{
    if (write(file, bytes, size) != (ssize_t)size) fail("write");
}

static int create(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

    if (file < 0) fail(path);
    return file;
}

static uint8_t *bytes_new(size_t size)
{
    uint8_t *bytes = calloc(1, size);

    if (bytes == NULL) fail("calloc");
    return bytes;
}

/* ---- Syncing ---- */

typedef enum room { ROOM_WRITTEN, ROOM_ALLOCATED, ROOM_NONE } room;

static const struct {
    const char *suffix;
    const char *config;
} rooms[] = {
    [ROOM_WRITTEN] = {"", "pwrite + fdatasync over written blocks"},
    [ROOM_ALLOCATED] = {"-fallocate", "pwrite + fdatasync, fallocated space"},
    [ROOM_NONE] = {"-append", "append + fdatasync"},
};

#define ROOM_COUNT (sizeof rooms / sizeof *rooms)

static void make_room(int file, room kind)
{
    if (kind == ROOM_ALLOCATED && fallocate(file, 0, 0, ROOM_SIZE) != 0) {
        fail("fallocate");
    }
    if (kind == ROOM_WRITTEN) {
        uint8_t *zeros = bytes_new(PART_SIZE);

        for (size_t i = 0; i < ROOM_SIZE / PART_SIZE; i++) {
            put(file, zeros, PART_SIZE);
        }
        free(zeros);
    }
    if (fsync(file) != 0) fail("fsync");
}

static void sync_groups(int file, const uint8_t *items, size_t groups,
                        size_t records)
{
    uint8_t *batch = bytes_new(PART_SIZE);
    off_t end = 0;

    for (size_t i = 0; i < groups; i++) {
        size_t size = limit_build(batch, items, i * records, records);

        if (pwrite(file, batch, size, end) != (ssize_t)size) fail("pwrite");
        end += (off_t)size;
        if (fdatasync(file) != 0) fail("fdatasync");
    }
    free(batch);
}

static void measure_synced(meter *run, const char *workload,
                           const uint8_t *items, size_t groups, size_t records,
                           int repetition)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof path, "%s/log", run->directory);
    for (size_t i = 0; i < ROOM_COUNT; i++) {
        char name[32];
        meter_figure figure = {
            .workload = name,
            .config = rooms[i].config,
            .repetition = repetition,
            .syncs = (double)groups,
        };
        int file;

        meter_clear(run->directory);
        file = create(path);
        make_room(file, (room)i);
        meter_start(run);
        sync_groups(file, items, groups, records);
        meter_stop(run);
        snprintf(name, sizeof name, "%s%s", workload, rooms[i].suffix);
        meter_tell_rate(run, &figure, groups * records);
        close(file);
    }
}

void limit_synced(meter *run)
{
    const size_t singles = dataset_count(DATASET_SYNCED, run->scale);
    const size_t groups = dataset_groups(run->scale);
    uint8_t *one = dataset_new(singles);
    uint8_t *many = dataset_new(groups * DATASET_GROUP);

    for (int rep = 0; rep < run->repetitions; rep++) {
        measure_synced(run, "W3", one, singles, 1, rep);
        measure_synced(run, "W3-group", many, groups, DATASET_GROUP, rep);
    }
    free(many);
    free(one);
}

/* ---- Many segments ---- */

static void segment_path(const meter *run, size_t segment, size_t role,
                         char *out, size_t size)
{
    snprintf(out, size, "%s/%020zu.%s", run->directory, segment,
             roles[role].suffix);
}

/* As a log is written: batch by batch. The kernel keeps such a file in smaller
 * pieces, which are slower to drop. */
static void put_in_pieces(int file, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        const size_t piece = size < PIECE_SIZE ? size : PIECE_SIZE;

        put(file, bytes, piece);
        size -= piece;
    }
}

static void make_segments(const meter *run, size_t count)
{
    uint8_t *bytes = bytes_new(PART_SIZE);
    char path[PATH_SIZE];

    meter_clear(run->directory);
    for (size_t i = 0; i < count; i++) {
        for (size_t role = 0; role < ROLE_COUNT; role++) {
            int file;

            segment_path(run, i, role, path, sizeof path);
            file = create(path);
            put_in_pieces(file, bytes, roles[role].size);
            if (role == 0 && fdatasync(file) != 0) fail("fdatasync");
            close(file);
        }
    }
    free(bytes);
}

static void look_at_all(const meter *run)
{
    DIR *directory = opendir(run->directory);
    const struct dirent *entry;
    struct stat state;

    if (directory == NULL) fail(run->directory);
    while ((entry = readdir(directory)) != NULL) {
        if (fstatat(dirfd(directory), entry->d_name, &state, 0) != 0) {
            fail(entry->d_name);
        }
    }
    closedir(directory);
}

/* Read and check the logs of `count` segments, of which there are `present`:
 * the same ones over and over. */
static uint32_t check_all(const meter *run, size_t count, size_t present)
{
    uint8_t *bytes = bytes_new(PART_SIZE);
    char path[PATH_SIZE];
    uint32_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        int file;

        segment_path(run, i % present, 0, path, sizeof path);
        file = open(path, O_RDONLY);
        if (file < 0) fail(path);
        if (pread(file, bytes, PART_SIZE, 0) != PART_SIZE) fail("pread");
        sum ^= mk_crc32c(0, bytes, PART_SIZE);
        close(file);
    }
    free(bytes);
    return sum;
}

void limit_reopen(meter *run)
{
    const size_t count = dataset_segments(run->scale);
    const size_t bulk =
        dataset_count(DATASET_BULK, run->scale) * RECORD_SIZE_MAX / PART_SIZE;
    volatile uint32_t sum = 0;

    make_segments(run, count);
    for (int rep = -1; rep < run->repetitions; rep++) {
        meter_figure figure = {.repetition = rep};

        figure.workload = "W7-1000-clean";
        figure.config = "readdir + fstatat of every file";
        meter_start(run);
        look_at_all(run);
        meter_stop(run);
        meter_tell_ms(run, &figure);

        figure.workload = "W7-1000-kill";
        figure.config = "open, pread, checksum of each log";
        meter_start(run);
        sum ^= check_all(run, count, count);
        meter_stop(run);
        meter_tell_ms(run, &figure);

        figure.workload = "W7-kill";
        figure.config = "pread, checksum of as many bytes as W1 writes";
        meter_start(run);
        sum ^= check_all(run, bulk, count);
        meter_stop(run);
        meter_tell_ms(run, &figure);
    }
}

void limit_drop(meter *run)
{
    const size_t count = dataset_segments(run->scale);
    char path[PATH_SIZE];

    for (int rep = 0; rep < run->repetitions; rep++) {
        make_segments(run, count);
        meter_start(run);
        for (size_t i = 0; i < count / 2; i++) {
            for (size_t role = 0; role < ROLE_COUNT; role++) {
                segment_path(run, i, role, path, sizeof path);
                if (unlink(path) != 0) fail(path);
            }
        }
        meter_stop(run);
        meter_tell_ms(run, &(meter_figure){
                               .workload = "W8",
                               .config = "unlink of 3 files a segment",
                               .repetition = rep,
                           });
    }
}
