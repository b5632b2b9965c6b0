/* Loops marked pack and micro, of targets that call routines: each is one call of dlc's own
 * microkernels.
 *
 * A call does what the loops say (codegen/micro/micro.h).  It may write more columns of a panel or
 * of a tile than the loops have, but nothing reads these.  libtcc knows the functions by their
 * names; a C compiler's code calls them through pointers, which object.c fills in when the object
 * is loaded; a unit of portable C has functions of its own (the column `calls` of targets.def). */
#include "emit.h"

#include "codegen/loops/product.h"
#include "codegen/micro/micro.h"
#include "ir/verify/product.h"

_Static_assert((int)MICRO_ROWS == MICRO_MOST_ROWS && (int)MICRO_CHAIN == CONTRACTION_CHAIN &&
                   MICRO_COLUMNS(char) == MICRO_ROW_BYTES,
               "the language means what the microkernels do");

static const char micro_takes[] = "const MicroProduct *";
static const char pack_takes[] = "int64_t, int64_t, const void *, int64_t, int64_t, void *";
/* As in codegen/micro/micro.h. */
static const char product_is[] = "\ntypedef struct {\n"
                                 "    int64_t rows, columns, k;\n"
                                 "    const void *a;\n"
                                 "    int64_t a_row, a_k;\n"
                                 "    int64_t a_run, a_next, a_runs, a_jump, a_from;\n"
                                 "    const void *b;\n"
                                 "    int64_t b_panel, b_k, b_column;\n"
                                 "    void *tile;\n"
                                 "    int64_t tile_row, more, first;\n"
                                 "    const void *result;\n"
                                 "    int64_t result_row;\n"
                                 "    const void *prefetched;\n"
                                 "    int64_t prefetched_bytes;\n"
                                 "} MicroProduct;\n";

static const char scatter_takes[] = "const MicroScatter *";
static const char scatter_is[] = "\ntypedef struct {\n"
                                 "    int64_t k, each, columns;\n"
                                 "    const void *b;\n"
                                 "    int64_t k_stride, each_stride, column_stride;\n"
                                 "    void *panel;\n"
                                 "    int64_t rows;\n"
                                 "} MicroScatter;\n";

/* The name of the function as the target calls it: its own or a pointer's. */
static const char *
function(Emit *e, const char *stem, const char *takes, Dtype dtype)
{
    bool pointers = e->target->calls == CALLS_POINTERS, own = e->target->calls == CALLS_TEXT;
    const char *before = pointers ? "dlc_call_" : own ? "dlc_" : "";
    const char *name = cx_format(e->cx, "%s%s_%s", before, stem, dtype_info[dtype].name);
    if (!own && new_helper(e, name)) {
        text_add(e->helpers, pointers ? "\nvoid (*%s)(%s);\n" : "void %s(%s);\n", name, takes);
    }
    return name;
}

/* An access at index 0 of some loops, as C, and the step by which each of the loops advances it. */
typedef struct {
    const char *at, *by[3];
} Strides;

/* loops: NULL where there is none. */
static Strides
strides_of(Emit *e, const Let *access, int n, const Let *const *loops)
{
    Strides s = {0};
    Dim step, rest = access_offset(e, access);
    for (int k = 0; k < n; k++) {
        s.by[k] = "0";
        if (loops[k] && !dim_affine(e->cx, rest, loop_index(loops[k]), &step, &rest)) {
            fail(e->cx, DIAG_STRIDES_OF_PRODUCT, access->args[0]->name);
        }
        if (loops[k]) {
            s.by[k] = dim_c(e, step);
        }
    }
    s.at = cx_format(e->cx, "%s + %s", name_c(e, access->args[0]), dim_c(e, rest));
    return s;
}

/* Packs with another loop around the loop over columns: the sum has another order in memory. */
static void
put_scattered(Emit *e, const CallNest *n, const Strides *from, const Strides *to)
{
    if (new_helper(e, "MicroScatter")) {
        text_add(e->helpers, "%s", scatter_is);
    }
    put(e, "const MicroScatter scatter = {");
    put(e, "    .k = %s, .each = %s, .columns = %s, .b = %s,", dim_c(e, loop_extent(n->loops[0])),
        dim_c(e, loop_extent(n->loops[1])), dim_c(e, loop_extent(n->loops[2])), from->at);
    put(e, "    .k_stride = %s, .each_stride = %s, .column_stride = %s,", from->by[0], from->by[1],
        from->by[2]);
    put(e, "    .panel = %s, .rows = (%s) / %d", to->at, to->by[1],
        (int)panel_width(n->store->args[0]->type->dtype));
    put(e, "};");
    put(e, "%s(&scatter);",
        function(e, "pack_scattered", scatter_takes, n->a->res[0]->type->dtype));
}

static void
put_pack(Emit *e, const Let *loop)
{
    CallNest n = {0};
    call_nest(loop, &n); /* V23 */
    Strides from = strides_of(e, n.a, n.nloops, n.loops),
            to = strides_of(e, n.store, n.nloops, n.loops);
    if (n.nloops == 3) {
        put_scattered(e, &n, &from, &to);
        return;
    }
    put(e, "%s(%s, %s, %s, %s, %s, %s);", function(e, "pack", pack_takes, n.a->res[0]->type->dtype),
        dim_c(e, loop_extent(loop)), dim_c(e, loop_extent(n.loops[1])), from.at, from.by[0],
        from.by[1], to.at);
}

/* Does the call read the panels for the first time of several? */
static const char *
first_time(Emit *e, const Product *p)
{
    Dim first = product_first_time(e->facts, p);
    int64_t known;
    return dim_is_int(e->cx, first, &known) ? (known ? "0" : "1")
                                            : cx_format(e->cx, "%s == 0", dim_c(e, first));
}

/* ---- operands and results ---- */

/* Puts the rows of A.  Their sums may be over runs.  Each column may have its own elements of the
 * rows; these must be adjacent. */
static void
put_rows_of_product(Emit *e, const Product *p)
{
    Cx *cx = e->cx;
    const Let *access = p->a, *rows = p->rows, *columns = p->columns, *sum = p->sum;
    Dim offset = access_offset(e, access), row, at, step, own;
    ProductRuns runs;
    bool one = dim_affine(cx, offset, loop_index(sum), &step, &at);
    if (!one && !product_runs(cx, offset, loop_index(sum), &runs)) {
        fail(cx, DIAG_STRIDES_OF_PRODUCT, access->args[0]->name);
    }
    if (!dim_affine(cx, one ? at : runs.at, loop_index(rows), &row, &at) ||
        !dim_affine(cx, at, loop_index(columns), &own, &at) || !dim_is(cx, own, p->each)) {
        fail(cx, DIAG_STRIDES_OF_PRODUCT, access->args[0]->name);
    }
    put(e, "    .a = %s + %s, .a_row = %s, .a_k = %s,", name_c(e, access->args[0]), dim_c(e, at),
        dim_c(e, row), dim_c(e, one ? step : runs.step));
    if (!one) {
        put(e, "    .a_run = %s, .a_next = %s, .a_runs = %s, .a_jump = %s, .a_from = %s,",
            dim_c(e, runs.run), dim_c(e, runs.next), dim_c(e, runs.runs), dim_c(e, runs.jump),
            dim_c(e, runs.from));
    }
}

/* Tells the call where the tile is stored afterwards, if it is to prefetch that memory. */
static void
put_result(Emit *e, const Let *loop, const Value *tile)
{
    ProductResult to = product_result(e->facts, loop, tile);
    if (to.store && let_has(to.store, MARK_prefetch_tile)) {
        put(e, "    .result = %s + %s, .result_row = %d * %s,", name_c(e, to.store->args[0]),
            dim_c(e, to.at), dtype_info[tile->type->dtype].bytes, dim_c(e, to.row));
    }
}

/* What the call prefetches while it multiplies, as its mark says. */
static void
put_prefetched(Emit *e, const Product *p)
{
    int64_t most = let_mark_value(p->rows, MARK_prefetch_pack);
    Span span = most                                   ? product_next_pack(e->facts, p, most)
                : let_has(p->rows, MARK_prefetch_tile) ? product_next_rows(e->facts, p)
                                                       : (Span){0};
    if (span.of) {
        Dim bytes = dim_int(e->cx, dtype_info[span.of->type->dtype].bytes);
        put(e, "    .prefetched = %s + %s, .prefetched_bytes = %s,", name_c(e, span.of),
            dim_c(e, span.from), dim_c(e, dim_mul(e->cx, span.count, bytes)));
    }
}

static void
put_micro(Emit *e, const Let *loop)
{
    const Product p = product_of(e->facts, loop);
    const Let *panels = p.panels, *columns = p.columns, *sum = p.sum, *a = p.a, *b = p.b;
    const Let *of_b[] = {panels, sum, columns}, *of_tile[] = {loop, panels, columns};
    Strides y = strides_of(e, b, 3, of_b), to = strides_of(e, p.store, 3, of_tile);
    const char *stem = p.packed ? "micro" : p.each ? "micro_each" : "micro_unpacked";
    if (panels && !p.packed) {
        fail(e->cx, DIAG_NO_PANELS, b->args[0]->name);
    }
    if (p.each && !facts_contiguous(e->facts, b, loop_index(columns))) {
        fail(e->cx, DIAG_STRIDES_OF_PRODUCT, b->args[0]->name);
    }
    if (new_helper(e, "MicroProduct")) {
        text_add(e->helpers, "%s", product_is);
    }
    put(e, "const MicroProduct product = {");
    put(e, "    .rows = %s, .k = %s, .columns = %s%s,", dim_c(e, loop_extent(loop)),
        dim_c(e, loop_extent(sum)),
        panels ? cx_format(e->cx, "%d * ", (int)panel_width(b->args[0]->type->dtype)) : "",
        dim_c(e, loop_extent(panels ? panels : columns)));
    put_rows_of_product(e, &p);
    if (p.packed) {
        put(e, "    .b = %s, .b_panel = %s, .first = %s,", y.at, y.by[0], first_time(e, &p));
        put_result(e, loop, p.store->args[0]);
        put_prefetched(e, &p);
    } else {
        put(e, "    .b = %s, .b_k = %s, .b_column = %s,", y.at, y.by[1], y.by[2]);
    }
    put(e, "    .tile = %s, .tile_row = %s, .more = %d", to.at, to.by[0], p.adds);
    put(e, "};");
    put(e, "%s(&product);", function(e, stem, micro_takes, a->res[0]->type->dtype));
}

/* ---- sums that are no call ---- */

/* The body of such a sum, but for the product that it ends with. */
static void
put_factors(Emit *e, const Let *reduce, void (*let)(Emit *e, const Let *let))
{
    const Block *body = reduce->body;
    for (int k = 0; k < body->n; k++) {
        if (body->lets[k] != body->rets[0]->def) {
            let(e, body->lets[k]);
        }
    }
}

void
put_chains(Emit *e, const Let *reduce, const ChainWriter *writer)
{
    Dtype dtype = reduce->res[0]->type->dtype;
    const char *out = name_c(e, reduce->res[0]), *i = index_c(e, loop_index(reduce)),
               *extent = dim_c(e, loop_extent(reduce));
    bool one = dim_range(e->cx, loop_extent(reduce)).hi <= CONTRACTION_CHAIN;
    const char *chain = one ? out : cx_format(e->cx, "%s_part", out);
    put(e, one ? "%s %s = 0;" : "%s %s = 0, %s = 0;", type_c(dtype), out, chain);
    writer->open(e, reduce);
    put_factors(e, reduce, writer->let);
    put(e, "%s = %s;", chain, writer->add(e, reduce->body->rets[0]->def, dtype, chain));
    if (!one) {
        put_open(e, "if (%s %% %d == %d || %s + 1 == %s)", i, CONTRACTION_CHAIN,
                 CONTRACTION_CHAIN - 1, i, extent);
        put(e, "%s = %s < %d ? %s : %s + %s;", out, i, CONTRACTION_CHAIN, chain, out, chain);
        put(e, "%s = 0;", chain);
        put_close(e);
    }
    put_close(e);
}

void
put_dot(Emit *e, Dtype dtype, const char *sum, const char *x, const char *y, const char *k,
        const char *first)
{
    if (new_helper(e, "MicroProduct")) {
        text_add(e->helpers, "%s", product_is);
    }
    put(e, "const MicroProduct product = {");
    put(e, "    .rows = 1, .k = %s, .columns = 1, .a = %s, .a_k = 1, .b = %s, .b_k = 1,", k, x, y);
    put(e, "    .tile = %s, .more = !(%s)", sum, first);
    put(e, "};");
    put(e, "%s(&product);", function(e, "micro_unpacked", micro_takes, dtype));
}

/* ---- calls ---- */

bool
put_product(Emit *e, const Let *loop)
{
    if (!target_calls(e->target, loop)) {
        return false;
    }
    const Let *inner = loop->body->lets[0];
    put_open(e, "if (%s > 0 && %s > 0)", dim_c(e, loop_extent(loop)), dim_c(e, loop_extent(inner)));
    (let_has(loop, MARK_pack) ? put_pack : put_micro)(e, loop);
    put_close(e);
    return true;
}
