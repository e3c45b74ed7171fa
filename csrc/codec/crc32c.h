/*
 * crc32c -- the checksum of a batch: CRC-32C, Castagnoli's polynomial,
 * reflected, with the usual initial and final complement.
 */
#ifndef MK_CODEC_CRC32C_H
#define MK_CODEC_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return the checksum of `size` bytes. `crc` is 0, or the checksum of what
 * stands before them. Uses the processor's instructions where it has them. */
uint32_t mk_crc32c(uint32_t crc, const void *bytes, size_t size);

/* The ways to compute it, each faster than the one before. */
typedef enum mk_crc32c_way {
    MK_CRC32C_TABLES,      /* Portable C. */
    MK_CRC32C_INSTRUCTION, /* The crc32 instruction of SSE4.2 or ARMv8. */
    MK_CRC32C_FOLDING,     /* AVX-512 for long runs, the instruction else. */
    MK_CRC32C_WAY_COUNT
} mk_crc32c_way;

/* Can this processor go that way? */
bool mk_crc32c_can(mk_crc32c_way way);

/* As mk_crc32c(), but that way, which mk_crc32c_can(). For tests. */
uint32_t mk_crc32c_by(mk_crc32c_way way, uint32_t crc, const void *bytes,
                      size_t size);

#endif /* MK_CODEC_CRC32C_H */
