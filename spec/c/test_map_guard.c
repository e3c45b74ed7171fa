/* Mappings of files that somebody else shortens: zeros and a flag, where there
 * is a guard; else what happened before. */
#define _GNU_SOURCE
#include "support/posix_world.h"

#include <sys/mman.h>

#include "os/map_guard.h"

#define SIZE (64 * 1024)

static uint8_t *map_file(posix_world *world)
{
    uint8_t ones[SIZE];
    uint8_t *data;
    int fd;

    memset(ones, 1, sizeof ones);
    put_file(world, "file", ones, SIZE);
    fd = open(path_of(world, "file"), O_RDWR);
    assert_true(fd >= 0);
    data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(data != MAP_FAILED);
    close(fd);
    return data;
}

static void shorten(posix_world *world, int64_t size)
{
    assert_int_equal(truncate(path_of(world, "file"), size), 0);
}

static void test_a_shortened_file(void **state)
{
    uint8_t *data = map_file(*state);
    mk_map_guard *guard = mk_map_guard_take(data, SIZE);

    assert_non_null(guard);
    assert_int_equal(data[SIZE - 1], 1);
    shorten(*state, SIZE / 2);
    assert_int_equal(data[0], 1);
    assert_false(mk_map_guard_is_broken(guard));
    assert_int_equal(data[SIZE - 1], 0);
    assert_true(mk_map_guard_is_broken(guard));
    data[SIZE / 2] = 7;
    assert_int_equal(data[SIZE / 2], 7);
    assert_int_equal(data[0], 1);
    mk_map_guard_release(guard);
    munmap(data, SIZE);
    mk_map_guard_release(NULL);
}

/* One guard breaks alone, and is whole again for who takes it next. */
static void test_many_guards(void **state)
{
    uint8_t *data = map_file(*state);
    mk_map_guard *guards[SIZE / 4096];

    for (size_t i = 0; i < SIZE / 4096; i++) {
        guards[i] = mk_map_guard_take(data + i * 4096, 4096);
        assert_non_null(guards[i]);
    }
    shorten(*state, 0);
    data[5 * 4096 + 17] = 1;
    for (size_t i = 0; i < SIZE / 4096; i++) {
        assert_int_equal(mk_map_guard_is_broken(guards[i]), i == 5);
        mk_map_guard_release(guards[i]);
    }
    for (size_t i = 0; i < SIZE / 4096; i++) {
        guards[i] = mk_map_guard_take(data + i * 4096, 4096);
        assert_false(mk_map_guard_is_broken(guards[i]));
    }
    for (size_t i = 0; i < SIZE / 4096; i++) {
        mk_map_guard_release(guards[i]);
    }
    munmap(data, SIZE);
}

/* Pages behind the old size are guarded once the guard knows of them. */
static void test_resize(void **state)
{
    uint8_t *data = map_file(*state);
    mk_map_guard *guard = mk_map_guard_take(data, 4096);

    mk_map_guard_resize(guard, SIZE);
    shorten(*state, 0);
    assert_int_equal(data[SIZE - 1], 0);
    assert_true(mk_map_guard_is_broken(guard));
    mk_map_guard_release(guard);
    munmap(data, SIZE);
}

static void leave(int number)
{
    _exit(number == SIGBUS ? 55 : 1);
}

/* The end of a child that touches a page that is not there, with that handler
 * of its own, or the default one. */
static int end_of_child(posix_world *world, void (*handler)(int))
{
    uint8_t *data = map_file(world);
    mk_map_guard *guard;
    pid_t child;
    int outcome;

    shorten(world, 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        volatile uint8_t *volatile page = data;

        signal(SIGBUS, handler != NULL ? handler : SIG_DFL);
        guard = mk_map_guard_take(data, 4096);
        CHILD_CHECK(guard != NULL);
        CHILD_CHECK(page[0] == 0);
        mk_map_guard_release(guard);
        page[4096] = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &outcome, 0), child);
    munmap(data, SIZE);
    return outcome;
}

/* What is nobody's guard's is the program's own affair. */
static void test_other_faults(void **state)
{
    int outcome = end_of_child(*state, NULL);

    /* Sanitizers end it their own way. */
    assert_true(!WIFEXITED(outcome) || WEXITSTATUS(outcome) > 1);
    outcome = end_of_child(*state, leave);
    assert_true(WIFEXITED(outcome));
    assert_int_equal(WEXITSTATUS(outcome), 55);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_other_faults),
        TEST(test_a_shortened_file),
        TEST(test_many_guards),
        TEST(test_resize),
    };

    return cmocka_run_group_tests_name("map_guard", tests, NULL, NULL);
}
