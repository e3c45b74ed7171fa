/*
 * host_states -- a host of Lua with a state in each of its threads.
 *
 *     host_states SCRIPT THREADS ROUNDS
 *
 * Each thread makes a state, runs the script in it with its number and that of
 * the round as arguments, and closes the state; so many times over. Ends with
 * status 0 if every script ended well.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#define THREADS_MAX 64

typedef struct runner {
    pthread_t thread;
    const char *script; /* Borrowed. */
    lua_Integer number;
    lua_Integer rounds;
    int failures;
} runner;

static int run_script(lua_State *L, const runner *r, lua_Integer round)
{
    luaL_openlibs(L);
    if (luaL_loadfile(L, r->script) != LUA_OK) return LUA_ERRFILE;
    lua_pushinteger(L, r->number);
    lua_pushinteger(L, round);
    return lua_pcall(L, 2, 0, 0);
}

static void *run(void *context)
{
    runner *r = context;

    for (lua_Integer round = 1; round <= r->rounds; round++) {
        lua_State *L = luaL_newstate();

        if (L == NULL || run_script(L, r, round) != LUA_OK) {
            fprintf(stderr, "thread %d: %s\n", (int)r->number,
                    L != NULL ? luaL_tolstring(L, -1, NULL) : "no state");
            r->failures++;
        }
        if (L != NULL) lua_close(L);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    runner runners[THREADS_MAX] = {{.failures = 0}};
    int thread_count = argc == 4 ? atoi(argv[2]) : 0;
    int failures = 0;

    if (thread_count < 1 || thread_count > THREADS_MAX) return 2;
    for (int i = 0; i < thread_count; i++) {
        runners[i].script = argv[1];
        runners[i].number = i + 1;
        runners[i].rounds = atoi(argv[3]);
        if (pthread_create(&runners[i].thread, NULL, run, &runners[i]) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < thread_count; i++) {
        pthread_join(runners[i].thread, NULL);
        failures += runners[i].failures;
    }
    return failures == 0 ? 0 : 1;
}
