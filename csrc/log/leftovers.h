/*
 * leftovers -- what a swap of segments that did not end left in a directory,
 * and what is to become of it.
 *
 * A rewrite of closed segments (Kafka's cleaner's, or ours) writes its outputs
 * as `.cleaned`; all being complete and synced, they are renamed to `.swap`;
 * then the sources go (Kafka renames them to `.deleted`, and unlinks these a
 * minute later); then the outputs get their final names. What stands there when
 * that was cut short, and what is made of it:
 *
 *     .cleaned alone               not complete       it goes
 *     .cleaned and .swap           complete           both go; where a source
 *                                                     went already, both stay
 *                                                     and the swap is ended
 *     .swap alone                  complete           the swap is ended
 *     .swap of an index alone      all but complete   it gets its name
 *     .deleted                     superseded         it goes
 *     an index without its log     of no use          it goes
 *
 * This is Kafka's rule but for what would cost the only copy of a record. A
 * `.swap` replaces nothing unless its log is sound to the end, reaches as far
 * as its indexes say, ends within its sources, and, where these are the end of
 * the log, with them. If it is not, the sources stay; and if one of them is
 * missing, or shorter than the outputs, or `.deleted` and no other segment has
 * its range, nothing is touched: SWAP_AMBIGUOUS. Names that are not exactly of
 * the grammar are never touched.
 */
#ifndef MK_LOG_LEFTOVERS_H
#define MK_LOG_LEFTOVERS_H

#include "log/swap_proof.h"

typedef enum mk_leftovers_action {
    MK_LEFTOVERS_UNLINK,
    MK_LEFTOVERS_RENAME, /* To another stage. */
    MK_LEFTOVERS_DROP,   /* All files of a segment of the log. */
    MK_LEFTOVERS_SYNC,   /* The directory. */
} mk_leftovers_action;

typedef struct mk_leftovers_step {
    mk_leftovers_action action;
    mk_file_name file; /* UNLINK, RENAME; of DROP the offset. */
    mk_file_stage to;  /* RENAME. */
    mk_sync_name sync; /* SYNC. */
} mk_leftovers_step;

/* A segment of the log, and under which name its log stands before the steps
 * are done. */
typedef struct mk_found_segment {
    int64_t base_offset;
    mk_file_stage stage;
} mk_found_segment;

/* Of segments with bases in [from, to) nothing that was known before counts. */
typedef struct mk_rewritten {
    int64_t from;
    int64_t to;
} mk_rewritten;

typedef struct mk_leftovers {
    const mk_heap *heap; /* Borrowed. */
    mk_swap_proof proof;
    mk_leftovers_step *steps; /* Owned; to be done in this order. */
    size_t step_count;
    size_t step_capacity;
    mk_found_segment *segments; /* Owned; ascending. */
    size_t segment_count;
    size_t segment_capacity;
    mk_rewritten rewritten;
} mk_leftovers;

static inline void mk_leftovers_init(mk_leftovers *plan, const mk_heap *heap)
{
    *plan = (mk_leftovers){.heap = heap, .proof.heap = heap};
}

/* Plan what becomes of a directory with these names, and with this note, which
 * has no parts if there is none. If the verdict is AMBIGUOUS there are no
 * steps. The caller releases the plan with mk_leftovers_deinit(), whatever the
 * status. Errors: NO_MEMORY; those of the eye. */
MK_NODISCARD mk_status mk_leftovers_plan(mk_leftovers *plan,
                                         const mk_heap *heap,
                                         const mk_name_list *names,
                                         const mk_rewrite_note *note,
                                         mk_log_eye eye, mk_error *err);
void mk_leftovers_deinit(mk_leftovers *plan);

/* Add steps behind those of the plan: the files of the segment at `base_offset`
 * go; the directory is synced. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_leftovers_add_drop(mk_leftovers *plan,
                                             int64_t base_offset,
                                             mk_error *err);
MK_NODISCARD mk_status mk_leftovers_add_sync(mk_leftovers *plan,
                                             mk_sync_name sync, mk_error *err);

/* How many of the log's segments begin below `offset`? */
size_t mk_leftovers_count_below(const mk_leftovers *plan, int64_t offset);

/* Was a swap made that may have taken batches out, or may one have been? */
bool mk_leftovers_made_gaps(const mk_leftovers *plan);

/* Can the log be looked at before the plan is carried out, since no file gets
 * the name of one of its? */
bool mk_leftovers_can_wait(const mk_leftovers *plan);

/* Carry the plan out. Cut short, it leaves what leads to the same plan. */
MK_NODISCARD mk_status mk_leftovers_run(const mk_leftovers *plan, mk_vfs *vfs,
                                        const char *directory, mk_error *err);

/* Fail with SWAP_AMBIGUOUS and what was found. */
mk_status mk_leftovers_fail(const mk_leftovers *plan, const char *directory,
                            mk_error *err);

#endif /* MK_LOG_LEFTOVERS_H */
