/* Einsum, and numbers as codes of few bits. */
#include "onnx.h"

#include <ctype.h>
#include <string.h>

/* ---- Einsum ---- */

/* The result's sizes by the letters of the equation; an ellipsis is the axes without one. */
void
onnx_einsum(Onnx *o)
{
    const char *given = onnx_text(o, "equation", "");
    char *text = cx_alloc(o->cx, strlen(given) + 1), *to = text;
    Dim of[128] = {DIM_NONE}, rest[MAX_RANK], dims[MAX_RANK];
    int nrest = 0, rank = 0, count[128] = {0};
    for (const char *c = given; *c; c++) {
        if (!isspace((unsigned char)*c)) {
            *to++ = *c;
        }
    }
    for (const char *p = text; (p = strchr(p, '.')); p += 3) {
        if (strncmp(p, "...", 3) != 0) {
            onnx_refuse(o, "its equation '%s' has a dot that is none of an ellipsis", given);
        }
    }
    const char *arrow = strstr(text, "->"), *c = text;
    for (int k = 0; k < o->node->ninputs; k++) {
        const Type *t = onnx_in(o, k)->type;
        int letters = 0, ax = 0;
        for (const char *p = c; *p && *p != ',' && p != arrow; p++) {
            letters += isalpha((unsigned char)*p) != 0;
        }
        for (; *c && *c != ',' && c != arrow; c++) {
            if (*c == '.') {
                int extra = t->rank - letters;
                for (int e = 0; e < extra && ax < t->rank; e++, ax++) {
                    int at = extra > nrest ? e : nrest - extra + e;
                    rest[at] = at < nrest && !dim_is(o->cx, rest[at], 1) ? rest[at] : t->dims[ax];
                }
                nrest = extra > nrest ? extra : nrest;
                c += 2;
            } else if (isalpha((unsigned char)*c) && ax < t->rank) {
                Dim *d = &of[(int)*c];
                *d = *d == DIM_NONE || dim_is(o->cx, *d, 1) ? t->dims[ax] : *d;
                count[(int)*c]++;
                ax++;
            } else {
                onnx_refuse(o, "its equation '%s' does not fit operand %d", given, k + 1);
            }
        }
        if (ax != t->rank) {
            onnx_refuse(o, "its equation '%s' does not name the %d axes of operand %d", given,
                        t->rank, k + 1);
        }
        c += *c == ',';
    }
    if (!arrow) {
        memcpy(dims, rest, (size_t)nrest * sizeof *dims);
        rank = nrest;
        for (int letter = 'A'; letter <= 'z' && rank < MAX_RANK; letter++) {
            if (count[letter] == 1) {
                dims[rank++] = of[letter];
            }
        }
    }
    for (const char *p = arrow ? arrow + 2 : ""; *p && rank < MAX_RANK; p++) {
        if (*p == '.') {
            if (rank + nrest > MAX_RANK) {
                onnx_refuse(o, "its result has more than %d axes", MAX_RANK);
            }
            memcpy(dims + rank, rest, (size_t)nrest * sizeof *dims);
            rank += nrest;
            p += 2;
        } else if (isalpha((unsigned char)*p) && of[(int)*p] != DIM_NONE) {
            dims[rank++] = of[(int)*p];
        } else {
            onnx_refuse(o, "its equation '%s' has a letter in the result alone", given);
        }
    }
    Arg *items = cx_alloc(o->cx, (size_t)(o->node->ninputs + 1) * sizeof *items);
    for (int k = 0; k < o->node->ninputs; k++) {
        items[k] = arg_v(onnx_in(o, k));
    }
    const Type *t = type_of(o->cx, onnx_in(o, 0)->type->dtype, rank, dims);
    if (o->node->ninputs == 1) { /* summed and transposed, by a product with one */
        Dim none[1];
        Value *one = build_const(o->b, type_of(o->cx, t->dtype, 0, none), (Literal){.f = 1});
        Arg both[] = {items[0], arg_v(one)};
        const char *named = arrow ? cx_format(o->cx, "%.*s,%s", (int)(arrow - text), text, arrow)
                                  : cx_format(o->cx, "%s,", text);
        Arg equation = {.kind = ARG_TEXT, .text = named};
        o->out[0] = onnx_aten(o, "aten.einsum.default", t,
                              ARGS(equation, {.kind = ARG_LIST, .n = 2, .items = both}));
        return;
    }
    Arg list = {.kind = ARG_LIST, .n = o->node->ninputs, .items = items};
    o->out[0] = onnx_aten(o, "aten.einsum.default", t,
                          ARGS({.kind = ARG_TEXT, .text = text}, list));
}

/* ---- codes ---- */

/* A scale or zero point beside x: one number, one for each index of the axis, or one for each block
 * along it. */
static Value *
beside(Onnx *o, Value *v, const Type *t, Dtype dtype)
{
    int64_t block = onnx_int(o, "block_size", 0);
    int axis = 0;
    Dim dims[MAX_RANK + 1];
    v = build_cast(o->b, v, dtype);
    if (type_wide_axes(o->cx, v->type) == 0 && v->type->rank <= 1) {
        return build_reshape(o->b, v, 0, NULL);
    }
    axis = onnx_axis(o, onnx_int(o, "axis", 1), t->rank);
    if (block == 0 && v->type->rank == 1) {
        return build_expand(o->b, v, t->rank, t->dims, &axis);
    }
    if (block < 1 || v->type->rank != t->rank || t->rank + 1 > MAX_RANK) {
        onnx_refuse(o,
                    "its scale has neither one number, nor one for each index or block of an axis");
    }
    int to[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        to[ax] = ax + (ax > axis);
        dims[to[ax]] = v->type->dims[ax];
    }
    dims[axis + 1] = dim_int(o->cx, block);
    Value *wide_v = build_expand(o->b, v, t->rank + 1, dims, to);
    Dim all[MAX_RANK];
    memcpy(all, v->type->dims, (size_t)t->rank * sizeof *all);
    all[axis] = dim_mul(o->cx, all[axis], dim_int(o->cx, block));
    wide_v = build_reshape(o->b, wide_v, t->rank, all);
    return build_slice(o->b, wide_v, axis, dim_int(o->cx, 0), dim_int(o->cx, 1), t->dims[axis]);
}

void
onnx_quantize(Onnx *o)
{
    Value *x = onnx_in(o, 0), *scale = onnx_in(o, 1), *zero = onnx_given(o, 2);
    int64_t number = onnx_int(o, "output_dtype", 0);
    Dtype to = number ? onnx_dtype(o, number) : zero ? zero->type->dtype : DT_u8;
    double low = to == DT_i8 ? -128 : to == DT_i16 ? -32768 : 0;
    double high = to == DT_i8 ? 127 : to == DT_i16 ? 32767 : 255;
    if (to != DT_u8 && to != DT_i8 && to != DT_i16) {
        onnx_refuse(o, "its codes have the element type %s", dtype_info[to].name);
    }
    Dtype at = wide(scale->type->dtype);
    x = build_cast(o->b, x, at);
    Value *v = onnx_map(o, OP_div, x, beside(o, scale, x->type, at));
    v = build_map(o->b, OP_round, v, NULL, NULL);
    v = zero ? onnx_map(o, OP_add, v, beside(o, zero, x->type, at)) : v;
    v = build_map(o->b, OP_maximum, v, build_float(o->b, low), NULL);
    v = build_map(o->b, OP_minimum, v, build_float(o->b, high), NULL);
    o->out[0] = build_cast(o->b, v, to);
}

void
onnx_dequantize(Onnx *o)
{
    Value *x = onnx_in(o, 0), *scale = onnx_in(o, 1), *zero = onnx_given(o, 2);
    int64_t number = onnx_int(o, "output_dtype", 0);
    Dtype to = number ? onnx_dtype(o, number) : scale->type->dtype;
    Dtype at = wide(scale->type->dtype);
    if (dtype_info[x->type->dtype].class > CLASS_INT) {
        onnx_refuse(o, "its codes have the element type %s", dtype_info[x->type->dtype].name);
    }
    Value *v = build_cast(o->b, x, DT_i32);
    v = zero ? onnx_map(o, OP_sub, v, beside(o, zero, x->type, DT_i32)) : v;
    v = onnx_map(o, OP_mul, build_cast(o->b, v, at), beside(o, scale, x->type, at));
    o->out[0] = build_cast(o->b, v, to);
}
