/* The note of a swap of segments: written and read, and worth nothing if any
 * byte of it is not as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "include/minikafka_sim.h"
#include "os/env.h"
#include "store/names.h"
#include "store/rewrite_note.h"

#define PATH "/t-0/" MK_NAME_REWRITE

static const mk_rewrite_part parts[] = {
    {3, 70, 0, 0x1234abcd}, {5, 0, -1, 0}, {3, 140, -1, 0}, {5, 210, -1, 0}};

typedef struct world {
    mk_heap heap;
    mk_sim_disk *disk;
    mk_env *env;
    mk_rewrite_note note;
} world;

static void begin(world *w)
{
    w->heap = mk_heap_default();
    assert_int_equal(mk_sim_disk_new(NULL, NULL, &w->disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(w->disk, &w->env, NULL), MK_OK);
    assert_int_equal(mk_vfs_mkdir(w->env->vfs, "/t-0", NULL), MK_OK);
    mk_rewrite_note_init(&w->note, &w->heap);
}

static void end(world *w)
{
    mk_rewrite_note_deinit(&w->note);
    mk_env_free(w->env);
    mk_sim_disk_free(w->disk);
}

static void store(world *w)
{
    w->note.first = 3;
    w->note.end = 9;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mk_rewrite_note_add(&w->note, &parts[i], i < 2, NULL),
                         MK_OK);
    }
    assert_int_equal(mk_rewrite_note_store(&w->note, w->env->vfs, "/t-0", NULL),
                     MK_OK);
    mk_rewrite_note_deinit(&w->note);
}

static size_t load_bytes(world *w, char *out, size_t size)
{
    assert_int_equal(mk_sim_disk_read(w->disk, PATH, 0, out, size, &size, NULL),
                     MK_OK);
    return size;
}

static void load(world *w)
{
    mk_rewrite_note_deinit(&w->note);
    assert_int_equal(mk_rewrite_note_load(&w->note, w->env->vfs, "/t-0", NULL),
                     MK_OK);
}

static void test_it_is_read_as_it_was_written(void **state)
{
    char text[512] = "";
    world w;

    (void)state;
    begin(&w);
    load(&w);
    assert_int_equal(w.note.count, 0);
    store(&w);
    load(&w);
    assert_int_equal(w.note.first, 3);
    assert_int_equal(w.note.end, 9);
    assert_int_equal(w.note.count, 4);
    assert_int_equal(w.note.output_count, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(w.note.parts[i].base_offset, parts[i].base_offset);
        assert_int_equal(w.note.parts[i].log_bytes, parts[i].log_bytes);
        assert_int_equal(w.note.parts[i].last_batch_position,
                         parts[i].last_batch_position);
        assert_int_equal(w.note.parts[i].last_batch_checksum,
                         parts[i].last_batch_checksum);
    }
    load_bytes(&w, text, sizeof text - 1);
    assert_non_null(strstr(text, "minikafka rewrite 1\nsources 3 9\n"
                                 "new 3 70 0 1234abcd\nnew 5 0 -1 00000000\n"
                                 "old 3 140 -1 00000000\n"));
    end(&w);
}

/* Any change, and any shorter file, makes it say nothing. */
static void test_damage(void **state)
{
    char text[512];
    size_t size;
    world w;

    (void)state;
    begin(&w);
    store(&w);
    size = load_bytes(&w, text, sizeof text);
    for (size_t i = 0; i < 2 * size; i++) {
        if (i < size) text[i] ^= (char)(1 << i % 8);
        assert_int_equal(mk_sim_disk_write(w.disk, PATH, text,
                                           i < size ? size : i - size, NULL),
                         MK_OK);
        if (i < size) text[i] ^= (char)(1 << i % 8);
        load(&w);
        assert_int_equal(w.note.count, 0);
    }
    end(&w);
}

/* Right checksums do not make numbers right. */
static void test_impossible_notes(void **state)
{
    static const mk_rewrite_part wrong[][2] = {
        {{3, 70, 0, 0}, {2, 70, -1, 0}},  /* Before the range. */
        {{3, 70, 0, 0}, {9, 70, -1, 0}},  /* Behind it. */
        {{3, -1, 0, 0}, {3, 70, -1, 0}},  /* No size. */
        {{3, 70, -2, 0}, {3, 70, -1, 0}}, /* No position. */
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        world w;

        begin(&w);
        w.note.first = 3;
        w.note.end = 9;
        for (int j = 0; j < 2; j++) {
            assert_int_equal(
                mk_rewrite_note_add(&w.note, &wrong[i][j], j == 0, NULL),
                MK_OK);
        }
        assert_int_equal(
            mk_rewrite_note_store(&w.note, w.env->vfs, "/t-0", NULL), MK_OK);
        load(&w);
        assert_int_equal(w.note.count, 0);
        end(&w);
    }
}

static void test_it_goes(void **state)
{
    mk_sim_paths paths;
    world w;

    (void)state;
    begin(&w);
    assert_int_equal(mk_rewrite_note_unlink(w.env->vfs, "/t-0", NULL), MK_OK);
    store(&w);
    assert_int_equal(mk_sim_disk_write(w.disk, PATH ".tmp", "x", 1, NULL),
                     MK_OK);
    assert_int_equal(mk_rewrite_note_unlink(w.env->vfs, "/t-0", NULL), MK_OK);
    assert_int_equal(mk_sim_disk_list(w.disk, &paths, NULL), MK_OK);
    assert_int_equal(paths.count, 0);
    mk_sim_paths_deinit(&paths);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_read_as_it_was_written),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_impossible_notes),
        cmocka_unit_test(test_it_goes),
    };

    return cmocka_run_group_tests_name("rewrite_note", tests, NULL, NULL);
}
