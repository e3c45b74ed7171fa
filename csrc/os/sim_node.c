/* sim_node -- places for nodes and atoms, and what nobody can find any more. */
#include "base/check.h"
#include "os/sim_disk.h"

#include "base/poison.h"

/* ---- Nodes ---- */

static mk_status fill_node(const mk_sim_disk *disk, mk_sim_node *node,
                           bool directory, mk_error *err)
{
    mk_status status;

    *node = (mk_sim_node){.directory = directory};
    if (directory) {
        status = mk_sim_table_new(&disk->media.heap, &node->names, err);
        if (status != MK_OK) return status;
        node->kept_names = mk_sim_table_acquire(node->names);
    } else {
        status = mk_sim_content_new(&disk->media, &node->content, err);
        if (status != MK_OK) return status;
        node->kept_content = mk_sim_content_acquire(node->content);
    }
    node->mtime_ms = node->kept_mtime_ms = mk_sim_disk_now_ms(disk);
    return MK_OK;
}

static uint32_t find_free(const mk_sim_disk *disk)
{
    uint32_t i = 0;

    while (i < disk->node_count && disk->nodes[i].used) {
        i++;
    }
    return i;
}

mk_status mk_sim_disk_add_node(mk_sim_disk *disk, bool directory, uint32_t *out,
                               mk_error *err)
{
    uint32_t at = find_free(disk);
    void *array = disk->nodes;
    mk_status status;

    *out = MK_SIM_NOWHERE;
    if (at == disk->node_count && disk->node_count == disk->node_capacity) {
        if (at > 0) mk_sim_disk_collect(disk);
        at = find_free(disk);
    }
    status = mk_grow(&disk->media.heap, &array, &disk->node_capacity,
                     (size_t)at + 1, sizeof *disk->nodes, err);
    disk->nodes = array;
    if (status != MK_OK) return status;
    status = fill_node(disk, &disk->nodes[at], directory, err);
    if (status != MK_OK) return status;
    if (at == disk->node_count) disk->node_count++;
    disk->nodes[at].used = true;
    disk->nodes[at].number = disk->next_number++;
    *out = at;
    return MK_OK;
}

void mk_sim_disk_drop_node(mk_sim_disk *disk, uint32_t node)
{
    mk_sim_node *dropped = &disk->nodes[node];

    MK_ASSERT(dropped->used);
    mk_sim_content_release(&disk->media, dropped->content);
    mk_sim_content_release(&disk->media, dropped->kept_content);
    mk_sim_table_release(&disk->media.heap, dropped->names);
    mk_sim_table_release(&disk->media.heap, dropped->kept_names);
    *dropped = (mk_sim_node){0};
}

/* ---- Atoms ---- */

bool mk_sim_atom_changes(const mk_sim_atom *atom, uint32_t directory,
                         const mk_sim_name *name)
{
    for (size_t i = 0; i < atom->setting_count; i++) {
        if (atom->settings[i].directory != directory) continue;
        if (mk_sim_name_is_equal(atom->settings[i].name, name)) return true;
    }
    return false;
}

bool mk_sim_atom_shares_name(const mk_sim_atom *a, const mk_sim_atom *b)
{
    for (size_t i = 0; i < a->setting_count; i++) {
        const mk_sim_setting *setting = &a->settings[i];

        if (mk_sim_atom_changes(b, setting->directory, setting->name)) {
            return true;
        }
    }
    return false;
}

bool mk_sim_atom_is_growing(const mk_sim_disk *disk, size_t i)
{
    const mk_sim_atom *atom = &disk->atoms[i];

    if (atom->kind != MK_SIM_ATOM_DATA || i + 1 == disk->atom_count) {
        return false;
    }
    return atom[1].kind == MK_SIM_ATOM_GROWTH &&
           atom[1].serial == atom->serial + 1;
}

size_t mk_sim_atom_sectors(const mk_sim_disk *disk, const mk_sim_atom *atom)
{
    size_t sector_bytes = disk->media.sector_bytes;
    size_t first = (size_t)atom->position / sector_bytes;
    size_t last = ((size_t)atom->position + atom->size - 1) / sector_bytes;

    return last - first + 1;
}

static void release_atom(const mk_heap *heap, mk_sim_atom *atom)
{
    mk_sim_bytes *bytes = atom->bytes;

    for (size_t i = 0; i < atom->setting_count; i++) {
        mk_sim_name_release(heap, atom->settings[i].name);
    }
    if (bytes == NULL) return;
    if (atomic_fetch_sub_explicit(&bytes->references, 1,
                                  memory_order_acq_rel) == 1) {
        mk_release(heap, bytes);
    }
}

mk_status mk_sim_disk_prepare_atoms(mk_sim_disk *disk, size_t more,
                                    mk_error *err)
{
    void *array = disk->atoms;
    mk_status status =
        mk_grow(&disk->media.heap, &array, &disk->atom_capacity,
                disk->atom_count + more, sizeof *disk->atoms, err);

    disk->atoms = array;
    return status;
}

mk_sim_atom *mk_sim_disk_add_atom(mk_sim_disk *disk, mk_sim_atom_kind kind,
                                  uint32_t node)
{
    mk_sim_atom *atom = &disk->atoms[disk->atom_count];

    MK_ASSERT(disk->atom_count < disk->atom_capacity);
    disk->atom_count++;
    *atom = (mk_sim_atom){
        .kind = kind,
        .node = node,
        .serial = disk->next_serial++,
    };
    return atom;
}

void mk_sim_disk_drop_marked(mk_sim_disk *disk)
{
    size_t kept = 0;

    for (size_t i = 0; i < disk->atom_count; i++) {
        if (disk->atoms[i].marked) {
            release_atom(&disk->media.heap, &disk->atoms[i]);
        } else {
            if (kept < i) disk->atoms[kept] = disk->atoms[i];
            kept++;
        }
    }
    disk->atom_count = kept;
}

void mk_sim_disk_drop_atoms(mk_sim_disk *disk)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        disk->atoms[i].marked = true;
    }
    mk_sim_disk_drop_marked(disk);
}

/* ---- Collecting ---- */

/* Mark a node, and put it on the stack that begins at `*top`. */
static void mark(mk_sim_disk *disk, uint32_t node, uint32_t *top)
{
    if (node == MK_SIM_NOWHERE || disk->nodes[node].marked) return;
    disk->nodes[node].marked = true;
    disk->nodes[node].next = *top;
    *top = node;
}

static void mark_table(mk_sim_disk *disk, const mk_sim_table *table,
                       uint32_t *top)
{
    for (size_t i = 0; i < table->count; i++) {
        mark(disk, table->entries[i].node, top);
    }
}

/* Mark what can be reached from what is on the stack. */
static void mark_below(mk_sim_disk *disk, uint32_t top)
{
    while (top != MK_SIM_NOWHERE) {
        const mk_sim_node *node = &disk->nodes[top];

        top = node->next;
        if (!node->directory) continue;
        mark_table(disk, node->names, &top);
        mark_table(disk, node->kept_names, &top);
    }
}

/* Changes of names in a directory that can be found make others so. True: they
 * did. */
static bool mark_by_atoms(mk_sim_disk *disk)
{
    uint32_t top = MK_SIM_NOWHERE;

    for (size_t i = 0; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];
        bool found = false;

        for (size_t j = 0; j < atom->setting_count; j++) {
            found |= disk->nodes[atom->settings[j].directory].marked;
        }
        for (size_t j = 0; j < atom->setting_count && found; j++) {
            mark(disk, atom->settings[j].directory, &top);
            mark(disk, atom->settings[j].node, &top);
        }
    }
    if (top == MK_SIM_NOWHERE) return false;
    mark_below(disk, top);
    return true;
}

void mk_sim_disk_collect(mk_sim_disk *disk)
{
    uint32_t top = MK_SIM_NOWHERE;

    for (uint32_t i = 0; i < disk->node_count; i++) {
        disk->nodes[i].marked = false;
    }
    mark(disk, MK_SIM_ROOT, &top);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (disk->nodes[i].handles > 0) mark(disk, i, &top);
    }
    mark_below(disk, top);
    while (mark_by_atoms(disk)) {
        continue;
    }
    for (size_t i = 0; i < disk->atom_count; i++) {
        disk->atoms[i].marked = !disk->nodes[disk->atoms[i].node].marked;
    }
    mk_sim_disk_drop_marked(disk);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (disk->nodes[i].used && !disk->nodes[i].marked) {
            mk_sim_disk_drop_node(disk, i);
        }
    }
}
