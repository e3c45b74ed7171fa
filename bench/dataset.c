/* dataset -- making keys and values, and choosing what is read. */
#include "dataset.h"

#include <stdio.h>
#include <stdlib.h>

#define VALUE_SEED      UINT64_C(0x56414C5545000000)
#define READ_SEED       UINT64_C(0x5000000000000000)
#define FIRST_READ_SEED UINT64_C(0x5C00000000000000)
#define VALUE_KINDS     4096u
#define GROUPS_MIN      10u
#define SEGMENTS_MIN    20u
#define STRIDE          7919u /* A prime: it visits every batch of a log. */

__extension__ typedef unsigned __int128 wide;

static void store(uint64_t word, uint8_t *out)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(out, &word, sizeof word);
}

/* Map a random word evenly to 0..count - 1. */
static uint64_t below(uint64_t word, uint64_t count)
{
    return (uint64_t)(((wide)word * count) >> 64);
}

void dataset_key(uint64_t i, uint8_t *out)
{
    store(dataset_scramble(2 * i), out);
    store(dataset_scramble(2 * i + 1), out + 8);
}

void dataset_value(uint64_t i, uint8_t *out)
{
    static const char text[] =
        "{\"type\":\"order\",\"state\":\"shipped\",\"where\":\"eu-west\"}";
    const uint64_t seed = VALUE_SEED + 8 * (i % VALUE_KINDS);

    store(i, out);
    for (unsigned word = 1; word < 6; word++) {
        store(dataset_scramble(seed + word), out + 8 * word);
    }
    memcpy(out + 48, text, sizeof text - 1);
}

uint8_t *dataset_new(size_t count)
{
    uint8_t *items = malloc(count * DATASET_ITEM_SIZE);

    if (items == NULL) {
        fputs("no memory for the records\n", stderr);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t *item = items + i * DATASET_ITEM_SIZE;

        dataset_key(i, item);
        dataset_value(i, item + DATASET_KEY_SIZE);
    }
    return items;
}

size_t dataset_count(double full, double scale)
{
    size_t count = (size_t)(full * scale) / DATASET_BATCH * DATASET_BATCH;

    return count > 0 ? count : DATASET_BATCH;
}

size_t dataset_groups(double scale)
{
    size_t count = (size_t)(DATASET_GROUPS * scale);

    return count > GROUPS_MIN ? count : GROUPS_MIN;
}

size_t dataset_segments(double scale)
{
    size_t count = (size_t)(DATASET_SEGMENTS * scale);

    return count > SEGMENTS_MIN ? count : SEGMENTS_MIN;
}

uint64_t dataset_read(uint64_t j, uint64_t count)
{
    return below(dataset_scramble(READ_SEED + j), count);
}

uint64_t dataset_first_read(uint64_t j, uint64_t count)
{
    uint64_t batch = j * STRIDE % (count / DATASET_BATCH);
    uint64_t word = dataset_scramble(FIRST_READ_SEED + j);

    return batch * DATASET_BATCH + below(word, DATASET_BATCH);
}
