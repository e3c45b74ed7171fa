/* vfs -- the calls of the core, handed on to the disk's methods; name lists;
 * scratch. */
#include "os/vfs.h"

#include "base/check.h"

#include "base/poison.h"

void mk_vfs_free(mk_vfs *vfs)
{
    if (vfs != NULL) vfs->methods->release(vfs);
}

/* ---- Files ---- */

mk_status mk_file_open(mk_vfs *vfs, const char *path, unsigned flags,
                       mk_file **out, mk_error *err)
{
    *out = NULL;
    return vfs->methods->open(vfs, path, flags, out, err);
}

mk_status mk_file_close(mk_file *file, mk_error *err)
{
    if (file == NULL) return MK_OK;
    return file->vfs->methods->close(file, err);
}

mk_status mk_file_stat_open(mk_file *file, mk_file_stat *out, mk_error *err)
{
    *out = (mk_file_stat){0};
    return file->vfs->methods->stat_file(file, out, err);
}

mk_status mk_file_view(mk_file *file, mk_scratch *scratch, int64_t position,
                       size_t size, mk_span *out, mk_error *err)
{
    MK_ASSERT(position >= 0);
    *out = (mk_span){0};
    return file->vfs->methods->view(file, scratch, position, size, out, err);
}

mk_status mk_file_write(mk_file *file, int64_t position, const void *bytes,
                        size_t size, mk_error *err)
{
    MK_ASSERT(position >= 0);
    return file->vfs->methods->write(file, position, bytes, size, err);
}

mk_status mk_file_truncate(mk_file *file, int64_t size, mk_error *err)
{
    MK_ASSERT(size >= 0);
    return file->vfs->methods->truncate(file, size, err);
}

mk_status mk_file_allocate(mk_file *file, int64_t size, mk_error *err)
{
    MK_ASSERT(size >= 0);
    return file->vfs->methods->allocate(file, size, err);
}

mk_status mk_file_sync(mk_file *file, bool data_only, mk_sync_name name,
                       mk_error *err)
{
    MK_ASSERT(name < MK_SYNC_COUNT);
    return file->vfs->methods->sync(file, data_only, name, err);
}

mk_status mk_file_tail_begin(mk_file *file, int64_t position, mk_tail_mode mode,
                             mk_error *err)
{
    MK_ASSERT(position >= 0);
    return file->vfs->methods->tail_begin(file, position, mode, err);
}

mk_status mk_file_tail_reserve(mk_file *file, size_t size, uint8_t **out,
                               mk_error *err)
{
    *out = NULL;
    return file->vfs->methods->tail_reserve(file, size, out, err);
}

mk_status mk_file_tail_commit(mk_file *file, size_t size, mk_error *err)
{
    return file->vfs->methods->tail_commit(file, size, err);
}

mk_status mk_file_tail_append(mk_file *file, const void *bytes, size_t size,
                              mk_error *err)
{
    const mk_vfs_methods *methods = file->vfs->methods;
    uint8_t *place = NULL;
    mk_status status;

    if (methods->tail_append != NULL) {
        return methods->tail_append(file, bytes, size, err);
    }
    status = methods->tail_reserve(file, size, &place, err);
    if (status != MK_OK) return status;
    memcpy(place, bytes, size);
    return methods->tail_commit(file, size, err);
}

mk_status mk_file_tail_end(mk_file *file, mk_error *err)
{
    return file->vfs->methods->tail_end(file, err);
}

/* ---- Names ---- */

mk_status mk_vfs_stat(mk_vfs *vfs, const char *path, mk_file_stat *out,
                      mk_error *err)
{
    *out = (mk_file_stat){0};
    return vfs->methods->stat(vfs, path, out, err);
}

mk_status mk_vfs_set_mtime(mk_vfs *vfs, const char *path, int64_t mtime_ms,
                           mk_error *err)
{
    return vfs->methods->set_mtime(vfs, path, mtime_ms, err);
}

mk_status mk_vfs_rename(mk_vfs *vfs, const char *from, const char *to,
                        mk_error *err)
{
    return vfs->methods->rename(vfs, from, to, err);
}

mk_status mk_vfs_exchange(mk_vfs *vfs, const char *a, const char *b,
                          mk_error *err)
{
    return vfs->methods->exchange(vfs, a, b, err);
}

mk_status mk_vfs_link(mk_vfs *vfs, const char *from, const char *to,
                      mk_error *err)
{
    return vfs->methods->link(vfs, from, to, err);
}

mk_status mk_vfs_unlink(mk_vfs *vfs, const char *path, mk_error *err)
{
    return vfs->methods->unlink(vfs, path, err);
}

mk_status mk_vfs_mkdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    return vfs->methods->mkdir(vfs, path, err);
}

mk_status mk_vfs_rmdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    return vfs->methods->rmdir(vfs, path, err);
}

mk_status mk_vfs_list(mk_vfs *vfs, const char *path, mk_name_list *out,
                      mk_error *err)
{
    *out = (mk_name_list){.heap = &vfs->heap};
    return vfs->methods->list(vfs, path, out, err);
}

void mk_name_list_deinit(mk_name_list *list)
{
    if (list->heap == NULL) return;
    mk_release(list->heap, list->names);
    mk_release(list->heap, list->kinds);
    *list = (mk_name_list){0};
}

mk_status mk_vfs_sync_directory(mk_vfs *vfs, const char *path,
                                mk_sync_name name, mk_error *err)
{
    MK_ASSERT(name < MK_SYNC_COUNT);
    return vfs->methods->sync_directory(vfs, path, name, err);
}

mk_status mk_vfs_lock(mk_vfs *vfs, const char *path, const char *holder,
                      mk_file **out, mk_error *err)
{
    *out = NULL;
    return vfs->methods->lock(vfs, path, holder, out, err);
}

mk_status mk_vfs_resolve(mk_vfs *vfs, const char *path, char *out,
                         size_t out_size, mk_error *err)
{
    MK_ASSERT(out_size > 0);
    out[0] = '\0';
    return vfs->methods->resolve(vfs, path, out, out_size, err);
}

/* ---- Scratch ---- */

void mk_scratch_init(mk_scratch *scratch, const mk_heap *heap)
{
    *scratch = (mk_scratch){.heap = heap};
}

void mk_scratch_deinit(mk_scratch *scratch)
{
    if (scratch->heap != NULL) mk_release(scratch->heap, scratch->data);
    *scratch = (mk_scratch){0};
}

/* The old block goes first: its bytes are not needed, and never are there two
 * at a time. Growing by half at least keeps a row of slightly larger wishes
 * cheap. */
mk_status mk_scratch_reserve(mk_scratch *scratch, size_t size, mk_error *err)
{
    size_t grown = scratch->capacity + scratch->capacity / 2;

    if (size <= scratch->capacity) return MK_OK;
    if (grown < size) grown = size;
    mk_release(scratch->heap, scratch->data);
    scratch->capacity = 0;
    scratch->data = mk_alloc(scratch->heap, grown);
    if (scratch->data == NULL) return mk_fail_memory(err, grown);
    scratch->capacity = grown;
    return MK_OK;
}
