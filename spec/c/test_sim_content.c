/* Contents of simulated files, against plain arrays of bytes. */
#include "support/sim_world.h"

#include "os/sim_content.h"

#define SIZE_MAX_BYTES 5000
#define COPIES         3
#define STEPS          4000

typedef struct plain {
    uint8_t bytes[SIZE_MAX_BYTES];
    size_t size;
} plain;

static mk_sim_media media_of(sim_world *world)
{
    return (mk_sim_media){
        .heap = world->heap,
        .page_bytes = 512,
        .sector_bytes = 512,
    };
}

static void check_alike(const mk_sim_media *media,
                        const mk_sim_content *content, const plain *model)
{
    uint8_t bytes[SIZE_MAX_BYTES];

    assert_int_equal(content->size, model->size);
    mk_sim_content_get(media, content, 0, bytes, model->size);
    assert_memory_equal(bytes, model->bytes, model->size);
}

static void put_both(const mk_sim_media *media, mk_sim_content *content,
                     plain *model, uint64_t *chance)
{
    size_t position = mk_sim_random_below(chance, SIZE_MAX_BYTES - 1200);
    size_t size = mk_sim_random_below(chance, 1200);
    uint8_t bytes[1200];
    int64_t growth =
        mk_sim_content_growth(media, content, (int64_t)position, size);
    int64_t used = mk_sim_content_used(media, content);

    memset(bytes, (int)mk_sim_random_below(chance, 3), sizeof bytes);
    assert_int_equal(
        mk_sim_content_prepare(media, content, (int64_t)position, size, NULL),
        MK_OK);
    mk_sim_content_put(media, content, (int64_t)position, bytes, size);
    memcpy(model->bytes + position, bytes, size);
    if (size > 0 && position + size > model->size) {
        model->size = position + size;
        content->size = (int64_t)model->size;
    }
    /* Room that was to be found was found. */
    assert_int_equal(mk_sim_content_used(media, content), used + growth);
    assert_true(mk_sim_content_used(media, content) <= (int64_t)model->size);
}

static void cut_both(const mk_sim_media *media, mk_sim_content *content,
                     plain *model, uint64_t *chance)
{
    size_t size = mk_sim_random_below(chance, SIZE_MAX_BYTES);
    bool grows = size > model->size;

    assert_int_equal(
        mk_sim_content_prepare_cut(media, content, (int64_t)size, NULL), MK_OK);
    mk_sim_content_cut(media, content, (int64_t)size);
    if (!grows) {
        memset(model->bytes + size, 0, SIZE_MAX_BYTES - size);
    }
    model->size = size;
}

static void blank_both(const mk_sim_media *media, mk_sim_content *content,
                       plain *model, uint64_t *chance)
{
    size_t position = mk_sim_random_below(chance, SIZE_MAX_BYTES);

    assert_int_equal(
        mk_sim_content_prepare_cut(media, content, (int64_t)position, NULL),
        MK_OK);
    mk_sim_content_blank(media, content, (int64_t)position);
    memset(model->bytes + position, 0, SIZE_MAX_BYTES - position);
}

/* Some contents share pages, and each reads as if it had its own. */
static void test_contents_are_like_plain_bytes(void **state)
{
    sim_world *world = *state;
    mk_sim_media media = media_of(world);
    mk_sim_content *contents[COPIES];
    static plain models[COPIES];
    uint64_t chance = 1;

    for (size_t i = 0; i < COPIES; i++) {
        models[i].size = 0;
        memset(models[i].bytes, 0, SIZE_MAX_BYTES);
        assert_int_equal(mk_sim_content_new(&media, &contents[i], NULL), MK_OK);
    }
    for (int step = 0; step < STEPS; step++) {
        size_t i = mk_sim_random_below(&chance, COPIES);
        size_t from = mk_sim_random_below(&chance, COPIES);
        uint64_t what = mk_sim_random_below(&chance, 10);

        if (what == 0 && from != i) {
            mk_sim_content_release(&media, contents[i]);
            contents[i] = mk_sim_content_acquire(contents[from]);
            models[i] = models[from];
        }
        assert_int_equal(mk_sim_content_unshare(&media, &contents[i], NULL),
                         MK_OK);
        if (what < 6) {
            put_both(&media, contents[i], &models[i], &chance);
        } else if (what < 9) {
            cut_both(&media, contents[i], &models[i], &chance);
        } else {
            blank_both(&media, contents[i], &models[i], &chance);
        }
        for (size_t j = 0; j < COPIES; j++) {
            check_alike(&media, contents[j], &models[j]);
            for (size_t k = 0; k < j; k++) {
                bool same = models[j].size == models[k].size &&
                            memcmp(models[j].bytes, models[k].bytes,
                                   models[j].size) == 0;

                assert_int_equal(same, mk_sim_hash_is_equal(
                                           mk_sim_content_hash(contents[j]),
                                           mk_sim_content_hash(contents[k])));
            }
        }
    }
    for (size_t i = 0; i < COPIES; i++) {
        mk_sim_content_release(&media, contents[i]);
    }
}

/* Where there is no memory a content stays as it is. */
static void test_lack_of_memory(void **state)
{
    static const uint8_t bytes[3000] = {1};
    sim_world *world = *state;
    mk_sim_media media = media_of(world);
    mk_sim_content *content;
    mk_sim_content *copy;
    mk_sim_hash hash;
    size_t failed = 0;

    assert_int_equal(mk_sim_content_new(&media, &content, NULL), MK_OK);
    assert_int_equal(mk_sim_content_prepare(&media, content, 0, 600, NULL),
                     MK_OK);
    mk_sim_content_put(&media, content, 0, bytes, 600);
    content->size = 600;
    hash = mk_sim_content_hash(content);
    copy = mk_sim_content_acquire(content);
    for (size_t nth = 1;; nth++) {
        mk_status status;

        world->counts.fail_at = world->counts.allocations + nth;
        status = mk_sim_content_unshare(&media, &content, NULL);
        if (status == MK_OK) {
            status = mk_sim_content_prepare(&media, content, 100, 2900, NULL);
        }
        world->counts.fail_at = 0;
        assert_true(mk_sim_hash_is_equal(mk_sim_content_hash(content), hash));
        assert_true(mk_sim_hash_is_equal(mk_sim_content_hash(copy), hash));
        assert_int_equal(mk_sim_content_used(&media, content), 600);
        if (status == MK_OK) break;
        assert_int_equal(status, MK_NO_MEMORY);
        failed++;
    }
    assert_true(failed >= 2);
    mk_sim_content_release(&media, content);
    mk_sim_content_release(&media, copy);
    mk_sim_content_release(&media, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(contents_are_like_plain_bytes),
        TEST(lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
