/* Reading a log to find out what is in it: sound, torn, damaged, foreign. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/segment_scan.h"
#include "support/golden_batches.h"
#include "support/golden_segments.h"

#define NAME "the.log"

/* A scan of a file from its start, or behind what `segment` has noted. */
typedef struct scanning {
    posix_world *world;
    mk_segment *segment;
    mk_scratch scratch;
    mk_file *file;
    mk_segment_scan scan;
} scanning;

static const size_t budgets[] = {17, 61, 100, 1000, 1 << 20};

/* Scan on, as often as it takes. */
static mk_scan_end run(scanning *s, size_t budget)
{
    for (int steps = 0; s->scan.end == MK_SCAN_RUNNING; steps++) {
        assert_ok(mk_segment_scan_step(&s->scan, budget, NULL));
        assert_true(steps < 10000);
    }
    return s->scan.end;
}

static void begin(scanning *s, posix_world *world, int64_t base_offset,
                  int64_t interval)
{
    *s = (scanning){.world = world};
    mk_scratch_init(&s->scratch, &world->heap);
    assert_ok(mk_segment_new(&world->heap, base_offset, &s->segment, NULL));
    s->file = open_file(world, NAME, 0);
    mk_segment_scan_init(&s->scan, s->segment, s->file,
                         size_on_disk(world, NAME), interval, &s->scratch);
}

static void end(scanning *s)
{
    close_file(s->file);
    mk_segment_free(s->segment);
    mk_scratch_deinit(&s->scratch);
}

/* The log is sound up to `log_bytes` and ends so, however it is read. */
static void assert_scan(posix_world *world, const uint8_t *bytes, size_t size,
                        mk_scan_end expected, int64_t log_bytes)
{
    change_file(world, NAME, bytes, size);
    for (size_t i = 0; i < LENGTH(budgets); i++) {
        scanning s;
        mk_scan_end found;
        int64_t sound;

        begin(&s, world, 0, 0);
        found = run(&s, budgets[i]);
        sound = s.segment->log_bytes;
        end(&s);
        if (found != expected || sound != log_bytes) {
            fail_msg("budget %zu: end %d at %" PRId64, budgets[i], found,
                     sound);
        }
    }
}

/* Five batches of different sizes, with gaps; where each begins. */
typedef struct sample_log {
    hand_log log;
    size_t starts[6];
} sample_log;

enum { BATCHES = 5 };

static void make_sample(sample_log *s)
{
    int64_t next_offset = 2;

    s->log.size = 0;
    for (size_t i = 0; i < BATCHES; i++) {
        s->starts[i] = s->log.size;
        next_offset = put_plain(&s->log, next_offset, 1 + (int)i,
                                1000 + (int64_t)(i % 3), 10 * i);
        next_offset += (int64_t)(i % 2) * 7;
    }
    s->starts[BATCHES] = s->log.size;
}

/* ---- Sound logs ---- */

static void test_empty(void **state)
{
    assert_scan(*state, (const uint8_t *)"", 0, MK_SCAN_WHOLE, 0);
}

/* What is found is what noting the same batches gives. */
static void test_whole(void **state)
{
    posix_world *world = *state;
    mk_segment *noted = NULL;
    mk_segment_facts expected;
    sample_log sample;

    make_sample(&sample);
    assert_ok(mk_segment_new(&world->heap, 0, &noted, NULL));
    for (size_t i = 0; i < BATCHES; i++) {
        mk_batch batch;

        assert_int_equal(
            mk_batch_peek((mk_span){sample.log.data + sample.starts[i],
                                    sample.log.size - sample.starts[i]},
                          &batch),
            MK_BATCH_WHOLE);
        assert_ok(mk_segment_note(noted, &batch, 100, NULL));
    }
    mk_segment_get_facts(noted, &expected);
    put_file(world, NAME, sample.log.data, sample.log.size);
    for (size_t i = 0; i < LENGTH(budgets); i++) {
        mk_segment_facts facts;
        scanning s;

        begin(&s, world, 0, 100);
        assert_int_equal(run(&s, budgets[i]), MK_SCAN_WHOLE);
        mk_segment_get_facts(s.segment, &facts);
        assert_int_equal(facts.next_offset, expected.next_offset);
        assert_int_equal(facts.log_bytes, sample.log.size);
        assert_int_equal(facts.max_timestamp_ms, 1002);
        assert_int_equal(facts.max_timestamp_offset,
                         expected.max_timestamp_offset);
        assert_int_equal(facts.first_timestamp_ms, 1000);
        assert_int_equal(facts.offset_entries, expected.offset_entries);
        assert_int_equal(facts.index_checksum, expected.index_checksum);
        assert_int_equal(s.segment->last_batch_position, sample.starts[4]);
        assert_int_equal(s.segment->last_batch_checksum,
                         noted->last_batch_checksum);
        end(&s);
    }
    mk_segment_free(noted);
}

/* A step checks about its budget, no more; a batch larger than it whole. */
static void test_budget(void **state)
{
    posix_world *world = *state;
    sample_log sample;
    scanning s;

    make_sample(&sample);
    put_file(world, NAME, sample.log.data, sample.log.size);
    begin(&s, world, 0, 0);
    for (size_t i = 1; i <= BATCHES; i++) {
        assert_ok(mk_segment_scan_step(&s.scan, 1, NULL));
        assert_int_equal(s.segment->log_bytes, sample.starts[i]);
        assert_int_equal(s.scan.end, MK_SCAN_RUNNING);
    }
    assert_ok(mk_segment_scan_step(&s.scan, 1, NULL));
    assert_int_equal(s.scan.end, MK_SCAN_WHOLE);
    end(&s);
    begin(&s, world, 0, 0);
    assert_ok(mk_segment_scan_step(&s.scan, sample.starts[3] + 5, NULL));
    assert_int_equal(s.segment->log_bytes, sample.starts[3]);
    end(&s);
}

/* Scanning goes on behind what is known, once the file has grown. */
static void test_goes_on(void **state)
{
    posix_world *world = *state;
    sample_log sample;

    make_sample(&sample);
    put_file(world, NAME, sample.log.data, sample.log.size);
    for (size_t known = 0; known <= BATCHES; known++) {
        mk_segment_facts facts, all;
        scanning s;

        begin(&s, world, 0, 0);
        s.scan.file_size = (int64_t)sample.starts[known];
        assert_int_equal(run(&s, 100), MK_SCAN_WHOLE);
        assert_int_equal(s.segment->log_bytes, sample.starts[known]);
        mk_segment_scan_init(&s.scan, s.segment, s.file,
                             (int64_t)sample.log.size, 0, &s.scratch);
        assert_int_equal(run(&s, 100), MK_SCAN_WHOLE);
        mk_segment_get_facts(s.segment, &facts);
        end(&s);
        begin(&s, world, 0, 0);
        run(&s, 100);
        mk_segment_get_facts(s.segment, &all);
        assert_int_equal(facts.index_checksum, all.index_checksum);
        assert_int_equal(facts.next_offset, all.next_offset);
        end(&s);
    }
}

/* Kafka's own segments: the log gives its indexes, byte for byte. */
static void test_golden(void **state)
{
    posix_world *world = *state;

    for (size_t i = 0; i < GOLDEN_SEGMENT_COUNT; i++) {
        const golden_segment *golden = &golden_segments[i];

        change_file(world, NAME, golden->log, golden->log_size);
        for (size_t j = 0; j < LENGTH(budgets); j++) {
            uint8_t bytes[256];
            scanning s;

            begin(&s, world, golden->base_offset, golden->index_interval_bytes);
            assert_int_equal(run(&s, budgets[j]), MK_SCAN_WHOLE);
            assert_ok(mk_segment_finish_times(s.segment, NULL));
            assert_int_equal(s.segment->offsets.count * 8, golden->index_size);
            mk_offset_index_encode(&s.segment->offsets, 0, bytes);
            assert_memory_equal(bytes, golden->index, golden->index_size);
            assert_int_equal(s.segment->times.count * 12,
                             golden->timeindex_size);
            mk_time_index_encode(&s.segment->times, 0, bytes);
            assert_memory_equal(bytes, golden->timeindex,
                                golden->timeindex_size);
            end(&s);
        }
    }
}

/* ---- Ends ---- */

/* Cut anywhere, a log is sound up to its last whole batch. */
static void test_cut(void **state)
{
    sample_log sample;
    size_t whole = 0;

    make_sample(&sample);
    for (size_t size = 0; size < sample.log.size; size++) {
        bool at_end;

        while (sample.starts[whole + 1] <= size) {
            whole++;
        }
        at_end = size == sample.starts[whole];
        assert_scan(*state, sample.log.data, size,
                    at_end ? MK_SCAN_WHOLE : MK_SCAN_TORN,
                    (int64_t)sample.starts[whole]);
    }
}

/* A file that is shorter than it was said to be ends in a torn batch, too. */
static void test_shorter_file(void **state)
{
    posix_world *world = *state;
    sample_log sample;

    make_sample(&sample);
    put_file(world, NAME, sample.log.data, sample.starts[3] + 20);
    for (size_t i = 0; i < LENGTH(budgets); i++) {
        scanning s;

        begin(&s, world, 0, 0);
        s.scan.file_size = (int64_t)sample.log.size;
        assert_int_equal(run(&s, budgets[i]), MK_SCAN_TORN);
        assert_int_equal(s.segment->log_bytes, sample.starts[3]);
        end(&s);
    }
}

/* Zeros behind the last batch, few or many, are what a mapping leaves. */
static void test_zeros(void **state)
{
    static const size_t zeros[] = {1, 16, 17, 60, 61, 62, 500, 5000};
    sample_log sample;

    make_sample(&sample);
    for (size_t i = 0; i < LENGTH(zeros); i++) {
        memset(sample.log.data + sample.log.size, 0, zeros[i]);
        assert_scan(*state, sample.log.data, sample.log.size + zeros[i],
                    MK_SCAN_TORN, (int64_t)sample.log.size);
    }
    assert_scan(*state, sample.log.data + sample.log.size, 100, MK_SCAN_TORN,
                0);
}

/* What is neither a batch nor zeros is damage. */
static void test_junk(void **state)
{
    sample_log sample;

    make_sample(&sample);
    memset(sample.log.data + sample.log.size, 'j', 100);
    assert_scan(*state, sample.log.data, sample.log.size + 100, MK_SCAN_DAMAGED,
                (int64_t)sample.log.size);
    memset(sample.log.data + sample.log.size, 0, 100);
    sample.log.data[sample.log.size + 16] = 3; /* The magic of the future. */
    assert_scan(*state, sample.log.data, sample.log.size + 100, MK_SCAN_DAMAGED,
                (int64_t)sample.log.size);
}

/* Is the byte of a batch, by its place, one that the scan can't see wrong? The
 * leader epoch is under no checksum. */
static bool is_unprotected(size_t place)
{
    return place >= 12 && place < 16;
}

/* A changed byte ends the log at its batch, unless nothing protects it; a
 * changed offset can pass for a gap, and then the next batch can't follow. */
static void check_changed(posix_world *world, const sample_log *sample,
                          const uint8_t *bytes, size_t batch, size_t place)
{
    int64_t start = (int64_t)sample->starts[batch];
    mk_scan_end found;
    int64_t sound;
    scanning s;

    change_file(world, NAME, bytes, sample->log.size);
    begin(&s, world, 0, 0);
    found = run(&s, 1 << 20);
    sound = s.segment->log_bytes;
    end(&s);
    if (is_unprotected(place)) {
        assert_int_equal(found, MK_SCAN_WHOLE);
    } else if (place < 8) {
        assert_true(sound == start ||
                    sound == (int64_t)sample->starts[batch + 1] ||
                    found == MK_SCAN_WHOLE);
        assert_true(sound >= start);
        assert_int_not_equal(found, MK_SCAN_OLD);
    } else {
        assert_true(found == MK_SCAN_DAMAGED ||
                    (place < 12 && found == MK_SCAN_TORN));
        assert_int_equal(sound, start);
    }
}

static void test_changed(void **state)
{
    sample_log sample;

    make_sample(&sample);
    for (size_t batch = 0; batch < BATCHES; batch++) {
        for (size_t i = sample.starts[batch]; i < sample.starts[batch + 1];
             i++) {
            const uint8_t b = sample.log.data[i];
            const uint8_t others[] = {0,       1, 0x80, 0xff, (uint8_t)(b + 1),
                                      b ^ 0x10};

            for (size_t j = 0; j < LENGTH(others); j++) {
                if (others[j] == b) continue;
                sample.log.data[i] = others[j];
                check_changed(*state, &sample, sample.log.data, batch,
                              i - sample.starts[batch]);
            }
            sample.log.data[i] = b;
        }
    }
}

/* Messages of the old formats are told from damage, where they are whole. */
static void test_old(void **state)
{
    static const golden_batch messages[] = {GOLDEN_BATCH(magic_0),
                                            GOLDEN_BATCH(magic_1)};

    for (size_t i = 0; i < LENGTH(messages); i++) {
        hand_log log = {.size = 0};
        size_t size = messages[i].size;
        size_t start;

        put_plain(&log, 0, 1, 5, 10);
        start = log.size;
        memcpy(log.data + start, messages[i].bytes, size);
        assert_scan(*state, log.data, start + size, MK_SCAN_OLD,
                    (int64_t)start);
        for (size_t cut = 1; cut < size; cut++) {
            assert_scan(*state, log.data, start + cut, MK_SCAN_TORN,
                        (int64_t)start);
        }
        log.data[start + size - 1] ^= 1;
        assert_scan(*state, log.data, start + size, MK_SCAN_DAMAGED,
                    (int64_t)start);
    }
}

/* A batch whose last offset is beyond 31 bits from the base ends the scan. */
static void test_overflow(void **state)
{
    static const hand_record records[] = {{"a", "1", 5, 0}, {"b", "2", 5, 1}};

    for (int64_t over = 0; over <= 1; over++) {
        mk_batch batch = plain_batch(INT64_C(0x7ffffffe) + over);
        hand_log log = {.size = 0};
        size_t start;

        put_plain(&log, 0, 1, 5, 10);
        start = log.size;
        put_batch(&log, &batch, records, 2);
        assert_scan(*state, log.data, log.size,
                    over ? MK_SCAN_OVERFLOW : MK_SCAN_WHOLE,
                    (int64_t)(over ? start : log.size));
    }
}

/* Offsets only grow: a batch that begins before the end of another is none. */
static void test_offsets_going_back(void **state)
{
    for (int64_t base = 0; base < 6; base++) {
        hand_log log = {.size = 0};
        size_t start;

        put_plain(&log, 2, 3, 5, 10); /* 2, 3 and 4. */
        start = log.size;
        put_plain(&log, base, 1, 5, 10);
        assert_scan(*state, log.data, log.size,
                    base < 5 ? MK_SCAN_DAMAGED : MK_SCAN_WHOLE,
                    (int64_t)(base < 5 ? start : log.size));
    }
}

/* The first batch may begin behind the segment's base, not before it. */
static void test_base(void **state)
{
    posix_world *world = *state;
    hand_log log = {.size = 0};

    put_plain(&log, 10, 1, 5, 10);
    put_file(world, NAME, log.data, log.size);
    for (int64_t base = 8; base <= 12; base++) {
        scanning s;

        begin(&s, world, base, 0);
        assert_int_equal(run(&s, 100),
                         base <= 10 ? MK_SCAN_WHOLE : MK_SCAN_DAMAGED);
        assert_int_equal(s.segment->next_offset, base <= 10 ? 11 : base);
        end(&s);
    }
}

/* Where batches are known to follow each other, a gap is damage. A gap before
 * that, or one that only reaches up to it, is fine. */
static void test_dense(void **state)
{
    posix_world *world = *state;
    hand_log log = {.size = 0};
    size_t start;

    put_plain(&log, 0, 2, 5, 10); /* 0 and 1, and a gap up to 9. */
    start = log.size;
    put_plain(&log, 10, 2, 5, 10);
    put_file(world, NAME, log.data, log.size);
    for (int64_t dense = 0; dense <= 13; dense++) {
        bool damaged = dense < 10;
        scanning s;

        begin(&s, world, 0, 0);
        s.scan.dense_offset = dense;
        assert_int_equal(run(&s, 100),
                         damaged ? MK_SCAN_DAMAGED : MK_SCAN_WHOLE);
        assert_int_equal(s.segment->log_bytes, damaged ? start : log.size);
        end(&s);
    }
}

/* ---- Failures ---- */

/* A failed read is told, and scanning can go on where it was. */
static void test_failing_disk(void **state)
{
    posix_world *world = *state;
    traced_disk disk;
    sample_log sample;

    make_sample(&sample);
    put_file(world, NAME, sample.log.data, sample.log.size);
    traced_init(&disk, world);
    for (long n = 1; n <= 4; n++) {
        mk_status status = MK_OK;
        scanning s;

        begin(&s, world, 0, 0);
        close_file(s.file);
        assert_ok(
            mk_file_open(&disk.base, path_of(world, NAME), 0, &s.file, NULL));
        s.scan.file = s.file;
        traced_restart(&disk, n);
        while (status == MK_OK && s.scan.end == MK_SCAN_RUNNING) {
            status = mk_segment_scan_step(&s.scan, 100, NULL);
        }
        assert_status(status, MK_IO);
        assert_int_equal(run(&s, 100), MK_SCAN_WHOLE);
        assert_int_equal(s.segment->log_bytes, sample.log.size);
        end(&s);
    }
}

static mk_status act_step(void *context, mk_error *err)
{
    scanning *s = context;

    return mk_segment_scan_step(&s->scan, 1 << 20, err);
}

/* What was noted before the memory was gone stays noted, whole batches. */
static void check_sound(void *context)
{
    const scanning *s = context;

    assert_int_equal(s->scan.end, MK_SCAN_RUNNING);
    assert_int_equal(
        s->segment->offsets.count,
        s->segment->log_bytes == 0 ? 0 : s->segment->log_bytes / 70 - 1);
}

static void test_without_memory(void **state)
{
    posix_world *world = *state;
    hand_log log = {.size = 0};
    scanning s;

    for (int64_t i = 0; i < 40; i++) {
        put_plain(&log, i, 1, i, 1);
        assert_int_equal(log.size, 70 * (i + 1));
    }
    put_file(world, NAME, log.data, log.size);
    begin(&s, world, 0, 0);
    assert_true(sweep_heap(world, act_step, check_sound, &s) >= 4);
    assert_int_equal(run(&s, 1 << 20), MK_SCAN_WHOLE);
    assert_int_equal(s.segment->offsets.count, 39);
    assert_int_equal(s.segment->times.count, 39);
    end(&s);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty),
        TEST(test_whole),
        TEST(test_budget),
        TEST(test_goes_on),
        TEST(test_golden),
        TEST(test_cut),
        TEST(test_shorter_file),
        TEST(test_zeros),
        TEST(test_junk),
        TEST(test_changed),
        TEST(test_old),
        TEST(test_overflow),
        TEST(test_offsets_going_back),
        TEST(test_base),
        TEST(test_dense),
        TEST(test_failing_disk),
        TEST(test_without_memory),
    };

    return cmocka_run_group_tests_name("segment_scan", tests, NULL, NULL);
}
