/* Vector loops cut into stages, for an optimising C compiler: sequences of expensive functions.
 *
 * What:     a vector loop without loops inside, as several loops over a part of its iterations.
 * Requires: a vector loop marked distribute (schedule/distribute.c).
 * Ensures:  each element's operations as they were; all stores in the last stage, after all loads
 *           of the same iterations.
 * How:      an operation is in the stage that its mark says.  What goes from one stage to another
 *           stands in an array, loads are made again.
 * Example:  mish, x * tanh(log1p(exp(x))): three loops, of exp, of log1p, of tanh and the product.
 */
#include "emit_cc.h"

int
cc_stage(const Let *map)
{
    return let_has(map, MARK_stage) ? (int)let_mark_value(map, MARK_stage) : 1;
}

int
cc_last_stage(const Let *loop)
{
    int last = 1;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        last = let_is_map(let) && cc_stage(let) > last ? cc_stage(let) : last;
    }
    return last;
}

bool
cc_is_source(const Let *let)
{
    return let->op == OP_load || let->op == OP_size;
}

/* The last stage has all stores. */
typedef struct {
    const Let *loop;
    int last;
} Stages;

/* 0: a source, which is made again in each stage that wants it. */
static int
stage_of(const Stages *s, const Let *let)
{
    return let->op == OP_store ? s->last : let_is_map(let) ? cc_stage(let) : 0;
}

/* Loads an operand, or takes it from an earlier stage's array, once in a stage. */
static void
import(Emit *e, const Stages *s, const Value *v, int stage, bool *seen)
{
    const Let *from = computed_in(s->loop->body, v);
    if (!from || seen[v->id] || stage_of(s, from) == stage) {
        return;
    }
    seen[v->id] = true;
    if (cc_is_source(from)) {
        cc_let(e, from);
    } else {
        put(e, "const %s %s = %s_t[k];", type_c(v->type->dtype), name_c(e, v), name_c(e, v));
    }
}

/* Do the stage's stores, or the sources that it makes, use the loop's index? */
static bool
uses_index(Emit *e, const Stages *s, int stage)
{
    const Let *loop = s->loop;
    bool found = false;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        bool now = stage_of(s, let) == stage;
        for (int j = 0; now && j < let->nargs; j++) {
            const Let *from = computed_in(loop->body, let->args[j]);
            found |= from && cc_is_source(from) && facts_uses(e->facts, from, loop_index(loop));
        }
        found |= now && facts_uses(e->facts, let, loop_index(loop));
    }
    return found;
}

static void
put_stage(Emit *e, const Stages *s, int stage, const char *at)
{
    const Block *blk = s->loop->body;
    bool *seen = cx_alloc(e->cx, (size_t)e->fn->nvalues * sizeof *seen);
    put(e, "INDEPENDENT");
    put_open(e, "for (int64_t k = 0; k < w; k++)");
    if (uses_index(e, s, stage)) {
        put(e, "const int64_t %s = %s + k;", index_c(e, loop_index(s->loop)), at);
    }
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (stage_of(s, let) != stage) {
            continue;
        }
        for (int j = let->op == OP_store; j < let->nargs; j++) {
            import(e, s, let->args[j], stage, seen);
        }
        cc_let(e, let);
        if (let_is_map(let) && let_has(let, MARK_array)) {
            put(e, "%s_t[k] = %s;", name_c(e, let->res[0]), name_c(e, let->res[0]));
        }
    }
    put_close(e);
}

void
cc_stage_loop(Emit *e, const Let *loop, const char *from, const char *to)
{
    const Block *blk = loop->body;
    const char *at = cx_format(e->cx, "%s_at", index_c(e, loop_index(loop)));
    Stages s = {loop, cc_last_stage(loop)};
    int width = (int)let_mark_value(loop, MARK_distribute);
    put_open(e, "for (int64_t %s = %s; %s < %s; %s += %d)", at, from, at, to, at, width);
    put(e, "const int64_t w = %s - %s < %d ? %s - %s : %d;", to, at, width, to, at, width);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let_is_map(let) && let_has(let, MARK_array)) {
            put(e, "%s %s_t[%d];", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]), width);
        }
    }
    for (int stage = 1; stage <= s.last; stage++) {
        put_stage(e, &s, stage, at);
    }
    put_close(e);
}
