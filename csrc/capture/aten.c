/* The table of overloads, and what builders ask of their arguments. */
#include "aten.h"

#include <string.h>

const AtenRow aten_rows[] = {
#define ATEN(overload, builder) {overload, aten_##builder, OP_COUNT},
#define WITH(overload, builder, op) {overload, aten_##builder, OP_##op},
#define EACH(overload, op) {overload, aten_each, OP_##op},
#include "aten.def"
};
const int aten_nrows = sizeof aten_rows / sizeof *aten_rows;

/* Asked once for each overload of a process: a scan will do. */
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

static bool
is_complex(const Type *t)
{
    return t && dtype_info[t->dtype].class == CLASS_OTHER;
}

static bool
takes_complex(const Arg *a)
{
    if (a->kind == ARG_TENSOR) {
        return is_complex(a->v->type);
    }
    for (int k = 0; a->kind == ARG_LIST && k < a->n; k++) {
        if (takes_complex(&a->items[k])) {
            return true;
        }
    }
    return a->kind == ARG_DTYPE && dtype_info[a->dtype].class == CLASS_OTHER;
}

bool
aten_build(Aten *n, const AtenRow *row)
{
    for (int k = 0; k < n->nargs; k++) {
        if (takes_complex(&n->args[k])) {
            return false;
        }
    }
    if (n->nres == 0) {
        return false;
    }
    n->op = row->op;
    n->res[0] = row->build(n);
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
        if (!n->res[k] || is_complex(t)) {
            return false;
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

bool
arg_true(const Arg *a)
{
    return a->kind == ARG_BOOL && a->i;
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
    }
    else if (a->kind == ARG_DIM) {
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
