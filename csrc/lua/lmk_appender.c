/*
 * lmk_appender -- log:appender(): many records a batch.
 *
 * User value 1 is the log's box.
 */
#include "lua/lmk.h"

typedef struct appender_box {
    mk_appender *appender; /* Owned; NULL once closed. */
    lmk_log_box *log;      /* Borrowed: user value 1 holds it. */
} appender_box;

static appender_box *self_appender(lua_State *L)
{
    return lmk_self(L, LMK_APPENDER);
}

/* Return the open box; a closed one raises CLOSED. */
static appender_box *check_appender(lua_State *L)
{
    appender_box *box = self_appender(L);

    if (box->appender == NULL) lmk_raise_closed(L, "appender");
    return box;
}

/* The same, and begin a call. */
static inline mk_appender *enter(lmk_call *call, lua_State *L,
                                 appender_box *box)
{
    if (box->appender == NULL) lmk_raise_closed(L, "appender");
    lmk_enter_child(call, L, box->log);
    return box->appender;
}

static void check_appender_options(lua_State *L, int arg,
                                   mk_appender_options *out)
{
    static const char *const names[] = {"batch_bytes", "compression",
                                        "linger_ms", NULL};
    static const lmk_names known = {names, false};
    int64_t batch_bytes = 0;

    mk_appender_options_default(out);
    lmk_check_options(L, arg, &known);
    if (lmk_option_integer(L, arg, "batch_bytes", 1, INT32_MAX, &batch_bytes)) {
        out->batch_bytes = (size_t)batch_bytes;
    }
    lmk_option_integer(L, arg, "linger_ms", 0, INT64_MAX, &out->linger_ms);
    lmk_option_codec(L, arg, &out->compression);
}

/* log:appender([options]) -> appender */
int lmk_log_appender(lua_State *L)
{
    lmk_log_box *log_box = lmk_check_self_log(L);
    mk_appender_options options;
    appender_box *box;
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    check_appender_options(L, 2, &options);
    box = lua_newuserdatauv(L, sizeof *box, 1);
    box->appender = NULL;
    box->log = log_box;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, LMK_APPENDER);
    log = lmk_enter(&call, L, log_box, 1);
    status = mk_appender_open(log, &options, &box->appender, &err);
    lmk_finish(&call, status, &err);
    return 1;
}

/* appender:append(record or list) */
static int appender_append(lua_State *L)
{
    appender_box *box = check_appender(L);
    mk_appender *appender;
    lmk_records records;
    mk_status status;
    lmk_call call;
    mk_error err;

    lmk_refuse_append_options(L, 3);
    lmk_check_records(L, 2, box->log->lua_clock, &records);
    appender = enter(&call, L, box);
    status = mk_appender_append(appender, records.records, records.count, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* appender:append_kv(key, value [, timestamp_ms [, headers]]) */
static int appender_append_kv(lua_State *L)
{
    appender_box *box = check_appender(L);
    mk_appender *appender;
    lmk_records records;
    mk_status status;
    lmk_call call;
    mk_error err;

    lmk_check_record(L, box->log->lua_clock, &records);
    appender = enter(&call, L, box);
    status = mk_appender_append_one(appender, &records.one, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* appender:flush() -> first and last offset of what was appended since the last
 * flush; nothing if nothing was */
static int appender_flush(lua_State *L)
{
    appender_box *box = check_appender(L);
    mk_appender *appender;
    mk_offset_range range;
    mk_status status;
    lmk_call call;
    mk_error err;

    appender = enter(&call, L, box);
    status = mk_appender_flush(appender, &range, &err);
    lmk_finish(&call, status, &err);
    if (range.first < 0) return 0;
    lua_pushinteger(L, range.first);
    lua_pushinteger(L, range.last);
    return 2;
}

/* Close the appender if it is open; the box is closed whatever happens. What
 * lost power has nothing left to be done. */
static mk_status close_box(lua_State *L, lmk_call *call, mk_error *err)
{
    appender_box *box = self_appender(L);
    mk_status status = MK_OK;
    mk_appender *appender;

    lmk_enter_child(call, L, box->log);
    appender = box->appender;
    box->appender = NULL;
    if (appender != NULL) status = mk_appender_close(appender, err);
    lmk_end(call);
    return status == MK_CRASHED ? MK_OK : status;
}

/* appender:close() */
static int appender_close(lua_State *L)
{
    lmk_call call;
    mk_error err;
    mk_status status = close_box(L, &call, &err);

    if (status != MK_OK) return lmk_call_raise(&call, status, &err);
    return 0;
}

/* __close: as close(), but never hides an error that is already on its way. */
static int appender_leave(lua_State *L)
{
    lmk_call call;
    mk_error err;
    mk_status status = close_box(L, &call, &err);

    if (status != MK_OK && lua_isnoneornil(L, 2)) {
        return lmk_call_raise(&call, status, &err);
    }
    return 0;
}

static int appender_collect(lua_State *L)
{
    appender_box *box = self_appender(L);
    mk_appender *appender = box->appender;

    box->appender = NULL;
    mk_appender_abandon(appender);
    return 0;
}

static int appender_tostring(lua_State *L)
{
    const appender_box *box = self_appender(L);

    if (box->appender == NULL || box->log->log == NULL) {
        lua_pushliteral(L, LMK_APPENDER " (closed)");
        return 1;
    }
    lua_getiuservalue(L, 1, 1);
    lua_getiuservalue(L, -1, LMK_LOG_DIRECTORY);
    lua_pushfstring(L, "%s(%s)", LMK_APPENDER, lua_tostring(L, -1));
    return 1;
}

void lmk_appender_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"append", appender_append},
        {"append_kv", appender_append_kv},
        {"flush", appender_flush},
        {"close", appender_close},
        {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__tostring", appender_tostring},
        {"__close", appender_leave},
        {"__gc", appender_collect},
        {NULL, NULL},
    };
    static const lmk_type type = {LMK_APPENDER, methods, NULL, meta};

    lmk_type_register(L, &type);
    lua_pop(L, 1);
}
