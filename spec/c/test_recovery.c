/* Which bytes are believed when a log is opened, and what is done about the
 * others. */
#define _GNU_SOURCE
#include "support/made_batches.h"

#define SINGLE_SIZE 70 /* Of a batch of one small record. */

static const char *active_path(log_world *world, int64_t base_offset)
{
    return segment_file(world, base_offset, ".log");
}

/* ---- What need not be read ---- */

/* After a clean end nothing is checked; of the last batch it is seen that it is
 * still there. */
static void test_a_clean_end_is_believed(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2 | c=3 d=4");
    close_log(world);
    wrap_record(&world->wrap);
    open_log(world);
    assert_int_equal(stats_of(world).recovered_bytes, 0);
    assert_int_equal(wrap_count(&world->wrap, WRAP_read, ".log"), 1);
    assert_int_equal(info_of(world).recovery_point, 4);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 ");
}

/* After a death only what came after the last flush is checked, and the next
 * flush makes it stable. */
static void test_what_was_flushed_is_believed(void **state)
{
    log_world *world = *state;
    int64_t flushed, whole;

    world->options.config.flush_messages = 1;
    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    close_log(world);
    world->options.config.flush_messages = INT64_MAX;
    open_log(world);
    flushed = file_size(active_path(world, 2));
    fill(world, "d=4 e=5");
    whole = file_size(active_path(world, 2));
    reopen_after_death(world);
    assert_int_equal(stats_of(world).recovered_bytes, whole - flushed);
    assert_true(info_of(world).recovery_point <= 3);
    assert_contents(world, "0:a=1 1:b=2 2:c=3 3:d=4 4:e=5 ");
    flush(world);
    assert_int_equal(info_of(world).recovery_point, 5);
}

/* Damage below the recovery point is left to the reader, who says where it is;
 * above it, in a closed segment, it keeps the log from being opened. */
static void test_damage_in_a_closed_segment(void **state)
{
    log_world *world = *state;
    int64_t first;

    open_log(world);
    append(world, "a=1");
    first = file_size(active_path(world, 0));
    fill(world, "b=2 | c=3");
    close_log(world);
    damage(active_path(world, 0), (size_t)first + 65);
    open_log(world);
    assert_int_equal(try_tell(world, world->log, world->told),
                     MK_CORRUPT_SEGMENT);
    assert_string_equal(world->told, "0:a=1 ");
    assert_int_equal(world->err.position, first);
    assert_int_equal(world->err.offset, 1);
    assert_string_equal(world->err.path, active_path(world, 0));
    close_log(world);

    unlink(file_of(world, "minikafka.state"));
    keep(world, files(world));
    assert_int_equal(try_open(world), MK_CORRUPT_SEGMENT);
    assert_int_equal(world->err.position, first);
    assert_int_equal(world->err.offset, 1);
    assert_string_equal(world->err.path, active_path(world, 0));
    assert_string_equal(files(world), world->kept);
    world->options.read_only = true;
    open_log(world);
    assert_contents(world, "0:a=1 ");
    assert_bounds(world, 0, 1);
    assert_string_equal(files(world), world->kept);
}

/* ---- Torn tails ---- */

/* After opening a log whose end was torn: what is sound is there, the file is
 * cut for good before anything is appended, and what is appended stays. */
static void assert_mended(log_world *world, const char *sound, int64_t end,
                          int64_t size)
{
    char longer[128];

    wrap_record(&world->wrap);
    open_log(world);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, "00000000.log"),
                     1);
    world->wrap.recording = false;
    assert_contents(world, sound);
    assert_bounds(world, 0, end);
    assert_int_equal(file_size(active_path(world, 0)), size);
    assert_int_equal(append(world, "r=9"), end);
    snprintf(longer, sizeof longer, "%s%lld:r=9 ", sound, (long long)end);
    reopen_after_death(world);
    assert_contents(world, longer);
    reopen(world);
    assert_contents(world, longer);
    assert_int_equal(stats_of(world).truncated_bytes, 0);
    close_log(world);
    remove_all(world->where);
}

static void make_three(log_world *world, bool clean)
{
    open_log(world);
    fill(world, "a=1 b=2 c=3");
    if (clean) {
        close_log(world);
    } else {
        abandon_log(world);
    }
}

/* The last batch may be cut anywhere. */
static void test_a_torn_batch_is_cut_off(void **state)
{
    log_world *world = *state;

    for (int clean = 0; clean < 2; clean++) {
        int64_t batch = 1;

        for (int64_t cut = 1; cut < batch || cut == 1; cut++) {
            int64_t size;

            make_three(world, clean != 0);
            size = file_size(active_path(world, 0));
            batch = size / 3;
            set_size(active_path(world, 0), size - cut);
            assert_mended(world, "0:a=1 1:b=2 ", 2, 2 * batch);
        }
    }
}

/* Bytes behind the last batch are no batch: zeros, rubbish, the beginning of
 * one that once was there. */
static void test_stray_bytes_are_cut_off(void **state)
{
    static const char rubbish[] = "\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00"
                                  "\x40 this is no batch of records at all, is "
                                  "it? Not even if it is long enough.";
    static const char zeros[4096];
    log_world *world = *state;

    for (int i = 0; i < 8; i++) {
        const char *bytes = i % 2 == 0 ? rubbish : zeros;
        size_t sizes[] = {1, 13, 61, 80};
        int64_t size;
        FILE *stream;

        make_three(world, i >= 4);
        size = file_size(active_path(world, 0));
        stream = fopen(active_path(world, 0), "ab");
        assert_non_null(stream);
        fwrite(bytes, 1, sizes[i % 4], stream);
        fclose(stream);
        assert_mended(world, "0:a=1 1:b=2 2:c=3 ", 3, size);
    }
}

/* Any changed byte of the last batch is noticed, after a clean end too, but for
 * the leader epoch, that no checksum covers. */
static void test_a_changed_byte_is_cut_off(void **state)
{
    log_world *world = *state;

    for (int clean = 0; clean < 2; clean++) {
        int64_t batch = 1;

        for (int64_t i = 0; i < batch || i == 0; i++) {
            make_three(world, clean != 0);
            batch = file_size(active_path(world, 0)) / 3;
            damage(active_path(world, 0), (size_t)(2 * batch + i));
            if (i >= 12 && i < 16) {
                open_log(world);
                assert_contents(world, "0:a=1 1:b=2 2:c=3 ");
                close_log(world);
                remove_all(world->where);
            } else {
                assert_mended(world, "0:a=1 1:b=2 ", 2, 2 * batch);
            }
        }
    }
}

/* A damaged batch takes along those behind it, which stand in the active
 * segment and were never flushed. */
static void test_damage_ends_the_log(void **state)
{
    log_world *world = *state;
    int64_t size;

    make_three(world, false);
    size = file_size(active_path(world, 0));
    damage(active_path(world, 0), (size_t)(size / 3 + 62));
    assert_mended(world, "0:a=1 ", 1, size / 3);
}

/* An active segment of which nothing is left is empty. */
static void test_an_empty_file_is_an_empty_segment(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    close_log(world);
    set_size(active_path(world, 2), 0);
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 ");
    assert_int_equal(append(world, "d=4"), 2);
    reopen_after_death(world);
    assert_contents(world, "0:a=1 1:b=2 2:d=4 ");
}

/* A reader reads around a torn tail, and changes nothing. */
static void test_a_reader_reads_around(void **state)
{
    log_world *world = *state;

    make_three(world, false);
    set_size(active_path(world, 0), file_size(active_path(world, 0)) - 1);
    keep(world, files(world));
    world->options.read_only = true;
    open_log(world);
    assert_contents(world, "0:a=1 1:b=2 ");
    assert_bounds(world, 0, 2);
    assert_string_equal(files(world), world->kept);
}

/* Append so many records, durable ones, and die. */
static void append_and_die(const log_world *world, mk_mapping mapped, int count)
{
    mk_append_options durable;
    mk_open_options options;
    mk_record record;
    mk_offset_range range;
    mk_log *log;

    mk_append_options_default(&durable);
    durable.durable = true;
    mk_open_options_default(&options);
    options.mapped = mapped;
    CHILD_CHECK(mk_log_open(world->where, &options, &log, NULL) == MK_OK);
    parse_records("a=1@5", &record);
    for (int i = 0; i < count; i++) {
        CHILD_CHECK(mk_log_append(log, &record, 1, &durable, &range, NULL) ==
                    MK_OK);
    }
    kill(getpid(), SIGKILL);
}

/* A process that really dies, with zeros at its end of the log: mapped, or
 * written ahead since each record was synced. */
static void test_a_killed_process_loses_nothing(void **state)
{
    static const mk_mapping modes[] = {MK_MAPPED_ALWAYS, MK_MAPPED_NEVER};
    log_world *world = *state;

    for (int i = 0; i < 2; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) append_and_die(world, modes[i], 20);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_true(file_size(active_path(world, 0)) >= 4096);
        open_log(world);
        assert_bounds(world, 0, 20 * (i + 1));
        assert_true(stats_of(world).truncated_bytes > 1000);
        assert_int_equal(file_size(active_path(world, 0)),
                         20 * (i + 1) * SINGLE_SIZE);
        close_log(world);
    }
}

/* Where a Kafka left its marker of a clean end, it would take zeros at the end
 * of the log for damage: there are none. */
static void test_no_zeros_where_kafka_trusts(void **state)
{
    log_world *world = *state;
    char path[400];
    pid_t child;

    snprintf(path, sizeof path, "%s/.kafka_cleanshutdown", world->disk->root);
    store_text(path, "");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) append_and_die(world, MK_MAPPED_ALWAYS, 20);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(file_size(active_path(world, 0)), 20 * SINGLE_SIZE);
    open_log(world);
    assert_bounds(world, 0, 20);
}

/* ---- Where the log begins and ends ---- */

/* The log start is kept, wherever in a segment it is. */
static void test_the_log_start_is_kept(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2,c=3 | d=4 e=5");
    assert_ok(world, mk_log_delete_records(world->log, 2, &world->err));
    reopen_after_death(world);
    assert_bounds(world, 2, 5);
    assert_contents(world, "2:c=3 3:d=4 4:e=5 ");
    assert_ok(world, mk_log_delete_records(world->log, 4, &world->err));
    assert_segments(world, "3..5 ");
    reopen(world);
    assert_bounds(world, 4, 5);
    assert_ok(world, mk_log_delete_records(world->log, 5, &world->err));
    reopen_after_death(world);
    assert_bounds(world, 5, 5);
    assert_int_equal(append(world, "f=6"), 5);
    reopen_after_death(world);
    assert_contents(world, "5:f=6 ");
}

/* Where no segment is left, only the state tells the log start. It is replaced
 * durably: a loss of power must not leave half of it. */
static void test_a_start_without_segments(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2 |");
    assert_ok(world, mk_log_delete_records(world->log, 2, &world->err));
    close_log(world);
    unlink(active_path(world, 2));
    wrap_record(&world->wrap);
    open_log(world);
    assert_bounds(world, 2, 2);
    assert_true(wrap_count(&world->wrap, WRAP_rename, "state.tmp") > 0);
    assert_int_equal(wrap_count(&world->wrap, WRAP_fdatasync, "state.tmp"),
                     wrap_count(&world->wrap, WRAP_rename, "state.tmp"));
    reopen_after_death(world);
    assert_bounds(world, 2, 2);
    assert_int_equal(append(world, "c=3"), 2);
}

/* Segments below the log start were to be removed, and are. */
static void test_removal_is_finished(void **state)
{
    log_world *world = *state;
    uint8_t *bytes;
    size_t size;

    open_log(world);
    fill(world, "a=1 b=2 | c=3");
    bytes = load(active_path(world, 0), &size);
    assert_ok(world, mk_log_delete_records(world->log, 2, &world->err));
    assert_false(exists(active_path(world, 0)));
    abandon_log(world);
    store(active_path(world, 0), bytes, size);
    free(bytes);
    open_log(world);
    assert_bounds(world, 2, 3);
    assert_false(exists(active_path(world, 0)));
}

/* An offset that was given is not given again, though a truncation left no
 * batch to tell: not after a death, and not after several. */
static void test_no_offset_is_given_twice(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2,c=3,d=4,e=5");
    assert_ok(world, mk_log_truncate_to(world->log, 3, &world->err));
    assert_contents(world, "0:a=1 ");
    for (int i = 0; i < 3; i++) {
        reopen_after_death(world);
        assert_bounds(world, 0, 3);
    }
    reopen(world);
    assert_int_equal(append(world, "f=6"), 3);
    reopen_after_death(world);
    assert_contents(world, "0:a=1 3:f=6 ");
    assert_int_equal(append(world, "g=7"), 4);
}

/* A torn append behind such a gap does not close it. */
static void test_a_torn_batch_behind_a_gap(void **state)
{
    log_world *world = *state;

    open_log(world);
    fill(world, "a=1 b=2,c=3,d=4,e=5");
    assert_ok(world, mk_log_truncate_to(world->log, 3, &world->err));
    append(world, "f=6");
    abandon_log(world);
    set_size(active_path(world, 0), file_size(active_path(world, 0)) - 3);
    open_log(world);
    assert_bounds(world, 0, 3);
    assert_int_equal(append(world, "g=7"), 3);
    reopen_after_death(world);
    assert_contents(world, "0:a=1 3:g=7 ");
}

/* Batches of a foreign log may have gaps between them. In what this engine has
 * appended there are none, so a later offset is damage. */
static void test_a_gap_is_damage_in_our_own_part(void **state)
{
    log_world *world = *state;
    made_log made = {.size = 0};
    size_t size;
    uint8_t *bytes;

    make_batch(&made, 0, "a=1", 0);
    make_batch(&made, 5, "b=2", 7);
    put_segment(world, 0, &made);
    open_log(world);
    assert_contents(world, "0:a=1 5:b=2 ");
    assert_int_equal(append(world, "c=3"), 8);
    append(world, "d=4");
    abandon_log(world);
    bytes = load(active_path(world, 0), &size);
    bytes[size / 4 * 3 + 7] += 1; /* The last batch's offset: 10, not 9. */
    store(active_path(world, 0), bytes, size);
    free(bytes);
    open_log(world);
    assert_contents(world, "0:a=1 5:b=2 8:c=3 ");
    assert_int_equal(append(world, "e=5"), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_clean_end_is_believed),
        log_test(test_what_was_flushed_is_believed),
        log_test(test_damage_in_a_closed_segment),
        log_test(test_a_torn_batch_is_cut_off),
        log_test(test_stray_bytes_are_cut_off),
        log_test(test_a_changed_byte_is_cut_off),
        log_test(test_damage_ends_the_log),
        log_test(test_an_empty_file_is_an_empty_segment),
        log_test(test_a_reader_reads_around),
        log_test(test_a_killed_process_loses_nothing),
        log_test(test_no_zeros_where_kafka_trusts),
        log_test(test_the_log_start_is_kept),
        log_test(test_a_start_without_segments),
        log_test(test_removal_is_finished),
        log_test(test_no_offset_is_given_twice),
        log_test(test_a_torn_batch_behind_a_gap),
        log_test(test_a_gap_is_damage_in_our_own_part),
    };

    return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
