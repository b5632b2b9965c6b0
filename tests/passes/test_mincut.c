/* Maximum flow against two slow references on random graphs: every cut tried where there are few
 * nodes, single augmenting paths on a matrix elsewhere.  Prints what fails; 0 when nothing does. */
#include "../../csrc/fusion/partition/mincut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, FEW = 11, GRAPHS = 3000 };

static int failures;

#define CHECK(condition)                                                                          \
    ((condition) ? (void)0                                                                        \
                 : (void)(failures++, fprintf(stderr, "%s:%d: %s (graph %d)\n", __FILE__,         \
                                              __LINE__, #condition, graph)))

typedef struct { int n, nedges, from[2000], to[2000]; int64_t capacity[2000]; } Graph;

static int64_t
sum(int64_t a, int64_t b)
{
    return a + b > FLOW_INF ? FLOW_INF : a + b;
}

static int64_t
cut_of(const Graph *g, const bool *sink_side)
{
    int64_t total = 0;
    for (int k = 0; k < g->nedges; k++) {
        if (!sink_side[g->from[k]] && sink_side[g->to[k]]) {
            total = sum(total, g->capacity[k]);
        }
    }
    return total;
}

/* The least cut by trial, with the fewest nodes on the sink's side. */
static int64_t
try_all(const Graph *g, bool *best)
{
    int64_t least = INT64_MAX;
    int fewest = 0;
    for (int mask = 0; mask < 1 << (g->n - 2); mask++) {
        bool side[MOST] = {[FLOW_SINK] = true};
        for (int v = FLOW_FIRST; v < g->n; v++) {
            side[v] = mask >> (v - FLOW_FIRST) & 1;
        }
        int64_t value = cut_of(g, side);
        int count = __builtin_popcount((unsigned)mask);
        if (value < least || (value == least && count < fewest)) {
            least = value;
            fewest = count;
            memcpy(best, side, sizeof side);
        }
    }
    return least;
}

/* A way from v to the sink in the matrix, at least one unit wide; takes what it lets through. */
static int64_t
path(int n, int64_t left[MOST][MOST], int v, int64_t width, bool *seen)
{
    if (v == FLOW_SINK) {
        return width;
    }
    seen[v] = true;
    for (int u = 0; u < n; u++) {
        if (left[v][u] > 0 && !seen[u]) {
            int64_t most = left[v][u] < width ? left[v][u] : width;
            int64_t amount = path(n, left, u, most, seen);
            if (amount > 0) {
                left[v][u] -= left[v][u] < FLOW_INF ? amount : 0;
                left[u][v] = sum(left[u][v], amount);
                return amount;
            }
        }
    }
    return 0;
}

static int64_t
augment(const Graph *g)
{
    static int64_t left[MOST][MOST];
    int64_t flow = 0;
    memset(left, 0, sizeof left);
    for (int k = 0; k < g->nedges; k++) {
        int64_t *at = &left[g->from[k]][g->to[k]];
        *at = sum(*at, g->capacity[k]);
    }
    for (;;) {
        bool seen[MOST] = {false};
        int64_t amount = path(g->n, left, FLOW_SOURCE, FLOW_INF, seen);
        flow = sum(flow, amount);
        if (amount == 0 || flow == FLOW_INF) {
            return flow;
        }
    }
}

/* Any edges, or those of values in order with each split in two, as the partition has them. */
static void
make(Graph *g, int graph)
{
    bool split = rand() % 2;
    int most = graph % 3 ? FEW : MOST;
    *g = (Graph){.n = FLOW_FIRST + rand() % (most - 1)};
    int tries = g->n * (1 + rand() % 4);
    for (int k = 0; k < tries; k++) {
        int from = rand() % g->n, to = rand() % g->n, late = from < to ? to : from;
        if (split && to != FLOW_SINK && from != FLOW_SOURCE) {
            from = from + to - late;
            to = late;
        }
        g->from[g->nedges] = from;
        g->to[g->nedges] = to;
        g->capacity[g->nedges++] = rand() % 5 == 0 ? FLOW_INF : rand() % 4 ? rand() % 20 : 0;
    }
}

static Flow *
flow_of(Cx *cx, const Graph *g)
{
    Flow *f = flow_new(cx, g->n);
    for (int k = 0; k < g->nedges; k++) {
        flow_edge(f, g->from[k], g->to[k], g->capacity[k]);
    }
    return f;
}

static void
test_random(int graph)
{
    static Graph g;
    bool side[MOST], best[MOST];
    make(&g, graph);
    Cx *cx = cx_new();
    Flow *f = flow_of(cx, &g);
    int64_t flow = flow_run(f), slow = g.n <= FEW ? try_all(&g, best) : augment(&g);
    CHECK((flow >= FLOW_INF) == (slow >= FLOW_INF));
    if (flow < FLOW_INF && slow < FLOW_INF) {
        flow_cut(f, side);
        CHECK(flow == slow);
        CHECK(side[FLOW_SINK] && !side[FLOW_SOURCE]);
        CHECK(cut_of(&g, side) == flow);
        CHECK(g.n > FEW || memcmp(side, best, (size_t)g.n) == 0);
    }
    cx_free(cx);
}

/* Edges added after a run: as if they had been there before. */
static void
test_more(int graph)
{
    static Graph g;
    make(&g, graph);
    Cx *cx = cx_new();
    int64_t all = flow_run(flow_of(cx, &g));
    int some = g.nedges / 2, n = g.nedges;
    g.nedges = some;
    Flow *f = flow_of(cx, &g);
    flow_run(f);
    for (int k = some; k < n; k++) {
        flow_edge(f, g.from[k], g.to[k], g.capacity[k]);
    }
    int64_t flow = flow_run(f);
    CHECK(flow == all || (flow >= FLOW_INF && all >= FLOW_INF));
    cx_free(cx);
}

/* A chain so long that recursion would end on it, and a ladder that opens one more way each
 * phase. */
static void
test_long(void)
{
    enum { LENGTH = 200000, RUNGS = 1000 };
    int graph = -1;
    Cx *cx = cx_new();
    Flow *f = flow_new(cx, LENGTH + FLOW_FIRST);
    flow_edge(f, FLOW_SOURCE, FLOW_FIRST, FLOW_INF);
    for (int k = 0; k < LENGTH - 1; k++) {
        flow_edge(f, FLOW_FIRST + k, FLOW_FIRST + k + 1, k == LENGTH / 2 ? 7 : 8);
    }
    flow_edge(f, FLOW_FIRST + LENGTH - 1, FLOW_SINK, FLOW_INF);
    CHECK(flow_run(f) == 7);
    f = flow_new(cx, RUNGS + FLOW_FIRST);
    flow_edge(f, FLOW_SOURCE, FLOW_FIRST, FLOW_INF);
    for (int k = 0; k < RUNGS; k++) {
        flow_edge(f, FLOW_FIRST + k, FLOW_SINK, 1);
        flow_edge(f, FLOW_FIRST + k, k + 1 < RUNGS ? FLOW_FIRST + k + 1 : FLOW_SINK, FLOW_INF / 2);
    }
    CHECK(flow_run(f) == FLOW_INF / 2 + 1);
    cx_free(cx);
}

int
main(void)
{
    srand(1);
    for (int graph = 0; graph < GRAPHS; graph++) {
        test_random(graph);
        test_more(graph);
    }
    test_long();
    return failures != 0;
}
