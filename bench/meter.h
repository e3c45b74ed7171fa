/*
 * meter -- one run of a benchmark program: what was asked for, the clock, and
 * the lines that tell the results.
 *
 * A program is called as PROGRAM WORKLOAD DIR SCALE REPS, runs the workload
 * REPS times in DIR and prints a line of JSON for each repetition and figure.
 */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include <stdbool.h>
#include <stdint.h>

#define METER_NOT_OURS 3 /* Exit status: no such workload here. */

typedef struct meter {
    const char *peer;      /* Borrowed: who is measured, */
    const char *workload;  /* ... at what, */
    const char *directory; /* ... and where. */
    double scale;
    int repetitions;
    double started_s;
    double cpu_started_s;
    double cpu_seconds;      /* Of the processor, and ... */
    double seconds;          /* Between meter_start() and meter_stop(). */
    int64_t resident_kb;     /* At meter_start(). */
    int64_t resident_max_kb; /* The peak between the two. */
} meter;

/* One figure. */
typedef struct meter_figure {
    const char *workload; /* Borrowed, as all text here. */
    const char *unit;
    double value;
    const char *config; /* How the peer was set up. */
    int repetition;     /* A negative one is a warm-up, and not told. */
    int64_t disk_bytes; /* What the data take on the disk. */
    uint64_t checksum;  /* Of what was read. */
    bool has_checksum;
    double syncs;    /* In that time; 0: not told. */
    int descriptors; /* That it holds; 0: not told. */
} meter_figure;

/* Take the arguments; a wrong number of them ends the process. */
void meter_init(meter *out, const char *peer, int argc, char **argv);

/* Begin a measurement and start the clock. */
void meter_start(meter *run);

/* Stop the clock and return the seconds that it has run. */
double meter_stop(meter *run);

/* Let the stopped clock run on. */
void meter_resume(meter *run);

/* Print `figure`, with seconds and memory of the last measured stretch. */
void meter_tell(const meter *run, const meter_figure *figure);

/* Print a figure in records a second and once more in MB a second, a MB being
 * 10^6 bytes of keys and values. `figure` lacks unit and value. */
void meter_tell_rate(const meter *run, const meter_figure *figure,
                     uint64_t records);

/* Print the measured stretch as milliseconds. `figure` lacks unit and value. */
void meter_tell_ms(const meter *run, const meter_figure *figure);

/* Return how many descriptors this process has. */
int meter_descriptors(void);

/* Make the directory `path` if it is missing, and remove what is in it. */
void meter_clear(const char *path);

/* Remove `path` with all that is in it. */
void meter_remove(const char *path);

/* Return the bytes allocated to files under `path`. */
int64_t meter_disk_bytes(const char *path);

#endif /* BENCH_METER_H */
