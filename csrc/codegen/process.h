/* Counters, logs and traces of the process, and its limits. */
#ifndef DLC_CODEGEN_PROCESS_H
#define DLC_CODEGEN_PROCESS_H

#include "ir/ir.h"

/* ---- count.c: the rows of count.def ---- */

enum Count {
#define COUNT(constant, name, kind) COUNT_##constant,
#include "process/count.def"
    COUNT_ROWS
};

void count_add(enum Count c, int64_t n);
int64_t count_get(enum Count c);
const char *count_name(enum Count c);
bool count_is_time(enum Count c); /* nanoseconds */

/* ---- log.c ---- */

/* "dlc: ..." and a newline to standard error when DLC_LOG was set and not 0 at the last
 * log_configure. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reads the environment, which Python changes under its lock: for threads that have that. */
void log_configure(void);

/* ---- trace.c: what the process did and when, for DLC_TRACE ---- */

bool trace_is_on(void);
void trace_start(void);
/* At clock_seconds() `begin`, of this thread; category: a constant; seconds < 0: an instant. */
void trace_event(const char *category, const char *name, double begin, double seconds);
/* Ends it and writes the file; false: errno says why it could not be written. */
bool trace_write(const char *path);

/* ---- environment.c ---- */

/* A number of bytes, such as 4096, 512K, "2 GB" or 1.5GiB, from a variable; `usual` where that is
 * not set, and, with a line to the log, where it is something else. */
int64_t environment_bytes(const char *name, int64_t usual);

#endif
