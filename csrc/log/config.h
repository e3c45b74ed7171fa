/*
 * config -- the settings of a log: names, types, ranges, defaults.
 *
 * The public half is mk_settings(), mk_config_default(), mk_config_set() and
 * mk_config_get().
 */
#ifndef MK_LOG_CONFIG_H
#define MK_LOG_CONFIG_H

#include "base/status.h"

/* Check every setting's range, and the rules that join several of them.
 * Errors: INVALID_ARGUMENT. */
MK_NODISCARD mk_status mk_config_check(const mk_config *config, mk_error *err);

/* How long a segment may take records before time rolls it. */
int64_t mk_config_roll_ms(const mk_config *config);

#endif /* MK_LOG_CONFIG_H */
