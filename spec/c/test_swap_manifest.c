/* The note in a directory that takes another's place. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/names.h"
#include "store/swap_manifest.h"

static mk_status store(posix_world *world, mk_vfs *vfs, const char *live,
                       mk_swap_phase phase)
{
    return mk_swap_manifest_store(vfs, world->root, live, phase, NULL);
}

static mk_swap_phase load(posix_world *world, const char *live)
{
    mk_swap_phase phase = MK_SWAP_READY;

    assert_ok(
        mk_swap_manifest_load(world->vfs, world->root, live, &phase, NULL));
    return phase;
}

static void put_note(posix_world *world, const char *text)
{
    put_file(world, MK_NAME_SWAP, text, strlen(text));
}

/* What was written is read, and replaced by the next note. */
static void test_phases(void **state)
{
    posix_world *world = *state;

    assert_int_equal(load(world, "orders-0"), MK_SWAP_NONE);
    assert_ok(store(world, world->vfs, "orders-0", MK_SWAP_BUILDING));
    assert_content(world, MK_NAME_SWAP,
                   "minikafka swap 1\nlive orders-0\nphase building\n");
    assert_int_equal(load(world, "orders-0"), MK_SWAP_BUILDING);
    assert_ok(store(world, world->vfs, "orders-0", MK_SWAP_READY));
    assert_content(world, MK_NAME_SWAP,
                   "minikafka swap 1\nlive orders-0\nphase ready\n");
    assert_int_equal(load(world, "orders-0"), MK_SWAP_READY);
    assert_false(exists(world, MK_NAME_SWAP ".tmp"));
}

/* A note counts only for the directory that it names. */
static void test_another_directory(void **state)
{
    static const char *const others[] = {"orders-1", "orders-",  "orders-00",
                                         "rders-0",  "Orders-0", ""};
    posix_world *world = *state;

    assert_ok(store(world, world->vfs, "orders-0", MK_SWAP_READY));
    for (size_t i = 0; i < LENGTH(others); i++) {
        assert_int_equal(load(world, others[i]), MK_SWAP_STRANGE);
    }
}

/* Any name that a directory can have, the longest and the strangest too. */
static void test_names(void **state)
{
    posix_world *world = *state;
    char longest[256];
    const char *const names[] = {longest, "\n",    "a\nphase ready\n", "a b",
                                 "%s%n",  "phase", "\x01\xff"};

    memset(longest, 'x', 255);
    longest[255] = '\0';
    for (size_t i = 0; i < LENGTH(names); i++) {
        for (int phase = MK_SWAP_BUILDING; phase <= MK_SWAP_READY; phase++) {
            assert_ok(store(world, world->vfs, names[i], (mk_swap_phase)phase));
            assert_int_equal(load(world, names[i]), phase);
            assert_int_equal(load(world, "other"), MK_SWAP_STRANGE);
        }
    }
}

static void check_strange(void *context, const uint8_t *bytes, size_t size)
{
    posix_world *world = context;

    change_file(world, MK_NAME_SWAP, bytes, size);
    assert_int_equal(load(world, "orders-0"), MK_SWAP_STRANGE);
}

/* A note that is cut, changed or longer than it should be proves nothing. */
static void test_damaged(void **state)
{
    static const char *const texts[] = {
        "minikafka swap 2\nlive orders-0\nphase ready\n",
        "minikafka swap 1\nlive orders-0\nphase none\n",
        "minikafka swap 1\nlive orders-0\nphase \n",
        "minikafka swap 1\nlive orders-0\nphase readybuilding\n",
        "minikafka swap 1\nphase ready\nlive orders-0\n",
        "minikafka swap 1\r\nlive orders-0\r\nphase ready\r\n",
        "minikafka swap 1\nlive orders-0\nphase ready\n\n",
        "minikafka swap 1\nlive orders-0\nphase ready",
        "\nminikafka swap 1\nlive orders-0\nphase ready\n",
    };
    posix_world *world = *state;

    for (int phase = MK_SWAP_BUILDING; phase <= MK_SWAP_READY; phase++) {
        uint8_t *bytes;
        size_t size;

        assert_ok(store(world, world->vfs, "orders-0", (mk_swap_phase)phase));
        bytes = get_file(world, MK_NAME_SWAP, &size);
        each_damage(bytes, size, check_strange, world);
        bytes[size] = '\0';
        check_strange(world, bytes, size + 1);
        free(bytes);
    }
    for (size_t i = 0; i < LENGTH(texts); i++) {
        put_note(world, texts[i]);
        assert_int_equal(load(world, "orders-0"), MK_SWAP_STRANGE);
    }
}

/* A file that is much too large proves nothing, and is not read. */
static void test_huge(void **state)
{
    posix_world *world = *state;

    put_note(world, "minikafka swap 1\nlive orders-0\nphase ready\n");
    assert_int_equal(truncate(path_of(world, MK_NAME_SWAP), 1024), 0);
    assert_int_equal(load(world, "orders-0"), MK_SWAP_STRANGE);
    assert_int_equal(truncate(path_of(world, MK_NAME_SWAP), 1025), 0);
    assert_int_equal(load(world, "orders-0"), MK_SWAP_STRANGE);
    assert_int_equal(truncate(path_of(world, MK_NAME_SWAP), INT64_C(1) << 40),
                     0);
    assert_int_equal(load(world, "orders-0"), MK_SWAP_STRANGE);
}

/* A failure to look is an error, not the absence of a note. */
static void test_failing_load(void **state)
{
    posix_world *world = *state;
    mk_swap_phase phase;
    traced_disk disk;

    traced_init(&disk, world);
    assert_ok(store(world, world->vfs, "orders-0", MK_SWAP_READY));
    for (long n = 1; n <= 3; n++) {
        phase = MK_SWAP_READY;
        traced_restart(&disk, n);
        assert_status(mk_swap_manifest_load(&disk.base, world->root, "orders-0",
                                            &phase, NULL),
                      MK_IO);
        assert_int_equal(phase, MK_SWAP_NONE);
    }
    assert_int_equal(unlink(path_of(world, MK_NAME_SWAP)), 0);
    assert_int_equal(mkdir(path_of(world, MK_NAME_SWAP), 0700), 0);
    assert_status(mk_swap_manifest_load(world->vfs, world->root, "orders-0",
                                        &phase, NULL),
                  MK_IO);
}

/* The note is on stable storage when the call returns; whatever fails, it is
 * the old one or the new one. */
static void test_store(void **state)
{
    posix_world *world = *state;
    char expected[256];
    traced_disk disk;

    traced_init(&disk, world);
    assert_ok(store(world, &disk.base, "orders-0", MK_SWAP_BUILDING));
    snprintf(expected, sizeof expected,
             "open minikafka.swap.tmp; write minikafka.swap.tmp; "
             "sync minikafka.swap.tmp; close minikafka.swap.tmp; "
             "rename minikafka.swap.tmp; sync-directory %s; ",
             mk_name_last(world->root));
    assert_string_equal(disk.trace, expected);
    for (long n = 1; n <= 6; n++) {
        assert_ok(store(world, world->vfs, "orders-0", MK_SWAP_BUILDING));
        traced_restart(&disk, n);
        assert_status(store(world, &disk.base, "orders-0", MK_SWAP_READY),
                      MK_IO);
        assert_int_equal(load(world, "orders-0"),
                         n < 6 ? MK_SWAP_BUILDING : MK_SWAP_READY);
    }
}

/* ---- Memory ---- */

typedef struct noting {
    posix_world *world;
    mk_swap_phase phase;
} noting;

static mk_status act_load(void *context, mk_error *err)
{
    noting *n = context;

    n->phase = MK_SWAP_BUILDING;
    return mk_swap_manifest_load(n->world->vfs, n->world->root, "orders-0",
                                 &n->phase, err);
}

static void check_phase_none(void *context)
{
    const noting *n = context;

    assert_int_equal(n->phase, MK_SWAP_NONE);
}

static mk_status act_store(void *context, mk_error *err)
{
    noting *n = context;

    return mk_swap_manifest_store(n->world->vfs, n->world->root, "orders-0",
                                  MK_SWAP_READY, err);
}

static void check_building(void *context)
{
    noting *n = context;

    assert_int_equal(load(n->world, "orders-0"), MK_SWAP_BUILDING);
}

static void test_without_memory(void **state)
{
    noting n = {.world = *state};

    assert_ok(store(n.world, n.world->vfs, "orders-0", MK_SWAP_BUILDING));
    assert_true(sweep_heap(n.world, act_store, check_building, &n) > 0);
    assert_true(sweep_heap(n.world, act_load, check_phase_none, &n) > 0);
    assert_int_equal(n.phase, MK_SWAP_READY);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_phases), TEST(test_another_directory),
        TEST(test_names),  TEST(test_damaged),
        TEST(test_huge),   TEST(test_failing_load),
        TEST(test_store),  TEST(test_without_memory),
    };

    return cmocka_run_group_tests_name("swap_manifest", tests, NULL, NULL);
}
