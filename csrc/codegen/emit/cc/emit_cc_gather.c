/* Rows that are gathered, prefetched, for an optimising C compiler.
 *
 * What:     loads of rows of a table, each of which begins where an index says that was loaded too:
 *           as hints to the processor, some rows before.
 * Requires: a vector loop over such a row, or a tile of columns, and the loop around or in it that
 *           goes through the indices, one after the other as they are in memory.
 * Ensures:  nothing but speed: an index is read again within its tensor only, and a hint reads
 *           nothing, wherever it points.
 * How:      No processor foresees where a row begins.  So many rows ahead that what is prefetched
 *           fits in the first-level cache, and that a few dozen lines are under way where rows are
 *           short.
 * Why not:  long rows whose elements are stored one by one: a processor finds all but the beginning
 *           alone, and waits for the stores.  Tables that stay near a core.
 * Example:  for i in bags: for j in 8: { later = 8*i + j + 32;
 *           if (later < words) for a line of row x[later]: PREFETCH(it);
 *           sum += w[x[8*i + j], k]; }
 *
 * Two threads of Zen 5, 64 MiB of rows, each looked up once by indices at random; milliseconds, and
 * in pages of 4 KB:
 *
 *   rows of     sums of 8: 0   8    16   32   64 rows before   each doubled: 0   8    16   32   64
 *   16 floats             35   12.5 9.7  3.9  2.8                            47  14   10.5 4.6  4.4
 *   128                   1.48 1.11 0.84 0.84 0.87                           3.3 2.8  2.9  3.0  2.9
 *   1024                  2.46 1.20 1.33 1.16 1.25                           3.1 3.3  3.4  3.3  3.3
 */
#include "emit_cc.h"

/* A load of a row, where the row begins, and the one index it is looked up by. */
typedef struct {
    const Let *load, *bind, *index;
    Dim row;
} Gather;

/* Do the indices follow each other in memory, from one run of the loop through them to the next? */
static bool
in_order(Emit *e, const Let *index, const Let *through)
{
    for (const Let *loop = through->parent->owner; loop_is(loop); loop = loop->parent->owner) {
        const Step *next = step_along(e, index, loop);
        if (next && next->step == loop_extent(through)) {
            return true;
        }
    }
    return !dim_has_index(e->cx, row_offset(e, index, through)) ||
           dim_range(e->cx, loop_extent(through)).lo > 4 * DLC_PREFETCH_GATHER;
}

/* The load of the index that is bound, one for all of a row and by one more for each iteration of
 * `through`. */
static const Let *
index_load(Emit *e, const Let *bind, const Let *along, const Let *through)
{
    const Value *v = bind->args[0];
    if (!literal_of(v) && v->def && v->def->op == OP_cast) {
        v = v->def->args[0];
    }
    const Let *index = literal_of(v) ? NULL : v->def;
    if (!index || index->op != OP_load || index->parent != through->body) {
        return NULL;
    }
    const Value *words = index->args[0];
    if (words->strides || dtype_info[words->type->dtype].class != CLASS_INT ||
        is_private(e, words) || panel_of(e, index)) {
        return NULL;
    }
    bool follows = !dim_uses(e->cx, access_offset(e, index), loop_index(along)) &&
                   is_contiguous(e, index, through);
    return follows && in_order(e, index, through) ? index : NULL;
}

/* Finds what a load gathers: adjacent elements along one loop, of a row whose place is read from an
 * index in another loop; false: it gathers nothing. */
static bool
find_gather(Emit *e, const Let *load, const Let *along, const Let *through, Gather *l)
{
    *l = (Gather){.load = load, .row = row_offset(e, load, along)};
    if (l->row == DIM_NONE || is_private(e, load->args[0]) || panel_of(e, load) ||
        is_cached(e->cx, load->args[0]) || dim_uses(e->cx, l->row, loop_index(through))) {
        return false;
    }
    int binds = 0;
    for (int k = 0; k < through->body->n; k++) {
        const Let *let = through->body->lets[k];
        if (let->op == OP_bind && dim_uses(e->cx, l->row, let->sizes[0])) {
            l->bind = let;
            binds++;
        }
    }
    l->index = binds == 1 ? index_load(e, l->bind, along, through) : NULL;
    return l->index != NULL;
}

/* Lines of the row, from element `from` to `to` of what lies behind `at`. */
static void
put_prefetch(Emit *e, const Gather *l, const char *at, const char *from, const char *to,
             int distance)
{
    const Value *table = l->load->args[0], *words = l->index->args[0];
    int bytes = dtype_info[table->type->dtype].bytes;
    Dim next = dim_add(e->cx, access_offset(e, l->index), dim_int(e->cx, distance)),
        all = type_numel(e->cx, table->type);
    put_scope(e);
    put(e, "const int64_t later = %s;", offset_c(e, next));
    put_open(e, "if (later < %s%s)", dim_c(e, type_numel(e->cx, words->type)),
             dim_range(e->cx, all).lo > DLC_L2 / bytes
                 ? ""
                 : cx_format(e->cx, " && %s > %d", dim_c(e, all), DLC_L2 / bytes));
    put(e, "const int64_t %s = %s[later];", index_c(e, l->bind->sizes[0]), name_c(e, words));
    put_open(e, "for (int64_t k = %s; k < %s; k += %d)", from, to, DLC_LINE / bytes);
    put(e, "PREFETCH(%s, (%s%s + k) * %d);", name_c(e, table), offset_c(e, l->row), at, bytes);
    put_close(e);
    put_close(e);
    put_close(e);
}

static int
prefetch_rows(int64_t row)
{
    int64_t rows = row < DLC_L1 / 2 / DLC_PREFETCH_GATHER ? DLC_PREFETCH_GATHER : DLC_L1 / 2 / row;
    return rows < DLC_PREFETCH_GATHER_MIN ? DLC_PREFETCH_GATHER_MIN : (int)rows;
}

void
cc_gather_columns(Emit *e, const Let *reduce, const Let *tile, const char *at, int width)
{
    int64_t row = dim_range(e->cx, loop_extent(tile)).hi;
    for (int k = 0; k < reduce->body->n; k++) {
        Gather l;
        if (find_gather(e, reduce->body->lets[k], tile, reduce, &l)) {
            int bytes = dtype_info[l.load->args[0]->type->dtype].bytes;
            int distance = prefetch_rows((row < width ? row : width) * bytes);
            put_prefetch(e, &l, cx_format(e->cx, " + %s", at), "0", "w", distance);
        }
    }
}

void
cc_gather_row(Emit *e, const Let *loop, const char *from, const char *to)
{
    const Let *through = loop->parent->owner;
    int64_t row = dim_range(e->cx, loop_extent(loop)).hi;
    for (int k = 0; loop_is(through) && k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        int bytes = let_accesses(load) ? dtype_info[load->args[0]->type->dtype].bytes : 1;
        Gather l;
        if (row <= DLC_GATHER_ROW / bytes && find_gather(e, load, loop, through, &l)) {
            put_prefetch(e, &l, "", from, to, prefetch_rows(row * bytes));
        }
    }
}
