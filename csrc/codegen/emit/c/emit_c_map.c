/* Emission of portable C: values, and what MAP lets make of them.
 *
 * What:     a MAP let as one expression or one call.
 * How:      The expression is its row's of ops.def.  One that reads each operand once is written
 *           with the operands in place; any other becomes a function op_<name>_<dtype> of the unit.
 *           M(f) is the prelude's function for the dtype.
 * Example:  add: x0 + b0; exp: dlc_exp_f32(d); maximum: op_maximum_f32(x0, b0); a sum of bf16:
 *           dlc_round_bf16(x0 + b0).
 */
#include <ctype.h>
#include <string.h>

#include "emit_c.h"

const char *
c_literal(Emit *e, Dtype dtype, Literal literal)
{
    Dtype compute = dtype_info[dtype].compute;
    uint64_t bits = literal_bits(dtype, literal);
    if (compute == DT_f32 || compute == DT_f64) {
        double f;
        eval_map(OP_cast, compute, DT_f64, &bits, NULL, NULL, &f);
        if (f - f != 0) {
            return cx_format(e->cx, "%sdlc_%s_%s()", f < 0 ? "-" : "", f != f ? "nan" : "infinity",
                             compute_name(dtype));
        }
    } else if (compute == DT_i64 && (int64_t)bits == INT64_MIN) {
        return "INT64_MIN";
    } else if (compute == DT_i64) {
        return cx_format(e->cx, (int64_t)bits < 0 ? "(-INT64_C(%lld))" : "INT64_C(%lld)",
                         (int64_t)bits < 0 ? -(long long)bits : (long long)bits);
    }
    return literal_c(e->cx, dtype, literal);
}

const char *
c_value(Emit *e, const Value *v, Dtype dtype)
{
    const Literal *literal = literal_of(v);
    return literal ? c_literal(e, value_is_const(v) ? dtype : v->type->dtype, *literal)
                   : name_c(e, v);
}

/* The operand that a letter of a row's expression stands for, or -1: it is part of a name. */
static int
operand_at(const char *expression, const char *c)
{
    bool alone = (c == expression || !isalnum((unsigned char)c[-1])) &&
                 !isalnum((unsigned char)c[1]) && c[1] != '_' &&
                 (c == expression || (c[-1] != '_' && strncmp(c + 1, ")(", 2) != 0));
    return alone && *c >= 'a' && *c <= 'c' ? *c - 'a' : -1;
}

/* Does it read each operand once? */
static bool
reads_once(const char *expression)
{
    int times[3] = {0};
    for (const char *c = expression; *c; c++) {
        int k = operand_at(expression, c);
        if (k >= 0) {
            times[k]++;
        }
    }
    return times[0] <= 1 && times[1] <= 1 && times[2] <= 1;
}

/* The row's expression for the dtype.  Of what is no floating point nothing is NaN. */
static const char *
row_expression(const Let *let)
{
    const char *expression = op_info[let->op].expr, *is_nan = "b != b || ";
    bool whole = dtype_info[map_dtype(let)].class != CLASS_FLOAT;
    return whole && strncmp(expression, is_nan, strlen(is_nan)) == 0 ? expression + strlen(is_nan)
           : whole && strcmp(expression, "a != a") == 0              ? "a & 0"
                                                                     : expression;
}

/* The expression with these operands. */
static const char *
expression_of(Emit *e, const Let *let, const char *const *operands)
{
    Text out = {.cx = e->cx};
    const char *expression = row_expression(let), *dtype = compute_name(map_dtype(let));
    for (const char *c = expression; *c; c++) {
        const char *end = strncmp(c, "M(", 2) == 0 ? strchr(c, ')') : NULL;
        int k = operand_at(expression, c);
        if (end) {
            text_add(&out, "dlc_%.*s_%s", (int)(end - c - 2), c + 2, dtype);
            c = end;
        } else if (k >= 0) {
            text_add(&out, "%s", operands[k]);
        } else {
            text_put(&out, c, 1);
        }
    }
    return out.text;
}

/* A function of the row, which reads an operand more than once. */
static const char *
row_function(Emit *e, const Let *let)
{
    static const char *const letters[] = {"a", "b", "c"};
    const char *made = type_c(let->res[0]->type->dtype),
               *name = cx_format(e->cx, "op_%s_%s", op_info[let->op].name,
                                 compute_name(map_dtype(let)));
    const char *expression = expression_of(e, let, letters);
    if (new_helper(e, name)) {
        c_need(e, expression);
        text_add(e->helpers, "\nstatic inline %s\n%s(", made, name);
        for (int k = 0; k < let->nargs; k++) {
            text_add(e->helpers, "%s%s %s", k ? ", " : "", type_c(operand_dtype(let, k)),
                     letters[k]);
        }
        text_add(e->helpers, ")\n{\n    return %s;\n}\n", expression);
    }
    return name;
}

/* With operands that are names, literals, or in parentheses.  Compilers warn of what is compared
 * with itself. */
static const char *
apply(Emit *e, const Let *let, const char *const *operands)
{
    const char *round = rounding(let), *made;
    bool twice = let->nargs == 2 && strcmp(operands[0], operands[1]) == 0;
    if (converts(let)) {
        made = is_copy(let) ? operands[0]
                            : cx_format(e->cx, "dlc_%s(%s)", conversion(e->cx, let), operands[0]);
    } else if (reads_once(row_expression(let)) && !twice) {
        made = expression_of(e, let, operands);
    } else {
        Text all = {.cx = e->cx};
        for (int k = 0; k < let->nargs; k++) {
            text_add(&all, "%s%s", k ? ", " : "", operands[k]);
        }
        made = cx_format(e->cx, "%s(%s)", row_function(e, let), all.text);
    }
    return round ? cx_format(e->cx, "dlc_%s(%s)", round, made) : made;
}

const char *
c_map(Emit *e, const Let *let)
{
    const char *operands[3];
    for (int k = 0; k < let->nargs; k++) {
        operands[k] = c_value(e, let->args[k], operand_dtype(let, k));
    }
    return apply(e, let, operands);
}

const char *
c_combined(Emit *e, const Let *update, const char *a, const char *b)
{
    const char *operands[] = {a, b};
    return apply(e, update_map(e, update), operands);
}
