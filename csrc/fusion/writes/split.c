/* Splitting writes: the part that is written is computed before anything is stored over what it is
 * computed of.
 *
 * What:     a kernel that replaces a part of a value which dies, by values computed of elements at
 *           other positions, becomes two: one makes the new part, the other stores it in place.
 * Requires  verified kernels, each result that may be in place as it is bound over the older value;
 * and ensures: the same values, bit for bit, and no result is bound over another value.
 * How:      the parts are the leaves of the tree of cats that makes the result.  A leaf has to be
 *           made before if the result, with the other leaves cut off, has elements of the older
 *           value at other positions (kernel_moves).  It is worth it where two more stores and
 *           loads of these parts are fewer bytes than a whole new value: if the parts are less than
 *           half of it, or if the value is a parameter to which it would be copied back, or that a
 *           loop carries.
 *           O(lets) for each leaf.
 * Why not   in the fuse pass: whether the older value dies is known when all kernels are. Always: a
 *           stencil over nearly all of an array reads one array and writes another, in turn.
 *           A buffer in the kernel: its phases would be the same loops, and which of them store in
 *           place would be decided after this pass.
 * Example:  x[1:9] += x[:8], x of 100 elements: kernel { add of slices }, and
 *           let y: f32[100] over x = kernel { cat x[:1], that, x[9:] }.
 */
#include "fusion/group.h"
#include "writes.h"

#include <string.h>

typedef struct {
    Writes *s;
    const Let *kernel;          /* NULL: the let stays */
    const Value *old;
    bool *leaf, *cut;           /* by position in the kernel's body */
} Split;

typedef struct {
    Writes *s;
    int *at; /* by Value.id of a kernel's own values: 1 + position in its body */
    const Value **next; /* by Value.id: the value that takes its memory */
    bool *linked; /* by Value.id: it takes the memory of another */
    Split *splits; /* by position of the kernel */
    bool any;
} Splitting;

static const Let *
let_inside(const Let *kernel, const Value *v)
{
    bool inside = !value_is_const(v) && v->def && v->def->parent == kernel->body;
    return inside ? v->def : NULL;
}

static void
find_leaves(const Splitting *p, Split *split, const Value *v)
{
    const Let *let = let_inside(split->kernel, v);
    if (!let) {
        return;
    }
    bool joins = let->op == OP_cat || let->op == OP_scatter || let->op == OP_reshape ||
                 let->op == OP_permute;
    for (int k = 0; joins && k < let->nargs; k++) {
        find_leaves(p, split, let->args[k]);
    }
    split->leaf[p->at[v->id] - 1] |= !joins;
}

/* Has the leaf elements of the older value that the result has at other positions? */
static bool
leaf_moves(const Split *split, int leaf)
{
    int n = split->kernel->body->n;
    bool *cut = cx_copy(split->s->fn->cx, split->leaf, (size_t)n * sizeof *cut);
    cut[leaf] = false;
    return kernel_moves(split->s->fn->cx, split->kernel, 0, split->old, cut);
}

/* Returns the bytes of the leaves to cut off; -1: then it would still move elements. */
static int64_t
cut_leaves(Split *split)
{
    Cx *cx = split->s->fn->cx;
    const Block *body = split->kernel->body;
    int64_t bytes = 0;
    for (int k = 0; k < body->n; k++) {
        split->cut[k] = split->leaf[k] && leaf_moves(split, k);
        bytes += split->cut[k] ? type_typical_bytes(cx, body->lets[k]->res[0]->type) : 0;
    }
    return kernel_moves(cx, split->kernel, 0, split->old, split->cut) ? -1 : bytes;
}

/* May v, in the body of a loop or branch, stay in the memory of the parameter?  It is the next
 * value of what a loop carries in it, or what a branch returns. */
static bool
stays(const Fn *fn, const Value *v, const Value *param)
{
    bool loops = fn->owner && fn->owner->op == OP_loop, found = false;
    Loop loop = loops ? let_loop(fn->owner) : (Loop){0};
    for (int k = 0; k < loop.carries; k++) {
        found |= fn->body->rets[loop.whiles + k] == v && fn->params[1 + k] == param;
    }
    for (int k = 0; k < fn->body->nrets && fn->owner && !loops; k++) {
        found |= fn->body->rets[k] == v;
    }
    return found;
}

/* Is the result, perhaps with more parts replaced in place, what goes into the parameter? */
static bool
goes_into(const Splitting *p, const Value *v, const Value *param)
{
    const Fn *fn = p->s->fn;
    while (p->next[v->id]) {
        v = p->next[v->id];
    }
    bool goes = stays(fn, v, param);
    for (int k = 0; k < fn->body->nrets && !goes; k++) {
        goes = fn->results[k].kind == RESULT_INTO && fn->params[fn->results[k].of] == param &&
               fn->body->rets[k] == v;
    }
    return goes;
}

static bool
is_candidate(const Splitting *p, int at, Value *v, const Value *old)
{
    const Fn *fn = p->s->fn;
    if (value_is_const(old) || old->type != v->type || p->s->uses[old->id].last > at ||
        p->s->uses[old->id].in_place || (!old->def && !goes_into(p, v, old))) {
        return false;
    }
    const Dim *strides = v->strides;
    v->over = old;
    v->strides = old->def || p->s->viewed[v->id] ? strides : old->strides;
    bool may = !memory_wrong(fn, p->s->uses, at, v);
    v->over = NULL;
    v->strides = strides;
    return may && keeps_part(p->s, fn->body->lets[at], fn->body->lets[at]->body->rets[0], old);
}

static bool
find_split(Splitting *p, int at, const Value *old)
{
    Cx *cx = p->s->fn->cx;
    const Let *kernel = p->s->fn->body->lets[at];
    size_t n = (size_t)kernel->body->n + 1;
    if (!is_candidate(p, at, kernel->res[0], old)) {
        return false;
    }
    Split split = {.s = p->s,
                   .kernel = kernel,
                   .old = old,
                   .leaf = cx_alloc(cx, n * sizeof *split.leaf),
                   .cut = cx_alloc(cx, n * sizeof *split.cut)};
    find_leaves(p, &split, kernel->body->rets[0]);
    int64_t bytes = cut_leaves(&split), all = type_typical_bytes(cx, old->type);
    if (bytes <= 0 || bytes >= all || (old->def && bytes > all / 2) || !fuel_spend(cx)) {
        return false;
    }
    p->splits[at] = split;
    p->any = true;
    return true;
}

static void
find_splits(Splitting *p, int at)
{
    const Block *body = p->s->fn->body->lets[at]->body;
    bool found = false;
    for (int k = 0; k < body->n; k++) {
        p->at[body->lets[k]->res[0]->id] = k + 1;
    }
    for (int k = 0; k < body->n && !found; k++) {
        for (int j = 0; j < body->lets[k]->nargs && !found; j++) {
            found = find_split(p, at, body->lets[k]->args[j]);
        }
    }
}

/* ---- two kernels of one ---- */

/* Marks the lets that v is made of; those that are cut off, if `stops`, are not. */
static void
need(const Splitting *p, const Split *split, const Value *v, bool stops, bool *needed)
{
    const Let *let = let_inside(split->kernel, v);
    int at = let ? p->at[v->id] - 1 : 0;
    if (!let || needed[at] || (stops && split->cut[at])) {
        return;
    }
    needed[at] = true;
    for (int k = 0; k < let->nargs; k++) {
        need(p, split, let->args[k], stops, needed);
    }
}

/* Builds a kernel with the lets that v is computed from. */
static Value *
build_part(const Splitting *p, Build *b, const Split *split, const Value *v, bool stops,
           Value *const *map)
{
    const Fn *fn = p->s->fn;
    const Block *old = split->kernel->body;
    bool *needed = cx_alloc(fn->cx, ((size_t)old->n + 1) * sizeof *needed);
    Value **inner = cx_copy(fn->cx, map, ((size_t)fn->nvalues + 1) * sizeof *inner);
    need(p, split, v, stops, needed);
    Block *body = build_open(b);
    for (int k = 0; k < old->n; k++) {
        if (needed[k]) {
            build_at(b, old->lets[k]->loc);
            build_again(b, old->lets[k], inner);
        }
    }
    build_close(b, 1, &inner[v->id]);
    build_at(b, split->kernel->loc);
    return build_let(b, OP_kernel, 0, NULL, NULL, body, 1, &v->type, NULL)->res[0];
}

static void
build_split(const Splitting *p, Build *b, const Split *split, Value **map)
{
    const Block *body = split->kernel->body;
    Value *v = split->kernel->res[0];
    for (int k = 0; k < body->n; k++) {
        const Value *part = body->lets[k]->res[0];
        if (split->cut[k]) {
            map[part->id] = build_part(p, b, split, part, false, map);
        }
    }
    map[v->id] = build_part(p, b, split, body->rets[0], true, map);
    map[v->id]->strides = v->strides;
}

/* ---- the function ---- */

/* Notes who takes whose memory, and takes that back. */
static void
take_back(const Splitting *p)
{
    for (int k = 0; k < p->s->fn->body->n; k++) {
        const Let *let = p->s->fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            Value *v = let->res[j];
            if (v->over) {
                p->next[v->over->id] = v;
                p->linked[v->id] = true;
                v->over = NULL;
            }
        }
    }
}

Fn *
split_writes(Writes *s)
{
    Fn *fn = s->fn;
    size_t n = (size_t)fn->nvalues + 1;
    Splitting p = {
        .s = s,
        .at = cx_alloc(fn->cx, n * sizeof *p.at),
        .next = cx_alloc(fn->cx, n * sizeof *p.next),
        .linked = cx_alloc(fn->cx, n * sizeof *p.linked),
        .splits = cx_alloc(fn->cx, ((size_t)fn->body->n + 1) * sizeof *p.splits),
    };
    take_back(&p);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->op == OP_kernel && let->nres == 1 && !p.linked[let->res[0]->id]) {
            find_splits(&p, k);
        }
    }
    if (!p.any) {
        return fn;
    }
    Value **map;
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (p.splits[k].kernel) {
            build_split(&p, b, &p.splits[k], map);
        } else {
            build_again(b, let, map);
            rebuild_strides(let, map);
        }
    }
    return rebuild_close(fn, out, map);
}
