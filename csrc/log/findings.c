/* findings -- a list, and the words for what is in it. */
#include "log/findings.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/status.h"

#include "base/poison.h"

static const struct {
    const char *name;
    const char *text;
    bool damage;
} words[] = {
#define X(name, damage, text) {#name, text, damage},
    MK_FINDING_MAP(X)
#undef X
};

const char *mk_finding_name(mk_finding_code code)
{
    return (size_t)code < MK_FINDING_COUNT ? words[code].name : "UNKNOWN";
}

const char *mk_finding_text(mk_finding_code code)
{
    return (size_t)code < MK_FINDING_COUNT ? words[code].text : "unknown";
}

void mk_findings_init(mk_findings *findings, const mk_heap *heap)
{
    *findings = (mk_findings){.heap = *heap};
}

void mk_findings_deinit(mk_findings *findings)
{
    mk_heap heap = findings->heap;

    if (findings->array == NULL) return;
    mk_release(&heap, findings->array);
    mk_findings_init(findings, &heap);
}

mk_status mk_findings_add(mk_findings *findings, mk_finding_code code,
                          const char *path, int64_t position, int64_t offset,
                          mk_error *err, const char *format, ...)
{
    void *array = findings->array;
    mk_finding *finding;
    va_list args;
    mk_status status =
        mk_grow(&findings->heap, &array, &findings->capacity,
                findings->count + 1, sizeof *findings->array, err);

    findings->array = array;
    if (status != MK_OK) return status;
    finding = &findings->array[findings->count++];
    *finding = (mk_finding){
        .code = code,
        .is_damage = words[code].damage,
        .position = position,
        .offset = offset,
    };
    snprintf(finding->path, sizeof finding->path, "%s", path);
    va_start(args, format);
    vsnprintf(finding->message, sizeof finding->message, format, args);
    va_end(args);
    return MK_OK;
}

void mk_findings_cut(mk_findings *findings, size_t count)
{
    MK_ASSERT(count <= findings->count);
    findings->count = count;
}
