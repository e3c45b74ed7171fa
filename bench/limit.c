/*
 * limit -- the bare machine at the workloads: the least work that gives the
 * same bytes and the same answers in Kafka's format, without indexes, locks,
 * recovery or errors worth the name. An engine is measured against it.
 *
 *   W1         build a batch of 500, checksum it, write() it
 *   W2         the same with one record a batch
 *   W4         pread() whole batches, up to 1 MiB at once, check, decode, touch
 *   W5         pread() the batch, check it, walk to the record, touch it
 *   W5-single  pread() from an index entry to the record, walk, check, touch
 *   W3, W7, W8 in limit_disk.c
 *
 * The places of batches are known beforehand.
 */
#define _XOPEN_SOURCE 700

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limit_batch.h"
#include "limit_disk.h"
#include "meter.h"

#define BUFFER_SIZE   (2u << 20)
#define READ_SIZE     (1u << 20)
#define INDEX_BATCHES 22u /* One-record batches between two index entries. */
#define PATH_SIZE     4096

/* A log as the loops know it. */
typedef struct image {
    uint64_t *positions; /* Owned: of each batch, and of the end. */
    size_t batch_records;
    size_t record_count;
    int file;
} image;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- Batches ---- */

static inline const uint8_t *get_signed(const uint8_t *bytes, int64_t *out)
{
    uint64_t value = *bytes++;

    if (__builtin_expect(value >= 0x80, 0)) {
        uint64_t more;
        unsigned shift = 7;

        value &= 0x7f;
        do {
            more = *bytes++;
            value |= (more & 0x7f) << shift;
            shift += 7;
        } while (more >= 0x80);
    }
    *out = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    return bytes;
}

/* Touch the record at `bytes`, whose length has been read. */
static inline uint64_t touch(const uint8_t *bytes)
{
    int64_t ignored, key_size;
    const uint8_t *key;

    bytes = get_signed(bytes + 1, &ignored);
    bytes = get_signed(bytes, &ignored);
    key = get_signed(bytes, &key_size);
    return dataset_touch(key, get_signed(key + key_size, &ignored));
}

/* Check and decode the whole batches in [bytes, end). */
static uint64_t decode(const uint8_t *bytes, const uint8_t *end)
{
    uint64_t sum = 0;

    while (bytes < end) {
        const size_t size = limit_batch_size(bytes);
        const uint8_t *record = bytes + BATCH_HEADER;

        limit_check(bytes, size);
        for (uint32_t i = mk_load_u32(bytes + COUNT_AT); i > 0; i--) {
            int64_t length;

            record = get_signed(record, &length);
            sum += touch(record);
            record += length;
        }
        bytes += size;
    }
    return sum;
}

/* ---- Files ---- */

static int create(const meter *run)
{
    char path[PATH_SIZE];
    int file;

    meter_clear(run->directory);
    snprintf(path, sizeof path, "%s/log", run->directory);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0) fail(path);
    return file;
}

static void put(int file, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(file, bytes, size);

        if (written <= 0) fail("write");
        bytes += written;
        size -= (size_t)written;
    }
}

static void get(int file, uint8_t *out, size_t size, uint64_t position)
{
    if (pread(file, out, size, (off_t)position) != (ssize_t)size) fail("pread");
}

static uint8_t *buffer_new(void)
{
    uint8_t *buffer = malloc(BUFFER_SIZE);

    if (buffer == NULL) fail("malloc");
    return buffer;
}

/* Write a log of `count` records and remember where its batches lie. It is
 * written at once: the kernel then keeps it in larger pieces, which are faster
 * to read. */
static image image_open(const meter *run, size_t count, size_t batch_records)
{
    uint8_t *items = dataset_new(count);
    const size_t batches = count / batch_records;
    uint8_t *bytes = malloc(batches * BATCH_HEADER + count * RECORD_SIZE_MAX);
    image log = {
        .positions = calloc(batches + 1, sizeof *log.positions),
        .batch_records = batch_records,
        .record_count = count,
        .file = create(run),
    };

    if (log.positions == NULL || bytes == NULL) fail("malloc");
    for (size_t i = 0; i < batches; i++) {
        const uint64_t position = log.positions[i];

        log.positions[i + 1] =
            position + limit_build(bytes + position, items, i * batch_records,
                                   batch_records);
    }
    put(log.file, bytes, log.positions[batches]);
    free(bytes);
    free(items);
    return log;
}

static void image_close(image *log)
{
    free(log->positions);
    close(log->file);
}

/* ---- Workloads ---- */

static void append(meter *run, const char *name, double full,
                   size_t batch_records)
{
    const size_t count = dataset_count(full, run->scale);
    uint8_t *items = dataset_new(count);
    uint8_t *batch = buffer_new();

    for (int rep = 0; rep < run->repetitions; rep++) {
        int file = create(run);

        meter_start(run);
        for (size_t i = 0; i < count; i += batch_records) {
            put(file, batch, limit_build(batch, items, i, batch_records));
        }
        meter_stop(run);
        meter_tell_rate(run,
                        &(meter_figure){
                            .workload = name,
                            .config = "build the batch, checksum, write()",
                            .repetition = rep,
                            .disk_bytes = meter_disk_bytes(run->directory),
                        },
                        count);
        close(file);
    }
    free(batch);
    free(items);
}

static uint64_t scan(const image *log, uint8_t *buffer)
{
    const size_t batches = log->record_count / log->batch_records;
    uint64_t sum = 0;
    size_t next;

    for (size_t i = 0; i < batches; i = next) {
        const uint64_t position = log->positions[i];
        size_t size;

        next = i + 1;
        while (next < batches &&
               log->positions[next + 1] - position <= READ_SIZE) {
            next++;
        }
        size = log->positions[next] - position;
        get(log->file, buffer, size, position);
        sum += decode(buffer, buffer + size);
    }
    return sum;
}

static void read_all(meter *run)
{
    image log =
        image_open(run, dataset_count(DATASET_BULK, run->scale), DATASET_BATCH);
    uint8_t *buffer = buffer_new();

    for (int rep = -1; rep < run->repetitions; rep++) {
        uint64_t sum;

        meter_start(run);
        sum = scan(&log, buffer);
        meter_stop(run);
        meter_tell_rate(run,
                        &(meter_figure){
                            .workload = "W4",
                            .config = "pread 1 MiB, checksum, decode",
                            .repetition = rep,
                            .disk_bytes = meter_disk_bytes(run->directory),
                            .checksum = sum,
                            .has_checksum = true,
                        },
                        log.record_count);
    }
    free(buffer);
    image_close(&log);
}

/* Read the record at `offset` of a log with many records a batch. */
static uint64_t fetch(const image *log, uint8_t *batch, uint64_t offset)
{
    const uint64_t *position = log->positions + offset / log->batch_records;
    const size_t size = position[1] - position[0];
    const uint8_t *record = batch + BATCH_HEADER;
    int64_t length;

    get(log->file, batch, size, position[0]);
    limit_check(batch, size);
    for (uint64_t i = offset % log->batch_records; i > 0; i--) {
        record = get_signed(record, &length);
        record += length;
    }
    return touch(get_signed(record, &length));
}

/* Read the record at `offset` of a log with one record a batch, coming from the
 * index entry before it. */
static uint64_t fetch_single(const image *log, uint8_t *buffer, uint64_t offset)
{
    const uint64_t from =
        log->positions[offset / INDEX_BATCHES * INDEX_BATCHES];
    const uint8_t *batch = buffer;
    int64_t length;

    get(log->file, buffer, log->positions[offset + 1] - from, from);
    while (mk_load_u64(batch) < offset) {
        batch += limit_batch_size(batch);
    }
    limit_check(batch, limit_batch_size(batch));
    return touch(get_signed(batch + BATCH_HEADER, &length));
}

static uint64_t fetch_many(const image *log, uint8_t *buffer, size_t reads)
{
    const uint64_t count = log->record_count;
    uint64_t sum = 0;

    if (log->batch_records == 1) {
        for (uint64_t j = 0; j < reads; j++) {
            sum += fetch_single(log, buffer, dataset_read(j, count));
        }
    } else {
        for (uint64_t j = 0; j < reads; j++) {
            sum += fetch(log, buffer, dataset_read(j, count));
        }
    }
    return sum;
}

static void read_random(meter *run, const char *name, double full,
                        size_t batch_records)
{
    const size_t reads = dataset_count(DATASET_READS, run->scale);
    image log = image_open(run, dataset_count(full, run->scale), batch_records);
    uint8_t *buffer = buffer_new();

    fetch_many(&log, buffer, reads / 10); /* A warm-up. */
    for (int rep = 0; rep < run->repetitions; rep++) {
        uint64_t sum;
        double seconds;

        meter_start(run);
        sum = fetch_many(&log, buffer, reads);
        seconds = meter_stop(run);
        meter_tell(run, &(meter_figure){
                            .workload = name,
                            .unit = "op/s",
                            .value = (double)reads / seconds,
                            .config = "pread, checksum, walk to the record",
                            .repetition = rep,
                            .disk_bytes = meter_disk_bytes(run->directory),
                            .checksum = sum,
                            .has_checksum = true,
                        });
    }
    free(buffer);
    image_close(&log);
}

int main(int argc, char **argv)
{
    meter run;

    meter_init(&run, "bare", argc, argv);
    if (strcmp(run.workload, "W1") == 0) {
        append(&run, "W1", DATASET_BULK, DATASET_BATCH);
    } else if (strcmp(run.workload, "W2") == 0) {
        append(&run, "W2", DATASET_SINGLES, 1);
    } else if (strcmp(run.workload, "W4") == 0) {
        read_all(&run);
    } else if (strcmp(run.workload, "W5") == 0) {
        read_random(&run, "W5", DATASET_BULK, DATASET_BATCH);
        read_random(&run, "W5-single", DATASET_SINGLES, 1);
    } else if (strcmp(run.workload, "W3") == 0) {
        limit_synced(&run);
    } else if (strcmp(run.workload, "W7") == 0) {
        limit_reopen(&run);
    } else if (strcmp(run.workload, "W8") == 0) {
        limit_drop(&run);
    } else {
        return METER_NOT_OURS;
    }
    meter_remove(run.directory);
    return 0;
}
