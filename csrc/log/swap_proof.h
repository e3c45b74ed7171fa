/*
 * swap_proof -- what the files of a directory prove about a swap of segments
 * that was cut short: the deciding half of log/leftovers.
 */
#ifndef MK_LOG_SWAP_PROOF_H
#define MK_LOG_SWAP_PROOF_H

#include "store/names.h"
#include "store/rewrite_note.h"

/* What the log of a segment turns out to hold. */
typedef struct mk_log_look {
    int64_t next_offset; /* Behind its last sound batch. */
    bool whole;          /* Sound to the end, and its indexes point into it. */
    int64_t log_bytes;   /* As far as it is sound. */
    int64_t last_batch_position;
    uint32_t last_batch_checksum;
} mk_log_look;

/* The eye that proof is gathered with, since that is pure itself. */
typedef struct mk_log_eye {
    void *context;
    mk_status (*look)(void *context, int64_t base_offset, mk_file_stage stage,
                      mk_log_look *out, mk_error *err);
} mk_log_eye;

typedef enum mk_verdict {
    MK_VERDICT_NONE,      /* No swap was going on. */
    MK_VERDICT_BACK,      /* The sources are the log. */
    MK_VERDICT_FORWARD,   /* The outputs are. */
    MK_VERDICT_AMBIGUOUS, /* Neither can be proved. */
} mk_verdict;

/* A rewritten segment that has not its final name yet. */
typedef struct mk_swap_output {
    int64_t base_offset;
    mk_file_stage stage;
} mk_swap_output;

typedef struct mk_swap_proof {
    const mk_heap *heap; /* Borrowed. */
    mk_log_eye eye;
    mk_file_name *files; /* Owned; those of segments, by offset. */
    size_t file_count;
    size_t file_capacity;
    const mk_rewrite_note *note; /* Borrowed; NULL: it says nothing. */
    mk_swap_output *outputs;     /* Owned; ascending. */
    size_t output_count;
    size_t output_capacity;
    int64_t first; /* The outputs stand for what begins in [first, end). */
    int64_t end;
    bool cleaned; /* There are `.cleaned` files of any kind, */
    bool swap;    /* ... and `.swap` files. */
    bool whole;   /* All outputs are sound. */
    bool damaged; /* One that is said to be complete is not. */
    bool twice;   /* An output stands there under both names. */
    mk_verdict verdict;
} mk_swap_proof;

/* Gather it from the names of a directory, and from the note in it, if there is
 * one, and come to a verdict. The caller releases it with
 * mk_swap_proof_deinit(), whatever the status. Errors: NO_MEMORY; those of the
 * eye. */
MK_NODISCARD mk_status mk_swap_proof_gather(mk_swap_proof *proof,
                                            const mk_heap *heap,
                                            const mk_name_list *names,
                                            const mk_rewrite_note *note,
                                            mk_log_eye eye, mk_error *err);
void mk_swap_proof_deinit(mk_swap_proof *proof);

static inline bool mk_role_is_index(mk_file_role role)
{
    return role == MK_ROLE_OFFSET_INDEX || role == MK_ROLE_TIME_INDEX ||
           role == MK_ROLE_TXN_INDEX;
}

static inline bool mk_role_is_of_segment(mk_file_role role)
{
    return role == MK_ROLE_LOG || mk_role_is_index(role);
}

/* Is this file there? */
bool mk_swap_proof_has(const mk_swap_proof *proof, mk_file_role role,
                       mk_file_stage stage, int64_t offset);

/* Is an output with this base on its way? */
bool mk_swap_proof_has_output(const mk_swap_proof *proof, int64_t base_offset);

/* Is a file at `offset` one of those that outputs stand for? */
bool mk_swap_proof_is_replaced(const mk_swap_proof *proof, mk_file_role role,
                               int64_t offset);

#endif /* MK_LOG_SWAP_PROOF_H */
