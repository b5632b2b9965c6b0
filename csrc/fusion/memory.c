/* Memory: which values have to be tensors, because calls or the caller take them.
 *
 * A view that strides express stays a view of what it views.  Others are made: views that no
 * strides express, constants, and fresh results that would share storage with a parameter or have
 * other strides than promised.  What is made from nothing is made again by each of its readers, but
 * where results share its storage it is one tensor for them.
 */
#include "group.h"

#include <string.h>

typedef struct {
    Cx *cx;
    const Fn *fn;
    const int *cost;            /* as in Groups */
    const Dim **layout;         /* by Value.id: strides, NULL where none express the value */
    bool *made, *wanted;        /* see memory_scan */
    bool *shared; /* by Value.id: on the way to results that share the storage of one tensor */
} Memory;

static const Dim *
dense(Cx *cx, const Value *v)
{
    Dim *strides = cx_alloc(cx, MAX_RANK * sizeof *strides);
    type_dense(cx, v->type, strides);
    return strides;
}

/* Is it made from nothing wherever it is read? */
static bool
is_made_again(const Memory *s, const Value *v)
{
    return s->cost[v->id] >= 0 && !s->shared[v->id];
}

static const Dim *
layout_of(Memory *s, const Value *v)
{
    Cx *cx = s->cx;
    if (s->made[v->id] || !value_is_view(v)) {
        return s->layout[v->id] ? s->layout[v->id] : v->strides ? v->strides : dense(cx, v);
    }
    const Value *base = v->def->args[0];
    Dim *strides = cx_alloc(cx, MAX_RANK * sizeof *strides), offset;
    bool good = !value_is_const(base) && s->layout[base->id] && !is_made_again(s, v) &&
                view_layout(cx, v->def, s->layout[base->id], dim_int(cx, 0), strides, &offset);
    return good ? strides : NULL;
}

static bool
same_layout(Cx *cx, const Type *t, const Dim *a, const Dim *b)
{
    for (int ax = 0; ax < t->rank; ax++) {
        if (a[ax] != b[ax] && !dim_is(cx, t->dims[ax], 1)) {
            return false;
        }
    }
    return true;
}

static const Value *
root_of(const Memory *s, const Value *v)
{
    while (value_is_view(v) && !s->made[v->id]) {
        v = v->def->args[0];
    }
    return v;
}

/* A call or the caller takes v: the value that holds its elements must be in memory. */
static void
require_in_memory(Memory *s, const Value *v)
{
    if (value_is_const(v) || (v->def && v->def->op == OP_size)) {
        return;
    }
    if (is_made_again(s, v) || !s->layout[v->id]) {
        s->made[v->id] = true;
        s->layout[v->id] = dense(s->cx, v);
    }
    s->wanted[root_of(s, v)->id] = true;
}

/* A fresh result may be a view of a value that a kernel or call made, if it has the promised
 * strides.  No kernel touches the dtypes without arithmetic: the plan copies those. */
static bool
must_materialise_fresh(Memory *s, const Value *v, const Dim *promise)
{
    Cx *cx = s->cx;
    const Dim *layout = s->layout[v->id];
    bool foreign = dtype_is_opaque(v->type->dtype) && layout;
    return value_is_view(v) && s->cost[v->id] < 0 && !foreign &&
           (!root_of(s, v)->def || !layout ||
            !same_layout(cx, v->type, layout, promise ? promise : dense(cx, v)));
}

static void
scan_layouts(Memory *s)
{
    const Fn *fn = s->fn;
    for (int k = 0; k < fn->nparams; k++) {
        s->layout[fn->params[k]->id] = layout_of(s, fn->params[k]);
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; let_is_opaque(let) && j < let->nargs; j++) {
            require_in_memory(s, let->args[j]);
        }
        for (int j = 0; j < let->nres; j++) {
            s->layout[let->res[j]->id] = layout_of(s, let->res[j]);
        }
    }
}

bool
memory_has_views(const Fn *fn, int result)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        if (fn->results[k].kind == RESULT_VIEW_RESULT && fn->results[k].of == result) {
            return true;
        }
    }
    return false;
}

/* A fresh result is stored with the strides that it promises.  If it is a view, and another result
 * is to share its storage, the base of the view is stored so. */
void
memory_promises(Groups *g)
{
    g->promise = cx_alloc(g->cx, ((size_t)g->fn->nvalues + 1) * sizeof *g->promise);
    for (int k = 0; k < g->fn->body->nrets; k++) {
        const Value *v = g->fn->body->rets[k];
        bool fresh = g->fn->results[k].kind == RESULT_FRESH,
             shared = fresh && memory_has_views(g->fn, k);
        const Dim *strides = fresh ? g->fn->results[k].strides : NULL;
        strides = shared && value_is_view(v) && !strides ? dense(g->cx, v) : strides;
        while (strides && shared && value_is_view(v) && v->def->args[0]->def) {
            Dim *base = cx_alloc(g->cx, MAX_RANK * sizeof *base);
            strides = view_base_strides(g->cx, v->def, strides, base) ? base : NULL;
            v = v->def->args[0];
        }
        g->promise[v->id] = g->promise[v->id] ? g->promise[v->id] : strides;
    }
}

/* Notes that v shares the storage of another tensor, and so do the views on the way to it. */
static void
note_shared(Memory *s, const Value *v)
{
    s->shared[v->id] = true;
    while (value_is_view(v) && !value_is_const(v->def->args[0])) {
        v = v->def->args[0];
        s->shared[v->id] = true;
    }
    s->made[v->id] |= s->cost[v->id] >= 0;
}

static void
scan_shared(Memory *s)
{
    const Fn *fn = s->fn;
    for (int k = 0; k < fn->body->nrets; k++) {
        ResultKind kind = fn->results[k].kind;
        if (kind == RESULT_VIEW_PARAM || kind == RESULT_VIEW_RESULT) {
            note_shared(s, fn->body->rets[k]);
        }
        if (kind == RESULT_VIEW_RESULT && s->cost[fn->body->rets[k]->id] >= 0) {
            note_shared(s, fn->body->rets[fn->results[k].of]);
        }
    }
}

/* A value that goes into a parameter is made and not read through a view, so that the in_place pass
 * may store it there. */
static bool
must_materialise_into(const Memory *s, const Value *v)
{
    return value_is_view(v) && s->cost[v->id] < 0 && !dtype_is_opaque(v->type->dtype) &&
           !s->shared[v->id];
}

/* First with results laid out as promised, to find the results that are to be made; then with
 * these. */
static void
scan_results(Memory *s, const Dim *const *promise)
{
    const Fn *fn = s->fn;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; !let_is_opaque(let) && !value_is_view(let->res[0]) && j < let->nres; j++) {
            s->layout[let->res[j]->id] = let->res[j]->strides ? NULL : promise[let->res[j]->id];
        }
    }
    scan_layouts(s);
    for (int k = 0; k < fn->body->nrets; k++) {
        Value *v = fn->body->rets[k];
        if (fn->results[k].kind == RESULT_INTO && must_materialise_into(s, v)) {
            s->made[v->id] = true;
            s->layout[v->id] = dense(s->cx, v);
        }
        if (fn->results[k].kind == RESULT_FRESH && !s->shared[v->id] &&
            must_materialise_fresh(s, v, fn->results[k].strides)) {
            s->made[v->id] = true;
            s->layout[v->id] = fn->results[k].strides;
        }
    }
    memset(s->wanted, 0, (size_t)fn->nvalues * sizeof *s->wanted);
    scan_layouts(s);
    for (int k = 0; k < fn->body->nrets; k++) {
        require_in_memory(s, fn->body->rets[k]);
    }
}

void
memory_scan(const Groups *g, bool *made, bool *wanted)
{
    Memory s = {
        .cx = g->cx,
        .fn = g->fn,
        .cost = g->cost,
        .made = made,
        .wanted = wanted,
        .layout = cx_alloc(g->cx, ((size_t)g->fn->nvalues + 1) * sizeof *s.layout),
        .shared = cx_alloc(g->cx, ((size_t)g->fn->nvalues + 1) * sizeof *s.shared),
    };
    scan_shared(&s);
    scan_results(&s, g->promise);
}

bool *
memory_read_outside(const Fn *fn)
{
    bool *read = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *read);
    for (int k = 0; k < fn->body->n; k++) {
        for (int j = 0; j < fn->body->lets[k]->nargs; j++) {
            read[fn->body->lets[k]->args[j]->id] = true;
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        read[fn->body->rets[k]->id] = true;
    }
    return read;
}
