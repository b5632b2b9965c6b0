/* Python's indexing: x[1], x[:, None, ::2], x[..., indices].
 *
 * Numbers, slices, None and `...` make views: slices along the axes one after the other, and one
 * reshape at the end for the axes of one element that come and go. */
#include "walk.h"

static int
item_count(PyObject *index)
{
    return PyTuple_Check(index) ? (int)PyTuple_GET_SIZE(index) : 1;
}

static PyObject *
item_at(PyObject *index, int k)
{
    return PyTuple_Check(index) ? PyTuple_GET_ITEM(index, k) : index;
}

bool
index_is_view(Walk *w, PyObject *index)
{
    bool view = true;
    for (int k = 0; k < item_count(index); k++) {
        PyObject *item = item_at(index, k);
        if (item == Py_None || item == Py_Ellipsis || PySlice_Check(item)) {
            continue;
        }
        Arg a = arg_of(w, item);
        bool positions = a.kind == ARG_TENSOR && a.v->type->rank > 0 &&
                         a.v->type->dtype != DT_bool && a.v->type->dtype != DT_u8;
        if (a.kind != ARG_INT && a.kind != ARG_DIM && !positions) {
            refuse(w, "an index is neither a number, a slice, None, an ellipsis nor a tensor of "
                      "positions");
        }
        view &= !positions;
    }
    return view;
}

/* The rest of an index, still to be applied. */
typedef struct {
    Walk *w;
    Aten n;                     /* for the builders */
    const Type *shape;          /* of the result, or NULL */
    int axis, out;              /* the next ones of x and of the result */
    Dim dims[MAX_RANK];         /* the result's so far */
} Indexing;

static void
result_axis(Indexing *to, Dim d)
{
    if (to->out == MAX_RANK) {
        refuse(to->w, "a tensor of more than %d axes", MAX_RANK);
    }
    to->dims[to->out++] = d;
}

/* An end of a slice, counted from the start of the axis and cut to it. */
static Dim
slice_end(Indexing *to, PyObject *end, Dim size, Dim otherwise)
{
    Cx *cx = to->w->cx;
    const Arg a = arg_of(to->w, end);
    Dim at;
    if (a.kind == ARG_NONE) {
        return otherwise;
    }
    if (!arg_dim(&to->n, &a, &at) || !from_start(&to->n, at, size, &at)) {
        refuse(to->w, "a slice of unknown length");
    }
    return dim_max(cx, dim_int(cx, 0), dim_min(cx, at, size));
}

/* How many elements a slice takes: the result's shape says so, or its ends do. */
static Dim
slice_length(Indexing *to, PyObject *slice, Dim size)
{
    Walk *w = to->w;
    const PySliceObject *s = (const PySliceObject *)slice;
    const Arg step = arg_of(w, s->step);
    if (to->shape) {
        if (to->out >= to->shape->rank) {
            refuse(w, "the index gives more axes than the result has");
        }
        return to->shape->dims[to->out];
    }
    if (step.kind != ARG_NONE && !(step.kind == ARG_INT && step.i == 1)) {
        refuse(w, "the index has a slice with a step that is not 1");
    }
    Dim none = dim_int(w->cx, 0), start = slice_end(to, s->start, size, none);
    return dim_max(w->cx, none, dim_sub(w->cx, slice_end(to, s->stop, size, size), start));
}

/* Returns the slice of x; NULL: a builder declines. */
static Value *
sliced(Indexing *to, Value *x, PyObject *slice)
{
    Walk *w = to->w;
    const PySliceObject *s = (const PySliceObject *)slice;
    const Arg step = arg_of(w, s->step), one = {.kind = ARG_INT, .i = 1};
    Dim length = slice_length(to, slice, x->type->dims[to->axis]), dims[MAX_RANK];
    for (int ax = 0; ax < x->type->rank; ax++) {
        dims[ax] = ax == to->axis ? length : x->type->dims[ax];
    }
    const Arg args[5] = {{.kind = ARG_TENSOR, .v = x},
                         {.kind = ARG_INT, .i = to->axis},
                         arg_of(w, s->start),
                         arg_of(w, s->stop),
                         step.kind == ARG_NONE ? one : step};
    const Type *t = type_of(w->cx, x->type->dtype, x->type->rank, dims);
    result_axis(to, length);
    to->axis++;
    return t == x->type ? x : as_overload(&to->n, "aten.slice.Tensor", t, 5, args);
}

/* Selects one element of the axis, which is dropped from the result but stays in x. */
static Value *
chosen(Indexing *to, Value *x, const Arg *at)
{
    Dim size = x->type->dims[to->axis], index;
    if (!arg_dim(&to->n, at, &index) || !from_start(&to->n, index, size, &index)) {
        return NULL;
    }
    return part(&to->n, x, to->axis++, index, dim_int(to->w->cx, 1), dim_int(to->w->cx, 1));
}

static Value *
item_apply(Indexing *to, Value *x, PyObject *item, int skip)
{
    if (item == Py_None) {
        result_axis(to, dim_int(to->w->cx, 1));
        return x;
    }
    if (item == Py_Ellipsis) {
        for (; skip > 0; skip--) {
            result_axis(to, x->type->dims[to->axis++]);
        }
        return x;
    }
    if (to->axis >= x->type->rank) {
        refuse(to->w, "more indices than axes");
    }
    if (PySlice_Check(item)) {
        return sliced(to, x, item);
    }
    const Arg at = arg_of(to->w, item);
    return chosen(to, x, &at);
}

Value *
index_view(Walk *w, Value *x, PyObject *index, const Type *shape)
{
    Indexing to = {.w = w, .shape = shape, .n = {.b = w->b, .cx = w->cx}};
    int n = item_count(index), taken = 0;
    for (int k = 0; k < n; k++) {
        PyObject *item = item_at(index, k);
        taken += item != Py_None && item != Py_Ellipsis;
    }
    for (int k = 0; k < n && x; k++) {
        x = item_apply(&to, x, item_at(index, k), x->type->rank - taken);
    }
    while (x && to.axis < x->type->rank) {
        result_axis(&to, x->type->dims[to.axis++]);
    }
    return x ? build_reshape(w->b, x, to.out, to.dims) : NULL;
}

/* Tensors of positions among whole axes, as aten.index has them; ARG_NONE where there is something
 * else. */
Arg
index_list(Walk *w, const Aten *n, PyObject *index)
{
    int count = item_count(index), rank = arg_tensor(n, 0)->type->rank, made = 0;
    Arg *items = cx_alloc(w->cx, MAX_RANK * sizeof *items);
    for (int k = 0; k < count; k++) {
        PyObject *item = item_at(index, k);
        const PySliceObject *s = (const PySliceObject *)item;
        bool whole = PySlice_Check(item) && s->start == Py_None && s->stop == Py_None &&
                     s->step == Py_None;
        for (int skip = item == Py_Ellipsis ? rank - count + 1 : whole; skip > 0 && made < rank;
             skip--) {
            items[made++] = (Arg){.kind = ARG_NONE};
        }
        if (whole || item == Py_Ellipsis) {
            continue;
        }
        const Arg at = arg_of(w, item);
        if (at.kind != ARG_TENSOR || made == rank) {
            return (Arg){.kind = ARG_NONE};
        }
        items[made++] = at;
    }
    return (Arg){.kind = ARG_LIST, .n = made, .items = items};
}

Value *
index_gather(Walk *w, Aten *n, PyObject *index)
{
    const Arg args[2] = {n->args[0], index_list(w, n, index)};
    return args[1].kind == ARG_LIST ? as_overload(n, "aten.index.Tensor", n->type, 2, args) : NULL;
}

Value *
assigned(Walk *w, const Arg *v, const Type *t)
{
    Aten n = {.b = w->b, .cx = w->cx, .number = w->number, .type = t};
    if (dtype_info[t->dtype].class >= CLASS_COMPLEX ||
        (v->kind == ARG_TENSOR && dtype_info[v->v->type->dtype].class >= CLASS_COMPLEX) ||
        (v->kind == ARG_TENSOR && v->v->type->rank > t->rank)) {
        refuse(w,
               "it writes a complex value, or one with more axes than the place that it goes to");
    }
    Value *made = operand(&n, v, t);
    if (!made) {
        refuse(w, "it writes a number that the dtype of the tensor cannot hold");
    }
    return value_is_const(made) ? build_const(w->b, t, made->literal) : made;
}
