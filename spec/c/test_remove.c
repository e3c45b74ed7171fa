/* Taking records away: at the start, at the end, by segment, by retention. */
#define _GNU_SOURCE
#include "support/log_world.h"

#define ALL "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 5:f=6 6:g=7 "

static void make_log(log_world *world)
{
    open_log(world);
    fill(world, "a=1@10 b=2@20 | c=3@40,d=4@30 | e=5@50 f=6@60,g=7@5");
}

static mk_status delete_to(log_world *world, int64_t offset)
{
    return mk_log_delete_records(world->log, offset, &world->err);
}

static mk_status truncate_at(log_world *world, int64_t offset)
{
    return mk_log_truncate_to(world->log, offset, &world->err);
}

/* Tell the files of segments: "0 2 4 ". */
static const char *logs_on_disk(log_world *world)
{
    world->told[0] = '\0';
    for (int64_t base = 0; base < 20; base++) {
        bool log = exists(segment_file(world, base, ".log"));
        bool index = exists(segment_file(world, base, ".index")) ||
                     exists(segment_file(world, base, ".timeindex"));

        if (index && !log) fail_msg("%lld is half there", (long long)base);
        if (log) tell(world->told, "%lld ", (long long)base);
    }
    return world->told;
}

#define assert_on_disk(world, expected) \
    assert_string_equal(logs_on_disk(world), (expected))

/* ---- The start ---- */

/* Whole segments go at once, the rest of one is hidden; at or below the start
 * nothing happens, beyond the end it is an error. */
static void test_records_are_deleted(void **state)
{
    log_world *world = *state;

    make_log(world);
    assert_ok(world, delete_to(world, 1));
    assert_contents(world, "1:b=2 2:c=3 3:d=4 4:e=5 5:f=6 6:g=7 ");
    assert_on_disk(world, "0 2 4 ");
    keep(world, files(world));
    assert_ok(world, delete_to(world, 1));
    assert_ok(world, delete_to(world, 0));
    assert_ok(world, delete_to(world, -5));
    assert_string_equal(files(world), world->kept);
    assert_int_equal(delete_to(world, 8), MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(world->err.requested, 8);
    assert_int_equal(world->err.log_start_offset, 1);
    assert_int_equal(world->err.log_end_offset, 7);
    assert_ok(world, delete_to(world, 4));
    assert_on_disk(world, "4 ");
    assert_ok(world, delete_to(world, 7));
    assert_on_disk(world, "4 ");
    assert_bounds(world, 7, 7);
    assert_contents(world, "");
    assert_int_equal(append(world, "h=8"), 7);
    reopen(world);
    assert_contents(world, "7:h=8 ");
}

/* What is said in the state file goes before what is done: a death in between
 * hides no more than was asked for. */
static void test_the_state_goes_first(void **state)
{
    log_world *world = *state;
    size_t renamed = 0, unlinked = 0, synced = 0;

    make_log(world);
    wrap_record(&world->wrap);
    assert_ok(world, delete_to(world, 3));
    for (size_t i = 0; i < world->wrap.call_count; i++) {
        const wrap_call *call = &world->wrap.calls[i];

        if (call->kind == WRAP_rename) renamed = i + 1;
        if (call->kind == WRAP_fsync_dir) synced = i + 1;
        if (call->kind == WRAP_unlink && unlinked == 0) unlinked = i + 1;
    }
    assert_true(renamed > 0);
    assert_true(synced > renamed);
    assert_true(unlinked > synced);
}

/* A prefix of closed segments goes; anything else is refused. */
static void test_closed_segments_are_deleted(void **state)
{
    static const struct {
        int64_t bases[3];
        size_t count;
    } bad[] = {{{2}, 1}, {{4}, 1},    {{0, 2, 4}, 3}, {{0, 4}, 2},
               {{1}, 1}, {{0, 3}, 2}, {{-1}, 1}};
    log_world *world = *state;
    const int64_t both[] = {2, 0};

    make_log(world);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mk_log_delete_closed_segments(world->log, bad[i].bases,
                                                       bad[i].count,
                                                       &world->err),
                         MK_INVALID_ARGUMENT);
    }
    assert_ok(world,
              mk_log_delete_closed_segments(world->log, both, 0, &world->err));
    assert_contents(world, ALL);
    assert_ok(world,
              mk_log_delete_closed_segments(world->log, both, 2, &world->err));
    assert_bounds(world, 4, 7);
    assert_on_disk(world, "4 ");
    assert_int_equal(
        mk_log_delete_closed_segments(world->log, both, 1, &world->err),
        MK_INVALID_ARGUMENT);
}

/* A set that names a segment twice is no set. */
static void test_a_segment_named_twice(void **state)
{
    log_world *world = *state;
    const int64_t twice[] = {0, 0};
    const int64_t hidden[] = {0, 0, 2};

    make_log(world);
    assert_int_equal(
        mk_log_delete_closed_segments(world->log, twice, 2, &world->err),
        MK_OK);
    assert_bounds(world, 2, 7);
    assert_int_equal(
        mk_log_delete_closed_segments(world->log, hidden, 3, &world->err),
        MK_INVALID_ARGUMENT);
}

/* The log start does not go back when a segment before it is deleted. */
static void test_the_start_stays_in_a_segment(void **state)
{
    log_world *world = *state;
    const int64_t first = 0;

    make_log(world);
    assert_ok(world, delete_to(world, 3));
    assert_bounds(world, 3, 7);
    assert_on_disk(world, "2 4 ");
    reopen_after_death(world);
    assert_bounds(world, 3, 7);
    assert_int_equal(
        mk_log_delete_closed_segments(world->log, &first, 1, &world->err),
        MK_INVALID_ARGUMENT);
}

/* Nor where a checkpoint of Kafka's, beside the log, has moved it further than
 * the segments tell, and a full disk kept the opening from removing those. */
static void test_the_start_is_kafkas(void **state)
{
    log_world *world = *state;
    const int64_t first = 0;
    wrap_fault *fault;

    make_log(world);
    close_log(world);
    store_text(path_of(world->disk, "log-start-offset-checkpoint"),
               "0\n1\nt 0 5\n");
    fault = wrap_fail(&world->wrap, WRAP_write, 1, ENOSPC);
    fault->always = true;
    fault->suffix = "state.tmp";
    open_log(world);
    assert_true(fault->hit);
    wrap_heal(&world->wrap);
    assert_bounds(world, 5, 7);
    assert_on_disk(world, "0 2 4 ");
    assert_ok(world, mk_log_delete_closed_segments(world->log, &first, 1,
                                                   &world->err));
    assert_bounds(world, 5, 7);
    assert_on_disk(world, "2 4 ");
}

/* ---- Retention ---- */

static mk_status retain(log_world *world, int64_t ms, int64_t bytes,
                        const char *deleted)
{
    mk_retention_options options = {
        .by_time = ms != INT64_MIN,
        .retention_ms = ms,
        .by_size = bytes != INT64_MIN,
        .retention_bytes = bytes,
    };
    mk_cleanup_result result;
    char told[64] = "";
    mk_status status =
        mk_log_retain(world->log, &options, &result, &world->err);

    for (size_t i = 0; i < result.deleted_count; i++) {
        snprintf(told + strlen(told), sizeof told - strlen(told), "%lld ",
                 (long long)result.deleted[i]);
    }
    assert_string_equal(told, deleted);
    mk_cleanup_result_deinit(&result);
    return status;
}

/* By time: strictly older than the boundary, up to the first that is not,
 * never the active one. */
static void test_retention_by_time(void **state)
{
    log_world *world = *state;

    make_log(world);
    world->now_ms = 120;
    assert_ok(world, retain(world, 100, INT64_MIN, ""));
    world->now_ms = 121;
    assert_ok(world, retain(world, 100, INT64_MIN, "0 "));
    assert_on_disk(world, "2 4 ");
    world->now_ms = 100000;
    assert_ok(world, retain(world, 0, INT64_MIN, "2 "));
    assert_contents(world, "4:e=5 5:f=6 6:g=7 ");
    assert_ok(world, retain(world, 0, INT64_MIN, ""));
    assert_int_equal(retain(world, -1, INT64_MIN, ""), MK_INVALID_ARGUMENT);
}

/* By size: until all files of all segments together fit. */
static void test_retention_by_size(void **state)
{
    log_world *world = *state;
    int64_t size;

    make_log(world);
    size = info_of(world).size_bytes;
    assert_ok(world, retain(world, INT64_MIN, size, ""));
    assert_ok(world, retain(world, INT64_MIN, size - 1, "0 "));
    assert_ok(world, retain(world, INT64_MIN, 1, "2 "));
    assert_contents(world, "4:e=5 5:f=6 6:g=7 ");
    assert_int_equal(retain(world, INT64_MIN, 0, ""), MK_INVALID_ARGUMENT);
    assert_int_equal(retain(world, INT64_MIN, -1, ""), MK_INVALID_ARGUMENT);
}

/* A segment without times is older than all. */
static void test_retention_without_times(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a@-1 | b@5 | c@-1 | d@9");
    world->now_ms = 5;
    assert_ok(world, retain(world, 0, INT64_MIN, "0 "));
    world->now_ms = 6;
    assert_ok(world, retain(world, 0, INT64_MIN, "1 2 "));
    /* The boundary lies before all times. */
    world->now_ms = INT64_MIN + 5;
    roll(world);
    assert_ok(world, retain(world, INT64_MAX, INT64_MIN, ""));
}

/* ---- The end ---- */

/* Whole batches go, the end is what was asked for, and the next record has that
 * offset. */
static void test_the_end_is_cut(void **state)
{
    static const struct {
        int64_t to;
        const char *left, *segments, *disk;
    } cuts[] = {
        {7, ALL, "0..2 2..4 4..7 ", "0 2 4 "},
        {6, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ", "0..2 2..4 4..5 ", "0 2 4 "},
        {5, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ", "0..2 2..4 4..5 ", "0 2 4 "},
        {4, "0:a=1 1:b=2 2:c=3 3:d=4 ", "0..2 2..4 4..4 ", "0 2 4 "},
        {3, "0:a=1 1:b=2 ", "0..2 2..2 ", "0 2 "},
        {2, "0:a=1 1:b=2 ", "0..2 2..2 ", "0 2 "},
        {1, "0:a=1 ", "0..1 ", "0 "},
        {0, "", "0..0 ", "0 "},
    };
    log_world *world = *state;

    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        for (int died = 0; died < 2; died++) {
            char longer[128];

            remove_all(world->where);
            make_log(world);
            assert_ok(world, truncate_at(world, cuts[i].to));
            if (died) reopen_after_death(world);
            assert_bounds(world, 0, cuts[i].to);
            assert_contents(world, cuts[i].left);
            assert_segments(world, cuts[i].segments);
            assert_on_disk(world, cuts[i].disk);
            assert_int_equal(append(world, "z=9"), cuts[i].to);
            snprintf(longer, sizeof longer, "%s%lld:z=9 ", cuts[i].left,
                     (long long)cuts[i].to);
            reopen(world);
            assert_contents(world, longer);
            close_log(world);
        }
    }
}

/* Below the log start the log becomes empty there; at or above the end nothing
 * happens; a negative offset is refused. */
static void test_cuts_at_the_edges(void **state)
{
    log_world *world = *state;

    make_log(world);
    keep(world, files(world));
    assert_ok(world, truncate_at(world, 7));
    assert_ok(world, truncate_at(world, INT64_MAX));
    assert_int_equal(truncate_at(world, -1), MK_INVALID_ARGUMENT);
    assert_string_equal(files(world), world->kept);
    assert_ok(world, delete_to(world, 3));
    assert_ok(world, truncate_at(world, 5));
    assert_bounds(world, 3, 5);
    assert_ok(world, truncate_at(world, 1));
    assert_bounds(world, 1, 1);
    assert_on_disk(world, "1 ");
    reopen_after_death(world);
    assert_bounds(world, 1, 1);
    assert_int_equal(append(world, "z=9"), 1);
    assert_ok(world, delete_to(world, 2));
    assert_ok(world, truncate_at(world, 2));
    assert_bounds(world, 2, 2);
    assert_int_equal(append(world, "y=8"), 2);
}

/* A truncated log reads as if nothing had been there: times, sizes, indexes. */
static void test_facts_after_a_cut(void **state)
{
    log_world *world = *state;
    mk_segment_info infos[3];
    size_t count;

    world->options.config.index_interval_bytes = 0;
    make_log(world);
    flush(world);
    assert_ok(world, truncate_at(world, 5));
    assert_ok(world,
              mk_log_segments(world->log, infos, 3, &count, &world->err));
    assert_int_equal(count, 3);
    assert_int_equal(infos[2].max_timestamp_ms, 50);
    assert_int_equal(infos[2].log_bytes,
                     file_size(segment_file(world, 4, ".log")));
    assert_int_equal(infos[1].max_timestamp_ms, 40);
    assert_true(info_of(world).recovery_point <= 5);
    append(world, "h=8@1");
    flush(world);
    assert_ok(world,
              mk_log_segments(world->log, infos, 3, &count, &world->err));
    assert_int_equal(file_size(segment_file(world, 4, ".index")) +
                         file_size(segment_file(world, 4, ".timeindex")),
                     infos[2].index_bytes);
}

/* Cut, with nothing done from call `number` on, and die. Is there such a call?
 */
static bool cut_and_die(log_world *world, int64_t to, long number)
{
    wrap_fault *fault;
    bool hit;

    remove_all(world->where);
    make_log(world);
    flush(world);
    fault = wrap_fail(&world->wrap, WRAP_ANY, number, EIO);
    fault->always = true;
    (void)truncate_at(world, to);
    hit = fault->hit;
    wrap_heal(&world->wrap);
    abandon_log(world);
    return hit;
}

/* A cut was made, or was not: whoever opens the log after a death in the midst
 * of it brings it to its end, once it was said that it is made. */
static void test_a_cut_is_brought_to_its_end(void **state)
{
    static const struct {
        int64_t to;
        const char *left, *segments;
    } cuts[] = {
        {6, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ", "0..2 2..4 4..5 "},
        {4, "0:a=1 1:b=2 2:c=3 3:d=4 ", "0..2 2..4 4..4 "},
        {2, "0:a=1 1:b=2 ", "0..2 2..2 "},
        {1, "0:a=1 ", "0..1 "},
        {0, "", "0..0 "},
    };
    log_world *world = *state;

    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        bool begun = false;

        for (long number = 1; cut_and_die(world, cuts[i].to, number);
             number++) {
            open_log(world);
            begun = begun || info_of(world).log_end_offset == cuts[i].to;
            assert_bounds(world, 0, begun ? cuts[i].to : 7);
            assert_contents(world, begun ? cuts[i].left : ALL);
            assert_segments(world,
                            begun ? cuts[i].segments : "0..2 2..4 4..7 ");
            close_log(world);
        }
        assert_true(begun);
    }
}

/* What was flushed and then cut off is not taken for what is appended in its
 * place: that is synced anew. */
static void test_flushing_after_a_cut(void **state)
{
    log_world *world = *state;

    wrap_record(&world->wrap);
    for (int64_t to = 6; to >= 0; to--) {
        size_t before, syncs = 0;

        remove_all(world->where);
        make_log(world);
        flush(world);
        assert_int_equal(info_of(world).recovery_point, 7);
        assert_ok(world, truncate_at(world, to));
        assert_true(info_of(world).recovery_point <= to);
        while (info_of(world).log_end_offset < 7) {
            append(world, "z=9");
        }
        before = world->wrap.call_count;
        flush(world);
        for (size_t i = before; i < world->wrap.call_count; i++) {
            syncs += world->wrap.calls[i].kind == WRAP_fdatasync;
        }
        assert_true(syncs > 0);
        assert_int_equal(info_of(world).recovery_point, 7);
        close_log(world);
    }
}

/* Damage before the cut refuses it, and the log stays as it was. */
static void test_damage_before_a_cut(void **state)
{
    log_world *world = *state;

    make_log(world);
    close_log(world);
    damage(segment_file(world, 0, ".log"), 16);
    open_log(world);
    assert_int_equal(truncate_at(world, 1), MK_CORRUPT_SEGMENT);
    assert_bounds(world, 0, 7);
    assert_on_disk(world, "0 2 4 ");
    reopen_after_death(world);
    assert_bounds(world, 0, 7);
    append(world, "z=9");
}

/* ---- Room ---- */

/* Has a file of the log this inode? */
static bool is_there(log_world *world, unsigned long long inode)
{
    DIR *directory = opendir(world->where);
    const struct dirent *entry;
    bool found = false;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        found |= entry->d_ino == inode;
    }
    closedir(directory);
    return found;
}

/* Count the open descriptors of files that have no name any more. */
static int count_open(log_world *world)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    int count = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        char target[512] = "";
        struct stat native;

        if (readlinkat(dirfd(directory), entry->d_name, target,
                       sizeof target - 1) <= 0) {
            continue;
        }
        if (strstr(target, world->disk->root) == NULL) continue;
        if (fstat(atoi(entry->d_name), &native) != 0) continue;
        count += native.st_nlink == 0;
    }
    closedir(directory);
    return count;
}

/* ... and the mappings. */
static int count_mapped(log_world *world)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    int count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long long inode = 0;

        if (strstr(line, world->disk->root) == NULL) continue;
        if (sscanf(line, "%*s %*s %*s %*s %llu", &inode) != 1) continue;
        count += !is_there(world, inode);
    }
    fclose(maps);
    return count;
}

static void assert_no_room_taken(log_world *world, int idle)
{
    assert_true(count_open(world) <= idle);
    assert_true(count_mapped(world) <= idle);
}

/* Removed files take no room once nobody reads them: at most the segment that
 * an idle cursor stands on is held. */
static void test_removed_files_take_no_room(void **state)
{
    log_world *world = *state;

    for (int idle = 0; idle < 2; idle++) {
        mk_cursor *cursor = NULL;

        remove_all(world->where);
        world->options.mapped = MK_MAPPED_ALWAYS;
        open_log(world);
        for (int i = 0; i < 20; i++) {
            mk_cleanup_result result;
            mk_record_view view;

            fill(world, "a=1@1 b=1@1 | a=2@1 b=2@1 | a=3@1");
            contents(world);
            if (i == 3 && idle) {
                assert_ok(world, mk_cursor_open(world->log, NULL, &cursor,
                                                &world->err));
                assert_ok(world, mk_cursor_next(cursor, &view, &world->err));
            }
            assert_ok(world,
                      mk_log_compact(world->log, NULL, &result, &world->err));
            mk_cleanup_result_deinit(&result);
            contents(world);
            assert_no_room_taken(world, idle);
            roll(world);
            assert_ok(world,
                      delete_to(world, info_of(world).log_end_offset - 1));
            assert_no_room_taken(world, idle);
        }
        mk_cursor_close(cursor);
        assert_no_room_taken(world, 0);
        close_log(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_records_are_deleted),
        log_test(test_the_state_goes_first),
        log_test(test_closed_segments_are_deleted),
        log_test(test_a_segment_named_twice),
        log_test(test_the_start_stays_in_a_segment),
        log_test(test_the_start_is_kafkas),
        log_test(test_retention_by_time),
        log_test(test_retention_by_size),
        log_test(test_retention_without_times),
        log_test(test_the_end_is_cut),
        log_test(test_cuts_at_the_edges),
        log_test(test_facts_after_a_cut),
        log_test(test_a_cut_is_brought_to_its_end),
        log_test(test_flushing_after_a_cut),
        log_test(test_damage_before_a_cut),
        log_test(test_removed_files_take_no_room),
    };

    return cmocka_run_group_tests_name("remove", tests, NULL, NULL);
}
