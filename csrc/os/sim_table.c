/* sim_table -- sorted arrays of counted names. */
#include "os/sim_table.h"

#include "base/check.h"

#include "base/poison.h"

/* ---- Names ---- */

mk_status mk_sim_name_new(const mk_heap *heap, const char *text, size_t size,
                          mk_sim_name **out, mk_error *err)
{
    size_t block_size = sizeof(mk_sim_name) + size + 1;
    mk_sim_name *name = mk_alloc(heap, block_size);

    *out = NULL;
    if (name == NULL) return mk_fail_memory(err, block_size);
    atomic_init(&name->references, 1);
    name->size = size;
    memcpy(name->text, text, size);
    name->text[size] = '\0';
    name->hash = mk_sim_hash_bytes((const uint8_t *)name->text, size);
    *out = name;
    return MK_OK;
}

mk_sim_name *mk_sim_name_acquire(mk_sim_name *name)
{
    atomic_fetch_add_explicit(&name->references, 1, memory_order_relaxed);
    return name;
}

void mk_sim_name_release(const mk_heap *heap, mk_sim_name *name)
{
    if (name == NULL) return;
    if (atomic_fetch_sub_explicit(&name->references, 1, memory_order_acq_rel) ==
        1) {
        mk_release(heap, name);
    }
}

static int compare(const mk_sim_name *name, const char *text, size_t size)
{
    size_t common = name->size < size ? name->size : size;
    int order = memcmp(name->text, text, common);

    if (order != 0) return order;
    return (name->size > size) - (name->size < size);
}

bool mk_sim_name_is_equal(const mk_sim_name *a, const mk_sim_name *b)
{
    if (a == b) return true;
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* ---- Tables ---- */

static mk_status new_table(const mk_heap *heap, size_t capacity,
                           mk_sim_table **out, mk_error *err)
{
    size_t size = sizeof(mk_sim_table) + capacity * sizeof(mk_sim_entry);
    mk_sim_table *table = mk_alloc(heap, size);

    *out = NULL;
    if (table == NULL) return mk_fail_memory(err, size);
    atomic_init(&table->references, 1);
    table->count = 0;
    table->capacity = capacity;
    *out = table;
    return MK_OK;
}

mk_status mk_sim_table_new(const mk_heap *heap, mk_sim_table **out,
                           mk_error *err)
{
    return new_table(heap, 0, out, err);
}

mk_sim_table *mk_sim_table_acquire(mk_sim_table *table)
{
    atomic_fetch_add_explicit(&table->references, 1, memory_order_relaxed);
    return table;
}

void mk_sim_table_release(const mk_heap *heap, mk_sim_table *table)
{
    if (table == NULL) return;
    if (atomic_fetch_sub_explicit(&table->references, 1,
                                  memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        mk_sim_name_release(heap, table->entries[i].name);
    }
    mk_release(heap, table);
}

mk_status mk_sim_table_prepare(const mk_heap *heap, mk_sim_table **table,
                               size_t more, mk_error *err)
{
    mk_sim_table *old = *table;
    bool shared =
        atomic_load_explicit(&old->references, memory_order_acquire) > 1;
    size_t capacity = old->count + more;
    mk_sim_table *copy;
    mk_status status;

    if (!shared && capacity <= old->capacity) return MK_OK;
    if (!shared && capacity < 2 * old->capacity) capacity = 2 * old->capacity;
    status = new_table(heap, capacity, &copy, err);
    if (status != MK_OK) return status;
    for (size_t i = 0; i < old->count; i++) {
        copy->entries[i] = old->entries[i];
        mk_sim_name_acquire(copy->entries[i].name);
    }
    copy->count = old->count;
    mk_sim_table_release(heap, old);
    *table = copy;
    return MK_OK;
}

/* Return where the name is, or where it belongs. */
static size_t place_of(const mk_sim_table *table, const char *text, size_t size,
                       bool *found)
{
    size_t low = 0;
    size_t high = table->count;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(table->entries[middle].name, text, size);

        if (order == 0) *found = true;
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const mk_sim_entry *mk_sim_table_find(const mk_sim_table *table,
                                      const char *text, size_t size)
{
    bool found;
    size_t at = place_of(table, text, size, &found);

    return found ? &table->entries[at] : NULL;
}

void mk_sim_table_set(mk_sim_table *table, mk_sim_name *name, uint32_t node)
{
    bool found;
    size_t at = place_of(table, name->text, name->size, &found);

    MK_ASSERT(atomic_load(&table->references) == 1);
    if (!found) {
        MK_ASSERT(table->count < table->capacity);
        memmove(&table->entries[at + 1], &table->entries[at],
                (table->count - at) * sizeof table->entries[0]);
        table->count++;
        table->entries[at].name = mk_sim_name_acquire(name);
    }
    table->entries[at].node = node;
}

void mk_sim_table_remove(const mk_heap *heap, mk_sim_table *table,
                         const mk_sim_name *name)
{
    bool found;
    size_t at = place_of(table, name->text, name->size, &found);
    mk_sim_name *removed;

    MK_ASSERT(atomic_load(&table->references) == 1);
    if (!found) return;
    removed = table->entries[at].name;
    table->count--;
    memmove(&table->entries[at], &table->entries[at + 1],
            (table->count - at) * sizeof table->entries[0]);
    mk_sim_name_release(heap, removed);
}
