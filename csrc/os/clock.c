/* clock -- the system's clock, and one that stands still. */
#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#include "base/status.h"

static mk_status system_now(void *context, int64_t *now_ms, mk_error *err)
{
    struct timespec now;

    (void)context;
    *now_ms = 0;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return mk_fail_errno(err, errno, NULL, "cannot read the clock");
    }
    *now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return MK_OK;
}

static mk_status manual_now(void *context, int64_t *now_ms, mk_error *err)
{
    const mk_manual_clock *manual = context;

    (void)err;
    *now_ms = manual->now_ms;
    return MK_OK;
}

mk_clock mk_clock_manual(mk_manual_clock *manual)
{
    return (mk_clock){.now = manual_now, .context = manual};
}

mk_clock mk_clock_system(void)
{
    return (mk_clock){.now = system_now};
}
