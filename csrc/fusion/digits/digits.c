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
 * How:      s must not go along the summed axes, so it can be multiplied afterwards.  Or it has a
 *           number for each group of terms: then a group is a letter, and a contraction adds the
 *           sums of the groups, times s.  The digits
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
#include "digits.h"

#include <math.h>
#include <string.h>

enum { MOST_TERMS = 1 << 16, MOST_DIGITS = 4, DIGIT = 256 };

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

/* Is v the weight of a product, with scales for groups or without?  mine: its letters. */
static bool
is_weight(Cx *cx, const Value *v, const Contraction *c, const char *mine, bool groups, Decode *d)
{
    int sum = c->nsum == 1 ? letter_axis(mine, v->type->rank, c->sum[0]) : -1;
    return groups ? sum >= 0 && decode_groups(cx, v, sum, d)
                  : decode_columns(v, d) && is_scaled_afterwards(c, mine, d);
}

/* Does the let multiply floats by codes?  *j: which operand has them. */
static bool
find_product(Cx *cx, const Let *let, bool groups, int *j, Decode *d)
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
    int more = groups ? 2 : 1; /* axes */
    bool rooms = c->na + more <= MAX_RANK && c->nb + more <= MAX_RANK && c->nout + more <= MAX_RANK;
    for (*j = 0; *j < 2; ++*j) {
        const Value *x = let->args[1 - *j];
        Decode other;
        if (!value_is_const(x) && x->type->dtype == DT_f32 && !decode_columns(x, &other) &&
            !value_is_const(let->args[*j]) &&
            is_weight(cx, let->args[*j], c, *j ? c->b : c->a, groups, d)) {
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

enum { MOST_LEAVES = 8, MOST_GIVEN = 3 + MOST_LEAVES };

/* What a weight is computed of: values that a branch takes, and lets that its body has again. */
typedef struct {
    int n;
    const Value *leaf[MOST_LEAVES];
    bool *inner; /* by Value.id */
} Source;

static bool
is_copied(const Let *let)
{
    OpKind kind = op_info[let->op].kind;
    return kind == KIND_MAP || kind == KIND_VIEW || let->op == OP_const || let->op == OP_iota ||
           let->op == OP_cat || let->op == OP_pad || let->op == OP_gather;
}

/* False: it is computed of too many values. */
static bool
find_source(const Value *v, const Decode *d, Source *s)
{
    bool known = value_is_const(v) || s->inner[v->id], good = true;
    for (int k = 0; k < s->n && !known; k++) {
        known = s->leaf[k] == v;
    }
    if (known) {
        return true;
    }
    bool whole = d->sum < 0 && (v == d->codes || v == d->scale);
    if (whole || !v->def || !is_copied(v->def)) {
        good = s->n < MOST_LEAVES;
        s->leaf[good ? s->n++ : 0] = v;
        return good;
    }
    s->inner[v->id] = true;
    for (int k = 0; k < v->def->nargs && good; k++) {
        good = find_source(v->def->args[k], d, s);
    }
    return good;
}

/* A body of the branch.  *params: one for each value that it is given. */
static Fn *
body_of(Cx *cx, const char *name, int n, Value *const *given, Value **params)
{
    Fn *fn = fn_new(cx, name, STAGE_GRAPH);
    for (int k = 0; k < n; k++) {
        params[k] = fn_param(fn, fn_fresh_name(fn, given[k]->name), given[k]->type, NULL);
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

/* y, whose rows with infinities the product of floats computes; given: y, the rows, which of them
 * have infinities, and the leaves of the source. */
static Fn *
floats_instead(const Fn *old, const Let *let, int j, const Source *s, Value *const *given)
{
    Value *params[MOST_GIVEN], **map = cx_alloc(old->cx, ((size_t)old->nvalues + 1) * sizeof *map);
    Fn *fn = body_of(old->cx, "floats", 3 + s->n, given, params);
    Digits d = {.b = build_new(fn), .cx = old->cx};
    const Contraction *c = let_contraction(let);
    for (int k = 0; k < s->n; k++) {
        map[s->leaf[k]->id] = params[3 + k];
    }
    for (int k = 0; k < old->body->n; k++) {
        const Let *inner = old->body->lets[k];
        if (inner->nres == 1 && s->inner[inner->res[0]->id]) {
            build_again(d.b, inner, map);
        }
    }
    Value *x = params[1], *w = map[let->args[j]->id],
          *y = build_contract(d.b, j ? x : w, j ? w : x, c, DT_f32),
          *is = factor_for(&d, c, j ? c->a : c->b, j ? c->na : c->nb, params[2], y->type);
    return body_close(fn, build_map(d.b, OP_where, is, y, params[0]));
}

/* y, whose rows with infinities have been computed by the product of floats. */
static Value *
with_infinities(const Digits *d, const Fn *old, const Let *let, int j, const Source *s,
                Value *const *given)
{
    Build *b = d->b;
    Value *args[1 + MOST_GIVEN], *params[MOST_GIVEN], *infinite = given[2];
    int axes[MAX_RANK], rank = infinite->type->rank, n = 3 + s->n;
    for (int ax = 0; ax < rank; ax++) {
        axes[ax] = ax;
    }
    args[0] = rank ? build_red(b, OP_any, infinite, rank, axes) : infinite;
    memcpy(args + 1, given, (size_t)n * sizeof *args);
    Fn *same = body_of(d->cx, "same", n, given, params);
    Fn *bodies[] = {floats_instead(old, let, j, s, given), body_close(same, params[0])};
    Let *branch = build_let(b, OP_branch, n + 1, args, NULL, NULL, 1, &given[0]->type, NULL);
    let_bodies(d->cx, branch, 2, bodies);
    return branch->res[0];
}

/* ---- sums of groups ---- */

static void
insert_before(char *letters, int *n, int at, char letter)
{
    memmove(letters + at + 1, letters + at, (size_t)(*n - at));
    letters[at] = letter;
    ++*n;
}

/* Cuts the axis of the sum in two: groups, and the terms of each. */
static Value *
in_groups(const Digits *d, Value *v, int axis, const Decode *decode)
{
    Dim dims[MAX_RANK];
    int n = 0;
    for (int ax = 0; ax < v->type->rank; ax++) {
        dims[n++] = ax == axis ? decode->groups : v->type->dims[ax];
        if (ax == axis) {
            dims[n++] = decode->terms;
        }
    }
    return build_reshape(d->b, v, n, dims);
}

/* The sums of the products of each group, as numbers in f32, each times the scale of its group, and
 * added.  over: of rows without groups, with the letter of the digits. */
static Value *
sums_of_groups(const Digits *d, Contraction *over, int j, const Decode *decode, Value *rows,
               Value *codes, Value *scale)
{
    char sum = over->sum[0], group = free_letter(over), *mine = j ? over->b : over->a;
    Contraction all = *over;
    int n = j ? over->nb : over->na,
        at = letter_axis(j ? over->a : over->b, j ? over->na : over->nb, sum);
    rows = in_groups(d, rows, at, decode);
    insert_before(all.a, &all.na, letter_axis(all.a, all.na, sum), group);
    insert_before(all.b, &all.nb, letter_axis(all.b, all.nb, sum), group);
    /* the columns stay innermost */
    insert_before(all.out, &all.nout, all.nout ? all.nout - 1 : 0, group);
    Value *t = build_contract(d->b, j ? rows : codes, j ? codes : rows, &all, DT_i32);
    Contraction add = {.na = all.nout, .nb = n, .nout = over->nout};
    memcpy(add.a, all.out, sizeof add.a);
    memcpy(add.b, mine, sizeof add.b);
    add.b[letter_axis(mine, n, sum)] = group;
    memcpy(add.out, over->out, sizeof add.out);
    return build_contract(d->b, build_cast(d->b, t, DT_f32), scale, &add, DT_f32);
}

/* ---- the product ---- */

/* A product that is replaced. */
typedef struct {
    const Fn *fn;
    const Let *let;
    int j; /* which operand has the codes */
    Decode decode;
    Source source; /* of that operand */
} Replaced;

/* The sums of the digits, times the scales: of groups, or of columns. */
static Value *
scaled_sums(const Digits *d, const Replaced *r, Contraction *over, Value *rows, Value *const *map)
{
    const Decode *decode = &r->decode;
    const Value *w = r->let->args[r->j];
    int j = r->j;
    if (decode->sum >= 0) {
        return joined(d,
                      sums_of_groups(d, over, j, decode, rows, decode_codes(d->b, decode, w, map),
                                     decode_scales(d->b, decode, w, map)));
    }
    Value *codes = map[decode->codes->id];
    return joined(d, build_contract(d->b, j ? rows : codes, j ? codes : rows, over, DT_i32));
}

/* The sums of the rows' whole numbers in each group, times what is added to all codes of the group,
 * are added to the product with the codes. */
static Value *
with_least(const Digits *d, const Replaced *r, Value *y, Value *whole, Value *const *map)
{
    const Contraction *c = let_contraction(r->let);
    int j = r->j;
    Value *least = r->decode.sum < 0 ? NULL : decode_least(d->b, &r->decode, r->let->args[j], map);
    if (!least) {
        return y;
    }
    int at = letter_axis(j ? c->a : c->b, j ? c->na : c->nb, c->sum[0]), terms = at + 1;
    Value *x = build_red(d->b, OP_sum, in_groups(d, whole, at, &r->decode), 1, &terms);
    return map2(d, OP_add, y, build_contract(d->b, j ? x : least, j ? least : x, c, DT_f32));
}

/* The product; map: to the new function. */
static Value *
multiply(const Digits *d, const Replaced *r, Value *const *map)
{
    Build *b = d->b;
    const Contraction *c = let_contraction(r->let);
    const Decode *decode = &r->decode;
    int j = r->j, n = j ? c->na : c->nb, sums[MAX_RANK];
    Contraction over = *c;
    const char *letters = j ? c->a : c->b;
    const Type *t = r->let->res[0]->type;
    Value *digits[MOST_DIGITS], *x = map[r->let->args[1 - j]->id];
    for (int k = 0; k < c->nsum; k++) {
        sums[k] = letter_axis(letters, n, c->sum[k]);
    }
    Rows of = rows_of(d, x, c->nsum, sums);
    Value *whole = map1(d, OP_round, scaled(d, x, &of, c->nsum, sums));
    /* what is no number is none of an integer either; the factor says that the row is none */
    whole = build_map(b, OP_where, map2(d, OP_eq, whole, whole), whole, build_float(b, 0));
    split(d, whole, digits);
    Value *rows = build_cast(b, d->digits == 1 ? digits[0] : stack(d, digits), DT_i8);
    if (d->digits > 1) {
        char letter = free_letter(c);
        put_before(j ? over.a : over.b, j ? &over.na : &over.nb, letter);
        put_before(over.out, &over.nout, letter);
    }
    Value *y = with_least(d, r, scaled_sums(d, r, &over, rows, map), whole, map),
          *back = map2(d, OP_div, build_float(b, 1), of.factor),
          *half = factor_for(d, c, letters, n, of.half, t);
    y = map2(d, OP_mul, y, factor_for(d, c, letters, n, back, t));
    y = map2(d, OP_mul, y, half);
    if (decode->sum < 0 && decode->scale) {
        Value *scale = value_is_const(decode->scale) ? (Value *)decode->scale
                                                     : map[decode->scale->id];
        y = map2(d, OP_mul, y, scale_of(d, c, j ? c->b : c->a, decode, scale, t));
    }
    y = map2(d, OP_mul, y, half);
    Value *given[MOST_GIVEN] = {y, x, map2(d, OP_eq, of.largest, build_float(b, INFINITY))};
    for (int k = 0; k < r->source.n; k++) {
        given[3 + k] = map[r->source.leaf[k]->id];
    }
    return with_infinities(d, r->fn, r->let, j, &r->source, given);
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
    bool groups; /* of products with scales for groups; else of the others */
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
        Replaced r = {.fn = fn, .let = let};
        build_at(d.b, let->loc);
        bool found = find_product(fn->cx, let, wish->groups, &r.j, &r.decode);
        r.source.inner = found ? cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof(bool)) : NULL;
        found = found && find_source(let->args[r.j], &r.decode, &r.source);
        d.digits = found ? digits_wanted(wish, &r.decode) : 0;
        if (!d.digits || !fuel_spend(fn->cx)) {
            build_again(d.b, let, map);
            rebuild_strides(let, map);
        } else {
            map[let->res[0]->id] = multiply(&d, &r, map);
        }
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

Fn *
pass_groups_i8(Fn *fn)
{
    return with_digits(fn, &(Wish){.all = 1, .groups = true});
}

Fn *
pass_groups_i16(Fn *fn)
{
    return with_digits(fn, &(Wish){.all = 2, .groups = true});
}

Fn *
pass_groups_i32(Fn *fn)
{
    return with_digits(fn, &(Wish){.all = 4, .groups = true});
}
