/* How eager's results lie where torch's fake tensors are wrong about it (eager_check), and which
 * statistics are float32 there.
 *
 * Strides of axes of one element address nothing.  But whether an image of one channel, or of one
 * point, has its channels innermost, operators see from these strides alone (decided_by_ones).  If
 * all operands of an elementwise operation are contiguous, eager makes rows, whatever these strides
 * are.  Torch's fake tensors mostly keep them.  Where nothing else differs, the node gets eager's
 * strides, and the walk goes on.  It begins anew when a node reads them whose own result lies by
 * them (check_ones). */
#include "walk.h"

#include <string.h>

/* The order of axes in memory of an operator's result. */
typedef enum {
    EAGER_UNSAID, /* as the fake tensor has it */
    EAGER_EACH, /* by the operands, as in each elementwise operation */
    /* these three: the fake tensor is right but for strides of axes of one element */
    EAGER_MAP, /* EAGER_EACH, and numbers are no operands */
    EAGER_LIKE, /* by the argument's strides */
    EAGER_FORM, /* EAGER_IMAGE */
    EAGER_ROWS, /* row-major */
    EAGER_BATCH, /* EAGER_IMAGE, or channels last if the argument is dense in this order */
    EAGER_IMAGE, /* channels last if torch takes an argument for such an image, else row-major */
    EAGER_POWER, /* row-major if the first argument is a number */
    EAGER_ANGLE, /* row-major if it is complex */
    EAGER_ROLL, /* EAGER_IMAGE if axes are given */
    EAGER_PAD, /* EAGER_IMAGE if elements are repeated */
} EagerLayout;

typedef struct {
    EagerLayout layout;
    int image; /* the argument whose layout decides */
    bool wide; /* results 1 and 2 are float32 */
    const AtenRow *row;
} Rule;

/* Overloads of aten, functions of torch.  An elementwise op in a row of aten.def needs none. */
static const struct {
    const char *name;
    EagerLayout layout;
    int image;
} results[] = {
#define RESULTS(name, rule, argument) {name, EAGER_##rule, argument},
#include "capture/walk/layouts.def"
};

/* Is the first argument what the row-major ones of such results have there? */
static bool
makes_rows(Walk *w, const Bound *at, EagerLayout layout)
{
    PyObject *args = attr(w, at->node, py.name.args);
    PyObject *first = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    bool tensor = !first || is_a(first, py.Node);
    bool complex = first && tensor && layout == EAGER_ANGLE &&
                   bound_of(w, first)->arg.kind == ARG_TENSOR &&
                   dtype_info[bound_of(w, first)->arg.v->type->dtype].class >= CLASS_COMPLEX;
    return layout == EAGER_POWER ? !tensor : complex;
}

/* Does eager keep statistics (results 1 and 2) of halves in float32, where torch's fake tensors are
 * halves?  It does where a parameter is float32. */
static bool
keeps_wide(Walk *w, const Bound *at, const char *name)
{
    static const char *const norms[] = {
#define STATISTICS(overloads) overloads,
#include "capture/walk/layouts.def"
    };
    bool is_norm = false, wide = false;
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
        is_norm |= strncmp(name, norms[k], strlen(norms[k])) == 0;
    }
    PyObject *args = is_norm ? attr(w, at->node, py.name.args) : NULL;
    for (Py_ssize_t k = 0; args && k < PyTuple_GET_SIZE(args); k++) {
        PyObject *item = PyTuple_GET_ITEM(args, k);
        const Bound *b = is_a(item, py.Node) ? bound_of(w, item) : NULL;
        bool tensor = b && b->arg.kind == ARG_TENSOR;
        if (k == 0 && !(tensor && is_half(b->arg.v->type->dtype))) {
            return false;
        }
        wide |= tensor && b->arg.v->type->dtype == DT_f32;
    }
    return wide;
}

static const char *
name_of(const Bound *at, const AtenRow *row)
{
    return at->overload           ? at->overload->name
           : row && row->overload ? row->overload
           : at->torch            ? at->torch->name
                                  : "";
}

/* The k-th argument, or the one of that name; NULL: not given. */
static PyObject *
given(Walk *w, const Bound *at, int k, const char *name)
{
    PyObject *args = attr(w, at->node, py.name.args), *kwargs = attr(w, at->node, py.name.kwargs);
    return k < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, k)
                                      : PyDict_GetItemString(kwargs, name);
}

/* A rule that depends on arguments as one that does not. */
static EagerLayout
settled(Walk *w, const Bound *at, EagerLayout layout)
{
    if (layout == EAGER_POWER || layout == EAGER_ANGLE) {
        return makes_rows(w, at, layout) ? EAGER_ROWS : EAGER_MAP;
    }
    if (layout == EAGER_LIKE) {
        PyObject *kwargs = attr(w, at->node, py.name.kwargs),
                 *format = PyDict_GetItemString(kwargs, "memory_format");
        return format && format != Py_None ? EAGER_UNSAID : EAGER_LIKE;
    }
    if (layout == EAGER_ROLL) {
        PyObject *axes = given(w, at, 2, "dims");
        bool all = !axes || (PySequence_Check(axes) && PySequence_Size(axes) == 0);
        return all ? EAGER_UNSAID : EAGER_IMAGE;
    }
    if (layout == EAGER_PAD) {
        PyObject *mode = given(w, at, 2, "mode");
        bool text = mode && PyUnicode_Check(mode);
        bool repeats = text && (PyUnicode_CompareWithASCIIString(mode, "reflect") == 0 ||
                                PyUnicode_CompareWithASCIIString(mode, "replicate") == 0);
        return repeats ? EAGER_IMAGE : EAGER_UNSAID;
    }
    return layout;
}

/* Is one of two operands a number?  Torch makes a tensor of it, but for exponents, bounds and 3 / x
 * (a reciprocal). */
static bool
takes_number(Walk *w, const Bound *at, const AtenRow *row)
{
    bool is_op = row && row->op != OP_COUNT;
    if (is_op && (op_info[row->op].arity != 2 || row->op == OP_pow || row->build == aten_clamp)) {
        return false;
    }
    PyObject *args = attr(w, at->node, py.name.args);
    bool number = false;
    for (Py_ssize_t k = is_op ? 0 : 1; k < 2 && k < PyTuple_GET_SIZE(args); k++) {
        PyObject *item = PyTuple_GET_ITEM(args, k);
        number |= !is_a(item, py.Node) || bound_of(w, item)->arg.kind != ARG_TENSOR;
    }
    return number;
}

/* Does torch tag the operator as pointwise?  Of a function it is the operator of its row. */
static bool
is_pointwise(Walk *w, const Bound *at, const AtenRow *row)
{
    PyObject *op = at->overload ? attr(w, at->node, py.name.target) : NULL;
    const char *name = row && row->overload ? row->overload : "",
               *dot = strncmp(name, "aten.", 5) == 0 ? strchr(name + 5, '.') : NULL;
    if (!op && dot) {
        op = own(w, PyUnicode_FromStringAndSize(name + 5, dot - name - 5));
        op = own(w, PyObject_GetAttr(py.aten, op));
        op = own(w, PyObject_GetAttrString(op, dot + 1));
    }
    int is = op ? PySequence_Contains(attr(w, op, py.name.tags), py.pointwise) : 0;
    if (is < 0) {
        python_failed(w);
    }
    return is;
}

/* Is it an image, or a volume, of one channel or of one point?  Then strides of axes of one element
 * alone decide whether torch takes its channels to be innermost. */
static bool
decided_by_ones(Walk *w, const Type *t)
{
    bool image = t->rank == 4 || t->rank == 5, point = image;
    for (int ax = 2; ax < t->rank; ax++) {
        point &= dim_is(w->cx, t->dims[ax], 1);
    }
    return point || (image && dim_is(w->cx, t->dims[1], 1));
}

static bool
is_map(Rule rule)
{
    return rule.layout == EAGER_EACH || rule.layout == EAGER_MAP;
}

/* Is it an image, or a volume, with an axis of one element?  Else all strides address something. */
static bool
has_ones(Walk *w, const Type *t)
{
    bool one = false;
    for (int ax = 0; ax < t->rank; ax++) {
        one |= dim_is(w->cx, t->dims[ax], 1);
    }
    return one && (t->rank == 4 || t->rank == 5);
}

static Rule
rule_of(Walk *w, const Bound *at, const AtenRow *row, int n, const Type *made)
{
    const char *name = name_of(at, row);
    bool found = false;
    bool each = row && row->op != OP_COUNT && op_info[row->op].kind == KIND_MAP &&
                row->build != aten_scatter;
    Rule rule = {.row = row,
                 .layout = each ? EAGER_EACH : EAGER_UNSAID,
                 .wide = n > 2 && keeps_wide(w, at, name)};
    for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
        if (strcmp(results[k].name, name) == 0) {
            found = true;
            rule.layout = settled(w, at, results[k].layout);
            rule.image = results[k].image;
        }
    }
    if (!found && !each && n == 1 && made && has_ones(w, made) && is_pointwise(w, at, row)) {
        rule.layout = EAGER_MAP;
    }
    return rule;
}

/* The operand's strides along the axes of t; false when it does not have t's sizes there. */
static bool
spread_strides(Walk *w, const Type *t, const Bound *b, Dim *strides)
{
    const Type *own = b->arg.v->type;
    Dim dense[MAX_RANK];
    int before = t->rank - own->rank;
    type_dense(w->cx, own, dense);
    for (int ax = 0; ax < t->rank; ax++) {
        Dim size = ax < before ? dim_int(w->cx, 1) : own->dims[ax - before];
        bool repeats = ax < before || (dim_is(w->cx, size, 1) && size != t->dims[ax]);
        if (!repeats && size != t->dims[ax]) {
            return false;
        }
        strides[ax] = repeats      ? dim_int(w->cx, 0)
                      : b->strides ? b->strides[ax - before]
                                   : dense[ax - before];
    }
    return before >= 0;
}

/* The tensors that an elementwise node reads; false: it is none, or they are too many. */
static bool
operands_of(Walk *w, const Bound *at, const Type *t, Operands *out)
{
    PyObject *nodes = attr(w, at->node, py.name.all_input_nodes);
    *out = (Operands){.alike = true};
    for (Py_ssize_t k = 0; k < PyList_Size(nodes); k++) {
        const Bound *b = bound_of(w, PyList_GET_ITEM(nodes, k));
        if (b->arg.kind != ARG_TENSOR) {
            continue;
        }
        out->alike &= type_same_shape(b->arg.v->type, t);
        if (out->n == MAX_OPERANDS || b->arg.v->type->rank > t->rank ||
            !spread_strides(w, t, b, out->strides[out->n])) {
            return false;
        }
        out->n++;
    }
    return out->n > 0;
}

static bool
is_in_order(Walk *w, const Type *t, const Dim *strides, const int *perm)
{
    DenseStride next = {dim_int(w->cx, 1), dim_int(w->cx, 1)};
    for (int at = t->rank - 1; at >= 0; at--) {
        Dim size = t->dims[perm[at]];
        if (!dim_is(w->cx, size, 1) && !is_dense(next, strides[perm[at]])) {
            return false;
        }
        next = dense_outside(w, next, size);
    }
    return true;
}

/* The order of axes of an elementwise result; false: it is that of the fake tensor, or not known.
 * Torch counts empty tensors as contiguous, and if all operands are, and of one shape, so is the
 * result: in rows. */
static bool
each_order(Walk *w, const Bound *at, const AtenRow *row, const Type *t, int *perm)
{
    Operands of;
    if (!operands_of(w, at, t, &of)) {
        return false;
    }
    bool empty = type_is_empty(w->cx, t);
    if (empty && of.alike && !takes_number(w, at, row)) {
        return true; /* as perm is */
    }
    return (of.n > 1 || empty) && eager_order(w, t, &of, perm);
}

/* The tensor that is the k-th argument; the first one may be given by its name.  NULL: there is no
 * tensor. */
static const Bound *
tensor_argument(Walk *w, const Bound *at, int k)
{
    PyObject *item = given(w, at, k, k == 0 ? "input" : "");
    const Bound *b = item && is_a(item, py.Node) ? bound_of(w, item) : NULL;
    return b && b->arg.kind == ARG_TENSOR ? b : NULL;
}

/* The same; NULL too if the tensor is dense in rows with the usual strides. */
static const Bound *
strided_argument(Walk *w, const Bound *at, int k)
{
    const Bound *b = tensor_argument(w, at, k);
    return b && b->strides ? b : NULL;
}

/* Is the k-th argument, of this rank, dense with its channels innermost?  last: this order of
 * axes. */
static bool
is_last(Walk *w, const Bound *at, int k, int rank, const int *last)
{
    const Bound *b = strided_argument(w, at, k);
    bool image = rank >= 4 && b && b->arg.v->type->rank == rank;
    return image && is_in_order(w, b->arg.v->type, b->strides, last);
}

int
lies_as_image(Walk *w, const Type *t, const Dim *strides)
{
    int rank = t->rank;
    if (rank != 4 && rank != 5) {
        return 0;
    }
    Dim least = dim_int(w->cx, 0);
    for (int place = 0; place < rank; place++) {
        int ax = place == 0 ? 1 : place == rank - 1 ? 0 : rank - place; /* innermost first */
        Dim size = t->dims[ax], stride = strides[ax];
        /* each axis but the first has one element */
        bool unsaid = ax == 0 && least == strides[1];
        if (dim_lt(w->cx, stride, least) || unsaid || dim_is(w->cx, size, 0) ||
            dim_is(w->cx, strides[1], 0)) {
            return 0;
        }
        if (!dim_le(w->cx, least, stride)) {
            return -1;
        }
        least = dim_mul(w->cx, stride, dim_max(w->cx, size, dim_int(w->cx, 1)));
    }
    return 1;
}

/* The same of the k-th argument. */
static int
is_image(Walk *w, const Bound *at, int k)
{
    const Bound *b = strided_argument(w, at, k);
    return b ? lies_as_image(w, b->arg.v->type, b->strides) : 0;
}

static void
set_channels_last(int rank, int *perm)
{
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = ax == 0 ? 0 : ax == rank - 1 ? 1 : ax + 1;
    }
}

/* Eager's order of axes for a result that the fake tensor has in another dense one, or, where
 * eager's are rows, in any other; false: it is the same, or not known. */
static bool
is_displaced(Walk *w, const Bound *at, Rule rule, const Type *t, const Dim *strides, int *perm)
{
    Dim rows[MAX_RANK];
    int fake[MAX_RANK], rank = t->rank;
    type_dense(w->cx, t, rows);
    strides = strides ? strides : rows;
    EagerLayout layout = rule.layout;
    int channels_last[MAX_RANK];
    if (layout == EAGER_MAP || layout == EAGER_LIKE || layout == EAGER_FORM) {
        return false;
    }
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = ax;
    }
    set_channels_last(rank, channels_last);
    if (layout == EAGER_EACH && !each_order(w, at, rule.row, t, perm)) {
        return false;
    }
    bool dense = layout == EAGER_BATCH && is_last(w, at, rule.image, rank, channels_last);
    int of_image = layout == EAGER_IMAGE || layout == EAGER_BATCH ? is_image(w, at, rule.image) : 0;
    if (layout == EAGER_BATCH && !dense && of_image < 0) {
        return false;
    }
    bool image = layout == EAGER_IMAGE && of_image > 0;
    if (dense || of_image > 0) {
        memcpy(perm, channels_last, (size_t)rank * sizeof *perm);
    }
    bool same = is_in_order(w, t, strides, perm) && (!image || dim_is(w->cx, strides[1], 1));
    return !same && (layout == EAGER_ROWS || dense_order(w, t, strides, fake));
}

/* The order of axes in which a tensor is dense; false if there is none.  Unlike in dense_order, an
 * axis of one element must have the stride that it would have at its place in the order. */
static bool
order_with_ones(Walk *w, const Type *t, const Dim *strides, int *perm)
{
    DenseStride next = {dim_int(w->cx, 1), dim_int(w->cx, 1)};
    bool used[MAX_RANK] = {false};
    for (int at = t->rank - 1; at >= 0; at--) {
        int found = -1;
        for (int ax = 0; ax < t->rank; ax++) {
            bool fits = !used[ax] && is_dense(next, strides[ax]);
            found = fits && (found < 0 || dim_is(w->cx, t->dims[ax], 1)) ? ax : found;
        }
        if (found < 0) {
            return false;
        }
        perm[at] = found;
        used[found] = true;
        next = dense_outside(w, next, t->dims[found]);
    }
    return true;
}

/* The order of axes of an elementwise result, as TensorIterator makes it.  Operands of the result's
 * shape that are all contiguous make rows; if all of them are images with their channels innermost,
 * so is the result. */
static bool
map_order(Walk *w, const Bound *at, Rule rule, const Type *t, const int *rows, const int *last,
          int *perm)
{
    Operands of;
    if (!operands_of(w, at, t, &of)) {
        return false;
    }
    bool number = rule.layout == EAGER_EACH && takes_number(w, at, rule.row);
    bool equal = of.alike && !number, in_rows = equal, images = equal && t->rank == 4;
    for (int k = 0; k < of.n; k++) {
        in_rows &= is_in_order(w, t, of.strides[k], rows);
        images &= is_in_order(w, t, of.strides[k], last);
        equal &= memcmp(of.strides[k], of.strides[0], (size_t)t->rank * sizeof(Dim)) == 0;
    }
    if (in_rows || images) {
        memcpy(perm, in_rows ? rows : last, (size_t)t->rank * sizeof *perm);
        return true;
    }
    return equal ? order_with_ones(w, t, of.strides[0], perm) : eager_order(w, t, &of, perm);
}

/* Eager's order of axes of a result that has axes of one element; false: it is not known. */
static bool
ones_order(Walk *w, const Bound *at, Rule rule, const Type *t, int *perm)
{
    int rows[MAX_RANK], last[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        rows[ax] = ax;
    }
    set_channels_last(t->rank, last);
    if (is_map(rule)) {
        return map_order(w, at, rule, t, rows, last, perm);
    }
    if (rule.layout == EAGER_UNSAID ||
        (rule.layout != EAGER_ROWS && !tensor_argument(w, at, rule.image))) {
        return false;
    }
    const Bound *b = strided_argument(w, at, rule.image);
    if (rule.layout == EAGER_LIKE && b) {
        return type_same_shape(b->arg.v->type, t) && order_with_ones(w, t, b->strides, perm);
    }
    bool by_image = rule.layout == EAGER_IMAGE || rule.layout == EAGER_BATCH ||
                    rule.layout == EAGER_FORM,
         batch_in_rows = rule.layout == EAGER_BATCH && b && type_same_shape(b->arg.v->type, t) &&
                         is_in_order(w, t, b->strides, rows);
    int image = by_image && !batch_in_rows ? is_image(w, at, rule.image) : 0;
    memcpy(perm, image > 0 ? last : rows, (size_t)t->rank * sizeof *perm);
    return image >= 0;
}

/* The strides of a dense result in an order of axes; NULL where they may stay the fake tensor's.
 * They may not if the two differ on axes of one element alone, and torch takes only one of them for
 * an image with its channels innermost. */
static const Dim *
ones_strides(Walk *w, const Type *t, const Dim *fake, const int *perm)
{
    Dim rows[MAX_RANK];
    type_dense(w->cx, t, rows);
    fake = fake ? fake : rows;
    if (!is_in_order(w, t, fake, perm)) {
        return NULL;
    }
    Dim *strides = cx_alloc(w->cx, (size_t)t->rank * sizeof *strides);
    DenseStride next = {dim_int(w->cx, 1), dim_int(w->cx, 1)};
    for (int at = t->rank - 1; at >= 0; at--) {
        strides[perm[at]] = next.positive;
        next = dense_outside(w, next, t->dims[perm[at]]);
    }
    int is = lies_as_image(w, t, strides), was = lies_as_image(w, t, fake);
    return is != was && is >= 0 && was >= 0 ? strides : NULL;
}

/* An order for dlc/layouts.py: a tuple of axes, outermost first. */
static PyObject *
order_object(Walk *w, int rank, const int *perm)
{
    PyObject *order = own(w, PyTuple_New(rank));
    for (int ax = 0; ax < rank; ax++) {
        PyTuple_SET_ITEM(order, ax, Py_NewRef(own(w, PyLong_FromLong(perm[ax]))));
    }
    return order;
}

/* The orders of n results, None for one that is as its fake tensor, or torch.float32; NULL: all
 * are. */
static PyObject *
orders_of(Walk *w, const Bound *at, Rule rule, int n, const Type *const *types, const Dim **strides)
{
    PyObject *orders = own(w, PyTuple_New(n));
    bool wrong = false;
    for (int k = 0; k < n; k++) {
        int perm[MAX_RANK];
        PyObject *is = Py_None;
        if (rule.wide && k > 0 && k < 3 && types[k] && types[k]->dtype != DT_f32) {
            is = py.float32;
        } else if (rule.layout != EAGER_UNSAID && types[k] && types[k]->rank > 1 &&
                   is_displaced(w, at, rule, types[k], strides[k], perm)) {
            is = order_object(w, types[k]->rank, perm);
        }
        PyTuple_SET_ITEM(orders, k, Py_NewRef(is));
        wrong |= is != Py_None;
    }
    return wrong ? orders : NULL;
}

static const char displaced[] =
    "eager's result has another layout than torch's fake tensor, or has another dtype";

static void
displace(Walk *w, Bound *at, PyObject *meta, PyObject *orders)
{
    if (w->direct) { /* no node is named: tracing it alone, as dlc/inline.py does, would not help */
        cx_set_loc(w->cx, (Loc){.source = w->last_source});
        refuse(w, "%s", displaced);
    }
    if (PyDict_SetItem(meta, py.name.dlc_order, orders) < 0) {
        python_failed(w);
    }
    at->displaced = w->displaced = true;
}

/* The layout of the node's result may depend on operands whose fake tensors have other strides than
 * eager's: all nodes with eager's strides are displaced. */
static void
displace_ones(Walk *w, Bound *at)
{
    for (int k = 0; k < w->nones; k++) {
        Bound *b = w->ones[k].at;
        if (b->displaced) {
            continue;
        }
        PyObject *orders = own(w, PyTuple_New(w->ones[k].n));
        for (int result = 0; result < w->ones[k].n; result++) {
            PyObject *order = result == 0 ? order_object(w, w->ones[k].rank, w->ones[k].perm)
                                          : Py_None;
            PyTuple_SET_ITEM(orders, result, Py_NewRef(order));
        }
        displace(w, b, attr(w, b->node, py.name.meta), orders);
    }
    at->displaced = true;
}

/* Are the strides of the node's results on axes of one element eager's?  The first result gets
 * them. */
static void
check_ones(Walk *w, Bound *at, Rule rule, int n, const Type *const *types, const Dim **strides)
{
    Ones read = ones_read(w, at);
    if (&w->bound[at->root] != at) {
        return; /* a view */
    }
    at->ones = ONES_EAGER;
    for (int k = 0; k < n; k++) {
        int perm[MAX_RANK];
        const Type *t = types[k];
        bool image = t && (t->rank == 4 || t->rank == 5), decided = image && decided_by_ones(w, t);
        bool ordered = k == 0 && image && has_ones(w, t) && read != ONES_UNKNOWN &&
                       ones_order(w, at, rule, t, perm);
        const Dim *eager = ordered ? ones_strides(w, t, strides[k], perm) : NULL;
        if (eager) {
            at->ones = n == 1 ? ONES_OTHER : ONES_UNKNOWN; /* those of several are fake tensors' */
            strides[k] = eager;
            w->ones = cx_grow(w->cx, w->ones, w->nones, sizeof *w->ones);
            w->ones[w->nones].at = at;
            w->ones[w->nones].n = n;
            w->ones[w->nones].rank = t->rank;
            memcpy(w->ones[w->nones++].perm, perm, sizeof perm);
        } else if (decided && !ordered && read != ONES_EAGER) {
            at->ones = ONES_UNKNOWN;
        } else if (image && !decided && !is_map(rule) && read != ONES_EAGER) {
            displace_ones(w, at);
        }
    }
}

bool
eager_check(Walk *w, Bound *at, const AtenRow *row, int n, const Type *const *types,
            const Dim **strides)
{
    Rule rule = at->displaced ? (Rule){0} : rule_of(w, at, row, n, n == 1 ? types[0] : NULL);
    bool unsaid = rule.layout == EAGER_UNSAID && !rule.wide && at->ones == ONES_EAGER;
    PyObject *meta = unsaid || at->displaced ? NULL : attr(w, at->node, py.name.meta);
    if (rule.layout == EAGER_IMAGE && is_image(w, at, rule.image) < 0) {
        return false;
    }
    if (!meta || PyDict_GetItemWithError(meta, py.name.dlc_order)) {
        at->ones = ONES_EAGER;
        return true; /* what has been looked at stays as it is now */
    }
    PyObject *orders = orders_of(w, at, rule, n, types, strides);
    if (orders) {
        displace(w, at, meta, orders);
    } else {
        check_ones(w, at, rule, n, types, strides);
    }
    return true;
}

Ones
ones_read(Walk *w, const Bound *at)
{
    PyObject *nodes = w->nones ? attr(w, at->node, py.name.all_input_nodes) : NULL;
    Ones read = ONES_EAGER;
    for (Py_ssize_t k = 0; nodes && k < PyList_Size(nodes); k++) {
        Ones ones = bound_of(w, PyList_GET_ITEM(nodes, k))->ones;
        read = ones > read ? ones : read;
    }
    return read;
}

bool
reads_displaced(Walk *w, const Bound *at)
{
    PyObject *nodes = w->displaced ? attr(w, at->node, py.name.all_input_nodes) : NULL;
    for (Py_ssize_t k = 0; nodes && k < PyList_Size(nodes); k++) {
        if (bound_of(w, PyList_GET_ITEM(nodes, k))->displaced) {
            return true;
        }
    }
    return false;
}

void
eager_check_end(Walk *w)
{
    if (w->displaced) {
        w->place = "";
        refuse(w, "%s", displaced);
    }
}
