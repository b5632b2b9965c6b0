/* Recurrent layers: torch.lstm, torch.gru, torch.rnn_tanh and torch.rnn_relu as lets of their
 * steps.
 *
 * The input products of all steps are one contraction.  A step is the product of the hidden state
 * with the recurrent weight, and the gates, which are pointwise.  The formulas are those of eager's
 * cells. It declines for sequences whose number of steps is not a constant or is large: a graph of
 * each step takes time to compile.  A batch of one is the library's as its products are. */
#include "capture/aten/aten_formula.h"
#include "torch.h"

enum {
    MOST_STEPS = 512,           /* of all layers and directions */
    MOST_LAYERS = 64,           /* with directions */
};

typedef struct Recurrence Recurrence;

/* The states of a layer in one direction; c: of an LSTM only. */
typedef struct {
    Value *h, *c;
} State;

struct Recurrence {
    Aten *n;
    void (*step)(const Recurrence *r, Value *x, State *s);
    Op activation;              /* of a cell with one gate */
    bool biases, projects, both, batch_first;
    int layers, directions;
    int64_t steps;
    Dim hidden;
    /* The weights of the layer and direction that are being built: */
    Value *recurrent, *bias, *projection;
    bool cell_state;
};

/* ---- cells ---- */

/* x of shape [batch, rows] times the transpose of w. */
static Value *
times(const Recurrence *r, Value *x, Value *w)
{
    return build_product(r->n->b, x, w, "bk,nk->bn", x->type->dtype);
}

/* v, one number for each column, for each row of t. */
static Value *
rows_of(const Recurrence *r, Value *v, const Type *t)
{
    return build_broadcast(r->n->b, v, t->rank, t->dims);
}

static Value *
gate(const Recurrence *r, Value *v, int k)
{
    Dim start = dim_mul(r->n->cx, dim_int(r->n->cx, k), r->hidden);
    return part(r->n, v, 1, start, one(r->n), r->hidden);
}

/* The biases of an LSTM and of a cell with one gate are in x, both of them. */
static void
lstm_step(const Recurrence *r, Value *x, State *s)
{
    Aten *n = r->n;
    Value *v = ADD(times(r, s->h, r->recurrent), x);
    Value *in = SIGMOID(gate(r, v, 0)), *keep = SIGMOID(gate(r, v, 1));
    Value *cell = TANH(gate(r, v, 2)), *out = SIGMOID(gate(r, v, 3));
    s->c = ADD(MUL(keep, s->c), MUL(in, cell));
    s->h = MUL(out, TANH(s->c));
    s->h = r->projects ? times(r, s->h, r->projection) : s->h;
}

static void
gru_step(const Recurrence *r, Value *x, State *s)
{
    Aten *n = r->n;
    Value *v = times(r, s->h, r->recurrent);
    v = r->biases ? ADD(v, rows_of(r, r->bias, v->type)) : v;
    Value *reset = SIGMOID(ADD(gate(r, x, 0), gate(r, v, 0)));
    Value *keep = SIGMOID(ADD(gate(r, x, 1), gate(r, v, 1)));
    Value *fresh = TANH(ADD(gate(r, x, 2), MUL(reset, gate(r, v, 2))));
    s->h = ADD(MUL(SUB(s->h, fresh), keep), fresh);
}

static void
plain_step(const Recurrence *r, Value *x, State *s)
{
    Aten *n = r->n;
    Value *v = ADD(times(r, s->h, r->recurrent), x);
    s->h = r->activation == OP_tanh ? TANH(v) : MAX(v, NUM(0));
}

/* ---- layers ---- */

static const Arg *
parameter(const Recurrence *r, int layer, int k)
{
    int each = 2 + 2 * r->biases + r->projects;
    return &arg_at(r->n, 2)->items[layer * each + k];
}

/* Returns row k, x[k]. */
static Value *
row(const Recurrence *r, Value *x, int64_t k)
{
    Aten *n = r->n;
    Value *v = part(n, x, 0, dim_int(n->cx, k), one(n), one(n));
    return build_reshape(n->b, v, x->type->rank - 1, x->type->dims + 1);
}

static Value *
as_row(const Recurrence *r, Value *v)
{
    const Dim dims[3] = {one(r->n), v->type->dims[0], v->type->dims[1]};
    return build_reshape(r->n->b, v, 3, dims);
}

/* Concatenates the parts along the axis; a single part stays as it is. */
static Value *
joined(const Recurrence *r, int count, Value *const *parts, int axis)
{
    return count == 1 ? parts[0] : build_cat(r->n->b, count, parts, axis);
}

/* All steps of one direction: x and the result are [steps, batch, ..]; s: first and last states. */
static Value *
direction(Recurrence *r, Value *x, int at, State *s)
{
    Aten *n = r->n;
    bool reverse = r->both && at % 2;
    Value *in = build_product(n->b, x, parameter(r, at, 0)->v, "tbk,nk->tbn", x->type->dtype);
    Value **outputs = cx_alloc(n->cx, (size_t)r->steps * sizeof *outputs);
    r->recurrent = parameter(r, at, 1)->v;
    r->projection = r->projects ? parameter(r, at, 2 + 2 * r->biases)->v : NULL;
    if (r->biases) {
        Value *bias = parameter(r, at, 2)->v;
        r->bias = parameter(r, at, 3)->v;
        bias = r->step == gru_step ? bias : ADD(bias, r->bias);
        in = ADD(in, rows_of(r, bias, in->type));
    }
    for (int64_t k = 0; k < r->steps; k++) {
        int64_t t = reverse ? r->steps - 1 - k : k;
        r->step(r, row(r, in, t), s);
        outputs[t] = as_row(r, s->h);
    }
    return joined(r, (int)r->steps, outputs, 0);
}

/* Swaps the axes of steps and batches, which are the first two. */
static Value *
other_order(const Recurrence *r, Value *x)
{
    return r->batch_first ? build_permute(r->n->b, x, (int[]){1, 0, 2}) : x;
}

static Value *
layers(Recurrence *r, Value *x, Value *h0, Value *c0)
{
    Aten *n = r->n;
    int all = r->layers * r->directions;
    Value *h[MOST_LAYERS], *c[MOST_LAYERS];
    x = other_order(r, x);
    for (int layer = 0; layer < r->layers; layer++) {
        Value *outputs[2];
        for (int k = 0; k < r->directions; k++) {
            int at = layer * r->directions + k;
            State s = {.h = row(r, h0, at), .c = r->cell_state ? row(r, c0, at) : NULL};
            outputs[k] = direction(r, x, at, &s);
            h[at] = as_row(r, s.h);
            c[at] = r->cell_state ? as_row(r, s.c) : NULL;
        }
        x = joined(r, r->directions, outputs, 2);
    }
    if (n->types[1]) {
        n->res[1] = joined(r, all, h, 0);
    }
    if (r->cell_state && n->types[2]) {
        n->res[2] = joined(r, all, c, 0);
    }
    return other_order(r, x);
}

/* ---- what is computed here ---- */

static bool
is_matrix(const Arg *a, int rank, Dtype dtype)
{
    return a->kind == ARG_TENSOR && a->v->type->rank == rank && a->v->type->dtype == dtype;
}

static bool
are_parameters(const Recurrence *r, Dtype dtype)
{
    const Arg *all = arg_at(r->n, 2);
    int each = 2 + 2 * r->biases + r->projects, count = r->layers * r->directions;
    bool good = all->kind == ARG_LIST && all->n == count * each;
    for (int k = 0; good && k < all->n; k++) {
        bool bias = r->biases && k % each >= 2 && k % each < 4;
        good = is_matrix(&all->items[k], bias ? 1 : 2, dtype);
    }
    return good;
}

/* Does torch draw random numbers between the layers? */
static bool
drops(Aten *n, bool packed)
{
    const Arg *p = arg_at(n, 5 + packed);
    return arg_true(arg_at(n, 6 + packed)) && !(arg_is_number(p) && arg_float(p, 0) == 0);
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
 * A packed sequence has its sizes between the first two, and runs in eager. */
static Value *
recurrent(Aten *n, Recurrence r)
{
    const Arg *x = arg_at(n, 0), *state = arg_at(n, 1), *count = arg_at(n, 4);
    bool pair = state->kind == ARG_LIST, packed = count->kind == ARG_BOOL;
    const Arg *h = pair && state->n == 2 ? &state->items[0] : state;
    Dtype dtype = n->type->dtype;
    r.n = n;
    r.biases = arg_true(arg_at(n, 3));
    r.both = arg_true(arg_at(n, 7));
    r.batch_first = arg_true(arg_at(n, 8));
    r.directions = 1 + r.both;
    r.layers = count->kind == ARG_INT && count->i > 0 && count->i < MOST_LAYERS ? (int)count->i : 0;
    if (drops(n, packed)) {
        n->refusal = "dropout between the layers of a recurrent network is not compiled";
        return NULL;
    }
    bool vectors = is_matrix(h, 3, dtype) && dim_is(n->cx, h->v->type->dims[1], 1);
    if (n->products == PRODUCTS_LIBRARY || (n->products == PRODUCTS_AUTO && vectors) || !r.layers ||
        r.layers * r.directions > MOST_LAYERS || pair != r.cell_state ||
        (dtype != DT_f32 && dtype != DT_f64) || !is_matrix(x, 3, dtype) ||
        !is_matrix(h, 3, dtype) ||
        (pair && (state->n != 2 || !is_matrix(&state->items[1], 3, dtype))) ||
        arg_at(n, 2)->kind != ARG_LIST || arg_at(n, 2)->n < 2 ||
        !is_matrix(&arg_at(n, 2)->items[1], 2, dtype)) {
        return NULL;
    }
    Value *c = pair ? state->items[1].v : NULL;
    r.projects = pair && h->v->type->dims[2] != c->type->dims[2];
    r.hidden = pair ? c->type->dims[2] : h->v->type->dims[2];
    bool known = dim_is_int(n->cx, x->v->type->dims[r.batch_first], &r.steps) && r.steps > 0;
    if (!known || r.steps * r.layers * r.directions > MOST_STEPS || !are_parameters(&r, dtype)) {
        return NULL;
    }
    return layers(&r, x->v, h->v, c);
}

Value *
torch_lstm(Aten *n)
{
    return recurrent(n, (Recurrence){.step = lstm_step, .cell_state = true});
}

Value *
torch_gru(Aten *n)
{
    return recurrent(n, (Recurrence){.step = gru_step});
}

Value *
torch_rnn_tanh(Aten *n)
{
    return recurrent(n, (Recurrence){.step = plain_step, .activation = OP_tanh});
}

Value *
torch_rnn_relu(Aten *n)
{
    return recurrent(n, (Recurrence){.step = plain_step, .activation = OP_maximum});
}
