/* A rewrite that is wrong on purpose, in the place of schedule_join.c's: see test_broken.py.
 *
 * BROKEN=store    a kernel for rows of at most DLC_SHORT_ROW elements loses a store: the verifier sees it
 * BROKEN=load     loads read the first element of a row: only the results show it */
#include "codegen/codegen.h"

#include <stdlib.h>
#include <string.h>

static bool
is_asked(const char *what)
{
    const char *asked = getenv("BROKEN");
    return asked && strcmp(asked, what) == 0;
}

static void
lose_store(Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        if (blk->lets[k]->op == OP_store) {
            memmove(&blk->lets[k], &blk->lets[k + 1], (size_t)(--blk->n - k) * sizeof *blk->lets);
            return;
        }
        if (blk->lets[k]->body) {
            lose_store(blk->lets[k]->body);
        }
    }
}

static void
read_first(void *arg, Let *let)
{
    Cx *cx = arg;
    for (int k = 0; k < let->nattrs && let->op == OP_load; k++) {
        Attr *at = &let->attrs[k];
        if (strcmp(at->key, "at") == 0 && at->n && fuel_spend(cx)) {
            Dim *dims = cx_copy(cx, at->dims, (size_t)at->n * sizeof *dims);
            dims[at->n - 1] = dim_int(cx, 0);
            at->dims = dims;
        }
    }
}

Fn *
rewrite_join(Fn *fn)
{
    bool is_short = false;
    for (int k = 0; k < fn->nsizes; k++) {
        is_short |= dim_range(fn->cx, fn->sizes[k]).hi <= DLC_SHORT_ROW;
    }
    if (is_asked("store") && is_short) {
        for (int k = 0; k < fn->body->n; k++) {
            if (fn->body->lets[k]->op == OP_kernel) {
                lose_store(fn->body->lets[k]->body);
            }
        }
    }
    if (is_asked("load")) {
        fn_each_let(fn, read_first, fn->cx);
    }
    return fn;
}
