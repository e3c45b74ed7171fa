/*
 * Cursors against a model: an array of what the log should hold. A seeded
 * sequence of appends, rolls, removals, truncations, compactions and reopenings
 * is read in every manner in between, with cursors that live through all of it.
 */
#define _GNU_SOURCE
#include "support/log_world.h"

#define MODEL_MAX 4096
#define KEYS      40
#define CURSORS   3

typedef struct model_record {
    int64_t offset;
    int64_t batch_last; /* Last offset of its batch, */
    int batch;          /* ... and its number. */
    int key;
    int gone; /* Number of the compaction that removed it; 0: it is there. */
    int64_t time_ms;
} model_record;

typedef struct model {
    log_world *world;
    uint64_t chance;
    model_record records[MODEL_MAX];
    size_t count;
    int64_t start, end;
    int batches, compactions;
    mk_cursor *cursors[CURSORS];
    int64_t at[CURSORS]; /* Where each stands; -1: nobody knows. */
    int since[CURSORS];  /* What later compactions removed it may still give. */
} model;

static uint64_t draw(model *m, uint64_t below)
{
    m->chance ^= m->chance << 13;
    m->chance ^= m->chance >> 7;
    m->chance ^= m->chance << 17;
    return (m->chance >> 11) % below;
}

/* Number of the first record from number `i` on that is there. */
static size_t present(const model *m, size_t i)
{
    while (i < m->count && m->records[i].gone != 0) {
        i++;
    }
    return i;
}

/* Number of the first record at or after an offset. */
static size_t find(const model *m, int64_t offset)
{
    size_t i = 0;

    while (i < m->count && m->records[i].offset < offset) {
        i++;
    }
    return present(m, i);
}

/* ---- Changing both ---- */

static void value_of(const model_record *r, char *out, size_t size)
{
    /* Values of very different sizes, which tell their offset. */
    int width = (int)(r->offset * 7919 % 97 == 0 ? 5000 : r->offset % 50 + 8);

    snprintf(out, size, "%0*lld", width, (long long)r->offset);
}

static void append_batch(model *m)
{
    static const size_t counts[] = {1, 1, 2, 5, 20, 60};
    size_t count = counts[draw(m, 6)];
    mk_record records[60];
    char keys[60][8];
    char values[60][5016];
    mk_offset_range range;

    if (m->count + count > MODEL_MAX) return;
    for (size_t i = 0; i < count; i++) {
        model_record *r = &m->records[m->count + i];

        *r = (model_record){
            .offset = m->end + (int64_t)i,
            .batch_last = m->end + (int64_t)count - 1,
            .batch = m->batches,
            .key = (int)draw(m, KEYS),
            .time_ms = (int64_t)draw(m, 1000),
        };
        snprintf(keys[i], sizeof keys[i], "k%d", r->key);
        value_of(r, values[i], sizeof values[i]);
        records[i] = (mk_record){
            .key = keys[i],
            .key_size = strlen(keys[i]),
            .value = values[i],
            .value_size = strlen(values[i]),
            .timestamp_ms = r->time_ms,
        };
    }
    assert_ok(m->world, mk_log_append(m->world->log, records, count, NULL,
                                      &range, &m->world->err));
    assert_int_equal(range.first, m->end);
    m->count += count;
    m->end += (int64_t)count;
    m->batches++;
}

static void forget_if(model *m, bool (*goes)(const model_record *, int64_t),
                      int64_t bound)
{
    size_t left = 0;

    for (size_t i = 0; i < m->count; i++) {
        if (!goes(&m->records[i], bound)) m->records[left++] = m->records[i];
    }
    m->count = left;
}

static bool is_before(const model_record *r, int64_t start)
{
    return r->offset < start;
}

static bool is_cut(const model_record *r, int64_t end)
{
    return r->batch_last >= end;
}

static bool is_superseded(const model *m, size_t i)
{
    for (size_t j = i + 1; j < m->count; j++) {
        if (m->records[j].key == m->records[i].key) return true;
    }
    return false;
}

static void delete_records(model *m)
{
    int64_t span = m->end - m->start;
    int64_t to = m->start + (int64_t)draw(m, (uint64_t)span + 1) / 2;

    assert_ok(m->world,
              mk_log_delete_records(m->world->log, to, &m->world->err));
    m->start = to;
    forget_if(m, is_before, to);
}

static void truncate_end(model *m)
{
    int64_t back = (int64_t)draw(m, 80);
    int64_t to = m->end > back ? m->end - back : 0;

    assert_ok(m->world, mk_log_truncate_to(m->world->log, to, &m->world->err));
    if (to >= m->end) return;
    forget_if(m, is_cut, to);
    m->end = to;
    if (to <= m->start) {
        m->start = to;
        m->count = 0;
    }
    for (int i = 0; i < CURSORS; i++) {
        if (m->at[i] > to) m->at[i] = -1;
        m->since[i] = m->compactions; /* What was read ahead is void. */
    }
}

static void compact_log(model *m)
{
    mk_segment_info infos[RECORDS_MAX];
    mk_cleanup_result result;
    size_t count;

    assert_ok(m->world, mk_log_segments(m->world->log, infos, RECORDS_MAX,
                                        &count, &m->world->err));
    assert_in_range(count, 1, RECORDS_MAX);
    assert_ok(m->world,
              mk_log_compact(m->world->log, NULL, &result, &m->world->err));
    mk_cleanup_result_deinit(&result);
    m->compactions++;
    for (size_t i = 0; i < m->count && count > 1; i++) {
        model_record *r = &m->records[i];

        if (r->offset >= infos[count - 1].base_offset) break;
        if (r->gone == 0 && is_superseded(m, i)) r->gone = m->compactions;
    }
}

static void close_cursors(model *m)
{
    for (int i = 0; i < CURSORS; i++) {
        mk_cursor_close(m->cursors[i]);
        m->cursors[i] = NULL;
    }
}

static void open_cursors(model *m)
{
    for (int i = 0; i < CURSORS; i++) {
        assert_ok(m->world, mk_cursor_open(m->world->log, NULL, &m->cursors[i],
                                           &m->world->err));
        m->at[i] = m->start;
        m->since[i] = m->compactions;
    }
}

static void live_again(model *m)
{
    close_cursors(m);
    if (draw(m, 2) == 0) {
        reopen(m->world);
    } else {
        reopen_after_death(m->world);
    }
    open_cursors(m);
}

static void change(model *m)
{
    uint64_t what = draw(m, 100);

    if (what < 80) {
        append_batch(m);
    } else if (what < 87) {
        roll(m->world);
    } else if (what < 90) {
        delete_records(m);
    } else if (what < 95) {
        truncate_end(m);
    } else if (what < 98) {
        compact_log(m);
    } else {
        live_again(m);
    }
    assert_bounds(m->world, m->start, m->end);
}

/* ---- Reading both ---- */

static void check_record(const model *m, size_t i, const mk_record_view *view)
{
    const model_record *r = &m->records[i];
    char key[8];
    char value[5016];

    assert_true(i < m->count);
    assert_int_equal(view->offset, r->offset);
    assert_int_equal(view->timestamp_ms, r->time_ms);
    snprintf(key, sizeof key, "k%d", r->key);
    value_of(r, value, sizeof value);
    assert_int_equal(view->key_size, strlen(key));
    assert_memory_equal(view->key, key, view->key_size);
    assert_int_equal(view->value_size, strlen(value));
    assert_memory_equal(view->value, value, view->value_size);
}

/* Check the record, which number `*i` or, if that is gone, one after it must
 * be; step over it. Returns whether it is there. */
static bool check_next(const model *m, int c, size_t *i,
                       const mk_record_view *view)
{
    const model_record *r = &m->records[*i];

    while (*i < m->count && r->gone != 0 && r->offset != view->offset) {
        r = &m->records[++*i];
    }
    check_record(m, *i, view);
    assert_true(r->gone == 0 || r->gone > m->since[c]);
    ++*i;
    return r->gone == 0;
}

/* Read some records one by one, or many at once, maybe up to a limit. */
static void read_some(model *m, int c)
{
    mk_cursor *cursor = m->cursors[c];
    bool single = draw(m, 2) == 0;
    int64_t limit = draw(m, 3) == 0 ? (int64_t)draw(m, 30) : MK_NO_LIMIT;
    int64_t to = draw(m, 4) == 0 ? m->at[c] + (int64_t)draw(m, 40) : MK_TO_END;
    size_t wanted = draw(m, 8) == 0 ? 3000 : draw(m, 40);
    size_t got = 0, i = 0;
    mk_status status = MK_OK;

    while (i < m->count && m->records[i].offset < m->at[c]) {
        i++;
    }

    mk_cursor_limit(cursor, to, limit, MK_NO_LIMIT);
    while (got < wanted && status == MK_OK) {
        mk_record_view views[32];
        size_t count = 1;

        status = single ? mk_cursor_next(cursor, views, &m->world->err)
                        : mk_cursor_read(cursor, views, 1 + draw(m, 32), &count,
                                         &m->world->err);
        if (status != MK_OK) break;
        for (size_t j = 0; j < count; j++) {
            check_next(m, c, &i, &views[j]);
            got++;
        }
    }
    i = present(m, i);
    if (status == MK_END) {
        bool limited = limit != MK_NO_LIMIT && got >= (size_t)limit;
        bool ended = i == m->count;
        bool reached = to != MK_TO_END && (ended || m->records[i].offset >= to);

        assert_true(limited || ended || reached);
    } else {
        assert_int_equal(status, MK_OK);
    }
    assert_true(limit == MK_NO_LIMIT || got <= (size_t)limit);
    m->at[c] = mk_cursor_next_offset(cursor);
    assert_int_equal(find(m, m->at[c]), i);
}

/* A cursor goes somewhere; most often it reads a single record there. */
static void go_and_read(model *m, int c)
{
    mk_cursor *cursor = m->cursors[c];
    int64_t to = m->start + (int64_t)draw(m, (uint64_t)(m->end - m->start) + 1);
    mk_record_view view;
    size_t i = find(m, to);
    mk_status status;

    mk_cursor_limit(cursor, MK_TO_END, draw(m, 2) == 0 ? 1 : MK_NO_LIMIT,
                    MK_NO_LIMIT);
    assert_ok(m->world, mk_cursor_seek(cursor, to, &m->world->err));
    m->since[c] = m->compactions;
    status = mk_cursor_next(cursor, &view, &m->world->err);
    assert_int_equal(status, i < m->count ? MK_OK : MK_END);
    if (status == MK_OK) check_record(m, i, &view);
    m->at[c] = mk_cursor_next_offset(cursor);
    if (status == MK_OK) i = present(m, i + 1);
    assert_int_equal(find(m, m->at[c]), i);
}

/* The first record at or after a time is that of a full search, and so is the
 * first with the greatest. */
static void look_up(model *m)
{
    int64_t time_ms = (int64_t)draw(m, 1002) - 1;
    const model_record none = {.offset = -1, .time_ms = -1};
    const model_record *first = &none, *max = &none;
    int64_t offset, found_ms;
    mk_status status;

    for (size_t i = present(m, 0); i < m->count; i = present(m, i + 1)) {
        const model_record *r = &m->records[i];

        if (first == &none && r->time_ms >= time_ms) first = r;
        if (r->time_ms > max->time_ms) max = r;
    }
    status = mk_log_offset_for_timestamp(m->world->log, time_ms, &offset,
                                         &found_ms, &m->world->err);
    assert_int_equal(status, first != &none ? MK_OK : MK_END);
    assert_int_equal(offset, first->offset);
    assert_int_equal(found_ms, first->time_ms);
    status = mk_log_offset_of_max_timestamp(m->world->log, &offset, &found_ms,
                                            &m->world->err);
    assert_int_equal(status, max != &none ? MK_OK : MK_END);
    assert_int_equal(offset, max->offset);
    assert_int_equal(found_ms, max->time_ms);
}

/* The cursor's place was removed: it gives what it had read ahead, then says
 * so, and does not move. */
static void read_what_is_gone(model *m, int c)
{
    mk_cursor *cursor = m->cursors[c];
    mk_status status = MK_OK;

    mk_cursor_limit(cursor, MK_TO_END, MK_NO_LIMIT, MK_NO_LIMIT);
    while (status == MK_OK && m->at[c] < m->start) {
        mk_record_view view;

        status = mk_cursor_next(cursor, &view, &m->world->err);
        if (status == MK_OK) {
            model_record r = {.offset = view.offset};
            char value[5016];

            value_of(&r, value, sizeof value);
            assert_true(view.offset >= m->at[c]);
            assert_int_equal(view.value_size, strlen(value));
            assert_memory_equal(view.value, value, view.value_size);
            m->at[c] = mk_cursor_next_offset(cursor);
        }
    }
    if (status == MK_OK) return;
    assert_int_equal(status, MK_OFFSET_OUT_OF_RANGE);
    assert_int_equal(m->world->err.requested, m->at[c]);
    assert_int_equal(mk_cursor_next_offset(cursor), m->at[c]);
    m->at[c] = -1;
}

static void read_in_some_way(model *m)
{
    int c = (int)draw(m, CURSORS);

    if (m->at[c] >= 0 && m->at[c] < m->start) {
        read_what_is_gone(m, c);
    } else if (m->at[c] < 0 || draw(m, 3) == 0) {
        go_and_read(m, c);
    } else if (draw(m, 8) == 0) {
        look_up(m);
    } else {
        read_some(m, c);
    }
}

static void run(log_world *world, uint64_t seed, int rounds)
{
    model *m = calloc(1, sizeof *m);

    assert_non_null(m);
    print_message("seed %llu\n", (unsigned long long)seed);
    remove_all(world->where);
    m->world = world;
    m->chance = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world->options.config.segment_bytes = 20000;
    world->options.config.index_interval_bytes = (int64_t)draw(m, 3) * 300;
    world->options.mapped = (mk_mapping)draw(m, 3);
    world->options.max_open_files = 1 + draw(m, 4);
    open_log(world);
    open_cursors(m);
    for (int i = 0; i < rounds; i++) {
        change(m);
        for (uint64_t reads = draw(m, 6); reads > 0; reads--) {
            read_in_some_way(m);
        }
    }
    close_cursors(m);
    close_log(world);
    free(m);
}

static void test_cursors_agree_with_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        run(*state, seed, 250);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_cursors_agree_with_the_model),
    };

    return cmocka_run_group_tests_name("cursor_model", tests, NULL, NULL);
}
