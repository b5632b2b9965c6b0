/* Copies: of a function, of a let, of a block.
 *
 * What:     fn_clone copies a function with its names; let_copy and block_copy make a second copy
 *           of lets in the function that has them.  let_rename replaces indices in a let.
 * Requires: values that are made outside of what is copied stay.
 * Ensures:  a second copy has fresh names for all that it makes, the indices of loops too.
 * Example:  version.c, which runs one of two copies of a loop. */
#include "ir/ir.h"

/* into: the function that gets a second copy beside the first, under fresh names; NULL: all of a
 * function is copied, with its names. */
typedef struct {
    Cx *cx;
    Value **values;             /* by Value.id: the copy */
    Fn *into;
    Renamed indices;            /* of a second copy */
} Cloning;

/* ---- indices that others stand for ---- */

void
renamed_add(Cx *cx, Renamed *r, Dim name, Dim by)
{
    r->name = cx_grow(cx, r->name, r->n, sizeof *r->name);
    r->by = cx_grow(cx, r->by, r->n, sizeof *r->by);
    r->name[r->n] = name;
    r->by[r->n++] = by;
}

Renamed
renamed_copy(Cx *cx, const Renamed *r)
{
    Renamed copy = {0};
    for (int k = 0; k < r->n; k++) {
        renamed_add(cx, &copy, r->name[k], r->by[k]);
    }
    return copy;
}

void
dims_rename(Cx *cx, const Renamed *r, int n, Dim *dims)
{
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < r->n; j++) {
            dims[k] = dim_uses(cx, dims[k], r->name[j])
                          ? dim_replace(cx, dims[k], r->name[j], r->by[j])
                          : dims[k];
        }
    }
}

void
let_rename(Cx *cx, const Renamed *r, Let *let)
{
    let->attrs = cx_copy(cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
    for (int k = 0; k < let->nattrs; k++) {
        Attr *a = &let->attrs[k];
        if (a->kind == ATTR_DIM) {
            dims_rename(cx, r, 1, &a->d);
        } else if (a->kind == ATTR_DIMS) {
            Dim *dims = cx_copy(cx, a->dims, (size_t)a->n * sizeof *dims);
            dims_rename(cx, r, a->n, dims);
            a->dims = dims;
        }
    }
}

/* ---- values and lets ---- */

static Value *
clone_of(const Cloning *c, Value *v)
{
    Value *copy = value_is_const(v) ? NULL : c->values[v->id];
    return copy ? copy : v;
}

static Value *
clone_value(Cloning *c, const Value *v)
{
    Value *copy = cx_copy(c->cx, v, sizeof *v);
    copy->over = v->over ? clone_of(c, (Value *)v->over) : NULL;
    c->values[v->id] = copy;
    if (c->into && !value_is_const(v)) {
        copy->name = fn_fresh_name(c->into, v->name);
        copy->id = c->into->nvalues++;
    }
    return copy;
}

/* The index of the same loop or bind in the copy, which what is copied after it has. */
static Dim
clone_index(Cloning *c, Dim index, Dim extent)
{
    Dim other = dim_index(c->cx, fn_fresh_name(c->into, dim_name(c->cx, index)), extent);
    renamed_add(c->cx, &c->indices, index, other);
    return other;
}

/* The attributes and the index of a let that is a second copy. */
static void
clone_indices(Cloning *c, Let *copy)
{
    let_rename(c->cx, &c->indices, copy);
    if (loop_is(copy)) {
        for (int k = 0; k < copy->nattrs; k++) {
            Attr *a = &copy->attrs[k];
            if (a->kind == ATTR_NAME && a->d != DIM_NONE) {
                a->d = clone_index(c, a->d, let_dim(copy, "extent"));
                a->s = dim_name(c->cx, a->d);
            }
        }
    } else if (copy->op == OP_bind) {
        copy->sizes = cx_copy(c->cx, copy->sizes, sizeof *copy->sizes);
        copy->sizes[0] = clone_index(c, copy->sizes[0], let_dim(copy, "extent"));
    }
}

static Value **
clone_values(const Cloning *c, Value *const *values, int n)
{
    Value **copies = cx_copy(c->cx, values, (size_t)n * sizeof *values);
    for (int k = 0; k < n; k++) {
        copies[k] = clone_of(c, copies[k]);
    }
    return copies;
}

static Block *clone_block(Cloning *c, const Block *blk, Let *owner);

static Let *
clone_let(Cloning *c, const Let *let, Block *parent)
{
    Let *copy = cx_copy(c->cx, let, sizeof *let);
    copy->parent = parent;
    copy->args = clone_values(c, let->args, let->nargs);
    copy->res = cx_copy(c->cx, let->res, (size_t)let->nres * sizeof *let->res);
    for (int k = 0; k < let->nres; k++) {
        copy->res[k] = clone_value(c, let->res[k]);
        copy->res[k]->def = copy;
    }
    if (c->into) {
        clone_indices(c, copy);
    } else {
        copy->attrs = cx_copy(c->cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
    }
    copy->body = let->body ? clone_block(c, let->body, copy) : NULL;
    copy->bodies = cx_copy(c->cx, let->bodies, (size_t)let->nbodies * sizeof *let->bodies);
    for (int k = 0; k < let->nbodies; k++) {
        copy->bodies[k] = fn_clone(let->bodies[k]);
    }
    return copy;
}

static Block *
clone_block(Cloning *c, const Block *blk, Let *owner)
{
    Block *copy = cx_copy(c->cx, blk, sizeof *blk);
    copy->owner = owner;
    copy->lets = NULL;
    copy->n = 0;
    for (int k = 0; k < blk->n; k++) { /* one by one: block_append grows the copy later */
        block_append(c->cx, copy, clone_let(c, blk->lets[k], copy));
    }
    copy->rets = clone_values(c, blk->rets, blk->nrets);
    return copy;
}

Fn *
fn_clone(const Fn *fn)
{
    Cloning c = {.cx = fn->cx, .values = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *c.values)};
    Fn *copy = cx_copy(fn->cx, fn, sizeof *fn);
    copy->facts = NULL;
    copy->params = cx_copy(fn->cx, fn->params, (size_t)fn->nparams * sizeof *fn->params);
    for (int k = 0; k < fn->nparams; k++) {
        copy->params[k] = clone_value(&c, fn->params[k]);
    }
    copy->body = clone_block(&c, fn->body, NULL);
    return copy;
}

static Cloning
second_copy(Fn *fn)
{
    Value **values = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *values);
    return (Cloning){.cx = fn->cx, .values = values, .into = fn};
}

Let *
let_copy(Fn *fn, const Let *let, Block *parent)
{
    Cloning c = second_copy(fn);
    return clone_let(&c, let, parent);
}

Block *
block_copy(Fn *fn, const Block *blk, int n, const Dim *names, const Dim *by)
{
    Cloning c = second_copy(fn);
    for (int k = 0; k < n; k++) {
        renamed_add(c.cx, &c.indices, names[k], by[k]);
    }
    return clone_block(&c, blk, NULL);
}
