/* Align: which axes of two groups run along each other.
 *
 * A group has one domain, that of the member `domain`; a union-find over the axes of all nodes
 * holds what has been aligned within it.  A read says which axes of the value run along which of
 * the reader, so all reads between two groups together give a partial one-to-one match of their
 * axes, or none.  A domain fits another when all axes are matched, or when what is left over is
 * what the larger one reduces: then the smaller one lies at the level of its rows.
 */
#include "group.h"

/* ---- domains ---- */

int
node_axis(Groups *g, const Node *node, int ax)
{
    return dim_is(g->cx, node->dims[ax], 1) ? -1 : axis_find(g, node->axis0 + ax);
}

static bool
is_in(const int *set, int n, int x)
{
    for (int k = 0; k < n; k++) {
        if (set[k] == x) {
            return true;
        }
    }
    return false;
}

static void
reduced_of(Groups *g, const Node *red, Domain *out)
{
    const Attr *axes = let_attr(red->let, "axes");
    for (int k = 0; k < axes->n; k++) {
        int axis = node_axis(g, red, axes->axes[k]);
        if (axis >= 0) {
            out->reduced[out->nreduced++] = axis;
        }
    }
    out->rows = dims_typical(g->cx, red->value->type->rank, red->value->type->dims);
}

Domain
group_domain(Groups *g, int group)
{
    const Node *node = &g->nodes[g->nodes[group].domain];
    Domain d = {.most = dims_most(g->cx, node->rank, node->dims)};
    for (int ax = 0; ax < node->rank; ax++) {
        int axis = node_axis(g, node, ax);
        if (axis >= 0) {
            d.axis[d.n++] = axis;
        }
    }
    if (g->nodes[group].red >= 0) {
        reduced_of(g, &g->nodes[g->nodes[group].red], &d);
    }
    return d;
}

/* ---- matching the axes of two groups ---- */

bool
match_add(Match *m, int a, int b)
{
    for (int k = 0; k < m->n; k++) {
        if (m->a[k] == a || m->b[k] == b) {
            return m->a[k] == a && m->b[k] == b;
        }
    }
    if (m->n == MAX_RANK) {
        return false;
    }
    m->a[m->n] = a;
    m->b[m->n++] = b;
    return true;
}

static bool
match_read(Groups *g, const Read *read, Match *m)
{
    const Node *from = &g->nodes[read->from], *to = &g->nodes[read->to];
    if (!read->plain || read->memory || to->hidden) {
        return false;
    }
    for (int k = 0; k < read->root->type->rank; k++) {
        if (read->axis[k] >= 0 &&
            !match_add(m, node_axis(g, from, from->out[k]), node_axis(g, to, read->axis[k]))) {
            return false;
        }
    }
    return true;
}

/* Adds the axis matches that all reads by c from p give; false if these do not align. */
bool
match_reads(Groups *g, int p, int c, Match *m)
{
    if (g->nodes[p].members < g->nodes[c].members) {
        for (int k = p; k >= 0; k = g->nodes[k].next) {
            for (int r = g->nodes[k].users; r >= 0; r = g->reads[r].next) {
                if (group_find(g, g->reads[r].to) == c && !match_read(g, &g->reads[r], m)) {
                    return false;
                }
            }
        }
        return true;
    }
    for (int k = c; k >= 0; k = g->nodes[k].next) {
        for (int r = g->nodes[k].reads; r < g->nodes[k].reads + g->nodes[k].nreads; r++) {
            const Read *read = &g->reads[r];
            if (read->from >= 0 && group_find(g, read->from) == p && !match_read(g, read, m)) {
                return false;
            }
        }
    }
    return true;
}

static bool
same_extent(Groups *g, int a, int b, const Node *na, const Node *nb)
{
    Dim da = DIM_NONE, db = DIM_NONE;
    for (int ax = 0; ax < na->rank; ax++) {
        da = node_axis(g, na, ax) == a ? na->dims[ax] : da;
    }
    for (int ax = 0; ax < nb->rank; ax++) {
        db = node_axis(g, nb, ax) == b ? nb->dims[ax] : db;
    }
    return da == db && da != DIM_NONE;
}

static int
unmatched(const Domain *d, const int *matched, int n, int *out)
{
    int count = 0;
    for (int k = 0; k < d->n; k++) {
        if (!is_in(matched, n, d->axis[k])) {
            out[count++] = d->axis[k];
        }
    }
    return count;
}

static bool
is_reduced(const Domain *d, const int *axes, int n)
{
    if (n != d->nreduced) {
        return false;
    }
    for (int k = 0; k < n; k++) {
        if (!is_in(d->reduced, d->nreduced, axes[k])) {
            return false;
        }
    }
    return true;
}

/* Do both groups reduce, but along different axes? m: axes of p and the same axes of c. */
bool
reduce_other_axes(const Domain *p, const Domain *c, const Match *m)
{
    int mapped[MAX_RANK], n = 0;
    for (int k = 0; k < m->n; k++) {
        if (is_in(p->reduced, p->nreduced, m->a[k])) {
            mapped[n++] = m->b[k];
        }
    }
    return n != p->nreduced || !is_reduced(c, mapped, n);
}

/* Compares the domains: equal, or one group is at the level of the other's rows.  Axes that only
 * one value of each group has (the columns of x and of the row sums of x, expanded) are matched in
 * order. */
Level
match_domains(Groups *g, int p, int c, const Domain *dp, const Domain *dc, Match *m)
{
    bool p_red = g->nodes[p].red >= 0, c_red = g->nodes[c].red >= 0;
    const Node *np = &g->nodes[g->nodes[p].domain], *nc = &g->nodes[g->nodes[c].domain];
    int up[MAX_RANK], uc[MAX_RANK];
    int nup = unmatched(dp, m->a, m->n, up), nuc = unmatched(dc, m->b, m->n, uc);
    if (nup && !nuc) {
        return p_red && !c_red && is_reduced(dp, up, nup) ? LEVEL_CONSUMER_ROW : LEVEL_NONE;
    }
    if (nuc && !nup) {
        return c_red && !p_red && is_reduced(dc, uc, nuc) ? LEVEL_PRODUCER_ROW : LEVEL_NONE;
    }
    if (nup != nuc || (nup && !(p_red && is_reduced(dp, up, nup)))) {
        return LEVEL_NONE;
    }
    for (int k = 0; k < nup; k++) {
        if (!same_extent(g, up[k], uc[k], np, nc) || !match_add(m, up[k], uc[k])) {
            return LEVEL_NONE;
        }
    }
    return p_red && c_red && reduce_other_axes(dp, dc, m) ? LEVEL_NONE : LEVEL_FULL;
}
