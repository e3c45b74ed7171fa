/*
 * lmk_fetch -- log:fetch().
 *
 * A log keeps one cursor for its fetches, in user value LMK_LOG_READER. While
 * a fetch runs the cursor is taken out and stands on the Lua stack: a fetch
 * from within (a finalizer's) makes its own, and after an error the collector
 * gets it.
 */
#include "lua/lmk.h"

/* The list has room for so many records at once, and grows from there. */
#define LIST_ROOM 16

typedef struct fetch_options {
    int64_t max_records, max_bytes, end_offset;
} fetch_options;

/* Read the arguments (offset [, max_records] [, options]). */
static int64_t check_arguments(lua_State *L, fetch_options *out)
{
    static const char *const names[] = {"end_offset", "isolation", "max_bytes",
                                        NULL};
    static const lmk_names known = {names, false};
    mk_isolation isolation = MK_READ_UNCOMMITTED;
    int64_t offset = lmk_check_integer(L, 2, "offset");
    int options = lua_istable(L, 3) ? 3 : 4;

    *out = (fetch_options){500, MK_NO_LIMIT, MK_TO_END};
    if (options == 4) {
        out->max_records = lmk_opt_integer(L, 3, "max_records", 500);
    }
    if (!lua_isnoneornil(L, options)) {
        lmk_check_options(L, options, &known);
        lmk_option_integer(L, options, "max_bytes", 0, INT64_MAX,
                           &out->max_bytes);
        lmk_option_end_offset(L, options, &out->end_offset);
        lmk_option_isolation(L, options, &isolation);
    }
    if (out->max_records < 0) {
        lmk_raise_status(L, MK_INVALID_ARGUMENT,
                         "max_records is %I, and must be at least 0",
                         (LUAI_UACINT)out->max_records);
    }
    return offset;
}

/* Push the log's reader, which is then not the log's until put_reader(). */
static lmk_cursor_box *push_reader(lua_State *L)
{
    if (lua_getiuservalue(L, 1, LMK_LOG_READER) != LUA_TUSERDATA) {
        lua_pop(L, 1);
        return lmk_push_cursor(L, 1, NULL);
    }
    lua_pushnil(L);
    lua_setiuservalue(L, 1, LMK_LOG_READER);
    return lua_touserdata(L, -1);
}

static void put_reader(lua_State *L, int index)
{
    lua_pushvalue(L, index);
    lua_setiuservalue(L, 1, LMK_LOG_READER);
}

/* Begin a run at `offset`. */
static void seek(lua_State *L, lmk_cursor_box *reader, int index,
                 int64_t offset, const fetch_options *options)
{
    mk_status status;
    lmk_call call;
    mk_log *log = lmk_enter(&call, L, reader->log, 1);
    mk_error err;

    status = mk_cursor_seek(reader->cursor, offset, &err);
    if (status == MK_OFFSET_OUT_OF_RANGE && reader->log->read_only) {
        /* What others did meanwhile may have moved the range. */
        status = mk_log_refresh(log, &err);
        if (status == MK_OK) {
            status = mk_cursor_seek(reader->cursor, offset, &err);
        }
    }
    if (status == MK_OK) {
        mk_cursor_limit(reader->cursor, options->end_offset,
                        options->max_records, options->max_bytes);
    } else {
        put_reader(L, index);
    }
    lmk_finish(&call, status, &err);
}

/* Add the run's records to the list at the top. */
static void read_records(lua_State *L, lmk_cursor_box *reader,
                         int64_t max_records)
{
    for (int64_t i = 1; i <= max_records; i++) {
        mk_record_view view;
        mk_status status;
        lmk_call call;
        mk_error err;

        lmk_enter(&call, L, reader->log, 1);
        status = mk_cursor_next(reader->cursor, &view, &err);
        lmk_end(&call);
        if (status == MK_END) return;
        if (status != MK_OK) lmk_call_raise(&call, status, &err);
        lmk_push_record(L, reader, &view);
        lua_rawseti(L, -2, i);
    }
}

/* log:fetch(offset [, max_records] [, options]) -> records, next offset */
static int log_fetch(lua_State *L)
{
    lmk_cursor_box *reader;
    fetch_options options;
    int room = LIST_ROOM;
    int64_t offset;
    int index;

    lmk_check_read_log(L);
    offset = check_arguments(L, &options);
    reader = push_reader(L);
    index = lua_gettop(L);
    seek(L, reader, index, offset, &options);
    if (options.max_records < room) room = (int)options.max_records;
    lmk_push_record_list(L, room);
    read_records(L, reader, options.max_records);
    lua_pushinteger(L, mk_cursor_next_offset(reader->cursor));
    put_reader(L, index);
    return 2;
}

void lmk_fetch_register(lua_State *L)
{
    luaL_getmetatable(L, LMK_LOG);
    lua_pushcclosure(L, log_fetch, 1 + lmk_push_record_parts(L));
    lua_setfield(L, -2, "fetch");
}
