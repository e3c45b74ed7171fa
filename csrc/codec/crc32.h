/*
 * crc32 -- the checksum of a message of format 0 or 1: CRC-32 as in Ethernet
 * and zlib. Needed to tell an old message from a torn batch, so it is small
 * rather than fast.
 */
#ifndef MK_CODEC_CRC32_H
#define MK_CODEC_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t mk_crc32(const uint8_t *bytes, size_t size);

#endif /* MK_CODEC_CRC32_H */
