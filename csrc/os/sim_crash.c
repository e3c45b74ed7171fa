/* sim_crash -- losing power: what a profile allows, drawn by chance. */
#include "os/sim_crash.h"

#include "base/check.h"

#include "base/poison.h"

#define LOST  ((mk_sim_fate){.shape = MK_SIM_SHAPE_LOST})
#define WHOLE ((mk_sim_fate){.shape = MK_SIM_SHAPE_WHOLE})

/* ---- Drawing ---- */

/* True in `eighths` of eight cases. */
static bool draw_chance(uint64_t *chance, unsigned eighths)
{
    return mk_sim_random_below(chance, 8) < eighths;
}

static bool counts(const mk_sim_atom *atom, bool metadata_only)
{
    if (atom->doomed) return false;
    return !metadata_only || atom->kind != MK_SIM_ATOM_DATA;
}

size_t mk_sim_crash_count(const mk_sim_disk *disk, bool metadata_only)
{
    size_t count = 0;

    for (size_t i = 0; i < disk->atom_count; i++) {
        if (counts(&disk->atoms[i], metadata_only)) count++;
    }
    return count;
}

void mk_sim_crash_keep_first(const mk_sim_disk *disk, bool metadata_only,
                             size_t count, mk_sim_fate *fates)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (!counts(&disk->atoms[i], metadata_only)) continue;
        fates[i] = count > 0 ? WHOLE : LOST;
        if (count > 0) count--;
    }
}

static void draw_data(const mk_sim_disk *disk, unsigned eighths,
                      uint64_t *chance, mk_sim_fate *fates)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (disk->atoms[i].kind != MK_SIM_ATOM_DATA) continue;
        fates[i] = draw_chance(chance, eighths) ? WHOLE : LOST;
    }
}

/* Where a file has grown, its page is there. */
static void keep_grown(const mk_sim_disk *disk, mk_sim_fate *fates)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (!mk_sim_atom_is_growing(disk, i)) continue;
        if (fates[i + 1].shape == MK_SIM_SHAPE_WHOLE) fates[i] = WHOLE;
    }
}

static void draw_any(const mk_sim_disk *disk, unsigned eighths,
                     uint64_t *chance, mk_sim_fate *fates)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        fates[i] = draw_chance(chance, eighths) ? WHOLE : LOST;
    }
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (disk->atoms[i].kind != MK_SIM_ATOM_NAMES) continue;
        for (size_t j = 0; j < i; j++) {
            if (fates[j].shape == MK_SIM_SHAPE_LOST &&
                mk_sim_atom_shares_name(&disk->atoms[j], &disk->atoms[i])) {
                fates[i] = LOST;
            }
        }
    }
}

/* Tear a page that survives. The shapes that leave nothing whole need at least
 * two sectors, and the gap one more. */
static mk_sim_fate draw_tear(const mk_sim_disk *disk, const mk_sim_atom *atom,
                             uint64_t *chance)
{
    uint64_t sectors = mk_sim_atom_sectors(disk, atom);
    uint64_t sector = mk_sim_random_below(chance, sectors);
    mk_sim_shape shape = MK_SIM_SHAPE_NOISE;

    if (sectors > 1) {
        shape =
            (mk_sim_shape)(MK_SIM_SHAPE_HEAD + mk_sim_random_below(chance, 4));
    }
    if (shape == MK_SIM_SHAPE_HEAD || shape == MK_SIM_SHAPE_TAIL) {
        sector = 1 + mk_sim_random_below(chance, sectors - 1);
    }
    if (shape == MK_SIM_SHAPE_GAP && sectors > 2) {
        sector = 1 + mk_sim_random_below(chance, sectors - 2);
    }
    return (mk_sim_fate){.shape = (uint16_t)shape, .sector = (uint16_t)sector};
}

/* Half of the crashes tear nothing; the others a quarter of the pages. */
static void draw_tears(const mk_sim_disk *disk, uint64_t *chance,
                       mk_sim_fate *fates)
{
    if (draw_chance(chance, 4)) return;
    for (size_t i = 0; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (atom->kind != MK_SIM_ATOM_DATA || atom->doomed) continue;
        if (!draw_chance(chance, 2)) continue;
        if (fates[i].shape == MK_SIM_SHAPE_WHOLE) {
            fates[i] = draw_tear(disk, atom, chance);
        } else if (mk_sim_atom_is_growing(disk, i)) {
            fates[i].shape = MK_SIM_SHAPE_STALE;
        }
    }
}

void mk_sim_crash_draw(const mk_sim_disk *disk, mk_sim_profile profile,
                       bool tears, uint64_t *chance, mk_sim_fate *fates)
{
    static const unsigned eighths[] = {1, 4, 7};
    unsigned kept = eighths[mk_sim_random_below(chance, 3)];
    bool metadata_only = profile != MK_SIM_PREFIX;
    size_t count = mk_sim_crash_count(disk, metadata_only);

    MK_ASSERT(profile > MK_SIM_KILL9);
    for (size_t i = 0; i < disk->atom_count; i++) {
        fates[i] = LOST;
    }
    if (profile == MK_SIM_LAZY) return;
    if (profile == MK_SIM_HOSTILE) {
        draw_any(disk, kept, chance, fates);
    } else {
        if (metadata_only) draw_data(disk, kept, chance, fates);
        mk_sim_crash_keep_first(disk, metadata_only,
                                mk_sim_random_below(chance, count + 1), fates);
    }
    if (profile == MK_SIM_ORDERED) keep_grown(disk, fates);
    if (profile >= MK_SIM_WRITEBACK && tears) draw_tears(disk, chance, fates);
}

/* ---- Crashing ---- */

static void end_session(mk_sim_disk *disk, mk_sim_profile label)
{
    disk->session++;
    disk->stats.crashes++;
    disk->label = label;
    disk->labelled = true;
    mk_sim_disk_disarm(disk);
}

static void kill_processes(mk_sim_disk *disk)
{
    for (size_t i = 0; i < disk->node_count; i++) {
        disk->nodes[i].handles = 0;
        disk->nodes[i].locked = false;
    }
    mk_sim_disk_collect(disk);
}

/* What a loss of power leads to, while it is made. */
typedef struct power_loss {
    mk_sim_fate *fates; /* Owned, all of them. */
    mk_sim_forest *forest;
    mk_sim_content **contents;
    int64_t *mtimes_ms;
} power_loss;

static void drop_outcome(const mk_sim_disk *disk, power_loss *outcome)
{
    for (size_t i = 0; outcome->contents != NULL && i < disk->node_count; i++) {
        mk_sim_content_release(&disk->media, outcome->contents[i]);
    }
    mk_release(&disk->media.heap, outcome->contents);
    mk_release(&disk->media.heap, outcome->mtimes_ms);
    mk_release(&disk->media.heap, outcome->fates);
    mk_sim_forest_free(disk, outcome->forest);
}

static mk_status fill_outcome(const mk_sim_disk *disk, power_loss *outcome,
                              mk_error *err)
{
    mk_status status = MK_OK;

    for (uint32_t i = 0; i < disk->node_count && status == MK_OK; i++) {
        const mk_sim_node *node = &disk->nodes[i];

        if (outcome->forest->links[i] == 0) continue;
        outcome->mtimes_ms[i] = mk_sim_image_time(disk, i, outcome->fates);
        if (node->directory) continue;
        outcome->contents[i] = mk_sim_content_acquire(node->kept_content);
        status = mk_sim_image_apply(disk, i, outcome->fates,
                                    &outcome->contents[i], err);
    }
    return status;
}

static mk_status make_outcome(mk_sim_disk *disk, mk_sim_profile profile,
                              uint64_t *chance, power_loss *outcome,
                              mk_error *err)
{
    const mk_heap *heap = &disk->media.heap;
    mk_status status;

    outcome->fates =
        mk_alloc(heap, (disk->atom_count + 1) * sizeof *outcome->fates);
    outcome->contents =
        mk_alloc_zero(heap, disk->node_count * sizeof *outcome->contents);
    outcome->mtimes_ms =
        mk_alloc_zero(heap, disk->node_count * sizeof *outcome->mtimes_ms);
    if (outcome->fates == NULL || outcome->contents == NULL ||
        outcome->mtimes_ms == NULL) {
        return mk_fail_memory(err, disk->node_count * sizeof(void *));
    }
    mk_sim_crash_draw(disk, profile, true, chance, outcome->fates);
    status = mk_sim_forest_new(disk, outcome->fates, &outcome->forest, err);
    if (status != MK_OK) return status;
    return fill_outcome(disk, outcome, err);
}

static void replace_nodes(mk_sim_disk *disk, mk_sim_node *nodes)
{
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (disk->nodes[i].used) mk_sim_disk_drop_node(disk, i);
    }
    mk_release(&disk->media.heap, disk->nodes);
    mk_sim_disk_drop_atoms(disk);
    disk->nodes = nodes;
    disk->node_capacity = disk->node_count;
}

static mk_status lose_power(mk_sim_disk *disk, mk_sim_profile profile,
                            mk_error *err)
{
    power_loss outcome = {0};
    uint64_t chance = disk->chance;
    mk_sim_node *nodes;
    mk_status status = make_outcome(disk, profile, &chance, &outcome, err);

    if (status == MK_OK) {
        mk_sim_image image = {outcome.forest, outcome.contents,
                              outcome.mtimes_ms};

        status = mk_sim_image_nodes(disk, &image, &nodes, err);
    }
    drop_outcome(disk, &outcome);
    if (status != MK_OK) return status;
    disk->chance = chance;
    replace_nodes(disk, nodes);
    return MK_OK;
}

mk_status mk_sim_crash_now(mk_sim_disk *disk, mk_sim_profile profile,
                           mk_error *err)
{
    mk_status status = MK_OK;

    if (profile >= MK_SIM_PROFILE_COUNT) profile = disk->options.profile;
    if (profile == MK_SIM_KILL9) {
        kill_processes(disk);
    } else {
        status = lose_power(disk, profile, err);
    }
    if (status == MK_OK) end_session(disk, profile);
    return status;
}

mk_status mk_sim_disk_crash(mk_sim_disk *disk, mk_sim_profile profile,
                            mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    mk_status status;

    if (nested) {
        status = mk_fail(err, MK_BUSY, "the disk is telling an operation");
    } else {
        status = mk_sim_crash_now(disk, profile, err);
    }
    mk_sim_disk_leave(disk, nested);
    return status;
}

void mk_sim_disk_crash_at(mk_sim_disk *disk, int64_t step,
                          mk_sim_profile profile)
{
    bool nested = mk_sim_disk_enter(disk);

    disk->crash_step = step;
    disk->crash_profile = profile;
    mk_sim_disk_leave(disk, nested);
}
