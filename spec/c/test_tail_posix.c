/* The real disk: the growing end of a file, plain and mapped. */
#define _GNU_SOURCE
#include "support/posix_tail.h"

#include <sys/vfs.h>

static bool is_known_disk(posix_world *world)
{
    struct statfs disk;

    assert_int_equal(statfs(world->root, &disk), 0);
    return disk.f_type == 0xef53 || disk.f_type == 0x01021994 ||
           disk.f_type == 0x58465342;
}

/* ---- Appending ---- */

/* Small and large appends in any mixture: at each step as much is seen as is
 * committed, and in the end the file is exactly that. */
static void check_mixture(posix_world *world, mk_tail_mode mode, int64_t start)
{
    uint8_t *model = calloc(1, 16 << 20);
    size_t end = (size_t)start;
    uint64_t chance = 1;
    mk_scratch scratch;
    uint8_t *bytes;
    mk_file *file;
    size_t size;

    assert_non_null(model);
    mk_scratch_init(&scratch, &world->heap);
    put_file(world, "file", model, end);
    file = open_tail(world, "file", start, mode);
    for (unsigned i = 0; i < 6000; i++) {
        mk_span span;

        chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407;
        size = 1 + (size_t)(chance >> 33) % 300;
        if (i > 3000 && i % 50 < 3) size += 70000 * (i % 3) + 3700;
        assert_int_equal(append(file, size, i, NULL), MK_OK);
        fill(model + end, size, i);
        end += size;
        if (i >= 1000 && i < 1000 + SYNCED) assert_synced(file);
        if (i % 10 != 0) continue;
        assert_int_equal(committed(file), end);
        assert_int_equal(mk_file_view(file, &scratch, (int64_t)(end - size),
                                      999999, &span, NULL),
                         MK_OK);
        assert_int_equal(span.size, size);
        assert_memory_equal(span.data, model + end - size, size);
        if (i % 500 == 0) assert_synced(file);
    }
    assert_true(end <= 16 << 20);
    assert_int_equal(mk_file_tail_end(file, NULL), MK_OK);
    bytes = get_file(world, "file", &size);
    assert_int_equal(size, end);
    assert_memory_equal(bytes, model, end);
    free(bytes);
    free(model);
    close_file(file);
    mk_scratch_deinit(&scratch);
}

static void test_any_mixture_of_appends(void **state)
{
    for (int i = 0; i < MODES; i++) {
        check_mixture(*state, all_modes[i], 0);
        check_mixture(*state, all_modes[i], 123457);
    }
}

/* A commit of less than was reserved takes the first bytes. */
static void test_commit_less_than_reserved(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        mk_file *file = open_tail(world, "file", 0, all_modes[i]);
        uint8_t *place;
        uint8_t *bytes;
        size_t size;

        assert_int_equal(mk_file_tail_reserve(file, 4000, &place, NULL), MK_OK);
        memcpy(place, "abcdef", 6);
        assert_int_equal(mk_file_tail_commit(file, 3, NULL), MK_OK);
        assert_int_equal(mk_file_tail_reserve(file, 3, &place, NULL), MK_OK);
        memcpy(place, "xyz", 3);
        assert_int_equal(mk_file_tail_commit(file, 3, NULL), MK_OK);
        close_file(file);
        bytes = get_file(world, "file", &size);
        assert_int_equal(size, 6);
        assert_memory_equal(bytes, "abcxyz", 6);
        free(bytes);
    }
}

/* What was built and not committed is taken back, so that it is not found
 * after a death: by a commit of nothing, or by the next reservation. */
static void test_what_is_not_committed_goes(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        mk_file *file;
        uint8_t *place;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i]);
        append_many(file, RUN);
        assert_int_equal(mk_file_tail_reserve(file, 4000, &place, NULL), MK_OK);
        memset(place, 'x', 4000);
        assert_int_equal(mk_file_tail_commit(file, 0, NULL), MK_OK);
        assert_small_appends(world, "file", RUN);
        assert_int_equal(mk_file_tail_reserve(file, 4000, &place, NULL), MK_OK);
        memset(place, 'x', 4000);
        assert_int_equal(mk_file_tail_reserve(file, 0, &place, NULL), MK_OK);
        assert_small_appends(world, "file", RUN);
        close_file(file);
        assert_int_equal(size_on_disk(world, "file"), RUN * SMALL);
    }
}

/* ---- Modes ---- */

/* AUTO maps after so many small appends in a row, and syncs do not count; a
 * large one starts the row anew. Seen by the zeros ahead. */
static void test_auto_maps_after_many_small_appends(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "file", 0, MK_TAIL_AUTO);

    if (!is_known_disk(world)) {
        close_file(file);
        print_message("no disk to map on\n");
        skip();
    }
    append_many(file, 1000);
    assert_int_equal(append(file, 5000, 0, NULL), MK_OK);
    append_many(file, 1023);
    assert_synced(file);
    assert_int_equal(size_on_disk(world, "file"), committed(file));
    append_many(file, 2);
    assert_true(size_on_disk(world, "file") > committed(file));
    close_file(file);
}

/* On a disk that is not known to keep its promises AUTO stays plain. */
static void test_auto_avoids_unknown_disks(void **state)
{
    posix_world *world = *state;
    mk_file *file;

    if (!mount_small_disk(world, "ramfs")) skip();
    file = open_tail(world, "small/file", 0, MK_TAIL_AUTO);
    append_many(file, 2 * RUN);
    assert_int_equal(size_on_disk(world, "small/file"), 2 * RUN * SMALL);
    close_file(file);
    unmount_small_disk(world);
}

/* PLAIN writes nothing ahead, however many appends there are; MAPPED does so
 * from the first small one on. */
static void test_plain_and_mapped_do_as_told(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "plain", 0, MK_TAIL_PLAIN);

    append_many(file, 3 * RUN);
    assert_int_equal(size_on_disk(world, "plain"), 3 * RUN * SMALL);
    close_file(file);
    file = open_tail(world, "mapped", 0, MK_TAIL_MAPPED);
    assert_int_equal(append(file, 5000, 0, NULL), MK_OK);
    assert_int_equal(size_on_disk(world, "mapped"), 5000);
    append_many(file, 1);
    assert_true(size_on_disk(world, "mapped") > 5000 + SMALL);
    close_file(file);
}

/* Where each append is synced, all modes but PLAIN write zeros ahead, and none
 * maps; with more bytes a sync they stop. */
static void test_syncs_bring_zeros_ahead(void **state)
{
    posix_world *world = *state;

    if (!is_known_disk(world)) {
        print_message("no disk to write ahead on\n");
        skip();
    }
    for (int i = 0; i < MODES; i++) {
        mk_file *file;
        int64_t size;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i]);
        assert_int_equal(append(file, 5000, 0, NULL), MK_OK);
        for (unsigned j = 0; j < SYNCED; j++) {
            assert_synced(file);
            assert_int_equal(append(file, 5000, j, NULL), MK_OK);
        }
        size = size_on_disk(world, "file");
        assert_true((size == committed(file)) ==
                    (all_modes[i] == MK_TAIL_PLAIN));
        assert_synced(file);
        assert_int_equal(append(file, 5000, 0, NULL), MK_OK);
        if (all_modes[i] != MK_TAIL_PLAIN) {
            assert_int_equal(size_on_disk(world, "file"), size);
        }
        while (committed(file) <= size) {
            assert_int_equal(append(file, 70000, 0, NULL), MK_OK);
        }
        assert_int_equal(size_on_disk(world, "file"), committed(file));
        close_file(file);
    }
}

/* Without room for a mapping a tail is plain, and nobody notices. */
static void test_mapped_tail_without_address_space(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "file", 0, MK_TAIL_MAPPED);
    struct rlimit before;

    limit_address_space(&before);
    append_many(file, RUN);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(size_on_disk(world, "file"), RUN * SMALL);
    close_file(file);
    assert_small_appends(world, "file", RUN);
}

/* Small appends go on over the end of a window, which large ones before them
 * brought near. */
static void test_mapped_tail_crosses_windows(void **state)
{
    posix_world *world = *state;
    mk_file *file = open_tail(world, "file", 0, MK_TAIL_MAPPED);
    int64_t start = WINDOW - 1000 * SMALL;
    uint8_t wanted[SMALL];
    mk_scratch scratch;

    append_many(file, 1);
    while (committed(file) < start) {
        int64_t size = start - committed(file);

        if (size > 1 << 20) size = 1 << 20;
        assert_int_equal(append(file, (size_t)size, 0, NULL), MK_OK);
    }
    append_many(file, 3000);
    mk_scratch_init(&scratch, &world->heap);
    for (unsigned i = 0; i < 3000; i++) {
        mk_span span;

        assert_int_equal(
            mk_file_view(file, &scratch, start + i * SMALL, SMALL, &span, NULL),
            MK_OK);
        fill(wanted, SMALL, i);
        assert_int_equal(span.size, SMALL);
        assert_memory_equal(span.data, wanted, SMALL);
    }
    mk_scratch_deinit(&scratch);
    close_file(file);
    assert_int_equal(size_on_disk(world, "file"), start + 3000 * SMALL);
}

/* ---- Ending and truncating ---- */

/* Whatever stood behind the tail is gone when it ends: zeros, or room that was
 * allocated. A new tail may begin there. */
static void test_end_cuts_what_is_ahead(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        mk_file *file;

        put_file(world, "file", "", 0);
        file = open_file(world, "file", MK_OPEN_WRITE);
        assert_int_equal(mk_file_allocate(file, 1 << 20, NULL), MK_OK);
        assert_int_equal(mk_file_tail_begin(file, 0, all_modes[i], NULL),
                         MK_OK);
        append_many(file, RUN);
        assert_true(size_on_disk(world, "file") >= 1 << 20);
        assert_int_equal(mk_file_tail_end(file, NULL), MK_OK);
        assert_int_equal(size_on_disk(world, "file"), RUN * SMALL);
        assert_int_equal(mk_file_tail_end(file, NULL), MK_OK);
        assert_int_equal(mk_file_write(file, 0, "x", 1, NULL), MK_OK);
        assert_int_equal(mk_file_tail_begin(file, 0, all_modes[i], NULL),
                         MK_OK);
        append_many(file, 5);
        close_file(file);
        assert_small_appends(world, "file", 5);
        assert_int_equal(size_on_disk(world, "file"), 5 * SMALL);
    }
}

/* A tail goes on where it was cut to, shorter or longer, and what it grew over
 * is zero. */
static void test_truncate_moves_the_tail(void **state)
{
    posix_world *world = *state;

    for (int i = 0; i < MODES; i++) {
        uint8_t wanted[SMALL] = {0};
        mk_file *file;
        uint8_t *place;
        uint8_t *bytes;
        size_t size;

        put_file(world, "file", "", 0);
        file = open_tail(world, "file", 0, all_modes[i]);
        append_many(file, RUN);
        assert_int_equal(mk_file_tail_reserve(file, SMALL, &place, NULL),
                         MK_OK);
        memset(place, 'x', SMALL);
        assert_int_equal(mk_file_truncate(file, 10 * SMALL, NULL), MK_OK);
        assert_int_equal(committed(file), 10 * SMALL);
        assert_int_equal(size_on_disk(world, "file"), 10 * SMALL);
        assert_int_equal(append(file, SMALL, 10, NULL), MK_OK);
        assert_small_appends(world, "file", 11);

        assert_int_equal(mk_file_tail_reserve(file, SMALL, &place, NULL),
                         MK_OK);
        memset(place, 'x', SMALL);
        assert_int_equal(mk_file_truncate(file, 12 * SMALL, NULL), MK_OK);
        assert_int_equal(append(file, SMALL, 12, NULL), MK_OK);
        wait_tick();
        assert_int_equal(append(file, SMALL, 13, NULL), MK_OK);
        close_file(file);
        bytes = get_file(world, "file", &size);
        assert_int_equal(size, 14 * SMALL);
        assert_memory_equal(bytes + 11 * SMALL, wanted, SMALL);
        fill(wanted, SMALL, 12);
        assert_memory_equal(bytes + 12 * SMALL, wanted, SMALL);
        free(bytes);
    }
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_any_mixture_of_appends),
        TEST(test_commit_less_than_reserved),
        TEST(test_what_is_not_committed_goes),
        TEST(test_auto_maps_after_many_small_appends),
        TEST(test_auto_avoids_unknown_disks),
        TEST(test_plain_and_mapped_do_as_told),
        TEST(test_syncs_bring_zeros_ahead),
        TEST(test_mapped_tail_without_address_space),
        TEST(test_mapped_tail_crosses_windows),
        TEST(test_end_cuts_what_is_ahead),
        TEST(test_truncate_moves_the_tail),
    };

    return cmocka_run_group_tests_name("tail_posix", tests, NULL, NULL);
}
