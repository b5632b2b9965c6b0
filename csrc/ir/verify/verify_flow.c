/* The verifier's rules V30 to V32, V47 and V59: loops and branches. */
#include "verify.h"

static void
check_body(Verifier *v, const Fn *body)
{
    const Let *let = v->let;
    if (body->stage != v->fn->stage) {
        verify_broken(v, 30, "the body is of the %s stage", stage_name(body->stage));
    }
    for (int k = 0; k < body->nparams; k++) {
        if (body->params[k]->strides || body->params[k]->given) {
            verify_broken(v, 30, "parameter '%s' of the body has strides, or is given",
                          body->params[k]->name);
        }
    }
    for (int k = 0; k < body->body->nrets; k++) {
        if (body->results[k].kind != RESULT_FRESH || body->results[k].strides) {
            verify_broken(v, 30, "result %d of the body is not a fresh dense one", k);
        }
    }
    verify_dims(v, body->nsizes, body->sizes);
    bool after = let->op == OP_loop && let->nsizes && let_int(let, "while");
    for (int k = 0; k < body->nsizes && after; k++) {
        if (body->sizes[k] == let->sizes[0]) {
            verify_broken(v, 30, "the body has the size %s, which is known after the last step",
                          dim_name(v->cx, body->sizes[k]));
        }
    }
    verify_fn(body);
    v->let = let;
    cx_set_loc(v->cx, let->loc);
}

static const Value *
taker_of(const Fn *body, const Value *v)
{
    for (int k = 0; k < body->body->n; k++) {
        const Let *let = body->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            if (let->res[j]->over == v) {
                return let->res[j];
            }
        }
    }
    return NULL;
}

/* The operands stay as they are.  What a loop carries from step to step is its own: it may become
 * the next value in place.  So is the memory of what a branch returns. */
static void
check_taken(Verifier *v, const Let *let, const Fn *body)
{
    int carries = let->op == OP_loop ? (int)let_int(let, "carries") : 0,
        whiles = let->op == OP_loop ? (int)let_int(let, "while") : 0;
    for (int k = 0; k < body->nparams; k++) {
        const Value *last = taker_of(body, body->params[k]);
        for (const Value *next = last; next; next = taker_of(body, next)) {
            last = next;
        }
        bool fits = k >= 1 && k <= carries && body->body->rets[whiles + k - 1] == last;
        for (int j = 0; j < body->body->nrets && let->op == OP_branch; j++) {
            fits |= body->body->rets[j] == last;
        }
        if (last && !fits) {
            verify_broken(v, 30,
                          "'%s' of the body takes the memory of '%s', and is not its next value",
                          last->name, body->params[k]->name);
        }
    }
}

static void
check_counts(Verifier *v, const Let *let)
{
    const Attr *steps = let_attr(let, "steps");
    int64_t whiles = let_int(let, "while"), carries = let_int(let, "carries"),
            rows = let_int(let, "rows");
    bool counted = steps->n == 1, whole = whiles == 0 || whiles == 1;
    if (!whole || carries < 0 || rows < 0 || steps->n > 1 || (!counted && !whiles)) {
        verify_broken(v, 30, "a loop has a number of steps, or while=1, or both");
    }
    if (carries > let->nargs || rows > let->nargs || whiles + carries + rows > let->nargs) {
        verify_broken(v, 30, "the loop has %d operands, and needs more", let->nargs);
    }
    if (carries > let->nres || (whiles && rows)) {
        verify_broken(v, 30, "a loop returns its carried values; one with while=1 reads no rows");
    }
    bool stacks = whiles && let->nres > carries;
    if (whiles ? let->nsizes != stacks : let->nsizes > 1) {
        verify_broken(v, 30,
                      "a loop binds one size if it has while=1 and stacks rows, else at most one: "
                      "not %d",
                      let->nsizes);
    }
}

void
verify_flow_form(Verifier *v, const Let *let)
{
    bool branch = let->op == OP_branch;
    if (let->nbodies != (branch ? 2 : 1)) {
        verify_broken(v, 30, "the op has %d bodies", let->nbodies);
    }
    for (int k = 0; k < let->nargs; k++) {
        if (value_is_const(let->args[k])) {
            verify_broken(v, 30, "operand %d must be a name", k);
        }
    }
    for (int k = 0; k < let->nres; k++) {
        if (let->res[k]->strides) {
            verify_broken(v, 30, "result %d of the loop or branch has strides", k);
        }
    }
    if (branch && let->nargs == 0) {
        verify_broken(v, 30, "a branch needs the bool that chooses");
    }
    if (!branch) {
        check_counts(v, let);
    }
    int whiles = branch ? 0 : (int)let_int(let, "while");
    int params = branch ? let->nargs - 1 : 1 + let->nargs - whiles;
    for (int k = 0; k < let->nbodies; k++) {
        const Fn *body = let->bodies[k];
        if (body->nparams != params || body->body->nrets != let->nres + whiles) {
            verify_broken(v, 30, "the body has %d parameters and %d results, not %d and %d",
                          body->nparams, body->body->nrets, params, let->nres + whiles);
        }
        check_body(v, body);
        check_taken(v, let, body);
    }
}

/* ---- V31, V32: types ---- */

static void
check_same(Verifier *v, int rule, const Value *of, const Type *want)
{
    if (of->type != want) {
        Text text = {.cx = v->cx};
        type_text(v->cx, want, &text);
        verify_broken(v, rule, "'%s' must be %s", of->name, text.text);
    }
}

static void
check_bool(Verifier *v, int rule, const Value *of)
{
    check_same(v, rule, of, type_scalar(v->cx, DT_bool));
}

static void
check_loop(Verifier *v, const Loop *loop)
{
    check_same(v, 31, loop->body->params[0], type_scalar(v->cx, DT_i64));
    if (loop->whiles) {
        check_bool(v, 31, loop->let->args[0]);
        check_bool(v, 31, loop->body->body->rets[0]);
    }
    for (int k = 0; k < loop->carries; k++) {
        check_same(v, 31, loop_param(loop, k), loop_arg(loop, k)->type);
        check_same(v, 31, loop_next(loop, k), loop_arg(loop, k)->type);
    }
    for (int k = 0; k < loop->rows; k++) {
        const Value *row = loop_arg(loop, loop->carries + k);
        if (row->type->rank == 0 || row->type->dims[0] != loop->steps) {
            verify_broken(v, 31, "'%s' does not have a row for each step", row->name);
        }
        check_same(v, 31, loop_param(loop, loop->carries + k), type_of_row(v->cx, row->type));
    }
    for (int k = 0; k < loop->stays; k++) {
        check_same(v, 31, loop_param(loop, loop->carries + loop->rows + k),
                   loop_arg(loop, loop->carries + loop->rows + k)->type);
    }
}

/* ---- V59: the number of a step as a size ---- */

typedef struct {
    Verifier *v;
    Dim at;
} Typed;

static void
check_type(const Typed *t, const Value *of)
{
    for (int ax = 0; ax < of->type->rank; ax++) {
        if (dim_uses(t->v->cx, of->type->dims[ax], t->at)) {
            verify_broken(t->v, 59, "the type of '%s' has the number of the step, %s", of->name,
                          dim_name(t->v->cx, t->at));
        }
    }
}

static void check_types(const Typed *t, const Fn *body);

static void
check_let_types(void *arg, Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        check_type(arg, let->res[k]);
    }
    for (int k = 0; k < let->nbodies; k++) {
        check_types(arg, let->bodies[k]);
    }
}

static void
check_types(const Typed *t, const Fn *body)
{
    for (int k = 0; k < body->nparams; k++) {
        check_type(t, body->params[k]);
    }
    fn_each_let((Fn *)body, check_let_types, (void *)t);
}

/* Outside of kernels a body is a plan, whose sizes are the same in each step. */
static void
check_at(Verifier *v, const Loop *loop)
{
    const Let *around = loop->let->parent->owner;
    if (loop->at == DIM_NONE) {
        return;
    }
    Range any = dim_range(v->cx, loop->at);
    if (!around || around->op != OP_kernel || any.lo != 0 || any.hi != DIM_INF ||
        dim_divisor(v->cx, loop->at) != 1) {
        verify_broken(v, 59,
                      "only a loop in a kernel has the number of its step as a size, 0..inf");
    }
    check_types(&(Typed){v, loop->at}, loop->body);
}

void
verify_flow_types(Verifier *v, const Let *let)
{
    if (let->op == OP_loop) {
        Loop loop = let_loop(let);
        check_at(v, &loop);
        check_loop(v, &loop);
        return;
    }
    check_bool(v, 32, let->args[0]);
    for (int k = 0; k < 2; k++) {
        for (int j = 1; j < let->nargs; j++) {
            check_same(v, 32, let->bodies[k]->params[j - 1], let->args[j]->type);
        }
        for (int j = 0; j < let->nres; j++) {
            check_same(v, 32, let->bodies[k]->body->rets[j], let->res[j]->type);
        }
    }
}

/* ---- V47: loops in kernels ---- */

static bool
is_plain_step(const Fn *body)
{
    bool plain = true;
    for (int k = 0; k < body->body->n && plain; k++) {
        const Let *let = body->body->lets[k];
        plain = let->op == OP_kernel || let->op == OP_size;
        for (int j = 0; j < let->nres; j++) {
            plain &= let->res[j]->strides == NULL;
        }
    }
    return plain;
}

void
verify_loop_in_kernel(Verifier *v, const Let *kernel)
{
    const Let *let = kernel_loop(kernel);
    bool any = let != NULL, good = true;
    for (int k = 0; k < kernel->body->n; k++) {
        any |= kernel->body->lets[k]->op == OP_loop;
    }
    for (int k = 0; let && k < let->nres; k++) {
        good &= k < kernel->nres && kernel->body->rets[k] == let->res[k] && !let->res[k]->over;
    }
    if (any && !(let && good && kernel->nres == let->nres)) {
        verify_broken(v, 47, "a loop in a kernel stands alone, and the kernel returns its results");
    }
    Loop loop = let ? let_loop(let) : (Loop){0};
    if (let && (loop.whiles || !loop.counted || !is_plain_step(loop.body))) {
        verify_broken(v, 47,
                      "a loop in a kernel has a number of steps and no bool, and its body has "
                      "kernels and sizes alone");
    }
}
