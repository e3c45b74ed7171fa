/* segment_check -- batch by batch, entry by entry. */
#include "log/segment_check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "codec/crc32c.h"
#include "store/replace_file.h"

#include "base/poison.h"

#define OFFSETS 0
#define TIMES   1

static const size_t entry_sizes[] = {MK_OFFSET_ENTRY_SIZE, MK_TIME_ENTRY_SIZE};

/* ---- Index files ---- */

/* Tell of an entry. An index that is not what the log knows of it is no damage:
 * it is made anew when it is used. */
static mk_status add_index_finding(mk_segment_check *check, int side,
                                   int64_t position, int64_t offset,
                                   const char *what, mk_error *err)
{
    mk_findings *out = check->out;
    bool known = check->indexes_are_known;
    mk_status status = mk_findings_add(
        out, MK_FINDING_CORRUPT_INDEX, check->index_paths[side], position,
        offset, err, "%.160s%s", what,
        known ? "" : "; the index is made anew when it is used");

    if (status == MK_OK) out->array[out->count - 1].is_damage = known;
    return status;
}

/* The same for entry number `entry`. */
static mk_status add_entry_finding(mk_segment_check *check, int side,
                                   size_t entry, int64_t offset,
                                   const char *what, mk_error *err)
{
    char text[160];

    snprintf(text, sizeof text, "entry %zu does not agree with the log: %s",
             entry, what);
    return add_index_finding(check, side, (int64_t)(entry * entry_sizes[side]),
                             offset, text, err);
}

/* What is no file is as good as missing; its name is looked at elsewhere. */
static mk_status read_index(mk_segment_check *check, int side, mk_error *err)
{
    const char *path = check->index_paths[side];
    mk_file_stat stat;
    mk_status status = mk_vfs_stat(check->vfs, path, &stat, err);

    if (status == MK_OK && stat.kind != MK_KIND_FILE) return MK_OK;
    if (status == MK_OK) {
        status =
            mk_read_file(check->vfs, path, INT32_MAX, &check->indexes[side],
                         &check->contents[side], err);
    }
    check->index_is_there[side] = status == MK_OK;
    if (status == MK_NOT_FOUND) return MK_OK;
    if (status == MK_INVALID_ARGUMENT) {
        return add_index_finding(check, side, -1, -1,
                                 "the index is larger than it can be", err);
    }
    return status;
}

/* Kafka's active indexes have room behind the entries. */
static void cut_room(mk_span *content, size_t entry_size)
{
    while (content->size >= entry_size) {
        const uint8_t *entry = content->data + content->size - entry_size;

        for (size_t i = 0; i < entry_size; i++) {
            if (entry[i] != 0) return;
        }
        content->size -= entry_size;
    }
}

/* Tell of an index that is missing, or has fewer entries than it had. */
static mk_status check_presence(mk_segment_check *check, int side,
                                int64_t expected, mk_error *err)
{
    size_t count = check->contents[side].size / entry_sizes[side];
    bool there = check->index_is_there[side];

    if (check->facts.last || (there && (int64_t)count >= expected)) {
        return MK_OK;
    }
    if (!there) {
        return mk_findings_add(check->out, MK_FINDING_INDEX_MISSING,
                               check->index_paths[side], -1, -1, err,
                               "the index is missing, and is made anew when it "
                               "is used");
    }
    return mk_findings_add(check->out, MK_FINDING_INDEX_MISSING,
                           check->index_paths[side], -1, -1, err,
                           "the index has %zu of its %" PRId64
                           " entries, and is made anew when it is used",
                           count, expected);
}

/* Are the index files what the log knows of them? Then it trusts them. */
static bool are_known(const mk_segment_check *check)
{
    const mk_segment_facts *facts = &check->facts.segment;
    uint32_t sum;

    if (check->facts.last) return false;
    sum = mk_crc32c(0, check->contents[OFFSETS].data,
                    check->contents[OFFSETS].size);
    sum = mk_crc32c(sum, check->contents[TIMES].data,
                    check->contents[TIMES].size);
    return sum == facts->index_checksum;
}

static mk_status decode_index(mk_segment_check *check, int side, bool *fine,
                              mk_error *err)
{
    const mk_segment_facts *facts = &check->facts.segment;
    mk_status status;
    mk_error cause;

    if (check->facts.last) cut_room(&check->contents[side], entry_sizes[side]);
    status =
        side == OFFSETS
            ? mk_offset_index_decode(&check->offsets, check->contents[side],
                                     facts->log_bytes, &cause)
            : mk_time_index_decode(&check->times, check->contents[side],
                                   facts->next_offset, &cause);
    *fine = status == MK_OK;
    if (status == MK_CORRUPT_INDEX) {
        return add_index_finding(check, side, cause.position, -1, cause.message,
                                 err);
    }
    if (status != MK_OK && err != NULL) *err = cause;
    return status;
}

/* Compare the entries that name a batch, or a place before it, with it. */
static mk_status compare_offsets(mk_segment_check *check, const mk_batch *batch,
                                 int64_t position, mk_error *err)
{
    int64_t last = mk_batch_last_offset(batch);

    while (check->compare_offsets &&
           check->next_offset_entry < check->offsets.count) {
        size_t i = check->next_offset_entry;
        const mk_offset_entry *entry = &check->offsets.entries[i];
        const char *fault = NULL;

        if ((int64_t)entry->position > position) return MK_OK;
        if ((int64_t)entry->position < position) {
            fault = "no batch begins at its position";
        } else if ((int64_t)entry->relative_offset !=
                   last - check->offsets.base_offset) {
            fault = "the batch at its position has another last offset";
        }
        check->next_offset_entry++;
        if (fault == NULL) continue;
        check->compare_offsets = false;
        return add_entry_finding(check, OFFSETS, i, last, fault, err);
    }
    return MK_OK;
}

/* `greatest_ms` is the greatest time up to and including the batch. */
static mk_status compare_times(mk_segment_check *check, const mk_batch *batch,
                               int64_t greatest_ms, mk_error *err)
{
    while (check->compare_times &&
           check->next_time_entry < check->times.count) {
        size_t i = check->next_time_entry;
        const mk_time_entry *entry = &check->times.entries[i];
        const char *fault = NULL;

        if (entry->offset > mk_batch_last_offset(batch)) return MK_OK;
        if (entry->offset < batch->base_offset) {
            fault = "no batch has its offset";
        } else if (entry->timestamp_ms != greatest_ms) {
            fault = "another time is the greatest up to its offset";
        }
        check->next_time_entry++;
        if (fault == NULL) continue;
        check->compare_times = false;
        return add_entry_finding(check, TIMES, i, entry->offset, fault, err);
    }
    return MK_OK;
}

/* All entries must have been met when the log is at its end. */
static mk_status compare_rest(mk_segment_check *check, mk_error *err)
{
    mk_status status = MK_OK;

    if (check->compare_offsets &&
        check->next_offset_entry < check->offsets.count) {
        status = add_entry_finding(check, OFFSETS, check->next_offset_entry, -1,
                                   "no batch begins at its position", err);
    }
    if (status == MK_OK && check->compare_times &&
        check->next_time_entry < check->times.count) {
        status = add_entry_finding(check, TIMES, check->next_time_entry, -1,
                                   "no batch has its offset", err);
    }
    return status;
}

/* Entries for a damaged stretch can't be judged. */
static void pass_damage(mk_segment_check *check, int64_t position)
{
    while (check->next_offset_entry < check->offsets.count &&
           (int64_t)check->offsets.entries[check->next_offset_entry].position <
               position) {
        check->next_offset_entry++;
    }
    check->compare_times = false;
}

/* ---- Batches ---- */

const char *mk_check_records(const uint8_t *bytes, const mk_batch *batch,
                             int64_t *greatest_ms)
{
    mk_span records = mk_batch_records(bytes, batch);
    const uint8_t *next = records.data;
    const uint8_t *end = records.data + records.size;
    int32_t last_delta = -1;

    for (int32_t i = 0; i < batch->record_count; i++) {
        mk_record_fields fields;
        int64_t time_ms;

        next = mk_record_decode(next, end, &fields);
        if (next == NULL) return "a record is malformed";
        if (fields.offset_delta <= last_delta ||
            fields.offset_delta > batch->last_offset_delta) {
            return "the offsets of its records do not ascend";
        }
        last_delta = fields.offset_delta;
        time_ms = mk_batch_timestamp(batch, fields.timestamp_delta);
        if (time_ms > *greatest_ms) *greatest_ms = time_ms;
    }
    return next == end ? NULL : "there are bytes behind its records";
}

static mk_status check_records(mk_segment_check *check, const uint8_t *bytes,
                               const mk_batch *batch, int64_t position,
                               mk_error *err)
{
    int64_t greatest_ms = INT64_MIN;
    const char *fault;

    if ((batch->attributes & MK_ATTRIBUTE_CODEC) != MK_CODEC_NONE) {
        if (check->codec_met) return MK_OK;
        check->codec_met = true;
        return mk_findings_add(check->out, MK_FINDING_UNREAD_FORMAT,
                               check->path, position, batch->base_offset, err,
                               "from here on there are compressed batches, "
                               "whose records are not looked at");
    }
    fault = mk_check_records(bytes, batch, &greatest_ms);
    if (fault != NULL) {
        return mk_findings_add(check->out, MK_FINDING_CORRUPT_BATCH,
                               check->path, position, batch->base_offset, err,
                               "the batch of offset %" PRId64
                               " has a right checksum, but %s",
                               batch->base_offset, fault);
    }
    if (greatest_ms <= batch->max_timestamp) return MK_OK;
    return mk_findings_add(
        check->out, MK_FINDING_WRONG_TIMESTAMP, check->path, position,
        batch->base_offset, err,
        "the batch of offset %" PRId64 " has a record of time %" PRId64
        ", and says that %" PRId64 " is its greatest",
        batch->base_offset, greatest_ms, batch->max_timestamp);
}

/* May the log go on at `to`, where `from` is due? */
static mk_status check_gap(mk_segment_check *check, int64_t position,
                           int64_t from, int64_t to, mk_error *err)
{
    if (from < check->facts.dense_offset) from = check->facts.dense_offset;
    if (from >= to) return MK_OK;
    return mk_findings_add(check->out, MK_FINDING_OFFSET_GAP, check->path,
                           position, from, err,
                           "offsets %" PRId64 " to %" PRId64
                           " are missing, and were never taken out",
                           from, to - 1);
}

/* Look at a sound batch. */
static mk_status see_batch(void *context, const mk_segment *seen,
                           const uint8_t *bytes, const mk_batch *batch,
                           mk_error *err)
{
    mk_segment_check *check = context;
    int64_t greatest_ms = batch->max_timestamp > seen->max_timestamp_ms
                              ? batch->max_timestamp
                              : seen->max_timestamp_ms;
    int64_t position = seen->log_bytes;
    mk_status status = MK_OK;

    if (!check->gap_is_known) {
        status = check_gap(check, position, seen->next_offset,
                           batch->base_offset, err);
    }
    check->gap_is_known = false;
    if (status == MK_OK) {
        status = check_records(check, bytes, batch, position, err);
    }
    if (status == MK_OK) status = compare_offsets(check, batch, position, err);
    if (status != MK_OK) return status;
    return compare_times(check, batch, greatest_ms, err);
}

/* ---- Damage ---- */

/* Say why there is no sound batch at a place. */
static const char *why_damaged(mk_scan_end end, mk_span bytes,
                               int64_t next_offset)
{
    mk_batch batch;
    mk_batch_found found = mk_batch_peek(bytes, &batch);

    if (end == MK_SCAN_OVERFLOW) return "its offset is out of reach";
    if (found == MK_BATCH_DAMAGED) return "these bytes are no header";
    if (end == MK_SCAN_TORN) return "the file ends in it";
    if (batch.base_offset < next_offset) return "its offset goes back";
    return "its checksum does not agree";
}

static mk_status begin_hunt(mk_segment_check *check)
{
    const mk_segment *seen = check->seen;

    check->damaged = true;
    check->hunting = true;
    check->damage_position = seen->log_bytes;
    mk_batch_hunt_init(&check->hunt, check->scan.file, check->scan.file_size,
                       seen->log_bytes + 1, seen->next_offset,
                       check->facts.broken ? INT64_MAX
                                           : check->facts.segment.next_offset,
                       &check->scratch);
    return MK_OK;
}

static mk_status end_hunt(mk_segment_check *check, mk_error *err)
{
    mk_segment *seen = check->seen;
    int64_t position = check->damage_position;
    const char *why;
    char behind[96];
    mk_span bytes;
    mk_status status;

    check->hunting = false;
    if (check->hunt.found) {
        snprintf(behind, sizeof behind, "the log goes on at position %" PRId64,
                 check->hunt.position);
    } else {
        snprintf(behind, sizeof behind, "nothing sound follows");
    }
    status = mk_file_view(check->scan.file, &check->scratch, position,
                          MK_BATCH_HEADER_SIZE, &bytes, err);
    if (status != MK_OK) return status;
    why = why_damaged(check->scan.end, bytes, seen->next_offset);
    status = mk_findings_add(check->out, MK_FINDING_CORRUPT_BATCH, check->path,
                             position, seen->next_offset, err,
                             "no sound batch at position %" PRId64
                             ", where offset %" PRId64 " is due: %s; %s",
                             position, seen->next_offset, why, behind);
    check->over = !check->hunt.found;
    check->compare_offsets = check->compare_offsets && check->hunt.found;
    if (status != MK_OK || !check->hunt.found) return status;
    seen->log_bytes = check->hunt.position;
    check->scan.end = MK_SCAN_RUNNING;
    check->gap_is_known = true;
    pass_damage(check, seen->log_bytes);
    return MK_OK;
}

/* ---- The end ---- */

static mk_status differs(mk_segment_check *check, const char *what,
                         int64_t known, int64_t found, mk_error *err)
{
    if (known == found) return MK_OK;
    return mk_findings_add(check->out, MK_FINDING_STATE_DIFFERS, check->path,
                           -1, check->seen->base_offset, err,
                           "the segment's %s is taken for %" PRId64
                           ", and is %" PRId64,
                           what, known, found);
}

static mk_status finish(mk_segment_check *check, mk_error *err)
{
    const mk_segment_facts *facts = &check->facts.segment;
    const mk_segment *seen = check->seen;
    mk_status status = MK_OK;

    check->over = true;
    if (seen->next_offset > check->facts.next_base) {
        status = mk_findings_add(check->out, MK_FINDING_SEGMENTS_OVERLAP,
                                 check->path, -1, check->facts.next_base, err,
                                 "the segment ends at offset %" PRId64
                                 ", but the next one begins at %" PRId64,
                                 seen->next_offset, check->facts.next_base);
    }
    if (status == MK_OK) status = compare_rest(check, err);
    if (status != MK_OK || check->damaged) return status;
    status = differs(check, "end", facts->next_offset, seen->next_offset, err);
    if (status != MK_OK) return status;
    return differs(check, "greatest time", facts->max_timestamp_ms,
                   seen->max_timestamp_ms, err);
}

static mk_status go_on(mk_segment_check *check, mk_error *err)
{
    switch (check->scan.end) {
    case MK_SCAN_RUNNING:
        return MK_OK;
    case MK_SCAN_WHOLE:
        return finish(check, err);
    case MK_SCAN_OLD:
        check->over = true;
        return mk_findings_add(check->out, MK_FINDING_UNREAD_FORMAT,
                               check->path, check->seen->log_bytes,
                               check->seen->next_offset, err,
                               "from here on there are messages of an old "
                               "format, which are not looked at");
    default:
        return begin_hunt(check);
    }
}

/* ---- Public functions ---- */

mk_status mk_segment_check_begin(mk_segment_check *check, mk_vfs *vfs,
                                 const char *directory, mk_file_name log_name,
                                 mk_findings *out, mk_error *err)
{
    static const mk_file_role roles[] = {MK_ROLE_OFFSET_INDEX,
                                         MK_ROLE_TIME_INDEX};
    mk_status status;

    *check = (mk_segment_check){.out = out, .vfs = vfs};
    mk_scratch_init(&check->scratch, &vfs->heap);
    mk_offset_index_init(&check->offsets, &vfs->heap, log_name.offset);
    mk_time_index_init(&check->times, &vfs->heap, log_name.offset);
    for (int i = 0; i < 2; i++) {
        mk_scratch_init(&check->indexes[i], &vfs->heap);
    }
    status =
        mk_name_file(check->path, sizeof check->path, directory, log_name, err);
    for (int i = 0; status == MK_OK && i < 2; i++) {
        mk_file_name name = {roles[i], log_name.stage, log_name.offset};

        status =
            mk_name_file(check->index_paths[i], sizeof check->index_paths[i],
                         directory, name, err);
        if (status == MK_OK) status = read_index(check, i, err);
    }
    if (status != MK_OK) return status;
    return mk_segment_new(&vfs->heap, log_name.offset, &check->seen, err);
}

mk_status mk_segment_check_start(mk_segment_check *check, mk_file *file,
                                 const mk_check_facts *facts, mk_error *err)
{
    const mk_segment_facts *known = &facts->segment;
    int64_t size;
    mk_file_stat stat;
    mk_status status = mk_file_stat_open(file, &stat, err);

    check->facts = *facts;
    if (facts->indexes_lag) {
        check->contents[OFFSETS] = check->contents[TIMES] = (mk_span){NULL, 0};
    }
    size = stat.size;
    if (size > known->log_bytes && !facts->broken) size = known->log_bytes;
    if (status == MK_OK && size < known->log_bytes) {
        check->damaged = true;
        status = mk_findings_add(check->out, MK_FINDING_FILE_TOO_SHORT,
                                 check->path, size, -1, err,
                                 "the log has %" PRId64 " bytes, not %" PRId64,
                                 stat.size, known->log_bytes);
    }
    if (status == MK_OK && !facts->last && stat.size > known->log_bytes) {
        status = mk_findings_add(check->out, MK_FINDING_FILE_TOO_LONG,
                                 check->path, known->log_bytes, -1, err,
                                 "the log has %" PRId64 " bytes, not %" PRId64,
                                 stat.size, known->log_bytes);
    }
    if (status == MK_OK) {
        status =
            check_gap(check, 0, facts->previous_end, known->base_offset, err);
    }
    check->indexes_are_known = are_known(check);
    if (status == MK_OK) {
        status = check_presence(check, OFFSETS, known->offset_entries, err);
    }
    if (status == MK_OK) {
        status = check_presence(check, TIMES, known->time_entries, err);
    }
    if (status == MK_OK) {
        status = decode_index(check, OFFSETS, &check->compare_offsets, err);
    }
    if (status == MK_OK) {
        status = decode_index(check, TIMES, &check->compare_times, err);
    }
    if (check->damaged) check->compare_offsets = check->compare_times = false;
    mk_segment_scan_init(&check->scan, check->seen, file, size, INT64_MAX,
                         &check->scratch);
    check->scan.watch = (mk_scan_watch){see_batch, check};
    return status;
}

mk_status mk_segment_check_step(mk_segment_check *check, size_t budget,
                                mk_error *err)
{
    mk_status status;

    MK_ASSERT(!check->over);
    if (check->hunting) {
        status = mk_batch_hunt_step(&check->hunt, budget, err);
        if (status != MK_OK || !check->hunt.over) return status;
        return end_hunt(check, err);
    }
    status = mk_segment_scan_step(&check->scan, budget, err);
    return status == MK_OK ? go_on(check, err) : status;
}

void mk_segment_check_deinit(mk_segment_check *check)
{
    for (int i = 0; i < 2; i++) {
        mk_scratch_deinit(&check->indexes[i]);
    }
    mk_offset_index_deinit(&check->offsets);
    mk_time_index_deinit(&check->times);
    mk_scratch_deinit(&check->scratch);
    mk_segment_free(check->seen);
    check->seen = NULL;
}
