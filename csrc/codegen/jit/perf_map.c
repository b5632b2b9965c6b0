/* Names of libtcc's functions for perf and samply: /tmp/perf-PID.map, when DLC_PERF is set.
 *
 * A line for each function: address and size in hexadecimal, and the name.  The C compiler's
 * kernels are in shared objects, whose symbols a profiler reads itself.  libtcc does not say
 * where a function ends: it ends where the next one begins. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codegen/process.h"
#include "jit.h"
#include "codegen/lock.h"

static int
by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the function at `from` ends. */
static uintptr_t
end_of(const uintptr_t *starts, int n, uintptr_t from, uintptr_t end)
{
    for (int k = 0; k < n; k++) {
        if (starts[k] > from) {
            return starts[k];
        }
    }
    return end;
}

void
perf_map_add(const Code *code, const void *memory, size_t size)
{
    int n = code_count(code);
    if (!text_is_yes(getenv("DLC_PERF"))) {
        return;
    }
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    uintptr_t begin = (uintptr_t)memory, *starts = malloc((size_t)(n + 1) * sizeof *starts);
    lock_take(LOCK_perf_map);
    FILE *file = starts ? fopen(path, "a") : NULL;
    for (int k = 0; k < n && file; k++) {
        starts[k] = (uintptr_t)code_entry(code, k);
    }
    if (file) {
        qsort(starts, (size_t)n, sizeof *starts, by_address);
        for (int k = 0; k < n; k++) {
            uintptr_t from = (uintptr_t)code_entry(code, k);
            if (from >= begin && from < begin + size) {         /* not of another compile */
                uintptr_t end = end_of(starts, n, from, begin + size);
                fprintf(file, "%lx %lx dlc::%s\n", (unsigned long)from, (unsigned long)(end - from),
                        code_name(code, k));
            }
        }
        fclose(file);
    } else {
        log_line("%s cannot be written", path);
    }
    lock_give(LOCK_perf_map);
    free(starts);
}
