/* Offset indexes: looking up, cutting, and trusting no file. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/offset_index.h"

enum { BASE = 1000, ENTRIES = 40 };

static mk_span no_bytes(void)
{
    return (mk_span){NULL, 0};
}

static mk_offset_index new_index(posix_world *world, int64_t base_offset)
{
    mk_offset_index index;

    mk_offset_index_init(&index, &world->heap, base_offset);
    return index;
}

/* Add entries with chance gaps between them. */
static void fill(mk_offset_index *index, size_t count, uint64_t *seed)
{
    int64_t offset = index->base_offset + (int64_t)draw(seed, 5);
    int64_t position = (int64_t)draw(seed, 100);

    for (size_t i = 0; i < count; i++) {
        assert_ok(mk_offset_index_add(index, offset, position, NULL));
        offset += 1 + (int64_t)draw(seed, 4);
        position += 1 + (int64_t)draw(seed, 300);
    }
}

/* ---- Looking up ---- */

/* The number of entries at or before the offset, one by one. */
static size_t slow_count(const mk_offset_index *index, int64_t offset)
{
    size_t count = 0;

    for (size_t i = 0; i < index->count; i++) {
        count +=
            index->base_offset + index->entries[i].relative_offset <= offset;
    }
    return count;
}

static int64_t slow_position(const mk_offset_index *index, size_t i)
{
    return i < index->count ? (int64_t)index->entries[i].position : -1;
}

static void assert_lookup(const mk_offset_index *index, int64_t offset)
{
    mk_scan_start start = mk_offset_index_lookup(index, offset);
    size_t count = slow_count(index, offset);

    assert_int_equal(start.hinted, count > 0);
    assert_int_equal(start.position,
                     count > 0 ? slow_position(index, count - 1) : 0);
    assert_int_equal(start.next, slow_position(index, count));
    assert_int_equal(start.after, slow_position(index, count + 1));
}

/* Every offset in and around the index is looked up as by counting. */
static void test_lookup(void **state)
{
    uint64_t seed = 1;

    for (size_t count = 0; count <= ENTRIES; count++) {
        mk_offset_index index = new_index(*state, BASE);

        fill(&index, count, &seed);
        for (int64_t offset = BASE; offset < BASE + 6 * ENTRIES; offset++) {
            assert_lookup(&index, offset);
        }
        assert_lookup(&index, INT64_MAX);
        mk_offset_index_deinit(&index);
    }
}

/* A large index, of even steps and of very uneven ones. */
static void test_lookup_in_a_large_index(void **state)
{
    for (int64_t even = 0; even <= 1; even++) {
        mk_offset_index index = new_index(*state, BASE);

        for (int64_t i = 0; i < 1000; i++) {
            int64_t step = even ? 30 * i : i < 500 ? i : i * i;

            assert_ok(
                mk_offset_index_add(&index, BASE + 1 + step, 4000 * i, NULL));
        }
        for (int64_t offset = BASE - 1; offset < BASE + 40000; offset++) {
            if (offset % 7 < 2) assert_lookup(&index, offset);
        }
        assert_lookup(&index, BASE + 999 * 999);
        assert_lookup(&index, BASE + 999 * 999 + 1);
        assert_lookup(&index, INT64_MAX);
        mk_offset_index_deinit(&index);
    }
}

/* Where a batch ends if all between two entries are alike. */
static void test_likely_end(void **state)
{
    mk_offset_index index = new_index(*state, BASE);

    assert_ok(mk_offset_index_add(&index, BASE + 9, 1000, NULL));
    assert_ok(mk_offset_index_add(&index, BASE + 19, 2005, NULL));
    for (int64_t i = 0; i < 10; i++) {
        mk_scan_start start = mk_offset_index_lookup(&index, BASE + 9 + i);

        assert_int_equal(start.likely_end, 1000 + (1005 * (i + 1) + 9) / 10);
    }
    assert_int_equal(mk_offset_index_lookup(&index, BASE).likely_end, 112);
    assert_int_equal(mk_offset_index_lookup(&index, BASE - 1).likely_end, -1);
    assert_int_equal(mk_offset_index_lookup(&index, BASE + 19).likely_end, -1);
    mk_offset_index_deinit(&index);
}

/* Before the first entry a scan starts with the segment. */
static void test_lookup_by_hand(void **state)
{
    mk_offset_index index = new_index(*state, BASE);
    mk_scan_start start;

    assert_ok(mk_offset_index_add(&index, BASE + 7, 100, NULL));
    assert_ok(mk_offset_index_add(&index, BASE + 9, 250, NULL));
    start = mk_offset_index_lookup(&index, BASE + 6);
    assert_false(start.hinted);
    assert_int_equal(start.position, 0);
    assert_int_equal(start.next, 100);
    assert_int_equal(start.after, 250);
    start = mk_offset_index_lookup(&index, BASE + 7);
    assert_true(start.hinted);
    assert_int_equal(start.position, 100);
    assert_int_equal(start.next, 250);
    assert_int_equal(start.after, -1);
    start = mk_offset_index_lookup(&index, BASE + 1000);
    assert_int_equal(start.position, 250);
    assert_int_equal(start.next, -1);
    mk_offset_index_deinit(&index);
}

/* The format's limits: 31 bits of offset and position, from any base. */
static void test_limits(void **state)
{
    static const int64_t bases[] = {0, INT64_MAX - INT32_MAX - 1};

    for (size_t i = 0; i < LENGTH(bases); i++) {
        mk_offset_index index = new_index(*state, bases[i]);
        uint8_t bytes[16];

        assert_ok(mk_offset_index_add(&index, bases[i], 0, NULL));
        assert_ok(
            mk_offset_index_add(&index, bases[i] + INT32_MAX, INT32_MAX, NULL));
        mk_offset_index_encode(&index, 0, bytes);
        assert_memory_equal(bytes,
                            "\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\x7f\xff"
                            "\xff\xff",
                            16);
        assert_lookup(&index, bases[i]);
        assert_lookup(&index, bases[i] + INT32_MAX - 1);
        assert_lookup(&index, bases[i] + INT32_MAX);
        assert_lookup(&index, INT64_MAX);
        mk_offset_index_deinit(&index);
    }
}

/* ---- The file ---- */

/* Big-endian pairs, from any entry on, in exactly the room that they take. */
static void test_encode(void **state)
{
    mk_offset_index index = new_index(*state, BASE);
    uint8_t whole[ENTRIES * MK_OFFSET_ENTRY_SIZE];
    uint64_t seed = 3;

    assert_ok(mk_offset_index_add(&index, BASE + 0x01020304, 0x05060708, NULL));
    mk_offset_index_encode(&index, 0, whole);
    assert_memory_equal(whole, "\1\2\3\4\5\6\7\10", 8);
    index.count = 0;
    fill(&index, ENTRIES, &seed);
    mk_offset_index_encode(&index, 0, whole);
    for (size_t from = 0; from <= ENTRIES; from++) {
        size_t size = (ENTRIES - from) * MK_OFFSET_ENTRY_SIZE;
        uint8_t *part = malloc(size);

        assert_non_null(part);
        mk_offset_index_encode(&index, from, part);
        assert_memory_equal(part, whole + from * MK_OFFSET_ENTRY_SIZE, size);
        free(part);
    }
    mk_offset_index_deinit(&index);
}

static void assert_same(const mk_offset_index *a, const mk_offset_index *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->entries[i].relative_offset,
                         b->entries[i].relative_offset);
        assert_int_equal(a->entries[i].position, b->entries[i].position);
    }
}

/* What was encoded comes back, in place of what the index had. */
static void test_round_trip(void **state)
{
    mk_offset_index back = new_index(*state, BASE);
    uint64_t seed = 4;

    for (size_t count = 0; count <= ENTRIES; count++) {
        mk_offset_index index = new_index(*state, BASE);
        size_t size = count * MK_OFFSET_ENTRY_SIZE;
        uint8_t *bytes = malloc(size);

        assert_non_null(bytes);
        fill(&index, count, &seed);
        mk_offset_index_encode(&index, 0, bytes);
        assert_ok(mk_offset_index_decode(&back, (mk_span){bytes, size},
                                         INT32_MAX, NULL));
        assert_same(&index, &back);
        free(bytes);
        mk_offset_index_deinit(&index);
    }
    assert_ok(mk_offset_index_decode(&back, no_bytes(), 0, NULL));
    assert_int_equal(back.count, 0);
    mk_offset_index_deinit(&back);
    assert_int_equal(back.base_offset, BASE);
    assert_ok(mk_offset_index_add(&back, BASE, 0, NULL)); /* Usable again. */
    mk_offset_index_deinit(&back);
    mk_offset_index_deinit(&back);
}

/* What a file can be damaged to, and where the error says so. */
static void test_decode_refuses(void **state)
{
    static const struct {
        const char *what, *bytes;
        size_t size;
        int64_t log_bytes, position;
    } cases[] = {
        {"torn", "\0\0\0\1\0\0\0", 7, 1000, 7},
        {"torn later", "\0\0\0\1\0\0\0\2\0", 9, 1000, 9},
        {"an offset repeated", "\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\2", 16, 9, 8},
        {"an offset falls", "\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0\2", 16, 9, 8},
        {"a position repeated", "\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0\1", 16, 9, 8},
        {"a position falls", "\0\0\0\1\0\0\0\2\0\0\0\2\0\0\0\1", 16, 9, 8},
        {"at the log's end", "\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0\x9", 16, 9, 8},
        {"beyond the log's end", "\0\0\0\1\0\0\0\xa", 8, 9, 0},
        {"an empty log", "\0\0\0\0\0\0\0\0", 8, 0, 0},
        {"an offset of 32 bits", "\x80\0\0\0\0\0\0\1", 8, 9, 0},
        {"a position of 32 bits", "\0\0\0\1\x80\0\0\0", 8, INT32_MAX, 0},
    };
    mk_offset_index index = new_index(*state, BASE);

    for (size_t i = 0; i < LENGTH(cases); i++) {
        uint8_t *bytes = exact_copy(cases[i].bytes, cases[i].size);
        mk_error err = {0};
        mk_status status;

        index.count = 0;
        assert_ok(mk_offset_index_add(&index, BASE, 0, NULL));
        status = mk_offset_index_decode(&index, (mk_span){bytes, cases[i].size},
                                        cases[i].log_bytes, &err);
        free(bytes);
        if (status != MK_CORRUPT_INDEX || err.position != cases[i].position) {
            fail_msg("%s: %s at %" PRId64, cases[i].what,
                     mk_status_name(status), err.position);
        }
        assert_int_equal(index.count, 0);
    }
    mk_offset_index_deinit(&index);
}

typedef struct damage {
    mk_offset_index index;
    int64_t log_bytes;
    long refused, accepted;
} damage;

/* Read entry number `i` and say whether it may follow the one before. */
static bool slow_is_sound(const uint8_t *bytes, size_t i, int64_t log_bytes)
{
    const uint8_t *entry = bytes + i * 8;
    int64_t offset = mk_load_u32(entry), position = mk_load_u32(entry + 4);

    if (offset > INT32_MAX || position >= log_bytes) return false;
    if (i == 0) return true;
    return offset > (int64_t)mk_load_u32(entry - 8) &&
           position > (int64_t)mk_load_u32(entry - 4);
}

static void check_damaged(void *context, const uint8_t *bytes, size_t size)
{
    damage *d = context;
    mk_status status = mk_offset_index_decode(&d->index, (mk_span){bytes, size},
                                              d->log_bytes, NULL);
    bool sound = size % 8 == 0;

    for (size_t i = 0; sound && i < size / 8; i++) {
        sound = slow_is_sound(bytes, i, d->log_bytes);
    }
    assert_status(status, sound ? MK_OK : MK_CORRUPT_INDEX);
    assert_int_equal(d->index.count, sound ? size / 8 : 0);
    for (size_t i = 0; i < d->index.count; i++) {
        assert_int_equal(d->index.entries[i].relative_offset,
                         mk_load_u32(bytes + i * 8));
        assert_int_equal(d->index.entries[i].position,
                         mk_load_u32(bytes + i * 8 + 4));
    }
    d->accepted += sound;
    d->refused += !sound;
}

/* Every cut and every changed byte is refused, or read as it stands. */
static void test_decode_damaged(void **state)
{
    damage d = {.index = new_index(*state, BASE)};
    mk_offset_index index = new_index(*state, BASE);
    uint8_t bytes[20 * MK_OFFSET_ENTRY_SIZE];
    uint64_t seed = 5;

    fill(&index, 20, &seed);
    mk_offset_index_encode(&index, 0, bytes);
    d.log_bytes = index.entries[19].position + 1;
    each_damage(bytes, sizeof bytes, check_damaged, &d);
    assert_true(d.refused > 500);
    assert_true(d.accepted > 50);
    mk_offset_index_deinit(&d.index);
    mk_offset_index_deinit(&index);
}

/* ---- Memory ---- */

typedef struct filling {
    mk_offset_index index;
    size_t count; /* Before the call. */
    mk_span bytes;
} filling;

static mk_status add_one(void *context, mk_error *err)
{
    filling *f = context;

    f->count = f->index.count;
    return mk_offset_index_add(&f->index, BASE + (int64_t)f->count,
                               (int64_t)f->count, err);
}

static void check_count(void *context)
{
    const filling *f = context;

    assert_int_equal(f->index.count, f->count);
    for (size_t i = 0; i < f->count; i++) {
        assert_int_equal(f->index.entries[i].position, i);
    }
}

static mk_status decode_all(void *context, mk_error *err)
{
    filling *f = context;

    return mk_offset_index_decode(&f->index, f->bytes, 1000, err);
}

static void check_empty(void *context)
{
    const filling *f = context;

    assert_int_equal(f->index.count, 0);
    assert_int_equal(mk_offset_index_lookup(&f->index, BASE).next, -1);
}

static void test_without_memory(void **state)
{
    posix_world *world = *state;
    filling f = {.index = new_index(world, BASE)};
    uint8_t bytes[100 * MK_OFFSET_ENTRY_SIZE];
    long failed = 0;

    for (int i = 0; i < 100; i++) {
        failed += sweep_heap(world, add_one, check_count, &f);
    }
    assert_true(failed >= 4);
    assert_int_equal(f.index.count, 100);
    mk_offset_index_encode(&f.index, 0, bytes);
    mk_offset_index_deinit(&f.index);

    f.bytes = (mk_span){bytes, sizeof bytes};
    assert_ok(mk_offset_index_add(&f.index, BASE, 0, NULL));
    assert_int_equal(sweep_heap(world, decode_all, check_empty, &f), 1);
    assert_int_equal(f.index.count, 100);
    mk_offset_index_deinit(&f.index);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lookup),
        TEST(test_lookup_by_hand),
        TEST(test_lookup_in_a_large_index),
        TEST(test_likely_end),
        TEST(test_limits),
        TEST(test_encode),
        TEST(test_round_trip),
        TEST(test_decode_refuses),
        TEST(test_decode_damaged),
        TEST(test_without_memory),
    };

    return cmocka_run_group_tests_name("offset_index", tests, NULL, NULL);
}
