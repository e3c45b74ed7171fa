/*
 * A writer that is killed, for real and at any moment, has lost nothing that it
 * was told is appended; and the log goes on. MK_KILLS says how often; the
 * moments come from one seed, but for what the machine makes of them.
 */
#define _GNU_SOURCE
#include <poll.h>

#include "support/posix_world.h"

#define KILLS    40
#define WAIT_MAX 8000 /* Microseconds. */

/* Tell the parent each offset that append has returned, until killed. */
static void write_on(const char *where, int round, int told)
{
    mk_open_options options;
    mk_log *log = NULL;

    mk_open_options_default(&options);
    options.config.segment_bytes = 20000;
    options.config.index_interval_bytes = 500;
    if (round % 3 == 1) options.mapped = MK_MAPPED_ALWAYS;
    if (round % 3 == 2) options.config.flush_messages = 20;
    CHILD_CHECK(mk_log_open(where, &options, &log, NULL) == MK_OK);
    for (int64_t i = 0;; i++) {
        char text[32];
        mk_record record = {.timestamp_ms = 1, .value = text};
        mk_offset_range range;
        mk_log_info info;

        CHILD_CHECK(mk_log_get_info(log, &info, NULL) == MK_OK);
        record.value_size = (size_t)snprintf(text, sizeof text, "value %lld",
                                             (long long)info.log_end_offset);
        CHILD_CHECK(mk_log_append(log, &record, 1, NULL, &range, NULL) ==
                    MK_OK);
        CHILD_CHECK(write(told, &range.last, sizeof range.last) ==
                    sizeof range.last);
        if (i % 97 == 96) {
            CHILD_CHECK(mk_log_delete_records(log, range.last / 2, NULL) ==
                        MK_OK);
        }
    }
}

/*
 * The last offset that a writer told of before it was killed; -1: none. An
 * even round's moment may lie anywhere from the birth on; an odd round's comes
 * after the first append, however slow the machine.
 */
static int64_t run_and_kill(const char *where, int round, unsigned wait_us)
{
    int64_t last = -1, offset;
    int pipes[2], outcome;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    /* The writer must not wait for the parent, who reads after its death. */
    assert_true(fcntl(pipes[1], F_SETPIPE_SZ, 1 << 20) > 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) write_on(where, round, pipes[1]);
    close(pipes[1]);
    if (round % 2 == 1) {
        struct pollfd first = {.fd = pipes[0], .events = POLLIN};

        assert_int_equal(poll(&first, 1, -1), 1);
    }
    usleep(wait_us);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFSIGNALED(outcome));
    while (read(pipes[0], &offset, sizeof offset) == sizeof offset) {
        assert_true(offset == last + 1 || last < 0);
        last = offset;
    }
    close(pipes[0]);
    return last;
}

/* Everything from the log start to `last` at least is there; returns the end.
 */
static int64_t check(const char *where, int64_t last)
{
    mk_open_options options;
    mk_cursor *cursor = NULL;
    mk_record_view view;
    mk_log *log = NULL;
    mk_error err = {0};
    mk_status status;
    int64_t next;

    mk_open_options_default(&options);
    if (mk_log_open(where, &options, &log, &err) != MK_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(mk_cursor_open(log, NULL, &cursor, NULL), MK_OK);
    next = mk_cursor_next_offset(cursor);
    while ((status = mk_cursor_next(cursor, &view, &err)) == MK_OK) {
        char text[32];
        int size = snprintf(text, sizeof text, "value %lld", (long long)next);

        assert_int_equal(view.offset, next++);
        assert_int_equal(view.value_size, size);
        assert_memory_equal(view.value, text, (size_t)size);
    }
    assert_int_equal(status, MK_END);
    assert_true(next > last);
    mk_cursor_close(cursor);
    assert_int_equal(mk_log_close(log, NULL), MK_OK);
    return next;
}

static void test_killed_writers(void **state)
{
    const char *text = getenv("MK_KILLS");
    int kills = text != NULL ? atoi(text) : KILLS;
    posix_world *world = *state;
    uint64_t chance = 1;
    int64_t end = 0;
    char where[300];

    snprintf(where, sizeof where, "%s/t-0", world->root);
    for (int round = 0; round < kills; round++) {
        int64_t last;

        chance = chance * 6364136223846793005u + 1442695040888963407u;
        last = run_and_kill(where, round, (unsigned)(chance >> 33) % WAIT_MAX);
        assert_true(last < 0 || last >= end);
        if (last < end - 1) last = end - 1;
        if (access(where, F_OK) == 0) end = check(where, last);
    }
    assert_true(end > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_writers, world_setup,
                                        world_teardown),
    };

    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
    return cmocka_run_group_tests_name("kills", tests, NULL, NULL);
}
