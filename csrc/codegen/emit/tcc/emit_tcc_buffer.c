/* Tile buffers of the libtcc tier, and prefetching.
 *
 * What:     room for the values of a vector loop, an element for each iteration of a tile, and
 *           where those buffers lie on the stack; calls that bring the next tile of a tensor near.
 * Requires: nothing; a buffer that was made free is given away again.
 * Ensures:  few buffers, beginning on a line of the cache.
 * How:      a list of busy buffers for each size of element; the first free one is taken.
 * Why not:  a buffer for each value: they would not stay in the first-level cache.
 * Example:  int32_t *tile4_0 = (int32_t *)(tiles + 0);
 */
#include "emit_tcc.h"

int
tcc_size_class(Dtype dtype)
{
    int bytes = dtype_info[dtype_info[dtype].compute].bytes;
    return bytes == 1 ? 0 : bytes == 4 ? 1 : bytes == 8 ? 2 : 3;
}

static const char *
slot_name(Tcc *t, int class, int slot)
{
    static const int bytes[] = {1, 4, 8, 16};
    return cx_format(t->e->cx, "tile%d_%d", bytes[class], slot);
}

Place
tcc_room(Tcc *t, Dtype dtype, bool varies, const char *name)
{
    if (!varies) {
        put(t->e, "%s %s;", type_c(dtype), name);
        return (Place){.at = cx_format(t->e->cx, "&%s", name), .slot = -1};
    }
    int class = tcc_size_class(dtype), slot = 0;
    while (slot < t->count[class] && t->busy[class][slot]) {
        slot++;
    }
    if (slot == t->count[class]) {
        t->busy[class] = cx_grow(t->e->cx, t->busy[class], slot, sizeof(bool));
        t->count[class]++;
    }
    t->busy[class][slot] = true;
    return (Place){.at = slot_name(t, class, slot), .varies = true, .class = class, .slot = slot};
}

void
tcc_free(Tcc *t, const Place *p)
{
    if (p->varies && p->slot >= 0) {
        t->busy[p->class][p->slot] = false;
    }
}

void
tcc_width(Tcc *t, int width)
{
    t->width = width;
    t->widest = width > t->widest ? width : t->widest;
}

/* The tensor that tiles are laid out like: the first that the phase stores to. */
static const Value *
first_stored(const Emit *e)
{
    const Phase *ph = e->phase;
    for (int k = 0; k < ph->nbuffers; k++) {
        const Value *v = ph->buffers[k];
        if (v->def && (v->def == ph->kernel || v->def->op == OP_buffer)) {
            return v;
        }
    }
    return ph->buffers[0];
}

/* See Note [Where tiles lie]. */
void
tcc_slots(Tcc *t)
{
    static const char *const types[] = {"uint8_t", "int32_t", "int64_t", "dlc_c128"};
    static const int bytes[] = {1, 4, 8, 16};
    int at = 0;
    for (int class = 0; class < SLOT_CLASSES; class++) {
        at += t->count[class] * bytes[class] * t->widest;
    }
    if (at == 0) {
        return;
    }
    put(t->e, "char room[%d + 4096];", at);
    put(t->e, "char *tiles = room + ((((int64_t)%s & 4032) - (int64_t)room) & 4095);",
        name_c(t->e, first_stored(t->e)));
    at = 0;
    for (int class = SLOT_CLASSES - 1; class >= 0; class--) {
        for (int k = 0; k < t->count[class]; k++) {
            put(t->e, "%s *%s = (%s *)(tiles + %d);", types[class], slot_name(t, class, k),
                types[class], at);
            at += bytes[class] * t->widest;
        }
    }
}

/* ---- prefetching ---- */

/* A row that begins a few elements away counts: it is on the same lines of the cache. */
static bool
is_prefetched(Tcc *t, const Value *buffer, Dim row)
{
    for (int k = 0; k < t->nprefetched; k++) {
        int64_t distance = 0;
        if (t->prefetched[k].buffer == buffer &&
            (t->prefetched[k].row == row ||
             (dim_is_int(t->e->cx, dim_sub(t->e->cx, t->prefetched[k].row, row), &distance) &&
              distance > -DLC_ROW_DISTANCE && distance < DLC_ROW_DISTANCE))) {
            return true;
        }
    }
    return false;
}

static void
note_prefetched(Tcc *t, const Value *buffer, Dim row)
{
    t->prefetched = cx_grow(t->e->cx, t->prefetched, t->nprefetched, sizeof *t->prefetched);
    t->prefetched[t->nprefetched++] = (Prefetched){buffer, row};
}

/* Does the buffer stay near a core?  One of several that alternate does not, however small each is:
 * a step of Adam over a hundred tensors of 700 KB took a third longer without prefetching; but of
 * 3.5 MB in all a seventh longer with. */
static bool
stays_cached(const Emit *e, const Value *buffer)
{
    int64_t n = dim_range(e->cx, type_numel(e->cx, buffer->type)).hi;
    return buffer_is_small(e->cx, buffer) &&
           (n <= DLC_STAYS_ALWAYS / dtype_info[buffer->type->dtype].bytes ||
            dim_range(e->cx, e->bytes).lo < DLC_STAYS);
}

/* Not a buffer of the iteration, nor what caches hold (prefetching takes a tenth to a third of the
 * time of what is computed from one), nor what an earlier loop of the phase has prefetched, nor a
 * row that all iterations of the loops around read. */
static bool
comes_from_memory(Tcc *t, const Value *buffer, Dim offset)
{
    Cx *cx = t->e->cx;
    bool vector = t->e->ncollapsed == 1 && let_has(t->e->collapsed[0], MARK_vector);
    Dim row = dim_replace(cx, offset, t->index, dim_int(cx, 0));
    if (is_private(t->e, buffer) || stays_cached(t->e, buffer) || is_prefetched(t, buffer, row)) {
        return false;
    }
    note_prefetched(t, buffer, row);
    return vector || dim_has_index(cx, row);
}

/* Elements from a tile to what is prefetched meanwhile, see Note [How far ahead]. */
static int64_t
prefetch_distance(int64_t tile)
{
    return tile <= DLC_SCALAR_TILE ? 2 * tile : tile;
}

const char *
tcc_prefetch_bits(Tcc *t, const Let *load, const Let *reduce, int64_t bytes)
{
    Dim row = dim_replace(t->e->cx, access_offset(t->e, load), loop_index(reduce),
                          dim_int(t->e->cx, 0));
    note_prefetched(t, load->args[0], row);
    int far = prefetch_bytes(t->e, load, reduce->parent->owner, bytes);
    return far ? cx_format(t->e->cx, " | %d << 4", far) : "";
}

/* Is so much computed from what a reduction loads that what is prefetched arrives meanwhile? */
static bool
is_slow(const Tcc *t, const Let *reduce)
{
    return facts_loop(t->e->facts, reduce)->cost >= COST_EXP;
}

/* Does the one strip that the reduction of a load is prefetch by itself, as it goes? */
static bool
fold_prefetches(Tcc *t, const Let *load, const Let *reduce)
{
    const Value *v = reduce->body->rets[0];
    const Pair *pair = value_is_const(v) ? NULL : &t->pairs[v->id];
    return pair && pair->folded && pair->strip && reduce->body->n == 3 &&
           pair->first->args[0] == load->res[0] && tcc_find_fold(let_op(reduce), pair->strip);
}

/* Of a reduction that computes much: what follows what its last reading is of. */
static void
prefetch_in_reduction(Tcc *t, const Let *load, const char *at)
{
    const Let *reduce = t->e->tile;
    int bytes = dtype_info[load->args[0]->type->dtype].bytes;
    bool prefetches = load->parent == reduce->body && is_slow(t, reduce) &&
                      !fold_prefetches(t, load, reduce);
    int far = prefetches ? prefetch_bytes(t->e, load, reduce->parent->owner, 0) : 0;
    if (far) {
        put(t->e, "%s(%s + %d, %s * %d);", tcc_strip(t, "strip_prefetch"), at, far / bytes, t->n,
            bytes);
    }
}

/* Does the block read the same tensor a row or more further on (sign 1), or further back (-1)? */
static bool
reads_row(Tcc *t, const Let *load, Dim offset, int sign)
{
    bool found = false;
    for (int k = 0; k < load->parent->n && !found; k++) {
        const Let *other = load->parent->lets[k];
        if (other->op == OP_load && other->args[0] == load->args[0]) {
            Dim at = access_offset(t->e, other);
            Range distance = dim_range(t->e->cx, sign > 0 ? dim_sub(t->e->cx, at, offset)
                                                          : dim_sub(t->e->cx, offset, at));
            found = distance.lo > 0 && distance.hi >= DLC_ROW_DISTANCE;
        }
    }
    return found;
}

bool
tcc_prefetches(Tcc *t, const Let *loop)
{
    bool streams = false;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        streams |= let->op == OP_store && tcc_streams(t, let);
    }
    return !streams || loop == t->e->columns || !rows_are_foreseen(t->e->facts, loop);
}

/* In a loop that runs inside of the tile, the next is a few of its iterations ahead; in a tile of
 * rows, a few rows are.  A reduction reads a block in one go, which the processor foresees;
 * prefetching would only be waited for. */
void
tcc_prefetch(Tcc *t, const Let *load, Dim offset, const char *at)
{
    Cx *cx = t->e->cx;
    const Let *loop = load->parent->owner;
    int64_t tile = t->width;
    if (t->grid) {
        dim_is_int(cx, t->row ? dim_mul(cx, t->rows, t->columns) : t->rows, &tile);
    }
    Dim step = dim_int(cx, prefetch_distance(tile)), row, rest;
    if (tile <= DLC_SCALAR_TILE && reads_row(t, load, offset, -1)) {
        step = dim_int(cx, DLC_PREFETCH_STENCIL * tile);
    }
    if (loop != t->e->tile && dim_affine(cx, offset, loop_index(loop), &step, &rest)) {
        step = dim_mul(cx, step, dim_int(cx, DLC_PREFETCH_ROWS));
    } else if (loop == t->e->columns &&
               dim_affine(cx, offset, loop_index(t->e->rows), &row, &rest) && !dim_is(cx, row, 0)) {
        step = dim_mul(cx, row, dim_int(cx, DLC_PREFETCH_TILE_ROWS));
    }
    bool far = !reads_row(t, load, offset, 1) && comes_from_memory(t, load->args[0], offset);
    if (t->e->tile->op == OP_reduce) {
        prefetch_in_reduction(t, load, at);
    } else if (far && (t->prefetches || loop != t->e->tile)) {
        put(t->e, "%s(%s + %s, %s * %d);", tcc_strip(t, "strip_prefetch"), at, dim_c(t->e, step),
            t->n, dtype_info[load->res[0]->type->dtype].bytes);
    }
}

void
tcc_prefetch_rows(Tcc *t, const Value *buffer, const Walk *walk, const char *at, const char *strip)
{
    int64_t step = 0, rows = t->width, columns = t->row ? dim_range(t->e->cx, t->columns).hi : 1;
    if (!dim_is_int(t->e->cx, walk->kind == WALK_GRID ? walk->row_step : walk->step, &step) ||
        step < columns || step > 4 * columns || walk->kind > WALK_GRID ||
        !comes_from_memory(t, buffer, walk->start)) {
        return;
    }
    if (t->row) {
        dim_is_int(t->e->cx, t->rows, &rows);
    }
    int64_t tile = step * rows;
    put(t->e, "%s(%s + %lld, %s * %lld);", tcc_strip(t, "%s", strip), at, (long long)tile,
        t->row ? "rows" : t->n, (long long)step * dtype_info[buffer->type->dtype].bytes);
}

/* What is written over what is read is prefetched once, to be written.  With tiles of a whole block
 *      it would
 * have to wait too long in the cache: the scale of an RMS norm took 1.6 times as long. */
void
tcc_prefetch_stores(Tcc *t, const Let *loop)
{
    Emit *e = t->e;
    if (t->width >= DLC_BLOCK) {
        return;
    }
    for (int k = 0; k < loop->body->n && loop != e->columns && !loop_count(loop->body); k++) {
        const Let *store = loop->body->lets[k];
        Dim offset = store->op == OP_store ? access_offset(e, store) : DIM_NONE;
        if (offset == DIM_NONE || !facts_contiguous(e->facts, store, t->index) ||
            tcc_streams(t, store) || !comes_from_memory(t, store->args[0], offset)) {
            continue;
        }
        if (store->args[0]->over) {
            comes_from_memory(t, store->args[0]->over, offset);
        }
        put(e, "%s(%s + %s + %lld, %s * %d);", tcc_strip(t, "strip_prefetch_write"),
            name_c(e, store->args[0]), dim_c(e, offset), (long long)prefetch_distance(t->width),
            t->n, dtype_info[store->args[0]->type->dtype].bytes);
    }
}

/* Note [Where tiles lie]
 *
 * A vector that straddles two lines of the cache costs twice, so tiles begin on a line, which a
 * compiler without alignment of locals does not see to.  And a load that follows a store whose
 * address has the same last twelve bits may wait for it.  Large tensors begin at the same place of
 * a page, so tiles begin there too: then a strip's loads are at the same place as its stores or
 * ahead of them, whatever mixture of tiles and tensors it works on. */

/* Note [How far ahead]
 *
 * What is prefetched comes into the first level: from the second, the strips that read it take as
 *      long again
 * as the additions of a few of them (a step of Adam in memory 1.2 times, swiglu 1.15).  While a
 * tile of a kilobyte is computed from few operations, memory has not answered yet: a tile further
 * it has (a stencil 1.2 times).  All streams together take the places that follow in a page, two
 * tiles and the one at hand, so that however far ahead, a place in the cache has one line of each.
 * Larger tiles take long enough.  A stencil's first row is alone, the others it has read before:
 * six tiles ahead 4.3 ms of 64 MiB, four 4.4, two 5.6, while of four rows, of Adam, and of a
 * residual with a bias four tiles took a tenth longer than two.
 *
 * A loop with non-temporal stores that reads one or two rows prefetches none: what is prefetched in
 * one go keeps lines from being stored, and processors foresee as much by themselves (64 MiB:
 * swiglu 5.0 ms with prefetching, 4.3 without, 4.0 when the last strip stores by itself too; a GELU
 * and its residual 8.2, 7.6, 7.1).  Of four rows they do not: a step of Adam 10.1 ms, without
 * 12.9. */
