/*
 * sim_hash -- hashes that tell images apart, and numbers by chance.
 *
 * A hash has 128 bits, so that two different images among some billions are
 * not taken for one. The sum of hashes is a hash of the set.
 */
#ifndef MK_OS_SIM_HASH_H
#define MK_OS_SIM_HASH_H

#include <stdbool.h>

#include "base/bytes.h"

typedef struct mk_sim_hash {
    uint64_t a, b;
} mk_sim_hash;

/* Spread the bits of `value`; one to one. (SplitMix64's.) */
static inline uint64_t mk_sim_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Return the next number of the row that `*chance` stands for. */
static inline uint64_t mk_sim_random(uint64_t *chance)
{
    *chance += UINT64_C(0x9e3779b97f4a7c15);
    return mk_sim_mix(*chance);
}

/* Return a number below `end`, which is at least 1. */
static inline uint64_t mk_sim_random_below(uint64_t *chance, uint64_t end)
{
    return mk_sim_random(chance) % end;
}

static inline bool mk_sim_hash_is_equal(mk_sim_hash x, mk_sim_hash y)
{
    return x.a == y.a && x.b == y.b;
}

static inline mk_sim_hash mk_sim_hash_add(mk_sim_hash x, mk_sim_hash y)
{
    return (mk_sim_hash){x.a + y.a, x.b + y.b};
}

/* Return a hash of the pair, in this order. */
static inline mk_sim_hash mk_sim_hash_pair(mk_sim_hash x, mk_sim_hash y)
{
    return (mk_sim_hash){
        mk_sim_mix(mk_sim_mix(x.a) + y.a),
        mk_sim_mix(mk_sim_mix(x.b + 1) + y.b),
    };
}

/* Return a hash of the number. */
static inline mk_sim_hash mk_sim_hash_number(uint64_t value)
{
    return (mk_sim_hash){
        mk_sim_mix(value + UINT64_C(0x9e3779b97f4a7c15)),
        mk_sim_mix(value + UINT64_C(0xc2b2ae3d27d4eb4f)),
    };
}

/* Return a hash of bytes; {0, 0} if all are zero. How many zeros stand at the
 * end makes no difference. */
static inline mk_sim_hash mk_sim_hash_bytes(const uint8_t *bytes, size_t size)
{
    mk_sim_hash hash = {UINT64_C(0x243f6a8885a308d3),
                        UINT64_C(0x13198a2e03707344)};
    uint8_t rest[8] = {0};
    size_t whole;

    while (size > 0 && bytes[size - 1] == 0) {
        size--;
    }
    if (size == 0) return (mk_sim_hash){0, 0};

    whole = size & ~(size_t)7;
    for (size_t i = 0; i <= whole; i += 8) {
        uint64_t word;

        if (i < whole) {
            word = mk_load_u64(bytes + i);
        } else {
            memcpy(rest, bytes + whole, size - whole);
            word = mk_load_u64(rest);
        }
        hash.a = (hash.a ^ word) * UINT64_C(0x9fb21c651e98df25);
        hash.a ^= hash.a >> 32;
        hash.b = (hash.b + word) * UINT64_C(0xd6e8feb86659fd93);
        hash.b ^= hash.b >> 29;
    }
    return (mk_sim_hash){mk_sim_mix(hash.a), mk_sim_mix(hash.b)};
}

#endif /* MK_OS_SIM_HASH_H */
