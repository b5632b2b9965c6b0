/* Partition: which values of a joint graph the forward passes on to the backward.
 *
 * What:     training gives one graph that computes a function's results and, from tangents, its
 *           gradients.  The backward runs later: of what both need, each value is either saved by
 *           the forward or computed again by the backward.
 * Requires  a verified graph in which no result of the forward needs a tangent;
 * and ensures: what random draws, other effects and library calls made is never made again,
 *           unless marked so; views and constants are never saved where what they are made of can
 *           be; each value computed again takes a unit of fuel; among equally good choices the last
 *           in order, with the least to compute again.
 * How:      a minimum cut.  Each value that the backward needs and that does not depend on tangents
 *           is two nodes, in and out.  The edge from in to out costs what saving it costs; an edge
 *           from the source to in costs what computing it again costs (without end, where that must
 *           not be); every use is an edge without end, from out to the user's in, or to the sink
 *           when the user depends on tangents.  Nodes on the sink's side are available in the
 *           backward: where the edge from in to out is cut the value is saved, where in is on the
 *           sink's side too it is computed again.  Linear in lets and uses, but for the cut
 *           (mincut.c).
 * Why not   save what autograd would and then drop what is cheap: whether a value is cheap depends
 *           on what else is saved, which is what a cut decides for all at once.
 * Example:  y = relu x, z = matmul y: both gradients can be had from y alone, so x is not saved.
 */
#include "partition.h"

#include <string.h>

#define LAST_RESORT (FLOW_INF >> 12)

static int64_t
times(int64_t n, int64_t by)
{
    int64_t product;
    return __builtin_mul_overflow(n, by, &product) || product > LAST_RESORT >> 1 ? LAST_RESORT >> 1
                                                                                 : product;
}

static bool
has(const Cutter *c, const Value *v, Mark mark)
{
    return c->rules->marks ? c->rules->marks[v->id] & mark : mark == MARK_NAMED;
}

/* ---- what a value is made of ---- */

/* The inputs of a value: the operands of its let, and its needs.  Returns their number. */
static int
inputs_of(const Cutter *c, const Value *v, const Value **out)
{
    int n = 0;
    for (int k = 0; v->def && k < v->def->nargs; k++) {
        if (!value_is_const(v->def->args[k])) {
            out[n++] = v->def->args[k];
        }
    }
    for (int k = c->first_need[v->id]; k >= 0; k = c->next_need[k]) {
        out[n++] = c->rules->needs[k].used;
    }
    return n;
}

static void
index_needs(Cutter *c)
{
    const CutRules *rules = c->rules;
    int *count = cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * sizeof *count);
    c->first_need = cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * sizeof *c->first_need);
    c->next_need = cx_alloc(c->cx, ((size_t)rules->nneeds + 1) * sizeof *c->next_need);
    memset(c->first_need, -1, ((size_t)c->fn->nvalues + 1) * sizeof *c->first_need);
    for (int k = 0; k < rules->nneeds; k++) {
        int user = rules->needs[k].user->id;
        c->next_need[k] = c->first_need[user];
        c->first_need[user] = k;
        c->most = ++count[user] > c->most ? count[user] : c->most;
    }
    int most = 0;
    for (int k = 0; k < c->fn->body->n; k++) {
        most = c->fn->body->lets[k]->nargs > most ? c->fn->body->lets[k]->nargs : most;
    }
    c->most += most;
    c->inputs = cx_alloc(c->cx, ((size_t)c->most + 1) * sizeof *c->inputs);
}

/* ---- what belongs where ---- */

static bool
depends(const Cutter *c, const Value *v)
{
    bool late = c->late[v->id] || has(c, v, MARK_LATE);
    int n = inputs_of(c, v, c->inputs);
    for (int k = 0; k < n; k++) {
        late |= c->late[c->inputs[k]->id];
    }
    return late;
}

/* Finds the values that depend on tangents.  Lets are in order; only needs may point forward. */
static void
find_late(Cutter *c)
{
    const Fn *fn = c->fn;
    for (int k = 0; k < fn->nparams; k++) {
        c->late[fn->params[k]->id] = c->rules->tangents[k];
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int k = 0; k < fn->body->n; k++) {
            for (int j = 0; j < fn->body->lets[k]->nres; j++) {
                const Value *v = fn->body->lets[k]->res[j];
                if (!c->late[v->id] && depends(c, v)) {
                    changed = c->late[v->id] = true;
                }
            }
        }
        changed &= c->rules->nneeds > 0;
    }
}

/* Marks v and all values that it is computed from. */
static void
reach(Cutter *c, const Value *v, bool *seen)
{
    int n = 0;
    if (!seen[v->id]) {
        seen[v->id] = true;
        c->stack[n++] = v;
    }
    while (n > 0) {
        v = c->stack[--n];
        int inputs = inputs_of(c, v, c->inputs);
        for (int k = 0; k < inputs; k++) {
            const Value *used = c->inputs[k];
            if (!seen[used->id]) {
                seen[used->id] = true;
                c->stack[n++] = used;
            }
        }
    }
}

bool
is_late(const Cutter *c, const Let *let)
{
    bool late = false;
    for (int k = 0; k < let->nargs; k++) {
        late |= c->late[let->args[k]->id];
    }
    for (int k = 0; k < let->nres; k++) {
        late |= c->late[let->res[k]->id];
    }
    return late;
}

static void
find_needed(Cutter *c)
{
    const Block *body = c->fn->body;
    for (int k = 0; k < body->nrets; k++) {
        reach(c, body->rets[k], k < c->rules->nforward ? c->forward : c->backward);
    }
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        bool *seen = is_late(c, let) ? c->backward : c->forward;
        for (int j = 0; let_has_effect(let) && j < let->nres; j++) {
            reach(c, let->res[j], seen);
        }
        for (int j = 0; let_has_effect(let) && j < let->nargs; j++) {
            reach(c, let->args[j], seen);
        }
    }
    for (int id = 1; id < c->fn->nvalues; id++) {
        if (c->forward[id] && c->late[id]) {
            fail(c->cx, DIAG_LATE_RESULT);
        }
    }
}

/* Does a call of the backward take v, or a view of it?  Users come later, so the lets are read
 * backwards. */
static void
find_stored(Cutter *c)
{
    const Block *body = c->fn->body;
    for (int k = body->n - 1; k >= 0; k--) {
        const Let *let = body->lets[k];
        const Value *v = let->nres ? let->res[0] : NULL;
        bool stored = let_is_opaque(let) ? is_late(c, let)
                                         : v && value_is_view(v) && c->stored[v->id];
        for (int j = 0; stored && j < let->nargs; j++) {
            c->stored[let->args[j]->id] = true;
        }
    }
}

/* ---- costs ---- */

const Value *
root_of(const Value *v)
{
    while (value_is_view(v) && !value_is_const(v->def->args[0])) {
        v = v->def->args[0];
    }
    return v;
}

int64_t
value_bytes(const Cutter *c, const Value *v)
{
    return type_typical_bytes(c->cx, v->type);
}

bool
is_given(const Value *v)
{
    return v->def && op_info[v->def->op].fuses == FUSES_FREE;
}

int64_t
save_cost(const Cutter *c, const Value *v)
{
    const Value *root = root_of(v);
    if (!v->def && !has(c, v, MARK_WRITTEN)) {
        return 0;
    }
    if (!v->def && !has(c, v, MARK_NAMED)) {
        return has(c, v, MARK_COPIED) ? FLOW_INF : LAST_RESORT;
    }
    if (!has(c, v, MARK_NAMED) || is_given(v)) {
        return FLOW_INF;
    }
    bool stays = !root->def && !has(c, root, MARK_WRITTEN);
    if (root != v && (stays || has(c, root, MARK_NAMED))) {
        return FLOW_INF;                        /* the base of the view can be saved */
    }
    int64_t cost = times(value_bytes(c, v), COST_SAVE);
    int64_t price = c->dear && c->dear[v->id] ? (int64_t)1 << DOUBLINGS : c->price;
    return price > 1 ? times(cost, price) : cost;
}

/* May a call be made again?  A product may, where memory is bought with products. */
bool
may_recompute(const Cutter *c, const Value *v)
{
    return !let_is_opaque(v->def) ||
           (c->rules->products && c->rules->marks && has(c, v, MARK_PRODUCT));
}

/* The cost of a call of a library product.  A matrix with columns, or a convolution's weight with a
 * filter for each channel, comes last except for an addend. */
static int64_t
call_cost(const Cutter *c, const Let *let)
{
    bool filters = strstr(let_str(let, "target"), "convolution") != NULL;
    const Type *out = let->res[0]->type, *by = NULL;
    int64_t terms = 1;
    for (int k = 0; k < let->nargs; k++) {
        const Type *t = let->args[k]->type;
        by = t->rank >= 2 && (!filters || k == 1) ? t : by;
    }
    if (by && filters) {
        terms = dims_typical(c->cx, by->rank - 1, by->dims + 1);
    } else if (by) {
        terms = dims_typical(c->cx, 1, by->dims + by->rank - 2);
    }
    return times(times(dims_typical(c->cx, out->rank, out->dims), terms),
                 op_info[OP_contract].cost);
}

/* Returns the cost of computing v again; FLOW_INF: this is not possible. */
int64_t
recompute_cost(const Cutter *c, const Value *v)
{
    const Let *let = v->def;
    if (!let || let_is_flow(let)) {
        return FLOW_INF;
    }
    if (!may_recompute(c, v) || has(c, v, MARK_KEEP) || c->once[v->id]) {
        return has(c, v, MARK_NAMED) ? FLOW_INF : LAST_RESORT;
    }
    if (!c->forward[v->id]) {
        return 0; /* it is computed once, here or there */
    }
    int64_t cost = let_is_opaque(let) ? call_cost(c, let)
                                      : times(cost_terms(c->cx, let), cost_let(let));
    bool product = let->op == OP_contract || let_is_opaque(let);
    cost += op_info[let->op].kind == KIND_RED || let->op == OP_contract ? COST_LAUNCH : 0;
    bool stored = c->stored[v->id] && !value_is_view(v) && !is_given(v);
    cost += stored ? times(value_bytes(c, v), COST_STORE) : 0;
    /* A smaller budget makes memory dear.  It buys no product that the usual one would not make
     * again, unless the rules say so. */
    return product && c->price > 1 && !c->rules->products ? times(cost, c->price) : cost;
}

/* ---- the network ---- */

static int
node_in(const Cutter *c, const Value *v)
{
    return c->node[v->id];
}
static int
node_out(const Cutter *c, const Value *v)
{
    return c->node[v->id] + 1;
}

static void
number_values(Cutter *c)
{
    const Fn *fn = c->fn;
    int next = FLOW_FIRST;
    c->values = cx_alloc(c->cx, ((size_t)fn->nvalues + 1) * sizeof *c->values);
    for (int k = 0; k < fn->nparams; k++) {
        if (c->backward[fn->params[k]->id]) {
            c->values[c->nvalues++] = fn->params[k];
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        for (int j = 0; j < fn->body->lets[k]->nres; j++) {
            if (c->backward[fn->body->lets[k]->res[j]->id]) {
                c->values[c->nvalues++] = fn->body->lets[k]->res[j];
            }
        }
    }
    for (int k = 0; k < c->nvalues; k++) {
        c->node[c->values[k]->id] = c->late[c->values[k]->id] ? FLOW_SINK : next;
        next += c->late[c->values[k]->id] ? 0 : 2;
    }
    c->nnodes = next;
}

/* Each value that may be computed again is a rewrite; the first ones in order get the available
 * fuel. */
static void
spend_fuel(Cutter *c)
{
    int64_t fuel = c->rules->fuel;
    for (int k = 0; k < c->nvalues; k++) {
        const Value *v = c->values[k];
        bool again = v->def && !c->late[v->id] && c->forward[v->id] && may_recompute(c, v);
        if (again && !value_is_view(v) && !is_given(v)) {
            c->once[v->id] = fuel == 0;
            fuel -= fuel > 0;
        }
    }
}

static void
need_in_backward(const Cutter *c, Flow *f, const Value *v)
{
    if (!value_is_const(v) && !c->late[v->id]) {
        flow_edge(f, node_out(c, v), FLOW_SINK, FLOW_INF);
    }
}

static Flow *
network(Cutter *c, const bool *again)
{
    Flow *f = flow_new(c->cx, c->nnodes);
    for (int k = 0; k < c->nvalues; k++) {
        const Value *v = c->values[k];
        bool late = c->late[v->id];
        if (!late) {
            bool forced = again[v->id];
            flow_edge(f, node_in(c, v), node_out(c, v), forced ? FLOW_INF : save_cost(c, v));
            flow_edge(f, forced ? node_in(c, v) : FLOW_SOURCE, forced ? FLOW_SINK : node_in(c, v),
                      forced ? FLOW_INF : recompute_cost(c, v));
        }
        int n = inputs_of(c, v, c->inputs);
        for (int j = 0; j < n; j++) {
            if (!c->late[c->inputs[j]->id] && c->inputs[j] != v) {
                flow_edge(f, node_out(c, c->inputs[j]), late ? FLOW_SINK : node_in(c, v), FLOW_INF);
            }
        }
    }
    for (int k = c->rules->nforward; k < c->fn->body->nrets; k++) {
        need_in_backward(c, f, c->fn->body->rets[k]);
    }
    for (int k = 0; k < c->fn->body->n; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; let_has_effect(let) && is_late(c, let) && j < let->nargs; j++) {
            need_in_backward(c, f, let->args[j]);
        }
    }
    return f;
}

Cut *
cut_at(Cutter *c, const bool *again)
{
    Flow *f = network(c, again);
    Cut *cut = cx_alloc(c->cx, sizeof *cut);
    if (flow_run(f) >= FLOW_INF) {
        fail(c->cx, DIAG_NO_CUT);
    }
    bool *behind = cx_alloc(c->cx, ((size_t)c->nnodes + 1) * sizeof *behind);
    flow_cut(f, behind);
    cut->backward = cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * sizeof *cut->backward);
    cut->saved = cx_alloc(c->cx, ((size_t)c->nvalues + 1) * sizeof(Value *));
    for (int k = 0; k < c->nvalues; k++) {
        const Value *v = c->values[k];
        bool late = c->late[v->id], made = late || behind[node_in(c, v)];
        cut->backward[v->id] = made;
        if (!late && !made && behind[node_out(c, v)]) {
            cut->saved[cut->nsaved++] = v;
            cut->bytes += v->def ? value_bytes(c, v) : 0;
        } else if (!late && made && c->forward[v->id]) {
            cut->recomputed += !value_is_view(v) && !is_given(v);
        }
    }
    return cut;
}

/* Completes the cut: the forward also computes the saved values. */
static void
finish(Cutter *c, Cut *cut)
{
    for (int k = 0; k < cut->nsaved; k++) {
        reach(c, cut->saved[k], c->forward);
        cut->backward[cut->saved[k]->id] = !cut->saved[k]->def;
    }
    cut->forward = c->forward;
    cut->late = c->late;
}

static bool *
flags(Cutter *c)
{
    return cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * sizeof(bool));
}

Cut *
partition_cut(const Fn *joint, const CutRules *rules)
{
    Cutter *c = cx_alloc(joint->cx, sizeof *c);
    *c = (Cutter){.cx = joint->cx, .fn = joint, .rules = rules, .price = 1};
    c->late = flags(c);
    c->forward = flags(c);
    c->backward = flags(c);
    c->stored = flags(c);
    c->once = flags(c);
    c->node = cx_alloc(c->cx, ((size_t)joint->nvalues + 1) * sizeof *c->node);
    c->stack = cx_alloc(c->cx, ((size_t)joint->nvalues + 1) * sizeof *c->stack);
    index_needs(c);
    find_late(c);
    find_needed(c);
    find_stored(c);
    number_values(c);
    spend_fuel(c);
    bool *again = flags(c);
    for (int k = 0; k < c->nvalues; k++) {
        again[c->values[k]->id] = c->values[k]->def && has(c, c->values[k], MARK_AGAIN);
    }
    Cut *cut = rules->share > 0 ? cut_in_segments(c, again, rules->share)
                                : cut_within(c, again, rules->budget);
    c->price = 1;
    cut->cost = cost_of(c, cut);
    finish(c, cut);
    return cut;
}
