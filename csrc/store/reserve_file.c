/* reserve_file -- made when there is room, unlinked when there is none. */
#include "store/reserve_file.h"

#include "store/names.h"

#include "base/poison.h"

mk_status mk_reserve_keep(mk_vfs *vfs, const char *directory, int64_t size,
                          mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_file *file = NULL;
    mk_file_stat stat;
    mk_status status, closed;

    status = mk_name_join(path, sizeof path, directory, MK_NAME_RESERVE, err);
    if (status != MK_OK) return status;
    if (mk_vfs_stat(vfs, path, &stat, NULL) == MK_OK) {
        if (stat.size >= size) return MK_OK;
        /* One with another name may be anybody's. */
        if (stat.links > 1) status = mk_vfs_unlink(vfs, path, err);
        if (status != MK_OK) return status;
    }
    status =
        mk_file_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, &file, err);
    if (status != MK_OK) return status;
    status = mk_file_allocate(file, size, err);
    closed = mk_file_close(file, status == MK_OK ? err : NULL);
    if (status == MK_OK) status = closed;
    if (status != MK_OK) (void)!mk_vfs_unlink(vfs, path, NULL);
    return status;
}

mk_status mk_reserve_give_up(mk_vfs *vfs, const char *directory, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status =
        mk_name_join(path, sizeof path, directory, MK_NAME_RESERVE, err);

    if (status != MK_OK) return status;
    return mk_vfs_unlink(vfs, path, err);
}
