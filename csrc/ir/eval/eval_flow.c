/* The interpreter: loops and branches. */
#include "ir/cx.h"
#include "eval.h"

/* The body's results for these arguments, with the sizes that the function has. */
static void
run_body(Eval *e, const Fn *body, const Tensor *in, Tensor *out)
{
    int64_t *sizes = cx_alloc(e->cx, ((size_t)body->nsizes + 1) * sizeof *sizes);
    for (int k = 0; k < body->nsizes; k++) {
        sizes[k] = eval_dim(e, body->sizes[k]);
    }
    uint64_t noise = e->noise ? 1 + (uint64_t)sample_below(&e->noise, 1 << 20) : 0;
    eval_fn_how(body, (EvalHow){e->map, noise}, sizes, in, out);
}

static void
give(Eval *e, const Value *v, const Tensor *from)
{
    tensor_copy(eval_make(e, v), from);
}

static bool
is_true(const Tensor *t)
{
    return *(const uint8_t *)t->data != 0;
}

/* Returns row k of the first axis, as a view. */
static Tensor
row_of(const Tensor *t, int64_t k)
{
    Tensor row = {.dtype = t->dtype, .rank = t->rank - 1};
    for (int ax = 0; ax < row.rank; ax++) {
        row.sizes[ax] = t->sizes[ax + 1];
        row.strides[ax] = t->strides[ax + 1];
    }
    row.data = (char *)t->data + k * t->strides[0] * dtype_info[t->dtype].bytes;
    return row;
}

/* ---- the rows of a loop's steps ---- */

typedef struct {
    Tensor *all;                /* of step k from k * stacks on */
    int n;
} Rows;

static void
rows_keep(Eval *e, Rows *rows, const Loop *loop, const Tensor *out)
{
    for (int k = 0; k < loop->stacks; k++) {
        rows->all = cx_grow(e->cx, rows->all, rows->n, sizeof *rows->all);
        rows->all[rows->n++] = out[k];
    }
}

/* How many steps there were may be a size from here on. */
static void
rows_give(Eval *e, const Rows *rows, const Loop *loop, int64_t steps)
{
    const Let *let = loop->let;
    if (loop->whiles && let->nsizes) {
        Dim name = let->sizes[0];
        Range r = dim_range(e->cx, name);
        int64_t divisor = dim_divisor(e->cx, name);
        if (steps < r.lo || steps > r.hi || (divisor > 1 && steps % divisor)) {
            fail(e->cx, DIAG_SIZE_RANGE, dim_name(e->cx, name), (long long)steps, (long long)r.lo,
                 (long long)r.hi, (long long)divisor);
        }
        eval_know(e, name, steps);
    }
    for (int k = 0; k < loop->stacks; k++) {
        const Tensor *all = eval_make(e, let->res[loop->carries + k]);
        for (int64_t at = 0; at < steps; at++) {
            Tensor row = row_of(all, at);
            tensor_copy(&row, &rows->all[at * loop->stacks + k]);
        }
    }
}

static void
eval_loop(Eval *e, const Loop *loop)
{
    const Let *let = loop->let;
    size_t nparams = (size_t)loop->body->nparams, nrets = (size_t)loop->body->body->nrets;
    Tensor *in = cx_alloc(e->cx, (nparams + 1) * sizeof *in);
    Tensor *out = cx_alloc(e->cx, (nrets + 1) * sizeof *out);
    int64_t at = 0, steps = loop->counted ? eval_dim(e, loop->steps) : INT64_MAX;
    in[0] = (Tensor){.dtype = DT_i64, .data = &at};
    for (int k = 0; k < loop->carries; k++) {
        in[1 + k] = *eval_value(e, loop_arg(loop, k));
    }
    for (int k = 0; k < loop->stays; k++) {
        in[1 + loop->carries + loop->rows + k] = *eval_value(
            e, loop_arg(loop, loop->carries + loop->rows + k));
    }
    Rows rows = {0};
    bool on = !loop->whiles || is_true(eval_value(e, let->args[0]));
    for (; at < steps && on; at++) {
        for (int k = 0; k < loop->rows; k++) {
            in[1 + loop->carries + k] = row_of(eval_value(e, loop_arg(loop, loop->carries + k)),
                                               at);
        }
        int known = e->nknown;
        if (loop->at != DIM_NONE) {
            eval_know(e, loop->at, at);
        }
        run_body(e, loop->body, in, out);
        e->nknown = known;
        on = !loop->whiles || is_true(&out[0]);
        for (int k = 0; k < loop->carries; k++) {
            in[1 + k] = out[loop->whiles + k];
        }
        rows_keep(e, &rows, loop, out + loop->whiles + loop->carries);
    }
    rows_give(e, &rows, loop, at);
    for (int k = 0; k < loop->carries; k++) {
        give(e, let->res[k], &in[1 + k]);
    }
}

static void
eval_branch(Eval *e, const Let *let)
{
    const Fn *body = let->bodies[is_true(eval_value(e, let->args[0])) ? 0 : 1];
    Tensor *in = cx_alloc(e->cx, ((size_t)let->nargs + 1) * sizeof *in);
    Tensor *out = cx_alloc(e->cx, ((size_t)let->nres + 1) * sizeof *out);
    for (int k = 1; k < let->nargs; k++) {
        in[k - 1] = *eval_value(e, let->args[k]);
    }
    run_body(e, body, in, out);
    for (int k = 0; k < let->nres; k++) {
        give(e, let->res[k], &out[k]);
    }
}

void
eval_flow(Eval *e, const Let *let)
{
    if (let->op == OP_branch) {
        eval_branch(e, let);
    } else {
        Loop loop = let_loop(let);
        eval_loop(e, &loop);
    }
    for (int k = 0; k < let->nres && e->noise; k++) {
        e->noisy[let->res[k]->id] = true; /* its sums may have moved */
    }
}
