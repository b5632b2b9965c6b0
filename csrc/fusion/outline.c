/* Outline: groups to kernels.
 *
 * Every group becomes a kernel let whose body holds its nodes in their old order, with copies of
 * the views and constants they want, and of what recompute.c marked.  Calls stay where the groups'
 * order puts them.  A view that a call or the caller takes stands at the top level, with the
 * strides it has there; the same view inside a kernel is an index map and reads its root.  But
 * where a value is read step by step, x[0], x[1], .., each step stands at the top level: kernels
 * that differ only in the step are then one kernel, which is compiled once.  So does a cat of many
 * results of kernels: each number of them would be another kernel, and the plan copies them.
 */
#include "group.h"

#include <stdlib.h>

typedef struct {
    Groups *g;
    Build *b;
    Value **map;                /* by old Value.id: the new value, in the block being built */
    int kernel;                 /* the group under construction */
    int *inside;                /* by old Value.id: the kernel in which map is local, -1 */
    int *copy;                  /* by old Value.id: the kernel that computes it again, -1 */
    int *steps;                 /* by old Value.id: how many steps of it are read */
    int *seen; /* by old Value.id: the kernel whose steps have been sought there, -1 */
    const Value **found; /* the steps in the kernel */
    int nfound;
    bool *outside; /* by old Value.id: a step that is at the top level */
    int *locals; /* the entries of map to restore when the kernel ends */
    Value **outer;
    int nlocals;
    Value **fresh; /* by parameter: its copy */
} Outline;

/* ---- inside a kernel ---- */

static void
move_into_kernel(Outline *o, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        int id = let->res[k]->id;
        o->locals[o->nlocals] = id;
        o->outer[o->nlocals++] = o->map[id];
        o->inside[id] = o->kernel;
    }
    build_at(o->b, let->loc);
    if (let->op == OP_size) { /* never the scalar that a call outside takes: that is memory */
        const Type *t = let->res[0]->type;
        o->map[let->res[0]->id] = build_let(o->b, OP_size, 0, NULL, let->attrs, NULL, 1, &t, NULL)
                                      ->res[0];
    } else {
        build_again(o->b, let, o->map);
    }
}

/* Is it a result of another kernel, which this one reads? */
static bool
is_in_memory(const Outline *o, const Value *v)
{
    Groups *g = o->g;
    int node = g->node_of[v->id];
    return node >= 0 && g->cost[v->id] < 0 && g->nodes[node].kept && o->copy[v->id] != o->kernel &&
           group_find(g, node) != o->kernel;
}

/* Makes map[v] valid for the kernel: a value that is not in memory is computed there. */
static void
local(Outline *o, const Value *v)
{
    if (value_is_const(v) || !v->def || o->inside[v->id] == o->kernel || o->outside[v->id] ||
        is_in_memory(o, v)) {
        return;
    }
    for (int k = 0; k < v->def->nargs; k++) {
        local(o, v->def->args[k]);
    }
    move_into_kernel(o, v->def);
}

/* ---- at the top level ---- */

static bool
is_dense(Cx *cx, const Type *t, const Dim *strides)
{
    Dim dense[MAX_RANK];
    type_dense(cx, t, dense);
    for (int ax = 0; ax < t->rank; ax++) {
        if (strides[ax] != dense[ax]) {
            return false;
        }
    }
    return true;
}

/* Notes on a view at the top level how it is in memory. */
static void
note_strides(Cx *cx, Value *v)
{
    if (!value_is_view(v) || v->strides) {
        return;
    }
    const Value *base = v->def->args[0];
    Dim dense[MAX_RANK], strides[MAX_RANK], offset;
    type_dense(cx, base->type, dense);
    const Dim *from = base->strides ? base->strides : dense;
    if (view_layout(cx, v->def, from, dim_int(cx, 0), strides, &offset) &&
        !is_dense(cx, v->type, strides)) {
        v->strides = cx_copy(cx, strides, (size_t)v->type->rank * sizeof *strides);
    }
}

static void
global(Outline *o, const Value *v)
{
    if (value_is_const(v) || o->map[v->id]) {
        return;
    }
    for (int k = 0; k < v->def->nargs; k++) {
        global(o, v->def->args[k]);
    }
    build_at(o->b, v->def->loc);
    build_again(o->b, v->def, o->map);
    note_strides(o->g->cx, o->map[v->id]);
}

/* Is it one place along an axis, which is a constant? */
static bool
is_step(Cx *cx, const Let *let)
{
    return let->op == OP_slice && dim_is(cx, let->res[0]->type->dims[let_int(let, "axis")], 1) &&
           dim_is_int(cx, let_dim(let, "start"), NULL);
}

/* Does a kernel write to the parameter in place? */
static bool
is_written(const Fn *fn, const Value *param)
{
    bool written = false;
    for (int k = 0; k < fn->body->nrets; k++) {
        written |= fn->results[k].kind == RESULT_INTO && fn->params[fn->results[k].of] == param;
    }
    return written;
}

/* Finds the steps in the kernel that v is computed from, if their operands are in memory. */
static void
find_steps(Outline *o, const Value *v)
{
    if (value_is_const(v) || !v->def || o->seen[v->id] == o->kernel || is_in_memory(o, v)) {
        return;
    }
    o->seen[v->id] = o->kernel;
    const Value *of = v->def->nargs ? v->def->args[0] : NULL;
    if (is_step(o->g->cx, v->def) && !value_is_const(of) && o->steps[of->id] >= COST_STEPS &&
        (of->def ? is_in_memory(o, of) : !is_written(o->g->fn, of))) {
        o->found = cx_grow(o->g->cx, o->found, o->nfound, sizeof *o->found);
        o->found[o->nfound++] = v;
        return;
    }
    for (int k = 0; k < v->def->nargs; k++) {
        find_steps(o, v->def->args[k]);
    }
}

/* Moves a step that was found to the top level if the kernel reads no other step of its operand. */
static void
place_steps(Outline *o)
{
    for (int k = 0; k < o->nfound; k++) {
        const Value *v = o->found[k];
        int same = 0;
        for (int j = 0; j < o->nfound; j++) {
            same += o->found[j]->def->args[0] == v->def->args[0];
        }
        if (same == 1) {
            global(o, v);
        }
        o->outside[v->id] = same == 1;
    }
    o->nfound = 0;
}

static void
outline_call(Outline *o, const Let *let)
{
    for (int k = 0; k < let->nargs; k++) {
        global(o, let->args[k]);
    }
    build_at(o->b, let->loc);
    build_again(o->b, let, o->map);
}

/* ---- cats at the top level ---- */

/* Is it a result of a kernel, as it is in memory or reshaped where it is dense? */
static bool
is_made(const Outline *o, const Value *v)
{
    Cx *cx = o->g->cx;
    bool reshaped = !value_is_const(v) && v->def && v->def->op == OP_reshape;
    const Value *from = reshaped ? v->def->args[0] : v;
    if (value_is_const(from) || !is_in_memory(o, from) || let_is_opaque(from->def)) {
        return false;
    }
    const Value *made = o->map[from->id];
    return !reshaped || !made->strides || is_dense(cx, made->type, made->strides);
}

/* Elements of a part that are adjacent in the cat too. */
static int64_t
run_of(Cx *cx, const Let *cat, const Type *part)
{
    int axis = (int)let_int(cat, "axis");
    return dims_typical(cx, part->rank - axis, part->dims + axis);
}

/* Is the kernel only a cat of so many results that compiling it is not worthwhile? */
static bool
is_copied(const Outline *o, const int *member, int n)
{
    const Let *let = o->g->nodes[member[0]].let;
    bool copied = n == 1 && let->op == OP_cat && let->nargs >= COST_JOINED;
    for (int k = 0; copied && k < let->nargs; k++) {
        copied = is_made(o, let->args[k]) &&
                 run_of(o->g->cx, let, let->args[k]->type) >= COST_COLUMNS;
    }
    return copied;
}

/* The strides that a result of the value is stored with; NULL: dense, where those promised may put
 * two elements in one place.  Then the plan copies it, with sizes that it knows. */
static const Dim *
promised_strides(const Outline *o, const Value *v, const Dim *own)
{
    const Dim *strides = own ? own : o->g->promise[v->id];
    return strides && value_has_places(o->g->cx, v, strides) ? strides : NULL;
}

static void
outline_cat(Outline *o, const Value *v)
{
    for (int k = 0; k < v->def->nargs; k++) {
        global(o, v->def->args[k]);
    }
    build_at(o->b, v->def->loc);
    build_again(o->b, v->def, o->map);
    o->map[v->id]->strides = promised_strides(o, v, v->strides);
}

/* ---- kernels ---- */

static int
by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int
members(Outline *o, int group, int *out)
{
    int n = 0;
    for (int k = group; k >= 0; k = o->g->nodes[k].next) {
        out[n++] = k;
    }
    qsort(out, (size_t)n, sizeof *out, by_number);
    return n;
}

/* Notes the values that the kernel computes again. */
static void
note_copies(Outline *o, const int *member, int n)
{
    Groups *g = o->g;
    for (int k = 0; k < n; k++) {
        const Node *node = &g->nodes[member[k]];
        for (int r = node->reads; r < node->reads + node->nreads; r++) {
            if (g->reads[r].copied) {
                o->copy[g->reads[r].root->id] = o->kernel;
            }
        }
    }
}

/* The values of the kernel that are needed outside, each once. */
typedef struct {
    int n;
    Value **inner;
    const Type **types;
    const Dim **strides;
    int *ids, *which; /* old values, and which result each is; -1: a value from outside */
    int nids;
} Results;

static void
result_add(Outline *o, const Block *blk, const Value *old, Results *r)
{
    Value *v = o->map[old->id];
    int k = 0;
    r->ids[r->nids] = old->id;
    r->which[r->nids] = -1;
    if (v->def && v->def->parent == blk) {
        while (k < r->n && r->inner[k] != v) {
            k++;
        }
        r->inner[k] = v;
        r->types[k] = v->type;
        const Dim *strides = promised_strides(o, old, old->strides);
        r->strides[k] = strides || k == r->n ? strides : r->strides[k];
        r->n += k == r->n;
        r->which[r->nids] = k;
    }
    r->nids++;
}

/* Gives old values their new ones and map its state from before the kernel. */
static void
finish(Outline *o, const Results *r, const Let *kernel)
{
    Value **final = cx_alloc(o->g->cx, ((size_t)r->nids + 1) * sizeof *final);
    for (int k = 0; k < r->nids; k++) {
        final[k] = r->which[k] >= 0 ? kernel->res[r->which[k]] : o->map[r->ids[k]];
    }
    while (o->nlocals) {
        o->nlocals--;
        o->map[o->locals[o->nlocals]] = o->outer[o->nlocals];
        o->inside[o->locals[o->nlocals]] = -1;
    }
    for (int k = 0; k < r->nids; k++) {
        o->map[r->ids[k]] = final[k];
    }
}

static void
outline_kernel(Outline *o, int group)
{
    Groups *g = o->g;
    size_t room = (size_t)g->nodes[group].members + 1;
    int *member = cx_alloc(g->cx, room * sizeof *member);
    Results r = {
        .inner = cx_alloc(g->cx, room * sizeof *r.inner),
        .types = cx_alloc(g->cx, room * sizeof *r.types),
        .strides = cx_alloc(g->cx, room * sizeof *r.strides),
        .ids = cx_alloc(g->cx, room * sizeof *r.ids),
        .which = cx_alloc(g->cx, room * sizeof *r.which),
    };
    int n = members(o, group, member);
    o->kernel = group;
    note_copies(o, member, n);
    if (is_copied(o, member, n)) {
        outline_cat(o, g->nodes[member[0]].value);
        return;
    }
    for (int k = 0; k < n; k++) {
        find_steps(o, g->nodes[member[k]].value);
    }
    place_steps(o);
    Block *blk = build_open(o->b);
    for (int k = 0; k < n; k++) {
        local(o, g->nodes[member[k]].value);
    }
    for (int k = 0; k < n; k++) {
        if (g->nodes[member[k]].kept) {
            result_add(o, blk, g->nodes[member[k]].value, &r);
        }
    }
    build_close(o->b, r.n, r.inner);
    Let *kernel = NULL;
    if (r.n) {
        build_at(o->b, g->nodes[member[n - 1]].let->loc);
        kernel = build_let(o->b, OP_kernel, 0, NULL, NULL, blk, r.n, r.types, r.strides);
    }
    finish(o, &r, kernel);
}

/* A fresh result that is a parameter: a kernel copies it, once.  Where other results are views of
 * it, the plan makes the copy, and them of that. */
static Value *
outline_copy(Outline *o, const Value *param)
{
    if (!o->fresh[param->result]) {
        Value *v = o->map[param->id];
        const Dim *strides = promised_strides(o, param, NULL);
        Block *blk = build_open(o->b);
        build_close(o->b, 1, &v);
        build_at(o->b, (Loc){0});
        o->fresh[param->result] =
            build_let(o->b, OP_kernel, 0, NULL, NULL, blk, 1, &v->type, &strides)->res[0];
    }
    return o->fresh[param->result];
}

static void
outline_results(Outline *o, Fn *fn)
{
    const Fn *old = o->g->fn;
    int n = old->body->nrets;
    Value **rets = cx_alloc(o->g->cx, ((size_t)n + 1) * sizeof *rets);
    for (int k = 0; k < n; k++) {
        const Value *v = old->body->rets[k];
        bool fresh = old->results[k].kind == RESULT_FRESH && !v->def && !memory_has_views(old, k) &&
                     !dtype_is_opaque(v->type->dtype);
        global(o, v);
        rets[k] = fresh ? outline_copy(o, v) : o->map[v->id];
    }
    fn_results(fn, n, rets, old->results);
}

static void
count_steps(Outline *o)
{
    const Block *body = o->g->fn->body;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        if (is_step(o->g->cx, let) && !value_is_const(let->args[0])) {
            o->steps[let->args[0]->id]++;
        }
    }
}

static int *
none(Cx *cx, size_t n)
{
    int *p = cx_alloc(cx, n * sizeof *p);
    for (size_t k = 0; k < n; k++) {
        p[k] = -1;
    }
    return p;
}

Fn *
outline(Groups *g)
{
    size_t room = (size_t)g->fn->nvalues + 1;
    Outline o = {
        .g = g,
        .inside = none(g->cx, room),
        .copy = none(g->cx, room),
        .locals = none(g->cx, room),
        .outer = cx_alloc(g->cx, room * sizeof *o.outer),
        .steps = cx_alloc(g->cx, room * sizeof *o.steps),
        .seen = none(g->cx, room),
        .outside = cx_alloc(g->cx, room * sizeof *o.outside),
        .fresh = cx_alloc(g->cx, ((size_t)g->fn->nparams + 1) * sizeof *o.fresh),
    };
    Fn *fn = rebuild_open(g->fn, STAGE_KERNELS, &o.map);
    o.b = build_new(fn);
    count_steps(&o);
    int *at = none(g->cx, (size_t)g->n + 1); /* group by number */
    for (int k = 0; k < g->n; k++) {
        at[g->nodes[group_find(g, k)].order] = group_find(g, k);
    }
    for (int k = 0; k < g->n; k++) {
        if (at[k] >= 0 && g->nodes[at[k]].call) {
            outline_call(&o, g->nodes[at[k]].let);
        } else if (at[k] >= 0) {
            outline_kernel(&o, at[k]);
        }
    }
    outline_results(&o, fn);
    return fn;
}
