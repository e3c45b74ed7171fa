/*
 * Every change first gets all the memory that it needs, which nobody sees, and
 * then is made without a step that can fail.
 */
#include "os/sim_change.h"

#include "base/check.h"

#include "base/poison.h"

/* ---- Contents ---- */

static void add_time(mk_sim_disk *disk, uint32_t node, int64_t mtime_ms)
{
    mk_sim_node *changed = &disk->nodes[node];

    if (changed->mtime_ms == mtime_ms) return;
    changed->mtime_ms = mtime_ms;
    mk_sim_disk_add_atom(disk, MK_SIM_ATOM_TIME, node)->value = mtime_ms;
}

/* Add the atoms of the part of a write that lies in one page. */
static void add_page(mk_sim_disk *disk, uint32_t node, mk_sim_bytes *bytes,
                     size_t bytes_at, int64_t position, size_t size,
                     bool doomed)
{
    mk_sim_content *content = disk->nodes[node].content;
    int64_t end = position + (int64_t)size;
    mk_sim_atom *atom = mk_sim_disk_add_atom(disk, MK_SIM_ATOM_DATA, node);

    atomic_fetch_add_explicit(&bytes->references, 1, memory_order_relaxed);
    atom->bytes = bytes;
    atom->bytes_at = bytes_at;
    atom->position = position;
    atom->size = (uint32_t)size;
    atom->doomed = doomed;
    if (end <= content->size) return;

    content->size = end;
    atom = mk_sim_disk_add_atom(disk, MK_SIM_ATOM_GROWTH, node);
    atom->value = end;
    atom->doomed = doomed;
}

static mk_status prepare_write(mk_sim_disk *disk, uint32_t node,
                               int64_t position, size_t size,
                               mk_sim_bytes **bytes, mk_error *err)
{
    mk_sim_node *changed = &disk->nodes[node];
    size_t block_size = sizeof **bytes + size;
    size_t pages = size / disk->media.page_bytes + 2;
    mk_status status;

    *bytes = NULL;
    status = mk_sim_disk_prepare_atoms(disk, 2 * pages + 1, err);
    if (status != MK_OK) return status;
    status = mk_sim_content_unshare(&disk->media, &changed->content, err);
    if (status != MK_OK) return status;
    status = mk_sim_content_prepare(&disk->media, changed->content, position,
                                    size, err);
    if (status != MK_OK) return status;
    *bytes = mk_alloc(&disk->media.heap, block_size);
    return *bytes != NULL ? MK_OK : mk_fail_memory(err, block_size);
}

mk_status mk_sim_change_write(mk_sim_disk *disk, uint32_t node,
                              int64_t position, const void *bytes, size_t size,
                              bool doomed, mk_error *err)
{
    size_t page_bytes = disk->media.page_bytes;
    mk_sim_bytes *copy;
    mk_status status;

    if (size == 0) return MK_OK;
    status = prepare_write(disk, node, position, size, &copy, err);
    if (status != MK_OK) return status;

    atomic_init(&copy->references, 0);
    memcpy(copy->data, bytes, size);
    mk_sim_content_put(&disk->media, disk->nodes[node].content, position,
                       copy->data, size);
    for (size_t at = 0; at < size;) {
        size_t from = ((size_t)position + at) % page_bytes;
        size_t part = page_bytes - from;

        if (part > size - at) part = size - at;
        add_page(disk, node, copy, at, position + (int64_t)at, part, doomed);
        at += part;
    }
    add_time(disk, node, mk_sim_disk_now_ms(disk));
    return MK_OK;
}

mk_status mk_sim_change_size(mk_sim_disk *disk, uint32_t node, int64_t size,
                             mk_error *err)
{
    mk_sim_node *changed = &disk->nodes[node];
    mk_status status;

    if (changed->content->size == size) return MK_OK;
    status = mk_sim_disk_prepare_atoms(disk, 2, err);
    if (status != MK_OK) return status;
    status = mk_sim_content_unshare(&disk->media, &changed->content, err);
    if (status != MK_OK) return status;
    status =
        mk_sim_content_prepare_cut(&disk->media, changed->content, size, err);
    if (status != MK_OK) return status;

    mk_sim_content_cut(&disk->media, changed->content, size);
    mk_sim_disk_add_atom(disk, MK_SIM_ATOM_SIZE, node)->value = size;
    add_time(disk, node, mk_sim_disk_now_ms(disk));
    return MK_OK;
}

mk_status mk_sim_change_room(mk_sim_disk *disk, uint32_t node, int64_t size,
                             mk_error *err)
{
    mk_status status =
        mk_sim_content_unshare(&disk->media, &disk->nodes[node].content, err);

    if (status == MK_OK) status = mk_sim_change_size(disk, node, size, err);
    if (status == MK_OK) disk->nodes[node].content->reserved = size;
    return status;
}

mk_status mk_sim_change_time(mk_sim_disk *disk, uint32_t node, int64_t mtime_ms,
                             mk_error *err)
{
    mk_status status = mk_sim_disk_prepare_atoms(disk, 1, err);

    if (status == MK_OK) add_time(disk, node, mtime_ms);
    return status;
}

static void drop_atoms_of(mk_sim_disk *disk, uint32_t node, bool time_too)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        mk_sim_atom *atom = &disk->atoms[i];

        atom->marked = atom->node == node && atom->kind != MK_SIM_ATOM_NAMES &&
                       (time_too || atom->kind != MK_SIM_ATOM_TIME);
    }
    mk_sim_disk_drop_marked(disk);
}

void mk_sim_change_content(mk_sim_disk *disk, uint32_t node,
                           mk_sim_content *content)
{
    mk_sim_node *changed = &disk->nodes[node];

    drop_atoms_of(disk, node, false);
    mk_sim_content_release(&disk->media, changed->content);
    mk_sim_content_release(&disk->media, changed->kept_content);
    changed->content = content;
    changed->kept_content = mk_sim_content_acquire(content);
    changed->doomed_errno = 0;
}

void mk_sim_change_settle(mk_sim_disk *disk, uint32_t node)
{
    mk_sim_node *changed = &disk->nodes[node];

    drop_atoms_of(disk, node, true);
    mk_sim_content_release(&disk->media, changed->kept_content);
    changed->kept_content = mk_sim_content_acquire(changed->content);
    changed->kept_mtime_ms = changed->mtime_ms;
    changed->doomed_errno = 0;
}

/* ---- Names ---- */

/* A change of one or two names in the making. */
typedef struct name_change {
    mk_sim_setting settings[2]; /* Their names are owned. */
    uint8_t count;
} name_change;

static void drop_change(mk_sim_disk *disk, name_change *change)
{
    for (size_t i = 0; i < change->count; i++) {
        mk_sim_name_release(&disk->media.heap, change->settings[i].name);
    }
}

/* Plan to let the name at `place` lead to `node`. */
static mk_status plan(mk_sim_disk *disk, name_change *change,
                      const mk_sim_place *place, uint32_t node, mk_error *err)
{
    mk_sim_setting *setting = &change->settings[change->count];
    mk_sim_table **names = &disk->nodes[place->directory].names;
    const mk_sim_entry *entry;
    mk_status status;

    /* Two, since both names of a change may be in one directory. */
    status = mk_sim_table_prepare(&disk->media.heap, names, 2, err);
    if (status != MK_OK) return status;
    *setting = (mk_sim_setting){.directory = place->directory, .node = node};
    entry = mk_sim_table_find(*names, place->name, place->name_size);
    if (entry != NULL) {
        setting->name = mk_sim_name_acquire(entry->name);
    } else {
        status = mk_sim_name_new(&disk->media.heap, place->name,
                                 place->name_size, &setting->name, err);
    }
    if (status == MK_OK) change->count++;
    return status;
}

static void set_name(mk_sim_disk *disk, const mk_sim_setting *setting)
{
    mk_sim_table *names = disk->nodes[setting->directory].names;
    const mk_sim_entry *entry =
        mk_sim_table_find(names, setting->name->text, setting->name->size);

    if (entry != NULL) disk->nodes[entry->node].links--;
    if (setting->node == MK_SIM_NOWHERE) {
        mk_sim_table_remove(&disk->media.heap, names, setting->name);
    } else {
        mk_sim_table_set(names, setting->name, setting->node);
        disk->nodes[setting->node].links++;
    }
}

/* Carry the change out; room for its atom was made. */
static void carry_out(mk_sim_disk *disk, const name_change *change)
{
    mk_sim_atom *atom = mk_sim_disk_add_atom(disk, MK_SIM_ATOM_NAMES,
                                             change->settings[0].directory);

    atom->setting_count = change->count;
    for (size_t i = 0; i < change->count; i++) {
        atom->settings[i] = change->settings[i];
        set_name(disk, &change->settings[i]);
    }
}

mk_status mk_sim_change_create(mk_sim_disk *disk, const mk_sim_place *place,
                               bool directory, uint32_t *out, mk_error *err)
{
    name_change change = {0};
    mk_status status = mk_sim_disk_prepare_atoms(disk, 1, err);

    *out = MK_SIM_NOWHERE;
    if (status != MK_OK) return status;
    status = plan(disk, &change, place, MK_SIM_NOWHERE, err);
    if (status != MK_OK) return status;
    status = mk_sim_disk_add_node(disk, directory, out, err);
    if (status != MK_OK) {
        drop_change(disk, &change);
        return status;
    }
    change.settings[0].node = *out;
    carry_out(disk, &change);
    return MK_OK;
}

mk_status mk_sim_change_link(mk_sim_disk *disk, uint32_t node,
                             const mk_sim_place *place, mk_error *err)
{
    name_change change = {0};
    mk_status status = mk_sim_disk_prepare_atoms(disk, 1, err);

    if (status == MK_OK) status = plan(disk, &change, place, node, err);
    if (status == MK_OK) carry_out(disk, &change);
    return status;
}

mk_status mk_sim_change_remove(mk_sim_disk *disk, const mk_sim_place *place,
                               mk_error *err)
{
    return mk_sim_change_link(disk, MK_SIM_NOWHERE, place, err);
}

static mk_status change_two(mk_sim_disk *disk, const mk_sim_place *a,
                            uint32_t a_node, const mk_sim_place *b,
                            uint32_t b_node, mk_error *err)
{
    name_change change = {0};
    mk_status status = mk_sim_disk_prepare_atoms(disk, 1, err);

    if (status == MK_OK) status = plan(disk, &change, a, a_node, err);
    if (status == MK_OK) status = plan(disk, &change, b, b_node, err);
    if (status != MK_OK) {
        drop_change(disk, &change);
        return status;
    }
    carry_out(disk, &change);
    return MK_OK;
}

mk_status mk_sim_change_rename(mk_sim_disk *disk, const mk_sim_place *from,
                               const mk_sim_place *to, mk_error *err)
{
    /* Two names of one file: POSIX has nothing change. */
    if (from->node == to->node) return MK_OK;
    return change_two(disk, from, MK_SIM_NOWHERE, to, from->node, err);
}

mk_status mk_sim_change_exchange(mk_sim_disk *disk, const mk_sim_place *a,
                                 const mk_sim_place *b, mk_error *err)
{
    if (a->node == b->node) return MK_OK;
    return change_two(disk, a, b->node, b, a->node, err);
}
