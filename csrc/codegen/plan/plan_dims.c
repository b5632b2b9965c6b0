/* Dims as a short program that a plan evaluates once for each combination of sizes. */

#include <string.h>

#include "plan_build.h"

void *
plan_keep(Builder *b, size_t bytes)
{
    void *memory = plan_alloc(b->plan, bytes ? bytes : 1);
    if (!memory) {
        fail(b->cx, DIAG_MEMORY, bytes);
    }
    return memory;
}

char *
plan_text_keep(Builder *b, const char *text)
{
    return text ? strcpy(plan_keep(b, strlen(text) + 1), text) : NULL;
}

static void
dim_emit(Builder *b, DimCode code)
{
    Plan *plan = b->plan;
    if (plan->ndims == b->room_dims) {
        b->room_dims = b->room_dims ? 2 * b->room_dims : 64;
        DimCode *more = plan_keep(b, (size_t)b->room_dims * sizeof *more);
        if (plan->ndims) {
            memcpy(more, plan->dims, (size_t)plan->ndims * sizeof *more);
        }
        plan->dims = more;
    }
    int deepest = sizeof b->stack / sizeof *b->stack;
    if (b->depth == deepest) {
        fail(b->cx, DIAG_SIZE_DEPTH, deepest);
    }
    plan->dims[plan->ndims] = code;
    b->stack[b->depth++] = plan->ndims++;
}

static int
size_position(const Builder *b, Dim name)
{
    for (int k = 0; k < b->nsizes; k++) {
        if (b->sizes[k] == name) {
            return k;
        }
    }
    fail(b->cx, DIAG_SIZE_OF_CALL, dim_name(b->cx, name));
}

static void
dim_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Builder *b = arg;
    dim_emit(b,
             (DimCode){.op = kind, .value = value, .a = kind == 'n' ? size_position(b, name) : 0});
}

static void
dim_binary(void *arg, char kind)
{
    Builder *b = arg;
    b->depth -= 2;
    dim_emit(b, (DimCode){.op = kind, .a = b->stack[b->depth], .b = b->stack[b->depth + 1]});
}

DimRef
dim_ref(Builder *b, Dim d)
{
    if (d >= b->dim_room) {
        Dim room = 2 * d + 64;
        DimRef *memo = cx_alloc(b->cx, room * sizeof *memo);
        if (b->dim_room) {
            memcpy(memo, b->dim_memo, b->dim_room * sizeof *memo);
        }
        b->dim_memo = memo;
        b->dim_room = room;
    }
    if (!b->dim_memo[d]) {
        static const DimWalk walk = {dim_leaf, dim_binary};
        b->depth = 0;
        dim_walk(b->cx, d, &walk, b);
        b->dim_memo[d] = b->stack[0] + 1;
    }
    return b->dim_memo[d] - 1;
}

DimRef *
dim_refs(Builder *b, int n, const Dim *dims)
{
    DimRef *refs = plan_keep(b, (size_t)n * sizeof *refs);
    for (int k = 0; k < n; k++) {
        refs[k] = dim_ref(b, dims[k]);
    }
    return refs;
}

/* The axis of t that is scale * name + rest in whole numbers; -1: none. */
static int
solving_axis(const Builder *b, const Type *t, Dim name, int64_t *scale, int64_t *rest)
{
    for (int ax = 0; ax < t->rank; ax++) {
        Dim factor, other;
        if (dim_affine(b->cx, t->dims[ax], name, &factor, &other) &&
            dim_is_int(b->cx, factor, scale) && *scale != 0 && dim_is_int(b->cx, other, rest)) {
            return ax;
        }
    }
    return -1;
}

static void
size_add(Builder *b, Dim name)
{
    b->sizes = cx_grow(b->cx, b->sizes, b->nsizes, sizeof *b->sizes);
    b->sizes[b->nsizes++] = name;
}

static void
list_sizes(Builder *b)
{
    Plan *plan = b->plan;
    for (int k = 0; k < b->fn->nsizes; k++) {
        size_add(b, b->fn->sizes[k]);
    }
    for (int k = 0; k < b->fn->body->n; k++) {
        const Let *let = b->fn->body->lets[k];
        for (int j = 0; j < let->nsizes; j++) {
            size_add(b, let->sizes[j]);
        }
    }
    plan->ndeclared = b->fn->nsizes;
    plan->nsizes = b->nsizes;
    plan->size_names = plan_keep(b, (size_t)b->nsizes * sizeof *plan->size_names);
    for (int k = 0; k < b->nsizes; k++) {
        plan->size_names[k] = plan_text_keep(b, dim_name(b->cx, b->sizes[k]));
    }
}

/* Finds each size symbol at the first parameter axis that determines it. */
void
plan_solves(Builder *b)
{
    Plan *plan = b->plan;
    list_sizes(b);
    plan->solves = plan_keep(b, (size_t)plan->ndeclared * sizeof *plan->solves);
    for (int k = 0; k < plan->ndeclared; k++) {
        Solve *solve = &plan->solves[k];
        *solve = (Solve){
            .param = -1,
            .range = dim_range(b->cx, b->sizes[k]),
            .divisor = dim_divisor(b->cx, b->sizes[k]),
        };
        for (int p = 0; p < b->fn->nparams && solve->param < 0; p++) {
            int64_t scale, rest;
            int axis = solving_axis(b, b->fn->params[p]->type, b->sizes[k], &scale, &rest);
            if (axis >= 0) {
                solve->param = p;
                solve->axis = axis;
                solve->rest = rest;
                solve->scale = scale;
            }
        }
    }
}

typedef struct {
    const Builder *b;
    int upto;
} Names;

static void
note_position(void *arg, Dim name)
{
    Names *names = arg;
    int upto = size_position(names->b, name) + 1;
    names->upto = upto > names->upto ? upto : names->upto;
}

static void
note_uncertain(Builder *b, Dim d)
{
    Plan *plan = b->plan;
    Names names = {b, 0};
    dim_names(b->cx, d, note_position, &names);
    DimRef ref = dim_ref(b, d);
    for (int k = 0; k < plan->nuncertain; k++) {
        if (b->uncertain[k].dim == ref) {
            return;
        }
    }
    b->uncertain = cx_grow(b->cx, b->uncertain, plan->nuncertain, sizeof *b->uncertain);
    b->uncertain[plan->nuncertain++] = (Uncertain){ref, names.upto};
}

static void
see_let(void *arg, Let *let)
{
    Builder *b = arg;
    for (int k = 0; k < let->nres; k++) {
        const Type *t = let->res[k]->type;
        for (int ax = 0; t && ax < t->rank; ax++) {
            if (dim_range(b->cx, t->dims[ax]).lo < 0) {
                note_uncertain(b, t->dims[ax]);
            }
        }
    }
}

void
plan_uncertain(Builder *b)
{
    Plan *plan = b->plan;
    fn_each_let((Fn *)b->fn, see_let, b);
    plan->uncertain = plan_keep(b, (size_t)plan->nuncertain * sizeof *plan->uncertain);
    if (plan->nuncertain) {
        memcpy(plan->uncertain, b->uncertain, (size_t)plan->nuncertain * sizeof *plan->uncertain);
    }
}

/* The size of a call is at an axis of a result, or it is the result: a whole number. */
static Bind
bind_of(Builder *b, const Let *let, Dim name)
{
    Bind bind = {.size = size_position(b, name),
                 .result = -1,
                 .axis = -1,
                 .scale = 1,
                 .range = dim_range(b->cx, name),
                 .divisor = dim_divisor(b->cx, name)};
    for (int k = 0; k < let->nres && bind.axis < 0; k++) {
        const Type *t = let->res[k]->type;
        bind.axis = solving_axis(b, t, name, &bind.scale, &bind.rest);
        bind.result = bind.axis >= 0 || (t->rank == 0 && t->dtype == DT_i64) ? k : bind.result;
    }
    if (bind.axis < 0) {
        bind.scale = 1;
        bind.rest = 0;
    }
    if (bind.result < 0) {
        fail(b->cx, DIAG_SIZE_OF_RESULT, dim_name(b->cx, name));
    }
    return bind;
}

void
plan_bind_steps(Builder *b, const Let *let, Flow *flow)
{
    flow->nbinds = let->nsizes;
    if (let->nsizes) {
        flow->bind = (Bind){.size = size_position(b, let->sizes[0]),
                            .axis = -1,
                            .scale = 1,
                            .range = dim_range(b->cx, let->sizes[0]),
                            .divisor = dim_divisor(b->cx, let->sizes[0])};
    }
}

void
plan_binds(Builder *b, const Let *let, Call *call)
{
    call->nbinds = let->nsizes;
    call->binds = plan_keep(b, (size_t)let->nsizes * sizeof *call->binds);
    for (int k = 0; k < let->nsizes; k++) {
        call->binds[k] = bind_of(b, let, let->sizes[k]);
    }
}
