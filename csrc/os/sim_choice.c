/*
 * Most subsets of a node's atoms look like others, and are not looked at. Only
 * the last change of the size that survives matters, but for the cuts before
 * it; a page beyond that size is not seen. So each atom has a mode: it is out,
 * or in, or free to be either; and the free ones are counted through.
 */
#include "os/sim_choice.h"

#include "base/check.h"

#include "base/poison.h"

enum { OUT, IN, FREE };

#define NONE ((size_t)-1)

/* ---- Life ---- */

static bool is_of_node(const mk_sim_atom *atom, uint32_t node)
{
    return atom->node == node && atom->kind != MK_SIM_ATOM_NAMES &&
           !atom->doomed;
}

mk_status mk_sim_choice_init(const mk_sim_disk *disk, uint32_t node,
                             mk_sim_choice *choice, mk_error *err)
{
    size_t count = 0;
    size_t size;

    *choice = (mk_sim_choice){.node = node, .taken = NONE};
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (is_of_node(&disk->atoms[i], node)) count++;
    }
    size = count * (sizeof *choice->atoms + sizeof *choice->modes);
    if (count == 0) return MK_OK;
    choice->atoms = mk_alloc(&disk->media.heap, size);
    if (choice->atoms == NULL) return mk_fail_memory(err, size);
    choice->modes = (uint8_t *)(choice->atoms + count);
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (!is_of_node(&disk->atoms[i], node)) continue;
        choice->atoms[choice->atom_count++] = i;
    }
    return MK_OK;
}

static void drop_content(const mk_sim_disk *disk, mk_sim_choice *choice)
{
    mk_sim_content_release(&disk->media, choice->content);
    choice->content = NULL;
    choice->taken = NONE;
}

void mk_sim_choice_deinit(const mk_sim_disk *disk, mk_sim_choice *choice)
{
    const mk_heap *heap = &disk->media.heap;

    drop_content(disk, choice);
    mk_sim_seen_deinit(heap, &choice->seen);
    mk_release(heap, choice->variants);
    mk_release(heap, choice->atoms); /* The modes lie in its block. */
    *choice = (mk_sim_choice){0};
}

/* ---- Modes ---- */

static const mk_sim_atom *atom_at(const mk_sim_disk *disk,
                                  const mk_sim_choice *choice, size_t i)
{
    return &disk->atoms[choice->atoms[i]];
}

static bool sets_size(const mk_sim_atom *atom)
{
    return atom->kind == MK_SIM_ATOM_GROWTH || atom->kind == MK_SIM_ATOM_SIZE;
}

/* The first so many changes of size and time survive, and any pages. */
static void set_prefix_modes(const mk_sim_disk *disk, mk_sim_choice *choice,
                             bool ordered, size_t metadata_count)
{
    for (size_t i = 0; i < choice->atom_count; i++) {
        if (atom_at(disk, choice, i)->kind == MK_SIM_ATOM_DATA) {
            choice->modes[i] = FREE;
        } else {
            choice->modes[i] = metadata_count > 0 ? IN : OUT;
            if (metadata_count > 0) metadata_count--;
        }
    }
    for (size_t i = 0; ordered && i + 1 < choice->atom_count; i++) {
        if (!mk_sim_atom_is_growing(disk, choice->atoms[i])) continue;
        if (choice->modes[i + 1] == IN) choice->modes[i] = IN;
    }
}

static void set_hostile_modes(const mk_sim_disk *disk, mk_sim_choice *choice,
                              int32_t sizer)
{
    for (size_t i = 0; i < choice->atom_count; i++) {
        const mk_sim_atom *atom = atom_at(disk, choice, i);
        bool is_cut = atom->kind == MK_SIM_ATOM_SIZE && (int32_t)i < sizer;

        choice->modes[i] = OUT;
        if ((int32_t)i == sizer) choice->modes[i] = IN;
        if (atom->kind == MK_SIM_ATOM_DATA || is_cut) choice->modes[i] = FREE;
    }
}

static int64_t size_by_modes(const mk_sim_disk *disk,
                             const mk_sim_choice *choice)
{
    int64_t size = disk->nodes[choice->node].kept_content->size;

    for (size_t i = 0; i < choice->atom_count; i++) {
        if (choice->modes[i] != IN) continue;
        if (sets_size(atom_at(disk, choice, i))) {
            size = atom_at(disk, choice, i)->value;
        }
    }
    return size;
}

/* Let pages that can't be seen be out. */
static void hide_pages(const mk_sim_disk *disk, mk_sim_choice *choice)
{
    int64_t end;

    if (disk->nodes[choice->node].directory) return;
    end = size_by_modes(disk, choice);
    for (size_t i = choice->atom_count; i-- > 0;) {
        const mk_sim_atom *atom = atom_at(disk, choice, i);
        bool is_cut = atom->kind == MK_SIM_ATOM_SIZE && choice->modes[i] == IN;

        if (is_cut && atom->value < end) end = atom->value;
        if (atom->kind == MK_SIM_ATOM_DATA && atom->position >= end) {
            choice->modes[i] = OUT;
        }
    }
}

static void set_modes(const mk_sim_disk *disk, mk_sim_choice *choice,
                      int32_t sizer)
{
    if (choice->profile == MK_SIM_HOSTILE) {
        set_hostile_modes(disk, choice, sizer);
    } else {
        set_prefix_modes(disk, choice, choice->profile == MK_SIM_ORDERED,
                         choice->metadata_count);
    }
    hide_pages(disk, choice);
}

static uint32_t count_free(const mk_sim_choice *choice)
{
    uint32_t count = 0;

    for (size_t i = 0; i < choice->atom_count; i++) {
        if (choice->modes[i] == FREE) count++;
    }
    return count;
}

/* ---- Which changes of size and time ---- */

/* Return the next atom after `i` that may be the last to set the size (-1
 * stands for none, and comes first), or -2. Only hostile ones choose. */
static int32_t next_sizer(const mk_sim_disk *disk, const mk_sim_choice *choice,
                          int32_t i)
{
    if (choice->profile != MK_SIM_HOSTILE) return -2;
    for (i++; (size_t)i < choice->atom_count; i++) {
        if (sets_size(atom_at(disk, choice, (size_t)i))) return i;
    }
    return -2;
}

static int32_t next_timer(const mk_sim_disk *disk, const mk_sim_choice *choice,
                          int32_t i)
{
    if (choice->profile != MK_SIM_HOSTILE) return -2;
    for (i++; (size_t)i < choice->atom_count; i++) {
        if (atom_at(disk, choice, (size_t)i)->kind == MK_SIM_ATOM_TIME) {
            return i;
        }
    }
    return -2;
}

static int64_t time_by_modes(const mk_sim_disk *disk,
                             const mk_sim_choice *choice, int32_t timer)
{
    int64_t mtime_ms = disk->nodes[choice->node].kept_mtime_ms;

    if (timer >= 0) return atom_at(disk, choice, (size_t)timer)->value;
    for (size_t i = 0; i < choice->atom_count; i++) {
        if (choice->modes[i] != IN) continue;
        if (atom_at(disk, choice, i)->kind == MK_SIM_ATOM_TIME) {
            mtime_ms = atom_at(disk, choice, i)->value;
        }
    }
    return mtime_ms;
}

/* ---- Counting ---- */

static void set_kind(mk_sim_choice *choice, mk_sim_profile profile,
                     size_t metadata_count, bool tears)
{
    choice->listed = false;
    choice->profile = profile;
    choice->metadata_count = profile == MK_SIM_HOSTILE ? 0 : metadata_count;
    choice->tears = tears && profile != MK_SIM_ORDERED;
}

double mk_sim_choice_bound(const mk_sim_disk *disk, mk_sim_choice *choice,
                           mk_sim_profile profile, size_t metadata_count,
                           bool tears)
{
    double contents = 0;
    double times = 0;
    double pages = 0;

    set_kind(choice, profile, metadata_count, tears);
    for (int32_t i = -1; i >= -1; i = next_sizer(disk, choice, i)) {
        double some = 1;

        set_modes(disk, choice, i);
        for (uint32_t k = count_free(choice); k > 0 && some < 1e30; k--) {
            some *= 2;
        }
        contents += some;
    }
    for (int32_t i = -1; i >= -1; i = next_timer(disk, choice, i)) {
        times += 1;
    }
    for (size_t i = 0; i < choice->atom_count && choice->tears; i++) {
        if (atom_at(disk, choice, i)->kind == MK_SIM_ATOM_DATA) pages += 1;
    }
    return contents * times * (1 + 4 * pages);
}

/* ---- Listing ---- */

/* Give the node's atoms their fates in this variant, by the modes. */
static void set_fates(const mk_sim_disk *disk, const mk_sim_choice *choice,
                      const mk_sim_variant *variant, mk_sim_fate *fates)
{
    uint32_t mask = variant->mask;

    (void)disk;
    for (size_t i = 0; i < choice->atom_count; i++) {
        bool survives = choice->modes[i] == IN;

        if (choice->modes[i] == FREE) {
            survives = (mask & 1) != 0;
            mask >>= 1;
        }
        fates[choice->atoms[i]] = (mk_sim_fate){
            .shape = survives ? MK_SIM_SHAPE_WHOLE : MK_SIM_SHAPE_LOST,
        };
    }
    if (variant->torn >= 0) {
        fates[choice->atoms[variant->torn]] = variant->fate;
    }
}

/* Make the choice's content what the fates say. */
static mk_status compose(const mk_sim_disk *disk, mk_sim_choice *choice,
                         const mk_sim_fate *fates, mk_error *err)
{
    const mk_sim_node *node = &disk->nodes[choice->node];

    drop_content(disk, choice);
    if (node->directory) return MK_OK;
    choice->content = mk_sim_content_acquire(node->kept_content);
    return mk_sim_image_apply(disk, choice->node, fates, &choice->content, err);
}

static mk_status add_variant(const mk_sim_disk *disk, mk_sim_choice *choice,
                             const mk_sim_variant *variant, mk_error *err)
{
    void *array = choice->variants;
    mk_status status;

    if (mk_sim_seen_has(&choice->seen, variant->hash)) return MK_OK;
    status = mk_sim_seen_prepare(&disk->media.heap, &choice->seen, err);
    if (status != MK_OK) return status;
    status = mk_grow(&disk->media.heap, &array, &choice->capacity,
                     choice->count + 1, sizeof *choice->variants, err);
    choice->variants = array;
    if (status != MK_OK) return status;
    mk_sim_seen_add(&choice->seen, variant->hash);
    choice->variants[choice->count++] = *variant;
    return MK_OK;
}

/* Add the variants with this content, one for each time that may be. */
static mk_status add_times(const mk_sim_disk *disk, mk_sim_choice *choice,
                           mk_sim_variant variant, mk_sim_fate *fates,
                           mk_error *err)
{
    mk_status status;

    set_fates(disk, choice, &variant, fates);
    status = compose(disk, choice, fates, err);
    for (int32_t i = -1; i >= -1 && status == MK_OK;
         i = next_timer(disk, choice, i)) {
        variant.timer = i;
        variant.hash = mk_sim_image_node_hash(choice->content,
                                              time_by_modes(disk, choice, i));
        status = add_variant(disk, choice, &variant, err);
    }
    return status;
}

/* Add the variants in which page `i` is torn: of the many ways the one in its
 * middle, for each shape. In a page of few sectors some are not torn at all;
 * those were seen before. */
static mk_status add_torn(const mk_sim_disk *disk, mk_sim_choice *choice,
                          mk_sim_variant variant, size_t i, mk_sim_fate *fates,
                          mk_error *err)
{
    const mk_sim_atom *atom = atom_at(disk, choice, i);
    size_t sectors = mk_sim_atom_sectors(disk, atom);
    mk_sim_fate untorn;
    mk_status status = MK_OK;

    set_fates(disk, choice, &variant, fates);
    untorn = fates[choice->atoms[i]];
    variant.torn = (int32_t)i;
    variant.fate.sector = (uint16_t)(sectors / 2);
    if (untorn.shape == MK_SIM_SHAPE_LOST) {
        if (!mk_sim_atom_is_growing(disk, choice->atoms[i])) return MK_OK;
        variant.fate.shape = MK_SIM_SHAPE_STALE;
        return add_times(disk, choice, variant, fates, err);
    }
    for (mk_sim_shape shape = MK_SIM_SHAPE_HEAD;
         shape <= MK_SIM_SHAPE_NOISE && status == MK_OK; shape++) {
        variant.fate.shape = (uint16_t)shape;
        status = add_times(disk, choice, variant, fates, err);
    }
    return status;
}

/* Add the variants of the modes as they are. */
static mk_status add_masks(const mk_sim_disk *disk, mk_sim_choice *choice,
                           int32_t sizer, bool torn, mk_sim_fate *fates,
                           mk_error *err)
{
    uint32_t free_count = count_free(choice);
    uint64_t end = UINT64_C(1) << free_count;
    mk_status status = MK_OK;

    MK_ASSERT(free_count < 32);
    for (uint64_t mask = 0; mask < end && status == MK_OK; mask++) {
        mk_sim_variant variant = {
            .mask = (uint32_t)mask,
            .sizer = sizer,
            .timer = -1,
            .torn = -1,
        };

        if (!torn) status = add_times(disk, choice, variant, fates, err);
        for (size_t i = 0; torn && i < choice->atom_count && status == MK_OK;
             i++) {
            const mk_sim_atom *atom = atom_at(disk, choice, i);

            if (atom->kind != MK_SIM_ATOM_DATA) continue;
            if (choice->modes[i] == OUT) continue;
            status = add_torn(disk, choice, variant, i, fates, err);
        }
    }
    return status;
}

static mk_status add_all(const mk_sim_disk *disk, mk_sim_choice *choice,
                         bool torn, mk_sim_fate *fates, mk_error *err)
{
    mk_status status = MK_OK;

    for (int32_t i = -1; i >= -1 && status == MK_OK;
         i = next_sizer(disk, choice, i)) {
        set_modes(disk, choice, i);
        status = add_masks(disk, choice, i, torn, fates, err);
    }
    return status;
}

mk_status mk_sim_choice_list(const mk_sim_disk *disk, mk_sim_choice *choice,
                             mk_sim_profile profile, size_t metadata_count,
                             bool tears, mk_sim_fate *fates, mk_error *err)
{
    mk_status status;

    if (profile == MK_SIM_HOSTILE) metadata_count = 0;
    if (choice->listed && choice->profile == profile &&
        choice->metadata_count == metadata_count) {
        return MK_OK;
    }
    set_kind(choice, profile, metadata_count, tears);
    choice->count = 0;
    mk_sim_seen_clear(&choice->seen);
    status = add_all(disk, choice, false, fates, err);
    choice->untorn_count = choice->count;
    if (status == MK_OK && choice->tears) {
        status = add_all(disk, choice, true, fates, err);
    }
    drop_content(disk, choice);
    choice->listed = status == MK_OK;
    return status;
}

/* ---- Taking ---- */

mk_status mk_sim_choice_take(const mk_sim_disk *disk, mk_sim_choice *choice,
                             size_t variant, mk_sim_fate *fates, mk_error *err)
{
    const mk_sim_variant *taken = &choice->variants[variant];
    mk_status status;

    MK_ASSERT(choice->listed);
    MK_ASSERT(variant < choice->count);
    if (choice->taken == variant) return MK_OK;
    set_modes(disk, choice, taken->sizer);
    set_fates(disk, choice, taken, fates);
    status = compose(disk, choice, fates, err);
    if (status != MK_OK) return status;
    choice->mtime_ms = time_by_modes(disk, choice, taken->timer);
    choice->hash = taken->hash;
    choice->taken = variant;
    return MK_OK;
}

mk_status mk_sim_choice_fix(const mk_sim_disk *disk, mk_sim_choice *choice,
                            const mk_sim_fate *fates, mk_error *err)
{
    mk_status status = compose(disk, choice, fates, err);

    if (status != MK_OK) return status;
    choice->mtime_ms = mk_sim_image_time(disk, choice->node, fates);
    choice->hash = mk_sim_image_node_hash(choice->content, choice->mtime_ms);
    return MK_OK;
}
