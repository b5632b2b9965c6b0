/* Pad rows: rows that products read get a line of memory between them where all of them would share
 * a set of the first-level cache.
 *
 * What:     the binder of a kernel's result promises strides with COST_LINE bytes more from a row
 *           to the next one, where the bytes of a row are a multiple of COST_SAME_SET and a
 *           contraction sums along it.
 * Requires  verified kernels;
 * and ensures: the same values, bit for bit.  Only kernels have the value, and each view of it in
 *           them can be described by the new strides.
 * How:      one walk over the kernels notes for each value whether a contraction reads it so, and
 *           whether something forbids it.  O(lets).
 * Why not   in the contraction: it copies the rows of each tile for each group of panels, which
 *           takes 4 to 9 percent of the product (docs/experiments.md).  What the caller made is
 *           copied so.
 * Why not   for all rows: a value that is dense is read and stored as one row.
 * Example:  h: f32[128, 1024] = kernel { gelu .. }, read as the rows of a product with a weight,
 *           has strides=[1040, 1].
 */
#include "group.h"

/* By Value.id.  A value is noted if it is a kernel's result with rows of such a length. */
typedef struct {
    Cx *cx;
    const Value **root; /* the noted value that it is, or is a view of; NULL: none */
    const Dim **layout; /* the strides that it would have */
    bool *read, *forbidden; /* read by a product; read by a let that allows no other strides */
} Padding;

/* The strides of rows that are a line further from each other; NULL: the rows need none. */
static const Dim *
padded(Cx *cx, const Type *t)
{
    int64_t row, bytes = dtype_info[t->dtype].bytes;
    if (t->rank < 2 || !dim_is_int(cx, t->dims[t->rank - 1], &row) ||
        row * bytes % COST_SAME_SET != 0 || type_is_empty(cx, t)) {
        return NULL;
    }
    Dim *strides = cx_alloc(cx, MAX_RANK * sizeof *strides);
    Dim step = dim_int(cx, row + COST_LINE / bytes);
    strides[t->rank - 1] = dim_int(cx, 1);
    for (int ax = t->rank - 2; ax >= 0; ax--) {
        strides[ax] = step;
        step = dim_mul(cx, step, t->dims[ax]);
    }
    return strides;
}

/* Does the contraction sum along the last axis of argument j? */
static bool
sums_last(const Let *let, int j)
{
    const Contraction *over = let_contraction(let);
    const char *letters = j ? over->b : over->a;
    char last = letters[let->args[j]->type->rank - 1];
    bool sums = false;
    for (int k = 0; k < over->nsum; k++) {
        sums |= over->sum[k] == last;
    }
    return sums;
}

/* Notes how a body uses the values that are noted, and views of them. */
static void
scan_body(Padding *s, const Block *body)
{
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            const Value *v = let->args[j], *of = value_is_const(v) ? NULL : s->root[v->id];
            if (of && let->op == OP_contract) {
                s->read[of->id] |= sums_last(let, j);
            }
            if (!of || op_info[let->op].kind != KIND_VIEW || j > 0) {
                continue;
            }
            Dim *strides = cx_alloc(s->cx, MAX_RANK * sizeof *strides), offset;
            /* Windows would find their elements by divisions. */
            if (let->op != OP_as_strided &&
                view_layout(s->cx, let, s->layout[v->id], dim_int(s->cx, 0), strides, &offset)) {
                s->root[let->res[0]->id] = of;
                s->layout[let->res[0]->id] = strides;
            } else {
                s->forbidden[of->id] = true;
            }
        }
        if (let->body) {
            scan_body(s, let->body);
        }
    }
    for (int k = 0; k < body->nrets; k++) {
        const Value *v = body->rets[k];
        if (!value_is_const(v) && s->root[v->id]) {
            s->forbidden[s->root[v->id]->id] = true;
        }
    }
}

/* Notes a kernel's result, if its rows have such a length. */
static void
note(Padding *s, const Value *v)
{
    const Dim *strides = v->strides ? NULL : padded(s->cx, v->type);
    s->layout[v->id] = strides;
    s->root[v->id] = strides ? v : NULL;
}

Fn *
pass_pad_rows(Fn *fn)
{
    size_t n = (size_t)fn->nvalues + 1;
    Padding s = {
        .cx = fn->cx,
        .root = cx_alloc(fn->cx, n * sizeof *s.root),
        .layout = cx_alloc(fn->cx, n * sizeof *s.layout),
        .read = cx_alloc(fn->cx, n * sizeof *s.read),
        .forbidden = memory_read_outside(fn),
    };
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->body) {
            scan_body(&s, let->body);
        }
        for (int j = 0; let->op == OP_kernel && j < let->nres; j++) {
            note(&s, let->res[j]);
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            Value *v = let->res[j];
            if (s.read[v->id] && !s.forbidden[v->id] && fuel_spend(fn->cx)) {
                v->strides = s.layout[v->id];
            }
        }
    }
    return fn;
}
