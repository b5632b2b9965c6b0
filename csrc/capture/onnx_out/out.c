/* From a program to a graph: values, nodes, constants, and the walk over the lets. */
#include "out.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_SHOWN = 20 };

const OutRow out_rows[OP_COUNT] = {
#define ROW(op, builder, onnx, types) [OP_##op] = {out_##builder, onnx, types},
#include "out.def"
};

void
out_refuse(Out *o, const char *format, ...)
{
    Text why = {.cx = o->cx};
    va_list args;
    va_start(args, format);
    text_vadd(&why, format, args);
    va_end(args);
    fail(o->cx, DIAG_ONNX_NODE, why.text);
}

/* ---- values and nodes ---- */

static int
value_new(Out *o, OutValue v)
{
    o->values = cx_grow(o->cx, o->values, o->nvalues, sizeof *o->values);
    o->values[o->nvalues] = v;
    return o->nvalues++;
}

static int *
appended(Cx *cx, int *list, int n, int number)
{
    list = cx_grow(cx, list, n, sizeof *list);
    list[n] = number;
    return list;
}

int
out_input(Out *o, const char *stem, const Type *t)
{
    OutGraph *g = o->graph;
    int number = value_new(o, (OutValue){.stem = stem, .type = t, .graph = g});
    g->inputs = appended(o->cx, g->inputs, g->ninputs++, number);
    return number;
}

void
out_give(Out *o, int number)
{
    OutGraph *g = o->graph;
    if (!o->values[number].node || o->values[number].graph != g) {
        number = out1(o, "Identity", o->values[number].type, number);
    }
    g->outputs = appended(o->cx, g->outputs, g->noutputs++, number);
}

OutNode *
out_any(Out *o, const char *op, int nin, const int *in, int nout)
{
    OutGraph *g = o->graph;
    OutNode *node = cx_alloc(o->cx, sizeof *node);
    *node = (OutNode){.op = op, .nin = nin, .nout = nout};
    node->in = cx_copy(o->cx, in, (size_t)nin * sizeof *in);
    node->out = cx_alloc(o->cx, (size_t)(nout + 1) * sizeof *node->out);
    g->nodes = cx_grow(o->cx, g->nodes, g->n, sizeof(OutNode *));
    g->nodes[g->n++] = node;
    return node;
}

int
out_new(Out *o, OutNode *node, int k, const Type *t)
{
    const char *stem = o->let && o->let->loc.node ? o->let->loc.node
                       : o->let                   ? op_info[o->let->op].name
                                                  : "size";
    OutValue v = {.stem = stem, .type = t, .graph = o->graph, .node = node};
    return node->out[k] = value_new(o, v);
}

int
out_node(Out *o, const char *op, const Type *t, int nin, const int *in, OutAttr a)
{
    OutNode *node = out_any(o, op, nin, in, 1);
    node->attrs[0] = a;
    node->nattrs = a.name != NULL;
    return out_new(o, node, 0, t);
}

int
out1(Out *o, const char *op, const Type *t, int a)
{
    return out_node(o, op, t, 1, &a, NO_ATTR);
}

int
out2(Out *o, const char *op, const Type *t, int a, int b)
{
    return out_node(o, op, t, 2, (int[]){a, b}, NO_ATTR);
}

int
out3(Out *o, const char *op, const Type *t, int a, int b, int c)
{
    return out_node(o, op, t, 3, (int[]){a, b, c}, NO_ATTR);
}

OutAttr
out_int(const char *name, int64_t i)
{
    return (OutAttr){.name = name, .i = i};
}

OutAttr
out_text(const char *name, const char *text)
{
    return (OutAttr){.name = name, .text = text};
}

OutAttr
out_list(Cx *cx, const char *name, int n, const int64_t *ints)
{
    return (OutAttr){.name = name, .ints = cx_copy(cx, ints, (size_t)n * sizeof *ints), .n = n};
}

const Type *
out_type(const Out *o, int number)
{
    return o->values[number].type;
}

/* ---- constants: each is there once, for all graphs ---- */

static int
constant(Out *o, const Type *t, int n, const int64_t *ints, double f)
{
    for (int k = 0; k < o->nconstants; k++) {
        const OutValue *v = &o->values[o->constants[k]];
        if (v->type == t && !v->ints == !ints &&
            (ints ? memcmp(v->ints, ints, (size_t)n * sizeof *ints) == 0
                  : memcmp(&v->f, &f, sizeof f) == 0)) {
            return o->constants[k];
        }
    }
    OutValue v = {.stem = "constant", .type = t, .f = f, .is_constant = true};
    v.ints = ints ? cx_copy(o->cx, ints, (size_t)n * sizeof *ints) : NULL;
    o->constants = appended(o->cx, o->constants, o->nconstants++, o->nvalues);
    return value_new(o, v);
}

int
out_scalar(Out *o, Dtype dtype, double f)
{
    return constant(o, type_scalar(o->cx, dtype), 1, NULL, f);
}

int
out_whole(Out *o, Dtype dtype, int64_t i)
{
    return constant(o, type_scalar(o->cx, dtype), 1, &i, 0);
}

int
out_literal(Out *o, Dtype dtype, Literal l)
{
    bool is_float = dtype_info[dtype].class == CLASS_FLOAT;
    return is_float ? out_scalar(o, dtype, l.is_int ? (double)l.i : l.f)
                    : out_whole(o, dtype, l.is_int ? l.i : (int64_t)l.f);
}

int
out_ints(Out *o, int n, const int64_t *ints)
{
    Dim length = dim_int(o->cx, n);
    return constant(o, type_of(o->cx, DT_i64, 1, &length), n, ints, 0);
}

int
out_cast(Out *o, int number, Dtype to)
{
    const Type *t = out_type(o, number);
    int64_t onnx = 0;
    switch (to) {
    case DT_f32:
        onnx = 1;
        break;
    case DT_u8:
        onnx = 2;
        break;
    case DT_i8:
        onnx = 3;
        break;
    case DT_i16:
        onnx = 5;
        break;
    case DT_i32:
        onnx = 6;
        break;
    case DT_i64:
        onnx = 7;
        break;
    case DT_bool:
        onnx = 9;
        break;
    case DT_f16:
        onnx = 10;
        break;
    case DT_f64:
        onnx = 11;
        break;
    case DT_bf16:
        onnx = 16;
        break;
    default:
        out_refuse(o, "ONNX computes with no %s", dtype_info[to].name);
    }
    return t->dtype == to
               ? number
               : out_node(o, "Cast", type_with(o->cx, t, to), 1, &number, out_int("to", onnx));
}

/* ---- operands and results ---- */

static Place *
place_of(Out *o, const Value *v)
{
    Place *p = &o->places[v->id];
    if (p->whole < 0) {
        fail(o->cx, DIAG_ONNX_NODE, ""); /* a let before it has no counterpart */
    }
    return p;
}

int
out_arg(Out *o, int k)
{
    const Value *v = o->let->args[k];
    return v->name ? place_of(o, v)->whole
                   : out_literal(o, o->let->res[0]->type->dtype, v->literal);
}

Dtype
out_computed(Out *o, Dtype dtype)
{
    DtypeClass class = dtype_info[dtype].class;
    bool is_wide = dtype == DT_f32 || dtype == DT_f64 || dtype == DT_i32 || dtype == DT_i64;
    bool is_known = class == CLASS_BOOL || class == CLASS_INT || class == CLASS_FLOAT;
    if (!is_known) {
        out_refuse(o, "ONNX computes with no %s", dtype_info[dtype].name);
    }
    return is_wide || *o->row->types == 'A' ? dtype
           : class == CLASS_BOOL            ? DT_i32
                                            : dtype_info[dtype].compute;
}

Dtype
out_dtype(Out *o)
{
    const Let *let = o->let;
    for (int k = let->op == OP_where; k < let->nargs; k++) {
        if (let->args[k]->name) {
            return out_computed(o, let->args[k]->type->dtype);
        }
    }
    return out_computed(o, let->res[0]->type->dtype);
}

/* The first operand that has to be whole, so that the result has its shape. */
static int
whole_operand(Out *o)
{
    int first = -1;
    for (int k = 0; k < o->let->nargs; k++) {
        const Value *v = o->let->args[k];
        if (v->name && place_of(o, v)->whole == place_of(o, v)->part) {
            return k;
        }
        first = first < 0 && v->name ? k : first;
    }
    return first;
}

int
out_operand(Out *o, int k, Dtype dtype)
{
    const Value *v = o->let->args[k];
    if (!v->name) {
        return out_literal(o, dtype, v->literal);
    }
    Place p = *place_of(o, v);
    return out_cast(o, k == whole_operand(o) ? p.whole : p.part, dtype);
}

const Type *
out_as(Out *o, Dtype dtype)
{
    return type_with(o->cx, o->let->res[0]->type, dtype);
}

void
out_places(Out *o, int whole, int part)
{
    o->places[o->let->res[0]->id] = (Place){whole, part};
}

void
out_result(Out *o, int number)
{
    number = out_cast(o, number, o->let->res[0]->type->dtype);
    out_places(o, number, number);
}

/* ---- the walk ---- */

static void
step(Cx *cx, void *arg)
{
    Out *o = arg;
    (void)cx;
    for (int k = 0; k < o->let->nargs; k++) {
        if (o->let->args[k]->name) {
            place_of(o, o->let->args[k]);
        }
    }
    if (!o->row->build) {
        out_refuse(o, "ONNX has no %s", op_info[o->let->op].name);
    }
    o->row->build(o);
}

/* The let's first line, with its number in the text of the program. */
static void
is_wrong(Out *o, const char *why)
{
    Text let = {.cx = o->cx}, all = {.cx = o->cx};
    print_let(o->let, 0, &let);
    print_fn(o->top, &all);
    let.text[strcspn(let.text, "\n")] = '\0';
    const char *at = strstr(all.text, let.text);
    int line = at != NULL;
    for (const char *c = all.text; c < at; c++) {
        line += *c == '\n';
    }
    if (o->nwrong++ < MAX_SHOWN) {
        text_add(&o->wrong, "\n  line %d: %s: %s", line, let.text, why);
    }
}

void
out_body(Out *o, const Fn *body)
{
    for (int k = 0; k < body->body->n; k++) {
        int nsizes = o->nsizes, nnodes = o->graph->n;
        const Let *around = o->let;
        const OutRow *row = o->row;
        OutGraph *graph = o->graph;
        const Fn *fn = o->fn;
        Place *places = o->places;
        o->let = body->body->lets[k];
        o->row = &out_rows[o->let->op];
        if (!cx_try(o->cx, step, o)) {
            const Diag *diag = cx_diag(o->cx);
            if (diag->code != DIAG_ONNX_NODE) {
                fail_again(o->cx);
            }
            o->graph = graph;
            o->fn = fn;
            o->places = places;
            o->let = body->body->lets[k];
            o->nsizes = nsizes;
            graph->n = nnodes;
            if (*diag->message) {
                is_wrong(o, diag->message);
            }
        }
        o->let = around;
        o->row = row;
    }
    for (int k = 0; k < body->body->nrets && !o->nwrong; k++) {
        const Value *v = body->body->rets[k];
        out_give(o, place_of(o, v)->whole);
    }
}

/* What no output is computed from, goes. */
static void
read_back(Out *o, OutGraph *g)
{
    for (int k = 0; k < g->noutputs; k++) {
        o->values[g->outputs[k]].is_read = true;
    }
    for (int k = g->n - 1; k >= 0; k--) {
        OutNode *node = g->nodes[k];
        for (int r = 0; r < node->nout; r++) {
            node->is_read |= o->values[node->out[r]].is_read;
        }
        for (int j = 0; j < 2 && node->is_read && node->bodies[j]; j++) {
            read_back(o, node->bodies[j]);
        }
        for (int i = 0; i < node->nin && node->is_read; i++) {
            if (node->in[i] >= 0) {
                o->values[node->in[i]].is_read = true;
            }
        }
    }
}

OutGraph *
out_program(Out *o, const Fn *fn)
{
    Cx *cx = o->cx;
    o->top = o->fn = fn;
    o->wrong.cx = cx;
    o->graph = cx_alloc(cx, sizeof *o->graph);
    o->places = cx_alloc(cx, (size_t)fn->nvalues * sizeof *o->places);
    for (int k = 0; k < fn->nvalues; k++) {
        o->places[k] = (Place){-1, -1};
    }
    for (int k = 0; k < fn->nparams; k++) {
        const Value *v = fn->params[k];
        int number = out_input(o, v->name, v->type);
        o->places[v->id] = (Place){number, number};
    }
    out_body(o, fn);
    if (o->nwrong > MAX_SHOWN) {
        text_add(&o->wrong, "\n  and %d more", o->nwrong - MAX_SHOWN);
    }
    if (o->nwrong) {
        fail(cx, DIAG_ONNX_LETS, o->nwrong, o->nwrong == 1 ? "" : "s", o->wrong.text);
    }
    read_back(o, o->graph);
    return o->graph;
}
