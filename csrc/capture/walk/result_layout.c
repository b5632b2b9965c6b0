/* Results whose fake tensors are wrong: their layout in eager, and statistics of halves that are
 * float32 (eager_check).
 *
 * If axes longer than one are in another order, the node is displaced: it gets another fake tensor,
 * and the walk starts again.
 *
 * Strides of axes of one element address nothing.  But operators decide from these strides alone
 * whether an image of one channel, or of one point, is channels last (decided_by_ones). If all
 * operands of an elementwise operation are contiguous, eager's result is row-major, whatever these
 * strides are.  Fake tensors mostly keep them.  Where nothing else differs, the node is restrided:
 * it gets eager's strides here, and the walk goes on.  It starts again only if another node reads
 * them whose own layout depends on them (check_ones). */
#include "walk.h"

#include <string.h>

/* The order of axes in memory of an operator's result. */
typedef enum {
    EAGER_UNSAID, /* as the fake tensor has it */
    EAGER_WRITTEN, /* as the argument, written in place where a new result is EAGER_ROWS */
    EAGER_EACH, /* by the operands, as in each elementwise operation */
    /* these three: the fake tensor is right except for strides of axes of one element */
    EAGER_MAP, /* as EAGER_EACH, but numbers are no operands */
    EAGER_LIKE, /* by the argument's strides */
    EAGER_FORM, /* as EAGER_IMAGE */
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
    int argument; /* whose layout decides */
    bool wide_statistics; /* results 1 and 2 are float32 */
    const AtenRow *row;
} Rule;

/* Overloads of aten, functions of torch.  An elementwise op in a row of aten.def needs none. */
static const struct {
    const char *name;
    EagerLayout layout;
    int argument;
} results[] = {
#define RESULTS(name, rule, argument) {name, EAGER_##rule, argument},
#include "capture/walk/layouts.def"
};

/* Does eager keep statistics (results 1 and 2) of halves in float32, where torch's fake tensors are
 * halves?  It does if a parameter is float32. */
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

/* The k-th argument, or the one of that name (NULL: it has none); NULL: not given. */
static PyObject *
given(Walk *w, const Bound *at, int k, const char *name)
{
    PyObject *args = attr(w, at->node, py.name.args), *kwargs = attr(w, at->node, py.name.kwargs);
    return k < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, k)
           : name                     ? PyDict_GetItemString(kwargs, name)
                                      : NULL;
}

/* The k-th argument, if it is a tensor; only the first one may be given by its name. */
static const Bound *
tensor_argument(Walk *w, const Bound *at, int k)
{
    PyObject *item = given(w, at, k, k == 0 ? "input" : NULL);
    const Bound *b = item && is_a(item, py.Node) ? bound_of(w, item) : NULL;
    return b && b->arg.kind == ARG_TENSOR ? b : NULL;
}

/* The k-th argument, if it is a tensor with strides other than those of dense rows. */
static const Bound *
strided_argument(Walk *w, const Bound *at, int k)
{
    const Bound *b = tensor_argument(w, at, k);
    return b && b->strides ? b : NULL;
}

/* Replaces a rule that depends on the arguments by the rule that holds for these arguments. */
static EagerLayout
settled(Walk *w, const Bound *at, EagerLayout layout)
{
    if (layout == EAGER_POWER) {
        PyObject *base = given(w, at, 0, NULL);
        return base && !is_a(base, py.Node) ? EAGER_ROWS : EAGER_MAP;
    }
    if (layout == EAGER_ANGLE) {
        const Bound *b = tensor_argument(w, at, 0);
        bool complex = b && dtype_info[b->arg.v->type->dtype].class >= CLASS_COMPLEX;
        return complex ? EAGER_ROWS : EAGER_MAP;
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

/* Is one of two operands a number that torch converts to a tensor?  Not exponents, bounds, or the 3
 * in 3 / x, which is a reciprocal. */
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

/* Does torch tag the operator as pointwise?  For a function, it is the operator of its row. */
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

/* Is it an image, or a volume, of one channel or of one point?  Then only strides of axes of one
 * element decide whether torch considers it channels last. */
static bool
decided_by_ones(Walk *w, const Type *t)
{
    bool point = true;
    for (int ax = 2; ax < t->rank; ax++) {
        point &= dim_is(w->cx, t->dims[ax], 1);
    }
    return is_image_batch(t) && (point || dim_is(w->cx, t->dims[1], 1));
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
    return is_image_batch(t) && one;
}

/* Is the node part of an operation that writes to its first argument, as dlc/layouts.py has noted?
 * Nodes of its gradient have the same note. */
static bool
is_in_place(Walk *w, const Bound *at)
{
    PyObject *meta = attr(w, at->node, py.name.meta),
             *custom = PyDict_GetItem(meta, py.name.custom);
    return custom && PyDict_Check(custom) && PyDict_GetItem(custom, py.name.dlc_in_place) &&
           !PyDict_GetItem(meta, py.name.fwd_source_fn_stack);
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
                 .wide_statistics = n > 2 && keeps_wide(w, at, name)};
    for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
        if (strcmp(results[k].name, name) == 0) {
            found = true;
            rule.layout = settled(w, at, results[k].layout);
            rule.argument = results[k].argument;
        }
    }
    if (!found && !each && n == 1 && made && has_ones(w, made) && is_pointwise(w, at, row)) {
        rule.layout = EAGER_MAP;
    }
    if (rule.layout != EAGER_UNSAID && is_in_place(w, at)) {
        rule.layout = rule.layout == EAGER_ROWS ? EAGER_WRITTEN : EAGER_LIKE;
        rule.argument = 0;
    }
    return rule;
}

/* The operand's strides along the axes of t, of which there may be more; false if its sizes differ
 * from those of t. */
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
    return true;
}

/* The tensors that an elementwise node reads, whose result is t; false: they are none or too many,
 * or have other sizes. */
static bool
operands_of(Walk *w, const Bound *at, Rule rule, const Type *t, Operands *out)
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
    if (rule.layout == EAGER_EACH && rule.argument > 0 && rule.argument < out->n) {
        Dim first[MAX_RANK]; /* the one whose order counts most */
        memcpy(first, out->strides[rule.argument], sizeof first);
        memcpy(out->strides[rule.argument], out->strides[0], sizeof first);
        memcpy(out->strides[0], first, sizeof first);
    }
    out->alike &= rule.layout == EAGER_MAP || !takes_number(w, at, rule.row);
    return out->n > 0;
}

/* The axis order of an elementwise result, as TensorIterator makes it, except for axes of one
 * element; false: it is that of the fake tensor, or not known.  Torch counts empty tensors as
 * contiguous, and if all operands are contiguous and of one shape, the result is row-major. */
static bool
map_order(Walk *w, const Bound *at, Rule rule, const Type *t, int *perm)
{
    Operands of;
    if (!operands_of(w, at, rule, t, &of)) {
        return false;
    }
    bool empty = type_is_empty(w->cx, t);
    if (empty && of.alike) {
        rows_order(t->rank, perm);
        return true;
    }
    return (of.n > 1 || empty) && eager_order(w, t, &of, perm);
}

/* The same including axes of one element; false: not known.  If all operands have the result's
 * shape and are contiguous, the result is row-major; if all are images in channels last, so is the
 * result; if all have the same strides, so has the result. */
static bool
map_order_with_ones(Walk *w, const Bound *at, Rule rule, const Type *t, int *perm)
{
    Operands of;
    if (!operands_of(w, at, rule, t, &of)) {
        return false;
    }
    int rows[MAX_RANK], last[MAX_RANK];
    rows_order(t->rank, rows);
    channels_last_order(t->rank, last);
    bool in_rows = of.alike, images = of.alike && t->rank == 4, equal = of.alike;
    for (int k = 0; k < of.n; k++) {
        in_rows &= is_in_order(w, t, of.strides[k], rows);
        images &= is_in_order(w, t, of.strides[k], last);
        equal &= memcmp(of.strides[k], of.strides[0], (size_t)t->rank * sizeof(Dim)) == 0;
    }
    if (in_rows || images) {
        memcpy(perm, in_rows ? rows : last, (size_t)t->rank * sizeof *perm);
        return true;
    }
    return equal ? dense_order(w, t, of.strides[0], ONES_BY_STRIDE, perm)
                 : eager_order(w, t, &of, perm);
}

/* Calls lies_as_image for the k-th argument; 0: it is no strided tensor. */
static int
is_image(Walk *w, const Bound *at, int k)
{
    const Bound *b = strided_argument(w, at, k);
    return b ? lies_as_image(w, b->arg.v->type, b->strides) : 0;
}

/* Have axes longer than one another order in eager's result than in the fake one?  perm: eager's.
 * A fake tensor that is not dense counts only by the rule EAGER_ROWS.  false: no, or not known. */
static bool
is_displaced(Walk *w, const Bound *at, Rule rule, const Type *t, const Dim *strides, int *perm)
{
    EagerLayout layout = rule.layout;
    if (layout == EAGER_MAP || layout == EAGER_LIKE || layout == EAGER_FORM) {
        return false;
    }
    Dim rows[MAX_RANK];
    int fake[MAX_RANK], last[MAX_RANK];
    type_dense(w->cx, t, rows);
    strides = strides ? strides : rows;
    channels_last_order(t->rank, last);
    rows_order(t->rank, perm);
    bool image = false;
    if (layout == EAGER_EACH && !map_order(w, at, rule, t, perm)) {
        return false;
    }
    if (layout == EAGER_WRITTEN) {
        const Bound *b = tensor_argument(w, at, rule.argument);
        if (!b || !type_same_shape(b->arg.v->type, t) ||
            (b->strides && !dense_order(w, t, b->strides, ONES_BY_INDEX, perm))) {
            return false;
        }
    }
    if (layout == EAGER_IMAGE || layout == EAGER_BATCH) {
        const Bound *b = strided_argument(w, at, rule.argument);
        bool dense = layout == EAGER_BATCH && b && t->rank >= 4 &&
                     b->arg.v->type->rank == t->rank &&
                     is_in_order(w, b->arg.v->type, b->strides, last);
        int is = dense ? 1 : is_image(w, at, rule.argument);
        if (layout == EAGER_BATCH && is < 0) {
            return false;
        }
        image = layout == EAGER_IMAGE && is > 0;
        if (is > 0) {
            memcpy(perm, last, (size_t)t->rank * sizeof *perm);
        }
    }
    /* of an image of one channel too, its channels have stride 1 */
    bool same = is_in_order(w, t, strides, perm) && (!image || dim_is(w->cx, strides[1], 1));
    return !same && (layout == EAGER_ROWS || dense_order(w, t, strides, ONES_BY_INDEX, fake));
}

/* Eager's order of axes of a result that has axes of one element; false: it is not known. */
static bool
ones_order(Walk *w, const Bound *at, Rule rule, const Type *t, int *perm)
{
    if (is_map(rule)) {
        return map_order_with_ones(w, at, rule, t, perm);
    }
    if (rule.layout == EAGER_UNSAID ||
        (rule.layout != EAGER_ROWS && !tensor_argument(w, at, rule.argument))) {
        return false;
    }
    const Bound *b = strided_argument(w, at, rule.argument);
    if (b && (rule.layout == EAGER_LIKE || rule.layout == EAGER_WRITTEN)) {
        return type_same_shape(b->arg.v->type, t) &&
               dense_order(w, t, b->strides, ONES_BY_STRIDE, perm);
    }
    int rows[MAX_RANK], last[MAX_RANK];
    rows_order(t->rank, rows);
    channels_last_order(t->rank, last);
    bool by_image = rule.layout == EAGER_IMAGE || rule.layout == EAGER_BATCH ||
                    rule.layout == EAGER_FORM,
         batch_in_rows = rule.layout == EAGER_BATCH && b && type_same_shape(b->arg.v->type, t) &&
                         is_in_order(w, t, b->strides, rows);
    int image = by_image && !batch_in_rows ? is_image(w, at, rule.argument) : 0;
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
    DenseStride next = dense_innermost(w);
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
        if (rule.wide_statistics && k > 0 && k < 3 && types[k] && types[k]->dtype != DT_f32) {
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
 * eager's: all restrided nodes are displaced. */
static void
displace_restrided(Walk *w, Bound *at)
{
    for (int k = 0; k < w->nrestrided; k++) {
        const Restrided *r = &w->restrided[k];
        if (r->at->displaced) {
            continue;
        }
        PyObject *orders = own(w, PyTuple_New(r->n));
        for (int result = 0; result < r->n; result++) {
            PyObject *order = result == 0 ? order_object(w, r->rank, r->perm) : Py_None;
            PyTuple_SET_ITEM(orders, result, Py_NewRef(order));
        }
        displace(w, r->at, attr(w, r->at->node, py.name.meta), orders);
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
        const Type *t = types[k];
        if (!t || !is_image_batch(t)) {
            continue;
        }
        Restrided r = {at, n, t->rank, {0}};
        bool known = k == 0 && has_ones(w, t) && read != ONES_UNKNOWN &&
                     ones_order(w, at, rule, t, r.perm);
        const Dim *eager = known ? ones_strides(w, t, strides[k], r.perm) : NULL;
        bool decided = decided_by_ones(w, t);
        if (eager) {
            at->ones = n == 1 ? ONES_OTHER : ONES_UNKNOWN; /* several have the fake tensors' */
            strides[k] = eager;
            w->restrided = cx_grow(w->cx, w->restrided, w->nrestrided, sizeof *w->restrided);
            w->restrided[w->nrestrided++] = r;
        } else if (decided && !known && read != ONES_EAGER) {
            at->ones = ONES_UNKNOWN;
        } else if (!decided && !is_map(rule) && read != ONES_EAGER) {
            displace_restrided(w, at);
        }
    }
}

bool
eager_check(Walk *w, Bound *at, const AtenRow *row, int n, const Type *const *types,
            const Dim **strides)
{
    Rule rule = at->displaced ? (Rule){0} : rule_of(w, at, row, n, n == 1 ? types[0] : NULL);
    bool unsaid = rule.layout == EAGER_UNSAID && !rule.wide_statistics && at->ones == ONES_EAGER;
    PyObject *meta = unsaid || at->displaced ? NULL : attr(w, at->node, py.name.meta);
    if (rule.layout == EAGER_IMAGE && is_image(w, at, rule.argument) < 0) {
        return false;
    }
    if (!meta || PyDict_GetItemWithError(meta, py.name.dlc_order)) {
        at->ones = ONES_EAGER;
        return true; /* nodes that were checked keep their present strides */
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
    PyObject *nodes = w->nrestrided ? attr(w, at->node, py.name.all_input_nodes) : NULL;
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
