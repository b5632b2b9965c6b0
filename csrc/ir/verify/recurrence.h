/* Questions about loops in order, and those around them: of the verifier and of code generation. */
#ifndef DLC_RECURRENCE_H
#define DLC_RECURRENCE_H

#include "ir/ir.h"

/* Does the let combine a value with the result that the previous iteration left in a buffer outside
 * the loop, and store its own result there?  Returns the load of that buffer, its operand 0, or
 * NULL. */
const Let *loop_carried(const Let *combine);
/* Why a loop may not run together with the same of other iterations around it, each in its order;
 * NULL: it may. */
const char *recurrences_wrong(Cx *cx, const Let *loop);

#endif
