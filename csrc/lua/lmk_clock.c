/*
 * lmk_clock -- ManualClock, SystemClock, and any Lua value that tells times.
 *
 * Our own clocks are asked in C. Of others, a function is called, and of a
 * table or userdata the method `now_ms`.
 */
#include "lua/lmk.h"

/* ---- Our own ---- */

typedef struct clock_box {
    mk_manual_clock *clock; /* Borrowed: `own`, or the disk's. */
    mk_manual_clock own;
    mk_sim_disk *disk; /* Counted: whose clock it is; or NULL. */
} clock_box;

static mk_manual_clock *self_manual(lua_State *L)
{
    return ((clock_box *)lmk_self(L, LMK_MANUAL_CLOCK))->clock;
}

static clock_box *push_manual(lua_State *L)
{
    clock_box *box = lua_newuserdatauv(L, sizeof *box, 0);

    *box = (clock_box){.disk = NULL};
    box->clock = &box->own;
    luaL_setmetatable(L, LMK_MANUAL_CLOCK);
    return box;
}

/* ManualClock([start_ms]) */
int lmk_manual_clock_new(lua_State *L)
{
    int64_t start_ms = lmk_opt_integer(L, 1, "start_ms", 0);

    push_manual(L)->own.now_ms = start_ms;
    return 1;
}

void lmk_push_disk_clock(lua_State *L, mk_sim_disk *disk)
{
    clock_box *box = push_manual(L);

    box->disk = mk_sim_disk_acquire(disk);
    box->clock = mk_sim_disk_manual_clock(disk);
}

/* What uses the clock after this, in another finalizer, has a copy. */
static int manual_collect(lua_State *L)
{
    clock_box *box = lmk_self(L, LMK_MANUAL_CLOCK);
    mk_sim_disk *disk = box->disk;

    box->own = *box->clock;
    box->clock = &box->own;
    box->disk = NULL;
    mk_sim_disk_free(disk);
    return 0;
}

static int manual_now_ms(lua_State *L)
{
    lua_pushinteger(L, self_manual(L)->now_ms);
    return 1;
}

/* clock:advance_ms(n) */
static int manual_advance_ms(lua_State *L)
{
    mk_manual_clock *clock = self_manual(L);
    int64_t n = lmk_check_integer(L, 2, "n");

    if (n < 0) {
        return lmk_raise_status(
            L, MK_INVALID_ARGUMENT,
            "a clock does not move backwards: advance_ms(%I)", (LUAI_UACINT)n);
    }
    if (clock->now_ms > INT64_MAX - n) {
        return lmk_raise_status(L, MK_INVALID_ARGUMENT,
                                "advance_ms(%I) goes beyond the last time",
                                (LUAI_UACINT)n);
    }
    clock->now_ms += n;
    return 0;
}

/* clock:set_ms(t) */
static int manual_set_ms(lua_State *L)
{
    mk_manual_clock *clock = self_manual(L);

    clock->now_ms = lmk_check_integer(L, 2, "t");
    return 0;
}

static int manual_tostring(lua_State *L)
{
    lua_pushfstring(L, "%s(%I)", LMK_MANUAL_CLOCK,
                    (LUAI_UACINT)self_manual(L)->now_ms);
    return 1;
}

/* SystemClock() */
int lmk_system_clock_new(lua_State *L)
{
    lua_newuserdatauv(L, 1, 0);
    luaL_setmetatable(L, LMK_SYSTEM_CLOCK);
    return 1;
}

static int system_now_ms(lua_State *L)
{
    mk_clock clock = mk_clock_system();
    int64_t now_ms = 0;
    mk_status status;
    mk_error err;

    lmk_self(L, LMK_SYSTEM_CLOCK);
    status = clock.now(clock.context, &now_ms, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    lua_pushinteger(L, now_ms);
    return 1;
}

static int system_tostring(lua_State *L)
{
    lmk_self(L, LMK_SYSTEM_CLOCK);
    lua_pushliteral(L, LMK_SYSTEM_CLOCK "()");
    return 1;
}

/* ---- Anybody's ---- */

/* Can the value at the top be called? Takes it away. */
static bool pop_callable(lua_State *L)
{
    bool callable = lua_isfunction(L, -1);

    if (!callable && luaL_getmetafield(L, -1, "__call") != LUA_TNIL) {
        callable = true;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return callable;
}

bool lmk_is_clock(lua_State *L, int index)
{
    int type = lua_type(L, index);

    if (type == LUA_TFUNCTION) return true;
    if (type != LUA_TTABLE && type != LUA_TUSERDATA) return false;
    if (type == LUA_TUSERDATA) {
        if (luaL_getmetafield(L, index, "__index") == LUA_TNIL) return false;
        lua_pop(L, 1);
    }
    lua_getfield(L, index, "now_ms");
    return pop_callable(L);
}

bool lmk_clock_native(lua_State *L, int index, mk_clock *out)
{
    clock_box *manual = luaL_testudata(L, index, LMK_MANUAL_CLOCK);

    if (manual != NULL) {
        *out = mk_clock_manual(manual->clock);
        return true;
    }
    if (luaL_testudata(L, index, LMK_SYSTEM_CLOCK) == NULL) return false;
    *out = mk_clock_system();
    return true;
}

/* (clock) -> its time, in a protected call. */
static int read_clock(lua_State *L)
{
    int64_t now_ms;

    if (lua_isfunction(L, 1)) {
        lua_call(L, 0, 1);
    } else {
        lua_getfield(L, 1, "now_ms");
        lua_insert(L, 1);
        lua_call(L, 1, 1);
    }
    if (!lmk_to_integer(L, -1, &now_ms)) {
        return luaL_error(L, "a clock must give an integer, and gave a %s",
                          luaL_typename(L, -1));
    }
    lua_pushinteger(L, now_ms);
    return 1;
}

/* Ask the clock at the top, in its place. */
static mk_status ask_clock(lmk_call *call, int64_t *now_ms, mk_error *err)
{
    mk_status status;

    lua_pushcfunction(call->L, read_clock);
    lua_insert(call->L, -2);
    status = lmk_callback(call, 1, 1, err);
    if (status != MK_OK) return status;
    *now_ms = lua_tointeger(call->L, -1);
    lua_pop(call->L, 1);
    return MK_OK;
}

static mk_status log_now(void *context, int64_t *now_ms, mk_error *err)
{
    const lmk_log_box *box = context;
    lmk_call *call = box->call;

    *now_ms = 0;
    if (call == NULL || call->log_index == 0) {
        return lmk_fill_error(err, MK_CALLBACK, "no call asked for the time");
    }
    if (!lua_checkstack(call->L, LUA_MINSTACK)) {
        return lmk_fill_error(err, MK_NO_MEMORY, "no room for a callback");
    }
    lua_getiuservalue(call->L, call->log_index, LMK_LOG_CLOCK);
    return ask_clock(call, now_ms, err);
}

mk_clock lmk_clock_of_log(lmk_log_box *box)
{
    return (mk_clock){log_now, box};
}

static mk_status use_now(void *context, int64_t *now_ms, mk_error *err)
{
    const lmk_clock_use *use = context;

    *now_ms = 0;
    if (!lua_checkstack(use->call->L, LUA_MINSTACK)) {
        return lmk_fill_error(err, MK_NO_MEMORY, "no room for a callback");
    }
    lua_pushvalue(use->call->L, use->index);
    return ask_clock(use->call, now_ms, err);
}

mk_clock lmk_clock_face(lua_State *L, lmk_clock_use *use)
{
    mk_clock clock = {NULL, NULL};

    if (lua_isnil(L, use->index)) return clock;
    if (lmk_clock_native(L, use->index, &clock)) return clock;
    return (mk_clock){use_now, use};
}

/* ---- Types ---- */

void lmk_clock_register(lua_State *L)
{
    static const luaL_Reg manual_methods[] = {
        {"now_ms", manual_now_ms},
        {"advance_ms", manual_advance_ms},
        {"set_ms", manual_set_ms},
        {NULL, NULL},
    };
    static const luaL_Reg manual_meta[] = {
        {"__tostring", manual_tostring},
        {"__gc", manual_collect},
        {NULL, NULL},
    };
    static const luaL_Reg system_methods[] = {
        {"now_ms", system_now_ms},
        {NULL, NULL},
    };
    static const luaL_Reg system_meta[] = {
        {"__tostring", system_tostring},
        {NULL, NULL},
    };
    static const lmk_type manual = {LMK_MANUAL_CLOCK, manual_methods, NULL,
                                    manual_meta};
    static const lmk_type system = {LMK_SYSTEM_CLOCK, system_methods, NULL,
                                    system_meta};

    lmk_type_register(L, &manual);
    lmk_type_register(L, &system);
    lua_pop(L, 2);
}
