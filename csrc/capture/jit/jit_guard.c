/* The conditions on the sizes and strides of a call under which a variant may run.
 *
 * Python gives the conditions as stack code: a number or the name of a symbol is pushed, an
 * operation takes its operands from the stack, and "need" takes a truth value without which the
 * guard fails.  It is checked here once, so that running it needs no checks. */
#include "jit.h"

#include <string.h>

enum GuardCode {
    CODE_INT,
    CODE_SYMBOL,
    CODE_NOT,
    CODE_NEED,
    CODE_ADD,
    CODE_MUL,
    CODE_DIV,
    CODE_MOD,
    CODE_MAX,
    CODE_MIN,
    CODE_EQ,
    CODE_NE,
    CODE_LT,
    CODE_LE,
    CODE_AND,
    CODE_OR
};

static const struct {
    const char *text;
    enum GuardCode code;
} words[] = {
    {"not", CODE_NOT}, {"need", CODE_NEED}, {"+", CODE_ADD},   {"*", CODE_MUL}, {"//", CODE_DIV},
    {"%", CODE_MOD},   {"max", CODE_MAX},   {"min", CODE_MIN}, {"==", CODE_EQ}, {"!=", CODE_NE},
    {"<", CODE_LT},    {"<=", CODE_LE},     {"and", CODE_AND}, {"or", CODE_OR},
};

/* Returns by how many entries the instruction makes the stack longer. */
static int
growth(enum GuardCode code)
{
    return code == CODE_INT || code == CODE_SYMBOL ? 1 : code == CODE_NOT ? 0 : -1;
}

static int
bad(const char *what)
{
    PyErr_Format(PyExc_ValueError, "a guard with %s", what);
    return -1;
}

static int
symbol_position(PyObject *symbols, PyObject *name)
{
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(symbols); k++) {
        PyObject *row = PyList_GET_ITEM(symbols, k);
        if (PyUnicode_Compare(PyTuple_GET_ITEM(row, 0), name) == 0) {
            return (int)k;
        }
    }
    return bad("an unknown name");
}

/* One item of the program as code and operand. */
static int
read_item(PyObject *item, PyObject *symbols, enum GuardCode *code, int64_t *operand)
{
    if (PyLong_Check(item)) {
        *code = CODE_INT;
        *operand = PyLong_AsLongLong(item);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (!PyUnicode_Check(item)) {
        return bad("what is neither a number nor a word");
    }
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (PyUnicode_CompareWithASCIIString(item, words[k].text) == 0) {
            *code = words[k].code;
            return 0;
        }
    }
    *code = CODE_SYMBOL;
    *operand = symbol_position(symbols, item);
    return *operand < 0 ? -1 : 0;
}

static int
read_program(PyObject *program, PyObject *symbols, JitGuard *out)
{
    Py_ssize_t n = PyList_GET_SIZE(program);
    int depth = 0;
    out->code = PyMem_Calloc((size_t)(2 * n) + 1, sizeof *out->code);
    if (!out->code) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        enum GuardCode code;
        int64_t operand = 0;
        if (read_item(PyList_GET_ITEM(program, k), symbols, &code, &operand) < 0) {
            return -1;
        }
        int needs = code >= CODE_ADD ? 2 : code >= CODE_NOT ? 1 : 0;
        if (depth < needs || depth + growth(code) > JIT_STACK) {
            return bad("a stack that is too low or too high");
        }
        depth += growth(code);
        out->code[out->ncode++] = code;
        if (code <= CODE_SYMBOL) {
            out->code[out->ncode++] = operand;
        }
    }
    return depth ? bad("something left over") : 0;
}

static int
read_symbol(PyObject *row, PyObject *size_names, int narguments, JitSymbol *out)
{
    PyObject *name, *high;
    const char *what;
    long long low;
    if (!PyArg_ParseTuple(row, "UisiLO", &name, &out->argument, &what, &out->axis, &low, &high)) {
        return -1;
    }
    out->stride = strcmp(what, "stride") == 0;
    out->low = low;
    out->high = high == Py_None ? INT64_MAX : PyLong_AsLongLong(high);
    out->place = -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(size_names); k++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(size_names, k), name) == 0) {
            out->place = (int)k;
        }
    }
    if (out->argument < 0 || out->argument >= narguments || out->axis < 0 ||
        out->axis >= MAX_RANK) {
        return bad("a symbol that is nowhere");
    }
    return PyErr_Occurred() ? -1 : 0;
}

int
jit_guard_read(PyObject *symbols, PyObject *program, PyObject *size_names, int narguments,
               JitGuard *out)
{
    *out = (JitGuard){0};
    if (!PyList_Check(symbols) || !PyList_Check(program)) {
        return bad("what is not a list");
    }
    out->symbols = PyMem_Calloc((size_t)PyList_GET_SIZE(symbols) + 1, sizeof *out->symbols);
    if (!out->symbols) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(symbols); k++) {
        PyObject *row = PyList_GET_ITEM(symbols, k);
        if (!PyTuple_Check(row) ||
            read_symbol(row, size_names, narguments, &out->symbols[out->nsymbols++]) < 0) {
            return PyErr_Occurred() ? -1 : bad("a symbol that is not a tuple");
        }
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(size_names); k++) {
        bool found = false;
        for (int j = 0; j < out->nsymbols; j++) {
            found = found || out->symbols[j].place == (int)k;
        }
        if (!found) {
            return bad("a size that is nowhere");
        }
    }
    return read_program(program, symbols, out);
}

void
jit_guard_clear(JitGuard *guard)
{
    PyMem_Free(guard->symbols);
    PyMem_Free(guard->code);
    *guard = (JitGuard){0};
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) {                            /* -1: INT64_MIN / -1 would trap */
        return b ? (int64_t)(0 - (uint64_t)a) : 0;
    }
    int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t
apply(enum GuardCode code, int64_t a, int64_t b)
{
    switch (code) {
    case CODE_ADD:
        return a + b;
    case CODE_MUL:
        return a * b;
    case CODE_DIV:
        return floor_div(a, b);
    case CODE_MOD:
        return b ? a - floor_div(a, b) * b : 0;
    case CODE_MAX:
        return a > b ? a : b;
    case CODE_MIN:
        return a < b ? a : b;
    case CODE_EQ:
        return a == b;
    case CODE_NE:
        return a != b;
    case CODE_LT:
        return a < b;
    case CODE_LE:
        return a <= b;
    case CODE_AND:
        return a && b;
    default:
        return a || b;
    }
}

static bool
program_holds(const JitGuard *guard, const int64_t *values)
{
    int64_t stack[JIT_STACK], *top = stack;             /* top: the first free place */
    for (const int64_t *at = guard->code, *end = at + guard->ncode; at < end; at++) {
        switch ((enum GuardCode) * at) {
        case CODE_INT:
            *top++ = *++at;
            break;
        case CODE_SYMBOL:
            *top++ = values[*++at];
            break;
        case CODE_NOT:
            top[-1] = !top[-1];
            break;
        case CODE_NEED:
            if (!*--top) {
                return false;
            }
            break;
        default:
            top[-2] = apply((enum GuardCode) * at, top[-2], top[-1]);
            top--;
        }
    }
    return true;
}

bool
jit_guard_holds(const JitGuard *guard, const Taken *args, int64_t *values, int64_t *sizes)
{
    for (int k = 0; k < guard->nsymbols; k++) {
        const JitSymbol *s = &guard->symbols[k];
        const PlanTensor *t = &args[s->argument].tensor;
        int64_t value = s->stride ? t->strides[s->axis] : t->sizes[s->axis];
        if (value < s->low || value > s->high) {
            return false;
        }
        values[k] = value;
        if (s->place >= 0) {
            sizes[s->place] = value;
        }
    }
    return program_holds(guard, values);
}
