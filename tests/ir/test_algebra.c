/* The builder's algebra is exact: what it makes of an op, evaluated on special values, has the
 * bits that the op itself has on each element.  All dtypes, all MAP ops, all chains of two
 * casts. */
#include "../../csrc/ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUES = 14, MANY = VALUES * VALUES, BYTES = 8 };

static int failures;

static const double reals[VALUES] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -7.0, 1e-7, 100.0,
                                     -60000.0, INFINITY, -INFINITY, NAN};
static const int64_t integers[VALUES] = {0, 1, -1, 2, 3, -7, 8, 100, 127, -128, 255, 40000,
                                         INT32_MIN, INT64_MAX};

/* Operands x and y: every pair of special values of the dtype. */
typedef struct { unsigned char x[MANY * BYTES], y[MANY * BYTES]; } Operands;

static bool
is_float(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_FLOAT;
}

static void
special(Dtype dtype, int k, void *out)
{
    Dtype from = is_float(dtype) ? DT_f64 : DT_i64;
    const void *in = is_float(dtype) ? (const void *)&reals[k] : (const void *)&integers[k];
    int64_t bit = k & 1;
    if (dtype == DT_bool) {
        in = &bit;
    }
    eval_map(OP_cast, from, dtype, in, NULL, NULL, out);
}

static void
fill(Dtype dtype, Operands *to)
{
    int bytes = dtype_info[dtype].bytes;
    for (int k = 0; k < MANY; k++) {
        special(dtype, k / VALUES, to->x + k * bytes);
        special(dtype, k % VALUES, to->y + k * bytes);
    }
}

static bool
is_nan(Dtype dtype, const void *p)
{
    uint8_t nan = 0;
    if (is_float(dtype)) {
        eval_map(OP_isnan, dtype, DT_bool, p, NULL, NULL, &nan);
    }
    return nan;
}

static bool
same_bits(Dtype dtype, const void *a, const void *b)
{
    return memcmp(a, b, (size_t)dtype_info[dtype].bytes) == 0
           || (is_nan(dtype, a) && is_nan(dtype, b));
}

/* One case: how to build it, and how each element is found without the builder. */
typedef struct Case {
    Op op, inner;               /* op(inner(x), y); the shape says where what stands */
    Dtype dtype, mid, to;       /* casts: dtype to mid to `to` */
    int form;
    int literal;                /* which special value is the constant */
    Operands operands;
} Case;

enum { X_Y, X_X, X_LITERAL, LITERAL_X, NEG_X_Y, X_NEG_Y, NEG_NEG, INNER_X, CAST_CAST, WHERE };

static Value *
build_case(Build *b, const Case *c, Value *x, Value *y)
{
    int64_t bit = c->literal & 1;
    Value *k = c->dtype == DT_bool ? build_int(b, bit)
               : is_float(c->dtype) ? build_float(b, reals[c->literal])
               : build_int(b, integers[c->literal]), *truth;
    switch (c->form) {
    case X_X:
        return build_map(b, c->op, x, x, NULL);
    case X_LITERAL:
        return build_map(b, c->op, x, k, NULL);
    case LITERAL_X:
        return build_map(b, c->op, k, x, NULL);
    case NEG_X_Y:
        return build_map(b, c->op, build_map(b, c->inner, x, NULL, NULL), y, NULL);
    case X_NEG_Y:
        return build_map(b, c->op, x, build_map(b, c->inner, y, NULL, NULL), NULL);
    case NEG_NEG:
        return build_map(b, c->op, build_map(b, c->inner, x, NULL, NULL),
                         build_map(b, c->inner, y, NULL, NULL), NULL);
    case INNER_X:
        return build_map(b, c->op, build_map(b, c->inner, x, NULL, NULL), NULL, NULL);
    case CAST_CAST:
        return build_cast(b, build_cast(b, x, c->mid), c->to);
    case WHERE:
        truth = build_map(b, OP_not, build_map(b, c->op, x, y, NULL), NULL, NULL);
        return build_map(b, OP_where, truth, x, y);
    default:
        return build_map(b, c->op, x, y, NULL);
    }
}

static Dtype
result_of(const Case *c)
{
    DtypeRule rule = op_info[c->op].rule;
    return c->form == CAST_CAST ? c->to : c->form == WHERE ? c->dtype
           : rule == RULE_CMP || rule == RULE_PRED ? DT_bool : c->dtype;
}

static void
expect_case(const Case *c, const void *x, const void *y, void *out)
{
    unsigned char k[BYTES], t[BYTES], u[BYTES];
    Dtype dtype = c->dtype, to = result_of(c);
    special(dtype, c->literal, k);
    if (dtype == DT_bool) {
        k[0] = c->literal & 1;
    }
    switch (c->form) {
    case X_X:
        eval_map(c->op, dtype, to, x, x, NULL, out);
        break;
    case X_LITERAL:
        eval_map(c->op, dtype, to, x, k, NULL, out);
        break;
    case LITERAL_X:
        eval_map(c->op, dtype, to, k, x, NULL, out);
        break;
    case CAST_CAST:
        eval_map(OP_cast, dtype, c->mid, x, NULL, NULL, t);
        eval_map(OP_cast, c->mid, to, t, NULL, NULL, out);
        break;
    case WHERE:
        eval_map(c->op, dtype, DT_bool, x, y, NULL, t);
        memcpy(out, t[0] ? y : x, (size_t)dtype_info[dtype].bytes);
        break;
    default:
        memcpy(t, x, (size_t)dtype_info[dtype].bytes);
        memcpy(u, y, (size_t)dtype_info[dtype].bytes);
        if (c->form == NEG_X_Y || c->form == NEG_NEG || c->form == INNER_X) {
            eval_map(c->inner, dtype, dtype, x, NULL, NULL, t);
        }
        if (c->form == X_NEG_Y || c->form == NEG_NEG) {
            eval_map(c->inner, dtype, dtype, y, NULL, NULL, u);
        }
        eval_map(c->op, dtype, to, t, op_info[c->op].arity > 1 ? u : NULL, NULL, out);
        break;
    }
}

static void
report(const Case *c, int at)
{
    failures++;
    fprintf(stderr, "op %s inner %s of %s (mid %s, to %s) form %d literal %d: wrong at %d, %d\n",
            op_info[c->op].name, op_info[c->inner].name, dtype_info[c->dtype].name,
            dtype_info[c->mid].name, dtype_info[c->to].name, c->form, c->literal, at / VALUES,
            at % VALUES);
}

static void
run_case(Cx *cx, void *arg)
{
    Case *c = arg;
    Fn *fn = fn_new(cx, "f", STAGE_GRAPH);
    Build *b = build_new(fn);
    Dim n = dim_int(cx, MANY);
    const Type *t = type_of(cx, c->dtype, 1, &n);
    Value *x = fn_param(fn, "x", t, NULL), *y = fn_param(fn, "y", t, NULL);
    Value *v = build_case(b, c, x, y);
    fn_results(fn, 1, &v, NULL);
    Tensor in[2] = {{c->dtype, 1, {MANY}, {1}, c->operands.x},
                    {c->dtype, 1, {MANY}, {1}, c->operands.y}};
    Tensor out = {0};
    if (v->type->dtype != result_of(c)) {
        report(c, -1);
        return;
    }
    eval_fn(fn, in, &out);
    int bytes = dtype_info[c->dtype].bytes, width = dtype_info[result_of(c)].bytes;
    for (int k = 0; k < MANY; k++) {
        unsigned char want[BYTES] = {0};
        expect_case(c, c->operands.x + k * bytes, c->operands.y + k * bytes, want);
        if (!same_bits(result_of(c), want, (unsigned char *)out.data + k * width)) {
            report(c, k);
            return;
        }
    }
}

static void
try_case(Case *c)
{
    Cx *cx = cx_new();
    if (!cx_try(cx, run_case, c)) {
        report(c, -1);
        fprintf(stderr, "  %s\n", cx_diag(cx)->message);
    }
    cx_free(cx);
}

/* ---- which cases there are ---- */

static bool
takes(Op op, Dtype dtype)
{
    DtypeClass class = dtype_info[dtype].class;
    switch (op_info[op].rule) {
    case RULE_NUM:
        return class == CLASS_INT || class == CLASS_FLOAT;
    case RULE_FLOAT:
    case RULE_PRED:
        return class == CLASS_FLOAT;
    case RULE_INT:
        return class != CLASS_FLOAT;
    case RULE_BOOL:
        return class == CLASS_BOOL;
    case RULE_PART:
    case RULE_PAIR:
    case RULE_BITS:
        return false;           /* tests/passes/canonicalise/complex_parts.dlc, bitcasts.dlc */
    default:
        return true;
    }
}

static void
binary_cases(Case *c)
{
    Op inner = c->dtype == DT_bool ? OP_not : OP_neg;
    for (c->form = X_Y; c->form <= NEG_NEG; c->form++) {
        c->inner = inner;
        bool literal = c->form == X_LITERAL || c->form == LITERAL_X;
        for (c->literal = 0; c->literal < (literal ? VALUES : 1); c->literal++) {
            try_case(c);
        }
    }
    c->literal = 0;
    c->form = WHERE;
    if (op_info[c->op].rule == RULE_CMP) {
        try_case(c);
    }
}

static void
unary_cases(Case *c)
{
    c->form = INNER_X;
    for (int inner = 0; inner < OP_COUNT; inner++) {
        c->inner = (Op)inner;
        if (op_info[inner].kind == KIND_MAP && op_info[inner].arity == 1 && inner != OP_cast
            && op_info[inner].rule != RULE_PRED && takes(c->inner, c->dtype)) {
            try_case(c);
        }
    }
}

static void
cast_cases(Case *c)
{
    c->form = CAST_CAST;
    for (int mid = 0; mid <= DT_f64; mid++) {
        for (int to = 0; to <= DT_f64; to++) {
            c->mid = (Dtype)mid;
            c->to = (Dtype)to;
            try_case(c);
        }
    }
}

int
main(void)
{
    static Case c;
    for (int dtype = 0; dtype <= DT_f64; dtype++) {
        c.dtype = (Dtype)dtype;
        fill(c.dtype, &c.operands);
        for (int op = 0; op < OP_COUNT; op++) {
            const OpInfo *info = &op_info[op];
            c.op = (Op)op;
            if (info->kind != KIND_MAP || op == OP_where || op == OP_cast
                || !takes(c.op, c.dtype)) {
                continue;
            }
            bool traps = !(info->flags & OPF_TOTAL) && !is_float(c.dtype);
            if (info->arity == 2 && !traps) {
                binary_cases(&c);
            } else if (info->arity == 1) {
                unary_cases(&c);
            }
        }
        c.op = OP_cast;
        cast_cases(&c);
    }
    return failures != 0;
}
