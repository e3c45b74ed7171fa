/* vfs_sim -- the names and locks of the simulated disk, and its table of
 * methods. */
#include <errno.h>

#include "base/check.h"
#include "os/env.h"
#include "os/sim_change.h"
#include "os/sim_file.h"
#include "os/sim_sync.h"

#include "base/poison.h"

/* ---- Operations on names ---- */

/* An operation on one or two names, in progress. */
typedef struct names_call {
    mk_sim_call call;
    mk_sim_step step;
    mk_sim_place place, to;
    char path[MK_SIM_PATH_MAX];
    char to_path[MK_SIM_PATH_MAX];
} names_call;

/* Look the names up; `to` may be NULL. It ends with mk_sim_call_leave(). */
static mk_status enter(names_call *names, mk_vfs *vfs,
                       mk_sim_operation operation, bool changes,
                       const char *path, const char *to, mk_error *err)
{
    int failed = mk_sim_path_clean(path, names->path);
    mk_status status;

    if (failed == 0 && to != NULL) {
        failed = mk_sim_path_clean(to, names->to_path);
    }
    status = mk_sim_call_enter(&names->call, vfs, changes, err);
    if (status != MK_OK) return status;
    if (failed != 0) {
        return mk_fail_errno(err, failed, path, "cannot %s it",
                             mk_sim_operation_name(operation));
    }
    names->step = (mk_sim_step){
        .operation = operation,
        .path = names->path,
        .to = to != NULL ? names->to_path : NULL,
    };
    names->place = mk_sim_disk_find(names->call.disk, names->path);
    if (to != NULL) {
        names->to = mk_sim_disk_find(names->call.disk, names->to_path);
    }
    return MK_OK;
}

/* Tell the step, which can't be done if `os_errno` is not 0. */
static mk_status begin(names_call *names, int os_errno, mk_error *err)
{
    names->step.os_errno = os_errno;
    return mk_sim_call_step(&names->call, &names->step, err);
}

static const mk_sim_node *node_at(const names_call *names,
                                  const mk_sim_place *place)
{
    return &names->call.disk->nodes[place->node];
}

/* Return the errno with which a place has nothing. */
static int check_there(const mk_sim_place *place)
{
    if (place->os_errno != 0) return place->os_errno;
    return place->node == MK_SIM_NOWHERE ? ENOENT : 0;
}

/* ... or has no room for something new. */
static int check_new(const mk_sim_place *place)
{
    if (place->os_errno != 0) return place->os_errno;
    return place->node != MK_SIM_NOWHERE ? EEXIST : 0;
}

/* Does `path` lead to something below the directory `above`? */
static bool is_below(const char *path, const char *above)
{
    size_t size = strlen(above);

    return strncmp(path, above, size) == 0 && path[size] == '/';
}

static mk_status sim_stat(mk_vfs *vfs, const char *path, mk_file_stat *out,
                          mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_STAT, false, path, NULL, err);

    if (status == MK_OK) status = begin(&names, check_there(&names.place), err);
    if (status == MK_OK) {
        mk_sim_node_stat(node_at(&names, &names.place), out);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static mk_status sim_set_mtime(mk_vfs *vfs, const char *path, int64_t mtime_ms,
                               mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_UTIME, true, path, NULL, err);

    if (status == MK_OK) status = begin(&names, check_there(&names.place), err);
    if (status == MK_OK) {
        status = mk_sim_change_time(names.call.disk, names.place.node, mtime_ms,
                                    err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

/* The kernel looks up both directories before the names. */
static int check_directories(const names_call *names)
{
    if (names->place.os_errno != 0) return names->place.os_errno;
    return names->to.os_errno;
}

static int check_rename(const names_call *names)
{
    int failed = check_directories(names);
    const mk_sim_node *from;
    const mk_sim_node *to;

    if (failed == 0) failed = check_there(&names->place);
    if (failed != 0) return failed;
    if (names->place.directory == MK_SIM_NOWHERE) return EBUSY;
    if (names->to.directory == MK_SIM_NOWHERE) return EBUSY;
    if (is_below(names->to_path, names->path)) return EINVAL;
    if (is_below(names->path, names->to_path)) return ENOTEMPTY;
    if (names->to.node == MK_SIM_NOWHERE) return 0;
    from = node_at(names, &names->place);
    to = node_at(names, &names->to);
    if (from == to) return 0;
    if (from->directory && !to->directory) return ENOTDIR;
    if (!from->directory && to->directory) return EISDIR;
    return to->directory && to->names->count > 0 ? ENOTEMPTY : 0;
}

static mk_status sim_rename(mk_vfs *vfs, const char *from, const char *to,
                            mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_RENAME, true, from, to, err);

    if (status == MK_OK) status = begin(&names, check_rename(&names), err);
    if (status == MK_OK) {
        status =
            mk_sim_change_rename(names.call.disk, &names.place, &names.to, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static int check_exchange(const names_call *names)
{
    int failed;

    if (!names->call.disk->options.exchange) return EINVAL;
    failed = check_directories(names);
    if (failed == 0) failed = check_there(&names->place);
    if (failed == 0) failed = check_there(&names->to);
    if (failed != 0) return failed;
    if (names->place.directory == MK_SIM_NOWHERE) return EBUSY;
    if (names->to.directory == MK_SIM_NOWHERE) return EBUSY;
    if (is_below(names->to_path, names->path)) return EINVAL;
    return is_below(names->path, names->to_path) ? EINVAL : 0;
}

static mk_status sim_exchange(mk_vfs *vfs, const char *a, const char *b,
                              mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_EXCHANGE, true, a, b, err);

    if (status == MK_OK) {
        status = begin(&names, check_exchange(&names), err);
        if (names.step.failed == EINVAL) {
            if (err != NULL) err->status = MK_UNSUPPORTED;
            status = MK_UNSUPPORTED;
        }
    }
    if (status == MK_OK) {
        status = mk_sim_change_exchange(names.call.disk, &names.place,
                                        &names.to, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static int check_link(const names_call *names)
{
    int failed = check_there(&names->place);

    if (failed == 0) failed = check_new(&names->to);
    if (failed != 0) return failed;
    return node_at(names, &names->place)->directory ? EPERM : 0;
}

static mk_status sim_link(mk_vfs *vfs, const char *from, const char *to,
                          mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_LINK, true, from, to, err);

    if (status == MK_OK) status = begin(&names, check_link(&names), err);
    if (status == MK_OK) {
        status = mk_sim_change_link(names.call.disk, names.place.node,
                                    &names.to, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static mk_status sim_unlink(mk_vfs *vfs, const char *path, mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_UNLINK, true, path, NULL, err);

    if (status == MK_OK) {
        status =
            begin(&names,
                  mk_sim_place_check_file(names.call.disk, &names.place), err);
    }
    if (status == MK_OK) {
        status = mk_sim_change_remove(names.call.disk, &names.place, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static int check_mkdir(const names_call *names)
{
    int failed = check_new(&names->place);

    if (failed != 0) return failed;
    return mk_sim_disk_has_place(names->call.disk) ? 0 : ENOSPC;
}

static mk_status sim_mkdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    uint32_t node;
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_MKDIR, true, path, NULL, err);

    if (status == MK_OK) status = begin(&names, check_mkdir(&names), err);
    if (status == MK_OK) {
        status = mk_sim_change_create(names.call.disk, &names.place, true,
                                      &node, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static int check_rmdir(const names_call *names)
{
    int failed = mk_sim_place_check_directory(names->call.disk, &names->place);

    if (failed != 0) return failed;
    if (names->place.directory == MK_SIM_NOWHERE) return EBUSY;
    return node_at(names, &names->place)->names->count > 0 ? ENOTEMPTY : 0;
}

static mk_status sim_rmdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_RMDIR, true, path, NULL, err);

    if (status == MK_OK) status = begin(&names, check_rmdir(&names), err);
    if (status == MK_OK) {
        status = mk_sim_change_remove(names.call.disk, &names.place, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

static mk_status sim_sync_directory(mk_vfs *vfs, const char *path,
                                    mk_sync_name name, mk_error *err)
{
    names_call names;
    mk_status status =
        enter(&names, vfs, MK_SIM_FSYNC_DIR, true, path, NULL, err);

    if (status == MK_OK) {
        names.step.sync = mk_sim_sync_word(name);
        status = begin(
            &names, mk_sim_place_check_directory(names.call.disk, &names.place),
            err);
    }
    if (status == MK_OK && (names.call.disk->left_out >> name & 1) == 0) {
        status = mk_sim_sync_directory(names.call.disk, names.place.node, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

/* ---- Listing ---- */

static mk_status fill_list(const mk_sim_disk *disk, const mk_sim_table *table,
                           mk_name_list *out, mk_error *err)
{
    size_t size = table->count * sizeof *out->names;
    char *name;

    if (table->count == 0) return MK_OK;
    for (size_t i = 0; i < table->count; i++) {
        size += table->entries[i].name->size + 1;
    }
    out->names = mk_alloc(out->heap, size);
    out->kinds = mk_alloc(out->heap, table->count * sizeof *out->kinds);
    if (out->names == NULL || out->kinds == NULL) {
        mk_name_list_deinit(out);
        return mk_fail_memory(err, size);
    }
    name = (char *)(out->names + table->count);
    for (size_t i = 0; i < table->count; i++) {
        const mk_sim_entry *entry = &table->entries[i];

        memcpy(name, entry->name->text, entry->name->size + 1);
        out->names[i] = name;
        out->kinds[i] = disk->nodes[entry->node].directory ? MK_KIND_DIRECTORY
                                                           : MK_KIND_FILE;
        name += entry->name->size + 1;
    }
    out->count = table->count;
    return MK_OK;
}

static mk_status sim_list(mk_vfs *vfs, const char *path, mk_name_list *out,
                          mk_error *err)
{
    names_call names;
    mk_status status = enter(&names, vfs, MK_SIM_LIST, false, path, NULL, err);

    if (status == MK_OK) {
        status = begin(
            &names, mk_sim_place_check_directory(names.call.disk, &names.place),
            err);
    }
    if (status == MK_OK) {
        status = fill_list(names.call.disk,
                           node_at(&names, &names.place)->names, out, err);
    }
    mk_sim_call_leave(&names.call);
    return status;
}

/* ---- Locks ---- */

static mk_status fail_locked(const names_call *names, mk_error *err)
{
    const mk_sim_content *content = node_at(names, &names->place)->content;
    uint8_t holder[201];
    size_t size = sizeof holder - 1;
    size_t end = 0;

    if (content->size < (int64_t)size) size = (size_t)content->size;
    mk_sim_content_get(&names->call.disk->media, content, 0, holder, size);
    while (end < size && holder[end] >= ' ') {
        end++;
    }
    holder[end] = '\0';
    return mk_fail_at(err, MK_LOCKED, names->path, -1, "%s is held by %s",
                      names->path,
                      end > 0 ? (const char *)holder : "another opener");
}

static int check_lock(const names_call *names)
{
    int found = mk_sim_place_check_file(names->call.disk, &names->place);

    if (found == EISDIR) return EINVAL;
    if (found == 0) {
        return node_at(names, &names->place)->locked ? EAGAIN : 0;
    }
    if (names->place.os_errno != 0) return found;
    return mk_sim_disk_has_place(names->call.disk) ? 0 : ENOSPC;
}

/* Make a content of the holder's text. */
static mk_status new_text(const mk_sim_media *media, const char *text,
                          mk_sim_content **out, mk_error *err)
{
    size_t size = strlen(text);
    mk_status status = mk_sim_content_new(media, out, err);

    if (status == MK_OK) {
        status = mk_sim_content_prepare(media, *out, 0, size, err);
    }
    if (status != MK_OK) {
        mk_sim_content_release(media, *out);
        *out = NULL;
        return status;
    }
    mk_sim_content_put(media, *out, 0, (const uint8_t *)text, size);
    (*out)->size = (int64_t)size;
    return MK_OK;
}

/* The text is stable at once, as no one asks it anything after a crash: it
 * would only multiply the states. */
static mk_status lock_node(names_call *names, const char *holder,
                           mk_sim_file *file, mk_error *err)
{
    mk_sim_disk *disk = names->call.disk;
    uint32_t node = names->place.node;
    mk_sim_content *text;
    mk_status status = begin(names, check_lock(names), err);

    if (status != MK_OK) {
        if (names->step.failed == EAGAIN && !names->step.hit) {
            return fail_locked(names, err);
        }
        return status;
    }
    status = new_text(&disk->media, holder, &text, err);
    if (status == MK_OK && node == MK_SIM_NOWHERE) {
        status = mk_sim_change_create(disk, &names->place, false, &node, err);
    }
    if (status != MK_OK) {
        mk_sim_content_release(&disk->media, text);
        return status;
    }
    mk_sim_change_content(disk, node, text);
    mk_sim_file_attach(file, node);
    disk->nodes[node].locked = true;
    file->has_lock = true;
    return MK_OK;
}

static mk_status sim_lock(mk_vfs *vfs, const char *path, const char *holder,
                          mk_file **out, mk_error *err)
{
    names_call names;
    mk_sim_file *file = NULL;
    mk_status status = enter(&names, vfs, MK_SIM_LOCK, true, path, NULL, err);

    if (status == MK_OK) status = mk_sim_file_new(vfs, names.path, &file, err);
    if (status == MK_OK) status = lock_node(&names, holder, file, err);
    mk_sim_call_leave(&names.call);
    if (status == MK_OK) {
        *out = &file->base;
    } else if (file != NULL) {
        mk_sim_file_free(file);
    }
    return status;
}

/* ---- The disk ---- */

/* There are no symbolic links, and "/" is where everybody works. */
static mk_status sim_resolve(mk_vfs *vfs, const char *path, char *out,
                             size_t out_size, mk_error *err)
{
    char clean[MK_SIM_PATH_MAX];
    int failed = path[0] == '\0' ? ENOENT : mk_sim_path_clean(path, clean);

    (void)vfs;
    if (failed == 0 && strlen(clean) >= out_size) failed = ENAMETOOLONG;
    if (failed != 0) {
        return mk_fail_errno(err, failed, path, "cannot resolve %s", path);
    }
    memcpy(out, clean, strlen(clean) + 1);
    return MK_OK;
}

static void sim_release(mk_vfs *vfs)
{
    mk_sim_disk *disk = ((mk_sim_vfs *)vfs)->disk;
    mk_heap heap = vfs->heap;

    mk_release(&heap, vfs);
    mk_sim_disk_free(disk);
}

static const mk_vfs_methods methods = {
    .release = sim_release,
    .open = mk_sim_file_open,
    .close = mk_sim_file_close,
    .stat_file = mk_sim_file_stat,
    .view = mk_sim_file_view,
    .write = mk_sim_file_write,
    .truncate = mk_sim_file_truncate,
    .allocate = mk_sim_file_allocate,
    .sync = mk_sim_file_sync,
    .tail_begin = mk_sim_file_tail_begin,
    .tail_reserve = mk_sim_file_tail_reserve,
    .tail_commit = mk_sim_file_tail_commit,
    .tail_end = mk_sim_file_tail_end,
    .stat = sim_stat,
    .set_mtime = sim_set_mtime,
    .rename = sim_rename,
    .exchange = sim_exchange,
    .link = sim_link,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .rmdir = sim_rmdir,
    .list = sim_list,
    .sync_directory = sim_sync_directory,
    .lock = sim_lock,
    .resolve = sim_resolve,
};

mk_status mk_env_new_sim(mk_sim_disk *disk, mk_env **out, mk_error *err)
{
    const mk_heap *heap = &disk->media.heap;
    mk_sim_vfs *vfs = mk_alloc_zero(heap, sizeof *vfs);
    uint64_t seed;
    bool nested;

    *out = NULL;
    if (vfs == NULL) return mk_fail_memory(err, sizeof *vfs);
    nested = mk_sim_disk_enter(disk);
    vfs->session = disk->session;
    seed = mk_sim_mix(disk->options.seed + ++disk->env_count);
    mk_sim_disk_leave(disk, nested);
    vfs->base.methods = &methods;
    vfs->base.heap = *heap;
    vfs->base.session = &disk->session;
    vfs->base.dead_status = MK_CRASHED;
    vfs->disk = mk_sim_disk_acquire(disk);
    return mk_env_new(heap, &vfs->base, mk_sim_disk_clock(disk), seed, out,
                      err);
}
