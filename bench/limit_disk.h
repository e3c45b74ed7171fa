/*
 * limit_disk -- the bare machine where the disk or its names decide.
 *
 * Each function runs one workload as the meter has it and tells the figures.
 */
#ifndef BENCH_LIMIT_DISK_H
#define BENCH_LIMIT_DISK_H

#include "meter.h"

/* W3, W3-group: pwrite() and fdatasync(), where blocks were written before;
 * "-fallocate": where they were only allocated; "-append": at the end of the
 * file. */
void limit_synced(meter *run);

/* W7-1000-clean: look at each file. W7-1000-kill, W7-kill: read and check every
 * byte of the logs. */
void limit_reopen(meter *run);

/* W8: unlink three files a segment. */
void limit_drop(meter *run);

#endif /* BENCH_LIMIT_DISK_H */
