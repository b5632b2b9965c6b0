/* Inside: a value that has a padded copy is read in the interior of that copy.
 *
 * What:     readers of a value read the inside of its padded copy, if that is in memory anyway
 *           because windows of it are read.
 * Requires  a verified graph without dead lets;
 * and ensures: the same values, bit for bit.  The pad is then the only reader of the value, whose
 *           maker stores it in the padded copy at once (pads.c).
 * How:      one walk over the pads with channels innermost.  The value's other readers come after
 *           the pad: they depend on it, or are contractions, which do not join the value's maker
 *           either.  They see the value itself, or slices of it with other orders of axes.
 *           O(pads * lets).
 * Why not   for other readers: arithmetic that does not need the pad joins the value's maker, and
 *           then reads it from no memory.
 * Why not   where rows are padded: loops along them would be cut into short ones.
 * Example:  p = pad x; y = contract (as_strided p), w; z = add x, y: z reads slice (slice p).
 */
#include "group.h"

#include <string.h>

typedef struct {
    const Fn *fn;
    bool *needs;                /* by Value.id: does it depend on the pad? */
    bool *views;                /* ...: the value, or a view of it that may be one of the copy */
} Inside;

/* Is it a border around a value that a kernel will make, with no border along rows? */
static bool
is_candidate(const Let *pad)
{
    const Value *v = pad->op == OP_pad ? pad->args[0] : NULL;
    int last = v ? v->type->rank - 1 : 0;
    return last > 0 && !value_is_const(v) && v->def && v->def->nres == 1 &&
           (op_info[v->def->op].kind == KIND_MAP || v->def->op == OP_contract) &&
           v->type->dims[last] == pad->res[0]->type->dims[last];
}

/* Does a let read windows of the pad? */
static bool
has_windows(const Inside *s, const Value *padded)
{
    bool any = false;
    for (int k = 0; k < s->fn->body->n; k++) {
        const Let *let = s->fn->body->lets[k];
        any |= let->op == OP_as_strided && let->args[0] == padded;
    }
    return any;
}

/* May the let, which comes after the pad and reads the value, read the copy?  A view may if those
 * that read it may. */
static bool
may_read(Inside *s, const Let *let, bool dependent)
{
    bool view = let->op == OP_slice || let->op == OP_permute;
    if (view) {
        s->views[let->res[0]->id] = true;
    }
    return view || let->op == OP_contract || (dependent && op_info[let->op].kind == KIND_MAP);
}

/* Reads the value's other readers; true: all of them, and there are some, may read the copy. */
static bool
can_move(Inside *s, int at)
{
    const Block *body = s->fn->body;
    const Let *pad = body->lets[at];
    bool any = false, good = true;
    memset(s->needs, 0, (size_t)s->fn->nvalues * sizeof *s->needs);
    memset(s->views, 0, (size_t)s->fn->nvalues * sizeof *s->views);
    s->views[pad->args[0]->id] = s->needs[pad->res[0]->id] = true;
    for (int k = 0; k < body->n && good; k++) {
        const Let *let = body->lets[k];
        bool reads = false, dependent = false;
        for (int j = 0; j < let->nargs; j++) {
            const Value *v = let->args[j];
            reads |= !value_is_const(v) && s->views[v->id];
            dependent |= !value_is_const(v) && s->needs[v->id];
        }
        for (int j = 0; j < let->nres; j++) {
            s->needs[let->res[j]->id] |= dependent;
        }
        good = !reads || let == pad || (k > at && may_read(s, let, dependent));
        any |= reads && let != pad;
    }
    for (int k = 0; k < body->nrets && good; k++) {
        good = value_is_const(body->rets[k]) || !s->views[body->rets[k]->id];
    }
    return any && good;
}

/* The inside of the padded value, in the new function. */
static Value *
inside_of(Build *b, const Let *pad, Value *padded)
{
    const Type *t = pad->args[0]->type;
    const Attr *lo = let_attr(pad, "lo");
    for (int ax = 0; ax < t->rank; ax++) {
        padded = build_slice(b, padded, ax, lo->dims[ax], dim_int(build_cx(b), 1), t->dims[ax]);
    }
    return padded;
}

Fn *
pass_inside(Fn *fn)
{
    Value **map;
    size_t n = (size_t)fn->nvalues + 1;
    Inside s = {
        .fn = fn,
        .needs = cx_alloc(fn->cx, n * sizeof *s.needs),
        .views = cx_alloc(fn->cx, n * sizeof *s.views),
    };
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        build_again(b, let, map);
        if (is_candidate(let) && has_windows(&s, let->res[0]) && can_move(&s, k) &&
            fuel_spend(fn->cx)) {
            build_at(b, let->loc);
            map[let->args[0]->id] = inside_of(b, let, map[let->res[0]->id]);
        }
    }
    return rebuild_close(fn, out, map);
}
