/* segment -- keeping one segment's facts and indexes. */
#include "store/segment.h"

#include <stdio.h>

#include "base/check.h"
#include "codec/crc32c.h"
#include "store/copy_file.h"
#include "store/replace_file.h"

#include "base/poison.h"

mk_status mk_segment_new(const mk_heap *heap, int64_t base_offset,
                         mk_segment **out, mk_error *err)
{
    mk_segment *segment = mk_alloc_zero(heap, sizeof *segment);

    *out = segment;
    if (segment == NULL) return mk_fail_memory(err, sizeof *segment);
    segment->heap = heap;
    segment->references = 1;
    segment->base_offset = base_offset;
    mk_offset_index_init(&segment->offsets, heap, base_offset);
    mk_time_index_init(&segment->times, heap, base_offset);
    mk_segment_reset(segment);
    return MK_OK;
}

void mk_segment_free(mk_segment *segment)
{
    if (segment == NULL) return;
    MK_ASSERT(segment->log.file == NULL);
    mk_offset_index_deinit(&segment->offsets);
    mk_time_index_deinit(&segment->times);
    mk_release(segment->heap, segment);
}

void mk_segment_reset(mk_segment *segment)
{
    segment->next_offset = segment->base_offset;
    segment->log_bytes = 0;
    segment->max_timestamp_ms = -1;
    segment->max_timestamp_offset = segment->base_offset;
    segment->first_timestamp_ms = -1;
    segment->last_batch_position = -1;
    segment->last_batch_checksum = 0;
    segment->bytes_since_entry = 0;
    mk_offset_index_clear(&segment->offsets);
    mk_time_index_clear(&segment->times);
    segment->offsets_written = 0;
    segment->times_written = 0;
    segment->index_files_good = false;
    segment->indexes_loaded = true;
}

void mk_segment_adopt(mk_segment *segment, mk_segment *other)
{
    mk_offset_index offsets = segment->offsets;
    mk_time_index times = segment->times;

    MK_ASSERT(segment->base_offset == other->base_offset);
    MK_ASSERT(other->indexes_loaded);
    mk_segment_reset(segment);
    segment->next_offset = other->next_offset;
    segment->log_bytes = other->log_bytes;
    segment->max_timestamp_ms = other->max_timestamp_ms;
    segment->max_timestamp_offset = other->max_timestamp_offset;
    segment->first_timestamp_ms = other->first_timestamp_ms;
    segment->last_batch_position = other->last_batch_position;
    segment->last_batch_checksum = other->last_batch_checksum;
    segment->bytes_since_entry = other->bytes_since_entry;
    segment->offsets = other->offsets;
    segment->times = other->times;
    other->offsets = offsets;
    other->times = times;
    mk_segment_reset(other);
}

void mk_segment_take_facts(mk_segment *segment, const mk_segment_facts *facts)
{
    mk_segment_reset(segment);
    segment->next_offset = facts->next_offset;
    segment->log_bytes = facts->log_bytes;
    segment->max_timestamp_ms = facts->max_timestamp_ms;
    segment->max_timestamp_offset = facts->max_timestamp_offset;
    segment->first_timestamp_ms = facts->first_timestamp_ms;
    segment->offset_entries = (size_t)facts->offset_entries;
    segment->time_entries = (size_t)facts->time_entries;
    segment->index_checksum = facts->index_checksum;
    segment->indexes_loaded = false;
}

/* One checksum for both index files. */
static uint32_t join_checksums(uint32_t offsets, uint32_t times)
{
    uint8_t bytes[4];

    mk_store_u32(bytes, times);
    return mk_crc32c(offsets, bytes, sizeof bytes);
}

void mk_segment_get_facts(const mk_segment *segment, mk_segment_facts *out)
{
    bool loaded = segment->indexes_loaded;

    *out = (mk_segment_facts){
        .base_offset = segment->base_offset,
        .next_offset = segment->next_offset,
        .log_bytes = segment->log_bytes,
        .max_timestamp_ms = segment->max_timestamp_ms,
        .max_timestamp_offset = segment->max_timestamp_offset,
        .first_timestamp_ms = segment->first_timestamp_ms,
        .offset_entries = (int64_t)(loaded ? segment->offsets.count
                                           : segment->offset_entries),
        .time_entries =
            (int64_t)(loaded ? segment->times.count : segment->time_entries),
        .index_checksum = loaded ? join_checksums(segment->offsets.checksum,
                                                  segment->times.checksum)
                                 : segment->index_checksum,
    };
}

/* Enter the batch into both indexes. Both entries or neither: room for the
 * second is asked for first. */
static mk_status add_entries(mk_segment *segment, int64_t last_offset,
                             int64_t max_ms, int64_t max_offset, mk_error *err)
{
    mk_time_index before = segment->times;
    mk_status status =
        mk_time_index_maybe_add(&segment->times, max_ms, max_offset, err);

    if (status != MK_OK) return status;
    status = mk_offset_index_add(&segment->offsets, last_offset,
                                 segment->log_bytes, err);
    if (status != MK_OK) {
        segment->times.count = before.count;
        segment->times.checksum = before.checksum;
    }
    return status;
}

mk_status mk_segment_note(mk_segment *segment, const mk_batch *batch,
                          int64_t index_interval_bytes, mk_error *err)
{
    int64_t last_offset = mk_batch_last_offset(batch);
    bool newest = batch->max_timestamp > segment->max_timestamp_ms;
    int64_t max_ms = newest ? batch->max_timestamp : segment->max_timestamp_ms;
    int64_t max_offset = newest ? last_offset : segment->max_timestamp_offset;

    MK_ASSERT(mk_segment_fits(segment, last_offset));
    if (segment->bytes_since_entry > index_interval_bytes) {
        mk_status status =
            add_entries(segment, last_offset, max_ms, max_offset, err);

        if (status != MK_OK) return status;
        segment->bytes_since_entry = 0;
    }
    if (segment->log_bytes == 0) {
        segment->first_timestamp_ms = batch->max_timestamp;
    }
    segment->max_timestamp_ms = max_ms;
    segment->max_timestamp_offset = max_offset;
    segment->bytes_since_entry += batch->size;
    segment->last_batch_position = segment->log_bytes;
    segment->last_batch_checksum = batch->crc;
    segment->log_bytes += batch->size;
    segment->next_offset = last_offset + 1;
    segment->synced = false;
    return MK_OK;
}

mk_status mk_segment_log_path(const mk_segment *segment, const char *directory,
                              char *out, size_t out_size, mk_error *err)
{
    mk_file_name name = {MK_ROLE_LOG, segment->stage, segment->base_offset};

    return mk_name_file(out, out_size, directory, name, err);
}

mk_status mk_segment_finish_times(mk_segment *segment, mk_error *err)
{
    return mk_time_index_maybe_add(&segment->times, segment->max_timestamp_ms,
                                   segment->max_timestamp_offset, err);
}

/* ---- Index files ---- */

typedef struct index_side {
    mk_file_role role;
    size_t entry_size;
    size_t count;
    size_t *written;
} index_side;

static void encode_side(const mk_segment *segment, const index_side *side,
                        uint8_t *out)
{
    if (side->role == MK_ROLE_OFFSET_INDEX) {
        mk_offset_index_encode(&segment->offsets, *side->written, out);
    } else {
        mk_time_index_encode(&segment->times, *side->written, out);
    }
}

/* Make an index file anew. A copy of the log may have the old one, too. */
static mk_status make_side(mk_vfs *vfs, const char *path, size_t *written,
                           mk_file **out, mk_error *err)
{
    mk_status status = mk_vfs_unlink(vfs, path, err);

    *written = 0;
    if (status != MK_OK && status != MK_NOT_FOUND) return status;
    return mk_file_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, out, err);
}

/* Open an index file to write to; `*written` entries are in it. */
static mk_status open_side(const mk_segment *segment, mk_vfs *vfs,
                           const char *path, size_t *written, mk_file **out,
                           mk_error *err)
{
    mk_file_stat stat;
    mk_status status;

    if (!segment->index_files_good) {
        return make_side(vfs, path, written, out, err);
    }
    status = mk_file_open(vfs, path, MK_OPEN_WRITE | MK_OPEN_CREATE, out, err);
    if (status == MK_OK) status = mk_file_stat_open(*out, &stat, err);
    if (status != MK_OK || stat.links < 2) return status;
    (void)mk_file_close(*out, NULL); /* Nothing was written. */
    *out = NULL;
    return make_side(vfs, path, written, out, err);
}

/* Write the entries that the file lacks; or all of them, to a file made anew,
 * where it may hold others. */
static mk_status write_side(mk_segment *segment, const index_side *side,
                            mk_vfs *vfs, const char *directory, mk_error *err)
{
    char path[MK_PATH_MAX];
    uint8_t *bytes = NULL;
    mk_file *file = NULL;
    size_t size;
    mk_status status;

    status = mk_name_file(
        path, sizeof path, directory,
        (mk_file_name){side->role, segment->stage, segment->base_offset}, err);
    if (status != MK_OK) return status;
    if (side->count == *side->written && segment->index_files_good) {
        return MK_OK;
    }
    status = open_side(segment, vfs, path, side->written, &file, err);
    if (status != MK_OK) goto done;
    size = (side->count - *side->written) * side->entry_size;
    if (size > 0) {
        bytes = mk_alloc(segment->heap, size);
        if (bytes == NULL) {
            status = mk_fail_memory(err, size);
            goto done;
        }
        encode_side(segment, side, bytes);
        status =
            mk_file_write(file, (int64_t)(*side->written * side->entry_size),
                          bytes, size, err);
    }
done:
    if (status == MK_OK) {
        status = mk_file_close(file, err);
    } else if (file != NULL) {
        (void)mk_file_close(file, NULL); /* The first error counts. */
    }
    mk_release(segment->heap, bytes);
    if (status == MK_OK) *side->written = side->count;
    return status;
}

mk_status mk_segment_write_indexes(mk_segment *segment, mk_vfs *vfs,
                                   const char *directory, mk_error *err)
{
    index_side offsets = {MK_ROLE_OFFSET_INDEX, MK_OFFSET_ENTRY_SIZE,
                          segment->offsets.count, &segment->offsets_written};
    index_side times = {MK_ROLE_TIME_INDEX, MK_TIME_ENTRY_SIZE,
                        segment->times.count, &segment->times_written};
    mk_status status;

    MK_ASSERT(segment->indexes_loaded);
    status = write_side(segment, &offsets, vfs, directory, err);
    if (status == MK_OK) {
        status = write_side(segment, &times, vfs, directory, err);
    }
    if (status == MK_OK) segment->index_files_good = true;
    return status;
}

static mk_status read_side(const mk_segment *segment, mk_file_role role,
                           mk_vfs *vfs, const char *directory,
                           mk_scratch *scratch, mk_span *out, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_name_file(
        path, sizeof path, directory,
        (mk_file_name){role, segment->stage, segment->base_offset}, err);
    if (status != MK_OK) return status;
    status = mk_read_file(vfs, path, INT32_MAX, scratch, out, err);
    if (status == MK_NOT_FOUND || status == MK_INVALID_ARGUMENT) {
        return mk_fail_at(err, MK_CORRUPT_INDEX, path, -1,
                          "the index is missing");
    }
    return status;
}

/* Cut the file's content to the entries that the facts tell of: it may have got
 * more since. */
static bool cut_to_facts(mk_span *bytes, size_t entries, size_t entry_size)
{
    if (bytes->size / entry_size < entries) return false;
    bytes->size = entries * entry_size;
    return true;
}

static bool agree_with_facts(const mk_segment *segment, mk_span *offsets,
                             mk_span *times)
{
    uint32_t sum;

    if (!cut_to_facts(offsets, segment->offset_entries, MK_OFFSET_ENTRY_SIZE) ||
        !cut_to_facts(times, segment->time_entries, MK_TIME_ENTRY_SIZE)) {
        return false;
    }
    sum = join_checksums(mk_crc32c(0, offsets->data, offsets->size),
                         mk_crc32c(0, times->data, times->size));
    return sum == segment->index_checksum;
}

static mk_status decode_sides(mk_segment *segment, mk_span offsets,
                              mk_span times, mk_error *err)
{
    size_t size = offsets.size + times.size; /* Of the files. */
    mk_status status;

    if (!agree_with_facts(segment, &offsets, &times)) {
        return mk_fail(err, MK_CORRUPT_INDEX,
                       "the index files are not those of this segment");
    }
    status = mk_offset_index_decode(&segment->offsets, offsets,
                                    segment->log_bytes, err);
    if (status != MK_OK) return status;
    segment->index_files_good = offsets.size + times.size == size;
    return mk_time_index_decode(&segment->times, times, segment->next_offset,
                                err);
}

mk_status mk_segment_load_indexes(mk_segment *segment, mk_vfs *vfs,
                                  const char *directory, mk_error *err)
{
    mk_span offsets, times;
    mk_scratch scratches[2];
    mk_status status;

    if (segment->indexes_loaded) return MK_OK;
    for (int i = 0; i < 2; i++) {
        mk_scratch_init(&scratches[i], segment->heap);
    }
    status = read_side(segment, MK_ROLE_OFFSET_INDEX, vfs, directory,
                       &scratches[0], &offsets, err);
    if (status == MK_OK) {
        status = read_side(segment, MK_ROLE_TIME_INDEX, vfs, directory,
                           &scratches[1], &times, err);
    }
    if (status == MK_OK) status = decode_sides(segment, offsets, times, err);
    for (int i = 0; i < 2; i++) {
        mk_scratch_deinit(&scratches[i]);
    }
    if (status != MK_OK) return status;
    segment->indexes_loaded = true;
    segment->offsets_written = segment->offsets.count;
    segment->times_written = segment->times.count;
    return MK_OK;
}

/* Does the file of one index hold just its entries? */
static mk_status confirm_side(mk_segment *segment, const index_side *side,
                              mk_vfs *vfs, const char *directory, bool *out,
                              mk_error *err)
{
    size_t size = side->count * side->entry_size;
    uint8_t *bytes = mk_alloc(segment->heap, size + 1);
    mk_scratch scratch;
    mk_span content;
    mk_status status;

    *out = false;
    if (bytes == NULL) return mk_fail_memory(err, size + 1);
    mk_scratch_init(&scratch, segment->heap);
    status =
        read_side(segment, side->role, vfs, directory, &scratch, &content, err);
    if (status == MK_OK && content.size == size) {
        encode_side(segment, side, bytes);
        *out = size == 0 || memcmp(bytes, content.data, size) == 0;
    }
    mk_scratch_deinit(&scratch);
    mk_release(segment->heap, bytes);
    return status == MK_CORRUPT_INDEX ? MK_OK : status;
}

mk_status mk_segment_confirm_indexes(mk_segment *segment, mk_vfs *vfs,
                                     const char *directory, mk_error *err)
{
    size_t none = 0;
    index_side sides[] = {
        {MK_ROLE_OFFSET_INDEX, MK_OFFSET_ENTRY_SIZE, segment->offsets.count,
         &none},
        {MK_ROLE_TIME_INDEX, MK_TIME_ENTRY_SIZE, segment->times.count, &none}};
    bool good = true;

    MK_ASSERT(segment->indexes_loaded);
    for (int i = 0; good && i < 2; i++) {
        mk_status status =
            confirm_side(segment, &sides[i], vfs, directory, &good, err);

        if (status != MK_OK) return status;
    }
    if (!good) return MK_OK;
    segment->index_files_good = true;
    segment->offsets_written = segment->offsets.count;
    segment->times_written = segment->times.count;
    return MK_OK;
}

void mk_segment_unload_indexes(mk_segment *segment)
{
    mk_segment_facts facts;

    MK_ASSERT(segment->indexes_loaded);
    MK_ASSERT(segment->offsets_written == segment->offsets.count);
    MK_ASSERT(segment->times_written == segment->times.count);
    mk_segment_get_facts(segment, &facts);
    segment->index_checksum = facts.index_checksum;
    segment->offset_entries = segment->offsets.count;
    segment->time_entries = segment->times.count;
    mk_offset_index_deinit(&segment->offsets);
    mk_time_index_deinit(&segment->times);
    segment->indexes_loaded = false;
}

mk_status mk_segment_unlink(mk_vfs *vfs, const char *directory,
                            int64_t base_offset, mk_error *err)
{
    static const mk_file_role roles[] = {MK_ROLE_LOG, MK_ROLE_OFFSET_INDEX,
                                         MK_ROLE_TIME_INDEX, MK_ROLE_TXN_INDEX};
    char path[MK_PATH_MAX];

    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        mk_status status = mk_name_segment_file(path, sizeof path, directory,
                                                base_offset, roles[i], err);

        if (status != MK_OK) return status;
        status = mk_vfs_unlink(vfs, path, err);
        if (status != MK_OK && status != MK_NOT_FOUND) return status;
    }
    return MK_OK;
}

mk_status mk_segment_unshare_log(mk_vfs *vfs, const char *directory,
                                 int64_t base_offset, int64_t log_bytes,
                                 bool held, bool *replaced, mk_error *err)
{
    char path[MK_PATH_MAX];
    char temporary[MK_PATH_MAX + sizeof ".cleaned"];
    mk_status status;

    *replaced = false;
    status = mk_name_segment_file(path, sizeof path, directory, base_offset,
                                  MK_ROLE_LOG, err);
    if (status != MK_OK) return status;
    /* By that name every opener, Kafka too, knows it for unfinished. */
    snprintf(temporary, sizeof temporary, "%s.cleaned", path);
    return mk_copy_file_unshare(vfs, path, temporary, log_bytes, held, replaced,
                                err);
}
