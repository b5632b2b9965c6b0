/* The verifier: the language as a list of rules.  Every rule has a text under tests/ir/invalid
 * that breaks it.  "Provably" is by dim_lt and dim_le: for all values that the declared ranges
 * allow.
 *
 *   V01  A name is a word, neither inf nor nan, and binds one thing in the function: a value, a
 *        size or a loop index.  Only loops outside each other may share the name of their index.
 *   V02  A name is used after the let that binds it, in that let's block or in a body within it.
 *   V03  Sizes and loop indices in types, strides and attributes are declared and in scope.
 *   V04  An op stands where its stage has it.  graph: outside kernels, which there are not.
 *        kernels and loops: outside kernels stand kernels, views, sizes, cats and calls alone,
 *        inside neither a kernel nor a call; inside a kernel of the loops stage are loops over
 *        scalars: MAP, const, size, for, reduce, bind, load, store, update, buffer.
 *   V05  An op has its number of operands and results.  A kernel's body returns a value for each
 *        result, in the loops stage none.
 *   V06  An op has the attributes of its schema, with values that mean something: wrap is a row
 *        of check.def, effect, shares and laid are 0 or 1, a target is not empty, a loop may carry
 *        its marks (marks.def), a step is not 0, `over` is letters of a contraction.
 *   V07  The operands have types, and axes, that the op takes.
 *   V08  The type of a binder is the one that follows from the operands.
 *   V09  The operand of const and the fill of pad are constants; the source of a load, the target
 *        of a store, the operand of bind, and what a function, a kernel or a reduction returns,
 *        are names.
 *   V10  A slice and an as_strided stay, provably, within their operand.
 *   V11  Only call binds sizes, and bind, which binds one.
 *   V12  A result into a parameter or a view of one names a parameter of the same dtype, into also
 *        of the same type and no other result's; a view of a result names an earlier one, which
 *        is no such view itself and goes into no parameter.  A view of a parameter or a result is
 *        that, or views of it or of what it is a view of, with strides, unless it has no elements.
 *   V13  for returns and binds nothing.  reduce returns one scalar; its op is a reduction; it
 *        binds what that makes of the scalar's dtype.
 *   V14  In loops all values are scalars, but buffers.
 *   V15  A load reads an operand of the kernel, a buffer or one of the kernel's results; a store
 *        or update writes a buffer or one of the kernel's results, with a value of its dtype.
 *   V16  A load, a store and an update have an index for each axis, each provably within the axis,
 *        unless a loop around it has no iterations.
 *   V17  Every result of a kernel is the target of a store, or over a parameter.
 *   V18  parallel marks only loops that stand in the kernel's own block or, with no loop, store,
 *        update or buffer beside them, in the body of a loop so marked, and none with an update in
 *        its own block.
 *   V19  tile marks only a for whose body has one loop, a for marked vector without loops inside,
 *        and no store or buffer beside it.
 *   V20  recurrences marks only a for whose body has one loop, a for without marks and without
 *        loops inside.
 *   V21  A result over a parameter is a kernel's, the only one over it, and has its type and
 *        strides. Nothing reads the parameter later and no call takes it.  In the kernel its
 *        elements end where they were; in loops each is read before it is stored.
 *   V22  fused marks alone, and only a sum whose body returns a product of two numbers of a dtype
 *        that is computed in, in the body of a loop in one marked micro.
 *   V23  pack marks alone, and only a for whose body is one for without marks, or two of them, one
 *        in the other.  The body inside is a load, perhaps its cast, and the store of that to an
 *        element [.., outermost index + .., innermost index] of a buffer whose last axis has 128
 *        bytes: a row of a panel.
 *   V24  micro marks alone, and only a for of at most 14 iterations.  Its body is one for without
 *        marks, over columns, or one over panels with that one alone inside.  Its body is a sum
 *        marked fused, perhaps a load and the addition of the sum to it, and the store.  Load and
 *        store are at the same element of a buffer of two axes, whose rows are whole panels: [row +
 *        .., panel * width + column].  The first factor is a load or its cast, in which columns and
 *        panels do not occur, the second one in which the row does not: of an element [.., sum +
 *        .., column] of panels, or of anything if there is no loop over panels.  In that case both
 *        may be elements that go along the columns evenly.
 *   V25  short marks only a reduce marked lanes, whose op returns no index and whose extent is no
 *        number.
 *   V26  A buffer has as many places as elements: its strides, where it has any, are those of its
 *        axes in some order, each the product of the sizes before it.
 *   V27  onehot marks only a sum marked lanes whose body loads and computes, and returns where(i ==
 *        at, v, 0): i is its own index, at is made outside of it, and the zero is positive.
 *   V33  nontemporal marks only a store to a result or a buffer of the kernel, over no parameter,
 *        of elements of 4 or 8 bytes that are adjacent along the `for` in whose body it stands, and
 *        that body has no other access to it.  footprint stands beside nontemporal.  streams marks
 *        only a for marked vector without loops inside, in whose body is a nontemporal store.
 *   V34  prefetch and prefetch_rows mark only an access to something that is not private to a loop,
 *        and not both one access; prefetch_rows one in a loop with a loop around it.  beyond stands
 *        beside one of them. */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

enum { LETS_BEFORE = 5, LETS_AFTER = 4 };

/* The lets around the one at fault, of bodies only the head, with an arrow. */
static void
show_lets(const Let *let, Text *out)
{
    const Block *blk = let->parent;
    int at = 0;
    while (at < blk->n && blk->lets[at] != let) {
        at++;
    }
    int from = at > LETS_BEFORE ? at - LETS_BEFORE : 0;
    for (int k = from; k < blk->n && k <= at + LETS_AFTER; k++) {
        Text line = {.cx = out->cx};
        print_let(blk->lets[k], 0, &line);
        text_add(out, "\n%s", k == at ? "  > " : "    ");
        text_put(out, line.text, strcspn(line.text, "\n"));
    }
}

void
verify_broken(Verifier *v, int rule, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    Text out = {.cx = v->cx};
    if (v->let) {
        cx_set_loc(v->cx, v->let->loc);
        show_lets(v->let, &out);
    }
    fail(v->cx, DIAG_VERIFY, rule, v->let ? op_info[v->let->op].name : "", v->let ? ": " : "",
         message, v->fn->name, out.text ? out.text : "");
}

/* ---- V04: places ---- */

static bool
stands_right(const Verifier *v, const Let *let)
{
    const OpInfo *info = &op_info[let->op];
    if (v->fn->stage == STAGE_GRAPH) {
        return strchr(info->stages, 'G') != NULL;
    }
    if (!v->kernel) {
        return strchr(info->stages, 'T') != NULL;
    }
    return strchr(info->stages, v->fn->stage == STAGE_KERNELS ? 'K' : 'L') != NULL;
}

static void
check_place(Verifier *v, const Let *let)
{
    if (!stands_right(v, let)) {
        verify_broken(v, 4, "this does not stand %s a kernel in the %s stage",
                      v->kernel ? "inside" : "outside", stage_name(v->fn->stage));
    }
}

/* ---- V05, V06: the form of a let ---- */

static void
check_count(Verifier *v, const Let *let)
{
    const OpInfo *info = &op_info[let->op];
    if (info->arity >= 0 && let->nargs != info->arity) {
        verify_broken(v, 5, "the op has %d operands, not %d", info->arity, let->nargs);
    }
    static const char *const counts[] = {"results", "no result", "one result"};
    bool body = info->flags & OPF_BODY, empty = body && let->nres == 0;
    if (info->results < 0 ? empty : let->nres != info->results) {
        verify_broken(v, 5, "the op has %s, not %d", counts[info->results + 1], let->nres);
    }
    if (body != (let->body != NULL)) {
        verify_broken(v, 5, body ? "the op has a body" : "the op has no body");
    }
    int nrets = v->fn->stage == STAGE_LOOPS ? 0 : let->nres;
    if (let->op == OP_kernel && let->body->nrets != nrets) {
        verify_broken(v, 5, "the body returns %d values, not %d", nrets, let->body->nrets);
    }
}

static void
check_attr(Verifier *v, const Attr *a)
{
    const char *key = a->key;
    Contraction letters;
    bool yes = strcmp(key, "effect") == 0 || strcmp(key, "shares") == 0 || strcmp(key, "laid") == 0;
    if (yes && a->i != 0 && a->i != 1) {
        verify_broken(v, 6, "%s must be 0 or 1", key);
    }
    if (strcmp(key, "wrap") == 0 && (a->i < INDEX_FROM_START || a->i >= INDEX_KINDS)) {
        verify_broken(v, 6, "wrap must be 0 to %d", INDEX_KINDS - 1);
    }
    if (strcmp(key, "target") == 0 && a->s[0] == '\0') {
        verify_broken(v, 6, "the target is empty");
    }
    for (int k = 0; a->kind == ATTR_MARKS && k < MARK_COUNT; k++) {
        if (a->i & ~(int64_t)marks_of(v->let->op) & (1u << k)) {
            verify_broken(v, 6, "'%s' is not a mark of '%s'", mark_info[k].name,
                          op_info[v->let->op].name);
        }
        if (a->i >> k & 1 && (attr_mark_value(a, k) > 0) != mark_info[k].has_value) {
            verify_broken(v, 6, "'%s' %s", mark_info[k].name,
                          mark_info[k].has_value ? "needs a value above 0" : "has no value");
        }
    }
    if (strcmp(key, "over") == 0 && contraction_read(a->s, &letters)) {
        verify_broken(v, 6, "%s", contraction_read(a->s, &letters));
    }
    if (strcmp(key, "step") == 0 && dim_is(v->cx, a->d, 0)) {
        verify_broken(v, 6, "the step is 0");
    }
    verify_dims(v, a->kind == ATTR_DIM, &a->d);
    verify_dims(v, a->kind == ATTR_DIMS ? a->n : 0, a->dims);
}

/* The keys and kinds are those of the schema, in its order. */
static void
check_attrs(Verifier *v, const Let *let)
{
    static const char *const kinds[] = {"", "int", "dim", "axes", "dims", "str", "name", "marks"};
    const char *schema = op_info[let->op].attrs;
    Text have = {.cx = v->cx};
    for (int k = 0; k < let->nattrs; k++) {
        text_add(&have, "%s%s:%s", k ? " " : "", let->attrs[k].key, kinds[let->attrs[k].kind]);
    }
    if (strcmp(have.length ? have.text : "", schema) != 0) {
        verify_broken(v, 6, "the attributes are '%s', not '%s'", have.length ? have.text : "",
                      schema);
    }
    for (int k = 0; k < let->nattrs; k++) {
        check_attr(v, &let->attrs[k]);
    }
}

/* ---- V07, V08, V09: operands and types ---- */

static void
check_constants(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nargs; k++) {
        char reads = op_reads(let->op, k);
        bool constant = value_is_const(let->args[k]);
        if (reads == 'c' && !constant) {
            verify_broken(v, 9, "operand %d must be a constant", k);
        }
        if (reads == 'n' && constant) {
            verify_broken(v, 9, "operand %d must be a name", k);
        }
    }
    for (int k = 0; let->body && k < let->body->nrets; k++) {
        if (value_is_const(let->body->rets[k])) {
            verify_broken(v, 9, "the body returns a constant");
        }
    }
}

static void
check_types(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        const char *why = "";
        const Type *want = let_type(v->cx, let, k, &why);
        if (!want) {
            verify_broken(v, 7, "%s", why);
        }
        if (want != let->res[k]->type) {
            Text text = {.cx = v->cx};
            type_text(v->cx, want, &text);
            verify_broken(v, 8, "'%s' must be %s", let->res[k]->name, text.text);
        }
    }
}

/* ---- V10: views stay inside ---- */

static void
check_slice(Verifier *v, const Let *let)
{
    Cx *cx = v->cx;
    int64_t axis = let_int(let, "axis");
    Dim zero = dim_int(cx, 0), one = dim_int(cx, 1), start = let_dim(let, "start");
    Dim step = let_dim(let, "step"), size = let->args[0]->type->dims[axis];
    Dim steps = dim_sub(cx, let->res[0]->type->dims[axis], one);
    Dim last = dim_add(cx, start, dim_mul(cx, steps, step));
    bool up = dim_le(cx, zero, step) && dim_le(cx, zero, start) && dim_lt(cx, last, size);
    bool down = dim_le(cx, step, zero) && dim_lt(cx, start, size) && dim_le(cx, zero, last);
    if (!up && !down) {
        verify_broken(v, 10, "this is not known to stay within axis %lld of '%s'", (long long)axis,
                      let->args[0]->name);
    }
}

static void
check_as_strided(Verifier *v, const Let *let)
{
    Cx *cx = v->cx;
    const Type *t = let->res[0]->type;
    const Attr *strides = let_attr(let, "strides");
    Dim zero = dim_int(cx, 0), one = dim_int(cx, 1), last = let_dim(let, "offset");
    bool inside = dim_le(cx, zero, last);
    for (int ax = 0; ax < t->rank; ax++) {
        last = dim_add(cx, last, dim_mul(cx, dim_sub(cx, t->dims[ax], one), strides->dims[ax]));
        inside = inside && dim_le(cx, zero, strides->dims[ax]);
    }
    if (!inside || !dim_lt(cx, last, type_numel(cx, let->args[0]->type))) {
        verify_broken(v, 10, "this is not known to stay within '%s'", let->args[0]->name);
    }
}

/* ---- lets and blocks ---- */

static void
check_sizes(Verifier *v, const Let *let)
{
    bool bind = let->op == OP_bind;
    if (bind ? let->nsizes != 1 : let->nsizes && let->op != OP_call) {
        verify_broken(v, 11,
                      bind ? "bind binds one index, not %d" : "this op binds no sizes, not %d",
                      let->nsizes);
    }
    for (int k = 0; k < let->nsizes && !bind; k++) {
        verify_size(v, let->sizes[k]);
    }
}

static void
bind_results(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        const Value *over = let->res[k]->over;
        if (over && (let->op != OP_kernel || value_is_const(over))) {
            verify_broken(v, 21, "only a kernel's result takes the memory of a parameter");
        }
        verify_uses(v, over != NULL, (Value *const *)&over);
        verify_bind(v, let->res[k]);
    }
}

static void
check_kernel(Verifier *v, const Let *let)
{
    v->kernel = let;
    if (v->fn->stage == STAGE_LOOPS) {
        bind_results(v, let);   /* its stores name them */
        verify_loops_kernel(v, let);
    } else {
        verify_block(v, let->body);
        bind_results(v, let);
    }
    v->kernel = NULL;
    v->let = let;
    check_types(v, let);
}

static void
check_let(Verifier *v, const Let *let)
{
    v->let = let;
    check_place(v, let);
    check_count(v, let);
    check_attrs(v, let);
    verify_uses(v, let->nargs, let->args);
    check_constants(v, let);
    check_sizes(v, let);
    if (let->op == OP_kernel) {
        check_kernel(v, let);
        return;
    }
    check_types(v, let);
    if (let->op == OP_slice) {
        check_slice(v, let);
    } else if (let->op == OP_as_strided) {
        check_as_strided(v, let);
    }
    if (v->kernel && v->fn->stage == STAGE_LOOPS) {
        verify_loop_let(v, let);
    }
    bind_results(v, let);
}

static void
leave_scope(Verifier *v, const Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        v->scope[let->res[k]->id] = NULL;
    }
}

void
verify_block(Verifier *v, const Block *blk)
{
    int nsizes = v->nsizes;
    for (int k = 0; k < blk->n; k++) {
        check_let(v, blk->lets[k]);
    }
    v->let = blk->owner;
    verify_uses(v, blk->nrets, blk->rets);
    for (int k = 0; k < blk->n && blk->owner; k++) {
        leave_scope(v, blk->lets[k]);
    }
    v->nsizes = blk->owner ? nsizes : v->nsizes;
}

/* ---- V12: results ---- */

/* Has result k, a view, strides in what it shares memory with?  A fresh result that it is no view
 * of must have those promised in what both are views of, which is no parameter: else it is a
 * copy. */
static void
check_strides(Verifier *v, int k)
{
    const Fn *fn = v->fn;
    const Result *r = &fn->results[k];
    const Value *view = fn->body->rets[k];
    bool of_result = r->kind == RESULT_VIEW_RESULT;
    const Value *of = of_result ? fn->body->rets[r->of] : fn->params[r->of];
    const Dim *promised = of_result ? fn->results[r->of].strides : of->strides;
    Dim given[MAX_RANK], strides[MAX_RANK];
    type_dense(v->cx, of->type, given);
    promised = promised ? promised : given;
    bool fresh = of_result && fn->results[r->of].kind == RESULT_FRESH, stays = true;
    if (fresh && !value_is_view_of(view, of)) {
        stays = value_root(of)->def && value_layout_beside(v->cx, of, of, promised, strides);
        for (int ax = 0; ax < of->type->rank && stays; ax++) {
            stays = dim_is(v->cx, of->type->dims[ax], 1) ||
                    stride_same(v->cx, of->type, strides[ax], promised[ax]);
        }
    }
    if (!stays || !value_layout_beside(v->cx, view, of, promised, strides)) {
        verify_broken(v, 12, "result %d has no strides in %s %d", k,
                      of_result ? "result" : "parameter", r->of);
    }
}

static void
check_result(Verifier *v, int k)
{
    const Fn *fn = v->fn;
    const Result *r = &fn->results[k];
    const Type *t = fn->body->rets[k]->type;
    bool of_result = r->kind == RESULT_VIEW_RESULT;
    verify_dims(v, r->strides ? t->rank : 0, r->strides);
    if (r->kind == RESULT_FRESH) {
        return;
    }
    if (r->of < 0 || r->of >= (of_result ? fn->body->nrets : fn->nparams)) {
        verify_broken(v, 12, "result %d names %s %d, which there is not", k,
                      of_result ? "result" : "parameter", r->of);
    }
    if (of_result && r->of >= k) {
        verify_broken(v, 12, "result %d is a view of result %d, which is not before it", k, r->of);
    }
    if (of_result && fn->results[r->of].kind == RESULT_VIEW_RESULT) {
        verify_broken(v, 12, "result %d is a view of result %d, which is a view of a result", k,
                      r->of);
    }
    if (of_result && fn->results[r->of].kind == RESULT_INTO) {
        verify_broken(v, 12, "result %d is a view of result %d, which goes into a parameter", k,
                      r->of);
    }
    const Type *base = of_result ? fn->body->rets[r->of]->type : fn->params[r->of]->type;
    if (base->dtype != t->dtype || (r->kind == RESULT_INTO && base != t)) {
        verify_broken(v, 12, "result %d does not have the type of what it shares memory with", k);
    }
    for (int j = 0; j < k && r->kind == RESULT_INTO; j++) {
        if (fn->results[j].kind == RESULT_INTO && fn->results[j].of == r->of) {
            verify_broken(v, 12, "results %d and %d go into the same parameter", j, k);
        }
    }
    const Value *of = of_result ? fn->body->rets[r->of] : fn->params[r->of];
    if (r->kind != RESULT_INTO && value_root(fn->body->rets[k]) != value_root(of) &&
        !type_is_empty(v->cx, t)) {
        verify_broken(v, 12, "result %d is no view of %s %d", k, of_result ? "result" : "parameter",
                      r->of);
    }
    if (r->kind != RESULT_INTO && !type_is_empty(v->cx, t)) {
        check_strides(v, k);
    }
}

static void
check_results(Verifier *v)
{
    const Block *body = v->fn->body;
    v->let = NULL;
    for (int k = 0; k < body->nrets; k++) {
        if (value_is_const(body->rets[k])) {
            verify_broken(v, 9, "result %d is a constant", k);
        }
    }
    for (int k = 0; k < body->nrets; k++) {
        check_result(v, k);
    }
}

/* ---- V21: results over parameters ---- */

static void
check_overs(Verifier *v)
{
    const Fn *fn = v->fn;
    const ParamUse *uses = NULL;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            if (let->res[j]->over) {
                uses = uses ? uses : param_uses(fn);
                const char *why = in_place_wrong(fn, uses, k, let->res[j]);
                v->let = let;
                if (why) {
                    verify_broken(v, 21, "'%s' %s", let->res[j]->name, why);
                }
            }
        }
    }
}

void
verify_fn(const Fn *fn)
{
    Verifier v = {.fn = fn, .cx = fn->cx};
    v.scope = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *v.scope);
    v.stored = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *v.stored);
    for (int k = 0; k < fn->nsizes; k++) {
        verify_size(&v, fn->sizes[k]);
    }
    for (int k = 0; k < fn->nparams; k++) {
        verify_bind(&v, fn->params[k]);
    }
    verify_block(&v, fn->body);
    check_results(&v);
    check_overs(&v);
}
