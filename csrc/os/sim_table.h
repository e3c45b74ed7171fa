/*
 * sim_table -- the names in a simulated directory.
 *
 * Like contents, tables and names are counted, and a table is copied when it is
 * changed while somebody else holds it.
 */
#ifndef MK_OS_SIM_TABLE_H
#define MK_OS_SIM_TABLE_H

#include <stdatomic.h>

#include "base/heap.h"
#include "os/sim_hash.h"

typedef struct mk_sim_name {
    atomic_size_t references;
    mk_sim_hash hash;
    size_t size;
    char text[]; /* NUL-terminated. */
} mk_sim_name;

typedef struct mk_sim_entry {
    mk_sim_name *name; /* Counted. */
    uint32_t node;     /* Where it leads. */
} mk_sim_entry;

/* Sorted by bytes. */
typedef struct mk_sim_table {
    atomic_size_t references;
    size_t count, capacity;
    mk_sim_entry entries[];
} mk_sim_table;

/* Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_name_new(const mk_heap *heap, const char *text,
                                       size_t size, mk_sim_name **out,
                                       mk_error *err);
mk_sim_name *mk_sim_name_acquire(mk_sim_name *name);

/* NULL is a no-op. */
void mk_sim_name_release(const mk_heap *heap, mk_sim_name *name);
bool mk_sim_name_is_equal(const mk_sim_name *a, const mk_sim_name *b);

/* Make an empty table. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_table_new(const mk_heap *heap, mk_sim_table **out,
                                        mk_error *err);
mk_sim_table *mk_sim_table_acquire(mk_sim_table *table);

/* NULL is a no-op. */
void mk_sim_table_release(const mk_heap *heap, mk_sim_table *table);

/* Make `*table` one that nobody else holds, with room for `more` names. Errors:
 * NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_table_prepare(const mk_heap *heap,
                                            mk_sim_table **table, size_t more,
                                            mk_error *err);

/* Return the entry with that name, or NULL. */
const mk_sim_entry *mk_sim_table_find(const mk_sim_table *table,
                                      const char *text, size_t size);

/* Let `name` lead to `node`, in a table that was prepared. */
void mk_sim_table_set(mk_sim_table *table, mk_sim_name *name, uint32_t node);

/* Remove a name, if it is there, from a table that was prepared. */
void mk_sim_table_remove(const mk_heap *heap, mk_sim_table *table,
                         const mk_sim_name *name);

#endif /* MK_OS_SIM_TABLE_H */
