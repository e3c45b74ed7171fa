/* reopen -- filling, killing, opening, dropping. */
#define _XOPEN_SOURCE 700

#include "reopen.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"

#define PATH_SIZE 4096
#define NAME_SIZE 257 /* A slash, and a name. */
#define COPY_SIZE (1u << 20)

/* How a writer ends. */
typedef enum ending { END_CLEAN, END_KILL, END_KILL_FLUSHED } ending;

static const struct {
    const char *suffix;
    const char *config;
} endings[] = {
    [END_CLEAN] = {"-clean", "mk_log_open after mk_log_close"},
    [END_KILL] = {"-kill", "mk_log_open after SIGKILL"},
    [END_KILL_FLUSHED] = {"-kill-rp", "mk_log_open after flush and SIGKILL"},
};

#define ENDING_COUNT (sizeof endings / sizeof *endings)

/* What is written. */
typedef struct content {
    const char *workload; /* Borrowed. */
    size_t records;       /* So many; 0: as many as the segments hold. */
    size_t segments;
    int32_t segment_bytes; /* 0: the default. */
} content;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- Filling ---- */

static size_t count_segments(mk_log *log)
{
    mk_log_info info;
    mk_error err;

    engine_check(mk_log_get_info(log, &info, &err), &err);
    return (size_t)info.segment_count;
}

static mk_log *fill(const char *directory, const content *what)
{
    const size_t count =
        what->records > 0 ? what->records : (size_t)DATASET_FILLING;
    uint8_t *items = dataset_new(count);
    mk_log *log = engine_open(directory, MK_MAPPED_AUTO, what->segment_bytes);

    if (what->records > 0) {
        engine_append_batches(log, items, count);
    }
    for (size_t i = 0; what->records == 0; i = (i + DATASET_BATCH) % count) {
        if (count_segments(log) >= what->segments) break;
        engine_append_batches(log, items + i * DATASET_ITEM_SIZE,
                              DATASET_BATCH);
    }
    free(items);
    return log;
}

static void write_and_end(const char *directory, const content *what,
                          ending how)
{
    mk_log *log = fill(directory, what);
    mk_error err;

    if (how == END_KILL_FLUSHED) engine_check(mk_log_flush(log, &err), &err);
    if (how != END_CLEAN) raise(SIGKILL);
    engine_close(log);
    _exit(0);
}

/* Have a process write and end. */
static void write_image(const char *directory, const content *what, ending how)
{
    pid_t child = fork();
    int state = 0;

    if (child < 0) fail("fork");
    if (child == 0) write_and_end(directory, what, how);
    if (waitpid(child, &state, 0) != child) fail("waitpid");
    if (WIFEXITED(state) && WEXITSTATUS(state) != 0) exit(1);
}

/* ---- Images ---- */

static void copy_file(const char *from, const char *to)
{
    char *bytes = malloc(COPY_SIZE);
    int in = open(from, O_RDONLY);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t size;

    if (bytes == NULL || in < 0 || out < 0) fail(to);
    while ((size = read(in, bytes, COPY_SIZE)) > 0) {
        if (write(out, bytes, (size_t)size) != size) fail(to);
    }
    close(in);
    close(out);
    free(bytes);
}

static bool is_log(const char *name)
{
    size_t size = strlen(name);

    return size > 4 && strcmp(name + size - 4, ".log") == 0;
}

/* Find the name of the active log, the greatest one. */
static void find_active(const char *directory, char *out, size_t size)
{
    DIR *names = opendir(directory);
    const struct dirent *entry;

    if (names == NULL) fail(directory);
    *out = '\0';
    while ((entry = readdir(names)) != NULL) {
        if (is_log(entry->d_name) && strcmp(entry->d_name, out) > 0) {
            snprintf(out, size, "%s", entry->d_name);
        }
    }
    closedir(names);
}

static void copy_image(const char *from, const char *to)
{
    DIR *names = opendir(from);
    const struct dirent *entry;
    char active[PATH_SIZE];

    if (names == NULL) fail(from);
    find_active(from, active, sizeof active);
    meter_clear(to);
    while ((entry = readdir(names)) != NULL) {
        char source[PATH_SIZE + NAME_SIZE];
        char target[PATH_SIZE + NAME_SIZE];

        if (entry->d_name[0] == '.') continue;
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
        if (!is_log(entry->d_name) || strcmp(entry->d_name, active) == 0) {
            copy_file(source, target);
        } else if (link(source, target) != 0) {
            fail(target);
        }
    }
    closedir(names);
}

/* ---- Reopening ---- */

static void measure_open(meter *run, const content *what, ending how,
                         const char *directory, int repetition)
{
    const int before = meter_descriptors();
    char name[32];
    meter_figure figure = {
        .workload = name,
        .config = endings[how].config,
        .repetition = repetition,
    };
    mk_log *log;

    snprintf(name, sizeof name, "%s%s", what->workload, endings[how].suffix);
    meter_start(run);
    log = engine_open(directory, MK_MAPPED_AUTO, what->segment_bytes);
    meter_stop(run);
    figure.descriptors = meter_descriptors() - before;
    figure.disk_bytes = meter_disk_bytes(directory);
    meter_tell_ms(run, &figure);
    engine_close(log);
}

static void measure_ending(meter *run, const content *what, ending how)
{
    char image[PATH_SIZE];
    char copy[PATH_SIZE];

    meter_clear(run->directory);
    snprintf(image, sizeof image, "%s/image", run->directory);
    snprintf(copy, sizeof copy, "%s/copy", run->directory);
    meter_clear(image);
    write_image(image, what, how);
    for (int rep = -1; rep < run->repetitions; rep++) {
        if (how != END_CLEAN) copy_image(image, copy);
        measure_open(run, what, how, how == END_CLEAN ? image : copy, rep);
    }
}

static content many_segments(const meter *run)
{
    return (content){
        .workload = "W7-1000",
        .segments = dataset_segments(run->scale),
        .segment_bytes = DATASET_SEGMENT_BYTES,
    };
}

void reopen_measure(meter *run)
{
    const content whats[] = {
        {.workload = "W7", .records = dataset_count(DATASET_BULK, run->scale)},
        many_segments(run),
    };

    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++) {
        for (size_t how = 0; how < ENDING_COUNT; how++) {
            measure_ending(run, &whats[i], (ending)how);
        }
    }
}

/* ---- Dropping ---- */

/* Return the offset at which the younger half of the segments begins. */
static int64_t find_middle(mk_log *log)
{
    const size_t count = count_segments(log);
    mk_segment_info *segments = calloc(count, sizeof *segments);
    size_t found;
    int64_t offset;
    mk_error err;

    if (segments == NULL) fail("calloc");
    engine_check(mk_log_segments(log, segments, count, &found, &err), &err);
    offset = segments[count / 2].base_offset;
    free(segments);
    return offset;
}

void reopen_measure_drop(meter *run)
{
    const content what = many_segments(run);

    for (int rep = 0; rep < run->repetitions; rep++) {
        meter_figure figure = {
            .workload = "W8",
            .config = "mk_log_delete_records",
            .repetition = rep,
        };
        mk_log *log;
        int64_t middle;
        mk_error err;

        meter_clear(run->directory);
        log = fill(run->directory, &what);
        middle = find_middle(log);
        meter_start(run);
        engine_check(mk_log_delete_records(log, middle, &err), &err);
        meter_stop(run);
        figure.disk_bytes = meter_disk_bytes(run->directory);
        meter_tell_ms(run, &figure);
        engine_close(log);
    }
}
