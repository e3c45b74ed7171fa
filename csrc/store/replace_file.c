/* replace_file -- the one way to replace a file. */
#include "store/replace_file.h"

#include <errno.h>
#include <stdio.h>

#include "store/names.h"

#include "base/poison.h"

/* Make a file. What stands there goes with its bytes: a loss of power would
 * give them back to a file that was only made empty, and not synced. */
static mk_status make_file(mk_vfs *vfs, const char *path, mk_file **out,
                           mk_error *err)
{
    unsigned flags = MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE;
    mk_status status = mk_file_open(vfs, path, flags, out, err);

    if (status != MK_IO || err->os_errno != EEXIST) return status;
    status = mk_vfs_unlink(vfs, path, err);
    if (status != MK_OK) return status;
    return mk_file_open(vfs, path, flags, out, err);
}

static mk_status write_whole(mk_vfs *vfs, const char *path, mk_span content,
                             bool durable, mk_error *err)
{
    mk_file *file = NULL;
    mk_error scratch;
    mk_status status, closed;

    if (err == NULL) err = &scratch;
    status = make_file(vfs, path, &file, err);
    if (status != MK_OK) return status;
    if (content.size > 0) {
        status = mk_file_write(file, 0, content.data, content.size, err);
    }
    if (status == MK_OK && durable) {
        status = mk_file_sync(file, true, MK_SYNC_REPLACE_FILE, err);
    }
    closed = mk_file_close(file, status == MK_OK ? err : NULL);
    return status != MK_OK ? status : closed;
}

mk_status mk_replace_file(mk_vfs *vfs, const char *directory, const char *path,
                          mk_span content, bool durable, bool *begun,
                          mk_error *err)
{
    char temporary[MK_PATH_MAX];
    mk_status status;
    int size = snprintf(temporary, sizeof temporary, "%s.tmp", path);

    if (begun != NULL) *begun = false;
    if (size < 0 || (size_t)size >= sizeof temporary) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "the path %s is too long",
                       path);
    }
    status = write_whole(vfs, temporary, content, durable, err);
    if (status == MK_OK) {
        if (begun != NULL) *begun = true;
        status = mk_vfs_rename(vfs, temporary, path, err);
    }
    if (status != MK_OK) {
        mk_status ignored = mk_vfs_unlink(vfs, temporary, NULL);

        (void)ignored; /* Nobody reads it, and the next one overwrites it. */
        mk_wrap(err, "replace %s", path);
        return status;
    }
    if (!durable) return MK_OK;
    return mk_vfs_sync_directory(vfs, directory, MK_SYNC_REPLACE_DIRECTORY,
                                 err);
}

mk_status mk_read_file(mk_vfs *vfs, const char *path, size_t size_max,
                       mk_scratch *scratch, mk_span *out, mk_error *err)
{
    mk_file *file = NULL;
    mk_file_stat stat;
    mk_status status;

    *out = (mk_span){NULL, 0};
    status = mk_file_open(vfs, path, 0, &file, err);
    if (status != MK_OK) return status;
    status = mk_file_stat_open(file, &stat, err);
    if (status == MK_OK && stat.size > (int64_t)size_max) {
        status = mk_fail_at(err, MK_INVALID_ARGUMENT, path, -1,
                            "%s is too large", path);
    }
    if (status == MK_OK && stat.size > 0) {
        status = mk_scratch_reserve(scratch, (size_t)stat.size, err);
    }
    if (status == MK_OK && stat.size > 0) {
        status = mk_file_view(file, scratch, 0, (size_t)stat.size, out, err);
    }
    (void)mk_file_close(file, NULL); /* It was only read. */
    return status;
}
