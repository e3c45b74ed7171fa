/*
 * sim_disk -- the state of a simulated disk, as the files of the simulation see
 * it.
 *
 * A disk is an array of nodes (files and directories; place 0 is "/"), each in
 * two states, as processes see it and as it is kept on stable storage, and an
 * array of atoms, in the order they came, which lead from the second to the
 * first.
 *
 * Invariants:
 *
 *  (1) Applied to what is kept, all atoms in order give what processes see. The
 *      exceptions: pages that a failed sync has lost, and doomed atoms, of
 * which the disk said yes without having room; a loss of power loses those. (2)
 * Atoms that change the same name become stable in their order. (3) The atom of
 * a growth directly follows that of its page, by serial too. (4) What is kept
 * has no bytes beyond its size.
 *
 * Everything but the words and the counts is guarded by the disk's mutex;
 * functions of this header want it held, unless they say otherwise. There is
 * no order with other locks: nothing is called from under it but a trace.
 */
#ifndef MK_OS_SIM_DISK_H
#define MK_OS_SIM_DISK_H

#include "include/minikafka_sim.h"
#include "os/sim_content.h"
#include "os/sim_table.h"
#include "os/thread.h"

#define MK_SIM_ROOT     0u
#define MK_SIM_NOWHERE  UINT32_MAX
#define MK_SIM_PATH_MAX 4096
#define MK_SIM_NAME_MAX 255
#define MK_SIM_FILE_MAX (INT64_C(1) << 36)

/* A file or a directory. */
typedef struct mk_sim_node {
    bool used; /* Else the place is free. */
    bool directory;
    bool locked;
    bool marked; /* For mk_sim_disk_collect(), with `next`. */
    uint32_t next;
    uint32_t links;   /* Names that lead here, as processes see it. */
    uint32_t handles; /* Open files. */
    uint64_t number;  /* Never given twice. */
    int64_t mtime_ms, kept_mtime_ms;
    mk_sim_content *content, *kept_content; /* Counted. Of a file. */
    mk_sim_table *names, *kept_names;       /* Counted. Of a directory. */
    int doomed_errno; /* The next sync fails with it; 0: it does not. */
    mk_sim_flavour doomed_flavour;
} mk_sim_node;

/* The bytes of one write. */
typedef struct mk_sim_bytes {
    atomic_size_t references;
    uint8_t data[];
} mk_sim_bytes;

typedef enum mk_sim_atom_kind {
    MK_SIM_ATOM_DATA,   /* `size` bytes at `position`, within one page. */
    MK_SIM_ATOM_GROWTH, /* The size is `value`, as bytes were written there. */
    MK_SIM_ATOM_SIZE,   /* The size is `value`; what was beyond is gone. */
    MK_SIM_ATOM_TIME,   /* The time is `value`. */
    MK_SIM_ATOM_NAMES,  /* One or two names lead elsewhere. */
} mk_sim_atom_kind;

typedef struct mk_sim_setting {
    uint32_t directory;
    uint32_t node;     /* Where the name leads; NOWHERE: it is gone. */
    mk_sim_name *name; /* Counted. */
} mk_sim_setting;

typedef struct mk_sim_atom {
    mk_sim_atom_kind kind;
    bool doomed; /* No loss of power leaves it. */
    bool marked; /* For mk_sim_disk_drop_marked() and its callers. */
    uint8_t setting_count;
    uint32_t node; /* Whose it is; of names the first directory. */
    uint32_t size;
    uint64_t serial;
    int64_t position;
    int64_t value;
    mk_sim_bytes *bytes; /* Counted. Of data, */
    size_t bytes_at;     /* ... which begin there. */
    mk_sim_setting settings[2];
} mk_sim_atom;

typedef struct mk_sim_rule {
    mk_sim_fault fault; /* Its path is owned. */
    int64_t seen, fired;
} mk_sim_rule;

struct mk_sim_disk {
    atomic_size_t references;
    mk_sim_media media;
    mk_sim_options options;
    mk_manual_clock manual; /* The clock, if none was given. */
    int64_t told_ms;        /* What a given clock last said. */

    mk_mutex mutex;
    _Atomic(mk_thread_id) teller; /* The thread inside the trace, or 0. */
    uint64_t session;             /* Counts crashes, from 1. */
    uint64_t chance;
    uint64_t env_count;
    mk_sim_profile label;
    bool labelled;

    mk_sim_node *nodes; /* Owned. */
    size_t node_count, node_capacity;
    uint64_t next_number;
    mk_sim_atom *atoms; /* Owned. */
    size_t atom_count, atom_capacity;
    uint64_t next_serial;

    mk_sim_rule *rules; /* Owned. */
    size_t rule_count, rule_capacity;
    mk_sim_trace trace;
    uint32_t left_out;  /* Bits of mk_sync_name. */
    int64_t crash_step; /* 0: none. */
    mk_sim_profile crash_profile;
    mk_sim_stats stats; /* What is counted as it comes. */
};

/* ---- The mutex ---- */

/* Take it. True: this thread has it, as it is inside the trace. */
bool mk_sim_disk_enter(mk_sim_disk *disk);
void mk_sim_disk_leave(mk_sim_disk *disk, bool nested);

/* ---- Paths ---- */

/* Where a path leads. */
typedef struct mk_sim_place {
    uint32_t directory; /* Of the last name; NOWHERE for "/". */
    uint32_t node;      /* NOWHERE: there is none. */
    const char *name;   /* Borrowed from the path. */
    size_t name_size;
    int os_errno; /* Why there is no directory, or 0. */
} mk_sim_place;

/* Write the path without `.`, `..` and spare slashes. Returns an errno. Without
 * the mutex. */
int mk_sim_path_clean(const char *path, char out[MK_SIM_PATH_MAX]);

/* Look up a clean path. */
mk_sim_place mk_sim_disk_find(const mk_sim_disk *disk, const char *path);

/* Return the errno with which a place has no file (no directory), or 0. */
int mk_sim_place_check_file(const mk_sim_disk *disk, const mk_sim_place *place);
int mk_sim_place_check_directory(const mk_sim_disk *disk,
                                 const mk_sim_place *place);

/* ---- Parts ---- */

/* Make an empty disk like this one, without nodes: what clones and states
 * start as. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_disk_new_like(const mk_sim_disk *disk,
                                            mk_sim_disk **out, mk_error *err);

/* Find a place for a node that is a file or directory, empty, without names.
 * The nodes may move. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_disk_add_node(mk_sim_disk *disk, bool directory,
                                            uint32_t *out, mk_error *err);

/* Free a node's place and what it holds. */
void mk_sim_disk_drop_node(mk_sim_disk *disk, uint32_t node);

/* Drop the nodes that no process and no crash can find any more, and their
 * atoms. */
void mk_sim_disk_collect(mk_sim_disk *disk);

/* Does the atom change that name? */
bool mk_sim_atom_changes(const mk_sim_atom *atom, uint32_t directory,
                         const mk_sim_name *name);

/* Do both change the same name? */
bool mk_sim_atom_shares_name(const mk_sim_atom *a, const mk_sim_atom *b);

/* Is atom number `i` a page that a file grew with? The growth is the atom after
 * it. */
bool mk_sim_atom_is_growing(const mk_sim_disk *disk, size_t i);

/* How many sectors an atom of data touches. */
size_t mk_sim_atom_sectors(const mk_sim_disk *disk, const mk_sim_atom *atom);

/* Make room for `more` atoms. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_disk_prepare_atoms(mk_sim_disk *disk, size_t more,
                                                 mk_error *err);

/* Add an atom of that kind, for which room was made. */
mk_sim_atom *mk_sim_disk_add_atom(mk_sim_disk *disk, mk_sim_atom_kind kind,
                                  uint32_t node);

/* Drop the atoms that are marked. */
void mk_sim_disk_drop_marked(mk_sim_disk *disk);

/* Drop all atoms; the nodes stay as they are. */
void mk_sim_disk_drop_atoms(mk_sim_disk *disk);

/* Remove all faults, trace and armed crash. */
void mk_sim_disk_disarm(mk_sim_disk *disk);

/* The time that files get. */
int64_t mk_sim_disk_now_ms(const mk_sim_disk *disk);

/* The room that all contents take. */
int64_t mk_sim_disk_used_bytes(const mk_sim_disk *disk);

/* Is there room for one more file or directory? */
bool mk_sim_disk_has_place(const mk_sim_disk *disk);

#endif /* MK_OS_SIM_DISK_H */
