/* Nodes: what the fuse pass groups, and how each reads the others.
 *
 * A node is a let that computes (MAP, RED, cat, pad, gather, scan, scatter, contract), a call, or a
 * view that has to be made real, or is better made so.  All other lets are not nodes, and are
 * copied into every kernel that wants them: views, because they are only index maps; constants,
 * iota and sizes, and what follows from those alone at low cost (a causal mask is cheaper to
 * compare than to load), but no floats made integers, which are places to look up.  So a Read leads
 * from node to node through whatever views lie between, and says which axis runs along which.
 */
#include "group.h"

#include <string.h>

enum {
    PAD_PIECES = 3,                                     /* of the axis that is padded */
};

/* How a value is read through views: the value underneath (`root`), and its axes. */
typedef struct {
    int from;
    const Value *root, *at;
    bool memory;
    signed char axis[MAX_RANK];
} Access;

typedef struct {
    Groups *g;
    Access **access;            /* by Value.id; NULL: made from nothing */
    bool *made;                 /* by Value.id: a view or constant that must be a tensor */
    bool *wanted;               /* by Value.id: must be in memory */
    bool *repeated;             /* by Value.id: a view that its readers have in memory */
} Scan;

static bool
is_one(Cx *cx, Dim d)
{
    return dim_is(cx, d, 1);
}

/* ---- what is made from nothing ---- */

static bool
is_scalar(Cx *cx, const Type *t)
{
    for (int ax = 0; ax < t->rank; ax++) {
        if (!is_one(cx, t->dims[ax])) {
            return false;
        }
    }
    return true;
}

/* Places computed with floats: as indices, made again for each gather they cost more than to be
 * looked up (a bilinear interpolation took three times as long). */
static bool
is_rounded(const Let *let)
{
    return let->op == OP_cast && !value_is_const(let->args[0]) &&
           dtype_info[let->args[0]->type->dtype].class == CLASS_FLOAT &&
           dtype_info[let->res[0]->type->dtype].class == CLASS_INT;
}

/* The cost of an element made from nothing, or -1. */
static int
free_cost(Groups *g, const Let *let)
{
    OpKind kind = op_info[let->op].kind;
    if (op_info[let->op].fuses == FUSES_FREE) {
        return 0;
    }
    if ((kind != KIND_MAP && kind != KIND_VIEW) || is_rounded(let)) {
        return -1;
    }
    int cost = cost_let(let);
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        if (!value_is_const(v)) {
            if (g->cost[v->id] < 0) {
                return -1;
            }
            cost += g->cost[v->id];
        }
    }
    if (kind == KIND_VIEW) {
        return cost;            /* a view of a value made from nothing has no tensor to look at */
    }
    int limit = is_scalar(g->cx, let->res[0]->type) ? COST_FREE_SCALAR : COST_FREE;
    return cost <= limit ? cost : -1;
}

/* ---- nodes ---- */

static void
domain_of(Groups *g, Node *node)
{
    const Type *t = node->call ? NULL : node->value->type;
    int kept = 0;
    if (node->reduces) {
        const Attr *axes = let_attr(node->let, "axes");
        t = node->let->args[0]->type;
        for (int ax = 0, k = 0; ax < t->rank; ax++) {
            bool reduced = k < axes->n && axes->axes[k] == ax;
            k += reduced;
            if (!reduced) {
                node->out[kept++] = (signed char)ax;
            }
        }
    } else {
        t = node->let->op == OP_scatter ? node->let->args[2]->type : t;
        for (int ax = 0; t && ax < t->rank; ax++) {
            node->out[ax] = (signed char)ax;
        }
    }
    node->rank = t ? t->rank : 0;
    node->dims = t ? t->dims : NULL;
    node->numel = t ? dims_typical(g->cx, t->rank, t->dims) : 0;
    node->bytes = t ? type_typical_bytes(g->cx, node->value->type) : 0;
}

static void
node_add(Scan *s, const Let *let)
{
    Groups *g = s->g;
    int k = g->n++;
    Fuses fuses = op_info[let->op].fuses;
    bool reduces = fuses == FUSES_REDUCES, joins = fuses == FUSES_CUT;
    Node *node = &g->nodes[k];
    *node = (Node){
        .let = let,
        .value = let->nres ? let->res[0] : NULL,
        .call = let_is_opaque(let),
        .reduces = reduces,
        .joins = joins,
        .axis0 = g->naxes,
        .users = -1,
        .times = 1,
        .parent = k,
        .next = -1,
        .tail = k,
        .members = 1,
        .order = k,
        .domain = k,
        .red = reduces ? k : -1,
        .scan = fuses == FUSES_ORDERED ? k : -1,
        .has_call = let_is_opaque(let),
        .closed = fuses == FUSES_CLOSED,
        .contracts = fuses == FUSES_EPILOGUE,
        .other = op_info[let->op].kind != KIND_MAP && !reduces && fuses != FUSES_EPILOGUE &&
                 let->op != OP_permute,
        .pieces = let->op == OP_cat ? let->nargs
                  : joins           ? PAD_PIECES
                                    : 0,
    };
    domain_of(g, node);
    g->naxes += node->rank;
    for (int j = 0; j < let->nres; j++) {
        g->node_of[let->res[j]->id] = k;
        node->stored |= s->wanted[let->res[j]->id];
    }
}

/* ---- reads ---- */

bool
view_axes(Cx *cx, const Let *let, signed char *to)
{
    const Type *in = let->args[0]->type, *out = let->res[0]->type;
    if (let->op == OP_expand || let->op == OP_permute) {
        const Attr *axes = let_attr(let, let->op == OP_expand ? "to" : "perm");
        for (int k = 0; k < axes->n; k++) {
            to[let->op == OP_expand ? k : axes->axes[k]] = (signed char)(let->op == OP_expand
                                                                             ? axes->axes[k]
                                                                             : k);
        }
        return true;
    }
    if (let->op != OP_reshape) {
        return false;
    }
    int j = 0;
    for (int k = 0; k < in->rank; k++) {
        to[k] = -1;
        if (is_one(cx, in->dims[k])) {
            continue;
        }
        while (j < out->rank && is_one(cx, out->dims[j])) {
            j++;
        }
        if (j == out->rank || out->dims[j] != in->dims[k]) {
            return false;
        }
        to[k] = (signed char)j++;
    }
    return true;
}

static void
look_at(Cx *cx, Access *a, const Value *v)
{
    a->at = v;
    for (int k = 0; v && k < v->type->rank; k++) {
        a->axis[k] = (signed char)(is_one(cx, v->type->dims[k]) ? -1 : k);
    }
}

/* Moves the axes of an access to the positions in `to`, if these are given; otherwise they are
 * those of the result. */
static void
compose(Cx *cx, Access *a, bool good, const signed char *to, const Value *result)
{
    if (!good || !a->at) {
        look_at(cx, a, result);
        return;
    }
    for (int k = 0; k < a->at->type->rank; k++) {
        a->axis[k] = a->axis[k] < 0 ? -1 : to[(int)a->axis[k]];
    }
}

static Access *
access_new(Groups *g, const Value *v, int from)
{
    Access *a = cx_alloc(g->cx, sizeof *a);
    *a = (Access){.from = from, .root = v};
    look_at(g->cx, a, v);
    return a;
}

static Access *
access_view(Scan *s, const Let *let)
{
    const Access *base = s->access[let->args[0]->id];
    signed char to[MAX_RANK];
    Access *a = cx_copy(s->g->cx, base, sizeof *base);
    compose(s->g->cx, a, view_axes(s->g->cx, let, to), to, let->res[0]);
    a->memory |= op_reads(let->op, 0) == 'm';
    return a;
}

/* How the node's domain sees the operand: axis k of the operand runs along to[k]. */
static bool
operand_axes(Cx *cx, const Let *let, int arg, signed char *to)
{
    if (op_info[let->op].kind == KIND_VIEW) {
        return view_axes(cx, let, to);
    }
    char reads = op_reads(let->op, arg);
    bool along = reads == 'e' || reads == 'i' || reads == 'p';
    int first = reads == 'p' ? (int)let_int(let, "axis") : 0;
    for (int k = 0; along && k < let->args[arg]->type->rank; k++) {
        to[k] = (signed char)(first + k);
    }
    return along;
}

/* How often the operand is computed if it is computed in place: a loop nest over the domain in its
 * order computes it in the innermost loop that it depends on. */
static int64_t
evaluations(Groups *g, const Node *to, const Value *v, const Access *a)
{
    int last = -1;
    if (!a->at) {
        int64_t numel = dims_typical(g->cx, v->type->rank, v->type->dims);
        return to->numel < numel ? to->numel : numel;
    }
    for (int k = 0; k < a->at->type->rank; k++) {
        last = a->axis[k] > last ? a->axis[k] : last;
    }
    return dims_typical(g->cx, last + 1, to->dims);
}

/* Is the gather a gather from another gather, each along its own axes?  Then all elements of the
 * inner index are read, and checked, whatever the outer index holds, unless the outer one is
 * empty. */
static bool
looks_up_found(Cx *cx, const Let *outer, const Access *a)
{
    const Let *inner = a->at && a->at == a->root ? a->root->def : NULL;
    const Type *places = outer->args[1]->type;
    if (!inner || inner->op != OP_gather) {
        return false;
    }
    for (int ax = 0; ax < places->rank; ax++) {
        if (dim_range(cx, places->dims[ax]).lo < 1) {
            return false;
        }
    }
    int axis = (int)let_int(outer, "axis"), first = (int)let_int(inner, "axis");
    return axis < first || axis >= first + inner->args[1]->type->rank;
}

/* The value that a call takes for a value without readers: the value, or the base of the view;
 * NULL: no kernel makes it. */
static const Value *
made_from_nothing(const Groups *g, const Value *v)
{
    while (g->node_of[v->id] < 0 && value_is_view(v) && !value_is_const(v->def->args[0])) {
        v = v->def->args[0];
    }
    return g->node_of[v->id] >= 0 ? v : NULL;
}

static void
read_add(Scan *s, int to, int arg)
{
    Groups *g = s->g;
    const Let *let = g->nodes[to].let;
    const Value *v = let->args[arg];
    Access a;
    if (value_is_const(v)) {
        return;
    }
    if (s->access[v->id]) {
        a = *s->access[v->id];
    } else {
        const Value *made = made_from_nothing(g, v);
        if (!let_is_opaque(let) || !made) {
            return;
        }
        a = (Access){.from = g->node_of[made->id], .root = made};
    }
    signed char axes[MAX_RANK];
    char reads = op_reads(let->op, arg);
    bool data = reads == 'd', found = data && looks_up_found(g->cx, let, &a);
    compose(g->cx, &a, operand_axes(g->cx, let, arg, axes), axes, NULL);
    g->reads = cx_grow(g->cx, g->reads, g->nreads, sizeof *g->reads);
    Read *read = &g->reads[g->nreads++];
    *read = (Read){
        .from = a.from,
        .to = to,
        .root = a.root,
        .at = a.at,
        .direct = v == a.root,
        .plain = a.at == a.root,
        .memory = a.memory || reads == 'm' || (data && !found),
        .numel = data ? g->nodes[to].numel : evaluations(g, &g->nodes[to], v, &a),
    };
    memcpy(read->axis, a.axis, sizeof a.axis);
    g->nodes[to].nreads++;
}

static void
order_add(Groups *g, int from, int to)
{
    g->reads = cx_grow(g->cx, g->reads, g->nreads, sizeof *g->reads);
    g->reads[g->nreads++] = (Read){.from = from, .to = to, .memory = true, .order = true};
    g->nodes[to].nreads++;
}

/* ---- the whole ---- */

static bool
is_node(const Scan *s, const Let *let)
{
    const Value *v = let->nres ? let->res[0] : NULL;
    return let_is_opaque(let) || (v && s->made[v->id]) ||
           (v && s->g->cost[v->id] < 0 && op_info[let->op].kind != KIND_VIEW);
}

/* Calls with effects keep their order, and what follows a call that binds sizes may use them. */
static void
order_node(Groups *g, int node, int *effect, int *binder)
{
    const Let *let = g->nodes[node].let;
    if (*binder >= 0) {
        order_add(g, *binder, node);
    }
    if (let->nsizes) {
        *binder = node;
    }
    if (let_has_effect(let)) {
        if (*effect >= 0) {
            order_add(g, *effect, node);
        }
        *effect = node;
    }
}

/* By Value.id: is it expanded, or computed elementwise from an expanded value? */
static bool *
find_expanded(const Groups *g)
{
    const Fn *fn = g->fn;
    bool *expanded = cx_alloc(g->cx, ((size_t)fn->nvalues + 1) * sizeof *expanded);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        bool is = let->op == OP_expand && let->args[0]->type->rank > 0;
        for (int j = 0; op_info[let->op].kind == KIND_MAP && j < let->nargs && !is; j++) {
            is = !value_is_const(let->args[j]) && expanded[let->args[j]->id];
        }
        expanded[let->nres ? let->res[0]->id : fn->nvalues] = is;
    }
    return expanded;
}

/* Does a reshape merge two axes into one? */
static bool
merges_axes(Cx *cx, const Let *reshape)
{
    return type_wide_axes(cx, reshape->args[0]->type) > type_wide_axes(cx, reshape->res[0]->type);
}

static int64_t
typical_numel(Cx *cx, const Value *v)
{
    return dims_typical(cx, v->type->rank, v->type->dims);
}

/* Does the let only expand v, with many copies of each element? */
static bool
expands_much(Cx *cx, const Let *let, const Value *v)
{
    return let->op == OP_expand &&
           typical_numel(cx, let->res[0]) >= COST_REPEATED * typical_numel(cx, v);
}

/* A value for each group becomes one for each of its channels by an expansion whose axes are
 * merged.  A loop along the merged axis divides its index, or is cut in two.  So such a view
 * becomes a tensor if all its readers only expand it to very many elements.  A view of a value that
 * is in memory anyway remains a view. */
static void
find_repeated(Scan *s)
{
    const Fn *fn = s->g->fn;
    const bool *expanded = find_expanded(s->g);
    bool *other = cx_alloc(s->g->cx, ((size_t)fn->nvalues + 1) * sizeof *other);
    bool *read = cx_alloc(s->g->cx, ((size_t)fn->nvalues + 1) * sizeof *read);
    for (int k = 0; k < fn->body->nrets; k++) {
        other[fn->body->rets[k]->id] = true;
    }
    for (int k = fn->body->n - 1; k >= 0; k--) { /* readers first */
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            const Value *v = let->args[j];
            if (!value_is_const(v)) {
                read[v->id] = true;
                other[v->id] |= !expands_much(s->g->cx, let, v);
            }
        }
        const Value *v = let->nres ? let->res[0] : NULL;
        if (let->op == OP_reshape && read[v->id] && !other[v->id] && s->g->cost[v->id] < 0 &&
            expanded[let->args[0]->id] && merges_axes(s->g->cx, let) &&
            !s->wanted[let->args[0]->id]) {
            s->repeated[v->id] = s->made[v->id] = s->wanted[v->id] = true;
        }
    }
}

static void
scan_nodes(Scan *s)
{
    Groups *g = s->g;
    int effect = -1, binder = -1;
    for (int k = 0; k < g->fn->body->n; k++) {
        const Let *let = g->fn->body->lets[k];
        int node = g->n;
        if (!is_node(s, let)) {
            if (g->cost[let->res[0]->id] < 0) {
                s->access[let->res[0]->id] = access_view(s, let);
            }
            continue;
        }
        node_add(s, let);
        g->nodes[node].reads = g->nreads;
        for (int j = 0; j < let->nargs; j++) {
            read_add(s, node, j);
        }
        order_node(g, node, &effect, &binder);
        for (int j = 0; j < let->nres; j++) {
            if (g->cost[let->res[j]->id] < 0) {
                Access *a = access_new(g, let->res[j], node);
                a->memory = s->repeated[let->res[j]->id];
                s->access[let->res[j]->id] = a;
            }
        }
    }
}

static int *
filled(Cx *cx, int n)
{
    int *p = cx_alloc(cx, ((size_t)n + 1) * sizeof *p);
    for (int k = 0; k < n; k++) {
        p[k] = -1;
    }
    return p;
}

/* Links the reads of each root, and of each view of it, in order. */
static void
link_reads(Groups *g)
{
    int *seen = filled(g->cx, g->fn->nvalues);
    for (int k = g->nreads - 1; k >= 0; k--) {
        Read *read = &g->reads[k];
        read->next_same = -1;
        if (read->at) {
            read->next_same = seen[read->at->id];
            seen[read->at->id] = k;
        }
        int *first = read->from >= 0 ? &g->nodes[read->from].users
                                     : &g->param_users[read->root->result];
        read->next = *first;
        *first = k;
    }
}

Groups *
groups_new(Fn *fn)
{
    Cx *cx = fn->cx;
    size_t values = (size_t)fn->nvalues + 1, lets = (size_t)fn->body->n + 1;
    Groups *g = cx_alloc(cx, sizeof *g);
    *g = (Groups){.cx = cx,
                  .fn = fn,
                  .node_of = filled(cx, fn->nvalues),
                  .cost = filled(cx, fn->nvalues),
                  .param_users = filled(cx, fn->nparams)};
    Scan s = {
        .g = g,
        .access = cx_alloc(cx, values * sizeof *s.access),
        .made = cx_alloc(cx, values * sizeof *s.made),
        .wanted = cx_alloc(cx, values * sizeof *s.wanted),
        .repeated = cx_alloc(cx, values * sizeof *s.repeated),
    };
    g->nodes = cx_alloc(cx, lets * sizeof *g->nodes);
    for (int k = 0; k < fn->nparams; k++) {
        s.access[fn->params[k]->id] = access_new(g, fn->params[k], -1);
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            g->cost[let->res[j]->id] = free_cost(g, let);
        }
    }
    memory_promises(g);
    memory_scan(g, s.made, s.wanted);
    find_repeated(&s);
    scan_nodes(&s);
    link_reads(g);
    waits_scan(g);
    g->axes = cx_alloc(cx, ((size_t)g->naxes + 1) * sizeof *g->axes);
    for (int k = 0; k < g->naxes; k++) {
        g->axes[k] = k;
    }
    g->stack = filled(cx, g->n);
    g->ahead = filled(cx, g->n);
    g->behind = filled(cx, g->n);
    g->seen = filled(cx, g->n);
    return g;
}
