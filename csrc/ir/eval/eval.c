/* The reference interpreter: slow, simple, correct.  Everything faster is compared with it.
 *
 * Every value gets dense memory of its own and every let fills it, element by element, in the order
 * of the text; loops run.  It trusts the verifier for types, and checks what only running can show:
 * indices, empty reductions, elements of results never stored or stored twice. */
#include "eval.h"

#include <string.h>

/* ---- dims ---- */

static int64_t
look_up(void *arg, Dim name)
{
    const Eval *e = arg;
    for (int k = e->nknown - 1; k >= 0; k--) {
        if (e->known[k].name == name) {
            return e->known[k].value;
        }
    }
    fail(e->cx, DIAG_EVAL_SIZE, dim_name(e->cx, name));
}

int64_t
eval_dim(Eval *e, Dim d)
{
    return dim_eval(e->cx, d, look_up, e);
}

void
eval_know(Eval *e, Dim name, int64_t value)
{
    if (e->nknown == e->room) {
        e->room = e->room ? 2 * e->room : 64;
        Known *more = cx_alloc(e->cx, (size_t)e->room * sizeof *more);
        for (int k = 0; k < e->nknown; k++) {
            more[k] = e->known[k];
        }
        e->known = more;
    }
    e->known[e->nknown++] = (Known){name, value};
}

/* ---- tensors ---- */

int64_t
tensor_numel(const Tensor *t)
{
    int64_t n = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        n *= t->sizes[ax];
    }
    return n;
}

void *
tensor_at(const Tensor *t, const int64_t *index)
{
    int64_t offset = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        offset += index[ax] * t->strides[ax];
    }
    return (char *)t->data + offset * dtype_info[t->dtype].bytes;
}

void *
tensor_part(const Tensor *t, const int64_t *index, int part)
{
    return (char *)tensor_at(t, index) + part * dtype_info[dtype_component(t->dtype)].bytes;
}

bool
tensor_next(const Tensor *t, int64_t *index)
{
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        if (++index[ax] < t->sizes[ax]) {
            return true;
        }
        index[ax] = 0;
    }
    return false;
}

void
tensor_copy(const Tensor *to, const Tensor *from)
{
    int64_t index[MAX_RANK] = {0};
    if (tensor_numel(to) == 0) {
        return;
    }
    do {
        memcpy(tensor_at(to, index), tensor_at(from, index), (size_t)dtype_info[to->dtype].bytes);
    } while (tensor_next(to, index));
}

/* Fills in sizes and dense strides; returns the bytes. */
static size_t
lay_out(Eval *e, const Type *type, Tensor *t)
{
    int64_t stride = 1, bytes = dtype_info[type->dtype].bytes;
    t->dtype = type->dtype;
    t->rank = type->rank;
    for (int ax = type->rank - 1; ax >= 0; ax--) {
        int64_t size = t->sizes[ax] = eval_dim(e, type->dims[ax]);
        t->strides[ax] = stride;
        if (size < 0 || __builtin_mul_overflow(stride, size > 1 ? size : 1, &stride) ||
            __builtin_mul_overflow(bytes, size > 1 ? size : 1, &bytes)) {
            fail(e->cx, DIAG_EVAL_AXIS, (long long)size);
        }
    }
    return (size_t)bytes;
}

/* Memory is kept from one turn of a loop to the next when the size is the same. */
Tensor *
eval_make(Eval *e, const Value *v)
{
    Tensor *t = &e->values[v->id];
    int64_t before = t->data ? tensor_numel(t) : -1;
    size_t bytes = lay_out(e, v->type, t);
    if (!t->data || before != tensor_numel(t)) {
        t->data = cx_alloc(e->cx, bytes);
    }
    return t;
}

const Tensor *
eval_value(Eval *e, const Value *v)
{
    const Tensor *t = &e->values[v->id];
    if (!t->data) {
        fail(e->cx, DIAG_EVAL_VALUE, v->name);
    }
    return t;
}

/* ---- lets ---- */

/* An operand of a MAP let: where its elements begin and how far apart they are. */
typedef struct {
    const char *at;
    int64_t step;
    Elem constant;
} Operand;

static void
open_operand(Eval *e, const Value *v, Dtype dtype, Operand *out)
{
    if (value_is_const(v)) {
        elem_store(dtype, elem_literal(dtype, v->literal), &out->constant);
        out->at = (const char *)&out->constant;
    } else {
        out->at = eval_value(e, v)->data;
        out->step = dtype_info[v->type->dtype].bytes;
    }
}

static void
eval_map_let(Eval *e, const Let *let)
{
    bool sel = let->op == OP_where;
    Dtype to = let->res[0]->type->dtype, from = to;
    for (int k = let->nargs - 1; k >= 0 && !sel; k--) {
        from = value_is_const(let->args[k]) ? from : let->args[k]->type->dtype;
    }
    Operand a[3] = {{0}};
    for (int k = 0; k < let->nargs; k++) {
        open_operand(e, let->args[k], sel && k == 0 ? DT_bool : from, &a[k]);
    }
    const Tensor *out = eval_make(e, let->res[0]);
    char *p = out->data;
    for (int64_t n = tensor_numel(out); n > 0; n--, p += dtype_info[to].bytes) {
        e->map(let->op, from, to, a[0].at, a[1].at, a[2].at, p);
        for (int k = 0; k < let->nargs; k++) {
            a[k].at += a[k].step;
        }
    }
}

static void
eval_let(Eval *e, const Let *let)
{
    cx_set_loc(e->cx, let->loc);
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        eval_map_let(e, let);
        break;
    case KIND_RED:
        eval_red(e, let);
        break;
    case KIND_VIEW:
        eval_view(e, let);
        break;
    case KIND_NODE:
        eval_node(e, let);
        break;
    }
    noise_of_let(e, let);
}

void
eval_block(Eval *e, const Block *blk)
{
    int known = e->nknown;
    for (int k = 0; k < blk->n; k++) {
        eval_let(e, blk->lets[k]);
    }
    e->nknown = blk->owner ? known : e->nknown; /* a result may have a size that a let bound */
}

/* ---- functions ---- */

static Eval
eval_open(const Fn *fn)
{
    Eval e = {.fn = fn, .cx = fn->cx};
    e.values = cx_alloc(e.cx, (size_t)fn->nvalues * sizeof *e.values);
    e.written = cx_alloc(e.cx, (size_t)fn->nvalues * sizeof *e.written);
    return e;
}

static bool
is_written(const Fn *fn, int param)
{
    bool written = false;
    for (int k = 0; k < fn->body->nrets; k++) {
        written |= fn->results[k].kind == RESULT_INTO && fn->results[k].of == param;
    }
    return written;
}

/* The value of a parameter, or of views of it, from its present elements. */
static void
see_again(Eval *e, const Value *v, const Tensor *held)
{
    if (v->def) {
        see_again(e, v->def->args[0], held);
        eval_let(e, v->def);
    } else {
        tensor_copy(&e->values[v->id], held);
    }
}

/* Is the result a view of a parameter, or of a result that is one? */
static bool
is_view_of_param(const Fn *fn, const Result *r)
{
    r = r->kind == RESULT_VIEW_RESULT ? &fn->results[r->of] : r;
    return r->kind == RESULT_VIEW_PARAM;
}

/* A view of a parameter shares its memory: it shows the elements that results going into the
 * parameter have left. */
static void
renew_views(Eval *e, const Tensor *in, Tensor *out)
{
    const Fn *fn = e->fn;
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *v = fn->body->rets[k];
        const Value *root = is_view_of_param(fn, &fn->results[k]) ? value_root(v) : NULL;
        if (root && !root->def && is_written(fn, root->result)) {
            see_again(e, v, &in[root->result]);
            tensor_copy(&out[k], eval_value(e, v));
        }
    }
}

static void
run(Eval *e, const Tensor *in, Tensor *out)
{
    const Fn *fn = e->fn;
    for (int k = 0; k < fn->nparams; k++) {
        tensor_copy(eval_make(e, fn->params[k]), &in[k]);
    }
    Loc loc = cx_loc(e->cx);
    eval_block(e, fn->body);
    cx_set_loc(e->cx, loc);
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *v = fn->body->rets[k];
        size_t bytes = lay_out(e, v->type, &out[k]);
        out[k].data = cx_copy(e->cx, eval_value(e, v)->data, bytes);
        if (fn->results[k].kind == RESULT_INTO) {
            tensor_copy(&in[fn->results[k].of], &out[k]);
        }
    }
    renew_views(e, in, out);
}

void
eval_fn_how(const Fn *fn, EvalHow how, const int64_t *sizes, const Tensor *in, Tensor *out)
{
    Eval e = eval_open(fn);
    e.map = how.map;
    e.noise = how.noise ? sample_seed(how.noise) : 0;
    e.beyond = (int)(how.noise % 3);
    e.noisy = how.noise ? cx_alloc(e.cx, (size_t)fn->nvalues * sizeof *e.noisy) : NULL;
    int64_t *values = cx_copy(e.cx, sizes, (size_t)fn->nsizes * sizeof *values);
    eval_solve(fn, in, values);
    for (int k = 0; k < fn->nsizes; k++) {
        eval_know(&e, fn->sizes[k], values[k]);
    }
    run(&e, in, out);
}

void
eval_fn_at(const Fn *fn, const int64_t *sizes, const Tensor *in, Tensor *out)
{
    eval_fn_how(fn, (EvalHow){eval_map, 0}, sizes, in, out);
}

void
eval_fn(const Fn *fn, const Tensor *in, Tensor *out)
{
    int64_t *sizes = cx_alloc(fn->cx, (size_t)fn->nsizes * sizeof *sizes);
    eval_sizes(fn, in, sizes);
    eval_fn_at(fn, sizes, in, out);
}
