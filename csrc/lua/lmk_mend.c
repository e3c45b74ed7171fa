/*
 * lmk_mend -- looking at logs, mending and copying them.
 */
#include "lua/lmk.h"

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
