/*
 * lmk_error -- error objects.
 *
 * An error object is a table: `code`, `message` and what locates the fault;
 * `raised_at` is the line of Lua that made the call, which Lua's own messages
 * begin with. Out of memory is none of them, but Lua's own error.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lua/lmk.h"

#define NAME_SIZE_MAX 64 /* Longer names are compared as far as this. */
#define FEW_NAMES     8  /* So many are told all. */

static void set_string(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_located(lua_State *L, const char *name, int64_t value)
{
    if (value >= 0) set_integer(L, name, value);
}

/* Set `raised_at` of the object at the top, unless it was no line of Lua that
 * called, but pcall() itself, say. */
static void set_line(lua_State *L)
{
    lua_Debug caller;

    if (!lua_getstack(L, 1, &caller) || !lua_getinfo(L, "Sl", &caller)) return;
    if (caller.currentline <= 0) return;
    lua_pushfstring(L, "%s:%d", caller.short_src, caller.currentline);
    lua_setfield(L, -2, "raised_at");
}

/* Push the object for a message that is at the top, in its place. */
static void push_object(lua_State *L, mk_status status)
{
    lua_createtable(L, 0, 5);
    lua_insert(L, -2);
    lua_setfield(L, -2, "message");
    set_string(L, "code", mk_status_name(status));
    set_line(L);
    luaL_setmetatable(L, LMK_ERROR);
}

/* Set `found` of the object at the top: a list of {path, what, note}. */
static void set_found(lua_State *L, const mk_error *err)
{
    lua_createtable(L, (int)err->found_count, 0);
    for (size_t i = 0; i < err->found_count; i++) {
        const mk_found *found = &err->found[i];

        lua_createtable(L, 0, 3);
        set_string(L, "path", found->path);
        set_string(L, "what", found->what);
        if (found->note != NULL) set_string(L, "note", found->note);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "found");
}

/* Lua has no public way to raise its memory error, but this is its value. */
static int raise_no_memory(lua_State *L)
{
    lua_pushliteral(L, "not enough memory");
    return lua_error(L);
}

int lmk_raise(lua_State *L, mk_status status, const mk_error *err)
{
    if (status == MK_NO_MEMORY) return raise_no_memory(L);
    lua_pushstring(L, err->message[0] != '\0' ? err->message
                                              : mk_status_text(status));
    push_object(L, status);
    if (err->path[0] != '\0') set_string(L, "path", err->path);
    if (err->os_errno != 0) {
        set_string(L, "errno", mk_errno_name(err->os_errno));
    }
    set_located(L, "offset", err->offset);
    set_located(L, "position", err->position);
    /* Lists of Lua begin at 1. */
    if (err->record_index >= 0) {
        set_integer(L, "record_index", err->record_index + 1);
    }
    if (status == MK_OFFSET_OUT_OF_RANGE) {
        set_integer(L, "requested", err->requested);
        set_integer(L, "log_start_offset", err->log_start_offset);
        set_integer(L, "log_end_offset", err->log_end_offset);
    }
    if (status == MK_SWAP_AMBIGUOUS) set_found(L, err);
    return lua_error(L);
}

int lmk_raise_status(lua_State *L, mk_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    push_object(L, status);
    return lua_error(L);
}

int lmk_raise_closed(lua_State *L, const char *what)
{
    return lmk_raise_status(L, MK_CLOSED, "this %s is closed", what);
}

mk_status lmk_fill_error(mk_error *err, mk_status status, const char *message)
{
    if (err == NULL) return status;
    *err = (mk_error){.status = status,
                      .offset = -1,
                      .position = -1,
                      .record_index = -1,
                      .requested = -1,
                      .log_start_offset = -1,
                      .log_end_offset = -1};
    snprintf(err->message, sizeof err->message, "%s", message);
    return status;
}

/* ---- The nearest known name ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Return how many letters have to be put in or left out to make `b` of `a`; two
 * neighbours may change places at the price of one. A part of a name is thus
 * nearer to it than a name that is merely as long. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NAME_SIZE_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *here = rows[2];
    size_t a_size = least(strlen(a), NAME_SIZE_MAX);
    size_t b_size = least(strlen(b), NAME_SIZE_MAX);

    memset(rows, 0, sizeof rows);
    for (size_t j = 0; j <= b_size; j++) {
        above[j] = j;
    }
    for (size_t i = 1; i <= a_size; i++) {
        size_t *last = before;

        here[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            bool swapped =
                i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];

            here[j] = least(least(above[j], here[j - 1]) + 1,
                            above[j - 1] + (a[i - 1] != b[j - 1] ? 2 : 0));
            if (swapped) here[j] = least(here[j], before[j - 2] + 1);
        }
        before = above;
        above = here;
        here = last;
    }
    return above[b_size];
}

static const char *nearer(const char *name, const char *a, const char *b)
{
    if (a == NULL) return b;
    return distance(name, b) < distance(name, a) ? b : a;
}

/* Return the known name that is `name`, or NULL; with `nearest`, the one that
 * is nearest to it. */
static const char *find_name(const lmk_names *known, const char *name,
                             bool nearest)
{
    const char *found = NULL;
    const mk_setting *settings = NULL;
    size_t setting_count = 0;
    size_t count = 0;

    if (known->settings) settings = mk_settings(&setting_count);
    while (known->names[count] != NULL) {
        count++;
    }
    for (size_t i = 0; i < count + setting_count; i++) {
        const char *candidate =
            i < count ? known->names[i] : settings[i - count].name;

        if (nearest) {
            found = nearer(name, found, candidate);
        } else if (strcmp(candidate, name) == 0) {
            return candidate;
        }
    }
    return found;
}

/* Push what to say of a name that is none of the known ones: the nearest, if it
 * could be meant, else all of them if they are few. */
static void push_hint(lua_State *L, const lmk_names *known, const char *name,
                      const char *nearest)
{
    size_t count = 0;

    while (known->names[count] != NULL) {
        count++;
    }
    if (distance(name, nearest) <= strlen(name)) {
        lua_pushfstring(L, "': did you mean '%s'?", nearest);
    } else if (known->settings || count > FEW_NAMES) {
        lua_pushliteral(L, "'");
    } else {
        lua_pushliteral(L, "': there are ");
        for (size_t i = 0; i < count; i++) {
            lua_pushfstring(L, "%s%s", i > 0 ? ", " : "", known->names[i]);
            lua_concat(L, 2);
        }
    }
}

void lmk_check_name(lua_State *L, const lmk_names *known, const char *what)
{
    size_t size;
    const char *name = lua_tolstring(L, -1, &size);
    const char *nearest;

    if (strlen(name) == size && find_name(known, name, false) != NULL) return;
    nearest = find_name(known, name, true);
    lua_pushfstring(L, "unknown %s '", what);
    lua_insert(L, -2); /* Whole, whatever bytes the name has. */
    push_hint(L, known, name, nearest);
    lua_concat(L, 3);
    push_object(L, MK_INVALID_ARGUMENT);
    set_string(L, "nearest", nearest);
    lua_error(L);
}

/* nearest(name, list) -> the string of the list that is nearest to name. */
int lmk_nearest(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const char *found = NULL;

    luaL_checktype(L, 2, LUA_TTABLE);
    for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TSTRING; i++) {
        found = nearer(name, found, lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pushstring(L, found);
    return 1;
}

/* ---- What Lua sees ---- */

static bool is_object(lua_State *L, int index)
{
    bool is;

    if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return false;
    luaL_getmetatable(L, LMK_ERROR);
    is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return is;
}

/* is_error(value [, code]) -> is it an error object, and of this code? */
int lmk_is_error(lua_State *L)
{
    bool is;

    luaL_checkany(L, 1);
    if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TSTRING) {
        return lmk_type_error(L, 2, "code", "string", 2);
    }
    lua_settop(L, 2);
    is = is_object(L, 1);
    if (is && !lua_isnil(L, 2)) {
        lua_pushliteral(L, "code");
        lua_rawget(L, 1);
        is = lua_rawequal(L, -1, 2);
    }
    lua_pushboolean(L, is);
    return 1;
}

/* raise(fields): make an error object of a table, and raise it. */
int lmk_raise_table(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_setmetatable(L, LMK_ERROR);
    return lua_error(L);
}

static int error_tostring(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushliteral(L, "message");
    lua_rawget(L, 1);
    lua_pushliteral(L, "code");
    lua_rawget(L, 1);
    lua_pushliteral(L, "raised_at");
    lua_rawget(L, 1);
    lua_pushfstring(L, "%s%s%s (%s)", lua_isnil(L, 4) ? "" : lua_tostring(L, 4),
                    lua_isnil(L, 4) ? "" : ": ", luaL_tolstring(L, 2, NULL),
                    luaL_tolstring(L, 3, NULL));
    return 1;
}

void lmk_error_register(lua_State *L)
{
    luaL_newmetatable(L, LMK_ERROR);
    lua_pushcfunction(L, error_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
}
