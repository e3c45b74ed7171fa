/*
 * crash_run -- rows of operations on a log that stands on a simulated disk, and
 * the ledger of what those who use it know of it at any moment.
 *
 * What a row starts from is a log with a closed segment and an active one, all
 * of it on stable storage. Records have two keys in turn, so that a compaction
 * has something to take away. A value has a number, by which its length and all
 * of its bytes can be told.
 */
#ifndef MK_SUPPORT_CRASH_RUN_H
#define MK_SUPPORT_CRASH_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/minikafka_sim.h"
#include "support/rewrite_segments.h"

#define OFFSETS_MAX         32
#define ROW_MAX             4
#define DIRECTORY           "/logs/t-0"
#define COPY                "/logs/c-0"
#define STRANGER            DIRECTORY "/notes.txt"
#define STRANGER_TEXT       "not ours"
#define VALUE_SIZE_MAX      8000u
#define CRASH_LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* What cannot go wrong here. Threads that are no test's own use it, too. */
#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

/* What is known of the log by those who use it. It has no gaps between its
 * members: it is compared and hashed as it is. */
typedef struct ledger {
    int32_t values[OFFSETS_MAX]; /* What was given the offset; 0: nothing. */
    int64_t attempted;           /* End of what was appended or is being. */
    int64_t end;                 /* ... of which append returned. */
    int64_t durable;             /* Flushed up to here. */
    int64_t start;               /* Acknowledged log start. */
    int64_t start_attempted;     /* What a call in progress may make it. */
    int64_t cut;      /* Where a truncation in progress cuts; or attempted. */
    uint64_t copying; /* What a copy holds, once it is there, */
    uint64_t copied;  /* ... and that it is there. */
    uint64_t going;   /* Offsets that a compaction in progress takes away, */
    uint64_t gone;    /* ... or has taken away. */
    int64_t next_value;
} ledger;

typedef struct crash_run {
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log; /* NULL: it is closed. */
    ledger known;
} crash_run;

typedef struct crash_operation {
    const char *name;
    mk_status (*run)(crash_run *r);
} crash_operation;

/* ---- Values ---- */

enum {
    SIZE_SMALL = 30,
    SIZE_INDEXED = 300, /* More than an index interval. */
    SIZE_TWO_PAGES = 5000,
};

/* Write the value number `id`, and return its size. */
static inline size_t make_value(int32_t id, size_t size, uint8_t *out)
{
    uint32_t head[2] = {(uint32_t)id, (uint32_t)size};

    memset(out, 'a' + id % 26, size);
    memcpy(out, head, sizeof head);
    return size;
}

/* Return the number of a value; 0: it is none, or a changed one. */
static inline int32_t read_value(const uint8_t *value, size_t size)
{
    uint8_t expected[VALUE_SIZE_MAX];
    uint32_t head[2];

    if (size < sizeof head || size > VALUE_SIZE_MAX) return 0;
    memcpy(head, value, sizeof head);
    if (head[1] != size) return 0;
    make_value((int32_t)head[0], size, expected);
    return memcmp(value, expected, size) == 0 ? (int32_t)head[0] : 0;
}

static inline char key_of(int64_t id)
{
    return id % 2 == 0 ? 'a' : 'b';
}

static inline int64_t time_of(int64_t id)
{
    return 1000 + 10 * id;
}

/* ---- Operations ---- */

static inline mk_status open_crash_log(mk_env *env, mk_log **out, mk_error *err)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = env;
    options.config.index_interval_bytes = 250;
    return mk_log_open(DIRECTORY, &options, out, err);
}

static inline mk_status append_sized(crash_run *r, size_t size)
{
    uint8_t value[VALUE_SIZE_MAX];
    ledger *known = &r->known;
    int32_t id = (int32_t)known->next_value;
    char key = key_of(id);
    mk_record record = {
        .key = &key,
        .key_size = 1,
        .value = value,
        .value_size = make_value(id, size, value),
        .timestamp_ms = time_of(id),
    };
    int64_t offset;
    mk_status status;

    MUST(known->attempted < OFFSETS_MAX);
    known->next_value++;
    known->values[known->attempted] = id;
    known->cut = ++known->attempted;
    status = mk_log_append_one(r->log, &record, &offset, NULL);
    if (status != MK_OK) return status;
    MUST(offset == known->end);
    known->end = known->attempted;
    return MK_OK;
}

static inline mk_status append_small(crash_run *r)
{
    return append_sized(r, SIZE_SMALL);
}

static inline mk_status append_two_pages(crash_run *r)
{
    return append_sized(r, SIZE_TWO_PAGES);
}

static inline mk_status append_indexed(crash_run *r)
{
    mk_status status = append_sized(r, SIZE_INDEXED);

    return status == MK_OK ? append_small(r) : status;
}

static inline mk_status flush_log(crash_run *r)
{
    mk_status status = mk_log_flush(r->log, NULL);

    if (status == MK_OK) r->known.durable = r->known.end;
    return status;
}

static inline mk_status append_and_flush(crash_run *r)
{
    mk_status status = append_small(r);

    return status == MK_OK ? flush_log(r) : status;
}

static inline mk_status roll_log(crash_run *r)
{
    return mk_log_roll(r->log, NULL);
}

static inline mk_status delete_some_records(crash_run *r)
{
    ledger *known = &r->known;
    mk_status status;

    known->start_attempted = known->start + 2;
    if (known->start_attempted > known->end) {
        known->start_attempted = known->end;
    }
    status = mk_log_delete_records(r->log, known->start_attempted, NULL);
    if (status == MK_OK) known->start = known->start_attempted;
    return status;
}

static inline mk_status retain_little(crash_run *r)
{
    mk_retention_options options = {.by_size = true, .retention_bytes = 1};
    mk_cleanup_result result;
    mk_log_info info;
    mk_status status;

    r->known.start_attempted = r->known.end;
    status = mk_log_retain(r->log, &options, &result, NULL);
    mk_cleanup_result_deinit(&result);
    if (status != MK_OK) return status;
    status = mk_log_get_info(r->log, &info, NULL);
    if (status != MK_OK) return status;
    r->known.start = r->known.start_attempted = info.log_start_offset;
    return MK_OK;
}

/* Which records in closed segments have a later one with the same key? */
static inline mk_status find_superseded(crash_run *r, uint64_t *out)
{
    const ledger *known = &r->known;
    mk_segment_info segments[ROW_MAX + 4];
    size_t count;
    int64_t end;
    mk_status status =
        mk_log_segments(r->log, segments, CRASH_LENGTH(segments), &count, NULL);

    *out = 0;
    if (status != MK_OK) return status;
    MUST(count <= CRASH_LENGTH(segments));
    end = segments[count - 1].base_offset;
    for (int64_t i = known->start; i < end; i++) {
        if ((known->gone >> i & 1) != 0 || known->values[i] == 0) continue;
        for (int64_t j = i + 1; j < known->end; j++) {
            if (known->values[j] == 0 || (known->gone >> j & 1) != 0) continue;
            if (key_of(known->values[j]) != key_of(known->values[i])) continue;
            *out |= UINT64_C(1) << i;
            break;
        }
    }
    return MK_OK;
}

static inline mk_status compact_log(crash_run *r)
{
    ledger *known = &r->known;
    mk_compact_options options;
    mk_cleanup_result result;
    mk_status status = find_superseded(r, &known->going);

    if (status != MK_OK) return status;
    mk_compact_options_default(&options);
    status = mk_log_compact(r->log, &options, &result, NULL);
    mk_cleanup_result_deinit(&result);
    if (status != MK_OK) return status;
    known->gone |= known->going;
    known->going = 0;
    return MK_OK;
}

static inline bool stays_in_rewrite(void *context, const mk_batch *batch)
{
    const ledger *known = context;

    return (known->going >> batch->base_offset & 1) == 0;
}

/* Rewrite the closed segments into two, without some of what is superseded. */
static inline mk_status rewrite_log(crash_run *r)
{
    ledger *known = &r->known;
    const rewrite_rule rule = {stays_in_rewrite, known, 2};
    mk_segment_info segments[ROW_MAX + 4];
    size_t count;
    mk_status status = find_superseded(r, &known->going);

    known->going &= UINT64_C(0xaaaaaaaaaaaaaaaa);
    if (status == MK_OK) {
        status = mk_log_segments(r->log, segments, CRASH_LENGTH(segments),
                                 &count, NULL);
    }
    if (status == MK_OK) {
        status = rewrite_segments(r->log, 0, count - 1, &rule, NULL);
    }
    if (status != MK_OK) return status;
    known->gone |= known->going;
    known->going = 0;
    return MK_OK;
}

/* Which offsets have a record? */
static inline uint64_t find_present(const ledger *known)
{
    uint64_t present = 0;

    for (int64_t i = known->start; i < known->end; i++) {
        if (known->values[i] != 0) present |= UINT64_C(1) << i;
    }
    return present & ~known->gone;
}

/* Copy the log, once. */
static inline mk_status copy_log(crash_run *r)
{
    ledger *known = &r->known;
    mk_status status;

    if (known->copied != 0 || find_present(known) == 0) return MK_OK;
    known->copying = find_present(known);
    status = mk_log_copy_to(r->log, COPY, NULL, NULL);
    if (status == MK_OK) known->copied = known->copying;
    return status;
}

static inline mk_status truncate_by(crash_run *r, int64_t count)
{
    ledger *known = &r->known;
    int64_t offset = known->end - count;
    mk_status status;

    if (offset <= known->start) offset = known->start;
    known->cut = offset;
    status = mk_log_truncate_to(r->log, offset, NULL);
    if (status != MK_OK) return status;
    for (int64_t i = offset; i < known->end; i++) {
        known->values[i] = 0;
        known->gone &= ~(UINT64_C(1) << i);
    }
    known->end = known->attempted = offset;
    if (known->durable > offset) known->durable = offset;
    return MK_OK;
}

static inline mk_status truncate_some(crash_run *r)
{
    return truncate_by(r, 2);
}

/* Into a segment that was closed. */
static inline mk_status truncate_far(crash_run *r)
{
    return truncate_by(r, 4);
}

static inline mk_status close_log(crash_run *r)
{
    mk_log *log = r->log;
    mk_status status;

    r->log = NULL;
    status = mk_log_close(log, NULL);
    if (status == MK_OK) r->known.durable = r->known.end;
    return status;
}

static inline mk_status reopen_log(crash_run *r)
{
    mk_status status = close_log(r);

    return status == MK_OK ? open_crash_log(r->env, &r->log, NULL) : status;
}

static const crash_operation crash_operations[] = {
    {"append", append_small},
    {"append two pages", append_two_pages},
    {"append with index entry", append_indexed},
    {"flush", flush_log},
    {"append and flush", append_and_flush},
    {"roll", roll_log},
    {"delete records", delete_some_records},
    {"retain", retain_little},
    {"compact", compact_log},
    {"rewrite segments", rewrite_log},
    {"truncate", truncate_some},
    {"truncate far", truncate_far},
    {"copy", copy_log},
    {"close", close_log},
    {"reopen", reopen_log},
};

#define OPERATION_COUNT CRASH_LENGTH(crash_operations)

/* Do one operation; what follows a close opens the log first. */
static inline mk_status do_operation(crash_run *r, size_t operation)
{
    mk_status status = MK_OK;

    if (r->log == NULL) status = open_crash_log(r->env, &r->log, NULL);
    if (status != MK_OK) return status;
    return crash_operations[operation].run(r);
}

/* ---- Rows ---- */

/* Make the log that all rows start from. */
static inline mk_status set_up_log(crash_run *r)
{
    mk_status status = open_crash_log(r->env, &r->log, NULL);

    for (int i = 0; i < 3 && status == MK_OK; i++) {
        status = append_small(r);
    }
    if (status == MK_OK) status = roll_log(r);
    for (int i = 0; i < 2 && status == MK_OK; i++) {
        status = append_small(r);
    }
    return status == MK_OK ? flush_log(r) : status;
}

/* Make an empty disk. `left_out` names a sync that is not done, or is NULL. */
static inline void begin_run(crash_run *r, const char *left_out)
{
    mk_sim_options options;

    memset(r, 0, sizeof *r);
    r->known.next_value = 1;
    mk_sim_options_default(&options);
    MUST(mk_sim_disk_new(NULL, &options, &r->disk, NULL) == MK_OK);
    if (left_out != NULL) {
        MUST(mk_sim_disk_leave_out(r->disk, left_out, NULL) == MK_OK);
    }
    MUST(mk_env_new_sim(r->disk, &r->env, NULL) == MK_OK);
}

/* Close the log, put all that is on the disk on stable storage, and open the
 * log again: what a row begins with adds nothing to what may be lost in it. */
static inline void settle_run(crash_run *r, const char *left_out)
{
    mk_sim_states *states = NULL;
    mk_sim_disk *settled = NULL;

    MUST(close_log(r) == MK_OK);
    MUST(mk_sim_states_open(r->disk, NULL, &states, NULL) == MK_OK);
    MUST(mk_sim_states_next(states, &settled, NULL) == MK_OK);
    mk_sim_states_close(states);
    mk_env_free(r->env);
    mk_sim_disk_free(r->disk);
    r->disk = settled;
    if (left_out != NULL) {
        MUST(mk_sim_disk_leave_out(r->disk, left_out, NULL) == MK_OK);
    }
    MUST(mk_env_new_sim(r->disk, &r->env, NULL) == MK_OK);
    MUST(open_crash_log(r->env, &r->log, NULL) == MK_OK);
}

static inline void end_run(crash_run *r)
{
    mk_log_abandon(r->log);
    mk_env_free(r->env);
    mk_sim_disk_free(r->disk);
}

/* Write the names of a row of operations. */
static inline void name_row(const size_t *row, size_t count, char *out,
                            size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s", count == 0 ? "set up" : "");

    for (size_t i = 0; i < count && used < size; i++) {
        used +=
            (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "",
                             crash_operations[row[i]].name);
    }
}

#endif /* MK_SUPPORT_CRASH_RUN_H */
