/*
 * copy_file -- the first bytes of a file once more, in a file of their own.
 */
#ifndef MK_STORE_COPY_FILE_H
#define MK_STORE_COPY_FILE_H

#include "os/vfs.h"

typedef struct mk_copy_file {
    mk_file *from; /* Borrowed. */
    mk_file *to;   /* Owned; NULL: there is none. */
    int64_t done;
    int64_t size; /* Of what is copied. */
    mk_scratch scratch;
} mk_copy_file;

/* Make the file at `to`, which must be missing, for the first `size` bytes of
 * `from`. `from` may be NULL where that is 0. */
MK_NODISCARD mk_status mk_copy_file_begin(mk_copy_file *copy, mk_vfs *vfs,
                                          mk_file *from, int64_t size,
                                          const char *to, mk_error *err);

/* Copy about `budget` more bytes, until `done` is `size`. MK_END: the source
 * has become shorter than that. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_copy_file_step(mk_copy_file *copy, size_t budget,
                                         mk_error *err);

/* Put what was copied on stable storage, by that name, and close the file. */
MK_NODISCARD mk_status mk_copy_file_finish(mk_copy_file *copy,
                                           mk_sync_name name, mk_error *err);

/* Close the file, if it is open, and give the memory back. */
void mk_copy_file_deinit(mk_copy_file *copy);

/*
 * See that the file at `path` has no other name before it is written to. If it
 * has, or is `held` by a reader who needs it as it is, its first `size` bytes
 * are copied to `temporary`, put on stable storage, and take its name; the
 * others keep the old file as it was. `*replaced` tells; the caller syncs the
 * directory. Errors: CORRUPT_SEGMENT if it is shorter than that; IO, NO_MEMORY:
 * the file is as it was.
 */
MK_NODISCARD mk_status mk_copy_file_unshare(mk_vfs *vfs, const char *path,
                                            const char *temporary, int64_t size,
                                            bool held, bool *replaced,
                                            mk_error *err);

#endif /* MK_STORE_COPY_FILE_H */
