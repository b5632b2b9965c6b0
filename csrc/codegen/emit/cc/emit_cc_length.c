/* Sizes that are small: what the C compiler is told of them.
 *
 * What:     how large a size is at most, in phases that an if chooses for short rows
 *           (lower_short.c, schedule/version.c).
 * Ensures:  nothing but speed: the same operations in the same order.
 * How:      with the bound the compiler makes no loop over vectors of columns that there are not.
 * Example:  AT_MOST(N, 15);
 */
#include <inttypes.h>

#include "emit_cc.h"

/* Says how large a size is at most, if no loop over it fills the lanes. */
static void
put_most(Emit *e, Dim size, Text *unit)
{
    Range range = dim_range(e->cx, size);
    if (range.hi >= DLC_LANES) {
        return;
    }
    if (new_helper(e, "at_most")) {
        text_add(e->helpers, "\n#ifdef __GNUC__\n"
                             "#define AT_MOST(n, most) if (lo < hi && (n) > (most)) "
                             "__builtin_unreachable()\n"
                             "#else\n#define AT_MOST(n, most) ((void)0)\n#endif\n");
    }
    text_add(unit, "    AT_MOST(%s, %" PRId64 ");\n", index_c(e, size), range.hi);
}

void
cc_length_size(Emit *e, int k, Text *unit, const void *arg)
{
    put_size(e, k, unit, arg);
    if (dim_is_name(e->cx, e->sizes[k].dim)) {
        put_most(e, e->sizes[k].dim, unit);
    }
}
