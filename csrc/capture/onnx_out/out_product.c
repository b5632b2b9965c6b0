/* Contractions as MatMul, between transposes and reshapes that cost nothing where the letters
 * are in order. */
#include "out.h"

typedef struct {
    Out *o;
    const Contraction *c;
    const Type *a, *b;
    char batch[MAX_RANK], left[MAX_RANK], right[MAX_RANK];
    int nbatch, nleft, nright;
} Product;

static void
read_letters(Product *p)
{
    const Contraction *c = p->c;
    for (int k = 0; k < c->nout; k++) {
        switch (letter_class(c, c->out[k])) {
        case LETTER_OF_BOTH:
            p->batch[p->nbatch++] = c->out[k];
            break;
        case LETTER_OF_A:
            p->left[p->nleft++] = c->out[k];
            break;
        default:
            p->right[p->nright++] = c->out[k];
        }
    }
}

static Dim
product_of(Product *p, int n, const char *letters)
{
    Dim d = dim_int(p->o->cx, 1);
    for (int k = 0; k < n; k++) {
        d = dim_mul(p->o->cx, d, letter_dim(p->c, p->a, p->b, letters[k]));
    }
    return d;
}

static int
sizes_of(Product *p, int n, const char *letters, Dim *dims)
{
    for (int k = 0; k < n; k++) {
        dims[k] = letter_dim(p->c, p->a, p->b, letters[k]);
    }
    return n;
}

/* An operand with its axes in the order of these letters. */
static int
in_order(Product *p, int number, const char *of, int n, const char *letters)
{
    int perm[MAX_RANK];
    for (int k = 0; k < n; k++) {
        perm[k] = letter_axis(of, n, letters[k]);
    }
    return out_transposed(p->o, number, perm);
}

static int
joined(int n, const char *letters, char *all, int at)
{
    for (int k = 0; k < n; k++) {
        all[at + k] = letters[k];
    }
    return at + n;
}

static int
multiplied(Product *p, int a, int b, Dtype dtype)
{
    Out *o = p->o;
    const Contraction *c = p->c;
    char of_a[3 * MAX_RANK], of_b[3 * MAX_RANK], of_out[3 * MAX_RANK];
    joined(c->nsum, c->sum, of_a,
           joined(p->nleft, p->left, of_a, joined(p->nbatch, p->batch, of_a, 0)));
    joined(p->nright, p->right, of_b,
           joined(c->nsum, c->sum, of_b, joined(p->nbatch, p->batch, of_b, 0)));
    joined(p->nright, p->right, of_out,
           joined(p->nleft, p->left, of_out, joined(p->nbatch, p->batch, of_out, 0)));
    Dim dims[MAX_RANK + 2];
    int n = sizes_of(p, p->nbatch, p->batch, dims);
    int left = p->nbatch ? 1 : p->nleft; /* without a batch, MatMul takes all axes of the rows */
    if (p->nbatch || !p->nleft) {
        left = 1;
        dims[n] = product_of(p, p->nleft, p->left);
    } else {
        sizes_of(p, p->nleft, p->left, dims);
    }
    dims[n + left] = product_of(p, c->nsum, c->sum);
    a = out_reshaped(o, in_order(p, a, c->a, c->na, of_a), n + left + 1, dims);
    Dim others[MAX_RANK + 2];
    sizes_of(p, p->nbatch, p->batch, others);
    others[n] = dims[n + left];
    others[n + 1] = dims[n + left + 1] = product_of(p, p->nright, p->right);
    b = out_reshaped(o, in_order(p, b, c->b, c->nb, of_b), n + 2, others);
    dims[n + left] = others[n + 1];
    int made = out2(o, "MatMul", type_of(o->cx, dtype, n + left + 1, dims), a, b);
    sizes_of(p, c->nout, of_out, dims);
    made = out_reshaped(o, made, c->nout, dims);
    int perm[MAX_RANK];
    for (int k = 0; k < c->nout; k++) {
        perm[k] = letter_axis(of_out, c->nout, c->out[k]);
    }
    return out_transposed(o, made, perm);
}

void
out_contract(Out *o)
{
    Product p = {.o = o,
                 .c = let_contraction(o->let),
                 .a = o->let->args[0]->type,
                 .b = o->let->args[1]->type};
    Dtype dtype = out_computed(o, p.a->dtype);
    if (out_conv(o, p.c, dtype)) {
        return;
    }
    if (p.c->where.first.place) {
        out_refuse(o,
                   "ONNX has no sums of the terms where a condition holds, but for convolutions");
    }
    read_letters(&p);
    int a = out_cast(o, out_arg(o, 0), dtype), b = out_cast(o, out_arg(o, 1), dtype);
    out_result(o, multiplied(&p, a, b, dtype));
}
