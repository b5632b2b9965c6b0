/* Questions of the emitters about a loop and its accesses. */
#include "emit.h"

int
place_of(const Let *let)
{
    int k = 0;
    while (let->parent->lets[k] != let) {
        k++;
    }
    return k;
}

Let *
computed_in(const Block *block, const Value *v)
{
    return literal_of(v) ? NULL : let_in(block, v);
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
