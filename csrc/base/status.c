/* status -- names, texts and messages of failures. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/poison.h"

const char *mk_status_name(mk_status status)
{
    static const char *const names[] = {
#define X(name, text) #name,
        MK_STATUS_MAP(X)
#undef X
    };

    return (unsigned)status < MK_STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *mk_status_text(mk_status status)
{
    static const char *const texts[] = {
#define X(name, text) text,
        MK_STATUS_MAP(X)
#undef X
    };

    return (unsigned)status < MK_STATUS_COUNT ? texts[status] : "unknown";
}

/* The errors that a disk can be expected to report. */
/* clang-format off */
#define ERRNO_MAP(X)                                                         \
    X(EACCES) X(EAGAIN) X(EBADF) X(EBUSY) X(EDQUOT) X(EEXIST) X(EFAULT)      \
    X(EFBIG) X(EINTR) X(EINVAL) X(EIO) X(EISDIR) X(ELOOP) X(EMFILE)          \
    X(EMLINK) X(ENAMETOOLONG) X(ENFILE) X(ENODEV) X(ENOENT) X(ENOLCK)        \
    X(ENOMEM) X(ENOSPC) X(ENOSYS) X(ENOTDIR) X(ENOTEMPTY) X(ENOTSUP)         \
    X(ENXIO) X(EOVERFLOW) X(EPERM) X(EPIPE) X(EROFS) X(ESTALE) X(ETXTBSY)    \
    X(EXDEV)
/* clang-format on */

const char *mk_errno_name(int os_errno)
{
    switch (os_errno) {
#define X(name) \
    case name:  \
        return #name;
        ERRNO_MAP(X)
#undef X
    default:
        return "EUNKNOWN";
    }
}

static void reset(mk_error *err, mk_status status)
{
    err->status = status;
    err->os_errno = 0;
    err->offset = -1;
    err->position = -1;
    err->record_index = -1;
    err->requested = -1;
    err->log_start_offset = -1;
    err->log_end_offset = -1;
    err->path[0] = '\0';
    err->message[0] = '\0';
    err->found_count = 0;
}

static void set_path(mk_error *err, const char *path)
{
    if (path != NULL) snprintf(err->path, sizeof err->path, "%s", path);
}

mk_status mk_fail(mk_error *err, mk_status status, const char *format, ...)
{
    va_list arguments;

    if (err == NULL) return status;
    reset(err, status);
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return status;
}

static mk_status status_of_errno(int os_errno)
{
    if (os_errno == ENOENT) return MK_NOT_FOUND;
    if (os_errno == ENOMEM) return MK_NO_MEMORY;
    return MK_IO;
}

mk_status mk_fail_errno(mk_error *err, int os_errno, const char *path,
                        const char *format, ...)
{
    mk_status status = status_of_errno(os_errno);
    va_list arguments;
    size_t used;

    if (err == NULL) return status;
    reset(err, status);
    err->os_errno = os_errno;
    set_path(err, path);
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s (%s)",
             strerror(os_errno), mk_errno_name(os_errno));
    return status;
}

mk_status mk_fail_memory(mk_error *err, size_t size)
{
    return mk_fail(err, MK_NO_MEMORY, "cannot allocate %zu bytes", size);
}

mk_status mk_fail_at(mk_error *err, mk_status status, const char *path,
                     int64_t position, const char *format, ...)
{
    va_list arguments;

    if (err == NULL) return status;
    reset(err, status);
    err->position = position;
    set_path(err, path);
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return status;
}

void mk_error_add_found(mk_error *err, const char *path, const char *what,
                        const char *note)
{
    mk_found *found;

    if (err == NULL || err->found_count == MK_FOUND_MAX) return;
    found = &err->found[err->found_count++];
    snprintf(found->path, sizeof found->path, "%s", path);
    found->what = what;
    found->note = note;
}

void mk_wrap(mk_error *err, const char *format, ...)
{
    char inner[sizeof err->message];
    va_list arguments;
    size_t used;

    if (err == NULL) return;
    memcpy(inner, err->message, sizeof inner);
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", inner);
}

bool mk_is_no_room(mk_status status, const mk_error *err)
{
    return status == MK_IO &&
           (err->os_errno == ENOSPC || err->os_errno == EDQUOT);
}
