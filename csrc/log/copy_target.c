/* copy_target -- checking a name, building beside it, taking it. */
#include "log/copy_target.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "log/life.h"

#include "base/poison.h"

/* ---- May it have that name? ---- */

static bool is_inside(const char *path, const char *directory)
{
    size_t size = strlen(directory);

    if (strcmp(directory, "/") == 0) return true;
    return strncmp(path, directory, size) == 0 &&
           (path[size] == '/' || path[size] == '\0');
}

static mk_status fail_taken(const char *path, const char *what, mk_error *err)
{
    return mk_fail_at(err, MK_INVALID_ARGUMENT, path, -1,
                      "a log cannot be copied to %s: %s", path, what);
}

/* Is nothing there, or an empty directory? */
static mk_status check_free(mk_copy_target *target, mk_error *err)
{
    mk_name_list names;
    mk_file_stat stat;
    size_t count;
    mk_status status = mk_vfs_stat(target->env->vfs, target->path, &stat, err);

    if (status == MK_NOT_FOUND) return MK_OK;
    if (status != MK_OK) return status;
    if (stat.kind != MK_KIND_DIRECTORY) {
        return fail_taken(target->path, "it is no directory", err);
    }
    status = mk_vfs_list(target->env->vfs, target->path, &names, err);
    if (status != MK_OK) return status;
    count = names.count;
    mk_name_list_deinit(&names);
    if (count > 0) return fail_taken(target->path, "it is not empty", err);
    target->was_there = true;
    return MK_OK;
}

/* A swap that was cut short may have left the log of that name beside it. */
static mk_status check_siblings(const mk_copy_target *target, mk_error *err)
{
    for (int i = MK_SIBLING_NEW; i <= MK_SIBLING_OLD; i++) {
        char path[MK_PATH_MAX];
        mk_file_stat stat;
        mk_status status = mk_name_sibling(path, sizeof path, target->path,
                                           (mk_sibling)i, err);

        if (status == MK_OK) {
            status = mk_vfs_stat(target->env->vfs, path, &stat, err);
        }
        if (status == MK_OK) {
            return fail_taken(target->path,
                              "a swap has left a log of that name beside it",
                              err);
        }
        if (status != MK_NOT_FOUND) return status;
    }
    return MK_OK;
}

static mk_status check_name(mk_copy_target *target, const char *source,
                            mk_error *err)
{
    mk_status status;

    if (is_inside(target->path, source)) {
        return fail_taken(target->path, "that is inside the log itself", err);
    }
    if (strncmp(mk_name_last(target->path), "minikafka.", 10) == 0) {
        return fail_taken(target->path, "such names are reserved", err);
    }
    status = check_free(target, err);
    if (status != MK_OK) return status;
    return check_siblings(target, err);
}

/* ---- The tree ---- */

/* Is it one of the files that a copy is made of? */
static bool is_part(const char *name)
{
    mk_file_name parsed = mk_name_parse(name);

    if (parsed.role == MK_ROLE_UNKNOWN) {
        return strncmp(name, MK_NAME_EPOCHS, strlen(MK_NAME_EPOCHS)) == 0 ||
               strncmp(name, MK_NAME_METADATA, strlen(MK_NAME_METADATA)) == 0;
    }
    return parsed.stage == MK_STAGE_FINAL;
}

/* Unlink what a copy is made of, but for the lock. Errors: INVALID_ARGUMENT if
 * there is something else. */
static mk_status clear_tree(const mk_copy_target *target, mk_error *err)
{
    mk_vfs *vfs = target->env->vfs;
    mk_name_list names;
    mk_status status = mk_vfs_list(vfs, target->tree, &names, err);

    if (status != MK_OK) return status;
    for (size_t i = 0; status == MK_OK && i < names.count; i++) {
        char path[MK_PATH_MAX];

        if (strcmp(names.names[i], MK_NAME_LOCK) == 0) continue;
        status =
            mk_name_join(path, sizeof path, target->tree, names.names[i], err);
        if (status != MK_OK) break;
        if (names.kinds[i] == MK_KIND_FILE && is_part(names.names[i])) {
            status = mk_vfs_unlink(vfs, path, err);
        } else {
            status =
                fail_taken(target->path, "there is no room beside it", err);
            mk_wrap(err, "%s is not ours", path);
        }
    }
    mk_name_list_deinit(&names);
    return status;
}

static mk_status lock_tree(mk_copy_target *target, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_name_join(path, sizeof path, target->tree, MK_NAME_LOCK, err);
    if (status != MK_OK) return status;
    return mk_vfs_lock(target->env->vfs, path, target->env->holder,
                       &target->lock, err);
}

static mk_status make_tree(mk_copy_target *target, mk_error *err)
{
    mk_vfs *vfs = target->env->vfs;
    char parent[MK_PATH_MAX];
    mk_status status;

    status = mk_name_sibling(target->tree, sizeof target->tree, target->path,
                             MK_SIBLING_COPY, err);
    if (status == MK_OK) {
        status = mk_name_parent(parent, sizeof parent, target->path, err);
    }
    if (status == MK_OK) status = mk_log_make_directory(vfs, parent, err);
    if (status == MK_OK) status = mk_vfs_mkdir(vfs, target->tree, err);
    if (status == MK_IO && err->os_errno == EEXIST) status = MK_OK;
    if (status == MK_OK) status = lock_tree(target, err);
    if (status != MK_OK) {
        /* Where another copy is being made it is not empty. */
        (void)!mk_vfs_rmdir(vfs, target->tree, NULL);
        return status;
    }
    return clear_tree(target, err);
}

/* Remove the tree. What can't be removed now is, by the next copy. */
static void remove_tree(const mk_copy_target *target)
{
    mk_vfs *vfs = target->env->vfs;
    char path[MK_PATH_MAX];

    if (clear_tree(target, NULL) != MK_OK) return;
    if (mk_name_join(path, sizeof path, target->tree, MK_NAME_LOCK, NULL) !=
            MK_OK ||
        mk_vfs_unlink(vfs, path, NULL) != MK_OK) {
        return;
    }
    (void)!mk_vfs_rmdir(vfs, target->tree, NULL);
}

/* ---- Public functions ---- */

mk_status mk_copy_target_begin(mk_copy_target *target, mk_env *env,
                               const char *source, const char *directory,
                               mk_error *err)
{
    mk_status status;

    *target = (mk_copy_target){.env = env};
    status = mk_vfs_resolve(env->vfs, directory, target->path,
                            sizeof target->path, err);
    if (status == MK_OK) status = check_name(target, source, err);
    if (status != MK_OK) return status;
    status = make_tree(target, err);
    if (status != MK_OK) mk_copy_target_deinit(target);
    return status;
}

/* Undo what publishing did. */
static void take_back(const mk_copy_target *target)
{
    mk_vfs *vfs = target->env->vfs;

    if (mk_vfs_rename(vfs, target->path, target->tree, NULL) != MK_OK) return;
    if (target->was_there) (void)!mk_vfs_mkdir(vfs, target->path, NULL);
}

mk_status mk_copy_target_publish(mk_copy_target *target, mk_error *err)
{
    mk_vfs *vfs = target->env->vfs;
    char parent[MK_PATH_MAX];
    mk_status status;

    status = mk_name_parent(parent, sizeof parent, target->path, err);
    if (status == MK_OK) status = check_siblings(target, err);
    if (status != MK_OK) return status;
    status = mk_vfs_rename(vfs, target->tree, target->path, err);
    if (status == MK_IO &&
        (err->os_errno == ENOTEMPTY || err->os_errno == EEXIST ||
         err->os_errno == ENOTDIR)) {
        return fail_taken(target->path, "something has taken the name", err);
    }
    if (status != MK_OK) return status;
    status = mk_vfs_sync_directory(vfs, parent, MK_SYNC_COPY_PARENT, err);
    if (status == MK_OK) {
        (void)mk_file_close(target->lock, NULL); /* Nothing was written. */
        target->lock = NULL;
    } else {
        take_back(target);
    }
    return status;
}

void mk_copy_target_deinit(mk_copy_target *target)
{
    if (target->lock == NULL) return;
    remove_tree(target);
    (void)mk_file_close(target->lock, NULL); /* Nothing was written. */
    target->lock = NULL;
}
