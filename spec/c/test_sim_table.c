/* Tables of names, against a plain array. */
#include "support/sim_world.h"

#include "os/sim_table.h"

#define NAMES 20
#define STEPS 3000

/* A table, and where each of the names leads in it; 0: it is not there. */
typedef struct table_twin {
    mk_sim_table *table;
    uint32_t nodes[NAMES];
} table_twin;

static void check_alike(const table_twin *twin, mk_sim_name *const *names)
{
    size_t count = 0;

    for (size_t i = 0; i < NAMES; i++) {
        const mk_sim_entry *entry =
            mk_sim_table_find(twin->table, names[i]->text, names[i]->size);

        assert_int_equal(entry != NULL, twin->nodes[i] != 0);
        if (entry == NULL) continue;
        assert_int_equal(entry->node, twin->nodes[i]);
        assert_true(mk_sim_name_is_equal(entry->name, names[i]));
        count++;
    }
    assert_int_equal(twin->table->count, count);
    for (size_t i = 1; i < count; i++) {
        assert_true(strcmp(twin->table->entries[i - 1].name->text,
                           twin->table->entries[i].name->text) < 0);
    }
}

/* Tables that share what does not differ are each as if they were alone. */
static void test_tables_are_like_plain_arrays(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrst";
    sim_world *world = *state;
    mk_sim_name *names[NAMES];
    table_twin twins[3] = {{0}};
    uint64_t chance = 1;

    for (size_t i = 0; i < NAMES; i++) {
        assert_int_equal(mk_sim_name_new(&world->heap, letters + i / 2,
                                         1 + i % 2, &names[i], NULL),
                         MK_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mk_sim_table_new(&world->heap, &twins[i].table, NULL),
                         MK_OK);
    }
    for (int i = 0; i < STEPS; i++) {
        table_twin *twin = &twins[mk_sim_random_below(&chance, 3)];
        table_twin *other = &twins[mk_sim_random_below(&chance, 3)];
        size_t at = mk_sim_random_below(&chance, NAMES);

        if (twin != other && i % 50 == 0) {
            mk_sim_table_release(&world->heap, twin->table);
            *twin = *other;
            mk_sim_table_acquire(twin->table);
        }
        assert_int_equal(
            mk_sim_table_prepare(&world->heap, &twin->table, 1, NULL), MK_OK);
        twin->nodes[at] = (uint32_t)mk_sim_random_below(&chance, 4);
        if (twin->nodes[at] == 0) {
            mk_sim_table_remove(&world->heap, twin->table, names[at]);
        } else {
            mk_sim_table_set(twin->table, names[at], twin->nodes[at]);
        }
        check_alike(twin, names);
        check_alike(other, names);
    }
    for (size_t i = 0; i < NAMES; i++) {
        mk_sim_name_release(&world->heap, names[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        mk_sim_table_release(&world->heap, twins[i].table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tables_are_like_plain_arrays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
