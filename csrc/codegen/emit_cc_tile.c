/* Vector loops with loops inside, for an optimising compiler: column reductions.
 *
 * What:     a vector loop over tiles of DLC_COLUMNS iterations, each loop inside run for a whole
 *           tile.
 * Requires: a vector loop whose inner loops are sequential.
 * Ensures:  each iteration's operations in the order of the loops stage: iterations only change
 *           places with each other.
 * How:      the lets between loops are runs: one C loop over the tile for each.  What one run
 *           leaves to another stands in an array of the tile; so do the partial results of
 *           reductions, whose blocks are combined pairwise an array at a time.
 * Why not:  one iteration after the other: it would walk through memory by columns, one element a
 *           line.
 * Example:  s = sum of x[j, i] over j:  for each j { for k < w { s_t[k] = s_t[k] + x[j*N + i + k] }
 *           }.
 */
#include "emit_cc.h"

enum {
    LEVELS = 40,                /* of the pairwise counter: 2**40 blocks */
    JAM = 4,                    /* steps of a reduction in one loop over the tile */
};

/* ---- runs ---- */

typedef struct {
    Emit *e;
    const Let *loop;
    int run;
    bool *crosses;              /* by Value.id: used in another run than its own */
    const Let **binds;
    bool *bind_crosses;
    int nbinds;
    const char *at;             /* the tile's first index */
} Tile;

static void
number_runs(Tile *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (loop_is(let)) {
            t->run++;
            number_runs(t, let->body);
            t->run++;
        }
        let->mark = t->run;
        if (let->op == OP_bind) {
            t->binds = cx_grow(t->e->cx, t->binds, t->nbinds, sizeof *t->binds);
            t->binds[t->nbinds++] = let;
        }
    }
}

static void
forget_runs(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->mark = 0;
        if (blk->lets[k]->body) {
            forget_runs(blk->lets[k]->body);
        }
    }
}

bool
cc_uses(Emit *e, const Let *let, Dim name)
{
    bool found = let_accesses(let) && dim_uses(e->cx, access_offset(e, let), name);
    for (int k = 0; k < let->nattrs && !let_accesses(let); k++) {
        const Attr *a = &let->attrs[k];
        found |= a->kind == ATTR_DIM && dim_uses(e->cx, a->d, name);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            found |= dim_uses(e->cx, a->dims[j], name);
        }
    }
    return found;
}

static void
use(Tile *t, const Value *v, int run)
{
    if (!literal_of(v) && v->def && cc_in(t->loop, v->def) && v->def->op != OP_buffer &&
        v->def->mark != run) {
        t->crosses[v->id] = true;
    }
}

static void
find_crossings(Tile *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            use(t, let->args[j], let->mark);
        }
        for (int j = 0; j < t->nbinds; j++) {
            t->bind_crosses[j] |= t->binds[j]->mark != let->mark &&
                                  cc_uses(t->e, let, t->binds[j]->sizes[0]);
        }
        if (let->body) {
            find_crossings(t, let->body);
        }
        if (let->op == OP_reduce) {
            const Let *last = let->body->n ? let->body->lets[let->body->n - 1] : NULL;
            use(t, let->body->rets[0], last && !loop_is(last) ? last->mark : -1);
            t->crosses[let->res[0]->id] = true;
        }
    }
}

/* ---- one run ---- */

/* The lets from..to-1 of a block, then what a reduction adds. */
typedef struct { const Block *blk; int from, to; const Reduction *adds; } Run;

static bool
in_run(const Run *r, const Let *let)
{
    for (int k = r->from; k < r->to; k++) {
        if (r->blk->lets[k] == let) {
            return true;
        }
    }
    return false;
}

static void
import_value(Tile *t, const Run *r, const Value *v, bool *seen)
{
    if (!literal_of(v) && t->crosses[v->id] && !seen[v->id] && !in_run(r, v->def)) {
        const char *name = name_c(t->e, v);
        seen[v->id] = true;
        put(t->e, "const %s %s = %s_t[k];", type_c(v->type->dtype), name, name);
    }
}

static bool
run_uses(Tile *t, const Run *r, Dim name)
{
    for (int k = r->from; k < r->to; k++) {
        if (cc_uses(t->e, r->blk->lets[k], name)) {
            return true;
        }
    }
    return false;
}

static void
put_imports(Tile *t, const Run *r)
{
    Emit *e = t->e;
    bool *seen = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *seen);
    if (run_uses(t, r, loop_index(t->loop))) {
        put(e, "const int64_t %s = %s + k;", index_c(e, loop_index(t->loop)), t->at);
    }
    for (int k = r->from; k < r->to; k++) {
        for (int j = 0; j < r->blk->lets[k]->nargs; j++) {
            import_value(t, r, r->blk->lets[k]->args[j], seen);
        }
    }
    if (r->adds) {
        import_value(t, r, r->adds->ret, seen);
    }
    for (int k = 0; k < t->nbinds; k++) {
        const char *g = index_c(e, t->binds[k]->sizes[0]);
        if (t->bind_crosses[k] && !in_run(r, t->binds[k]) &&
            run_uses(t, r, t->binds[k]->sizes[0])) {
            put(e, "const int64_t %s = %s_t[k];", g, g);
        }
    }
}

static void
declare_arrays(Tile *t, const Run *r)
{
    Emit *e = t->e;
    for (int k = r->from; k < r->to; k++) {
        const Let *let = r->blk->lets[k];
        if (let->nres && t->crosses[let->res[0]->id]) {
            put(e, "%s %s_t[%d];", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]),
                DLC_COLUMNS);
        }
        for (int j = 0; j < t->nbinds; j++) {
            if (t->binds[j] == let && t->bind_crosses[j]) {
                put(e, "int64_t %s_t[%d];", index_c(e, let->sizes[0]), DLC_COLUMNS);
            }
        }
        if (let->op == OP_buffer) {
            cc_let(e, let);
        }
    }
}

typedef struct { const Tile *t; const bool *shared; bool varies; } Varies;

static void
see_name(void *arg, Dim name)
{
    Varies *v = arg;
    v->varies |= name == loop_index(v->t->loop);
    for (int k = 0; k < v->t->nbinds; k++) {
        const Value *of = v->t->binds[k]->args[0];
        v->varies |= v->t->binds[k]->sizes[0] == name && !v->shared[of->id];
    }
}

/* Is the let's value the same for the whole tile?  A let of this run whose operands are, and its indices. */
static bool
is_shared(Tile *t, const Run *r, const Let *let, const bool *shared)
{
    Varies v = {t, shared, let->op == OP_buffer || let_writes(let)};
    for (int k = 0; k < let->nargs; k++) {
        const Value *a = let->args[k];
        v.varies |= !literal_of(a) && a->def && cc_in(t->loop, a->def) && !(in_run(r, a->def) && shared[a->id]);
    }
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        if (a->kind == ATTR_DIM) {
            dim_names(t->e->cx, a->d, see_name, &v);
        }
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            dim_names(t->e->cx, a->dims[j], see_name, &v);
        }
    }
    return !v.varies;
}

/* Puts what is the same for the whole tile, in a run that updates: there no compiler can tell that an index is
 * not written in the loop.  By Value.id of a result, or of what is bound: is it put? */
static bool *
put_shared(Tile *t, const Run *r)
{
    bool *shared = cx_alloc(t->e->cx, (size_t)t->e->fn->nvalues * sizeof *shared);
    bool updates = false;
    for (int k = r->from; k < r->to; k++) {
        updates |= r->blk->lets[k]->op == OP_update;
    }
    for (int k = r->from; updates && k < r->to; k++) {
        const Let *let = r->blk->lets[k];
        if (is_shared(t, r, let, shared)) {
            cc_let(t->e, let);
            shared[let->op == OP_bind ? let->args[0]->id : let->res[0]->id] = true;
        }
    }
    return shared;
}

static bool
is_put(const Let *let, const bool *shared)
{
    const Value *v = let->op == OP_bind ? let->args[0] : let->nres ? let->res[0] : NULL;
    return v && shared[v->id];
}

/* An index of each element that is out of range leaves the loop: see put_bind. */
static bool
may_leave(Tile *t, const Run *r, const bool *shared)
{
    bool leaves = false;
    for (int k = r->from; k < r->to; k++) {
        leaves |= t->e->updates && r->blk->lets[k]->op == OP_bind && !is_put(r->blk->lets[k], shared);
    }
    return leaves;
}

static void
put_run(Tile *t, const Run *r)
{
    Emit *e = t->e;
    declare_arrays(t, r);
    const bool *shared = put_shared(t, r);
    if (!may_leave(t, r, shared)) {
        put(e, "INDEPENDENT");
    }
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    put_imports(t, r);
    for (int k = r->from; k < r->to; k++) {
        const Let *let = r->blk->lets[k];
        if (let->op != OP_buffer && !is_put(let, shared)) {
            cc_let(e, let);
        }
        if (let->nres && t->crosses[let->res[0]->id]) {
            put(e, "%s_t[k] = %s;", name_c(e, let->res[0]), name_c(e, let->res[0]));
        }
        for (int j = 0; j < t->nbinds; j++) {
            if (t->binds[j] == let && t->bind_crosses[j]) {
                const char *g = index_c(e, let->sizes[0]);
                put(e, "%s_t[k] = %s;", g, g);
            }
        }
    }
    if (r->adds && r->adds->index) {
        cc_arg_step(e, r->adds);
    } else if (r->adds) {
        const Reduction *a = r->adds;
        put(e, "%s_sum[k] = dlc_combine_%s(%s_sum[k], %s);", a->out, a->name, a->out,
            cc_term(e, a));
    }
    put_close(e);
}

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
             "tile_push_%s(%s (*stack)[%d], int64_t *blocks, %s *v, int64_t w)\n"
             "{\n"
             "    int64_t depth = 0;\n"
             "    for (int64_t c = *blocks; c != 0; c &= c - 1) {\n"
             "        depth++;\n"
             "    }\n"
             "    for (int64_t c = *blocks; c & 1; c >>= 1) {\n"
             "        depth--;\n"
             "        for (int64_t k = 0; k < w; k++) {\n"
             "            v[k] = dlc_combine_%s(stack[depth][k], v[k]);\n"
             "        }\n"
             "    }\n"
             "    for (int64_t k = 0; k < w; k++) {\n"
             "        stack[depth][k] = v[k];\n"
             "    }\n"
             "    ++*blocks;\n"
             "}\n", op_info[r->op].name, r->name, r->type, DLC_COLUMNS, r->type, r->name);
    text_add(e->helpers,
             "\nstatic inline void\n"
             "tile_fold_%s(%s (*stack)[%d], int64_t blocks, %s *v, int64_t w)\n"
             "{\n"
             "    int64_t depth = 0;\n"
             "    for (int64_t c = blocks; c != 0; c &= c - 1) {\n"
             "        depth++;\n"
             "    }\n"
             "    for (int64_t k = 0; k < w; k++) {\n"
             "        v[k] = depth ? stack[depth - 1][k] : dlc_identity_%s();\n"
             "    }\n"
             "    for (depth -= 2; depth >= 0; depth--) {\n"
             "        for (int64_t k = 0; k < w; k++) {\n"
             "            v[k] = dlc_combine_%s(stack[depth][k], v[k]);\n"
             "        }\n"
             "    }\n"
             "}\n", r->name, r->type, DLC_COLUMNS, r->type, r->name, r->name);
}

static void
put_each(Emit *e, const char *statement)
{
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    put(e, "%s", statement);
    put_close(e);
}

/* Can the body of a reduction stand several times in one loop over the tile, and is it worth its text? */
static bool
is_jammed(const Tile *t, const Let *reduce, const Reduction *r)
{
    const Block *blk = reduce->body;
    int cost = 0;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if ((let->op != OP_load && op_info[let->op].kind != KIND_MAP) || t->crosses[let->res[0]->id]) {
            return false;
        }
        cost += let->op == OP_load ? 1 : op_info[let->op].cost;
    }
    return !r->index && cost < EXPENSIVE;
}

/* JAM steps in one loop over the tile, while there are so many: each partial result is read and written once
 * for all of them, and as many rows of memory are on their way. */
static void
put_jammed(Tile *t, const Let *let, const Reduction *r, const char *to)
{
    Emit *e = t->e;
    const Run run = {let->body, 0, let->body->n, r};
    put_open(e, "for (; %s_step + %d <= %s; %s_step += %d)", r->out, JAM, to, r->out, JAM);
    cc_ahead_columns(e, let, t->loop, t->at, cx_format(e->cx, "%s_step", r->out), JAM);
    put(e, "INDEPENDENT");
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    put(e, "%s %s_s = %s_sum[k];", r->type, r->out, r->out);
    for (int step = 0; step < JAM; step++) {
        put_scope(e);
        put(e, "const int64_t %s = %s_step + %d;", r->i, r->out, step);
        put_imports(t, &run);
        for (int k = 0; k < let->body->n; k++) {
            cc_let(e, let->body->lets[k]);
        }
        put(e, "%s_s = dlc_combine_%s(%s_s, %s);", r->out, r->name, r->out, cc_term(e, r));
        put_close(e);
    }
    put(e, "%s_sum[k] = %s_s;", r->out, r->out);
    put_close(e);
    put_close(e);
}

static void
put_steps(Tile *t, const Let *let, const Reduction *r, const char *from, const char *to)
{
    Emit *e = t->e;
    if (!r->index) {
        put_each(e, cx_format(e->cx, "%s_sum[k] = dlc_identity_%s();", r->out, r->name));
    }
    if (is_jammed(t, let, r)) {
        put(e, "int64_t %s_step = %s;", r->out, from);
        put_jammed(t, let, r, to);
        from = cx_format(e->cx, "%s_step", r->out);
    }
    put_open(e, "for (int64_t %s = %s; %s < %s; %s++)", r->i, from, r->i, to, r->i);
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
    put(e, "%s %s_stack[%d][%d];", r->type, out, LEVELS, DLC_COLUMNS);
    put(e, "int64_t %s_blocks = 0;", out);
    cc_open_blocks(e, r, "0", reduce_block(let));
    put_steps(t, let, r, cx_format(e->cx, "%s_from", out), cx_format(e->cx, "%s_end", out));
    put(e, "tile_push_%s(%s_stack, &%s_blocks, %s_sum, w);", r->name, out, out, out);
    put_close(e);
    put(e, "tile_fold_%s(%s_stack, %s_blocks, %s_sum, w);", r->name, out, out, out);
}

static void
put_reduce(Tile *t, const Let *let)
{
    Emit *e = t->e;
    Reduction r = cc_reduction(e, let);
    put(e, "%s %s_t[%d];", r.index ? "int64_t" : r.type, r.out, DLC_COLUMNS);
    put_scope(e);
    if (r.index) {
        cc_arg_open(e, let, &r);
    } else {
        put(e, "%s %s_sum[%d];", r.type, r.out, DLC_COLUMNS);
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
            put_run(t, &(Run){blk, k, end, end == blk->n ? adds : NULL});
            k = end;
            continue;
        }
        if (let->op == OP_reduce) {
            put_reduce(t, let);
        } else {
            const char *i = index_c(e, loop_index(let));
            put_open(e, "for (int64_t %s = 0; %s < %s; %s++)", i, i, dim_c(e, loop_extent(let)), i);
            put_block(t, let->body, NULL);
            put_close(e);
        }
        k++;
    }
    if (adds && (blk->n == 0 || loop_is(blk->lets[blk->n - 1]))) {
        put_run(t, &(Run){blk, blk->n, blk->n, adds});
    }
}

void
cc_tile_loop(Emit *e, const Let *loop)
{
    const char *i = index_c(e, loop_index(loop)), *from, *to;
    Tile t = {.e = e, .loop = loop, .at = cx_format(e->cx, "%s_at", i)};
    t.crosses = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *t.crosses);
    number_runs(&t, loop->body);
    t.bind_crosses = cx_alloc(e->cx, ((size_t)t.nbinds + 1) * sizeof *t.bind_crosses);
    find_crossings(&t, loop->body);
    vector_bounds(e, loop, &from, &to);
    put_open(e, "for (int64_t %s = %s; %s < %s; %s += %d)", t.at, from, t.at, to, t.at,
             DLC_COLUMNS);
    put(e, "const int64_t w = %s - %s < %d ? %s - %s : %d;", to, t.at, DLC_COLUMNS, to, t.at,
        DLC_COLUMNS);
    const Let *outer = e->tile;
    e->tile = loop;
    put_block(&t, loop->body, NULL);
    e->tile = outer;
    put_close(e);
    forget_runs(loop->body);
}
