/* Rows of a symbolic length: what the C compiler is told of it.
 *
 * What:     a phase for short rows (lower_short.c) says how long they are at most.  One with a mark
 *           `versions` has copies for the lengths that are frequent.
 * Requires: a length that is a size symbol.
 * Ensures:  nothing but speed: the same operations in the same order.
 * How:      with the bound the compiler makes no loop over vectors of columns that there are not.
 *           A phase with copies is an inline function with the length as a parameter, and the
 *           phase itself chooses the copy.
 * Why not:  copies for all lengths, or of all phases: see schedule/version.c.
 * Example:  switch (n[2]) {
 *           case 3: return k0_0_part(p, n, lo, hi, 3);
 *           default: return k0_0_part(p, n, lo, hi, n[2]);
 *           }
 */
#include <inttypes.h>

#include "emit_cc.h"

/* Where in n[] the length is; -1: it is no size that the phase's text has. */
static int
place_of_length(const Emit *e, Dim length)
{
    int place = -1;
    for (int k = 0; k < e->nsizes; k++) {
        bool found = e->sizes[k].dim == length && e->sizes[k].declared;
        place = found ? e->sizes[k].place : place;
    }
    return place;
}

Dim
cc_length(const Emit *e)
{
    const Let *of = let_find_marked(e->loop, MARK_versions);
    Dim length = of ? facts_length(e->facts, of) : DIM_NONE;
    return of && place_of_length(e, length) >= 0 ? length : DIM_NONE;
}

void
cc_length_head(Emit *e, Dim length, Text *unit)
{
    text_add(unit,
             "DLC_FN int\n"
             "%s_part(void *const *p, const int64_t *n, int64_t lo, int64_t hi, const int64_t %s)\n"
             "{\n",
             e->phase->name, index_c(e, length));
}

/* 2, 3, 4, 8; 16, 32, 64. */
static int
next_length(int length)
{
    return length == 2 ? 3 : length == 3 ? 4 : 2 * length;
}

void
cc_length_phase(Emit *e, Dim length, Text *unit)
{
    const char *name = e->phase->name;
    int place = place_of_length(e, length);
    Range range = dim_range(e->cx, length);
    int longest = (int)let_mark_value(let_find_marked(e->loop, MARK_versions), MARK_versions);
    text_add(unit, "\n");
    put_phase_head(e, unit);
    text_add(unit, "    switch (n[%d]) {\n", place);
    for (int k = longest / 4; k <= longest; k = next_length(k)) {
        if (k >= range.lo && k <= range.hi) {
            text_add(unit, "    case %d: return %s_part(p, n, lo, hi, %d);\n", k, name, k);
        }
    }
    text_add(unit, "    default: return %s_part(p, n, lo, hi, n[%d]);\n    }\n}\n", name, place);
}

/* Says how large a size is at most, if that is little. */
static void
put_most(Emit *e, Dim size, Text *unit)
{
    Range range = dim_range(e->cx, size);
    if (range.hi > DLC_SHORT_ROW) {
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
cc_length_size(Emit *e, int k, Text *unit, const void *length)
{
    Dim size = e->sizes[k].dim;
    if (size != *(const Dim *)length) {
        put_size(e, k, unit, NULL);
        if (dim_is_name(e->cx, size)) {
            put_most(e, size, unit);
        }
    }
}
