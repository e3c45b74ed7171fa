/* retention -- a prefix by time, extended by size. */
#include "clean/retention.h"

#include <inttypes.h>

#include "base/check.h"

#include "base/poison.h"

mk_status mk_retention_check(const mk_retention_options *options, mk_error *err)
{
    if (options->by_time && options->retention_ms < 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "retention_ms is %" PRId64 ", which is negative; leave "
                       "it out to keep records of any age",
                       options->retention_ms);
    }
    if (options->by_size && options->retention_bytes <= 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "retention_bytes is %" PRId64 ", not more than 0; leave "
                       "it out to keep any size",
                       options->retention_bytes);
    }
    return MK_OK;
}

/* Is the segment's greatest time before now - retention_ms? */
static bool is_expired(const mk_segment_info *segment, int64_t retention_ms,
                       int64_t now_ms)
{
    int64_t boundary_ms;

    if (__builtin_sub_overflow(now_ms, retention_ms, &boundary_ms)) {
        return false; /* The boundary lies before all times. */
    }
    return segment->max_timestamp_ms < boundary_ms;
}

size_t mk_retention_plan(const mk_segment_info *segments, size_t count,
                         const mk_retention_options *options, int64_t now_ms)
{
    size_t closed = count - 1;
    size_t drop = 0;
    int64_t left = 0;

    MK_ASSERT(count > 0);
    while (options->by_time && drop < closed &&
           is_expired(&segments[drop], options->retention_ms, now_ms)) {
        drop++;
    }
    for (size_t i = drop; i < count; i++) {
        left += segments[i].log_bytes + segments[i].index_bytes;
    }
    while (options->by_size && drop < closed &&
           left > options->retention_bytes) {
        left -= segments[drop].log_bytes + segments[drop].index_bytes;
        drop++;
    }
    return drop;
}
