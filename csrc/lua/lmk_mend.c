/*
 * lmk_mend -- looking at logs, mending and copying them.
 */
#include "lua/lmk.h"

#define FINDINGS_HOLDER "minikafka.findings_holder"
#define PLAN_HOLDER     "minikafka.repair_holder"

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
    lmk_log_box *box = lmk_check_read_log(L);
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

/* ---- Repair ---- */

static int plan_collect(lua_State *L)
{
    mk_repair_plan_deinit(luaL_checkudata(L, 1, PLAN_HOLDER));
    return 0;
}

static void push_step(lua_State *L, const mk_repair_step *step)
{
    lua_createtable(L, 0, 6);
    set_string(L, "action", mk_repair_word(step->action));
    set_string(L, "path", step->path);
    if (step->to[0] != '\0') set_string(L, "to", step->to);
    set_string(L, "reason", step->reason);
    set_place(L, "lost_from", step->lost_from);
    set_place(L, "lost_to", step->lost_to);
    luaL_setmetatable(L, LMK_REPAIR_STEP);
}

/* Push a table of the plan, and release it. */
static void push_plan(lua_State *L, mk_repair_plan *plan)
{
    lua_createtable(L, (int)plan->count, 2);
    for (size_t i = 0; i < plan->count; i++) {
        push_step(L, &plan->steps[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushboolean(L, plan->applied);
    lua_setfield(L, -2, "applied");
    if (plan->quarantine[0] != '\0') {
        set_string(L, "quarantine", plan->quarantine);
    }
    luaL_setmetatable(L, LMK_REPAIR_PLAN);
    mk_repair_plan_deinit(plan);
}

/* Push the box of a log that is never opened: calls and traces go by it. */
static lmk_log_box *push_box(lua_State *L)
{
    lmk_log_box *box = lua_newuserdatauv(L, sizeof *box, LMK_LOG_VALUES);

    *box = (lmk_log_box){.log = NULL};
    luaL_setmetatable(L, LMK_LOG);
    return box;
}

static mk_status repair_on(const lmk_disk_box *disk, const char *directory,
                           mk_repair_options *options, mk_repair_plan *out,
                           mk_error *err)
{
    mk_status status;

    if (disk == NULL) return mk_repair(directory, options, out, err);
    status = mk_env_new_sim(disk->disk, &options->env, err);
    if (status != MK_OK) return status;
    status = mk_repair(directory, options, out, err);
    mk_env_free(options->env);
    return status;
}

/* repair(directory [, options]) -> plan */
int lmk_repair(lua_State *L)
{
    static const char *const names[] = {"apply", "io", "progress", NULL};
    static const lmk_names known = {names, false};
    const char *directory = lmk_check_directory(L, 1);
    mk_repair_options options;
    mk_repair_plan *plan;
    lmk_log_box *box;
    mk_status status;
    lmk_call call;
    mk_error err;
    int disk = 0, progress;

    lua_settop(L, 2);
    lmk_check_options(L, 2, &known);
    mk_repair_options_default(&options);
    lmk_option_boolean(L, 2, "apply", &options.apply);
    progress = lmk_push_progress(L, 2);
    if (lmk_push_option(L, 2, "io")) {
        if (luaL_testudata(L, -1, LMK_DISK) == NULL) {
            return lmk_option_error(L, 2, "io", LMK_DISK);
        }
        disk = lua_gettop(L);
    }
    plan = lua_newuserdatauv(L, sizeof *plan, 0);
    *plan = (mk_repair_plan){.steps = NULL};
    luaL_setmetatable(L, PLAN_HOLDER);
    box = push_box(L);
    if (progress != 0) options.progress = lmk_call_progress(box);
    if (disk != 0) lmk_link_log(L, box, disk);

    lmk_begin(&call, L, box, lua_gettop(L));
    call.progress = progress;
    status = repair_on(box->disk, directory, &options, plan, &err);
    lmk_unlink_log(box);
    lmk_finish(&call, status, &err);
    push_plan(L, plan);
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
    static const luaL_Reg findings_meta[] = {
        {"__gc", findings_collect},
        {NULL, NULL},
    };
    static const luaL_Reg plan_meta[] = {
        {"__gc", plan_collect},
        {NULL, NULL},
    };
    static const lmk_type findings = {FINDINGS_HOLDER, methods, NULL,
                                      findings_meta};
    static const lmk_type plan = {PLAN_HOLDER, methods, NULL, plan_meta};

    lmk_type_register(L, &findings);
    lmk_type_register(L, &plan);
    lua_pop(L, 2);
}
