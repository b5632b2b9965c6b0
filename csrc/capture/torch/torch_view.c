/* Builders of views and rearrangements in their Python form, and of indexing. */
#include "torch.h"

#include <string.h>

/* The elements of argument 0 in the shape of the result: view, flatten, squeeze, ...  A view of
 * another dtype has other elements. */
Value *
torch_reshape(Aten *n)
{
    const Arg *x = &n->args[0];
    if (x->kind != ARG_TENSOR) {
        return NULL;
    }
    if (x->v->type->dtype != n->type->dtype) {
        return as_overload(n, "aten.view.dtype", n->type, 1, n->args);
    }
    return build_reshape(n->b, x->v, n->type->rank, n->type->dims);
}

Value *
torch_expand(Aten *n)
{
    return build_broadcast(n->b, arg_tensor(n, 0), n->type->rank, n->type->dims);
}

/* permute(2, 0, 1) or permute((2, 0, 1)): the remaining arguments come as a list. */
static Arg
listed(const Arg *rest)
{
    bool nested = rest->kind == ARG_LIST && rest->n == 1 && rest->items[0].kind == ARG_LIST;
    return nested ? rest->items[0] : *rest;
}

/* Each of the tensors that a function takes as its arguments, or in one list, made by `make` of it
 * and of the type that the metadata gives the result. */
static Value *
of_each(Aten *n, Value *(*make)(Build *b, Value *x, int rank, const Dim *dims))
{
    const Arg all = listed(arg_at(n, 0));
    if (all.kind != ARG_LIST || all.n != n->nres || !all.n) {
        return NULL;
    }
    for (int k = 0; k < all.n; k++) {
        const Type *t = n->types[k];
        if (all.items[k].kind != ARG_TENSOR || !t) {
            return NULL;
        }
        n->res[k] = make(n->b, all.items[k].v, t->rank, t->dims);
    }
    return n->res[0];
}

/* broadcast_tensors(x, y, ..): each in the shape of all */
Value *
torch_broadcast_tensors(Aten *n)
{
    return of_each(n, build_broadcast);
}

/* atleast_2d(x, y, ..): each with axes of one element more */
Value *
torch_reshape_each(Aten *n)
{
    return of_each(n, build_reshape);
}

static Value *
with_list(Aten *n, const char *overload)
{
    const Arg args[2] = {n->args[0], listed(arg_at(n, 1))};
    return as_overload(n, overload, n->type, 2, args);
}

Value *
torch_permute(Aten *n)
{
    return with_list(n, "aten.permute.default");
}

Value *
torch_flip(Aten *n)
{
    return with_list(n, "aten.flip.default");
}

Value *
torch_repeat(Aten *n)
{
    return with_list(n, "aten.repeat.default");
}

/* tile(x, dims): dims that are missing are 1 */
Value *
torch_tile(Aten *n)
{
    Arg given = listed(arg_at(n, 1)), items[MAX_RANK];
    int rank = n->args[0].kind == ARG_TENSOR ? arg_tensor(n, 0)->type->rank : 0;
    int missing = rank > given.n ? rank - given.n : 0;
    if (given.kind != ARG_LIST || n->args[0].kind != ARG_TENSOR || given.n > MAX_RANK) {
        return NULL;
    }
    for (int k = 0; k < missing + given.n; k++) {
        items[k] = k < missing ? (Arg){.kind = ARG_INT, .i = 1} : given.items[k - missing];
    }
    const Arg args[2] = {n->args[0], {.kind = ARG_LIST, .n = missing + given.n, .items = items}};
    return as_overload(n, "aten.repeat.default", n->type, 2, args);
}

/* outer(x, y): x[:, None] * y */
Value *
torch_outer(Aten *n)
{
    const Arg *x = &n->args[0], *y = arg_at(n, 1);
    if (x->kind != ARG_TENSOR || y->kind != ARG_TENSOR || x->v->type->rank != 1 ||
        y->v->type->rank != 1) {
        return NULL;
    }
    const Dim column[2] = {x->v->type->dims[0], one(n)};
    const Arg args[2] = {{.kind = ARG_TENSOR, .v = build_reshape(n->b, x->v, 2, column)}, *y};
    return as_overload(n, "aten.mul.Tensor", n->type, 2, args);
}

/* Returns the argument as a list: an int counts as a list of one. */
static Arg
as_list(const Arg *a)
{
    return a->kind == ARG_INT ? (Arg){.kind = ARG_LIST, .n = 1, .items = a} : *a;
}

Value *
torch_roll(Aten *n)
{
    const Arg args[3] = {n->args[0], as_list(arg_at(n, 1)), as_list(arg_at(n, 2))};
    return as_overload(n, "aten.roll.default", n->type, 3, args);
}

/* repeat_interleave(x, repeats, dim): each element `repeats` times in a row along the axis */
Value *
torch_repeat_interleave(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis, to[MAX_RANK];
    Dim times, dims[MAX_RANK];
    if (!arg_dim(n, arg_at(n, 1), &times) || !x->type->rank || x->type->rank == MAX_RANK ||
        !arg_axis(arg_at(n, 2), x->type->rank, &axis)) {
        return NULL;
    }
    for (int ax = 0, at = 0; ax < x->type->rank; ax++) {
        to[ax] = at;
        dims[at++] = x->type->dims[ax];
        if (ax == axis) {
            dims[at++] = times;
        }
    }
    x = build_expand(n->b, x, x->type->rank + 1, dims, to);
    return build_reshape(n->b, x, n->type->rank, n->type->dims);
}

/* pad(x, pad, mode, value) */
Value *
torch_pad(Aten *n)
{
    const Arg *mode = arg_at(n, 2);
    if (mode->kind != ARG_TEXT || strcmp(mode->text, "circular") == 0) {
        return NULL;
    }
    if (strcmp(mode->text, "constant")) {
        bool reflect = strcmp(mode->text, "reflect") == 0;
        const char *overload = reflect ? "aten.reflection_pad1d.default"
                                       : "aten.replication_pad1d.default";
        return as_overload(n, overload, n->type, 2, n->args);
    }
    const Arg args[3] = {n->args[0], n->args[1], *arg_at(n, 3)};
    return as_overload(n, "aten.constant_pad_nd.default", n->type, 3, args);
}

/* narrow(x, dim, start, length) */
Value *
torch_narrow(Aten *n)
{
    const Arg args[5] = {
        n->args[0], *arg_at(n, 1), *arg_at(n, 2), {.kind = ARG_NONE}, {.kind = ARG_INT, .i = 1}};
    return as_overload(n, "aten.slice.Tensor", n->type, 5, args);
}

/* x.T and x.mT; of complex numbers x.real and x.imag */
Value *
torch_getattr(Aten *n)
{
    const Arg *name = arg_at(n, 1);
    Value *x = n->args[0].kind == ARG_TENSOR ? arg_tensor(n, 0) : NULL;
    int rank = x ? x->type->rank : 0, perm[MAX_RANK];
    bool all = x && name->kind == ARG_TEXT && strcmp(name->text, "T") == 0;
    bool last = x && name->kind == ARG_TEXT && strcmp(name->text, "mT") == 0;
    bool real = x && name->kind == ARG_TEXT && strcmp(name->text, "real") == 0;
    bool imag = x && name->kind == ARG_TEXT && strcmp(name->text, "imag") == 0;
    if (real && dtype_info[x->type->dtype].class < CLASS_COMPLEX) {
        return x;
    }
    if ((real || imag) && dtype_info[x->type->dtype].class == CLASS_COMPLEX) {
        return map1(n, real ? OP_real : OP_imag, x);
    }
    if (!rank || !(all || (last && rank >= 2))) {
        return all ? x : NULL;
    }
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = all ? rank - 1 - ax : ax < rank - 2 ? ax : 2 * rank - 3 - ax;
    }
    return build_permute(n->b, x, perm);
}
