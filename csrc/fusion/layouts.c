/* Layouts: what one kernel passes on to others is in memory as these read and write.
 *
 * What:     a kernel's result that only kernels read gets the order of axes in memory that most of
 *           the bytes have which its maker and its readers touch.
 * Requires  verified kernels;
 * and ensures: the same values.  What is returned, what calls take and what views at the top level
 *           show stays as it is.
 * How:      in the order of the lets, so that what is decided counts for what follows: for each
 *           order that a tensor of the same rank has in one of these kernels, the bytes of those
 *           that have another; the order with the fewest is taken, and rows where none has fewer.
 *           Axes are those of the kernel: an operand that it permutes counts as it is then.
 *           O(kernels that read a value * their tensors).
 * Why not   rows always: vectors run along one axis, and a mask in rows beside an image with its
 *           channels innermost is stored, and read again, an element at a time.  The sums of a norm
 *           over both then go along the wrong one.
 * Why not   an order with the same innermost axis as rows: vectors run along that one.
 * Why not   for what products read or make: they pack what they read, and the order of its axes is
 *           no matter of bytes alone.
 * Example:  x: f32[N, C, H, W] strides=[C*H*W, 1, C*W, C] in
 *           let m: bool[N, C, H, W] strides=[C*H*W, 1, C*W, C] = kernel { .. le x, 0.0 .. }
 */
#include "group.h"

#include <string.h>

/* An order of axes in memory, outermost first. */
typedef struct {
    int perm[MAX_RANK];
} Order;

/* Relates axes of values to axes of a kernel: those of a result, and of the values that it is made
 * from through elementwise operations and permutes. */
typedef struct {
    int kernel;                 /* the stamp of that kernel */
    unsigned char axis[MAX_RANK];
} Axes;

/* A tensor that a kernel touches, in a list. */
typedef struct Touch Touch;
struct Touch {
    Value *v;
    Axes axes;
    Touch *next;
};

typedef struct {
    Fn *fn;
    Cx *cx;
    bool *outside;              /* by Value.id: a parameter, or a let's at the top level */
    bool *fixed;                /* ...: something besides kernels reads it */
    bool *open;                 /* ...: a kernel's, not decided yet */
    Touch **tensors;            /* by position of a let: the values that the kernel touches */
    int *stamp, stamps;         /* by Value.id: the last kernel that was found to touch it */
    int **readers, *nreaders;   /* by Value.id: positions of kernels */
    Axes *axes;                 /* by Value.id: in the last kernel that has it */
    bool *multiplies; /* by position: has a product, or something else with own orders */
} Layouts;

/* Does v have axes of images?  Products and reductions prefer matrices in rows. */
static bool
is_of_images(const Value *v)
{
    return v->type->rank > 2;
}

/* ---- the axes of a kernel ---- */

/* Returns the axes that v has in the kernel; its own axes, until something relates them. */
static const Axes *
axes_of(Layouts *s, const Value *v)
{
    Axes *axes = &s->axes[v->id];
    for (int ax = 0; ax < v->type->rank && axes->kernel != s->stamps; ax++) {
        axes->axis[ax] = (unsigned char)ax;
    }
    axes->kernel = s->stamps;
    return axes;
}

/* Notes that v has the axes of `of`, in the same order or (perm) permuted. */
static void
relate(Layouts *s, const Value *v, const Value *of, const Attr *perm)
{
    if (value_is_const(v) || v->type->rank != of->type->rank ||
        s->axes[v->id].kernel == s->stamps) {
        return;
    }
    const Axes *from = axes_of(s, of);
    for (int ax = 0; ax < v->type->rank; ax++) {
        s->axes[v->id].axis[perm ? perm->axes[ax] : ax] = from->axis[ax];
    }
    s->axes[v->id].kernel = s->stamps;
}

/* Relates the kernel's values, from its results back to its operands. */
static void
relate_body(Layouts *s, const Let *kernel)
{
    const Block *body = kernel->body;
    for (int k = body->n - 1; k >= 0; k--) {
        const Let *let = body->lets[k];
        const Attr *perm = let->op == OP_permute ? let_attr(let, "perm") : NULL;
        bool same = op_info[let->op].kind == KIND_MAP || let->op == OP_pad || let->op == OP_slice ||
                    let->op == OP_flip;
        for (int j = 0; j < let->nargs && (same || perm); j++) {
            relate(s, let->args[j], let->res[0], perm);
        }
    }
    for (int j = 0; j < kernel->nres && !value_is_const(body->rets[j]); j++) {
        relate(s, kernel->res[j], body->rets[j], NULL);
    }
}

/* ---- who touches what ---- */

static void
touch(Layouts *s, Value *v, int at)
{
    if (value_is_const(v) || !s->outside[v->id] || s->stamp[v->id] == s->stamps ||
        !is_of_images(v)) {
        return;
    }
    Touch *t = cx_alloc(s->cx, sizeof *t);
    *t = (Touch){v, *axes_of(s, v), s->tensors[at]};
    s->tensors[at] = t;
    s->stamp[v->id] = s->stamps;
    int *n = &s->nreaders[v->id];
    s->readers[v->id] = cx_grow(s->cx, s->readers[v->id], *n, sizeof **s->readers);
    s->readers[v->id][(*n)++] = at;
}

static void
touch_body(Layouts *s, const Block *body, int at)
{
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        OpKind kind = op_info[let->op].kind;
        bool plain = kind == KIND_MAP || kind == KIND_RED || kind == KIND_VIEW;
        s->multiplies[at] |= !plain && let->op != OP_pad && let->op != OP_iota;
        for (int j = 0; j < let->nargs; j++) {
            touch(s, let->args[j], at);
        }
        if (let->body) {
            touch_body(s, let->body, at);
        }
    }
    for (int k = 0; k < body->nrets; k++) {
        touch(s, body->rets[k], at);
    }
}

static void
scan(Layouts *s)
{
    const Block *body = s->fn->body;
    for (int k = 0; k < s->fn->nparams; k++) {
        s->outside[s->fn->params[k]->id] = true;
    }
    for (int k = 0; k < body->n; k++) {
        Let *let = body->lets[k];
        bool kernel = let->op == OP_kernel;
        s->stamps++;
        for (int j = 0; j < let->nres; j++) {
            s->outside[let->res[j]->id] = true;
            s->open[let->res[j]->id] = kernel;
        }
        if (kernel) {
            relate_body(s, let);
            touch_body(s, let->body, k);
        }
        for (int j = 0; kernel && j < let->nres; j++) {
            touch(s, let->res[j], k);
        }
    }
}

/* ---- orders ---- */

/* Computes the strides of a dense tensor of type t whose axes lie in this order. */
static void
strides_in(Cx *cx, const Type *t, const Order *order, Dim *strides)
{
    Dim next = dim_int(cx, 1);
    for (int at = t->rank - 1; at >= 0; at--) {
        strides[order->perm[at]] = next;
        next = dim_mul(cx, next, t->dims[order->perm[at]]);
    }
}

static bool
lies_in(Cx *cx, const Value *v, const Order *order)
{
    Dim have[MAX_RANK], want[MAX_RANK];
    bool same = value_layout(cx, v, have);
    strides_in(cx, v->type, order, want);
    for (int ax = 0; ax < v->type->rank && same; ax++) {
        same = have[ax] == want[ax] || dim_is(cx, v->type->dims[ax], 1);
    }
    return same;
}

/* The axis order in which v is dense; axes of one element are as in row-major order. */
static bool
order_of(Cx *cx, const Value *v, Order *out)
{
    Dim have[MAX_RANK];
    int innermost_first[MAX_RANK], rank = v->type->rank;
    bool dense = value_layout(cx, v, have) && strides_order(cx, v->type, have, innermost_first);
    for (int at = 0; at < rank && dense; at++) {
        out->perm[at] = innermost_first[rank - 1 - at];
    }
    return dense;
}

static const Touch *
touch_of(const Layouts *s, const Value *v, int at)
{
    const Touch *t = s->tensors[at];
    while (t->v != v) {
        t = t->next;
    }
    return t;
}

/* Converts an order of a kernel's axes from the axes of `from` to those of `to`. */
static Order
order_as(const Touch *from, const Touch *to, const Order *order)
{
    Order out;
    for (int at = 0; at < to->v->type->rank; at++) {
        out.perm[at] = 0;
        while (to->axes.axis[out.perm[at]] != from->axes.axis[order->perm[at]]) {
            out.perm[at]++;
        }
    }
    return out;
}

/* ---- the choice ---- */

/* May v be stored with strides other than its own? */
static bool
may_move(const Layouts *s, const Value *v)
{
    bool may = is_of_images(v) && !v->strides && !v->over && !s->fixed[v->id];
    for (int k = 0; k < s->nreaders[v->id] && may; k++) {
        may = !s->multiplies[s->readers[v->id][k]];
    }
    return may;
}

/* The bytes of tensors other than v, in kernels that touch v, that are not in the order. */
static int64_t
bytes_across(const Layouts *s, const Value *v, const Order *order)
{
    int64_t sum = 0;
    for (int k = 0; k < s->nreaders[v->id]; k++) {
        const Touch *own = touch_of(s, v, s->readers[v->id][k]);
        for (const Touch *t = s->tensors[s->readers[v->id][k]]; t; t = t->next) {
            if (t->v != v && !s->open[t->v->id] && t->v->type->rank == v->type->rank) {
                Order as = order_as(own, t, order);
                sum += lies_in(s->cx, t->v, &as) ? 0 : type_typical_bytes(s->cx, t->v->type);
            }
        }
    }
    return sum;
}

static void
choose(Layouts *s, Value *v)
{
    Order rows, best, one;
    int rank = v->type->rank;
    for (int ax = 0; ax < rank; ax++) {
        rows.perm[ax] = ax;
    }
    best = rows;
    int64_t least = bytes_across(s, v, &rows);
    for (int k = 0; k < s->nreaders[v->id] && least; k++) {
        const Touch *own = touch_of(s, v, s->readers[v->id][k]);
        for (const Touch *t = s->tensors[s->readers[v->id][k]]; t && least; t = t->next) {
            if (t->v == v || !t->v->strides || s->open[t->v->id] || t->v->type->rank != rank ||
                !order_of(s->cx, t->v, &one)) {
                continue;
            }
            one = order_as(t, own, &one);
            int64_t across = one.perm[rank - 1] != rank - 1 ? bytes_across(s, v, &one) : least;
            best = across < least ? one : best;
            least = across < least ? across : least;
        }
    }
    if (!lies_in(s->cx, v, &best) && fuel_spend(s->cx)) {
        Dim *strides = cx_alloc(s->cx, MAX_RANK * sizeof *strides);
        strides_in(s->cx, v->type, &best, strides);
        v->strides = strides;
    }
}

Fn *
pass_layouts(Fn *fn)
{
    size_t n = (size_t)fn->nvalues + 1, lets = (size_t)fn->body->n + 1;
    Layouts s = {
        .fn = fn,
        .cx = fn->cx,
        .outside = cx_alloc(fn->cx, n * sizeof *s.outside),
        .fixed = memory_read_outside(fn),
        .open = cx_alloc(fn->cx, n * sizeof *s.open),
        .tensors = cx_alloc(fn->cx, lets * sizeof *s.tensors),
        .stamp = cx_alloc(fn->cx, n * sizeof *s.stamp),
        .readers = cx_alloc(fn->cx, n * sizeof *s.readers),
        .nreaders = cx_alloc(fn->cx, n * sizeof *s.nreaders),
        .axes = cx_alloc(fn->cx, n * sizeof *s.axes),
        .multiplies = cx_alloc(fn->cx, lets * sizeof *s.multiplies),
    };
    scan(&s);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; let->op == OP_kernel && j < let->nres; j++) {
            Value *v = let->res[j];
            s.open[v->id] = may_move(&s, v);
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; let->op == OP_kernel && j < let->nres; j++) {
            Value *v = let->res[j];
            if (s.open[v->id]) {
                choose(&s, v);
                s.open[v->id] = false;
            }
        }
    }
    return fn;
}
