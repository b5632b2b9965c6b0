/* Vector loops with loops inside, for an optimising compiler: column reductions.
 *
 * What:     a vector loop over tiles of as many iterations as its mark `width` says, each loop
 *           inside run for a whole tile.
 * Requires: a vector loop whose inner loops are sequential, and in which all that they leave to one
 *           another is marked array (schedule/hoist.c).
 * Ensures:  each iteration's operations in the order of the loops stage: iterations only change
 *           places with each other.
 * How:      the lets between loops are runs: one C loop over the tile for each
 *           (emit_cc_straight.c).  The partial results of reductions stand in arrays of the tile,
 *           and their blocks are combined pairwise an array at a time.  Of a reduction marked `jam`
 *           several steps go through the tile in one loop (schedule/columns.c).
 * Why not:  one iteration after the other: it would walk through memory by columns, one element a
 *           line.
 * Example:  s = sum of x[j, i] over j:  for each j { for k < w { s_t[k] = s_t[k] + x[j*N + i + k] }
 *           }.
 */
#include "emit_cc_tile.h"

enum {
    LEVELS = 40,                /* of the pairwise counter: 2**40 blocks */
};

/* ---- loops ---- */

static void put_block(Tile *t, const Block *blk, const Reduction *adds);

static void
make_pairs(Emit *e, const Reduction *r)
{
    if (!new_helper(e, cx_format(e->cx, "pairs_%s", r->name))) {
        return;
    }
    text_add(e->helpers,
             "\n/* One more block of a tile's %s: equal counts are combined, older op newer. */\n"
             "static inline void\n"
             "tile_push_%s(%s *stack, int64_t width, int64_t *blocks, %s *v, int64_t w)\n"
             "{\n"
             "    int64_t depth = 0;\n"
             "    for (int64_t c = *blocks; c != 0; c &= c - 1) {\n"
             "        depth++;\n"
             "    }\n"
             "    for (int64_t c = *blocks; c & 1; c >>= 1) {\n"
             "        depth--;\n"
             "        for (int64_t k = 0; k < w; k++) {\n"
             "            v[k] = dlc_combine_%s(stack[depth * width + k], v[k]);\n"
             "        }\n"
             "    }\n"
             "    for (int64_t k = 0; k < w; k++) {\n"
             "        stack[depth * width + k] = v[k];\n"
             "    }\n"
             "    ++*blocks;\n"
             "}\n",
             op_info[r->op].name, r->name, r->type, r->type, r->name);
    text_add(e->helpers,
             "\nstatic inline void\n"
             "tile_fold_%s(const %s *stack, int64_t width, int64_t blocks, %s *v, int64_t w)\n"
             "{\n"
             "    int64_t depth = 0;\n"
             "    for (int64_t c = blocks; c != 0; c &= c - 1) {\n"
             "        depth++;\n"
             "    }\n"
             "    for (int64_t k = 0; k < w; k++) {\n"
             "        v[k] = depth ? stack[(depth - 1) * width + k] : dlc_identity_%s();\n"
             "    }\n"
             "    for (depth -= 2; depth >= 0; depth--) {\n"
             "        for (int64_t k = 0; k < w; k++) {\n"
             "            v[k] = dlc_combine_%s(stack[depth * width + k], v[k]);\n"
             "        }\n"
             "    }\n"
             "}\n",
             r->name, r->type, r->type, r->name, r->name);
}

static void
put_each(Emit *e, const char *statement)
{
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    put(e, "%s", statement);
    put_close(e);
}

/* So many steps, for columns `first` to `last` of the tile. */
static void
put_columns(Tile *t, const Let *let, const Reduction *r, int jam)
{
    Emit *e = t->e;
    const Run run = {let->body, 0, let->body->n, r};
    put(e, "INDEPENDENT");
    put_open(e, "for (int64_t k = first; k < last; k++)");
    put(e, "%s %s_s = %s_sum[k];", r->type, r->out, r->out);
    for (int step = 0; step < jam; step++) {
        put_scope(e);
        put(e, "const int64_t %s = %s_step + %d;", r->i, r->out, step);
        cc_run_imports(t, &run);
        for (int k = 0; k < let->body->n; k++) {
            cc_let(e, let->body->lets[k]);
        }
        put(e, "%s_s = dlc_combine_%s(%s_s, %s);", r->out, r->name, r->out, cc_term(e, r));
        put_close(e);
    }
    put(e, "%s_sum[k] = %s_s;", r->out, r->out);
    put_close(e);
}

/* Steps of a reduction marked jam in one loop over the tile, while there are so many: each partial
 * result is read and written once for all of them.  What they read is prefetched between them: a
 * strip of each row at a time, or all of it. */
static void
put_jammed(Tile *t, const Let *let, const Reduction *r, const char *to)
{
    Emit *e = t->e;
    const char *step = cx_format(e->cx, "%s_step", r->out);
    int jam = (int)let_mark_value(let, MARK_jam), strip = (int)let_mark_value(let, MARK_strip);
    put_open(e, "for (; %s + %d <= %s; %s += %d)", step, jam, to, step, jam);
    put(e, "int64_t first = 0;");
    if (strip) {
        put_open(e, "for (; first + %d <= w; first += %d)", strip, strip);
        put(e, "const int64_t last = first + %d;", strip);
        cc_prefetch_columns(e, let, t->loop, t->at, step, jam);
        put_columns(t, let, r, jam);
        put_close(e);
    }
    put(e, "const int64_t last = w;");
    if (!strip) {
        cc_prefetch_columns(e, let, t->loop, t->at, step, jam);
    }
    put_columns(t, let, r, jam);
    put_close(e);
}

static void
put_steps(Tile *t, const Let *let, const Reduction *r, const char *from, const char *to)
{
    Emit *e = t->e;
    if (!r->index) {
        put_each(e, cx_format(e->cx, "%s_sum[k] = dlc_identity_%s();", r->out, r->name));
    }
    if (let_has(let, MARK_jam)) {
        put(e, "int64_t %s_step = %s;", r->out, from);
        put_jammed(t, let, r, to);
        from = cx_format(e->cx, "%s_step", r->out);
    }
    cc_open_loop(e, r->i, from, to);
    cc_gather_columns(e, let, t->loop, t->at);
    put_block(t, let->body, r);
    put_close(e);
}

/* In blocks of steps, combined pairwise an array at a time. */
static void
put_blocks(Tile *t, const Let *let, const Reduction *r)
{
    Emit *e = t->e;
    const char *out = r->out;
    make_pairs(e, r);
    put(e, "%s %s_stack[%d];", r->type, out, LEVELS * t->width);
    put(e, "int64_t %s_blocks = 0;", out);
    cc_open_blocks(e, r, "0", reduce_block(let));
    put_steps(t, let, r, cx_format(e->cx, "%s_from", out), cx_format(e->cx, "%s_end", out));
    put(e, "tile_push_%s(%s_stack, %d, &%s_blocks, %s_sum, w);", r->name, out, t->width, out, out);
    put_close(e);
    put(e, "tile_fold_%s(%s_stack, %d, %s_blocks, %s_sum, w);", r->name, out, t->width, out, out);
}

static void
put_reduce(Tile *t, const Let *let)
{
    Emit *e = t->e;
    Reduction r = cc_reduction(e, let);
    put(e, "%s %s_t[%d];", r.index ? "int64_t" : r.type, r.out, t->width);
    put_scope(e);
    if (r.index) {
        cc_arg_open(e, let, &r, t->width);
    } else {
        put(e, "%s %s_sum[%d];", r.type, r.out, t->width);
    }
    if (r.index || one_block(e->cx, let)) {
        put_steps(t, let, &r, "0", r.extent);
    } else {
        put_blocks(t, let, &r);
    }
    put_each(e, cx_format(e->cx, "%s_t[k] = %s_%s[k];", r.out, r.out, r.index ? "at" : "sum"));
    put_close(e);
}

static void
put_block(Tile *t, const Block *blk, const Reduction *adds)
{
    Emit *e = t->e;
    int k = 0;
    while (k < blk->n) {
        const Let *let = blk->lets[k];
        int end = k;
        while (end < blk->n && !loop_is(blk->lets[end])) {
            end++;
        }
        if (end > k) {
            cc_run(t, &(Run){blk, k, end, end == blk->n ? adds : NULL});
            k = end;
            continue;
        }
        if (let->op == OP_reduce) {
            put_reduce(t, let);
        } else {
            const char *i = index_c(e, loop_index(let));
            cc_open_loop(e, i, "0", dim_c(e, loop_extent(let)));
            put_block(t, let->body, NULL);
            put_close(e);
        }
        k++;
    }
    if (adds && (blk->n == 0 || loop_is(blk->lets[blk->n - 1]))) {
        cc_run(t, &(Run){blk, blk->n, blk->n, adds});
    }
}

bool
cc_tile_loop(Emit *e, const Let *loop)
{
    const char *i = index_c(e, loop_index(loop)), *from, *to;
    Tile t = {.e = e, .loop = loop, .width = loop_width(loop), .at = cx_format(e->cx, "%s_at", i)};
    t.s = straight_runs(e->facts, loop, e->fn->nvalues);
    if (!straight_in_arrays(&t.s)) {
        return false;
    }
    vector_bounds(e, loop, &from, &to);
    put_open(e, "for (int64_t %s = %s; %s < %s; %s += %d)", t.at, from, t.at, to, t.at, t.width);
    put(e, "const int64_t w = %s - %s < %d ? %s - %s : %d;", to, t.at, t.width, to, t.at, t.width);
    put_block(&t, loop->body, NULL);
    put_close(e);
    return true;
}
