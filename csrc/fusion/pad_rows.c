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

typedef struct {
    const Fn *fn;
    const Dim **strides; /* by Value.id: of a kernel's result with rows of such a length */
    bool *read, *forbidden; /* by Value.id: by a product; by what cannot have other strides */
} Padding;

/* The strides of rows that are a line further from each other; NULL: the rows need none. */
static const Dim *
padded(Cx *cx, const Type *t)
{
    int64_t row, bytes = dtype_info[t->dtype].bytes;
    if (t->rank < 2 || !dim_is_int(cx, t->dims[t->rank - 1], &row) || row == 0 ||
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
    Contraction over = let_contraction(let);
    const char *letters = j ? over.b : over.a;
    char last = letters[let->args[j]->type->rank - 1];
    bool sums = false;
    for (int k = 0; k < over.nsum; k++) {
        sums |= over.sum[k] == last;
    }
    return sums;
}

/* What a body does with the values that are noted, and with views of them.  at: by Value.id, the
 * value that a view is of, with the strides that it would have. */
static void
scan_body(Padding *s, const Block *body, const Value **root, const Dim **layout)
{
    Cx *cx = s->fn->cx;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            const Value *v = let->args[j], *of = value_is_const(v) ? NULL : root[v->id];
            if (of && let->op == OP_contract) {
                s->read[of->id] |= sums_last(let, j);
            }
            if (!of || op_info[let->op].kind != KIND_VIEW || j > 0) {
                continue;
            }
            Dim *strides = cx_alloc(cx, MAX_RANK * sizeof *strides), offset;
            /* Windows would find their elements by divisions. */
            if (let->op != OP_as_strided &&
                view_layout(cx, let, layout[v->id], dim_int(cx, 0), strides, &offset)) {
                root[let->res[0]->id] = of;
                layout[let->res[0]->id] = strides;
            } else {
                s->forbidden[of->id] = true;
            }
        }
        if (let->body) {
            scan_body(s, let->body, root, layout);
        }
    }
    for (int k = 0; k < body->nrets; k++) {
        const Value *v = body->rets[k];
        if (!value_is_const(v) && root[v->id]) {
            s->forbidden[root[v->id]->id] = true;
        }
    }
}

/* Anything but a kernel that has the value forbids it. */
static void
scan(Padding *s)
{
    Cx *cx = s->fn->cx;
    size_t n = (size_t)s->fn->nvalues + 1;
    const Value **root = cx_alloc(cx, n * sizeof *root);
    const Dim **layout = cx_alloc(cx, n * sizeof *layout);
    for (int k = 0; k < s->fn->body->n; k++) {
        const Let *let = s->fn->body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            s->forbidden[let->args[j]->id] = true;
        }
        if (let->body) {
            scan_body(s, let->body, root, layout);
        }
        for (int j = 0; let->op == OP_kernel && j < let->nres; j++) {
            const Value *v = let->res[j];
            const Dim *strides = v->strides ? NULL : padded(cx, v->type);
            s->strides[v->id] = layout[v->id] = strides;
            root[v->id] = strides ? v : NULL;
        }
    }
    for (int k = 0; k < s->fn->body->nrets; k++) {
        s->forbidden[s->fn->body->rets[k]->id] = true;
    }
}

Fn *
pass_pad_rows(Fn *fn)
{
    size_t n = (size_t)fn->nvalues + 1;
    Padding s = {
        .fn = fn,
        .strides = cx_alloc(fn->cx, n * sizeof *s.strides),
        .read = cx_alloc(fn->cx, n * sizeof *s.read),
        .forbidden = cx_alloc(fn->cx, n * sizeof *s.forbidden),
    };
    scan(&s);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            Value *v = let->res[j];
            if (s.read[v->id] && !s.forbidden[v->id] && fuel_spend(fn->cx)) {
                v->strides = s.strides[v->id];
            }
        }
    }
    return fn;
}
