/* Loops marked pack and micro, of both tiers: each is one call of dlc's own microkernels.
 *
 * What the loops say is what the call does (codegen/micro/micro.h); it may write more columns of a panel or of a tile
 * than the loops over them have, which nothing reads.  libtcc knows the functions by their names; code of a C compiler
 * calls them through pointers that object.c fills in when the object is loaded. */
#include "emit.h"

#include "codegen/micro/micro.h"

_Static_assert((int)MICRO_ROWS == MICRO_MOST_ROWS && (int)MICRO_CHAIN == CONTRACTION_CHAIN &&
               MICRO_COLUMNS(char) == MICRO_ROW_BYTES, "the language means what the microkernels do");

static const char micro_takes[] = "const MicroProduct *";
static const char pack_takes[] = "int64_t, int64_t, const void *, int64_t, int64_t, void *";
/* As in codegen/micro/micro.h. */
static const char product_is[] =
    "\ntypedef struct {\n"
    "    int64_t rows, columns, k;\n"
    "    const void *a;\n"
    "    int64_t a_row, a_k;\n"
    "    const void *b;\n"
    "    int64_t b_panel, b_k, b_column;\n"
    "    void *tile;\n"
    "    int64_t tile_row, more, first;\n"
    "} MicroProduct;\n";

/* Called by each tier's own means. */
static const char *
function(Emit *e, bool pointers, const char *stem, const char *takes, Dtype dtype)
{
    const char *name = cx_format(e->cx, "%s%s_%s", pointers ? "dlc_call_" : "", stem, dtype_info[dtype].name);
    if (new_helper(e, name)) {
        text_add(e->helpers, pointers ? "\nvoid (*%s)(%s);\n" : "void %s(%s);\n", name, takes);
    }
    return name;
}

/* The element at index 0 of some loops, as C, and what the access advances by along each of them. */
typedef struct { const char *at, *by[3]; } Strides;

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

static void
put_pack(Emit *e, const Let *loop, bool pointers)
{
    const Let *columns = loop->body->lets[0], *load = columns->body->lets[0];
    const Let *store = columns->body->lets[columns->body->n - 1], *loops[] = {loop, columns};
    Strides from = strides_of(e, load, 2, loops), to = strides_of(e, store, 2, loops);
    put(e, "%s(%s, %s, %s, %s, %s, %s);",
        function(e, pointers, "pack", pack_takes, load->res[0]->type->dtype), dim_c(e, loop_extent(loop)),
        dim_c(e, loop_extent(columns)), from.at, from.by[0], from.by[1], to.at);
}

/* The load that a factor is, or is the cast of. */
static const Let *
factor_load(const Value *factor)
{
    return factor->def->op == OP_cast ? factor->def->args[0]->def : factor->def;
}

static bool
uses(Emit *e, const Let *access, Dim index)
{
    return dim_uses(e->cx, access_offset(e, access), index);
}

/* Are the panels read for the first time, and read again?  In the first iteration of the innermost loop that moves on
 * with the rows alone; always or never without one.  Panels that were just packed are near. */
static const char *
first_time(Emit *e, const Let *loop, const Let *a, const Let *b)
{
    if (b->args[0]->def && b->args[0]->def->op == OP_buffer) {
        return "0";
    }
    for (const Let *around = loop->parent->owner; around && around->op == OP_for; around = around->parent->owner) {
        if (uses(e, a, loop_index(around)) && !uses(e, b, loop_index(around))) {
            return cx_format(e->cx, "%s == 0", dim_c(e, loop_index(around)));
        }
        if (uses(e, b, loop_index(around))) {
            break;
        }
    }
    return "1";
}

static void
put_micro(Emit *e, const Let *loop, bool pointers)
{
    const Let *inner = loop->body->lets[0], *panels = inner->body->n == 1 ? inner : NULL;
    const Let *columns = panels ? panels->body->lets[0] : inner, *sum = columns->body->lets[0];
    const Let *store = columns->body->lets[columns->body->n - 1], *product = sum->body->rets[0]->def;
    const Let *a = factor_load(product->args[0]), *b = factor_load(product->args[1]);
    const Let *of_a[] = {loop, sum}, *of_b[] = {panels, sum, columns}, *of_tile[] = {loop, panels, columns};
    Strides x = strides_of(e, a, 2, of_a), y = strides_of(e, b, 3, of_b), to = strides_of(e, store, 3, of_tile);
    bool packed = is_of_panel(e->cx, b, loop_index(sum), loop_index(columns));
    if (panels && !packed) {
        fail(e->cx, DIAG_NO_PANELS, b->args[0]->name);
    }
    if (new_helper(e, "MicroProduct")) {
        text_add(e->helpers, "%s", product_is);
    }
    put(e, "const MicroProduct product = {");
    put(e, "    .rows = %s, .k = %s, .columns = %s%s,", dim_c(e, loop_extent(loop)), dim_c(e, loop_extent(sum)),
        panels ? cx_format(e->cx, "%d * ", (int)panel_width(b->args[0]->type->dtype)) : "",
        dim_c(e, loop_extent(panels ? panels : columns)));
    put(e, "    .a = %s, .a_row = %s, .a_k = %s,", x.at, x.by[0], x.by[1]);
    if (packed) {
        put(e, "    .b = %s, .b_panel = %s, .first = %s,", y.at, y.by[0], first_time(e, loop, a, b));
    }
    else {
        put(e, "    .b = %s, .b_k = %s, .b_column = %s,", y.at, y.by[1], y.by[2]);
    }
    put(e, "    .tile = %s, .tile_row = %s, .more = %d", to.at, to.by[0], columns->body->n == 4);
    put(e, "};");
    put(e, "%s(&product);", function(e, pointers, packed ? "micro" : "micro_unpacked", micro_takes,
                                     a->res[0]->type->dtype));
}

bool
put_product(Emit *e, const Let *loop, bool pointers)
{
    if (!loop_is_call(loop)) {
        return false;
    }
    const Let *inner = loop->body->lets[0];
    put_open(e, "if (%s > 0 && %s > 0)", dim_c(e, loop_extent(loop)), dim_c(e, loop_extent(inner)));
    (loop_has(loop, MARK_pack) ? put_pack : put_micro)(e, loop, pointers);
    put_close(e);
    return true;
}
