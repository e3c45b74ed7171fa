/*
 * walk -- going through a log batch by batch from an offset on.
 *
 * A walk is an offset. Besides, it remembers a place: a segment, the position
 * of the next batch in it, and the bytes read ahead from there. The place is a
 * shortcut, given up when the log's generation changes, and found again through
 * the indexes.
 */
#ifndef MK_LOG_WALK_H
#define MK_LOG_WALK_H

#include "log/log.h"

typedef struct mk_walk {
    mk_log *log;           /* Counted. */
    int64_t next_offset;   /* Batches that end below it are passed over. */
    int64_t skip_below_ms; /* So are those without a time at or after it;
                              INT64_MIN: none are. */
    bool seeking;          /* A batch met before need not be checked again. */
    bool met;              /* The batch at hand was one. */

    mk_segment *segment;  /* Counted and pinned; NULL: no place. */
    uint64_t generation;  /* For which the place holds. */
    uint64_t cuts;        /* For which what was read ahead holds. */
    int64_t log_bytes;    /* Of the segment, as last seen, */
    int64_t end_offset;   /* ... and where it ended then. */
    int64_t dense_offset; /* Of the log: behind it no offset is missing. */
    int64_t position;     /* Of the next batch. */
    int64_t fallback;     /* Where to look instead if the position, which is an
                             index's, misleads; -1: it is a batch's for sure. */
    size_t stretch;       /* How much to read there at first. */
    bool guessed;         /* That is what batches that are all alike need, */
    bool unlike;          /* ... which these once were not. */
    mk_span ahead;        /* Bytes from `position` on. */
    mk_scratch scratch;
    mk_batch batch; /* The batch at hand: the one before `position`. */
} mk_walk;

void mk_walk_init_locked(mk_walk *walk, mk_log *log);

/* Takes the mutex. */
void mk_walk_deinit(mk_walk *walk);

/* Go to `offset`, which need not be a batch's. Errors: OFFSET_OUT_OF_RANGE,
 * CLOSED, CRASHED, IO. */
MK_NODISCARD mk_status mk_walk_go_locked(mk_walk *walk, int64_t offset,
                                         mk_error *err);

/*
 * Read the next batch that reaches to the walk's offset or beyond, and check
 * it; `*bytes` are all of it, valid until the next call. The offset moves on
 * only when the caller sets it. MK_END at the log end. Errors: those of reading
 * (see mk_cursor_next()).
 */
MK_NODISCARD mk_status mk_walk_next(mk_walk *walk, const uint8_t **bytes,
                                    mk_error *err);

/* Is the offset in log start..log end? Errors: OFFSET_OUT_OF_RANGE, CLOSED,
 * CRASHED. */
MK_NODISCARD mk_status mk_walk_check_range_locked(const mk_walk *walk,
                                                  int64_t offset,
                                                  mk_error *err);

/* Stand on a segment, at the start of its log; or nowhere. */
MK_NODISCARD mk_status mk_walk_enter_locked(mk_walk *walk, mk_segment *segment,
                                            mk_error *err);
void mk_walk_leave_locked(mk_walk *walk);

/* Tell of damage at the walk's position. */
mk_status mk_walk_fail(mk_walk *walk, mk_status code, const char *what,
                       mk_error *err);

/* Fail with OFFSET_OUT_OF_RANGE. */
mk_status mk_log_fail_range_locked(const mk_log *log, int64_t offset,
                                   mk_error *err);

/* Does the walk's place no longer hold? What was read ahead may still. */
static inline bool mk_walk_is_moved(const mk_walk *walk)
{
    return atomic_load_explicit(&walk->log->generation, memory_order_relaxed) !=
           walk->generation;
}

/* Does what was read ahead no longer hold? */
static inline bool mk_walk_is_void(const mk_walk *walk)
{
    return atomic_load_explicit(&walk->log->cuts, memory_order_relaxed) !=
               walk->cuts ||
           *walk->log->vfs->session != walk->log->session;
}

#endif /* MK_LOG_WALK_H */
