/* The rules of a product's loops, V22 to V24; verify.c has the list. */
#include "verify.h"

/* With these marks and no others? */
static bool
is_marked(const Let *let, unsigned marks)
{
    return let->op == OP_for && let_int(let, "marks") == marks;
}

/* The loop in the body where nothing else is: a `for` without marks; or NULL. */
static const Let *
inner_loop(const Let *let)
{
    const Let *inner = let->body->n == 1 ? let->body->lets[0] : NULL;
    return inner && is_marked(inner, 0) ? inner : NULL;
}

/* An element of a buffer whose rows are those of a panel, at [row, column]. */
static bool
is_at(Cx *cx, const Let *access, Dim row, Dim column)
{
    const Value *v = access->args[0];
    const Attr *at = let_attr(access, "at");
    return v->def && v->def->op == OP_buffer && v->type->rank == 2 && at->n == 2 && at->dims[0] == row &&
           at->dims[1] == column && dim_is(cx, v->type->dims[1], MICRO_ROW_BYTES / dtype_info[v->type->dtype].bytes);
}

/* The load that the value is, or is the cast of to the dtype that its elements are computed in; NULL. */
static const Let *
load_of(const Value *v)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    let = let && let->op == OP_cast && !value_is_const(let->args[0]) ? let->args[0]->def : let;
    bool wide = let && let->op == OP_load && dtype_info[let->res[0]->type->dtype].compute == v->type->dtype;
    return wide ? let : NULL;
}

static bool
uses(Cx *cx, const Let *access, Dim index)
{
    const Attr *at = let_attr(access, "at");
    bool found = false;
    for (int k = 0; k < at->n; k++) {
        found |= dim_uses(cx, at->dims[k], index);
    }
    return found;
}

static const Let *
product_of(const Let *reduce)
{
    const Value *ret = reduce->body->nrets == 1 ? reduce->body->rets[0] : NULL;
    return ret && ret->def && ret->def->op == OP_mul && ret->def->parent == reduce->body ? ret->def : NULL;
}

void
verify_fused(Verifier *v, const Let *let)
{
    const Let *product = product_of(let), *around = let->parent->owner;
    const Let *rows = around->op == OP_for ? around->parent->owner : NULL;
    bool good = let->op == OP_reduce && let_int(let, "marks") == MARK_fused &&
                let_op(let) == OP_sum && rows && is_marked(rows, MARK_micro) && product;
    Dtype dtype = good ? product->res[0]->type->dtype : DT_bool;
    DtypeClass class = dtype_info[dtype].class;
    if (!good || dtype_info[dtype].compute != dtype || (class != CLASS_FLOAT && class != CLASS_INT)) {
        verify_broken(v, 22, "fused marks a reduce that is not the sum of products of a loop marked micro");
    }
}

void
verify_pack(Verifier *v, const Let *let)
{
    const Let *inner = is_marked(let, MARK_pack) ? inner_loop(let) : NULL;
    const Let *store = inner && inner->body->n ? inner->body->lets[inner->body->n - 1] : NULL;
    const Let *load = store && store->op == OP_store ? load_of(store->args[1]) : NULL;
    bool cast = load && load->res[0] != store->args[1];
    if (!load || load->parent != inner->body || inner->body->n != 2 + cast ||
        !is_at(v->cx, store, let_dim(let, "index"), let_dim(inner, "index"))) {
        verify_broken(v, 23, "pack marks a loop that is not around one that copies to a row of a panel alone");
    }
}

/* The factors are a load that has nothing to do with the columns, and one of a panel. */
static bool
is_product(Cx *cx, const Let *sum, const Let *columns)
{
    const Let *product = sum->op == OP_reduce && let_int(sum, "marks") == MARK_fused ? product_of(sum) : NULL;
    const Let *a = product ? load_of(product->args[0]) : NULL, *b = product ? load_of(product->args[1]) : NULL;
    Dim p = let_dim(sum, "index"), column = let_dim(columns, "index");
    bool cast = a && product->args[0] != a->res[0];
    return a && b && product->args[1] == b->res[0] && a->parent == sum->body && sum->body->n == 3 + cast &&
           !uses(cx, a, column) && is_at(cx, b, p, column);
}

void
verify_micro(Verifier *v, const Let *let)
{
    const Let *columns = is_marked(let, MARK_micro) ? inner_loop(let) : NULL;
    const Block *body = columns && columns->body->n == 2 ? columns->body : NULL;
    const Let *sum = body ? body->lets[0] : NULL, *store = body ? body->lets[1] : NULL;
    bool good = sum && store->op == OP_store && is_product(v->cx, sum, columns) && store->args[1] == sum->res[0] &&
                is_at(v->cx, store, let_dim(let, "index"), let_dim(columns, "index"));
    int64_t rows;
    if (!good || !dim_is_int(v->cx, store->args[0]->type->dims[0], &rows) || rows > MICRO_MOST_ROWS) {
        verify_broken(v, 24, "micro marks a loop that is not around one that stores a row of a tile of sums alone");
    }
}
