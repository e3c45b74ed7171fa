/* What a directory holds in which a swap of segments was cut short: who reads
 * it sees one log, who writes it makes it that log. */
#define _GNU_SOURCE
#include "support/made_batches.h"

#define OLD "0:a=1 1:b=2 2:a=3 3:d=4 4:e=5 5:f=6 "
#define NEW "1:b=2 2:a=3 4:e=5 5:f=6 "

#define SWAP ".log.swap"

/* Three segments: a=1 b=2 a=3 | d=4 e=5 | f=6. */
static void make_log(log_world *world)
{
    world->options.config.index_interval_bytes = 0;
    open_log(world);
    fill(world, "a=1 b=2 a=3 | d=4 e=5 | f=6");
    close_log(world);
}

/* What a rewrite of the first two has, in one segment. */
static void make_output(made_log *out)
{
    make_batch(out, 1, "b=2", 1);
    make_batch(out, 2, "a=3", 2);
    make_batch(out, 4, "e=5", 4);
}

static void put_output(log_world *world, const char *suffix)
{
    made_log output = {.size = 0};

    make_output(&output);
    store(segment_file(world, 0, suffix), output.bytes, output.size);
}

static void remove_file(log_world *world, int64_t base_offset,
                        const char *suffix)
{
    assert_int_equal(unlink(segment_file(world, base_offset, suffix)), 0);
}

/* A reader sees this, and changes nothing. */
static void look(log_world *world, const char *wanted)
{
    keep(world, files(world));
    world->options.read_only = true;
    open_log(world);
    assert_contents(world, wanted);
    assert_bounds(world, 0, 6);
    close_log(world);
    world->options.read_only = false;
    assert_string_equal(files(world), world->kept);
}

static bool has_leftovers(log_world *world)
{
    const char *all = files(world);

    return strstr(all, ".swap:") != NULL || strstr(all, ".cleaned:") != NULL ||
           strstr(all, ".deleted:") != NULL;
}

/* Every offset is found by itself. */
static void assert_found(log_world *world, const char *wanted)
{
    mk_cursor *cursor;

    assert_ok(world, mk_cursor_open(world->log, NULL, &cursor, &world->err));
    for (int64_t i = 5; i >= 0; i--) {
        char name[16];
        mk_record_view view;

        snprintf(name, sizeof name, "%lld:", (long long)i);
        if (strstr(wanted, name) == NULL) continue;
        assert_ok(world, mk_cursor_seek(cursor, i, &world->err));
        assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
        assert_int_equal(view.offset, i);
    }
    mk_cursor_close(cursor);
}

/* A reader and then a writer find this, and nothing else is left. The next
 * opening finds the same and has nothing to do. */
static void look_and_open(log_world *world, const char *wanted)
{
    look(world, wanted);
    open_log(world);
    assert_contents(world, wanted);
    assert_bounds(world, 0, 6);
    assert_found(world, wanted);
    assert_false(has_leftovers(world));
    abandon_log(world);
    keep(world, files(world));
    open_log(world);
    abandon_log(world);
    assert_string_equal(files(world), world->kept);
    open_log(world);
    assert_contents(world, wanted);
    assert_found(world, wanted);
    close_log(world);
    remove_all(world->where);
}

/* Nobody takes this for a log, and nothing of it is touched. */
static void assert_ambiguous(log_world *world)
{
    keep(world, files(world));
    for (int reader = 0; reader < 2; reader++) {
        world->options.read_only = reader == 1;
        assert_int_equal(try_open(world), MK_SWAP_AMBIGUOUS);
        assert_string_equal(world->err.path, world->where);
        assert_string_equal(files(world), world->kept);
    }
    world->options.read_only = false;
}

/* Output that may not be complete goes; what is complete takes the sources'
 * place, however many of them are left. */
static void test_each_step(void **state)
{
    log_world *world = *state;

    make_log(world);
    put_output(world, ".log.cleaned");
    set_size(segment_file(world, 0, ".log.cleaned"), 100);
    look_and_open(world, OLD);

    make_log(world);
    put_output(world, SWAP);
    look_and_open(world, NEW);

    make_log(world);
    put_output(world, SWAP);
    assert_int_equal(rename(segment_file(world, 0, ".log"),
                            segment_file(world, 0, ".log.deleted")),
                     0);
    remove_file(world, 0, ".index");
    look_and_open(world, NEW);

    make_log(world);
    put_output(world, SWAP);
    remove_file(world, 0, ".log");
    remove_file(world, 3, ".log");
    look_and_open(world, NEW);

    make_log(world);
    put_output(world, ".log");
    remove_file(world, 3, ".log");
    store_text(segment_file(world, 0, ".index.swap"), "");
    look_and_open(world, NEW);
}

/* Sources are not given up for a log that is damaged anywhere, or shorter than
 * its indexes. (No checksum covers the leader epoch; nor the offset of the last
 * batch, but what it becomes here can't be.) Where
 * they are gone already, nothing is touched. */
static void test_an_unsound_output(void **state)
{
    log_world *world = *state;
    made_log output = {.size = 0};

    make_output(&output);
    for (size_t i = 0; i <= output.size; i += 7) {
        bool whole = i == output.size;

        if (i % (output.size / 3) == 14) continue; /* The leader epoch. */
        for (int gone = 0; gone < 2; gone++) {
            make_log(world);
            put_output(world, SWAP);
            if (whole) {
                /* Cut between two batches; the index knows of more. */
                set_size(segment_file(world, 0, SWAP),
                         (int64_t)output.size / 3);
                store(segment_file(world, 0, ".timeindex.swap"),
                      "\0\0\0\0\0\0\0\x7\0\0\0\4", 12);
            } else {
                damage(segment_file(world, 0, SWAP), i);
            }
            if (gone == 1) {
                remove_file(world, 0, ".log");
            }
            if (gone == 1 || i == output.size / 3 * 2 + 7) {
                assert_ambiguous(world);
                remove_all(world->where);
            } else {
                look_and_open(world, OLD);
            }
        }
    }
}

/* A trace of a broker that had the directory. */
static void put_broker(log_world *world)
{
    char path[400];
    FILE *file;

    snprintf(path, sizeof path, "%s/partition.metadata", world->where);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* What the state says of segments that another engine rewrote counts no more,
 * even if the file is as large as before. */
static void test_facts_of_what_was_rewritten(void **state)
{
    log_world *world = *state;
    int64_t size;

    make_log(world);
    size = file_size(segment_file(world, 0, ".log"));
    put_output(world, ".log");
    assert_int_equal(file_size(segment_file(world, 0, ".log")), size);
    remove_file(world, 3, ".log");
    put_broker(world);
    look_and_open(world, NEW);

    make_log(world);
    put_output(world, SWAP);
    look_and_open(world, NEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_each_step),
        log_test(test_an_unsound_output),
        log_test(test_facts_of_what_was_rewritten),
    };

    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
