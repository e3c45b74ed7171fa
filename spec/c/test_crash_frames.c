/*
 * The enumeration against a slow one: for random scripts every subset of the
 * atoms is looked at, judged by the letter of the profiles, and applied. Each
 * image must come once, under the weakest profile that has it.
 */
#include "support/sim_states.h"

#include "os/sim_crash.h"

#define SCRIPTS   400
#define ATOMS_MAX 11

typedef struct judged_image {
    uint64_t hash[2];
    mk_sim_profile profile;
    bool found;
} judged_image;

typedef struct verdict_list {
    judged_image *list;
    size_t count;
} verdict_list;

static void add_verdict(verdict_list *verdicts, const uint64_t hash[2],
                        mk_sim_profile profile)
{
    judged_image *judged;

    for (size_t i = 0; i < verdicts->count; i++) {
        judged = &verdicts->list[i];
        if (memcmp(judged->hash, hash, sizeof judged->hash) != 0) continue;
        if (profile < judged->profile) judged->profile = profile;
        return;
    }
    judged = &verdicts->list[verdicts->count++];
    memcpy(judged->hash, hash, sizeof judged->hash);
    judged->profile = profile;
    judged->found = false;
}

static bool has(uint32_t mask, size_t i)
{
    return (mask >> i & 1) != 0;
}

static bool is_data(const mk_sim_disk *disk, size_t i)
{
    return disk->atoms[i].kind == MK_SIM_ATOM_DATA;
}

static bool is_prefix(const mk_sim_disk *disk, uint32_t mask, bool metadata)
{
    bool ended = false;

    for (size_t i = 0; i < disk->atom_count; i++) {
        if (metadata && is_data(disk, i)) continue;
        if (disk->atoms[i].doomed) continue;
        if (has(mask, i) && ended) return false;
        if (!has(mask, i)) ended = true;
    }
    return true;
}

static bool grows_with_pages(const mk_sim_disk *disk, uint32_t mask)
{
    for (size_t i = 1; i < disk->atom_count; i++) {
        const mk_sim_atom *atom = &disk->atoms[i];

        if (atom->kind != MK_SIM_ATOM_GROWTH || !has(mask, i)) continue;
        if (atom[-1].serial + 1 == atom->serial && !has(mask, i - 1)) {
            return false;
        }
    }
    return true;
}

/* COUNT: no profile allows it. */
static mk_sim_profile judge(const mk_sim_disk *disk, uint32_t mask)
{
    for (size_t i = 0; i < disk->atom_count; i++) {
        if (!has(mask, i)) continue;
        if (disk->atoms[i].doomed) return MK_SIM_PROFILE_COUNT;
        for (size_t j = 0; j < i; j++) {
            if (mk_sim_atom_shares_name(&disk->atoms[j], &disk->atoms[i]) &&
                !has(mask, j)) {
                return MK_SIM_PROFILE_COUNT;
            }
        }
    }
    if (mask == 0) return MK_SIM_LAZY;
    if (is_prefix(disk, mask, false)) return MK_SIM_PREFIX;
    if (!is_prefix(disk, mask, true)) return MK_SIM_HOSTILE;
    return grows_with_pages(disk, mask) ? MK_SIM_ORDERED : MK_SIM_WRITEBACK;
}

/* Apply the subset, node by node, and hash what comes out. */
static void hash_subset(mk_sim_disk *disk, uint32_t mask, uint64_t hash[2])
{
    mk_sim_fate fates[32] = {{0}};
    mk_sim_content *contents[32] = {NULL};
    int64_t mtimes_ms[32] = {0};
    mk_sim_forest *forest;
    mk_sim_disk *found;

    for (size_t i = 0; i < disk->atom_count; i++) {
        if (has(mask, i)) fates[i].shape = MK_SIM_SHAPE_WHOLE;
    }
    assert_true(disk->node_count <= 32);
    assert_int_equal(mk_sim_forest_new(disk, fates, &forest, NULL), MK_OK);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (forest->links[i] == 0) continue;
        mtimes_ms[i] = mk_sim_image_time(disk, i, fates);
        if (disk->nodes[i].directory) continue;
        contents[i] = mk_sim_content_acquire(disk->nodes[i].kept_content);
        assert_int_equal(mk_sim_image_apply(disk, i, fates, &contents[i], NULL),
                         MK_OK);
    }
    assert_int_equal(
        mk_sim_image_disk(disk, &(mk_sim_image){forest, contents, mtimes_ms},
                          MK_SIM_HOSTILE, &found, NULL),
        MK_OK);
    assert_int_equal(mk_sim_disk_hash(found, hash, NULL), MK_OK);
    mk_sim_disk_free(found);
    mk_sim_forest_free(disk, forest);
    for (size_t i = 0; i < disk->node_count; i++) {
        mk_sim_content_release(&disk->media, contents[i]);
    }
}

static void judge_all(mk_sim_disk *disk, verdict_list *verdicts)
{
    uint64_t hash[2];

    assert_int_equal(mk_sim_disk_hash(disk, hash, NULL), MK_OK);
    add_verdict(verdicts, hash, MK_SIM_KILL9);
    if (stats_of(disk).faults == 0) {
        uint64_t all[2];

        hash_subset(disk, (1u << disk->atom_count) - 1, all);
        assert_memory_equal(all, hash, sizeof all);
    }
    for (uint32_t mask = 0; mask < 1u << disk->atom_count; mask++) {
        mk_sim_profile profile = judge(disk, mask);

        if (profile == MK_SIM_PROFILE_COUNT) continue;
        hash_subset(disk, mask, hash);
        add_verdict(verdicts, hash, profile);
    }
}

/* Each state was judged, with the same profile; and none is missing. */
static void compare_states(mk_sim_disk *disk, verdict_list *verdicts,
                           uint64_t seed)
{
    mk_sim_states *states;
    mk_sim_disk *found;
    mk_sim_states_info info;

    assert_int_equal(mk_sim_states_open(disk, NULL, &states, NULL), MK_OK);
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        uint64_t hash[2];
        bool known = false;

        assert_int_equal(mk_sim_disk_hash(found, hash, NULL), MK_OK);
        for (size_t i = 0; i < verdicts->count; i++) {
            judged_image *judged = &verdicts->list[i];

            if (memcmp(judged->hash, hash, sizeof hash) != 0) continue;
            if (judged->found) fail_msg("seed %d: a state twice", (int)seed);
            if (judged->profile != mk_sim_disk_profile(found)) {
                fail_msg("seed %d: %s is really %s", (int)seed,
                         mk_sim_profile_name(mk_sim_disk_profile(found)),
                         mk_sim_profile_name(judged->profile));
            }
            judged->found = known = true;
        }
        if (!known) {
            fail_msg("seed %d: %s is not allowed", (int)seed, describe(found));
        }
        mk_sim_disk_free(found);
    }
    mk_sim_states_get_info(states, &info);
    assert_true(info.complete);
    mk_sim_states_close(states);
    if ((size_t)info.given != verdicts->count) {
        fail_msg("seed %d: %d states, not %zu", (int)seed, (int)info.given,
                 verdicts->count);
    }
}

/* ---- Scripts ---- */

static const char *any_path(uint64_t *chance)
{
    static const char *const paths[] = {"/a", "/b", "/d/a", "/d/b", "/d"};

    return paths[mk_sim_random_below(chance, 5)];
}

static void change_file(sim_world *world, uint64_t *chance)
{
    static const char text[] = "0123456789abcdef";
    int64_t position = (int64_t)mk_sim_random_below(chance, 1200);
    mk_sim_stats stats = stats_of(world->disk);
    bool creates = mk_sim_random_below(chance, 4) == 0;
    mk_file *file;
    mk_status ignored;

    if (mk_file_open(world->vfs, any_path(chance),
                     MK_OPEN_WRITE | (creates ? MK_OPEN_CREATE : 0), &file,
                     NULL) != MK_OK) {
        return;
    }
    switch (mk_sim_random_below(chance, 8)) {
    case 0:
        ignored = mk_file_truncate(file, position / 2, NULL);
        break;
    case 1:
        ignored = mk_file_allocate(file, position, NULL);
        break;
    case 2:
        ignored =
            mk_file_sync(file, stats.steps % 2 == 0, MK_SYNC_FLUSH_LOG, NULL);
        break;
    default:
        ignored = mk_file_write(file, position / 8, text,
                                1 + mk_sim_random_below(chance, 16), NULL);
        break;
    }
    (void)ignored;
    close_file(file);
}

static void change_names(sim_world *world, uint64_t *chance)
{
    const char *path = any_path(chance);
    const char *to = any_path(chance);
    mk_status ignored;

    switch (mk_sim_random_below(chance, 8)) {
    case 0:
        ignored = mk_vfs_mkdir(world->vfs, path, NULL);
        break;
    case 1:
        ignored = mk_vfs_unlink(world->vfs, path, NULL);
        break;
    case 2:
        ignored = mk_vfs_rmdir(world->vfs, path, NULL);
        break;
    case 3:
        ignored = mk_vfs_link(world->vfs, path, to, NULL);
        break;
    case 4:
        ignored = mk_vfs_exchange(world->vfs, path, to, NULL);
        break;
    case 5:
        ignored = mk_vfs_set_mtime(
            world->vfs, path, (int64_t)mk_sim_random_below(chance, 3), NULL);
        break;
    case 6:
        ignored = mk_vfs_sync_directory(world->vfs, path,
                                        MK_SYNC_FLUSH_DIRECTORY, NULL);
        break;
    default:
        ignored = mk_vfs_rename(world->vfs, path, to, NULL);
        break;
    }
    (void)ignored;
}

static void run_script(sim_world *world, uint64_t *chance)
{
    mk_sim_fault fault;

    mk_sim_fault_default(&fault);
    fault.operation = MK_SIM_WRITE;
    fault.delayed = true;
    fault.after = (int64_t)mk_sim_random_below(chance, 12);
    fault.times = 1;
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL), MK_OK);
    fault.operation = MK_SIM_FSYNC;
    fault.delayed = false;
    fault.flavour = (mk_sim_flavour)mk_sim_random_below(chance, 3);
    fault.after = 0;
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL), MK_OK);

    put_file(world, "/a", "first");
    put_file(world, "/d/a", "second");
    for (int i = 0; i < 40; i++) {
        if (stats_of(world->disk).pending >= ATOMS_MAX - 4) break;
        if (mk_sim_random_below(chance, 5) < 3) {
            change_file(world, chance);
        } else {
            change_names(world, chance);
        }
    }
}

/* Every state under its right name, and none missing. */
static void test_all_states_of_random_scripts(void **state)
{
    verdict_list verdicts = {0};
    mk_sim_options options;
    size_t seen = 0;

    (void)state;
    mk_sim_options_default(&options);
    options.page_bytes = 512;
    verdicts.list = calloc(1u << ATOMS_MAX, sizeof *verdicts.list);
    assert_non_null(verdicts.list);
    for (uint64_t seed = 1; seed <= SCRIPTS; seed++) {
        uint64_t chance = seed * 1000003;
        sim_world *world;

        options.fsync_links = seed % 2 == 0;
        world = new_world(&options);
        run_script(world, &chance);
        if (stats_of(world->disk).pending <= ATOMS_MAX) {
            verdicts.count = 0;
            judge_all(world->disk, &verdicts);
            compare_states(world->disk, &verdicts, seed);
            seen += verdicts.count;
        }
        free_world(world);
    }
    free(verdicts.list);
    assert_true(seen > SCRIPTS * 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_states_of_random_scripts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
