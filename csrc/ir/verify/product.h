/* Which loops are parts of a product: for the verifier, and for the rewrite that selects calls. */
#ifndef DLC_VERIFY_PRODUCT_H
#define DLC_VERIFY_PRODUCT_H

#include "ir/ir.h"

/* Has the `for` the form of V23, apart from its own marks?  Returns the buffer that it copies to,
 * or NULL. */
const Value *loop_packs(Cx *cx, const Let *let);
/* Has the `for` the form of V24, apart from its own marks? */
bool loop_multiplies(Cx *cx, const Let *let);

#endif
