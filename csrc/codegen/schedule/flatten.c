/* Very short rows as one long one: blocks of rows run as one vector loop.
 *
 * What:     marks the loop around a vector loop of a few elements `flat`: so many of its iterations
 *           run together.  What needs an array beside them is marked `array`.
 * Requires: a scheduled function, in which stencils are marked.
 * Ensures:  each element's operations as without; loads of so many rows before their stores (V36).
 * How:      The rows' results are contiguous.  Operands that all rows share, and numbers of one
 *           row, need an array beside the block, filled once or for each block.  So few are
 *           allowed, and where compilers make vectors of a row by shuffling (2, 3, 4, 8 and 16
 *           elements), none that each row fills anew.
 * Why not:  rows one by one: compilers make vectors of 2, 3, 4, 8 or 16 elements, by shuffling
 *           them, and of other rows none.  At the end is what was measured.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3: for i in N parallel flat=64 flat_row=16 { .. }
 *
 * One thread of Zen 5, rows of n bytes, divided twice, and of n floats, subtracted twice; what
 * stays cached, microseconds; of 64 MiB by two threads, milliseconds, one by one and together:
 *
 *   n     131072 bytes   65536 floats     64 MiB from bytes   from floats
 *   3     15   11        3.7  2.2         2.05  1.60          2.8  2.1
 *   5     163  11        26   2.6         10.9  1.57          3.5  2.2
 *   8     15   11        4.8  2.2
 *   12    165  13        25   3.6
 *   16    17   11        5.9  2.3
 */
#include "codegen/loops/flat.h"
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Of a row, or of its loop: are its elements in tensors, and may loads of other rows go before
 * it? */
static bool
may_be_flat(const Flat *f, const Let *let, bool in_loop)
{
    bool known = let_is_plain(let) || let->op == (in_loop ? OP_store : OP_bind);
    return known && !(let_accesses(let) && facts_access(f->facts, let)->is_private) &&
           !(let->op == OP_store && flat_layout(f, let) != CONTIGUOUS);
}

/* One loop in each of them, and nothing that has to stay in order. */
static bool
has_flat_lets(const Flat *f)
{
    const Let *let;
    bool plain = true, stores = false;
    FOR_ROW_LETS(let, f) { plain &= may_be_flat(f, let, false); }
    plain &= loop_count(f->rows->body) == 1 && !dim_has_index(f->facts->cx, loop_extent(f->rows));
    for (int k = 0; k < f->loop->body->n; k++) {
        plain &= may_be_flat(f, f->loop->body->lets[k], true);
        stores |= f->loop->body->lets[k]->op == OP_store;
    }
    return plain && stores;
}

/* Few arrays; and what is there for each row is written once more, which is too much where a
 * compiler makes vectors of a row. */
static bool
is_worth_it(const Flat *f)
{
    const Let *let;
    int arrays = 0;
    bool shuffles = false;
    FOR_ROW_LETS(let, f)
    {
        shuffles |= flat_is_spread(f, let) && f->n == 2;
        arrays += flat_is_spread(f, let);
    }
    for (int k = 0; k < f->loop->body->n; k++) {
        let = f->loop->body->lets[k];
        shuffles |= flat_needs_array(f, let) && flat_layout(f, let) == OTHER;
        arrays += flat_needs_array(f, let);
    }
    return arrays <= DLC_FLAT_ARRAYS && !(shuffles && (f->n < 5 || f->n == 8 || f->n == 16));
}

static bool
is_many(const Flat *f)
{
    return dim_range(f->facts->cx, loop_extent(f->rows)).hi >= 2 * DLC_FLAT;
}

/* A stencil's rows are not: they are prefetched in strips. */
static bool
is_flat(const Flat *f)
{
    return f->n >= 2 && f->n <= DLC_FLAT_ROW && f->loop->op == OP_for &&
           let_has(f->loop, MARK_vector) && loop_count(f->loop->body) == 0 && has_flat_lets(f) &&
           is_many(f) && is_worth_it(f) && !loop_stencil_row(f->loop);
}

static void
mark_array(Cx *cx, Let *let, int64_t elements)
{
    let_take_marks(cx, let);
    let_mark_with(cx, let, MARK_array, elements);
}

/* Of what each row has one of, a row more: the last one is written as long as any may be. */
static void
mark_arrays(Cx *cx, const Flat *f, const Let *rows)
{
    int64_t elements = let_mark_value(rows, MARK_flat) * f->n;
    Let *let;
    FOR_ROW_LETS(let, f)
    {
        if (flat_is_spread(f, let)) {
            mark_array(cx, let, elements + let_mark_value(rows, MARK_flat_row));
        }
    }
    for (int k = 0; k < f->loop->body->n; k++) {
        if (flat_needs_array(f, f->loop->body->lets[k])) {
            mark_array(cx, f->loop->body->lets[k], elements);
        }
    }
}

/* Does it run as one loop with a parallel one around it? */
static bool
is_one_of_several(const Let *loop)
{
    const Let *around = let_around(loop);
    return let_has(loop, MARK_parallel) && loop_is(around) && let_has(around, MARK_parallel);
}

static void
mark_rows(const PhaseView *phase, Let *loop)
{
    Cx *cx = phase->fn->cx;
    Flat f = flat_of(phase->facts, loop);
    if (!let_has(loop, MARK_flat) && is_flat(&f) && !is_one_of_several(loop) &&
        !loop_carries(cx, loop) && fuel_spend(cx)) {
        let_mark_with(cx, loop, MARK_flat, DLC_FLAT);
        let_mark_with(cx, loop, MARK_flat_row, DLC_FLAT_ROW);
    }
    if (let_has(loop, MARK_flat) && f.n) {
        mark_arrays(cx, &f, loop);
    }
}

Fn *
rewrite_flatten(Fn *fn)
{
    return phases_visit_rows(fn, mark_rows);
}
