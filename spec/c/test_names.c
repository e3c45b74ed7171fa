/* File names: making them, taking them apart, and what is not one. */
#define _GNU_SOURCE
#include "support/store_world.h"

#include "store/names.h"

static const char *const role_suffixes[] = {".log", ".index", ".timeindex",
                                            ".txnindex", ".snapshot"};
static const char *const stage_suffixes[] = {"", ".deleted", ".cleaned",
                                             ".swap"};

/* Parse a copy on a block of its size, so that nothing behind it is read. */
static mk_file_name parse(const char *name)
{
    char *copy = (char *)exact_copy(name, strlen(name) + 1);
    mk_file_name parsed = mk_name_parse(copy);

    free(copy);
    return parsed;
}

static void assert_parsed(const char *name, mk_file_role role,
                          mk_file_stage stage, int64_t offset)
{
    mk_file_name parsed = parse(name);

    if (parsed.role != role || parsed.stage != stage ||
        parsed.offset != offset) {
        fail_msg("%s: role %d, stage %d, offset %" PRId64, name, parsed.role,
                 parsed.stage, parsed.offset);
    }
}

static void assert_unknown(const char *name)
{
    assert_parsed(name, MK_ROLE_UNKNOWN, MK_STAGE_FINAL, -1);
}

/* Every role at every stage, with offsets up to the largest. */
static void test_parse(void **state)
{
    static const int64_t offsets[] = {
        0, 1, 42, INT64_C(9999999999), INT64_MAX - 1, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < LENGTH(offsets); i++) {
        for (int role = MK_ROLE_LOG; role <= MK_ROLE_SNAPSHOT; role++) {
            for (int stage = MK_STAGE_FINAL; stage <= MK_STAGE_SWAP; stage++) {
                char name[64];

                snprintf(name, sizeof name, "%020" PRId64 "%s%s", offsets[i],
                         role_suffixes[role], stage_suffixes[stage]);
                assert_parsed(name, (mk_file_role)role, (mk_file_stage)stage,
                              offsets[i]);
            }
        }
    }
}

/* Names of our own begin with ours, and carry no offset. */
static void test_parse_own(void **state)
{
    (void)state;
    assert_parsed(MK_NAME_LOCK, MK_ROLE_OWN, MK_STAGE_FINAL, -1);
    assert_parsed(MK_NAME_STATE, MK_ROLE_OWN, MK_STAGE_FINAL, -1);
    assert_parsed(MK_NAME_SWAP, MK_ROLE_OWN, MK_STAGE_FINAL, -1);
    assert_parsed("minikafka.state.tmp", MK_ROLE_OWN, MK_STAGE_FINAL, -1);
    assert_unknown("minikafka");
    assert_unknown("minikafka-state");
    assert_unknown("Minikafka.state");
    assert_unknown(".minikafka.state");
}

/* Whatever is nearly a name is none; nor are Kafka's other files. */
static void test_parse_unknown(void **state)
{
    static const char *const names[] = {
        "",
        "x",
        "leader-epoch-checkpoint",
        "partition.metadata",
        ".kafka_cleanshutdown",
        "00000000000000000000",
        "00000000000000000000.",
        "00000000000000000000log",
        "00000000000000000000.lo",
        "00000000000000000000.logs",
        "00000000000000000000.LOG",
        "00000000000000000000.log.",
        "00000000000000000000.log.swap.swap",
        "00000000000000000000.log.deleted.swap",
        "00000000000000000000.log.clean",
        "00000000000000000000.log.tmp",
        "00000000000000000000.swap",
        "00000000000000000000.swap.log",
        "00000000000000000000.timeindex.index",
        "00000000000000000000-0000000002.checkpoint.deleted",
        "0000000000000000000.log",
        "000000000000000000000.log",
        "+0000000000000000000.log",
        "-0000000000000000001.log",
        " 0000000000000000000.log",
        "0000000000000000000x.log",
        "0x000000000000000000.log",
        "09223372036854775808.log",
        "09999999999999999999.log",
        "10000000000000000000.log",
        "18446744073709551616.log",
        "99999999999999999999.log",
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(names); i++) {
        assert_unknown(names[i]);
    }
}

/* No single change to a name makes another one, but for its digits. */
static void test_parse_changed(void **state)
{
    static const char name[] = "01234567890123456789.timeindex.deleted";

    (void)state;
    for (size_t i = 0; i < sizeof name - 1; i++) {
        for (int c = 1; c < 256; c++) {
            char changed[sizeof name];
            int64_t offset;

            memcpy(changed, name, sizeof name);
            changed[i] = (char)c;
            if (changed[i] == name[i]) continue;
            errno = 0;
            offset = strtoll(changed, NULL, 10);
            if (i < 20 && c >= '0' && c <= '9' && errno == 0) {
                assert_parsed(changed, MK_ROLE_TIME_INDEX, MK_STAGE_DELETED,
                              offset);
            } else {
                assert_unknown(changed);
            }
        }
    }
    for (size_t size = 0; size < sizeof name - 1; size++) {
        char cut[sizeof name];

        memcpy(cut, name, size);
        cut[size] = '\0';
        if (size == strlen("01234567890123456789.timeindex")) continue;
        assert_unknown(cut);
    }
}

/* What is made is what is parsed, digit for digit. */
static void test_segment_file(void **state)
{
    char path[128];
    uint64_t seed = 1;

    (void)state;
    assert_ok(mk_name_segment_file(path, sizeof path, "/d/orders-0", 42,
                                   MK_ROLE_LOG, NULL));
    assert_string_equal(path, "/d/orders-0/00000000000000000042.log");
    assert_ok(mk_name_segment_file(path, sizeof path, "/d/orders-0", INT64_MAX,
                                   MK_ROLE_TXN_INDEX, NULL));
    assert_string_equal(path, "/d/orders-0/09223372036854775807.txnindex");
    assert_int_equal(
        mk_name_segment_file(path, sizeof path, "/d", -1, MK_ROLE_LOG, NULL),
        MK_INVALID_ARGUMENT);
    for (int i = 0; i < 1000; i++) {
        int64_t offset = (int64_t)draw(&seed, INT64_MAX) >> draw(&seed, 63);
        mk_file_role role = (mk_file_role)draw(&seed, MK_ROLE_OWN);

        assert_ok(
            mk_name_segment_file(path, sizeof path, "/d", offset, role, NULL));
        assert_memory_equal(path, "/d/", 3);
        assert_parsed(path + 3, role, MK_STAGE_FINAL, offset);
    }
}

typedef mk_status (*make_name)(char *out, size_t out_size, mk_error *err);

static mk_status make_segment_file(char *out, size_t out_size, mk_error *err)
{
    return mk_name_segment_file(out, out_size, "/d", 7, MK_ROLE_OFFSET_INDEX,
                                err);
}

static mk_status make_join(char *out, size_t out_size, mk_error *err)
{
    return mk_name_join(out, out_size, "/some/where", "name", err);
}

static mk_status make_parent(char *out, size_t out_size, mk_error *err)
{
    return mk_name_parent(out, out_size, "/some/where/name", err);
}

static mk_status make_root(char *out, size_t out_size, mk_error *err)
{
    return mk_name_parent(out, out_size, "/name", err);
}

static mk_status make_sibling(char *out, size_t out_size, mk_error *err)
{
    return mk_name_sibling(out, out_size, "/some/orders-0", MK_SIBLING_NEW,
                           err);
}

/* With room for it and its NUL a path is written; with less it is refused, and
 * nothing behind the room is touched. */
static void test_room(void **state)
{
    static const make_name makers[] = {make_segment_file, make_join,
                                       make_parent, make_root, make_sibling};

    (void)state;
    for (size_t i = 0; i < LENGTH(makers); i++) {
        char whole[128];
        size_t size;

        assert_ok(makers[i](whole, sizeof whole, NULL));
        size = strlen(whole) + 1;
        for (size_t room = 1; room <= size; room++) {
            char *out = malloc(room);
            mk_error err = {0};
            mk_status status;

            assert_non_null(out);
            status = makers[i](out, room, &err);
            assert_int_equal(status, room < size ? MK_INVALID_ARGUMENT : MK_OK);
            if (room == size) {
                assert_string_equal(out, whole);
            } else {
                assert_status(err.status, MK_INVALID_ARGUMENT);
                assert_non_null(strstr(err.message, "too long"));
            }
            free(out);
        }
    }
}

static void test_join_and_parent(void **state)
{
    static const struct {
        const char *directory, *name, *path;
    } cases[] = {
        {"/", "a", "/a"},
        {"/a", "b", "/a/b"},
        {"/a/b-0", "minikafka.lock", "/a/b-0/minikafka.lock"},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_ok(mk_name_join(out, sizeof out, cases[i].directory,
                               cases[i].name, NULL));
        assert_string_equal(out, cases[i].path);
        assert_ok(mk_name_parent(out, sizeof out, cases[i].path, NULL));
        assert_string_equal(out, cases[i].directory);
        assert_string_equal(mk_name_last(cases[i].path), cases[i].name);
    }
}

/* ---- Siblings ---- */

static void assert_sibling(const char *directory, mk_sibling sibling,
                           const char *expected)
{
    char out[MK_PATH_MAX];

    assert_ok(mk_name_sibling(out, sizeof out, directory, sibling, NULL));
    assert_string_equal(out, expected);
}

static void test_sibling(void **state)
{
    (void)state;
    assert_sibling("/data/orders-0", MK_SIBLING_NEW,
                   "/data/minikafka.new.orders-0");
    assert_sibling("/data/orders-0", MK_SIBLING_OLD,
                   "/data/minikafka.old.orders-0");
    assert_sibling("/plain", MK_SIBLING_NEW, "/minikafka.new.plain");
    assert_sibling("/a/b/c", MK_SIBLING_OLD, "/a/b/minikafka.old.c");
}

/* Write `/d/<topic of that size>-<partition>`; without a dash if the partition
 * is NULL. */
static void write_long(char *out, size_t out_size, size_t topic_size,
                       const char *partition)
{
    char topic[256];

    assert_true(topic_size < sizeof topic);
    memset(topic, 't', topic_size);
    topic[topic_size] = '\0';
    snprintf(out, out_size, "/d/%s%s%s", topic, partition != NULL ? "-" : "",
             partition != NULL ? partition : "");
}

/* A name that fits stays whole; a longer one is cut to what file systems take,
 * keeps its partition, and is still another one for another directory. */
static void test_sibling_of_a_long_name(void **state)
{
    char directory[600], other[600];
    char out[MK_PATH_MAX], out_other[MK_PATH_MAX];
    const char *name;

    (void)state;
    write_long(directory, sizeof directory, 239, "0");
    assert_ok(
        mk_name_sibling(out, sizeof out, directory, MK_SIBLING_NEW, NULL));
    assert_int_equal(strlen(mk_name_last(out)), 255);
    assert_string_equal(mk_name_last(out) + strlen("minikafka.new."),
                        mk_name_last(directory));

    for (size_t size = 240; size <= 251; size++) {
        write_long(directory, sizeof directory, size, "123");
        memcpy(other, directory, sizeof other);
        other[strlen("/d/") + size - 1] = 'u';
        assert_ok(
            mk_name_sibling(out, sizeof out, directory, MK_SIBLING_NEW, NULL));
        assert_ok(mk_name_sibling(out_other, sizeof out_other, other,
                                  MK_SIBLING_NEW, NULL));
        name = mk_name_last(out);
        assert_true(strlen(name) <= 255);
        assert_string_equal(name + strlen(name) - 4, "-123");
        assert_memory_equal(name, "minikafka.new.ttt", 17);
        assert_string_not_equal(out, out_other);
        assert_ok(mk_name_sibling(out_other, sizeof out_other, directory,
                                  MK_SIBLING_OLD, NULL));
        assert_memory_equal(mk_name_last(out_other), "minikafka.old.ttt", 17);
    }
    write_long(directory, sizeof directory, 255, NULL);
    assert_ok(
        mk_name_sibling(out, sizeof out, directory, MK_SIBLING_NEW, NULL));
    name = mk_name_last(out);
    assert_true(strlen(name) <= 255);
    assert_null(strrchr(name, '-'));
}

/* What looks like a partition but is not one gets no suffix. */
static void test_sibling_without_partition(void **state)
{
    static const char *const endings[] = {"-", "-x", "-1x", "-1-", "-1.5"};
    char directory[600], out[MK_PATH_MAX];

    (void)state;
    for (size_t i = 0; i < LENGTH(endings); i++) {
        const char *name;

        write_long(directory, sizeof directory, 245, NULL);
        strncat(directory, endings[i], 5);
        assert_ok(
            mk_name_sibling(out, sizeof out, directory, MK_SIBLING_NEW, NULL));
        name = mk_name_last(out);
        assert_true(strlen(name) <= 255);
        assert_null(strstr(name, endings[i]));
    }
}

/* However a name of at most 255 bytes is made, its sibling has no more. */
static void test_sibling_of_a_long_number(void **state)
{
    char number[256];

    (void)state;
    for (size_t digits = 1; digits <= 253; digits++) {
        char directory[600], out[MK_PATH_MAX];

        memset(number, '7', digits);
        number[digits] = '\0';
        write_long(directory, sizeof directory, 254 - digits, number);
        assert_ok(
            mk_name_sibling(out, sizeof out, directory, MK_SIBLING_NEW, NULL));
        if (strlen(mk_name_last(out)) > 255) {
            fail_msg("a partition of %zu digits: a name of %zu bytes", digits,
                     strlen(mk_name_last(out)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_own),
        cmocka_unit_test(test_parse_unknown),
        cmocka_unit_test(test_parse_changed),
        cmocka_unit_test(test_segment_file),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_join_and_parent),
        cmocka_unit_test(test_sibling),
        cmocka_unit_test(test_sibling_of_a_long_name),
        cmocka_unit_test(test_sibling_without_partition),
        cmocka_unit_test(test_sibling_of_a_long_number),
    };

    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
