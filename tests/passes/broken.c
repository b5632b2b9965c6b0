/* Bugs on purpose, each by BROKEN=name in the environment: see test_broken.py and test_reduce.py.
 *
 * The functions are linked around those that they are named after (-Wl,--wrap).
 *
 * layout    a result is laid out as promised, and the views of it say what strides they had before
 * given     the call frees every parameter, that a result goes into too
 * over      results take the memory of the first parameter, whatever reads it later
 * store     the if of a kernel loses a store: the verifier sees it
 * load      loads read the first element of a row: only the results show it
 * pack      of panels that are packed in advance all are taken for the first
 * idle      all stores to a result in place are taken for idle: in the rewrite idle
 * parts     of the partial results of a reduction the largest is taken: in the rewrite divide
 * tiles     each chain of a product packs the first terms: in the rewrite tile
 * blocks    exp becomes exp2 in a kernel that is cut into blocks of rows
 * sub       the operands of a subtraction change places, in the graph
 * mul       a product becomes a sum, in the graph
 * fuse      exp becomes exp2 when kernels are made
 * fault     a pass breaks down over a reduction to the largest element
 * strip     libtcc's code has exp2 for exp
 * crash     libtcc's code crashes in tanh
 * trap      the C compiler's code crashes where a square root is
 * range     the last iteration of a parallel loop is left out
 * memory    values of the workspace lie in one place
 * stride    copies read the first element of each row
 * index     no index is out of range
 * late      libtcc's code has exp2 for exp, and the interpreter takes as long as the C compiler
 *
 * BROKEN=rewrite:mark has a rewrite put the mark wherever the language has a place for it. */
#include "codegen/codegen.h"
#include "codegen/plan/plan.h"
#include "codegen/rewrites.h"
#include "codegen/strips/strips.h"
#include "fusion/fusion.h"
#include "ir/eval/eval.h"

#include "broken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
is_asked(const char *what)
{
    const char *asked = getenv("BROKEN");
    return asked && strcmp(asked, what) == 0;
}

static void
lose_store(Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        if (blk->lets[k]->op == OP_store) {
            memmove(&blk->lets[k], &blk->lets[k + 1], (size_t)(--blk->n - k) * sizeof *blk->lets);
            return;
        }
        if (blk->lets[k]->body) {
            lose_store(blk->lets[k]->body);
        }
    }
}

static void
read_first(void *arg, Let *let)
{
    Cx *cx = arg;
    for (int k = 0; k < let->nattrs && let->op == OP_load; k++) {
        Attr *at = &let->attrs[k];
        if (strcmp(at->key, "at") == 0 && at->n && fuel_spend(cx)) {
            Dim *dims = cx_copy(cx, at->dims, (size_t)at->n * sizeof *dims);
            dims[at->n - 1] = dim_int(cx, 0);
            at->dims = dims;
        }
    }
}

void
change_op(Block *blk, Op from, Op to)
{
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->op = blk->lets[k]->op == from ? to : blk->lets[k]->op;
        if (blk->lets[k]->body) {
            change_op(blk->lets[k]->body, from, to);
        }
    }
}

static bool
has_op(const Block *blk, Op op)
{
    bool has = false;
    for (int k = 0; k < blk->n; k++) {
        has |= blk->lets[k]->op == op;
    }
    return has;
}

static void
check_nothing(void *arg, Let *let)
{
    for (int k = 0; k < let->nattrs && let->op == OP_bind; k++) {
        if (strcmp(let->attrs[k].key, "extent") == 0) {
            let->attrs[k].d = dim_int(arg, INT32_MAX);
        }
    }
}

static void
forget_strides(void *arg, Let *let)
{
    (void)arg;
    for (int k = 0; k < let->nres && op_info[let->op].kind == KIND_VIEW; k++) {
        let->res[k]->strides = NULL;
    }
}

/* ---- rewrites ---- */

static void
lose_layouts(Fn *fn)
{
    fn_each_let(fn, forget_strides, NULL);
}

static void
give_all(Fn *fn)
{
    for (int k = 0; k < fn->nparams; k++) {
        fn->params[k]->given = true;
    }
}

static void
take_parameters(Fn *fn)
{
    for (int k = 0; k < fn->body->n; k++) {
        const Let *kernel = fn->body->lets[k];
        for (int j = 0; j < kernel->nres && kernel->op == OP_kernel; j++) {
            kernel->res[j]->over = fn->params[0];
        }
    }
}

static void
lose_stores(Fn *fn)
{
    for (int k = 0; k < fn->body->n; k++) {
        const Let *kernel = fn->body->lets[k];
        if (kernel->op == OP_kernel && kernel->body->lets[0]->op == OP_if) {
            lose_store(kernel->body->lets[0]->body);
        }
    }
}

static void
read_first_elements(Fn *fn)
{
    fn_each_let(fn, read_first, fn->cx);
}

static void
check_no_index(Fn *fn)
{
    fn_each_let(fn, check_nothing, fn->cx);
}

static void
take_largest(void *arg, Let *let)
{
    for (int k = 0; k < let->nattrs && let_has(let, MARK_pairs); k++) {
        if (strcmp(let->attrs[k].key, "op") == 0) {
            let->attrs[k] = attr_name(arg, "op", op_info[OP_amax].name, DIM_NONE);
        }
    }
}

static void
combine_largest(Fn *fn)
{
    fn_each_let(fn, take_largest, fn->cx);
}

static const struct {
    const char *rewrite, *bug;
    void (*change)(Fn *fn);
} changes[] = {
    {"promise", "layout", lose_layouts},   {"order", "given", give_all},
    {"retract", "over", take_parameters},  {"join", "store", lose_stores},
    {"join", "load", read_first_elements}, {"join", "index", check_no_index},
    {"divide", "parts", combine_largest},
};

typedef struct {
    Cx *cx;
    int row; /* of marks.def */
} Misplaced;

/* May the let carry the mark?  steps may stand on every loop of a nest, so that only those inside
 * get it. */
static bool
may_carry(const Let *let, Marks mark)
{
    return marks_of(let->op) & mark && (mark != MARK_steps || loop_is(let_around(let)));
}

/* Puts the mark on a let that may carry it and does not. */
static void
misplace(void *arg, Let *let)
{
    enum { ODD = 7 };
    const Misplaced *m = arg;
    Marks mark = mark_at(m->row);
    if (may_carry(let, mark) && !let_has(let, mark)) {
        let_take_marks(m->cx, let);
        if (mark_info[m->row].has_value) {
            let_mark_with(m->cx, let, mark, ODD);
        } else {
            let_mark(let, mark, true);
        }
    }
}

static Fn *
broken(const char *rewrite, Fn *fn)
{
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
        if (strcmp(rewrite, changes[k].rewrite) == 0 && is_asked(changes[k].bug)) {
            changes[k].change(fn);
        }
    }
    for (int row = 0; row < MARK_COUNT; row++) {
        if (is_asked(cx_format(fn->cx, "%s:%s", rewrite, mark_info[row].name))) {
            fn_each_let(fn, misplace, &(Misplaced){fn->cx, row});
        }
    }
    return fn;
}

#define REWRITE(name, in, out, what) \
    WRAPPED(rewrite_##name); \
    Fn *__wrap_rewrite_##name(Fn *fn) { return broken(#name, __real_rewrite_##name(fn)); }
#include "codegen/rewrites.def"

/* ---- all else ---- */

WRAPPED(pass_canonicalise);
Fn *
__wrap_pass_canonicalise(Fn *fn)
{
    fn = __real_pass_canonicalise(fn);
    for (int k = 0; k < fn->body->n && is_asked("sub"); k++) {
        Let *let = fn->body->lets[k];
        if (let->op == OP_sub && fuel_spend(fn->cx)) {
            Value *first = let->args[0];
            let->args[0] = let->args[1];
            let->args[1] = first;
        }
    }
    if (is_asked("mul") && fuel_spend(fn->cx)) {
        change_op(fn->body, OP_mul, OP_add);
    }
    if (is_asked("fault") && has_op(fn->body, OP_amax)) {
        fail(fn->cx, DIAG_PASS, "canonicalise", "V00: on purpose", "(no file)");
    }
    return fn;
}

WRAPPED(pass_fuse);
Fn *
__wrap_pass_fuse(Fn *fn)
{
    fn = __real_pass_fuse(fn);
    if (is_asked("fuse")) {
        change_op(fn->body, OP_exp, OP_exp2);
    }
    return fn;
}

static void
crash(void)
{
    __builtin_trap();
}

WRAPPED(strip_find);
void *
__wrap_strip_find(const char *name)
{
    if (is_asked("crash") && strstr(name, "_tanh_")) {
        return (void *)crash;
    }
    const char *exp = is_asked("strip") || is_asked("late") ? strstr(name, "_exp_") : NULL;
    if (exp) {
        char other[100];
        snprintf(other, sizeof other, "%.*s_exp2_%s", (int)(exp - name), name,
                 exp + strlen("_exp_"));
        void *found = __real_strip_find(other);
        return found ? found : __real_strip_find(name);
    }
    return __real_strip_find(name);
}

WRAPPED(jit_cc_submit);
bool
__wrap_jit_cc_submit(Code *code, const char *text, const CcOptions *options, char *error,
                     size_t cap)
{
    static const char trap[] =
        "\n__attribute__((constructor)) static void broken(void) { __builtin_trap(); }\n";
    char *worse = NULL;
    if (is_asked("trap") && strstr(text, "sqrt") && (worse = malloc(strlen(text) + sizeof trap))) {
        strcat(strcpy(worse, text), trap);
    }
    bool done = __real_jit_cc_submit(code, worse ? worse : text, options, error, cap);
    free(worse);
    return done;
}

WRAPPED(parallel_for);
int
__wrap_parallel_for(const ParallelJob *job)
{
    ParallelJob less = *job;
    less.extent -= is_asked("range") && job->extent > 1;
    return __real_parallel_for(&less);
}

WRAPPED(memory_plan);
bool
__wrap_memory_plan(const Plan *plan, Instance *inst)
{
    bool done = __real_memory_plan(plan, inst);
    for (int k = 0; k < plan->nslots && is_asked("memory"); k++) {
        inst->work_at[k] = 0;
    }
    return done;
}

WRAPPED(copy_strided);
void
__wrap_copy_strided(int bytes, int rank, const int64_t *sizes, void *to, const int64_t *to_strides,
                    const void *from, const int64_t *from_strides)
{
    int64_t strides[MAX_RANK] = {0};
    memcpy(strides, from_strides, (size_t)rank * sizeof *strides);
    if (rank && is_asked("stride")) {
        strides[rank - 1] = 0;
    }
    __real_copy_strided(bytes, rank, sizes, to, to_strides, from, strides);
}

WRAPPED(eval_fn_how);
void
__wrap_eval_fn_how(const Fn *fn, EvalHow how, const int64_t *sizes, const Tensor *in, Tensor *out)
{
    __real_eval_fn_how(fn, how, sizes, in, out);
    if (is_asked("late")) {
        jit_cc_wait(60);
    }
}
