/* Many short rows as one long one: how the elements of the rows are stored.
 *
 * What:     of a loop around a vector loop of a few elements, which accesses go through all rows
 *           without a gap, which are the same for all rows, and which need an array beside.
 * How:      element k of the rows is iteration k of one loop.
 */
#include "flat.h"
#include "loops.h"

static const Let *
row_loop(const Let *rows)
{
    const Let *found = NULL;
    for (int k = 0; k < rows->body->n; k++) {
        found = loop_is(rows->body->lets[k]) ? rows->body->lets[k] : found;
    }
    return found;
}

Flat
flat_of(const Facts *facts, const Let *rows)
{
    Flat f = {.facts = facts, .rows = rows, .loop = row_loop(rows)};
    if (!f.loop || !dim_is_int(facts->cx, loop_extent(f.loop), &f.n)) {
        f.n = 0;
    }
    return f;
}

Let *
flat_next_let(const Flat *f, int *k)
{
    const Block *blk = f->rows->body;
    while (*k < blk->n && loop_is(blk->lets[*k])) {
        ++*k;
    }
    return *k < blk->n ? blk->lets[(*k)++] : NULL;
}

/* Does the let's position, or the number that it is, use the name? */
static bool
uses(const Flat *f, const Let *let, Dim name)
{
    Cx *cx = f->facts->cx;
    bool found = let_accesses(let) && dim_uses(cx, facts_access(f->facts, let)->offset, name);
    for (int k = 0; k < let->nattrs && !let_accesses(let); k++) {
        const Attr *a = &let->attrs[k];
        found |= a->kind == ATTR_DIM && dim_uses(cx, a->d, name);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            found |= dim_uses(cx, a->dims[j], name);
        }
    }
    return found;
}

bool
flat_has_row(const Flat *f, const Let *let)
{
    const Let *bind;
    bool found = uses(f, let, loop_index(f->rows));
    FOR_ROW_LETS(bind, f) { found |= bind->op == OP_bind && uses(f, let, bind->sizes[0]); }
    return found;
}

Dim
flat_row(const Flat *f, const Let *access)
{
    Cx *cx = f->facts->cx;
    if (!let_accesses(access) || !facts_contiguous(f->facts, access, loop_index(f->loop))) {
        return DIM_NONE;
    }
    const Step *next = facts_step(f->facts, access, loop_index(f->rows));
    if (!next || next->step != dim_int(cx, f->n)) {
        return DIM_NONE;
    }
    const Let *bind;
    FOR_ROW_LETS(bind, f)
    {
        if (bind->op == OP_bind &&
            dim_uses(cx, facts_access(f->facts, access)->offset, bind->sizes[0])) {
            return DIM_NONE;
        }
    }
    return facts_step(f->facts, access, loop_index(f->loop))->rest;
}

RowLayout
flat_layout(const Flat *f, const Let *let)
{
    return flat_row(f, let) != DIM_NONE ? CONTIGUOUS : flat_has_row(f, let) ? OTHER : SHARED;
}

bool
flat_needs_array(const Flat *f, const Let *let)
{
    return let->op == OP_load
               ? flat_layout(f, let) != CONTIGUOUS
               : let->op == OP_size && (flat_has_row(f, let) || uses(f, let, loop_index(f->loop)));
}

bool
flat_is_spread(const Flat *f, const Let *let)
{
    for (int k = 0; k < f->loop->body->n && let->nres; k++) {
        const Let *user = f->loop->body->lets[k];
        for (int j = 0; j < user->nargs; j++) {
            if (user->args[j] == let->res[0]) {
                return true;
            }
        }
    }
    return false;
}
