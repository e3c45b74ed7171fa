/* engine -- opening, filling and reading logs. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

#define READ_RECORDS 32

void engine_check(mk_status status, const mk_error *err)
{
    if (status == MK_OK) return;
    fprintf(stderr, "bench: %s: %s\n", mk_status_name(status), err->message);
    exit(1);
}

mk_log *engine_open(const char *directory, mk_mapping mapped,
                    int32_t segment_bytes)
{
    mk_open_options options;
    mk_log *log = NULL;
    mk_error err;

    mk_open_options_default(&options);
    options.mapped = mapped;
    if (segment_bytes > 0) options.config.segment_bytes = segment_bytes;
    engine_check(mk_log_open(directory, &options, &log, &err), &err);
    return log;
}

void engine_close(mk_log *log)
{
    mk_error err;

    engine_check(mk_log_close(log, &err), &err);
}

void engine_discard(mk_log *log, const char *directory)
{
    mk_error err;

    meter_clear(directory);
    if (mk_log_close(log, &err) != MK_OK) return;
    fputs("bench: a log without files was closed as if it had them\n", stderr);
    exit(1);
}

void engine_append_batches(mk_log *log, const uint8_t *items, size_t count)
{
    mk_record batch[DATASET_BATCH] = {0};
    mk_offset_range range;
    mk_error err;

    for (size_t i = 0; i < count; i += DATASET_BATCH) {
        for (size_t j = 0; j < DATASET_BATCH; j++) {
            engine_set_record(&batch[j], items, i + j);
        }
        engine_check(
            mk_log_append(log, batch, DATASET_BATCH, NULL, &range, &err), &err);
    }
}

uint64_t engine_scan(mk_log *log, uint64_t *count)
{
    mk_record_view records[READ_RECORDS];
    mk_cursor *cursor = NULL;
    uint64_t sum = 0;
    mk_status status;
    size_t got;
    mk_error err;

    *count = 0;
    engine_check(mk_cursor_open(log, NULL, &cursor, &err), &err);
    while ((status = mk_cursor_read(cursor, records, READ_RECORDS, &got,
                                    &err)) == MK_OK) {
        for (size_t i = 0; i < got; i++) {
            sum += dataset_touch(records[i].key, records[i].value);
        }
        *count += got;
    }
    if (status != MK_END) engine_check(status, &err);
    mk_cursor_close(cursor);
    return sum;
}
