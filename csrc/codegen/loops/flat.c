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
flat_of(const Facts *facts, const Nest *nest, const Let *const *rows)
{
    int at = nest->n - 1;
    while (at >= 0 && nest->parallel[at] != *rows) {
        at--;
    }
    Flat f = {.facts = facts,
              .loop = row_loop(*rows),
              .levels = at < 0 ? rows : nest->parallel,
              .nlevels = at < 0 ? 1 : at + 1};
    if (!f.loop || !dim_is_int(facts->cx, loop_extent(f.loop), &f.n)) {
        f.n = 0;
    }
    return f;
}

Let *
flat_next_let(const Flat *f, int *level, int *k)
{
    for (; *level < f->nlevels; *k = 0, ++*level) {
        const Block *blk = f->levels[*level]->body;
        while (*k < blk->n) {
            Let *let = blk->lets[(*k)++];
            if (!loop_is(let)) {
                return let;
            }
        }
    }
    return NULL;
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
    bool found = false;
    for (int k = 0; k < f->nlevels; k++) {
        found |= uses(f, let, loop_index(f->levels[k]));
    }
    FOR_ROW_LETS(bind, f) { found |= bind->op == OP_bind && uses(f, let, bind->sizes[0]); }
    return found;
}

Dim
flat_row(const Flat *f, const Let *access)
{
    Cx *cx = f->facts->cx;
    Dim stride = dim_int(cx, f->n);
    if (!let_accesses(access) || !facts_contiguous(f->facts, access, loop_index(f->loop))) {
        return DIM_NONE;
    }
    for (int k = f->nlevels - 1; k >= 0; k--) {
        const Step *next = facts_step(f->facts, access, loop_index(f->levels[k]));
        if (!next || next->step != stride) {
            return DIM_NONE;
        }
        stride = dim_mul(cx, stride, loop_extent(f->levels[k]));
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
