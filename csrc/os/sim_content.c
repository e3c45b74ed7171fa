/*
 * Invariants:
 *
 *  (1) Only who is the single holder of a content changes it, and likewise a
 *      page.
 *  (2) used <= capacity <= page_bytes.
 *
 * Counts are atomic, as images on their own threads share what does not differ.
 */
#include "os/sim_content.h"

#include "base/check.h"

#include "base/poison.h"

#define PAGE_CAPACITY_MIN 64u

/* ---- Pages ---- */

static void release_page(const mk_sim_media *media, mk_sim_page *page)
{
    if (page == NULL) return;
    if (atomic_fetch_sub_explicit(&page->references, 1, memory_order_acq_rel) ==
        1) {
        mk_release(&media->heap, page);
    }
}

static size_t page_capacity(const mk_sim_media *media, size_t size)
{
    size_t capacity = PAGE_CAPACITY_MIN;

    while (capacity < size) {
        capacity *= 2;
    }
    return capacity < media->page_bytes ? capacity : media->page_bytes;
}

/* Make the page in `*slot` private, with room for its first `end` bytes. */
static mk_status prepare_page(const mk_sim_media *media, mk_sim_page **slot,
                              size_t end, mk_error *err)
{
    mk_sim_page *old = *slot;
    size_t needed = old != NULL && old->used > end ? old->used : end;
    size_t capacity = page_capacity(media, needed);
    size_t block_size = sizeof(mk_sim_page) + capacity;
    bool shared = old != NULL && atomic_load_explicit(&old->references,
                                                      memory_order_acquire) > 1;
    mk_sim_page *page;

    MK_ASSERT(end <= media->page_bytes);
    if (old != NULL && !shared && needed <= old->capacity) return MK_OK;
    page = shared ? mk_alloc(&media->heap, block_size)
                  : mk_resize(&media->heap, old, block_size);
    if (page == NULL) return mk_fail_memory(err, block_size);
    page->capacity = (uint32_t)capacity;
    *slot = page;
    if (old != NULL && !shared) return MK_OK;

    atomic_init(&page->references, 1);
    atomic_init(&page->hashed, false);
    atomic_init(&page->hash_a, 0);
    atomic_init(&page->hash_b, 0);
    page->used = 0;
    if (shared) {
        page->used = old->used;
        memcpy(page->bytes, old->bytes, old->used);
        release_page(media, old);
    }
    return MK_OK;
}

/* Several threads may find the same hash at the same time. */
static mk_sim_hash page_hash(mk_sim_page *page)
{
    mk_sim_hash hash;

    if (atomic_load_explicit(&page->hashed, memory_order_acquire)) {
        hash.a = atomic_load_explicit(&page->hash_a, memory_order_relaxed);
        hash.b = atomic_load_explicit(&page->hash_b, memory_order_relaxed);
        return hash;
    }
    hash = mk_sim_hash_bytes(page->bytes, page->used);
    atomic_store_explicit(&page->hash_a, hash.a, memory_order_relaxed);
    atomic_store_explicit(&page->hash_b, hash.b, memory_order_relaxed);
    atomic_store_explicit(&page->hashed, true, memory_order_release);
    return hash;
}

static void forget_page_hash(mk_sim_page *page)
{
    atomic_store_explicit(&page->hashed, false, memory_order_relaxed);
}

/* ---- Contents ---- */

mk_status mk_sim_content_new(const mk_sim_media *media, mk_sim_content **out,
                             mk_error *err)
{
    mk_sim_content *content = mk_alloc_zero(&media->heap, sizeof *content);

    *out = NULL;
    if (content == NULL) return mk_fail_memory(err, sizeof *content);
    atomic_init(&content->references, 1);
    *out = content;
    return MK_OK;
}

mk_sim_content *mk_sim_content_acquire(mk_sim_content *content)
{
    atomic_fetch_add_explicit(&content->references, 1, memory_order_relaxed);
    return content;
}

void mk_sim_content_release(const mk_sim_media *media, mk_sim_content *content)
{
    if (content == NULL) return;
    if (atomic_fetch_sub_explicit(&content->references, 1,
                                  memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < content->page_count; i++) {
        release_page(media, content->pages[i]);
    }
    mk_release(&media->heap, content->pages);
    mk_release(&media->heap, content);
}

/* Make the table at least `count` places long. */
static mk_status grow_table(const mk_sim_media *media, mk_sim_content *content,
                            size_t count, mk_error *err)
{
    void *array = content->pages;
    mk_status status;

    if (count <= content->page_count) return MK_OK;
    status = mk_grow(&media->heap, &array, &content->page_capacity, count,
                     sizeof(mk_sim_page *), err);
    content->pages = array;
    if (status != MK_OK) return status;
    while (content->page_count < count) {
        content->pages[content->page_count++] = NULL;
    }
    return MK_OK;
}

mk_status mk_sim_content_unshare(const mk_sim_media *media,
                                 mk_sim_content **content, mk_error *err)
{
    mk_sim_content *old = *content;
    mk_sim_content *copy = NULL;
    mk_status status;

    if (atomic_load_explicit(&old->references, memory_order_acquire) == 1) {
        return MK_OK;
    }
    status = mk_sim_content_new(media, &copy, err);
    if (status != MK_OK) return status;
    status = grow_table(media, copy, old->page_count, err);
    if (status != MK_OK) {
        mk_sim_content_release(media, copy);
        return status;
    }
    copy->size = old->size;
    copy->reserved = old->reserved;
    for (size_t i = 0; i < old->page_count; i++) {
        mk_sim_page *page = old->pages[i];

        if (page == NULL) continue;
        atomic_fetch_add_explicit(&page->references, 1, memory_order_relaxed);
        copy->pages[i] = page;
    }
    mk_sim_content_release(media, old);
    *content = copy;
    return MK_OK;
}

mk_status mk_sim_content_prepare(const mk_sim_media *media,
                                 mk_sim_content *content, int64_t position,
                                 size_t size, mk_error *err)
{
    size_t first = (size_t)position / media->page_bytes;
    size_t end = (size_t)position + size;
    size_t last;
    mk_status status;

    MK_ASSERT(atomic_load(&content->references) == 1);
    if (size == 0) return MK_OK;
    last = (end - 1) / media->page_bytes;
    status = grow_table(media, content, last + 1, err);
    for (size_t i = first; i <= last && status == MK_OK; i++) {
        size_t page_end = end - i * media->page_bytes;

        if (page_end > media->page_bytes) page_end = media->page_bytes;
        status = prepare_page(media, &content->pages[i], page_end, err);
    }
    return status;
}

mk_status mk_sim_content_prepare_cut(const mk_sim_media *media,
                                     mk_sim_content *content, int64_t size,
                                     mk_error *err)
{
    size_t index = (size_t)size / media->page_bytes;

    MK_ASSERT(atomic_load(&content->references) == 1);
    if ((size_t)size % media->page_bytes == 0) return MK_OK;
    if (index >= content->page_count) return MK_OK;
    if (content->pages[index] == NULL) return MK_OK;
    return prepare_page(media, &content->pages[index], 0, err);
}

static void put_in_page(mk_sim_page *page, size_t from, const uint8_t *bytes,
                        size_t size)
{
    size_t end = from + size;

    MK_ASSERT(end <= page->capacity);
    if (from > page->used) {
        memset(page->bytes + page->used, 0, from - page->used);
    }
    memcpy(page->bytes + from, bytes, size);
    if (end > page->used) page->used = (uint32_t)end;
    forget_page_hash(page);
}

void mk_sim_content_put(const mk_sim_media *media, mk_sim_content *content,
                        int64_t position, const uint8_t *bytes, size_t size)
{
    size_t at = (size_t)position;

    MK_ASSERT(atomic_load(&content->references) == 1);
    while (size > 0) {
        size_t from = at % media->page_bytes;
        size_t part = media->page_bytes - from;

        if (part > size) part = size;
        put_in_page(content->pages[at / media->page_bytes], from, bytes, part);
        at += part;
        bytes += part;
        size -= part;
    }
}

/* Blank the rest of the page in which `position` is. Return the next one. */
static size_t blank_rest(const mk_sim_media *media, mk_sim_content *content,
                         int64_t position)
{
    size_t index = (size_t)position / media->page_bytes;
    size_t from = (size_t)position % media->page_bytes;
    mk_sim_page *page;

    if (from == 0) return index;
    page = index < content->page_count ? content->pages[index] : NULL;
    if (page != NULL && page->used > from) {
        page->used = (uint32_t)from;
        forget_page_hash(page);
    }
    return index + 1;
}

void mk_sim_content_blank(const mk_sim_media *media, mk_sim_content *content,
                          int64_t position)
{
    size_t i = blank_rest(media, content, position);

    MK_ASSERT(atomic_load(&content->references) == 1);
    for (; i < content->page_count; i++) {
        mk_sim_page *page = content->pages[i];

        if (page == NULL) continue;
        if (atomic_load_explicit(&page->references, memory_order_acquire) > 1) {
            release_page(media, page);
            content->pages[i] = NULL;
        } else {
            page->used = 0;
            forget_page_hash(page);
        }
    }
}

void mk_sim_content_cut(const mk_sim_media *media, mk_sim_content *content,
                        int64_t size)
{
    size_t keep = blank_rest(media, content, size);

    MK_ASSERT(atomic_load(&content->references) == 1);
    while (content->page_count > keep) {
        release_page(media, content->pages[--content->page_count]);
    }
    content->size = size;
    if (content->reserved > size) content->reserved = size;
}

void mk_sim_content_get(const mk_sim_media *media,
                        const mk_sim_content *content, int64_t position,
                        uint8_t *bytes, size_t size)
{
    size_t at = (size_t)position;

    MK_ASSERT(at + size <= (size_t)content->size);
    while (size > 0) {
        size_t index = at / media->page_bytes;
        size_t from = at % media->page_bytes;
        size_t part = media->page_bytes - from;
        const mk_sim_page *page =
            index < content->page_count ? content->pages[index] : NULL;
        size_t there = 0;

        if (part > size) part = size;
        if (page != NULL && page->used > from) there = page->used - from;
        if (there > part) there = part;
        if (there > 0) memcpy(bytes, page->bytes + from, there);
        memset(bytes + there, 0, part - there);
        at += part;
        bytes += part;
        size -= part;
    }
}

/* ---- Room ---- */

/* The room that page `index` takes beside what is reserved, if it is there and
 * the content has that size. */
static int64_t page_room(const mk_sim_media *media, size_t index,
                         int64_t reserved, int64_t size)
{
    int64_t start = (int64_t)(index * media->page_bytes);
    int64_t end = start + (int64_t)media->page_bytes;

    if (end > size) end = size;
    if (start < reserved) start = reserved;
    return end > start ? end - start : 0;
}

static bool has_page(const mk_sim_content *content, size_t index)
{
    return index < content->page_count && content->pages[index] != NULL &&
           content->pages[index]->used > 0;
}

int64_t mk_sim_content_growth(const mk_sim_media *media,
                              const mk_sim_content *content, int64_t position,
                              size_t size)
{
    int64_t end = position + (int64_t)size;
    int64_t new_size = end > content->size ? end : content->size;
    size_t first = (size_t)position / media->page_bytes;
    int64_t growth = 0;

    if (size == 0) return 0;

    /* A last page that is not full may gain from a write behind it. */
    if (first > (size_t)content->size / media->page_bytes) {
        first = (size_t)content->size / media->page_bytes;
    }
    for (size_t i = first; (int64_t)(i * media->page_bytes) < end; i++) {
        bool written = (int64_t)((i + 1) * media->page_bytes) > position;
        bool there = has_page(content, i);

        if (there || written) {
            growth += page_room(media, i, content->reserved, new_size);
        }
        if (there) {
            growth -= page_room(media, i, content->reserved, content->size);
        }
    }
    return growth;
}

int64_t mk_sim_content_used(const mk_sim_media *media,
                            const mk_sim_content *content)
{
    int64_t used = content->reserved;

    for (size_t i = 0; i < content->page_count; i++) {
        if (!has_page(content, i)) continue;
        used += page_room(media, i, content->reserved, content->size);
    }
    return used;
}

mk_sim_hash mk_sim_content_hash(const mk_sim_content *content)
{
    mk_sim_hash hash = mk_sim_hash_number((uint64_t)content->size);

    for (size_t i = 0; i < content->page_count; i++) {
        mk_sim_page *page = content->pages[i];
        mk_sim_hash bytes;

        if (page == NULL) continue;
        bytes = page_hash(page);
        if (bytes.a == 0 && bytes.b == 0) continue;
        hash = mk_sim_hash_add(hash,
                               mk_sim_hash_pair(mk_sim_hash_number(i), bytes));
    }
    return hash;
}
