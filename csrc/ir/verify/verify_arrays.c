/* The rules of what is in arrays, V53, and of loops that a circuit pipelines, V56; verify.c has the
 * list. */
#include "verify.h"
#include "ir/verify/recurrence.h"

/* ---- runs of lets between the loops in a vector loop ---- */

/* The loop marked vector around the let, with other loops inside; or NULL. */
static const Let *
tile_around(const Let *let)
{
    const Let *loop = let_around(let);
    bool loops = false;
    while (loop_is(loop) && !(loop->op == OP_for && let_has(loop, MARK_vector))) {
        loop = let_around(loop);
    }
    for (int k = 0; loop_is(loop) && k < loop->body->n; k++) {
        loops |= loop_is(loop->body->lets[k]);
    }
    return loops ? loop : NULL;
}

/* Does the let stand behind the other one in its block, with no loop in between? */
static bool
is_in_run(const Let *first, const Let *let)
{
    const Block *blk = let->parent;
    int k = 0;
    while (blk->lets[k] != let) {
        k++;
    }
    while (k >= 0 && blk->lets[k] != first && !loop_is(blk->lets[k])) {
        k--;
    }
    return k >= 0 && blk->lets[k] == first;
}

static bool
dims_use(Cx *cx, const Let *let, Dim name)
{
    bool found = false;
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        found |= a->kind == ATTR_DIM && dim_uses(cx, a->d, name);
        for (int j = 0; a->kind == ATTR_DIMS && j < a->n; j++) {
            found |= dim_uses(cx, a->dims[j], name);
        }
    }
    return found;
}

/* Does it use the value, or the index of the bind? */
static bool
uses(Cx *cx, const Let *let, const Let *made)
{
    bool found = made->op == OP_bind && dims_use(cx, let, made->sizes[0]);
    for (int k = 0; k < let->nargs && made->nres; k++) {
        found |= let->args[k] == made->res[0];
    }
    return found;
}

/* Is what it makes used in another run? */
static bool
is_used_behind(Cx *cx, const Block *blk, const Let *made)
{
    bool behind = false;
    for (int k = 0; k < blk->n && !behind; k++) {
        const Let *let = blk->lets[k];
        behind = (uses(cx, let, made) && !is_in_run(made, let)) ||
                 (let->body && is_used_behind(cx, let->body, made));
    }
    bool last = blk->n && (blk->lets[blk->n - 1] == made || is_in_run(made, blk->lets[blk->n - 1]));
    for (int k = 0; k < blk->nrets; k++) {
        behind |= made->nres && blk->rets[k] == made->res[0] && !last;
    }
    return behind;
}

static bool
crosses(Cx *cx, const Let *tile, const Let *let)
{
    return let->op == OP_buffer || let->op == OP_reduce || is_used_behind(cx, tile->body, let);
}

typedef struct {
    Cx *cx;
    const Let *tile;
} Crossing;

/* Does it cross without a mark, or have the mark and not cross? */
static bool
is_odd(const void *arg, const Let *let)
{
    const Crossing *c = arg;
    return crosses(c->cx, c->tile, let) != let_has(let, MARK_array);
}

static bool
is_marked(const void *arg, const Let *let)
{
    (void)arg;
    return let_has(let, MARK_array);
}

/* ---- rows that run as one vector loop ---- */

/* The last loop in a loop's own body, or NULL. */
static const Let *
inner_loop(const Let *loop)
{
    const Let *inner = NULL;
    for (int k = 0; k < loop->body->n; k++) {
        inner = loop_is(loop->body->lets[k]) ? loop->body->lets[k] : inner;
    }
    return inner;
}

static bool
is_read_in(const Let *loop, const Let *made)
{
    bool found = false;
    for (int k = 0; k < loop->body->n; k++) {
        for (int j = 0; j < loop->body->lets[k]->nargs && made->nres; j++) {
            found |= loop->body->lets[k]->args[j] == made->res[0];
        }
    }
    return found;
}

/* Does the size's number, or the load's element, depend on which row it is? */
static bool
differs_by_row(Cx *cx, const Let *let, const Let *rows)
{
    bool found = dims_use(cx, let, let_dim(rows, "index"));
    for (int k = 0; k < rows->body->n; k++) {
        const Let *bind = rows->body->lets[k];
        found |= bind->op == OP_bind && dims_use(cx, let, bind->sizes[0]);
    }
    return found;
}

/* What goes through all rows without a gap is used where it is. */
static bool
needs_array(Cx *cx, const Let *let, const Let *inner, const Let *rows)
{
    return let->op == OP_load ? !has_no_gap(cx, let, inner, rows) || !is_unbound(cx, let, rows)
           : let->op == OP_size
               ? differs_by_row(cx, let, rows) || dims_use(cx, let, let_dim(inner, "index"))
               : let_has(let, MARK_array); /* in a stage, or waiting */
}

static void
check_flat_arrays(Verifier *v, const Let *rows)
{
    const Let *inner = inner_loop(rows), *odd = NULL;
    for (int k = 0; k < inner->body->n; k++) {
        const Let *let = inner->body->lets[k];
        odd = needs_array(v->cx, let, inner, rows) != let_has(let, MARK_array) ? let : odd;
    }
    for (int k = 0; k < rows->body->n; k++) {
        const Let *let = rows->body->lets[k];
        odd = !loop_is(let) && is_read_in(inner, let) != let_has(let, MARK_array) ? let : odd;
    }
    if (odd) {
        verify_broken(v, 53, "rows that run as one need another array than array says for %s",
                      odd->nres ? odd->res[0]->name : op_info[odd->op].name);
    }
}

/* ---- stages ----
 *
 * What a later stage uses is said here and in codegen/schedule/distribute.c, on purpose: a mistake
 * in a predicate that both asked would be one that the verifier cannot see.  That of rows marked
 * flat is said here and in codegen/loops/flat.c. */

static int64_t
stage_of(const Let *map)
{
    return let_has(map, MARK_stage) ? let_mark_value(map, MARK_stage) : 1;
}

/* Is the operation's value used in a later stage?  What continues a recurrence goes from array to
 * array, and has what it takes from the stage before. */
static bool
is_used_later(const Let *loop, const Let *map, int64_t last)
{
    bool recurrences = let_has(let_around(loop), MARK_recurrences);
    bool later = recurrences && loop_carried(map);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *user = loop->body->lets[k];
        const Let *to = user->op == OP_store ? user->args[0]->def : NULL;
        bool run = recurrences && to && to->parent == loop->parent;
        int64_t stage = user->op == OP_store ? last
                        : let_is_map(user)   ? stage_of(user) - (loop_carried(user) != NULL)
                                             : 0;
        for (int j = 0; j < user->nargs && !run; j++) {
            later |= user->args[j] == map->res[0] && stage > stage_of(map);
        }
    }
    return later;
}

static int64_t
last_stage(const Let *loop)
{
    int64_t last = 1;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        last = let_is_map(let) && stage_of(let) > last ? stage_of(let) : last;
    }
    return let_has(let_around(loop), MARK_recurrences) && last % 2 == 0 ? last + 1 : last;
}

void
verify_arrays(Verifier *v, const Let *loop)
{
    if (let_has(loop, MARK_flat)) {
        check_flat_arrays(v, loop);
    }
    int64_t last = let_has(loop, MARK_distribute) ? last_stage(loop) : 0;
    for (int k = 0; k < loop->body->n && last; k++) {
        const Let *let = loop->body->lets[k];
        if (let_is_map(let) && is_used_later(loop, let, last) != let_has(let, MARK_array)) {
            verify_broken(v, 53, "%s is used in a later stage, or in none, and array says else",
                          let->res[0]->name);
        }
    }
    const Crossing c = {.cx = v->cx, .tile = loop};
    if (let_has(loop, MARK_vector) && loop->op == OP_for && !let_has(loop, MARK_tile) &&
        block_any(loop->body, is_marked, NULL) && loop->body->n &&
        tile_around(loop->body->lets[0]) == loop && block_any(loop->body, is_odd, &c)) {
        verify_broken(v, 53,
                      "array marks some of what is used behind a loop in the vector loop, or more");
    }
}

/* ---- each let ---- */

/* Of a store: the elements that wait for the non-temporal ones. */
static int64_t
waiting(Cx *cx, const Let *store)
{
    enum { LINE = 16, STRIP = 1024 };
    const Let *loop = let_around(store), *rows = loop_is(loop) ? let_around(loop) : loop;
    int64_t n = 0, flat = loop_is(rows) ? let_mark_value(rows, MARK_flat) : 0;
    bool stages = loop_is(loop) && let_has(loop, MARK_distribute) && !flat; /* a block has none */
    if (!let_has(store, MARK_nontemporal) || !loop_is(loop) || stages) {
        return 0;
    }
    dim_is_int(cx, let_dim(loop, "extent"), &n);
    return loop_is(rows) && let_has(rows, MARK_tile) ? let_mark_value(loop, MARK_width)
           : flat                                    ? flat * n
           : let_has(loop, MARK_strip)               ? STRIP
                                                     : LINE;
}

/* Of what a block of the loop marked flat has: its elements; and one row more of what a row has one
 * of, which is written as a whole vector.  0: there is no such loop. */
static int64_t
in_flat_rows(Cx *cx, const Let *let)
{
    const Let *loop = let_around(let), *around = loop_is(loop) ? let_around(loop) : NULL;
    bool inside = around && let_has(around, MARK_flat) && !let_is_map(let);
    const Let *rows = inside ? around : loop_is(loop) && let_has(loop, MARK_flat) ? loop : NULL;
    const Let *inner = rows ? inner_loop(rows) : NULL;
    int64_t n = 0;
    if (!inner || !dim_is_int(cx, let_dim(inner, "extent"), &n)) {
        return 0;
    }
    return let_mark_value(rows, MARK_flat) * n + (inside ? 0 : let_mark_value(rows, MARK_flat_row));
}

void
verify_array(Verifier *v, const Let *let)
{
    enum { TRANSPOSED = 64 * (128 + 16), OF_BLOCK = 1024 + 16 };
    if (!let_has(let, MARK_array) && !let_has(let, MARK_transpose)) {
        return;
    }
    const Let *loop = let_around(let), *tile = tile_around(let);
    int64_t flat = in_flat_rows(v->cx, let);
    bool place = let->op == OP_reduce && let_has(let, MARK_lanes) &&
                 op_info[let_op(let)].rule == RULE_INDEX;
    int64_t wanted = let->op == OP_store                ? waiting(v->cx, let)
                     : let_has(let, MARK_transpose)     ? TRANSPOSED
                     : flat                             ? flat
                     : place                            ? OF_BLOCK
                     : tile                             ? let_mark_value(tile, MARK_width)
                     : let_is_map(let) && loop_is(loop) ? let_mark_value(loop, MARK_distribute)
                                                        : 0;
    if (wanted == 0 || let_mark_value(let, MARK_array) != wanted) {
        verify_broken(v, 53,
                      "array marks what is not kept for iterations that run at a time, or another "
                      "number of elements");
    }
}

/* ---- V56: pipelines ---- */

static bool
is_loop_in(const void *loop, const Let *let)
{
    return let != loop && loop_is(let);
}

void
verify_pipelined(Verifier *v, const Let *loop)
{
    if (let_has(loop, MARK_pipelined) && let_any(loop, is_loop_in, loop)) {
        verify_broken(v, 56, "pipelined marks a loop that another loop runs in");
    }
}
