/* Kernels whose rows may be short: lowered twice, for short rows and for longer ones, with an if
 * around the two.
 *
 * What:     finds the size symbol by which a kernel's rows are short, and the last value of it for
 *           which they are.
 * Requires: a kernel of the kernels stage.
 * Ensures:  the condition compares one size symbol with a number.  It is so for all rows of at most
 *           DLC_SHORT_ROW elements, and for no other.
 * How:      a kernel has such rows where their size has one size symbol and may be DLC_SHORT_ROW
 *           and less, or more: if it reduces such rows, or if such a size symbol is its last axis
 *           and it reduces other axes, or has no product and reads an operand through a view.
 *           Where rows are short, lowering goes across them, as it does where the size is a number
 *           (reduces_columns).  There are few columns then, so that `divide` takes a long
 *           reduction of them.
 *           The order in which it reduces is that of the number too: a row's bits depend on its
 *           size, not on how much is known of it.
 * Why not:  one nest that goes along the rows: of four elements each it takes up to sixty times as
 *           long.  A nest for each short size: as many as there are sizes.
 * Example:  softmax of f32[B, N], N in 2..inf:
 *               if N <= 15 { for i in B .. } else { for i in B .. }
 */
#include "lower.h"

enum {
    DIM_MANY = UINT32_MAX - 1,      /* no dim: more than one symbol */
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
    int64_t last = full.lo - 1, more;
    for (int64_t step = 1; step > 0;) {
        bool is_short = !__builtin_add_overflow(last, step, &more) && more <= full.hi &&
                        dim_range_within(cx, row, symbol, (Range){full.lo, more}).hi <=
                            DLC_SHORT_ROW;
        last = is_short ? more : last;
        step = is_short ? 2 * step : step / 2;
    }
    return last;
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

/* Does the let read an operand so that rows cannot be one long row?  What spreads one element, is
 * elementwise or reduces all axes does not.  The tiles of a product are as quick for few
 * columns. */
static bool
keeps_rows(const Let *let)
{
    OpKind kind = let->op == OP_reshape ? KIND_MAP : op_info[let->op].kind;
    bool reads = let->nargs && let->args[0]->type && let->args[0]->type->rank > 0;
    return (kind == KIND_RED && let_attr(let, "axes")->n < let->args[0]->type->rank) ||
           (reads && (kind == KIND_VIEW || (kind == KIND_NODE && let->op != OP_contract)));
}

/* The extent that decides between the two loops: the number of terms that the kernel reduces along
 * rows, else the size of rows that it reduces across, else that of rows that it moves.  DIM_NONE:
 * one loop serves all sizes.  Rows that are moved where a product is, as a bias is spread over
 * its result, do not matter: they are read with the product's tiles. */
static Dim
row_of(Cx *cx, const Let *kernel)
{
    Dim across = DIM_NONE, moved = DIM_NONE;
    bool product = false;
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        product |= let->op == OP_contract;
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
    return across != DIM_NONE || product ? across : moved;
}

bool
lower_is_short(Cx *cx, const Let *kernel, Dim *symbol, int64_t *last)
{
    Dim row = row_of(cx, kernel);
    if (row == DIM_NONE) {
        return false;
    }
    *symbol = only_symbol(cx, row);
    *last = last_short(cx, row, *symbol);
    return true;
}
