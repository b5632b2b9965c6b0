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

void
verify_column_marks(Verifier *v, const Let *loop)
{
    if (loop->op == OP_reduce && (let_has(loop, MARK_jam) || let_has(loop, MARK_strip))) {
        check_steps(v, loop);
    }
}
