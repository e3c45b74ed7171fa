/* What is planned for a directory with leftovers of a swap of segments, as
 * tables. Names are written without their zeros, and so are plans: "-" unlinks,
 * ">" renames, "." syncs. A look gives the next offset of a log, with "!" if it
 * is damaged behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/leftovers.h"

#define TEXT_SIZE     2048
#define NAMES_MAX     64
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const mk_rewrite_note no_note = {.count = 0};

/* [0 .. 8) was to become one segment that ends at 7, or, for the second note,
 * at 3. A log is ten times as large as it has offsets. */
static mk_rewrite_part noted[] = {
    {0, 70, -1, 0}, {0, 40, -1, 0}, {4, 40, -1, 0}};
static mk_rewrite_part noted_short[] = {
    {0, 30, -1, 0}, {0, 40, -1, 0}, {4, 40, -1, 0}};

static const mk_rewrite_note note = {
    .end = 8, .parts = noted, .count = 3, .output_count = 1};
static const mk_rewrite_note short_note = {
    .end = 8, .parts = noted_short, .count = 3, .output_count = 1};

typedef struct row {
    const char *names; /* In any order. */
    const char *looks;
    const char *plan; /* The verdict, then the steps. */
    const char *segments;
} row;

/* ---- Text to names ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Give a name its zeros, if it begins with a number. */
static char *long_name(const char *text, size_t size)
{
    char *end;
    int64_t offset = strtoll(text, &end, 10);
    char *out = malloc(128);

    assert_non_null(out);
    if (end == text) {
        snprintf(out, 128, "%.*s", (int)size, text);
    } else {
        snprintf(out, 128, "%020" PRId64 "%.*s", offset,
                 (int)(size - (size_t)(end - text)), end);
    }
    return out;
}

static void make_names(mk_name_list *list, const char *text)
{
    static mk_file_kind kinds[NAMES_MAX];

    *list = (mk_name_list){.kinds = kinds};
    list->names = calloc(NAMES_MAX, sizeof *list->names);
    assert_non_null(list->names);
    while (*text != '\0') {
        size_t size = strcspn(text, " ");

        kinds[list->count] = MK_KIND_FILE;
        list->names[list->count++] = long_name(text, size);
        text += size + (text[size] == ' ');
        assert_true(list->count < NAMES_MAX);
    }
    qsort(list->names, list->count, sizeof *list->names, by_name);
}

static void free_names(mk_name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    free(list->names);
}

/* A name without its zeros. */
static void short_name(char *out, size_t out_size, mk_file_name name)
{
    char text[64];
    size_t zeros;

    mk_name_write(text, sizeof text, name);
    zeros = strspn(text, "0");
    if (text[zeros] == '.') zeros--;
    snprintf(out, out_size, "%s", text + zeros);
}

/* ---- Looking and telling ---- */

static mk_status look(void *context, int64_t base_offset, mk_file_stage stage,
                      mk_log_look *out, mk_error *err)
{
    const char *looks = context;
    char name[64];
    const char *found;

    (void)err;
    short_name(name, sizeof name,
               (mk_file_name){MK_ROLE_LOG, stage, base_offset});
    strcat(name, "=");
    *out = (mk_log_look){.next_offset = base_offset, .whole = true};
    for (found = strstr(looks, name); found != NULL;
         found = strstr(found + 1, name)) {
        char *end;

        if (found > looks && found[-1] != ' ') continue;
        out->next_offset = strtoll(found + strlen(name), &end, 10);
        out->whole = *end != '!';
        out->log_bytes = (out->next_offset - base_offset) * 10;
        return MK_OK;
    }
    fail_msg("nobody should look at %s", name);
    return MK_OK;
}

static void tell_step(char *out, const mk_leftovers_step *step)
{
    static const char *const stages[] = {"final", "deleted", "cleaned", "swap"};
    char name[64];
    size_t used = strlen(out);

    if (step->action == MK_LEFTOVERS_SYNC) {
        snprintf(out + used, TEXT_SIZE - used, " .");
        return;
    }
    short_name(name, sizeof name, step->file);
    if (step->action == MK_LEFTOVERS_UNLINK) {
        snprintf(out + used, TEXT_SIZE - used, " -%s", name);
    } else {
        snprintf(out + used, TEXT_SIZE - used, " %s>%s", name,
                 stages[step->to]);
    }
}

static void check_row(const row *r, const mk_rewrite_note *with)
{
    static const char *const verdicts[] = {"none", "back", "forward",
                                           "ambiguous"};
    mk_heap heap = mk_heap_default();
    char looks[256], plan_text[TEXT_SIZE], segments[TEXT_SIZE] = "";
    mk_name_list names;
    mk_leftovers plan;

    snprintf(looks, sizeof looks, "%s", r->looks);
    make_names(&names, r->names);
    assert_int_equal(mk_leftovers_plan(&plan, &heap, &names, with,
                                       (mk_log_eye){looks, look}, NULL),
                     MK_OK);
    snprintf(plan_text, sizeof plan_text, "%s", verdicts[plan.proof.verdict]);
    for (size_t i = 0; i < plan.step_count; i++) {
        tell_step(plan_text, &plan.steps[i]);
    }
    for (size_t i = 0; i < plan.segment_count; i++) {
        size_t used = strlen(segments);
        char name[64];

        short_name(name, sizeof name,
                   (mk_file_name){MK_ROLE_LOG, plan.segments[i].stage,
                                  plan.segments[i].base_offset});
        snprintf(segments + used, sizeof segments - used, "%s%s",
                 i > 0 ? " " : "", name);
    }
    if (strcmp(plan_text, r->plan) != 0) print_message("%s\n", r->names);
    assert_string_equal(plan_text, r->plan);
    if (r->segments != NULL) assert_string_equal(segments, r->segments);
    mk_leftovers_deinit(&plan);
    free_names(&names);
}

static void check_rows(const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_row(&rows[i], &no_note);
    }
}

/* ---- Tables ---- */

/* The lines of Kafka's own table, in the order in which a swap of two segments
 * into one leaves them. No log is looked into that need not be. */
static void test_a_swap_in_order(void **state)
{
    static const row rows[] = {
        {"0.log 0.index 4.log 4.index 8.log", "", "none", "0.log 4.log 8.log"},
        {"0.log 0.index 4.log 8.log 0.log.cleaned 0.index.cleaned",
         "0.log.cleaned=2!", "back -0.index.cleaned -0.log.cleaned",
         "0.log 4.log 8.log"},
        {"0.log 0.index 4.log 8.log 0.log.swap 0.index.cleaned",
         "0.log.swap=7 4.log=8",
         "back 0.log.swap>cleaned . -0.index.cleaned -0.log.cleaned",
         "0.log 4.log 8.log"},
        {"0.log 0.index 4.log 4.index 8.log 0.log.swap 0.index.swap",
         "0.log.swap=7 4.log=8",
         "forward . 4.index>deleted 4.log>deleted . 0.log.swap>final "
         "0.index.swap>final . -4.index.deleted -4.log.deleted",
         "0.log.swap 8.log"},
        {"0.log.deleted 0.index 4.log 4.index 8.log 0.log.swap 0.index.swap",
         "0.log.swap=7 4.log=7",
         "forward . 4.index>deleted 4.log>deleted . 0.log.swap>final "
         "0.index.swap>final . -0.log.deleted -4.index.deleted -4.log.deleted",
         "0.log.swap 8.log"},
        {"0.log.deleted 4.log.deleted 8.log 0.log.swap 0.timeindex.swap",
         "0.log.swap=7",
         "forward . 0.log.swap>final 0.timeindex.swap>final . -0.log.deleted "
         "-4.log.deleted",
         "0.log.swap 8.log"},
        {"0.log 4.log.deleted 8.log 0.index.swap", "",
         "none 0.index.swap>final . -4.log.deleted", "0.log 8.log"},
        {"0.log 0.index 4.log.deleted 8.log", "", "none -4.log.deleted",
         "0.log 8.log"},
    };

    (void)state;
    check_rows(rows, LENGTH(rows));
}

/* One segment that is split into two. */
static void test_a_split(void **state)
{
    static const row rows[] = {
        {"0.log 0.log.cleaned 5.log.cleaned", "0.log.cleaned=5 5.log.cleaned=9",
         "back -0.log.cleaned -5.log.cleaned", "0.log"},
        {"0.log 0.log.cleaned 5.log.swap",
         "0.log.cleaned=5 5.log.swap=9 0.log=9",
         "back 5.log.swap>cleaned . -0.log.cleaned -5.log.cleaned", "0.log"},
        {"0.log 0.log.swap 5.log.swap", "0.log.swap=5 5.log.swap=9 0.log=9",
         "forward . 0.log.swap>final 5.log.swap>final .",
         "0.log.swap 5.log.swap"},
        {"0.log 5.log.swap", "0.log=5 5.log.swap=9",
         "forward . 5.log.swap>final .", "0.log 5.log.swap"},
    };

    (void)state;
    check_rows(rows, LENGTH(rows));
}

/* A `.swap` that is not what it should be costs no source; where one is gone,
 * nothing is touched. */
static void test_a_swap_that_proves_nothing(void **state)
{
    static const row rows[] = {
        {"0.log 4.log 8.log 0.log.swap",
         "0.log.swap=3! 0.log=4 4.log=8 8.log=9",
         "back 0.log.swap>cleaned . -0.log.cleaned", "0.log 4.log 8.log"},
        {"0.log.deleted 4.log 8.log 0.log.swap", "0.log.swap=3!", "ambiguous",
         NULL},
        {"4.log 8.log 0.log.swap", "0.log.swap=3!", "ambiguous", NULL},
        {"0.log 2.log.deleted 8.log 0.log.swap", "0.log.swap=3! 0.log=2",
         "ambiguous", NULL},
        /* That one was superseded before. */
        {"0.log 2.log.deleted 8.log 0.log.swap",
         "0.log.swap=3! 0.log=8 8.log=9",
         "back 0.log.swap>cleaned . -0.log.cleaned -2.log.deleted",
         "0.log 8.log"},
        /* Where offsets are missing, it may have had them; also if it was not
         * yet complete in name, and ends where no segment is. */
        {"0.log 8.log 0.log.swap", "0.log.swap=3! 0.log=4 8.log=9", "ambiguous",
         NULL},
        {"0.log 4.log 12.log 0.log.swap",
         "0.log.swap=3! 0.log=4 4.log=8 12.log=13", "ambiguous", NULL},
        {"0.log 8.log 0.log.swap 0.index.cleaned", "0.log.swap=7 0.log=4",
         "ambiguous", NULL},
        {"0.log 8.log 0.log.swap 4.log.cleaned",
         "0.log.swap=4 4.log.cleaned=6! 0.log=4", "ambiguous", NULL},
        /* It does not reach as far as the last segment. */
        {"0.log 4.log 0.log.swap", "0.log.swap=5 4.log=9",
         "back 0.log.swap>cleaned . -0.log.cleaned", "0.log 4.log"},
        {"0.log.deleted 4.log 0.log.swap", "0.log.swap=5 4.log=9", "ambiguous",
         NULL},
        /* It goes on where its source ends; unless that was emptied. */
        {"0.log 4.log 9.log 0.log.swap", "0.log.swap=8 4.log=7", "ambiguous",
         NULL},
        {"0.log 0.log.swap 4.log.swap", "0.log.swap=4 4.log.swap=8 0.log=0",
         "forward . 0.log.swap>final 4.log.swap>final .",
         "0.log.swap 4.log.swap"},
        /* Two that want the same name. */
        {"0.log 0.log.cleaned 0.log.swap",
         "0.log.cleaned=5 0.log.swap=5 0.log=5",
         "back 0.log.swap>cleaned . -0.log.cleaned", "0.log"},
        {"4.log 0.log.cleaned 0.log.swap", "0.log.cleaned=3 0.log.swap=3",
         "ambiguous", NULL},
    };

    (void)state;
    check_rows(rows, LENGTH(rows));
}

/* Where renames persist in any order, a source may be gone before the outputs
 * have their second name. Kafka takes these away: the only copy. */
static void test_a_swap_out_of_order(void **state)
{
    static const row rows[] = {
        {"0.log.deleted 4.log 8.log 0.log.swap 0.index.cleaned",
         "0.log.swap=7 4.log=8",
         "forward 0.index.cleaned>swap . 4.log>deleted . 0.log.swap>final "
         "0.index.swap>final . -0.log.deleted -4.log.deleted",
         "0.log.swap 8.log"},
        {"0.log 4.log.deleted 8.log 0.log.cleaned 0.index.swap",
         "0.log.cleaned=7 0.log=4",
         "forward 0.log.cleaned>swap . 0.log.swap>final 0.index.swap>final . "
         "-4.log.deleted",
         "0.log.cleaned 8.log"},
        {"0.log.deleted 4.log 8.log 0.log.cleaned 0.index.cleaned",
         "0.log.cleaned=7", "ambiguous", NULL},
        {"0.log 4.log.deleted 8.log 0.log.cleaned", "0.log.cleaned=7 0.log=4",
         "ambiguous", NULL},
        /* The log has its name, its index not yet the second one. */
        {"0.log 4.log.deleted 8.log 0.index.cleaned", "",
         "none -0.index.cleaned -4.log.deleted", "0.log 8.log"},
    };

    (void)state;
    check_rows(rows, LENGTH(rows));
}

/* Outputs that are empty, or end before their sources do. */
static void test_outputs_that_lost_their_end(void **state)
{
    static const row rows[] = {
        {"0.log 0.txnindex 8.log 0.log.swap 0.index.swap",
         "0.log.swap=0 0.log=4",
         "forward . 0.txnindex>deleted . 0.log.swap>final 0.index.swap>final . "
         "-0.txnindex.deleted",
         "0.log.swap 8.log"},
        {"0.log 0.snapshot 4.log 4.snapshot 8.log 8.snapshot 0.log.swap",
         "0.log.swap=5 4.log=8",
         "forward . 0.snapshot>deleted 4.log>deleted 4.snapshot>deleted . "
         "0.log.swap>final . -0.snapshot.deleted -4.log.deleted "
         "-4.snapshot.deleted",
         "0.log.swap 8.log"},
    };

    (void)state;
    check_rows(rows, LENGTH(rows));
}

/* A note tells where the sources end, and what an output is. */
static void test_with_a_note(void **state)
{
    static const row rows[] = {
        {"0.log 4.log 8.log 0.log.cleaned", "0.log=4 4.log=8",
         "back -0.log.cleaned", "0.log 4.log 8.log"},
        {"0.log 4.log 8.log 0.log.swap 0.index.cleaned", "0.log.swap=7",
         "forward 0.index.cleaned>swap . 4.log>deleted . 0.log.swap>final "
         "0.index.swap>final . -4.log.deleted",
         "0.log.swap 8.log"},
        {"0.log 4.log.deleted 8.log 0.log.swap", "0.log.swap=7",
         "forward . 0.log.swap>final . -4.log.deleted", "0.log.swap 8.log"},
        /* The output has its name, its source not yet another. */
        {"0.log 4.log 8.log", "0.log=7",
         "forward 4.log>deleted . -4.log.deleted", "0.log 8.log"},
        {"0.log 8.log", "0.log=7", "forward", "0.log 8.log"},
        /* It was taken back. */
        {"0.log 4.log 8.log", "0.log=4 4.log=8", "back", "0.log 4.log 8.log"},
        /* The output is not what it was. */
        {"0.log 4.log 8.log 0.log.swap", "0.log.swap=6 0.log=4 4.log=8",
         "back 0.log.swap>cleaned . -0.log.cleaned", "0.log 4.log 8.log"},
        {"0.log 4.log.deleted 8.log 0.log.swap", "0.log.swap=6! 0.log=4",
         "ambiguous", NULL},
        /* Somebody else was here since: Kafka's rule. */
        {"0.log 2.log 8.log 0.log.swap", "0.log.swap=7 2.log=8",
         "forward . 2.log>deleted . 0.log.swap>final . -2.log.deleted",
         "0.log.swap 8.log"},
        {"0.log 9.log", "0.log=9", "none", "0.log 9.log"},
    };
    static const row row_short = {
        "0.log 4.log 4.snapshot 8.log 8.snapshot 0.log.swap", "0.log.swap=3",
        "forward . 4.log>deleted 4.snapshot>deleted . 0.log.swap>final . "
        "-4.log.deleted -4.snapshot.deleted",
        "0.log.swap 8.log"};

    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        check_row(&rows[i], &note);
    }
    check_row(&row_short, &short_note);
}

/* What else there may be: it goes if Kafka made it and nobody needs it. */
static void test_other_files(void **state)
{
    static const row rows[] = {
        {"", "", "none", ""},
        {"0.index 0.timeindex 0.txnindex 0.snapshot 4.log 4.index", "",
         "none -0.index -0.timeindex -0.txnindex", "4.log"},
        {"4.index.swap 4.timeindex.cleaned", "",
         "none -4.timeindex.cleaned -4.index.swap", ""},
        {"0.log 9.snapshot.deleted 9.txnindex.deleted", "",
         "none -9.snapshot.deleted -9.txnindex.deleted", "0.log"},
        {"0.log 0.log.swap.bak 0.log.deleted.deleted 0.other 0.log.old "
         "0.checkpoint.deleted x.log.swap leader-epoch-checkpoint "
         "minikafka.state 9.snapshot.swap",
         "", "none", "0.log"},
        {"0.log 9223372036854775807.log 9223372036854775807.index", "", "none",
         "0.log 9223372036854775807.log"},
    };

    (void)state;
    check_rows(rows, LENGTH(rows));
}

/* What is not a file is as if it were not there. */
static void test_odd_kinds(void **state)
{
    mk_heap heap = mk_heap_default();
    mk_name_list names;
    mk_leftovers plan;
    char looks[] = "";

    (void)state;
    make_names(&names, "0.log 0.log.swap 4.log.deleted");
    names.kinds[1] = MK_KIND_SYMLINK;
    names.kinds[2] = MK_KIND_DIRECTORY;
    assert_int_equal(mk_leftovers_plan(&plan, &heap, &names, &no_note,
                                       (mk_log_eye){looks, look}, NULL),
                     MK_OK);
    assert_int_equal(plan.proof.verdict, MK_VERDICT_NONE);
    assert_int_equal(plan.step_count, 0);
    mk_leftovers_deinit(&plan);
    free_names(&names);
}

/* The error names what there is. */
static void test_the_error_names_what_there_is(void **state)
{
    mk_heap heap = mk_heap_default();
    char looks[] = "0.log.cleaned=7";
    mk_error err = {0};
    mk_name_list names;
    mk_leftovers plan;

    (void)state;
    make_names(&names, "0.log.deleted 4.log 0.log.cleaned 0.index.cleaned");
    assert_int_equal(mk_leftovers_plan(&plan, &heap, &names, &no_note,
                                       (mk_log_eye){looks, look}, NULL),
                     MK_OK);
    assert_int_equal(mk_leftovers_fail(&plan, "/logs/t-0", &err),
                     MK_SWAP_AMBIGUOUS);
    assert_string_equal(err.path, "/logs/t-0");
    assert_int_equal(err.found_count, 2);
    assert_string_equal(err.found[0].path,
                        "/logs/t-0/00000000000000000000.log.cleaned");
    assert_string_equal(err.found[1].path,
                        "/logs/t-0/00000000000000000000.log.deleted");
    assert_string_equal(err.found[1].what, "a source that was given up");
    mk_leftovers_deinit(&plan);
    free_names(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_swap_in_order),
        cmocka_unit_test(test_a_split),
        cmocka_unit_test(test_a_swap_that_proves_nothing),
        cmocka_unit_test(test_a_swap_out_of_order),
        cmocka_unit_test(test_outputs_that_lost_their_end),
        cmocka_unit_test(test_with_a_note),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_odd_kinds),
        cmocka_unit_test(test_the_error_names_what_there_is),
    };

    return cmocka_run_group_tests_name("leftovers", tests, NULL, NULL);
}
