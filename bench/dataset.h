/*
 * dataset -- the records that every side of the benchmark writes and reads.
 *
 * Record i has a key of two scrambled words, a value that begins with i and
 * ends in text, and a time. It depends on i alone, so any program in any
 * language makes the same ones, and a checksum over what was read tells
 * whether it was all there.
 *
 *     key    [8 bytes] scramble(2i)  [8 bytes] scramble(2i + 1)
 *     value  [8 bytes] i
 *            [8 bytes] x 5, scramble(VALUE_SEED + 8 (i mod 4096) + 1..5)
 *            [52 bytes] text
 *
 * Words are little-endian; arithmetic is modulo 2^64.
 */
#ifndef BENCH_DATASET_H
#define BENCH_DATASET_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DATASET_KEY_SIZE   16u
#define DATASET_VALUE_SIZE 100u
#define DATASET_ITEM_SIZE  (DATASET_KEY_SIZE + DATASET_VALUE_SIZE)

/* Records a batch, where there are batches, and an appender's limit for so
 * many. */
#define DATASET_BATCH       500u
#define DATASET_BATCH_BYTES 63540u

/* Records of the log written in batches, records of the log written one a
 * call, random reads of either, and how often each batch is read cold. */
#define DATASET_BULK        1e6
#define DATASET_SINGLES     2e5
#define DATASET_READS       2e5
#define DATASET_COLD_PASSES 10

/* Records that are synced one by one; groups of records that are synced group
 * by group, and records a group. */
#define DATASET_SYNCED 2e3
#define DATASET_GROUPS 200
#define DATASET_GROUP  100u

/* Segments of a log with many of them, bytes of each, records to fill it with,
 * over and over. */
#define DATASET_SEGMENTS      1000
#define DATASET_SEGMENT_BYTES (1u << 20)
#define DATASET_FILLING       1e5

/* Return a word in which every bit depends on every bit of `word`: the output
 * step of the splitmix64 generator. */
static inline uint64_t dataset_scramble(uint64_t word)
{
    word += UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static inline uint64_t dataset_load(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Return what a record adds to a checksum. Computing it reads both ends of key
 * and value; the order of records does not matter. */
static inline uint64_t dataset_touch(const uint8_t *key, const uint8_t *value)
{
    return dataset_scramble(dataset_load(key) + 3 * dataset_load(key + 8) +
                            5 * dataset_load(value) +
                            7 * dataset_load(value + 92));
}

static inline int64_t dataset_time_ms(size_t i)
{
    return INT64_C(1700000000000) + (int64_t)i;
}

/* Write key and value of record `i`. */
void dataset_key(uint64_t i, uint8_t *out);
void dataset_value(uint64_t i, uint8_t *out);

/* Return the first `count` records, key and value of each side by side; the
 * caller frees them. Ends the process when there is no memory. */
uint8_t *dataset_new(size_t count);

/* Return `full` at a scale: whole batches, one at least. */
size_t dataset_count(double full, double scale);

/* Return how many of such groups, and of such segments, there are at a scale.
 */
size_t dataset_groups(double scale);
size_t dataset_segments(double scale);

/* Return the offset that random read number `j` wants of `count` records. */
uint64_t dataset_read(uint64_t j, uint64_t count);

/* Return the offset that read number `j` wants when each batch of `count`
 * records is to be read once, j = 0 to count / DATASET_BATCH. */
uint64_t dataset_first_read(uint64_t j, uint64_t count);

#endif /* BENCH_DATASET_H */
