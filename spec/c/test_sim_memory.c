/* The simulated disk on a heap that fails: every operation in which the nth
 * allocation fails says so, and leaves the disk as it was. */
#include "support/sim_world.h"

#define NTH_MAX 20

/* What is done, one after the other, on the same few files. */
typedef mk_status step(sim_world *world, mk_file *file);

static const char text[5000] = "many bytes";

/* ---- Contents ---- */

static mk_status do_write(sim_world *world, mk_file *file)
{
    (void)world;
    return mk_file_write(file, 3000, text, sizeof text, NULL);
}

static mk_status do_truncate(sim_world *world, mk_file *file)
{
    (void)world;
    return mk_file_truncate(file, 100, NULL);
}

static mk_status do_allocate(sim_world *world, mk_file *file)
{
    (void)world;
    return mk_file_allocate(file, 9000, NULL);
}

static mk_status do_view(sim_world *world, mk_file *file)
{
    mk_span span;

    return mk_file_view(file, &world->scratch, 0, 9000, &span, NULL);
}

static mk_status do_sync(sim_world *world, mk_file *file)
{
    (void)world;
    return mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL);
}

static mk_status do_tail(sim_world *world, mk_file *file)
{
    mk_status status = mk_file_tail_begin(file, 9000, MK_TAIL_PLAIN, NULL);
    mk_status ended;
    uint8_t *tail;

    (void)world;
    if (status != MK_OK) return status;
    status = mk_file_tail_reserve(file, 5000, &tail, NULL);
    if (status == MK_OK) {
        memset(tail, 'x', 5000);
        status = mk_file_tail_commit(file, 5000, NULL);
    }
    ended = mk_file_tail_end(file, NULL);
    return status != MK_OK ? status : ended;
}

/* ---- Names ---- */

static mk_status do_mkdir(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_mkdir(world->vfs, "/d", NULL);
}

static mk_status do_create(sim_world *world, mk_file *file)
{
    mk_file *other;
    mk_status status = mk_file_open(
        world->vfs, "/d/f", MK_OPEN_WRITE | MK_OPEN_CREATE, &other, NULL);

    (void)file;
    return status == MK_OK ? mk_file_close(other, NULL) : status;
}

static mk_status do_set_mtime(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_set_mtime(world->vfs, "/d/f", 5, NULL);
}

static mk_status do_rename(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_rename(world->vfs, "/d/f", "/g", NULL);
}

static mk_status do_link(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_link(world->vfs, "/g", "/d/h", NULL);
}

static mk_status do_exchange(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_exchange(world->vfs, "/g", "/d", NULL);
}

static mk_status do_sync_directory(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_sync_directory(world->vfs, "/", MK_SYNC_SWAP_PARENT, NULL);
}

static mk_status do_list(sim_world *world, mk_file *file)
{
    mk_name_list list;
    mk_status status = mk_vfs_list(world->vfs, "/", &list, NULL);

    (void)file;
    mk_name_list_deinit(&list);
    return status;
}

static mk_status do_lock(sim_world *world, mk_file *file)
{
    mk_file *lock;
    mk_status status = mk_vfs_lock(world->vfs, "/lock", "holder", &lock, NULL);

    (void)file;
    return status == MK_OK ? mk_file_close(lock, NULL) : status;
}

static mk_status do_unlink(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_vfs_unlink(world->vfs, "/lock", NULL);
}

/* ---- From outside ---- */

static mk_status do_put(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_sim_disk_write(world->disk, "/x/y/z", text, 100, NULL);
}

static mk_status do_flip(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_sim_disk_flip(world->disk, "/x/y/z", 9, NULL);
}

static mk_status do_zero(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_sim_disk_zero(world->disk, "/x/y/z", 1, 50, NULL);
}

static mk_status do_cut(sim_world *world, mk_file *file)
{
    (void)file;
    return mk_sim_disk_cut(world->disk, "/x/y/z", 50, NULL);
}

static mk_status do_list_all(sim_world *world, mk_file *file)
{
    mk_sim_paths paths;
    mk_status status = mk_sim_disk_list(world->disk, &paths, NULL);

    (void)file;
    mk_sim_paths_deinit(&paths);
    return status;
}

static mk_status do_fail(sim_world *world, mk_file *file)
{
    mk_sim_fault fault = fault_of(MK_SIM_OPEN, EIO);

    (void)file;
    fault.path = "never";
    return mk_sim_disk_fail(world->disk, &fault, NULL);
}

static mk_status do_boot(sim_world *world, mk_file *file)
{
    mk_env *env;
    mk_status status = mk_env_new_sim(world->disk, &env, NULL);

    (void)file;
    mk_env_free(env);
    return status;
}

static mk_status do_hash(sim_world *world, mk_file *file)
{
    uint64_t hash[2];

    (void)file;
    return mk_sim_disk_hash(world->disk, hash, NULL);
}

static step *const steps[] = {
    do_mkdir,    do_create, do_write,    do_truncate,
    do_allocate, do_view,   do_sync,     do_set_mtime,
    do_rename,   do_link,   do_exchange, do_sync_directory,
    do_list,     do_lock,   do_unlink,   do_put,
    do_put,      do_flip,   do_zero,     do_cut,
    do_list_all, do_fail,   do_boot,     do_hash,
    do_tail,
};

/* ---- The sweep ---- */

/* Do the step with the nth allocation failing. Returns whether one did; then
 * the step is done again, and works. */
static bool sweep_step(sim_world *world, mk_file *file, size_t i, size_t nth)
{
    uint64_t before[2];
    uint64_t after[2];
    mk_status status;

    assert_int_equal(mk_sim_disk_hash(world->disk, before, NULL), MK_OK);
    world->counts.fail_at = world->counts.allocations + nth;
    status = steps[i](world, file);
    world->counts.fail_at = 0;
    if (status == MK_OK) return false;
    assert_int_equal(status, MK_NO_MEMORY);
    assert_int_equal(mk_sim_disk_hash(world->disk, after, NULL), MK_OK);
    if (memcmp(before, after, sizeof before) != 0) {
        fail_msg("step %zu has changed the disk", i);
    }
    status = steps[i](world, file);
    if (status != MK_OK) fail_msg("step %zu: %d", i, status);
    return true;
}

static void test_every_allocation_may_fail(void **state)
{
    mk_sim_options options;
    size_t failed = 0;

    (void)state;
    mk_sim_options_default(&options);
    options.fsync_links = true;
    for (size_t nth = 1; nth <= NTH_MAX; nth++) {
        sim_world *world = new_world(&options);
        mk_file *file = hold(world, create_file(world, "/first"));
        bool any = false;

        mk_sim_disk_manual_clock(world->disk)->now_ms = 1000;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            if (!sweep_step(world, file, i, nth)) continue;
            failed++;
            any = true;
        }
        assert_true(any || nth > 10);
        assert_false(any && nth == NTH_MAX);
        free_world(world);
    }
    assert_true(failed > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
