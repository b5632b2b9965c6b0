/* Emission for libtcc: the schedule in C, the arithmetic in strips.
 *
 * What:     the statements of one phase as calls of the SIMD routines of strips.h on tiles: of as
 *           many elements as marks say in a vector loop (schedule/tile.c), DLC_BLOCK in a
 *           reduction.
 * Requires: what emit.c requires.
 * Ensures:  C99 without anything a simple compiler lacks, and the bits of emit_cc.c's text: the
 *           strips are made of the same rows and the same prelude.
 * How:      a scalar let of a vector loop is one call over a tile.  Its result goes to a tile
 *           buffer on the stack, which is free again after the last use, so that few are needed and
 *           they stay in the first-level cache; the last let before the stores writes to the result
 *           itself.  Contiguous loads of dtypes that are computed in as they are stored cost
 *           nothing: the tensor is the operand.  What does not vary over the tile is one element, a
 *           scalar operand of the strip.  Lets outside vector loops call strips on one element.
 *           Linear in lets, times live values.
 * Why not:  scalar C: without an optimiser it is 20 to 50 times slower than the strips.
 * Example:  y = exp(x + b[j]):  strip_add_f32(tile4_0, x + i*N + j, b + j, w, 0);
 *                               strip_exp_f32(y + i*N + j, tile4_0, w, 0);
 */
#include "emit_tcc.h"

const char emit_tcc_head[] = "typedef signed char int8_t;\n"
                             "typedef short int16_t;\n"
                             "typedef int int32_t;\n"
                             "typedef long long int64_t;\n"
                             "typedef unsigned char uint8_t;\n"
                             "typedef unsigned short uint16_t;\n"
                             "typedef unsigned int uint32_t;\n"
                             "typedef unsigned long long uint64_t;\n"
                             "typedef struct { double re, im; } dlc_c128;\n";

/* ---- places ---- */

Place
tcc_place(Tcc *t, const Value *v, Dtype dtype)
{
    const Literal *literal = literal_of(v);
    if (literal) {
        dtype = value_is_const(v) ? dtype : v->type->dtype;
        return (Place){.at = tcc_literal(t, dtype, *literal), .slot = -1};
    }
    return t->pairs[v->id].through ? tcc_place(t, v->def->args[0], dtype) : t->places[v->id];
}

void
tcc_bind(Tcc *t, const Value *v, Place p)
{
    p.last = t->places[v->id].last;
    p.by_row = p.varies && tcc_at_rows(t);
    t->places[v->id] = p;
    if (p.varies && p.slot >= 0) {
        t->live = cx_grow(t->e->cx, t->live, t->nlive, sizeof *t->live);
        t->live[t->nlive++] = v;
    }
}

void
tcc_fill(Tcc *t, const Place *to, Dtype dtype, const char *value)
{
    if (!to->varies) {
        Place one = {.at = value, .slot = -1};
        tcc_put_copy(t, dtype, to, &one);
        return;
    }
    put(t->e, "%s(%s, %s, %s);", tcc_strip(t, "strip_fill_%s", compute_name(dtype)), to->at, value,
        t->n);
}

const char *
tcc_spread(Tcc *t, const Value *v, Dtype dtype, Place *copy)
{
    Place p = tcc_place(t, v, dtype);
    *copy = (Place){.slot = -1};
    if (p.varies == (t->at != NULL)) { /* outside of loops there is one iteration */
        return p.at;
    }
    *copy = tcc_room(t, dtype, true, NULL);
    tcc_fill(t, copy, dtype, p.at);
    return copy->at;
}

/* ---- last uses ---- */

/* v is needed at let (position `at` in its block if let is NULL). */
static void
note_use(Tcc *t, const Value *v, const Let *let, const Block *blk, int at)
{
    if (value_is_const(v) || !v->def) {
        return;
    }
    while (blk != v->def->parent) {
        let = blk->owner;
        if (!let || let->op == OP_kernel) {
            return;
        }
        blk = let->parent;
        at = let->nres ? t->ends[let->res[0]->id] : place_of(let) + 1;
    }
    Place *p = &t->places[v->id];
    p->last = at > p->last ? at : p->last;
}

/* What the let reads at position k of its block, and what the lets that it takes in do. */
static void
note_operands(Tcc *t, const Let *reader, const Let *let, int k)
{
    for (int j = 0; j < reader->nargs; j++) {
        const Value *v = reader->args[j];
        note_use(t, v, let, let->parent, k);
        if (!value_is_const(v) && t->pairs[v->id].through) {
            note_operands(t, v->def, let, k);
        }
    }
}

static void
note_uses(Tcc *t, Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        for (int j = 0; j < blk->lets[k]->nres; j++) {
            t->ends[blk->lets[k]->res[j]->id] = k + 1;
        }
    }
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        const Pair *pair = let->nres ? &t->pairs[let->res[0]->id] : &(Pair){0};
        note_operands(t, let, let, k + 1);
        if (pair->first) {
            note_operands(t, pair->first, let, k + 1);
        }
        if (pair->other) {
            note_operands(t, pair->other, let, k + 1);
        }
        if (let->body) {
            note_uses(t, let->body);
        }
    }
    for (int k = 0; k < blk->nrets; k++) {
        note_use(t, blk->rets[k], NULL, blk, blk->n + 1);
    }
}

/* ---- blocks and loops ---- */

void
tcc_release_at(Tcc *t, const Block *blk, int at)
{
    int kept = 0;
    for (int k = 0; k < t->nlive; k++) {
        const Value *v = t->live[k];
        if (v->def->parent == blk && t->places[v->id].last <= at) {
            tcc_free(t, &t->places[v->id]);
        } else {
            t->live[kept++] = v;
        }
    }
    t->nlive = kept;
}

static void put_block(Tcc *t, const Block *blk);

static void
put_vector(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const char *i = index_c(e, loop_index(let)), *from, *to;
    int tile = loop_width(let);
    if (is_tiled(let)) {
        from = cx_format(e->cx, "%s_from", i);
        to = cx_format(e->cx, "%s_to", i);
    } else {
        vector_bounds(e, let, &from, &to);
    }
    put(e, "int64_t %s;", i);
    put_open(e, "for (%s = %s; %s < %s; %s += %d)", i, from, i, to, i, tile);
    put(e, "int64_t w = %s - %s < %d ? %s - %s : %d;", to, i, tile, to, i, tile);
    tcc_enter(t, let, "w");
    tcc_prefetch_stores(t, let);
    put_block(t, let->body);
    tcc_leave(t);
    put_close(e);
}

static const char *
transpose(void *arg, int bytes)
{
    return tcc_strip(arg, "strip_transpose_%d", bytes);
}

static void
put_row(void *arg, const Block *body)
{
    put_block(arg, body);
}

/* One recurrence after the other, each a tile at a time, unless one call does all of it. */
static void
put_recurrences(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const char *i = index_c(e, loop_index(let));
    int opened = open_rows(e, let, loop_step(let));
    if (!tcc_put_scan(t, let)) {
        put(e, "int64_t %s;", i);
        put_open(e, "for (%s = %s_from; %s < %s_to; %s++)", i, i, i, i, i);
        put_block(t, let->body);
        put_close(e);
    }
    if (opened) {
        put_close(e);
    }
}

static void
put_for(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const char *i = index_c(e, loop_index(let));
    if (put_product(e, let)) {
        return;
    }
    if (t->grid) {
        tcc_grid_row(t, let, put_vector);
    } else if (let_has(let, MARK_grid)) {
        tcc_grid(t, let);
    } else if (let_has(let, MARK_tile)) {
        put_rows(e, let, transpose, put_row, t);
    } else if (let_has(let, MARK_recurrences)) {
        put_recurrences(t, let);
    } else if (let_has(let, MARK_vector) || loop_is_recurrence(let)) {
        put_scope(e);
        put_vector(t, let);
        put_close(e);
    } else if (collapsed_at(e, let) >= 0) {
        put_block(t, let->body);
    } else {
        put_scope(e);
        put(e, "int64_t %s;", i);
        put_open(e, "for (%s = 0; %s < %s; %s++)", i, i, dim_c(e, loop_extent(let)), i);
        put_block(t, let->body);
        put_close(e);
        put_close(e);
    }
}

void
tcc_let(Tcc *t, const Let *let)
{
    switch (let->op) {
    case OP_for:
        put_for(t, let);
        break;
    case OP_reduce:
        t->grid ? tcc_grid_row(t, let, put_vector) : tcc_reduce(t, let);
        break;
    case OP_if:
    case OP_else:
        open_choice(t->e, let);
        put_block(t, let->body);
        close_choice(t->e);
        break;
    case OP_load:
        tcc_load(t, let);
        break;
    case OP_store:
        tcc_store(t, let);
        break;
    case OP_update:
        tcc_update(t, let);
        break;
    case OP_size:
        tcc_size(t, let);
        break;
    case OP_bind:
        tcc_bind_index(t, let);
        break;
    case OP_buffer:
        tcc_buffer(t, let);
        break;
    case OP_const:
        break;
    default:
        tcc_map(t, let);
    }
}

void
tcc_first_lets(Tcc *t, const Block *blk, int n)
{
    for (int k = 0; k < n; k++) {
        tcc_let(t, blk->lets[k]);
        tcc_release_at(t, blk, k + 1);
    }
}

void
tcc_lets(Tcc *t, const Block *blk)
{
    tcc_first_lets(t, blk, blk->n);
}

void
tcc_release(Tcc *t, const Block *blk)
{
    tcc_release_at(t, blk, blk->n + 1);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        Place *index = let->op == OP_bind ? map_get(&t->indices, &let->sizes[0], 1) : NULL;
        if (index) {
            tcc_free(t, index);
        }
    }
}

static void
put_block(Tcc *t, const Block *blk)
{
    tcc_lets(t, blk);
    tcc_release(t, blk);
}

void
emit_tcc_phase(Emit *e, const Let *loop)
{
    Tcc t = {.e = e, .n = "1"};
    Text *out = e->out, body = {.cx = e->cx};
    Block *root = e->phase->kernel->body;
    e->out = &body;
    t.places = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *t.places);
    t.found = pairs_find(e->cx, e->fn->nvalues, root);
    t.pairs = t.found->of;
    t.ends = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *t.ends);
    note_uses(&t, root);
    for (int k = 0; k < e->use.nlets; k++) {
        tcc_let(&t, e->use.lets[k]);
    }
    int opened = tcc_open_grid(&t);
    opened = opened ? opened : open_parallel(e);
    put_for(&t, loop);
    while (opened-- > 0) {
        put_close(e);
    }
    if (let_find_marked(loop, MARK_nontemporal)) { /* a fence ends the phase */
        put(e, "%s();", tcc_strip(&t, "strip_stream_end"));
    }
    e->out = out;
    tcc_slots(&t);
    text_put(out, body.text, body.length);
}

void
emit_tcc_function(Emit *e, const Let *loop, const Text *body, Text *unit)
{
    put_header(e, loop, unit);
    put_phase_head(e, unit, "static");
    put_pointers(e, unit);
    put_sizes(e, unit, put_size, NULL);
    put_body(body, unit);
}
