/* file_cache -- a list of open files, newest use first. */
#include "store/file_cache.h"

#include "base/check.h"

#include "base/poison.h"

void mk_file_cache_init(mk_file_cache *cache, mk_vfs *vfs, size_t open_max)
{
    *cache = (mk_file_cache){.vfs = vfs, .open_max = open_max};
}

static void unlist(mk_file_cache *cache, mk_cached_file *cached)
{
    if (cached->newer != NULL) {
        cached->newer->older = cached->older;
    } else {
        cache->newest = cached->older;
    }
    if (cached->older != NULL) {
        cached->older->newer = cached->newer;
    } else {
        cache->oldest = cached->newer;
    }
    cached->newer = cached->older = NULL;
}

static void list_newest(mk_file_cache *cache, mk_cached_file *cached)
{
    cached->older = cache->newest;
    cached->newer = NULL;
    if (cache->newest != NULL) {
        cache->newest->newer = cached;
    } else {
        cache->oldest = cached;
    }
    cache->newest = cached;
}

/* Close unused files, oldest first, until there is room for one more. */
static void make_room(mk_file_cache *cache)
{
    mk_cached_file *next = cache->oldest;

    while (next != NULL && cache->open_count >= cache->open_max) {
        mk_cached_file *cached = next;

        next = cached->newer;
        if (cached->pins == 0) mk_file_cache_drop(cache, cached);
    }
}

void mk_file_cache_adopt(mk_file_cache *cache, mk_cached_file *cached,
                         mk_file *file)
{
    MK_ASSERT(cached->file == NULL);
    make_room(cache);
    cached->file = file;
    cached->pins = 1;
    cache->open_count++;
    list_newest(cache, cached);
}

mk_status mk_file_cache_pin(mk_file_cache *cache, mk_cached_file *cached,
                            const char *path, unsigned flags, mk_error *err)
{
    mk_file *file = NULL;
    mk_status status;

    if (cached->file != NULL) {
        cached->pins++;
        if (cache->newest != cached) {
            unlist(cache, cached);
            list_newest(cache, cached);
        }
        return MK_OK;
    }
    make_room(cache);
    status = mk_file_open(cache->vfs, path, flags, &file, err);
    if (status != MK_OK) return status;
    mk_file_cache_adopt(cache, cached, file);
    return MK_OK;
}

void mk_file_cache_unpin(mk_file_cache *cache, mk_cached_file *cached)
{
    MK_ASSERT(cached->pins > 0);
    cached->pins--;
    if (cached->pins == 0 && cache->open_count > cache->open_max) {
        mk_file_cache_drop(cache, cached);
    }
}

void mk_file_cache_drop(mk_file_cache *cache, mk_cached_file *cached)
{
    if (cached->file == NULL) return;
    MK_ASSERT(cached->pins == 0);
    unlist(cache, cached);
    cache->open_count--;
    (void)mk_file_close(cached->file, NULL);
    cached->file = NULL;
}
