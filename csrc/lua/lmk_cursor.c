/*
 * lmk_cursor -- cursors, and the loops over records and batches.
 *
 * User value 1 is the log's box. A loop's iterator is a plain C function: its
 * body may yield. Its upvalues are the cursor and the log, and the cursor is
 * the closing value, so that leaving the loop releases what it held.
 *
 * A cursor that is called by a `for` is asked with nil first and then with the
 * last offset: the nil begins a new run, up to the end as it is then.
 */
#include "lua/lmk.h"

static lmk_cursor_box *self_cursor(lua_State *L)
{
    return lmk_self(L, LMK_CURSOR);
}

/* Return the open cursor of a box, about to be called on. */
static mk_cursor *move(lua_State *L, lmk_cursor_box *box)
{
    if (box->cursor == NULL) lmk_raise_closed(L, "cursor");
    box->moves++;
    return box->cursor;
}

/* ---- Life ---- */

lmk_cursor_box *lmk_push_cursor(lua_State *L, int log_index,
                                const int64_t *from)
{
    lmk_log_box *log_box = lua_touserdata(L, log_index);
    lmk_cursor_box *box = lua_newuserdatauv(L, sizeof *box, 1);
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    *box = (lmk_cursor_box){.log = log_box};
    lua_pushvalue(L, log_index);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, LMK_CURSOR);
    log = lmk_enter(&call, L, log_box, log_index);
    status = mk_cursor_open(log, NULL, &box->cursor, &err);
    if (status == MK_OK && from != NULL) {
        status = mk_cursor_seek(box->cursor, *from, &err);
    }
    lmk_finish(&call, status, &err);
    return box;
}

void lmk_cursor_release(lmk_cursor_box *box)
{
    mk_cursor *cursor = box->cursor;

    box->cursor = NULL;
    box->moves++;
    mk_cursor_close(cursor);
}

int64_t lmk_log_end_now(lua_State *L, lmk_log_box *box, int log_index)
{
    mk_status status = MK_OK;
    mk_log_info info;
    lmk_call call;
    mk_log *log = lmk_enter(&call, L, box, log_index);
    mk_error err;

    if (box->read_only) status = mk_log_refresh(log, &err);
    if (status == MK_OK) status = mk_log_get_info(log, &info, &err);
    lmk_finish(&call, status, &err);
    return info.log_end_offset;
}

/* ---- Loops ---- */

/* Push the next record's values, or nil at the end of the run. */
static int next_record(lua_State *L, lmk_cursor_box *box, int log_index)
{
    mk_cursor *cursor = move(L, box);
    mk_record_view view;
    mk_status status;
    lmk_call call;
    mk_error err;

    lmk_begin(&call, L, box->log, log_index);
    status = mk_cursor_next(cursor, &view, &err);
    lmk_end(&call);
    if (status == MK_OK) {
        lmk_push_record_values(L, box, &view);
        return 5;
    }
    if (status != MK_END) return lmk_call_raise(&call, status, &err);
    lua_pushnil(L);
    return 1;
}

static int records_step(lua_State *L)
{
    return next_record(L, lua_touserdata(L, lua_upvalueindex(1)),
                       lua_upvalueindex(2));
}

static int batches_step(lua_State *L)
{
    lmk_cursor_box *box = lua_touserdata(L, lua_upvalueindex(1));
    mk_cursor *cursor = move(L, box);
    mk_batch_view view;
    mk_status status;
    lmk_call call;
    mk_error err;

    lmk_begin(&call, L, box->log, lua_upvalueindex(2));
    status = mk_cursor_next_batch(cursor, &view, &err);
    lmk_end(&call);
    if (status == MK_OK) {
        lmk_push_batch(L, &view);
        return 1;
    }
    if (status != MK_END) return lmk_call_raise(&call, status, &err);
    lua_pushnil(L);
    return 1;
}

/* The arguments ([from] [, options]) of a loop: return where the options are,
 * and tell whether there is a `from`. */
static int check_range(lua_State *L, bool *has_from, int64_t *from)
{
    *has_from = false;
    if (lua_istable(L, 2)) return 2;
    *has_from = !lua_isnoneornil(L, 2);
    *from = lmk_opt_integer(L, 2, "from", 0);
    return 3;
}

/* Push the four values of a loop over the log that is `self`. */
static int push_loop(lua_State *L, lua_CFunction step)
{
    static const char *const names[] = {"end_offset", "isolation", NULL};
    static const lmk_names known = {names, false};
    lmk_log_box *log_box = lmk_check_read_log(L);
    mk_isolation isolation = MK_READ_UNCOMMITTED;
    int64_t end_offset = INT64_MAX;
    int64_t from, log_end;
    lmk_cursor_box *box;
    bool has_from;
    int options;

    options = check_range(L, &has_from, &from);
    lmk_check_options(L, options, &known);
    lmk_option_end_offset(L, options, &end_offset);
    lmk_option_isolation(L, options, &isolation);

    log_end = lmk_log_end_now(L, log_box, 1);
    if (end_offset > log_end) end_offset = log_end;
    box = lmk_push_cursor(L, 1, has_from ? &from : NULL);
    mk_cursor_limit(box->cursor, end_offset, MK_NO_LIMIT, MK_NO_LIMIT);
    lua_pushvalue(L, -1);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, step, 2);
    lua_insert(L, -2);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_rotate(L, -3, -1);
    return 4;
}

/* log:records([from] [, options]) */
int lmk_log_records(lua_State *L)
{
    return push_loop(L, records_step);
}

/* log:batches([from] [, options]) */
int lmk_log_batches(lua_State *L)
{
    return push_loop(L, batches_step);
}

/* ---- Cursors by themselves ---- */

/* log:cursor([options]) */
int lmk_log_cursor(lua_State *L)
{
    static const char *const names[] = {"from", "isolation", NULL};
    static const lmk_names known = {names, false};
    lmk_log_box *log_box = lmk_check_read_log(L);
    mk_isolation isolation = MK_READ_UNCOMMITTED;
    int64_t from = 0;
    bool has_from;

    lmk_check_options(L, 2, &known);
    has_from = lmk_option_integer(L, 2, "from", INT64_MIN, INT64_MAX, &from);
    lmk_option_isolation(L, 2, &isolation);
    if (log_box->read_only) lmk_log_end_now(L, log_box, 1);
    lmk_push_cursor(L, 1, has_from ? &from : NULL);
    return 1;
}

/* __call: (cursor, nil, last offset or nil) -> the next record's values */
static int cursor_call(lua_State *L)
{
    lmk_cursor_box *box = self_cursor(L);
    int log_index = 0;

    move(L, box);
    if (box->log->lua_clock || lua_isnoneornil(L, 3)) {
        lua_getiuservalue(L, 1, 1);
        log_index = lua_gettop(L);
    }
    if (lua_isnoneornil(L, 3)) {
        int64_t end_offset = lmk_log_end_now(L, box->log, log_index);

        mk_cursor_limit(move(L, box), end_offset, MK_NO_LIMIT, MK_NO_LIMIT);
    }
    return next_record(L, box, log_index);
}

/* cursor:seek(offset) */
static int cursor_seek(lua_State *L)
{
    lmk_cursor_box *box = self_cursor(L);
    int64_t offset;
    mk_status status;
    lmk_call call;
    mk_error err;

    move(L, box);
    offset = lmk_check_integer(L, 2, "offset");
    lmk_enter_child(&call, L, box->log);
    status = mk_cursor_seek(box->cursor, offset, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* cursor:seek_time(t) */
static int cursor_seek_time(lua_State *L)
{
    lmk_cursor_box *box = self_cursor(L);
    int64_t time_ms;
    mk_status status;
    lmk_call call;
    mk_error err;

    move(L, box);
    time_ms = lmk_check_integer(L, 2, "t");
    lmk_enter_child(&call, L, box->log);
    status = mk_cursor_seek_time(box->cursor, time_ms, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

static int cursor_get_next_offset(lua_State *L)
{
    lmk_cursor_box *box = self_cursor(L);

    if (box->cursor == NULL) return lmk_raise_closed(L, "cursor");
    if (box->log->log == NULL) return lmk_raise_closed(L, "log");
    lua_pushinteger(L, mk_cursor_next_offset(box->cursor));
    return 1;
}

/* cursor:close(), __close and __gc: a cursor's end can't fail. */
static int cursor_close(lua_State *L)
{
    lmk_cursor_release(self_cursor(L));
    return 0;
}

static int cursor_tostring(lua_State *L)
{
    const lmk_cursor_box *box = self_cursor(L);
    const char *name;

    if (box->cursor == NULL || box->log->log == NULL) {
        lua_pushliteral(L, LMK_CURSOR " (closed)");
        return 1;
    }
    lua_getiuservalue(L, 1, 1);
    lua_getiuservalue(L, -1, LMK_LOG_DIRECTORY);
    name = lua_tostring(L, -1);
    lua_pushfstring(L, "%s(%s: next_offset %I)", LMK_CURSOR, name,
                    (LUAI_UACINT)mk_cursor_next_offset(box->cursor));
    return 1;
}

void lmk_cursor_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"seek", cursor_seek},
        {"seek_time", cursor_seek_time},
        {"close", cursor_close},
        {NULL, NULL},
    };
    static const luaL_Reg fields[] = {
        {"next_offset", cursor_get_next_offset},
        {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__call", cursor_call},
        {"__tostring", cursor_tostring},
        {"__close", cursor_close},
        {"__gc", cursor_close},
        {NULL, NULL},
    };
    static const lmk_type type = {LMK_CURSOR, methods, fields, meta};

    lmk_type_register(L, &type);
    lua_pop(L, 1);
}
