/* Scans of rows side by side, for the libtcc tier.
 *
 * What:     a loop marked chains that does nothing but scan what it loads, as one call.
 * Requires: the loop, its rows from .. to - 1 at hand; see emit_panel.c.
 * Ensures:  each row's order; rows do not wait for each other.
 * How:      the lets of the loop are matched with those that lower_scan.c makes of a scan alone; where
 *           a row and an element of it lie are arguments of the strip.
 * Why not:  rows one after the other: each addition waits for the one before it, four cycles in which
 *           those of other rows could begin.
 * Example:  y = cumsum of x[N, M] along M:
 *           strip_scan_add_f32(y + M*i, 1, M, x + M*i, 1, M, &zero, M, i_to - i_from);
 */
#include "emit_tcc.h"

/* dtype of the elements, and that of what has been combined. */
static const struct { Op op; Dtype dtype, wide; } scans[] = {
    {OP_add,     DT_f32,  DT_f64}, {OP_mul,     DT_f32,  DT_f64},
    {OP_maximum, DT_f32,  DT_f32}, {OP_minimum, DT_f32,  DT_f32},
    {OP_add,     DT_f64,  DT_f64}, {OP_mul,     DT_f64,  DT_f64},
    {OP_add,     DT_i64,  DT_i64}, {OP_add,     DT_bf16, DT_f32},
};

typedef struct {
    const Let *first;           /* the store of what a row begins with */
    const Let *loop, *load, *store;
    Op op;
    Dtype dtype, wide;
} Scan;

static const Let *
skip_cast(const Value *v, int *lets)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    if (let && let->op == OP_cast) {
        ++*lets;
        let = value_is_const(let->args[0]) ? NULL : let->args[0]->def;
    }
    return let;
}

/* The loop along the row: load x; load run; combine; store run; store. */
static bool
match_row(Scan *s)
{
    const Block *body = s->loop->body;
    int lets = 5;
    s->store = body->lets[body->n - 1];
    const Let *op = s->store->op == OP_store ? skip_cast(s->store->args[1], &lets) : NULL;
    if (!op || op->parent != body || op_info[op->op].kind != KIND_MAP || !loop_chain(op)) {
        return false;
    }
    s->load = skip_cast(op->args[1], &lets);
    s->op = op->op;
    if (!s->load || s->load->op != OP_load || s->load->parent != body || lets != body->n) {
        return false;
    }
    s->dtype = s->load->res[0]->type->dtype;
    s->wide = op->res[0]->type->dtype;
    return s->store->args[0]->type->dtype == s->dtype && loop_chain(op)->args[0] == s->first->args[0];
}

static bool
match(const Let *chains, Scan *s)
{
    const Block *body = chains->body;
    if (body->n != 3 || body->lets[0]->op != OP_buffer || body->lets[1]->op != OP_store ||
        body->lets[2]->op != OP_for || body->lets[2]->body->n == 0) {
        return false;
    }
    s->first = body->lets[1];
    s->loop = body->lets[2];
    if (!literal_of(s->first->args[1]) || s->first->args[0] != body->lets[0]->res[0] || !match_row(s)) {
        return false;
    }
    for (size_t k = 0; k < sizeof scans / sizeof *scans; k++) {
        if (scans[k].op == s->op && scans[k].dtype == s->dtype && scans[k].wide == s->wide) {
            return true;
        }
    }
    return false;
}

/* The element at the first iterations, and from it to the next of the row and of the column: as C. */
static const char *
steps_c(Tcc *t, const Let *access, Dim row, Dim along)
{
    Cx *cx = t->e->cx;
    Dim offset = access_offset(t->e, access), step, next, rest;
    if (is_private(t->e, access->args[0]) || !dim_affine(cx, offset, along, &step, &rest) ||
        !dim_affine(cx, offset, row, &next, &rest) || dim_uses(cx, step, row)) {
        return NULL;
    }
    return cx_format(cx, "%s + %s, %s, %s", name_c(t->e, access->args[0]), dim_c(t->e, offset), dim_c(t->e, step),
                     dim_c(t->e, next));
}

bool
tcc_put_scan(Tcc *t, const Let *chains)
{
    Emit *e = t->e;
    Scan s;
    if (!match(chains, &s)) {
        return false;
    }
    Dim row = loop_index(chains), along = loop_index(s.loop);
    const char *i = index_c(e, row), *j = index_c(e, along);
    const char *to = steps_c(t, s.store, row, along), *from = steps_c(t, s.load, row, along);
    if (!to || !from) {
        return false;
    }
    put(e, "const int64_t %s = %s_from, %s = 0;", i, i, j);
    put(e, "%s(%s, %s, %s, %s, %s_to - %s_from);",
        tcc_strip(t, "strip_scan_%s_%s", op_info[s.op].name, dtype_info[s.dtype].name), to, from,
        tcc_literal(t, s.wide, *literal_of(s.first->args[1])), dim_c(e, loop_extent(s.loop)), i, i);
    return true;
}
