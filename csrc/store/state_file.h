/*
 * state_file -- `minikafka.state`: what a log knows about itself beyond the
 * files of its segments.
 *
 * Kafka keeps such facts in its data directory; a lone partition has none, so
 * they stand here. Each carries what proves it, and is believed only then: see
 * log/recovery.
 */
#ifndef MK_STORE_STATE_FILE_H
#define MK_STORE_STATE_FILE_H

#include "os/vfs.h"

/* What was known of a segment when the state was written. */
typedef struct mk_segment_facts {
    int64_t base_offset;
    int64_t next_offset;
    int64_t log_bytes; /* Proof: the file's size. */
    int64_t max_timestamp_ms;
    int64_t max_timestamp_offset; /* Last offset of the first batch with it. */
    int64_t first_timestamp_ms;   /* Greatest of the first batch; -1: none. */
    int64_t offset_entries;
    int64_t time_entries;
    uint32_t index_checksum; /* Of both index files. */
} mk_segment_facts;

/* Do both say the same of the log, whatever they say of its indexes? */
bool mk_segment_facts_same_log(const mk_segment_facts *a,
                               const mk_segment_facts *b);

/* ... and of these, too? */
bool mk_segment_facts_equal(const mk_segment_facts *a,
                            const mk_segment_facts *b);

/* Everything below `offset` was on stable storage. */
typedef struct mk_recovery_point {
    int64_t offset;
    int64_t segment;        /* Base offset of the segment that holds the last */
    int64_t batch_position; /* ... batch below it, that batch's position, */
    int64_t end_position;   /* ... where it ends, */
    uint32_t checksum;      /* ... and its checksum: the proof. */
    mk_segment_facts then;  /* Of that segment up to there. */
} mk_recovery_point;

typedef struct mk_state {
    int64_t log_start_offset; /* -1 when not known. */
    int64_t dense_offset;     /* From here on only this engine has appended, so
                                 that batches follow each other without gaps. */
    int64_t end_offset;       /* Believed while the active segment is the one */
    int64_t end_segment;      /* ... with this base offset */
    int64_t end_position;     /* ... and this size. */
    mk_recovery_point recovery_point;
    bool cutting;            /* What lies beyond that end is being cut off. */
    mk_segment_facts *facts; /* Owned; ascending; of all segments, but of the
                                recovery point's up to there. */
    size_t facts_count;
    size_t facts_capacity;
    const mk_heap *heap; /* Borrowed. */
} mk_state;

void mk_state_init(mk_state *state, const mk_heap *heap);
void mk_state_deinit(mk_state *state);

/* Add facts, after all others. */
MK_NODISCARD mk_status mk_state_add(mk_state *state,
                                    const mk_segment_facts *facts,
                                    mk_error *err);

/* Return the facts of a segment, or NULL. */
const mk_segment_facts *mk_state_find(const mk_state *state,
                                      int64_t base_offset);

/* Does it tell of a segment with this base? */
static inline bool mk_state_knows(const mk_state *state, int64_t base_offset)
{
    return state->end_segment == base_offset ||
           mk_state_find(state, base_offset) != NULL;
}

/* Forget what is said of segments with bases in [first, end). */
void mk_state_forget(mk_state *state, int64_t first, int64_t end);

/* What the recovery point's segment was then is what its facts tell. */
void mk_state_find_then(mk_state *state);

/* Do both say the same? */
bool mk_state_equals(const mk_state *a, const mk_state *b);

/* Can a log be like that? A right checksum does not make numbers right. */
bool mk_state_is_plausible(const mk_state *state);

/* Read the state of `directory`. A missing or damaged file is the initial
 * state, which claims nothing. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_state_load(mk_state *state, mk_vfs *vfs,
                                     const char *directory, mk_error *err);

/* Replace the state of `directory`; with `durable`, on stable storage. */
MK_NODISCARD mk_status mk_state_store(const mk_state *state, mk_vfs *vfs,
                                      const char *directory, bool durable,
                                      mk_error *err);

/* The same, and while `*begun` is false the old state is there. */
MK_NODISCARD mk_status mk_state_replace(const mk_state *state, mk_vfs *vfs,
                                        const char *directory, bool durable,
                                        bool *begun, mk_error *err);

#endif /* MK_STORE_STATE_FILE_H */
