/* Results in place: what a kernel makes takes the memory of a parameter, which it goes into, or of
 * a value that dies.  So does what a loop or branch makes, if its bodies do.
 *
 * What:     decides whether a kernel may store a result in the memory of an older value, whose
 *           elements it may read itself.
 * Requires: nothing: the verifier calls it for any text.
 * Ensures:  if in_place_wrong returns NULL, the function computes the same as with separate memory.
 * How:      nobody reads the older value afterwards, and in the kernel an element is read before it
 *           is stored. In the kernels stage: each value is traced to where its elements come from
 *           in the older value, through MAPs, which never move one, views and gathers; in the
 *           results all are at their old position, or are elements that a scatter adds to.  A
 *           scatter of one element stores after it has read all; one of a row, each element after
 *           those of its column.  Elements beside all
 *           that is stored do not count.  What is not stored is found from the result: views of the
 *           older value that a cat puts where they were. Lowering puts the
 *           computation of such results in one block, with loads first, and reductions before it;
 *           if that fails, the result gets its own memory (lower.c). In the loops stage,
 *           alias_loops.c checks the loads and the stores.
 * Why not:  leave it to the loops alone: kernels that flip would be lowered only to find that they
 *           do.
 * Example:  m.mul_(0.9).add_(g): let m1: f32[N] over m = kernel { .. ret add (mul m, 0.9), g }.
 */
#include "cx.h"

#include <string.h>

static bool
is_top_view(const Value *v)
{
    return value_is_view(v) && !v->def->parent->owner;
}

static bool
is_step(const Let *let)
{
    return let->op == OP_kernel || let_is_flow(let);
}

/* Has it memory that a kernel, loop or branch may store to? */
static bool
is_writable(const Value *v)
{
    return !v->def || (is_step(v->def) && !v->def->parent->owner);
}

/* The position of the parameter that v is or, through results over others, in whose memory it is;
 * -1: it is in none's. */
int
param_under(const Value *v)
{
    while (!value_is_const(v) && v->over) {
        v = v->over;
    }
    return value_is_const(v) || v->def ? -1 : v->result;
}

/* The operand of a loop or branch in whose memory its result k may be: each body leaves the result
 * in the memory of the parameter for it.  -1: there is none. */
int
flow_takes(const Let *flow, int k)
{
    bool loops = flow->op == OP_loop;
    int whiles = loops && let_int(flow, "while"), first = loops ? 1 - whiles : -1;
    int param = param_under(flow->bodies[0]->body->rets[whiles + k]);
    bool kept = loops ? k < let_int(flow, "carries") && param == 1 + k
                      : param >= 0 && param_under(flow->bodies[1]->body->rets[k]) == param;
    return kept ? param - first : -1;
}

/* Does the loop or branch, or the kernel that is one, take the value once, and leave the result in
 * its memory? */
static bool
keeps_place(const Let *let, const Value *v)
{
    const Let *flow = kernel_loop(let) ? kernel_loop(let) : let;
    int kept = flow_takes(flow, v->result), times = 0;
    for (int k = 0; k < flow->nargs; k++) {
        times += flow->args[k] == v->over;
    }
    return kept >= 0 && flow->args[kept] == v->over && times == 1;
}

static const char not_in_place[] =
    "is over a value that the loop or branch does not leave in its memory";

const Value *
value_root(const Value *v)
{
    while (!value_is_const(v) && is_top_view(v)) {
        v = v->def->args[0];
    }
    return value_is_const(v) ? NULL : v;
}

static void
note_let(ValueUse *uses, const Let *let, int at)
{
    for (int k = 0; k < let->nargs; k++) {
        const Value *root = value_root(let->args[k]);
        if (root) {
            ValueUse *use = &uses[root->id];
            use->last = at;
            use->viewed = root != let->args[k] ? at : use->viewed;
            use->taken |= let->op == OP_call && let_int(let, "shares");
        }
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        note_let(uses, let->body->lets[k], at);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        const Value *root = value_root(let->body->rets[k]);
        if (root) {
            uses[root->id].last = at;
            uses[root->id].viewed = root != let->body->rets[k] ? at : uses[root->id].viewed;
        }
    }
}

ValueUse *
value_uses(const Fn *fn)
{
    ValueUse *uses = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *uses);
    for (int k = 0; k < fn->nvalues; k++) {
        uses[k] = (ValueUse){.last = -1, .viewed = -1};
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (op_info[let->op].kind != KIND_VIEW) {       /* a view reads nothing */
            note_let(uses, let, k);
        }
        for (int j = 0; j < let->nres; j++) {
            const Value *over = let->res[j]->over;
            if (over && !value_is_const(over)) {
                uses[over->id].in_place++;
            }
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *root = value_root(fn->body->rets[k]);
        bool shares = fn->results[k].kind == RESULT_VIEW_PARAM;
        if (root && (root->def || !shares)) {
            uses[root->id].last = fn->body->n;
        }
    }
    return uses;
}

/* ---- the kernel ---- */

enum { ONE_PLACE = -1, ANY_PLACE = -2 }; /* along an axis: the shift; whichever, it is data */

/* Where in the older value a value's elements come from. */
typedef struct {
    enum {
        UNRELATED, /* from nowhere in it, or from reductions of it, which lowering puts first */
        PLACED, /* the element at [.., i[axis[p]] + shift[p], ..] */
        FLAT, /* all of its elements, in order */
        MOVED, /* from elsewhere */
    } kind;
    int axis[MAX_RANK]; /* of the value, by the older one's; or one of the following */
    Dim shift[MAX_RANK];
} Relation;

typedef struct {
    Dim lo[MAX_RANK], hi[MAX_RANK]; /* hi: the first one behind it */
} Box;

typedef struct {
    Cx *cx;
    const Let *kernel;
    const Value *old;
    const bool *cut; /* by the position of a let in the kernel; may be NULL */
    Relation *of; /* by the position of a let in the kernel, which is also its mark */
    Box *stored; /* the boxes of stored elements, as soon as they are known */
    int nstored;
    Relation identity;
} Tracer;

static const Relation unrelated = {.kind = UNRELATED}, moved = {.kind = MOVED};

static bool
is_inside(const Tracer *t, const Value *v)
{
    return !value_is_const(v) && v->def && v->def->parent == t->kernel->body;
}

static const Relation *
relation(const Tracer *t, const Value *v)
{
    return v == t->old ? &t->identity : is_inside(t, v) ? &t->of[v->def->mark] : &unrelated;
}

static Relation
relation_whole(const Tracer *t)
{
    Relation r = {.kind = PLACED};
    for (int p = 0; p < t->old->type->rank; p++) {
        r.axis[p] = dim_is(t->cx, t->old->type->dims[p], 1) ? ONE_PLACE : p;
        r.shift[p] = dim_int(t->cx, 0);
    }
    return r;
}

static bool
same_relation(const Tracer *t, const Relation *a, const Relation *b)
{
    bool same = a->kind == b->kind;
    for (int p = 0; p < t->old->type->rank && same && a->kind == PLACED; p++) {
        same = a->axis[p] == b->axis[p] && (a->axis[p] == ANY_PLACE || a->shift[p] == b->shift[p]);
    }
    return same;
}

/* Where the elements are from that have some from a, and some from b. */
static Relation
of_both(const Tracer *t, const Relation *a, const Relation *b)
{
    Relation r = *a;
    if (a->kind == UNRELATED || b->kind == UNRELATED) {
        return a->kind == UNRELATED ? *b : *a;
    }
    if (a->kind != PLACED || b->kind != PLACED) {
        return same_relation(t, a, b) ? *a : moved;
    }
    for (int p = 0; p < t->old->type->rank; p++) {
        bool same = a->axis[p] == b->axis[p] && a->shift[p] == b->shift[p];
        r.axis[p] = same ? a->axis[p] : ANY_PLACE;
    }
    return r;
}

static Relation
of_map(const Tracer *t, const Let *let)
{
    Relation all = unrelated;
    for (int k = 0; k < let->nargs; k++) {
        all = of_both(t, &all, relation(t, let->args[k]));
    }
    return all;
}

static Relation
of_slice(const Tracer *t, const Let *let)
{
    Relation r = *relation(t, let->args[0]);
    int axis = (int)let_int(let, "axis");
    if (r.kind != PLACED || !dim_is(t->cx, let_dim(let, "step"), 1)) {
        return moved;
    }
    for (int p = 0; p < t->old->type->rank; p++) {
        if (r.axis[p] == axis) {
            r.shift[p] = dim_add(t->cx, r.shift[p], let_dim(let, "start"));
            r.axis[p] = dim_is(t->cx, let->res[0]->type->dims[axis], 1) ? ONE_PLACE : axis;
        }
    }
    return r;
}

/* Relates what a gather reads: along its axis the elements may be from any place. */
static Relation
of_gather(const Tracer *t, const Let *let)
{
    Relation r = *relation(t, let->args[0]);
    int axis = (int)let_int(let, "axis"), more = let->args[1]->type->rank - 1;
    if (r.kind != PLACED || relation(t, let->args[1])->kind != UNRELATED) {
        return moved;
    }
    for (int p = 0; p < t->old->type->rank; p++) {
        r.axis[p] = r.axis[p] == axis ? ANY_PLACE : r.axis[p] > axis ? r.axis[p] + more : r.axis[p];
    }
    return r;
}

static Relation
of_expand(const Tracer *t, const Let *let)
{
    Relation r = *relation(t, let->args[0]);
    const Attr *to = let_attr(let, "to");
    for (int p = 0; p < t->old->type->rank && r.kind == PLACED; p++) {
        r.axis[p] = r.axis[p] < 0 ? r.axis[p] : to->axes[r.axis[p]];
    }
    return r.kind == PLACED ? r : moved;
}

static Relation
of_permute(const Tracer *t, const Let *let)
{
    Relation r = *relation(t, let->args[0]);
    const Attr *perm = let_attr(let, "perm");
    for (int p = 0; p < t->old->type->rank && r.kind == PLACED; p++) {
        int at = 0;
        while (r.axis[p] >= 0 && perm->axes[at] != r.axis[p]) {
            at++;
        }
        r.axis[p] = r.axis[p] < 0 ? r.axis[p] : at;
    }
    return r.kind == PLACED ? r : moved;
}

/* The axes of `to` that correspond to the axes of `from`; both have the same axes apart from those
 * of one element. */
static bool
find_axes(Cx *cx, const Type *from, const Type *to, int *at)
{
    int k = 0;
    for (int ax = 0; ax < from->rank; ax++) {
        if (!dim_is(cx, from->dims[ax], 1)) {
            while (k < to->rank && dim_is(cx, to->dims[k], 1)) {
                k++;
            }
            if (k == to->rank || to->dims[k] != from->dims[ax]) {
                return false;
            }
            at[ax] = k++;
        }
    }
    while (k < to->rank && dim_is(cx, to->dims[k], 1)) {
        k++;
    }
    return k == to->rank;
}

static Relation
of_reshape(const Tracer *t, const Let *let)
{
    Relation r = *relation(t, let->args[0]);
    const Type *from = let->args[0]->type, *to = let->res[0]->type;
    int at[MAX_RANK];
    if (r.kind == PLACED && find_axes(t->cx, from, to, at)) {
        for (int p = 0; p < t->old->type->rank; p++) {
            r.axis[p] = r.axis[p] < 0 ? r.axis[p] : at[r.axis[p]];
        }
        return r;
    }
    if (r.kind == MOVED || (r.kind == PLACED && !same_relation(t, &r, &t->identity))) {
        return moved;
    }
    return type_same_shape(to, t->old->type) ? t->identity : (Relation){.kind = FLAT};
}

/* The older value's axis along which a part is in the cat, -1: there is none. */
static int
cat_axis(const Tracer *t, const Let *cat, int axis)
{
    int lone = -1;
    for (int p = t->old->type->rank - 1; p >= 0; p--) {
        for (int k = 0; k < cat->nargs; k++) {
            const Relation *r = relation(t, cat->args[k]);
            if (r->kind == PLACED && r->axis[p] == axis) {
                return p;
            }
            lone = r->kind == PLACED && r->axis[p] == ONE_PLACE &&
                           t->old->type->dims[p] == cat->res[0]->type->dims[axis]
                       ? p
                       : lone;
        }
    }
    return lone;
}

static bool
runs_along(Cx *cx, const Relation *r, int p, const Value *part, int axis)
{
    return r->axis[p] == axis || (r->axis[p] == ONE_PLACE && dim_is(cx, part->type->dims[axis], 1));
}

/* Relates a cat to the older value, whose parts must be in the cat as they are in that. */
static Relation
of_cat(const Tracer *t, const Let *cat)
{
    int axis = (int)let_int(cat, "axis"), p = cat_axis(t, cat, axis);
    Relation whole = unrelated;
    Dim at = dim_int(t->cx, 0);
    for (int k = 0; k < cat->nargs; k++) {
        Relation r = *relation(t, cat->args[k]);
        if (r.kind != UNRELATED) {
            if (r.kind != PLACED || p < 0 || !runs_along(t->cx, &r, p, cat->args[k], axis)) {
                return moved;
            }
            r.axis[p] = dim_is(t->cx, cat->res[0]->type->dims[axis], 1) ? ONE_PLACE : axis;
            r.shift[p] = dim_sub(t->cx, r.shift[p], at);
            if (whole.kind != UNRELATED && !same_relation(t, &r, &whole)) {
                return moved;
            }
            whole = r;
        }
        at = dim_add(t->cx, at, cat->args[k]->type->dims[axis]);
    }
    return whole;
}

static bool
is_one_element(const Tracer *t, const Type *type)
{
    bool one = true;
    for (int ax = 0; ax < type->rank; ax++) {
        one &= dim_is(t->cx, type->dims[ax], 1);
    }
    return one;
}

/* Is an operand of the scatter read before anything is stored where its elements are from?  One
 * element is stored after all that it needs; of a row, each after those of its own column. */
static bool
is_read_first(const Tracer *t, const Let *scatter, const Value *operand)
{
    const Relation *r = relation(t, operand);
    const Type *stored = scatter->args[2]->type;
    int axis = (int)let_int(scatter, "axis");
    bool first = r->kind == PLACED && dim_is(t->cx, stored->dims[axis], 1);
    for (int p = 0; p < t->old->type->rank && first; p++) {
        first = p == axis ||
                (r->axis[p] == t->identity.axis[p] && r->shift[p] == t->identity.shift[p]);
    }
    return first || r->kind == UNRELATED || is_one_element(t, stored);
}

/* Relates a scatter: the kernel's only result, which adds to the older value, or to one computed
 * from it, and reads what it needs of it first. */
static Relation
of_scatter(const Tracer *t, const Let *scatter)
{
    Dtype dtype = t->old->type->dtype;
    /* A scatter in a dtype that is computed in a wider one accumulates in a buffer of its own. */
    bool wide = let_op(scatter) != OP_store && dtype_info[dtype].compute != dtype;
    bool adds = !wide && t->kernel->nres == 1 && t->kernel->body->rets[0] == scatter->res[0] &&
                same_relation(t, relation(t, scatter->args[0]), &t->identity) &&
                is_read_first(t, scatter, scatter->args[1]) &&
                is_read_first(t, scatter, scatter->args[2]);
    return adds ? t->identity : moved;
}

static Relation
relation_of(const Tracer *t, const Let *let)
{
    bool all_unrelated = true;
    if (t->cut && t->cut[let->mark]) {
        return unrelated;
    }
    for (int k = 0; k < let->nargs; k++) {
        all_unrelated &= relation(t, let->args[k])->kind == UNRELATED;
    }
    if (all_unrelated || op_info[let->op].kind == KIND_RED) {
        return unrelated;
    }
    switch (let->op) {
    case OP_slice:
        return of_slice(t, let);
    case OP_gather:
        return of_gather(t, let);
    case OP_expand:
        return of_expand(t, let);
    case OP_permute:
        return of_permute(t, let);
    case OP_reshape:
        return of_reshape(t, let);
    case OP_cat:
        return of_cat(t, let);
    case OP_scatter:
        return of_scatter(t, let);
    default:
        return op_info[let->op].kind == KIND_MAP ? of_map(t, let) : moved;
    }
}

/* ---- what is stored ---- */

static Box
box_of(const Tracer *t, const Value *v, const Relation *placed)
{
    Box box;
    for (int p = 0; p < t->old->type->rank; p++) {
        int axis = placed->axis[p];
        Dim n = axis == ANY_PLACE ? t->old->type->dims[p]
                : axis < 0        ? dim_int(t->cx, 1)
                                  : v->type->dims[axis];
        box.lo[p] = axis == ANY_PLACE ? dim_int(t->cx, 0) : placed->shift[p];
        box.hi[p] = dim_add(t->cx, box.lo[p], n);
    }
    return box;
}

static void
add_stored(Tracer *t, const Value *v, const Relation *place)
{
    t->stored = cx_grow(t->cx, t->stored, t->nstored, sizeof *t->stored);
    t->stored[t->nstored++] = box_of(t, v, place);
}

/* Is it the older value or a view of it? */
static bool
is_view_of_old(const Tracer *t, const Value *v)
{
    while (v != t->old && is_inside(t, v) && value_is_view(v)) {
        v = v->def->args[0];
    }
    return v == t->old;
}

static void find_stored(Tracer *t, const Value *v, const Relation *place);

static void
find_stored_parts(Tracer *t, const Let *cat, const Relation *place)
{
    int axis = (int)let_int(cat, "axis"), p = 0;
    while (p < t->old->type->rank && place->axis[p] != axis) {
        p++;
    }
    if (p == t->old->type->rank) {
        add_stored(t, cat->res[0], place);
        return;
    }
    Relation part = *place;
    for (int k = 0; k < cat->nargs; k++) {
        Dim n = cat->args[k]->type->dims[axis];
        part.axis[p] = dim_is(t->cx, n, 1) ? ONE_PLACE : axis;
        find_stored(t, cat->args[k], &part);
        part.shift[p] = dim_add(t->cx, part.shift[p], n);
    }
}

/* The place of what a view of axes in another order shows, by that of the view; false: it is more
 * than such a view. */
static bool
place_behind(const Tracer *t, const Let *view, const Relation *place, Relation *out)
{
    int at[MAX_RANK];
    *out = *place;
    if (view->op == OP_permute) {
        memcpy(at, let_attr(view, "perm")->axes, (size_t)view->res[0]->type->rank * sizeof *at);
    } else if (view->op != OP_reshape ||
               !find_axes(t->cx, view->res[0]->type, view->args[0]->type, at)) {
        return false;
    }
    for (int p = 0; p < t->old->type->rank; p++) {
        out->axis[p] = place->axis[p] < 0 ? place->axis[p] : at[place->axis[p]];
    }
    return true;
}

/* Notes the elements of v that are stored; `place` is the position of v in the result. */
static void
find_stored(Tracer *t, const Value *v, const Relation *place)
{
    const Let *let = is_inside(t, v) ? v->def : NULL;
    Relation behind;
    if (is_view_of_old(t, v) && same_relation(t, relation(t, v), place)) {
        return;
    }
    if (let && let->op == OP_cat) {
        find_stored_parts(t, let, place);
    } else if (let && place_behind(t, let, place, &behind)) {
        find_stored(t, let->args[0], &behind);
    } else {
        add_stored(t, v, place);
    }
}

static bool
boxes_meet(const Tracer *t, const Box *a, const Box *b)
{
    bool disjoint = false;
    for (int p = 0; p < t->old->type->rank && !disjoint; p++) {
        disjoint = dim_le(t->cx, a->hi[p], b->lo[p]) || dim_le(t->cx, b->hi[p], a->lo[p]);
    }
    return !disjoint;
}

/* Does the value consist of elements that stay as they are? */
static bool
is_disjoint(const Tracer *t, const Value *v, const Relation *r)
{
    bool disjoint = r->kind == PLACED && t->stored;
    Box box = disjoint ? box_of(t, v, r) : (Box){0};
    for (int k = 0; k < t->nstored && disjoint; k++) {
        disjoint = !boxes_meet(t, &box, &t->stored[k]);
    }
    return disjoint;
}

static void
trace(Tracer *t)
{
    const Block *blk = t->kernel->body;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        t->of[k] = relation_of(t, let);
        if (let->nres && is_disjoint(t, let->res[0], &t->of[k])) {
            t->of[k] = unrelated;
        }
    }
}

bool
kernel_moves(Cx *cx, const Let *kernel, int result, const Value *old, const bool *cut)
{
    const Block *blk = kernel->body;
    Tracer t = {.cx = cx, .kernel = kernel, .old = old};
    bool moves = false;
    t.identity = relation_whole(&t);
    t.of = cx_alloc(cx, ((size_t)blk->n + 1) * sizeof *t.of);
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->mark = k;
    }
    trace(&t);
    find_stored(&t, blk->rets[result], &t.identity);
    t.cut = cut;
    trace(&t);
    for (int k = 0; k < blk->nrets; k++) {
        const Relation *r = relation(&t, blk->rets[k]);
        moves |= r->kind != UNRELATED && !same_relation(&t, r, &t.identity);
    }
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->mark = 0;
    }
    return moves;
}

/* ---- the function ---- */

static bool
same_layout(Cx *cx, const Value *a, const Value *b)
{
    Dim dense[MAX_RANK];
    type_dense(cx, a->type, dense);
    const Dim *x = a->strides ? a->strides : dense, *y = b->strides ? b->strides : dense;
    for (int ax = 0; ax < a->type->rank; ax++) {
        if (x[ax] != y[ax]) {
            return false;
        }
    }
    return true;
}

const char *
memory_wrong(const Fn *fn, const ValueUse *uses, int at, const Value *v)
{
    const Value *old = v->over;
    const Let *let = fn->body->lets[at];
    if (!is_writable(old) || !is_step(let)) {
        return "takes the memory of something else than a parameter or what a kernel, loop or "
               "branch made";
    }
    if (let_is_flow(let) && !keeps_place(let, v)) {
        return not_in_place;
    }
    if (old->type != v->type || !same_layout(fn->cx, v, old)) {
        return "has another type or other strides than the value that it is over";
    }
    if (old->strides && !strides_do_not_overlap(fn->cx, old->type, old->strides)) {
        return "is over a value whose elements may share memory";
    }
    if (uses[old->id].in_place > 1) {
        return "takes the memory that another result takes";
    }
    if (uses[old->id].last > at || uses[old->id].taken) {
        return "is over a value that is read later, or shared by a call";
    }
    if (uses[old->id].viewed >= at) {
        return "is over a value that its kernel reads through a view";
    }
    return NULL;
}

const char *
in_place_wrong(const Fn *fn, const ValueUse *uses, int at, const Value *v)
{
    const char *why = memory_wrong(fn, uses, at, v);
    if (why || let_is_flow(fn->body->lets[at])) {
        return why;
    }
    if (fn->stage == STAGE_LOOPS) {
        return in_place_wrong_loops(fn->cx, v);
    }
    if (kernel_loop(fn->body->lets[at])) {
        return keeps_place(fn->body->lets[at], v) ? NULL : not_in_place;
    }
    return kernel_moves(fn->cx, fn->body->lets[at], v->result, v->over, NULL)
               ? "is over a value whose elements its kernel moves"
               : NULL;
}
