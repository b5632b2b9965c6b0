/* Reductions and running sums; elements that are joined, padded, and found by indices. */
#include "out.h"

static int
axes_of(Out *o)
{
    const Attr *axes = let_attr(o->let, "axes");
    int64_t list[MAX_RANK];
    for (int k = 0; k < axes->n; k++) {
        list[k] = axes->axes[k];
    }
    return out_ints(o, axes->n, list);
}

static int
along(Out *o, const char *op, Dtype dtype, int x)
{
    int in[] = {x, axes_of(o)};
    return out_node(o, op, out_as(o, dtype), 2, in, out_int("keepdims", 0));
}

void
out_reduce(Out *o)
{
    Dtype dtype = out_computed(o, o->let->args[0]->type->dtype);
    out_result(o, along(o, o->row->onnx, dtype, out_cast(o, out_arg(o, 0), dtype)));
}

/* An extreme is NaN where an element is; runtimes of ONNX do not agree on that. */
void
out_reduce_extreme(Out *o)
{
    Dtype dtype = out_computed(o, o->let->args[0]->type->dtype);
    int x = out_cast(o, out_arg(o, 0), dtype), made = along(o, o->row->onnx, dtype, x);
    if (dtype_info[dtype].class == CLASS_FLOAT) {
        int sum = along(o, "ReduceSum", dtype, x);
        int is_nan = out1(o, "IsNaN", type_with(o->cx, o->let->args[0]->type, DT_bool), x);
        int any = along(o, "ReduceSum", DT_i32, out_cast(o, is_nan, DT_i32));
        int some = out2(o, "Greater", out_as(o, DT_bool), any, out_whole(o, DT_i32, 0));
        made = out3(o, "Where", out_as(o, dtype), some, sum, made);
    }
    out_result(o, made);
}

/* How many are true, or false. */
void
out_reduce_truth(Out *o)
{
    const Type *t = type_with(o->cx, o->let->args[0]->type, DT_bool);
    int x = out_cast(o, out_arg(o, 0), DT_bool);
    bool any = o->let->op == OP_any;
    x = any ? x : out1(o, "Not", t, x);
    int count = along(o, "ReduceSum", DT_i32, out_cast(o, x, DT_i32));
    out_result(
        o, out2(o, any ? "Greater" : "Equal", out_as(o, DT_bool), count, out_whole(o, DT_i32, 0)));
}

static int
place_along(Out *o, const char *op, int x)
{
    OutNode *node = out_any(o, op, 1, &x, 1);
    node->attrs[0] = out_int("axis", let_attr(o->let, "axes")->axes[0]);
    node->attrs[1] = out_int("keepdims", 0);
    node->nattrs = 2;
    return out_new(o, node, 0, out_as(o, DT_i64));
}

/* The first NaN is both extremes, which runtimes of ONNX leave out. */
void
out_arg_extreme(Out *o)
{
    const Type *t = o->let->args[0]->type;
    Dtype dtype = out_computed(o, t->dtype);
    int x = out_cast(o, out_arg(o, 0), dtype), made = place_along(o, o->row->onnx, x);
    if (dtype_info[dtype].class == CLASS_FLOAT) {
        int is_nan = out_cast(o, out1(o, "IsNaN", type_with(o->cx, t, DT_bool), x), DT_i32);
        int any = along(o, "ReduceSum", DT_i32, is_nan);
        int some = out2(o, "Greater", out_as(o, DT_bool), any, out_whole(o, DT_i32, 0));
        int first = place_along(o, "ArgMax", is_nan);
        made = out3(o, "Where", out_as(o, DT_i64), some, first, made);
    }
    out_result(o, made);
}

/* The running sum is in the wider type, as the language has it. */
void
out_scan(Out *o)
{
    Dtype dtype = o->let->args[0]->type->dtype, wide = out_computed(o, dtype);
    if (let_op(o->let) != OP_sum) {
        out_refuse(o, "ONNX has no running %s of opset 18", op_info[let_op(o->let)].name);
    }
    wide = dtype == DT_f32 ? DT_f64 : wide;
    int in[] = {out_cast(o, out_arg(o, 0), wide), out_whole(o, DT_i64, let_int(o->let, "axis"))};
    out_result(o, out_node(o, o->row->onnx, out_as(o, wide), 2, in, NO_ATTR));
}

void
out_cat(Out *o)
{
    int *in = cx_alloc(o->cx, (size_t)(o->let->nargs + 1) * sizeof *in);
    for (int k = 0; k < o->let->nargs; k++) {
        in[k] = out_arg(o, k);
    }
    out_result(o, out_node(o, "Concat", o->let->res[0]->type, o->let->nargs, in,
                           out_int("axis", let_int(o->let, "axis"))));
}

void
out_pad(Out *o)
{
    const Type *t = o->let->res[0]->type, *from = o->let->args[0]->type;
    const Attr *lo = let_attr(o->let, "lo");
    Dim pads[2 * MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        pads[ax] = lo->dims[ax];
        pads[t->rank + ax] = dim_sub(o->cx, dim_sub(o->cx, t->dims[ax], from->dims[ax]),
                                     lo->dims[ax]);
    }
    int in[] = {out_arg(o, 0), out_dims(o, 2 * t->rank, pads), out_arg(o, 1)};
    out_result(o, t->rank ? out_node(o, "Pad", t, 3, in, NO_ATTR) : in[0]);
}

static int
index_of(Out *o)
{
    return out_cast(o, out_arg(o, 1), DT_i64);
}

void
out_gather(Out *o)
{
    int in[] = {out_arg(o, 0), index_of(o)};
    out_result(o, out_node(o, "Gather", o->let->res[0]->type, 2, in,
                           out_int("axis", let_int(o->let, "axis"))));
}

void
out_scatter(Out *o)
{
    static const char *const ways[OP_COUNT] = {
        [OP_store] = "none", [OP_sum] = "add",  [OP_prod] = "mul",
        [OP_amax] = "max",   [OP_amin] = "min",
    };
    Op op = let_op(o->let);
    if (!ways[op]) {
        out_refuse(o, "ONNX has no scatter by %s", op_info[op].name);
    }
    const Type *t = o->let->res[0]->type;
    Dtype dtype = op == OP_store ? t->dtype : out_computed(o, t->dtype);
    int in[] = {out_cast(o, out_arg(o, 0), dtype), index_of(o), out_cast(o, out_arg(o, 2), dtype)};
    OutNode *node = out_any(o, "ScatterElements", 3, in, 1);
    node->attrs[0] = out_int("axis", let_int(o->let, "axis"));
    node->attrs[1] = out_text("reduction", ways[op]);
    node->nattrs = 2;
    out_result(o, out_new(o, node, 0, type_with(o->cx, t, dtype)));
}
