/* repair_files -- deciding about segments. */
#include "log/repair_files.h"

#include <string.h>

#include "base/check.h"
#include "log/segment_check.h"

#include "base/poison.h"

void mk_repair_files_init(mk_repair_files *files, const mk_heap *heap,
                          const mk_state *state)
{
    *files = (mk_repair_files){.heap = heap, .state = state};
}

void mk_repair_files_deinit(mk_repair_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        mk_salvage_deinit(&files->array[i].found);
    }
    mk_release(files->heap, files->array);
    mk_repair_files_init(files, files->heap, files->state);
}

mk_status mk_repair_file_path(const mk_repair_file *file, const char *directory,
                              char *out, size_t out_size, mk_error *err)
{
    return mk_name_file(out, out_size, directory, file->name, err);
}

/* Put an empty one at place `at`. */
static mk_status insert(mk_repair_files *files, size_t at, mk_file_name name,
                        mk_repair_file **out, mk_error *err)
{
    void *array = files->array;
    mk_status status = mk_grow(files->heap, &array, &files->capacity,
                               files->count + 1, sizeof *files->array, err);

    files->array = array;
    *out = NULL;
    if (status != MK_OK) return status;
    memmove(files->array + at + 1, files->array + at,
            (files->count - at) * sizeof *files->array);
    files->count++;
    *out = &files->array[at];
    **out = (mk_repair_file){
        .name = name,
        .found.heap = files->heap,
        .limit = INT64_MAX,
        .base_offset = name.offset,
        .lost_from = -1,
        .lost_to = -1,
    };
    return MK_OK;
}

static mk_status read_file(mk_repair_file *file, mk_vfs *vfs,
                           const char *directory, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_status status =
        mk_repair_file_path(file, directory, path, sizeof path, err);

    if (status != MK_OK) return status;
    return mk_salvage_read(&file->found, vfs, path, file->name.offset, err);
}

mk_status mk_repair_files_add(mk_repair_files *files, mk_vfs *vfs,
                              const char *directory, mk_file_name name,
                              mk_error *err)
{
    mk_repair_file *file;
    mk_status status = insert(files, files->count, name, &file, err);

    if (status != MK_OK) return status;
    return read_file(file, vfs, directory, err);
}

/* ---- Deciding ---- */

static int64_t end_of(const mk_salvage *found, int64_t base_offset)
{
    return found->count > 0 ? found->stretches[found->count - 1].next_offset
                            : base_offset;
}

/* Where does what can be read of segments behind `offset` begin? INT64_MAX:
 * nowhere. */
static int64_t next_begin(const mk_repair_files *files, int64_t offset)
{
    for (size_t i = 0; i < files->count; i++) {
        const mk_repair_file *file = &files->array[i];
        const mk_salvage *found = &file->found;

        if (file->name.offset <= offset || found->count == 0) continue;
        return found->stretches[0].first_offset;
    }
    return INT64_MAX;
}

/* Does the state know the file, and that it ends below `end`? */
static bool ends_lower(const mk_repair_files *files, const mk_repair_file *file,
                       int64_t end)
{
    const mk_segment_facts *facts =
        mk_state_find(files->state, file->name.offset);

    return facts != NULL && facts->log_bytes == file->found.file_size &&
           facts->next_offset < end;
}

/* Give up the file's last batch if its base offset can't be right. */
static void drop_odd(const mk_repair_files *files, mk_repair_file *file)
{
    mk_salvage *found = &file->found;
    int64_t end = end_of(found, 0);

    if (found->odd_position < 0) return;
    if (!ends_lower(files, file, end) &&
        end <= next_begin(files, file->name.offset)) {
        return;
    }
    file->lost_from = found->odd_due;
    file->lost_to = found->odd_due + end - found->gap_end;
    mk_salvage_drop_odd(found);
}

void mk_repair_files_drop_odd(mk_repair_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        drop_odd(files, &files->array[i]);
    }
}

/* Keep the file as it is, with the first `size` bytes counting. */
static void keep(mk_repair_file *file, int64_t size, int64_t next_offset)
{
    file->fate = MK_FATE_KEEP;
    file->size = size;
    file->next_offset = next_offset;
}

/* May a file that is not whole stay, as the last one, with a tail to cut? */
static bool is_torn(const mk_repair_file *file, int64_t durable_position)
{
    const mk_salvage *found = &file->found;
    const mk_stretch *first = found->stretches;
    int64_t sound = 0;

    if (found->count > 0 && first->position == 0) sound = first->size;
    if (sound >= durable_position) return true;
    /* Nothing is known: it is damage if the log goes on behind it. */
    return durable_position == INT64_MAX &&
           found->count == (sound > 0 ? 1u : 0u);
}

/* What was lost in the file: from the first place where something is missing to
 * where it goes on for good. */
static void find_lost(mk_repair_file *file, int64_t from)
{
    const mk_salvage *found = &file->found;
    int64_t due = from;

    for (size_t i = 0; i < found->count; i++) {
        const mk_stretch *stretch = &found->stretches[i];

        if (stretch->next_offset <= from) continue;
        if (stretch->first_offset > due) {
            if (file->lost_from < 0 || due < file->lost_from) {
                file->lost_from = due;
            }
            if (file->lost_to < stretch->first_offset) {
                file->lost_to = stretch->first_offset;
            }
        }
        due = stretch->next_offset;
    }
}

static mk_status decide(mk_repair_file *file, mk_vfs *vfs,
                        const char *directory, int64_t due, bool torn,
                        bool known, mk_error *err)
{
    const mk_salvage *found = &file->found;
    int64_t end = end_of(found, file->name.offset);
    mk_salvage_extent extent;
    char path[MK_PATH_MAX];
    mk_status status;

    file->first = due;
    if (file->name.offset >= due && found->whole) {
        keep(file, found->file_size, end);
        return MK_OK;
    }
    if (file->name.offset >= due && torn) {
        bool some = found->count > 0 && found->stretches[0].position == 0;

        /* Where offsets are missing before it, it is nobody's. */
        if (!some && known && file->name.offset > due && due > 0) {
            file->fate = MK_FATE_DROP;
            return MK_OK;
        }
        keep(file, some ? found->stretches[0].size : 0,
             some ? found->stretches[0].next_offset : file->name.offset);
        return MK_OK;
    }
    status = mk_repair_file_path(file, directory, path, sizeof path, err);
    if (status != MK_OK) return status;
    status =
        mk_salvage_measure(found, vfs, path, due, file->limit, &extent, err);
    if (status != MK_OK) return status;
    file->fate = extent.size > 0 ? MK_FATE_REWRITE : MK_FATE_DROP;
    file->size = extent.size;
    file->next_offset = extent.next_offset;
    if (file->name.offset < due) file->base_offset = extent.first_offset;
    if (file->name.offset >= due) find_lost(file, file->name.offset);
    return MK_OK;
}

mk_status mk_repair_files_decide(mk_repair_files *files, mk_vfs *vfs,
                                 const char *directory,
                                 int64_t durable_position, bool must_be_whole,
                                 mk_error *err)
{
    int64_t due = 0;

    for (size_t i = 0; i < files->count; i++) {
        mk_repair_file *file = &files->array[i];
        bool last = i + 1 == files->count;
        bool torn = last && !must_be_whole && is_torn(file, durable_position);
        bool known = durable_position != INT64_MAX &&
                     file->name.offset > files->state->dense_offset;
        mk_status status = decide(file, vfs, directory, due, torn, known, err);

        if (status != MK_OK) return status;
        if (file->fate == MK_FATE_DROP) continue;
        due = file->next_offset;
    }
    files->end_offset = due;
    return MK_OK;
}

/* ---- Gaps ---- */

/* Find the next gap at or behind `*from`: between what stays, or before it if
 * the log's start is known. `*at` is the place of the one behind it. */
static bool find_gap(const mk_repair_files *files, int64_t start, int64_t *from,
                     int64_t *to, size_t *at)
{
    int64_t due = start;

    for (size_t i = 0; i < files->count; i++) {
        const mk_repair_file *file = &files->array[i];

        if (file->fate == MK_FATE_DROP) continue;
        if (due >= 0 && due < file->base_offset && *from < file->base_offset) {
            if (*from < due) *from = due;
            *to = file->base_offset;
            *at = i;
            return true;
        }
        due = file->next_offset;
    }
    if (due < 0) due = 0;
    if (*from < due) *from = due;
    *to = INT64_MAX;
    *at = files->count;
    return false;
}

/* An empty segment whose place number `at` takes goes. */
static void give_way(mk_repair_files *files, size_t at)
{
    for (size_t i = 0; i < files->count; i++) {
        mk_repair_file *file = &files->array[i];

        if (i != at && file->fate == MK_FATE_KEEP && file->size == 0 &&
            file->base_offset == files->array[at].base_offset) {
            file->fate = MK_FATE_DROP;
        }
    }
}

mk_status mk_repair_files_fill_gaps(mk_repair_files *files, mk_vfs *vfs,
                                    const char *directory, mk_file_name name,
                                    int64_t start, mk_error *err)
{
    int64_t from = start;
    bool more = true;

    while (more) {
        mk_salvage_extent extent;
        char path[MK_PATH_MAX];
        mk_repair_file *file;
        mk_status status;
        int64_t to;
        size_t at;

        more = find_gap(files, start, &from, &to, &at);
        status = insert(files, at, name, &file, err);
        if (status == MK_OK) status = read_file(file, vfs, directory, err);
        if (status == MK_OK) {
            drop_odd(files, file);
            status =
                mk_repair_file_path(file, directory, path, sizeof path, err);
        }
        if (status == MK_OK) {
            status = mk_salvage_measure(&file->found, vfs, path, from, to,
                                        &extent, err);
        }
        if (status != MK_OK) return status;
        file->fate = extent.size > 0 ? MK_FATE_REWRITE : MK_FATE_DROP;
        file->first = from;
        file->limit = to;
        file->size = extent.size;
        file->base_offset = extent.first_offset;
        file->next_offset = extent.next_offset;
        if (extent.size == 0) {
            mk_salvage_deinit(&file->found);
            memmove(file, file + 1,
                    (files->count - at - 1) * sizeof *files->array);
            files->count--;
        } else {
            give_way(files, at);
            if (files->end_offset < extent.next_offset) {
                files->end_offset = extent.next_offset;
            }
        }
        from = to;
    }
    return MK_OK;
}

mk_repair_file *mk_repair_files_last(const mk_repair_files *files)
{
    for (size_t i = files->count; i-- > 0;) {
        if (files->array[i].fate != MK_FATE_DROP) return &files->array[i];
    }
    return NULL;
}

/* ---- Indexes ---- */

static mk_check_facts facts_of(const mk_repair_file *file,
                               const mk_segment_facts *known)
{
    mk_check_facts facts = {
        .previous_end = file->name.offset,
        .next_base = INT64_MAX,
        .dense_offset = INT64_MAX,
    };

    facts.segment = (mk_segment_facts){
        .base_offset = file->name.offset,
        .next_offset = file->next_offset,
        .log_bytes = file->size,
        .max_timestamp_ms = file->found.max_timestamp_ms,
    };
    if (known != NULL && known->log_bytes == file->size) {
        facts.segment.offset_entries = known->offset_entries;
        facts.segment.time_entries = known->time_entries;
    }
    return facts;
}

static mk_status run_check(mk_segment_check *check, mk_file *file,
                           const mk_check_facts *facts, mk_error *err)
{
    mk_status status = mk_segment_check_start(check, file, facts, err);

    while (status == MK_OK && !check->over) {
        status = mk_segment_check_step(check, 1u << 20, err);
    }
    return status;
}

mk_status mk_repair_file_check_indexes(mk_repair_file *file, mk_vfs *vfs,
                                       const char *directory,
                                       const mk_segment_facts *known,
                                       mk_error *err)
{
    mk_check_facts facts = facts_of(file, known);
    mk_segment_check check;
    mk_findings findings;
    mk_file *log = NULL;
    mk_status status;

    mk_findings_init(&findings, &vfs->heap);
    status = mk_segment_check_begin(&check, vfs, directory, file->name,
                                    &findings, err);
    if (status == MK_OK) {
        status = mk_file_open(vfs, check.path, 0, &log, err);
    }
    if (status == MK_OK) status = run_check(&check, log, &facts, err);
    for (size_t i = 0; i < findings.count; i++) {
        mk_finding_code code = findings.array[i].code;

        file->bad_indexes |= code == MK_FINDING_CORRUPT_INDEX ||
                             code == MK_FINDING_INDEX_MISSING;
    }
    (void)mk_file_close(log, NULL); /* It was only read. */
    mk_segment_check_deinit(&check);
    mk_findings_deinit(&findings);
    return status;
}
