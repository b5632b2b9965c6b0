/* The runs of lets of a vector loop, between the loops in it, and what they leave to one another.
 *
 * How:      Runs are numbered in the order of the text.  What is used in another run than the one
 *           that makes it crosses: a target that runs each for a whole tile keeps it in an array.
 */
#include "facts.h"
#include "loops.h"

bool
facts_uses(const Facts *facts, const Let *let, Dim name)
{
    bool found = let_accesses(let) && dim_uses(facts->cx, facts_access(facts, let)->offset, name);
    for (int k = 0; k < let->nattrs && !let_accesses(let); k++) {
        const Attr *a = &let->attrs[k];
        found |= a->kind == ATTR_DIM && dim_uses(facts->cx, a->d, name);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            found |= dim_uses(facts->cx, a->dims[j], name);
        }
    }
    return found;
}

static void
number_runs(Straight *t, int *run, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let)) {
            ++*run;
            number_runs(t, run, let->body);
            ++*run;
        }
        for (int j = 0; j < let->nres; j++) {
            t->runs[let->res[j]->id] = *run;
        }
        if (let->op == OP_bind) {
            t->binds = cx_grow(t->facts->cx, t->binds, t->nbinds, sizeof *t->binds);
            t->bind_runs = cx_grow(t->facts->cx, t->bind_runs, t->nbinds, sizeof *t->bind_runs);
            t->bind_runs[t->nbinds] = *run;
            t->binds[t->nbinds++] = let;
        }
    }
}

static void
use(Straight *t, const Value *v, int run)
{
    if (!literal_of(v) && v->def && let_is_inside(v->def, t->loop) && v->def->op != OP_buffer &&
        t->runs[v->id] != run) {
        t->crosses[v->id] = true;
    }
}

static void
find_crossings(Straight *t, int *run, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let)) {
            ++*run;
            find_crossings(t, run, let->body);
            if (let->op == OP_reduce) {
                const Let *last = let->body->n ? let->body->lets[let->body->n - 1] : NULL;
                use(t, let->body->rets[0], last && !loop_is(last) ? *run : -1);
                t->crosses[let->res[0]->id] = true;
            }
            ++*run;
        }
        for (int j = 0; j < let->nargs; j++) {
            use(t, let->args[j], *run);
        }
        for (int j = 0; j < t->nbinds; j++) {
            t->bind_crosses[j] |= t->bind_runs[j] != *run &&
                                  facts_uses(t->facts, let, t->binds[j]->sizes[0]);
        }
    }
}

Straight
straight_runs(const Facts *facts, const Let *loop, int nvalues)
{
    Cx *cx = facts->cx;
    int run = 0;
    Straight t = {.facts = facts, .loop = loop};
    t.crosses = cx_alloc(cx, (size_t)nvalues * sizeof *t.crosses);
    t.runs = cx_alloc(cx, (size_t)nvalues * sizeof *t.runs);
    number_runs(&t, &run, loop->body);
    run = 0;
    t.bind_crosses = cx_alloc(cx, ((size_t)t.nbinds + 1) * sizeof *t.bind_crosses);
    find_crossings(&t, &run, loop->body);
    return t;
}

bool
straight_leaves(const Straight *t, const Let *let)
{
    bool leaves = let->op == OP_buffer || (let->nres == 1 && t->crosses[let->res[0]->id]);
    for (int k = 0; k < t->nbinds; k++) {
        leaves |= t->binds[k] == let && t->bind_crosses[k];
    }
    return leaves;
}

static bool
misses_array(const void *straight, const Let *let)
{
    return straight_leaves(straight, let) && !let_has(let, MARK_array);
}

bool
straight_in_arrays(const Straight *t)
{
    return !block_any(t->loop->body, misses_array, t);
}
