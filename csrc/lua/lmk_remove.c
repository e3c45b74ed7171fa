/*
 * lmk_remove -- what takes records out of a log by hand.
 */
#include <stdlib.h>

#include "lua/lmk.h"

/* log:delete_records(before_offset) */
int lmk_log_delete_records(lua_State *L)
{
    lmk_log_box *box = lmk_check_self_log(L);
    int64_t before_offset = lmk_check_integer(L, 2, "before_offset");
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    log = lmk_enter(&call, L, box, 1);
    status = mk_log_delete_records(log, before_offset, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

/* log:truncate_to(offset) */
int lmk_log_truncate_to(lua_State *L)
{
    static const char *const names[] = {"full", NULL};
    static const lmk_names known = {names, false};
    lmk_log_box *box = lmk_check_self_log(L);
    int64_t offset = lmk_check_integer(L, 2, "offset");
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    lmk_check_options(L, 3, &known);
    lmk_refuse_option(L, 3, "full");
    log = lmk_enter(&call, L, box, 1);
    status = mk_log_truncate_to(log, offset, &err);
    lmk_finish(&call, status, &err);
    return 0;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Sort, and leave every number once; return how many are left. */
static size_t make_set(int64_t *numbers, size_t count)
{
    size_t kept = 0;

    if (count == 0) return 0;
    qsort(numbers, count, sizeof *numbers, compare);
    for (size_t i = 1; i < count; i++) {
        if (numbers[i] != numbers[kept]) numbers[++kept] = numbers[i];
    }
    return kept + 1;
}

/* Push memory with the list of integers that is argument `arg`. */
static int64_t *push_integers(lua_State *L, int arg, const char *name,
                              size_t *count)
{
    size_t named = 0;
    int64_t *numbers;

    if (!lua_istable(L, arg)) lmk_type_error(L, arg, name, "table", arg);
    *count = lua_rawlen(L, arg);
    numbers = lua_newuserdatauv(L, *count * sizeof *numbers, 0);
    lua_pushnil(L);
    while (lua_next(L, arg) != 0) {
        named++;
        lua_pop(L, 1);
    }
    if (named != *count) {
        lmk_arg_error(L, arg,
                      "base_offsets: a list without holes and names "
                      "expected");
    }
    for (size_t i = 0; i < *count; i++) {
        lua_rawgeti(L, arg, (lua_Integer)i + 1);
        if (!lmk_to_integer(L, -1, &numbers[i])) {
            lmk_type_error(L, arg, name, "integer", lua_gettop(L));
        }
        lua_pop(L, 1);
    }
    return numbers;
}

/* log:delete_closed_segments{base_offset, ...} -> the same, ascending */
int lmk_log_delete_closed_segments(lua_State *L)
{
    lmk_log_box *box = lmk_check_self_log(L);
    mk_status status;
    int64_t *bases;
    lmk_call call;
    size_t count;
    mk_log *log;
    mk_error err;

    bases = push_integers(L, 2, "base_offsets", &count);
    count = make_set(bases, count);
    lua_createtable(L, (int)count, 0);
    log = lmk_enter(&call, L, box, 1);
    status = mk_log_delete_closed_segments(log, bases, count, &err);
    lmk_finish(&call, status, &err);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, bases[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}
