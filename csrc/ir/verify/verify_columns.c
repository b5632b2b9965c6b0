/* The rules of marks that say how columns, tiles and rows run, V39 to V41; verify.c has the
 * list. */
#include "verify.h"

/* ---- V39: steps of a reduction that go through a tile together ---- */

enum { LINE = 16, MOST_STEPS = 16 };

static bool
is_in_vector_loop(const Let *let)
{
    const Let *around = let_around(let);
    while (loop_is(around) && !let_has(around, MARK_vector)) {
        around = let_around(around);
    }
    return loop_is(around);
}

static void
check_steps(Verifier *v, const Let *reduce)
{
    bool good = is_in_vector_loop(reduce) && let_mark_value(reduce, MARK_jam) <= MOST_STEPS &&
                op_info[let_op(reduce)].rule != RULE_INDEX;
    for (int k = 0; k < reduce->body->n; k++) {
        good &= let_is_map(reduce->body->lets[k]) || reduce->body->lets[k]->op == OP_load;
    }
    if (!good || !let_has(reduce, MARK_jam) || let_mark_value(reduce, MARK_strip) % LINE != 0) {
        verify_broken(v, 39,
                      "jam marks a reduction that is not in a vector loop, or does more than "
                      "load and compute");
    }
}

/* ---- V40: transposed operands ---- */

/* Does the loop's own block bind an index that the offset uses, or store to the tensor? */
static bool
makes_element(Cx *cx, const Let *loop, const Value *of, Dim offset)
{
    bool found = false;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        found |= let->op == OP_bind && dim_uses(cx, offset, let->sizes[0]);
        found |= let_writes(let) && let->args[0] == of;
    }
    return found;
}

void
verify_transpose(Verifier *v, const Let *load)
{
    enum { MOST_WIDTH = 128 };
    const Let *loop = let_around(load), *rows = let_around(loop);
    const Value *of = load->args[0];
    Dim offset = index_offset(v->cx, of, let_attr(load, "at")->dims), step, rest;
    int64_t width = loop->op == OP_for ? let_mark_value(loop, MARK_width) : 0;
    if (width == 0 || width > MOST_WIDTH || rows->op != OP_for || !let_has(rows, MARK_tile) ||
        !dim_affine(v->cx, offset, let_attr(loop, "index")->d, &step, &rest) ||
        !dim_affine(v->cx, offset, let_attr(rows, "index")->d, &step, &rest) ||
        !dim_is(v->cx, step, 1) || makes_element(v->cx, loop, of, offset) ||
        makes_element(v->cx, rows, of, offset)) {
        verify_broken(v, 40, "transpose marks a load that does not go across the rows of a tile");
    }
}

static void
check_strip(Verifier *v, const Let *loop)
{
    int64_t strip = let_mark_value(loop, MARK_strip);
    int64_t simdlen = let_mark_value(loop, MARK_simdlen);
    bool prefetches = false, good = let_has(loop, MARK_vector) && strip > 0 && simdlen > 0 &&
                                    strip % LINE == 0 && strip % simdlen == 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        prefetches |= let->op == OP_load && let_has(let, MARK_prefetch);
        good &= let_is_plain(let) || let_is_map(let) || let->op == OP_store;
    }
    if (!good || !prefetches) {
        verify_broken(v, 39,
                      "strip marks a loop that is no vector loop with a load that prefetches");
    }
}

/* ---- V41: rows, and phases ---- */

static bool
is_row(Verifier *v, const Let *reduce)
{
    const Let *load = reduce->body->n == 1 ? reduce->body->lets[0] : NULL;
    return load && load->op == OP_load && reduce->body->rets[0] == load->res[0] &&
           steps_by(v->cx, load, reduce, dim_int(v->cx, 1));
}

static void
check_parts(Verifier *v, const Let *reduce)
{
    enum { MOST_PARTS = 8 };
    int64_t parts = let_mark_value(reduce, MARK_parts);
    bool index = op_info[let_op(reduce)].rule == RULE_INDEX,
         good = let_has(reduce, MARK_lanes) && parts > 0 && parts <= MOST_PARTS;
    for (int k = 0; k < reduce->body->n; k++) {
        good &= let_is_map(reduce->body->lets[k]) || reduce->body->lets[k]->op == OP_load;
    }
    if (index) {
        good = good && parts == 2 && is_row(v, reduce);
    }
    if (let_has(reduce, MARK_places)) {
        good = good && index && reduce->body->rets[0]->type->dtype == DT_f32 &&
               dim_range(v->cx, let_dim(reduce, "extent")).hi <= INT32_MAX;
    }
    if (!good) {
        verify_broken(v, 41, "parts marks a reduction that does not go along a row in lanes");
    }
}

/* What the let or one deeper does to the tensor: bit 1 loads it, bit 2 stores to it. */
static int
uses_of(const Let *let, const Value *tensor)
{
    bool accesses = let_accesses(let) && let->args[0] == tensor;
    int uses = !accesses ? 0 : let->op == OP_load ? 1 : let->op == OP_store ? 2 : 3;
    for (int k = 0; let->body && k < let->body->n; k++) {
        uses |= uses_of(let->body->lets[k], tensor);
    }
    return uses;
}

/* Keeps the let the iterations of the phase from running again?  What a loop makes in memory of its
 * own, they make again. */
static bool
runs_once(const void *phase, const Let *let)
{
    const Value *to = let_writes(let) ? let->args[0] : NULL;
    bool own = to && to->def && to->def->op == OP_buffer && loop_is(let_around(to->def));
    return to && !own && uses_of(phase, to) != 2;
}

static void
check_near(Verifier *v, const Let *loop)
{
    if (loop_is(let_around(loop)) || let_any(loop, runs_once, loop)) {
        verify_broken(v, 41, "near marks a loop whose iterations may not run again");
    }
}

static void
check_rolled(Verifier *v, const Let *loop)
{
    bool good = let_has(loop, MARK_vector);
    for (int k = 0; k < loop->body->n; k++) {
        good &= !loop_is(loop->body->lets[k]);
    }
    if (!good) {
        verify_broken(v, 41, "rolled marks a loop that is no vector loop without loops inside");
    }
}

static void
check_call(Verifier *v, const Let *loop)
{
    if (!let_has(loop, MARK_micro) || let_has(loop, MARK_prefetch_tile | MARK_prefetch_pack)) {
        verify_broken(v, 41, "prefetch_tile or prefetch_pack marks what is no loop marked micro");
    }
}

static void
check_row_marks(Verifier *v, const Let *loop)
{
    if (let_has(loop, MARK_prefetch_tile) || let_has(loop, MARK_prefetch_pack)) {
        check_call(v, loop);
    }
    if (let_has(loop, MARK_parts) || let_has(loop, MARK_places)) {
        check_parts(v, loop);
    }
    if (let_has(loop, MARK_near)) {
        check_near(v, loop);
    }
    if (let_has(loop, MARK_rolled)) {
        check_rolled(v, loop);
    }
}

void
verify_column_marks(Verifier *v, const Let *loop)
{
    check_row_marks(v, loop);
    if (loop->op == OP_for && (let_has(loop, MARK_strip) || let_has(loop, MARK_simdlen))) {
        check_strip(v, loop);
    }
    if (loop->op == OP_reduce && (let_has(loop, MARK_jam) || let_has(loop, MARK_strip))) {
        check_steps(v, loop);
    }
}
