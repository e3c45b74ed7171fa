/*
 * swap_decision -- which directory is the log, told from what a swap left.
 *
 * There are three: the log's own, `live`; `fresh`, what was being built or,
 * after an exchange, the old tree; `old`, the old tree where two renames make
 * the swap. docs/recovery.md has the table of all states; a spec makes it and
 * walks it.
 */
#ifndef MK_LOG_SWAP_DECISION_H
#define MK_LOG_SWAP_DECISION_H

#include "log/swap_tree.h"

typedef enum mk_swap_choice {
    MK_SWAP_USE_LIVE, /* What is there, or, where nothing is, a new log. */
    MK_SWAP_USE_OLD,  /* It gets its name back. */
    MK_SWAP_USE_NEW,  /* It is put in the place of the old one. */
    MK_SWAP_FAIL,
} mk_swap_choice;

typedef struct mk_swap_decision {
    mk_swap_choice choice;
    bool remove_old, remove_new; /* Superseded, with USE_LIVE. */
} mk_swap_decision;

typedef struct mk_swap_survey {
    mk_swap_tree live, fresh, old;
} mk_swap_survey;

/* Look at the three. Where one will be removed, what it is removed for is read
 * and checked. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_swap_survey_take(mk_swap_survey *survey, mk_log *log,
                                           mk_error *err);

/* Do both tell of the same directories in the same state? */
bool mk_swap_survey_equals(const mk_swap_survey *a, const mk_swap_survey *b);

mk_swap_decision mk_swap_decide(const mk_swap_survey *survey);

/* Return SWAP_AMBIGUOUS, which tells what was found. */
mk_status mk_swap_fail(const mk_swap_survey *survey, mk_error *err);

/* The same for a tree that stands where a swap needs the name. */
mk_status mk_swap_fail_in_way(const mk_swap_tree *tree, mk_error *err);

#endif /* MK_LOG_SWAP_DECISION_H */
