/* Time indexes: what gets in, what is found, and trusting no file. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/time_index.h"

enum { BASE = 1000, ENTRIES = 40 };

static mk_time_index new_index(posix_world *world, int64_t base_offset)
{
    mk_time_index index;

    mk_time_index_init(&index, &world->heap, base_offset);
    return index;
}

/* Add entries with chance gaps; offsets may repeat, times grow. */
static void fill(mk_time_index *index, size_t count, uint64_t *seed)
{
    int64_t offset = index->base_offset;
    int64_t timestamp_ms = (int64_t)draw(seed, 5);

    for (size_t i = 0; i < count; i++) {
        assert_ok(mk_time_index_maybe_add(index, timestamp_ms, offset, NULL));
        assert_int_equal(index->count, i + 1);
        offset += (int64_t)draw(seed, 3);
        timestamp_ms += 1 + (int64_t)draw(seed, 4);
    }
}

static void assert_entry(mk_time_entry entry, int64_t timestamp_ms,
                         int64_t offset)
{
    assert_int_equal(entry.timestamp_ms, timestamp_ms);
    assert_int_equal(entry.offset, offset);
}

/* Only a time greater than all before it gets in; -1 and less never does. */
static void test_maybe_add(void **state)
{
    mk_time_index index = new_index(*state, BASE);

    assert_ok(mk_time_index_maybe_add(&index, -1, BASE + 1, NULL));
    assert_ok(mk_time_index_maybe_add(&index, INT64_MIN, BASE + 1, NULL));
    assert_int_equal(index.count, 0);
    assert_ok(mk_time_index_maybe_add(&index, 0, BASE + 2, NULL));
    assert_int_equal(index.count, 1);
    assert_ok(mk_time_index_maybe_add(&index, 0, BASE + 3, NULL));
    assert_ok(mk_time_index_maybe_add(&index, -1, BASE + 3, NULL));
    assert_int_equal(index.count, 1);
    assert_entry(index.entries[0], 0, BASE + 2);
    assert_ok(mk_time_index_maybe_add(&index, INT64_MAX, BASE + 2, NULL));
    assert_int_equal(index.count, 2);
    assert_entry(index.entries[1], INT64_MAX, BASE + 2);
    assert_ok(mk_time_index_maybe_add(&index, INT64_MAX, BASE + 9, NULL));
    assert_int_equal(index.count, 2);
    mk_time_index_deinit(&index);
}

static mk_time_entry slow_lookup(const mk_time_index *index,
                                 int64_t timestamp_ms)
{
    mk_time_entry found = {-1, index->base_offset};

    for (size_t i = 0; i < index->count; i++) {
        if (index->entries[i].timestamp_ms <= timestamp_ms) {
            found = index->entries[i];
        }
    }
    return found;
}

static void assert_lookup(const mk_time_index *index, int64_t timestamp_ms)
{
    mk_time_entry expected = slow_lookup(index, timestamp_ms);

    assert_entry(mk_time_index_lookup(index, timestamp_ms),
                 expected.timestamp_ms, expected.offset);
}

/* Every time in and around the index is looked up as by walking. */
static void test_lookup(void **state)
{
    uint64_t seed = 1;

    for (size_t count = 0; count <= ENTRIES; count++) {
        mk_time_index index = new_index(*state, BASE);

        fill(&index, count, &seed);
        for (int64_t time_ms = -3; time_ms < 6 * ENTRIES; time_ms++) {
            assert_lookup(&index, time_ms);
        }
        assert_lookup(&index, INT64_MIN);
        assert_lookup(&index, INT64_MAX);
        mk_time_index_deinit(&index);
    }
}

static void test_lookup_by_hand(void **state)
{
    mk_time_index index = new_index(*state, BASE);

    assert_entry(mk_time_index_lookup(&index, 5), -1, BASE);
    assert_ok(mk_time_index_maybe_add(&index, 10, BASE + 4, NULL));
    assert_ok(mk_time_index_maybe_add(&index, 20, BASE + 4, NULL));
    assert_entry(mk_time_index_lookup(&index, 9), -1, BASE);
    assert_entry(mk_time_index_lookup(&index, 10), 10, BASE + 4);
    assert_entry(mk_time_index_lookup(&index, 19), 10, BASE + 4);
    assert_entry(mk_time_index_lookup(&index, 20), 20, BASE + 4);
    assert_entry(mk_time_index_lookup(&index, INT64_MAX), 20, BASE + 4);
    mk_time_index_deinit(&index);
}

/* ---- The file ---- */

static void test_encode(void **state)
{
    mk_time_index index = new_index(*state, BASE);
    uint8_t whole[ENTRIES * MK_TIME_ENTRY_SIZE];
    uint64_t seed = 3;

    assert_ok(mk_time_index_maybe_add(&index, INT64_C(0x0102030405060708),
                                      BASE + 0x090a0b0c, NULL));
    mk_time_index_encode(&index, 0, whole);
    assert_memory_equal(whole, "\1\2\3\4\5\6\7\10\x9\xa\xb\xc", 12);
    index.count = 0;
    fill(&index, ENTRIES, &seed);
    mk_time_index_encode(&index, 0, whole);
    for (size_t from = 0; from <= ENTRIES; from++) {
        size_t size = (ENTRIES - from) * MK_TIME_ENTRY_SIZE;
        uint8_t *part = malloc(size);

        assert_non_null(part);
        mk_time_index_encode(&index, from, part);
        assert_memory_equal(part, whole + from * MK_TIME_ENTRY_SIZE, size);
        free(part);
    }
    mk_time_index_deinit(&index);
}

/* What was encoded comes back, in place of what the index had. */
static void test_round_trip(void **state)
{
    mk_time_index back = new_index(*state, BASE);
    uint64_t seed = 4;

    for (size_t count = 0; count <= ENTRIES; count++) {
        mk_time_index index = new_index(*state, BASE);
        size_t size = count * MK_TIME_ENTRY_SIZE;
        uint8_t *bytes = malloc(size);

        assert_non_null(bytes);
        fill(&index, count, &seed);
        mk_time_index_encode(&index, 0, bytes);
        assert_ok(mk_time_index_decode(&back, (mk_span){bytes, size},
                                       BASE + 1000, NULL));
        assert_int_equal(back.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_entry(back.entries[i], index.entries[i].timestamp_ms,
                         index.entries[i].offset);
        }
        free(bytes);
        mk_time_index_deinit(&index);
    }
    mk_time_index_deinit(&back);
    assert_int_equal(back.base_offset, BASE);
    assert_ok(mk_time_index_maybe_add(&back, 1, BASE, NULL));
    mk_time_index_deinit(&back);
    mk_time_index_deinit(&back);
}

#define T "\0\0\0\0\0\0\0" /* A time of one byte, which follows. */

/* What a file can be damaged to, and where the error says so. */
static void test_decode_refuses(void **state)
{
    static const struct {
        const char *what, *bytes;
        size_t size;
        int64_t position;
    } cases[] = {
        {"torn", T "\1\0\0\0", 11, 11},
        {"torn later", T "\1\0\0\0\1" T, 19, 19},
        {"a time repeated", T "\1\0\0\0\1" T "\1\0\0\0\2", 24, 12},
        {"a time falls", T "\2\0\0\0\1" T "\1\0\0\0\2", 24, 12},
        {"an offset falls", T "\1\0\0\0\2" T "\2\0\0\0\1", 24, 12},
        {"at the next offset", T "\1\0\0\0\1" T "\2\0\0\0\x9", 24, 12},
        {"beyond the next offset", T "\1\0\0\0\xa", 12, 0},
        {"an offset of 32 bits", T "\1\x80\0\0\0", 12, 0},
        {"the largest offset", T "\1\xff\xff\xff\xff", 12, 0},
        {"a time of -1", "\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\1", 12, 0},
        {"a negative time", "\x80\0\0\0\0\0\0\0\0\0\0\1", 12, 0},
    };
    mk_time_index index = new_index(*state, BASE);

    for (size_t i = 0; i < LENGTH(cases); i++) {
        uint8_t *bytes = exact_copy(cases[i].bytes, cases[i].size);
        mk_error err = {0};
        mk_status status;

        index.count = 0;
        assert_ok(mk_time_index_maybe_add(&index, 5, BASE, NULL));
        status = mk_time_index_decode(&index, (mk_span){bytes, cases[i].size},
                                      BASE + 9, &err);
        free(bytes);
        if (status != MK_CORRUPT_INDEX || err.position != cases[i].position) {
            fail_msg("%s: %s at %" PRId64, cases[i].what,
                     mk_status_name(status), err.position);
        }
        assert_int_equal(index.count, 0);
    }
    mk_time_index_deinit(&index);
}

typedef struct damage {
    mk_time_index index;
    int64_t next_offset;
    long refused, accepted;
} damage;

static int64_t time_at(const uint8_t *bytes, size_t i)
{
    return (int64_t)mk_load_u64(bytes + i * MK_TIME_ENTRY_SIZE);
}

static int64_t relative_at(const uint8_t *bytes, size_t i)
{
    return (int64_t)mk_load_u32(bytes + i * MK_TIME_ENTRY_SIZE + 8);
}

/* May entry number `i` follow the one before? `reach` is where the segment
 * ends, relative to its base. */
static bool slow_is_sound(const uint8_t *bytes, size_t i, int64_t reach)
{
    if (time_at(bytes, i) < 0 || relative_at(bytes, i) >= reach) return false;
    return i == 0 || (time_at(bytes, i) > time_at(bytes, i - 1) &&
                      relative_at(bytes, i) >= relative_at(bytes, i - 1));
}

static void check_damaged(void *context, const uint8_t *bytes, size_t size)
{
    damage *d = context;
    int64_t base = d->index.base_offset;
    mk_status status = mk_time_index_decode(&d->index, (mk_span){bytes, size},
                                            d->next_offset, NULL);
    size_t count = size / MK_TIME_ENTRY_SIZE;
    bool sound = size % MK_TIME_ENTRY_SIZE == 0;

    for (size_t i = 0; sound && i < count; i++) {
        sound = slow_is_sound(bytes, i, d->next_offset - base);
    }
    assert_status(status, sound ? MK_OK : MK_CORRUPT_INDEX);
    assert_int_equal(d->index.count, sound ? count : 0);
    for (size_t i = 0; i < d->index.count; i++) {
        assert_entry(d->index.entries[i], time_at(bytes, i),
                     base + relative_at(bytes, i));
    }
    d->accepted += sound;
    d->refused += !sound;
}

static void damage_at(posix_world *world, int64_t base)
{
    damage d = {.index = new_index(world, base)};
    mk_time_index index = new_index(world, base);
    uint8_t bytes[20 * MK_TIME_ENTRY_SIZE];
    uint64_t seed = 5;

    fill(&index, 20, &seed);
    mk_time_index_encode(&index, 0, bytes);
    d.next_offset = index.entries[19].offset + 1;
    each_damage(bytes, sizeof bytes, check_damaged, &d);
    assert_true(d.refused > 500);
    assert_true(d.accepted > 50);
    mk_time_index_deinit(&d.index);
    mk_time_index_deinit(&index);
}

/* Every cut and every changed byte is refused, or read as it stands. */
static void test_decode_damaged(void **state)
{
    damage_at(*state, BASE);
}

/* The same at the far end of all offsets, where a damaged entry's offset is no
 * number. */
static void test_decode_damaged_at_the_end(void **state)
{
    damage_at(*state, INT64_MAX - 100);
}

/* ---- Memory ---- */

typedef struct filling {
    mk_time_index index;
    size_t count; /* Before the call. */
    mk_span bytes;
} filling;

static mk_status add_one(void *context, mk_error *err)
{
    filling *f = context;

    f->count = f->index.count;
    return mk_time_index_maybe_add(&f->index, (int64_t)f->count,
                                   BASE + (int64_t)f->count, err);
}

static void check_count(void *context)
{
    const filling *f = context;

    assert_int_equal(f->index.count, f->count);
    for (size_t i = 0; i < f->count; i++) {
        assert_int_equal(f->index.entries[i].timestamp_ms, i);
    }
}

static mk_status decode_all(void *context, mk_error *err)
{
    filling *f = context;

    return mk_time_index_decode(&f->index, f->bytes, BASE + 1000, err);
}

static void check_empty(void *context)
{
    const filling *f = context;

    assert_int_equal(f->index.count, 0);
    assert_entry(mk_time_index_lookup(&f->index, 50), -1, BASE);
}

static void test_without_memory(void **state)
{
    posix_world *world = *state;
    filling f = {.index = new_index(world, BASE)};
    uint8_t bytes[100 * MK_TIME_ENTRY_SIZE];
    long failed = 0;

    for (int i = 0; i < 100; i++) {
        failed += sweep_heap(world, add_one, check_count, &f);
    }
    assert_true(failed >= 4);
    assert_int_equal(f.index.count, 100);
    mk_time_index_encode(&f.index, 0, bytes);
    mk_time_index_deinit(&f.index);

    f.bytes = (mk_span){bytes, sizeof bytes};
    assert_ok(mk_time_index_maybe_add(&f.index, 5, BASE, NULL));
    assert_int_equal(sweep_heap(world, decode_all, check_empty, &f), 1);
    assert_int_equal(f.index.count, 100);
    mk_time_index_deinit(&f.index);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_maybe_add),
        TEST(test_lookup),
        TEST(test_lookup_by_hand),
        TEST(test_encode),
        TEST(test_round_trip),
        TEST(test_decode_refuses),
        TEST(test_decode_damaged),
        TEST(test_without_memory),
        TEST(test_decode_damaged_at_the_end),
    };

    return cmocka_run_group_tests_name("time_index", tests, NULL, NULL);
}
