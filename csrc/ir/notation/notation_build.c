/* Einstein notation: lets.
 *
 * Every expression is a value over the letters of its line that it depends on, an axis each, in the
 * order of the letters (notation_sizes.c).  So most operands need nothing but expand, and the
 * value of a line is its result.
 *
 * A sum of a product is decomposed: factors without a summed letter stand outside of the sum, one
 * that alone has a summed letter is summed over it first, and what remains is a contraction where
 * each side has letters of its own. */
#include "notation.h"

#include <string.h>

/* ---- letters ---- */

int
letters_join(int na, const int *a, int nb, const int *b, int *out)
{
    int joined[2 * MAX_LETTERS], n = 0, i = 0, j = 0;
    while (i < na || j < nb) {
        bool left = j == nb || (i < na && a[i] <= b[j]), both = i < na && j < nb && a[i] == b[j];
        joined[n++] = left ? a[i] : b[j];
        i += left;
        j += !left || both;
    }
    memcpy(out, joined, (size_t)n * sizeof *out);
    return n;
}

static bool
has_letter(const Part *t, int letter)
{
    for (int k = 0; k < t->n; k++) {
        if (t->letters[k] == letter) {
            return true;
        }
    }
    return false;
}

Value *
part_expand(Scene *s, Part t, int n, const int *letters)
{
    Dim dims[MAX_RANK];
    int to[MAX_RANK], at = 0;
    if (value_is_const(t.v) || t.n == n) {
        return t.v;
    }
    for (int k = 0; k < n; k++) {
        dims[k] = s->letters[letters[k]].dim;
        if (at < t.n && t.letters[at] == letters[k]) {
            to[at++] = k;
        }
    }
    return build_expand(s->b, t.v, n, dims, to);
}

/* ---- dtypes: torch's promotion ---- */

static Dtype
promoted(Dtype a, Dtype b)
{
    const DtypeInfo *x = &dtype_info[a], *y = &dtype_info[b];
    if (a == b || x->class != y->class) {
        return x->class >= y->class ? a : b;
    }
    if (x->class == CLASS_INT && (a == DT_u8 || b == DT_u8)) {
        Dtype other = a == DT_u8 ? b : a;
        return other == DT_i8 ? DT_i16 : other;
    }
    if (x->bytes == y->bytes) {                 /* f16 and bf16 */
        return DT_f32;
    }
    return x->bytes > y->bytes ? a : b;
}

/* Operands with axes outrank scalars, and these numbers, unless their class is less. */
static Dtype
promoted_parts(int n, const Part *parts)
{
    Dtype out = DTYPE_COUNT;
    for (int weight = OF_AXES; weight >= OF_NUMBER; weight--) {
        Dtype lower = DTYPE_COUNT;
        for (int k = 0; k < n; k++) {
            if ((int)parts[k].weight == weight) {
                lower = lower == DTYPE_COUNT ? parts[k].dtype : promoted(lower, parts[k].dtype);
            }
        }
        if (lower == DTYPE_COUNT) {
            continue;
        }
        bool above = out != DTYPE_COUNT && dtype_info[out].class >= dtype_info[lower].class;
        out = above ? out : out == DTYPE_COUNT ? lower : promoted(out, lower);
    }
    return out;
}

Part
part_cast(Scene *s, Part t, Dtype to)
{
    if (value_is_const(t.v)) {
        if (literal_fits(t.v->literal, to)) {
            t.dtype = to;
            return t;
        }
        t.v = build_const(s->b, type_scalar(s->cx, t.dtype), t.v->literal);
    }
    t.v = build_cast(s->b, t.v, to);
    t.dtype = to;
    return t;
}

static bool
is_class(Dtype dtype, DtypeClass class)
{
    return dtype_info[dtype].class == class;
}

static _Noreturn void
wrong_dtype(Scene *s, const Expr *e, const char *wants, Dtype dtype)
{
    notation_fail(s->notation, e->at, "'%s' takes %s, not %s", op_info[e->op].name, wants,
                  dtype_info[dtype].name);
}

/* Returns the dtype to which the operands are cast. */
static Dtype
operand_dtype(Scene *s, const Expr *e, int n, const Part *parts)
{
    Dtype t = promoted_parts(n, parts);
    DtypeClass class = dtype_info[t].class;
    DtypeRule rule = op_info[e->op].rule;
    if (rule == RULE_PART && class != CLASS_COMPLEX) {
        wrong_dtype(s, e, "complex numbers", t);
    }
    if (class > CLASS_FLOAT && rule != RULE_PART &&
        !(rule == RULE_CAST && class == CLASS_COMPLEX && e->to == t)) {
        wrong_dtype(s, e, "real numbers (real(..) and imag(..) are the parts)", t);
    }
    switch (rule) {
    case RULE_NUM:
        return class == CLASS_BOOL ? DT_i64 : t;
    case RULE_FLOAT:
    case RULE_PRED:
        return class == CLASS_FLOAT ? t : DT_f32;
    case RULE_PAIR:
        return t == DT_f64 ? t : DT_f32;
    case RULE_INT:
        if (class == CLASS_FLOAT) {
            wrong_dtype(s, e, "integers or truth values (comparisons make those)", t);
        }
        return t;
    case RULE_BOOL:
        if (class != CLASS_BOOL) {
            wrong_dtype(s, e, "truth values (comparisons make those)", t);
        }
        return t;
    default:
        return t;
    }
}

static Dtype
result_dtype(const Expr *e, Dtype t)
{
    switch (op_info[e->op].rule) {
    case RULE_CMP:
    case RULE_PRED:
        return DT_bool;
    case RULE_CAST:
        return e->to;
    case RULE_PART:
        return dtype_part(t);
    case RULE_PAIR:
        return dtype_pair(t);
    default:
        return t;
    }
}

/* ---- elementwise ---- */

static Part
map_of(Scene *s, const Expr *e, int n, Part *parts)
{
    bool selects = op_info[e->op].rule == RULE_SEL;
    Part out = {.weight = OF_NUMBER};
    Value *v[3] = {NULL, NULL, NULL};
    Dtype t = operand_dtype(s, e, n - selects, parts + selects);
    bool literal = true;
    if (selects && !is_class(parts[0].dtype, CLASS_BOOL)) {
        wrong_dtype(s, e, "a truth value first (comparisons make those)", parts[0].dtype);
    }
    for (int k = 0; k < n; k++) {
        parts[k] = part_cast(s, parts[k], selects && k == 0 ? DT_bool : t);
        out.n = letters_join(out.n, out.letters, parts[k].n, parts[k].letters, out.letters);
        out.weight = parts[k].weight > out.weight ? parts[k].weight : out.weight;
        literal = literal && value_is_const(parts[k].v);
    }
    if (out.n > MAX_RANK) {
        notation_fail(s->notation, e->at, "this has %d indices: there may be %d", out.n, MAX_RANK);
    }
    for (int k = 0; k < n; k++) {
        bool make = value_is_const(parts[k].v) && ((literal && k == 0) || (selects && k == 0));
        v[k] = make ? build_const(s->b, type_scalar(s->cx, parts[k].dtype), parts[k].v->literal)
                    : parts[k].v;
        parts[k].v = v[k];
        v[k] = part_expand(s, parts[k], out.n, out.letters);
    }
    if (selects && value_is_const(v[1]) && value_is_const(v[2])) {
        v[1] = build_const(s->b, type_with(s->cx, v[0]->type, t), v[1]->literal);
    }
    out.dtype = result_dtype(e, t);
    out.v = op_info[e->op].rule == RULE_CAST ? build_cast(s->b, v[0], e->to)
                                             : build_map(s->b, e->op, v[0], v[1], v[2]);
    return out;
}

/* Computes a power; a small whole exponent makes it a product. */
static Part
power_of(Scene *s, const Expr *e)
{
    enum { MOST = 8 };
    Part parts[2] = {part_of(s, e->args[0]), part_of(s, e->args[1])};
    const Expr *by = e->args[1];
    if (by->kind != EXPR_NUMBER || !by->literal.is_int || by->literal.i < 1 ||
        by->literal.i > MOST) {
        return map_of(s, e, 2, parts);
    }
    Expr times = {.kind = EXPR_CALL, .at = e->at, .op = OP_mul};
    Part out = {0}, square = parts[0];
    for (int64_t n = by->literal.i; n; n >>= 1) {
        if (n & 1) {
            Part two[2] = {out, square};
            out = out.v ? map_of(s, &times, 2, two) : square;
        }
        if (n > 1) {
            Part two[2] = {square, square};
            square = map_of(s, &times, 2, two);
        }
    }
    return out;
}

static Part
call_of(Scene *s, const Expr *e)
{
    Part parts[3];
    if (e->op == OP_pow) {
        return power_of(s, e);
    }
    for (int k = 0; k < e->n; k++) {
        parts[k] = part_of(s, e->args[k]);
    }
    return map_of(s, e, e->n, parts);
}

/* ---- reductions ---- */

static Part
reduced(Scene *s, Op op, Part t, int n, const int *letters)
{
    int axes[MAX_RANK], all[2 * MAX_LETTERS], nall;
    nall = letters_join(t.n, t.letters, n, letters, all);
    bool adds = op == OP_sum || op == OP_prod;
    bool indexes = op_info[op].rule == RULE_INDEX;
    if ((adds && !is_class(t.dtype, CLASS_FLOAT)) || (indexes && is_class(t.dtype, CLASS_BOOL))) {
        t = part_cast(s, t, DT_i64);
    }
    if (value_is_const(t.v)) {
        t.v = build_const(s->b, type_scalar(s->cx, t.dtype), t.v->literal);
    }
    Part out = {.weight = OF_AXES,
                .dtype = op_info[op].rule == RULE_INDEX   ? DT_i64
                         : op_info[op].rule == RULE_TRUTH ? DT_bool
                                                          : t.dtype};
    for (int k = 0, at = 0; k < nall; k++) {
        if (at < n && all[k] == letters[at]) {
            axes[at++] = k;
        } else {
            out.letters[out.n++] = all[k];
        }
    }
    out.v = part_expand(s, t, nall, all);
    for (int k = n - 1; op == OP_prod && k >= 0; k--) {         /* derive.c wants one axis */
        out.v = build_red(s->b, op, out.v, 1, &axes[k]);
    }
    if (op != OP_prod) {
        out.v = build_red(s->b, op, out.v, n, axes);
    }
    return out;
}

/* ---- sums of products ---- */

enum { MAX_FACTORS = 16 };

typedef struct {
    const Expr *e;
    bool inverse;
} Factor;

static int
factors_of(const Expr *e, bool inverse, Factor *out, int n)
{
    if (n < 0 || n == MAX_FACTORS) {
        return -1;
    }
    if (e->kind == EXPR_CALL && (e->op == OP_mul || e->op == OP_div)) {
        n = factors_of(e->args[0], inverse, out, n);
        return factors_of(e->args[1], inverse != (e->op == OP_div), out, n);
    }
    out[n] = (Factor){e, inverse};
    return n + 1;
}

static Part
times(Scene *s, const Expr *at, Op op, Part a, Part b)
{
    Expr e = {.kind = EXPR_CALL, .at = at->at, .op = op};
    Part two[2] = {a, b}, one = {.v = build_int(s->b, 1), .dtype = DT_i64, .weight = OF_NUMBER};
    if (!a.v) {
        two[0] = one;
    }
    return !a.v && op == OP_mul ? b : map_of(s, &e, 2, two);
}

static bool
is_within(const Part *a, const Part *b)
{
    for (int k = 0; k < a->n; k++) {
        if (!has_letter(b, a->letters[k])) {
            return false;
        }
    }
    return true;
}

/* Sums a over its letters that b does not have; returns the number of letters that both have. */
static int
sum_alone(Scene *s, Part *a, const Part *b, int n, const int *letters)
{
    int alone[MAX_LETTERS], nalone = 0, common = 0;
    for (int k = 0; k < n; k++) {
        if (has_letter(a, letters[k]) && !has_letter(b, letters[k])) {
            alone[nalone++] = letters[k];
        }
        common += has_letter(a, letters[k]) && has_letter(b, letters[k]);
    }
    if (nalone) {
        *a = reduced(s, OP_sum, *a, nalone, alone);
    }
    return common;
}

static Part
contracted(Scene *s, Part a, Part b, int n, const int *letters)
{
    char to[3][MAX_LETTERS];
    int all[2 * MAX_LETTERS], nall = letters_join(a.n, a.letters, b.n, b.letters, all);
    Part out = {.dtype = a.dtype, .weight = OF_AXES}, sum = {.n = n};
    memcpy(sum.letters, letters, (size_t)n * sizeof *letters);
    for (int k = 0; k < a.n; k++) {
        to[0][k] = (char)('a' + a.letters[k]);
    }
    for (int k = 0; k < b.n; k++) {
        to[1][k] = (char)('a' + b.letters[k]);
    }
    for (int k = 0; k < nall; k++) {
        if (!has_letter(&sum, all[k])) {
            to[2][out.n] = (char)('a' + all[k]);
            out.letters[out.n++] = all[k];
        }
    }
    Contraction over = contraction_letters(a.n, to[0], b.n, to[1], out.n, to[2]);
    out.v = build_contract(s->b, a.v, b.v, &over, a.dtype);
    return out;
}

/* The sum of a times b over letters, each of which one of them has. */
static Part
sum_of_two(Scene *s, const Expr *e, Part a, Part b, int n, const int *letters)
{
    int common[MAX_LETTERS], ncommon = 0;
    sum_alone(s, &a, &b, n, letters);
    sum_alone(s, &b, &a, n, letters);
    for (int k = 0; k < n; k++) {
        if (has_letter(&a, letters[k])) {
            common[ncommon++] = letters[k];
        }
    }
    if (ncommon && !is_within(&a, &b) && !is_within(&b, &a)) {
        return contracted(s, a, b, ncommon, common);
    }
    Part product = times(s, e, OP_mul, a, b);
    return ncommon ? reduced(s, OP_sum, product, ncommon, common) : product;
}

static Part
sum_of(Scene *s, const Expr *e, int n, const int *letters)
{
    Factor factors[MAX_FACTORS];
    Part parts[MAX_FACTORS], left = {0}, right = {0}, outside = {0};
    int nfactors = factors_of(e->args[0], false, factors, 0), ndependent = 0;
    bool divides = false;
    for (int k = 0; k < nfactors; k++) {
        parts[k] = part_of(s, factors[k].e);
        divides |= factors[k].inverse;
    }
    Dtype t = nfactors > 0 ? promoted_parts(nfactors, parts) : DT_bool;
    bool real = is_class(t, CLASS_FLOAT);
    if (nfactors < 2 || is_class(t, CLASS_BOOL) || dtype_info[t].class > CLASS_FLOAT ||
        (divides && !real)) {
        return reduced(s, OP_sum, part_of(s, e->args[0]), n, letters);
    }
    Part sum = {.n = n}, covered = {0};
    memcpy(sum.letters, letters, (size_t)n * sizeof *letters);
    for (int k = 0; k < nfactors; k++) {
        Part *part = &parts[k];
        bool depends = false;
        *part = part_cast(s, *part, real ? t : DT_i64);
        for (int j = 0; j < part->n; j++) {
            depends |= has_letter(&sum, part->letters[j]);
        }
        Op op = factors[k].inverse ? OP_div : OP_mul;
        if (!depends) {
            outside = times(s, e, op, outside, *part);
            continue;
        }
        covered.n = letters_join(covered.n, covered.letters, part->n, part->letters,
                                 covered.letters);
        bool first = !left.v || (is_within(part, &left) && right.v) ||
                     (factors[k].inverse && is_within(part, &left));
        Part *side = first ? &left : &right;
        *side = times(s, e, op, *side, *part);
        ndependent++;
    }
    int here[MAX_LETTERS], nhere = 0;
    for (int k = 0; k < n; k++) {
        if (has_letter(&covered, letters[k])) {
            here[nhere++] = letters[k];
        }
    }
    if (ndependent == 0 || nhere < n) {
        return reduced(s, OP_sum, part_of(s, e->args[0]), n, letters);
    }
    Part inner = right.v ? sum_of_two(s, e, left, right, nhere, here)
                         : reduced(s, OP_sum, left, nhere, here);
    return outside.v ? times(s, e, OP_mul, inner, outside) : inner;
}

static Part
reduce_of(Scene *s, const Expr *e)
{
    int letters[MAX_LETTERS], n = 0;
    for (int k = 0; k < e->nnames; k++) {
        int letter = letter_find(s, e->names[k]);
        n = letters_join(n, letters, 1, &letter, letters);
    }
    if (e->op == OP_sum) {
        return sum_of(s, e, n, letters);
    }
    Part t = part_of(s, e->args[0]);
    if (dtype_info[t.dtype].class > CLASS_FLOAT) {
        wrong_dtype(s, e, "real numbers (real(..) and imag(..) are the parts)", t.dtype);
    }
    if (op_info[e->op].rule == RULE_TRUTH && !is_class(t.dtype, CLASS_BOOL)) {
        wrong_dtype(s, e, "truth values (comparisons make those)", t.dtype);
    }
    return reduced(s, e->op, t, n, letters);
}

Part
part_of(Scene *s, const Expr *e)
{
    switch (e->kind) {
    case EXPR_NUMBER: {
        Value *v = e->literal.is_int ? build_int(s->b, e->literal.i)
                                     : build_float(s->b, e->literal.f);
        return (Part){.v = v, .dtype = e->literal.is_int ? DT_i64 : DT_f32, .weight = OF_NUMBER};
    }
    case EXPR_NAME: {
        int k = letter_find(s, e->name);
        if (k >= 0) {
            const Type *t = type_of(s->cx, DT_i64, 1, &s->letters[k].dim);
            return (Part){.v = build_iota(s->b, t, 0),
                          .dtype = DT_i64,
                          .weight = OF_AXES,
                          .n = 1,
                          .letters = {k}};
        }
        const Named *of = named_find(s, e->name);
        return (Part){.v = of->v, .dtype = of->v->type->dtype, .weight = OF_SCALAR};
    }
    case EXPR_SIZE:
        return (Part){.v = build_size(s->b, size_read(s, e)), .dtype = DT_i64, .weight = OF_SCALAR};
    case EXPR_READ:
        return part_read(s, e);
    case EXPR_CALL:
        return call_of(s, e);
    default:
        return reduce_of(s, e);
    }
}
