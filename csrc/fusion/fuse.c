/* Fuse: from the graph stage to the kernels stage.
 *
 * What:     partitions the lets that compute into groups, each of which becomes a kernel: one loop
 *           nest over one domain O x R of kept and reduced axes, whose results all lie in it.
 * Requires  a verified graph;
 * and ensures: every top-level let is a kernel, a call, a size, or a view that strides express.
 *           In a kernel
 *           - results have the shape of the domain or, where it reduces, of O, but for axes of
 *             extent 1;
 *           - all reductions reduce exactly the axes R of values with the domain's shape;
 *           - what views shift or reshape (slice, flip, reshape, cat, pad) in front of a value
 *             contains neither a reduction nor a result, and is computed again per use only where
 *             that is cheap;
 *           - a kernel has one cat or pad, and none if it reduces; but what a cat or pad takes may
 *             have another in it, and a pad may be the last let beside a contraction;
 *           - the scans of a kernel run along one axis, and it neither reduces nor has a cat or
 *             pad;
 *           - a scatter has a kernel of its own, with what makes its operands alone;
 *           - of the lets beside a contraction, those that are computed of its result are
 *             pointwise, or reduce its rows; its operands are the kernel's, or views of those, but
 *             for the one of its rows: what makes that, and nothing else, may be in the kernel,
 *             another contraction included;
 *           - what a gather or an as_strided reads is an operand of the kernel, or made from
 *             nothing; a gather may also read what one along other axes finds.
 *           No kernel needs a call that needs the kernel; calls with effects keep their order.
 * How:      nodes.c lists nodes and reads (edges that look through views).  Pairs of groups are
 *           joined greedily, most bytes saved first, until nothing joins any more:
 *           - a producer and its consumer, when all reads between them align their domains: an
 *             axis of one runs along an axis of the other (a union-find over axes holds what has
 *             been aligned); the consumer may lie at the level of the rows, as in x / sum(x), or
 *             be one of several results;
 *           - siblings, which read all of one value in the same way;
 *           - where reads do not align, a producer that is used by this consumer alone, when
 *             computing it where it is wanted costs less than the traffic and the launch saved, or
 *             next to nothing.
 *           convex.c keeps the groups acyclic.  Candidates are edges and neighbouring siblings, so
 *           a round is O(E log E) plus the joins.  Then recompute.c and outline.c.
 * Why not   visit consumers in postorder and pull producers in: it decides by position, not by
 *           what is saved, and cannot give a kernel several results (Snider and Liang, Operator
 *           Fusion in XLA: Analysis and Evaluation, 2023).
 * Example:  amax, sub, exp, sum and div of a softmax read each other along [B, N], with R = {1}:
 *           one kernel.
 */
#include "group.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t gain;
    int a, b;
} Candidate;   /* reads; b is -1 for a producer's edge */

/* ---- what may join ---- */

/* Is a value of p stored, or read outside of p and c? */
static bool
leaves_nontemporal(Groups *g, int p, int c)
{
    for (int k = p; k >= 0; k = g->nodes[k].next) {
        if (g->nodes[k].stored) {
            return true;
        }
        for (int r = g->nodes[k].users; r >= 0; r = g->reads[r].next) {
            int to = group_find(g, g->reads[r].to);
            if (to != p && to != c) {
                return true;
            }
        }
    }
    return false;
}

/* Results that the kernel of a and b would have: values of the group that neither of them keeps. */
static int
results(Groups *g, int group, int a, int b)
{
    int n = 0;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        bool leaves = g->nodes[k].stored;
        for (int r = g->nodes[k].users; r >= 0 && !leaves; r = g->reads[r].next) {
            int to = group_find(g, g->reads[r].to);
            leaves = !g->reads[r].copied && !g->reads[r].order && to != a && to != b;
        }
        n += leaves;
    }
    return n;
}

/* Is the group only a cat, of values that nearly all have other readers?  The plan copies these
 * values (outline.c), and the other ones join the kernel that makes them. */
static bool
is_of_results(Groups *g, int group)
{
    const Node *node = &g->nodes[group];
    int others = 0;
    if (node->members > 1 || node->let->op != OP_cat || node->let->nargs < COST_JOINED) {
        return false;
    }
    for (int k = node->reads; k < node->reads + node->nreads; k++) {
        const Read *read = &g->reads[k];
        bool shared = false;
        for (int r = read->from >= 0 ? g->nodes[read->from].users : -1; r >= 0 && !shared;
             r = g->reads[r].next) {
            shared = g->reads[r].to != read->to && !g->reads[r].order;
        }
        others += !shared;
    }
    return others * COST_JOINED <= node->nreads;
}

/* May a, which is computed where b wants it, become a part of b? */
static bool
may_enter(Groups *g, int a, int b)
{
    const Node *na = &g->nodes[a], *nb = &g->nodes[b];
    bool reduces = na->red >= 0 || nb->red >= 0, scans = na->scan >= 0 || nb->scan >= 0;
    int contracts = na->contracts + nb->contracts;
    return !na->closed && !na->has_call && !nb->has_call && !is_of_results(g, b) &&
           na->members + nb->members <= COST_MEMBERS &&
           (contracts == 0 || (contracts == 1 && !na->other && !nb->other)) &&
           !((reduces || scans) && (na->pieces || nb->pieces)) && !(reduces && scans) &&
           results(g, a, a, b) + results(g, b, a, b) <= COST_RESULTS && !waits_long(g, a, b);
}

/* Loops are cut at one cat or pad; see pieces_inside. */
static bool
may_mix(Groups *g, int a, int b)
{
    return !g->nodes[b].closed && !(g->nodes[a].pieces && g->nodes[b].pieces) && may_enter(g, a, b);
}

/* A reduction to a few rows runs on few threads: full results do not belong into its kernel. */
static bool
is_narrow(const Domain *d)
{
    return d->nreduced && d->rows < COST_NARROW_ROWS && d->most > COST_NARROW_NUMEL;
}

/* Do both groups scan, but along different axes? */
static bool
scan_other_axes(Groups *g, int a, int b, const Match *m)
{
    if (g->nodes[a].scan < 0 || g->nodes[b].scan < 0) {
        return false;
    }
    const Node *na = &g->nodes[g->nodes[a].scan], *nb = &g->nodes[g->nodes[b].scan];
    int along = node_axis(g, na, (int)let_int(na->let, "axis"));
    int other = node_axis(g, nb, (int)let_int(nb->let, "axis"));
    for (int k = 0; k < m->n; k++) {
        if (m->a[k] == along || m->b[k] == other) {
            return m->a[k] != along || m->b[k] != other;
        }
    }
    return along >= 0 || other >= 0;
}

static double
work_of(const Groups *g, int group)
{
    double work = 0;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        const Node *node = &g->nodes[k];
        work += (double)cost_let(node->let) * (double)node->numel * node->times;
    }
    return work;
}

/* A scan of a few rows runs on few threads: work that takes longer than the scan does not belong in
 * its kernel. */
static bool
is_narrow_scan(Groups *g, int group, int other)
{
    if (g->nodes[group].scan < 0) {
        return false;
    }
    const Node *scan = &g->nodes[g->nodes[group].scan];
    int64_t extent = dim_typical(g->cx, scan->dims[let_int(scan->let, "axis")]);
    return scan->numel < COST_NARROW_ROWS * extent &&
           dims_most(g->cx, scan->rank, scan->dims) > COST_NARROW_NUMEL &&
           work_of(g, other) > (double)scan->numel * COST_SCAN;
}

static bool
join(Groups *g, int p, int c, const Match *m, int domain)
{
    if (!fuel_spend(g->cx) || !group_join(g, p, c)) {
        return false;
    }
    g->nodes[group_find(g, c)].domain = domain;
    for (int k = 0; k < m->n; k++) {
        g->axes[axis_find(g, m->a[k])] = axis_find(g, m->b[k]);
    }
    return true;
}

static bool
join_producer(Groups *g, int p, int c)
{
    Match m = {0};
    if (!may_mix(g, p, c) || !match_reads(g, p, c, &m)) {
        return false;
    }
    Domain dp = group_domain(g, p), dc = group_domain(g, c);
    Level level = match_domains(g, p, c, &dp, &dc, &m);
    bool p_red = g->nodes[p].red >= 0, c_red = g->nodes[c].red >= 0;
    bool contracts = g->nodes[p].contracts || g->nodes[c].contracts;
    bool level_good = level == LEVEL_FULL || (level == LEVEL_CONSUMER_ROW && g->nodes[p].contracts);
    if (level == LEVEL_NONE || (contracts && !(level_good && rows_reduced(g, p, c, &m))) ||
        scan_other_axes(g, p, c, &m) || is_narrow_scan(g, p, c) || is_narrow_scan(g, c, p) ||
        (level == LEVEL_FULL && is_narrow(&dp) && !c_red) ||
        (level == LEVEL_FULL && is_narrow(&dc) && !p_red && leaves_nontemporal(g, p, c))) {
        return false;
    }
    int domain = level == LEVEL_CONSUMER_ROW ? g->nodes[p].domain : g->nodes[c].domain;
    return join(g, p, c, &m, domain);
}

static bool
reads_directly(Groups *g, int p, int c)
{
    for (int k = c; k >= 0; k = g->nodes[k].next) {
        for (int r = g->nodes[k].reads; r < g->nodes[k].reads + g->nodes[k].nreads; r++) {
            if (g->reads[r].from >= 0 && group_find(g, g->reads[r].from) == p) {
                return true;
            }
        }
    }
    return false;
}

/* Matches the axes of two readers that run along the same axis of the value that both read or, if
 * they read different parts of a value, the axes at the same position. */
static bool
match_siblings(Groups *g, const Read *ra, const Read *rb, Match *m)
{
    const Node *na = &g->nodes[ra->to], *nb = &g->nodes[rb->to];
    bool same = ra->at && ra->at == rb->at;
    for (int k = 0; k < (same ? ra->at->type->rank : na->rank); k++) {
        int ax = same ? ra->axis[k] : k, bx = same ? rb->axis[k] : k;
        int a = ax < 0 ? -1 : node_axis(g, na, ax);
        if (a >= 0 && !match_add(m, a, node_axis(g, nb, bx))) {
            return false;
        }
    }
    return true;
}

/* a and b read the same value along all axes of both domains, or parts of it in domains of one
 * shape. */
static bool
join_sibling(Groups *g, const Read *ra, const Read *rb)
{
    int a = group_find(g, ra->to), b = group_find(g, rb->to);
    Match m = {0};
    if (g->nodes[ra->to].hidden || g->nodes[rb->to].hidden || g->nodes[a].contracts ||
        g->nodes[b].contracts || !may_mix(g, a, b) || !match_siblings(g, ra, rb, &m)) {
        return false;
    }
    Domain da = group_domain(g, a), db = group_domain(g, b);
    bool both = g->nodes[a].red >= 0 && g->nodes[b].red >= 0;
    if (m.n != da.n || m.n != db.n ||
        (both ? reduce_other_axes(&da, &db, &m) : is_narrow(&da) || is_narrow(&db)) ||
        scan_other_axes(g, a, b, &m) || is_narrow_scan(g, a, b) || is_narrow_scan(g, b, a) ||
        reads_directly(g, a, b) || reads_directly(g, b, a)) {
        return false;
    }
    return join(g, a, b, &m, g->nodes[b].domain);
}

/* ---- greedy joining ---- */

static int
by_gain(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->gain != y->gain) {
        return x->gain > y->gain ? -1 : 1;
    }
    return x->a != y->a ? x->a - y->a : x->b - y->b;
}

static bool
same_shape(const Node *a, const Node *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* The next read of the same view of a value (if not `same`: of the value) whose reader has the same
 * shape, among the next few. */
static int
next_sibling(const Groups *g, int r, bool same)
{
    const Read *reads = g->reads;
    int s = r;
    for (int k = 0; k < COST_SIBLINGS; k++) {
        s = same ? reads[s].next_same : reads[s].next;
        if (s < 0) {
            break;
        }
        if (!reads[s].memory && reads[s].to != reads[r].to &&
            same_shape(&g->nodes[reads[s].to], &g->nodes[reads[r].to])) {
            return s;
        }
    }
    return -1;
}

static Candidate *
sorted(Candidate *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_gain);
    return list;
}

/* A producer whose value only this reader wants need not be stored either. */
static Candidate *
producers(Groups *g, int *count)
{
    Candidate *list = cx_alloc(g->cx, ((size_t)g->nreads + 1) * sizeof *list);
    for (int r = 0; r < g->nreads; r++) {
        const Read *read = &g->reads[r];
        if (read->from >= 0 && read->plain && !read->memory && !g->nodes[read->from].call) {
            const Node *from = &g->nodes[read->from];
            bool alone = !from->stored && from->users == r && read->next < 0;
            list[(*count)++] = (Candidate){
                .gain = alone ? 2 * from->bytes : from->bytes, .a = r, .b = -1};
        }
    }
    return sorted(list, *count);
}

/* Readers of one view save loading it twice, readers of different parts of a value a launch. */
static Candidate *
siblings(Groups *g, int *count)
{
    Candidate *list = cx_alloc(g->cx, ((size_t)g->nreads + 1) * sizeof *list);
    for (int r = 0; r < g->nreads; r++) {
        const Read *read = &g->reads[r];
        if (read->memory) {
            continue;
        }
        int same = read->at ? next_sibling(g, r, true) : -1;
        int next = same >= 0 ? same : next_sibling(g, r, false);
        int64_t gain = same >= 0 ? type_typical_bytes(g->cx, read->at->type) : 0;
        if (next >= 0) {
            list[(*count)++] = (Candidate){.gain = gain, .a = r, .b = next};
        }
    }
    return sorted(list, *count);
}

/* One round over the candidates; those that failed stay for the next.  Returns how many joined. */
static int
join_round(Groups *g, Candidate *list, int *count)
{
    int joined = 0, kept = 0;
    for (int k = 0; k < *count; k++) {
        const Candidate *c = &list[k];
        const Read *ra = &g->reads[c->a], *rb = c->b >= 0 ? &g->reads[c->b] : NULL;
        int a = group_find(g, rb ? ra->to : ra->from), b = group_find(g, rb ? rb->to : ra->to);
        if (a == b) {
            continue;
        }
        if (rb ? join_sibling(g, ra, rb) : join_producer(g, a, b)) {
            joined++;
        } else {
            list[kept++] = *c;
        }
    }
    *count = kept;
    return joined;
}

/* ---- producers that do not align ---- */

/* How often p would be computed inside c. *bytes: the traffic that this saves; -1: c reads p in
 * memory. */
static double
times_inside(Groups *g, int p, int c, double *bytes)
{
    /* one_loop: in the loop of a cat that makes its parts together */
    double times = 0, one_loop = 0;
    *bytes = 0;
    for (int k = p; k >= 0; k = g->nodes[k].next) {
        const Node *node = &g->nodes[k];
        bool leaves = false;
        for (int r = node->users; r >= 0; r = g->reads[r].next) {
            const Read *read = &g->reads[r];
            if (group_find(g, read->to) != c) {
                continue;
            }
            if (read->memory) {
                return -1;
            }
            double made = (double)(node->numel ? node->numel : 1);
            double here = g->nodes[read->to].times * (double)read->numel / made;
            bool interleaved = let_interleaves(g->cx, g->nodes[read->to].let);
            times += interleaved ? 0 : here;
            one_loop = interleaved && here > one_loop ? here : one_loop;
            *bytes += (double)node->bytes * (leaves ? 1 : 2);
            leaves = true;
        }
    }
    return times + one_loop;
}

/* Does the cat replace a part of a value: is one of its operands a slice of a value of the cat's
 * type, at the same position? */
static bool
replaces_part(Cx *cx, const Let *cat)
{
    int64_t axis = let_int(cat, "axis");
    Dim at = dim_int(cx, 0);
    for (int k = 0; k < cat->nargs; k++) {
        const Let *slice = cat->args[k]->def;
        if (slice && slice->op == OP_slice && let_int(slice, "axis") == axis &&
            let_dim(slice, "start") == at && dim_is(cx, let_dim(slice, "step"), 1) &&
            slice->args[0]->type == cat->res[0]->type) {
            return true;
        }
        at = dim_add(cx, at, cat->args[k]->type->dims[axis]);
    }
    return false;
}

/* Are the loops of a cat or pad cut into pieces?  An interleaving cat is made in one loop, which
 * cannot be cut.  But a replaced column is a piece, which alone may be stored (in_place.c). */
static bool
is_cut(Groups *g, const Node *node)
{
    return node->joins && (!let_interleaves(g->cx, node->let) || replaces_part(g->cx, node->let));
}

/* Are c's cats and pads the only readers in c of the node's value, as their operands?  Then the
 * node's pieces are inside one of theirs. taken: the number of cats and pads that read it. */
static bool
is_inside_pieces(Groups *g, const Node *node, int c, int *taken)
{
    bool good = !node->joins || is_cut(g, node);
    for (int r = node->users; r >= 0 && good; r = g->reads[r].next) {
        const Read *read = &g->reads[r];
        if (group_find(g, read->to) == c) {
            good = is_cut(g, &g->nodes[read->to]) && read->direct;
            *taken += 1;
        }
    }
    return good;
}

/* The pieces that c's loops would be cut into more for p's; -1: they cannot be. */
static int
pieces_inside(Groups *g, int p, int c)
{
    int taken = 0;
    bool good = true;
    for (int k = g->nodes[p].pieces ? p : -1; k >= 0 && good; k = g->nodes[k].next) {
        good = is_inside_pieces(g, &g->nodes[k], c, &taken);
    }
    return good ? taken * g->nodes[p].pieces : -1;
}

static bool
may_be_inside(Groups *g, int p, int c)
{
    bool scans = g->nodes[p].scan >= 0 && g->nodes[c].scan >= 0;
    int pieces = pieces_inside(g, p, c);
    return may_enter(g, p, c) && g->nodes[p].red < 0 && !g->nodes[p].contracts && pieces >= 0 &&
           (!pieces || pieces + g->nodes[c].pieces <= COST_PIECES) && !scans &&
           !is_narrow_scan(g, p, c) && !is_narrow_scan(g, c, p) && !leaves_nontemporal(g, p, c);
}

/* Moves p into c, to be computed wherever c wants it, when c alone wants it and that is cheaper. */
static bool
join_inside(Groups *g, int p, int c)
{
    double bytes, times = may_be_inside(g, p, c) ? times_inside(g, p, c, &bytes) : -1;
    if (times < 0) {
        return false;
    }
    double saved = cost_traffic(bytes) + COST_LAUNCH + work_of(g, c) / COST_SHARE;
    if (work_of(g, p) * (times - 1) > saved || !fuel_spend(g->cx)) {
        return false;
    }
    for (int k = p; k >= 0; k = g->nodes[k].next) {
        g->nodes[k].hidden = true;
        g->nodes[k].times *= times;
    }
    int domain = g->nodes[c].domain;
    g->nodes[p].pieces = pieces_inside(g, p, c);
    group_join(g, p, c);
    g->nodes[group_find(g, c)].domain = domain;
    return true;
}

static int
join_inside_round(Groups *g)
{
    int joined = 0;
    for (int r = g->nreads - 1; r >= 0; r--) {
        const Read *read = &g->reads[r];
        if (read->from >= 0 && !read->memory) {
            int p = group_find(g, read->from), c = group_find(g, read->to);
            joined += p != c && join_inside(g, p, c);
        }
    }
    return joined;
}

/* Joins groups.  Siblings come last: a producer inside its reader saves more than one beside
 * another reader of its operands. */
static void
group(Groups *g)
{
    int nproducers = 0, nsiblings = 0;
    Candidate *up = producers(g, &nproducers), *shared = siblings(g, &nsiblings);
    do {
        while (join_round(g, up, &nproducers) || join_inside_round(g)) {
        }
    } while (join_round(g, shared, &nsiblings));
}

Fn *
pass_fuse(Fn *fn)
{
    Groups *g = groups_new(fn);
    recompute_columns(g);
    group(g);
    rows_join(g);
    pads_join(g);
    recompute(g);
    return outline(g);
}
