/* Lets for a batch: values that depend on what is batched have one axis more, the first, and all
 * others stay as they are.  Each operation is made once, over the whole batch. */
#include "notation.h"

#include <string.h>

typedef struct {
    Build *b;
    Cx *cx;
    Dim size;
    Value **map;                /* by Value.id of the function without a batch */
    bool *has;                  /* by the same: the value has the axis of the batch */
} Batch;

static bool
has_axis(const Batch *t, const Value *v)
{
    return !value_is_const(v) && t->has[v->id];
}

/* The sizes of a value with the axis of the batch; the place of axis k is k + 1. */
static const Type *
batched_type(const Batch *t, const Type *from)
{
    Dim dims[MAX_RANK + 1];
    dims[0] = t->size;
    memcpy(dims + 1, from->dims, (size_t)from->rank * sizeof *dims);
    return type_of(t->cx, from->dtype, from->rank + 1, dims);
}

/* An operand without the axis, with it: each element of the batch has the same. */
static Value *
batched(const Batch *t, Value *v)
{
    int to[MAX_RANK];
    if (value_is_const(v) || t->has[v->id]) {
        return value_is_const(v) ? v : t->map[v->id];
    }
    const Type *type = batched_type(t, v->type);
    for (int ax = 0; ax < v->type->rank; ax++) {
        to[ax] = ax + 1;
    }
    return build_expand(t->b, t->map[v->id], type->rank, type->dims, to);
}

static int
behind(int n, const int *axes, int *out)
{
    for (int k = 0; k < n; k++) {
        out[k] = axes[k] + 1;
    }
    return n;
}

static Value *
of_map(const Batch *t, const Let *let)
{
    Value *v[3] = {NULL, NULL, NULL};
    for (int k = 0; k < let->nargs; k++) {
        v[k] = batched(t, let->args[k]);
    }
    return build_map_like(t->b, let, v);
}

static Value *
of_strided(const Batch *t, const Let *let, Value *v, const Type *to)
{
    Dim strides[MAX_RANK + 1];
    strides[0] = type_numel(t->cx, let->args[0]->type);
    memcpy(strides + 1, let_attr(let, "strides")->dims, (size_t)(to->rank - 1) * sizeof *strides);
    return build_as_strided(t->b, v, to->rank, to->dims, strides, let_dim(let, "offset"));
}

static Value *
of_view(const Batch *t, const Let *let)
{
    Value *v = batched(t, let->args[0]);
    const Type *to = batched_type(t, let->res[0]->type);
    int axes[MAX_RANK + 1] = {0};
    const Attr *attr = let->nattrs ? &let->attrs[0] : NULL;
    switch (let->op) {
    case OP_reshape:
        return build_reshape(t->b, v, to->rank, to->dims);
    case OP_slice: {
        int axis = (int)let_int(let, "axis") + 1;
        return build_slice(t->b, v, axis, let_dim(let, "start"), let_dim(let, "step"),
                           to->dims[axis]);
    }
    case OP_flip:
        return build_flip(t->b, v, behind(attr->n, attr->axes, axes), axes);
    case OP_as_strided:
        return of_strided(t, let, v, to);
    default:
        break;
    }
    behind(attr->n, attr->axes, axes + 1);
    return let->op == OP_expand ? build_expand(t->b, v, to->rank, to->dims, axes)
                                : build_permute(t->b, v, axes);
}

static Value *
of_reduction(const Batch *t, const Let *let)
{
    const Attr *attr = let_attr(let, "axes");
    int axes[MAX_RANK];
    behind(attr->n, attr->axes, axes);
    return build_red(t->b, let->op, batched(t, let->args[0]), attr->n, axes);
}

/* The letter of the batch, in front of the operands that have it. */
static Value *
of_contract(const Batch *t, const Let *let)
{
    const Contraction *c = let_contraction(let);
    Value *v[2];
    char letter = 'a', letters[3][MAX_RANK + 1];
    const char *of[] = {c->a, c->b, c->out};
    int n[] = {c->na, c->nb, c->nout};
    while (letter_class(c, letter) != LETTER_OF_NONE) {
        letter = letter == 'z' ? 'A' : (char)(letter + 1);
    }
    for (int k = 0; k < 3; k++) {
        bool in_front = k == 2 || has_axis(t, let->args[k]);
        letters[k][0] = letter;
        memcpy(letters[k] + in_front, of[k], (size_t)n[k]);
        n[k] += in_front;
    }
    for (int k = 0; k < 2; k++) {
        v[k] = t->map[let->args[k]->id];
    }
    Contraction over = contraction_letters(n[0], letters[0], n[1], letters[1], n[2], letters[2]);
    return build_contract(t->b, v[0], v[1], &over, let->res[0]->type->dtype);
}

/* ---- gathers and scatters ---- */

/* The index of each element of the batch, which is checked, among the rows of all. */
static Value *
index_of_all(const Batch *t, Value *index, Dim n, int wrap)
{
    const Type *type = index->type;
    const Type *rows = type_of(t->cx, DT_i64, 1, &n);
    Value *row = build_gather(t->b, build_iota(t->b, rows, 0), index, 0, wrap);
    Value *size = build_expand(t->b, build_size(t->b, n), type->rank, type->dims, NULL);
    Value *first = build_map(t->b, OP_mul, build_iota(t->b, row->type, 0), size, NULL);
    return build_map(t->b, OP_add, row, first, NULL);
}

/* Both have the axis of the batch: a gather of the rows of all. */
static Value *
gathered_of_all(const Batch *t, const Let *let)
{
    const Type *x = let->args[0]->type, *to = batched_type(t, let->res[0]->type);
    Value *index = t->map[let->args[1]->id], *v = t->map[let->args[0]->id];
    int axis = (int)let_int(let, "axis"), nindex = index->type->rank - 1, perm[MAX_RANK + 1];
    index = index_of_all(t, index, x->dims[axis], (int)let_int(let, "wrap"));
    Dim dims[MAX_RANK];
    dims[0] = dim_mul(t->cx, t->size, x->dims[axis]);
    perm[0] = 0;
    perm[1] = axis + 1;
    for (int ax = 0, n = 1; ax < x->rank; ax++) {
        if (ax != axis) {
            dims[n++] = x->dims[ax];
            perm[n] = ax + 1;
        }
    }
    v = build_reshape(t->b, build_permute(t->b, v, perm), x->rank, dims);
    v = build_gather(t->b, v, index, 0, INDEX_FROM_START);
    for (int ax = 0; ax < to->rank - 1; ax++) {         /* the index's axes go back to theirs */
        perm[ax + 1] = ax < axis ? 1 + nindex + ax : ax < axis + nindex ? 1 + ax - axis : 1 + ax;
    }
    return build_permute(t->b, v, perm);
}

static Value *
of_gather(const Batch *t, const Let *let)
{
    int axis = (int)let_int(let, "axis"), wrap = (int)let_int(let, "wrap"), perm[MAX_RANK + 1];
    Value *v = t->map[let->args[0]->id], *index = t->map[let->args[1]->id];
    if (!has_axis(t, let->args[1])) {
        return build_gather(t->b, v, index, axis + 1, wrap);
    }
    if (has_axis(t, let->args[0])) {
        return gathered_of_all(t, let);
    }
    v = build_gather(t->b, v, index, axis, wrap);       /* the axis of the batch to the front */
    for (int ax = 1; ax < v->type->rank; ax++) {
        perm[ax] = ax <= axis ? ax - 1 : ax;
    }
    perm[0] = axis;
    return build_permute(t->b, v, perm);
}

static Value *
of_node(const Batch *t, const Let *let)
{
    Value **v = cx_alloc(t->cx, (size_t)let->nargs * sizeof *v);
    if (let->op == OP_gather) {
        return of_gather(t, let);
    }
    if (let->op == OP_contract) {
        return of_contract(t, let);
    }
    for (int k = 0; k < let->nargs; k++) {
        v[k] = batched(t, let->args[k]);
    }
    if (let->op == OP_pad) {
        Dim lo[MAX_RANK + 1] = {dim_int(t->cx, 0)};
        memcpy(lo + 1, let_attr(let, "lo")->dims, (size_t)let->res[0]->type->rank * sizeof *lo);
        return build_pad(t->b, v[0], v[1], batched_type(t, let->res[0]->type), lo);
    }
    int axis = (int)let_int(let, "axis") + 1;
    switch (let->op) {
    case OP_cat:
        return build_cat(t->b, let->nargs, v, axis);
    case OP_scan:
        return build_scan(t->b, let_op(let), v[0], axis);
    case OP_scatter:
        return build_scatter(t->b, let_op(let), v[0], v[1], v[2], axis, (int)let_int(let, "wrap"));
    default:
        fail(t->cx, DIAG_NO_BATCH, op_info[let->op].name);
    }
}

static Value *
of_let(const Batch *t, const Let *let)
{
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        return of_map(t, let);
    case KIND_RED:
        return of_reduction(t, let);
    case KIND_VIEW:
        return of_view(t, let);
    default:
        return of_node(t, let);
    }
}

static void
batch_let(const Batch *t, const Let *let)
{
    Value *to = let->res[0];
    for (int k = 0; k < let->nargs; k++) {
        t->has[to->id] |= has_axis(t, let->args[k]);
    }
    if (t->has[to->id]) {
        build_at(t->b, let->loc);
        t->map[to->id] = of_let(t, let);
    } else {
        build_again(t->b, let, t->map);
    }
}

Build *
batch(const Fn *fn, const bool *which, Dim size)
{
    Cx *cx = fn->cx;
    Fn *to = fn_new(cx, fn->name, STAGE_GRAPH);
    Batch t = {.b = build_new(to), .cx = cx, .size = size};
    const bool *used = values_in_use(fn);
    t.map = cx_alloc(cx, (size_t)fn->nvalues * sizeof *t.map);
    t.has = cx_alloc(cx, (size_t)fn->nvalues * sizeof *t.has);
    for (int k = 0; k < fn->nsizes; k++) {
        fn_size(to, fn->sizes[k]);
    }
    for (int k = 0; k < fn->nparams; k++) {
        const Value *p = fn->params[k];
        const Type *type = which[k] ? batched_type(&t, p->type) : p->type;
        t.map[p->id] = fn_param(to, p->name, type, NULL);
        t.has[p->id] = which[k];
    }
    for (int k = 0; k < fn->body->n; k++) {
        if (used[fn->body->lets[k]->res[0]->id]) {
            batch_let(&t, fn->body->lets[k]);
        }
    }
    Value **results = cx_alloc(cx, (size_t)(fn->body->nrets + 1) * sizeof *results);
    for (int k = 0; k < fn->body->nrets; k++) {
        results[k] = batched(&t, fn->body->rets[k]);
    }
    fn_results(to, fn->body->nrets, results, NULL);
    return t.b;
}
