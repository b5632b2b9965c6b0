/* The rules of loops that run as several, V43, and of the rest of a row, V44; verify.c has the
 * list. */
#include "verify.h"

static int64_t
stage_of(const Let *map)
{
    return let_has(map, MARK_stage) ? let_mark_value(map, MARK_stage) : 1;
}

static bool
in_recurrences(const Let *loop)
{
    return let_has(loop->parent->owner, MARK_recurrences);
}

/* Does the operation combine what the iteration before left in a buffer outside, its first operand,
 * and leave its own result there? */
static bool
continues(const Let *map)
{
    const Block *body = map->parent;
    const Let *load = map->nargs == 2 ? map->args[0]->def : NULL;
    bool found = false;
    if (load && load->op == OP_load && load->parent == body) {
        const Let *buffer = load->args[0]->def;
        for (int k = 0; k < body->n && buffer && buffer->op == OP_buffer; k++) {
            const Let *store = body->lets[k];
            found |= store->op == OP_store && store->args[0] == load->args[0] &&
                     store->args[1] == map->res[0];
        }
    }
    return found;
}

/* Is it in a stage where its operands are known? */
static bool
is_late_enough(const Let *map, bool recurrences)
{
    bool carried = recurrences && continues(map);
    bool good = !recurrences || (stage_of(map) % 2 == 0) == carried;
    for (int k = 0; k < map->nargs; k++) {
        const Let *from = map->args[k]->def;
        if (from && from->parent == map->parent && let_is_map(from)) {
            good &= stage_of(from) + carried <= stage_of(map);
        }
    }
    return good;
}

/* May a store before the let overwrite the element? */
static bool
is_overwritten(const Let *load, const Let *before)
{
    bool found = false;
    const Block *blk = load->parent;
    for (int k = 0; k < blk->n && blk->lets[k] != before; k++) {
        const Value *to = blk->lets[k]->op == OP_store ? blk->lets[k]->args[0] : NULL;
        found |= to && (to == load->args[0] || to->over == load->args[0]);
    }
    return found;
}

/* Of memory that is the loop's own: one of its stores writes to it. */
static bool
is_left(const Let *load)
{
    const Let *buffer = load->args[0]->def;
    bool stored = false;
    for (int k = 0; k < load->parent->n && buffer && buffer->op == OP_buffer; k++) {
        const Let *store = load->parent->lets[k];
        stored |= store->op == OP_store && store->args[0] == load->args[0];
    }
    return stored;
}

/* Loads are made again where they are used, so the elements must be there still. */
static bool
loads_again(const Let *let, bool recurrences)
{
    bool good = true;
    for (int k = 0; k < let->nargs; k++) {
        const Let *load = let->args[k]->def;
        if (load && load->op == OP_load && load->parent == let->parent) {
            good &= let->op != OP_store || !is_overwritten(load, let);
            good &= !recurrences || !is_left(load) || (k == 0 && let_is_map(let) && continues(let));
        }
    }
    return good;
}

void
verify_distribute(Verifier *v, const Let *loop)
{
    enum { MOST = 1024, OF_RECURRENCES = 128 };
    const Let *around = loop->parent->owner;
    bool recurrences = in_recurrences(loop), several = false;
    bool good = recurrences || (let_has(loop, MARK_vector) && !let_has(loop, MARK_streams) &&
                                !let_has(around, MARK_tile));
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        good &= let_is_plain(let) || let_is_map(let) || let->op == OP_store;
        good &= !let_has(let, MARK_prefetch) && loads_again(let, recurrences);
        good &= !let_has(let, MARK_across) || (recurrences && continues(let));
        if (let_is_map(let)) {
            good &= is_late_enough(let, recurrences);
            several |= stage_of(let) > 1;
        }
    }
    int64_t width = let_mark_value(loop, MARK_distribute);
    if (!good || !several || (recurrences ? width != OF_RECURRENCES : width > MOST)) {
        verify_broken(v, 43,
                      "distribute marks a loop that does not run as several, or operations are in "
                      "stages before their operands");
    }
}

void
verify_stage(Verifier *v, const Let *let)
{
    bool marked = let_has(let, MARK_stage) || let_has(let, MARK_across);
    if (marked && !let_has(let->parent->owner, MARK_distribute)) {
        verify_broken(v, 43, "stage marks an operation of a loop that is not marked distribute");
    }
}

/* ---- V44: the rest of a row ---- */

void
verify_fill(Verifier *v, const Let *reduce)
{
    bool good = let_has(reduce, MARK_lanes) && !let_has(reduce, MARK_onehot);
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        good &= let_is_plain(let) || let_is_map(let) || let->op == OP_store;
    }
    good = good && loop_stores_once(v->cx, reduce);
    for (const Let *loop = reduce->parent->owner; loop != v->kernel; loop = loop->parent->owner) {
        good &= !let_has(loop, MARK_vector);
    }
    if (!good) {
        verify_broken(
            v, 44,
            "fill marks a reduction that is not in lanes, or does more than compute, load "
            "and store elements once");
    }
}

void
verify_masked(Verifier *v, const Let *load)
{
    const Let *reduce = load->parent->owner;
    Dim step = DIM_NONE, rest,
        offset = index_offset(v->cx, load->args[0], let_attr(load, "at")->dims);
    if (!let_has(load, MARK_masked)) {
        return;
    }
    if (!let_has(reduce, MARK_fill) || dtype_info[load->args[0]->type->dtype].bytes > 8 ||
        !dim_affine(v->cx, offset, let_attr(reduce, "index")->d, &step, &rest) ||
        !dim_is(v->cx, step, 1)) {
        verify_broken(v, 44,
                      "masked marks a load that is not of adjacent elements that fill lanes");
    }
}

/* ---- V45: what is the same for a tile ---- */

/* The loop marked vector around the let, with other loops inside; or NULL. */
static const Let *
tile_around(const Let *let)
{
    const Let *loop = let->parent->owner;
    while (loop_is(loop) && !(loop->op == OP_for && let_has(loop, MARK_vector))) {
        loop = loop->parent->owner;
    }
    bool loops = false;
    for (int k = 0; loop_is(loop) && k < loop->body->n; k++) {
        loops |= loop_is(loop->body->lets[k]);
    }
    return loops ? loop : NULL;
}

static bool
is_inside(const Let *let, const Let *loop)
{
    while (let && let != loop) {
        let = let->parent->owner;
    }
    return let == loop;
}

/* Does it stand before the let in its block, with no loop in between? */
static bool
is_beside(const Let *before, const Let *let)
{
    const Block *blk = let->parent;
    int at = 0;
    while (at < blk->n && blk->lets[at] != let) {
        at++;
    }
    while (at > 0 && blk->lets[at] != before && !loop_is(blk->lets[at])) {
        at--;
    }
    return blk->lets[at] == before;
}

typedef struct {
    const Let *let, *tile;
} Uniform;

/* Is what the let uses made outside, or uniform too? */
static bool
is_same(const Uniform *u, const Let *from)
{
    return !from || !is_inside(from, u->tile) || from->op == OP_const ||
           (let_has(from, MARK_uniform) && is_beside(from, u->let));
}

/* Is it the tile's index, or one that is bound in the tile and not uniform? */
static bool
varies(const void *arg, Dim name)
{
    const Uniform *u = arg;
    bool found = name == let_attr(u->tile, "index")->d;
    for (const Let *around = u->let; around != u->tile && !found; around = around->parent->owner) {
        const Block *blk = around->parent;
        for (int k = 0; k < blk->n && blk->lets[k] != around; k++) {
            const Let *bind = blk->lets[k];
            found |= bind->op == OP_bind && bind->sizes[0] == name && !is_same(u, bind);
        }
    }
    return found;
}

void
verify_uniform(Verifier *v, const Let *let)
{
    if (!let_has(let, MARK_uniform)) {
        return;
    }
    Uniform u = {let, tile_around(let)};
    bool good = u.tile && !(let->op == OP_load && loop_writes(u.tile, let->args[0]));
    for (int k = 0; good && k < let->nargs; k++) {
        good = value_is_const(let->args[k]) || is_same(&u, let->args[k]->def);
    }
    for (int k = 0; good && k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        good = a->kind != ATTR_DIM || !dim_any_name(v->cx, a->d, varies, &u);
        for (int j = 0; good && a->kind == ATTR_DIMS && j < a->n; j++) {
            good = !dim_any_name(v->cx, a->dims[j], varies, &u);
        }
    }
    if (!good) {
        verify_broken(v, 45,
                      "uniform marks what is not the same for all of a vector loop with "
                      "loops inside");
    }
}
