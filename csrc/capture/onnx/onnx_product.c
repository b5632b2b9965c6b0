/* Einsum, and numbers as codes of few bits. */
#include "onnx.h"

#include <ctype.h>
#include <string.h>

/* ---- Einsum ---- */

/* The letters that an operand names twice, first[i] and second[i] of its text; an ellipsis is
 * three characters.  Returns whether there are any. */
static bool
named_twice(const char *text, int n, int *first, int *second)
{
    for (*first = 0; *first < n; ++*first) {
        for (*second = *first + 1; isalpha((unsigned char)text[*first]) && *second < n; ++*second) {
            if (text[*first] == text[*second]) {
                return true;
            }
        }
    }
    return false;
}

/* The axis of the character at `at` of an operand's text of n characters. */
static int
axis_at(const char *text, int n, int at, int rank)
{
    int axis = 0, letters = 0;
    for (int i = 0; i < n; i++) {
        letters += isalpha((unsigned char)text[i]) != 0;
    }
    for (int i = 0; i < at; i++) {
        axis += text[i] != '.';
    }
    return memchr(text, '.', (size_t)at) ? axis + rank - letters : axis;
}

/* An axis that is named twice by one operand is its diagonal, the last axis of what replaces the
 * operand.  The result's letters are written out: without them, they are those that were there
 * once. */
static char *
with_diagonals(Onnx *o, const char *text, Value **operands)
{
    const char *arrow = strstr(text, "->"), *end = arrow ? arrow : text + strlen(text);
    Text out = {.cx = o->cx};
    int count[128] = {0}, twice = 0, k = 0;
    for (const char *c = text; c <= end; c++, k++) {
        const char *comma = memchr(c, ',', (size_t)(end - c));
        int n = (int)((comma ? comma : end) - c), a, b;
        char *letters = cx_format(o->cx, "%.*s", n, c);
        for (int i = 0; i < n; i++) {
            count[(int)letters[i] & 127]++;
        }
        while (k < o->node->ninputs && named_twice(letters, n, &a, &b)) {
            Value *v = operands[k];
            int rank = v->type->rank, kept = 0;
            int at = axis_at(letters, n, a, rank), other = axis_at(letters, n, b, rank);
            Dim dims[MAX_RANK];
            if (at < 0 || other >= rank || v->type->dims[at] != v->type->dims[other]) {
                onnx_refuse(o, "its equation names two axes of operand %d '%c' that differ", k + 1,
                            letters[a]);
            }
            for (int ax = 0; ax < rank; ax++) {
                if (ax != at && ax != other) {
                    dims[kept++] = v->type->dims[ax];
                }
            }
            dims[kept] = v->type->dims[at];
            const Type *made = type_of(o->cx, v->type->dtype, rank - 1, dims);
            operands[k] = dim_is(o->cx, dims[kept], 0) /* no elements, and no place for a first */
                              ? build_const(o->b, made, (Literal){.is_int = true})
                              : onnx_aten(o, "aten.diagonal.default", made,
                                          ARGS(arg_v(v), arg_i(0), arg_i(at), arg_i(other)));
            char letter = letters[a];
            memmove(letters + b, letters + b + 1, (size_t)(n - b));
            memmove(letters + a, letters + a + 1, (size_t)(n - 1 - a));
            n--;
            letters[n - 1] = letter;
            letters[n] = '\0';
            twice++;
        }
        text_add(&out, "%s%s", k ? "," : "", letters);
        c = comma ? comma : end;
    }
    if (!twice) {
        return cx_format(o->cx, "%s", text);
    }
    text_add(&out, "%s", arrow ? "" : strchr(text, '.') ? "->..." : "->");
    for (int letter = 'A'; letter <= 'z' && !arrow; letter++) {
        text_add(&out, "%.*s", count[letter] == 1 && isalpha(letter), (char[]){(char)letter});
    }
    text_add(&out, "%s", arrow ? arrow : "");
    return out.text;
}

/* The result's sizes by the letters of the equation; an ellipsis is the axes without one. */
void
onnx_einsum(Onnx *o)
{
    const char *given = onnx_text(o, "equation", "");
    char *text = cx_alloc(o->cx, strlen(given) + 1), *to = text;
    Value **operands = cx_alloc(o->cx, (size_t)(o->node->ninputs + 1) * sizeof *operands);
    Dim of[128] = {DIM_NONE}, rest[MAX_RANK], dims[MAX_RANK];
    int nrest = 0, rank = 0, count[128] = {0};
    for (const char *c = given; *c; c++) {
        if (!isspace((unsigned char)*c)) {
            *to++ = *c;
        }
    }
    for (int k = 0; k < o->node->ninputs; k++) {
        operands[k] = onnx_in(o, k);
    }
    for (const char *p = text; (p = strchr(p, '.')); p += 3) {
        if (strncmp(p, "...", 3) != 0) {
            onnx_refuse(o, "its equation '%s' has a dot that is none of an ellipsis", given);
        }
    }
    text = with_diagonals(o, text, operands);
    const char *arrow = strstr(text, "->"), *c = text;
    for (int k = 0; k < o->node->ninputs; k++) {
        const Type *t = operands[k]->type;
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
        items[k] = arg_v(operands[k]);
    }
    const Type *t = type_of(o->cx, operands[0]->type->dtype, rank, dims);
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
    v = onnx_converted(o, v, dtype);
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
    int kind = number ? (int)number : zero ? onnx_kind(o, 2) : 2;
    kind = kind ? kind : zero->type->dtype == DT_i8 ? 3 : zero->type->dtype == DT_i16 ? 5 : 2;
    double low, high;
    Dtype to = onnx_dtype(o, kind);
    if (!dtype_is_float8(to) && !onnx_bounds(kind, &low, &high)) {
        onnx_refuse(o, "its codes have the element type %s", dtype_info[to].name);
    }
    Dtype at = wide(scale->type->dtype);
    x = build_cast(o->b, x, at);
    Value *v = onnx_map(o, OP_div, x, beside(o, scale, x->type, at));
    if (dtype_is_float8(to)) {
        v = zero ? onnx_map(o, OP_add, v, beside(o, zero, x->type, at)) : v;
        o->out[0] = onnx_to_float8(o, v, to);
        return;
    }
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
    bool small = dtype_is_float8(x->type->dtype);
    if (dtype_info[x->type->dtype].class > CLASS_INT && !small) {
        onnx_refuse(o, "its codes have the element type %s", dtype_info[x->type->dtype].name);
    }
    Value *v = onnx_converted(o, x, small ? DT_f32 : DT_i32);
    v = zero ? onnx_map(o, OP_sub, v, beside(o, zero, x->type, v->type->dtype)) : v;
    v = onnx_map(o, OP_mul, build_cast(o->b, v, at), beside(o, scale, x->type, at));
    o->out[0] = build_cast(o->b, v, to);
}

/* ---- Det ---- */

/* v [B, ..] at an index of axis `axis` that is a scalar, or one for each batch; the axis goes. */
static Value *
taken(Onnx *o, Value *v, Value *index, int axis)
{
    Dim dims[MAX_RANK], one = dim_int(o->cx, 1);
    int rank = v->type->rank;
    if (index->type->rank == 0) {
        v = build_gather(o->b, v, build_reshape(o->b, index, 1, &one), axis, INDEX_FROM_START);
    } else {
        memcpy(dims, v->type->dims, (size_t)rank * sizeof *dims);
        dims[axis] = one;
        const Type *t = type_of(o->cx, v->type->dtype, rank, dims);
        index = build_expand(o->b, index, rank, dims, (const int[]){0});
        v = onnx_aten(o, "aten.gather.default", t, ARGS(arg_v(v), arg_i(axis), arg_v(index)));
    }
    memcpy(dims, v->type->dims, (size_t)axis * sizeof *dims);
    memcpy(dims + axis, v->type->dims + axis + 1, (size_t)(rank - axis - 1) * sizeof *dims);
    return build_reshape(o->b, v, rank - 1, dims);
}

/* Elimination: a step for each column, by the row in which it is greatest. */
void
onnx_det(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int rank = x->type->rank;
    Dim batch = dim_int(o->cx, 1), n = rank ? x->type->dims[rank - 1] : batch;
    if (rank < 2 || x->type->dims[rank - 2] != n) {
        onnx_refuse(o, "its operand is not of square matrices");
    }
    for (int ax = 0; ax < rank - 2; ax++) {
        batch = dim_mul(o->cx, batch, x->type->dims[ax]);
    }
    Dtype at = wide(x->type->dtype);
    Dim cube[] = {batch, n, n}, row[] = {batch, n};
    const int by_batch[] = {0}, rows[] = {0, 1}, columns[] = {0, 2};
    const Type *tm = type_of(o->cx, at, 3, cube), *td = type_of(o->cx, at, 1, &batch);
    OnnxBody body;
    onnx_body_open(o, &body);
    Value *k = onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    Value *m = onnx_body_param(o, "matrix", tm), *det = onnx_body_param(o, "det", td);
    Value *column = taken(o, m, k, 2), *i = build_iota(o->b, type_of(o->cx, DT_i64, 2, row), 1);
    Value *before = onnx_map(o, OP_lt, i, k);
    Value *far = build_map(o->b, OP_abs, column, NULL, NULL);
    far = onnx_map3(o, OP_where, before, build_const(o->b, far->type, (Literal){.f = -1}), far);
    Value *best = build_red(o->b, OP_argmax, far, 1, (const int[]){1});
    Value *all = build_expand(o->b, best, 2, row, by_batch);
    Value *k_row = build_broadcast(o->b, k, 2, row);
    Value *from = onnx_map3(o, OP_where, onnx_map(o, OP_eq, i, k), all,
                            onnx_map3(o, OP_where, onnx_map(o, OP_eq, i, all), k_row, i));
    from = build_expand(o->b, from, 3, cube, rows);
    m = onnx_aten(o, "aten.gather.default", tm, ARGS(arg_v(m), arg_i(1), arg_v(from)));
    Value *top = taken(o, m, k, 1), *pivot = taken(o, top, k, 1);
    Value *same = onnx_map(o, OP_eq, best, k);
    Value *sign = onnx_map3(o, OP_where, same, build_const(o->b, td, (Literal){.f = 1}),
                            build_const(o->b, td, (Literal){.f = -1}));
    det = onnx_map(o, OP_mul, det, onnx_map(o, OP_mul, pivot, sign));
    Value *one = build_const(o->b, td, (Literal){.f = 1}), *zero = build_int(o->b, 0);
    Value *by = onnx_map3(o, OP_where, onnx_map(o, OP_eq, pivot, zero), one, pivot);
    Value *part = onnx_map(o, OP_div, taken(o, m, k, 2), build_expand(o->b, by, 2, row, by_batch));
    Value *later = onnx_map(o, OP_gt, i, k);
    part = onnx_map3(o, OP_where, later, part, build_const(o->b, part->type, (Literal){.f = 0}));
    Value *less = onnx_map(o, OP_mul, build_expand(o->b, part, 3, cube, rows),
                           build_expand(o->b, top, 3, cube, columns));
    Value *rets[] = {onnx_map(o, OP_sub, m, less), det};
    Fn *fn = onnx_body_close(o, &body, 2, rets);
    Value *args[] = {build_cast(o->b, build_reshape(o->b, x, 3, cube), at),
                     build_const(o->b, td, (Literal){.f = 1})};
    Let *let = onnx_loop(o, &(OnnxLoop){.carries = 2, .steps = n}, fn, 2, args);
    Value *v = build_reshape(o->b, let->res[1], rank - 2, x->type->dims);
    o->out[0] = build_cast(o->b, v, x->type->dtype);
}
