/*
 * lmk_call -- calls into the core, and its calls back.
 *
 * A callback runs on the lua_State that made the call in progress, above that
 * call's values, and protected: nothing it does jumps through the core. What it
 * raises stays on that stack until the core has returned, and is then raised
 * again as it was. A yield in it is such an error.
 */
#include "lua/lmk.h"

mk_status lmk_callback(lmk_call *call, int argument_count, int result_count,
                       mk_error *err)
{
    lua_State *L = call->L;

    if (lua_pcall(L, argument_count, result_count, 0) == LUA_OK) return MK_OK;
    if (call->raised == 0) {
        call->raised = lua_gettop(L);
    } else {
        lua_pop(L, 1); /* The first error counts. */
    }
    return lmk_fill_error(err, MK_CALLBACK, "a callback raised an error");
}

int lmk_call_raise(const lmk_call *call, mk_status status, const mk_error *err)
{
    if (call->raised == 0) return lmk_raise(call->L, status, err);
    lua_pushvalue(call->L, call->raised);
    return lua_error(call->L);
}

static mk_status report_progress(void *context, int64_t done, int64_t total,
                                 mk_error *err)
{
    const lmk_log_box *box = context;
    lmk_call *call = box->call;

    if (call == NULL || call->progress == 0) return MK_OK;
    if (!lua_checkstack(call->L, LUA_MINSTACK)) {
        return lmk_fill_error(err, MK_NO_MEMORY, "no room for a callback");
    }
    lua_pushvalue(call->L, call->progress);
    lua_pushinteger(call->L, done);
    lua_pushinteger(call->L, total);
    return lmk_callback(call, 2, 0, err);
}

mk_progress lmk_call_progress(lmk_log_box *box)
{
    return (mk_progress){report_progress, box};
}
