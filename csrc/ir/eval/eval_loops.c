/* The interpreter: kernels, and the loops, loads and stores of the loops stage. */
#include "eval.h"

#include <string.h>

enum { POISON = 0xa5 };         /* fills fresh memory of loops, to show reads before stores */
enum { STORED = 1, KEPT };      /* an element of a result: by a store; as the parameter had it */

/* Memory that stores fill.  A result may be stored to once, a scratch buffer as often as it likes.
 */
static void
make_target(Eval *e, const Value *v)
{
    const void *before = e->values[v->id].data;
    const Tensor *t = eval_make(e, v);
    size_t n = (size_t)tensor_numel(t);
    if (t->data != before) {
        e->written[v->id] = cx_alloc(e->cx, n);
    }
    memset(e->written[v->id], 0, n);
    memset(t->data, POISON, n * (size_t)dtype_info[t->dtype].bytes);
}

/* Elements that are not stored keep the parameter's values. */
static void
take_over(Eval *e, const Value *v)
{
    const Tensor *t = &e->values[v->id];
    tensor_copy(t, eval_value(e, v->over));
    memset(e->written[v->id], KEPT, (size_t)tensor_numel(t));
}

static void
check_stored(Eval *e, const Value *v)
{
    const Tensor *t = &e->values[v->id];
    for (int64_t k = 0; k < tensor_numel(t); k++) {
        if (!e->written[v->id][k]) {
            fail(e->cx, DIAG_EVAL_UNSTORED, (long long)k, v->name);
        }
    }
}

void
eval_kernel(Eval *e, const Let *let)
{
    bool loops = e->fn->stage == STAGE_LOOPS;
    for (int k = 0; k < let->nres && loops; k++) {
        make_target(e, let->res[k]);
        if (let->res[k]->over) {
            take_over(e, let->res[k]);
        }
    }
    eval_block(e, let->body);
    cx_set_loc(e->cx, let->loc);
    for (int k = 0; k < let->nres; k++) {
        if (loops) {
            check_stored(e, let->res[k]);
        } else {
            tensor_copy(eval_make(e, let->res[k]), eval_value(e, let->body->rets[k]));
        }
    }
}

/* ---- loops ---- */

static void
eval_loop(Eval *e, const Let *let)
{
    const Value *ret = let->op == OP_reduce ? let->body->rets[0] : NULL;
    Op op = ret ? op_find(let_str(let, "op"), strlen(let_str(let, "op"))) : OP_COUNT;
    Fold fold = ret ? fold_start(op, ret->type->dtype) : (Fold){0};
    int64_t extent = eval_dim(e, let_dim(let, "extent"));
    int known = e->nknown;
    for (int64_t k = 0; k < extent; k++) {
        eval_know(e, let_attr(let, "index")->d, k);
        eval_block(e, let->body);
        e->nknown = known;
        if (ret) {
            fold_step(&fold, eval_value(e, ret)->data, k);
        }
    }
    if (ret) {
        const Tensor *out = eval_make(e, let->res[0]);
        fold_end(e->cx, &fold, out->dtype, out->data);
    }
}

static Elem
factor(Eval *e, const Value *v, Dtype dtype)
{
    return value_is_const(v) ? elem_literal(dtype, v->literal)
                             : elem_load(dtype, eval_value(e, v)->data);
}

/* A sum marked fused: the chains of a contraction. */
static void
eval_fused(Eval *e, const Let *let)
{
    const Let *product = let->body->rets[0]->def;
    Dtype dtype = let->res[0]->type->dtype;
    int64_t extent = eval_dim(e, let_dim(let, "extent"));
    int known = e->nknown;
    Elem total = {0}, chain = {0};
    for (int64_t k = 0; k < extent; k++) {
        eval_know(e, let_attr(let, "index")->d, k);
        eval_block(e, let->body);
        e->nknown = known;
        chain = eval_multiply_add(dtype, factor(e, product->args[0], dtype),
                                  factor(e, product->args[1], dtype), chain);
        if (k % CONTRACTION_CHAIN == CONTRACTION_CHAIN - 1 || k + 1 == extent) {
            total = k < CONTRACTION_CHAIN ? chain : total;
            if (k >= CONTRACTION_CHAIN) {
                eval_map(OP_add, dtype, dtype, &total, &chain, NULL, &total);
            }
            chain = (Elem){0};
        }
    }
    elem_store(dtype, total, eval_make(e, let->res[0])->data);
}

static void
eval_choice(Eval *e, const Let *let)
{
    Dim a, b;
    let_condition(e->cx, let, &a, &b);
    if (eval_dim(e, a) <= eval_dim(e, b)) {
        eval_block(e, let->body);
    }
}

static void
eval_bind(Eval *e, const Let *let)
{
    const Tensor *t = eval_value(e, let->args[0]);
    int64_t g = elem_cast(t->dtype, DT_i64, elem_load(t->dtype, t->data)).l;
    int64_t extent = eval_dim(e, let_dim(let, "extent"));
    int64_t index = g < 0 && let_int(let, "wrap") == INDEX_FROM_END ? g + extent : g;
    if (index < 0 || index >= extent) {
        fail(e->cx, DIAG_EVAL_BIND, (long long)g, (long long)extent);
    }
    eval_know(e, let->sizes[0], index);
}

/* ---- loads and stores ---- */

static int64_t
element(Eval *e, const Let *let, const Tensor *t)
{
    const Attr *at = let_attr(let, "at");
    int64_t n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        int64_t index = eval_dim(e, at->dims[ax]);
        if (index < 0 || index >= t->sizes[ax]) {
            fail(e->cx, DIAG_EVAL_INDEX, op_info[let->op].name, (long long)index, ax,
                 let->args[0]->name, (long long)t->sizes[ax]);
        }
        n += index * t->strides[ax];
    }
    return n;
}

static void
eval_load(Eval *e, const Let *let)
{
    const Value *v = let->args[0];
    const Tensor *t = eval_value(e, v);
    int64_t n = element(e, let, t), bytes = dtype_info[t->dtype].bytes;
    if (e->written[v->id] && !e->written[v->id][n]) {
        fail(e->cx, DIAG_EVAL_READ, (long long)n, v->name);
    }
    memcpy(eval_make(e, let->res[0])->data, (char *)t->data + n * bytes, (size_t)bytes);
}

/* Does it stand in a loop whose iterations store what others have stored? */
static bool
in_steps(const Let *let)
{
    bool found = false;
    for (const Let *loop = let_around(let); loop->op == OP_for && !found; loop = let_around(loop)) {
        found = let_has(loop, MARK_steps);
    }
    return found;
}

static void
eval_store(Eval *e, const Let *let)
{
    const Value *to = let->args[0], *v = let->args[1];
    const Tensor *t = eval_value(e, to);
    int64_t n = element(e, let, t), bytes = dtype_info[t->dtype].bytes;
    uint8_t *written = &e->written[to->id][n];
    if (*written == STORED && to->def->op == OP_kernel && !in_steps(let)) {
        fail(e->cx, DIAG_EVAL_TWICE, (long long)n, to->name);
    }
    *written = STORED;
    Elem x = value_is_const(v) ? elem_literal(t->dtype, v->literal)
                               : elem_load(t->dtype, eval_value(e, v)->data);
    elem_store(t->dtype, x, (char *)t->data + n * bytes);
}

static void
eval_update(Eval *e, const Let *let)
{
    const Value *to = let->args[0], *v = let->args[1];
    const Tensor *t = eval_value(e, to);
    int64_t n = element(e, let, t), bytes = dtype_info[t->dtype].bytes;
    if (!e->written[to->id][n]) {
        fail(e->cx, DIAG_EVAL_UPDATE, (long long)n, to->name);
    }
    Elem x = value_is_const(v) ? elem_literal(t->dtype, v->literal)
                               : elem_load(t->dtype, eval_value(e, v)->data);
    Op op = let_op(let);
    char *at = (char *)t->data + n * bytes;
    if (op == OP_store) {
        elem_store(t->dtype, x, at);
        return;
    }
    Elem stored = {0};
    elem_store(t->dtype, x, &stored);
    eval_map(op_info[op].combine, t->dtype, t->dtype, at, &stored, NULL, at);
}

void
eval_loop_node(Eval *e, const Let *let)
{
    switch (let->op) {
    case OP_for:
    case OP_reduce:
        (let->op == OP_reduce && let_has(let, MARK_fused) ? eval_fused : eval_loop)(e, let);
        break;
    case OP_if:
    case OP_else:
        eval_choice(e, let);
        break;
    case OP_bind:
        eval_bind(e, let);
        break;
    case OP_load:
        eval_load(e, let);
        break;
    case OP_store:
        eval_store(e, let);
        break;
    case OP_update:
        eval_update(e, let);
        break;
    default:                    /* buffer */
        make_target(e, let->res[0]);
        break;
    }
}
