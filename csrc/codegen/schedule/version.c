/* Rows of a symbolic length: phases with a loop for each of a few lengths.
 *
 * What:     puts a phase into an if marked phase, a copy for each length that is frequent, and one
 *           for rows of reductions of at most one block; the last else has the phase as it was.
 * Requires: a scheduled function, in which steps of reductions over columns are marked.
 * Ensures:  nothing but speed: the same operations in the same order (V25).
 * How:      Across rows, in a tile of columns, an element of each row is a gather; where the
 *           distance is a number the compiler loads vectors and shuffles them.  The lengths are
 *           rows of machine.def.  Of a row in lanes the loop, the
 *           rest and what combines blocks go away; of any row of one block the last goes, and
 *           there such reductions prefetch nothing, as what they read is short.
 * Why not:  lengths of phases without such rows: across short rows each takes the C compiler as
 *           long as the first; of a row in lanes a quarter of that.  Of a reduction that is
 *           expensive, what combines blocks is little beside it.
 * Example:  if N <= 1024 phase {
 *             if max(N, 128 - N) <= 64 phase { for i in B .. } else { for i2 in B .. }
 *           } else {
 *             for i3 in B ..
 *           }
 */
#include <string.h>

#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

#define LENGTHS(name, unit, what, ...) static const int name[] = {__VA_ARGS__, 0};
#include "codegen/machine.def"

typedef struct {
    const Facts *facts;
    Dim across, along; /* the last distance of such a load, the first extent of such a reduction */
    Dim block; /* the first extent that may be one block */
} Found;

/* A phase that gets copies. */
typedef struct {
    Let *loop;
    Dim length; /* that is frequent; DIM_NONE: there is none */
    const int *lengths;
    Dim block;
} Chosen;

typedef struct {
    Chosen *all;
    int n;
} Choices;

/* ---- what is chosen ---- */

/* The loads of a reduction marked jam in a tile of columns. */
static void
find_loads(Found *found, const Let *reduce, const Let *tile)
{
    for (int k = 0; k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        const Step *step = load->op == OP_load ? facts_step(found->facts, load, loop_index(tile))
                                               : NULL;
        if (step && dim_is_name(found->facts->cx, step->step) &&
            !dim_has_index(found->facts->cx, step->step) &&
            dim_range(found->facts->cx, step->step).hi <= DLC_SHORT_ROW) {
            found->across = step->step;
        }
    }
}

/* A reduction in lanes that waits for its own steps, without an index: what combines blocks takes
 * as long as a short row. */
static bool
may_be_short(Cx *cx, const Let *loop)
{
    return loop->op == OP_reduce && op_info[let_op(loop)].rule != RULE_INDEX &&
           !let_has(loop, MARK_onehot) && loop_is_latency_bound(loop) &&
           !dim_has_index(cx, loop_extent(loop)) && may_be_one_block(cx, loop);
}

/* Is a condition on the extent one on a size symbol, which says whether there is one block? */
static bool
decides(Cx *cx, Dim extent)
{
    dim_assume(cx, extent, dim_int(cx, DLC_BLOCK));
    bool known = dim_range(cx, extent).hi <= DLC_BLOCK;
    dim_forget(cx);
    return known;
}

static bool
find_length(Let *loop, void *arg)
{
    Found *found = arg;
    Cx *cx = found->facts->cx;
    const Let *tile = loop_vector_around(loop);
    if (loop->op == OP_reduce && tile && let_has(loop, MARK_jam)) {
        find_loads(found, loop, tile);
    }
    if (may_be_short(cx, loop)) {
        Dim extent = loop_extent(loop);
        found->along = found->along == DIM_NONE && dim_is_name(cx, extent) ? extent : found->along;
        found->block = found->block == DIM_NONE && decides(cx, extent) ? extent : found->block;
    }
    return true;
}

static void
choose(const PhaseView *phase, const void *arg)
{
    Choices *choices = *(Choices *const *)arg;
    Found found = {.facts = phase->facts};
    if (let_has(phase->loop, MARK_near)) {
        return;
    }
    phase_visit_loops(phase, find_length, &found);
    bool across = found.across != DIM_NONE;
    if (!across && found.along == DIM_NONE && found.block == DIM_NONE) {
        return;
    }
    choices->all = cx_grow(phase->fn->cx, choices->all, choices->n, sizeof *choices->all);
    choices->all[choices->n++] = (Chosen){.loop = phase->loop,
                                          .length = across ? found.across : found.along,
                                          .lengths = across ? across_rows : along_rows,
                                          .block = found.block};
}

/* ---- making it ---- */

Let *
choice_new(Fn *fn, Block *parent, Op op, int nattrs, const Attr *attrs)
{
    Let *choice = let_new(fn, op, 0, NULL, nattrs, attrs);
    choice->parent = parent;
    choice->body = cx_alloc(fn->cx, sizeof *choice->body);
    choice->body->owner = choice;
    return choice;
}

static void
take_prefetches(Let *let)
{
    const Marks prefetches = MARK_prefetch | MARK_prefetch_rows | MARK_beyond | MARK_prefetch_call |
                             MARK_alone;
    for (int k = 0; let->body && k < let->body->n; k++) {
        Let *inner = let->body->lets[k];
        bool ahead = let_has(inner, MARK_prefetch) || let_has(inner, MARK_prefetch_rows);
        if (ahead && let->op == OP_reduce && loop_is_latency_bound(let)) {
            let_mark(inner, prefetches, false);
        }
        take_prefetches(inner);
    }
}

/* Puts a copy of the loop before it, for sizes of which left <= right is so, if fuel allows.  The
 * loop stands in the else then. */
static Let *
put_copy(Fn *fn, Let *loop, Dim left, Dim right)
{
    Cx *cx = fn->cx;
    Block *parent = loop->parent;
    if (!fuel_spend(cx)) {
        return NULL;
    }
    Attr attrs[] = {attr_dim(cx, "left", left), attr_dim(cx, "right", right)};
    Let *choice = choice_new(fn, parent, OP_if, 2, attrs);
    Let *other = choice_new(fn, parent, OP_else, 0, NULL);
    let_take_marks(cx, choice);
    let_mark(choice, MARK_phase, true);
    Let *copy = let_copy(fn, loop, choice->body);
    block_append(cx, choice->body, copy);
    block_append(cx, parent, other); /* room for one more */
    int at = 0;
    while (parent->lets[at] != loop) {
        at++;
    }
    memmove(parent->lets + at + 2, parent->lets + at + 1,
            (size_t)(parent->n - at - 2) * sizeof *parent->lets);
    parent->lets[at] = choice;
    parent->lets[at + 1] = other;
    block_append(cx, other->body, loop);
    return copy;
}

/* Copies of the loop for the lengths, whose text is the same but for the number: what is assumed
 * where the loop stands makes the conditions short, but must not make a copy simpler. */
static void
put_lengths(Fn *fn, Let *loop, const Chosen *chosen)
{
    Cx *cx = fn->cx;
    Dim left[sizeof across_rows / sizeof *across_rows];
    int assumed = let_assume(cx, loop);
    Range range = dim_range(cx, chosen->length);
    for (int k = 0; chosen->lengths[k]; k++) {
        Dim mirrored = dim_sub(cx, dim_int(cx, 2 * chosen->lengths[k]), chosen->length);
        left[k] = dim_max(cx, chosen->length, mirrored);
    }
    for (; assumed; assumed--) {
        dim_forget(cx);
    }
    for (int k = 0; chosen->lengths[k]; k++) {
        int length = chosen->lengths[k];
        if (length >= range.lo && length <= range.hi) {
            put_copy(fn, loop, left[k], dim_int(cx, length));
        }
    }
}

static void
make(Fn *fn, const Chosen *chosen)
{
    Dim most = dim_int(fn->cx, DLC_BLOCK);
    Let *block = chosen->block != DIM_NONE ? put_copy(fn, chosen->loop, chosen->block, most) : NULL;
    if (block) {
        take_prefetches(block);
    }
    if (chosen->length != DIM_NONE) {
        put_lengths(fn, block && chosen->lengths == along_rows ? block : chosen->loop, chosen);
    }
}

Fn *
rewrite_version(Fn *fn)
{
    Choices choices = {0}, *to = &choices;
    phases_visit(fn, choose, &to);
    for (int k = 0; k < choices.n; k++) {
        make(fn, &choices.all[k]);
    }
    if (choices.n) {
        facts_forget(fn);
    }
    return fn;
}
