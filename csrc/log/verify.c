/* verify -- segment by segment, then what stands beside them. */
#include "log/verify.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "log/refresh.h"

#include "base/poison.h"

/* How often a reader looks again at a directory that does not stand still. */
#define FILE_LOOKS 64

/* ---- Segments ---- */

/* A reader that looks anew makes new segments of the same files. */
static bool is_same(const mk_log *log, const mk_verified *a,
                    const mk_segment *segment)
{
    if (a->id == segment->id) return true;
    if (!log->read_only || a->base_offset != segment->base_offset) return false;
    return a->log_bytes == segment->log_bytes ||
           (a->last && a->log_bytes < segment->log_bytes);
}

static bool was_verified(const mk_verify *verify, const mk_segment *segment)
{
    for (size_t i = 0; i < verify->count; i++) {
        if (is_same(verify->log, &verify->verified[i], segment)) return true;
    }
    return false;
}

/* Find a segment that was not looked at; NULL: there is none. */
static mk_segment *find_next_locked(const mk_verify *verify)
{
    const mk_log *log = verify->log;

    for (size_t i = 0; i < log->segment_count; i++) {
        mk_segment *segment = log->segments[i];

        if (segment->base_offset > verify->end_offset) return NULL;
        if (!was_verified(verify, segment)) return segment;
    }
    return NULL;
}

/* What the segment at hand will be known by. */
static mk_verified describe(const mk_verify *verify, const mk_segment *segment)
{
    return (mk_verified){segment->id, segment->base_offset, segment->log_bytes,
                         verify->check.facts.last};
}

/* Find the number of a segment that is still part of the log. */
static bool find_locked(const mk_verify *verify, const mk_segment *segment,
                        size_t *out)
{
    const mk_log *log = verify->log;
    mk_verified wanted = describe(verify, segment);
    size_t i = mk_log_find_segment_locked(log, segment->base_offset);

    *out = i;
    return is_same(log, &wanted, log->segments[i]);
}

/* Is the segment at hand what it was when it was found? A writer may have cut
 * a reader's and filled it up to the same size. */
static bool stands_locked(const mk_verify *verify)
{
    const mk_log *log = verify->log;
    mk_segment_facts now;
    size_t i;

    if (!find_locked(verify, verify->segment, &i)) return false;
    if (!log->read_only || log->generation == verify->generation) return true;
    mk_segment_get_facts(log->segments[i], &now);
    return !verify->check.facts.last &&
           mk_segment_facts_equal(&now, &verify->known);
}

static void leave_locked(mk_verify *verify)
{
    if (verify->segment == NULL) return;
    if (verify->pinned) mk_log_unpin_locked(verify->log, verify->segment);
    mk_log_release_segment_locked(verify->log, verify->segment);
    verify->segment = NULL;
    verify->pinned = false;
}

/* The index files of the last segment are written now and then; those of one
 * that a swap just makes part of the log are about to be renamed. */
static bool indexes_lag_locked(const mk_log *log, const mk_segment *segment)
{
    if (segment->stage != MK_STAGE_FINAL) return true;
    if (segment != mk_log_active_locked(log)) return false;
    return log->read_only || !segment->index_files_good;
}

/* What the log knows of the segment at hand, number `i`, now. */
static mk_check_facts facts_of_locked(const mk_log *log, size_t i)
{
    const mk_segment *segment = log->segments[i];
    mk_check_facts facts = {
        .previous_end = segment->base_offset,
        .next_base = INT64_MAX,
        .dense_offset = log->dense_offset,
        .last = i + 1 == log->segment_count,
    };

    facts.broken = facts.last && log->stats.ends_early;
    mk_segment_get_facts(segment, &facts.segment);
    if (log->read_only) {
        /* A reader that scanned knows what it would have entered itself. */
        facts.segment.offset_entries = facts.segment.time_entries = 0;
    }
    if (i > 0) facts.previous_end = log->segments[i - 1]->next_offset;
    if (!facts.last) facts.next_base = log->segments[i + 1]->base_offset;
    return facts;
}

/* Is something in the place of the segment's log that is no file? */
static bool is_no_file_locked(mk_log *log, const mk_segment *segment)
{
    mk_file_stat stat;

    return mk_log_stat_segment(log, segment, &stat, NULL) == MK_OK &&
           stat.kind != MK_KIND_FILE;
}

/* Open the log of the segment at hand. One that is missing, or no file, is
 * found, unless a cleanup took it: `*open` is false then. */
static mk_status pin_locked(mk_verify *verify, mk_check_facts *facts,
                            bool *open, mk_error *err)
{
    mk_log *log = verify->log;
    size_t i;
    mk_status status = mk_log_check_open_locked(log, err);

    *open = false;
    if (status != MK_OK) return status;
    if (!find_locked(verify, verify->segment, &i)) return MK_OK;
    *facts = facts_of_locked(log, i);
    facts->indexes_lag =
        verify->indexes_lag || indexes_lag_locked(log, log->segments[i]);
    status = mk_log_pin_locked(log, verify->segment, err);
    *open = verify->pinned = status == MK_OK;
    /* Names are looked at last. */
    if (status == MK_NOT_FOUND) return MK_OK;
    return status == MK_IO && is_no_file_locked(log, verify->segment) ? MK_OK
                                                                      : status;
}

static mk_status note_verified_locked(mk_verify *verify, mk_error *err)
{
    void *array = verify->verified;
    const mk_segment *segment = verify->segment;
    mk_status status =
        mk_grow(&verify->log->heap, &array, &verify->capacity,
                verify->count + 1, sizeof *verify->verified, err);

    verify->verified = array;
    if (status != MK_OK) return status;
    verify->verified[verify->count++] = describe(verify, segment);
    return MK_OK;
}

/* The segment at hand was read to its end. Say nothing of one that is no longer
 * what it was; if it is still part of the log it is looked at again. */
static mk_status finish_segment(mk_verify *verify, mk_error *err)
{
    mk_log *log = verify->log;
    bool found = verify->out->count > verify->findings_before;
    bool stands = true;
    mk_status status;

    verify->done += mk_segment_check_done(&verify->check);
    mk_segment_check_deinit(&verify->check);
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK && found) status = mk_log_refresh_locked(log, err);
    if (status == MK_OK && found) stands = stands_locked(verify);
    if (!stands) mk_findings_cut(verify->out, verify->findings_before);
    if (status == MK_OK && stands) status = note_verified_locked(verify, err);
    leave_locked(verify);
    mk_mutex_unlock(&log->mutex);
    return status;
}

static mk_status begin_segment(mk_verify *verify, mk_error *err)
{
    mk_log *log = verify->log;
    mk_check_facts facts;
    mk_status status;
    bool open;

    verify->findings_before = verify->out->count;
    status = mk_segment_check_begin(&verify->check, log->vfs, log->directory,
                                    verify->log_name, verify->out, err);
    if (status != MK_OK) return status;
    mk_mutex_lock(&log->mutex);
    status = pin_locked(verify, &facts, &open, err);
    mk_mutex_unlock(&log->mutex);
    if (status != MK_OK) return status;
    if (!open) {
        mk_findings_cut(verify->out, verify->findings_before);
        return finish_segment(verify, err);
    }
    return mk_segment_check_start(&verify->check, verify->segment->log.file,
                                  &facts, err);
}

static mk_status next_segment(mk_verify *verify, mk_error *err)
{
    mk_log *log = verify->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK && verify->looks_left > 0) {
        mk_segment *next = find_next_locked(verify);

        verify->looks_left--;
        if (next != NULL) {
            verify->segment = mk_log_acquire_segment_locked(next);
            verify->log_name =
                (mk_file_name){MK_ROLE_LOG, next->stage, next->base_offset};
            verify->indexes_lag = indexes_lag_locked(log, next);
            verify->generation = log->generation;
            mk_segment_get_facts(next, &verify->known);
        }
    }
    mk_mutex_unlock(&log->mutex);
    if (status != MK_OK) return status;
    if (verify->segment != NULL) return begin_segment(verify, err);
    verify->phase = MK_VERIFY_FILES;
    return MK_OK;
}

/* ---- Names ---- */

static bool has_segment_locked(const mk_log *log, mk_file_name name)
{
    size_t i = mk_log_find_segment_locked(log, name.offset);

    return log->segments[i]->base_offset == name.offset &&
           log->segments[i]->stage == name.stage;
}

/* Is it of a segment that is no longer part of a reader's log, as a writer may
 * be about to remove it, at the start or at the end? */
static bool may_be_going_locked(const mk_log *log, mk_file_name name)
{
    if (!log->read_only) return false;
    if (log->cut_to >= 0 && name.offset >= log->cut_to) return true;
    return name.offset < log->segments[0]->base_offset;
}

/* What is to be said of a name in the directory; NULL: nothing. */
static const char *judge_name_locked(const mk_log *log, const char *text,
                                     mk_file_kind kind, mk_finding_code *code)
{
    mk_file_name name = mk_name_parse(text);

    *code = MK_FINDING_STRANGE_FILE;
    if (strncmp(text, MK_NAME_QUARANTINE, strlen(MK_NAME_QUARANTINE)) == 0) {
        return NULL;
    }
    if (kind != MK_KIND_FILE) return "is not a file";
    if (name.role == MK_ROLE_OWN) {
        if (strcmp(text, MK_NAME_SWAP) != 0) return NULL;
        if (log->read_only) return NULL; /* A writer may be about it now. */
        *code = MK_FINDING_LEFTOVER_FILE;
        return "was left by a swap that is all but done";
    }
    if (name.role == MK_ROLE_UNKNOWN) {
        if (strcmp(text, MK_NAME_EPOCHS) == 0) return NULL;
        if (strcmp(text, MK_NAME_METADATA) == 0) return NULL;
        return "is not the log's";
    }
    if (name.role == MK_ROLE_SNAPSHOT && name.stage == MK_STAGE_FINAL) {
        return NULL;
    }
    if (log->swapping) return NULL; /* Names change just now. */
    if (has_segment_locked(log, name)) return NULL;
    if (may_be_going_locked(log, name)) return NULL;
    if (name.stage != MK_STAGE_FINAL) {
        *code = MK_FINDING_LEFTOVER_FILE;
        return "was left by a step that was cut short";
    }
    if (log->stats.ends_early && name.offset >= log->log_end_offset) {
        *code = MK_FINDING_STRANGE_SEGMENT;
        if (name.role != MK_ROLE_LOG) return NULL;
        return "is not looked at: this reader's log ends before it, where "
               "something is damaged or missing";
    }
    if (name.role != MK_ROLE_LOG) return "is an index without its log";
    *code = MK_FINDING_STRANGE_SEGMENT;
    return "is a segment that is not part of the log";
}

/* Judge one name; one that has gone since is none. */
static mk_status check_name_locked(mk_verify *verify, const char *text,
                                   mk_file_kind kind, mk_error *err)
{
    mk_log *log = verify->log;
    mk_finding_code code;
    const char *what = judge_name_locked(log, text, kind, &code);
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    if (what == NULL) return MK_OK;
    status = mk_name_join(path, sizeof path, log->directory, text, err);
    if (status == MK_OK) status = mk_vfs_stat(log->vfs, path, &stat, err);
    if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    return mk_findings_add(verify->out, code, path, -1,
                           mk_name_parse(text).offset, err, "%.120s %s", text,
                           what);
}

static bool is_listed(const mk_name_list *names, const mk_segment *segment)
{
    for (size_t i = 0; i < names->count; i++) {
        mk_file_name name = mk_name_parse(names->names[i]);

        if (name.role == MK_ROLE_LOG && name.offset == segment->base_offset) {
            return names->kinds[i] == MK_KIND_FILE;
        }
    }
    return false;
}

/* Every segment's log must be there; but for that of a reader's empty log. */
static mk_status check_presence_locked(mk_verify *verify,
                                       const mk_segment *segment, mk_error *err)
{
    mk_log *log = verify->log;
    const char *what = "is missing";
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status;

    if (log->read_only && segment->log_bytes == 0) return MK_OK;
    status =
        mk_segment_log_path(segment, log->directory, path, sizeof path, err);
    if (status == MK_OK) status = mk_vfs_stat(log->vfs, path, &stat, err);
    if (status == MK_OK && stat.kind == MK_KIND_FILE) return MK_OK;
    if (status == MK_OK) what = "is not a file";
    if (status != MK_OK && status != MK_NOT_FOUND) return status;
    return mk_findings_add(verify->out, MK_FINDING_FILE_MISSING, path, -1,
                           segment->base_offset, err,
                           "the log of the segment at %" PRId64 " %s",
                           segment->base_offset, what);
}

static mk_status check_names(mk_verify *verify, mk_error *err)
{
    mk_log *log = verify->log;
    mk_name_list names;
    mk_status status = mk_vfs_list(log->vfs, log->directory, &names, err);

    if (status != MK_OK) return status;
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    for (size_t i = 0; status == MK_OK && i < names.count; i++) {
        status = check_name_locked(verify, names.names[i], names.kinds[i], err);
    }
    for (size_t i = 0; status == MK_OK && i < log->segment_count; i++) {
        if (is_listed(&names, log->segments[i])) continue;
        status = check_presence_locked(verify, log->segments[i], err);
    }
    mk_mutex_unlock(&log->mutex);
    mk_name_list_deinit(&names);
    return status;
}

/* ---- The state file ---- */

/* Does the state say what is known of a segment? Of the recovery point's it
 * tells what was there up to the point. */
static bool agrees(const mk_state *state, const mk_segment_facts *known,
                   const mk_segment_facts *facts)
{
    if (facts->base_offset == state->recovery_point.segment &&
        facts->log_bytes < known->log_bytes) {
        return facts->next_offset <= known->next_offset;
    }
    return known->next_offset == facts->next_offset &&
           known->log_bytes == facts->log_bytes &&
           known->max_timestamp_ms == facts->max_timestamp_ms;
}

/* The state may be older than the log: what it says of closed segments must
 * hold, and the log start does not go back. */
static mk_status compare_state_locked(mk_verify *verify, const mk_state *state,
                                      const char *path, mk_error *err)
{
    const mk_log *log = verify->log;

    if (state->log_start_offset > log->log_start_offset) {
        return mk_findings_add(verify->out, MK_FINDING_STATE_DIFFERS, path, -1,
                               state->log_start_offset, err,
                               "the state says that the log begins at %" PRId64
                               ", not %" PRId64,
                               state->log_start_offset, log->log_start_offset);
    }
    for (size_t i = 0; i + 1 < state->facts_count; i++) {
        const mk_segment_facts *facts = &state->facts[i];
        size_t j = mk_log_find_segment_locked(log, facts->base_offset);
        mk_segment_facts known;
        mk_status status;

        if (j + 1 >= log->segment_count) break;
        mk_segment_get_facts(log->segments[j], &known);
        if (known.base_offset != facts->base_offset) continue;
        if (agrees(state, &known, facts)) continue;
        status = mk_findings_add(
            verify->out, MK_FINDING_STATE_DIFFERS, path, -1, known.base_offset,
            err, "the state is wrong about the segment at %" PRId64,
            known.base_offset);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

static mk_status check_state(mk_verify *verify, mk_error *err)
{
    mk_log *log = verify->log;
    uint64_t generation = log->generation;
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_state state;
    mk_status status;

    status =
        mk_name_join(path, sizeof path, log->directory, MK_NAME_STATE, err);
    if (status == MK_OK) status = mk_vfs_stat(log->vfs, path, &stat, err);
    if (status != MK_OK) return status == MK_NOT_FOUND ? MK_OK : status;
    if (stat.kind != MK_KIND_FILE) {
        return mk_findings_add(verify->out, MK_FINDING_STATE_DAMAGED, path, -1,
                               -1, err, "the state is not a file");
    }
    mk_state_init(&state, &log->heap);
    status = mk_state_load(&state, log->vfs, log->directory, err);
    if (status == MK_OK && !mk_state_is_plausible(&state)) {
        status = mk_findings_add(verify->out, MK_FINDING_STATE_DAMAGED, path,
                                 -1, -1, err,
                                 "the state file is damaged, and as good as "
                                 "none");
    } else if (status == MK_OK) {
        mk_mutex_lock(&log->mutex);
        /* It is written anew with every change of the segments. */
        if (generation == log->generation) {
            status = compare_state_locked(verify, &state, path, err);
        }
        mk_mutex_unlock(&log->mutex);
    }
    mk_state_deinit(&state);
    return status;
}

/* Look for what a writer has done; `*generation` changes when that was more
 * than to append. */
static mk_status look_anew(mk_verify *verify, uint64_t *generation,
                           mk_error *err)
{
    mk_log *log = verify->log;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) status = mk_log_refresh_locked(log, err);
    *generation = log->generation;
    mk_mutex_unlock(&log->mutex);
    return status;
}

/* What a reader finds counts if the directory stood still meanwhile; else it
 * looks again. Between the two renames of a swap it is not there. */
static mk_status check_files(mk_verify *verify, mk_error *err)
{
    size_t before = verify->out->count;
    uint64_t seen, now;
    mk_status status = look_anew(verify, &seen, err);

    if (status != MK_OK) return status;
    status = check_state(verify, err);
    if (status == MK_OK) status = check_names(verify, err);
    if (verify->log->read_only && (status == MK_OK || status == MK_NOT_FOUND)) {
        mk_status looked = look_anew(verify, &now, err);

        if (looked != MK_OK) return looked;
        if (status != MK_OK || now != seen) {
            mk_findings_cut(verify->out, before);
            if (verify->file_looks_left-- > 0) return MK_OK;
        }
    }
    if (status == MK_OK) verify->phase = MK_VERIFY_DONE;
    return status;
}

/* ---- Public functions ---- */

mk_status mk_verify_begin(mk_verify *verify, mk_log *log, mk_findings *out,
                          mk_error *err)
{
    mk_status status;

    *verify = (mk_verify){
        .out = out,
        .phase = MK_VERIFY_SEGMENTS,
        .file_looks_left = FILE_LOOKS,
    };
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) status = mk_log_refresh_locked(log, err);
    if (status == MK_OK) {
        verify->log = mk_log_acquire_locked(log);
        verify->end_offset = log->log_end_offset;
        verify->looks_left = 4 * log->segment_count + 16;
        for (size_t i = 0; i < log->segment_count; i++) {
            verify->total += log->segments[i]->log_bytes;
        }
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

static mk_status step(mk_verify *verify, size_t budget, mk_error *err)
{
    mk_status status;

    if (verify->phase == MK_VERIFY_FILES) return check_files(verify, err);
    if (verify->segment == NULL) return next_segment(verify, err);
    status = mk_segment_check_step(&verify->check, budget, err);
    if (status != MK_OK || !verify->check.over) return status;
    return finish_segment(verify, err);
}

mk_status mk_verify_step(mk_verify *verify, size_t budget, mk_error *err)
{
    mk_status status;
    int64_t done;

    MK_ASSERT(verify->phase != MK_VERIFY_DONE);
    status = step(verify, budget, err);
    done = verify->done;
    if (verify->segment != NULL) done += mk_segment_check_done(&verify->check);
    if (done > verify->total) done = verify->total;
    if (done > verify->reached) verify->reached = done;
    return status;
}

void mk_verify_deinit(mk_verify *verify)
{
    mk_log *log = verify->log;

    if (log == NULL) return;
    if (verify->segment != NULL) mk_segment_check_deinit(&verify->check);
    mk_mutex_lock(&log->mutex);
    leave_locked(verify);
    mk_mutex_unlock(&log->mutex);
    mk_release(&log->heap, verify->verified);
    mk_log_release(log);
    *verify = (mk_verify){.log = NULL};
}
