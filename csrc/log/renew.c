/*
 * renew -- writing again what may not have been written.
 *
 * When a sync fails, a kernel may take the pages it could not write for
 * written: they read well until they are needed for something else, a later
 * sync has nothing to do and says yes, and after a loss of power they are gone.
 * What is written again is new to the kernel, whatever it thought.
 *
 * Only what lies above the recovery point is touched: no loss of power in the
 * midst of it can harm what was promised to outlast one. Nor are segments that
 * were synced when they were sealed, as far as that is known: a closed segment
 * that is torn looks like damage. An opening, or a log that has synced nothing
 * since, knows less: more may have been flushed than the recovery point tells.
 * So it does not write over a file, but lets a copy take its place; without
 * room for that the log refuses changes until there is.
 */
#include "log/renew.h"

#include <errno.h>

#include "log/state_store.h"
#include "store/unproven_file.h"

#include "base/poison.h"

#define PART_SIZE (256u << 10)

/* Write back the bytes from `position` up to where the segment is in use. */
static mk_status write_back(mk_file *file, const mk_segment *segment,
                            int64_t position, mk_scratch *scratch,
                            mk_error *err)
{
    while (position < segment->log_bytes) {
        int64_t left = segment->log_bytes - position;
        size_t size = left < (int64_t)PART_SIZE ? (size_t)left : PART_SIZE;
        mk_span bytes;
        mk_status status =
            mk_file_view(file, scratch, position, size, &bytes, err);

        if (status == MK_OK && bytes.size < size) {
            status = mk_fail(err, MK_CORRUPT_SEGMENT, "the file ends early");
        }
        if (status == MK_OK) {
            status = mk_file_write(file, position, bytes.data, size, err);
        }
        if (status != MK_OK) return status;
        position += (int64_t)size;
    }
    return MK_OK;
}

static mk_status rewrite(mk_log *log, const mk_segment *segment,
                         const char *path, int64_t position,
                         mk_scratch *scratch, mk_error *err)
{
    mk_file *file = NULL;
    mk_status status = mk_file_open(log->vfs, path, MK_OPEN_WRITE, &file, err);

    if (status != MK_OK) return status;
    status = write_back(file, segment, position, scratch, err);
    (void)mk_file_close(file, NULL); /* The sync to come tells. */
    return status;
}

/* Have a stable copy take the file's place, if need be where the reserve was. A
 * full disk has no room for one: it is not written over, either. */
static mk_status replace(mk_log *log, mk_segment *segment, const char *path,
                         mk_error *err)
{
    bool done = false;
    mk_status status = MK_OK;

    mk_log_close_idle_file_locked(log, segment);
    for (bool again = true; again;) {
        status = mk_segment_unshare_log(log->vfs, log->directory,
                                        segment->base_offset,
                                        segment->log_bytes, true, &done, err);
        if (done || (status != MK_OK && !mk_is_no_room(status, err))) break;
        again = mk_log_give_up_reserve_locked(log);
    }
    mk_log_keep_reserve_locked(log);
    if (done || status != MK_OK) return status;
    return mk_fail_errno(err, ENOSPC, path, "there is no room for a copy");
}

static mk_status renew_segment(mk_log *log, mk_segment *segment,
                               int64_t position, bool over, mk_scratch *scratch,
                               mk_error *err)
{
    mk_file_stat stat;
    char path[MK_PATH_MAX];
    mk_status status;

    status = mk_name_segment_file(path, sizeof path, log->directory,
                                  segment->base_offset, MK_ROLE_LOG, err);
    if (status == MK_OK) status = mk_vfs_stat(log->vfs, path, &stat, err);
    if (status != MK_OK) return status;
    status = over ? rewrite(log, segment, path, position, scratch, err)
                  : replace(log, segment, path, err);
    /* Kafka's retention falls back on the file's time. */
    if (status == MK_OK && segment->sealed) {
        status = mk_vfs_set_mtime(log->vfs, path, stat.mtime_ms, err);
    }
    if (status != MK_OK) mk_wrap(err, "write %s again", path);
    return status;
}

static mk_status renew_above(mk_log *log, const mk_recovery_point *point,
                             mk_error *err)
{
    bool over = log->healing && point->offset >= log->unflushed;
    mk_status status = MK_OK;
    mk_scratch scratch;

    mk_scratch_init(&scratch, &log->heap);
    for (size_t i = mk_log_find_segment_locked(log, point->offset);
         status == MK_OK && i < log->segment_count; i++) {
        mk_segment *segment = log->segments[i];
        int64_t position = 0;

        if (segment->synced || segment->base_offset < log->proven_end) continue;
        if (segment->base_offset == point->segment) {
            position = point->end_position;
        }
        if (position < segment->log_bytes) {
            status = renew_segment(log, segment, position, over, &scratch, err);
        }
    }
    mk_scratch_deinit(&scratch);
    return status;
}

mk_status mk_log_renew(mk_log *log, const mk_recovery_point *point,
                       mk_error *err)
{
    bool noted;
    mk_error scratch;
    mk_status status;

    if (log->read_only) return MK_OK;
    status = mk_unproven_find(log->vfs, log->directory, &noted, err);
    if (status != MK_OK) return status;
    log->unproven = log->unproven || noted;
    if (!log->unproven || log->segment_count == 0) return MK_OK;
    if (err == NULL) err = &scratch;
    status = renew_above(log, point, err);
    if (log->healing || status != MK_IO) return status;
    mk_log_doubt_tail_locked(log, err);
    return MK_OK;
}
