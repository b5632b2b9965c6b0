/* The lets between the loops of a tile, for an optimising compiler.
 *
 * What:     one C loop over the tile for each run of lets that stand between loops; see
 *           emit_cc_tile.c.
 * Requires: the tile's vector loop, whose inner loops are sequential.
 * Ensures:  each iteration's operations in their order.
 * How:      runs are numbered.  What one run leaves to another, values and
 *           looked-up indices, stands in an array of the tile, with _t behind its name.
 * Example:  a = x[i] * 2 before a loop that reads it: for k < w { a = x[i + k] * 2; a_t[k] = a; }
 */
#include "emit_cc_tile.h"

/* ---- what there is ---- */

static void
number_runs(Tile *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let)) {
            t->run++;
            number_runs(t, let->body);
            t->run++;
        }
        for (int j = 0; j < let->nres; j++) {
            t->runs[let->res[j]->id] = t->run;
        }
        if (let->op == OP_bind) {
            t->binds = cx_grow(t->e->cx, t->binds, t->nbinds, sizeof *t->binds);
            t->bind_runs = cx_grow(t->e->cx, t->bind_runs, t->nbinds, sizeof *t->bind_runs);
            t->bind_runs[t->nbinds] = t->run;
            t->binds[t->nbinds++] = let;
        }
    }
}

bool
cc_uses(Emit *e, const Let *let, Dim name)
{
    bool found = let_accesses(let) && dim_uses(e->cx, access_offset(e, let), name);
    for (int k = 0; k < let->nattrs && !let_accesses(let); k++) {
        const Attr *a = &let->attrs[k];
        found |= a->kind == ATTR_DIM && dim_uses(e->cx, a->d, name);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            found |= dim_uses(e->cx, a->dims[j], name);
        }
    }
    return found;
}

static void
use(Tile *t, const Value *v, int run)
{
    if (!literal_of(v) && v->def && let_is_inside(v->def, t->loop) && v->def->op != OP_buffer &&
        t->runs[v->id] != run) {
        t->crosses[v->id] = true;
    }
}

static void
find_crossings(Tile *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let)) {
            t->run++;
            find_crossings(t, let->body);
            if (let->op == OP_reduce) {
                const Let *last = let->body->n ? let->body->lets[let->body->n - 1] : NULL;
                use(t, let->body->rets[0], last && !loop_is(last) ? t->run : -1);
                t->crosses[let->res[0]->id] = true;
            }
            t->run++;
        }
        for (int j = 0; j < let->nargs; j++) {
            use(t, let->args[j], t->run);
        }
        for (int j = 0; j < t->nbinds; j++) {
            t->bind_crosses[j] |= t->bind_runs[j] != t->run &&
                                  cc_uses(t->e, let, t->binds[j]->sizes[0]);
        }
    }
}

void
cc_runs_find(Tile *t)
{
    Cx *cx = t->e->cx;
    t->crosses = cx_alloc(cx, (size_t)t->e->fn->nvalues * sizeof *t->crosses);
    t->runs = cx_alloc(cx, (size_t)t->e->fn->nvalues * sizeof *t->runs);
    number_runs(t, t->loop->body);
    t->run = 0;
    t->bind_crosses = cx_alloc(cx, ((size_t)t->nbinds + 1) * sizeof *t->bind_crosses);
    find_crossings(t, t->loop->body);
}

/* ---- one run ---- */

static bool
in_run(const Run *r, const Let *let)
{
    for (int k = r->from; k < r->to; k++) {
        if (r->blk->lets[k] == let) {
            return true;
        }
    }
    return false;
}

static void
import_value(Tile *t, const Run *r, const Value *v, bool *seen)
{
    if (!literal_of(v) && t->crosses[v->id] && !seen[v->id] && !in_run(r, v->def)) {
        const char *name = name_c(t->e, v);
        seen[v->id] = true;
        put(t->e, "const %s %s = %s_t[k];", type_c(v->type->dtype), name, name);
    }
}

static bool
run_uses(Tile *t, const Run *r, Dim name)
{
    for (int k = r->from; k < r->to; k++) {
        if (cc_uses(t->e, r->blk->lets[k], name)) {
            return true;
        }
    }
    return false;
}

void
cc_run_imports(Tile *t, const Run *r)
{
    Emit *e = t->e;
    bool *seen = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *seen);
    if (run_uses(t, r, loop_index(t->loop))) {
        put(e, "const int64_t %s = %s + k;", index_c(e, loop_index(t->loop)), t->at);
    }
    for (int k = r->from; k < r->to; k++) {
        for (int j = 0; j < r->blk->lets[k]->nargs; j++) {
            import_value(t, r, r->blk->lets[k]->args[j], seen);
        }
    }
    if (r->adds) {
        import_value(t, r, r->adds->ret, seen);
    }
    for (int k = 0; k < t->nbinds; k++) {
        const char *g = index_c(e, t->binds[k]->sizes[0]);
        if (t->bind_crosses[k] && !in_run(r, t->binds[k]) &&
            run_uses(t, r, t->binds[k]->sizes[0])) {
            put(e, "const int64_t %s = %s_t[k];", g, g);
        }
    }
}

/* The name of what the let leaves to other runs, a value or an index; or NULL. */
static const char *
left_by(Tile *t, const Let *let)
{
    const char *index = NULL;
    for (int k = 0; k < t->nbinds; k++) {
        index = t->binds[k] == let && t->bind_crosses[k] ? index_c(t->e, let->sizes[0]) : index;
    }
    return let->nres && t->crosses[let->res[0]->id] ? name_c(t->e, let->res[0]) : index;
}

static void
declare_arrays(Tile *t, const Run *r)
{
    Emit *e = t->e;
    for (int k = r->from; k < r->to; k++) {
        const Let *let = r->blk->lets[k];
        const char *name = left_by(t, let);
        if (name) {
            put(e, "%s %s_t[%d];", let->nres ? type_c(let->res[0]->type->dtype) : "int64_t", name,
                t->width);
        }
        if (let->op == OP_buffer) {
            cc_let(e, let);
        }
    }
}

/* What is the same for the whole tile, before the loop over it. */
static void
put_uniform(Tile *t, const Run *r)
{
    for (int k = r->from; k < r->to; k++) {
        if (let_has(r->blk->lets[k], MARK_uniform)) {
            cc_let(t->e, r->blk->lets[k]);
        }
    }
}

/* An index of each element that is out of range leaves the loop: see put_bind. */
static bool
may_leave(Tile *t, const Run *r)
{
    bool leaves = false;
    for (int k = r->from; k < r->to; k++) {
        const Let *let = r->blk->lets[k];
        leaves |= cc_may_end_phase(t->e, let) && !let_has(let, MARK_uniform);
    }
    return leaves;
}

void
cc_run(Tile *t, const Run *r)
{
    Emit *e = t->e;
    declare_arrays(t, r);
    put_uniform(t, r);
    if (!may_leave(t, r)) {
        put(e, "INDEPENDENT");
    }
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    cc_run_imports(t, r);
    for (int k = r->from; k < r->to; k++) {
        const Let *let = r->blk->lets[k];
        if (let->op != OP_buffer && !let_has(let, MARK_uniform)) {
            cc_let(e, let);
        }
        const char *name = left_by(t, let);
        if (name) {
            put(e, "%s_t[k] = %s;", name, name);
        }
    }
    if (r->adds && r->adds->index) {
        cc_arg_step(e, r->adds);
    } else if (r->adds) {
        const Reduction *a = r->adds;
        put(e, "%s_sum[k] = dlc_combine_%s(%s_sum[k], %s);", a->out, a->name, a->out,
            cc_term(e, a));
    }
    put_close(e);
}
