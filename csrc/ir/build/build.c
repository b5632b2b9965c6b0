/* The builder: appends lets, or returns an equal one that exists already.
 *
 * Value numbering is by hash, a table for each open block; a let is searched for in the block under
 * construction and in those around it. fold.c and algebra.c simplify a MAP; the views simplify in
 * build_view.c. */
#include "build.h"
#include "ir/rules.h"

#include <string.h>

Build *
build_new(Fn *fn)
{
    Build *b = cx_alloc(fn->cx, sizeof *b);
    b->fn = fn;
    b->cx = fn->cx;
    b->top = cx_alloc(fn->cx, sizeof *b->top);
    b->top->blk = fn->body;
    return b;
}

Cx *
build_cx(const Build *b)
{
    return b->cx;
}

Fn *
build_fn(const Build *b)
{
    return b->fn;
}

void
build_at(Build *b, Loc loc)
{
    b->loc = loc;
    cx_set_loc(b->cx, loc);
}

Loc
build_loc(const Build *b)
{
    return b->loc;
}

static void
push(Build *b, Block *blk)
{
    Scope *scope = cx_alloc(b->cx, sizeof *scope);
    scope->outer = b->top;
    scope->blk = blk;
    b->top = scope;
}

Block *
build_open(Build *b)
{
    push(b, cx_alloc(b->cx, sizeof(Block)));
    return b->top->blk;
}

Block *
build_open_body(Build *b, Let *let)
{
    let->body = build_open(b);
    let->body->owner = let;
    return let->body;
}

void
build_close(Build *b, int nrets, Value *const *rets)
{
    Block *blk = b->top->blk;
    blk->rets = cx_copy(b->cx, rets, (size_t)nrets * sizeof *rets);
    blk->nrets = nrets;
    b->top = b->top->outer;
}

void
build_wrong(Build *b, Op op, const char *why)
{
    fail(b->cx, DIAG_BUILD, op_info[op].name, why);
}

/* ---- value numbering ---- */

/* A let that is not in a block yet. */
typedef struct {
    Op op;
    int nargs, nattrs, nres;
    Value *const *args;
    const Attr *attrs;
    const Type *const *types;
    const Dim *const *strides;  /* NULL: all dense */
} Wanted;

static const Dim *
strides_of(const Wanted *want, int k)
{
    return want->strides ? want->strides[k] : NULL;
}

/* Two equal calls are merged, although their sites differ. */
static bool
attr_matters(Op op, const Attr *a)
{
    return op != OP_call || strcmp(a->key, "site") != 0;
}

static uint64_t
hash_attr(const Attr *a)
{
    uint64_t h = hash_mix(hash_mix((uint64_t)a->i, a->d), (uint64_t)(uintptr_t)a->s);
    h = hash_mix(h, (uint64_t)(uintptr_t)a->letters);
    for (int k = 0; a->kind == ATTR_MARKS && k < MARK_COUNT; k++) {
        h = hash_mix(h, (uint64_t)attr_mark_value(a, k));
    }
    h = a->kind == ATTR_AXES ? hash_mix(h, hash_bytes(a->axes, (size_t)a->n * sizeof(int))) : h;
    return a->kind == ATTR_DIMS ? hash_mix(h, hash_bytes(a->dims, (size_t)a->n * sizeof(Dim))) : h;
}

static bool
same_marks(const Attr *a, const Attr *b)
{
    bool same = a->i == b->i;
    for (int k = 0; k < MARK_COUNT; k++) {
        same &= attr_mark_value(a, k) == attr_mark_value(b, k);
    }
    return same;
}

static bool
same_attr(const Attr *a, const Attr *b)
{
    return a->kind == b->kind && (a->kind != ATTR_MARKS || same_marks(a, b)) && a->i == b->i &&
           a->d == b->d && a->s == b->s && a->letters == b->letters && a->n == b->n &&
           (a->kind != ATTR_AXES || !a->n ||
            memcmp(a->axes, b->axes, (size_t)a->n * sizeof(int)) == 0) &&
           (a->kind != ATTR_DIMS || !a->n ||
            memcmp(a->dims, b->dims, (size_t)a->n * sizeof(Dim)) == 0);
}

static uint64_t
hash_arg(const Value *v)
{
    return !value_is_const(v)
               ? (uint64_t)(uintptr_t)v
               : hash_mix((uint64_t)v->literal.i, hash_bytes(&v->literal.f, sizeof v->literal.f));
}

static bool
same_arg(const Value *a, const Value *b)
{
    return a == b ||
           (value_is_const(a) && value_is_const(b) && literal_same(a->literal, b->literal));
}

static uint64_t
hash_wanted(const Wanted *want)
{
    uint64_t h = (uint64_t)want->op;
    for (int k = 0; k < want->nargs; k++) {
        h = hash_mix(h, hash_arg(want->args[k]));
    }
    for (int k = 0; k < want->nattrs; k++) {
        h = attr_matters(want->op, &want->attrs[k]) ? hash_mix(h, hash_attr(&want->attrs[k])) : h;
    }
    for (int k = 0; k < want->nres; k++) {
        h = hash_mix(h, (uint64_t)(uintptr_t)want->types[k]);
    }
    return h;
}

static bool
same_result(const Value *v, const Type *t, const Dim *strides)
{
    return v->type == t && !v->strides == !strides &&
           (!strides || !t->rank ||
            memcmp(v->strides, strides, (size_t)t->rank * sizeof(Dim)) == 0);
}

static bool
same_let(const void *entry, const void *key)
{
    const Let *let = entry;
    const Wanted *want = key;
    bool same = let->op == want->op && let->nargs == want->nargs && let->nattrs == want->nattrs &&
                let->nres == want->nres;
    for (int k = 0; same && k < want->nargs; k++) {
        same = same_arg(let->args[k], want->args[k]);
    }
    for (int k = 0; same && k < want->nattrs; k++) {
        same = !attr_matters(want->op, &want->attrs[k]) ||
               same_attr(&let->attrs[k], &want->attrs[k]);
    }
    for (int k = 0; same && k < want->nres; k++) {
        same = same_result(let->res[k], want->types[k], strides_of(want, k));
    }
    return same;
}

static Let *
find(const Build *b, const Wanted *want, uint64_t hash)
{
    /* A let that costs nothing is made again instead of read from outside a kernel. */
    bool near = want->op == OP_const || want->op == OP_iota || want->op == OP_size;
    Let *let = NULL;
    for (const Scope *scope = b->top; scope && !let; scope = near ? NULL : scope->outer) {
        let = table_find(&scope->lets, hash, same_let, want);
    }
    return let;
}

/* The name of the let it is like, when that is free, else a new one. */
static const char *
result_name(Build *b, int k)
{
    const char *name = b->like && k < b->like->nres ? b->like->res[k]->name : "t";
    return b->like && fn_take_name(b->fn, name) ? name : fn_fresh_name(b->fn, name);
}

static Let *
append(Build *b, const Wanted *want)
{
    Let *let = let_new(b->fn, want->op, want->nargs, want->args, want->nattrs, want->attrs);
    let->loc = b->loc;
    for (int k = 0; k < want->nres; k++) {
        let_result(b->fn, let, result_name(b, k), want->types[k], strides_of(want, k));
    }
    b->like = NULL;
    block_append(b->cx, b->top->blk, let);
    return let;
}

static Let *
find_or_append(Build *b, const Wanted *want)
{
    uint64_t hash = hash_wanted(want);
    Let *let = find(b, want, hash);
    if (!let) {
        let = append(b, want);
        table_add(b->cx, &b->top->lets, hash, let);
    }
    return let;
}

Value *
build_emit(Build *b, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs,
           const Type *type)
{
    Wanted want = {op, nargs, nattrs, 1, args, attrs, &type, NULL};
    return find_or_append(b, &want)->res[0];
}

Let *
build_let(Build *b, Op op, int nargs, Value *const *args, const Attr *attrs, Block *body, int nres,
          const Type *const *types, const Dim *const *strides)
{
    int nattrs = op_attrs(op);
    Wanted want = {op, nargs, nattrs, nres, args, attrs, types, strides};
    Let *let = append(b, &want);
    let->body = body;
    if (body) {
        body->owner = let;
    }
    return let;
}

/* ---- constants ---- */

Value *
build_int(Build *b, int64_t i)
{
    Value *v = cx_alloc(b->cx, sizeof *v);
    v->literal = (Literal){.is_int = true, .i = i};
    return v;
}

Value *
build_float(Build *b, double f)
{
    Value *v = cx_alloc(b->cx, sizeof *v);
    v->literal = (Literal){.f = f};
    return v;
}

Value *
build_literal_of(Value *v)
{
    return value_is_const(v) ? v : v->def && v->def->op == OP_const ? v->def->args[0] : NULL;
}

Value *
build_const(Build *b, const Type *t, Literal literal)
{
    if (dtype_info[t->dtype].class > CLASS_FLOAT) {
        build_wrong(b, OP_const, "only bool, integers and floating point have constants");
    }
    Value *v = build_int(b, 0);
    v->literal = fold_cast(literal, t->dtype);
    return build_emit(b, OP_const, 1, &v, 0, NULL, t);
}

/* ---- MAP ---- */

/* The literal as its context has it: a number with a point among floats. */
static Value *
adapt(Build *b, Op op, Value *v, Dtype dtype)
{
    if (dtype_info[dtype].class == CLASS_FLOAT && v->literal.is_int) {
        return build_float(b, (double)v->literal.i);
    }
    if (!literal_fits(v->literal, dtype)) {
        build_wrong(b, op, "a constant does not fit the dtype");
    }
    return v;
}

/* Replaces tensors of one constant by constants.  A type must remain, so if all operands are
 * constants *all is set; one arm of a `where` stays as it is. */
static void
take_literals(Build *b, Op op, Value **args, int n, const Type *t, bool *all)
{
    bool sel = op_info[op].rule == RULE_SEL;
    Dtype dtype = sel ? t->dtype
                      : (args[0]->type   ? args[0]
                         : args[1]->type ? args[1]
                                         : args[2])
                            ->type->dtype;
    Value *literals[3] = {NULL, NULL, NULL};
    *all = true;
    for (int k = 0; k < n; k++) {
        literals[k] = build_literal_of(args[k]);
        *all &= literals[k] != NULL;
    }
    bool keep = sel && literals[1] && literals[2];
    for (int k = 0; k < n; k++) {
        bool typed = keep && k == (args[1]->type ? 1 : 2);
        if (literals[k] && (*all || !typed)) {
            args[k] = adapt(b, op, literals[k], sel && k == 0 ? DT_bool : dtype);
        }
    }
}

static Value *
map_of(Build *b, Op op, Value *x, Value *y, Value *z, Dtype to)
{
    const char *why;
    int n = op_info[op].arity;
    Value *given[3] = {x, y, z}, *args[3] = {x, y, z};
    for (int k = 0; k < n; k++) {
        if (!args[k]) {
            build_wrong(b, op, "an operand is missing");
        }
    }
    const Type *t = type_map(b->cx, op, x->type, n > 1 ? y->type : NULL, n > 2 ? z->type : NULL, to,
                             &why);
    if (!t) {
        build_wrong(b, op, why);
    }
    bool all;
    take_literals(b, op, args, n, t, &all);
    Value *typed = x->type && op != OP_where ? x : n > 1 && y->type ? y : z;
    Literal literal;
    if (all && fold_map(op, typed->type->dtype, t->dtype, args, &literal)) {
        return build_const(b, t, literal);
    }
    if (all) {                  /* it may trap: one keeps its type, and the op stays */
        args[given[0] == typed ? 0 : 1] = typed;
    }
    algebra_order(op, args);
    Value *v = algebra_map(b, op, args, t);
    return !v                  ? build_emit(b, op, n, args, 0, NULL, t)
           : value_is_const(v) ? build_const(b, t, v->literal)
                               : v;
}

Value *
build_map(Build *b, Op op, Value *a, Value *bb, Value *c)
{
    if (op_info[op].kind != KIND_MAP || op == OP_cast || op == OP_bitcast) {
        build_wrong(b, op, "not an op of build_map");
    }
    return map_of(b, op, a, bb, c, DTYPE_COUNT);
}

Value *
build_cast(Build *b, Value *a, Dtype to)
{
    if (value_is_const(a)) {
        Value *v = build_int(b, 0);
        v->literal = fold_cast(a->literal, to);
        return v;
    }
    return a->type->dtype == to ? a : map_of(b, OP_cast, a, NULL, NULL, to);
}

Value *
build_bitcast(Build *b, Value *a, Dtype to)
{
    return a->type && a->type->dtype == to ? a : map_of(b, OP_bitcast, a, NULL, NULL, to);
}

Value *
build_map_like(Build *b, const Let *let, Value *const *args)
{
    Dtype to = let->res[0]->type->dtype;
    return let->op == OP_cast      ? build_cast(b, args[0], to)
           : let->op == OP_bitcast ? build_bitcast(b, args[0], to)
                                   : build_map(b, let->op, args[0], let->nargs > 1 ? args[1] : NULL,
                                               let->nargs > 2 ? args[2] : NULL);
}

/* ---- calls, loads, stores ---- */

Let *
build_call(Build *b, const CallAttrs *call, int nargs, Value *const *args, int nres,
           const Type *const *types, const Dim *const *strides)
{
    Attr attrs[] = {attr_str(b->cx, "target", call->target),
                    attr_str(b->cx, "args", call->args),
                    attr_dims(b->cx, "dims", call->ndims, call->dims),
                    attr_int(b->cx, "effect", call->effect),
                    attr_int(b->cx, "site", call->site),
                    attr_int(b->cx, "shares", call->shares),
                    attr_int(b->cx, "laid", call->laid)};
    Wanted want = {OP_call, nargs, sizeof attrs / sizeof *attrs, nres, args, attrs, types, strides};
    return call->effect || nres == 0 ? append(b, &want) : find_or_append(b, &want);
}

/* May the loaded element change before it is loaded again? */
static bool
is_stored_to(const Build *b, const Value *v)
{
    bool stored = v->def && v->def->op == OP_buffer;
    for (const Scope *scope = b->top; scope && !stored; scope = scope->outer) {
        stored = v->def && scope->blk->owner == v->def;
    }
    return stored;
}

Value *
build_load(Build *b, Value *a, const Dim *at)
{
    if (value_is_const(a)) {
        build_wrong(b, OP_load, "the operand must not be a constant");
    }
    const Type *t = type_scalar(b->cx, a->type->dtype);
    Attr attrs[] = {attr_dims(b->cx, "at", a->type->rank, at), attr_marks(b->cx, 0)};
    Wanted want = {OP_load, 1, 2, 1, &a, attrs, &t, NULL};
    return (is_stored_to(b, a) ? append(b, &want) : find_or_append(b, &want))->res[0];
}
