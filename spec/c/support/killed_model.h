/*
 * killed_model -- what a log has to hold whose writer is killed: the steps that
 * it told of, the offsets and records that follow from them, and a board in
 * shared memory that outlives it.
 *
 * A record is made of the number it was given when it was appended: key, value
 * and all. So a reader can tell which one it was given, and whether that one
 * belongs there.
 */
#ifndef MK_SUPPORT_KILLED_MODEL_H
#define MK_SUPPORT_KILLED_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/env.h"

#define STEPS_MAX   4000
#define OFFSETS_MAX (1 << 20)
#define KEYS        6
#define BATCH_MAX   5

typedef enum step_kind {
    APPEND, /* `a`: the first offset, `b`: how many. */
    FLUSH,
    ROLL,
    DELETE,   /* `a`: the new start. */
    DROP,     /* The same. */
    TRUNCATE, /* `a`: the new end. */
    COMPACT,  /* `a`: where the active segment begins. */
    COPY,
    REOPEN,
    STEP_KINDS
} step_kind;

typedef struct step {
    step_kind kind;
    int64_t a, b;
    uint32_t sequence; /* Of the first record. */
} step;

/* One that is there, or was. */
typedef struct entry {
    uint32_t sequence; /* 0: there is none. */
    int32_t batch;     /* How far behind the batch's first it is, */
    int32_t behind;    /* ... and before the last. */
} entry;

typedef struct model {
    int64_t start, end;
    entry *entries; /* Owned. By offset. */
} model;

/* What outlives the writer. */
typedef struct board {
    atomic_int begun, done; /* How many of the steps. */
    step steps[STEPS_MAX];
    atomic_llong start, end;   /* Acknowledged. */
    atomic_llong end_intended; /* No append has begun that goes beyond. */
    atomic_llong cuts_begun, cuts_done;
    atomic_bool over;
    atomic_long passes; /* Of the reader. */
    _Atomic uint32_t sequences[OFFSETS_MAX];
} board;

static inline uint64_t draw(uint64_t *chance, uint64_t below)
{
    *chance = *chance * 6364136223846793005u + 1442695040888963407u;
    return (*chance >> 33) % below;
}

/* ---- Records: all that one is follows from its number ---- */

static inline size_t write_value(char *text, size_t size, int64_t offset,
                                 uint32_t sequence)
{
    return (size_t)snprintf(text, size, "%lld:%u:%0*d", (long long)offset,
                            sequence, (int)(sequence % 60) + 1, 0);
}

static inline bool is_tombstone(uint32_t sequence)
{
    return sequence % 11 == 3;
}

/* -1: it has no key. */
static inline int key_of(uint32_t sequence)
{
    return sequence % 5 == 0 ? -1 : (int)(sequence * 2654435761u >> 16) % KEYS;
}

static inline bool is_right(const mk_record_view *view, uint32_t sequence)
{
    char value[128], key[16];
    size_t size = write_value(value, sizeof value, view->offset, sequence);

    snprintf(key, sizeof key, "k%d", key_of(sequence));
    if ((view->key == NULL) != (key_of(sequence) < 0)) return false;
    if (view->key != NULL &&
        (view->key_size != 2 || memcmp(view->key, key, 2) != 0)) {
        return false;
    }
    if (is_tombstone(sequence)) return view->value == NULL;
    return view->value != NULL && view->value_size == size &&
           memcmp(view->value, value, size) == 0;
}

/* ---- The model ---- */

static inline void model_put(model *m, const step *s)
{
    for (int64_t i = 0; i < s->b; i++) {
        m->entries[s->a + i] = (entry){s->sequence + (uint32_t)i, (int32_t)i,
                                       (int32_t)(s->b - 1 - i)};
    }
    m->end = s->a + s->b;
}

static inline void model_cut(model *m, int64_t end)
{
    for (int64_t offset = m->start; offset < m->end; offset++) {
        entry *at = &m->entries[offset];

        if (offset + at->behind >= end) *at = (entry){0};
    }
    m->end = end;
}

static inline void model_compact(model *m, int64_t active)
{
    int64_t latest[KEYS];

    for (int i = 0; i < KEYS; i++) {
        latest[i] = -1;
    }
    for (int64_t offset = m->end - 1; offset >= m->start; offset--) {
        entry *at = &m->entries[offset];
        int key;

        if (at->sequence == 0 || (key = key_of(at->sequence)) < 0) continue;
        if (latest[key] < 0) {
            latest[key] = offset;
        } else if (offset < active) {
            at->sequence = 0;
        }
    }
}

static inline void model_do(model *m, const step *s)
{
    if (s->kind == APPEND) model_put(m, s);
    if (s->kind == TRUNCATE) model_cut(m, s->a);
    if (s->kind == COMPACT) model_compact(m, s->a);
    if (s->kind == DELETE || s->kind == DROP) m->start = s->a;
}

static inline model model_copy(const model *m)
{
    model copy = *m;

    copy.entries = malloc(OFFSETS_MAX * sizeof *copy.entries);
    if (copy.entries == NULL) abort();
    memcpy(copy.entries, m->entries, (size_t)m->end * sizeof *copy.entries);
    return copy;
}

#endif /* MK_SUPPORT_KILLED_MODEL_H */
