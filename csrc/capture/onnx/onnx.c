/* The table of ONNX operators, and what all builders share: inputs, attributes, calls of the
 * builders of aten.def, broadcasting. */
#include "onnx.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const OnnxRow onnx_rows[] = {
#define ROW(op, since, builder, overload, way) {op, since, onnx_##builder, overload, OP_##way},
#include "onnx.def"
};
const int onnx_nrows = sizeof onnx_rows / sizeof *onnx_rows;

/* The operators of ONNX itself have no domain; a row of another has it before the name. */
static bool
is_row_of(const OnnxRow *row, const OnnxNode *node)
{
    bool main = !*node->domain || strcmp(node->domain, "ai.onnx") == 0;
    size_t n = main ? 0 : strlen(node->domain);
    return main ? strcmp(row->op, node->op) == 0
                : strncmp(row->op, node->domain, n) == 0 && row->op[n] == '.' &&
                      strcmp(row->op + n + 1, node->op) == 0;
}

const OnnxRow *
onnx_find(const OnnxNode *node)
{
    const OnnxRow *found = NULL;
    for (int k = 0; k < onnx_nrows; k++) {
        const OnnxRow *row = &onnx_rows[k];
        if (is_row_of(row, node) && row->since <= node->version &&
            (!found || row->since > found->since)) {
            found = row;
        }
    }
    return found;
}

void
onnx_refuse(Onnx *o, const char *format, ...)
{
    Text text = {.cx = o->cx};
    va_list args;
    va_start(args, format);
    text_vadd(&text, format, args);
    va_end(args);
    fail(o->cx, DIAG_ONNX_NODE, text.text);
}

void
onnx_build(Onnx *o, const OnnxNode *node, const OnnxRow *row)
{
    o->node = node;
    o->row = row;
    o->in = cx_alloc(o->cx, (size_t)(node->ninputs + 1) * sizeof *o->in);
    o->out = cx_alloc(o->cx, (size_t)(node->noutputs + 1) * sizeof *o->out);
    for (int k = 0; k < node->ninputs; k++) {
        o->in[k] = node->inputs[k] < 0 ? NULL : o->values[node->inputs[k]];
    }
    row->build(o);
    for (int k = 0; k < node->noutputs; k++) {
        if (node->outputs[k] >= 0 && !o->out[k]) {
            onnx_refuse(o, "its output %d is not computed", k + 1);
        }
        const Type *t = node->outputs[k] >= 0 ? o->out[k]->type : NULL;
        for (int ax = 0; t && ax < t->rank; ax++) {
            int64_t size;
            if (dim_is_int(o->cx, t->dims[ax], &size) && size < 0) {
                onnx_refuse(o, "its output %d has a negative size", k + 1);
            }
        }
    }
    for (int k = 0; k < node->noutputs; k++) {
        if (node->outputs[k] >= 0) {
            o->values[node->outputs[k]] = onnx_wrapped(o, o->out[k], o->kinds[node->outputs[k]]);
        }
    }
}

/* ---- inputs and attributes ---- */

Value *
onnx_given(const Onnx *o, int k)
{
    return k < o->node->ninputs ? o->in[k] : NULL;
}

Value *
onnx_in(Onnx *o, int k)
{
    Value *v = onnx_given(o, k);
    if (!v) {
        onnx_refuse(o, "it has no input %d", k + 1);
    }
    return v;
}

int
onnx_axis(Onnx *o, int64_t axis, int rank)
{
    if (axis < -rank || axis >= rank) {
        onnx_refuse(o, "its axis %lld is none of %d", (long long)axis, rank);
    }
    return (int)(axis < 0 ? axis + rank : axis);
}

const OnnxAttr *
onnx_attr(const Onnx *o, const char *name)
{
    for (int k = 0; k < o->node->nattrs; k++) {
        if (strcmp(o->node->attrs[k].name, name) == 0) {
            return &o->node->attrs[k];
        }
    }
    return NULL;
}

int64_t
onnx_int(const Onnx *o, const char *name, int64_t otherwise)
{
    const OnnxAttr *a = onnx_attr(o, name);
    return a && a->kind == ONNX_INTS && a->n == 1 ? a->ints[0] : otherwise;
}

double
onnx_float(const Onnx *o, const char *name, double otherwise)
{
    const OnnxAttr *a = onnx_attr(o, name);
    return a && a->kind == ONNX_FLOATS && a->n == 1 ? a->floats[0] : otherwise;
}

const char *
onnx_text(const Onnx *o, const char *name, const char *otherwise)
{
    const OnnxAttr *a = onnx_attr(o, name);
    return a && a->kind == ONNX_TEXT ? a->text : otherwise;
}

bool
onnx_is_text(const Onnx *o, const char *name, const char *text, const char *otherwise)
{
    return strcmp(onnx_text(o, name, otherwise), text) == 0;
}

int
onnx_axes(Onnx *o, int k, const char *name, int rank, int *axes)
{
    const OnnxAttr *a = onnx_attr(o, name);
    const int64_t *given = a && a->kind == ONNX_INTS ? a->ints : NULL;
    int n = given ? a->n : 0, count = 0;
    bool has[MAX_RANK] = {false};
    if (k >= 0 && onnx_given(o, k)) {
        given = onnx_numbers(o, k, &n);
    }
    for (int i = 0; i < n; i++) {
        has[onnx_axis(o, given[i], rank)] = true;
    }
    for (int ax = 0; ax < rank; ax++) {
        if (has[ax]) {
            axes[count++] = ax;
        }
    }
    return count;
}

Dtype
onnx_dtype(Onnx *o, int64_t number)
{
    static const struct {
        int number;
        Dtype dtype;
    } rows[] = {
        {1, DT_f32},       {2, DT_u8},       {3, DT_i8},        {5, DT_i16},      {6, DT_i32},
        {7, DT_i64},       {9, DT_bool},     {10, DT_f16},      {11, DT_f64},     {14, DT_c64},
        {15, DT_c128},     {16, DT_bf16},    {4, DT_i32},       {12, DT_i64},     {13, DT_i64},
        {21, DT_u8},       {22, DT_i8},      {25, DT_u8},       {26, DT_i8},      {17, DT_f8_e4m3},
        {18, DT_f8_e4m3u}, {19, DT_f8_e5m2}, {20, DT_f8_e5m2u}, {24, DT_f8_e8m0},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (rows[k].number == number) {
            return rows[k].dtype;
        }
    }
    onnx_refuse(o, "dlc has no element type for ONNX's number %lld", (long long)number);
}

/* ---- the builders of aten.def ---- */

Arg
arg_v(Value *v)
{
    return (Arg){.kind = v ? ARG_TENSOR : ARG_NONE, .v = v};
}

Arg
arg_i(int64_t i)
{
    return (Arg){.kind = ARG_INT, .i = i};
}

Arg
arg_f(double f)
{
    return (Arg){.kind = ARG_FLOAT, .f = f};
}

Arg
arg_ints(Onnx *o, int n, const int64_t *ints)
{
    Arg *items = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *items);
    for (int k = 0; k < n; k++) {
        items[k] = arg_i(ints[k]);
    }
    return (Arg){.kind = ARG_LIST, .n = n, .items = items};
}

static bool
is_weight(const Arg *a)
{
    return a->kind == ARG_TENSOR && !a->v->def && !a->v->strides && a->v->type->rank > 1;
}

static bool
builds(Onnx *o, const char *overload, int nres, const Type **types, Value **res, int nargs,
       const Arg *args)
{
    const AtenRow *row = aten_find(overload);
    const Dim *strides[4] = {NULL};
    Aten n = {.b = o->b,
              .cx = o->cx,
              .number = DT_f32,
              .products = PRODUCTS_OWN,
              .images = row->product && o->images,
              .prepared = row->product && nargs > 1 && is_weight(&args[1]),
              .types = types,
              .strides = strides,
              .type = types[0],
              .nres = nres,
              .res = res,
              .args = args,
              .nargs = nargs};
    return aten_build(&n, row);
}

void
onnx_aten_all(Onnx *o, const char *overload, int nres, const Type **types, Value **res, int nargs,
              const Arg *args)
{
    if (!builds(o, overload, nres, types, res, nargs, args)) {
        onnx_refuse(o, "%s does not take these operands", overload);
    }
}

Value *
onnx_aten(Onnx *o, const char *overload, const Type *t, int nargs, const Arg *args)
{
    Value *v = NULL;
    onnx_aten_all(o, overload, 1, &t, &v, nargs, args);
    return v;
}

Value *
onnx_aten_or_none(Onnx *o, const char *overload, const Type *t, int nargs, const Arg *args)
{
    Value *v = NULL;
    return builds(o, overload, 1, &t, &v, nargs, args) ? v : NULL;
}

/* ---- broadcasting ---- */

/* One of two sizes that are broadcast: where one is a number other than 1, or both are sizes, a
 * call with others has no meaning, and build_broadcast refuses what is not known to be equal. */
static Dim
wider(Onnx *o, Dim a, Dim b)
{
    if (dim_is(o->cx, a, 1)) {
        return b;
    }
    return dim_is(o->cx, b, 1) || !dim_is_int(o->cx, b, NULL) ? a : b;
}

const Type *
onnx_broadcast(Onnx *o, Dtype dtype, int n, Value *const *values)
{
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int k = 0; k < n; k++) {
        int of = values[k]->type->rank;
        rank = of > rank ? of : rank;
    }
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = dim_int(o->cx, 1);
    }
    for (int k = 0; k < n; k++) {
        const Type *t = values[k]->type;
        for (int ax = 0; ax < t->rank; ax++) {
            Dim *to = &dims[rank - t->rank + ax];
            *to = wider(o, *to, t->dims[ax]);
        }
    }
    for (int k = 0; k < n; k++) {
        const Type *t = values[k]->type;
        for (int ax = 0; ax < t->rank; ax++) {
            Dim to = dims[rank - t->rank + ax];
            if (to != t->dims[ax] && !dim_is(o->cx, t->dims[ax], 1)) {
                Text text = {.cx = o->cx};
                dim_text(o->cx, t->dims[ax], &text);
                text_add(&text, " and ");
                dim_text(o->cx, to, &text);
                onnx_refuse(o,
                            "its operands have the sizes %s, which are not known to be equal: "
                            "dlc.load(.., sizes={..}) fixes one",
                            text.text);
            }
        }
    }
    return type_of(o->cx, dtype, rank, dims);
}

const Type *
onnx_resized(Onnx *o, const Type *t, int axis, Dim size, Dtype dtype)
{
    Dim dims[MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[axis] = size;
    return type_of(o->cx, dtype, t->rank, dims);
}

Value *
onnx_number(Onnx *o, double f)
{
    return build_float(o->b, f);
}

static Value *
repeated(Onnx *o, Value *v, const Type *t)
{
    return !v || value_is_const(v) ? v : build_broadcast(o->b, v, t->rank, t->dims);
}

Value *
onnx_map3(Onnx *o, Op op, Value *a, Value *b, Value *c)
{
    Value *all[3], *given[] = {a, b, c};
    int n = 0;
    for (int k = 0; k < 3; k++) {
        if (given[k] && !value_is_const(given[k])) {
            all[n++] = given[k];
        }
    }
    const Type *t = onnx_broadcast(o, DT_f32, n, all);
    return build_map(o->b, op, repeated(o, a, t), repeated(o, b, t), repeated(o, c, t));
}

Value *
onnx_map(Onnx *o, Op op, Value *a, Value *b)
{
    return onnx_map3(o, op, a, b, NULL);
}

Value *
onnx_add(Onnx *o, Value *a, Value *b)
{
    return onnx_map(o, OP_add, a, b);
}

Value *
onnx_mul(Onnx *o, Value *a, Value *b)
{
    return onnx_map(o, OP_mul, a, b);
}

Value *
onnx_flat(Onnx *o, Value *x, int axis)
{
    Dim dims[2] = {dim_int(o->cx, 1), dim_int(o->cx, 1)};
    for (int ax = 0; ax < x->type->rank; ax++) {
        dims[ax >= axis] = dim_mul(o->cx, dims[ax >= axis], x->type->dims[ax]);
    }
    return build_reshape(o->b, x, 2, dims);
}
