/* Segments: a cut that computes the forward again piece by piece.
 *
 * What:     the forward is cut at checkpoints into segments.  Of the last segment the values of the
 *           cheapest cut are saved, of the others only what is alive at the checkpoints; the
 *           backward computes a segment again when it comes to it.
 * Requires  a share above 0;
 * and ensures: at most share * B bytes are alive at once, estimated, where the cheapest cut saves
 *           B; the least that checkpoints reach, if that is more.
 * How:      while the backward is in a segment there are the checkpoints up to its begin, the
 *           gradients made before, what the cheapest cut saves in the segment, and what products
 *           of both passes read: made for the forward's, it stays for the backward's.  Places are
 *           chosen from the begin on, for each the cheapest set of checkpoints before it; the
 *           first from which on all can be saved is the last checkpoint, so that the least is
 *           computed again.  Of each part of the saved bytes the place where fewest are alive is
 *           looked at.  Quadratic in these places, linear in lets for each.  (Chen et al.,
 *           Training deep nets with sublinear memory cost, 2016.)
 * Why not   equal segments: there are the fewer checkpoints the nearer the backward is to its end,
 *           so that the earlier segments may be longer.
 * Example:  12 equal layers, 6 values at once: the checkpoints after 6 and 10; of the last 2 layers
 *           nothing, of the others 8 are computed again.
 */
#include "partition.h"

#include <string.h>

enum { PLACES = 64, SHARES = 64 }; /* how finely is searched */

typedef struct {
    int at;                     /* before this let */
    int64_t alive; /* bytes of values made before that lets of the forward read after */
    int64_t saved;              /* of values made before, bytes that the cheapest cut saves, */
    int64_t again;              /* and bytes that are stored if these are computed again */
    int64_t gradients; /* results of the backward that are there when it comes here */
} Place;

typedef struct {
    Cutter *c;
    int n; /* lets */
    int *made, *last; /* by Value.id: the let that makes it, -1; the last that reads it */
    int64_t *bytes; /* ...: of keeping it; 0: nothing is kept for it, FLOW_INF: it cannot be kept */
    Place *places; /* those that may be checkpoints, between the begin and the end */
    int nplaces;
    int64_t *between; /* [k * nplaces + i]: bytes alive at place k that were not alive at place i */
} Segments;

/* Does the let make a value that the forward needs? */
static bool
is_forward(const Cutter *c, const Let *let)
{
    bool is = false;
    for (int k = 0; k < let->nres; k++) {
        is |= c->forward[let->res[k]->id] && !c->late[let->res[k]->id];
    }
    return is;
}

static void
read_at(Segments *s, const Value *v, int at)
{
    int *last = &s->last[root_of(v)->id];
    *last = at > *last ? at : *last;
}

static void
find_lives(Segments *s)
{
    const Cutter *c = s->c;
    size_t room = (size_t)c->fn->nvalues + 1;
    s->made = cx_alloc(c->cx, room * sizeof *s->made);
    s->last = cx_alloc(c->cx, room * sizeof *s->last);
    memset(s->made, -1, room * sizeof *s->made);
    memset(s->last, -1, room * sizeof *s->last);
    for (int k = 0; k < s->n; k++) {
        const Let *let = c->fn->body->lets[k];
        bool forward = is_forward(c, let);
        for (int j = 0; j < let->nres; j++) {
            s->made[let->res[j]->id] = k;
        }
        for (int j = 0; j < let->nargs && forward; j++) {
            if (!value_is_const(let->args[j])) {
                read_at(s, let->args[j], k);
            }
        }
    }
    for (int k = 0; k < c->rules->nneeds; k++) {
        const Need *need = &c->rules->needs[k];
        if (need->user->def && is_forward(c, need->user->def)) {
            read_at(s, need->used, s->made[need->user->id]);
        }
    }
}

/* Finds the bytes of values.  A value made from parameters only, such as a mask, need not be kept
 * if it has no name. */
static void
find_bytes(Segments *s)
{
    const Cutter *c = s->c;
    size_t room = (size_t)c->fn->nvalues + 1;
    bool *free = cx_alloc(c->cx, room);
    s->bytes = cx_alloc(c->cx, room * sizeof *s->bytes);
    for (int k = 0; k < c->fn->nparams; k++) {
        free[c->fn->params[k]->id] = true;
    }
    for (int k = 0; k < s->n; k++) {
        const Let *let = c->fn->body->lets[k];
        bool all = true;
        for (int j = 0; j < let->nargs; j++) {
            all &= value_is_const(let->args[j]) || free[let->args[j]->id];
        }
        for (int j = 0; j < let->nres; j++) {
            const Value *v = let->res[j];
            bool kept = save_cost(c, v) < FLOW_INF;
            free[v->id] = all && !let_is_opaque(let);
            s->bytes[v->id] = is_given(v) || root_of(v) != v ? 0
                              : kept                         ? value_bytes(c, v)
                              : free[v->id]                  ? 0
                                                             : FLOW_INF;
        }
    }
}

/* By the preceding let: bytes that products of both passes read and that the cheapest cut does not
 * save. */
static void
find_again(const Segments *s, const Cut *all, int64_t *again)
{
    const Cutter *c = s->c;
    enum { HAS_EARLY = 1, HAS_LATE = 2, HAS_SAVED = 4 };
    char *read = cx_alloc(c->cx, (size_t)c->fn->nvalues + 1);
    for (int k = 0; k < all->nsaved; k++) {
        read[all->saved[k]->id] |= HAS_SAVED;
    }
    for (int k = 0; k < s->n; k++) {
        const Let *let = c->fn->body->lets[k];
        bool product = let->op == OP_contract || let_is_opaque(let);
        for (int j = 0; j < let->nargs && product; j++) {
            if (!value_is_const(let->args[j])) {
                read[root_of(let->args[j])->id] |= is_late(c, let) ? HAS_LATE : HAS_EARLY;
            }
        }
    }
    for (int k = 0; k < s->n; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            const Value *v = let->res[j];
            bool stays = read[v->id] == (HAS_EARLY | HAS_LATE) && s->bytes[v->id] < FLOW_INF;
            again[k + 1] += stays ? s->bytes[v->id] : 0;
        }
    }
}

/* By let: bytes that are alive before it, FLOW_INF if some cannot be kept; and among the values
 * made before it, the bytes that the cheapest cut saves, and those that are stored if these are
 * computed again. */
static void
measure(const Segments *s, const Cut *all, int64_t *alive, int64_t *saved, int64_t *again)
{
    const Cutter *c = s->c;
    int *barred = cx_alloc(c->cx, ((size_t)s->n + 2) * sizeof *barred);
    for (int k = 0; k < s->n; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; j < let->nres && is_forward(c, let); j++) {
            const Value *v = let->res[j];
            int64_t bytes = s->bytes[v->id];
            bool bars = bytes >= FLOW_INF;
            if (s->last[v->id] > k) {
                alive[k + 1] += bars ? 0 : bytes;
                alive[s->last[v->id] + 1] -= bars ? 0 : bytes;
                barred[k + 1] += bars;
                barred[s->last[v->id] + 1] -= bars;
            }
        }
    }
    for (int k = 1; k <= s->n; k++) {
        alive[k] += alive[k - 1];
        barred[k] += barred[k - 1];
    }
    for (int k = 0; k <= s->n; k++) {
        alive[k] = barred[k] ? FLOW_INF : alive[k];
    }
    for (int k = 0; k < all->nsaved; k++) {
        const Value *v = all->saved[k];
        saved[v->def ? s->made[v->id] + 1 : 0] += v->def ? value_bytes(c, v) : 0;
    }
    find_again(s, all, again);
    for (int k = 0; k <= s->n; k++) {
        again[k] += saved[k];
    }
    for (int k = 1; k <= s->n; k++) {
        saved[k] += saved[k - 1];
        again[k] += again[k - 1];
    }
}

/* By let: bytes of the backward's results that are made before the backward first reads a value
 * that the cheapest cut saves and that is made before the let. */
static void
find_gradients(const Segments *s, const Cut *all, int64_t *gradients)
{
    const Cutter *c = s->c;
    int64_t *by = cx_alloc(c->cx, ((size_t)s->n + 2) * sizeof *by);
    int *user = cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * sizeof *user);
    for (int k = c->rules->nforward; k < c->fn->body->nrets; k++) {
        const Value *v = c->fn->body->rets[k];
        if (!value_is_const(v) && s->made[v->id] >= 0) {
            by[s->made[v->id] + 1] += value_bytes(c, v);
        }
    }
    for (int k = 1; k <= s->n; k++) {
        by[k] += by[k - 1];
    }
    int late = 0;
    while (late < s->n && !is_late(c, c->fn->body->lets[late])) {
        late++;
    }
    for (int k = s->n - 1; k >= late; k--) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            if (!value_is_const(let->args[j])) {
                user[let->args[j]->id] = k + 1;
            }
        }
    }
    for (int k = 0; k <= s->n; k++) {
        gradients[k] = s->n;
    }
    for (int k = 0; k < all->nsaved; k++) {
        const Value *v = all->saved[k];
        int64_t *first = &gradients[v->def ? s->made[v->id] + 1 : 0];
        if (user[v->id] && user[v->id] - 1 < *first) {
            *first = user[v->id] - 1;
        }
    }
    for (int k = 1; k <= s->n; k++) {
        gradients[k] = gradients[k - 1] < gradients[k] ? gradients[k - 1] : gradients[k];
    }
    for (int k = 0; k <= s->n; k++) {
        gradients[k] = by[gradients[k]];
    }
}

/* Finds, for each part of the saved bytes, the place where the fewest bytes are alive. */
static void
find_places(Segments *s, const Cut *all)
{
    Cx *cx = s->c->cx;
    size_t room = (size_t)s->n + 2;
    int64_t *alive = cx_alloc(cx, room * sizeof *alive),
            *saved = cx_alloc(cx, room * sizeof *saved),
            *again = cx_alloc(cx, room * sizeof *again),
            *gradients = cx_alloc(cx, room * sizeof *gradients);
    int part = -1;
    measure(s, all, alive, saved, again);
    find_gradients(s, all, gradients);
    s->places = cx_alloc(cx, (PLACES + 2) * sizeof *s->places);
    s->places[s->nplaces++] = (Place){.gradients = gradients[0]};
    for (int k = 1; k < s->n; k++) {
        Place place = {k, alive[k], saved[k], again[k], gradients[k]};
        int in = (int)((double)saved[k] / (double)(all->bytes + 1) * PLACES);
        if (place.alive >= FLOW_INF || saved[k] == 0 || saved[k] == saved[s->n] ||
            !is_forward(s->c, s->c->fn->body->lets[k])) {
            continue;
        }
        if (in != part) {
            s->places[s->nplaces++] = place;
        } else if (place.alive < s->places[s->nplaces - 1].alive) {
            s->places[s->nplaces - 1] = place;
        }
        part = in;
    }
    s->places[s->nplaces++] = (Place){s->n, 0, saved[s->n], again[s->n], 0};
}

static bool
is_alive(const Segments *s, const Value *v, const Place *place)
{
    int made = s->made[v->id];
    return made >= 0 && made < place->at && s->last[v->id] >= place->at && s->bytes[v->id];
}

static void
find_between(Segments *s)
{
    const Cutter *c = s->c;
    int n = s->nplaces;
    s->between = cx_alloc(c->cx, (size_t)(n * n) * sizeof *s->between);
    for (int k = 0; k < s->n; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; j < let->nres && is_forward(c, let); j++) {
            const Value *v = let->res[j];
            for (int at = 1; at < n - 1; at++) {
                bool alive = is_alive(s, v, &s->places[at]);
                for (int i = 0; alive && i < at && s->places[i].at <= k; i++) {
                    s->between[at * n + i] += value_bytes(c, v);
                }
            }
        }
    }
}

/* The last checkpoint with at most `most` bytes at once, 0: there is none; `before`: the one before
 * each. -1: it cannot be. */
static int
choose(const Segments *s, int64_t most, int *before)
{
    int64_t held[PLACES + 2];
    int n = s->nplaces;
    for (int k = 0; k < n; k++) {
        const Place *to = &s->places[k];
        held[k] = k ? FLOW_INF : 0;
        for (int i = 0; i < k; i++) {
            const Place *from = &s->places[i];
            int64_t made = k == n - 1 ? to->saved - from->saved : to->again - from->again;
            bool fits = held[i] < FLOW_INF && held[i] + made + to->gradients <= most;
            if (fits && k == n - 1) {
                return i;
            }
            int64_t with = held[i] + s->between[k * n + i];
            if (fits && with < held[k]) {
                held[k] = with;
                before[k] = i;
            }
        }
    }
    return -1;
}

/* Values alive at a checkpoint are kept; all others made before the last one get a high cost. */
static void
mark(const Segments *s, int last, const int *before)
{
    Cutter *c = s->c;
    for (int k = 0; k < s->places[last].at; k++) {
        const Let *let = c->fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            const Value *v = let->res[j];
            c->dear[v->id] = true;
            for (int at = last; at > 0; at = before[at]) {
                c->once[v->id] |= is_alive(s, v, &s->places[at]);
            }
        }
    }
}

Cut *
cut_in_segments(Cutter *c, const bool *again, double share)
{
    Cut *all = cut_at(c, again);
    Segments s = {.c = c, .n = c->fn->body->n};
    int before[PLACES + 2], last = -1;
    find_lives(&s);
    find_bytes(&s);
    find_places(&s, all);
    find_between(&s);
    int64_t most = (int64_t)((double)all->bytes * share), step = all->bytes / SHARES + 1;
    for (int k = 0; k <= 2 * SHARES && last < 0; k++, most += step) {
        last = choose(&s, most, before);
    }
    if (last <= 0) {
        return all;
    }
    c->dear = cx_alloc(c->cx, ((size_t)c->fn->nvalues + 1) * sizeof *c->dear);
    mark(&s, last, before);
    return cut_at(c, again);
}
