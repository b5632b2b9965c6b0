/* If a group of channels is a row in memory, the values after its norm are computed in the shape of
 * the groups, so that they can be in the norm's kernel. */
#include "channels.h"

bool
reduces_last(const Let *red, int least)
{
    const Attr *axes = let_attr(red, "axes");
    int rank = red->args[0]->type->rank;
    return axes->n >= least && axes->n < rank && axes->axes[0] == rank - axes->n;
}

static const Type *
rows_of_operands(const Rows *r, const Let *let)
{
    const Type *rows = NULL;
    OpKind kind = op_info[let->op].kind;
    for (int k = 0; k < let->nargs && (kind == KIND_MAP || kind == KIND_VIEW) && !rows; k++) {
        const Value *arg = let->args[k];
        rows = value_is_const(arg) || arg->id >= r->n ? NULL : r->types[arg->id];
    }
    return rows;
}

/* Marks a value that is reduced in rows, and the values of its shape that it is computed from: a
 * norm reads these again, and in a backward it may read the statistics of the forward. */
static void
mark_reduced(Rows *r, const Value *v)
{
    const Type *t = v->type;
    r->types[v->id] = t;
    for (int k = 0; v->def && op_info[v->def->op].kind == KIND_MAP && k < v->def->nargs; k++) {
        const Value *arg = v->def->args[k];
        if (!value_is_const(arg) && type_same_shape(arg->type, t) && arg->id < r->n) {
            r->types[arg->id] = t;
        }
    }
}

/* Notes which of the new values were reduced in rows. */
void
note_rows(Rows *r)
{
    const Fn *fn = build_fn(r->b);
    while (r->seen < fn->body->n) {
        const Let *let = fn->body->lets[r->seen++];
        bool reduces = op_info[let->op].kind == KIND_RED && reduces_last(let, 2);
        for (int k = 0; k < let->nres; k++) {
            while (r->n <= let->res[k]->id) {
                r->types = cx_grow(r->cx, r->types, r->n, sizeof *r->types);
                r->types[r->n++] = NULL;
            }
            r->types[let->res[k]->id] = reduces ? let->args[0]->type : rows_of_operands(r, let);
        }
        if (reduces && let->args[0]->id < r->n) {
            mark_reduced(r, let->args[0]);
        }
    }
}

Value *
before_reshape(const Rows *r, const Value *v)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    Value *from = let && let->op == OP_reshape ? let->args[0] : NULL;
    bool computed = from && from->def && op_info[from->def->op].kind == KIND_MAP;
    const Type *rows = computed && from->id < r->n ? r->types[from->id] : NULL;
    return rows && type_same_shape(rows, from->type) ? from : NULL;
}

/* Is the value available in the shape of rows: a constant, a reshape of such rows, or a value that
 * is in dense memory anyway? */
static bool
has_rows(const Rows *r, const Value *v, const Type *rows)
{
    const Value *from = before_reshape(r, v);
    if (value_is_const(v) || from) {
        return value_is_const(v) || type_same_shape(from->type, rows);
    }
    return (!v->def || let_is_opaque(v->def)) && !v->strides;
}

static Value *
operand_in_rows(Rows *r, Value *v, const Type *rows)
{
    Value *from = before_reshape(r, v);
    return value_is_const(v) ? v : from ? from : build_reshape(r->b, v, rows->rank, rows->dims);
}

/* Computes an activation of a value normalised in rows, and its gradient, in these rows: while they
 * are in the cache, and in one kernel with the norm. */
Value *
map_in_rows(Rows *r, const Let *let, Value *const *args)
{
    Value *moved[3] = {NULL, NULL, NULL}, *from = NULL;
    const Type *t = let->res[0]->type;
    for (int k = 0; k < let->nargs && !from; k++) {
        from = before_reshape(r, args[k]);
    }
    for (int k = 0; k < let->nargs && from; k++) {
        from = has_rows(r, args[k], from->type) ? from : NULL;
    }
    if (!from || !fuel_spend(r->cx)) {
        return NULL;
    }
    for (int k = 0; k < let->nargs; k++) {
        moved[k] = operand_in_rows(r, args[k], from->type);
    }
    return build_reshape(r->b, build_map_like(r->b, let, moved), t->rank, t->dims);
}
