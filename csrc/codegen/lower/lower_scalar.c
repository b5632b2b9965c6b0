/* Values at an index vector to scalar lets in loops: what lowering does to a kernel's body.
 *
 * What:     lower_at(v, idx) is the scalar that holds element idx of v, computed where it is first
 *           wanted: loads from operands, MAP lets on scalars, reduce loops.
 * Requires: the loops whose indices idx uses are open.
 * Ensures:  every scalar stands in the outermost loop whose index it needs and is computed once
 *           there.
 * How:      Demand driven, from a result back through its operands, memoised on (v, idx).  A let
 *           goes into the block of the deepest of its operands (lower_loops.c).  Linear in lets
 *           times the loops that need them.
 * Why not:  emit everything in the innermost loop and hoist invariants afterwards: a reduction must
 *           be placed before its loop is built, and placement by depth of operands is hoisting.
 * Example:  y[i, j] = x[i, j] / s[i], s = sum(x, axis 1), demanded at [i, j] with i and j open: the
 *           load in the loop of j, the reduce in the loop of i, the division in the loop of j.
 */
#include <string.h>

#include "lower_product.h"

typedef struct {
    Value *value;
    Frame *frame;
} Scalar;

/* ---- reductions ---- */

static Value *
close_reduces(Lower *lo, const Nest *nest, Op op, Value *ret)
{
    for (int k = nest->nloops - 1; k >= 0; k--) {
        bool vector = !lo->column && k == nest->nloops - 1;
        ret = builder_close_reduce(&lo->out, op, vector ? MARK_lanes : 0, ret);
    }
    return ret;
}

Dtype
reduce_dtype(const Let *red)
{
    Dtype compute = dtype_info[red->args[0]->type->dtype].compute;
    return op_info[red->op].rule == RULE_INDEX && compute == DT_bool ? DT_i32 : compute;
}

static Value *
reduce_here(Lower *lo, const Let *red, const Dim *idx)
{
    const Nest *nest = map_get(&lo->nests, (const uint32_t[]){(uint32_t)red->res[0]->id}, 1);
    Dim axes[MAX_RANK], inner[MAX_RANK];
    nest_open(lo, nest, axes);
    index_reduced(lo->cx, red, idx, axes, inner);
    const Dim *row = lo->row;
    lo->row = axes;
    Value *v = builder_cast(&lo->out, builder_truth(&lo->out, lower_at(lo, red->args[0], inner)),
                            reduce_dtype(red));
    lo->row = row;
    if (nest->nloops == 0 && op_info[red->op].rule == RULE_INDEX) {
        return builder_size(&lo->out, dim_int(lo->cx, 0)); /* the index of the only element */
    }
    return close_reduces(lo, nest, red->op, v);
}

/* Puts the reduction in the innermost loop that its index uses or, if it uses none, in the phase's
 * outer loop.  The loops inside that loop are left meanwhile. */
static Value *
scalar_reduce(Lower *lo, const Let *red, const Dim *idx)
{
    int rank = red->res[0]->type->rank;
    int depth = builder_depth(&lo->out, rank, idx), saved = lo->out.depth;
    Frame *inside[MAX_LOOPS + 2];
    memcpy(inside, lo->out.path, sizeof inside);
    lo->out.depth = depth ? depth : lo->outer;
    Value *v = reduce_here(lo, red, idx);
    v = builder_cast(&lo->out, v, red->res[0]->type->dtype);
    memcpy(lo->out.path, inside, sizeof inside);
    lo->out.depth = saved;
    return v;
}

/* ---- cat, pad, gather ---- */

static Value *
scalar_operand(Lower *lo, const Let *let, int k, const Dim *idx)
{
    Dim inner[MAX_RANK];
    if (value_is_const(let->args[k])) {
        return let->args[k];
    }
    index_operand(lo->cx, let, k, idx, inner);
    return lower_at(lo, let->args[k], inner);
}

/* An element of a cat or pad.  The space has been cut so that one piece holds all of it. */
static Value *
scalar_piece(Lower *lo, const Let *let, const Dim *idx)
{
    bool cat = let->op == OP_cat;
    int axis, piece = cat ? index_cat_part(lo->cx, let, idx[let_int(let, "axis")])
                          : index_pad(lo->cx, let, idx, &axis);
    if (cat ? piece < 0 : piece == 0) {
        fail(lo->cx, DIAG_PART_UNKNOWN, op_info[let->op].name);
    }
    return piece < 0 ? builder_const(&lo->out, 0, let->args[1], let->res[0]->type->dtype,
                                     let->res[0]->name)
                     : scalar_operand(lo, let, cat ? piece : 0, idx);
}

static Value *
scalar_gather(Lower *lo, const Let *gather, const Dim *idx)
{
    const Type *x = gather->args[0]->type;
    int axis = (int)let_int(gather, "axis"), skip = gather->args[1]->type->rank;
    Dim inner[MAX_RANK], at[MAX_RANK];
    index_operand(lo->cx, gather, 1, idx, at);
    for (int ax = 0; ax < x->rank; ax++) {
        inner[ax] = ax == axis  ? lower_index(lo, gather, at, gather->res[0]->type->rank, idx)
                    : ax < axis ? idx[ax]
                                : idx[ax - 1 + skip];
    }
    return lower_at(lo, gather->args[0], inner);
}

/* ---- values ---- */

static Value *
scalar_map(Lower *lo, const Let *let, const Dim *idx)
{
    Value *args[3];
    for (int k = 0; k < let->nargs; k++) {
        args[k] = scalar_operand(lo, let, k, idx);
        bool any = let->op == OP_cast || (let->op == OP_where && k == 0);
        args[k] = any ? args[k] : builder_truth(&lo->out, args[k]);
    }
    return builder_map(&lo->out, let->op, let->nargs, args, let->res[0]->type->dtype,
                       let->res[0]->name);
}

static Value *
scalar_let(Lower *lo, const Let *let, const Dim *idx)
{
    const Value *v = let->res[0];
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        return scalar_map(lo, let, idx);
    case KIND_RED:
        return scalar_reduce(lo, let, idx);
    case KIND_VIEW:
        return scalar_operand(lo, let, 0, idx);
    case KIND_NODE:
        break;
    }
    switch (let->op) {
    case OP_const:
        return builder_const(&lo->out, 0, let->args[0], v->type->dtype, v->name);
    case OP_iota:
        return builder_cast(&lo->out, builder_size(&lo->out, idx[let_int(let, "axis")]),
                            v->type->dtype);
    case OP_size:
        return builder_size(&lo->out, let_dim(let, "dim"));
    case OP_cat:
    case OP_pad:
        return scalar_piece(lo, let, idx);
    case OP_gather:
        return scalar_gather(lo, let, idx);
    case OP_scan:
        return lower_scan(lo, let, idx);
    case OP_contract:
        return builder_cast(&lo->out, plain_sum(lo), v->type->dtype);
    default:
        fail(lo->cx, DIAG_NOT_IN_KERNEL, op_info[let->op].name);
    }
}

/* The element of the row buffer at the open loops. */
static const Dim *
at_row(Lower *lo, const Need *need, Dim *at)
{
    if (!need->output) {
        return lo->row;
    }
    memcpy(at, need->at, (size_t)need->output->type->rank * sizeof *at);
    axes_rename(lo, need->nrow, need->axes, lo->row, need->output->type->rank, at);
    return at;
}

/* A value that several loops over the row need: the first one computes and stores it. */
static Value *
scalar_buffered(Lower *lo, const Value *v, const Dim *idx, Need *need)
{
    Dim at[MAX_RANK], room[MAX_RANK];
    if (need->buffer) {
        return lower_load(lo, need->buffer, at_row(lo, need, at));
    }
    Value *made = scalar_let(lo, v->def, idx);
    for (int k = 0; k < need->nrow; k++) {
        room[k] = bounds_room(lo, need->row[k]);
    }
    need->buffer = need->output
                       ? need->output
                       : builder_buffer(&lo->out, lo->outer, v->type->dtype, need->nrow, room);
    lower_store(lo, need->buffer, at_row(lo, need, at), made);
    return made;
}

Value *
lower_at(Lower *lo, const Value *v, const Dim *idx)
{
    uint32_t key[MAX_RANK + 1];
    Scalar *s = map_at(lo->cx, &lo->scalars, key, map_key(v, idx, key), sizeof *s);
    if (s->value && builder_frame_is_open(&lo->out, s->frame)) {
        return s->value;
    }
    Loc outer = cx_loc(lo->cx);
    Value *made;
    if (v == lo->number) {
        made = builder_size(&lo->out, lo->step);
    } else if (lo->leaf[v->id]) {
        made = lower_load(lo, lo->leaf[v->id], idx);
    } else {
        cx_set_loc(lo->cx, v->def->loc);
        Need *need = map_get(&lo->probe->needs, key, 1);
        made = need && need->nrow ? scalar_buffered(lo, v, idx, need) : scalar_let(lo, v->def, idx);
    }
    cx_set_loc(lo->cx, outer);
    s->value = made; /* entries never move */
    s->frame = builder_frame(&lo->out, made);
    return made;
}
