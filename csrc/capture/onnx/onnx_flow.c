/* If, Loop and Scan, as branches and loops of the language. */
#include "onnx.h"

#include <string.h>

enum { MAX_UNROLLED = 1024 }; /* steps that are written out, where the language has no such loop */

/* ---- If ---- */

static void
take_here(Onnx *o, const OnnxGraph *g)
{
    int nwrong = *o->nwrong;
    onnx_nodes(o, g);
    for (int k = 0; k < o->node->noutputs; k++) {
        Value *v = k < g->noutputs ? o->values[g->outputs[k]] : NULL;
        if (!v && *o->nwrong == nwrong) {
            onnx_refuse(o, "its body does not compute output %d", k + 1);
        }
        o->out[k] = v;
    }
}

static const char *
type_shown(Onnx *o, const Type *t)
{
    Text text = {.cx = o->cx};
    type_text(o->cx, t, &text);
    return text.text;
}

void
onnx_if(Onnx *o)
{
    const OnnxGraph *g[] = {onnx_graph(o, "then_branch"), onnx_graph(o, "else_branch")};
    Value *is = onnx_truth(o, onnx_in(o, 0));
    double f;
    if (onnx_constant(o, is, &f)) {
        take_here(o, g[f == 0]);
        return;
    }
    OnnxBody body[2];
    int n = o->node->noutputs;
    Fn *fn[2];
    Value **rets[2], **stays = NULL;
    int nstays = 0;
    for (int k = 0; k < 2; k++) {
        if (g[k]->noutputs != n) {
            onnx_refuse(o, "it has %d outputs, and a branch %d", n, g[k]->noutputs);
        }
    }
    /* both bodies take what either of them reads */
    for (int k = 0; k < 2; k++) {
        rets[k] = cx_alloc(o->cx, (size_t)(n + 1) * sizeof **rets);
        onnx_body_open(o, &body[k]);
        for (int j = 0; j < nstays; j++) {
            onnx_body_stay(o, &body[k], stays[j]);
        }
        bool made = onnx_body_nodes(o, &body[k], g[k], rets[k]);
        fn[k] = onnx_body_close(o, &body[k], n, made ? rets[k] : NULL);
        if (!made) {
            return;
        }
        stays = body[k].stays;
        nstays = body[k].nstays;
    }
    for (int k = body[0].nstays; k < nstays; k++) {
        fn_param(fn[0], fn_fresh_name(fn[0], stays[k]->name), stays[k]->type, NULL);
    }
    fn_free_sizes(fn[0]);
    const Type **types = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *types);
    for (int k = 0; k < n; k++) {
        types[k] = rets[0][k]->type;
        if (types[k] != rets[1][k]->type) {
            onnx_refuse(o, "its branches give output %d as %s and as %s", k + 1,
                        type_shown(o, types[k]), type_shown(o, rets[1][k]->type));
        }
    }
    Value **args = cx_alloc(o->cx, (size_t)(nstays + 1) * sizeof *args);
    args[0] = is;
    memcpy(args + 1, stays, (size_t)nstays * sizeof *args);
    Let *let = build_let(o->b, OP_branch, nstays + 1, args, NULL, NULL, n, types, NULL);
    let_bodies(o->cx, let, 2, fn);
    memcpy(o->out, let->res, (size_t)n * sizeof *o->out);
}

/* ---- Loop ---- */

/* Are the results of a body what its next step takes? */
static bool
types_stay(int n, Value *const *next, Value *const *given)
{
    for (int k = 0; k < n; k++) {
        if (next[k]->type != given[k]->type) {
            return false;
        }
    }
    return true;
}

/* The rows of all steps, one below the other. */
static Value *
stacked(Onnx *o, int n, Value *const *rows)
{
    Value **parts = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *parts);
    for (int k = 0; k < n; k++) {
        const Type *t = type_of_rows(o->cx, rows[k]->type, dim_int(o->cx, 1));
        parts[k] = build_reshape(o->b, rows[k], t->rank, t->dims);
    }
    return build_cat(o->b, n, parts, 0);
}

/* Step by step: the number of a step is known, and so may be sizes that follow from it.  false: it
 * depends on data whether there is another step. */
static bool
unrolled(Onnx *o, const OnnxGraph *g, int64_t steps, bool stops)
{
    int n = o->node->ninputs - 2, nrows = g->noutputs - 1 - n, nwrong = *o->nwrong;
    Value **v = cx_copy(o->cx, o->in + 2, (size_t)(n + 1) * sizeof *v), ***rows;
    const Type *scalar = type_scalar(o->cx, DT_i64), *truth = type_scalar(o->cx, DT_bool);
    rows = cx_alloc(o->cx, (size_t)(nrows + 1) * sizeof *rows);
    for (int k = 0; k < nrows; k++) {
        rows[k] = cx_alloc(o->cx, (size_t)(steps + 1) * sizeof **rows);
    }
    int64_t at = 0;
    double more = 1;
    for (; at < steps && more != 0; at++) {
        if (++*o->nsteps > MAX_UNROLLED) { /* loops in loops, too */
            onnx_refuse(o, "more than %d steps would be written out", MAX_UNROLLED);
        }
        Value **before = cx_copy(o->cx, o->values, (size_t)(o->nvalues + 1) * sizeof *before);
        o->values[g->inputs[0]] = build_const(o->b, scalar, (Literal){.is_int = true, .i = at});
        o->values[g->inputs[1]] = build_const(o->b, truth, (Literal){.is_int = true, .i = 1});
        for (int k = 0; k < n; k++) {
            o->values[g->inputs[2 + k]] = v[k];
        }
        onnx_nodes(o, g);
        Value **made = o->values;
        o->values = before;
        for (int k = 0; k < g->noutputs; k++) {
            if (!made[g->outputs[k]]) {
                return *o->nwrong > nwrong;
            }
        }
        if (stops && !onnx_constant(o, made[g->outputs[0]], &more)) {
            return false;
        }
        for (int k = 0; k < n; k++) {
            v[k] = made[g->outputs[1 + k]];
        }
        for (int k = 0; k < nrows; k++) {
            rows[k][at] = made[g->outputs[1 + n + k]];
        }
    }
    memcpy(o->out, v, (size_t)n * sizeof *v);
    for (int k = 0; k < nrows; k++) {
        if (at == 0) {
            onnx_refuse(o, "it has no step, and rows of no known type");
        }
        o->out[n + k] = stacked(o, (int)at, rows[k]);
    }
    return true;
}

/* Loop(steps, condition, carried ..): the body gets the number of the step, the condition, and the
 * carried values; it gives the next condition, the next values, and rows. */
void
onnx_loop_node(Onnx *o)
{
    const OnnxGraph *g = onnx_graph(o, "body");
    Value *most = onnx_given(o, 0), *go = onnx_given(o, 1);
    int n = o->node->ninputs - 2;
    if (n < 0 || g->ninputs != n + 2 || g->noutputs < n + 1 ||
        g->noutputs - 1 != o->node->noutputs) {
        onnx_refuse(o, "its body does not take and give what it has to");
    }
    for (int k = 0; k < n; k++) {
        onnx_in(o, k + 2);
    }
    most = most ? build_cast(o->b, build_reshape(o->b, most, 0, NULL), DT_i64) : NULL;
    go = go ? onnx_truth(o, go) : NULL;
    double first = 1, again = 0;
    bool begins = !go || (onnx_constant(o, go, &first) && first != 0);
    const Known *known = most ? onnx_known(o, most) : NULL;
    Dim steps = known && known->elements[0].kind == ELEMENT_DIM ? known->elements[0].d : DIM_NONE;
    OnnxBody body;
    Value **rets = cx_alloc(o->cx, (size_t)(g->noutputs + 1) * sizeof *rets);
    onnx_body_open(o, &body);
    Value *at = onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    o->values[g->inputs[0]] = at;
    o->values[g->inputs[1]] = build_const(o->b, type_scalar(o->cx, DT_bool),
                                          (Literal){.is_int = true, .i = 1});
    for (int k = 0; k < n; k++) {
        Value *v = body.outer.in[k + 2];
        o->values[g->inputs[k + 2]] = onnx_body_param(o, v->name, v->type);
    }
    int64_t count;
    int nwrong = *o->nwrong, nunknown = *o->nunknown;
    size_t said = o->wrong->length;
    bool made = onnx_body_nodes(o, &body, g, rets);
    bool fits = made && types_stay(n, rets + 1, body.outer.in + 2);
    bool always = fits && go ? onnx_constant(o, rets[0], &again) && again != 0 : !go;
    bool counted = fits && begins && always && steps != DIM_NONE;
    if (!fits) {
        onnx_body_close(o, &body, 0, NULL);
        if (!begins || steps == DIM_NONE || !dim_is_int(o->cx, steps, &count) || count < 0 ||
            count > MAX_UNROLLED) {
            bool unknown = !made && *o->nunknown - nunknown == *o->nwrong - nwrong;
            if (unknown && (steps == DIM_NONE || !begins)) { /* step by step, it may be known */
                *o->nwrong = nwrong;
                o->wrong->length = said;
                onnx_not_known(o, steps == DIM_NONE ? 0 : 1);
            }
            if (!made) {
                return;
            }
            onnx_refuse(o, "a value that it carries has another type after a step");
        }
        *o->nwrong = nwrong;
        o->wrong->length = said; /* what its body cannot do, each step may */
        if (!unrolled(o, g, count, go != NULL)) {
            onnx_refuse(o, "a value that it carries has another type after a step");
        }
        return;
    }
    if (!counted) {
        Value *more = go ? onnx_truth(o, rets[0]) : NULL;
        if (most) {
            Value *next = build_map(o->b, OP_add, at, build_int(o->b, 1), NULL);
            Value *left = build_map(o->b, OP_lt, next, onnx_body_stay(o, &body, most), NULL);
            more = more ? build_map(o->b, OP_bit_and, more, left, NULL) : left;
        }
        rets[0] = more ? more
                       : build_const(o->b, type_scalar(o->cx, DT_bool),
                                     (Literal){.is_int = true, .i = 1});
    }
    Fn *fn = onnx_body_close(o, &body, g->noutputs - counted, rets + counted);
    OnnxLoop loop = {.carries = n,
                     .steps = counted ? dim_max(o->cx, steps, dim_int(o->cx, 0)) : DIM_NONE};
    if (!counted) {
        Value *some = most ? build_map(o->b, OP_gt, most, build_int(o->b, 0), NULL) : NULL;
        loop.go = !go ? some : !some ? go : build_map(o->b, OP_bit_and, some, go, NULL);
        loop.go = loop.go ? loop.go
                          : build_const(o->b, type_scalar(o->cx, DT_bool),
                                        (Literal){.is_int = true, .i = 1});
    }
    Value **args = cx_alloc(o->cx, (size_t)(n + body.nstays + 1) * sizeof *args);
    memcpy(args, o->in + 2, (size_t)n * sizeof *args);
    memcpy(args + n, body.stays, (size_t)body.nstays * sizeof *args);
    Let *let = onnx_loop(o, &loop, fn, n + body.nstays, args);
    memcpy(o->out, let->res, (size_t)let->nres * sizeof *o->out);
}

/* ---- Scan ---- */

static int64_t
attr_at(const Onnx *o, const char *name, int k)
{
    const OnnxAttr *a = onnx_attr(o, name);
    return a && a->kind == ONNX_INTS && k < a->n ? a->ints[k] : 0;
}

/* states: carried; rows: with the steps in front; made: the states after the last step, then the
 * rows of all. */
static bool
scanned(Onnx *o, const OnnxGraph *g, int n, Value *const *states, int nrows, Value *const *rows,
        Value **made)
{
    OnnxBody body;
    Value **rets = cx_alloc(o->cx, (size_t)(g->noutputs + 1) * sizeof *rets);
    onnx_body_open(o, &body);
    onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    for (int k = 0; k < n + nrows; k++) {
        const Type *t = k < n ? states[k]->type : type_of_row(o->cx, rows[k - n]->type);
        o->values[g->inputs[k]] = onnx_body_param(o, k < n ? "state" : "row", t);
    }
    bool is = onnx_body_nodes(o, &body, g, rets);
    for (int k = 0; is && k < n; k++) {
        if (rets[k]->type != states[k]->type && rets[k]->type->rank == states[k]->type->rank &&
            rets[k]->type->dtype == states[k]->type->dtype) {
            onnx_refuse(o, "state %d has the type %s before a step, and %s after it", k + 1,
                        type_shown(o, states[k]->type), type_shown(o, rets[k]->type));
        }
    }
    is = is && types_stay(n, rets, states);
    Fn *fn = onnx_body_close(o, &body, g->noutputs, is ? rets : NULL);
    if (!is) {
        return false;
    }
    Value **args = cx_alloc(o->cx, (size_t)(n + nrows + body.nstays + 1) * sizeof *args);
    memcpy(args, states, (size_t)n * sizeof *args);
    memcpy(args + n, rows, (size_t)nrows * sizeof *args);
    memcpy(args + n + nrows, body.stays, (size_t)body.nstays * sizeof *args);
    OnnxLoop loop = {.carries = n, .rows = nrows, .steps = rows[0]->type->dims[0]};
    Let *let = onnx_loop(o, &loop, fn, n + nrows + body.nstays, args);
    memcpy(made, let->res, (size_t)let->nres * sizeof *made);
    return true;
}

/* Element `at` of the batch axis, without it. */
static Value *
in_batch(Onnx *o, Value *v, int64_t at)
{
    Dim one = dim_int(o->cx, 1);
    v = build_slice(o->b, v, 0, dim_int(o->cx, at), one, one);
    return build_reshape(o->b, v, v->type->rank - 1, v->type->dims + 1);
}

/* Scan(states .., rows ..); of version 8, with the lengths of sequences before, and a batch. */
void
onnx_scan(Onnx *o)
{
    const OnnxGraph *g = onnx_graph(o, "body");
    bool old = o->node->version < 9;
    int nrows = (int)onnx_int(o, "num_scan_inputs", 0), n = o->node->ninputs - old - nrows;
    int nmade = o->node->noutputs;
    if (nrows < 1 || n < 0 || g->ninputs != n + nrows || g->noutputs != nmade || nmade < n) {
        onnx_refuse(o, "its body does not take and give what it has to");
    }
    if (old && onnx_given(o, 0)) {
        onnx_refuse(o, "its sequences have lengths of their own");
    }
    Value **in = cx_alloc(o->cx, (size_t)(n + nrows + 1) * sizeof *in);
    for (int k = 0; k < n + nrows; k++) {
        in[k] = onnx_in(o, k + old);
    }
    int64_t batches = 1;
    if (old && (in[n]->type->rank == 0 || !dim_is_int(o->cx, in[n]->type->dims[0], &batches) ||
                batches > MAX_UNROLLED || batches < 1)) {
        onnx_refuse(o, "its batch is not a number of 1 to %d", MAX_UNROLLED);
    }
    Value **made = cx_alloc(o->cx, (size_t)(nmade * batches + 1) * sizeof *made);
    for (int64_t at = 0; at < batches; at++) {
        if (++*o->nsteps > MAX_UNROLLED) {
            onnx_refuse(o, "more than %d sequences would be written out", MAX_UNROLLED);
        }
        Value **of = cx_copy(o->cx, in, (size_t)(n + nrows + 1) * sizeof *of);
        for (int k = 0; old && k < n + nrows; k++) {
            of[k] = in_batch(o, in[k], at);
        }
        for (int k = n; k < n + nrows; k++) {
            int axis = onnx_axis(o, attr_at(o, "scan_input_axes", k - n), of[k]->type->rank);
            bool back = attr_at(o, old ? "directions" : "scan_input_directions", k - n) != 0;
            of[k] = onnx_moved(o, of[k], axis, 0);
            of[k] = back ? build_flip(o->b, of[k], 1, (const int[]){0}) : of[k];
            if (of[k]->type->dims[0] != of[n]->type->dims[0]) {
                onnx_refuse(o, "its operands are not known to have as many steps");
            }
        }
        if (!scanned(o, g, n, of, nrows, of + n, made + at * nmade)) {
            return;
        }
    }
    for (int k = 0; k < nmade; k++) {
        Value **parts = cx_alloc(o->cx, (size_t)batches * sizeof *parts);
        for (int64_t at = 0; at < batches; at++) {
            Value *v = made[at * nmade + k];
            if (k >= n) {
                int axis = onnx_axis(o, attr_at(o, "scan_output_axes", k - n), v->type->rank);
                bool back = attr_at(o, "scan_output_directions", k - n) != 0;
                v = back ? build_flip(o->b, v, 1, (const int[]){0}) : v;
                v = onnx_moved(o, v, 0, axis);
            }
            parts[at] = v;
        }
        o->out[k] = old ? stacked(o, (int)batches, parts) : parts[0];
    }
}
