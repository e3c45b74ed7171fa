/* How processes change the names of the simulated disk. */
#include "support/sim_world.h"

/* rename() replaces, where what is replaced is of the same kind. */
static void test_rename(void **state)
{
    sim_world *world = *state;
    mk_vfs *vfs = world->vfs;
    mk_error err;

    put_file(world, "/a", "A");
    put_file(world, "/b", "B");
    put_file(world, "/d/f", "F");
    assert_int_equal(mk_vfs_mkdir(vfs, "/e", NULL), MK_OK);
    rename_to(world, "/a", "/b");
    assert_disk(world->disk, "/b=A;/d/f=F;");
    failed_with(mk_vfs_rename(vfs, "/a", "/b", &err), &err, ENOENT);
    failed_with(mk_vfs_rename(vfs, "/b", "/none/b", &err), &err, ENOENT);
    failed_with(mk_vfs_rename(vfs, "/b", "/d", &err), &err, EISDIR);
    failed_with(mk_vfs_rename(vfs, "/d", "/b", &err), &err, ENOTDIR);
    failed_with(mk_vfs_rename(vfs, "/e", "/d", &err), &err, ENOTEMPTY);
    failed_with(mk_vfs_rename(vfs, "/d", "/d/g", &err), &err, EINVAL);
    failed_with(mk_vfs_rename(vfs, "/", "/x", &err), &err, EBUSY);
    rename_to(world, "/d", "/e");
    assert_disk(world->disk, "/b=A;/e/f=F;");
    rename_to(world, "/e", "/e");
    assert_disk(world->disk, "/b=A;/e/f=F;");
}

/* Two names change places, whatever they are, where the disk can do that. */
static void test_exchange(void **state)
{
    sim_world *world = *state;
    mk_vfs *vfs = world->vfs;
    mk_sim_options options;
    mk_error err;

    put_file(world, "/a", "A");
    put_file(world, "/d/f", "F");
    assert_int_equal(mk_vfs_exchange(vfs, "/a", "/d", NULL), MK_OK);
    assert_disk(world->disk, "/a/f=F;/d=A;");
    failed_with(mk_vfs_exchange(vfs, "/a", "/none", &err), &err, ENOENT);
    assert_int_equal(mk_vfs_exchange(vfs, "/a", "/a/f", &err), MK_UNSUPPORTED);
    assert_int_equal(err.status, MK_UNSUPPORTED);

    mk_sim_options_default(&options);
    options.exchange = false;
    world = new_world(&options);
    put_file(world, "/a", "A");
    put_file(world, "/b", "B");
    assert_int_equal(mk_vfs_exchange(world->vfs, "/a", "/b", NULL),
                     MK_UNSUPPORTED);
    assert_disk(world->disk, "/a=A;/b=B;");
    free_world(world);
}

/* A link is one more name of the same file. */
static void test_link(void **state)
{
    sim_world *world = *state;
    mk_vfs *vfs = world->vfs;
    mk_file_stat a;
    mk_file_stat b;
    mk_error err;

    put_file(world, "/a", "A");
    assert_int_equal(mk_vfs_mkdir(vfs, "/d", NULL), MK_OK);
    assert_int_equal(mk_vfs_link(vfs, "/a", "/d/b", NULL), MK_OK);
    assert_int_equal(mk_vfs_stat(vfs, "/a", &a, NULL), MK_OK);
    assert_int_equal(mk_vfs_stat(vfs, "/d/b", &b, NULL), MK_OK);
    assert_int_equal(a.inode, b.inode);
    assert_int_equal(a.links, 2);
    failed_with(mk_vfs_link(vfs, "/a", "/d/b", &err), &err, EEXIST);
    failed_with(mk_vfs_link(vfs, "/d", "/e", &err), &err, EPERM);
    write_at(hold(world, open_file(world, "/d/b", MK_OPEN_WRITE)), 0, "B");
    assert_disk(world->disk, "/a=B;/d/b=B;");
    /* Two names of one file: nothing changes. */
    rename_to(world, "/a", "/d/b");
    assert_disk(world->disk, "/a=B;/d/b=B;");
    assert_int_equal(mk_vfs_unlink(vfs, "/a", NULL), MK_OK);
    assert_disk(world->disk, "/d/b=B;");
}

/* Directories are made and removed; only empty ones. */
static void test_directories(void **state)
{
    sim_world *world = *state;
    mk_vfs *vfs = world->vfs;
    mk_file_stat stat;
    mk_error err;

    assert_int_equal(mk_vfs_mkdir(vfs, "/d", NULL), MK_OK);
    failed_with(mk_vfs_mkdir(vfs, "/d", &err), &err, EEXIST);
    failed_with(mk_vfs_mkdir(vfs, "/e/f", &err), &err, ENOENT);
    assert_int_equal(mk_vfs_mkdir(vfs, "/d/e", NULL), MK_OK);
    assert_int_equal(mk_vfs_stat(vfs, "/d/e/", &stat, NULL), MK_OK);
    assert_int_equal(stat.kind, MK_KIND_DIRECTORY);
    failed_with(mk_vfs_rmdir(vfs, "/d", &err), &err, ENOTEMPTY);
    failed_with(mk_vfs_rmdir(vfs, "/", &err), &err, EBUSY);
    failed_with(mk_vfs_unlink(vfs, "/d/e", &err), &err, EISDIR);
    assert_int_equal(mk_vfs_rmdir(vfs, "/d/e", NULL), MK_OK);
    assert_int_equal(mk_vfs_rmdir(vfs, "/d", NULL), MK_OK);
    failed_with(mk_vfs_stat(vfs, "/d", &stat, &err), &err, ENOENT);
    put_file(world, "/f", "");
    failed_with(mk_vfs_rmdir(vfs, "/f", &err), &err, ENOTDIR);
    failed_with(mk_vfs_unlink(vfs, "/g", &err), &err, ENOENT);
    failed_with(mk_vfs_sync_directory(vfs, "/f", MK_SYNC_SWAP_PARENT, &err),
                &err, ENOTDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rename),
        TEST(exchange),
        TEST(link),
        TEST(directories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
