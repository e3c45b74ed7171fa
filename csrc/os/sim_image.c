/*
 * A size is a field of a node: the last change of it that survives says what it
 * is, also where an earlier one is lost. A page that survives beyond the size
 * comes into sight when a later growth survives.
 */
#include "os/sim_image.h"

#include "base/check.h"

#include "base/poison.h"

/* ---- Contents ---- */

/* The end of the atom's first `count` sectors, counted in its bytes. */
static size_t end_of_sectors(const mk_sim_disk *disk, const mk_sim_atom *atom,
                             size_t count)
{
    size_t sector_bytes = disk->media.sector_bytes;
    size_t first = (size_t)atom->position / sector_bytes;
    size_t end = (first + count) * sector_bytes - (size_t)atom->position;

    if (count == 0) return 0;
    return end < atom->size ? end : atom->size;
}

static void put_part(const mk_sim_disk *disk, const mk_sim_atom *atom,
                     size_t from, size_t to, mk_sim_content *content)
{
    if (from >= to) return;
    mk_sim_content_put(&disk->media, content, atom->position + (int64_t)from,
                       atom->bytes->data + atom->bytes_at + from, to - from);
}

/* Garbage looks like chance, but is the same every time. */
static void put_garbage(const mk_sim_disk *disk, const mk_sim_atom *atom,
                        size_t from, size_t to, mk_sim_content *content)
{
    uint64_t chance = mk_sim_mix(disk->options.seed) ^ (atom->serial << 16);

    for (size_t at = from; at < to; at++) {
        uint8_t byte = (uint8_t)(mk_sim_random(&chance) >> 32);

        mk_sim_content_put(&disk->media, content, atom->position + (int64_t)at,
                           &byte, 1);
    }
}

/* How many of the atom's bytes are within the file as it is kept? */
static size_t size_before(const mk_sim_disk *disk, const mk_sim_atom *atom)
{
    int64_t kept = disk->nodes[atom->node].kept_content->size;

    return kept > atom->position ? (size_t)(kept - atom->position) : 0;
}

static void put_data(const mk_sim_disk *disk, const mk_sim_atom *atom,
                     mk_sim_fate fate, mk_sim_content *content)
{
    size_t before = end_of_sectors(disk, atom, fate.sector);
    size_t behind = end_of_sectors(disk, atom, (size_t)fate.sector + 1);

    switch ((mk_sim_shape)fate.shape) {
    case MK_SIM_SHAPE_LOST:
        break;
    case MK_SIM_SHAPE_WHOLE:
        put_part(disk, atom, 0, atom->size, content);
        break;
    case MK_SIM_SHAPE_HEAD:
        put_part(disk, atom, 0, before, content);
        break;
    case MK_SIM_SHAPE_TAIL:
        put_part(disk, atom, before, atom->size, content);
        break;
    case MK_SIM_SHAPE_GAP:
        put_part(disk, atom, 0, before, content);
        put_part(disk, atom, behind, atom->size, content);
        break;
    case MK_SIM_SHAPE_NOISE:
        put_part(disk, atom, 0, atom->size, content);
        put_garbage(disk, atom, before, behind, content);
        break;
    case MK_SIM_SHAPE_STALE:
        put_garbage(disk, atom, size_before(disk, atom), atom->size, content);
        break;
    }
}

static mk_sim_fate fate_of(const mk_sim_disk *disk, const mk_sim_fate *fates,
                           size_t i)
{
    if (disk->atoms[i].doomed) return (mk_sim_fate){0};
    if (fates == NULL) return (mk_sim_fate){.shape = MK_SIM_SHAPE_WHOLE};
    return fates[i];
}

/* Does anything of the node's content survive? */
static bool has_survivor(const mk_sim_disk *disk, uint32_t node,
                         const mk_sim_fate *fates)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (atom->node != node || atom->kind > MK_SIM_ATOM_SIZE) continue;
        if (fate_of(disk, fates, i).shape != MK_SIM_SHAPE_LOST) return true;
    }
    return false;
}

/* Get ready for all that survives; `*size` is what the file will have. */
static mk_status prepare(const mk_sim_disk *disk, uint32_t node,
                         const mk_sim_fate *fates, mk_sim_content *content,
                         int64_t *size, mk_error *err)
{
    mk_status status = MK_OK;

    *size = content->size;
    for (size_t i = 0; i < disk->atom_count && status == MK_OK; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (atom->node != node) continue;
        if (fate_of(disk, fates, i).shape == MK_SIM_SHAPE_LOST) continue;
        if (atom->kind == MK_SIM_ATOM_DATA) {
            status = mk_sim_content_prepare(&disk->media, content,
                                            atom->position, atom->size, err);
        } else if (atom->kind == MK_SIM_ATOM_SIZE) {
            *size = atom->value;
            status = mk_sim_content_prepare_cut(&disk->media, content,
                                                atom->value, err);
        } else if (atom->kind == MK_SIM_ATOM_GROWTH) {
            *size = atom->value;
        }
    }
    if (status != MK_OK) return status;
    return mk_sim_content_prepare_cut(&disk->media, content, *size, err);
}

mk_status mk_sim_image_apply(const mk_sim_disk *disk, uint32_t node,
                             const mk_sim_fate *fates, mk_sim_content **content,
                             mk_error *err)
{
    int64_t size;
    mk_status status;

    if (!has_survivor(disk, node, fates)) return MK_OK;
    status = mk_sim_content_unshare(&disk->media, content, err);
    if (status != MK_OK) return status;
    status = prepare(disk, node, fates, *content, &size, err);
    if (status != MK_OK) return status;

    for (size_t i = 0; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];
        mk_sim_fate fate = fate_of(disk, fates, i);

        if (atom->node != node || fate.shape == MK_SIM_SHAPE_LOST) continue;
        if (atom->kind == MK_SIM_ATOM_DATA) {
            put_data(disk, atom, fate, *content);
        } else if (atom->kind == MK_SIM_ATOM_SIZE) {
            mk_sim_content_blank(&disk->media, *content, atom->value);
        }
    }
    mk_sim_content_cut(&disk->media, *content, size);
    return MK_OK;
}

int64_t mk_sim_image_time(const mk_sim_disk *disk, uint32_t node,
                          const mk_sim_fate *fates)
{
    int64_t mtime_ms = disk->nodes[node].kept_mtime_ms;

    for (size_t i = 0; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (atom->node != node || atom->kind != MK_SIM_ATOM_TIME) continue;
        if (fate_of(disk, fates, i).shape == MK_SIM_SHAPE_LOST) continue;
        mtime_ms = atom->value;
    }
    return mtime_ms;
}

/* ---- Forests ---- */

void mk_sim_forest_free(const mk_sim_disk *disk, mk_sim_forest *forest)
{
    if (forest == NULL) return;
    for (size_t i = 0; i < forest->node_count; i++) {
        mk_sim_table_release(&disk->media.heap, forest->tables[i]);
    }
    mk_release(&disk->media.heap, forest);
}

/* All arrays lie in the forest's own block. */
static mk_sim_forest *new_forest(const mk_sim_disk *disk, size_t *size)
{
    size_t count = disk->node_count;
    mk_sim_forest *forest;

    *size = sizeof *forest +
            count * (sizeof *forest->places + sizeof(mk_sim_table *) +
                     sizeof *forest->links);
    forest = mk_alloc_zero(&disk->media.heap, *size);
    if (forest == NULL) return NULL;
    forest->node_count = count;
    forest->places = (mk_sim_hash *)(forest + 1);
    forest->tables = (mk_sim_table **)(forest->places + count);
    forest->links = (uint32_t *)(forest->tables + count);
    return forest;
}

static mk_status apply_setting(const mk_sim_disk *disk, mk_sim_forest *forest,
                               const mk_sim_setting *setting, mk_error *err)
{
    mk_sim_table **table = &forest->tables[setting->directory];
    mk_status status = mk_sim_table_prepare(&disk->media.heap, table, 1, err);

    if (status != MK_OK) return status;
    if (setting->node == MK_SIM_NOWHERE) {
        mk_sim_table_remove(&disk->media.heap, *table, setting->name);
    } else {
        mk_sim_table_set(*table, setting->name, setting->node);
    }
    return MK_OK;
}

static mk_status apply_names(const mk_sim_disk *disk, mk_sim_forest *forest,
                             const mk_sim_fate *fates, mk_error *err)
{
    mk_status status = MK_OK;

    for (size_t i = 0; i < disk->atom_count && status == MK_OK; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (atom->kind != MK_SIM_ATOM_NAMES) continue;
        if (fates[i].shape == MK_SIM_SHAPE_LOST) continue;
        for (size_t j = 0; j < atom->setting_count && status == MK_OK; j++) {
            status = apply_setting(disk, forest, &atom->settings[j], err);
        }
    }
    return status;
}

/* Reach all that is in `directory`, whose path has the hash `path`. Depth is
 * bounded by the number of directories: each is reached once. */
static void reach(const mk_sim_disk *disk, mk_sim_forest *forest,
                  uint32_t directory, mk_sim_hash path)
{
    const mk_sim_table *table = forest->tables[directory];

    for (size_t i = 0; i < table->count; i++) {
        const mk_sim_entry *entry = &table->entries[i];
        mk_sim_hash below = mk_sim_hash_pair(path, entry->name->hash);
        mk_sim_hash leads =
            mk_sim_hash_pair(below, mk_sim_hash_number(entry->node));
        bool first = forest->links[entry->node]++ == 0;

        forest->places[entry->node] =
            mk_sim_hash_add(forest->places[entry->node], below);
        forest->hash = mk_sim_hash_add(forest->hash, leads);
        if (first && disk->nodes[entry->node].directory) {
            reach(disk, forest, entry->node, below);
        }
    }
}

mk_status mk_sim_forest_new(const mk_sim_disk *disk, const mk_sim_fate *fates,
                            mk_sim_forest **out, mk_error *err)
{
    size_t size;
    mk_sim_forest *forest = new_forest(disk, &size);
    mk_status status = MK_OK;

    *out = NULL;
    if (forest == NULL) return mk_fail_memory(err, size);
    for (size_t i = 0; i < disk->node_count; i++) {
        const mk_sim_node *node = &disk->nodes[i];

        if (!node->used || !node->directory) continue;
        forest->tables[i] = mk_sim_table_acquire(
            fates == NULL ? node->names : node->kept_names);
    }
    if (fates != NULL) status = apply_names(disk, forest, fates, err);
    if (status != MK_OK) {
        mk_sim_forest_free(disk, forest);
        return status;
    }
    forest->links[MK_SIM_ROOT] = 1;
    forest->places[MK_SIM_ROOT] = mk_sim_hash_number('/');
    reach(disk, forest, MK_SIM_ROOT, forest->places[MK_SIM_ROOT]);
    *out = forest;
    return MK_OK;
}

/* ---- Images ---- */

mk_sim_hash mk_sim_image_node_hash(const mk_sim_content *content,
                                   int64_t mtime_ms)
{
    mk_sim_hash hash =
        content != NULL ? mk_sim_content_hash(content) : (mk_sim_hash){1, 1};

    return mk_sim_hash_pair(hash, mk_sim_hash_number((uint64_t)mtime_ms));
}

static void fill_node(const mk_sim_disk *disk, const mk_sim_image *image,
                      uint32_t i, mk_sim_node *out)
{
    const mk_sim_node *node = &disk->nodes[i];

    *out = (mk_sim_node){
        .used = true,
        .directory = node->directory,
        .links = image->forest->links[i],
        .number = node->number,
        .mtime_ms = image->mtimes_ms[i],
        .kept_mtime_ms = image->mtimes_ms[i],
    };
    if (node->directory) {
        out->names = mk_sim_table_acquire(image->forest->tables[i]);
        out->kept_names = mk_sim_table_acquire(out->names);
    } else {
        out->content = mk_sim_content_acquire(image->contents[i]);
        out->kept_content = mk_sim_content_acquire(out->content);
    }
}

mk_status mk_sim_image_nodes(const mk_sim_disk *disk, const mk_sim_image *image,
                             mk_sim_node **out, mk_error *err)
{
    size_t size = disk->node_count * sizeof **out;
    mk_sim_node *nodes = mk_alloc(&disk->media.heap, size);

    *out = NULL;
    if (nodes == NULL) return mk_fail_memory(err, size);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (image->forest->links[i] > 0) {
            fill_node(disk, image, i, &nodes[i]);
        } else {
            nodes[i] = (mk_sim_node){0};
        }
    }
    *out = nodes;
    return MK_OK;
}

mk_status mk_sim_image_disk(const mk_sim_disk *disk, const mk_sim_image *image,
                            mk_sim_profile label, mk_sim_disk **out,
                            mk_error *err)
{
    mk_status status = mk_sim_disk_new_like(disk, out, err);

    if (status != MK_OK) return status;
    status = mk_sim_image_nodes(disk, image, &(*out)->nodes, err);
    if (status != MK_OK) {
        mk_sim_disk_free(*out);
        *out = NULL;
        return status;
    }
    (*out)->node_count = (*out)->node_capacity = disk->node_count;
    (*out)->label = label;
    return MK_OK;
}
