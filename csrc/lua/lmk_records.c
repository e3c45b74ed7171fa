/*
 * lmk_records -- records on their way in: Lua tables to mk_record.
 *
 * What reaches the core are pointers into Lua strings. They stay valid because
 * the strings stand in the caller's tables and arguments, and because nothing
 * in between can change those tables: they are read raw, and after the memory
 * for the result has been allocated nothing is allocated that could run a
 * finalizer. A clock that is a Lua function does run during the call; for that
 * case all strings are collected in a table of our own (the anchor).
 *
 * A table with something at [1] is a list, any other a record; an empty one is
 * a list of no records.
 */
#include <limits.h>
#include <string.h>

#include "lua/lmk.h"

/* What is being read, and what of it is still to come. */
typedef struct reading {
    lua_State *L;
    int arg;            /* The argument, for messages. */
    lua_Integer number; /* The record's place in its list, or 0. */
    mk_header *headers; /* Borrowed: room for the headers to come, */
    size_t room;        /* ... so many. */
    int anchor;         /* Where the anchor is, or 0. */
    lua_Integer anchored;
} reading;

/* ---- Faults ---- */

/* Raise the argument error of a shape: "record 3: key: ...". */
static int shape_error(const reading *r, const char *format, const char *name)
{
    lua_State *L = r->L;

    if (r->number == 0) {
        lua_pushliteral(L, "");
    } else {
        lua_pushfstring(L, "record %I: ", (LUAI_UACINT)r->number);
    }
    lua_pushfstring(L, format, name);
    lua_concat(L, 2);
    return lmk_arg_error(L, r->arg, lua_tostring(L, -1));
}

/* The value at the top, of the record's field `name`, has the wrong type. */
static int field_error(const reading *r, const char *name, const char *expected)
{
    bool fraction =
        lua_type(r->L, -1) == LUA_TNUMBER && strcmp(expected, "integer") == 0;

    lua_pushfstring(r->L,
                    fraction ? "%s: number has no integer representation"
                             : "%s: %s expected, got %s",
                    name, expected, luaL_typename(r->L, -1));
    return shape_error(r, "%s", lua_tostring(r->L, -1));
}

/* ---- Fields ---- */

/* Return the bytes of the string at the top, which goes on living. */
static const void *take_string(reading *r, const char *name,
                               const char *expected, size_t *size)
{
    if (lua_type(r->L, -1) != LUA_TSTRING) field_error(r, name, expected);
    if (r->anchor != 0) {
        lua_pushvalue(r->L, -1);
        lua_rawseti(r->L, r->anchor, ++r->anchored);
    }
    return lua_tolstring(r->L, -1, size);
}

static int64_t take_time(const reading *r)
{
    int64_t time_ms;

    if (!lmk_to_integer(r->L, -1, &time_ms)) {
        field_error(r, "timestamp_ms", "integer");
    }
    return lmk_to_record_time(time_ms);
}

/* Raise an error unless the table at the top has entries at 1..count only. */
static void check_list(const reading *r, size_t count, const char *what)
{
    size_t found = 0;

    lua_pushnil(r->L);
    while (lua_next(r->L, -2) != 0) {
        lua_Integer place = lua_tointeger(r->L, -2);
        bool fits = lua_isinteger(r->L, -2) && place >= 1 &&
                    (lua_Unsigned)place <= count;

        if (!fits) shape_error(r, "%s: a list without names expected", what);
        found++;
        lua_pop(r->L, 1);
    }
    if (found != count) {
        shape_error(r, "%s: a list without holes expected", what);
    }
}

/* Read the table {name [, value]} at the top. */
static void take_header(reading *r, mk_header *out)
{
    if (!lua_istable(r->L, -1)) {
        field_error(r, "headers: each", "{name, value}");
    }
    check_list(r, lua_rawlen(r->L, -1), "headers: header");
    if (lua_rawlen(r->L, -1) > 2) {
        shape_error(r, "%s: {name, value} expected", "headers");
    }
    lua_rawgeti(r->L, -1, 1);
    out->name = take_string(r, "headers: name", "string", &out->name_size);
    lua_pop(r->L, 1);
    out->value = NULL;
    out->value_size = 0;
    if (lua_rawgeti(r->L, -1, 2) != LUA_TNIL) {
        out->value =
            take_string(r, "headers: value", "string or nil", &out->value_size);
    }
    lua_pop(r->L, 1);
}

/* Read the list of headers at the top. */
static void take_headers(reading *r, mk_record *out)
{
    size_t count;

    if (!lua_istable(r->L, -1)) {
        field_error(r, "headers", "list of {name, value}");
    }
    count = lua_rawlen(r->L, -1);
    check_list(r, count, "headers");
    if (count > r->room) shape_error(r, "%s: changed while read", "headers");
    out->headers = count > 0 ? r->headers : NULL;
    out->header_count = count;
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(r->L, -1, (lua_Integer)i + 1);
        take_header(r, &r->headers[i]);
        lua_pop(r->L, 1);
    }
    r->headers += count;
    r->room -= count;
}

static bool is_name(const char *name, size_t size, const char *other)
{
    return size == strlen(other) && memcmp(name, other, size) == 0;
}

/* Take the field whose name and value are the two topmost values. */
static void take_field(reading *r, mk_record *out)
{
    static const char *const names[] = {"headers",      "key",   "offset",
                                        "timestamp_ms", "value", NULL};
    static const lmk_names known = {names, false};
    const char *name;
    size_t size;

    if (lua_type(r->L, -2) != LUA_TSTRING) {
        shape_error(r, "%s: names of fields must be strings", "record");
    }
    name = lua_tolstring(r->L, -2, &size);
    if (is_name(name, size, "key")) {
        out->key = take_string(r, name, "string or nil", &out->key_size);
    } else if (is_name(name, size, "value")) {
        out->value = take_string(r, name, "string or nil", &out->value_size);
    } else if (is_name(name, size, "timestamp_ms")) {
        out->timestamp_ms = take_time(r);
    } else if (is_name(name, size, "headers")) {
        take_headers(r, out);
    } else if (!is_name(name, size, "offset")) {
        lua_pushvalue(r->L, -2);
        lmk_check_name(r->L, &known, "field of a record");
    }
}

/* Read the record at the top. */
static void take_record(reading *r, mk_record *out)
{
    *out = (mk_record){.timestamp_ms = MK_TIMESTAMP_NOW};
    lua_pushnil(r->L);
    while (lua_next(r->L, -2) != 0) {
        take_field(r, out);
        lua_pop(r->L, 1);
    }
}

/* ---- Memory ---- */

/* Return how many headers the value at the top, a record, has. */
static size_t count_headers(const reading *r)
{
    size_t count = 0;

    if (!lua_istable(r->L, -1)) {
        shape_error(r, "table expected, got %s", luaL_typename(r->L, -1));
    }
    lua_pushliteral(r->L, "headers");
    if (lua_rawget(r->L, -2) == LUA_TTABLE) count = lua_rawlen(r->L, -1);
    lua_pop(r->L, 1);
    return count;
}

/* Return how many headers the list at the top, of records, has. */
static size_t count_all_headers(reading *r, size_t record_count)
{
    size_t count = 0;

    for (size_t i = 1; i <= record_count; i++) {
        r->number = (lua_Integer)i;
        lua_rawgeti(r->L, -1, r->number);
        count += count_headers(r);
        lua_pop(r->L, 1);
    }
    r->number = 0;
    return count;
}

/* Push memory for `count` things. */
static void *push_array(lua_State *L, size_t count, size_t thing_size)
{
    if (count > SIZE_MAX / 2 / thing_size) luaL_error(L, "too many records");
    return lua_newuserdatauv(L, count * thing_size, 0);
}

static void prepare_anchor(reading *r, size_t string_count)
{
    int room = string_count < INT_MAX ? (int)string_count : INT_MAX;

    lua_createtable(r->L, room, 0);
    r->anchor = lua_gettop(r->L);
}

/* Get memory for records (beyond the one at hand) and headers. */
static void prepare(reading *r, size_t record_count, size_t header_count,
                    bool anchored, lmk_records *out)
{
    out->records = &out->one;
    out->count = record_count;
    if (record_count > 1) {
        out->records = push_array(r->L, record_count, sizeof *out->records);
    }
    r->headers = out->few;
    r->room = LMK_FEW_HEADERS;
    if (header_count > LMK_FEW_HEADERS) {
        r->headers = push_array(r->L, header_count, sizeof *r->headers);
        r->room = header_count;
    }
    if (anchored) prepare_anchor(r, 2 * (record_count + header_count));
}

/* ---- Arguments ---- */

static void check_one(reading *r, bool anchored, lmk_records *out)
{
    lua_pushvalue(r->L, r->arg);
    prepare(r, 1, count_headers(r), anchored, out);
    lua_pushvalue(r->L, r->arg);
    take_record(r, &out->one);
}

static void check_many(reading *r, bool anchored, lmk_records *out)
{
    size_t count = lua_rawlen(r->L, r->arg);

    lua_pushvalue(r->L, r->arg);
    check_list(r, count, "records");
    prepare(r, count, count_all_headers(r, count), anchored, out);
    lua_pushvalue(r->L, r->arg);
    for (size_t i = 0; i < count; i++) {
        r->number = (lua_Integer)i + 1;
        if (lua_rawgeti(r->L, -1, r->number) != LUA_TTABLE) {
            shape_error(r, "%s: changed while read", "list");
        }
        take_record(r, &out->records[i]);
        lua_pop(r->L, 1);
    }
}

void lmk_check_records(lua_State *L, int arg, bool anchored, lmk_records *out)
{
    reading r = {.L = L, .arg = arg};
    bool has_first;

    if (!lua_istable(L, arg)) lmk_type_error(L, arg, "records", "table", arg);
    has_first = lua_rawgeti(L, arg, 1) != LUA_TNIL;
    lua_pop(L, 1);
    if (has_first) {
        check_many(&r, anchored, out);
        return;
    }
    lua_pushnil(L);
    if (lua_next(L, arg) != 0) {
        lua_pop(L, 2);
        check_one(&r, anchored, out);
        return;
    }
    out->records = &out->one;
    out->count = 0;
}

/* Read the headers of argument `arg` into `out->one`. */
static void check_headers(lua_State *L, int arg, bool anchored,
                          lmk_records *out)
{
    reading r = {.L = L, .arg = arg};

    if (!lua_istable(L, arg)) lmk_type_error(L, arg, "headers", "table", arg);
    prepare(&r, 1, lua_rawlen(L, arg), anchored, out);
    lua_pushvalue(L, arg);
    take_headers(&r, &out->one);
}

void lmk_check_record(lua_State *L, bool anchored, lmk_records *out)
{
    mk_record *one = &out->one;
    int top = lua_gettop(L);

    if (top < 3) {
        lmk_arg_error(L, top + 1,
                      top < 2 ? "key expected (nil is written out)"
                              : "value expected (nil is written out)");
    }
    one->key = lmk_opt_bytes(L, 2, "key", &one->key_size);
    one->value = lmk_opt_bytes(L, 3, "value", &one->value_size);
    one->timestamp_ms = MK_TIMESTAMP_NOW;
    if (top > 3 && !lua_isnil(L, 4)) {
        one->timestamp_ms =
            lmk_to_record_time(lmk_check_integer(L, 4, "timestamp_ms"));
    }
    one->offset = 0;
    one->headers = NULL;
    one->header_count = 0;
    out->records = one;
    out->count = 1;
    if (top > 4 && !lua_isnil(L, 5)) check_headers(L, 5, anchored, out);
}
