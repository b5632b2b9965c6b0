/* Random choices in the loops of a unit, between its rewrites and those of each target.
 *
 * What:     loops come to stand in an `if`, and copies of them in its `else`.  The condition
 *           compares sizes, indices of the loops around and numbers.  Whatever is chosen, the
 *           results are the same.
 * How:      a loop is put where it was in two ways: between the phases of a kernel, and in another
 *           loop.  The verifier sees the function after each change, and a change that it refuses
 *           is taken back.
 * Why not:  programs whose lowering has an `if`: few have one, and they have it in few places. */
#include "choices.h"

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "gen.h"
#include "ir/eval/eval.h"

/* Chances in percent; how large numbers are, and how many names a condition is drawn of. */
enum { CHOSEN = 30, SIZE = 50, MOST_NUMBER = 40, MAX_NAMES = 16 };

static uint64_t seed;

typedef struct {
    Fn *fn;
    uint64_t random;
    Let **loops;                /* that may come to stand in a choice */
    int n;
    Value **copies;             /* by Value.id of what is copied */
} Draw;

void
choices_use(uint64_t of)
{
    seed = of;
}

bool
choices_are_drawn(void)
{
    return seed != 0;
}

/* ---- copies ---- */

static Block *copy_block(Draw *d, const Block *blk, Let *owner);

static Value *
copy_of(const Draw *d, Value *v)
{
    return value_is_const(v) || !d->copies[v->id] ? v : d->copies[v->id];
}

static Let *
copy_let(Draw *d, const Let *let)
{
    Cx *cx = d->fn->cx;
    Value **args = cx_alloc(cx, (size_t)let->nargs * sizeof *args + 1);
    for (int k = 0; k < let->nargs; k++) {
        args[k] = copy_of(d, let->args[k]);
    }
    Attr *attrs = cx_copy(cx, let->attrs, (size_t)let->nattrs * sizeof *attrs);
    Let *copy = let_new(d->fn, let->op, let->nargs, args, let->nattrs, attrs);
    copy->loc = let->loc;
    copy->nsizes = let->nsizes;
    copy->sizes = let->sizes;
    for (int k = 0; k < let->nres; k++) {
        const Value *v = let->res[k];
        d->copies[v->id] = let_result(d->fn, copy, fn_fresh_name(d->fn, v->name), v->type,
                                      v->strides);
    }
    copy->body = let->body ? copy_block(d, let->body, copy) : NULL;
    return copy;
}

static Block *
copy_block(Draw *d, const Block *blk, Let *owner)
{
    Cx *cx = d->fn->cx;
    Block *copy = cx_alloc(cx, sizeof *copy);
    copy->owner = owner;
    for (int k = 0; k < blk->n; k++) {
        block_append(cx, copy, copy_let(d, blk->lets[k]));
    }
    copy->rets = cx_copy(cx, blk->rets, (size_t)blk->nrets * sizeof *copy->rets);
    copy->nrets = blk->nrets;
    for (int k = 0; k < blk->nrets; k++) {
        copy->rets[k] = copy_of(d, copy->rets[k]);
    }
    return copy;
}

/* ---- conditions ---- */

/* Names that a condition may have. */
typedef struct {
    Dim known[MAX_NAMES];
    int n;
    Cx *cx;
} DrawnFrom;

/* An index of a loop around the let, or a size. */
static void
see_name(void *arg, Dim name)
{
    DrawnFrom *known = arg;
    bool may = dim_extent(known->cx, name) == DIM_NONE && known->n < MAX_NAMES;
    for (int k = 0; k < known->n; k++) {
        may &= known->known[k] != name;
    }
    if (may) {
        known->known[known->n++] = name;
    }
}

/* The sizes of the kernel are those that its loops have: a unit has other kernels, too. */
static void
see_extents(DrawnFrom *known, const Let *let)
{
    if (loop_is(let)) {
        dim_names(known->cx, loop_extent(let), see_name, known);
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        see_extents(known, let->body->lets[k]);
    }
}

/* A size, an index of a loop around the let, or a number. */
static Dim
draw_size(Draw *d, const Let *let)
{
    DrawnFrom known = {.cx = d->fn->cx};
    const Let *loop = let_around(let), *outermost = let;
    for (; loop_is(loop) && known.n < MAX_NAMES; loop = let_around(loop)) {
        known.known[known.n++] = loop_index(loop);
        outermost = loop;
    }
    see_extents(&known, outermost);
    return known.n && chance(&d->random, SIZE) ? known.known[below(&d->random, known.n)]
                                               : dim_int(known.cx, below(&d->random, MOST_NUMBER));
}

/* ---- choices ---- */

static Let *
new_choice(Draw *d, Op op, int nattrs, const Attr *attrs)
{
    Cx *cx = d->fn->cx;
    Let *choice = let_new(d->fn, op, 0, NULL, nattrs,
                          cx_copy(cx, attrs, (size_t)nattrs * sizeof *attrs));
    choice->body = cx_alloc(cx, sizeof *choice->body);
    choice->body->owner = choice;
    return choice;
}

static void
verify_body(Cx *cx, void *fn)
{
    (void)cx;
    verify_fn(fn);
}

/* The let of the block becomes an if and its else. */
static void
choose(Draw *d, Let *let)
{
    Cx *cx = d->fn->cx;
    Block *blk = let->parent, before = *blk;
    Dim a = draw_size(d, let), b = draw_size(d, let);
    if (dim_is_int(cx, dim_sub(cx, a, b), NULL)) {
        return;
    }
    Attr attrs[] = {attr_dim(cx, "left", a), attr_dim(cx, "right", b)};
    Let *first = new_choice(d, OP_if, 2, attrs), *second = new_choice(d, OP_else, 0, NULL);
    block_append(cx, second->body, copy_let(d, let));
    *blk = (Block){.owner = before.owner, .rets = before.rets, .nrets = before.nrets};
    for (int k = 0; k < before.n; k++) {
        if (before.lets[k] != let) {
            block_append(cx, blk, before.lets[k]);
            continue;
        }
        block_append(cx, first->body, let);
        block_append(cx, blk, first);
        block_append(cx, blk, second);
    }
    if (!cx_try(cx, verify_body, d->fn)) {
        *blk = before;
        let->parent = blk;
    }
}

static void
see_loop(void *arg, Let *let)
{
    Draw *d = arg;
    if (let->op == OP_for && !loop_is_call(let_around(let)) && chance(&d->random, CHOSEN)) {
        d->loops = cx_grow(d->fn->cx, d->loops, d->n, sizeof *d->loops);
        d->loops[d->n++] = let;
    }
}

void
choices_draw(Fn *loops)
{
    Draw d = {.fn = loops, .random = sample_seed(seed)};
    if (!seed) {
        return;
    }
    fn_each_let(loops, see_loop, &d);
    for (int k = 0; k < d.n; k++) {
        d.copies = cx_alloc(loops->cx, (size_t)loops->nvalues * sizeof *d.copies);
        choose(&d, d.loops[k]);
    }
    facts_forget(loops);
}
