/* The loops of one tile of a product: packing for it, multiplying, storing.
 *
 * What:     loops that fill panels; loops that multiply rows by panels or by columns in place; the
 *           loops that compute and store the outputs of a tile.
 * Requires: the loops around the tile are open (lower_tiles.c), and t has their indices.
 * Ensures:  the loops that fill panels and multiply have the form that schedule/micro.c selects.
 * How:      an element of an operand is read at the indices of the letters, in which the names of
 *           the letters are replaced by the indices of the loops.
 * Example:  lower_tiles.c. */
#include <string.h>

#include "lower_tile.h"

/* ---- names and indices ---- */

void
tiles_rename(Cx *cx, const Renamed *r, int n, Dim *dims)
{
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < r->n; j++) {
            dims[k] = dim_replace(cx, dims[k], r->name[j], r->by[j]);
        }
    }
}

static void
put_inner(Cx *cx, const Nest *nest, Dim at, Renamed *r)
{
    for (int k = 0; k < r->n && nest->nloops; k++) {
        r->by[k] = dim_replace(cx, r->by[k], nest->index[nest->nloops - 1], at);
    }
}

Dim
product_sum(const Product *p)
{
    Cx *cx = p->lo->cx;
    Dim sum = dim_int(cx, 0);
    for (int k = 0; k < p->nsum; k++) {
        sum = dim_add(cx, dim_mul(cx, sum, p->sum_extent[k]), p->sum[k]);
    }
    return sum;
}

static void
put_sum(const Tiles *t, Dim at, Renamed *r)
{
    const Product *p = t->p;
    product_digits(p, at, r->by + r->n);
    if (t->from != DIM_NONE) {
        r->by[r->n] = dim_add(p->lo->cx, r->by[r->n], t->from);
    }
    memcpy(r->name + r->n, p->sum, (size_t)p->nsum * sizeof *r->name);
    r->n += p->nsum;
}

void
product_digits(const Product *p, Dim at, Dim *digits)
{
    Cx *cx = p->lo->cx;
    Dim inner = dim_int(cx, 1);
    for (int k = p->nsum - 1; k >= 0; k--) {
        Dim digit = dim_div(cx, at, inner);
        digits[k] = k ? dim_mod(cx, digit, p->sum_extent[k]) : digit;
        inner = dim_mul(cx, inner, p->sum_extent[k]);
    }
}

static Dim
row_of(const Tiles *t, Dim i)
{
    Cx *cx = t->p->lo->cx;
    Dim tile = dim_add(cx, dim_mul(cx, t->block, constant(t, t->size.block_tiles)), t->tile);
    return dim_add(cx, dim_mul(cx, t->size.height, tile), i);
}

static Dim
column_of(const Tiles *t, Dim l)
{
    Cx *cx = t->p->lo->cx;
    return dim_add(cx, dim_mul(cx, t->size.group_columns, t->group), l);
}

static Value *
load_factor(const Tiles *t, const Factor *f, const Renamed *names, Dim sum)
{
    Lower *lo = t->p->lo;
    Dim at[MAX_RANK];
    Renamed all = *names;
    put_sum(t, sum, &all);
    memcpy(at, f->at, sizeof at);
    tiles_rename(lo->cx, &all, f->from->type->rank, at);
    return lower_cast(lo, lower_load_here(lo, f->from, at), t->p->dtype);
}

static Value *
load_of_columns(const Tiles *t, const Factor *f, Dim column, Dim sum)
{
    Renamed all = t->names;
    put_inner(t->p->lo->cx, &t->p->columns, column, &all);
    return load_factor(t, f, &all, sum);
}

static Value *
load_of_rows(const Tiles *t, Dim row, Dim sum)
{
    Renamed all = t->names;
    put_inner(t->p->lo->cx, &t->p->rows, row, &all);
    return load_factor(t, &t->p->a, &all, sum);
}

Dim
product_terms(const Product *p, int first)
{
    Dim terms = dim_int(p->lo->cx, 1);
    for (int k = first; k < p->nsum; k++) {
        terms = dim_mul(p->lo->cx, terms, p->sum_extent[k]);
    }
    return terms;
}

/* The row of a panel of whole sums that holds term number `sum` of the terms from t->from on. */
static Dim
row_of_panel(const Tiles *t, Dim sum)
{
    Cx *cx = t->p->lo->cx;
    return t->from == DIM_NONE ? sum
                               : dim_add(cx, sum, dim_mul(cx, t->from, product_terms(t->p, 1)));
}

/* ---- extents ---- */

Dim
tile_rows(const Tiles *t)
{
    Cx *cx = t->p->lo->cx;
    return dim_min(cx, t->size.height, dim_sub(cx, t->size.rows, row_of(t, constant(t, 0))));
}

Dim
tile_columns(const Tiles *t)
{
    Cx *cx = t->p->lo->cx;
    return dim_min(cx, t->size.group_columns,
                   dim_sub(cx, t->size.columns, column_of(t, constant(t, 0))));
}

/* Opens a loop over the panels of the group if it has several.  *opened: whether it did. */
static Dim
open_panels(const Tiles *t, bool *opened)
{
    Cx *cx = t->p->lo->cx;
    *opened = t->size.group_panels > 1;
    Dim left = extent_ceiling(cx, tile_columns(t), constant(t, t->size.width));
    return *opened ? lower_open(t->p->lo, "q", dim_min(cx, constant(t, t->size.group_panels), left))
                   : constant(t, 0);
}

/* Opens a loop over the columns of a panel of the group.  *column: the column within the group. */
static Dim
open_columns(const Tiles *t, Dim panel, Dim *column)
{
    Cx *cx = t->p->lo->cx;
    Dim first = dim_mul(cx, constant(t, t->size.width), panel);
    Dim left = dim_sub(cx, tile_columns(t), first);
    Dim l = lower_open(t->p->lo, "l", dim_min(cx, constant(t, t->size.width), left));
    *column = dim_add(cx, first, l);
    return l;
}

Dim
tiles_sums_at_once(const Tiles *t)
{
    return t->size.chained ? constant(t, CONTRACTION_CHAIN)
                           : extent_of_buffer(t->p->lo->cx, t->size.sums);
}

/* ---- packing ---- */

/* Computes the columns of a panel, for n terms of the sums from `first` on: in the panel, and
 * returns NULL, or in a buffer that stays in the first-level cache until it is packed. */
static Value *
compute_columns(const Tiles *t, Dim panel, Dim first, Dim n)
{
    const Product *p = t->p;
    Cx *cx = p->lo->cx;
    int k = !p->swapped;
    const Value *v = p->let->args[k];
    const char *letters = k ? p->letters->b : p->letters->a;
    Dim start[MAX_RANK], dims[MAX_RANK], room[MAX_RANK], width = constant(t, t->size.width);
    Dim column = dim_mul(cx, width, panel);
    Filled filled = {.buffer = t->buffer, .panel = panel, .column = -1, .start = start};
    Renamed all = t->names;
    put_inner(cx, &p->columns, column_of(t, column), &all);
    put_sum(t, first, &all);
    memcpy(start, p->b.at, sizeof start);
    tiles_rename(cx, &all, v->type->rank, start);
    for (int ax = 0; ax < v->type->rank; ax++) {
        bool summed = p->name[(int)letters[ax]] == p->sum[0],
             own = letter_class(p->letters, letters[ax]) != LETTER_OF_BOTH;
        Dim left = dim_min(cx, width, dim_sub(cx, tile_columns(t), column));
        bool columns = own && !summed && dim_is_name(cx, p->name[(int)letters[ax]]);
        dims[ax] = summed ? n : columns ? left : constant(t, 1);
        room[ax] = summed ? tiles_sums_at_once(t) : columns ? width : constant(t, 1);
        filled.term = summed ? ax : filled.term;
        filled.column = columns ? ax : filled.column;
    }
    return block_compute(p->lo, v, start, dims, room, &filled);
}

void
tiles_pack(const Tiles *t, Dim first, Dim n)
{
    Lower *lo = t->p->lo;
    Factor f = t->p->b;
    bool several;
    Dim column, panel = open_panels(t, &several);
    f.from = f.computed ? compute_columns(t, panel, first, n) : f.from;
    if (!f.from) {
        group_close(lo, several);
        return;
    }
    Dim p = lower_open(lo, "p", n), l = open_columns(t, panel, &column);
    Value *v = load_of_columns(t, &f, column_of(t, column), dim_add(lo->cx, first, p));
    lower_store(lo, t->buffer, (Dim[]){panel, p, l}, v);
    group_close(lo, 2 + several);
}

void
tiles_pack_group(Tiles *t)
{
    const Product *p = t->p;
    Lower *lo = p->lo;
    Tiles all = *t;
    bool several;
    int inside = 1;
    all.from = DIM_NONE;
    Dim sums = product_terms(p, 0);
    Dim room[] = {constant(t, t->size.group_panels), sums, constant(t, t->size.width)};
    t->buffer = lower_buffer(lo, lo->depth, p->dtype, 3, room);
    Dim column, panel = open_panels(t, &several), sum = product_open_sum(p, &inside),
                l = open_columns(t, panel, &column);
    lower_store(lo, t->buffer, (Dim[]){panel, sum, l},
                load_of_columns(&all, &p->b, column_of(t, column), sum));
    group_close(lo, inside + 1 + several);
}

/* Packs rows of the tile, from `row` on, as if they were the columns of a panel. */
static Value *
pack_rows(const Tiles *t, Dim first, Dim n, Dim row, Dim rows)
{
    Lower *lo = t->p->lo;
    Dim room[] = {tiles_sums_at_once(t), constant(t, t->size.width)};
    Value *buffer = lower_buffer(lo, lo->outer, t->p->dtype, 2, room);
    Dim p = lower_open(lo, "p", n), i = lower_open(lo, "i", rows);
    Value *v = load_of_rows(t, row_of(t, dim_add(lo->cx, row, i)), dim_add(lo->cx, first, p));
    lower_store(lo, buffer, (Dim[]){p, i}, v);
    group_close(lo, 2);
    return buffer;
}

/* ---- multiplying ---- */

/* Stores the sum of the loop that is open and closes the loops.  With `more` the tile's old value
 * is added. */
static void
store_sum(const Tiles *t, Value *tile, const Dim *at, Value *product, bool more, bool several)
{
    Lower *lo = t->p->lo;
    Value *v = lower_close_reduce(lo, OP_sum, MARK_fused, product);
    if (more) {
        v = lower_combine(lo, OP_add, lower_load_here(lo, tile, at), v);
    }
    lower_store(lo, tile, at, v);
    group_close(lo, 2 + several);
}

Dim
tile_row(const Tiles *t, Dim i)
{
    Cx *cx = t->p->lo->cx;
    return t->size.chained ? dim_add(cx, dim_mul(cx, constant(t, MICRO_MOST_ROWS), t->tile), i) : i;
}

Dim
tile_index_within(const Tiles *t, const Within *w, Dim row)
{
    Cx *cx = t->p->lo->cx;
    Dim at = t->p->at[(int)w->at];
    Renamed all = t->names;
    put_inner(cx, &t->p->rows, row, &all);
    tiles_rename(cx, &all, 1, &at);
    return at;
}

/* The rows of the tile that are summed at the places whose loops are open: *n from *first on. */
static void
rows_summed(const Tiles *t, Dim *first, Dim *n)
{
    const Product *p = t->p;
    Cx *cx = p->lo->cx;
    Dim to = tile_rows(t), row = dim_index(cx, "i", to);
    *first = constant(t, 0);
    for (int k = 0; k < p->nplaces; k++) {
        const Within *w = places_later(p, k);
        if (w) {
            Dim at = tile_index_within(t, w, row_of(t, row));
            places_rows(p, k, at, row, t->place[k], first, &to);
        }
    }
    *n = dim_sub(cx, to, *first);
}

void
tile_multiply(const Tiles *t, Value *tile, Dim first, Dim n, bool more)
{
    Lower *lo = t->p->lo;
    Dim row, rows, column;
    rows_summed(t, &row, &rows);
    Value *packed = t->size.rows_packed ? pack_rows(t, first, n, row, rows) : NULL;
    bool several;
    Dim i = lower_open(lo, "i", rows), panel = open_panels(t, &several),
        l = open_columns(t, panel, &column);
    Dim p = lower_open(lo, "p", n), sum = dim_add(lo->cx, first, p);
    row = dim_add(lo->cx, row, i);
    Value *x = packed ? lower_load_here(lo, packed, (Dim[]){p, i})
                      : load_of_rows(t, row_of(t, row), sum);
    Dim packed_at[] = {panel, t->p->packs_groups ? row_of_panel(t, sum) : p, l};
    Value *y = t->buffer ? lower_load_here(lo, t->buffer, packed_at)
                         : load_of_columns(t, &t->p->b, column_of(t, column), sum);
    store_sum(t, tile, (Dim[]){tile_row(t, row), column}, lower_combine(lo, OP_mul, x, y), more,
              several);
}

void
tile_multiply_unpacked(const Tiles *t, Value *tile)
{
    Lower *lo = t->p->lo;
    Dim i = lower_open(lo, "i", tile_rows(t)), l = lower_open(lo, "l", tile_columns(t)),
        p = lower_open(lo, "p", t->size.sums);
    Value *x = load_of_rows(t, row_of(t, i), p),
          *y = load_of_columns(t, &t->p->b, column_of(t, l), p);
    store_sum(t, tile, (Dim[]){tile_row(t, i), l}, lower_combine(lo, OP_mul, x, y), false, false);
}

void
tile_multiply_own(const Tiles *t, Value *tile)
{
    Lower *lo = t->p->lo;
    Renamed all = t->names;
    Dim i = lower_open(lo, "i", tile_rows(t)), l = lower_open(lo, "l", tile_columns(t)),
        p = lower_open(lo, "p", t->size.sums);
    put_inner(lo->cx, &t->p->rows, row_of(t, i), &all);
    put_inner(lo->cx, &t->p->columns, column_of(t, l), &all);
    Value *x = load_factor(t, &t->p->a, &all, p), *y = load_factor(t, &t->p->b, &all, p);
    store_sum(t, tile, (Dim[]){tile_row(t, i), l}, lower_combine(lo, OP_mul, x, y), false, false);
}

void
tile_store(const Tiles *t, const Epilogue *e, Value *tile)
{
    Lower *lo = t->p->lo;
    Renamed all = t->names;
    Dim i = lower_open(lo, "i", tile_rows(t)), l = lower_open(lo, "l", tile_columns(t));
    put_inner(lo->cx, &t->p->rows, row_of(t, i), &all);
    put_inner(lo->cx, &t->p->columns, column_of(t, l), &all);
    e->put(e->arg, lo, &all, tile, (Dim[]){tile_row(t, i), l});
    group_close(lo, 2);
}
