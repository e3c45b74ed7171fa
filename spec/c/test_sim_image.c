/* Images of a disk: when they are alike, and how pages are torn in them. */
#include "support/sim_states.h"

/* ---- Likeness ---- */

/* Equal images have equal hashes, however they came about. */
static void test_hash(void **state)
{
    sim_world *world = *state;
    sim_world *twin = new_world(NULL);
    uint64_t a[2];
    uint64_t b[2];

    put_file(world, "/x/f", "1");
    put_file(world, "/g", "2");
    close_file(create_file(twin, "/h"));
    write_at(hold(twin, create_file(twin, "/g")), 0, "2");
    put_file(twin, "/x/f", "1");
    assert_int_equal(mk_vfs_unlink(twin->vfs, "/h", NULL), MK_OK);
    assert_int_equal(mk_sim_disk_hash(world->disk, a, NULL), MK_OK);
    assert_int_equal(mk_sim_disk_hash(twin->disk, b, NULL), MK_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(mk_vfs_set_mtime(twin->vfs, "/g", 1, NULL), MK_OK);
    assert_int_equal(mk_sim_disk_hash(twin->disk, b, NULL), MK_OK);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(mk_vfs_set_mtime(twin->vfs, "/g", 0, NULL), MK_OK);
    assert_int_equal(mk_vfs_mkdir(twin->vfs, "/y", NULL), MK_OK);
    assert_int_equal(mk_sim_disk_hash(twin->disk, b, NULL), MK_OK);
    assert_memory_not_equal(a, b, sizeof a);
    free_world(twin);
}

/* Two names of one file are not two files alike. */
static void test_link_is_not_a_copy(void **state)
{
    sim_world *world = *state;
    mk_sim_disk *copy;
    uint64_t linked[2];
    uint64_t copied[2];

    put_file(world, "/a", "1");
    assert_int_equal(mk_sim_disk_clone(world->disk, &copy, NULL), MK_OK);
    assert_int_equal(mk_vfs_link(world->vfs, "/a", "/b", NULL), MK_OK);
    assert_int_equal(mk_sim_disk_write(copy, "/b", "1", 1, NULL), MK_OK);
    assert_int_equal(mk_sim_disk_hash(world->disk, linked, NULL), MK_OK);
    assert_int_equal(mk_sim_disk_hash(copy, copied, NULL), MK_OK);
    assert_memory_not_equal(linked, copied, sizeof linked);
    mk_sim_disk_free(copy);
}

/* ---- Tears ---- */

/* A page that survives may do so in part. */
static void test_torn_overwrite(void **state)
{
    mk_sim_states_options options;
    sim_world *world = *state;
    char old[1025];
    char new[1025];

    memset(old, 'o', 1024);
    memset(new, 'n', 1024);
    old[1024] = new[1024] = '\0';
    put_file(world, "/f", old);
    write_at(hold(world, create_file(world, "/f")), 0, new);
    mk_sim_states_options_default(&options);
    options.tears = true;
    /* First sector, second sector, both with garbage in one. */
    assert_counts(world->disk, &options, (size_t[]){1, 1, 0, 0, 3, 0});
    options.profile = MK_SIM_ORDERED;
    assert_counts(world->disk, &options, (size_t[]){1, 1, 0, 0, 0, 0});
}

/* Where a file grew without its page there may be garbage, but never over
 * bytes that the write left alone, nor, if it is lost, over what was there. */
static void test_torn_growth(void **state)
{
    mk_sim_states_options options;
    sim_world *world = *state;
    mk_sim_states *states;
    mk_sim_disk *found;
    size_t whole = 0;
    size_t lost = 0;
    size_t torn = 0;

    put_file(world, "/f", "keep");
    write_at(hold(world, create_file(world, "/f")), 2, "EPabc");
    mk_sim_states_options_default(&options);
    options.tears = true;
    assert_int_equal(mk_sim_states_open(world->disk, &options, &states, NULL),
                     MK_OK);
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        char bytes[7];
        size_t size;

        assert_int_equal(
            mk_sim_disk_read(found, "/f", 0, bytes, 7, &size, NULL), MK_OK);
        assert_memory_equal(bytes, "ke", 2);
        if (memcmp(bytes + 2, "EP", 2) == 0) {
            whole++;
        } else if (memcmp(bytes + 2, "ep", 2) == 0) {
            lost++;
        } else {
            torn++;
        }
        mk_sim_disk_free(found);
    }
    mk_sim_states_close(states);
    assert_int_equal(whole, 2); /* With the growth and without it. */
    assert_int_equal(torn, 2);  /* The same. */
    assert_int_equal(lost, 3);  /* Without it; with it, zeros or garbage. */
}

/* No more than one page is torn in one state: 2 files, each old, new or in one
 * of 3 torn ways, are 4 + 2 * 3 * 2 states. */
static void test_one_tear_at_a_time(void **state)
{
    mk_sim_states_options options;
    sim_world *world = *state;
    char old[1025];
    char new[1025];

    memset(old, 'o', 1024);
    memset(new, 'n', 1024);
    old[1024] = new[1024] = '\0';
    put_file(world, "/a", old);
    put_file(world, "/b", old);
    write_at(hold(world, create_file(world, "/a")), 0, new);
    write_at(hold(world, create_file(world, "/b")), 0, new);
    mk_sim_states_options_default(&options);
    options.tears = true;
    assert_counts(world->disk, &options, (size_t[]){1, 1, 1, 1, 12, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hash),        TEST(link_is_not_a_copy), TEST(torn_overwrite),
        TEST(torn_growth), TEST(one_tear_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
