/* repair_run -- step by step. */
#include "log/repair_run.h"

#include <string.h>

#include "base/check.h"
#include "store/copy_file.h"

#include "base/poison.h"

#define STEP_BUDGET    (1u << 20)
#define NAME_REWRITTEN "minikafka.rewritten"

static mk_status sync_root(mk_repair_work *work, mk_error *err)
{
    return mk_vfs_sync_directory(work->vfs, work->root,
                                 MK_SYNC_REPAIR_DIRECTORY, err);
}

static mk_status quarantine_path(const mk_repair_work *work, const char *name,
                                 char *out, mk_error *err)
{
    char directory[MK_PATH_MAX];
    mk_status status = mk_name_join(directory, sizeof directory, work->root,
                                    work->quarantine, err);

    if (status != MK_OK || name == NULL) {
        memcpy(out, directory, sizeof directory);
        return status;
    }
    return mk_name_join(out, MK_PATH_MAX, directory, name, err);
}

static mk_status sync_quarantine(mk_repair_work *work, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status = quarantine_path(work, NULL, path, err);

    if (status != MK_OK) return status;
    return mk_vfs_sync_directory(work->vfs, path, MK_SYNC_REPAIR_QUARANTINE,
                                 err);
}

static mk_status sync_parent(mk_repair_work *work, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status = mk_name_parent(path, sizeof path, work->directory, err);

    if (status != MK_OK) return status;
    return mk_vfs_sync_directory(work->vfs, path, MK_SYNC_REPAIR_PARENT, err);
}

static mk_status make_quarantine(mk_repair_work *work, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status = quarantine_path(work, NULL, path, err);

    if (status == MK_OK) status = mk_vfs_mkdir(work->vfs, path, err);
    return status == MK_OK ? sync_root(work, err) : status;
}

/* Move something to the quarantine. What is missing is fine, if it may be. */
static mk_status move_aside(mk_repair_work *work, const char *path,
                            bool may_miss, mk_error *err)
{
    char to[MK_PATH_MAX];
    mk_status status = quarantine_path(work, mk_name_last(path), to, err);

    if (status == MK_OK) status = mk_vfs_rename(work->vfs, path, to, err);
    return status == MK_NOT_FOUND && may_miss ? MK_OK : status;
}

/* ---- Directories ---- */

static mk_status use_directory(mk_repair_work *work, mk_error *err)
{
    char to[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status =
        mk_vfs_rename(work->vfs, work->root, work->directory, err);

    if (status != MK_OK) return status;
    memcpy(work->root, work->directory, sizeof work->root);
    status = sync_parent(work, err);
    if (status != MK_OK) return status;
    status = mk_vfs_stat(work->vfs, work->spare, &stat, err);
    if (status == MK_NOT_FOUND) return MK_OK;
    if (status == MK_OK) {
        status = quarantine_path(work, mk_name_last(work->directory), to, err);
    }
    if (status == MK_OK) {
        status = mk_vfs_rename(work->vfs, work->spare, to, err);
    }
    return status == MK_OK ? sync_parent(work, err) : status;
}

/* ---- Segments ---- */

/* Let a file be in the quarantine, too, on stable storage. */
static mk_status save(mk_repair_work *work, const char *path, mk_error *err)
{
    mk_file *from = NULL;
    char to[MK_PATH_MAX];
    mk_file_stat stat;
    mk_copy_file copy;
    mk_status status = quarantine_path(work, mk_name_last(path), to, err);

    if (status != MK_OK) return status;
    status = mk_vfs_link(work->vfs, path, to, err);
    if (status != MK_IO) {
        return status == MK_OK ? sync_quarantine(work, err) : status;
    }
    status = mk_file_open(work->vfs, path, 0, &from, err);
    if (status != MK_OK) return status;
    status = mk_file_stat_open(from, &stat, err);
    if (status == MK_OK) {
        status = mk_copy_file_begin(&copy, work->vfs, from, stat.size, to, err);
        while (status == MK_OK && copy.done < copy.size) {
            status = mk_copy_file_step(&copy, STEP_BUDGET, err);
        }
        if (status == MK_OK) {
            status = mk_copy_file_finish(&copy, MK_SYNC_REPAIR_LOG, err);
        }
        mk_copy_file_deinit(&copy);
    }
    (void)mk_file_close(from, NULL); /* It was only read. */
    return status == MK_OK ? sync_quarantine(work, err) : status;
}

/* Move the files that a segment has beside its log. */
static mk_status move_sides(mk_repair_work *work, mk_file_name name,
                            mk_error *err)
{
    static const mk_file_role roles[] = {MK_ROLE_OFFSET_INDEX,
                                         MK_ROLE_TIME_INDEX, MK_ROLE_TXN_INDEX};

    for (size_t i = 0; i < 3; i++) {
        char path[MK_PATH_MAX];
        mk_status status;

        name.role = roles[i];
        status = mk_name_file(path, sizeof path, work->root, name, err);
        if (status == MK_OK) status = move_aside(work, path, true, err);
        if (status != MK_OK) return status;
    }
    return MK_OK;
}

/* Does another step have it that what stands at `path` moves aside? */
static bool is_moved(const mk_repair_work *work, const char *path)
{
    for (size_t i = 0; i < work->out->count; i++) {
        const mk_repair_step *step = &work->out->steps[i];

        if (step->action == MK_REPAIR_MOVE_ASIDE &&
            strcmp(step->path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Give a file a name that is free, or whose holder is in the quarantine. */
static mk_status rename_to_free(mk_repair_work *work, const char *from,
                                const char *to, mk_error *err)
{
    mk_file_stat stat;
    mk_status status = mk_vfs_stat(work->vfs, to, &stat, err);

    if (status == MK_OK && !is_moved(work, to)) {
        return mk_fail_at(err, MK_LOCKED, to, -1,
                          "%s is there, and was not when the plan was made",
                          to);
    }
    if (status != MK_OK && status != MK_NOT_FOUND) return status;
    status = mk_vfs_rename(work->vfs, from, to, err);
    return status == MK_OK ? sync_root(work, err) : status;
}

/* Put what was written in the place of its source. */
static mk_status replace(mk_repair_work *work, const mk_repair_file *file,
                         const char *written, const char *from, const char *to,
                         mk_error *err)
{
    bool final = file->name.stage == MK_STAGE_FINAL;
    mk_status status;

    if (strcmp(from, to) == 0) {
        status = save(work, from, err);
        if (status == MK_OK) {
            status = mk_vfs_rename(work->vfs, written, to, err);
        }
        return status == MK_OK ? sync_root(work, err) : status;
    }
    status = rename_to_free(work, written, to, err);
    if (status != MK_OK || !final) return status;
    return move_aside(work, from, false, err);
}

static mk_status rewrite(mk_repair_work *work, const mk_repair_file *file,
                         mk_error *err)
{
    char from[MK_PATH_MAX];
    char to[MK_PATH_MAX];
    char written[MK_PATH_MAX];
    mk_status status =
        mk_repair_file_path(file, work->root, from, sizeof from, err);

    if (status == MK_OK) {
        status = mk_name_segment_file(to, sizeof to, work->root,
                                      file->base_offset, MK_ROLE_LOG, err);
    }
    if (status == MK_OK) {
        status = quarantine_path(work, NAME_REWRITTEN, written, err);
    }
    if (status == MK_OK) {
        status = mk_salvage_write(&file->found, work->vfs, from, file->first,
                                  file->limit, written, err);
    }
    /* Indexes of what was there before would mislead. */
    if (status == MK_OK && file->name.stage == MK_STAGE_FINAL) {
        status = move_sides(work, file->name, err);
    }
    if (status == MK_OK) status = replace(work, file, written, from, to, err);
    if (status != MK_OK) return status;
    return mk_salvage_index(work->vfs, work->root, file->base_offset, err);
}

static mk_status rebuild(mk_repair_work *work, const mk_repair_file *file,
                         mk_error *err)
{
    mk_status status = move_sides(work, file->name, err);

    if (status != MK_OK) return status;
    return mk_salvage_index(work->vfs, work->root, file->name.offset, err);
}

/* Begin an empty segment: it gets its name when it is there. */
static mk_status begin_segment(mk_repair_work *work, const char *path,
                               mk_error *err)
{
    mk_file *file = NULL;
    char made[MK_PATH_MAX];
    mk_status status = quarantine_path(work, NAME_REWRITTEN, made, err);

    if (status == MK_OK) {
        status = mk_file_open(
            work->vfs, made, MK_OPEN_WRITE | MK_OPEN_CREATE | MK_OPEN_EXCLUSIVE,
            &file, err);
    }
    if (status == MK_OK) status = mk_file_close(file, err);
    return status == MK_OK ? rename_to_free(work, made, path, err) : status;
}

/* ---- Moves ---- */

/* Will something else have that name? */
static bool is_replaced(const mk_repair_work *work, const char *path)
{
    for (size_t i = 0; i < work->out->count; i++) {
        const mk_repair_step *step = &work->out->steps[i];

        if ((step->action == MK_REPAIR_REWRITE ||
             step->action == MK_REPAIR_RENAME) &&
            strcmp(step->to, path) == 0) {
            return true;
        }
        if (step->action == MK_REPAIR_BEGIN_SEGMENT &&
            strcmp(step->path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* The live directory can't go into the one that will take its name: it waits
 * under a sibling's name until that is so. A file whose name another one will
 * have stands there until then: without it the log might open. */
static mk_status run_move(mk_repair_work *work, const char *path, mk_error *err)
{
    mk_status status;

    if (is_replaced(work, path)) return save(work, path, err);
    if (strcmp(path, work->directory) != 0) {
        return move_aside(work, path, false, err);
    }
    status = mk_vfs_rename(work->vfs, path, work->spare, err);
    return status == MK_OK ? sync_parent(work, err) : status;
}

/* ---- The state ---- */

static mk_status write_state(mk_repair_work *work, const char *path,
                             mk_error *err)
{
    mk_file_stat stat;
    mk_status status = sync_quarantine(work, err);

    if (status == MK_OK) status = sync_root(work, err);
    if (status == MK_OK) status = mk_vfs_stat(work->vfs, path, &stat, err);
    if (status == MK_OK) status = save(work, path, err);
    if (status != MK_OK && status != MK_NOT_FOUND) return status;
    return mk_state_store(&work->next, work->vfs, work->root, true, err);
}

static mk_status run_step(mk_repair_work *work, size_t i, mk_error *err)
{
    const mk_repair_step *step = &work->out->steps[i];
    const mk_repair_file *file = NULL;

    if (work->of_step[i] != MK_REPAIR_NO_FILE) {
        file = &work->files.array[work->of_step[i]];
    }
    switch (step->action) {
    case MK_REPAIR_USE_DIRECTORY:
        return use_directory(work, err);
    case MK_REPAIR_MOVE_ASIDE:
        return run_move(work, step->path, err);
    case MK_REPAIR_RENAME:
        return rename_to_free(work, step->path, step->to, err);
    case MK_REPAIR_REWRITE:
        return rewrite(work, file, err);
    case MK_REPAIR_REBUILD_INDEX:
        return rebuild(work, file, err);
    case MK_REPAIR_BEGIN_SEGMENT:
        return begin_segment(work, step->path, err);
    case MK_REPAIR_WRITE_STATE:
        return write_state(work, step->path, err);
    case MK_REPAIR_COUNT:
        break;
    }
    MK_ASSERT(false);
    return MK_OK;
}

mk_status mk_repair_run(mk_repair_work *work, mk_error *err)
{
    mk_status status = MK_OK;

    if (work->out->count > 0) status = make_quarantine(work, err);
    for (size_t i = 0; status == MK_OK && i < work->out->count; i++) {
        status = run_step(work, i, err);
    }
    if (status == MK_OK) work->out->applied = true;
    return status;
}
