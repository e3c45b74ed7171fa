/* Small files, replaced and read whole, on a disk that fails. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/names.h"
#include "store/replace_file.h"

static mk_span span_of(const char *text)
{
    return (mk_span){(const uint8_t *)text, strlen(text)};
}

static mk_status replace(posix_world *world, mk_vfs *vfs, const char *text,
                         bool durable, mk_error *err)
{
    return mk_replace_file(vfs, world->root, path_of(world, "note"),
                           span_of(text), durable, NULL, err);
}

/* A file is made, replaced by a shorter one, and emptied; nothing stays beside
 * it, not even what a death left there. */
static void test_replace(void **state)
{
    posix_world *world = *state;

    for (int durable = 0; durable < 2; durable++) {
        put_file(world, "note.tmp", "of an earlier death, and longer", 31);
        assert_ok(replace(world, world->vfs, "the first", durable, NULL));
        assert_content(world, "note", "the first");
        assert_false(exists(world, "note.tmp"));
        assert_ok(replace(world, world->vfs, "next", durable, NULL));
        assert_content(world, "note", "next");
        assert_ok(replace(world, world->vfs, "", durable, NULL));
        assert_content(world, "note", "");
        assert_false(exists(world, "note.tmp"));
    }
}

/* With `durable` the content is on stable storage before the name is, and both
 * before the call returns; else there is no sync. */
static void test_order(void **state)
{
    posix_world *world = *state;
    traced_disk disk;
    char expected[512];

    traced_init(&disk, world);
    assert_ok(replace(world, &disk.base, "abc", true, NULL));
    snprintf(expected, sizeof expected,
             "open note.tmp; write note.tmp; sync note.tmp; close note.tmp; "
             "rename note.tmp; sync-directory %s; ",
             mk_name_last(world->root));
    assert_string_equal(disk.trace, expected);
    traced_restart(&disk, 0);
    assert_ok(replace(world, &disk.base, "def", false, NULL));
    assert_string_equal(disk.trace,
                        "open note.tmp; write note.tmp; close note.tmp; "
                        "rename note.tmp; ");
}

/* Whichever operation fails, the file is the old one or the new one, and what
 * was begun beside it is gone. */
static void test_failing_disk(void **state)
{
    posix_world *world = *state;
    traced_disk disk;

    traced_init(&disk, world);
    for (int durable = 0; durable < 2; durable++) {
        long last = durable ? 6 : 4;

        for (long n = 1; n <= last; n++) {
            mk_error err = {0};

            put_file(world, "note", "old", 3);
            traced_restart(&disk, n);
            assert_status(replace(world, &disk.base, "fresh", durable, &err),
                          MK_IO);
            assert_int_equal(err.os_errno, EIO);
            assert_content(world, "note", n < 6 ? "old" : "fresh");
            assert_false(exists(world, "note.tmp"));
            if (n < 6) assert_non_null(strstr(err.message, "replace"));
        }
        traced_restart(&disk, last + 1);
        assert_ok(replace(world, &disk.base, "fresh", durable, NULL));
        assert_content(world, "note", "fresh");
    }
}

/* A full disk leaves the old file, too. */
static void test_full_disk(void **state)
{
    posix_world *world = *state;
    struct rlimit before;
    mk_error err = {0};
    mk_status status;

    put_file(world, "note", "old", 3);
    limit_file_size(&before, 4);
    status = replace(world, world->vfs, "much more", true, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_status(status, MK_IO);
    assert_int_equal(err.os_errno, EFBIG);
    assert_content(world, "note", "old");
    assert_false(exists(world, "note.tmp"));
}

/* What is not a file can't be replaced by one, nor without a directory. */
static void test_replace_refused(void **state)
{
    posix_world *world = *state;
    mk_error err = {0};

    assert_int_equal(mkdir(path_of(world, "note"), 0700), 0);
    assert_status(replace(world, world->vfs, "x", true, &err), MK_IO);
    assert_true(exists(world, "note"));
    assert_false(exists(world, "note.tmp"));
    assert_status(mk_replace_file(world->vfs, path_of(world, "none"),
                                  path_of(world, "none/note"), span_of("x"),
                                  true, NULL, &err),
                  MK_NOT_FOUND);
    assert_non_null(strstr(err.path, "none/note"));
}

/* The temporary name must fit, too; nothing is done where it does not. */
static void test_replace_long_path(void **state)
{
    posix_world *world = *state;
    char path[MK_PATH_MAX];
    traced_disk disk;
    mk_error err = {0};

    traced_init(&disk, world);
    for (size_t i = 0; i < sizeof path; i++) {
        path[i] = i % 100 == 0 ? '/' : 'a';
    }
    path[MK_PATH_MAX - 4] = '\0';
    assert_status(mk_replace_file(&disk.base, world->root, path, span_of("x"),
                                  true, NULL, &err),
                  MK_INVALID_ARGUMENT);
    assert_int_equal(disk.operations, 0);
    path[MK_PATH_MAX - 5] = '\0';
    assert_status(mk_replace_file(&disk.base, world->root, path, span_of("x"),
                                  true, NULL, &err),
                  MK_NOT_FOUND);
}

static mk_status act_replace(void *context, mk_error *err)
{
    posix_world *world = context;

    return replace(world, world->vfs, "fresh", true, err);
}

static void check_old(void *context)
{
    assert_content(context, "note", "old");
    assert_false(exists(context, "note.tmp"));
}

static void test_replace_without_memory(void **state)
{
    posix_world *world = *state;

    put_file(world, "note", "old", 3);
    assert_true(sweep_heap(world, act_replace, check_old, world) > 0);
    assert_content(world, "note", "fresh");
}

/* ---- Reading ---- */

typedef struct reading {
    posix_world *world;
    mk_scratch scratch;
    mk_span span;
    size_t size_max;
} reading;

static mk_status read_note(void *context, mk_error *err)
{
    reading *r = context;

    r->span = (mk_span){(const uint8_t *)"garbage", 7};
    return mk_read_file(r->world->vfs, path_of(r->world, "note"), r->size_max,
                        &r->scratch, &r->span, err);
}

static void check_no_span(void *context)
{
    const reading *r = context;

    assert_null(r->span.data);
    assert_int_equal(r->span.size, 0);
}

/* A file is read up to the limit, which is its size at most. */
static void test_read(void **state)
{
    reading r = {.world = *state, .size_max = 5};
    mk_error err = {0};

    mk_scratch_init(&r.scratch, &r.world->heap);
    put_file(r.world, "note", "12345", 5);
    assert_ok(read_note(&r, &err));
    assert_int_equal(r.span.size, 5);
    assert_memory_equal(r.span.data, "12345", 5);
    r.size_max = 4;
    assert_status(read_note(&r, &err), MK_INVALID_ARGUMENT);
    assert_string_equal(err.path, path_of(r.world, "note"));
    check_no_span(&r);
    put_file(r.world, "note", "", 0);
    r.size_max = 0;
    assert_ok(read_note(&r, &err));
    check_no_span(&r);
    mk_scratch_deinit(&r.scratch);
}

/* A file that is far too large is refused before memory is asked for. */
static void test_read_huge(void **state)
{
    reading r = {.world = *state, .size_max = 1024};

    mk_scratch_init(&r.scratch, &r.world->heap);
    put_file(r.world, "note", "", 0);
    assert_int_equal(truncate(path_of(r.world, "note"), INT64_C(1) << 40), 0);
    assert_status(read_note(&r, NULL), MK_INVALID_ARGUMENT);
    check_no_span(&r);
    assert_int_equal(r.scratch.capacity, 0);
    mk_scratch_deinit(&r.scratch);
}

static void test_read_refused(void **state)
{
    reading r = {.world = *state, .size_max = 10};
    mk_error err = {0};

    mk_scratch_init(&r.scratch, &r.world->heap);
    assert_status(read_note(&r, &err), MK_NOT_FOUND);
    check_no_span(&r);
    assert_int_equal(mkdir(path_of(r.world, "note"), 0700), 0);
    assert_status(read_note(&r, &err), MK_IO);
    check_no_span(&r);
    mk_scratch_deinit(&r.scratch);
}

static void test_read_without_memory(void **state)
{
    reading r = {.world = *state, .size_max = 10};

    mk_scratch_init(&r.scratch, &r.world->heap);
    put_file(r.world, "note", "12345", 5);
    assert_true(sweep_heap(r.world, read_note, check_no_span, &r) > 0);
    assert_int_equal(r.span.size, 5);
    mk_scratch_deinit(&r.scratch);
}

/* Each failing operation is told, and leaves no descriptor. */
static void test_read_from_a_failing_disk(void **state)
{
    posix_world *world = *state;
    mk_scratch scratch;
    traced_disk disk;
    mk_span span;

    traced_init(&disk, world);
    mk_scratch_init(&scratch, &world->heap);
    put_file(world, "note", "12345", 5);
    for (long n = 1; n <= 3; n++) {
        traced_restart(&disk, n);
        assert_status(mk_read_file(&disk.base, path_of(world, "note"), 10,
                                   &scratch, &span, NULL),
                      MK_IO);
        assert_int_equal(span.size, 0);
    }
    traced_restart(&disk, 4); /* Closing what was only read may fail. */
    assert_ok(mk_read_file(&disk.base, path_of(world, "note"), 10, &scratch,
                           &span, NULL));
    assert_int_equal(span.size, 5);
    assert_string_equal(disk.trace,
                        "open note; stat note; read note; close note; ");
    mk_scratch_deinit(&scratch);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_replace),
        TEST(test_order),
        TEST(test_failing_disk),
        TEST(test_full_disk),
        TEST(test_replace_refused),
        TEST(test_replace_long_path),
        TEST(test_replace_without_memory),
        TEST(test_read),
        TEST(test_read_huge),
        TEST(test_read_refused),
        TEST(test_read_without_memory),
        TEST(test_read_from_a_failing_disk),
    };

    return cmocka_run_group_tests_name("replace_file", tests, NULL, NULL);
}
