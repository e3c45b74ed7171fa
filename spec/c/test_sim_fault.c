/* Operations that fail, and how they are told. */
#include "support/sim_states.h"

#include "os/sim_fault.h"
#include "os/vfs.h"

/* ---- Globs ---- */

/* Without a slash a glob is for the last name, with one for the whole path. */
static void test_globs(void **state)
{
    static const struct {
        const char *glob, *path;
        bool matches;
    } cases[] = {
        {"*.log", "/d/0.log", true},
        {"*.log", "/d.log/0.index", false},
        {"0.log", "/d/0.log", true},
        {"0.log", "/d/00.log", false},
        {"?.log", "/d/0.log", true},
        {"?.log", "/d/.log", false},
        {"", "/d", false},
        {"*", "/d", true},
        {"*", "/", true},
        {"/d/*", "/d/0.log", true},
        {"/d/*", "/d/e/0.log", true},
        {"/d/*.log", "/e/0.log", false},
        {"/d/0.log", "/d/0.log", true},
        {"d/*", "/d/0.log", false},
        {"[0-9].log", "/7.log", true},
        {"[0-9].log", "/x.log", false},
        {"[!0-9].log", "/x.log", true},
        {"[^0-9].log", "/7.log", false},
        {"[]a].log", "/].log", true},
        {"[a-].log", "/-.log", true},
        {"[abc", "/a", false},
        {"*a*b*c", "/xaxbxbxc", true},
        {"*a*b*c", "/xaxbxbxcx", false},
        {"a**", "/a", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (mk_sim_glob_match(cases[i].glob, cases[i].path) !=
            cases[i].matches) {
            fail_msg("%s and %s", cases[i].glob, cases[i].path);
        }
    }
}

/* ---- Rules ---- */

/* So many pass, then so many fail, of those that match. */
static void test_after_and_times(void **state)
{
    static const int expected[] = {0, 0, EDQUOT, EDQUOT, EDQUOT, 0, 0};
    sim_world *world = *state;
    mk_sim_fault fault = fault_of(MK_SIM_STAT, EDQUOT);
    mk_file_stat stat;
    mk_error err;

    put_file(world, "/f.log", "");
    put_file(world, "/f", "");
    fault.path = "*.log";
    fault.after = 2;
    fault.times = 3;
    add_fault(world, fault);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        mk_status status;

        assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, NULL), MK_OK);
        status = mk_vfs_stat(world->vfs, "/f.log", &stat, &err);
        assert_int_equal(status, expected[i] != 0 ? MK_IO : MK_OK);
        if (status != MK_OK) assert_int_equal(err.os_errno, expected[i]);
    }
    assert_int_equal(stats_of(world->disk).faults, 3);
}

/* Without a number it lasts until the disk is healed; the first rule that is
 * due hits, and the others have counted too. */
static void test_lasting_faults(void **state)
{
    sim_world *world = *state;
    mk_sim_fault first = fault_of(MK_SIM_ANY_OPERATION, 0);
    mk_sim_fault second = fault_of(MK_SIM_STAT, ENOSPC);
    mk_sim_fault third = fault_of(MK_SIM_STAT, EDQUOT);
    mk_file_stat stat;
    mk_file *file;
    mk_error err;

    put_file(world, "/f", "");
    first.times = 1;
    second.after = 1;
    add_fault(world, first);
    add_fault(world, second);
    add_fault(world, third);
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, &err), MK_IO);
    assert_int_equal(err.os_errno, EIO);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, &err), MK_IO);
        assert_int_equal(err.os_errno, ENOSPC);
    }
    assert_int_equal(mk_file_open(world->vfs, "/f", 0, &file, NULL), MK_OK);
    close_file(file);
    mk_sim_disk_heal(world->disk);
    assert_int_equal(mk_vfs_stat(world->vfs, "/f", &stat, &err), MK_OK);
}

/* A change of two names is known by both. */
static void test_second_path_matches_too(void **state)
{
    sim_world *world = *state;
    mk_sim_fault fault = fault_of(MK_SIM_RENAME, EIO);

    put_file(world, "/a", "");
    fault.path = "b";
    add_fault(world, fault);
    assert_int_equal(mk_vfs_rename(world->vfs, "/a", "/b", NULL), MK_IO);
    assert_int_equal(mk_vfs_rename(world->vfs, "/a", "/c", NULL), MK_OK);
    assert_disk(world->disk, "/c=;");
}

static mk_status use_file(sim_world *world, mk_file *file,
                          mk_sim_operation operation)
{
    mk_span span;

    switch (operation) {
    case MK_SIM_READ:
        return mk_file_view(file, &world->scratch, 0, 1, &span, NULL);
    case MK_SIM_WRITE:
        return mk_file_write(file, 0, "x", 1, NULL);
    case MK_SIM_TRUNCATE:
        return mk_file_truncate(file, 1, NULL);
    case MK_SIM_ALLOCATE:
        return mk_file_allocate(file, 9, NULL);
    case MK_SIM_FSYNC:
        return mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, NULL);
    case MK_SIM_FDATASYNC:
        return mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL);
    default:
        return MK_END;
    }
}

static mk_status use_names(mk_vfs *vfs, mk_sim_operation operation)
{
    mk_name_list list;
    mk_file_stat stat;
    mk_file *file;

    switch (operation) {
    case MK_SIM_OPEN:
        return mk_file_open(vfs, "/n", MK_OPEN_CREATE, &file, NULL);
    case MK_SIM_FSYNC_DIR:
        return mk_vfs_sync_directory(vfs, "/", MK_SYNC_FLUSH_DIRECTORY, NULL);
    case MK_SIM_UTIME:
        return mk_vfs_set_mtime(vfs, "/f", 5, NULL);
    case MK_SIM_RENAME:
        return mk_vfs_rename(vfs, "/f", "/n", NULL);
    case MK_SIM_EXCHANGE:
        return mk_vfs_exchange(vfs, "/f", "/g", NULL);
    case MK_SIM_LINK:
        return mk_vfs_link(vfs, "/f", "/n", NULL);
    case MK_SIM_UNLINK:
        return mk_vfs_unlink(vfs, "/f", NULL);
    case MK_SIM_MKDIR:
        return mk_vfs_mkdir(vfs, "/n", NULL);
    case MK_SIM_RMDIR:
        return mk_vfs_rmdir(vfs, "/d", NULL);
    case MK_SIM_LIST:
        return mk_vfs_list(vfs, "/", &list, NULL);
    case MK_SIM_STAT:
        return mk_vfs_stat(vfs, "/f", &stat, NULL);
    case MK_SIM_LOCK:
        return mk_vfs_lock(vfs, "/n", "x", &file, NULL);
    default:
        return MK_END;
    }
}

/* Each operation fails by its word, and nothing of it is done. */
static void test_every_operation_can_fail(void **state)
{
    sim_world *world = *state;

    put_file(world, "/f", "abc");
    put_file(world, "/g", "def");
    assert_int_equal(mk_vfs_mkdir(world->vfs, "/d", NULL), MK_OK);
    for (int i = 0; i < MK_SIM_OPERATION_COUNT; i++) {
        mk_sim_operation operation = (mk_sim_operation)i;
        mk_file *file = open_file(world, "/f", MK_OPEN_WRITE);
        uint64_t before[2];
        uint64_t after[2];
        mk_status status;
        mk_status closed;

        assert_int_equal(mk_sim_disk_hash(world->disk, before, NULL), MK_OK);
        add_fault(world, fault_of(operation, EROFS));
        status = use_file(world, file, operation);
        if (status == MK_END) status = use_names(world->vfs, operation);
        closed = mk_file_close(file, NULL);
        assert_int_equal(operation == MK_SIM_CLOSE ? closed : status, MK_IO);
        assert_int_equal(operation == MK_SIM_CLOSE ? status : closed,
                         operation == MK_SIM_CLOSE ? MK_END : MK_OK);
        mk_sim_disk_heal(world->disk);
        assert_int_equal(mk_sim_disk_hash(world->disk, after, NULL), MK_OK);
        assert_memory_equal(before, after, sizeof before);
        assert_int_equal(stats_of(world->disk).files, 2);
    }
}

/* Of a short write some bytes arrive. */
static void test_short_write(void **state)
{
    sim_world *world = *state;
    mk_sim_fault fault = fault_of(MK_SIM_WRITE, 0);
    mk_file *file = hold(world, create_file(world, "/f"));
    mk_error err;

    fault.short_size = 2;
    fault.times = 1;
    add_fault(world, fault);
    assert_int_equal(mk_file_write(file, 0, "abcdef", 6, &err), MK_IO);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_disk(world->disk, "/f=ab;");
    fault.short_size = 100;
    fault.os_errno = EIO;
    add_fault(world, fault);
    assert_int_equal(mk_file_write(file, 2, "cd", 2, &err), MK_IO);
    assert_int_equal(err.os_errno, EIO);
    assert_disk(world->disk, "/f=abcd;");
}

/* EINTR is tried again below the core. */
static void test_interruption_is_not_seen(void **state)
{
    sim_world *world = *state;
    mk_sim_fault fault = fault_of(MK_SIM_WRITE, EINTR);
    mk_file *file = hold(world, create_file(world, "/f"));

    fault.short_size = 1;
    add_fault(world, fault);
    write_at(file, 0, "abc");
    assert_disk(world->disk, "/f=abc;");
    assert_int_equal(stats_of(world->disk).faults, 1);
}

/* What makes no sense is refused. */
static void test_faults_are_checked(void **state)
{
    sim_world *world = *state;
    mk_sim_fault fault = fault_of(MK_SIM_FSYNC, 0);

    fault.delayed = true;
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL),
                     MK_INVALID_ARGUMENT);
    fault = fault_of(MK_SIM_READ, 0);
    fault.short_size = 0;
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL),
                     MK_INVALID_ARGUMENT);
    fault = fault_of(MK_SIM_ANY_OPERATION, 0);
    fault.after = -1;
    assert_int_equal(mk_sim_disk_fail(world->disk, &fault, NULL),
                     MK_INVALID_ARGUMENT);
    assert_int_equal(mk_sim_disk_leave_out(world->disk, "FLUSH", NULL),
                     MK_INVALID_ARGUMENT);
}

/* ---- Traces ---- */

typedef struct told_events {
    sim_world *world;
    char lines[2048];
    size_t used;
    const char *refused; /* The path whose operations fail, or NULL. */
    bool looked;
} told_events;

static mk_status tell(void *context, const mk_sim_event *event, mk_error *err)
{
    told_events *told = context;

    told->used += (size_t)snprintf(
        told->lines + told->used, sizeof told->lines - told->used,
        "%d %s %s%s%s %d %d%s%s%s%s\n", (int)event->step,
        mk_sim_operation_name(event->operation), event->path,
        event->to != NULL ? " " : "", event->to != NULL ? event->to : "",
        (int)event->position, (int)event->size, event->sync != NULL ? " " : "",
        event->sync != NULL ? event->sync : "", event->os_errno != 0 ? " " : "",
        event->os_errno != 0 ? mk_errno_name(event->os_errno) : "");
    if (told->refused != NULL && strcmp(told->refused, event->path) == 0) {
        err->status = MK_CALLBACK;
        return MK_CALLBACK;
    }
    return MK_OK;
}

/* Every operation is told, in order, with what it is about and how it fails. */
static void test_trace(void **state)
{
    sim_world *world = *state;
    told_events told = {.world = world};
    mk_sim_fault fault = fault_of(MK_SIM_FSYNC, EDQUOT);
    mk_file_stat stat;
    mk_file *file;
    mk_span span;

    fault.times = 1;
    add_fault(world, fault);
    mk_sim_disk_trace(world->disk, (mk_sim_trace){tell, &told});
    assert_int_equal(mk_vfs_mkdir(world->vfs, "/d", NULL), MK_OK);
    file = create_file(world, "/d/./f");
    write_at(file, 7, "abc");
    assert_int_equal(mk_file_view(file, &world->scratch, 2, 9, &span, NULL),
                     MK_OK);
    assert_int_equal(mk_file_allocate(file, 20, NULL), MK_OK);
    assert_int_equal(mk_file_truncate(file, 5, NULL), MK_OK);
    assert_int_equal(mk_file_sync(file, false, MK_SYNC_SWAP_LOG, NULL), MK_IO);
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
    sync_directory(world, "/d/");
    rename_to(world, "/d/f", "/g");
    assert_int_equal(mk_vfs_stat(world->vfs, "/none", &stat, NULL),
                     MK_NOT_FOUND);
    close_file(file);
    mk_sim_disk_trace(world->disk, (mk_sim_trace){0});
    assert_int_equal(mk_vfs_unlink(world->vfs, "/g", NULL), MK_OK);
    assert_string_equal(told.lines, "1 mkdir /d 0 0\n"
                                    "2 open /d/f 0 0\n"
                                    "3 write /d/f 7 3\n"
                                    "4 read /d/f 2 9\n"
                                    "5 allocate /d/f 0 20\n"
                                    "6 truncate /d/f 0 5\n"
                                    "7 fsync /d/f 0 0 SWAP_LOG EDQUOT\n"
                                    "8 fdatasync /d/f 0 0 FLUSH_LOG\n"
                                    "9 fsync_dir /d 0 0 FLUSH_DIRECTORY\n"
                                    "10 rename /d/f /g 0 0\n"
                                    "11 stat /none 0 0 ENOENT\n"
                                    "12 close /d/f 0 0\n");
    assert_int_equal(stats_of(world->disk).steps, 13);
    assert_int_equal(stats_of(world->disk).operations[MK_SIM_WRITE], 1);
    assert_int_equal(stats_of(world->disk).bytes_written, 3);
    assert_int_equal(stats_of(world->disk).bytes_read, 8);
}

/* A tail's commit is one write, a cut at its end one truncate. */
static void test_trace_of_a_tail(void **state)
{
    sim_world *world = *state;
    told_events told = {.world = world};
    mk_file *file;
    uint8_t *tail;

    put_file(world, "/f", "0123456789");
    file = open_file(world, "/f", MK_OPEN_WRITE);
    mk_sim_disk_trace(world->disk, (mk_sim_trace){tell, &told});
    assert_int_equal(mk_file_tail_begin(file, 4, MK_TAIL_AUTO, NULL), MK_OK);
    assert_int_equal(mk_file_tail_reserve(file, 9, &tail, NULL), MK_OK);
    assert_int_equal(mk_file_tail_commit(file, 0, NULL), MK_OK);
    assert_int_equal(mk_file_tail_reserve(file, 9, &tail, NULL), MK_OK);
    memcpy(tail, "xy", 2);
    assert_int_equal(mk_file_tail_commit(file, 2, NULL), MK_OK);
    close_file(file);
    assert_string_equal(told.lines, "2 write /f 4 2\n"
                                    "3 truncate /f 0 6\n"
                                    "4 close /f 0 0\n");
}

/* What the trace refuses is not done. */
static void test_trace_can_refuse(void **state)
{
    sim_world *world = *state;
    told_events told = {.world = world, .refused = "/f"};
    mk_sim_fault fault = fault_of(MK_SIM_FSYNC, EIO);
    mk_file *file = hold(world, create_file(world, "/f"));
    mk_error err;

    write_at(file, 0, "abc");
    add_fault(world, fault);
    mk_sim_disk_trace(world->disk, (mk_sim_trace){tell, &told});
    assert_int_equal(mk_file_write(file, 0, "x", 1, &err), MK_CALLBACK);
    assert_int_equal(err.status, MK_CALLBACK);
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", &err), MK_CALLBACK);
    assert_int_equal(mk_file_sync(file, false, MK_SYNC_FLUSH_LOG, &err),
                     MK_CALLBACK);
    mk_sim_disk_trace(world->disk, (mk_sim_trace){0});
    assert_disk(world->disk, "/f=abc;");
    assert_int_equal(stats_of(world->disk).pending, 3);
}

/* Look at the disk from inside the trace, and try to change it. */
static mk_status look(void *context, const mk_sim_event *event, mk_error *err)
{
    told_events *told = context;
    sim_world *world = told->world;
    mk_sim_disk *clone;
    mk_file *file;
    mk_span span;
    int64_t steps = stats_of(world->disk).steps;

    (void)err;
    assert_int_equal(event->operation, MK_SIM_WRITE);
    assert_disk(world->disk, "/f=old;");
    assert_int_equal(mk_sim_disk_clone(world->disk, &clone, NULL), MK_OK);
    assert_disk(clone, "/f=old;");
    mk_sim_disk_free(clone);
    assert_states(world->disk, NULL, "kill9 /f=old;\n");
    assert_int_equal(mk_file_open(world->vfs, "/f", 0, &file, NULL), MK_OK);
    assert_int_equal(mk_file_view(file, &world->scratch, 0, 9, &span, NULL),
                     MK_OK);
    assert_int_equal(span.size, 3);
    assert_int_equal(mk_file_write(file, 0, "x", 1, NULL), MK_BUSY);
    assert_int_equal(mk_file_close(file, NULL), MK_OK);
    assert_int_equal(
        mk_file_open(world->vfs, "/g", MK_OPEN_CREATE, &file, NULL), MK_BUSY);
    assert_int_equal(mk_vfs_unlink(world->vfs, "/f", NULL), MK_BUSY);
    assert_int_equal(mk_sim_disk_crash(world->disk, MK_SIM_LAZY, NULL),
                     MK_BUSY);
    assert_int_equal(mk_sim_disk_write(world->disk, "/f", "", 0, NULL),
                     MK_BUSY);
    assert_int_equal(mk_sim_disk_cut(world->disk, "/f", 0, NULL), MK_BUSY);
    assert_int_equal(stats_of(world->disk).steps, steps);
    told->looked = true;
    return MK_OK;
}

static void test_trace_may_look(void **state)
{
    sim_world *world = *state;
    told_events told = {.world = world};
    mk_file *file;

    put_file(world, "/f", "old");
    file = hold(world, open_file(world, "/f", MK_OPEN_WRITE));
    mk_sim_disk_trace(world->disk, (mk_sim_trace){look, &told});
    write_at(file, 0, "new");
    mk_sim_disk_trace(world->disk, (mk_sim_trace){0});
    assert_true(told.looked);
    assert_disk(world->disk, "/f=new;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(globs),
        TEST(after_and_times),
        TEST(lasting_faults),
        TEST(second_path_matches_too),
        TEST(every_operation_can_fail),
        TEST(short_write),
        TEST(interruption_is_not_seen),
        TEST(faults_are_checked),
        TEST(trace),
        TEST(trace_of_a_tail),
        TEST(trace_can_refuse),
        TEST(trace_may_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
