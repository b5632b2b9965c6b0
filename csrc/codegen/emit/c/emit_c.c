/* Emission of portable C: the loops stage as it is, for reading and for export.
 *
 * What:     one translation unit in C11 that needs <stdint.h> and functions of the C library alone.
 * Requires: what emit.c requires.
 * Ensures:  the bits of the other targets where the C compiler contracts nothing and integers wrap
 *           (-ffp-contract=off -fwrapv).  No warning under -Wall -Wextra -pedantic.
 * How:      A loop is a `for` over all of its iterations, a load an indexed read, a scalar let a
 *           const variable, or a part of the one line that uses it (emit_c_place.c).  Of the marks
 *           those are read that say in which order a reduction is, how many iterations are one of
 *           the phase's, what is in an array, and which iterations are independent.
 *           What a unit uses of the prelude stands before its phases (emit_c_prelude.c).
 * Why not:  as fast as the text for gcc and clang, which says how to be fast.
 * Example:  for i in N vector { let x0 = load x[i]; let y0 = exp x0; store y[i] = y0 }:
 *               for (int64_t i = 0; i < N; i++) {
 *                   y[i] = dlc_exp_f32(x[i]);
 *               }
 */
#include <string.h>

#include "emit_c.h"

#define PORTABLE_HEAD \
    "/* Made by dlc.  Each phase runs iterations lo..hi of its outer loops and returns 0, or " \
    "the\n * number of a fault.  p: its tensors, then scratch memory; n: sizes.  Its bits " \
    "need a\n * compiler that contracts nothing and lets integers wrap: -ffp-contract=off " \
    "-fwrapv. */\n#include <stdint.h>\n"
const char emit_c_head[] = PORTABLE_HEAD, emit_device_head[] = PORTABLE_HEAD;
const char emit_hls_head[] =
    "/* Made by dlc.  Each function runs a phase on its arrays and returns 0, or the number of a\n"
    " * fault. */\n#include <stdint.h>\n"
    "#if defined(__GNUC__) || defined(__clang__)\n"
    "#pragma GCC diagnostic ignored \"-Wunknown-pragmas\"\n"
    "#endif\n";

/* ---- memory ---- */

/* A buffer marked registers, or of as few elements as there are lanes, is a variable.  Of one in a
 * parallel loop a circuit uses several elements at a time. */
static void
put_buffer(Emit *e, const Value *v)
{
    const char *type = storage_c(v->type->dtype), *pragma = e->target->pragmas.array;
    int64_t n = 0;
    bool known = dim_is_int(e->cx, type_numel(e->cx, v->type), &n);
    bool registers = let_has(v->def, MARK_registers) || (n > 0 && n <= DLC_LANES);
    if (known && (e->target->arrays || registers)) {
        put(e, "%s %s[%lld];", type, name_c(e, v), (long long)(n > 0 ? n : 1));
        if (n <= 0) {
            put(e, "(void)%s;", name_c(e, v));
        } else if (pragma && let_has(e->loop, MARK_parallel) && n > 1) {
            put(e, pragma, name_c(e, v), n < DLC_LANES ? (int)n : DLC_LANES);
        }
    } else {
        const char *at = private_buffer(e, v, 1);
        put(e, strcmp(at, "0") == 0 ? "%s *%s = (%s *)scratch;" : "%s *%s = (%s *)(scratch + %s);",
            type, name_c(e, v), type, at);
    }
}

static const char *
element(Emit *e, const Let *access)
{
    return cx_format(e->cx, "%s[%s]", name_c(e, access->args[0]),
                     offset_c(e, access_offset(e, access)));
}

static bool
is_half(Dtype dtype)
{
    return dtype == DT_bf16 || dtype == DT_f16;
}

static const char *
loaded(Emit *e, const Let *access, Dtype dtype)
{
    const char *at = element(e, access);
    return is_half(dtype) ? cx_format(e->cx, "dlc_load_%s(%s)", dtype_info[dtype].name, at) : at;
}

static void
put_stored(Emit *e, const Let *access, const char *v)
{
    Dtype dtype = access->args[0]->type->dtype;
    if (is_half(dtype)) {       /* rounded where it was made */
        v = cx_format(e->cx, "dlc_pack_%s(%s)", dtype_info[dtype].name, v);
    } else if (is_narrow(dtype)) {
        v = cx_format(e->cx, "(%s)%s", storage_c(dtype), v);
    }
    put(e, "%s = %s;", element(e, access), v);
}

static void
put_update(Emit *e, const Let *let)
{
    Dtype dtype = let->args[0]->type->dtype;
    const char *v = c_value(e, let->args[1], dtype);
    if (let_op(let) != OP_store) {
        v = c_combined(e, let, loaded(e, let, dtype), v);
        v = is_narrow(dtype) && !is_half(dtype) ? cx_format(e->cx, "(%s)", v) : v;
    }
    put_stored(e, let, v);
}

/* An index out of range ends the phase: nothing is read or written outside. */
static void
put_bind(Emit *e, const Let *let)
{
    const char *g = index_c(e, let->sizes[0]), *v = c_value(e, let->args[0], DT_i64),
               *extent = dim_c(e, let_dim(let, "extent"));
    if (let_int(let, "wrap") == INDEX_FROM_END) {
        v = cx_format(e->cx, "%s < 0 ? %s + %s : %s", v, v, extent, v);
    }
    put(e, "const int64_t %s = %s;", g, v);
    put_open(e, "if (%s < 0 || %s >= %s)", g, g, extent);
    put(e, "return %d;", bind_fault(let));
    put_close(e);
}

/* ---- loops ---- */

static void
open_range(Emit *e, const Let *loop, const char *from, const char *to)
{
    const char *i = index_c(e, loop_index(loop));
    int64_t most = dim_range(e->cx, loop_extent(loop)).hi;
    bool ends = e->target->arrays && !dim_is_int(e->cx, loop_extent(loop), NULL) && most < DIM_INF;
    if (let_has(loop, MARK_vector) && body_is_plain(loop->body) && !e->target->arrays) {
        put(e, "DLC_INDEPENDENT"); /* of pointers that could overlap there are too many pairs */
    }
    put_open(e, "for (int64_t %s = %s; %s < %s; %s++)", i, from, i,
             ends ? cx_format(e->cx, "%lld", (long long)most) : to, i);
    if (e->target->pragmas.loop && let_has(loop, MARK_pipelined)) {
        put(e, "%s", e->target->pragmas.loop);
    }
    if (ends) {
        put_open(e, "if (%s >= %s)", i, to);
        put(e, "break;");
        put_close(e);
    }
}

void
c_open_for(Emit *e, const Let *loop)
{
    open_range(e, loop, "0", dim_c(e, loop_extent(loop)));
}

/* False: the phase runs one of the loop's iterations at a time, and its index is known. */
static bool
open_for(Emit *e, const Let *loop)
{
    const char *i = index_c(e, loop_index(loop)), *from = "0", *to;
    if (collapsed_at(e, loop) < 0) {
        to = dim_c(e, loop_extent(loop));
    } else if (let_has(loop, MARK_vector)) {
        vector_bounds(e, loop, &from, &to);
    } else if (let_has(loop, MARK_tile) || let_has(loop, MARK_recurrences)) {
        open_rows(e, loop, loop_step(loop));
        from = cx_format(e->cx, "%s_from", i);
        to = cx_format(e->cx, "%s_to", i);
    } else {
        return false;
    }
    open_range(e, loop, from, to);
    return true;
}

static void
put_for(Emit *e, const Let *loop)
{
    bool opened = open_for(e, loop);
    c_block(e, loop->body);
    if (opened) {
        put_close(e);
    }
}

/* ---- lets ---- */

static void
put_const(Emit *e, const Value *v, const char *made)
{
    if (v->def->op != OP_size && c_in_place(e, v->def, made)) {
        return;
    }
    put(e, "const %s %s = %s;", type_c(v->type->dtype), name_c(e, v), made);
}

void
c_let(Emit *e, const Let *let)
{
    if (let->op == OP_for && !put_product(e, let)) {
        put_for(e, let);
    } else if (let->op == OP_reduce) {
        c_reduce(e, let);
    } else if (let_is_choice(let)) {
        open_choice(e, let);
        c_block(e, let->body);
        close_choice(e);
    } else if (let->op == OP_load) {
        put_const(e, let->res[0], loaded(e, let, let->res[0]->type->dtype));
    } else if (let->op == OP_store) {
        put_stored(e, let, c_value(e, let->args[1], let->args[0]->type->dtype));
    } else if (let->op == OP_update) {
        put_update(e, let);
    } else if (let->op == OP_bind) {
        put_bind(e, let);
    } else if (let->op == OP_size) {
        put_const(e, let->res[0], dim_c(e, let_dim(let, "dim")));
    } else if (let->op == OP_buffer) {
        put_buffer(e, let->res[0]);
    } else if (let_is_map(let)) {
        put_const(e, let->res[0], c_map(e, let));
    }
}

void
c_block(Emit *e, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        c_let(e, blk->lets[k]);
    }
}

/* Opens a loop over the phase's iterations, unless one loop of elements is all it has; returns how
 * many to close. */
static int
open_phase(Emit *e)
{
    if (e->ncollapsed <= 1) {
        return !e->target->arrays && open_parallel(e);
    }
    put_open(e, "for (int64_t t = lo; t < hi; t++)");
    put_indices(e, "t", "");
    return 1;
}

void
emit_c_phase(Emit *e, const Let *loop)
{
    c_read_prelude(e);
    new_helper(e, "dim_div_size"); /* the prelude has these in C11 */
    new_helper(e, "dim_mod_size");
    if (dim_is(e->cx, e->phase->extent, 0)) {
        put(e, "(void)lo, (void)hi;");
        return;
    }
    for (int k = 0; k < e->use.nlets; k++) {
        c_let(e, e->use.lets[k]);
    }
    int opened = open_phase(e);
    put_for(e, loop);
    if (opened) {
        put_close(e);
    }
}

/* The elements from the first one of a tensor to its last one. */
static Dim
span_of(Cx *cx, const Value *v)
{
    Dim span = v->strides ? dim_int(cx, 1) : type_numel(cx, v->type);
    for (int ax = 0; v->strides && ax < v->type->rank; ax++) {
        Dim last = dim_sub(cx, v->type->dims[ax], dim_int(cx, 1));
        span = dim_add(cx, span, dim_mul(cx, last, v->strides[ax]));
    }
    return dim_max(cx, span, dim_int(cx, 1));
}

/* The head of a function of arrays. */
static void
put_arrays(Emit *e, Text *unit)
{
    text_add(unit, "static int\n%s(%s", e->phase->name, e->phase->nbuffers ? "" : "void");
    for (int k = 0; k < e->phase->nbuffers; k++) {
        const Value *v = e->phase->buffers[k];
        text_add(unit, "%s%s%s %s[%s]", k ? ", " : "",
                 is_written_in(v, e->phase->kernel) ? "" : "const ", storage_c(v->type->dtype),
                 name_c(e, v), dim_c(e, span_of(e->cx, v)));
    }
    text_add(unit, ")\n{\n");
}

static void
put_head(Emit *e, Text *unit)
{
    Text sizes = {.cx = e->cx};
    put_phase_head(e, unit, e->phase->is_part ? "static" : NULL);
    if (!dim_is(e->cx, e->phase->extent, 0) &&
        (e->phase->nbuffers || !dim_is(e->cx, e->scratch, 0))) {
        put_pointers(e, unit);
    } else {
        text_add(unit, "    (void)p;\n");
    }
    put_sizes(e, &sizes, put_size, NULL);
    text_add(unit, "%s", sizes.length ? sizes.text : "    (void)n;\n");
}

void
emit_c_function(Emit *e, const Let *loop, const Text *body, Text *unit)
{
    Text function = {.cx = e->cx};
    put_header(e, loop, &function);
    (e->target->arrays ? put_arrays : put_head)(e, &function);
    text_put(&function, body->text, body->length);
    text_add(&function, "    return 0;\n}\n");
    c_need(e, function.text);
    text_put(unit, function.text, function.length);
}
