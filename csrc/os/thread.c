/* thread -- mutexes, condition variables and sleep, by POSIX threads. */
#define _GNU_SOURCE
#include "os/thread.h"

#include <errno.h>
#include <time.h>

#include "base/check.h"

/* A hundred years. Longer waits are cut to it, so that no sum overflows. */
#define WAIT_MS_MAX (INT64_C(100) * 366 * 24 * 3600 * 1000)

static struct timespec span_of_ms(int64_t span_ms)
{
    if (span_ms < 0) span_ms = 0;
    if (span_ms > WAIT_MS_MAX) span_ms = WAIT_MS_MAX;
    return (struct timespec){
        .tv_sec = (time_t)(span_ms / 1000),
        .tv_nsec = (long)(span_ms % 1000) * 1000000,
    };
}

void mk_mutex_init(mk_mutex *mutex)
{
    int failed = pthread_mutex_init(&mutex->native, NULL);

    MK_ASSERT(failed == 0);
}

void mk_mutex_deinit(mk_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->native);
}

/* Waits are measured by the clock that nobody sets. */
void mk_condition_init(mk_condition *condition)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);

    MK_ASSERT(failed == 0);
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    MK_ASSERT(failed == 0);
    failed = pthread_cond_init(&condition->native, &attributes);
    MK_ASSERT(failed == 0);
    pthread_condattr_destroy(&attributes);
}

void mk_condition_deinit(mk_condition *condition)
{
    pthread_cond_destroy(&condition->native);
}

void mk_condition_signal_all(mk_condition *condition)
{
    pthread_cond_broadcast(&condition->native);
}

bool mk_condition_wait(mk_condition *condition, mk_mutex *mutex,
                       int64_t timeout_ms)
{
    struct timespec span = span_of_ms(timeout_ms);
    struct timespec end;
    int failed;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += span.tv_sec;
    end.tv_nsec += span.tv_nsec;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec += 1;
        end.tv_nsec -= 1000000000;
    }
    failed = pthread_cond_timedwait(&condition->native, &mutex->native, &end);
    MK_ASSERT(failed == 0 || failed == ETIMEDOUT);
    return failed == 0;
}

mk_thread_id mk_thread_self(void)
{
    return (mk_thread_id)pthread_self();
}
