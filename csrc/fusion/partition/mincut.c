/* Maximum flow by blocking flows: the cut that partition.c asks for.
 *
 * What:     flow_run finds a maximum flow from source to sink, flow_cut the minimum cut nearest to
 *           the sink.
 * Requires  n nodes, edges with capacities from 0 to FLOW_INF;
 * and ensures: the same cut for the same edges in the same order; no recursion, so that depth is no
 *           matter.
 * How:      Dinic.  A phase measures the distances to the sink in what capacity is left, breadth
 *           first, then saturates every shortest path, depth first, never entering a dead end
 *           twice. Distances grow from phase to phase: O(n) phases of O(n * edges) at most, O(edges
 *           * sqrt(n)) in all where every node lets one unit through.  A path found costs its
 *           length; in the graphs of models phases are few and paths short, and the whole is about
 *           linear. (E. A. Dinic, Algorithm for solution of a problem of maximum flow in networks
 *           with power estimation, 1970.)
 * Why not   push and relabel: better in the worst case, but its heuristics are most of its code,
 *           and the worst case does not come.
 * Example:  source -5-> a -3-> b -9-> sink, and a -1-> sink: flow 4, cut {a-b, a-sink}.
 */
#include "mincut.h"

#include <string.h>

typedef struct {
    int to, next;               /* next edge of the same tail, -1 */
    int64_t left;               /* capacity that is left; FLOW_INF never becomes less */
} Edge;

struct Flow {
    Cx *cx;
    int n, nedges;
    Edge *edges;                /* edge e ^ 1 is e backwards */
    int *head;                  /* by node: its first edge, -1 */
    int *distance;              /* by node: to the sink, -1 where there is no way or a dead end */
    int *arc;                   /* by node: the edge to try next */
    int *list;                  /* a queue of nodes, or a path of edges */
    int64_t flow;
};

Flow *
flow_new(Cx *cx, int n)
{
    Flow *f = cx_alloc(cx, sizeof *f);
    size_t bytes = (size_t)(n + 1) * sizeof(int);
    *f = (Flow){
        .cx = cx,
        .n = n,
        .head = cx_alloc(cx, bytes),
        .distance = cx_alloc(cx, bytes),
        .arc = cx_alloc(cx, bytes),
        .list = cx_alloc(cx, bytes),
    };
    memset(f->head, -1, bytes);
    return f;
}

static void
add_edge(Flow *f, int from, int to, int64_t capacity)
{
    f->edges = cx_grow(f->cx, f->edges, f->nedges, sizeof *f->edges);
    f->edges[f->nedges] = (Edge){to, f->head[from], capacity};
    f->head[from] = f->nedges++;
}

void
flow_edge(Flow *f, int from, int to, int64_t capacity)
{
    add_edge(f, from, to, capacity < 0 ? 0 : capacity > FLOW_INF ? FLOW_INF : capacity);
    add_edge(f, to, from, 0);
}

/* The distances to the sink in the capacity that is left, up to the source's.  False: it has
 * none. */
static bool
measure(Flow *f)
{
    int from = 0, to = 0;
    memset(f->distance, -1, (size_t)f->n * sizeof *f->distance);
    f->distance[FLOW_SINK] = 0;
    f->list[to++] = FLOW_SINK;
    while (from < to && f->distance[FLOW_SOURCE] < 0) {
        int v = f->list[from++];
        for (int e = f->head[v]; e >= 0; e = f->edges[e].next) {
            int u = f->edges[e].to;
            if (f->distance[u] < 0 && f->edges[e ^ 1].left > 0) {
                f->distance[u] = f->distance[v] + 1;
                f->list[to++] = u;
            }
        }
    }
    return f->distance[FLOW_SOURCE] >= 0;
}

/* An edge from v one step nearer to the sink, or -1. */
static int
step(Flow *f, int v)
{
    for (int e = f->arc[v]; e >= 0; e = f->edges[e].next) {
        int u = f->edges[e].to;
        if (f->edges[e].left > 0 && f->distance[u] >= 0 && f->distance[u] < f->distance[v]) {
            return f->arc[v] = e;
        }
    }
    return f->arc[v] = -1;
}

/* Sends along the path as much as it allows.  Returns the length that remains of it: up to the tail
 * of the first edge that is now full. */
static int
send(Flow *f, int length)
{
    int64_t amount = FLOW_INF;
    int keep = 0;
    for (int k = length - 1; k >= 0; k--) {
        if (f->edges[f->list[k]].left <= amount) {
            amount = f->edges[f->list[k]].left;
            keep = k;
        }
    }
    f->flow += amount;
    for (int k = 0; k < length && amount < FLOW_INF; k++) {
        Edge *e = &f->edges[f->list[k]], *back = &f->edges[f->list[k] ^ 1];
        e->left -= e->left < FLOW_INF ? amount : 0;
        back->left += back->left < FLOW_INF ? amount : 0;
    }
    return keep;
}

static int
end_of(const Flow *f, int length)
{
    return length ? f->edges[f->list[length - 1]].to : FLOW_SOURCE;
}

/* Finds a blocking flow: afterwards each shortest path has a full edge. */
static void
block(Flow *f)
{
    int length = 0;
    memcpy(f->arc, f->head, (size_t)f->n * sizeof *f->arc);
    while (f->flow < FLOW_INF) {
        int v = end_of(f, length);
        int e = v == FLOW_SINK ? -1 : step(f, v);
        if (v == FLOW_SINK) {
            length = send(f, length);
        } else if (e >= 0) {
            f->list[length++] = e;
        } else if (length == 0) {
            return;
        } else {
            f->distance[v] = -1;
            length--;
        }
    }
}

int64_t
flow_run(Flow *f)
{
    while (f->flow < FLOW_INF && measure(f)) {
        block(f);
    }
    return f->flow;
}

void
flow_cut(Flow *f, bool *sink_side)
{
    measure(f);
    for (int v = 0; v < f->n; v++) {
        sink_side[v] = f->distance[v] >= 0;
    }
}
