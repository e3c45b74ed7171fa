/*
 * lmk_append -- log:append() and log:append_kv().
 */
#include "lua/lmk.h"

static const char *const option_names[] = {
    "base_sequence",  "compression", "durable",       "leader_epoch", "offsets",
    "producer_epoch", "producer_id", "transactional", NULL,
};
static const lmk_names known = {option_names, false};

void lmk_refuse_append_options(lua_State *L, int arg)
{
    lmk_check_options(L, arg, &known);
    for (size_t i = 0; option_names[i] != NULL; i++) {
        if (!lmk_push_option(L, arg, option_names[i])) continue;
        lmk_raise_status(L, MK_INVALID_ARGUMENT,
                         "option '%s' is for log:append(), not an appender's",
                         option_names[i]);
    }
}

static void check_append_options(lua_State *L, int arg, mk_append_options *out)
{
    int64_t leader_epoch = 0;

    mk_append_options_default(out);
    if (lua_isnoneornil(L, arg)) return;
    lmk_check_options(L, arg, &known);
    lmk_refuse_option(L, arg, "offsets");
    lmk_refuse_option(L, arg, "producer_id");
    lmk_refuse_option(L, arg, "producer_epoch");
    lmk_refuse_option(L, arg, "base_sequence");
    lmk_refuse_option(L, arg, "transactional");
    lmk_option_codec(L, arg, &out->compression);
    lmk_option_boolean(L, arg, "durable", &out->durable);
    if (lmk_option_integer(L, arg, "leader_epoch", 0, INT32_MAX,
                           &leader_epoch)) {
        out->leader_epoch = (int32_t)leader_epoch;
    }
}

/* log:append(record or list [, options]) -> first offset, last offset */
int lmk_log_append(lua_State *L)
{
    lmk_log_box *box = lmk_check_self_log(L);
    mk_append_options options;
    mk_offset_range range;
    lmk_records records;
    mk_status status;
    lmk_call call;
    mk_log *log;
    mk_error err;

    check_append_options(L, 3, &options);
    lmk_check_records(L, 2, box->lua_clock, &records);
    log = lmk_enter(&call, L, box, 1);
    status = mk_log_append(log, records.records, records.count, &options,
                           &range, &err);
    lmk_finish(&call, status, &err);
    lua_pushinteger(L, range.first);
    lua_pushinteger(L, range.last);
    return 2;
}

/* log:append_kv(key, value [, timestamp_ms [, headers]]) -> offset */
int lmk_log_append_kv(lua_State *L)
{
    lmk_log_box *box = lmk_check_self_log(L);
    lmk_records records;
    mk_status status;
    int64_t offset;
    lmk_call call;
    mk_log *log;
    mk_error err;

    lmk_check_record(L, box->lua_clock, &records);
    log = lmk_enter(&call, L, box, 1);
    status = mk_log_append_one(log, &records.one, &offset, &err);
    lmk_finish(&call, status, &err);
    lua_pushinteger(L, offset);
    return 1;
}
