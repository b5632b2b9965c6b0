/* Scans: running reductions along an axis.
 *
 * What:     one phase for the values that want scans.  In loops over the other axes, one loop runs
 *           along the axis in order, and each scan makes a step in each iteration.
 * Requires: a probe that has found such a loop: scans along one axis, wanted where the loop is.
 * Ensures:  each element combines the elements from the first one up to it, one after the other.
 *           This order depends neither on the tier nor on the number of threads.
 * How:      The running result is in a buffer of one element, which the loop along the axis loads
 *           and stores.  From that buffer schedule.c sees that the iterations are not independent.
 *           The operands and the users of a scan are scalars in the same loop.  If a scan is read
 *           from its end (flip), the loop runs from there.
 * Why not:  scan blocks of the axis in parallel: the elements of a block would have to be changed
 *           again when the result before it is known, and the bits would not be those of one order.
 * Example:  y = 2 * scan x op=sum axis=0 of f32[T, C]: for i in C vector { buffer s; for j in T {
 *           load x[j, i]; load s; add; store s; mul; store y[j, i] } }.
 */
#include <math.h>
#include <string.h>

#include "lower.h"

static Dtype
scan_dtype(Op op, Dtype dtype)
{
    Dtype compute = dtype_info[dtype].compute;
    return dtype == DT_f32 && op != OP_amax && op != OP_amin ? DT_f64 : compute;
}

static Value *
identity(Lower *lo, Op op, Dtype dtype)
{
    Value *v = cx_alloc(lo->cx, sizeof *v);
    bool real = dtype_info[dtype].class == CLASS_FLOAT, least = op != OP_amin;
    int bits = 8 * dtype_info[dtype].bytes;
    if (op == OP_sum || op == OP_prod) {
        v->literal = real ? (Literal){.f = op == OP_prod}
                          : (Literal){.is_int = true, .i = op == OP_prod};
    } else if (real) {
        v->literal = (Literal){.f = least ? -INFINITY : INFINITY};
    } else if (dtype == DT_bool) {
        v->literal = (Literal){.is_int = true, .i = !least};
    } else {
        v->literal = (Literal){.is_int = true,
                               .i = least ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits)};
    }
    return v;
}

/* The operation that a step of the scan applies. */
static Op
step_of(Op op)
{
    return op_info[op].kind == KIND_RED ? op_info[op].combine : op;
}

/* Stores in the innermost of the outer loops. */
static void
store_outside(Lower *lo, Value *buffer, const Dim *at, Value *value)
{
    int depth = lo->out.depth;
    lo->out.depth = lo->outer;
    lower_store(lo, buffer, at, value);
    lo->out.depth = depth;
}

Value *
lower_scan(Lower *lo, const Let *scan, const Dim *idx)
{
    Op op = let_op(scan);
    const Type *t = scan->res[0]->type;
    Dtype wide = scan_dtype(op, t->dtype);
    Value *first = identity(lo, op, wide);
    Value *v = builder_cast(&lo->out, builder_truth(&lo->out, lower_at(lo, scan->args[0], idx)),
                            wide);
    if (extent_is_one(lo->cx, t->dims[let_int(scan, "axis")])) {
        return builder_cast(&lo->out, builder_combine(&lo->out, step_of(op), first, v), t->dtype);
    }
    Dim size = dim_int(lo->cx, 1), zero = dim_int(lo->cx, 0);
    Value *run = builder_buffer(&lo->out, lo->outer, wide, 1, &size);
    store_outside(lo, run, &zero, first);
    v = builder_combine(&lo->out, step_of(op), lower_load_here(lo, run, &zero), v);
    lower_store(lo, run, &zero, v);
    return builder_cast(&lo->out, v, t->dtype);
}

void
group_scan(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    Nest outer;
    Space space = {.nrow = 1, .row = {probe->along}};
    Dim axes[MAX_RANK];
    for (int k = 0; k < s->nall; k++) {
        if (s->all[k] != probe->along) {
            space.outer[space.nouter] = s->all[k];
            space.outer_extent[space.nouter++] = s->all_extent[k];
        }
    }
    lo->probe = probe;
    lo->nests = (Map){0};
    nest_plan(lo->cx, &outer, space.nouter, space.outer, space.outer_extent, probe->nstores,
              probe->noffsets, probe->offsets, 0);
    int opened = group_open(lo, &outer, axes);
    lo->outer = lo->out.depth;
    Dim n = dim_extent(lo->cx, probe->along), at = builder_open(&lo->out, "j", n);
    Dim last = dim_sub(lo->cx, n, dim_int(lo->cx, 1));
    at = probe->back ? dim_sub(lo->cx, last, at) : at;
    group_store(lo, g, 0, g->noutputs, &space, axes, &at);
    builder_close_all(&lo->out, opened + 1);
}
