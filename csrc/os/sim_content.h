/*
 * sim_content -- the bytes of a simulated file.
 *
 * A content is a table of pages. Contents and pages are counted, and copied
 * when they are changed while somebody else holds them, so that a thousand
 * images of a disk cost little more than one. A page that is not there reads as
 * zeros.
 */
#ifndef MK_OS_SIM_CONTENT_H
#define MK_OS_SIM_CONTENT_H

#include <stdatomic.h>

#include "base/heap.h"
#include "os/sim_hash.h"

/* What a disk is made of. */
typedef struct mk_sim_media {
    mk_heap heap;
    size_t page_bytes;
    size_t sector_bytes;
} mk_sim_media;

/* A page holds its first `used` bytes; the rest is zero. */
typedef struct mk_sim_page {
    atomic_size_t references;
    atomic_bool hashed; /* The hash below is that of the bytes. */
    _Atomic(uint64_t) hash_a, hash_b;
    uint32_t capacity, used;
    uint8_t bytes[];
} mk_sim_page;

/* Bytes at or beyond `size` are kept until they are cut off. */
typedef struct mk_sim_content {
    atomic_size_t references;
    int64_t size;
    int64_t reserved;    /* Up to here there is room, written or not. */
    mk_sim_page **pages; /* Owned; each counted, or NULL. */
    size_t page_count, page_capacity;
} mk_sim_content;

/* Make an empty content. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_content_new(const mk_sim_media *media,
                                          mk_sim_content **out, mk_error *err);
mk_sim_content *mk_sim_content_acquire(mk_sim_content *content);

/* Count one holder less. NULL is a no-op. */
void mk_sim_content_release(const mk_sim_media *media, mk_sim_content *content);

/* Make `*content` one that nobody else holds. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_content_unshare(const mk_sim_media *media,
                                              mk_sim_content **content,
                                              mk_error *err);

/* Get an unshared content ready for mk_sim_content_put() there. What it reads
 * as does not change. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_content_prepare(const mk_sim_media *media,
                                              mk_sim_content *content,
                                              int64_t position, size_t size,
                                              mk_error *err);

/* The same for mk_sim_content_blank() and mk_sim_content_cut(). */
MK_NODISCARD mk_status mk_sim_content_prepare_cut(const mk_sim_media *media,
                                                  mk_sim_content *content,
                                                  int64_t size, mk_error *err);

/* Put bytes where it was prepared. The size stays. */
void mk_sim_content_put(const mk_sim_media *media, mk_sim_content *content,
                        int64_t position, const uint8_t *bytes, size_t size);

/* Let all bytes from `position` on be zero. What was prepared stays so. */
void mk_sim_content_blank(const mk_sim_media *media, mk_sim_content *content,
                          int64_t position);

/* Drop the bytes from `size` on, and make that the size. */
void mk_sim_content_cut(const mk_sim_media *media, mk_sim_content *content,
                        int64_t size);

/* Copy bytes; all of them are below the size. */
void mk_sim_content_get(const mk_sim_media *media,
                        const mk_sim_content *content, int64_t position,
                        uint8_t *bytes, size_t size);

/* How much room would the disk have to find for a write there? */
int64_t mk_sim_content_growth(const mk_sim_media *media,
                              const mk_sim_content *content, int64_t position,
                              size_t size);

/* The room that it takes. */
int64_t mk_sim_content_used(const mk_sim_media *media,
                            const mk_sim_content *content);

mk_sim_hash mk_sim_content_hash(const mk_sim_content *content);

#endif /* MK_OS_SIM_CONTENT_H */
