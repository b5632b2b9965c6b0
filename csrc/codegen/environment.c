/* Bounds that belong to the process; the environment is read at each use, so that a notebook can move
 * them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "codegen.h"

/* The factor of a unit: nothing, B, or one of K, M, G, T with B or iB behind it; 0: it is none. */
static double
factor_of(const char *unit)
{
    const char *units = "KMGT", *found = *unit ? strchr(units, *unit & ~0x20) : NULL;
    const char *rest = found ? unit + 1 : unit;
    if (*rest && strcasecmp(rest, "B") != 0 && (!found || strcasecmp(rest, "iB") != 0)) {
        return 0;
    }
    return (double)(INT64_C(1) << (found ? 10 * (found - units + 1) : 0));
}

int64_t
environment_bytes(const char *name, int64_t usual)
{
    const char *text = getenv(name);
    if (!text || !*text) {
        return usual;
    }
    char *end;
    double number = strtod(text, &end), bytes = number * factor_of(end + strspn(end, " "));
    bool read = end != text && factor_of(end + strspn(end, " ")) > 0 && bytes >= 0 && bytes < 1e18;
    if (!read) {
        log_line("%s is \"%s\", which is no number of bytes such as 512M: the default is used", name, text);
    }
    return read ? (int64_t)bytes : usual;
}
