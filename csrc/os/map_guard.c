/*
 * map_guard -- a table of mappings, and a handler that looks into it.
 *
 * The table is fixed and every field of it is atomic, since a handler may lock
 * nothing. A guard is taken by setting `begin` last, and given back by clearing
 * it first; only its owner touches the mapping, so whoever faults finds the
 * guard as it was set.
 */
#define _GNU_SOURCE
#include "os/map_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_COUNT 4096 /* A log holds few files open at a time. */

static struct {
    pthread_mutex_t mutex; /* Of who installs the handler. */
    struct sigaction before;
    _Atomic uintptr_t forwarded; /* The address of a fault passed on; 0. */
    uintptr_t page_size;
    _Atomic size_t used; /* Guards from there on were never taken. */
    mk_map_guard guards[GUARD_COUNT];
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Put zeros in the place of the page at `address`, if it is guarded. */
static bool replace_page(uintptr_t address)
{
    size_t used = atomic_load(&process.used);
    uintptr_t page = address - address % process.page_size;

    for (size_t i = 0; i < used; i++) {
        mk_map_guard *guard = &process.guards[i];
        uintptr_t begin = atomic_load(&guard->begin);

        if (begin == 0 || address < begin) continue;
        if (address >= atomic_load(&guard->end)) continue;
        atomic_store(&guard->broken, true);
        return mmap((void *)page, process.page_size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) != MAP_FAILED;
    }
    return false;
}

/* Give the fault to the handler that was there before. If that one gives it
 * back, it ends the process, as it would have done without either. */
static void forward(int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = &process.before;
    uintptr_t address = (uintptr_t)info->si_addr;
    bool again = atomic_exchange(&process.forwarded, address) == address;

    if (again || before->sa_handler == SIG_DFL ||
        before->sa_handler == SIG_IGN) {
        signal(number, SIG_DFL); /* It comes once more. */
        return;
    }
    if ((before->sa_flags & SA_SIGINFO) != 0) {
        before->sa_sigaction(number, info, context);
    } else {
        before->sa_handler(number);
    }
    atomic_store(&process.forwarded, 0);
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    bool replaced =
        info->si_code == BUS_ADRERR && replace_page((uintptr_t)info->si_addr);

    if (!replaced) forward(number, info, context);
    errno = saved;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 &&
           action->sa_sigaction == on_bus_error;
}

/* See that the handler is installed: others may come after it. */
static bool install(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction found;
    long page_size = sysconf(_SC_PAGESIZE);
    bool done;

    if (page_size <= 0) return false;
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_bus_error;
    pthread_mutex_lock(&process.mutex);
    process.page_size = (uintptr_t)page_size;
    done = sigaction(SIGBUS, NULL, &found) == 0;
    if (done && !is_ours(&found)) {
        process.before = found;
        done = sigaction(SIGBUS, &action, NULL) == 0;
    }
    pthread_mutex_unlock(&process.mutex);
    return done;
}

mk_map_guard *mk_map_guard_take(void *data, size_t size)
{
    uintptr_t begin = (uintptr_t)data;

    if (!install()) return NULL;
    for (size_t i = 0; i < GUARD_COUNT; i++) {
        mk_map_guard *guard = &process.guards[i];
        uintptr_t none = 0;
        size_t used = atomic_load(&process.used);

        /* 1 is nobody's mapping: taken, but not yet set. */
        if (!atomic_compare_exchange_strong(&guard->begin, &none, 1)) continue;
        while (used < i + 1 &&
               !atomic_compare_exchange_weak(&process.used, &used, i + 1)) {
        }
        atomic_store(&guard->end, 0);
        atomic_store(&guard->broken, false);
        atomic_store(&guard->begin, begin);
        atomic_store(&guard->end, begin + size);
        return guard;
    }
    return NULL;
}

void mk_map_guard_release(mk_map_guard *guard)
{
    if (guard == NULL) return;
    atomic_store(&guard->end, 0);
    atomic_store(&guard->begin, 0);
}

void mk_map_guard_resize(mk_map_guard *guard, size_t size)
{
    atomic_store(&guard->end, atomic_load(&guard->begin) + size);
}
