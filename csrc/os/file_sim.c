/*
 * file_sim -- an open file of the simulated disk.
 *
 * Views are copies: nothing that a caller holds points into the disk. A tail is
 * a buffer, and its commit one write, whatever its mode.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "os/sim_change.h"
#include "os/sim_file.h"
#include "os/sim_sync.h"

#include "base/poison.h"

/* ---- Calls ---- */

static mk_status enter(mk_sim_call *call, mk_vfs *vfs, uint64_t session,
                       bool changes, mk_error *err)
{
    mk_sim_disk *disk = ((mk_sim_vfs *)vfs)->disk;

    call->disk = disk;
    call->nested = mk_sim_disk_enter(disk);
    if (session != disk->session) {
        return mk_fail(err, MK_CRASHED, "the simulated disk lost power");
    }
    if (call->nested && changes) {
        return mk_fail(err, MK_BUSY, "the disk is telling an operation");
    }
    return MK_OK;
}

mk_status mk_sim_call_enter(mk_sim_call *call, mk_vfs *vfs, bool changes,
                            mk_error *err)
{
    return enter(call, vfs, ((mk_sim_vfs *)vfs)->session, changes, err);
}

mk_status mk_sim_call_enter_file(mk_sim_call *call, const mk_sim_file *file,
                                 bool changes, mk_error *err)
{
    return enter(call, file->base.vfs, file->session, changes, err);
}

void mk_sim_call_leave(const mk_sim_call *call)
{
    mk_sim_disk_leave(call->disk, call->nested);
}

const char *mk_sim_sync_word(mk_sync_name name)
{
    static const char *const words[] = {
#define X(name) #name,
        MK_SYNC_NAMES(X)
#undef X
    };

    return words[name];
}

/* ---- Handles ---- */

mk_status mk_sim_file_new(mk_vfs *vfs, const char *path, mk_sim_file **out,
                          mk_error *err)
{
    mk_sim_file *file = mk_alloc_zero(&vfs->heap, sizeof *file);

    *out = NULL;
    if (file == NULL) return mk_fail_memory(err, sizeof *file);
    file->base.vfs = vfs;
    file->path = mk_copy_string(&vfs->heap, path);
    if (file->path == NULL) {
        mk_sim_file_free(file);
        return mk_fail_memory(err, strlen(path) + 1);
    }
    *out = file;
    return MK_OK;
}

void mk_sim_file_free(mk_sim_file *file)
{
    const mk_heap *heap = &file->base.vfs->heap;

    mk_release(heap, file->path);
    mk_release(heap, file->buffer);
    mk_release(heap, file);
}

void mk_sim_file_attach(mk_sim_file *file, uint32_t node)
{
    mk_sim_disk *disk = ((mk_sim_vfs *)file->base.vfs)->disk;

    file->session = disk->session;
    file->node = node;
    disk->nodes[node].handles++;
}

static mk_sim_node *node_of(const mk_sim_call *call, const mk_sim_file *file)
{
    return &call->disk->nodes[file->node];
}

void mk_sim_node_stat(const mk_sim_node *node, mk_file_stat *out)
{
    *out = (mk_file_stat){
        .kind = node->directory ? MK_KIND_DIRECTORY : MK_KIND_FILE,
        .size = node->directory ? 0 : node->content->size,
        .mtime_ms = node->mtime_ms,
        .inode = node->number,
        .links = node->links,
    };
}

/* ---- Opening and closing ---- */

static int check_open(const mk_sim_disk *disk, const mk_sim_place *place,
                      unsigned flags)
{
    unsigned fresh = MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE;
    int found = mk_sim_place_check_file(disk, place);

    if (found == 0 || found == EISDIR) {
        if ((flags & fresh) == fresh) return EEXIST;
        return found == EISDIR ? EINVAL : 0;
    }
    if (place->os_errno != 0 || (flags & MK_OPEN_CREATE) == 0) return found;
    return mk_sim_disk_has_place(disk) ? 0 : ENOSPC;
}

static mk_status open_node(const mk_sim_call *call, const char *path,
                           unsigned flags, mk_sim_file *file, mk_error *err)
{
    mk_sim_place place = mk_sim_disk_find(call->disk, path);
    uint32_t node = place.node;
    mk_sim_step step = {
        .operation = MK_SIM_OPEN,
        .path = path,
        .os_errno = check_open(call->disk, &place, flags),
    };
    mk_status status = mk_sim_call_step(call, &step, err);

    if (status != MK_OK) return status;
    if (node == MK_SIM_NOWHERE) {
        status = mk_sim_change_create(call->disk, &place, false, &node, err);
    } else if ((flags & MK_OPEN_TRUNCATE) != 0) {
        status = mk_sim_change_size(call->disk, node, 0, err);
    }
    if (status == MK_OK) mk_sim_file_attach(file, node);
    return status;
}

mk_status mk_sim_file_open(mk_vfs *vfs, const char *path, unsigned flags,
                           mk_file **out, mk_error *err)
{
    bool changes = (flags & (MK_OPEN_CREATE | MK_OPEN_TRUNCATE)) != 0;
    char clean[MK_SIM_PATH_MAX];
    int failed = mk_sim_path_clean(path, clean);
    mk_sim_file *file;
    mk_sim_call call;
    mk_status status;

    *out = NULL;
    if (failed != 0) return mk_fail_errno(err, failed, path, "cannot open it");
    status = mk_sim_file_new(vfs, clean, &file, err);
    if (status != MK_OK) return status;
    status = mk_sim_call_enter(&call, vfs, changes, err);
    if (status == MK_OK) status = open_node(&call, clean, flags, file, err);
    mk_sim_call_leave(&call);
    if (status != MK_OK) {
        mk_sim_file_free(file);
        return status;
    }
    *out = &file->base;
    return MK_OK;
}

static void detach(const mk_sim_call *call, const mk_sim_file *file)
{
    mk_sim_node *node = node_of(call, file);

    MK_ASSERT(node->handles > 0);
    node->handles--;
    if (file->has_lock) node->locked = false;
    if (node->handles == 0 && node->links == 0) mk_sim_disk_collect(call->disk);
}

/* The end of a tail may fail or crash; the handle is gone all the same. */
mk_status mk_sim_file_close(mk_file *base, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_status status = mk_sim_file_tail_end(base, err);
    mk_sim_step step = {.operation = MK_SIM_CLOSE, .path = file->path};
    mk_sim_call call;

    if (mk_sim_call_enter_file(&call, file, false, NULL) != MK_OK) {
        if (status == MK_CRASHED) status = MK_OK;
    } else {
        mk_status closed =
            mk_sim_call_step(&call, &step, status == MK_OK ? err : NULL);

        if (status == MK_OK) status = closed;
        if (file->session == call.disk->session) detach(&call, file);
    }
    mk_sim_call_leave(&call);
    mk_sim_file_free(file);
    return status;
}

/* ---- Looking ---- */

/* The end of the file, as this handle sees it. */
static int64_t end_of(const mk_sim_call *call, const mk_sim_file *file)
{
    int64_t size = node_of(call, file)->content->size;

    if (file->has_tail && file->tail_position < size) {
        return file->tail_position;
    }
    return size;
}

mk_status mk_sim_file_stat(mk_file *base, mk_file_stat *out, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_step step = {.operation = MK_SIM_STAT, .path = file->path};
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, false, err);

    if (status == MK_OK) status = mk_sim_call_step(&call, &step, err);
    if (status == MK_OK) {
        mk_sim_node_stat(node_of(&call, file), out);
        out->size = end_of(&call, file);
        out->mtime_ms = 0;
    }
    mk_sim_call_leave(&call);
    return status;
}

static mk_status read_view(const mk_sim_call *call, const mk_sim_file *file,
                           mk_scratch *scratch, int64_t position, size_t size,
                           mk_span *out, mk_error *err)
{
    int64_t end = end_of(call, file);
    mk_status status;

    if (position >= end || size == 0) return MK_OK;
    if (size > (uint64_t)(end - position)) size = (size_t)(end - position);
    status = mk_scratch_reserve(scratch, size, err);
    if (status != MK_OK) return status;
    mk_sim_content_get(&call->disk->media, node_of(call, file)->content,
                       position, scratch->data, size);
    *out = (mk_span){scratch->data, size};
    if (!call->nested) call->disk->stats.bytes_read += (int64_t)size;
    return MK_OK;
}

mk_status mk_sim_file_view(mk_file *base, mk_scratch *scratch, int64_t position,
                           size_t size, mk_span *out, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_step step = {
        .operation = MK_SIM_READ,
        .path = file->path,
        .position = position,
        .size = (int64_t)size,
    };
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, false, err);

    if (status == MK_OK) status = mk_sim_call_step(&call, &step, err);
    if (status == MK_OK) {
        status = read_view(&call, file, scratch, position, size, out, err);
    }
    mk_sim_call_leave(&call);
    return status;
}

/* ---- Writing ---- */

/* The room that is left, or as good as without end. */
static int64_t room_left(const mk_sim_disk *disk)
{
    if (disk->options.capacity_bytes < 0) return INT64_MAX;
    return disk->options.capacity_bytes - mk_sim_disk_used_bytes(disk);
}

/* How many of the bytes find room: all, or a first part. */
static size_t count_fitting(const mk_sim_disk *disk,
                            const mk_sim_content *content, int64_t position,
                            size_t size)
{
    int64_t room = room_left(disk);
    int64_t growth =
        mk_sim_content_growth(&disk->media, content, position, size);

    while (growth > room && size > 0) {
        int64_t over = growth - room;

        size = (size_t)over < size ? size - (size_t)over : 0;
        growth = mk_sim_content_growth(&disk->media, content, position, size);
    }
    return size;
}

static mk_status write_part(const mk_sim_call *call, const mk_sim_file *file,
                            const mk_sim_step *step, const void *bytes,
                            size_t size, mk_error *err)
{
    bool doomed = step->hit && step->fault.delayed;
    mk_sim_node *node = node_of(call, file);
    mk_status status = mk_sim_change_write(
        call->disk, file->node, step->position, bytes, size, doomed, err);

    if (status != MK_OK) return status;
    call->disk->stats.bytes_written += (int64_t)size;
    if (doomed) {
        node->doomed_errno = step->fault.os_errno;
        node->doomed_flavour = step->fault.flavour;
    }
    return MK_OK;
}

/* Of a write that failed, how many of the bytes that fit arrive all the same?
 */
static size_t count_arrived(const mk_sim_step *step, size_t fitting)
{
    if (step->hit && !step->fault.delayed) {
        int64_t wanted = step->fault.short_size;

        if (wanted <= 0) return 0;
        return (uint64_t)wanted < fitting ? (size_t)wanted : fitting;
    }
    return step->failed == ENOSPC ? fitting : 0;
}

/* A write that fails leaves the part of it that arrived. */
static mk_status write_bytes(const mk_sim_call *call, const mk_sim_file *file,
                             int64_t position, const void *bytes, size_t size,
                             mk_error *err)
{
    size_t fitting =
        count_fitting(call->disk, node_of(call, file)->content, position, size);
    mk_sim_step step = {
        .operation = MK_SIM_WRITE,
        .path = file->path,
        .position = position,
        .size = (int64_t)size,
    };
    mk_status status;

    if (fitting < size) step.os_errno = ENOSPC;
    if ((int64_t)size > MK_SIM_FILE_MAX - position) step.os_errno = EFBIG;
    status = mk_sim_call_step(call, &step, err);
    if (status == MK_OK) {
        return write_part(call, file, &step, bytes, size, err);
    }
    if (step.failed == 0) return status;
    fitting = count_arrived(&step, fitting);
    step.hit = false;
    if (fitting > 0 &&
        write_part(call, file, &step, bytes, fitting, NULL) != MK_OK) {
        return mk_fail_memory(err, fitting);
    }
    return status;
}

mk_status mk_sim_file_write(mk_file *base, int64_t position, const void *bytes,
                            size_t size, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, true, err);

    MK_ASSERT(!file->has_tail);
    if (status == MK_OK) {
        status = write_bytes(&call, file, position, bytes, size, err);
    }
    mk_sim_call_leave(&call);
    return status;
}

static mk_status set_size(const mk_sim_call *call, mk_sim_file *file,
                          mk_sim_operation operation, int64_t size,
                          mk_error *err)
{
    const mk_sim_content *content = node_of(call, file)->content;
    bool allocates = operation == MK_SIM_ALLOCATE;
    int64_t grown = size - mk_sim_content_used(&call->disk->media, content);
    mk_sim_step step = {
        .operation = operation,
        .path = file->path,
        .size = size,
    };
    mk_status status;

    if (size > MK_SIM_FILE_MAX) step.os_errno = EFBIG;
    if (allocates && grown > 0 && grown > room_left(call->disk)) {
        step.os_errno = ENOSPC;
    }
    status = mk_sim_call_step(call, &step, err);
    if (status != MK_OK) return status;
    status = allocates ? mk_sim_change_room(call->disk, file->node, size, err)
                       : mk_sim_change_size(call->disk, file->node, size, err);
    if (status == MK_OK && !allocates) file->tail_position = size;
    return status;
}

mk_status mk_sim_file_truncate(mk_file *base, int64_t size, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, true, err);

    if (status == MK_OK) {
        status = set_size(&call, file, MK_SIM_TRUNCATE, size, err);
    }
    mk_sim_call_leave(&call);
    return status;
}

mk_status mk_sim_file_allocate(mk_file *base, int64_t size, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, true, err);

    if (status == MK_OK) {
        status = set_size(&call, file, MK_SIM_ALLOCATE, size, err);
    }
    mk_sim_call_leave(&call);
    return status;
}

/* ---- Syncing ---- */

static mk_status sync_node(const mk_sim_call *call, const mk_sim_file *file,
                           bool data_only, mk_sync_name name, mk_error *err)
{
    bool left_out = (call->disk->left_out >> name & 1) != 0;
    mk_sim_step step = {
        .operation = data_only ? MK_SIM_FDATASYNC : MK_SIM_FSYNC,
        .path = file->path,
        .sync = mk_sim_sync_word(name),
        .os_errno = left_out ? 0 : node_of(call, file)->doomed_errno,
    };
    mk_status status = mk_sim_call_step(call, &step, err);

    if (status == MK_OK) {
        if (left_out) return MK_OK;
        return mk_sim_sync_file(call->disk, file->node, data_only, err);
    }
    if (step.hit) {
        mk_sim_sync_fail(call->disk, file->node, step.fault.flavour, false);
    } else if (step.failed != 0) {
        mk_sim_sync_fail(call->disk, file->node,
                         node_of(call, file)->doomed_flavour, true);
    }
    return status;
}

mk_status mk_sim_file_sync(mk_file *base, bool data_only, mk_sync_name name,
                           mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, true, err);

    if (status == MK_OK) {
        status = sync_node(&call, file, data_only, name, err);
    }
    mk_sim_call_leave(&call);
    return status;
}

/* ---- Tails ---- */

static mk_status check_length(const mk_sim_call *call, const mk_sim_file *file,
                              int64_t position, mk_error *err)
{
    int64_t size = node_of(call, file)->content->size;

    if (size >= position) return MK_OK;
    return mk_fail_at(err, MK_CORRUPT_SEGMENT, file->path, size,
                      "%s was shortened by somebody else: it has %" PRId64
                      " of %" PRId64 " bytes",
                      file->path, size, position);
}

mk_status mk_sim_file_tail_begin(mk_file *base, int64_t position,
                                 mk_tail_mode mode, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_call call;
    mk_status status = mk_sim_call_enter_file(&call, file, false, err);

    (void)mode;
    MK_ASSERT(!file->has_tail);
    if (status == MK_OK) status = check_length(&call, file, position, err);
    if (status == MK_OK) {
        file->has_tail = true;
        file->tail_position = position;
    }
    mk_sim_call_leave(&call);
    return status;
}

mk_status mk_sim_file_tail_reserve(mk_file *base, size_t size, uint8_t **out,
                                   mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    void *buffer = file->buffer;
    mk_status status;

    MK_ASSERT(file->has_tail);
    status = mk_grow(&base->vfs->heap, &buffer, &file->capacity,
                     size > 0 ? size : 1, 1, err);
    file->buffer = buffer;
    if (status != MK_OK) return status;
    file->reserved = size;
    *out = file->buffer;
    return MK_OK;
}

mk_status mk_sim_file_tail_commit(mk_file *base, size_t size, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    mk_sim_call call;
    mk_status status;

    MK_ASSERT(file->has_tail);
    MK_ASSERT(size <= file->reserved);
    file->reserved = 0;
    if (size == 0) return MK_OK;
    status = mk_sim_call_enter_file(&call, file, true, err);
    if (status == MK_OK) {
        status = check_length(&call, file, file->tail_position, err);
    }
    if (status == MK_OK) {
        status = write_bytes(&call, file, file->tail_position, file->buffer,
                             size, err);
    }
    if (status == MK_OK) file->tail_position += (int64_t)size;
    mk_sim_call_leave(&call);
    return status;
}

mk_status mk_sim_file_tail_end(mk_file *base, mk_error *err)
{
    mk_sim_file *file = (mk_sim_file *)base;
    int64_t position = file->tail_position;
    mk_sim_call call;
    mk_status status;

    if (!file->has_tail) return MK_OK;
    file->has_tail = false;
    status = mk_sim_call_enter_file(&call, file, true, err);
    if (status == MK_OK) status = check_length(&call, file, position, err);
    if (status == MK_OK && node_of(&call, file)->content->size > position) {
        status = set_size(&call, file, MK_SIM_TRUNCATE, position, err);
    }
    mk_sim_call_leave(&call);
    return status;
}
