/* The rules of the marks that say how loops run, V33 to V36; verify.c has the list. */
#include "verify.h"

static Dim
index_of(const Let *loop)
{
    return let_attr(loop, "index")->d;
}

/* Is the element of the access so many further on in memory in the loop's next iteration? */
static bool
steps_by(Cx *cx, const Let *access, const Let *loop, Dim elements)
{
    Dim step, rest, offset = index_offset(cx, access->args[0], let_attr(access, "at")->dims);
    return dim_affine(cx, offset, index_of(loop), &step, &rest) && step == elements;
}

/* Is it a let of a loop that may run over several iterations at a time: one that computes, loads or
 * stores? */
static bool
is_elementwise(const Let *let)
{
    return let_is_plain(let) || let_is_map(let) || let->op == OP_store;
}

/* ---- V33: non-temporal stores ---- */

static bool
is_wide(const Let *access)
{
    int bytes = dtype_info[access->args[0]->type->dtype].bytes;
    return bytes == 4 || bytes == 8;
}

static void
check_nontemporal(Verifier *v, const Let *store)
{
    const Let *loop = store->parent->owner;
    const Value *to = store->args[0];
    int accesses = 0;
    for (int k = 0; k < store->parent->n; k++) {
        const Let *let = store->parent->lets[k];
        accesses += let_accesses(let) && let->args[0] == to;
    }
    bool tensor = to->def && (to->def == v->kernel || to->def->parent->owner == v->kernel);
    if (store->op != OP_store || loop->op != OP_for || !tensor || to->over || !is_wide(store) ||
        accesses != 1 || !steps_by(v->cx, store, loop, dim_int(v->cx, 1))) {
        verify_broken(v, 33,
                      "nontemporal marks a store that is not the only access to adjacent "
                      "elements of a tensor");
    }
}

static void
check_streams(Verifier *v, const Let *loop)
{
    bool stores = false, good = let_has(loop, MARK_vector);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        stores |= let_has(let, MARK_nontemporal);
        good &= is_elementwise(let) || let->op == OP_bind;
    }
    if (!good || !stores) {
        verify_broken(v, 33,
                      "streams marks a loop that is no vector loop around nontemporal "
                      "stores");
    }
}

/* ---- V34: prefetches ---- */

static void
check_prefetch(Verifier *v, const Let *access)
{
    bool along = let_has(access, MARK_prefetch), rows = let_has(access, MARK_prefetch_rows);
    const Value *of = access->args[0];
    const Let *loop = access->parent->owner;
    bool is_private = of->def && of->def->op == OP_buffer && of->def->parent->owner != v->kernel;
    if ((along || rows) && (is_private || (along && rows))) {
        verify_broken(v, 34, "prefetch marks an access to what a loop makes, or one of two kinds");
    }
    if (along && !(loop_is(loop) && steps_by(v->cx, access, loop, dim_int(v->cx, 1)) &&
                   (loop->op == OP_reduce ||
                    (is_wide(access) && !let_has(loop->parent->owner, MARK_tile))))) {
        verify_broken(v, 34, "prefetch marks an access that does not go along adjacent elements");
    }
    if (rows && !(loop_is(loop) && loop_is(loop->parent->owner))) {
        verify_broken(v, 34, "prefetch_rows marks a load that is not in a loop in another");
    }
    if (let_has(access, MARK_beyond) && !along && !rows) {
        verify_broken(v, 34, "beyond marks a load that does not prefetch");
    }
}

void
verify_access_marks(Verifier *v, const Let *access)
{
    if (let_has(access, MARK_footprint) && !let_has(access, MARK_nontemporal)) {
        verify_broken(v, 33, "footprint marks a store that is not nontemporal");
    }
    if (let_has(access, MARK_nontemporal)) {
        check_nontemporal(v, access);
    }
    check_prefetch(v, access);
    verify_masked(v, access);
}

/* ---- V35, V36: several iterations at a time ---- */

static bool
has_other_order(const Let *loop)
{
    return let_has(loop, MARK_vector) || let_has(loop, MARK_tile) ||
           let_has(loop, MARK_recurrences);
}

/* Does the loop's own block leave a value in memory outside, at a place that is the same in each
 * iteration, and read it? */
static bool
carries(Cx *cx, const Let *loop)
{
    bool found = false;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *store = loop->body->lets[k];
        const Value *to = store->op == OP_store ? store->args[0] : NULL;
        bool outside = to && to->def && to->def->parent != loop->body;
        for (int j = 0; outside && j < loop->body->n; j++) {
            const Let *load = loop->body->lets[j];
            found |= load->op == OP_load && load->args[0] == to &&
                     steps_by(cx, store, loop, dim_int(cx, 0));
        }
    }
    return found;
}

/* The loop's own lets compute, load and store. */
static bool
has_plain_lets(const Let *loop)
{
    bool plain = true;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        plain &= loop_is(let) ? has_plain_lets(let) : is_elementwise(let) || let->op == OP_buffer;
    }
    return plain;
}

static void
check_jam_of_recurrences(Verifier *v, const Let *let)
{
    int64_t jam = let_mark_value(let, MARK_jam);
    if (!jam || jam > let_mark_value(let, MARK_recurrences) || let_has(let, MARK_jam_elements) ||
        let_has(let, MARK_jam_row) || !has_plain_lets(let)) {
        verify_broken(v, 35,
                      "jam marks recurrences that do more than compute, load and store, or are "
                      "fewer");
    }
}

static void
check_jam(Verifier *v, const Let *let)
{
    if (let_has(let, MARK_recurrences)) {
        check_jam_of_recurrences(v, let);
        return;
    }
    int loops = 0;
    bool good = let_mark_value(let, MARK_jam) == 2 && !has_other_order(let);
    for (int k = 0; k < let->body->n; k++) {
        const Let *own = let->body->lets[k];
        loops += loop_is(own);
        good &= loop_is(own) || is_elementwise(own) || own->op == OP_buffer;
    }
    if (!good || loops < 2 || carries(v->cx, let)) {
        verify_broken(v, 35,
                      "jam marks a loop that is not around two loops or more, or has another "
                      "order");
    }
}

/* The store's elements in one iteration of the loops follow those in the iteration before, in the
 * loop and in the parallel ones around it, which run as one. */
static bool
has_no_gap(Cx *cx, const Let *store, const Let *inner, const Let *loop)
{
    Dim elements = let_dim(inner, "extent");
    bool good = steps_by(cx, store, inner, dim_int(cx, 1));
    for (const Let *rows = loop; good; rows = rows->parent->owner) {
        good = steps_by(cx, store, rows, elements);
        elements = dim_mul(cx, elements, let_dim(rows, "extent"));
        const Let *around = rows->parent->owner;
        if (!let_has(rows, MARK_parallel) || !loop_is(around) || !let_has(around, MARK_parallel)) {
            break;
        }
    }
    return good;
}

static void
check_flat(Verifier *v, const Let *let)
{
    enum { MOST_ROWS = 1024, LINE = 16 };
    const Let *inner = NULL;
    int64_t n = 0, rows = let_mark_value(let, MARK_flat);
    bool good = rows > 0 && rows <= MOST_ROWS && rows % LINE == 0 && !has_other_order(let);
    for (int k = 0; k < let->body->n; k++) {
        const Let *own = let->body->lets[k];
        good &= loop_is(own) ? !inner : let_is_plain(own) || let_is_map(own) || own->op == OP_bind;
        inner = loop_is(own) ? own : inner;
    }
    good = good && inner && let_has(inner, MARK_vector) &&
           dim_is_int(v->cx, let_dim(inner, "extent"), &n) &&
           n <= let_mark_value(let, MARK_flat_row);
    for (int k = 0; good && k < inner->body->n; k++) {
        const Let *own = inner->body->lets[k];
        good = is_elementwise(own) && (own->op != OP_store || has_no_gap(v->cx, own, inner, let));
    }
    if (!good) {
        verify_broken(v, 36,
                      "flat marks a loop that is not around one short vector loop with "
                      "contiguous results");
    }
}

void
verify_loop_marks(Verifier *v, const Let *loop)
{
    if (let_has(loop, MARK_streams)) {
        check_streams(v, loop);
    }
    if (let_has(loop, MARK_jam) || let_has(loop, MARK_jam_elements) ||
        let_has(loop, MARK_jam_row)) {
        check_jam(v, loop);
    }
    if (let_has(loop, MARK_flat) || let_has(loop, MARK_flat_row)) {
        check_flat(v, loop);
    }
    if (let_has(loop, MARK_fill)) {
        verify_fill(v, loop);
    }
    if (let_has(loop, MARK_distribute)) {
        verify_distribute(v, loop);
    }
}
