/* Which segments are too old or too many: plans by table and by chance. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "clean/retention.h"

enum { SEGMENTS = 6 };

/* Segments of that many bytes each, with these greatest times; the last one is
 * the active one. */
typedef struct scene {
    mk_segment_info segments[SEGMENTS];
    size_t count;
} scene;

static scene scene_of(const int64_t *times_ms, size_t count, int64_t bytes)
{
    scene s = {.count = count};

    for (size_t i = 0; i < count; i++) {
        s.segments[i] = (mk_segment_info){
            .base_offset = (int64_t)i * 10,
            .next_offset = (int64_t)i * 10 + 10,
            .log_bytes = bytes - bytes / 4,
            .index_bytes = bytes / 4,
            .max_timestamp_ms = times_ms[i],
        };
    }
    return s;
}

static size_t plan_by_time(const scene *s, int64_t retention_ms, int64_t now_ms)
{
    const mk_retention_options options = {.by_time = true,
                                          .retention_ms = retention_ms};

    return mk_retention_plan(s->segments, s->count, &options, now_ms);
}

static size_t plan_by_size(const scene *s, int64_t retention_bytes)
{
    const mk_retention_options options = {.by_size = true,
                                          .retention_bytes = retention_bytes};

    return mk_retention_plan(s->segments, s->count, &options, 0);
}

/* The chapter's own: at 300 with 100 ms the boundary is 200. */
static void test_by_time(void **state)
{
    static const int64_t times_ms[] = {0, 50, 150, 250};
    scene s = scene_of(times_ms, 4, 100);

    (void)state;
    assert_int_equal(plan_by_time(&s, 100, 300), 3);
    assert_int_equal(plan_by_time(&s, 100, 250), 2); /* 150 is not < 150. */
    assert_int_equal(plan_by_time(&s, 100, 251), 3);
    assert_int_equal(plan_by_time(&s, 100, 150), 1);
    assert_int_equal(plan_by_time(&s, 100, 100), 0);
    assert_int_equal(plan_by_time(&s, 0, 0), 0);
    assert_int_equal(plan_by_time(&s, 0, 1), 1);
    assert_int_equal(plan_by_time(&s, 0, INT64_MAX), 3); /* Not the active. */
}

/* A young segment keeps all after it, however old those are. */
static void test_prefix(void **state)
{
    static const int64_t times_ms[] = {250, 0, 0, 0};
    static const int64_t others_ms[] = {0, 250, 0, 0};
    scene s = scene_of(times_ms, 4, 100);

    (void)state;
    assert_int_equal(plan_by_time(&s, 100, 300), 0);
    s = scene_of(others_ms, 4, 100);
    assert_int_equal(plan_by_time(&s, 100, 300), 1);
}

/* Segments without a time are older than any boundary from 0 on. */
static void test_without_times(void **state)
{
    static const int64_t times_ms[] = {-1, -1, -1};
    scene s = scene_of(times_ms, 3, 100);

    (void)state;
    assert_int_equal(plan_by_time(&s, 100, 100), 2);
    assert_int_equal(plan_by_time(&s, 100, 99), 0);
    assert_int_equal(plan_by_time(&s, INT64_MAX, INT64_MAX), 2);
}

/* Boundaries at the ends of time are no accident. */
static void test_ends_of_time(void **state)
{
    static const int64_t times_ms[] = {INT64_MIN, INT64_MAX, 0};
    scene s = scene_of(times_ms, 3, 100);

    (void)state;
    assert_int_equal(plan_by_time(&s, INT64_MAX, INT64_MIN), 0);
    assert_int_equal(plan_by_time(&s, 1, INT64_MIN), 0);
    assert_int_equal(plan_by_time(&s, 0, INT64_MIN), 0);
    assert_int_equal(plan_by_time(&s, 0, INT64_MIN + 1), 1);
    assert_int_equal(plan_by_time(&s, INT64_MAX, -1), 0);
    assert_int_equal(plan_by_time(&s, INT64_MAX, 0), 1);
    assert_int_equal(plan_by_time(&s, 0, INT64_MAX), 1);
}

/* Oldest first until the rest fits: logs and indexes, the active one too. */
static void test_by_size(void **state)
{
    static const int64_t times_ms[] = {0, 0, 0, 0};
    scene s = scene_of(times_ms, 4, 100);

    (void)state;
    assert_int_equal(plan_by_size(&s, INT64_MAX), 0);
    assert_int_equal(plan_by_size(&s, 400), 0);
    assert_int_equal(plan_by_size(&s, 399), 1);
    assert_int_equal(plan_by_size(&s, 300), 1);
    assert_int_equal(plan_by_size(&s, 299), 2);
    assert_int_equal(plan_by_size(&s, 200), 2);
    assert_int_equal(plan_by_size(&s, 199), 3);
    assert_int_equal(plan_by_size(&s, 1), 3);
    s.segments[3].log_bytes = 1000; /* The active one alone is too much. */
    assert_int_equal(plan_by_size(&s, 500), 3);
}

/* The size rule begins behind what time has taken. */
static void test_both(void **state)
{
    static const int64_t times_ms[] = {0, 0, 500, 500, 500};
    scene s = scene_of(times_ms, 5, 100);
    mk_retention_options options = {.by_time = true,
                                    .retention_ms = 100,
                                    .by_size = true,
                                    .retention_bytes = 300};

    (void)state;
    assert_int_equal(mk_retention_plan(s.segments, 5, &options, 300), 2);
    options.retention_bytes = 299;
    assert_int_equal(mk_retention_plan(s.segments, 5, &options, 300), 3);
    options.retention_bytes = 500;
    assert_int_equal(mk_retention_plan(s.segments, 5, &options, 300), 2);
    options.by_time = false;
    assert_int_equal(mk_retention_plan(s.segments, 5, &options, 300), 0);
    options.by_size = false;
    options.retention_bytes = 1;
    assert_int_equal(mk_retention_plan(s.segments, 5, &options, 300), 0);
}

/* The active segment never goes, least of all alone. */
static void test_active_alone(void **state)
{
    static const int64_t times_ms[] = {0};
    scene s = scene_of(times_ms, 1, 100);

    (void)state;
    assert_int_equal(plan_by_time(&s, 0, INT64_MAX), 0);
    assert_int_equal(plan_by_size(&s, 1), 0);
}

/* The same by trying every prefix. */
static size_t slow_plan(const scene *s, const mk_retention_options *options,
                        int64_t now_ms)
{
    size_t by_time = 0;

    for (size_t drop = 1; options->by_time && drop < s->count; drop++) {
        bool all_old = true;

        for (size_t i = 0; i < drop; i++) {
            all_old = all_old && s->segments[i].max_timestamp_ms <
                                     now_ms - options->retention_ms;
        }
        if (all_old) by_time = drop;
    }
    for (size_t drop = by_time; drop + 1 < s->count; drop++) {
        int64_t left = 0;

        for (size_t i = drop; i < s->count; i++) {
            left += s->segments[i].log_bytes + s->segments[i].index_bytes;
        }
        if (!options->by_size || left <= options->retention_bytes) return drop;
    }
    return s->count - 1;
}

static void test_chance(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        int64_t now_ms = (int64_t)draw(&seed, 20);
        mk_retention_options options = {
            .by_time = draw(&seed, 4) > 0,
            .retention_ms = (int64_t)draw(&seed, 15),
            .by_size = draw(&seed, 4) > 0,
            .retention_bytes = 1 + (int64_t)draw(&seed, 50),
        };
        int64_t times_ms[SEGMENTS];
        size_t count = 1 + draw(&seed, SEGMENTS);
        scene s;

        for (size_t j = 0; j < count; j++) {
            times_ms[j] = (int64_t)draw(&seed, 20) - 1;
        }
        s = scene_of(times_ms, count, 0);
        for (size_t j = 0; j < count; j++) {
            s.segments[j].log_bytes = (int64_t)draw(&seed, 15);
            s.segments[j].index_bytes = (int64_t)draw(&seed, 5);
        }
        assert_int_equal(mk_retention_plan(s.segments, count, &options, now_ms),
                         slow_plan(&s, &options, now_ms));
    }
}

static void test_check(void **state)
{
    static const struct {
        mk_retention_options options;
        const char *refused; /* The option that the message names; NULL. */
    } cases[] = {
        {{.by_time = true, .retention_ms = 0}, NULL},
        {{.by_time = true, .retention_ms = INT64_MAX}, NULL},
        {{.by_time = true, .retention_ms = -1}, "retention_ms"},
        {{.by_time = true, .retention_ms = INT64_MIN}, "retention_ms"},
        {{.by_size = true, .retention_bytes = 1}, NULL},
        {{.by_size = true, .retention_bytes = INT64_MAX}, NULL},
        {{.by_size = true, .retention_bytes = 0}, "retention_bytes"},
        {{.by_size = true, .retention_bytes = -1}, "retention_bytes"},
        {{.retention_ms = -1, .retention_bytes = -1}, NULL},
        {{.by_size = true, .retention_bytes = 1, .retention_ms = -1}, NULL},
        {{.by_time = true, .retention_ms = 1, .retention_bytes = -1}, NULL},
        {{.by_time = true, .by_size = true, .retention_ms = 5},
         "retention_bytes"},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        mk_error err = {0};
        mk_status status = mk_retention_check(&cases[i].options, &err);

        if (cases[i].refused == NULL) {
            assert_ok(status);
        } else {
            assert_status(status, MK_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, cases[i].refused));
        }
        assert_status(mk_retention_check(&cases[i].options, NULL), status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_time),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_without_times),
        cmocka_unit_test(test_ends_of_time),
        cmocka_unit_test(test_by_size),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_active_alone),
        cmocka_unit_test(test_chance),
        cmocka_unit_test(test_check),
    };

    return cmocka_run_group_tests_name("retention", tests, NULL, NULL);
}
