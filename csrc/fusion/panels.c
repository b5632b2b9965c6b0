/* Panels: an operand that many products read as their columns is packed into panels once.
 *
 * What:     a kernel packs the operand, as the microkernels read it (MICRO_ROW_BYTES of a row
 *           beside one another, the rows of a panel one after the other), and the products read it
 *           through the views that undo this.  prepare.c does the same before calls, for frozen
 *           parameters.
 * Requires  verified kernels;
 * and ensures: the same values, bit for bit.  An operand has constant sizes and stands outside of
 *           the kernels that read it.
 * How:      one walk counts the products that read each operand; where there are COST_PACKED of
 *           them, the kernel that packs stands before the first.  O(lets).
 * Why not   for fewer: a product of few rows reads its columns in place, and one of many rows packs
 *           them where its caches are.  Steps of a recurrence do so at every step.
 * Why not   before the fuse pass: views and what they undo would cancel.
 * Example:  contract h, w over="bk,nk->bn" with w: f32[1024, 256], in 64 kernels for the steps of
 *           an LSTM, reads p: f32[32, 256, 32].
 */
#include "group.h"

/* ---- panels of a value ---- */

typedef struct {
    Dim n, k, panels, width, padded;
} Panels;

static Panels
panels_of(Cx *cx, const Value *v, int columns)
{
    Panels p = {.n = v->type->dims[columns], .k = v->type->dims[1 - columns]};
    int64_t n = 0, width = panel_width(v->type->dtype);
    dim_is_int(cx, p.n, &n);
    p.width = dim_int(cx, width);
    p.panels = dim_int(cx, (n + width - 1) / width);
    p.padded = dim_mul(cx, p.panels, p.width);
    return p;
}

int
panel_columns(Cx *cx, const Let *let, int j)
{
    const Value *v = let->args[j];
    int64_t n;
    if (let->op != OP_contract || (v->type->dtype != DT_f32 && v->type->dtype != DT_f64) ||
        v->type->rank != 2) {
        return -1;
    }
    Contraction over = let_contraction(let);
    const char *mine = j ? over.b : over.a;
    int axis = over.nout ? letter_axis(mine, 2, over.out[over.nout - 1]) : -1;
    bool batch = axis >= 0 && letter_class(&over, mine[axis]) == LETTER_OF_BOTH;
    bool summed = axis >= 0 && letter_axis(over.out, over.nout, mine[1 - axis]) < 0;
    return !batch && summed && dim_is_int(cx, v->type->dims[axis], &n) && n >= COST_COLUMNS ? axis
                                                                                            : -1;
}

const Type *
panels_type(Cx *cx, const Value *v, int columns)
{
    Panels p = panels_of(cx, v, columns);
    return type_of(cx, v->type->dtype, 3, (Dim[]){p.panels, p.k, p.width});
}

Value *
panels_make(Build *b, Value *v, int columns)
{
    Cx *cx = build_cx(b);
    Panels p = panels_of(cx, v, columns);
    Dim zero[] = {dim_int(cx, 0), dim_int(cx, 0)}, dims[] = {p.k, p.k};
    dims[columns] = p.padded;
    v = build_pad(b, v, build_float(b, 0), type_of(cx, v->type->dtype, 2, dims), zero);
    if (columns == 0) {
        v = build_reshape(b, v, 3, (Dim[]){p.panels, p.width, p.k});
        return build_permute(b, v, (int[]){0, 2, 1});
    }
    v = build_reshape(b, v, 3, (Dim[]){p.k, p.panels, p.width});
    return build_permute(b, v, (int[]){1, 0, 2});
}

Value *
panels_read(Build *b, Value *panels, const Value *v, int columns)
{
    Cx *cx = build_cx(b);
    Panels p = panels_of(cx, v, columns);
    Value *w;
    if (columns == 0) {
        w = build_permute(b, panels, (int[]){0, 2, 1});
        w = build_reshape(b, w, 2, (Dim[]){p.padded, p.k});
    } else {
        w = build_permute(b, panels, (int[]){1, 0, 2});
        w = build_reshape(b, w, 2, (Dim[]){p.k, p.padded});
    }
    return build_slice(b, w, columns, dim_int(cx, 0), dim_int(cx, 1), p.n);
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
    int columns = panel_columns(cx, let, j);
    bool known = columns >= 0 && dim_is_int(cx, v->type->dims[1 - columns], NULL);
    return known && cost_bytes(cx, v->type) <= COST_PACKED_BYTES ? &s->operands[2 * v->id + columns]
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
                Value *v = panels_make(b, map[let->args[j]->id],
                                       panel_columns(build_cx(b), let, j));
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
            map[let->args[j]->id] = panels_read(b, o->panels, let->args[j],
                                                panel_columns(build_cx(b), let, j));
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
