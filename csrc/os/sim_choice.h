/*
 * sim_choice -- what may become of one node that has atoms: the list of its
 * *variants*, no two alike, under a profile.
 *
 * Variants are decided about without regard to other nodes, so that the images
 * of a disk are the combinations of its nodes' variants and its forests.
 */
#ifndef MK_OS_SIM_CHOICE_H
#define MK_OS_SIM_CHOICE_H

#include "os/sim_image.h"
#include "os/sim_seen.h"

/* Numbers of atoms count among the node's own; -1: none. */
typedef struct mk_sim_variant {
    mk_sim_hash hash; /* Of the node. */
    uint32_t mask;    /* Which of the free atoms survive. */
    int32_t sizer;    /* Hostile: the last change of the size to survive. */
    int32_t timer;    /* ... and of the time. */
    int32_t torn;     /* The page that is torn, */
    mk_sim_fate fate; /* ... and how. */
} mk_sim_variant;

typedef struct mk_sim_choice {
    uint32_t node;
    size_t *atoms;  /* Owned. Their numbers, of those that a crash may keep. */
    uint8_t *modes; /* Owned. One each: see sim_choice.c. */
    size_t atom_count;

    mk_sim_variant *variants; /* Owned. The untorn ones first. */
    size_t count, untorn_count, capacity;
    bool listed;            /* For these: */
    mk_sim_profile profile; /* ORDERED, WRITEBACK or HOSTILE, */
    size_t metadata_count;  /* ... the first two with so many changes of size
                               and time, */
    bool tears;
    mk_sim_seen seen; /* Used while they are listed. */

    size_t taken;            /* The variant that the next two are of. */
    mk_sim_content *content; /* Counted; NULL for a directory. */
    int64_t mtime_ms;
    mk_sim_hash hash; /* Of the node. */
} mk_sim_choice;

/* Look which atoms the node has. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_choice_init(const mk_sim_disk *disk,
                                          uint32_t node, mk_sim_choice *choice,
                                          mk_error *err);
void mk_sim_choice_deinit(const mk_sim_disk *disk, mk_sim_choice *choice);

/* How many variants can there be at most? More than can be listed, if it is
 * more than 2^31. */
double mk_sim_choice_bound(const mk_sim_disk *disk, mk_sim_choice *choice,
                           mk_sim_profile profile, size_t metadata_count,
                           bool tears);

/* List the variants. `fates` is scratch for the node's atoms. Errors:
 * NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_choice_list(const mk_sim_disk *disk,
                                          mk_sim_choice *choice,
                                          mk_sim_profile profile,
                                          size_t metadata_count, bool tears,
                                          mk_sim_fate *fates, mk_error *err);

/* Make content and time those of a listed variant. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_choice_take(const mk_sim_disk *disk,
                                          mk_sim_choice *choice, size_t variant,
                                          mk_sim_fate *fates, mk_error *err);

/* Make content, time and hash what the fates say. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_choice_fix(const mk_sim_disk *disk,
                                         mk_sim_choice *choice,
                                         const mk_sim_fate *fates,
                                         mk_error *err);

#endif /* MK_OS_SIM_CHOICE_H */
