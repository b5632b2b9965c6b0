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
 *           them, the kernel that packs stands before the first.  O(lets).
 * Why not   for fewer: a product of few rows reads its columns in place, and one of many rows packs
 *           them where its caches are.  Steps of a recurrence do so at every step.
 * Why not   before the fuse pass: views and what they undo would cancel.
 * Example:  contract h, w over="bk,nk->bn" with w: f32[1024, 256], in 64 kernels for the steps of
 *           an LSTM, reads p: f32[32, 256, 32].
 */
#include "group.h"

#include <string.h>

/* ---- panels of a value ---- */

typedef struct {
    Dim n, k, panels, width, padded;
} Panels;

static Panels
panels_of(Cx *cx, const Value *v, const PanelAxes *axes)
{
    Panels p = {.n = v->type->dims[axes->columns], .k = dim_int(cx, 1)};
    int64_t n = 0, width = panel_width(v->type->dtype);
    for (int k = 0; k < axes->nsums; k++) {
        p.k = dim_mul(cx, p.k, v->type->dims[axes->sums[k]]);
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
    if (let->op != OP_contract || (v->type->dtype != DT_f32 && v->type->dtype != DT_f64)) {
        return none;
    }
    Contraction over = let_contraction(let);
    const char *mine = j ? over.b : over.a;
    int rank = v->type->rank;
    PanelAxes axes = {.columns = over.nout ? letter_axis(mine, rank, over.out[over.nout - 1]) : -1};
    for (int k = 0; k < over.nsum; k++) {
        axes.sums[k] = letter_axis(mine, rank, over.sum[k]);
        axes.nsums += axes.sums[k] >= 0;
    }
    bool all = axes.columns >= 0 && axes.nsums == over.nsum && axes.nsums == rank - 1 &&
               letter_class(&over, mine[axes.columns]) != LETTER_OF_BOTH;
    return all && axes.nsums > 0 && dim_is_int(cx, v->type->dims[axes.columns], &n) &&
                   n >= COST_COLUMNS
               ? axes
               : none;
}

const Type *
panels_type(Cx *cx, const Value *v, const PanelAxes *axes)
{
    Panels p = panels_of(cx, v, axes);
    return type_of(cx, v->type->dtype, 3, (Dim[]){p.panels, p.k, p.width});
}

/* v with one axis for the sum, behind that of the columns; as it is where it has two axes. */
static Value *
with_one_sum(Build *b, Value *v, const PanelAxes *axes, const Panels *p)
{
    int perm[MAX_RANK] = {axes->columns};
    if (axes->nsums == 1) {
        return v;
    }
    memcpy(perm + 1, axes->sums, (size_t)axes->nsums * sizeof *perm);
    return build_reshape(b, build_permute(b, v, perm), 2, (Dim[]){p->n, p->k});
}

/* And back, to the type of v. */
static Value *
with_all_sums(Build *b, Value *made, const Value *v, const PanelAxes *axes)
{
    Dim dims[MAX_RANK] = {v->type->dims[axes->columns]};
    int back[MAX_RANK] = {0};
    if (axes->nsums == 1) {
        return made;
    }
    for (int k = 0; k < axes->nsums; k++) {
        dims[k + 1] = v->type->dims[axes->sums[k]];
        back[axes->sums[k]] = k + 1;
    }
    back[axes->columns] = 0;
    return build_permute(b, build_reshape(b, made, axes->nsums + 1, dims), back);
}

Value *
panels_make(Build *b, Value *v, const PanelAxes *axes)
{
    Cx *cx = build_cx(b);
    Panels p = panels_of(cx, v, axes);
    int columns = axes->nsums == 1 ? axes->columns : 0;
    Dim zero[] = {dim_int(cx, 0), dim_int(cx, 0)}, dims[] = {p.k, p.k};
    dims[columns] = p.padded;
    v = with_one_sum(b, v, axes, &p);
    v = build_pad(b, v, build_float(b, 0), type_of(cx, v->type->dtype, 2, dims), zero);
    if (columns == 0) {
        v = build_reshape(b, v, 3, (Dim[]){p.panels, p.width, p.k});
        return build_permute(b, v, (int[]){0, 2, 1});
    }
    v = build_reshape(b, v, 3, (Dim[]){p.k, p.panels, p.width});
    return build_permute(b, v, (int[]){1, 0, 2});
}

Value *
panels_read(Build *b, Value *panels, const Value *v, const PanelAxes *axes)
{
    Cx *cx = build_cx(b);
    Panels p = panels_of(cx, v, axes);
    int columns = axes->nsums == 1 ? axes->columns : 0;
    Value *w;
    if (columns == 0) {
        w = build_permute(b, panels, (int[]){0, 2, 1});
        w = build_reshape(b, w, 2, (Dim[]){p.padded, p.k});
    } else {
        w = build_permute(b, panels, (int[]){1, 0, 2});
        w = build_reshape(b, w, 2, (Dim[]){p.k, p.padded});
    }
    w = build_slice(b, w, columns, dim_int(cx, 0), dim_int(cx, 1), p.n);
    return with_all_sums(b, w, v, axes);
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
    bool known = axes.nsums == 1 && dim_is_int(cx, v->type->dims[axes.sums[0]], NULL);
    return known && cost_bytes(cx, v->type) <= COST_PACKED_BYTES
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

/* The kernels that pack what the kernel reads, where none does so yet. */
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
                Block *body = build_open(b);
                build_at(b, let->loc);
                PanelAxes axes = panel_axes(build_cx(b), let, j);
                Value *v = panels_make(b, map[let->args[j]->id], &axes);
                build_close(b, 1, &v);
                o->panels = build_let(b, OP_kernel, 0, NULL, NULL, body, 1, &v->type, NULL)->res[0];
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
            map[let->args[j]->id] = panels_read(b, o->panels, let->args[j], &axes);
        }
    }
    build_again(b, let, map);
    for (int j = 1; let->op == OP_contract && j >= 0; j--) {
        map[let->args[j]->id] = kept[j];
    }
}

Fn *
pass_panels(Fn *fn)
{
    Packer s = {
        .fn = fn,
        .operands = cx_alloc(fn->cx, 2 * ((size_t)fn->nvalues + 1) * sizeof *s.operands),
    };
    if (!count_uses(&s)) {
        return fn;
    }
    Value **map;
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    build_bodies(b, read_panels, &s);
    for (int k = 0; k < fn->body->n; k++) {
        pack_operands(&s, b, fn->body->lets[k], map);
        build_again(b, fn->body->lets[k], map);
        rebuild_strides(fn->body->lets[k], map);
    }
    return rebuild_close(fn, out, map);
}
