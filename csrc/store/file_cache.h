/*
 * file_cache -- a bounded number of open descriptors for any number of files.
 *
 * A file that nobody uses is closed when another wants its place, the least
 * recently used first. Files in use may exceed the bound. Not synchronised: the
 * log's mutex guards it.
 */
#ifndef MK_STORE_FILE_CACHE_H
#define MK_STORE_FILE_CACHE_H

#include "os/vfs.h"

typedef struct mk_cached_file {
    mk_file *file;                        /* Owned; NULL while closed. */
    size_t pins;                          /* Users right now. */
    struct mk_cached_file *newer, *older; /* Borrowed; open files only. */
} mk_cached_file;

typedef struct mk_file_cache {
    mk_vfs *vfs; /* Borrowed. */
    size_t open_max;
    size_t open_count;
    mk_cached_file *newest, *oldest; /* Borrowed. */
} mk_file_cache;

void mk_file_cache_init(mk_file_cache *cache, mk_vfs *vfs, size_t open_max);

/* Open the file at `path` with these flags unless it is open, and pin it. */
MK_NODISCARD mk_status mk_file_cache_pin(mk_file_cache *cache,
                                         mk_cached_file *cached,
                                         const char *path, unsigned flags,
                                         mk_error *err);

void mk_file_cache_unpin(mk_file_cache *cache, mk_cached_file *cached);

/* Take over an open file, pinned once. */
void mk_file_cache_adopt(mk_file_cache *cache, mk_cached_file *cached,
                         mk_file *file);

/* Close the file, if it is open; it is not pinned. What closing met is of no
 * interest: nothing was written through it, or it was synced. */
void mk_file_cache_drop(mk_file_cache *cache, mk_cached_file *cached);

#endif /* MK_STORE_FILE_CACHE_H */
