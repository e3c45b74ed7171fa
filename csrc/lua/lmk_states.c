/*
 * lmk_states -- disk:crash_states(): all disks that a loss of power now could
 * leave.
 *
 * The row is the closing value of a generic for. User value 1 is the disk.
 */
#include "lua/lmk.h"

typedef struct states_box {
    mk_sim_states *states; /* Owned; NULL once closed. */
} states_box;

static void release(states_box *box)
{
    mk_sim_states *states = box->states;

    box->states = NULL;
    if (states != NULL) mk_sim_states_close(states);
}

/* () -> the next state, or nil. Upvalue 1 is the row. */
static int next_state(lua_State *L)
{
    int row = lua_upvalueindex(1);
    states_box *box = lua_touserdata(L, row);
    lmk_disk_box *state;
    mk_status status;
    mk_error err;

    if (box->states == NULL) return lmk_raise_closed(L, "row of states");
    lua_settop(L, 0);
    lua_getiuservalue(L, row, 1);
    state = lmk_push_disk(L);
    if (box->states == NULL) return lmk_raise_closed(L, "row of states");
    status = mk_sim_states_next(box->states, &state->disk, &err);
    if (status == MK_END) return 0;
    if (status != MK_OK) return lmk_raise(L, status, &err);
    lmk_share_clock(L, 1);
    return 1;
}

/* disk:crash_states{...} -> iterator, nil, nil, row */
int lmk_disk_crash_states(lua_State *L)
{
    static const char *const names[] = {"exhaustive_bits", "limit", "profile",
                                        "tears", NULL};
    static const lmk_names known = {names, false};
    mk_sim_states_options options;
    states_box *box;
    mk_status status;
    int64_t bits;
    mk_error err;

    lmk_check_self_disk(L);
    lua_settop(L, 2);
    lmk_check_options(L, 2, &known);
    mk_sim_states_options_default(&options);
    bits = options.exhaustive_bits;
    lmk_option_integer(L, 2, "limit", 0, INT64_MAX, &options.limit);
    lmk_option_profile(L, 2, "profile", &options.profile);
    lmk_option_boolean(L, 2, "tears", &options.tears);
    lmk_option_integer(L, 2, "exhaustive_bits", 4, 26, &bits);
    options.exhaustive_bits = (int)bits;

    box = lua_newuserdatauv(L, sizeof *box, 1);
    box->states = NULL;
    luaL_setmetatable(L, LMK_STATES);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, next_state, 1);
    lua_insert(L, -2);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_rotate(L, -3, 2);
    status = mk_sim_states_open(lmk_check_self_disk(L)->disk, &options,
                                &box->states, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    return 4;
}

/* row:info() -> given, complete: how many states so far, and were they all? */
static int states_info(lua_State *L)
{
    states_box *box = lmk_self(L, LMK_STATES);
    mk_sim_states_info info;

    if (box->states == NULL) return lmk_raise_closed(L, "row of states");
    mk_sim_states_get_info(box->states, &info);
    lua_pushinteger(L, info.given);
    lua_pushboolean(L, info.complete);
    return 2;
}

static int states_release(lua_State *L)
{
    release(lmk_self(L, LMK_STATES));
    return 0;
}

static int states_tostring(lua_State *L)
{
    const states_box *box = lmk_self(L, LMK_STATES);
    mk_sim_states_info info;

    if (box->states == NULL) {
        lua_pushliteral(L, LMK_STATES " (closed)");
        return 1;
    }
    mk_sim_states_get_info(box->states, &info);
    lua_pushfstring(L, "%s(%I so far)", LMK_STATES, (LUAI_UACINT)info.given);
    return 1;
}

void lmk_states_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"close", states_release},
        {"info", states_info},
        {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__tostring", states_tostring},
        {"__close", states_release},
        {"__gc", states_release},
        {NULL, NULL},
    };
    static const lmk_type type = {LMK_STATES, methods, NULL, meta};

    lmk_type_register(L, &type);
    lua_pop(L, 1);
}
