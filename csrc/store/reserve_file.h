/*
 * reserve_file -- `minikafka.reserve`: room that is kept for the day on which
 * the disk is full.
 *
 * On a full disk not even a removal can be announced, since the new state needs
 * room beside the old one. So a file of zeros is kept that can be given up for
 * it. Nothing is ever read from it; Kafka ignores its name.
 */
#ifndef MK_STORE_RESERVE_FILE_H
#define MK_STORE_RESERVE_FILE_H

#include "os/vfs.h"

/* See to it that `directory` has a reserve of at least `size` bytes. If there
 * is no room for it none is left there. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_reserve_keep(mk_vfs *vfs, const char *directory,
                                       int64_t size, mk_error *err);

/* Give the reserve up. Errors: NOT_FOUND, IO. */
MK_NODISCARD mk_status mk_reserve_give_up(mk_vfs *vfs, const char *directory,
                                          mk_error *err);

#endif /* MK_STORE_RESERVE_FILE_H */
