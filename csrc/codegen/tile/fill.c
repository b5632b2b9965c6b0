/* Panels that are filled where they are multiplied, and not in a phase before.
 *
 * What:     finds the phase that fills the panels of a product, and copies what it does for one
 *           panel into the loops of the tiles: for all steps of the sums, or for so many.
 * Requires: a phase as lower/lower_pack.c makes it: loops over the axes of the buffer of panels
 *           up to the panels, and in these the loops that fill one.  Nothing else writes the
 *           panels, and nothing but the product reads them.
 * Ensures:  every bit: an element of a panel is what the phase stores there.  What the phase reads
 *           stays as it is until the product is done.
 * How:      the indices of the loops around a panel stand for the numbers that the product reads it
 *           at.  For some of the steps, the outermost loop that goes over steps is shorter, and
 *           begins later.
 * Why not:  leave it in the phase: it is right too, and a panel that was just filled is still in a
 *           cache.
 * Example:  for g in G { for p in K { for l { store panels[g, p, l] = f(w[p, 32*g + l]) } } } and
 *           steps 256*c .. 256*c + 255 of panel q:
 *           for p in 256 { for l { store buf[0, p, l] = f(w[256*c + p, 32*q + l]) } }. */
#include <string.h>

#include "codegen/loops/facts.h"
#include "ir/verify/product.h"
#include "tile.h"

/* ---- the phase that fills panels ---- */

static int
rank_of(const Fill *f)
{
    return f->buffer->type->rank;
}

static bool
stores_to(const void *buffer, const Let *let)
{
    return let->op == OP_store && let->args[0] == buffer;
}

static int
count_loads(const Block *blk, const Value *buffer)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        n += let->op == OP_load && let->args[0] == buffer;
        n += let->body ? count_loads(let->body, buffer) : 0;
    }
    return n;
}

/* Is it a cast that loading to the dtype of a sum does as well? */
static bool
is_widening(const Let *let)
{
    return let->op == OP_cast && !value_is_const(let->args[0]) &&
           dtype_info[let->args[0]->type->dtype].compute == let->res[0]->type->dtype;
}

/* Does the kernel write to the memory, in this let of the block or behind it? */
static bool
changes(const Fill *f, const Value *v)
{
    const Block *blk = f->loop->parent;
    const Let *kernel = phase_kernel(f->loop);
    bool changed = false;
    for (int k = place_of(f->loop); k < blk->n; k++) {
        changed |= loop_is(blk->lets[k]) && loop_writes(blk->lets[k], v);
    }
    for (int k = 0; k < kernel->nres; k++) {
        changed |= kernel->res[k]->over == v;
    }
    return changed;
}

/* Does the block only fill the panel of the loops around it?  Notes whether it computes. */
static bool
is_for_panel(Fill *f, const Block *blk)
{
    bool good = true;
    for (int k = 0; k < blk->n && good; k++) {
        const Let *let = blk->lets[k];
        const Let *around = f->panel;
        switch (let->op) {
        case OP_store:
            good = let->args[0] == f->buffer;
            for (int ax = rank_of(f) - 3; good && ax >= 0; around = let_around(around), ax--) {
                good = let_attr(let, "at")->dims[ax] == loop_index(around);
            }
            break;
        case OP_load:
            good = let->args[0] != f->buffer && !changes(f, let->args[0]);
            break;
        case OP_for:
            good = !let_int(let, "marks");
            break;
        case OP_reduce:
        case OP_buffer:
        case OP_update:
            good = false;
            break;
        default:
            f->computes |= !is_widening(let);
        }
        good = good && (!let->body || is_for_panel(f, let->body));
    }
    return good;
}

/* The loop of the block that alone writes to the buffer, and before the let; or NULL. */
static Let *
only_writer(const Block *blk, const Value *buffer, const Let *before)
{
    Let *found = NULL;
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        if (let_any(blk->lets[k], stores_to, buffer)) {
            found = n++ || k > place_of(before) ? NULL : blk->lets[k];
        }
    }
    return found && found->op == OP_for ? found : NULL;
}

/* Is it read at [.., column / width, .., column % width]? */
static bool
is_read_as_panels(Cx *cx, const Let *load, Dim column)
{
    const Attr *at = let_attr(load, "at");
    const Type *type = load->args[0]->type;
    Dim width = type->dims[at->n - 1];
    bool panels = at->dims[at->n - 3] == dim_div(cx, column, width) &&
                  at->dims[at->n - 1] == dim_mod(cx, column, width);
    for (int k = 0; k < at->n - 3; k++) {
        panels &= !dim_uses(cx, at->dims[k], column);
    }
    return panels;
}

bool
fill_find(Cx *cx, const Let *nest, const Let *load, Dim column, Fill *f)
{
    Value *buffer = load->args[0];
    const Let *top = nest;
    *f = (Fill){.buffer = buffer};
    if (!buffer->def || buffer->def->op != OP_buffer || rank_of(f) < 3 ||
        !is_read_as_panels(cx, load, column)) {
        return false;
    }
    const Block *blk = buffer->def->parent;
    while (top->parent != blk && top->parent->owner->op != OP_kernel) {
        top = top->parent->owner;
    }
    f->loop = top->parent == blk ? only_writer(blk, buffer, top) : NULL;
    f->panel = f->loop;
    bool good = f->loop && count_loads(blk, buffer) == 1;
    for (int ax = 0; good && ax < rank_of(f) - 2; ax++) {
        f->panel = ax ? loop_inner(f->panel) : f->panel;
        bool last = ax == rank_of(f) - 3;
        good = f->panel && f->panel->op == OP_for && !let_int(f->panel, "marks") &&
               loop_extent(f->panel) == buffer->type->dims[ax] && (last || f->panel->body->n == 1);
    }
    return good && is_for_panel(f, f->panel->body);
}

/* ---- some steps of the sums ---- */

/* Of the loops that go over the steps that the store is of, the one with the longest way from one
 * iteration to the next; NULL: there is none.  *step: that. */
static Let *
loop_of_steps(Cx *cx, const Let *store, Dim *step)
{
    const Attr *at = let_attr(store, "at");
    Dim row = at->dims[at->n - 2], by, rest;
    Let *found = NULL;
    int64_t longest = 0, n;
    *step = dim_int(cx, 1);
    for (Let *loop = store->parent->owner; loop && loop->op == OP_for; loop = loop->parent->owner) {
        if (dim_affine(cx, row, loop_index(loop), &by, &rest) && dim_is_int(cx, by, &n) &&
            n > longest) {
            found = loop;
            longest = n;
            *step = by;
        }
    }
    return found;
}

static bool
counts_by(Cx *cx, const Block *blk, Dim index)
{
    bool counts = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        counts |= loop_is(let) &&
                  (dim_uses(cx, loop_extent(let), index) || counts_by(cx, let->body, index));
    }
    return counts;
}

/* Can each store of the block be made for some steps: a chain, or what is left behind chains? */
static bool
has_steps(Cx *cx, const Fill *f, const Block *blk)
{
    Dim all = f->buffer->type->dims[rank_of(f) - 2];
    bool good = true;
    for (int k = 0; k < blk->n && good; k++) {
        const Let *let = blk->lets[k];
        if (!stores_to(f->buffer, let)) {
            good = !let->body || has_steps(cx, f, let->body);
            continue;
        }
        const Attr *at = let_attr(let, "at");
        Dim step, rest;
        int64_t n;
        const Let *loop = loop_of_steps(cx, let, &step);
        if (!loop || loop == f->panel) {
            good = dim_is(cx, all, 1);
            continue;
        }
        good = dim_affine(cx, at->dims[at->n - 2], loop_index(loop), &step, &rest) &&
               dim_is_int(cx, step, &n) && n > 0 && CONTRACTION_CHAIN % n == 0 &&
               dim_range(cx, rest).lo >= 0 && dim_range(cx, rest).hi < n &&
               dim_mul(cx, loop_extent(loop), step) == all &&
               !counts_by(cx, loop->body, loop_index(loop));
    }
    return good;
}

bool
fill_has_steps(Cx *cx, const Fill *f)
{
    return has_steps(cx, f, f->panel->body);
}

/* Has the loops over steps go over n of them. */
static void
set_steps(Cx *cx, const Fill *f, const Block *blk, Dim n)
{
    for (int k = 0; k < blk->n; k++) {
        Dim step;
        Let *loop = stores_to(f->buffer, blk->lets[k]) ? loop_of_steps(cx, blk->lets[k], &step)
                                                       : NULL;
        for (int j = 0; loop && loop != f->panel && j < loop->nattrs; j++) {
            if (loop->attrs[j].kind == ATTR_DIM) {
                bool whole = dim_is(cx, dim_mod(cx, n, step), 0);
                loop->attrs[j].d = whole ? dim_div(cx, n, step) : extent_ceiling(cx, n, step);
            }
        }
        if (blk->lets[k]->body) {
            set_steps(cx, f, blk->lets[k]->body, n);
        }
    }
}

/* Renames the index in the let and deeper, but for where it stores to the buffer. */
static void
shift(Cx *cx, Let *let, const Value *buffer, const Renamed *index)
{
    if (!stores_to(buffer, let)) {
        let_rename(cx, index, let);
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        shift(cx, let->body->lets[k], buffer, index);
    }
}

/* Has the loops over steps begin with step number `first`. */
static void
begin_steps(Cx *cx, const Fill *f, const Block *blk, Dim first)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        const Let *store = let->op == OP_for ? let_find(let, stores_to, f->buffer) : NULL;
        Dim step;
        if (store && loop_of_steps(cx, store, &step) == let) {
            Dim index = loop_index(let);
            Renamed later = {0};
            renamed_add(cx, &later, index, dim_add(cx, index, dim_div(cx, first, step)));
            for (int j = 0; j < let->body->n; j++) {
                shift(cx, let->body->lets[j], f->buffer, &later);
            }
        } else if (let->body) {
            begin_steps(cx, f, let->body, first);
        }
    }
}

/* ---- copies ---- */

/* Has the block store to panel number `slot` of another buffer. */
static void
store_to(Cx *cx, const Fill *f, const Block *blk, Value *to, Dim slot)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (stores_to(f->buffer, let)) {
            for (int j = 0; j < let->nattrs; j++) {
                Attr *a = &let->attrs[j];
                if (a->kind == ATTR_DIMS) {
                    Dim at[] = {slot, a->dims[a->n - 2], a->dims[a->n - 1]};
                    *a = attr_dims(cx, a->key, 3, at);
                }
            }
            let->args[0] = to;
        } else if (let->body) {
            store_to(cx, f, let->body, to, slot);
        }
    }
}

static void
free_names(Fn *fn, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nres; j++) {
            fn_free_name(fn, let->res[j]->name);
        }
        if (let->op == OP_bind) {
            fn_free_name(fn, dim_name(fn->cx, let->sizes[0]));
        }
        if (let->body) {
            fn_free_name(fn, dim_name(fn->cx, loop_index(let)));
            free_names(fn, let->body);
        }
    }
}

void
fill_put(const Tiles *t, Value *to, Dim slot, Dim panel, Dim first, Dim n)
{
    Builder *out = t->p->out;
    Cx *cx = out->cx;
    const Fill *f = t->p->fill;
    int around = rank_of(f) - 3;
    Dim names[MAX_RANK], by[MAX_RANK];
    const Let *loop = f->panel;
    names[around] = loop_index(loop);
    by[around] = panel;
    for (int ax = around - 1; ax >= 0; ax--) {
        loop = let_around(loop);
        names[ax] = loop_index(loop);
        by[ax] = t->p->b.at[ax];
    }
    dims_rename(cx, &t->names, around, by);
    Block *copy = block_copy(out->fn, f->panel->body, around + 1, names, by);
    if (n != DIM_NONE) {
        /* Where the steps begin is said while their indices have the range of all steps: of fewer,
         * the number of a step is less than what it is divided by, and a quotient is 0. */
        if (!dim_is(cx, first, 0)) {
            begin_steps(cx, f, copy, first);
        }
        set_steps(cx, f, copy, n);
        free_names(out->fn, copy);
        copy = block_copy(out->fn, copy, 0, names, by);
    }
    store_to(cx, f, copy, to, slot);
    for (int k = 0; k < copy->n; k++) {
        builder_append(out, copy->lets[k]);
    }
}

Value *
fill_buffer(const Tiles *t)
{
    const Product *p = t->p;
    Cx *cx = p->out->cx;
    const Value *all = p->fill->buffer;
    if (all->type->dtype == p->held && has_panels(cx, all)) {
        return t->buffer;
    }
    Dim room[] = {constant(t, 1), tiles_sums_at_once(t), constant(t, t->size.width)};
    int inner = all->strides ? 1 : 2;
    if (!extent_is_one(cx, room[inner])) {
        room[inner] = extent_of_rows(cx, all->type->dtype, room[inner]);
    }
    Value *part = builder_buffer(p->out, p->out->depth, all->type->dtype, 3, room);
    if (inner == 1) {
        Dim strides[] = {dim_mul(cx, room[1], room[2]), constant(t, 1), room[1]};
        part->strides = cx_copy(cx, strides, sizeof strides);
    }
    return part;
}

void
fill_begin(Fn *fn, const Fill *f)
{
    fn_free_name(fn, f->buffer->name);
    fn_free_name(fn, dim_name(fn->cx, loop_index(f->loop)));
    free_names(fn, f->loop->body);
}

void
fill_drop(const Fill *f)
{
    Block *blk = f->loop->parent;
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        if (blk->lets[k] != f->loop && blk->lets[k] != f->buffer->def) {
            blk->lets[n++] = blk->lets[k];
        }
    }
    blk->n = n;
}
