/*
 * sim_states -- verbs for tests of the states that a crash may leave.
 */
#ifndef MK_SUPPORT_SIM_STATES_H
#define MK_SUPPORT_SIM_STATES_H

#include "support/sim_world.h"

#define STATES_MAX 20000

/* Go through all states, which must be unlike each other and labelled in the
 * order of profiles. `counts` has one for each profile, or is NULL; `lines`
 * gets "profile files" in a row, or is NULL. */
static inline mk_sim_states_info
walk_states(mk_sim_disk *disk, const mk_sim_states_options *options,
            size_t *counts, char *lines, size_t lines_size)
{
    uint64_t(*hashes)[2] = calloc(STATES_MAX, sizeof *hashes);
    mk_sim_profile last = MK_SIM_KILL9;
    mk_sim_states_info info;
    mk_sim_states *states;
    mk_sim_disk *found;
    size_t count = 0;
    size_t used = 0;

    assert_non_null(hashes);
    assert_int_equal(mk_sim_states_open(disk, options, &states, NULL), MK_OK);
    while (mk_sim_states_next(states, &found, NULL) == MK_OK) {
        mk_sim_profile profile = mk_sim_disk_profile(found);

        assert_true(count < STATES_MAX);
        assert_int_equal(mk_sim_disk_hash(found, hashes[count], NULL), MK_OK);
        for (size_t i = 0; i < count; i++) {
            if (hashes[i][0] != hashes[count][0]) continue;
            assert_int_not_equal(hashes[i][1], hashes[count][1]);
        }
        count++;
        assert_true(profile >= last);
        last = profile;
        if (counts != NULL) counts[profile]++;
        if (lines != NULL) {
            used +=
                (size_t)snprintf(lines + used, lines_size - used, "%s %s\n",
                                 mk_sim_profile_name(profile), describe(found));
        }
        mk_sim_disk_free(found);
    }
    mk_sim_states_get_info(states, &info);
    assert_int_equal(info.given, count);
    mk_sim_states_close(states);
    free(hashes);
    return info;
}

static inline mk_sim_states_info
count_states(mk_sim_disk *disk, const mk_sim_states_options *options,
             size_t *counts)
{
    if (counts != NULL) {
        memset(counts, 0, MK_SIM_PROFILE_COUNT * sizeof *counts);
    }
    return walk_states(disk, options, counts, NULL, 0);
}

/* All of them, so many for each profile. */
static inline void assert_counts(mk_sim_disk *disk,
                                 const mk_sim_states_options *options,
                                 const size_t *expected)
{
    size_t counts[MK_SIM_PROFILE_COUNT];

    assert_true(count_states(disk, options, counts).complete);
    for (size_t i = 0; i < MK_SIM_PROFILE_COUNT; i++) {
        if (counts[i] == expected[i]) continue;
        fail_msg("%s: %zu states, not %zu",
                 mk_sim_profile_name((mk_sim_profile)i), counts[i],
                 expected[i]);
    }
}

/* All of them, as lines; the order within a profile does not matter. */
static inline void assert_states(mk_sim_disk *disk,
                                 const mk_sim_states_options *options,
                                 const char *expected)
{
    char lines[8192] = "";
    const char *line = expected;

    assert_true(walk_states(disk, options, NULL, lines, sizeof lines).complete);
    if (strlen(lines) != strlen(expected)) {
        fail_msg("states:\n%snot:\n%s", lines, expected);
    }
    while (*line != '\0') {
        size_t size = strcspn(line, "\n") + 1;
        char wanted[512] = "\n";
        char found[8194] = "\n";

        memcpy(wanted + 1, line, size);
        memcpy(found + 1, lines, strlen(lines) + 1);
        if (strstr(found, wanted) == NULL) {
            fail_msg("states:\n%snot:\n%s", lines, expected);
        }
        line += size;
    }
}

/* Go through the states with the nth allocation failing, and see that it is
 * told, and that all states come all the same. Returns whether there was an
 * nth one. */
static inline bool list_with_failure(sim_world *world,
                                     const mk_sim_states_options *options,
                                     size_t nth)
{
    mk_sim_states_info expected = count_states(world->disk, options, NULL);
    size_t blocks = world->counts.blocks;
    size_t given = 0;
    bool failed = false;
    mk_sim_states *states = NULL;
    mk_status status;

    world->counts.fail_at = world->counts.allocations + nth;
    status = mk_sim_states_open(world->disk, options, &states, NULL);
    if (status != MK_OK) {
        failed = true;
        assert_int_equal(status, MK_NO_MEMORY);
        assert_null(states);
        assert_int_equal(world->counts.blocks, blocks);
        status = mk_sim_states_open(world->disk, options, &states, NULL);
        assert_int_equal(status, MK_OK);
    }
    for (;;) {
        mk_sim_disk *found;

        status = mk_sim_states_next(states, &found, NULL);
        if (status == MK_END) break;
        if (status == MK_OK) {
            given++;
        } else {
            assert_int_equal(status, MK_NO_MEMORY);
            assert_false(failed);
            failed = true;
        }
        mk_sim_disk_free(found);
    }
    mk_sim_states_close(states);
    world->counts.fail_at = 0;
    assert_int_equal(given, expected.given);
    assert_int_equal(world->counts.blocks, blocks);
    return failed;
}

/* The same as their namesakes, for a path with a `%s` in it. */
static inline void path_as(char *out, size_t size, const char *format,
                           const char *word)
{
    const char *hole = strstr(format, "%s");

    snprintf(out, size, "%.*s%s%s", (int)(hole - format), format, word,
             hole + 2);
}

static inline void put_file_as(sim_world *world, const char *format,
                               const char *word, const char *text)
{
    char path[64];

    path_as(path, sizeof path, format, word);
    put_file(world, path, text);
}

static inline void rename_as(sim_world *world, const char *from, const char *to,
                             const char *word)
{
    char from_path[64];
    char to_path[64];

    path_as(from_path, sizeof from_path, from, word);
    path_as(to_path, sizeof to_path, to, word);
    rename_to(world, from_path, to_path);
}

#endif /* MK_SUPPORT_SIM_STATES_H */
