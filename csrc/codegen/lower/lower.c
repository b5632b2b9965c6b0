/* Lowering: from the kernels stage to the loops stage.
 *
 * What:     every kernel's body becomes buffers and loops over scalars.
 * Requires: the kernels stage.
 * Ensures:  the loops stage, where each top-level loop of a kernel is a phase, every element of
 *           every result is stored once, and reductions carry the mark that fixes their order
 *           (docs/bits.md).  If the loops of a result in place would read an element after they
 *           have stored it, the result gets memory of its own instead.  Lets that are not kernels
 *           are copied.
 * How:      results of one index space form a group; a group is one phase, or more:
 *           1. The probe (lower_probe.c) finds the reductions that the group demands and at which
 *              indices.  Axes of the results that these indices use are outer axes, the others are
 *              the row.
 *           2. A reduction goes to a buffer, in earlier phases of its own, in two cases: it is not
 *              wanted exactly once for each element of the outer axes; or the outer axes have so
 *              few elements that the reduction's own loop must be the parallel one.
 *           3. Axes become loops (lower_nest.c): the outer loops, in them the reductions, then the
 *              loop over the row.  A reduction stores the values that later loops over the row
 *              would otherwise compute again at a high cost.
 *           4. Scalars are placed by demand (lower_scalar.c, lower_loops.c).
 *           A group that needs a cat
 *           or a pad along one of its axes is cut into pieces there, one phase for each, so that
 *           its loops test nothing.  Where a cat interleaves a few parts of one element each, one
 *           iteration makes an element of each part.
 *           All this is done twice where rows may be short (lower_short.c): in an if, and in its
 *           else.
 * Why not:  make loops first and fuse them afterwards: fusion has been done on values, where it is
 *           simple.  Only placement is left, and placement by demand puts each scalar in one place.
 * Example:  y = softmax(x) over f32[B, N] becomes: for i in B { reduce amax; reduce sum, which
 *           stores exp(x - max) to a row buffer; for j in N { load the buffer, divide, store } }.
 */
#include <string.h>

#include "lower.h"
#include "codegen/rewrites.h"

/* ---- kernels ---- */

/* Do a and b have the same shape, apart from axes of one element? */
static bool
same_wide_axes(Cx *cx, const Type *a, const Type *b)
{
    int j = 0;
    bool same = type_wide_axes(cx, a) == type_wide_axes(cx, b);
    for (int k = 0; k < a->rank && same; k++) {
        if (!extent_is_one(cx, a->dims[k])) {
            while (extent_is_one(cx, b->dims[j])) {
                j++;
            }
            same = a->dims[k] == b->dims[j++];
        }
    }
    return same;
}

/* Finds the largest result that is left.  Its group also takes results of the outer axes alone. */
static int
next_result(const Lower *lo)
{
    int best = -1, most = -1;
    for (int k = 0; k < lo->nresults; k++) {
        int n = type_wide_axes(lo->cx, lo->kernel->res[k]->type);
        if (!lo->group_of[k] && n > most) {
            most = n;
            best = k;
        }
    }
    return best;
}

/* In a kernel with a contraction, later groups load the results of this group, so that the product
 * is not computed twice. */
static void
read_results(Lower *lo, const Group *g)
{
    bool contracts = false;
    for (int k = 0; k < lo->body->n; k++) {
        contracts |= lo->body->lets[k]->op == OP_contract;
    }
    for (int k = 0; k < g->nfull && contracts; k++) {
        if (!lo->leaf[g->outputs[k].value->id]) {
            lo->leaf[g->outputs[k].value->id] = g->outputs[k].buffer;
        }
    }
}

static void
lower_results(Lower *lo)
{
    for (int k = next_result(lo); k >= 0; k = next_result(lo)) {
        const Type *type = lo->kernel->res[k]->type;
        Group g = {.rank = type->rank,
                   .outputs = cx_alloc(lo->cx, (size_t)lo->nresults * sizeof(Output))};
        lo->ngroups++;
        for (int ax = 0; ax < g.rank; ax++) {
            g.start[ax] = dim_int(lo->cx, 0);
            g.dims[ax] = type->dims[ax];
        }
        for (int j = k; j < lo->nresults; j++) {
            if (!lo->group_of[j] && same_wide_axes(lo->cx, type, lo->kernel->res[j]->type)) {
                g.outputs[g.noutputs++] = output_of(lo, lo->rets[j], lo->kernel->res[j]);
                lo->group_of[j] = lo->ngroups;
            }
        }
        g.nfull = g.noutputs;
        lower_group(lo, &g);
        read_results(lo, &g);
    }
}

/* ---- results in place ---- */

/* Gives memory of its own to each result whose loops would read an element after storing it. */
static void
check_in_place(Cx *cx, Let *kernel)
{
    for (int k = 0; k < kernel->nres; k++) {
        if (kernel->res[k]->over && in_place_wrong_loops(cx, kernel->res[k])) {
            kernel->res[k]->over = NULL;
        }
    }
}

static void
read_value(User *user, const Value *v, const Let *by)
{
    if (!value_is_const(v)) {
        User *u = &user[v->id];
        u->only = u->read ? NULL : by;
        u->read = true;
        u->result |= !by;
    }
}

/* Finds the user of each value, by the value's id. */
static User *
find_users(const Fn *fn)
{
    User *user = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *user);
    for (int k = 0; k < fn->body->n; k++) {
        const Block *body = fn->body->lets[k]->body;
        for (int j = 0; body && j < body->n; j++) {
            for (int arg = 0; arg < body->lets[j]->nargs; arg++) {
                read_value(user, body->lets[j]->args[arg], body->lets[j]);
            }
        }
        for (int j = 0; body && j < body->nrets; j++) {
            read_value(user, body->rets[j], NULL);
        }
    }
    return user;
}

/* Phases for all results of the kernel, at the end of the block.  leaf: by id in the old
 * function. */
static void
lower_phases(const Lowering *in, const Let *old, Let *let, Block *blk, Value **leaf)
{
    Cx *cx = in->fn->cx;
    Lower *lo = cx_alloc(cx, sizeof *lo);
    *lo = (Lower){.cx = cx,
                  .out = {.cx = cx, .fn = in->fn},
                  .fn = in->fn,
                  .kernel = let,
                  .leaf = leaf,
                  .user = in->user,
                  .number = in->number,
                  .step = in->step,
                  .rets = old->body->rets,
                  .body = old->body,
                  .nresults = old->body->nrets};
    lo->group_of = cx_alloc(cx, (size_t)lo->nresults * sizeof *lo->group_of);
    lo->in_place = cx_alloc(cx, (size_t)lo->nresults * sizeof *lo->in_place);
    for (int k = 0; k < lo->nresults; k++) {
        lo->in_place[lo->nin_place] = let->res[k]->over;
        lo->nin_place += let->res[k]->over != NULL;
    }
    builder_begin(&lo->out, blk);
    lower_results(lo);
}

/* Lowers the phases in a branch of a choice. */
static void
lower_branch(const Lowering *in, const Let *old, Let *let, Let *choice)
{
    Cx *cx = in->fn->cx;
    choice->body = cx_alloc(cx, sizeof *choice->body);
    choice->body->owner = choice;
    block_append(cx, let->body, choice);
    let_enter(cx, choice);
    lower_phases(in, old, let, choice->body,
                 cx_copy(cx, in->leaf, (size_t)in->nvalues * sizeof *in->leaf));
    dim_forget(cx);
}

static void
lower_kernel(const Lowering *in, const Let *old, Let *let)
{
    Fn *fn = in->fn;
    Cx *cx = fn->cx;
    Dim symbol;
    int64_t last;
    let->body = cx_alloc(cx, sizeof *let->body);
    let->body->owner = let;
    if (kernel_loop(old)) {
        lower_steps(in, old, let);
    } else if (!in->number && lower_is_short(cx, old, &symbol, &last) && fuel_spend(cx)) {
        Attr attrs[] = {attr_dim(cx, "left", symbol), attr_dim(cx, "right", dim_int(cx, last))};
        lower_branch(in, old, let, let_new(fn, OP_if, 0, NULL, 2, attrs));
        lower_branch(in, old, let, let_new(fn, OP_else, 0, NULL, 0, NULL));
    } else {
        lower_phases(in, old, let, let->body, in->leaf);
    }
    check_in_place(cx, let);
}

/* ---- functions ---- */

static Attr *
copy_attrs(Cx *cx, const Let *let)
{
    return cx_copy(cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
}

/* A let of the function's own block; leaf maps old values to new ones. */
static void
lower_let(const Lowering *in, const Let *old)
{
    Fn *fn = in->fn;
    Cx *cx = fn->cx;
    Value **leaf = in->leaf;
    cx_set_loc(cx, old->loc);
    Value **args = cx_alloc(cx, (size_t)(old->nargs + 1) * sizeof *args);
    for (int k = 0; k < old->nargs; k++) {
        args[k] = value_is_const(old->args[k]) ? old->args[k] : leaf[old->args[k]->id];
    }
    Let *let = let_new(fn, old->op, old->nargs, args, old->nattrs, copy_attrs(cx, old));
    let->loc = old->loc;
    let->nsizes = old->nsizes;
    let->sizes = old->sizes;
    let_bodies(cx, let, old->nbodies, old->bodies);
    for (int k = 0; k < old->nres; k++) {
        const Value *v = old->res[k];
        leaf[v->id] = let_result(fn, let, v->name, v->type, v->strides);
        leaf[v->id]->over = v->over ? leaf[v->over->id] : NULL;
        if (let_is_flow(let) && v->over && flow_takes(let, k) < 0) {
            leaf[v->id]->over = NULL; /* a body has taken its memory back */
        }
    }
    if (old->op == OP_kernel) {
        lower_kernel(in, old, let);
    }
    block_append(cx, fn->body, let);
}

/* Lowers the function into the new one, which has the names of its values. */
static Fn *
lower_fn(const Fn *old, Fn *fn, const Value *number, Dim step)
{
    Cx *cx = old->cx;
    Lowering in = {
        .fn = fn,
        .leaf = cx_alloc(cx, (size_t)old->nvalues * sizeof *in.leaf),
        .nvalues = old->nvalues,
        .user = find_users(old),
        .number = number,
        .step = step,
    };
    for (int k = 0; k < old->nparams; k++) {
        const Value *v = old->params[k];
        in.leaf[v->id] = fn_param_like(fn, v);
    }
    for (int k = 0; k < old->body->n; k++) {
        for (int j = 0; j < old->body->lets[k]->nres; j++) {
            fn_take_name(fn, old->body->lets[k]->res[j]->name);
        }
    }
    for (int k = 0; k < old->body->n; k++) {
        lower_let(&in, old->body->lets[k]);
    }
    Value **rets = cx_alloc(cx, (size_t)(old->body->nrets + 1) * sizeof *rets);
    for (int k = 0; k < old->body->nrets; k++) {
        Value *v = old->body->rets[k];
        rets[k] = value_is_const(v) ? v : in.leaf[v->id];
    }
    fn_results(fn, old->body->nrets, rets, old->results);
    return fn;
}

Fn *
lower_body(Fn *around, const Fn *body, Dim step)
{
    Fn *fn = fn_new(around->cx, body->name, STAGE_LOOPS);
    fn->names = around->names; /* no value of the one has a name or an id of the other */
    fn->nvalues = around->nvalues;
    lower_fn(body, fn, body->params[0], step);
    around->nvalues = fn->nvalues;
    return fn;
}

Fn *
rewrite_lower(Fn *old)
{
    Cx *cx = old->cx;
    Fn *fn = fn_new(cx, old->name, STAGE_LOOPS);
    for (int k = 0; k < old->nsizes; k++) {
        fn_size(fn, old->sizes[k]);
        fn_take_name(fn, dim_name(cx, old->sizes[k]));
    }
    lower_fn(old, fn, NULL, DIM_NONE);
    cx_set_loc(cx, (Loc){0});
    return fn;
}
