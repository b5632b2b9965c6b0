/* Vector loops cut into stages, for an optimising C compiler: sequences of expensive functions.
 *
 * What:     a vector loop without loops inside, as several loops over DLC_COLUMNS iterations each.
 * Requires: a loop for which cc_has_stages is true: loads, maps and stores only.
 * Ensures:  each element's operations as they were; all stores in the last stage, after all loads
 *           of the same iterations.
 * How:      exp, tanh and their like are long sequences of dependent instructions, and a processor
 *           overlaps as many iterations as it has room for: with several such functions one after
 *           the other it has not room for two, and waits.  A stage ends where the longest sequence
 *           in it would become longer than overlapping hides; what nothing in between wants moves
 *           to the stage that wants it.  What goes from one stage to another stands in an array,
 *           loads are made again.
 * Why not:  one loop for each operation, as the libtcc tier has it: cheap operations are bound by
 *           loads and stores then.  Unrolling: it does not change what the processor sees.
 * Example:  mish, x * tanh(log1p(exp(x))): three loops, of exp, of log1p, of tanh and the product.
 */
#include "emit_cc.h"

/* The let of this loop that makes an operand, if it is a MAP. */
static const Let *
map_in(const Let *loop, const Value *v)
{
    const Let *let = computed_in(loop->body, v);
    return let && let_is_map(let) ? let : NULL;
}

/* How a loop is cut: the stage of each MAP by the Value.id of its result, from 1 on.  All stores
 * are in the last stage. */
typedef struct {
    const Let *loop;
    int *of, last;
} Stages;

/* Cycles from the operands to the result, about. */
static int
latency(const Let *let)
{
    int cycles = 3 * op_info[let->op].cost;
    return cycles < DLC_LATENCY || dtype_info[map_dtype(let)].class != CLASS_FLOAT ? DLC_LATENCY
                                                                                   : cycles;
}

/* 0: a load, which is made again in each stage that wants it. */
static int
stage_of(const Stages *s, const Let *let)
{
    return let->op == OP_store ? s->last : let_is_map(let) ? s->of[let->res[0]->id] : 0;
}

/* The stage of a MAP whose operands have theirs: that of the latest, while their stage is not too
 * long with it.  ready: by Value.id, cycles from the beginning of its stage to a value. */
static int
earliest_stage(const Stages *s, const Let *let, int *ready)
{
    int stage = 1, wait = 0;
    for (int k = 0; k < let->nargs; k++) {
        const Let *from = map_in(s->loop, let->args[k]);
        if (from && stage_of(s, from) >= stage) {
            int cycles = ready[from->res[0]->id];
            wait = stage_of(s, from) > stage || cycles > wait ? cycles : wait;
            stage = stage_of(s, from);
        }
    }
    if (wait > 0 && wait + latency(let) > DLC_OVERLAP) {
        stage++;
        wait = 0;
    }
    ready[let->res[0]->id] = wait + latency(let);
    return stage;
}

/* The first stage that wants the let, which is no earlier than its own; 0: none does. */
static int
first_user(const Stages *s, int at)
{
    const Block *blk = s->loop->body;
    int first = 0;
    for (int k = at + 1; k < blk->n; k++) {
        for (int j = 0; j < blk->lets[k]->nargs; j++) {
            int stage = stage_of(s, blk->lets[k]);
            if (map_in(s->loop, blk->lets[k]->args[j]) == blk->lets[at] &&
                (!first || stage < first)) {
                first = stage;
            }
        }
    }
    return first;
}

/* A cheap let of at most one computed operand goes where it is wanted first. */
static void
move_later(Stages *s)
{
    const Block *blk = s->loop->body;
    for (int k = blk->n - 1; k >= 0; k--) {
        const Let *let = blk->lets[k];
        int computed = 0;
        for (int j = 0; j < let->nargs && let_is_map(let); j++) {
            computed += map_in(s->loop, let->args[j]) != NULL;
        }
        if (let_is_map(let) && !let_is_expensive(let) && computed <= 1) {
            int first = first_user(s, k), *stage = &s->of[let->res[0]->id];
            *stage = first > *stage ? first : *stage;
        }
    }
}

static Stages
find_stages(const Emit *e, const Let *loop)
{
    size_t room = (size_t)e->fn->nvalues;
    int *ready = cx_alloc(e->cx, room * sizeof *ready);
    Stages s = {loop, cx_alloc(e->cx, room * sizeof *s.of), 1};
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (let_is_map(let)) {
            int stage = earliest_stage(&s, let, ready);
            s.of[let->res[0]->id] = stage;
            s.last = stage > s.last ? stage : s.last;
        }
    }
    move_later(&s);
    return s;
}

bool
cc_has_stages(const Emit *e, const Let *loop)
{
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (!let_is_map(let) && let->op != OP_load && let->op != OP_store) {
            return false;
        }
    }
    return !e->tile && loop != e->columns && find_stages(e, loop).last > 1;
}

/* ---- emission ---- */

/* Is the value of the MAP wanted in a later stage? */
static bool
crosses(const Stages *s, const Let *let)
{
    const Block *blk = s->loop->body;
    for (int k = 0; k < blk->n; k++) {
        const Let *user = blk->lets[k];
        for (int j = 0; j < user->nargs; j++) {
            if (stage_of(s, user) > stage_of(s, let) && map_in(s->loop, user->args[j]) == let) {
                return true;
            }
        }
    }
    return false;
}

/* Loads an operand, or takes it from an earlier stage's array, once in a stage. */
static void
import(Emit *e, const Stages *s, const Value *v, int stage, bool *seen)
{
    const Let *from = literal_of(v) || !v->def || v->def->parent != s->loop->body ? NULL : v->def;
    if (!from || seen[v->id] || stage_of(s, from) == stage) {
        return;
    }
    seen[v->id] = true;
    if (from->op == OP_load) {
        cc_let(e, from);
    } else {
        put(e, "const %s %s = %s_t[k];", type_c(v->type->dtype), name_c(e, v), name_c(e, v));
    }
}

/* Do the stage's stores, or the loads that it makes, use the loop's index? */
static bool
uses_index(Emit *e, const Stages *s, int stage)
{
    const Let *loop = s->loop;
    bool found = false;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        bool now = stage_of(s, let) == stage;
        for (int j = 0; now && j < let->nargs; j++) {
            const Let *from = literal_of(let->args[j]) ? NULL : let->args[j]->def;
            found |= from && from->parent == loop->body && from->op == OP_load &&
                     cc_uses(e, from, loop_index(loop));
        }
        found |= now && cc_uses(e, let, loop_index(loop));
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
        if (let_is_map(let) && crosses(s, let)) {
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
    Stages s = find_stages(e, loop);
    put_open(e, "for (int64_t %s = %s; %s < %s; %s += %d)", at, from, at, to, at, DLC_COLUMNS);
    put(e, "const int64_t w = %s - %s < %d ? %s - %s : %d;", to, at, DLC_COLUMNS, to, at,
        DLC_COLUMNS);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let_is_map(let) && crosses(&s, let)) {
            put(e, "%s %s_t[%d];", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]),
                DLC_COLUMNS);
        }
    }
    for (int stage = 1; stage <= s.last; stage++) {
        put_stage(e, &s, stage, at);
    }
    put_close(e);
}
