/* unproven_file -- a file that is there, or is not. */
#include "store/unproven_file.h"

#include "store/names.h"

#include "base/poison.h"

/* Where no file can be made: the reserve has one. */
static mk_status rename_reserve(mk_vfs *vfs, const char *directory,
                                const char *path, mk_error *err)
{
    char reserve[MK_PATH_MAX];
    mk_status status =
        mk_name_join(reserve, sizeof reserve, directory, MK_NAME_RESERVE, err);

    return status == MK_OK ? mk_vfs_rename(vfs, reserve, path, err) : status;
}

mk_status mk_unproven_note(mk_vfs *vfs, const char *directory, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file *file = NULL;
    mk_status status =
        mk_name_join(path, sizeof path, directory, MK_NAME_UNPROVEN, err);

    if (status != MK_OK) return status;
    status =
        mk_file_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, &file, err);
    if (status != MK_OK) return rename_reserve(vfs, directory, path, err);
    return mk_file_close(file, err);
}

mk_status mk_unproven_find(mk_vfs *vfs, const char *directory, bool *out,
                           mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status =
        mk_name_join(path, sizeof path, directory, MK_NAME_UNPROVEN, err);

    *out = false;
    if (status != MK_OK) return status;
    status = mk_vfs_stat(vfs, path, &stat, err);
    *out = status == MK_OK;
    return status == MK_NOT_FOUND ? MK_OK : status;
}

void mk_unproven_forget(mk_vfs *vfs, const char *directory)
{
    char path[MK_PATH_MAX];

    if (mk_name_join(path, sizeof path, directory, MK_NAME_UNPROVEN, NULL) ==
        MK_OK) {
        (void)!mk_vfs_unlink(vfs, path, NULL);
    }
}
