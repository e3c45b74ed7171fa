/*
 * minikafka -- an embedded log whose directory is a Kafka partition directory.
 *
 * Conventions that hold everywhere in this header:
 *
 *  - Functions return an `mk_status`; MK_OK is 0. Results go to outputs, which
 *    stand last and are set to zero or NULL on entry; `err` stands after them
 *    and may be NULL. A failed call changes nothing, unless it says so.
 *  - An *offset* numbers records, a *position* is a byte in a file, a *size*
 *    is bytes, a *count* is things. Ranges are half-open: first in, next out.
 *  - Times are milliseconds since the Unix epoch, in names that end in `_ms`.
 *  - Strings are NUL-terminated UTF-8 or file-system bytes. Keys, values and
 *    header names are bytes with a size; a NULL pointer is null, which is not
 *    the same as a size of 0.
 *  - A handle is freed by its `_close` (or `_free`) function; NULL is accepted
 *    there. Children (cursors, appenders) may outlive their log: using them
 *    after mk_log_close() gives MK_CLOSED.
 *  - A log may be used from several threads at once, a cursor from one at a
 *    time, an appender from one at a time.
 *  - Callbacks run on the thread that made the call, before any lock is taken
 *    or with all of them released. Inside one, reading the log is fine;
 *    whatever changes it returns MK_BUSY. A callback that fails returns a
 *    status, best MK_CALLBACK, and the operation ends with it, undone.
 */
#ifndef MINIKAFKA_H
#define MINIKAFKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MK_VERSION "0.1.0"

#if defined(__GNUC__)
#define MK_API               __attribute__((visibility("default")))
#define MK_NODISCARD         __attribute__((warn_unused_result))
#define MK_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define MK_API
#define MK_NODISCARD
#define MK_PRINTF(at, first)
#endif

/* ---- Statuses and errors ---- */

/* name (MK_name in C, the code in Lua), what it means. */
#define MK_STATUS_MAP(X)                                                     \
    X(OK, "done")                                                            \
    X(END, "nothing more for now; not an error")                             \
    X(OFFSET_OUT_OF_RANGE, "no such offset in this log")                     \
    X(INVALID_ARGUMENT, "an argument or a setting is out of its range")      \
    X(INVALID_RECORD, "a record that may not be stored")                     \
    X(INVALID_TIMESTAMP, "a timestamp that may not be stored")               \
    X(RECORD_TOO_LARGE, "a batch over max_message_bytes or segment_bytes")   \
    X(NOT_FOUND, "no such file, directory or name")                          \
    X(CORRUPT_BATCH, "a batch whose bytes are damaged")                      \
    X(CORRUPT_INDEX, "an index whose bytes are damaged")                     \
    X(CORRUPT_SEGMENT, "a segment whose bytes are damaged")                  \
    X(SWAP_AMBIGUOUS, "leftovers of a swap that prove nothing")              \
    X(IO, "the disk reported a failure")                                     \
    X(LOCKED, "another opener holds the directory")                          \
    X(CLOSED, "the handle is closed")                                        \
    X(CRASHED, "the handle's simulated disk lost power")                     \
    X(READ_ONLY, "the log was opened read-only")                             \
    X(BUSY, "a callback may not change the log it was called for")           \
    X(STALE_PLAN, "the log changed since the plan was made")                 \
    X(UNSUPPORTED, "not built in")                                           \
    X(OUT_OF_ORDER_SEQUENCE, "a producer's sequence number does not follow") \
    X(INVALID_PRODUCER_EPOCH, "a producer's epoch is too old")               \
    X(COORDINATOR_FENCED, "a transaction coordinator's epoch is too old")    \
    X(INVALID_TXN_STATE, "not in the state that this step needs")            \
    X(NO_MEMORY, "out of memory")                                            \
    X(CALLBACK, "a callback failed")

typedef enum mk_status {
#define X(name, text) MK_##name,
    MK_STATUS_MAP(X)
#undef X
        MK_STATUS_COUNT
} mk_status;

#define MK_FOUND_MAX 8

/* One of the things that SWAP_AMBIGUOUS could not choose among. */
typedef struct mk_found {
    char path[512];
    const char *what; /* A few words, such as "damaged"; valid for ever. */
    const char *note; /* What the note in it says, or NULL without one. */
} mk_found;

/* What failed, in full. Members that do not apply are -1, 0 or "". */
typedef struct mk_error {
    mk_status status;
    int os_errno;             /* An errno value; 0 when the disk had no part. */
    int64_t offset;           /* The record or batch concerned. */
    int64_t position;         /* The byte in `path` concerned. */
    int64_t record_index;     /* The record of an append, from 0. */
    int64_t requested;        /* OFFSET_OUT_OF_RANGE: what was asked for, */
    int64_t log_start_offset; /* ... the first readable offset, */
    int64_t log_end_offset;   /* ... and the end of the log. */
    char path[512];           /* The file or directory concerned. */
    char message[512];        /* One readable sentence. */
    size_t found_count;       /* SWAP_AMBIGUOUS: how many things were found, */
    mk_found found[MK_FOUND_MAX]; /* ... and what they are. */
} mk_error;

/* Return the status's name, "OFFSET_OUT_OF_RANGE", as Lua has it in `code`. */
MK_API const char *mk_status_name(mk_status status);

/* Return a phrase that says what the status means. */
MK_API const char *mk_status_text(mk_status status);

/* Return the name of an errno value, "ENOSPC", or "E<number>" if unknown;
 * valid for ever. */
MK_API const char *mk_errno_name(int os_errno);

/* ---- Clocks ---- */

/* Where times come from. `now` fills `*now_ms` or fails; `context` is its own.
 * A clock without `now` stands for the log's own clock. */
typedef struct mk_clock {
    mk_status (*now)(void *context, int64_t *now_ms, mk_error *err);
    void *context; /* Borrowed. */
} mk_clock;

/* A clock that stands still until its owner sets `now_ms`. */
typedef struct mk_manual_clock {
    int64_t now_ms;
} mk_manual_clock;

/* Return the clock face of `manual`, which must outlive its use. */
MK_API mk_clock mk_clock_manual(mk_manual_clock *manual);

/* Return the system's real-time clock. */
MK_API mk_clock mk_clock_system(void);

/* ---- Environments: heap, disk and clock of a log ---- */

typedef struct mk_env mk_env; /* Opaque: one POSIX or simulated machine. */

/* Resize a block as realloc() does; `size` 0 frees it and returns NULL. The
 * function may be called from several threads. */
typedef struct mk_heap {
    void *(*resize)(void *context, void *block, size_t size);
    void *context; /* Borrowed. */
} mk_heap;

/* Make the real machine: POSIX files, the system's clock. `heap` may be NULL
 * for malloc(). Logs hold a reference, so it may be freed before they close.
 * Errors: NO_MEMORY. */
MK_API MK_NODISCARD mk_status mk_env_new_posix(const mk_heap *heap,
                                               mk_env **out, mk_error *err);
MK_API void mk_env_free(mk_env *env);

/* ---- Settings ---- */

typedef enum mk_cleanup_policy {
    MK_POLICY_DELETE = 1,
    MK_POLICY_COMPACT = 2,
} mk_cleanup_policy;

typedef enum mk_codec {
    MK_CODEC_NONE,
    MK_CODEC_GZIP,
    MK_CODEC_SNAPPY,
    MK_CODEC_LZ4,
    MK_CODEC_ZSTD,
    MK_CODEC_PRODUCER, /* `compression_type` alone: as the append says. */
} mk_codec;

/* Kafka's topic settings under Kafka's names, dots turned to underscores.
 * Defaults are Kafka's, but for `retention_ms` (-1) and
 * `message_timestamp_after_max_ms` (no limit). INT64_MAX is "no limit". */
typedef struct mk_config {
    int64_t segment_bytes;        /* 14..INT32_MAX, default 1 GiB. */
    int64_t segment_ms;           /* >= 1, default 7 days. */
    int64_t segment_jitter_ms;    /* >= 0, default 0. */
    int64_t segment_index_bytes;  /* 12..INT32_MAX, default 10 MiB. */
    int64_t index_interval_bytes; /* 0..INT32_MAX, default 4096. */
    int64_t flush_messages;       /* >= 1, default none. */
    int64_t flush_ms;             /* >= 0, default none. */
    int64_t retention_bytes;      /* Negative: no limit; default -1. */
    int64_t retention_ms;         /* -1: no limit; default -1. */
    int64_t max_message_bytes;    /* 0..INT32_MAX, default 1048588. */
    int64_t max_decompressed_message_bytes;  /* 1..2147483639, the default. */
    int64_t delete_retention_ms;             /* >= 0, default 1 day. */
    int64_t min_compaction_lag_ms;           /* 0..max_compaction_lag_ms. */
    int64_t max_compaction_lag_ms;           /* >= 1, default none. */
    double min_cleanable_dirty_ratio;        /* 0..1, default 0.5. */
    int64_t file_delete_delay_ms;            /* >= 0, default 60000. */
    int64_t message_timestamp_before_max_ms; /* >= 0, default none. */
    int64_t message_timestamp_after_max_ms;  /* >= 0, default none. */
    int64_t producer_id_expiration_ms;       /* >= 1, default 1 day. */
    int64_t min_insync_replicas;             /* >= 1, default 1. */
    int64_t compression_gzip_level;          /* -1, 1..9; default -1. */
    int64_t compression_lz4_level;           /* 1..17; default 9. */
    int64_t compression_zstd_level;          /* -131072..22; default 3. */
    int64_t cleanup_policy;   /* mk_cleanup_policy bits; default DELETE. */
    int64_t compression_type; /* mk_codec; default PRODUCER. */
    int64_t
        message_timestamp_type; /* 0 CreateTime (default), 1 LogAppendTime. */
    bool preallocate;           /* Default false. */
} mk_config;

typedef enum mk_setting_type {
    MK_SETTING_INTEGER, /* int64_t, `minimum`..`maximum`. */
    MK_SETTING_NUMBER,  /* double, 0..1. */
    MK_SETTING_BOOLEAN,
    MK_SETTING_WORD,  /* One of `words`. */
    MK_SETTING_WORDS, /* A set of `words`, joined by commas. */
} mk_setting_type;

/* One line of the table of settings. */
typedef struct mk_setting {
    const char *name;
    mk_setting_type type;
    size_t member; /* Its place in mk_config. */
    int64_t minimum, maximum;
    const char *const *words; /* NULL-terminated, or NULL. */
} mk_setting;

/* A setting's value; the member that its type names counts. */
typedef struct mk_setting_value {
    mk_setting_type type;
    int64_t integer;
    double number;
    bool boolean;
    char text[64];
} mk_setting_value;

/* Return the table of settings, sorted by name, and its length. */
MK_API const mk_setting *mk_settings(size_t *count);

MK_API void mk_config_default(mk_config *out);

/* Give the setting `name` a value, checking its type and its range. Rules that
 * join several settings are checked when the configuration is used.
 * Errors: INVALID_ARGUMENT, also for an unknown name. */
MK_API MK_NODISCARD mk_status mk_config_set(mk_config *config, const char *name,
                                            const mk_setting_value *value,
                                            mk_error *err);

/* Errors: INVALID_ARGUMENT for an unknown name. */
MK_API MK_NODISCARD mk_status mk_config_get(const mk_config *config,
                                            const char *name,
                                            mk_setting_value *out,
                                            mk_error *err);

/* ---- Logs ---- */

typedef struct mk_log mk_log; /* Opaque: one open partition directory. */

/* May a writer's files be mapped into memory? Should somebody else shorten one,
 * that is CORRUPT_SEGMENT as it is without: with the first mapping, a handler
 * of SIGBUS is installed, which passes on what is not about them. It is never
 * taken away, so a shared object that holds this library must not be unloaded
 * then (as by RTLD_NODELETE, which the Lua module sees to itself). */
typedef enum mk_mapping {
    MK_MAPPED_AUTO, /* For reading; and for writing after many small appends in
                       a row. */
    MK_MAPPED_NEVER,
    MK_MAPPED_ALWAYS, /* For all small appends, too. */
} mk_mapping;

/* Told how far a long recovery is, in bytes. */
typedef struct mk_progress {
    mk_status (*report)(void *context, int64_t done, int64_t total,
                        mk_error *err);
    void *context; /* Borrowed. */
} mk_progress;

typedef struct mk_open_options {
    mk_config config;
    mk_env *env;          /* NULL: a POSIX machine of its own. */
    mk_clock clock;       /* Left out: the environment's. */
    mk_progress progress; /* May be left out. */
    mk_mapping mapped;
    size_t max_open_files; /* Descriptors kept for segments; default 16. */
    bool read_only;        /* Change nothing, lock nothing. */
    bool create;           /* Make what is missing; default true. */
} mk_open_options;

MK_API void mk_open_options_default(mk_open_options *out);

/*
 * Open the log in `directory`, with recovery where its last holder died.
 *
 * On success the caller owns `*out` and releases it with mk_log_close().
 * Errors: NOT_FOUND (read-only or not `create`), LOCKED, INVALID_ARGUMENT,
 * CORRUPT_SEGMENT (a closed segment that recovery had to check),
 * SWAP_AMBIGUOUS, IO, NO_MEMORY, CALLBACK.
 */
MK_API MK_NODISCARD mk_status mk_log_open(const char *directory,
                                          const mk_open_options *options,
                                          mk_log **out, mk_error *err);

/* Close the log: flush it, write the marks of a clean end, free the handle
 * whatever the status. Errors: IO. */
MK_API mk_status mk_log_close(mk_log *log, mk_error *err);

/* Free the handle without flushing or marking anything, as a death would leave
 * it. For finalizers. */
MK_API void mk_log_abandon(mk_log *log);

/* Has mk_log_close() been called on it from within a callback? */
MK_API bool mk_log_is_closed(const mk_log *log);

typedef struct mk_log_info {
    int64_t log_start_offset;   /* First readable offset. */
    int64_t log_end_offset;     /* Next offset to be given. */
    int64_t last_stable_offset; /* Where open transactions begin. */
    int64_t high_watermark;
    int64_t recovery_point; /* Below it all is on stable storage. */
    int64_t size_bytes;     /* Logs and indexes of all segments. */
    size_t segment_count;   /* The active one included. */
    bool read_only;
} mk_log_info;

MK_API MK_NODISCARD mk_status mk_log_get_info(mk_log *log, mk_log_info *out,
                                              mk_error *err);

/* As opened, made absolute; valid as long as the log. */
MK_API const char *mk_log_directory(const mk_log *log);

/* The settings in force. */
MK_API void mk_log_get_config(mk_log *log, mk_config *out);

/* The log's own clock. */
MK_API mk_clock mk_log_clock(const mk_log *log);

typedef struct mk_segment_info {
    int64_t base_offset;
    int64_t next_offset;      /* End of its last batch; the base when empty. */
    int64_t log_bytes;        /* The `.log` file, as far as it is in use. */
    int64_t index_bytes;      /* All its index files. */
    int64_t max_timestamp_ms; /* -1 without records. */
} mk_segment_info;

/* Copy what is known of the first `capacity` segments, oldest first, the
 * active one last, and tell how many there are. */
MK_API MK_NODISCARD mk_status mk_log_segments(mk_log *log,
                                              mk_segment_info *array,
                                              size_t capacity, size_t *count,
                                              mk_error *err);

/* Write the name of the `.log` file with that base offset. */
MK_API void mk_log_segment_path(const mk_log *log, int64_t base_offset,
                                char *out, size_t out_size);

typedef struct mk_log_stats {
    mk_log_info info;
    int64_t appended_batches, appended_records; /* Since opening. */
    int64_t rolls, flushes, syncs;
    int64_t recovered_bytes; /* Read by the recovery at opening. */
    int64_t truncated_bytes; /* Cut off a torn tail at opening. */
    int64_t heals;           /* How often it refused changes, and went on. */
    int64_t lost_offsets;    /* Acknowledged, not flushed, and not there any
                                more when it healed. */
    /* What was on stable storage once and was not there at opening; -1: no such
     * loss is known. */
    int64_t lost_from_offset, lost_to_offset;
    bool refusing;     /* It refuses changes now. */
    bool ends_early;   /* It is only read, and what follows its end is not part
                          of it, since something is damaged or missing. */
    size_t open_files; /* Descriptors held for segments. */
    size_t heap_bytes; /* Index entries and buffers held. */
} mk_log_stats;

MK_API MK_NODISCARD mk_status mk_log_get_stats(mk_log *log, mk_log_stats *out,
                                               mk_error *err);

/* ---- Appending ---- */

#define MK_TIMESTAMP_NOW  INT64_MIN /* In a record: the clock's time. */
#define MK_TIMESTAMP_NONE (-1)      /* In a record: it has no time. */

typedef struct mk_header {
    const void *name; /* Never NULL. */
    size_t name_size;
    const void *value; /* NULL: a null value. */
    size_t value_size;
} mk_header;

/* A record to append. All pointers are borrowed for the call. */
typedef struct mk_record {
    const void *key; /* NULL: keyless. */
    size_t key_size;
    const void *value; /* NULL: a tombstone, where there is a key. */
    size_t value_size;
    int64_t timestamp_ms; /* >= -1, or MK_TIMESTAMP_NOW. */
    int64_t offset;       /* Ignored, unless offsets are kept. */
    const mk_header *headers;
    size_t header_count;
} mk_record;

typedef struct mk_append_options {
    mk_codec compression;
    bool durable; /* On stable storage when the call returns. */
    int32_t leader_epoch;
    int64_t producer_id; /* -1: none. The rest belongs to producers. */
    int16_t producer_epoch;
    int32_t base_sequence;
    bool transactional;
    bool keep_offsets; /* Records carry offsets that only grow. */
} mk_append_options;

MK_API void mk_append_options_default(mk_append_options *out);

/* First and last offset given. */
typedef struct mk_offset_range {
    int64_t first, last;
} mk_offset_range;

/*
 * Append `count` records as one batch. What has returned survives the death of
 * the process; after mk_log_flush(), with `durable`, or with flush_messages =
 * 1, the loss of power. `options` may be NULL.
 *
 * Errors: INVALID_RECORD, INVALID_TIMESTAMP, RECORD_TOO_LARGE (all with
 * `record_index` where one record is at fault), READ_ONLY, BUSY, CLOSED, IO,
 * NO_MEMORY, UNSUPPORTED.
 */
MK_API MK_NODISCARD mk_status mk_log_append(
    mk_log *log, const mk_record *records, size_t count,
    const mk_append_options *options, mk_offset_range *out, mk_error *err);

/* Append one record as a batch of its own: the same, with nothing to set. */
MK_API MK_NODISCARD mk_status mk_log_append_one(mk_log *log,
                                                const mk_record *record,
                                                int64_t *offset, mk_error *err);

/* Start a new active segment, unless the active one is empty. */
MK_API MK_NODISCARD mk_status mk_log_roll(mk_log *log, mk_error *err);

/* Put everything appended before the call on stable storage. */
MK_API MK_NODISCARD mk_status mk_log_flush(mk_log *log, mk_error *err);

/* Use new settings from here on. Errors: INVALID_ARGUMENT, as when opening. */
MK_API MK_NODISCARD mk_status mk_log_configure(mk_log *log,
                                               const mk_config *config,
                                               mk_error *err);

typedef struct mk_appender mk_appender; /* Opaque: a batch in the making. */

typedef struct mk_appender_options {
    size_t batch_bytes; /* A batch is sent when it has so many bytes, or before
                           it outgrows them; 16384. */
    int64_t linger_ms;  /* ... or by the first call so long after its first
                           record, by the log's clock; 0: no such limit. */
    mk_codec compression;
} mk_appender_options;

MK_API void mk_appender_options_default(mk_appender_options *out);

/* Open an appender. What it buffers is not acknowledged; any other append to
 * the log sends it first. `options` may be NULL. */
MK_API MK_NODISCARD mk_status
mk_appender_open(mk_log *log, const mk_appender_options *options,
                 mk_appender **out, mk_error *err);

/* Add one record to the batch, sending the batch first where it is due. A
 * record that is refused leaves the batch as it was. */
MK_API MK_NODISCARD mk_status mk_appender_append_one(mk_appender *appender,
                                                     const mk_record *record,
                                                     mk_error *err);

/* Add records one by one; none is added if one of them is refused. When sending
 * a full batch fails in between, `record_index` is the first that was not
 * added. */
MK_API MK_NODISCARD mk_status mk_appender_append(mk_appender *appender,
                                                 const mk_record *records,
                                                 size_t count, mk_error *err);

/* Send what is buffered. `out` has the first and the last offset of all that
 * was added since the last flush, sent by now or before; -1 and -1 if there was
 * nothing. Other records may stand in between. */
MK_API MK_NODISCARD mk_status mk_appender_flush(mk_appender *appender,
                                                mk_offset_range *out,
                                                mk_error *err);

/* Send what is buffered, and free the handle whatever the status. */
MK_API mk_status mk_appender_close(mk_appender *appender, mk_error *err);

/* Free the handle; what is buffered is dropped. For finalizers. */
MK_API void mk_appender_abandon(mk_appender *appender);

/* ---- Reading ---- */

typedef enum mk_isolation {
    MK_READ_UNCOMMITTED,
    MK_READ_COMMITTED,
} mk_isolation;

#define MK_FROM_START INT64_MIN /* `from`: the log start, wherever it is. */
#define MK_TO_END     (-1)      /* `end_offset`: the log end, wherever it is. */
#define MK_NO_LIMIT   (-1)

typedef struct mk_cursor mk_cursor; /* Opaque: an offset to read on from. */

typedef struct mk_cursor_options {
    int64_t from;       /* MK_FROM_START, or in log start..log end. */
    int64_t end_offset; /* Exclusive; MK_TO_END, or cut to the log end. */
    int64_t max_records, max_bytes; /* Of one run: see mk_cursor_limit(). */
    mk_isolation isolation;
} mk_cursor_options;

MK_API void mk_cursor_options_default(mk_cursor_options *out);

/* A record as read. Its bytes are valid until the next call on the cursor. */
typedef struct mk_record_view {
    int64_t offset;
    int64_t timestamp_ms;
    const uint8_t *key; /* NULL: keyless. */
    size_t key_size;
    const uint8_t *value; /* NULL: a tombstone, where there is a key. */
    size_t value_size;
    const uint8_t *headers; /* Encoded: see mk_record_headers(). */
    size_t headers_size;
    size_t header_count;
} mk_record_view;

/* A batch as stored. */
typedef struct mk_batch_view {
    int64_t base_offset, last_offset;
    int64_t position; /* In the file of its segment. */
    int64_t segment_base_offset;
    int64_t base_timestamp_ms, max_timestamp_ms;
    int64_t producer_id;
    int32_t record_count; /* Physically there. */
    int32_t size_bytes;
    int32_t leader_epoch, base_sequence;
    int16_t producer_epoch;
    int8_t magic;
    uint32_t crc;
    mk_codec codec;
    bool control, transactional, append_time, has_delete_horizon;
} mk_batch_view;

/* Open a cursor. `options` may be NULL. Errors: OFFSET_OUT_OF_RANGE. */
MK_API MK_NODISCARD mk_status mk_cursor_open(mk_log *log,
                                             const mk_cursor_options *options,
                                             mk_cursor **out, mk_error *err);
MK_API void mk_cursor_close(mk_cursor *cursor);

/*
 * Read the next record. Control records are passed over. MK_END: the end, or a
 * limit, is reached; a later call goes on when there is more.
 *
 * Errors: OFFSET_OUT_OF_RANGE when retention has taken the cursor's place,
 * CORRUPT_BATCH and CORRUPT_SEGMENT (with `path`, `position`, `offset`),
 * CLOSED, IO, NO_MEMORY, UNSUPPORTED (a codec or format not built in).
 */
MK_API MK_NODISCARD mk_status mk_cursor_next(mk_cursor *cursor,
                                             mk_record_view *out,
                                             mk_error *err);

/* Read up to `capacity` records at once, all valid until the next call on the
 * cursor; at least one, fewer than asked for wherever that is handier. Faster
 * than one a call. MK_END and errors: as mk_cursor_next(). */
MK_API MK_NODISCARD mk_status mk_cursor_read(mk_cursor *cursor,
                                             mk_record_view *out,
                                             size_t capacity, size_t *count,
                                             mk_error *err);

/* Read the next batch's header, control batches included. The batch that holds
 * the cursor's offset comes first, whole. Errors: as mk_cursor_next(). */
MK_API MK_NODISCARD mk_status mk_cursor_next_batch(mk_cursor *cursor,
                                                   mk_batch_view *out,
                                                   mk_error *err);

/* Where the cursor reads on: after the last record given, and past gaps once
 * they are known. */
MK_API int64_t mk_cursor_next_offset(const mk_cursor *cursor);

/* Continue at `offset`. Errors: OFFSET_OUT_OF_RANGE, CLOSED. */
MK_API MK_NODISCARD mk_status mk_cursor_seek(mk_cursor *cursor, int64_t offset,
                                             mk_error *err);

/* Continue at the first record at or after `timestamp_ms`, or at the log end
 * when there is none. */
MK_API MK_NODISCARD mk_status mk_cursor_seek_time(mk_cursor *cursor,
                                                  int64_t timestamp_ms,
                                                  mk_error *err);

/* Begin a new run, which ends (MK_END) before `end_offset`, after
 * `max_records`, or before the record that would take it past `max_bytes` of
 * records as stored, uncompressed (the first is always given). MK_TO_END and
 * MK_NO_LIMIT lift a limit. */
MK_API void mk_cursor_limit(mk_cursor *cursor, int64_t end_offset,
                            int64_t max_records, int64_t max_bytes);

/* Decode `view`'s headers into `out`, which has room for view->header_count of
 * them. The bytes they name are those of the view. Errors: CORRUPT_BATCH. */
MK_API MK_NODISCARD mk_status mk_record_headers(const mk_record_view *view,
                                                mk_header *out, mk_error *err);

/* Find the lowest offset whose record's time is at or after `timestamp_ms`, by
 * the time indexes. MK_END: there is none, and the outputs are -1. */
MK_API MK_NODISCARD mk_status mk_log_offset_for_timestamp(mk_log *log,
                                                          int64_t timestamp_ms,
                                                          int64_t *offset,
                                                          int64_t *found_ms,
                                                          mk_error *err);

/* Find the lowest offset that has the greatest time. MK_END: no record. */
MK_API MK_NODISCARD mk_status mk_log_offset_of_max_timestamp(mk_log *log,
                                                             int64_t *offset,
                                                             int64_t *found_ms,
                                                             mk_error *err);

/* Wait until the log end is greater than `offset`, at most `timeout_ms` of real
 * time (0: only look). `*reached` tells which came first. */
MK_API MK_NODISCARD mk_status mk_log_wait(mk_log *log, int64_t offset,
                                          int64_t timeout_ms, bool *reached,
                                          mk_error *err);

/* Look for what is new in the directory of a read-only log. */
MK_API MK_NODISCARD mk_status mk_log_refresh(mk_log *log, mk_error *err);

/* ---- Removing ---- */

/* Make `before_offset` the log start; segments wholly below it go. At or below
 * the log start nothing happens. Errors: OFFSET_OUT_OF_RANGE beyond the end. */
MK_API MK_NODISCARD mk_status mk_log_delete_records(mk_log *log,
                                                    int64_t before_offset,
                                                    mk_error *err);

/* Cut the log's end to `offset`; a batch that holds it goes whole. Below the
 * log start the log becomes empty at `offset`. Errors: INVALID_ARGUMENT. */
MK_API MK_NODISCARD mk_status mk_log_truncate_to(mk_log *log, int64_t offset,
                                                 mk_error *err);

/* Remove closed segments by base offset: a set, in any order, that is exactly a
 * prefix of the closed ones. Errors: INVALID_ARGUMENT. */
MK_API MK_NODISCARD mk_status mk_log_delete_closed_segments(
    mk_log *log, const int64_t *base_offsets, size_t count, mk_error *err);

/* ---- Cleanup, as the chapter on retention and compaction has it ---- */

/* What a cleanup did. Arrays are base offsets, ascending. */
typedef struct mk_cleanup_result {
    int64_t *deleted; /* Segments dropped. */
    size_t deleted_count;
    int64_t *source_segments; /* Segments rewritten. */
    size_t source_count;
    int64_t *new_segments; /* Segments written. */
    size_t new_count;
    int64_t records_before, records_after; /* Of the rewritten segments, */
    int64_t bytes_before, bytes_after; /* ... control records not counted. */
    void *block;                       /* Private: what the arrays lie in. */
    mk_heap heap;
} mk_cleanup_result;

MK_API void mk_cleanup_result_deinit(mk_cleanup_result *result);

typedef struct mk_retention_options {
    mk_clock clock; /* Left out: the log's. */
    bool by_time, by_size;
    int64_t retention_ms;    /* >= 0, where by_time. */
    int64_t retention_bytes; /* > 0, where by_size. */
} mk_retention_options;

/*
 * Drop closed segments, oldest first: those whose greatest time is less than
 * now - retention_ms, up to the first that is not; then more of them, until
 * what is left (all files of all segments, the active one too) is no larger
 * than retention_bytes. Errors: INVALID_ARGUMENT and those of changing a log.
 */
MK_API MK_NODISCARD mk_status mk_log_retain(mk_log *log,
                                            const mk_retention_options *options,
                                            mk_cleanup_result *out,
                                            mk_error *err);

typedef struct mk_compact_options {
    mk_clock clock;              /* Left out: the log's. */
    int64_t delete_retention_ms; /* -1: the log's setting. */
    /* Called once the replacement is complete and synced, before it takes the
     * place of the log's directory. A failure leaves the log as it was. */
    mk_status (*before_swap)(void *context, mk_error *err);
    void *context; /* Borrowed. */
} mk_compact_options;

MK_API void mk_compact_options_default(mk_compact_options *out);

/*
 * Rewrite all closed segments into one at the log start: of each key only the
 * record with the greatest offset in the whole log (the active segment
 * included) stays, a tombstone only until its age is greater than
 * delete_retention_ms; keyless records and control batches stay. Offsets,
 * times, headers and the ranges of batches stay as they are. Published by
 * swapping directories. Errors: INVALID_ARGUMENT, CORRUPT_SEGMENT, UNSUPPORTED
 * (transactions, codecs), CALLBACK and those of changing a log.
 */
MK_API MK_NODISCARD mk_status mk_log_compact(mk_log *log,
                                             const mk_compact_options *options,
                                             mk_cleanup_result *out,
                                             mk_error *err);

/* ---- Looking, mending, copying ---- */

/* name (MK_FINDING_name in C, the code in Lua), is it damage or only worth a
 * note, what it means. An index that is wrong is damage only if the log would
 * not notice: one that is not what the log knows of it is made anew when it is
 * used. */
#define MK_FINDING_MAP(X)                                                     \
    X(CORRUPT_BATCH, true, "bytes that are no sound batch")                   \
    X(OFFSET_GAP, true, "offsets are missing where none were taken out")      \
    X(SEGMENTS_OVERLAP, true, "a segment reaches into the next one")          \
    X(WRONG_TIMESTAMP, true, "a record is newer than its batch says")         \
    X(CORRUPT_INDEX, true, "an index entry does not agree with the log")      \
    X(FILE_MISSING, true, "the log of a segment is not there")                \
    X(FILE_TOO_SHORT, true, "a log ends before what is known of it")          \
    X(FILE_TOO_LONG, true, "a closed log goes on behind what is known of it") \
    X(STATE_DAMAGED, true, "the state file cannot be read")                   \
    X(STATE_DIFFERS, true, "what is known of a segment is not what it holds") \
    X(STRANGE_SEGMENT, true, "a segment that is not part of the log")         \
    X(INDEX_MISSING, false,                                                   \
      "an index is not there: it is made anew when used")                     \
    X(LEFTOVER_FILE, false, "a step that was cut short left this file")       \
    X(STRANGE_FILE, false, "a file that is not the log's")                    \
    X(UNREAD_FORMAT, false, "batches whose records cannot be read here")

typedef enum mk_finding_code {
#define X(name, damage, text) MK_FINDING_##name,
    MK_FINDING_MAP(X)
#undef X
        MK_FINDING_COUNT
} mk_finding_code;

/* Something that is not as it should be. */
typedef struct mk_finding {
    mk_finding_code code;
    bool is_damage;   /* Else only worth a note. */
    int64_t position; /* In the file at `path`; -1: all of it. */
    int64_t offset;   /* Of the record or batch concerned, or -1. */
    char path[512];
    char message[256]; /* One readable sentence. */
} mk_finding;

typedef struct mk_findings {
    mk_finding *array;
    size_t count;
    size_t capacity; /* Private. */
    mk_heap heap;
} mk_findings;

/* Return the code's name, "CORRUPT_BATCH", and a phrase that says what it
 * means. */
MK_API const char *mk_finding_name(mk_finding_code code);
MK_API const char *mk_finding_text(mk_finding_code code);

MK_API void mk_findings_deinit(mk_findings *findings);

/*
 * Read all of the log and check every checksum, every order, every record and
 * every index entry, the state file and the names in the directory. Nothing is
 * changed; appends and cleanups may go on. What is found is no error: `out` has
 * it, oldest segment first, and is empty when all is well. The `progress`, in
 * bytes, may be NULL. Errors: CLOSED, CRASHED, IO, NO_MEMORY, CALLBACK.
 */
MK_API MK_NODISCARD mk_status mk_log_verify(mk_log *log,
                                            const mk_progress *progress,
                                            mk_findings *out, mk_error *err);

/* name (MK_REPAIR_name in C, a word in Lua), word, what is done. */
#define MK_REPAIR_MAP(X)                                                     \
    X(USE_DIRECTORY, "use", "a directory takes the place of the log's")      \
    X(MOVE_ASIDE, "quarantine", "it is moved to the quarantine directory")   \
    X(RENAME, "rename", "a file that was left half-way gets its name")       \
    X(REWRITE, "rewrite", "what can be read of it is written anew")          \
    X(REBUILD_INDEX, "rebuild", "both indexes of a segment are made anew")   \
    X(BEGIN_SEGMENT, "begin", "an empty segment begins where the log ended") \
    X(WRITE_STATE, "state", "the state is written anew")

typedef enum mk_repair_action {
#define X(name, word, text) MK_REPAIR_##name,
    MK_REPAIR_MAP(X)
#undef X
        MK_REPAIR_COUNT
} mk_repair_action;

/* Return the action's word. */
MK_API const char *mk_repair_word(mk_repair_action action);

typedef struct mk_repair_step {
    mk_repair_action action;
    char path[512];    /* What it is done to, */
    char to[512];      /* ... and what becomes of it; "" or a path. */
    int64_t lost_from; /* Offsets of which nothing can be read, or -1; */
    int64_t lost_to;   /* ... up to this one, which is not among them. */
    char reason[256];  /* One readable sentence. */
} mk_repair_step;

typedef struct mk_repair_plan {
    mk_repair_step *steps; /* In the order in which they are done. */
    size_t count;
    size_t capacity;      /* Private. */
    char quarantine[512]; /* Where files are moved to; "" if none is. */
    bool applied;
    mk_heap heap;
} mk_repair_plan;

typedef struct mk_repair_options {
    mk_env *env; /* NULL: a POSIX machine of its own. */
    bool apply;  /* Do it; else only the plan is made. Default false. */
    mk_progress progress; /* In bytes read; may be left out. */
} mk_repair_options;

MK_API void mk_repair_options_default(mk_repair_options *out);
MK_API void mk_repair_plan_deinit(mk_repair_plan *plan);

/*
 * Find out what has to be done so that the log in `directory` opens with all
 * that can be read of it, and with `apply` do it. Nothing is unlinked: what is
 * taken out goes to a directory `minikafka.quarantine.<number>` in the log's.
 * The log start does not go back, and no offset that was on stable storage is
 * given again. A plan without steps: there is nothing to mend. Cut short, the
 * rest is done by the next repair.
 *
 * `options` may be NULL. Errors: NOT_FOUND, LOCKED (somebody writes to it),
 * UNSUPPORTED (old formats), IO, NO_MEMORY, CALLBACK.
 */
MK_API MK_NODISCARD mk_status mk_repair(const char *directory,
                                        const mk_repair_options *options,
                                        mk_repair_plan *out, mk_error *err);

/*
 * Make a copy of the log at `directory`, on the log's own disk, while the log
 * goes on: the log as it is at some moment of the call. Sealed segments are
 * hard-linked where the disk can, the last one is copied up to its end; either
 * log may then be changed without the other. All of the copy is on stable
 * storage when the call returns, and nothing of it has that name before.
 *
 * `directory` must be missing or an empty directory; parents are made. The
 * `progress`, in bytes, may be NULL. Errors: INVALID_ARGUMENT (something else
 * is there, or the place is inside the log, or the name is reserved), LOCKED
 * (another copy is being made there), CORRUPT_SEGMENT (a file is shorter than
 * it was), CLOSED, CRASHED, IO, NO_MEMORY, CALLBACK; there is no copy then.
 */
MK_API MK_NODISCARD mk_status mk_log_copy_to(mk_log *log, const char *directory,
                                             const mk_progress *progress,
                                             mk_error *err);

#ifdef __cplusplus
}
#endif

#endif /* MINIKAFKA_H */
