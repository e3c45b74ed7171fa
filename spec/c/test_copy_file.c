/* Copying the beginning of a file, and files that have two names. */
#include "support/sim_world.h"

#include "store/copy_file.h"

#define TEMPORARY "/a.cleaned"

static mk_status unshare(sim_world *world, int64_t size, bool *replaced)
{
    return mk_copy_file_unshare(world->vfs, "/a", TEMPORARY, size, false,
                                replaced, NULL);
}

/* A copy is made in steps, ends where it was told to, and is a new file. */
static void test_steps(void **state)
{
    sim_world *world = *state;
    mk_copy_file copy;
    mk_file *from;

    put_file(world, "/a", "0123456789");
    from = hold(world, open_file(world, "/a", 0));
    assert_int_equal(mk_copy_file_begin(&copy, world->vfs, from, 7, "/b", NULL),
                     MK_OK);
    for (int64_t done = 3; done <= 9; done += 3) {
        assert_int_equal(mk_copy_file_step(&copy, 3, NULL), MK_OK);
        assert_int_equal(copy.done, done < 7 ? done : 7);
    }
    assert_int_equal(mk_copy_file_finish(&copy, MK_SYNC_COPY_LOG, NULL), MK_OK);
    mk_copy_file_deinit(&copy);
    assert_disk(world->disk, "/a=0123456789;/b=0123456;");
    assert_int_not_equal(
        mk_copy_file_begin(&copy, world->vfs, from, 7, "/b", NULL), MK_OK);
    mk_copy_file_deinit(&copy);
}

/* A source that is shorter is told, and nothing at all can be copied, too. */
static void test_short_source(void **state)
{
    sim_world *world = *state;
    mk_copy_file copy;
    mk_file *from;

    put_file(world, "/a", "0123");
    from = hold(world, open_file(world, "/a", 0));
    assert_int_equal(mk_copy_file_begin(&copy, world->vfs, from, 7, "/b", NULL),
                     MK_OK);
    assert_int_equal(mk_copy_file_step(&copy, 100, NULL), MK_OK);
    assert_int_equal(mk_copy_file_step(&copy, 100, NULL), MK_END);
    mk_copy_file_deinit(&copy);
    assert_int_equal(mk_copy_file_begin(&copy, world->vfs, NULL, 0, "/c", NULL),
                     MK_OK);
    assert_int_equal(mk_copy_file_step(&copy, 100, NULL), MK_OK);
    assert_int_equal(mk_copy_file_finish(&copy, MK_SYNC_COPY_LOG, NULL), MK_OK);
    mk_copy_file_deinit(&copy);
    assert_disk(world->disk, "/a=0123;/b=0123;/c=;");
}

/* A file of one name is left alone; one of two becomes two files. */
static void test_unshare(void **state)
{
    sim_world *world = *state;
    bool replaced;

    put_file(world, "/a", "0123456789");
    assert_int_equal(unshare(world, 4, &replaced), MK_OK);
    assert_false(replaced);
    assert_disk(world->disk, "/a=0123456789;");
    assert_int_equal(mk_vfs_link(world->vfs, "/a", "/other", NULL), MK_OK);
    put_file(world, TEMPORARY, "of an earlier attempt");
    assert_int_equal(unshare(world, 4, &replaced), MK_OK);
    assert_true(replaced);
    assert_disk(world->disk, "/a=0123;/other=0123456789;");
    assert_int_equal(unshare(world, 4, &replaced), MK_OK);
    assert_false(replaced);
    assert_int_equal(mk_vfs_link(world->vfs, "/a", "/more", NULL), MK_OK);
    assert_int_equal(unshare(world, 5, &replaced), MK_CORRUPT_SEGMENT);
    assert_disk(world->disk, "/a=0123;/more=0123;/other=0123456789;");
}

/* Whatever fails, the file is as it was or has its own content, and nothing
 * stays beside it. */
static void test_unshare_fails(void **state)
{
    bool failed = true;

    (void)state;
    for (int64_t after = 0; failed; after++) {
        sim_world *world = new_world(NULL);
        mk_sim_fault fault = fault_of(MK_SIM_ANY_OPERATION, EIO);
        bool replaced;

        put_file(world, "/a", "0123456789");
        assert_int_equal(mk_vfs_link(world->vfs, "/a", "/other", NULL), MK_OK);
        fault.after = after;
        fault.times = 1;
        add_fault(world, fault);
        failed = unshare(world, 4, &replaced) != MK_OK;
        assert_true(failed != replaced);
        failed = stats_of(world->disk).faults > 0;
        assert_disk(world->disk, replaced ? "/a=0123;/other=0123456789;"
                                          : "/a=0123456789;/other=0123456789;");
        free_world(world);
    }
}

/* The content is on stable storage before it has the name. */
static void test_unshare_is_durable(void **state)
{
    sim_world *world = *state;
    bool replaced;

    put_file(world, "/a", "0123456789");
    assert_int_equal(mk_vfs_link(world->vfs, "/a", "/other", NULL), MK_OK);
    sync_directory(world, "/");
    assert_int_equal(unshare(world, 4, &replaced), MK_OK);
    sync_directory(world, "/");
    crash(world, MK_SIM_LAZY);
    assert_disk(world->disk, "/a=0123;/other=0123456789;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps),         TEST(short_source),       TEST(unshare),
        TEST(unshare_fails), TEST(unshare_is_durable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
