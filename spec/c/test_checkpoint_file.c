/* What a checkpoint file of Kafka's says of a partition, and what none says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "include/minikafka_sim.h"
#include "os/env.h"
#include "store/checkpoint_file.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* Ask about a directory with this content in the file; NULL: no file. */
static int64_t ask(const char *content, const char *directory)
{
    mk_heap heap = mk_heap_default();
    mk_sim_disk *disk;
    mk_env *env;
    int64_t found = 0;

    assert_int_equal(mk_sim_disk_new(NULL, NULL, &disk, NULL), MK_OK);
    assert_int_equal(mk_env_new_sim(disk, &env, NULL), MK_OK);
    if (content != NULL) {
        assert_int_equal(mk_sim_disk_write(disk, "/logs/starts", content,
                                           strlen(content), NULL),
                         MK_OK);
    }
    assert_int_equal(
        mk_checkpoint_find(env->vfs, &heap, directory, "starts", &found, NULL),
        MK_OK);
    mk_env_free(env);
    mk_sim_disk_free(disk);
    return found;
}

static void test_what_it_says(void **state)
{
    static const char content[] =
        "0\n4\na-b 0 5\na 0 7\na-b 12 9\na.b_c 3 9223372036854775807\n";
    static const struct {
        const char *directory;
        int64_t offset;
    } rows[] = {
        {"/logs/a-b-0", 5},  {"/logs/a-0", 7},
        {"/logs/a-b-12", 9}, {"/logs/a.b_c-3", INT64_MAX},
        {"/logs/a-1", -1},   {"/logs/a", -1},
        {"/logs/a-b", -1},   {"/logs/a-", -1},
        {"/logs/a-0x", -1},  {"/logs/b-0", -1},
        {"/other/a-0", -1},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        assert_int_equal(ask(content, rows[i].directory), rows[i].offset);
    }
    assert_int_equal(ask("0\n1\na 0 7", "/logs/a-0"), 7);
}

/* Whatever is not just of its form says nothing. */
static void test_what_says_nothing(void **state)
{
    static const char *const contents[] = {
        NULL,
        "",
        "0\n",
        "0\n0\n",
        "1\n1\na 0 7\n",
        "0\n2\na 0 7\n",
        "0\n1\na 0 7\nb 0 7\n",
        "0\n1\na 0\n",
        "0\n1\na 0 7 8\n",
        "0\n1\na 0 x\n",
        "0\n1\n 0 7\n",
        "0\n1\na 0 9223372036854775808\n",
        "0\nx\na 0 7\n",
        "0\n1000000000000000000000000000000000000000\na 0 7\n",
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(contents); i++) {
        assert_int_equal(ask(contents[i], "/logs/a-0"), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_what_says_nothing),
    };

    return cmocka_run_group_tests_name("checkpoint_file", tests, NULL, NULL);
}
