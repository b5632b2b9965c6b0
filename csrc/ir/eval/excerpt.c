/* A part of a function's computation, as a separate program.
 *
 * What:     a program of the graph stage whose sizes are numbers.  It makes a box of a result's
 *           elements from boxes of the operands.
 * Requires  lets of the graph stage, of a function or in a kernel's body.
 * How:      from the result to the operands.  For each op, the box of an operand follows from the
 *           box of its result. If that is no box, a larger one is computed, and a slice takes the
 *           wanted elements.
 * Why not   through the builder: it simplifies, and a program that is compared with the result of
 *           passes must not share their code.
 * Example:  rows 3 and 4 of a softmax of 1,000 rows are a softmax of two rows. */
#include "eval.h"
#include "excerpt.h"

#include <string.h>

typedef struct Made {
    struct Made *next;
    Box box;
    Value *v;
} Made;

typedef struct {
    Cx *cx;
    const Fn *from;
    const int64_t *sizes;       /* by position in from->sizes */
    Excerpt *part;
    Made **made;                /* by Value.id */
} Maker;

static Value *make(Maker *m, Value *v, const Box *box);

/* ---- sizes and boxes ---- */

static int64_t
look_up(void *arg, Dim name)
{
    const Maker *m = arg;
    for (int k = 0; k < m->from->nsizes; k++) {
        if (m->from->sizes[k] == name) {
            return m->sizes[k];
        }
    }
    fail(m->cx, DIAG_EVAL_SIZE, dim_name(m->cx, name));
}

static int64_t
size_of(Maker *m, Dim d)
{
    return dim_eval(m->cx, d, look_up, m);
}

static Box
whole(Maker *m, const Type *t)
{
    Box box = {.rank = t->rank};
    for (int ax = 0; ax < t->rank; ax++) {
        box.n[ax] = size_of(m, t->dims[ax]);
    }
    return box;
}

static bool
same_box(const Box *a, const Box *b)
{
    bool same = a->rank == b->rank;
    for (int ax = 0; ax < a->rank && same; ax++) {
        same = a->first[ax] == b->first[ax] && a->n[ax] == b->n[ax];
    }
    return same;
}

static double
elements(const Box *box)
{
    double n = 1;
    for (int ax = 0; ax < box->rank; ax++) {
        n *= (double)box->n[ax];
    }
    return n;
}

static void
set_axis(Box *box, int axis, int64_t first, int64_t n)
{
    box->first[axis] = first;
    box->n[axis] = n;
}

/* ---- lets ---- */

typedef struct {
    Op op;
    int nargs;
    Value *const *args;
    int nattrs;
    const Attr *attrs;
    Dtype dtype;
} New;

/* Appends a let at the source position of `like`; its sizes are those of the box. */
static Value *
emit(Maker *m, const Let *like, const New *new, const Box *box)
{
    Fn *fn = m->part->fn;
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < box->rank; ax++) {
        dims[ax] = dim_int(m->cx, box->n[ax]);
    }
    Let *let = let_new(fn, new->op, new->nargs, new->args, new->nattrs, new->attrs);
    let->loc = like->loc;
    Value *v = let_result(fn, let, NULL, type_of(m->cx, new->dtype, box->rank, dims), NULL);
    block_append(m->cx, fn->body, let);
    m->part->cost += elements(box);
    return v;
}

/* Appends a let like `let`, with other operands. */
static Value *
emit_like(Maker *m, const Let *let, Value *const *args, const Box *box)
{
    return emit(
        m, let,
        &(New){let->op, let->nargs, args, let->nattrs, let->attrs, let->res[0]->type->dtype}, box);
}

static Value *
emit_slice(Maker *m, const Let *like, Value *v, int axis, int64_t start, int64_t step,
           const Box *box)
{
    const Attr attrs[] = {attr_int(m->cx, "axis", axis),
                          attr_dim(m->cx, "start", dim_int(m->cx, start)),
                          attr_dim(m->cx, "step", dim_int(m->cx, step))};
    return emit(m, like, &(New){OP_slice, 1, &v, 3, attrs, v->type->dtype}, box);
}

/* The part `want` of a value v that is the part `is` of the whole. */
static Value *
cut(Maker *m, const Let *like, Value *v, Box is, const Box *want)
{
    for (int ax = 0; ax < is.rank; ax++) {
        int64_t start = want->first[ax] - is.first[ax];
        if (is.n[ax] != want->n[ax]) {
            m->part->more = true;
            set_axis(&is, ax, want->first[ax], want->n[ax]);
            v = emit_slice(m, like, v, ax, start, 1, &is);
        }
    }
    return v;
}

static Value *
reshape(Maker *m, const Let *like, Value *v, const Box *to)
{
    return emit(m, like, &(New){OP_reshape, 1, &v, 0, NULL, v->type->dtype}, to);
}

/* ---- reshape ---- */

/* Axes of two shapes that hold the same elements: from `a` up to `ea` here, `b` to `eb` there. */
typedef struct {
    int a, ea, b, eb;
} Group;

static int
find_groups(const Box *a, const Box *b, Group *groups)
{
    int n = 0, i = 0, j = 0;
    while (i < a->rank || j < b->rank) {
        Group g = {i, i, j, j};
        int64_t na = 1, nb = 1;
        do {
            if ((na <= nb && i < a->rank) || j == b->rank) {
                na *= a->n[i++];
            } else {
                nb *= b->n[j++];
            }
        } while (na != nb);
        g.ea = i;
        g.eb = j;
        groups[n++] = g;
    }
    return n;
}

/* Extends the box, on the axes from `at` to `end`, to a run of elements in row-major order. *first
 * is the number of the first element, *n the number of elements. */
static void
as_run(const Box *all, Box *box, int at, int end, int64_t *first, int64_t *n)
{
    int ax = at;
    *first = 0;
    *n = 1;
    while (ax < end && box->n[ax] == 1) {
        ax++;
    }
    for (int k = ax + 1; k < end; k++) {
        set_axis(box, k, 0, all->n[k]);
    }
    for (int k = at; k < end; k++) {
        *first = *first * all->n[k] + box->first[k];
        *n *= box->n[k];
    }
}

/* The least box of the axes whose run has these elements. */
static void
box_of_run(const Box *all, Box *box, int at, int end, int64_t first, int64_t n)
{
    int64_t behind = 1, last = first + n - 1;
    for (int k = at; k < end; k++) {
        behind *= all->n[k];
    }
    for (int k = at; k < end; k++) {
        behind /= all->n[k];
        int64_t lo = first / behind, hi = last / behind;
        set_axis(box, k, lo, hi - lo + 1);
        if (lo != hi) {
            for (k++; k < end; k++) {
                set_axis(box, k, 0, all->n[k]);
            }
            return;
        }
        first %= behind;
        last %= behind;
    }
}

static Value *
part_reshape(Maker *m, const Let *let, const Box *box)
{
    Box to = whole(m, let->res[0]->type), from = whole(m, let->args[0]->type), more = *box,
        wide = from, has = {0}, want = {0};
    Group groups[2 * MAX_RANK];
    if (elements(&to) == 0) {
        return emit_like(m, let, (Value *[]){make(m, let->args[0], &from)}, box);
    }
    int n = find_groups(&to, &from, groups);
    if (n > MAX_RANK) {
        Value *v = make(m, let->args[0], &from);
        return cut(m, let, reshape(m, let, v, &to), to, box);
    }
    has.rank = want.rank = n;
    for (int k = 0; k < n; k++) {
        const Group *g = &groups[k];
        Box run = {.rank = 0};
        as_run(&to, &more, g->a, g->ea, &want.first[k], &want.n[k]);
        box_of_run(&from, &wide, g->b, g->eb, want.first[k], want.n[k]);
        run = wide;
        as_run(&from, &run, g->b, g->eb, &has.first[k], &has.n[k]);
    }
    Value *v = make(m, let->args[0], &wide);
    bool all = same_box(&has, &want);
    v = all ? v : cut(m, let, reshape(m, let, v, &has), has, &want);
    return cut(m, let, reshape(m, let, v, &more), more, box);
}

/* ---- views ---- */

static Value *
part_slice(Maker *m, const Let *let, const Box *box)
{
    int axis = (int)let_int(let, "axis");
    int64_t start = size_of(m, let_dim(let, "start")), step = size_of(m, let_dim(let, "step"));
    int64_t first = start + step * box->first[axis], last = first + step * (box->n[axis] - 1);
    Box from = *box;
    if (box->n[axis] == 0) {
        set_axis(&from, axis, 0, 0);
        return make(m, let->args[0], &from);
    }
    int64_t least = step > 0 ? first : last, most = step > 0 ? last : first;
    set_axis(&from, axis, least, most - least + 1);
    Value *v = make(m, let->args[0], &from);
    m->part->more |= step != 1;
    return step == 1 ? v : emit_slice(m, let, v, axis, first - least, step, box);
}

static Value *
part_strided(Maker *m, const Let *let, const Box *box)
{
    const Attr *strides = let_attr(let, "strides");
    Box from = whole(m, let->args[0]->type);
    int64_t offset = size_of(m, let_dim(let, "offset"));
    m->part->more = true;
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < strides->n; ax++) {
        int64_t stride = size_of(m, strides->dims[ax]);
        offset += box->first[ax] * stride;
        dims[ax] = dim_int(m->cx, stride);
    }
    Value *v = make(m, let->args[0], &from);
    const Attr attrs[] = {attr_dim(m->cx, "offset", dim_int(m->cx, offset)),
                          attr_dims(m->cx, "strides", strides->n, dims)};
    return emit(m, let, &(New){OP_as_strided, 1, &v, 2, attrs, v->type->dtype}, box);
}

static Value *
part_view(Maker *m, const Let *let, const Box *box)
{
    const Attr *axes = let->nattrs ? &let->attrs[0] : NULL;
    Box all = whole(m, let->args[0]->type), from = all;
    switch (let->op) {
    case OP_expand:
        for (int ax = 0; ax < from.rank; ax++) {
            set_axis(&from, ax, box->first[axes->axes[ax]], box->n[axes->axes[ax]]);
        }
        break;
    case OP_permute:
        for (int ax = 0; ax < from.rank; ax++) {
            set_axis(&from, axes->axes[ax], box->first[ax], box->n[ax]);
        }
        break;
    case OP_flip:
        from = *box;
        for (int k = 0; k < axes->n; k++) {
            int ax = axes->axes[k];
            set_axis(&from, ax, all.n[ax] - box->first[ax] - box->n[ax], box->n[ax]);
        }
        break;
    case OP_reshape:
        return part_reshape(m, let, box);
    case OP_slice:
        return part_slice(m, let, box);
    default:
        return part_strided(m, let, box);
    }
    return emit_like(m, let, (Value *[]){make(m, let->args[0], &from)}, box);
}

/* ---- nodes ---- */

/* The index along the axis: counted from 0, and the first one added. */
static Value *
part_iota(Maker *m, const Let *let, const Box *box)
{
    Value *v = emit_like(m, let, NULL, box), *first = cx_alloc(m->cx, sizeof *first);
    first->literal = (Literal){.is_int = true, .i = box->first[let_int(let, "axis")]};
    Value *args[] = {v, first};
    return first->literal.i ? emit(m, let, &(New){OP_add, 2, args, 0, NULL, v->type->dtype}, box)
                            : v;
}

static Value *
part_cat(Maker *m, const Let *let, const Box *box)
{
    int axis = (int)let_int(let, "axis"), n = 0;
    int64_t begin = box->first[axis], end = begin + box->n[axis], at = 0;
    Value **parts = cx_alloc(m->cx, (size_t)let->nargs * sizeof *parts);
    for (int k = 0; k < let->nargs; k++) {
        int64_t size = size_of(m, let->args[k]->type->dims[axis]);
        int64_t first = begin > at ? begin : at, last = end < at + size ? end : at + size;
        if (last > first || (n == 0 && k == let->nargs - 1)) {
            Box from = *box;
            set_axis(&from, axis, last > first ? first - at : 0, last > first ? last - first : 0);
            parts[n++] = make(m, let->args[k], &from);
        }
        at += size;
    }
    return n == 1
               ? parts[0]
               : emit(m, let,
                      &(New){OP_cat, n, parts, let->nattrs, let->attrs, let->res[0]->type->dtype},
                      box);
}

static Value *
part_pad(Maker *m, const Let *let, const Box *box)
{
    const Attr *lo = let_attr(let, "lo");
    Box all = whole(m, let->args[0]->type), from = all;
    Dim dims[MAX_RANK];
    bool none = false;
    for (int ax = 0; ax < all.rank; ax++) {
        int64_t before = size_of(m, lo->dims[ax]), first = box->first[ax] - before,
                end = first + box->n[ax];
        int64_t begin = first > 0 ? first : 0;
        end = end < all.n[ax] ? end : all.n[ax];
        none |= end <= begin;
        set_axis(&from, ax, begin, end - begin);
        dims[ax] = dim_int(m->cx, begin - first);
    }
    Dtype dtype = let->res[0]->type->dtype;
    if (none) {
        return emit(m, let, &(New){OP_const, 1, &let->args[1], 0, NULL, dtype}, box);
    }
    Value *args[] = {make(m, let->args[0], &from), let->args[1]};
    const Attr attrs[] = {attr_dims(m->cx, "lo", all.rank, dims)};
    return emit(m, let, &(New){OP_pad, 2, args, 1, attrs, dtype}, box);
}

static Value *
part_gather(Maker *m, const Let *let, const Box *box)
{
    int axis = (int)let_int(let, "axis"), more = let->args[1]->type->rank;
    Box from = whole(m, let->args[0]->type), index = {.rank = more};
    for (int ax = 0; ax < from.rank; ax++) {
        int at = ax < axis ? ax : ax - 1 + more;
        if (ax != axis) {
            set_axis(&from, ax, box->first[at], box->n[at]);
        }
    }
    for (int ax = 0; ax < more; ax++) {
        set_axis(&index, ax, box->first[axis + ax], box->n[axis + ax]);
    }
    /* with one element the index is known, and a kernel gathers from an operand only */
    m->part->more |= from.n[axis] == 1 || let->args[0]->def;
    Value *args[] = {make(m, let->args[0], &from), make(m, let->args[1], &index)};
    return emit_like(m, let, args, box);
}

static Value *
part_scan(Maker *m, const Let *let, const Box *box)
{
    int axis = (int)let_int(let, "axis");
    Box from = *box;
    set_axis(&from, axis, 0, box->first[axis] + box->n[axis]);
    Value *v = emit_like(m, let, (Value *[]){make(m, let->args[0], &from)}, &from);
    return cut(m, let, v, from, box);
}

static Value *
part_scatter(Maker *m, const Let *let, const Box *box)
{
    int axis = (int)let_int(let, "axis");
    Box all = whole(m, let->res[0]->type), values = whole(m, let->args[2]->type), to = *box;
    set_axis(&to, axis, 0, all.n[axis]);
    for (int ax = 0; ax < to.rank; ax++) { /* values go to the first elements of the other axes */
        bool within = to.first[ax] + to.n[ax] <= values.n[ax];
        if (ax != axis && within) {
            set_axis(&values, ax, to.first[ax], to.n[ax]);
        } else if (ax != axis && to.first[ax] > 0) {
            set_axis(&to, ax, 0, all.n[ax]);
        }
    }
    Value *args[] = {make(m, let->args[0], &to), make(m, let->args[1], &values),
                     make(m, let->args[2], &values)};
    return cut(m, let, emit_like(m, let, args, &to), to, box);
}

/* The box of an operand whose axes have these letters; the terms of a sum are all of them. */
static Box
box_of_letters(Maker *m, const Contraction *c, const char *letters, const Value *v, const Box *out)
{
    Box box = whole(m, v->type);
    for (int ax = 0; ax < box.rank; ax++) {
        int at = letter_axis(c->out, c->nout, letters[ax]);
        if (at >= 0) {
            set_axis(&box, ax, out->first[at], out->n[at]);
        }
    }
    return box;
}

static Value *
part_contract(Maker *m, const Let *let, const Box *box)
{
    const Contraction *c = let_contraction(let);
    m->part->more = true; /* a kernel may leave out terms that a mask excludes */
    Box out = *box, all = whole(m, let->res[0]->type);
    for (int ax = 0; ax < out.rank; ax++) {
        if (where_is_at(&c->where, c->out[ax])) {
            set_axis(&out, ax, 0, all.n[ax]);
        }
    }
    Box a = box_of_letters(m, c, c->a, let->args[0], &out);
    Box b = box_of_letters(m, c, c->b, let->args[1], &out);
    Value *args[] = {make(m, let->args[0], &a), make(m, let->args[1], &b)};
    double terms = 1;
    for (int k = 0; k < c->nsum; k++) {
        terms *= (double)a.n[letter_axis(c->a, c->na, c->sum[k])];
    }
    Value *v = emit_like(m, let, args, &out);
    m->part->cost += elements(&out) * terms;
    return cut(m, let, v, out, box);
}

static Value *
part_node(Maker *m, const Let *let, const Box *box)
{
    switch (let->op) {
    case OP_const:
        return emit_like(m, let, let->args, box);
    case OP_iota:
        return part_iota(m, let, box);
    case OP_size: {
        const Attr dim = attr_dim(m->cx, "dim", dim_int(m->cx, size_of(m, let_dim(let, "dim"))));
        return emit(m, let, &(New){OP_size, 0, NULL, 1, &dim, let->res[0]->type->dtype}, box);
    }
    case OP_cat:
        return part_cat(m, let, box);
    case OP_pad:
        return part_pad(m, let, box);
    case OP_gather:
        return part_gather(m, let, box);
    case OP_scan:
        return part_scan(m, let, box);
    case OP_scatter:
        return part_scatter(m, let, box);
    case OP_contract:
        return part_contract(m, let, box);
    default:
        fail(m->cx, DIAG_EVAL_CALL, op_info[let->op].name);
    }
}

/* ---- elementwise lets and reductions ---- */

static Value *
part_map(Maker *m, const Let *let, const Box *box)
{
    Value *args[3];
    for (int k = 0; k < let->nargs; k++) {
        args[k] = value_is_const(let->args[k]) ? let->args[k] : make(m, let->args[k], box);
    }
    return emit_like(m, let, args, box);
}

static Value *
part_red(Maker *m, const Let *let, const Box *box)
{
    const Attr *axes = let_attr(let, "axes");
    Box from = whole(m, let->args[0]->type);
    for (int ax = 0, k = 0; ax < from.rank; ax++) {
        if (k < axes->n && axes->axes[k] == ax) {
            k++;
        } else {
            set_axis(&from, ax, box->first[ax - k], box->n[ax - k]);
        }
    }
    m->part->cost += elements(&from);
    return emit_like(m, let, (Value *[]){make(m, let->args[0], &from)}, box);
}

static Value *
part_param(Maker *m, Value *v, const Box *box)
{
    Excerpt *part = m->part;
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < box->rank; ax++) {
        dims[ax] = dim_int(m->cx, box->n[ax]);
    }
    part->params = cx_grow(m->cx, part->params, part->fn->nparams, sizeof *part->params);
    part->params[part->fn->nparams] = (ExcerptParam){v, *box};
    const char *name = fn_fresh_name(part->fn, v->name);
    return fn_param(part->fn, name, type_of(m->cx, v->type->dtype, box->rank, dims), NULL);
}

/* Returns the box of a value, and makes it only once. */
static Value *
make(Maker *m, Value *v, const Box *box)
{
    for (Made *made = m->made[v->id]; made; made = made->next) {
        if (same_box(&made->box, box)) {
            return made->v;
        }
    }
    const Let *let = v->def;
    Value *part = !let                                 ? part_param(m, v, box)
                  : op_info[let->op].kind == KIND_MAP  ? part_map(m, let, box)
                  : op_info[let->op].kind == KIND_RED  ? part_red(m, let, box)
                  : op_info[let->op].kind == KIND_VIEW ? part_view(m, let, box)
                                                       : part_node(m, let, box);
    Made *made = cx_alloc(m->cx, sizeof *made);
    *made = (Made){m->made[v->id], *box, part};
    m->made[v->id] = made;
    return part;
}

Box
excerpt_whole(const Fn *fn, const int64_t *sizes, const Type *t)
{
    Maker m = {.cx = fn->cx, .from = fn, .sizes = sizes};
    return whole(&m, t);
}

Excerpt *
excerpt_new(const Fn *fn, const int64_t *sizes, int n, Value *const *values, const Box *boxes)
{
    Cx *cx = fn->cx;
    Excerpt *part = cx_alloc(cx, sizeof *part);
    Maker m = {.cx = cx, .from = fn, .sizes = sizes, .part = part};
    m.made = cx_alloc(cx, (size_t)fn->nvalues * sizeof *m.made);
    part->fn = fn_new(cx, "part", STAGE_GRAPH);
    Value **results = cx_alloc(cx, (size_t)n * sizeof *results);
    for (int k = 0; k < n; k++) {
        results[k] = make(&m, values[k], &boxes[k]);
    }
    fn_results(part->fn, n, results, NULL);
    return part;
}
