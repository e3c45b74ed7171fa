/*
 * File format: lines of text.
 *
 *     minikafka swap 1
 *     live <name of the directory whose place it takes>
 *     phase <building or ready>
 */
#include "store/swap_manifest.h"

#include <stdio.h>

#include "base/check.h"
#include "store/names.h"
#include "store/replace_file.h"

#include "base/poison.h"

#define TEXT_SIZE_MAX 1024

static const char *phase_word(mk_swap_phase phase)
{
    return phase == MK_SWAP_READY ? "ready" : "building";
}

static size_t print(const char *live, mk_swap_phase phase, char *out)
{
    int size =
        snprintf(out, TEXT_SIZE_MAX, "minikafka swap 1\nlive %s\nphase %s\n",
                 live, phase_word(phase));

    MK_ASSERT(size > 0);
    MK_ASSERT(size < TEXT_SIZE_MAX);
    return (size_t)size;
}

mk_status mk_swap_manifest_load(mk_vfs *vfs, const char *directory,
                                const char *live, mk_swap_phase *out,
                                mk_error *err)
{
    char path[MK_PATH_MAX];
    char text[TEXT_SIZE_MAX];
    mk_scratch scratch;
    mk_span content;
    mk_status status;

    *out = MK_SWAP_NONE;
    status = mk_name_join(path, sizeof path, directory, MK_NAME_SWAP, err);
    if (status != MK_OK) return status;
    mk_scratch_init(&scratch, &vfs->heap);
    status = mk_read_file(vfs, path, TEXT_SIZE_MAX, &scratch, &content, err);
    if (status == MK_OK) {
        *out = MK_SWAP_STRANGE;
        for (int phase = MK_SWAP_BUILDING; phase <= MK_SWAP_READY; phase++) {
            size_t size = print(live, (mk_swap_phase)phase, text);

            if (size == content.size && memcmp(text, content.data, size) == 0) {
                *out = (mk_swap_phase)phase;
            }
        }
    }
    mk_scratch_deinit(&scratch);
    if (status == MK_NOT_FOUND) return MK_OK;
    if (status != MK_INVALID_ARGUMENT) return status;
    *out = MK_SWAP_STRANGE; /* Larger than any note. */
    return MK_OK;
}

mk_status mk_swap_manifest_store(mk_vfs *vfs, const char *directory,
                                 const char *live, mk_swap_phase phase,
                                 mk_error *err)
{
    char path[MK_PATH_MAX];
    char text[TEXT_SIZE_MAX];
    size_t size = print(live, phase, text);
    mk_status status;

    MK_ASSERT(phase == MK_SWAP_BUILDING || phase == MK_SWAP_READY);
    status = mk_name_join(path, sizeof path, directory, MK_NAME_SWAP, err);
    if (status != MK_OK) return status;
    return mk_replace_file(vfs, directory, path,
                           (mk_span){(const uint8_t *)text, size}, true, NULL,
                           err);
}
