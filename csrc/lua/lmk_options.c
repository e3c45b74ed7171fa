/*
 * lmk_options -- tables of options.
 *
 * Every name is checked before any value; an unknown one is INVALID_ARGUMENT
 * with the nearest known one. A value of the wrong type is an argument error, a
 * value out of its range is INVALID_ARGUMENT. Options are read raw: metatables
 * of the table don't count.
 */
#include <string.h>

#include "lua/lmk.h"

static const char *const codecs[] = {"none", "gzip", "snappy",
                                     "lz4",  "zstd", NULL};

void lmk_check_options(lua_State *L, int arg, const lmk_names *known)
{
    if (lua_isnoneornil(L, arg)) return;
    if (!lua_istable(L, arg)) {
        lmk_type_error(L, arg, "options", "table", arg);
    }
    lua_pushnil(L);
    while (lua_next(L, arg) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING) {
            lmk_arg_error(L, arg, "options: names must be strings");
        }
        lmk_check_name(L, known, "option");
    }
}

bool lmk_push_option(lua_State *L, int arg, const char *name)
{
    if (!lua_istable(L, arg)) return false;
    lua_pushstring(L, name);
    if (lua_rawget(L, arg) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
}

int lmk_option_error(lua_State *L, int arg, const char *name,
                     const char *expected)
{
    int index = lua_gettop(L);

    lua_pushfstring(L, "option '%s'", name);
    return lmk_type_error(L, arg, lua_tostring(L, -1), expected, index);
}

bool lmk_option_integer(lua_State *L, int arg, const char *name,
                        int64_t minimum, int64_t maximum, int64_t *out)
{
    int64_t value;

    if (!lmk_push_option(L, arg, name)) return false;
    if (!lmk_to_integer(L, -1, &value)) {
        lmk_option_error(L, arg, name, "integer");
    }
    if (value < minimum) {
        lmk_raise_status(L, MK_INVALID_ARGUMENT,
                         "option '%s' is %I, and must be at least %I", name,
                         (LUAI_UACINT)value, (LUAI_UACINT)minimum);
    }
    if (value > maximum) {
        lmk_raise_status(L, MK_INVALID_ARGUMENT,
                         "option '%s' is %I, and must be at most %I", name,
                         (LUAI_UACINT)value, (LUAI_UACINT)maximum);
    }
    lua_pop(L, 1);
    *out = value;
    return true;
}

bool lmk_option_boolean(lua_State *L, int arg, const char *name, bool *out)
{
    if (!lmk_push_option(L, arg, name)) return false;
    if (!lua_isboolean(L, -1)) lmk_option_error(L, arg, name, "boolean");
    *out = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return true;
}

bool lmk_option_word(lua_State *L, int arg, const char *name,
                     const char *const *words, int *out)
{
    lmk_names known = {words, false};
    const char *word;

    if (!lmk_push_option(L, arg, name)) return false;
    if (lua_type(L, -1) != LUA_TSTRING) {
        lmk_option_error(L, arg, name, "string");
    }
    word = lua_tostring(L, -1);
    lmk_check_name(L, &known, name);
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) *out = i;
    }
    lua_pop(L, 1);
    return true;
}

void lmk_option_codec(lua_State *L, int arg, mk_codec *out)
{
    int number;

    if (lmk_option_word(L, arg, "compression", codecs, &number)) {
        *out = (mk_codec)number;
    }
}

void lmk_push_codec(lua_State *L, mk_codec codec)
{
    bool known = (size_t)codec < sizeof codecs / sizeof *codecs - 1;

    lua_pushstring(L, known ? codecs[codec] : "unknown");
}

void lmk_option_isolation(lua_State *L, int arg, mk_isolation *out)
{
    static const char *const words[] = {"read_uncommitted", "read_committed",
                                        NULL};
    int number;

    if (!lmk_option_word(L, arg, "isolation", words, &number)) return;
    if (number == MK_READ_COMMITTED) {
        lmk_raise_status(L, MK_UNSUPPORTED,
                         "isolation 'read_committed' is not part of this "
                         "version, which has no transactions");
    }
    *out = (mk_isolation)number;
}

void lmk_option_end_offset(lua_State *L, int arg, int64_t *out)
{
    int64_t end_offset;

    if (!lmk_option_integer(L, arg, "end_offset", INT64_MIN, INT64_MAX,
                            &end_offset)) {
        return;
    }
    *out = end_offset < 0 ? 0 : end_offset;
}

int lmk_push_progress(lua_State *L, int arg)
{
    if (!lmk_push_option(L, arg, "progress")) return 0;
    if (!lua_isfunction(L, -1)) {
        lmk_option_error(L, arg, "progress", "function");
    }
    return lua_gettop(L);
}

void lmk_refuse_option(lua_State *L, int arg, const char *name)
{
    if (!lmk_push_option(L, arg, name)) return;
    if (lua_toboolean(L, -1)) {
        lmk_raise_status(L, MK_UNSUPPORTED,
                         "option '%s' is not part of this version", name);
    }
    lua_pop(L, 1);
}

/* ---- Settings ---- */

/* Make a setting's value of what is at the top; an argument error if it has
 * the wrong type. */
static void check_setting(lua_State *L, int arg, const mk_setting *setting,
                          mk_setting_value *out)
{
    memset(out, 0, sizeof *out);
    out->type = setting->type;
    switch (setting->type) {
    case MK_SETTING_INTEGER:
        if (lmk_to_integer(L, -1, &out->integer)) return;
        lmk_option_error(L, arg, setting->name, "integer");
        return;
    case MK_SETTING_NUMBER:
        out->number = lua_tonumber(L, -1);
        if (lua_type(L, -1) == LUA_TNUMBER) return;
        lmk_option_error(L, arg, setting->name, "number");
        return;
    case MK_SETTING_BOOLEAN:
        out->boolean = lua_toboolean(L, -1);
        if (lua_isboolean(L, -1)) return;
        lmk_option_error(L, arg, setting->name, "boolean");
        return;
    case MK_SETTING_WORD:
    case MK_SETTING_WORDS:
        break;
    }
    if (lua_type(L, -1) != LUA_TSTRING) {
        lmk_option_error(L, arg, setting->name, "string");
    }
    /* A word that is too long, or goes on after a zero byte, is unknown. */
    if (lua_rawlen(L, -1) < sizeof out->text &&
        strlen(lua_tostring(L, -1)) == lua_rawlen(L, -1)) {
        strcpy(out->text, lua_tostring(L, -1));
    } else {
        strcpy(out->text, "?");
    }
}

void lmk_check_settings(lua_State *L, int arg, mk_config *config)
{
    size_t count;
    const mk_setting *settings = mk_settings(&count);

    for (size_t i = 0; i < count; i++) {
        mk_setting_value value;
        mk_status status;
        mk_error err;

        if (!lmk_push_option(L, arg, settings[i].name)) continue;
        check_setting(L, arg, &settings[i], &value);
        status = mk_config_set(config, settings[i].name, &value, &err);
        if (status != MK_OK) lmk_raise(L, status, &err);
        lua_pop(L, 1);
    }
}

static void push_setting(lua_State *L, const mk_setting_value *value)
{
    switch (value->type) {
    case MK_SETTING_INTEGER:
        lua_pushinteger(L, value->integer);
        return;
    case MK_SETTING_NUMBER:
        lua_pushnumber(L, value->number);
        return;
    case MK_SETTING_BOOLEAN:
        lua_pushboolean(L, value->boolean);
        return;
    case MK_SETTING_WORD:
    case MK_SETTING_WORDS:
        lua_pushstring(L, value->text);
        return;
    }
    lua_pushnil(L);
}

void lmk_push_config(lua_State *L, const mk_config *config)
{
    size_t count;
    const mk_setting *settings = mk_settings(&count);

    lua_createtable(L, 0, (int)count);
    for (size_t i = 0; i < count; i++) {
        mk_setting_value value;
        mk_status status;
        mk_error err;

        status = mk_config_get(config, settings[i].name, &value, &err);
        if (status != MK_OK) lmk_raise(L, status, &err);
        push_setting(L, &value);
        lua_setfield(L, -2, settings[i].name);
    }
    luaL_setmetatable(L, LMK_CONFIG);
}
