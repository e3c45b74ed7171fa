/*
 * lmk_args -- arguments, more strictly than Lua's own checks have it.
 *
 * A string that looks like a number is no number here, and a number is no
 * string: offsets and keys are easily mixed up.
 */
#include <string.h>

#include "lua/lmk.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53 */

bool lmk_to_integer(lua_State *L, int index, int64_t *out)
{
    lua_Number number;

    if (lua_isinteger(L, index)) {
        *out = lua_tointeger(L, index);
        return true;
    }
    *out = 0;
    if (lua_type(L, index) != LUA_TNUMBER) return false;
    number = lua_tonumber(L, index);
    if (!(number > -EXACT_MAX && number < EXACT_MAX)) return false;
    *out = (int64_t)number;
    return (lua_Number)*out == number;
}

/* Push the name that the method at the top has in its type's table, or nothing.
 * Upvalue 1 of a method is its metatable. */
static bool push_method_name(lua_State *L)
{
    int method = lua_gettop(L);

    if (!lua_istable(L, lua_upvalueindex(1))) return false;
    lua_getfield(L, lua_upvalueindex(1), "__index");
    /* Of a type with fields, __index is a function, the table its upvalue. */
    if (lua_isfunction(L, -1)) lua_getupvalue(L, -1, 2);
    if (!lua_istable(L, -1)) return false;
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
        if (lua_rawequal(L, -1, method)) {
            lua_pop(L, 1);
            return true;
        }
        lua_pop(L, 1);
    }
    return false;
}

int lmk_arg_error(lua_State *L, int arg, const char *message)
{
    lua_Debug ar;

    lua_getstack(L, 0, &ar);
    lua_getinfo(L, "nf", &ar);
    if (ar.name != NULL || !push_method_name(L)) {
        return luaL_argerror(L, arg, message);
    }
    return luaL_error(L, "bad argument #%d to '%s' (%s)", arg,
                      lua_tostring(L, -1), message);
}

/* Return what to call the value at `index`, which may push it. */
static const char *type_of(lua_State *L, int index)
{
    if (lua_isnone(L, index)) return "no value";
    if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) {
        return lua_tostring(L, -1);
    }
    return luaL_typename(L, index);
}

int lmk_type_error(lua_State *L, int arg, const char *name,
                   const char *expected, int index)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) == LUA_TNUMBER && strcmp(expected, "integer") == 0) {
        lua_pushfstring(L, "%s: number has no integer representation", name);
    } else {
        lua_pushfstring(L, "%s: %s expected, got %s", name, expected,
                        type_of(L, index));
    }
    return lmk_arg_error(L, arg, lua_tostring(L, -1));
}

int64_t lmk_check_float(lua_State *L, int arg, const char *name)
{
    int64_t value;

    if (!lmk_to_integer(L, arg, &value)) {
        lmk_type_error(L, arg, name, "integer", arg);
    }
    return value;
}

int64_t lmk_opt_integer(lua_State *L, int arg, const char *name,
                        int64_t fallback)
{
    if (lua_isnoneornil(L, arg)) return fallback;
    return lmk_check_integer(L, arg, name);
}

void lmk_check_null(lua_State *L, int arg, const char *name)
{
    if (!lua_isnoneornil(L, arg)) {
        lmk_type_error(L, arg, name, "string or nil", arg);
    }
}

const char *lmk_check_directory(lua_State *L, int arg)
{
    const char *name;

    if (lua_type(L, arg) != LUA_TSTRING) {
        lmk_type_error(L, arg, "directory", "string", arg);
    }
    name = lua_tostring(L, arg);
    if (strlen(name) != lua_rawlen(L, arg)) {
        lmk_arg_error(L, arg, "directory: a path holds no zero byte");
    }
    if (name[0] == '\0') {
        lmk_arg_error(L, arg, "directory: the name is empty");
    }
    return name;
}
