/* Kernels whose rows may be short: a second one for them, of which the sizes of a call choose.
 *
 * What:     a kernel gets a KernelUse of its own for short rows where the size of its rows has one
 *           size symbol and may be DLC_SHORT_ROW and less, or more.  These are kernels that reduce
 *           such rows.  They are also those whose last axis is such a size symbol, if they reduce
 *           other axes or read an operand through a view.
 * Requires: the keys of the kernels (kernels_of).
 * Ensures:  in a call one of the two has iterations, the other none: each one's extents are
 *           multiplied by what is 1 for its sizes and 0 for the others, so nothing is decided at
 *           run time but the value of a dim.
 * How:      a rewrite, `short_rows`, narrows the symbol's range in the function that the second is
 *           lowered from; without fuel that one is like the first.  Lowering then goes across the
 *           rows, as it does where the size is a number (reduces_columns).  There are few columns
 *           then, so that a long reduction of them is split (lower_split.c).  The order in which it
 *           reduces is that of the number too: a row's bits depend on its size, not on how much is
 *           known of it.
 * Why not:  one kernel that goes along the rows: of four elements each it takes up to sixty times
 *           as long. A kernel for each short size: as many compiles as there are sizes.
 * Example:  softmax of f32[B, N], N in 2..inf: a kernel for N in 2..8 and one for N in 2..inf.
 */
#include "codegen/compile/kernels.h"
#include "codegen/rewrites.h"

enum {
    DIM_MANY = UINT32_MAX - 1,      /* no dim: more than one symbol */
    MOST_SYMBOL = 1 << 20,          /* the largest value of a size symbol that is looked at */
};

static void
note_symbol(void *arg, Dim symbol)
{
    Dim *found = arg;
    *found = *found == DIM_NONE || *found == symbol ? symbol : DIM_MANY;
}

/* The one size symbol that the dim is made of, else DIM_NONE. */
static Dim
only_symbol(Cx *cx, Dim d)
{
    Dim symbol = DIM_NONE;
    dim_names(cx, d, note_symbol, &symbol);
    return symbol == DIM_MANY || symbol == DIM_NONE || dim_extent(cx, symbol) != DIM_NONE ? DIM_NONE
                                                                                          : symbol;
}

/* The largest value of the symbol up to which the row is short; less than its least one: there is
 * none. */
static int64_t
last_short(Cx *cx, Dim row, Dim symbol)
{
    Range full = dim_range(cx, symbol);
    int64_t below = full.lo - 1, above = full.hi < MOST_SYMBOL ? full.hi + 1 : MOST_SYMBOL;
    while (above - below > 1) {
        int64_t middle = below + (above - below) / 2;
        Range found = dim_range_within(cx, row, symbol, (Range){full.lo, middle});
        bool is_short = found.hi <= DLC_SHORT_ROW;
        below = is_short ? middle : below;
        above = is_short ? above : middle;
    }
    return below;
}

/* The row, if its size says whether it is short or long and it may be both: one that grows with the
 * only symbol in it. */
static Dim
may_be_short(Cx *cx, Dim row)
{
    Dim symbol = row == DIM_NONE ? DIM_NONE : only_symbol(cx, row);
    if (symbol == DIM_NONE || dim_range(cx, row).lo > DLC_SHORT_ROW ||
        dim_range(cx, row).hi <= DLC_SHORT_ROW) {
        return DIM_NONE;
    }
    Range full = dim_range(cx, symbol);
    int64_t last = last_short(cx, row, symbol);
    Range others = dim_range_within(cx, row, symbol, (Range){last + 1, full.hi});
    bool parts = last >= full.lo && last < full.hi && others.lo > DLC_SHORT_ROW;
    return parts ? row : DIM_NONE;
}

/* The size of the last axis, if it is a symbol and there are rows of it that may be short or long;
 * else DIM_NONE. */
static Dim
last_of(Cx *cx, const Type *t)
{
    Dim row = t && t->rank >= 2 ? t->dims[t->rank - 1] : DIM_NONE;
    return row != DIM_NONE && dim_is_name(cx, row) ? may_be_short(cx, row) : DIM_NONE;
}

/* Does the kernel read an operand of the reduction's shape so that elements along a reduced axis
 * are side by side? */
static bool
reduces_along(Cx *cx, const Let *kernel, const Let *red, int axis)
{
    const Type *t = red->args[0]->type;
    bool along = axis == t->rank - 1;
    for (int k = 0; k < kernel->body->n && !along; k++) {
        const Let *let = kernel->body->lets[k];
        for (int j = 0; j < let->nargs && !along; j++) {
            const Value *v = let->args[j];
            along = v->type && v->strides && v->type->rank == t->rank &&
                    v->type->dims[axis] == t->dims[axis] && dim_is(cx, v->strides[axis], 1);
        }
    }
    return along;
}

/* How many terms a result of the reduction has, if that may be few and they may be read as a row;
 * else DIM_NONE. */
static Dim
terms_of(Cx *cx, const Let *kernel, const Let *red)
{
    const Attr *over = let_attr(red, "axes");
    const Type *t = red->args[0]->type;
    Dim terms = dim_int(cx, 1);
    bool along = false;
    for (int k = 0; k < over->n; k++) {
        terms = dim_mul(cx, terms, t->dims[over->axes[k]]);
        along |= reduces_along(cx, kernel, red, over->axes[k]);
    }
    return along && over->n < t->rank ? may_be_short(cx, terms) : DIM_NONE;
}

/* Does the let read an operand row by row, so that several rows cannot run as one long row?  Lets
 * that spread one element, and elementwise ones, do not.  A contraction does not count: its tiles
 * are as fast with few columns. */
static bool
keeps_rows(const Let *let)
{
    OpKind kind = let->op == OP_reshape ? KIND_MAP : op_info[let->op].kind;
    bool reads = let->nargs && let->args[0]->type && let->args[0]->type->rank > 0;
    return kind == KIND_RED ||
           (reads && (kind == KIND_VIEW || (kind == KIND_NODE && let->op != OP_contract)));
}

/* The extent that decides between the two kernels: the number of terms that are reduced along rows;
 * else the length of rows that are reduced across; else that of rows that are moved.  DIM_NONE: one
 * kernel serves all sizes. */
static Dim
row_of(Cx *cx, const Let *kernel)
{
    Dim across = DIM_NONE, moved = DIM_NONE;
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        if (!keeps_rows(let)) {
            continue;
        }
        bool reduces = op_info[let->op].kind == KIND_RED;
        Dim terms = reduces ? terms_of(cx, kernel, let) : DIM_NONE;
        if (terms != DIM_NONE) {
            return terms;
        }
        Dim from = last_of(cx, let->args[0]->type),
            to = let->nres ? last_of(cx, let->res[0]->type) : DIM_NONE;
        across = across != DIM_NONE || !reduces ? across : from;
        moved = moved != DIM_NONE ? moved : to != DIM_NONE ? to : from;
    }
    return across != DIM_NONE ? across : moved;
}

Range
kernel_range(Cx *cx, Dim row)
{
    return row == DIM_NONE ? (Range){0, 0} : dim_range(cx, only_symbol(cx, row));
}

static void
narrow(Cx *cx, Dim row)
{
    Dim symbol = only_symbol(cx, row);
    Range all = dim_range(cx, symbol);
    dim_declare(cx, symbol, (Range){all.lo, last_short(cx, row, symbol)}, dim_divisor(cx, symbol));
}

void
kernel_widen(Cx *cx, Dim row, Range full)
{
    if (row != DIM_NONE) {
        Dim symbol = only_symbol(cx, row);
        dim_declare(cx, symbol, full, dim_divisor(cx, symbol));
    }
}

/* The row of the function's first kernel, if that is the row of each of them; else DIM_NONE. */
static Dim
row_of_all(const Fn *fn)
{
    Dim row = DIM_NONE;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        Dim own = let->op == OP_kernel ? row_of(fn->cx, let) : DIM_NONE;
        if (own == DIM_NONE || (k > 0 && own != row)) {
            return DIM_NONE;
        }
        row = own;
    }
    return row;
}

Fn *
rewrite_short_rows(Fn *fn)
{
    Dim row = row_of_all(fn);
    if (row != DIM_NONE && fuel_spend(fn->cx)) {
        narrow(fn->cx, row);
    }
    return fn;
}

void
kernel_key_of(Cx *cx, KernelCoder *coder, KernelUse *use)
{
    Range full = kernel_range(cx, use->row);
    if (use->row != DIM_NONE) {
        narrow(cx, use->row);
    }
    kernel_key(coder, use->let, &use->key);
    kernel_widen(cx, use->row, full);
}

void
kernels_find_short(Kernels *ks)
{
    KernelCoder *coder = kernel_coder(ks->fn);
    for (int k = 0; k < ks->nuses; k++) {
        KernelUse *use = &ks->uses[k];
        Dim row = row_of(ks->cx, use->let);
        if (row != DIM_NONE) {
            use->shorts = cx_alloc(ks->cx, sizeof *use->shorts);
            *use->shorts = (KernelUse){.let = use->let, .row = row};
            kernel_key_of(ks->cx, coder, use->shorts);
        }
    }
}

Dim
kernel_share(Cx *cx, const KernelUse *use)
{
    Dim one = dim_int(cx, 1), row = use->shorts ? use->shorts->row : use->row;
    if (row == DIM_NONE) {
        return one;
    }
    Dim left = dim_sub(cx, dim_int(cx, DLC_SHORT_ROW + 1), row);
    Dim is_short = dim_max(cx, dim_min(cx, left, one), dim_int(cx, 0));
    return use->shorts ? dim_sub(cx, one, is_short) : is_short;
}
