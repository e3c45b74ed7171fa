/*
 * lmk_disk -- the SimDisk userdata: making, looking into and crashing disks.
 *
 * A log on a disk holds its box, so that a trace finds its function. Closing
 * the box ends the trace; logs go on.
 */
#include <string.h>

#include "lua/lmk.h"

static lmk_disk_box *self_disk(lua_State *L)
{
    return lmk_self(L, LMK_DISK);
}

lmk_disk_box *lmk_check_self_disk(lua_State *L)
{
    lmk_disk_box *box = self_disk(L);

    if (box->disk == NULL) lmk_raise_closed(L, "disk");
    return box;
}

const char *lmk_check_path(lua_State *L, int arg)
{
    const char *path;

    if (lua_type(L, arg) != LUA_TSTRING) {
        lmk_type_error(L, arg, "path", "string", arg);
    }
    path = lua_tostring(L, arg);
    if (strlen(path) != lua_rawlen(L, arg)) {
        lmk_arg_error(L, arg, "path: a path holds no zero byte");
    }
    if (path[0] != '/') {
        lmk_arg_error(L, arg, "path: paths on a disk begin with /");
    }
    return path;
}

bool lmk_option_profile(lua_State *L, int arg, const char *name,
                        mk_sim_profile *out)
{
    static const char *const words[] = {
#define X(unused, word) word,
        MK_SIM_PROFILES(X)
#undef X
            NULL,
    };
    int number;

    if (!lmk_option_word(L, arg, name, words, &number)) return false;
    *out = (mk_sim_profile)number;
    return true;
}

/* ---- Making ---- */

lmk_disk_box *lmk_push_disk(lua_State *L)
{
    const lmk_log_list *logs = lmk_get_logs(L);
    lmk_disk_box *box = lua_newuserdatauv(L, sizeof *box, LMK_DISK_VALUES);

    *box = (lmk_disk_box){.logs = logs};
    luaL_setmetatable(L, LMK_DISK);
    return box;
}

void lmk_share_clock(lua_State *L, int index)
{
    const lmk_disk_box *box = lua_touserdata(L, -1);
    mk_sim_options options;

    mk_sim_disk_options(box->disk, &options);
    if (options.clock.now != NULL) {
        lua_getiuservalue(L, index, LMK_DISK_CLOCK);
    } else {
        lmk_push_disk_clock(L, box->disk);
    }
    lua_setiuservalue(L, -2, LMK_DISK_CLOCK);
}

/* Read all options but the clock. */
static void check_disk_options(lua_State *L, mk_sim_options *out)
{
    int64_t seed;

    mk_sim_options_default(out);
    if (lmk_option_integer(L, 1, "seed", INT64_MIN, INT64_MAX, &seed)) {
        out->seed = (uint64_t)seed;
    }
    lmk_option_profile(L, 1, "profile", &out->profile);
    lmk_option_integer(L, 1, "page_bytes", 0, INT64_MAX, &out->page_bytes);
    lmk_option_integer(L, 1, "sector_bytes", 0, INT64_MAX, &out->sector_bytes);
    /* None at all would be no limit to the core. */
    lmk_option_integer(L, 1, "capacity_bytes", 1, INT64_MAX,
                       &out->capacity_bytes);
    lmk_option_integer(L, 1, "capacity_files", 1, INT64_MAX,
                       &out->capacity_files);
    lmk_option_boolean(L, 1, "fsync_links", &out->fsync_links);
    lmk_option_boolean(L, 1, "exchange", &out->exchange);
}

/* SimDisk([options]) */
int lmk_disk_new(lua_State *L)
{
    static const char *const names[] = {"capacity_bytes", "capacity_files",
                                        "clock",          "exchange",
                                        "fsync_links",    "page_bytes",
                                        "profile",        "seed",
                                        "sector_bytes",   NULL};
    static const lmk_names known = {names, false};
    mk_sim_options options;
    lmk_disk_box *box;
    mk_status status;
    mk_error err;

    lua_settop(L, 1);
    lmk_check_options(L, 1, &known);
    check_disk_options(L, &options);
    if (!lmk_push_option(L, 1, "clock")) {
        lua_pushnil(L);
    } else if (!lmk_is_clock(L, 2)) {
        return lmk_option_error(L, 1, "clock", "clock");
    } else if (!lmk_clock_native(L, 2, &options.clock)) {
        options.clock = lmk_clock_of_disk(L);
    }
    box = lmk_push_disk(L);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, -2, LMK_DISK_CLOCK);
    status = mk_sim_disk_new(NULL, &options, &box->disk, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    lmk_share_clock(L, lua_gettop(L));
    return 1;
}

/* disk:clone() */
static int disk_clone(lua_State *L)
{
    lmk_disk_box *clone;
    mk_status status;
    mk_error err;

    lmk_check_self_disk(L);
    clone = lmk_push_disk(L);
    status =
        mk_sim_disk_clone(lmk_check_self_disk(L)->disk, &clone->disk, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    lmk_share_clock(L, 1);
    return 1;
}

/* disk:close(), and leaving a scope or being collected */
static int disk_release(lua_State *L)
{
    lmk_disk_box *box = self_disk(L);
    mk_sim_disk *disk = box->disk;

    box->disk = NULL;
    if (disk != NULL) mk_sim_disk_trace(disk, (mk_sim_trace){NULL, NULL});
    mk_sim_disk_free(disk);
    return 0;
}

static int disk_tostring(lua_State *L)
{
    lmk_disk_box *box = self_disk(L);
    mk_sim_stats stats;

    if (box->disk == NULL) {
        lua_pushliteral(L, LMK_DISK " (closed)");
        return 1;
    }
    mk_sim_disk_stats(box->disk, &stats);
    lua_pushfstring(
        L, "%s(%s: %I %s, %I bytes, %I unsynced, step %I)", LMK_DISK,
        mk_sim_profile_name(mk_sim_disk_profile(box->disk)),
        (LUAI_UACINT)stats.files, stats.files == 1 ? "file" : "files",
        (LUAI_UACINT)stats.used_bytes, (LUAI_UACINT)stats.pending,
        (LUAI_UACINT)stats.steps);
    return 1;
}

/* ---- Fields ---- */

static int get_clock(lua_State *L)
{
    lmk_check_self_disk(L);
    lua_getiuservalue(L, 1, LMK_DISK_CLOCK);
    return 1;
}

static int get_profile(lua_State *L)
{
    mk_sim_disk *disk = lmk_check_self_disk(L)->disk;

    lua_pushstring(L, mk_sim_profile_name(mk_sim_disk_profile(disk)));
    return 1;
}

/* ---- Contents ---- */

static int collect_paths(lua_State *L)
{
    mk_sim_paths *paths = lua_touserdata(L, 1);

    mk_sim_paths_deinit(paths);
    return 0;
}

/* Push paths that the collector can finish. */
static mk_sim_paths *push_paths(lua_State *L)
{
    mk_sim_paths *paths = lua_newuserdatauv(L, sizeof *paths, 0);

    *paths = (mk_sim_paths){0};
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, collect_paths);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return paths;
}

/* disk:list() -> the sorted paths of all files */
static int disk_list(lua_State *L)
{
    mk_sim_paths *paths;
    mk_status status;
    mk_error err;

    lmk_check_self_disk(L);
    paths = push_paths(L);
    status = mk_sim_disk_list(lmk_check_self_disk(L)->disk, paths, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    lua_createtable(L, (int)paths->count, 0);
    for (size_t i = 0; i < paths->count; i++) {
        lua_pushstring(L, paths->paths[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    mk_sim_paths_deinit(paths);
    luaL_setmetatable(L, LMK_PATHS);
    return 1;
}

/* disk:read(path) -> bytes */
static int disk_read(lua_State *L)
{
    const char *path;
    luaL_Buffer buffer;
    size_t done = 0;
    int64_t size;
    mk_status status;
    mk_error err;
    char *bytes;

    lmk_check_self_disk(L);
    path = lmk_check_path(L, 2);
    status = mk_sim_disk_size(lmk_check_self_disk(L)->disk, path, &size, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    bytes = luaL_buffinitsize(L, &buffer, (size_t)size);
    status = mk_sim_disk_read(lmk_check_self_disk(L)->disk, path, 0, bytes,
                              (size_t)size, &done, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    luaL_pushresultsize(&buffer, done);
    return 1;
}

/* disk:write(path, bytes) */
static int disk_write(lua_State *L)
{
    lmk_disk_box *box = lmk_check_self_disk(L);
    const char *path = lmk_check_path(L, 2);
    const char *bytes;
    size_t size;
    mk_status status;
    mk_error err;

    if (lua_type(L, 3) != LUA_TSTRING) {
        lmk_type_error(L, 3, "bytes", "string", 3);
    }
    bytes = lua_tolstring(L, 3, &size);
    status = mk_sim_disk_write(box->disk, path, bytes, size, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    return 0;
}

/* disk:hash() -> a string that is the same for equal contents only */
static int disk_hash(lua_State *L)
{
    char text[sizeof(uint64_t[2])];
    uint64_t hash[2];
    mk_status status;
    mk_error err;

    status = mk_sim_disk_hash(lmk_check_self_disk(L)->disk, hash, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    memcpy(text, hash, sizeof text);
    lua_pushlstring(L, text, sizeof text);
    return 1;
}

/* ---- Stats ---- */

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* disk:stats() */
static int disk_stats(lua_State *L)
{
    mk_sim_stats stats;

    mk_sim_disk_stats(lmk_check_self_disk(L)->disk, &stats);
    lua_createtable(L, 0, 10);
    set_integer(L, "steps", stats.steps);
    set_integer(L, "bytes_read", stats.bytes_read);
    set_integer(L, "bytes_written", stats.bytes_written);
    set_integer(L, "faults", stats.faults);
    set_integer(L, "crashes", stats.crashes);
    set_integer(L, "used_bytes", stats.used_bytes);
    set_integer(L, "files", (int64_t)stats.files);
    set_integer(L, "directories", (int64_t)stats.directories);
    set_integer(L, "pending", (int64_t)stats.pending);
    lua_createtable(L, 0, MK_SIM_OPERATION_COUNT);
    for (int i = 0; i < MK_SIM_OPERATION_COUNT; i++) {
        set_integer(L, mk_sim_operation_name((mk_sim_operation)i),
                    stats.operations[i]);
    }
    lua_setfield(L, -2, "operations");
    luaL_setmetatable(L, LMK_DISK_STATS);
    return 1;
}

/* ---- Crashing ---- */

/* disk:crash{keep = profile} */
static int disk_crash(lua_State *L)
{
    static const char *const names[] = {"keep", NULL};
    static const lmk_names known = {names, false};
    mk_sim_profile profile = MK_SIM_OWN_PROFILE;
    mk_status status;
    mk_error err;

    lmk_check_self_disk(L);
    lmk_check_options(L, 2, &known);
    lmk_option_profile(L, 2, "keep", &profile);
    status = mk_sim_disk_crash(lmk_check_self_disk(L)->disk, profile, &err);
    if (status != MK_OK) return lmk_raise(L, status, &err);
    lua_pushnil(L);
    lua_setiuservalue(L, 1, LMK_DISK_TRACE);
    return 0;
}

void lmk_disk_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"clone", disk_clone},
        {"close", disk_release},
        {"crash", disk_crash},
        {"crash_states", lmk_disk_crash_states},
        {"damage", lmk_disk_damage},
        {"fail", lmk_disk_fail},
        {"hash", disk_hash},
        {"list", disk_list},
        {"read", disk_read},
        {"stats", disk_stats},
        {"trace", lmk_disk_trace},
        {"write", disk_write},
        {NULL, NULL},
    };
    static const luaL_Reg fields[] = {
        {"clock", get_clock},
        {"profile", get_profile},
        {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__tostring", disk_tostring},
        {"__close", disk_release},
        {"__gc", disk_release},
        {NULL, NULL},
    };
    static const lmk_type type = {LMK_DISK, methods, fields, meta};

    lmk_type_register(L, &type);
    lua_pop(L, 1);
}
