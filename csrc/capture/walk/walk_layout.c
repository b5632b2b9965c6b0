/* How the operands of a call are in memory.
 *
 * A kernel writes its results in row-major order, whatever layout eager's have.  To an operator that may
 * matter: its results have the layout of its operands, it draws random numbers in the order of their
 * memory, it makes views of them.  So they are copied into eager's layout where that is another one.
 *
 * And how eager's results lie where torch's fake tensors are wrong about it (eager_check). */
#include "walk.h"

#include <string.h>

enum { MAX_OPERANDS = 8 };       /* of an elementwise operation */

/* The strides of a view of what is in memory; false when a kernel makes it. */
static bool
viewed_layout(Walk *w, const Value *v, Dim *strides)
{
    Dim base[MAX_RANK], offset;
    if (v->def && op_info[v->def->op].kind == KIND_VIEW) {
        return viewed_layout(w, v->def->args[0], base)
               && view_layout(w->cx, v->def, base, dim_int(w->cx, 0), strides, &offset);
    }
    if (v->strides) {
        memcpy(strides, v->strides, (size_t)v->type->rank * sizeof *strides);
    }
    else {
        type_dense(w->cx, v->type, strides);
    }
    return true;
}

/* The strides that v will have in memory: a kernel writes row-major ones. */
static void
layout_of(Walk *w, const Value *v, Dim *strides)
{
    if (!viewed_layout(w, v, strides)) {
        type_dense(w->cx, v->type, strides);
    }
}

/* The stride of an axis of a dense tensor.  torch counts an empty axis as one long, so that for a size
 * which may be 0 it says max(size, 1): the same wherever there is an element. */
typedef struct {
    Dim plain, positive;
} DenseStride;

static bool
is_dense(DenseStride d, Dim stride)
{
    return stride == d.plain || stride == d.positive;
}

static DenseStride
dense_outside(Walk *w, DenseStride d, Dim size)
{
    return (DenseStride){dim_mul(w->cx, d.plain, size),
                         dim_mul(w->cx, d.positive, dim_max(w->cx, size, dim_int(w->cx, 1)))};
}

/* The order of axes, outermost first, in which a tensor of these strides is dense; false if in none. */
static bool
dense_order(Walk *w, const Type *t, const Dim *strides, int *perm)
{
    DenseStride next = {dim_int(w->cx, 1), dim_int(w->cx, 1)};
    bool used[MAX_RANK] = {false};
    for (int at = t->rank - 1; at >= 0; at--) {
        int ax = t->rank - 1;
        while (ax >= 0 && (used[ax] || !(is_dense(next, strides[ax]) || dim_is(w->cx, t->dims[ax], 1)))) {
            ax--;
        }
        if (ax < 0) {
            return false;
        }
        perm[at] = ax;
        used[ax] = true;
        next = dense_outside(w, next, t->dims[ax]);
    }
    return true;
}

/* Tensors as one elementwise operation takes them: strides along the axes of its result, 0 where one repeats. */
typedef struct {
    int n;
    Dim strides[MAX_OPERANDS][MAX_RANK];
} Operands;

/* Does eager make a dense result with axis a inside of axis b?  1 yes, -1 no, 0 either will do; 2: unknown. */
static int
goes_inside(Cx *cx, const Type *t, const Operands *of, int a, int b)
{
    for (int k = 0; k < of->n; k++) {
        Dim x = of->strides[k][a], y = of->strides[k][b];
        bool repeats = dim_is(cx, x, 0) || dim_is(cx, y, 0);
        bool level = x == y && (t->dims[a] == t->dims[b] || dim_le(cx, t->dims[b], t->dims[a]));
        if (!repeats && !level) {
            bool less = x == y ? dim_lt(cx, t->dims[a], t->dims[b]) : dim_lt(cx, x, y);
            return less ? 1 : x != y && dim_lt(cx, y, x) ? -1 : 2;
        }
    }
    return 0;
}

/* The order of axes, outermost first, of a dense result: as eager sorts them, by insertion from the last axis on, by
 * the first operand that tells two apart.  false: it depends on sizes known at run time. */
static bool
eager_order(Walk *w, const Type *t, const Operands *of, int *perm)
{
    for (int ax = 0; ax < t->rank; ax++) {
        perm[ax] = ax;
    }
    for (int from = t->rank - 2; from >= 0; from--) {
        for (int at = from, next = from + 1; next < t->rank; next++) {
            int inside = goes_inside(w->cx, t, of, perm[at], perm[next]);
            if (inside == 2) {
                return false;
            }
            if (inside < 0) {
                break;
            }
            if (inside > 0) {
                int moved = perm[at];
                perm[at] = perm[next];
                perm[next] = moved;
                at = next;
            }
        }
    }
    return true;
}

/* That of a copy of what is not dense. */
static bool
copy_order(Walk *w, const Type *t, const Dim *strides, int *perm)
{
    Operands one = {.n = 1};
    memcpy(one.strides[0], strides, (size_t)t->rank * sizeof *strides);
    return eager_order(w, t, &one, perm);
}

/* The value in memory with its axes in an order, outermost first. */
static Value *
in_order(Walk *w, Value *v, const int *perm)
{
    int back[MAX_RANK];
    for (int ax = 0; ax < v->type->rank; ax++) {
        back[perm[ax]] = ax;
    }
    v = build_permute(w->b, v, perm);
    return build_permute(w->b, call_on(w, py.contiguous, v, NULL, v->type, NULL), back);
}

/* Operators that read operands of any layout as fast, and whose results have a layout of their own or (attention) that
 * of the first operand.  Attention relies on rows. */
static const struct { const char *name; Needs needs; } readers[] = {
    {"mm", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"addmm", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"bmm", {LAYOUT_ROWS, LAYOUT_ROWS}},
    {"baddbmm", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"addbmm", {LAYOUT_ROWS, LAYOUT_ROWS}},
    {"mv", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"addmv", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"dot", {LAYOUT_ROWS, LAYOUT_ROWS}},
    {"vdot", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"linear", {LAYOUT_ROWS, LAYOUT_ROWS}},
    {"matmul", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"einsum", {LAYOUT_ROWS, LAYOUT_ROWS}},
    {"cdist", {LAYOUT_ROWS, LAYOUT_ROWS}}, {"scaled_dot_product_attention", {LAYOUT_LIKE, LAYOUT_INNER}},
    {"_scaled_dot_product_flash_attention_for_cpu", {LAYOUT_LIKE, LAYOUT_INNER}},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", {LAYOUT_INNER, LAYOUT_INNER}},
};

Needs
layout_needed(const Walk *w, const Bound *at, bool aliasing)
{
    const Overload *o = at->overload;
    if (w->direct ? aliasing : o && (o->alias >= 0 || o->maybe_alias)) {
        return (Needs){LAYOUT_VERY, LAYOUT_VERY};
    }
    const char *name = o ? o->name : at->torch ? at->torch->name : "";
    const char *packet = strchr(name, '.') ? strchr(name, '.') + 1 : name;
    size_t length = strcspn(packet, ".");
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
        if (strlen(readers[k].name) == length && strncmp(packet, readers[k].name, length) == 0) {
            return readers[k].needs;
        }
    }
    return o && o->random ? (Needs){LAYOUT_DRAWN, LAYOUT_DRAWN} : (Needs){LAYOUT_ORDER, LAYOUT_ORDER};
}

/* Has a call taken the value, or a view of it? */
static bool
is_taken(const Walk *w, const Value *v)
{
    const Block *body = w->fn->body;
    for (int k = body->n - 1; k >= 0 && body->lets[k] != v->def; k--) {
        const Let *let = body->lets[k];
        for (int j = 0; let->op == OP_call && j < let->nargs; j++) {
            const Value *u = let->args[j];
            while (u != v && u->def && op_info[u->def->op].kind == KIND_VIEW) {
                u = u->def->args[0];
            }
            if (u == v) {
                return true;
            }
        }
    }
    return false;
}

/* A kernel makes the value, and can write it so: where it is in memory, it has these strides from here on.  That is
 * lost if a pass finds that it is another value; then the call gets it in rows, and its results are copied. */
static bool
written_so(Walk *w, Value *v, const Dim *strides)
{
    bool ours = v->def && let_is_made(v->def) && !v->strides;
    for (int k = 0; k < w->nstored; k++) {
        ours &= w->stored[k] != v;
    }
    ours = ours && !is_taken(w, v);
    if (ours) {
        v->strides = cx_copy(w->cx, strides, (size_t)v->type->rank * sizeof *strides);
    }
    return ours;
}

/* Are the elements along the k-th axis from the last side by side? */
static bool
is_contiguous_axis(const Walk *w, const Type *t, const Dim *strides, int k)
{
    int ax = t->rank - k;
    return ax >= 0 && (dim_is(w->cx, strides[ax], 1) || dim_is(w->cx, t->dims[ax], 1));
}

/* In memory as the graph says it is.  What builders made of a `clone` may have the layout of its operand. */
Value *
laid_out(Walk *w, const Bound *b, Layout needed)
{
    Value *v = b->arg.v;
    const Type *t = v->type;
    DenseStride next = {dim_int(w->cx, 1), dim_int(w->cx, 1)};
    Dim have[MAX_RANK];
    int perm[MAX_RANK];
    bool rows = true, same = true;
    layout_of(w, v, have);
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        Dim size = t->dims[ax], want = b->strides ? b->strides[ax] : next.plain;
        if (!dim_is(w->cx, size, 1)) {
            rows &= is_dense(next, want);
            same &= have[ax] == want || (is_dense(next, want) && is_dense(next, have[ax]));
        }
        next = dense_outside(w, next, size);
    }
    bool taken = needed == LAYOUT_ROWS ? !rows || is_contiguous_axis(w, t, have, 1) || is_contiguous_axis(w, t, have, 2)
                                       : needed == LAYOUT_INNER && is_contiguous_axis(w, t, have, 1);
    if (same || taken) {
        return v;
    }
    if (rows) {
        return call_on(w, py.contiguous, v, NULL, t, NULL);
    }
    if (dense_order(w, t, b->strides, perm)) {
        return needed <= LAYOUT_ORDER && written_so(w, v, b->strides) ? v : in_order(w, v, perm);
    }
    if (needed == LAYOUT_VERY) {
        refuse(w, "it takes a tensor whose strides are no order of its axes");
    }
    return copy_order(w, t, b->strides, perm) ? in_order(w, v, perm) : v;
}

/* ---- results of which the fake tensors are wrong ---- */

/* The order of axes in memory of an operator's result. */
typedef enum {
    EAGER_UNSAID,                /* as the fake tensor has it */
    EAGER_EACH,                  /* by the operands, as in each elementwise operation */
    EAGER_ROWS,                  /* row-major */
    EAGER_BATCH,                 /* channels last if the operand is dense in this order, else row-major */
    EAGER_IMAGE,                 /* channels last if torch takes an argument for such an image, else row-major */
    EAGER_POWER,                 /* row-major if the first argument is a number */
    EAGER_ANGLE,                 /* row-major if it is complex */
    EAGER_ROLL,                  /* EAGER_IMAGE if axes are given */
    EAGER_PAD,                   /* EAGER_IMAGE if elements are repeated */
} EagerLayout;

typedef struct {
    EagerLayout layout;
    int image;                  /* EAGER_IMAGE: the argument that says it */
    bool wide;                  /* results 1 and 2 are float32 */
} Rule;

/* Those that are not said by an elementwise op in their row of aten.def.  Overloads of aten, functions of torch. */
static const struct { const char *name; EagerLayout layout; int image; } results[] = {
    {"aten.heaviside.default", EAGER_EACH}, {"aten.complex.default", EAGER_EACH}, {"aten.polar.default", EAGER_EACH},
    {"aten.div.Tensor_mode", EAGER_EACH}, {"aten.pow.Scalar", EAGER_POWER},
    {"pow", EAGER_POWER}, {"aten.isin.Tensor_Tensor", EAGER_ROWS}, {"aten.col2im.default", EAGER_ROWS},
    {"aten._log_softmax_backward_data.default", EAGER_ROWS},
    {"aten.angle.default", EAGER_ANGLE},
    {"aten.normal.Tensor_Tensor", EAGER_ROWS}, {"aten.log_sigmoid_forward.default", EAGER_ROWS},
    {"logsigmoid", EAGER_ROWS}, {"aten.nll_loss2d_forward.default", EAGER_ROWS},
    {"aten.native_batch_norm.default", EAGER_BATCH}, {"batch_norm", EAGER_BATCH},
    {"aten._native_batch_norm_legit.default", EAGER_BATCH}, {"aten._native_batch_norm_legit.no_stats", EAGER_BATCH},
    {"aten._native_batch_norm_legit_functional.default", EAGER_BATCH},
    {"aten._native_batch_norm_legit_no_training.default", EAGER_BATCH},
    {"aten.native_batch_norm_backward.default", EAGER_BATCH}, {"aten.max_unpool2d.default", EAGER_IMAGE},
    {"aten.reflection_pad3d.default", EAGER_IMAGE}, {"aten.replication_pad3d.default", EAGER_IMAGE}, {"pad", EAGER_PAD},
    {"aten.reflection_pad2d_backward.default", EAGER_IMAGE, 1}, {"aten.reflection_pad3d_backward.default", EAGER_IMAGE, 1},
    {"aten.replication_pad2d_backward.default", EAGER_IMAGE, 1},
    {"aten.replication_pad3d_backward.default", EAGER_IMAGE, 1},
    {"aten.roll.default", EAGER_ROLL}, {"roll", EAGER_ROLL},
};

/* Is the first argument what the row-major ones of such results have there? */
static bool
makes_rows(Walk *w, const Bound *at, EagerLayout layout)
{
    PyObject *args = attr(w, at->node, py.name.args);
    PyObject *first = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    bool tensor = !first || is_a(first, py.Node);
    bool complex = first && tensor && layout == EAGER_ANGLE && bound_of(w, first)->arg.kind == ARG_TENSOR
                   && dtype_info[bound_of(w, first)->arg.v->type->dtype].class >= CLASS_COMPLEX;
    return layout == EAGER_POWER ? !tensor : complex;
}

/* Does eager keep statistics (results 1 and 2) of halves in float32, where torch's fake tensors are halves?  It does
 * where a parameter is float32. */
static bool
keeps_wide(Walk *w, const Bound *at, const char *name)
{
    static const char *const norms[] = {
        "aten.native_layer_norm.", "aten.native_group_norm.", "aten.native_batch_norm.", "aten._native_batch_norm_legit",
        "aten._batch_norm_with_update",
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
    return at->overload ? at->overload->name : row && row->overload ? row->overload : at->torch ? at->torch->name : "";
}

/* The k-th argument, or the one of that name; NULL: not given. */
static PyObject *
given(Walk *w, const Bound *at, int k, const char *name)
{
    PyObject *args = attr(w, at->node, py.name.args), *kwargs = attr(w, at->node, py.name.kwargs);
    return k < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, k) : PyDict_GetItemString(kwargs, name);
}

/* A rule that depends on arguments as one that does not. */
static EagerLayout
settled(Walk *w, const Bound *at, EagerLayout layout)
{
    if (layout == EAGER_ROLL) {
        PyObject *axes = given(w, at, 2, "dims");
        bool all = !axes || (PySequence_Check(axes) && PySequence_Size(axes) == 0);
        return all ? EAGER_UNSAID : EAGER_IMAGE;
    }
    if (layout == EAGER_PAD) {
        PyObject *mode = given(w, at, 2, "mode");
        bool text = mode && PyUnicode_Check(mode);
        bool repeats = text && (PyUnicode_CompareWithASCIIString(mode, "reflect") == 0
                                || PyUnicode_CompareWithASCIIString(mode, "replicate") == 0);
        return repeats ? EAGER_IMAGE : EAGER_UNSAID;
    }
    return layout < EAGER_POWER ? layout : makes_rows(w, at, layout) ? EAGER_ROWS : EAGER_UNSAID;
}

static Rule
rule_of(Walk *w, const Bound *at, const AtenRow *row, int n)
{
    const char *name = name_of(at, row);
    bool each = row && row->op != OP_COUNT && op_info[row->op].kind == KIND_MAP && row->build != aten_scatter;
    Rule rule = {.layout = each ? EAGER_EACH : EAGER_UNSAID, .wide = n > 2 && keeps_wide(w, at, name)};
    for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
        if (strcmp(results[k].name, name) == 0) {
            rule.layout = settled(w, at, results[k].layout);
            rule.image = results[k].image;
        }
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
        strides[ax] = repeats ? dim_int(w->cx, 0) : b->strides ? b->strides[ax - before] : dense[ax - before];
    }
    return before >= 0;
}

/* The tensors that an elementwise node reads; false: it is none, or they are too many. */
static bool
operands_of(Walk *w, const Bound *at, const Type *t, Operands *out)
{
    PyObject *nodes = attr(w, at->node, py.name.all_input_nodes);
    out->n = 0;
    for (Py_ssize_t k = 0; k < PyList_Size(nodes); k++) {
        const Bound *b = bound_of(w, PyList_GET_ITEM(nodes, k));
        if (b->arg.kind != ARG_TENSOR) {
            continue;
        }
        if (out->n == MAX_OPERANDS || b->arg.v->type->rank > t->rank
            || !spread_strides(w, t, b, out->strides[out->n])) {
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

/* Does torch take the k-th argument for images, or volumes, with their channels innermost?  1 yes, 0 no; -1: it
 * depends on sizes known at run time. */
static int
is_image(Walk *w, const Bound *at, int k)
{
    PyObject *args = attr(w, at->node, py.name.args), *item = k < PyTuple_Size(args) ? PyTuple_GET_ITEM(args, k) : NULL;
    const Bound *b = item && is_a(item, py.Node) ? bound_of(w, item) : NULL;
    int rank = b && b->arg.kind == ARG_TENSOR && b->strides ? b->arg.v->type->rank : 0;
    if (rank != 4 && rank != 5) {
        return 0;
    }
    Dim least = dim_int(w->cx, 0);
    for (int place = 0; place < rank; place++) {
        int ax = place == 0 ? 1 : place == rank - 1 ? 0 : rank - place;     /* innermost first */
        Dim size = b->arg.v->type->dims[ax], stride = b->strides[ax];
        bool unsaid = ax == 0 && least == b->strides[1];            /* each axis but the first has one element */
        if (dim_lt(w->cx, stride, least) || unsaid || dim_is(w->cx, size, 0) || dim_is(w->cx, b->strides[1], 0)) {
            return 0;
        }
        if (!dim_le(w->cx, least, stride)) {
            return -1;
        }
        least = dim_mul(w->cx, stride, dim_max(w->cx, size, dim_int(w->cx, 1)));
    }
    return 1;
}

/* Eager's order of axes for a result that the fake tensor has in another dense one, or, where eager's are rows, in any
 * other; false: it is the same, or not known. */
static bool
is_displaced(Walk *w, const Bound *at, Rule rule, const Type *t, const Dim *strides, int *perm)
{
    Dim dense[MAX_RANK];
    int fake[MAX_RANK], rank = t->rank;
    type_dense(w->cx, t, dense);
    strides = strides ? strides : dense;
    EagerLayout layout = rule.layout;
    bool image = layout == EAGER_IMAGE && is_image(w, at, rule.image) > 0, last = layout == EAGER_BATCH || image;
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = !last ? ax : ax == 0 ? 0 : ax == rank - 1 ? 1 : ax + 1;
    }
    if (layout == EAGER_EACH) {
        Operands of;
        if (!operands_of(w, at, t, &of) || of.n < 2 || !eager_order(w, t, &of, perm)) {
            return false;
        }
    }
    if (layout == EAGER_BATCH && !(rank >= 4 && is_in_order(w, t, strides, perm))) {
        for (int ax = 0; ax < rank; ax++) {
            perm[ax] = ax;
        }
    }
    bool same = is_in_order(w, t, strides, perm) && (!image || dim_is(w->cx, strides[1], 1));
    return !same && (layout == EAGER_ROWS || dense_order(w, t, strides, fake));
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

/* The orders of n results, None for one that is as its fake tensor, or torch.float32; NULL: all are. */
static PyObject *
orders_of(Walk *w, const Bound *at, Rule rule, int n, const Type *const *types, const Dim *const *strides)
{
    PyObject *orders = own(w, PyTuple_New(n));
    bool wrong = false;
    for (int k = 0; k < n; k++) {
        int perm[MAX_RANK];
        PyObject *is = Py_None;
        if (rule.wide && k > 0 && k < 3 && types[k] && types[k]->dtype != DT_f32) {
            is = py.float32;
        }
        else if (rule.layout != EAGER_UNSAID && types[k] && types[k]->rank > 1
                 && is_displaced(w, at, rule, types[k], strides[k], perm)) {
            is = order_object(w, types[k]->rank, perm);
        }
        PyTuple_SET_ITEM(orders, k, Py_NewRef(is));
        wrong |= is != Py_None;
    }
    return wrong ? orders : NULL;
}

static const char displaced[] = "eager's result has another layout than torch's fake tensor, or has another dtype";

bool
eager_check(Walk *w, Bound *at, const AtenRow *row, int n, const Type *const *types, const Dim *const *strides)
{
    Rule rule = at->displaced ? (Rule){0} : rule_of(w, at, row, n);
    PyObject *meta = rule.layout == EAGER_UNSAID && !rule.wide ? NULL : attr(w, at->node, py.name.meta);
    if (rule.layout == EAGER_IMAGE && is_image(w, at, rule.image) < 0) {
        return false;
    }
    if (!meta || PyDict_GetItemWithError(meta, py.name.dlc_order)) {
        return true;            /* what has been looked at stays as it is now */
    }
    PyObject *orders = orders_of(w, at, rule, n, types, strides);
    if (!orders) {
        return true;
    }
    if (w->direct) {            /* no node is named: tracing it alone, as dlc/inline.py does, would not help */
        cx_set_loc(w->cx, (Loc){.source = w->last_source});
        refuse(w, "%s", displaced);
    }
    if (PyDict_SetItem(meta, py.name.dlc_order, orders) < 0) {
        python_failed(w);
    }
    at->displaced = w->displaced = true;
    return true;
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
