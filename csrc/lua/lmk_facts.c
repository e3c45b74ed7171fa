/*
 * lmk_facts -- the fields of a log, its segments and its stats.
 *
 * Every value is a snapshot. Getters are called as (log, name).
 */
#include "lua/lmk.h"

#define PATH_SIZE_MAX 4352 /* A directory's path, and a name in it. */

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* ---- Fields that are a number ---- */

static mk_log_info get_info(lua_State *L)
{
    lmk_log_box *box = lmk_check_read_log(L);
    mk_log_info info;
    mk_status status;
    lmk_call call;
    mk_error err;

    status = mk_log_get_info(lmk_enter(&call, L, box, 1), &info, &err);
    lmk_finish(&call, status, &err);
    return info;
}

int lmk_log_get_start(lua_State *L)
{
    lua_pushinteger(L, get_info(L).log_start_offset);
    return 1;
}

int lmk_log_get_end(lua_State *L)
{
    lua_pushinteger(L, get_info(L).log_end_offset);
    return 1;
}

int lmk_log_get_stable(lua_State *L)
{
    lua_pushinteger(L, get_info(L).last_stable_offset);
    return 1;
}

int lmk_log_get_high_watermark(lua_State *L)
{
    lua_pushinteger(L, get_info(L).high_watermark);
    return 1;
}

int lmk_log_get_recovery_point(lua_State *L)
{
    lua_pushinteger(L, get_info(L).recovery_point);
    return 1;
}

int lmk_log_get_size(lua_State *L)
{
    lua_pushinteger(L, get_info(L).size_bytes);
    return 1;
}

/* ---- How it was opened ---- */

/* The directory as given; a closed log still tells. */
int lmk_log_get_directory(lua_State *L)
{
    lmk_self(L, LMK_LOG);
    lua_getiuservalue(L, 1, LMK_LOG_DIRECTORY);
    return 1;
}

int lmk_log_get_clock(lua_State *L)
{
    lmk_check_self_log(L);
    lua_getiuservalue(L, 1, LMK_LOG_CLOCK);
    return 1;
}

int lmk_log_get_config(lua_State *L)
{
    lmk_log_box *box = lmk_check_self_log(L);
    mk_config config;
    lmk_call call;

    mk_log_get_config(lmk_enter(&call, L, box, 1), &config);
    lmk_end(&call);
    lmk_push_config(L, &config);
    return 1;
}

/* ---- Segments ---- */

static void push_segment(lua_State *L, lmk_log_box *box,
                         const mk_segment_info *segment)
{
    char path[PATH_SIZE_MAX];

    lua_createtable(L, 0, 7);
    set_integer(L, "base_offset", segment->base_offset);
    set_integer(L, "next_offset", segment->next_offset);
    set_integer(L, "size_bytes", segment->log_bytes + segment->index_bytes);
    set_integer(L, "log_bytes", segment->log_bytes);
    set_integer(L, "index_bytes", segment->index_bytes);
    set_integer(L, "max_timestamp_ms", segment->max_timestamp_ms);
    if (box->log == NULL) lmk_raise_closed(L, "log");
    mk_log_segment_path(box->log, segment->base_offset, path, sizeof path);
    lua_pushstring(L, path);
    lua_setfield(L, -2, "path");
    luaL_setmetatable(L, LMK_SEGMENT);
}

/* Push memory with what is known of all segments. */
static mk_segment_info *push_infos(lua_State *L, lmk_log_box *box,
                                   size_t *count)
{
    size_t capacity = get_info(L).segment_count;

    for (;;) {
        mk_segment_info *infos =
            lua_newuserdatauv(L, capacity * sizeof *infos, 0);
        mk_status status;
        lmk_call call;
        mk_log *log = lmk_enter(&call, L, box, 1);
        mk_error err;

        status = mk_log_segments(log, infos, capacity, count, &err);
        lmk_finish(&call, status, &err);
        if (*count <= capacity) return infos;
        capacity = *count; /* Another thread has added some. */
        lua_pop(L, 1);
    }
}

/* Push a list of all segments but the last `without`. */
static int push_segments(lua_State *L, size_t without)
{
    lmk_log_box *box = lmk_check_read_log(L);
    size_t count;
    const mk_segment_info *infos = push_infos(L, box, &count);

    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i + without < count; i++) {
        push_segment(L, box, &infos[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    luaL_setmetatable(L, LMK_SEGMENTS);
    return 1;
}

int lmk_log_get_segments(lua_State *L)
{
    return push_segments(L, 0);
}

int lmk_log_get_closed_segments(lua_State *L)
{
    return push_segments(L, 1);
}

int lmk_log_get_active_segment(lua_State *L)
{
    lmk_log_box *box = lmk_check_read_log(L);
    size_t count;
    const mk_segment_info *infos = push_infos(L, box, &count);

    if (count == 0) return 0;
    push_segment(L, box, &infos[count - 1]);
    return 1;
}

/* ---- Stats ---- */

/* log:stats() */
int lmk_log_stats(lua_State *L)
{
    lmk_log_box *box = lmk_check_self_log(L);
    mk_log_stats stats;
    mk_status status;
    lmk_call call;
    mk_error err;

    status = mk_log_get_stats(lmk_enter(&call, L, box, 1), &stats, &err);
    lmk_finish(&call, status, &err);
    lua_createtable(L, 0, 22);
    set_integer(L, "log_start_offset", stats.info.log_start_offset);
    set_integer(L, "log_end_offset", stats.info.log_end_offset);
    set_integer(L, "last_stable_offset", stats.info.last_stable_offset);
    set_integer(L, "high_watermark", stats.info.high_watermark);
    set_integer(L, "recovery_point", stats.info.recovery_point);
    set_integer(L, "size_bytes", stats.info.size_bytes);
    set_integer(L, "segment_count", (int64_t)stats.info.segment_count);
    set_integer(L, "appended_batches", stats.appended_batches);
    set_integer(L, "appended_records", stats.appended_records);
    set_integer(L, "rolls", stats.rolls);
    set_integer(L, "flushes", stats.flushes);
    set_integer(L, "syncs", stats.syncs);
    set_integer(L, "recovered_bytes", stats.recovered_bytes);
    set_integer(L, "truncated_bytes", stats.truncated_bytes);
    set_integer(L, "heals", stats.heals);
    set_integer(L, "lost_offsets", stats.lost_offsets);
    lua_pushboolean(L, stats.refusing);
    lua_setfield(L, -2, "refusing");
    lua_pushboolean(L, stats.ends_early);
    lua_setfield(L, -2, "ends_early");
    if (stats.lost_from_offset >= 0) {
        set_integer(L, "lost_from_offset", stats.lost_from_offset);
        set_integer(L, "lost_to_offset", stats.lost_to_offset);
    }
    set_integer(L, "open_files", (int64_t)stats.open_files);
    set_integer(L, "heap_bytes", (int64_t)stats.heap_bytes);
    luaL_setmetatable(L, LMK_STATS);
    return 1;
}
