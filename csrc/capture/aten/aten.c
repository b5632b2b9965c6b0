/* The table of overloads, and queries of builders about their arguments. */
#include "aten.h"

#include <string.h>

const AtenRow aten_rows[] = {
#define ATEN(overload, builder) {overload, aten_##builder, OP_COUNT, 0, false},
#define OVER(overload, builder, axes) {overload, aten_##builder, OP_COUNT, axes, false},
#define WITH(overload, builder, op) {overload, aten_##builder, OP_##op, 0, false},
#define EACH(overload, op) {overload, aten_each, OP_##op, 0, false},
#define PRODUCT(overload, builder) {overload, aten_##builder, OP_COUNT, 0, true},
#include "aten.def"
};
const int aten_nrows = sizeof aten_rows / sizeof *aten_rows;

/* Prefetched once for each overload of a process: a scan will do. */
const AtenRow *
aten_find(const char *overload)
{
    for (int k = 0; k < aten_nrows; k++) {
        if (strcmp(aten_rows[k].overload, overload) == 0) {
            return &aten_rows[k];
        }
    }
    return NULL;
}

/* 8-bit floats are moved and converted as other floats are. */
static DtypeClass
class_of(Dtype dtype)
{
    return dtype_is_float8(dtype) ? CLASS_FLOAT : dtype_info[dtype].class;
}

/* The highest class of dtype among an argument's tensors and numbers. */
static DtypeClass
class_of_arg(const Arg *a)
{
    DtypeClass most = CLASS_BOOL;
    for (int k = 0; a->kind == ARG_LIST && k < a->n; k++) {
        DtypeClass class = class_of_arg(&a->items[k]);
        most = class > most ? class : most;
    }
    bool typed = a->kind == ARG_TENSOR && a->v && a->v->type;   /* a constant has no type */
    return typed                    ? class_of(a->v->type->dtype)
           : a->kind == ARG_DTYPE   ? class_of(a->dtype)
           : a->kind == ARG_COMPLEX ? CLASS_COMPLEX
                                    : most;
}

static DtypeClass
class_of_node(const Aten *n)
{
    DtypeClass most = CLASS_BOOL;
    for (int k = 0; k < n->nargs + n->nres; k++) {
        const Type *t = k < n->nargs ? NULL : n->types[k - n->nargs];
        DtypeClass class = k < n->nargs ? class_of_arg(&n->args[k])
                           : t          ? class_of(t->dtype)
                                        : CLASS_BOOL;
        most = class > most ? class : most;
    }
    return most;
}

Value *
aten_run(Aten *n, const AtenRow *row)
{
    n->op = row->op;
    n->axes = row->axes;
    return class_of_node(n) == CLASS_COMPLEX ? complex_build(n, row) : row->build(n);
}

bool
aten_build(Aten *n, const AtenRow *row)
{
    if (n->nres == 0 || class_of_node(n) > CLASS_COMPLEX) {
        return false;
    }
    n->res[0] = aten_run(n, row);
    return aten_hold(n);
}

bool
aten_hold(Aten *n)
{
    if (n->types[0] && !n->res[0]) {
        return false;
    }
    for (int k = 0; k < n->nres; k++) {
        const Type *t = n->types[k];
        if (!t) {
            continue;
        }
        if (!n->res[k]) {
            return false;
        }
        if (dtype_info[t->dtype].class > CLASS_FLOAT) {
            if (n->res[k]->type != t) {
                return false;
            }
            continue;
        }
        if (value_is_const(n->res[k])) {
            n->res[k] = build_const(n->b, t, n->res[k]->literal);
        }
        n->res[k] = build_cast(n->b, n->res[k], t->dtype);
        if (n->res[k]->type != t) {
            return false;
        }
    }
    return true;
}

const Arg *
arg_at(const Aten *n, int k)
{
    static const Arg none = {.kind = ARG_NONE};
    return k < n->nargs ? &n->args[k] : &none;
}

Value *
arg_tensor(const Aten *n, int k)
{
    const Arg *a = arg_at(n, k);
    if (a->kind != ARG_TENSOR || !a->v || !a->v->type) {
        fail(n->cx, DIAG_NO_TENSOR, k + 1);
    }
    return a->v;
}

bool
arg_true(const Arg *a)
{
    return a->kind == ARG_FLOAT ? a->f != 0 : arg_is_number(a) && a->i;
}

bool
arg_is_number(const Arg *a)
{
    return a->kind == ARG_BOOL || a->kind == ARG_INT || a->kind == ARG_FLOAT;
}

bool
arg_dim(const Aten *n, const Arg *a, Dim *out)
{
    if (a->kind == ARG_INT) {
        *out = dim_int(n->cx, a->i);
    } else if (a->kind == ARG_DIM) {
        *out = a->d;
    }
    return a->kind == ARG_INT || a->kind == ARG_DIM;
}

double
arg_float(const Arg *a, double otherwise)
{
    return a->kind == ARG_FLOAT ? a->f : arg_is_number(a) ? (double)a->i : otherwise;
}

bool
arg_is_float(const Arg *a)
{
    return a->kind == ARG_TENSOR && dtype_info[a->v->type->dtype].class == CLASS_FLOAT;
}

bool
has_sizes(const Aten *n, const Value *v, const Dim *dims)
{
    for (int ax = 0; ax < v->type->rank; ax++) {
        Dim size = v->type->dims[ax];
        if (size != dims[ax] && !(dim_le(n->cx, size, dims[ax]) && dim_le(n->cx, dims[ax], size))) {
            return false;
        }
    }
    return true;
}

bool
may_have_sizes(const Aten *n, const Value *v, const Dim *dims)
{
    for (int ax = 0; ax < v->type->rank; ax++) {
        Dim size = v->type->dims[ax];
        if (dim_lt(n->cx, size, dims[ax]) || dim_lt(n->cx, dims[ax], size)) {
            return false;
        }
    }
    return true;
}

bool
arg_axis(const Arg *a, int rank, int *axis)
{
    int64_t count = rank ? rank : 1;            /* a scalar passes for one axis */
    if (a->kind != ARG_INT || a->i < -count || a->i >= count) {
        return false;
    }
    *axis = (int)(a->i < 0 ? a->i + count : a->i);
    return true;
}

bool
arg_axes(const Arg *a, int rank, int *n, int *axes)
{
    *n = 0;
    if (a->kind == ARG_NONE || (a->kind == ARG_LIST && a->n == 0)) {
        while (*n < rank) {
            axes[*n] = *n;
            ++*n;
        }
        return true;
    }
    const Arg *items = a->kind == ARG_LIST ? a->items : a;
    int count = a->kind == ARG_LIST ? a->n : 1;
    for (int k = 0; k < count; k++) {
        int axis;
        if (!arg_axis(&items[k], rank, &axis)) {
            return false;
        }
        if (rank) {
            axes[(*n)++] = axis;
        }
    }
    return true;
}
