/*
 * lmk_core -- require "minikafka.core": the module that Lua's own files wrap.
 *
 * All state is in the lua_State: metatables in its registry, and handles.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "lua/lmk.h"

/* Types that are tables; their __tostring is written in Lua. */
static const char *const tables[] = {
    LMK_RECORD,     LMK_RECORDS, LMK_BATCH,    LMK_SEGMENT,     LMK_SEGMENTS,
    LMK_CONFIG,     LMK_STATS,   LMK_RESULT,   LMK_FEATURES,    LMK_EVENT,
    LMK_DISK_STATS, LMK_FINDING, LMK_FINDINGS, LMK_REPAIR_PLAN, LMK_REPAIR_STEP,
    LMK_PATHS,      NULL,
};

static void register_tables(lua_State *L)
{
    for (size_t i = 0; tables[i] != NULL; i++) {
        luaL_newmetatable(L, tables[i]);
        lua_pop(L, 1);
    }
}

/* set_tostring(short name of a type of tables, function) */
static int set_tostring(lua_State *L)
{
    luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushfstring(L, "minikafka.%s", lua_tostring(L, 1));
    for (size_t i = 0; tables[i] != NULL; i++) {
        if (strcmp(tables[i], lua_tostring(L, -1)) != 0) continue;
        luaL_getmetatable(L, tables[i]);
        lua_pushvalue(L, 2);
        lua_setfield(L, -2, "__tostring");
        return 0;
    }
    return lmk_arg_error(L, 1, "no type of tables");
}

/* integer(value) -> the integer that it is, as an argument; else nil */
static int integer(lua_State *L)
{
    int64_t value;

    luaL_checkany(L, 1);
    if (lmk_to_integer(L, 1, &value)) {
        lua_pushinteger(L, value);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

/* features() -> which optional parts are built in */
static int features(lua_State *L)
{
    static const char *const parts[] = {
        "gzip",   "kafka_cleaner", "log_dir", "lz4", "policies",
        "snappy", "transactions",  "zstd",    NULL,
    };

    lua_newtable(L);
    for (size_t i = 0; parts[i] != NULL; i++) {
        lua_pushboolean(L, false);
        lua_setfield(L, -2, parts[i]);
    }
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "sim_disk");
    luaL_setmetatable(L, LMK_FEATURES);
    return 1;
}

/* The functions of `minikafka`. */
static void push_public(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"open", lmk_log_open},
        {"ManualClock", lmk_manual_clock_new},
        {"SystemClock", lmk_system_clock_new},
        {"SimDisk", lmk_disk_new},
        {"RetentionManager", lmk_retention_new},
        {"LogCompactor", lmk_compactor_new},
        {"repair", lmk_repair},
        {"features", features},
        {"is_error", lmk_is_error},
        {NULL, NULL},
    };

    luaL_newlib(L, functions);
    lmk_pending_functions(L);
    lua_pushliteral(L, "minikafka " MK_VERSION);
    lua_setfield(L, -2, "_VERSION");
}

/* Keep the module in memory when the last state is closed: the core's handler
 * of SIGBUS stays with the process. */
static void stay_loaded(void)
{
    static const char here;
    Dl_info info;

    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) return;
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

MK_API int luaopen_minikafka_core(lua_State *L);

/* -> { public = functions of minikafka, and helpers for the files in Lua } */
int luaopen_minikafka_core(lua_State *L)
{
    static const luaL_Reg helpers[] = {
        {"integer", integer},
        {"raise", lmk_raise_table},
        {"nearest", lmk_nearest},
        {"set_tostring", set_tostring},
        {NULL, NULL},
    };

    luaL_checkversion(L);
    stay_loaded();
    lmk_error_register(L);
    register_tables(L);
    lmk_clock_register(L);
    lmk_trace_register(L);
    lmk_disk_register(L);
    lmk_states_register(L);
    lmk_log_register(L);
    lmk_cursor_register(L);
    lmk_appender_register(L);
    lmk_clean_register(L);
    lmk_mend_register(L);
    luaL_newlib(L, helpers);
    push_public(L);
    lua_setfield(L, -2, "public");
    return 1;
}
