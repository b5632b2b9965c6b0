/* How indices go through the tile, for the libtcc tier.
 *
 * What:     how the dims of accesses and of `size` lets vary over the elements of a tile; the
 *           statements of lets that make indices.
 * Requires: what emit_tcc.c requires.
 * Ensures:  what is affine in the indices of the tile is never computed element by element.
 * How:      loops/grid.c decomposes a dim by the vector loop's index and, in a grid, by the index
 *           of its rows.
 */
#include "emit_tcc.h"

/* ---- the loop at hand ---- */

Dim
tcc_index(const Tcc *t)
{
    return t->at ? loop_index(t->at) : DIM_NONE;
}

int
tcc_width(const Tcc *t)
{
    const Let *loop = t->at->op == OP_for ? t->at : loop_vector_around(t->at);
    return t->grid ? (int)let_mark_value(t->grid, MARK_grid) : loop ? loop_width(loop) : DLC_BLOCK;
}

bool
tcc_at_rows(const Tcc *t)
{
    return t->grid && t->at == t->grid;
}

Dim
tcc_row(const Tcc *t)
{
    return t->grid && t->at != t->grid ? loop_index(t->grid) : DIM_NONE;
}

Dim
tcc_columns(const Tcc *t)
{
    return tcc_row(t) ? loop_extent(t->at) : dim_int(t->e->cx, 0);
}

/* ---- indices that vary ---- */

/* How an index varies that is bound to what is in memory. */
static IndexKind
bound_kind(const void *arg, Dim name)
{
    const Tcc *t = arg;
    const Place *bound = map_get(&t->indices, &name, 1);
    return !bound ? INDEX_SAME : bound->by_row ? INDEX_BY_ROW : INDEX_EACH;
}

static bool
differs(const void *arg, const Value *v)
{
    const Tcc *t = arg;
    return t->places[v->id].varies;
}

Tile
tcc_tile(const Tcc *t)
{
    return (Tile){t->e->cx, tcc_index(t), tcc_row(t), tcc_columns(t), bound_kind, differs, t};
}

bool
tcc_varies(const Tcc *t, Dim d)
{
    Tile tile = tcc_tile(t);
    return dim_varies(&tile, d);
}

bool
tcc_affine(Tcc *t, Dim d, Dim name, Dim *step, Dim *rest)
{
    Tile tile = tcc_tile(t);
    return dim_goes_by(&tile, d, name, step, rest);
}

Walk
tcc_walk(Tcc *t, Dim d)
{
    Tile tile = tcc_tile(t);
    return walk_of(&tile, d);
}

/* Is one of the four in an array that has it transposed? */
static bool
is_transposed(const Tcc *t, const Let *load)
{
    const Block *blk = load->parent;
    const Let *let = t->pairs[load->res[0]->id].in_place;
    bool found = false;
    for (int k = 0; k < blk->n && let; k++) {
        found |= blk->lets[k]->op == OP_load &&
                 t->pairs[blk->lets[k]->res[0]->id].in_place == let && panel_of(t->e, blk->lets[k]);
    }
    return found;
}

bool
tcc_in_place_rows(Tcc *t, const Let *load)
{
    Tile tile = tcc_tile(t);
    return !tcc_at_rows(t) && pairs_are_in_place(t->found, t->e->facts, &tile, load) &&
           !is_transposed(t, load);
}

typedef struct {
    Tcc *t;
    Dim d;
    const char *k;
} Declare;

static void
declare_index(void *arg, Dim name)
{
    Declare *d = arg;
    const Place *p = map_get(&d->t->indices, &name, 1);
    if (p) {
        bool by_row = tcc_row(d->t) && p->by_row;
        put(d->t->e, "int64_t %s = %s[%s];", index_c(d->t->e, name), p->at, by_row ? d->k : "k");
    }
}

void
tcc_each_row(Tcc *t, const Place *to, Dim d)
{
    Emit *e = t->e;
    const char *i = index_c(e, tcc_row(t));
    put_scope(e);
    put(e, "int64_t k, first = %s;", i);
    put_open(e, "for (k = 0; k < rows; k++)");
    put(e, "int64_t %s = first + k;", i);
    Declare declare = {t, d, "k"};
    dim_names(e->cx, d, declare_index, &declare);
    put(e, "%s[k] = %s;", to->at, offset_c(e, d));
    put_close(e);
    put_close(e);
}

void
tcc_each_dim(Tcc *t, const Place *to, Dim d)
{
    Emit *e = t->e;
    const char *i = index_c(e, tcc_row(t) ? tcc_row(t) : tcc_index(t)),
               *columns = tcc_row(t) ? dim_c(e, tcc_columns(t)) : "1";
    put_scope(e);
    put(e, "int64_t k, first = %s;", i);
    put_open(e, "for (k = 0; k < %s; k++)", t->n);
    if (tcc_row(t)) {
        put(e, "int64_t %s = first + k / %s, %s = k %% %s;", i, columns, index_c(e, tcc_index(t)),
            columns);
    } else {
        put(e, "int64_t %s = first + k;", i);
    }
    Declare declare = {t, d, cx_format(e->cx, "k / %s", columns)};
    dim_names(e->cx, d, declare_index, &declare);
    put(e, "%s[k] = %s;", to->at, offset_c(e, d));
    put_close(e);
    put_close(e);
}

/* ---- lets ---- */

/* Is the index i of the tile compared with one value alone, which is known here? */
static bool
leaves_to_comparison(Tcc *t, const Value *v)
{
    const Let *eq = t->pairs[v->id].user;
    if (eq) {
        Place other = tcc_place(t, eq->args[eq->args[0] == v], DT_i64);
        t->places[v->id].late = other.at && !other.varies;
    }
    return t->places[v->id].late;
}

bool
tcc_by_rows(Tcc *t, const Let *size)
{
    const Let *user = t->pairs[size->res[0]->id].user;
    Walk walk = tcc_walk(t, let_dim(size, "dim"));
    if (tcc_row(t) == DIM_NONE || !user || user->op == OP_eq || walk.kind != WALK_GRID ||
        !dim_is(t->e->cx, walk.step, 1) || !dim_is(t->e->cx, walk.row_step, 0)) {
        return false;
    }
    return tcc_place(t, user->args[user->args[0] == size->res[0]], DT_i64).by_row;
}

void
tcc_size(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0];
    Dim d = let_dim(let, "dim");
    Walk walk = tcc_walk(t, d);
    if (tcc_by_rows(t, let)) {
        t->places[v->id].late = true;
        return;
    }
    if (walk.kind == WALK_FLAT && dim_is(e->cx, walk.step, 1) && leaves_to_comparison(t, v)) {
        return;
    }
    Place out = tcc_room(t, DT_i64, walk.kind != WALK_ONE, name_c(e, v));
    if (walk.kind == WALK_ONE) {
        put(e, "%s = %s;", name_c(e, v), offset_c(e, d));
    } else if (walk.kind == WALK_FLAT) {
        put(e, "%s(%s, %s, %s, %s);", tcc_strip(t, "strip_iota_i64"), out.at,
            offset_c(e, walk.start), dim_c(e, walk.step), t->n);
    } else if (walk.kind == WALK_GRID) {
        put(e, "%s(%s, %s, %s, %s, rows, %s);", tcc_strip(t, "strip_iota_rows_i64"), out.at,
            offset_c(e, walk.start), dim_c(e, walk.row_step), dim_c(e, walk.step),
            dim_c(e, tcc_columns(t)));
    } else {
        tcc_each_dim(t, &out, d);
    }
    tcc_bind(t, v, out);
}

void
tcc_bind_index(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    Place v = tcc_place(t, let->args[0], DT_i64);
    const char *g = index_c(e, let->sizes[0]);
    Place out = tcc_room(t, DT_i64, v.varies, g);
    put_open(e, "if (%s(%s, %s, %d, %s, %s))", tcc_strip(t, "strip_check_index"), v.at,
             dim_c(e, let_dim(let, "extent")), let_int(let, "wrap") == INDEX_FROM_END, out.at,
             v.varies ? t->n : "1");
    put(e, "return %d;", bind_fault(let));
    put_close(e);
    if (v.varies) {
        Place *kept = map_at(e->cx, &t->indices, &let->sizes[0], 1, sizeof *kept);
        *kept = out;
        kept->by_row = tcc_at_rows(t);
        t->bound = cx_grow(e->cx, t->bound, t->nbound, sizeof *t->bound);
        t->bound[t->nbound++] = let->sizes[0];
    }
}
