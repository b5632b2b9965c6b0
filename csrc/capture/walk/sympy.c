/* Symbolic integers and floats of torch to dims and scalars.
 *
 * A SymInt's expression is a tree of sympy. torch keeps sizes in integers alone (FloorDiv, Mod,
 * Max, ...), so nearly every node has a dim.  An expression without one contains floats: the walk
 * makes a Python call that computes it, and a graph that is taken directly is refused. */
#include "walk.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_POWER = 16 };       /* a higher one is computed by Python */

static Dim
remembered(Walk *w, PyObject *memo, PyObject *key)
{
    PyObject *number = PyDict_GetItemWithError(memo, key);
    if (!number && PyErr_Occurred()) {
        python_failed(w);
    }
    return number ? (Dim)PyLong_AsUnsignedLong(number) : DIM_NONE;
}

static void
remember(Walk *w, PyObject *memo, PyObject *key, Dim d)
{
    if (PyDict_SetItem(memo, key, own(w, PyLong_FromUnsignedLong(d))) < 0) {
        python_failed(w);
    }
}

static int64_t
int_of(Walk *w, PyObject *integer)
{
    int overflow;
    PyObject *whole = own(w, PyNumber_Long(integer));
    int64_t value = PyLong_AsLongLongAndOverflow(whole, &overflow);
    if (overflow) {
        refuse(w, "an integer does not fit in 64 bits");
    }
    return value;
}

/* An end of a symbol's range; an end that is no Integer is infinite. */
static int64_t
bound_end(Walk *w, PyObject *range, PyObject *end, int64_t otherwise)
{
    PyObject *value = attr(w, range, end);
    return attr_true(w, value, py.name.is_Integer) ? int_of(w, value) : otherwise;
}

static int64_t
common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static bool
is_kind(PyObject *expr, const char *kind)
{
    const char *type = Py_TYPE(expr)->tp_name, *dot = strrchr(type, '.');
    return strcmp(dot ? dot + 1 : type, kind) == 0;
}

/* The expression by * (symbol // over). */
typedef struct {
    int64_t by, over;
} Rounded;

/* Reads such an expression. False: it has another form. */
static bool
rounded_of(Walk *w, PyObject *expr, PyObject *symbol, Rounded *out)
{
    bool product = is_kind(expr, "Mul"), quotient = is_kind(expr, "FloorDiv");
    PyObject *args = product || quotient ? attr(w, expr, py.name.args) : NULL;
    PyObject *number = args && PyTuple_GET_SIZE(args) == 2 ? PyTuple_GET_ITEM(args, product ? 0 : 1)
                                                           : NULL;
    if (!args) {
        *out = (Rounded){1, 1};
        return PyObject_RichCompareBool(expr, symbol, Py_EQ) == 1;
    }
    if (!number || !attr_true(w, number, py.name.is_Integer) ||
        !rounded_of(w, PyTuple_GET_ITEM(args, product ? 1 : 0), symbol, out)) {
        return false;
    }
    int64_t n = int_of(w, number), *to = product ? &out->by : &out->over;
    bool once = *to == 1 && n > 0 && n < 1 << 20 && (product || out->by == 1);
    *to = once ? n : *to;
    return once;
}

/* Reads a guard about the symbol, for which a divisor is known: the symbol is a multiple of the
 * result.  Torch adds a guard where sizes meet: s == 2*(s // 2), if a size that was halved and
 * doubled is joined with the original. */
static int64_t
divisor_by_guard(Walk *w, PyObject *guard, PyObject *symbol, int64_t divisor)
{
    PyObject *expr = attr(w, guard, py.name.expr);
    PyObject *args = is_kind(expr, "Equality") ? attr(w, expr, py.name.args) : NULL;
    Rounded a, b;
    if (!args || !rounded_of(w, PyTuple_GET_ITEM(args, 0), symbol, &a) ||
        !rounded_of(w, PyTuple_GET_ITEM(args, 1), symbol, &b) || a.by * b.over != b.by * a.over) {
        return divisor;
    }
    bool known = divisor < 1 << 20, of_a = known && divisor % a.over == 0,
         of_b = known && divisor % b.over == 0;
    divisor = of_a ? common_multiple(divisor, b.over) : divisor;
    return of_b ? common_multiple(divisor, a.over) : divisor;
}

/* The divisor of the symbol that torch has guarded: Mod(symbol, integer) in shape_env.divisible.
 * sympy may have had the remainder earlier, of a symbol that is equal but not identical.  Also uses
 * its other guards. */
static int64_t
divisor_of(Walk *w, PyObject *expr, PyObject *shape_env)
{
    int64_t divisor = 1;
    PyObject *facts = attr_or_null(w, shape_env, py.name.divisible);
    PyObject *list = facts ? own(w, PySequence_List(facts)) : NULL;
    for (Py_ssize_t k = 0; list && k < PyList_GET_SIZE(list); k++) {
        PyObject *args = attr(w, PyList_GET_ITEM(list, k), py.name.args);
        if (PyTuple_GET_SIZE(args) == 2 &&
            PyObject_RichCompareBool(PyTuple_GET_ITEM(args, 0), expr, Py_EQ) == 1 &&
            attr_true(w, PyTuple_GET_ITEM(args, 1), py.name.is_Integer)) {
            int64_t by = int_of(w, PyTuple_GET_ITEM(args, 1));
            bool small = by > 0 && by < 1 << 20 && divisor < 1 << 20;
            divisor = small ? common_multiple(divisor, by) : divisor;
        }
    }
    PyObject *guards = attr_or_null(w, shape_env, py.name.guards);
    int64_t before = 0;
    /* A guard may say more after a later one: s//2 == 2*(s // 4) after s == 2*(s // 2). */
    while (guards && PyList_Check(guards) && divisor != before) {
        before = divisor;
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(guards); k++) {
            divisor = divisor_by_guard(w, PyList_GET_ITEM(guards, k), expr, divisor);
        }
    }
    return divisor;
}

static Dim
symbol(Walk *w, PyObject *expr, PyObject *shape_env)
{
    const char *name = utf8(w, attr(w, expr, py.name.name));
    if (!attr_true(w, expr, py.name.is_integer)) {
        refuse(w, "a size depends on the float %s, which is known at run time only", name);
    }
    Dim d = dim_size(w->cx, name);
    PyObject *ranges = attr(w, shape_env, py.name.var_to_range);
    PyObject *range = own(w, PyObject_CallMethodOneArg(ranges, py.name.get, expr));
    if (range != Py_None) {
        Range r = {bound_end(w, range, py.name.lower, -DIM_INF),
                   bound_end(w, range, py.name.upper, DIM_INF)};
        dim_declare(w->cx, d, r, divisor_of(w, expr, shape_env));
    }
    return d;
}

typedef Dim (*DimOp)(Cx *cx, Dim a, Dim b);

/* Functions of two or more operands that fold from the left. */
static DimOp
dim_function(const char *name)
{
    static const struct {
        const char *name;
        DimOp op;
    } rows[] = {
        {"FloorDiv", dim_div}, {"CleanDiv", dim_div}, {"Mod", dim_mod}, {"PythonMod", dim_mod},
        {"Max", dim_max},      {"Min", dim_min},      {"Add", dim_add}, {"Mul", dim_mul},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(rows[k].name, name) == 0) {
            return rows[k].op;
        }
    }
    return NULL;
}

/* Computes a power whose exponent is a constant, as a product. */
static Dim
power(Walk *w, Dim base, Dim exponent)
{
    int64_t count = 0;
    dim_is_int(w->cx, exponent, &count);
    Dim d = dim_int(w->cx, 1);
    while (count-- > 0) {
        d = dim_mul(w->cx, d, base);
    }
    return d;
}

/* TruncToInt or FloorToInt of a constant times a size, neither negative, as torch scales sizes. */
static Dim
scaled_size(Walk *w, PyObject *product, PyObject *shape_env)
{
    PyObject *args = attr(w, product, py.name.args);
    if (strcmp(Py_TYPE(product)->tp_name, "Mul") || PyTuple_GET_SIZE(args) != 2 ||
        !attr_true(w, PyTuple_GET_ITEM(args, 0), py.name.is_Float) ||
        strcmp(Py_TYPE(PyTuple_GET_ITEM(args, 1))->tp_name, "ToFloat")) {
        return DIM_NONE;
    }
    double scale = PyFloat_AsDouble(own(w, PyNumber_Float(PyTuple_GET_ITEM(args, 0))));
    PyObject *size = PyTuple_GET_ITEM(attr(w, PyTuple_GET_ITEM(args, 1), py.name.args), 0);
    Dim d = dim_of_expr(w, size, shape_env);
    bool known = scale >= 0 && scale <= DBL_MAX && dim_le(w->cx, dim_int(w->cx, 0), d);
    return known ? dim_scale(w->cx, d, scale) : DIM_NONE;
}

/* A quotient of whole numbers, rounded: float64 has it near enough for torch's to be the same. */
static Dim
rounded_quotient(Walk *w, char way, PyObject *quotient, PyObject *shape_env)
{
    Cx *cx = w->cx;
    PyObject *args = attr(w, quotient, py.name.args);
    Dim a = dim_of_expr(w, PyTuple_GET_ITEM(args, 0), shape_env),
        b = dim_of_expr(w, PyTuple_GET_ITEM(args, 1), shape_env), none = dim_int(cx, 0);
    if (!dim_lt(cx, none, b) || (way == 'T' && !dim_le(cx, none, a))) {
        return DIM_NONE;
    }
    return way == 'C' ? dim_sub(cx, none, dim_div(cx, dim_sub(cx, none, a), b)) : dim_div(cx, a, b);
}

/* CeilToInt, FloorToInt or TruncToInt of x in whole numbers; DIM_NONE: there is no such form. */
static Dim
rounded_size(Walk *w, const char *name, PyObject *x, PyObject *shape_env)
{
    bool ceil = strcmp(name, "CeilToInt") == 0;
    if (!ceil && strcmp(name, "FloorToInt") && strcmp(name, "TruncToInt")) {
        return DIM_NONE;
    }
    if (is_kind(x, "IntTrueDiv")) {
        return rounded_quotient(w, *name, x, shape_env);
    }
    return ceil ? DIM_NONE : scaled_size(w, x, shape_env);
}

/* Functions that compound() has, besides those that fold: a power, if its exponent is constant. */
static bool
has_form(Walk *w, PyObject *expr, const char *name)
{
    if (strcmp(name, "Pow") == 0 || strcmp(name, "PowByNatural") == 0) {
        PyObject *exponent = PyTuple_GET_ITEM(attr(w, expr, py.name.args), 1);
        int64_t count = attr_true(w, exponent, py.name.is_Integer) ? int_of(w, exponent) : -1;
        return count >= 0 && count <= MAX_POWER;
    }
    return strcmp(name, "ModularIndexing") == 0 || strcmp(name, "Identity") == 0;
}

static Dim truth_of_expr(Walk *w, PyObject *expr, PyObject *shape_env);

/* Translates Piecewise((a, condition), .., (z, True)), from the last pair to the first. */
static Dim
piecewise(Walk *w, PyObject *args, PyObject *shape_env)
{
    Dim d = dim_int(w->cx, 0);
    for (Py_ssize_t k = PyTuple_GET_SIZE(args) - 1; k >= 0; k--) {
        PyObject *pair = attr(w, PyTuple_GET_ITEM(args, k), py.name.args);
        Dim value = dim_of_expr(w, PyTuple_GET_ITEM(pair, 0), shape_env);
        Dim truth = truth_of_expr(w, PyTuple_GET_ITEM(pair, 1), shape_env);
        Dim otherwise = dim_mul(w->cx, dim_sub(w->cx, dim_int(w->cx, 1), truth), d);
        d = dim_add(w->cx, dim_mul(w->cx, truth, value), otherwise);
    }
    return d;
}

static Dim
compound(Walk *w, PyObject *expr, PyObject *shape_env)
{
    const char *name = Py_TYPE(expr)->tp_name;
    PyObject *args = attr(w, expr, py.name.args);
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    DimOp op = dim_function(name);
    if (strcmp(name, "Piecewise") == 0) {
        return piecewise(w, args, shape_env);
    }
    Dim rounded = n == 1 ? rounded_size(w, name, PyTuple_GET_ITEM(args, 0), shape_env) : DIM_NONE;
    if (rounded != DIM_NONE) {
        return rounded;
    }
    if (!n || !(op || has_form(w, expr, name))) {
        if (!w->direct) {
            return whole_build(w, expr, shape_env);
        }
        refuse(w, "a size cannot be written in whole numbers: %s",
               utf8(w, own(w, PyObject_Str(expr))));
    }
    Dim d = dim_of_expr(w, PyTuple_GET_ITEM(args, 0), shape_env);
    for (Py_ssize_t k = 1; op && k < n; k++) {
        d = op(w->cx, d, dim_of_expr(w, PyTuple_GET_ITEM(args, k), shape_env));
    }
    if (op || n == 1) {
        return d;
    }
    Dim e = dim_of_expr(w, PyTuple_GET_ITEM(args, 1), shape_env);
    if (n == 3) {                               /* ModularIndexing(base, divisor, modulus) */
        Dim modulus = dim_of_expr(w, PyTuple_GET_ITEM(args, 2), shape_env);
        return dim_mod(w->cx, dim_div(w->cx, d, e), modulus);
    }
    return power(w, d, e);
}

Dim
dim_of_expr(Walk *w, PyObject *expr, PyObject *shape_env)
{
    Dim d = remembered(w, w->dims, expr);
    if (d == DIM_NONE) {
        d = attr_true(w, expr, py.name.is_Symbol)    ? symbol(w, expr, shape_env)
            : attr_true(w, expr, py.name.is_Integer) ? dim_int(w->cx, int_of(w, expr))
                                                     : compound(w, expr, shape_env);
        remember(w, w->dims, expr, d);
    }
    return d;
}

Dim
dim_of(Walk *w, PyObject *integer)
{
    if (PyLong_Check(integer)) {
        return dim_int(w->cx, int_of(w, integer));
    }
    if (!PyObject_TypeCheck(integer, (PyTypeObject *)py.SymInt)) {
        refuse(w, "a size is neither an int nor a torch.SymInt");
    }
    /* expr is _expr after the replacements torch has learned; they stay as they are in a walk. */
    PyObject *node = attr(w, integer, py.name.node), *given = attr(w, node, py.name._expr);
    Dim d = remembered(w, w->given, given);
    if (d == DIM_NONE) {
        d = dim_of_expr(w, attr(w, node, py.name.expr), attr(w, node, py.name.shape_env));
        remember(w, w->given, given, d);
    }
    return d;
}

/* ---- truth values ---- */

static Dim
dim_clamped(Cx *cx, Dim d)
{
    return dim_min(cx, dim_max(cx, d, dim_int(cx, 0)), dim_int(cx, 1));
}

/* Returns a dim that is 1 if a and b differ, else 0. */
static Dim
differ(Cx *cx, Dim a, Dim b)
{
    return dim_min(cx, dim_max(cx, dim_sub(cx, a, b), dim_sub(cx, b, a)), dim_int(cx, 1));
}

/* Returns a dim that is 1 if a < b + by, else 0. */
static Dim
less(Cx *cx, Dim a, Dim b, int by)
{
    return dim_clamped(cx, dim_add(cx, dim_sub(cx, b, a), dim_int(cx, by)));
}

static Dim
relation(Walk *w, const char *name, Dim a, Dim b)
{
    Cx *cx = w->cx;
    if (strcmp(name, "Equality") == 0) {
        return dim_sub(cx, dim_int(cx, 1), differ(cx, a, b));
    }
    if (strcmp(name, "Unequality") == 0) {
        return differ(cx, a, b);
    }
    if (strcmp(name, "StrictLessThan") == 0 || strcmp(name, "LessThan") == 0) {
        return less(cx, a, b, *name == 'L');
    }
    if (strcmp(name, "StrictGreaterThan") == 0 || strcmp(name, "GreaterThan") == 0) {
        return less(cx, b, a, *name == 'G');
    }
    return DIM_NONE;
}

static Dim
truth_of_expr(Walk *w, PyObject *expr, PyObject *shape_env)
{
    Cx *cx = w->cx;
    const char *name = Py_TYPE(expr)->tp_name;
    if (strcmp(name, "BooleanTrue") == 0 || strcmp(name, "BooleanFalse") == 0) {
        return dim_int(cx, name[7] == 'T');
    }
    PyObject *args = attr(w, expr, py.name.args);
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    bool all = strcmp(name, "And") == 0, any = strcmp(name, "Or") == 0,
         not = strcmp(name, "Not") == 0;
    if (all || any || not) {
        Dim d = truth_of_expr(w, PyTuple_GET_ITEM(args, 0), shape_env);
        for (Py_ssize_t k = 1; k < n; k++) {
            Dim next = truth_of_expr(w, PyTuple_GET_ITEM(args, k), shape_env);
            d = all ? dim_min(cx, d, next) : dim_max(cx, d, next);
        }
        return not ? dim_sub(cx, dim_int(cx, 1), d) : d;
    }
    Dim d = DIM_NONE;
    if (n == 2 && attr_true(w, PyTuple_GET_ITEM(args, 0), py.name.is_integer) &&
        attr_true(w, PyTuple_GET_ITEM(args, 1), py.name.is_integer)) {
        d = relation(w, name, dim_of_expr(w, PyTuple_GET_ITEM(args, 0), shape_env),
                     dim_of_expr(w, PyTuple_GET_ITEM(args, 1), shape_env));
    }
    if (d == DIM_NONE) {
        refuse(w, "a condition has no form in whole numbers: %s",
               utf8(w, own(w, PyObject_Str(expr))));
    }
    return d;
}

Dim
truth_of(Walk *w, PyObject *sym_bool)
{
    PyObject *node = attr(w, sym_bool, py.name.node);
    return truth_of_expr(w, attr(w, node, py.name.expr), attr(w, node, py.name.shape_env));
}

/* ---- floats ---- */

static Value *
in_double(Walk *w, Value *v)
{
    return value_is_const(v) ? v : build_cast(w->b, v, DT_f64);
}

static Value *float_expr(Walk *w, PyObject *expr, PyObject *shape_env);

static Value *
float_operands(Walk *w, Op op, PyObject *args, PyObject *shape_env)
{
    Value *v = float_expr(w, PyTuple_GET_ITEM(args, 0), shape_env);
    for (Py_ssize_t k = 1; k < PyTuple_GET_SIZE(args); k++) {
        Value *next = float_expr(w, PyTuple_GET_ITEM(args, k), shape_env);
        v = build_map(w->b, op, v, next, NULL);
    }
    return v;
}

/* The value of a float symbol: the parameter of that name, or a float of w->floats. */
Value *
float_symbol(Walk *w, PyObject *expr)
{
    const char *name = utf8(w, attr(w, expr, py.name.name));
    for (int k = 0; k < w->fn->nparams; k++) {
        if (strcmp(w->fn->params[k]->name, name) == 0) {
            return w->fn->params[k];
        }
    }
    for (int k = 0; k < w->nfloats; k++) {
        if (strcmp(w->floats[k].name, name) == 0) {
            return w->floats[k].v;
        }
    }
    refuse(w, "the float %s is not an input of the graph", name);
}

static Value *
float_expr(Walk *w, PyObject *expr, PyObject *shape_env)
{
    static const struct {
        const char *name;
        Op op;
    } rows[] = {
        {"IntTrueDiv", OP_div},
        {"FloatTrueDiv", OP_div},
        {"Add", OP_add},
        {"Mul", OP_mul},
        {"FloatPow", OP_pow},
        {"Pow", OP_pow},
        {"OpaqueUnaryFn_sqrt", OP_sqrt},
        {"OpaqueUnaryFn_exp", OP_exp},
        {"OpaqueUnaryFn_log", OP_log},
        {"OpaqueUnaryFn_log2", OP_log2},
        {"OpaqueUnaryFn_sin", OP_sin},
        {"OpaqueUnaryFn_cos", OP_cos},
        {"OpaqueUnaryFn_tanh", OP_tanh},
        {"TruncToFloat", OP_trunc},
    };
    const Type *scalar = type_scalar(w->cx, DT_f64);
    const char *name = Py_TYPE(expr)->tp_name;
    if (attr_true(w, expr, py.name.is_Integer) || attr_true(w, expr, py.name.is_Float) ||
        attr_true(w, expr, py.name.is_Rational)) {
        double f = PyFloat_AsDouble(own(w, PyNumber_Float(expr)));
        return build_const(w->b, scalar, (Literal){.f = f});
    }
    if (attr_true(w, expr, py.name.is_Symbol)) {
        if (!attr_true(w, expr, py.name.is_integer)) {
            return float_symbol(w, expr);
        }
        return in_double(w, build_size(w->b, dim_of_expr(w, expr, shape_env)));
    }
    PyObject *args = attr(w, expr, py.name.args);
    if (strcmp(name, "ToFloat") == 0) {
        return in_double(w, build_size(w->b, dim_of_expr(w, PyTuple_GET_ITEM(args, 0), shape_env)));
    }
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        bool whole = attr_true(w, expr, py.name.is_integer);
        if (!whole && strcmp(rows[k].name, name) == 0 && PyTuple_GET_SIZE(args) > 0) {
            if (op_info[rows[k].op].arity == 1) {
                Value *v = float_expr(w, PyTuple_GET_ITEM(args, 0), shape_env);
                return build_map(w->b, rows[k].op, v, NULL, NULL);
            }
            return float_operands(w, rows[k].op, args, shape_env);
        }
    }
    return in_double(w, build_size(w->b, dim_of_expr(w, expr, shape_env)));
}

void
float_bind(Walk *w, PyObject *sym_float, Value *v)
{
    PyObject *expr = attr(w, attr(w, sym_float, py.name.node), py.name.expr);
    if (attr_true(w, expr, py.name.is_Symbol)) {
        const char *name = utf8(w, attr(w, expr, py.name.name));
        w->floats = cx_grow(w->cx, w->floats, w->nfloats, sizeof *w->floats);
        w->floats[w->nfloats].name = cx_intern(w->cx, name, strlen(name));
        w->floats[w->nfloats++].v = v;
    }
}

Value *
number_of(Walk *w, PyObject *sym_float)
{
    PyObject *node = attr(w, sym_float, py.name.node);
    return float_expr(w, attr(w, node, py.name.expr), attr(w, node, py.name.shape_env));
}
