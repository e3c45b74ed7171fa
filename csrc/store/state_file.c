/*
 * File format: lines of text, numbers in decimal, checksums in hexadecimal.
 *
 *     minikafka state 1
 *     start <log start offset>
 *     dense <offset from which on batches follow without gaps>
 *     end <offset> <segment> <size of its log>
 *     flushed <offset> <segment> <batch position> <end position> <checksum>
 *     cutting                       (only while the end is cut off: it is
 *                                    told as it will be then)
 *     segment <base> <next> <size> <max time> <its offset> \
 *             <first time> <offset entries> <time entries> <checksum>
 *     ... one line a segment, ascending
 *     sum <CRC-32C of all bytes before this line>
 *
 * A file that is not exactly that is as good as none.
 */
#include "store/state_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "codec/crc32c.h"
#include "store/names.h"
#include "store/replace_file.h"
#include "store/text_words.h"

#include "base/poison.h"

#define HEAD          "minikafka state 1\n"
#define CUTTING       "cutting\n"
#define LINE_SIZE_MAX 256u
#define FILE_SIZE_MAX (64u << 20)
#define FACT_COUNT    8

void mk_state_init(mk_state *state, const mk_heap *heap)
{
    *state = (mk_state){
        .heap = heap,
        .log_start_offset = -1,
        .dense_offset = INT64_MAX,
        .end_offset = -1,
        .end_segment = -1,
        .end_position = -1,
    };
    state->recovery_point.segment = -1;
}

void mk_state_deinit(mk_state *state)
{
    mk_release(state->heap, state->facts);
    mk_state_init(state, state->heap);
}

mk_status mk_state_add(mk_state *state, const mk_segment_facts *facts,
                       mk_error *err)
{
    void *array = state->facts;
    mk_status status =
        mk_grow(state->heap, &array, &state->facts_capacity,
                state->facts_count + 1, sizeof *state->facts, err);

    state->facts = array;
    if (status != MK_OK) return status;
    state->facts[state->facts_count++] = *facts;
    return MK_OK;
}

const mk_segment_facts *mk_state_find(const mk_state *state,
                                      int64_t base_offset)
{
    size_t low = 0;
    size_t high = state->facts_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (state->facts[middle].base_offset < base_offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == state->facts_count) return NULL;
    if (state->facts[low].base_offset != base_offset) return NULL;
    return &state->facts[low];
}

static bool point_equals(const mk_recovery_point *a, const mk_recovery_point *b)
{
    return a->offset == b->offset && a->segment == b->segment &&
           a->batch_position == b->batch_position &&
           a->end_position == b->end_position && a->checksum == b->checksum;
}

void mk_state_forget(mk_state *state, int64_t first, int64_t end)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->facts_count; i++) {
        int64_t base_offset = state->facts[i].base_offset;

        if (base_offset >= first && base_offset < end) continue;
        state->facts[kept++] = state->facts[i];
    }
    state->facts_count = kept;
}

bool mk_segment_facts_same_log(const mk_segment_facts *a,
                               const mk_segment_facts *b)
{
    return a->base_offset == b->base_offset &&
           a->next_offset == b->next_offset && a->log_bytes == b->log_bytes &&
           a->max_timestamp_ms == b->max_timestamp_ms &&
           a->max_timestamp_offset == b->max_timestamp_offset &&
           a->first_timestamp_ms == b->first_timestamp_ms;
}

bool mk_segment_facts_equal(const mk_segment_facts *a,
                            const mk_segment_facts *b)
{
    return mk_segment_facts_same_log(a, b) &&
           a->offset_entries == b->offset_entries &&
           a->time_entries == b->time_entries &&
           a->index_checksum == b->index_checksum;
}

bool mk_state_equals(const mk_state *a, const mk_state *b)
{
    if (a->log_start_offset != b->log_start_offset ||
        a->dense_offset != b->dense_offset || a->end_offset != b->end_offset ||
        a->end_segment != b->end_segment ||
        a->end_position != b->end_position || a->cutting != b->cutting ||
        a->facts_count != b->facts_count ||
        !point_equals(&a->recovery_point, &b->recovery_point)) {
        return false;
    }
    for (size_t i = 0; i < a->facts_count; i++) {
        if (!mk_segment_facts_equal(&a->facts[i], &b->facts[i])) return false;
    }
    return true;
}

static bool facts_are_plausible(const mk_segment_facts *facts)
{
    return facts->base_offset >= 0 &&
           facts->next_offset >= facts->base_offset && facts->log_bytes >= 0 &&
           facts->log_bytes <= INT32_MAX &&
           (facts->log_bytes > 0 || facts->next_offset == facts->base_offset) &&
           facts->max_timestamp_offset >= -1 &&
           facts->max_timestamp_offset <= facts->next_offset &&
           facts->offset_entries >= 0 &&
           facts->offset_entries <= facts->log_bytes &&
           facts->time_entries >= 0 && facts->time_entries <= facts->log_bytes;
}

bool mk_state_is_plausible(const mk_state *state)
{
    const mk_recovery_point *point = &state->recovery_point;
    int64_t next_offset = 0;

    if (state->log_start_offset < 0 || state->dense_offset < 0 ||
        state->end_offset < 0 || state->end_segment < -1 ||
        state->end_position < -1 || point->offset < 0 || point->segment < -1 ||
        point->batch_position < -1 ||
        point->end_position < point->batch_position) {
        return false;
    }
    for (size_t i = 0; i < state->facts_count; i++) {
        const mk_segment_facts *facts = &state->facts[i];

        if (!facts_are_plausible(facts)) return false;
        if (facts->base_offset < next_offset) return false;
        next_offset = facts->next_offset;
    }
    return true;
}

static bool parse_segment(const char **text, mk_segment_facts *facts)
{
    int64_t *outs[FACT_COUNT] = {&facts->base_offset,
                                 &facts->next_offset,
                                 &facts->log_bytes,
                                 &facts->max_timestamp_ms,
                                 &facts->max_timestamp_offset,
                                 &facts->first_timestamp_ms,
                                 &facts->offset_entries,
                                 &facts->time_entries};

    return mk_text_take_numbers(text, outs, FACT_COUNT) &&
           mk_text_take_checksum(text, &facts->index_checksum) &&
           mk_text_take_word(text, "\n");
}

static bool parse_head(const char **text, mk_state *state)
{
    mk_recovery_point *point = &state->recovery_point;
    int64_t *end[] = {&state->end_offset, &state->end_segment,
                      &state->end_position};
    int64_t *flushed[] = {&point->offset, &point->segment,
                          &point->batch_position, &point->end_position};

    return mk_text_take_word(text, HEAD "start") &&
           mk_text_take_number(text, &state->log_start_offset) &&
           mk_text_take_word(text, "\ndense") &&
           mk_text_take_number(text, &state->dense_offset) &&
           mk_text_take_word(text, "\nend") &&
           mk_text_take_numbers(text, end, 3) &&
           mk_text_take_word(text, "\nflushed") &&
           mk_text_take_numbers(text, flushed, 4) &&
           mk_text_take_checksum(text, &point->checksum) &&
           mk_text_take_word(text, "\n");
}

/* Take over the text, which ends with a NUL at `text + size`. */
static mk_status parse(mk_state *state, const char *text, size_t size,
                       bool *good, mk_error *err)
{
    const char *begin = text;
    uint32_t sum = 0;

    *good = parse_head(&text, state);
    state->cutting = *good && mk_text_take_word(&text, CUTTING);
    while (*good && mk_text_take_word(&text, "segment")) {
        mk_segment_facts facts;
        mk_status status;

        *good = parse_segment(&text, &facts);
        if (!*good) return MK_OK;
        status = mk_state_add(state, &facts, err);
        if (status != MK_OK) return status;
    }
    if (*good) {
        uint32_t computed = mk_crc32c(0, begin, (size_t)(text - begin));

        *good = mk_text_take_word(&text, "sum") &&
                mk_text_take_checksum(&text, &sum) &&
                mk_text_take_word(&text, "\n") && text == begin + size &&
                sum == computed;
    }
    return MK_OK;
}

void mk_state_find_then(mk_state *state)
{
    const mk_segment_facts *facts =
        mk_state_find(state, state->recovery_point.segment);

    state->recovery_point.then =
        facts != NULL ? *facts : (mk_segment_facts){.base_offset = -1};
}

mk_status mk_state_load(mk_state *state, mk_vfs *vfs, const char *directory,
                        mk_error *err)
{
    char path[MK_PATH_MAX];
    mk_scratch scratch;
    mk_span content;
    mk_status status;
    bool good = false;
    char *text = NULL;

    mk_scratch_init(&scratch, state->heap);
    status = mk_name_join(path, sizeof path, directory, MK_NAME_STATE, err);
    if (status != MK_OK) return status;
    status = mk_read_file(vfs, path, FILE_SIZE_MAX, &scratch, &content, err);
    if (status == MK_NOT_FOUND || status == MK_INVALID_ARGUMENT) goto none;
    if (status != MK_OK) goto done;
    text = mk_alloc(state->heap, content.size + 1);
    if (text == NULL) {
        status = mk_fail_memory(err, content.size + 1);
        goto done;
    }
    if (content.size > 0) memcpy(text, content.data, content.size);
    text[content.size] = '\0';
    status = parse(state, text, content.size, &good, err);
    if (status != MK_OK) goto done;
none:
    status = MK_OK;
    if (!good) mk_state_deinit(state);
    mk_state_find_then(state);
done:
    mk_release(state->heap, text);
    mk_scratch_deinit(&scratch);
    return status;
}

static size_t print_head(const mk_state *state, char *out, size_t size)
{
    const mk_recovery_point *point = &state->recovery_point;

    return (size_t)snprintf(
        out, size,
        HEAD "start %" PRId64 "\ndense %" PRId64 "\nend %" PRId64 " %" PRId64
             " %" PRId64 "\nflushed %" PRId64 " %" PRId64 " %" PRId64
             " %" PRId64 " %08" PRIx32 "\n%s",
        state->log_start_offset, state->dense_offset, state->end_offset,
        state->end_segment, state->end_position, point->offset, point->segment,
        point->batch_position, point->end_position, point->checksum,
        state->cutting ? CUTTING : "");
}

static size_t print_segment(const mk_segment_facts *facts, char *out,
                            size_t size)
{
    return (size_t)snprintf(
        out, size,
        "segment %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
        " %" PRId64 " %" PRId64 " %" PRId64 " %08" PRIx32 "\n",
        facts->base_offset, facts->next_offset, facts->log_bytes,
        facts->max_timestamp_ms, facts->max_timestamp_offset,
        facts->first_timestamp_ms, facts->offset_entries, facts->time_entries,
        facts->index_checksum);
}

mk_status mk_state_replace(const mk_state *state, mk_vfs *vfs,
                           const char *directory, bool durable, bool *begun,
                           mk_error *err)
{
    size_t capacity = (state->facts_count + 6) * LINE_SIZE_MAX;
    char path[MK_PATH_MAX];
    size_t used;
    mk_status status;
    char *text;

    *begun = false;
    status = mk_name_join(path, sizeof path, directory, MK_NAME_STATE, err);
    if (status != MK_OK) return status;
    text = mk_alloc(state->heap, capacity);
    if (text == NULL) return mk_fail_memory(err, capacity);
    used = print_head(state, text, capacity);
    for (size_t i = 0; i < state->facts_count; i++) {
        used += print_segment(&state->facts[i], text + used, capacity - used);
    }
    used += (size_t)snprintf(text + used, capacity - used,
                             "sum %08" PRIx32 "\n", mk_crc32c(0, text, used));
    MK_ASSERT(used < capacity);
    status = mk_replace_file(vfs, directory, path,
                             (mk_span){(const uint8_t *)text, used}, durable,
                             begun, err);
    mk_release(state->heap, text);
    return status;
}

mk_status mk_state_store(const mk_state *state, mk_vfs *vfs,
                         const char *directory, bool durable, mk_error *err)
{
    bool begun;

    return mk_state_replace(state, vfs, directory, durable, &begun, err);
}
