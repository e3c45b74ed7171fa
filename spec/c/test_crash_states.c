/* Which disks can be found after a crash. The expected states are worked out by
 * hand, profile by profile. */
#include "support/sim_states.h"

/* ---- Names ---- */

/* A new file has a name to lose as well. */
static void test_new_file_without_any_sync(void **state)
{
    sim_world *world = *state;

    write_at(hold(world, create_file(world, "/f")), 0, "abc");
    assert_states(world->disk, NULL,
                  "kill9 /f=abc;\n"
                  "lazy \n"
                  "prefix /f=;\n"
                  "writeback /f=000;\n");
}

/* The sync of a new file does not make its name stable, unless the disk is one
 * that does so. */
static void test_new_file_without_sync_of_directory(void **state)
{
    mk_sim_options options;

    (void)state;
    mk_sim_options_default(&options);
    for (int links = 0; links <= 1; links++) {
        sim_world *world;
        mk_file *file;

        options.fsync_links = links == 1;
        world = new_world(&options);
        file = hold(world, create_file(world, "/f"));
        write_at(file, 0, "abc");
        sync_file(file);
        assert_states(world->disk, NULL,
                      links == 1 ? "kill9 /f=abc;\n"
                                 : "kill9 /f=abc;\nlazy \n");
        free_world(world);
    }
}

/* With fsync_links, what came before on the same name becomes stable too, and
 * what is on another name does not. */
static void test_fsync_links_keeps_the_order_of_a_name(void **state)
{
    mk_sim_options options;
    sim_world *world;

    (void)state;
    mk_sim_options_default(&options);
    options.fsync_links = true;
    world = new_world(&options);
    put_file(world, "/f", "1");
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    close_file(create_file(world, "/g"));
    sync_file(hold(world, create_file(world, "/f")));
    assert_states(world->disk, NULL,
                  "kill9 /f=;/g=;\n"
                  "lazy /f=;\n");
    free_world(world);
}

/* Names in a directory that nobody synced survive in any combination. */
static void test_two_new_names(void **state)
{
    sim_world *world = *state;

    close_file(create_file(world, "/a"));
    close_file(create_file(world, "/b"));
    assert_states(world->disk, NULL,
                  "kill9 /a=;/b=;\n"
                  "lazy \n"
                  "prefix /a=;\n"
                  "hostile /b=;\n");
    sync_directory(world, "/");
    assert_states(world->disk, NULL, "kill9 /a=;/b=;\n");
}

/* Changes of one name survive in their order. */
static void test_name_removed_and_made_again(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "1");
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    file = hold(world, create_file(world, "/f"));
    write_at(file, 0, "2");
    sync_file(file);
    assert_states(world->disk, NULL,
                  "kill9 /f=2;\n"
                  "lazy /f=1;\n"
                  "prefix \n");
}

/* A rename over an existing name is both or nothing. */
static void test_rename_over(void **state)
{
    sim_world *world = *state;

    put_file(world, "/new", "N");
    put_file(world, "/old", "O");
    rename_to(world, "/new", "/old");
    assert_states(world->disk, NULL,
                  "kill9 /old=N;\n"
                  "lazy /new=N;/old=O;\n");
}

/* The classic mistake: a file that takes its name before it was synced. */
static void test_rename_of_unsynced_file(void **state)
{
    sim_world *world = *state;

    put_file(world, "/f", "OLD");
    write_at(hold(world, create_file(world, "/t")), 0, "new");
    rename_to(world, "/t", "/f");
    assert_states(world->disk, NULL,
                  "kill9 /f=new;\n"
                  "lazy /f=OLD;\n"
                  "prefix /f=OLD;/t=;\n"
                  "prefix /f=OLD;/t=new;\n"
                  "writeback /f=OLD;/t=000;\n"
                  "writeback /f=000;\n"
                  "hostile /f=;\n");
    sync_directory(world, "/");
    assert_states(world->disk, NULL,
                  "kill9 /f=new;\n"
                  "lazy /f=;\n"
                  "writeback /f=000;\n");
}

/* A rename from one directory to another is whole when either is synced, and
 * takes along what it needs. */
static void test_rename_between_directories(void **state)
{
    sim_world *world = *state;

    assert_int_equal(mk_vfs_mkdir(world->vfs, "/a", NULL), MK_OK);
    assert_int_equal(mk_vfs_mkdir(world->vfs, "/b", NULL), MK_OK);
    sync_directory(world, "/");
    close_file(create_file(world, "/a/f"));
    rename_to(world, "/a/f", "/b/f");
    assert_states(world->disk, NULL,
                  "kill9 /b/f=;\n"
                  "lazy \n"
                  "prefix /a/f=;\n");
    sync_directory(world, "/b");
    assert_states(world->disk, NULL, "kill9 /b/f=;\n");
}

/* Two directories change places at once. */
static void test_exchange(void **state)
{
    sim_world *world = *state;

    put_file(world, "/a/x", "1");
    put_file(world, "/b/x", "2");
    assert_int_equal(mk_vfs_exchange(world->vfs, "/a", "/b", NULL), MK_OK);
    assert_states(world->disk, NULL,
                  "kill9 /a/x=2;/b/x=1;\n"
                  "lazy /a/x=1;/b/x=2;\n");
}

/* A hard link shares what becomes of the content. */
static void test_hard_link(void **state)
{
    sim_world *world = *state;

    put_file(world, "/a", "1");
    assert_int_equal(mk_vfs_link(world->vfs, "/a", "/b", NULL), MK_OK);
    write_at(hold(world, create_file(world, "/b")), 0, "2");
    assert_states(world->disk, NULL,
                  "kill9 /a=2;/b=2;\n"
                  "lazy /a=1;\n"
                  "prefix /a=1;/b=1;\n"
                  "ordered /a=2;\n");
}

/* What is synced in a directory that is not, is lost with it. */
static void test_directory_without_a_stable_name(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    assert_int_equal(mk_vfs_mkdir(world->vfs, "/d", NULL), MK_OK);
    file = hold(world, create_file(world, "/d/f"));
    write_at(file, 0, "x");
    sync_file(file);
    sync_directory(world, "/d");
    assert_states(world->disk, NULL,
                  "kill9 /d/f=x;\n"
                  "lazy \n");
    sync_directory(world, "/");
    assert_states(world->disk, NULL, "kill9 /d/f=x;\n");
}

/* A file that lost all its names does not multiply the states. */
static void test_files_without_names_do_not_count(void **state)
{
    sim_world *world = *state;

    for (int i = 0; i < 30; i++) {
        mk_file *file = create_file(world, "/tmp");

        write_at(file, 0, "gone");
        close_file(file);
        assert_int_equal(mk_vfs_unlink(world->vfs, "/tmp", NULL), MK_OK);
        sync_directory(world, "/");
    }
    assert_int_equal(stats_of(world->disk).pending, 0);
    assert_states(world->disk, NULL, "kill9 \n");
}

/* How Kafka puts a cleaned segment in the place of two, without a sync between:
 * of the 12 renames each file type has 5 of 8 sets of three that keep the order
 * of names, times 2 for the second segment's; 10^3 in all. */
static void test_renames_of_a_segment_swap(void **state)
{
    static const char *const kinds[] = {"log", "index", "timeindex"};
    static const char *const steps[][2] = {
        {"/0.%s.cleaned", "/0.%s.swap"},
        {"/0.%s", "/0.%s.deleted"},
        {"/1.%s", "/1.%s.deleted"},
        {"/0.%s.swap", "/0.%s"},
    };
    sim_world *world = *state;

    for (size_t i = 0; i < 3; i++) {
        put_file_as(world, "/0.%s", kinds[i], "0");
        put_file_as(world, "/1.%s", kinds[i], "1");
        put_file_as(world, "/0.%s.cleaned", kinds[i], "2");
    }
    for (size_t step = 0; step < 4; step++) {
        for (size_t i = 0; i < 3; i++) {
            rename_as(world, steps[step][0], steps[step][1], kinds[i]);
        }
    }
    assert_counts(world->disk, NULL, (size_t[]){1, 1, 11, 0, 0, 987});
}

/* ---- The row ---- */

/* A limit ends the row; whether something was cut off is told. */
static void test_limit(void **state)
{
    mk_sim_states_options options;
    sim_world *world = *state;

    put_file(world, "/f", "");
    write_at(hold(world, create_file(world, "/f")), 0, "abc");
    mk_sim_states_options_default(&options);
    for (int64_t limit = 0; limit <= 4; limit++) {
        mk_sim_states_info info;

        options.limit = limit;
        info = count_states(world->disk, &options, NULL);
        assert_int_equal(info.given, limit < 3 ? limit : 3);
        assert_int_equal(info.complete, limit >= 3);
    }
}

/* The disk's own profile is how far the row goes. */
static void test_profile_of_the_disk(void **state)
{
    mk_sim_options options;
    sim_world *world;

    (void)state;
    mk_sim_options_default(&options);
    options.profile = MK_SIM_ORDERED;
    world = new_world(&options);
    put_file(world, "/f", "abcdef");
    assert_int_equal(
        mk_file_truncate(hold(world, create_file(world, "/f")), 2, NULL),
        MK_OK);
    write_at(world->held[0], 2, "XY");
    assert_counts(world->disk, NULL, (size_t[]){1, 1, 1, 1, 0, 0});
    free_world(world);
}

/* The row is of the disk as it was when it began. */
static void test_row_does_not_see_later_changes(void **state)
{
    sim_world *world = *state;
    mk_sim_states *states;
    mk_sim_disk *disk;

    put_file(world, "/f", "1");
    write_at(hold(world, create_file(world, "/f")), 0, "2");
    assert_int_equal(mk_sim_states_open(world->disk, NULL, &states, NULL),
                     MK_OK);
    write_at(world->held[0], 0, "3");
    crash(world, MK_SIM_LAZY);
    assert_int_equal(mk_sim_states_next(states, &disk, NULL), MK_OK);
    assert_disk(disk, "/f=2;");
    mk_sim_disk_free(disk);
    assert_int_equal(mk_sim_states_next(states, &disk, NULL), MK_OK);
    assert_disk(disk, "/f=1;");
    mk_sim_disk_free(disk);
    assert_int_equal(mk_sim_states_next(states, &disk, NULL), MK_END);
    assert_null(disk);
    assert_int_equal(mk_sim_states_next(states, &disk, NULL), MK_END);
    mk_sim_states_close(states);
}

/* A state is a disk like any other: it serves a machine, has all it has
 * stable, and changing it changes nothing else. */
static void test_state_is_a_disk(void **state)
{
    sim_world *world = *state;
    sim_world found = {.counts = {0}};
    mk_sim_states *states;

    put_file(world, "/d/f", "1");
    write_at(hold(world, create_file(world, "/d/f")), 0, "2");
    assert_int_equal(mk_sim_states_open(world->disk, NULL, &states, NULL),
                     MK_OK);
    assert_int_equal(mk_sim_states_next(states, &found.disk, NULL), MK_OK);
    mk_sim_states_close(states);
    assert_int_equal(mk_sim_disk_profile(found.disk), MK_SIM_KILL9);
    assert_int_equal(stats_of(found.disk).steps, 0);
    boot(&found);
    assert_states(found.disk, NULL, "kill9 /d/f=2;\n");
    write_at(hold(&found, create_file(&found, "/d/f")), 0, "3");
    close_file(create_file(&found, "/d/g"));
    assert_disk(world->disk, "/d/f=2;");
    assert_disk(found.disk, "/d/f=3;/d/g=;");
    close_held(&found);
    mk_env_free(found.env);
    mk_sim_disk_free(found.disk);
}

/* Too many atoms to go through them all: states are drawn, and it is told. */
static void test_too_many_atoms_are_drawn(void **state)
{
    mk_sim_states_options options;
    sim_world *world = *state;
    mk_sim_states_info info;
    size_t counts[MK_SIM_PROFILE_COUNT];

    for (int i = 0; i < 30; i++) {
        put_file_as(world, "/%s", (char[]){(char)('A' + i), '\0'}, "0");
    }
    for (int i = 0; i < 30; i++) {
        mk_file *file =
            create_file(world, (char[]){'/', (char)('A' + i), '\0'});

        write_at(file, 0, "1");
        close_file(file);
    }
    mk_sim_states_options_default(&options);
    options.limit = 1000;
    info = count_states(world->disk, &options, counts);
    assert_false(info.complete);
    assert_int_equal(info.given, 1000);
    assert_int_equal(counts[MK_SIM_PREFIX], 29);
    assert_int_equal(counts[MK_SIM_ORDERED], 1000 - 31);
    options.profile = MK_SIM_PREFIX;
    info = count_states(world->disk, &options, counts);
    assert_true(info.complete);
    assert_int_equal(info.given, 31);
}

/* How many are too many is an option. Drawing finds all of a few, but can't
 * know that it has. */
static void test_exhaustive_bits(void **state)
{
    mk_sim_states_options options;
    sim_world *world = *state;
    mk_sim_states_info info;

    for (int i = 0; i < 6; i++) {
        put_file_as(world, "/%s", (char[]){(char)('A' + i), '\0'}, "0");
    }
    for (int i = 0; i < 6; i++) {
        write_at(hold(world,
                      create_file(world, (char[]){'/', (char)('A' + i), '\0'})),
                 0, "1");
    }
    mk_sim_states_options_default(&options);
    for (options.exhaustive_bits = 4; options.exhaustive_bits <= 8;
         options.exhaustive_bits++) {
        info = count_states(world->disk, &options, NULL);
        assert_int_equal(info.given, 64);
        assert_int_equal(info.complete, options.exhaustive_bits >= 6);
    }
}

/* Where memory fails, a call later goes on as if nothing had been. */
static void test_row_survives_lack_of_memory(void **state)
{
    sim_world *world = *state;
    mk_sim_states_options options;
    size_t fails = 0;

    put_file(world, "/f", "OLD");
    write_at(hold(world, create_file(world, "/t")), 0, "new");
    rename_to(world, "/t", "/f");
    close_file(create_file(world, "/u"));
    mk_sim_states_options_default(&options);
    options.tears = true;
    count_states(world->disk, &options, NULL);
    for (size_t nth = 1; fails == nth - 1; nth++) {
        fails += list_with_failure(world, &options, nth);
    }
    assert_true(fails > 100);
}

/* Options out of range are refused. */
static void test_options_are_checked(void **state)
{
    sim_world *world = *state;
    mk_sim_states_options options;
    mk_sim_states *states;

    mk_sim_states_options_default(&options);
    options.limit = -2;
    assert_int_equal(mk_sim_states_open(world->disk, &options, &states, NULL),
                     MK_INVALID_ARGUMENT);
    mk_sim_states_options_default(&options);
    options.exhaustive_bits = 3;
    assert_int_equal(mk_sim_states_open(world->disk, &options, &states, NULL),
                     MK_INVALID_ARGUMENT);
    assert_null(states);
    mk_sim_states_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_file_without_any_sync),
        TEST(new_file_without_sync_of_directory),
        TEST(fsync_links_keeps_the_order_of_a_name),
        TEST(two_new_names),
        TEST(name_removed_and_made_again),
        TEST(rename_over),
        TEST(rename_of_unsynced_file),
        TEST(rename_between_directories),
        TEST(exchange),
        TEST(hard_link),
        TEST(directory_without_a_stable_name),
        TEST(files_without_names_do_not_count),
        TEST(renames_of_a_segment_swap),
        TEST(limit),
        TEST(profile_of_the_disk),
        TEST(row_does_not_see_later_changes),
        TEST(state_is_a_disk),
        TEST(too_many_atoms_are_drawn),
        TEST(exhaustive_bits),
        TEST(row_survives_lack_of_memory),
        TEST(options_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
