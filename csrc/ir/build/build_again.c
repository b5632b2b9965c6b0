/* A let rebuilt with other operands, through the builder, so that it folds anew. */
#include "build.h"

#include <string.h>

static Value *
mapped(Value *v, Value **map)
{
    return !value_is_const(v) && map[v->id] ? map[v->id] : v;
}

static Value **
mapped_all(Build *b, int n, Value *const *values, Value **map)
{
    Value **out = cx_alloc(b->cx, (size_t)n * sizeof *out);
    for (int k = 0; k < n; k++) {
        out[k] = mapped(values[k], map);
    }
    return out;
}

static Value *
view_again(Build *b, const Let *let, Value *a)
{
    const Type *t = let->res[0]->type;
    const Attr *attr = let->nattrs ? &let->attrs[0] : NULL;
    switch (let->op) {
    case OP_expand:
        return build_expand(b, a, t->rank, t->dims, attr->axes);
    case OP_reshape:
        return build_reshape(b, a, t->rank, t->dims);
    case OP_permute:
        return build_permute(b, a, attr->axes);
    case OP_slice: {
        int axis = (int)let_int(let, "axis");
        return build_slice(b, a, axis, let_dim(let, "start"), let_dim(let, "step"), t->dims[axis]);
    }
    case OP_flip:
        return build_flip(b, a, attr->n, attr->axes);
    default:
        return build_as_strided(b, a, t->rank, t->dims, let_attr(let, "strides")->dims,
                                let_dim(let, "offset"));
    }
}

/* The nodes that the builder has a function for; NULL for the others. */
static Value *
node_again(Build *b, const Let *let, Value **args)
{
    const Type *t = let->nres ? let->res[0]->type : NULL;
    switch (let->op) {
    case OP_const:
        return build_const(b, t, args[0]->literal);
    case OP_iota:
        return build_iota(b, t, (int)let_int(let, "axis"));
    case OP_size:
        return build_size(b, let_dim(let, "dim"));
    case OP_cat:
        return build_cat(b, let->nargs, args, (int)let_int(let, "axis"));
    case OP_pad:
        return build_pad(b, args[0], args[1], t, let_attr(let, "lo")->dims);
    case OP_gather:
        return build_gather(b, args[0], args[1], (int)let_int(let, "axis"),
                            (int)let_int(let, "wrap"));
    case OP_scan:
        return build_scan(b, let_op(let), args[0], (int)let_int(let, "axis"));
    case OP_scatter:
        return build_scatter(b, let_op(let), args[0], args[1], args[2], (int)let_int(let, "axis"),
                             (int)let_int(let, "wrap"));
    case OP_contract:
        return build_contract(b, args[0], args[1], let_contraction(let), t->dtype);
    case OP_load:
        return build_load(b, args[0], let_attr(let, "at")->dims);
    default:
        return NULL;
    }
}

static void
body_again(Build *b, const Block *from, Let *to, Value **map)
{
    build_open_body(b, to);
    for (int k = 0; k < from->n; k++) {
        if (b->each) {
            b->each(b->each_arg, b, from->lets[k], map);
        } else {
            build_again(b, from->lets[k], map);
        }
    }
    build_close(b, from->nrets, mapped_all(b, from->nrets, from->rets, map));
}

static CallAttrs
call_attrs(const Let *let)
{
    const Attr *dims = let_attr(let, "dims");
    return (CallAttrs){
        .target = let_str(let, "target"),
        .args = let_str(let, "args"),
        .dims = dims->dims,
        .ndims = dims->n,
        .site = (int)let_int(let, "site"),
        .effect = let_int(let, "effect") != 0,
        .shares = let_int(let, "shares") != 0,
        .laid = let_int(let, "laid") != 0,
    };
}

/* The let with results of these types and without bodies. */
static Let *
let_again(Build *b, const Let *let, Value *const *args, const Type *const *types)
{
    const Dim **strides = cx_alloc(b->cx, (size_t)let->nres * sizeof *strides);
    for (int k = 0; k < let->nres; k++) {
        strides[k] = types[k] == let->res[k]->type ? let->res[k]->strides : NULL;
    }
    if (let->op == OP_call && let->nsizes == 0) {
        CallAttrs call = call_attrs(let);
        return build_call(b, &call, let->nargs, args, let->nres, types, strides);
    }
    Let *to = build_let(b, let->op, let->nargs, args, let->attrs, NULL, let->nres, types, strides);
    if (let->nsizes) {
        to->sizes = cx_copy(b->cx, let->sizes, (size_t)let->nsizes * sizeof *let->sizes);
        to->nsizes = let->nsizes;
    }
    return to;
}

/* Calls, stores, kernels, loops: the same let, its body rebuilt.  Bodies that are functions are
 * what they were. */
static void
whole_again(Build *b, const Let *let, Value **args, Value **map)
{
    const Type **types = cx_alloc(b->cx, (size_t)let->nres * sizeof *types);
    for (int k = 0; k < let->nres; k++) {
        types[k] = let->res[k]->type;
    }
    Let *to = let_again(b, let, args, types);
    for (int k = 0; k < let->nres; k++) {
        map[let->res[k]->id] = to->res[k];
    }
    if (let->body) {
        body_again(b, let->body, to, map);
    }
    let_bodies(b->cx, to, let->nbodies, let->bodies);
}

Let *
build_flow(Build *b, const Let *let, Value **args, const Type *const *types, Fn **bodies)
{
    build_at(b, let->loc);
    Let *to = let_again(b, let, args, types);
    let_bodies(b->cx, to, let->nbodies, bodies);
    return to;
}

/* Keeps the strides of a kernel's result, for the case that it has to be in memory. */
static void
keep_strides(const Build *b, const Let *let, Value *v)
{
    if (b->fn->stage == STAGE_GRAPH && let->res[0]->strides && v->def && let_is_made(v->def) &&
        v->type == let->res[0]->type && !v->strides) {
        v->strides = let->res[0]->strides;
    }
}

void
build_again(Build *b, const Let *let, Value **map)
{
    const OpInfo *info = &op_info[let->op];
    Value **args = mapped_all(b, let->nargs, let->args, map), *v = NULL;
    const Attr *axes;
    build_at(b, let->loc);
    b->like = let;
    switch (info->kind) {
    case KIND_MAP:
        v = build_map_like(b, let, args);
        break;
    case KIND_RED:
        axes = let_attr(let, "axes");
        v = build_red(b, let->op, args[0], axes->n, axes->axes);
        break;
    case KIND_VIEW:
        v = view_again(b, let, args[0]);
        break;
    case KIND_NODE:
        v = node_again(b, let, args);
        break;
    }
    if (v) {
        map[let->res[0]->id] = v;
        keep_strides(b, let, v);
    } else {
        whole_again(b, let, args, map);
    }
    b->like = NULL;
}

void
build_bodies(Build *b, BuildLet *each, void *arg)
{
    b->each = each;
    b->each_arg = arg;
}
