/*
 * swap_decision -- the rules.
 *
 * What each state of a swap proves:
 *
 *  - A sound live tree is the log. With the note that it was ready it has taken
 *    its place, and what stands beside it is the old tree, or what is left of
 *    it. Without, a noted new tree has not.
 *  - A missing live tree with an old one beside it: the death came between two
 *    renames. The old tree is whole. The new one is, too, if its note says that
 *    it was ready; it is taken only where the old one was damaged since.
 *  - Everything else is not made by a death. Nothing is changed then.
 */
#include "log/swap_decision.h"

#include <string.h>

#include "base/poison.h"

/* ---- Looking ---- */

static mk_status look_at_sibling(mk_swap_tree *tree, mk_log *log,
                                 mk_sibling sibling, mk_error *err)
{
    mk_status status = mk_name_sibling(tree->path, sizeof tree->path,
                                       log->directory, sibling, err);

    if (status != MK_OK) return status;
    return mk_swap_tree_look(tree, log, mk_name_last(log->directory), err);
}

/* Check what a choice would be built upon. */
static mk_status check_deeply(mk_swap_survey *survey, mk_log *log,
                              mk_error *err)
{
    mk_swap_tree *live = &survey->live;
    mk_swap_tree *fresh = &survey->fresh;
    mk_swap_tree *old = &survey->old;
    bool rivals =
        fresh->note == MK_SWAP_READY ||
        (live->note == MK_SWAP_READY &&
         (mk_swap_tree_is_there(old) || mk_swap_tree_is_there(fresh)));
    mk_status status = MK_OK;

    if (live->kind != MK_TREE_MISSING) {
        /* A reader removes nothing. */
        if (!rivals || log->read_only) return MK_OK;
        return mk_swap_tree_check(live, log, err);
    }
    status = mk_swap_tree_check(old, log, err);
    if (status != MK_OK || old->kind != MK_TREE_DAMAGED) return status;
    if (fresh->note != MK_SWAP_READY) return MK_OK;
    return mk_swap_tree_check(fresh, log, err);
}

mk_status mk_swap_survey_take(mk_swap_survey *survey, mk_log *log,
                              mk_error *err)
{
    mk_swap_tree *live = &survey->live;
    mk_status status;

    memset(survey, 0, sizeof *survey);
    memcpy(live->path, log->directory, strlen(log->directory) + 1);
    status = mk_swap_tree_look(live, log, mk_name_last(log->directory), err);
    if (status == MK_OK) {
        status = look_at_sibling(&survey->fresh, log, MK_SIBLING_NEW, err);
    }
    if (status == MK_OK) {
        status = look_at_sibling(&survey->old, log, MK_SIBLING_OLD, err);
    }
    return status == MK_OK ? check_deeply(survey, log, err) : status;
}

static bool tree_equals(const mk_swap_tree *a, const mk_swap_tree *b)
{
    return a->kind == b->kind && a->note == b->note && a->vacant == b->vacant &&
           a->inode == b->inode;
}

bool mk_swap_survey_equals(const mk_swap_survey *a, const mk_swap_survey *b)
{
    return tree_equals(&a->live, &b->live) &&
           tree_equals(&a->fresh, &b->fresh) && tree_equals(&a->old, &b->old);
}

/* ---- Deciding ---- */

/* An old tree has no note, but for that of the swap before, if its removal was
 * not stable yet when the new one began. */
static bool is_plainly_old(const mk_swap_tree *old, const mk_swap_tree *fresh)
{
    if (old->note != MK_SWAP_READY) return old->note == MK_SWAP_NONE;
    return fresh->note == MK_SWAP_READY || !mk_swap_tree_is_there(fresh);
}

static mk_swap_decision choose(mk_swap_choice choice)
{
    return (mk_swap_decision){.choice = choice};
}

/* The live tree is sound. */
static mk_swap_decision keep_live(const mk_swap_tree *live,
                                  const mk_swap_tree *fresh,
                                  const mk_swap_tree *old)
{
    bool swapped = live->note == MK_SWAP_READY;
    bool noted =
        fresh->note == MK_SWAP_BUILDING || fresh->note == MK_SWAP_READY;

    /* A swap leaves one of the two beside its new tree. */
    if (swapped && mk_swap_tree_is_there(fresh) && mk_swap_tree_is_there(old)) {
        return choose(MK_SWAP_FAIL);
    }
    /* As between two renames, but for a live tree that is of neither. */
    if (!swapped && fresh->note == MK_SWAP_READY &&
        old->kind == MK_TREE_SOUND) {
        return choose(MK_SWAP_FAIL);
    }
    return (mk_swap_decision){
        .choice = MK_SWAP_USE_LIVE,
        .remove_old = swapped && mk_swap_tree_is_there(old),
        .remove_new =
            mk_swap_tree_is_there(fresh) && (swapped || noted || fresh->vacant),
    };
}

static mk_swap_decision replace_missing(const mk_swap_tree *fresh,
                                        const mk_swap_tree *old)
{
    if (is_plainly_old(old, fresh)) {
        if (old->kind == MK_TREE_SOUND) return choose(MK_SWAP_USE_OLD);
        if (old->kind == MK_TREE_DAMAGED && fresh->kind == MK_TREE_SOUND &&
            fresh->note == MK_SWAP_READY) {
            return choose(MK_SWAP_USE_NEW);
        }
    }
    if (mk_swap_tree_holds(old) || fresh->note != MK_SWAP_NONE) {
        return choose(MK_SWAP_FAIL);
    }
    return choose(MK_SWAP_USE_LIVE);
}

/* Something stands in the log's place that is no sound log. If anything tells
 * that there was one, or that another one could be meant, nobody touches it. */
static mk_swap_decision judge_unsound(const mk_swap_tree *live,
                                      const mk_swap_tree *fresh,
                                      const mk_swap_tree *old)
{
    bool noted = live->note != MK_SWAP_NONE;
    bool company = mk_swap_tree_is_there(old) || mk_swap_tree_is_there(fresh);

    if (mk_swap_tree_holds(old) || fresh->note != MK_SWAP_NONE ||
        live->kind == MK_TREE_INCOMPLETE || (noted && company) ||
        (noted && live->kind == MK_TREE_EMPTY)) {
        return choose(MK_SWAP_FAIL);
    }
    return (mk_swap_decision){
        .choice = MK_SWAP_USE_LIVE,
        .remove_new = fresh->vacant,
    };
}

mk_swap_decision mk_swap_decide(const mk_swap_survey *survey)
{
    const mk_swap_tree *live = &survey->live;
    const mk_swap_tree *fresh = &survey->fresh;
    const mk_swap_tree *old = &survey->old;

    if (live->kind == MK_TREE_SOUND) return keep_live(live, fresh, old);
    if (live->kind == MK_TREE_MISSING) return replace_missing(fresh, old);
    return judge_unsound(live, fresh, old);
}

/* ---- Telling ---- */

static const char *kind_text(mk_tree_kind kind)
{
    switch (kind) {
    case MK_TREE_MISSING:
        return "missing";
    case MK_TREE_ALIEN:
        return "not a directory";
    case MK_TREE_EMPTY:
        return "empty";
    case MK_TREE_INCOMPLETE:
        return "incomplete";
    case MK_TREE_DAMAGED:
        return "damaged";
    case MK_TREE_SOUND:
        break;
    }
    return "a log";
}

static const char *note_text(mk_swap_phase note)
{
    switch (note) {
    case MK_SWAP_NONE:
        break;
    case MK_SWAP_BUILDING:
        return "building";
    case MK_SWAP_READY:
        return "ready";
    case MK_SWAP_STRANGE:
        return "strange";
    }
    return NULL;
}

static void add_found(const mk_swap_tree *tree, mk_error *err)
{
    mk_error_add_found(err, tree->path, kind_text(tree->kind),
                       note_text(tree->note));
}

/* What stands before and behind the word for a note. */
#define NOTED(tree)                                \
    (tree)->note != MK_SWAP_NONE ? " noted " : "", \
        (tree)->note != MK_SWAP_NONE ? note_text((tree)->note) : ""

mk_status mk_swap_fail(const mk_swap_survey *survey, mk_error *err)
{
    const mk_swap_tree *live = &survey->live;
    const mk_swap_tree *fresh = &survey->fresh;
    const mk_swap_tree *old = &survey->old;

    (void)!mk_fail_at(
        err, MK_SWAP_AMBIGUOUS, live->path, -1,
        "a swap left what does not tell the log: %.100s is %s%s%s, %.100s is "
        "%s%s%s, %.100s is %s%s%s; move the right one to the first name and "
        "the others away, then open it again",
        mk_name_last(live->path), kind_text(live->kind), NOTED(live),
        mk_name_last(fresh->path), kind_text(fresh->kind), NOTED(fresh),
        mk_name_last(old->path), kind_text(old->kind), NOTED(old));
    add_found(live, err);
    add_found(fresh, err);
    add_found(old, err);
    return MK_SWAP_AMBIGUOUS;
}

mk_status mk_swap_fail_in_way(const mk_swap_tree *tree, mk_error *err)
{
    (void)!mk_fail_at(err, MK_SWAP_AMBIGUOUS, tree->path, -1,
                      "%s stands where a swap needs the name, and is not known "
                      "to be ours; move it away",
                      tree->path);
    add_found(tree, err);
    return MK_SWAP_AMBIGUOUS;
}
