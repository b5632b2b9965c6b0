/* Memory in the loops stage.  Results over parameters: is each element of the parameter read before
 * it is stored?  Loops: may an iteration need what another one stores?
 *
 * What:     checks each load of the parameter against the stores to the result that takes its
 *           memory.
 * Requires: the loops stage, where every element of a result is stored once.
 * How:      a load is safe if its own block stores the same element afterwards: nothing else stores
 *           it. Otherwise, for each store: in the deepest block around both the load comes first,
 *           and no other iteration of the loops around that block stores the loaded element.  A
 *           load outside of all phases is done again by each part of a phase, so it comes first
 *           only if one iteration of the last phase stores.  No other iteration stores the element
 *           if the indices that both have along the same axes determine the iteration: an
 *           axis has a loop's index, or a multiple of it and less than that of others, or one has
 *           its remainder and others its quotient.  Or no
 *           iteration stores there at all: along an axis all that is stored is before what is
 *           loaded, or behind it.  For one loop the same is asked of all that it stores.  There
 *           iterations also have different elements if both indices along an axis go along it by
 *           the same step, and what they add to that differs by less.
 * Why not   ranges of the elements that each loop accesses: the rows and columns of reductions need
 *           none.
 * Example:  for i { s = sum of x[i, j] over j;  for j { store y[i, j] = x[i, j] / s } }, y over x.
 */
#include "cx.h"

bool
same_index(const Let *a, const Let *b)
{
    const Attr *x = let_attr(a, "at"), *y = let_attr(b, "at");
    bool same = x->n == y->n;
    for (int k = 0; same && k < x->n; k++) {
        same = x->dims[k] == y->dims[k];
    }
    return same;
}

bool
store_is_idle(const Let *store)
{
    const Value *to = store->args[0], *v = store->args[1];
    const Let *load = value_is_const(v) ? NULL : v->def;
    return store->op == OP_store && to->over && load && load->op == OP_load &&
           load->args[0] == to->over && same_index(load, store);
}

/* The let of this block, of a kernel's body, that is or contains the let; NULL: there is none. */
static const Let *
within(const Block *blk, const Let *let)
{
    while (let->op != OP_kernel && let->parent != blk) {
        let = let->parent->owner;
    }
    return let->op == OP_kernel ? NULL : let;
}

/* The loop or kernel whose block it is, or that of choices around. */
static const Let *
around_block(const Block *blk)
{
    return let_is_choice(blk->owner) ? let_around(blk->owner) : blk->owner;
}

static bool
comes_before(const Block *blk, const Let *a, const Let *b)
{
    int k = 0;
    while (blk->lets[k] != a && blk->lets[k] != b) {
        k++;
    }
    return a != b && blk->lets[k] == a;
}

static bool
is_shifted(Cx *cx, Dim a, Dim b)
{
    return dim_is_int(cx, dim_sub(cx, a, b), NULL);
}

/* Has e one value of the index for each of its own, as c * out + in has of both parts of a loop
 * that has been split, whose inner one has up to c iterations? */
static bool
determines(Cx *cx, Dim e, Dim index)
{
    Dim factor, rest;
    int64_t c;
    if (!dim_is_name(cx, index) || !dim_affine(cx, e, index, &factor, &rest) ||
        !dim_is_int(cx, factor, &c) || c == 0) {
        return false;
    }
    Range in = dim_range(cx, index), others = dim_range(cx, rest);
    int64_t step = c < 0 ? -c : c, divisor = dim_divisor(cx, rest);
    bool whole = others.lo > -DIM_INF && others.hi < DIM_INF && others.hi - others.lo < step;
    return whole || (in.hi < divisor && step * in.hi < divisor);
}

/* Is the value of d determined by the indices that the load and the store have in common? */
static bool
is_known(Cx *cx, const Attr *load, const Attr *store, Dim d)
{
    bool known = false;
    for (int k = 0; k < load->n && !known; k++) {
        known = load->dims[k] == store->dims[k] &&
                (is_shifted(cx, load->dims[k], d) || determines(cx, load->dims[k], d));
    }
    for (int k = 0; k < load->n && !known; k++) {
        const AtomNode *atom = load->dims[k] == store->dims[k] ? dim_atom(cx, load->dims[k]) : NULL;
        known = atom && atom->kind == ATOM_MOD && is_shifted(cx, atom->a, d) &&
                is_known(cx, load, store, dim_div(cx, atom->a, atom->b));
    }
    return known;
}

static bool
runs_once(Cx *cx, const Let *loop)
{
    return dim_range(cx, let_dim(loop, "extent")).hi <= 1;
}

/* Does no phase follow that of the store?  A let outside of the phases is done again by each that
 * uses it. */
static bool
is_last_phase(const Block *root, const Let *store)
{
    bool last = true;
    for (const Block *blk = store->parent; blk; blk = blk == root ? NULL : blk->owner->parent) {
        const Let *of_store = within(blk, store);
        int k = loop_is(around_block(blk)) ? 0 : blk->n;
        while (k > 0 && blk->lets[--k] != of_store) {
            last &= blk->lets[k]->op != OP_for && !let_is_choice(blk->lets[k]);
        }
    }
    return last;
}

/* Both are in the common block, or in loops in it.  A load of the block itself may be done again
 * in each iteration of the loops around the store: by each tile of a vector loop, by each part of
 * loops that run as one. */
static bool
is_before(Cx *cx, const Let *load, const Let *store)
{
    const Attr *x = let_attr(load, "at"), *y = let_attr(store, "at");
    const Block *blk = load->parent;
    while (!within(blk, store)) {
        blk = blk->owner->parent;
    }
    const Let *from = within(blk, load);
    bool before = comes_before(blk, from, within(blk, store)),
         repeats = !loop_is(around_block(blk)) && from->op != OP_for && !let_is_choice(from);
    for (const Let *loop = from == load ? store->parent->owner : blk->owner;
         before && loop->op != OP_kernel; loop = loop->parent->owner) {
        before = !loop_is(loop) || runs_once(cx, loop) ||
                 is_known(cx, x, y, let_dim(loop, "index"));
    }
    return before && (!repeats || is_last_phase(blk, store));
}

typedef struct {
    Cx *cx;
    Dim d;
} Renaming;

static Dim other_iteration(Cx *cx, Dim d);

static void
rename_index(void *arg, Dim name)
{
    Renaming *r = arg;
    Dim extent = dim_extent(r->cx, name);
    if (extent != DIM_NONE) {
        Dim other = dim_index(r->cx, "o", other_iteration(r->cx, extent));
        r->d = dim_replace(r->cx, r->d, name, other);
    }
}

/* Returns d with fresh indices, which stand for any other iteration. */
static Dim
other_iteration(Cx *cx, Dim d)
{
    Renaming r = {cx, d};
    if (dim_has_index(cx, d)) {
        dim_names(cx, d, rename_index, &r);
    }
    return r.d;
}

/* Is the loaded element different from every element that the store writes, in any iteration? */
static bool
is_disjoint(Cx *cx, const Let *load, const Let *store)
{
    const Attr *x = let_attr(load, "at"), *y = let_attr(store, "at");
    bool disjoint = false;
    for (int ax = 0; ax < x->n && !disjoint; ax++) {
        Dim other = other_iteration(cx, y->dims[ax]);
        disjoint = dim_lt(cx, x->dims[ax], other) || dim_lt(cx, other, x->dims[ax]);
    }
    return disjoint;
}

/* Does the load's own block store v as the element, after the load? */
static bool
is_stored_after(const Let *load, const Value *v)
{
    const Block *blk = load->parent;
    bool after = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        after |= let == load;
        if (let->op == OP_store && let->args[0] == v && same_index(load, let)) {
            return after;
        }
    }
    return false;
}

/* Is one in an if, the other in its else? */
static bool
never_both(const Let *choice, const Let *let)
{
    const Let *beside = let_is_choice(choice) ? within(choice->parent, let) : NULL;
    return beside && let_excludes(choice, beside);
}

/* Is it loaded before everything in the block that is stored to v where it may be? */
static bool
is_before_all(Cx *cx, const Let *load, const Block *blk, const Value *v)
{
    bool before = true;
    for (int k = 0; k < blk->n && before; k++) {
        const Let *let = blk->lets[k];
        before = let_writes(let) && let->args[0] == v
                     ? store_is_idle(let) || is_before(cx, load, let) || is_disjoint(cx, load, let)
                     : !let->body || never_both(let, load) || is_before_all(cx, load, let->body, v);
    }
    return before;
}

typedef struct {
    Cx *cx;
    const Value *v;
} InPlace;

static bool
loads_late(const void *arg, const Let *let)
{
    const InPlace *in = arg;
    const Value *v = in->v;
    return let->op == OP_load && let->args[0] == v->over && !is_stored_after(let, v) &&
           !is_before_all(in->cx, let, v->def->body, v);
}

const char *
in_place_wrong_loops(Cx *cx, const Value *v)
{
    return block_any(v->def->body, loads_late, &(InPlace){cx, v})
               ? "reads an element that another iteration may have stored"
               : NULL;
}

/* ---- the iterations of one loop ---- */

const Value *
value_memory(const Value *v)
{
    while (v->over) {
        v = v->over;
    }
    return v;
}

static bool
writes_memory(const void *memory, const Let *let)
{
    return let_writes(let) && value_memory(let->args[0]) == memory;
}

bool
loop_writes(const Let *loop, const Value *v)
{
    return let_any(loop, writes_memory, value_memory(v));
}

bool
loop_stores_once(Cx *cx, const Let *loop)
{
    Dim step, rest, zero = dim_int(cx, 0);
    const Block *blk = loop->body;
    bool good = true;
    for (int k = 0; k < blk->n && good; k++) {
        const Let *store = blk->lets[k];
        if (store->op != OP_store) {
            continue;
        }
        Dim offset = index_offset(cx, store->args[0], let_attr(store, "at")->dims);
        good = dim_affine(cx, offset, let_dim(loop, "index"), &step, &rest) &&
               (dim_lt(cx, zero, step) || dim_lt(cx, step, zero));
        for (int j = 0; j < blk->n && good; j++) {
            const Let *let = blk->lets[j];
            good = let == store || !let_accesses(let) || let->args[0] != store->args[0];
        }
    }
    return good;
}

/* Where a name is made: outside of the loop, where all its iterations have the same; as an index,
 * the loop's own or of one inside; or by a bind inside, so that nothing is known of it in another
 * iteration. */
typedef enum { NAME_OUTSIDE, NAME_INDEX, NAME_BOUND } NameKind;

static NameKind
kind_of(const Let *loop, Dim name)
{
    bool own = loop_is(loop) && let_dim(loop, "index") == name;
    NameKind kind = own ? NAME_INDEX : NAME_OUTSIDE;
    for (int k = 0; k < loop->body->n && kind == NAME_OUTSIDE; k++) {
        const Let *let = loop->body->lets[k];
        bool binds = let->op == OP_bind && let->sizes[0] == name;
        kind = binds ? NAME_BOUND : let->body ? kind_of(let, name) : NAME_OUTSIDE;
    }
    return kind;
}

typedef struct {
    Cx *cx;
    const Let *loop;
    Dim d;
} Iteration;

static bool
is_bound_inside(const void *arg, Dim name)
{
    return kind_of(((const Iteration *)arg)->loop, name) == NAME_BOUND;
}

static bool
is_made_inside(const void *arg, Dim name)
{
    return kind_of(((const Iteration *)arg)->loop, name) != NAME_OUTSIDE;
}

static void
rename_inside(void *arg, Dim name)
{
    Iteration *it = arg;
    if (kind_of(it->loop, name) == NAME_INDEX) {
        Dim other = dim_index(it->cx, "o", other_iteration(it->cx, dim_extent(it->cx, name)));
        it->d = dim_replace(it->cx, it->d, name, other);
    }
}

/* Returns d in any other iteration of the loop. */
static Dim
elsewhere(const Iteration *it, Dim d)
{
    Iteration other = {it->cx, it->loop, d};
    dim_names(it->cx, d, rename_inside, &other);
    return other.d;
}

static bool
is_within(Cx *cx, Dim a, Dim b, Dim step)
{
    return dim_lt(cx, a, dim_add(cx, b, step)) && dim_lt(cx, b, dim_add(cx, a, step));
}

/* Do two iterations have different indices along an axis, if the index is `x` in one of them and
 * `y` in the other?  That is so if one is proved to be less than the other, or if both advance by
 * the same step and their remainders differ by less than the step. */
static bool
is_another(const Iteration *it, Dim x, Dim y)
{
    Cx *cx = it->cx;
    Dim step, of_y, a, b, index = let_dim(it->loop, "index");
    if (dim_any_name(cx, x, is_bound_inside, it) || dim_any_name(cx, y, is_bound_inside, it)) {
        return false;
    }
    Dim other = elsewhere(it, y);
    if (dim_lt(cx, x, other) || dim_lt(cx, other, x)) {
        return true;
    }
    if (!dim_affine(cx, x, index, &step, &a) || !dim_affine(cx, y, index, &of_y, &b) ||
        step != of_y || dim_any_name(cx, step, is_made_inside, it)) {
        return false;
    }
    b = elsewhere(it, b);
    return is_within(cx, a, b, step) || is_within(cx, a, b, dim_sub(cx, dim_int(cx, 0), step));
}

static bool
is_disjoint_in(const Iteration *it, const Let *load, const Let *store)
{
    const Attr *x = let_attr(load, "at"), *y = let_attr(store, "at");
    bool disjoint = is_known(it->cx, x, y, let_dim(it->loop, "index"));
    for (int ax = 0; ax < x->n && !disjoint; ax++) {
        disjoint = is_another(it, x->dims[ax], y->dims[ax]);
    }
    return disjoint;
}

typedef struct {
    const Iteration *it;
    const Let *store;
} Stored;

static bool
is_a_loop(const void *arg, const Let *let)
{
    (void)arg;
    return loop_is(let);
}

/* Are both updates, which stay in order however many iterations run together?  With loops inside,
 * each of these runs for all iterations. */
static bool
keep_order(const Stored *s, const Let *let)
{
    return let->op == OP_update && s->store->op == OP_update &&
           !block_any(s->it->loop->body, is_a_loop, NULL);
}

/* Does the let load what the store stores in another iteration? */
static bool
loads_from_elsewhere(const void *arg, const Let *let)
{
    const Stored *s = arg;
    return let_accesses(let) && let->op != OP_store && !keep_order(s, let) &&
           value_memory(let->args[0]) == value_memory(s->store->args[0]) &&
           !is_disjoint_in(s->it, let, s->store);
}

static bool
stores_for_others(const void *arg, const Let *let)
{
    const Iteration *it = arg;
    return let_writes(let) && !let_is_inside(let->args[0]->def, it->loop) && !store_is_idle(let) &&
           block_any(it->loop->body, loads_from_elsewhere, &(Stored){it, let});
}

bool
loop_carries(Cx *cx, const Let *loop)
{
    return dim_range(cx, let_dim(loop, "extent")).hi > 1 &&
           block_any(loop->body, stores_for_others, &(Iteration){cx, loop, DIM_NONE});
}
