/*
 * lmk_pending -- names that are promised and not built yet.
 *
 * Each is there, so that a script can ask for it, and raises UNSUPPORTED. What
 * gets built is taken off these lists.
 */
#include "lua/lmk.h"

static const char *const methods[] = {
    "apply",
    "assign_epoch",
    "clean",
    "end_offset_for_epoch",
    "end_transaction",
    "expire_producers",
    "hold",
    "holders",
    "plan",
    "release",
    "set_high_watermark",
    "transaction",
    "truncate_to_epoch",
    "why",
    NULL,
};

static const char *const functions[] = {
    "LogCleaner", "LogDir", "draw", "report", "simulate", NULL,
};

static const char *const policies[] = {
    "cleaner", "compaction", "filter", "prefix", "retention", "sequence", NULL,
};

/* Upvalue 1 is the full name. */
static int refuse(lua_State *L)
{
    return lmk_raise_status(L, MK_UNSUPPORTED,
                            "%s() is not part of this version",
                            lua_tostring(L, lua_upvalueindex(1)));
}

/* Set all names in the table at the top. */
static void set_names(lua_State *L, const char *prefix,
                      const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        lua_pushfstring(L, "%s%s", prefix, names[i]);
        lua_pushcclosure(L, refuse, 1);
        lua_setfield(L, -2, names[i]);
    }
}

void lmk_pending_methods(lua_State *L)
{
    set_names(L, "log:", methods);
}

void lmk_pending_functions(lua_State *L)
{
    set_names(L, "minikafka.", functions);
    lua_newtable(L);
    set_names(L, "minikafka.policy.", policies);
    lua_setfield(L, -2, "policy");
}
