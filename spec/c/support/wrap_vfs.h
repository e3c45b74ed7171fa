/*
 * wrap_vfs -- the POSIX disk with a hand in between: it can make a call fail,
 * pretend that two names can't be exchanged, leave out the waiting for syncs,
 * write down what is called, and run something in the middle of it.
 *
 * A fault strikes before the call has its effect, unless it says `after`. A
 * close that fails has closed all the same.
 */
#ifndef MK_SUPPORT_WRAP_VFS_H
#define MK_SUPPORT_WRAP_VFS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "os/env.h"

typedef enum wrap_kind {
#define X(word) WRAP_##word,
    MK_VFS_OPERATIONS(X)
#undef X
        WRAP_ANY, /* In a fault: whatever the call. */
} wrap_kind;

typedef struct wrap_call {
    wrap_kind kind;
    char path[384];
    char to[384];      /* Of rename, exchange and link. */
    mk_sync_name name; /* Of syncs. */
} wrap_call;

typedef struct wrap_fault {
    wrap_kind kind;
    long at;            /* The call of that kind that fails, from 1; 0: none. */
    bool always;        /* ... and all after it. */
    bool after;         /* The call has its effect, and fails then. */
    int os_errno;       /* UNSUPPORTED if it is ENOTSUP. */
    size_t part;        /* Of a write: bytes that are written before. */
    const char *suffix; /* Borrowed. Of the paths it is for; NULL: all. */
    long seen;          /* Calls of that kind so far. */
    bool hit;
} wrap_fault;

#define WRAP_FAULTS 4

typedef struct wrap_vfs {
    mk_vfs base;
    mk_vfs *inner; /* Owned. */
    wrap_fault faults[WRAP_FAULTS];
    size_t fault_count;
    bool no_exchange;
    bool no_sync; /* Syncs are told of, and not done. */
    bool recording;
    wrap_call *calls; /* Owned. */
    size_t call_count;
    size_t call_capacity;
    void (*before)(void *context, const wrap_call *call); /* May be NULL. */
    void *context;                                        /* Borrowed. */
    pthread_mutex_t mutex; /* Guards faults and calls. */
} wrap_vfs;

typedef struct wrap_file {
    mk_file base;
    mk_file *inner; /* Owned. */
    char path[384];
} wrap_file;

static inline const char *wrap_word(wrap_kind kind)
{
    static const char *const words[] = {
#define X(word) #word,
        MK_VFS_OPERATIONS(X)
#undef X
    };

    return kind < WRAP_ANY ? words[kind] : "any";
}

/* ---- What a test says ---- */

/* Let the call number `at` of that kind fail from now on. */
static inline wrap_fault *wrap_fail(wrap_vfs *wrap, wrap_kind kind, long at,
                                    int os_errno)
{
    wrap_fault *fault = &wrap->faults[wrap->fault_count++];

    assert_true(wrap->fault_count <= WRAP_FAULTS);
    *fault = (wrap_fault){.kind = kind, .at = at, .os_errno = os_errno};
    return fault;
}

/* No more faults. */
static inline void wrap_heal(wrap_vfs *wrap)
{
    wrap->fault_count = 0;
}

/* Write down calls from now on, and forget those before. */
static inline void wrap_record(wrap_vfs *wrap)
{
    wrap->recording = true;
    wrap->call_count = 0;
}

/* Return how many calls of that kind were written down, whose path ends so. */
static inline size_t wrap_count(const wrap_vfs *wrap, wrap_kind kind,
                                const char *suffix)
{
    size_t count = 0;

    for (size_t i = 0; i < wrap->call_count; i++) {
        const wrap_call *call = &wrap->calls[i];
        size_t size = strlen(call->path);

        if (kind != WRAP_ANY && call->kind != kind) continue;
        if (size < strlen(suffix)) continue;
        count += strcmp(call->path + size - strlen(suffix), suffix) == 0;
    }
    return count;
}

/* ---- Every call ---- */

static inline bool wrap_strikes(wrap_fault *fault, const wrap_call *call)
{
    size_t size = strlen(call->path);

    if (fault->kind != WRAP_ANY && fault->kind != call->kind) return false;
    if (fault->suffix != NULL) {
        size_t wanted = strlen(fault->suffix);

        if (size < wanted) return false;
        if (strcmp(call->path + size - wanted, fault->suffix) != 0) {
            return false;
        }
    }
    fault->seen++;
    if (fault->seen != fault->at && !(fault->always && fault->hit)) {
        return false;
    }
    fault->hit = true;
    return true;
}

static inline void wrap_note(wrap_vfs *wrap, const wrap_call *call)
{
    if (!wrap->recording) return;
    if (wrap->call_count == wrap->call_capacity) {
        wrap->call_capacity = wrap->call_capacity * 2 + 64;
        wrap->calls =
            realloc(wrap->calls, wrap->call_capacity * sizeof *wrap->calls);
        if (wrap->calls == NULL) abort();
    }
    wrap->calls[wrap->call_count++] = *call;
}

/* Count and note the call; is it to fail? `*fault` is a copy then. */
static inline bool wrap_enter(wrap_vfs *wrap, wrap_kind kind, const char *path,
                              const char *to, mk_sync_name name,
                              wrap_fault *fault)
{
    wrap_call call = {.kind = kind, .name = name};
    bool struck = false;

    snprintf(call.path, sizeof call.path, "%s", path);
    snprintf(call.to, sizeof call.to, "%s", to);
    if (wrap->before != NULL) wrap->before(wrap->context, &call);
    pthread_mutex_lock(&wrap->mutex);
    wrap_note(wrap, &call);
    for (size_t i = 0; i < wrap->fault_count && !struck; i++) {
        struck = wrap_strikes(&wrap->faults[i], &call);
        if (struck) *fault = wrap->faults[i];
    }
    /* What only looks has no effect. */
    if (kind == WRAP_stat || kind == WRAP_list || kind == WRAP_read) {
        fault->after = false;
    }
    pthread_mutex_unlock(&wrap->mutex);
    return struck;
}

static inline mk_status wrap_fails(const wrap_fault *fault, const char *path,
                                   mk_error *err)
{
    mk_status status = mk_fail_errno(err, fault->os_errno, path,
                                     "the test says no to %s", path);

    if (fault->os_errno != ENOTSUP) return status;
    if (err != NULL) err->status = MK_UNSUPPORTED;
    return MK_UNSUPPORTED;
}

/* A call around `effect`, an expression that is a status. */
#define WRAP_CALL(wrap, kind, path, to, name, effect)            \
    do {                                                         \
        wrap_fault fault;                                        \
        mk_status status = MK_OK;                                \
        bool struck;                                             \
                                                                 \
        struck = wrap_enter(wrap, kind, path, to, name, &fault); \
        if (!struck || fault.after) status = effect;             \
        if (!struck || status != MK_OK) return status;           \
        return wrap_fails(&fault, path, err);                    \
    } while (0)

/* ---- Files ---- */

static inline mk_status wrap_new_file(wrap_vfs *wrap, mk_file *inner,
                                      const char *path, mk_file **out)
{
    wrap_file *file = calloc(1, sizeof *file);

    if (file == NULL) abort();
    file->base.vfs = &wrap->base;
    file->inner = inner;
    snprintf(file->path, sizeof file->path, "%s", path);
    *out = &file->base;
    return MK_OK;
}

static inline mk_status wrap_open(mk_vfs *vfs, const char *path, unsigned flags,
                                  mk_file **out, mk_error *err)
{
    wrap_vfs *wrap = (wrap_vfs *)vfs;
    mk_file *inner;
    wrap_fault fault;
    mk_status status;

    if (wrap_enter(wrap, WRAP_open, path, "", 0, &fault)) {
        return wrap_fails(&fault, path, err);
    }
    status = mk_file_open(wrap->inner, path, flags, &inner, err);
    return status != MK_OK ? status : wrap_new_file(wrap, inner, path, out);
}

static inline mk_status wrap_close(mk_file *base, mk_error *err)
{
    wrap_file *file = (wrap_file *)base;
    wrap_vfs *wrap = (wrap_vfs *)base->vfs;
    wrap_fault fault;
    bool struck = wrap_enter(wrap, WRAP_close, file->path, "", 0, &fault);
    mk_status status = mk_file_close(file->inner, err);

    if (struck) status = wrap_fails(&fault, file->path, err);
    free(file);
    return status;
}

#define WRAP_FILE_CALL(kind, name, effect) \
    wrap_file *file = (wrap_file *)base;   \
                                           \
    WRAP_CALL((wrap_vfs *)base->vfs, kind, file->path, "", name, effect)

static inline mk_status wrap_stat_file(mk_file *base, mk_file_stat *out,
                                       mk_error *err)
{
    WRAP_FILE_CALL(WRAP_stat, 0, mk_file_stat_open(file->inner, out, err));
}

static inline mk_status wrap_view(mk_file *base, mk_scratch *scratch,
                                  int64_t position, size_t size, mk_span *out,
                                  mk_error *err)
{
    WRAP_FILE_CALL(
        WRAP_read, 0,
        mk_file_view(file->inner, scratch, position, size, out, err));
}

static inline mk_status wrap_write(mk_file *base, int64_t position,
                                   const void *bytes, size_t size,
                                   mk_error *err)
{
    wrap_file *file = (wrap_file *)base;
    wrap_fault fault;

    if (!wrap_enter((wrap_vfs *)base->vfs, WRAP_write, file->path, "", 0,
                    &fault)) {
        return mk_file_write(file->inner, position, bytes, size, err);
    }
    if (fault.after) fault.part = size;
    if (fault.part > size) fault.part = size;
    if (mk_file_write(file->inner, position, bytes, fault.part, err) != MK_OK) {
        abort();
    }
    return wrap_fails(&fault, file->path, err);
}

static inline mk_status wrap_truncate(mk_file *base, int64_t size,
                                      mk_error *err)
{
    WRAP_FILE_CALL(WRAP_truncate, 0, mk_file_truncate(file->inner, size, err));
}

static inline mk_status wrap_allocate(mk_file *base, int64_t size,
                                      mk_error *err)
{
    WRAP_FILE_CALL(WRAP_allocate, 0, mk_file_allocate(file->inner, size, err));
}

static inline mk_status wrap_sync(mk_file *base, bool data_only,
                                  mk_sync_name name, mk_error *err)
{
    bool skip = ((wrap_vfs *)base->vfs)->no_sync;

    WRAP_FILE_CALL(data_only ? WRAP_fdatasync : WRAP_fsync, name,
                   skip ? MK_OK
                        : mk_file_sync(file->inner, data_only, name, err));
}

/* Beginning a tail and reserving look at the file's size. */
static inline mk_status wrap_tail_begin(mk_file *base, int64_t position,
                                        mk_tail_mode mode, mk_error *err)
{
    WRAP_FILE_CALL(WRAP_stat, 0,
                   mk_file_tail_begin(file->inner, position, mode, err));
}

static inline mk_status wrap_tail_reserve(mk_file *base, size_t size,
                                          uint8_t **out, mk_error *err)
{
    WRAP_FILE_CALL(WRAP_stat, 0,
                   mk_file_tail_reserve(file->inner, size, out, err));
}

static inline mk_status wrap_tail_commit(mk_file *base, size_t size,
                                         mk_error *err)
{
    wrap_file *file = (wrap_file *)base;
    wrap_fault fault;

    if (!wrap_enter((wrap_vfs *)base->vfs, WRAP_write, file->path, "", 0,
                    &fault)) {
        return mk_file_tail_commit(file->inner, size, err);
    }
    if (fault.after) fault.part = size;
    if (fault.part > size) fault.part = size;
    if (mk_file_tail_commit(file->inner, fault.part, err) != MK_OK) abort();
    return wrap_fails(&fault, file->path, err);
}

static inline mk_status wrap_tail_append(mk_file *base, const void *bytes,
                                         size_t size, mk_error *err)
{
    wrap_file *file = (wrap_file *)base;
    wrap_fault fault;

    if (!wrap_enter((wrap_vfs *)base->vfs, WRAP_write, file->path, "", 0,
                    &fault)) {
        return mk_file_tail_append(file->inner, bytes, size, err);
    }
    if (fault.after || fault.part > size) fault.part = size;
    if (fault.part > 0 &&
        mk_file_tail_append(file->inner, bytes, fault.part, err) != MK_OK) {
        abort();
    }
    return wrap_fails(&fault, file->path, err);
}

static inline mk_status wrap_tail_end(mk_file *base, mk_error *err)
{
    WRAP_FILE_CALL(WRAP_truncate, 0, mk_file_tail_end(file->inner, err));
}

/* ---- Names ---- */

#define WRAP_NAME_CALL(kind, path, to, name, effect) \
    wrap_vfs *wrap = (wrap_vfs *)vfs;                \
                                                     \
    WRAP_CALL(wrap, kind, path, to, name, effect)

static inline mk_status wrap_stat_name(mk_vfs *vfs, const char *path,
                                       mk_file_stat *out, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_stat, path, "", 0,
                   mk_vfs_stat(wrap->inner, path, out, err));
}

static inline mk_status wrap_set_mtime(mk_vfs *vfs, const char *path,
                                       int64_t mtime_ms, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_utime, path, "", 0,
                   mk_vfs_set_mtime(wrap->inner, path, mtime_ms, err));
}

static inline mk_status wrap_rename(mk_vfs *vfs, const char *from,
                                    const char *to, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_rename, from, to, 0,
                   mk_vfs_rename(wrap->inner, from, to, err));
}

static inline mk_status wrap_exchange(mk_vfs *vfs, const char *a, const char *b,
                                      mk_error *err)
{
    wrap_fault none = {.os_errno = ENOTSUP};

    if (((wrap_vfs *)vfs)->no_exchange) return wrap_fails(&none, a, err);
    WRAP_NAME_CALL(WRAP_exchange, a, b, 0,
                   mk_vfs_exchange(wrap->inner, a, b, err));
}

static inline mk_status wrap_link(mk_vfs *vfs, const char *from, const char *to,
                                  mk_error *err)
{
    WRAP_NAME_CALL(WRAP_link, from, to, 0,
                   mk_vfs_link(wrap->inner, from, to, err));
}

static inline mk_status wrap_unlink(mk_vfs *vfs, const char *path,
                                    mk_error *err)
{
    WRAP_NAME_CALL(WRAP_unlink, path, "", 0,
                   mk_vfs_unlink(wrap->inner, path, err));
}

static inline mk_status wrap_mkdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_mkdir, path, "", 0,
                   mk_vfs_mkdir(wrap->inner, path, err));
}

static inline mk_status wrap_rmdir(mk_vfs *vfs, const char *path, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_rmdir, path, "", 0,
                   mk_vfs_rmdir(wrap->inner, path, err));
}

static inline mk_status wrap_list(mk_vfs *vfs, const char *path,
                                  mk_name_list *out, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_list, path, "", 0,
                   mk_vfs_list(wrap->inner, path, out, err));
}

static inline mk_status wrap_sync_directory(mk_vfs *vfs, const char *path,
                                            mk_sync_name name, mk_error *err)
{
    WRAP_NAME_CALL(WRAP_fsync_dir, path, "", name,
                   wrap->no_sync
                       ? MK_OK
                       : mk_vfs_sync_directory(wrap->inner, path, name, err));
}

static inline mk_status wrap_lock(mk_vfs *vfs, const char *path,
                                  const char *holder, mk_file **out,
                                  mk_error *err)
{
    wrap_vfs *wrap = (wrap_vfs *)vfs;
    mk_file *inner;
    wrap_fault fault;
    mk_status status;

    if (wrap_enter(wrap, WRAP_lock, path, "", 0, &fault)) {
        return wrap_fails(&fault, path, err);
    }
    status = mk_vfs_lock(wrap->inner, path, holder, &inner, err);
    return status != MK_OK ? status : wrap_new_file(wrap, inner, path, out);
}

static inline mk_status wrap_resolve(mk_vfs *vfs, const char *path, char *out,
                                     size_t out_size, mk_error *err)
{
    return mk_vfs_resolve(((wrap_vfs *)vfs)->inner, path, out, out_size, err);
}

/* ---- Life ---- */

static inline void wrap_release(mk_vfs *vfs)
{
    wrap_vfs *wrap = (wrap_vfs *)vfs;

    mk_vfs_free(wrap->inner);
    wrap->inner = NULL;
}

/* Wrap a POSIX disk. The environment that gets `&wrap->base` releases the disk;
 * wrap_deinit() the rest. */
static inline void wrap_init(wrap_vfs *wrap, const mk_heap *heap)
{
    static const mk_vfs_methods methods = {
        .release = wrap_release,
        .open = wrap_open,
        .close = wrap_close,
        .stat_file = wrap_stat_file,
        .view = wrap_view,
        .write = wrap_write,
        .truncate = wrap_truncate,
        .allocate = wrap_allocate,
        .sync = wrap_sync,
        .tail_begin = wrap_tail_begin,
        .tail_reserve = wrap_tail_reserve,
        .tail_commit = wrap_tail_commit,
        .tail_append = wrap_tail_append,
        .tail_end = wrap_tail_end,
        .stat = wrap_stat_name,
        .set_mtime = wrap_set_mtime,
        .rename = wrap_rename,
        .exchange = wrap_exchange,
        .link = wrap_link,
        .unlink = wrap_unlink,
        .mkdir = wrap_mkdir,
        .rmdir = wrap_rmdir,
        .list = wrap_list,
        .sync_directory = wrap_sync_directory,
        .lock = wrap_lock,
        .resolve = wrap_resolve,
    };

    *wrap = (wrap_vfs){.base.methods = &methods, .base.heap = *heap};
    pthread_mutex_init(&wrap->mutex, NULL);
    assert_int_equal(mk_vfs_new_posix(heap, &wrap->inner, NULL), MK_OK);
    wrap->base.session = wrap->inner->session;
    wrap->base.dead_status = wrap->inner->dead_status;
}

static inline void wrap_deinit(wrap_vfs *wrap)
{
    free(wrap->calls);
    wrap->calls = NULL;
    pthread_mutex_destroy(&wrap->mutex);
}

#endif /* MK_SUPPORT_WRAP_VFS_H */
