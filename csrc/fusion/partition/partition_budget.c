/* A memory budget: a cut that saves at most so much.
 *
 * What:     between the cut that costs least (budget 1) and the one that saves the fewest bytes
 *           (budget 0), one that stays below a line between the two.
 * Requires  a budget from 0 to 1;
 * and ensures: the cut saves at most B0 + budget * (B1 - B0) bytes, estimated.
 * How:      the price of a byte is doubled until the cheapest cut is below the line; cuts at rising
 *           prices are the lower hull of all (bytes, cost).  From the last cut above the line, a
 *           knapsack then chooses, among the values that the cut below does not save, those whose
 *           new computation costs least and frees enough; computing them again is forced and the
 *           cut found anew.  The better of the two is taken.  SLOTS * candidates for the knapsack,
 *           and at most DOUBLINGS + TRIES cuts.
 * Why not   a knapsack alone: what one value costs depends on which others are saved.
 *           Where the values of many layers are all dropped, they are all there again when the
 *           backward reaches its end: partition_segments.c keeps some of them instead.
 * Example:  y = exp(erf(x)), z = lgamma(x) of a product x: a half drops what exp needs, and keeps
 *           lgamma's.
 */
#include "partition.h"

#include <string.h>

enum { SLOTS = 1024, TRIES = 4 };

typedef struct {
    const Value *v;
    int64_t bytes, cost;
} Candidate;

int64_t
cost_of(const Cutter *c, const Cut *cut)
{
    int64_t cost = 0;
    for (int k = 0; k < c->nvalues; k++) {
        const Value *v = c->values[k];
        bool again = cut->backward[v->id] && !c->late[v->id] && v->def && may_recompute(c, v);
        cost += again ? recompute_cost(c, v) : 0;
    }
    return cost;
}

/* Lists the values that `above` saves and `below` computes. */
static Candidate *
list_candidates(const Cutter *c, const Cut *above, const Cut *below, int *n)
{
    Candidate *list = cx_alloc(c->cx, ((size_t)above->nsaved + 1) * sizeof *list);
    *n = 0;
    for (int k = 0; k < above->nsaved; k++) {
        const Value *v = above->saved[k];
        if (v->def && may_recompute(c, v) && below->backward[v->id]) {
            list[(*n)++] = (Candidate){v, value_bytes(c, v), recompute_cost(c, v)};
        }
    }
    return list;
}

/* Marks in `again` the cheapest candidates that together have at least `bytes`, in slots of the
 * same size, rounded down.  False: all together have not. */
static bool
choose(const Cutter *c, const Candidate *list, int n, int64_t bytes, bool *again)
{
    int64_t slot = bytes / SLOTS + 1;
    int need = (int)((bytes + slot - 1) / slot);
    size_t room = (size_t)need + 1;
    int64_t *least = cx_alloc(c->cx, room * sizeof *least); /* cost of at least this many slots */
    bool *taken = cx_alloc(c->cx, room * (size_t)(n + 1));
    for (int s = 1; s <= need; s++) {
        least[s] = FLOW_INF;
    }
    for (int k = 0; k < n; k++) {
        int size = list[k].bytes / slot > need ? need : (int)(list[k].bytes / slot);
        for (int s = need; s > 0 && size > 0; s--) {
            int rest = s > size ? s - size : 0;
            if (least[rest] < FLOW_INF && least[rest] + list[k].cost < least[s]) {
                least[s] = least[rest] + list[k].cost;
                taken[room * (size_t)k + (size_t)s] = true;
            }
        }
    }
    for (int k = n - 1, s = need; k >= 0 && least[need] < FLOW_INF; k--) {
        if (taken[room * (size_t)k + (size_t)s]) {
            int64_t size = list[k].bytes / slot;
            again[list[k].v->id] = true;
            s = size < s ? s - (int)size : 0;
        }
    }
    return least[need] < FLOW_INF;
}

/* A cut below the line, which computes some of the values that `above` saves; NULL: there is
 * none. */
static Cut *
cut_below_line(Cutter *c, const bool *again, const Cut *above, const Cut *below, int64_t line)
{
    int n;
    const Candidate *list = list_candidates(c, above, below, &n);
    int64_t missing = above->bytes - line;
    for (int k = 0; k < TRIES; k++, missing += missing / 2) {
        size_t size = (size_t)c->fn->nvalues + 1;
        bool *more = cx_copy(c->cx, again, size);
        if (!choose(c, list, n, missing, more)) {
            return NULL;
        }
        Cut *cut = cut_at(c, more);
        if (cut->bytes <= line) {
            return cut;
        }
    }
    return NULL;
}

Cut *
cut_within(Cutter *c, const bool *again, double budget)
{
    Cut *above = cut_at(c, again), *below = above;
    if (budget >= 1) {
        return above;
    }
    c->price = (int64_t)1 << DOUBLINGS;
    Cut *least = cut_at(c, again);
    int64_t span = above->bytes - least->bytes;
    int64_t line = least->bytes + (int64_t)((double)(span > 0 ? span : 0) * budget);
    int64_t price = 1;
    for (int k = 1; k <= DOUBLINGS && below->bytes > line; k++) {
        above = below;
        price = c->price = (int64_t)1 << k;
        below = k < DOUBLINGS ? cut_at(c, again) : least;
    }
    c->price = price > 1 ? price / 2 : 1;
    Cut *between = below->bytes < line ? cut_below_line(c, again, above, below, line) : NULL;
    return between && cost_of(c, between) < cost_of(c, below) ? between : below;
}
