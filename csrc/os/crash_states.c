/*
 * crash_states -- the disks that could be found after a crash, one by one.
 *
 * Profiles are gone through from the weakest on, and an image that was found
 * before is passed over: so each has the label of the weakest that allows it.
 * How a profile is gone through is told in crash_frames.c. Where memory fails,
 * nothing has moved on, and the next call tries again.
 */
#include "os/crash_states.h"

#include "base/check.h"

#include "base/poison.h"

/* ---- Life ---- */

void mk_sim_states_options_default(mk_sim_states_options *out)
{
    *out = (mk_sim_states_options){
        .profile = MK_SIM_OWN_PROFILE,
        .limit = -1,
        .exhaustive_bits = 20,
    };
}

static mk_status check_options(const mk_sim_states_options *options,
                               mk_error *err)
{
    if (options->profile > MK_SIM_OWN_PROFILE) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "profile: no such profile");
    }
    if (options->limit < -1) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "limit must not be negative, but for -1");
    }
    if (options->exhaustive_bits < 4 || options->exhaustive_bits > 26) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "exhaustive_bits must be in 4..26");
    }
    return MK_OK;
}

void mk_sim_states_close(mk_sim_states *states)
{
    mk_sim_disk *disk;
    mk_heap heap;

    if (states == NULL) return;
    disk = states->disk;
    heap = disk->media.heap;
    for (size_t i = 0; i < states->wheel_count; i++) {
        mk_sim_choice_deinit(disk, &states->wheels[i].choice);
    }
    mk_sim_forest_free(disk, states->forest);
    mk_sim_seen_deinit(&heap, &states->seen);
    mk_sim_seen_deinit(&heap, &states->forests);
    mk_release(&heap, states->wheels);
    mk_release(&heap, states->wheel_of);
    mk_release(&heap, states->renamings);
    mk_release(&heap, states->fates);
    mk_release(&heap, states->contents);
    mk_release(&heap, states->mtimes_ms);
    mk_release(&heap, states->kept_hashes);
    mk_release(&heap, states);
    mk_sim_disk_free(disk);
}

/* Allocate the arrays; the wheels and renamings are as many as there can be. */
static mk_status new_arrays(mk_sim_states *states, mk_error *err)
{
    const mk_heap *heap = &states->disk->media.heap;
    size_t nodes = states->disk->node_count;
    size_t atoms = states->disk->atom_count + 1;

    states->wheels = mk_alloc_zero(heap, nodes * sizeof *states->wheels);
    states->wheel_of = mk_alloc(heap, nodes * sizeof *states->wheel_of);
    states->renamings = mk_alloc(heap, atoms * sizeof *states->renamings);
    states->fates = mk_alloc_zero(heap, atoms * sizeof *states->fates);
    states->contents = mk_alloc(heap, nodes * sizeof *states->contents);
    states->mtimes_ms = mk_alloc(heap, nodes * sizeof *states->mtimes_ms);
    states->kept_hashes = mk_alloc(heap, nodes * sizeof *states->kept_hashes);
    if (states->wheels == NULL || states->wheel_of == NULL ||
        states->renamings == NULL || states->fates == NULL ||
        states->contents == NULL || states->mtimes_ms == NULL ||
        states->kept_hashes == NULL) {
        return mk_fail_memory(err, (nodes + atoms) * sizeof(mk_sim_wheel));
    }
    return MK_OK;
}

static mk_status find_wheels(mk_sim_states *states, mk_error *err)
{
    const mk_sim_disk *disk = states->disk;

    for (uint32_t i = 0; i < disk->node_count; i++) {
        const mk_sim_node *node = &disk->nodes[i];
        mk_sim_wheel *wheel = &states->wheels[states->wheel_count];
        mk_status status;

        states->wheel_of[i] = MK_SIM_NONE;
        if (!node->used) continue;
        states->kept_hashes[i] =
            mk_sim_image_node_hash(node->kept_content, node->kept_mtime_ms);
        status = mk_sim_choice_init(disk, i, &wheel->choice, err);
        if (status != MK_OK) return status;
        if (wheel->choice.atom_count == 0) continue;
        states->wheel_of[i] = states->wheel_count++;
    }
    return MK_OK;
}

/* Return the number of the last renaming of that name, or MK_SIM_NONE. */
static size_t find_renaming(const mk_sim_states *states,
                            const mk_sim_setting *setting)
{
    for (size_t i = states->renaming_count; i-- > 0;) {
        const mk_sim_atom *atom =
            &states->disk->atoms[states->renamings[i].atom];

        if (mk_sim_atom_changes(atom, setting->directory, setting->name)) {
            return i;
        }
    }
    return MK_SIM_NONE;
}

static void find_renamings(mk_sim_states *states)
{
    for (size_t i = 0; i < states->disk->atom_count; i++) {
        const mk_sim_atom *atom = &states->disk->atoms[i];
        mk_sim_renaming found = {i, {MK_SIM_NONE, MK_SIM_NONE}};

        if (atom->kind != MK_SIM_ATOM_NAMES) continue;
        for (size_t j = 0; j < atom->setting_count; j++) {
            found.needs[j] = find_renaming(states, &atom->settings[j]);
        }
        states->renamings[states->renaming_count++] = found;
    }
}

mk_status mk_sim_states_open(mk_sim_disk *disk,
                             const mk_sim_states_options *options,
                             mk_sim_states **out, mk_error *err)
{
    mk_sim_states_options defaults;
    mk_sim_states *states;
    mk_status status;

    *out = NULL;
    mk_sim_states_options_default(&defaults);
    if (options == NULL) options = &defaults;
    status = check_options(options, err);
    if (status != MK_OK) return status;
    states = mk_alloc_zero(&disk->media.heap, sizeof *states);
    if (states == NULL) return mk_fail_memory(err, sizeof *states);
    status = mk_sim_disk_clone(disk, &states->disk, err);
    if (status != MK_OK) {
        mk_release(&disk->media.heap, states);
        return status;
    }
    states->options = *options;
    if (options->profile == MK_SIM_OWN_PROFILE) {
        states->options.profile = disk->options.profile;
    }
    states->most = (double)(UINT64_C(1) << options->exhaustive_bits);
    states->profile = MK_SIM_KILL9;
    status = new_arrays(states, err);
    if (status == MK_OK) status = find_wheels(states, err);
    if (status != MK_OK) {
        mk_sim_states_close(states);
        return status;
    }
    find_renamings(states);
    *out = states;
    return MK_OK;
}

mk_status mk_sim_states_next(mk_sim_states *states, mk_sim_disk **out,
                             mk_error *err)
{
    const mk_heap *heap = &states->disk->media.heap;
    mk_status status;

    *out = NULL;
    while (!states->ended) {
        mk_sim_hash hash;

        status = mk_sim_states_advance(states, err);
        if (status == MK_END) {
            states->info.complete = !states->inexact;
            break;
        }
        if (status != MK_OK) return status;
        hash = mk_sim_states_hash(states);
        if (!mk_sim_seen_has(&states->seen, hash)) {
            if (states->info.given == states->options.limit) break;
            status = mk_sim_seen_prepare(heap, &states->seen, err);
            if (status == MK_OK) status = mk_sim_states_make(states, out, err);
            if (status != MK_OK) return status;
            mk_sim_seen_add(&states->seen, hash);
            states->info.given++;
        }
        states->info.looked++;
        states->turned = true;
        if (*out != NULL) return MK_OK;
    }
    states->ended = true;
    return mk_fail(err, MK_END, "there are no more states");
}

void mk_sim_states_get_info(const mk_sim_states *states,
                            mk_sim_states_info *out)
{
    *out = states->info;
}
