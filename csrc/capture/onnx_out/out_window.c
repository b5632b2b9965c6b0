/* Convolutions: contractions of weights and of windows of an image, which is padded with zeros
 * and has its channels last, as the builders of aten.def write them. */
#include "out.h"

#include <string.h>

enum { MOST_AXES = 3, MOST_STEP = 4096 };

/* "mpqkli,nikl->mpqn" or, with groups, "mpqklbi,bnikl->mpqbn"; the result may have any order. */
typedef struct {
    Out *o;
    const Contraction *c;
    const Let *windows, *pad; /* pad NULL: nothing is added */
    const Type *image; /* padded */
    int naxes;
    bool grouped;
    char output; /* the letter of the channels that are made */
    int64_t steps[MOST_AXES], dilations[MOST_AXES], before[MOST_AXES], after[MOST_AXES];
} Conv;

static const Let *
made_by(const Value *v, Op op)
{
    return v->def && v->def->op == op ? v->def : NULL;
}

/* stride == step * unit */
static bool
step_of(Cx *cx, Dim stride, Dim unit, int64_t *step)
{
    int64_t s, u;
    if (dim_is_int(cx, stride, &s) && dim_is_int(cx, unit, &u)) {
        *step = u ? s / u : 0;
        return u > 0 && s % u == 0 && *step > 0 && *step <= MOST_STEP;
    }
    for (*step = 1; *step <= 16; ++*step) {
        if (dim_mul(cx, unit, dim_int(cx, *step)) == stride) {
            return true;
        }
    }
    return false;
}

/* Are the letters those of a convolution of n axes? */
static bool
has_letters(Conv *v)
{
    const Contraction *c = v->c;
    int n = v->naxes, g = v->grouped;
    bool ok = c->na == 2 * n + 2 + g && c->nb == n + 2 + g && c->nout == n + 2 + g;
    for (int k = 0; k <= n && ok; k++) { /* the batch and the places of the result */
        ok = letter_class(c, c->a[k]) == LETTER_OF_A;
    }
    for (int k = 0; k < n && ok; k++) { /* the places of the window */
        ok = c->sum[k] == c->a[n + 1 + k];
    }
    if (!ok || c->sum[n] != c->a[2 * n + 1 + g] ||
        (g && letter_class(c, c->a[2 * n + 1]) != LETTER_OF_BOTH)) {
        return false;
    }
    for (int k = 0; k < c->nout; k++) {
        v->output = letter_class(c, c->out[k]) == LETTER_OF_B ? c->out[k] : v->output;
    }
    return v->output;
}

/* Do the strides say so: of each axis a step and a dilation, and the channels are whole? */
static bool
has_windows(Conv *v)
{
    Cx *cx = v->o->cx;
    const Type *t = v->windows->res[0]->type;
    const Attr *strides = let_attr(v->windows, "strides");
    int n = v->naxes;
    Dim dense[MAX_RANK];
    type_dense(cx, v->image, dense);
    bool ok = dim_is(cx, let_dim(v->windows, "offset"), 0) &&
              v->image->rank == n + 2 + v->grouped && t->dims[0] == v->image->dims[0] &&
              strides->dims[0] == dense[0];
    for (int k = 0; k < n && ok; k++) {
        ok = step_of(cx, strides->dims[1 + k], dense[1 + k], &v->steps[k]) &&
             step_of(cx, strides->dims[1 + n + k], dense[1 + k], &v->dilations[k]);
    }
    for (int k = n + 1; k < v->image->rank && ok; k++) {
        ok = strides->dims[n + k] == dense[k] && t->dims[n + k] == v->image->dims[k];
    }
    return ok;
}

/* Zeros before and behind each axis, as many as the result takes. */
static bool
has_pads(Conv *v)
{
    Cx *cx = v->o->cx;
    const Type *t = v->windows->res[0]->type;
    const Attr *lo = v->pad ? let_attr(v->pad, "lo") : NULL;
    for (int k = 0; k < v->naxes; k++) {
        Dim size = v->pad ? v->pad->args[0]->type->dims[1 + k] : v->image->dims[1 + k];
        int64_t window;
        if ((lo && !dim_is_int(cx, lo->dims[1 + k], &v->before[k])) ||
            !dim_is_int(cx, t->dims[1 + v->naxes + k], &window) || window < 1) {
            return false;
        }
        Dim before = dim_int(cx, v->before[k]), one = dim_int(cx, 1),
            step = dim_int(cx, v->steps[k]);
        Dim reach = dim_int(cx, (window - 1) * v->dilations[k] + 1);
        Dim behind = dim_sub(cx, dim_sub(cx, v->image->dims[1 + k], size), before);
        Dim made = dim_add(cx, dim_div(cx, dim_sub(cx, v->image->dims[1 + k], reach), step), one);
        if (made != t->dims[1 + k]) { /* only as much of the image as the last window needs */
            Dim needed = dim_add(cx, dim_mul(cx, dim_sub(cx, t->dims[1 + k], one), step), reach);
            behind = dim_sub(cx, needed, dim_add(cx, size, before));
        }
        if (!dim_is_int(cx, behind, &v->after[k]) || v->after[k] < 0 || v->before[k] < 0) {
            return false;
        }
    }
    for (int k = v->naxes + 1; v->pad && k < v->image->rank; k++) {
        if (!dim_is(cx, lo->dims[k], 0) || v->pad->args[0]->type->dims[k] != v->image->dims[k]) {
            return false;
        }
    }
    return !v->pad ||
           (dim_is(cx, lo->dims[0], 0) && v->pad->args[0]->type->dims[0] == v->image->dims[0]);
}

/* A condition leaves out the terms of the padding, which is zero. */
static bool
within_padding(const Conv *v, const Within *w)
{
    const Contraction *c = v->c;
    int at = letter_axis(c->a, c->na, w->at), place = letter_axis(c->a, c->na, w->place);
    int axis = at - 1;
    return v->pad && axis >= 0 && axis < v->naxes && place == v->naxes + at &&
           w->step == v->steps[axis] && v->dilations[axis] == 1 && w->before == v->before[axis] &&
           within_size(v->o->cx, w, v->windows->res[0]->type->dims[at]) ==
               v->pad->args[0]->type->dims[1 + axis];
}

static bool
has_conditions(const Conv *v)
{
    const Where *w = &v->c->where;
    bool ok = !w->first.place || within_padding(v, &w->first);
    for (int k = 0; k < w->nlater && ok; k++) {
        ok = within_padding(v, &w->later[k]);
    }
    return ok;
}

static bool
is_zero(const Value *v)
{
    return !v->name && (v->literal.is_int ? v->literal.i == 0 : v->literal.f == 0);
}

/* From channels last to channels first, groups together. */
static int
image_of(Conv *v, Dtype dtype)
{
    Out *o = v->o;
    const Value *x = v->pad ? v->pad->args[0] : v->windows->args[0];
    const Type *t = x->type;
    int n = v->naxes, perm[MAX_RANK] = {0, n + 1};
    Dim dims[MAX_RANK];
    memcpy(dims, t->dims, (size_t)(n + 2) * sizeof *dims);
    dims[n + 1] = v->grouped ? dim_mul(o->cx, t->dims[n + 1], t->dims[n + 2]) : t->dims[n + 1];
    for (int k = 0; k < n; k++) {
        perm[2 + k] = 1 + k;
    }
    int made = out_reshaped(o, o->places[x->id].whole, n + 2, dims);
    return out_cast(o, out_transposed(o, made, perm), dtype);
}

/* [outputs, channels of a group, window] */
static int
weight_of(Conv *v, Dtype dtype)
{
    Out *o = v->o;
    const Contraction *c = v->c;
    const Type *t = o->let->args[1]->type;
    int n = v->naxes, g = v->grouped, perm[MAX_RANK], at = 0;
    Dim dims[MAX_RANK];
    if (g) {
        perm[at++] = letter_axis(c->b, c->nb, c->a[2 * n + 1]);
    }
    perm[at++] = letter_axis(c->b, c->nb, v->output);
    perm[at++] = letter_axis(c->b, c->nb, c->sum[n]);
    for (int k = 0; k < n; k++) {
        perm[at++] = letter_axis(c->b, c->nb, c->sum[k]);
    }
    dims[0] = g ? dim_mul(o->cx, t->dims[perm[0]], t->dims[perm[1]]) : t->dims[perm[0]];
    for (int k = 1; k < n + 2; k++) {
        dims[k] = t->dims[perm[k + g]];
    }
    int made = out_transposed(o, out_arg(o, 1), perm);
    return out_cast(o, out_reshaped(o, made, n + 2, dims), dtype);
}

static void
write_conv(Conv *v, Dtype dtype)
{
    Out *o = v->o;
    Cx *cx = o->cx;
    const Contraction *c = v->c;
    int n = v->naxes, g = v->grouped, in[] = {image_of(v, dtype), weight_of(v, dtype)};
    const Type *from = v->windows->res[0]->type, *w = out_type(o, in[1]);
    int64_t pads[2 * MOST_AXES], group = 1;
    Dim dims[MAX_RANK] = {from->dims[0], w->dims[0]}, parts[MAX_RANK] = {from->dims[0]};
    char letters[MAX_RANK] = {c->a[0]};
    int perm[MAX_RANK], at = 1;
    if (g) {
        dim_is_int(cx, from->dims[2 * n + 1], &group);
        parts[at] = from->dims[2 * n + 1];
        letters[at++] = c->a[2 * n + 1];
    }
    parts[at] = g ? dim_div(cx, w->dims[0], parts[1]) : w->dims[0];
    letters[at++] = v->output;
    for (int k = 0; k < n; k++) {
        pads[k] = v->before[k];
        pads[n + k] = v->after[k];
        dims[2 + k] = parts[at + k] = from->dims[1 + k];
        letters[at + k] = c->a[1 + k];
    }
    OutNode *node = out_any(o, "Conv", 2, in, 1);
    node->attrs[0] = out_int("group", group);
    node->attrs[1] = out_list(cx, "strides", n, v->steps);
    node->attrs[2] = out_list(cx, "dilations", n, v->dilations);
    node->attrs[3] = out_list(cx, "pads", 2 * n, pads);
    node->nattrs = 4;
    int made = out_new(o, node, 0, type_of(cx, dtype, n + 2, dims));
    for (int k = 0; k < c->nout; k++) {
        perm[k] = letter_axis(letters, c->nout, c->out[k]);
    }
    out_result(o, out_transposed(o, out_reshaped(o, made, c->nout, parts), perm));
}

bool
out_conv(Out *o, const Contraction *c, Dtype dtype)
{
    Conv v = {.o = o, .c = c, .windows = made_by(o->let->args[0], OP_as_strided)};
    int64_t group;
    if (!v.windows || dtype_info[dtype].class != CLASS_FLOAT) {
        return false;
    }
    const Value *image = v.windows->args[0];
    v.image = image->type;
    v.naxes = c->nsum - 1;
    v.grouped = c->na == 2 * v.naxes + 3;
    v.pad = made_by(image, OP_pad);
    v.pad = v.pad && is_zero(v.pad->args[1]) ? v.pad : NULL;
    if (v.naxes < 1 || v.naxes > MOST_AXES || !has_letters(&v) ||
        (v.grouped && !dim_is_int(o->cx, v.windows->res[0]->type->dims[2 * v.naxes + 1], &group)) ||
        !has_windows(&v) || !has_pads(&v) || !has_conditions(&v)) {
        return false;
    }
    write_conv(&v, dtype);
    return true;
}
