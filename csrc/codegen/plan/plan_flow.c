/* Building a plan: loops and branches, whose bodies are plans of their own.
 *
 * What:     a body becomes a plan that a step of the outer plan runs again and again.  Its
 *           parameters are those of the function and, behind them, a place for each result: memory
 *           of the outer plan, into which kernels of the body store directly.
 * Requires: verified bodies of the kernels stage.
 * Ensures:  a step of a loop allocates nothing but what a call of the host returns.
 * How:      what a loop carries has two places, which steps write in turn, while they read the
 *           other one or, the first of them, the operand.  So nothing is written that the operand
 *           shares, and a body may return its values in any order.  An operand that is not dense is
 *           copied before the loop.  A carried value that the body makes over the one before
 *           (fusion/writes) has one place, to which the operand is copied before the loop, unless
 *           the result is over the operand.  The same holds for what a branch makes over a
 *           parameter.  Rows of a loop whose number of steps only data says are kept in memory
 *           that grows, and copied to tensors of the host after the last step: they are as large
 *           as can be only then.
 * Why not   always write in the place that is read: where that is safe depends on the kernels'
 *           loops, and two places are as fast where most elements change.
 * Example:  loop x carries=1 steps=[N] (i: i64, c: f32[4]) { let t: f32[4] = kernel { .. } ret t }
 *           is one step; its body is one launch, from the one place to the other.
 */
#include "plan_build.h"

/* The parameter into which result k of a body goes; -1: its place.  It is made over that, or it is
 * that as it was, and the loop or branch leaves it there. */
static int
param_for(const Let *let, const Fn *body, int k)
{
    const Value *v = body->body->rets[k];
    bool loops = let->op == OP_loop;
    int result = loops ? k - (int)let_int(let, "while") : k, param = param_under(v);
    bool carried = result >= 0 && param == 1 + result && result < let->nres &&
                   result < (loops ? (int)let_int(let, "carries") : 0);
    bool kept = loops ? carried : param >= 0 && (v->over || let->res[k]->over);
    return kept ? param : -1;
}

/* The function with a parameter for each of its results, into which it goes; but what is in the
 * memory of a parameter goes into that. */
static Fn *
with_places(const Let *let, const Fn *body)
{
    Cx *cx = body->cx;
    int n = body->body->nrets;
    Fn *fn = cx_copy(cx, body, sizeof *body);
    Result *results = cx_alloc(cx, ((size_t)n + 1) * sizeof *results);
    fn->params = NULL;
    for (fn->nparams = 0; fn->nparams < body->nparams; fn->nparams++) {
        fn->params = cx_grow(cx, fn->params, fn->nparams, sizeof *fn->params);
        fn->params[fn->nparams] = body->params[fn->nparams];
    }
    for (int k = 0; k < n; k++) {
        int kept = param_for(let, body, k);
        results[k] = (Result){.kind = RESULT_INTO, .of = kept < 0 ? fn->nparams : kept};
        fn_param(fn, fn_fresh_name(fn, "place"), body->body->rets[k]->type, NULL);
    }
    fn->results = results;
    return fn;
}

static void
build_body(Builder *b, const Let *let, const Fn *fn, Body *body)
{
    CompileOptions options = *b->options;
    options.tune = false;
    options.own_tensors = false;
    body->nparams = fn->nparams;
    body->kept = plan_keep(b, (size_t)fn->body->nrets * sizeof *body->kept);
    for (int k = 0; k < fn->body->nrets; k++) {
        body->kept[k] = param_for(let, fn, k);
    }
    body->plan = plan_build_body(with_places(let, fn), &options); /* may take memory back */
    body->sizes = plan_keep(b, (size_t)fn->nsizes * sizeof *body->sizes);
    for (int k = 0; k < fn->nsizes; k++) {
        body->sizes[k] = dim_ref(b, fn->sizes[k]);
    }
}

/* The plans of all bodies, and which of their parameters are tensors of the host. */
void
plan_flows(Builder *b)
{
    Plan *plan = b->plan;
    const Block *blk = b->fn->body;
    plan->flows = plan_keep(b, (size_t)blk->n * sizeof *plan->flows);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let_is_flow(let)) {
            Flow *flow = &plan->flows[plan->nflows++];
            for (int j = 0; j < let->nbodies; j++) {
                build_body(b, let, let->bodies[j], &flow->bodies[j]);
            }
            for (int j = 0; j < let->nres; j++) {
                bool taken = let->res[j]->over && flow_takes(let, j) < 0;
                let->res[j]->over = taken ? NULL : let->res[j]->over;
            }
        }
    }
}

static bool
is_object(const Body *body, int param)
{
    return body->plan && body->plan->slots[param].wants_object;
}

/* Is operand k a tensor of the host, because a call in a body takes it? */
static bool
wants_operand(const Flow *flow, const Let *let, int k)
{
    bool whiles = let->op == OP_loop && let_int(let, "while");
    int param = let->op == OP_loop ? k - whiles + 1 : k - 1;
    bool asked = param < (let->op == OP_loop); /* the bool, which is no parameter */
    return !asked && (is_object(&flow->bodies[0], param) || is_object(&flow->bodies[1], param));
}

void
plan_flow_wanted(const Flow *flow, const Let *let, bool *wanted)
{
    for (int k = 0; k < let->nargs; k++) {
        if (wants_operand(flow, let, k)) {
            wanted[let->args[k]->id] = wanted[value_root(let->args[k])->id] = true;
        }
    }
    for (int k = 0; let->op == OP_loop && k < let_int(let, "carries"); k++) {
        wanted[let->res[k]->id] |= is_object(&flow->bodies[0], 1 + k);
    }
    for (int k = 0; let->op == OP_branch && k < let->nres; k++) {
        for (int j = 0; j < let->nbodies; j++) {
            int kept = flow->bodies[j].kept[k];
            wanted[let->res[k]->id] |= kept >= 0 && is_object(&flow->bodies[j], kept);
        }
    }
}

static int
operand_slot(Builder *b, const Value *v, bool object)
{
    int slot = plan_slot_for(b, v);
    Dim dense[MAX_RANK];
    type_dense(b->cx, v->type, dense);
    return plan_strides_match(b, slot, dense)
               ? slot
               : plan_slot_copy(b, object ? SLOT_OBJECT : SLOT_WORK, v->type, NULL, slot);
}

/* The second place of a carried value. */
static int
other_slot(Builder *b, const Value *v, bool object)
{
    int slot = plan_slot_new(b, object ? SLOT_OBJECT : SLOT_WORK, v->type, NULL, dim_int(b->cx, 0));
    if (object) {
        plan_slot_touch(b, slot, step_add(b, (Step){.kind = STEP_ALLOC, .slot = slot}));
    }
    return slot;
}

/* Rows that are tensors as soon as it is known how many they are. */
static int
later_slot(Builder *b, const Value *v)
{
    return b->slot_of[v->id] = plan_slot_new(b, SLOT_OBJECT, v->type, NULL, dim_int(b->cx, 0));
}

static void
fill_loop(Builder *b, const Let *let, Flow *flow)
{
    Loop loop = let_loop(let);
    flow->loops = true;
    flow->whiles = loop.whiles;
    flow->counted = loop.counted;
    flow->steps = loop.counted ? dim_ref(b, loop.steps) : 0;
    flow->carries = loop.carries;
    flow->rows = loop.rows;
    flow->other = plan_keep(b, (size_t)loop.carries * sizeof *flow->other);
    for (int k = 0; k < loop.carries; k++) {
        bool one = flow->bodies[0].kept[loop.whiles + k] >= 0;
        flow->other[k] = one ? flow->res[k]
                             : other_slot(b, let->res[k], is_object(&flow->bodies[0], 1 + k));
    }
}

/* Do the bodies leave result k in the memory of a parameter?  Kernels that had to take their memory
 * back (schedule/retract.c) may make it elsewhere, in spite of what the result is over. */
static bool
stays(const Let *let, const Flow *flow, int k)
{
    bool loops = let->op == OP_loop;
    int at = loops ? k + (int)let_int(let, "while") : k;
    return flow->bodies[0].kept[at] >= 0 && (loops || flow->bodies[1].kept[at] >= 0);
}

void
plan_flow_step(Builder *b, const Let *let, Flow *flow, const bool *wanted)
{
    flow->nargs = let->nargs;
    flow->nres = let->nres;
    flow->args = plan_keep(b, (size_t)let->nargs * sizeof *flow->args);
    flow->res = plan_keep(b, (size_t)let->nres * sizeof *flow->res);
    flow->name = plan_range_name(b, let);
    for (int k = 0; k < let->nargs; k++) {
        flow->args[k] = operand_slot(b, let->args[k], wants_operand(flow, let, k));
    }
    for (int k = 0; k < let->nres; k++) {
        bool later = let->nsizes && k >= let_int(let, "carries");
        flow->res[k] = later                 ? later_slot(b, let->res[k])
                       : stays(let, flow, k) ? plan_slot_result(b, let->res[k], wanted)
                                             : plan_slot_made(b, let->res[k], wanted);
    }
    plan_bind_steps(b, let, flow);
    if (let->op == OP_loop) {
        fill_loop(b, let, flow);
    }
    int at = step_add(b, (Step){.kind = STEP_FLOW, .flow = (int)(flow - b->plan->flows)});
    for (int k = 0; k < flow->nargs; k++) {
        plan_slot_touch(b, flow->args[k], at);
    }
    for (int k = 0; k < flow->nres; k++) {
        plan_slot_touch(b, flow->res[k], at);
    }
    for (int k = 0; k < flow->carries; k++) {
        plan_slot_touch(b, flow->other[k], at);
    }
}
