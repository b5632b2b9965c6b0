/* Scans: running reductions along an axis.
 *
 * What:     one phase for a scan: loops over the other axes, and in them one over the axis, in order.
 * Requires: a group with the scan's value as its only target.
 * Ensures:  each element is the combination of those before it from the first one on, one after the
 *           other: one order, whatever the tier and the number of threads.
 * How:      what has been combined stands in a buffer of one element, which the loop over the axis loads
 *           and stores; schedule.c sees by that that its iterations are not independent, and makes the
 *           innermost of the loops around it the vector: a tile of columns advances together.
 * Why not:  blocks of the axis in parallel: the elements of a block would have to be changed again when
 *           what is before it is known, and the bits would not be those of one order.
 * Example:  y = scan x op=sum axis=0 of f32[T, C]: for i in C vector { buffer s; for j in T { load x[j, i];
 *           load s; add; store s; store y[j, i] } }.
 */
#include <math.h>
#include <string.h>

#include "lower.h"

bool
group_is_scan(const Group *g)
{
    const Let *def = g->targets[0].value->def;
    return g->ntargets == 1 && def && def->op == OP_scan;
}

static Dtype
scan_dtype(Op op, Dtype dtype)
{
    Dtype compute = dtype_info[dtype].compute;
    return dtype == DT_f32 && (op == OP_sum || op == OP_prod) ? DT_f64 : compute;
}

static Value *
identity(Lower *lo, Op op, Dtype dtype)
{
    Value *v = cx_alloc(lo->cx, sizeof *v);
    bool real = dtype_info[dtype].class == CLASS_FLOAT, least = op == OP_amax;
    int bits = 8 * dtype_info[dtype].bytes;
    if (op == OP_sum || op == OP_prod) {
        v->literal = real ? (Literal){.f = op == OP_prod} : (Literal){.is_int = true, .i = op == OP_prod};
    } else if (real) {
        v->literal = (Literal){.f = least ? -INFINITY : INFINITY};
    } else if (dtype == DT_bool) {
        v->literal = (Literal){.is_int = true, .i = !least};
    } else {
        v->literal = (Literal){.is_int = true, .i = least ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits)};
    }
    return v;
}

/* The offsets of what the loops touch; the operand becomes a buffer first if it needs loops of its own. */
static void
probe_operand(Lower *lo, const Shape *s, const Target *read, Probe *probe)
{
    Space all = {.nouter = s->nall};
    memcpy(all.outer, s->all, sizeof all.outer);
    memcpy(all.outer_extent, s->all_extent, sizeof all.outer_extent);
    probe_targets(lo->leaf, lo->cx, &all, 1, read, probe);
    if (probe->nsites || probe->cut != DIM_NONE || probe->apart) {
        group_materialise(lo, read->value);
        probe_targets(lo->leaf, lo->cx, &all, 1, read, probe);
    }
}

/* The loop over the axis; `at` is the element that it has come to. */
static void
put_steps(Lower *lo, const Let *scan, Value *to, const Dim *at)
{
    Op op = let_op(scan);
    Dtype dtype = to->type->dtype, wide = scan_dtype(op, dtype);
    Dim first = dim_int(lo->cx, 0), axis[MAX_RANK];
    int ax = (int)let_int(scan, "axis");
    Dim size = dim_int(lo->cx, 1);
    Value *sum = lower_buffer(lo, lo->depth, wide, 1, &size);
    lower_store(lo, sum, &first, identity(lo, op, wide));
    memcpy(axis, at, (size_t)to->type->rank * sizeof *at);
    axis[ax] = lower_open(lo, "j", to->type->dims[ax]);
    Value *v = lower_cast(lo, lower_at(lo, scan->args[0], axis), wide);
    v = lower_combine(lo, op_info[op].combine, v, lower_load_here(lo, sum, &first));
    lower_store(lo, sum, &first, v);
    lower_store(lo, to, axis, lower_cast(lo, v, dtype));
    lower_close(lo);
}

void
group_scan(Lower *lo, const Group *g)
{
    Shape s = group_shape(lo, g);
    const Let *scan = g->targets[0].value->def;
    Value *to = g->targets[0].buffer;
    Target read = target_of(lo, scan->args[0], to);
    Probe probe;
    Nest outer;
    Space space = {0};
    Dim axes[MAX_RANK], at[MAX_RANK], along = s.idx[let_int(scan, "axis")];
    memcpy(read.at, s.idx, (size_t)g->rank * sizeof *read.at);
    probe_operand(lo, &s, &read, &probe);
    for (int k = 0; k < s.nall; k++) {
        if (s.all[k] != along) {
            space.outer[space.nouter] = s.all[k];
            space.outer_extent[space.nouter++] = s.all_extent[k];
        }
    }
    lo->probe = &probe;
    lo->nests = (Map){0};
    nest_plan(lo->cx, &outer, space.nouter, space.outer, space.outer_extent, probe.nstores,
              probe.noffsets, probe.offsets, 0);
    int opened = group_open(lo, &outer, axes);
    lo->outer = lo->depth;
    memcpy(at, s.idx, (size_t)g->rank * sizeof *at);
    axes_rename(lo, space.nouter, space.outer, axes, g->rank, at);
    put_steps(lo, scan, to, at);
    group_close(lo, opened);
}
