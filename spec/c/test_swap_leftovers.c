/* What may stand beside a log when it is opened, made by hand: each line of the
 * table in log/directory_swap.h, and what only looks like it. */
#define _GNU_SOURCE
#include "support/swap_trees.h"

/* A reader sees this, and changes nothing. */
static void look(log_world *world, const char *wanted)
{
    keep(world, files(world));
    world->options.read_only = true;
    open_log(world);
    assert_contents(world, wanted);
    close_log(world);
    world->options.read_only = false;
    assert_string_equal(files(world), world->kept);
}

/* A reader and then a writer find this, and the writer leaves nothing but the
 * log, which goes on. */
static void look_and_open(log_world *world, const char *wanted)
{
    look(world, wanted);
    open_log(world);
    assert_contents(world, wanted);
    assert_alone(world);
    assert_false(exists(file_of(world, MK_NAME_SWAP)));
    append(world, "c=1");
    reopen(world);
    keep(world, contents(world));
    assert_non_null(strstr(world->kept, wanted));
    assert_non_null(strstr(world->kept, "3:c=1 "));
}

/* ---- The table ---- */

/* live, new (noted): not swapped. */
static void test_a_swap_not_done(void **state)
{
    log_world *world = *state;

    for (mk_swap_phase phase = MK_SWAP_BUILDING; phase <= MK_SWAP_READY;
         phase++) {
        make_trees(world);
        move_tree(world, AWAY, LIVE);
        put_note(world, MADE, LIVE, phase);
        look_and_open(world, OLD);
        close_log(world);
        remove_all(world->where);
    }
}

/* live, new: just made, empty, or with the beginnings of a note. */
static void test_a_swap_just_begun(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, MADE));
    move_tree(world, AWAY, LIVE);
    assert_int_equal(mkdir(path_of(world->disk, MADE), 0700), 0);
    look_and_open(world, OLD);
    close_log(world);
    assert_int_equal(mkdir(path_of(world->disk, MADE), 0700), 0);
    store_text(at(world, MADE, "minikafka.swap.tmp"), "minikafka sw");
    open_log(world);
    assert_alone(world);
}

/* live (noted), new: exchanged. */
static void test_an_exchange_not_tidied(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, MADE, LIVE);
    move_tree(world, AWAY, MADE);
    put_note(world, LIVE, LIVE, MK_SWAP_READY);
    look_and_open(world, NEW);
}

/* live (noted), old: two renames. */
static void test_renames_not_tidied(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, MADE, LIVE);
    put_note(world, LIVE, LIVE, MK_SWAP_READY);
    look_and_open(world, NEW);
}

/* The same, half removed already, and with a stranger's file that has no other
 * name: it moves. */
static void test_a_half_removed_tree(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, MADE, LIVE);
    put_note(world, LIVE, LIVE, MK_SWAP_READY);
    unlink(at(world, AWAY, "00000000000000000000.log"));
    store_text(at(world, AWAY, "diary"), "dear");
    assert_int_equal(mkdir(at(world, AWAY, "box"), 0700), 0);
    assert_int_equal(symlink("x", at(world, AWAY, "sign")), 0);
    look_and_open(world, NEW);
    assert_true(exists(file_of(world, "diary")));
    assert_true(exists(file_of(world, "box")));
    assert_true(exists(file_of(world, "sign")));
}

/* Does this file, somewhere in the world, still hold the text? */
static bool holds(log_world *world, const char *text)
{
    char wanted[16];

    snprintf(wanted, sizeof wanted, ":%08x ",
             (unsigned)mk_crc32c(0, text, strlen(text)));
    return strstr(files(world), wanted) != NULL;
}

/* The same, and the live directory has got a stranger's files of those names
 * since: nobody's file is lost, and the log opens. */
static void test_strangers_that_meet(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, MADE, LIVE);
    put_note(world, LIVE, LIVE, MK_SWAP_READY);
    store_text(at(world, AWAY, "diary"), "yesterday");
    store_text(at(world, LIVE, "diary"), "today");
    assert_int_equal(mkdir(at(world, AWAY, "box"), 0700), 0);
    store_text(at(world, AWAY, "box/old"), "apple");
    assert_int_equal(mkdir(at(world, LIVE, "box"), 0700), 0);
    store_text(at(world, LIVE, "box/new"), "pear");
    open_log(world);
    assert_contents(world, NEW);
    assert_true(holds(world, "today"));
    assert_true(holds(world, "yesterday"));
    assert_true(holds(world, "apple"));
    assert_true(holds(world, "pear"));
}

/* old, new (noted): between the renames. Also without the new tree. */
static void test_between_two_renames(void **state)
{
    log_world *world = *state;

    make_trees(world);
    put_note(world, MADE, LIVE, MK_SWAP_READY);
    look_and_open(world, OLD);
    close_log(world);
    move_tree(world, LIVE, AWAY);
    look(world, OLD "3:c=1 ");
    world->options.create = false;
    open_log(world);
    assert_contents(world, OLD "3:c=1 ");
    assert_alone(world);
}

/* live (noted): all but done. */
static void test_a_note_left(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, AWAY));
    move_tree(world, MADE, LIVE);
    put_note(world, LIVE, LIVE, MK_SWAP_READY);
    look_and_open(world, NEW);
}

/* new (noted), nothing else: no proof. Nobody opens it, nothing is changed. */
static void test_no_proof(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, AWAY));
    put_note(world, MADE, LIVE, MK_SWAP_READY);
    keep(world, files(world));
    for (int i = 0; i < 4; i++) {
        world->options.read_only = (i & 1) != 0;
        world->options.create = (i & 2) != 0;
        assert_int_equal(try_open(world), MK_SWAP_AMBIGUOUS);
        assert_string_equal(world->err.path, world->where);
        assert_int_equal(world->err.found_count, 3);
        assert_string_equal(world->err.found[1].path,
                            path_of(world->disk, MADE));
        assert_string_equal(world->err.found[1].what, "a log");
        assert_string_equal(world->err.found[1].note, "ready");
        assert_string_equal(files(world), world->kept);
    }
}

/* live (noted as not complete): however sound it looks, nobody opens it, with
 * an old tree beside it or alone. */
static void test_an_incomplete_tree_in_the_place(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, MADE, LIVE);
    put_note(world, LIVE, LIVE, MK_SWAP_BUILDING);
    for (int i = 0; i < 4; i++) {
        if (i == 2) remove_all(path_of(world->disk, AWAY));
        keep(world, files(world));
        world->options.read_only = (i & 1) != 0;
        assert_int_equal(try_open(world), MK_SWAP_AMBIGUOUS);
        assert_string_equal(world->err.found[0].what, "incomplete");
        assert_string_equal(world->err.found[0].note, "building");
        assert_string_equal(files(world), world->kept);
    }
}

/* ---- What is not ours ---- */

/* Without proof that a tree is a swap's and superseded, it stays as it is. */
static void assert_left_alone(log_world *world, const char *tree)
{
    mk_cleanup_result result;

    look(world, OLD);
    world->kept[0] = '\0';
    tell_names(world->kept, path_of(world->disk, tree));
    open_log(world);
    assert_contents(world, OLD);
    world->told[0] = '\0';
    tell_names(world->told, path_of(world->disk, tree));
    assert_string_equal(world->told, world->kept);
    if (strcmp(tree, MADE) == 0) {
        assert_int_equal(mk_log_compact(world->log, NULL, &result, &world->err),
                         MK_SWAP_AMBIGUOUS);
        mk_cleanup_result_deinit(&result);
        assert_string_equal(world->err.path, path_of(world->disk, tree));
        world->told[0] = '\0';
        tell_names(world->told, path_of(world->disk, tree));
        assert_string_equal(world->told, world->kept);
    }
    append(world, "c=1");
    assert_contents(world, OLD "3:c=1 ");
}

/* A new tree without a note. */
static void test_a_tree_without_note_stays(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, AWAY, LIVE);
    assert_left_alone(world, MADE);
}

/* A note for another log, or a damaged one, is none. */
static void test_a_note_for_another_is_none(void **state)
{
    log_world *world = *state;

    make_trees(world);
    move_tree(world, AWAY, LIVE);
    put_note(world, MADE, "t-1", MK_SWAP_READY);
    assert_left_alone(world, MADE);
    close_log(world);
    put_note(world, MADE, LIVE, MK_SWAP_READY);
    damage(at(world, MADE, MK_NAME_SWAP), 30);
    open_log(world);
    assert_true(exists(path_of(world->disk, MADE)));
}

/* An old tree beside a live one that has no note. */
static void test_an_old_tree_without_note_stays(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, MADE));
    link_tree(world, AWAY, LIVE);
    assert_left_alone(world, AWAY);
}

/* ... or whose note is of another log. */
static void test_an_old_tree_beside_a_strange_note_stays(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, MADE));
    link_tree(world, AWAY, LIVE);
    put_note(world, LIVE, "t-1", MK_SWAP_READY);
    assert_left_alone(world, AWAY);
}

/* Compacting is refused where something stands in its way, which is told. */
static void assert_in_the_way(log_world *world, const char *tree)
{
    mk_cleanup_result result;

    assert_int_equal(mk_log_compact(world->log, NULL, &result, &world->err),
                     MK_SWAP_AMBIGUOUS);
    mk_cleanup_result_deinit(&result);
    assert_string_equal(world->err.path, path_of(world->disk, tree));
    assert_int_equal(world->err.found_count, 1);
    assert_string_equal(world->err.found[0].what, "not a directory");
    assert_true(exists(path_of(world->disk, tree)));
    assert_contents(world, OLD);
}

/* Files of those names are not directories; they stay, and do no harm. */
static void test_files_of_those_names_stay(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, MADE));
    move_tree(world, AWAY, LIVE);
    store_text(path_of(world->disk, MADE), "a file");
    store_text(path_of(world->disk, AWAY), "a file");
    look(world, OLD);
    open_log(world);
    assert_contents(world, OLD);
    assert_in_the_way(world, MADE);
    unlink(path_of(world->disk, MADE));
    world->wrap.no_exchange = true;
    assert_in_the_way(world, AWAY);
}

/* A tree that is a stranger's does not keep a new log from being made. */
static void test_a_stranger_beside_a_missing_log(void **state)
{
    log_world *world = *state;

    make_trees(world);
    remove_all(path_of(world->disk, AWAY));
    world->options.read_only = true;
    assert_int_equal(try_open(world), MK_NOT_FOUND);
    world->options.read_only = false;
    open_log(world);
    assert_contents(world, "");
    assert_true(exists(path_of(world->disk, MADE)));
}

/* ---- In company ---- */

/* Whoever holds the lock of the old tree is still at work: nobody else gives it
 * its name back. A reader may look. */
static void test_a_swap_in_progress_is_locked(void **state)
{
    log_world *world = *state;
    mk_file *lock;

    make_trees(world);
    put_note(world, MADE, LIVE, MK_SWAP_READY);
    assert_ok(world,
              mk_vfs_lock(world->wrap.inner, at(world, AWAY, MK_NAME_LOCK),
                          "me", &lock, &world->err));
    keep(world, files(world));
    assert_int_equal(try_open(world), MK_LOCKED);
    assert_non_null(strstr(world->err.message, "me"));
    assert_string_equal(files(world), world->kept);
    look(world, OLD);
    assert_int_equal(mk_file_close(lock, NULL), MK_OK);
    open_log(world);
    assert_contents(world, OLD);
    assert_alone(world);
}

/* A name that is too long for two more words is cut, and works all the same. */
static void test_a_long_name_has_siblings(void **state)
{
    log_world *world = *state;
    mk_cleanup_result result;
    char name[256];

    memset(name, 'n', 253);
    memcpy(name + 253, "-0", 3);
    assert_true(strlen(world->disk->root) < 40);
    snprintf(world->where, sizeof world->where, "%.40s/%.255s",
             world->disk->root, name);
    open_log(world);
    fill(world, "a=1 a=2 | b=1");
    assert_ok(world, mk_log_compact(world->log, NULL, &result, &world->err));
    mk_cleanup_result_deinit(&result);
    reopen(world);
    assert_contents(world, NEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_swap_not_done),
        log_test(test_a_swap_just_begun),
        log_test(test_an_exchange_not_tidied),
        log_test(test_renames_not_tidied),
        log_test(test_a_half_removed_tree),
        log_test(test_strangers_that_meet),
        log_test(test_between_two_renames),
        log_test(test_a_note_left),
        log_test(test_no_proof),
        log_test(test_an_incomplete_tree_in_the_place),
        log_test(test_a_tree_without_note_stays),
        log_test(test_a_note_for_another_is_none),
        log_test(test_an_old_tree_without_note_stays),
        log_test(test_an_old_tree_beside_a_strange_note_stays),
        log_test(test_files_of_those_names_stay),
        log_test(test_a_stranger_beside_a_missing_log),
        log_test(test_a_swap_in_progress_is_locked),
        log_test(test_a_long_name_has_siblings),
    };

    return cmocka_run_group_tests_name("swap_leftovers", tests, NULL, NULL);
}
