/*
 * sim_world -- a simulated disk, a machine on it, a heap that counts and can
 * fail, and verbs for tests.
 */
#ifndef MK_SUPPORT_SIM_WORLD_H
#define MK_SUPPORT_SIM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "include/minikafka_sim.h"
#include "os/env.h"

/* Counts blocks; the allocation number `fail_at` fails, from 1; 0: none. */
typedef struct counting_heap {
    size_t blocks;
    size_t allocations;
    size_t fail_at;
} counting_heap;

typedef struct sim_world {
    counting_heap counts;
    mk_heap heap;
    mk_sim_disk *disk;
    mk_env *env;
    mk_vfs *vfs;
    mk_scratch scratch;
    mk_file *held[8]; /* Closed at the end. */
    size_t held_count;
} sim_world;

static inline void *counting_resize(void *context, void *block, size_t size)
{
    counting_heap *counts = context;

    if (size == 0) {
        if (block != NULL) counts->blocks--;
        free(block);
        return NULL;
    }
    if (++counts->allocations == counts->fail_at) return NULL;
    if (block == NULL) counts->blocks++;
    return realloc(block, size);
}

static inline void close_held(sim_world *world);

/* Start a machine on the disk, at first or after a crash. */
static inline void boot(sim_world *world)
{
    close_held(world);
    mk_env_free(world->env);
    world->env = NULL;
    assert_int_equal(mk_env_new_sim(world->disk, &world->env, NULL), MK_OK);
    world->vfs = world->env->vfs;
}

static inline sim_world *new_world(const mk_sim_options *options)
{
    sim_world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    world->heap = (mk_heap){counting_resize, &world->counts};
    assert_int_equal(mk_sim_disk_new(&world->heap, options, &world->disk, NULL),
                     MK_OK);
    mk_scratch_init(&world->scratch, &world->heap);
    boot(world);
    return world;
}

/* Keep a file open until the end. */
static inline mk_file *hold(sim_world *world, mk_file *file)
{
    assert_true(world->held_count < sizeof world->held / sizeof *world->held);
    world->held[world->held_count++] = file;
    return file;
}

static inline void close_held(sim_world *world)
{
    for (size_t i = 0; i < world->held_count; i++) {
        assert_int_equal(mk_file_close(world->held[i], NULL), MK_OK);
    }
    world->held_count = 0;
}

/* Everything was given back. */
static inline void free_world(sim_world *world)
{
    close_held(world);
    mk_scratch_deinit(&world->scratch);
    mk_env_free(world->env);
    mk_sim_disk_free(world->disk);
    assert_int_equal(world->counts.blocks, 0);
    free(world);
}

static inline int set_up(void **state)
{
    *state = new_world(NULL);
    return 0;
}

static inline int tear_down(void **state)
{
    free_world(*state);
    return 0;
}

/* ---- What processes do ---- */

static inline mk_file *open_file(sim_world *world, const char *path,
                                 unsigned flags)
{
    mk_file *file;
    mk_error err;
    mk_status status = mk_file_open(world->vfs, path, flags, &file, &err);

    if (status != MK_OK) fail_msg("%s", err.message);
    return file;
}

static inline mk_file *create_file(sim_world *world, const char *path)
{
    return open_file(world, path, MK_OPEN_WRITE | MK_OPEN_CREATE);
}

static inline void close_file(mk_file *file)
{
    assert_int_equal(mk_file_close(file, NULL), MK_OK);
}

static inline void write_at(mk_file *file, int64_t position, const char *text)
{
    assert_int_equal(mk_file_write(file, position, text, strlen(text), NULL),
                     MK_OK);
}

static inline void sync_file(mk_file *file)
{
    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
}

static inline void sync_directory(sim_world *world, const char *path)
{
    assert_int_equal(
        mk_vfs_sync_directory(world->vfs, path, MK_SYNC_FLUSH_DIRECTORY, NULL),
        MK_OK);
}

static inline void rename_to(sim_world *world, const char *from, const char *to)
{
    assert_int_equal(mk_vfs_rename(world->vfs, from, to, NULL), MK_OK);
}

static inline mk_span view(sim_world *world, mk_file *file, int64_t position,
                           size_t size)
{
    mk_span span;

    assert_int_equal(
        mk_file_view(file, &world->scratch, position, size, &span, NULL),
        MK_OK);
    return span;
}

/* The call failed, and the disk said why. */
static inline void failed_with(mk_status status, const mk_error *err,
                               int os_errno)
{
    assert_int_not_equal(status, MK_OK);
    assert_int_equal(err->status, status);
    assert_int_equal(err->os_errno, os_errno);
}

static inline mk_sim_fault fault_of(mk_sim_operation operation, int os_errno)
{
    mk_sim_fault fault;

    mk_sim_fault_default(&fault);
    fault.operation = operation;
    fault.os_errno = os_errno;
    return fault;
}

static inline void add_fault(sim_world *world, mk_sim_fault fault)
{
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL), MK_OK);
}

/* ---- From outside ---- */

/* Put a file on the disk, stable at once. */
static inline void put_file(sim_world *world, const char *path,
                            const char *text)
{
    assert_int_equal(
        mk_sim_disk_write(world->disk, path, text, strlen(text), NULL), MK_OK);
}

/* Describe all files as "path=text;" in a row: zeros as `0`, bytes that are no
 * text as `?`. */
static inline const char *describe(mk_sim_disk *disk)
{
    static char out[4096];
    mk_sim_paths paths;
    size_t used = 0;

    out[0] = '\0';
    assert_int_equal(mk_sim_disk_list(disk, &paths, NULL), MK_OK);
    for (size_t i = 0; i < paths.count; i++) {
        uint8_t bytes[512];
        size_t size;

        assert_int_equal(mk_sim_disk_read(disk, paths.paths[i], 0, bytes,
                                          sizeof bytes, &size, NULL),
                         MK_OK);
        used += (size_t)snprintf(out + used, sizeof out - used,
                                 "%s=", paths.paths[i]);
        for (size_t j = 0; j < size && used + 2 < sizeof out; j++) {
            char c = (char)bytes[j];

            if (bytes[j] == 0) c = '0';
            if (bytes[j] != 0 && (bytes[j] < ' ' || bytes[j] > '~')) c = '?';
            out[used++] = c;
        }
        used += (size_t)snprintf(out + used, sizeof out - used, ";");
    }
    mk_sim_paths_deinit(&paths);
    return out;
}

static inline void crash(sim_world *world, mk_sim_profile profile)
{
    assert_int_equal(mk_sim_disk_crash(world->disk, profile, NULL), MK_OK);
    boot(world);
}

#define assert_disk(disk, expected) \
    assert_string_equal(describe(disk), (expected))

static inline mk_sim_stats stats_of(mk_sim_disk *disk)
{
    mk_sim_stats stats;

    mk_sim_disk_stats(disk, &stats);
    return stats;
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

#endif /* MK_SUPPORT_SIM_WORLD_H */
