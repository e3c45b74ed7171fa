/*
 * crash_states -- a row of disks that could be found after a crash, from the
 * inside.
 */
#ifndef MK_OS_CRASH_STATES_H
#define MK_OS_CRASH_STATES_H

#include "os/sim_choice.h"

#define MK_SIM_NONE ((size_t)-1)

/* A change of names, and the last ones before it of its one or two names. */
typedef struct mk_sim_renaming {
    size_t atom;
    size_t needs[2]; /* Numbers of renamings, or NONE. */
} mk_sim_renaming;

/* A node that has atoms, and which of its variants is up. */
typedef struct mk_sim_wheel {
    mk_sim_choice choice;
    bool reached; /* In this frame. */
    bool fixed;   /* Its content is decided, there are no variants. */
    size_t at;
} mk_sim_wheel;

struct mk_sim_states {
    mk_sim_disk *disk; /* Owned. As it was, known to nobody else. */
    mk_sim_states_options options;
    double most; /* Combinations of a profile that is enumerated. */
    mk_sim_states_info info;
    bool inexact; /* Something was drawn. */
    bool ended;

    mk_sim_wheel *wheels; /* Owned. */
    size_t wheel_count;
    size_t *wheel_of;           /* Owned. Of each node; NONE. */
    mk_sim_renaming *renamings; /* Owned. */
    size_t renaming_count;

    mk_sim_fate *fates;        /* Owned. Of each atom. */
    mk_sim_content **contents; /* Owned. Of each node; each borrowed. */
    int64_t *mtimes_ms;        /* Owned. */
    mk_sim_hash *kept_hashes;  /* Owned. Of each node, as it is kept. */
    mk_sim_seen seen;          /* Images. */
    mk_sim_seen forests;       /* Of the profile, where they decide. */

    mk_sim_profile profile;
    bool began; /* ... the profile; then: */
    bool drawn; /* Its frames are draws. */
    size_t frame, frame_count;
    bool framed; /* The frame's wheels are set up; then: */
    bool turned; /* The combination that is up was given or passed over. */
    mk_sim_forest *forest; /* Owned. */
    mk_sim_hash base; /* The part of the image's hash that no wheel changes. */
};

/* Bring the next combination up. Errors: NO_MEMORY, and the next call tries
 * again; END. */
MK_NODISCARD mk_status mk_sim_states_advance(mk_sim_states *states,
                                             mk_error *err);

/* Return the hash of the image that is up. */
mk_sim_hash mk_sim_states_hash(const mk_sim_states *states);

/* Make the disk that is up. Errors: NO_MEMORY. */
MK_NODISCARD mk_status mk_sim_states_make(mk_sim_states *states,
                                          mk_sim_disk **out, mk_error *err);

#endif /* MK_OS_CRASH_STATES_H */
