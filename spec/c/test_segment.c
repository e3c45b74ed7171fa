/* One segment: what noting batches makes of it, and removing its files. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "codec/crc32c.h"
#include "store/segment.h"

enum { BASE = 1000, BATCHES = 60 };

static mk_segment *new_segment(posix_world *world, int64_t base_offset)
{
    mk_segment *segment = NULL;

    assert_ok(mk_segment_new(&world->heap, base_offset, &segment, NULL));
    return segment;
}

static mk_batch batch_of(int64_t base_offset, int32_t count, uint32_t size,
                         int64_t max_timestamp)
{
    mk_batch batch = plain_batch(base_offset);

    batch.last_offset_delta = count - 1;
    batch.size = size;
    batch.max_timestamp = max_timestamp;
    batch.crc = (uint32_t)base_offset * 2654435761u;
    return batch;
}

static void assert_empty(const mk_segment *segment, int64_t base_offset)
{
    assert_int_equal(segment->base_offset, base_offset);
    assert_int_equal(segment->next_offset, base_offset);
    assert_int_equal(segment->log_bytes, 0);
    assert_int_equal(segment->max_timestamp_ms, -1);
    assert_int_equal(segment->first_timestamp_ms, -1);
    assert_int_equal(segment->last_batch_position, -1);
    assert_int_equal(segment->offsets.count, 0);
    assert_int_equal(segment->times.count, 0);
    assert_true(segment->indexes_loaded);
    assert_int_equal(mk_segment_index_bytes(segment), 0);
    assert_int_equal(mk_segment_size_bytes(segment), 0);
}

static void test_new(void **state)
{
    static const int64_t bases[] = {0, BASE, INT64_MAX};

    for (size_t i = 0; i < LENGTH(bases); i++) {
        mk_segment *segment = new_segment(*state, bases[i]);

        assert_empty(segment, bases[i]);
        assert_int_equal(segment->references, 1);
        assert_false(segment->sealed);
        mk_segment_free(segment);
    }
    mk_segment_free(NULL);
}

/* 31 bits of offsets from the base on fit. */
static void test_fits(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);

    assert_false(mk_segment_fits(segment, BASE - 1));
    assert_false(mk_segment_fits(segment, 0));
    assert_true(mk_segment_fits(segment, BASE));
    assert_true(mk_segment_fits(segment, BASE + INT64_C(0x7fffffff)));
    assert_false(mk_segment_fits(segment, BASE + INT64_C(0x80000000)));
    assert_false(mk_segment_fits(segment, INT64_MAX));
    mk_segment_free(segment);
    segment = new_segment(*state, INT64_MAX - 5);
    assert_true(mk_segment_fits(segment, INT64_MAX));
    mk_segment_free(segment);
}

/* ---- Noting ---- */

static void note(mk_segment *segment, const mk_batch *batch, int64_t interval)
{
    assert_ok(mk_segment_note(segment, batch, interval, NULL));
}

static void test_note_by_hand(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);
    mk_batch batch = batch_of(BASE + 3, 2, 100, 50);

    note(segment, &batch, 0);
    assert_int_equal(segment->next_offset, BASE + 5);
    assert_int_equal(segment->log_bytes, 100);
    assert_int_equal(segment->max_timestamp_ms, 50);
    assert_int_equal(segment->max_timestamp_offset, BASE + 4);
    assert_int_equal(segment->first_timestamp_ms, 50);
    assert_int_equal(segment->last_batch_position, 0);
    assert_int_equal(segment->last_batch_checksum, batch.crc);
    assert_int_equal(segment->offsets.count, 0); /* Never for the first. */
    assert_int_equal(segment->times.count, 0);

    batch = batch_of(BASE + 9, 3, 70, 50);
    note(segment, &batch, 0);
    assert_int_equal(segment->next_offset, BASE + 12);
    assert_int_equal(segment->log_bytes, 170);
    assert_int_equal(segment->max_timestamp_offset, BASE + 4); /* The first. */
    assert_int_equal(segment->last_batch_position, 100);
    assert_int_equal(segment->last_batch_checksum, batch.crc);
    assert_int_equal(segment->offsets.count, 1);
    assert_int_equal(segment->offsets.entries[0].relative_offset, 11);
    assert_int_equal(segment->offsets.entries[0].position, 100);
    assert_int_equal(segment->times.count, 1);
    assert_int_equal(segment->times.entries[0].timestamp_ms, 50);
    assert_int_equal(segment->times.entries[0].offset, BASE + 4);

    batch = batch_of(BASE + 12, 1, 61, 51);
    note(segment, &batch, 0);
    assert_int_equal(segment->first_timestamp_ms, 50);
    assert_int_equal(segment->max_timestamp_ms, 51);
    assert_int_equal(segment->times.entries[1].offset, BASE + 12);
    assert_int_equal(mk_segment_index_bytes(segment), 2 * 8 + 2 * 12);
    assert_int_equal(mk_segment_size_bytes(segment), 231 + 40);
    mk_segment_free(segment);
}

/* An entry comes once more than the interval has gone by since the last one,
 * not at it; the batch at hand does not count yet. */
static void test_interval(void **state)
{
    mk_segment *segment = new_segment(*state, 0);

    for (int64_t i = 0; i < 10; i++) {
        mk_batch batch = batch_of(i, 1, 100, i);

        note(segment, &batch, 200);
    }
    /* After 300 bytes, and each time again. */
    assert_int_equal(segment->offsets.count, 3);
    assert_int_equal(segment->offsets.entries[0].position, 300);
    assert_int_equal(segment->offsets.entries[1].position, 600);
    assert_int_equal(segment->offsets.entries[2].position, 900);
    mk_segment_reset(segment);
    for (int64_t i = 0; i < 10; i++) {
        mk_batch batch = batch_of(i, 1, 100, i);

        note(segment, &batch, 199);
    }
    assert_int_equal(segment->offsets.count, 4);
    assert_int_equal(segment->offsets.entries[0].position, 200);
    mk_segment_free(segment);
}

/* Records without a time leave none: no time entries, -1 throughout. */
static void test_without_times(void **state)
{
    mk_segment *segment = new_segment(*state, 0);

    for (int64_t i = 0; i < 5; i++) {
        mk_batch batch = batch_of(i, 1, 100, -1);

        note(segment, &batch, 0);
    }
    assert_ok(mk_segment_finish_times(segment, NULL));
    assert_int_equal(segment->max_timestamp_ms, -1);
    assert_int_equal(segment->first_timestamp_ms, -1);
    assert_int_equal(segment->offsets.count, 4);
    assert_int_equal(segment->times.count, 0);
    mk_segment_free(segment);
}

/* What Kafka's rules make of the same batches, step by step. */
typedef struct plain_indexes {
    mk_offset_entry offsets[BATCHES];
    mk_time_entry times[BATCHES + 1];
    size_t offset_count, time_count;
    int64_t max_ms, max_offset, since, size;
} plain_indexes;

static void plain_time(plain_indexes *plain)
{
    int64_t last_ms = plain->time_count > 0
                          ? plain->times[plain->time_count - 1].timestamp_ms
                          : -1;

    if (plain->max_ms <= last_ms) return;
    plain->times[plain->time_count++] =
        (mk_time_entry){plain->max_ms, plain->max_offset};
}

static void plain_note(plain_indexes *plain, const mk_batch *batch,
                       int64_t interval)
{
    if (batch->max_timestamp > plain->max_ms) {
        plain->max_ms = batch->max_timestamp;
        plain->max_offset = mk_batch_last_offset(batch);
    }
    if (plain->since > interval) {
        plain->offsets[plain->offset_count++] = (mk_offset_entry){
            .relative_offset = (uint32_t)(mk_batch_last_offset(batch) - BASE),
            .position = (uint32_t)plain->size,
        };
        plain_time(plain);
        plain->since = 0;
    }
    plain->since += batch->size;
    plain->size += batch->size;
}

static void assert_as_plain(const mk_segment *segment,
                            const plain_indexes *plain)
{
    assert_int_equal(segment->log_bytes, plain->size);
    assert_int_equal(segment->max_timestamp_ms, plain->max_ms);
    if (plain->max_ms >= 0) {
        assert_int_equal(segment->max_timestamp_offset, plain->max_offset);
    }
    assert_int_equal(segment->offsets.count, plain->offset_count);
    for (size_t i = 0; i < plain->offset_count; i++) {
        assert_int_equal(segment->offsets.entries[i].relative_offset,
                         plain->offsets[i].relative_offset);
        assert_int_equal(segment->offsets.entries[i].position,
                         plain->offsets[i].position);
    }
    assert_int_equal(segment->times.count, plain->time_count);
    for (size_t i = 0; i < plain->time_count; i++) {
        assert_int_equal(segment->times.entries[i].timestamp_ms,
                         plain->times[i].timestamp_ms);
        assert_int_equal(segment->times.entries[i].offset,
                         plain->times[i].offset);
    }
}

/* A batch of chance size, gap before it and time, some without. */
static mk_batch draw_batch(int64_t next_offset, uint64_t *seed)
{
    int64_t gap = draw(seed, 4) == 0 ? (int64_t)draw(seed, 9) : 0;
    int64_t time_ms = (int64_t)draw(seed, 40) - 1;

    return batch_of(next_offset + gap, 1 + (int32_t)draw(seed, 5),
                    61 + (uint32_t)draw(seed, 400), time_ms);
}

/* The indexes are those of the rules, whatever sizes, times and intervals. */
static void test_note_as_kafka(void **state)
{
    static const int64_t intervals[] = {0, 1, 61, 300, 2000, INT32_MAX};

    for (size_t i = 0; i < LENGTH(intervals); i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            mk_segment *segment = new_segment(*state, BASE);
            plain_indexes plain = {.max_ms = -1};
            uint64_t chance = seed;

            for (int j = 0; j < BATCHES; j++) {
                mk_batch batch = draw_batch(segment->next_offset, &chance);

                note(segment, &batch, intervals[i]);
                plain_note(&plain, &batch, intervals[i]);
                assert_as_plain(segment, &plain);
            }
            assert_ok(mk_segment_finish_times(segment, NULL));
            plain_time(&plain);
            assert_as_plain(segment, &plain);
            assert_ok(mk_segment_finish_times(segment, NULL)); /* Once. */
            assert_as_plain(segment, &plain);
            mk_segment_free(segment);
        }
    }
}

/* The last offset that fits can be noted, and indexed. */
static void test_note_at_the_limit(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);
    mk_batch batch = batch_of(BASE, 1, 100, 5);

    note(segment, &batch, 0);
    batch = batch_of(BASE + INT64_C(0x7fffffff), 1, 100, 6);
    note(segment, &batch, 0);
    assert_int_equal(segment->offsets.entries[0].relative_offset, 0x7fffffff);
    assert_int_equal(segment->times.entries[0].offset,
                     BASE + INT64_C(0x7fffffff));
    assert_int_equal(segment->next_offset, BASE + INT64_C(0x80000000));
    mk_segment_free(segment);
}

/* ---- Facts ---- */

static void fill(mk_segment *segment, uint64_t seed, int count)
{
    for (int i = 0; i < count; i++) {
        mk_batch batch = draw_batch(segment->next_offset, &seed);

        note(segment, &batch, 100);
    }
    assert_ok(mk_segment_finish_times(segment, NULL));
}

static void assert_facts(const mk_segment_facts *facts,
                         const mk_segment *segment)
{
    assert_int_equal(facts->base_offset, segment->base_offset);
    assert_int_equal(facts->next_offset, segment->next_offset);
    assert_int_equal(facts->log_bytes, segment->log_bytes);
    assert_int_equal(facts->max_timestamp_ms, segment->max_timestamp_ms);
    assert_int_equal(facts->max_timestamp_offset,
                     segment->max_timestamp_offset);
    assert_int_equal(facts->first_timestamp_ms, segment->first_timestamp_ms);
}

/* What stands for the bytes of both index files. */
static uint32_t checksum_of(const mk_segment *segment)
{
    uint8_t bytes[(BATCHES + 1) * 12];
    uint8_t times[4];
    uint32_t sum;

    mk_time_index_encode(&segment->times, 0, bytes);
    mk_store_u32(times, mk_crc32c(0, bytes, segment->times.count * 12));
    mk_offset_index_encode(&segment->offsets, 0, bytes);
    sum = mk_crc32c(0, bytes, segment->offsets.count * 8);
    return mk_crc32c(sum, times, sizeof times);
}

/* Facts tell what is known, with the checksum of both index files' bytes. */
static void test_get_facts(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);
    mk_segment_facts facts;

    mk_segment_get_facts(segment, &facts);
    assert_facts(&facts, segment);
    assert_int_equal(facts.offset_entries, 0);
    assert_int_equal(facts.index_checksum, checksum_of(segment));
    fill(segment, 7, BATCHES);
    mk_segment_get_facts(segment, &facts);
    assert_facts(&facts, segment);
    assert_int_equal(facts.offset_entries, segment->offsets.count);
    assert_int_equal(facts.time_entries, segment->times.count);
    assert_int_equal(facts.index_checksum, checksum_of(segment));
    mk_segment_free(segment);
}

/* What facts say is taken, and said again, without the indexes. */
static void test_take_facts(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);
    mk_segment *other = new_segment(*state, BASE);
    mk_segment_facts facts, again;

    fill(segment, 8, BATCHES);
    fill(other, 9, 10);
    mk_segment_get_facts(segment, &facts);
    mk_segment_take_facts(other, &facts);
    assert_false(other->indexes_loaded);
    assert_facts(&facts, other);
    assert_int_equal(mk_segment_index_bytes(other),
                     mk_segment_index_bytes(segment));
    assert_int_equal(mk_segment_size_bytes(other),
                     mk_segment_size_bytes(segment));
    mk_segment_get_facts(other, &again);
    assert_facts(&again, segment);
    assert_int_equal(again.offset_entries, facts.offset_entries);
    assert_int_equal(again.time_entries, facts.time_entries);
    assert_int_equal(again.index_checksum, facts.index_checksum);
    mk_segment_free(segment);
    mk_segment_free(other);
}

/* Once reset it is as new, and the same batches make the same of it. */
static void test_reset(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);
    mk_segment_facts facts, again;

    fill(segment, 10, BATCHES);
    mk_segment_get_facts(segment, &facts);
    mk_segment_reset(segment);
    assert_empty(segment, BASE);
    fill(segment, 10, BATCHES);
    mk_segment_get_facts(segment, &again);
    assert_int_equal(again.index_checksum, facts.index_checksum);
    assert_int_equal(again.next_offset, facts.next_offset);
    mk_segment_take_facts(segment, &facts);
    mk_segment_reset(segment);
    assert_empty(segment, BASE);
    mk_segment_get_facts(segment, &again);
    assert_int_equal(again.offset_entries, 0);
    assert_int_equal(again.index_checksum, checksum_of(segment));
    mk_segment_free(segment);
}

/* All that was noted in another one moves over, and goes on from there; the
 * other is left empty. */
static void test_adopt(void **state)
{
    mk_segment *segment = new_segment(*state, BASE);
    mk_segment *other = new_segment(*state, BASE);
    mk_segment *alone = new_segment(*state, BASE);
    mk_segment_facts facts, expected;

    fill(segment, 11, 7); /* To be forgotten. */
    segment->sealed = true;
    segment->id = 5;
    fill(other, 12, BATCHES);
    fill(alone, 12, BATCHES);
    mk_segment_adopt(segment, other);
    assert_empty(other, BASE);
    assert_true(segment->sealed);
    assert_int_equal(segment->id, 5);
    assert_int_equal(segment->last_batch_position, alone->last_batch_position);
    assert_int_equal(segment->last_batch_checksum, alone->last_batch_checksum);
    assert_int_equal(segment->offsets_written, 0);
    assert_false(segment->index_files_good);
    for (int i = 0; i < 2; i++) {
        mk_segment_get_facts(segment, &facts);
        mk_segment_get_facts(alone, &expected);
        assert_facts(&facts, alone);
        assert_int_equal(facts.offset_entries, expected.offset_entries);
        assert_int_equal(facts.time_entries, expected.time_entries);
        assert_int_equal(facts.index_checksum, expected.index_checksum);
        fill(segment, 13, 10);
        fill(alone, 13, 10);
    }
    fill(other, 14, 5);
    mk_segment_free(segment);
    mk_segment_free(other);
    mk_segment_free(alone);
}

/* ---- Unlinking ---- */

#define NAME(suffix) "00000000000000001000" suffix

static void put_segment(posix_world *world)
{
    put_file(world, NAME(".log"), "l", 1);
    put_file(world, NAME(".index"), "i", 1);
    put_file(world, NAME(".timeindex"), "t", 1);
    put_file(world, NAME(".txnindex"), "x", 1);
}

/* The log goes first, then its indexes, nobody else's files. */
static void test_unlink(void **state)
{
    posix_world *world = *state;
    traced_disk disk;

    traced_init(&disk, world);
    put_segment(world);
    put_file(world, "00000000000000001001.log", "l", 1);
    put_file(world, NAME(".snapshot"), "s", 1);
    put_file(world, NAME(".log.deleted"), "d", 1);
    assert_ok(mk_segment_unlink(&disk.base, world->root, BASE, NULL));
    assert_memory_equal(disk.trace, "unlink " NAME(".log; "), 32);
    assert_false(exists(world, NAME(".log")));
    assert_false(exists(world, NAME(".index")));
    assert_false(exists(world, NAME(".timeindex")));
    assert_false(exists(world, NAME(".txnindex")));
    assert_true(exists(world, "00000000000000001001.log"));
    assert_true(exists(world, NAME(".snapshot")));
    assert_true(exists(world, NAME(".log.deleted")));
    assert_ok(mk_segment_unlink(&disk.base, world->root, BASE, NULL));
}

/* Some missing, one that can't be removed: a later call removes the rest. */
static void test_unlink_on_a_failing_disk(void **state)
{
    posix_world *world = *state;
    traced_disk disk;

    traced_init(&disk, world);
    for (long n = 1; n <= 4; n++) {
        put_segment(world);
        traced_restart(&disk, n);
        assert_status(mk_segment_unlink(&disk.base, world->root, BASE, NULL),
                      MK_IO);
        assert_int_equal(exists(world, NAME(".log")), n == 1);
        traced_restart(&disk, 0);
        assert_ok(mk_segment_unlink(&disk.base, world->root, BASE, NULL));
        assert_false(exists(world, NAME(".log")));
        assert_false(exists(world, NAME(".txnindex")));
    }
}

/* ---- Memory ---- */

typedef struct noting {
    posix_world *world;
    mk_segment *segment;
    mk_segment before; /* A copy, to compare. */
    mk_batch batch;
} noting;

static mk_status act_new(void *context, mk_error *err)
{
    noting *n = context;

    return mk_segment_new(&n->world->heap, BASE, &n->segment, err);
}

static void check_none(void *context)
{
    const noting *n = context;

    assert_null(n->segment);
}

static mk_status act_note(void *context, mk_error *err)
{
    noting *n = context;

    n->before = *n->segment;
    return mk_segment_note(n->segment, &n->batch, 0, err);
}

static void check_unnoted(void *context)
{
    const noting *n = context;
    const mk_segment *segment = n->segment;

    assert_int_equal(segment->next_offset, n->before.next_offset);
    assert_int_equal(segment->log_bytes, n->before.log_bytes);
    assert_int_equal(segment->max_timestamp_ms, n->before.max_timestamp_ms);
    assert_int_equal(segment->max_timestamp_offset,
                     n->before.max_timestamp_offset);
    assert_int_equal(segment->first_timestamp_ms, n->before.first_timestamp_ms);
    assert_int_equal(segment->last_batch_position,
                     n->before.last_batch_position);
    assert_int_equal(segment->last_batch_checksum,
                     n->before.last_batch_checksum);
    assert_int_equal(segment->bytes_since_entry, n->before.bytes_since_entry);
    assert_int_equal(segment->offsets.count, n->before.offsets.count);
    assert_int_equal(segment->times.count, n->before.times.count);
}

static mk_status act_finish(void *context, mk_error *err)
{
    noting *n = context;

    n->before = *n->segment;
    return mk_segment_finish_times(n->segment, err);
}

/* Without memory nothing is noted, in neither index; and later all of it. */
static void test_without_memory(void **state)
{
    noting n = {.world = *state};
    long failed = 0;

    n.segment = (mk_segment *)&n;
    assert_int_equal(sweep_heap(n.world, act_new, check_none, &n), 1);
    for (int64_t i = 0; i < BATCHES; i++) {
        n.batch = batch_of(BASE + i, 1, 100, i);
        failed += sweep_heap(n.world, act_note, check_unnoted, &n);
    }
    assert_int_equal(failed, 8); /* 8, 16, 32, 64 of each. */
    assert_int_equal(n.segment->offsets.count, BATCHES - 1);
    assert_int_equal(n.segment->times.count, BATCHES - 1);
    mk_segment_reset(n.segment);
    mk_segment_free(n.segment);

    n.segment = new_segment(n.world, BASE);
    n.batch = batch_of(BASE, 1, 100, 5);
    note(n.segment, &n.batch, 0);
    assert_int_equal(sweep_heap(n.world, act_finish, check_unnoted, &n), 1);
    assert_int_equal(n.segment->times.count, 1);
    mk_segment_free(n.segment);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_new),
        TEST(test_fits),
        TEST(test_note_by_hand),
        TEST(test_interval),
        TEST(test_without_times),
        TEST(test_note_as_kafka),
        TEST(test_note_at_the_limit),
        TEST(test_get_facts),
        TEST(test_take_facts),
        TEST(test_reset),
        TEST(test_adopt),
        TEST(test_unlink),
        TEST(test_unlink_on_a_failing_disk),
        TEST(test_without_memory),
    };

    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
