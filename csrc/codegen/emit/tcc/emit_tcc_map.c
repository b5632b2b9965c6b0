/* The call of a strip for a let that computes; see emit_tcc.c. */
#include <string.h>

#include "emit_tcc.h"

/* The store that the let does by itself, or NULL. */
static const Let *
own_store(const Let *let)
{
    const Block *blk = let->parent;
    for (int k = place_of(let) + 1; k < blk->n; k++) {
        const Let *store = blk->lets[k];
        if (store->op == OP_store && store->args[1] == let->res[0] && let_has(store, MARK_merged)) {
            return store;
        }
    }
    return NULL;
}

/* Has the let been given one to take in? */
static bool
takes_in(const Tcc *t, const Pair *pair)
{
    return pair->strip && t->places[pair->first->res[0]->id].late;
}

/* Bits of strip_half of the operands; 0: none is in memory as bf16. */
static unsigned
half_kinds(const Call *call)
{
    unsigned halves = 0;
    for (int k = 0; k < call->nargs; k++) {
        halves |= call->args[k].half ? 1u << k : 0;
    }
    return halves ? halves | call->mask << 2 : 0;
}

/* Operands that are in memory as bf16, or as small integers that are cast, have strips of their
 * own. */
static Call
call_of(Tcc *t, const Let *let)
{
    Tile tile = tcc_tile(t);
    bool taken = takes_in(t, &t->pairs[let->res[0]->id]);
    Primitive of = pairs_primitive(t->found, &tile, let, taken);
    Call call = {.op = of.op, .nargs = of.nargs, .mask = of.mask};
    for (int k = 0; k < of.nargs; k++) {
        call.args[k] = tcc_place(t, of.args[k], of.dtypes[k]);
        call.varies |= call.args[k].varies;
    }
    unsigned halves = taken ? 0 : half_kinds(&call);
    if (halves && let->op == OP_cast) {
        call.strip = tcc_strip(t, "strip_read_%s_f32", dtype_info[map_dtype(let)].name);
    } else if (halves) {
        call.mask = halves;
        call.rounds = true;
        call.strip = tcc_strip(t, "strip_half_%s_bf16", op_info[call.op].name);
    } else {
        call.strip = tcc_strip(t, "%s", of.strip);
    }
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
        if (p.varies && p.slot >= 0 && p.class == tcc_size_class(dtype) &&
            !t->busy[p.class][p.slot]) {
            t->busy[p.class][p.slot] = true;
            return p;
        }
    }
    return tcc_room(t, dtype, call->varies, name_c(t->e, let->res[0]));
}

static bool
defers_to_user(Tcc *t, const Let *let)
{
    int v = let->res[0]->id;
    for (int k = 0; t->pairs[v].taken && k < let->nargs; k++) {
        Place p = tcc_place(t, let->args[k], operand_dtype(let, k));
        t->places[v].late |= map_dtype(let) == DT_bf16 ? p.row != NULL : p.varies;
    }
    return t->places[v].late;
}

/* Where one of two products is one number for all, which has been computed, the other one is
 * computed too. */
static void
compute_deferred_product(Tcc *t, const Pair *pair)
{
    const Let *products[] = {pair->first, pair->other};
    for (int k = 0; pair->other && k < 2; k++) {
        int product = products[k]->res[0]->id;
        if (t->places[product].late && !t->places[products[!k]->res[0]->id].late) {
            t->places[product].late = t->pairs[product].taken = false;
            tcc_map(t, products[k]);
        }
    }
}

/* The strip that compares an index with one value, or with one a row; see let_compares. */
static const char *
index_strip(Tcc *t, const Let *let, bool index_first, bool by_row)
{
    static const struct {
        Op op, mirrored;
    } strips[] = {
        {OP_lt, OP_gt},
        {OP_le, OP_ge},
        {OP_gt, OP_lt},
        {OP_ge, OP_le},
    };
    for (size_t k = 0; k < sizeof strips / sizeof *strips; k++) {
        if (strips[k].op == let->op) {
            return tcc_strip(t, "strip_index_%s%s", by_row ? "rows_" : "",
                             op_info[index_first ? let->op : strips[k].mirrored].name);
        }
    }
    return tcc_strip(t, "strip_one_hot");
}

/* The comparison of an index that has been left to it, see tcc_size; false when it is none. */
static bool
put_index_comparison(Tcc *t, const Let *let)
{
    const Let *size = t->pairs[let->res[0]->id].first;
    if (!let_compares(let) || !size || !t->places[size->res[0]->id].late) {
        return false;
    }
    bool first = let->args[0] == size->res[0];
    Place out = tcc_room(t, DT_bool, true, NULL);
    Place value = tcc_place(t, let->args[first], DT_i64);
    const char *strip = index_strip(t, let, first, value.by_row);
    const char *start = offset_c(t->e, tcc_walk(t, let_dim(size, "dim")).start);
    if (value.by_row) {
        put(t->e, "%s(%s, %s, %s, rows, %s);", strip, out.at, value.at, start,
            dim_c(t->e, tcc_columns(t)));
    } else {
        put(t->e, "%s(%s, %s, %s, %s);", strip, out.at, value.at, start, t->n);
    }
    tcc_bind(t, let->res[0], out);
    return true;
}

const char *
tcc_operands(Tcc *t, const Call *call)
{
    Text list = {.cx = t->e->cx};
    for (int k = 0; k < call->nargs; k++) {
        text_add(&list, "%s, ", call->args[k].at);
    }
    return list.text;
}

/* Offers the let's call to the reduction whose body ends here; true: that computes the let. */
static bool
offer_to_fold(Tcc *t, const Let *let, const Call *call)
{
    const Let *reduce = let_around(let);
    Pair *pair = &t->pairs[let->res[0]->id];
    pair->folded = pair->folded && call->varies &&
                   (let_has(reduce, MARK_lanes) ? pairs_fold(let_op(reduce), call->strip)
                                                : pairs_step(let_op(reduce), call->strip));
    t->fold = cx_copy(t->e->cx, call, sizeof *call);
    return pair->folded;
}

/* The address that the call stores to by itself; nontemporally, if the store is marked so and
 * nothing else reads the value. */
static const char *
store_by_call(Tcc *t, const Let *let, const Let *store, Call *call)
{
    if (!tcc_streams(t, store)) {
        return tcc_direct_store(t, store);
    }
    const char *strip = t->found->uses[let->res[0]->id] == 1
                            ? pairs_bypassing(call->strip, call->mask)
                            : NULL;
    call->strip = strip ? tcc_strip(t, "%s", strip) : call->strip;
    return tcc_nontemporal_store(t, store);
}

/* A step of a recurrence for a tile of elements, in order. */
static void
put_recurrence(Tcc *t, const Let *let)
{
    Dtype dtype = let->res[0]->type->dtype;
    Place copy, run = tcc_place(t, let->args[0], dtype);
    const char *x = tcc_spread(t, let->args[1], dtype, &copy);
    tcc_release_at(t, let->parent, t->ends[let->res[0]->id]);
    Place out = tcc_room(t, dtype, true, NULL);
    put(t->e, "%s(%s, %s, %s, %s);",
        tcc_strip(t, "strip_run_%s_%s", op_info[let->op].name, compute_name(dtype)), out.at, x,
        run.at, t->n);
    tcc_free(t, &copy);
    tcc_bind(t, let->res[0], out);
}

/* ---- single elements ---- */

/* The element that a place holds, as C that can be assigned to. */
static const char *
element_c(Tcc *t, const Place *p, Dtype dtype, const char *is_const)
{
    bool variable = p->at[0] == '&' && strncmp(p->at, "&dlc_", 5) != 0;
    return variable ? p->at + 1
                    : cx_format(t->e->cx, "*(%s%s *)(%s)", is_const, type_c(dtype), p->at);
}

void
tcc_put_copy(Tcc *t, Dtype dtype, const Place *out, const Place *a)
{
    put(t->e, "%s = %s;", element_c(t, out, dtype, ""), element_c(t, a, dtype, "const "));
}

/* IEEE arithmetic is the same from every compiler; of the rest the strips know the bits. */
bool
tcc_put_plain(Tcc *t, Op op, Dtype dtype, const Place *out, const Place *a, const Place *b)
{
    const char *sign = op == OP_add   ? "+"
                       : op == OP_sub ? "-"
                       : op == OP_mul ? "*"
                       : op == OP_div ? "/"
                                      : NULL;
    if (!sign || out->varies || dtype_info[dtype].compute == DT_bool) {
        return false;
    }
    put(t->e, "%s = %s %s %s;", element_c(t, out, dtype, ""), element_c(t, a, dtype, "const "),
        sign, element_c(t, b, dtype, "const "));
    return true;
}

/* ---- narrow numbers ---- */

/* A cast that changes no bit; into the operand's own tile it is nothing. */
static bool
put_copy(Tcc *t, const Let *let, const Call *call, const Place *out)
{
    const Place *a = &call->args[0];
    if (!is_copy(let) || a->half) {
        return false;
    }
    if (!out->varies) {
        tcc_put_copy(t, let->res[0]->type->dtype, out, a);
        return true;
    }
    return a->slot >= 0 && a->slot == out->slot && a->class == out->class;
}

static void
put_call(Tcc *t, const Let *let, const Call *call, const Place *out)
{
    const char *n = call->varies ? t->n : "1", *list = tcc_operands(t, call);
    if (put_copy(t, let, call, out) ||
        (call->nargs == 2 && !call->varies &&
         tcc_put_plain(t, call->op, map_dtype(let), out, &call->args[0], &call->args[1]))) {
        return;
    }
    if (converts(let)) {
        put(t->e, "%s(%s, %s%s);", call->strip, out->at, list, n);
    } else {
        put(t->e, "%s(%s, %s%s, %u);", call->strip, out->at, list, n,
            call->varies ? call->mask : 0);
    }
}

/* ---- rows where they are ---- */

static bool
is_in_place_rows(const Call *call)
{
    return call->nargs == 4 && call->args[0].row;
}

bool
tcc_in_place_store(Tcc *t, const Let *let, Place *out, Walk *walk)
{
    Emit *e = t->e;
    Tile tile = tcc_tile(t);
    const Let *store = pairs_in_place_store(t->found, e->facts, &tile, let, walk);
    if (!store || !let_has(store, MARK_merged)) {
        return false;
    }
    *out = (Place){
        .at = cx_format(e->cx, "%s + %s", name_c(e, store->args[0]), dim_c(e, walk->start)),
        .row = dim_c(e, walk->kind == WALK_GRID ? walk->row_step : tcc_columns(t)),
        .varies = true,
        .slot = -1,
        .stored = store};
    return true;
}

/* The result is rows in a tile unless they are stored at once. */
static void
put_in_place_rows(Tcc *t, const Let *let, const Call *call)
{
    Emit *e = t->e;
    Text list = {.cx = e->cx};
    Place out;
    Walk walk;
    const char *columns = tcc_row(t) ? dim_c(e, tcc_columns(t)) : t->n;
    for (int k = 0; k < call->nargs; k++) {
        text_add(&list, "%s, %s, ", call->args[k].at, call->args[k].row);
    }
    if (tcc_in_place_store(t, let, &out, &walk)) {
        if (tcc_row(t)) { /* else tcc_prefetch_stores has */
            tcc_prefetch_rows(t, out.stored, &walk, out.at);
        }
    } else {
        out = tcc_room(t, let->res[0]->type->dtype, true, NULL);
    }
    put(e, "%s(%s, %s, %s%s, %s);",
        tcc_strip(t, "strip_in_place_%s", call->strip + strlen("strip_")), out.at,
        out.row ? out.row : columns, list.text, tcc_row(t) ? "rows" : "1", columns);
    tcc_bind(t, let->res[0], out);
}

void
tcc_map(Tcc *t, const Let *let)
{
    const Value *v = let->res[0];
    if (loop_is_recurrence(let_around(let)) && loop_carried(let)) {
        put_recurrence(t, let);
        return;
    }
    if (t->pairs[v->id].through || put_index_comparison(t, let) || defers_to_user(t, let)) {
        return;
    }
    compute_deferred_product(t, &t->pairs[v->id]);
    Call call = call_of(t, let);
    if (is_in_place_rows(&call)) {
        put_in_place_rows(t, let, &call);
        return;
    }
    if (offer_to_fold(t, let, &call)) {
        return;
    }
    const Let *store = call.varies ? own_store(let) : NULL;
    const char *direct = store ? store_by_call(t, let, store, &call) : NULL;
    tcc_release_at(t, let->parent, t->ends[let->res[0]->id]);
    Place out = direct ? (Place){.at = direct, .varies = true, .slot = -1, .stored = store}
                       : result_room(t, let, &call);
    put_call(t, let, &call, &out);
    if (rounding(let) && !call.rounds && !value_is_only_stored(let->parent, v)) {
        put(t->e, "%s(%s, %s);", tcc_strip(t, "strip_%s", rounding(let)), out.at,
            call.varies ? t->n : "1");
    }
    tcc_bind(t, v, out);
}
