/*
 * replace_file -- small files that are read and written whole.
 */
#ifndef MK_STORE_REPLACE_FILE_H
#define MK_STORE_REPLACE_FILE_H

#include "os/vfs.h"

/*
 * Give the file at `path` a new content: written to `<path>.tmp`, renamed over
 * it; with `durable`, synced before the rename and the directory after it.
 * Whatever fails, the file has the old content or the new one: surely the old
 * one while `*begun` is false. `begun` may be NULL.
 */
MK_NODISCARD mk_status mk_replace_file(mk_vfs *vfs, const char *directory,
                                       const char *path, mk_span content,
                                       bool durable, bool *begun,
                                       mk_error *err);

/* Read a whole file of at most `size_max` bytes into `scratch`.
 * Errors: NOT_FOUND, IO, NO_MEMORY; INVALID_ARGUMENT if it is larger. */
MK_NODISCARD mk_status mk_read_file(mk_vfs *vfs, const char *path,
                                    size_t size_max, mk_scratch *scratch,
                                    mk_span *out, mk_error *err);

#endif /* MK_STORE_REPLACE_FILE_H */
