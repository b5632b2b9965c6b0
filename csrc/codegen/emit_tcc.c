/* Emission for libtcc: the schedule in C, the arithmetic in strips.
 *
 * What:     the statements of one phase as calls of the SIMD routines of strips.h on tiles: of
 *           TCC_TILE elements in a loop of scalars alone, DLC_COLUMNS in a vector loop that has
 *           loops inside, DLC_BLOCK in a reduction.
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
#include <stdio.h>
#include <string.h>

#include "emit_tcc.h"

const char emit_tcc_head[] =
    "typedef signed char int8_t;\n"
    "typedef short int16_t;\n"
    "typedef int int32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef unsigned long long uint64_t;\n";

/* ---- strips and constants ---- */

static int
strip_operands(const char *name)
{
    const char *op = name + strlen("strip_");
    for (int k = 0; k < OP_COUNT; k++) {
        size_t n = strlen(op_info[k].name);
        if (op_info[k].kind == KIND_MAP && strncmp(op, op_info[k].name, n) == 0 && op[n] == '_' &&
            dtype_find(op + n + 1, strlen(op + n + 1)) != DTYPE_COUNT) {
            return op_info[k].arity;
        }
    }
    return 0;
}

/* The prototype of a strip, by the families of strips.h. */
static const char *
prototype(Cx *cx, const char *name)
{
    static const struct { const char *prefix, *returns, *parameters; } families[] = {
        {"strip_cast_", "void", "void *, const void *, int64_t"},
        {"strip_load_", "void", "void *, const void *, int64_t, int64_t"},
        {"strip_store_", "void", "void *, int64_t, const void *, int64_t"},
        {"strip_round_f16", "void", "void *, int64_t"},
        {"strip_round_bf16", "void", "void *, int64_t"},
        {"strip_wrap_", "void", "void *, int64_t"},
        {"strip_fill_", "void", "void *, const void *, int64_t"},
        {"strip_prefetch", "void", "const void *, int64_t"},
        {"strip_iota_", "void", "int64_t *, int64_t, int64_t, int64_t"},
        {"strip_check_index", "int", "const int64_t *, int64_t, int, int64_t *, int64_t"},
        {"strip_pair_", "void",
         "void *, const void *, const void *, const void *, int64_t, unsigned"},
        {"strip_square_", "void", "void *, const void *, const void *, int64_t, unsigned"},
        {"strip_turn_", "void", "void *, const void *, int64_t, int64_t, int64_t"},
        {"strip_gather_", "void", "void *, const void *, const int64_t *, int64_t, int64_t"},
        {"strip_reduce_arg", "int64_t", "const void *, int64_t, void *"},
    };
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        if (strncmp(name, families[k].prefix, strlen(families[k].prefix)) == 0) {
            return cx_format(cx, "%s %s(%s);\n", families[k].returns, name, families[k].parameters);
        }
    }
    if (strncmp(name, "strip_reduce_", strlen("strip_reduce_")) == 0) {
        const char *dtype = strrchr(name, '_') + 1;
        return cx_format(cx, "%s %s(const void *, int64_t);\n",
                         storage_c(dtype_find(dtype, strlen(dtype))), name);
    }
    int operands = strip_operands(name);
    return cx_format(cx, "void %s(void *, const void *%s%s, int64_t, unsigned);\n", name,
                     operands > 1 ? ", const void *" : "", operands > 2 ? ", const void *" : "");
}

/* The name of a strip, declared in the unit. */
const char *
tcc_strip(Tcc *t, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const char *kept = cx_intern(t->e->cx, name, strlen(name));
    if (new_helper(t->e, kept)) {
        text_add(t->e->helpers, "%s", prototype(t->e->cx, kept));
    }
    return kept;
}

const char *
tcc_literal(Tcc *t, Dtype dtype, Literal literal)
{
    Emit *e = t->e;
    uint64_t bits = literal_bits(dtype, literal);
    int bytes = dtype_info[dtype_info[dtype].compute].bytes;
    const char *name =
        cx_format(e->cx, "dlc_%s_%llx", compute_name(dtype), (unsigned long long)bits);
    if (new_helper(e, name)) {
        text_add(e->helpers, "static const uint%d_t %s = 0x%llx%s; /* %s */\n", 8 * bytes, name,
                 (unsigned long long)bits, bytes == 8 ? "ull" : "",
                     literal_c(e->cx, dtype, literal));
    }
    return cx_format(e->cx, "&%s", name);
}

/* ---- places ---- */

Place
tcc_place(Tcc *t, const Value *v, Dtype dtype)
{
    const Literal *literal = literal_of(v);
    if (literal) {
        dtype = value_is_const(v) ? dtype : v->type->dtype;
        return (Place){.at = tcc_literal(t, dtype, *literal), .slot = -1};
    }
    return t->places[v->id];
}

void
tcc_bind(Tcc *t, const Value *v, Place p)
{
    p.last = t->places[v->id].last;
    t->places[v->id] = p;
    if (p.varies && p.slot >= 0) {
        t->live = cx_grow(t->e->cx, t->live, t->nlive, sizeof *t->live);
        t->live[t->nlive++] = v;
    }
}

void
tcc_fill(Tcc *t, const Place *to, Dtype dtype, const char *value)
{
    put(t->e, "%s(%s, %s, %s);", tcc_strip(t, "strip_fill_%s", compute_name(dtype)), to->at, value,
        to->varies ? t->n : "1");
}

const char *
tcc_spread(Tcc *t, const Value *v, Dtype dtype, Place *copy)
{
    Place p = tcc_place(t, v, dtype);
    *copy = (Place){.slot = -1};
    if (p.varies || t->index == DIM_NONE) {
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
        at = let->mark;
    }
    Place *p = &t->places[v->id];
    p->last = at > p->last ? at : p->last;
}

static void
note_uses(Tcc *t, Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->mark = k + 1;
    }
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        const Let *first = let->nres ? t->pairs[let->res[0]->id].first : NULL;
        for (int j = 0; j < let->nargs; j++) {
            note_use(t, let->args[j], let, blk, k + 1);
        }
        for (int j = 0; first && j < first->nargs; j++) {
            note_use(t, first->args[j], let, blk, k + 1);
        }
        if (let->body) {
            note_uses(t, let->body);
        }
    }
    for (int k = 0; k < blk->nrets; k++) {
        note_use(t, blk->rets[k], NULL, blk, blk->n + 1);
    }
}

static void
forget_marks(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->mark = 0;
        if (blk->lets[k]->body) {
            forget_marks(blk->lets[k]->body);
        }
    }
}

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

static void
put_gather(Tcc *t, const Let *let, Place *out, Dim offset)
{
    Emit *e = t->e;
    Dtype dtype = let->res[0]->type->dtype;
    Dim scale, rest;
    Place index = {.slot = -1}, raw = {.slot = -1};
    const char *from = NULL, *at = NULL, *step = "1";
    const Place *bound = NULL;
    /* one bound index times a constant: its tile is the index */
    Varies v = dim_varies(t, offset);
    for (int k = 0; v.bound && k < t->nbound; k++) {
        if (dim_affine(e->cx, offset, t->bound[k], &scale, &rest) && !dim_varies(t, rest).varies &&
            !dim_varies(t, scale).varies && dim_uses(e->cx, offset, t->bound[k])) {
            bound = map_get(&t->indices, &t->bound[k], 1);
            from = element(t, let->args[0], rest);
            step = dim_c(e, scale);
            at = bound->at;
            break;
        }
    }
    if (!bound) {
        index = tcc_room(t, DT_i64, true, NULL);
        put_each_dim(t, &index, offset);
        from = name_c(e, let->args[0]);
        at = index.at;
    }
    const char *to = out->at;
    if (is_narrow(dtype)) {
        raw = tcc_room(t, dtype, true, NULL);
        to = raw.at;
    }
    put(e, "%s(%s, %s, %s, %s, %s);", tcc_strip(t, "strip_gather_%d", dtype_info[dtype].bytes), to,
        from,
        at, step, t->n);
    if (is_narrow(dtype)) {
        put(e, "%s(%s, %s, 1, %s);", tcc_strip(t, "strip_load_%s", dtype_info[dtype].name), out->at,
            to,
            t->n);
    }
    tcc_free(t, &index);
    tcc_free(t, &raw);
}

static void
put_load(Tcc *t, const Let *let)
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
    Place out = tcc_room(t, dtype, varies, name_c(e, v));
    if (affine) {
        put(e, "%s(%s, %s, %s, %s);", tcc_strip(t, "strip_load_%s", dtype_info[dtype].name), out.at,
            at,
            dim_c(e, step), varies ? t->n : "1");
    } else {
        put_gather(t, let, &out, offset);
    }
    tcc_bind(t, v, out);
}

/* Where a store puts elements side by side as they are computed: its address, or NULL. */
static const char *
direct_store(Tcc *t, const Let *let)
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

static void
put_store(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *to = let->args[0], *v = let->args[1];
    Dtype dtype = to->type->dtype;
    const char *direct = direct_store(t, let);
    Place p = tcc_place(t, v, dtype), copy = {.slot = -1};
    if (direct && p.at == t->stored_at && strcmp(direct, p.at) == 0) {
        return;                 /* it was computed there, not for another store of the same value */
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

/* ---- other lets ---- */

/* The store that the last computing let of a block can write to by itself. */
static const Let *
sole_store(const Tcc *t, const Let *let)
{
    const Block *blk = let->parent;
    const Let *store = NULL;
    for (int k = let->mark; k < blk->n; k++) {
        const Let *after = blk->lets[k];
        if (after->op != OP_store ||
            (!literal_of(after->args[1]) && after->args[1] != let->res[0] &&
                                      t->places[after->args[1]->id].pointer)) {
            return NULL;
        }
        store = after->args[1] == let->res[0] && !store ? after : store;
    }
    return store;
}

/* Tile buffers of values that nobody needs after position `at` of their block. */
static void
release(Tcc *t, const Block *blk, int at)
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

/* The call of a strip for a let, and for the one it takes in. */
typedef struct {
    const char *strip;
    Place args[3];
    int nargs;
    bool varies;
    unsigned mask;              /* of operands that are one element */
} Call;

static void
add_operand(Tcc *t, Call *call, const Value *v, Dtype dtype)
{
    Place p = tcc_place(t, v, dtype);
    call->mask |= p.varies ? 0 : 1u << call->nargs;
    call->varies |= p.varies;
    call->args[call->nargs++] = p;
}

static Call
call_of(Tcc *t, const Let *let)
{
    Call call = {0};
    Pair *pair = &t->pairs[let->res[0]->id];
    const char *from = compute_name(map_dtype(let));
    const Value *late = pair->strip && t->pairs[pair->first->res[0]->id].late
                            ? pair->first->res[0] : NULL;
    for (int k = 0; late && k < 2; k++) {
        add_operand(t, &call, pair->first->args[k], DT_f32);
    }
    for (int k = 0; k < let->nargs; k++) {
        if (let->args[k] != late) {
            add_operand(t, &call, let->args[k], operand_dtype(let, k));
        }
    }
    call.strip = late ? tcc_strip(t, "%s", pair->strip)
               : let->op == OP_cast ? tcc_strip(t, "strip_cast_%s_%s", from,
                                                compute_name(let->res[0]->type->dtype))
                                    : tcc_strip(t, "strip_%s_%s", op_info[let->op].name, from);
    return call;
}

/* Room for a let's result: the tile of an operand that was needed for the last time, if there is
 * one, which is in the first-level cache already; strips may write where they read. */
static Place
result_room(Tcc *t, const Let *let, const Call *call)
{
    Dtype dtype = let->res[0]->type->dtype;
    for (int k = 0; call->varies && k < call->nargs; k++) {
        Place p = call->args[k];
        if (p.varies && p.slot >= 0 && p.class == tcc_class(dtype) && !t->busy[p.class][p.slot]) {
            t->busy[p.class][p.slot] = true;
            return p;
        }
    }
    return tcc_room(t, dtype, call->varies, name_c(t->e, let->res[0]));
}

static bool
leaves_to_user(Tcc *t, const Let *let)
{
    Pair *pair = &t->pairs[let->res[0]->id];
    for (int k = 0; pair->taken && k < let->nargs; k++) {
        pair->late |= tcc_place(t, let->args[k], DT_f32).varies;
    }
    return pair->late;
}

static void
put_map(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0];
    Dtype dtype = v->type->dtype;
    if (leaves_to_user(t, let)) {
        return;
    }
    Call call = call_of(t, let);
    Place out;
    bool varies = call.varies;
    const Let *store = varies ? sole_store(t, let) : NULL;
    bool same = store && store->args[0]->type->dtype == dtype;
    const char *direct = same ? direct_store(t, store) : NULL;
    release(t, let->parent, let->mark);
    out = direct ? (Place){.at = direct, .varies = true, .slot = -1}
                 : result_room(t, let, &call);
    t->stored_at = direct ? direct : t->stored_at;
    const char *n = varies ? t->n : "1";
    Text list = {.cx = e->cx};
    for (int k = 0; k < call.nargs; k++) {
        text_add(&list, "%s, ", call.args[k].at);
    }
    if (let->op == OP_cast) {
        put(e, "%s(%s, %s%s);", call.strip, out.at, list.text, n);
    } else {
        put(e, "%s(%s, %s%s, %u);", call.strip, out.at, list.text, n, varies ? call.mask : 0);
    }
    if (rounding(let)) {
        put(e, "%s(%s, %s);", tcc_strip(t, "strip_%s", rounding(let)), out.at, n);
    }
    tcc_bind(t, v, out);
}

static void
put_size(Tcc *t, const Let *let)
{
    const Value *v = let->res[0];
    Dim d = let_dim(let, "dim"), step;
    bool varies = dim_varies(t, d).varies;
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

static void
put_bind(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    Place v = tcc_place(t, let->args[0], DT_i64);
    const char *g = index_c(e, let->sizes[0]);
    Place out = tcc_room(t, DT_i64, v.varies, g);
    put_open(e, "if (%s(%s, %s, %d, %s, %s))", tcc_strip(t, "strip_check_index"), v.at,
             dim_c(e, let_dim(let, "extent")), (int)let_int(let, "wrap"), out.at,
                 v.varies ? t->n : "1");
    put(e, "return %d;", FAULT_INDEX);
    put_close(e);
    if (v.varies) {
        Place *kept = map_at(e->cx, &t->indices, &let->sizes[0], 1, sizeof *kept);
        *kept = out;
        t->bound = cx_grow(e->cx, t->bound, t->nbound, sizeof *t->bound);
        t->bound[t->nbound++] = let->sizes[0];
    }
}

static void
put_buffer(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *v = let->res[0];
    const char *type = storage_c(v->type->dtype);
    put(e, "%s *%s = (%s *)(scratch + %s);", type, name_c(e, v), type,
        private_buffer(e, v, t->index == DIM_NONE ? 1 : t->width));
    t->places[v->id].varies = t->index != DIM_NONE;
    t->places[v->id].slot = -1;
}

/* ---- blocks and loops ---- */

static void
put_vector(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const char *i = index_c(e, loop_index(let)), *from, *to;
    int tile = loop_count(let->body) || let == e->columns ? DLC_COLUMNS : TCC_TILE;
    if (let == e->columns) {
        from = cx_format(e->cx, "%s_from", i);
        to = cx_format(e->cx, "%s_to", i);
    } else {
        vector_bounds(e, let, &from, &to);
    }
    put(e, "int64_t %s;", i);
    put_open(e, "for (%s = %s; %s < %s; %s += %d)", i, from, i, to, i, tile);
    put(e, "int64_t w = %s - %s < %d ? %s - %s : %d;", to, i, tile, to, i, tile);
    t->n = "w";
    t->index = loop_index(let);
    tcc_width(t, tile);
    e->tile = let;
    tcc_block(t, let->body);
    e->tile = NULL;
    t->n = "1";
    t->index = DIM_NONE;
    put_close(e);
}

static const char *
turn(void *arg, int bytes)
{
    return tcc_strip(arg, "strip_turn_%d", bytes);
}

static void
put_row(void *arg, const Block *body)
{
    tcc_block(arg, body);
}

static void
put_for(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const char *i = index_c(e, loop_index(let));
    if (loop_has(let, "tile")) {
        put_rows(e, let, turn, put_row, t);
    } else if (loop_has(let, "vector")) {
        put_scope(e);
        put_vector(t, let);
        put_close(e);
    } else if (chain_at(e, let) >= 0) {
        tcc_block(t, let->body);
    } else {
        put_scope(e);
        put(e, "int64_t %s;", i);
        put_open(e, "for (%s = 0; %s < %s; %s++)", i, i, dim_c(e, loop_extent(let)), i);
        tcc_block(t, let->body);
        put_close(e);
        put_close(e);
    }
}

static void
put_let(Tcc *t, const Let *let)
{
    switch (let->op) {
    case OP_for: put_for(t, let); break;
    case OP_reduce: tcc_reduce(t, let); break;
    case OP_load: put_load(t, let); break;
    case OP_store: put_store(t, let); break;
    case OP_size: put_size(t, let); break;
    case OP_bind: put_bind(t, let); break;
    case OP_buffer: put_buffer(t, let); break;
    case OP_const: break;
    default: put_map(t, let);
    }
}

void
tcc_lets(Tcc *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        put_let(t, blk->lets[k]);
        release(t, blk, k + 1);
    }
}

void
tcc_release(Tcc *t, const Block *blk)
{
    release(t, blk, blk->n + 1);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        Place *index = let->op == OP_bind ? map_get(&t->indices, &let->sizes[0], 1) : NULL;
        if (index) {
            tcc_free(t, index);
        }
    }
}

void
tcc_block(Tcc *t, const Block *blk)
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
    tcc_find_pairs(&t, root);
    note_uses(&t, root);
    for (int k = 0; k < root->n; k++) {
        const Let *let = root->lets[k];
        bool bound = let->op == OP_bind && e->used[let->args[0]->id];
        if (bound || (let->nres && let->op != OP_buffer && e->used[let->res[0]->id])) {
            put_let(&t, let);
        }
    }
    int opened = open_parallel(e);
    put_for(&t, loop);
    while (opened-- > 0) {
        put_close(e);
    }
    forget_marks(root);
    e->out = out;
    tcc_slots(&t);
    text_put(out, body.text, body.length);
}
