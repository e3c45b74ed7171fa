/*
 * reopen -- W7 and W8: logs of many segments.
 *
 *   W7-clean      open W1's data after a clean close
 *   W7-kill       ... after a SIGKILL behind the last append
 *   W7-kill-rp    ... after a flush and a SIGKILL
 *   W7-1000-...   the same with 1,000 segments of 1 MiB
 *   W8            drop the older half of 1,000 segments of 1 MiB
 *
 * A writer that is killed is a process of its own. Each opening after a kill
 * gets the files as the writer left them: those that an opening may change are
 * copied, the sealed logs are linked.
 */
#ifndef BENCH_REOPEN_H
#define BENCH_REOPEN_H

#include "meter.h"

void reopen_measure(meter *run);
void reopen_measure_drop(meter *run);

#endif /* BENCH_REOPEN_H */
