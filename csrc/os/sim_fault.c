/* sim_fault -- counting, failing and telling operations. */
#include "os/sim_fault.h"

#include <errno.h>

#include "base/check.h"
#include "os/sim_crash.h"
#include "os/vfs.h"

#include "base/poison.h"

/* ---- Globs ---- */

/* Match the set that begins behind `[` at `*set` with a character; `*set` is
 * then behind its `]`. A set without an end matches nothing. */
static bool match_set(const char **set, char c)
{
    const char *at = *set;
    bool negated = *at == '!' || *at == '^';
    bool found = false;
    bool first = true;

    if (negated) at++;
    for (; *at != '\0' && (first || *at != ']'); at++, first = false) {
        char low = *at;
        char high = *at;

        if (at[1] == '-' && at[2] != '\0' && at[2] != ']') {
            high = at[2];
            at += 2;
        }
        if (c >= low && c <= high) found = true;
    }
    if (*at == '\0') return false;
    *set = at + 1;
    return found != negated;
}

/* Match one character; `*glob` is then behind what matched it. */
static bool match_one(const char **glob, char c)
{
    const char *at = *glob;
    bool matched;

    if (*at == '[') {
        at++;
        matched = match_set(&at, c);
    } else {
        matched = *at == '?' || *at == c;
        at++;
    }
    *glob = at;
    return matched;
}

/* On a mismatch the last `*` takes one character more. */
static bool match(const char *glob, const char *text)
{
    const char *star = NULL;
    const char *star_text = NULL;

    while (*text != '\0') {
        const char *next = glob;

        if (*glob == '*') {
            star = ++glob;
            star_text = text;
        } else if (*glob != '\0' && match_one(&next, *text)) {
            glob = next;
            text++;
        } else if (star != NULL) {
            glob = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

bool mk_sim_glob_match(const char *glob, const char *path)
{
    if (strchr(glob, '/') == NULL) path = strrchr(path, '/') + 1;
    return match(glob, path);
}

/* ---- Faults ---- */

void mk_sim_fault_default(mk_sim_fault *out)
{
    *out = (mk_sim_fault){
        .operation = MK_SIM_ANY_OPERATION,
        .short_size = -1,
        .flavour = MK_SIM_LOST,
    };
}

static mk_status check_fault(const mk_sim_fault *fault, mk_error *err)
{
    bool is_write = fault->operation == MK_SIM_WRITE;

    if (fault->operation > MK_SIM_ANY_OPERATION) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "operation: no such word");
    }
    if (fault->flavour >= MK_SIM_FLAVOUR_COUNT) {
        return mk_fail(err, MK_INVALID_ARGUMENT, "flavour: no such word");
    }
    if (fault->after < 0 || fault->times < 0 || fault->os_errno < 0) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "after, times and errno must not be negative");
    }
    if (fault->short_size < -1 || (fault->short_size >= 0 && !is_write)) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "only a write can be short, by 0 bytes or more");
    }
    if (fault->delayed && !is_write) {
        return mk_fail(err, MK_INVALID_ARGUMENT,
                       "only the failure of a write can be delayed");
    }
    return MK_OK;
}

static int default_errno(const mk_sim_fault *fault)
{
    return fault->delayed || fault->short_size >= 0 ? ENOSPC : EIO;
}

static mk_status add_rule(mk_sim_disk *disk, const mk_sim_fault *fault,
                          mk_error *err)
{
    void *array = disk->rules;
    char *path = NULL;
    mk_sim_rule *rule;
    mk_status status = mk_grow(&disk->media.heap, &array, &disk->rule_capacity,
                               disk->rule_count + 1, sizeof *disk->rules, err);

    disk->rules = array;
    if (status != MK_OK) return status;
    if (fault->path != NULL) {
        path = mk_copy_string(&disk->media.heap, fault->path);
        if (path == NULL) return mk_fail_memory(err, strlen(fault->path) + 1);
    }
    rule = &disk->rules[disk->rule_count++];
    *rule = (mk_sim_rule){.fault = *fault};
    rule->fault.path = path;
    if (fault->os_errno == 0) rule->fault.os_errno = default_errno(fault);
    return MK_OK;
}

mk_status mk_sim_disk_fail(mk_sim_disk *disk, const mk_sim_fault *fault,
                           mk_error *err)
{
    mk_status status = check_fault(fault, err);
    bool nested;

    if (status != MK_OK) return status;
    nested = mk_sim_disk_enter(disk);
    status = add_rule(disk, fault, err);
    mk_sim_disk_leave(disk, nested);
    return status;
}

static void remove_rules(mk_sim_disk *disk)
{
    for (size_t i = 0; i < disk->rule_count; i++) {
        char *path = (char *)(uintptr_t)disk->rules[i].fault.path;

        mk_release(&disk->media.heap, path);
    }
    disk->rule_count = 0;
}

void mk_sim_disk_heal(mk_sim_disk *disk)
{
    bool nested = mk_sim_disk_enter(disk);

    remove_rules(disk);
    mk_sim_disk_leave(disk, nested);
}

mk_status mk_sim_disk_leave_out(mk_sim_disk *disk, const char *sync_name,
                                mk_error *err)
{
    static const char *const names[] = {
#define X(name) #name,
        MK_SYNC_NAMES(X)
#undef X
    };

    _Static_assert(MK_SYNC_COUNT <= 32, "left_out has a bit for each name");
    for (unsigned i = 0; i < MK_SYNC_COUNT; i++) {
        bool nested;

        if (strcmp(names[i], sync_name) != 0) continue;
        nested = mk_sim_disk_enter(disk);
        disk->left_out |= UINT32_C(1) << i;
        mk_sim_disk_leave(disk, nested);
        return MK_OK;
    }
    return mk_fail(err, MK_INVALID_ARGUMENT, "no sync is called \"%s\"",
                   sync_name);
}

void mk_sim_disk_trace(mk_sim_disk *disk, mk_sim_trace trace)
{
    bool nested = mk_sim_disk_enter(disk);

    disk->trace = trace;
    mk_sim_disk_leave(disk, nested);
}

void mk_sim_disk_disarm(mk_sim_disk *disk)
{
    remove_rules(disk);
    disk->trace = (mk_sim_trace){0};
    disk->left_out = 0;
    disk->crash_step = 0;
}

/* ---- Steps ---- */

/* Which of the two calls syncs a file is its owner's affair: a fault of fsync
 * is one of both. */
static bool matches_operation(mk_sim_operation wanted, mk_sim_operation found)
{
    if (wanted == MK_SIM_ANY_OPERATION || wanted == found) return true;
    return wanted == MK_SIM_FSYNC && found == MK_SIM_FDATASYNC;
}

static bool matches(const mk_sim_fault *fault, const mk_sim_step *step)
{
    if (!matches_operation(fault->operation, step->operation)) return false;
    if (fault->path == NULL) return true;
    if (mk_sim_glob_match(fault->path, step->path)) return true;
    return step->to != NULL && mk_sim_glob_match(fault->path, step->to);
}

/* Count the operation for all faults, and find the one that hits it. */
static void meet_faults(mk_sim_disk *disk, mk_sim_step *step)
{
    for (size_t i = 0; i < disk->rule_count; i++) {
        mk_sim_rule *rule = &disk->rules[i];
        bool due;

        if (!matches(&rule->fault, step)) continue;
        due = rule->seen >= rule->fault.after &&
              (rule->fault.times == 0 || rule->fired < rule->fault.times);
        rule->seen++;
        if (!due || step->hit) continue;
        rule->fired++;
        step->hit = true;
        step->fault = rule->fault;
        step->fault.path = NULL;
    }
    if (step->hit) disk->stats.faults++;
}

static mk_status tell(mk_sim_disk *disk, const mk_sim_step *step, int os_errno,
                      mk_error *err)
{
    mk_sim_trace trace = disk->trace;
    mk_sim_event event = {
        .step = disk->stats.steps,
        .operation = step->operation,
        .path = step->path,
        .to = step->to,
        .sync = step->sync,
        .position = step->position,
        .size = step->size,
        .os_errno = os_errno,
    };
    mk_status status;

    if (trace.tell == NULL) return MK_OK;
    atomic_store_explicit(&disk->teller, mk_thread_self(),
                          memory_order_relaxed);
    status = trace.tell(trace.context, &event, err);
    atomic_store_explicit(&disk->teller, 0, memory_order_relaxed);
    return status;
}

static mk_status fail_step(mk_sim_step *step, int os_errno, mk_error *err)
{
    static const char *const doing[] = {
        [MK_SIM_OPEN] = "open",
        [MK_SIM_READ] = "read",
        [MK_SIM_WRITE] = "write",
        [MK_SIM_TRUNCATE] = "set the size of",
        [MK_SIM_ALLOCATE] = "allocate room for",
        [MK_SIM_FSYNC] = "sync",
        [MK_SIM_FDATASYNC] = "sync",
        [MK_SIM_FSYNC_DIR] = "sync the directory",
        [MK_SIM_UTIME] = "set the time of",
        [MK_SIM_RENAME] = "rename",
        [MK_SIM_EXCHANGE] = "exchange",
        [MK_SIM_LINK] = "link",
        [MK_SIM_UNLINK] = "remove",
        [MK_SIM_MKDIR] = "make the directory",
        [MK_SIM_RMDIR] = "remove the directory",
        [MK_SIM_LIST] = "list",
        [MK_SIM_STAT] = "stat",
        [MK_SIM_LOCK] = "lock",
        [MK_SIM_CLOSE] = "close",
    };

    step->failed = os_errno;
    if (step->to == NULL) {
        return mk_fail_errno(err, os_errno, step->path, "cannot %s %s",
                             doing[step->operation], step->path);
    }
    return mk_fail_errno(err, os_errno, step->path, "cannot %s %s and %s",
                         doing[step->operation], step->path, step->to);
}

/* Is it the step to crash at? A crash for which memory lacks is tried again at
 * the next one. */
static bool is_crash_due(const mk_sim_disk *disk)
{
    return disk->crash_step > 0 && disk->stats.steps >= disk->crash_step;
}

mk_status mk_sim_step_begin(mk_sim_disk *disk, bool nested, mk_sim_step *step,
                            mk_error *err)
{
    int injected = 0;
    mk_status status;

    if (nested) {
        if (step->os_errno == 0) return MK_OK;
        return fail_step(step, step->os_errno, err);
    }
    disk->stats.steps++;
    disk->stats.operations[step->operation]++;
    if (is_crash_due(disk)) {
        status = mk_sim_crash_now(disk, disk->crash_profile, err);
        if (status != MK_OK) return status;
        return mk_fail(err, MK_CRASHED, "the simulated disk lost power");
    }
    meet_faults(disk, step);
    if (step->hit && !step->fault.delayed) injected = step->fault.os_errno;
    status = tell(disk, step, injected != 0 ? injected : step->os_errno, err);
    if (status != MK_OK || injected == EINTR) {
        step->hit = false;
        injected = 0;
    }
    if (status != MK_OK) return status;
    if (injected != 0) return fail_step(step, injected, err);
    if (step->os_errno != 0) return fail_step(step, step->os_errno, err);
    return MK_OK;
}
