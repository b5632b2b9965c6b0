/* The rules of the marks of what is in a vector loop, from V38 on; verify.c has the list. */
#include "verify.h"

/* ---- V38: steps of a reduction that go through a tile together ---- */

enum { LINE = 16, MOST_STEPS = 16 };

static bool
is_in_vector_loop(const Let *let)
{
    const Let *around = let->parent->owner;
    while (loop_is(around) && !let_has(around, MARK_vector)) {
        around = around->parent->owner;
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
        verify_broken(v, 38,
                      "jam marks a reduction that is not in a vector loop, or does more than "
                      "load and compute");
    }
}

/* ---- V39: transposed operands ---- */

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
    const Let *loop = load->parent->owner, *rows = loop->parent->owner;
    const Value *of = load->args[0];
    Dim offset = index_offset(v->cx, of, let_attr(load, "at")->dims), step, rest;
    int64_t width = loop->op == OP_for ? let_mark_value(loop, MARK_width) : 0;
    if (width == 0 || width > MOST_WIDTH || rows->op != OP_for || !let_has(rows, MARK_tile) ||
        !dim_affine(v->cx, offset, let_attr(loop, "index")->d, &step, &rest) ||
        !dim_affine(v->cx, offset, let_attr(rows, "index")->d, &step, &rest) ||
        !dim_is(v->cx, step, 1) || makes_element(v->cx, loop, of, offset) ||
        makes_element(v->cx, rows, of, offset)) {
        verify_broken(v, 39, "transpose marks a load that does not go across the rows of a tile");
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
        verify_broken(v, 38,
                      "strip marks a loop that is no vector loop with a load that prefetches");
    }
}

void
verify_column_marks(Verifier *v, const Let *loop)
{
    if (loop->op == OP_for && (let_has(loop, MARK_strip) || let_has(loop, MARK_simdlen))) {
        check_strip(v, loop);
    }
    if (loop->op == OP_reduce && (let_has(loop, MARK_jam) || let_has(loop, MARK_strip))) {
        check_steps(v, loop);
    }
}
