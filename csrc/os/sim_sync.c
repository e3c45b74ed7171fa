/* sim_sync -- what is synced moves from the atoms to what is kept. */
#include "os/sim_sync.h"

#include "os/sim_image.h"

#include "base/poison.h"

/* ---- Names ---- */

/* Mark also the changes of names that came before a marked one of the same
 * name. Backwards, as those may mark others before them. */
static void mark_earlier(mk_sim_disk *disk)
{
    for (size_t i = disk->atom_count; i-- > 0;) {
        const mk_sim_atom *later = &disk->atoms[i];

        if (!later->marked) continue;
        if (later->kind != MK_SIM_ATOM_NAMES) continue;
        for (size_t j = 0; j < i; j++) {
            mk_sim_atom *earlier = &disk->atoms[j];

            if (earlier->kind != MK_SIM_ATOM_NAMES) continue;
            if (mk_sim_atom_shares_name(earlier, later)) earlier->marked = true;
        }
    }
}

static bool leads_to(const mk_sim_atom *atom, uint32_t node)
{
    for (size_t i = 0; i < atom->setting_count; i++) {
        if (atom->settings[i].node == node) return true;
    }
    return false;
}

static bool is_in(const mk_sim_atom *atom, uint32_t directory)
{
    for (size_t i = 0; i < atom->setting_count; i++) {
        if (atom->settings[i].directory == directory) return true;
    }
    return false;
}

static size_t count_marked_names(const mk_sim_disk *disk)
{
    size_t count = 0;

    for (size_t i = 0; i < disk->atom_count; i++) {
        if (disk->atoms[i].marked) count += disk->atoms[i].setting_count;
    }
    return count;
}

/* Get the tables ready for all changes of names that are marked. */
static mk_status prepare_names(mk_sim_disk *disk, mk_error *err)
{
    size_t count = count_marked_names(disk);
    mk_status status = MK_OK;

    for (size_t i = 0; i < disk->atom_count && status == MK_OK; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (!atom->marked) continue;
        for (size_t j = 0; j < atom->setting_count && status == MK_OK; j++) {
            mk_sim_node *node = &disk->nodes[atom->settings[j].directory];

            status = mk_sim_table_prepare(&disk->media.heap, &node->kept_names,
                                          count, err);
        }
    }
    return status;
}

/* Apply the changes of names that are marked, and drop all marked atoms. */
static void keep_marked(mk_sim_disk *disk)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (!atom->marked) continue;
        for (size_t j = 0; j < atom->setting_count; j++) {
            const mk_sim_setting *setting = &atom->settings[j];
            mk_sim_table *names = disk->nodes[setting->directory].kept_names;

            if (setting->node == MK_SIM_NOWHERE) {
                mk_sim_table_remove(&disk->media.heap, names, setting->name);
            } else {
                mk_sim_table_set(names, setting->name, setting->node);
            }
        }
    }
    mk_sim_disk_drop_marked(disk);
}

static void unmark(mk_sim_disk *disk)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        disk->atoms[i].marked = false;
    }
}

/* ---- Syncs ---- */

static void mark_node(mk_sim_disk *disk, uint32_t node, bool data_only)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        mk_sim_atom *atom = &disk->atoms[i];

        if (atom->kind == MK_SIM_ATOM_NAMES) {
            atom->marked = disk->options.fsync_links && leads_to(atom, node);
        } else {
            atom->marked = atom->node == node &&
                           !(data_only && atom->kind == MK_SIM_ATOM_TIME);
        }
    }
}

mk_status mk_sim_sync_file(mk_sim_disk *disk, uint32_t node, bool data_only,
                           mk_error *err)
{
    mk_status status;

    mark_node(disk, node, data_only);
    mark_earlier(disk);
    status = prepare_names(disk, err);
    if (status == MK_OK) {
        status = mk_sim_image_apply(disk, node, NULL,
                                    &disk->nodes[node].kept_content, err);
    }
    if (status != MK_OK) {
        unmark(disk);
        return status;
    }
    if (!data_only) {
        disk->nodes[node].kept_mtime_ms = mk_sim_image_time(disk, node, NULL);
    }
    keep_marked(disk);
    if (disk->options.fsync_links) mk_sim_disk_collect(disk);
    return MK_OK;
}

mk_status mk_sim_sync_directory(mk_sim_disk *disk, uint32_t node, mk_error *err)
{
    mk_status status;

    mark_node(disk, node, false);
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (is_in(&disk->atoms[i], node)) disk->atoms[i].marked = true;
    }
    mark_earlier(disk);
    status = prepare_names(disk, err);
    if (status != MK_OK) {
        unmark(disk);
        return status;
    }
    disk->nodes[node].kept_mtime_ms = mk_sim_image_time(disk, node, NULL);
    keep_marked(disk);
    mk_sim_disk_collect(disk);
    return MK_OK;
}

static bool changes_place(const mk_sim_atom *atom, const mk_sim_place *place)
{
    for (size_t i = 0; i < atom->setting_count; i++) {
        const mk_sim_setting *setting = &atom->settings[i];

        if (setting->directory != place->directory) continue;
        if (setting->name->size != place->name_size) continue;
        if (memcmp(setting->name->text, place->name, place->name_size) == 0) {
            return true;
        }
    }
    return false;
}

mk_status mk_sim_sync_name(mk_sim_disk *disk, const mk_sim_place *place,
                           mk_error *err)
{
    mk_status status;

    for (size_t i = 0; i < disk->atom_count; i++) {
        disk->atoms[i].marked = changes_place(&disk->atoms[i], place);
    }
    mark_earlier(disk);
    status = prepare_names(disk, err);
    if (status != MK_OK) {
        unmark(disk);
        return status;
    }
    keep_marked(disk);
    return MK_OK;
}

/* ---- Failures ---- */

/* The size stays: of what is written there anew, a sync is to keep all. */
static void drop_pages(mk_sim_disk *disk, uint32_t node, bool doomed_only)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        mk_sim_atom *atom = &disk->atoms[i];
        bool page = atom->kind == MK_SIM_ATOM_DATA;

        atom->marked =
            atom->node == node && page && (atom->doomed || !doomed_only);
        if (atom->node == node && !page) atom->doomed = false;
    }
    mk_sim_disk_drop_marked(disk);
}

static void revert(mk_sim_disk *disk, uint32_t node)
{
    mk_sim_node *reverted = &disk->nodes[node];

    for (size_t i = 0; i < disk->atom_count; i++) {
        mk_sim_atom *atom = &disk->atoms[i];

        atom->marked = atom->node == node && atom->kind != MK_SIM_ATOM_NAMES;
    }
    mk_sim_disk_drop_marked(disk);
    mk_sim_content_release(&disk->media, reverted->content);
    reverted->content = mk_sim_content_acquire(reverted->kept_content);
    reverted->mtime_ms = reverted->kept_mtime_ms;
}

static void spare(mk_sim_disk *disk, uint32_t node)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (disk->atoms[i].node == node) disk->atoms[i].doomed = false;
    }
}

void mk_sim_sync_fail(mk_sim_disk *disk, uint32_t node, mk_sim_flavour flavour,
                      bool doomed_only)
{
    if (flavour == MK_SIM_LOST) {
        drop_pages(disk, node, doomed_only);
    } else if (flavour == MK_SIM_REVERTED) {
        revert(disk, node);
    } else {
        spare(disk, node);
    }
    disk->nodes[node].doomed_errno = 0;
}
