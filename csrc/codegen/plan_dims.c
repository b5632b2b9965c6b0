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
    if (b->depth == (int)(sizeof b->stack / sizeof *b->stack)) {
        fail(b->cx, DIAG_CODEGEN, "a size expression is too deep");
    }
    plan->dims[plan->ndims] = code;
    b->stack[b->depth++] = plan->ndims++;
}

static int
size_position(const Builder *b, Dim name)
{
    for (int k = 0; k < b->fn->nsizes; k++) {
        if (b->fn->sizes[k] == name) {
            return k;
        }
    }
    fail(b->cx, DIAG_SIZE, cx_format(b->cx, "size %s is known only while the graph runs",
                                     dim_name(b->cx, name)));
}

static void
dim_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Builder *b = arg;
    dim_emit(b, (DimCode){.op = kind, .value = value, .a = kind == 'n' ? size_position(b, name) : 0});
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

/* A size name is found at the first parameter axis that is scale * name + integer. */
void
plan_solves(Builder *b)
{
    Plan *plan = b->plan;
    plan->nsizes = b->fn->nsizes;
    plan->solves = plan_keep(b, (size_t)plan->nsizes * sizeof *plan->solves);
    plan->size_names = plan_keep(b, (size_t)plan->nsizes * sizeof *plan->size_names);
    for (int k = 0; k < plan->nsizes; k++) {
        Solve *solve = &plan->solves[k];
        solve->param = -1;
        plan->size_names[k] = plan_text_keep(b, dim_name(b->cx, b->fn->sizes[k]));
        for (int p = 0; p < b->fn->nparams && solve->param < 0; p++) {
            const Type *t = b->fn->params[p]->type;
            for (int ax = 0; ax < t->rank && solve->param < 0; ax++) {
                Dim scale, rest;
                if (dim_affine(b->cx, t->dims[ax], b->fn->sizes[k], &scale, &rest) &&
                    dim_is_int(b->cx, scale, &solve->scale) && solve->scale != 0 &&
                    dim_is_int(b->cx, rest, NULL)) {
                    *solve = (Solve){p, ax, dim_ref(b, rest), solve->scale};
                }
            }
        }
    }
}

