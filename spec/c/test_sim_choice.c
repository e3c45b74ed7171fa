/* What may become of one file, profile by profile. The expected states are
 * worked out by hand. */
#include "support/sim_states.h"

/* A file grows by a write: the page and the growth may survive apart, but a
 * page beyond the end is not seen. */
static void test_unsynced_growth(void **state)
{
    sim_world *world = *state;

    put_file(world, "/f", "");
    write_at(hold(world, create_file(world, "/f")), 0, "abc");
    assert_states(world->disk, NULL,
                  "kill9 /f=abc;\n"
                  "lazy /f=;\n"
                  "writeback /f=000;\n");
}

/* fdatasync is enough for pages and size. */
static void test_synced_growth(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "");
    file = hold(world, create_file(world, "/f"));
    write_at(file, 0, "abc");
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
    assert_states(world->disk, NULL, "kill9 /f=abc;\n");
}

/* Pages that were there before are written over in any order. */
static void test_unsynced_overwrites(void **state)
{
    sim_world *world = *state;

    put_file(world, "/a", "1");
    put_file(world, "/b", "1");
    write_at(hold(world, create_file(world, "/a")), 0, "2");
    write_at(hold(world, create_file(world, "/b")), 0, "2");
    assert_states(world->disk, NULL,
                  "kill9 /a=2;/b=2;\n"
                  "lazy /a=1;/b=1;\n"
                  "prefix /a=2;/b=1;\n"
                  "ordered /a=1;/b=2;\n");
}

/* One write of two pages is four atoms: each page, and the growth with it. */
static void test_write_of_two_pages(void **state)
{
    mk_sim_options options;
    sim_world *world;
    char text[516];

    (void)state;
    mk_sim_options_default(&options);
    options.page_bytes = 512;
    world = new_world(&options);
    put_file(world, "/f", "");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    write_at(hold(world, create_file(world, "/f")), 0, text);
    assert_int_equal(stats_of(world->disk).pending, 4);
    /* Prefix: the first page alone. Writeback: of the first size, no page; of
     * the second, the first page alone, the second alone, none. */
    assert_counts(world->disk, NULL, (size_t[]){1, 1, 1, 0, 4, 0});
    free_world(world);
}

/* A cut, then growth again over what was cut off. The size is a field: the
 * last change of it that survives counts, whatever became of the first. */
static void test_truncate_then_extend(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "abcdef");
    file = hold(world, create_file(world, "/f"));
    assert_int_equal(mk_file_truncate(file, 2, NULL), MK_OK);
    write_at(file, 2, "XY");
    assert_states(world->disk, NULL,
                  "kill9 /f=abXY;\n"
                  "lazy /f=abcdef;\n"
                  "prefix /f=ab;\n"
                  "ordered /f=abXYef;\n"
                  "writeback /f=ab00;\n"
                  "hostile /f=abcd;\n");
}

/* Room that was allocated is a size of its own, and reads as zeros. */
static void test_allocate(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "");
    file = hold(world, create_file(world, "/f"));
    assert_int_equal(mk_file_allocate(file, 3, NULL), MK_OK);
    write_at(file, 0, "ab");
    assert_states(world->disk, NULL,
                  "kill9 /f=ab0;\n"
                  "lazy /f=;\n"
                  "prefix /f=000;\n");
}

/* Times survive by themselves, and fdatasync leaves them. */
static void test_times(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "");
    assert_int_equal(mk_vfs_set_mtime(world->vfs, "/f", 5, NULL), MK_OK);
    assert_int_equal(mk_vfs_set_mtime(world->vfs, "/f", 7, NULL), MK_OK);
    assert_counts(world->disk, NULL, (size_t[]){1, 1, 1, 0, 0, 0});
    file = hold(world, create_file(world, "/f"));
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
    assert_counts(world->disk, NULL, (size_t[]){1, 1, 1, 0, 0, 0});
    sync_file(file);
    assert_counts(world->disk, NULL, (size_t[]){1, 0, 0, 0, 0, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unsynced_growth),
        TEST(synced_growth),
        TEST(unsynced_overwrites),
        TEST(write_of_two_pages),
        TEST(truncate_then_extend),
        TEST(allocate),
        TEST(times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
