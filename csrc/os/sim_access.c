/* sim_access -- looking into a simulated disk from outside, and changing it
 * there behind the back of its processes. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "os/sim_change.h"
#include "os/sim_image.h"
#include "os/sim_sync.h"

#include "base/poison.h"

#define ZEROS_SIZE 256u

static mk_status fail_busy(mk_error *err)
{
    return mk_fail(err, MK_BUSY, "the disk is telling an operation");
}

/* ---- Listing ---- */

/* Paths, while they are counted and then while they are written. */
typedef struct path_list {
    const mk_sim_disk *disk; /* Borrowed. */
    size_t count, bytes;
    char **paths; /* NULL while they are counted. */
    char *at;     /* Where the next one is written. */
} path_list;

static void take_path(path_list *listing, const char *path, size_t size)
{
    listing->count++;
    listing->bytes += size + 1;
    if (listing->paths == NULL) return;
    memcpy(listing->at, path, size);
    listing->at[size] = '\0';
    listing->paths[listing->count - 1] = listing->at;
    listing->at += size + 1;
}

/* `path` has the directory's own, `size` bytes, and room for more. */
static void walk(path_list *listing, uint32_t directory, char *path,
                 size_t size)
{
    const mk_sim_table *names = listing->disk->nodes[directory].names;

    path[size++] = '/';
    for (size_t i = 0; i < names->count; i++) {
        const mk_sim_entry *entry = &names->entries[i];
        size_t end = size + entry->name->size;

        if (end + 1 >= MK_SIM_PATH_MAX) continue; /* Nobody can name it. */
        memcpy(path + size, entry->name->text, entry->name->size);
        if (listing->disk->nodes[entry->node].directory) {
            walk(listing, entry->node, path, end);
        } else {
            take_path(listing, path, end);
        }
    }
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static mk_status list_paths(const mk_sim_disk *disk, mk_sim_paths *out,
                            mk_error *err)
{
    char path[MK_SIM_PATH_MAX];
    path_list listing = {.disk = disk};
    size_t size;

    walk(&listing, MK_SIM_ROOT, path, 0);
    if (listing.count == 0) return MK_OK;
    size = listing.count * sizeof *out->paths + listing.bytes;
    out->paths = mk_alloc(&out->heap, size);
    if (out->paths == NULL) return mk_fail_memory(err, size);
    listing.paths = out->paths;
    listing.at = (char *)(out->paths + listing.count);
    listing.count = 0;
    walk(&listing, MK_SIM_ROOT, path, 0);
    qsort(out->paths, listing.count, sizeof *out->paths, compare_paths);
    out->count = listing.count;
    return MK_OK;
}

mk_status mk_sim_disk_list(mk_sim_disk *disk, mk_sim_paths *out, mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    mk_status status;

    *out = (mk_sim_paths){.heap = disk->media.heap};
    status = list_paths(disk, out, err);
    mk_sim_disk_leave(disk, nested);
    return status;
}

void mk_sim_paths_deinit(mk_sim_paths *paths)
{
    if (paths->heap.resize == NULL) return;
    mk_release(&paths->heap, paths->paths);
    *paths = (mk_sim_paths){0};
}

/* ---- Reading ---- */

/* Find the file; its node is NOWHERE on failure. */
static mk_status find_file(const mk_sim_disk *disk, const char *path,
                           uint32_t *node, mk_error *err)
{
    char clean[MK_SIM_PATH_MAX];
    int failed = mk_sim_path_clean(path, clean);
    mk_sim_place place;

    *node = MK_SIM_NOWHERE;
    if (failed == 0) {
        place = mk_sim_disk_find(disk, clean);
        failed = mk_sim_place_check_file(disk, &place);
    }
    if (failed != 0) {
        return mk_fail_errno(err, failed, path, "no file %s", path);
    }
    *node = place.node;
    return MK_OK;
}

mk_status mk_sim_disk_size(mk_sim_disk *disk, const char *path, int64_t *out,
                           mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    uint32_t node;
    mk_status status = find_file(disk, path, &node, err);

    *out = status == MK_OK ? disk->nodes[node].content->size : 0;
    mk_sim_disk_leave(disk, nested);
    return status;
}

mk_status mk_sim_disk_read(mk_sim_disk *disk, const char *path,
                           int64_t position, void *bytes, size_t size,
                           size_t *done, mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    uint32_t node;
    mk_status status = find_file(disk, path, &node, err);

    *done = 0;
    if (status == MK_OK && position < disk->nodes[node].content->size) {
        const mk_sim_content *content = disk->nodes[node].content;
        uint64_t left = (uint64_t)(content->size - position);

        *done = size < left ? size : (size_t)left;
        mk_sim_content_get(&disk->media, content, position, bytes, *done);
    }
    mk_sim_disk_leave(disk, nested);
    return status;
}

mk_status mk_sim_disk_hash(mk_sim_disk *disk, uint64_t out[2], mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    mk_sim_hash hash = {0, 0};
    mk_sim_forest *forest;
    mk_status status = mk_sim_forest_new(disk, NULL, &forest, err);

    for (uint32_t i = 0; status == MK_OK && i < disk->node_count; i++) {
        const mk_sim_node *node = &disk->nodes[i];

        if (forest->links[i] == 0) continue;
        hash = mk_sim_hash_add(
            hash, mk_sim_image_part_hash(
                      forest, i,
                      mk_sim_image_node_hash(node->content, node->mtime_ms)));
    }
    mk_sim_forest_free(disk, forest);
    mk_sim_disk_leave(disk, nested);
    out[0] = hash.a;
    out[1] = hash.b;
    return status;
}

/* ---- Writing ---- */

static mk_status new_content(const mk_sim_media *media, const void *bytes,
                             size_t size, mk_sim_content **out, mk_error *err)
{
    mk_status status = mk_sim_content_new(media, out, err);

    if (status == MK_OK) {
        status = mk_sim_content_prepare(media, *out, 0, size, err);
    }
    if (status != MK_OK) {
        mk_sim_content_release(media, *out);
        *out = NULL;
        return status;
    }
    if (size > 0) mk_sim_content_put(media, *out, 0, bytes, size);
    (*out)->size = (int64_t)size;
    return MK_OK;
}

/* Drop a row of new nodes, each the only one in the one before it. */
static void drop_row(mk_sim_disk *disk, uint32_t node)
{
    while (node != MK_SIM_NOWHERE) {
        const mk_sim_table *names = disk->nodes[node].names;
        bool ends = names == NULL || names->count == 0;
        uint32_t below = ends ? MK_SIM_NOWHERE : names->entries[0].node;

        mk_sim_disk_drop_node(disk, node);
        node = below;
    }
}

/* Let the name lead to a new node, in both states of a directory. */
static mk_status hang(mk_sim_disk *disk, uint32_t directory, const char *text,
                      size_t size, uint32_t node, mk_error *err)
{
    const mk_heap *heap = &disk->media.heap;
    mk_sim_node *above = &disk->nodes[directory];
    mk_sim_name *name;
    mk_status status = mk_sim_name_new(heap, text, size, &name, err);

    if (status == MK_OK) {
        status = mk_sim_table_prepare(heap, &above->names, 1, err);
    }
    if (status == MK_OK) {
        status = mk_sim_table_prepare(heap, &above->kept_names, 1, err);
    }
    if (status == MK_OK) {
        mk_sim_table_set(above->names, name, node);
        mk_sim_table_set(above->kept_names, name, node);
        disk->nodes[node].links++;
        disk->nodes[node].handles = 0;
    }
    mk_sim_name_release(heap, name);
    return status;
}

/* Make a file, and around it the directories that `rest` names before its last
 * name, from below. The nodes are held like open files, so that they are not
 * collected before they have a name. */
static mk_status new_row(mk_sim_disk *disk, const char *rest, uint32_t *top,
                         mk_error *err)
{
    const char *end = rest + strlen(rest);
    mk_status status = mk_sim_disk_add_node(disk, false, top, err);

    if (status != MK_OK) return status;
    disk->nodes[*top].handles = 1;
    for (;;) {
        const char *name = end;
        uint32_t directory;

        while (name > rest && name[-1] != '/') {
            name--;
        }
        if (name == rest) return MK_OK;
        status = mk_sim_disk_add_node(disk, true, &directory, err);
        if (status != MK_OK) break;
        disk->nodes[directory].handles = 1;
        status = hang(disk, directory, name, (size_t)(end - name), *top, err);
        if (status != MK_OK) {
            mk_sim_disk_drop_node(disk, directory);
            break;
        }
        *top = directory;
        end = name - 1;
    }
    drop_row(disk, *top);
    *top = MK_SIM_NOWHERE;
    return status;
}

static uint32_t end_of_row(const mk_sim_disk *disk, uint32_t node)
{
    while (disk->nodes[node].directory) {
        node = disk->nodes[node].names->entries[0].node;
    }
    return node;
}

/* Find the file or make it, with a stable name; `path` is clean. */
static mk_status find_or_make(mk_sim_disk *disk, char *path, uint32_t *file,
                              mk_error *err)
{
    char *end = path;
    mk_sim_place place;
    uint32_t top;
    mk_status status;

    for (;;) {
        char stop;

        end += 1 + strcspn(end + 1, "/");
        stop = *end;
        *end = '\0';
        place = mk_sim_disk_find(disk, path);
        *end = stop;
        if (place.os_errno != 0 || place.directory == MK_SIM_NOWHERE) {
            int failed = place.os_errno != 0 ? place.os_errno : EISDIR;

            return mk_fail_errno(err, failed, path, "cannot write %s", path);
        }
        status = mk_sim_sync_name(disk, &place, err);
        if (status != MK_OK) return status;
        if (place.node == MK_SIM_NOWHERE || stop == '\0') break;
    }
    if (place.node != MK_SIM_NOWHERE) {
        *file = place.node;
        if (!disk->nodes[place.node].directory) return MK_OK;
        return mk_fail_errno(err, EISDIR, path, "cannot write %s", path);
    }
    status = new_row(disk, place.name, &top, err);
    if (status != MK_OK) return status;
    *file = end_of_row(disk, top);
    status = hang(disk, place.directory, place.name, place.name_size, top, err);
    if (status != MK_OK) drop_row(disk, top);
    return status;
}

mk_status mk_sim_disk_write(mk_sim_disk *disk, const char *path,
                            const void *bytes, size_t size, mk_error *err)
{
    char clean[MK_SIM_PATH_MAX];
    int failed = mk_sim_path_clean(path, clean);
    bool nested;
    mk_sim_content *content = NULL;
    uint32_t node = MK_SIM_NOWHERE;
    mk_status status;

    if (failed == 0 && size > (uint64_t)MK_SIM_FILE_MAX) failed = EFBIG;
    if (failed != 0) {
        return mk_fail_errno(err, failed, path, "cannot write %s", path);
    }
    nested = mk_sim_disk_enter(disk);
    status = nested ? fail_busy(err)
                    : new_content(&disk->media, bytes, size, &content, err);
    if (status == MK_OK) status = find_or_make(disk, clean, &node, err);
    if (status == MK_OK) {
        disk->nodes[node].mtime_ms = mk_sim_disk_now_ms(disk);
        mk_sim_change_settle(disk, node);
        mk_sim_change_content(disk, node, content);
    } else {
        mk_sim_content_release(&disk->media, content);
    }
    mk_sim_disk_leave(disk, nested);
    return status;
}

/* ---- Damage ---- */

/* Find the file, check that `end` lies in it, and begin a copy of its content,
 * which the caller damages. */
static mk_status begin_damage(mk_sim_disk *disk, const char *path, int64_t end,
                              uint32_t *node, mk_sim_content **content,
                              mk_error *err)
{
    mk_status status = find_file(disk, path, node, err);

    *content = NULL;
    if (status != MK_OK) return status;
    if (end < 0 || end > disk->nodes[*node].content->size) {
        return mk_fail_at(err, MK_INVALID_ARGUMENT, path, end, "outside of %s",
                          path);
    }
    *content = mk_sim_content_acquire(disk->nodes[*node].content);
    return mk_sim_content_unshare(&disk->media, content, err);
}

/* Put the damaged content in its place, or, by the status, drop it. */
static void end_damage(mk_sim_disk *disk, uint32_t node,
                       mk_sim_content *content, mk_status status)
{
    if (status != MK_OK) {
        mk_sim_content_release(&disk->media, content);
        return;
    }
    mk_sim_change_settle(disk, node);
    mk_sim_change_content(disk, node, content);
}

mk_status mk_sim_disk_flip(mk_sim_disk *disk, const char *path, int64_t bit,
                           mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    const mk_sim_media *media = &disk->media;
    int64_t position = bit >= 0 ? bit / 8 : -2;
    mk_sim_content *content = NULL;
    uint32_t node = MK_SIM_NOWHERE;
    uint8_t byte;
    mk_status status =
        nested ? fail_busy(err)
               : begin_damage(disk, path, position + 1, &node, &content, err);

    if (status == MK_OK) {
        status = mk_sim_content_prepare(media, content, position, 1, err);
    }
    if (status == MK_OK) {
        mk_sim_content_get(media, content, position, &byte, 1);
        byte = (uint8_t)(byte ^ 1u << bit % 8);
        mk_sim_content_put(media, content, position, &byte, 1);
    }
    end_damage(disk, node, content, status);
    mk_sim_disk_leave(disk, nested);
    return status;
}

mk_status mk_sim_disk_zero(mk_sim_disk *disk, const char *path,
                           int64_t position, int64_t size, mk_error *err)
{
    static const uint8_t zeros[ZEROS_SIZE];
    bool nested = mk_sim_disk_enter(disk);
    bool in_range = position >= 0 && size >= 0 && size <= INT64_MAX - position;
    mk_sim_content *content = NULL;
    uint32_t node = MK_SIM_NOWHERE;
    mk_status status =
        nested ? fail_busy(err)
               : begin_damage(disk, path, in_range ? position + size : -1,
                              &node, &content, err);

    if (status == MK_OK) {
        status = mk_sim_content_prepare(&disk->media, content, position,
                                        (size_t)size, err);
    }
    while (status == MK_OK && size > 0) {
        int64_t part = size < (int64_t)ZEROS_SIZE ? size : (int64_t)ZEROS_SIZE;

        mk_sim_content_put(&disk->media, content, position, zeros,
                           (size_t)part);
        position += part;
        size -= part;
    }
    end_damage(disk, node, content, status);
    mk_sim_disk_leave(disk, nested);
    return status;
}

mk_status mk_sim_disk_cut(mk_sim_disk *disk, const char *path, int64_t size,
                          mk_error *err)
{
    bool nested = mk_sim_disk_enter(disk);
    mk_sim_content *content = NULL;
    uint32_t node = MK_SIM_NOWHERE;
    mk_status status =
        nested ? fail_busy(err)
               : begin_damage(disk, path, size, &node, &content, err);

    if (status == MK_OK) {
        status = mk_sim_content_prepare_cut(&disk->media, content, size, err);
    }
    if (status == MK_OK) mk_sim_content_cut(&disk->media, content, size);
    end_damage(disk, node, content, status);
    mk_sim_disk_leave(disk, nested);
    return status;
}
