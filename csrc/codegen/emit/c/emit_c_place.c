/* Emission of portable C: which lets are written where they are used.
 *
 * What:     a load or an operation that is used once has no variable: its text stands in that of
 *           its user.
 * Ensures:  the bits.  An operation stands only where C makes its value one of the dtype again, as
 *           it does in a store and in an argument: so no compiler keeps more bits of it, or fuses
 *           it with the next.  A load stands in front of whatever writes behind it in the text.
 * How:      The let's name is its text.  What would make a long line keeps a variable, and so does
 *           a load that a condition would skip: compilers make no vectors of those.
 * Example:  let b0 = load b[i]; let t = add x0, b0; ret t: dlc_step_sum_f32(&stack, x0 + b[i]);
 */
#include <string.h>

#include "emit_c.h"

enum { SHORT = 48 }; /* characters that may stand in another line */

/* Does the user's text have the operand once, and not behind a condition? */
static bool
takes_load(const Let *user)
{
    return user->op == OP_store || user->op == OP_update ||
           (user->op == OP_reduce && op_info[let_op(user)].rule != RULE_INDEX) ||
           (let_is_map(user) && user->op != OP_where);
}

/* Does the user make the operand a value of its dtype? */
static bool
takes_map(const Let *user)
{
    Dtype stored = user->op == OP_store ? user->args[0]->type->dtype : DT_f32;
    return takes_load(user) && !let_is_map(user) && user->op != OP_update &&
           !let_has(user, MARK_fused) &&
           (!is_narrow(stored) || dtype_info[stored].class == CLASS_FLOAT);
}

bool
c_in_place(Emit *e, const Let *let, const char *text)
{
    const Let *user = strlen(text) <= SHORT ? let_only_user(let) : NULL;
    bool placed = user && (let->op == OP_load ? takes_load(user) : takes_map(user));
    if (placed) {
        e->names->values[let->res[0]->id] = text;
    }
    return placed;
}
