/* config -- one table of settings, and what is read off it. */
#include "log/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#include "base/poison.h"

#define DAY_MS INT64_C(86400000)
#define ANY    INT64_MAX

static const char *const policy_words[] = {"delete", "compact", NULL};
static const char *const codec_words[] = {
    "uncompressed", "gzip", "snappy", "lz4", "zstd", "producer", NULL};
static const char *const time_words[] = {"CreateTime", "LogAppendTime", NULL};

#define INTEGER(name, low, high)                                              \
    {                                                                         \
#name, MK_SETTING_INTEGER, offsetof(mk_config, name), low, high, NULL \
    }
#define CHOICE(name, type, words)                           \
    {                                                       \
#name, type, offsetof(mk_config, name), 0, 0, words \
    }

/* Sorted by name. */
static const mk_setting settings[] = {
    CHOICE(cleanup_policy, MK_SETTING_WORDS, policy_words),
    INTEGER(compression_gzip_level, -1, 9),
    INTEGER(compression_lz4_level, 1, 17),
    CHOICE(compression_type, MK_SETTING_WORD, codec_words),
    INTEGER(compression_zstd_level, -131072, 22),
    INTEGER(delete_retention_ms, 0, ANY),
    INTEGER(file_delete_delay_ms, 0, ANY),
    INTEGER(flush_messages, 1, ANY),
    INTEGER(flush_ms, 0, ANY),
    INTEGER(index_interval_bytes, 0, INT32_MAX),
    INTEGER(max_compaction_lag_ms, 1, ANY),
    INTEGER(max_decompressed_message_bytes, 1, 2147483639),
    INTEGER(max_message_bytes, 0, INT32_MAX),
    INTEGER(message_timestamp_after_max_ms, 0, ANY),
    INTEGER(message_timestamp_before_max_ms, 0, ANY),
    CHOICE(message_timestamp_type, MK_SETTING_WORD, time_words),
    CHOICE(min_cleanable_dirty_ratio, MK_SETTING_NUMBER, NULL),
    INTEGER(min_compaction_lag_ms, 0, ANY),
    INTEGER(min_insync_replicas, 1, INT32_MAX),
    CHOICE(preallocate, MK_SETTING_BOOLEAN, NULL),
    INTEGER(producer_id_expiration_ms, 1, ANY),
    INTEGER(retention_bytes, INT64_MIN, ANY),
    INTEGER(retention_ms, -1, ANY),
    INTEGER(segment_bytes, 14, INT32_MAX),
    INTEGER(segment_index_bytes, 12, INT32_MAX),
    INTEGER(segment_jitter_ms, 0, ANY),
    INTEGER(segment_ms, 1, ANY),
};

#define SETTING_COUNT (sizeof settings / sizeof settings[0])

const mk_setting *mk_settings(size_t *count)
{
    *count = SETTING_COUNT;
    return settings;
}

void mk_config_default(mk_config *out)
{
    *out = (mk_config){
        .segment_bytes = INT64_C(1) << 30,
        .segment_ms = 7 * DAY_MS,
        .segment_index_bytes = 10 << 20,
        .index_interval_bytes = 4096,
        .flush_messages = ANY,
        .flush_ms = ANY,
        .retention_bytes = -1,
        .retention_ms = -1,
        .max_message_bytes = 1048588,
        .max_decompressed_message_bytes = 2147483639,
        .delete_retention_ms = DAY_MS,
        .max_compaction_lag_ms = ANY,
        .min_cleanable_dirty_ratio = 0.5,
        .file_delete_delay_ms = 60000,
        .message_timestamp_before_max_ms = ANY,
        .message_timestamp_after_max_ms = ANY,
        .producer_id_expiration_ms = DAY_MS,
        .min_insync_replicas = 1,
        .compression_gzip_level = -1,
        .compression_lz4_level = 9,
        .compression_zstd_level = 3,
        .cleanup_policy = MK_POLICY_DELETE,
        .compression_type = MK_CODEC_PRODUCER,
    };
}

static const mk_setting *find_setting(const char *name, mk_error *err)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(settings[i].name, name) == 0) return &settings[i];
    }
    mk_fail(err, MK_INVALID_ARGUMENT, "there is no setting %s", name);
    return NULL;
}

/* May a word setting have this number? */
static mk_status check_number(const mk_setting *setting, int64_t value,
                              mk_error *err)
{
    int64_t count = 0;

    while (setting->words[count] != NULL) {
        count++;
    }
    if (setting->type == MK_SETTING_WORDS) count = INT64_C(1) << count;
    if (value >= 0 && value < count) return MK_OK;
    return mk_fail(err, MK_INVALID_ARGUMENT,
                   "%s is %" PRId64 ", which is none of its words",
                   setting->name, value);
}

static mk_status check_range(const mk_setting *setting, int64_t value,
                             mk_error *err)
{
    bool gap = strcmp(setting->name, "compression_gzip_level") == 0;

    if (value >= setting->minimum && value <= setting->maximum &&
        !(gap && value == 0)) {
        return MK_OK;
    }
    return mk_fail(err, MK_INVALID_ARGUMENT,
                   "%s is %" PRId64 ", not in %" PRId64 "..%" PRId64,
                   setting->name, value, setting->minimum, setting->maximum);
}

/* Find `size` bytes of `text` among the words; -1 if they are none. */
static int find_word(const char *const *words, const char *text, size_t size)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0) {
            return i;
        }
    }
    return -1;
}

/* Find the word that `text` begins with, up to a comma; spaces around it don't
 * count. `*text` is then at its end. */
static int find_listed(const char *const *words, const char **text)
{
    const char *word = *text + strspn(*text, " ");
    size_t size = strcspn(word, ",");

    *text = word + size;
    while (size > 0 && word[size - 1] == ' ') {
        size--;
    }
    return find_word(words, word, size);
}

static mk_status fail_word(const mk_setting *setting, const char *text,
                           mk_error *err)
{
    char words[96] = "";
    size_t used = 0;

    for (size_t i = 0; setting->words[i] != NULL; i++) {
        int done = snprintf(words + used, sizeof words - used, "%s%s",
                            i > 0 ? ", " : "", setting->words[i]);

        used += (size_t)done;
        if (used >= sizeof words) break;
    }
    return mk_fail(err, MK_INVALID_ARGUMENT, "%s can't be '%s', only %s: %s",
                   setting->name, text,
                   setting->type == MK_SETTING_WORDS ? "some of" : "one of",
                   words);
}

/* Read one word, or for WORDS a set of them as bits: "compact,delete". */
static mk_status read_words(const mk_setting *setting, const char *text,
                            int64_t *out, mk_error *err)
{
    const char *at = text;
    bool several = setting->type == MK_SETTING_WORDS;
    int64_t bits = 0;

    if (several && text[0] == '\0') {
        *out = 0;
        return MK_OK;
    }
    for (;;) {
        int word = several ? find_listed(setting->words, &at)
                           : find_word(setting->words, text, strlen(text));

        if (word < 0) return fail_word(setting, text, err);
        if (!several) {
            *out = word;
            return MK_OK;
        }
        bits |= INT64_C(1) << word;
        if (*at == '\0') break;
        at++;
    }
    *out = bits;
    return MK_OK;
}

/* The value has the setting's type. */
static mk_status set(mk_config *config, const mk_setting *setting,
                     const mk_setting_value *value, mk_error *err)
{
    char *member = (char *)config + setting->member;
    int64_t number = 0;
    mk_status status = MK_OK;

    switch (setting->type) {
    case MK_SETTING_INTEGER:
        status = check_range(setting, value->integer, err);
        number = value->integer;
        break;
    case MK_SETTING_NUMBER:
        if (!(value->number >= 0 && value->number <= 1)) {
            return mk_fail(err, MK_INVALID_ARGUMENT, "%s is %g, not in 0..1",
                           setting->name, value->number);
        }
        memcpy(member, &value->number, sizeof value->number);
        return MK_OK;
    case MK_SETTING_BOOLEAN:
        memcpy(member, &value->boolean, sizeof value->boolean);
        return MK_OK;
    case MK_SETTING_WORD:
    case MK_SETTING_WORDS:
        status = read_words(setting, value->text, &number, err);
        break;
    }
    if (status == MK_OK) memcpy(member, &number, sizeof number);
    return status;
}

mk_status mk_config_set(mk_config *config, const char *name,
                        const mk_setting_value *value, mk_error *err)
{
    const mk_setting *setting = find_setting(name, err);

    if (setting == NULL) return MK_INVALID_ARGUMENT;
    if (setting->type != value->type) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "%s has another type", name);
    }
    return set(config, setting, value, err);
}

static void write_words(const mk_setting *setting, int64_t number,
                        mk_setting_value *out)
{
    size_t used = 0;

    for (int i = 0; setting->words[i] != NULL; i++) {
        bool set = setting->type == MK_SETTING_WORDS ? (number >> i & 1) != 0
                                                     : number == i;

        if (!set) continue;
        used +=
            (size_t)snprintf(out->text + used, sizeof out->text - used, "%s%s",
                             used > 0 ? "," : "", setting->words[i]);
    }
}

static void get(const mk_config *config, const mk_setting *setting,
                mk_setting_value *out)
{
    const char *member = (const char *)config + setting->member;

    memset(out, 0, sizeof *out);
    out->type = setting->type;
    switch (setting->type) {
    case MK_SETTING_NUMBER:
        memcpy(&out->number, member, sizeof out->number);
        break;
    case MK_SETTING_BOOLEAN:
        memcpy(&out->boolean, member, sizeof out->boolean);
        break;
    case MK_SETTING_INTEGER:
    case MK_SETTING_WORD:
    case MK_SETTING_WORDS:
        memcpy(&out->integer, member, sizeof out->integer);
        if (setting->words != NULL) write_words(setting, out->integer, out);
        break;
    }
}

mk_status mk_config_get(const mk_config *config, const char *name,
                        mk_setting_value *out, mk_error *err)
{
    const mk_setting *setting = find_setting(name, err);

    if (setting == NULL) {
        memset(out, 0, sizeof *out);
        return MK_INVALID_ARGUMENT;
    }
    get(config, setting, out);
    return MK_OK;
}

mk_status mk_config_check(const mk_config *config, mk_error *err)
{
    mk_config scratch = *config;

    for (size_t i = 0; i < SETTING_COUNT; i++) {
        mk_setting_value value;
        mk_status status = MK_OK;

        get(config, &settings[i], &value);
        if (settings[i].words != NULL) {
            status = check_number(&settings[i], value.integer, err);
        }
        if (status == MK_OK) status = set(&scratch, &settings[i], &value, err);
        if (status != MK_OK) return status;
    }
    if (config->min_compaction_lag_ms > config->max_compaction_lag_ms) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "min_compaction_lag_ms is greater than "
                       "max_compaction_lag_ms");
    }
    if (config->compression_type != MK_CODEC_PRODUCER &&
        config->compression_type != MK_CODEC_NONE) {
        return mk_fail(err, MK_UNSUPPORTED,
                       "compression_type %s is not built in yet",
                       codec_words[config->compression_type]);
    }
    return MK_OK;
}

int64_t mk_config_roll_ms(const mk_config *config)
{
    bool compacted = (config->cleanup_policy & MK_POLICY_COMPACT) != 0;
    int64_t lag_ms = config->max_compaction_lag_ms;

    if (!compacted || lag_ms >= config->segment_ms) return config->segment_ms;
    return lag_ms;
}
