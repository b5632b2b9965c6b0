/* Many short rows as one long one, for an optimising C compiler.
 *
 * What:     the iterations of a loop around a vector loop of a few elements, so many together that
 *           the compiler has a loop to make vectors of.
 * Requires: independent iterations, whose results are contiguous in memory.
 * Ensures:  each element's operations as without; loads of so many rows before their stores.
 * How:      element k of the rows is iteration k of one loop.  What has the layout of the results
 *           is used where it is; what all rows share, and what a row has one of, stands in an array
 *           beside it, filled once, or for each block.  Results larger than caches are stored
 *           nontemporally (emit_cc_stream.c): the rows of a block are whole lines.
 * Why not:  rows one by one: compilers make vectors of 2, 3, 4, 8 or 16 elements, by shuffling
 *           them, and of other rows none.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3:
 *               for (i, j) m_flat[3*i + j] = m[j];
 *               for (; i_from + 64 <= hi; i_from += 64)
 *                   for (k < 192) y[3*i_from + k] = x[3*i_from + k] - m_flat[k];
 *
 * One thread of Zen 5, rows of n bytes, divided twice, and of n floats, subtracted twice; what
 * stays near a core, microseconds; of 64 MiB by two threads, milliseconds, one by one and together:
 *
 *   n     131072 bytes   65536 floats     64 MiB from bytes   from floats
 *   3     15   11        3.7  2.2         2.05  1.60          2.8  2.1
 *   5     163  11        26   2.6         10.9  1.57          3.5  2.2
 *   8     15   11        4.8  2.2
 *   12    165  13        25   3.6
 *   16    17   11        5.9  2.3 */
#include "emit_cc.h"

/* How the elements of the rows are stored: contiguous, the same for all rows, or otherwise. */
typedef enum { CONTIGUOUS, SHARED, OTHER } RowLayout;

/* The loop of short rows, and those around whose iterations together are the rows: one, or the
 * parallel ones. */
typedef struct {
    Emit *e;
    const Let *loop;
    const Let *const *levels;   /* outermost first */
    int nlevels;
    int64_t n;                  /* elements of a row */
    const char *i;              /* the innermost one's index */
} Flat;

static const Let *
row_loop(const Let *rows)
{
    const Let *found = NULL;
    for (int k = 0; k < rows->body->n; k++) {
        found = loop_is(rows->body->lets[k]) ? rows->body->lets[k] : found;
    }
    return found;
}

/* `rows` must outlive it. */
static Flat
flat_of(Emit *e, const Let *const *rows)
{
    int at = collapsed_at(e, *rows);
    Flat f = {.e = e,
              .loop = row_loop(*rows),
              .levels = at < 0 ? rows : (const Let *const *)e->collapsed};
    f.nlevels = at < 0 ? 1 : at + 1;
    f.i = index_c(e, loop_index(*rows));
    if (!f.loop || !dim_is_int(e->cx, loop_extent(f.loop), &f.n)) {
        f.n = 0;
    }
    return f;
}

/* ---- the lets of a row ---- */

/* The rows' own let number *k from level *level on, or NULL: there are no more. */
static const Let *
next_let(const Flat *f, int *level, int *k)
{
    for (; *level < f->nlevels; *k = 0, ++*level) {
        const Block *blk = f->levels[*level]->body;
        while (*k < blk->n) {
            const Let *let = blk->lets[(*k)++];
            if (!loop_is(let)) {
                return let;
            }
        }
    }
    return NULL;
}

#define FOR_ROW_LETS(let, f) \
    for (int level_ = 0, k_ = 0; let = next_let(f, &level_, &k_), let != NULL;)

/* Does the let's place, or the number that it is, differ from row to row? */
static bool
has_row(const Flat *f, const Let *let)
{
    const Let *bind;
    bool found = false;
    for (int k = 0; k < f->nlevels; k++) {
        found |= cc_uses(f->e, let, loop_index(f->levels[k]));
    }
    FOR_ROW_LETS(bind, f) { found |= bind->op == OP_bind && cc_uses(f->e, let, bind->sizes[0]); }
    return found;
}

/* The offset of the row's first element where the rows are contiguous, or DIM_NONE. */
static Dim
contiguous_row(const Flat *f, const Let *access)
{
    Cx *cx = f->e->cx;
    Dim stride = dim_int(cx, f->n);
    if (!let_accesses(access) || !is_contiguous(f->e, access, f->loop)) {
        return DIM_NONE;
    }
    for (int k = f->nlevels - 1; k >= 0; k--) {
        const Step *next = step_along(f->e, access, f->levels[k]);
        if (!next || next->step != stride) {
            return DIM_NONE;
        }
        stride = dim_mul(cx, stride, loop_extent(f->levels[k]));
    }
    const Let *bind;
    FOR_ROW_LETS(bind, f)
    {
        if (bind->op == OP_bind && dim_uses(cx, access_offset(f->e, access), bind->sizes[0])) {
            return DIM_NONE;
        }
    }
    return step_along(f->e, access, f->loop)->rest;
}

static RowLayout
layout_of(const Flat *f, const Let *let)
{
    return contiguous_row(f, let) != DIM_NONE ? CONTIGUOUS : has_row(f, let) ? OTHER : SHARED;
}

/* A load, or an index as a number, that an array stands for. */
static bool
has_array(const Flat *f, const Let *let)
{
    return let->op == OP_load
               ? layout_of(f, let) != CONTIGUOUS
               : let->op == OP_size && (has_row(f, let) || cc_uses(f->e, let, loop_index(f->loop)));
}

/* Does the loop use what the row's own let computes? */
static bool
is_spread(const Flat *f, const Let *let)
{
    for (int k = 0; k < f->loop->body->n && let->nres; k++) {
        const Let *user = f->loop->body->lets[k];
        for (int j = 0; j < user->nargs; j++) {
            if (user->args[j] == let->res[0]) {
                return true;
            }
        }
    }
    return false;
}

/* ---- which loops ---- */

/* Of a row, or of its loop: are its elements in tensors, and may loads of other rows go before
 * it? */
static bool
may_be_flat(const Flat *f, const Let *let, bool in_loop)
{
    bool known = let_is_plain(let) || let->op == (in_loop ? OP_store : OP_bind);
    return known && !(let_accesses(let) && is_private(f->e, let->args[0])) &&
           !(let->op == OP_store && layout_of(f, let) != CONTIGUOUS);
}

/* One loop in each of them, and nothing that has to stay in order. */
static bool
has_flat_lets(const Flat *f)
{
    const Let *let;
    bool plain = true, stores = false;
    FOR_ROW_LETS(let, f) { plain &= may_be_flat(f, let, false); }
    for (int k = 0; k < f->nlevels; k++) {
        plain &= loop_count(f->levels[k]->body) == 1 &&
                 !dim_has_index(f->e->cx, loop_extent(f->levels[k]));
    }
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
        shuffles |= is_spread(f, let) && f->n == 2;
        arrays += is_spread(f, let);
    }
    for (int k = 0; k < f->loop->body->n; k++) {
        let = f->loop->body->lets[k];
        shuffles |= has_array(f, let) && layout_of(f, let) == OTHER;
        arrays += has_array(f, let);
    }
    return arrays <= DLC_FLAT_ARRAYS && !(shuffles && (f->n < 5 || f->n == 8 || f->n == 16));
}

static bool
is_many(const Flat *f)
{
    Dim all = dim_int(f->e->cx, 1);
    for (int k = 0; k < f->nlevels; k++) {
        all = dim_mul(f->e->cx, all, loop_extent(f->levels[k]));
    }
    return dim_range(f->e->cx, all).hi >= 2 * DLC_FLAT;
}

bool
cc_is_flat(Emit *e, const Let *rows)
{
    if (cc_of(e)->jam || e->facts->updates || e->tile || e->rows || cc_of(e)->recurrences ||
        rows->op != OP_for || let_has(rows, MARK_vector) || let_has(rows, MARK_tile) ||
        let_has(rows, MARK_recurrences) || loop_is_recurrence(rows)) {
        return false;
    }
    Flat f = flat_of(e, &rows);
    int around = collapsed_at(e, rows) < 0 || collapsed_at(e, f.loop) >= 0 ? e->ncollapsed - 1
                                                                           : e->ncollapsed;
    if (f.n < 2 || f.n > DLC_FLAT_ROW || f.loop->op != OP_for || !let_has(f.loop, MARK_vector) ||
        loop_count(f.loop->body) || (collapsed_at(e, rows) >= 0 && f.nlevels != around)) {
        return false;
    }
    return has_flat_lets(&f) && is_many(&f) && is_worth_it(&f) && !cc_stencil_row(f.loop);
}

/* ---- their text ---- */

const char *
cc_flat_element(Emit *e, const Let *access)
{
    const Let *rows = access->parent->owner->parent->owner;
    Flat f = flat_of(e, &rows);
    Dim row = contiguous_row(&f, access);
    if (row == DIM_NONE) {
        return cx_format(e->cx, "%s_flat[k]", name_c(e, access->res[0]));
    }
    return streamed(e, access)
               ? cx_format(e->cx, "%s_to[k]", name_c(e, access->args[0]))
               : cx_format(e->cx, "%s[%s + k]", name_c(e, access->args[0]), offset_c(e, row));
}

/* The indices of the row `at`. */
static void
put_row(const Flat *f, const char *at)
{
    Emit *e = f->e;
    const char *rest = at;
    for (int k = f->nlevels - 1; k > 0; k--) {
        const char *name = index_c(e, loop_index(f->levels[k])),
                   *extent = dim_c(e, loop_extent(f->levels[k]));
        const char *over = k == 1 ? index_c(e, loop_index(f->levels[0]))
                                  : cx_format(e->cx, "t%d_rest", k);
        put(e, "const int64_t %s = (%s) / %s, %s = (%s) %% %s;", over, rest, extent, name, rest,
            extent);
        put(e, "(void)%s, (void)%s;", over, name);
        rest = over;
    }
    if (f->nlevels == 1) {
        put(e, "const int64_t %s = %s;", f->i, at);
    }
}

static void
put_array(const Flat *f, const Let *let)
{
    const Type *t = let->res[0]->type;
    bool spread = let->parent != f->loop->body;
    put(f->e, "%s %s_flat[%d];",
        let->op == OP_load && !spread ? storage_c(t->dtype) : type_c(t->dtype),
        name_c(f->e, let->res[0]), (int)f->n * DLC_FLAT + (spread ? DLC_FLAT_ROW : 0));
}

static void
put_element(const Flat *f, const Let *let, const char *element)
{
    put(f->e, "%s_flat[%d * row + %s] = %s;", name_c(f->e, let->res[0]), (int)f->n,
        index_c(f->e, loop_index(f->loop)), element);
}

/* A number of a row: as many of it as a vector has, the next row's overwrite those that are too
 * many. */
static void
put_spread(const Flat *f)
{
    Emit *e = f->e;
    const Let *let;
    FOR_ROW_LETS(let, f)
    {
        if (is_spread(f, let)) {
            put_open(e, "for (int64_t k = 0; k < %d; k++)", DLC_FLAT_ROW);
            put(e, "%s_flat[%d * row + k] = %s;", name_c(e, let->res[0]), (int)f->n,
                name_c(e, let->res[0]));
            put_close(e);
        }
    }
}

/* One row's elements of the arrays of what all rows share, or of what each has. */
static void
put_elements(const Flat *f, RowLayout layout)
{
    Emit *e = f->e;
    const Let *let;
    const char *j = index_c(e, loop_index(f->loop));
    put_open(e, "for (int64_t %s = 0; %s < %d; %s++)", j, j, (int)f->n, j);
    for (int k = 0; k < f->loop->body->n; k++) {
        let = f->loop->body->lets[k];
        if (has_array(f, let) && layout_of(f, let) == layout) {
            put_element(f, let,
                        let->op == OP_load ? cc_element(e, let) : dim_c(e, let_dim(let, "dim")));
        }
    }
    put_close(e);
}

/* Declares the arrays of one kind; are there any, does what fills them use the rows' index, and are
 * there others than of one number of each row? */
static bool
put_arrays(const Flat *f, RowLayout layout, bool *indexed, bool *others)
{
    const Let *let;
    bool any = false;
    *indexed = *others = false;
    FOR_ROW_LETS(let, f)
    {
        *indexed |= layout == OTHER && has_row(f, let);
        if (layout == OTHER && is_spread(f, let)) {
            put_array(f, let);
            any = true;
        }
    }
    for (int k = 0; k < f->loop->body->n; k++) {
        let = f->loop->body->lets[k];
        if (has_array(f, let) && layout_of(f, let) == layout) {
            put_array(f, let);
            any = *others = true;
            *indexed |= has_row(f, let);
        }
    }
    return any;
}

/* The arrays of one kind, filled; what a row gathers is prefetched. */
static void
put_filled(const Flat *f, RowLayout layout)
{
    Emit *e = f->e;
    const Let *let;
    bool indexed, others;
    if (!put_arrays(f, layout, &indexed, &others)) {
        return;
    }
    put_open(e, "for (int64_t row = 0; row < %d; row++)", DLC_FLAT);
    if (layout == OTHER) {
        if (indexed) {
            put_row(f, cx_format(e->cx, "%s_from + row", f->i));
        }
        FOR_ROW_LETS(let, f) { cc_let(e, let); }
        cc_gather_row(e, f->loop, "0", dim_c(e, loop_extent(f->loop)));
        put_spread(f);
    }
    if (others) {
        put_elements(f, layout);
    }
    put_close(e);
}

/* All elements of a block. */
static void
put_flat(const Flat *f)
{
    Emit *e = f->e;
    const Let *let;
    put(e, "LANES");
    put_open(e, "for (int64_t k = 0; k < %d; k++)", (int)f->n * DLC_FLAT);
    FOR_ROW_LETS(let, f)
    {
        if (is_spread(f, let)) {
            const char *name = name_c(e, let->res[0]);
            put(e, "const %s %s = %s_flat[k];", type_c(let->res[0]->type->dtype), name, name);
        }
    }
    for (int k = 0; k < f->loop->body->n; k++) {
        let = f->loop->body->lets[k];
        if (let->op == OP_size && has_array(f, let)) {
            put(e, "const int64_t %s = %s_flat[k];", name_c(e, let->res[0]),
                name_c(e, let->res[0]));
        } else {
            cc_let(e, let);
        }
    }
    put_close(e);
}

/* Blocks of rows, from <index>_from on. */
static void
put_blocks(const Flat *f, const char *to, bool streams)
{
    Emit *e = f->e;
    put_open(e, "if (%s_from + %d <= %s)", f->i, DLC_FLAT, to);
    put_filled(f, SHARED);
    put_open(e, "for (; %s_from + %d <= %s; %s_from += %d)", f->i, DLC_FLAT, to, f->i, DLC_FLAT);
    put_filled(f, OTHER);
    put_row(f, cx_format(e->cx, "%s_from", f->i));
    cc_of(e)->flat = f->loop;
    e->streaming = streams ? f->loop : NULL;
    cc_stream_block_open(e, f->loop, DLC_FLAT * (int)f->n);
    put_flat(f);
    cc_stream_block_close(e, f->loop, DLC_FLAT * (int)f->n);
    e->streaming = cc_of(e)->flat = NULL;
    put_close(e);
    put_close(e);
}

/* Rows one by one, from <index>_from to `to`. */
static void
put_rest(const Flat *f, const char *to)
{
    Emit *e = f->e;
    bool collapsed = collapsed_at(e, f->levels[0]) >= 0;
    const char *i = collapsed && e->ncollapsed > 1 ? "t" : f->i;
    put_open(e, "for (int64_t %s = %s_from; %s < %s; %s++)", i, f->i, i, to, i);
    if (collapsed && e->ncollapsed > 1) {
        put_indices(e, i);
    }
    cc_block(e, f->levels[0]->body);
    put_close(e);
}

/* Rows before the first one that begins a line of the cache: up to <index>_stop. */
static void
put_lead(const Flat *f, const char *place, const char *to)
{
    Emit *e = f->e;
    const char *i = f->i;
    put(e, "int64_t %s_stop = %s_from;", i, i);
    put_open(e, "for (; %s_stop < %s && %s_stop < %s_from + 16; %s_stop++)", i, to, i, i, i);
    put_row(f, cx_format(e->cx, "%s_stop", i));
    put_open(e, "if ((__UINTPTR_TYPE__)(%s) %% 64 == 0)", place);
    put(e, "break;");
    put_close(e);
    put_close(e);
}

void
cc_flat_loop(Emit *e, const Let *rows, const char *from, const char *to)
{
    Flat f = flat_of(e, &rows);
    put_scope(e);
    put(e, "int64_t %s_from = %s;", f.i, from);
    const char *place = cc_stream_block_place(e, f.loop);
    if (place) {
        put_lead(&f, place, to);
        put_open(e, "for (;;)");
        put_rest(&f, cx_format(e->cx, "%s_stop", f.i));
        put_open(e, "if (%s_stop >= %s)", f.i, to);
        put(e, "break;");
        put_close(e);
        put(e, "%s_from = %s_stop;", f.i, f.i);
        put_blocks(&f, to, true);
        put(e, "%s_stop = %s;", f.i, to);
        put_close(e);
    } else {
        put_blocks(&f, to, false);
        put_rest(&f, to);
    }
    put_close(e);
}
