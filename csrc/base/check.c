/* check -- what happens when an assertion is broken. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void mk_assert_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "minikafka: %s:%d: broken assertion: %s\n", file, line,
            what);
    abort();
}
