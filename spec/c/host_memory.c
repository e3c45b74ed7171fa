/*
 * host_memory -- a host of Lua whose memory can be made to run out.
 *
 * Runs the script that is its argument. The script has one function more:
 *
 *     done, raised, spent = failing(n, f, ...)
 *
 * calls f protected, while every request for memory from the n-th on fails, and
 * tells how many there were. Ends with status 0 if the script ended well and no
 * byte of the state was left.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

typedef struct memory {
    size_t used;         /* Bytes. */
    lua_Integer left;    /* Requests that will be met; negative: all. */
    lua_Integer counted; /* Requests since `left` was set. */
} memory;

static void *allocate(void *context, void *block, size_t old_size, size_t size)
{
    memory *m = context;
    void *resized;

    if (block == NULL) old_size = 0; /* It tells what the block is for. */
    if (size == 0) {
        free(block);
        m->used -= old_size;
        return NULL;
    }
    if (size > old_size) {
        m->counted++;
        if (m->left == 0) return NULL;
        if (m->left > 0) m->left--;
    }
    resized = realloc(block, size);
    if (resized != NULL) m->used += size - old_size;
    return resized;
}

/* failing(n, f, ...) -> done, raised, spent */
static int failing(lua_State *L)
{
    lua_Integer n = luaL_checkinteger(L, 1);
    void *context;
    memory *m;
    int status;

    lua_getallocf(L, &context);
    m = context;
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    m->counted = 0;
    m->left = n - 1;
    status = lua_pcall(L, lua_gettop(L) - 2, 1, 0);
    m->left = -1;
    lua_settop(L, 2);
    lua_pushboolean(L, status == LUA_OK);
    lua_insert(L, 2);
    lua_pushinteger(L, m->counted);
    return 3;
}

int main(int argc, char **argv)
{
    memory m = {.left = -1};
    lua_State *L;
    int status;

    if (argc != 2) return 2;
    L = lua_newstate(allocate, &m);
    if (L == NULL) return 2;
    luaL_openlibs(L);
    lua_register(L, "failing", failing);
    status = luaL_dofile(L, argv[1]);
    if (status != LUA_OK) fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
    lua_close(L);
    if (m.used != 0) fprintf(stderr, "%zu bytes are left\n", m.used);
    return status == LUA_OK && m.used == 0 ? 0 : 1;
}
