/* sim_words -- the words of the simulation, and what they stand for. */
#include <string.h>

#include "include/minikafka_sim.h"

#include "base/poison.h"

static const char *const profiles[] = {
#define X(name, word) word,
    MK_SIM_PROFILES(X)
#undef X
};

static const char *const operations[] = {
#define X(name, word) word,
    MK_SIM_OPERATIONS(X)
#undef X
};

static const char *const flavours[] = {
#define X(name, word) word,
    MK_SIM_FLAVOURS(X)
#undef X
};

static unsigned find(const char *const *words, unsigned count, const char *word)
{
    unsigned i = 0;

    while (i < count && strcmp(words[i], word) != 0) {
        i++;
    }
    return i;
}

const char *mk_sim_profile_name(mk_sim_profile profile)
{
    return profile < MK_SIM_PROFILE_COUNT ? profiles[profile] : "?";
}

const char *mk_sim_operation_name(mk_sim_operation operation)
{
    return operation < MK_SIM_OPERATION_COUNT ? operations[operation] : "?";
}

const char *mk_sim_flavour_name(mk_sim_flavour flavour)
{
    return flavour < MK_SIM_FLAVOUR_COUNT ? flavours[flavour] : "?";
}

mk_sim_profile mk_sim_profile_of(const char *word)
{
    return (mk_sim_profile)find(profiles, MK_SIM_PROFILE_COUNT, word);
}

mk_sim_operation mk_sim_operation_of(const char *word)
{
    return (mk_sim_operation)find(operations, MK_SIM_OPERATION_COUNT, word);
}

mk_sim_flavour mk_sim_flavour_of(const char *word)
{
    return (mk_sim_flavour)find(flavours, MK_SIM_FLAVOUR_COUNT, word);
}
