/* Extents and indices of loops under construction. */
#include <string.h>

#include "builder.h"

bool
extent_is_one(Cx *cx, Dim d)
{
    Range r = dim_range(cx, d);
    return r.lo == 1 && r.hi == 1;
}

int64_t
extent_least(Cx *cx, Dim d)
{
    int64_t n = dim_range(cx, d).lo;
    return n < 1 ? 1 : n;
}

Dim
extent_ceiling(Cx *cx, Dim d, Dim by)
{
    return dim_div(cx, dim_add(cx, d, dim_sub(cx, by, dim_int(cx, 1))), by);
}

Dim
extent_of_buffer(Cx *cx, Dim extent)
{
    return dim_has_index(cx, extent) ? dim_int(cx, dim_range(cx, extent).hi) : extent;
}

Dim
extent_of_rows(Cx *cx, Dtype dtype, Dim extent)
{
    int64_t line = DLC_LINE / dtype_info[dtype].bytes, n;
    return dim_is_int(cx, extent, &n) ? dim_int(cx, line * (2 * ((n + line - 1) / (2 * line)) + 1))
                                      : dim_add(cx, extent, dim_int(cx, line));
}

bool
index_uses(Cx *cx, int n, const Dim *idx, Dim name)
{
    bool uses = false;
    for (int k = 0; k < n && !uses; k++) {
        uses = dim_uses(cx, idx[k], name);
    }
    return uses;
}

/* Does a summed letter stand in the index? */
static bool
uses_any(Cx *cx, Dim at, int n, const Dim *names)
{
    bool uses = false;
    for (int k = 0; k < n; k++) {
        uses |= dim_uses(cx, at, names[k]);
    }
    return uses;
}

bool
access_is_panels(Cx *cx, const Value *from, const Dim *at, const SumNames *s, Dim column)
{
    const Type *type = from->type;
    int rank = type->rank;
    if (rank < 3 || !has_panels(cx, from)) {
        return false;
    }
    bool one = at[rank - 1] == column && dim_range(cx, type->dims[rank - 3]).hi <= 1;
    Dim width = dim_int(cx, panel_width(type->dtype)), l = dim_index(cx, "l", width),
        panel = one ? dim_int(cx, 0) : dim_index(cx, "j", dim_extent(cx, column)),
        split = dim_add(cx, dim_mul(cx, panel, width), l), row = dim_sub(cx, at[rank - 2], s->at),
        step, rest;
    bool same = !uses_any(cx, row, s->n, s->names) && !dim_uses(cx, row, column) &&
                dim_replace(cx, at[rank - 1], column, split) == l;
    for (int k = 0; k < rank - 2 && same; k++) {
        Dim of = dim_replace(cx, at[k], column, split);
        same = !dim_uses(cx, of, l) && !uses_any(cx, of, s->n, s->names) &&
               (one || dim_affine(cx, of, panel, &step, &rest));
    }
    return same;
}
