/* Bounds that belong to the process; the environment is read at each use, so that a notebook can
 * move them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "codegen/process.h"

/* The factor of a unit: nothing, B, or one of K, M, G, T with B or iB behind it; 0: it is none. */
static double
factor_of(const char *unit)
{
    const char *units = "KMGT", *found = *unit ? strchr(units, *unit & ~0x20) : NULL;
    const char *rest = found ? unit + 1 : unit;
    size_t size = strcspn(rest, " ");
    bool bytes = size == 1 && strncasecmp(rest, "B", 1) == 0,
         binary = size == 2 && strncasecmp(rest, "iB", 2) == 0;
    if ((size && !bytes && !(found && binary)) || rest[size + strspn(rest + size, " ")]) {
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
    static atomic_bool said;
    char *end;
    double number = strtod(text, &end), factor = factor_of(end + strspn(end, " ")),
           bytes = number * factor;
    bool read = end != text && factor > 0 && bytes >= 0 && bytes < 1e18;
    if (!read && !atomic_exchange(&said, true)) {       /* it may be asked for in each call */
        log_line("%s is \"%s\", which is no number of bytes such as 512M: the default is used",
                 name, text);
    }
    return read ? (int64_t)bytes : usual;
}
