/* names -- making and taking apart the names of files. */
#include "store/names.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "codec/crc32c.h"

#include "base/poison.h"

#define OFFSET_DIGITS 20
#define NAME_SIZE_MAX 255 /* What file systems take. */

static const struct {
    const char *suffix;
    mk_file_role role;
} roles[] = {
    {".log", MK_ROLE_LOG},
    {".index", MK_ROLE_OFFSET_INDEX},
    {".timeindex", MK_ROLE_TIME_INDEX},
    {".txnindex", MK_ROLE_TXN_INDEX},
    {".snapshot", MK_ROLE_SNAPSHOT},
};

static const struct {
    const char *suffix;
    mk_file_stage stage;
} stages[] = {
    {"", MK_STAGE_FINAL},
    {".deleted", MK_STAGE_DELETED},
    {".cleaned", MK_STAGE_CLEANED},
    {".swap", MK_STAGE_SWAP},
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* Read 20 digits; -1 if they are not, or too large for an offset. */
static int64_t parse_offset(const char *name)
{
    int64_t offset = 0;

    for (int i = 0; i < OFFSET_DIGITS; i++) {
        int digit = name[i] - '0';

        if (digit < 0 || digit > 9) return -1;
        if (offset > (INT64_MAX - digit) / 10) return -1;
        offset = offset * 10 + digit;
    }
    return offset;
}

mk_file_name mk_name_parse(const char *name)
{
    mk_file_name out = {MK_ROLE_UNKNOWN, MK_STAGE_FINAL, -1};
    const char *suffix;
    int64_t offset;

    if (strncmp(name, "minikafka.", 10) == 0) {
        out.role = MK_ROLE_OWN;
        return out;
    }
    offset = parse_offset(name);
    if (offset < 0) return out;
    suffix = name + OFFSET_DIGITS;
    for (size_t i = 0; i < LENGTH(roles); i++) {
        size_t size = strlen(roles[i].suffix);

        if (strncmp(suffix, roles[i].suffix, size) != 0) continue;
        for (size_t j = 0; j < LENGTH(stages); j++) {
            if (strcmp(suffix + size, stages[j].suffix) != 0) continue;
            out = (mk_file_name){roles[i].role, stages[j].stage, offset};
        }
    }
    return out;
}

/* Write a list of words that ends with NULL, one behind the other. False: they
 * do not fit, and only their beginning is there. Opening a log makes names by
 * the hundred, and snprintf() would be a good part of it. */
static bool write_all(char *out, size_t out_size, const char *const *words)
{
    size_t used = 0;

    for (; *words != NULL; words++) {
        size_t size = strlen(*words);
        size_t room = out_size - used - 1;

        memcpy(out + used, *words, size < room ? size : room);
        if (size > room) break;
        used += size;
    }
    out[*words == NULL ? used : out_size - 1] = '\0';
    return *words == NULL;
}

static mk_status check_fit(bool fits, const char *path, mk_error *err)
{
    if (fits) return MK_OK;
    return mk_fail(err, MK_INVALID_ARGUMENT, "the path %s is too long", path);
}

static void write_offset(char out[OFFSET_DIGITS + 1], int64_t offset)
{
    MK_ASSERT(offset >= 0);
    for (int i = OFFSET_DIGITS; i-- > 0; offset /= 10) {
        out[i] = (char)('0' + offset % 10);
    }
    out[OFFSET_DIGITS] = '\0';
}

void mk_name_write(char *out, size_t out_size, mk_file_name name)
{
    char digits[OFFSET_DIGITS + 1];
    bool fits;

    MK_ASSERT((size_t)name.role < LENGTH(roles));
    write_offset(digits, name.offset);
    fits = write_all(out, out_size,
                     (const char *const[]){digits, roles[name.role].suffix,
                                           stages[name.stage].suffix, NULL});
    MK_ASSERT(fits);
}

mk_status mk_name_file(char *out, size_t out_size, const char *directory,
                       mk_file_name name, mk_error *err)
{
    char last[64];

    mk_name_write(last, sizeof last, name);
    return mk_name_join(out, out_size, directory, last, err);
}

mk_status mk_name_segment_file(char *out, size_t out_size,
                               const char *directory, int64_t base_offset,
                               mk_file_role role, mk_error *err)
{
    char digits[OFFSET_DIGITS + 1];

    MK_ASSERT((size_t)role < LENGTH(roles));
    if (base_offset < 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "a base offset is not below zero");
    }
    write_offset(digits, base_offset);
    return check_fit(write_all(out, out_size,
                               (const char *const[]){directory, "/", digits,
                                                     roles[role].suffix, NULL}),
                     directory, err);
}

mk_status mk_name_join(char *out, size_t out_size, const char *directory,
                       const char *name, mk_error *err)
{
    const char *slash = strcmp(directory, "/") == 0 ? "" : "/";

    return check_fit(
        write_all(out, out_size,
                  (const char *const[]){directory, slash, name, NULL}),
        directory, err);
}

mk_status mk_name_parent(char *out, size_t out_size, const char *path,
                         mk_error *err)
{
    const char *last = strrchr(path, '/');
    size_t size = last == NULL ? 0 : (size_t)(last - path);

    if (size == 0) {
        path = "/";
        size = 1;
    }
    if (size >= out_size) return check_fit(false, path, err);
    memcpy(out, path, size);
    out[size] = '\0';
    return MK_OK;
}

const char *mk_name_last(const char *path)
{
    const char *last = strrchr(path, '/');

    return last == NULL ? path : last + 1;
}

/* Where the `-<partition>` of a partition's directory begins, else NULL. */
static const char *partition_suffix(const char *name)
{
    const char *dash = strrchr(name, '-');

    if (dash == NULL || dash == name || dash[1] == '\0') return NULL;
    return strspn(dash + 1, "0123456789") == strlen(dash + 1) ? dash : NULL;
}

mk_status mk_name_sibling(char *out, size_t out_size, const char *directory,
                          mk_sibling sibling, mk_error *err)
{
    static const char *const words[] = {"new", "old", "copy"};
    const char *role = words[sibling];
    const char *name = mk_name_last(directory);
    const char *partition = partition_suffix(name);
    char last[NAME_SIZE_MAX + 64];
    char parent[MK_PATH_MAX];
    mk_status status;

    status = mk_name_parent(parent, sizeof parent, directory, err);
    if (status != MK_OK) return status;
    if (!write_all(
            last, NAME_SIZE_MAX + 1,
            (const char *const[]){"minikafka.", role, ".", name, NULL})) {
        unsigned hash = mk_crc32c(0, name, strlen(name));
        /* Behind a number that long nobody looks for a partition. */
        bool keep = partition != NULL && strlen(partition) <= 20;

        snprintf(last, sizeof last, "minikafka.%s.%.200s.%08x%s", role, name,
                 hash, keep ? partition : "");
    }
    return mk_name_join(out, out_size, parent, last, err);
}
