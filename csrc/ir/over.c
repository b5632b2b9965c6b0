/* Results over parameters: a kernel's result that takes the memory of the parameter it goes into.
 *
 * What:     says whether a kernel may store a result where a parameter is, whose elements it may read itself.
 * Requires: nothing: the verifier asks of any text.
 * Ensures:  where over_wrong says nothing, the function computes what it would with memory of its own.
 * How:      nobody reads the parameter afterwards, and in the kernel an element is read by the iteration
 *           that stores it, and before.  In the kernels stage: the parameter, and what is computed of it,
 *           goes through MAPs alone, which never move an element, is what a scatter adds to, or is cut by
 *           slices that a cat puts where they were; lowering puts what such results need in one block,
 *           loads first.  In the loops stage this is what is looked for.
 * Why not:  views of the parameter inside the kernel: a flip reads what another iteration has stored.
 * Example:  m.mul_(0.9).add_(g): let m1: f32[N] over m = kernel { .. ret add (mul m, 0.9), g }.
 */
#include "cx.h"

static bool
is_top_view(const Value *v)
{
    return v->def && !v->def->parent->owner && op_info[v->def->op].kind == KIND_VIEW;
}

static bool
is_param(const Value *v)
{
    return !value_is_const(v) && !v->def;
}

/* The value that is read by who reads v; NULL for a constant. */
static const Value *
root_of(const Value *v)
{
    while (!value_is_const(v) && is_top_view(v)) {
        v = v->def->args[0];
    }
    return value_is_const(v) ? NULL : v;
}

static void
note_let(ParamUse *uses, const Let *let, int at)
{
    for (int k = 0; k < let->nargs; k++) {
        const Value *root = root_of(let->args[k]);
        if (root && is_param(root)) {
            ParamUse *use = &uses[root->result];
            use->last = at;
            use->viewed = root != let->args[k] ? at : use->viewed;
            use->taken |= let->op == OP_call && let_int(let, "shares");
        }
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        note_let(uses, let->body->lets[k], at);
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        const Value *root = root_of(let->body->rets[k]);
        if (root && is_param(root)) {
            uses[root->result].viewed = uses[root->result].last = at;
        }
    }
}

ParamUse *
param_uses(const Fn *fn)
{
    ParamUse *uses = cx_alloc(fn->cx, ((size_t)fn->nparams + 1) * sizeof *uses);
    for (int k = 0; k < fn->nparams; k++) {
        uses[k] = (ParamUse){.last = -1, .viewed = -1};
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (op_info[let->op].kind != KIND_VIEW) {       /* a view reads nothing */
            note_let(uses, let, k);
        }
        for (int j = 0; j < let->nres; j++) {
            const Value *over = let->res[j]->over;
            if (over && is_param(over)) {
                uses[over->result].overs++;
            }
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *root = root_of(fn->body->rets[k]);
        bool shares = fn->results[k].kind == RESULT_VIEW_PARAM;
        if (root && is_param(root) && !shares) {
            uses[root->result].last = fn->body->n;
        }
    }
    return uses;
}

/* ---- the kernel ---- */

/* How a value of the kernel has to do with the parameter; kept as the mark of its let. */
enum {
    APART,
    ALIGNED,                    /* each element comes of the parameter's at the same place, if of any */
    PART,                       /* a slice of the parameter */
    MOVED,
};

static int
relation(const Value *v, const Value *param)
{
    return v == param ? ALIGNED : value_is_const(v) || !v->def ? APART : v->def->mark;
}

/* The slices of the parameter go where they were, and nothing else of it goes anywhere. */
static bool
keeps_parts(Cx *cx, const Let *cat, const Value *param)
{
    int axis = (int)let_int(cat, "axis");
    Dim at = dim_int(cx, 0);
    for (int k = 0; k < cat->nargs; k++) {
        const Value *part = cat->args[k];
        int is = relation(part, param);
        if (is == ALIGNED || (is == PART && ((int)let_int(part->def, "axis") != axis ||
                                             let_dim(part->def, "start") != at))) {
            return false;
        }
        at = dim_add(cx, at, part->type->dims[axis]);
    }
    return true;
}

/* The kernel's only result, which adds to the parameter, or to what is made of it, and reads it nowhere else. */
static bool
adds_to(const Let *kernel, const Let *scatter, const Value *param)
{
    Dtype dtype = param->type->dtype;
    bool wide = let_op(scatter) != OP_store && dtype_info[dtype].compute != dtype;      /* has a buffer of its own */
    return !wide && kernel->nres == 1 && kernel->body->rets[0] == scatter->res[0] &&
           relation(scatter->args[0], param) == ALIGNED && relation(scatter->args[1], param) == APART &&
           relation(scatter->args[2], param) == APART;
}

/* What the let makes of operands of which `most` has most to do with the parameter. */
static int
relation_of(Cx *cx, const Let *kernel, const Let *let, const Value *param, int most)
{
    if (most == APART || most == MOVED) {
        return most;
    }
    if (let->op == OP_slice) {
        return let->args[0] == param && dim_is(cx, let_dim(let, "step"), 1) ? PART : MOVED;
    }
    if (let->op == OP_cat) {
        return keeps_parts(cx, let, param) ? ALIGNED : MOVED;
    }
    if (let->op == OP_scatter) {
        return adds_to(kernel, let, param) ? ALIGNED : MOVED;
    }
    return op_info[let->op].kind == KIND_MAP && most == ALIGNED ? ALIGNED : MOVED;
}

static bool
moves_elements(Cx *cx, const Let *kernel, const Value *param)
{
    const Block *blk = kernel->body;
    bool moves = false;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        int most = APART;
        for (int j = 0; j < let->nargs; j++) {
            int is = relation(let->args[j], param);
            most = is > most ? is : most;
        }
        let->mark = relation_of(cx, kernel, let, param, most);
        moves |= let->mark == MOVED;
    }
    for (int k = 0; k < blk->nrets; k++) {
        moves |= relation(blk->rets[k], param) == PART;
    }
    for (int k = 0; k < blk->n; k++) {
        blk->lets[k]->mark = 0;
    }
    return moves;
}

bool
same_index(const Let *a, const Let *b)
{
    const Attr *x = let_attr(a, "at"), *y = let_attr(b, "at");
    bool same = x->n == y->n;
    for (int k = 0; same && k < x->n; k++) {
        same = x->dims[k] == y->dims[k];
    }
    return same;
}

/* Does the load's own block store the element, after it?  No other store is of the same element. */
static bool
is_stored_after(const Let *load, const Value *v)
{
    const Block *blk = load->parent;
    bool after = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        after |= let == load;
        if (let->op == OP_store && let->args[0] == v && same_index(load, let)) {
            return after;
        }
    }
    return false;
}

static bool
loads_elsewhere(const Block *blk, const Value *v)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if ((let->op == OP_load && let->args[0] == v->over && !is_stored_after(let, v)) ||
            (let->body && loads_elsewhere(let->body, v))) {
            return true;
        }
    }
    return false;
}

/* ---- the function ---- */

static bool
same_layout(Cx *cx, const Value *a, const Value *b)
{
    Dim dense[MAX_RANK];
    type_dense(cx, a->type, dense);
    const Dim *x = a->strides ? a->strides : dense, *y = b->strides ? b->strides : dense;
    for (int ax = 0; ax < a->type->rank; ax++) {
        if (x[ax] != y[ax]) {
            return false;
        }
    }
    return true;
}

const char *
over_wrong_loops(const Value *v)
{
    return loads_elsewhere(v->def->body, v) ? "reads an element that another iteration may have stored" : NULL;
}

const char *
over_wrong(const Fn *fn, const ParamUse *uses, int at, const Value *v)
{
    const Value *param = v->over;
    const Let *let = fn->body->lets[at];
    if (!is_param(param) || let->op != OP_kernel) {
        return "takes the memory of something else than a parameter";
    }
    if (param->type != v->type || !same_layout(fn->cx, v, param)) {
        return "has another type or other strides than the parameter";
    }
    if (param->strides && !strides_apart(fn->cx, param->type, param->strides)) {
        return "is over a parameter whose elements may share memory";
    }
    if (uses[param->result].overs > 1) {
        return "takes the memory that another result takes";
    }
    if (uses[param->result].last > at || uses[param->result].taken) {
        return "is over a parameter that is read later, or shared by a call";
    }
    if (uses[param->result].viewed >= at) {
        return "is over a parameter that its kernel reads through a view";
    }
    if (fn->stage == STAGE_LOOPS) {
        return over_wrong_loops(v);
    }
    return moves_elements(fn->cx, let, param) ? "is over a parameter whose elements its kernel moves" : NULL;
}
