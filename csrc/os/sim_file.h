/*
 * sim_file -- the simulated disk as the core's disk: what its open files and
 * its names have in common.
 */
#ifndef MK_OS_SIM_FILE_H
#define MK_OS_SIM_FILE_H

#include "os/sim_fault.h"
#include "os/vfs.h"

/* A disk as one machine has it, until that loses power. */
typedef struct mk_sim_vfs {
    mk_vfs base;
    mk_sim_disk *disk; /* Counted. */
    uint64_t session;  /* Of the disk, while this machine is up. */
} mk_sim_vfs;

typedef struct mk_sim_file {
    mk_file base;
    uint64_t session;
    uint32_t node;
    bool has_lock;
    char *path; /* Owned. By which it was opened. */
    bool has_tail;
    int64_t tail_position;
    uint8_t *buffer; /* Owned. For what is reserved. */
    size_t capacity, reserved;
} mk_sim_file;

/* An operation in progress, under the disk's mutex. */
typedef struct mk_sim_call {
    mk_sim_disk *disk; /* Borrowed. */
    bool nested;
} mk_sim_call;

/*
 * Begin an operation of a machine, or of a file of the machine. It ends with
 * mk_sim_call_leave(), whatever the status is. Errors: CRASHED; BUSY for what
 * `changes` the disk, inside a trace.
 */
MK_NODISCARD mk_status mk_sim_call_enter(mk_sim_call *call, mk_vfs *vfs,
                                         bool changes, mk_error *err);
MK_NODISCARD mk_status mk_sim_call_enter_file(mk_sim_call *call,
                                              const mk_sim_file *file,
                                              bool changes, mk_error *err);
void mk_sim_call_leave(const mk_sim_call *call);

static inline mk_status mk_sim_call_step(const mk_sim_call *call,
                                         mk_sim_step *step, mk_error *err)
{
    return mk_sim_step_begin(call->disk, call->nested, step, err);
}

/* Make a handle that has no node yet. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_file_new(mk_vfs *vfs, const char *path,
                                       mk_sim_file **out, mk_error *err);
void mk_sim_file_free(mk_sim_file *file);

/* Open a node by the handle, under the mutex. */
void mk_sim_file_attach(mk_sim_file *file, uint32_t node);

void mk_sim_node_stat(const mk_sim_node *node, mk_file_stat *out);

/* The methods of the disk's table. */
mk_status mk_sim_file_open(mk_vfs *vfs, const char *path, unsigned flags,
                           mk_file **out, mk_error *err);
mk_status mk_sim_file_close(mk_file *file, mk_error *err);
mk_status mk_sim_file_stat(mk_file *file, mk_file_stat *out, mk_error *err);
mk_status mk_sim_file_view(mk_file *file, mk_scratch *scratch, int64_t position,
                           size_t size, mk_span *out, mk_error *err);
mk_status mk_sim_file_write(mk_file *file, int64_t position, const void *bytes,
                            size_t size, mk_error *err);
mk_status mk_sim_file_truncate(mk_file *file, int64_t size, mk_error *err);
mk_status mk_sim_file_allocate(mk_file *file, int64_t size, mk_error *err);
mk_status mk_sim_file_sync(mk_file *file, bool data_only, mk_sync_name name,
                           mk_error *err);
mk_status mk_sim_file_tail_begin(mk_file *file, int64_t position,
                                 mk_tail_mode mode, mk_error *err);
mk_status mk_sim_file_tail_reserve(mk_file *file, size_t size, uint8_t **out,
                                   mk_error *err);
mk_status mk_sim_file_tail_commit(mk_file *file, size_t size, mk_error *err);
mk_status mk_sim_file_tail_end(mk_file *file, mk_error *err);

/* Return the sync's name as a word. */
const char *mk_sim_sync_word(mk_sync_name name);

#endif /* MK_OS_SIM_FILE_H */
