/*
 * lmk_trace -- disk:trace(): from an operation of a simulated disk back to Lua.
 *
 * The disk doesn't know for which call an operation is done. All logs on
 * simulated disks are therefore in a list, which begins in the registry; the
 * call is that of a log on this disk whose frame is the running one. There is
 * none while a finalizer gives something back: that is not told.
 *
 * While a trace runs, the core is in the midst of that call, and holds the
 * log's mutex. So the log can't be used, and no finalizer may run, since it
 * could be one of the log's cursors. What reads the log gets another one, which
 * is opened read-only, sees what is there before the operation, and is closed
 * when the trace returns.
 */
#include "lua/lmk.h"

#define LOGS "minikafka.logs_on_disks"

/* ---- Logs ---- */

lmk_log_list *lmk_get_logs(lua_State *L)
{
    lmk_log_list *list;

    lua_getfield(L, LUA_REGISTRYINDEX, LOGS);
    list = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return list;
}

void lmk_link_log(lua_State *L, lmk_log_box *box, int disk_index)
{
    lmk_log_list *list = lmk_get_logs(L);
    lmk_disk_box *disk = luaL_checkudata(L, disk_index, LMK_DISK);

    if (disk->disk == NULL) lmk_raise_closed(L, "disk");
    lua_pushvalue(L, disk_index);
    lua_setiuservalue(L, -2, LMK_LOG_DISK);
    box->disk = disk;
    box->lua_clock = true;
    box->next = list->first;
    box->link = &list->first;
    if (box->next != NULL) box->next->link = &box->next;
    list->first = box;
}

void lmk_unlink_log(lmk_log_box *box)
{
    if (box->link == NULL) return;
    *box->link = box->next;
    if (box->next != NULL) box->next->link = box->link;
    box->link = NULL;
    box->next = NULL;
}

/* Is the running frame that which made the call? */
static bool is_running(const lmk_log_box *box)
{
    const lmk_call *call = box->call;

    if (call == NULL || call->log_index == 0) return false;
    return lua_touserdata(call->L, call->log_index) == box;
}

/* Find the log, on that disk or on any, for which the core runs. */
static lmk_log_box *find_running(const lmk_log_list *list,
                                 const lmk_disk_box *disk)
{
    for (lmk_log_box *box = list->first; box != NULL; box = box->next) {
        if (disk != NULL && box->disk != disk) continue;
        if (is_running(box)) return box;
    }
    return NULL;
}

int lmk_raise_telling(lua_State *L)
{
    return lmk_raise_status(L, MK_BUSY,
                            "the log's disk is telling an operation of it");
}

/* ---- Who stands in ---- */

/* Push a reader of the directory of the log at index 1, as it is now. Its clock
 * is none that could be Lua: it has no use for one. */
static void push_stand_in(lua_State *L)
{
    lua_pushcfunction(L, lmk_log_open);
    lua_getiuservalue(L, 1, LMK_LOG_DIRECTORY);
    lua_createtable(L, 0, 3);
    lua_getiuservalue(L, 1, LMK_LOG_DISK);
    lua_setfield(L, -2, "io");
    lmk_system_clock_new(L);
    lua_setfield(L, -2, "clock");
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "read_only");
    lua_call(L, 2, 1);
}

lmk_log_box *lmk_check_read_log(lua_State *L)
{
    lmk_log_box *box = lmk_self(L, LMK_LOG);

    if (!box->telling) return lmk_check_self_log(L);
    if (lua_getiuservalue(L, 1, LMK_LOG_STAND_IN) == LUA_TNIL) {
        lua_pop(L, 1);
        push_stand_in(L);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, 1, LMK_LOG_STAND_IN);
    }
    lua_replace(L, 1);
    return lua_touserdata(L, 1);
}

/* Close who stood in for the log whose box is at `index`. */
static void close_stand_in(lua_State *L, int index)
{
    lmk_log_box *box;
    mk_log *log;

    lua_getiuservalue(L, index, LMK_LOG_STAND_IN);
    box = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (box == NULL) return;
    log = box->log;
    box->log = NULL;
    lmk_unlink_log(box);
    mk_log_abandon(log);
    lua_pushnil(L);
    lua_setiuservalue(L, index, LMK_LOG_STAND_IN);
}

/* ---- Clocks ---- */

static mk_status disk_now(void *context, int64_t *now_ms, mk_error *err)
{
    lmk_log_box *box = find_running(context, NULL);
    mk_clock clock;

    *now_ms = 0;
    if (box == NULL) {
        return lmk_fill_error(err, MK_CALLBACK, "no call asked for the time");
    }
    clock = lmk_clock_of_log(box);
    return clock.now(clock.context, now_ms, err);
}

mk_clock lmk_clock_of_disk(lua_State *L)
{
    return (mk_clock){disk_now, lmk_get_logs(L)};
}

/* ---- Traces ---- */

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

static void push_event(lua_State *L, const mk_sim_event *event)
{
    mk_sim_operation op = event->operation;
    bool is_data = op == MK_SIM_READ || op == MK_SIM_WRITE;

    lua_createtable(L, 0, 8);
    set_integer(L, "step", event->step);
    set_string(L, "op", mk_sim_operation_name(op));
    set_string(L, "path", event->path);
    if (event->to != NULL) set_string(L, "to", event->to);
    if (event->sync != NULL) set_string(L, "sync", event->sync);
    if (is_data) set_integer(L, "position", event->position);
    if (is_data || op == MK_SIM_TRUNCATE || op == MK_SIM_ALLOCATE) {
        set_integer(L, "size", event->size);
    }
    if (event->os_errno != 0) {
        set_string(L, "errno", mk_errno_name(event->os_errno));
    }
    luaL_setmetatable(L, LMK_EVENT);
}

/* (disk, event), in a protected call. */
static int call_trace(lua_State *L)
{
    const mk_sim_event *event = lua_touserdata(L, 2);

    if (lua_getiuservalue(L, 1, LMK_DISK_TRACE) != LUA_TFUNCTION) return 0;
    push_event(L, event);
    lua_call(L, 1, 0);
    return 0;
}

static mk_status tell(void *context, const mk_sim_event *event, mk_error *err)
{
    const lmk_disk_box *disk = context;
    lmk_log_box *box;
    mk_status status;
    lua_State *L;
    bool collects;

    box = find_running(disk->logs, disk);
    if (box == NULL) return MK_OK;
    L = box->call->L;
    if (!lua_checkstack(L, LUA_MINSTACK)) {
        return lmk_fill_error(err, MK_NO_MEMORY, "no room for a callback");
    }
    collects = lua_gc(L, LUA_GCISRUNNING) != 0;
    lua_gc(L, LUA_GCSTOP);
    box->telling = true;
    lua_pushcfunction(L, call_trace);
    lua_getiuservalue(L, box->call->log_index, LMK_LOG_DISK);
    lua_pushlightuserdata(L, (void *)(uintptr_t)event);
    status = lmk_callback(box->call, 2, 0, err);
    close_stand_in(L, box->call->log_index);
    box->telling = false;
    if (collects) lua_gc(L, LUA_GCRESTART);
    return status;
}

/* disk:trace(function or nil) */
int lmk_disk_trace(lua_State *L)
{
    lmk_disk_box *box = lmk_check_self_disk(L);
    mk_sim_trace trace = {NULL, NULL};

    if (!lua_isnoneornil(L, 2)) {
        if (!lua_isfunction(L, 2)) {
            lmk_type_error(L, 2, "trace", "function", 2);
        }
        trace = (mk_sim_trace){tell, box};
    }
    lua_settop(L, 2);
    lua_setiuservalue(L, 1, LMK_DISK_TRACE);
    mk_sim_disk_trace(box->disk, trace);
    return 0;
}

void lmk_trace_register(lua_State *L)
{
    lmk_log_list *list;

    /* An earlier attempt may have run out of memory. */
    if (lua_getfield(L, LUA_REGISTRYINDEX, LOGS) == LUA_TNIL) {
        list = lua_newuserdatauv(L, sizeof *list, 0);
        list->first = NULL;
        lua_setfield(L, LUA_REGISTRYINDEX, LOGS);
    }
    lua_pop(L, 1);
}
