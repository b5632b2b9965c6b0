/* Lets of rewrites that put other loops in the place of those that are there.
 *
 * What:     loops, choices, accesses and operations, each behind what is in a block; sums of all
 *           columns in registers, a loop that begins them, and a step of theirs.
 * Ensures:  fresh names, and the place in the user's program of the let that they stand for.
 * Example:  let t: f32[32] = buffer registers   for l in n vector { store t[l] = 0.0 }
 */
#include "nest.h"

Let *
nest_let(Fn *fn, Block *to, const Let *like, Op op, int nargs, Value *const *args, const Dim *at)
{
    Attr attrs[] = {at ? attr_dims(fn->cx, "at", 1, at) : (Attr){0}, attr_marks(fn->cx, 0)};
    Let *let = let_new(fn, op, nargs, args, at ? 2 : 0, attrs);
    let->loc = like->loc;
    block_append(fn->cx, to, let);
    return let;
}

Value *
nest_value(Fn *fn, Block *to, const Let *like, Op op, int nargs, Value *const *args, const Dim *at)
{
    Let *let = nest_let(fn, to, like, op, nargs, args, at);
    return let_result(fn, let, fn_fresh_name(fn, op_info[op].name), like->res[0]->type, NULL);
}

Let *
nest_loop(Fn *fn, const Let *like, Dim extent, Marks marks)
{
    Cx *cx = fn->cx;
    const char *name = fn_fresh_name(fn, let_str(like, "index"));
    Dim index = dim_index(cx, name, extent);
    Attr attrs[] = {attr_name(cx, "index", name, index), attr_dim(cx, "extent", extent),
                    attr_marks(cx, marks)};
    Let *loop = let_new(fn, OP_for, 0, NULL, 3, attrs);
    loop->loc = like->loc;
    loop->body = cx_alloc(cx, sizeof *loop->body);
    loop->body->owner = loop;
    return loop;
}

Block *
nest_choice(Fn *fn, Block *to, Op op, Dim left, Dim right)
{
    Attr attrs[] = {attr_dim(fn->cx, "left", left), attr_dim(fn->cx, "right", right)};
    Let *choice = choice_new(fn, to, op, op == OP_if ? 2 : 0, attrs);
    block_append(fn->cx, to, choice);
    return choice->body;
}

Value *
nest_literal(Cx *cx, Literal is)
{
    Value *v = cx_alloc(cx, sizeof *v);
    v->literal = is;
    return v;
}

/* ---- sums of a product ---- */

static bool
is_float(const Let *sum)
{
    return dtype_info[sum->res[0]->type->dtype].class == CLASS_FLOAT;
}

Value *
nest_sums(Fn *fn, Block *to, const Let *sum, int n)
{
    Dim room = dim_int(fn->cx, n);
    const Type *type = type_of(fn->cx, sum->res[0]->type->dtype, 1, &room);
    Let *buffer = let_new(fn, OP_buffer, 0, NULL, 0, NULL);
    let_take_marks(fn->cx, buffer);
    let_mark(buffer, MARK_registers, true);
    block_append(fn->cx, to, buffer);
    return let_result(fn, buffer, fn_fresh_name(fn, "sums"), type, NULL);
}

void
nest_zeros(Fn *fn, Block *to, const Let *sum, const Let *columns, Dim extent, int n,
           Value *const *sums)
{
    Let *across = nest_loop(fn, columns, extent, MARK_vector);
    Dim column = loop_index(across);
    Op op = let_op(sum);
    double begin = op == OP_amax ? -__builtin_inf() : op == OP_amin ? __builtin_inf() : 0;
    for (int k = 0; k < n; k++) {
        Literal first = {.is_int = !is_float(sum), .f = begin};
        Value *args[] = {sums[k], nest_literal(fn->cx, first)};
        nest_let(fn, across->body, sum, OP_store, 2, args, &column);
    }
    block_append(fn->cx, to, across);
}

void
nest_step(Fn *fn, Block *to, const Let *sum, Value *a, Value *b, Value *sums, Dim column)
{
    Value *old = nest_value(fn, to, sum, OP_load, 1, &sums, &column), *args[] = {a, b, old};
    if (is_float(sum)) {
        args[1] = nest_value(fn, to, sum, OP_fma, 3, args, NULL);
    } else {
        args[0] = nest_value(fn, to, sum, OP_mul, 2, args, NULL);
        args[1] = old;
        args[1] = nest_value(fn, to, sum, OP_add, 2, args, NULL);
    }
    args[0] = sums;
    nest_let(fn, to, sum, OP_store, 2, args, &column);
}

void
nest_combine(Fn *fn, Block *to, const Let *sum, Value *term, Value *sums, Dim column)
{
    Value *args[] = {nest_value(fn, to, sum, OP_load, 1, &sums, &column), term};
    Value *stored[] = {sums, nest_value(fn, to, sum, op_info[let_op(sum)].combine, 2, args, NULL)};
    nest_let(fn, to, sum, OP_store, 2, stored, &column);
}
