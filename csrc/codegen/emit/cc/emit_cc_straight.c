/* The lets between the loops of a tile, for an optimising compiler.
 *
 * What:     one C loop over the tile for each run of lets that stand between loops; see
 *           emit_cc_tile.c.
 * Requires: the tile's vector loop, whose inner loops are sequential.
 * Ensures:  each iteration's operations in their order.
 * How:      what one run leaves to another, values and looked-up indices, stands in an array of the
 *           tile, with _t behind its name (loops/straight.c).
 * Example:  a = x[i] * 2 before a loop that reads it: for k < w { a = x[i + k] * 2; a_t[k] = a; }
 */
#include "emit_cc_tile.h"

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

/* Is what it makes, a value or an index, in an array of the tile? */
static bool
is_in_array(const Tile *t, const Let *let)
{
    return let && let->op != OP_buffer && let_has(let, MARK_array) && let_is_inside(let, t->loop);
}

static void
import_value(Tile *t, const Run *r, const Value *v, bool *seen)
{
    if (!literal_of(v) && is_in_array(t, v->def) && !seen[v->id] && !in_run(r, v->def)) {
        const char *name = name_c(t->e, v);
        seen[v->id] = true;
        put(t->e, "const %s %s = %s_t[k];", type_c(v->type->dtype), name, name);
    }
}

static bool
run_uses(Tile *t, const Run *r, Dim name)
{
    for (int k = r->from; k < r->to; k++) {
        if (facts_uses(t->e->facts, r->blk->lets[k], name)) {
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
    for (int k = 0; k < t->s.nbinds; k++) {
        const char *g = index_c(e, t->s.binds[k]->sizes[0]);
        if (let_has(t->s.binds[k], MARK_array) && !in_run(r, t->s.binds[k]) &&
            run_uses(t, r, t->s.binds[k]->sizes[0])) {
            put(e, "const int64_t %s = %s_t[k];", g, g);
        }
    }
}

/* The name of what the let leaves to other runs, a value or an index; or NULL. */
static const char *
left_by(Tile *t, const Let *let)
{
    const char *name = let->op == OP_bind ? index_c(t->e, let->sizes[0])
                       : let->nres        ? name_c(t->e, let->res[0])
                                          : NULL;
    return let_has(let, MARK_array) && let->op != OP_buffer ? name : NULL;
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
