/*
 * minikafka_sim -- a simulated disk that loses power on demand.
 *
 * A simulated disk knows two states of itself: what processes see, and what is
 * on stable storage. Between them stand *atoms*, the smallest changes that a
 * loss of power keeps or loses: one page of one write, the growth of a file
 * that goes with it, another change of size, a time, a name made, a name
 * removed, two names changed at once (rename, exchange). A sync takes atoms
 * off the list by making them stable; a crash decides about the rest.
 *
 * What may survive is said by a profile, from the kindest to the harshest; each
 * allows all that the ones between `lazy` and it allow:
 *
 *   kill9      The process died, the machine did not: everything is there, and
 *              what was not synced still is not.
 *   lazy       Nothing that was not synced.
 *   prefix     The first k atoms, for any k.
 *   ordered    The first k of the changes of names, sizes and times, with any
 *              of the pages; but a file has not grown before its page is there.
 *   writeback  The same without the "but": what is not there reads as zeros or,
 *              torn, as garbage.
 *   hostile    Any atoms, but changes of the same name in their order.
 *
 * Torn pages: with `writeback` and `hostile` a page may survive in part (its
 * first sectors, its last ones, all but one, or with one sector of garbage),
 * and where a file grew without its page there may be garbage. Only bytes of
 * the write itself are ever damaged: storage is taken to keep the neighbours
 * of what it writes.
 *
 * A disk is counted: it lives as long as its last environment or its last
 * holder. All functions may be called from several threads, but for those of a
 * row of states. Everything that happens follows from the calls and the seed.
 */
#ifndef MINIKAFKA_SIM_H
#define MINIKAFKA_SIM_H

#include "minikafka.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Words ---- */

#define MK_SIM_PROFILES(X)    \
    X(KILL9, "kill9")         \
    X(LAZY, "lazy")           \
    X(PREFIX, "prefix")       \
    X(ORDERED, "ordered")     \
    X(WRITEBACK, "writeback") \
    X(HOSTILE, "hostile")

typedef enum mk_sim_profile {
#define X(name, word) MK_SIM_##name,
    MK_SIM_PROFILES(X)
#undef X
        MK_SIM_PROFILE_COUNT,
    MK_SIM_OWN_PROFILE = MK_SIM_PROFILE_COUNT, /* The disk's own. */
} mk_sim_profile;

/* What a process can ask of a disk: the words of traces and faults. */
#define MK_SIM_OPERATIONS(X)  \
    X(OPEN, "open")           \
    X(READ, "read")           \
    X(WRITE, "write")         \
    X(TRUNCATE, "truncate")   \
    X(ALLOCATE, "allocate")   \
    X(FSYNC, "fsync")         \
    X(FDATASYNC, "fdatasync") \
    X(FSYNC_DIR, "fsync_dir") \
    X(UTIME, "utime")         \
    X(RENAME, "rename")       \
    X(EXCHANGE, "exchange")   \
    X(LINK, "link")           \
    X(UNLINK, "unlink")       \
    X(MKDIR, "mkdir")         \
    X(RMDIR, "rmdir")         \
    X(LIST, "list")           \
    X(STAT, "stat")           \
    X(LOCK, "lock")           \
    X(CLOSE, "close")

typedef enum mk_sim_operation {
#define X(name, word) MK_SIM_##name,
    MK_SIM_OPERATIONS(X)
#undef X
        MK_SIM_OPERATION_COUNT,
    MK_SIM_ANY_OPERATION = MK_SIM_OPERATION_COUNT, /* In a fault. */
} mk_sim_operation;

/*
 * What a sync that failed has done to the pages it was for: "lost" ones are
 * taken for written, so a later sync says yes, but they never become stable;
 * "reverted" ones are gone at once, processes see what is stable; "retryable"
 * ones are as before, and the next sync takes them too.
 */
#define MK_SIM_FLAVOURS(X)  \
    X(LOST, "lost")         \
    X(REVERTED, "reverted") \
    X(RETRYABLE, "retryable")

typedef enum mk_sim_flavour {
#define X(name, word) MK_SIM_##name,
    MK_SIM_FLAVOURS(X)
#undef X
        MK_SIM_FLAVOUR_COUNT
} mk_sim_flavour;

/* Return the word. */
MK_API const char *mk_sim_profile_name(mk_sim_profile profile);
MK_API const char *mk_sim_operation_name(mk_sim_operation operation);
MK_API const char *mk_sim_flavour_name(mk_sim_flavour flavour);

/* Return what the word stands for, or the COUNT where it is none. */
MK_API mk_sim_profile mk_sim_profile_of(const char *word);
MK_API mk_sim_operation mk_sim_operation_of(const char *word);
MK_API mk_sim_flavour mk_sim_flavour_of(const char *word);

/* ---- Disks ---- */

typedef struct mk_sim_disk mk_sim_disk; /* Opaque. */

typedef struct mk_sim_options {
    uint64_t seed;          /* Of all that is drawn; default 1. */
    mk_sim_profile profile; /* Where a call names none; default HOSTILE. */
    int64_t page_bytes;     /* 512..65536, a power of two; default 4096. */
    int64_t sector_bytes;   /* 16..page_bytes, a power of two; default 512. */
    int64_t capacity_bytes; /* Room for contents; -1 (default): no limit. */
    int64_t capacity_files; /* ... for files and directories; -1: no limit. */
    bool fsync_links;       /* Does the sync of a new file or directory make
                               its name stable too? Default false. */
    bool exchange;          /* Can two names change places? Default true. */
    mk_clock clock; /* Left out: a manual clock of the disk's own, at 0. */
} mk_sim_options;

MK_API void mk_sim_options_default(mk_sim_options *out);

/* Make an empty disk: "/" alone. `heap` may be NULL for malloc(), `options`
 * NULL for the defaults. Errors: INVALID_ARGUMENT, NO_MEMORY. */
MK_API MK_NODISCARD mk_status mk_sim_disk_new(const mk_heap *heap,
                                              const mk_sim_options *options,
                                              mk_sim_disk **out, mk_error *err);

/* Count one more holder; mk_sim_disk_free() counts one less. */
MK_API mk_sim_disk *mk_sim_disk_acquire(mk_sim_disk *disk);
MK_API void mk_sim_disk_free(mk_sim_disk *disk);

/*
 * Make a disk as a death of all processes would leave this one now: what they
 * saw is there, what was not synced may still be lost, nothing is open or
 * locked. No faults, no trace, steps from 0; a manual clock of the disk's own
 * is copied, a given one is shared. Errors: NO_MEMORY.
 */
MK_API MK_NODISCARD mk_status mk_sim_disk_clone(mk_sim_disk *disk,
                                                mk_sim_disk **out,
                                                mk_error *err);

/* Make a machine with this disk and its clock. It ends when the disk loses
 * power: everything on it gives CRASHED from then on, and who wants to look at
 * what survived makes a new one. Errors: NO_MEMORY. */
MK_API MK_NODISCARD mk_status mk_env_new_sim(mk_sim_disk *disk, mk_env **out,
                                             mk_error *err);

/*
 * Return the disk's clock. Files get their times from it. A clock that is not
 * manual is never read by the disk itself: its time is then what the clock
 * returned here last said.
 */
MK_API mk_clock mk_sim_disk_clock(mk_sim_disk *disk);

/* Return the manual clock behind it, or NULL. */
MK_API mk_manual_clock *mk_sim_disk_manual_clock(mk_sim_disk *disk);

/* The disk's own options, but for `clock` as given. */
MK_API void mk_sim_disk_options(const mk_sim_disk *disk, mk_sim_options *out);

/* The weakest profile that allows this disk: of a state, that under which it
 * was found; of a clone, KILL9 or what it was cloned from; after a crash, the
 * one that was asked for; else the one in its options. */
MK_API mk_sim_profile mk_sim_disk_profile(mk_sim_disk *disk);

/* Hash what a process could find out: names, links, contents, times. Equal for
 * equal images, also of different disks. Errors: NO_MEMORY. */
MK_API MK_NODISCARD mk_status mk_sim_disk_hash(mk_sim_disk *disk,
                                               uint64_t out[2], mk_error *err);

typedef struct mk_sim_stats {
    int64_t steps; /* Operations so far: the number of the last one. */
    int64_t operations[MK_SIM_OPERATION_COUNT];
    int64_t bytes_read;
    int64_t bytes_written;
    int64_t faults; /* Operations that a fault hit. */
    int64_t crashes;
    int64_t used_bytes; /* Holes do not count. */
    size_t files;       /* Also unlinked ones that are still open. */
    size_t directories; /* "/" not counted. */
    size_t pending;     /* Atoms. */
} mk_sim_stats;

MK_API void mk_sim_disk_stats(mk_sim_disk *disk, mk_sim_stats *out);

/* ---- Contents, as a process would see them. None of this is a step. ---- */

/* Paths, sorted by bytes. */
typedef struct mk_sim_paths {
    char **paths; /* Owned; in one block. */
    size_t count;
    mk_heap heap;
} mk_sim_paths;

/* List all files. Directories do not count. Errors: NO_MEMORY. */
MK_API MK_NODISCARD mk_status mk_sim_disk_list(mk_sim_disk *disk,
                                               mk_sim_paths *out,
                                               mk_error *err);
MK_API void mk_sim_paths_deinit(mk_sim_paths *paths);

/* Errors: NOT_FOUND; IO for a directory. */
MK_API MK_NODISCARD mk_status mk_sim_disk_size(mk_sim_disk *disk,
                                               const char *path, int64_t *out,
                                               mk_error *err);

/* Copy up to `size` bytes from `position` on; `*done` is how many there were.
 * Errors: those of mk_sim_disk_size(). */
MK_API MK_NODISCARD mk_status mk_sim_disk_read(mk_sim_disk *disk,
                                               const char *path,
                                               int64_t position, void *bytes,
                                               size_t size, size_t *done,
                                               mk_error *err);

/* Make `bytes` the content of the file at `path`, on stable storage at once,
 * with its name and the directories above it, made if missing. Errors: IO,
 * NO_MEMORY; BUSY inside a trace. */
MK_API MK_NODISCARD mk_status mk_sim_disk_write(mk_sim_disk *disk,
                                                const char *path,
                                                const void *bytes, size_t size,
                                                mk_error *err);

/*
 * Damage a file: what processes see of it becomes what is stable, and then one
 * bit is turned over (bits count from 0, the lowest of each byte first), or
 * bytes become zero, or the file ends sooner.
 * Errors: NOT_FOUND, IO; INVALID_ARGUMENT outside the file; BUSY, NO_MEMORY.
 */
MK_API MK_NODISCARD mk_status mk_sim_disk_flip(mk_sim_disk *disk,
                                               const char *path, int64_t bit,
                                               mk_error *err);
MK_API MK_NODISCARD mk_status mk_sim_disk_zero(mk_sim_disk *disk,
                                               const char *path,
                                               int64_t position, int64_t size,
                                               mk_error *err);
MK_API MK_NODISCARD mk_status mk_sim_disk_cut(mk_sim_disk *disk,
                                              const char *path, int64_t size,
                                              mk_error *err);

/* ---- Faults and traces ---- */

/*
 * Which operations fail, and how. Nothing of a failed operation is done, with
 * these exceptions: a sync, see `flavour`; a write with `short_size`; a close,
 * which closes. A write for which the disk has no room leaves what fitted.
 * EINTR makes no operation fail, since below the core it is tried again: it is
 * only seen in the trace.
 */
typedef struct mk_sim_fault {
    mk_sim_operation operation; /* Default ANY. FSYNC hits FDATASYNC, too. */
    /* A glob of `*`, `?` and `[...]`: without a slash for the last name, with
     * one for the whole path, where `*` passes over slashes too. A rename,
     * exchange or link is also known by its second path. NULL: all. Borrowed
     * for the call. */
    const char *path;
    int64_t after;          /* So many of them pass first. */
    int64_t times;          /* Then so many fail; 0 (default): all. */
    int os_errno;           /* 0: EIO, or ENOSPC if short or delayed. */
    int64_t short_size;     /* Of a write so many bytes arrive; -1: none. */
    mk_sim_flavour flavour; /* Of a sync of a file; default LOST. The sync of
                               a directory is always RETRYABLE. */
    bool delayed;           /* Of a write: it says yes, and the next sync of the
                               file fails, in this flavour. Until it has, a
                               loss of power loses what was written. */
} mk_sim_fault;

MK_API void mk_sim_fault_default(mk_sim_fault *out);

/* Add a fault. Of several that match an operation all count it, and the first
 * added that is due hits it. Errors: INVALID_ARGUMENT, NO_MEMORY. */
MK_API MK_NODISCARD mk_status mk_sim_disk_fail(mk_sim_disk *disk,
                                               const mk_sim_fault *fault,
                                               mk_error *err);

/* Remove all faults. */
MK_API void mk_sim_disk_heal(mk_sim_disk *disk);

/* Let the syncs that the core calls by that name ("FLUSH_LOG", ...; the list is
 * in os/vfs.h) do nothing and say yes. Errors: INVALID_ARGUMENT. */
MK_API MK_NODISCARD mk_status mk_sim_disk_leave_out(mk_sim_disk *disk,
                                                    const char *sync_name,
                                                    mk_error *err);

/* An operation, told before it takes effect. Valid during the call. */
typedef struct mk_sim_event {
    int64_t step; /* From 1. */
    mk_sim_operation operation;
    const char *path;
    const char *to;   /* Of rename, exchange and link; else NULL. */
    const char *sync; /* The name of a sync; else NULL. */
    int64_t position; /* Of read and write; else 0. */
    int64_t size;     /* Of those, and the new one of truncate and allocate. */
    int os_errno;     /* With which it will fail, or 0. */
} mk_sim_event;

/*
 * Who is told. If the function fails, the operation is not done and fails with
 * that status. Inside it, from the same thread, the disk may be read, cloned
 * and enumerated, also through its environments: this is no step and meets no
 * fault. Whatever changes the disk gives BUSY. Other threads wait.
 */
typedef struct mk_sim_trace {
    mk_status (*tell)(void *context, const mk_sim_event *event, mk_error *err);
    void *context; /* Borrowed. */
} mk_sim_trace;

/* Set the trace; one without `tell` ends it. */
MK_API void mk_sim_disk_trace(mk_sim_disk *disk, mk_sim_trace trace);

/* ---- Crashes ---- */

/*
 * Crash now: KILL9 kills the processes, the others lose power, and what
 * survives is drawn by the seed. It is what processes see from then on and,
 * but for KILL9, all of it is stable. What was open is dead, locks are gone,
 * faults and trace too. Errors: NO_MEMORY; BUSY inside a trace.
 */
MK_API MK_NODISCARD mk_status mk_sim_disk_crash(mk_sim_disk *disk,
                                                mk_sim_profile profile,
                                                mk_error *err);

/* Crash instead of step number `step` (which is counted, but not told to the
 * trace): it and all that come after it on this machine give CRASHED. 0 takes
 * it back. After a KILL9 all states of a loss of power at that moment can be
 * enumerated. */
MK_API void mk_sim_disk_crash_at(mk_sim_disk *disk, int64_t step,
                                 mk_sim_profile profile);

typedef struct mk_sim_states mk_sim_states; /* Opaque: a row of states. */

typedef struct mk_sim_states_options {
    mk_sim_profile profile; /* Up to this one; default the disk's own. */
    int64_t limit;          /* No more than so many; -1 (default): all. */
    bool tears;             /* Also those with one torn page; default false. */
    /* A profile that allows more than 2^this choices of atoms (4..26, default
     * 20) is not enumerated but drawn from. */
    int exhaustive_bits;
} mk_sim_states_options;

MK_API void mk_sim_states_options_default(mk_sim_states_options *out);

/*
 * Begin to enumerate the disks that could be found after a crash at this
 * moment: no two alike, weakest profile first, each labelled with the weakest
 * profile that allows it. The first is what a kill -9 leaves. What is done to
 * the disk later does not matter. `options` may be NULL. The caller releases
 * the row with mk_sim_states_close(). Errors: INVALID_ARGUMENT, NO_MEMORY.
 */
MK_API MK_NODISCARD mk_status
mk_sim_states_open(mk_sim_disk *disk, const mk_sim_states_options *options,
                   mk_sim_states **out, mk_error *err);
MK_API void mk_sim_states_close(mk_sim_states *states);

/* Give the next state, which the caller frees: a disk with all it has stable,
 * steps from 0, no faults and no trace, and a clock as a clone's. MK_END: there
 * are no more, or the limit is reached. Errors: NO_MEMORY; the row may be gone
 * on with then. */
MK_API MK_NODISCARD mk_status mk_sim_states_next(mk_sim_states *states,
                                                 mk_sim_disk **out,
                                                 mk_error *err);

typedef struct mk_sim_states_info {
    int64_t given;  /* States so far. */
    int64_t looked; /* Choices of atoms looked at so far. */
    bool complete;  /* MK_END was reached, and nothing was drawn or cut off.
                       Where states were drawn, the label of a drawn one may be
                       harsher than need be. */
} mk_sim_states_info;

MK_API void mk_sim_states_get_info(const mk_sim_states *states,
                                   mk_sim_states_info *out);

#ifdef __cplusplus
}
#endif

#endif /* MINIKAFKA_SIM_H */
