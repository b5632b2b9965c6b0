/* Emission of portable C: reductions.
 *
 * What:     a loop over the elements, each a step of the reduction.
 * Ensures:  the order of docs/bits.md: lanes and blocks are the prelude's.
 * How:      argmax and argmin hold the best element and its index, as no order can be seen of them.
 */
#include "emit_c.h"

static Dtype
element_dtype(const Let *reduce)
{
    const Value *ret = reduce->body->rets[0];
    return value_is_const(ret) ? reduce->res[0]->type->dtype : ret->type->dtype;
}

/* Marked `terms`: compilers make vectors of a loop that stores the values of a block. */
static void
put_terms(Emit *e, const Let *reduce, const char *name)
{
    Dtype dtype = element_dtype(reduce);
    const char *out = name_c(e, reduce->res[0]), *to = dim_c(e, loop_extent(reduce)),
               *type = type_c(dtype), *i = index_c(e, loop_index(reduce));
    int block = reduce_block(reduce);
    int64_t hi = dim_range(e->cx, loop_extent(reduce)).hi;
    bool one = one_block(e->cx, reduce);
    const char *at = one ? i : cx_format(e->cx, "%s_k", out),
               *value = cx_format(e->cx, "dlc_%s_%s(%s_terms, %s)",
                                  let_has(reduce, MARK_lanes) ? "lanes" : "sequence", name, out,
                                  one ? to : cx_format(e->cx, "%s_n", out));
    if (!one) {
        put(e, "%s %s_stack[64];", type, out);
        put(e, "int64_t %s_blocks = 0;", out);
        put_open(e, "for (int64_t %s_at = 0; %s_at < %s; %s_at += %d)", out, out, to, out, block);
        put(e, "const int64_t %s_n = %s - %s_at < %d ? %s - %s_at : %d;", out, to, out, block, to,
            out, block);
    }
    put(e, "%s %s_terms[%d];", type, out, hi < 1 ? 1 : one ? (int)hi : block);
    if (one) {
        c_open_for(e, reduce);
    } else {
        put_open(e, "for (int64_t %s = 0, %s = %s_at; %s < %s_n; %s++, %s++)", at, i, out, at, out,
                 at, i);
    }
    c_block(e, reduce->body);
    put(e, "%s_terms[%s] = %s;", out, at, c_value(e, reduce->body->rets[0], dtype));
    put_close(e);
    if (!one) {
        put(e, "dlc_pairs_push_%s(%s_stack, &%s_blocks, %s);", name, out, out, value);
        put_close(e);
        value = cx_format(e->cx, "dlc_pairs_fold_%s(%s_stack, %s_blocks)", name, out, out);
    }
    put(e, "const %s %s = %s;", type_c(reduce->res[0]->type->dtype), out, value);
}

/* Those of the row, or the one that a one-hot select adds to zeros. */
static void
open_elements(Emit *e, const Let *reduce)
{
    if (!let_has(reduce, MARK_onehot)) {
        c_open_for(e, reduce);
        return;
    }
    const char *at = c_value(e, onehot_index(reduce), DT_i64);
    put_open(e, "if (%s >= 0 && %s < %s)", at, at, dim_c(e, loop_extent(reduce)));
    put(e, "const int64_t %s = %s;", index_c(e, loop_index(reduce)), at);
}

static void
put_steps(Emit *e, const Let *reduce)
{
    Dtype dtype = element_dtype(reduce);
    const char *out = name_c(e, reduce->res[0]),
               *name = cx_format(e->cx, "%s_%s", op_info[let_op(reduce)].name, compute_name(dtype));
    if (let_has(reduce, MARK_terms)) {
        put_terms(e, reduce, name);
        return;
    }
    put(e, "dlc_reduction_%s %s_stack = dlc_begin_%s(%d, %d);", compute_name(dtype), out, name,
        reduce_block(reduce) == DLC_BLOCK ? DLC_LANES : 1, reduce_block(reduce));
    open_elements(e, reduce);
    c_block(e, reduce->body);
    put(e, "dlc_step_%s(&%s_stack, %s);", name, out, c_value(e, reduce->body->rets[0], dtype));
    put_close(e);
    put(e, "const %s %s = dlc_end_%s(&%s_stack);", type_c(reduce->res[0]->type->dtype), out, name,
        out);
}

static void
put_index(Emit *e, const Let *reduce)
{
    Dtype dtype = element_dtype(reduce);
    const char *out = name_c(e, reduce->res[0]), *i = index_c(e, loop_index(reduce)),
               *name = cx_format(e->cx, "%s_%s", op_info[let_op(reduce)].name, compute_name(dtype)),
               *v = c_value(e, reduce->body->rets[0], dtype);
    put(e, "int64_t %s = 0;", out);
    put(e, "%s %s_best = dlc_identity_%s().value;", type_c(dtype), out, name);
    c_open_for(e, reduce);
    c_block(e, reduce->body);
    put_open(e, "if (dlc_beats_%s(%s, %s_best))", name, v, out);
    put(e, "%s_best = %s;", out, v);
    put(e, "%s = %s;", out, i);
    put_close(e);
    put_close(e);
}

static const char *
term(Emit *e, const Let *product, Dtype dtype, const char *sum)
{
    return cx_format(e->cx, "dlc_fma_%s(%s, %s, %s)", compute_name(dtype),
                     c_value(e, product->args[0], dtype), c_value(e, product->args[1], dtype), sum);
}

void
c_reduce(Emit *e, const Let *reduce)
{
    if (let_has(reduce, MARK_fused)) {
        put_chains(e, reduce, &(ChainWriter){c_open_for, c_let, term});
    } else if (op_info[let_op(reduce)].rule == RULE_INDEX) {
        put_index(e, reduce);
    } else {
        put_steps(e, reduce);
    }
}
