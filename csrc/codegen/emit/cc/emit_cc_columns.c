/* Sums of products that are no call of a microkernel: one alone, and those of columns together.
 *
 * What:     a sum marked fused; a loop marked interchange, perhaps in a loop over rows marked jam:
 *           the loop over columns inside that over the terms.
 * Requires: loops that keep V22, V35 and V50.
 * Ensures:  the chains of fused multiply-adds in the order of the loops stage.
 * How:      the sums of all columns of a row are an array, which the compiler keeps in registers
 *           where its length is a number.  Of several rows, what does not depend on the row is
 *           computed once: the other rows have names of their own for the rest.
 * Example:  for (int64_t p = 0; p < 256; p++) {
 *               for (int64_t l = 0; l < 32; l++) {
 *                   const float a = x[256 * i + p];  const float b = ..;
 *                   s_all[l] = DLC_FMA(a, b, s_all[l]);
 *                   const float a_1 = x[256 * i_1 + p];
 *                   s_1_all[l] = DLC_FMA(a_1, b, s_1_all[l]);
 *               }
 *           }
 */
#include <string.h>

#include "emit_cc.h"

enum { MOST_ROWS = 4 };

typedef struct {
    Emit *e;
    const Let *rows, *columns, *sum; /* rows: NULL, or marked jam */
    Names *own;
    Names others[MOST_ROWS];    /* of row k of those that run together, k > 0 */
    bool *of_row;               /* by Value.id: does the value depend on the row? */
    int n;                      /* how many run together */
} Columns;

static void
enter_row(Columns *c, int k)
{
    c->e->names = k ? &c->others[k] : c->own;
}

/* ---- names ---- */

static void
rename_block(Columns *c, Names *names, const Block *blk, int row)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nres; j++) {
            const char *own = name_c(c->e, let->res[j]);
            names->values[let->res[j]->id] = c->of_row[let->res[j]->id]
                                                 ? cx_format(c->e->cx, "%s_%d_row", own, row)
                                                 : own;
        }
        if (loop_is(let)) {
            rename_block(c, names, let->body, row);
        }
    }
}

static void
make_names(Columns *c)
{
    Emit *e = c->e;
    size_t bytes = (size_t)e->fn->nvalues * sizeof *c->own->values;
    if (!c->rows) {
        return;
    }
    Dim index = loop_index(c->rows);
    c->of_row = values_of_loop(e->cx, c->rows, e->fn->nvalues);
    for (int k = 1; k < MOST_ROWS; k++) {
        Names *names = &c->others[k];
        names->values = cx_alloc(e->cx, bytes);
        memcpy(names->values, c->own->values, bytes);
        rename_block(c, names, c->columns->body, k);
        const char **i = map_at(e->cx, &names->indices, &index, 1, sizeof *i);
        *i = cx_format(e->cx, "%s_%d_row", index_c(e, index), k);
    }
}

/* ---- loops ---- */

/* What the load reads of the first column, as an offset. */
static const char *
first_column(Columns *c, const Let *load)
{
    Emit *e = c->e;
    Dim at = access_offset(e, load);
    return offset_c(e, dim_replace(e->cx, at, loop_index(c->columns), dim_int(e->cx, 0)));
}

/* What marked loads of a step prefetch, of all columns: a line at a time. */
static void
put_prefetches(Columns *c)
{
    Emit *e = c->e;
    for (int k = 0; k < c->sum->body->n; k++) {
        const Let *load = c->sum->body->lets[k];
        if (load->op != OP_load || !let_has(load, MARK_prefetch)) {
            continue;
        }
        int bytes = dtype_info[load->args[0]->type->dtype].bytes;
        int all = (int)let_mark_value(c->columns, MARK_interchange) * bytes;
        int line = facts_access(e->facts, load)->per_line * bytes;
        for (int at = 0; at < all; at += line) {
            put(e, "PREFETCH(%s, (%s) * %d + %d);", name_c(e, load->args[0]), first_column(c, load),
                bytes, (int)let_mark_value(load, MARK_prefetch) + at);
        }
    }
}

/* Loads that are widened together: their elements are in arrays then. */
static void
widen(Columns *c)
{
    Emit *e = c->e;
    for (int k = 0; k < c->sum->body->n; k++) {
        const Let *load = c->sum->body->lets[k];
        if (load->op != OP_load || !let_has(load, MARK_widened)) {
            continue;
        }
        const char *name = name_c(e, load->res[0]);
        put(e, "int32_t %s_wide[%lld];", name,
            (long long)let_mark_value(c->columns, MARK_interchange));
        put(e, "dlc_widen_%s(%s_wide, %s + (%s));", dtype_info[load->args[0]->type->dtype].name,
            name, name_c(e, load->args[0]), first_column(c, load));
        cc_stand_value(e, load,
                       cx_format(e->cx, "%s_wide[%s]", name, index_c(e, loop_index(c->columns))));
    }
}

static void
leave_widened(Columns *c)
{
    for (int k = 0; k < c->sum->body->n; k++) {
        const Let *load = c->sum->body->lets[k];
        if (load->op == OP_load && let_has(load, MARK_widened)) {
            cc_stand_value(c->e, load, NULL);
        }
    }
}

static const char *
sum_with(Emit *e, const Let *product, Dtype dtype, const char *sum)
{
    bool is_float = dtype_info[dtype].class == CLASS_FLOAT;
    return cx_format(e->cx, is_float ? "DLC_FMA(%s, %s, %s)" : "%s * %s + %s",
                     cc_value(e, product->args[0], dtype), cc_value(e, product->args[1], dtype),
                     sum);
}

/* The terms of so many columns.  whole: of as many as the arrays have room for. */
static void
put_terms(Columns *c, const char *columns, bool whole)
{
    Emit *e = c->e;
    const Block *body = c->sum->body;
    const Let *product = body->rets[0]->def;
    Dtype dtype = c->sum->res[0]->type->dtype;
    const char *l = index_c(e, loop_index(c->columns)), *p = index_c(e, loop_index(c->sum));
    cc_open_loop(e, p, "0", dim_c(e, loop_extent(c->sum)));
    put_prefetches(c);
    if (whole) {
        widen(c);
    }
    put(e, "INDEPENDENT");
    cc_open_loop(e, l, "0", columns);
    for (int row = 0; row < c->n; row++) {
        enter_row(c, row);
        for (int k = 0; k < body->n; k++) {
            const Let *let = body->lets[k];
            bool again = row == 0 || c->of_row[let->res[0]->id];
            if (let != product && again) {
                cc_let(e, let);
            }
        }
        const char *sum = cx_format(e->cx, "%s_all[%s]", name_c(e, c->sum->res[0]), l);
        put(e, "%s = %s;", sum, sum_with(e, product, dtype, sum));
    }
    enter_row(c, 0);
    leave_widened(c);
    put_close(e);
    put_close(e);
}

/* So many rows, from the index of the rows on.  A row as long as the array has a loop of its
 * own. */
static void
put_together(Columns *c, int n)
{
    Emit *e = c->e;
    const Let *columns = c->columns;
    const char *l = index_c(e, loop_index(columns)), *extent = dim_c(e, loop_extent(columns));
    const char *room = cx_format(e->cx, "%lld",
                                 (long long)let_mark_value(columns, MARK_interchange));
    const char *type = type_c(c->sum->res[0]->type->dtype);
    c->n = n;
    for (int row = 0; row < n; row++) {
        const char *i = c->rows ? index_c(e, loop_index(c->rows)) : NULL;
        enter_row(c, row);
        if (row) {
            put(e, "const int64_t %s = %s + %d;", index_c(e, loop_index(c->rows)), i, row);
        }
        put(e, "%s %s_all[%s];", type, name_c(e, c->sum->res[0]), room);
        cc_open_loop(e, l, "0", room);
        put(e, "%s_all[%s] = 0;", name_c(e, c->sum->res[0]), l);
        put_close(e);
        enter_row(c, 0);
    }
    if (strcmp(extent, room) == 0) {
        put_terms(c, room, true);
    } else {
        put_open(e, "if (%s == %s)", extent, room);
        put_terms(c, room, true);
        put_close(e);
        put_open(e, "else");
        put_terms(c, extent, false);
        put_close(e);
    }
    for (int row = 0; row < n; row++) {
        enter_row(c, row);
        const char *sum = name_c(e, c->sum->res[0]);
        put(e, "INDEPENDENT");
        cc_open_loop(e, l, "0", extent);
        put(e, "const %s %s = %s_all[%s];", type, sum, sum, l);
        for (int k = 1; k < columns->body->n; k++) {
            cc_let(e, columns->body->lets[k]);
        }
        put_close(e);
        enter_row(c, 0);
    }
}

static void
open_terms(Emit *e, const Let *sum)
{
    cc_open_loop(e, index_c(e, loop_index(sum)), "0", dim_c(e, loop_extent(sum)));
}

void
cc_chains(Emit *e, const Let *sum)
{
    put_chains(e, sum, &(ChainWriter){open_terms, cc_let, sum_with});
}

static Columns
columns_of(Emit *e, const Let *rows, const Let *columns)
{
    return (Columns){
        .e = e, .rows = rows, .columns = columns, .sum = columns->body->lets[0], .own = e->names};
}

void
cc_columns(Emit *e, const Let *columns)
{
    Columns c = columns_of(e, NULL, columns);
    put_scope(e);
    put_together(&c, 1);
    put_close(e);
}

/* As many rows together as the mark says, then the rest together. */
void
cc_columns_rows(Emit *e, const Let *rows)
{
    Columns c = columns_of(e, rows, rows->body->lets[0]);
    const char *i = index_c(e, loop_index(rows)), *extent = dim_c(e, loop_extent(rows));
    Range range = dim_range(e->cx, loop_extent(rows));
    int jam = (int)let_mark_value(rows, MARK_jam);
    make_names(&c);
    put_scope(e);
    put(e, "int64_t %s = 0;", i);
    if (range.hi >= jam) {
        put_open(e, "for (; %s + %d <= %s; %s += %d)", i, jam, extent, i, jam);
        put_together(&c, jam);
        put_close(e);
    }
    for (int n = jam - 1; n > 0; n--) {
        if (range.hi > jam || (n >= range.lo && n <= range.hi)) {
            put_open(e, "if (%s - %s == %d)", extent, i, n);
            put_together(&c, n);
            put_close(e);
        }
    }
    put_close(e);
}
