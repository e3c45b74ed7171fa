/* salvage -- scanning past damage, and writing what is sound. */
#include "log/salvage.h"

#include <inttypes.h>

#include "base/check.h"
#include "log/segment_check.h"
#include "store/batch_hunt.h"
#include "store/segment_scan.h"

#include "base/poison.h"

#define STEP_BUDGET            (1u << 20)
#define INDEX_INTERVAL_DEFAULT 4096

/* ---- Reading ---- */

/* The scan of one file. */
typedef struct reading {
    mk_salvage *salvage; /* Borrowed. */
    mk_segment *seen;    /* Owned. */
    mk_file *file;       /* Owned. */
    mk_scratch scratch;
    mk_segment_scan scan;
    int64_t begun;         /* Where the stretch at hand begins, */
    int64_t first;         /* ... and with which offset; -1: nowhere. */
    int64_t last_position; /* Of the last batch, */
    int64_t before_last;   /* ... and which offset was due there. */
} reading;

/* Note whether offsets are missing before a batch. */
static void note_odd(reading *r, const mk_batch *batch)
{
    const mk_segment *seen = r->seen;
    bool odd = batch->base_offset > seen->next_offset;

    r->salvage->odd_position = odd ? seen->log_bytes : -1;
    r->salvage->odd_due = seen->next_offset;
}

/* A batch whose records can't be read is no sound one. */
static mk_status see_batch(void *context, const mk_segment *seen,
                           const uint8_t *bytes, const mk_batch *batch,
                           mk_error *err)
{
    reading *r = context;
    int64_t greatest_ms = INT64_MIN;

    if ((batch->attributes & MK_ATTRIBUTE_CODEC) == MK_CODEC_NONE &&
        mk_check_records(bytes, batch, &greatest_ms) != NULL) {
        return mk_fail(err, MK_CORRUPT_BATCH, "malformed records");
    }
    if (r->first < 0) r->first = batch->base_offset;
    if (batch->base_offset > seen->next_offset) {
        r->salvage->gap_end = batch->base_offset;
    }
    note_odd(r, batch);
    r->last_position = seen->log_bytes;
    r->before_last = seen->next_offset;
    return MK_OK;
}

static mk_status end_stretch(reading *r, mk_error *err)
{
    mk_salvage *salvage = r->salvage;
    void *array = salvage->stretches;
    mk_status status;

    if (r->first < 0) return MK_OK;
    status = mk_grow(salvage->heap, &array, &salvage->capacity,
                     salvage->count + 1, sizeof *salvage->stretches, err);
    salvage->stretches = array;
    if (status != MK_OK) return status;
    salvage->stretches[salvage->count++] =
        (mk_stretch){r->begun, r->seen->log_bytes - r->begun, r->first,
                     r->seen->next_offset};
    r->first = -1;
    return MK_OK;
}

/* A base offset is not summed up. Where the log goes back behind a batch, but
 * not behind the one before it, that batch is the wrong one. */
static mk_status take_back_last(reading *r, mk_error *err)
{
    mk_segment *seen = r->seen;
    mk_batch batch;
    mk_span bytes;
    mk_status status;

    if (r->first < 0 || r->scan.end != MK_SCAN_DAMAGED) return MK_OK;
    status = mk_file_view(r->file, &r->scratch, seen->log_bytes,
                          MK_BATCH_HEADER_SIZE, &bytes, err);
    if (status != MK_OK) return status;
    if (bytes.size < MK_BATCH_HEADER_SIZE) return MK_OK;
    if (mk_batch_peek(bytes, &batch) == MK_BATCH_DAMAGED ||
        batch.base_offset >= seen->next_offset ||
        batch.base_offset < r->before_last) {
        return MK_OK;
    }
    status = mk_file_view(r->file, &r->scratch, seen->log_bytes, batch.size,
                          &bytes, err);
    if (status != MK_OK) return status;
    if (mk_batch_peek(bytes, &batch) != MK_BATCH_WHOLE ||
        !mk_batch_checksum_agrees(bytes.data, &batch)) {
        return MK_OK;
    }
    if (r->last_position == r->begun) r->first = -1;
    r->salvage->odd_position = -1;
    seen->log_bytes = r->last_position;
    seen->next_offset = r->before_last;
    return MK_OK;
}

/* Look for the next sound batch behind damage; `*found` tells whether there is
 * one. */
static mk_status pass_damage(reading *r, bool *found, mk_error *err)
{
    mk_batch_hunt hunt;
    mk_status status = take_back_last(r, err);

    if (status == MK_OK) status = end_stretch(r, err);
    r->salvage->whole = false;
    mk_batch_hunt_init(&hunt, r->file, r->salvage->file_size,
                       r->seen->log_bytes + 1, r->seen->next_offset, INT64_MAX,
                       &r->scratch);
    while (status == MK_OK && !hunt.over) {
        status = mk_batch_hunt_step(&hunt, STEP_BUDGET, err);
    }
    *found = status == MK_OK && hunt.found;
    if (!*found) return status;
    r->seen->log_bytes = r->begun = hunt.position;
    r->scan.end = MK_SCAN_RUNNING;
    return MK_OK;
}

static mk_status fail_old(const reading *r, const char *path, mk_error *err)
{
    return mk_fail_at(err, MK_UNSUPPORTED, path, r->seen->log_bytes,
                      "%s has messages of an old format, which are not read "
                      "yet",
                      path);
}

static mk_status read_all(reading *r, const char *path, mk_error *err)
{
    bool more = true;
    mk_status status = MK_OK;

    while (status == MK_OK && more) {
        status = mk_segment_scan_step(&r->scan, STEP_BUDGET, err);
        if (status == MK_OK && r->scan.end == MK_SCAN_RUNNING) continue;
        if (status == MK_OK && r->scan.end == MK_SCAN_OLD) {
            return fail_old(r, path, err);
        }
        if (status == MK_OK && r->scan.end == MK_SCAN_WHOLE) {
            more = false;
            status = end_stretch(r, err);
        } else if (status == MK_OK || status == MK_CORRUPT_BATCH) {
            status = pass_damage(r, &more, err);
        }
    }
    return status;
}

mk_status mk_salvage_read(mk_salvage *salvage, mk_vfs *vfs, const char *path,
                          int64_t base_offset, mk_error *err)
{
    reading r = {.salvage = salvage, .first = -1};
    mk_file_stat stat;
    mk_status status;

    *salvage = (mk_salvage){
        .heap = &vfs->heap, .gap_end = -1, .whole = true, .odd_position = -1};
    mk_scratch_init(&r.scratch, &vfs->heap);
    status = mk_segment_new(&vfs->heap, base_offset, &r.seen, err);
    if (status == MK_OK) status = mk_file_open(vfs, path, 0, &r.file, err);
    if (status == MK_OK) status = mk_file_stat_open(r.file, &stat, err);
    if (status != MK_OK) goto done;
    salvage->file_size = stat.size < INT32_MAX ? stat.size : INT32_MAX;
    mk_segment_scan_init(&r.scan, r.seen, r.file, salvage->file_size, INT64_MAX,
                         &r.scratch);
    r.scan.watch = (mk_scan_watch){see_batch, &r};
    status = read_all(&r, path, err);
    if (salvage->file_size < stat.size) salvage->whole = false;
    salvage->max_timestamp_ms = r.seen->max_timestamp_ms;
done:
    (void)mk_file_close(r.file, NULL); /* It was only read. */
    mk_segment_free(r.seen);
    mk_scratch_deinit(&r.scratch);
    return status;
}

void mk_salvage_deinit(mk_salvage *salvage)
{
    if (salvage->heap != NULL) mk_release(salvage->heap, salvage->stretches);
    *salvage = (mk_salvage){.heap = salvage->heap};
}

void mk_salvage_drop_odd(mk_salvage *salvage)
{
    mk_stretch *last = &salvage->stretches[salvage->count - 1];

    MK_ASSERT(salvage->odd_position >= last->position);
    last->size = salvage->odd_position - last->position;
    last->next_offset = salvage->odd_due;
    if (last->size == 0) salvage->count--;
    salvage->odd_position = -1;
    salvage->whole = false;
}

/* ---- Writing ---- */

/* Going through the batches that are wanted. */
typedef struct sifting {
    mk_file *from; /* Owned. */
    mk_file *to;   /* Owned; NULL: they are only measured. */
    int64_t first, limit;
    mk_scratch scratch;
    mk_salvage_extent extent;
} sifting;

/* Take one batch, which stands at `position`. */
static mk_status sift_batch(sifting *s, int64_t position, int64_t *size,
                            mk_error *err)
{
    mk_batch batch;
    mk_span bytes;
    mk_status status = mk_file_view(s->from, &s->scratch, position,
                                    MK_BATCH_HEADER_SIZE, &bytes, err);

    if (status != MK_OK) return status;
    if (mk_batch_peek(bytes, &batch) == MK_BATCH_DAMAGED || batch.size == 0) {
        return mk_fail(err, MK_CORRUPT_BATCH, "the log has changed meanwhile");
    }
    *size = batch.size;
    if (batch.base_offset < s->first ||
        mk_batch_last_offset(&batch) >= s->limit) {
        return MK_OK;
    }
    if (s->to != NULL) {
        status = mk_file_view(s->from, &s->scratch, position, batch.size,
                              &bytes, err);
        if (status == MK_OK) {
            status = mk_file_write(s->to, s->extent.size, bytes.data,
                                   bytes.size, err);
        }
    }
    if (s->extent.size == 0) s->extent.first_offset = batch.base_offset;
    s->extent.size += batch.size;
    s->extent.next_offset = mk_batch_next_offset(&batch);
    return status;
}

static mk_status sift(const mk_salvage *salvage, sifting *s, mk_vfs *vfs,
                      const char *from, mk_error *err)
{
    mk_status status;

    mk_scratch_init(&s->scratch, &vfs->heap);
    status = mk_file_open(vfs, from, 0, &s->from, err);
    for (size_t i = 0; status == MK_OK && i < salvage->count; i++) {
        int64_t position = salvage->stretches[i].position;
        int64_t end = position + salvage->stretches[i].size;

        while (status == MK_OK && position < end) {
            int64_t size = 0;

            status = sift_batch(s, position, &size, err);
            position += size;
        }
    }
    (void)mk_file_close(s->from, NULL); /* It was only read. */
    mk_scratch_deinit(&s->scratch);
    return status;
}

mk_status mk_salvage_write(const mk_salvage *salvage, mk_vfs *vfs,
                           const char *from, int64_t first, int64_t limit,
                           const char *to, mk_error *err)
{
    sifting s = {.first = first, .limit = limit};
    mk_status status, closed;

    status = mk_file_open(vfs, to,
                          MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE,
                          &s.to, err);
    if (status != MK_OK) return status;
    status = sift(salvage, &s, vfs, from, err);
    if (status == MK_OK) {
        status = mk_file_sync(s.to, true, MK_SYNC_REPAIR_LOG, err);
    }
    closed = mk_file_close(s.to, status == MK_OK ? err : NULL);
    return status != MK_OK ? status : closed;
}

mk_status mk_salvage_measure(const mk_salvage *salvage, mk_vfs *vfs,
                             const char *from, int64_t first, int64_t limit,
                             mk_salvage_extent *out, mk_error *err)
{
    sifting s = {.first = first, .limit = limit};
    mk_status status = sift(salvage, &s, vfs, from, err);

    *out = s.extent;
    return status;
}

/* Put both index files on stable storage: a repair is done for good. */
static mk_status sync_indexes(mk_vfs *vfs, const char *directory,
                              int64_t base_offset, mk_error *err)
{
    static const mk_file_role roles[] = {MK_ROLE_OFFSET_INDEX,
                                         MK_ROLE_TIME_INDEX};

    for (int i = 0; i < 2; i++) {
        char path[MK_PATH_MAX];
        mk_file *file = NULL;
        mk_status status = mk_name_segment_file(path, sizeof path, directory,
                                                base_offset, roles[i], err);

        if (status == MK_OK) status = mk_file_open(vfs, path, 0, &file, err);
        if (status != MK_OK) return status;
        status = mk_file_sync(file, true, MK_SYNC_REPAIR_LOG, err);
        (void)mk_file_close(file, NULL); /* It was synced, or failed. */
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

mk_status mk_salvage_index(mk_vfs *vfs, const char *directory,
                           int64_t base_offset, mk_error *err)
{
    mk_segment *segment = NULL;
    mk_file *file = NULL;
    char path[MK_PATH_MAX];
    mk_segment_scan scan;
    mk_scratch scratch;
    mk_file_stat stat;
    mk_status status;

    mk_scratch_init(&scratch, &vfs->heap);
    status = mk_name_segment_file(path, sizeof path, directory, base_offset,
                                  MK_ROLE_LOG, err);
    if (status == MK_OK) {
        status = mk_segment_new(&vfs->heap, base_offset, &segment, err);
    }
    if (status == MK_OK) status = mk_file_open(vfs, path, 0, &file, err);
    if (status == MK_OK) status = mk_file_stat_open(file, &stat, err);
    if (status != MK_OK) goto done;
    mk_segment_scan_init(&scan, segment, file, stat.size,
                         INDEX_INTERVAL_DEFAULT, &scratch);
    while (status == MK_OK && scan.end == MK_SCAN_RUNNING) {
        status = mk_segment_scan_step(&scan, STEP_BUDGET, err);
    }
    if (status == MK_OK) status = mk_segment_finish_times(segment, err);
    if (status == MK_OK) {
        status = mk_segment_write_indexes(segment, vfs, directory, err);
    }
    if (status == MK_OK) {
        status = sync_indexes(vfs, directory, base_offset, err);
    }
done:
    (void)mk_file_close(file, NULL); /* It was only read. */
    mk_segment_free(segment);
    mk_scratch_deinit(&scratch);
    return status;
}
