/* Settings: their table, defaults, types, ranges and words. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "log/config.h"

enum { SETTINGS = 27 };

/* What Kafka says of its topic settings, dots turned to underscores. */
static const struct plain_setting {
    const char *name;
    int64_t value, minimum, maximum;
} integers[] = {
    {"compression_gzip_level", -1, -1, 9},
    {"compression_lz4_level", 9, 1, 17},
    {"compression_zstd_level", 3, -131072, 22},
    {"delete_retention_ms", 86400000, 0, INT64_MAX},
    {"file_delete_delay_ms", 60000, 0, INT64_MAX},
    {"flush_messages", INT64_MAX, 1, INT64_MAX},
    {"flush_ms", INT64_MAX, 0, INT64_MAX},
    {"index_interval_bytes", 4096, 0, INT32_MAX},
    {"max_compaction_lag_ms", INT64_MAX, 1, INT64_MAX},
    {"max_decompressed_message_bytes", 2147483639, 1, 2147483639},
    {"max_message_bytes", 1048588, 0, INT32_MAX},
    {"message_timestamp_after_max_ms", INT64_MAX, 0, INT64_MAX},
    {"message_timestamp_before_max_ms", INT64_MAX, 0, INT64_MAX},
    {"min_compaction_lag_ms", 0, 0, INT64_MAX},
    {"min_insync_replicas", 1, 1, INT32_MAX},
    {"producer_id_expiration_ms", 86400000, 1, INT64_MAX},
    {"retention_bytes", -1, INT64_MIN, INT64_MAX},
    {"retention_ms", -1, -1, INT64_MAX},
    {"segment_bytes", 1073741824, 14, INT32_MAX},
    {"segment_index_bytes", 10485760, 12, INT32_MAX},
    {"segment_jitter_ms", 0, 0, INT64_MAX},
    {"segment_ms", 604800000, 1, INT64_MAX},
};

static mk_config default_config(void)
{
    mk_config config;

    memset(&config, 0xaa, sizeof config);
    mk_config_default(&config);
    return config;
}

static mk_status set_integer(mk_config *config, const char *name, int64_t value,
                             mk_error *err)
{
    const mk_setting_value given = {.type = MK_SETTING_INTEGER,
                                    .integer = value};

    return mk_config_set(config, name, &given, err);
}

static mk_status set_text(mk_config *config, const char *name,
                          mk_setting_type type, const char *text, mk_error *err)
{
    mk_setting_value given = {.type = type};

    snprintf(given.text, sizeof given.text, "%s", text);
    return mk_config_set(config, name, &given, err);
}

static mk_setting_value get(const mk_config *config, const char *name)
{
    mk_setting_value value;

    memset(&value, 0xaa, sizeof value);
    assert_ok(mk_config_get(config, name, &value, NULL));
    return value;
}

/* ---- The table ---- */

/* Every setting once, by name, each with a member of its own. */
static void test_table(void **state)
{
    size_t count = 0;
    const mk_setting *settings = mk_settings(&count);

    (void)state;
    assert_int_equal(count, SETTINGS);
    for (size_t i = 0; i < count; i++) {
        bool has_words = settings[i].type == MK_SETTING_WORD ||
                         settings[i].type == MK_SETTING_WORDS;

        if (i > 0) {
            assert_true(strcmp(settings[i - 1].name, settings[i].name) < 0);
        }
        assert_true(settings[i].member < sizeof(mk_config));
        assert_int_equal(settings[i].words != NULL, has_words);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(settings[i].member, settings[j].member);
        }
    }
}

static void test_defaults(void **state)
{
    mk_config config = default_config();

    (void)state;
    for (size_t i = 0; i < LENGTH(integers); i++) {
        mk_setting_value value = get(&config, integers[i].name);

        assert_int_equal(value.type, MK_SETTING_INTEGER);
        if (value.integer != integers[i].value) {
            fail_msg("%s is %" PRId64, integers[i].name, value.integer);
        }
    }
    assert_string_equal(get(&config, "cleanup_policy").text, "delete");
    assert_string_equal(get(&config, "compression_type").text, "producer");
    assert_string_equal(get(&config, "message_timestamp_type").text,
                        "CreateTime");
    assert_true(get(&config, "min_cleanable_dirty_ratio").number == 0.5);
    assert_false(get(&config, "preallocate").boolean);
    assert_int_equal(LENGTH(integers) + 5, SETTINGS);
    assert_ok(mk_config_check(&config, NULL));
}

/* ---- Giving values ---- */

/* Refused: the message names the setting, and nothing is changed. */
static void assert_refused(mk_status status, const mk_error *err,
                           const mk_config *config, const char *name)
{
    mk_config untouched = default_config();

    if (status != MK_INVALID_ARGUMENT || err->status != status) {
        fail_msg("%s: %s", name, mk_status_name(status));
    }
    assert_non_null(strstr(err->message, name));
    assert_memory_equal(config, &untouched, offsetof(mk_config, preallocate));
    assert_int_equal(config->preallocate, untouched.preallocate);
}

/* The least and the greatest value are fine; beyond them none is, and they are
 * those that the table tells. */
static void test_ranges(void **state)
{
    size_t count;
    const mk_setting *settings = mk_settings(&count);

    (void)state;
    for (size_t i = 0; i < LENGTH(integers); i++) {
        const struct plain_setting *plain = &integers[i];
        mk_config config = default_config();
        mk_error err = {0};

        if (plain->minimum > INT64_MIN) {
            assert_refused(
                set_integer(&config, plain->name, plain->minimum - 1, &err),
                &err, &config, plain->name);
        }
        if (plain->maximum < INT64_MAX) {
            assert_refused(
                set_integer(&config, plain->name, plain->maximum + 1, &err),
                &err, &config, plain->name);
        }
        assert_ok(set_integer(&config, plain->name, plain->minimum, NULL));
        assert_int_equal(get(&config, plain->name).integer, plain->minimum);
        assert_ok(set_integer(&config, plain->name, plain->maximum, NULL));
        assert_int_equal(get(&config, plain->name).integer, plain->maximum);
        for (size_t j = 0; j < count; j++) {
            if (strcmp(settings[j].name, plain->name) != 0) continue;
            assert_int_equal(settings[j].minimum, plain->minimum);
            assert_int_equal(settings[j].maximum, plain->maximum);
        }
    }
}

/* gzip knows -1 and 1 to 9: 0, between them, is none of its levels. */
static void test_gzip_level(void **state)
{
    mk_config config = default_config();
    mk_error err = {0};

    (void)state;
    assert_refused(set_integer(&config, "compression_gzip_level", 0, &err),
                   &err, &config, "compression_gzip_level");
    assert_ok(set_integer(&config, "compression_gzip_level", 1, NULL));
    assert_ok(set_integer(&config, "compression_zstd_level", 0, NULL));
}

static void check_member(mk_config *config, const char *name,
                         const int64_t *member, int64_t value)
{
    assert_ok(set_integer(config, name, value, NULL));
    assert_int_equal(*member, value);
}

/* A setting's member is the one of its name. */
static void test_members(void **state)
{
    mk_config config = default_config();

    (void)state;
#define CHECK(member, value) \
    check_member(&config, #member, &config.member, value)
    CHECK(segment_bytes, 1001);
    CHECK(segment_ms, 1002);
    CHECK(segment_jitter_ms, 1003);
    CHECK(segment_index_bytes, 1004);
    CHECK(index_interval_bytes, 1005);
    CHECK(flush_messages, 1006);
    CHECK(flush_ms, 1007);
    CHECK(retention_bytes, 1008);
    CHECK(retention_ms, 1009);
    CHECK(max_message_bytes, 1010);
    CHECK(max_decompressed_message_bytes, 1011);
    CHECK(delete_retention_ms, 1012);
    CHECK(min_compaction_lag_ms, 1013);
    CHECK(max_compaction_lag_ms, 1014);
    CHECK(file_delete_delay_ms, 1015);
    CHECK(message_timestamp_before_max_ms, 1016);
    CHECK(message_timestamp_after_max_ms, 1017);
    CHECK(producer_id_expiration_ms, 1018);
    CHECK(min_insync_replicas, 1019);
    CHECK(compression_gzip_level, 7);
    CHECK(compression_lz4_level, 8);
    CHECK(compression_zstd_level, -9);
#undef CHECK
    assert_ok(mk_config_check(&config, NULL));
}

static void test_words(void **state)
{
    static const char *const codecs[] = {"uncompressed", "gzip", "snappy",
                                         "lz4",          "zstd", "producer"};
    static const char *const wrong[] = {
        "", "none", "GZIP", "gzip ", " gzip", "gzi", "gzipp", "gzip,lz4", "0"};
    mk_config config = default_config();
    mk_error err = {0};

    (void)state;
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        assert_refused(set_text(&config, "compression_type", MK_SETTING_WORD,
                                wrong[i], &err),
                       &err, &config, "compression_type");
    }
    for (int i = 0; i < (int)LENGTH(codecs); i++) {
        assert_ok(set_text(&config, "compression_type", MK_SETTING_WORD,
                           codecs[i], NULL));
        assert_int_equal(config.compression_type, i);
        assert_string_equal(get(&config, "compression_type").text, codecs[i]);
    }
    assert_int_equal(MK_CODEC_PRODUCER, 5);
    assert_ok(set_text(&config, "message_timestamp_type", MK_SETTING_WORD,
                       "LogAppendTime", NULL));
    assert_int_equal(config.message_timestamp_type, 1);
    assert_string_equal(get(&config, "message_timestamp_type").text,
                        "LogAppendTime");
}

/* A set of words, in any order, also none or one twice. */
static void test_sets_of_words(void **state)
{
    static const struct {
        const char *given;
        int64_t bits;
        const char *back;
    } cases[] = {
        {"delete", MK_POLICY_DELETE, "delete"},
        {"compact", MK_POLICY_COMPACT, "compact"},
        {"compact,delete", MK_POLICY_COMPACT | MK_POLICY_DELETE,
         "delete,compact"},
        {"delete,compact", MK_POLICY_COMPACT | MK_POLICY_DELETE,
         "delete,compact"},
        {"delete,delete", MK_POLICY_DELETE, "delete"},
        {"delete, compact", MK_POLICY_COMPACT | MK_POLICY_DELETE,
         "delete,compact"},
        {" compact  ,delete ", MK_POLICY_COMPACT | MK_POLICY_DELETE,
         "delete,compact"},
        {"", 0, ""},
    };
    static const char *const wrong[] = {
        ",",
        "delete,",
        ",delete",
        "delete,,compact",
        "delete, ,compact",
        " ",
        "delete;compact",
        "Delete",
        "delet",
        "none",
        "deletecompact",
    };
    mk_config config = default_config();
    mk_error err = {0};

    (void)state;
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        assert_refused(set_text(&config, "cleanup_policy", MK_SETTING_WORDS,
                                wrong[i], &err),
                       &err, &config, "cleanup_policy");
    }
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_ok(set_text(&config, "cleanup_policy", MK_SETTING_WORDS,
                           cases[i].given, NULL));
        assert_int_equal(config.cleanup_policy, cases[i].bits);
        assert_string_equal(get(&config, "cleanup_policy").text, cases[i].back);
        assert_ok(mk_config_check(&config, NULL));
    }
}

static void test_number_and_boolean(void **state)
{
    static const double fine[] = {0, 0.25, 1};
    static const double wrong[] = {-0.001,           1.001,
                                   -1e300,           1e300,
                                   __builtin_inf(),  -__builtin_inf(),
                                   __builtin_nan("")};
    mk_setting_value value = {.type = MK_SETTING_NUMBER};
    mk_config config = default_config();
    mk_error err = {0};

    (void)state;
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        value.number = wrong[i];
        assert_refused(
            mk_config_set(&config, "min_cleanable_dirty_ratio", &value, &err),
            &err, &config, "min_cleanable_dirty_ratio");
    }
    for (size_t i = 0; i < LENGTH(fine); i++) {
        value.number = fine[i];
        assert_ok(
            mk_config_set(&config, "min_cleanable_dirty_ratio", &value, NULL));
        assert_true(config.min_cleanable_dirty_ratio == fine[i]);
        assert_true(get(&config, "min_cleanable_dirty_ratio").number ==
                    fine[i]);
    }
    value = (mk_setting_value){.type = MK_SETTING_BOOLEAN, .boolean = true};
    assert_ok(mk_config_set(&config, "preallocate", &value, NULL));
    assert_true(config.preallocate);
    assert_true(get(&config, "preallocate").boolean);
}

/* Each setting takes values of its own type only. */
static void test_types(void **state)
{
    size_t count;
    const mk_setting *settings = mk_settings(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (int type = MK_SETTING_INTEGER; type <= MK_SETTING_WORDS; type++) {
            const mk_setting_value value = {.type = (mk_setting_type)type,
                                            .integer = 1,
                                            .number = 1,
                                            .text = "delete"};
            mk_config config = default_config();
            mk_error err = {0};

            if (type == (int)settings[i].type) continue;
            assert_refused(
                mk_config_set(&config, settings[i].name, &value, &err), &err,
                &config, settings[i].name);
        }
    }
}

static void test_unknown_names(void **state)
{
    static const char *const names[] = {
        "",
        "segment.bytes",
        "segment_byte",
        "segment_bytess",
        "Segment_bytes",
        "retention",
        " retention_ms",
        "cleanup_policy ",
    };
    mk_config config = default_config();

    (void)state;
    for (size_t i = 0; i < LENGTH(names); i++) {
        mk_setting_value value;
        mk_error err = {0};

        assert_refused(set_integer(&config, names[i], 100, &err), &err, &config,
                       names[i]);
        memset(&value, 0xaa, sizeof value);
        assert_refused(mk_config_get(&config, names[i], &value, &err), &err,
                       &config, names[i]);
        assert_int_equal(value.integer, 0);
        assert_string_equal(value.text, "");
        assert_status(set_integer(&config, names[i], 100, NULL),
                      MK_INVALID_ARGUMENT);
    }
}

/* ---- Checking a whole configuration ---- */

/* Whatever a program puts into the members is checked before it is used. */
static void test_check_of_members(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(integers); i++) {
        for (int side = 0; side < 2; side++) {
            const struct plain_setting *plain = &integers[i];
            mk_config config = default_config();
            mk_error err = {0};
            size_t count;
            const mk_setting *setting = mk_settings(&count);
            int64_t value;

            if (side ? plain->maximum == INT64_MAX
                     : plain->minimum == INT64_MIN) {
                continue;
            }
            value = side ? plain->maximum + 1 : plain->minimum - 1;
            while (strcmp(setting->name, plain->name) != 0) {
                setting++;
            }
            memcpy((char *)&config + setting->member, &value, sizeof value);
            assert_status(mk_config_check(&config, &err), MK_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, plain->name));
        }
    }
}

static void test_check_of_choices(void **state)
{
    mk_config config = default_config();
    mk_error err = {0};

    (void)state;
    config.compression_type = 6;
    assert_status(mk_config_check(&config, &err), MK_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "compression_type"));
    config.compression_type = MK_CODEC_NONE;
    assert_ok(mk_config_check(&config, NULL));
    for (int i = MK_CODEC_GZIP; i <= MK_CODEC_ZSTD; i++) {
        config.compression_type = i;
        assert_status(mk_config_check(&config, NULL), MK_UNSUPPORTED);
    }
    config = default_config();
    config.message_timestamp_type = -1;
    assert_status(mk_config_check(&config, NULL), MK_INVALID_ARGUMENT);
    config = default_config();
    config.min_cleanable_dirty_ratio = 2;
    assert_status(mk_config_check(&config, NULL), MK_INVALID_ARGUMENT);
}

/* Bits that are no policy's are out of the setting's range. */
static void test_check_of_unknown_policies(void **state)
{
    static const int64_t wrong[] = {4, 5, 8, INT64_C(1) << 40, -1, INT64_MIN};

    (void)state;
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        mk_config config = default_config();

        config.cleanup_policy = wrong[i];
        if (mk_config_check(&config, NULL) == MK_OK) {
            fail_msg("cleanup_policy %" PRId64 " passes", wrong[i]);
        }
    }
}

/* The least lag may reach the greatest, not pass it. */
static void test_check_of_lags(void **state)
{
    mk_config config = default_config();
    mk_error err = {0};

    (void)state;
    config.min_compaction_lag_ms = 100;
    config.max_compaction_lag_ms = 100;
    assert_ok(mk_config_check(&config, NULL));
    config.min_compaction_lag_ms = 101;
    assert_status(mk_config_check(&config, &err), MK_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "min_compaction_lag_ms"));
    assert_non_null(strstr(err.message, "max_compaction_lag_ms"));
}

/* Compacted logs roll by max_compaction_lag_ms where that is sooner. */
static void test_roll_ms(void **state)
{
    static const struct {
        int64_t policy, segment_ms, lag_ms, expected;
    } cases[] = {
        {MK_POLICY_DELETE, 100, 50, 100},
        {MK_POLICY_COMPACT, 100, 50, 50},
        {MK_POLICY_COMPACT | MK_POLICY_DELETE, 100, 99, 99},
        {MK_POLICY_COMPACT, 100, 100, 100},
        {MK_POLICY_COMPACT, 100, 101, 100},
        {MK_POLICY_COMPACT, 100, INT64_MAX, 100},
        {0, 100, 50, 100},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        mk_config config = default_config();

        config.cleanup_policy = cases[i].policy;
        config.segment_ms = cases[i].segment_ms;
        config.max_compaction_lag_ms = cases[i].lag_ms;
        assert_int_equal(mk_config_roll_ms(&config), cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_gzip_level),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_sets_of_words),
        cmocka_unit_test(test_number_and_boolean),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_check_of_members),
        cmocka_unit_test(test_check_of_choices),
        cmocka_unit_test(test_check_of_unknown_policies),
        cmocka_unit_test(test_check_of_lags),
        cmocka_unit_test(test_roll_ms),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
