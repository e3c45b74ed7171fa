/*
 * posix_tail -- appends to a tail whose content is known.
 */
#ifndef MK_SUPPORT_POSIX_TAIL_H
#define MK_SUPPORT_POSIX_TAIL_H

#include "posix_world.h"

enum {
    SMALL = 140,      /* A small append, as W2 has it. */
    RUN = 1100,       /* More small appends than AUTO waits for. */
    SYNCED = 20,      /* More syncs than are waited for with zeros ahead. */
    WINDOW = 64 << 20 /* What is mapped at a time. */
};

static const mk_tail_mode all_modes[] = {MK_TAIL_PLAIN, MK_TAIL_AHEAD,
                                         MK_TAIL_AUTO, MK_TAIL_MAPPED};
enum { MODES = sizeof all_modes / sizeof *all_modes };

static inline mk_file *open_tail(posix_world *world, const char *name,
                                 int64_t position, mk_tail_mode mode)
{
    mk_file *file = open_file(world, name, MK_OPEN_WRITE | MK_OPEN_CREATE);
    mk_error err = {0};

    if (mk_file_tail_begin(file, position, mode, &err) != MK_OK) {
        fail_msg("%s", err.message);
    }
    return file;
}

/* The bytes of append number `number`. No one is zero. */
static inline void fill(uint8_t *bytes, size_t size, unsigned number)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)((number * 7 + i) % 255 + 1);
    }
}

static inline mk_status append(mk_file *file, size_t size, unsigned number,
                               mk_error *err)
{
    uint8_t *place;
    mk_status status = mk_file_tail_reserve(file, size, &place, err);

    if (status != MK_OK) return status;
    fill(place, size, number);
    return mk_file_tail_commit(file, size, err);
}

static inline void append_many(mk_file *file, unsigned count)
{
    mk_error err = {0};

    for (unsigned i = 0; i < count; i++) {
        if (append(file, SMALL, i, &err) != MK_OK) fail_msg("%s", err.message);
    }
}

/* Are there `count` small appends, and zeros behind them, in the file? */
static inline void assert_small_appends(posix_world *world, const char *name,
                                        unsigned count)
{
    uint8_t wanted[SMALL];
    size_t size;
    uint8_t *bytes = get_file(world, name, &size);

    assert_true(size >= (size_t)count * SMALL);
    for (unsigned i = 0; i < count; i++) {
        fill(wanted, SMALL, i);
        assert_memory_equal(bytes + (size_t)i * SMALL, wanted, SMALL);
    }
    for (size_t i = (size_t)count * SMALL; i < size; i++) {
        assert_int_equal(bytes[i], 0);
    }
    free(bytes);
}

static inline int64_t committed(mk_file *file)
{
    mk_file_stat stat;

    assert_int_equal(mk_file_stat_open(file, &stat, NULL), MK_OK);
    return stat.size;
}

static inline void assert_synced(mk_file *file)
{
    assert_int_equal(mk_file_sync(file, true, MK_SYNC_FLUSH_LOG, NULL), MK_OK);
}

#endif /* MK_SUPPORT_POSIX_TAIL_H */
