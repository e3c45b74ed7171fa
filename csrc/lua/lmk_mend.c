/*
 * lmk_mend -- looking at logs, mending and copying them.
 */
#include "lua/lmk.h"

#define FINDINGS_HOLDER "minikafka.findings_holder"

static void set_string(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

/* Set a place, which may be none. */
static void set_place(lua_State *L, const char *name, int64_t value)
{
    if (value < 0) return;
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/* ---- Findings ---- */

static int findings_collect(lua_State *L)
{
    mk_findings_deinit(luaL_checkudata(L, 1, FINDINGS_HOLDER));
    return 0;
}

/* Push findings of the core that the collector can finish. */
static mk_findings *push_findings_holder(lua_State *L)
{
    mk_findings *findings = lua_newuserdatauv(L, sizeof *findings, 0);

    *findings = (mk_findings){.array = NULL};
    luaL_setmetatable(L, FINDINGS_HOLDER);
    return findings;
}

static void push_finding(lua_State *L, const mk_finding *finding)
{
    lua_createtable(L, 0, 6);
    set_string(L, "code", mk_finding_name(finding->code));
    set_string(L, "message", finding->message);
    set_string(L, "severity", finding->is_damage ? "damage" : "note");
    set_string(L, "path", finding->path);
    set_place(L, "position", finding->position);
    set_place(L, "offset", finding->offset);
    luaL_setmetatable(L, LMK_FINDING);
}

/* Push a list of them, and release them. */
static void push_findings(lua_State *L, mk_findings *findings)
{
    lua_createtable(L, (int)findings->count, 0);
    for (size_t i = 0; i < findings->count; i++) {
        push_finding(L, &findings->array[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    luaL_setmetatable(L, LMK_FINDINGS);
    mk_findings_deinit(findings);
}

/* log:verify([options]) -> list of findings */
int lmk_log_verify(lua_State *L)
{
    static const char *const names[] = {"progress", NULL};
    static const lmk_names known = {names, false};
    lmk_log_box *box = lmk_check_self_log(L);
    mk_progress progress = lmk_call_progress(box);
    mk_findings *findings;
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;
    int index;

    lua_settop(L, 2);
    lmk_check_options(L, 2, &known);
    index = lmk_push_progress(L, 2);
    findings = push_findings_holder(L);
    log = lmk_enter(&call, L, box, 1);
    call.progress = index;
    status = mk_log_verify(log, index != 0 ? &progress : NULL, findings, &err);
    lmk_finish(&call, status, &err);
    push_findings(L, findings);
    return 1;
}

/* ---- Copying ---- */

/* log:copy_to(directory [, options]) */
int lmk_log_copy_to(lua_State *L)
{
    static const char *const names[] = {"progress", NULL};
    static const lmk_names known = {names, false};
    lmk_log_box *box = lmk_check_self_log(L);
    const char *directory = lmk_check_directory(L, 2);
    mk_progress progress = lmk_call_progress(box);
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;
    int index;

    lua_settop(L, 3);
    lmk_check_options(L, 3, &known);
    index = lmk_push_progress(L, 3);
    log = lmk_enter(&call, L, box, 1);
    call.progress = index;
    status =
        mk_log_copy_to(log, directory, index != 0 ? &progress : NULL, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* ---- Types ---- */

void lmk_mend_register(lua_State *L)
{
    static const luaL_Reg methods[] = {{NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__gc", findings_collect},
        {NULL, NULL},
    };
    static const lmk_type findings = {FINDINGS_HOLDER, methods, NULL, meta};

    lmk_type_register(L, &findings);
    lua_pop(L, 1);
}
