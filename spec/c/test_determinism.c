/*
 * The same script and seed do the same to a simulated disk, byte for byte, in
 * every build. There are two scripts. What the one for a disk alone does and
 * finds is recorded here. What the one for a log does follows the engine, and
 * changes with it: MK_TRACE=<path> leaves its trace in that file, and
 * spec/determinism_spec.lua compares those of two builds.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "include/minikafka_sim.h"
#include "os/env.h"

#define DIRECTORY  "/logs/t-0"
#define STEPS      300
#define STATES_MAX 150
#define SEED       1u
#define RECORDED   UINT64_C(0xb1ffc146a4a7f354) /* The hash, for the seed. */

typedef struct script {
    uint64_t chance; /* State of SplitMix64. */
    mk_sim_disk *disk;
    mk_env *env;
    mk_log *log; /* NULL: it is closed, or there is none. */
    FILE *told;  /* All that was done and found. */
    char *text;  /* Owned: what is in it. */
    size_t size;
} script;

static uint64_t draw(script *s, uint64_t below)
{
    uint64_t z = s->chance += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* ---- Telling ---- */

static mk_status tell_event(void *context, const mk_sim_event *event,
                            mk_error *err)
{
    script *s = context;

    (void)err;
    fprintf(s->told, "  %" PRId64 " %s %s %s %s %" PRId64 " %" PRId64 " %s\n",
            event->step, mk_sim_operation_name(event->operation), event->path,
            event->to != NULL ? event->to : "-",
            event->sync != NULL ? event->sync : "-", event->position,
            event->size,
            event->os_errno != 0 ? mk_errno_name(event->os_errno) : "-");
    return MK_OK;
}

static void tell(script *s, const char *what, mk_status status)
{
    fprintf(s->told, "%s: %s\n", what, mk_status_name(status));
}

static void tell_image(script *s, const char *what, mk_sim_disk *disk)
{
    uint64_t hash[2];

    assert_int_equal(mk_sim_disk_hash(disk, hash, NULL), MK_OK);
    fprintf(s->told, "%s %s %016" PRIx64 "%016" PRIx64 "\n", what,
            mk_sim_profile_name(mk_sim_disk_profile(disk)), hash[0], hash[1]);
}

static void tell_states(script *s)
{
    mk_sim_states_options options;
    mk_sim_states *states;
    mk_sim_disk *state;

    mk_sim_states_options_default(&options);
    options.limit = STATES_MAX;
    options.tears = draw(s, 2) == 0;
    options.exhaustive_bits = 6; /* Some are drawn. */
    assert_int_equal(mk_sim_states_open(s->disk, &options, &states, NULL),
                     MK_OK);
    while (mk_sim_states_next(states, &state, NULL) == MK_OK) {
        tell_image(s, "state", state);
        mk_sim_disk_free(state);
    }
    mk_sim_states_close(states);
}

/* ---- The script for a log ---- */

static mk_status open_log(script *s, mk_error *err)
{
    mk_open_options options;

    mk_open_options_default(&options);
    options.env = s->env;
    options.config.segment_bytes = 2000;
    options.config.index_interval_bytes = 250;
    return mk_log_open(DIRECTORY, &options, &s->log, err);
}

static mk_status append_some(script *s, mk_error *err)
{
    char value[700];
    char key = (char)('a' + draw(s, 5));
    mk_record records[3];
    mk_append_options options;
    mk_offset_range range;
    size_t count = (size_t)draw(s, 3) + 1;

    memset(value, key, sizeof value);
    for (size_t i = 0; i < count; i++) {
        records[i] = (mk_record){.key = &key,
                                 .key_size = 1,
                                 .value = value,
                                 .value_size = (size_t)draw(s, sizeof value),
                                 .timestamp_ms = MK_TIMESTAMP_NOW};
    }
    mk_append_options_default(&options);
    options.durable = draw(s, 4) == 0;
    return mk_log_append(s->log, records, count, &options, &range, err);
}

static mk_status clean(script *s, mk_error *err)
{
    mk_retention_options retention = {.by_size = true,
                                      .retention_bytes = 20000};
    mk_compact_options compaction;
    mk_cleanup_result result;
    mk_status status;

    mk_compact_options_default(&compaction);
    status = draw(s, 2) == 0
                 ? mk_log_retain(s->log, &retention, &result, err)
                 : mk_log_compact(s->log, &compaction, &result, err);
    mk_cleanup_result_deinit(&result);
    return status;
}

static mk_status cut(script *s, mk_error *err)
{
    mk_log_info info;
    int64_t size;

    assert_int_equal(mk_log_get_info(s->log, &info, NULL), MK_OK);
    size = info.log_end_offset - info.log_start_offset;
    if (draw(s, 2) == 0) {
        return mk_log_delete_records(s->log, info.log_start_offset + size / 8,
                                     err);
    }
    return mk_log_truncate_to(s->log, info.log_end_offset - size / 8, err);
}

static mk_status fail_once(script *s, mk_error *err)
{
    mk_sim_fault fault;

    mk_sim_fault_default(&fault);
    fault.operation = draw(s, 2) == 0 ? MK_SIM_FSYNC : MK_SIM_WRITE;
    fault.path = "*.log";
    fault.times = 1;
    fault.flavour = (mk_sim_flavour)draw(s, MK_SIM_FLAVOUR_COUNT);
    return mk_sim_disk_fail(s->disk, &fault, err);
}

/* The end of a machine, and the next one's beginning. */
static void crash(script *s)
{
    mk_sim_profile profile = (mk_sim_profile)draw(s, MK_SIM_PROFILE_COUNT);

    tell_states(s);
    assert_int_equal(mk_sim_disk_crash(s->disk, profile, NULL), MK_OK);
    mk_log_abandon(s->log);
    mk_env_free(s->env);
    s->log = NULL;
    tell_image(s, "found", s->disk);
    assert_int_equal(mk_env_new_sim(s->disk, &s->env, NULL), MK_OK);
    mk_sim_disk_trace(s->disk, (mk_sim_trace){tell_event, s});
}

static mk_status crash_log(script *s, mk_error *err)
{
    crash(s);
    return open_log(s, err);
}

static mk_status reopen(script *s, mk_error *err)
{
    mk_log *log = s->log;
    mk_status status;

    s->log = NULL;
    status = mk_log_close(log, err);
    tell(s, "close", status);
    return open_log(s, err);
}

/* ---- The script for a disk ---- */

static const char *draw_path(script *s)
{
    static const char *const paths[] = {"/a/1.log", "/a/2.log", "/a/3.log",
                                        "/b/1.log", "/b/2.log"};

    return paths[draw(s, sizeof paths / sizeof paths[0])];
}

static mk_status change_file(script *s, mk_error *err)
{
    char bytes[9000];
    int64_t position = (int64_t)draw(s, 10000);
    size_t size = (size_t)draw(s, sizeof bytes);
    mk_file *file;
    mk_status status = mk_file_open(s->env->vfs, draw_path(s),
                                    MK_OPEN_WRITE | MK_OPEN_CREATE, &file, err);

    if (status != MK_OK) return status;
    memset(bytes, (int)draw(s, 256), sizeof bytes);
    switch (draw(s, 4)) {
    case 0:
        status = mk_file_truncate(file, position, err);
        break;
    case 1:
        status = mk_file_allocate(file, position, err);
        break;
    default:
        status = mk_file_write(file, position, bytes, size, err);
        break;
    }
    if (status == MK_OK && draw(s, 3) == 0) {
        status = mk_file_sync(file, draw(s, 2) == 0, MK_SYNC_FLUSH_LOG, err);
    }
    (void)mk_file_close(file, NULL);
    return status;
}

static mk_status change_name(script *s, mk_error *err)
{
    mk_vfs *vfs = s->env->vfs;
    const char *from = draw_path(s);
    const char *to = draw_path(s);

    switch (draw(s, 5)) {
    case 0:
        return mk_vfs_rename(vfs, from, to, err);
    case 1:
        return mk_vfs_exchange(vfs, from, to, err);
    case 2:
        return mk_vfs_link(vfs, from, to, err);
    case 3:
        return mk_vfs_unlink(vfs, from, err);
    default:
        return mk_vfs_set_mtime(vfs, from, (int64_t)draw(s, 100000), err);
    }
}

static mk_status make_directories(script *s, mk_error *err)
{
    mk_status status = mk_vfs_mkdir(s->env->vfs, "/a", err);

    return status == MK_OK ? mk_vfs_mkdir(s->env->vfs, "/b", err) : status;
}

static mk_status sync_names(script *s, mk_error *err)
{
    return mk_vfs_sync_directory(s->env->vfs, draw(s, 2) == 0 ? "/a" : "/",
                                 MK_SYNC_FLUSH_LOG, err);
}

static mk_status crash_disk(script *s, mk_error *err)
{
    crash(s);
    return make_directories(s, err);
}

/* ---- Scripts ---- */

typedef struct deed {
    const char *name;
    mk_status (*run)(script *s, mk_error *err);
    unsigned weight;
} deed;

static const deed log_deeds[] = {
    {"append", append_some, 60},
    {"clean", clean, 8},
    {"cut", cut, 6},
    {"fail", fail_once, 4},
    {"crash", crash_log, 6},
    {"reopen", reopen, 4},
    {NULL, NULL, 0},
};

static const deed disk_deeds[] = {
    {"change", change_file, 40}, {"name", change_name, 30},
    {"sync", sync_names, 10},    {"fail", fail_once, 3},
    {"crash", crash_disk, 8},    {NULL, NULL, 0},
};

static const deed *draw_deed(script *s, const deed *deeds)
{
    uint64_t sum = 0;
    uint64_t drawn;

    for (size_t i = 0; deeds[i].name != NULL; i++) {
        sum += deeds[i].weight;
    }
    drawn = draw(s, sum);
    for (; drawn >= deeds->weight; deeds++) {
        drawn -= deeds->weight;
    }
    return deeds;
}

static void do_something(script *s, const deed *deeds)
{
    const deed *next = draw_deed(s, deeds);
    mk_error err = {0};
    mk_status status;

    mk_sim_disk_manual_clock(s->disk)->now_ms += (int64_t)draw(s, 1000);
    if (deeds == log_deeds && s->log == NULL) {
        status = open_log(s, &err);
        tell(s, "open", status);
        if (status != MK_OK) return;
    }
    status = next->run(s, &err);
    tell(s, next->name, status);
}

/* Run a script and leave what it told in `s->text`. */
static void run_script(script *s, const deed *deeds, uint64_t seed)
{
    mk_sim_options options;

    memset(s, 0, sizeof *s);
    s->chance = seed;
    s->told = open_memstream(&s->text, &s->size);
    assert_non_null(s->told);
    mk_sim_options_default(&options);
    options.seed = seed;
    assert_int_equal(mk_sim_disk_new(NULL, &options, &s->disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(s->disk, &s->env, NULL), MK_OK);
    mk_sim_disk_trace(s->disk, (mk_sim_trace){tell_event, s});
    if (deeds == disk_deeds) {
        assert_int_equal(make_directories(s, NULL), MK_OK);
    }
    for (int i = 0; i < STEPS; i++) {
        do_something(s, deeds);
    }
    tell_image(s, "at last", s->disk);
    mk_log_abandon(s->log);
    mk_env_free(s->env);
    mk_sim_disk_free(s->disk);
    fclose(s->told);
}

/* FNV-1a of 64 bits. */
static uint64_t hash_text(const char *text, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void save(const char *path, const script *s)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(s->text, 1, s->size, file), s->size);
    fclose(file);
}

/* ---- Tests ---- */

static void test_a_disk_is_the_same_everywhere(void **state)
{
    script s;
    uint64_t hash;

    (void)state;
    run_script(&s, disk_deeds, SEED);
    hash = hash_text(s.text, s.size);
    free(s.text);
    if (hash != RECORDED) {
        fail_msg("%zu bytes of trace have the hash 0x%016" PRIx64, s.size,
                 hash);
    }
    run_script(&s, disk_deeds, SEED + 1);
    assert_true(hash_text(s.text, s.size) != RECORDED);
    free(s.text);
}

static void test_a_log_does_the_same_again(void **state)
{
    const char *path = getenv("MK_TRACE");
    script first, second;

    (void)state;
    run_script(&first, log_deeds, SEED);
    if (path != NULL) save(path, &first);
    run_script(&second, log_deeds, SEED);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.text, second.text, first.size);
    free(second.text);
    run_script(&second, log_deeds, SEED + 1);
    assert_true(first.size != second.size ||
                memcmp(first.text, second.text, first.size) != 0);
    free(first.text);
    free(second.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_disk_is_the_same_everywhere),
        cmocka_unit_test(test_a_log_does_the_same_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
