/* The layouts of the operands of a call.
 *
 * A kernel writes its results in row-major order, whatever layout eager's have. For an operator
 * this may matter: its results have the layout of its operands, it draws random numbers in the
 * order of their memory, it makes views of them.  So they are copied into eager's layout where that
 * is another one. */
#include "walk.h"

#include <string.h>

/* The strides that v will have in memory: a kernel writes row-major ones. */
static void
layout_of(Walk *w, const Value *v, Dim *strides)
{
    if (!value_layout(w->cx, v, strides)) {
        type_dense(w->cx, v->type, strides);
    }
}

/* The order of axes of eager's copy of a tensor that is dense in none. */
static bool
copy_order(Walk *w, const Type *t, const Dim *strides, int *perm)
{
    Operands one = {.n = 1};
    memcpy(one.strides[0], strides, (size_t)t->rank * sizeof *strides);
    return eager_order(w, t, &one, perm);
}

/* The value, copied so that its axes have the order in memory. */
static Value *
copied_in_order(Walk *w, Value *v, const int *perm)
{
    int back[MAX_RANK];
    for (int ax = 0; ax < v->type->rank; ax++) {
        back[perm[ax]] = ax;
    }
    v = build_permute(w->b, v, perm);
    return build_permute(w->b, call_on(w, py.contiguous, v, NULL, v->type, NULL), back);
}

/* The operators that need less than the order of axes. */
static const struct {
    const char *name;
    Needs needs;
} readers[] = {
#define OPERANDS(operator, first, others) {operator, {LAYOUT_##first, LAYOUT_##others}},
#include "capture/walk/layouts.def"
};

Needs
layout_needed(const Walk *w, const Bound *at, bool aliasing)
{
    const Overload *o = at->overload;
    if (w->direct ? aliasing : o && (o->alias >= 0 || o->maybe_alias)) {
        return (Needs){LAYOUT_VERY, LAYOUT_VERY};
    }
    const char *name = o ? o->name : at->torch ? at->torch->name : "";
    const char *packet = strchr(name, '.') ? strchr(name, '.') + 1 : name;
    size_t length = strcspn(packet, ".");
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
        if (strlen(readers[k].name) == length && strncmp(packet, readers[k].name, length) == 0) {
            return readers[k].needs;
        }
    }
    bool draws = o ? o->random : at->torch && strchr(at->torch->in, 'r');
    return draws ? (Needs){LAYOUT_DRAWN, LAYOUT_DRAWN} : (Needs){LAYOUT_ORDER, LAYOUT_ORDER};
}

/* Has a call taken the value, or a view of it? */
static bool
is_taken(const Walk *w, const Value *v)
{
    const Block *body = w->fn->body;
    for (int k = body->n - 1; k >= 0 && body->lets[k] != v->def; k--) {
        const Let *let = body->lets[k];
        for (int j = 0; let_is_opaque(let) && j < let->nargs; j++) {
            if (value_is_view_of(let->args[j], v)) {
                return true;
            }
        }
    }
    return false;
}

bool
may_be_written(const Walk *w, const Value *v)
{
    bool ours = v->def && let_is_made(v->def) && !v->strides;
    for (int k = 0; k < w->nstored; k++) {
        ours &= w->stored[k] != v;
    }
    return ours && !is_taken(w, v);
}

bool
written_so(Walk *w, Value *v, const Dim *strides)
{
    bool ours = may_be_written(w, v);
    if (ours) {
        v->strides = cx_copy(w->cx, strides, (size_t)v->type->rank * sizeof *strides);
    }
    return ours;
}

bool
lies_in(Walk *w, const Value *v, const Dim *strides)
{
    Dim have[MAX_RANK];
    bool same = true;
    layout_of(w, v, have);
    for (int ax = 0; ax < v->type->rank; ax++) {
        same &= have[ax] == strides[ax] || dim_is(w->cx, v->type->dims[ax], 1);
    }
    return same;
}

/* Are the elements along the k-th axis from the last side by side? */
static bool
is_contiguous_axis(const Walk *w, const Type *t, const Dim *strides, int k)
{
    int ax = t->rank - k;
    return ax >= 0 && (dim_is(w->cx, strides[ax], 1) || dim_is(w->cx, t->dims[ax], 1));
}

/* Does a tensor with strides `have` have the layout of `strides` (NULL: row-major), except for axes
 * of one element? */
static bool
lies_as(Walk *w, const Type *t, const Dim *strides, const Dim *have)
{
    DenseStride next = dense_innermost(w);
    bool same = true;
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        Dim want = strides ? strides[ax] : next.plain;
        same &= dim_is(w->cx, t->dims[ax], 1) || have[ax] == want ||
                (is_dense(w, next, want) && is_dense(w, next, have[ax]));
        next = dense_outside(w, next, t->dims[ax]);
    }
    return same;
}

/* May a call that needs a layout of an operand take one with strides `have`, where the operand's
 * node has `strides` (NULL: in rows)? */
static bool
suits(Walk *w, const Type *t, const Dim *strides, const Dim *have, Layout needed)
{
    bool rows = !strides || lies_as(w, t, NULL, strides);
    bool inner = is_contiguous_axis(w, t, have, 1);
    return lies_as(w, t, strides, have) || (needed == LAYOUT_INNER && inner) ||
           (needed == LAYOUT_ROWS && (!rows || inner || is_contiguous_axis(w, t, have, 2)));
}

/* Notes that a call takes the value as its node has it, or in a layout that suits.  Returns it. */
static Value *
note_taken(Walk *w, const Bound *b, Value *v, Layout needed)
{
    w->taken = cx_grow(w->cx, w->taken, w->ntaken, sizeof *w->taken);
    w->taken[w->ntaken++] = (Taken){v, b->strides, needed};
    return v;
}

/* Has a call taken v, or a view of it, which does not suit it with v in memory with these
 * strides?  A view that no strides express is a copy, so it has its own. */
static bool
is_taken_otherwise(Walk *w, const Value *v, const Dim *strides)
{
    Dim own[MAX_RANK], have[MAX_RANK];
    bool found = false;
    type_dense(w->cx, v->type, own);
    for (int k = 0; k < w->ntaken && !found; k++) {
        const Taken *by = &w->taken[k];
        found = value_is_view_of(by->v, v) &&
                value_layout_beside(w->cx, by->v, v, strides ? strides : own, have) &&
                !suits(w, by->v->type, by->strides, have, by->needed);
    }
    return found;
}

Value *
laid_as_result(Walk *w, const Bound *b)
{
    Value *v = b->arg.v;
    int perm[MAX_RANK];
    bool other = !b->shared && v->def && let_is_made(v->def) &&
                 is_taken_otherwise(w, v, b->strides);
    return other && b->strides && dense_order(w, v->type, b->strides, ONES_BY_INDEX, perm)
               ? copied_in_order(w, v, perm)
           : other ? call_on(w, py.contiguous, v, NULL, v->type, NULL)
                   : v;
}

/* Do the strides differ on axes of one element alone, but torch takes only one of the two for an
 * image with its channels innermost? */
static bool
differs_as_image(Walk *w, const Type *t, const Dim *strides, const Dim *have)
{
    return strides && lies_as(w, t, strides, have) &&
           lies_as_image(w, t, strides) != lies_as_image(w, t, have);
}

Value *
laid_out(Walk *w, const Bound *b, Layout needed)
{
    Value *v = b->arg.v;
    const Type *t = v->type;
    Dim have[MAX_RANK];
    int perm[MAX_RANK];
    layout_of(w, v, have);
    if (suits(w, t, b->strides, have, needed)) {
        if (needed <= LAYOUT_ORDER && differs_as_image(w, t, b->strides, have)) {
            /* if a call has taken it before, it stays: contiguous() would not change it */
            written_so(w, v, b->strides);
        }
        return note_taken(w, b, v, needed);
    }
    if (!b->strides || lies_as(w, t, NULL, b->strides)) {
        return call_on(w, py.contiguous, v, NULL, t, NULL);
    }
    if (dense_order(w, t, b->strides, ONES_BY_INDEX, perm)) {
        return needed <= LAYOUT_ORDER && written_so(w, v, b->strides) ? note_taken(w, b, v, needed)
                                                                      : copied_in_order(w, v, perm);
    }
    if (needed == LAYOUT_VERY) {
        refuse(w,
               "its operand has strides that no order of its axes gives: call contiguous() on it");
    }
    return copy_order(w, t, b->strides, perm) ? copied_in_order(w, v, perm)
                                              : note_taken(w, b, v, needed);
}
