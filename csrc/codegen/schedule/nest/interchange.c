/* Loop interchange: sums of which those of many columns are computed together.
 *
 * What:     a loop over columns that begins with a short sum, of products or down rows, becomes
 *           three: one in which the sums of all columns begin, one over terms around one over
 *           columns, and one that does what followed the sum.  More columns than there is room for
 *           are split first.  Maxima and minima of rows are taken in the same way.
 * Requires: a scheduled function.
 * Ensures:  every bit: each sum has its order, and no iteration needs another one.
 * How:      compilers make vectors of the inner loop, since the columns of an operand are adjacent,
 *           and of no loop over terms, whose order is part of the program.  The array has as many
 *           sums as a row of a panel, so that they fit into registers; only where the number of
 *           columns is known are they there, so a whole row has loops of its own.  A loop that
 *           the target has a routine for stays, and one that it has none for is marked as one no
 *           more.
 * Why not:  longer sums: each part of them would need an array.  Two reductions one after the
 *           other: the first one would be an array that the second one reads.  Rows for synthesis:
 *           a last part of fewer columns has no constant bounds.
 * Example:  for j in 32 { let s: f32 = reduce sum p in 256 fused { .. } .. }  becomes
 *             let t: f32[32] = buffer registers
 *             for j0 in 32 vector { store t[j0] = 0.0 }
 *             for p0 in 256 { for j1 in 32 vector { .. let n: f32 = fma a, b, s  store t[j1] = n }}
 *             for j in 32 vector { let s: f32 = load t[j] .. }
 */
#include "codegen/loops/phase_use.h"
#include "nest.h"

/* ---- which loops ---- */

typedef struct {
    Fn *fn;
    const TargetInfo *target;
    const PhaseView *phase; /* at hand */
    Let **loops; /* found, and in n the room of each, and whether it has a choice */
    int *room;
    bool *choice;
    int n;
} Interchange;

static bool
is_parallel(const PhaseView *phase, const Let *loop)
{
    bool found = false;
    for (int k = 0; k < phase->nest.n; k++) {
        found |= phase->nest.parallel[k] == loop;
    }
    return found;
}

/* A sum down rows, whose terms are added one after the other, or an extreme of them: a compiler
 * loads those of adjacent columns at once. */
static bool
is_down_rows(const Interchange *all, const Let *loop, const Let *reduce)
{
    Cx *cx = all->fn->cx;
    Op op = let_op(reduce);
    bool adjacent = false;
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        adjacent |= load->op == OP_load &&
                    facts_row(all->phase->facts, load, loop_index(loop)) != DIM_NONE;
    }
    bool extreme = op == OP_amax || op == OP_amin;
    Dtype dtype = reduce->res[0]->type->dtype;
    return adjacent && (op == OP_sum || (extreme && dtype_info[dtype].class == CLASS_FLOAT)) &&
           !let_has(reduce, MARK_lanes) && !let_has(reduce, MARK_pairs) &&
           !let_has(reduce, MARK_onehot) && body_is_plain(reduce->body) &&
           dim_range(cx, loop_extent(reduce)).hi <= reduce_block(reduce);
}

/* The sums that an array has room for; 0: the loop is no such one. */
static int
columns_of(const Interchange *all, const Let *loop)
{
    Cx *cx = all->fn->cx;
    const Block *body = loop->body;
    const Let *sum = loop->op == OP_for && body->n > 1 ? body->lets[0] : NULL;
    if (!sum || sum->op != OP_reduce) {
        return 0;
    }
    Dtype dtype = sum->res[0]->type->dtype;
    int most = MICRO_ROW_BYTES / dtype_info[dtype].bytes;
    bool plain = dtype_info[dtype].compute == dtype && !loop_vector_around(loop) &&
                 !dim_uses(cx, loop_extent(sum), loop_index(loop)) && !loop_carries(cx, loop);
    if (let_has(sum, MARK_fused)) {
        plain &= !is_parallel(all->phase, loop) && loop_is(let_around(loop)) &&
                 dim_range(cx, loop_extent(loop)).hi <= most &&
                 dim_range(cx, loop_extent(sum)).hi <= CONTRACTION_CHAIN;
    } else {
        const Marks others = (Marks)let_int(loop, "marks") & ~(MARK_vector | MARK_parallel);
        plain &= let_has(loop, MARK_vector) && !others && !all->target->arrays &&
                 is_down_rows(all, loop, sum);
    }
    for (int k = 1; k < body->n; k++) {
        plain &= !loop_is(body->lets[k]) && !let_is_choice(body->lets[k]);
    }
    return plain ? most : 0;
}

/* ---- the loops ---- */

/* The terms, of so many columns. */
static void
put_terms(Fn *fn, Block *to, const Let *loop, Dim columns, Value *sums)
{
    const Let *sum = loop->body->lets[0];
    Let *terms = nest_loop(fn, sum, loop_extent(sum), 0),
        *across = nest_loop(fn, loop, columns, MARK_vector);
    const Dim names[] = {loop_index(sum), loop_index(loop)},
              by[] = {loop_index(terms), loop_index(across)};
    Block *body = across->body = block_copy(fn, sum->body, 2, names, by);
    Value *term = body->rets[0];
    body->owner = across;
    body->nrets = 0;
    if (let_has(sum, MARK_fused)) {
        const Let *product = term->def;
        body->n--;
        for (int k = place_of(product); k < body->n; k++) {
            body->lets[k] = body->lets[k + 1];
        }
        nest_step(fn, body, sum, product->args[0], product->args[1], sums, loop_index(across));
    } else {
        nest_combine(fn, body, sum, term, sums, loop_index(across));
    }
    block_append(fn->cx, terms->body, across);
    block_append(fn->cx, to, terms);
}

/* The loop itself does what followed the sum, which it loads. */
static void
load_sum(Fn *fn, Let *loop, Value *sums)
{
    Let *sum = loop->body->lets[0];
    Dim column = loop_index(loop);
    Attr attrs[] = {attr_dims(fn->cx, "at", 1, &column), attr_marks(fn->cx, 0)};
    Let *load = let_new(fn, OP_load, 1, &sums, 2, attrs);
    load->loc = sum->loc;
    load->parent = loop->body;
    load->nres = 1;
    load->res = sum->res;
    load->res[0]->def = load;
    loop->body->lets[0] = load;
    let_mark(loop, MARK_vector, true);
}

/* Where the number of columns is not known, and may be that of a whole row, are there loops for
 * such a row?  A circuit has one loop for all numbers; and an if stands in loops whose iterations
 * run one by one. */
static bool
has_choice(const Interchange *all, const Let *loop, int room)
{
    Cx *cx = all->fn->cx;
    bool may = !all->target->arrays && !dim_is_int(cx, loop_extent(loop), NULL) &&
               dim_range(cx, loop_extent(loop)).hi >= room;
    for (const Let *around = let_around(loop); loop_is(around); around = let_around(around)) {
        may = may && !let_has(around, MARK_tile) && !let_has(around, MARK_recurrences);
    }
    return may;
}

static void
put_loops(const Interchange *all, Block *to, Let *loop, Dim left, int room, bool choice)
{
    Fn *fn = all->fn;
    const Let *sum = loop->body->lets[0];
    Dim extent = loop_extent(loop), most = dim_int(fn->cx, room);
    Value *sums = nest_sums(fn, to, sum, room);
    nest_zeros(fn, to, sum, loop, extent, 1, &sums);
    if (choice) {
        put_terms(fn, nest_choice(fn, to, OP_if, most, left), loop, most, sums);
        put_terms(fn, nest_choice(fn, to, OP_else, DIM_NONE, DIM_NONE), loop, extent, sums);
    } else {
        put_terms(fn, to, loop, extent, sums);
    }
    load_sum(fn, loop, sums);
    block_append(fn->cx, to, loop);
}

/* The loop over a block of so many columns; *left: how many there are from its first one on. */
static Let *
block_of(Fn *fn, Let *loop, int size, Dim *left)
{
    Let *inner = nest_split(fn, loop, size);
    let_mark(loop, MARK_vector, false);
    let_mark(inner, MARK_parallel, false);
    *left = dim_sub(fn->cx, *left, dim_mul(fn->cx, loop_index(loop), dim_int(fn->cx, size)));
    return inner;
}

/* A loop over at most as many columns as there is room for.  An iteration that threads share is as
 * many columns as for any target. */
static Let *
columns_in(Fn *fn, Let *loop, int room, Dim *left)
{
    *left = loop_extent(loop);
    if (let_has(loop->body->lets[0], MARK_fused)) {
        return loop; /* it has few, perhaps by the condition of an if around */
    }
    if (let_has(loop, MARK_parallel)) {
        loop = block_of(fn, loop, loop_step(loop), left);
    }
    return dim_range(fn->cx, loop_extent(loop)).hi > room ? block_of(fn, loop, room, left) : loop;
}

static void
put_in_place(const Interchange *all, Let *around, int room, bool choice)
{
    Dim left;
    Let *loop = columns_in(all->fn, around, room, &left);
    choice = loop == around ? choice : has_choice(all, loop, room);
    Block *parent = loop->parent, old = *parent;
    parent->lets = NULL;
    parent->n = 0;
    for (int k = 0; k < old.n; k++) {
        if (old.lets[k] == loop) {
            put_loops(all, parent, loop, left, room, choice);
        } else {
            block_append(all->fn->cx, parent, old.lets[k]);
        }
    }
}

/* The loops around are the plain nest of a product no more: its sum is not there. */
static void
leave_nest(Let *loop)
{
    for (; loop && loop->op == OP_for; loop = loop->parent->owner) {
        let_mark(loop, MARK_batch | MARK_rows | MARK_columns, false);
    }
}

/* Loops of products that the target has no routine for, too. */
static void
find_loops(Interchange *all, Let *let)
{
    Cx *cx = all->fn->cx;
    if (target_calls(all->target, let)) {
        return;
    }
    if (loop_is_call(let)) {
        let_mark(let, MARK_pack | MARK_micro, false);
    }
    bool choice = let_enter(cx, let);
    int room = columns_of(all, let);
    if (room && fuel_spend(cx)) {
        all->loops = cx_grow(cx, all->loops, all->n, sizeof *all->loops);
        all->room = cx_grow(cx, all->room, all->n, sizeof *all->room);
        all->choice = cx_grow(cx, all->choice, all->n, sizeof *all->choice);
        all->choice[all->n] = has_choice(all, let, room); /* by what is so in the ifs around */
        if (let_has(let->body->lets[0], MARK_fused)) {
            leave_nest(let);
        }
        all->loops[all->n] = let;
        all->room[all->n++] = room;
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        find_loops(all, let->body->lets[k]);
    }
    if (choice) {
        dim_forget(cx);
    }
}

static void
find_in_phase(const PhaseView *phase, const void *arg)
{
    Interchange *all = *(Interchange *const *)arg;
    all->phase = phase;
    find_loops(all, phase->loop);
}

Fn *
rewrite_interchange(Fn *fn)
{
    Interchange *all = &(Interchange){.fn = fn, .target = target_of(fn)};
    phases_visit(fn, find_in_phase, &all);
    for (int k = 0; k < all->n; k++) {
        put_in_place(all, all->loops[k], all->room[k], all->choice[k]);
    }
    if (all->n) {
        facts_forget(fn);
    }
    return fn;
}
