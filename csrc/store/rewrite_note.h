/*
 * rewrite_note -- `minikafka.rewrite`: the note in a directory in which
 * segments are being replaced by rewritten ones. It tells what the names of the
 * files don't: where the sources end, and what proves an output.
 */
#ifndef MK_STORE_REWRITE_NOTE_H
#define MK_STORE_REWRITE_NOTE_H

#include "os/vfs.h"

/* The log of one segment. */
typedef struct mk_rewrite_part {
    int64_t base_offset;
    int64_t log_bytes;
    int64_t last_batch_position;  /* -1: it has none, or it is not known. */
    uint32_t last_batch_checksum; /* 0 then. */
} mk_rewrite_part;

typedef struct mk_rewrite_note {
    const mk_heap *heap;    /* Borrowed. */
    int64_t first;          /* The sources are the segments with bases in */
    int64_t end;            /* ... [first, end). */
    mk_rewrite_part *parts; /* Owned; the outputs, then the sources, */
    size_t count;           /* ... both ascending. 0: there is no note. */
    size_t capacity;
    size_t output_count;
} mk_rewrite_note;

void mk_rewrite_note_init(mk_rewrite_note *note, const mk_heap *heap);
void mk_rewrite_note_deinit(mk_rewrite_note *note);

/* Add a part, behind all others; outputs come first. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_rewrite_note_add(mk_rewrite_note *note,
                                           const mk_rewrite_part *part,
                                           bool is_output, mk_error *err);

/* Read the note of `directory`. It has parts only if it is there and whole.
 * Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_rewrite_note_load(mk_rewrite_note *note, mk_vfs *vfs,
                                            const char *directory,
                                            mk_error *err);

/* Write it, on stable storage. */
MK_NODISCARD mk_status mk_rewrite_note_store(const mk_rewrite_note *note,
                                             mk_vfs *vfs, const char *directory,
                                             mk_error *err);

/* Remove it, or its beginning; that it is missing is fine. */
MK_NODISCARD mk_status mk_rewrite_note_unlink(mk_vfs *vfs,
                                              const char *directory,
                                              mk_error *err);

#endif /* MK_STORE_REWRITE_NOTE_H */
