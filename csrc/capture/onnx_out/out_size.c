/* Sizes of the language as tensors of integers, which ONNX computes from the shapes of the
 * inputs. */
#include "out.h"

static const Type *
one_int(Out *o)
{
    Dim one = dim_int(o->cx, 1);
    return type_of(o->cx, DT_i64, 1, &one);
}

static int
whole(Out *o, int64_t i)
{
    return out_ints(o, 1, &i);
}

/* Size `axis` of an input. */
static int
shape_of(Out *o, const Value *param, int axis)
{
    OutNode *node = out_any(o, "Shape", 1, (int[]){param->result}, 1);
    node->attrs[0] = out_int("start", axis);
    node->attrs[1] = out_int("end", axis + 1);
    node->nattrs = 2;
    return out_new(o, node, 0, one_int(o));
}

/* From c * symbol + r, the size of an axis of some input. */
static int
symbol(Out *o, Dim name)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int p = 0; p < o->top->nparams; p++) {
            const Type *t = o->top->params[p]->type;
            for (int ax = 0; ax < t->rank; ax++) {
                Dim c, r;
                int64_t times, more;
                if (t->dims[ax] == name) {
                    return shape_of(o, o->top->params[p], ax);
                }
                if (pass && dim_affine(o->cx, t->dims[ax], name, &c, &r) &&
                    dim_is_int(o->cx, c, &times) && times && dim_is_int(o->cx, r, &more)) {
                    int d = out2(o, "Sub", one_int(o), shape_of(o, o->top->params[p], ax),
                                 whole(o, more));
                    return out2(o, "Div", one_int(o), d, whole(o, times));
                }
            }
        }
    }
    out_refuse(o, "the size %s is not that of an axis of an input", dim_name(o->cx, name));
}

typedef struct {
    Out *o;
    int *stack, n;
    int64_t last; /* the last integer, the bits of a factor */
} Walk;

static void
push(Walk *w, int number)
{
    w->stack = cx_grow(w->o->cx, w->stack, w->n, sizeof *w->stack);
    w->stack[w->n++] = number;
}

static void
leaf(void *arg, char kind, int64_t value, Dim name)
{
    Walk *w = arg;
    w->last = value;
    push(w, kind == 'i' ? whole(w->o, value) : out_dim(w->o, name));
}

/* Rounded down, and 0 where the divisor is 0; or the remainder. */
static int
divided(Out *o, int a, int b, bool quotient)
{
    const Type *t = one_int(o), *truth = type_with(o->cx, t, DT_bool);
    int64_t *by = o->values[b].ints;
    int zero = by ? -1 : out2(o, "Equal", truth, b, whole(o, 0));
    int safe = by ? b : out3(o, "Where", t, zero, whole(o, 1), b);
    int rest = out2(o, "Mod", t, a, safe);
    int made = quotient ? out2(o, "Div", t, out2(o, "Sub", t, a, rest), safe) : rest;
    return by ? made : out3(o, "Where", t, zero, whole(o, 0), made);
}

static void
binary(void *arg, char kind)
{
    Walk *w = arg;
    Out *o = w->o;
    const Type *t = one_int(o), *wide = type_with(o->cx, t, DT_f64);
    int b = w->stack[--w->n], a = w->stack[--w->n], made;
    switch (kind) {
    case '+':
        made = out2(o, "Add", t, a, b);
        break;
    case '-':
        made = out2(o, "Sub", t, a, b);
        break;
    case '*':
        made = out2(o, "Mul", t, a, b);
        break;
    case 'M':
        made = out2(o, "Max", t, a, b);
        break;
    case 'm':
        made = out2(o, "Min", t, a, b);
        break;
    case '/':
        made = divided(o, a, b, true);
        break;
    case '%':
        made = divided(o, a, b, false);
        break;
    default: /* 's' */
        made = out2(o, "Mul", wide, out_cast(o, a, DT_f64),
                    out_scalar(o, DT_f64, dim_factor(w->last)));
        made = out_cast(o, out1(o, "Floor", wide, made), DT_i64);
    }
    push(w, made);
}

int
out_dim(Out *o, Dim d)
{
    int64_t value;
    if (dim_is_int(o->cx, d, &value)) {
        return whole(o, value);
    }
    for (int k = 0; k < o->nsizes; k++) {
        if (o->sizes[k].d == d) {
            return o->sizes[k].number;
        }
    }
    int number;
    if (dim_is_name(o->cx, d)) {
        number = symbol(o, d);
    } else {
        Walk w = {.o = o};
        dim_walk(o->cx, d, &(DimWalk){leaf, binary}, &w);
        number = w.stack[0];
    }
    o->sizes = cx_grow(o->cx, o->sizes, o->nsizes, sizeof *o->sizes);
    o->sizes[o->nsizes++] = (SizeAt){d, number};
    return number;
}

int
out_dims(Out *o, int n, const Dim *dims)
{
    int64_t ints[4 * MAX_RANK];
    int parts[4 * MAX_RANK], known = 0;
    for (int k = 0; k < n; k++) {
        known += dim_is_int(o->cx, dims[k], &ints[k]);
    }
    if (known == n) {
        return out_ints(o, n, ints);
    }
    for (int k = 0; k < n; k++) {
        parts[k] = out_dim(o, dims[k]);
    }
    Dim length = dim_int(o->cx, n);
    return n == 1 ? parts[0]
                  : out_node(o, "Concat", type_of(o->cx, DT_i64, 1, &length), n, parts,
                             out_int("axis", 0));
}

int
out_one(Out *o, Dim d)
{
    int64_t value;
    return dim_is_int(o->cx, d, &value)
               ? out_whole(o, DT_i64, value)
               : out1(o, "Squeeze", type_scalar(o->cx, DT_i64), out_dim(o, d));
}

void
out_size(Out *o)
{
    out_result(o, out_one(o, let_dim(o->let, "dim")));
}
