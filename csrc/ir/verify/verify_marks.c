/* The rules of the marks that say how loops run, V33 to V38, V42 and V48; verify.c has the list. */
#include "verify.h"

static Dim
index_of(const Let *loop)
{
    return let_attr(loop, "index")->d;
}

bool
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

/* Is the buffer made in a loop of the kernel? */
static bool
is_private(const Value *buffer)
{
    return buffer->def && buffer->def->op == OP_buffer && loop_is(let_around(buffer->def));
}

/* ---- V33: non-temporal stores ---- */

static bool
is_wide(const Let *access)
{
    int bytes = dtype_info[access->args[0]->type->dtype].bytes;
    return bytes == 4 || bytes == 8;
}

/* Several rows one after the other: do those that the store writes follow each other? */
static bool
has_gap_in_grid(Cx *cx, const Let *store, const Let *loop)
{
    const Let *rows = let_around(loop);
    return rows->op == OP_for && let_has(rows, MARK_grid) &&
           !(steps_by(cx, store, rows, let_dim(loop, "extent")) && is_unbound(cx, store, loop) &&
             is_unbound(cx, store, rows));
}

static void
check_nontemporal(Verifier *v, const Let *store)
{
    const Let *loop = let_around(store);
    const Value *to = store->args[0];
    int accesses = 0;
    for (int k = 0; k < store->parent->n; k++) {
        const Let *let = store->parent->lets[k];
        accesses += let_accesses(let) && let->args[0] == to;
    }
    bool tensor = to->def && (to->def == v->kernel || !loop_is(let_around(to->def)));
    if (store->op != OP_store || loop->op != OP_for || !tensor || to->over || !is_wide(store) ||
        accesses != 1 || !steps_by(v->cx, store, loop, dim_int(v->cx, 1))) {
        verify_broken(v, 33,
                      "nontemporal marks a store that is not the only access to adjacent "
                      "elements of a tensor");
    }
    if (has_gap_in_grid(v->cx, store, loop)) {
        verify_broken(v, 33,
                      "nontemporal marks a store in a grid whose rows do not follow each other");
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

/* Are its elements in the loop's iterations adjacent, or on the same lines of the caches? */
static bool
goes_along(Cx *cx, const Let *access, const Let *loop)
{
    enum { MOST = 4 };
    bool found = false;
    for (int step = 1; step <= MOST && loop_is(loop) && !found; step++) {
        found = steps_by(cx, access, loop, dim_int(cx, step));
    }
    return found;
}

static void
check_prefetch(Verifier *v, const Let *access)
{
    bool along = let_has(access, MARK_prefetch), rows = let_has(access, MARK_prefetch_rows);
    const Value *of = access->args[0];
    const Let *loop = let_around(access);
    if ((along || rows) && (is_private(of) || (along && rows))) {
        verify_broken(v, 34, "prefetch marks an access to what a loop makes, or one of two kinds");
    }
    const Let *tile = loop;
    while (loop_is(tile) && !let_has(tile, MARK_vector)) {
        tile = let_around(tile);
    }
    if (along && !goes_along(v->cx, access, loop) && !goes_along(v->cx, access, tile)) {
        verify_broken(v, 34, "prefetch marks an access that does not go along adjacent elements");
    }
    if (rows && !(loop_is(loop) && loop_is(let_around(loop)))) {
        verify_broken(v, 34, "prefetch_rows marks a load that is not in a loop in another");
    }
    bool called = let_has(access, MARK_prefetch_call);
    if ((let_has(access, MARK_beyond) || called) && !along && !rows) {
        verify_broken(v, 34, "%s marks a load that does not prefetch",
                      called ? "prefetch_call" : "beyond");
    }
    if (called && !let_has(loop, MARK_lanes)) {
        verify_broken(v, 34, "prefetch_call marks a load that is not in a reduction in lanes");
    }
}

/* Of what prefetches or streams, where iterations run together. */
static void
check_alone(Verifier *v, const Let *let)
{
    const Let *loop = let_around(let), *rows = loop;
    bool ahead = let_has(let, MARK_prefetch) || let_has(let, MARK_prefetch_rows);
    bool good = let->op == OP_for ? let_has(let, MARK_streams)
                                  : ahead && loop_is(loop) && let_has(loop, MARK_lanes);
    while (loop_is(rows) && !(rows->op == OP_for && let_has(rows, MARK_jam))) {
        rows = let_around(rows);
    }
    if (!good || !loop_is(rows)) {
        verify_broken(v, 34,
                      "alone marks what neither prefetches in a reduction in lanes nor streams, or "
                      "is not in a loop marked jam");
    }
}

/* Is a call of a microkernel before it, or before a loop or choice that it is in? */
static bool
follows_call(const Let *let)
{
    for (; let && let->op != OP_kernel; let = let->parent->owner) {
        for (int k = 0; let->parent->lets[k] != let; k++) {
            if (let_find_marked(let->parent->lets[k], MARK_micro)) {
                return true;
            }
        }
    }
    return false;
}

void
verify_access_marks(Verifier *v, const Let *access)
{
    if (access->op == OP_store && let_has(access, MARK_prefetch_tile) && !follows_call(access)) {
        verify_broken(v, 41, "prefetch_tile marks a store that follows no loop marked micro");
    }
    if (let_has(access, MARK_alone)) {
        check_alone(v, access);
    }
    if (let_has(access, MARK_footprint) && !let_has(access, MARK_nontemporal)) {
        verify_broken(v, 33, "footprint marks a store that is not nontemporal");
    }
    if (let_has(access, MARK_nontemporal)) {
        check_nontemporal(v, access);
    }
    check_prefetch(v, access);
    if (let_has(access, MARK_transpose)) {
        verify_transpose(v, access);
    }
    verify_masked(v, access);
    verify_primitive_access(v, access);
    if (access->op != OP_update) {
        verify_merged_access(v, access);
    }
    verify_widened(v, access);
}

/* ---- V35, V36: several iterations at a time ---- */

static bool
has_other_order(const Let *loop)
{
    return let_has(loop, MARK_vector) || let_has(loop, MARK_tile) ||
           let_has(loop, MARK_recurrences);
}

/* ---- V42: vectors ---- */

static bool
is_in_vector(const Let *loop)
{
    const Let *around = let_around(loop);
    while (loop_is(around) && !let_has(around, MARK_vector) && !let_has(around, MARK_lanes)) {
        around = let_around(around);
    }
    return loop_is(around);
}

/* A loop that does not run in its own order. */
static bool
is_no_scalar_loop(const void *arg, const Let *let)
{
    (void)arg;
    return loop_is(let) && (has_other_order(let) || let_has(let, MARK_lanes) ||
                            let_has(let, MARK_pack) || let_has(let, MARK_micro));
}

static void
check_vector(Verifier *v, const Let *loop)
{
    bool alone = !let_has(loop, MARK_tile) && !let_has(loop, MARK_recurrences) &&
                 !is_in_vector(loop);
    if (!alone || block_any(loop->body, is_no_scalar_loop, NULL) || loop_carries(v->cx, loop)) {
        verify_broken(v, 42,
                      "vector marks a loop around or in another vector, or one whose iterations "
                      "need each other");
    }
}

/* Does it more than compute, load and store? */
static bool
does_more(const void *arg, const Let *let)
{
    (void)arg;
    return !loop_is(let) && !is_elementwise(let) && let->op != OP_buffer;
}

static void
check_jam_of_recurrences(Verifier *v, const Let *let)
{
    int64_t jam = let_mark_value(let, MARK_jam);
    if (!jam || jam > let_mark_value(let, MARK_recurrences) || let_has(let, MARK_jam_elements) ||
        let_has(let, MARK_jam_row) || let_any(let, does_more, NULL)) {
        verify_broken(v, 35,
                      "jam marks recurrences that do more than compute, load and store, or are "
                      "fewer");
    }
}

static void
check_joint(Verifier *v, const Let *reduce)
{
    const Let *rows = let_around(reduce);
    bool good = rows->op == OP_for && let_has(rows, MARK_jam) && !let_has(rows, MARK_recurrences) &&
                let_has(reduce, MARK_lanes) && !let_has(reduce, MARK_onehot) &&
                op_info[let_op(reduce)].rule != RULE_INDEX &&
                !dim_has_index(v->cx, let_dim(reduce, "extent"));
    for (int k = 0; k < reduce->body->n && good; k++) {
        good = let_is_map(reduce->body->lets[k]) || reduce->body->lets[k]->op == OP_load;
    }
    if (!good) {
        verify_broken(v, 35, "joint marks a reduction that is not in lanes in a loop marked jam");
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
    if (!good || loops < 2 || loop_carries(v->cx, let)) {
        verify_broken(v, 35,
                      "jam marks a loop that is not around two loops or more, or has another "
                      "order");
    }
}

bool
has_no_gap(Cx *cx, const Let *access, const Let *inner, const Let *loop)
{
    return steps_by(cx, access, inner, dim_int(cx, 1)) &&
           steps_by(cx, access, loop, let_dim(inner, "extent"));
}

static void
check_flat(Verifier *v, const Let *let)
{
    enum { MOST_ROWS = 1024, LINE = 16 };
    const Let *inner = NULL;
    int64_t n = 0, rows = let_mark_value(let, MARK_flat);
    bool good = rows > 0 && rows <= MOST_ROWS && rows % LINE == 0 && !has_other_order(let) &&
                !(let_has(let, MARK_parallel) && let_has(let_around(let), MARK_parallel));
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
    if (!good || loop_carries(v->cx, let)) {
        verify_broken(v, 36,
                      "flat marks a loop that is not around one short vector loop with "
                      "contiguous results");
    }
}

/* ---- V37: how many iterations run at a time ---- */

/* Of what its reductions return, the widest. */
static int
bytes_of(const Let *loop)
{
    int most = 1;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        int bytes = let->op == OP_reduce ? dtype_info[let->res[0]->type->dtype].bytes : 1;
        int inside = loop_is(let) ? bytes_of(let) : 1;
        most = bytes > most ? bytes : most;
        most = inside > most ? inside : most;
    }
    return most;
}

/* A whole number of lines of the caches, as few as fit in buffers on the stack: a reduction has
 * some for each of its levels. */
static void
check_width(Verifier *v, const Let *let)
{
    enum { MOST = 4096, LINE = 16 };
    const Let *around = let_around(let);
    int64_t width = let_mark_value(let, MARK_width);
    bool ordered = let_has(around, MARK_recurrences);
    if (!(let_has(let, MARK_vector) || ordered) || width > MOST / bytes_of(let) || width % LINE) {
        verify_broken(v, 37, "width marks a loop that does not run so many iterations at a time");
    }
}

/* ---- V38: several short rows at a time ---- */

/* A let of a row's loop, or of the row itself (loop NULL). */
static bool
may_be_in_grid(Verifier *v, const Let *let, const Let *loop)
{
    if (!is_elementwise(let) && let->op != OP_bind) {
        return !loop && let->op == OP_buffer;
    }
    const Value *of = let_accesses(let) ? let->args[0] : NULL;
    return !of || !is_private(of) ||
           (loop && of->def->parent == loop->parent &&
            index_offset(v->cx, of, let_attr(let, "at")->dims) == index_of(loop) &&
            type_numel(v->cx, of->type) == let_dim(loop, "extent"));
}

/* Does the reduction multiply, subtract, cast and load alone, of dtypes that primitives for rows
 * have: f32; of a sum without a product also bf16 and f64? */
static bool
may_be_called(const Let *reduce)
{
    const Block *body = reduce->body;
    bool good = reduce->op == OP_reduce, product = false, difference = false, others = false;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        Dtype dtype = let->op == OP_load ? let->args[0]->type->dtype : DT_f32;
        good &= let->op == OP_load || let->op == OP_cast || let->op == OP_sub || let->op == OP_mul;
        good &= dtype == DT_f32 || dtype == DT_bf16 || dtype == DT_f64;
        product |= let->op == OP_mul;
        difference |= let->op == OP_sub;
        others |= dtype != DT_f32;
    }
    return good && !(others && (let_op(reduce) != OP_sum || (product && !difference)));
}

/* Do targets reduce several rows of it at a time?  Of floats these are the reductions that short
 * rows end in. */
static bool
may_reduce_rows(const Let *reduce)
{
    const Value *ret = reduce->body->nrets ? reduce->body->rets[0] : NULL;
    bool made = ret && ret->def && ret->def->parent == reduce->body;
    Dtype compute = made ? dtype_info[ret->type->dtype].compute : DT_bool;
    Op op = let_op(reduce);
    return (op == OP_sum && (compute == DT_f32 || compute == DT_f64)) ||
           ((op == OP_amax || op == OP_amin) && compute == DT_f32);
}

/* beside: the row has binds or buffers. */
static bool
is_row_of_grid(Verifier *v, const Let *rows, const Let *loop, bool beside)
{
    enum { BLOCK = 1024 };
    int64_t most = dim_range(v->cx, let_dim(loop, "extent")).hi,
            called = let_mark_value(rows, MARK_grid_called);
    bool in_call = let_has(loop, MARK_primitive);
    bool good = let_has(loop, loop->op == OP_reduce ? MARK_lanes : MARK_vector) &&
                !let_has(loop, MARK_parallel) && !dim_has_index(v->cx, let_dim(loop, "extent")) &&
                most > 1 && (loop->op == OP_for || may_reduce_rows(loop)) &&
                (in_call ? may_be_called(loop) && most <= called && most <= BLOCK
                         : most <= let_mark_value(rows, MARK_grid_row) ||
                               (loop->op == OP_for && !beside));
    for (int k = 0; k < loop->body->n && good; k++) {
        good = may_be_in_grid(v, loop->body->lets[k], loop);
    }
    return good;
}

static void
check_grid(Verifier *v, const Let *let)
{
    enum { MOST = 1024, LINE = 16 };
    int64_t grid = let_mark_value(let, MARK_grid), row = let_mark_value(let, MARK_grid_row);
    bool good = grid > 0 && grid <= MOST && grid % LINE == 0 && row > 0 && row <= grid &&
                !has_other_order(let) && !loop_carries(v->cx, let),
         beside = false;
    int loops = 0;
    for (int k = 0; k < let->body->n; k++) {
        const Let *own = let->body->lets[k];
        beside |= own->op == OP_bind || own->op == OP_buffer;
        loops += loop_is(own);
    }
    for (int k = 0; k < let->body->n && good; k++) {
        const Let *own = let->body->lets[k];
        good = loop_is(own) ? is_row_of_grid(v, let, own, beside) : may_be_in_grid(v, own, NULL);
    }
    if (!good || !loops) {
        verify_broken(v, 38, "grid marks a loop that is not around short vector loops alone");
    }
}

/* ---- V48: iterations in order ---- */

static void
check_steps(Verifier *v, const Let *loop)
{
    const Let *around = let_around(loop);
    bool alone = (Marks)let_int(loop, "marks") == MARK_steps,
         inside = around->op == OP_for && let_has(around, MARK_steps);
    if (!alone || (loop_is(around) && !inside)) {
        verify_broken(v, 48,
                      "steps marks a loop with other marks, or in a loop that is not marked so");
    }
}

void
verify_loop_marks(Verifier *v, const Let *loop)
{
    if (loop->op == OP_for && let_has(loop, MARK_steps)) {
        check_steps(v, loop);
    }
    if (let_has(loop, MARK_vector)) {
        check_vector(v, loop);
    }
    if (let_has(loop, MARK_streams)) {
        check_streams(v, loop);
    }
    if (let_has(loop, MARK_alone)) {
        check_alone(v, loop);
    }
    if (loop->op == OP_for && (let_has(loop, MARK_jam) || let_has(loop, MARK_jam_elements) ||
                               let_has(loop, MARK_jam_row))) {
        check_jam(v, loop);
    }
    if (let_has(loop, MARK_joint)) {
        check_joint(v, loop);
    }
    if (let_has(loop, MARK_grid) || let_has(loop, MARK_grid_row) ||
        let_has(loop, MARK_grid_called)) {
        check_grid(v, loop);
    }
    if (let_has(loop, MARK_width)) {
        check_width(v, loop);
    }
    if (let_has(loop, MARK_flat) || let_has(loop, MARK_flat_row)) {
        check_flat(v, loop);
    }
    verify_terms(v, loop);
    verify_primitive(v, loop);
    verify_nest(v, loop);
    if (let_has(loop, MARK_fill) || let_has(loop, MARK_hidden)) {
        verify_fill(v, loop);
    }
    if (let_has(loop, MARK_distribute)) {
        verify_distribute(v, loop);
    }
    verify_arrays(v, loop);
    verify_pipelined(v, loop);
}
