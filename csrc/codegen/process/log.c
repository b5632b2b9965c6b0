/* One line to standard error for whoever asks with DLC_LOG=1; the environment is read at each
 * compile, so that a notebook can turn it on. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen/process.h"

static atomic_bool on;

void
log_configure(void)
{
    on = text_is_yes(getenv("DLC_LOG"));
}

void
log_line(const char *format, ...)
{
    if (!on) {
        return;
    }
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "dlc: %s\n", line);         /* one call: lines of threads stay whole */
}
