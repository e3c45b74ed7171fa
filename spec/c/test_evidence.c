/* What of the state file is believed, and what is missed because of it. */
#define _GNU_SOURCE
#include "support/made_batches.h"

static const char *active_path(log_world *world, int64_t base_offset)
{
    return segment_file(world, base_offset, ".log");
}

/* Flip the lowest bit of the byte at `position`. */
static void flip_last_bit(const char *path, int64_t position)
{
    FILE *file = fopen(path, "r+b");
    int byte;

    assert_non_null(file);
    assert_int_equal(fseek(file, (long)position, SEEK_SET), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, (long)position, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

static void set_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static mk_status fetch_from(log_world *world, int64_t offset)
{
    mk_cursor_options options;
    mk_cursor *cursor = NULL;
    mk_status status;

    mk_cursor_options_default(&options);
    options.from = offset;
    assert_ok(world,
              mk_cursor_open(world->log, &options, &cursor, &world->err));
    status = tell_cursor(cursor, world->told, &world->err);
    mk_cursor_close(cursor);
    return status;
}

/* A closed segment below the recovery point that is shorter than it was is
 * damaged: who comes there is told, what stands before and after is there. */
static void test_a_shortened_closed_segment(void **state)
{
    log_world *world = *state;
    int64_t size;

    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    close_log(world);
    size = file_size(active_path(world, 0));
    for (int64_t cut = 1; cut <= size; cut++) {
        for (int i = 0; i < 2; i++) {
            set_size(active_path(world, 0), size - cut);
            world->options.read_only = i == 0;
            open_log(world);
            assert_bounds(world, 0, 3);
            assert_int_equal(fetch_from(world, 0), MK_CORRUPT_SEGMENT);
            assert_string_equal(world->err.path, active_path(world, 0));
            assert_string_equal(world->told, cut <= size / 2 ? "0:a=1 " : "");
            assert_int_equal(fetch_from(world, 2), MK_END);
            assert_string_equal(world->told, "2:c=3 ");
            close_log(world);
            assert_int_equal(file_size(active_path(world, 0)), size - cut);
        }
    }
}

/* Segments that the state knows, or that must be there since batches follow
 * each other without gaps, are missed; but not what a compaction took. */
static void test_a_missing_segment(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2 | c=3 | d=4 | e=5");
    close_log(world);
    for (int64_t base = 0; base < 4; base++) {
        char path[400], aside[420];

        if (base == 1) continue;
        snprintf(path, sizeof path, "%s", active_path(world, base));
        snprintf(aside, sizeof aside, "%s.aside", path);
        assert_int_equal(rename(path, aside), 0);
        unlink(segment_file(world, base, ".index"));
        unlink(segment_file(world, base, ".timeindex"));
        strcpy(world->kept, files(world));
        assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
        assert_int_equal(world->err.offset, base);
        assert_string_equal(files(world), world->kept);
        world->options.read_only = true;
        open_log(world);
        assert_contents(world, base == 0   ? ""
                               : base == 2 ? "0:a=1 1:b=2 "
                                           : "0:a=1 1:b=2 2:c=3 ");
        close_log(world);
        world->options.read_only = false;
        assert_int_equal(rename(aside, path), 0);
    }
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ");
}

/* What is lying about beside a missing segment excuses nothing, and stays: it
 * may be the only copy. */
static void test_a_missing_segment_and_leftovers(void **state)
{
    static const struct {
        int64_t base;
        const char *suffix;
    } strays[] = {{0, ".timeindex.swap"}, {4, ".log.cleaned"},
                  {4, ".index.deleted"},  {4, ".log.deleted"},
                  {2, ".log.cleaned"},    {2, ".log.deleted"},
                  {2, ".index.deleted"}};
    log_world *world = *state;

    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++) {
        char path[400], aside[420];

        remove_all(world->where);
        open_log(world);
        fill(world, "a=1 b=2 | c=3 | d=4 | e=5");
        close_log(world);
        snprintf(path, sizeof path, "%s", active_path(world, 2));
        snprintf(aside, sizeof aside, "%s",
                 segment_file(world, strays[i].base, strays[i].suffix));
        if (strcmp(strays[i].suffix, ".index.deleted") == 0 ||
            strays[i].base != 2) {
            set_text(aside, "");
            snprintf(aside, sizeof aside, "%s.aside", path);
        }
        assert_int_equal(rename(path, aside), 0);
        strcpy(world->kept, files(world));
        assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
        assert_int_equal(world->err.offset, 2);
        assert_string_equal(files(world), world->kept);
        world->options.read_only = true;
        open_log(world);
        assert_contents(world, "0:a=1 1:b=2 ");
        close_log(world);
        world->options.read_only = false;
        assert_int_equal(rename(aside, path), 0);
        open_log(world);
        assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ");
        close_log(world);
    }
}

/* What was the end of the log, and is only a leftover now, does not go. */
static void test_the_last_segment_as_a_leftover(void **state)
{
    log_world *world = *state;
    char path[400], aside[420];

    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    close_log(world);
    snprintf(path, sizeof path, "%s", active_path(world, 2));
    snprintf(aside, sizeof aside, "%s.deleted", path);
    assert_int_equal(rename(path, aside), 0);
    strcpy(world->kept, files(world));
    assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
    assert_non_null(strstr(world->err.message, aside));
    assert_string_equal(files(world), world->kept);
    assert_int_equal(rename(aside, path), 0);
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
}

/* A broker may have cleaned: then it is only told. */
static void test_a_segment_that_a_broker_removed(void **state)
{
    log_world *world = *state;
    char path[400];

    open_log(world);
    fill(world, "a=1 b=2 | c=3 | d=4");
    close_log(world);
    assert_int_equal(unlink(active_path(world, 2)), 0);
    snprintf(path, sizeof path, "%s/partition.metadata", world->where);
    set_text(path, "version: 0\n");
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 3:d=4 ");
    assert_int_equal(stats_of(world).lost_from_offset, 2);
    assert_int_equal(stats_of(world).lost_to_offset, 3);
    reopen(world);
    assert_int_equal(stats_of(world).lost_from_offset, -1);
    assert_contents(world, "0:a=1 1:b=2 3:d=4 ");
}

/* The last batch of all looks torn when it is damaged; that it had been on
 * stable storage is told. More than that does not look torn. */
static void test_the_last_batches_of_all(void **state)
{
    log_world *world = *state;
    int64_t size;

    open_log(world);
    fill(world, "a=1 b=2 c=3");
    close_log(world);
    size = file_size(active_path(world, 0));
    flip_last_bit(active_path(world, 0), size - 1);
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 ");
    assert_int_equal(stats_of(world).lost_from_offset, 2);
    assert_int_equal(stats_of(world).lost_to_offset, 3);
    append(world, "c=4");
    reopen(world);
    assert_int_equal(stats_of(world).lost_from_offset, -1);
    close_log(world);
    flip_last_bit(active_path(world, 0), size - 1);
    flip_last_bit(active_path(world, 0), size / 3 * 2 - 1);
    open_log(world);
    assert_bounds(world, 0, 3);
    assert_int_equal(fetch_from(world, 0), MK_CORRUPT_SEGMENT);
    assert_string_equal(world->told, "0:a=1 ");
    assert_int_equal(append(world, "d=5"), 3);
    assert_int_equal(fetch_from(world, 3), MK_END);
    reopen(world);
    assert_int_equal(fetch_from(world, 3), MK_END);
    assert_string_equal(world->told, "3:d=5 ");
}

/* A closed segment that grew was rewritten by somebody: all of it is read, not
 * only what lies behind the bytes that were known. */
static void test_a_closed_segment_that_grew(void **state)
{
    log_world *world = *state;
    size_t size;
    uint8_t *bytes;

    open_log(world);
    fill(world, "a=10000 b=2000 | c=3");
    close_log(world);
    bytes = load(active_path(world, 0), &size);
    remove_all(world->where);
    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    close_log(world);
    assert_true(file_size(active_path(world, 0)) < (int64_t)size);
    store(active_path(world, 0), bytes, size);
    free(bytes);
    open_log(world);
    assert_contents(world, "0:a=10000 1:b=2000 2:c=3 ");
    assert_int_equal(stats_of(world).recovered_bytes, size);
}

/* What the state tells of a closed segment is not believed beyond the recovery
 * point, be it by one record: the segment is read, and its damage found. */
static void test_a_closed_segment_that_was_not_flushed(void **state)
{
    static const char *const unflushed[] = {"c=3", "c=3 d=4"};
    log_world *world = *state;

    for (size_t i = 0; i < 2; i++) {
        remove_all(world->where);
        world->options.read_only = false;
        open_log(world);
        fill(world, "a=1 b=2");
        flush(world);
        roll(world);
        fill(world, unflushed[i]);
        roll(world);
        /* That writes the state, and flushes nothing. */
        assert_ok(world, mk_log_delete_records(world->log, 1, &world->err));
        assert_int_equal(info_of(world).recovery_point, 2);
        abandon_log(world);
        flip_last_bit(active_path(world, 2),
                      file_size(active_path(world, 2)) - 1);
        assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
        assert_string_equal(world->err.path, active_path(world, 2));
        world->options.read_only = true;
        open_log(world);
        assert_contents(world, i == 0 ? "1:b=2 " : "1:b=2 2:c=3 ");
        close_log(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_shortened_closed_segment),
        log_test(test_a_missing_segment),
        log_test(test_a_missing_segment_and_leftovers),
        log_test(test_the_last_segment_as_a_leftover),
        log_test(test_a_segment_that_a_broker_removed),
        log_test(test_the_last_batches_of_all),
        log_test(test_a_closed_segment_that_grew),
        log_test(test_a_closed_segment_that_was_not_flushed),
    };

    return cmocka_run_group_tests_name("evidence", tests, NULL, NULL);
}
