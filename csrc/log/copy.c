/* copy -- linking what is sealed, copying what is not. */
#include "log/copy.h"

#include <string.h>

#include "base/check.h"
#include "log/life.h"
#include "log/refresh.h"
#include "store/replace_file.h"

#include "base/poison.h"

#define TRIES_MAX     64          /* Of a reader. */
#define TRIES_PATIENT 3           /* Of a writer, before it takes over. */
#define FILE_SIZE_MAX (64u << 20) /* Of what is read whole. */

/* What a segment has beside its log. */
static const mk_file_role side_roles[] = {
    MK_ROLE_OFFSET_INDEX, MK_ROLE_TIME_INDEX, MK_ROLE_TXN_INDEX};

#define SIDE_COUNT (sizeof side_roles / sizeof side_roles[0])

/* ---- Names ---- */

/* The paths of one file of a segment, in the log and in the copy. */
typedef struct file_pair {
    char from[MK_PATH_MAX];
    char to[MK_PATH_MAX];
} file_pair;

static mk_status name_pair(const mk_copy *copy, const mk_copy_part *part,
                           mk_file_role role, file_pair *out, mk_error *err)
{
    mk_file_name from = {role, part->stage, part->facts.base_offset};
    mk_status status = mk_name_file(out->from, sizeof out->from,
                                    copy->log->directory, from, err);

    if (status != MK_OK) return status;
    return mk_name_segment_file(out->to, sizeof out->to, copy->target.tree,
                                part->facts.base_offset, role, err);
}

/* ---- Where the copy ends ---- */

static mk_status take_end_locked(mk_copy *copy, mk_error *err)
{
    mk_log *log = copy->log;

    copy->total = 0;
    for (size_t i = 0; i < log->segment_count; i++) {
        copy->total += log->segments[i]->log_bytes;
    }
    return mk_copy_end_take_locked(&copy->end, log, err);
}

/* Find the number of the segment that the copy ends in, after seeing that this
 * end still stands. */
static mk_status find_end_locked(mk_copy *copy, size_t *out, mk_error *err)
{
    mk_log *log = copy->log;

    if (copy->end.known && copy->end.generation == log->generation) {
        *out =
            mk_log_find_segment_locked(log, copy->end.part.facts.base_offset);
        return MK_OK;
    }
    *out = log->segment_count - 1;
    copy->tries++;
    return take_end_locked(copy, err);
}

/* ---- What is there ---- */

static bool holds(const mk_copy *copy, size_t i, size_t last)
{
    const mk_segment *segment = copy->log->segments[i];
    int64_t size =
        i == last ? copy->end.part.facts.log_bytes : segment->log_bytes;

    return copy->parts[i].id == segment->id &&
           copy->parts[i].facts.log_bytes == size;
}

static mk_status remove_file(const mk_copy *copy, const mk_copy_part *part,
                             mk_file_role role, mk_error *err)
{
    file_pair pair;
    mk_status status = name_pair(copy, part, role, &pair, err);

    if (status != MK_OK) return status;
    status = mk_vfs_unlink(copy->log->vfs, pair.to, err);
    return status == MK_NOT_FOUND ? MK_OK : status;
}

static mk_status remove_part(const mk_copy *copy, const mk_copy_part *part,
                             mk_error *err)
{
    mk_status status = remove_file(copy, part, MK_ROLE_LOG, err);

    for (size_t i = 0; status == MK_OK && i < SIDE_COUNT; i++) {
        status = remove_file(copy, part, side_roles[i], err);
    }
    return status;
}

/* Take parts number `first` up to `next` out of the copy. */
static mk_status drop_parts(mk_copy *copy, size_t first, size_t next,
                            mk_error *err)
{
    while (next > first) {
        mk_copy_part *part = &copy->parts[next - 1];
        mk_status status = remove_part(copy, part, err);

        if (status != MK_OK) return status;
        copy->done -= part->facts.log_bytes;
        memmove(part, part + 1, (copy->count - next) * sizeof *part);
        copy->count--;
        next--;
    }
    return MK_OK;
}

/* Take out what the log has changed since. */
static mk_status reconcile_locked(mk_copy *copy, size_t last, mk_error *err)
{
    int64_t first_base = copy->log->segments[0]->base_offset;
    size_t below = 0, same = 0;
    mk_status status;

    while (below < copy->count &&
           copy->parts[below].facts.base_offset < first_base) {
        below++;
    }
    status = drop_parts(copy, 0, below, err);
    if (status != MK_OK) return status;
    while (same < copy->count && same <= last && holds(copy, same, last)) {
        same++;
    }
    return drop_parts(copy, same, copy->count, err);
}

static mk_status add_part(mk_copy *copy, const mk_copy_part *part,
                          mk_error *err)
{
    void *array = copy->parts;
    mk_status status = mk_grow(&copy->log->heap, &array, &copy->capacity,
                               copy->count + 1, sizeof *copy->parts, err);

    copy->parts = array;
    if (status != MK_OK) return status;
    copy->parts[copy->count++] = *part;
    return MK_OK;
}

/* ---- Linking and copying ---- */

/* Copy a small file whole. */
static mk_status copy_small(mk_vfs *vfs, const file_pair *pair, bool durable,
                            mk_error *err)
{
    mk_file *file = NULL;
    mk_scratch scratch;
    mk_span content;
    mk_status status;

    mk_scratch_init(&scratch, &vfs->heap);
    status =
        mk_read_file(vfs, pair->from, FILE_SIZE_MAX, &scratch, &content, err);
    if (status == MK_OK) {
        status = mk_file_open(vfs, pair->to,
                              MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_TRUNCATE,
                              &file, err);
    }
    if (status == MK_OK && content.size > 0) {
        status = mk_file_write(file, 0, content.data, content.size, err);
    }
    if (status == MK_OK && durable) {
        status = mk_file_sync(file, true, MK_SYNC_COPY_LOG, err);
    }
    if (status == MK_OK) {
        status = mk_file_close(file, err);
    } else {
        (void)mk_file_close(file, NULL); /* The first error counts. */
    }
    mk_scratch_deinit(&scratch);
    return status;
}

/* Link or copy what the segment has beside its log. What is missing is fine: it
 * is made anew from the log. */
static mk_status link_sides(const mk_copy *copy, const mk_copy_part *part,
                            mk_error *err)
{
    mk_vfs *vfs = copy->log->vfs;

    for (size_t i = 0; i < SIDE_COUNT; i++) {
        file_pair pair;
        mk_status status = name_pair(copy, part, side_roles[i], &pair, err);

        if (status != MK_OK) return status;
        status = mk_vfs_link(vfs, pair.from, pair.to, err);
        if (status == MK_IO) status = copy_small(vfs, &pair, false, err);
        if (status != MK_OK && status != MK_NOT_FOUND) return status;
    }
    return MK_OK;
}

/* Link a sealed segment's log. `*linked` is false where it must be copied:
 * where links fail, or the file is not just what the log has of it. */
static mk_status link_log(mk_copy *copy, mk_copy_part *part, bool *linked,
                          mk_error *err)
{
    mk_vfs *vfs = copy->log->vfs;
    file_pair pair;
    mk_file_stat stat;
    mk_status status = name_pair(copy, part, MK_ROLE_LOG, &pair, err);

    *linked = false;
    if (status != MK_OK) return status;
    status = mk_vfs_link(vfs, pair.from, pair.to, err);
    if (status == MK_IO) return MK_OK;
    if (status == MK_OK) status = mk_vfs_stat(vfs, pair.to, &stat, err);
    if (status != MK_OK) return status;
    part->inode = stat.inode;
    *linked = stat.kind == MK_KIND_FILE && stat.size == part->facts.log_bytes;
    return *linked ? MK_OK : mk_vfs_unlink(vfs, pair.to, err);
}

/* Begin to copy a segment's log. */
static mk_status begin_file_locked(mk_copy *copy, mk_segment *segment,
                                   mk_error *err)
{
    mk_log *log = copy->log;
    mk_copy_part *part = &copy->current;
    mk_file_stat stat = {0};
    file_pair pair;
    mk_status status = name_pair(copy, part, MK_ROLE_LOG, &pair, err);

    part->durable = false;
    if (status == MK_OK && part->facts.log_bytes > 0) {
        status = mk_log_pin_locked(log, segment, err);
        if (status != MK_OK) return status;
        copy->source = mk_log_acquire_segment_locked(segment);
        status = mk_file_stat_open(segment->log.file, &stat, err);
    }
    if (status != MK_OK) return status;
    part->inode = stat.inode;
    return mk_copy_file_begin(&copy->file, log->vfs,
                              copy->source != NULL ? segment->log.file : NULL,
                              part->facts.log_bytes, pair.to, err);
}

static void leave_source_locked(mk_copy *copy)
{
    if (copy->source == NULL) return;
    mk_log_unpin_locked(copy->log, copy->source);
    mk_log_release_segment_locked(copy->log, copy->source);
    copy->source = NULL;
}

/* Link the next segment, or begin to copy it. After a sync that failed nobody
 * knows what of a file is on stable storage, however often it is synced. */
static mk_status make_part_locked(mk_copy *copy, size_t last, mk_error *err)
{
    mk_log *log = copy->log;
    mk_segment *segment = log->segments[copy->count];
    mk_copy_part *part = &copy->current;
    bool linked = false;
    mk_status status = MK_OK;

    if (copy->count == last) {
        *part = copy->end.part;
    } else {
        mk_copy_part_fill_locked(part, log, segment);
        if (part->durable || log->failed == MK_OK) {
            status = link_log(copy, part, &linked, err);
        }
    }
    if (status != MK_OK) return status;
    if (!linked) return begin_file_locked(copy, segment, err);
    status = link_sides(copy, part, err);
    if (status == MK_OK) status = add_part(copy, part, err);
    if (status == MK_OK) copy->done += part->facts.log_bytes;
    return status;
}

/* ---- Looking whether it is whole ---- */

/* Others may write to the log of a reader: are the files that it has now those
 * that were copied? All of them were there at one moment then. MK_NOT_FOUND:
 * one is another. */
static mk_status check_inodes(const mk_copy *copy, mk_error *err)
{
    for (size_t i = 0; i < copy->count; i++) {
        const mk_copy_part *part = &copy->parts[i];
        mk_file_stat stat;
        file_pair pair;
        mk_status status = name_pair(copy, part, MK_ROLE_LOG, &pair, err);

        if (status != MK_OK) return status;
        if (part->inode == 0) continue;
        status = mk_vfs_stat(copy->log->vfs, pair.from, &stat, err);
        if (status != MK_OK) return status;
        if (stat.inode != part->inode) {
            return mk_fail_at(err, MK_NOT_FOUND, pair.from, -1,
                              "%s is another file now", pair.from);
        }
    }
    return MK_OK;
}

/* A file is not where it was, or not as long: others write to this directory.
 * Look anew, and go on. */
static mk_status look_anew_locked(mk_copy *copy, mk_error *err)
{
    mk_log *log = copy->log;
    mk_error cause = *err;

    if (!log->read_only || copy->tries > TRIES_MAX) return cause.status;
    if (copy->count > 0) {
        mk_status status = drop_parts(copy, 0, copy->count, err);

        if (status != MK_OK) return status;
    }
    copy->end.known = false;
    return mk_log_refresh_locked(log, err);
}

static void stop_maintaining_locked(mk_copy *copy)
{
    if (copy->maintains) mk_log_end_maintenance_locked(copy->log);
    copy->maintains = false;
}

/* All segments are there: the copy no longer depends on the log. */
static mk_status finish_segments_locked(mk_copy *copy, mk_error *err)
{
    mk_log *log = copy->log;
    mk_status status = log->read_only ? check_inodes(copy, err) : MK_OK;

    if (status != MK_OK) return status;
    copy->log_start_offset = log->log_start_offset;
    copy->phase = MK_COPY_SYNC;
    stop_maintaining_locked(copy);
    return MK_OK;
}

/* A log that is changed all the time waits for its copy at last. One that can't
 * be changed, by this thread or at all, need not. */
static void lose_patience_locked(mk_copy *copy)
{
    mk_log *log = copy->log;

    if (copy->maintains || copy->tries <= TRIES_PATIENT) return;
    copy->maintains = mk_log_begin_maintenance_locked(log, NULL) == MK_OK;
}

static mk_status next_part_locked(mk_copy *copy, mk_error *err)
{
    size_t last;
    mk_status status;

    lose_patience_locked(copy);
    status = mk_log_check_open_locked(copy->log, err);
    if (status == MK_OK) status = find_end_locked(copy, &last, err);
    if (status == MK_OK) status = reconcile_locked(copy, last, err);
    if (status != MK_OK) return status;
    status = copy->count > last ? finish_segments_locked(copy, err)
                                : make_part_locked(copy, last, err);
    if (status == MK_NOT_FOUND) status = look_anew_locked(copy, err);
    return status;
}

/* ---- Steps ---- */

static mk_status finish_file(mk_copy *copy, mk_error *err)
{
    mk_log *log = copy->log;
    bool last = copy->current.id == copy->end.part.id;
    mk_status status = mk_copy_file_finish(&copy->file, MK_SYNC_COPY_LOG, err);

    copy->current.durable = true;
    mk_mutex_lock(&log->mutex);
    leave_source_locked(copy);
    if (status == MK_OK && !last) {
        status = link_sides(copy, &copy->current, err);
    }
    if (status == MK_OK) status = add_part(copy, &copy->current, err);
    mk_mutex_unlock(&log->mutex);
    mk_copy_file_deinit(&copy->file);
    return status;
}

/* The source got shorter: it was cut, or damaged. */
static mk_status give_up_file(mk_copy *copy, mk_error *err)
{
    mk_log *log = copy->log;
    const mk_copy_part *part = &copy->current;
    const mk_segment *found;
    mk_status status;
    file_pair pair;

    copy->done -= copy->file.done;
    mk_copy_file_deinit(&copy->file);
    status = remove_part(copy, part, err);
    if (status == MK_OK) {
        status = name_pair(copy, part, MK_ROLE_LOG, &pair, err);
    }
    mk_mutex_lock(&log->mutex);
    leave_source_locked(copy);
    if (status == MK_OK) status = mk_log_check_open_locked(log, err);
    if (status == MK_OK) {
        found = log->segments[mk_log_find_segment_locked(
            log, part->facts.base_offset)];
        if (found->id == part->id) {
            status = mk_fail_at(err, MK_CORRUPT_SEGMENT, pair.from,
                                part->facts.log_bytes,
                                "%s is shorter than the log has it", pair.from);
        }
    }
    if (status == MK_CORRUPT_SEGMENT && log->read_only) {
        status = look_anew_locked(copy, err);
    }
    mk_mutex_unlock(&log->mutex);
    return status;
}

static mk_status copy_bytes(mk_copy *copy, size_t budget, mk_error *err)
{
    int64_t before = copy->file.done;
    mk_status status = mk_copy_file_step(&copy->file, budget, err);

    copy->done += copy->file.done - before;
    if (status == MK_END) return give_up_file(copy, err);
    if (status != MK_OK || copy->file.done < copy->file.size) return status;
    return finish_file(copy, err);
}

static mk_status sync_part(mk_copy *copy, mk_error *err)
{
    const mk_copy_part *part = &copy->parts[copy->synced];
    mk_file *file = NULL;
    file_pair pair;
    mk_status status;

    copy->synced++;
    if (part->durable) return MK_OK;
    status = name_pair(copy, part, MK_ROLE_LOG, &pair, err);
    if (status == MK_OK) {
        status = mk_file_open(copy->log->vfs, pair.to, 0, &file, err);
    }
    if (status != MK_OK) return status;
    status = mk_file_sync(file, true, MK_SYNC_COPY_LOG, err);
    (void)mk_file_close(file, NULL); /* It was synced, or failed. */
    return status;
}

/* ---- What is beside the segments ---- */

/* Does this file of Kafka's go with the copy? */
static bool goes_along(const mk_copy *copy, const char *name)
{
    mk_file_name parsed = mk_name_parse(name);

    if (parsed.role == MK_ROLE_SNAPSHOT) {
        return parsed.stage == MK_STAGE_FINAL &&
               parsed.offset <= copy->end.log_end_offset;
    }
    return strcmp(name, MK_NAME_EPOCHS) == 0 ||
           strcmp(name, MK_NAME_METADATA) == 0;
}

static mk_status copy_others(const mk_copy *copy, mk_error *err)
{
    mk_vfs *vfs = copy->log->vfs;
    mk_name_list names;
    mk_status status = mk_vfs_list(vfs, copy->log->directory, &names, err);

    if (status != MK_OK) return status;
    for (size_t i = 0; status == MK_OK && i < names.count; i++) {
        const char *name = names.names[i];
        file_pair pair;

        if (names.kinds[i] != MK_KIND_FILE || !goes_along(copy, name)) continue;
        status = mk_name_join(pair.from, sizeof pair.from, copy->log->directory,
                              name, err);
        if (status == MK_OK) {
            status = mk_name_join(pair.to, sizeof pair.to, copy->target.tree,
                                  name, err);
        }
        if (status == MK_OK) status = copy_small(vfs, &pair, true, err);
        if (status == MK_NOT_FOUND) status = MK_OK; /* It has just gone. */
    }
    mk_name_list_deinit(&names);
    return status;
}

static mk_status finish(mk_copy *copy, mk_error *err)
{
    mk_status status = copy_others(copy, err);

    if (status == MK_OK) {
        status = mk_copy_end_write(&copy->end, copy->parts, copy->count,
                                   copy->log_start_offset, copy->log->vfs,
                                   copy->target.tree, err);
    }
    if (status == MK_OK) copy->phase = MK_COPY_DONE;
    return status;
}

/* ---- Public functions ---- */

/* Open a log that is only read once more, where others can't look anew. */
static mk_status open_own(mk_copy *copy, mk_log *log, mk_error *err)
{
    mk_manual_clock clock = {0}; /* Read once, at opening. */
    mk_open_options options = {
        .config = log->config,
        .env = log->env,
        .clock = mk_clock_manual(&clock),
        .mapped = log->mapped,
        .max_open_files = log->files.open_max,
        .read_only = true,
    };
    mk_status status = mk_log_start(log->place, &options, &copy->log, err);

    copy->log_is_own = status == MK_OK;
    return status;
}

mk_status mk_copy_begin(mk_copy *copy, mk_log *log, const char *directory,
                        mk_error *err)
{
    mk_status status;

    *copy = (mk_copy){.phase = MK_COPY_SEGMENTS};
    mk_copy_end_init(&copy->end, &log->heap);
    mk_mutex_lock(&log->mutex);
    status = mk_log_check_open_locked(log, err);
    /* A copy is made of what has the log's name. */
    if (status == MK_OK && log->kept_tree != NULL) {
        status = mk_log_fail_refusing_locked(log, err);
    }
    if (status == MK_OK && !log->read_only) {
        copy->log = mk_log_acquire_locked(log);
    }
    mk_mutex_unlock(&log->mutex);
    if (status == MK_OK && log->read_only) status = open_own(copy, log, err);
    if (status != MK_OK) return status;
    return mk_copy_target_begin(&copy->target, log->env, log->place, directory,
                                err);
}

mk_status mk_copy_step(mk_copy *copy, size_t budget, mk_error *err)
{
    mk_log *log = copy->log;
    mk_status status;

    MK_ASSERT(copy->phase != MK_COPY_DONE);
    if (copy->file.to != NULL) return copy_bytes(copy, budget, err);
    if (copy->phase == MK_COPY_SYNC) {
        return copy->synced < copy->count ? sync_part(copy, err)
                                          : finish(copy, err);
    }
    mk_mutex_lock(&log->mutex);
    status = next_part_locked(copy, err);
    mk_mutex_unlock(&log->mutex);
    return status;
}

mk_status mk_copy_publish(mk_copy *copy, mk_error *err)
{
    MK_ASSERT(copy->phase == MK_COPY_DONE);
    return mk_copy_target_publish(&copy->target, err);
}

void mk_copy_deinit(mk_copy *copy)
{
    mk_log *log = copy->log;

    if (log == NULL) return;
    mk_mutex_lock(&log->mutex);
    leave_source_locked(copy);
    stop_maintaining_locked(copy);
    mk_mutex_unlock(&log->mutex);
    if (copy->file.scratch.heap != NULL) mk_copy_file_deinit(&copy->file);
    mk_copy_target_deinit(&copy->target);
    mk_copy_end_deinit(&copy->end);
    mk_release(&log->heap, copy->parts);
    if (copy->log_is_own) {
        (void)mk_log_stop(log, false, 0, NULL); /* It was only read. */
    } else {
        mk_log_release(log);
    }
    *copy = (mk_copy){.log = NULL};
}
