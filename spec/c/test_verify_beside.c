/* A reader verifies a log while its writer goes on: two changes, each before
 * any of the reader's calls. */
#define _GNU_SOURCE
#include "support/log_world.h"

/* Two changes before a reader's calls: it verifies in their midst. */
typedef struct encounter {
    log_world *world;
    long first, second; /* Before these calls of the reader, from 0. */
    long calls;
} encounter;

static void roll_and_cut(void *context, const wrap_call *call)
{
    encounter *e = context;
    long number = e->calls++;

    (void)call;
    if (number != e->first && number != e->second) return;
    e->world->wrap.before = NULL;
    if (number == e->first) fill(e->world, "x=9@50 | y=10@50");
    if (number == e->second) {
        assert_ok(e->world,
                  mk_log_truncate_to(e->world->log, 9, &e->world->err));
    }
    e->world->wrap.before = roll_and_cut;
}

/* A segment that comes and goes while a reader verifies is no damage. How many
 * calls did it make? */
static long verify_while(log_world *world, long first, long second)
{
    encounter e = {world, first, second, 0};
    mk_findings findings;
    mk_log *reader = NULL;
    mk_open_options options = world->options;

    remove_all(world->where);
    open_log(world);
    fill(world, "a=0@10 b=1@10 a=2@10 | b=3@20,c=4@20 d=5@20 | a=6@30 e=7@30 "
                "f=8@40");
    reopen(world); /* Its last segment has its index files then. */
    options.read_only = true;
    assert_ok(world, mk_log_open(world->where, &options, &reader, &world->err));
    world->wrap.context = &e;
    world->wrap.before = roll_and_cut;
    assert_ok(world, mk_log_verify(reader, NULL, &findings, &world->err));
    world->wrap.before = NULL;
    if (findings.count > 0) {
        fail_msg("before calls %ld, %ld: %s", first, second,
                 findings.array[0].message);
    }
    mk_findings_deinit(&findings);
    assert_ok(world, mk_log_close(reader, &world->err));
    close_log(world);
    return e.calls;
}

static void test_a_segment_that_comes_and_goes(void **state)
{
    for (long first = 0; first < verify_while(*state, -1, -1); first++) {
        for (long second = first + 1; second < first + 16; second++) {
            verify_while(*state, first, second);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_a_segment_that_comes_and_goes),
    };

    return cmocka_run_group_tests_name("verify_beside", tests, NULL, NULL);
}
