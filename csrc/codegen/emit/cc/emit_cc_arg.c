/* argmax and argmin in C: the extreme first, then where it is.
 *
 * What:     a vector reduction's blocks, and the steps of a tile of columns, for reductions whose
 *           result is an index.
 * Ensures:  the first of equals, a NaN before anything else: what depends on no order.
 * How:      A row's block goes through the lanes of amax or amin, and into an array.  Where its
 *           extreme takes the place of that of the blocks before it, it is looked for in the array,
 *           64 elements at a time.  What is a row of memory needs no array. The two halves of a
 *           whole block of such a row go side by side, and it is looked for in one of them. Of
 *           short rows of floats nothing is looked for: each lane keeps where its element is,
 *           chosen by a comparison that nothing waits for, as the extreme is found by another. A
 *           column's extreme and its index stand in two arrays of the tile, the index in as many
 *           bytes as the extreme where it may.
 * Example:  a = argmax of x[i, j] over j:
 *               for each block {
 *                   for j { a_kept[j - a_from] = x[i, j]; a_lane[k] = the further of both }
 *                   if (a_from == 0 || a_far beats a_best) a = a_from + dlc_find_f32(a_kept, ..) }
 */
#include "emit_cc.h"

/* The place of the extreme of n elements from <out>_from on, in a block that begins at `block`,
 * where it is better than that of the blocks before. */
static void
put_find(Emit *e, const Reduction *r, const Let *row, const char *kept, const char *block,
         const char *n)
{
    const char *out = r->out;
    put_open(e, "if (%s_%s == 0 || dlc_beats_%s(%s_far, %s_best))", out, block, r->name, out, out);
    put(e, "const int64_t %s = %s_from;", r->i, out);
    put(e, "%s_best = %s_far;", out, out);
    put(e, "%s = %s + dlc_find_%s(%s%s, %s_far, %s);", out, r->i, compute_name(r->dtype),
        row ? "&" : "", row ? cc_element(e, row) : kept, out, n);
    put_close(e);
}

/* Whole blocks of a row of memory, from 0 to <out>_first. */
static void
put_halves(Emit *e, const Let *let, const Reduction *r, const Reduction *far, const Let *row)
{
    const char *out = r->out, *type = far->type, *half[2];
    Reduction parts[2];
    put(e, "int64_t %s_first = 0;", out);
    put_open(e, "for (; %s_first + %d <= %s; %s_first += %d)", out, DLC_BLOCK, r->extent, out,
             DLC_BLOCK);
    for (int k = 0; k < 2; k++) {
        parts[k] = cc_part(e, far, k);
        half[k] = cx_format(e->cx, "%s_far", parts[k].out);
    }
    cc_lanes_parts(e, let, parts, 2, DLC_BLOCK / 2, cx_format(e->cx, "%s_first", out));
    for (int k = 0; k < 2; k++) {
        put(e, "const %s %s = %s;", type, half[k], cc_lanes_value(e, &parts[k]));
    }
    put(e, "const int %s_later = dlc_beats_%s(%s, %s);", out, r->name, half[1], half[0]);
    put(e, "const %s %s_far = %s_later ? %s : %s;", type, out, out, half[1], half[0]);
    put(e, "const int64_t %s_from = %s_first + %d * %s_later;", out, out, DLC_BLOCK / 2, out);
    put_find(e, r, row, NULL, "first", cx_format(e->cx, "%d", DLC_BLOCK / 2));
    put_close(e);
}

/* All of a row of floats in memory: its lanes keep where their elements are. */
static void
put_places(Emit *e, const Let *let, const Reduction *r, const Reduction *far, const Let *row)
{
    const char *out = r->out;
    Reduction parts[2] = {cc_part(e, far, 0), cc_part(e, far, 1)};
    const char *part = parts->out;
    cc_lanes_places(e, let, parts, 2);
    put(e, "%s %s_far;", far->type, out);
    put(e, "%s = dlc_lanes_place_%s(%s_lane, %s_size, %s_place, &%s_far);", out, far->name, part,
        part, part, out);
    put_open(e, "if (%s < 0)", out);
    put(e, "const int64_t %s = 0;", r->i);
    put(e, "%s = dlc_find_%s(&%s, %s_far, %s);", out, compute_name(r->dtype), cc_element(e, row),
        out, r->extent);
    put_close(e);
}

void
cc_arg_reduce(Emit *e, const Let *let, const Reduction *r)
{
    const char *out = r->out, *type = type_c(r->dtype), *first = "0";
    const Let *row = let_has(let, MARK_array) ? NULL : facts_reduced_row(e->facts, let);
    Reduction far = *r;
    far.op = op_info[r->op].combine == OP_maximum ? OP_amax : OP_amin;
    far.index = false;
    far.name = cx_format(e->cx, "%s_%s", op_info[far.op].name, compute_name(r->dtype));
    far.type = type;
    far.kept = row ? NULL : cx_format(e->cx, "%s_kept", out);
    put(e, "int64_t %s = 0;", out);
    put_scope(e);
    if (row && let_has(let, MARK_places)) {
        put_places(e, let, r, &far, row);
        put_close(e);
        return;
    }
    put(e, "%s %s_best = 0;", type, out);
    if (row && let_has(let, MARK_parts)) {
        put_halves(e, let, r, &far, row);
        first = cx_format(e->cx, "%s_first", out);
    }
    cc_open_blocks(e, r, first, DLC_BLOCK);
    if (!row) {
        put(e, "%s %s[%d];", type, far.kept, (int)let_mark_value(let, MARK_array));
    }
    put(e, "const %s %s_far = %s;", type, out, cc_lanes_block(e, let, &far));
    put_find(e, r, row, far.kept, "from", cx_format(e->cx, "%s_end - %s_from", out, out));
    put_close(e);
    put_close(e);
}

/* ---- columns ---- */

void
cc_arg_open(Emit *e, const Let *let, const Reduction *r, int width)
{
    bool narrow = dtype_info[dtype_info[r->dtype].compute].bytes <= 4 &&
                  dim_range(e->cx, loop_extent(let)).hi <= INT32_MAX;
    put(e, "%s %s_best[%d];", type_c(r->dtype), r->out, width);
    put(e, "%s %s_at[%d];", narrow ? "int32_t" : "int64_t", r->out, width);
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    put(e, "%s_best[k] = dlc_identity_%s().value;", r->out, r->name);
    put(e, "%s_at[k] = 0;", r->out);
    put_close(e);
}

void
cc_arg_step(Emit *e, const Reduction *r)
{
    const char *out = r->out;
    put(e, "const %s %s_v = %s, %s_b = %s_best[k];", type_c(r->dtype), out,
        cc_value(e, r->ret, r->dtype), out, out);
    put(e, "const int %s_takes = dlc_beats_%s(%s_v, %s_b);", out, r->name, out, out);
    put(e, "%s_best[k] = %s_takes ? %s_v : %s_b;", out, out, out, out);
    put(e, "%s_at[k] = %s_takes ? %s : %s_at[k];", out, out, r->i, out);
}
