/* Constant folding: the interpreter's MAP on constants. */
#include "build.h"

#include <string.h>

enum { MAX_BYTES = 16 };

/* Stores the literal at `out` in the dtype's form in memory. */
static void
store_literal(Literal literal, Dtype dtype, void *out)
{
    Dtype from = literal.is_int ? DT_i64 : DT_f64;
    const void *in = literal.is_int ? (const void *)&literal.i : (const void *)&literal.f;
    if (from == dtype) {
        memcpy(out, in, 8);
    } else {
        eval_map(OP_cast, from, dtype, in, NULL, NULL, out);
    }
}

static Literal
load_literal(Dtype dtype, const void *in)
{
    Literal literal = {.is_int = dtype_info[dtype].class != CLASS_FLOAT};
    Dtype to = literal.is_int ? DT_i64 : DT_f64;
    void *out = literal.is_int ? (void *)&literal.i : (void *)&literal.f;
    if (to == dtype) {
        memcpy(out, in, 8);
    } else {
        eval_map(OP_cast, dtype, to, in, NULL, NULL, out);
    }
    return literal;
}

bool
literal_same(Literal a, Literal b)
{
    return a.is_int == b.is_int && a.i == b.i && memcmp(&a.f, &b.f, sizeof a.f) == 0;
}

Literal
fold_cast(Literal literal, Dtype to)
{
    unsigned char bytes[MAX_BYTES] = {0};
    store_literal(literal, to, bytes);
    return load_literal(to, bytes);
}

bool
fold_map(Op op, Dtype from, Dtype to, Value *const *args, Literal *out)
{
    unsigned char in[3][MAX_BYTES] = {{0}}, result[MAX_BYTES] = {0};
    const OpInfo *info = &op_info[op];
    if (dtype_info[to].class > CLASS_FLOAT) {
        return false;           /* no constant is complex */
    }
    if (!(info->flags & OPF_TOTAL) && dtype_info[from].class != CLASS_FLOAT &&
        (args[1]->literal.i == 0 || args[1]->literal.i == -1)) {
        return false;           /* the division may trap */
    }
    for (int k = 0; k < info->arity; k++) {
        bool condition = info->rule == RULE_SEL && k == 0;
        store_literal(args[k]->literal, condition ? DT_bool : from, in[k]);
    }
    eval_map(op, from, to, in[0], in[1], in[2], result);
    *out = load_literal(to, result);
    return true;
}
