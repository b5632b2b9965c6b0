/* Vector loops around other loops: what is the same for a tile is computed once, and what one run
 * of lets leaves to another is in arrays.
 *
 * What:     hoist marks lets in such a loop `uniform` that do not depend on its iteration.
 *           carry marks values and indices `array` that are used behind a loop, and the vector loop
 *           `width`: so many iterations run each loop inside together.
 * Requires: a scheduled function.
 * Ensures:  each value as it was (V45, V53).
 * How:      lets between two loops run as one loop over the tile.  In such a run that looks up or
 *           updates no compiler takes the choices of an index out of the loop, or can tell that
 *           what is loaded is not written there: inside the loop an index made gcc gather each
 *           column separately.
 * Why not:  in other runs: a compiler does it there itself.  Before the vector loop: what is the
 *           same for its iterations may be different in each one of a loop inside.
 * Example:  rows that are added to a table, i along them: for i in N vector { for j in M {
 *               let k: i64 = load index[j] uniform  let [p] = bind k extent=V wrap=1 uniform
 *               let a: f32 = load x[j, i]  update sum table[p, i] = a } }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* The lets from..to-1 of a block in the vector loop, between two loops. */
typedef struct {
    Cx *cx;
    const Let *loop;
    const Block *blk;
    int from, to;
} Run;

static bool
is_in_run(const Run *r, const Let *let)
{
    for (int k = r->from; k < r->to; k++) {
        if (r->blk->lets[k] == let) {
            return true;
        }
    }
    return false;
}

/* Made outside of the vector loop, or uniform in the same run. */
static bool
is_same(const Run *r, const Let *from)
{
    return !from || !let_is_inside(from, r->loop) ||
           (let_has(from, MARK_uniform) && is_in_run(r, from));
}

/* Is the index another one for each element of the tile? */
static bool
varies(const void *arg, Dim name)
{
    const Run *r = arg;
    bool found = name == loop_index(r->loop);
    const Block *blk = r->blk;
    for (int n = r->to; !found && blk != r->loop->parent; n = blk->n) {
        for (int k = 0; k < n; k++) {
            const Let *bind = blk->lets[k];
            found |= bind->op == OP_bind && bind->sizes[0] == name && !is_same(r, bind);
        }
        blk = blk->owner->parent;
    }
    return found;
}

static bool
is_uniform(const Run *r, const Let *let)
{
    bool same = marks_of(let->op) & MARK_uniform &&
                !(let->op == OP_load && loop_writes(r->loop, let->args[0]));
    for (int k = 0; k < let->nargs && same; k++) {
        const Value *a = let->args[k];
        same = literal_of(a) || is_same(r, a->def);
    }
    for (int k = 0; k < let->nattrs && same; k++) {
        const Attr *a = &let->attrs[k];
        same = a->kind != ATTR_DIM || !dim_any_name(r->cx, a->d, varies, r);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            same = same && !dim_any_name(r->cx, a->dims[j], varies, r);
        }
    }
    return same;
}

static void
mark_run(const Run *r)
{
    bool looks = false;
    for (int k = r->from; k < r->to; k++) {
        looks |= r->blk->lets[k]->op == OP_update || r->blk->lets[k]->op == OP_bind;
    }
    for (int k = r->from; looks && k < r->to; k++) {
        Let *let = r->blk->lets[k];
        if (is_uniform(r, let) && fuel_spend(r->cx)) {
            let_take_marks(r->cx, let);
            let_mark(let, MARK_uniform, true);
        }
    }
}

static void
mark_block(Cx *cx, const Let *loop, const Block *blk)
{
    int from = 0;
    for (int k = 0; k <= blk->n; k++) {
        if (k == blk->n || loop_is(blk->lets[k])) {
            mark_run(&(Run){cx, loop, blk, from, k});
            from = k + 1;
        }
        if (k < blk->n && loop_is(blk->lets[k])) {
            mark_block(cx, loop, blk->lets[k]->body);
        }
    }
}

static bool
mark_loop(const PhaseView *phase, Let *loop)
{
    bool vector = loop->op == OP_for && let_has(loop, MARK_vector);
    if (vector && loop_count(loop->body)) {
        mark_block(phase->fn->cx, loop, loop->body);
    }
    return !vector;
}

Fn *
rewrite_hoist(Fn *fn)
{
    return loops_visit(fn, mark_loop);
}

/* ---- what the runs leave to one another ---- */

static void
mark_left(Cx *cx, const Straight *runs, const Block *blk, int width)
{
    for (int k = 0; k < blk->n; k++) {
        if (straight_leaves(runs, blk->lets[k])) {
            let_mark_with(cx, blk->lets[k], MARK_array, width);
        }
        if (blk->lets[k]->body) {
            mark_left(cx, runs, blk->lets[k]->body, width);
        }
    }
}

static bool
carry_loop(const PhaseView *phase, Let *loop)
{
    Cx *cx = phase->fn->cx;
    bool vector = loop->op == OP_for && let_has(loop, MARK_vector);
    if (vector && loop_count(loop->body) && fuel_spend(cx)) {
        const Straight runs = straight_runs(phase->facts, loop, phase->fn->nvalues);
        int width = loop_width(loop);
        let_mark_with(cx, loop, MARK_width, width);
        mark_left(cx, &runs, loop->body, width);
    }
    return !vector;
}

Fn *
rewrite_carry(Fn *fn)
{
    return loops_visit(fn, carry_loop);
}
