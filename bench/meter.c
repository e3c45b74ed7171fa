/* meter -- clocks, resident memory, directories, and lines of JSON. */
#define _XOPEN_SOURCE 700

#include "meter.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dataset.h"

#define PATH_SIZE  4096
#define BLOCK_SIZE 512 /* The unit of st_blocks. */

static double now_s(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Return a line of /proc/self/status in kB; 0 where there is no such file. */
static int64_t status_kb(const char *name)
{
    char line[256];
    const size_t size = strlen(name);
    int64_t value = 0;
    FILE *file = fopen("/proc/self/status", "r");

    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, size) != 0 || line[size] != ':') continue;
        value = atoll(line + size + 1);
        break;
    }
    fclose(file);
    return value;
}

/* Let the peak of resident memory begin anew: Linux does it on a "5" here. */
static void forget_peak(void)
{
    int file = open("/proc/self/clear_refs", O_WRONLY);

    if (file < 0) return;
    if (write(file, "5", 1) != 1) perror("clear_refs");
    close(file);
}

/* Add up the blocks of all files under `path`, removing them if told to. */
static int64_t walk(const char *path, bool removing)
{
    char child[PATH_SIZE];
    int64_t bytes = 0;
    struct stat state;
    struct dirent *entry;
    DIR *directory = opendir(path);

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        snprintf(child, sizeof child, "%s/%s", path, name);
        if (lstat(child, &state) != 0) continue;
        if (S_ISDIR(state.st_mode)) {
            bytes += walk(child, removing);
        } else {
            bytes += (int64_t)state.st_blocks * BLOCK_SIZE;
        }
        if (removing && remove(child) != 0) perror(child);
    }
    if (directory != NULL) closedir(directory);
    return bytes;
}

void meter_init(meter *out, const char *peer, int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s WORKLOAD DIR SCALE REPS\n", argv[0]);
        exit(2);
    }
    *out = (meter){
        .peer = peer,
        .workload = argv[1],
        .directory = argv[2],
        .scale = atof(argv[3]),
        .repetitions = atoi(argv[4]),
    };
}

void meter_start(meter *run)
{
    forget_peak();
    run->resident_kb = status_kb("VmRSS");
    run->seconds = 0;
    run->cpu_seconds = 0;
    meter_resume(run);
}

double meter_stop(meter *run)
{
    run->seconds += now_s(CLOCK_MONOTONIC) - run->started_s;
    run->cpu_seconds += now_s(CLOCK_PROCESS_CPUTIME_ID) - run->cpu_started_s;
    run->resident_max_kb = status_kb("VmHWM");
    return run->seconds;
}

void meter_resume(meter *run)
{
    run->cpu_started_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
    run->started_s = now_s(CLOCK_MONOTONIC);
}

void meter_tell(const meter *run, const meter_figure *figure)
{
    int64_t growth = run->resident_max_kb - run->resident_kb;

    if (figure->repetition < 0) return;
    printf("{\"peer\":\"%s\",\"workload\":\"%s\",\"unit\":\"%s\","
           "\"value\":%.6g,\"rss_kb\":%" PRId64 ",\"rss_abs_kb\":%" PRId64
           ",\"disk_bytes\":%" PRId64 ",\"config\":\"%s\",\"rep\":%d,"
           "\"seconds\":%.6f,\"cpu_seconds\":%.6f",
           run->peer, figure->workload, figure->unit, figure->value,
           growth > 0 ? growth : 0, run->resident_max_kb, figure->disk_bytes,
           figure->config, figure->repetition, run->seconds, run->cpu_seconds);
    if (figure->has_checksum) {
        printf(",\"checksum\":\"%016" PRIx64 "\"", figure->checksum);
    }
    if (figure->syncs > 0) {
        printf(",\"syncs_per_s\":%.1f", figure->syncs / run->seconds);
    }
    if (figure->descriptors > 0) printf(",\"fds\":%d", figure->descriptors);
    puts("}");
    fflush(stdout);
}

void meter_tell_rate(const meter *run, const meter_figure *figure,
                     uint64_t records)
{
    meter_figure told = *figure;

    told.unit = "rec/s";
    told.value = (double)records / run->seconds;
    meter_tell(run, &told);
    told.unit = "MB/s";
    told.value *= DATASET_ITEM_SIZE / 1e6;
    meter_tell(run, &told);
}

void meter_tell_ms(const meter *run, const meter_figure *figure)
{
    meter_figure told = *figure;

    told.unit = "ms";
    told.value = run->seconds * 1e3;
    meter_tell(run, &told);
}

int meter_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    if (directory == NULL) return 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count - 3; /* Itself, and its two dots. */
}

void meter_clear(const char *path)
{
    mkdir(path, 0755);
    walk(path, true);
}

void meter_remove(const char *path)
{
    meter_clear(path);
    if (remove(path) != 0) perror(path);
}

int64_t meter_disk_bytes(const char *path)
{
    return walk(path, false);
}
