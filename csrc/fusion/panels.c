/* Panels: an operand that many products read as their columns is packed into panels once.
 *
 * What:     a kernel packs the operand, as the microkernels read it (MICRO_ROW_BYTES of a row
 *           beside one another, the rows of a panel one after the other), and the products read it
 *           through the views that undo this.  prepare.c does the same before calls, for frozen
 *           parameters.
 * Requires  verified kernels;
 * and ensures: the same values, bit for bit.  An operand has two axes of constant sizes and stands
 *           outside of the kernels that read it.
 * How:      one walk counts the products that read each operand; where there are COST_PACKED of
 *           them, the kernel that packs stands before the first.  What is the same in all steps of
 *           a loop is packed before it, and the panels are one operand more.  O(lets).
 * Why not   for fewer: a product of few rows reads its columns in place, and one of many rows packs
 *           them where its caches are.  Steps of a recurrence do so at every step.
 * Why not   before the fuse pass: views and what they undo would cancel.
 * Example:  contract h, w over="bk,nk->bn" with w: f32[1024, 256], in 64 kernels for the steps of
 *           an LSTM, reads p: f32[32, 256, 32].
 */
#include "group.h"

#include <string.h>

enum { MAX_PANELS = 8 };        /* that a loop takes */

/* ---- panels of a value ---- */

typedef struct {
    Dim n, k, panels, width, padded;
} Panels;

static Panels
panels_of(Cx *cx, const Type *t, const PanelAxes *axes)
{
    Panels p = {.n = t->dims[axes->columns], .k = dim_int(cx, 1)};
    int64_t n = 0, width = axes->width;
    for (int k = 0; k < axes->nsums; k++) {
        p.k = dim_mul(cx, p.k, t->dims[axes->sums[k]]);
    }
    dim_is_int(cx, p.n, &n);
    p.width = dim_int(cx, width);
    p.panels = dim_int(cx, (n + width - 1) / width);
    p.padded = dim_mul(cx, p.panels, p.width);
    return p;
}

PanelAxes
panel_axes(Cx *cx, const Let *let, int j)
{
    const Value *v = let->args[j];
    const PanelAxes none = {.columns = -1};
    int64_t n;
    if (let->op != OP_contract || panel_dtype(v->type->dtype) != v->type->dtype) {
        return none;
    }
    const Contraction *over = let_contraction(let);
    const char *mine = j ? over->b : over->a;
    int rank = v->type->rank;
    PanelAxes axes = {.columns = over->nout ? letter_axis(mine, rank, over->out[over->nout - 1])
                                            : -1,
                      .width = (int)panel_width(v->type->dtype)};
    for (int k = 0; k < over->nsum; k++) {
        axes.sums[k] = letter_axis(mine, rank, over->sum[k]);
        axes.nsums += axes.sums[k] >= 0;
    }
    for (int ax = 0; ax < rank && over->nsum; ax++) {
        bool kept = letter_axis(over->out, over->nout, mine[ax]) >= 0;
        if (kept && letter_class(over, mine[ax]) == LETTER_OF_BOTH) {
            axes.batch[axes.nbatch++] = ax;
        }
    }
    bool all = axes.columns >= 0 && axes.nsums == over->nsum &&
               axes.nbatch + axes.nsums == rank - 1 &&
               letter_class(over, mine[axes.columns]) != LETTER_OF_BOTH;
    return all && axes.nsums > 0 && axes.nbatch + 4 <= MAX_RANK &&
                   dim_is_int(cx, v->type->dims[axes.columns], &n) && n >= COST_COLUMNS
               ? axes
               : none;
}

/* The sizes of the batch, and behind them n more: how many there are. */
static int
batch_and(const Type *t, const PanelAxes *axes, int n, const Dim *more, Dim *dims)
{
    int rank = 0;
    while (rank < axes->nbatch) {
        dims[rank] = t->dims[axes->batch[rank]];
        rank++;
    }
    for (int k = 0; k < n; k++) {
        dims[rank++] = more[k];
    }
    return rank;
}

/* The batch, and the n axes behind it in another order. */
static Value *
permuted(Build *b, Value *v, const PanelAxes *axes, int n, const int *order)
{
    int perm[MAX_RANK] = {0};
    for (int k = 0; k < axes->nbatch + n; k++) {
        perm[k] = k < axes->nbatch ? k : axes->nbatch + order[k - axes->nbatch];
    }
    return build_permute(b, v, perm);
}

const Type *
panels_type(Cx *cx, const Type *t, const PanelAxes *axes)
{
    Panels p = panels_of(cx, t, axes);
    Dim dims[MAX_RANK];
    int rank = batch_and(t, axes, 3, (Dim[]){p.panels, p.k, p.width}, dims);
    return type_of(cx, t->dtype, rank, dims);
}

/* Has v the two axes of a matrix alone?  These need not be brought in order. */
static bool
is_matrix(const PanelAxes *axes)
{
    return axes->nsums == 1 && axes->nbatch == 0;
}

/* v with the batch axes first, then the axis of columns and one axis for the sum; a matrix is
 * returned as it is. */
static Value *
with_one_sum(Build *b, Value *v, const PanelAxes *axes, const Panels *p)
{
    int perm[MAX_RANK];
    Dim dims[MAX_RANK];
    if (is_matrix(axes)) {
        return v;
    }
    memcpy(perm, axes->batch, (size_t)axes->nbatch * sizeof *perm);
    perm[axes->nbatch] = axes->columns;
    memcpy(perm + axes->nbatch + 1, axes->sums, (size_t)axes->nsums * sizeof *perm);
    int rank = batch_and(v->type, axes, 2, (Dim[]){p->n, p->k}, dims);
    return build_reshape(b, build_permute(b, v, perm), rank, dims);
}

/* And back, to the type. */
static Value *
with_all_sums(Build *b, Value *made, const Type *t, const PanelAxes *axes)
{
    Dim dims[MAX_RANK];
    int back[MAX_RANK] = {0}, n = batch_and(t, axes, 1, &t->dims[axes->columns], dims);
    if (is_matrix(axes)) {
        return made;
    }
    for (int k = 0; k < axes->nbatch; k++) {
        back[axes->batch[k]] = k;
    }
    back[axes->columns] = axes->nbatch;
    for (int k = 0; k < axes->nsums; k++) {
        dims[n] = t->dims[axes->sums[k]];
        back[axes->sums[k]] = n++;
    }
    return build_permute(b, build_reshape(b, made, n, dims), back);
}

Value *
panels_make(Build *b, Value *v, const PanelAxes *axes)
{
    Cx *cx = build_cx(b);
    const Type *t = v->type;
    Panels p = panels_of(cx, t, axes);
    int columns = is_matrix(axes) ? axes->columns : 0, rank;
    Dim zero[MAX_RANK], dims[MAX_RANK], each[] = {p.k, p.k};
    each[columns] = p.padded;
    v = with_one_sum(b, v, axes, &p);
    for (int k = 0; k < axes->nbatch + 2; k++) {
        zero[k] = dim_int(cx, 0);
    }
    rank = batch_and(t, axes, 2, each, dims);
    v = build_pad(b, v, build_int(b, 0), type_of(cx, t->dtype, rank, dims), zero);
    bool across = columns == 0;
    rank = batch_and(t, axes, 3,
                     across ? (Dim[]){p.panels, p.width, p.k} : (Dim[]){p.k, p.panels, p.width},
                     dims);
    v = build_reshape(b, v, rank, dims);
    return permuted(b, v, axes, 3, across ? (int[]){0, 2, 1} : (int[]){1, 0, 2});
}

Value *
panels_read(Build *b, Value *panels, const Type *t, const PanelAxes *axes)
{
    Cx *cx = build_cx(b);
    Panels p = panels_of(cx, t, axes);
    int columns = is_matrix(axes) ? axes->columns : 0;
    Dim dims[MAX_RANK], each[] = {p.k, p.k};
    each[columns] = p.padded;
    int rank = batch_and(t, axes, 2, each, dims);
    Value *w = permuted(b, panels, axes, 3, columns ? (int[]){1, 0, 2} : (int[]){0, 2, 1});
    w = build_reshape(b, w, rank, dims);
    w = build_slice(b, w, axes->nbatch + columns, dim_int(cx, 0), dim_int(cx, 1), p.n);
    return with_all_sums(b, w, t, axes);
}

/* ---- the pass ---- */

/* An operand by its Value.id and the axis of its columns. */
typedef struct {
    int uses;
    bool packed;
    Value *panels;              /* in the new function */
} Operand;

typedef struct {
    const Fn *fn;
    Operand *operands;          /* two for each value */
} Packer;

/* The operand that argument j of the let is, if it may be packed. */
static Operand *
operand_of(const Packer *s, const Let *let, int j)
{
    const Value *v = let->args[j];
    Cx *cx = s->fn->cx;
    if (let->op != OP_contract || value_is_const(v) || (v->def && v->def->parent != s->fn->body)) {
        return NULL;
    }
    PanelAxes axes = panel_axes(cx, let, j);
    bool known = is_matrix(&axes) && dim_is_int(cx, v->type->dims[axes.sums[0]], NULL);
    return known && type_typical_bytes(cx, v->type) <= COST_PACKED_BYTES
               ? &s->operands[2 * v->id + axes.columns]
               : NULL;
}

/* Counts uses; are there enough of one? */
static bool
count_uses(const Packer *s)
{
    bool any = false;
    for (int k = 0; k < s->fn->body->n; k++) {
        const Block *body = s->fn->body->lets[k]->body;
        for (int i = 0; body && i < body->n; i++) {
            for (int j = 0; j < body->lets[i]->nargs; j++) {
                Operand *o = operand_of(s, body->lets[i], j);
                any |= o && ++o->uses >= COST_PACKED;
            }
        }
    }
    return any;
}

/* A kernel that packs what argument j of the let, a contraction, is, which is v here. */
static Value *
packed(Build *b, const Let *let, int j, Value *v)
{
    Block *body = build_open(b);
    build_at(b, let->loc);
    PanelAxes axes = panel_axes(build_cx(b), let, j);
    Value *made = panels_make(b, v, &axes);
    build_close(b, 1, &made);
    return build_let(b, OP_kernel, 0, NULL, NULL, body, 1, &made->type, NULL)->res[0];
}

/* Adds kernels that pack the operands of the kernel, unless they are already packed. */
static void
pack_operands(const Packer *s, Build *b, const Let *kernel, Value **map)
{
    for (int i = 0; kernel->body && i < kernel->body->n; i++) {
        const Let *let = kernel->body->lets[i];
        for (int j = 0; j < let->nargs; j++) {
            Operand *o = operand_of(s, let, j);
            if (!o || o->uses < COST_PACKED || o->packed) {
                continue;
            }
            o->packed = true;
            if (fuel_spend(build_cx(b))) {
                o->panels = packed(b, let, j, map[let->args[j]->id]);
            }
        }
    }
}

static void
read_panels(void *arg, Build *b, const Let *let, Value **map)
{
    const Packer *s = arg;
    Value *kept[2];
    for (int j = 0; let->op == OP_contract && j < 2; j++) {
        const Operand *o = operand_of(s, let, j);
        kept[j] = map[let->args[j]->id];
        if (o && o->panels) {
            build_at(b, let->loc);
            PanelAxes axes = panel_axes(build_cx(b), let, j);
            map[let->args[j]->id] = panels_read(b, o->panels, let->args[j]->type, &axes);
        }
    }
    build_again(b, let, map);
    for (int j = 1; let->op == OP_contract && j >= 0; j--) {
        map[let->args[j]->id] = kept[j];
    }
}

static void read_all(const Packer *s, Build *b, Value **map);
static Packer packer(const Fn *fn);

/* The panels of a loop, and the operands of its body that they are of. */
typedef struct {
    Packer body;
    Loop loop;
    int n;
    Value *made[MAX_PANELS];
    Operand *of[MAX_PANELS];
} Steps;

/* Does the argument, an operand of the body, stay the same in all steps? */
static bool
stays(const Loop *loop, const Operand *o, const Value *v)
{
    return o && !v->def && v->result > loop->carries + loop->rows;
}

/* Has the loop enough steps, and products that read what stays the same? */
static bool
packs_for_steps(Cx *cx, const Let *let)
{
    Loop loop = let->op == OP_loop ? let_loop(let) : (Loop){0};
    bool packs = false;
    if (!loop.stays || (loop.counted && dim_range(cx, loop.steps).hi < COST_PACKED)) {
        return false;
    }
    Packer body = packer(loop.body);
    for (int k = 0; k < loop.body->body->n && !packs; k++) {
        const Block *kernel = loop.body->body->lets[k]->body;
        for (int i = 0; kernel && i < kernel->n; i++) {
            for (int j = 0; j < kernel->lets[i]->nargs; j++) {
                const Value *v = kernel->lets[i]->args[j];
                packs |= stays(&loop, operand_of(&body, kernel->lets[i], j), v);
            }
        }
    }
    return packs;
}

/* Packs what the products of the kernel, which is in the body, read and each step has. */
static void
pack_for_steps(Steps *s, Build *b, const Let *kernel, Value **map)
{
    for (int i = 0; kernel->body && i < kernel->body->n; i++) {
        const Let *let = kernel->body->lets[i];
        for (int j = 0; j < let->nargs; j++) {
            Operand *o = operand_of(&s->body, let, j);
            const Value *v = let->args[j];
            if (stays(&s->loop, o, v) && !o->packed && s->n < MAX_PANELS &&
                fuel_spend(build_cx(b))) {
                o->packed = true;
                s->of[s->n] = o;
                s->made[s->n++] = packed(b, let, j, map[loop_arg(&s->loop, v->result - 1)->id]);
            }
        }
    }
}

/* The loop, whose steps read panels of what stays the same. */
static void
read_in_steps(Build *b, const Let *let, Value **map)
{
    Cx *cx = build_cx(b);
    Loop loop = let_loop(let);
    Steps s = {.body = packer(loop.body), .loop = loop};
    Value **inner;
    for (int k = 0; k < loop.body->body->n; k++) {
        pack_for_steps(&s, b, loop.body->body->lets[k], map);
    }
    if (!s.n) {
        build_again(b, let, map);
        return;
    }
    Fn *made = rebuild_open(loop.body, loop.body->stage, &inner);
    Value **args = cx_alloc(cx, ((size_t)let->nargs + MAX_PANELS) * sizeof *args);
    const Type **types = cx_alloc(cx, ((size_t)let->nres + 1) * sizeof *types);
    for (int k = 0; k < s.n; k++) {
        const char *name = fn_fresh_name(made, "panels");
        s.of[k]->panels = fn_param(made, name, s.made[k]->type, NULL);
    }
    read_all(&s.body, build_new(made), inner);
    made = rebuild_close(loop.body, made, inner);
    fn_free_sizes(made);
    Let more = *let;
    for (int k = 0; k < let->nargs; k++) {
        args[k] = map[let->args[k]->id];
    }
    for (int k = 0; k < s.n; k++) {
        args[more.nargs++] = s.made[k];
    }
    for (int k = 0; k < let->nres; k++) {
        types[k] = let->res[k]->type;
    }
    Let *to = build_flow(b, &more, args, types, &made);
    for (int k = 0; k < let->nres; k++) {
        map[let->res[k]->id] = to->res[k];
    }
}

/* The lets of the function in a new one, where the products read panels. */
static void
read_all(const Packer *s, Build *b, Value **map)
{
    build_bodies(b, read_panels, (void *)s);
    for (int k = 0; k < s->fn->body->n; k++) {
        const Let *let = s->fn->body->lets[k];
        pack_operands(s, b, let, map);
        if (packs_for_steps(build_cx(b), let)) {
            read_in_steps(b, let, map);
        } else {
            build_again(b, let, map);
        }
        rebuild_strides(let, map);
    }
}

static Packer
packer(const Fn *fn)
{
    size_t n = 2 * ((size_t)fn->nvalues + 1);
    return (Packer){.fn = fn, .operands = cx_alloc(fn->cx, n * sizeof(Operand))};
}

Fn *
pass_panels(Fn *fn)
{
    Packer s = packer(fn);
    bool any = count_uses(&s);
    for (int k = 0; k < fn->body->n && !any; k++) {
        any = packs_for_steps(fn->cx, fn->body->lets[k]);
    }
    if (!any) {
        return fn;
    }
    Value **map;
    Fn *out = rebuild_open(fn, fn->stage, &map);
    read_all(&s, build_new(out), map);
    return rebuild_close(fn, out, map);
}
