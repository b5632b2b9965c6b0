/* Loops over a range that begins or ends at the number of another loop's step.
 *
 * What:     in the body of a loop that could be a kernel, each loop with while=1 that goes over a
 *           range, as `for j in range(i + 1, n)` does, gets a number of steps, and becomes a
 *           kernel.
 * Requires: a loop with a number of steps.
 * Ensures:  the same steps in the same order.  What is counted is no longer carried: kernels
 *           compute it from the numbers of the steps, which are sizes.
 * How:      A value is counted if it is a sum or product of sizes, integers and numbers of steps.
 *           What a loop carries is a counter if it begins so and each step adds an integer.  The
 *           bool says whether a counted value is less than another one; if their difference gets
 *           smaller by an integer with each step, it tells how many steps there are.  All of the
 *           nest, or nothing: a plan's body has no such sizes.
 * Why not   a condition in the loops stage: each step would ask for it, and an index that is
 *           carried would be checked, where one that is a size may be proved.
 * Example:  loop go, i + 1, a carries=2 while=1 (.., j: i64, c: ..) { .. ret j + 1 < N, j + 1, d }
 *           in step `at` of a loop is loop a carries=1 steps=[N - at - 1] (.., c: ..) { .. ret d }
 */
#include <stdio.h>
#include <string.h>

#include "writes.h"

/* What is known of a value of one function; by Value.id. */
typedef struct {
    Dim counted;                /* it is this; DIM_NONE: it is something else */
    Dim room;                   /* of a bool: it is true where this is more than 0 */
    bool gone;                  /* it is made no more: a let that reads it computes it again */
} Known;

typedef struct {
    const Fn *around;           /* the function with the outermost loop */
    int names;                  /* that were tried for numbers of steps */
} Nest;

typedef struct {
    Cx *cx;
    Nest *nest;
    Fn *fn;                     /* the function, which is changed */
    Known *known;
    int room;                   /* of known */
} Body;

static bool count_body(const Body *r);

static Known *
known_of(const Body *r, const Value *v)
{
    return value_is_const(v) || v->id >= r->room ? NULL : &r->known[v->id];
}

static Dim
counted(const Body *r, const Value *v)
{
    if (value_is_const(v)) {
        return v->literal.is_int ? dim_int(r->cx, v->literal.i) : DIM_NONE;
    }
    Known *k = known_of(r, v);
    return k ? k->counted : DIM_NONE;
}

/* ---- what is known ---- */

static bool
is_counter_type(Cx *cx, const Value *v)
{
    return v->type == type_scalar(cx, DT_i64);
}

/* a < b, or a <= b if `equal`. */
static Dim
room_between(Cx *cx, Dim a, Dim b, bool equal)
{
    Dim room = a == DIM_NONE || b == DIM_NONE ? DIM_NONE : dim_sub(cx, b, a);
    return room == DIM_NONE || !equal ? room : dim_add(cx, room, dim_int(cx, 1));
}

static void
see_plain(const Body *r, const Let *let)
{
    Cx *cx = r->cx;
    Known *k = let->nres == 1 ? known_of(r, let->res[0]) : NULL;
    if (!k || let->nargs > 2) {
        return;
    }
    if (let->op == OP_size) {
        k->counted = let_dim(let, "dim");
        return;
    }
    if (let->op == OP_const && is_counter_type(cx, let->res[0])) {
        k->counted = counted(r, let->args[0]);
    }
    if (let->nargs < 2) {
        return;
    }
    Dim a = counted(r, let->args[0]), b = counted(r, let->args[1]);
    switch (let->op) {
    case OP_add:
    case OP_sub:
    case OP_mul:
        if (a != DIM_NONE && b != DIM_NONE && is_counter_type(cx, let->res[0])) {
            k->counted = let->op == OP_add   ? dim_add(cx, a, b)
                         : let->op == OP_sub ? dim_sub(cx, a, b)
                                             : dim_mul(cx, a, b);
        }
        break;
    case OP_lt:
    case OP_le:
        k->room = room_between(cx, a, b, let->op == OP_le);
        break;
    case OP_gt:
    case OP_ge:
        k->room = room_between(cx, b, a, let->op == OP_ge);
        break;
    default:
        break;
    }
}

static void
see_kernel(const Body *r, const Let *kernel)
{
    for (int k = 0; k < kernel->body->n; k++) {
        see_plain(r, kernel->body->lets[k]);
    }
    for (int k = 0; k < kernel->nres; k++) {
        Known *of = known_of(r, kernel->body->rets[k]), *to = known_of(r, kernel->res[k]);
        if (of && to) {
            to->counted = of->counted;
            to->room = of->room;
        }
    }
}

static void
see_let(const Body *r, const Let *let)
{
    if (let->op == OP_kernel && !kernel_loop(let)) {
        see_kernel(r, let);
    } else {
        see_plain(r, let);
    }
}

static Body
body_new(Nest *nest, Fn *fn)
{
    Body r = {.cx = fn->cx, .nest = nest, .fn = fn, .room = fn->nvalues};
    r.known = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *r.known);
    for (int k = 0; k < r.room; k++) {
        r.known[k].counted = r.known[k].room = DIM_NONE;
    }
    return r;
}

/* ---- lets that compute it again ---- */

/* A let of the block, before position at, that makes the value. */
static Value *
made_again(Fn *fn, Block *blk, int at, const Value *v, Dim d)
{
    Cx *cx = fn->cx;
    Let *let = let_new(fn, OP_size, 0, NULL, 1, (Attr[]){attr_dim(cx, "dim", d)});
    Value *made = let_result(fn, let, fn_fresh_name(fn, v->name), v->type, NULL);
    block_append(cx, blk, let);
    memmove(blk->lets + at + 1, blk->lets + at, (size_t)(blk->n - 1 - at) * sizeof *blk->lets);
    blk->lets[at] = let;
    return made;
}

/* Has the kernel compute what it reads and is counted. */
static void
count_in_kernel(const Body *r, Let *kernel)
{
    Block *blk = kernel->body;
    Value **made = cx_alloc(r->cx, (size_t)r->room * sizeof *made);
    int n = 0;
    for (int k = 0; k < kernel->nres; k++) {
        const Value *over = kernel->res[k]->over;
        kernel->res[k]->over = over && r->known[over->id].gone ? NULL : over;
    }
    for (int k = 0; k <= blk->n; k++) {
        Value **uses = k < blk->n ? blk->lets[k]->args : blk->rets;
        int nuses = k < blk->n ? blk->lets[k]->nargs : blk->nrets;
        for (int j = 0; j < nuses; j++) {
            const Value *v = uses[j];
            bool outside = !value_is_const(v) && v->id < r->room &&
                           (!v->def || v->def->parent != blk);
            if (!outside || r->known[v->id].counted == DIM_NONE) {
                continue;
            }
            if (!made[v->id]) {
                made[v->id] = made_again(r->fn, blk, n++, v, r->known[v->id].counted);
                k++;
            }
            uses[j] = made[v->id];
        }
    }
}

/* The value, or a let before position *at that makes it, if it is gone. */
static Value *
value_at(const Body *r, Block *blk, int *at, Value *v)
{
    const Known *k = known_of(r, v);
    return k && k->gone ? made_again(r->fn, blk, (*at)++, v, k->counted) : v;
}

/* ---- a loop ---- */

static bool
has_name(const Fn *fn, const char *name)
{
    bool has = fn_has_name(fn, name, strlen(name));
    for (int k = 0; k < fn->nsizes && !has; k++) {
        has = strcmp(dim_name(fn->cx, fn->sizes[k]), name) == 0;
    }
    for (int k = 0; k < fn->body->n && !has; k++) {
        const Let *let = fn->body->lets[k], *loop = let->op == OP_loop ? let : kernel_loop(let);
        has = loop && has_name(loop->bodies[0], name);
        for (int j = 0; loop && j < loop->nsizes && !has; j++) {
            has = strcmp(dim_name(fn->cx, loop->sizes[j]), name) == 0;
        }
    }
    return has;
}

/* The number of a step as a size that no function of the nest has. */
static Dim
step_size(Nest *nest)
{
    Cx *cx = nest->around->cx;
    char name[32];
    do {
        snprintf(name, sizeof name, "at%d", nest->names++);
    } while (has_name(nest->around, name));
    return dim_size(cx, cx_intern(cx, name, strlen(name)));
}

/* What a step adds to each carried value that is a counter; DIM_NONE: it is none. */
static void
find_counters(const Body *outer, const Loop *loop, Dim *adds)
{
    Body r = body_new(outer->nest, (Fn *)loop->body);
    Cx *cx = r.cx;
    for (int k = 0; k < loop->carries; k++) {
        bool begins = counted(outer, loop_arg(loop, k)) != DIM_NONE;
        if (begins && is_counter_type(cx, loop_param(loop, k))) {
            r.known[loop_param(loop, k)->id].counted = dim_index(cx, "c", dim_int(cx, INT32_MAX));
        }
    }
    for (int k = 0; k < loop->body->body->n; k++) {
        see_let(&r, loop->body->body->lets[k]);
    }
    for (int k = 0; k < loop->carries; k++) {
        Dim before = counted(&r, loop_param(loop, k)), next = counted(&r, loop_next(loop, k));
        bool both = before != DIM_NONE && next != DIM_NONE;
        adds[k] = both ? dim_sub(cx, next, before) : DIM_NONE;
        if (both && !dim_is_int(cx, adds[k], NULL)) {
            adds[k] = DIM_NONE;
        }
    }
}

/* How many steps there are, if there is room for `first` before them, and in step `at` for `next`
 * behind it; DIM_NONE: the room does not get smaller by an integer. */
static Dim
steps_of(Cx *cx, Dim first, Dim next, Dim at)
{
    Dim less = first == DIM_NONE || next == DIM_NONE ? DIM_NONE : dim_sub(cx, first, next), by;
    Dim each;
    int64_t n;
    if (less == DIM_NONE || !dim_affine(cx, less, at, &each, &by) || each != by ||
        !dim_is_int(cx, by, &n) || n < 1) {
        return DIM_NONE;
    }
    return n == 1 ? first : dim_div(cx, dim_add(cx, first, dim_int(cx, n - 1)), by);
}

/* Takes away what `drop` says of the parameters, from the first one behind the number on. */
static void
drop_params(Fn *body, const bool *drop)
{
    int n = 1;
    for (int k = 1; k < body->nparams; k++) {
        if (!drop[k - 1]) {
            body->params[n] = body->params[k];
            body->params[n]->result = n;
            n++;
        }
    }
    body->nparams = n;
}

static void
drop_rets(Fn *body, const bool *drop)
{
    int n = 0;
    for (int k = 1; k < body->body->nrets; k++) { /* the bool is the first */
        if (!drop[k - 1]) {
            body->body->rets[n] = body->body->rets[k];
            body->results[n++] = body->results[k];
        }
    }
    body->body->nrets = n;
}

/* What a step is counted with: sizes in the body, and which operands the loop needs no more. */
static void
know_params(const Body *outer, const Body *r, const Loop *loop, const Dim *adds, Dim at, bool *drop)
{
    Cx *cx = r->cx;
    r->known[loop->body->params[0]->id].counted = at;
    for (int k = 0; k < loop->carries + loop->rows + loop->stays; k++) {
        bool carried = k < loop->carries, row = !carried && k < loop->carries + loop->rows;
        Dim first = row ? DIM_NONE : counted(outer, loop_arg(loop, k));
        if (first == DIM_NONE || (carried && adds[k] == DIM_NONE) ||
            !is_counter_type(cx, loop_param(loop, k))) {
            continue;
        }
        Known *of = &r->known[loop_param(loop, k)->id];
        of->counted = carried ? dim_add(cx, first, dim_mul(cx, adds[k], at)) : first;
        of->gone = drop[k] = true;
    }
}

/* The results behind the last step. */
static void
know_results(const Body *r, Let *let, const Loop *loop, const Dim *adds, Dim steps,
             const bool *drop)
{
    Cx *cx = r->cx;
    int n = 0;
    for (int k = 0; k < let->nres; k++) {
        if (k < loop->carries && drop[k]) {
            Known *of = &r->known[let->res[k]->id];
            Dim taken = dim_max(cx, steps, dim_int(cx, 0));
            of->counted = dim_add(cx, counted(r, loop_arg(loop, k)), dim_mul(cx, adds[k], taken));
            of->gone = true;
        } else {
            let->res[n] = let->res[k];
            let->res[n]->result = n;
            n++;
        }
    }
    let->nres = n;
}

/* Gives the let its operands, those that are gone made again before position *at. */
static void
set_args(const Body *r, Let *let, const Loop *loop, const bool *drop, int *at)
{
    Value **args = cx_alloc(r->cx, ((size_t)let->nargs + 1) * sizeof *args);
    int n = 0;
    for (int k = 0; k < loop->carries + loop->rows + loop->stays; k++) {
        if (!drop[k]) {
            args[n++] = value_at(r, let->parent, at, loop_arg(loop, k));
        }
    }
    let->args = args;
    let->nargs = n;
}

/* Counts the loop, which is let *at of the block of r; false: it is none over a range, or its body
 * has something that does not go into a kernel. */
static bool
count_loop(const Body *r, Let *let, int *at)
{
    Cx *cx = r->cx;
    Loop loop = let_loop(let);
    Fn *body = let->bodies[0];
    int operands = loop.carries + loop.rows + loop.stays, left = 0;
    Dim *adds = cx_alloc(cx, ((size_t)loop.carries + 1) * sizeof *adds);
    bool *drop = cx_alloc(cx, ((size_t)operands + 1) * sizeof *drop);
    if (let->nsizes || (loop.whiles && loop.counted)) {
        return false;
    }
    find_counters(r, &loop, adds);
    for (int k = 0; k < loop.carries && !loop.whiles; k++) {
        adds[k] = DIM_NONE; /* a step of its own makes it, and rows may be of it */
    }
    Body in = body_new(r->nest, body);
    Dim number = step_size(r->nest), steps = loop.steps;
    know_params(r, &in, &loop, adds, number, drop);
    if (!count_body(&in)) {
        return false;
    }
    if (loop.whiles) {
        const Known *first = known_of(r, let->args[0]), *next = known_of(&in, body->body->rets[0]);
        steps = first && next ? steps_of(cx, first->room, next->room, number) : DIM_NONE;
        if (steps == DIM_NONE) {
            return false;
        }
        drop_rets(body, drop);
    }
    drop_params(body, drop);
    fn_free_sizes(body);
    know_results(r, let, &loop, adds, steps, drop);
    set_args(r, let, &loop, drop, at);
    for (int k = 0; k < loop.carries; k++) {
        left += !drop[k];
    }
    let->attrs = cx_copy(cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
    for (int k = 0; k < let->nattrs; k++) {
        Attr *a = &let->attrs[k];
        *a = strcmp(a->key, "carries") == 0 ? attr_int(cx, a->key, left)
             : strcmp(a->key, "while") == 0 ? attr_int(cx, a->key, 0)
             : strcmp(a->key, "steps") == 0 ? attr_dims(cx, a->key, 1, &steps)
                                            : *a;
    }
    let->nsizes = 1;
    let->sizes = cx_copy(cx, &number, sizeof number);
    return true;
}

/* ---- a body ---- */

/* Counts the loops of the function, and makes them kernels. */
static bool
count_body(const Body *r)
{
    Block *blk = r->fn->body;
    bool good = true;
    for (int k = 0; k < blk->n && good; k++) {
        Let *let = blk->lets[k], *loop = (Let *)kernel_loop(let);
        if (let->op == OP_loop) {
            good = count_loop(r, let, &k) && let->nres && loop_is_little(r->cx, let);
            blk->lets[k] = good ? loop_as_kernel(r->fn, let) : let;
        } else if (loop) {
            for (int j = 0; j < loop->nargs; j++) {
                loop->args[j] = value_at(r, blk, &k, loop->args[j]);
            }
        } else {
            good = let->op == OP_size || let->op == OP_kernel;
            see_let(r, let);
            if (let->op == OP_kernel) {
                count_in_kernel(r, let);
            }
        }
    }
    for (int k = 0, at = blk->n; k < blk->nrets; k++) {
        blk->rets[k] = value_at(r, blk, &at, blk->rets[k]);
    }
    return good;
}

static bool
has_while(const Fn *body)
{
    bool has = false;
    for (int k = 0; k < body->body->n && !has; k++) {
        const Let *let = body->body->lets[k];
        has = let->op == OP_loop && (let_int(let, "while") || has_while(let->bodies[0]));
    }
    return has;
}

Let *
ranges_count(const Fn *fn, const Let *let)
{
    Cx *cx = fn->cx;
    Loop loop = let_loop(let);
    if (let->nsizes || !has_while(loop.body)) {
        return NULL;
    }
    Nest nest = {.around = fn};
    Body r = body_new(&nest, fn_clone(loop.body));
    Dim number = step_size(&nest);
    r.known[r.fn->params[0]->id].counted = number;
    if (!count_body(&r)) {
        return NULL;
    }
    fn_free_sizes(r.fn);
    Let *made = cx_copy(cx, let, sizeof *let);
    let_bodies(cx, made, 1, &r.fn);
    made->nsizes = 1;
    made->sizes = cx_copy(cx, &number, sizeof number);
    return made;
}
