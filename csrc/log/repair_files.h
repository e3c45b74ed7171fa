/*
 * repair_files -- what becomes of the segments of a damaged directory.
 *
 * All logs are read. In ascending order each keeps what can be read of it, from
 * where the one before it ends; where two overlap the earlier one wins, unless
 * only the base offset of its last batch makes it seem so. Where
 * leftovers of a swap prove nothing, they fill the gaps between the segments.
 */
#ifndef MK_LOG_REPAIR_FILES_H
#define MK_LOG_REPAIR_FILES_H

#include "log/salvage.h"
#include "store/state_file.h"

typedef enum mk_repair_fate {
    MK_FATE_KEEP,    /* It stays as it is. */
    MK_FATE_REWRITE, /* What is wanted of it is written to `base_offset`. */
    MK_FATE_DROP,    /* Nothing of it is wanted. */
} mk_repair_fate;

/* The log of a segment, as it is found. */
typedef struct mk_repair_file {
    mk_file_name name;
    mk_salvage found;
    mk_repair_fate fate;
    int64_t first, limit;       /* Offsets that are wanted of it. */
    int64_t base_offset;        /* Of what it becomes, */
    int64_t size;               /* ... its bytes, */
    int64_t next_offset;        /* ... and its end. */
    int64_t lost_from, lost_to; /* What it should have had; -1: nothing. */
    bool bad_indexes;
} mk_repair_file;

typedef struct mk_repair_files {
    const mk_heap *heap;   /* Borrowed. */
    mk_repair_file *array; /* Owned; ascending by what they become. */
    size_t count, capacity;
    int64_t end_offset;    /* Of what can be read. */
    const mk_state *state; /* Borrowed: as it was found. */
} mk_repair_files;

void mk_repair_files_init(mk_repair_files *files, const mk_heap *heap,
                          const mk_state *state);
void mk_repair_files_deinit(mk_repair_files *files);

/* Add a log, behind all others. */
MK_NODISCARD mk_status mk_repair_files_add(mk_repair_files *files, mk_vfs *vfs,
                                           const char *directory,
                                           mk_file_name name, mk_error *err);

/* Give up last batches with a wrong base offset: there is a gap before them,
 * and the next segment begins below their end, or the state knows a lower one.
 * The same is done to files that fill gaps. */
void mk_repair_files_drop_odd(mk_repair_files *files);

/*
 * Decide what becomes of each. Of the last one a torn tail stays, for opening
 * to cut, if it is at or behind `durable_position`; unless `must_be_whole`,
 * since another one will follow. Errors: IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_repair_files_decide(
    mk_repair_files *files, mk_vfs *vfs, const char *directory,
    int64_t durable_position, bool must_be_whole, mk_error *err);

/* Let what `name` has fill the gaps between the segments, at or behind `start`;
 * the log starts there, or where the first segment does if that is negative.
 * It is moved aside all the same. */
MK_NODISCARD mk_status mk_repair_files_fill_gaps(mk_repair_files *files,
                                                 mk_vfs *vfs,
                                                 const char *directory,
                                                 mk_file_name name,
                                                 int64_t start, mk_error *err);

/* The last one that stays, or NULL. */
mk_repair_file *mk_repair_files_last(const mk_repair_files *files);

/* The path of a file as it is found. Errors: INVALID_ARGUMENT. */
MK_NODISCARD mk_status mk_repair_file_path(const mk_repair_file *file,
                                           const char *directory, char *out,
                                           size_t out_size, mk_error *err);

/* See whether the index files of a log that stays agree with it. What was known
 * of it may be NULL. */
MK_NODISCARD mk_status mk_repair_file_check_indexes(
    mk_repair_file *file, mk_vfs *vfs, const char *directory,
    const mk_segment_facts *known, mk_error *err);

#endif /* MK_LOG_REPAIR_FILES_H */
