/* Views as offset and strides: the memory of a view let, and whether strides give each element its
 * own address. */

#include <string.h>

#include "cx.h"

/* Is the dim positive wherever a tensor of the type has elements? */
static bool
is_positive_with_elements(Cx *cx, const Type *t, Dim d)
{
    Dim indices = dim_int(cx, 0);
    for (int ax = 0; ax < t->rank; ax++) {
        indices = dim_add(cx, indices, dim_index(cx, "i", t->dims[ax]));
    }
    return dim_positive(cx, d, indices);
}

bool
stride_same(Cx *cx, const Type *t, Dim a, Dim b)
{
    if (a == b) {
        return true;
    }
    Dim plain = dim_of_nonempty(cx, a);
    return plain == dim_of_nonempty(cx, b) && is_positive_with_elements(cx, t, plain);
}

bool
stride_is_inside(Cx *cx, Dim numel, int rank, const Dim *dims, const Dim *strides, Dim offset)
{
    for (int ax = 0; ax < rank; ax++) {
        if (dim_is(cx, dims[ax], 0)) {
            return true; /* it has no elements */
        }
        offset = dim_add(cx, offset, dim_mul(cx, dim_index(cx, "i", dims[ax]), strides[ax]));
    }
    return dim_le(cx, dim_int(cx, 0), offset) && dim_lt(cx, offset, numel);
}

/* Splits both shapes from the end in runs of axes with equal numbers of elements; a run of the base
 * must be dense in itself.  false: the reshape cannot be a view. */
static bool
reshape_strides(Cx *cx, const Type *base, const Dim *strides, const Type *to, Dim *out)
{
    Dim one = dim_int(cx, 1);
    int j = to->rank - 1, ax = base->rank - 1;
    while (ax >= 0) {
        Dim step = strides[ax], count = base->dims[ax], made = one;
        while (ax > 0 && (dim_is(cx, base->dims[ax - 1], 1) ||
                          stride_same(cx, base, strides[ax - 1], dim_mul(cx, count, step)))) {
            ax--;
            count = dim_mul(cx, count, base->dims[ax]);
        }
        ax--;
        while (j >= 0 && (made != count || dim_is(cx, to->dims[j], 1))) {
            out[j] = dim_mul(cx, made, step);
            made = dim_mul(cx, made, to->dims[j]);
            j--;
        }
        if (made != count) {
            return false;
        }
    }
    for (; j >= 0; j--) {
        if (!dim_is(cx, to->dims[j], 1)) {
            return false;
        }
        out[j] = one;
    }
    return true;
}

static bool
is_dense(Cx *cx, const Type *t, const Dim *strides)
{
    Dim dense[MAX_RANK];
    type_dense(cx, t, dense);
    for (int ax = 0; ax < t->rank; ax++) {
        if (!dim_is(cx, t->dims[ax], 1) && !stride_same(cx, t, strides[ax], dense[ax])) {
            return false;
        }
    }
    return true;
}

bool
strides_order(Cx *cx, const Type *t, const Dim *strides, int *axes)
{
    Dim next = dim_int(cx, 1);
    bool used[MAX_RANK] = {false};
    for (int at = 0; at < t->rank; at++) {
        int ax = t->rank - 1;
        while (ax >= 0 && (used[ax] || !(dim_is(cx, t->dims[ax], 1) ||
                                         stride_same(cx, t, strides[ax], next)))) {
            ax--;
        }
        if (ax < 0) {
            return false;
        }
        axes[at] = ax;
        used[ax] = true;
        next = dim_mul(cx, next, t->dims[ax]);
    }
    return true;
}

/* The element `at` of the base in row-major order, as a place in memory. */
static Dim
place_of(Cx *cx, const Type *base, const Dim *base_strides, Dim at)
{
    Dim place = dim_int(cx, 0);
    for (int ax = base->rank - 1; ax >= 0; ax--) {
        Dim index = ax ? dim_mod(cx, at, base->dims[ax]) : at;
        at = ax ? dim_div(cx, at, base->dims[ax]) : at;
        place = dim_add(cx, place, dim_mul(cx, index, base_strides[ax]));
    }
    return place;
}

/* The strides of an as_strided over elements in row-major order, if its base has another layout:
 * each index must move the position in the base by a constant, whatever the other indices are.  A
 * diagonal of a transposed matrix has such strides; a window that continues in the next row has
 * none. */
static bool
strided_over_base(Cx *cx, const Let *let, const Dim *base_strides, Dim base_offset, Dim *strides,
                  Dim *offset)
{
    const Type *base = let->args[0]->type, *to = let->res[0]->type;
    const Dim *dense = let_attr(let, "strides")->dims;
    Dim index[MAX_RANK], at = let_dim(let, "offset");
    for (int ax = 0; ax < to->rank; ax++) {
        index[ax] = dim_index(cx, "i", to->dims[ax]);
        at = dim_add(cx, at, dim_mul(cx, index[ax], dense[ax]));
    }
    Dim left = place_of(cx, base, base_strides, at);
    for (int ax = 0; ax < to->rank; ax++) {
        if (!dim_affine(cx, left, index[ax], &strides[ax], &left)) {
            return false;
        }
        for (int k = 0; k < to->rank; k++) {
            if (dim_uses(cx, strides[ax], index[k])) {
                return false;
            }
        }
    }
    *offset = dim_add(cx, base_offset, left);
    return true;
}

static bool
strided_strides(Cx *cx, const Let *let, const Dim *base_strides, Dim base_offset, Dim *strides,
                Dim *offset)
{
    const Attr *given = let_attr(let, "strides");
    if (!is_dense(cx, let->args[0]->type, base_strides)) {
        return strided_over_base(cx, let, base_strides, base_offset, strides, offset);
    }
    memcpy(strides, given->dims, (size_t)given->n * sizeof *strides);
    *offset = dim_add(cx, base_offset, let_dim(let, "offset"));
    return true;
}

static bool
expand_strides(Cx *cx, const Let *let, const Dim *base_strides, Dim *strides)
{
    const Attr *axes = let_attr(let, "to");
    for (int ax = 0; ax < let->res[0]->type->rank; ax++) {
        strides[ax] = dim_int(cx, 0);
    }
    for (int k = 0; k < axes->n; k++) {
        strides[axes->axes[k]] = base_strides[k];
    }
    return true;
}

static bool
permute_strides(const Let *let, const Dim *base_strides, Dim *strides)
{
    const Attr *perm = let_attr(let, "perm");
    for (int ax = 0; ax < perm->n; ax++) {
        strides[ax] = base_strides[perm->axes[ax]];
    }
    return true;
}

static bool
slice_strides(Cx *cx, const Let *let, const Dim *base_strides, Dim base_offset, Dim *strides,
              Dim *offset)
{
    int axis = (int)let_int(let, "axis");
    memcpy(strides, base_strides, (size_t)let->res[0]->type->rank * sizeof *strides);
    *offset = dim_add(cx, base_offset, dim_mul(cx, let_dim(let, "start"), base_strides[axis]));
    strides[axis] = dim_mul(cx, let_dim(let, "step"), base_strides[axis]);
    return true;
}

bool
view_layout(Cx *cx, const Let *let, const Dim *base_strides, Dim base_offset, Dim *strides,
            Dim *offset)
{
    *offset = base_offset;
    switch (let->op) {
    case OP_reshape:
        return reshape_strides(cx, let->args[0]->type, base_strides, let->res[0]->type, strides);
    case OP_as_strided:
        return strided_strides(cx, let, base_strides, base_offset, strides, offset);
    case OP_expand:
        return expand_strides(cx, let, base_strides, strides);
    case OP_permute:
        return permute_strides(let, base_strides, strides);
    case OP_slice:
        return slice_strides(cx, let, base_strides, base_offset, strides, offset);
    default:
        return false;
    }
}

bool
view_base_strides(Cx *cx, const Let *let, const Dim *strides, Dim *base_strides)
{
    const Attr *perm = let->op == OP_permute ? let_attr(let, "perm") : NULL;
    for (int ax = 0; perm && ax < perm->n; ax++) {
        base_strides[perm->axes[ax]] = strides[ax];
    }
    return perm || (let->op == OP_reshape && reshape_strides(cx, let->res[0]->type, strides,
                                                             let->args[0]->type, base_strides));
}

/* Among the remaining axes whose stride exceeds `reach`, the one with the smallest stride; -1: none
 * is known to.  An axis of a symbolic extent, which may be 1, may have the stride of its
 * neighbour: strides are compared with <=. */
static int
next_outward(Cx *cx, const Type *of, const Dim *strides, const bool *done, Dim reach)
{
    int next = -1;
    for (int ax = 0; ax < of->rank; ax++) {
        if (!done[ax] && dim_is(cx, of->dims[ax], 1)) {
            return ax;
        }
        if (!done[ax] && dim_lt(cx, reach, strides[ax]) &&
            (next < 0 || dim_le(cx, strides[ax], strides[next]))) {
            next = ax;
        }
    }
    return next;
}

/* Does each stride step over all that the smaller ones reach? */
static bool
steps_over(Cx *cx, const Type *of, const Dim *strides)
{
    bool done[MAX_RANK] = {false};
    Dim reach = dim_int(cx, 0);
    for (int left = of->rank; left > 0; left--) {
        int ax = next_outward(cx, of, strides, done, reach);
        if (ax < 0) {
            return false;
        }
        done[ax] = true;
        reach = dim_add(cx, reach,
                        dim_mul(cx, dim_sub(cx, of->dims[ax], dim_int(cx, 1)), strides[ax]));
    }
    return true;
}

bool
strides_do_not_overlap(Cx *cx, const Type *of, const Dim *promised)
{
    Dim strides[MAX_RANK];
    if (type_is_empty(cx, of)) {
        return true;
    }
    for (int ax = 0; ax < of->rank; ax++) {
        Dim plain = dim_of_nonempty(cx, promised[ax]);
        strides[ax] = stride_same(cx, of, promised[ax], plain) ? plain : promised[ax];
    }
    const Assumption *before = cx->dims.assumed;
    for (int ax = 0; ax < of->rank; ax++) {
        dim_assume(cx, dim_int(cx, 1), of->dims[ax]);
    }
    bool separate = steps_over(cx, of, strides);
    dim_forget_to(cx, before);
    return separate;
}

/* Does all that the block stores to v store this number?  *number: NULL before the first store. */
static bool
stores_one_number(const Block *blk, const Value *v, const Value **number)
{
    bool one = true;
    for (int k = 0; k < blk->n && one; k++) {
        const Let *let = blk->lets[k];
        if (let->body) {
            one = stores_one_number(let->body, v, number);
        } else if (let->nargs && let->args[0] == v && let->op != OP_load) {
            const Value *stored = let->op == OP_store ? let->args[1] : NULL;
            one = stored && (!*number || *number == stored);
            *number = stored;
        }
    }
    return one;
}

/* Have all elements one value?  Then it is no matter which of them is stored last in a place. */
static bool
is_one_number(const Value *v)
{
    const Let *def = v->def;
    if (def && def->op == OP_kernel) {
        const Value *number = NULL;
        int k = 0;
        while (def->res[k] != v) {
            k++;
        }
        v = k < def->body->nrets                                 ? def->body->rets[k]
            : stores_one_number(def->body, v, &number) && number ? number
                                                                 : v;
    }
    while (v->def && value_is_view(v)) {
        v = v->def->args[0];
    }
    return value_is_const(v) || (v->def && v->def->op == OP_const);
}

bool
value_has_places(Cx *cx, const Value *v, const Dim *strides)
{
    return is_one_number(v) || strides_do_not_overlap(cx, v->type, strides);
}

static bool
layout_from(Cx *cx, const Value *v, const Value *root, const Dim *of_root, Dim *strides)
{
    Dim base[MAX_RANK], offset;
    if (v == root) {
        memcpy(strides, of_root, (size_t)v->type->rank * sizeof *strides);
        return true;
    }
    return layout_from(cx, v->def->args[0], root, of_root, base) &&
           view_layout(cx, v->def, base, dim_int(cx, 0), strides, &offset);
}

static const Value *
made_or_param(const Value *v)
{
    while (value_is_view(v)) {
        v = v->def->args[0];
    }
    return v;
}

static void
own_layout(Cx *cx, const Value *v, Dim *strides)
{
    if (v->strides) {
        memcpy(strides, v->strides, (size_t)v->type->rank * sizeof *strides);
    } else {
        type_dense(cx, v->type, strides);
    }
}

bool
value_layout(Cx *cx, const Value *v, Dim *strides)
{
    const Value *root = made_or_param(v);
    Dim own[MAX_RANK];
    own_layout(cx, root, own);
    return layout_from(cx, v, root, own, strides);
}

/* The strides of the base that `of`, with the given strides, is a view of; false: they are not
 * determined. */
static bool
layout_under(Cx *cx, const Value *of, const Value *root, const Dim *given, Dim *strides)
{
    Dim base[MAX_RANK];
    memcpy(strides, given, (size_t)of->type->rank * sizeof *strides);
    for (; of != root; of = of->def->args[0]) {
        if (!view_base_strides(cx, of->def, strides, base)) {
            return false;
        }
        memcpy(strides, base, (size_t)of->def->args[0]->type->rank * sizeof *strides);
    }
    return true;
}

bool
value_layout_beside(Cx *cx, const Value *v, const Value *of, const Dim *given, Dim *strides)
{
    const Value *root = made_or_param(of);
    Dim own[MAX_RANK];
    bool free = root->def && !root->strides;
    if (!free || !layout_under(cx, of, root, given, own)) {
        own_layout(cx, root, own);
    }
    return layout_from(cx, v, root, own, strides);
}

/* ---- elements ---- */

typedef struct {
    Cx *cx;
    Dim *stack;
    int n;
} Rebuild;

static void
rebuild_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Rebuild *r = arg;
    r->stack = cx_grow(r->cx, r->stack, r->n, sizeof *r->stack);
    r->stack[r->n++] = kind == 'i' ? dim_int(r->cx, value) : name;
}

/* Writes a % b as a - a//b*b, so that f//N*N + f%N, of a merged loop's index f, becomes f again. */
static void
rebuild_binary(void *arg, char kind)
{
    Rebuild *r = arg;
    Cx *cx = r->cx;
    Dim b = r->stack[--r->n], a = r->stack[r->n - 1];
    r->stack[r->n - 1] = kind == '%' ? dim_sub(cx, a, dim_mul(cx, dim_div(cx, a, b), b))
                                     : dim_apply(cx, kind, a, b);
}

static void
note_division(void *arg, char kind)
{
    *(bool *)arg |= kind == '/' || kind == '%';
}

static void
ignore_leaf(void *arg, char kind, int64_t value, Dim name)
{
    (void)arg, (void)kind, (void)value, (void)name;
}

static bool
has_division(Cx *cx, Dim d)
{
    bool found = false;
    static const DimWalk walk = {ignore_leaf, note_division};
    dim_walk(cx, d, &walk, &found);
    return found;
}

Dim
index_offset(Cx *cx, const Value *buffer, const Dim *at)
{
    Dim dense[MAX_RANK], offset = dim_int(cx, 0);
    const Dim *strides = buffer->strides;
    if (!strides) {
        type_dense(cx, buffer->type, dense);
        strides = dense;
    }
    for (int ax = 0; ax < buffer->type->rank; ax++) {
        offset = dim_add(cx, offset, dim_mul(cx, at[ax], strides[ax]));
    }
    if (!has_division(cx, offset)) {
        return offset;
    }
    Rebuild r = {.cx = cx};
    static const DimWalk walk = {rebuild_leaf, rebuild_binary};
    dim_walk(cx, offset, &walk, &r);
    return has_division(cx, r.stack[0]) ? offset : r.stack[0];
}
