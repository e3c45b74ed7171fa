/*
 * swap_trees -- the directories of a swap, made by hand: a log at LIVE, its
 * successor at MADE, what it was at AWAY.
 */
#ifndef MK_SUPPORT_SWAP_TREES_H
#define MK_SUPPORT_SWAP_TREES_H

#include "support/log_world.h"

#include "store/names.h"
#include "store/swap_manifest.h"

#define OLD "0:a=1 1:a=2 2:b=1 "
#define NEW "1:a=2 2:b=1 "

#define LIVE "t-0"
#define MADE "minikafka.new.t-0"
#define AWAY "minikafka.old.t-0"

static inline const char *at(log_world *world, const char *tree,
                             const char *name)
{
    char path[240];

    snprintf(path, sizeof path, "%.30s/%.200s", tree, name);
    return path_of(world->disk, path);
}

static inline void move_tree(log_world *world, const char *from, const char *to)
{
    assert_int_equal(
        rename(path_of(world->disk, from), path_of(world->disk, to)), 0);
}

/* Hard-link all files of a tree into another. */
static inline void link_tree(log_world *world, const char *from, const char *to)
{
    struct dirent **entries;
    int count = scandir(path_of(world->disk, from), &entries, NULL, by_name);

    assert_true(count > 2);
    assert_int_equal(mkdir(path_of(world->disk, to), 0700), 0);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            assert_int_equal(link(at(world, from, entries[i]->d_name),
                                  at(world, to, entries[i]->d_name)),
                             0);
        }
        free(entries[i]);
    }
    free(entries);
}

static inline void put_note(log_world *world, const char *tree,
                            const char *live, mk_swap_phase phase)
{
    assert_ok(world, mk_swap_manifest_store(world->wrap.inner,
                                            path_of(world->disk, tree), live,
                                            phase, &world->err));
}

/* Make the old tree at AWAY and its successor at MADE; nothing is at LIVE. */
static inline void make_trees(log_world *world)
{
    mk_cleanup_result result;

    open_log(world);
    fill(world, "a=1 a=2 | b=1");
    close_log(world);
    link_tree(world, LIVE, AWAY);
    open_log(world);
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    mk_cleanup_result_deinit(&result);
    close_log(world);
    move_tree(world, LIVE, MADE);
}

#endif /* MK_SUPPORT_SWAP_TREES_H */
