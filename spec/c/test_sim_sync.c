/* What a sync makes stable, and what one leaves that failed. */
#include "support/sim_states.h"

static mk_sim_fault revert_once(void)
{
    mk_sim_fault fault = fault_of(MK_SIM_FSYNC, EIO);

    fault.flavour = MK_SIM_REVERTED;
    fault.times = 1;
    return fault;
}

/* Write, and let the sync fail in that flavour. */
static mk_file *fail_sync(sim_world *world, mk_sim_flavour flavour)
{
    mk_sim_fault fault = fault_of(MK_SIM_FSYNC, EIO);
    mk_file *file;

    put_file(world, "/f", "old");
    file = hold(world, open_file(world, "/f", MK_OPEN_WRITE));
    fault.flavour = flavour;
    fault.times = 1;
    add_fault(world, fault);
    write_at(file, 0, "newer");
    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL), MK_IO);
    return file;
}

/* The pages are taken for written: the next sync says yes, and they are lost;
 * the file has grown, though. */
static void test_sync_that_loses(void **state)
{
    sim_world *world = *state;
    mk_file *file = fail_sync(world, MK_SIM_LOST);

    assert_states(world->disk, NULL,
                  "kill9 /f=newer;\n"
                  "lazy /f=old;\n"
                  "prefix /f=old00;\n");
    sync_file(file);
    assert_states(world->disk, NULL,
                  "kill9 /f=newer;\n"
                  "lazy /f=old00;\n");
    write_at(file, 0, "N");
    sync_file(file);
    crash(world, MK_SIM_LAZY);
    assert_disk(world->disk, "/f=Nld00;");
}

/* The pages are gone at once. */
static void test_sync_that_reverts(void **state)
{
    sim_world *world = *state;
    mk_file *file;
    mk_file_stat stat;

    file = fail_sync(world, MK_SIM_REVERTED);
    assert_int_equal(mk_vfs_set_mtime(world->vfs, "/f", 5, NULL), MK_OK);
    add_fault(world, revert_once());
    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL), MK_IO);
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    assert_int_equal(stat.mtime_ms, 0);
    assert_states(world->disk, NULL, "kill9 /f=old;\n");
    write_at(file, 0, "OLD");
    sync_file(file);
    assert_states(world->disk, NULL, "kill9 /f=OLD;\n");
}

/* Nothing has happened. */
static void test_sync_that_can_be_retried(void **state)
{
    sim_world *world = *state;
    mk_file *file = fail_sync(world, MK_SIM_RETRYABLE);

    assert_states(world->disk, NULL,
                  "kill9 /f=newer;\n"
                  "lazy /f=old;\n"
                  "prefix /f=new;\n"
                  "writeback /f=old00;\n");
    sync_file(file);
    assert_states(world->disk, NULL, "kill9 /f=newer;\n");
}

/* The sync of a directory that failed can always be repeated. */
static void test_sync_of_directory_fails(void **state)
{
    sim_world *world = *state;
    mk_sim_fault fault = fault_of(MK_SIM_FSYNC_DIR, EIO);

    close_file(create_file(world, "/f"));
    fault.times = 1;
    add_fault(world, fault);
    assert_int_equal(
        mk_vfs_sync_directory(world->vfs, "/", MK_SYNC_FLUSH_DIRECTORY, NULL),
        MK_IO);
    assert_states(world->disk, NULL, "kill9 /f=;\nlazy \n");
    sync_directory(world, "/");
    assert_states(world->disk, NULL, "kill9 /f=;\n");
}

/* Write with a delayed failure between two that are sound. */
static mk_file *write_delayed(sim_world *world, mk_sim_flavour flavour)
{
    mk_sim_fault fault = fault_of(MK_SIM_WRITE, 0);
    mk_file *file;

    put_file(world, "/f", "a");
    file = hold(world, open_file(world, "/f", MK_OPEN_WRITE));
    fault.after = 1;
    fault.times = 1;
    fault.delayed = true;
    fault.flavour = flavour;
    add_fault(world, fault);
    write_at(file, 1, "b");
    write_at(file, 2, "c");
    write_at(file, 3, "d");
    assert_disk(world->disk, "/f=abcd;");
    return file;
}

/* The disk said yes without having room: no loss of power leaves the bytes,
 * and the next sync tells. */
static void test_delayed_failure(void **state)
{
    sim_world *world = *state;
    mk_file *file = write_delayed(world, MK_SIM_LOST);
    mk_error err;

    assert_states(world->disk, NULL,
                  "kill9 /f=abcd;\n"
                  "lazy /f=a;\n"
                  "prefix /f=ab;\n"
                  "prefix /f=ab0d;\n"
                  "writeback /f=a0;\n"
                  "writeback /f=ab00;\n"
                  "writeback /f=a00d;\n"
                  "writeback /f=a000;\n");
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, &err), MK_IO);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_disk(world->disk, "/f=abcd;");
    sync_file(file);
    assert_states(world->disk, NULL,
                  "kill9 /f=abcd;\n"
                  "lazy /f=ab0d;\n");
}

/* No draw leaves them either. */
static void test_delayed_bytes_are_never_drawn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        mk_sim_options options;
        sim_world *world;

        mk_sim_options_default(&options);
        options.seed = seed;
        world = new_world(&options);
        write_delayed(world, MK_SIM_LOST);
        crash(world, seed % 2 == 0 ? MK_SIM_HOSTILE : MK_SIM_ORDERED);
        assert_null(strchr(describe(world->disk), 'c'));
        free_world(world);
    }
}

static void test_delayed_failure_that_can_be_retried(void **state)
{
    sim_world *world = *state;
    mk_file *file = write_delayed(world, MK_SIM_RETRYABLE);

    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL), MK_IO);
    sync_file(file);
    assert_states(world->disk, NULL, "kill9 /f=abcd;\n");
}

static void test_delayed_failure_that_reverts(void **state)
{
    sim_world *world = *state;
    mk_file *file = write_delayed(world, MK_SIM_REVERTED);

    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL), MK_IO);
    assert_states(world->disk, NULL, "kill9 /f=a;\n");
    sync_file(file);
}

/* A sync can be left out by its name. */
static void test_sync_is_left_out(void **state)
{
    sim_world *world = *state;
    mk_file *file = hold(world, create_file(world, "/f"));

    write_at(file, 0, "a");
    assert_int_equal(mk_sim_disk_leave_out(world->disk, "FLUSH_LOG", NULL),
                     MK_OK);
    assert_int_equal(mk_sim_disk_leave_out(world->disk, "SWAP_PARENT", NULL),
                     MK_OK);
    sync_file(file);
    assert_int_equal(
        mk_vfs_sync_directory(world->vfs, "/", MK_SYNC_SWAP_PARENT, NULL),
        MK_OK);
    assert_int_equal(stats_of(world->disk).pending, 3);
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_SWAP_LOG, NULL), MK_OK);
    sync_directory(world, "/");
    assert_int_equal(stats_of(world->disk).pending, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sync_that_loses),
        TEST(sync_that_reverts),
        TEST(sync_that_can_be_retried),
        TEST(sync_of_directory_fails),
        TEST(delayed_failure),
        TEST(delayed_bytes_are_never_drawn),
        TEST(delayed_failure_that_can_be_retried),
        TEST(delayed_failure_that_reverts),
        TEST(sync_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
