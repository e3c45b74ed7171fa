/*
 * status -- how a failure is told.
 *
 * The origin of a failure fills an mk_error with mk_fail(); each caller that
 * knows a name puts it in front with mk_wrap(). All of it lies in the caller's
 * mk_error, so that telling a failure can't fail. `err` may be NULL
 * everywhere.
 */
#ifndef MK_BASE_STATUS_H
#define MK_BASE_STATUS_H

#include <stdarg.h>

#include "include/minikafka.h"

/* Fill `err` and return `status`. */
mk_status mk_fail(mk_error *err, mk_status status, const char *format, ...)
    MK_PRINTF(3, 4);

/* The same for a failed system call on `path`: IO (NO_MEMORY for ENOMEM,
 * NOT_FOUND for ENOENT), with the errno's text after the message. */
mk_status mk_fail_errno(mk_error *err, int os_errno, const char *path,
                        const char *format, ...) MK_PRINTF(4, 5);

/* The same for memory that is not to be had. */
mk_status mk_fail_memory(mk_error *err, size_t size);

/* The same for damage found at `position` of `path`, which may be NULL. */
mk_status mk_fail_at(mk_error *err, mk_status status, const char *path,
                     int64_t position, const char *format, ...) MK_PRINTF(5, 6);

/* Add one thing to what was found; beyond MK_FOUND_MAX nothing is added. `what`
 * and `note` (which may be NULL) are valid for ever. */
void mk_error_add_found(mk_error *err, const char *path, const char *what,
                        const char *note);

/* Put "<context>: " in front of the message; returns err's status (or MK_OK if
 * `err` is NULL, so keep your own). */
void mk_wrap(mk_error *err, const char *format, ...) MK_PRINTF(2, 3);

/* Did it fail since the disk is full, or what one may use of it? `err` is not
 * NULL unless the status is OK. */
bool mk_is_no_room(mk_status status, const mk_error *err);

#endif /* MK_BASE_STATUS_H */
