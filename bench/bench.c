/*
 * bench -- minikafka from C at the workloads.
 *
 *   W1           append records in batches of 500 to a new log
 *   W1-appender  the same, one a call, through an appender
 *   W2           append records one a call to a new log
 *   W4           read W1's log with a cursor, all checks on, and touch all
 *   W5           random reads on W1's log: a cursor, seek and next
 *   W5-cold      one read in each of its batches, just opened
 *   W5-single    random reads on W2's log
 *   W3           in synced.c
 *   W7, W8       in reopen.c
 *
 * A name with "-read" is the same with files read, not mapped into memory.
 * Whatever was written is read back and summed up, outside the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "reopen.h"
#include "synced.h"

/* A way to open a log for reading. */
typedef struct setup {
    const char *suffix; /* Borrowed: of the workload's name. */
    const char *config; /* Borrowed: how it is told. */
    mk_mapping mapped;
} setup;

static const setup setups[] = {
    {"", "defaults: mapped", MK_MAPPED_AUTO},
    {"-read", "mapped = false: read", MK_MAPPED_NEVER},
};

#define SETUP_COUNT (sizeof setups / sizeof *setups)

static mk_log *new_log(const meter *run)
{
    meter_clear(run->directory);
    return engine_open(run->directory, MK_MAPPED_AUTO, 0);
}

static mk_cursor *open_cursor(mk_log *log)
{
    mk_cursor *cursor = NULL;
    mk_error err;

    engine_check(mk_cursor_open(log, NULL, &cursor, &err), &err);
    return cursor;
}

/* ---- Appending ---- */

typedef void append_function(mk_log *log, const uint8_t *items, size_t count);

static void append_buffered(mk_log *log, const uint8_t *items, size_t count)
{
    mk_appender_options options;
    mk_appender *appender = NULL;
    mk_record record = {0};
    mk_error err;

    mk_appender_options_default(&options);
    options.batch_bytes = DATASET_BATCH_BYTES;
    engine_check(mk_appender_open(log, &options, &appender, &err), &err);
    for (size_t i = 0; i < count; i++) {
        engine_set_record(&record, items, i);
        engine_check(mk_appender_append_one(appender, &record, &err), &err);
    }
    engine_check(mk_appender_close(appender, &err), &err);
}

static void append_singles(mk_log *log, const uint8_t *items, size_t count)
{
    mk_record record = {0};
    int64_t offset;
    mk_error err;

    for (size_t i = 0; i < count; i++) {
        engine_set_record(&record, items, i);
        engine_check(mk_log_append_one(log, &record, &offset, &err), &err);
    }
}

/* Does the log consist of batches of `size` records? */
static void check_batches(mk_log *log, int32_t size)
{
    mk_cursor *cursor = open_cursor(log);
    mk_batch_view batch;
    mk_status status;
    mk_error err;

    while ((status = mk_cursor_next_batch(cursor, &batch, &err)) == MK_OK) {
        if (batch.record_count == size) continue;
        fprintf(stderr, "bench: a batch of %d records\n", batch.record_count);
        exit(1);
    }
    if (status != MK_END) engine_check(status, &err);
    mk_cursor_close(cursor);
}

static void measure_append(meter *run, const char *name, const char *config,
                           append_function *append, double full,
                           size_t batch_records)
{
    const size_t count = dataset_count(full, run->scale);
    uint8_t *items = dataset_new(count);

    for (int rep = 0; rep < run->repetitions; rep++) {
        mk_log *log = new_log(run);
        meter_figure figure = {
            .workload = name,
            .config = config,
            .repetition = rep,
            .has_checksum = true,
        };
        uint64_t found;

        meter_start(run);
        append(log, items, count);
        meter_stop(run);
        figure.disk_bytes = meter_disk_bytes(run->directory);
        figure.checksum = engine_scan(log, &found);
        meter_tell_rate(run, &figure, found);
        check_batches(log, (int32_t)batch_records);
        engine_discard(log, run->directory);
    }
    free(items);
}

/* ---- Reading ---- */

/* Leave a new log behind and return how many records it has. */
static size_t write_log(const meter *run, double full, append_function *append)
{
    const size_t count = dataset_count(full, run->scale);
    uint8_t *items = dataset_new(count);
    mk_log *log = new_log(run);

    append(log, items, count);
    engine_close(log);
    free(items);
    return count;
}

/* Open the log that write_log() has left, for reading. */
static mk_log *open_written(const meter *run, const setup *how)
{
    return engine_open(run->directory, how->mapped, 0);
}

static const char *name_of(const char *workload, const setup *how, char *out,
                           size_t size)
{
    snprintf(out, size, "%s%s", workload, how->suffix);
    return out;
}

static void measure_scan(meter *run, const setup *how)
{
    mk_log *log = open_written(run, how);
    char name[32];

    for (int rep = -1; rep < run->repetitions; rep++) {
        meter_figure figure = {
            .workload = name_of("W4", how, name, sizeof name),
            .config = how->config,
            .repetition = rep,
            .disk_bytes = meter_disk_bytes(run->directory),
            .has_checksum = true,
        };
        uint64_t found;

        meter_start(run);
        figure.checksum = engine_scan(log, &found);
        meter_stop(run);
        meter_tell_rate(run, &figure, found);
    }
    engine_close(log);
}

typedef uint64_t read_order(uint64_t j, uint64_t count);

/* Read `reads` of `count` records in an order, and return the checksum. */
static uint64_t fetch_many(mk_cursor *cursor, read_order *order, uint64_t reads,
                           uint64_t count)
{
    mk_record_view record;
    uint64_t sum = 0;
    mk_error err;

    for (uint64_t j = 0; j < reads; j++) {
        int64_t offset = (int64_t)order(j, count);

        engine_check(mk_cursor_seek(cursor, offset, &err), &err);
        engine_check(mk_cursor_next(cursor, &record, &err), &err);
        sum += dataset_touch(record.key, record.value);
    }
    return sum;
}

/* Tell of `reads` that were measured. */
static void tell_reads(meter *run, meter_figure *figure, uint64_t reads)
{
    figure->unit = "op/s";
    figure->value = (double)reads / run->seconds;
    figure->has_checksum = true;
    figure->disk_bytes = meter_disk_bytes(run->directory);
    meter_tell(run, figure);
}

static void measure_reads(meter *run, const char *workload, const setup *how,
                          mk_log *log, size_t count, int repetition)
{
    const uint64_t reads = dataset_count(DATASET_READS, run->scale);
    char name[32];
    meter_figure figure = {
        .workload = name_of(workload, how, name, sizeof name),
        .repetition = repetition,
        .config = how->config,
    };
    mk_cursor *cursor = open_cursor(log);

    meter_start(run);
    figure.checksum = fetch_many(cursor, dataset_read, reads, count);
    meter_stop(run);
    mk_cursor_close(cursor);
    tell_reads(run, &figure, reads);
}

/* Read each batch once since the log was opened, several times over. */
static void measure_cold(meter *run, const setup *how, size_t count,
                         int repetition)
{
    const uint64_t reads = count / DATASET_BATCH;
    char name[32];
    meter_figure figure = {
        .workload = name_of("W5-cold", how, name, sizeof name),
        .repetition = repetition,
        .config = how->config,
    };

    for (int pass = 0; pass < DATASET_COLD_PASSES; pass++) {
        mk_log *log = open_written(run, how);
        mk_cursor *cursor = open_cursor(log);

        if (pass == 0) {
            meter_start(run);
        } else {
            meter_resume(run);
        }
        figure.checksum = fetch_many(cursor, dataset_first_read, reads, count);
        meter_stop(run);
        mk_cursor_close(cursor);
        engine_close(log);
    }
    tell_reads(run, &figure, reads * DATASET_COLD_PASSES);
}

/* Reads where nothing is known of a batch, and where it was met before. */
static void measure_fetch(meter *run, const setup *how, size_t count)
{
    for (int rep = 0; rep < run->repetitions; rep++) {
        mk_log *log;
        mk_cursor *cursor;

        measure_cold(run, how, count, rep);
        log = open_written(run, how);
        cursor = open_cursor(log);
        fetch_many(cursor, dataset_first_read, count / DATASET_BATCH, count);
        mk_cursor_close(cursor);
        measure_reads(run, "W5", how, log, count, rep);
        engine_close(log);
    }
}

static void measure_fetch_single(meter *run, const setup *how, size_t count)
{
    for (int rep = 0; rep < run->repetitions; rep++) {
        mk_log *log = open_written(run, how);

        measure_reads(run, "W5-single", how, log, count, rep);
        engine_close(log);
    }
}

/* ---- Workloads ---- */

static void append_bulk(meter *run)
{
    measure_append(run, "W1", "mk_log_append, 500 records",
                   engine_append_batches, DATASET_BULK, DATASET_BATCH);
    measure_append(run, "W1-appender", "mk_appender_append_one",
                   append_buffered, DATASET_BULK, DATASET_BATCH);
}

static void append_one_by_one(meter *run)
{
    measure_append(run, "W2", "mk_log_append_one, defaults", append_singles,
                   DATASET_SINGLES, 1);
}

static void read_all(meter *run)
{
    write_log(run, DATASET_BULK, engine_append_batches);
    for (size_t i = 0; i < SETUP_COUNT; i++) {
        measure_scan(run, &setups[i]);
    }
}

static void read_random(meter *run)
{
    size_t count = write_log(run, DATASET_BULK, engine_append_batches);

    for (size_t i = 0; i < SETUP_COUNT; i++) {
        measure_fetch(run, &setups[i], count);
    }
    count = write_log(run, DATASET_SINGLES, append_singles);
    for (size_t i = 0; i < SETUP_COUNT; i++) {
        measure_fetch_single(run, &setups[i], count);
    }
}

int main(int argc, char **argv)
{
    meter run;

    meter_init(&run, "minikafka", argc, argv);
    if (strcmp(run.workload, "W1") == 0) {
        append_bulk(&run);
    } else if (strcmp(run.workload, "W2") == 0) {
        append_one_by_one(&run);
    } else if (strcmp(run.workload, "W4") == 0) {
        read_all(&run);
    } else if (strcmp(run.workload, "W5") == 0) {
        read_random(&run);
    } else if (strcmp(run.workload, "W3") == 0) {
        synced_measure(&run);
    } else if (strcmp(run.workload, "W7") == 0) {
        reopen_measure(&run);
    } else if (strcmp(run.workload, "W8") == 0) {
        reopen_measure_drop(&run);
    } else {
        return METER_NOT_OURS;
    }
    meter_remove(run.directory);
    return 0;
}
