/* Which frozen parameters are weights of products that codes could replace, and why others are not.
 *
 * What:     a parameter of floats, with two axes that have more than one element, that products
 *           read as their columns, or gathers by their rows.
 * How:      a forward walk follows views and casts from parameters to products and gathers, and
 *           finds which axis of a parameter is summed and which has the columns.  O(lets). */
#include "weights.h"

Weight *
weight_of(const Finder *f, const Value *v)
{
    int at = value_is_const(v) ? -1 : f->seen[v->id].weight;
    return at < 0 ? NULL : &f->weights[at];
}

static void
refuse(Weight *w, const char *why)
{
    w->why = w->why ? w->why : why;
}

/* The axis of the parameter that runs along this one of its view. */
static int
root_axis(const Seen *s, int axis)
{
    int found = -1;
    for (int k = 0; k < MAX_RANK; k++) {
        found = axis >= 0 && s->axis[k] == axis ? k : found;
    }
    return found;
}

static void
take_axes(Weight *w, int sum, int columns)
{
    bool first = w->sum < 0;
    if (sum < 0 || columns < 0) {
        refuse(w, "a product reads it through a view that splits or joins axes");
    } else if (!first && (w->sum != sum || w->columns != columns)) {
        refuse(w, "products sum it along different axes");
    }
    w->sum = first ? sum : w->sum;
    w->columns = first ? columns : w->columns;
}

static void
find_product(const Finder *f, const Let *let, int j)
{
    Cx *cx = f->fn->cx;
    const Value *v = let->args[j];
    const Seen *s = &f->seen[v->id];
    Weight *w = weight_of(f, v);
    const Contraction *c = let_contraction(let);
    const char *mine = j ? c->b : c->a, *why = columns_refused(cx, let, j);
    w->products++;
    if (why) {
        refuse(w, why);
        return;
    }
    int rank = v->type->rank, sum = -1;
    for (int k = 0; k < c->nsum; k++) {
        int axis = letter_axis(mine, rank, c->sum[k]);
        sum = !dim_is(cx, v->type->dims[axis], 1) ? axis : sum;
    }
    int last = c->nout - 1;
    while (last > 0 && dim_is(cx, let->res[0]->type->dims[last], 1)) {
        last--;
    }
    take_axes(w, root_axis(s, sum), root_axis(s, letter_axis(mine, rank, c->out[last])));
}

/* A gather of rows reads a table; which axes these are, products say. */
static void
find_gather(const Finder *f, const Let *let, Weight *w)
{
    const Seen *s = &f->seen[let->args[0]->id];
    int axis = (int)let_int(let, "axis");
    w->gathered = true;
    if (let->args[0]->type->rank != 2 || axis != 0 || root_axis(s, 1) < 0 || s->sliced) {
        refuse(w, "a gather reads other parts of it than rows");
    } else {
        take_axes(w, root_axis(s, 1), root_axis(s, 0));
    }
}

static bool
find_view(const Finder *f, const Let *let)
{
    const Seen *from = &f->seen[let->args[0]->id];
    Seen *to = &f->seen[let->res[0]->id];
    signed char along[MAX_RANK];
    Dtype dtype = let->res[0]->type->dtype;
    bool same = let->op == OP_cast || let->op == OP_slice;
    *to = *from;
    to->sliced |= let->op == OP_slice;
    if (same) {
        return dtype == DT_f32 || dtype == DT_bf16 || dtype == DT_f16;
    }
    if (!value_is_view(let->res[0]) || !view_axes(f->fn->cx, let, along)) {
        return false;
    }
    for (int k = 0; k < MAX_RANK; k++) {
        to->axis[k] = from->axis[k] < 0 ? -1 : along[(int)from->axis[k]];
    }
    return true;
}

static void
find_uses(const Finder *f, const Let *let)
{
    for (int j = 0; j < let->nargs; j++) {
        Weight *w = weight_of(f, let->args[j]);
        if (!w) {
            continue;
        }
        if (let->op == OP_contract) {
            find_product(f, let, j);
        } else if (let->op == OP_gather && j == 0) {
            find_gather(f, let, w);
        } else if (let->op == OP_call && !w->why) {
            w->products++;
            refuse(w, cx_format(f->fn->cx, "the library reads it, in %s", let_str(let, "target")));
        } else if (let->nres != 1 || !find_view(f, let)) {
            w->products += let->op == OP_gather;
            refuse(w, cx_format(f->fn->cx, "%s reads it", op_info[let->op].name));
        }
    }
}

static bool
are_numbers(Cx *cx, int n, const Dim *dims)
{
    bool all = true;
    for (int k = 0; k < n; k++) {
        all &= dim_is_int(cx, dims[k], NULL);
    }
    return all;
}

static void
add_params(Finder *f, const bool *frozen)
{
    const Fn *fn = f->fn;
    for (int k = 0; k < fn->nparams; k++) {
        const Value *v = fn->params[k];
        const Type *t = v->type;
        Seen *s = &f->seen[v->id];
        if (!frozen[k] || t->rank < 2 || dtype_info[t->dtype].class != CLASS_FLOAT) {
            continue;
        }
        s->weight = f->n;
        for (int ax = 0; ax < MAX_RANK; ax++) {
            s->axis[ax] = (signed char)(ax < t->rank ? ax : -1);
        }
        Weight *w = &f->weights[f->n++];
        *w = (Weight){.param = k, .sum = -1, .columns = -1};
        if (t->dtype == DT_f64) {
            refuse(w, "it is float64");
        } else if (!are_numbers(fn->cx, t->rank, t->dims) ||
                   (v->strides && !are_numbers(fn->cx, t->rank, v->strides))) {
            refuse(w, "its size is a symbol");
        }
    }
}

/* What the caller sees, and what is written, stays. */
static void
refuse_results(const Finder *f)
{
    for (int k = 0; k < f->fn->body->nrets; k++) {
        const Result *r = &f->fn->results[k];
        Weight *w = weight_of(f, f->fn->body->rets[k]);
        if (w) {
            refuse(w, "the graph returns it");
        }
        w = r->kind == RESULT_INTO ? weight_of(f, f->fn->params[r->of]) : NULL;
        if (w) {
            refuse(w, "the graph writes it");
        }
    }
}

/* Of more than two axes that have two elements or more, a matrix is none. */
static void
refuse_shapes(const Finder *f, Weight *w)
{
    const Type *t = f->fn->params[w->param]->type;
    int more = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        more += ax != w->sum && ax != w->columns && !dim_is(f->fn->cx, t->dims[ax], 1);
    }
    if (w->sum >= 0 && more) {
        refuse(w, "it has more than two axes");
    } else if (w->products >= COST_PACKED) {
        refuse(w, "so many products read it that each would decode it again");
    }
}

/* What is a weight, or a view of one, among the frozen parameters; what reads it. */
static Finder
find_all(const Fn *fn, const bool *frozen)
{
    Finder f = {.fn = fn};
    f.seen = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *f.seen);
    f.weights = cx_alloc(fn->cx, ((size_t)fn->nparams + 1) * sizeof *f.weights);
    for (int k = 0; k <= fn->nvalues; k++) {
        f.seen[k].weight = -1;
    }
    add_params(&f, frozen);
    for (int k = 0; k < fn->body->n; k++) {
        find_uses(&f, fn->body->lets[k]);
    }
    return f;
}

int
weights_find(const Fn *fn, const bool *frozen, Weight **out)
{
    Finder f = find_all(fn, frozen);
    int n = 0;
    refuse_results(&f);
    for (int k = 0; k < f.n; k++) {
        refuse_shapes(&f, &f.weights[k]);
        if (f.weights[k].products) {
            f.weights[n++] = f.weights[k];
        }
    }
    *out = f.weights;
    return n;
}

Finder
weights_again(const Fn *fn, int n, const Weight *weights)
{
    bool *frozen = cx_alloc(fn->cx, (size_t)(fn->nparams + 1) * sizeof *frozen);
    for (int k = 0; k < n; k++) {
        frozen[weights[k].param] = weights[k].format != WEIGHT_FLOAT;
    }
    Finder f = find_all(fn, frozen);
    for (int k = 0, j = 0; k < f.n; k++) {
        while (weights[j].param != f.weights[k].param) {
            j++;
        }
        f.weights[k] = weights[j];
    }
    return f;
}
