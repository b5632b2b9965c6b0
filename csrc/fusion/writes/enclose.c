/* Loops of little steps become kernels.
 *
 * What:     a loop of the function whose body has kernels alone, each of them with little to do,
 *           becomes a kernel that is that loop.  Its steps are then no launches: the kernel runs
 *           them one after the other.
 * Requires: bodies in which in_place has decided what is carried in place (fusion/writes).
 * Ensures:  the same operations in the same order; the results are over what they were over.
 * How:      Bodies come first (ir/pass.c), so loops in loops become one kernel, from the innermost
 *           one outwards.  What a step computes and moves must be known to be little: less than
 *           what several threads would share.
 * Why not   loops of any steps: a step that is long is better a launch whose rows threads share.
 * Example:  let y: f64[N] over a = loop a, x carries=1 steps=[N - 1] (..) { .. } becomes
 *           let y: f64[N] over a = kernel { let t: f64[N] = loop a, x .. { .. }  ret t }
 */
#include "ir/costs.h"
#include "writes.h"

/* The most elements of a type; INT64_MAX: nothing says how many. */
static int64_t
most_elements(Cx *cx, const Type *t)
{
    int64_t n = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        int64_t most = dim_range(cx, t->dims[ax]).hi;
        n = most == DIM_INF || __builtin_mul_overflow(n, most, &n) ? INT64_MAX : n;
        if (n == INT64_MAX) {
            return n;
        }
    }
    return n;
}

/* The most elements that a let of a kernel computes, moves or adds. */
static int64_t
most_of_let(Cx *cx, const Let *let)
{
    switch (op_info[let->op].kind) {
    case KIND_VIEW:
        return 0;
    case KIND_RED:
        return most_elements(cx, let->args[0]->type);
    default:
        return let->op == OP_scatter                  ? most_elements(cx, let->args[2]->type)
               : op_info[let->op].fuses == FUSES_FREE ? 0
               : let->op == OP_contract               ? INT64_MAX
                                                      : most_elements(cx, let->res[0]->type);
    }
}

/* Does the kernel have little to do?  One that is a loop goes step by step in any case. */
static bool
is_little(Cx *cx, const Let *kernel)
{
    int64_t all = 0;
    if (kernel_loop(kernel)) {
        return true;
    }
    for (int k = 0; k < kernel->body->n && all <= COST_STEP; k++) {
        int64_t n = most_of_let(cx, kernel->body->lets[k]);
        all = n > COST_STEP ? n : all + n;
    }
    for (int k = 0; k < kernel->nres && all <= COST_STEP; k++) {
        const Let *made = kernel->body->rets[k]->def;
        bool scatters = made && made->parent == kernel->body && made->op == OP_scatter &&
                        kernel->res[k]->over;
        int64_t n = scatters ? 0 : most_elements(cx, kernel->res[k]->type);
        all = n > COST_STEP ? n : all + n;
    }
    return all <= COST_STEP;
}

/* Is what the body returns as result k made where the next step, or the reader of the rows, finds
 * it? */
static bool
is_in_place(const Loop *loop, int k)
{
    const Value *v = loop->body->body->rets[k];
    bool own = v->def && !v->over;
    while (v->over) {
        v = v->over;
    }
    return k < loop->carries ? v == loop->body->params[1 + k] : own;
}

/* Is what a step does little: its kernels, and the copies of values that the body returns and has
 * in another place? */
bool
loop_is_little(Cx *cx, const Let *let)
{
    Loop of = let_loop(let);
    const Loop *loop = &of;
    const Block *body = loop->body->body;
    bool good = true;
    for (int k = 0; k < body->n && good; k++) {
        const Let *part = body->lets[k];
        good = part->op == OP_size || (part->op == OP_kernel && is_little(cx, part));
        for (int j = 0; j < part->nres; j++) {
            good &= !part->res[j]->strides; /* the loops have their own memory for it */
        }
    }
    for (int k = 0; k < body->nrets && good; k++) {
        good = is_in_place(loop, k) || most_elements(cx, body->rets[k]->type) <= COST_STEP;
    }
    return good;
}

/* The kernel has the results, and the loop in it new ones. */
Let *
loop_as_kernel(Fn *fn, Let *loop)
{
    Cx *cx = fn->cx;
    Let *kernel = let_new(fn, OP_kernel, 0, NULL, 0, NULL);
    Block *body = cx_alloc(cx, sizeof *body);
    kernel->loc = loop->loc;
    kernel->parent = loop->parent;
    kernel->body = body;
    kernel->res = loop->res;
    kernel->nres = loop->nres;
    body->owner = kernel;
    body->rets = cx_alloc(cx, (size_t)loop->nres * sizeof(Value *));
    loop->res = NULL;
    loop->nres = 0;
    for (int k = 0; k < kernel->nres; k++) {
        Value *v = kernel->res[k];
        v->def = kernel;
        body->rets[body->nrets++] = let_result(fn, loop, NULL, v->type, NULL);
    }
    block_append(cx, body, loop);
    return kernel;
}

/* The loop as it is in a kernel; NULL: it stays where it is. */
static Let *
enclosed(Fn *fn, Let *let)
{
    Cx *cx = fn->cx;
    Loop loop = let->op == OP_loop ? let_loop(let) : (Loop){0};
    if (let->op != OP_loop || !loop.counted || loop.whiles || !let->nres) {
        return NULL;
    }
    Let *in = loop_is_little(cx, let) ? let : ranges_count(fn, let);
    return in && loop_is_little(cx, in) && fuel_spend(cx) ? in : NULL;
}

Fn *
pass_enclose(Fn *fn)
{
    Block *blk = fn->body;
    for (int k = 0; k < blk->n; k++) {
        Let *in = enclosed(fn, blk->lets[k]);
        if (in) {
            blk->lets[k] = loop_as_kernel(fn, in);
        }
    }
    return fn;
}
