/* Digits: products of floats with codes of eight bits become products of integers.
 *
 * What:     contract x, d of floats, where d = (cast q) * s and q is i8, becomes contract of x's
 *           digits and q in i32.  A row of x becomes integers of 8, 16 or 32 bits, which are one,
 *           two or four digits, by a factor of its own; what is summed of them is multiplied by the
 *           factor's inverse and by s.
 * Requires  a verified graph in canonical form, and that the user wants rows as integers: these
 *           passes are not in the pipeline (option `activations`);
 * and ensures: the products of the digits are exact.  A row that is all zeros stays so, one with
 *           NaN becomes NaN, and one with infinities has what the product of floats has.
 * How:      s must not go along the summed axes, so it can be multiplied afterwards.  The digits
 *           are a letter of the contraction: each panel of codes is read once for all of them.
 *           Sums of so many terms do not overflow.
 *           Four digits are as exact as float32 for every row: what rounding takes of all terms is
 *           less than float32 rounds off once the largest of them is added.  Rows of tiny and of
 *           huge numbers are multiplied by a power of two before, and by its inverse after: half of
 *           it before s and half after, so that no number between overflows or loses bits.
 *           A branch computes the product of floats if a row has an infinity.  No sum of integers
 *           says which signs its terms have, and a 0 among the codes makes NaN.
 * Why not   the product of floats in all calls, and a `where`: it takes longer than the digits.
 * Why not   three digits, with a factor for each 256 terms: with one factor, an outlier takes the
 *           digits of its row; and sums of all groups, in memory, take longer than a fourth digit.
 * Why not   by itself: four digits are faster than floats for a few rows, and slower for many, and
 *           one row has the same bits alone and among others.
 * Example:  let y: f32[M, N] = contract x, d over="mk,nk->mn" becomes
 *           let q: i8[M, K] = .. round(x * (127 / amax(abs x)))
 *           let t: i32[M, N] = contract q, codes over="mk,nk->mn"
 *           and y = (cast t) * (amax / 127) * s. */
#include "fusion/group.h"

#include <math.h>
#include <string.h>

enum { MOST_TERMS = 1 << 16, MOST_DIGITS = 4, DIGIT = 256 };

/* A decode: codes, and the scale by which they are multiplied, or NULL.  `to`: the axis of the
 * codes, for each of the scale. */
typedef struct {
    const Value *codes, *scale;
    int to[MAX_RANK];
} Decode;

/* ---- what is decoded ---- */

static const Let *
def_of(const Value *v, Op op)
{
    return !value_is_const(v) && v->def && v->def->op == op ? v->def : NULL;
}

/* The codes that are cast to v, or NULL. */
static const Value *
codes_of(const Value *v)
{
    const Let *cast = def_of(v, OP_cast);
    const Value *codes = cast && v->type->dtype == DT_f32 ? cast->args[0] : NULL;
    return codes && !value_is_const(codes) && codes->type->dtype == DT_i8 ? codes : NULL;
}

/* Is v a value for some axes, expanded?  A constant is one for none. */
static bool
take_scale(Decode *d, const Value *v)
{
    const Let *expand = def_of(v, OP_expand);
    if (value_is_const(v)) {
        d->scale = v;
        return true;
    }
    if (!expand || value_is_const(expand->args[0])) {
        return false;
    }
    d->scale = expand->args[0];
    const Attr *to = let_attr(expand, "to");
    for (int k = 0; k < d->scale->type->rank; k++) {
        d->to[k] = to->axes[k];
    }
    return true;
}

static bool
find_decode(const Value *v, Decode *d)
{
    const Let *mul = def_of(v, OP_mul);
    *d = (Decode){.codes = codes_of(v)};
    for (int k = 0; mul && k < 2 && !d->codes; k++) {
        const Value *codes = codes_of(mul->args[k]);
        d->codes = codes && take_scale(d, mul->args[1 - k]) ? codes : NULL;
    }
    return d->codes != NULL;
}

/* Has the scale no axis that is summed? */
static bool
is_scaled_afterwards(const Contraction *c, const char *mine, const Decode *d)
{
    int rank = d->scale && !value_is_const(d->scale) ? d->scale->type->rank : 0;
    bool good = true;
    for (int k = 0; k < rank; k++) {
        good &= letter_axis(c->out, c->nout, mine[d->to[k]]) >= 0;
    }
    return good;
}

/* Does the let multiply floats by codes?  *j: which operand has them. */
static bool
find_product(Cx *cx, const Let *let, int *j, Decode *d)
{
    if (let->op != OP_contract || let->res[0]->type->dtype != DT_f32) {
        return false;
    }
    const Contraction *c = let_contraction(let);
    double terms = 1;
    for (int k = 0; k < c->nsum; k++) {
        Dim extent = letter_dim(c, let->args[0]->type, let->args[1]->type, c->sum[k]);
        terms *= (double)dim_range(cx, extent).hi;
    }
    bool rooms = c->na < MAX_RANK && c->nb < MAX_RANK && c->nout < MAX_RANK;
    for (*j = 0; *j < 2; ++*j) {
        const Value *x = let->args[1 - *j];
        Decode other;
        if (!value_is_const(x) && x->type->dtype == DT_f32 && !find_decode(x, &other) &&
            find_decode(let->args[*j], d) && is_scaled_afterwards(c, *j ? c->b : c->a, d)) {
            return rooms && !c->where.first.place && !c->where.nlater && c->nsum &&
                   terms <= MOST_TERMS;
        }
    }
    return false;
}

/* ---- what is computed instead ---- */

typedef struct {
    Build *b;
    Cx *cx;
    int digits;
} Digits;

static Value *
map1(const Digits *d, Op op, Value *a)
{
    return build_map(d->b, op, a, NULL, NULL);
}

static Value *
map2(const Digits *d, Op op, Value *a, Value *b)
{
    return build_map(d->b, op, a, b, NULL);
}

/* Of a value that has the axes of t without those that are summed. */
static Value *
over_sums(const Digits *d, Value *v, const Type *t, int nsums, const int *sums)
{
    int to[MAX_RANK], n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        bool summed = false;
        for (int k = 0; k < nsums; k++) {
            summed |= sums[k] == ax;
        }
        if (!summed) {
            to[n++] = ax;
        }
    }
    return build_expand(d->b, v, t->rank, t->dims, to);
}

/* What is known of each row. */
typedef struct {
    Value *largest;             /* the absolute value */
    Value *half; /* the root of a power of two by which the row is divided first */
    Value *unit; /* the inverse of that power */
    Value *factor;
} Rows;

/* By how much each row is multiplied: its largest element then becomes the largest whole number of
 * so many digits that rounding cannot exceed.  A row of zeros has no such factor, but a large one.
 */
static Rows
rows_of(const Digits *d, Value *x, int nsums, const int *sums)
{
    Build *b = d->b;
    double most = 127 * pow(DIGIT, d->digits - 1);
    Rows r = {.largest = build_red(b, OP_amax, map1(d, OP_abs, x), nsums, sums)};
    Value *huge = map2(d, OP_gt, r.largest, build_float(b, 0x1p64)),
          *tiny = map2(d, OP_lt, r.largest, build_float(b, 0x1p-64)),
          *one = build_const(b, r.largest->type, (Literal){.f = 1});
    r.half = build_map(b, OP_where, huge, build_float(b, 0x1p32), one);
    r.half = build_map(b, OP_where, tiny, build_float(b, 0x1p-32), r.half);
    r.unit = map2(d, OP_div, build_float(b, 1), map2(d, OP_mul, r.half, r.half));
    r.factor = map2(d, OP_div, build_float(b, most), map2(d, OP_mul, r.largest, r.unit));
    r.factor = map2(d, OP_minimum, r.factor, build_float(b, 0x1p120));
    return r;
}

/* The elements of x, multiplied by what is theirs. */
static Value *
scaled(const Digits *d, Value *x, const Rows *r, int nsums, const int *sums)
{
    x = map2(d, OP_mul, x, over_sums(d, r->unit, x->type, nsums, sums));
    return map2(d, OP_mul, x, over_sums(d, r->factor, x->type, nsums, sums));
}

/* The digits of the whole numbers, the highest first.  All but the highest are from -128 to 127. */
static void
split(const Digits *d, Value *whole, Value **digits)
{
    Build *b = d->b;
    for (int k = d->digits - 1; k > 0; k--) {
        Value *above = map1(d, OP_floor,
                            map2(d, OP_add, map2(d, OP_mul, whole, build_float(b, 1.0 / DIGIT)),
                                 build_float(b, 0.5)));
        digits[k] = map2(d, OP_sub, whole, map2(d, OP_mul, above, build_float(b, DIGIT)));
        whole = above;
    }
    digits[0] = whole;
}

/* One value of all digits, with an axis for them before the others. */
static Value *
stack(const Digits *d, Value *const *digits)
{
    const Type *t = digits[0]->type;
    Dim dims[MAX_RANK] = {dim_int(d->cx, d->digits)};
    int to[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax + 1] = t->dims[ax];
        to[ax] = ax + 1;
    }
    Value *number = build_iota(d->b, type_of(d->cx, DT_i32, t->rank + 1, dims), 0),
          *all = build_expand(d->b, digits[d->digits - 1], t->rank + 1, dims, to);
    for (int k = d->digits - 2; k >= 0; k--) {
        Value *is = map2(d, OP_eq, number, build_int(d->b, k));
        all = build_map(d->b, OP_where, is, build_expand(d->b, digits[k], t->rank + 1, dims, to),
                        all);
    }
    return all;
}

/* A letter that the contraction does not have. */
static char
free_letter(const Contraction *c)
{
    char letter = 'a';
    while (letter_axis(c->a, c->na, letter) >= 0 || letter_axis(c->b, c->nb, letter) >= 0) {
        letter++;
    }
    return letter;
}

static void
put_before(char *letters, int *n, char letter)
{
    memmove(letters + 1, letters, (size_t)*n);
    letters[0] = letter;
    ++*n;
}

/* The sums of the digits' products, as one number in f32: the highest digit first. */
static Value *
joined(const Digits *d, Value *sums)
{
    const Type *t = sums->type;
    Value *all = NULL;
    if (d->digits == 1) {
        return build_cast(d->b, sums, DT_f32);
    }
    for (int k = 0; k < d->digits; k++) {
        Value *one = build_slice(d->b, sums, 0, dim_int(d->cx, k), dim_int(d->cx, 1),
                                 dim_int(d->cx, 1));
        one = build_cast(d->b, build_reshape(d->b, one, t->rank - 1, t->dims + 1), DT_f32);
        all = all ? map2(d, OP_add, map2(d, OP_mul, all, build_float(d->b, DIGIT)), one) : one;
    }
    return all;
}

/* The scale for each element of the result. */
static Value *
scale_of(const Digits *d, const Contraction *c, const char *mine, const Decode *codes, Value *scale,
         const Type *t)
{
    int to[MAX_RANK] = {0};
    if (value_is_const(scale)) {
        return scale;
    }
    for (int k = 0; k < scale->type->rank; k++) {
        to[k] = letter_axis(c->out, c->nout, mine[codes->to[k]]);
    }
    return build_expand(d->b, scale, t->rank, t->dims, to);
}

/* The factor for each element of the result: its axes are those of x that are not summed. */
static Value *
factor_for(const Digits *d, const Contraction *c, const char *letters, int n, Value *v,
           const Type *t)
{
    int to[MAX_RANK] = {0}, count = 0;
    for (int ax = 0; ax < n; ax++) {
        int at = letter_axis(c->out, c->nout, letters[ax]);
        if (at >= 0) {
            to[count++] = at;
        }
    }
    return build_expand(d->b, v, t->rank, t->dims, to);
}

/* ---- rows with infinities ---- */

/* What the branch and its bodies are given. */
typedef struct {
    Value *y, *x;
    Value *infinite; /* by row: has it an infinity? */
    Value *codes, *scale; /* scale: NULL, if it is none or a constant */
} Given;

/* The values in their order; returns how many. */
static int
values_of(Given *g, Value ***values)
{
    Value **all[] = {&g->y, &g->x, &g->infinite, &g->codes, &g->scale};
    int n = (int)(sizeof all / sizeof *all);
    memcpy(values, all, sizeof all);
    return g->scale ? n : n - 1;
}

/* A body, and the same values in it. */
static Fn *
body_of(Cx *cx, const char *name, Given *g)
{
    Value **values[sizeof(Given) / sizeof(Value *)];
    Fn *fn = fn_new(cx, name, STAGE_GRAPH);
    for (int k = 0, n = values_of(g, values); k < n; k++) {
        const Value *v = *values[k];
        *values[k] = fn_param(fn, fn_fresh_name(fn, v->name), v->type, NULL);
    }
    return fn;
}

static Fn *
body_close(Fn *fn, Value *y)
{
    fn_results(fn, 1, &y, NULL);
    fn_free_sizes(fn);
    return fn;
}

/* y, whose rows with infinities the product of floats computes. */
static Fn *
floats_instead(Cx *cx, const Let *let, int j, const Decode *decode, Given g)
{
    Fn *fn = body_of(cx, "floats", &g);
    Digits d = {.b = build_new(fn), .cx = cx};
    const Contraction *c = let_contraction(let);
    Value *w = build_cast(d.b, g.codes, DT_f32), *scale = (Value *)decode->scale;
    if (g.scale) {
        scale = build_expand(d.b, g.scale, w->type->rank, w->type->dims, decode->to);
    }
    w = scale ? map2(&d, OP_mul, w, scale) : w;
    Value *y = build_contract(d.b, j ? g.x : w, j ? w : g.x, c, DT_f32),
          *is = factor_for(&d, c, j ? c->a : c->b, j ? c->na : c->nb, g.infinite, y->type);
    return body_close(fn, build_map(d.b, OP_where, is, y, g.y));
}

static Fn *
same(Cx *cx, Given g)
{
    Fn *fn = body_of(cx, "same", &g);
    return body_close(fn, g.y);
}

/* y, whose rows with infinities have been computed by the product of floats. */
static Value *
with_infinities(const Digits *d, const Let *let, int j, const Decode *decode, Given g)
{
    Build *b = d->b;
    Value *args[1 + sizeof(Given) / sizeof(Value *)] = {g.infinite},
                                                 **values[sizeof(Given) / sizeof(Value *)];
    int axes[MAX_RANK], rank = g.infinite->type->rank, n = values_of(&g, values);
    for (int ax = 0; ax < rank; ax++) {
        axes[ax] = ax;
    }
    args[0] = rank ? build_red(b, OP_any, g.infinite, rank, axes) : args[0];
    for (int k = 0; k < n; k++) {
        args[k + 1] = *values[k];
    }
    Fn *bodies[] = {floats_instead(d->cx, let, j, decode, g), same(d->cx, g)};
    Let *branch = build_let(b, OP_branch, n + 1, args, NULL, NULL, 1, &g.y->type, NULL);
    let_bodies(d->cx, branch, 2, bodies);
    return branch->res[0];
}

/* ---- the product ---- */

/* The product; x, codes and scale are in the new function. */
static Value *
multiply(const Digits *d, const Let *let, int j, const Decode *decode, Value *x, Value *codes,
         Value *scale)
{
    Build *b = d->b;
    const Contraction *c = let_contraction(let);
    Contraction over = *c;
    const char *letters = j ? c->a : c->b;
    const Type *t = let->res[0]->type;
    int n = j ? c->na : c->nb, sums[MAX_RANK];
    Value *digits[MOST_DIGITS];
    for (int k = 0; k < c->nsum; k++) {
        sums[k] = letter_axis(letters, n, c->sum[k]);
    }
    Rows r = rows_of(d, x, c->nsum, sums);
    Value *whole = map1(d, OP_round, scaled(d, x, &r, c->nsum, sums));
    /* what is no number is none of an integer either; the factor says that the row is none */
    whole = build_map(b, OP_where, map2(d, OP_eq, whole, whole), whole, build_float(b, 0));
    split(d, whole, digits);
    Value *rows = build_cast(b, d->digits == 1 ? digits[0] : stack(d, digits), DT_i8);
    if (d->digits > 1) {
        char letter = free_letter(c);
        put_before(j ? over.a : over.b, j ? &over.na : &over.nb, letter);
        put_before(over.out, &over.nout, letter);
    }
    Value *y = build_contract(b, j ? rows : codes, j ? codes : rows, &over, DT_i32);
    Value *back = map2(d, OP_div, build_float(b, 1), r.factor),
          *half = factor_for(d, c, letters, n, r.half, t);
    y = map2(d, OP_mul, joined(d, y), factor_for(d, c, letters, n, back, t));
    y = map2(d, OP_mul, y, half);
    y = scale ? map2(d, OP_mul, y, scale_of(d, c, j ? c->b : c->a, decode, scale, t)) : y;
    y = map2(d, OP_mul, y, half);
    Value *infinite = map2(d, OP_eq, r.largest, build_float(b, INFINITY));
    scale = scale && value_is_const(scale) ? NULL : scale;
    return with_infinities(d, let, j, decode, (Given){y, x, infinite, codes, scale});
}

/* The parameter of which codes are made, by operations on single elements; -1: of none. */
static int
param_of(const Value *codes)
{
    const Value *v = codes;
    while (v->def && v->def->nargs && !value_is_const(v->def->args[0])) {
        v = v->def->args[0];
    }
    return v->def ? -1 : v->result;
}

/* How many digits the rows of each product get. */
typedef struct {
    int all; /* those of every product, or 0: by parameter */
    const int *by_param;
    bool *done; /* by parameter, if not NULL */
} Wish;

static int
digits_wanted(const Wish *wish, const Decode *decode)
{
    int param = wish->all ? -1 : param_of(decode->codes);
    int n = wish->all ? wish->all : param >= 0 ? wish->by_param[param] : 0;
    if (n && wish->done && param >= 0) {
        wish->done[param] = true;
    }
    return n;
}

static Fn *
with_digits(Fn *fn, const Wish *wish)
{
    Value **map;
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Digits d = {.b = build_new(out), .cx = fn->cx};
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        Decode decode;
        int j;
        build_at(d.b, let->loc);
        bool found = find_product(fn->cx, let, &j, &decode);
        d.digits = found ? digits_wanted(wish, &decode) : 0;
        if (!d.digits || !fuel_spend(fn->cx)) {
            build_again(d.b, let, map);
            rebuild_strides(let, map);
            continue;
        }
        const Value *s = decode.scale;
        Value *scale = !s ? NULL : value_is_const(s) ? (Value *)s : map[s->id];
        map[let->res[0]->id] = multiply(&d, let, j, &decode, map[let->args[1 - j]->id],
                                        map[decode.codes->id], scale);
    }
    return rebuild_close(fn, out, map);
}

Fn *
digits_by_param(Fn *fn, int *digits)
{
    bool *done = cx_alloc(fn->cx, ((size_t)fn->nparams + 1) * sizeof *done);
    Fn *out = with_digits(fn, &(Wish){.by_param = digits, .done = done});
    for (int k = 0; k < fn->nparams; k++) {
        digits[k] = done[k] ? digits[k] : 0;
    }
    return out;
}

Value *
digits_rounded(Build *b, Value *v, int digits, int naxes, const int *axes)
{
    Digits d = {.b = b, .cx = build_cx(b), .digits = digits};
    Rows r = rows_of(&d, v, naxes, axes);
    Value *whole = map1(&d, OP_round, scaled(&d, v, &r, naxes, axes)),
          *back = map2(&d, OP_div, build_float(b, 1), map2(&d, OP_mul, r.unit, r.factor));
    return map2(&d, OP_mul, whole, over_sums(&d, back, v->type, naxes, axes));
}

Fn *
pass_digits_i8(Fn *fn)
{
    return with_digits(fn, &(Wish){.all = 1});
}

Fn *
pass_digits_i16(Fn *fn)
{
    return with_digits(fn, &(Wish){.all = 2});
}

Fn *
pass_digits_i32(Fn *fn)
{
    return with_digits(fn, &(Wish){.all = 4});
}
