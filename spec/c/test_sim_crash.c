/* Crashes of the simulated disk: who is dead afterwards, what is drawn, and
 * that the same seed draws the same. */
#include "support/sim_states.h"

#include "os/vfs.h"

/* ---- Who is dead ---- */

#define assert_crashed(call) assert_int_equal((call), MK_CRASHED)

static void check_file_is_dead(sim_world *world, mk_file *file)
{
    mk_file_stat stat;
    mk_span span;

    assert_crashed(mk_file_write(file, 0, "x", 1, NULL));
    assert_crashed(mk_file_truncate(file, 0, NULL));
    assert_crashed(mk_file_allocate(file, 1, NULL));
    assert_crashed(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL));
    assert_crashed(mk_file_stat_open(file, &stat, NULL));
    assert_crashed(mk_file_view(file, &world->scratch, 0, 1, &span, NULL));
    assert_crashed(mk_file_tail_begin(file, 0, MK_TAIL_PLAIN, NULL));
}

static void check_machine_is_dead(mk_vfs *vfs)
{
    mk_name_list list;
    mk_file_stat stat;
    mk_file *file;
    mk_error err;

    assert_crashed(mk_file_open(vfs, "/f", 0, &file, &err));
    assert_int_equal(err.status, MK_CRASHED);
    assert_crashed(mk_vfs_stat(vfs, "/f", &stat, NULL));
    assert_crashed(mk_vfs_set_mtime(vfs, "/f", 1, NULL));
    assert_crashed(mk_vfs_rename(vfs, "/f", "/g", NULL));
    assert_crashed(mk_vfs_exchange(vfs, "/f", "/g", NULL));
    assert_crashed(mk_vfs_link(vfs, "/f", "/g", NULL));
    assert_crashed(mk_vfs_unlink(vfs, "/f", NULL));
    assert_crashed(mk_vfs_mkdir(vfs, "/d", NULL));
    assert_crashed(mk_vfs_rmdir(vfs, "/d", NULL));
    assert_crashed(mk_vfs_list(vfs, "/", &list, NULL));
    assert_crashed(
        mk_vfs_sync_directory(vfs, "/", MK_SYNC_FLUSH_DIRECTORY, NULL));
    assert_crashed(mk_vfs_lock(vfs, "/f", "x", &file, NULL));
    assert_null(file);
}

/* After a crash everything on the old machine is dead, and closing is silent;
 * a new machine finds no locks. */
static void test_old_machine_is_dead(void **state)
{
    sim_world *world = *state;
    mk_sim_profile profiles[] = {MK_SIM_KILL9, MK_SIM_LAZY};

    put_file(world, "/f", "abc");
    for (size_t i = 0; i < 2; i++) {
        mk_env *old = mk_env_acquire(world->env);
        mk_file *lock;
        mk_file *file;
        uint64_t session = *world->vfs->session;
        int64_t steps;

        assert_int_equal(world->vfs->dead_status, MK_CRASHED);
        assert_int_equal(mk_vfs_lock(world->vfs, "/l", "old", &lock, NULL),
                         MK_OK);
        file = open_file(world, "/f", MK_OPEN_WRITE);
        assert_int_equal(mk_file_tail_begin(file, 3, MK_TAIL_PLAIN, NULL),
                         MK_OK);
        crash(world, profiles[i]);
        steps = stats_of(world->disk).steps;
        assert_int_not_equal(*old->vfs->session, session);
        assert_int_equal(
            mk_vfs_lock(world->vfs, "/l", "new", &world->held[0], NULL), MK_OK);
        world->held_count = 1;
        check_machine_is_dead(old->vfs);
        assert_int_equal(mk_file_close(lock, NULL), MK_OK);
        assert_int_equal(mk_file_close(file, NULL), MK_OK);
        file = hold(world, open_file(world, "/f", MK_OPEN_WRITE));
        assert_int_equal(stats_of(world->disk).steps, steps + 2);
        assert_int_equal(mk_vfs_lock(world->vfs, "/l", "x", &lock, NULL),
                         MK_LOCKED);
        assert_int_equal(mk_sim_disk_profile(world->disk), profiles[i]);
        mk_env_free(old);
        close_held(world);
    }
}

/* A dead handle changes nothing. */
static void test_old_handles_are_dead(void **state)
{
    sim_world *world = *state;
    mk_env *old = mk_env_acquire(world->env);
    mk_file *file;

    put_file(world, "/f", "abc");
    file = open_file(world, "/f", MK_OPEN_WRITE);
    assert_int_equal(mk_sim_disk_crash(world->disk, MK_SIM_KILL9, NULL), MK_OK);
    check_file_is_dead(world, file);
    assert_disk(world->disk, "/f=abc;");
    assert_int_equal(mk_file_close(file, NULL), MK_OK);
    mk_env_free(old);
    boot(world);
}

/* ---- What survives ---- */

/* A death of the process loses nothing; but what was not synced still is not,
 * and power may be lost later. */
static void test_kill9_keeps_everything(void **state)
{
    sim_world *world = *state;

    write_at(hold(world, create_file(world, "/f")), 0, "abc");
    crash(world, MK_SIM_KILL9);
    assert_disk(world->disk, "/f=abc;");
    assert_int_equal(stats_of(world->disk).pending, 3);
    crash(world, MK_SIM_LAZY);
    assert_disk(world->disk, "");
}

/* An unlinked file that was open goes with its process. */
static void test_kill9_frees_unlinked_files(void **state)
{
    sim_world *world = *state;

    write_at(hold(world, create_file(world, "/f")), 0, "abc");
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    assert_int_equal(stats_of(world->disk).files, 1);
    crash(world, MK_SIM_KILL9);
    assert_int_equal(stats_of(world->disk).files, 0);
    assert_int_equal(stats_of(world->disk).used_bytes, 0);
}

typedef void script(sim_world *world);

/* Names alone: there is nothing to tear. */
static void leave_names(sim_world *world)
{
    put_file(world, "/a", "A");
    put_file(world, "/b", "B");
    rename_to(world, "/a", "/c");
    close_file(create_file(world, "/a"));
    rename_to(world, "/b", "/d");
    close_file(create_file(world, "/e"));
}

/* A bit of everything. */
static void leave_unsynced(sim_world *world)
{
    put_file(world, "/f", "OLD");
    write_at(hold(world, create_file(world, "/t")), 0, "new");
    rename_to(world, "/t", "/f");
    close_file(create_file(world, "/u"));
    assert_int_equal(mk_vfs_set_mtime(world->vfs, "/u", 5, NULL), MK_OK);
}

/* Draw crashes by many seeds: each is one of the states that the profile
 * allows, and each of these is drawn. */
static void check_draws(mk_sim_profile profile, script *leave, bool tears)
{
    mk_sim_states_options options;
    uint64_t hashes[64][2];
    size_t drawn[64] = {0};
    size_t count = 0;
    mk_sim_states *states;
    mk_sim_options disk_options;
    sim_world *world;
    mk_sim_disk *found;

    mk_sim_options_default(&disk_options);
    mk_sim_states_options_default(&options);
    options.profile = profile;
    world = new_world(&disk_options);
    leave(world);
    assert_int_equal(mk_sim_states_open(world->disk, &options, &states, NULL),
                     MK_OK);
    /* The first is what a kill -9 leaves, for power loss to find again. */
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        assert_true(count < 64);
        assert_int_equal(mk_sim_disk_hash(found, hashes[count], NULL), MK_OK);
        mk_sim_disk_free(found);
        count++;
    }
    mk_sim_states_close(states);
    free_world(world);

    for (uint64_t seed = 1; seed <= 1500; seed++) {
        uint64_t hash[2];
        size_t i = 0;

        disk_options.seed = seed;
        world = new_world(&disk_options);
        leave(world);
        crash(world, profile);
        assert_int_equal(stats_of(world->disk).pending, 0);
        assert_int_equal(mk_sim_disk_hash(world->disk, hash, NULL), MK_OK);
        while (i < count && memcmp(hash, hashes[i], sizeof hash) != 0) {
            i++;
        }
        if (i < count) {
            drawn[i]++;
        } else if (!tears) {
            fail_msg("seed %d: %s is not allowed", (int)seed,
                     describe(world->disk));
        }
        free_world(world);
    }
    for (size_t i = profile == MK_SIM_LAZY ? 1 : 0; i < count; i++) {
        if (drawn[i] == 0) fail_msg("state %zu is never drawn", i);
    }
}

static void test_draws_are_what_the_profile_allows(void **state)
{
    (void)state;
    for (int i = MK_SIM_LAZY; i <= MK_SIM_HOSTILE; i++) {
        check_draws((mk_sim_profile)i, leave_names, false);
        check_draws((mk_sim_profile)i, leave_unsynced, i >= MK_SIM_WRITEBACK);
    }
}

/* Every tear is drawn at some time: with 4 sectors there are 3 first parts, 3
 * last ones, 2 gaps within, and 4 with garbage; and never one of a kind that
 * the profile does not have. */
static void test_tears_are_drawn(void **state)
{
    char old[2049];
    char new[2049];
    size_t shapes[16] = {0};

    (void)state;
    memset(old, 'o', 2048);
    memset(new, 'n', 2048);
    old[2048] = new[2048] = '\0';
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        mk_sim_options options;
        sim_world *world;
        char found[2048];
        unsigned kept = 0;
        bool garbage = false;
        size_t size;

        mk_sim_options_default(&options);
        options.seed = seed;
        options.profile = seed % 2 == 0 ? MK_SIM_WRITEBACK : MK_SIM_HOSTILE;
        world = new_world(&options);
        put_file(world, "/f", old);
        write_at(hold(world, create_file(world, "/f")), 0, new);
        crash(world, MK_SIM_OWN_PROFILE);
        assert_int_equal(mk_sim_disk_profile(world->disk), options.profile);
        assert_int_equal(mk_sim_disk_read(world->disk, "/f", 0, found,
                                          sizeof found, &size, NULL),
                         MK_OK);
        assert_int_equal(size, 2048);
        for (unsigned i = 0; i < 4; i++) {
            const char *sector = found + 512 * i;

            if (memcmp(sector, new, 512) == 0) {
                kept |= 1u << i;
            } else if (memcmp(sector, old, 512) != 0) {
                assert_false(garbage);
                garbage = true;
            }
        }
        if (garbage) {
            assert_true(kept == 7 || kept == 11 || kept == 13 || kept == 14);
        } else {
            shapes[kept]++;
        }
        free_world(world);
    }
    for (unsigned kept = 0; kept < 16; kept++) {
        bool scattered = kept == 2 || kept == 4 || kept == 5 || kept == 6 ||
                         kept == 9 || kept == 10;

        assert_int_equal(shapes[kept] == 0, scattered);
    }
}

/* A page may have thousands of sectors: a first part of any length is drawn. */
static void test_tears_in_pages_of_many_sectors(void **state)
{
    static char old[65537];
    static char new[65537];
    size_t longest = 0;

    (void)state;
    memset(old, 'o', 65536);
    memset(new, 'n', 65536);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        static char found[65536];
        mk_sim_options options;
        sim_world *world;
        size_t size;
        size_t kept = 0;

        mk_sim_options_default(&options);
        options.seed = seed;
        options.page_bytes = 65536;
        options.sector_bytes = 16;
        world = new_world(&options);
        put_file(world, "/f", old);
        write_at(hold(world, create_file(world, "/f")), 0, new);
        crash(world, MK_SIM_HOSTILE);
        assert_int_equal(mk_sim_disk_read(world->disk, "/f", 0, found,
                                          sizeof found, &size, NULL),
                         MK_OK);
        while (kept < size && found[kept] == 'n') {
            kept++;
        }
        if (kept < size && found[size - 1] == 'o' && kept > longest) {
            longest = kept;
        }
        free_world(world);
    }
    assert_true(longest > 256 * 16);
}

/* A crash that lacks memory did not happen. */
static void test_crash_without_memory(void **state)
{
    sim_world *world = *state;
    uint64_t before[2];
    uint64_t after[2];
    mk_sim_stats stats;

    leave_unsynced(world);
    stats = stats_of(world->disk);
    assert_int_equal(mk_sim_disk_hash(world->disk, before, NULL), MK_OK);
    for (size_t nth = 1;; nth++) {
        mk_status status;

        world->counts.fail_at = world->counts.allocations + nth;
        status = mk_sim_disk_crash(world->disk, MK_SIM_HOSTILE, NULL);
        world->counts.fail_at = 0;
        if (status == MK_OK) break;
        assert_int_equal(status, MK_NO_MEMORY);
        assert_int_equal(mk_sim_disk_hash(world->disk, after, NULL), MK_OK);
        assert_memory_equal(before, after, sizeof before);
        assert_int_equal(stats_of(world->disk).pending, stats.pending);
        assert_int_equal(stats_of(world->disk).crashes, 0);
        write_at(world->held[0], 0, "new");
        stats = stats_of(world->disk);
    }
    assert_int_equal(stats_of(world->disk).crashes, 1);
}

/* ---- Crashes at a step ---- */

/* The step itself, and all that come after it on that machine, are not done. */
static void test_crash_at_step(void **state)
{
    sim_world *world = *state;
    mk_file *file;

    put_file(world, "/f", "");
    mk_sim_disk_crash_at(world->disk, 3, MK_SIM_KILL9);
    file = open_file(world, "/f", MK_OPEN_WRITE);
    write_at(file, 0, "a");
    assert_crashed(mk_file_write(file, 1, "b", 1, NULL));
    assert_crashed(mk_vfs_unlink(world->vfs, "/f", NULL));
    assert_crashed(mk_file_write(file, 1, "b", 1, NULL));
    assert_int_equal(mk_file_close(file, NULL), MK_OK);
    assert_int_equal(stats_of(world->disk).steps, 3);
    assert_disk(world->disk, "/f=a;");
    assert_states(world->disk, NULL,
                  "kill9 /f=a;\nlazy /f=;\nwriteback /f=0;\n");
    boot(world);
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
}

/* An armed crash can be taken back, and lacks no memory for ever. */
static void test_armed_crash(void **state)
{
    sim_world *world = *state;
    mk_file_stat stat;

    put_file(world, "/f", "");
    mk_sim_disk_crash_at(world->disk, 1, MK_SIM_LAZY);
    mk_sim_disk_crash_at(world->disk, 0, MK_SIM_LAZY);
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
    mk_sim_disk_crash_at(world->disk, 2, MK_SIM_LAZY);
    world->counts.fail_at = world->counts.allocations + 1;
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_NO_MEMORY);
    assert_crashed(mk_vfs_stat(world->vfs, "/f", &stat, NULL));
    assert_int_equal(mk_sim_disk_profile(world->disk), MK_SIM_LAZY);
}

/* ---- Clones ---- */

/* A clone has what processes saw and what they may still lose, and goes its own
 * way. */
static void test_clone(void **state)
{
    sim_world *world = *state;
    sim_world twin = {.counts = {0}};
    mk_sim_fault fault;

    leave_unsynced(world);
    mk_sim_fault_default(&fault);
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL), MK_OK);
    mk_sim_disk_manual_clock(world->disk)->now_ms = 9;
    assert_int_equal(mk_sim_disk_profile(world->disk), MK_SIM_HOSTILE);
    assert_int_equal(mk_sim_disk_clone(world->disk, &twin.disk, NULL), MK_OK);
    assert_int_equal(mk_sim_disk_profile(twin.disk), MK_SIM_KILL9);
    assert_int_equal(stats_of(twin.disk).steps, 0);
    assert_int_equal(stats_of(twin.disk).pending,
                     stats_of(world->disk).pending);
    assert_int_equal(mk_sim_disk_manual_clock(twin.disk)->now_ms, 9);
    boot(&twin);
    put_file(&twin, "/v", "");
    write_at(hold(&twin, open_file(&twin, "/f", MK_OPEN_WRITE)), 0, "NEW");
    assert_disk(world->disk, "/f=new;/u=;");
    assert_disk(twin.disk, "/f=NEW;/u=;/v=;");
    mk_sim_disk_heal(world->disk);
    write_at(world->held[0], 1, "3");
    assert_disk(twin.disk, "/f=NEW;/u=;/v=;");
    crash(&twin, MK_SIM_LAZY);
    assert_disk(twin.disk, "/f=OLD;/v=;");
    assert_disk(world->disk, "/f=n3w;/u=;");
    mk_env_free(twin.env);
    mk_sim_disk_free(twin.disk);
}

/* Nothing is open or locked on a clone, and what had no name is gone. */
static void test_clone_has_no_handles(void **state)
{
    sim_world *world = *state;
    sim_world twin = {.counts = {0}};

    assert_int_equal(mk_vfs_lock(world->vfs, "/l", "x", &world->held[0], NULL),
                     MK_OK);
    world->held_count = 1;
    hold(world, create_file(world, "/f"));
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_OK);
    assert_int_equal(stats_of(world->disk).files, 2);
    assert_int_equal(mk_sim_disk_clone(world->disk, &twin.disk, NULL), MK_OK);
    assert_int_equal(stats_of(twin.disk).files, 1);
    boot(&twin);
    assert_int_equal(mk_vfs_lock(twin.vfs, "/l", "x", &twin.held[0], NULL),
                     MK_OK);
    twin.held_count = 1;
    close_held(&twin);
    mk_env_free(twin.env);
    mk_sim_disk_free(twin.disk);
}

/* A clone that lacks memory is none. */
static void test_clone_without_memory(void **state)
{
    sim_world *world = *state;
    mk_sim_disk *clone;
    size_t blocks;
    size_t nth = 1;

    leave_unsynced(world);
    blocks = world->counts.blocks;
    for (;; nth++) {
        world->counts.fail_at = world->counts.allocations + nth;
        if (mk_sim_disk_clone(world->disk, &clone, NULL) == MK_OK) break;
        assert_null(clone);
        assert_int_equal(world->counts.blocks, blocks);
    }
    world->counts.fail_at = 0;
    assert_true(nth > 3);
    mk_sim_disk_free(clone);
}

/* ---- Determinism ---- */

static mk_status hash_event(void *context, const mk_sim_event *event,
                            mk_error *err)
{
    uint64_t *hash = context;
    char line[256];

    (void)err;
    snprintf(line, sizeof line, "%d %s %s %s %s %d %d %d", (int)event->step,
             mk_sim_operation_name(event->operation), event->path,
             event->to != NULL ? event->to : "-",
             event->sync != NULL ? event->sync : "-", (int)event->position,
             (int)event->size, event->os_errno);
    for (const char *c = line; *c != '\0'; c++) {
        *hash = (*hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
    }
    return MK_OK;
}

/* Run a script of everything with crashes between, and hash trace and image. */
static void run_script(uint64_t seed, uint64_t out[3])
{
    mk_sim_options options;
    sim_world *world;

    out[0] = UINT64_C(14695981039346656037);
    mk_sim_options_default(&options);
    options.seed = seed;
    world = new_world(&options);
    for (int round = 0; round < 6; round++) {
        mk_file *file;

        mk_sim_disk_trace(world->disk, (mk_sim_trace){hash_event, out});
        leave_unsynced(world);
        file = create_file(world, "/g");
        write_at(file, round * 700, "some bytes that are written");
        if (round % 2 == 0) sync_file(file);
        close_file(file);
        sync_directory(world, "/");
        write_at(world->held[0], 2, "more bytes that are written");
        out[0] ^= mk_env_random(world->env);
        crash(world, MK_SIM_OWN_PROFILE);
    }
    assert_int_equal(mk_sim_disk_hash(world->disk, out + 1, NULL), MK_OK);
    free_world(world);
}

/* The same seed gives the same, on every machine and with every compiler. */
static void test_same_seed_same_disk(void **state)
{
    static const uint64_t frozen[3] = {
        UINT64_C(0x0d03788fc4b11000),
        UINT64_C(0xbede2e7cec2609c3),
        UINT64_C(0xf937f49dbe34d00a),
    };
    uint64_t first[3];
    uint64_t again[3];

    (void)state;
    run_script(7, first);
    run_script(7, again);
    assert_memory_equal(first, again, sizeof first);
    run_script(8, again);
    assert_memory_not_equal(first, again, sizeof first);
    if (memcmp(first, frozen, sizeof first) != 0) {
        fail_msg("%016jx %016jx %016jx", (uintmax_t)first[0],
                 (uintmax_t)first[1], (uintmax_t)first[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(old_machine_is_dead),
        TEST(old_handles_are_dead),
        TEST(kill9_keeps_everything),
        TEST(kill9_frees_unlinked_files),
        TEST(draws_are_what_the_profile_allows),
        TEST(tears_are_drawn),
        TEST(tears_in_pages_of_many_sectors),
        TEST(crash_without_memory),
        TEST(crash_at_step),
        TEST(armed_crash),
        TEST(clone),
        TEST(clone_has_no_handles),
        TEST(clone_without_memory),
        TEST(same_seed_same_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
