/* The cache of descriptors, against a plain list of what should be open. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/file_cache.h"

enum { FILES = 12 };

typedef struct cached_world {
    posix_world *world;
    mk_file_cache cache;
    mk_cached_file files[FILES];
} cached_world;

static const char *name_of(size_t i)
{
    static const char names[FILES][4] = {"f0", "f1", "f2", "f3", "f4",  "f5",
                                         "f6", "f7", "f8", "f9", "f10", "f11"};

    return names[i];
}

static void begin(cached_world *w, posix_world *world, size_t open_max)
{
    *w = (cached_world){.world = world};
    mk_file_cache_init(&w->cache, world->vfs, open_max);
    for (size_t i = 0; i < FILES; i++) {
        put_file(world, name_of(i), name_of(i), strlen(name_of(i)));
    }
}

static mk_status pin_with(cached_world *w, size_t i, mk_error *err)
{
    return mk_file_cache_pin(&w->cache, &w->files[i],
                             path_of(w->world, name_of(i)), 0, err);
}

static void pin(cached_world *w, size_t i)
{
    assert_ok(pin_with(w, i, NULL));
    assert_non_null(w->files[i].file);
}

static void unpin(cached_world *w, size_t i)
{
    mk_file_cache_unpin(&w->cache, &w->files[i]);
}

static void touch(cached_world *w, size_t i)
{
    pin(w, i);
    unpin(w, i);
}

/* Are exactly these open? "013" names f0, f1 and f3. */
static void assert_open(const cached_world *w, const char *digits)
{
    size_t count = strlen(digits);

    for (size_t i = 0; i < FILES; i++) {
        bool expected = i < 10 && strchr(digits, '0' + (int)i) != NULL;

        if ((w->files[i].file != NULL) != expected) {
            fail_msg("%s is %s", name_of(i), expected ? "closed" : "open");
        }
    }
    assert_int_equal(w->cache.open_count, count);
    assert_int_equal(count_descriptors(), w->world->descriptors + (int)count);
}

static void end(cached_world *w)
{
    for (size_t i = 0; i < FILES; i++) {
        mk_file_cache_drop(&w->cache, &w->files[i]);
    }
    assert_open(w, "");
    assert_null(w->cache.newest);
    assert_null(w->cache.oldest);
}

/* The one that was used least recently makes room for the next. */
static void test_least_recently_used(void **state)
{
    cached_world w;

    begin(&w, *state, 3);
    touch(&w, 0);
    touch(&w, 1);
    touch(&w, 2);
    assert_open(&w, "012");
    touch(&w, 0);
    touch(&w, 3);
    assert_open(&w, "023");
    touch(&w, 2);
    touch(&w, 2);
    touch(&w, 4);
    assert_open(&w, "234");
    touch(&w, 3);
    touch(&w, 5);
    assert_open(&w, "345");
    end(&w);
}

/* What is in use stays open, beyond the bound too, until it is not. */
static void test_pinned_files_stay(void **state)
{
    cached_world w;
    mk_file *file;

    begin(&w, *state, 2);
    pin(&w, 0);
    pin(&w, 1);
    pin(&w, 1);
    file = w.files[1].file;
    pin(&w, 2);
    pin(&w, 3);
    assert_open(&w, "0123");
    unpin(&w, 1);
    assert_open(&w, "0123");
    assert_ptr_equal(w.files[1].file, file);
    unpin(&w, 1);
    assert_open(&w, "023");
    unpin(&w, 0);
    assert_open(&w, "23");
    unpin(&w, 3);
    assert_open(&w, "23");
    touch(&w, 5);
    assert_open(&w, "25");
    unpin(&w, 2);
    assert_open(&w, "25");
    end(&w);
}

/* The oldest one that is free goes, even behind older ones in use. */
static void test_pinned_files_are_passed_over(void **state)
{
    cached_world w;

    begin(&w, *state, 3);
    pin(&w, 0);
    touch(&w, 1);
    touch(&w, 2);
    touch(&w, 3);
    assert_open(&w, "023");
    unpin(&w, 0);
    touch(&w, 4);
    assert_open(&w, "234");
    end(&w);
}

/* A bound of none keeps nothing that is not in use. */
static void test_no_room(void **state)
{
    cached_world w;

    begin(&w, *state, 0);
    pin(&w, 0);
    pin(&w, 1);
    assert_open(&w, "01");
    unpin(&w, 0);
    assert_open(&w, "1");
    unpin(&w, 1);
    assert_open(&w, "");
    end(&w);
}

/* What is read through a pinned file is that file's. */
static void test_content(void **state)
{
    cached_world w;
    mk_scratch scratch;

    begin(&w, *state, 2);
    mk_scratch_init(&scratch, &w.world->heap);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < FILES; i++) {
            mk_span span;

            pin(&w, i);
            assert_ok(
                mk_file_view(w.files[i].file, &scratch, 0, 10, &span, NULL));
            assert_int_equal(span.size, strlen(name_of(i)));
            assert_memory_equal(span.data, name_of(i), span.size);
            unpin(&w, i);
        }
    }
    mk_scratch_deinit(&scratch);
    end(&w);
}

/* A file that is open is pinned without looking at its path or flags. */
static void test_pin_of_an_open_file(void **state)
{
    cached_world w;

    begin(&w, *state, 2);
    pin(&w, 0);
    assert_int_equal(unlink(path_of(w.world, name_of(0))), 0);
    assert_ok(mk_file_cache_pin(&w.cache, &w.files[0], NULL, 0, NULL));
    assert_int_equal(w.files[0].pins, 2);
    unpin(&w, 0);
    unpin(&w, 0);
    end(&w);
}

/* The flags are those of opening. */
static void test_flags(void **state)
{
    cached_world w;
    mk_file *file;

    begin(&w, *state, 2);
    assert_ok(mk_file_cache_pin(&w.cache, &w.files[0],
                                path_of(w.world, "fresh"),
                                MK_OPEN_WRITE | MK_OPEN_CREATE, NULL));
    file = w.files[0].file;
    assert_ok(mk_file_write(file, 0, "abc", 3, NULL));
    assert_content(w.world, "fresh", "abc");
    unpin(&w, 0);
    end(&w);
}

/* A file opened elsewhere counts like one opened here, and makes room. */
static void test_adopt(void **state)
{
    cached_world w;

    begin(&w, *state, 2);
    touch(&w, 0);
    touch(&w, 1);
    mk_file_cache_adopt(&w.cache, &w.files[2],
                        open_file(w.world, name_of(2), 0));
    assert_int_equal(w.files[2].pins, 1);
    assert_open(&w, "12");
    unpin(&w, 2);
    touch(&w, 3);
    assert_open(&w, "23");
    pin(&w, 2);
    mk_file_cache_adopt(&w.cache, &w.files[4],
                        open_file(w.world, name_of(4), 0));
    pin(&w, 3);
    assert_open(&w, "234");
    unpin(&w, 2);
    unpin(&w, 3);
    unpin(&w, 4);
    assert_open(&w, "34");
    end(&w);
}

/* Dropping closes, from any place in the list, and once. */
static void test_drop(void **state)
{
    static const size_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2},
                                       {1, 2, 0}, {0, 2, 1}, {2, 0, 1}};

    for (size_t i = 0; i < LENGTH(orders); i++) {
        cached_world w;

        begin(&w, *state, 3);
        for (size_t j = 0; j < 3; j++) {
            touch(&w, j);
        }
        for (size_t j = 0; j < 3; j++) {
            mk_file_cache_drop(&w.cache, &w.files[orders[i][j]]);
            mk_file_cache_drop(&w.cache, &w.files[orders[i][j]]);
            assert_null(w.files[orders[i][j]].file);
            assert_int_equal(w.cache.open_count, 2 - j);
        }
        touch(&w, 1);
        assert_open(&w, "1");
        end(&w);
    }
}

/* A file that can't be opened leaves everything else usable. */
static void test_failing_open(void **state)
{
    cached_world w;
    mk_error err = {0};

    begin(&w, *state, 2);
    pin(&w, 0);
    assert_status(mk_file_cache_pin(&w.cache, &w.files[1],
                                    path_of(w.world, "none"), 0, &err),
                  MK_NOT_FOUND);
    assert_string_equal(err.path, path_of(w.world, "none"));
    assert_null(w.files[1].file);
    assert_int_equal(w.files[1].pins, 0);
    assert_open(&w, "0");
    pin(&w, 1);
    assert_open(&w, "01");
    unpin(&w, 0);
    unpin(&w, 1);
    end(&w);
}

static mk_status act_pin(void *context, mk_error *err)
{
    return pin_with(context, 5, err);
}

static void check_unpinned(void *context)
{
    const cached_world *w = context;

    assert_null(w->files[5].file);
    assert_int_equal(w->files[5].pins, 0);
    assert_int_equal(w->files[0].pins, 1);
    assert_true(w->cache.open_count <= 2);
}

static void test_without_memory(void **state)
{
    cached_world w;

    begin(&w, *state, 2);
    pin(&w, 0);
    touch(&w, 1);
    assert_true(sweep_heap(w.world, act_pin, check_unpinned, &w) > 0);
    assert_open(&w, "05");
    unpin(&w, 0);
    unpin(&w, 5);
    end(&w);
}

/* ---- Against a list ---- */

typedef struct plain_list {
    size_t order[FILES]; /* Open files, least recently used first. */
    size_t count, open_max;
    size_t pins[FILES];
} plain_list;

static bool forget(plain_list *list, size_t i)
{
    for (size_t j = 0; j < list->count; j++) {
        if (list->order[j] != i) continue;
        list->count--;
        memmove(list->order + j, list->order + j + 1,
                (list->count - j) * sizeof *list->order);
        return true;
    }
    return false;
}

static void plain_pin(plain_list *list, size_t i)
{
    if (!forget(list, i)) {
        for (size_t j = 0; j < list->count && list->count >= list->open_max;) {
            if (list->pins[list->order[j]] == 0) {
                forget(list, list->order[j]);
            } else {
                j++;
            }
        }
    }
    list->order[list->count++] = i;
    list->pins[i]++;
}

static void plain_unpin(plain_list *list, size_t i)
{
    list->pins[i]--;
    if (list->pins[i] == 0 && list->count > list->open_max) forget(list, i);
}

static void assert_as_listed(const cached_world *w, const plain_list *list)
{
    const mk_cached_file *next = w->cache.oldest;

    assert_int_equal(w->cache.open_count, list->count);
    for (size_t i = 0; i < list->count; i++) {
        assert_ptr_equal(next, &w->files[list->order[i]]);
        assert_non_null(next->file);
        assert_int_equal(next->pins, list->pins[list->order[i]]);
        next = next->newer;
    }
    assert_null(next);
}

/* Long chance use, with bounds from none to more than there are files. */
static void test_chance(void **state)
{
    for (size_t open_max = 0; open_max <= FILES + 1; open_max++) {
        plain_list list = {.open_max = open_max};
        uint64_t seed = open_max + 1;
        cached_world w;

        begin(&w, *state, open_max);
        for (int step = 0; step < 500; step++) {
            size_t i = (size_t)draw(&seed, FILES);

            if (list.pins[i] > 0 && draw(&seed, 5) > 1) {
                unpin(&w, i);
                plain_unpin(&list, i);
            } else if (list.pins[i] == 0 && draw(&seed, 10) == 0) {
                mk_file_cache_drop(&w.cache, &w.files[i]);
                forget(&list, i);
            } else {
                pin(&w, i);
                plain_pin(&list, i);
            }
            assert_as_listed(&w, &list);
        }
        for (size_t i = 0; i < FILES; i++) {
            for (; list.pins[i] > 0; plain_unpin(&list, i)) {
                unpin(&w, i);
            }
        }
        assert_as_listed(&w, &list);
        assert_true(w.cache.open_count <= open_max);
        end(&w);
    }
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_least_recently_used),
        TEST(test_pinned_files_stay),
        TEST(test_pinned_files_are_passed_over),
        TEST(test_no_room),
        TEST(test_content),
        TEST(test_pin_of_an_open_file),
        TEST(test_flags),
        TEST(test_adopt),
        TEST(test_drop),
        TEST(test_failing_open),
        TEST(test_without_memory),
        TEST(test_chance),
    };

    return cmocka_run_group_tests_name("file_cache", tests, NULL, NULL);
}
