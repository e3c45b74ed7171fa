/*
 * lmk_fault -- disk:fail() and disk:damage().
 */
#include "lua/lmk.h"

#define ERRNO_MAX 133 /* EHWPOISON: no higher one is in use. */

static const char *const operations[] = {
#define X(name, word) word,
    MK_SIM_OPERATIONS(X)
#undef X
        NULL,
};

static const char *const flavours[] = {
#define X(name, word) word,
    MK_SIM_FLAVOURS(X)
#undef X
        NULL,
};

/* Read an errno, by its name. */
static void option_errno(lua_State *L, int arg, int *out)
{
    const char *names[ERRNO_MAX + 1];
    int numbers[ERRNO_MAX];
    const char *unknown = mk_errno_name(0);
    int count = 0;
    int found;

    for (int i = 1; i <= ERRNO_MAX; i++) {
        const char *name = mk_errno_name(i);

        if (name == unknown) continue;
        names[count] = name;
        numbers[count++] = i;
    }
    names[count] = NULL;
    if (lmk_option_word(L, arg, "errno", names, &found)) *out = numbers[found];
}

/* Read a glob; it stays valid while the options do. */
static void option_path(lua_State *L, int arg, const char **out)
{
    if (!lmk_push_option(L, arg, "path")) return;
    if (lua_type(L, -1) != LUA_TSTRING) {
        lmk_option_error(L, arg, "path", "string");
    }
    *out = lua_tostring(L, -1);
    lua_pop(L, 1);
}

static bool is_sync(const mk_sim_fault *fault)
{
    return fault->operation == MK_SIM_ANY_OPERATION ||
           fault->operation == MK_SIM_FSYNC ||
           fault->operation == MK_SIM_FDATASYNC;
}

/* Read a flavour, when operation and delay are known. */
static void option_flavour(lua_State *L, int arg, mk_sim_fault *fault)
{
    int word;

    if (!lmk_option_word(L, arg, "flavour", flavours, &word)) return;
    fault->flavour = (mk_sim_flavour)word;
    if (is_sync(fault) || fault->delayed) return;
    lmk_raise_status(L, MK_INVALID_ARGUMENT,
                     "only the failed sync of a file has a flavour");
}

/* disk:fail{...} */
int lmk_disk_fail(lua_State *L)
{
    static const char *const names[] = {"after",   "delayed", "errno",
                                        "flavour", "op",      "path",
                                        "short",   "times",   NULL};
    static const lmk_names known = {names, false};
    lmk_disk_box *box = lmk_check_self_disk(L);
    mk_sim_fault fault;
    mk_status status;
    mk_error err;
    int word;

    if (!lua_istable(L, 2)) lmk_type_error(L, 2, "fault", "table", 2);
    lmk_check_options(L, 2, &known);
    mk_sim_fault_default(&fault);
    if (lmk_option_word(L, 2, "op", operations, &word)) {
        fault.operation = (mk_sim_operation)word;
    }
    lmk_option_integer(L, 2, "after", 0, INT64_MAX, &fault.after);
    lmk_option_integer(L, 2, "times", 1, INT64_MAX, &fault.times);
    lmk_option_integer(L, 2, "short", 0, INT64_MAX, &fault.short_size);
    lmk_option_boolean(L, 2, "delayed", &fault.delayed);
    option_flavour(L, 2, &fault);
    option_errno(L, 2, &fault.os_errno);
    option_path(L, 2, &fault.path);

    box = lmk_check_self_disk(L);
    status = mk_sim_disk_fail(box->disk, &fault, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    return 0;
}

/* ---- Damage ---- */

/* Read `zero`, {position, size}, if it was given. */
static bool option_range(lua_State *L, int arg, int64_t range[2])
{
    if (!lmk_push_option(L, arg, "zero")) return false;
    if (!lua_istable(L, -1)) lmk_option_error(L, arg, "zero", "table");
    for (int i = 0; i < 2; i++) {
        lua_rawgeti(L, -1, i + 1);
        if (!lmk_to_integer(L, -1, &range[i])) {
            lmk_option_error(L, arg, "zero", "integer");
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return true;
}

/* disk:damage(path, {flip = bit | zero = {position, size} | cut = size}) */
int lmk_disk_damage(lua_State *L)
{
    static const char *const names[] = {"cut", "flip", "zero", NULL};
    static const lmk_names known = {names, false};
    lmk_disk_box *box = lmk_check_self_disk(L);
    const char *path = lmk_check_path(L, 2);
    bool flip, zero, cut;
    int64_t bit = 0, size = 0, range[2] = {0, 0};
    mk_status status;
    mk_error err;

    if (!lua_istable(L, 3)) lmk_type_error(L, 3, "damage", "table", 3);
    lmk_check_options(L, 3, &known);
    flip = lmk_option_integer(L, 3, "flip", INT64_MIN, INT64_MAX, &bit);
    cut = lmk_option_integer(L, 3, "cut", INT64_MIN, INT64_MAX, &size);
    zero = option_range(L, 3, range);
    if (flip + cut + zero != 1) {
        return lmk_raise_status(L, MK_INVALID_ARGUMENT,
                                "a damage is one of flip, zero and cut");
    }
    box = lmk_check_self_disk(L);
    if (flip) {
        status = mk_sim_disk_flip(box->disk, path, bit, &err);
    } else if (zero) {
        status = mk_sim_disk_zero(box->disk, path, range[0], range[1], &err);
    } else {
        status = mk_sim_disk_cut(box->disk, path, size, &err);
    }
    if (status != MK_OK) return lmk_raise(L, status, &err);
    return 0;
}
