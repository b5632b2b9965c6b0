/* Codes: weights of products become integers of few bits with scales, if the user asks for it.
 *
 * What:     a frozen parameter that products read as their columns is replaced by a decode of its
 *           codes: arithmetic in the text, which prepare.c then cuts at the codes.  Formats:
 *           - int8: an i8 for each element, one f32 step for each column;
 *           - int4: two elements in a u8, the even term of the sum in the low bits.  Each group of
 *             COST_CODED terms of a column has a step in bf16, and in one of the two forms also a
 *             zero point; without one, the code 8 means 0.
 * Requires  a verified graph in canonical form.
 * Ensures   each product and each gather of rows reads w' = (code - zero) * step instead of w, in
 *           f32.  All else is as before.  A parameter that something else reads, too, stays, with
 *           the reason.
 * How:      a forward walk follows views and casts from parameters to products, and finds which
 *           axes of a parameter are summed and which are columns.  Then the function is rebuilt.
 *           The rows are cast to f32, so parameters in bf16 or f16 lose nothing in the decode.
 *           Codes have columns innermost, so that a vector decodes neighbours, except for those of
 *           a table, whose rows a gather reads.  O(lets).
 * Why not   a pass of the pipeline: as for prepare.c, the text does not say what is frozen.
 * Why not   an operator for such a product: the decode fuses and prints like all arithmetic.
 * Example:  contract x, w over="mk,nk->mn" becomes contract x, d, where d is
 *           mul (cast (cast (round (div w, step)) to i8) to f32), step.
 */
#include "weights.h"

#include <string.h>

enum { LEVELS = 15 }; /* the largest code of four bits */

/* ---- a weight as a matrix ---- */

/* The positions of the two axes in it: of the sum and of the columns, 0 and 1. */
typedef struct {
    Build *b;
    Cx *cx;
    WeightFormat format;
    int k, n;
    Dim terms, columns;
} Coder;

/* The values that replace a weight. */
typedef struct {
    Value *codes, *step, *zero; /* zero: NULL, if the format has none */
} Parts;

static Coder
coder_of(Build *b, const Value *root, const Weight *w, WeightFormat format)
{
    return (Coder){
        .b = b,
        .cx = build_cx(b),
        .format = format,
        .k = w->gathered,
        .n = !w->gathered,
        .terms = root->type->dims[w->sum],
        .columns = root->type->dims[w->columns],
    };
}

/* Axes of one element first, then the two of the matrix. */
static void
matrix_perm(const Coder *c, const Value *root, const Weight *w, int *perm)
{
    int n = 0;
    for (int ax = 0; ax < root->type->rank; ax++) {
        if (ax != w->sum && ax != w->columns) {
            perm[n++] = ax;
        }
    }
    perm[n + c->k] = w->sum;
    perm[n + c->n] = w->columns;
}

static Value *
to_matrix(const Coder *c, Value *v, const Value *root, const Weight *w)
{
    int perm[MAX_RANK];
    Dim dims[2];
    matrix_perm(c, root, w, perm);
    dims[c->k] = c->terms;
    dims[c->n] = c->columns;
    return build_reshape(c->b, build_permute(c->b, v, perm), 2, dims);
}

static Value *
from_matrix(const Coder *c, Value *v, const Value *root, const Weight *w)
{
    int perm[MAX_RANK], back[MAX_RANK], rank = root->type->rank;
    Dim dims[MAX_RANK];
    matrix_perm(c, root, w, perm);
    for (int k = 0; k < rank; k++) {
        dims[k] = root->type->dims[perm[k]];
        back[perm[k]] = k;
    }
    return build_permute(c->b, build_reshape(c->b, v, rank, dims), back);
}

/* ---- arithmetic ---- */

static Value *
map2(const Coder *c, Op op, Value *x, Value *y)
{
    return build_map(c->b, op, x, y, NULL);
}

static Value *
clamp(const Coder *c, Value *v, double least, double most)
{
    return map2(c, OP_minimum, map2(c, OP_maximum, v, build_float(c->b, least)),
                build_float(c->b, most));
}

/* The step, or 1 where it is 0: there all elements are. */
static Value *
positive(const Coder *c, Value *step)
{
    Value *none = map2(c, OP_eq, step, build_float(c->b, 0));
    return build_map(c->b, OP_where, none, build_float(c->b, 1), step);
}

/* A number of each column for all of its elements. */
static Value *
over_terms(const Coder *c, Value *v, const Type *matrix)
{
    return build_expand(c->b, v, 2, matrix->dims, &c->n);
}

static Dim
groups_of(const Coder *c)
{
    return dim_div(c->cx, dim_add(c->cx, c->terms, dim_int(c->cx, COST_CODED - 1)),
                   dim_int(c->cx, COST_CODED));
}

/* The sizes of a matrix with the axis of terms cut in two. */
static void
cut_dims(const Coder *c, Dim outer, int64_t inner, Dim columns, Dim *dims)
{
    dims[c->k] = outer;
    dims[c->k + 1] = dim_int(c->cx, inner);
    dims[c->n == 0 ? 0 : 2] = columns;
}

/* The matrix [terms, columns] in groups; elements behind the last term are 0. */
static Value *
in_groups(const Coder *c, Value *m)
{
    Dim dims[3], groups = groups_of(c), zero[2] = {dim_int(c->cx, 0), dim_int(c->cx, 0)};
    memcpy(dims, m->type->dims, 2 * sizeof *dims);
    dims[c->k] = dim_mul(c->cx, groups, dim_int(c->cx, COST_CODED));
    m = build_pad(c->b, m, build_float(c->b, 0), type_of(c->cx, DT_f32, 2, dims), zero);
    cut_dims(c, groups, COST_CODED, c->columns, dims);
    return build_reshape(c->b, m, 3, dims);
}

/* A number of each group for all of its elements: [groups, columns] to the shape of in_groups. */
static Value *
over_group(const Coder *c, Value *v, const Type *groups)
{
    return build_expand(c->b, v, 3, groups->dims, c->k == 0 ? (int[]){0, 2} : (int[]){0, 1});
}

/* ---- encode ---- */

static Parts
encode_int8(const Coder *c, Value *m)
{
    const Type *t = m->type;
    Value *most = build_red(c->b, OP_amax, build_map(c->b, OP_abs, m, NULL, NULL), 1, &c->k);
    Value *step = positive(c, map2(c, OP_mul, most, build_float(c->b, 1.0 / 127)));
    Value *q = map2(c, OP_div, m, over_terms(c, step, t));
    q = clamp(c, build_map(c->b, OP_round, q, NULL, NULL), -127, 127);
    return (Parts){.codes = build_cast(c->b, q, DT_i8), .step = step};
}

/* Packs two codes of four bits into each byte. */
static Value *
pairs(const Coder *c, Value *codes, const Type *groups)
{
    Dim one = dim_int(c->cx, 1), two = dim_int(c->cx, 2), dims[2],
        half = dim_div(c->cx, dim_add(c->cx, c->terms, one), two);
    dims[c->k] = dim_mul(c->cx, groups->dims[c->k], groups->dims[c->k + 1]);
    dims[c->n] = c->columns;
    return pairs_make(c->b, build_reshape(c->b, build_cast(c->b, codes, DT_u8), 2, dims), c->k,
                      half);
}

static Parts
encode_int4(const Coder *c, Value *m)
{
    Build *b = c->b;
    Value *g = in_groups(c, m), *none = build_float(b, 0), *step, *zero = NULL;
    int inner = c->k + 1;
    Value *least = map2(c, OP_minimum, build_red(b, OP_amin, g, 1, &inner), none);
    Value *most = map2(c, OP_maximum, build_red(b, OP_amax, g, 1, &inner), none);
    if (c->format == WEIGHT_INT4_ZERO) {
        step = map2(c, OP_mul, map2(c, OP_sub, most, least), build_float(b, 1.0 / LEVELS));
    } else { /* the element that is farthest from 0 gets the code 0, which means -8 steps */
        Value *larger = map2(c, OP_gt, most, build_map(b, OP_neg, least, NULL, NULL));
        step = map2(c, OP_mul, build_map(b, OP_where, larger, most, least),
                    build_float(b, -1.0 / 8));
    }
    Value *kept = build_cast(b, positive(c, build_cast(b, build_cast(b, step, DT_bf16), DT_f32)),
                             DT_bf16);
    step = build_cast(b, kept, DT_f32);
    Value *q = build_map(b, OP_round, map2(c, OP_div, g, over_group(c, step, g->type)), NULL, NULL);
    if (c->format == WEIGHT_INT4_ZERO) {
        Value *below = map2(c, OP_div, build_map(b, OP_neg, least, NULL, NULL), step);
        Value *z = clamp(c, build_map(b, OP_round, below, NULL, NULL), 0, LEVELS);
        q = map2(c, OP_add, q, over_group(c, z, g->type));
        zero = build_cast(b, z, DT_u8);
    } else {
        q = map2(c, OP_add, q, build_float(b, 8));
    }
    return (Parts){.codes = pairs(c, clamp(c, q, 0, LEVELS), g->type), .step = kept, .zero = zero};
}

static Parts
encode(const Coder *c, Value *m)
{
    return c->format == WEIGHT_INT8 ? encode_int8(c, m) : encode_int4(c, m);
}

/* ---- decode ---- */

/* Drops the terms that only filled the last group. */
static Value *
first_terms(const Coder *c, Value *v)
{
    return build_slice(c->b, v, c->k, dim_int(c->cx, 0), dim_int(c->cx, 1), c->terms);
}

/* A number of each group, cast to f32, for each term. */
static Value *
of_terms(const Coder *c, Value *v, Dim columns)
{
    Dim dims[3], merged[2];
    cut_dims(c, v->type->dims[c->k], COST_CODED, columns, dims);
    v = build_cast(c->b, v, DT_f32);
    v = over_group(c, v, type_of(c->cx, DT_f32, 3, dims));
    merged[c->k] = dim_mul(c->cx, dims[c->k], dims[c->k + 1]);
    merged[c->n] = columns;
    return first_terms(c, build_reshape(c->b, v, 2, merged));
}

/* The matrix that the parts stand for; it has so many columns. */
static Value *
decode(const Coder *c, const Parts *p, Dim columns)
{
    Build *b = c->b;
    if (c->format == WEIGHT_INT8) {
        Value *codes = build_cast(b, p->codes, DT_f32);
        return map2(c, OP_mul, codes, over_terms(c, p->step, codes->type));
    }
    Value *codes = build_cast(b, first_terms(c, pairs_read(b, p->codes, c->k)), DT_f32);
    Value *zero = p->zero ? of_terms(c, p->zero, columns) : build_float(b, 8);
    return map2(c, OP_mul, map2(c, OP_sub, codes, zero), of_terms(c, p->step, columns));
}

/* The rows of a table at the positions, from the codes of these rows. */
static Value *
decode_rows(const Coder *c, const Parts *p, const Let *gather, Value *index)
{
    Build *b = c->b;
    Dim n = type_numel(c->cx, index->type);
    int wrap = (int)let_int(gather, "wrap");
    index = build_reshape(b, index, 1, &n);
    Parts rows = {
        .codes = build_gather(b, p->codes, index, 0, wrap),
        .step = build_gather(b, p->step, index, 0, wrap),
        .zero = p->zero ? build_gather(b, p->zero, index, 0, wrap) : NULL,
    };
    const Type *t = gather->res[0]->type;
    return build_reshape(b, decode(c, &rows, n), t->rank, t->dims);
}

/* ---- the functions ---- */

/* The parameter alone, as another function has it, cast to f32. */
static Value *
only_param(Fn *fn, Build *b, const Value *v)
{
    return build_cast(b, fn_param(fn, "w", v->type, v->strides), DT_f32);
}

static Value *
ratio(const Coder *c, Value *noise, Value *signal)
{
    Value *none = map2(c, OP_eq, signal, build_float(c->b, 0));
    return build_map(c->b, OP_where, none, build_float(c->b, 0), map2(c, OP_div, noise, signal));
}

/* Returns the sum of squares along the terms. */
static Value *
power(const Coder *c, Value *v)
{
    return build_red(c->b, OP_sum, map2(c, OP_mul, v, v), 1, &c->k);
}

Fn *
weights_measure(const Fn *fn, const Weight *w, WeightFormat format)
{
    const Value *root = fn->params[w->param];
    Fn *made = fn_new(fn->cx, "measure", STAGE_GRAPH);
    Build *b = build_new(made);
    Coder c = coder_of(b, root, w, format);
    Value *m = to_matrix(&c, only_param(made, b, root), root, w);
    Parts parts = encode(&c, m);
    Value *wide = build_cast(b, m, DT_f64);
    Value *noise = map2(&c, OP_sub, build_cast(b, decode(&c, &parts, c.columns), DT_f64), wide);
    Value *each = ratio(&c, power(&c, noise), power(&c, wide));
    Value *all = build_red(b, OP_sum, each, 1, (int[]){0});
    int64_t columns = 1;
    dim_is_int(fn->cx, c.columns, &columns);
    all = map2(&c, OP_div, all, build_float(b, (double)columns));
    fn_results(made, 1, &all, NULL);
    return made;
}

typedef struct {
    const Fn *fn;
    Finder find;
    Build *b;
    Value **map, **wide; /* by Value.id in the old function; wide: in f32, of codes */
    Parts *parts; /* by weight */
} Coding;

/* Is it made of a parameter that becomes codes? */
static const Weight *
coded(const Coding *s, const Value *v)
{
    const Weight *w = weight_of(&s->find, v);
    return w && w->format != WEIGHT_FLOAT ? w : NULL;
}

static const Value *
root_of(const Coding *s, const Weight *w)
{
    return s->fn->params[w->param];
}

static const Parts *
parts_of(Coding *s, const Coder *c, const Weight *w)
{
    Parts *p = &s->parts[w - s->find.weights];
    const Value *root = root_of(s, w);
    if (!p->codes) {
        *p = encode(c, to_matrix(c, build_cast(s->b, s->map[root->id], DT_f32), root, w));
    }
    return p;
}

/* v, a parameter or a view of one, decoded. */
static Value *
decoded(Coding *s, const Value *v)
{
    Value **wide = &s->wide[v->id];
    if (*wide) {
        return *wide;
    }
    Build *b = s->b;
    if (!v->def) {
        const Weight *w = coded(s, v);
        Coder c = coder_of(b, v, w, w->format);
        const Parts *p = parts_of(s, &c, w);
        return *wide = from_matrix(&c, decode(&c, p, c.columns), v, w);
    }
    const Let *let = v->def;
    const Type *t = v->type;
    Value *of = decoded(s, let->args[0]);
    switch (let->op) {
    case OP_permute:
        *wide = build_permute(b, of, let_attr(let, "perm")->axes);
        break;
    case OP_expand:
        *wide = build_expand(b, of, t->rank, t->dims, let_attr(let, "to")->axes);
        break;
    case OP_reshape:
        *wide = build_reshape(b, of, t->rank, t->dims);
        break;
    case OP_slice: {
        int axis = (int)let_int(let, "axis");
        *wide = build_slice(b, of, axis, let_dim(let, "start"), let_dim(let, "step"),
                            t->dims[axis]);
        break;
    }
    default:
        *wide = of; /* a cast */
    }
    return *wide;
}

static void
code_product(Coding *s, const Let *let)
{
    Value *of[2];
    for (int j = 0; j < 2; j++) {
        const Value *v = let->args[j];
        of[j] = coded(s, v)         ? decoded(s, v)
                : value_is_const(v) ? let->args[j]
                                    : build_cast(s->b, s->map[v->id], DT_f32);
    }
    Value *v = build_contract(s->b, of[0], of[1], let_contraction(let), DT_f32);
    s->map[let->res[0]->id] = build_cast(s->b, v, let->res[0]->type->dtype);
}

static void
code_gather(Coding *s, const Let *let)
{
    const Weight *w = coded(s, let->args[0]);
    Coder c = coder_of(s->b, root_of(s, w), w, w->format);
    const Parts *p = parts_of(s, &c, w);
    Value *v = decode_rows(&c, p, let, s->map[let->args[1]->id]);
    s->map[let->res[0]->id] = build_cast(s->b, v, let->res[0]->type->dtype);
}

static void
code_let(Coding *s, const Let *let)
{
    bool any = false;
    for (int j = 0; j < let->nargs; j++) {
        any |= coded(s, let->args[j]) != NULL;
    }
    build_at(s->b, let->loc);
    if (any && let->op == OP_contract) {
        code_product(s, let);
    } else if (any && let->op == OP_gather) {
        code_gather(s, let);
    } else if (!any) {
        build_again(s->b, let, s->map);
        rebuild_strides(let, s->map);
    }
}

Fn *
weights_code(const Fn *fn, int n, Weight *weights, int64_t *fuel)
{
    Coding s = {.fn = fn};
    bool any = false;
    for (int k = 0; k < n; k++) {
        bool wanted = weights[k].format != WEIGHT_FLOAT && *fuel != 0;
        weights[k].format = wanted ? weights[k].format : WEIGHT_FLOAT;
        *fuel -= wanted && *fuel > 0;
        any |= wanted;
    }
    if (!any) {
        return (Fn *)fn;
    }
    s.find = weights_again(fn, n, weights);
    Fn *out = rebuild_open(fn, STAGE_GRAPH, &s.map);
    s.b = build_new(out);
    s.wide = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *s.wide);
    s.parts = cx_alloc(fn->cx, ((size_t)n + 1) * sizeof *s.parts);
    for (int k = 0; k < fn->body->n; k++) {
        code_let(&s, fn->body->lets[k]);
    }
    return rebuild_close(fn, out, s.map);
}

/* ---- what codes do to the products ---- */

/* Returns the sum of the squares of all elements, in float64. */
static Value *
whole_power(Build *b, Value *v)
{
    int axes[MAX_RANK];
    for (int k = 0; k < MAX_RANK; k++) {
        axes[k] = k;
    }
    v = build_cast(b, v, DT_f64);
    return build_red(b, OP_sum, build_map(b, OP_mul, v, v, NULL), v->type->rank, axes);
}

static void
add_power(Build *b, Value **to, Value *v)
{
    v = whole_power(b, v);
    *to = *to ? build_map(b, OP_add, *to, v, NULL) : v;
}

/* What the errors of the codes add to the result of the product. */
static Value *
product_noise(Coding *s, const Let *let, int j)
{
    Value *of[2];
    for (int k = 0; k < 2; k++) {
        const Value *v = let->args[k];
        of[k] = value_is_const(v) ? let->args[k] : build_cast(s->b, s->map[v->id], DT_f32);
    }
    of[j] = build_map(s->b, OP_sub, decoded(s, let->args[j]), of[j], NULL);
    return build_contract(s->b, of[0], of[1], let_contraction(let), DT_f32);
}

/* What rounding its rows to so many digits adds to the result of the product. */
static Value *
rows_noise(Coding *s, const Let *let, int j, int digits)
{
    const Contraction *c = let_contraction(let);
    const char *mine = j ? c->a : c->b;
    Value *of[2];
    int sums[MAX_RANK], n = j ? c->na : c->nb;
    for (int k = 0; k < 2; k++) {
        const Value *v = let->args[k];
        of[k] = value_is_const(v) ? let->args[k] : build_cast(s->b, s->map[v->id], DT_f32);
    }
    for (int k = 0; k < c->nsum; k++) {
        sums[k] = letter_axis(mine, n, c->sum[k]);
    }
    Value *x = of[1 - j];
    if (value_is_const(x)) {
        return build_contract(s->b, of[0], of[1], c, DT_f32);
    }
    of[1 - j] = build_map(s->b, OP_sub, digits_rounded(s->b, x, digits, c->nsum, sums), x, NULL);
    return build_contract(s->b, of[0], of[1], c, DT_f32);
}

/* A Coding for each format; all build into one function. */
static void
profile_product(Coding *formats, const Let *let, Value *(*powers)[WEIGHT_POWERS])
{
    for (int j = 0; j < 2; j++) {
        const Weight *w = coded(&formats[WEIGHT_INT8], let->args[j]);
        if (!w) {
            continue;
        }
        Value **to = powers[w - formats[WEIGHT_INT8].find.weights];
        add_power(formats->b, &to[0], formats->map[let->res[0]->id]);
        for (int f = WEIGHT_INT8; f < WEIGHT_FORMATS; f++) {
            add_power(formats->b, &to[f], product_noise(&formats[f], let, j));
        }
        for (int k = 0; k < WEIGHT_POWERS - WEIGHT_ROWS; k++) {
            add_power(formats->b, &to[WEIGHT_ROWS + k], rows_noise(formats, let, j, k + 1));
        }
    }
}

static Coding
profile_coding(const Fn *fn, int n, Weight *weights, int format)
{
    Coding s = {.fn = fn};
    for (int k = 0; k < n; k++) {
        weights[k].format = weights[k].why ? WEIGHT_FLOAT : (WeightFormat)format;
    }
    s.find = weights_again(fn, n, weights);
    s.wide = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *s.wide);
    s.parts = cx_alloc(fn->cx, ((size_t)n + 1) * sizeof *s.parts);
    return s;
}

Fn *
weights_profile(const Fn *fn, int n, Weight *weights)
{
    Coding formats[WEIGHT_FORMATS];
    int nrets = fn->body->nrets;
    size_t room = (size_t)nrets + (size_t)n * WEIGHT_POWERS + 1;
    Value *(*powers)[WEIGHT_POWERS] = cx_alloc(fn->cx, ((size_t)n + 1) * sizeof *powers),
          **rets = cx_alloc(fn->cx, room * sizeof *rets), **map;
    Result *results = cx_alloc(fn->cx, room * sizeof *results);
    Fn *out = rebuild_open(fn, STAGE_GRAPH, &map);
    Build *b = build_new(out);
    for (int f = 0; f < WEIGHT_FORMATS; f++) {
        formats[f] = profile_coding(fn, n, weights, f);
        formats[f].b = b;
        formats[f].map = map;
    }
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        build_again(b, let, map);
        rebuild_strides(let, map);
        if (let->op == OP_contract) {
            profile_product(formats, let, powers);
        }
    }
    for (int k = 0; k < nrets; k++) {
        rets[k] = map[fn->body->rets[k]->id];
        results[k] = fn->results[k];
    }
    for (int k = 0; k < formats[WEIGHT_INT8].find.n; k++) {
        for (int f = 0; f < WEIGHT_POWERS; f++) {
            results[nrets].kind = RESULT_FRESH;
            rets[nrets++] = powers[k][f];
        }
    }
    for (int k = 0; k < n; k++) {
        weights[k].format = WEIGHT_FLOAT;
    }
    fn_results(out, nrets, rets, results);
    return out;
}

int64_t
weight_bytes(const Fn *fn, const Weight *w, WeightFormat format)
{
    const Value *root = fn->params[w->param];
    int64_t n = 1, k = 1;
    if (format == WEIGHT_FLOAT) {
        return type_typical_bytes(fn->cx, root->type);
    }
    dim_is_int(fn->cx, root->type->dims[w->columns], &n);
    dim_is_int(fn->cx, root->type->dims[w->sum], &k);
    int64_t groups = (k + COST_CODED - 1) / COST_CODED;
    return format == WEIGHT_INT8
               ? n * k + 4 * n
               : n * ((k + 1) / 2) + (format == WEIGHT_INT4_ZERO ? 3 : 2) * n * groups;
}
