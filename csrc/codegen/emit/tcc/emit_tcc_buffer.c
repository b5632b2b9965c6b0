/* Tile buffers of the libtcc tier, and prefetching.
 *
 * What:     room for the values of a vector loop, an element for each iteration of a tile, and
 *           where those buffers lie on the stack; calls that prefetch the next tile of a tensor.
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
tcc_enter(Tcc *t, const Let *loop, const char *n)
{
    t->at = loop;
    t->n = n;
    t->widest = tcc_width(t) > t->widest ? tcc_width(t) : t->widest;
}

void
tcc_leave(Tcc *t)
{
    t->at = NULL;
    t->n = "1";
}

/* The tensor that tiles are laid out like: the first that the phase stores to; 0: there is none. */
static const char *
first_stored(Emit *e)
{
    const Phase *ph = e->phase;
    for (int k = 0; k < ph->nbuffers; k++) {
        const Value *v = ph->buffers[k];
        if (v->def && (v->def == ph->kernel || v->def->op == OP_buffer)) {
            return name_c(e, v);
        }
    }
    return ph->nbuffers ? name_c(e, ph->buffers[0]) : "0";
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
        first_stored(t->e));
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

const char *
tcc_prefetch_bits(Tcc *t, const Let *load, const Let *reduce, int64_t bytes)
{
    int far = facts_prefetched(t->e->facts, load, let_around(reduce), bytes);
    return far ? cx_format(t->e->cx, " | %d << 4", far) : "";
}

/* Rows that are prefetched are those of a tile that is transposed, those that follow a
 * reduction, or else what the load reads in coming iterations of the loop that it stands in. */
void
tcc_prefetch(Tcc *t, const Let *load, const char *at)
{
    Emit *e = t->e;
    const Let *loop = let_around(load);
    bool reduces = let_has(loop, MARK_lanes);
    int bytes = facts_access(e->facts, load)->bytes;
    int64_t along = let_mark_value(load, MARK_prefetch),
            rows = let_mark_value(load, MARK_prefetch_rows);
    const Let *through = reduces || is_tiled(loop) ? let_around(loop) : loop;
    const Step *next = rows ? step_along(e, load, through) : NULL;
    bool here = !reduces || let_has(load, MARK_prefetch_call);
    if (here && (along || next)) {
        Dim step = next ? dim_mul(e->cx, next->step, dim_int(e->cx, rows))
                        : dim_int(e->cx, along / bytes);
        put(e, "%s(%s + %s, %s * %d);", tcc_strip(t, "strip_prefetch"), at, dim_c(e, step), t->n,
            bytes);
    }
}

void
tcc_prefetch_rows(Tcc *t, const Let *access, const Walk *walk, const char *at)
{
    int64_t step = 0, far = let_mark_value(access, MARK_prefetch);
    int bytes = dtype_info[access->args[0]->type->dtype].bytes;
    if (far && dim_is_int(t->e->cx, walk->kind == WALK_GRID ? walk->row_step : walk->step, &step)) {
        const char *strip = access->op == OP_store ? "strip_prefetch_write" : "strip_prefetch";
        put(t->e, "%s(%s + %lld, %s * %lld);", tcc_strip(t, "%s", strip), at,
            (long long)far / bytes, tcc_row(t) ? "rows" : t->n, (long long)step * bytes);
    }
}

void
tcc_prefetch_stores(Tcc *t, const Let *loop)
{
    Emit *e = t->e;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *store = loop->body->lets[k];
        int64_t far = store->op == OP_store ? let_mark_value(store, MARK_prefetch) : 0;
        if (far && is_contiguous(e, store, loop)) {
            int bytes = dtype_info[store->args[0]->type->dtype].bytes;
            put(e, "%s(%s + %s + %lld, %s * %d);", tcc_strip(t, "strip_prefetch_write"),
                name_c(e, store->args[0]), dim_c(e, access_offset(e, store)),
                (long long)far / bytes, t->n, bytes);
        }
    }
}

/* Note [Where tiles lie]
 *
 * A vector that straddles two lines of the cache costs twice, so tiles begin on a line, which a
 * compiler without alignment of locals does not see to.  And a load that follows a store whose
 * address has the same last twelve bits may wait for it.  Large tensors begin at the same place of
 * a page, so tiles begin there too: then a strip's loads are at the same place as its stores or
 * ahead of them, whatever mixture of tiles and tensors it works on. */
