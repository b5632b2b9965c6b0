/* Copies: of a function, of a let, of a block.
 *
 * What:     fn_clone copies a function with its names; let_copy and block_copy make a second copy
 *           of lets in the function that has them.
 * Requires: values that are made outside of what is copied stay.
 * Ensures:  a second copy has fresh names for all that it makes, the indices of loops too.
 * Example:  version.c, which runs one of two copies of a loop. */
#include "ir/ir.h"

/* into: the function that gets a second copy beside the first, under fresh names; NULL: all of a
 * function is copied, with its names.  Of a second copy, indices[k] becomes others[k]. */
typedef struct {
    Cx *cx;
    Value **values;             /* by Value.id: the copy */
    Fn *into;
    Dim *indices, *others;
    int nindices;
} Cloning;

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

static Dim
clone_dim(const Cloning *c, Dim d)
{
    for (int k = 0; k < c->nindices; k++) {
        d = dim_uses(c->cx, d, c->indices[k]) ? dim_replace(c->cx, d, c->indices[k], c->others[k])
                                              : d;
    }
    return d;
}

static void
add_index(Cloning *c, Dim index, Dim other)
{
    c->indices = cx_grow(c->cx, c->indices, c->nindices, sizeof *c->indices);
    c->others = cx_grow(c->cx, c->others, c->nindices, sizeof *c->others);
    c->indices[c->nindices] = index;
    c->others[c->nindices++] = other;
}

/* The index of the same loop or bind in the copy, which what is copied after it has. */
static Dim
clone_index(Cloning *c, Dim index, Dim extent)
{
    Dim other = dim_index(c->cx, fn_fresh_name(c->into, dim_name(c->cx, index)), extent);
    add_index(c, index, other);
    return other;
}

/* The attributes and the index of a let that is a second copy. */
static void
clone_indices(Cloning *c, Let *copy)
{
    for (int k = 0; k < copy->nattrs; k++) {
        Attr *a = &copy->attrs[k];
        if (a->kind == ATTR_DIM) {
            a->d = clone_dim(c, a->d);
        } else if (a->kind == ATTR_DIMS) {
            Dim *dims = cx_copy(c->cx, a->dims, (size_t)a->n * sizeof *dims);
            for (int j = 0; j < a->n; j++) {
                dims[j] = clone_dim(c, dims[j]);
            }
            a->dims = dims;
        }
    }
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
    copy->attrs = cx_copy(c->cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
    copy->res = cx_copy(c->cx, let->res, (size_t)let->nres * sizeof *let->res);
    for (int k = 0; k < let->nres; k++) {
        copy->res[k] = clone_value(c, let->res[k]);
        copy->res[k]->def = copy;
    }
    if (c->into) {
        clone_indices(c, copy);
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
        add_index(&c, names[k], by[k]);
    }
    return clone_block(&c, blk, NULL);
}
