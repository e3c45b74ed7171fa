/* sim_disk -- making, copying and freeing simulated disks; their nodes. */
#include "os/sim_disk.h"

#include <errno.h>

#include "base/check.h"

#include "base/poison.h"

/* ---- The mutex ---- */

bool mk_sim_disk_enter(mk_sim_disk *disk)
{
    mk_thread_id self = mk_thread_self();

    if (atomic_load_explicit(&disk->teller, memory_order_relaxed) == self) {
        return true;
    }
    mk_mutex_lock(&disk->mutex);
    return false;
}

void mk_sim_disk_leave(mk_sim_disk *disk, bool nested)
{
    if (!nested) mk_mutex_unlock(&disk->mutex);
}

/* ---- Options ---- */

void mk_sim_options_default(mk_sim_options *out)
{
    *out = (mk_sim_options){
        .seed = 1,
        .profile = MK_SIM_HOSTILE,
        .page_bytes = 4096,
        .sector_bytes = 512,
        .capacity_bytes = -1,
        .capacity_files = -1,
        .exchange = true,
    };
}

static bool is_power_between(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high && (value & (value - 1)) == 0;
}

static mk_status check_options(const mk_sim_options *options, mk_error *err)
{
    if (options->profile >= MK_SIM_PROFILE_COUNT) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "profile: no such profile");
    }
    if (!is_power_between(options->page_bytes, 512, 65536)) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "page_bytes must be a power of two in 512..65536");
    }
    if (!is_power_between(options->sector_bytes, 16, options->page_bytes)) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "sector_bytes must be a power of two from 16 to the "
                       "size of a page");
    }
    if (options->capacity_bytes < -1 || options->capacity_files < -1) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "a capacity must not be negative, but for -1");
    }
    return MK_OK;
}

/* ---- Life ---- */

static mk_status new_disk(const mk_heap *heap, const mk_sim_options *options,
                          mk_sim_disk **out, mk_error *err)
{
    mk_sim_disk *disk = mk_alloc_zero(heap, sizeof *disk);

    *out = NULL;
    if (disk == NULL) return mk_fail_memory(err, sizeof *disk);
    atomic_init(&disk->references, 1);
    atomic_init(&disk->teller, 0);
    disk->media = (mk_sim_media){
        .heap = *heap,
        .page_bytes = (size_t)options->page_bytes,
        .sector_bytes = (size_t)options->sector_bytes,
    };
    disk->options = *options;
    disk->chance = options->seed;
    disk->session = 1;
    disk->label = options->profile;
    disk->next_serial = 1;
    disk->next_number = 1;
    mk_mutex_init(&disk->mutex);
    *out = disk;
    return MK_OK;
}

mk_status mk_sim_disk_new(const mk_heap *heap, const mk_sim_options *options,
                          mk_sim_disk **out, mk_error *err)
{
    mk_heap standard = mk_heap_default();
    mk_sim_options defaults;
    uint32_t root;
    mk_status status;

    *out = NULL;
    if (heap == NULL) heap = &standard;
    mk_sim_options_default(&defaults);
    if (options == NULL) options = &defaults;
    status = check_options(options, err);
    if (status == MK_OK) status = new_disk(heap, options, out, err);
    if (status != MK_OK) return status;

    status = mk_sim_disk_add_node(*out, true, &root, err);
    if (status != MK_OK) {
        mk_sim_disk_free(*out);
        *out = NULL;
        return status;
    }
    MK_ASSERT(root == MK_SIM_ROOT);
    (*out)->nodes[root].links = 1;
    return MK_OK;
}

mk_status mk_sim_disk_new_like(const mk_sim_disk *disk, mk_sim_disk **out,
                               mk_error *err)
{
    mk_status status = new_disk(&disk->media.heap, &disk->options, out, err);

    if (status != MK_OK) return status;
    (*out)->manual = disk->manual;
    (*out)->told_ms = disk->told_ms;
    (*out)->chance = disk->chance;
    (*out)->next_number = disk->next_number;
    (*out)->next_serial = disk->next_serial;
    (*out)->labelled = true;
    return MK_OK;
}

mk_sim_disk *mk_sim_disk_acquire(mk_sim_disk *disk)
{
    atomic_fetch_add_explicit(&disk->references, 1, memory_order_relaxed);
    return disk;
}

void mk_sim_disk_free(mk_sim_disk *disk)
{
    mk_heap heap;

    if (disk == NULL) return;
    if (atomic_fetch_sub_explicit(&disk->references, 1, memory_order_acq_rel) !=
        1) {
        return;
    }
    heap = disk->media.heap;
    mk_sim_disk_disarm(disk);
    mk_sim_disk_drop_atoms(disk);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (disk->nodes[i].used) mk_sim_disk_drop_node(disk, i);
    }
    mk_release(&heap, disk->nodes);
    mk_release(&heap, disk->atoms);
    mk_release(&heap, disk->rules);
    mk_mutex_deinit(&disk->mutex);
    mk_release(&heap, disk);
}

static void copy_node(const mk_sim_node *node, mk_sim_node *copy)
{
    *copy = *node;
    copy->locked = false;
    copy->handles = 0;
    if (!node->used) return;
    if (node->directory) {
        mk_sim_table_acquire(copy->names);
        mk_sim_table_acquire(copy->kept_names);
    } else {
        mk_sim_content_acquire(copy->content);
        mk_sim_content_acquire(copy->kept_content);
    }
}

static void copy_atom(const mk_sim_atom *atom, mk_sim_atom *copy)
{
    *copy = *atom;
    if (atom->bytes != NULL) {
        atomic_fetch_add_explicit(&atom->bytes->references, 1,
                                  memory_order_relaxed);
    }
    for (size_t i = 0; i < atom->setting_count; i++) {
        mk_sim_name_acquire(atom->settings[i].name);
    }
}

/* Copy nodes and atoms to a disk that has none. */
static mk_status copy_parts(const mk_sim_disk *disk, mk_sim_disk *copy,
                            mk_error *err)
{
    const mk_heap *heap = &disk->media.heap;
    size_t nodes_size = disk->node_count * sizeof *disk->nodes;
    size_t atoms_size = disk->atom_count * sizeof *disk->atoms;

    copy->nodes = mk_alloc(heap, nodes_size);
    if (copy->nodes == NULL) return mk_fail_memory(err, nodes_size);
    copy->node_capacity = disk->node_count;
    if (atoms_size > 0) {
        copy->atoms = mk_alloc(heap, atoms_size);
        if (copy->atoms == NULL) return mk_fail_memory(err, atoms_size);
        copy->atom_capacity = disk->atom_count;
    }
    for (size_t i = 0; i < disk->node_count; i++) {
        copy_node(&disk->nodes[i], &copy->nodes[i]);
    }
    for (size_t i = 0; i < disk->atom_count; i++) {
        copy_atom(&disk->atoms[i], &copy->atoms[i]);
    }
    copy->node_count = disk->node_count;
    copy->atom_count = disk->atom_count;
    return MK_OK;
}

mk_status mk_sim_disk_clone(mk_sim_disk *disk, mk_sim_disk **out, mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    mk_status status = mk_sim_disk_new_like(disk, out, err);

    if (status == MK_OK) status = copy_parts(disk, *out, err);
    if (status == MK_OK) {
        (*out)->label = disk->labelled ? disk->label : MK_SIM_KILL9;
        mk_sim_disk_collect(*out);
    } else {
        mk_sim_disk_free(*out);
        *out = NULL;
    }
    mk_sim_disk_leave(disk, nested);
    return status;
}

void mk_sim_disk_options(const mk_sim_disk *disk, mk_sim_options *out)
{
    *out = disk->options;
}

mk_sim_profile mk_sim_disk_profile(mk_sim_disk *disk)
{
    bool nested = mk_sim_disk_enter(disk);
    mk_sim_profile profile = disk->label;

    mk_sim_disk_leave(disk, nested);
    return profile;
}

/* ---- Time ---- */

static bool is_manual(const mk_clock *clock)
{
    return clock->now == mk_clock_manual(NULL).now;
}

int64_t mk_sim_disk_now_ms(const mk_sim_disk *disk)
{
    const mk_manual_clock *given = disk->options.clock.context;

    if (disk->options.clock.now == NULL) return disk->manual.now_ms;
    if (is_manual(&disk->options.clock)) return given->now_ms;
    return disk->told_ms;
}

mk_manual_clock *mk_sim_disk_manual_clock(mk_sim_disk *disk)
{
    if (disk->options.clock.now == NULL) return &disk->manual;
    if (is_manual(&disk->options.clock)) return disk->options.clock.context;
    return NULL;
}

/* The clock is read without the mutex, since it may be anybody's function. */
static mk_status read_given(void *context, int64_t *now_ms, mk_error *err)
{
    mk_sim_disk *disk = context;
    const mk_clock *given = &disk->options.clock;
    mk_status status = given->now(given->context, now_ms, err);
    bool nested;

    if (status != MK_OK) return status;
    nested = mk_sim_disk_enter(disk);
    disk->told_ms = *now_ms;
    mk_sim_disk_leave(disk, nested);
    return MK_OK;
}

mk_clock mk_sim_disk_clock(mk_sim_disk *disk)
{
    mk_manual_clock *manual = mk_sim_disk_manual_clock(disk);

    if (manual != NULL) return mk_clock_manual(manual);
    return (mk_clock){.now = read_given, .context = disk};
}

/* ---- Paths ---- */

static size_t go_up(const char *out, size_t used)
{
    while (used > 0 && out[used - 1] != '/') {
        used--;
    }
    return used > 0 ? used - 1 : 0;
}

int mk_sim_path_clean(const char *path, char out[MK_SIM_PATH_MAX])
{
    size_t used = 0;

    while (*path != '\0') {
        size_t size = strcspn(path, "/");

        if (size == 2 && memcmp(path, "..", 2) == 0) {
            used = go_up(out, used);
        } else if (size > 0 && !(size == 1 && path[0] == '.')) {
            if (size > MK_SIM_NAME_MAX) return ENAMETOOLONG;
            if (used + 1 + size >= MK_SIM_PATH_MAX) return ENAMETOOLONG;
            out[used++] = '/';
            memcpy(out + used, path, size);
            used += size;
        }
        path += size;
        if (*path == '/') path++;
    }
    if (used == 0) out[used++] = '/';
    out[used] = '\0';
    return 0;
}

mk_sim_place mk_sim_disk_find(const mk_sim_disk *disk, const char *path)
{
    mk_sim_place place = {
        .directory = MK_SIM_NOWHERE,
        .node = MK_SIM_ROOT,
        .name = path + 1,
    };
    const char *name = path + 1;

    while (*name != '\0') {
        const mk_sim_node *node;
        const mk_sim_entry *entry;

        place.directory = MK_SIM_NOWHERE;
        if (place.node == MK_SIM_NOWHERE) {
            place.os_errno = ENOENT;
            return place;
        }
        node = &disk->nodes[place.node];
        if (!node->directory) {
            place.node = MK_SIM_NOWHERE;
            place.os_errno = ENOTDIR;
            return place;
        }
        place.directory = place.node;
        place.name = name;
        place.name_size = strcspn(name, "/");
        entry = mk_sim_table_find(node->names, name, place.name_size);
        place.node = entry != NULL ? entry->node : MK_SIM_NOWHERE;
        name += place.name_size;
        if (*name == '/') name++;
    }
    return place;
}

int mk_sim_place_check_file(const mk_sim_disk *disk, const mk_sim_place *place)
{
    if (place->os_errno != 0) return place->os_errno;
    if (place->node == MK_SIM_NOWHERE) return ENOENT;
    return disk->nodes[place->node].directory ? EISDIR : 0;
}

int mk_sim_place_check_directory(const mk_sim_disk *disk,
                                 const mk_sim_place *place)
{
    if (place->os_errno != 0) return place->os_errno;
    if (place->node == MK_SIM_NOWHERE) return ENOENT;
    return disk->nodes[place->node].directory ? 0 : ENOTDIR;
}

/* ---- Room ---- */

static bool is_alive(const mk_sim_node *node)
{
    return node->used && (node->links > 0 || node->handles > 0);
}

int64_t mk_sim_disk_used_bytes(const mk_sim_disk *disk)
{
    int64_t used = 0;

    for (size_t i = 0; i < disk->node_count; i++) {
        const mk_sim_node *node = &disk->nodes[i];

        if (!is_alive(node) || node->directory) continue;
        used += mk_sim_content_used(&disk->media, node->content);
    }
    return used;
}

static void count_files(const mk_sim_disk *disk, mk_sim_stats *stats)
{
    stats->files = 0;
    stats->directories = 0;
    for (size_t i = MK_SIM_ROOT + 1; i < disk->node_count; i++) {
        if (!is_alive(&disk->nodes[i])) continue;
        if (disk->nodes[i].directory) {
            stats->directories++;
        } else {
            stats->files++;
        }
    }
}

bool mk_sim_disk_has_place(const mk_sim_disk *disk)
{
    mk_sim_stats stats;

    if (disk->options.capacity_files < 0) return true;
    count_files(disk, &stats);
    return stats.files + stats.directories <
           (uint64_t)disk->options.capacity_files;
}

void mk_sim_disk_stats(mk_sim_disk *disk, mk_sim_stats *out)
{
    bool nested = mk_sim_disk_enter(disk);

    *out = disk->stats;
    count_files(disk, out);
    out->used_bytes = mk_sim_disk_used_bytes(disk);
    out->pending = disk->atom_count;
    mk_sim_disk_leave(disk, nested);
}
