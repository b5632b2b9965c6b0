/* The dependence test: which pairs of accesses need the order of a nest's iterations.
 *
 * What:     for each pair of accesses of the same memory, of which one writes, the directions in
 *           which an iteration may access what another one accesses, and the distance where it is
 *           one.
 * Requires: the loops stage.  Subscripts may be any sizes, with symbols, `//` and `%`.
 * Ensures:  a pair of iterations that is of one element is in one of the directions.  What is not
 *           proved is a dependence, so directions may be too many, and never too few.
 * How:      the first access has the loops' own indices.  For the second one each index is written
 *           by the direction that is asked about: i again; i + 1 + t, where t has what the loop has
 *           left; one before i; or, in any direction, a fresh index.  The accesses are of different
 *           elements if along an axis one subscript is proved to be less than the other
 *           (Banerjee's inequalities, with symbolic bounds), or if a divisor of all steps
 *           does not divide the distance (the GCD test), or if so for the difference of two axes in
 *           which an index has been eliminated.  The outermost loop's direction is chosen
 *           first, with any direction of the others: what is refuted there is not split further
 *           (Burke and Cytron, 1986).  If both subscripts go along a loop by the same step and
 *           differ by a constant, that gives the distance (the strong SIV test of Goff, Kennedy
 *           and Tseng, 1991), which then is put into the other axes.
 * Why not:  an integer solver (the Omega test): the prover knows of symbolic sizes, quotients and
 *           conditions what a solver of linear inequalities does not.
 * Example:  for i, j: store a[i, j] after load a[i - 1, j + 1]: from the store to the load i is
 *           later by 1 and j is earlier by 1, so i and j must not change places.
 */
#include "dependence.h"
#include "ir/cx.h"

/* Loops of the nest around an access, the outermost first, with the index of each in the iteration
 * that is looked at. */
typedef struct {
    const Let **loops;
    Dim *index;
    int n;
} Iteration;

/* Two accesses, and the directions that are asked about. */
typedef struct {
    Cx *cx;
    const Let *nest, *a, *b; /* a is not behind b in the text */
    Iteration of_a, of_b;
    int ncommon; /* loops around both whose directions are distinguished */
    Direction directions[DEPENDENCE_LOOPS];
    Dim distances[DEPENDENCE_LOOPS];
    bool unknown; /* nothing can be proved of the subscripts */
    Dependences *out;
} Pair;

/* ---- what is known of a pair ---- */

static bool
binds_name(const void *name, const Let *let)
{
    return let->op == OP_bind && let->sizes[0] == *(const Dim *)name;
}

/* Is the name made by a bind of the nest?  Then other iterations have another value of it. */
static bool
is_data(const void *nest, Dim name)
{
    return let_any(nest, binds_name, &name);
}

static Iteration
iteration_of(const Pair *p, const Let *access)
{
    Iteration it = {.n = 1};
    for (const Let *loop = let_around(access); loop != p->nest; loop = let_around(loop)) {
        it.n++;
    }
    it.loops = cx_alloc(p->cx, (size_t)it.n * sizeof *it.loops);
    it.index = cx_alloc(p->cx, (size_t)it.n * sizeof *it.index);
    const Let *loop = let_around(access);
    for (int k = it.n - 1; k >= 0; k--, loop = let_around(loop)) {
        it.loops[k] = loop;
        it.index[k] = let_dim(loop, "index");
    }
    return it;
}

/* Is the extent of a loop read from memory? */
static bool
has_data(const Pair *p, const Iteration *it)
{
    bool found = false;
    for (int k = 0; k < it->n; k++) {
        found |= dim_any_name(p->cx, let_dim(it->loops[k], "extent"), is_data, p->nest);
    }
    return found;
}

/* The value that has the memory, of which others are views or take it over. */
static const Value *
memory_of(const Value *v)
{
    const Value *root = v->over ? v->over : value_root(v);
    return root == v ? v : memory_of(root);
}

/* Is there a view between the two, so that equal elements have other subscripts? */
static bool
is_seen_alike(const Value *a, const Value *b)
{
    while (a->over) {
        a = a->over;
    }
    while (b->over) {
        b = b->over;
    }
    return a == b;
}

/* ---- the iteration of the second access ---- */

/* d as b's iteration has it, for the first n of its loops.  What stands for an index has no other
 * index of the nest, so one may be put in after the other. */
static Dim
in_iteration(const Pair *p, int n, Dim d)
{
    for (int k = 0; k < n; k++) {
        d = dim_replace(p->cx, d, let_dim(p->of_b.loops[k], "index"), p->of_b.index[k]);
    }
    return d;
}

static Dim
extent_in(const Pair *p, int k)
{
    return in_iteration(p, k, let_dim(p->of_b.loops[k], "extent"));
}

typedef struct {
    Cx *cx;
    Dim d;
} Constant;

static void
drop_name(void *arg, Dim name)
{
    Constant *c = arg;
    c->d = dim_replace(c->cx, c->d, name, dim_int(c->cx, 0));
}

/* Is the difference of two subscripts no multiple of what all of its terms are multiples of? */
static bool
is_between_steps(Cx *cx, Dim difference)
{
    Constant c = {cx, difference};
    dim_names(cx, difference, drop_name, &c);
    int64_t left, divisor = dim_divisor(cx, dim_sub(cx, difference, c.d));
    return dim_is_int(cx, c.d, &left) && divisor > 1 && left % divisor != 0;
}

/* Can two subscripts never be equal, whose difference this is? */
static bool
is_never_zero(Cx *cx, Dim difference)
{
    Dim zero = dim_int(cx, 0);
    return dim_lt(cx, zero, difference) || dim_lt(cx, difference, zero) ||
           is_between_steps(cx, difference);
}

typedef struct {
    Cx *cx;
    Dim x, y; /* differences along two axes */
    bool never;
} Coupled;

/* Both differences are zero only if each of their multiples is.  So one is taken from the other in
 * such multiples that the index is gone. */
static void
eliminate(void *arg, Dim name)
{
    Coupled *c = arg;
    Cx *cx = c->cx;
    Dim of_x, of_y, x, y;
    int64_t step;
    if (!c->never && dim_affine(cx, c->x, name, &of_x, &x) && dim_is_int(cx, of_x, &step) &&
        dim_affine(cx, c->y, name, &of_y, &y) && dim_is_int(cx, of_y, &step) && step != 0) {
        c->never = is_never_zero(cx, dim_sub(cx, dim_mul(cx, x, of_y), dim_mul(cx, y, of_x)));
    }
}

/* The difference of the subscripts along an axis; DIM_NONE: data is in it. */
static Dim
difference_along(const Pair *p, int ax)
{
    Dim x = let_attr(p->a, "at")->dims[ax],
        y = in_iteration(p, p->of_b.n, let_attr(p->b, "at")->dims[ax]);
    bool data = dim_any_name(p->cx, x, is_data, p->nest) ||
                dim_any_name(p->cx, y, is_data, p->nest);
    return data ? DIM_NONE : dim_sub(p->cx, x, y);
}

/* May both be of one element, if b's first n loops have the indices chosen for them, and the others
 * any? */
static bool
may_meet(const Pair *p, int n)
{
    Cx *cx = p->cx;
    Dim along[MAX_RANK];
    for (int k = n; k < p->of_b.n; k++) {
        p->of_b.index[k] = dim_index(cx, "o", extent_in(p, k));
    }
    int rank = p->unknown ? 0 : let_attr(p->a, "at")->n;
    bool never = false;
    for (int ax = 0; ax < rank && !never; ax++) {
        along[ax] = difference_along(p, ax);
        never = along[ax] != DIM_NONE && is_never_zero(cx, along[ax]);
    }
    for (int ax = 1; ax < rank && !never; ax++) {
        for (int other = 0; other < ax && !never; other++) {
            Coupled c = {cx, along[other], along[ax], false};
            if (c.x != DIM_NONE && c.y != DIM_NONE) {
                dim_names(cx, c.x, eliminate, &c);
            }
            never = c.never;
        }
    }
    return !never;
}

static bool
has_deeper(const Pair *p, const Iteration *it, int k, Dim d)
{
    bool found = dim_any_name(p->cx, d, is_data, p->nest);
    for (int deeper = k + 1; deeper < it->n; deeper++) {
        found |= dim_uses(p->cx, d, let_dim(it->loops[deeper], "index"));
    }
    return found;
}

/* The distance along loop k, if the subscripts of an axis give one that no other index changes. */
static Dim
distance_of(const Pair *p, int k)
{
    Cx *cx = p->cx;
    const Attr *a = let_attr(p->a, "at"), *b = let_attr(p->b, "at");
    Dim index = let_dim(p->of_b.loops[k], "index"), found = DIM_NONE, c, of_b, x, y;
    for (int ax = 0; ax < a->n && found == DIM_NONE && !p->unknown; ax++) {
        int64_t step, shift;
        if (!dim_affine(cx, a->dims[ax], index, &c, &x) ||
            !dim_affine(cx, in_iteration(p, k, b->dims[ax]), index, &of_b, &y) || c != of_b ||
            !dim_is_int(cx, c, &step) || step == 0 || has_deeper(p, &p->of_a, k, x) ||
            has_deeper(p, &p->of_b, k, y)) {
            continue;
        }
        Dim difference = dim_sub(cx, x, y);
        if (step == 1 || step == -1) {
            found = dim_has_index(cx, difference) ? DIM_NONE : dim_mul(cx, difference, c);
        } else if (dim_is_int(cx, difference, &shift) && shift % step == 0) {
            found = dim_int(cx, shift / step);
        }
    }
    return found;
}

/* Is d at least 1 wherever the loops around the first access have iterations? */
static bool
is_positive(const Pair *p, Dim d)
{
    bool positive = false;
    for (int k = 0; k < p->of_a.n && !positive; k++) {
        positive = dim_lt_in(p->cx, dim_int(p->cx, 0), d, let_dim(p->of_a.loops[k], "extent"));
    }
    return positive;
}

/* Chooses b's index of loop k so that it lies in the direction from a's; false: it never does. */
static bool
go(Pair *p, int k, Direction direction, Dim distance)
{
    Cx *cx = p->cx;
    Dim *index = &p->of_b.index[k], own = let_dim(p->of_b.loops[k], "index"), zero = dim_int(cx, 0),
        extent = extent_in(p, k), of_a = let_dim(p->of_a.loops[k], "extent");
    const Value *v = p->a->args[0];
    p->directions[k] = direction;
    p->distances[k] = direction == ITERATION_SAME ? zero : distance;
    if (direction == ITERATION_SAME) {
        *index = own;
        return distance == DIM_NONE ||
               !(is_positive(p, distance) || is_positive(p, dim_sub(cx, zero, distance)));
    }
    if (dim_range(cx, of_a).hi <= 1 || (v->def && let_is_inside(v->def, p->of_a.loops[k]))) {
        return false; /* one iteration, or memory for each */
    }
    bool later = direction == ITERATION_LATER;
    if (distance != DIM_NONE) {
        Dim ahead = later ? distance : dim_sub(cx, zero, distance);
        *index = dim_add(cx, own, distance);
        return !dim_le(cx, ahead, zero) && !is_positive(p, dim_sub(cx, zero, ahead)) &&
               !dim_le(cx, later ? extent : of_a, ahead);
    }
    if (later) {
        Dim next = dim_add(cx, own, dim_int(cx, 1));
        *index = dim_add(cx, next, dim_index(cx, "o", dim_sub(cx, extent, next)));
    } else {
        *index = dim_index(cx, "o", extent == of_a ? own : dim_min(cx, own, extent));
    }
    return true;
}

/* ---- finding them ---- */

static void
add(const Pair *p, Direction first)
{
    bool back = first == ITERATION_EARLIER;
    Dependence d = {back ? p->b : p->a, back ? p->a : p->b, .nloops = p->ncommon};
    for (int k = 0; k < p->ncommon; k++) {
        Direction to = p->directions[k];
        bool turns = back && to != ITERATION_SAME;
        Dim distance = p->distances[k];
        d.loops[k] = p->of_a.loops[k];
        d.directions[k] = !turns ? to : to == ITERATION_LATER ? ITERATION_EARLIER : ITERATION_LATER;
        d.distances[k] = turns && distance != DIM_NONE ? dim_sub(p->cx, dim_int(p->cx, 0), distance)
                                                       : distance;
    }
    p->out->of = cx_grow(p->cx, p->out->of, p->out->n, sizeof d);
    p->out->of[p->out->n++] = d;
}

/* Splits the directions of loop k and of those in it.  first: that of the outermost loop in which
 * the iterations differ. */
static void
split(Pair *p, int k, Direction first)
{
    if (k == p->ncommon) {
        if (first != ITERATION_SAME || p->a != p->b || p->of_a.n > k) {
            add(p, first);
        }
        return;
    }
    Dim distance = distance_of(p, k);
    for (Direction to = ITERATION_LATER; to <= ITERATION_EARLIER; to++) {
        bool twice = p->a == p->b && first == ITERATION_SAME && to == ITERATION_EARLIER;
        if (!twice && go(p, k, to, distance) && may_meet(p, k + 1)) {
            split(p, k + 1, first == ITERATION_SAME ? to : first);
        }
    }
}

static void
add_pair(Cx *cx, const Let *nest, const Let *a, const Let *b, Dependences *out)
{
    const Value *x = a->args[0], *y = b->args[0];
    if (!(let_writes(a) || let_writes(b)) || memory_of(x) != memory_of(y)) {
        return;
    }
    Pair p = {.cx = cx, .nest = nest, .a = a, .b = b, .out = out};
    p.of_a = iteration_of(&p, a);
    p.of_b = iteration_of(&p, b);
    while (p.ncommon < DEPENDENCE_LOOPS && p.ncommon < p.of_a.n && p.ncommon < p.of_b.n &&
           p.of_a.loops[p.ncommon] == p.of_b.loops[p.ncommon]) {
        p.ncommon++;
    }
    p.unknown = !is_seen_alike(x, y) || has_data(&p, &p.of_a) || has_data(&p, &p.of_b);
    if (may_meet(&p, 0)) {
        split(&p, 0, ITERATION_SAME);
    }
}

typedef struct {
    Cx *cx;
    const Let **of;
    int n;
} Accesses;

static bool
take_access(const void *arg, const Let *let)
{
    Accesses *all = *(Accesses *const *)arg;
    if (let_accesses(let)) {
        all->of = cx_grow(all->cx, all->of, all->n, sizeof *all->of);
        all->of[all->n++] = let;
    }
    return false;
}

Dependences
dependences_of(Cx *cx, const Let *nest)
{
    Accesses all = {.cx = cx}, *to = &all;
    let_any(nest, take_access, &to);
    Dependences out = {0};
    for (int a = 0; a < all.n; a++) {
        for (int b = a; b < all.n; b++) {
            add_pair(cx, nest, all.of[a], all.of[b], &out);
        }
    }
    return out;
}

const Dependence *
dependence_against_interchange(const Dependences *all)
{
    const Dependence *found = NULL;
    for (int k = 0; k < all->n && !found; k++) {
        const Dependence *d = &all->of[k];
        bool turns = d->nloops > 1 && d->directions[0] == ITERATION_LATER &&
                     d->directions[1] == ITERATION_EARLIER;
        found = turns ? d : NULL;
    }
    return found;
}

/* ---- text ---- */

static void
access_text(const Cx *cx, const Let *access, Text *out)
{
    const Attr *at = let_attr(access, "at");
    text_add(out, "%s %s[", op_info[access->op].name, access->args[0]->name);
    for (int ax = 0; ax < at->n; ax++) {
        text_add(out, "%s", ax ? ", " : "");
        dim_text(cx, at->dims[ax], out);
    }
    text_add(out, "]");
}

void
dependence_text(const Cx *cx, const Dependence *d, Text *out)
{
    static const char *const words[] = {"later", "same", "earlier"};
    access_text(cx, d->from, out);
    text_add(out, ", then ");
    access_text(cx, d->to, out);
    for (int k = 0; k < d->nloops; k++) {
        text_add(out, "%s %s %s", k ? "," : ":", dim_name(cx, let_dim(d->loops[k], "index")),
                 words[d->directions[k]]);
        if (d->distances[k] != DIM_NONE && d->directions[k] != ITERATION_SAME) {
            text_add(out, " (");
            dim_text(cx, d->distances[k], out);
            text_add(out, ")");
        }
    }
}
