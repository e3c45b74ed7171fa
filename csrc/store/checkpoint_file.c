/*
 * File format: lines of text, numbers in decimal.
 *
 *     0
 *     <number of entries>
 *     <topic> <partition> <offset>
 *     ... one line a partition, in any order
 */
#include "store/checkpoint_file.h"

#include <string.h>

#include "store/names.h"
#include "store/replace_file.h"
#include "store/text_words.h"

#include "base/poison.h"

#define FILE_SIZE_MAX (64u << 20)

/* Take the topic of a line; `*size` is 0 where there is none. */
static const char *take_topic(const char **text, size_t *size)
{
    const char *topic = *text;

    *size = strcspn(topic, " \n");
    *text += *size;
    return topic;
}

/* Is "<topic>-<partition>" the directory's name? */
static bool is_named(const char *directory, const char *topic, size_t size,
                     int64_t partition)
{
    const char *rest = directory + size;
    int64_t number;
    char digits[32] = " ";
    const char *text = digits;

    if (strncmp(directory, topic, size) != 0) return false;
    if (rest[0] != '-' || strlen(rest + 1) + 2 > sizeof digits) return false;
    memcpy(digits + 1, rest + 1, strlen(rest + 1) + 1);
    return mk_text_take_number(&text, &number) && *text == '\0' &&
           number == partition;
}

/* Read all of the text; -1 unless every line is as it should be. */
static int64_t find(const char *text, const char *directory)
{
    int64_t count = 0, found = -1;
    char head[32] = " ";
    const char *number = head;
    size_t size;

    if (!mk_text_take_word(&text, "0\n")) return -1;
    size = strcspn(text, "\n");
    if (size == 0 || size + 2 > sizeof head) return -1;
    memcpy(head + 1, text, size);
    head[size + 1] = '\0';
    if (!mk_text_take_number(&number, &count) || *number != '\0') return -1;
    text += size;
    for (; count > 0; count--) {
        int64_t partition, offset;
        const char *topic;

        if (!mk_text_take_word(&text, "\n")) return -1;
        topic = take_topic(&text, &size);
        if (size == 0 || !mk_text_take_number(&text, &partition) ||
            !mk_text_take_number(&text, &offset)) {
            return -1;
        }
        if (is_named(directory, topic, size, partition)) found = offset;
    }
    return *text == '\0' || strcmp(text, "\n") == 0 ? found : -1;
}

static mk_status find_in_file(mk_vfs *vfs, const mk_heap *heap,
                              const char *path, const char *directory,
                              int64_t *out, mk_error *err)
{
    mk_scratch scratch;
    mk_span content;
    char *text = NULL;
    mk_status status;

    mk_scratch_init(&scratch, heap);
    status = mk_read_file(vfs, path, FILE_SIZE_MAX, &scratch, &content, err);
    if (status == MK_OK) {
        text = mk_alloc(heap, content.size + 1);
        if (text == NULL) status = mk_fail_memory(err, content.size + 1);
    }
    if (status == MK_OK) {
        if (content.size > 0) memcpy(text, content.data, content.size);
        text[content.size] = '\0';
        *out = find(text, directory);
    }
    mk_release(heap, text);
    mk_scratch_deinit(&scratch);
    return status;
}

mk_status mk_checkpoint_find(mk_vfs *vfs, const mk_heap *heap,
                             const char *directory, const char *name,
                             int64_t *out, mk_error *err)
{
    char parent[MK_PATH_MAX];
    char path[MK_PATH_MAX];
    mk_file_stat stat;
    mk_status status = mk_name_parent(parent, sizeof parent, directory, err);

    *out = -1;
    if (status == MK_OK) {
        status = mk_name_join(path, sizeof path, parent, name, err);
    }
    if (status == MK_OK) status = mk_vfs_stat(vfs, path, &stat, err);
    if (status == MK_OK && stat.kind == MK_KIND_FILE) {
        status =
            find_in_file(vfs, heap, path, mk_name_last(directory), out, err);
    }
    if (status == MK_NOT_FOUND || status == MK_INVALID_ARGUMENT) return MK_OK;
    return status;
}
