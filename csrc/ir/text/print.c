/* The text of functions: the exact inverse of parse.c, whose head holds the grammar.
 *
 * Every number prints with the fewest digits that read back to it.  An attribute is left out when
 * the parser would fill in the same (see attr_is_default). */
#include "print.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_COLUMNS = 100 };  /* a longer header has a line for each parameter and result */

void
text_float(Text *out, double f)
{
    if (!isfinite(f)) {
        text_add(out, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    int precision = 1;
    do {
        snprintf(digits, sizeof digits, "%.*g", precision, f);
    } while (strtod(digits, NULL) != f && precision++ < 17);
    char *point = strchr(digits, localeconv()->decimal_point[0]);
    if (point) {
        *point = '.';
    }
    text_add(out, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

bool
text_is_word(const char *s)
{
    size_t letters = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return s[0] && !(s[0] >= '0' && s[0] <= '9') && s[letters] == '\0' && strcmp(s, "inf") != 0 &&
           strcmp(s, "nan") != 0;
}

static void
put_string(const char *s, Text *out)
{
    text_put(out, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') {
            text_add(out, "\\%c", *s);
        } else if (*s == '\n' || *s == '\t') {
            text_add(out, *s == '\n' ? "\\n" : "\\t");
        } else if ((unsigned char)*s < ' ' || *s == 127) {
            text_add(out, "\\x%02x", (unsigned)*s);
        } else {
            text_put(out, s, 1);
        }
    }
    text_put(out, "\"", 1);
}

static void
put_operand(const Value *v, Text *out)
{
    if (v->name) {
        text_add(out, "%s", v->name);
    } else if (v->literal.is_int) {
        text_add(out, "%lld", (long long)v->literal.i);
    } else {
        text_float(out, v->literal.f);
    }
}

static void
put_operands(Value *const *values, int n, Text *out)
{
    for (int k = 0; k < n; k++) {
        text_add(out, k ? ", " : " ");
        put_operand(values[k], out);
    }
}

static void
put_dims(const Dim *dims, int n, Text *out)
{
    text_add(out, "[");
    for (int k = 0; k < n; k++) {
        text_add(out, k ? ", " : "");
        dim_text(out->cx, dims[k], out);
    }
    text_add(out, "]");
}

static void
put_type(const Type *t, const Dim *strides, Text *out)
{
    type_text(out->cx, t, out);
    if (strides) {
        text_add(out, " strides=");
        put_dims(strides, t->rank, out);
    }
}

void
print_binder(const Value *v, Text *out)
{
    text_add(out, "%s: ", v->name);
    put_type(v->type, v->strides, out);
    if (v->over) {
        text_add(out, " over %s", v->over->name);
    }
    text_add(out, v->given ? " given" : "");
}

/* A size symbol with its range and divisor, as declared; an index of `bind` has neither. */
void
print_size(Dim size, Text *out)
{
    text_add(out, "%s", dim_name(out->cx, size));
    if (dim_extent(out->cx, size) != DIM_NONE) {
        return;
    }
    Range r = dim_range(out->cx, size);
    if (r.lo != 0 || r.hi != DIM_INF) {
        char lo[32], hi[32];
        snprintf(lo, sizeof lo, "%lld", (long long)r.lo);
        snprintf(hi, sizeof hi, "%lld", (long long)r.hi);
        text_add(out, " in %s..%s", r.lo == -DIM_INF ? "-inf" : lo, r.hi == DIM_INF ? "inf" : hi);
    }
    int64_t divisor = dim_divisor(out->cx, size);
    if (divisor > 1) {
        text_add(out, " %% %lld", (long long)divisor);
    }
}

static void
put_sizes(const Dim *sizes, int n, Text *out)
{
    for (int k = 0; k < n; k++) {
        text_add(out, k ? ", " : "[");
        print_size(sizes[k], out);
    }
    text_add(out, n ? "]" : "");
}

/* ---- lets ---- */

/* After the first of an op's schema, attributes that are 0, "" or [] are understood. */
static bool
attr_is_default(const Let *let, const Attr *a)
{
    return a != let->attrs &&
           ((a->kind == ATTR_INT && a->i == 0) || (a->kind == ATTR_DIMS && a->n == 0) ||
            (a->kind == ATTR_STR && a->s[0] == '\0'));
}

static void
put_attr(const Attr *a, Text *out)
{
    text_add(out, " %s=", a->key);
    switch (a->kind) {
    case ATTR_INT:
        text_add(out, "%lld", (long long)a->i);
        break;
    case ATTR_DIM:
        dim_text(out->cx, a->d, out);
        break;
    case ATTR_AXES:
        text_add(out, "[");
        for (int k = 0; k < a->n; k++) {
            text_add(out, k ? ", %d" : "%d", a->axes[k]);
        }
        text_add(out, "]");
        break;
    case ATTR_DIMS:
        put_dims(a->dims, a->n, out);
        break;
    case ATTR_STR:
        put_string(a->s, out);
        break;
    case ATTR_NAME:
        text_add(out, "%s", a->s);
        break;
    case ATTR_LETTERS:
        text_add(out, "\"");
        contraction_text(a->letters, out);
        text_add(out, "\"");
        break;
    case ATTR_MARKS:
    case ATTR_NONE:
        break;
    }
}

static void
put_loop(const Let *let, Text *out)
{
    if (let->op == OP_reduce) {
        text_add(out, "reduce %s ", let_str(let, "op"));
    } else {
        text_add(out, "for ");
    }
    text_add(out, "%s in ", let_str(let, "index"));
    dim_text(out->cx, let_dim(let, "extent"), out);
}

static void
put_marks(const Let *let, Text *out)
{
    for (int k = 0; k < MARK_COUNT; k++) {
        if (let_has(let, mark_at(k))) {
            text_add(out, " %s", mark_info[k].name);
        }
        if (let_mark_value(let, mark_at(k))) {
            text_add(out, "=%lld", (long long)let_mark_value(let, mark_at(k)));
        }
    }
}

/* The right side of a let, up to its body. */
static void
put_right(const Let *let, Text *out)
{
    if (loop_is(let)) {
        put_loop(let, out);
        return;
    }
    text_add(out, "%s", op_info[let->op].name);
    if (let->op == OP_if) {
        text_add(out, " ");
        dim_text(out->cx, let_dim(let, "left"), out);
        text_add(out, " <= ");
        dim_text(out->cx, let_dim(let, "right"), out);
        return;
    }
    if (let_accesses(let)) {
        const Attr *at = let_attr(let, "at");
        if (let->op == OP_update) {
            text_add(out, " %s", let_str(let, "op"));
        }
        put_operands(let->args, 1, out);
        put_dims(at->dims, at->n, out);
        text_add(out, let_writes(let) ? " =" : "");
        put_operands(let->args + 1, let->nargs - 1, out);
        return;
    }
    put_operands(let->args, let->nargs, out);
    for (int k = 0; k < let->nattrs; k++) {
        if (let->attrs[k].kind != ATTR_MARKS && !attr_is_default(let, &let->attrs[k])) {
            put_attr(&let->attrs[k], out);
        }
    }
}

/* An element of what the access reads or writes. */
static void
put_element(const Let *access, Text *out)
{
    const Attr *at = let_attr(access, "at");
    put_operand(access->args[0], out);
    put_dims(at->dims, at->n, out);
}

/* The loops inside of the first one, and what is stored in them. */
static void
put_nest(const CallNest *nest, Text *out)
{
    for (int k = 1; k < nest->nloops; k++) {
        text_add(out, ", %s in ", let_str(nest->loops[k], "index"));
        dim_text(out->cx, let_dim(nest->loops[k], "extent"), out);
    }
    text_add(out, ": ");
    put_element(nest->store, out);
    text_add(out, nest->adds ? " += " : " = ");
    put_element(nest->a, out);
    if (nest->b) {
        text_add(out, " * ");
        put_element(nest->b, out);
    }
}

static void
put_place(Loc loc, Text *out)
{
    if (!loc.node && !loc.source) {
        return;
    }
    text_add(out, "  @");
    if (loc.node && text_is_word(loc.node)) {
        text_add(out, "%s", loc.node);
    } else {
        put_string(loc.node ? loc.node : "", out);
    }
    if (loc.source) {
        text_add(out, " ");
        put_string(loc.source, out);
    }
}

static void
put_block(const Block *blk, int indent, Text *out)
{
    text_add(out, " {\n");
    for (int k = 0; k < blk->n; k++) {
        print_let(blk->lets[k], indent + 2, out);
    }
    if (blk->nrets) {
        text_add(out, "%*sret", indent + 2, "");
        put_operands(blk->rets, blk->nrets, out);
        text_add(out, "\n");
    }
    text_add(out, "%*s}", indent, "");
}

static void
put_params(const Fn *fn, const char *open, const char *comma, const char *close, Text *out)
{
    text_add(out, "%s", open);
    for (int k = 0; k < fn->nparams; k++) {
        text_add(out, "%s", k ? comma : "");
        print_binder(fn->params[k], out);
    }
    text_add(out, "%s", close);
}

void
print_let(const Let *let, int indent, Text *out)
{
    if (let->op == OP_else && out->length) { /* it goes on with the line of its if */
        out->length -= out->text[out->length - 1] == '\n';
        text_add(out, " ");
    } else {
        text_add(out, "%*s", indent, "");
    }
    if (let->nres || let->nsizes) {
        text_add(out, let->nsizes ? "let " : "let");
        put_sizes(let->sizes, let->nsizes, out);
        for (int k = 0; k < let->nres; k++) {
            text_add(out, k ? ", " : " ");
            print_binder(let->res[k], out);
        }
        text_add(out, " = ");
    }
    CallNest nest;
    bool line = nest_is_line(let, &nest);
    put_right(let, out);
    if (line) {
        put_nest(&nest, out);
    }
    put_marks(let, out);
    if (let->body && !line) {
        put_block(let->body, indent, out);
    }
    for (int k = 0; k < let->nbodies; k++) {
        put_params(let->bodies[k], k ? " else (" : " (", ", ", ")", out);
        put_block(let->bodies[k]->body, indent, out);
    }
    put_place(let->loc, out);
    text_add(out, "\n");
}

/* ---- functions ---- */

void
print_result(const Fn *fn, int k, Text *out)
{
    const Result *r = &fn->results[k];
    put_type(fn->body->rets[k]->type, r->strides, out);
    switch (r->kind) {
    case RESULT_FRESH:
        break;
    case RESULT_INTO:
        text_add(out, " into %s", fn->params[r->of]->name);
        break;
    case RESULT_VIEW_PARAM:
        text_add(out, " view of %s", fn->params[r->of]->name);
        break;
    case RESULT_VIEW_RESULT:
        text_add(out, " view of result %d", r->of);
        break;
    }
}

static void
put_header(const Fn *fn, bool wide, Text *out)
{
    const char *comma = wide ? ",\n    " : ", ";
    text_add(out, "fn %s", fn->name);
    put_sizes(fn->sizes, fn->nsizes, out);
    bool lines = wide && fn->nparams;
    put_params(fn, lines ? "(\n    " : "(", comma, lines ? "\n) -> (" : ") -> (", out);
    text_add(out, wide && fn->body->nrets ? "\n    " : "");
    for (int k = 0; k < fn->body->nrets; k++) {
        text_add(out, "%s", k ? comma : "");
        print_result(fn, k, out);
    }
    text_add(out, wide && fn->body->nrets ? "\n)" : ")");
}

void
print_fn(const Fn *fn, Text *out)
{
    text_add(out, "dlc 1 %s\n\n", stage_name(fn->stage));
    Text header = {.cx = out->cx};
    put_header(fn, false, &header);
    if (header.length <= HEADER_COLUMNS) {
        text_put(out, header.text, header.length);
    } else {
        put_header(fn, true, out);
    }
    put_block(fn->body, 0, out);
    text_add(out, "\n");
}
