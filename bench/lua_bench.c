/*
 * lua_bench -- the records and the meter for Lua: `require "bench_core"`.
 *
 * So that the Lua side of the benchmark works on the same records, sums up
 * what it reads at the same cost and tells its results in the same form as the
 * C side.
 *
 *     core.key(i)  core.value(i)  core.time_ms(i)   record i
 *     core.touch(key, value)                        its part of a checksum
 *     core.count(full, scale)  core.read(j, count)  core.first_read(j, count)
 *     core.groups(scale)  core.segments(scale)  core.descriptors()
 *     core.clear(dir)  core.remove(dir)  core.disk_bytes(dir)
 *     local run = core.run(peer, workload, dir, scale, reps)
 *     run:start()  run:stop() -> seconds  run:tell{...}  run:tell_rate({...},
 * n)
 *
 * A figure is a table with the members of meter_figure; `checksum` may be left
 * out, and so may `syncs` and `descriptors`.
 */
#include <lauxlib.h>
#include <lua.h>

#include "dataset.h"
#include "include/minikafka.h"
#include "meter.h"

#define RUN_TYPE "minikafka.bench.run"

MK_API int luaopen_bench_core(lua_State *L);

/* ---- Records ---- */

static int core_key(lua_State *L)
{
    uint8_t key[DATASET_KEY_SIZE];

    dataset_key((uint64_t)luaL_checkinteger(L, 1), key);
    lua_pushlstring(L, (const char *)key, sizeof key);
    return 1;
}

static int core_value(lua_State *L)
{
    uint8_t value[DATASET_VALUE_SIZE];

    dataset_value((uint64_t)luaL_checkinteger(L, 1), value);
    lua_pushlstring(L, (const char *)value, sizeof value);
    return 1;
}

static int core_time_ms(lua_State *L)
{
    lua_pushinteger(L, dataset_time_ms((size_t)luaL_checkinteger(L, 1)));
    return 1;
}

static int core_touch(lua_State *L)
{
    size_t key_size = 0;
    size_t value_size = 0;
    const char *key = lua_tolstring(L, 1, &key_size);
    const char *value = lua_tolstring(L, 2, &value_size);

    luaL_argcheck(L, key_size == DATASET_KEY_SIZE, 1, "no key of ours");
    luaL_argcheck(L, value_size == DATASET_VALUE_SIZE, 2, "no value of ours");
    lua_pushinteger(L, (lua_Integer)dataset_touch((const uint8_t *)key,
                                                  (const uint8_t *)value));
    return 1;
}

static int core_count(lua_State *L)
{
    size_t count =
        dataset_count(luaL_checknumber(L, 1), luaL_checknumber(L, 2));

    lua_pushinteger(L, (lua_Integer)count);
    return 1;
}

static int core_read(lua_State *L)
{
    uint64_t offset = dataset_read((uint64_t)luaL_checkinteger(L, 1),
                                   (uint64_t)luaL_checkinteger(L, 2));

    lua_pushinteger(L, (lua_Integer)offset);
    return 1;
}

static int core_first_read(lua_State *L)
{
    uint64_t offset = dataset_first_read((uint64_t)luaL_checkinteger(L, 1),
                                         (uint64_t)luaL_checkinteger(L, 2));

    lua_pushinteger(L, (lua_Integer)offset);
    return 1;
}

static int core_groups(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)dataset_groups(luaL_checknumber(L, 1)));
    return 1;
}

static int core_segments(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)dataset_segments(luaL_checknumber(L, 1)));
    return 1;
}

/* ---- Directories ---- */

static int core_descriptors(lua_State *L)
{
    lua_pushinteger(L, meter_descriptors());
    return 1;
}

static int core_clear(lua_State *L)
{
    meter_clear(luaL_checkstring(L, 1));
    return 0;
}

static int core_remove(lua_State *L)
{
    meter_remove(luaL_checkstring(L, 1));
    return 0;
}

static int core_disk_bytes(lua_State *L)
{
    lua_pushinteger(L, meter_disk_bytes(luaL_checkstring(L, 1)));
    return 1;
}

/* ---- Runs ---- */

/* The run's texts are kept alive by its user values. */
static int core_run(lua_State *L)
{
    meter *run = lua_newuserdatauv(L, sizeof *run, 3);

    *run = (meter){
        .peer = luaL_checkstring(L, 1),
        .workload = luaL_checkstring(L, 2),
        .directory = luaL_checkstring(L, 3),
        .scale = luaL_checknumber(L, 4),
        .repetitions = (int)luaL_checkinteger(L, 5),
    };
    for (int i = 1; i <= 3; i++) {
        lua_pushvalue(L, i);
        lua_setiuservalue(L, -2, i);
    }
    luaL_setmetatable(L, RUN_TYPE);
    return 1;
}

static int run_start(lua_State *L)
{
    meter_start(luaL_checkudata(L, 1, RUN_TYPE));
    return 0;
}

static int run_stop(lua_State *L)
{
    lua_pushnumber(L, meter_stop(luaL_checkudata(L, 1, RUN_TYPE)));
    return 1;
}

static int run_resume(lua_State *L)
{
    meter_resume(luaL_checkudata(L, 1, RUN_TYPE));
    return 0;
}

/* Read the figure at stack place 2; its texts stay on the stack. */
static meter_figure check_figure(lua_State *L)
{
    meter_figure figure = {0};

    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    lua_getfield(L, 2, "workload");
    figure.workload = luaL_checkstring(L, -1);
    lua_getfield(L, 2, "config");
    figure.config = luaL_checkstring(L, -1);
    lua_getfield(L, 2, "unit");
    figure.unit = luaL_optstring(L, -1, "rec/s");
    lua_getfield(L, 2, "value");
    figure.value = luaL_optnumber(L, -1, 0);
    lua_getfield(L, 2, "repetition");
    figure.repetition = (int)luaL_checkinteger(L, -1);
    lua_getfield(L, 2, "disk_bytes");
    figure.disk_bytes = luaL_checkinteger(L, -1);
    lua_getfield(L, 2, "checksum");
    figure.has_checksum = !lua_isnil(L, -1);
    figure.checksum = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 2, "syncs");
    figure.syncs = luaL_optnumber(L, -1, 0);
    lua_getfield(L, 2, "descriptors");
    figure.descriptors = (int)luaL_optinteger(L, -1, 0);
    return figure;
}

static int run_tell(lua_State *L)
{
    const meter *run = luaL_checkudata(L, 1, RUN_TYPE);
    meter_figure figure = check_figure(L);

    meter_tell(run, &figure);
    return 0;
}

static int run_tell_rate(lua_State *L)
{
    const meter *run = luaL_checkudata(L, 1, RUN_TYPE);
    meter_figure figure = check_figure(L);

    meter_tell_rate(run, &figure, (uint64_t)luaL_checkinteger(L, 3));
    return 0;
}

static const luaL_Reg run_methods[] = {
    {"start", run_start}, {"stop", run_stop},           {"resume", run_resume},
    {"tell", run_tell},   {"tell_rate", run_tell_rate}, {NULL, NULL},
};

static const luaL_Reg core_functions[] = {
    {"key", core_key},
    {"value", core_value},
    {"time_ms", core_time_ms},
    {"touch", core_touch},
    {"count", core_count},
    {"read", core_read},
    {"first_read", core_first_read},
    {"groups", core_groups},
    {"segments", core_segments},
    {"descriptors", core_descriptors},
    {"clear", core_clear},
    {"remove", core_remove},
    {"disk_bytes", core_disk_bytes},
    {"run", core_run},
    {NULL, NULL},
};

static void set_number(lua_State *L, const char *name, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

int luaopen_bench_core(lua_State *L)
{
    luaL_newmetatable(L, RUN_TYPE);
    luaL_newlib(L, run_methods);
    lua_setfield(L, -2, "__index");
    luaL_newlib(L, core_functions);
    set_number(L, "batch", DATASET_BATCH);
    set_number(L, "batch_bytes", DATASET_BATCH_BYTES);
    set_number(L, "bulk", (lua_Integer)DATASET_BULK);
    set_number(L, "singles", (lua_Integer)DATASET_SINGLES);
    set_number(L, "cold_passes", DATASET_COLD_PASSES);
    set_number(L, "synced", (lua_Integer)DATASET_SYNCED);
    set_number(L, "group", DATASET_GROUP);
    set_number(L, "segment_bytes", DATASET_SEGMENT_BYTES);
    set_number(L, "reads", (lua_Integer)DATASET_READS);
    set_number(L, "not_ours", METER_NOT_OURS);
    return 1;
}
