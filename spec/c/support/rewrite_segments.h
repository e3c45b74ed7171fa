/*
 * rewrite_segments -- rewriting closed segments by a rule that looks at
 * batches, and publishing the result with a swap of segments: what a cleaner
 * does, without its map.
 */
#ifndef MK_SUPPORT_REWRITE_SEGMENTS_H
#define MK_SUPPORT_REWRITE_SEGMENTS_H

#include "log/segment_swap.h"
#include "log/walk.h"

typedef struct rewrite_rule {
    bool (*keep)(void *context, const mk_batch *batch); /* NULL: every second */
    void *context;                                      /* ... batch stays. */
    int64_t split_at; /* A second output begins at or behind this; 0: none. */
} rewrite_rule;

static inline bool keeps(const rewrite_rule *rule, const mk_batch *batch)
{
    if (rule->keep != NULL) return rule->keep(rule->context, batch);
    return batch->base_offset % 2 == 0;
}

/* Copy what stays of the sources. */
static inline mk_status copy_kept(mk_segment_swap *swap, mk_walk *walk,
                                  const rewrite_rule *rule, mk_error *err)
{
    bool split = false;
    mk_status status = mk_segment_swap_add_output(swap, swap->first, err);

    while (status == MK_OK && walk->next_offset < swap->end) {
        const uint8_t *bytes = NULL;
        int64_t base_offset;

        status = mk_walk_next(walk, &bytes, err);
        if (status != MK_OK) break;
        base_offset = walk->batch.base_offset;
        if (base_offset >= swap->end) break;
        walk->next_offset = mk_batch_next_offset(&walk->batch);
        if (!keeps(rule, &walk->batch)) continue;
        if (!split && rule->split_at > 0 && base_offset >= rule->split_at &&
            base_offset > swap->first) {
            split = true;
            status = mk_segment_swap_add_output(swap, base_offset, err);
        }
        if (status == MK_OK) {
            status = mk_segment_swap_append(swap, bytes, &walk->batch, err);
        }
    }
    if (status == MK_END) status = MK_OK;
    return status == MK_OK ? mk_segment_swap_finish(swap, err) : status;
}

/*
 * Rewrite `count` closed segments from number `first` on, by the rule, into one
 * segment (or two). The log is not locked, and no callback of it runs. With
 * nothing to rewrite, nothing is done.
 */
static inline mk_status rewrite_segments(mk_log *log, size_t first,
                                         size_t count, const rewrite_rule *rule,
                                         mk_error *err)
{
    mk_segment_swap swap;
    mk_walk walk;
    mk_status status;

    mk_mutex_lock(&log->mutex);
    status = mk_log_begin_maintenance_locked(log, err);
    if (status != MK_OK || count == 0) goto done;
    mk_walk_init_locked(&walk, log);
    status = mk_segment_swap_begin_locked(&swap, log, first, count, err);
    if (status == MK_OK) {
        int64_t from = swap.first < log->log_start_offset
                           ? log->log_start_offset
                           : swap.first;

        status = mk_walk_go_locked(&walk, from, err);
    }
    mk_mutex_unlock(&log->mutex);
    if (status == MK_OK) status = copy_kept(&swap, &walk, rule, err);
    mk_walk_deinit(&walk);
    if (status == MK_OK) {
        mk_mutex_lock(&log->mutex);
        status = mk_segment_swap_publish_locked(&swap, err);
        mk_mutex_unlock(&log->mutex);
    }
    mk_segment_swap_deinit(&swap);
    mk_mutex_lock(&log->mutex);
done:
    if (log->maintaining) mk_log_end_maintenance_locked(log);
    mk_mutex_unlock(&log->mutex);
    return status;
}

/* Rewrite all closed segments into one: every second batch stays. */
static inline mk_status rewrite_closed(mk_log *log, mk_error *err)
{
    const rewrite_rule rule = {.keep = NULL};
    size_t count;

    mk_mutex_lock(&log->mutex);
    count = log->segment_count - 1;
    mk_mutex_unlock(&log->mutex);
    return rewrite_segments(log, 0, count, &rule, err);
}

#endif /* MK_SUPPORT_REWRITE_SEGMENTS_H */
