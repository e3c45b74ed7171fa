/*
 * The simulated disk against the real one: random operations on both must give
 * the same statuses and errnos, and show the same files.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "include/minikafka_sim.h"
#include "os/env.h"
#include "os/sim_hash.h"

#define SCRIPTS      30
#define STEPS        400
#define HANDLES      3
#define REAL         0
#define SIMULATED    1
#define CONTENT_SIZE 20000

/* Two disks that are to be alike. */
typedef struct twin_disks {
    char root[64]; /* Of both. */
    mk_env *envs[2];
    mk_vfs *disks[2];
    mk_file *files[2][HANDLES];
    bool has_tail[HANDLES];
    mk_scratch scratches[2];
    mk_error errors[2];
    mk_status statuses[2];
    uint64_t chance;
    uint64_t seed;
    int step;
} twin_disks;

static void check(twin_disks *twins, const char *what)
{
    mk_status real = twins->statuses[REAL];
    mk_status simulated = twins->statuses[SIMULATED];

    if (real != simulated) {
        fail_msg("seed %d, step %d: %s: %s, but simulated %s (%s)",
                 (int)twins->seed, twins->step, what, mk_status_name(real),
                 mk_status_name(simulated), twins->errors[SIMULATED].message);
    }
    if (real == MK_OK) return;
    if (twins->errors[REAL].os_errno != twins->errors[SIMULATED].os_errno) {
        fail_msg("seed %d, step %d: %s: %s, but simulated %s", (int)twins->seed,
                 twins->step, what, twins->errors[REAL].message,
                 twins->errors[SIMULATED].message);
    }
}

/* Make a call on both disks, and check that they agree. */
#define BOTH(twins, what, call)                     \
    for (int i = 0; i < 2; i++) {                   \
        mk_vfs *vfs = (twins)->disks[i];            \
        mk_error *err = &(twins)->errors[i];        \
        (void)vfs;                                  \
        (twins)->statuses[i] = (call);              \
        if (i == SIMULATED) check((twins), (what)); \
    }

static uint64_t draw(twin_disks *twins, uint64_t end)
{
    return mk_sim_random_below(&twins->chance, end);
}

/* One of a few paths, two of them in directories that may not be there. */
static void draw_path(twin_disks *twins, char out[128])
{
    static const char *const names[] = {"a",   "b",     "d",     "d/a",
                                        "d/e", "d/e/a", "d//./b"};

    snprintf(out, 128, "%s/%s", twins->root, names[draw(twins, 7)]);
}

/* ---- Operations ---- */

static bool has_any_tail(const twin_disks *twins)
{
    bool any = false;

    for (size_t i = 0; i < HANDLES; i++) {
        any |= twins->has_tail[i];
    }
    return any;
}

static void open_handle(twin_disks *twins, size_t at)
{
    unsigned flags = (unsigned)draw(twins, has_any_tail(twins) ? 8 : 16);
    char path[128];

    /* The kernel has its own mind about emptying a file opened for reading. */
    if ((flags & MK_OPEN_TRUNCATE) != 0) flags |= MK_OPEN_WRITE;
    draw_path(twins, path);
    BOTH(twins, "open",
         mk_file_open(vfs, path, flags, &twins->files[i][at], err));
}

static void begin_tail(twin_disks *twins, size_t at)
{
    int64_t position = (int64_t)draw(twins, 300);

    BOTH(twins, "tail_begin",
         mk_file_tail_begin(twins->files[i][at], position, MK_TAIL_PLAIN, err));
    twins->has_tail[at] = true;
    if (twins->statuses[REAL] == MK_OK) return;
    /* What is left of a tail that did not begin is nobody's business. */
    for (int i = 0; i < 2; i++) {
        mk_file_close(twins->files[i][at], NULL);
        twins->files[i][at] = NULL;
    }
    twins->has_tail[at] = false;
}

static void use_tail(twin_disks *twins, size_t at)
{
    size_t size = 1 + draw(twins, 900);
    uint8_t byte = (uint8_t)draw(twins, 256);
    uint8_t *tails[2];

    if (draw(twins, 6) == 0) {
        BOTH(twins, "tail_end", mk_file_tail_end(twins->files[i][at], err));
        twins->has_tail[at] = false;
        return;
    }
    for (int i = 0; i < 2; i++) {
        twins->statuses[i] =
            mk_file_tail_reserve(twins->files[i][at], size, &tails[i], NULL);
        if (twins->statuses[i] == MK_OK) memset(tails[i], byte, size);
        if (twins->statuses[i] == MK_OK) {
            twins->statuses[i] = mk_file_tail_commit(twins->files[i][at], size,
                                                     &twins->errors[i]);
        }
    }
    assert_int_equal(twins->statuses[REAL], twins->statuses[SIMULATED]);
}

static void change_content(twin_disks *twins, size_t at)
{
    static uint8_t bytes[6000];
    int64_t position = (int64_t)draw(twins, 9000);
    size_t size = draw(twins, 2) == 0 ? draw(twins, 20) : draw(twins, 6000);

    memset(bytes, (int)draw(twins, 256), sizeof bytes);
    switch (draw(twins, 5)) {
    case 0:
        BOTH(twins, "truncate",
             mk_file_truncate(twins->files[i][at], position, err));
        break;
    case 1:
        BOTH(twins, "allocate",
             mk_file_allocate(twins->files[i][at], position, err));
        break;
    default:
        BOTH(twins, "write",
             mk_file_write(twins->files[i][at], position, bytes, size, err));
        break;
    }
}

static void look_at_handle(twin_disks *twins, size_t at)
{
    int64_t position = (int64_t)draw(twins, 12000);
    size_t size = draw(twins, 6000);
    mk_span spans[2];
    mk_file_stat stats[2];

    BOTH(twins, "view",
         mk_file_view(twins->files[i][at], &twins->scratches[i], position, size,
                      &spans[i], err));
    assert_int_equal(spans[REAL].size, spans[SIMULATED].size);
    if (spans[REAL].size > 0) {
        assert_memory_equal(spans[REAL].data, spans[SIMULATED].data,
                            spans[REAL].size);
    }
    BOTH(twins, "stat_open",
         mk_file_stat_open(twins->files[i][at], &stats[i], err));
    assert_int_equal(stats[REAL].size, stats[SIMULATED].size);
    assert_int_equal(stats[REAL].links, stats[SIMULATED].links);
}

static void use_handle(twin_disks *twins)
{
    size_t at = draw(twins, HANDLES);

    if (twins->files[REAL][at] == NULL) {
        open_handle(twins, at);
    } else if (draw(twins, 8) == 0) {
        BOTH(twins, "close", mk_file_close(twins->files[i][at], err));
        twins->files[REAL][at] = twins->files[SIMULATED][at] = NULL;
        twins->has_tail[at] = false;
    } else if (draw(twins, 3) == 0) {
        look_at_handle(twins, at);
    } else if (twins->has_tail[at]) {
        use_tail(twins, at);
    }
}

/* Handles that are for reading only are not written to. While one handle has a
 * tail no other one cuts the file: when that is found out is a matter of time.
 */
static void write_file(twin_disks *twins)
{
    size_t at = draw(twins, HANDLES);
    char path[128];

    if (twins->files[REAL][at] != NULL || has_any_tail(twins)) return;
    draw_path(twins, path);
    BOTH(twins, "open",
         mk_file_open(vfs, path, MK_OPEN_WRITE, &twins->files[i][at], err));
    if (twins->statuses[REAL] != MK_OK) return;
    for (uint64_t n = draw(twins, 4); n > 0; n--) {
        change_content(twins, at);
    }
    if (draw(twins, 2) == 0) begin_tail(twins, at);
}

static void look_at_names(twin_disks *twins)
{
    mk_name_list lists[2];
    mk_file_stat stats[2];
    char path[128];

    draw_path(twins, path);
    BOTH(twins, "list", mk_vfs_list(vfs, path, &lists[i], err));
    assert_int_equal(lists[REAL].count, lists[SIMULATED].count);
    for (size_t i = 0; i < lists[REAL].count; i++) {
        assert_string_equal(lists[REAL].names[i], lists[SIMULATED].names[i]);
        assert_int_equal(lists[REAL].kinds[i], lists[SIMULATED].kinds[i]);
    }
    mk_name_list_deinit(&lists[REAL]);
    mk_name_list_deinit(&lists[SIMULATED]);
    BOTH(twins, "stat", mk_vfs_stat(vfs, path, &stats[i], err));
    assert_int_equal(stats[REAL].kind, stats[SIMULATED].kind);
    if (stats[REAL].kind != MK_KIND_FILE) return;
    assert_int_equal(stats[REAL].size, stats[SIMULATED].size);
    assert_int_equal(stats[REAL].links, stats[SIMULATED].links);
}

static void change_names(twin_disks *twins)
{
    int64_t time_ms = (int64_t)draw(twins, 100000) - 50000;
    char path[128];
    char to[128];

    draw_path(twins, path);
    draw_path(twins, to);
    switch (draw(twins, 8)) {
    case 0:
        BOTH(twins, "rename", mk_vfs_rename(vfs, path, to, err));
        break;
    case 1:
        BOTH(twins, "exchange", mk_vfs_exchange(vfs, path, to, err));
        break;
    case 2:
        BOTH(twins, "link", mk_vfs_link(vfs, path, to, err));
        break;
    case 3:
        BOTH(twins, "unlink", mk_vfs_unlink(vfs, path, err));
        break;
    case 4:
        BOTH(twins, "rmdir", mk_vfs_rmdir(vfs, path, err));
        break;
    case 5:
        BOTH(twins, "set_mtime", mk_vfs_set_mtime(vfs, path, time_ms, err));
        break;
    case 6:
        BOTH(twins, "sync_directory",
             mk_vfs_sync_directory(vfs, path, MK_SYNC_SWAP_LOG, err));
        break;
    default:
        BOTH(twins, "mkdir", mk_vfs_mkdir(vfs, path, err));
        break;
    }
}

static void do_step(twin_disks *twins)
{
    switch (draw(twins, 5)) {
    case 0:
        change_names(twins);
        break;
    case 1:
        look_at_names(twins);
        break;
    case 2:
        write_file(twins);
        break;
    default:
        use_handle(twins);
        break;
    }
}

/* ---- Life ---- */

static void make_twins(twin_disks *twins, uint64_t seed)
{
    mk_sim_disk *disk;
    char path[128];

    *twins = (twin_disks){.chance = seed * 7919, .seed = seed};
    snprintf(twins->root, sizeof twins->root, "/tmp/minikafka-XXXXXX");
    assert_non_null(mkdtemp(twins->root));
    assert_int_equal(mk_env_new_posix(NULL, &twins->envs[REAL], NULL), MK_OK);
    assert_int_equal(mk_sim_disk_new(NULL, NULL, &disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(disk, &twins->envs[SIMULATED], NULL),
                     MK_OK);
    snprintf(path, sizeof path, "%s/a", twins->root);
    assert_int_equal(mk_sim_disk_write(disk, path, "", 0, NULL), MK_OK);
    mk_sim_disk_free(disk);
    for (int i = 0; i < 2; i++) {
        twins->disks[i] = twins->envs[i]->vfs;
        mk_scratch_init(&twins->scratches[i], &twins->envs[i]->heap);
    }
    assert_int_equal(mk_vfs_unlink(twins->disks[SIMULATED], path, NULL), MK_OK);
}

static int remove_entry(const char *path, const struct stat *native, int kind,
                        struct FTW *place)
{
    (void)native;
    (void)kind;
    (void)place;
    return remove(path);
}

static void drop_twins(twin_disks *twins)
{
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < HANDLES; at++) {
            mk_file_close(twins->files[i][at], NULL);
        }
        mk_scratch_deinit(&twins->scratches[i]);
        mk_env_free(twins->envs[i]);
    }
    assert_int_equal(nftw(twins->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS),
                     0);
}

/* Whatever is done, both do the same. */
static void test_both_disks_do_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SCRIPTS; seed++) {
        twin_disks twins;

        make_twins(&twins, seed);
        for (twins.step = 0; twins.step < STEPS; twins.step++) {
            do_step(&twins);
        }
        drop_twins(&twins);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_disks_do_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
