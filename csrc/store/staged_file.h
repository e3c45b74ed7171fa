/*
 * staged_file -- moving a segment's files from one stage of a swap to another.
 */
#ifndef MK_STORE_STAGED_FILE_H
#define MK_STORE_STAGED_FILE_H

#include "os/vfs.h"
#include "store/names.h"

/* Give the file the name of another stage. Errors: NOT_FOUND, IO. */
MK_NODISCARD mk_status mk_staged_file_rename(mk_vfs *vfs, const char *directory,
                                             mk_file_name name,
                                             mk_file_stage to, mk_error *err);

/* Unlink it. Errors: NOT_FOUND, IO. */
MK_NODISCARD mk_status mk_staged_file_unlink(mk_vfs *vfs, const char *directory,
                                             mk_file_name name, mk_error *err);

#endif /* MK_STORE_STAGED_FILE_H */
