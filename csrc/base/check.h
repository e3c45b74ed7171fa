/*
 * check -- assertions that stay on in release.
 *
 * MK_ASSERT states what only a bug could break. Never assert on bytes from
 * disk or on values from a caller.
 */
#ifndef MK_BASE_CHECK_H
#define MK_BASE_CHECK_H

/* Report a broken assertion on standard error, and abort. */
_Noreturn void mk_assert_fail(const char *file, int line, const char *what);

#define MK_ASSERT(condition) \
    ((condition) ? (void)0 : mk_assert_fail(__FILE__, __LINE__, #condition))

#define MK_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define MK_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif /* MK_BASE_CHECK_H */
