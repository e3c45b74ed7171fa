/*
 * lmk -- what the files of the Lua binding share.
 *
 * Handles. A userdata is a box: it is made closed, gets its metatable, and only
 * then is opened, so that a memory error at any line leaves something that the
 * collector can finish. A child has its log's box in user value 1.
 *
 * Errors. Most functions of Lua may raise, which jumps over everything. So
 * nothing that needs releasing is held in C across such a call. Any allocation
 * may also run finalizers, and those may close the very handle in use: what a
 * box holds is read again after one (lmk_enter() does).
 *
 * Calls. Every call into the core stands between lmk_enter() and lmk_finish().
 * The core may call back in between; the callback finds in the lmk_call which
 * lua_State is running, which may be any coroutine.
 *
 * The first upvalue of each method is its type's metatable: see lmk_self().
 */
#ifndef MK_LUA_LMK_H
#define MK_LUA_LMK_H

#include <lauxlib.h>
#include <lua.h>

#include "include/minikafka.h"
#include "include/minikafka_sim.h"

#if LUA_VERSION_NUM != 504
#error "minikafka is made for Lua 5.4"
#endif

_Static_assert(sizeof(lua_Integer) == 8, "offsets need 64-bit Lua integers");

/* Names of types: userdata, then tables. */
#define LMK_LOG          "minikafka.log"
#define LMK_CURSOR       "minikafka.cursor"
#define LMK_APPENDER     "minikafka.appender"
#define LMK_MANUAL_CLOCK "minikafka.ManualClock"
#define LMK_SYSTEM_CLOCK "minikafka.SystemClock"
#define LMK_RETENTION    "minikafka.RetentionManager"
#define LMK_COMPACTOR    "minikafka.LogCompactor"
#define LMK_DISK         "minikafka.SimDisk"
#define LMK_STATES       "minikafka.crash_states"
#define LMK_ERROR        "minikafka.error"
#define LMK_RECORD       "minikafka.record"
#define LMK_RECORDS      "minikafka.records"
#define LMK_BATCH        "minikafka.batch"
#define LMK_SEGMENT      "minikafka.segment"
#define LMK_SEGMENTS     "minikafka.segments"
#define LMK_CONFIG       "minikafka.config"
#define LMK_STATS        "minikafka.stats"
#define LMK_RESULT       "minikafka.result"
#define LMK_FEATURES     "minikafka.features"
#define LMK_EVENT        "minikafka.event"
#define LMK_DISK_STATS   "minikafka.disk_stats"
#define LMK_FINDING      "minikafka.finding"
#define LMK_FINDINGS     "minikafka.findings"
#define LMK_PATHS        "minikafka.paths"
#define LMK_REPAIR_PLAN  "minikafka.repair_plan"
#define LMK_REPAIR_STEP  "minikafka.repair_step"

/* ---- Faults of the caller ---- */

/* luaL_argerror(), which also knows the name of a method that was not called
 * as one: pcall(log.fetch, log, "x"). */
int lmk_arg_error(lua_State *L, int arg, const char *message);

/* Raise the ordinary error of an argument called `name`. `index` is where the
 * value at fault is. */
int lmk_type_error(lua_State *L, int arg, const char *name,
                   const char *expected, int index);

/* ---- Types ---- */

/* A type of userdata. */
typedef struct lmk_type {
    const char *name;
    const luaL_Reg *methods;
    const luaL_Reg *fields; /* Getters, called as (object, name); or NULL. */
    const luaL_Reg *meta;   /* __tostring and its kin. */
} lmk_type;

/* Make the type's metatable. Leaves the table of methods on the stack. */
void lmk_type_register(lua_State *L, const lmk_type *type);

/* Return argument 1 of a method if it is of the method's own type, or raise an
 * argument error. Faster than luaL_checkudata(). */
static inline void *lmk_self(lua_State *L, const char *type_name)
{
    void *box = lua_touserdata(L, 1);
    bool mine = false;

    if (box != NULL && lua_getmetatable(L, 1)) {
        mine = lua_rawequal(L, -1, lua_upvalueindex(1));
        lua_pop(L, 1);
    }
    if (!mine) lmk_type_error(L, 1, "self", type_name, 1);
    return box;
}

/* ---- Logs and calls ---- */

typedef struct lmk_call lmk_call;
typedef struct lmk_disk_box lmk_disk_box;
typedef struct lmk_log_box lmk_log_box;

struct lmk_log_box {
    mk_log *log;    /* Owned; NULL once closed. */
    lmk_call *call; /* Borrowed: the innermost call in progress, or NULL. */
    bool lua_clock; /* A call may run Lua: its clock, or its disk's trace. */
    bool read_only;
    bool closing;              /* In a close: a further one does nothing. */
    bool telling;              /* Its disk's trace runs, for a call of it. */
    const lmk_disk_box *disk;  /* Borrowed: a user value holds it. NULL: the
                                  log is on a real disk. */
    lmk_log_box *next, **link; /* Borrowed: see lmk_trace. */
};

/* User values of a log's box. */
enum {
    LMK_LOG_CLOCK = 1, /* The clock as given. */
    LMK_LOG_DIRECTORY, /* Its name as given. */
    LMK_LOG_READER,    /* The cursor of fetch(), while no fetch() runs. */
    LMK_LOG_DISK,      /* The simulated disk, or nil. */
    LMK_LOG_STAND_IN,  /* Who is read while the disk tells, or nil. */
    LMK_LOG_VALUES = LMK_LOG_STAND_IN,
};

/* A call into the core, while it lasts. Lives on the C stack. */
struct lmk_call {
    lua_State *L;     /* Borrowed: who made it. */
    lmk_log_box *box; /* Borrowed: the log concerned. */
    lmk_call *outer;  /* Borrowed: the call from within which it was made. */
    int log_index;    /* Where L's frame has the log's box; 0: not at all. */
    int progress;     /* ... and the function to be told of progress, or 0. */
    int raised;       /* ... and what a callback has raised, or 0. */
};

/* Raise BUSY: a trace would change the log whose operation it is told. */
int lmk_raise_telling(lua_State *L);

/* Begin a call for the log whose box is at `log_index`. It need not be open. */
static inline void lmk_begin(lmk_call *call, lua_State *L, lmk_log_box *box,
                             int log_index)
{
    if (box->telling) lmk_raise_telling(L);
    call->L = L;
    call->box = box;
    call->outer = box->call;
    call->log_index = log_index;
    call->progress = 0;
    call->raised = 0;
    box->call = call;
}

static inline void lmk_end(lmk_call *call)
{
    call->box->call = call->outer;
}

/* Raise an error object: this handle is closed. */
int lmk_raise_closed(lua_State *L, const char *what);

/* Begin a call, and return the log. A closed one raises CLOSED. */
static inline mk_log *lmk_enter(lmk_call *call, lua_State *L, lmk_log_box *box,
                                int log_index)
{
    if (box->log == NULL) lmk_raise_closed(L, "log");
    lmk_begin(call, L, box, log_index);
    return box->log;
}

/* Begin a call of a child, which is at index 1. */
static inline void lmk_enter_child(lmk_call *call, lua_State *L,
                                   lmk_log_box *box)
{
    int log_index = 0;

    if (box->lua_clock) {
        lua_getiuservalue(L, 1, 1);
        log_index = lua_gettop(L);
    }
    lmk_begin(call, L, box, log_index);
}

/* Raise what made a call fail, which has ended. */
int lmk_call_raise(const lmk_call *call, mk_status status, const mk_error *err);

/* End a call, and raise what made it fail if it did. */
static inline void lmk_finish(lmk_call *call, mk_status status,
                              const mk_error *err)
{
    lmk_end(call);
    if (status != MK_OK) lmk_call_raise(call, status, err);
}

/* Call the function below `argument_count` arguments for the core. What it
 * raises is kept in the call, and makes a CALLBACK. */
mk_status lmk_callback(lmk_call *call, int argument_count, int result_count,
                       mk_error *err);

/* Fill `err`, which may be NULL, and return `status`. */
mk_status lmk_fill_error(mk_error *err, mk_status status, const char *message);

/* The progress of opening, told to the function at `call->progress`. */
mk_progress lmk_call_progress(lmk_log_box *box);

/* ---- Errors ---- */

/* Raise the error object of a failure in the core. */
int lmk_raise(lua_State *L, mk_status status, const mk_error *err);

/* Raise an error object made here; the format is lua_pushfstring()'s. */
int lmk_raise_status(lua_State *L, mk_status status, const char *format, ...);

/* The names that are known somewhere. */
typedef struct lmk_names {
    const char *const *names; /* NULL-terminated. */
    bool settings;            /* All settings of a log beside them. */
} lmk_names;

/* Raise INVALID_ARGUMENT with `nearest`, if the string at the top is none of
 * the names. `what` says what kind of name it is. */
void lmk_check_name(lua_State *L, const lmk_names *known, const char *what);

int lmk_is_error(lua_State *L);
int lmk_raise_table(lua_State *L);
int lmk_nearest(lua_State *L);
void lmk_error_register(lua_State *L);

/* ---- Arguments ---- */

/* Read the integer at `index`: an integer, or a float below 2^53 without a
 * fraction. Strings are no numbers. */
bool lmk_to_integer(lua_State *L, int index, int64_t *out);

/* What lmk_check_integer() and lmk_opt_bytes() do with what is unusual. */
int64_t lmk_check_float(lua_State *L, int arg, const char *name);
void lmk_check_null(lua_State *L, int arg, const char *name);

static inline int64_t lmk_check_integer(lua_State *L, int arg, const char *name)
{
    if (lua_isinteger(L, arg)) return lua_tointeger(L, arg);
    return lmk_check_float(L, arg, name);
}

int64_t lmk_opt_integer(lua_State *L, int arg, const char *name,
                        int64_t fallback);

/* Return the bytes of a string, or NULL for nil. Valid as long as the string is
 * reachable. */
static inline const void *lmk_opt_bytes(lua_State *L, int arg, const char *name,
                                        size_t *size)
{
    if (lua_type(L, arg) == LUA_TSTRING) return lua_tolstring(L, arg, size);
    lmk_check_null(L, arg, name);
    *size = 0;
    return NULL;
}

/* Return the name of a directory. */
const char *lmk_check_directory(lua_State *L, int arg);

/* Return a time of a record as the core has it. The core's word for "now" is no
 * time that a caller may write: it is made one that the core refuses. */
static inline int64_t lmk_to_record_time(int64_t given_ms)
{
    return given_ms == MK_TIMESTAMP_NOW ? MK_TIMESTAMP_NOW + 1 : given_ms;
}

/* ---- Options ---- */

/* Check that argument `arg` is a table of known names, or left out. */
void lmk_check_options(lua_State *L, int arg, const lmk_names *known);

/* Push the option, if it was given. */
bool lmk_push_option(lua_State *L, int arg, const char *name);

/* Raise the ordinary error of an option, whose value is at the top. */
int lmk_option_error(lua_State *L, int arg, const char *name,
                     const char *expected);

/* Read an option, if it was given; leave `*out` alone if not. The integer must
 * be at least `minimum` and at most `maximum`; the word is told by its number
 * among `words`. */
bool lmk_option_integer(lua_State *L, int arg, const char *name,
                        int64_t minimum, int64_t maximum, int64_t *out);
bool lmk_option_boolean(lua_State *L, int arg, const char *name, bool *out);
bool lmk_option_word(lua_State *L, int arg, const char *name,
                     const char *const *words, int *out);

/* Read `compression`. */
void lmk_option_codec(lua_State *L, int arg, mk_codec *out);

/* Of those of log:append() allow none: an appender has its own. */
void lmk_refuse_append_options(lua_State *L, int arg);

/* Push the word for a codec. */
void lmk_push_codec(lua_State *L, mk_codec codec);

/* Read `isolation`. */
void lmk_option_isolation(lua_State *L, int arg, mk_isolation *out);

/* Read `end_offset`. One below all offsets leaves nothing to read; it must not
 * become the core's MK_TO_END. */
void lmk_option_end_offset(lua_State *L, int arg, int64_t *out);

/* Push the option `progress`, or nothing; return where it is, or 0. */
int lmk_push_progress(lua_State *L, int arg);

/* Raise UNSUPPORTED if the option was given, and is not false. */
void lmk_refuse_option(lua_State *L, int arg, const char *name);

/* Read all settings that an options table has. */
void lmk_check_settings(lua_State *L, int arg, mk_config *config);

/* Push a table of all settings. */
void lmk_push_config(lua_State *L, const mk_config *config);

/* ---- Clocks ---- */

void lmk_clock_register(lua_State *L);
int lmk_manual_clock_new(lua_State *L);
int lmk_system_clock_new(lua_State *L);

/* Is the value at `index` fit to be a clock? May call a metamethod. */
bool lmk_is_clock(lua_State *L, int index);

/* Fill `out` for one of our own clocks, which call no Lua. */
bool lmk_clock_native(lua_State *L, int index, mk_clock *out);

/* The clock of a log whose clock is a Lua value. */
mk_clock lmk_clock_of_log(lmk_log_box *box);

/* A clock for the duration of a call. */
typedef struct lmk_clock_use {
    lmk_call *call; /* Borrowed. */
    int index;      /* Where the clock's value is in the call's frame. */
} lmk_clock_use;

/* Make the face of the clock at `use->index`; nil is the log's own. */
mk_clock lmk_clock_face(lua_State *L, lmk_clock_use *use);

/* ---- Records in ---- */

#define LMK_FEW_HEADERS 8

/* Records on their way into the core. Borrows strings that are in the caller's
 * arguments, and memory that is on the Lua stack. */
typedef struct lmk_records {
    mk_record *records; /* `one`, or in a userdata. */
    size_t count;
    mk_record one;
    mk_header few[LMK_FEW_HEADERS];
} lmk_records;

/* Read a record or a list of them. With `anchored`, strings stay alive even if
 * Lua code changes the tables during the call. Leaves values on the stack that
 * must stay there until the call is over. */
void lmk_check_records(lua_State *L, int arg, bool anchored, lmk_records *out);

/* Read the arguments (key, value [, timestamp_ms [, headers]]), of which the
 * first is number 2, into `out->one`. */
void lmk_check_record(lua_State *L, bool anchored, lmk_records *out);

int lmk_log_append(lua_State *L);
int lmk_log_append_kv(lua_State *L);

/* ---- Appenders ---- */

void lmk_appender_register(lua_State *L);
int lmk_log_appender(lua_State *L);

/* ---- Records out ---- */

typedef struct lmk_cursor_box {
    mk_cursor *cursor; /* Owned; NULL once closed. */
    lmk_log_box *log;  /* Borrowed: user value 1 holds it. */
    uint64_t moves;    /* Grows whenever a view may have become invalid. */
} lmk_cursor_box;

void lmk_cursor_register(lua_State *L);

/* Push a cursor on the log whose open box is at `log_index`, at `*from`, or at
 * the log start if that is NULL. */
lmk_cursor_box *lmk_push_cursor(lua_State *L, int log_index,
                                const int64_t *from);

void lmk_cursor_release(lmk_cursor_box *box);

/* Return the log end as it is now, also on disk if others write there. */
int64_t lmk_log_end_now(lua_State *L, lmk_log_box *box, int log_index);

/* Push offset, key, value, time and headers of a view of `box`. */
void lmk_push_record_values(lua_State *L, const lmk_cursor_box *box,
                            const mk_record_view *view);

/* Push what tables of records are made with, and return how many values that
 * is. They are upvalues, from number 2 on, of whoever makes such tables. */
int lmk_push_record_parts(lua_State *L);

/* Push a table of the same values, or an empty list of such tables with room
 * for `count`. */
void lmk_push_record(lua_State *L, const lmk_cursor_box *box,
                     const mk_record_view *view);
void lmk_push_record_list(lua_State *L, int count);

void lmk_push_batch(lua_State *L, const mk_batch_view *view);

/* Add fetch() to the methods of logs, in the table at the top. */
void lmk_fetch_register(lua_State *L);

int lmk_log_records(lua_State *L);
int lmk_log_batches(lua_State *L);
int lmk_log_cursor(lua_State *L);

/* ---- The rest of a log ---- */

void lmk_log_register(lua_State *L);
int lmk_log_open(lua_State *L);

/* Return the open box that is `self` of a method of logs. */
lmk_log_box *lmk_check_self_log(lua_State *L);

/* The same for what only reads. While the log's disk tells an operation of it,
 * a reader of its directory stands in for it, and takes its place at index 1.
 */
lmk_log_box *lmk_check_read_log(lua_State *L);

/* Return the open box at any argument. */
lmk_log_box *lmk_check_log(lua_State *L, int arg);

int lmk_log_wait(lua_State *L);
int lmk_log_refresh(lua_State *L);
int lmk_log_roll(lua_State *L);
int lmk_log_flush(lua_State *L);
int lmk_log_configure(lua_State *L);
int lmk_log_offset_for_timestamp(lua_State *L);
int lmk_log_offset_of_max_timestamp(lua_State *L);
int lmk_log_delete_records(lua_State *L);
int lmk_log_truncate_to(lua_State *L);
int lmk_log_delete_closed_segments(lua_State *L);

/* Getters of fields. */
int lmk_log_get_directory(lua_State *L);
int lmk_log_get_clock(lua_State *L);
int lmk_log_get_config(lua_State *L);
int lmk_log_get_start(lua_State *L);
int lmk_log_get_end(lua_State *L);
int lmk_log_get_stable(lua_State *L);
int lmk_log_get_high_watermark(lua_State *L);
int lmk_log_get_recovery_point(lua_State *L);
int lmk_log_get_size(lua_State *L);
int lmk_log_get_segments(lua_State *L);
int lmk_log_get_closed_segments(lua_State *L);
int lmk_log_get_active_segment(lua_State *L);
int lmk_log_stats(lua_State *L);

/* ---- Cleanup ---- */

void lmk_clean_register(lua_State *L);
int lmk_retention_new(lua_State *L);
int lmk_compactor_new(lua_State *L);

/* ---- Looking, mending, copying ---- */

void lmk_mend_register(lua_State *L);
int lmk_log_copy_to(lua_State *L);
int lmk_log_verify(lua_State *L);
int lmk_repair(lua_State *L);

/* ---- Simulated disks ---- */

/* All logs on simulated disks; see lmk_trace. */
typedef struct lmk_log_list {
    lmk_log_box *first; /* Borrowed. */
} lmk_log_list;

struct lmk_disk_box {
    mk_sim_disk *disk;        /* Counted; NULL once closed. */
    const lmk_log_list *logs; /* Borrowed: the registry holds it. */
};

/* User values of a disk's box. */
enum {
    LMK_DISK_CLOCK = 1,
    LMK_DISK_TRACE, /* The function, or nil. */
    LMK_DISK_VALUES = LMK_DISK_TRACE,
};

void lmk_disk_register(lua_State *L);
int lmk_disk_new(lua_State *L);

/* Return the open box that is `self` of a method of disks. */
lmk_disk_box *lmk_check_self_disk(lua_State *L);

/* Push the box of a disk, closed. */
lmk_disk_box *lmk_push_disk(lua_State *L);

/* Give the disk at the top its clock: that of the disk at `index` which it was
 * made from, if that one was given it, else a clock of its own. */
void lmk_share_clock(lua_State *L, int index);

/* Push the clock that is a disk's own. */
void lmk_push_disk_clock(lua_State *L, mk_sim_disk *disk);

/* Return the argument that is a path on a disk. */
const char *lmk_check_path(lua_State *L, int arg);

int lmk_disk_fail(lua_State *L);
int lmk_disk_damage(lua_State *L);
int lmk_disk_crash_states(lua_State *L);
void lmk_states_register(lua_State *L);

/* Read an option that is a profile. */
bool lmk_option_profile(lua_State *L, int arg, const char *name,
                        mk_sim_profile *out);

/* ---- Traces ---- */

void lmk_trace_register(lua_State *L);
int lmk_disk_trace(lua_State *L);

/* Note that the log whose box is at the top is on the disk whose box is at
 * `disk_index`; or that it is no more. */
void lmk_link_log(lua_State *L, lmk_log_box *box, int disk_index);
void lmk_unlink_log(lmk_log_box *box);

/* Return the list. */
lmk_log_list *lmk_get_logs(lua_State *L);

/* The face of a disk's clock that is a Lua value: logs that call it have it for
 * their own. */
mk_clock lmk_clock_of_disk(lua_State *L);

/* ---- What is still to come ---- */

/* Add to the table at the top the methods, or the functions of the module,
 * that this version does not have: they raise UNSUPPORTED. */
void lmk_pending_methods(lua_State *L);
void lmk_pending_functions(lua_State *L);

#endif /* MK_LUA_LMK_H */
