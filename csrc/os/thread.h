/*
 * thread -- mutexes and condition variables.
 */
#ifndef MK_OS_THREAD_H
#define MK_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mk_mutex {
    pthread_mutex_t native;
} mk_mutex;

typedef struct mk_condition {
    pthread_cond_t native;
} mk_condition;

/* Who is calling; comparable with ==. */
typedef uintptr_t mk_thread_id;

void mk_mutex_init(mk_mutex *mutex);
void mk_mutex_deinit(mk_mutex *mutex);
void mk_condition_init(mk_condition *condition);
void mk_condition_deinit(mk_condition *condition);
void mk_condition_signal_all(mk_condition *condition);

/* Wait for a signal; false after `timeout_ms` without one. */
bool mk_condition_wait(mk_condition *condition, mk_mutex *mutex,
                       int64_t timeout_ms);

mk_thread_id mk_thread_self(void);

static inline void mk_mutex_lock(mk_mutex *mutex)
{
    pthread_mutex_lock(&mutex->native);
}

static inline void mk_mutex_unlock(mk_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->native);
}

#endif /* MK_OS_THREAD_H */
