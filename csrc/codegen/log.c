/* One line to standard error for whoever asks with DLC_LOG=1; the environment is read at each line,
 * so that a notebook can turn it on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen.h"

static bool
log_on(void)
{
    const char *value = getenv("DLC_LOG");
    return value && *value && !(value[0] == '0' && !value[1]);
}

void
log_line(const char *format, ...)
{
    if (!log_on()) {
        return;
    }
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "dlc: %s\n", line);         /* one call: lines of threads stay whole */
}
