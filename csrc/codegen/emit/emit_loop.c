/* Questions of the emitters about a loop and its accesses. */
#include "emit.h"

Let *
computed_in(const Block *block, const Value *v)
{
    return literal_of(v) ? NULL : let_in(block, v);
}

void
open_choice(Emit *e, const Let *choice)
{
    Dim a, b;
    let_condition(e->cx, choice, &a, &b);
    if (choice->op == OP_else) {
        put_open(e, "else");
    } else {
        put_open(e, "if (%s <= %s)", offset_c(e, a), offset_c(e, b));
    }
    dim_assume(e->cx, a, b);
}

void
close_choice(Emit *e)
{
    dim_forget(e->cx);
    put_close(e);
}

const Step *
step_along(const Emit *e, const Let *access, const Let *loop)
{
    return facts_step(e->facts, access, loop_index(loop));
}

bool
is_contiguous(const Emit *e, const Let *access, const Let *loop)
{
    return facts_contiguous(e->facts, access, loop_index(loop));
}
