/*
 * File format: lines of text, numbers in decimal, checksums in hexadecimal.
 *
 *     minikafka rewrite 1
 *     sources <first base> <base of the segment after them>
 *     new <base> <size> <position of the last batch> <its checksum>
 *     ... one line an output, ascending
 *     old <base> <size> <-1> <00000000>
 *     ... one line a source, ascending
 *     sum <CRC-32C of all bytes before this line>
 *
 * A file that is not exactly that is as good as none.
 */
#include "store/rewrite_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "codec/crc32c.h"
#include "store/names.h"
#include "store/replace_file.h"
#include "store/text_words.h"

#include "base/poison.h"

#define HEAD          "minikafka rewrite 1\n"
#define LINE_SIZE_MAX 128u
#define FILE_SIZE_MAX (16u << 20)

void mk_rewrite_note_init(mk_rewrite_note *note, const mk_heap *heap)
{
    *note = (mk_rewrite_note){.heap = heap};
}

void mk_rewrite_note_deinit(mk_rewrite_note *note)
{
    mk_release(note->heap, note->parts);
    mk_rewrite_note_init(note, note->heap);
}

mk_status mk_rewrite_note_add(mk_rewrite_note *note,
                              const mk_rewrite_part *part, bool is_output,
                              mk_error *err)
{
    void *array = note->parts;
    mk_status status = mk_grow(note->heap, &array, &note->capacity,
                               note->count + 1, sizeof *note->parts, err);

    note->parts = array;
    if (status != MK_OK) return status;
    if (is_output) {
        MK_ASSERT(note->output_count == note->count);
        note->output_count++;
    }
    note->parts[note->count++] = *part;
    return MK_OK;
}

/* ---- Reading ---- */

static bool parse_part(const char **text, mk_rewrite_part *part)
{
    int64_t *outs[] = {&part->base_offset, &part->log_bytes,
                       &part->last_batch_position};

    return mk_text_take_numbers(text, outs, 3) &&
           mk_text_take_checksum(text, &part->last_batch_checksum) &&
           mk_text_take_word(text, "\n") && part->base_offset >= 0 &&
           part->log_bytes >= 0 && part->last_batch_position >= -1;
}

static mk_status parse_parts(mk_rewrite_note *note, const char **text,
                             bool is_output, bool *good, mk_error *err)
{
    const char *word = is_output ? "new" : "old";
    size_t before = note->count;

    while (*good && mk_text_take_word(text, word)) {
        mk_rewrite_part part;
        mk_status status;

        *good = parse_part(text, &part) && part.base_offset >= note->first &&
                part.base_offset < note->end &&
                (note->count == before ||
                 part.base_offset > note->parts[note->count - 1].base_offset);
        if (!*good) return MK_OK;
        status = mk_rewrite_note_add(note, &part, is_output, err);
        if (status != MK_OK) return status;
    }
    if (note->count == before) *good = false;
    return MK_OK;
}

/* Take over the text, which ends with a NUL at `text + size`. */
static mk_status parse(mk_rewrite_note *note, const char *text, size_t size,
                       bool *good, mk_error *err)
{
    const char *begin = text;
    uint32_t computed, sum = 0;
    mk_status status;

    *good = mk_text_take_word(&text, HEAD "sources") &&
            mk_text_take_number(&text, &note->first) &&
            mk_text_take_number(&text, &note->end) &&
            mk_text_take_word(&text, "\n");
    status = parse_parts(note, &text, true, good, err);
    if (status == MK_OK) status = parse_parts(note, &text, false, good, err);
    if (status != MK_OK || !*good) return status;
    computed = mk_crc32c(0, begin, (size_t)(text - begin));
    *good = mk_text_take_word(&text, "sum") &&
            mk_text_take_checksum(&text, &sum) &&
            mk_text_take_word(&text, "\n") && text == begin + size &&
            sum == computed;
    return MK_OK;
}

mk_status mk_rewrite_note_load(mk_rewrite_note *note, mk_vfs *vfs,
                               const char *directory, mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_scratch scratch;
    mk_span content = {NULL, 0};
    char *text = NULL;
    bool good = false;
    mk_status status;

    status = mk_name_join(path, sizeof path, directory, MK_NAME_REWRITE, err);
    if (status != MK_OK) return status;
    mk_scratch_init(&scratch, note->heap);
    status = mk_read_file(vfs, path, FILE_SIZE_MAX, &scratch, &content, err);
    if (status == MK_NOT_FOUND || status == MK_INVALID_ARGUMENT) {
        status = MK_OK;
        goto done;
    }
    if (status != MK_OK) goto done;
    text = mk_alloc(note->heap, content.size + 1);
    if (text == NULL) {
        status = mk_fail_memory(err, content.size + 1);
        goto done;
    }
    if (content.size > 0) memcpy(text, content.data, content.size);
    text[content.size] = '\0';
    status = parse(note, text, content.size, &good, err);
done:
    if (!good) mk_rewrite_note_deinit(note);
    mk_release(note->heap, text);
    mk_scratch_deinit(&scratch);
    return status;
}

/* ---- Writing ---- */

static size_t print_part(const mk_rewrite_part *part, const char *word,
                         char *out, size_t size)
{
    return (size_t)snprintf(
        out, size, "%s %" PRId64 " %" PRId64 " %" PRId64 " %08" PRIx32 "\n",
        word, part->base_offset, part->log_bytes, part->last_batch_position,
        part->last_batch_checksum);
}

mk_status mk_rewrite_note_store(const mk_rewrite_note *note, mk_vfs *vfs,
                                const char *directory, mk_error *err)
{
    size_t capacity = (note->count + 3) * LINE_SIZE_MAX;
    char path[MK_PATH_MAX];
    size_t used;
    mk_status status;
    char *text;

    MK_ASSERT(note->output_count > 0);
    MK_ASSERT(note->count > note->output_count);
    status = mk_name_join(path, sizeof path, directory, MK_NAME_REWRITE, err);
    if (status != MK_OK) return status;
    text = mk_alloc(note->heap, capacity);
    if (text == NULL) return mk_fail_memory(err, capacity);
    used = (size_t)snprintf(text, capacity,
                            HEAD "sources %" PRId64 " %" PRId64 "\n",
                            note->first, note->end);
    for (size_t i = 0; i < note->count; i++) {
        used +=
            print_part(&note->parts[i], i < note->output_count ? "new" : "old",
                       text + used, capacity - used);
    }
    used += (size_t)snprintf(text + used, capacity - used,
                             "sum %08" PRIx32 "\n", mk_crc32c(0, text, used));
    MK_ASSERT(used < capacity);
    status = mk_replace_file(vfs, directory, path,
                             (mk_span){(const uint8_t *)text, used}, true, NULL,
                             err);
    mk_release(note->heap, text);
    return status;
}

mk_status mk_rewrite_note_unlink(mk_vfs *vfs, const char *directory,
                                 mk_error *err)
{
    static const char *const names[] = {MK_NAME_REWRITE ".tmp",
                                        MK_NAME_REWRITE};

    for (int i = 0; i < 2; i++) {
        char path[MK_PATH_MAX];
        mk_status status =
            mk_name_join(path, sizeof path, directory, names[i], err);

        if (status == MK_OK) status = mk_vfs_unlink(vfs, path, err);
        if (status != MK_OK && status != MK_NOT_FOUND) return status;
    }
    return MK_OK;
}
