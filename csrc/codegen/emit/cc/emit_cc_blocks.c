/* A vector reduction in C: its blocks.
 *
 * What:     blocks of 1024 elements (emit_cc_lanes.c) one after the other, or several at once,
 *           combined pairwise.
 * Ensures:  the order of prelude_reduce.h.
 * How:      A step waits for the one before it: in a row marked `parts` several blocks go on side
 *           by side; of two rows at a time (emit_cc_jam.c) a block of each.
 * Example:  for (; sum_first + 4096 <= N; sum_first += 4096) { push four blocks of one loop }
 *           for (sum_from = sum_first; sum_from < N; sum_from += 1024) { push one block }
 *           sum = dlc_pairs_fold_sum_f32(sum_stack, sum_blocks);
 */
#include "emit_cc.h"

void
cc_open_blocks(Emit *e, const Reduction *r, const char *first, int block)
{
    put_open(e, "for (int64_t %s_from = %s; %s_from < %s; %s_from += %d)", r->out, first, r->out,
             r->extent, r->out, block);
    put(e, "const int64_t %s_end = %s - %s_from < %d ? %s : %s_from + %d;", r->out, r->extent,
        r->out, block, r->extent, r->out, block);
}

static void
put_push(Emit *e, const Reduction *r, const char *value)
{
    put(e, "dlc_pairs_push_%s(%s_stack, &%s_blocks, %s);", r->name, r->out, r->out, value);
}

/* While there are so many, as many blocks in one loop as the mark says. */
static void
put_blocks(Emit *e, const Let *let, const Reduction *r)
{
    const char *out = r->out;
    int parts = (int)let_mark_value(let, MARK_parts), elements = parts * DLC_BLOCK;
    Reduction *each = cx_alloc(e->cx, (size_t)parts * sizeof *each);
    put(e, "int64_t %s_first = 0;", out);
    put_open(e, "for (; %s_first + %d <= %s; %s_first += %d)", out, elements, r->extent, out,
             elements);
    for (int k = 0; k < parts; k++) {
        each[k] = cc_part(e, r, k);
    }
    cc_lanes_parts(e, let, each, parts, DLC_BLOCK, cx_format(e->cx, "%s_first", out));
    for (int k = 0; k < parts; k++) {
        put_push(e, r, cc_lanes_value(e, &each[k]));
    }
    put_close(e);
}

static void
put_block_alone(Emit *e, const Let *let, const Reduction *r)
{
    put(e, "const int64_t %s_from = 0, %s_end = %s;", r->out, r->out, r->extent);
    put(e, "%s = %s;", r->out, cc_lanes_block(e, let, r));
}

/* Blocks in sequence, then pairwise. */
static void
put_all_blocks(Emit *e, const Let *let, const Reduction *r)
{
    put(e, "%s %s_stack[64];", r->type, r->out);
    put(e, "int64_t %s_blocks = 0;", r->out);
    const char *first = "0";
    if (let_has(let, MARK_parts)) {
        put_blocks(e, let, r);
        first = cx_format(e->cx, "%s_first", r->out);
    }
    cc_open_blocks(e, r, first, DLC_BLOCK);
    put_push(e, r, cc_lanes_block(e, let, r));
    put_close(e);
    put(e, "%s = dlc_pairs_fold_%s(%s_stack, %s_blocks);", r->out, r->name, r->out, r->out);
}

/* A one-hot select, see onehot_index. */
static void
put_onehot(Emit *e, const Let *reduce)
{
    Reduction r = cc_reduction(e, reduce);
    const char *at = cc_value(e, onehot_index(reduce), DT_i64);
    put(e, "%s %s = dlc_identity_%s();", r.type, r.out, r.name);
    put_open(e, "if (%s >= 0 && %s < %s)", at, at, r.extent);
    put(e, "const int64_t %s = %s;", r.i, at);
    cc_block(e, reduce->body);
    put(e, "%s = dlc_combine_%s(%s, %s);", r.out, r.name, r.out, cc_term(e, &r));
    put_close(e);
}

void
cc_lanes_reduce(Emit *e, const Let *let, bool together)
{
    if (let_has(let, MARK_onehot)) {
        put_onehot(e, let);
        return;
    }
    Reduction r = cc_reduction(e, let);
    r.together = together;
    if (r.index) {
        cc_arg_reduce(e, let, &r);
        return;
    }
    put(e, "%s %s;", r.type, r.out);
    put_scope(e);
    if (one_block(e->cx, let)) {
        put_block_alone(e, let, &r);
    } else {
        put_all_blocks(e, let, &r);
    }
    put_close(e);
}

/* ---- two rows ---- */

static void
put_result(Emit *e, const Reduction *r)
{
    put(e, "%s = %s;", r->out, cc_lanes_value(e, r));
}

static void
put_block(Emit *e, const Reduction *r)
{
    put_push(e, r, cc_lanes_value(e, r));
}

static void
put_many_blocks(Emit *e, const Let *let, const Jam *jam, const Reduction r[2])
{
    for (int k = 0; k < 2; k++) {
        cc_copy(e, jam, k);
        put(e, "%s %s_stack[64];", r[k].type, r[k].out);
        put(e, "int64_t %s_blocks = 0;", r[k].out);
        if (let_has(let, MARK_parts)) {
            put_blocks(e, let, &r[k]);
        }
    }
    cc_copy(e, jam, 0);
    cc_open_blocks(e, r, let_has(let, MARK_parts) ? cx_format(e->cx, "%s_first", r->out) : "0",
                   DLC_BLOCK);
    cc_lanes_two(e, let, jam, r, put_block);
    put_close(e);
    for (int k = 0; k < 2; k++) {
        put(e, "%s = dlc_pairs_fold_%s(%s_stack, %s_blocks);", r[k].out, r[k].name, r[k].out,
            r[k].out);
    }
}

static void
put_blocks_alone(Emit *e, const Let *let, const Jam *jam, const Reduction r[2])
{
    put(e, "const int64_t %s_from = 0, %s_end = %s;", r->out, r->out, r->extent);
    cc_lanes_two(e, let, jam, r, put_result);
}

void
cc_lanes_jam(Emit *e, const Let *let, const Jam *jam)
{
    Reduction r[2];
    for (int k = 0; k < 2; k++) {
        cc_copy(e, jam, k);
        r[k] = cc_reduction(e, let);
        r[k].together = true;
        put(e, "%s %s;", r[k].type, r[k].out);
    }
    cc_copy(e, jam, 0);
    put_scope(e);
    if (one_block(e->cx, let)) {
        put_blocks_alone(e, let, jam, r);
    } else {
        put_many_blocks(e, let, jam, r);
    }
    put_close(e);
}
