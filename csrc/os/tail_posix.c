/*
 * tail_posix -- the growing end of a file.
 *
 * A *plain* commit is one pwrite() from a buffer. A *mapped* one costs no
 * system call: the bytes are built right in the page cache, through a window
 * of shared memory over the end of the file.
 *
 * Where each append is synced, a plain commit goes into zeros, too, that were
 * written ahead: then a sync writes data only, and no new size of the file
 * through the file system's journal. Through the mapping it would cost more,
 * since a sync makes the next store fault.
 *
 *     0          position        filled                       window's end
 *     | committed | zeros        | beyond the end of the file |
 *
 * Invariants, while there is a tail:
 *
 *  (1) The file is at least `filled` bytes long, and position <= filled.
 *  (2) From position to filled there are zeros, but for the reservation. They
 *      were really written: a full disk is an error of pwrite(), and no store
 *      needs a block that is not there, which would be a SIGBUS.
 *  (3) Stores go below `filled` only.
 *
 * A plain commit that fails may break (2), until the caller truncates, as it
 * must. Somebody else may break (1); it is checked before bytes are built, but
 * not more than once a tick, and by os/map_guard. Large appends are always
 * plain: through a mapping they cost twice as much.
 *
 * The sizes are measured (140-byte records on ext4): zeros in steps of 256 KiB
 * and 512 KiB are equally fast, with stalls of 0.2 and 0.3 ms; 64 KiB and 1 MiB
 * are slower. Windows of 16 MiB are a tenth slower than those of 64 MiB, larger
 * ones hardly faster; unmapping one of 64 MiB takes 1.7 ms. A sync a record
 * takes 124 us over zeros, 150 at the end of the file, 234 through a window; a
 * sync each 12 kB 181, 298 and 307; zeros a MiB at a time are slower.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "base/check.h"
#include "os/posix.h"

#define SMALL_SIZE  4096u        /* Appends up to this may be mapped. */
#define SMALL_RUN   1024u        /* So many in a row, and AUTO maps. */
#define SYNC_RUN    16u          /* So many syncs, each of few bytes, and */
#define SYNC_SIZE   (64 * 1024)  /* ... (so few) zeros are written ahead. */
#define ZERO_STEP   (256 * 1024) /* Zeros are written up to multiples. */
#define ZERO_PART   4096         /* ... from a block of that size. */
#define WINDOW_SIZE (64 * 1024 * 1024)
#define WINDOW_STEP (64 * 1024) /* Windows begin at multiples: pages. */

static void set_position(mk_posix_tail *tail, int64_t position)
{
    atomic_store_explicit(&tail->position, position, memory_order_release);
}

static void drop_window(mk_posix_tail *tail)
{
    if (tail->window == NULL) return;
    mk_map_guard_release(tail->guard);
    munmap(tail->window, WINDOW_SIZE);
    tail->window = NULL;
    if (tail->in_window) tail->reserved = 0;
    tail->in_window = false;
}

/* Bytes that were built and not committed must not be found there after a
 * death. */
static void drop_reservation(mk_posix_tail *tail, int64_t position)
{
    if (tail->in_window) {
        memset(tail->window + (position - tail->window_position), 0,
               tail->reserved);
    }
    tail->reserved = 0;
    tail->in_window = false;
}

/* Check invariant (1). */
static mk_status check_length(mk_posix_file *file, mk_error *err)
{
    mk_posix_tail *tail = &file->tail;
    int64_t tick = mk_posix_tick();
    int64_t size;
    mk_status status;

    if (MK_LIKELY(tick == tail->tick)) return MK_OK;
    status = mk_posix_size(file, &size, err);
    if (status != MK_OK) return status;
    if (size < tail->filled) {
        drop_window(tail);
        return mk_posix_fail_shortened(file, size, tail->filled, err);
    }
    tail->tick = tick;
    return MK_OK;
}

/* The bytes in the window went nowhere. */
static mk_status fail_broken(mk_posix_file *file, mk_error *err)
{
    mk_posix_tail *tail = &file->tail;
    int64_t size = 0;
    mk_status status = mk_posix_size(file, &size, err);

    drop_window(tail);
    if (status != MK_OK) return status;
    return mk_posix_fail_shortened(file, size, tail->filled, err);
}

/* ---- The window ---- */

/* Where blocks once written stay, so that a store into them can't fail and a
 * sync of them needs no journal. File systems that copy on write, and those on
 * a network, are not among them. */
static bool keeps_blocks(const mk_posix_file *file)
{
    struct statfs disk;

    if (fstatfs(file->fd, &disk) != 0) return false;
    switch ((uint32_t)disk.f_type) {
    case 0x0000ef53: /* ext2, ext3, ext4 */
    case 0x58465342: /* xfs */
    case 0x01021994: /* tmpfs */
        return true;
    default:
        return false;
    }
}

static bool is_in_window(const mk_posix_tail *tail, int64_t end)
{
    return tail->window != NULL && end - tail->window_position <= WINDOW_SIZE;
}

static bool move_window(mk_posix_file *file, int64_t position)
{
    mk_posix_tail *tail = &file->tail;
    int64_t start = position - position % WINDOW_STEP;
    void *window;

    drop_window(tail);
    window = mmap(NULL, WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                  file->fd, start);
    if (window == MAP_FAILED) return false;
    tail->guard = mk_map_guard_take(window, WINDOW_SIZE);
    if (tail->guard == NULL) {
        munmap(window, WINDOW_SIZE);
        return false;
    }
    tail->window = window;
    tail->window_position = start;
    return true;
}

/* Write up to `size` zeros; returns what pwritev() does. */
static ssize_t write_zeros(int fd, int64_t position, int64_t size)
{
    uint8_t zeros[ZERO_PART] = {0};
    struct iovec parts[ZERO_STEP / ZERO_PART];
    int count = 0;
    ssize_t done;

    for (; size > 0 && count < ZERO_STEP / ZERO_PART; count++) {
        size_t part = size < ZERO_PART ? (size_t)size : ZERO_PART;

        parts[count] = (struct iovec){zeros, part};
        size -= (int64_t)part;
    }
    do {
        done = pwritev(fd, parts, count, position);
    } while (done < 0 && errno == EINTR);
    return done;
}

/* Restore (2) for bytes up to `end`. Where that fails, the file gets back the
 * size it had, so that the last records before a full disk find their room. */
static bool fill_zeros(mk_posix_file *file, int64_t end)
{
    mk_posix_tail *tail = &file->tail;
    int64_t target = (end + ZERO_STEP - 1) / ZERO_STEP * ZERO_STEP;
    int64_t before;

    if (mk_posix_size(file, &before, NULL) != MK_OK) return false;
    if (before < tail->filled) return false;
    for (int64_t from = tail->filled; from < target;) {
        ssize_t done = write_zeros(file->fd, from, target - from);

        if (done <= 0) {
            mk_posix_set_size(file, before, NULL);
            return false;
        }
        from += done;
    }
    tail->filled = target;
    return true;
}

/* Make (1) to (3) allow stores up to `end`. */
static bool extend_window(mk_posix_file *file, int64_t position, int64_t end)
{
    mk_posix_tail *tail = &file->tail;

    if (!is_in_window(tail, end) && !move_window(file, position)) return false;
    return end <= tail->filled || fill_zeros(file, end);
}

/* Is the next append to be mapped? If it should but can't, AUTO starts anew. */
static bool use_window(mk_posix_file *file, int64_t position, size_t size)
{
    mk_posix_tail *tail = &file->tail;
    int64_t end = position + (int64_t)size;

    if (size > SMALL_SIZE || tail->sync_run >= SYNC_RUN) return false;
    if (tail->mode < MK_TAIL_AUTO) return false;
    if (tail->mode == MK_TAIL_AUTO && tail->small_run < SMALL_RUN) return false;
    if (MK_LIKELY(is_in_window(tail, end) && end <= tail->filled)) return true;

    if (tail->mode == MK_TAIL_AUTO && !keeps_blocks(file)) {
        tail->mode = MK_TAIL_PLAIN;
        return false;
    }
    if (extend_window(file, position, end)) return true;
    drop_window(tail);
    tail->mode = MK_TAIL_AUTO;
    tail->small_run = 0;
    return false;
}

/* ---- Syncs ---- */

/* See whether there were syncs since the last commit, and how few bytes each of
 * them had. They come from any thread, and may come in the middle of this. */
static void note_syncs(mk_posix_tail *tail, size_t size)
{
    unsigned syncs = atomic_load_explicit(&tail->syncs, memory_order_relaxed);

    if (MK_LIKELY(syncs == tail->syncs_seen && tail->sync_run == 0)) return;
    if (syncs != tail->syncs_seen) {
        tail->syncs_seen = syncs;
        tail->unsynced = 0;
        if (tail->sync_run < SYNC_RUN) tail->sync_run++;
    }
    tail->unsynced += (int64_t)size;
    if (tail->unsynced > SYNC_SIZE) tail->sync_run = 0;
}

/* Write zeros ahead if the commit up to `end` needs some and is one of many
 * that are synced. Without room for them it goes on as if it were not. */
static void prepare_sync(mk_posix_file *file, int64_t end)
{
    mk_posix_tail *tail = &file->tail;

    if (end <= tail->filled || tail->sync_run < SYNC_RUN) return;
    if (tail->mode == MK_TAIL_PLAIN) return;
    if (!keeps_blocks(file) || !fill_zeros(file, end)) tail->sync_run = 0;
}

/* ---- The tail ---- */

void mk_posix_tail_init(mk_posix_tail *tail)
{
    atomic_init(&tail->position, MK_POSIX_NO_TAIL);
    atomic_init(&tail->syncs, 0);
}

void mk_posix_tail_deinit(mk_posix_file *file)
{
    drop_window(&file->tail);
    mk_release(&file->base.vfs->heap, file->tail.buffer);
    file->tail.buffer = NULL;
    file->tail.capacity = 0;
    file->tail.reserved = 0;
    set_position(&file->tail, MK_POSIX_NO_TAIL);
}

mk_status mk_posix_tail_begin(mk_file *base, int64_t position,
                              mk_tail_mode mode, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    mk_posix_tail *tail = &file->tail;
    mk_status status;

    MK_ASSERT(mk_posix_tail_position(file) == MK_POSIX_NO_TAIL);
    tail->mode = mode;
    tail->filled = position;
    tail->tick = -1;
    tail->small_run = 0;
    tail->sync_run = 0;
    tail->unsynced = 0;
    status = check_length(file, err);
    if (status == MK_OK) set_position(tail, position);
    return status;
}

static mk_status grow_buffer(mk_posix_file *file, size_t size, mk_error *err)
{
    void *buffer = file->tail.buffer;
    mk_status status = mk_grow(&file->base.vfs->heap, &buffer,
                               &file->tail.capacity, size, 1, err);

    file->tail.buffer = buffer;
    return status;
}

mk_status mk_posix_tail_reserve(mk_file *base, size_t size, uint8_t **out,
                                mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    mk_posix_tail *tail = &file->tail;
    int64_t position = mk_posix_tail_position(file);
    mk_status status;

    MK_ASSERT(position != MK_POSIX_NO_TAIL);
    status = check_length(file, err);
    if (status != MK_OK) return status;
    if (MK_UNLIKELY(tail->reserved > 0)) drop_reservation(tail, position);

    if (use_window(file, position, size)) {
        tail->in_window = true;
        *out = tail->window + (position - tail->window_position);
    } else {
        status = grow_buffer(file, size > 0 ? size : 1, err);
        if (status != MK_OK) return status;
        tail->in_window = false;
        *out = tail->buffer;
    }
    tail->reserved = size;
    return MK_OK;
}

static mk_status commit_bytes(mk_posix_file *file, int64_t position,
                              const void *bytes, size_t size, mk_error *err)
{
    mk_posix_tail *tail = &file->tail;
    int64_t end = position + (int64_t)size;
    mk_status status;

    prepare_sync(file, end);
    status = mk_posix_write(file, position, bytes, size, err);
    if (status == MK_OK && tail->filled < end) tail->filled = end;
    return status;
}

mk_status mk_posix_tail_commit(mk_file *base, size_t size, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    mk_posix_tail *tail = &file->tail;
    int64_t position = mk_posix_tail_position(file);
    mk_status status = MK_OK;

    MK_ASSERT(position != MK_POSIX_NO_TAIL);
    MK_ASSERT(size <= tail->reserved);
    if (MK_UNLIKELY(size == 0)) {
        drop_reservation(tail, position);
        return MK_OK;
    }
    note_syncs(tail, size);
    if (!tail->in_window) {
        status = commit_bytes(file, position, tail->buffer, size, err);
    } else if (MK_UNLIKELY(mk_map_guard_is_broken(tail->guard))) {
        return fail_broken(file, err);
    }
    if (status != MK_OK || tail->reserved > SMALL_SIZE) {
        tail->small_run = 0;
    } else if (tail->small_run < SMALL_RUN) {
        tail->small_run++;
    }
    tail->reserved = 0;
    tail->in_window = false;
    if (status == MK_OK) set_position(tail, position + (int64_t)size);
    return status;
}

mk_status mk_posix_tail_append(mk_file *base, const void *bytes, size_t size,
                               mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    int64_t position = mk_posix_tail_position(file);
    uint8_t *place = NULL;
    mk_status status;

    if (size <= SMALL_SIZE) {
        status = mk_posix_tail_reserve(base, size, &place, err);
        if (status != MK_OK) return status;
        memcpy(place, bytes, size);
        return mk_posix_tail_commit(base, size, err);
    }
    /* Too large for the window: no need to copy it into a buffer. */
    status = mk_posix_tail_commit(base, 0, err);
    if (status == MK_OK) status = check_length(file, err);
    note_syncs(&file->tail, size);
    if (status == MK_OK) {
        status = commit_bytes(file, position, bytes, size, err);
    }
    file->tail.small_run = 0;
    if (status == MK_OK) set_position(&file->tail, position + (int64_t)size);
    return status;
}

mk_status mk_posix_tail_end(mk_file *base, mk_error *err)
{
    mk_posix_file *file = (mk_posix_file *)base;
    int64_t position = mk_posix_tail_position(file);
    int64_t size;
    mk_status status;

    if (position == MK_POSIX_NO_TAIL) return MK_OK;
    status = mk_posix_size(file, &size, err);
    if (status == MK_OK && size > position) {
        status = mk_posix_set_size(file, position, err);
    } else if (status == MK_OK && size < position) {
        status = mk_posix_fail_shortened(file, size, position, err);
    }
    mk_posix_tail_deinit(file);
    return status;
}

/* What lies beyond the old position may be the rest of a failed write: cut it
 * off before the file grows over it. */
mk_status mk_posix_tail_truncate(mk_posix_file *file, int64_t size,
                                 mk_error *err)
{
    mk_posix_tail *tail = &file->tail;
    int64_t position = mk_posix_tail_position(file);
    mk_status status;

    drop_window(tail);
    tail->reserved = 0;
    if (size > position) {
        status = mk_posix_set_size(file, position, err);
        if (status != MK_OK) return status;
        tail->filled = position;
    }
    status = mk_posix_set_size(file, size, err);
    if (status != MK_OK) return status;
    tail->filled = size;
    set_position(tail, size);
    return MK_OK;
}
