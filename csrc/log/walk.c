/* walk -- finding a place, looking at batches, moving on. */
#include "log/walk.h"

#include <inttypes.h>

#include "base/check.h"
#include "log/refresh.h"
#include "log/segment_indexes.h"

#include "base/poison.h"

#define AHEAD_MIN 512
#define AHEAD_MAX (256 << 10)
/* Index entries that lie farther apart than this mean large batches. */
#define LARGE_BATCH (16 << 10)
/* Headers that are on their way while batches are passed over. */
#define HEADERS_AHEAD 8

/* ---- Places ---- */

void mk_walk_leave_locked(mk_walk *walk)
{
    mk_segment *segment = walk->segment;

    walk->ahead = (mk_span){NULL, 0};
    walk->segment = NULL;
    if (segment == NULL) return;
    mk_log_unpin_locked(walk->log, segment);
    mk_log_release_segment_locked(walk->log, segment);
}

mk_status mk_log_fail_range_locked(const mk_log *log, int64_t offset,
                                   mk_error *err)
{
    mk_status status = mk_fail(
        err, MK_OFFSET_OUT_OF_RANGE,
        "offset %" PRId64 " is not in %" PRId64 "..%" PRId64 " of %s", offset,
        log->log_start_offset, log->log_end_offset, log->directory);

    if (err != NULL) {
        err->requested = offset;
        err->log_start_offset = log->log_start_offset;
        err->log_end_offset = log->log_end_offset;
    }
    return status;
}

/* How far may be read, and what may be found there? */
static void see_end_locked(mk_walk *walk, const mk_segment *segment)
{
    walk->log_bytes = segment->log_bytes;
    walk->end_offset = segment->next_offset;
    walk->dense_offset = walk->log->dense_offset;
}

mk_status mk_walk_enter_locked(mk_walk *walk, mk_segment *segment,
                               mk_error *err)
{
    if (walk->segment != segment) {
        mk_status status;

        mk_walk_leave_locked(walk);
        status = mk_log_pin_locked(walk->log, segment, err);
        if (status != MK_OK) return status;
        walk->segment = mk_log_acquire_segment_locked(segment);
    }
    walk->ahead = (mk_span){NULL, 0};
    walk->generation = walk->log->generation;
    walk->cuts = walk->log->cuts;
    see_end_locked(walk, segment);
    walk->position = 0;
    walk->fallback = -1;
    walk->stretch = AHEAD_MAX;
    walk->guessed = false;
    return MK_OK;
}

/* Number of the first segment from number `i` on that can have a batch that is
 * wanted; the count of segments if there is none. */
static size_t next_wanted_locked(const mk_walk *walk, size_t i)
{
    const mk_log *log = walk->log;

    for (; i < log->segment_count; i++) {
        const mk_segment *segment = log->segments[i];

        if (segment->log_bytes == 0) continue;
        if (segment->max_timestamp_ms >= walk->skip_below_ms) break;
    }
    return i;
}

/* Set how much to read from the position when the batch that is wanted, or the
 * one behind it, begins at `end`: less, as long as batches are all alike. */
static void set_stretch(mk_walk *walk, int64_t end, int64_t likely_end)
{
    size_t likely = (size_t)(likely_end - walk->position);

    walk->stretch = (size_t)(end - walk->position);
    if (likely_end < walk->position || walk->unlike) return;
    likely += walk->stretch / 16;
    if (likely >= walk->stretch) return;
    walk->stretch = likely;
    walk->guessed = true;
}

/* Use what the index says of the walk's offset. Where entries lie far apart,
 * batches are large, and the one that the next entry names is most likely the
 * one wanted; else a scan begins at the entry before. */
static mk_status use_index_locked(mk_walk *walk, mk_error *err)
{
    mk_segment *segment = walk->segment;
    mk_scan_start start;
    mk_status status = mk_log_load_indexes_locked(walk->log, segment, err);
    int64_t end;

    if (status != MK_OK) return status;
    start = mk_offset_index_lookup(&segment->offsets, walk->next_offset);
    walk->position = start.position;
    walk->fallback = start.hinted ? 0 : -1;
    end = start.next;
    if (start.next - start.position > LARGE_BATCH) {
        walk->position = start.next;
        walk->fallback = start.position;
        end = start.after;
        start.likely_end = -1;
    }
    if (end < 0) end = walk->log_bytes;
    set_stretch(walk, end, start.likely_end);
    return MK_OK;
}

/* Find the place of the walk's offset. MK_END: nothing stands there yet. */
static mk_status find_locked(mk_walk *walk, mk_error *err)
{
    mk_log *log = walk->log;
    int64_t offset = walk->next_offset;
    mk_status status = mk_log_check_open_locked(log, err);
    size_t found, i;

    if (status != MK_OK) return status;
    if (offset < log->log_start_offset || offset > log->log_end_offset) {
        return mk_log_fail_range_locked(log, offset, err);
    }
    found = mk_log_find_segment_locked(log, offset);
    i = next_wanted_locked(walk, found);
    if (offset == log->log_end_offset || i == log->segment_count) {
        walk->next_offset = log->log_end_offset;
        return MK_END;
    }
    status = mk_walk_enter_locked(walk, log->segments[i], err);
    if (status != MK_OK || i != found) return status;
    return use_index_locked(walk, err);
}

/* All seen of the segment was walked: it has grown, or another follows. */
static mk_status go_on_locked(mk_walk *walk, mk_error *err)
{
    mk_log *log = walk->log;
    mk_segment *segment = walk->segment;
    size_t i;

    if (segment->log_bytes > walk->log_bytes) {
        see_end_locked(walk, segment);
        return MK_OK;
    }
    i = mk_log_find_segment_locked(log, segment->base_offset) + 1;
    i = next_wanted_locked(walk, i);
    if (i < log->segment_count) {
        return mk_walk_enter_locked(walk, log->segments[i], err);
    }
    /* Past the last batch, and past a gap that may follow it. */
    walk->next_offset = log->log_end_offset;
    return MK_END;
}

/* Get to a place with something to read: the one behind what was walked, or
 * anew by offset. MK_END at the log end. */
static mk_status move(mk_walk *walk, mk_error *err)
{
    mk_log *log = walk->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    /* A reader's segment may have been replaced; this is the time to see it. */
    if (status == MK_OK) status = mk_log_refresh_locked(log, err);
    if (status != MK_OK) goto done;
    if (walk->segment != NULL && !mk_walk_is_moved(walk) &&
        !mk_walk_is_void(walk)) {
        status = go_on_locked(walk, err);
    } else {
        mk_walk_leave_locked(walk);
        status = find_locked(walk, err);
    }
done:
    mk_mutex_unlock(&log->mutex);
    return status;
}

/* ---- Batches ---- */

mk_status mk_walk_fail(mk_walk *walk, mk_status code, const char *what,
                       mk_error *err)
{
    const mk_segment *segment = walk->segment;
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_segment_log_path(segment, walk->log->directory, path,
                                 sizeof path, err);
    if (status != MK_OK) return status;
    status = mk_fail_at(err, code, path, walk->position,
                        "%s is damaged at position %" PRId64
                        ", at or after offset %" PRId64 ": %s",
                        path, walk->position, walk->next_offset, what);
    if (err != NULL) err->offset = walk->next_offset;
    return status;
}

/* How much to read for at least `wanted` bytes: as the index suggests for the
 * first time, then whole batches of the wanted size, since most are alike. */
static size_t ahead_size(const mk_walk *walk, size_t wanted)
{
    size_t size = walk->stretch;

    if (size < AHEAD_MIN) size = AHEAD_MIN;
    if (size > AHEAD_MAX) size = AHEAD_MAX;
    if (size < wanted) return wanted;
    return wanted > MK_BATCH_HEADER_SIZE ? size - size % wanted : size;
}

/* Read at least `wanted` bytes from the position on, and some more when reading
 * goes on and on. */
static mk_status read_ahead(mk_walk *walk, size_t wanted, mk_error *err)
{
    size_t left = (size_t)(walk->log_bytes - walk->position);
    size_t size = ahead_size(walk, wanted);
    mk_status status;

    if (size > left) size = left;
    walk->stretch = size * 4; /* Who reads on gets there in a few steps. */
    walk->ahead = (mk_span){NULL, 0};
    status = mk_file_view(walk->segment->log.file, &walk->scratch,
                          walk->position, size, &walk->ahead, err);
    if (status != MK_OK) return status;
    if (walk->ahead.size < size && walk->ahead.size < wanted) {
        /* A truncation may have come in between. */
        if (mk_walk_is_void(walk) || mk_walk_is_moved(walk)) {
            return move(walk, err);
        }
        return mk_walk_fail(walk, MK_CORRUPT_SEGMENT, "the file ends early",
                            err);
    }
    return MK_OK;
}

/* Have the processor fetch the headers of the batches from number `first` to
 * HEADERS_AHEAD behind the one at `bytes`, if all have its size, as most do:
 * without that it waits for each, since each says where the next one is. */
static void fetch_headers(mk_span bytes, size_t size, size_t first)
{
    for (size_t i = first; i <= HEADERS_AHEAD; i++) {
        if (i * size >= bytes.size) return;
        __builtin_prefetch(bytes.data + i * size);
    }
}

/* Pass over batches that end below the walk's offset, as far as they were read.
 */
static void pass_below(mk_walk *walk)
{
    size_t first = 2;

    for (;;) {
        size_t size = mk_batch_size_if_below(walk->ahead, walk->next_offset);

        if (size == 0) return;
        fetch_headers(walk->ahead, size, first);
        first = HEADERS_AHEAD;
        walk->position += (int64_t)size;
        walk->ahead.data += size;
        walk->ahead.size -= size;
    }
}

static void pass_batch(mk_walk *walk)
{
    walk->position += walk->batch.size;
    walk->ahead.data += walk->batch.size;
    walk->ahead.size -= walk->batch.size;
}

/* What stands at the position can't be: if an index led here, look where it
 * can't mislead, else it is damage. */
static mk_status distrust(mk_walk *walk, const char *what, mk_error *err)
{
    if (walk->fallback < 0) {
        return mk_walk_fail(walk, MK_CORRUPT_SEGMENT, what, err);
    }
    walk->position = walk->fallback;
    walk->fallback = walk->fallback > 0 ? 0 : -1;
    walk->ahead = (mk_span){NULL, 0};
    return MK_OK;
}

/* Look at the batch at the position. `*whole` is false when the place changed
 * instead and it is to be tried again. */
static mk_status look(mk_walk *walk, bool *whole, mk_error *err)
{
    mk_batch *batch = &walk->batch;
    int64_t left;
    size_t wanted;

    *whole = false;
    pass_below(walk);
    left = walk->log_bytes - walk->position;
    switch (mk_batch_peek(walk->ahead, batch)) {
    case MK_BATCH_WHOLE:
        if (walk->fallback >= 0 && batch->base_offset > walk->next_offset) {
            return distrust(walk, "", err);
        }
        walk->fallback = -1;
        *whole = true;
        return MK_OK;
    case MK_BATCH_PARTIAL:
        if (left == 0) return move(walk, err);
        wanted = batch->size > 0 ? batch->size : MK_BATCH_HEADER_SIZE;
        if (walk->guessed && walk->ahead.data != NULL) walk->unlike = true;
        if ((int64_t)wanted > left) {
            return distrust(walk, "a batch that does not end", err);
        }
        if (mk_walk_is_moved(walk)) return move(walk, err);
        return read_ahead(walk, wanted, err);
    case MK_BATCH_OLD:
        if (walk->fallback >= 0) return distrust(walk, "", err);
        return mk_fail(err, MK_UNSUPPORTED,
                       "messages of format %d are not read yet", batch->magic);
    case MK_BATCH_DAMAGED:
        break;
    }
    return distrust(walk, "no batch", err);
}

/* Was the batch at the position checked before, and remembered? */
static bool was_met(const mk_walk *walk)
{
    mk_log *log = walk->log;
    bool met;

    mk_mutex_lock(&log->mutex);
    met = mk_batch_cache_has(&log->batch_cache, walk->segment->id,
                             walk->position);
    mk_mutex_unlock(&log->mutex);
    return met;
}

/* Can the batch at the position have its offsets? The checksum does not cover
 * the first of them. */
static const char *judge_offsets(const mk_walk *walk)
{
    const mk_batch *batch = &walk->batch;

    if (MK_UNLIKELY(mk_batch_next_offset(batch) > walk->end_offset)) {
        return "a batch that reaches beyond its segment";
    }
    if (MK_UNLIKELY(batch->base_offset > walk->next_offset &&
                    batch->base_offset > walk->dense_offset &&
                    walk->skip_below_ms == INT64_MIN)) {
        return "offsets that are missing";
    }
    return NULL;
}

static mk_status next_batch(mk_walk *walk, const uint8_t **bytes, mk_error *err)
{
    const mk_batch *batch = &walk->batch;
    const char *fault;

    for (;;) {
        mk_status status;
        bool whole = false;

        if (walk->segment == NULL || mk_walk_is_void(walk)) {
            status = move(walk, err);
        } else {
            status = look(walk, &whole, err);
        }
        if (status != MK_OK) return status;
        if (!whole) continue;
        if (mk_batch_last_offset(batch) < walk->next_offset ||
            batch->max_timestamp < walk->skip_below_ms) {
            pass_batch(walk);
            continue;
        }
        *bytes = walk->ahead.data;
        walk->guessed = false;
        walk->met = walk->seeking && batch->record_count >= MK_SAMPLE_OFFSETS &&
                    was_met(walk);
        if (!walk->met && !mk_batch_checksum_agrees(*bytes, batch)) {
            return mk_walk_fail(walk, MK_CORRUPT_SEGMENT, "a wrong checksum",
                                err);
        }
        fault = judge_offsets(walk);
        if (MK_UNLIKELY(fault != NULL)) {
            return mk_walk_fail(walk, MK_CORRUPT_SEGMENT, fault, err);
        }
        pass_batch(walk);
        return MK_OK;
    }
}

mk_status mk_walk_next(mk_walk *walk, const uint8_t **bytes, mk_error *err)
{
    mk_log *log = walk->log;
    mk_status status;
    bool again;

    do {
        uint64_t generation =
            walk->segment == NULL ? log->generation : walk->generation;

        status = next_batch(walk, bytes, err);
        if (MK_LIKELY(status == MK_OK) || !log->read_only) return status;
        mk_mutex_lock(&log->mutex);
        again = mk_log_was_outdated_locked(log, generation, status);
        if (again) mk_walk_leave_locked(walk);
        mk_mutex_unlock(&log->mutex);
    } while (again);
    return status;
}

/* ---- Life ---- */

void mk_walk_init_locked(mk_walk *walk, mk_log *log)
{
    *walk = (mk_walk){.log = mk_log_acquire_locked(log),
                      .skip_below_ms = INT64_MIN};
    mk_scratch_init(&walk->scratch, &log->heap);
}

void mk_walk_deinit(mk_walk *walk)
{
    mk_log *log = walk->log;

    mk_mutex_lock(&log->mutex);
    mk_walk_leave_locked(walk);
    mk_mutex_unlock(&log->mutex);
    mk_scratch_deinit(&walk->scratch);
    mk_log_release(log);
}

mk_status mk_walk_check_range_locked(const mk_walk *walk, int64_t offset,
                                     mk_error *err)
{
    mk_status status = mk_log_check_open_locked(walk->log, err);

    if (status != MK_OK) return status;
    if (offset >= walk->log->log_start_offset &&
        offset <= walk->log->log_end_offset) {
        return MK_OK;
    }
    return mk_log_fail_range_locked(walk->log, offset, err);
}

mk_status mk_walk_go_locked(mk_walk *walk, int64_t offset, mk_error *err)
{
    mk_log *log = walk->log;
    uint64_t generation;
    mk_status status = mk_walk_check_range_locked(walk, offset, err);

    if (status != MK_OK) return status;
    walk->next_offset = offset;
    do {
        generation = log->generation;
        status = find_locked(walk, err);
    } while (mk_log_was_outdated_locked(log, generation, status));
    if (status != MK_END) return status;
    mk_walk_leave_locked(walk);
    walk->next_offset = offset;
    return MK_OK;
}
