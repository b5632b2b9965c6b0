/* Share: what two functions of one value have in common is computed once.
 *
 * What:     in a kernel, writes out a function by the formula of ir/math/prelude.h when another let
 *           computes a part of it:
 *           - sigmoid v with e = exp(-|v|) as where(v >= 0, 1, e) / (e + 1), where e or the sigmoid
 *             of -v is computed too;
 *           - rsqrt v as 1 / sqrt v, where sqrt v is computed too.
 * Requires  verified kernels;
 * and ensures: the same values, bit for bit; the part stands in the kernel once.
 * How:      one walk over a kernel notes which parts and wholes of each value it has; where a pair
 *           is found the function is rebuilt, and value numbering makes one let of the parts.  Only
 *           dtypes that are stored as they are computed: others round between operations.  O(lets).
 * Why not   always: alone, the function is one operation and as such quicker.  Why not in the C: an
 *           optimising compiler finds some of this, the libtcc tier calls a routine for each let.
 * Example:  sigmoid(y) * exp(-|y|) computes one exponential.
 */
#include "group.h"

/* The functions of a value that a kernel computes, one bit each. */
enum {
    HAS_EXP = 1,                /* exp(-|v|) */
    HAS_SIGMOID = 2,
    HAS_MIRRORED = 4,           /* sigmoid(-v) */
    HAS_SQRT = 8,
    HAS_RSQRT = 16,
};

typedef struct {
    unsigned char *has;         /* by old Value.id */
    bool any;
} Share;

static const Value *
under(const Value *v, Op op)
{
    return !value_is_const(v) && v->def && v->def->op == op ? v->def->args[0] : NULL;
}

static const Value *
without_sign(const Value *v)
{
    const Value *n = under(v, OP_neg);
    return n ? n : v;
}

/* Is the dtype a float that is stored in the dtype in which it is computed? */
static bool
is_plain_float(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_FLOAT && dtype_info[dtype].compute == dtype;
}

/* The function of *v that the let computes; 0: none that can be shared. */
static unsigned
part_of(const Let *let, const Value **v)
{
    const Value *n, *a;
    *v = let->nargs == 1 ? let->args[0] : NULL;
    if (!*v || value_is_const(*v) || !is_plain_float((*v)->type->dtype)) {
        return 0;
    }
    switch (let->op) {
    case OP_exp:
        n = under(*v, OP_neg);
        a = n ? under(n, OP_abs) : NULL;
        *v = a ? without_sign(a) : NULL;
        return a && !value_is_const(*v) ? HAS_EXP : 0;
    case OP_sigmoid:
        n = under(*v, OP_neg);
        *v = n ? n : *v;
        return value_is_const(*v) ? 0 : n ? HAS_MIRRORED : HAS_SIGMOID;
    case OP_sqrt:
        return HAS_SQRT;
    case OP_rsqrt:
        return HAS_RSQRT;
    default:
        return 0;
    }
}

/* Do those contain a part that is computed elsewhere too? */
static bool
is_shared(unsigned has, Op op)
{
    unsigned of = has & (HAS_EXP | HAS_SIGMOID | HAS_MIRRORED);
    return op == OP_sigmoid ? (of & (of - 1)) != 0
                            : op == OP_rsqrt && (has & HAS_SQRT) && (has & HAS_RSQRT);
}

static void
note(Share *s, const Block *body)
{
    const Value *v;
    for (int k = 0; k < body->n; k++) {
        unsigned part = part_of(body->lets[k], &v);
        if (part) {
            s->has[v->id] |= part;
            s->any |= is_shared(s->has[v->id], OP_sigmoid) || is_shared(s->has[v->id], OP_rsqrt);
        }
    }
}

static void
forget(Share *s, const Block *body)
{
    const Value *v;
    for (int k = 0; k < body->n; k++) {
        if (part_of(body->lets[k], &v)) {
            s->has[v->id] = 0;
        }
    }
}

static Value *
write_out(Build *b, Op op, Value *v)
{
    if (op == OP_rsqrt) {
        return build_map(b, OP_reciprocal, build_map(b, OP_sqrt, v, NULL, NULL), NULL, NULL);
    }
    Value *size = build_map(b, OP_abs, v, NULL, NULL), *one = build_float(b, 1);
    Value *e = build_map(b, OP_exp, build_map(b, OP_neg, size, NULL, NULL), NULL, NULL);
    Value *right = build_map(b, OP_ge, v, build_float(b, 0), NULL);
    Value *over = build_map(b, OP_where, right, one, e);
    return build_map(b, OP_div, over, build_map(b, OP_add, e, one, NULL), NULL);
}

static void
share_let(void *arg, Build *b, const Let *let, Value **map)
{
    const Share *s = arg;
    const Value *v;
    if (part_of(let, &v) && is_shared(s->has[v->id], let->op) && fuel_spend(build_cx(b))) {
        Value *operand = map[let->args[0]->id];
        build_at(b, let->loc);
        map[let->res[0]->id] = write_out(b, let->op, operand ? operand : let->args[0]);
    } else {
        build_again(b, let, map);
    }
}

Fn *
pass_share(Fn *fn)
{
    Share s = {.has = cx_alloc(fn->cx, (size_t)fn->nvalues + 1)};
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->body) {
            note(&s, fn->body->lets[k]->body);
            forget(&s, fn->body->lets[k]->body);
        }
    }
    if (!s.any) {
        return fn;
    }
    Value **map;
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    build_bodies(b, share_let, &s);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->body) {
            note(&s, let->body);
        }
        build_again(b, let, map);
        if (let->body) {
            forget(&s, let->body);
        }
        rebuild_strides(let, map);
    }
    return rebuild_close(fn, out, map);
}
