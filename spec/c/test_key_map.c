/* The map from keys to offsets, against a plain list of them. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "clean/key_map.h"

static mk_span span_of(const char *text)
{
    return (mk_span){(const uint8_t *)text, strlen(text)};
}

static void put(mk_key_map *map, const char *key, int64_t offset)
{
    assert_ok(mk_key_map_put(map, span_of(key), offset, NULL));
}

static void test_by_hand(void **state)
{
    posix_world *world = *state;
    mk_key_map map;

    mk_key_map_init(&map, &world->heap, 1);
    assert_int_equal(mk_key_map_get(&map, span_of("a")), -1);
    put(&map, "a", 0);
    put(&map, "b", 5);
    assert_int_equal(mk_key_map_get(&map, span_of("a")), 0);
    assert_int_equal(mk_key_map_get(&map, span_of("b")), 5);
    assert_int_equal(mk_key_map_get(&map, span_of("c")), -1);
    put(&map, "a", 6);
    put(&map, "b", INT64_MAX);
    assert_int_equal(mk_key_map_get(&map, span_of("a")), 6);
    assert_int_equal(mk_key_map_get(&map, span_of("b")), INT64_MAX);
    assert_int_equal(map.count, 2);
    mk_key_map_deinit(&map);
    assert_int_equal(mk_key_map_get(&map, span_of("a")), -1);
    put(&map, "a", 7); /* Usable again. */
    assert_int_equal(mk_key_map_get(&map, span_of("a")), 7);
    mk_key_map_deinit(&map);
    mk_key_map_deinit(&map);
}

/* Keys that are nearly the same are not: longer, shorter, with zeros, empty. */
static void test_similar_keys(void **state)
{
    posix_world *world = *state;
    uint8_t zeros[40] = {0};
    mk_key_map map;

    mk_key_map_init(&map, &world->heap, 2);
    for (size_t size = 0; size <= sizeof zeros; size++) {
        assert_int_equal(mk_key_map_get(&map, (mk_span){zeros, size}), -1);
        assert_ok(
            mk_key_map_put(&map, (mk_span){zeros, size}, (int64_t)size, NULL));
    }
    for (size_t i = 0; i < sizeof zeros; i++) {
        zeros[i] = 1;
        assert_int_equal(mk_key_map_get(&map, (mk_span){zeros, 40}), -1);
        assert_ok(
            mk_key_map_put(&map, (mk_span){zeros, 40}, 100 + (int64_t)i, NULL));
        zeros[i] = 0;
    }
    for (size_t size = 0; size <= sizeof zeros; size++) {
        assert_int_equal(mk_key_map_get(&map, (mk_span){zeros, size}), size);
    }
    for (size_t i = 0; i < sizeof zeros; i++) {
        zeros[i] = 1;
        assert_int_equal(mk_key_map_get(&map, (mk_span){zeros, 40}), 100 + i);
        zeros[i] = 0;
    }
    mk_key_map_deinit(&map);
}

/* An empty key is a key, whether or not it has an address, and no byte of it
 * is looked at. */
static void test_empty_key(void **state)
{
    posix_world *world = *state;
    uint8_t *nothing = exact_copy("", 0);
    mk_key_map map;

    mk_key_map_init(&map, &world->heap, 3);
    assert_ok(mk_key_map_put(&map, (mk_span){nothing, 0}, 4, NULL));
    assert_int_equal(map.count, 1);
    assert_int_equal(mk_key_map_get(&map, (mk_span){NULL, 0}), 4);
    assert_ok(mk_key_map_put(&map, (mk_span){NULL, 0}, 5, NULL));
    assert_int_equal(map.count, 1);
    assert_int_equal(mk_key_map_get(&map, (mk_span){nothing, 0}), 5);
    put(&map, "a", 6);
    assert_int_equal(mk_key_map_get(&map, (mk_span){nothing, 0}), 5);
    mk_key_map_deinit(&map);
    free(nothing);
}

/* The map has copies: the caller's bytes may go. */
static void test_keys_are_copied(void **state)
{
    posix_world *world = *state;
    char key[] = "key";
    mk_key_map map;

    mk_key_map_init(&map, &world->heap, 4);
    put(&map, key, 1);
    memset(key, 'x', 3);
    assert_int_equal(mk_key_map_get(&map, span_of("key")), 1);
    assert_int_equal(mk_key_map_get(&map, span_of(key)), -1);
    mk_key_map_deinit(&map);
}

/* Whoever knows the seed can make keys of one hash: their first eight bytes
 * undo what is mixed in, and make it 0. They are told apart all the same, by
 * size and by bytes. */
static void test_equal_hashes(void **state)
{
    const uint64_t seed = 9, undo = UINT64_C(0x8ebc6af09c88c6e3) ^ seed;
    posix_world *world = *state;
    uint8_t keys[8][32];
    mk_key_map map;

    mk_key_map_init(&map, &world->heap, seed);
    for (size_t i = 0; i < LENGTH(keys); i++) {
        memset(keys[i], (int)i / 2, 32);
        memcpy(keys[i], &undo, 8);
        memcpy(keys[i] + 16, &undo, 8);
        assert_ok(mk_key_map_put(&map, (mk_span){keys[i], i % 2 ? 32 : 16},
                                 (int64_t)i, NULL));
    }
    assert_int_equal(map.count, LENGTH(keys));
    for (size_t i = 0; i < map.slot_count; i++) {
        if (map.slots[i].offset >= 0) assert_int_equal(map.slots[i].hash, 0);
    }
    for (size_t i = 0; i < LENGTH(keys); i++) {
        assert_int_equal(
            mk_key_map_get(&map, (mk_span){keys[i], i % 2 ? 32 : 16}), i);
    }
    mk_key_map_deinit(&map);
}

/* ---- Many keys ---- */

enum { KEYS = 700 };

typedef struct plain_key {
    uint8_t *bytes; /* Owned; of exactly that size. */
    size_t size;
    int64_t offset;
} plain_key;

/* Keys of all sizes up to 80, all different: each has its number in it. */
static void draw_keys(plain_key *keys, uint64_t *seed)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        uint8_t bytes[80];
        size_t size = 2 + (size_t)draw(seed, sizeof bytes - 1);

        for (size_t j = 0; j < size; j++) {
            bytes[j] = (uint8_t)draw(seed, 3);
        }
        mk_store_u16(bytes + (size - 2 > 0 ? draw(seed, size - 1) : 0),
                     (uint16_t)i);
        keys[i] = (plain_key){exact_copy(bytes, size), size, -1};
        for (uint32_t j = 0; j < i; j++) {
            if (keys[j].size != size) continue;
            if (memcmp(keys[j].bytes, bytes, size) != 0) continue;
            free(keys[i--].bytes); /* Once more. */
            break;
        }
    }
}

static void free_keys(plain_key *keys)
{
    for (size_t i = 0; i < KEYS; i++) {
        free(keys[i].bytes);
    }
}

static void assert_as_listed(const mk_key_map *map, const plain_key *keys)
{
    size_t count = 0;

    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(
            mk_key_map_get(map, (mk_span){keys[i].bytes, keys[i].size}),
            keys[i].offset);
        count += keys[i].offset >= 0;
    }
    assert_int_equal(map->count, count);
}

/* Whatever the seed, the map knows what a list would. */
static void test_chance(void **state)
{
    static const uint64_t seeds[] = {0, 1, UINT64_MAX, 0x123456789abcdefu};
    posix_world *world = *state;
    plain_key keys[KEYS];
    uint64_t chance = 5;

    draw_keys(keys, &chance);
    for (size_t i = 0; i < LENGTH(seeds); i++) {
        mk_key_map map;

        mk_key_map_init(&map, &world->heap, seeds[i]);
        for (int64_t offset = 0; offset < 1500; offset++) {
            plain_key *key = &keys[draw(&chance, KEYS)];

            assert_ok(mk_key_map_put(&map, (mk_span){key->bytes, key->size},
                                     offset, NULL));
            key->offset = offset;
            if (offset % 100 == 0) assert_as_listed(&map, keys);
        }
        assert_as_listed(&map, keys);
        mk_key_map_deinit(&map);
        for (size_t j = 0; j < KEYS; j++) {
            keys[j].offset = -1;
        }
    }
    free_keys(keys);
}

/* The table is never more than half full, nor less than a quarter, and the keys
 * take no more than twice their bytes: what a key costs is bounded. */
static void test_load(void **state)
{
    posix_world *world = *state;
    mk_key_map map;
    size_t bytes = 0;

    mk_key_map_init(&map, &world->heap, 6);
    for (int64_t i = 0; i < 5000; i++) {
        char key[32];

        bytes += (size_t)snprintf(key, sizeof key, "key %" PRId64, i);
        put(&map, key, i);
        assert_true(map.count * 2 <= map.slot_count);
        assert_true(map.slot_count <= 64 || map.slot_count <= map.count * 4);
        assert_int_equal(map.arena_size, bytes);
        put(&map, key, i + 5000); /* No second copy. */
        assert_int_equal(map.arena_size, bytes);
        assert_true(map.arena_capacity <= 2 * bytes + 64);
    }
    mk_key_map_deinit(&map);
}

/* Different seeds put keys in different places. */
static void test_seed_matters(void **state)
{
    posix_world *world = *state;
    mk_key_map maps[2];
    size_t same = 0;

    for (size_t i = 0; i < 2; i++) {
        mk_key_map_init(&maps[i], &world->heap, 7 + i);
        for (int64_t j = 0; j < 30; j++) {
            char key[32];

            snprintf(key, sizeof key, "%" PRId64, j);
            put(&maps[i], key, j);
        }
    }
    assert_int_equal(maps[0].slot_count, 64);
    for (size_t i = 0; i < 64; i++) {
        same += maps[0].slots[i].offset >= 0 &&
                maps[0].slots[i].offset == maps[1].slots[i].offset;
    }
    assert_true(same < 10);
    mk_key_map_deinit(&maps[0]);
    mk_key_map_deinit(&maps[1]);
}

/* ---- Memory ---- */

typedef struct putting {
    mk_key_map map;
    int64_t next;
} putting;

static mk_span key_of(int64_t i, char *text, size_t size)
{
    snprintf(text, size, "a rather long key with the number %" PRId64, i);
    return span_of(text);
}

static mk_status act_put(void *context, mk_error *err)
{
    putting *p = context;
    char text[80];

    return mk_key_map_put(&p->map, key_of(p->next, text, sizeof text), p->next,
                          err);
}

static void check_as_before(void *context)
{
    const putting *p = context;
    char text[80];

    assert_int_equal(p->map.count, p->next);
    for (int64_t i = 0; i < p->next; i++) {
        assert_int_equal(mk_key_map_get(&p->map, key_of(i, text, sizeof text)),
                         i);
    }
    assert_int_equal(
        mk_key_map_get(&p->map, key_of(p->next, text, sizeof text)), -1);
}

/* Without memory the map is as it was, and goes on once there is some. */
static void test_without_memory(void **state)
{
    posix_world *world = *state;
    putting p = {.next = 0};
    long failed = 0;

    mk_key_map_init(&p.map, &world->heap, 8);
    for (; p.next < 300; p.next++) {
        failed += sweep_heap(world, act_put, check_as_before, &p);
    }
    assert_true(failed >= 10);
    check_as_before(&p);
    mk_key_map_deinit(&p.map);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_by_hand),        TEST(test_similar_keys),
        TEST(test_empty_key),      TEST(test_keys_are_copied),
        TEST(test_equal_hashes),   TEST(test_chance),
        TEST(test_load),           TEST(test_seed_matters),
        TEST(test_without_memory),
    };

    return cmocka_run_group_tests_name("key_map", tests, NULL, NULL);
}
