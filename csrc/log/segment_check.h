/*
 * segment_check -- reading one segment in full: its log, its records, and both
 * index files against it. A step machine.
 *
 * The index files are read first, the log as it is then or later, so that no
 * entry can be ahead of the log.
 */
#ifndef MK_LOG_SEGMENT_CHECK_H
#define MK_LOG_SEGMENT_CHECK_H

#include "log/findings.h"
#include "store/batch_hunt.h"
#include "store/segment_scan.h"

/* What the log knows of the segment. */
typedef struct mk_check_facts {
    mk_segment_facts segment;
    int64_t previous_end; /* Of the segment before it; the base: none is. */
    int64_t next_base;    /* Of the segment after it; INT64_MAX: none is. */
    int64_t dense_offset; /* Gaps that reach beyond it are damage. */
    bool broken; /* More than is known of it may be there, behind damage. */
    bool last;   /* It grows: the files may go on, */
    bool indexes_lag; /* ... and its index files are not what they will be when
                         they are next written. */
} mk_check_facts;

typedef struct mk_segment_check {
    mk_findings *out; /* Borrowed. */
    mk_vfs *vfs;      /* Borrowed. */
    char path[MK_PATH_MAX];
    char index_paths[2][MK_PATH_MAX];
    mk_scratch indexes[2];
    mk_span contents[2]; /* In them. */
    bool index_is_there[2];
    mk_check_facts facts;
    mk_segment *seen; /* Owned: what was found in the log. */
    mk_offset_index offsets;
    mk_time_index times;
    size_t next_offset_entry, next_time_entry;
    bool indexes_are_known; /* They are what the log knows of them. */
    bool compare_offsets, compare_times; /* They agree so far. */
    bool gap_is_known; /* Damage stands before the next batch. */
    bool damaged, codec_met;
    mk_segment_scan scan;
    mk_batch_hunt hunt;
    bool hunting;
    int64_t damage_position;
    mk_scratch scratch;
    bool over;
} mk_segment_check;

/* Find out what is wrong with the records of a batch, which are not compressed;
 * NULL: nothing. `*greatest_ms` grows to the greatest of their times. */
const char *mk_check_records(const uint8_t *bytes, const mk_batch *batch,
                             int64_t *greatest_ms);

/* Begin with the index files of the segment whose log has this name. Errors:
 * IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_segment_check_begin(mk_segment_check *check,
                                              mk_vfs *vfs,
                                              const char *directory,
                                              mk_file_name log_name,
                                              mk_findings *out, mk_error *err);

/* Go on with its log, which is open as `file` until the check is over. */
MK_NODISCARD mk_status mk_segment_check_start(mk_segment_check *check,
                                              mk_file *file,
                                              const mk_check_facts *facts,
                                              mk_error *err);

/* Check about `budget` more bytes. `over` tells when that was all. */
MK_NODISCARD mk_status mk_segment_check_step(mk_segment_check *check,
                                             size_t budget, mk_error *err);

/* How far the log was read. */
static inline int64_t mk_segment_check_done(const mk_segment_check *check)
{
    if (check->hunting) return check->hunt.position;
    return check->seen != NULL ? check->seen->log_bytes : 0;
}

void mk_segment_check_deinit(mk_segment_check *check);

#endif /* MK_LOG_SEGMENT_CHECK_H */
