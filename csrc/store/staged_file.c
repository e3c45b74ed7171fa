/* staged_file -- names, and what is done to them. */
#include "store/staged_file.h"

#include "base/poison.h"

mk_status mk_staged_file_rename(mk_vfs *vfs, const char *directory,
                                mk_file_name name, mk_file_stage to,
                                mk_error *err)
{
    char path[MK_PATH_MAX];
    char target[MK_PATH_MAX];
    mk_status status = mk_name_file(path, sizeof path, directory, name, err);

    name.stage = to;
    if (status == MK_OK) {
        status = mk_name_file(target, sizeof target, directory, name, err);
    }
    return status == MK_OK ? mk_vfs_rename(vfs, path, target, err) : status;
}

mk_status mk_staged_file_unlink(mk_vfs *vfs, const char *directory,
                                mk_file_name name, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status = mk_name_file(path, sizeof path, directory, name, err);

    return status == MK_OK ? mk_vfs_unlink(vfs, path, err) : status;
}
