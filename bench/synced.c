/* synced -- durable appends, by one thread and by several. */
#include "synced.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine.h"

#define THREADS 8

/* What is appended by one thread. */
typedef struct share {
    mk_log *log;          /* Borrowed. */
    const uint8_t *items; /* Borrowed. */
    size_t first, count;  /* Of the items. */
    size_t batch_records;
} share;

static void append_share(const share *mine)
{
    mk_record batch[DATASET_GROUP] = {0};
    mk_append_options options;
    mk_offset_range range;
    mk_error err;

    mk_append_options_default(&options);
    options.durable = true;
    for (size_t i = 0; i < mine->count; i += mine->batch_records) {
        for (size_t j = 0; j < mine->batch_records; j++) {
            engine_set_record(&batch[j], mine->items, mine->first + i + j);
        }
        engine_check(mk_log_append(mine->log, batch, mine->batch_records,
                                   &options, &range, &err),
                     &err);
    }
}

static void *run_thread(void *context)
{
    append_share(context);
    return NULL;
}

static void append_by_threads(const share *all)
{
    pthread_t threads[THREADS];
    share shares[THREADS];

    for (size_t i = 0; i < THREADS; i++) {
        const size_t first = all->count * i / THREADS;

        shares[i] = *all;
        shares[i].first = first;
        shares[i].count = all->count * (i + 1) / THREADS - first;
        if (pthread_create(&threads[i], NULL, run_thread, &shares[i]) != 0) {
            exit(1);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void measure(meter *run, const char *name, const char *config,
                    void (*append)(const share *all), share all, int repetition)
{
    meter_figure figure = {
        .workload = name,
        .config = config,
        .repetition = repetition,
        .has_checksum = true,
    };
    mk_log_stats before, after;
    uint64_t found;
    mk_error err;

    meter_clear(run->directory);
    all.log = engine_open(run->directory, MK_MAPPED_AUTO, 0);
    engine_check(mk_log_get_stats(all.log, &before, &err), &err);
    meter_start(run);
    append(&all);
    meter_stop(run);
    engine_check(mk_log_get_stats(all.log, &after, &err), &err);
    figure.syncs = (double)(after.syncs - before.syncs);
    figure.disk_bytes = meter_disk_bytes(run->directory);
    figure.checksum = engine_scan(all.log, &found);
    meter_tell_rate(run, &figure, found);
    engine_close(all.log);
}

void synced_measure(meter *run)
{
    const size_t singles = dataset_count(DATASET_SYNCED, run->scale);
    const size_t grouped = dataset_groups(run->scale) * DATASET_GROUP;
    uint8_t *items = dataset_new(grouped > singles ? grouped : singles);
    const share one = {.items = items, .count = singles, .batch_records = 1};
    const share many = {
        .items = items, .count = grouped, .batch_records = DATASET_GROUP};

    for (int rep = 0; rep < run->repetitions; rep++) {
        measure(run, "W3", "durable, one record a call", append_share, one,
                rep);
        measure(run, "W3-group", "durable, 100 records a call", append_share,
                many, rep);
        measure(run, "W3-threads", "durable, one record a call, 8 threads",
                append_by_threads, one, rep);
    }
    free(items);
}
