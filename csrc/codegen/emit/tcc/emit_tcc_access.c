/* What the libtcc tier reads and writes: loads, stores, updates and the buffers of iterations.
 *
 * What:     the statements of lets that reach into tensors.
 * Requires: what emit_tcc.c requires.
 * Ensures:  a contiguous load costs nothing; what is strided or looked up becomes a tile.
 * How:      tcc_walk says how an offset goes through the tile: a constant step is the stride of a
 *           strip, rows are taken together, anything else is a tile of indices.
 * Example:  let v = load x at=[i, 2*j]:  strip_load_f32(tile4_0, x + N*i + 2*j, 2, w);
 */
#include <string.h>

#include "emit_tcc.h"

/* ---- loads and stores ---- */

static const char *
element(Tcc *t, const Value *buffer, Dim offset)
{
    return cx_format(t->e->cx, "%s + %s", name_c(t->e, buffer), dim_c(t->e, offset));
}

/* A buffer of each iteration: the tile's elements stand side by side; in a grid as its rows do. */
static bool
is_laned(Tcc *t, const Value *v)
{
    return t->at && buffer_is_private(v) && t->places[v->id].varies;
}

/* Of what a recurrence has come to, which its strip keeps. */
static bool
is_carried_access(const Let *let)
{
    return loop_is_recurrence(let_around(let)) && buffer_is_private(let->args[0]);
}

static const char *
laned_element(Tcc *t, const Value *v, Dim offset)
{
    if (t->grid) {
        return name_c(t->e, v);
    }
    return cx_format(t->e->cx, "%s + %s * %d", name_c(t->e, v), dim_c(t->e, offset), tcc_width(t));
}

Scattered
tcc_scattered(Tcc *t, const Value *buffer, Dim offset, bool rows)
{
    Emit *e = t->e;
    Dim scale, rest;
    for (int k = 0; k < t->nbound; k++) {
        if (dim_uses(e->cx, offset, t->bound[k]) &&
            tcc_affine(t, offset, t->bound[k], &scale, &rest) && !tcc_varies(t, rest)) {
            const Place *bound = map_get(&t->indices, &t->bound[k], 1);
            return (Scattered){element(t, buffer, rest), bound->at, dim_c(e, scale), {.slot = -1}};
        }
    }
    Place index = tcc_room(t, DT_i64, true, NULL);
    if (rows) {
        tcc_each_row(t, &index, offset);
    } else {
        tcc_each_dim(t, &index, offset);
    }
    return (Scattered){name_c(e, buffer), index.at, "1", index};
}

static void
put_gather(Tcc *t, const Let *let, Place *out, Dim offset)
{
    Emit *e = t->e;
    Dtype dtype = let->res[0]->type->dtype;
    Place raw = {.slot = -1};
    Scattered s = tcc_scattered(t, let->args[0], offset, false);
    const char *to = out->at;
    if (is_narrow(dtype)) {
        raw = tcc_room(t, dtype, true, NULL);
        to = raw.at;
    }
    put(e, "%s(%s, %s, %s, %s, %s);", tcc_strip(t, "strip_gather_%d", dtype_info[dtype].bytes), to,
        s.from, s.at, s.step, t->n);
    if (is_narrow(dtype)) {
        put(e, "%s(%s, %s, 1, %s);", tcc_strip(t, "strip_load_%s", moved_name(dtype)), out->at, to,
            t->n);
    }
    tcc_free(t, &s.index);
    tcc_free(t, &raw);
}

/* The strip of a family for elements as a tensor has them. */
static const char *
moving_strip(Tcc *t, const char *family, Dtype dtype)
{
    return is_narrow(dtype) ? tcc_strip(t, "strip_%s_%s", family, moved_name(dtype))
                            : tcc_strip(t, "strip_%s_%d", family, dtype_info[dtype].bytes);
}

Place
tcc_take(Tcc *t, const Let *load, const Walk *walk, const char *rows)
{
    Emit *e = t->e;
    const Value *from = load->args[0];
    Dtype dtype = from->type->dtype;
    Scattered s = {element(t, from, walk->start), "0", dim_c(e, walk->row_step), {.slot = -1}};
    if (walk->kind == WALK_ROWS) {
        s = tcc_scattered(t, from, walk->start, true);
    }
    Place out = tcc_room(t, dtype, true, NULL);
    put(e, "%s(%s, %s, %s, %s, %s, %s, %s);", moving_strip(t, "take", dtype), out.at, s.from, s.at,
        s.step, dim_c(e, walk->step), rows, dim_c(e, tcc_columns(t)));
    tcc_free(t, &s.index);
    return out;
}

/* What the load reads, where it reads along the tile by one step. */
static const char *
strided_element(Tcc *t, const Let *load, Walk *walk)
{
    const Value *from = load->args[0];
    Dim offset = access_offset(t->e, load);
    const char *panel = panel_of(t->e, load);
    bool laned = is_laned(t, from);
    if (panel || laned) {
        *walk = (Walk){WALK_FLAT, offset, dim_int(t->e->cx, 1), DIM_NONE};
        return laned ? laned_element(t, from, offset)
                     : cx_format(t->e->cx, "%s + %s", panel, panel_index(t->e, load));
    }
    *walk = tcc_walk(t, offset);
    return walk->kind <= WALK_FLAT ? element(t, from, walk->start) : NULL;
}

/* ---- elements in turn: several loads or stores are one strip ---- */

static bool
find_zip(Tcc *t, const Let *let, Zip *zip)
{
    Tile tile = tcc_tile(t);
    return !panel_of(t->e, let) && zip_find(t->e->facts, &tile, let, zip) && zip_is_marked(zip);
}

/* Loads: all of them in the place of the first. */
static bool
put_unzip(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    Zip zip;
    if (!find_zip(t, let, &zip)) {
        return false;
    }
    Text list = {.cx = e->cx};
    for (int k = 0; k < zip.n; k++) {
        const Value *v = zip.parts[k]->res[0];
        Place out = tcc_room(t, v->type->dtype, true, NULL);
        text_add(&list, "%s, ", out.at);
        tcc_bind(t, v, out);
        t->places[v->id].unzipped = true;
    }
    const char *from = element(t, let->args[0], access_offset(e, zip.parts[0]));
    tcc_prefetch_rows(t, let, &zip.walk, from);
    put(e, "%s(%s%s, %s);", tcc_strip(t, "strip_unzip_%d", zip.n), list.text, from, t->n);
    return true;
}

void
tcc_load(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0];
    const Place *materialised = tcc_materialised(t, let);
    Dtype dtype = v->type->dtype;
    Walk walk;
    const char *at = strided_element(t, let, &walk);
    bool varies = walk.kind != WALK_ONE;
    if (tcc_in_place_rows(t, let)) {
        const char *step = dim_c(e, walk.kind == WALK_GRID ? walk.row_step : tcc_columns(t));
        const char *from = element(t, let->args[0], walk.start);
        tcc_prefetch_rows(t, let, &walk, from);
        tcc_bind(t, v, (Place){.at = from, .row = step, .varies = true, .slot = -1});
        return;
    }
    if (t->places[v->id].unzipped || put_unzip(t, let)) {
        return;
    }
    if (at && !is_narrow(dtype) && dim_is(e->cx, walk.step, varies) &&
        (let_has(let, MARK_merged) || is_carried_access(let))) {
        if (varies && !panel_of(e, let)) {
            tcc_prefetch(t, let, at);
        }
        tcc_bind(t, v, (Place){.at = at, .varies = varies, .slot = -1});
        return;
    }
    bool one_a_row = tcc_at_rows(t);
    if (t->pairs[v->id].half && !one_a_row && walk.kind == WALK_FLAT &&
        dim_is(e->cx, walk.step, 1)) {
        if (!panel_of(e, let)) {
            tcc_prefetch(t, let, at);
        }
        tcc_bind(t, v, (Place){.at = at, .varies = true, .half = true, .slot = -1});
        return;
    }
    if (materialised || walk.kind == WALK_GRID || walk.kind == WALK_ROWS) {
        Place out = materialised ? (Place){.at = materialised->at, .varies = true, .slot = -1}
                                 : tcc_take(t, let, &walk, "rows");
        tcc_bind(t, v, out);
        return;
    }
    Place out = tcc_room(t, dtype, varies, name_c(e, v));
    if (at) {
        if (varies && !panel_of(e, let) && dim_is(e->cx, walk.step, 1)) {
            tcc_prefetch(t, let, at);
        }
        put(e, "%s(%s, %s, %s, %s);", tcc_strip(t, "strip_load_%s", moved_name(dtype)), out.at, at,
            dim_c(e, walk.step), varies ? t->n : "1");
    } else {
        put_gather(t, let, &out, walk.start);
    }
    tcc_bind(t, v, out);
}

bool
tcc_streams(const Tcc *t, const Let *store)
{
    const Let *loop = let_around(store);
    bool may = tcc_row(t) != DIM_NONE || let_has(loop, MARK_streams) || is_tiled(loop);
    return may && let_has(store, MARK_nontemporal);
}

/* Does the walk go through adjacent elements, one for each iteration at hand?  Outside of loops it
 * is at one. */
static bool
is_adjacent(const Tcc *t, const Walk *walk)
{
    return t->at ? walk->kind == WALK_FLAT && dim_is(t->e->cx, walk->step, 1)
                 : walk->kind == WALK_ONE;
}

const char *
tcc_direct_store(Tcc *t, const Let *let)
{
    Dim offset = access_offset(t->e, let);
    Dtype dtype = let->args[0]->type->dtype;
    if (is_narrow(dtype) || tcc_streams(t, let)) {
        return NULL;
    }
    if (is_laned(t, let->args[0])) {
        return laned_element(t, let->args[0], offset);
    }
    Walk walk = tcc_walk(t, offset);
    return is_adjacent(t, &walk) ? element(t, let->args[0], walk.start) : NULL;
}

const char *
tcc_nontemporal_store(Tcc *t, const Let *let)
{
    return element(t, let->args[0], tcc_walk(t, access_offset(t->e, let)).start);
}

/* Elements or rows of the tile one by one, each where its index says. */
static void
store_each(Tcc *t, const Let *let, const char *from, const Walk *walk)
{
    Emit *e = t->e;
    Dtype dtype = let->args[0]->type->dtype;
    bool rows = walk->kind == WALK_ROWS;
    const char *strip = tcc_strip(t, "strip_store_%s", moved_name(dtype));
    const char *columns = rows ? dim_c(e, tcc_columns(t)) : "1";
    Place index = tcc_room(t, DT_i64, true, NULL);
    if (rows) {
        tcc_each_row(t, &index, walk->start);
    } else {
        tcc_each_dim(t, &index, access_offset(e, let));
    }
    put_scope(e);
    put(e, "int64_t k;");
    put_open(e, "for (k = 0; k < %s; k++)", rows ? "rows" : t->n);
    put(e, "%s(%s + %s[k], %s, (const char *)(%s) + k * %s * %d, %s);", strip,
        name_c(e, let->args[0]), index.at, rows ? dim_c(e, walk->step) : "1", from, columns,
        dtype_info[dtype_info[dtype].compute].bytes, columns);
    put_close(e);
    put_close(e);
    tcc_free(t, &index);
}

static void
put_store(Tcc *t, const Let *let, const char *from)
{
    Emit *e = t->e;
    const Value *to = let->args[0];
    Dtype dtype = to->type->dtype;
    Dim offset = access_offset(e, let);
    bool laned = is_laned(t, to);
    Walk walk = laned ? (Walk){WALK_FLAT, offset, dim_int(e->cx, 1), DIM_NONE}
                      : tcc_walk(t, offset);
    if (tcc_streams(t, let)) {
        put(e, "%s(%s, %s, %s%s);", tcc_strip(t, "strip_stream"), element(t, to, walk.start), from,
            dtype_info[dtype].bytes == 8 ? "2 * " : "", t->n);
    } else if (walk.kind <= WALK_FLAT) {
        const char *at = laned ? laned_element(t, to, offset) : element(t, to, walk.start);
        put(e, "%s(%s, %s, %s, %s);", tcc_strip(t, "strip_store_%s", moved_name(dtype)), at,
            dim_c(e, walk.step), from, t->n);
    } else if (walk.kind == WALK_GRID) {
        put(e, "%s(%s, %s, %s, %s, rows, %s);", moving_strip(t, "put", dtype),
            element(t, to, walk.start), dim_c(e, walk.row_step), dim_c(e, walk.step), from,
            dim_c(e, tcc_columns(t)));
    } else {
        store_each(t, let, from, &walk);
    }
}

/* Stores: all of them in the place of the first. */
static bool
put_zip(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    Zip zip;
    Place copies[ZIPPED];
    Text list = {.cx = e->cx};
    if (!find_zip(t, let, &zip)) {
        return false;
    }
    for (int k = 0; k < zip.n; k++) {
        if (place_of(zip.parts[k]) < place_of(let)) {
            return true;
        }
    }
    for (int k = 0; k < zip.n; k++) {
        text_add(&list, "%s, ",
                 tcc_spread(t, zip.parts[k]->args[1], let->args[0]->type->dtype, &copies[k]));
    }
    const char *to = element(t, let->args[0], access_offset(e, zip.parts[0]));
    tcc_prefetch_rows(t, let, &zip.walk, to);
    put(e, "%s(%s, %s%s);", tcc_strip(t, "strip_zip_%d", zip.n), to, list.text, t->n);
    for (int k = 0; k < zip.n; k++) {
        tcc_free(t, &copies[k]);
    }
    return true;
}

void
tcc_store(Tcc *t, const Let *let)
{
    if (put_zip(t, let)) {
        return;
    }
    const Value *to = let->args[0], *v = let->args[1];
    Dtype dtype = to->type->dtype;
    const char *direct = tcc_direct_store(t, let);
    Place p = tcc_place(t, v, dtype), copy = {.slot = -1};
    if (p.stored == let || is_carried_access(let)) {
        return;
    }
    if (direct && !p.varies) {
        Place to_fill = {.at = direct, .varies = t->at != NULL, .slot = -1};
        tcc_fill(t, &to_fill, dtype, p.at);
        return;
    }
    const char *from = tcc_spread(t, v, dtype, &copy);
    put_store(t, let, from);
    tcc_free(t, &copy);
}

/* Elements side by side, or one: a strip of two operands that writes the first. */
static void
update_contiguous(Tcc *t, const Let *let, const char *at)
{
    Dtype dtype = let->args[0]->type->dtype;
    Place p = tcc_place(t, let->args[1], dtype);
    Op op = let_op(let);
    if (op != OP_store) {
        put(t->e, "%s(%s, %s, %s, %s, %d);",
            tcc_strip(t, "strip_%s_%s", op_info[op_info[op].combine].name, dtype_info[dtype].name),
            at, at, p.at, t->n, p.varies ? 0 : 2);
    } else if (p.varies) {
        put(t->e, "%s(%s, 1, %s, %s);", tcc_strip(t, "strip_store_%s", moved_name(dtype)), at, p.at,
            t->n);
    } else {
        put(t->e, "%s(%s, %s, %s);", tcc_strip(t, "strip_fill_%s", dtype_info[dtype].name), at,
            p.at, t->n);
    }
}

/* The elements have the dtype that they are computed in, or are stored as they come. */
void
tcc_update(Tcc *t, const Let *let)
{
    const Value *to = let->args[0];
    Dtype dtype = to->type->dtype;
    if (dtype_info[dtype].compute != dtype) {
        tcc_store(t, let);
        return;
    }
    Dim offset = access_offset(t->e, let);
    Walk walk = tcc_walk(t, offset);
    if (is_adjacent(t, &walk)) {
        update_contiguous(t, let, element(t, to, offset));
        return;
    }
    Place copy;
    const char *v = tcc_spread(t, let->args[1], dtype, &copy);
    Scattered s = tcc_scattered(t, to, offset, false);
    const char *strip = tcc_strip(t, "strip_update_%s_%s", let_str(let, "op"),
                                  dtype_info[dtype].name);
    put(t->e, "%s(%s, %s, %s, %s, %s);", strip, s.from, s.at, s.step, v, t->n);
    tcc_free(t, &s.index);
    tcc_free(t, &copy);
}

/* ---- buffers ---- */

void
tcc_buffer(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0];
    const char *type = storage_c(v->type->dtype);
    put(e, "%s *%s = (%s *)(scratch + %s);", type, name_c(e, v), type,
        t->grid ? tcc_grid_buffer(t, v) : private_buffer(e, v, t->at ? tcc_width(t) : 1));
    t->places[v->id].varies = t->at != NULL;
    t->places[v->id].slot = -1;
}
