/* What the libtcc tier reads and writes: loads, stores, indices and the buffers of iterations.
 *
 * What:     the statements of lets that reach into tensors, and of those that make indices.
 * Requires: what emit_tcc.c requires.
 * Ensures:  a contiguous load costs nothing; what is strided or looked up becomes a tile.
 * How:      an offset is taken apart by the vector loop's index: a constant step is the stride of a
 *           strip, anything else a tile of indices.
 * Example:  let v = load x at=[i, 2*j]:  strip_load_f32(tile4_0, x + N*i + 2*j, 2, w);
 */
#include <string.h>

#include "emit_tcc.h"

/* ---- indices that vary ---- */

typedef struct { const Tcc *t; bool varies, bound; } Varies;

static void
see_varying(void *arg, Dim name)
{
    Varies *v = arg;
    bool bound = map_get(&v->t->indices, &name, 1) != NULL;
    v->bound |= bound;
    v->varies |= bound || name == v->t->index;
}

static Varies
dim_varies(const Tcc *t, Dim d)
{
    Varies v = {t, false, false};
    if (t->index != DIM_NONE) {
        dim_names(t->e->cx, d, see_varying, &v);
    }
    return v;
}

/* d == step * index + (d at the first element of the tile), with nothing else that varies. */
static bool
along_tile(Tcc *t, Dim d, Dim *step)
{
    Dim rest;
    Varies v = dim_varies(t, d);
    if (!v.varies) {
        *step = dim_int(t->e->cx, 0);
        return true;
    }
    return !v.bound && dim_affine(t->e->cx, d, t->index, step, &rest) &&
        !dim_varies(t, *step).varies &&
           !dim_varies(t, rest).varies;
}

typedef struct { Tcc *t; Dim d; } Declare;

static void
declare_index(void *arg, Dim name)
{
    Declare *d = arg;
    const Place *p = map_get(&d->t->indices, &name, 1);
    if (p) {
        put(d->t->e, "int64_t %s = %s[k];", index_c(d->t->e, name), p->at);
    }
}

/* The dim for each element of the tile, by a loop: what is not affine. */
static void
put_each_dim(Tcc *t, const Place *to, Dim d)
{
    Emit *e = t->e;
    const char *i = index_c(e, t->index);
    put_scope(e);
    put(e, "int64_t k, first = %s;", i);
    put_open(e, "for (k = 0; k < w; k++)");
    put(e, "int64_t %s = first + k;", i);
    Declare declare = {t, d};
    dim_names(e->cx, d, declare_index, &declare);
    put(e, "%s[k] = %s;", to->at, offset_c(e, d));
    put_close(e);
    put_close(e);
}

/* ---- loads and stores ---- */

static const char *
element(Tcc *t, const Value *buffer, Dim offset)
{
    return cx_format(t->e->cx, "%s + %s", name_c(t->e, buffer), dim_c(t->e, offset));
}

/* A buffer of each iteration: the tile's elements stand side by side. */
static bool
is_laned(Tcc *t, const Value *v)
{
    return t->e->tile && is_private(t->e, v) && t->places[v->id].varies;
}

/* Of what a chain has come to, which its strip keeps. */
static bool
is_chain_access(const Tcc *t, const Let *let)
{
    return loop_is_chain(let->parent->owner) && is_private(t->e, let->args[0]);
}

static const char *
laned_element(Tcc *t, const Value *v, Dim offset)
{
    return cx_format(t->e->cx, "%s + %s * %d", name_c(t->e, v), dim_c(t->e, offset), t->width);
}

/* Does a store of this block follow that would change what a pointer into a tensor shows? */
static bool
stored_later(const Let *load)
{
    int stores = 0;
    bool used = false;
    for (int k = 0; k < load->parent->n; k++) {
        const Let *let = load->parent->lets[k];
        stores += let->op == OP_store;
        used |= let->op == OP_store && let->args[1] == load->res[0];
    }
    return used && stores > 1;
}

/* Elements of a tensor by a tile of indices: from[at[k] * step], as C. */
typedef struct { const char *from, *at, *step; Place index; } Scattered;

static Scattered
scattered(Tcc *t, const Value *buffer, Dim offset)
{
    Emit *e = t->e;
    Dim scale, rest;
    /* one bound index times a constant: its tile is the index */
    Varies v = dim_varies(t, offset);
    for (int k = 0; v.bound && k < t->nbound; k++) {
        if (dim_affine(e->cx, offset, t->bound[k], &scale, &rest) && !dim_varies(t, rest).varies &&
            !dim_varies(t, scale).varies && dim_uses(e->cx, offset, t->bound[k])) {
            const Place *bound = map_get(&t->indices, &t->bound[k], 1);
            return (Scattered){element(t, buffer, rest), bound->at, dim_c(e, scale), {.slot = -1}};
        }
    }
    Place index = tcc_room(t, DT_i64, true, NULL);
    put_each_dim(t, &index, offset);
    return (Scattered){name_c(e, buffer), index.at, "1", index};
}

static void
put_gather(Tcc *t, const Let *let, Place *out, Dim offset)
{
    Emit *e = t->e;
    Dtype dtype = let->res[0]->type->dtype;
    Place raw = {.slot = -1};
    Scattered s = scattered(t, let->args[0], offset);
    const char *to = out->at;
    if (is_narrow(dtype)) {
        raw = tcc_room(t, dtype, true, NULL);
        to = raw.at;
    }
    put(e, "%s(%s, %s, %s, %s, %s);", tcc_strip(t, "strip_gather_%d", dtype_info[dtype].bytes), to,
        s.from, s.at, s.step, t->n);
    if (is_narrow(dtype)) {
        put(e, "%s(%s, %s, 1, %s);", tcc_strip(t, "strip_load_%s", dtype_info[dtype].name), out->at,
            to,
            t->n);
    }
    tcc_free(t, &s.index);
    tcc_free(t, &raw);
}

void
tcc_load(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0], *from = let->args[0];
    Dtype dtype = v->type->dtype;
    Dim offset = access_offset(e, let), step = dim_int(e->cx, 1);
    const char *turned = panel_of(e, let);
    bool laned = is_laned(t, from), varies = laned || dim_varies(t, offset).varies;
    bool affine = laned || along_tile(t, offset, &step);
    const char *at = turned ? cx_format(e->cx, "%s + %s", turned, panel_index(e))
                   : laned  ? laned_element(t, from, offset)
                   : affine ? element(t, from, offset) : NULL;
    step = turned ? dim_int(e->cx, 1) : step;
    if (affine && !is_narrow(dtype) && dim_is(e->cx, step, varies ? 1 : 0) && !stored_later(let)) {
        if (varies && !turned) {
            tcc_ask(t, let, offset, at);
        }
        tcc_bind(t, v, (Place){.at = at, .varies = varies, .pointer = true, .slot = -1});
        return;
    }
    if (t->pairs[v->id].half && affine && varies && dim_is(e->cx, step, 1)) {
        if (!turned) {
            tcc_ask(t, let, offset, at);
        }
        tcc_bind(t, v, (Place){.at = at, .varies = true, .pointer = true, .half = true, .slot = -1});
        return;
    }
    Place out = tcc_room(t, dtype, varies, name_c(e, v));
    if (affine) {
        if (varies && !turned && dim_is(e->cx, step, 1)) {
            tcc_ask(t, let, offset, at);
        }
        put(e, "%s(%s, %s, %s, %s);", tcc_strip(t, "strip_load_%s", dtype_info[dtype].name), out.at,
            at,
            dim_c(e, step), varies ? t->n : "1");
    } else {
        put_gather(t, let, &out, offset);
    }
    tcc_bind(t, v, out);
}

const char *
tcc_direct_store(Tcc *t, const Let *let)
{
    Dim offset = access_offset(t->e, let), step;
    Dtype dtype = let->args[0]->type->dtype;
    if (is_narrow(dtype)) {
        return NULL;
    }
    if (is_laned(t, let->args[0])) {
        return laned_element(t, let->args[0], offset);
    }
    bool contiguous = t->index == DIM_NONE ||
                      (along_tile(t, offset, &step) && dim_is(t->e->cx, step, 1));
    return contiguous ? element(t, let->args[0], offset) : NULL;
}

void
tcc_store(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *to = let->args[0], *v = let->args[1];
    Dtype dtype = to->type->dtype;
    const char *direct = tcc_direct_store(t, let);
    Place p = tcc_place(t, v, dtype), copy = {.slot = -1};
    if (p.stored == let || is_chain_access(t, let)) {
        return;
    }
    if (direct && !p.varies && t->index == DIM_NONE) {
        Place one = {.at = direct, .slot = -1};
        tcc_put_copy(t, dtype, &one, &p);
        return;
    }
    if (direct && !p.varies) {
        put(e, "%s(%s, %s, %s);", tcc_strip(t, "strip_fill_%s", compute_name(dtype)), direct, p.at,
            t->n);
        return;
    }
    Dim offset = access_offset(e, let), step = dim_int(e->cx, 1);
    bool laned = is_laned(t, to), affine = laned || along_tile(t, offset, &step);
    const char *strip = tcc_strip(t, "strip_store_%s", dtype_info[dtype].name);
    const char *from = tcc_spread(t, v, dtype, &copy);
    if (affine) {
        const char *at = laned ? laned_element(t, to, offset) : element(t, to, offset);
        put(e, "%s(%s, %s, %s, %s);", strip, at, dim_c(e, step), from, t->n);
    } else {
        Place index = tcc_room(t, DT_i64, true, NULL);
        put_each_dim(t, &index, offset);
        put_scope(e);
        put(e, "int64_t k;");
        put_open(e, "for (k = 0; k < w; k++)");
        put(e, "%s(%s + %s[k], 1, (const char *)(%s) + k * %d, 1);", strip, name_c(e, to), index.at,
            from,
            dtype_info[dtype_info[dtype].compute].bytes);
        put_close(e);
        put_close(e);
        tcc_free(t, &index);
    }
    tcc_free(t, &copy);
}

/* Elements side by side, or one: a strip of two operands that writes the first. */
static void
update_beside(Tcc *t, const Let *let, const char *at)
{
    Dtype dtype = let->args[0]->type->dtype;
    Place p = tcc_place(t, let->args[1], dtype);
    Op op = let_op(let);
    if (op != OP_store) {
        put(t->e, "%s(%s, %s, %s, %s, %d);",
            tcc_strip(t, "strip_%s_%s", op_info[op_info[op].combine].name, dtype_info[dtype].name), at, at, p.at,
            t->n, p.varies ? 0 : 2);
    } else if (p.varies) {
        put(t->e, "%s(%s, 1, %s, %s);", tcc_strip(t, "strip_store_%s", dtype_info[dtype].name), at, p.at, t->n);
    } else {
        put(t->e, "%s(%s, %s, %s);", tcc_strip(t, "strip_fill_%s", dtype_info[dtype].name), at, p.at, t->n);
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
    Dim offset = access_offset(t->e, let), step;
    if (t->index == DIM_NONE || (along_tile(t, offset, &step) && dim_is(t->e->cx, step, 1))) {
        update_beside(t, let, element(t, to, offset));
        return;
    }
    Place copy;
    const char *v = tcc_spread(t, let->args[1], dtype, &copy);
    Scattered s = scattered(t, to, offset);
    const char *strip = tcc_strip(t, "strip_update_%s_%s", let_str(let, "op"), dtype_info[dtype].name);
    put(t->e, "%s(%s, %s, %s, %s, %s);", strip, s.from, s.at, s.step, v, t->n);
    tcc_free(t, &s.index);
    tcc_free(t, &copy);
}

/* ---- indices and buffers ---- */

/* Is the index i of the tile compared with one value alone, which is known here? */
static bool
leaves_to_comparison(Tcc *t, const Value *v)
{
    Pair *pair = &t->pairs[v->id];
    const Let *eq = pair->user;
    if (eq) {
        Place other = tcc_place(t, eq->args[eq->args[0] == v], DT_i64);
        pair->late = other.at && !other.varies;
    }
    return pair->late;
}

void
tcc_size(Tcc *t, const Let *let)
{
    const Value *v = let->res[0];
    Dim d = let_dim(let, "dim"), step;
    bool varies = dim_varies(t, d).varies;
    if (varies && along_tile(t, d, &step) && dim_is(t->e->cx, step, 1) &&
        leaves_to_comparison(t, v)) {
        return;
    }
    Place out = tcc_room(t, DT_i64, varies, name_c(t->e, v));
    if (!varies) {
        put(t->e, "%s = %s;", name_c(t->e, v), offset_c(t->e, d));
    } else if (along_tile(t, d, &step)) {
        put(t->e, "%s(%s, %s, %s, %s);", tcc_strip(t, "strip_iota_i64"), out.at, offset_c(t->e, d),
            dim_c(t->e, step), t->n);
    } else {
        put_each_dim(t, &out, d);
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
        t->bound = cx_grow(e->cx, t->bound, t->nbound, sizeof *t->bound);
        t->bound[t->nbound++] = let->sizes[0];
    }
}

void
tcc_buffer(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0];
    const char *type = storage_c(v->type->dtype);
    put(e, "%s *%s = (%s *)(scratch + %s);", type, name_c(e, v), type,
        private_buffer(e, v, t->index == DIM_NONE ? 1 : t->width));
    t->places[v->id].varies = t->index != DIM_NONE;
    t->places[v->id].slot = -1;
}
