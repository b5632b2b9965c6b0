/* Many short rows as one long one, for an optimising C compiler.
 *
 * What:     the iterations of a loop around a vector loop of a few elements, so many together that
 *           the compiler has a loop to make vectors of.
 * Requires: a loop marked flat (schedule/flatten.c).
 * Ensures:  each element's operations as without; loads of so many rows before their stores.
 * How:      element k of the rows is iteration k of one loop.  What has the layout of the results
 *           is used where it is; what all rows share, and what a row has one of, stands in an array
 *           beside it, filled once, or for each block.  Results larger than caches are stored
 *           nontemporally (emit_cc_stream.c): the rows of a block are whole lines.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3:
 *               for (i, j) m_flat[3*i + j] = m[j];
 *               for (; i_from + 64 <= hi; i_from += 64)
 *                   for (k < 192) y[3*i_from + k] = x[3*i_from + k] - m_flat[k];
 */
#include "codegen/loops/flat.h"
#include "emit_cc.h"

typedef struct {
    Emit *e;
    const char *i; /* the index of the loop over rows */
    Flat rows;
    int block; /* rows of a block */
    int most; /* elements of any row that is flat */
} FlatText;

/* What stands for an access of element k of a block. */
static const char *
flat_element(const FlatText *f, const Let *access)
{
    Cx *cx = f->e->cx;
    const char *tensor = name_c(f->e, access->args[0]);
    return !let_has(access, MARK_array)
               ? cx_format(cx, "%s[%s + k]", tensor, offset_c(f->e, flat_row(&f->rows, access)))
           : access->op == OP_store ? cx_format(cx, "%s_to[k]", tensor)
                                    : cx_format(cx, "%s_flat[k]", name_c(f->e, access->res[0]));
}

/* Is it a load, or an index as a number, that such an array stands for?  An operation's is between
 * stages (emit_cc_stage.c). */
static bool
is_filled(const FlatText *f, const Let *let, RowLayout layout)
{
    return let_has(let, MARK_array) && (let->op == OP_load || let->op == OP_size) &&
           flat_layout(&f->rows, let) == layout;
}

static void
put_array(const FlatText *f, const Let *let)
{
    const Type *t = let->res[0]->type;
    bool spread = let->parent != f->rows.loop->body;
    put(f->e, "%s %s_flat[%d];",
        let->op == OP_load && !spread ? storage_c(t->dtype) : type_c(t->dtype),
        name_c(f->e, let->res[0]), (int)let_mark_value(let, MARK_array));
}

static void
put_element(const FlatText *f, const Let *let, const char *element)
{
    put(f->e, "%s_flat[%d * row + %s] = %s;", name_c(f->e, let->res[0]), (int)f->rows.n,
        index_c(f->e, loop_index(f->rows.loop)), element);
}

/* A number of a row: as many of it as a vector has, the next row's overwrite those that are too
 * many. */
static void
put_spread(const FlatText *f)
{
    Emit *e = f->e;
    const Let *let;
    FOR_ROW_LETS(let, &f->rows)
    {
        if (let_has(let, MARK_array)) {
            put_open(e, "for (int64_t k = 0; k < %d; k++)", f->most);
            put(e, "%s_flat[%d * row + k] = %s;", name_c(e, let->res[0]), (int)f->rows.n,
                name_c(e, let->res[0]));
            put_close(e);
        }
    }
}

/* Fills one row of the side arrays that have this layout: those of operands that all rows share, or
 * those of operands of each row. */
static void
put_elements(const FlatText *f, RowLayout layout)
{
    Emit *e = f->e;
    const Let *let;
    const char *j = index_c(e, loop_index(f->rows.loop));
    cc_open_loop(e, j, "0", cx_format(e->cx, "%d", (int)f->rows.n));
    for (int k = 0; k < f->rows.loop->body->n; k++) {
        let = f->rows.loop->body->lets[k];
        if (is_filled(f, let, layout)) {
            put_element(f, let,
                        let->op == OP_load ? cc_element(e, let) : dim_c(e, let_dim(let, "dim")));
        }
    }
    put_close(e);
}

/* Declares the arrays of one kind; are there any, does what fills them use the rows' index, and are
 * there others than of one number of each row? */
static bool
put_arrays(const FlatText *f, RowLayout layout, bool *indexed, bool *others)
{
    const Let *let;
    bool any = false;
    *indexed = *others = false;
    FOR_ROW_LETS(let, &f->rows)
    {
        *indexed |= layout == OTHER && flat_has_row(&f->rows, let);
        if (layout == OTHER && let_has(let, MARK_array)) {
            put_array(f, let);
            any = true;
        }
    }
    for (int k = 0; k < f->rows.loop->body->n; k++) {
        let = f->rows.loop->body->lets[k];
        if (is_filled(f, let, layout)) {
            put_array(f, let);
            any = *others = true;
            *indexed |= flat_has_row(&f->rows, let);
        }
    }
    return any;
}

/* The arrays of one kind, filled; what a row gathers is prefetched. */
static void
put_filled(const FlatText *f, RowLayout layout)
{
    Emit *e = f->e;
    const Let *let;
    bool indexed, others;
    if (!put_arrays(f, layout, &indexed, &others)) {
        return;
    }
    put_open(e, "for (int64_t row = 0; row < %d; row++)", f->block);
    if (layout == OTHER) {
        if (indexed) {
            put(e, "const int64_t %s = %s_from + row;", f->i, f->i);
        }
        FOR_ROW_LETS(let, &f->rows) { cc_let(e, let); }
        cc_gather_row(e, f->rows.loop, "0", dim_c(e, loop_extent(f->rows.loop)));
        put_spread(f);
    }
    if (others) {
        put_elements(f, layout);
    }
    put_close(e);
}

/* All elements of a block. */
static void
put_flat(const FlatText *f)
{
    Emit *e = f->e;
    const Let *let;
    put(e, "LANES");
    put_open(e, "for (int64_t k = 0; k < %d; k++)", (int)f->rows.n * f->block);
    FOR_ROW_LETS(let, &f->rows)
    {
        if (let_has(let, MARK_array)) {
            const char *name = name_c(e, let->res[0]);
            put(e, "const %s %s = %s_flat[k];", type_c(let->res[0]->type->dtype), name, name);
        }
    }
    for (int k = 0; k < f->rows.loop->body->n; k++) {
        let = f->rows.loop->body->lets[k];
        if (let->op == OP_size && let_has(let, MARK_array)) {
            put(e, "const int64_t %s = %s_flat[k];", name_c(e, let->res[0]),
                name_c(e, let->res[0]));
        } else if (let_accesses(let)) {
            cc_stand(e, let, flat_element(f, let));
            cc_let(e, let);
            cc_stand(e, let, NULL);
        } else {
            cc_let(e, let);
        }
    }
    put_close(e);
}

/* Blocks of rows, from <index>_from on. */
static void
put_blocks(const FlatText *f, const char *to)
{
    Emit *e = f->e;
    put_open(e, "if (%s_from + %d <= %s)", f->i, f->block, to);
    put_filled(f, SHARED);
    put_open(e, "for (; %s_from + %d <= %s; %s_from += %d)", f->i, f->block, to, f->i, f->block);
    put_filled(f, OTHER);
    put(e, "const int64_t %s = %s_from;", f->i, f->i);
    cc_stream_arrays(e, f->rows.loop, cc_row_place);
    put_flat(f);
    cc_stream_block_close(e, f->rows.loop);
    put_close(e);
    put_close(e);
}

/* Rows one by one, from <index>_from to `to`. */
static void
put_rest(const FlatText *f, const char *to)
{
    Emit *e = f->e;
    cc_open_loop(e, f->i, cx_format(e->cx, "%s_from", f->i), to);
    cc_block(e, f->rows.rows->body);
    put_close(e);
}

/* Rows before the first one that begins a line of the cache: up to <index>_stop. */
static void
put_lead(const FlatText *f, const char *place, const char *to)
{
    Emit *e = f->e;
    const char *i = f->i;
    put(e, "int64_t %s_stop = %s_from;", i, i);
    put_open(e, "for (; %s_stop < %s && %s_stop < %s_from + 16; %s_stop++)", i, to, i, i, i);
    put(e, "const int64_t %s = %s_stop;", i, i);
    put_open(e, "if ((__UINTPTR_TYPE__)(%s) %% 64 == 0)", place);
    put(e, "break;");
    put_close(e);
    put_close(e);
}

void
cc_flat_loop(Emit *e, const Let *rows, const char *from, const char *to)
{
    FlatText f = {.e = e,
                  .i = index_c(e, loop_index(rows)),
                  .rows = flat_of(e->facts, rows),
                  .block = (int)let_mark_value(rows, MARK_flat),
                  .most = (int)let_mark_value(rows, MARK_flat_row)};
    put_scope(e);
    put(e, "int64_t %s_from = %s;", f.i, from);
    const char *place = cc_stream_block_place(e, f.rows.loop);
    if (place) {
        put_lead(&f, place, to);
        put_open(e, "for (;;)");
        put_rest(&f, cx_format(e->cx, "%s_stop", f.i));
        put_open(e, "if (%s_stop >= %s)", f.i, to);
        put(e, "break;");
        put_close(e);
        put(e, "%s_from = %s_stop;", f.i, f.i);
        put_blocks(&f, to);
        put(e, "%s_stop = %s;", f.i, to);
        put_close(e);
    } else {
        put_blocks(&f, to);
        put_rest(&f, to);
    }
    put_close(e);
}
