/*
 * synced -- W3: every append on stable storage before the next.
 *
 *   W3          one record a call
 *   W3-group    100 records a call
 *   W3-threads  one record a call, from several threads, which share syncs
 */
#ifndef BENCH_SYNCED_H
#define BENCH_SYNCED_H

#include "meter.h"

void synced_measure(meter *run);

#endif /* BENCH_SYNCED_H */
