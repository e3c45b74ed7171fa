/*
 * lmk_log -- the log userdata: its life, and what one call of the core does.
 *
 * User values: see LMK_LOG_CLOCK and its kin.
 */
#include <string.h>

#include "lua/lmk.h"

static lmk_log_box *self_log(lua_State *L)
{
    return lmk_self(L, LMK_LOG);
}

lmk_log_box *lmk_check_self_log(lua_State *L)
{
    lmk_log_box *box = self_log(L);

    if (box->log == NULL) lmk_raise_closed(L, "log");
    return box;
}

lmk_log_box *lmk_check_log(lua_State *L, int arg)
{
    lmk_log_box *box = luaL_testudata(L, arg, LMK_LOG);

    if (box == NULL) lmk_type_error(L, arg, "log", LMK_LOG, arg);
    if (box->log == NULL) lmk_raise_closed(L, "log");
    return box;
}

/* ---- Opening ---- */

/* Read what is no setting, but for the clock and the progress. */
static void check_open_flags(lua_State *L, mk_open_options *out)
{
    int64_t max_open_files = 0;
    bool mapped;

    lmk_option_boolean(L, 2, "read_only", &out->read_only);
    lmk_option_boolean(L, 2, "create", &out->create);
    if (lmk_option_boolean(L, 2, "mapped", &mapped)) {
        out->mapped = mapped ? MK_MAPPED_ALWAYS : MK_MAPPED_NEVER;
    }
    if (lmk_option_integer(L, 2, "max_open_files", 1, INT32_MAX,
                           &max_open_files)) {
        out->max_open_files = (size_t)max_open_files;
    }
}

/* Push the disk option, or nothing; return where it is. */
static int push_disk_option(lua_State *L)
{
    if (!lmk_push_option(L, 2, "io")) return 0;
    if (luaL_testudata(L, -1, LMK_DISK) == NULL) {
        lmk_option_error(L, 2, "io", LMK_DISK);
    }
    return lua_gettop(L);
}

/* Push the clock option; left out it is that of the machine. Return whether it
 * was given. */
static bool push_clock_option(lua_State *L, int disk)
{
    bool given = lmk_push_option(L, 2, "clock");

    if (given) {
        if (!lmk_is_clock(L, lua_gettop(L))) {
            lmk_option_error(L, 2, "clock", "clock");
        }
    } else if (disk != 0) {
        lua_getiuservalue(L, disk, LMK_DISK_CLOCK);
    } else {
        lmk_system_clock_new(L);
    }
    return given;
}

/* Push a closed box whose clock is the value at the top, in its place. */
static lmk_log_box *push_box(lua_State *L)
{
    lmk_log_box *box = lua_newuserdatauv(L, sizeof *box, LMK_LOG_VALUES);

    *box = (lmk_log_box){.log = NULL};
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, LMK_LOG_CLOCK);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, LMK_LOG_DIRECTORY);
    luaL_setmetatable(L, LMK_LOG);
    return box;
}

/* Give the log the clock of its box. With `!given` it is its disk's, of which
 * the environment knows; but it may have to be called, too. */
static void set_clock(lua_State *L, lmk_log_box *box, bool given,
                      mk_open_options *options)
{
    mk_clock clock;

    lua_getiuservalue(L, -1, LMK_LOG_CLOCK);
    if (!lmk_clock_native(L, lua_gettop(L), &clock)) {
        box->lua_clock = true;
        clock = lmk_clock_of_log(box);
    }
    if (given) options->clock = clock;
    lua_pop(L, 1);
}

/* Open a log on a disk; NULL is the machine's. */
static mk_status open_on(const lmk_disk_box *disk, const char *directory,
                         mk_open_options *options, mk_log **out, mk_error *err)
{
    mk_status status;

    if (disk == NULL) return mk_log_open(directory, options, out, err);
    status = mk_env_new_sim(disk->disk, &options->env, err);
    if (status != MK_OK) return status;
    status = mk_log_open(directory, options, out, err);
    mk_env_free(options->env);
    return status;
}

/* open(directory [, options]) -> log */
int lmk_log_open(lua_State *L)
{
    static const char *const names[] = {
        "clock",          "create",   "io",        "mapped",
        "max_open_files", "progress", "read_only", NULL};
    static const lmk_names known = {names, true};
    const char *directory = lmk_check_directory(L, 1);
    mk_open_options options;
    bool clock_given;
    lmk_log_box *box;
    mk_status status;
    lmk_call call;
    mk_error err;
    int progress, disk;

    lua_settop(L, 2);
    mk_open_options_default(&options);
    lmk_check_options(L, 2, &known);
    lmk_check_settings(L, 2, &options.config);
    check_open_flags(L, &options);
    progress = lmk_push_progress(L, 2);
    disk = push_disk_option(L);
    clock_given = push_clock_option(L, disk);
    box = push_box(L);
    box->read_only = options.read_only;
    set_clock(L, box, disk == 0 || clock_given, &options);
    if (progress != 0) options.progress = lmk_call_progress(box);
    if (disk != 0) lmk_link_log(L, box, disk);

    lmk_begin(&call, L, box, lua_gettop(L));
    call.progress = progress;
    status = open_on(box->disk, directory, &options, &box->log, &err);
    if (status != MK_OK) lmk_unlink_log(box);
    lmk_finish(&call, status, &err);
    return 1;
}

/* ---- Closing ---- */

/* Close the cursor that was kept for fetches. */
static void close_reader(lua_State *L)
{
    if (lua_getiuservalue(L, 1, LMK_LOG_READER) == LUA_TUSERDATA) {
        lmk_cursor_release(lua_touserdata(L, -1));
        lua_pushnil(L);
        lua_setiuservalue(L, 1, LMK_LOG_READER);
    }
    lua_pop(L, 1);
}

/* Close the log if it is open; the box is closed whatever happens. What lost
 * power has nothing left to be done. */
static mk_status close_box(lua_State *L, lmk_call *call, mk_error *err)
{
    lmk_log_box *box = self_log(L);
    mk_status status = MK_OK;
    mk_log *log;

    lmk_begin(call, L, box, 1);
    log = box->closing ? NULL : box->log;
    if (log != NULL) {
        /* Its clock may still read the log. */
        box->closing = true;
        status = mk_log_close(log, err);
        box->log = NULL;
        close_reader(L);
    }
    lmk_end(call);
    if (log == NULL) return MK_OK;
    lmk_unlink_log(box);
    return status == MK_CRASHED ? MK_OK : status;
}

/* log:close() */
static int log_close(lua_State *L)
{
    lmk_call call;
    mk_error err;
    mk_status status = close_box(L, &call, &err);

    if (status != MK_OK) return lmk_call_raise(&call, status, &err);
    return 0;
}

/* __close: as close(), but never hides an error that is already on its way. */
static int log_leave(lua_State *L)
{
    lmk_call call;
    mk_error err;
    mk_status status = close_box(L, &call, &err);

    if (status != MK_OK && lua_isnoneornil(L, 2)) {
        return lmk_call_raise(&call, status, &err);
    }
    return 0;
}

static int log_collect(lua_State *L)
{
    lmk_log_box *box = self_log(L);
    mk_log *log = box->log;

    if (box->closing) return 0;
    box->log = NULL;
    lmk_unlink_log(box);
    mk_log_abandon(log);
    return 0;
}

/* What a person should know of a log, at the end of its line. */
static const char *condition_of(const mk_log_stats *stats)
{
    if (stats->refusing) return ", refuses changes";
    if (stats->ends_early) return ", read-only, ends early: verify tells why";
    return stats->info.read_only ? ", read-only" : "";
}

static int log_tostring(lua_State *L)
{
    lmk_log_box *box = self_log(L);
    mk_status status = MK_OK;
    const char *name;
    mk_log_stats stats;

    lua_getiuservalue(L, 1, LMK_LOG_DIRECTORY);
    name = lua_tostring(L, -1);
    if (box->telling) {
        lua_pushfstring(L, "%s(%s)", LMK_LOG, name);
        return 1;
    }
    if (box->log == NULL) status = MK_CLOSED;
    if (status == MK_OK) status = mk_log_get_stats(box->log, &stats, NULL);
    if (status != MK_OK) {
        lua_pushfstring(L, "%s(%s) (%s)", LMK_LOG, name,
                        status == MK_CRASHED ? "crashed" : "closed");
        return 1;
    }
    lua_pushfstring(L, "%s(%s: offsets %I..%I, %I %s, %I bytes%s)", LMK_LOG,
                    name, (LUAI_UACINT)stats.info.log_start_offset,
                    (LUAI_UACINT)stats.info.log_end_offset,
                    (LUAI_UACINT)stats.info.segment_count,
                    stats.info.segment_count == 1 ? "segment" : "segments",
                    (LUAI_UACINT)stats.info.size_bytes, condition_of(&stats));
    return 1;
}

/* ---- One call of the core each ---- */

/* A call without arguments and results. */
static int call_plainly(lua_State *L,
                        mk_status (*function)(mk_log *log, mk_error *err))
{
    lmk_log_box *box = self_log(L);
    mk_status status;
    lmk_call call;
    mk_error err;

    status = function(lmk_enter(&call, L, box, 1), &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* log:roll() */
int lmk_log_roll(lua_State *L)
{
    return call_plainly(L, mk_log_roll);
}

/* log:flush() */
int lmk_log_flush(lua_State *L)
{
    return call_plainly(L, mk_log_flush);
}

/* log:refresh() */
int lmk_log_refresh(lua_State *L)
{
    return call_plainly(L, mk_log_refresh);
}

/* log:configure{...} */
int lmk_log_configure(lua_State *L)
{
    static const char *const names[] = {NULL};
    static const lmk_names known = {names, true};
    lmk_log_box *box = lmk_check_self_log(L);
    mk_config config;
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    if (!lua_istable(L, 2)) lmk_type_error(L, 2, "settings", "table", 2);
    lmk_check_options(L, 2, &known);
    log = lmk_enter(&call, L, box, 1);
    mk_log_get_config(log, &config);
    lmk_end(&call);
    lmk_check_settings(L, 2, &config);
    log = lmk_enter(&call, L, box, 1);
    status = mk_log_configure(log, &config, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* log:wait(offset, timeout_ms) -> is the log end greater? Nobody but this
 * program appends to a log that it writes, or on a disk of its own making, so
 * there waiting is of no use. */
int lmk_log_wait(lua_State *L)
{
    lmk_log_box *box = lmk_check_read_log(L);
    int64_t offset = lmk_check_integer(L, 2, "offset");
    int64_t timeout_ms = lmk_check_integer(L, 3, "timeout_ms");
    bool others = box->read_only && box->disk == NULL;
    bool reached = false;
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    if (timeout_ms < 0) {
        return lmk_raise_status(L, MK_INVALID_ARGUMENT,
                                "timeout_ms is %I, and must be at least 0",
                                (LUAI_UACINT)timeout_ms);
    }
    log = lmk_enter(&call, L, box, 1);
    status = mk_log_wait(log, offset, others ? timeout_ms : 0, &reached, &err);
    lmk_finish(&call, status, &err);
    lua_pushboolean(L, reached);
    return 1;
}

/* Push what a search by time has found: offset and time, or nil. */
static int push_found(lua_State *L, lmk_call *call, mk_status status,
                      const int64_t *found, const mk_error *err)
{
    if (status == MK_END) {
        lmk_end(call);
        lua_pushnil(L);
        return 1;
    }
    lmk_finish(call, status, err);
    lua_pushinteger(L, found[0]);
    lua_pushinteger(L, found[1]);
    return 2;
}

/* log:offset_for_timestamp(t) -> offset, timestamp_ms */
int lmk_log_offset_for_timestamp(lua_State *L)
{
    lmk_log_box *box = lmk_check_read_log(L);
    int64_t time_ms = lmk_check_integer(L, 2, "t");
    int64_t found[2];
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    log = lmk_enter(&call, L, box, 1);
    status =
        mk_log_offset_for_timestamp(log, time_ms, &found[0], &found[1], &err);
    return push_found(L, &call, status, found, &err);
}

/* log:offset_of_max_timestamp() -> offset, timestamp_ms */
int lmk_log_offset_of_max_timestamp(lua_State *L)
{
    lmk_log_box *box = lmk_check_read_log(L);
    int64_t found[2];
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    log = lmk_enter(&call, L, box, 1);
    status = mk_log_offset_of_max_timestamp(log, &found[0], &found[1], &err);
    return push_found(L, &call, status, found, &err);
}

/* ---- The type ---- */

void lmk_log_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"append", lmk_log_append},
        {"append_kv", lmk_log_append_kv},
        {"appender", lmk_log_appender},
        {"batches", lmk_log_batches},
        {"close", log_close},
        {"configure", lmk_log_configure},
        {"copy_to", lmk_log_copy_to},
        {"cursor", lmk_log_cursor},
        {"delete_closed_segments", lmk_log_delete_closed_segments},
        {"delete_records", lmk_log_delete_records},
        {"flush", lmk_log_flush},
        {"offset_for_timestamp", lmk_log_offset_for_timestamp},
        {"offset_of_max_timestamp", lmk_log_offset_of_max_timestamp},
        {"records", lmk_log_records},
        {"refresh", lmk_log_refresh},
        {"roll", lmk_log_roll},
        {"stats", lmk_log_stats},
        {"truncate_to", lmk_log_truncate_to},
        {"verify", lmk_log_verify},
        {"wait", lmk_log_wait},
        {NULL, NULL},
    };
    static const luaL_Reg fields[] = {
        {"active_segment", lmk_log_get_active_segment},
        {"clock", lmk_log_get_clock},
        {"closed_segments", lmk_log_get_closed_segments},
        {"config", lmk_log_get_config},
        {"directory", lmk_log_get_directory},
        {"high_watermark", lmk_log_get_high_watermark},
        {"last_stable_offset", lmk_log_get_stable},
        {"log_end_offset", lmk_log_get_end},
        {"log_start_offset", lmk_log_get_start},
        {"recovery_point", lmk_log_get_recovery_point},
        {"segments", lmk_log_get_segments},
        {"size_bytes", lmk_log_get_size},
        {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__tostring", log_tostring},
        {"__close", log_leave},
        {"__gc", log_collect},
        {NULL, NULL},
    };
    static const lmk_type type = {LMK_LOG, methods, fields, meta};

    lmk_type_register(L, &type);
    lmk_fetch_register(L);
    lmk_pending_methods(L);
    lua_pop(L, 1);
}
