/* Contractions: the loops of a product of two tensors, and of what is computed of its elements at once.
 *
 * What:     one phase for the values that want a contraction: parallel loops over batches, blocks of rows and
 *           panels of columns; in them a loop marked pack, which copies a panel of one operand, and for each
 *           tile of rows a loop marked micro, which multiplies the other operand's rows by the panel into a tile
 *           of sums, and loops over the tile which compute and store the targets.
 * Requires: a probe that has found one contraction, wanted at each element of the group's space.
 * Ensures:  the sums are those of the contraction whatever the tiles: their order is that of the mark fused.
 * How:      letters become loops by the steps that they advance the operands by.  The axis along which the first
 *           target lies in memory is that of the columns; its operand is the one that is packed, since the
 *           product of two numbers is the same either way round.  Letters of one class that advance everything as
 *           one axis would are one; of those that are left the last one is in the tiles, the others are loops
 *           around.  Summed letters have to be one: an operand where they are not is copied first.
 *           Rows are spread evenly: tiles have the same height, but for the last one.
 * Why not:  pack all of an operand first: it goes through the caches twice, and a panel that was just packed is
 *           still in one.  All rows of a tensor in one task: what is read of the other operand falls out of the
 *           caches before the next panel comes.
 * Example:  y = relu(contract x, w over="mk,nk->mn"): for r, for j parallel { for p { for l { panel = w } } pack;
 *           for t { for i { for l { tile = sum of x * panel } } micro; for i { for l vector { y = relu(tile) } } } }.
 */
#include <string.h>

#include "lower.h"

enum { BLOCK_TILES = 20 };      /* tiles of rows that a packed panel is used for, at most */

/* An operand: where its elements lie, over the names of the letters. */
typedef struct {
    Value *from;
    Dim at[MAX_RANK], offset;
} Factor;

typedef struct {
    Lower *lo;
    const Let *let;
    Contraction letters;
    Dim name[128];              /* of a letter: a bare index, or 0 where there is one element */
    bool turned;                /* the first operand is that of the columns */
    Factor a, b;                /* of rows and of columns */
    int nsum;
    Dim sum[MAX_RANK], sum_extent[MAX_RANK];    /* the summed letters of more than one element */
} Product;

/* ---- operands ---- */

/* Looks through views for memory; false: the operand is computed. */
static bool
find_memory(Lower *lo, const Value *v, const Dim *idx, Factor *f)
{
    Dim at[MAX_RANK], inner[MAX_RANK];
    memcpy(at, idx, (size_t)v->type->rank * sizeof *at);
    while (!lo->leaf[v->id]) {
        if (op_info[v->def->op].kind != KIND_VIEW) {
            return false;
        }
        index_operand(lo->cx, v->def, 0, at, inner);
        v = v->def->args[0];
        memcpy(at, inner, (size_t)v->type->rank * sizeof *at);
    }
    f->from = lo->leaf[v->id];
    memcpy(f->at, at, (size_t)v->type->rank * sizeof *at);
    f->offset = index_offset(lo->cx, f->from, at);
    return true;
}

/* Does the offset advance by constant steps along all letters? */
static bool
is_affine(Product *p, Dim offset)
{
    Dim steps[128], rest = offset;
    int n = 0;
    for (int k = 0; k < 128; k++) {
        if (p->name[k] && dim_is_name(p->lo->cx, p->name[k]) &&
            !dim_affine(p->lo->cx, rest, p->name[k], &steps[n++], &rest)) {
            return false;
        }
    }
    for (int k = 0; k < 128; k++) {
        for (int j = 0; j < n && p->name[k]; j++) {
            if (dim_uses(p->lo->cx, steps[j], p->name[k])) {
                return false;
            }
        }
    }
    return true;
}

static Dim
step_of(Cx *cx, Dim offset, Dim name)
{
    Dim step, rest;
    return dim_affine(cx, offset, name, &step, &rest) ? step : DIM_NONE;
}

/* Do the summed letters advance it as one would? */
static bool
is_one_sum(Product *p, Dim offset)
{
    Cx *cx = p->lo->cx;
    bool one = true;
    for (int k = 0; k + 1 < p->nsum && one; k++) {
        one = step_of(cx, offset, p->sum[k]) ==
              dim_mul(cx, step_of(cx, offset, p->sum[k + 1]), p->sum_extent[k + 1]);
    }
    return one;
}

/* The letters of the operand: those of the result first, then the summed ones in their order. */
static void
copy_strides(const Product *p, const Value *v, const char *letters, Dim *strides)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
    Dim step = dim_int(cx, 1);
    for (int k = c->nsum - 1; k >= 0; k--) {
        int ax = letter_axis(letters, v->type->rank, c->sum[k]);
        strides[ax] = step;
        step = dim_mul(cx, step, v->type->dims[ax]);
    }
    for (int ax = v->type->rank - 1; ax >= 0; ax--) {
        if (letter_axis(c->out, c->nout, letters[ax]) >= 0) {
            strides[ax] = step;
            step = dim_mul(cx, step, v->type->dims[ax]);
        }
    }
}

static void
find_factor(Product *p, Factor *f, int k)
{
    const char *letters = k ? p->letters.b : p->letters.a;
    Value *v = p->let->args[k];
    Dim idx[MAX_RANK], *strides = cx_alloc(p->lo->cx, MAX_RANK * sizeof *strides);
    for (int ax = 0; ax < v->type->rank; ax++) {
        idx[ax] = p->name[(int)letters[ax]];
    }
    if (!find_memory(p->lo, v, idx, f) || !is_affine(p, f->offset) || !is_one_sum(p, f->offset)) {
        Value *before = p->lo->leaf[v->id];
        copy_strides(p, v, letters, strides);
        group_materialise(p->lo, v, strides);
        find_memory(p->lo, v, idx, f);
        p->lo->leaf[v->id] = before;    /* who else reads it, in this kernel or in another one, does so as before */
    }
}

/* ---- letters ---- */

static bool
is_in(const char *letters, int n, char letter)
{
    return letter_axis(letters, n, letter) >= 0;
}

/* Names for the letters: those at which the result is wanted, and new ones.  False: it is not wanted at each element
 * of the space once. */
static bool
name_letters(Product *p, const Shape *s, const Dim *idx)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
    const Type *a = p->let->args[0]->type, *b = p->let->args[1]->type;
    int named = 0;
    for (int k = 0; k < c->nout; k++) {
        bool one = extent_is_one(cx, p->let->res[0]->type->dims[k]), ours = false;
        for (int j = 0; j < s->nall && !one; j++) {
            ours |= idx[k] == s->all[j];
        }
        for (int j = 0; j < k && !one; j++) {
            ours &= idx[k] != idx[j];
        }
        if (!one && !ours) {
            return false;
        }
        named += !one;
        p->name[(int)c->out[k]] = one ? dim_int(cx, 0) : idx[k];
    }
    for (int k = 0; k < c->nsum; k++) {
        Dim extent = letter_dim(c, a, b, c->sum[k]);
        bool one = extent_is_one(cx, extent);
        Dim name = one ? dim_int(cx, 0) : dim_index(cx, "k", extent);
        p->name[(int)c->sum[k]] = name;
        if (!one) {
            p->sum[p->nsum] = name;
            p->sum_extent[p->nsum++] = extent;
        }
    }
    return named == s->nall;
}

/* Is the letter along which the first target lies one of the first operand alone, or has the other none of its own? */
static bool
is_turned(const Product *p, const Probe *probe)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
    int own[2] = {0, 0}, beside = -1;
    for (int k = 0; k < c->nout; k++) {
        bool a = is_in(c->a, c->na, c->out[k]), b = is_in(c->b, c->nb, c->out[k]);
        Dim name = p->name[(int)c->out[k]];
        if (a != b && dim_is_name(cx, name)) {
            own[b]++;
            beside = dim_is(cx, step_of(cx, probe->offsets[0], name), 1) ? b : beside;
        }
    }
    return beside == 0 || (own[1] == 0 && own[0] > 0);
}

/* The letters of a class as loops: of both operands, of the first, of the second. */
static void
plan_class(const Product *p, const Probe *probe, const Dim *offsets, int noffsets, int class, Nest *nest)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
    Dim names[MAX_RANK], extents[MAX_RANK], *all = cx_alloc(cx, (size_t)(probe->noffsets + 2) * sizeof *all);
    int n = 0;
    for (int k = 0; k < c->nout; k++) {
        bool a = is_in(c->a, c->na, c->out[k]), b = is_in(c->b, c->nb, c->out[k]);
        Dim name = p->name[(int)c->out[k]];
        if ((a && b ? 0 : a ? 1 : 2) == class && dim_is_name(cx, name)) {
            names[n] = name;
            extents[n++] = dim_extent(cx, name);
        }
    }
    memcpy(all, probe->offsets, (size_t)probe->noffsets * sizeof *all);
    memcpy(all + probe->noffsets, offsets, (size_t)noffsets * sizeof *all);
    nest_plan(cx, nest, n, names, extents, probe->nstores, probe->noffsets + noffsets, all, NEST_KEEP);
}

/* ---- loops ---- */

/* What stands for the names in the loops. */
typedef struct { int n; Dim name[2 * MAX_RANK], by[2 * MAX_RANK]; } Renamed;

static void
rename_all(Cx *cx, const Renamed *r, int n, Dim *dims)
{
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < r->n; j++) {
            dims[k] = dim_replace(cx, dims[k], r->name[j], r->by[j]);
        }
    }
}

/* Opens the loops but for the last `inside` ones; the axes over all of them are added to what is renamed. */
static int
open_class(Lower *lo, const Nest *nest, int inside, Renamed *to)
{
    int first = to->n, opened = nest->nloops > inside ? nest->nloops - inside : 0;
    for (int ax = 0; ax < nest->naxes; ax++) {
        to->name[to->n] = nest->name[ax];
        to->by[to->n++] = nest->axis[ax];
    }
    for (int k = 0; k < opened; k++) {
        Dim index = lower_open(lo, "i", nest->count[k]);
        for (int j = first; j < to->n; j++) {
            to->by[j] = dim_replace(lo->cx, to->by[j], nest->index[k], index);
        }
    }
    return opened;
}

/* The extent of the loop that is in the tiles, 1 where there is none. */
static Dim
inner_extent(Cx *cx, const Nest *nest)
{
    return nest->nloops ? nest->count[nest->nloops - 1] : dim_int(cx, 1);
}

static void
put_inner(Cx *cx, const Nest *nest, Dim at, Renamed *r)
{
    for (int k = 0; k < r->n && nest->nloops; k++) {
        r->by[k] = dim_replace(cx, r->by[k], nest->index[nest->nloops - 1], at);
    }
}

static Dim
ceiling(Cx *cx, Dim n, Dim by)
{
    return dim_div(cx, dim_add(cx, n, dim_sub(cx, by, dim_int(cx, 1))), by);
}

/* Of a tile: rows / (rows / 14 rounded up), rounded up; it is 1 to 14, which is said so that proofs know it. */
static Dim
tile_height(Cx *cx, Dim rows)
{
    Dim one = dim_int(cx, 1), most = dim_int(cx, MICRO_MOST_ROWS);
    Dim tiles = dim_max(cx, one, ceiling(cx, rows, most));
    return dim_max(cx, one, dim_min(cx, most, ceiling(cx, rows, tiles)));
}

/* The loops of the tiles that are open: columns and rows of a panel and a tile. */
typedef struct {
    Dim rows, columns, sums;    /* extents of the loops in the tiles */
    Dim height, width;          /* of a tile */
    Dim block, panel, tile;     /* indices */
    Dtype wide;
} Tiles;

static Dim
first_row(Cx *cx, const Tiles *t)
{
    return dim_mul(cx, t->height, dim_add(cx, dim_mul(cx, t->block, dim_int(cx, BLOCK_TILES)), t->tile));
}

static Dim
first_column(Cx *cx, const Tiles *t)
{
    return dim_mul(cx, t->width, t->panel);
}

static Dim
open_columns(Lower *lo, const Tiles *t)
{
    Dim left = dim_sub(lo->cx, t->columns, first_column(lo->cx, t));
    return lower_open(lo, "l", dim_min(lo->cx, t->width, left));
}

static Dim
open_rows_of(Lower *lo, const Tiles *t)
{
    Dim left = dim_sub(lo->cx, t->rows, first_row(lo->cx, t));
    return lower_open(lo, "i", dim_min(lo->cx, t->height, left));
}

/* The summed letters as digits of one index. */
static void
put_sum(const Product *p, Dim at, Renamed *r)
{
    Cx *cx = p->lo->cx;
    Dim inner = dim_int(cx, 1);
    for (int k = p->nsum - 1; k >= 0; k--) {
        Dim digit = dim_div(cx, at, inner);
        r->name[r->n] = p->sum[k];
        r->by[r->n++] = k ? dim_mod(cx, digit, p->sum_extent[k]) : digit;
        inner = dim_mul(cx, inner, p->sum_extent[k]);
    }
}

static Value *
load_factor(const Product *p, const Factor *f, const Renamed *names, Dim sum, Dtype wide)
{
    Dim at[MAX_RANK];
    Renamed all = *names;
    put_sum(p, sum, &all);
    memcpy(at, f->at, sizeof at);
    rename_all(p->lo->cx, &all, f->from->type->rank, at);
    return lower_cast(p->lo, lower_load_here(p->lo, f->from, at), wide);
}

static Value *
pack_panel(const Product *p, const Tiles *t, const Nest *columns, const Renamed *names)
{
    Lower *lo = p->lo;
    Renamed all = *names;
    Dim dims[] = {t->sums, t->width};
    Value *panel = lower_buffer(lo, lo->depth, t->wide, 2, dims);
    Dim at[] = {lower_open(lo, "p", t->sums), open_columns(lo, t)};
    put_inner(lo->cx, columns, dim_add(lo->cx, first_column(lo->cx, t), at[1]), &all);
    Value *v = load_factor(p, &p->b, &all, at[0], t->wide);
    lower_store(lo, panel, at, v);
    lower_close(lo);
    loop_mark(lower_close(lo), MARK_pack, true);
    return panel;
}

static Value *
multiply_tile(const Product *p, const Tiles *t, const Nest *rows, const Renamed *names, Value *panel)
{
    Lower *lo = p->lo;
    Renamed all = *names;
    Dim dims[] = {dim_int(lo->cx, MICRO_MOST_ROWS), t->width};
    Value *tile = lower_buffer(lo, lo->depth, t->wide, 2, dims);
    Dim at[] = {open_rows_of(lo, t), open_columns(lo, t)};
    put_inner(lo->cx, rows, dim_add(lo->cx, first_row(lo->cx, t), at[0]), &all);
    Dim sum = lower_open(lo, "p", t->sums);
    Value *x = load_factor(p, &p->a, &all, sum, t->wide);
    Value *y = lower_load_here(lo, panel, (Dim[]){sum, at[1]});
    Value *v = lower_close_reduce(lo, OP_sum, MARK_fused, lower_combine(lo, OP_mul, x, y));
    lower_store(lo, tile, at, v);
    lower_close(lo);
    loop_mark(lower_close(lo), MARK_micro, true);
    return tile;
}

/* The targets at the elements of the tile. */
static void
store_tile(const Product *p, const Group *g, const Tiles *t, const Nest *rows, const Nest *columns,
           const Renamed *names)
{
    Lower *lo = p->lo;
    Space space = {0};
    Dim outer[MAX_RANK];
    Renamed all = *names;
    lo->tile_at[0] = open_rows_of(lo, t);
    lo->tile_at[1] = open_columns(lo, t);
    put_inner(lo->cx, rows, dim_add(lo->cx, first_row(lo->cx, t), lo->tile_at[0]), &all);
    put_inner(lo->cx, columns, dim_add(lo->cx, first_column(lo->cx, t), lo->tile_at[1]), &all);
    for (int k = 0; k < all.n; k++) {
        space.outer[space.nouter] = all.name[k];
        outer[space.nouter++] = all.by[k];
    }
    group_store(lo, g, 0, g->ntargets, &space, outer, NULL);
    group_close(lo, 2);
}

/* A loop, if it has more than one iteration or has to stand for the phase. */
static Dim
open_some(Lower *lo, const char *stem, Dim extent, bool always, int *opened)
{
    if (!always && extent_is_one(lo->cx, extent)) {
        return dim_int(lo->cx, 0);
    }
    ++*opened;
    return lower_open(lo, stem, extent);
}

static void
put_product(const Product *p, const Group *g, const Probe *probe)
{
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    Nest batch, rows, columns;
    Renamed names = {0};
    Dim offsets[] = {p->a.offset, p->b.offset}, most = dim_int(cx, BLOCK_TILES), sums = dim_int(cx, 1);
    plan_class(p, probe, offsets, 2, 0, &batch);
    plan_class(p, probe, offsets, 1, p->turned ? 2 : 1, &rows);
    plan_class(p, probe, offsets + 1, 1, p->turned ? 1 : 2, &columns);
    for (int k = 0; k < p->nsum; k++) {
        sums = dim_mul(cx, sums, p->sum_extent[k]);
    }
    Dtype wide = dtype_info[p->let->args[0]->type->dtype].compute;
    Tiles t = {.rows = inner_extent(cx, &rows), .columns = inner_extent(cx, &columns), .sums = sums, .wide = wide,
               .width = dim_int(cx, MICRO_ROW_BYTES / dtype_info[wide].bytes)};
    t.height = tile_height(cx, t.rows);
    Dim tiles = ceiling(cx, t.rows, t.height);
    int opened = open_class(lo, &batch, 0, &names) + open_class(lo, &rows, 1, &names) +
                 open_class(lo, &columns, 1, &names);
    t.block = open_some(lo, "r", ceiling(cx, tiles, most), false, &opened);
    t.panel = open_some(lo, "j", ceiling(cx, t.columns, t.width), opened == 0, &opened);
    Value *panel = pack_panel(p, &t, &columns, &names);
    lo->outer = lo->depth;
    Dim left = dim_sub(cx, tiles, dim_mul(cx, most, t.block));
    t.tile = open_some(lo, "t", dim_min(cx, most, left), false, &opened);
    lo->tile = multiply_tile(p, &t, &rows, &names, panel);
    store_tile(p, g, &t, &rows, &columns, &names);
    group_close(lo, opened);
}

bool
group_contract(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    Product p = {.lo = lo, .let = probe->contract, .letters = let_contraction(probe->contract)};
    Probe own = *probe;
    bool alone = !probe->nsites && !probe->nscans && probe->turns == DIM_NONE && probe->cut == DIM_NONE &&
                 !probe->apart && probe->ncontracts == 1;
    if (!alone || !name_letters(&p, s, probe->contract_at)) {
        return false;
    }
    p.turned = is_turned(&p, probe);
    find_factor(&p, p.turned ? &p.b : &p.a, 0);
    find_factor(&p, p.turned ? &p.a : &p.b, 1);
    lo->probe = &own;
    lo->nests = (Map){0};
    put_product(&p, g, probe);
    return true;
}
