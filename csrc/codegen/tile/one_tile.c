/* The loops of one tile of a product: packing for it, multiplying, storing.
 *
 * What:     loops that fill panels; loops that multiply rows by panels or by columns in place; the
 *           loops that compute and store the outputs of a tile.
 * Requires: the loops around the tile are open (order.c), and t has their indices.
 * Ensures:  the loops that fill panels and multiply have the form that schedule/micro.c selects.
 * How:      an element of an operand is read at the indices of the letters, in which the names of
 *           the letters are replaced by the indices of the loops.
 * Example:  order.c. */
#include <string.h>

#include "tile.h"

/* ---- names and indices ---- */

static void
put_inner(Cx *cx, const Nest *nest, Dim at, Renamed *r)
{
    for (int k = 0; k < r->n; k++) {
        r->by[k] = dim_replace(cx, r->by[k], nest->index[nest->n - 1], at);
    }
}

static void
put_sum(const Tiles *t, Dim at, Renamed *r)
{
    Cx *cx = t->p->out->cx;
    /* of a sum of one term it is a number */
    renamed_add(cx, r, t->p->sum, dim_div(cx, at, dim_int(cx, 1)));
}

static Dim
row_of(const Tiles *t, Dim i)
{
    Cx *cx = t->p->out->cx;
    Dim tile = dim_add(cx, dim_mul(cx, t->block, constant(t, t->size.block_tiles)), t->tile);
    return dim_add(cx, dim_mul(cx, t->size.height, tile), i);
}

static Dim
column_of(const Tiles *t, Dim l)
{
    Cx *cx = t->p->out->cx;
    return dim_add(cx, dim_mul(cx, t->size.group_columns, t->group), l);
}

static Value *
load_factor(const Tiles *t, const Factor *f, const Renamed *names, Dim sum, Dtype to)
{
    Builder *out = t->p->out;
    Dim at[MAX_RANK];
    Renamed all = renamed_copy(out->cx, names);
    put_sum(t, sum, &all);
    memcpy(at, f->at, sizeof at);
    dims_rename(out->cx, &all, f->from->type->rank, at);
    return builder_cast(out, load_here(out, f->from, at), to);
}

static Value *
load_of_columns(const Tiles *t, const Factor *f, Dim column, Dim sum, Dtype to)
{
    Renamed all = renamed_copy(t->p->out->cx, &t->names);
    put_inner(t->p->out->cx, &t->p->columns, column, &all);
    return load_factor(t, f, &all, sum, to);
}

static Value *
load_of_rows(const Tiles *t, Dim row, Dim sum, Dtype to)
{
    Renamed all = renamed_copy(t->p->out->cx, &t->names);
    put_inner(t->p->out->cx, &t->p->rows, row, &all);
    return load_factor(t, &t->p->a, &all, sum, to);
}

/* The row of a panel of whole sums that holds term number `sum`. */
static Dim
row_of_panel(const Tiles *t, Dim sum)
{
    const Factor *f = &t->p->b;
    Dim row = f->at[f->from->type->rank - 2];
    Renamed all = renamed_copy(t->p->out->cx, &t->names);
    put_sum(t, sum, &all);
    dims_rename(t->p->out->cx, &all, 1, &row);
    return row;
}

/* ---- extents ---- */

Dim
tile_rows(const Tiles *t)
{
    Cx *cx = t->p->out->cx;
    return dim_min(cx, t->size.height, dim_sub(cx, t->size.rows, row_of(t, constant(t, 0))));
}

Dim
tile_columns(const Tiles *t)
{
    Cx *cx = t->p->out->cx;
    return dim_min(cx, t->size.group_columns,
                   dim_sub(cx, t->size.columns, column_of(t, constant(t, 0))));
}

/* Opens a loop over the panels of the group if it has several.  *opened: whether it did. */
static Dim
open_panels(const Tiles *t, bool *opened)
{
    Cx *cx = t->p->out->cx;
    *opened = t->size.group_panels > 1;
    Dim left = extent_ceiling(cx, tile_columns(t), constant(t, t->size.width));
    return *opened
               ? builder_open(t->p->out, "q", dim_min(cx, constant(t, t->size.group_panels), left))
               : constant(t, 0);
}

/* Opens a loop over the columns of a panel of the group.  *column: the column within the group. */
static Dim
open_columns(const Tiles *t, Dim panel, Dim *column)
{
    Cx *cx = t->p->out->cx;
    Dim first = dim_mul(cx, constant(t, t->size.width), panel);
    Dim left = dim_sub(cx, t->size.columns, column_of(t, first));
    Dim l = builder_open(t->p->out, "l", dim_min(cx, constant(t, t->size.width), left));
    *column = dim_add(cx, first, l);
    return l;
}

Dim
tiles_sums_at_once(const Tiles *t)
{
    return t->size.chained && !t->p->total ? constant(t, CONTRACTION_CHAIN)
                                           : extent_of_buffer(t->p->out->cx, t->size.sums);
}

/* ---- packing ---- */

/* The number of the group's panel among those of the operand. */
static Dim
panel_of(const Tiles *t, Dim panel)
{
    Cx *cx = t->p->out->cx;
    Dim first = dim_mul(cx, t->size.group_columns, t->group);
    return dim_add(cx, dim_div(cx, first, constant(t, t->size.width)), panel);
}

void
tiles_pack(const Tiles *t, Dim first, Dim n)
{
    Builder *out = t->p->out;
    bool several;
    Dim column, panel = open_panels(t, &several);
    Value *filled = t->p->fill ? fill_buffer(t) : NULL;
    if (filled) {
        fill_put(t, filled, filled == t->buffer ? panel : constant(t, 0), panel_of(t, panel), first,
                 n);
    }
    if (!filled || filled != t->buffer) {
        Dim p = builder_open(out, "p", n), l = open_columns(t, panel, &column);
        Value *v = filled ? load_here(out, filled, (Dim[]){constant(t, 0), p, l})
                          : load_of_columns(t, &t->p->b, column_of(t, column),
                                            dim_add(out->cx, first, p), t->p->held);
        builder_store(out, t->buffer, (Dim[]){panel, p, l}, builder_cast(out, v, t->p->held));
        builder_close_all(out, 2);
    }
    builder_close_all(out, several);
}

void
tiles_fill_group(Tiles *t)
{
    const Product *p = t->p;
    Builder *out = p->out;
    const Type *all = p->b.from->type;
    bool several;
    Dim room[] = {constant(t, t->size.group_panels), all->dims[all->rank - 2],
                  all->dims[all->rank - 1]};
    t->buffer = builder_buffer(out, out->depth, p->held, 3, room);
    Dim panel = open_panels(t, &several);
    fill_put(t, t->buffer, panel, panel_of(t, panel), DIM_NONE, DIM_NONE);
    builder_close_all(out, several);
}

/* Packs rows of the tile, from `row` on, as if they were the columns of a panel. */
static Value *
pack_rows(const Tiles *t, Dim first, Dim n, Dim row, Dim rows)
{
    Builder *out = t->p->out;
    Dim room[] = {tiles_sums_at_once(t), constant(t, t->size.width)};
    Value *buffer = builder_buffer(out, t->around, t->p->held, 2, room);
    Dim p = builder_open(out, "p", n), i = builder_open(out, "i", rows);
    Value *v = load_of_rows(t, row_of(t, dim_add(out->cx, row, i)), dim_add(out->cx, first, p),
                            t->p->held);
    builder_store(out, buffer, (Dim[]){p, i}, v);
    builder_close_all(out, 2);
    return buffer;
}

/* ---- multiplying ---- */

/* Stores the sum of the loop that is open and closes the loops.  With `more` the tile's old value
 * is added. */
static void
store_sum(const Tiles *t, Value *tile, const Dim *at, Value *product, bool more, bool several)
{
    Builder *out = t->p->out;
    Value *v = builder_close_reduce(out, OP_sum, MARK_fused, product);
    if (more) {
        v = builder_combine(out, OP_add, load_here(out, tile, at), v);
    }
    builder_store(out, tile, at, v);
    builder_close_all(out, 2 + several);
}

Dim
tile_row(const Tiles *t, Dim i)
{
    Cx *cx = t->p->out->cx;
    return t->size.chained ? dim_add(cx, dim_mul(cx, constant(t, MICRO_MOST_ROWS), t->tile), i) : i;
}

static Dim
least_of(Cx *cx, Dim a, Dim b)
{
    return dim_le(cx, a, b) ? a : dim_le(cx, b, a) ? b : dim_min(cx, a, b);
}

static Dim
most_of(Cx *cx, Dim a, Dim b)
{
    return dim_le(cx, b, a) ? a : dim_le(cx, a, b) ? b : dim_max(cx, a, b);
}

/* The rows of the tile that are summed at the places whose loops are open: *n from *first on. */
static void
rows_summed(const Tiles *t, Dim *first, Dim *n)
{
    const Product *p = t->p;
    Cx *cx = p->out->cx;
    Dim to = tile_rows(t), tile = row_of(t, constant(t, 0));
    *first = constant(t, 0);
    for (const Let *let = p->places; let && let->op != OP_reduce; let = let->body->lets[0]) {
        if (let->op != OP_if) {
            continue;
        }
        bool from = let_dim(let, "right") == p->rows.index[p->rows.n - 1];
        Dim bound = let_dim(let, from ? "left" : "right");
        dims_rename(cx, &t->names, 1, &bound);
        bound = dim_sub(cx, bound, tile);
        if (from) {
            *first = least_of(cx, most_of(cx, *first, bound), to);
        } else {
            to = most_of(cx, *first, least_of(cx, to, dim_add(cx, bound, constant(t, 1))));
        }
    }
    *n = dim_sub(cx, to, *first);
}

void
tile_multiply(const Tiles *t, Value *tile, Dim first, Dim n, bool more)
{
    Builder *out = t->p->out;
    Dim row, rows, column;
    rows_summed(t, &row, &rows);
    Value *packed = t->size.rows_packed ? pack_rows(t, first, n, row, rows) : NULL;
    bool several;
    Dim i = builder_open(out, "i", rows), panel = open_panels(t, &several),
        l = open_columns(t, panel, &column);
    Dim p = builder_open(out, "p", n), sum = dim_add(out->cx, first, p);
    row = dim_add(out->cx, row, i);
    Dtype to = t->p->dtype;
    Value *x = packed ? builder_cast(out, load_here(out, packed, (Dim[]){p, i}), to)
                      : load_of_rows(t, row_of(t, row), sum, to);
    Dim packed_at[] = {panel, t->p->packs_groups ? row_of_panel(t, sum) : p, l};
    Value *y = t->buffer ? builder_cast(out, load_here(out, t->buffer, packed_at), to)
                         : load_of_columns(t, &t->p->b, column_of(t, column), sum, to);
    Dim to_row = t->p->total ? row : tile_row(t, row);
    store_sum(t, tile, (Dim[]){to_row, column}, builder_combine(out, OP_mul, x, y), more, several);
}

void
tile_multiply_unpacked(const Tiles *t, Value *tile)
{
    Builder *out = t->p->out;
    Dim i = builder_open(out, "i", tile_rows(t)), l = builder_open(out, "l", tile_columns(t)),
        p = builder_open(out, "p", t->size.sums);
    Value *x = load_of_rows(t, row_of(t, i), p, t->p->dtype),
          *y = load_of_columns(t, &t->p->b, column_of(t, l), p, t->p->dtype);
    store_sum(t, tile, (Dim[]){tile_row(t, i), l}, builder_combine(out, OP_mul, x, y), false,
              false);
}

void
tile_multiply_own(const Tiles *t, Value *tile)
{
    Builder *out = t->p->out;
    Renamed all = renamed_copy(t->p->out->cx, &t->names);
    Dim i = builder_open(out, "i", tile_rows(t)), l = builder_open(out, "l", tile_columns(t)),
        p = builder_open(out, "p", t->size.sums);
    put_inner(out->cx, &t->p->rows, row_of(t, i), &all);
    put_inner(out->cx, &t->p->columns, column_of(t, l), &all);
    Value *x = load_factor(t, &t->p->a, &all, p, t->p->dtype),
          *y = load_factor(t, &t->p->b, &all, p, t->p->dtype);
    store_sum(t, tile, (Dim[]){tile_row(t, i), l}, builder_combine(out, OP_mul, x, y), false,
              false);
}

/* Opens the loops over the elements of the tile.  names: those of the product at these. */
static void
open_elements(const Tiles *t, Renamed *names, Dim *i, Dim *l)
{
    Builder *out = t->p->out;
    *names = renamed_copy(out->cx, &t->names);
    *i = builder_open(out, "i", tile_rows(t));
    *l = builder_open(out, "l", tile_columns(t));
    put_inner(out->cx, &t->p->rows, row_of(t, *i), names);
    put_inner(out->cx, &t->p->columns, column_of(t, *l), names);
}

void
tile_store(const Tiles *t, const Epilogue *e, Value *tile)
{
    Renamed names;
    Dim i, l;
    open_elements(t, &names, &i, &l);
    e->put(e->arg, t->p->out, &names, tile, (Dim[]){tile_row(t, i), l});
    builder_close_all(t->p->out, 2);
}

void
tile_collect(const Tiles *t, const Epilogue *e, Value *tile, Value *totals)
{
    Renamed names;
    Dim i, l;
    open_elements(t, &names, &i, &l);
    e->collect(e->arg, t->p->out, &names, tile, (Dim[]){i, l}, totals, (Dim[]){tile_row(t, i), l});
    builder_close_all(t->p->out, 2);
}
