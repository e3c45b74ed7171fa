/*
 * text_words -- taking small text files apart. Each function looks at what
 * stands at `*text`, which ends with a NUL, and steps over it, or returns
 * false.
 */
#ifndef MK_STORE_TEXT_WORDS_H
#define MK_STORE_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Take just this word. */
bool mk_text_take_word(const char **text, const char *word);

/* Take " <number>", or several. */
bool mk_text_take_number(const char **text, int64_t *out);
bool mk_text_take_numbers(const char **text, int64_t **outs, size_t count);

/* Take " <8 hexadecimal digits>". */
bool mk_text_take_checksum(const char **text, uint32_t *out);

#endif /* MK_STORE_TEXT_WORDS_H */
