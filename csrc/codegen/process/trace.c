/* A trace of the process in Chrome's format: for DLC_TRACE=trace.json.
 *
 * Events are kept in memory, MOST of them, and written by trace_write.  While it is off, a query
 * costs one load. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/process.h"
#include "codegen/lock.h"

enum { MOST = 1 << 20, NAME = 96 };

typedef struct {
    const char *category;       /* a constant */
    char name[NAME];
    double begin, seconds;      /* seconds < 0: an instant */
    int thread;
} Event;

static atomic_bool on;
static Event *events;
static int count, room;

bool
trace_is_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

void
trace_start(void)
{
    on = true;
}

/* With the lock; NULL: there are too many, or no memory. */
static Event *
next_event(void)
{
    if (count == room) {
        int more = room ? 2 * room : 1024;
        Event *grown = more <= MOST ? realloc(events, (size_t)more * sizeof *events) : NULL;
        if (!grown) {
            return NULL;
        }
        events = grown;
        room = more;
    }
    return &events[count++];
}

void
trace_event(const char *category, const char *name, double begin, double seconds)
{
    if (!trace_is_on()) {
        return;
    }
    lock_take(LOCK_trace);
    Event *event = next_event();
    if (event) {
        *event = (Event){
            .category = category, .begin = begin, .seconds = seconds, .thread = gettid()};
        snprintf(event->name, sizeof event->name, "%s", name ? name : "");
    }
    lock_give(LOCK_trace);
}

static void
put_name(const char *name, FILE *file)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') {
            fprintf(file, "\\%c", *name);
        } else {
            fputc((unsigned char)*name < ' ' ? ' ' : *name, file);
        }
    }
}

static void
put_event(const Event *e, FILE *file)
{
    fputs("{\"name\":\"", file);
    put_name(e->name, file);
    fprintf(file, "\",\"cat\":\"%s\",\"ph\":\"%s\",\"ts\":%.3f,", e->category,
            e->seconds < 0 ? "i" : "X", 1e6 * e->begin);
    if (e->seconds < 0) {
        fputs("\"s\":\"t\",", file);
    } else {
        fprintf(file, "\"dur\":%.3f,", 1e6 * e->seconds);
    }
    fprintf(file, "\"pid\":%d,\"tid\":%d}", (int)getpid(), e->thread);
}

bool
trace_write(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        return false;
    }
    lock_take(LOCK_trace);
    on = false;
    fputs("{\"traceEvents\":[", file);
    for (int k = 0; k < count; k++) {
        fputs(k ? ",\n" : "\n", file);
        put_event(&events[k], file);
    }
    fputs("\n]}\n", file);
    free(events);
    events = NULL;
    count = room = 0;
    lock_give(LOCK_trace);
    bool good = !ferror(file);
    return fclose(file) == 0 && good;
}
