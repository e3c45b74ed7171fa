/* A segment's index files: written, read back, and not believed. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "codec/crc32c.h"
#include "store/segment.h"

enum { BASE = 42, BATCHES = 40 };

#define NAME(suffix) "00000000000000000042" suffix

static mk_segment *new_segment(posix_world *world)
{
    mk_segment *segment = NULL;

    assert_ok(mk_segment_new(&world->heap, BASE, &segment, NULL));
    return segment;
}

/* Note `count` more batches, each with an entry in both indexes, but for the
 * first of all. */
static void grow(mk_segment *segment, int count)
{
    for (int i = 0; i < count; i++) {
        mk_batch batch = plain_batch(segment->next_offset);

        batch.size = 100;
        batch.max_timestamp = 1000 + segment->next_offset;
        assert_ok(mk_segment_note(segment, &batch, 0, NULL));
    }
}

static mk_status write_to(mk_segment *segment, posix_world *world, mk_vfs *vfs)
{
    return mk_segment_write_indexes(segment, vfs, world->root, NULL);
}

static mk_status load_from(mk_segment *segment, posix_world *world, mk_vfs *vfs,
                           mk_error *err)
{
    return mk_segment_load_indexes(segment, vfs, world->root, err);
}

/* The files hold exactly the segment's entries. */
static void assert_files(posix_world *world, const mk_segment *segment)
{
    uint8_t expected[4096];
    size_t size, wanted;
    uint8_t *bytes = get_file(world, NAME(".index"), &size);

    wanted = segment->offsets.count * 8;
    mk_offset_index_encode(&segment->offsets, 0, expected);
    assert_int_equal(size, wanted);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
    bytes = get_file(world, NAME(".timeindex"), &size);
    wanted = segment->times.count * 12;
    mk_time_index_encode(&segment->times, 0, expected);
    assert_int_equal(size, wanted);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
}

/* Have both the same entries? */
static void assert_same_entries(const mk_segment *a, const mk_segment *b)
{
    uint8_t bytes_a[4096], bytes_b[4096];

    assert_int_equal(a->offsets.count, b->offsets.count);
    mk_offset_index_encode(&a->offsets, 0, bytes_a);
    mk_offset_index_encode(&b->offsets, 0, bytes_b);
    assert_memory_equal(bytes_a, bytes_b, a->offsets.count * 8);
    assert_int_equal(a->times.count, b->times.count);
    mk_time_index_encode(&a->times, 0, bytes_a);
    mk_time_index_encode(&b->times, 0, bytes_b);
    assert_memory_equal(bytes_a, bytes_b, a->times.count * 12);
}

/* Facts tell of the entries as they are now: those of the files. */
static void assert_checksum(posix_world *world, const mk_segment *segment)
{
    static const char *const names[] = {NAME(".index"), NAME(".timeindex")};
    mk_segment_facts facts;
    uint32_t sums[LENGTH(names)];
    uint8_t times[4];

    for (size_t i = 0; i < LENGTH(names); i++) {
        size_t size;
        uint8_t *bytes = get_file(world, names[i], &size);

        sums[i] = mk_crc32c(0, bytes, size);
        free(bytes);
    }
    mk_store_u32(times, sums[1]);
    mk_segment_get_facts(segment, &facts);
    assert_int_equal(facts.index_checksum, mk_crc32c(sums[0], times, 4));
}

/* A copy of the segment that knows its facts alone. */
static mk_segment *facts_only(posix_world *world, const mk_segment *segment)
{
    mk_segment *copy = new_segment(world);
    mk_segment_facts facts;

    mk_segment_get_facts(segment, &facts);
    mk_segment_take_facts(copy, &facts);
    return copy;
}

/* ---- Writing ---- */

/* Both files are there even without entries, and then grow with them. */
static void test_write(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);

    assert_ok(write_to(segment, world, world->vfs));
    assert_files(world, segment);
    for (int i = 0; i < BATCHES; i++) {
        grow(segment, i % 3);
        assert_ok(write_to(segment, world, world->vfs));
        assert_files(world, segment);
    }
    assert_true(segment->offsets.count >= BATCHES - 3);
    assert_ok(mk_segment_finish_times(segment, NULL));
    assert_ok(write_to(segment, world, world->vfs));
    assert_files(world, segment);
    mk_segment_free(segment);
}

/* Only what the files lack is written, and nothing when they lack nothing. */
static void test_write_what_is_missing(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    traced_disk disk;
    uint8_t *bytes;
    size_t size;

    traced_init(&disk, world);
    grow(segment, 10);
    assert_ok(write_to(segment, world, &disk.base));
    traced_restart(&disk, 0);
    assert_ok(write_to(segment, world, &disk.base));
    assert_string_equal(disk.trace, "");
    /* Change what is there: it must stay, so it was not written again. */
    change_file(world, NAME(".index"), "12345678", 8);
    grow(segment, 1);
    assert_ok(write_to(segment, world, &disk.base));
    assert_int_equal(size_on_disk(world, NAME(".index")), 10 * 8);
    bytes = get_file(world, NAME(".index"), &size);
    assert_memory_equal(bytes, "12345678", 8);
    assert_int_equal(mk_load_u32(bytes + 72), 10);
    free(bytes);
    mk_segment_free(segment);
}

/* Files of a stranger, longer ones, are replaced. */
static void test_write_over_others(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    char junk[3000];

    memset(junk, 'j', sizeof junk);
    put_file(world, NAME(".index"), junk, sizeof junk);
    put_file(world, NAME(".timeindex"), junk, sizeof junk);
    assert_ok(write_to(segment, world, world->vfs));
    assert_files(world, segment);
    grow(segment, 5);
    assert_ok(write_to(segment, world, world->vfs));
    assert_files(world, segment);
    /* After a reset the files have entries of what is no more. */
    mk_segment_reset(segment);
    grow(segment, 3);
    assert_ok(write_to(segment, world, world->vfs));
    assert_files(world, segment);
    mk_segment_free(segment);
}

/* Whatever failed, the next write makes it good, with more entries too. */
static void test_write_to_a_failing_disk(void **state)
{
    posix_world *world = *state;
    traced_disk disk;

    traced_init(&disk, world);
    for (int begun = 0; begun < 2; begun++) {
        for (long n = 1; n <= 6; n++) {
            mk_segment *segment = new_segment(world);

            grow(segment, 5);
            if (begun) {
                assert_ok(write_to(segment, world, &disk.base));
                grow(segment, 5);
            }
            traced_restart(&disk, n);
            assert_status(write_to(segment, world, &disk.base), MK_IO);
            traced_restart(&disk, 0);
            if (n % 2 == 0) grow(segment, 3);
            assert_ok(write_to(segment, world, &disk.base));
            assert_files(world, segment);
            mk_segment_free(segment);
        }
    }
}

/* ---- Reading ---- */

/* What was written is read, once, and can grow on. */
static void test_load(void **state)
{
    posix_world *world = *state;

    for (int count = 0; count <= BATCHES; count += 5) {
        mk_segment *segment = new_segment(world);
        mk_segment *loaded;
        traced_disk disk;

        grow(segment, count);
        assert_ok(mk_segment_finish_times(segment, NULL));
        assert_ok(write_to(segment, world, world->vfs));
        loaded = facts_only(world, segment);
        traced_init(&disk, world);
        assert_ok(load_from(loaded, world, &disk.base, NULL));
        assert_true(loaded->indexes_loaded);
        assert_same_entries(loaded, segment);
        traced_restart(&disk, 0);
        assert_ok(load_from(loaded, world, &disk.base, NULL));
        assert_ok(write_to(loaded, world, &disk.base));
        assert_string_equal(disk.trace, "");
        assert_checksum(world, loaded);
        grow(loaded, 3);
        assert_ok(write_to(loaded, world, world->vfs));
        assert_files(world, loaded);
        assert_checksum(world, loaded);
        mk_segment_free(segment);
        mk_segment_free(loaded);
    }
}

/* The last time entry, added to what was loaded, counts in the facts, too. */
static void test_finish_after_loading(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *loaded;

    grow(segment, 1);
    assert_ok(write_to(segment, world, world->vfs));
    loaded = facts_only(world, segment);
    assert_ok(load_from(loaded, world, world->vfs, NULL));
    assert_ok(mk_segment_finish_times(loaded, NULL));
    assert_int_equal(loaded->times.count, 1);
    assert_ok(write_to(loaded, world, world->vfs));
    assert_files(world, loaded);
    assert_checksum(world, loaded);
    mk_segment_free(segment);
    mk_segment_free(loaded);
}

static void assert_corrupt(mk_segment *segment, posix_world *world)
{
    mk_error err = {0};

    assert_status(load_from(segment, world, world->vfs, &err),
                  MK_CORRUPT_INDEX);
    assert_status(err.status, MK_CORRUPT_INDEX);
    assert_false(segment->indexes_loaded);
}

/* A missing file, either of them, is a damaged one; so is one that is far too
 * large, which is not read. */
static void test_load_of_missing_files(void **state)
{
    static const char *const names[] = {NAME(".index"), NAME(".timeindex")};
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *loaded;

    grow(segment, 5);
    loaded = facts_only(world, segment);
    for (size_t i = 0; i < LENGTH(names); i++) {
        segment->index_files_good = false;
        assert_ok(write_to(segment, world, world->vfs));
        assert_int_equal(truncate(path_of(world, names[i]), INT64_C(1) << 40),
                         0);
        assert_corrupt(loaded, world);
        assert_int_equal(unlink(path_of(world, names[i])), 0);
        assert_corrupt(loaded, world);
    }
    mk_segment_free(segment);
    mk_segment_free(loaded);
}

typedef struct loading {
    posix_world *world;
    mk_segment *segment; /* All is known of it. */
    mk_segment *loaded;  /* Facts alone. */
    const char *name;    /* Of the file that is damaged. */
    size_t size;         /* Of the file undamaged. */
} loading;

static void check_refused(void *context, const uint8_t *bytes, size_t size)
{
    loading *l = context;

    change_file(l->world, l->name, bytes, size);
    assert_corrupt(l->loaded, l->world);
    mk_segment_reset(l->loaded);
    mk_segment_free(l->loaded);
    l->loaded = facts_only(l->world, l->segment);
}

/* With facts at hand no change to either file goes unnoticed. */
static void test_load_of_damaged_files(void **state)
{
    static const char *const names[] = {NAME(".index"), NAME(".timeindex")};
    loading l = {.world = *state};

    l.segment = new_segment(l.world);
    grow(l.segment, 10);
    l.loaded = facts_only(l.world, l.segment);
    for (size_t i = 0; i < LENGTH(names); i++) {
        uint8_t *bytes;
        size_t size;

        assert_ok(write_to(l.segment, l.world, l.world->vfs));
        bytes = get_file(l.world, names[i], &size);
        l.name = names[i];
        each_damage(bytes, size, check_refused, &l);
        change_file(l.world, names[i], bytes, size);
        free(bytes);
    }
    assert_ok(load_from(l.loaded, l.world, l.world->vfs, NULL));
    assert_same_entries(l.loaded, l.segment);
    mk_segment_free(l.segment);
    mk_segment_free(l.loaded);
}

/* Another segment's files, sound in themselves, are not taken for ours. */
static void test_load_of_another_segment(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *other = new_segment(world);
    mk_segment *loaded;

    grow(segment, 10);
    grow(other, 1);
    other->next_offset++;
    grow(other, 9);
    assert_int_equal(other->offsets.count, segment->offsets.count);
    loaded = facts_only(world, segment);
    assert_ok(write_to(other, world, world->vfs));
    assert_corrupt(loaded, world);
    mk_segment_free(segment);
    mk_segment_free(other);
    mk_segment_free(loaded);
}

/* Entries that came after the facts are left aside. */
static void test_load_of_more_than_the_facts(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *loaded;

    grow(segment, 6);
    loaded = facts_only(world, segment);
    grow(segment, 6);
    assert_ok(write_to(segment, world, world->vfs));
    assert_ok(load_from(loaded, world, world->vfs, NULL));
    assert_int_equal(loaded->offsets.count, 5);
    assert_int_equal(loaded->times.count, 5);
    assert_int_equal(loaded->log_bytes, 600);
    mk_segment_free(segment);
    mk_segment_free(loaded);
}

/* ... and are gone from the files once those are brought up to the entries: a
 * power loss can take the log's end and leave the indexes', and whoever else
 * reads the files believes all that is in them. */
static void test_write_after_loading_more(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *loaded;

    grow(segment, 6);
    loaded = facts_only(world, segment);
    grow(segment, 6);
    assert_ok(write_to(segment, world, world->vfs));
    assert_ok(load_from(loaded, world, world->vfs, NULL));
    grow(loaded, 1);
    assert_ok(mk_segment_finish_times(loaded, NULL));
    assert_ok(write_to(loaded, world, world->vfs));
    mk_segment_free(segment);
    assert_files(world, loaded);
    mk_segment_free(loaded);
}

static void check_unconfirmed(void *context, const uint8_t *bytes, size_t size)
{
    loading *l = context;

    change_file(l->world, l->name, bytes, size);
    l->segment->index_files_good = false;
    assert_ok(mk_segment_confirm_indexes(l->segment, l->world->vfs,
                                         l->world->root, NULL));
    assert_false(l->segment->index_files_good);
}

/* Files that hold just what is in memory need not be written; any others, or
 * missing ones, are. */
static void test_confirm(void **state)
{
    static const char *const names[] = {NAME(".index"), NAME(".timeindex")};
    loading l = {.world = *state};
    mk_segment *same = new_segment(l.world);
    traced_disk disk;

    traced_init(&disk, l.world);
    l.segment = new_segment(l.world);
    grow(l.segment, 5);
    grow(same, 5);
    assert_ok(write_to(l.segment, l.world, l.world->vfs));
    assert_ok(
        mk_segment_confirm_indexes(same, l.world->vfs, l.world->root, NULL));
    assert_ok(write_to(same, l.world, &disk.base));
    assert_string_equal(disk.trace, "");
    grow(same, 1);
    assert_ok(write_to(same, l.world, l.world->vfs));
    assert_files(l.world, same);
    mk_segment_free(same);
    for (size_t i = 0; i < LENGTH(names); i++) {
        size_t size;
        uint8_t *bytes;

        l.segment->index_files_good = false;
        assert_ok(write_to(l.segment, l.world, l.world->vfs));
        bytes = get_file(l.world, names[i], &size);
        l.name = names[i];
        each_damage(bytes, size, check_unconfirmed, &l);
        bytes[size] = 0;
        check_unconfirmed(&l, bytes, size + 1);
        free(bytes);
        assert_int_equal(unlink(path_of(l.world, names[i])), 0);
        assert_ok(mk_segment_confirm_indexes(l.segment, l.world->vfs,
                                             l.world->root, NULL));
        assert_false(l.segment->index_files_good);
        assert_ok(write_to(l.segment, l.world, l.world->vfs));
        assert_files(l.world, l.segment);
    }
    mk_segment_free(l.segment);
}

/* A failure to read is none of the files' damage. */
static void test_load_from_a_failing_disk(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *loaded;
    traced_disk disk;

    grow(segment, 5);
    assert_ok(write_to(segment, world, world->vfs));
    loaded = facts_only(world, segment);
    traced_init(&disk, world);
    for (long n = 1; n <= 7; n++) {
        if (n == 4) continue; /* Closing what was only read. */
        traced_restart(&disk, n);
        assert_status(load_from(loaded, world, &disk.base, NULL), MK_IO);
        assert_false(loaded->indexes_loaded);
    }
    traced_restart(&disk, 0);
    assert_ok(load_from(loaded, world, &disk.base, NULL));
    assert_same_entries(loaded, segment);
    mk_segment_free(segment);
    mk_segment_free(loaded);
}

/* Indexes that were given back come again, and meanwhile count as before. */
static void test_unload(void **state)
{
    posix_world *world = *state;
    mk_segment *segment = new_segment(world);
    mk_segment *whole = new_segment(world);
    mk_segment_facts before, after;

    grow(segment, 20);
    grow(whole, 20);
    assert_ok(write_to(segment, world, world->vfs));
    mk_segment_get_facts(segment, &before);
    mk_segment_unload_indexes(segment);
    assert_false(segment->indexes_loaded);
    assert_int_equal(segment->offsets.capacity, 0);
    assert_int_equal(segment->times.capacity, 0);
    assert_int_equal(mk_segment_index_bytes(segment),
                     mk_segment_index_bytes(whole));
    mk_segment_get_facts(segment, &after);
    assert_int_equal(after.index_checksum, before.index_checksum);
    assert_int_equal(after.offset_entries, before.offset_entries);
    assert_int_equal(after.time_entries, before.time_entries);
    assert_ok(load_from(segment, world, world->vfs, NULL));
    assert_same_entries(segment, whole);
    grow(segment, 2);
    assert_ok(write_to(segment, world, world->vfs));
    assert_files(world, segment);
    mk_segment_free(segment);
    mk_segment_free(whole);
}

/* ---- Memory ---- */

static mk_status act_write(void *context, mk_error *err)
{
    loading *l = context;

    return mk_segment_write_indexes(l->segment, l->world->vfs, l->world->root,
                                    err);
}

static void check_entries(void *context)
{
    const loading *l = context;

    assert_int_equal(l->segment->offsets.count, 19);
    assert_int_equal(l->segment->times.count, 19);
}

static mk_status act_load(void *context, mk_error *err)
{
    loading *l = context;

    return load_from(l->loaded, l->world, l->world->vfs, err);
}

static void check_unloaded(void *context)
{
    const loading *l = context;

    assert_false(l->loaded->indexes_loaded);
    assert_int_equal(mk_segment_index_bytes(l->loaded), 19 * 20);
}

static mk_status act_confirm(void *context, mk_error *err)
{
    loading *l = context;

    l->segment->index_files_good = false;
    return mk_segment_confirm_indexes(l->segment, l->world->vfs, l->world->root,
                                      err);
}

static void test_without_memory(void **state)
{
    loading l = {.world = *state};

    l.segment = new_segment(l.world);
    grow(l.segment, 20);
    assert_true(sweep_heap(l.world, act_write, check_entries, &l) >= 2);
    assert_files(l.world, l.segment);
    assert_true(sweep_heap(l.world, act_confirm, check_entries, &l) >= 4);
    assert_true(l.segment->index_files_good);
    l.loaded = facts_only(l.world, l.segment);
    assert_true(sweep_heap(l.world, act_load, check_unloaded, &l) >= 4);
    assert_same_entries(l.loaded, l.segment);
    mk_segment_free(l.segment);
    mk_segment_free(l.loaded);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_write),
        TEST(test_write_what_is_missing),
        TEST(test_write_over_others),
        TEST(test_write_to_a_failing_disk),
        TEST(test_load),
        TEST(test_finish_after_loading),
        TEST(test_load_of_missing_files),
        TEST(test_load_of_damaged_files),
        TEST(test_load_of_another_segment),
        TEST(test_load_of_more_than_the_facts),
        TEST(test_confirm),
        TEST(test_load_from_a_failing_disk),
        TEST(test_unload),
        TEST(test_without_memory),
        TEST(test_write_after_loading_more),
    };

    return cmocka_run_group_tests_name("segment_files", tests, NULL, NULL);
}
