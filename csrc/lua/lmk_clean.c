/*
 * lmk_clean -- RetentionManager and LogCompactor.
 *
 * Both remember a clock in user value 1 (nil: the log's own), a compactor its
 * hook in user value 2. A result of the core owns memory: it lies in a userdata
 * that the collector can finish, until a table has been made of it.
 */
#include "lua/lmk.h"

#define RESULT_HOLDER "minikafka.result_holder"

enum {
    CLEAN_CLOCK = 1,
    CLEAN_HOOK,
};

typedef struct compactor_box {
    int64_t delete_retention_ms; /* -1: the log's. */
} compactor_box;

/* ---- Results ---- */

static mk_cleanup_result *push_holder(lua_State *L)
{
    mk_cleanup_result *result = lua_newuserdatauv(L, sizeof *result, 0);

    *result = (mk_cleanup_result){0};
    luaL_setmetatable(L, RESULT_HOLDER);
    return result;
}

static void release_result(mk_cleanup_result *result)
{
    mk_cleanup_result taken = *result;

    *result = (mk_cleanup_result){0};
    if (taken.block != NULL) mk_cleanup_result_deinit(&taken);
}

static int holder_collect(lua_State *L)
{
    release_result(luaL_checkudata(L, 1, RESULT_HOLDER));
    return 0;
}

static void push_offsets(lua_State *L, const int64_t *offsets, size_t count)
{
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, offsets[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* Push a table of the result, and release it. */
static void push_result(lua_State *L, mk_cleanup_result *result)
{
    lua_createtable(L, 0, 7);
    push_offsets(L, result->deleted, result->deleted_count);
    lua_setfield(L, -2, "deleted");
    push_offsets(L, result->source_segments, result->source_count);
    lua_setfield(L, -2, "source_segments");
    push_offsets(L, result->new_segments, result->new_count);
    lua_setfield(L, -2, "new_segments");
    set_integer(L, "records_before", result->records_before);
    set_integer(L, "records_after", result->records_after);
    set_integer(L, "bytes_before", result->bytes_before);
    set_integer(L, "bytes_after", result->bytes_after);
    luaL_setmetatable(L, LMK_RESULT);
    release_result(result);
}

/* ---- Constructors' arguments ---- */

/* The arguments ([clock] [, options]) or (options): put the options at index 2
 * and the clock, or nil, at index 1. */
static void check_new(lua_State *L, const lmk_names *known)
{
    bool only_options;

    lua_settop(L, 2);
    only_options = lua_istable(L, 1) && lua_isnil(L, 2) && !lmk_is_clock(L, 1);
    if (only_options) {
        lua_pushnil(L);
        lua_replace(L, 2);
        lua_insert(L, 1);
    }
    if (!lua_isnil(L, 1) && !lmk_is_clock(L, 1)) {
        lmk_type_error(L, 1, "clock", "clock", 1);
    }
    lmk_check_options(L, 2, known);
    if (lmk_push_option(L, 2, "clock")) {
        if (!lmk_is_clock(L, 3)) lmk_option_error(L, 2, "clock", "clock");
        lua_replace(L, 1);
    }
}

/* ---- Retention ---- */

/* RetentionManager([clock]) */
int lmk_retention_new(lua_State *L)
{
    static const char *const names[] = {"clock", NULL};
    static const lmk_names known = {names, false};

    check_new(L, &known);
    lua_newuserdatauv(L, 1, 1);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, CLEAN_CLOCK);
    luaL_setmetatable(L, LMK_RETENTION);
    return 1;
}

/* manager:apply(log [, options]) -> list of deleted base offsets, result */
static int retention_apply(lua_State *L)
{
    static const char *const names[] = {"retention_bytes", "retention_ms",
                                        NULL};
    static const lmk_names known = {names, false};
    mk_retention_options options = {.by_time = false};
    mk_cleanup_result *result;
    lmk_clock_use use;
    lmk_log_box *box;
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    lmk_self(L, LMK_RETENTION);
    box = lmk_check_log(L, 2);
    lua_settop(L, 3);
    lmk_check_options(L, 3, &known);
    options.by_time = lmk_option_integer(L, 3, "retention_ms", 0, INT64_MAX,
                                         &options.retention_ms);
    options.by_size = lmk_option_integer(L, 3, "retention_bytes", 1, INT64_MAX,
                                         &options.retention_bytes);
    result = push_holder(L);
    lua_getiuservalue(L, 1, CLEAN_CLOCK);
    use = (lmk_clock_use){&call, lua_gettop(L)};
    options.clock = lmk_clock_face(L, &use);

    log = lmk_enter(&call, L, box, 2);
    status = mk_log_retain(log, &options, result, &err);
    lmk_finish(&call, status, &err);
    push_result(L, result);
    lua_getfield(L, -1, "deleted");
    lua_insert(L, -2);
    return 2;
}

static int retention_tostring(lua_State *L)
{
    lmk_self(L, LMK_RETENTION);
    lua_pushliteral(L, LMK_RETENTION "()");
    return 1;
}

/* ---- Compaction ---- */

/* LogCompactor([clock] [, options]) */
int lmk_compactor_new(lua_State *L)
{
    static const char *const names[] = {"before_swap", "clock",
                                        "delete_retention_ms", NULL};
    static const lmk_names known = {names, false};
    int64_t delete_retention_ms = -1;
    compactor_box *box;

    check_new(L, &known);
    lmk_option_integer(L, 2, "delete_retention_ms", 0, INT64_MAX,
                       &delete_retention_ms);
    if (!lmk_push_option(L, 2, "before_swap")) {
        lua_pushnil(L);
    } else if (!lua_isfunction(L, -1)) {
        return lmk_option_error(L, 2, "before_swap", "function");
    }
    box = lua_newuserdatauv(L, sizeof *box, 2);
    box->delete_retention_ms = delete_retention_ms;
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, CLEAN_HOOK);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, CLEAN_CLOCK);
    luaL_setmetatable(L, LMK_COMPACTOR);
    return 1;
}

/* What the hook's face needs to find it. */
typedef struct hook_use {
    lmk_call *call; /* Borrowed. */
    int index;      /* Where the function is in the call's frame. */
} hook_use;

static mk_status call_hook(void *context, mk_error *err)
{
    const hook_use *use = context;

    if (!lua_checkstack(use->call->L, LUA_MINSTACK)) {
        return lmk_fill_error(err, MK_NO_MEMORY, "no room for a callback");
    }
    lua_pushvalue(use->call->L, use->index);
    return lmk_callback(use->call, 0, 0, err);
}

/* compactor:compact(log) -> result */
static int compactor_compact(lua_State *L)
{
    const compactor_box *self = lmk_self(L, LMK_COMPACTOR);
    lmk_log_box *box = lmk_check_log(L, 2);
    mk_cleanup_result *result;
    mk_compact_options options;
    lmk_clock_use clock;
    mk_status status;
    hook_use hook;
    lmk_call call;
    mk_log *log;
    mk_error err;

    mk_compact_options_default(&options);
    options.delete_retention_ms = self->delete_retention_ms;
    result = push_holder(L);
    lua_getiuservalue(L, 1, CLEAN_CLOCK);
    clock = (lmk_clock_use){&call, lua_gettop(L)};
    options.clock = lmk_clock_face(L, &clock);
    if (lua_getiuservalue(L, 1, CLEAN_HOOK) != LUA_TNIL) {
        hook = (hook_use){&call, lua_gettop(L)};
        options.before_swap = call_hook;
        options.context = &hook;
    }

    log = lmk_enter(&call, L, box, 2);
    status = mk_log_compact(log, &options, result, &err);
    lmk_finish(&call, status, &err);
    push_result(L, result);
    return 1;
}

static int compactor_tostring(lua_State *L)
{
    const compactor_box *self = lmk_self(L, LMK_COMPACTOR);

    if (self->delete_retention_ms < 0) {
        lua_pushliteral(L, LMK_COMPACTOR "()");
    } else {
        lua_pushfstring(L, "%s(delete_retention_ms = %I)", LMK_COMPACTOR,
                        (LUAI_UACINT)self->delete_retention_ms);
    }
    return 1;
}

/* ---- Types ---- */

void lmk_clean_register(lua_State *L)
{
    static const luaL_Reg retention_methods[] = {
        {"apply", retention_apply},
        {NULL, NULL},
    };
    static const luaL_Reg retention_meta[] = {
        {"__tostring", retention_tostring},
        {NULL, NULL},
    };
    static const luaL_Reg compactor_methods[] = {
        {"compact", compactor_compact},
        {NULL, NULL},
    };
    static const luaL_Reg compactor_meta[] = {
        {"__tostring", compactor_tostring},
        {NULL, NULL},
    };
    static const luaL_Reg holder_methods[] = {{NULL, NULL}};
    static const luaL_Reg holder_meta[] = {
        {"__gc", holder_collect},
        {NULL, NULL},
    };
    static const lmk_type retention = {LMK_RETENTION, retention_methods, NULL,
                                       retention_meta};
    static const lmk_type compactor = {LMK_COMPACTOR, compactor_methods, NULL,
                                       compactor_meta};
    static const lmk_type holder = {RESULT_HOLDER, holder_methods, NULL,
                                    holder_meta};

    lmk_type_register(L, &retention);
    lmk_type_register(L, &compactor);
    lmk_type_register(L, &holder);
    lua_pop(L, 3);
}
