/* The counters of count.def: one relaxed atomic each, for people and tests to read. */
#include <stdatomic.h>

#include "codegen/process.h"

enum { KIND_INT, KIND_NS };

static const struct {
    const char *name;
    int kind;
} rows[] = {
#define COUNT(constant, name, kind) {#name, KIND_##kind},
#include "count.def"
};

static _Atomic int64_t counts[COUNT_ROWS];

void
count_add(enum Count c, int64_t n)
{
    atomic_fetch_add_explicit(&counts[c], n, memory_order_relaxed);
}

int64_t
count_get(enum Count c)
{
    return atomic_load_explicit(&counts[c], memory_order_relaxed);
}

const char *
count_name(enum Count c)
{
    return rows[c].name;
}

bool
count_is_time(enum Count c)
{
    return rows[c].kind == KIND_NS;
}
