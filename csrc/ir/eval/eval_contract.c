/* A contraction, element by element: ops.def has its order. */
#include "eval.h"

#include <math.h>

/* The letters that are kept or summed, with the steps of both operands along them. */
typedef struct {
    int n;
    int64_t sizes[MAX_RANK], a[MAX_RANK], b[MAX_RANK];
} Steps;

static int64_t
step_of(const Tensor *t, const char *letters, char letter)
{
    int axis = letter_axis(letters, t->rank, letter);
    return axis < 0 ? 0 : t->strides[axis];
}

static Steps
steps_over(const Contraction *c, const char *letters, int n, const Tensor *a, const Tensor *b)
{
    Steps s = {.n = n};
    for (int k = 0; k < n; k++) {
        int axis = letter_axis(c->a, c->na, letters[k]);
        s.sizes[k] = axis >= 0 ? a->sizes[axis] : b->sizes[letter_axis(c->b, c->nb, letters[k])];
        s.a[k] = step_of(a, c->a, letters[k]);
        s.b[k] = step_of(b, c->b, letters[k]);
    }
    return s;
}

/* The elements of both operands at the place of this number in row-major order, from those
 * given. */
static void
place(const Steps *s, int64_t number, int64_t *a, int64_t *b)
{
    for (int k = s->n - 1; k >= 0; k--) {
        *a += number % s->sizes[k] * s->a[k];
        *b += number % s->sizes[k] * s->b[k];
        number /= s->sizes[k];
    }
}

static int64_t
count(const Steps *s)
{
    int64_t n = 1;
    for (int k = 0; k < s->n; k++) {
        n *= s->sizes[k];
    }
    return n;
}

Elem
eval_multiply_add(Dtype wide, Elem x, Elem y, Elem sum)
{
    switch (wide) {
    case DT_f32:
        return (Elem){.f = fmaf(x.f, y.f, sum.f)};
    case DT_f64:
        return (Elem){.d = fma(x.d, y.d, sum.d)};
    case DT_i64:
        return (Elem){.l = x.l * y.l + sum.l};
    default:
        return (Elem){.i = x.i * y.i + sum.i};
    }
}

/* The terms number `from` to `to` in one chain. */
static Elem
chain(const Steps *sums, const Tensor *a, const Tensor *b, const int64_t *at, int64_t from,
      int64_t to)
{
    Dtype wide = dtype_info[a->dtype].compute;
    int64_t bytes = dtype_info[a->dtype].bytes;
    Elem sum = {0};
    for (int64_t k = from; k < to; k++) {
        int64_t i = at[0], j = at[1];
        place(sums, k, &i, &j);
        sum = eval_multiply_add(wide, elem_load(a->dtype, (const char *)a->data + i * bytes),
                                elem_load(b->dtype, (const char *)b->data + j * bytes), sum);
    }
    return sum;
}

/* The index of an axis of the element number k of a tensor. */
static int64_t
index_of(const Tensor *t, int axis, int64_t k)
{
    for (int ax = t->rank - 1; ax > axis; ax--) {
        k /= t->sizes[ax];
    }
    return k % t->sizes[axis];
}

/* The axis of the result whose index says which terms are summed. */
static int
axis_of_condition(const Contraction *c, const Within *w)
{
    return letter_axis(c->out, c->nout, w->at);
}

/* Returns the size with which the condition compares. */
static int64_t
size_of(const Contraction *c, const Within *w, const Tensor *out)
{
    return w->times * out->sizes[axis_of_condition(c, w)] + w->size;
}

/* Does the condition of a later letter exclude the chain that begins with this term (`number`) from
 * element k of the result? */
static bool
is_left_out(const Contraction *c, const Steps *sums, const Tensor *out, int64_t k, int64_t number)
{
    bool left_out = false;
    for (int j = 0; j < c->where.nlater; j++) {
        const Within *w = &c->where.later[j];
        int axis = letter_axis(c->sum, c->nsum, w->place);
        int64_t at = w->step * index_of(out, axis_of_condition(c, w), k), behind = 1;
        for (int ax = axis + 1; ax < sums->n; ax++) {
            behind *= sums->sizes[ax];
        }
        at += number / behind % sums->sizes[axis] - w->before;
        left_out |= at < 0 || at >= size_of(c, w, out);
    }
    return left_out;
}

/* Element number k of a contraction, whose operands begin at `at`.  Its terms have the numbers
 * `first` to `n`. */
static Elem
element(const Contraction *c, const Steps *sums, const Tensor *const operands[3], int64_t k,
        const int64_t *at, int64_t first, int64_t n)
{
    const Tensor *out = operands[0], *a = operands[1], *b = operands[2];
    Dtype wide = dtype_info[a->dtype].compute;
    Elem total = {0};
    bool any = false;
    for (int64_t from = first, end; from < n; from = end) {
        end = n - from < CONTRACTION_CHAIN ? n : from + CONTRACTION_CHAIN;
        if (is_left_out(c, sums, out, k, from)) {
            continue;
        }
        Elem sum = chain(sums, a, b, at, from, end);
        if (any) {
            eval_map(OP_add, wide, wide, &total, &sum, NULL, &total);
        } else {
            total = sum;
        }
        any = true;
    }
    return total;
}

/* The numbers of the terms that element number k sums. */
static void
terms_of(const Contraction *c, const Steps *sums, const Tensor *out, int64_t k, int64_t *first,
         int64_t *n)
{
    const Within *w = &c->where.first;
    *first = 0;
    *n = count(sums);
    if (w->place && *n) {
        int64_t each = *n / sums->sizes[0], begin = -1, end = 0;
        int64_t at = w->step * index_of(out, axis_of_condition(c, w), k), size = size_of(c, w, out);
        for (int64_t p = 0; p < sums->sizes[0]; p++) {
            int64_t place = at + p - w->before;
            if (place >= 0 && place < size) {
                begin = begin < 0 ? p : begin;
                end = p + 1;
            }
        }
        *first = begin < 0 ? 0 : begin * each;
        *n = end * each;
    }
}

void
eval_contract(Eval *e, const Let *let)
{
    const Tensor *out = eval_make(e, let->res[0]);
    const Tensor *a = eval_value(e, let->args[0]), *b = eval_value(e, let->args[1]);
    const Tensor *operands[] = {out, a, b};
    const Contraction *c = let_contraction(let);
    Steps kept = steps_over(c, c->out, c->nout, a, b), sums = steps_over(c, c->sum, c->nsum, a, b);
    int64_t n = tensor_numel(out), bytes = dtype_info[out->dtype].bytes;
    for (int64_t k = 0; k < n; k++) {
        int64_t at[2] = {0, 0}, first, end;
        place(&kept, k, &at[0], &at[1]);
        terms_of(c, &sums, out, k, &first, &end);
        elem_store(out->dtype, element(c, &sums, operands, k, at, first, end),
                   (char *)out->data + k * bytes);
    }
}
