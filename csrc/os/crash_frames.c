/*
 * crash_frames -- how a profile is gone through.
 *
 * In a *frame* it is decided which names there are, and so which nodes are
 * reached; each of these that has atoms is a *wheel* which is turned through
 * its variants. All combinations of the wheels are images. Their hash is the
 * sum of parts that are known beforehand, so that only new images are made.
 *
 *     KILL9      One frame: what processes see.
 *     LAZY       One, in which nothing survives.
 *     PREFIX     One for each number of atoms that survive.
 *     ORDERED    One for each number of changes of names, sizes and times
 *     WRITEBACK  ... that survive; wheels for the pages.
 *     HOSTILE    One for each set of changes of names in which each has those
 *                of the same name before it; wheels for all the rest.
 *
 * A profile of which the frames would have too many combinations is drawn from:
 * a frame for each draw.
 *
 * The fates of the atoms are set for each frame, and again for each wheel's own
 * by whoever looks at its variants.
 */
#include "base/check.h"
#include "os/crash_states.h"
#include "os/sim_crash.h"

#include "base/poison.h"

#define DRAWS      16384u /* Of a profile that is not enumerated. */
#define EFFORT_MAX 1e8    /* Steps to find out whether it can be. */

#define LOST  ((mk_sim_fate){.shape = MK_SIM_SHAPE_LOST})
#define WHOLE ((mk_sim_fate){.shape = MK_SIM_SHAPE_WHOLE})

/* ---- Sets of renamings ---- */

static mk_sim_fate *fate_of_renaming(mk_sim_states *states, size_t i)
{
    return &states->fates[states->renamings[i].atom];
}

static bool may_survive(mk_sim_states *states, size_t i)
{
    for (size_t j = 0; j < 2; j++) {
        size_t need = states->renamings[i].needs[j];

        if (need == MK_SIM_NONE) continue;
        if (fate_of_renaming(states, need)->shape == MK_SIM_SHAPE_LOST) {
            return false;
        }
    }
    return true;
}

static void lose_renamings(mk_sim_states *states, size_t first)
{
    for (size_t i = first; i < states->renaming_count; i++) {
        *fate_of_renaming(states, i) = LOST;
    }
}

/* Go to the next set in which each renaming has what it needs, counting like a
 * binary number, the first renaming being the highest digit. False: it was the
 * last. */
static bool next_renamings(mk_sim_states *states)
{
    for (size_t i = states->renaming_count; i-- > 0;) {
        if (fate_of_renaming(states, i)->shape != MK_SIM_SHAPE_LOST) continue;
        if (!may_survive(states, i)) continue;
        *fate_of_renaming(states, i) = WHOLE;
        lose_renamings(states, i + 1);
        return true;
    }
    return false;
}

static double count_renamings(mk_sim_states *states)
{
    double count = 1;
    double effort = (double)states->renaming_count;

    lose_renamings(states, 0);
    while (count <= states->most && count * effort < EFFORT_MAX &&
           next_renamings(states)) {
        count += 1;
    }
    lose_renamings(states, 0);
    return count * effort < EFFORT_MAX ? count : states->most * 2;
}

/* ---- Beginning a profile ---- */

/* How many of a node's changes of size and time survive by the fates? */
static size_t count_metadata(const mk_sim_states *states,
                             const mk_sim_choice *choice)
{
    size_t count = 0;

    for (size_t i = 0; i < choice->atom_count; i++) {
        size_t atom = choice->atoms[i];

        if (states->disk->atoms[atom].kind == MK_SIM_ATOM_DATA) continue;
        if (states->fates[atom].shape == MK_SIM_SHAPE_WHOLE) count++;
    }
    return count;
}

/* Return how many combinations a frame of these fates has at most. */
static double bound_frame(mk_sim_states *states, mk_sim_profile profile)
{
    double bound = 1;

    for (size_t i = 0; i < states->wheel_count && bound <= states->most; i++) {
        mk_sim_choice *choice = &states->wheels[i].choice;

        bound *= mk_sim_choice_bound(states->disk, choice, profile,
                                     count_metadata(states, choice),
                                     states->options.tears);
    }
    return bound;
}

static double bound_profile(mk_sim_states *states, mk_sim_profile profile)
{
    size_t atoms = states->disk->atom_count;
    size_t metadata = mk_sim_crash_count(states->disk, true);
    double bound = 0;

    if (profile == MK_SIM_HOSTILE) {
        bound = count_renamings(states);
        return bound * bound_frame(states, profile);
    }
    if ((double)metadata * (double)atoms > EFFORT_MAX) return states->most * 2;
    for (size_t i = 0; i <= metadata && bound <= states->most; i++) {
        mk_sim_crash_keep_first(states->disk, true, i, states->fates);
        bound += bound_frame(states, profile);
    }
    return bound;
}

static void begin_profile(mk_sim_states *states)
{
    const mk_sim_disk *disk = states->disk;
    mk_sim_profile profile = states->profile;

    states->began = true;
    states->framed = false;
    states->drawn = false;
    states->frame = 0;
    if (profile >= MK_SIM_ORDERED) {
        states->drawn = bound_profile(states, profile) > states->most;
    }
    if (states->drawn) {
        states->inexact = true;
        states->frame_count = DRAWS;
    } else if (profile <= MK_SIM_LAZY) {
        states->frame_count = 1;
    } else if (profile == MK_SIM_PREFIX) {
        states->frame_count = mk_sim_crash_count(disk, false);
    } else if (profile <= MK_SIM_WRITEBACK) {
        states->frame_count = mk_sim_crash_count(disk, true) + 1;
    } else {
        states->frame_count = SIZE_MAX; /* As many as next_renamings() finds. */
        lose_renamings(states, 0);
        mk_sim_seen_clear(&states->forests);
    }
}

/* ---- Frames ---- */

static bool is_wheeled(const mk_sim_states *states)
{
    return states->profile >= MK_SIM_ORDERED && !states->drawn;
}

/* Decide about the wheel as the frame has it. */
static mk_status set_wheel(mk_sim_states *states, mk_sim_wheel *wheel,
                           mk_error *err)
{
    mk_sim_choice *choice = &wheel->choice;
    size_t metadata_count;

    wheel->fixed = !is_wheeled(states);
    if (wheel->fixed) {
        return mk_sim_choice_fix(states->disk, choice, states->fates, err);
    }
    metadata_count = count_metadata(states, choice);
    return mk_sim_choice_list(states->disk, choice, states->profile,
                              metadata_count, states->options.tears,
                              states->fates, err);
}

static mk_status set_wheels(mk_sim_states *states, mk_error *err)
{
    mk_status status = MK_OK;

    for (size_t i = 0; i < states->wheel_count && status == MK_OK; i++) {
        mk_sim_wheel *wheel = &states->wheels[i];

        wheel->at = 0;
        wheel->reached = states->forest->links[wheel->choice.node] > 0;
        if (wheel->reached) status = set_wheel(states, wheel, err);
    }
    return status;
}

static void set_base(mk_sim_states *states)
{
    const mk_sim_disk *disk = states->disk;

    states->base = (mk_sim_hash){0, 0};
    for (uint32_t i = 0; i < disk->node_count; i++) {
        const mk_sim_node *node = &disk->nodes[i];

        if (states->forest->links[i] == 0) continue;
        states->contents[i] = node->kept_content;
        states->mtimes_ms[i] = node->kept_mtime_ms;
        if (states->wheel_of[i] != MK_SIM_NONE) continue;
        states->base = mk_sim_hash_add(
            states->base,
            mk_sim_image_part_hash(states->forest, i, states->kept_hashes[i]));
    }
}

/* The frame of what processes see: nothing in it is decided. */
static mk_status set_kill9(mk_sim_states *states, mk_error *err)
{
    const mk_sim_disk *disk = states->disk;
    mk_status status = mk_sim_forest_new(disk, NULL, &states->forest, err);

    if (status != MK_OK) return status;
    states->base = (mk_sim_hash){0, 0};
    for (uint32_t i = 0; i < disk->node_count; i++) {
        const mk_sim_node *node = &disk->nodes[i];
        mk_sim_hash hash;

        if (states->forest->links[i] == 0) continue;
        states->contents[i] = node->content;
        states->mtimes_ms[i] = node->mtime_ms;
        hash = mk_sim_image_node_hash(node->content, node->mtime_ms);
        states->base = mk_sim_hash_add(
            states->base, mk_sim_image_part_hash(states->forest, i, hash));
    }
    for (size_t i = 0; i < states->wheel_count; i++) {
        states->wheels[i].reached = false;
    }
    return MK_OK;
}

/* Decide what survives, but for what the wheels decide, and the renamings of a
 * hostile frame, which are there already. */
static void set_fates(mk_sim_states *states)
{
    uint64_t chance = states->disk->chance + states->frame;

    if (states->drawn) {
        mk_sim_crash_draw(states->disk, states->profile, states->options.tears,
                          &chance, states->fates);
    } else if (states->profile == MK_SIM_LAZY) {
        mk_sim_crash_keep_first(states->disk, false, 0, states->fates);
    } else if (states->profile == MK_SIM_PREFIX) {
        mk_sim_crash_keep_first(states->disk, false, states->frame + 1,
                                states->fates);
    } else if (states->profile <= MK_SIM_WRITEBACK) {
        mk_sim_crash_keep_first(states->disk, true, states->frame,
                                states->fates);
    }
}

/* Set up the frame. `*had`: hostile frames are made by their names alone, and
 * this one, by other renamings, was there before. */
static mk_status set_frame(mk_sim_states *states, bool *had, mk_error *err)
{
    const mk_heap *heap = &states->disk->media.heap;
    bool by_names = states->profile == MK_SIM_HOSTILE && !states->drawn;
    mk_status status;

    *had = false;
    mk_sim_forest_free(states->disk, states->forest);
    states->forest = NULL;
    if (states->profile == MK_SIM_KILL9) return set_kill9(states, err);
    set_fates(states);
    status =
        mk_sim_forest_new(states->disk, states->fates, &states->forest, err);
    if (status != MK_OK) return status;
    if (by_names) {
        *had = mk_sim_seen_has(&states->forests, states->forest->hash);
        if (*had) return MK_OK;
        status = mk_sim_seen_prepare(heap, &states->forests, err);
    }
    if (status == MK_OK) status = set_wheels(states, err);
    if (status != MK_OK) return status;
    set_base(states);
    if (by_names) mk_sim_seen_add(&states->forests, states->forest->hash);
    return MK_OK;
}

/* Go on to the next frame of the profile. False: there is none. */
static bool next_frame(mk_sim_states *states)
{
    states->framed = false;
    states->frame++;
    if (states->frame >= states->frame_count) return false;
    if (states->drawn || states->profile != MK_SIM_HOSTILE) return true;
    return next_renamings(states);
}

/* ---- Turning ---- */

/* How far may the wheel be turned, while those after it stand as they do? No
 * more than one page is torn. */
static size_t end_of_wheel(const mk_sim_states *states, size_t i)
{
    const mk_sim_choice *choice = &states->wheels[i].choice;

    for (size_t j = i + 1; j < states->wheel_count; j++) {
        const mk_sim_wheel *later = &states->wheels[j];

        if (!later->reached || later->fixed) continue;
        if (later->at >= later->choice.untorn_count) {
            return choice->untorn_count;
        }
    }
    return choice->count;
}

/* Turn to the next combination, the first wheel fastest. False: it was the
 * last. */
static bool turn(mk_sim_states *states)
{
    for (size_t i = 0; i < states->wheel_count; i++) {
        mk_sim_wheel *wheel = &states->wheels[i];

        if (!wheel->reached || wheel->fixed) continue;
        if (wheel->at + 1 < end_of_wheel(states, i)) {
            wheel->at++;
            return true;
        }
        wheel->at = 0;
    }
    return false;
}

mk_sim_hash mk_sim_states_hash(const mk_sim_states *states)
{
    mk_sim_hash hash = states->base;

    for (size_t i = 0; i < states->wheel_count; i++) {
        const mk_sim_wheel *wheel = &states->wheels[i];
        const mk_sim_choice *choice = &wheel->choice;

        if (!wheel->reached) continue;
        hash = mk_sim_hash_add(
            hash, mk_sim_image_part_hash(
                      states->forest, choice->node,
                      wheel->fixed ? choice->hash
                                   : choice->variants[wheel->at].hash));
    }
    return hash;
}

mk_status mk_sim_states_make(mk_sim_states *states, mk_sim_disk **out,
                             mk_error *err)
{
    mk_sim_image image;
    mk_status status = MK_OK;

    for (size_t i = 0; i < states->wheel_count && status == MK_OK; i++) {
        mk_sim_wheel *wheel = &states->wheels[i];
        mk_sim_choice *choice = &wheel->choice;

        if (!wheel->reached) continue;
        if (!wheel->fixed) {
            status = mk_sim_choice_take(states->disk, choice, wheel->at,
                                        states->fates, err);
        }
        states->contents[choice->node] = choice->content;
        states->mtimes_ms[choice->node] = choice->mtime_ms;
    }
    if (status != MK_OK) return status;
    image = (mk_sim_image){states->forest, states->contents, states->mtimes_ms};
    return mk_sim_image_disk(states->disk, &image, states->profile, out, err);
}

mk_status mk_sim_states_advance(mk_sim_states *states, mk_error *err)
{
    mk_status status;
    bool had;

    while (states->profile <= states->options.profile) {
        if (!states->began) begin_profile(states);
        while (states->frame < states->frame_count) {
            if (states->framed) {
                if (!states->turned) return MK_OK;
                states->turned = !turn(states);
                if (!states->turned) return MK_OK;
            } else {
                status = set_frame(states, &had, err);
                if (status != MK_OK) return status;
                states->framed = true;
                states->turned = had;
                if (!had) return MK_OK;
            }
            if (!next_frame(states)) break;
        }
        states->began = false;
        states->profile++;
    }
    return MK_END;
}
