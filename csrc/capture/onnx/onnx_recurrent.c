/* RNN, GRU and LSTM: what a step reads of the input is one product for all steps; a loop carries
 * the state. */
#include "onnx.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { MAX_GATES = 4 };

typedef struct {
    int gates, states;
    Dim steps, batch, hidden;
    Dtype dtype;
    bool linear, coupled; /* linear_before_reset, input_forget */
} Cell;

/* One direction. */
typedef struct {
    int at; /* its number */
    bool back;
    Value *x; /* of all steps: [steps, batch, gates * hidden], with the biases */
    Value *weight; /* of the state, [gates * hidden, hidden] */
    Value *bias; /* of the state's part of GRU's last gate, [hidden] */
    Value *peeps[3]; /* of the input, output and forget gates, or NULL */
    Value *state[2];
} Way;

/* ---- activations ---- */

static const char *
name_at(Onnx *o, int k, const char *otherwise)
{
    const OnnxAttr *a = onnx_attr(o, "activations");
    return a && a->kind == ONNX_TEXTS && k < a->n ? a->texts[k] : otherwise;
}

static double
number_at(Onnx *o, const char *name, int k, double otherwise)
{
    const OnnxAttr *a = onnx_attr(o, name);
    return a && a->kind == ONNX_FLOATS && k < a->n ? a->floats[k] : otherwise;
}

/* Of function k of all; a function that takes no numbers has none in their lists. */
static Value *
activated(Onnx *o, Value *v, int k, const char *otherwise)
{
    static const struct {
        const char *name, *overload;
        double alpha, beta; /* NAN: it takes none */
    } rows[] = {{"relu", "aten.relu.default", NAN, NAN},
                {"tanh", "aten.tanh.default", NAN, NAN},
                {"sigmoid", "aten.sigmoid.default", NAN, NAN},
                {"affine", "affine", 1, 0},
                {"leakyrelu", "aten.leaky_relu.default", 0.01, NAN},
                {"thresholdedrelu", "aten.threshold.default", 1, NAN},
                {"scaledtanh", "scaled", 1, 1},
                {"hardsigmoid", "hard", 0.2, 0.5},
                {"elu", "aten.elu.default", 1, NAN},
                {"softsign", "softsign", NAN, NAN},
                {"softplus", "aten.softplus.default", NAN, NAN}};
    enum { COUNT = sizeof rows / sizeof *rows };
    int row = -1, nalpha = 0, nbeta = 0;
    for (int i = 0; i <= k; i++) {
        const char *name = name_at(o, i, i == k ? otherwise : "tanh");
        for (row = COUNT - 1; row >= 0 && strcasecmp(rows[row].name, name) != 0; row--) {
        }
        if (row < 0) {
            onnx_refuse(o, "its activation '%s' is none that is known", name);
        }
        if (i < k) {
            nalpha += !isnan(rows[row].alpha);
            nbeta += !isnan(rows[row].beta);
        }
    }
    double alpha = number_at(o, "activation_alpha", nalpha, rows[row].alpha);
    double beta = number_at(o, "activation_beta", nbeta, rows[row].beta),
           clip = onnx_float(o, "clip", 0);
    const char *how = rows[row].overload;
    if (clip > 0) {
        v = onnx_map(o, OP_maximum, v, onnx_number(o, -clip));
        v = onnx_map(o, OP_minimum, v, onnx_number(o, clip));
    }
    if (strcmp(how, "softsign") == 0) {
        Value *size = build_map(o->b, OP_abs, v, NULL, NULL);
        return onnx_map(o, OP_div, v, onnx_map(o, OP_add, size, onnx_number(o, 1)));
    }
    if (strcmp(how, "scaled") == 0) {
        v = build_map(o->b, OP_tanh, onnx_map(o, OP_mul, v, onnx_number(o, beta)), NULL, NULL);
        return onnx_map(o, OP_mul, v, onnx_number(o, alpha));
    }
    bool hard = strcmp(how, "hard") == 0;
    if (hard || strcmp(how, "affine") == 0) {
        v = onnx_map(o, OP_mul, v, onnx_number(o, alpha));
        v = onnx_map(o, OP_add, v, onnx_number(o, beta));
        return !hard ? v
                     : onnx_map(o, OP_minimum, onnx_map(o, OP_maximum, v, onnx_number(o, 0)),
                                onnx_number(o, 1));
    }
    Arg args[] = {arg_v(v), arg_f(alpha), arg_f(strcmp(rows[row].name, "elu") == 0 ? 1 : 0),
                  arg_f(1)};
    if (strcmp(rows[row].name, "softplus") == 0) {
        args[1] = arg_f(1);
        args[2] = arg_f(20);
    }
    int nargs = strcmp(rows[row].name, "elu") == 0 ? 4
                : strcmp(rows[row].name, "softplus") == 0 ||
                        strcmp(rows[row].name, "thresholdedrelu") == 0
                    ? 3
                : isnan(rows[row].alpha) ? 1
                                         : 2;
    return onnx_aten(o, how, v->type, nargs, args);
}

/* ---- a step ---- */

static Value *
gate(Onnx *o, const Cell *c, Value *v, int k, int count)
{
    Dim from = dim_mul(o->cx, c->hidden, dim_int(o->cx, k));
    Dim size = dim_mul(o->cx, c->hidden, dim_int(o->cx, count));
    return build_slice(o->b, v, v->type->rank - 1, from, dim_int(o->cx, 1), size);
}

static Value *
rows_of(Onnx *o, const Cell *c, Value *weight, int k, int count)
{
    Dim from = dim_mul(o->cx, c->hidden, dim_int(o->cx, k));
    Dim size = dim_mul(o->cx, c->hidden, dim_int(o->cx, count));
    return build_slice(o->b, weight, 0, from, dim_int(o->cx, 1), size);
}

static Value *
of_state(Onnx *o, const Cell *c, Value *h, Value *weight)
{
    return build_product(o->b, h, weight, "bk,nk->bn", c->dtype);
}

/* (1 - share) * a + share * b */
static Value *
mixed(Onnx *o, Value *share, Value *a, Value *b)
{
    Value *rest = onnx_map(o, OP_sub, onnx_number(o, 1), share);
    return onnx_add(o, onnx_mul(o, rest, a), onnx_mul(o, share, b));
}

static void
rnn_step(Onnx *o, const Cell *c, const Way *w, Value *x, Value **state)
{
    Value *v = onnx_add(o, x, of_state(o, c, state[0], w->weight));
    state[0] = activated(o, v, w->at, "tanh");
}

/* Gates: update, reset, new. */
static void
gru_step(Onnx *o, const Cell *c, const Way *w, Value *x, Value **state)
{
    Value *h = state[0];
    Value *both = onnx_add(o, gate(o, c, x, 0, 2),
                           of_state(o, c, h, rows_of(o, c, w->weight, 0, 2)));
    Value *z = activated(o, gate(o, c, both, 0, 1), 2 * w->at, "sigmoid");
    Value *r = activated(o, gate(o, c, both, 1, 1), 2 * w->at, "sigmoid");
    Value *last = rows_of(o, c, w->weight, 2, 1), *v;
    if (c->linear) {
        v = onnx_mul(o, r, onnx_add(o, of_state(o, c, h, last), w->bias));
    } else {
        v = onnx_add(o, of_state(o, c, onnx_mul(o, r, h), last), w->bias);
    }
    v = activated(o, onnx_add(o, gate(o, c, x, 2, 1), v), 2 * w->at + 1, "tanh");
    state[0] = mixed(o, z, v, h);
}

/* Gates: input, output, forget, cell. */
static void
lstm_step(Onnx *o, const Cell *c, const Way *w, Value *x, Value **state)
{
    Value *all = onnx_add(o, x, of_state(o, c, state[0], w->weight)), *part[MAX_GATES];
    int first = 3 * w->at;
    for (int k = 0; k < MAX_GATES; k++) {
        part[k] = gate(o, c, all, k, 1);
    }
    for (int k = 0; k < 3; k += 2) {
        part[k] = w->peeps[k] ? onnx_add(o, part[k], onnx_mul(o, w->peeps[k], state[1])) : part[k];
    }
    Value *i = activated(o, part[0], first, "sigmoid");
    Value *f = c->coupled ? onnx_map(o, OP_sub, onnx_number(o, 1), i)
                          : activated(o, part[2], first, "sigmoid");
    Value *cell = activated(o, part[3], first + 1, "tanh");
    state[1] = onnx_add(o, onnx_mul(o, f, state[1]), onnx_mul(o, i, cell));
    Value *out = w->peeps[1] ? onnx_add(o, part[1], onnx_mul(o, w->peeps[1], state[1])) : part[1];
    out = activated(o, out, first, "sigmoid");
    state[0] = onnx_mul(o, out, activated(o, state[1], first + 2, "tanh"));
}

/* ---- a direction ---- */

/* Element k of the first axis, which goes; NULL of NULL. */
static Value *
part_of(Onnx *o, Value *v, int k)
{
    if (!v) {
        return NULL;
    }
    Dim one = dim_int(o->cx, 1);
    v = build_slice(o->b, v, 0, dim_int(o->cx, k), one, one);
    return build_reshape(o->b, v, v->type->rank - 1, v->type->dims + 1);
}

/* The loop: states after the last step are written to w->state, those of all steps are returned.
 * lengths: NULL, or of each sequence, i64; behind its end the state stays, and its row is 0. */
static Value *
run(Onnx *o, const Cell *c, Way *w, Value *lengths)
{
    void (*const steps[])(Onnx *, const Cell *, const Way *, Value *,
                          Value **) = {rnn_step, NULL, gru_step, lstm_step};
    OnnxBody body;
    int n = c->states;
    Value *old[2], *next[2], *args[3 + 8];
    onnx_body_open(o, &body);
    Value *step = onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    for (int k = 0; k < n; k++) {
        old[k] = next[k] = onnx_body_param(o, "state", w->state[k]->type);
    }
    Value *x = onnx_body_param(o, "row", type_of_row(o->cx, w->x->type));
    Way inner = *w;
    inner.weight = onnx_body_stay(o, &body, w->weight);
    inner.bias = w->bias ? onnx_body_stay(o, &body, w->bias) : NULL;
    for (int k = 0; k < 3; k++) {
        inner.peeps[k] = w->peeps[k] ? onnx_body_stay(o, &body, w->peeps[k]) : NULL;
    }
    lengths = lengths ? onnx_body_stay(o, &body, lengths) : NULL;
    steps[c->gates - 1](o, c, &inner, x, next);
    Value *row = next[0];
    if (lengths) {
        const Type *t = row->type;
        Value *is = onnx_map(o, OP_lt, step, lengths);
        is = build_expand(o->b, is, 2, t->dims, (const int[]){0});
        row = onnx_map3(o, OP_where, is, row, build_const(o->b, t, (Literal){.is_int = true}));
        for (int k = 0; k < n; k++) {
            next[k] = onnx_map3(o, OP_where, is, next[k], old[k]);
        }
    }
    Value *rets[] = {next[0], n > 1 ? next[1] : row, row};
    Fn *fn = onnx_body_close(o, &body, n + 1, rets);
    memcpy(args, w->state, (size_t)n * sizeof *args);
    args[n] = w->x;
    memcpy(args + n + 1, body.stays, (size_t)body.nstays * sizeof *args);
    OnnxLoop loop = {.carries = n, .rows = 1, .steps = c->steps};
    Let *let = onnx_loop(o, &loop, fn, n + 1 + body.nstays, args);
    memcpy(w->state, let->res, (size_t)n * sizeof *w->state);
    return let->res[n];
}

/* The other way round: all steps, or those of each sequence. */
static Value *
backwards(Onnx *o, Value *v, Value *lengths)
{
    return lengths ? onnx_reversed(o, v, lengths, 0, 1) : build_flip(o->b, v, 1, (const int[]){0});
}

static Way
way_of(Onnx *o, const Cell *c, int at, bool back, Value *x, Value *lengths)
{
    Way w = {.at = at, .back = back, .weight = part_of(o, onnx_in(o, 2), at)};
    Value *bias = part_of(o, onnx_given(o, 3), at);
    Value *weight = part_of(o, onnx_in(o, 1), at);
    x = back ? backwards(o, x, lengths) : x;
    w.x = build_product(o->b, x, weight, "tbk,nk->tbn", c->dtype);
    if (bias) {
        Value *in = gate(o, c, bias, 0, c->gates), *state = gate(o, c, bias, c->gates, c->gates);
        if (c->gates == 3) { /* the state's last bias is added where the gate says */
            w.bias = gate(o, c, state, 2, 1);
            Value *both = onnx_add(o, gate(o, c, in, 0, 2), gate(o, c, state, 0, 2));
            Value *parts[] = {both, gate(o, c, in, 2, 1)};
            in = build_cat(o->b, 2, parts, 0);
        } else {
            in = onnx_add(o, in, state);
        }
        w.x = onnx_map(o, OP_add, w.x, in);
    }
    if (c->gates == 3 && !w.bias) {
        w.bias = build_const(o->b, type_of(o->cx, c->dtype, 1, &c->hidden),
                             (Literal){.is_int = true});
    }
    Value *p = c->gates == 4 ? part_of(o, onnx_given(o, 7), at) : NULL;
    for (int k = 0; p && k < 3; k++) {
        w.peeps[k] = gate(o, c, p, k, 1);
    }
    Dim dims[] = {c->batch, c->hidden};
    for (int k = 0; k < c->states; k++) {
        Value *given = onnx_given(o, 5 + k);
        given = given && onnx_int(o, "layout", 0) ? onnx_moved(o, given, 1, 0) : given;
        w.state[k] = given ? part_of(o, given, at)
                           : build_const(o->b, type_of(o->cx, c->dtype, 2, dims),
                                         (Literal){.is_int = true});
    }
    return w;
}

/* Values as elements of a new axis. */
static Value *
stacked(Onnx *o, int n, Value *const *v, int axis)
{
    Value *parts[2];
    for (int k = 0; k < n; k++) {
        Dim dims[MAX_RANK];
        int rank = v[k]->type->rank + 1;
        for (int ax = 0; ax < rank; ax++) {
            dims[ax] = ax == axis ? dim_int(o->cx, 1) : v[k]->type->dims[ax - (ax > axis)];
        }
        parts[k] = build_reshape(o->b, v[k], rank, dims);
    }
    return build_cat(o->b, n, parts, axis);
}

void
onnx_recurrent(Onnx *o)
{
    Value *x = onnx_in(o, 0), *weight = onnx_in(o, 1), *state = onnx_in(o, 2);
    Value *lengths = onnx_given(o, 4), *rows[2], *last[2][2];
    int gates = *o->node->op == 'L' ? 4 : *o->node->op == 'G' ? 3 : 1;
    const char *direction = onnx_text(o, "direction", "forward");
    int n = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    bool layout = onnx_int(o, "layout", 0) != 0, back = strcmp(direction, "reverse") == 0;
    if (x->type->rank != 3 || weight->type->rank != 3 || state->type->rank != 3 ||
        !dim_is(o->cx, weight->type->dims[0], n) || !dim_is(o->cx, state->type->dims[0], n)) {
        onnx_refuse(o, "it takes inputs [steps, batch, size], and weights of %d direction%s", n,
                    n > 1 ? "s" : "");
    }
    x = layout ? onnx_moved(o, x, 1, 0) : x;
    lengths = lengths ? build_cast(o->b, lengths, DT_i64) : NULL;
    Cell c = {.gates = gates,
              .states = gates == 4 ? 2 : 1,
              .steps = x->type->dims[0],
              .batch = x->type->dims[1],
              .hidden = state->type->dims[2],
              .dtype = x->type->dtype,
              .linear = onnx_int(o, "linear_before_reset", 0) != 0,
              .coupled = onnx_int(o, "input_forget", 0) != 0};
    for (int k = 0; k < n; k++) {
        Way w = way_of(o, &c, k, back || k == 1, x, lengths);
        rows[k] = run(o, &c, &w, lengths);
        rows[k] = w.back ? backwards(o, rows[k], lengths) : rows[k];
        for (int s = 0; s < c.states; s++) {
            last[s][k] = w.state[s];
        }
    }
    for (int k = 0; k < o->node->noutputs && k <= c.states; k++) {
        Value *v = k == 0 ? stacked(o, n, rows, 1) : stacked(o, n, last[k - 1], 0);
        if (layout && k == 0) {
            v = build_permute(o->b, v, (const int[]){2, 0, 1, 3});
        } else if (layout) {
            v = onnx_moved(o, v, 1, 0);
        }
        o->out[k] = v;
    }
}
