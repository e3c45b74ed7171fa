/*
 * swap_tree -- one of the directories that a swap deals with: what it is, and
 * how it is removed.
 */
#ifndef MK_LOG_SWAP_TREE_H
#define MK_LOG_SWAP_TREE_H

#include "log/log.h"
#include "store/names.h"
#include "store/swap_manifest.h"

/* From here on it holds a log, or was to: see mk_swap_tree_holds(). */
typedef enum mk_tree_kind {
    MK_TREE_MISSING,
    MK_TREE_ALIEN,      /* Not a directory. */
    MK_TREE_EMPTY,      /* A directory without a segment and without a state. */
    MK_TREE_INCOMPLETE, /* Its note says so. */
    MK_TREE_DAMAGED,    /* Less than its own state says was stable, or a closed
                           segment whose bytes are damaged. */
    MK_TREE_SOUND,
} mk_tree_kind;

typedef struct mk_swap_tree {
    char path[MK_PATH_MAX];
    mk_tree_kind kind;
    mk_swap_phase note;
    bool vacant;    /* Nothing in it, or the beginnings of a first note. */
    uint64_t inode; /* 0 where it is missing. */
} mk_swap_tree;

/* Is a directory there? */
static inline bool mk_swap_tree_is_there(const mk_swap_tree *tree)
{
    return tree->kind >= MK_TREE_EMPTY;
}

static inline bool mk_swap_tree_holds(const mk_swap_tree *tree)
{
    return tree->kind >= MK_TREE_INCOMPLETE;
}

/*
 * Look at `tree->path`, by names and sizes alone. The note counts if it was
 * written for the directory called `live`. What goes while it is looked at
 * counts as damage. Errors: IO, NO_MEMORY.
 */
MK_NODISCARD mk_status mk_swap_tree_look(mk_swap_tree *tree, mk_log *log,
                                         const char *live, mk_error *err);

/* Read the closed segments of a tree that looks sound; it is DAMAGED if one of
 * them is. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_swap_tree_check(mk_swap_tree *tree, mk_log *log,
                                          mk_error *err);

/* Is a directory at `path`? Errors: IO. */
MK_NODISCARD mk_status mk_swap_tree_find(mk_vfs *vfs, const char *path,
                                         bool *out, mk_error *err);

/*
 * Remove a superseded tree: files of the log are unlinked, and so is whatever
 * has another name; what is not ours moves to `live`, or stays where the name
 * is taken there. The note goes last, when it is stable that the rest is gone:
 * a half-removed tree can still be told.
 */
MK_NODISCARD mk_status mk_swap_tree_remove(mk_vfs *vfs, const char *path,
                                           const char *live, mk_error *err);

#endif /* MK_LOG_SWAP_TREE_H */
