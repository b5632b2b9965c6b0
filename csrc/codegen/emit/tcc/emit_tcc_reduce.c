/* Reductions for libtcc: blocks by strips, then pairwise by strips.
 *
 * What:     the statements of a reduce let, see emit_tcc.c.
 * Requires: a vector reduction outside vector loops; any other one anywhere.
 * Ensures:  the order of docs/bits.md.
 * How:      a block of a vector reduction is one strip_reduce call on a tile, or a strip_fold call
 *           that computes the last let of the body too.  In sequence, a step
 *           is one call of the combining op's strip on the running tile (a single element outside
 *           vector loops).  Block results go through pairs_push, the same binary counter for tiles
 *           and single elements.  argmax and argmin do not depend on order: of a vector reduction
 *           the blocks' winners are kept in a tile and reduced again; in sequence, winners are
 *           chosen by comparison and `where`.
 * Why not:  one routine for all in the extension: the body between the blocks is the program's.
 * Example:  for (i = 0; i < N; i += 1024) { ...; s_block = strip_reduce_sum_f32(x + i, w);
 *           pairs_push(..) }
 */
#include <string.h>

#include "emit_tcc.h"

enum { LEVELS = 40 };           /* of the pairwise counter: 2**40 blocks */

typedef struct {
    const Let *let;
    Op op;
    Dtype dtype;                /* of what is reduced */
    const char *out;            /* name stem */
    const char *combine, *copy; /* strips */
    const char *block; /* the call that reduces a block of what it loads itself, or NULL */
    const char *i, *extent;
} Red;

static const char pairs_text[] =
    "\n/* Block results combined pairwise, as a binary counter counts: older op newer. */\n"
    "typedef void PairOp(void *, const void *, const void *, int64_t, unsigned);\n"
    "typedef void PairCopy(void *, const void *, int64_t);\n"
    "\n"
    "static int64_t\n"
    "pairs_depth(int64_t blocks)\n"
    "{\n"
    "    int64_t depth = 0;\n"
    "    for (; blocks != 0; blocks &= blocks - 1) {\n"
    "        depth++;\n"
    "    }\n"
    "    return depth;\n"
    "}\n"
    "\n"
    "static void\n"
    "pairs_push(PairOp *op, PairCopy *copy, char *stack, int64_t bytes, int64_t *blocks,\n"
    "           void *v, int64_t w)\n"
    "{\n"
    "    int64_t depth = pairs_depth(*blocks), c;\n"
    "    for (c = *blocks; c & 1; c >>= 1) {\n"
    "        depth--;\n"
    "        op(v, stack + depth * bytes, v, w, 0);\n"
    "    }\n"
    "    copy(stack + depth * bytes, v, w);\n"
    "    ++*blocks;\n"
    "}\n"
    "\n"
    "static void\n"
    "pairs_fold(PairOp *op, PairCopy *copy, char *stack, int64_t bytes, int64_t blocks,\n"
    "           void *v, int64_t w)\n"
    "{\n"
    "    int64_t depth = pairs_depth(blocks);\n"
    "    if (depth > 0) {\n"
    "        copy(v, stack + (depth - 1) * bytes, w);\n"
    "    }\n"
    "    for (depth -= 2; depth >= 0; depth--) {\n"
    "        op(v, stack + depth * bytes, v, w, 0);\n"
    "    }\n"
    "}\n";

static void
make_pairs(Tcc *t)
{
    if (new_helper(t->e, "pairs_push")) {
        text_add(t->e->helpers, "%s", pairs_text);
    }
}

/* What lanes and running values begin with, by the compute dtype's bits. */
static const char *
identity(Tcc *t, const Red *r)
{
    static const Literal zero = {.is_int = true, .i = 0}, one = {.is_int = true, .i = 1};
    bool lowest = r->op == OP_amax || r->op == OP_argmax;
    if (r->op != OP_amax && r->op != OP_amin && r->op != OP_argmax && r->op != OP_argmin) {
        return tcc_literal(t, r->dtype, r->op == OP_prod || r->op == OP_all ? one : zero);
    }
    Literal end = {.is_int = true};
    switch (dtype_info[r->dtype].compute) {
    case DT_bool:
        end.i = !lowest;
        break;
    case DT_i32:
        end.i = lowest ? INT32_MIN : INT32_MAX;
        break;
    case DT_i64:
        end.i = lowest ? INT64_MIN : INT64_MAX;
        break;
    default:
        end = (Literal){.f = lowest ? -__builtin_inf() : __builtin_inf()};
    }
    return tcc_literal(t, dtype_info[r->dtype].compute, end);
}

static Red
open_red(Tcc *t, const Let *let)
{
    Emit *e = t->e;
    const Value *ret = let->body->rets[0];
    Red r = {.let = let, .op = let_op(let)};
    r.dtype = value_is_const(ret) ? let->res[0]->type->dtype : ret->type->dtype;
    r.out = name_c(e, let->res[0]);
    r.i = index_c(e, loop_index(let));
    r.extent = dim_c(e, loop_extent(let));
    const char *dtype = compute_name(r.dtype);
    if (op_info[r.op].rule != RULE_INDEX) {
        r.combine = tcc_strip(t, "strip_%s_%s", op_info[op_info[r.op].combine].name, dtype);
    }
    r.copy = tcc_strip(t, "strip_cast_%s_%s", dtype, dtype);
    return r;
}

/* ---- vector reductions ---- */

/* Does the reduction compute what its body returns? */
static bool
is_folded(const Tcc *t, const Red *r)
{
    const Value *v = r->let->body->rets[0];
    return !value_is_const(v) && t->pairs[v->id].folded;
}

static void
open_blocks(Tcc *t, const Red *r)
{
    Emit *e = t->e;
    put(e, "int64_t %s;", r->i);
    put_open(e, "for (%s = 0; %s < %s; %s += %d)", r->i, r->i, r->extent, r->i, DLC_BLOCK);
    put(e, "int64_t w = %s - %s < %d ? %s - %s : %d;", r->extent, r->i, DLC_BLOCK, r->extent, r->i,
        DLC_BLOCK);
    tcc_enter(t, r->let, "w");
}

/* Opens the loop over blocks and runs the body, unless one call does all of it. */
static void
open_tile(Tcc *t, Red *r)
{
    open_blocks(t, r);
    r->block = let_has(r->let, MARK_primitive) ? tcc_reduce_along(t, r->let, r->dtype) : NULL;
    if (!r->block) {
        tcc_lets(t, r->let->body);
    }
}

static void
close_tile(Tcc *t, const Red *r, const Place *copy)
{
    tcc_free(t, copy);
    tcc_release(t, r->let->body);
    tcc_leave(t);
    put_close(t->e);
}

/* The bits of a strip's scalars that say how far ahead it prefetches its first operand, if its
 * second is one for all. */
static const char *
prefetch_of_fold(Tcc *t, const Red *r)
{
    for (int k = 0; t->fold->mask == 2 && k < r->let->body->n; k++) {
        const Let *load = r->let->body->lets[k];
        if (load->op == OP_load && t->places[load->res[0]->id].at == t->fold->args[0].at) {
            return tcc_prefetch_bits(t, load, r->let, 0);
        }
    }
    return "";
}

/* The value of a block, as C. */
static const char *
block_c(Tcc *t, const Red *r, Place *copy)
{
    Cx *cx = t->e->cx;
    *copy = (Place){.slot = -1};
    if (r->block) {
        return r->block;
    }
    if (is_folded(t, r)) {
        const char *strip = pairs_fold(r->op, t->fold->strip);
        return cx_format(cx, "%s(%sw, %u%s)", tcc_strip(t, "%s", strip), tcc_operands(t, t->fold),
                         t->fold->mask, prefetch_of_fold(t, r));
    }
    const char *tile = tcc_spread(t, r->let->body->rets[0], r->dtype, copy);
    return cx_format(
        cx, "%s(%s, w)",
        tcc_strip(t, "strip_reduce_%s_%s", op_info[r->op].name, compute_name(r->dtype)), tile);
}

/* A statement, under a condition if there is one: rows that are known to be short have one block,
 * and no stack of blocks. */
static void
put_if_long(Emit *e, const char *condition, const char *statement)
{
    if (condition) {
        put_open(e, "%s", condition);
    }
    put(e, "%s", statement);
    if (condition) {
        put_close(e);
    }
}

static void
put_vector(Tcc *t, Red *r)
{
    Emit *e = t->e;
    Place copy;
    const char *type = type_c(r->dtype);
    bool one = one_block(e->cx, r->let), is_short = !one && may_be_one_block(e->cx, r->let);
    put(e, "%s %s = *(const %s *)%s;", type, r->out, type, identity(t, r));
    put_scope(e);
    if (!one) {
        make_pairs(t);
        put(e, "%s %s_stack[64], %s_block;", type, r->out, r->out);
        put(e, "int64_t %s_blocks = 0;", r->out);
    }
    open_tile(t, r);
    put(e, "%s%s = %s;", r->out, one ? "" : "_block", block_c(t, r, &copy));
    if (is_short) {
        put_open(e, "if (%s <= %d)", r->extent, DLC_BLOCK);
        put(e, "%s = %s_block;", r->out, r->out);
        put_close(e);
    }
    if (!one) {
        const char *push = cx_format(
            e->cx, "pairs_push(%s, %s, (char *)%s_stack, sizeof(%s), &%s_blocks, ", r->combine,
            r->copy, r->out, type, r->out);
        put_if_long(e, is_short ? "else" : NULL,
                    cx_format(e->cx, "%s&%s_block, 1);", push, r->out));
    }
    close_tile(t, r, &copy);
    if (!one) {
        const char *more = is_short ? cx_format(e->cx, "if (%s > %d)", r->extent, DLC_BLOCK) : NULL;
        put_if_long(
            e, more,
            cx_format(e->cx, "pairs_fold(%s, %s, (char *)%s_stack, sizeof(%s), %s_blocks, &%s, 1);",
                      r->combine, r->copy, r->out, type, r->out, r->out));
    }
    put_close(e);
}

/* All that the element is computed by: not the choice, nor what it is chosen by if nothing else
 * uses that. */
static void
put_onehot_sum(Tcc *t, const Let *reduce)
{
    const Block *body = reduce->body;
    const Let *where = body->rets[0]->def, *eq = where->args[0]->def;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        if (let != where && (let != eq || t->found->uses[eq->res[0]->id] > 1)) {
            tcc_let(t, let);
        }
    }
}

/* A sum of one element chosen by its index, and zeros: that element, as onehot_index has it. */
static void
put_onehot(Tcc *t, const Red *r)
{
    Emit *e = t->e;
    const Let *where = r->let->body->rets[0]->def;
    Place at = tcc_place(t, onehot_index(r->let), DT_i64),
          sum = {.at = cx_format(e->cx, "&%s", r->out), .slot = -1};
    put(e, "%s %s = *(const %s *)%s;", type_c(r->dtype), r->out, type_c(r->dtype), identity(t, r));
    put_scope(e);
    put(e, "int64_t %s = *(const int64_t *)(%s);", r->i, at.at);
    put_open(e, "if (%s >= 0 && %s < %s)", r->i, r->i, r->extent);
    put_onehot_sum(t, r->let);
    Place v = tcc_place(t, where->args[1], r->dtype);
    tcc_put_plain(t, OP_add, r->dtype, &sum, &sum, &v);
    tcc_release(t, r->let->body);
    put_close(e);
    put_close(e);
}

/* The winner of a block; a full table, or that of the last block, is reduced to its winner. */
static void
put_winner(Tcc *t, const Red *r, const char *strip, const char *tile)
{
    Emit *e = t->e;
    const char *out = r->out;
    put(e, "%s_index[%s_count] = %s + %s(%s, w, &%s_best[%s_count]);", out, out, r->i, strip, tile,
        out, out);
    put(e, "%s_count++;", out);
    put_open(e, "if (%s_count == %d || %s + w == %s)", out, DLC_BLOCK, r->i, r->extent);
    put(e, "%s_first = %s(%s_best, %s_count, &%s_value);", out, strip, out, out, out);
    put(e, "%s_best[0] = %s_value;", out, out);
    put(e, "%s = %s_index[0] = %s_index[%s_first];", out, out, out, out);
    put(e, "%s_count = 1;", out);
    put_close(e);
}

/* The winners of up to 1024 blocks, their indices beside them. */
static void
put_vector_arg(Tcc *t, Red *r)
{
    Emit *e = t->e;
    Place copy;
    const char *type = type_c(r->dtype), *out = r->out;
    const char *strip = tcc_strip(t, "strip_reduce_%s_%s", op_info[r->op].name,
                                  compute_name(r->dtype));
    bool one = one_block(e->cx, r->let);
    put(e, "int64_t %s = %lld;", out, (long long)INT64_MAX);
    put_scope(e);
    if (one) {
        put(e, "%s %s_value;", type, out);
    } else {
        put(e, "%s %s_best[%d], %s_value;", type, out, DLC_BLOCK, out);
        put(e, "int64_t %s_index[%d], %s_count = 0, %s_first;", out, DLC_BLOCK, out, out);
    }
    open_tile(t, r);
    const char *tile = tcc_spread(t, r->let->body->rets[0], r->dtype, &copy);
    if (one) {
        put(e, "%s = %s(%s, w, &%s_value);", out, strip, tile, out);
    } else {
        put_winner(t, r, strip, tile);
    }
    close_tile(t, r, &copy);
    put_close(e);
}

/* ---- products ---- */

/* A sum marked fused, outside of vector loops: its factors a block at a time, which one call
 * multiplies and adds.  A block is whole chains. */
static void
put_fused(Tcc *t, Red *r)
{
    Emit *e = t->e;
    _Static_assert(DLC_BLOCK % CONTRACTION_CHAIN == 0, "a block is cut at the end of a chain");
    const Let *product = r->let->body->rets[0]->def;
    Place x, y;
    put(e, "%s %s_all[%d] = {0};", type_c(r->dtype), r->out, (int)panel_width(r->dtype));
    put_scope(e);
    open_blocks(t, r);
    for (int k = 0; k < r->let->body->n; k++) {
        if (r->let->body->lets[k] != product) {
            tcc_let(t, r->let->body->lets[k]);
        }
    }
    const char *a = tcc_spread(t, product->args[0], r->dtype, &x),
               *b = tcc_spread(t, product->args[1], r->dtype, &y);
    put_dot(e, r->dtype, cx_format(e->cx, "%s_all", r->out), a, b, "w",
            cx_format(e->cx, "%s == 0", r->i));
    tcc_free(t, &x);
    close_tile(t, r, &y);
    put_close(e);
    put(e, "%s %s = %s_all[0];", type_c(r->dtype), r->out, r->out);
}

/* ---- reductions in sequence ---- */

/* winner: the new element wins outright or is a NaN where there was none. */
static void
put_step_arg(Tcc *t, const Red *r, const Place *best, const Place *index)
{
    Emit *e = t->e;
    const char *dtype = compute_name(r->dtype), *n = t->n;
    bool tile = t->at != NULL, is_float = dtype_info[r->dtype].class == CLASS_FLOAT;
    Place v = tcc_place(t, r->let->body->rets[0], r->dtype);
    unsigned scalar = tile && !v.varies;
    put_scope(e);
    Place wins = tcc_room(t, DT_bool, tile, "wins"), nan = {.slot = -1}, was = {.slot = -1};
    put(e, "%s(%s, %s, %s, %s, %u);",
        tcc_strip(t, "strip_%s_%s", r->op == OP_argmax ? "gt" : "lt", dtype), wins.at, v.at,
        best->at, n, scalar);
    if (is_float) {
        nan = tcc_room(t, DT_bool, tile, "nan");
        was = tcc_room(t, DT_bool, tile, "was");
        const char *isnan = tcc_strip(t, "strip_isnan_%s", dtype);
        put(e, "%s(%s, %s, %s, %u);", isnan, nan.at, v.at, n, scalar);
        put(e, "%s(%s, %s, %s, 0);", isnan, was.at, best->at, n);
        put(e, "%s(%s, %s, %s, %s, 0);", tcc_strip(t, "strip_gt_bool"), nan.at, nan.at, was.at, n);
        put(e, "%s(%s, %s, %s, %s, 0);", tcc_strip(t, "strip_bit_or_bool"), wins.at, wins.at,
            nan.at, n);
    }
    put(e, "%s(%s, %s, %s, %s, %s, %u);", tcc_strip(t, "strip_where_%s", dtype), best->at, wins.at,
        v.at, best->at, n, scalar << 1);
    put(e, "%s(%s, %s, &%s, %s, %s, 2);", tcc_strip(t, "strip_where_i64"), index->at, wins.at, r->i,
        index->at, n);
    tcc_free(t, &wins);
    tcc_free(t, &nan);
    tcc_free(t, &was);
    put_close(e);
}

/* Any first element wins, also the lowest there is: the index begins as that of the first. */
static void
put_sequence_arg(Tcc *t, const Red *r, Place *index)
{
    Emit *e = t->e;
    static const Literal first = {.is_int = true, .i = 0};
    bool tile = t->at != NULL;
    *index = tcc_room(t, DT_i64, tile, r->out);
    tcc_fill(t, index, DT_i64, tcc_literal(t, DT_i64, first));
    put_scope(e);
    Place best = tcc_room(t, r->dtype, tile, "best");
    tcc_fill(t, &best, r->dtype, identity(t, r));
    put(e, "int64_t %s;", r->i);
    put_open(e, "for (%s = 0; %s < %s; %s++)", r->i, r->i, r->extent, r->i);
    tcc_lets(t, r->let->body);
    put_step_arg(t, r, &best, index);
    tcc_release(t, r->let->body);
    put_close(e);
    tcc_free(t, &best);
    put_close(e);
}

static void
put_steps(Tcc *t, const Red *r, const Place *sum, const char *from, const char *to)
{
    Emit *e = t->e;
    if (tcc_reduce_down(t, r->let, r->dtype, sum, from, to)) {
        return;
    }
    put_open(e, "for (%s = %s; %s < %s; %s++)", r->i, from, r->i, to, r->i);
    tcc_lets(t, r->let->body);
    if (is_folded(t, r)) {
        put(e, "%s(%s, %s%s, %s, %u);", tcc_strip(t, "%s", pairs_step(r->op, t->fold->strip)),
            sum->at, tcc_operands(t, t->fold), sum->at, t->n, t->fold->mask);
    } else {
        Place v = tcc_place(t, r->let->body->rets[0], r->dtype);
        if (!tcc_put_plain(t, op_info[r->op].combine, r->dtype, sum, sum, &v)) {
            put(e, "%s(%s, %s, %s, %s, %d);", r->combine, sum->at, sum->at, v.at, t->n,
                sum->varies && !v.varies ? 2 : 0);
        }
    }
    tcc_release(t, r->let->body);
    put_close(e);
}

static void
put_sequence(Tcc *t, const Red *r, Place *sum)
{
    Emit *e = t->e;
    const char *start = identity(t, r), *out = r->out, *type = type_c(r->dtype);
    int block = reduce_block(r->let), width = t->at ? tcc_width(t) : 1;
    *sum = tcc_room(t, r->dtype, t->at != NULL, out);
    tcc_fill(t, sum, r->dtype, start);
    put_scope(e);
    put(e, "int64_t %s;", r->i);
    if (one_block(e->cx, r->let)) {
        put_steps(t, r, sum, "0", r->extent);
    } else {
        make_pairs(t);
        put(e, "%s %s_stack[%d];", type, out, LEVELS * width);
        put(e, "int64_t %s_from, %s_end, %s_blocks = 0;", out, out, out);
        put_open(e, "for (%s_from = 0; %s_from < %s; %s_from = %s_end)", out, out, r->extent, out,
                 out);
        put(e, "%s_end = %s - %s_from < %d ? %s : %s_from + %d;", out, r->extent, out, block,
            r->extent, out, block);
        put_steps(t, r, sum, cx_format(e->cx, "%s_from", out), cx_format(e->cx, "%s_end", out));
        put(e, "pairs_push(%s, %s, (char *)%s_stack, %d * sizeof(%s), &%s_blocks, %s, %s);",
            r->combine, r->copy, out, width, type, out, sum->at, t->n);
        tcc_fill(t, sum, r->dtype, start);
        put_close(e);
        put(e, "pairs_fold(%s, %s, (char *)%s_stack, %d * sizeof(%s), %s_blocks, %s, %s);",
            r->combine, r->copy, out, width, type, out, sum->at, t->n);
    }
    put_close(e);
}

void
tcc_reduce(Tcc *t, const Let *let)
{
    Red r = open_red(t, let);
    bool index = op_info[r.op].rule == RULE_INDEX;
    Place out = {.at = cx_format(t->e->cx, "&%s", r.out), .slot = -1};
    if (let_has(let, MARK_lanes) && index) {
        put_vector_arg(t, &r);
    } else if (let_has(let, MARK_onehot)) {
        put_onehot(t, &r);
    } else if (let_has(let, MARK_lanes)) {
        put_vector(t, &r);
    } else if (let_has(let, MARK_fused)) {
        put_fused(t, &r);
    } else if (index) {
        put_sequence_arg(t, &r, &out);
    } else {
        put_sequence(t, &r, &out);
    }
    tcc_bind(t, let->res[0], out);
}
