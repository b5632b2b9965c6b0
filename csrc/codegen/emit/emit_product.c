/* Loops marked pack and micro, of both tiers: each is one call of dlc's own microkernels.
 *
 * What the loops say is what the call does (codegen/micro/micro.h); it may write more columns of a panel or of a tile
 * than the loop over them has, which nothing reads.  libtcc knows the functions by their names; code of a C compiler
 * calls them through pointers that object.c fills in when the object is loaded. */
#include "emit.h"

#include "codegen/micro/micro.h"

_Static_assert((int)MICRO_ROWS == MICRO_MOST_ROWS && (int)MICRO_CHAIN == CONTRACTION_CHAIN &&
               MICRO_COLUMNS(char) == MICRO_ROW_BYTES, "the language means what the microkernels do");

static const char micro_takes[] =
    "int64_t, int64_t, const void *, int64_t, int64_t, const void *, void *, int64_t, const void *";
static const char pack_takes[] = "int64_t, int64_t, const void *, int64_t, int64_t, void *";

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

/* The access at step 0 of both indices, as C, and its steps along them. */
typedef struct { const char *at, *outer, *inner; } Steps;

static Steps
steps_of(Emit *e, const Let *access, Dim outer, Dim inner)
{
    Dim steps[2], rest = access_offset(e, access);
    if (!dim_affine(e->cx, rest, outer, &steps[0], &rest) || !dim_affine(e->cx, rest, inner, &steps[1], &rest)) {
        fail(e->cx, DIAG_CODEGEN, cx_format(e->cx, "the elements of %s lie at no constant steps in a product",
                                            access->args[0]->name));
    }
    return (Steps){cx_format(e->cx, "%s + %s", name_c(e, access->args[0]), dim_c(e, rest)), dim_c(e, steps[0]),
                   dim_c(e, steps[1])};
}

static void
put_pack(Emit *e, const Let *loop, bool pointers)
{
    const Let *columns = loop->body->lets[0], *load = columns->body->lets[0];
    const Let *store = columns->body->lets[columns->body->n - 1];
    Dim p = loop_index(loop), l = loop_index(columns);
    Steps from = steps_of(e, load, p, l), to = steps_of(e, store, p, l);
    put(e, "%s(%s, %s, %s, %s, %s, %s);",
        function(e, pointers, "pack", pack_takes, load->res[0]->type->dtype), dim_c(e, loop_extent(loop)),
        dim_c(e, loop_extent(columns)), from.at, from.outer, from.inner, to.at);
}

static void
put_micro(Emit *e, const Let *loop, bool pointers)
{
    const Let *columns = loop->body->lets[0], *sum = columns->body->lets[0], *store = columns->body->lets[1];
    const Let *a = sum->body->lets[0], *panel = sum->body->rets[0]->def->args[1]->def;
    Dim p = loop_index(sum);
    Steps from = steps_of(e, a, loop_index(loop), p), by = steps_of(e, panel, p, loop_index(columns));
    Steps to = steps_of(e, store, loop_index(loop), loop_index(columns));
    put(e, "%s(%s, %s, %s, %s, %s, %s, %s, 0, 0);",
        function(e, pointers, "micro", micro_takes, a->res[0]->type->dtype), dim_c(e, loop_extent(loop)),
        dim_c(e, loop_extent(sum)), from.at, from.outer, from.inner, by.at, to.at);
}

bool
put_product(Emit *e, const Let *loop, bool pointers)
{
    const Let *columns = loop->body->n ? loop->body->lets[0] : NULL;
    if (!loop_is_call(loop)) {
        return false;
    }
    put_open(e, "if (%s > 0 && %s > 0)", dim_c(e, loop_extent(loop)), dim_c(e, loop_extent(columns)));
    (loop_has(loop, MARK_pack) ? put_pack : put_micro)(e, loop, pointers);
    put_close(e);
    return true;
}
