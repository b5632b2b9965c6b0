/* Loop distribution: one loop as several, one after the other over a part of its iterations.
 *
 * What:     marks a loop `distribute`, for so many iterations at a time, and operations of it
 *           `stage`: each stage is a loop of its own.  What a later one wants is marked `array`.
 * Requires: a scheduled function.
 * Ensures:  each element's operations as they were.  All stores are in the last stage, after all
 *           loads of the same iterations (V43).
 * How:      what goes from one stage to another stands in an array (scalar expansion), loads are
 *           made again.
 *           exp, tanh and their like are long sequences of dependent instructions, and a processor
 *           overlaps as many iterations as it has room for: with several such functions one after
 *           the other it has not room for two, and waits.  A stage ends where the longest sequence
 *           in it would become longer than overlapping hides; what nothing in between wants moves
 *           to the stage that wants it.
 *           In a loop marked recurrences the operations that continue the iteration before are
 *           stages of their own, with even numbers: what is around them can be vectors then.  It
 *           pays if much is computed around them.  If they are expensive themselves, a vector goes
 *           across the recurrences.
 * Why not:  one loop for each operation, as the libtcc tier has it: cheap operations are bound by
 *           loads and stores then.  Unrolling: it does not change what the processor sees.
 *           Recurrences in stages wherever they are: if memory is what is waited for, arrays in
 *           between cost a third more.
 * Example:  mish, x * tanh(log1p(exp(x))), has three loops, of exp, of log1p, of tanh and the
 *           product: for i in N vector distribute=256 { let e: f32 = exp x
 *                        let l: f32 = log1p e stage=2  let t: f32 = tanh l stage=3 .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* The stage of each MAP by the Value.id of its result, from 1 on. */
typedef struct {
    const Let *loop;
    int *of, last;
} Stages;

/* The let of the loop that makes an operand, if it is a MAP. */
static const Let *
map_in(const Let *loop, const Value *v)
{
    const Let *let = let_in(loop->body, v);
    return let && let_is_map(let) ? let : NULL;
}

static Stages
new_stages(const Fn *fn, const Let *loop)
{
    return (Stages){loop, cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof(int)), 1};
}

static void
set_stage(Stages *s, const Let *let, int stage)
{
    s->of[let->res[0]->id] = stage;
    s->last = stage > s->last ? stage : s->last;
}

static int
stage_of(const Stages *s, const Let *map)
{
    return s->of[map->res[0]->id];
}

/* Is the let in the stage of the stores?  That of recurrences is odd. */
static bool
is_with_stores(const Stages *s, const Let *let)
{
    bool even = let_has(let_around(s->loop), MARK_recurrences) && s->last % 2 == 0;
    return let->op == OP_store || (let_is_map(let) && stage_of(s, let) == s->last + even);
}

/* Is an element loaded again, for what comes first in the stage of the stores, where a store
 * before that may have overwritten it? */
static bool
loads_too_late(const Stages *s, const Let *load)
{
    const Block *blk = load->parent;
    bool stored = false, late = false, used = false;
    for (int k = 0; k < blk->n && !used; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nargs && is_with_stores(s, let); j++) {
            used |= let->args[j] == load->res[0];
        }
        late = used && stored;
        const Value *to = let->op == OP_store ? let->args[0] : NULL;
        stored |= to && (to == load->args[0] || to->over == load->args[0]);
    }
    return late;
}

static bool
may_load_again(const Stages *s)
{
    bool may = true;
    for (int k = 0; k < s->loop->body->n; k++) {
        const Let *let = s->loop->body->lets[k];
        may &= let->op != OP_load || !loads_too_late(s, let);
    }
    return may;
}

/* ---- arrays ----
 *
 * What a later stage uses is said here and in ir/verify/verify_arrays.c, on purpose: a mistake in a
 * predicate that both asked would be one that the verifier cannot see. */

static int64_t
marked_stage(const Let *map)
{
    return let_has(map, MARK_stage) ? let_mark_value(map, MARK_stage) : 1;
}

/* The stage that the user takes its operands in, or after which it does: what continues a
 * recurrence has them from the stage before it.  `last`: that of the stores. */
static int64_t
taken_in(const Let *loop, const Let *user, int64_t last)
{
    bool run = user->op == OP_store && let_has(let_around(loop), MARK_recurrences) &&
               user->args[0]->def && user->args[0]->def->parent == loop->parent;
    return user->op == OP_store ? (run ? 0 : last)
                                : marked_stage(user) - (loop_carried(user) != NULL);
}

static bool
is_wanted_later(const Let *loop, const Let *map, int64_t last)
{
    const Block *blk = loop->body;
    bool later = let_has(let_around(loop), MARK_recurrences) && loop_carried(map);
    for (int k = 0; k < blk->n; k++) {
        const Let *user = blk->lets[k];
        for (int j = 0; j < user->nargs && !later; j++) {
            later = user->args[j] == map->res[0] && (let_is_map(user) || user->op == OP_store) &&
                    taken_in(loop, user, last) > marked_stage(map);
        }
    }
    return later;
}

/* Marks `array` what a later stage wants, in a loop marked distribute. */
static void
mark_arrays(Cx *cx, Let *loop)
{
    const Block *blk = loop->body;
    int64_t last = 1;
    for (int k = 0; k < blk->n; k++) {
        int64_t stage = let_is_map(blk->lets[k]) ? marked_stage(blk->lets[k]) : 1;
        last = stage > last ? stage : last;
    }
    last += let_has(let_around(loop), MARK_recurrences) && last % 2 == 0;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (let_is_map(let) && is_wanted_later(loop, let, last)) {
            let_mark_with(cx, let, MARK_array, let_mark_value(loop, MARK_distribute));
        }
    }
}

/* One change of the program: an operation without a mark is in the first stage. */
static void
mark_stages(Cx *cx, Let *loop, const Stages *s, int width)
{
    if (s->last == 1 || !may_load_again(s) || !fuel_spend(cx)) {
        return;
    }
    let_mark_with(cx, loop, MARK_distribute, width);
    for (int k = 0; k < loop->body->n; k++) {
        Let *let = loop->body->lets[k];
        if (let_is_map(let) && stage_of(s, let) > 1) {
            let_mark_with(cx, let, MARK_stage, stage_of(s, let));
        }
    }
}

/* ---- vector loops ---- */

/* Cycles from the operands to the result, about. */
static int
latency(const Let *let)
{
    int cycles = 3 * op_info[let->op].cost;
    return cycles < DLC_LATENCY || dtype_info[map_dtype(let)].class != CLASS_FLOAT ? DLC_LATENCY
                                                                                   : cycles;
}

/* Does it compute, load and store alone, and may a sequence of it be too long? */
static bool
may_have_stages(const Let *loop)
{
    int cycles = 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (!let_is_map(let) && let->op != OP_load && let->op != OP_store) {
            return false;
        }
        cycles += let_is_map(let) ? latency(let) : 0;
    }
    return cycles > DLC_OVERLAP;
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
        const Let *user = blk->lets[k];
        int stage = let_is_map(user) ? stage_of(s, user) : s->last;
        for (int j = 0; j < user->nargs; j++) {
            if (map_in(s->loop, user->args[j]) == blk->lets[at] && (!first || stage < first)) {
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
            int first = first_user(s, k);
            set_stage(s, let, first > stage_of(s, let) ? first : stage_of(s, let));
        }
    }
}

static void
distribute_vector(const Fn *fn, Let *loop)
{
    if (!may_have_stages(loop)) {
        return;
    }
    Stages s = new_stages(fn, loop);
    int *ready = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *ready);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (let_is_map(let)) {
            set_stage(&s, let, earliest_stage(&s, let, ready));
        }
    }
    move_later(&s);
    mark_stages(fn->cx, loop, &s, DLC_COLUMNS);
}

/* ---- recurrences ---- */

/* Half precisions are loaded and stored as vectors, or slowly. */
static bool
is_half(const Let *let)
{
    Dtype dtype = let_accesses(let) ? let->args[0]->type->dtype : DT_f32;
    return dtype == DT_f16 || dtype == DT_bf16;
}

/* Is so much computed around the recurrences that it is worth arrays? */
static bool
is_worth_stages(const Facts *facts, const Let *rows, const Let *loop)
{
    int maps = 0;
    bool expensive = false, half = false;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        maps += let_is_map(let);
        expensive |= let_is_expensive(let);
        half |= is_half(let);
    }
    bool several = dim_range(facts->cx, loop_extent(rows)).hi > 1;
    return facts_loop(facts, rows)->is_plain && facts_loop(facts, loop)->is_plain &&
           dim_range(facts->cx, loop_extent(loop)).hi > DLC_STAGE_ROW &&
           (expensive || (several && (half || maps > DLC_STAGE_OPS)));
}

/* The stage of a MAP whose operands have theirs: an even one for what continues the iteration
 * before, else an odd one. */
static int
alternate_stage(const Stages *s, const Let *let)
{
    bool carried = loop_carried(let) != NULL;
    int stage = 1;
    for (int k = 0; k < let->nargs; k++) {
        const Let *from = map_in(s->loop, let->args[k]);
        int own = from ? stage_of(s, from) : 1;
        own += !carried && own % 2 == 0;
        stage = own > stage ? own : stage;
    }
    return carried ? stage + (stage % 2 ? 1 : 2) : stage;
}

/* What is expensive is worth a vector also where it continues the iteration before. */
static void
mark_across(const Let *loop)
{
    for (int k = 0; k < loop->body->n; k++) {
        Let *let = loop->body->lets[k];
        if (let_has(let, MARK_stage) && let_is_expensive(let) && loop_carried(let)) {
            let_mark(let, MARK_across, true);
        }
    }
}

static void
distribute_recurrences(const Fn *fn, const Facts *facts, const Let *rows)
{
    Let *loop = loop_inner(rows);
    if (!is_worth_stages(facts, rows, loop)) {
        return;
    }
    Stages s = new_stages(fn, loop);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (let_is_map(let)) {
            set_stage(&s, let, alternate_stage(&s, let));
        }
    }
    mark_stages(fn->cx, loop, &s, DLC_WIDTH);
    mark_across(loop);
}

/* ---- all loops ---- */

static bool
distribute_loop(const PhaseView *phase, Let *loop)
{
    if (let_has(loop, MARK_tile)) {
        return false;
    }
    if (let_has(loop, MARK_recurrences)) {
        distribute_recurrences(phase->fn, phase->facts, loop);
    } else if (loop->op == OP_for && let_has(loop, MARK_vector) && !loop_count(loop->body)) {
        distribute_vector(phase->fn, loop);
    }
    if (let_has(loop, MARK_distribute)) {
        mark_arrays(phase->fn->cx, loop);
    }
    return !loop_is_vector(loop);
}

Fn *
rewrite_distribute(Fn *fn)
{
    return loops_visit(fn, distribute_loop);
}
