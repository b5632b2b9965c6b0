/* In place: what becomes of a value that dies is stored where the value is.
 *
 * What:     a kernel's result takes the memory of an older value ("over"), where ir/alias.c says
 *           that it may: of the parameter that it goes into or, where the result is another
 *           kernel's result, or what the body of a loop or branch takes, with a part replaced
 *           (slices, positions, a mask), of that.  Then the kernel stores the part alone.  A loop
 *           or branch whose bodies do so takes the memory of its operand.
 * Requires  verified kernels;
 * and ensures: what each parameter is in the end, and what is returned.  A function that fails may
 * have
 *           changed parameters by then, as an eager program has; a kernel that looks something up
 *           stores elsewhere, so that it changes all of a parameter or nothing, and a scatter what
 *           eager's does, or less.
 * How:      split.c first makes two kernels of those that would store over what they still read;
 *           then each result that keeps elements of a value whose last reader its kernel is; and
 *           each result into a parameter: of the values in its memory the oldest one that may be in
 *           the parameter's is there, and with it all that come after.  O(lets), from the table of
 *           who reads which value.
 * Why not   always into memory of its own, copied in the end: an optimiser's step moves twice the
 *           bytes, and one row written to a cache of two thousand moves the cache.  Every result
 *           over any operand that dies: where nothing is kept, no byte less is stored, and the
 *           workspace has the memory again anyway.
 * Example:  p.sub_(g * 0.1): let p1: f32[N] over p = kernel { .. }
 *           y = x.exp(); y[2:5] = 0: let y1: f32[N] over y = kernel { .. }
 */
#include "writes.h"

/* Could the kernel stop when its results are half stored?  A half-done scatter is allowed: eager
 * leaves the same, or more. */
static bool
may_fail(const void *arg, const Let *let)
{
    (void)arg;
    return let_is_flow(let) || (let->nargs && op_reads(let->op, 0) == 'd');
}

static bool
makes_memory(const Let *let)
{
    return let->op == OP_kernel || let_is_flow(let);
}

static void
scan(Writes *s)
{
    const Fn *fn = s->fn;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; makes_memory(let) && j < let->nres; j++) {
            s->place[let->res[j]->id] = k + 1;
        }
        for (int j = 0; let->op == OP_call && let_int(let, "shares") && j < let->nargs; j++) {
            const Value *root = value_root(let->args[j]);
            if (root) {
                s->shared[root->id] = true;
            }
        }
        if (op_info[let->op].kind == KIND_VIEW && !value_is_const(let->args[0])) {
            s->viewed[let->args[0]->id] = true;
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        s->returned[fn->body->rets[k]->id]++;
    }
}

/* ---- over values that die ---- */

static bool
keeps_of(const Writes *s, const Let *let, int from, int upto)
{
    bool keeps = false;
    for (int k = from; k < upto && !keeps; k++) {
        const Value *v = let->args[k];
        keeps = !value_is_const(v) && s->keeps[v->id] == s->question;
    }
    return keeps;
}

bool
keeps_part(Writes *s, const Let *kernel, const Value *v, const Value *old)
{
    bool replaces = false;
    s->keeps[old->id] = ++s->question;
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        bool joins = let->op == OP_cat || let->op == OP_where, view = value_is_view(let->res[0]);
        int from = let->op == OP_where;
        if ((joins && keeps_of(s, let, from, let->nargs)) ||
            ((view || let->op == OP_scatter) && keeps_of(s, let, 0, 1))) {
            s->keeps[let->res[0]->id] = s->question;
            replaces |= !view;
        }
    }
    return replaces && s->keeps[v->id] == s->question;
}

/* Is result k of the let the older value with a part replaced, or what the bodies leave of it? */
static bool
is_part_of(Writes *s, const Let *let, int k, const Value *old)
{
    if (let->op == OP_kernel) {
        return keeps_part(s, let, let->body->rets[k], old);
    }
    int kept = flow_takes(let, k);
    return kept >= 0 && let->args[kept] == old;
}

static bool
takes_memory_of(Writes *s, int at, int result, const Value *old)
{
    const Let *let = s->fn->body->lets[at];
    Value *v = let->res[result];
    if (value_is_const(old) || !old->def || !makes_memory(old->def) || old->type != v->type ||
        s->uses[old->id].last > at || s->uses[old->id].in_place ||
        !is_part_of(s, let, result, old)) {
        return false;
    }
    v->over = old;
    if (in_place_wrong(s->fn, s->uses, at, v) || (s->decides && !fuel_spend(s->fn->cx))) {
        v->over = NULL;
        return false;
    }
    s->uses[old->id].in_place++;
    return true;
}

static bool
takes_operand(Writes *s, int at, int result, const Let *let)
{
    bool taken = false;
    for (int j = 0; j < let->nargs && !taken; j++) {
        taken = takes_memory_of(s, at, result, let->args[j]);
    }
    return taken;
}

static void
take_memory(Writes *s, int at, int result)
{
    const Let *let = s->fn->body->lets[at];
    bool taken = let_is_flow(let) && takes_operand(s, at, result, let);
    for (int k = 0; let->body && k < let->body->n && !taken; k++) {
        taken = takes_operand(s, at, result, let->body->lets[k]);
    }
}

/* ---- over parameters ---- */

/* May v, and all that takes its memory up to `last`, be where the parameter is, as far as their
 * readers are concerned?  whole: a call that fails has changed all of the parameter or nothing. */
static bool
fits_param(const Writes *s, const Value *last, const Value *v, const Value *param, bool whole)
{
    bool fits = true;
    for (const Value *at = last; fits; at = at->over) {
        /* the views say how the value would be in memory of its own */
        bool laid = !s->viewed[at->id] || at->strides == param->strides;
        fits = makes_memory(at->def) && laid && !(whole && let_any(at->def, may_fail, NULL));
        if (at == v) {
            break;
        }
    }
    return fits;
}

static void
set_strides(Value *last, const Value *v, const Dim *strides)
{
    for (Value *at = last;; at = (Value *)at->over) { /* made by this function: not const */
        at->strides = strides;
        if (at == v) {
            break;
        }
    }
}

static bool
place_at(Writes *s, Value *last, Value *v, const Value *param, bool whole)
{
    const Dim *strides = v->strides;
    const Value *over = v->over;
    if (!fits_param(s, last, v, param, whole)) {
        return false;
    }
    set_strides(last, v, param->strides);
    v->over = param;
    if (in_place_wrong(s->fn, s->uses, s->place[v->id] - 1, v) || !fuel_spend(s->fn->cx)) {
        v->over = over;
        set_strides(last, v, strides);
        return false;
    }
    return true;
}

/* The value that has the memory after v, on the way to `last`. */
static Value *
next_in_memory(Value *last, const Value *v)
{
    while (last->over != v) {
        last = (Value *)last->over;
    }
    return last;
}

/* Does nobody but the caller take v, which a kernel makes, and only once? */
static bool
is_placed_freely(const Writes *s, const Value *v)
{
    return s->place[v->id] && s->returned[v->id] == 1 && !s->shared[v->id];
}

/* The oldest of the values in the memory of `last`. */
static Value *
first_in_memory(Value *last)
{
    while (last->over && last->over->def) {
        last = (Value *)last->over;
    }
    return last;
}

static void
place(Writes *s, Value *last, const Value *param)
{
    Value *v = first_in_memory(last);
    if (!is_placed_freely(s, last)) {
        return;
    }
    bool placed = v->over || place_at(s, last, v, param, true);
    while (!placed && v != last) {
        v = next_in_memory(last, v);
        placed = place_at(s, last, v, param, true);
    }
}

/* What a body returns stays where the parameter is, if that is it or it replaces a part of it.
 * Nobody but the loop or branch sees that memory, so a body that fails may have changed a part. */
static void
place_stay(Writes *s, Value *last, const Value *param)
{
    if (value_is_const(last) || !is_placed_freely(s, last)) {
        return;
    }
    Value *v = first_in_memory(last);
    const Block *kernel = v->def->body;
    bool same = kernel && kernel->rets[v->result] == param;
    if (!v->over && makes_memory(v->def) && s->uses[param->id].last >= 0 &&
        !s->uses[param->id].in_place && (same || is_part_of(s, v->def, v->result, param))) {
        place_at(s, last, v, param, false);
        s->uses[param->id].in_place += v->over == param;
    }
}

static void
place_body(Writes *s, const Let *owner)
{
    const Fn *fn = s->fn;
    Loop loop = owner->op == OP_loop ? let_loop(owner) : (Loop){0};
    for (int k = 0; k < loop.carries; k++) {
        place_stay(s, fn->body->rets[loop.whiles + k], fn->params[1 + k]);
    }
    for (int k = 0; k < fn->body->nrets && owner->op == OP_branch; k++) {
        for (int j = 0; j < fn->nparams; j++) {
            place_stay(s, fn->body->rets[k], fn->params[j]);
        }
    }
}

static Writes
writes_of(Fn *fn)
{
    Cx *cx = fn->cx;
    size_t n = (size_t)fn->nvalues + 1;
    Writes s = {
        .fn = fn,
        .uses = value_uses(fn),
        .place = cx_alloc(cx, n * sizeof *s.place),
        .returned = cx_alloc(cx, n * sizeof *s.returned),
        .viewed = cx_alloc(cx, n * sizeof *s.viewed),
        .shared = cx_alloc(cx, n * sizeof *s.shared),
        .keeps = cx_alloc(cx, n * sizeof *s.keeps),
    };
    scan(&s);
    return s;
}

static void
take_all(Writes *s)
{
    for (int k = 0; k < s->fn->body->n; k++) {
        const Let *let = s->fn->body->lets[k];
        for (int j = 0; makes_memory(let) && j < let->nres; j++) {
            take_memory(s, k, j);
        }
    }
}

Fn *
pass_in_place(Fn *fn)
{
    const Let *owner = fn->owner;
    Writes s = writes_of(fn);
    take_all(&s);
    fn = split_writes(&s);
    s = writes_of(fn);
    s.decides = true;
    take_all(&s);
    for (int k = 0; k < fn->body->nrets; k++) {
        if (fn->results[k].kind == RESULT_INTO && !value_is_const(fn->body->rets[k])) {
            place(&s, fn->body->rets[k], fn->params[fn->results[k].of]);
        }
    }
    if (owner) {
        place_body(&s, owner);
    }
    return fn;
}
