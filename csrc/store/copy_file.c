/* copy_file -- copying by views and writes, and files that are shared. */
#include "store/copy_file.h"

#include "base/check.h"

#include "base/poison.h"

#define STEP_BUDGET (1u << 20)

mk_status mk_copy_file_begin(mk_copy_file *copy, mk_vfs *vfs, mk_file *from,
                             int64_t size, const char *to, mk_error *err)
{
    MK_ASSERT(size == 0 || from != NULL);
    *copy = (mk_copy_file){.from = from, .size = size};
    mk_scratch_init(&copy->scratch, &vfs->heap);
    return mk_file_open(vfs, to,
                        MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE,
                        &copy->to, err);
}

mk_status mk_copy_file_step(mk_copy_file *copy, size_t budget, mk_error *err)
{
    int64_t left = copy->size - copy->done;
    size_t size = left < (int64_t)budget ? (size_t)left : budget;
    mk_span bytes;
    mk_status status;

    if (size == 0) return MK_OK;
    status =
        mk_file_view(copy->from, &copy->scratch, copy->done, size, &bytes, err);
    if (status != MK_OK) return status;
    if (bytes.size == 0) return MK_END;
    status = mk_file_write(copy->to, copy->done, bytes.data, bytes.size, err);
    if (status == MK_OK) copy->done += (int64_t)bytes.size;
    return status;
}

mk_status mk_copy_file_finish(mk_copy_file *copy, mk_sync_name name,
                              mk_error *err)
{
    mk_status status = mk_file_sync(copy->to, true, name, err);
    mk_status closed = mk_file_close(copy->to, status == MK_OK ? err : NULL);

    copy->to = NULL;
    return status != MK_OK ? status : closed;
}

void mk_copy_file_deinit(mk_copy_file *copy)
{
    (void)mk_file_close(copy->to, NULL); /* What is not finished is no copy. */
    copy->to = NULL;
    mk_scratch_deinit(&copy->scratch);
}

/* ---- Files that are shared ---- */

static mk_status copy_whole(mk_vfs *vfs, mk_file *from, const char *path,
                            int64_t size, const char *to, mk_error *err)
{
    mk_copy_file copy;
    mk_status status = mk_copy_file_begin(&copy, vfs, from, size, to, err);

    while (status == MK_OK && copy.done < size) {
        status = mk_copy_file_step(&copy, STEP_BUDGET, err);
    }
    if (status == MK_END) {
        status = mk_fail_at(err, MK_CORRUPT_SEGMENT, path, copy.done,
                            "%s is shorter than it was", path);
    }
    if (status == MK_OK) {
        status = mk_copy_file_finish(&copy, MK_SYNC_UNSHARE_LOG, err);
    }
    mk_copy_file_deinit(&copy);
    return status;
}

mk_status mk_copy_file_unshare(mk_vfs *vfs, const char *path,
                               const char *temporary, int64_t size, bool held,
                               bool *replaced, mk_error *err)
{
    mk_file *from = NULL;
    mk_file_stat stat;
    mk_error scratch;
    mk_status status;

    if (err == NULL) err = &scratch;
    status = mk_vfs_stat(vfs, path, &stat, err);
    *replaced = false;
    if (status != MK_OK || (stat.links < 2 && !held)) return status;
    status = mk_vfs_unlink(vfs, temporary, err); /* Of an earlier attempt. */
    if (status == MK_OK || status == MK_NOT_FOUND) {
        status = mk_file_open(vfs, path, 0, &from, err);
    }
    if (status != MK_OK) return status;
    status = copy_whole(vfs, from, path, size, temporary, err);
    (void)mk_file_close(from, NULL); /* It was only read. */
    if (status == MK_OK) status = mk_vfs_rename(vfs, temporary, path, err);
    if (status != MK_OK) {
        (void)!mk_vfs_unlink(vfs, temporary, NULL);
        /* On a full disk, readers have to see it cut. */
        if (stat.links < 2 && mk_is_no_room(status, err)) return MK_OK;
        mk_wrap(err, "give %s a file of its own", path);
        return status;
    }
    *replaced = true;
    return MK_OK;
}
