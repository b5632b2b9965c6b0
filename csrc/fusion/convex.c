/* Convex groups: which two groups may become one.
 *
 * A kernel runs as a whole, so groups must stay a directed acyclic graph: a and b may join when no
 * path leads from one to the other through a third.  Groups carry a topological number.  A path
 * from a to b visits only numbers between theirs, so the search is pruned to that window; after a
 * join, only groups found in the window are renumbered.  This is the dynamic topological sort of
 * Pearce and Kelly (ACM JEA 11, 2006), with contraction instead of insertion.  A join costs the
 * reads of the groups searched: near constant for the sequences and fan-outs that graphs are made
 * of, and bounded by the size of groups and of the window else.
 *
 * Why not a matrix of reachability: it is quadratic in memory, and a join rewrites its columns.
 */
#include "group.h"

#include <stdlib.h>

static int
find(int *parent, int k)
{
    while (parent[k] != k) {
        parent[k] = parent[parent[k]];
        k = parent[k];
    }
    return k;
}

int
axis_find(Groups *g, int axis)
{
    return find(g->axes, axis);
}

int
group_find(Groups *g, int k)
{
    Node *nodes = g->nodes;
    while (nodes[k].parent != k) {
        nodes[k].parent = nodes[nodes[k].parent].parent;
        k = nodes[k].parent;
    }
    return k;
}

bool
node_leaves(Groups *g, int node)
{
    bool leaves = g->nodes[node].stored;
    for (int r = g->nodes[node].users; r >= 0 && !leaves; r = g->reads[r].next) {
        leaves = !g->reads[r].copied && !g->reads[r].order &&
                 group_find(g, g->reads[r].to) != group_find(g, node);
    }
    return leaves;
}

/* A search in progress: everything reachable from `start` in one direction, within the window. */
typedef struct {
    Groups *g;
    bool forward;
    int start, goal;            /* direct edges start -> goal are not followed */
    int limit;                  /* the goal's number */
    int *found, nfound, depth;
    bool reached;
} Search;

static void
visit(Search *s, int from, int group)
{
    Groups *g = s->g;
    if (group == s->goal) {
        s->reached |= from != s->start;
        return;
    }
    int order = g->nodes[group].order;
    bool within = s->forward ? order < s->limit : order > s->limit;
    if (within && group != s->start && g->seen[group] != g->stamp) {
        g->seen[group] = g->stamp;
        s->found[s->nfound++] = group;
        g->stack[s->depth++] = group;
    }
}

static void
expand(Search *s, int group)
{
    Groups *g = s->g;
    for (int k = group; k >= 0 && !s->reached; k = g->nodes[k].next) {
        const Node *node = &g->nodes[k];
        if (s->forward) {
            for (int r = node->users; r >= 0; r = g->reads[r].next) {
                visit(s, group, group_find(g, g->reads[r].to));
            }
            continue;
        }
        for (int r = node->reads; r < node->reads + node->nreads; r++) {
            if (g->reads[r].from >= 0) {
                visit(s, group, group_find(g, g->reads[r].from));
            }
        }
    }
}

/* Fills s->found; false when the goal was reached by a path of more than one edge. */
static bool
search(Search *s)
{
    Groups *g = s->g;
    g->stamp++;
    s->limit = g->nodes[s->goal].order;
    expand(s, s->start);
    while (s->depth && !s->reached) {
        expand(s, g->stack[--s->depth]);
    }
    return !s->reached;
}

static int
compare_int(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Sorts groups by number (the lists are short), and their numbers into `pool`. */
static void
sort_groups(Groups *g, int *groups, int n)
{
    int *pairs = cx_alloc(g->cx, ((size_t)n + 1) * 2 * sizeof *pairs);
    for (int k = 0; k < n; k++) {
        pairs[2 * k] = g->nodes[groups[k]].order;
        pairs[2 * k + 1] = groups[k];
    }
    qsort(pairs, (size_t)n, 2 * sizeof *pairs, compare_int);
    for (int k = 0; k < n; k++) {
        groups[k] = pairs[2 * k + 1];
    }
}

/* Renumbers: first the groups that b needs, then a and b, then the groups that need a.  They share
 * the numbers that they had. */
static void
renumber(Groups *g, int a, int b, int nahead, int nbehind)
{
    int n = 0, *numbers = cx_alloc(g->cx, ((size_t)nahead + (size_t)nbehind + 2) * sizeof *numbers);
    sort_groups(g, g->ahead, nahead);
    sort_groups(g, g->behind, nbehind);
    for (int k = 0; k < nahead; k++) {
        numbers[n++] = g->nodes[g->ahead[k]].order;
    }
    for (int k = 0; k < nbehind; k++) {
        numbers[n++] = g->nodes[g->behind[k]].order;
    }
    numbers[n++] = g->nodes[a].order;
    numbers[n++] = g->nodes[b].order;
    qsort(numbers, (size_t)n, sizeof *numbers, compare_int);
    n = 0;
    for (int k = 0; k < nbehind; k++) {
        g->nodes[g->behind[k]].order = numbers[n++];
    }
    g->nodes[a].order = numbers[n++];
    g->nodes[b].order = numbers[n++];
    for (int k = 0; k < nahead; k++) {
        g->nodes[g->ahead[k]].order = numbers[n++];
    }
}

static void
unite(Groups *g, int a, int b)
{
    Node *to = &g->nodes[b], *from = &g->nodes[a];
    from->parent = b;
    g->nodes[to->tail].next = a;
    to->tail = from->tail;
    to->members += from->members;
    to->has_call |= from->has_call;
    to->pieces += from->pieces;
    to->closed |= from->closed;
    to->contracts += from->contracts;
    to->other |= from->other;
    to->made = to->made > from->made ? to->made : from->made;
    to->red = to->red >= 0 ? to->red : from->red;
    to->scan = to->scan >= 0 ? to->scan : from->scan;
}

bool
group_join(Groups *g, int a, int b)
{
    if (g->nodes[a].order > g->nodes[b].order) {
        int swap = a;
        a = b, b = swap;
    }
    Search ahead = {.g = g, .forward = true, .start = a, .goal = b, .found = g->ahead};
    if (!search(&ahead)) {
        return false;
    }
    if (ahead.nfound) {
        Search behind = {.g = g, .start = b, .goal = a, .found = g->behind};
        search(&behind);
        renumber(g, a, b, ahead.nfound, behind.nfound);
    }
    unite(g, a, b);
    return true;
}
