/* Emission for an optimising C compiler: plain loops that read like the program.
 *
 * What:     the statements of one phase in C11, under the text of prelude.h.
 * Requires: what emit.c requires.
 * Ensures:  C without a warning under -Wall -Wextra whose vector loops the compiler vectorises (-O3
 *           -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv).
 * How:      a scalar let is a const variable; a MAP op is a call of an inline function made from
 *           its row of ops.def; a vector loop is a C loop marked as independent; a vector reduction
 *           keeps 16 lanes in an array that the compiler keeps in registers, and combines blocks
 *           pairwise, see emit_cc_lanes.c.  Vector loops with loops inside are emit_cc_tile.c's.
 * Why not:  restrict: a result may be stored where an operand is, each element after it was read,
 *           and restrict would deny that; "independent" says only what is so.
 * Example:  for (int64_t i = 0; i < N; i++) {
 *               const float x0 = x[i];
 *               const float y0 = op_exp_f32(x0);
 *               y[i] = y0;
 *           }
 */
#include <string.h>

#include "emit_cc.h"

/* Iterations are independent: the loops stage has it so (each element is stored once, by the
 * iteration that read what was there).  What clang cannot vectorise, as the copy of a c128, it need
 * not say. */
const char emit_cc_head[] =
    "#if defined(__clang__)\n"
    "#pragma clang diagnostic ignored \"-Wpass-failed\"\n"
    "#define INDEPENDENT _Pragma(\"clang loop vectorize(assume_safety)\")\n"
    "#define LANES INDEPENDENT\n"
    "#define VECTORS_OF(n) DLC_SIMD(clang loop vectorize(assume_safety) vectorize_width(n))\n"
    "#define DLC_SIMD(text) _Pragma(#text)\n"
    "#elif defined(__GNUC__)\n"
    "#define INDEPENDENT _Pragma(\"GCC ivdep\")\n"
    "#define LANES _Pragma(\"GCC unroll 1\") _Pragma(\"GCC ivdep\")\n"
    "#define VECTORS_OF(n) DLC_SIMD(omp simd simdlen(n))\n"
    "#define DLC_SIMD(text) _Pragma(#text)\n"
    "#else\n"
    "#define INDEPENDENT\n"
    "#define LANES\n"
    "#define VECTORS_OF(n)\n"
    "#endif\n"
    "#ifdef __GNUC__\n"
    "#define PREFETCH(p, bytes) "
    "__builtin_prefetch((const void *)((__UINTPTR_TYPE__)(p) + (__UINTPTR_TYPE__)(bytes)))\n"
    "#else\n"
    "#define PREFETCH(p, bytes) ((void)0)\n"
    "#endif\n";

void
cc_open_loop(Emit *e, const char *i, const char *from, const char *to)
{
    put_open(e, "for (int64_t %s = %s; %s < %s; %s++)", i, from, i, to, i);
}

/* ---- expressions ---- */

const char *
cc_value(Emit *e, const Value *v, Dtype dtype)
{
    const Literal *literal = literal_of(v);
    return literal ? literal_c(e->cx, value_is_const(v) ? dtype : v->type->dtype, *literal)
                   : name_c(e, v);
}

/* The row's expression with M(f) as the prelude's function for the dtype. */
static const char *
map_expression(Emit *e, const Let *let, const char *dtype)
{
    Text out = {.cx = e->cx};
    bool select = let->op == OP_where && map_dtype(let) == DT_f64;
    for (const char *c = select ? "M(select)(a, b, c)" : op_info[let->op].expr; *c; c++) {
        const char *end = strncmp(c, "M(", 2) == 0 ? strchr(c, ')') : NULL;
        if (end) {
            text_add(&out, "dlc_%.*s_%s", (int)(end - c - 2), c + 2, dtype);
            c = end;
        } else {
            text_put(&out, c, 1);
        }
    }
    return out.text;
}

/* The body of a row's function.  "p || q ? x : y" becomes two choices one after the other: of the
 * first form compilers make branches where several follow each other, and with those no vectors. */
static const char *
map_body(Emit *e, const char *expression, const char *made, const char *cast)
{
    const char *or = strstr(expression, " || "), *then = or ? strstr(or, " ? ") : NULL;
    const char *otherwise = then ? strstr(then, " : ") : NULL;
    if (!otherwise) {
        return cx_format(e->cx, "return %s(%s);", cast, expression);
    }
    int first = (int)(or - expression), chosen = (int)(otherwise - then - 3);
    return cx_format(e->cx, "const %s v = %s(%s); return %.*s ? %.*s : v;", made, cast, or + 4,
                     first, expression, chosen, then + 3);
}

const char *
cc_function(Emit *e, const Let *let)
{
    const char *dtype = compute_name(map_dtype(let));
    const char *name = cx_format(e->cx, "op_%s_%s", op_info[let->op].name, dtype);
    if (new_helper(e, name)) {
        const char *made = type_c(let->res[0]->type->dtype);
        text_add(e->helpers, "DLC_FN %s %s(", made, name);
        for (int k = 0; k < let->nargs; k++) {
            text_add(e->helpers, "%s%s %c", k ? ", " : "", type_c(operand_dtype(let, k)), 'a' + k);
        }
        const char *cast = let->op == OP_complex ? "" : cx_format(e->cx, "(%s)", made);
        text_add(e->helpers, ") { %s }\n", map_body(e, map_expression(e, let, dtype), made, cast));
    }
    return name;
}

static const char *
map_operands(Emit *e, const Let *let)
{
    Text operands = {.cx = e->cx};
    for (int k = 0; k < let->nargs; k++) {
        text_add(&operands, "%s%s", k ? ", " : "",
                 cc_value(e, let->args[k], operand_dtype(let, k)));
    }
    return operands.text;
}

/* What prelude.h says of casts of integers to floats need not be done for such integers. */
static const char *
cast_of_integers(Emit *e, const Let *let)
{
    DtypeClass class = dtype_info[let->res[0]->type->dtype].class;
    bool is = let->op == OP_cast && class == CLASS_FLOAT && value_is_of_integers(let->args[0]);
    return is ? cx_format(e->cx, "(%s)", type_c(let->res[0]->type->dtype)) : NULL;
}

static void
put_map(Emit *e, const Let *let)
{
    const char *operands = map_operands(e, let), *round = rounding(let);
    const char *name = conversion(e->cx, let), *plain = cast_of_integers(e, let);
    const char *function = plain  ? plain
                           : name ? cx_format(e->cx, "dlc_%s", name)
                                  : cc_function(e, let);
    const char *call = cc_near_call(e, let, function, operands);
    if (round) {
        call = cx_format(e->cx, "dlc_%s(%s)", round, call);
    }
    put(e, "const %s %s = %s;", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]), call);
}

/* How many iterations of a tile have one of their own; 0: it is no buffer of a tile. */
static int
copies_of(const Value *buffer)
{
    const Let *def = buffer->def;
    return def && def->op == OP_buffer ? (int)let_mark_value(def, MARK_array) : 0;
}

const char *
cc_element(Emit *e, const Let *access)
{
    const Value *v = access->args[0];
    const char *at = offset_c(e, access_offset(e, access));
    int copies = copies_of(v);
    return copies ? cx_format(e->cx, "%s[(%s) * %d + k]", name_c(e, v), at, copies)
                  : cx_format(e->cx, "%s[%s]", name_c(e, v), at);
}

static const char **
find_stand(const Emit *e, const Let *let, bool add)
{
    uint32_t key[2];
    Map *stands = &cc_of(e)->stands;
    memcpy(key, &let, sizeof let);
    return add ? map_at(e->cx, stands, key, 2, sizeof(const char *)) : map_get(stands, key, 2);
}

void
cc_stand_value(Emit *e, const Let *let, const char *as)
{
    *find_stand(e, let, true) = as;
}

void
cc_stand(Emit *e, const Let *access, const char *as)
{
    cc_stand_value(e, access, as && access->op == OP_load ? cc_loaded(e, access, as) : as);
}

const char *
cc_stands(const Emit *e, const Let *let)
{
    const char **as = find_stand(e, let, false);
    return as ? *as : NULL;
}

/* ---- scalar lets ---- */

const char *
cc_loaded(Emit *e, const Let *load, const char *element)
{
    Dtype dtype = load->res[0]->type->dtype;
    return dtype == DT_f16 || dtype == DT_bf16
               ? cx_format(e->cx, "dlc_load_%s(%s)", dtype_info[dtype].name, element)
               : element;
}

static void
put_load(Emit *e, const Let *let)
{
    const char *value = cc_stands(e, let), *panel = panel_of(e, let);
    if (panel) {
        value = cc_loaded(e, let, cx_format(e->cx, "%s[%s]", panel, panel_index(e, let)));
    } else if (!value) {
        value = cc_loaded(e, let, cc_element(e, let));
    }
    put(e, "const %s %s = %s;", type_c(let->res[0]->type->dtype), name_c(e, let->res[0]), value);
}

static void
put_store(Emit *e, const Let *let)
{
    Dtype dtype = let->args[0]->type->dtype;
    const char *stands = cc_stands(e, let), *to = stands ? stands : cc_element(e, let);
    const char *v = cc_value(e, let->args[1], dtype), *when = cc_near_stores(e, let);
    if (dtype == DT_bf16 || dtype == DT_f16) { /* rounded where it was made */
        put(e, "%s%s = dlc_pack_%s(%s);", when, to, dtype_info[dtype].name, v);
    } else if (is_narrow(dtype)) {
        put(e, "%s%s = (%s)%s;", when, to, storage_c(dtype), v);
    } else {
        put(e, "%s%s = %s;", when, to, v);
    }
}

static void
put_update(Emit *e, const Let *let)
{
    const char *to = cc_element(e, let), *v = cc_value(e, let->args[1], let->args[0]->type->dtype);
    if (let_op(let) == OP_store) {
        put_store(e, let);
    } else {
        put(e, "%s = %s(%s, %s);", to, cc_function(e, update_map(e, let)), to, v);
    }
}

/* Where elements are updated, and where there may be no element 0, an index out of range ends the
 * phase. */
bool
cc_may_end_phase(const Emit *e, const Let *let)
{
    return let->op == OP_bind &&
           (e->facts->updates || dim_range(e->cx, let_dim(let, "extent")).lo < 1);
}

/* Note [Indices from comparisons]
 *
 * gcc 12 (and others, at -O3) vectorises a load at an index that is a comparison in the end, as in
 * x[(y > 0).long()], by taking elements out of a mask, whose type has one bit and a sign: it loads
 * element -1 for every 1.  It sees that through conversions, choices between 0 and 1, sums of what
 * does not change in the loop, and ranges that it proves; so what is computed gets an exclusive or
 * with a 0 that it cannot know, and is a number then. An index that was loaded is one. */

static bool
hides_index(const Emit *e, const Let *bind)
{
    return bind->op == OP_bind && !cc_may_end_phase(e, bind) && bind->args[0]->def &&
           bind->args[0]->def->op != OP_load;
}

/* Does C of the let hide something from the compiler that it could know? */
static bool
hides(const void *e, const Let *let)
{
    return hides_index(e, let) || let_has(let, MARK_hidden);
}

static bool
phase_hides(const Emit *e)
{
    bool found = let_any(e->loop, hides, e);
    for (int k = 0; k < e->use.nlets && !found; k++) {
        found = let_any(e->use.lets[k], hides, e);
    }
    return found;
}

/* Elsewhere it is noted, and 0 is used: nothing is read outside. */
static void
put_bind(Emit *e, const Let *let)
{
    const char *g = index_c(e, let->sizes[0]), *v = cc_value(e, let->args[0], DT_i64);
    const char *extent = dim_c(e, let_dim(let, "extent"));
    const char *at = let_int(let, "wrap") == INDEX_FROM_END
                         ? cx_format(e->cx, "%s + (%s < 0 ? %s : 0)", v, v, extent)
                         : v;
    put(e, "const int64_t %s_at = %s;", g, at);
    if (cc_may_end_phase(e, let)) {
        put_open(e, "if (%s_at < 0 || %s_at >= %s)", g, g, extent);
        if (cc_is_near(e)) {
            put(e, "*again = 1;"); /* the index may be wrong because an operand is far */
        }
        put(e, "return %d;", bind_fault(let));
        put_close(e);
        put(e, "const int64_t %s = %s_at;", g, g);
        return;
    }
    put(e, "const int %s_out = %s_at < 0 || %s_at >= %s;", g, g, g, extent);
    put(e,
        hides_index(e, let) ? "const int64_t %s = opaque ^ (%s_out ? 0 : %s_at);"
                            : "const int64_t %s = %s_out ? 0 : %s_at;",
        g, g, g);
    put(e, bind_fault(let) == FAULT_INDEX ? "fault |= %s_out;" : "fault |= %s_out * %d;", g,
        bind_fault(let));
}

void
cc_let(Emit *e, const Let *let)
{
    if (let->op == OP_load) {
        put_load(e, let);
    } else if (let->op == OP_store) {
        put_store(e, let);
    } else if (let->op == OP_update) {
        put_update(e, let);
    } else if (let->op == OP_bind) {
        put_bind(e, let);
    } else if (let->op == OP_size) {
        put(e, "const int64_t %s = %s;", name_c(e, let->res[0]), dim_c(e, let_dim(let, "dim")));
    } else if (let->op == OP_buffer) {
        const Value *v = let->res[0];
        const char *type = storage_c(v->type->dtype);
        int copies = copies_of(v);
        int64_t elements = let_has(let_around(let), MARK_recurrences);
        if (let_has(let, MARK_registers)) {
            dim_is_int(e->cx, type_numel(e->cx, v->type), &elements);
        }
        if (elements) {
            put(e, "%s %s[%lld];", type, name_c(e, v), (long long)elements);
        } else {
            put(e, "%s *%s = (%s *)(scratch + %s);", type, name_c(e, v), type,
                private_buffer(e, v, copies ? copies : 1));
        }
    } else if (op_info[let->op].kind == KIND_MAP) {
        put_map(e, let);
    }
}

/* ---- reductions ---- */

Reduction
cc_reduction(Emit *e, const Let *let)
{
    Reduction r = {.op = let_op(let), .ret = let->body->rets[0]};
    r.dtype = value_is_const(r.ret) ? let->res[0]->type->dtype : r.ret->type->dtype;
    r.index = op_info[r.op].rule == RULE_INDEX;
    r.name = cx_format(e->cx, "%s_%s", op_info[r.op].name, compute_name(r.dtype));
    r.type = r.index ? cx_format(e->cx, "dlc_arg_%s", compute_name(r.dtype)) : type_c(r.dtype);
    r.out = name_c(e, let->res[0]);
    r.field = r.index ? ".index" : "";
    r.i = index_c(e, loop_index(let));
    r.extent = dim_c(e, loop_extent(let));
    return r;
}

/* What the body of a reduction adds: the value, with its index where that is kept. */
const char *
cc_term(Emit *e, const Reduction *r)
{
    const char *v = cc_value(e, r->ret, r->dtype);
    return r->index ? cx_format(e->cx, "(%s){%s, %s}", r->type, v, r->i) : v;
}

/* In sequence, in blocks of 64 steps, or of one where the elements are results of blocks. */
static void
put_scalar_reduce(Emit *e, const Let *let)
{
    Reduction r = cc_reduction(e, let);
    int block = reduce_block(let);
    put(e, "%s %s;", r.index ? "int64_t" : r.type, r.out);
    put_scope(e);
    put(e, "%s %s_stack[64], %s_sum = dlc_identity_%s();", r.type, r.out, r.out, r.name);
    put(e, "int64_t %s_blocks = 0;", r.out);
    cc_open_loop(e, r.i, "0", r.extent);
    cc_block(e, let->body);
    put(e, "%s_sum = dlc_combine_%s(%s_sum, %s);", r.out, r.name, r.out, cc_term(e, &r));
    put_open(e, "if (%s %% %d == %d || %s + 1 == %s)", r.i, block, block - 1, r.i, r.extent);
    put(e, "dlc_pairs_push_%s(%s_stack, &%s_blocks, %s_sum);", r.name, r.out, r.out, r.out);
    put(e, "%s_sum = dlc_identity_%s();", r.out, r.name);
    put_close(e);
    put_close(e);
    put(e, "%s = dlc_pairs_fold_%s(%s_stack, %s_blocks)%s;", r.out, r.name, r.out, r.out, r.field);
    put_close(e);
}

/* ---- loops and blocks ---- */

static const char *
transpose(void *arg, int bytes)
{
    return cx_format(((Emit *)arg)->cx, "dlc_transpose_%d", bytes);
}

static void
put_row(void *arg, const Block *body)
{
    cc_block(arg, body);
}

/* Is there an update in it, not deeper, or an index that may end the phase? */
static bool
has_order(const Emit *e, const Block *blk)
{
    bool order = false;
    for (int k = 0; k < blk->n; k++) {
        order |= blk->lets[k]->op == OP_update || cc_may_end_phase(e, blk->lets[k]);
    }
    return order;
}

static void put_block(Emit *e, const Block *blk, bool together);

/* A vector loop without loops inside.  streams: with the non-temporal stores that are marked. */
static void
put_vector(Emit *e, const Let *let, bool streams)
{
    const char *i = index_c(e, loop_index(let)), *from, *to;
    bool tiled = is_tiled(let), blocks = false;
    if (tiled) {
        from = cx_format(e->cx, "%s_from", i);
        to = cx_format(e->cx, "%s_to", i);
        cc_stream_open(e, let);
    } else {
        vector_bounds(e, let, &from, &to);
    }
    if (!tiled) {
        cc_gather_row(e, let, from, to);
    }
    const Let *row = let_has(let, MARK_strip) ? loop_stencil_row(let) : NULL;
    if (let_has(let, MARK_distribute)) {
        cc_stage_loop(e, let, from, to);
    } else if (row) {
        blocks = streams && cc_stream_blocks(e, let, &from, &to);
        cc_stencil_loop(e, let, row, from, to);
    } else if (tiled || !(streams && cc_stream_lines(e, let, from, to))) {
        cc_prefetch_vector(e, let);
        bool widened = cc_widen_open(e, let);
        if (!has_order(e, let->body)) {
            put(e, let_has(let, MARK_rolled) ? "LANES" : "INDEPENDENT");
        }
        cc_open_loop(e, i, from, to);
        cc_block(e, let->body);
        put_close(e);
        if (widened) {
            cc_widen_close(e, let);
        }
    }
    if (tiled || blocks) {
        cc_stream_close(e, let);
    }
    if (blocks) {
        put_close(e);
    }
}

/* A vector loop with loops inside: a tile at a time, or one iteration after the other. */
static void
put_tile(Emit *e, const Let *let)
{
    const char *from, *to;
    if (!cc_tile_loop(e, let)) {
        vector_bounds(e, let, &from, &to);
        cc_open_loop(e, index_c(e, loop_index(let)), from, to);
        cc_block(e, let->body);
        put_close(e);
    }
}

static void
put_for(Emit *e, const Let *let, bool together)
{
    const char *i = index_c(e, loop_index(let));
    if (put_product(e, let)) {
        return;
    }
    if (let_has(let, MARK_tile)) {
        put_rows(e, let, transpose, put_row, e);
    } else if (let_has(let, MARK_recurrences)) {
        cc_recurrences(e, let);
    } else if (let_has(let, MARK_vector) && loop_count(let->body)) {
        put_tile(e, let);
    } else if (let_has(let, MARK_vector)) {
        put_vector(e, let, !(together && let_has(let, MARK_alone)));
    } else if (collapsed_at(e, let) >= 0) { /* its index is known already */
        put_block(e, let->body, together);
    } else if (let_has(let, MARK_jam)) {
        cc_jam_loop(e, let);
    } else if (let_has(let, MARK_flat)) {
        cc_flat_loop(e, let, "0", dim_c(e, loop_extent(let)));
    } else {
        cc_open_loop(e, i, "0", dim_c(e, loop_extent(let)));
        put_block(e, let->body, together);
        put_close(e);
    }
}

/* ---- sums of products ---- */

static void
open_terms(Emit *e, const Let *sum)
{
    cc_open_loop(e, index_c(e, loop_index(sum)), "0", dim_c(e, loop_extent(sum)));
}

static const char *
sum_with(Emit *e, const Let *product, Dtype dtype, const char *sum)
{
    bool is_float = dtype_info[dtype].class == CLASS_FLOAT;
    return cx_format(e->cx, is_float ? "DLC_FMA(%s, %s, %s)" : "%s * %s + %s",
                     cc_value(e, product->args[0], dtype), cc_value(e, product->args[1], dtype),
                     sum);
}

static void
put_fused(Emit *e, const Let *sum)
{
    put_chains(e, sum, &(ChainWriter){open_terms, cc_let, sum_with});
}

void
cc_loop(Emit *e, const Let *loop, bool together)
{
    if (loop->op == OP_for) {
        put_for(e, loop, together);
    } else if (facts_in_lanes(e->facts, loop)) {
        cc_lanes_reduce(e, loop, together);
    } else if (let_has(loop, MARK_fused)) {
        put_fused(e, loop);
    } else {
        put_scalar_reduce(e, loop);
    }
}

static void
put_block(Emit *e, const Block *blk, bool together)
{
    for (int k = 0; k < blk->n; k++) {
        if (loop_is(blk->lets[k])) {
            cc_loop(e, blk->lets[k], together);
        } else if (let_is_choice(blk->lets[k])) {
            open_choice(e, blk->lets[k]);
            put_block(e, blk->lets[k]->body, together);
            close_choice(e);
        } else {
            cc_let(e, blk->lets[k]);
        }
    }
}

void
cc_block(Emit *e, const Block *blk)
{
    put_block(e, blk, false);
}

void
emit_cc_phase(Emit *e, const Let *loop)
{
    e->own = cx_alloc(e->cx, sizeof(Cc));
    cc_near_open(e);
    for (int k = 0; k < e->use.nlets; k++) {
        cc_let(e, e->use.lets[k]);
    }
    const Let *last = e->ncollapsed ? e->collapsed[e->ncollapsed - 1] : loop;
    if (e->ncollapsed && let_has(last, MARK_jam) && !let_has(last, MARK_recurrences)) {
        cc_jam_phase(e, loop);
    }
    if (e->ncollapsed && let_has(last, MARK_flat)) {
        cc_flat_loop(e, last, "lo", "hi");
    } else {
        int opened = open_parallel(e);
        put_for(e, loop, false);
        while (opened-- > 0) {
            put_close(e);
        }
    }
    if (let_find_marked(loop, MARK_nontemporal)) {
        put(e, "dlc_stream_end();");
    }
    cc_near_close(e);
    emit_lines(e->cx, loop, e->out);
}

void
emit_cc_function(Emit *e, const Let *loop, const Text *body, Text *unit)
{
    bool near = cc_is_near(e);
    put_header(e, loop, unit);
    if (near) {
        cc_near_head(e, unit);
    } else {
        put_phase_head(e, unit, "DLC_FN"); /* where a size is given, a copy for each number */
    }
    put_pointers(e, unit);
    put_sizes(e, unit, cc_length_size, NULL);
    text_add(unit, "%s", phase_hides(e) ? "    const int64_t opaque = dlc_opaque_zero();\n" : "");
    put_body(body, unit);
    if (near) {
        cc_near_phase(e, loop, unit);
    }
}
