/* Results over parameters in the loops stage: is each element of the parameter read before it is
 * stored?
 *
 * What:     checks each load of the parameter against the stores to the result that takes its
 *           memory.
 * Requires: the loops stage, where every element of a result is stored once.
 * How:      a load is safe if its own block stores the same element afterwards: nothing else stores
 *           it. Otherwise, for each store: in the deepest block around both the load comes first,
 *           and no other iteration of the loops around that block stores the loaded element. That
 *           is so if the indices that both have along the same axes determine the iteration: an
 *           axis has a loop's bare index, or one has its remainder and others its quotient.  Or no
 *           iteration stores there at all: along an axis all that is stored is before what is
 *           loaded, or behind it.
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

static bool
comes_before(const Block *blk, const Let *a, const Let *b)
{
    int k = 0;
    while (blk->lets[k] != a && blk->lets[k] != b) {
        k++;
    }
    return a != b && blk->lets[k] == a;
}

/* Is the value of d determined by the indices that the load and the store have in common? */
static bool
is_known(Cx *cx, const Attr *load, const Attr *store, Dim d)
{
    bool known = false;
    for (int k = 0; k < load->n && !known; k++) {
        known = load->dims[k] == d && store->dims[k] == d;
    }
    for (int k = 0; k < load->n && !known; k++) {
        const AtomNode *atom = load->dims[k] == store->dims[k] ? dim_atom(cx, load->dims[k]) : NULL;
        known = atom && atom->kind == ATOM_MOD && atom->a == d &&
                is_known(cx, load, store, dim_div(cx, d, atom->b));
    }
    return known;
}

static bool
is_before(Cx *cx, const Let *load, const Let *store)
{
    const Attr *x = let_attr(load, "at"), *y = let_attr(store, "at");
    const Block *blk = load->parent;
    while (!within(blk, store)) {
        blk = blk->owner->parent;
    }
    bool before = comes_before(blk, within(blk, load), within(blk, store));
    for (const Let *loop = blk->owner; before && loop->op != OP_kernel;
         loop = loop->parent->owner) {
        before = is_known(cx, x, y, let_dim(loop, "index"));
    }
    return before;
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

/* d with indices of its own. */
static Dim
other_iteration(Cx *cx, Dim d)
{
    Renaming r = {cx, d};
    if (dim_has_index(cx, d)) {
        dim_names(cx, d, rename_index, &r);
    }
    return r.d;
}

/* Is what is stored, by whichever iterations, beside the element that is loaded? */
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

/* Is it loaded before everything in the block that is stored to v where it may be? */
static bool
is_before_all(Cx *cx, const Let *load, const Block *blk, const Value *v)
{
    bool before = true;
    for (int k = 0; k < blk->n && before; k++) {
        const Let *let = blk->lets[k];
        before = let_writes(let) && let->args[0] == v
                     ? store_is_idle(let) || is_before(cx, load, let) || is_disjoint(cx, load, let)
                     : !let->body || is_before_all(cx, load, let->body, v);
    }
    return before;
}

static bool
loads_late(Cx *cx, const Block *blk, const Value *v)
{
    bool late = false;
    for (int k = 0; k < blk->n && !late; k++) {
        const Let *let = blk->lets[k];
        bool loads = let->op == OP_load && let->args[0] == v->over;
        late = loads ? !is_stored_after(let, v) && !is_before_all(cx, let, v->def->body, v)
                     : let->body && loads_late(cx, let->body, v);
    }
    return late;
}

const char *
in_place_wrong_loops(Cx *cx, const Value *v)
{
    return loads_late(cx, v->def->body, v)
               ? "reads an element that another iteration may have stored"
               : NULL;
}
