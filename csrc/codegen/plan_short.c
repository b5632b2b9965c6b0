/* Kernels whose rows may be short: a second one for them, of which the sizes of a call choose.
 *
 * What:     a kernel whose last axis is of a size that is a name, which may be DLC_SHORT_ROW and less or more,
 *           gets a KernelUse of its own for the short rows, if it reduces them, reduces others of them, or reads an
 *           operand through a view.
 * Requires: the keys of the kernels (plan_find_uses).
 * Ensures:  in a call one of the two has iterations, the other none: each one's extents are multiplied by what
 *           is 1 for its sizes and 0 for the others, so nothing is decided at run time but the value of a dim.
 * How:      the size's range is narrowed while the second is lowered, which then goes across the rows, as it
 *           does where the size is a number (reduces_columns).  There are few columns then, so that
 *           a long reduction of them is split (lower_split.c).  The order in which it reduces is
 *           that of the number too: a row's bits depend on its size, not on how much is known of it.
 * Why not:  one kernel that goes along the rows: of four elements each it takes up to sixty times as long.
 *           A kernel for each short size: as many compiles as there are sizes.
 * Example:  softmax of f32[B, N], N in 2..inf: a kernel for N in 2..8 and one for N in 2..inf.
 */
#include "plan_build.h"

/* The size of the last axis, if it is a name and there are rows of it that may be short or long; else DIM_NONE. */
static Dim
last_of(Cx *cx, const Type *t)
{
    Dim row = t && t->rank >= 2 ? t->dims[t->rank - 1] : DIM_NONE;
    bool either = row != DIM_NONE && dim_is_name(cx, row) && dim_range(cx, row).lo <= DLC_SHORT_ROW &&
                  dim_range(cx, row).hi > DLC_SHORT_ROW;
    return either ? row : DIM_NONE;
}

/* Does the let read an operand so that rows cannot be one long row?  What spreads one element, or is elementwise,
 * does not. */
static bool
keeps_rows(const Let *let)
{
    OpKind kind = let->op == OP_reshape ? KIND_MAP : op_info[let->op].kind;
    bool reads = let->nargs && let->args[0]->type && let->args[0]->type->rank > 0;
    return kind == KIND_RED || (reads && (kind == KIND_VIEW || kind == KIND_NODE));
}

/* The size name of the kernel's rows, if they may be short or long: of what it reduces, along the rows or across
 * them, before what it only puts elsewhere; else DIM_NONE. */
static Dim
row_of(Cx *cx, const Let *kernel)
{
    Dim moved = DIM_NONE;
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        if (!keeps_rows(let)) {
            continue;
        }
        Dim from = last_of(cx, let->args[0]->type), to = let->nres ? last_of(cx, let->res[0]->type) : DIM_NONE;
        if (op_info[let->op].kind == KIND_RED && from != DIM_NONE) {
            return from;
        }
        moved = moved != DIM_NONE ? moved : to != DIM_NONE ? to : from;
    }
    return moved;
}

Range
plan_narrow(Cx *cx, Dim row)
{
    Range full = {0, 0};
    if (row != DIM_NONE) {
        full = dim_range(cx, row);
        dim_declare(cx, row, (Range){full.lo, DLC_SHORT_ROW}, dim_divisor(cx, row));
    }
    return full;
}

void
plan_widen(Cx *cx, Dim row, Range full)
{
    if (row != DIM_NONE) {
        dim_declare(cx, row, full, dim_divisor(cx, row));
    }
}

void
plan_key(Cx *cx, KernelCoder *coder, KernelUse *use)
{
    Range full = plan_narrow(cx, use->row);
    kernel_key(coder, use->let, &use->key);
    plan_widen(cx, use->row, full);
}

void
plan_find_short(Builder *b)
{
    KernelCoder *coder = kernel_coder(b->fn);
    for (int k = 0; k < b->nuses; k++) {
        KernelUse *use = &b->uses[k];
        Dim row = row_of(b->cx, use->let);
        if (row != DIM_NONE) {
            use->shorts = cx_alloc(b->cx, sizeof *use->shorts);
            *use->shorts = (KernelUse){.let = use->let, .row = row};
            plan_key(b->cx, coder, use->shorts);
        }
    }
}

Dim
plan_share(Cx *cx, const KernelUse *use)
{
    Dim one = dim_int(cx, 1), row = use->shorts ? use->shorts->row : use->row;
    if (row == DIM_NONE) {
        return one;
    }
    Dim left = dim_sub(cx, dim_int(cx, DLC_SHORT_ROW + 1), row);
    Dim is_short = dim_max(cx, dim_min(cx, left, one), dim_int(cx, 0));
    return use->shorts ? dim_sub(cx, one, is_short) : is_short;
}
