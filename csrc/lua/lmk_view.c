/*
 * lmk_view -- records and batches on their way out: views to Lua values.
 *
 * A view's bytes end with the next call on its cursor. Making a Lua string may
 * run a finalizer, and that may make just such a call. So the cursor's box
 * counts its moves, and before each further string is made the count must be
 * what it was.
 */
#include "lua/lmk.h"

static void check_unmoved(lua_State *L, const lmk_cursor_box *box,
                          uint64_t moves)
{
    if (box->moves == moves) return;
    lmk_raise_status(L, MK_BUSY, "a finalizer moved the cursor during a read");
}

/* Push a string, or nil for NULL. */
static void push_bytes(lua_State *L, const void *data, size_t size)
{
    if (data == NULL) {
        lua_pushnil(L);
    } else {
        lua_pushlstring(L, data, size);
    }
}

/* Push {name [, value]}. */
static void push_header(lua_State *L, const lmk_cursor_box *box, uint64_t moves,
                        const mk_header *header)
{
    lua_createtable(L, 2, 0);
    check_unmoved(L, box, moves);
    lua_pushlstring(L, header->name, header->name_size);
    lua_rawseti(L, -2, 1);
    if (header->value == NULL) return;
    check_unmoved(L, box, moves);
    lua_pushlstring(L, header->value, header->value_size);
    lua_rawseti(L, -2, 2);
}

/* Push the list of headers. */
static void push_headers(lua_State *L, const lmk_cursor_box *box,
                         uint64_t moves, const mk_record_view *view)
{
    size_t count = view->header_count;
    mk_header few[LMK_FEW_HEADERS];
    mk_header *headers = few;
    mk_status status;
    mk_error err;

    lua_createtable(L, (int)count, 0);
    if (count > LMK_FEW_HEADERS) {
        headers = lua_newuserdatauv(L, count * sizeof *headers, 0);
        lua_insert(L, -2);
    }
    check_unmoved(L, box, moves);
    status = mk_record_headers(view, headers, &err);
    if (status != MK_OK) lmk_raise(L, status, &err);
    for (size_t i = 0; i < count; i++) {
        push_header(L, box, moves, &headers[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    if (count > LMK_FEW_HEADERS) lua_remove(L, -2);
}

void lmk_push_record_values(lua_State *L, const lmk_cursor_box *box,
                            const mk_record_view *view)
{
    uint64_t moves = box->moves;

    lua_pushinteger(L, view->offset);
    push_bytes(L, view->key, view->key_size);
    check_unmoved(L, box, moves);
    push_bytes(L, view->value, view->value_size);
    lua_pushinteger(L, view->timestamp_ms);
    if (view->header_count == 0) {
        lua_pushnil(L);
    } else {
        push_headers(L, box, moves, view);
    }
}

/* ---- Tables of records ---- */

/* The upvalues that lmk_push_record_parts() pushes, in its order. */
enum {
    PART_LIST_METATABLE = 2,
    PART_METATABLE,
    PART_OFFSET,
    PART_TIMESTAMP,
    PART_KEY,
    PART_VALUE,
    PART_HEADERS,
};

int lmk_push_record_parts(lua_State *L)
{
    luaL_getmetatable(L, LMK_RECORDS);
    luaL_getmetatable(L, LMK_RECORD);
    lua_pushliteral(L, "offset");
    lua_pushliteral(L, "timestamp_ms");
    lua_pushliteral(L, "key");
    lua_pushliteral(L, "value");
    lua_pushliteral(L, "headers");
    return PART_HEADERS - PART_LIST_METATABLE + 1;
}

static void push_part(lua_State *L, int part)
{
    lua_pushvalue(L, lua_upvalueindex(part));
}

static void set_bytes(lua_State *L, int part, const lmk_cursor_box *box,
                      uint64_t moves, const uint8_t *data, size_t size)
{
    if (data == NULL) return;
    push_part(L, part);
    check_unmoved(L, box, moves);
    lua_pushlstring(L, (const char *)data, size);
    lua_rawset(L, -3);
}

void lmk_push_record(lua_State *L, const lmk_cursor_box *box,
                     const mk_record_view *view)
{
    uint64_t moves = box->moves;

    lua_createtable(L, 0, view->header_count == 0 ? 4 : 5);
    push_part(L, PART_OFFSET);
    lua_pushinteger(L, view->offset);
    lua_rawset(L, -3);
    push_part(L, PART_TIMESTAMP);
    lua_pushinteger(L, view->timestamp_ms);
    lua_rawset(L, -3);
    set_bytes(L, PART_KEY, box, moves, view->key, view->key_size);
    set_bytes(L, PART_VALUE, box, moves, view->value, view->value_size);
    if (view->header_count > 0) {
        push_part(L, PART_HEADERS);
        push_headers(L, box, moves, view);
        lua_rawset(L, -3);
    }
    push_part(L, PART_METATABLE);
    lua_setmetatable(L, -2);
}

void lmk_push_record_list(lua_State *L, int count)
{
    lua_createtable(L, count, 0);
    push_part(L, PART_LIST_METATABLE);
    lua_setmetatable(L, -2);
}

/* ---- Batches ---- */

static void set_integer(lua_State *L, const char *name, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_boolean(lua_State *L, const char *name, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

void lmk_push_batch(lua_State *L, const mk_batch_view *view)
{
    lua_createtable(L, 0, 20);
    set_integer(L, "base_offset", view->base_offset);
    set_integer(L, "last_offset", view->last_offset);
    set_integer(L, "record_count", view->record_count);
    set_integer(L, "size_bytes", view->size_bytes);
    set_integer(L, "position", view->position);
    set_integer(L, "segment_base_offset", view->segment_base_offset);
    set_integer(L, "base_timestamp_ms", view->base_timestamp_ms);
    set_integer(L, "max_timestamp_ms", view->max_timestamp_ms);
    set_integer(L, "leader_epoch", view->leader_epoch);
    set_integer(L, "producer_id", view->producer_id);
    set_integer(L, "producer_epoch", view->producer_epoch);
    set_integer(L, "base_sequence", view->base_sequence);
    set_integer(L, "magic", view->magic);
    set_integer(L, "crc", view->crc);
    set_boolean(L, "control", view->control);
    set_boolean(L, "transactional", view->transactional);
    set_boolean(L, "append_time", view->append_time);
    set_boolean(L, "has_delete_horizon", view->has_delete_horizon);
    lmk_push_codec(L, view->codec);
    lua_setfield(L, -2, "codec");
    luaL_setmetatable(L, LMK_BATCH);
}
