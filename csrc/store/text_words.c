/* text_words -- words, numbers, checksums. */
#include "store/text_words.h"

#include <string.h>

#include "base/poison.h"

/* Read a word that stands at `*text`, and step over it. */
bool mk_text_take_word(const char **text, const char *word)
{
    size_t size = strlen(word);

    if (strncmp(*text, word, size) != 0) return false;
    *text += size;
    return true;
}

bool mk_text_take_number(const char **text, int64_t *out)
{
    const char *next = *text;
    uint64_t value = 0;
    bool negative;

    if (*next++ != ' ') return false;
    negative = *next == '-';
    if (negative) next++;
    if (*next < '0' || *next > '9') return false;
    for (; *next >= '0' && *next <= '9'; next++) {
        if (value > (uint64_t)INT64_MAX / 10) return false;
        value = value * 10 + (uint64_t)(*next - '0');
    }
    if (value > (uint64_t)INT64_MAX + negative) return false;
    *out = (int64_t)(negative ? 0 - value : value);
    *text = next;
    return true;
}

bool mk_text_take_numbers(const char **text, int64_t **outs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!mk_text_take_number(text, outs[i])) return false;
    }
    return true;
}

bool mk_text_take_checksum(const char **text, uint32_t *out)
{
    const char *digits = "0123456789abcdef";

    if (**text != ' ') return false;
    *out = 0;
    for (int i = 1; i <= 8; i++) {
        char c = (*text)[i];
        const char *digit = c == '\0' ? NULL : strchr(digits, c);

        if (digit == NULL) return false;
        *out = *out << 4 | (uint32_t)(digit - digits);
    }
    *text += 9;
    return true;
}
