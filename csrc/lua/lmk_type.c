/*
 * lmk_type -- how types of userdata are made.
 *
 * Methods stand in a table of their own, so that a metamethod is no method.
 * Each of them, and each metamethod, has the metatable as its first upvalue. A
 * type without fields has the table of methods for __index, which is faster.
 */
#include "lua/lmk.h"

/* __index of a type with fields. Upvalues: metatable, methods, getters. */
static int type_index(lua_State *L)
{
    lua_CFunction getter;

    /* Nearly all that is looked up are methods. */
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) return 1;
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(3));
    getter = lua_tocfunction(L, -1);
    lua_settop(L, 2);
    if (getter != NULL) return getter(L);
    lua_pushnil(L);
    return 1;
}

/* Push a table of closures that have the metatable at `metatable`. */
static void push_functions(lua_State *L, const luaL_Reg *functions,
                           int metatable)
{
    lua_newtable(L);
    lua_pushvalue(L, metatable);
    luaL_setfuncs(L, functions, 1);
}

static void set_index(lua_State *L, const luaL_Reg *fields, int metatable)
{
    int methods = lua_gettop(L);

    if (fields == NULL) {
        lua_pushvalue(L, methods);
    } else {
        lua_pushvalue(L, metatable);
        lua_pushvalue(L, methods);
        lua_newtable(L);
        luaL_setfuncs(L, fields, 0);
        lua_pushcclosure(L, type_index, 3);
    }
    lua_setfield(L, metatable, "__index");
}

void lmk_type_register(lua_State *L, const lmk_type *type)
{
    int metatable;

    /* What an earlier attempt that ran out of memory left is done anew. */
    luaL_newmetatable(L, type->name);
    metatable = lua_gettop(L);
    lua_pushstring(L, type->name);
    lua_setfield(L, metatable, "__metatable");
    lua_pushvalue(L, metatable);
    lua_pushvalue(L, metatable);
    luaL_setfuncs(L, type->meta, 1);
    lua_pop(L, 1);
    push_functions(L, type->methods, metatable);
    set_index(L, type->fields, metatable);
    lua_remove(L, metatable);
}
