/*
 * sim_image -- what a disk is after a crash, when it is decided which of its
 * atoms survive.
 *
 * An image is made of parts that are decided about one by one: the names (a
 * *forest*), and of each node its content and time. All want the mutex of the
 * disk that they are made from, or a disk that nobody else knows.
 */
#ifndef MK_OS_SIM_IMAGE_H
#define MK_OS_SIM_IMAGE_H

#include "os/sim_disk.h"

/* What becomes of an atom. All but the first two are of data only. */
typedef enum mk_sim_shape {
    MK_SIM_SHAPE_LOST,
    MK_SIM_SHAPE_WHOLE,
    MK_SIM_SHAPE_HEAD,  /* The sectors before `sector` survive. */
    MK_SIM_SHAPE_TAIL,  /* Those from `sector` on. */
    MK_SIM_SHAPE_GAP,   /* All but `sector`. */
    MK_SIM_SHAPE_NOISE, /* All, but in `sector` stands garbage. */
    MK_SIM_SHAPE_STALE, /* Nothing, and where the file grew stands garbage. */
} mk_sim_shape;

typedef struct mk_sim_fate {
    uint16_t shape;  /* mk_sim_shape. */
    uint16_t sector; /* Of those that the atom touches, from 0. */
} mk_sim_fate;

/*
 * Apply a node's atoms to `*content`, each as its fate says. `fates` has one
 * for each atom of the disk; NULL: all are whole. The content is unshared if
 * anything survives, and has no bytes beyond its size afterwards. Errors:
 * NO_MEMORY, and the content reads as before.
 */
MK_NODISCARD mk_status mk_sim_image_apply(const mk_sim_disk *disk,
                                          uint32_t node,
                                          const mk_sim_fate *fates,
                                          mk_sim_content **content,
                                          mk_error *err);

/* Return the time that a node has by its fates. */
int64_t mk_sim_image_time(const mk_sim_disk *disk, uint32_t node,
                          const mk_sim_fate *fates);

/* Names, and where they lead. */
typedef struct mk_sim_forest {
    size_t node_count;
    mk_sim_table **tables; /* Counted. Of directories; else NULL. */
    uint32_t *links;       /* Names by which each node is reached from "/". */
    mk_sim_hash *places;   /* The sum of the hashes of its paths. */
    mk_sim_hash hash;      /* Of all paths and where they lead. */
} mk_sim_forest;

/* Make the forest of what is kept with the atoms that survive, or, `fates`
 * NULL, of what processes see. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_forest_new(const mk_sim_disk *disk,
                                         const mk_sim_fate *fates,
                                         mk_sim_forest **out, mk_error *err);

/* NULL is a no-op. */
void mk_sim_forest_free(const mk_sim_disk *disk, mk_sim_forest *forest);

/* The hash of what a node is, wherever it stands. `content` is NULL for a
 * directory. */
mk_sim_hash mk_sim_image_node_hash(const mk_sim_content *content,
                                   int64_t mtime_ms);

/* Its part in the hash of an image, which is the sum over all that is reached.
 */
static inline mk_sim_hash mk_sim_image_part_hash(const mk_sim_forest *forest,
                                                 uint32_t node,
                                                 mk_sim_hash node_hash)
{
    return mk_sim_hash_pair(forest->places[node], node_hash);
}

typedef struct mk_sim_image {
    const mk_sim_forest *forest;     /* Borrowed. */
    mk_sim_content *const *contents; /* Borrowed. Of each node; of those that
                                        are not reached it does not matter. */
    const int64_t *mtimes_ms;        /* Borrowed. */
} mk_sim_image;

/* Make the nodes of an image, all stable. The caller owns the array, as long as
 * the disk's. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_image_nodes(const mk_sim_disk *disk,
                                          const mk_sim_image *image,
                                          mk_sim_node **out, mk_error *err);

/* Make the image a disk of its own. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_image_disk(const mk_sim_disk *disk,
                                         const mk_sim_image *image,
                                         mk_sim_profile label,
                                         mk_sim_disk **out, mk_error *err);

#endif /* MK_OS_SIM_IMAGE_H */
