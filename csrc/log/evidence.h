/*
 * evidence -- what the state file claims, and what of it is believed.
 *
 * The recovery point is believed when the batch that it names is there and
 * sound. A segment's facts are believed when all of it lies below a believed
 * recovery point; if its file is shorter than they say, that is damage, which
 * whoever reads there meets.
 *
 * So nothing that was on stable storage is missing in silence: a segment that
 * the state knows must be there, and where batches follow each other without
 * gaps there is none between segments. But a Kafka broker that had the
 * directory may have cleaned and cut it, and knows nothing of our state; and
 * the last batch of all looks torn when it is damaged, synced or not. Then the
 * log opens without what is missing, and tells of it (`lost_from_offset`).
 *
 * Leftovers of a swap excuse a missing segment only if the swap was made, as is
 * proved, and the segment begins in its range. Anything else that is lying
 * about may be the only copy.
 */
#ifndef MK_LOG_EVIDENCE_H
#define MK_LOG_EVIDENCE_H

#include "log/leftovers.h"
#include "log/log.h"

typedef struct mk_evidence {
    mk_log *log; /* Borrowed. */
    mk_state state;
    bool changed;       /* ... which does not say what its file says. */
    int64_t believed;   /* Below it facts are believed; -1: none are. */
    bool insists;       /* The segment with the point is damaged, and stays. */
    int broker;         /* One has had the directory: 1, 0; -1: not looked. */
    int64_t gaps_below; /* Whatever the state says, offsets may be missing. */
    bool ends_early;    /* What stands behind damage is left aside. */
} mk_evidence;

/* Has a broker had the directory? It leaves two files in it. Errors: IO. */
MK_NODISCARD mk_status mk_evidence_look_for_broker(mk_evidence *evidence,
                                                   bool *out, mk_error *err);

/* Read the state file of the log's directory. The caller releases it with
 * mk_evidence_deinit(), whatever the status. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_evidence_load(mk_evidence *evidence, mk_log *log,
                                        mk_error *err);
void mk_evidence_deinit(mk_evidence *evidence);

/* What lies below `*out` was on stable storage, as a Kafka noted. Once we have
 * had the log, and it has a state of ours, that is out of date; then, and where
 * there is no such note, it is -1. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_evidence_find_kafka_point(const mk_evidence *evidence,
                                                    int64_t *out,
                                                    mk_error *err);

/* Is a segment missing that the state knows, and that no swap replaced? `*copy`
 * is a leftover that may have its records, or has no stage other than FINAL.
 * What a broker may have cleaned is not missing, and what stood behind the last
 * segment only if there is such a leftover. Errors: IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_evidence_is_missing(mk_evidence *evidence,
                                              const mk_segment_facts *facts,
                                              const mk_leftovers *plan,
                                              bool *out, mk_file_name *copy,
                                              mk_error *err);

/* Before anything is changed: is there one? A reader's plan ends before it.
 * Errors: CORRUPT_SEGMENT, IO, NO_MEMORY. */
MK_NODISCARD mk_status mk_evidence_check_known(mk_evidence *evidence,
                                               mk_leftovers *plan,
                                               mk_error *err);

/* Nothing counts that is known of segments that may have been rewritten. Where
 * a swap was proved to be made, or only indexes wait for their names, or a
 * broker had the directory, there may be gaps, too. Errors: IO. */
MK_NODISCARD mk_status mk_evidence_forget(mk_evidence *evidence,
                                          const mk_leftovers *plan,
                                          mk_error *err);

/* Once the log's segments are found: is the recovery point to be believed? */
MK_NODISCARD mk_status mk_evidence_weigh(mk_evidence *evidence,
                                         mk_scratch *scratch, mk_error *err);

/* Start the segment, whose file has `size` bytes, from its facts, if they are
 * believed; of the `last` one its last batch must be known, too. `*all`: there
 * is nothing left to read. */
MK_NODISCARD mk_status mk_evidence_apply(mk_evidence *evidence,
                                         mk_segment *segment, int64_t size,
                                         bool last, bool *all, mk_error *err);

/* The indexes of what the facts tell of a segment had to be made anew, perhaps
 * by another interval: the facts tell of these from now on, so that the next
 * opening goes on from the same entries. */
void mk_evidence_amend(mk_evidence *evidence, const mk_segment *segment);

/* The last segment is sound up to a place before the recovery point. If that is
 * more than one torn batch, it is damage: the segment is started from its facts
 * all the same. `*sound`: they cover the file. */
MK_NODISCARD mk_status mk_evidence_insist(mk_evidence *evidence,
                                          mk_segment *segment, int64_t size,
                                          bool *sound, mk_error *err);

/* Tell, in the log's stats, that records which were the log's are missing. */
void mk_evidence_note_loss(mk_evidence *evidence, int64_t from, int64_t to);

/* Are there segments missing before number `i`, or before the end (`i` is the
 * count)? Errors: CORRUPT_SEGMENT. What may be right nevertheless is noted in
 * the log's stats. */
MK_NODISCARD mk_status mk_evidence_check_gap(mk_evidence *evidence, size_t i,
                                             mk_error *err);

#endif /* MK_LOG_EVIDENCE_H */
