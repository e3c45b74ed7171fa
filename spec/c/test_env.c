/* The machine: environments, clocks, threads. */
#define _GNU_SOURCE
#include "support/posix_world.h"

#include <pthread.h>

static const int64_t ms_2020 = INT64_C(1577836800000);

/* A disk that only counts its releases. */
typedef struct counted_vfs {
    mk_vfs base;
    int releases;
} counted_vfs;

static void count_release(mk_vfs *vfs)
{
    ((counted_vfs *)vfs)->releases++;
}

static const mk_vfs_methods counted_methods = {.release = count_release};

/* The last holder's free takes the disk along, and no earlier one. */
static void test_env_lives_as_long_as_its_holders(void **state)
{
    mk_heap heap = mk_heap_default();
    counted_vfs vfs = {.base.methods = &counted_methods};
    mk_manual_clock manual = {.now_ms = 7};
    mk_env *env;
    int64_t now_ms;

    (void)state;
    assert_int_equal(
        mk_env_new(&heap, &vfs.base, mk_clock_manual(&manual), 1, &env, NULL),
        MK_OK);
    assert_ptr_equal(mk_env_acquire(env), env);
    mk_env_free(env);
    assert_int_equal(vfs.releases, 0);
    assert_int_equal(env->clock.now(env->clock.context, &now_ms, NULL), MK_OK);
    assert_int_equal(now_ms, 7);
    mk_env_free(env);
    assert_int_equal(vfs.releases, 1);
    mk_env_free(NULL);
}

static void *no_memory(void *context, void *block, size_t size)
{
    (void)context;
    (void)block;
    (void)size;
    return NULL;
}

/* The disk is the environment's even when there is none. */
static void test_env_frees_the_disk_when_it_fails(void **state)
{
    mk_heap heap = {.resize = no_memory};
    counted_vfs vfs = {.base.methods = &counted_methods};
    mk_env *env = (mk_env *)&vfs;
    mk_error err;

    (void)state;
    assert_int_equal(
        mk_env_new(&heap, &vfs.base, mk_clock_system(), 1, &env, &err),
        MK_NO_MEMORY);
    assert_null(env);
    assert_int_equal(err.status, MK_NO_MEMORY);
    assert_int_equal(vfs.releases, 1);
}

/* The same seed gives the same numbers, known ones, and another seed others. */
static void test_env_random_follows_the_seed(void **state)
{
    mk_heap heap = mk_heap_default();
    counted_vfs vfs = {.base.methods = &counted_methods};
    uint64_t first[3];

    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        mk_env *env;

        assert_int_equal(
            mk_env_new(&heap, &vfs.base, mk_clock_system(), seed, &env, NULL),
            MK_OK);
        first[seed] = mk_env_random(env);
        assert_true(mk_env_random(env) != first[seed]);
        mk_env_free(env);
    }
    assert_true(first[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(first[1] != first[0]);
    assert_true(first[2] != first[1]);
}

/* Each real machine has chances, and a clock, of its own. */
static void test_env_posix_is_ready_for_use(void **state)
{
    mk_env *a;
    mk_env *b;
    char holder[64];
    int64_t now_ms;

    (void)state;
    assert_int_equal(mk_env_new_posix(NULL, &a, NULL), MK_OK);
    assert_int_equal(mk_env_new_posix(NULL, &b, NULL), MK_OK);
    assert_true(mk_env_random(a) != mk_env_random(b));
    assert_int_equal(a->clock.now(a->clock.context, &now_ms, NULL), MK_OK);
    assert_true(now_ms > ms_2020);
    assert_int_equal(*a->vfs->session, 1);
    assert_int_equal(a->vfs->dead_status, MK_CLOSED);
    snprintf(holder, sizeof holder, "process %ld", (long)getpid());
    assert_string_equal(a->holder, holder);
    mk_env_free(a);
    mk_env_free(b);
}

/* Whichever allocation fails, making a machine says so and leaks nothing. */
static void test_env_posix_survives_a_poor_heap(void **state)
{
    posix_world *world = *state;
    long before = world->blocks;
    mk_status status;

    world->fail_at = 0;
    do {
        mk_env *env;

        world->fail_at++;
        world->heap_calls = 0;
        status = mk_env_new_posix(&world->heap, &env, NULL);
        assert_int_equal(env == NULL, status != MK_OK);
        mk_env_free(env);
        assert_int_equal(world->blocks, before);
    } while (status == MK_NO_MEMORY);
    assert_int_equal(status, MK_OK);
    assert_true(world->fail_at > 2);
}

/* A manual clock says what its owner says. */
static void test_clock_manual_stands_still(void **state)
{
    mk_manual_clock manual = {.now_ms = -5};
    mk_clock clock = mk_clock_manual(&manual);
    int64_t now_ms;

    (void)state;
    assert_int_equal(clock.now(clock.context, &now_ms, NULL), MK_OK);
    assert_int_equal(now_ms, -5);
    manual.now_ms = INT64_MAX;
    assert_int_equal(clock.now(clock.context, &now_ms, NULL), MK_OK);
    assert_int_equal(now_ms, INT64_MAX);
}

struct meeting {
    mk_mutex mutex;
    mk_condition condition;
    mk_thread_id guest;
    bool arrived;
    bool seen;
};

static void *arrive(void *context)
{
    struct meeting *meeting = context;

    mk_mutex_lock(&meeting->mutex);
    meeting->guest = mk_thread_self();
    meeting->arrived = true;
    mk_condition_signal_all(&meeting->condition);
    while (!meeting->seen) {
        mk_condition_wait(&meeting->condition, &meeting->mutex, INT64_MAX);
    }
    mk_mutex_unlock(&meeting->mutex);
    return NULL;
}

/* A signal ends a wait, however long it was meant to be; time ends it too. */
static void test_condition_waits_for_signal_or_time(void **state)
{
    struct meeting meeting = {0};
    pthread_t thread;

    (void)state;
    mk_mutex_init(&meeting.mutex);
    mk_condition_init(&meeting.condition);
    mk_mutex_lock(&meeting.mutex);
    assert_false(mk_condition_wait(&meeting.condition, &meeting.mutex, 0));
    assert_false(mk_condition_wait(&meeting.condition, &meeting.mutex, -1));
    assert_false(
        mk_condition_wait(&meeting.condition, &meeting.mutex, INT64_MIN));

    assert_int_equal(pthread_create(&thread, NULL, arrive, &meeting), 0);
    while (!meeting.arrived) {
        mk_condition_wait(&meeting.condition, &meeting.mutex, INT64_MAX);
    }
    assert_true(meeting.guest != mk_thread_self());
    meeting.seen = true;
    mk_condition_signal_all(&meeting.condition);
    mk_mutex_unlock(&meeting.mutex);
    pthread_join(thread, NULL);
    mk_condition_deinit(&meeting.condition);
    mk_mutex_deinit(&meeting.mutex);
}

/* A wait ends at its time: not before, by the clock that nobody sets. */
static void test_waits_are_not_short(void **state)
{
    mk_mutex mutex;
    mk_condition condition;
    struct timespec from;
    struct timespec to;

    (void)state;
    mk_mutex_init(&mutex);
    mk_condition_init(&condition);
    clock_gettime(CLOCK_MONOTONIC, &from);
    mk_mutex_lock(&mutex);
    while (mk_condition_wait(&condition, &mutex, 15)) {
        continue;
    }
    mk_mutex_unlock(&mutex);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec -
                    from.tv_nsec >=
                15000000);
    mk_condition_deinit(&condition);
    mk_mutex_deinit(&mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_env_lives_as_long_as_its_holders),
        cmocka_unit_test(test_env_frees_the_disk_when_it_fails),
        cmocka_unit_test(test_env_random_follows_the_seed),
        cmocka_unit_test(test_env_posix_is_ready_for_use),
        cmocka_unit_test_setup_teardown(test_env_posix_survives_a_poor_heap,
                                        world_setup, world_teardown),
        cmocka_unit_test(test_clock_manual_stands_still),
        cmocka_unit_test(test_condition_waits_for_signal_or_time),
        cmocka_unit_test(test_waits_are_not_short),
    };

    return cmocka_run_group_tests_name("env", tests, NULL, NULL);
}
