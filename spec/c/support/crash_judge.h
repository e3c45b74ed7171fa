/*
 * crash_judge -- what a survivor of a crash holds, and whether that is right.
 *
 * A survivor is opened once and told in a *summary*; since a disk decides alone
 * what is found on it, one summary serves however many ledgers it must agree
 * with. What must hold whatever the ledger is in the summary's fault:
 *
 *  - the log opens, and all that is in it is whole and can be read;
 *  - a second opening finds the same, and changes no file;
 *  - lookups by offset and by time find what a reading from the start finds;
 *  - every file there is known, and none was taken away that is not ours;
 *  - the log goes on: a record is appended at its end, and is there.
 *
 * And by the ledger:
 *
 *  - what was flushed, and not taken away on purpose, is there, and after the
 *    mere death of the process whatever append returned for;
 *  - what is there was appended, with these bytes, at this offset;
 *  - between start and end there is no gap but for what a compaction removed,
 *    and of that all is there, or nothing;
 *  - a truncation was done, or was not;
 *  - a log start that was acknowledged does not go back, and what a compaction
 *    took away does not come back once that was acknowledged.
 */
#ifndef MK_SUPPORT_CRASH_JUDGE_H
#define MK_SUPPORT_CRASH_JUDGE_H

#include "store/names.h"
#include "support/crash_run.h"

typedef struct crash_summary {
    int64_t start, end;
    uint64_t found;              /* Offsets with a record. */
    int32_t values[OFFSETS_MAX]; /* Their numbers; else 0. */
    uint64_t copy;               /* Offsets with a record in the copy. */
    char fault[512];             /* Empty: there is none. */
} crash_summary;

static inline void set_fault(crash_summary *summary, const char *fault)
{
    if (summary->fault[0] != '\0') return;
    snprintf(summary->fault, sizeof summary->fault, "%s", fault);
}

/* ---- Reading ---- */

static inline const char *note_record(crash_summary *summary,
                                      const mk_record_view *view)
{
    int32_t value = read_value(view->value, view->value_size);

    if (view->offset < 0 || view->offset >= OFFSETS_MAX) {
        return "a record where none can be";
    }
    if (value == 0) return "a record with other bytes";
    if (view->key_size != 1 || *view->key != (uint8_t)key_of(value)) {
        return "a record with another key";
    }
    if (view->timestamp_ms != time_of(value)) {
        return "a record with another time";
    }
    if (summary->found >> view->offset != 0) {
        return "records out of order";
    }
    summary->found |= UINT64_C(1) << view->offset;
    summary->values[view->offset] = value;
    return NULL;
}

/* Read an open log from its start to its end. */
static inline void read_log(mk_log *log, crash_summary *summary)
{
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log_info info;
    mk_error err = {0};
    mk_status status;

    MUST(mk_log_get_info(log, &info, NULL) == MK_OK);
    summary->start = info.log_start_offset;
    summary->end = info.log_end_offset;
    MUST(mk_cursor_open(log, NULL, &cursor, NULL) == MK_OK);
    while ((status = mk_cursor_next(cursor, &view, &err)) == MK_OK) {
        const char *fault = note_record(summary, &view);

        if (fault == NULL) continue;
        set_fault(summary, fault);
        break;
    }
    if (status != MK_OK && status != MK_END) set_fault(summary, err.message);
    mk_cursor_close(cursor);
}

/* Read the copy, where it has its name. */
static inline void read_copy(mk_env *env, crash_summary *summary)
{
    crash_summary copy = {.start = 0};
    mk_open_options options;
    mk_log *log = NULL;
    mk_error err = {0};
    mk_status status;

    mk_open_options_default(&options);
    options.env = env;
    options.read_only = true;
    status = mk_log_open(COPY, &options, &log, &err);
    if (status == MK_NOT_FOUND) return;
    if (status != MK_OK) {
        set_fault(summary, err.message);
        return;
    }
    read_log(log, &copy);
    mk_log_abandon(log);
    summary->copy = copy.found;
    if (copy.fault[0] != '\0') set_fault(summary, copy.fault);
}

/* ---- Looking closely ---- */

static inline mk_status count_change(void *context, const mk_sim_event *event,
                                     mk_error *err)
{
    int64_t *changes = context;

    (void)err;
    switch (event->operation) {
    case MK_SIM_WRITE:
        /* Who holds the lock is written at each opening. */
        if (strstr(event->path, MK_NAME_LOCK) == NULL) ++*changes;
        break;
    case MK_SIM_TRUNCATE:
    case MK_SIM_ALLOCATE:
    case MK_SIM_UTIME:
    case MK_SIM_RENAME:
    case MK_SIM_EXCHANGE:
    case MK_SIM_LINK:
    case MK_SIM_UNLINK:
    case MK_SIM_MKDIR:
    case MK_SIM_RMDIR:
        ++*changes;
        break;
    default:
        break;
    }
    return MK_OK;
}

/* Return the first offset from `offset` on that has a record, or the end. */
static inline int64_t first_from(const crash_summary *summary, int64_t offset)
{
    while (offset < summary->end && (summary->found >> offset & 1) == 0) {
        offset++;
    }
    return offset;
}

static inline const char *check_offsets(mk_log *log,
                                        const crash_summary *summary)
{
    mk_cursor *cursor = NULL;
    const char *fault = NULL;

    MUST(mk_cursor_open(log, NULL, &cursor, NULL) == MK_OK);
    for (int64_t i = summary->start; i <= summary->end; i++) {
        int64_t expected = first_from(summary, i);
        mk_record_view view;
        mk_status status;

        MUST(mk_cursor_seek(cursor, i, NULL) == MK_OK);
        status = mk_cursor_next(cursor, &view, NULL);
        if (expected == summary->end
                ? status != MK_END
                : status != MK_OK || view.offset != expected) {
            fault = "a lookup by offset finds something else";
            break;
        }
    }
    mk_cursor_close(cursor);
    return fault;
}

/* Which offset is the first with that time or a later one? -1: none. */
static inline int64_t first_at_time(const crash_summary *summary, int64_t ms)
{
    for (int64_t i = summary->start; i < summary->end; i++) {
        if ((summary->found >> i & 1) == 0) continue;
        if (time_of(summary->values[i]) >= ms) return i;
    }
    return -1;
}

static inline const char *check_times(mk_log *log, const crash_summary *summary)
{
    for (int64_t i = summary->start; i <= summary->end; i++) {
        int64_t value = i < summary->end ? summary->values[i] : 1000;
        int64_t offset;
        int64_t found_ms;
        mk_status status = mk_log_offset_for_timestamp(
            log, time_of(value) - 1, &offset, &found_ms, NULL);

        if ((status != MK_OK && status != MK_END) ||
            offset != first_at_time(summary, time_of(value) - 1)) {
            return "a lookup by time finds something else";
        }
    }
    return NULL;
}

/* Append a record, and find it. */
static inline const char *check_goes_on(mk_log *log,
                                        const crash_summary *summary)
{
    mk_record record = {.key = "k", .key_size = 1, .timestamp_ms = 1};
    mk_cursor_options options;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    int64_t offset = -1;
    const char *fault = NULL;

    record.value = "more";
    record.value_size = 4;
    if (mk_log_append_one(log, &record, &offset, NULL) != MK_OK ||
        offset != summary->end || mk_log_flush(log, NULL) != MK_OK) {
        return "nothing can be appended";
    }
    mk_cursor_options_default(&options);
    options.from = offset;
    MUST(mk_cursor_open(log, &options, &cursor, NULL) == MK_OK);
    if (mk_cursor_next(cursor, &view, NULL) != MK_OK || view.offset != offset ||
        view.value_size != 4 || memcmp(view.value, "more", 4) != 0) {
        fault = "what is appended is not found";
    }
    mk_cursor_close(cursor);
    return fault;
}

static inline bool is_known_file(const char *path)
{
    size_t size = sizeof DIRECTORY - 1;
    mk_file_name name;

    if (strcmp(path, STRANGER) == 0) return true;
    if (strncmp(path, COPY, sizeof COPY - 1) == 0) return true;
    if (strstr(path, "/minikafka.copy.c-0/") != NULL) return true;
    if (strncmp(path, DIRECTORY "/", size + 1) != 0) return false;
    name = mk_name_parse(path + size + 1);
    return name.role != MK_ROLE_UNKNOWN && name.stage == MK_STAGE_FINAL;
}

static inline const char *check_files(mk_sim_disk *disk)
{
    mk_sim_paths paths;
    const char *fault = NULL;

    MUST(mk_sim_disk_list(disk, &paths, NULL) == MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        if (!is_known_file(paths.paths[i])) fault = "a file of no use is left";
    }
    mk_sim_paths_deinit(&paths);
    return fault;
}

static inline void check_stranger(mk_sim_disk *disk, crash_summary *summary)
{
    uint8_t text[sizeof STRANGER_TEXT];
    size_t size = 0;
    mk_status status =
        mk_sim_disk_read(disk, STRANGER, 0, text, sizeof text, &size, NULL);

    if (status == MK_OK && size == sizeof STRANGER_TEXT - 1 &&
        memcmp(text, STRANGER_TEXT, size) == 0) {
        return;
    }
    set_fault(summary, "a file that is not ours is gone");
}

/* Open a disk on which a survivor was opened before. Returns how much that
 * changed. */
static inline int64_t open_again(mk_sim_disk *disk, mk_env *env, mk_log **log,
                                 mk_error *err)
{
    int64_t changes = 0;

    mk_sim_disk_trace(disk, (mk_sim_trace){count_change, &changes});
    if (open_crash_log(env, log, err) != MK_OK) *log = NULL;
    mk_sim_disk_trace(disk, (mk_sim_trace){0});
    return changes;
}

/* Look closely at it: the second opening has nothing to do. */
static inline void look_closely(mk_sim_disk *disk, mk_env *env,
                                crash_summary *summary)
{
    crash_summary again = {.start = 0};
    mk_log *log = NULL;
    mk_error err = {0};
    const char *fault = NULL;

    if (open_again(disk, env, &log, &err) > 0) {
        fault = "a second open changes files";
    }
    if (log == NULL) {
        set_fault(summary, err.message);
        return;
    }
    read_log(log, &again);
    read_copy(env, &again);
    if (fault == NULL && memcmp(&again, summary, sizeof again) != 0) {
        fault = "a second open finds something else";
    }
    if (fault == NULL) fault = check_offsets(log, summary);
    if (fault == NULL) fault = check_times(log, summary);
    if (fault == NULL) fault = check_files(disk);
    if (fault == NULL) fault = check_goes_on(log, summary);
    mk_log_abandon(log);
    if (fault != NULL) set_fault(summary, fault);
}

/* ---- Judging ---- */

static inline uint64_t offsets_between(int64_t from, int64_t to)
{
    if (from >= to) return 0;
    return (UINT64_MAX >> (64 - (to - from))) << from;
}

static inline const char *judge_bounds(const ledger *known,
                                       const crash_summary *summary,
                                       int64_t promised)
{
    if (summary->start < known->start) return "the start went back";
    if (summary->start > known->start_attempted &&
        !(summary->start == summary->end && promised <= known->start)) {
        return "the start went too far"; /* Where nothing is, it may. */
    }
    if (summary->end == known->cut) return NULL; /* It was completed. */
    if (summary->end < promised) return "the end lies below what was promised";
    if (summary->end > known->attempted) return "the end went too far";
    return NULL;
}

/* Compare a survivor with the ledger; NULL if all is well, else what is not.
 * `killed`: no power was lost, so that all that was told is promised. */
static inline const char *
judge_summary(const ledger *known, const crash_summary *summary, bool killed)
{
    int64_t promised = killed ? known->end : known->durable;
    const char *fault;
    uint64_t within;

    if (summary->fault[0] != '\0') return summary->fault;
    fault = judge_bounds(known, summary, promised);
    if (fault != NULL) return fault;
    for (int64_t i = 0; i < OFFSETS_MAX; i++) {
        if ((summary->found >> i & 1) == 0) continue;
        if (summary->values[i] != known->values[i]) {
            return "a record that was never appended there";
        }
    }
    if (summary->copy != 0 && summary->copy != known->copying) {
        return "a copy with other records";
    }
    if (summary->copy != known->copied && known->copied != 0) {
        return "a copy has lost records";
    }
    within = offsets_between(summary->start, summary->end);
    if ((summary->found & ~within) != 0) return "a record outside the log";
    if ((summary->found & known->gone) != 0) {
        return "a record that was compacted away came back";
    }
    within &= ~known->gone;
    if (summary->found == within) return NULL;
    if (summary->found == (within & ~known->going)) return NULL;
    return known->going != 0 ? "neither the old segments nor the new ones"
                             : "a gap";
}

#endif /* MK_SUPPORT_CRASH_JUDGE_H */
