/* Opening what a swap left, when that fails half-way: the next opening finds
 * the same log, and finishes. What the table of states says is in swap_spec. */
#define _GNU_SOURCE
#include "support/swap_trees.h"

/* Between two renames. */
static void leave_between(log_world *world)
{
    make_trees(world);
    put_note(world, MADE, LIVE, MK_SWAP_READY);
}

/* The same, and the old tree was damaged since. */
static void leave_damaged(log_world *world)
{
    leave_between(world);
    damage(at(world, AWAY, "00000000000000000000.log"), 70);
}

/* Exchanged, and with a stranger's file in the old tree. */
static void leave_exchanged(log_world *world)
{
    make_trees(world);
    move_tree(world, MADE, LIVE);
    move_tree(world, AWAY, MADE);
    put_note(world, LIVE, LIVE, MK_SWAP_READY);
    store_text(at(world, MADE, "diary"), "dear");
}

/* Not swapped. */
static void leave_built(log_world *world)
{
    make_trees(world);
    move_tree(world, AWAY, LIVE);
    put_note(world, MADE, LIVE, MK_SWAP_READY);
}

static const struct {
    const char *name;
    void (*leave)(log_world *world);
    const char *wanted;
} leavings[] = {
    {"between", leave_between, OLD},
    {"damaged", leave_damaged, NEW},
    {"exchanged", leave_exchanged, NEW},
    {"built", leave_built, OLD},
};

/* Open with call number `number` failing; false once there is no such call. */
static bool open_with_fault(log_world *world, size_t i, long number, bool after)
{
    wrap_fault *fault;
    mk_status status;
    bool hit;

    remove_all(world->where);
    remove_all(path_of(world->disk, MADE));
    remove_all(path_of(world->disk, AWAY));
    leavings[i].leave(world);
    fault = wrap_fail(&world->wrap, WRAP_ANY, number, EIO);
    fault->after = after;
    status = try_open(world);
    hit = fault->hit;
    wrap_heal(&world->wrap);
    if (status == MK_OK) {
        assert_contents(world, leavings[i].wanted);
        abandon_log(world);
    } else if (status != MK_IO) {
        fail_msg("%s, call %ld: %s", leavings[i].name, number,
                 world->err.message);
    }
    if (try_open(world) != MK_OK) {
        fail_msg("%s, after call %ld: %s", leavings[i].name, number,
                 world->err.message);
    }
    assert_contents(world, leavings[i].wanted);
    assert_alone(world);
    if (leavings[i].leave == leave_exchanged) {
        assert_true(exists(file_of(world, "diary")));
    }
    close_log(world);
    return hit;
}

/* Whichever call fails, before or after its effect: the next opening finds the
 * same log, and finishes. */
static void test_every_call_may_fail(void **state)
{
    log_world *world = *state;

    for (size_t i = 0; i < sizeof leavings / sizeof leavings[0]; i++) {
        for (int after = 0; after <= 1; after++) {
            long number = 1;

            while (open_with_fault(world, i, number, after != 0)) {
                number++;
            }
            assert_true(number > 20);
        }
    }
}

/* Is the parent synced before the first name goes from a tree beside the log?
 * Who swapped may have died before the names were stable. */
static void assert_stable_first(log_world *world)
{
    const wrap_vfs *wrap = &world->wrap;
    bool stable = false, gone = false;

    for (size_t i = 0; i < wrap->call_count; i++) {
        const wrap_call *call = &wrap->calls[i];

        if (call->kind == WRAP_fsync_dir &&
            strcmp(call->path, world->disk->root) == 0) {
            stable = true;
        }
        if (call->kind != WRAP_unlink) continue;
        if (strstr(call->path, MADE) == NULL &&
            strstr(call->path, AWAY) == NULL) {
            continue;
        }
        gone = true;
        if (!stable) fail_msg("%s goes too early", call->path);
    }
    assert_true(gone);
}

static void test_names_are_stable_first(void **state)
{
    log_world *world = *state;

    for (size_t i = 0; i < sizeof leavings / sizeof leavings[0]; i++) {
        remove_all(world->where);
        leavings[i].leave(world);
        wrap_record(&world->wrap);
        open_log(world);
        world->wrap.recording = false;
        assert_stable_first(world);
        close_log(world);
    }
}

/* Whichever allocation fails: the same. */
static void test_memory_may_be_short(void **state)
{
    log_world *world = *state;

    for (size_t i = 0; i < sizeof leavings / sizeof leavings[0]; i++) {
        mk_status status = MK_NO_MEMORY;

        for (long n = 1; status == MK_NO_MEMORY; n++) {
            remove_all(world->where);
            remove_all(path_of(world->disk, MADE));
            remove_all(path_of(world->disk, AWAY));
            leavings[i].leave(world);
            world->disk->fail_at = n;
            status = try_open(world);
            world->disk->fail_at = 0;
            if (status == MK_NO_MEMORY) open_log(world);
            assert_contents(world, leavings[i].wanted);
            assert_alone(world);
            close_log(world);
        }
        assert_ok(world, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_every_call_may_fail),
        log_test(test_names_are_stable_first),
        log_test(test_memory_may_be_short),
    };

    return cmocka_run_group_tests_name("swap_decision", tests, NULL, NULL);
}
