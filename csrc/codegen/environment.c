/* Bounds that belong to the process; the environment is read at each use, so that a notebook can move
 * them. */
#include <stdlib.h>
#include <string.h>

#include "codegen.h"

int64_t
environment_bytes(const char *name, int64_t usual)
{
    const char *text = getenv(name);
    if (!text || !*text) {
        return usual;
    }
    char *end;
    double bytes = strtod(text, &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    if (unit && *unit) {
        bytes *= (double)(INT64_C(1) << 10 * (unit - units + 1));
    }
    return bytes > 0 && bytes < 1e18 ? (int64_t)bytes : 0;
}
