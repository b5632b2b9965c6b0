/* Rows: what a contraction's rows are made of, and what is computed of them as a whole.
 *
 * What:     joins a group that makes the rows of a contraction's operand with the contraction's
 *           group.
 * Requires: groups as fuse.c has joined them.
 * Ensures:  the kernel can be cut into blocks of rows: from one contraction to the next, only whole
 *           rows are passed on.
 * How:      The operand of the rows is the one that does not have the last axis of the result.  The
 *           group that makes it is moved if nothing else wants it or what else it makes but numbers
 *           of its rows, if it has pointwise lets, reductions and contractions alone, and if what
 *           it reduces are summed letters.  It must pay: an element that takes many multiplications
 *           to make and to use is stored and loaded for nothing. Operands come before users, so
 *           that one of several is joined whole.
 *           A contraction that adds the sums of groups, each times a number, joins the product of
 *           integers that makes them: in its kernel, the sums of a group stay in registers and
 *           caches.
 * Why not   where two large images are with a small one between: both would be alive at once, and
 *           the small one costs no time in memory (a MobileNet-v2: 6.5 MiB, and 5.7).
 * Why not   copy what makes the rows into each contraction that wants them: a norm would be
 *           computed three times for queries, keys and values, and a launch costs less.
 * Example:  contract (softmax (contract q, k)), v is one kernel, and so is contract (gelu (contract
 *           x, w)), v. */
#include "group.h"

/* ---- rows and columns ---- */

static const Node *
contraction_of(Groups *g, int group)
{
    const Node *found = NULL;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        const Node *node = &g->nodes[k];
        found = node->let->op == OP_contract && !node->hidden ? node : found;
    }
    return found;
}

/* Does it compute its columns of codes?  Blocks of rows would each compute them anew. */
static bool
has_codes(Groups *g, const Node *node)
{
    bool codes = false;
    for (int r = node->reads; r < node->reads + node->nreads; r++) {
        codes |= g->reads[r].copied;
    }
    return codes;
}

/* The operand that has only the last axis of the result, the operand of the columns; -1: there is
 * none, for example if each channel has its own product and vectors run along the channels. */
static int
column_operand(Groups *g, const Node *node)
{
    const Contraction *c = let_contraction(node->let);
    int operand = -1;
    for (int k = 0; k < c->nout; k++) {
        LetterClass class = letter_class(c, c->out[k]);
        if (node_axis(g, node, k) >= 0) {
            operand = class == LETTER_OF_BOTH ? -1 : class == LETTER_OF_B;
        }
    }
    return operand;
}

/* Are there enough blocks of rows to cut a kernel into them, whatever their number?  Each batch has
 * its own; a symbolic number of batches counts as enough. usually: there are enough in typical
 * programs; in others threads share fewer blocks. */
static bool
has_blocks(Groups *g, const Node *node, int operand, bool usually)
{
    const Contraction *c = let_contraction(node->let);
    double batches = 1, rows = 1;
    for (int k = 0; k < c->nout; k++) {
        LetterClass class = letter_class(c, c->out[k]);
        int64_t usual = dim_typical(g->cx, node->dims[k]),
                least = usually ? dim_typical_least(g->cx, node->dims[k])
                                : dim_range(g->cx, node->dims[k]).lo;
        batches *= class == LETTER_OF_BOTH && usual > 1 ? (double)usual : 1;
        rows *= class == (operand ? LETTER_OF_A : LETTER_OF_B) && least > 1 ? (double)least : 1;
    }
    return batches * (rows > COST_BLOCK ? rows / COST_BLOCK : 1) >= COST_BLOCKS;
}

/* Returns the number of multiplications for each element of the result. */
static double
depth_of(Groups *g, const Node *node)
{
    const Contraction *c = let_contraction(node->let);
    double depth = 1;
    for (int k = 0; k < c->nsum; k++) {
        Dim n = letter_dim(c, node->let->args[0]->type, node->let->args[1]->type, c->sum[k]);
        depth *= (double)dim_typical(g->cx, n);
    }
    return depth;
}

/* Returns the number of multiplications in which each element of the operand takes part. */
static double
uses_of(Groups *g, const Node *node, int operand)
{
    const Contraction *c = let_contraction(node->let);
    double uses = 1;
    for (int k = 0; k < c->nout; k++) {
        bool own = letter_axis(operand ? c->b : c->a, operand ? c->nb : c->na, c->out[k]) < 0;
        uses *= own ? (double)dim_typical(g->cx, node->dims[k]) : 1;
    }
    return uses;
}

/* Is the axis of the contraction's domain one of its columns? */
static bool
is_column(Groups *g, const Node *node, int axis, int operand)
{
    const Contraction *c = let_contraction(node->let);
    for (int k = 0; k < c->nout; k++) {
        bool own = letter_axis(operand ? c->a : c->b, operand ? c->na : c->nb, c->out[k]) < 0;
        if (node_axis(g, node, k) == axis) {
            return own;
        }
    }
    return false;
}

/* Does each batch have its own column operand?  Then the part that the blocks of a batch read anew
 * is in the second-level cache, while the rows that they pass on have as many elements as there are
 * pairs of rows and columns. */
static bool
is_batched(Groups *g, const Node *node)
{
    const Contraction *c = let_contraction(node->let);
    bool batched = false;
    for (int k = 0; k < c->nout; k++) {
        batched |= letter_class(c, c->out[k]) == LETTER_OF_BOTH && node_axis(g, node, k) >= 0;
    }
    return batched;
}

bool
rows_reduced(Groups *g, int p, int c, const Match *m)
{
    int red = g->nodes[p].red >= 0 ? p : c;
    int of = g->nodes[p].contracts ? p : c;
    const Node *node = contraction_of(g, of);
    int operand = node && !has_codes(g, node) ? column_operand(g, node) : -1;
    if (g->nodes[red].red < 0 || !node) {
        return g->nodes[red].red < 0;
    }
    Domain d = group_domain(g, red);
    bool columns = operand >= 0 && has_blocks(g, node, operand, false) &&
                   (depth_of(g, node) <= COST_PASSED || is_batched(g, node));
    for (int k = 0; k < d.nreduced && columns; k++) {
        int axis = red == of ? d.reduced[k] : -1;
        for (int j = 0; j < m->n && red != of; j++) {
            axis = (red == p ? m->a[j] : m->b[j]) == d.reduced[k] ? (red == p ? m->b[j] : m->a[j])
                                                                  : axis;
        }
        columns = axis >= 0 && is_column(g, node, axis, operand);
    }
    return columns;
}

/* ---- operands ---- */

/* The axis of the reader's domain that the operand's axis runs along, as a letter says; -1: it is
 * summed. */
static int
axis_of_letter(Groups *g, const Node *node, int operand, int ax)
{
    const Contraction *c = let_contraction(node->let);
    int out = letter_axis(c->out, c->nout, (operand ? c->b : c->a)[ax]);
    return out < 0 ? -1 : node_axis(g, node, out);
}

/* Does the read take one number for each row of the operand, at a position where the contraction
 * has the row? */
static bool
reads_rows(Groups *g, const Read *read, const Read *of, const Node *node, int operand)
{
    const Node *from = &g->nodes[read->from], *to = &g->nodes[read->to],
               *made = &g->nodes[of->from];
    bool same = read->plain && !read->memory && !read->order && !to->hidden &&
                of->root == node->let->args[operand];
    for (int k = 0; k < read->root->type->rank && same; k++) {
        int axis = read->axis[k] < 0 ? -1 : node_axis(g, from, from->out[k]), found = axis < 0;
        for (int ax = 0; ax < of->root->type->rank && !found; ax++) {
            found = node_axis(g, made, made->out[ax]) == axis &&
                    axis_of_letter(g, node, operand, ax) == node_axis(g, to, read->axis[k]);
        }
        same = found;
    }
    return same;
}

/* Do only the operand and numbers of its rows leave the group, for the contraction's? */
static bool
leaves_for(Groups *g, int group, const Read *of, const Node *node, int operand)
{
    int c = group_find(g, of->to);
    bool good = true;
    for (int k = group; k >= 0 && good; k = g->nodes[k].next) {
        good = !g->nodes[k].stored;
        for (int r = g->nodes[k].users; r >= 0 && good; r = g->reads[r].next) {
            const Read *read = &g->reads[r];
            int to = group_find(g, read->to);
            good = read == of || (to == group && !read->order) ||
                   (to == c && reads_rows(g, read, of, node, operand));
        }
    }
    return good;
}

/* Are the axes that the group reduces summed letters of the value that is read? */
static bool
reduces_sums(Groups *g, int group, const Read *read, const Let *contract, int operand)
{
    const Contraction *c = let_contraction(contract);
    const char *letters = operand ? c->b : c->a;
    const Node *from = &g->nodes[read->from];
    Domain d = group_domain(g, group);
    bool sums = d.nreduced == 0 || read->root == contract->args[operand];
    for (int k = 0; k < d.nreduced && sums; k++) {
        for (int ax = 0; ax < read->root->type->rank; ax++) {
            bool reduced = node_axis(g, from, from->out[ax]) == d.reduced[k];
            sums &= !reduced || letter_axis(c->sum, c->nsum, letters[ax]) >= 0;
        }
    }
    return sums;
}

/* The bytes of the largest tensor that the group reads from outside. */
static int64_t
largest_read(Groups *g, int group)
{
    int64_t most = 0;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        for (int r = g->nodes[k].reads; r < g->nodes[k].reads + g->nodes[k].nreads; r++) {
            const Read *read = &g->reads[r];
            bool own = read->from >= 0 && group_find(g, read->from) == group;
            int64_t bytes = own || read->order ? 0 : type_typical_bytes(g->cx, read->root->type);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

/* The bytes of the largest value that leaves the group. */
static int64_t
largest_result(Groups *g, int group)
{
    int64_t most = 0;
    for (int k = group; k >= 0; k = g->nodes[k].next) {
        int64_t bytes = node_leaves(g, k) ? g->nodes[k].bytes : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Is the value passed from p to c so much smaller than the operands of p, and than the result of c,
 * that these are better not alive together?  Storing and loading it costs little in comparison. */
static bool
is_neck(Groups *g, int p, int c, const Value *passed)
{
    int64_t in = largest_read(g, p), out = largest_result(g, c);
    return (in < out ? in : out) - type_typical_bytes(g->cx, passed->type) > COST_NECK;
}

static bool
may_join(Groups *g, int p, const Read *read, const Node *node, int operand)
{
    const Node *np = &g->nodes[p], *nc = &g->nodes[group_find(g, read->to)],
               *first = contraction_of(g, p);
    /* rows of the one are rows of the other */
    bool same = !first || read->root == node->let->args[operand];
    double passed = uses_of(g, node, operand) + (first ? depth_of(g, first) : 0);
    bool plain = !np->has_call && !np->closed && !np->other && np->scan < 0 && !np->pieces;
    bool pays = passed <= COST_PASSED || is_batched(g, node);
    return same && plain && !nc->has_call && pays &&
           !(first && is_neck(g, p, group_find(g, read->to), read->root)) &&
           has_blocks(g, node, !operand, first != NULL) &&
           np->contracts + nc->contracts <= COST_CONTRACTIONS &&
           leaves_for(g, p, read, node, operand) && reduces_sums(g, p, read, node->let, operand);
}

/* Joins group p to group c, which keeps its own loops: those of p's values are inside of them. */
static void
join_hidden(Groups *g, int p, int c)
{
    int domain = g->nodes[c].domain, red = g->nodes[c].red;
    for (int k = p; k >= 0; k = g->nodes[k].next) {
        g->nodes[k].hidden = true;
    }
    group_join(g, p, c);
    c = group_find(g, c);
    g->nodes[c].domain = domain;
    g->nodes[c].red = red;
}

static void
join_rows(Groups *g, int contract)
{
    const Node *node = &g->nodes[contract];
    int columns = column_operand(g, node);
    const Read *read = &g->reads[node->reads + (columns == 0)];
    if (columns < 0 || node->nreads != 2 || read->from < 0 || has_codes(g, node)) {
        return;
    }
    int p = group_find(g, read->from), c = group_find(g, contract);
    if (p != c && may_join(g, p, read, node, !columns) && fuel_spend(g->cx)) {
        join_hidden(g, p, c);
    }
}

/* ---- sums of groups ---- */

/* Is the value made by a node for one reader alone?  Returns the node, or -1. */
static int
made_for_one(const Groups *g, const Value *v)
{
    int node = value_is_const(v) ? -1 : g->node_of[v->id];
    bool one = node >= 0 && !g->nodes[node].stored && g->nodes[node].users >= 0 &&
               g->reads[g->nodes[node].users].next < 0;
    return one ? node : -1;
}

/* Joins the product whose sums the contraction adds, if it and the cast are a group of their own.
 */
static void
join_groups(Groups *g, int contract)
{
    const Let *let = g->nodes[contract].let;
    for (int j = 0; j < 2; j++) {
        const Let *cast = contraction_of_groups(g->cx, let, j);
        int from = cast ? made_for_one(g, cast->res[0]) : -1,
            product = cast ? made_for_one(g, cast->args[0]) : -1;
        if (from < 0 || product < 0) {
            continue;
        }
        int p = group_find(g, product), c = group_find(g, contract);
        if (p == group_find(g, from) && p != c && g->nodes[p].members == 2 && fuel_spend(g->cx)) {
            join_hidden(g, p, c);
            return;
        }
    }
}

void
rows_join(Groups *g)
{
    for (int k = 0; k < g->n; k++) {
        if (g->nodes[k].let->op == OP_contract) {
            join_rows(g, k);
            join_groups(g, k);
        }
    }
}
