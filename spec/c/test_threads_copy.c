/*
 * Copies that are made while other threads append, compact, delete and
 * truncate. Each record says its offset and how often the log was truncated
 * before: so a copy can be judged by itself.
 */
#define _GNU_SOURCE
#include "support/crew.h"

#define COPIES 40

static mk_status append_next(shared *all)
{
    mk_record record = {.timestamp_ms = 1};
    mk_log_info info;
    char text[32];
    int64_t offset;
    mk_status status = mk_log_get_info(all->log, &info, NULL);

    if (status != MK_OK) return status;
    snprintf(text, sizeof text, "%lld", (long long)info.log_end_offset);
    record.key = record.value = text;
    record.key_size = record.value_size = strlen(text);
    return mk_log_append_one(all->log, &record, &offset, NULL);
}

/* The only one who appends and truncates. */
static void *write_much(void *context)
{
    actor *a = context;

    while (atomic_load(&a->all->writers_left) > 0) {
        int64_t choice = (int64_t)draw(a, 400);
        mk_log_info info;

        CHECK(a->all, append_next(a->all) == MK_OK);
        if (choice == 0) CHECK(a->all, mk_log_flush(a->all->log, NULL) == 0);
        if (choice == 1) CHECK(a->all, mk_log_roll(a->all->log, NULL) == 0);
        if (choice > 2) continue;
        CHECK(a->all, mk_log_get_info(a->all->log, &info, NULL) == MK_OK);
        if (info.log_end_offset - info.log_start_offset < 100) continue;
        CHECK(a->all,
              mk_log_truncate_to(a->all->log,
                                 info.log_end_offset - 1 - (int64_t)draw(a, 90),
                                 NULL) == MK_OK);
    }
    return NULL;
}

static void *clean_much(void *context)
{
    actor *a = context;

    while (atomic_load(&a->all->writers_left) > 0) {
        mk_cleanup_result result;
        mk_log_info info;
        int64_t kept;

        CHECK(a->all, mk_log_compact(a->all->log, NULL, &result, NULL) == 0);
        mk_cleanup_result_deinit(&result);
        CHECK(a->all, mk_log_get_info(a->all->log, &info, NULL) == MK_OK);
        kept = 500 + (int64_t)draw(a, 500);
        if (info.log_end_offset - info.log_start_offset < 2 * kept) continue;
        CHECK(a->all,
              mk_log_delete_records(a->all->log, info.log_end_offset - kept,
                                    NULL) == MK_OK);
    }
    return NULL;
}

/* Every offset from the start to the end has its record. */
static void judge_copy(actor *a, const char *directory, const mk_log_info *then)
{
    mk_open_options options;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log_info info;
    mk_log *log = NULL;
    int64_t expected;
    mk_status status;

    mk_open_options_default(&options);
    options.create = false;
    CHECK(a->all, mk_log_open(directory, &options, &log, NULL) == MK_OK);
    if (log == NULL) return;
    CHECK(a->all, mk_log_get_info(log, &info, NULL) == MK_OK);
    CHECK(a->all, info.log_start_offset >= then->log_start_offset);
    CHECK(a->all, info.recovery_point == info.log_end_offset);
    CHECK(a->all, mk_cursor_open(log, NULL, &cursor, NULL) == MK_OK);
    expected = info.log_start_offset;
    while ((status = mk_cursor_next(cursor, &view, NULL)) == MK_OK) {
        char text[32];

        snprintf(text, sizeof text, "%lld", (long long)expected);
        CHECK(a->all, view.offset == expected);
        CHECK(a->all, view.value_size == strlen(text));
        CHECK(a->all, memcmp(view.value, text, view.value_size) == 0);
        expected++;
    }
    CHECK(a->all, status == MK_END);
    CHECK(a->all, expected == info.log_end_offset);
    mk_cursor_close(cursor);
    CHECK(a->all, mk_log_close(log, NULL) == MK_OK);
}

static void *copy_much(void *context)
{
    actor *a = context;

    for (int i = 0; i < COPIES; i++) {
        char directory[400];
        mk_log_info then;
        mk_error err = {0};

        snprintf(directory, sizeof directory, "%s/copy-%d-%d",
                 a->all->disk->root, a->number, i);
        CHECK(a->all, mk_log_get_info(a->all->log, &then, NULL) == MK_OK);
        if (mk_log_copy_to(a->all->log, directory, NULL, &err) != MK_OK) {
            fprintf(stderr, "%s\n", err.message);
            CHECK(a->all, false);
            continue;
        }
        judge_copy(a, directory, &then);
    }
    atomic_fetch_sub(&a->all->writers_left, 1);
    return NULL;
}

static void test_copies_of_a_busy_log(void **state)
{
    static void *(*const jobs[])(void *) = {write_much, clean_much, copy_much,
                                            copy_much};
    shared *all = calloc(1, sizeof *all);
    actor actors[4];

    assert_non_null(all);
    all->disk = *state;
    snprintf(all->where, sizeof all->where, "%s/t-0", all->disk->root);
    all->writers_left = 2;
    open_shared(all);
    for (int i = 0; i < 4; i++) {
        actors[i] =
            (actor){.all = all, .number = i, .chance = 77 + (unsigned)i};
        assert_int_equal(
            pthread_create(&actors[i].thread, NULL, jobs[i], &actors[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(actors[i].thread, NULL);
    }
    assert_int_equal(mk_log_close(all->log, NULL), MK_OK);
    assert_int_equal(all->faults, 0);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(test_copies_of_a_busy_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
