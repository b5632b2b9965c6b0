/* The rules of loops that run as several, V43, of the rest of a row, V44, and of what is the same
 * for a tile, V45; verify.c has the list. */
#include "verify.h"
#include "ir/verify/recurrence.h"

static int64_t
stage_of(const Let *map)
{
    return let_has(map, MARK_stage) ? let_mark_value(map, MARK_stage) : 1;
}

static bool
in_recurrences(const Let *loop)
{
    return let_has(let_around(loop), MARK_recurrences);
}

/* Is it in a stage where its operands are known? */
static bool
is_late_enough(const Let *map, bool recurrences)
{
    bool carried = recurrences && loop_carried(map);
    bool good = !recurrences || (stage_of(map) % 2 == 0) == carried;
    for (int k = 0; k < map->nargs; k++) {
        const Let *from = map->args[k]->def;
        if (from && from->parent == map->parent && let_is_map(from)) {
            good &= stage_of(from) + carried <= stage_of(map);
        }
    }
    return good;
}

/* The last stage, which has all stores.  With recurrences its number is odd. */
static int64_t
last_stage(const Let *loop, bool recurrences)
{
    int64_t last = 1;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        last = let_is_map(let) && stage_of(let) > last ? stage_of(let) : last;
    }
    return recurrences && last % 2 == 0 ? last + 1 : last;
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

static bool
uses(const Let *let, const Value *v)
{
    bool found = false;
    for (int k = 0; k < let->nargs; k++) {
        found |= let->args[k] == v;
    }
    return found;
}

/* Each stage loads again what it uses, where it uses it first.  Is the element there still? */
static bool
is_there(const Let *load, int64_t last)
{
    const Block *blk = load->parent;
    const Let *first = NULL;
    for (int k = 0; k < blk->n && !first; k++) {
        const Let *let = blk->lets[k];
        bool stores = let->op == OP_store || (let_is_map(let) && stage_of(let) == last);
        first = stores && uses(let, load->res[0]) ? let : NULL;
    }
    return !first || !is_overwritten(load, first);
}

/* Why the loop does not run as several, or NULL. */
static const char *
wrong_loop(const Let *loop, bool recurrences)
{
    enum { MOST = 1024, OF_RECURRENCES = 128 };
    int64_t width = let_mark_value(loop, MARK_distribute);
    const char *why = NULL;
    if (!recurrences && (!let_has(loop, MARK_vector) || let_has(loop, MARK_streams) ||
                         let_has(let_around(loop), MARK_tile))) {
        why = "it has another order";
    } else if (recurrences ? width != OF_RECURRENCES : width > MOST) {
        why = "it has another number of iterations at a time";
    } else if (last_stage(loop, false) == 1) {
        why = "it has one stage";
    } else if (last_stage(loop, false) > 2 * loop->body->n) {
        why = "it has more stages than operations";
    }
    return why;
}

static const char *
wrong_let(const Let *let, bool recurrences, int64_t last)
{
    const char *why = NULL;
    if ((!let_is_plain(let) && !let_is_map(let) && let->op != OP_store) ||
        let_has(let, MARK_prefetch)) {
        why = "it does more than compute, load and store";
    } else if (let->op == OP_load && !is_there(let, last)) {
        why = "an element is loaded again after it is stored";
    } else if (let_has(let, MARK_across) && !(recurrences && loop_carried(let))) {
        why = "across marks an operation that continues nothing";
    } else if (let_is_map(let) && !is_late_enough(let, recurrences)) {
        why = "an operation is in a stage before its operands, or in one of the other kind";
    }
    return why;
}

void
verify_distribute(Verifier *v, const Let *loop)
{
    bool recurrences = in_recurrences(loop);
    int64_t last = last_stage(loop, recurrences);
    const char *why = wrong_loop(loop, recurrences);
    for (int k = 0; k < loop->body->n && !why; k++) {
        why = wrong_let(loop->body->lets[k], recurrences, last);
    }
    if (why) {
        verify_broken(v, 43, "distribute marks a loop that does not run as several: %s", why);
    }
}

void
verify_stage(Verifier *v, const Let *let)
{
    bool marked = let_has(let, MARK_stage) || let_has(let, MARK_across);
    if (marked && !let_has(let_around(let), MARK_distribute)) {
        verify_broken(v, 43, "stage marks an operation of a loop that is not marked distribute");
    }
}

/* ---- V44: the rest of a row ---- */

void
verify_fill(Verifier *v, const Let *reduce)
{
    bool good = let_has(reduce, MARK_fill) && let_has(reduce, MARK_lanes) &&
                !let_has(reduce, MARK_onehot);
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        good &= let_is_plain(let) || let_is_map(let) || let->op == OP_store;
    }
    good = good && loop_stores_once(v->cx, reduce);
    for (const Let *loop = let_around(reduce); loop_is(loop); loop = let_around(loop)) {
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
    const Let *reduce = let_around(load);
    if (!let_has(load, MARK_masked)) {
        return;
    }
    if (!let_has(reduce, MARK_fill) || dtype_info[load->args[0]->type->dtype].bytes > 8 ||
        !steps_by(v->cx, load, reduce, dim_int(v->cx, 1))) {
        verify_broken(v, 44,
                      "masked marks a load that is not of adjacent elements that fill lanes");
    }
}

/* ---- V45: what is the same for a tile ---- */

/* The loop marked vector around the let, with other loops inside; or NULL. */
static const Let *
tile_around(const Let *let)
{
    const Let *loop = let_around(let);
    while (loop_is(loop) && !(loop->op == OP_for && let_has(loop, MARK_vector))) {
        loop = let_around(loop);
    }
    bool loops = false;
    for (int k = 0; loop_is(loop) && k < loop->body->n; k++) {
        loops |= loop_is(loop->body->lets[k]);
    }
    return loops ? loop : NULL;
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
    return !from || !let_is_inside(from, u->tile) || from->op == OP_const ||
           (let_has(from, MARK_uniform) && is_beside(from, u->let));
}

/* Is it the tile's index, or one that is bound in the tile and not uniform? */
static bool
varies(const void *arg, Dim name)
{
    const Uniform *u = arg;
    bool found = name == let_attr(u->tile, "index")->d;
    for (const Let *around = u->let; around != u->tile && !found; around = let_around(around)) {
        const Block *blk = around->parent;
        for (int k = 0; k < blk->n && blk->lets[k] != around; k++) {
            const Let *bind = blk->lets[k];
            found |= bind->op == OP_bind && bind->sizes[0] == name && !is_same(u, bind);
        }
    }
    return found;
}

/* Is the index that of the loop of rows, or one that is bound in a row? */
static bool
differs_by_row(const void *arg, Dim name)
{
    const Let *rows = arg;
    bool found = name == let_attr(rows, "index")->d;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *let = rows->body->lets[k];
        found |= let->op == OP_bind && let->sizes[0] == name;
        for (int j = 0; loop_is(let) && j < let->body->n; j++) {
            found |= let->body->lets[j]->op == OP_bind && let->body->lets[j]->sizes[0] == name;
        }
    }
    return found;
}

/* Is it a load of a vector loop in one marked grid that goes through the same elements in each row?
 * What threads share begins with a copy, where no loop has an index yet. */
static bool
is_same_in_rows(Verifier *v, const Let *load)
{
    const Let *loop = let_around(load), *rows = loop_is(loop) ? let_around(loop) : NULL;
    if (load->op != OP_load || !rows || !loop_is(rows) || !let_has(rows, MARK_grid)) {
        return false;
    }
    const Value *from = load->args[0];
    Dim offset = index_offset(v->cx, from, let_attr(load, "at")->dims), step, start;
    bool tensor = !from->def || from->def->op != OP_buffer || !loop_is(let_around(from->def)),
         even = dim_affine(v->cx, offset, let_attr(loop, "index")->d, &step, &start);
    return tensor && even && step != dim_int(v->cx, 0) && !loop_writes(rows, from) &&
           !dim_any_name(v->cx, step, differs_by_row, rows) &&
           !dim_any_name(v->cx, start, differs_by_row, rows) &&
           !(let_has(rows, MARK_parallel) &&
             (dim_has_index(v->cx, step) || dim_has_index(v->cx, start)));
}

void
verify_uniform(Verifier *v, const Let *let)
{
    if (!let_has(let, MARK_uniform) || is_same_in_rows(v, let)) {
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
                      "loops inside, or for all rows of a grid");
    }
}
